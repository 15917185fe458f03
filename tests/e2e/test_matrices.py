"""Matrices that stay on the server, through stock stubs."""

import contextlib
import random
import threading
import time
import uuid

import grpc
import harness
import numpy as np
import pytest
from harness import (
    DATA_TYPES,
    MIB,
    PATIENCE,
    failure_of,
    gemm_pb2,
    gemm_pb2_grpc,
    open_channel,
    product_request,
    reals,
    result_of,
    running_server,
    small_integers,
    wait_until,
)

Code = grpc.StatusCode
SECOND_NS = 1_000_000_000


def fresh():
    return str(uuid.uuid4())


def create(stub, array, name=None, **fields):
    """Makes a matrix of this array's shape and type; its name."""
    request = gemm_pb2.CreateMatrixRequest(
        name=fresh() if name is None else name,
        data_type=DATA_TYPES[array.dtype],
        rows=array.shape[0],
        columns=array.shape[1],
        **fields,
    )
    return stub.CreateMatrix(request, timeout=PATIENCE).matrix


def write(stub, name, array, begin=0, count=None):
    """Writes rows `begin` to `begin + count` of this array, by default all from `begin` on."""
    count = len(array) - begin if count is None else count
    request = gemm_pb2.WriteRowsRequest(name=name, row_begin=begin, row_count=count)
    request.payloads.append(array[begin : begin + count].tobytes())
    return stub.WriteRows(request, timeout=PATIENCE).matrix


def put(stub, array, name=None, **fields):
    """A sealed matrix with these elements; its name."""
    name = create(stub, array, name, **fields).name
    if array.size:
        assert write(stub, name, array).sealed
    return name


def get(stub, name, begin=0, count=0):
    request = gemm_pb2.ReadRowsRequest(name=name, row_begin=begin, row_count=count)
    reply = stub.ReadRows(request, timeout=PATIENCE)
    assert len(reply.payloads) == 1 and reply.matrix.name == name
    dtype = {number: dtype for dtype, number in DATA_TYPES.items()}[reply.matrix.data_type]
    return np.frombuffer(reply.payloads[0], dtype).reshape(-1, reply.matrix.columns)


def state(stub, name):
    return stub.GetMatrix(gemm_pb2.GetMatrixRequest(name=name), timeout=PATIENCE).matrix


def delete(stub, name):
    stub.DeleteMatrix(gemm_pb2.DeleteMatrixRequest(name=name), timeout=PATIENCE)


def names(stub, page_size=0):
    listed, token = [], ""
    while True:
        request = gemm_pb2.ListMatricesRequest(page_size=page_size, page_token=token)
        reply = stub.ListMatrices(request, timeout=PATIENCE)
        listed += [matrix.name for matrix in reply.matrices]
        token = reply.next_page_token
        if not token:
            return listed


def rows_of(name, begin=0, count=0, **fields):
    """An operand: rows of a matrix."""
    rows = gemm_pb2.MatrixRows(name=name, row_begin=begin, row_count=count)
    return gemm_pb2.Operand(matrix=rows, **fields)


def product(shape, a, b, c=None, dtype=np.float32, result=None, **fields):
    """A MultiplyRequest of operands as they are; `shape` is m, n, k."""
    request = gemm_pb2.MultiplyRequest()
    request.product.m, request.product.n, request.product.k = shape
    request.product.data_type = DATA_TYPES[np.dtype(dtype)]
    request.product.a.CopyFrom(a)
    request.product.b.CopyFrom(b)
    if c is not None:
        request.product.c.CopyFrom(c)
    if result is not None:
        request.product.result.name = result
    for name, value in fields.items():
        setattr(request.product, name, value)
    return request


@pytest.fixture
def stub(server):
    yield server.stub
    for name in names(server.stub):
        delete(server.stub, name)


# Rows


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 7, 256, 257, 1000])
def test_rows_come_back_as_they_were_written(stub, dtype, columns):
    array = reals(1, 37, columns, dtype=dtype)
    made = create(stub, array)
    assert (made.rows, made.columns, made.rows_written, made.sealed) == (37, columns, 0, False)
    panels = [(20, 17), (0, 5), (12, 8), (5, 7)]
    for begin, count in panels:
        last = write(stub, made.name, array, begin, count)
    assert last.sealed and last.rows_written == 37
    np.testing.assert_array_equal(get(stub, made.name), array)
    np.testing.assert_array_equal(get(stub, made.name, 11, 9), array[11:20])
    np.testing.assert_array_equal(get(stub, made.name, 36), array[36:])
    assert get(stub, made.name, 37).shape == (0, columns)


