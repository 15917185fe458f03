"""gemmctl where it does not work: exit status 1 when the call failed, 2 for wrong usage or input that
cannot be read, and words on standard error that say what to do."""

import contextlib
import json
import socket
import ssl
import subprocess
import threading
import time

import harness
import numpy as np
import pytest
from gemmctl_calls import CALL_FAILED, UNUSABLE, assert_refused, multiply_command
from harness import clean_environment, run, small_integers


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_usage(gemmctl, folder):
    a, b, d = folder / "a.npy", folder / "b.npy", folder / "d.npy"
    for arguments in (
        [],
        ["divide"],
        ["multiply"],
        ["multiply", a],
        ["multiply", a, b],
        ["multiply", a, b, "-o", d, "--no-such-flag"],
        ["multiply", a, b, "-o", d, "--alpha", "much"],
        ["explain", "1", "2"],
        ["explain", "1", "2", "three"],
        ["explain", "1", "2", "3", "--dtype", "f8"],
    ):
        done = gemmctl(*arguments)
        assert done.returncode == UNUSABLE, (arguments, done)
        assert done.stderr.strip(), arguments
    assert not d.exists()


def test_beta_without_c(gemmctl, folder):
    done = gemmctl(
        "multiply", folder / "a.npy", folder / "b.npy", "-o", folder / "d.npy", "--beta", "1"
    )
    assert_refused(done, UNUSABLE, "--c")


def header(text, version=b"\x01\x00"):
    text = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text


GOOD_HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 9), }"

