"""Fixtures of the end-to-end tests."""

import contextlib

import harness
import matrix_calls
import numpy as np
import pytest


@pytest.fixture(scope="module")
def _servers():
    """The servers that the tests of a file have used; all but the last have died."""
    with contextlib.ExitStack() as stack:
        servers = []

        def current():
            if not servers or servers[-1].process.poll() is not None:
                servers.append(stack.enter_context(harness.running_server()))
            return servers[-1]

        yield current


@pytest.fixture
def server(_servers):
    """A server shared by the tests of a file. After each test it must still work; if it does not,
    that test has failed, and the next one gets a new server."""
    server = _servers()
    yield server
    server.check_alive()


@pytest.fixture
def gemmctl(server):
    """Runs gemmctl against the server."""

    def run(*arguments, **options):
        command = [harness.BIN / "gemmctl", "--address", server.address, *arguments]
        return harness.run(command, **options)

    return run


@pytest.fixture
def stub(server):
    """Of that server, which has no matrices afterwards."""
    yield server.stub
    for name in matrix_calls.names(server.stub):
        matrix_calls.delete(server.stub, name)


@pytest.fixture
def folder(tmp_path):
    """With the files of a product."""
    np.save(tmp_path / "a.npy", harness.small_integers(1, 6, 9))
    np.save(tmp_path / "b.npy", harness.small_integers(2, 9, 4))
    np.save(tmp_path / "c.npy", harness.small_integers(3, 6, 4))
    return tmp_path
