"""Starting, options, health, reflection, metrics, and every way to end."""

import contextlib
import os
import pathlib
import resource
import signal
import socket
import subprocess
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
    PATIENT_DRAIN,
    clean_environment,
    failure_of,
    gemm_pb2,
    gemmd_command,
    product_request,
    run,
    running_server,
    small_integers,
    wait_until,
)

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


def small_request():
    return product_request(small_integers(1, 6, 9), small_integers(2, 9, 4))


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def server_info(server):
    return server.stub.GetServerInfo(gemm_pb2.GetServerInfoRequest(), timeout=PATIENCE)


# Information


def test_server_info(server):
    info = server_info(server)
    assert info.version and info.commit
    assert info.message_limit_bytes == 64 * MIB
    assert {device.kind for device in info.devices} == {DEVICE}
    assert info.devices[0].healthy and info.devices[0].multiprocessors > 0
    assert info.devices[0].memory_bytes > 0
    assert list(info.kernels)
    assert gemm_pb2.DATA_TYPE_F32 in info.data_types and gemm_pb2.DATA_TYPE_F64 in info.data_types
    assert server_info(server).uptime_ns > info.uptime_ns


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
        assert server_info(server).version
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
    assert server.metric("gemmd_build_info", version=server_info(server).version) == 1


def test_the_ceiling_of_each_device_and_type_is_known(server):
    for device in range(len(server_info(server).devices)):
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


# Options


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--no-such-flag"], "no-such-flag"),
        (["surplus"], "surplus"),
        (["--message-limit=12parsecs"], "message-limit"),
        (["--message-limit=-1"], "message-limit"),
        (["--message-limit=3GiB"], "message-limit"),
        (["--admission-budget=1MiB"], "admission-budget"),
        (["--device=tpu"], "device"),
        (["--listen=nonsense"], "listen"),
        (["--listen=127.0.0.1:70000"], "listen"),
        (["--drain-timeout=soon"], "drain-timeout"),
        (["--log-format=xml"], "log-format"),
        (["--config=/no/such/file"], "/no/such/file"),
        (["--listen=0.0.0.0:0"], "--insecure"),
        (["--listen=[::]:0"], "--insecure"),
    ],
)
def test_bad_options(flags, words):
    done = run(gemmd_command(*flags))
    assert done.returncode == 2, done
    assert words in done.stderr, done.stderr


@pytest.mark.parametrize("text", ["no-such-key = 1\n", "[section]\nlisten = '127.0.0.1:0'\n", "some words\n"])
def test_bad_config_file(tmp_path, text):
    config = tmp_path / "gemmd.toml"
    config.write_text(text, encoding="utf-8")
    done = run(gemmd_command(f"--config={config}"))
    assert done.returncode == 2, done
    assert done.stderr.strip(), done


def test_bad_environment():
    done = run(gemmd_command(), clean_environment(GEMMD_MESSAGE_LIMIT="lots"))
    assert done.returncode == 2, done
    assert "GEMMD_MESSAGE_LIMIT" in done.stderr or "message-limit" in done.stderr, done.stderr


def test_flag_beats_environment_beats_file(tmp_path):
    config = tmp_path / "gemmd.toml"
    config.write_text('message-limit = "1MiB"\nslow-call = "2s"\n', encoding="utf-8")

    def limit_of(*flags, **environment):
        environment = clean_environment(**environment)
        with running_server(f"--config={config}", *flags, environment=environment) as server:
            return server_info(server).message_limit_bytes

    assert limit_of() == MIB
    assert limit_of(GEMMD_MESSAGE_LIMIT="2MiB") == 2 * MIB
    assert limit_of("--message-limit=3MiB", GEMMD_MESSAGE_LIMIT="2MiB") == 3 * MIB


def test_help_and_version():
    for flag in ("--help", "--version"):
        done = run([harness.BIN / "gemmd", flag])
        assert done.returncode == 0 and done.stdout.strip(), done
    assert "--message-limit" in run([harness.BIN / "gemmd", "--help"]).stdout


def test_listening_to_the_network_when_asked():
    with running_server("--insecure", "--listen=0.0.0.0:0") as server:
        port = server.address.rsplit(":", 1)[1]
        server.address = f"127.0.0.1:{port}"
        server.check_alive()


@pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")
@pytest.mark.parametrize("everywhere", ["0.0.0.0", "[::]"])
def test_everywhere_is_ipv4_and_ipv6(everywhere):
    with running_server("--insecure", f"--listen={everywhere}:0") as server:
        port = server.address.rsplit(":", 1)[1]
        for host in ("127.0.0.1", "[::1]"):
            server.address = f"{host}:{port}"
            server.check_alive()


def test_listening_at_a_name():
    with running_server("--listen=localhost:0") as server:
        assert server.address.startswith("localhost:")
        server.check_alive()
    done = run(gemmd_command("--listen=no.such.host.invalid:50051", "--insecure"))
    assert done.returncode == 1, done
    assert "no.such.host.invalid:50051" in done.stderr, done.stderr


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_too_many_connections_are_taken_once_others_have_gone(kind, tmp_path_factory):
    # gRPC's own listener would take none for ever after.
    path = str(tmp_path_factory.mktemp("s") / "s")
    with running_server(f"--unix-listen={path}") as server, contextlib.ExitStack() as stack:
        descriptors = pathlib.Path(f"/proc/{server.pid}/fd")
        limit = len(list(descriptors.iterdir())) + 8
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (limit, limit))
        host, port = server.address.rsplit(":", 1)
        if kind == "unix":
            server.address = f"unix:{path}"
        for _ in range(30):
            if kind == "unix":
                stack.enter_context(socket.socket(socket.AF_UNIX)).connect(path)
            else:
                stack.enter_context(socket.create_connection((host, int(port))))

        def complaints():
            return [r for r in server.records() if r.get("error") == "Too many open files"]

        wait_until(complaints, "the files to run out")
        busy = cpu_seconds(server.pid)
        time.sleep(2)
        assert cpu_seconds(server.pid) - busy < 0.2, "it waits, and does not spin"
        assert server.serving(), "those that are connected are served"
        stack.close()
        server.check_alive()
        assert len(complaints()) < 5


def test_second_server_on_the_port(server):
    for flag, address in (("listen", server.address), ("metrics-listen", server.metrics_address)):
        done = run(gemmd_command(f"--{flag}={address}"))
        assert done.returncode == 1, done
        assert address in done.stderr, done.stderr


# Ends


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


def test_second_signal_ends_it_at_once():
    with running_server() as server:
        call = server.stub.Multiply.future(slow_request(server, 5), timeout=PATIENCE)
        wait_until(lambda: server.metric("gemmd_budget_used_bytes", pool="host") > 0, "the product")
        server.terminate()
        time.sleep(0.3)
        assert server.process.poll() is None
        server.terminate()
        assert server.wait(5) == 128 + signal.SIGTERM
        assert call.exception() is not None


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