def test_a_retry_of_anything_is_safe(stub):
    array, other = small_integers(1, 6, 4), small_integers(2, 6, 4)
    name = create(stub, array).name
    assert create(stub, array, name).rows_written == 0
    write(stub, name, array, 2, 3)
    assert create(stub, array, name).rows_written == 3
    # Rows that are there stay as they are; the missing ones of the same call are written.
    assert write(stub, name, np.vstack([array[:2], other[2:5], array[5:]])).sealed
    assert write(stub, name, other).sealed
    assert create(stub, array, name).sealed
    np.testing.assert_array_equal(get(stub, name), array)


def test_without_elements_it_is_sealed_at_once(stub):
    for shape in ((0, 5), (5, 0), (0, 0)):
        empty = np.zeros(shape, np.float32)
        assert create(stub, empty, name := fresh()).sealed
        assert state(stub, name).memory_bytes == 0
        request = gemm_pb2.ReadRowsRequest(name=name)
        assert list(stub.ReadRows(request, timeout=PATIENCE).payloads) == [b""]


def test_the_server_makes_up_names(stub):
    array = small_integers(1, 3, 3)
    first, second = create(stub, array, "").name, create(stub, array, "").name
    assert first and second and first != second
    assert names(stub) == sorted([first, second])


def test_lists_by_page_in_order(stub):
    array = small_integers(1, 2, 2)
    made = sorted(create(stub, array).name for _ in range(7))
    assert names(stub) == names(stub, 1) == names(stub, 3) == names(stub, 7) == made


def test_delete(stub):
    array = small_integers(1, 3, 3)
    name = put(stub, array)
    delete(stub, name)
    for call in (get, state, delete):
        failure = failure_of(lambda call=call: call(stub, name))
        assert (failure.code, failure.reason) == (Code.NOT_FOUND, "MATRIX_NOT_FOUND"), failure
        assert name in failure.message
    put(stub, small_integers(1, 9, 5), name)  # the name is free


def test_errors_say_what_is_wrong(stub):
    array = small_integers(1, 4, 6)
    name = create(stub, array).name

    def check(call, code, reason, field=None):
        failure = failure_of(call)
        got = (failure.code, failure.reason, failure.field)
        assert got == (code, reason, field), failure

    def invalid(call, field):
        check(call, Code.INVALID_ARGUMENT, "INVALID_REQUEST", field)

    def creating(**fields):
        request = gemm_pb2.CreateMatrixRequest(
            name=fresh(), data_type=gemm_pb2.DATA_TYPE_F32, rows=2, columns=2
        )
        for field, value in fields.items():
            setattr(request, field, value)
        return lambda: stub.CreateMatrix(request, timeout=PATIENCE)

    invalid(creating(name="a b"), "name")
    invalid(creating(name="x" * 129), "name")
    invalid(creating(data_type=gemm_pb2.DATA_TYPE_UNSPECIFIED), "data_type")
    invalid(creating(rows=-1), "rows")
    invalid(creating(columns=-1), "columns")
    invalid(creating(rows=2**62, columns=2**62), "rows")
    invalid(creating(time_to_live_ns=2**63), "time_to_live_ns")
    check(creating(rows=2**40), Code.RESOURCE_EXHAUSTED, "MEMORY_TOO_SMALL")
    assert "row panels" in failure_of(creating(rows=2**40)).message
    check(creating(name=name), Code.ALREADY_EXISTS, "MATRIX_EXISTS")

    def writing(data, begin, count, to=name, payloads=1):
        request = gemm_pb2.WriteRowsRequest(name=to, row_begin=begin, row_count=count)
        request.payloads.extend([data] * payloads)
        return lambda: stub.WriteRows(request, timeout=PATIENCE)

    row = array[0].tobytes()
    invalid(writing(row, -1, 1), "row_begin")
    invalid(writing(row, 5, 1), "row_begin")
    invalid(writing(row, 0, 5), "row_count")
    invalid(writing(row, 3, 2), "row_count")
    invalid(writing(row, 2**62, 2**62), "row_begin")
    invalid(writing(row[:-1], 0, 1), "payloads[0]")
    invalid(writing(row, 0, 2), "payloads[0]")
    invalid(writing(row, 0, 1, payloads=0), "payloads")
    invalid(writing(row, 0, 1, payloads=2), "payloads")
    invalid(writing(row, 0, 1, to=""), "name")
    check(writing(row, 0, 1, to=fresh()), Code.NOT_FOUND, "MATRIX_NOT_FOUND")
    assert state(stub, name).rows_written == 0
    check(lambda: get(stub, name), Code.FAILED_PRECONDITION, "MATRIX_NOT_SEALED")
    check(
        lambda: stub.Multiply(product((4, 6, 4), rows_of(name), rows_of(name)), timeout=PATIENCE),
        Code.FAILED_PRECONDITION,
        "MATRIX_NOT_SEALED",
        "product.a.matrix",
    )
    write(stub, name, array)
    invalid(lambda: get(stub, name, 5), "row_begin")
    invalid(lambda: get(stub, name, 1, 4), "row_count")
    for page in (dict(page_size=-1), dict(page_token="no name")):
        invalid(
            lambda page=page: stub.ListMatrices(gemm_pb2.ListMatricesRequest(**page), timeout=9),
            next(iter(page)),
        )


