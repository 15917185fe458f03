"""Matrices that stay on the server, through stock stubs: rows, there and back."""

import numpy as np
import pytest
from harness import PATIENCE, failure_of, gemm_pb2, reals, small_integers
from matrix_calls import (
    Code,
    create,
    delete,
    fresh,
    get,
    names,
    product,
    put,
    rows_of,
    state,
    write,
)


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
