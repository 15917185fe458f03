"""gemmctl as a person or a script uses it: exit status 0 when it worked, 1 when the call failed,
2 for wrong usage or input that cannot be read, and words on standard error that say what to do."""

import json
import socket
import subprocess
import time

import harness
import numpy as np
import pytest
from harness import clean_environment, reals, run, small_integers

CALL_FAILED = 1
UNUSABLE = 2


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "a.npy", small_integers(1, 6, 9))
    np.save(tmp_path / "b.npy", small_integers(2, 9, 4))
    np.save(tmp_path / "c.npy", small_integers(3, 6, 4))
    return tmp_path


def assert_refused(done, status, *words):
    assert done.returncode == status, done
    for word in words:
        assert word in done.stderr, done.stderr


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


# What works


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("transpose_a, transpose_b", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_multiply(gemmctl, folder, dtype, transpose_a, transpose_b):
    a, b, c = reals(1, 33, 70, dtype=dtype), reals(2, 70, 21, dtype=dtype), reals(3, 33, 21, dtype=dtype)
    np.save(folder / "a.npy", np.ascontiguousarray(a.T) if transpose_a else a)
    np.save(folder / "b.npy", np.ascontiguousarray(b.T) if transpose_b else b)
    np.save(folder / "c.npy", c)
    flags = ["--transpose-a"] * transpose_a + ["--transpose-b"] * transpose_b
    done = gemmctl(
        "multiply", folder / "a.npy", folder / "b.npy", "-o", folder / "d.npy",
        "--c", folder / "c.npy", "--alpha", "-1.5", "--beta", "2", *flags,
    )  # fmt: skip
    assert done.returncode == 0, done
    d = np.load(folder / "d.npy")
    assert d.dtype == dtype
    np.testing.assert_allclose(d, -1.5 * (a @ b) + 2 * c, rtol=0, atol=100 * np.finfo(dtype).eps)


def test_column_major_file(gemmctl, folder):
    a, b = small_integers(1, 6, 9), small_integers(2, 9, 4)
    np.save(folder / "a.npy", np.asfortranarray(a))
    np.save(folder / "b.npy", np.asfortranarray(b))
    done = gemmctl("multiply", folder / "a.npy", folder / "b.npy", "-o", folder / "d.npy")
    assert done.returncode == 0, done
    np.testing.assert_array_equal(np.load(folder / "d.npy"), a @ b)


def test_multiply_as_json(gemmctl, folder):
    done = gemmctl("multiply", folder / "a.npy", folder / "b.npy", "-o", folder / "d.npy", "--json")
    assert done.returncode == 0, done
    report = json.loads(done.stdout)
    assert report["kernel"] and report["device"]
    assert report["server_seconds"]["compute"] > 0


def test_output_may_replace_an_input(gemmctl, folder):
    a, b = small_integers(1, 6, 6), small_integers(2, 6, 6)
    np.save(folder / "a.npy", a)
    np.save(folder / "b.npy", b)
    done = gemmctl("multiply", folder / "a.npy", folder / "b.npy", "-o", folder / "a.npy")
    assert done.returncode == 0, done
    np.testing.assert_array_equal(np.load(folder / "a.npy"), a @ b)


def test_empty_matrices(gemmctl, folder):
    np.save(folder / "a.npy", np.zeros((6, 0), np.float32))
    np.save(folder / "b.npy", np.zeros((0, 4), np.float32))
    done = gemmctl("multiply", folder / "a.npy", folder / "b.npy", "-o", folder / "d.npy")
    assert done.returncode == 0, done
    np.testing.assert_array_equal(np.load(folder / "d.npy"), np.zeros((6, 4)))


def test_info_health_explain(gemmctl):
    info = gemmctl("info", "--json")
    assert info.returncode == 0, info
    assert json.loads(info.stdout)["message_limit_bytes"] == 64 << 20
    assert "cpu" in gemmctl("info").stdout
    health = gemmctl("health")
    assert health.returncode == 0 and "SERVING" in health.stdout, health
    explain = gemmctl("explain", "1000", "1000", "1000")
    assert explain.returncode == 0 and explain.stdout.strip(), explain
    assert gemmctl("explain", "10", "10", "10", "--dtype", "f64").returncode == 0


def test_it_ends_when_it_is_done(gemmctl, folder):
    for _ in range(10):
        started = time.monotonic()
        done = gemmctl("multiply", folder / "a.npy", folder / "b.npy", "-o", folder / "d.npy")
        assert done.returncode == 0, done
        assert time.monotonic() - started < (30 if harness.SANITIZED else 5)


def test_address_from_the_environment(server, folder):
    done = run([harness.BIN / "gemmctl", "health"], clean_environment(GEMMD_ADDRESS=server.address))
    assert done.returncode == 0, done


@pytest.mark.parametrize("variable", ["http_proxy", "https_proxy", "grpc_proxy", "all_proxy"])
def test_proxy_in_the_environment(gemmctl, variable):
    environment = clean_environment(**{variable: "http://127.0.0.1:9"})
    done = gemmctl("health", environment=environment)
    assert done.returncode == 0, done


# What does not


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


def test_message_over_the_limit(gemmctl, folder):
    np.save(folder / "a.npy", np.zeros((5000, 4096), np.float32))
    np.save(folder / "b.npy", np.zeros((4096, 1), np.float32))
    done = gemmctl("multiply", folder / "a.npy", folder / "b.npy", "-o", folder / "d.npy")
    assert_refused(done, CALL_FAILED)
    assert done.stderr.strip() and not (folder / "d.npy").exists()


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


def test_something_else_at_the_address():
    """A port that takes connections and says nothing, and one that talks something else."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        started = time.monotonic()
        done = run([harness.BIN / "gemmctl", "--address", address, "--timeout", "2s", "health"])
        assert_refused(done, CALL_FAILED, address)
        assert time.monotonic() - started < 10


def test_metrics_port_instead_of_the_service(server):
    command = [harness.BIN / "gemmctl", "--address", server.metrics_address, "--timeout", "2s", "health"]
    assert_refused(run(command), CALL_FAILED, server.metrics_address)


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
