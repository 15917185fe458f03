"""MultiplyBatch through a stock stub: many products in one message, each with an end of its own."""

import contextlib
import socket
import sys
import threading
import time

import grpc
import harness
import numpy as np
import pytest
from google.rpc import error_details_pb2, status_pb2
from harness import (
    DEVICE,
    MIB,
    PATIENCE,
    PATIENT_DRAIN,
    failure_of,
    gemm_pb2,
    gemm_pb2_grpc,
    product_request,
    reals,
    result_of,
    running_server,
    small_integers,
    wait_until,
)
from test_ends import slow_request

MULTIPLY_BATCH = "/gemm.v1.GemmService/MultiplyBatch"


def batch_of(requests):
    """The products of single requests in one message, with their payloads one after another."""
    batch = gemm_pb2.MultiplyBatchRequest()
    for request in requests:
        product = batch.products.add()
        product.CopyFrom(request.product)
        for name in ("a", "b", "c"):
            if product.HasField(name):
                getattr(product, name).payload += len(batch.payloads)
        batch.payloads.extend(request.payloads)
    return batch


def multiply_batch(server, batch, timeout=PATIENCE, **options):
    reply = server.stub.MultiplyBatch(batch, timeout=timeout, **options)
    assert len(reply.results) == len(reply.payloads) == len(batch.products)
    return reply


class ProductError:
    """The error of one result, read with the stock google.rpc messages."""

    def __init__(self, result):
        assert not result.HasField("report")
        # Wire-compatible with google.rpc.Status, so that it can be read as one.
        status = status_pb2.Status.FromString(result.error.SerializeToString())
        self.code, self.message = status.code, status.message
        self.reason = self.field = None
        for detail in status.details:
            info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
            if detail.Unpack(info):
                assert info.domain == "gemmd"
                self.reason = info.reason
            elif detail.Unpack(bad):
                self.field = bad.field_violations[0].field


def random_requests(count, seed):
    generator = np.random.default_rng(seed)
    requests = []
    for i in range(count):
        m, n, k = (int(x) for x in generator.integers(1, 90, 3))
        dtype = np.float64 if i % 5 == 0 else np.float32
        c = reals(3 * i, m, n, dtype=dtype) if i % 3 == 0 else None
        a, b = reals(i, m, k, dtype=dtype), reals(2 * i, k, n, dtype=dtype)
        requests.append(product_request(a, b, c, **({"beta": 0.5} if c is not None else {})))
    return requests


def test_bits_are_those_of_single_calls(server):
    requests = random_requests(40, seed=1)
    reply = multiply_batch(server, batch_of(requests))
    for request, result, payload in zip(requests, reply.results, reply.payloads):
        single = server.multiply(request)
        assert payload == single.payloads[0]
        assert not result.HasField("error")
        # On a GPU a kernel of the same bits may take many products in one launch.
        assert result.report.kernel
        assert DEVICE != "cpu" or result.report.kernel == single.report.kernel
        assert result.report.device == single.report.device


def test_small_and_large_results_side_by_side(server):
    # Some results travel beside their headers and some are referred to where they lie.
    sizes = [1, 300, 2, 31, 32, 33, 257, 1, 1, 64, 5]
    operands = [(small_integers(i, s, 7), small_integers(i + 50, 7, s)) for i, s in enumerate(sizes)]
    reply = multiply_batch(server, batch_of([product_request(a, b) for a, b in operands]))
    for (a, b), payload, size in zip(operands, reply.payloads, sizes):
        np.testing.assert_array_equal(np.frombuffer(payload, np.float32).reshape(size, size), a @ b)


def test_report_tells_how_each_ran(server):
    batch = batch_of([product_request(reals(i, 50, 60), reals(i, 60, 70)) for i in range(8)])
    reply = multiply_batch(server, batch)
    for result in reply.results:
        report = result.report
        assert report.kernel and report.device
        assert report.batch_problems == 8
        assert report.receive_ns > 0 and report.decode_ns > 0 and report.compute_ns > 0


