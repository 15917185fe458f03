"""Fixtures of the Python client's tests. They drive the real gemmd through tests/e2e/harness.py."""

import gc
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))

import harness
import pytest

import gemmd


@pytest.fixture(scope="module")
def _module_server(request):
    with harness.running_server(*getattr(request.module, "SERVER_FLAGS", ())) as server:
        yield server


@pytest.fixture
def server(_module_server):
    """A server shared by the tests of a file, with the flags that the file has in SERVER_FLAGS. After
    each test it must still work."""
    yield _module_server
    _module_server.check_alive()


@pytest.fixture
def client(server):
    with gemmd.Client(server.address) as client:
        yield client
        gc.collect()  # The test's handles go before the client does.
