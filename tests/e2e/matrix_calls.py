"""The calls about matrices that stay on the server, for tests."""

import uuid

import grpc
import numpy as np
from harness import DATA_TYPES, PATIENCE, gemm_pb2

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