def test_shared_payloads(server):
    weights = small_integers(1, 40, 30)
    inputs = [small_integers(10 + i, i + 1, 40) for i in range(12)]
    batch = gemm_pb2.MultiplyBatchRequest(payloads=[weights.tobytes()])
    for x in inputs:
        product = batch.products.add()
        product.CopyFrom(product_request(x, weights).product)
        product.a.payload, product.b.payload = len(batch.payloads), 0
        batch.payloads.append(x.tobytes())
    before = server.metric("gemmd_bytes_total", direction="in")
    reply = multiply_batch(server, batch)
    for x, payload in zip(inputs, reply.payloads):
        np.testing.assert_array_equal(np.frombuffer(payload, np.float32), (x @ weights).ravel())
    # The shared payload came in once; each may be padded to 256 bytes.
    came_in = server.metric("gemmd_bytes_total", direction="in") - before
    assert came_in <= sum(len(payload) for payload in batch.payloads) + 256 * len(batch.payloads)


def test_empty_products(server):
    a, b, c = small_integers(1, 6, 9), small_integers(2, 9, 4), small_integers(3, 6, 4)
    empty = product_request(small_integers(1, 0, 9), b)
    no_k = product_request(np.zeros((6, 0), np.float32), np.zeros((0, 4), np.float32), c, beta=2.0)
    reply = multiply_batch(server, batch_of([empty, product_request(a, b), no_k, empty]))
    assert [len(payload) for payload in reply.payloads] == [0, 96, 96, 0]
    assert not any(result.HasField("error") for result in reply.results)
    np.testing.assert_array_equal(np.frombuffer(reply.payloads[1], np.float32), (a @ b).ravel())
    np.testing.assert_array_equal(np.frombuffer(reply.payloads[2], np.float32), (2 * c).ravel())
    only_empty = multiply_batch(server, batch_of([empty] * 3))
    assert list(only_empty.payloads) == [b""] * 3


def test_errors_are_each_products_own(server):
    a, b = small_integers(1, 6, 9), small_integers(2, 9, 4)
    batch = batch_of([product_request(a, b) for _ in range(6)])
    batch.products[1].m = -1
    batch.products[2].n = 5  # its payload is too short for that
    batch.products[3].data_type = 77
    batch.products[4].a.leading_dimension = 2
    reply = multiply_batch(server, batch)
    fields = [(1, "products[1].m"), (2, "payloads[5]"), (3, "products[3].data_type"),
              (4, "products[4].a.leading_dimension")]  # fmt: skip
    for i, field in fields:
        error = ProductError(reply.results[i])
        assert error.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
        assert (error.reason, error.field) == ("INVALID_REQUEST", field)
        assert field in error.message
        assert reply.payloads[i] == b""
    for i in (0, 5):
        assert not reply.results[i].HasField("error")
        np.testing.assert_array_equal(np.frombuffer(reply.payloads[i], np.float32), (a @ b).ravel())


def test_a_result_too_large_for_the_reply_fails_alone(server):
    a, b = small_integers(1, 6, 9), small_integers(2, 9, 4)
    large = product_request(np.ones((8192, 1), np.float32), np.ones((1, 8192), np.float32))
    reply = multiply_batch(server, batch_of([large, product_request(a, b)]))
    error = ProductError(reply.results[0])
    assert (error.reason, error.field) == ("RESULT_TOO_LARGE", "products[0]")
    np.testing.assert_array_equal(np.frombuffer(reply.payloads[1], np.float32), (a @ b).ravel())


def test_results_too_large_together_fail_the_call(server):
    half = product_request(np.ones((3000, 1), np.float32), np.ones((1, 3000), np.float32))
    failure = failure_of(lambda: multiply_batch(server, batch_of([half, half])))
    assert failure.code == grpc.StatusCode.RESOURCE_EXHAUSTED, failure
    assert failure.reason == "RESULT_TOO_LARGE", failure
    assert str(2 * 3000 * 3000 * 4) in failure.message and str(64 * MIB) in failure.message, failure


