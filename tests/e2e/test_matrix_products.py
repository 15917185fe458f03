"""Products of matrices that stay on the server, and results that stay."""

import numpy as np
import pytest
from harness import (
    PATIENCE,
    failure_of,
    gemm_pb2,
    product_request,
    reals,
    result_of,
    small_integers,
    wait_until,
)
from matrix_calls import SECOND_NS, Code, fresh, get, names, product, put, rows_of


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_operands_that_stay(stub, dtype, transposed):
    m, n, k = 33, 270, 300  # rows dense and padded
    a, b, c = (
        small_integers(seed, *shape, dtype=dtype)
        for seed, shape in enumerate([(m, k), (k, n), (m, n)])
    )
    a_name = put(stub, np.ascontiguousarray(a.T) if transposed[0] else a)
    b_name = put(stub, np.ascontiguousarray(b.T) if transposed[1] else b)
    c_name = put(stub, c)
    request = product(
        (m, n, k),
        rows_of(a_name, transposed=transposed[0]),
        rows_of(b_name, transposed=transposed[1]),
        rows_of(c_name),
        dtype=dtype,
        alpha=2,
        beta=-1,
    )
    reply = stub.Multiply(request, timeout=PATIENCE)
    np.testing.assert_array_equal(result_of(reply, m, n, dtype=dtype), 2 * (a @ b) - c)
    assert reply.report.kernel


def test_bits_do_not_depend_on_where_operands_are(stub):
    a, b = reals(1, 129, 333), reals(2, 333, 270)
    request = product((129, 270, 333), rows_of(put(stub, a)), rows_of(put(stub, b)))
    resident = stub.Multiply(request, timeout=PATIENCE)
    inline = stub.Multiply(product_request(a, b), timeout=PATIENCE)
    assert resident.payloads[0] == inline.payloads[0]
    assert resident.report.kernel == inline.report.kernel


def test_inline_and_resident_operands_mix(stub):
    a, b = small_integers(1, 5, 600), small_integers(2, 600, 7)
    request = product((5, 7, 600), gemm_pb2.Operand(payload=0), rows_of(put(stub, b)))
    request.payloads.append(a.tobytes())
    reply = stub.Multiply(request, timeout=PATIENCE)
    np.testing.assert_array_equal(result_of(reply, 5, 7), a @ b)


def test_row_ranges(stub):
    stored = small_integers(1, 100, 301)
    b = small_integers(2, 301, 8)
    stored_name, b_name = put(stub, stored), put(stub, b)
    for begin, count in ((0, 10), (17, 33), (99, 1), (40, 0)):
        rows = stored[begin : begin + count] if count else stored[begin:]
        request = product((len(rows), 8, 301), rows_of(stored_name, begin, count), rows_of(b_name))
        reply = stub.Multiply(request, timeout=PATIENCE)
        np.testing.assert_array_equal(result_of(reply, len(rows), 8), rows @ b)


def test_batches_follow_each_other_in_the_rows_or_share_one(stub):
    a, b = small_integers(1, 3 * 20, 258), small_integers(2, 258, 11)
    request = product(
        (20, 11, 258), rows_of(put(stub, a)), rows_of(put(stub, b), batch_stride=0), batch_count=3
    )
    reply = stub.Multiply(request, timeout=PATIENCE)
    np.testing.assert_array_equal(
        result_of(reply, 3, 20, 11), a.reshape(3, 20, 258) @ b[np.newaxis]
    )


def test_operands_that_do_not_fit_are_refused_by_field(stub):
    name = put(stub, small_integers(1, 12, 6))
    doubles = put(stub, small_integers(1, 12, 6, dtype=np.float64))
    good = rows_of(put(stub, small_integers(2, 6, 4)))

    def field_of(operand, shape=(12, 4, 6), **fields):
        failure = failure_of(
            lambda: stub.Multiply(product(shape, operand, good, **fields), timeout=PATIENCE)
        )
        assert failure.reason == "INVALID_REQUEST", failure
        return failure.field

    assert field_of(rows_of(name), (12, 4, 7)) == "product.a.matrix"  # columns
    assert field_of(rows_of(name), (13, 4, 6)) == "product.a.matrix.row_count"
    assert field_of(rows_of(name, 1)) == "product.a.matrix.row_count"
    assert field_of(rows_of(name, 13)) == "product.a.matrix.row_begin"
    assert field_of(rows_of(name, -1)) == "product.a.matrix.row_begin"
    assert field_of(rows_of(name, 0, 13), (13, 4, 6)) == "product.a.matrix.row_count"
    assert field_of(rows_of(name), (6, 4, 6), batch_count=3) == "product.a.matrix.row_count"
    assert field_of(rows_of(doubles)) == "product.a.matrix"  # type
    assert field_of(rows_of(name, leading_dimension=6)) == "product.a.leading_dimension"
    assert field_of(rows_of(name, batch_stride=72)) == "product.a.batch_stride"
    assert field_of(rows_of("a b")) == "product.a.matrix.name"
    failure = failure_of(
        lambda: stub.Multiply(product((12, 4, 6), rows_of("nobody"), good), timeout=PATIENCE)
    )
    assert (failure.code, failure.reason, failure.field) == (
        Code.NOT_FOUND,
        "MATRIX_NOT_FOUND",
        "product.a.matrix",
    ), failure


