"""Matrices that stay on the server: what is put there comes back, and is an operand wherever an
array is."""

import gc
import itertools
import threading
import time

import grpc
import harness
import numpy as np
import pytest
from fake_server import refuse, store_server
from harness import MIB, reals, running_server, small_integers, wait_until
from test_concurrency import run_python
from test_layouts import LAYOUTS, misaligned, read_only

import gemmd
from gemmd import _contract


@pytest.fixture(scope="module")
def small_messages():
    """A server whose messages are small, so that everything takes several."""
    with running_server("--message-limit=1MiB") as server:
        yield server


@pytest.fixture
def client(small_messages):
    with gemmd.Client(small_messages.address) as client:
        yield client
        gc.collect()
    small_messages.check_alive()


def names(client):
    return [info.name for info in client.matrices()]


def calls_of(client, monkeypatch):
    """The methods that the client calls from now on."""
    called = []
    original = client._transport.call

    def call(method, *arguments, **options):
        called.append(method)
        return original(method, *arguments, **options)

    monkeypatch.setattr(client._transport, "call", call)
    return called


# There and back.

SHAPES = [(1, 1), (3, 700), (700, 3), (1000, 900), (0, 5), (5, 0), (0, 0)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_there_and_back(client, shape, dtype):
    array = reals(1, *shape, dtype=dtype)
    with client.put(array) as matrix:
        assert (matrix.shape, matrix.dtype, matrix.nbytes) == (shape, array.dtype, array.nbytes)
        assert len(matrix) == shape[0] and matrix.ndim == 2
        info = matrix.info()
        assert info.sealed and info.shape == shape and info.dtype == array.dtype.name
        assert info.rows_written == shape[0]
        for back in (matrix.get(), np.asarray(matrix)):
            assert back.dtype == dtype and back.flags.writeable and back.flags.c_contiguous
            np.testing.assert_array_equal(back, array)
        np.testing.assert_array_equal(matrix.T.get(), array.T)
    assert names(client) == []


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(client, name):
    array = reals(1, 600, 500)
    matrix = client.put(LAYOUTS[name](array))
    assert matrix.get().tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "lay_out",
    [misaligned, read_only, lambda x: x.astype(">f4"), lambda x: x.astype(float).tolist()],
)
def test_other_arrays(client, lay_out):
    array = small_integers(1, 60, 50)
    np.testing.assert_array_equal(client.put(lay_out(array)).get(), array)


def test_conversion(client):
    array = small_integers(1, 6, 5)
    matrix = client.put(array)
    assert np.asarray(matrix, np.float64).dtype == np.float64
    np.testing.assert_array_equal(np.array(matrix), array)
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        with pytest.raises(ValueError, match="without a copy"):
            np.asarray(matrix, copy=False)
    assert "6 x 5 float32" in repr(matrix) and matrix.name in repr(matrix)


def test_out(client):
    array = reals(1, 900, 400)
    matrix = client.put(array)
    wide = np.full((900, 900), np.nan, np.float32)
    out = wide[:, ::2][:, :400]
    assert matrix.get(out=out) is out
    np.testing.assert_array_equal(out, array)
    assert np.isnan(wide[:, 1::2]).all()
    tall = np.empty((400, 900), np.float32)
    matrix.T.get(out=tall)
    np.testing.assert_array_equal(tall, array.T)
    for bad in (np.empty((900, 400)), np.empty((400, 900), np.float32), read_only(array)):
        with pytest.raises(gemmd.InvalidArgument):
            matrix.get(out=bad)


def test_progress(client):
    array, seen = reals(1, 1000, 1000), []
    matrix = client.put(array, progress=lambda *done: seen.append(done))
    assert seen[-1] == (array.nbytes, array.nbytes) and len(seen) == 4
    assert seen == sorted(seen) and {total for _, total in seen} == {array.nbytes}
    seen.clear()
    matrix[100:].get(progress=lambda *done: seen.append(done))
    assert seen[-1] == (900 * 4000, 900 * 4000) and seen == sorted(seen)


# Views.


