"""Matrices on servers that fail, uploads that break off, and threads that share a matrix."""

import gc
import threading
import time

import grpc
import harness
import numpy as np
import pytest
from fake_server import refuse, store_server
from harness import MIB, reals, running_server, small_integers, wait_until
from test_concurrency import run_python
from test_matrix_lives import names

import gemmd


# So small that everything takes several messages.
SERVER_FLAGS = ["--message-limit=1MiB"]


# Uploads that break off.


def test_an_upload_that_is_interrupted(client):
    array = reals(1, 1000, 1000)

    def stop(done, total):
        if 0 < done < total:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        client.put(array, progress=stop)
    gc.collect()
    wait_until(lambda: names(client) == [], "the half to go")
    with gemmd.Client(client.address, channels=1) as other, pytest.raises(ZeroDivisionError):
        other.put(array, name="half", progress=stop)
    with client.get_matrix("half") as half:
        assert not half.info().sealed and half.info().rows_written < 1000
        for use in (half.get, lambda: half @ array):
            with pytest.raises(gemmd.MatrixNotSealed) as caught:
                use()
            assert "exist_ok" in caught.value.hint
        with pytest.raises(gemmd.MatrixExists):
            client.put(array, name="half")
        client.put(array, name="half", exist_ok=True)
        np.testing.assert_array_equal(half.get(), array)


def test_ctrl_c_ends_an_upload():
    gate, second = threading.Event(), threading.Event()

    def wait_with_rows(name, _request, _context, count):
        if name == "WriteRows" and count > 0:
            second.set()
            gate.wait(harness.PATIENCE)

    with store_server(wait_with_rows) as store:
        process = run_python(
            """
            import sys
            import gemmd, numpy as np
            with gemmd.Client(sys.argv[1], message_limit_bytes=1 << 20, channels=3) as client:
                try:
                    client.put(np.ones((1000, 1000), np.float32))
                except KeyboardInterrupt:
                    print("interrupted", flush=True)
                    sys.stdin.readline()
            """,
            store.address,
        )
        assert second.wait(harness.PATIENCE)
        start = time.monotonic()
        process.send_signal(2)
        assert process.stdout.readline() == "interrupted\n"
        assert time.monotonic() - start < 2.0
        assert store.server.cancelled.wait(harness.PATIENCE)
        gate.set()
        process.communicate("\n", timeout=harness.PATIENCE)
        assert process.returncode == 0
        assert store.matrices == {}


# Servers that fail.


def test_rows_that_do_not_get_through_at_once():
    """Each is refused twice, for one reason or another; the whole arrives."""

    def refuse_twice(name, _request, context, count):
        if name == "WriteRows" and count % 3:
            reason = ["MATRIX_BUSY", "QUEUE_FULL"][count % 2]
            refuse(context, grpc.StatusCode.UNAVAILABLE, "not now", reason, 0.001)

    array = reals(1, 2000, 1000)
    with store_server(refuse_twice) as store:
        with gemmd.Client(
            store.address, message_limit_bytes=MIB, max_retries=50, backoff_initial=0.001
        ) as client:
            matrix = client.put(array)
            np.testing.assert_array_equal(store.matrices[matrix.name][0], array)
            assert len(set(store.writes)) == len(store.writes) == 8
            assert {count for _, _, count in store.writes} == {261, 2000 - 7 * 261}
            np.testing.assert_array_equal(matrix.get(), array)


def test_a_server_that_loses_matrices_during_an_upload():
    array = reals(1, 2000, 1000)
    with store_server() as store:

        def forget_once(name, _request, _context, count):
            if name == "WriteRows" and count == 4:
                store.forget_all()

        store.interfere = forget_once
        with gemmd.Client(store.address, message_limit_bytes=MIB) as client:
            matrix = client.put(array)
            np.testing.assert_array_equal(store.matrices[matrix.name][0], array)
            assert store.calls("CreateMatrix") == 2

        # But not for ever.
        store.interfere = lambda name, *_: store.forget_all() if name == "WriteRows" else None
        with gemmd.Client(store.address) as client, pytest.raises(gemmd.MatrixNotFound):
            client.put(array)


def test_an_array_that_was_changed_is_not_sent_again():
    array = reals(1, 1000, 1000)
    with store_server() as store, gemmd.Client(store.address, message_limit_bytes=MIB) as client:
        matrix = client.put(array)
        store.forget_all()
        np.testing.assert_array_equal(matrix[5:7].get(), array[5:7])
        array[999, 999] += 1
        np.testing.assert_array_equal(matrix[5:7].get(), array[5:7])  # Which is still there.
        store.forget_all()
        for use in (matrix.get, lambda: client.matmul(array, matrix)):
            with pytest.raises(gemmd.MatrixNotFound, match="has been changed"):
                use()
        wait_until(lambda: store.matrices == {}, "the part that was sent to go")
        (failure,) = client.matmul_many([(array[:2], matrix)], return_exceptions=True)
        assert isinstance(failure, gemmd.MatrixNotFound)


def test_a_restart():
    a, b = small_integers(1, 700, 700), small_integers(2, 700, 700)
    with running_server() as first:
        address = first.address
        client = gemmd.Client(address, max_retries=20, backoff_limit=0.5)
        matrix, result = client.put(b), client.matmul(a, b, keep=True)
        found = client.get_matrix(matrix.name)
    with running_server(f"--listen={address}"), client:
        np.testing.assert_array_equal(client.matmul(a, matrix), a @ b)
        np.testing.assert_array_equal(found.get(), b)  # The same matrix, by another handle.
        for use in (result.get, lambda: result @ b):
            with pytest.raises(gemmd.MatrixNotFound, match="no array to send again") as caught:
                use()
            assert "again" in caught.value.hint


# Threads.


def test_threads_share_matrices(client):
    b = small_integers(1, 300, 300)
    shared = client.put(b)
    failures = []

    def work(seed):
        try:
            for round_ in range(8):
                a = small_integers(seed + round_, 300, 300)
                mine = client.put(a)
                np.testing.assert_array_equal(mine @ shared, a @ b)
                np.testing.assert_array_equal(client.matmul(shared, mine), b @ a)
                np.testing.assert_array_equal(mine[:100].get(), a[:100])
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(100 * seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    gc.collect()
    wait_until(lambda: names(client) == [shared.name], "the others to go")


def test_threads_that_find_a_matrix_lost_send_it_once():
    """Meanwhile it is there in part, which the others wait for."""
    array, few = reals(1, 2000, 500), np.ones((1, 2000), np.float32)
    want = few @ array
    with (
        store_server() as store,
        gemmd.Client(store.address, message_limit_bytes=MIB, channels=2) as client,
    ):
        matrix = client.put(array)
        store.interfere = lambda name, *_: time.sleep(0.05) if name == "WriteRows" else None
        uses = [
            lambda: np.testing.assert_array_equal(matrix.get(), array),
            lambda: np.testing.assert_allclose(client.matmul(few, matrix), want, rtol=1e-4, atol=1),
            lambda: np.testing.assert_array_equal(matrix[1900:].get(), array[1900:]),
            lambda: np.testing.assert_allclose(
                client.matmul_many([(few, matrix)] * 3), [want] * 3, rtol=1e-4, atol=1
            ),
        ]
        failures = []

        def work(delay, use):
            time.sleep(delay)
            try:
                use()
            except BaseException as failure:
                failures.append(failure)

        store.forget_all()
        threads = [
            threading.Thread(target=work, args=(0.03 * index, use))
            for index, use in enumerate(uses * 2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert store.calls("CreateMatrix") == 2
