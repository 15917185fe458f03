"""gemmd on a UNIX socket, beside TCP and instead of it."""

import contextlib
import os
import pathlib
import socket
import stat
import tempfile
import time

import grpc
import harness
import numpy as np
import pytest
from harness import (
    PATIENCE,
    failure_of,
    gemm_pb2_grpc,
    gemmd_command,
    open_channel,
    product_request,
    reals,
    result_of,
    run,
    running_server,
    small_integers,
    wait_until,
)


@pytest.fixture
def path():
    # Not tmp_path, which may be too long for a socket.
    with tempfile.TemporaryDirectory(prefix="gemmd-") as folder:
        yield pathlib.Path(folder) / "gemmd.sock"


def only_unix(path, *flags):
    """A server without TCP."""
    return running_server("--listen=", f"--unix-listen={path}", *flags)


def gemmctl(path, *arguments):
    done = run([harness.BIN / "gemmctl", "--address", f"unix://{path}", *arguments])
    assert done.returncode == 0, done
    return done.stdout


def refused(path):
    """What a server says that cannot listen there."""
    done = run(gemmd_command("--listen=", f"--unix-listen={path}"))
    assert done.returncode == 1, done
    assert str(path) in done.stderr and "--unix-listen" in done.stderr, done.stderr
    return done.stderr


