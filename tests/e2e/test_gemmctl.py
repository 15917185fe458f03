"""gemmctl as a person or a script uses it, where it works: exit status 0, and the result."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import time

import harness
import numpy as np
import pytest
from gemmctl_calls import Relay, multiply_command
from harness import clean_environment, reals, run, small_integers


@pytest.fixture
def slow(server):
    """A relay to the server, of 8 MB a second."""
    with contextlib.closing(Relay(server.address, 8e6)) as relay:
        yield relay


@pytest.fixture
def large(tmp_path):
    """A folder with the files of a product of 18 MiB, two seconds through the slow relay."""
    np.save(tmp_path / "a.npy", small_integers(1, 4096, 1024))
    np.save(tmp_path / "b.npy", small_integers(2, 1024, 128))
    return tmp_path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


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


def test_progress_on_request(slow, large):
    done = run(multiply_command(slow.address, large, "--progress", "--json"))
    assert done.returncode == 0, done
    lines = done.stderr.splitlines()
    assert len(lines) >= 2, done
    assert "sent " in lines[0] and " of 16.50 MiB (" in lines[0] and lines[0].endswith("/s"), lines
    assert json.loads(done.stdout)["attempts"] == 1


def test_progress_on_a_terminal_alone(slow, large):
    assert run(multiply_command(slow.address, large)).stderr == ""
    for flags in ((), ("--no-progress",)):
        near, far = pty.openpty()
        command = list(map(str, multiply_command(slow.address, large, *flags)))
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=far, check=False, env=clean_environment()
        )
        os.close(far)
        text = b""
        with contextlib.suppress(OSError):  # Linux's end of a terminal
            while part := os.read(near, 4096):
                text += part
        os.close(near)
        assert done.returncode == 0, text
        assert (b".] sent " in text) == (not flags), text
        assert not text or text.endswith(b"\r\x1b[K"), text  # the line is gone in the end


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("before", [None, b"what was there"])
def test_interrupted_call_leaves_no_trace(slow, large, signal_number, before):
    if before is not None:
        (large / "d.npy").write_bytes(before)
    expected = names(large)
    command = list(map(str, multiply_command(slow.address, large)))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    harness.wait_until(lambda: slow.received > 1 << 20, "the upload to be under way")
    process.send_signal(signal_number)
    out, err = process.communicate(timeout=harness.PATIENCE)
    assert process.returncode == -signal_number and not out and not err, (out, err)
    assert names(large) == expected
    assert before is None or (large / "d.npy").read_bytes() == before


def test_server_that_restarts_in_mid_call(large):
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(harness.running_server())
        relay = stack.enter_context(contextlib.closing(Relay(first.address, 8e6)))
        command = list(map(str, multiply_command(relay.address, large, "--json")))
        command[1:1] = ["--retries", "20"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        harness.wait_until(lambda: relay.received > 1 << 20, "the upload to be under way")
        relay.upstream = None
        first.process.kill()
        first.wait()
        relay.upstream = stack.enter_context(harness.running_server()).address
        out, err = process.communicate(timeout=harness.PATIENCE)
        assert process.returncode == 0, err
        assert json.loads(out)["attempts"] > 1
    a, b = np.load(large / "a.npy"), np.load(large / "b.npy")
    np.testing.assert_array_equal(np.load(large / "d.npy"), a @ b)