def test_rows(client):
    array = reals(1, 50, 20)
    matrix = client.put(array)
    for rows in (
        slice(10, 20),
        slice(None),
        slice(-5, None),
        slice(3, 400),
        slice(7, 7),
        slice(9, 2),
    ):
        for found in (matrix[rows], matrix[rows, :], matrix.T[:, rows].T):
            assert found.shape == array[rows].shape
            np.testing.assert_array_equal(found.get(), array[rows])
        np.testing.assert_array_equal(matrix.T[:, rows].get(), array.T[:, rows])
    np.testing.assert_array_equal(matrix[10:40][5:10][1].get(), array[16:17])
    np.testing.assert_array_equal(matrix[-1].get(), array[-1:])
    np.testing.assert_array_equal(matrix[np.int64(3)].get(), array[3:4])
    assert matrix[3].T.shape == (20, 1)


BAD_INDICES = [
    (slice(None, None, 2), "step 2"),
    (slice(None, None, -1), "step -1"),
    ((slice(None), slice(3)), "only rows"),
    ((slice(None), 3), "only rows"),
    ((0, 0, 0), "3 indices"),
    (1.5, "type float"),
    (np.arange(3), "type ndarray"),
]


@pytest.mark.parametrize(("index", "words"), BAD_INDICES)
def test_views_that_there_are_not(client, index, words):
    with client.put(small_integers(1, 5, 4)) as matrix:
        with pytest.raises(gemmd.InvalidArgument, match=words) as caught:
            matrix[index]
        assert caught.value.field == "index"
        with pytest.raises(gemmd.InvalidArgument, match="columns of a transpose"):
            matrix.T[1:2]
        for beyond in (5, -6):
            with pytest.raises(IndexError):
                matrix[beyond]
        assert len(list(matrix)) == 5  # By IndexError an iteration ends.


# Products.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products(client, dtype):
    m, n, k = 30, 20, 40
    a, b, c = (
        small_integers(seed, *shape, dtype=dtype)
        for seed, shape in enumerate([(m, k), (k, n), (m, n)])
    )
    whole = client.put(
        np.vstack([np.full((3, k), np.nan, dtype), a, np.full((3, k), np.nan, dtype)])
    )
    on_server = {
        "a": [a, client.put(a), client.put(a.T.copy()).T, whole[3:-3]],
        "b": [b, client.put(b), client.put(b.T.copy()).T],
        "c": [None, c, client.put(c), client.put(np.vstack([c, c]))[m:]],
    }
    for left, right, addend in itertools.product(*on_server.values()):
        want = 2 * (a @ b) + (0 if addend is None else -1 * c)
        beta = 0 if addend is None else -1
        found = client.matmul(left, right, alpha=2, c=addend, beta=beta)
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, want)
        kept = client.matmul(left, right, alpha=2, c=addend, beta=beta, keep=True)
        assert isinstance(kept, gemmd.Matrix)
        np.testing.assert_array_equal(kept.get(), want)
        if isinstance(left, gemmd.Matrix) or isinstance(right, gemmd.Matrix):
            assert isinstance(left @ right, gemmd.Matrix)
            np.testing.assert_array_equal(left @ right, a @ b)
    np.testing.assert_array_equal(whole[3:-3] @ whole[3:-3].T, a @ a.T)


def test_batches_and_vectors(client):
    a, b = small_integers(1, 4, 6, 5), small_integers(2, 5, 3)
    matrix = client.put(b)
    np.testing.assert_array_equal(client.matmul(a, matrix), a @ b)
    np.testing.assert_array_equal(client.matmul(matrix.T, a.swapaxes(1, 2)), b.T @ a.swapaxes(1, 2))
    np.testing.assert_array_equal(client.matmul(a[0, 0], matrix), a[0, 0] @ b)
    np.testing.assert_array_equal(client.matmul(matrix, b[0]), b @ b[0])
    for left, right in ((a, matrix), (a[0, 0], matrix), (matrix, b[0])):
        with pytest.raises(gemmd.InvalidArgument, match="two dimensions"):
            left @ right