def test_4096_products_and_no_more(server):
    a, b = small_integers(1, 4096, 1, 3), small_integers(2, 3, 2)
    batch = gemm_pb2.MultiplyBatchRequest(payloads=[b.tobytes()])
    for row in a:
        product = batch.products.add()
        product.CopyFrom(product_request(row, b).product)
        product.a.payload, product.b.payload = len(batch.payloads), 0
        batch.payloads.append(row.tobytes())
    reply = multiply_batch(server, batch)
    d = np.frombuffer(b"".join(reply.payloads), np.float32).reshape(4096, 1, 2)
    np.testing.assert_array_equal(d, a @ b)
    batch.products.add().CopyFrom(batch.products[0])
    failure = failure_of(lambda: multiply_batch(server, batch))
    assert failure.code == grpc.StatusCode.INVALID_ARGUMENT, failure
    assert failure.field == "products" and "4096" in failure.message, failure


def test_what_concerns_the_whole_message_fails_the_call(server):
    one = product_request(small_integers(1, 6, 9), small_integers(2, 9, 4))
    unnamed, unprintable = batch_of([one]), batch_of([one])
    unnamed.payloads.append(b"left over")
    unprintable.request_id = "a\nb"
    for batch, field in (
        (gemm_pb2.MultiplyBatchRequest(), "products"),
        (unnamed, "payloads[2]"),
        (unprintable, "request_id"),
    ):
        failure = failure_of(lambda: server.stub.MultiplyBatch(batch, timeout=PATIENCE))
        assert failure.code == grpc.StatusCode.INVALID_ARGUMENT, failure
        assert failure.field == field, failure
    raw = server.channel.unary_unary(MULTIPLY_BATCH)
    for garbage in (b"\xff" * 100, b"\x0a\x05ab", b"\x0a\x00" * 300_000):
        failure = failure_of(lambda: raw(garbage, timeout=PATIENCE))
        assert failure.code == grpc.StatusCode.INVALID_ARGUMENT, failure
        assert failure.reason == "INVALID_REQUEST", failure


def test_metrics_count_the_call_once_and_its_products_each(server):
    def values():
        return {
            "calls": server.metric("grpc_server_handled_total", grpc_method="MultiplyBatch"),
            "flops": server.metric("gemmd_flops_total"),
            "launches": server.metric("gemmd_kernel_launches_total"),
            "batches": server.metric("gemmd_batch_problems_count"),
            "problems": server.metric("gemmd_batch_problems_sum"),
            "out": server.metric("gemmd_bytes_total", direction="out"),
        }

    before = values()
    requests = [product_request(small_integers(i, 6, 9), small_integers(i, 9, 4)) for i in range(5)]
    requests[3].product.m = -1
    multiply_batch(server, batch_of(requests))
    wait_until(lambda: values()["calls"] == before["calls"] + 1, "the call in the metrics")
    moved = {name: value - before[name] for name, value in values().items()}
    assert moved == {
        "calls": 1,
        "flops": 4 * 2 * 6 * 4 * 9,
        "launches": 4 if DEVICE == "cpu" else 1,  # a GPU's small products share one
        "batches": 1,
        "problems": 4,
        "out": 4 * 6 * 4 * 4,
    }


def test_log_has_one_line_for_the_call():
    with running_server("--log-level=debug") as server:
        batch = batch_of(random_requests(7, seed=3))
        batch.products[2].k = -1
        batch.request_id = "seven"
        multiply_batch(server, batch)
        wait_until(lambda: any(r.get("request_id") == "seven" for r in server.records()), "the record")
        (record,) = [r for r in server.records() if r.get("request_id") == "seven"]
        assert (record["method"], record["code"]) == ("MultiplyBatch", "OK")
        assert (record["products"], record["products_failed"]) == (7, 1)


# Limits, deadlines and ends


needs_a_slow_device = pytest.mark.skipif(
    DEVICE != "cpu", reason="a GPU has more lanes, and is not kept busy for seconds"
)


