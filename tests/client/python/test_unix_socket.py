"""What goes over several connections, over a UNIX socket."""

import pathlib
import tempfile

import numpy as np
import pytest
from harness import running_server, small_integers

import gemmd


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory(prefix="gemmd-") as folder:
        path = pathlib.Path(folder) / "gemmd.sock"
        with running_server("--listen=", f"--unix-listen={path}", "--message-limit=1MiB") as server:
            yield server


@pytest.fixture(params=["unix:", "unix://"])
def client(request, server):
    path = server.address.removeprefix("unix:")
    with gemmd.Client(request.param + path, channels=4) as client:
        yield client
    server.check_alive()


def test_one_message(client):
    a, b = small_integers(1, 64, 65), small_integers(2, 65, 66)
    np.testing.assert_array_equal(client.matmul(a, b), a @ b)


def test_panels(client):
    a, b = small_integers(1, 1700, 900), small_integers(2, 900, 800)
    np.testing.assert_array_equal(client.matmul(a, b), a @ b)


def test_many(client):
    pairs = [(small_integers(i, 90, 91), small_integers(100 + i, 91, 92)) for i in range(40)]
    for d, (a, b) in zip(client.matmul_many(pairs), pairs, strict=True):
        np.testing.assert_array_equal(d, a @ b)


def test_matrices(client):
    w = small_integers(1, 2000, 700)
    x = small_integers(2, 5, 2000)
    matrix = client.put(w)
    np.testing.assert_array_equal(x @ matrix, x @ w)
    np.testing.assert_array_equal(matrix.get(), w)
    matrix.delete()


def test_a_server_that_is_not_there(tmp_path):
    with (
        gemmd.Client(f"unix:{tmp_path}/none.sock", max_retries=0) as client,
        pytest.raises(gemmd.ConnectionFailed),
    ):
        client.info()