def test_empty_products(client):
    full, wide, tall = (client.put(np.ones(shape)) for shape in [(4, 4), (0, 4), (4, 0)])
    for left, right in itertools.product([full, wide, tall, full[2:2]], [full, wide.T, tall, wide]):
        if left.shape[1] == right.shape[0]:
            want = np.asarray(left) @ np.asarray(right)
            np.testing.assert_array_equal(left @ right, want)
            np.testing.assert_array_equal(client.matmul(left, right), want)
    # No row of a matrix that has some: k is 0.
    np.testing.assert_array_equal(client.matmul(np.ones((4, 0)), full[1:1]), np.zeros((4, 4)))


def test_a_chain_stays_on_the_server(client, monkeypatch):
    a, b, c = (small_integers(seed, 40, 40) for seed in range(3))
    first, second = client.put(b), client.put(c)
    called = calls_of(client, monkeypatch)
    result = (a @ first) @ second
    assert called == [_contract.MULTIPLY] * 2
    np.testing.assert_array_equal(np.asarray(result), a @ b @ c)
    assert called[2:].count(_contract.READ_ROWS) == 1


def test_larger_than_a_message(client):
    """Operands and results alike."""
    a, b = small_integers(1, 1200, 900), small_integers(2, 900, 800)
    with client.matmul(a, b, keep=True) as kept:
        np.testing.assert_array_equal(kept, a @ b)
    with client.matmul(a, a.T, keep=True) as kept, client.put(a) as on_server:
        np.testing.assert_array_equal(kept, a @ a.T)
        np.testing.assert_array_equal((on_server @ on_server.T) @ a, a @ a.T @ a)
        np.testing.assert_array_equal(
            client.matmul(b, b[:800], c=a[:900, :800]), b @ b[:800] + a[:900, :800]
        )
    wait_until(lambda: names(client) == [], "temporary matrices to go")


# Names and lives.


def test_without_a_name_it_lives_as_long_as_its_handles(client):
    matrix = client.put(small_integers(1, 6, 5))
    view = matrix[2:4].T
    del matrix
    gc.collect()
    time.sleep(0.1)
    assert names(client) == [view.name]
    result = view.T @ small_integers(2, 5, 4)
    left = [result.name]
    del view
    gc.collect()
    wait_until(lambda: names(client) == left, "the operand to go")
    del result
    gc.collect()
    wait_until(lambda: names(client) == [], "the result to go")


def test_with_a_name_it_stays(client, small_messages):
    array = small_integers(1, 6, 5)
    client.put(array, name="weights")
    client.matmul(array, array.T, keep="gram")
    gc.collect()
    with gemmd.Client(small_messages.address) as other:
        assert names(other) == ["gram", "weights"]
        with other.get_matrix("weights") as weights, other.get_matrix("gram") as gram:
            assert weights.shape == (6, 5) and weights.dtype == np.float32
            np.testing.assert_array_equal(gram @ weights, array @ array.T @ array)
    assert names(client) == []


def test_close_deletes(small_messages):
    client = gemmd.Client(small_messages.address)
    unnamed = [client.put(small_integers(1, 6, 5)) for _ in range(20)]
    client.put(small_integers(1, 6, 5), name="stays")
    client.close()
    with pytest.raises(gemmd.Cancelled):
        unnamed[0].get()
    with gemmd.Client(small_messages.address) as other:
        assert names(other) == ["stays"]
        other.get_matrix("stays").delete()


def test_an_error_inside_with_deletes_too(client):
    with pytest.raises(ZeroDivisionError), client.put(small_integers(1, 6, 5), name="mine"):
        raise ZeroDivisionError
    wait_until(lambda: names(client) == [], "it to go")


def test_deleted(client):
    array = small_integers(1, 6, 5)
    matrix = client.put(array)
    view = matrix[1:]
    matrix.delete()
    matrix.delete()
    for use in (lambda: view @ array.T, lambda: client.matmul(array, view.T), view.get):
        with pytest.raises(gemmd.MatrixNotFound, match="deleted") as caught:
            use()
        assert isinstance(caught.value, LookupError) and caught.value.reason == "MATRIX_NOT_FOUND"
    with pytest.raises(gemmd.MatrixNotFound):
        client.get_matrix(matrix.name)