UNREADABLE = {
    "empty": b"",
    "text": b"1 2 3\n4 5 6\n",
    "zip": b"PK\x03\x04" + bytes(100),
    "magic only": b"\x93NUMPY",
    "unknown version": header(GOOD_HEADER, b"\x09\x00") + bytes(216),
    "header cut": header(GOOD_HEADER)[:40],
    "data cut": header(GOOD_HEADER) + bytes(215),
    "data too long": header(GOOD_HEADER) + bytes(217),
    "no shape": header("{'descr': '<f4', 'fortran_order': False, }") + bytes(216),
    "negative shape": header(GOOD_HEADER.replace("6", "-6")) + bytes(216),
    "huge shape": header(GOOD_HEADER.replace("6", "9223372036854775807")) + bytes(216),
    "shape beyond 64 bits": header(GOOD_HEADER.replace("6", "9" * 30)) + bytes(216),
    "not a dictionary": header("__import__('os').system('true')") + bytes(216),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_npy(gemmctl, folder, name):
    (folder / "a.npy").write_bytes(UNREADABLE[name])
    done = gemmctl("multiply", folder / "a.npy", folder / "b.npy", "-o", folder / "d.npy")
    assert_refused(done, UNUSABLE, "a.npy")
    assert not (folder / "d.npy").exists()


def test_files_that_are_not_there(gemmctl, folder):
    a, b, d = folder / "a.npy", folder / "b.npy", folder / "d.npy"
    assert_refused(gemmctl("multiply", folder / "no.npy", b, "-o", d), UNUSABLE, "no.npy")
    assert_refused(gemmctl("multiply", folder, b, "-o", d), UNUSABLE, str(folder))
    assert_refused(gemmctl("multiply", a, b, "-o", folder / "no" / "d.npy"), UNUSABLE, "d.npy")


@pytest.mark.parametrize("dtype", ["int32", "float16", "complex64", "bool", ">f4", "U3"])
def test_wrong_dtype(gemmctl, folder, dtype):
    np.save(folder / "a.npy", np.zeros((6, 9)).astype(dtype))
    done = gemmctl("multiply", folder / "a.npy", folder / "b.npy", "-o", folder / "d.npy")
    assert_refused(done, UNUSABLE, "a.npy", np.dtype(dtype).str)


def test_different_dtypes(gemmctl, folder):
    np.save(folder / "a.npy", small_integers(1, 6, 9, dtype=np.float64))
    done = gemmctl("multiply", folder / "a.npy", folder / "b.npy", "-o", folder / "d.npy")
    assert_refused(done, UNUSABLE, "f32", "f64")


@pytest.mark.parametrize("shape", [(6, 8), (9,), (), (2, 2, 6, 9)])
def test_shape_mismatch(gemmctl, folder, shape):
    np.save(folder / "a.npy", np.zeros(shape, np.float32))
    done = gemmctl("multiply", folder / "a.npy", folder / "b.npy", "-o", folder / "d.npy")
    assert_refused(done, UNUSABLE)
    assert done.stderr.strip() and not (folder / "d.npy").exists()


def test_c_of_the_wrong_shape(gemmctl, folder):
    np.save(folder / "c.npy", np.zeros((4, 6), np.float32))
    done = gemmctl(
        "multiply", folder / "a.npy", folder / "b.npy", "-o", folder / "d.npy",
        "--c", folder / "c.npy", "--beta", "1",
    )  # fmt: skip
    assert_refused(done, UNUSABLE, "c.npy")


def test_a_product_larger_than_a_message_goes_in_panels(gemmctl, folder, server):
    calls = server.metric("grpc_server_handled_total", grpc_method="Multiply", grpc_code="OK")
    a, b, c = small_integers(1, 5000, 4096), small_integers(2, 4096, 3), small_integers(3, 5000, 3)
    for name, array in [("a", a), ("b", b), ("c", c)]:
        np.save(folder / f"{name}.npy", array)
    done = gemmctl(
        "multiply", folder / "a.npy", folder / "b.npy", "-o", folder / "d.npy",
        "--c", folder / "c.npy", "--beta", "1", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done
    assert np.array_equal(np.load(folder / "d.npy"), a @ b + c)
    after = server.metric("grpc_server_handled_total", grpc_method="Multiply", grpc_code="OK")
    assert after - calls > 1
    assert json.loads(done.stdout)["request_bytes"] > a.nbytes
    assert json.loads(gemmctl("list", "--json").stdout)["matrices"] == []


def test_any_size_where_messages_are_small(folder):
    a, b = small_integers(1, 900, 900), small_integers(2, 900, 900)
    np.save(folder / "a.npy", a)
    np.save(folder / "b.npy", b)
    with harness.running_server("--message-limit=1MiB", "--host-memory=4MiB") as server:
        done = run(multiply_command(server.address, folder))
        assert done.returncode == 0, done
        assert np.array_equal(np.load(folder / "d.npy"), a @ b)
        assert server.metric("gemmd_matrices") == 0


# Whose columns cannot be cut into rows of D.
def test_message_over_the_limit(gemmctl, folder):
    np.save(folder / "a.npy", np.zeros((5000, 4096), np.float32, order="F"))
    np.save(folder / "b.npy", np.zeros((4096, 1), np.float32))
    for _ in range(5):
        started = time.monotonic()
        done = gemmctl("multiply", folder / "a.npy", folder / "b.npy", "-o", folder / "d.npy")
        assert time.monotonic() - started < (20 if harness.SANITIZED else 3)
        assert_refused(done, CALL_FAILED, "MESSAGE_TOO_LARGE", "--message-limit")
        assert not (folder / "d.npy").exists()


def test_no_server_at_the_address(folder):
    address = f"127.0.0.1:{free_port()}"
    for arguments in (
        ["multiply", folder / "a.npy", folder / "b.npy", "-o", folder / "d.npy"],
        ["info"],
        ["health"],
        ["explain", "1", "2", "3"],
    ):
        started = time.monotonic()
        done = run([harness.BIN / "gemmctl", "--address", address, *arguments])
        assert_refused(done, CALL_FAILED, address)
        assert time.monotonic() - started < 15
    assert not (folder / "d.npy").exists()


@pytest.mark.parametrize("address", ["no-such-host.invalid:50051", "127.0.0.1", ":", "127.0.0.1:x"])
def test_address_that_is_none(folder, address):
    done = run([harness.BIN / "gemmctl", "--address", address, "health"])
    assert done.returncode in (CALL_FAILED, UNUSABLE), done
    assert done.stderr.strip(), done


def test_name_that_does_not_resolve():
    done = run([harness.BIN / "gemmctl", "--address", "no-such-host.invalid:50051", "health"])
    assert_refused(done, CALL_FAILED, "no-such-host.invalid:50051 cannot be found")


def health_at(address, *flags, **environment):
    command = [harness.BIN / "gemmctl", "--address", address, "--timeout", "3s", "--retries", "0"]
    started = time.monotonic()
    done = run([*command, *flags, "health"], clean_environment(**environment))
    assert time.monotonic() - started < 10
    return done


@contextlib.contextmanager
def answering(answer):
    """A port where each connection is given to `answer`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    with listener.accept()[0] as connection:
                        answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_port_that_says_nothing():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        assert_refused(health_at(address), CALL_FAILED, f"no gRPC server answered at {address}")


def test_port_that_speaks_something_else():
    with answering(lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")) as address:
        done = health_at(address)
    assert_refused(done, CALL_FAILED, f"{address} speaks something else than gRPC")


def test_port_that_expects_tls():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # no certificate: it never comes to that

    def answer(connection):
        with contextlib.suppress(ssl.SSLError, OSError):
            context.wrap_socket(connection, server_side=True)

    with answering(answer) as address:
        assert_refused(health_at(address), CALL_FAILED, address, "TLS")


def test_metrics_port_instead_of_the_service(server):
    done = health_at(server.metrics_address)
    assert_refused(done, CALL_FAILED, f"{server.metrics_address} speaks HTTP but not gRPC")
    assert "metrics port" in done.stderr, done


def test_proxy_that_is_used_on_request_and_in_the_way():
    def answer(connection):
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    with answering(answer) as proxy:
        done = health_at("192.0.2.1:50051", "--use-http-proxy", http_proxy=f"http://{proxy}")
    assert_refused(done, CALL_FAILED, "the proxy that http_proxy names", "403")


def test_failures_as_json():
    done = run([harness.BIN / "gemmctl", "--address", "127.0.0.1:1", "--retries", "0", "info", "--json"])
    assert_refused(done, CALL_FAILED, "no server listens at 127.0.0.1:1")
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "UNAVAILABLE" and error["reason"] == "", error
    assert error["message"] in done.stderr


def test_standard_output_that_is_full(server):
    # As of a file on a full disk. What fails after that has its own status.
    for address, status in ((server.address, UNUSABLE), ("127.0.0.1:1", CALL_FAILED)):
        command = [harness.BIN / "gemmctl", "--address", address, "--retries", "0", "info", "--json"]
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run(
                command,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=harness.PATIENCE,
                check=False,
                env=clean_environment(),
            )
        assert done.returncode == status, done
        assert "standard output cannot be written: No space left on device" in done.stderr, done


def test_server_that_is_draining(folder):
    with harness.running_server("--drain-window=3s") as server:
        server.terminate()
        health = [harness.BIN / "gemmctl", "--address", server.address, "health"]
        harness.wait_until(lambda: "NOT_SERVING" in run(health).stdout, "NOT_SERVING")
        assert run(health).returncode == CALL_FAILED
        assert server.wait() == 0


def test_closed_standard_output(gemmctl):
    command = [harness.BIN / "gemmctl", "--help"]
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode in (0, 1, 2), done