def test_a_chain_never_leaves_the_server(server, stub):
    x, w = small_integers(1, 40, 300), [small_integers(seed, 300, 300) % 2 for seed in (2, 3)]
    layers = [put(stub, layer) for layer in w]
    at = put(stub, x)
    want = x
    before = server.metric("gemmd_bytes_total", road="inline")
    for layer, name in zip(w, layers, strict=True):
        result = fresh()
        request = product((40, 300, 300), rows_of(at), rows_of(name), result=result)
        reply = stub.Multiply(request, timeout=PATIENCE)
        assert list(reply.payloads) == [b""] and reply.report.kernel
        assert (reply.result.name, reply.result.rows, reply.result.sealed) == (result, 40, True)
        at, want = result, want @ layer
    wait_until(
        lambda: server.metric("gemmd_bytes_total", road="resident", direction="out") > 0, "metrics"
    )
    assert server.metric("gemmd_bytes_total", road="inline") == before
    np.testing.assert_array_equal(get(stub, at), want)


def test_a_result_is_computed_once(server, stub):
    a, b = small_integers(1, 30, 40), small_integers(2, 40, 300)
    name = fresh()
    request = product_request(a, b)
    request.product.result.name = name
    first = stub.Multiply(request, timeout=PATIENCE)
    assert first.report.kernel and first.result.sealed
    launches = server.metric("gemmd_kernel_launches_total")
    again = stub.Multiply(request, timeout=PATIENCE)
    assert not again.report.kernel and again.result.name == name
    assert list(again.payloads) == [b""]
    assert server.metric("gemmd_kernel_launches_total") == launches
    np.testing.assert_array_equal(get(stub, name), a @ b)
    other = product_request(a, small_integers(2, 40, 299))
    other.product.result.name = name
    failure = failure_of(lambda: stub.Multiply(other, timeout=PATIENCE))
    assert (failure.code, failure.reason) == (Code.ALREADY_EXISTS, "MATRIX_EXISTS"), failure


def test_results_of_batches_and_of_nothing(stub):
    a, b = small_integers(1, 3, 20, 30), small_integers(2, 30, 280)
    request = gemm_pb2.MultiplyRequest(payloads=[a.tobytes(), b.tobytes()])
    request.product.CopyFrom(
        product(
            (20, 280, 30),
            gemm_pb2.Operand(payload=0),
            gemm_pb2.Operand(payload=1, batch_stride=0),
            batch_count=3,
        ).product
    )
    request.product.result.name = name = fresh()
    reply = stub.Multiply(request, timeout=PATIENCE)
    assert (reply.result.rows, reply.result.columns) == (60, 280)
    np.testing.assert_array_equal(get(stub, name).reshape(3, 20, 280), a @ b)

    request = product_request(small_integers(1, 0, 5), small_integers(2, 5, 4))
    request.product.result.name = fresh()
    reply = stub.Multiply(request, timeout=PATIENCE)
    assert reply.result.sealed and reply.result.rows == 0
    request = product_request(small_integers(1, 3, 5), small_integers(2, 5, 4))
    request.product.result.time_to_live_ns = 60 * SECOND_NS  # and no name
    reply = stub.Multiply(request, timeout=PATIENCE)
    assert reply.result.name in names(stub)
    assert reply.result.time_to_live_ns == 60 * SECOND_NS


def test_wrong_results_are_refused_by_field(stub):
    a = put(stub, small_integers(1, 6, 6))

    def field_of(result, **fields):
        request = product((6, 6, 6), rows_of(a), rows_of(a), result=result)
        for field, value in fields.items():
            setattr(request.product.result, field, value)
        return failure_of(lambda: stub.Multiply(request, timeout=PATIENCE)).field

    assert field_of("a b") == "product.result.name"
    assert field_of(a) == "product.result.name"  # is an operand
    assert field_of(fresh(), time_to_live_ns=2**63) == "product.result.time_to_live_ns"
    assert names(stub) == [a]


def test_a_failed_product_leaves_no_result(stub):
    name = fresh()
    request = product_request(small_integers(1, 3, 5), small_integers(2, 5, 4))
    request.product.result.name = name
    request.product.m = 4
    failure_of(lambda: stub.Multiply(request, timeout=PATIENCE))
    assert names(stub) == []


def test_multiply_batch_takes_and_leaves_matrices(stub):
    a, b = small_integers(1, 10, 300), small_integers(2, 300, 20)
    a_name, b_name, kept = put(stub, a), put(stub, b), fresh()
    batch = gemm_pb2.MultiplyBatchRequest()
    batch.products.append(product((10, 20, 300), rows_of(a_name), rows_of(b_name)).product)
    batch.products.append(
        product((10, 20, 300), rows_of(a_name), rows_of(b_name), result=kept).product
    )
    batch.products.append(product((10, 20, 300), rows_of("gone"), rows_of(b_name)).product)
    batch.products.append(
        product((10, 20, 300), rows_of(a_name), rows_of(b_name), result=kept, alpha=3).product
    )
    reply = stub.MultiplyBatch(batch, timeout=PATIENCE)
    np.testing.assert_array_equal(
        np.frombuffer(reply.payloads[0], np.float32).reshape(10, 20), a @ b
    )
    assert [len(payload) for payload in reply.payloads] == [10 * 20 * 4, 0, 0, 0]
    assert [result.error.code for result in reply.results] == [0, 0, 5, 3]
    assert reply.results[1].result.name == kept
    assert "products[3].result.name" in reply.results[3].error.message
    np.testing.assert_array_equal(get(stub, kept), a @ b)
    again = stub.MultiplyBatch(batch, timeout=PATIENCE)
    assert not again.results[1].report.kernel and again.results[0].report.kernel