def leave_a_socket(path):
    """As a process that was killed does."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()


def test_beside_tcp(path):
    with running_server(f"--unix-listen={path}") as server:
        assert server.address.startswith("127.0.0.1:")
        (started,) = (r for r in server.records() if "unix_address" in r)
        assert started["unix_address"] == f"unix:{path}"
        server.check_alive()
        server.address = started["unix_address"]
        server.check_alive()


def test_instead_of_tcp(path):
    with only_unix(path) as server:
        (started,) = (r for r in server.records() if "unix_address" in r)
        assert started["grpc_address"] == ""
        assert server.address == f"unix:{path}"
        server.check_alive()
        # No socket of the process listens on a port but that of the metrics page.
        listening = {
            line.split()[9]
            for table in ("tcp", "tcp6")
            for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]
            if line.split()[3] == "0A"
        }
        own = [os.readlink(fd) for fd in pathlib.Path(f"/proc/{server.pid}/fd").iterdir()]
        assert sum(f"socket:[{inode}]" in own for inode in listening) == 1


def test_a_relative_path(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    with only_unix(path.name) as server:
        assert server.address == "unix:gemmd.sock"
        server.check_alive()


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o777])
def test_its_user_and_group_may_call(path, mask):
    before = os.umask(mask)
    try:
        with only_unix(path):
            found = path.stat()
            assert stat.S_ISSOCK(found.st_mode)
            assert stat.S_IMODE(found.st_mode) == 0o660
    finally:
        os.umask(before)


def test_it_is_gone_at_the_end(path):
    for _ in range(2):
        with only_unix(path) as server:
            assert path.exists()
            server.terminate()
            assert server.wait() == 0
            assert not path.exists()


def test_what_a_dead_server_left_is_replaced(path):
    leave_a_socket(path)
    with only_unix(path) as server:
        server.check_alive()
        server.process.kill()
        server.wait()
        assert path.exists()
    with only_unix(path) as server:
        server.check_alive()


def test_a_living_server_is_not_displaced(path):
    with only_unix(path) as server:
        assert "a server listens there already" in refused(path)
        server.check_alive()
    # Nor is one that has no time to answer.
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(path))
        busy.listen(0)
        with socket.socket(socket.AF_UNIX) as waiting:
            waiting.connect(str(path))
            assert "a server listens there already" in refused(path)


def test_another_file_is_left_alone(path):
    path.write_text("precious")
    assert "no socket" in refused(path)
    assert path.read_text() == "precious"
    path.unlink()
    path.symlink_to("/dev/null")
    assert "no socket" in refused(path)
    assert path.is_symlink()


def test_a_folder_that_is_not_there(path):
    assert "No such file or directory" in refused(path.parent / "no" / "gemmd.sock")


def test_a_failure_to_listen_on_tcp_leaves_no_file(path):
    with running_server() as server:
        done = run(gemmd_command(f"--listen={server.address}", f"--unix-listen={path}"))
    assert done.returncode == 1, done
    assert server.address in done.stderr, done.stderr
    assert not path.exists()


def test_the_longest_path(path):
    longest = str(path.parent / "s").ljust(107, "s")
    with only_unix(longest) as server:
        server.check_alive()
    done = run(gemmd_command("--listen=", f"--unix-listen={longest}s"))
    assert done.returncode == 2, done
    assert "at most 107" in done.stderr, done.stderr


def test_large_messages(path):
    a, b = reals(1, 1500, 2000), reals(2, 2000, 1500)
    with running_server(f"--unix-listen={path}") as server, open_channel(f"unix:{path}") as channel:
        over_tcp = server.multiply(product_request(a, b)).payloads[0]
        stub = gemm_pb2_grpc.GemmServiceStub(channel)
        for _ in range(3):
            assert stub.Multiply(product_request(a, b), timeout=PATIENCE).payloads[0] == over_tcp


def test_gemmctl(path, tmp_path):
    a, b = small_integers(1, 2900, 2600), small_integers(2, 2600, 80)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    with only_unix(path):
        assert gemmctl(path, "health").strip() == "SERVING"
        # A is more than a message of rows: they go over several connections.
        gemmctl(path, "put", tmp_path / "a.npy", "--name", "A", "--channels", 4)
        gemmctl(path, "put", tmp_path / "b.npy", "--name", "B")
        gemmctl(path, "multiply", "@A", "@B", "--result", "D")
        gemmctl(path, "get", "D", "-o", tmp_path / "d.npy")
        gemmctl(path, "get", "A", "-o", tmp_path / "back.npy", "--channels", 4)
        np.testing.assert_array_equal(np.load(tmp_path / "back.npy"), a)
        np.testing.assert_array_equal(np.load(tmp_path / "d.npy"), a @ b)
        batches = ("--batch", 8, "--resident", "b", "--concurrency", 4, "--channels", 4)
        few = ("--duration", "300ms", "--warmup", "0s", "--slo", "errors=0")
        gemmctl(path, "perf", "--shapes", "16x16x16", *batches, *few)
        gemmctl(path, "perf", "--upload", "40MiB", "--channels", 4, "--duration", "300ms")


def test_the_log_and_the_metrics_know_the_calls(path):
    with only_unix(path, "--log-level=debug") as server:
        server.check_alive()
        request = product_request(small_integers(1, 6, 9), small_integers(2, 9, 4))
        request.product.m = 7
        failure = failure_of(lambda: server.multiply(request))
        assert failure.code == grpc.StatusCode.INVALID_ARGUMENT
        handled = dict(grpc_method="Multiply", grpc_code="INVALID_ARGUMENT")
        wait_until(lambda: server.metric("grpc_server_handled_total", **handled) == 1, "the count")
        peers = {r["peer"] for r in server.records() if r.get("method") == "Multiply"}
        assert peers == {"unix:"}


def test_sigterm_finishes_what_is_in_flight(path):
    with only_unix(path) as server:
        a, b = small_integers(1, 2000, 2000), small_integers(2, 2000, 2000)
        calls = [server.stub.Multiply.future(product_request(a, b), timeout=PATIENCE) for _ in range(4)]
        wait_until(lambda: server.metric("gemmd_budget_used_bytes", pool="host") > 0, "a product")
        server.terminate()
        outcomes = [call.exception() for call in calls]
        answered = [call for call, error in zip(calls, outcomes) if error is None]
        assert answered  # others may have come after the end had begun
        for call in answered:
            np.testing.assert_array_equal(result_of(call.result(), 2000, 2000), a @ b)
        for error in filter(None, outcomes):
            assert error.code() == grpc.StatusCode.UNAVAILABLE, error
        assert server.wait() == 0
        assert not path.exists()


def test_open_connections_do_not_hold_the_end(path):
    with only_unix(path) as server, contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(socket.socket(socket.AF_UNIX)).connect(str(path))
        started = time.monotonic()
        server.terminate()
        assert server.wait() == 0
        assert time.monotonic() - started < (30 if harness.SANITIZED else 10)
