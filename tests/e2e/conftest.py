"""Fixtures of the end-to-end tests."""

import harness
import pytest


@pytest.fixture(scope="module")
def _module_server():
    with harness.running_server() as server:
        yield server


@pytest.fixture
def server(_module_server):
    """A server shared by the tests of a file. After each test it must still work."""
    yield _module_server
    _module_server.check_alive()


@pytest.fixture
def gemmctl(server):
    """Runs gemmctl against the server."""

    def run(*arguments, **options):
        command = [harness.BIN / "gemmctl", "--address", server.address, *arguments]
        return harness.run(command, **options)

    return run