def slow_batch(server, seconds, count=4):
    """Products that keep the device busy for about so long."""
    one = slow_request(server, seconds / count)
    # Each result is 256 KiB of a reply of 64 MiB at most.
    one.product.batch_count = min(60, one.product.batch_count)
    batch = gemm_pb2.MultiplyBatchRequest(payloads=one.payloads)
    for _ in range(count):
        batch.products.add().CopyFrom(one.product)
    return batch


def occupy(server, seconds):
    """A call whose products keep the only lane of the device busy."""
    call = server.stub.MultiplyBatch.future(slow_batch(server, seconds), timeout=PATIENCE)
    wait_until(lambda: server.metric("gemmd_running_problems") > 0, "its turn")
    return call


def in_queue(server, problems=1):
    wait_until(lambda: server.metric("gemmd_queue_problems") >= problems, "a queue")


@needs_a_slow_device
def test_a_full_queue_refuses_the_call_as_a_whole():
    with running_server("--queue-problems=10") as server:
        busy = occupy(server, 4)
        small = batch_of(random_requests(6, seed=2))
        waiting = server.stub.MultiplyBatch.future(small, timeout=PATIENCE)
        in_queue(server, 6)
        failure = failure_of(lambda: multiply_batch(server, small))
        assert failure.code == grpc.StatusCode.UNAVAILABLE, failure
        assert failure.reason == "QUEUE_FULL" and failure.retry_seconds > 0, failure
        assert len(busy.result().results) == 4 and len(waiting.result().results) == 6


@needs_a_slow_device
def test_the_queue_is_bounded_by_work():
    with running_server("--queue-flops=1e6") as server:
        busy = occupy(server, 4)
        request = product_request(small_integers(1, 100, 100), small_integers(2, 100, 100))
        waiting = server.stub.Multiply.future(request, timeout=PATIENCE)  # alone it is taken
        in_queue(server)
        failure = failure_of(lambda: server.multiply(request))
        assert failure.reason == "QUEUE_FULL" and "--queue-flops" in failure.message, failure
        busy.result()
        result_of(waiting.result(), 100, 100)


@needs_a_slow_device
def test_deadlines_and_cancelled_callers():
    with running_server() as server:
        busy = occupy(server, 4)
        small = batch_of(random_requests(6, seed=2))
        late = server.stub.MultiplyBatch.future(small, timeout=0.5)
        gone = server.stub.MultiplyBatch.future(small, timeout=PATIENCE)
        in_queue(server, 12)
        gone.cancel()
        assert late.exception().code() == grpc.StatusCode.DEADLINE_EXCEEDED
        wait_until(lambda: server.metric("gemmd_queue_problems") == 0, "both to leave the queue")
        # The late one's client gives up by its own clock, which may be before the server's deadline.
        cancelled = server.metric("gemmd_dropped_total", reason="CALLER_GONE")
        assert cancelled in (6, 12), cancelled
        assert server.metric("gemmd_dropped_total", reason="DEADLINE_PASSED") == 12 - cancelled
        assert len(busy.result().results) == 4


@needs_a_slow_device
def test_sigterm_finishes_what_is_in_flight():
    with running_server(PATIENT_DRAIN) as server:
        call = server.stub.MultiplyBatch.future(slow_batch(server, 2), timeout=PATIENCE)
        wait_until(lambda: server.metric("gemmd_budget_used_bytes", pool="host") > 0, "the products")
        server.terminate()
        assert not any(result.HasField("error") for result in call.result().results)
        assert server.wait() == 0


# Messages that do not come


class HalfACall:
    """A call that has sent its headers, and says when it may send on."""

    def __init__(self, server, method, metadata=()):
        self._go_on = threading.Event()
        name = method.split("/")[-1]
        before = server.metric("grpc_server_started_total", grpc_method=name)
        self._call = server.channel.stream_unary(method)
        self.future = self._call.future(self._send(), timeout=10 * PATIENCE, metadata=metadata)
        wait_until(
            lambda: server.metric("grpc_server_started_total", grpc_method=name) > before, "the call"
        )

    def _send(self):
        self._go_on.wait()
        yield b""

    def end(self):
        self._go_on.set()


