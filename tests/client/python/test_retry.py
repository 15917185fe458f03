"""Trying again after UNAVAILABLE, and servers that go away."""

import math
import subprocess
import threading
import time

import grpc
import harness
import numpy as np
import pytest
from fake_server import fake_server, product_reply, refuse
from harness import small_integers

import gemmd
from gemmd._retry import RetryPolicy

A, B = small_integers(1, 6, 9), small_integers(2, 9, 4)
D = A @ B


def refuse_first(count, reason, retry_delay=None):
    def behave(number, _request, context):
        if number < count:
            refuse(context, grpc.StatusCode.UNAVAILABLE, "come back", reason, retry_delay)
        return product_reply(D)

    return behave


@pytest.mark.parametrize("reason", ["QUEUE_FULL", "MEMORY_FULL", "DRAINING", None])
def test_a_retry_that_helps(reason):
    with fake_server(refuse_first(2, reason)) as server:
        with gemmd.Client(server.address, backoff_initial=0.001) as client:
            result = client.matmul_result(A, B)
        np.testing.assert_array_equal(result.array, D)
        assert result.report.attempts == 3 and len(server.requests) == 3
        assert len(set(server.requests)) == 1


def test_retries_end():
    with fake_server(refuse_first(1000, "DRAINING", 0.001)) as server:
        with gemmd.Client(server.address, max_retries=2, backoff_initial=0.001) as client:
            with pytest.raises(gemmd.Unavailable) as caught:
                client.matmul(A, B)
        error = caught.value
        assert not isinstance(error, gemmd.ConnectionFailed)
        assert (error.reason, error.retry_delay) == ("DRAINING", 0.001)
        assert "shutting down" in error.hint
        assert len(server.requests) == 3


def test_no_retry():
    with fake_server(refuse_first(1, "QUEUE_FULL")) as server:
        with gemmd.Client(server.address, max_retries=0) as client:
            with pytest.raises(gemmd.Unavailable):
                client.matmul(A, B)
        assert len(server.requests) == 1


def test_the_server_says_when():
    with fake_server(refuse_first(1, "QUEUE_FULL", 0.4)) as server:
        with gemmd.Client(server.address, backoff_initial=0.001) as client:
            start = time.monotonic()
            client.matmul(A, B)
            assert time.monotonic() - start >= 0.4


def test_a_wait_that_would_outlast_the_timeout_is_not_begun():
    with fake_server(refuse_first(1, "QUEUE_FULL", 30.0)) as server:
        with gemmd.Client(server.address, timeout=5.0) as client:
            start = time.monotonic()
            with pytest.raises(gemmd.Unavailable):
                client.matmul(A, B)
            assert time.monotonic() - start < 4


def test_other_errors_are_final():
    for code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.RESOURCE_EXHAUSTED):

        def fail(_number, _request, context, code=code):
            refuse(context, code, "no", "SOME_REASON", 0.001)

        with fake_server(fail) as server, gemmd.Client(server.address) as client:
            with pytest.raises(gemmd.GemmdError):
                client.matmul(A, B)
            assert len(server.requests) == 1


def test_waits():
    policy = RetryPolicy(max_retries=5, initial=0.1, limit=1.0)
    error = gemmd.Unavailable("busy")
    for retries, longest in enumerate([0.1, 0.2, 0.4, 0.8, 1.0]):
        waits = [policy.wait_after(error, retries, math.inf) for _ in range(200)]
        assert longest / 2 <= min(waits) < max(waits) <= longest
    assert policy.wait_after(error, 5, math.inf) is None
    assert policy.wait_after(error, 0, 0.01) is None
    assert policy.wait_after(gemmd.Internal("broken"), 0, math.inf) is None
    hinted = gemmd.Unavailable("busy", retry_delay=10.0)
    assert 10.0 <= policy.wait_after(hinted, 0, math.inf) <= 15.0
    endless = RetryPolicy(max_retries=10**6, initial=0.1, limit=1.0)
    assert endless.wait_after(error, 10**5, math.inf) <= 1.0


def test_a_server_that_restarts():
    """Killed in the middle of calls and started again on its port: calls fail typed, or succeed
    by their retries, and every result is right."""
    with harness.running_server() as first:
        address = first.address
        with gemmd.Client(address, max_retries=20, backoff_limit=0.5) as client:
            a, b = small_integers(1, 700, 700), small_integers(2, 700, 700)
            want = a @ b
            stop, failures, done = threading.Event(), [], []

            def work():
                while not stop.is_set():
                    try:
                        np.testing.assert_array_equal(client.matmul(a, b), want)
                        done.append(time.monotonic())
                    except BaseException as failure:
                        failures.append(failure)
                        return

            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            harness.wait_until(lambda: len(done) > 5, "the first results")
            first.process.kill()
            first.wait()
            with harness.running_server(f"--listen={address}"):
                restarted = time.monotonic()
                harness.wait_until(
                    lambda: failures or sum(when > restarted for when in done) > 5,
                    "results after the restart",
                )
                stop.set()
                for thread in threads:
                    thread.join(harness.PATIENCE)
            assert failures == []


def test_a_server_that_dies_for_good():
    with harness.running_server() as server:
        with gemmd.Client(server.address) as client:
            np.testing.assert_array_equal(client.matmul(A, B), D)
            server.process.kill()
            server.wait()
            start = time.monotonic()
            with pytest.raises(gemmd.ConnectionFailed) as caught:
                client.matmul(A, B)
            assert server.address in caught.value.hint
            assert time.monotonic() - start < harness.PATIENCE / 4


def test_a_draining_server():
    with harness.running_server("--drain-window=2s") as server:
        with gemmd.Client(server.address, max_retries=0) as client:
            assert client.health() is gemmd.Health.SERVING
            server.terminate()
            harness.wait_until(
                lambda: client.health() is gemmd.Health.NOT_SERVING, "health to say NOT_SERVING"
            )
            np.testing.assert_array_equal(client.matmul(A, B), D)  # Still served.
        try:
            assert server.wait() == 0
        except subprocess.TimeoutExpired:
            raise AssertionError(server.log()) from None