# Products


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


# Limits


def test_past_the_size_of_a_message():
    with running_server("--message-limit=1MiB", "--host-memory=16MiB") as server:
        stub = server.stub
        a, b = small_integers(1, 1200, 1100), small_integers(2, 1100, 1000)  # 5 MiB, 4 MiB
        operands = []
        for array in (a, b):
            name = create(stub, array).name
            for begin in range(0, len(array), 150):
                write(stub, name, array, begin, min(150, len(array) - begin))
            operands.append(rows_of(name))
        failure = failure_of(lambda: stub.Multiply(product((1200, 1000, 1100), *operands)))
        assert (failure.code, failure.reason) == (Code.RESOURCE_EXHAUSTED, "RESULT_TOO_LARGE")
        reply = stub.Multiply(product((1200, 1000, 1100), *operands, result="d"), timeout=PATIENCE)
        assert reply.result.sealed
        failure = failure_of(lambda: get(stub, "d"))
        assert (failure.reason, failure.field) == ("RESULT_TOO_LARGE", "row_count"), failure
        parts = [get(stub, "d", begin, 200) for begin in range(0, 1200, 200)]
        np.testing.assert_array_equal(np.vstack(parts), a @ b)


def test_time_to_live():
    with running_server("--matrix-ttl=1s", "--matrix-ttl-limit=60s") as server:
        stub = server.stub
        array = small_integers(1, 3, 3)
        short = put(stub, array, time_to_live_ns=SECOND_NS * 3 // 2)
        kept = put(stub, array, time_to_live_ns=60 * SECOND_NS)
        by_default = create(stub, array)
        assert by_default.time_to_live_ns == SECOND_NS
        assert 0 < by_default.expires_in_ns <= SECOND_NS
        failure = failure_of(lambda: put(stub, array, time_to_live_ns=61 * SECOND_NS))
        assert failure.field == "time_to_live_ns", failure
        end = time.monotonic() + 3
        while time.monotonic() < end:  # longer than it lives without this
            assert state(stub, short).sealed
            time.sleep(0.1)
        wait_until(lambda: names(stub) == [kept], "the others to expire")
        wait_until(lambda: server.metric("gemmd_matrices") == 1, "the gauge")


def test_quota_and_memory():
    with running_server("--matrix-memory=1MiB", "--matrix-count=3") as server:
        stub = server.stub
        quarter = np.zeros((256, 256), np.float32)
        made = [put(stub, quarter) for _ in range(3)]
        failure = failure_of(lambda: put(stub, quarter))
        assert (failure.code, failure.reason) == (Code.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED")
        delete(stub, made.pop())
        half = np.zeros((513, 256), np.float32)
        failure = failure_of(lambda: put(stub, half))
        assert (failure.code, failure.reason) == (Code.UNAVAILABLE, "MEMORY_FULL"), failure
        assert failure.retry_seconds > 0
        assert server.metric("gemmd_budget_used_bytes", pool="matrices") == 2 * 256 * 256 * 4
        assert server.metric("gemmd_budget_limit_bytes", pool="matrices") == MIB
        info = stub.GetServerInfo(gemm_pb2.GetServerInfoRequest(), timeout=PATIENCE)
        assert info.matrix_memory_bytes == MIB
        assert info.matrix_memory_used_bytes == 2 * 256 * 256 * 4
        assert info.time_to_live_limit_ns == 24 * 3600 * SECOND_NS
        failure = failure_of(lambda: put(stub, np.zeros((1025, 256), np.float32)))
        assert failure.reason == "MEMORY_TOO_SMALL", failure


# Many at once


def test_many_writers_in_random_order(server, stub):
    """Each row is sent by some of eight connections, several times over."""
    array = reals(1, 640, 513)
    name = create(stub, array).name
    errors = []

    def writer(seed):
        order = list(range(0, 640, 20))
        random.Random(seed).shuffle(order)
        try:
            with open_channel(server.address) as channel:
                own = gemm_pb2_grpc.GemmServiceStub(channel)
                for begin in order:
                    while True:
                        try:
                            write(own, name, array, begin, 20)
                            break
                        except grpc.RpcError as error:
                            failure = harness.Failure(error)
                            assert failure.reason == "MATRIX_BUSY", failure
                            assert failure.code == Code.UNAVAILABLE
                            time.sleep(failure.retry_seconds)
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=writer, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert state(stub, name).sealed
    np.testing.assert_array_equal(get(stub, name), array)


def test_deleted_in_use(server, stub):
    """Products go on with a matrix that is deleted under them; its memory is given back after."""
    n = 1200
    a = small_integers(1, n, n)
    want = a @ a
    base = server.metric("gemmd_budget_used_bytes", pool="matrices")
    for _ in range(3):
        name = put(stub, a)
        calls = [
            stub.Multiply.future(product((n, n, n), rows_of(name), rows_of(name)), timeout=PATIENCE)
            for _ in range(4)
        ]
        with contextlib.suppress(grpc.FutureTimeoutError):
            calls[0].result(timeout=0.01)
        delete(stub, name)
        for call in calls:
            try:
                np.testing.assert_array_equal(result_of(call.result(), n, n), want)
            except grpc.RpcError as error:  # came after the delete
                assert harness.Failure(error).reason == "MATRIX_NOT_FOUND"
    wait_until(
        lambda: server.metric("gemmd_budget_used_bytes", pool="matrices") == base, "the memory"
    )


def test_many_want_one_result(server, stub):
    n = 700
    a = small_integers(1, n, n)
    name, result = put(stub, a), fresh()
    computed = []

    def caller():
        with open_channel(server.address) as channel:
            own = gemm_pb2_grpc.GemmServiceStub(channel)
            while True:
                try:
                    request = product((n, n, n), rows_of(name), rows_of(name), result=result)
                    reply = own.Multiply(request, timeout=PATIENCE)
                    assert reply.result.sealed
                    computed.append(bool(reply.report.kernel))
                    return
                except grpc.RpcError as error:
                    failure = harness.Failure(error)
                    assert failure.reason == "MATRIX_BUSY", failure
                    time.sleep(failure.retry_seconds)

    threads = [threading.Thread(target=caller) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(computed) == [False] * 5 + [True]
    np.testing.assert_array_equal(get(stub, result), a @ a)


def test_a_quota_is_not_waited_for():
    with running_server("--matrix-quota=300KiB") as server:
        quarter = np.zeros((256, 256), np.float32)
        put(server.stub, quarter)
        failure = failure_of(lambda: put(server.stub, quarter))
        assert (failure.code, failure.reason) == (Code.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED")
        assert failure.retry_seconds is None and "row panels" in failure.message, failure


def test_the_log_names_the_matrix(server, stub):
    name = fresh()
    failure_of(lambda: get(stub, name))

    def logged():
        return [record for record in server.records() if record.get("matrix") == name]

    wait_until(logged, "the log's record")
    assert logged()[0]["method"] == "ReadRows" and logged()[0]["code"] == "NOT_FOUND"


def test_reflection_leaves_matrices_to_the_gate():
    with running_server("--reflection") as server:
        array = small_integers(1, 3, 3)
        np.testing.assert_array_equal(get(server.stub, put(server.stub, array)), array)


def test_none_outlives_the_server():
    array = small_integers(1, 3, 3)
    with running_server() as server:
        name = put(server.stub, array)
    with running_server() as server:
        failure = failure_of(lambda: get(server.stub, name))
        assert (failure.code, failure.reason) == (Code.NOT_FOUND, "MATRIX_NOT_FOUND"), failure


def test_a_draining_server_refuses_matrices_too():
    with running_server("--drain-window=0s") as server:
        a = small_integers(1, 2500, 2500)
        name = put(server.stub, a)
        request = product((2500, 2500, 2500), rows_of(name), rows_of(name), result="d")
        call = server.stub.Multiply.future(request, timeout=PATIENCE)
        wait_until(
            lambda: server.metric("grpc_server_started_total", grpc_method="Multiply") == 1, "it"
        )
        server.terminate()
        with contextlib.suppress(grpc.RpcError):
            while True:  # until it refuses or has gone
                create(server.stub, a, name)
        assert call.result().result.sealed  # what was under way was finished
        assert server.wait() == 0
