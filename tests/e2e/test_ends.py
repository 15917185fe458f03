"""Every way to end."""

import os
import signal
import subprocess
import tempfile
import threading
import time

import grpc
import harness
import pytest
from grpc_health.v1 import health_pb2
from harness import (
    PATIENCE,
    PATIENT_DRAIN,
    clean_environment,
    failure_of,
    gemm_pb2_grpc,
    gemmd_command,
    open_channel,
    process_of,
    product_request,
    running_server,
    small_integers,
    small_request,
    wait_until,
)

SERVING = health_pb2.HealthCheckResponse.SERVING


def test_sigterm_when_idle():
    for _ in range(6):
        with running_server() as server:
            server.check_alive()
            started = time.monotonic()
            server.terminate()
            assert server.wait() == 0
            assert time.monotonic() - started < (30 if harness.SANITIZED else 5)


def test_large_replies_do_not_hold_the_end():
    # A reply that fills the socket makes gRPC start a poller that its shutdown would wait for.
    for _ in range(4):
        with running_server() as server:
            for _ in range(3):
                server.multiply(product_request(small_integers(1, 2048, 1), small_integers(2, 1, 2048)))
            started = time.monotonic()
            server.terminate()
            assert server.wait() == 0
            assert time.monotonic() - started < (20 if harness.SANITIZED else 5)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_it(number):
    with running_server() as server:
        server.process.send_signal(number)
        assert server.wait() == 0


def test_open_watch_and_connections_do_not_hold_the_end():
    with running_server() as server:
        watch = server.health.Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == SERVING
        server.terminate()
        assert server.wait(30 if harness.SANITIZED else 10) == 0


@pytest.mark.parametrize(
    "method", ["/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/Check", "/gemm.v1.GemmService/Explain"]
)
def test_call_without_a_message_does_not_hold_the_end(method):
    with running_server("--drain-timeout=5m") as server:
        stop = threading.Event()

        def send():
            stop.wait()
            yield b""

        def started():
            return server.metric("grpc_server_started_total", grpc_method=method.split("/")[-1])

        before = started()
        call = server.channel.stream_stream(method)(send())
        wait_until(lambda: started() > before, "the call")
        server.terminate()
        assert server.wait(30 if harness.SANITIZED else 10) == 0
        stop.set()
        assert call.code() != grpc.StatusCode.OK


def test_sigterm_during_start_up():
    # Whenever the signal comes, the process ends, with nothing worse than 0 or death by the signal
    # (before the handlers stand).
    for delay in (0, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16):
        process = subprocess.Popen(
            gemmd_command(),
            env=clean_environment(),
            stderr=subprocess.DEVNULL,
        )
        time.sleep(delay)
        process.terminate()
        assert process.wait(PATIENCE) in (0, -signal.SIGTERM), delay


def slow_request(server, seconds):
    """A product that keeps an idle CPU busy for about so long, and a busy one for longer."""
    rows, k = 256, 16384
    a, b = small_integers(1, rows, k), small_integers(2, k, rows)
    request = product_request(a, b, batch_count=2)
    request.product.a.batch_stride = request.product.b.batch_stride = 0
    one = min(server.multiply(request).report.compute_ns for _ in range(4)) / 2e9
    # Each result is 256 KiB of a reply of 64 MiB at most.
    request.product.batch_count = min(250, max(1, int(seconds / one)))
    return request


def test_sigterm_finishes_what_is_in_flight():
    with running_server(PATIENT_DRAIN) as server:
        request = slow_request(server, 2)
        call = server.stub.Multiply.future(request, timeout=PATIENCE)
        wait_until(lambda: server.metric("gemmd_budget_used_bytes", pool="host") > 0, "the product")
        server.terminate()
        assert len(call.result().payloads[0]) == request.product.batch_count * 256 * 256 * 4
        assert server.wait() == 0


def test_new_calls_while_draining_get_a_reason():
    with running_server(PATIENT_DRAIN) as server:
        call = server.stub.Multiply.future(slow_request(server, 2), timeout=PATIENCE)
        wait_until(lambda: server.metric("gemmd_budget_used_bytes", pool="host") > 0, "the product")
        server.terminate()
        # The first ones may still come in time.
        failure = failure_of(lambda: [server.multiply(small_request()) for _ in range(1000)])
        assert failure.code == grpc.StatusCode.UNAVAILABLE, failure
        # Or the connection's end, where that came first.
        assert failure.reason in ("DRAINING", None), failure
        call.result()
        assert server.wait() == 0


def test_drain_timeout_cancels_what_is_left():
    with running_server("--drain-timeout=300ms") as server:
        request = slow_request(server, 3)
        calls = [server.stub.Multiply.future(request, timeout=PATIENCE) for _ in range(5)]
        wait_until(lambda: server.metric("gemmd_queue_problems") >= 3, "a queue")
        server.terminate()
        assert server.wait() == 0
        # What is running cannot be stopped, what waits can.
        assert sum(call.exception() is not None for call in calls) >= 3


def test_a_log_that_nobody_reads_holds_nothing():
    with tempfile.TemporaryDirectory(prefix="gemmd-") as folder:
        path = f"{folder}/gemmd.sock"
        flags = ("--listen=", f"--unix-listen={path}", "--metrics-listen=", "--log-level=debug")
        reader, writer = os.pipe()
        with process_of(gemmd_command(*flags), stderr=writer) as process:
            wait_until(lambda: os.path.exists(path) or process.poll() is not None, "its socket")
            with open_channel(f"unix:{path}") as channel:
                stub = gemm_pb2_grpc.GemmServiceStub(channel)
                for _ in range(400):  # each has a record, of which the pipe holds half
                    stub.Multiply(small_request(), timeout=PATIENCE, wait_for_ready=True)
            process.terminate()
            assert process.wait(PATIENCE) == 0
        os.close(writer)
        with open(reader, encoding="utf-8") as log:
            assert 100 < len(log.readlines()) < 400


def test_second_signal_ends_it_at_once():
    with running_server() as server:
        call = server.stub.Multiply.future(slow_request(server, 5), timeout=PATIENCE)
        wait_until(lambda: server.metric("gemmd_budget_used_bytes", pool="host") > 0, "the product")
        server.terminate()
        wait_until(lambda: '"draining"' in server.log(), "the drain")
        assert server.process.poll() is None
        server.terminate()
        assert server.wait(5) == 128 + signal.SIGTERM
        assert call.exception() is not None