METHODS = pytest.mark.parametrize("method", [harness.MULTIPLY, MULTIPLY_BATCH])


@contextlib.contextmanager
def stalling_proxy(address, limit):
    """An address in front of `address` that takes `limit` bytes from whoever calls, and no more."""
    host, port = address.rsplit(":", 1)

    def pump(source, target, left):
        with contextlib.suppress(OSError):
            while left > 0 and (data := source.recv(min(left, 65536))):
                target.sendall(data)
                left -= len(data)

    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(
        (host, int(port))
    ) as server_end:
        ends = [server_end]

        def serve():
            caller_end, _ = listener.accept()
            ends.append(caller_end)
            back = threading.Thread(target=pump, args=(server_end, caller_end, sys.maxsize))
            back.start()
            pump(caller_end, server_end, limit)
            back.join()
            caller_end.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            for end in ends:
                with contextlib.suppress(OSError):  # it may have hung up
                    end.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_message_that_stops_half_way_is_given_up():
    with running_server("--receive-timeout=500ms") as server:
        # So small that what the proxy leaves unread fits the sockets' buffers: a client whose write
        # is stuck in its own socket is told nothing, not even that its deadline has passed.
        a, b = np.zeros((112, 112), np.float32), np.zeros((112, 112), np.float32)
        with (
            stalling_proxy(server.address, 16 << 10) as address,
            harness.open_channel(address) as channel,
        ):
            stub = gemm_pb2_grpc.GemmServiceStub(channel)
            metadata = (("gemmd-request-bytes", "110000"),)
            failure = failure_of(
                lambda: stub.Multiply(product_request(a, b), timeout=PATIENCE, metadata=metadata)
            )
            assert failure.code == grpc.StatusCode.DEADLINE_EXCEEDED, failure
            assert failure.reason == "RECEIVE_TIMEOUT", failure
            wait_until(
                lambda: server.metric("gemmd_budget_used_bytes", pool="admission") == 0,
                "its bytes back",
            )
        server.check_alive()


@METHODS
def test_a_message_that_does_not_come_is_given_up(method):
    with running_server("--receive-timeout=500ms") as server:
        call = HalfACall(server, method, (("gemmd-request-bytes", "2000000"),))
        assert server.metric("gemmd_budget_used_bytes", pool="admission") == 2000000
        failure = harness.Failure(call.future.exception(timeout=PATIENCE))
        assert failure.code == grpc.StatusCode.DEADLINE_EXCEEDED, failure
        assert failure.reason == "RECEIVE_TIMEOUT", failure
        wait_until(
            lambda: server.metric("gemmd_budget_used_bytes", pool="admission") == 0, "its bytes back"
        )
        assert server.metric("gemmd_refused_total", reason="RECEIVE_TIMEOUT") == 1
        call.end()
        server.check_alive()


def test_whoever_waits_in_line_moves_up_when_a_message_is_given_up():
    flags = ["--receive-timeout=500ms", "--message-limit=1MiB", "--admission-budget=1MiB"]
    with running_server(*flags) as server:
        call = HalfACall(server, harness.MULTIPLY)
        started = time.monotonic()
        server.check_alive()  # an unannounced call counts as the whole budget
        assert time.monotonic() - started < PATIENCE / 2
        call.end()


@METHODS
def test_a_message_that_does_not_come_does_not_hold_the_end(method):
    with running_server("--drain-timeout=5m") as server:
        call = HalfACall(server, method, (("gemmd-request-bytes", "1000"),))
        started = time.monotonic()
        server.terminate()
        failure = harness.Failure(call.future.exception(timeout=PATIENCE))
        assert failure.code == grpc.StatusCode.UNAVAILABLE, failure
        assert failure.reason in ("DRAINING", None), failure
        assert server.wait(60 if harness.SANITIZED else 15) == 0
        assert time.monotonic() - started < (60 if harness.SANITIZED else 15)
        call.end()
