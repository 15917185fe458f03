"""Information, health, reflection, metrics and the log."""

import contextlib
import socket
import threading
import time

import grpc
import harness
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from harness import (
    DEVICE,
    MIB,
    PATIENCE,
    failure_of,
    gemm_pb2,
    running_server,
    small_request,
    wait_until,
)

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


# Information


def test_server_info(server):
    info = server.info()
    assert info.version and info.commit
    assert info.message_limit_bytes == 64 * MIB
    assert {device.kind for device in info.devices} == {DEVICE}
    assert info.devices[0].healthy and info.devices[0].multiprocessors > 0
    assert info.devices[0].memory_bytes > 0
    assert list(info.kernels)
    assert gemm_pb2.DATA_TYPE_F32 in info.data_types and gemm_pb2.DATA_TYPE_F64 in info.data_types
    assert server.info().uptime_ns > info.uptime_ns


def test_explain_names_the_kernel_that_runs(server):
    request = small_request()
    explanation = server.stub.Explain(
        gemm_pb2.ExplainRequest(product=request.product), timeout=PATIENCE
    )
    assert explanation.chosen == server.multiply(request).report.kernel
    chosen = [c for c in explanation.candidates if c.kernel == explanation.chosen]
    assert len(chosen) == 1 and not chosen[0].why_not


# Health


def test_health_check(server):
    assert server.health_status("") == SERVING
    assert server.health_status("gemm.v1.GemmService") == SERVING
    failure = failure_of(lambda: server.health_status("no.such.Service"))
    assert failure.code == grpc.StatusCode.NOT_FOUND, failure


def test_health_watch_of_an_unknown_service(server):
    watch = server.health.Watch(health_pb2.HealthCheckRequest(service="no.such.Service"))
    assert next(watch).status == SERVICE_UNKNOWN
    watch.cancel()


def test_many_watchers_come_and_go(server):
    watches = [server.health.Watch(health_pb2.HealthCheckRequest()) for _ in range(50)]
    for watch in watches:
        assert next(watch).status == SERVING
    for watch in watches:
        watch.cancel()


def test_health_across_a_drain():
    with running_server("--drain-window=1500ms") as server:
        watch = server.health.Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == SERVING
        server.terminate()
        assert next(watch).status == NOT_SERVING
        # Load balancers need time to see it: calls still succeed.
        assert server.health_status() == NOT_SERVING
        server.check_alive()
        with pytest.raises((StopIteration, grpc.RpcError)):
            next(watch)
        assert server.wait() == 0


# Reflection


def test_reflection_is_off_unless_asked_for(server):
    failure = failure_of(lambda: ProtoReflectionDescriptorDatabase(server.channel).get_services())
    assert failure.code == grpc.StatusCode.UNIMPLEMENTED, failure


def test_reflection():
    with running_server("--reflection") as server:
        reflection = ProtoReflectionDescriptorDatabase(server.channel)
        assert "gemm.v1.GemmService" in reflection.get_services()
        descriptor = reflection.FindFileContainingSymbol("gemm.v1.GemmService")
        methods = {method.name for method in descriptor.service[0].method}
        assert {"Multiply", "MultiplyBatch", "Explain", "GetServerInfo"} <= methods
        assert server.info().version
        server.check_alive()


# Metrics


FAMILIES = {
    "grpc_server_started_total": "counter",
    "grpc_server_handled_total": "counter",
    "grpc_server_handling_seconds": "histogram",
    "gemmd_phase_seconds": "histogram",
    "gemmd_bytes_total": "counter",
    "gemmd_refused_total": "counter",
    "gemmd_dropped_total": "counter",
    "gemmd_kernel_launches_total": "counter",
    "gemmd_flops_total": "counter",
    "gemmd_device_seconds_total": "counter",
    "gemmd_batch_problems": "histogram",
    "gemmd_queue_problems": "gauge",
    "gemmd_queue_bytes": "gauge",
    "gemmd_queue_flops": "gauge",
    "gemmd_running_problems": "gauge",
    "gemmd_budget_limit_bytes": "gauge",
    "gemmd_budget_used_bytes": "gauge",
    "gemmd_matrices": "gauge",
    "gemmd_device_info": "gauge",
    "gemmd_device_lost": "gauge",
    "gemmd_device_ceiling_flops_per_second": "gauge",
    "gemmd_build_info": "gauge",
}


def test_metric_families(server):
    page = server.metrics_text()
    for family, kind in FAMILIES.items():
        assert f"# HELP {family} " in page, family
        assert f"# TYPE {family} {kind}\n" in page, family
    # Zeros before anything has happened, so that rates start from something.
    assert server.metric("gemmd_refused_total", reason="QUEUE_FULL") == 0
    assert server.metric("gemmd_build_info", version=server.info().version) == 1


def test_the_ceiling_of_each_device_and_type_is_known(server):
    for device in range(len(server.info().devices)):
        for dtype in ("f32", "f64"):
            rate = server.metric(
                "gemmd_device_ceiling_flops_per_second", device=str(device), dtype=dtype
            )
            assert 1e7 < rate < 1e16


