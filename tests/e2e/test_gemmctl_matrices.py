"""gemmctl put, get, list, rm, and multiply with names: the bits that went there come back."""

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
from gemmctl_calls import CALL_FAILED, UNUSABLE, Relay, assert_refused
from harness import reals, small_integers

PANEL = 4 << 20  # within a host


@pytest.fixture
def ctl(gemmctl, tmp_path, monkeypatch):
    """gemmctl in a folder of its own, which must succeed; what it has put is removed."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, code=0):
        done = gemmctl(*map(str, arguments))
        assert done.returncode == code, done
        return json.loads(done.stdout) if "--json" in arguments else done

    yield run
    names = [matrix["name"] for matrix in run("list", "--json")["matrices"]]
    if names:
        run("rm", *names)


def bits(array):
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("rows, columns", [(1, 1), (7, 300), (300, 7), (0, 5), (5, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_was_put_comes_back(ctl, dtype, rows, columns, order):
    array = np.array(reals(rows + columns, rows, columns, dtype=dtype), order=order)
    if array.size > 3:
        array.flat[:3] = np.nan, np.inf, -0.0
    np.save("x.npy", array)
    put = ctl("put", "x.npy", "--json")
    assert put["matrix"]["name"] == "x" and put["matrix"]["sealed"], put
    assert put["matrix"]["shape"] == [rows, columns] and put["bytes"] == array.nbytes
    ctl("get", "x", "-o", "y.npy")
    back = np.load("y.npy")
    assert back.dtype == array.dtype and back.shape == array.shape
    assert bits(back) == bits(array)


def test_large_ones_go_in_panels_over_several_connections(ctl, server):
    def handled(method):
        return server.metric("grpc_server_handled_total", grpc_method=method, grpc_code="OK")

    array = reals(1, 5000, 5001)  # 95 MiB: more than a message
    np.save("x.npy", array)
    ctl("put", "x.npy", "--name", "large", "--channels", "3")
    panels = -(-5000 // (PANEL // (5001 * 4)))
    assert handled("WriteRows") >= panels
    ctl("get", "large", "-o", "y.npy", "--channels", "5")
    assert handled("ReadRows") >= panels
    assert bits(np.load("y.npy")) == bits(array)


def test_rows_as_wide_as_a_message_allows(tmp_path):
    with harness.running_server("--message-limit=1MiB") as server:

        def run(*arguments):
            return harness.run([harness.BIN / "gemmctl", "--address", server.address, *map(str, arguments)])

        array = reals(1, 7, 200_000)  # 0.8 MB a row
        np.save(tmp_path / "x.npy", array)
        assert run("put", tmp_path / "x.npy").returncode == 0
        assert run("get", "x", "-o", tmp_path / "y.npy").returncode == 0
        assert bits(np.load(tmp_path / "y.npy")) == bits(array)
        np.save(tmp_path / "w.npy", reals(1, 2, 300_000))
        assert_refused(run("put", tmp_path / "w.npy"), CALL_FAILED, "MESSAGE_TOO_LARGE", "one row")


def test_list_and_rm(ctl):
    np.save("b.npy", reals(1, 3, 4))
    np.save("a.npy", reals(2, 5, 6, dtype="f8"))
    ctl("put", "b.npy", "--ttl", "90s")
    ctl("put", "a.npy", "--name", "A-1.x_")
    listed = ctl("list", "--json")["matrices"]
    assert [(matrix["name"], matrix["dtype"], matrix["shape"]) for matrix in listed] == [
        ("A-1.x_", "f64", [5, 6]),
        ("b", "f32", [3, 4]),
    ]
    assert listed[1]["ttl_seconds"] == 90 and 60 < listed[1]["expires_in_seconds"] <= 90
    lines = ctl("list").stdout.splitlines()
    assert len(lines) == 2 and lines[0].startswith("@A-1.x_  5 x 6 f64"), lines
    assert "sealed, expires in 1m" in lines[1], lines
    assert ctl("rm", "b").stdout == "deleted @b\n"
    done = ctl("rm", "none", "A-1.x_", code=CALL_FAILED)
    assert "NOT_FOUND (MATRIX_NOT_FOUND)" in done.stderr and "none" in done.stderr
    assert ctl("list").stdout == ""
    assert_refused(ctl("get", "b", "-o", "y.npy", code=CALL_FAILED), CALL_FAILED, "MATRIX_NOT_FOUND")
    assert not os.path.exists("y.npy")


def test_unused_ones_are_forgotten(ctl):
    np.save("x.npy", reals(1, 3, 4))
    ctl("put", "x.npy", "--ttl", "1s")
    harness.wait_until(lambda: ctl("list").stdout == "", "the end of its time")
    done = ctl("get", "x", "-o", "y.npy", code=CALL_FAILED)
    assert "has expired, was deleted, or the server has restarted" in done.stderr


def test_names_in_use(ctl):
    np.save("x.npy", reals(1, 3, 4))
    np.save("z.npy", reals(1, 4, 4))
    ctl("put", "x.npy", "--name", "w")
    for flags in ((), ("--exist-ok",)):
        done = ctl("put", "z.npy", "--name", "w", *flags, code=CALL_FAILED)
        assert "ALREADY_EXISTS (MATRIX_EXISTS)" in done.stderr
    assert "MATRIX_EXISTS" in ctl("put", "x.npy", "--name", "w", code=CALL_FAILED).stderr
    ctl("put", "x.npy", "--name", "w", "--exist-ok")


def test_what_cannot_be_put(ctl):
    np.save("vector.npy", reals(1, 3))
    np.save("stack.npy", reals(1, 2, 3, 4))
    np.save("two words.npy", reals(1, 3, 4))
    np.save("ints.npy", np.arange(4).reshape(2, 2))
    assert_refused(ctl("put", "vector.npy", code=UNUSABLE), UNUSABLE, "has 1 dimensions (3)")
    assert_refused(ctl("put", "stack.npy", code=UNUSABLE), UNUSABLE, "has 3 dimensions (2 x 3 x 4)")
    assert_refused(ctl("put", "two words.npy", code=UNUSABLE), UNUSABLE, "name must be 1 to 128")
    assert_refused(ctl("put", "ints.npy", code=UNUSABLE), UNUSABLE, "ints.npy")
    ctl("put", "two words.npy", "--name", "words")


def test_multiply_by_name_has_the_bits_of_files(ctl):
    a, b, c = reals(1, 60, 90), reals(2, 90, 40), reals(3, 60, 40)
    for name, array in (("a", a), ("b", b), ("c", c)):
        np.save(f"{name}.npy", array)
        ctl("put", f"{name}.npy")
    ctl("multiply", "a.npy", "b.npy", "--c", "c.npy", "--alpha", "0.5", "--beta", "2", "-o", "files.npy")
    for left, right, addend in (("a.npy", "@b", "c.npy"), ("@a", "b.npy", "@c"), ("@a", "@b", "@c")):
        flags = ("--alpha", "0.5", "--beta", "2", "-o", "d.npy")
        ctl("multiply", left, right, "--c", addend, *flags)
        assert bits(np.load("d.npy")) == bits(np.load("files.npy"))
    ctl("multiply", "@a", "@a", "--transpose-b", "-o", "gram.npy")
    assert np.allclose(np.load("gram.npy"), a @ a.T, rtol=1e-4)


def test_stacks_with_a_matrix_by_name(ctl):
    stack, w = small_integers(1, 5, 6, 7), small_integers(2, 7, 3)
    np.save("stack.npy", stack)
    np.save("w.npy", w)
    ctl("put", "w.npy")
    ctl("multiply", "stack.npy", "@w", "-o", "d.npy")
    assert np.array_equal(np.load("d.npy"), stack @ w)
    # A stack's results follow one another in the rows of a matrix.
    report = ctl("multiply", "stack.npy", "@w", "--result", "r", "--json")
    assert report["result"]["shape"] == [30, 3]
    ctl("get", "r", "-o", "r.npy")
    assert np.array_equal(np.load("r.npy").reshape(5, 6, 3), stack @ w)


def test_results_that_stay(ctl):
    a, w1, w2 = small_integers(1, 20, 30), small_integers(2, 30, 10), small_integers(3, 10, 5)
    for name, array in (("a", a), ("w1", w1), ("w2", w2)):
        np.save(f"{name}.npy", array)
    ctl("put", "w1.npy")
    ctl("put", "w2.npy")
    hidden = ctl("multiply", "a.npy", "@w1", "--result", "hidden", "--ttl", "5m", "--json")
    assert hidden["output"] is None and hidden["result"]["ttl_seconds"] == 300
    assert hidden["reply_bytes"] < 1000, hidden
    ctl("multiply", "@hidden", "@w2", "-o", "d.npy")
    assert np.array_equal(np.load("d.npy"), a @ w1 @ w2)
    # The same call again finds it; another result of that name is refused.
    ctl("multiply", "a.npy", "@w1", "--result", "hidden")
    done = ctl("multiply", "@w1", "@w2", "--result", "hidden", code=CALL_FAILED)
    assert "MATRIX_EXISTS" in done.stderr


def test_wrong_shapes_and_types_by_name(ctl):
    np.save("a.npy", reals(1, 6, 9))
    np.save("d.npy", reals(1, 9, 9, dtype="f8"))
    ctl("put", "a.npy")
    ctl("put", "d.npy")
    done = ctl("multiply", "@a", "@a", "-o", "x.npy", code=UNUSABLE)
    assert "inner dimensions differ: @a (6 x 9) has 9 columns, @a (6 x 9) has 6 rows" in done.stderr
    done = ctl("multiply", "@a", "@d", "-o", "x.npy", code=UNUSABLE)
    assert "types differ: @a is f32, @d is f64" in done.stderr
    done = ctl("multiply", "@a", "@gone", "-o", "x.npy", "--json", code=CALL_FAILED)
    assert done["error"]["reason"] == "MATRIX_NOT_FOUND" and "gone" in done["error"]["message"]
    assert not os.path.exists("x.npy")


def test_none_outlives_the_server(tmp_path):
    np.save(tmp_path / "w.npy", reals(1, 3, 3))
    with harness.running_server() as server:
        gemmctl = [harness.BIN / "gemmctl", "--address", server.address]
        assert harness.run([*gemmctl, "put", tmp_path / "w.npy"]).returncode == 0
    with harness.running_server(f"--listen={server.address}") as server:
        done = harness.run([*gemmctl, "multiply", tmp_path / "w.npy", "@w", "-o", tmp_path / "d.npy"])
        assert_refused(done, CALL_FAILED, "NOT_FOUND (MATRIX_NOT_FOUND)", "'w'", "the server has restarted")
        assert harness.run([*gemmctl, "put", tmp_path / "w.npy"]).returncode == 0
        done = harness.run([*gemmctl, "multiply", tmp_path / "w.npy", "@w", "-o", tmp_path / "d.npy"])
        assert done.returncode == 0, done


@contextlib.contextmanager
def slow_put(server, folder, *flags, stderr=subprocess.PIPE):
    """gemmctl in the middle of putting 48 MiB over one connection of 16 MiB a second."""
    np.save(folder / "x.npy", reals(1, 3072, 4096))
    relay = Relay(server.address, 16 << 20)
    command = [harness.BIN / "gemmctl", "--address", relay.address, "put", folder / "x.npy", "--channels", "1", *flags]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=harness.clean_environment()
    ) as process:
        yield process
        process.kill()


def test_an_interrupted_put_can_be_completed(server, ctl, tmp_path):
    with slow_put(server, tmp_path) as process:
        harness.wait_until(
            lambda: any(matrix["rows_written"] > 0 for matrix in ctl("list", "--json")["matrices"]), "a panel"
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(harness.PATIENCE) == -signal.SIGINT
    (matrix,) = ctl("list", "--json")["matrices"]
    assert 0 < matrix["rows_written"] < 3072 and not matrix["sealed"], matrix
    assert "% written, expires in" in ctl("list").stdout
    done = ctl("multiply", "x.npy", "@x", "--transpose-b", "-o", "d.npy", code=CALL_FAILED)
    assert "MATRIX_NOT_SEALED" in done.stderr and "--exist-ok" in done.stderr
    assert "MATRIX_EXISTS" in ctl("put", "x.npy", code=CALL_FAILED).stderr
    assert ctl("put", "x.npy", "--exist-ok", "--json")["matrix"]["sealed"]
    ctl("get", "x", "-o", "y.npy")
    assert bits(np.load("y.npy")) == bits(np.load("x.npy"))


def test_progress_on_a_terminal(server, ctl, tmp_path):
    master, slave = pty.openpty()
    with slow_put(server, tmp_path, stderr=slave) as process:
        os.close(slave)
        shown = b""
        deadline = time.monotonic() + harness.PATIENCE
        while b"MiB/s" not in shown and time.monotonic() < deadline:
            shown += os.read(master, 4096)
        process.wait(harness.PATIENCE)
    os.close(master)
    assert b"#" in shown and b"] sent " in shown and b" of 48.00 MiB (" in shown, shown


def test_more_than_two_gibibytes(ctl, tmp_path):
    if os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize < 6 << 30:
        pytest.skip("no room for the files")
    rows = (2 << 30) // 65536 + 7
    file = np.lib.format.open_memmap("x.npy", "w+", "f4", (rows, 16384))
    for begin in range(0, rows, 4096):
        piece = file[begin : begin + 4096]
        piece[:] = np.arange(begin, begin + len(piece), dtype="f4")[:, None]
    file[-1] = np.arange(16384)
    file.flush()
    del file
    ctl("put", "x.npy")
    ctl("get", "x", "-o", "y.npy")
    assert subprocess.run(["cmp", "x.npy", "y.npy"], check=False).returncode == 0
