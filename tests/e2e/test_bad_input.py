"""Requests that must be refused, with a code, a reason, a field and a limit that say why. The
`server` fixture multiplies after each test, so none of them may harm the server."""

import os
import socket
import threading
import time

import grpc
import harness
import numpy as np
import pytest
from harness import (
    MIB,
    MULTIPLY,
    failure_of,
    gemm_pb2,
    product_request,
    raw_multiply,
    small_integers,
    wait_until,
)

INT64_MAX = 2**63 - 1


def valid_request():
    """6 x 9 times 9 x 4, plus C."""
    a, b, c = small_integers(1, 6, 9), small_integers(2, 9, 4), small_integers(3, 6, 4)
    return product_request(a, b, c, beta=1.0)


# What is done to a valid request, and the field and the words that the error must have.
INVALID = {
    "negative m": (lambda r: setattr(r.product, "m", -1), "product.m", "-1"),
    "negative n": (lambda r: setattr(r.product, "n", -4), "product.n", "-4"),
    "negative k": (lambda r: setattr(r.product, "k", -(2**63)), "product.k", str(-(2**63))),
    "negative batch": (lambda r: setattr(r.product, "batch_count", -1), "product.batch_count", "-1"),
    "huge batch": (
        lambda r: setattr(r.product, "batch_count", 2**31),
        "product.batch_count",
        str(2**31 - 1),
    ),
    "m n k beyond 64 bits": (
        lambda r: [setattr(r.product, name, 2**21 + 1) for name in ("m", "n", "k")],
        "product.k",
        str(INT64_MAX),
    ),
    "m beyond all": (lambda r: setattr(r.product, "m", INT64_MAX), "product.", str(INT64_MAX)),
    "bytes beyond 64 bits": (
        lambda r: [setattr(r.product, "m", 2**62), setattr(r.product, "n", 1),
                   setattr(r.product, "k", 1)],
        "product.",
        "",
    ),
    "rows times leading dimension beyond 64 bits": (
        lambda r: setattr(r.product.a, "leading_dimension", INT64_MAX),
        "product.a.leading_dimension",
        "",
    ),
    "batch times stride beyond 64 bits": (
        lambda r: [setattr(r.product.a, "batch_stride", INT64_MAX),
                   setattr(r.product, "batch_count", 3)],
        "product.a.batch_stride",
        "",
    ),
    "leading dimension below the row": (
        lambda r: setattr(r.product.a, "leading_dimension", 8),
        "product.a.leading_dimension",
        "9",
    ),
    "leading dimension below the transposed row": (
        lambda r: [setattr(r.product.b, "transposed", True),
                   setattr(r.product.b, "leading_dimension", 5)],
        "product.b.leading_dimension",
        "9",
    ),
    "negative leading dimension": (
        lambda r: setattr(r.product.c, "leading_dimension", -4),
        "product.c.leading_dimension",
        "4",
    ),
    "batch stride below the matrix": (
        lambda r: [setattr(r.product.b, "batch_stride", 35), setattr(r.product, "batch_count", 2)],
        "product.b.batch_stride",
        "36",
    ),
    "negative batch stride": (
        lambda r: [setattr(r.product.b, "batch_stride", -36), setattr(r.product, "batch_count", 2)],
        "product.b.batch_stride",
        "36",
    ),
    "payload shorter than the shape": (
        lambda r: r.payloads.__setitem__(0, r.payloads[0][:-1]),
        "payloads[0]",
        str(6 * 9 * 4),
    ),
    "payload longer than the shape": (
        lambda r: r.payloads.__setitem__(1, r.payloads[1] + b"\0"),
        "payloads[1]",
        str(9 * 4 * 4),
    ),
    "empty payload": (lambda r: r.payloads.__setitem__(2, b""), "payloads[2]", str(6 * 4 * 4)),
    "payload index out of range": (
        lambda r: setattr(r.product.b, "payload", 3),
        "product.b.payload",
        "3",
    ),
    "payload index at the far end": (
        lambda r: setattr(r.product.a, "payload", 2**32 - 1),
        "product.a.payload",
        str(2**32 - 1),
    ),
    "payload that no operand names": (lambda r: r.payloads.append(b"left over"), "payloads[3]", ""),
    "operand without a source": (lambda r: r.product.a.ClearField("payload"), "product.a", ""),
    "missing a": (lambda r: r.product.ClearField("a"), "product.a", "missing"),
    "missing b": (lambda r: r.product.ClearField("b"), "product.b", "missing"),
    "beta without c": (lambda r: r.product.ClearField("c"), "product.c", "beta"),
    "missing product": (lambda r: r.ClearField("product"), "product", "missing"),
    "empty request": (lambda r: r.Clear(), "product", "missing"),
    "type not stated": (lambda r: r.product.ClearField("data_type"), "product.data_type", ""),
    "unknown type": (lambda r: setattr(r.product, "data_type", 99), "product.data_type", "99"),
    "unknown precision": (lambda r: setattr(r.product, "precision", -7), "product.precision", "-7"),
    "transposed c": (lambda r: setattr(r.product.c, "transposed", True), "product.c.transposed", ""),
    "overlong request id": (lambda r: setattr(r, "request_id", "x" * 129), "request_id", "128"),
    "request id that is not printable": (
        lambda r: setattr(r, "request_id", "a\nforged log line"),
        "request_id",
        "printable",
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_request(server, name):
    change, field, words = INVALID[name]
    request = valid_request()
    change(request)
    failure = failure_of(lambda: server.multiply(request))
    assert failure.code == grpc.StatusCode.INVALID_ARGUMENT, failure
    assert failure.reason == "INVALID_REQUEST", failure
    assert failure.field.startswith(field), failure
    assert words in failure.message, failure


def test_the_unchanged_request_is_valid(server):
    request = valid_request()
    d = harness.result_of(server.multiply(request), 6, 4)
    a, b, c = small_integers(1, 6, 9), small_integers(2, 9, 4), small_integers(3, 6, 4)
    np.testing.assert_array_equal(d, a @ b + c)


@pytest.mark.parametrize("seed", range(20))
def test_garbage_bytes(server, seed):
    generator = np.random.default_rng(seed)
    garbage = generator.bytes(int(generator.integers(1, 5000)))
    failure = failure_of(lambda: raw_multiply(server.channel)(garbage, timeout=60))
    assert failure.code == grpc.StatusCode.INVALID_ARGUMENT, failure
    assert failure.reason == "INVALID_REQUEST", failure


def test_request_cut_anywhere(server):
    message = valid_request().SerializeToString()
    multiply = raw_multiply(server.channel)
    for length in range(len(message)):
        failure = failure_of(lambda: multiply(message[:length], timeout=60))
        assert failure.code == grpc.StatusCode.INVALID_ARGUMENT, (length, failure)


def test_length_that_runs_past_the_end(server):
    # Field 1000, then a length of 2^63 - 1, then one byte.
    message = b"\xc2\x3e" + b"\xff" * 8 + b"\x7f" + b"x"
    failure = failure_of(lambda: raw_multiply(server.channel)(message, timeout=60))
    assert failure.code == grpc.StatusCode.INVALID_ARGUMENT, failure


def test_nested_groups_do_not_overflow_the_stack(server):
    # A million openings of group 5: a parser that recurses without a limit dies of it.
    failure = failure_of(lambda: raw_multiply(server.channel)(b"\x2b" * 1_000_000, timeout=60))
    assert failure.code == grpc.StatusCode.INVALID_ARGUMENT, failure


@pytest.mark.parametrize("count", [0, 2])
def test_call_with_another_number_of_messages(server, count):
    call = server.channel.stream_unary(MULTIPLY)
    message = valid_request().SerializeToString()
    try:
        reply = call(iter([message] * count), timeout=60)
    except grpc.RpcError as error:
        assert error.code() in (
            grpc.StatusCode.INVALID_ARGUMENT,
            grpc.StatusCode.UNIMPLEMENTED,
            grpc.StatusCode.INTERNAL,
        ), error
    else:
        assert count == 2 and reply  # the second one is nobody's


METHODS = (
    MULTIPLY,
    "/gemm.v1.GemmService/MultiplyBatch",
    "/gemm.v1.GemmService/Explain",
    "/gemm.v1.GemmService/GetServerInfo",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/gemm.v1.GemmService/Divide",
)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("messages", [[], [b""], [b"\xff"], [b"", b"\xff"]], ids=str)
def test_call_that_its_caller_gives_up(server, method, messages):
    # Before the server sees it, while it waits for a message, while it takes one, and after that.
    for delay in (0, 0, 0, 0.001, 0.001, 0.003, 0.01, 0.03):
        stop = threading.Event()

        def send():
            yield from messages
            stop.wait()

        call = server.channel.stream_stream(method)(send())
        time.sleep(delay)
        call.cancel()
        stop.set()


def test_unknown_method(server):
    call = server.channel.unary_unary("/gemm.v1.GemmService/Divide")
    failure = failure_of(lambda: call(b"", timeout=60))
    assert failure.code == grpc.StatusCode.UNIMPLEMENTED, failure


def test_message_over_the_limit(server):
    # 4096 x 4096 f32 is the whole limit of 64 MiB already.
    a, b = np.zeros((4096, 4096), np.float32), np.zeros((4096, 1), np.float32)
    failure = failure_of(lambda: server.multiply(product_request(a, b)))
    assert failure.code == grpc.StatusCode.RESOURCE_EXHAUSTED, failure
    assert "67108864" in failure.message or "64" in failure.message, failure


def test_message_just_below_the_limit(server):
    a, b = np.zeros((4090, 4096), np.float32), np.ones((4096, 1), np.float32)
    d = harness.result_of(server.multiply(product_request(a, b)), 4090, 1)
    assert not d.any()


def test_announced_size_over_the_limit(server):
    metadata = (("gemmd-request-bytes", str(2**40)),)
    failure = failure_of(lambda: server.multiply(valid_request(), metadata=metadata))
    assert failure.code == grpc.StatusCode.RESOURCE_EXHAUSTED, failure
    assert failure.reason == "MESSAGE_TOO_LARGE", failure
    assert str(2**40) in failure.message and str(64 * MIB) in failure.message, failure


@pytest.mark.parametrize("announced", ["10", "0", "-1", "many", "9" * 30])
def test_announced_size_that_is_not_true(server, announced):
    metadata = (("gemmd-request-bytes", announced),)
    failure = failure_of(lambda: server.multiply(valid_request(), metadata=metadata))
    assert failure.code == grpc.StatusCode.INVALID_ARGUMENT, failure
    assert failure.reason == "INVALID_REQUEST", failure
    # The caller hears of the end before the server has counted it.
    wait_until(
        lambda: server.metric("gemmd_budget_used_bytes", pool="admission") == 0, "its bytes back"
    )


def test_result_over_the_limit(server):
    # A small request for 8192 x 8192 f32, 256 MiB.
    a, b = np.ones((8192, 1), np.float32), np.ones((1, 8192), np.float32)
    failure = failure_of(lambda: server.multiply(product_request(a, b)))
    assert failure.code == grpc.StatusCode.RESOURCE_EXHAUSTED, failure
    assert failure.reason == "RESULT_TOO_LARGE", failure
    assert str(8192 * 8192 * 4) in failure.message and str(64 * MIB) in failure.message, failure


def test_result_far_over_the_limit(server):
    # k = 0 asks for any size of D with no operands at all.
    request = product_request(np.zeros((1, 0), np.float32), np.zeros((0, 1), np.float32))
    request.product.m = request.product.n = 2**30
    failure = failure_of(lambda: server.multiply(request))
    assert failure.code == grpc.StatusCode.RESOURCE_EXHAUSTED, failure
    assert failure.reason == "RESULT_TOO_LARGE", failure


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_message(server, compression):
    request = product_request(np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32))
    failure = failure_of(lambda: server.multiply(request, compression=compression))
    assert failure.code == grpc.StatusCode.UNIMPLEMENTED, failure


@pytest.mark.skipif(harness.SANITIZED, reason="a sanitizer's memory says nothing of the server's")
def test_compression_bomb(server):
    # 256 KiB that would inflate to 256 MiB of zeros: a well-formed payload far over the limit.
    size = 256 * MIB
    bomb = b"\xc2\x3e" + b"\x80\x80\x80\x80\x01" + bytes(size)
    server.reset_peak()
    before = server.peak_resident_bytes()
    failure = failure_of(
        lambda: raw_multiply(server.channel)(bomb, timeout=60, compression=grpc.Compression.Gzip)
    )
    assert failure.code == grpc.StatusCode.UNIMPLEMENTED, failure
    growth = server.peak_resident_bytes() - before
    assert growth < 32 * MIB, f"the server grew by {growth / MIB:.0f} MiB"


@pytest.mark.parametrize("port", ["address", "metrics_address"])
def test_bytes_that_are_no_protocol(server, port):
    host, number = getattr(server, port).rsplit(":", 1)
    for data in (b"", b"\0" * 100, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", os.urandom(4096)):
        with socket.create_connection((host, int(number)), timeout=10) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(1)
            try:
                while connection.recv(65536):
                    pass
            except OSError:
                pass  # it hung up: as good an answer as any


def test_explain_takes_no_nonsense(server):
    request = gemm_pb2.ExplainRequest()
    request.product.m, request.product.n, request.product.k = -1, 2, 3
    request.product.data_type = gemm_pb2.DATA_TYPE_F32
    failure = failure_of(lambda: server.stub.Explain(request, timeout=60))
    assert failure.code == grpc.StatusCode.INVALID_ARGUMENT, failure
    assert failure.field == "product.m", failure
