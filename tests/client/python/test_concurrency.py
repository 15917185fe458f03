"""Threads, processes, Ctrl-C, closing, and many clients."""

import gc
import multiprocessing
import os
import pathlib
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time

import harness
import numpy as np
import pytest
from fake_server import fake_server
from harness import small_integers

import gemmd

A, B = small_integers(1, 6, 9), small_integers(2, 9, 4)


def test_threads_share_a_client(client):
    failures = []

    def work(seed):
        generator = np.random.default_rng(seed)
        try:
            for _ in range(40):
                m, n, k = generator.integers(1, 200, 3)
                a, b = small_integers(seed, m, k), small_integers(seed + 1, k, n)
                np.testing.assert_array_equal(client.matmul(a, b), a @ b)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_closed_client(server):
    client = gemmd.Client(server.address)
    client.health()
    client.close()
    client.close()
    for call in (client.health, client.info, lambda: client.matmul(A, B)):
        with pytest.raises(gemmd.Cancelled, match="closed"):
            call()


def test_closing_ends_the_calls_of_other_threads():
    gate = threading.Event()
    with fake_server(lambda *_: gate.wait(harness.PATIENCE) and b"") as server:
        client = gemmd.Client(server.address)
        failures = []

        def work():
            try:
                client.matmul(A, B)
            except BaseException as failure:
                failures.append(failure)

        thread = threading.Thread(target=work)
        thread.start()
        assert server.started.wait(harness.PATIENCE)
        client.close()
        thread.join(harness.PATIENCE)
        gate.set()
        assert [type(failure) for failure in failures] == [gemmd.Cancelled]


def run_python(code, *arguments):
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_until_asleep(process):
    """Until its main thread waits for the reply. An interrupt just before, while gRPC begins a call
    that the server may have seen already, makes gRPC forget the call."""
    states = []

    def asleep():
        stat = pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8")
        states.append(stat.rpartition(")")[2].split()[0])
        return states[-5:] == ["S"] * 5

    harness.wait_until(asleep, "the client to wait")


@pytest.mark.parametrize("size", [1, 1400])
def test_ctrl_c_ends_a_call(size):
    """It raises at once, and the server sees the call cancelled."""
    gate = threading.Event()
    with fake_server(lambda *_: gate.wait(harness.PATIENCE) and b"") as server:
        process = run_python(
            """
            import sys
            import gemmd, numpy as np
            size = int(sys.argv[2])
            matrix = np.ones((size, size))
            with gemmd.Client(sys.argv[1]) as client:
                try:
                    client.matmul(matrix, matrix)
                except KeyboardInterrupt:
                    print("interrupted", flush=True)
                    sys.stdin.readline()  # The call must be gone before the client is.
            """,
            server.address,
            str(size),
        )
        assert server.started.wait(harness.PATIENCE)
        wait_until_asleep(process)
        assert not server.cancelled.is_set()
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert time.monotonic() - start < 2.0
        assert server.cancelled.wait(harness.PATIENCE)
        gate.set()
        process.communicate("\n", timeout=harness.PATIENCE)
        assert process.returncode == 0


def test_ctrl_c_ends_the_wait_between_attempts():
    process = run_python(
        """
        import gemmd
        with gemmd.Client("127.0.0.1:1", max_retries=1, backoff_initial=1e3, backoff_limit=1e3,
                          timeout=1e4) as client:
            print("calling", flush=True)
            try:
                client.health()
            except KeyboardInterrupt:
                print("interrupted", flush=True)
        """
    )
    assert process.stdout.readline() == "calling\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    assert process.wait(harness.PATIENCE) == 0


def test_ctrl_c_uncaught_ends_the_program():
    gate = threading.Event()
    with fake_server(lambda *_: gate.wait(harness.PATIENCE) and b"") as server:
        process = run_python(
            """
            import sys, gemmd, numpy as np
            with gemmd.Client(sys.argv[1]) as client:
                client.matmul(np.ones((3, 3)), np.ones((3, 3)))
            """,
            server.address,
        )
        assert server.started.wait(harness.PATIENCE)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=harness.PATIENCE)
        gate.set()
        assert process.returncode == -signal.SIGINT
        assert output.rstrip().endswith("KeyboardInterrupt")


def test_a_client_does_not_cross_a_fork(server):
    with gemmd.Client(server.address) as client:
        np.testing.assert_array_equal(client.matmul(A, B), A @ B)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                client.matmul(A, B)
                said = "no error"
            except BaseException as failure:
                said = f"{type(failure).__name__}: {failure}"
            os.write(writing, said.encode())
            os._exit(0)
        os.close(writing)
        os.waitpid(child, 0)
        assert "make a client in each process" in os.read(reading, 1000).decode()
        os.close(reading)
        np.testing.assert_array_equal(client.matmul(A, B), A @ B)


def product_in_a_process(address):
    with gemmd.Client(address) as client:
        return client.matmul(A, B)


def test_process_pools(server):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for d in pool.map(product_in_a_process, [server.address] * 4):
            np.testing.assert_array_equal(d, A @ B)


def resident_bytes():
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)[1]) * 1024


def test_ten_thousand_clients(server):
    """Made and destroyed, half of them closed and half forgotten: memory stays flat, and so do
    threads and files."""

    def use_clients(count):
        for number in range(count):
            client = gemmd.Client(server.address)
            client.matmul(A, B)
            if number % 2:
                client.close()
        gc.collect()
        return resident_bytes()

    warm = use_clients(1000)
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    end = use_clients(9000)
    assert end - warm < 9000 * 512, f"{warm} bytes after 1000 clients, {end} after 10000"
    assert threading.active_count() <= threads + 2
    assert len(os.listdir("/proc/self/fd")) <= files + 8


def test_products_leave_no_memory_behind(client):
    a, b = small_integers(1, 512, 512), small_integers(2, 512, 512)

    def multiply(count):
        for _ in range(count):
            client.matmul(a, b)
        gc.collect()
        return resident_bytes()

    warm = multiply(50)
    assert multiply(200) - warm < 16 * harness.MIB
