"""Fixtures of the Python client's tests. They drive the real gemmd through tests/e2e/harness.py."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))

import harness
import pytest

import gemmd


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
def client(server):
    with gemmd.Client(server.address) as client:
        yield client


@pytest.fixture(scope="module")
def small_messages():
    """A server whose messages are small, so that everything takes several."""
    with harness.running_server("--message-limit=1MiB") as server:
        yield server