def test_metrics_move_after_a_call(server):
    def values():
        return {
            "calls": server.metric(
                "grpc_server_handled_total", grpc_method="Multiply", grpc_code="OK"
            ),
            "invalid": server.metric(
                "grpc_server_handled_total", grpc_method="Multiply", grpc_code="INVALID_ARGUMENT"
            ),
            "seconds": server.metric("grpc_server_handling_seconds_count", grpc_method="Multiply"),
            "in": server.metric("gemmd_bytes_total", direction="in"),
            "out": server.metric("gemmd_bytes_total", direction="out"),
            "flops": server.metric("gemmd_flops_total"),
            "launches": server.metric("gemmd_kernel_launches_total"),
            "compute": server.metric("gemmd_phase_seconds_count", phase="compute"),
        }

    before = values()
    server.multiply(small_request())
    bad = small_request()
    bad.product.m = -1
    failure_of(lambda: server.multiply(bad))
    # A call is counted once its end has been sent, which the caller may see first.
    wait_until(lambda: values()["seconds"] >= before["seconds"] + 2, "both calls in the metrics")
    moved = {name: value - before[name] for name, value in values().items()}
    assert moved["calls"] == 1 and moved["invalid"] == 1
    # Operands may be aligned, so at least their own bytes came in.
    assert moved["in"] >= (6 * 9 + 9 * 4) * 4
    assert moved["out"] == 6 * 4 * 4
    assert moved["flops"] == 2 * 6 * 4 * 9
    assert moved["launches"] == 1 and moved["compute"] == 1


def test_log_is_json_and_names_what_failed(server):
    bad = small_request()
    bad.request_id = "log-test-17"
    bad.product.m = 7
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    failure_of(lambda: server.stub.Multiply(bad, metadata=[("traceparent", trace)]))

    def logged():
        return [r for r in server.records() if r.get("request_id") == "log-test-17"]

    wait_until(logged, "the failed call in the log")
    assert logged()[0]["traceparent"] == trace


@pytest.mark.parametrize(
    ("method", "metadata", "message", "said"),
    [
        ("Multiply", {"gemmd-request-bytes": str(1 << 40)}, b"", "over the limit"),
        ("WriteRows", {"gemmd-request-bytes": "many"}, b"", "not a number"),
        ("MultiplyBatch", {"gemmd-request-bytes": "1"}, b"\x0a\x00", "but announced 1"),
        ("Explain", {}, b"\xff", "not a valid"),
    ],
)
def test_log_names_what_failed_before_it_was_read(server, method, metadata, message, said):
    trace = f"00-{len(method):032x}-b7ad6b7169203331-01"
    call = server.channel.unary_unary(f"/gemm.v1.GemmService/{method}")
    failure_of(lambda: call(message, metadata=[*metadata.items(), ("traceparent", trace)]))

    def logged():
        return [r for r in server.records() if r.get("traceparent") == trace]

    wait_until(logged, "the failed call in the log")
    (record,) = logged()
    assert (record["method"], record["level"]) == (method, "warning")
    assert said in record["error"]


def test_libraries_write_no_lines_of_their_own(server):
    # protobuf complains of text that is not UTF-8 by itself.
    message = small_request().SerializeToString() + b"\x12\x02\xff\xfe"
    failure = failure_of(lambda: harness.raw_multiply(server.channel)(message))
    assert failure.code == grpc.StatusCode.INVALID_ARGUMENT
    assert server.records()  # fails on a line that is not JSON


def test_grpcs_tcp_experiments_are_off():
    # With tcp_frame_size_tuning calls of 16 MiB stood still for up to 50 s (server/bench/README.md).
    environment = harness.clean_environment(GRPC_VERBOSITY="DEBUG")
    environment.pop("GRPC_EXPERIMENTS", None)
    server = harness.Server("--log-level=debug", environment=environment)
    lines = [line.split() for line in server.log().splitlines() if "EXPERIMENT" in line]
    server.terminate()
    assert server.wait() == 0
    for name in ("tcp_frame_size_tuning", "tcp_rcv_lowat"):
        assert [line for line in lines if name in line and "OFF" in line], lines


def test_a_forged_trace_context_is_not_logged(server):
    bad = small_request()
    bad.request_id = "log-test-18"
    bad.product.m = 7
    failure_of(lambda: server.stub.Multiply(bad, metadata=[("traceparent", "00-none-of-that-01")]))

    def logged():
        return [r for r in server.records() if r.get("request_id") == "log-test-18"]

    wait_until(logged, "the failed call in the log")
    assert "traceparent" not in logged()[0]


def test_scrapers_do_not_trouble_the_callers():
    """Some scrape as fast as they can, others ask and never read, or do not even ask to the end."""
    with running_server() as server, contextlib.ExitStack() as stack:
        host, port = server.metrics_address.rsplit(":", 1)
        for ask in [b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /met"] * 4:
            hanging = stack.enter_context(socket.create_connection((host, int(port))))
            hanging.sendall(ask)
        stop = threading.Event()
        pages = []

        def scrape():
            while not stop.is_set():
                pages.append(server.metrics_text())

        scrapers = [threading.Thread(target=scrape) for _ in range(3)]
        for thread in scrapers:
            thread.start()
        try:
            slowest = 0.0
            for _ in range(200):
                start = time.monotonic()
                server.multiply(small_request())
                slowest = max(slowest, time.monotonic() - start)
            assert slowest < 1, "no call waits for a time-out of the metrics page"
            wait_until(lambda: len(pages) > 100, "those that hang to be given up")
        finally:
            stop.set()
            for thread in scrapers:
                thread.join()
        server.check_alive()