def test_taken_names(client):
    array = small_integers(1, 6, 5)
    with client.put(array, name="taken") as taken:
        for use in (
            lambda: client.put(array + 1, name="taken"),
            lambda: client.put(array[:2], name="taken"),
            lambda: client.put(array[:2], name="taken", exist_ok=True),
            lambda: client.matmul(array, array.T, keep="taken"),
        ):
            with pytest.raises(gemmd.MatrixExists) as caught:
                use()
            assert caught.value.reason == "MATRIX_EXISTS" and "another name" in caught.value.hint
        again = client.put(array, name="taken", exist_ok=True)
        np.testing.assert_array_equal(again.get(), taken.get())


def test_bad_arguments(client):
    array = small_integers(1, 6, 5)
    for bad in (array[0], array[np.newaxis], np.float32(1)):
        with pytest.raises(gemmd.InvalidArgument, match="dimensions"):
            client.put(bad)
    for name in ("", "a b", "x" * 129, "ä"):
        with pytest.raises(gemmd.InvalidArgument, match="1 to 128") as caught:
            client.put(array, name=name)
        assert caught.value.field == "name"
        with pytest.raises(gemmd.InvalidArgument, match="1 to 128"):
            client.matmul(array, array.T, keep=name)
    for ttl in (0, -1, float("nan"), 1e30):
        with pytest.raises(gemmd.InvalidArgument, match="ttl"):
            client.put(array, ttl=ttl)
    with pytest.raises(TypeError):
        client.put(array.astype(int))
    with pytest.raises(TypeError):
        client.put(array, name=3)
    with pytest.raises(TypeError):
        client.matmul(array, array.T, keep=3)
    with pytest.raises(gemmd.InvalidArgument, match="out"):
        client.matmul(array, array.T, keep=True, out=np.empty((6, 6), np.float32))
    matrix = client.put(array)
    with pytest.raises(gemmd.InvalidType, match="float64 but a has float32"):
        matrix @ np.ones((5, 2))
    with pytest.raises(gemmd.InvalidArgument, match="do not multiply"):
        matrix @ matrix
    with pytest.raises(gemmd.InvalidArgument, match="does not broadcast"):
        client.matmul(array, array.T, c=matrix)
    with pytest.raises(gemmd.InvalidArgument, match="transpose"):
        client.matmul(array, array[:5].T, c=client.put(small_integers(1, 5, 6)).T)
    with gemmd.Client("127.0.0.1:1") as elsewhere:
        with pytest.raises(gemmd.InvalidArgument, match="is a matrix on"):
            elsewhere.matmul(array, matrix.T)


def test_many_matrices_are_listed(client):
    """Over a page of the server's."""
    matrices = [client.put(np.ones((1, 1))) for _ in range(1010)]
    listed = client.matrices()
    assert len(listed) == 1010 and [each.name for each in listed] == sorted(
        m.name for m in matrices
    )


def test_expiry(client):
    array = small_integers(1, 6, 5)
    matrix, other = client.put(array, ttl=0.2), client.put(array, ttl=0.2, keep_source=False)
    assert matrix.info().ttl == pytest.approx(0.2)
    time.sleep(0.5)
    assert names(client) == []
    np.testing.assert_array_equal(matrix @ array.T, array @ array.T)  # It was sent again.
    with pytest.raises(gemmd.MatrixNotFound, match="no array to send again"):
        other.get()


# What the server refuses.


def test_quotas():
    array = np.ones((600, 600), np.float32)
    with running_server("--matrix-quota=2MiB") as server, gemmd.Client(server.address) as client:
        first = client.put(array)
        with pytest.raises(gemmd.QuotaExceeded) as caught:
            client.put(array)
        assert isinstance(caught.value, gemmd.ResourceExhausted)
        assert "delete" in caught.value.hint and "--matrix-quota" in caught.value.hint
        with pytest.raises(gemmd.QuotaExceeded):
            first @ first
        first.delete()
        second = client.put(array)
        del second  # What is on its way out is waited for.
        third = client.put(array)
        del third
        np.testing.assert_array_equal(client.put(array).get(), array)
    with running_server("--matrix-memory=1MiB") as server, gemmd.Client(server.address) as client:
        with pytest.raises(gemmd.ResourceExhausted) as caught:
            client.put(array)
        assert caught.value.reason == "MEMORY_TOO_SMALL" and "--matrix-memory" in caught.value.hint


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
