"""Right answers through a stock stub: the contract's arithmetic, layouts and wire format."""

import numpy as np
import pytest
from harness import (
    gemm_pb2,
    product_request,
    raw_multiply,
    reals,
    result_of,
    small_integers,
)

NAN = float("nan")
BOTH_TYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@BOTH_TYPES
def test_stub_and_gemmctl_get_the_same_bits(server, gemmctl, tmp_path, dtype):
    a, b = reals(1, 173, 211, dtype=dtype), reals(2, 211, 97, dtype=dtype)
    reply = server.multiply(product_request(a, b))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    done = gemmctl("multiply", tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "d.npy")
    assert done.returncode == 0, done.stderr
    d = np.load(tmp_path / "d.npy")
    assert d.dtype == dtype and d.shape == (173, 97)
    assert d.tobytes() == reply.payloads[0]


@BOTH_TYPES
def test_error_is_bounded(server, dtype):
    m, n, k = 150, 90, 1021
    a, b = reals(3, m, k, dtype=dtype), reals(4, k, n, dtype=dtype)
    d = result_of(server.multiply(product_request(a, b)), m, n, dtype=dtype)
    wide = np.longdouble
    exact = a.astype(wide) @ b.astype(wide)
    unit = np.finfo(dtype).eps / 2
    bound = unit * np.abs(exact) + 4 * np.sqrt(k) * unit * (
        np.abs(a).astype(wide) @ np.abs(b).astype(wide)
    )
    assert np.all(np.abs(d - exact) <= bound)


def test_same_input_twice_same_bits(server):
    request = product_request(reals(5, 300, 400), reals(6, 400, 200))
    first, second = server.multiply(request), server.multiply(request)
    assert first.payloads[0] == second.payloads[0]


@BOTH_TYPES
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (1, 257, 3), (255, 1, 64), (31, 33, 127), (5, 7, 2)])
def test_shapes(server, dtype, m, n, k):
    a, b = small_integers(m, m, k, dtype=dtype), small_integers(n, k, n, dtype=dtype)
    d = result_of(server.multiply(product_request(a, b)), m, n, dtype=dtype)
    np.testing.assert_array_equal(d, a @ b)


def test_report_tells_how_it_ran(server):
    report = server.multiply(product_request(reals(7, 200, 300), reals(8, 300, 100))).report
    assert report.kernel and report.device
    assert report.batch_problems >= 1
    assert report.receive_ns > 0 and report.decode_ns > 0 and report.compute_ns > 0


# alpha and beta


def test_alpha_and_beta(server):
    a, b, c = small_integers(1, 6, 9), small_integers(2, 9, 4), small_integers(3, 6, 4)
    d = result_of(server.multiply(product_request(a, b, c, alpha=-2.0, beta=0.5)), 6, 4)
    np.testing.assert_array_equal(d, -2 * (a @ b) + 0.5 * c)


def test_omitted_alpha_is_one_and_omitted_beta_is_zero(server):
    a, b = small_integers(1, 6, 9), small_integers(2, 9, 4)
    omitted = product_request(a, b)
    assert not omitted.product.HasField("alpha") and not omitted.product.HasField("beta")
    np.testing.assert_array_equal(result_of(server.multiply(omitted), 6, 4), a @ b)
    zero = product_request(a, b, alpha=0.0)
    np.testing.assert_array_equal(result_of(server.multiply(zero), 6, 4), np.zeros((6, 4)))


def test_beta_zero_never_reads_c(server):
    a, b, c = small_integers(1, 6, 9), small_integers(2, 9, 4), np.full((6, 4), NAN, np.float32)
    d = result_of(server.multiply(product_request(a, b, c, beta=0.0)), 6, 4)
    np.testing.assert_array_equal(d, a @ b)


@pytest.mark.parametrize("beta", [0.0, 3.0])
def test_alpha_zero_never_reads_a_and_b(server, beta):
    a, b = np.full((6, 9), NAN, np.float32), np.full((9, 4), np.inf, np.float32)
    c = small_integers(3, 6, 4)
    d = result_of(server.multiply(product_request(a, b, c, alpha=0.0, beta=beta)), 6, 4)
    np.testing.assert_array_equal(d, beta * c)


def test_nan_and_inf_travel(server):
    a, b = small_integers(1, 4, 5), np.abs(small_integers(2, 5, 3)) + 1
    a[1, 2], a[2] = NAN, np.abs(a[2]) + 1
    a[2, 0] = np.inf
    d = result_of(server.multiply(product_request(a, b)), 4, 3)
    assert np.all(np.isnan(d[1])) and np.all(np.isposinf(d[2]))
    np.testing.assert_array_equal(d[[0, 3]], (a @ b)[[0, 3]])


# Empty dimensions


@pytest.mark.parametrize("m, n, k", [(0, 4, 5), (6, 0, 5), (0, 0, 0), (0, 4, 0)])
def test_empty_result(server, m, n, k):
    reply = server.multiply(product_request(small_integers(1, m, k), small_integers(2, k, n)))
    assert list(reply.payloads) == [b""]


def test_k_zero_is_beta_c(server):
    a, b, c = np.zeros((6, 0), np.float32), np.zeros((0, 4), np.float32), small_integers(3, 6, 4)
    without_c = result_of(server.multiply(product_request(a, b)), 6, 4)
    np.testing.assert_array_equal(without_c, np.zeros((6, 4)))
    with_c = result_of(server.multiply(product_request(a, b, c, beta=2.0)), 6, 4)
    np.testing.assert_array_equal(with_c, 2 * c)


def test_batch_of_none(server):
    request = product_request(small_integers(1, 6, 9), small_integers(2, 9, 4), batch_count=0)
    request.payloads[:] = [b"", b""]
    assert list(server.multiply(request).payloads) == [b""]


# Layouts


@pytest.mark.parametrize("transposed_a", [False, True])
@pytest.mark.parametrize("transposed_b", [False, True])
def test_transposes(server, transposed_a, transposed_b):
    a, b = small_integers(1, 11, 17), small_integers(2, 17, 5)
    request = product_request(a, b)
    if transposed_a:
        request.product.a.transposed = True
        request.payloads[0] = np.ascontiguousarray(a.T).tobytes()
    if transposed_b:
        request.product.b.transposed = True
        request.payloads[1] = np.ascontiguousarray(b.T).tobytes()
    np.testing.assert_array_equal(result_of(server.multiply(request), 11, 5), a @ b)


def padded(matrix, leading_dimension):
    """The bytes of a matrix whose rows are further apart; what lies between is NaN."""
    rows, columns = matrix.shape
    stored = np.full((rows, leading_dimension), NAN, matrix.dtype)
    stored[:, :columns] = matrix
    return stored.reshape(-1)[: (rows - 1) * leading_dimension + columns].tobytes()


def test_leading_dimensions(server):
    a, b, c = small_integers(1, 11, 17), small_integers(2, 17, 5), small_integers(3, 11, 5)
    request = product_request(a, b, c, beta=1.0)
    request.product.a.leading_dimension = 23
    request.product.b.leading_dimension = 31
    request.product.b.transposed = True
    request.product.c.leading_dimension = 6
    request.payloads[:] = [padded(a, 23), padded(np.ascontiguousarray(b.T), 31), padded(c, 6)]
    np.testing.assert_array_equal(result_of(server.multiply(request), 11, 5), a @ b + c)


def test_batch_with_broadcast(server):
    batch = 4
    a, b, c = small_integers(1, batch, 6, 9), small_integers(2, 9, 5), small_integers(3, 6, 5)
    request = product_request(a[0], b, c, beta=-1.0, batch_count=batch)
    request.payloads[0] = a.tobytes()  # packed: no batch_stride
    request.product.b.batch_stride = 0
    request.product.c.batch_stride = 0
    np.testing.assert_array_equal(result_of(server.multiply(request), batch, 6, 5), a @ b - c)


def test_batch_with_gaps(server):
    batch, stride = 3, 100
    a, b = small_integers(1, batch, 6, 9), small_integers(2, batch, 9, 5)
    request = product_request(a[0], b[0], batch_count=batch)
    request.payloads[:] = [padded(a.reshape(batch, -1), stride), b.tobytes()]
    request.product.a.batch_stride = stride
    np.testing.assert_array_equal(result_of(server.multiply(request), batch, 6, 5), a @ b)


def test_one_payload_for_two_operands(server):
    a = small_integers(1, 8, 13)
    request = product_request(a, np.ascontiguousarray(a.T))
    del request.payloads[1]
    request.product.b.payload = 0
    request.product.b.transposed = True
    np.testing.assert_array_equal(result_of(server.multiply(request), 8, 8), a @ a.T)


# The wire


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, data):
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def split_product(product):
    """Two messages that merge into `product`."""
    first, second = gemm_pb2.Product(), gemm_pb2.Product()
    first.m, first.n, first.k = product.m, product.n, product.k
    second.CopyFrom(product)
    second.ClearField("m"), second.ClearField("n"), second.ClearField("k")
    return first.SerializeToString(), second.SerializeToString()


def test_fields_come_in_any_order(server):
    a, b = small_integers(1, 6, 9), small_integers(2, 9, 4)
    message = product_request(a, b)
    product = field(1, message.product.SerializeToString())
    first_half, second_half = (field(1, part) for part in split_product(message.product))
    payload_a, payload_b = field(1000, a.tobytes()), field(1000, b.tobytes())
    request_id = field(2, b"any-order")
    unknown = field(77, b"from a newer client") + varint(78 << 3) + varint(5)
    multiply = raw_multiply(server.channel)
    for parts in (
        (payload_a, payload_b, product, request_id),
        (payload_a, product, payload_b),
        (request_id, payload_a, unknown, payload_b, unknown, product),
        (first_half, payload_a, second_half, payload_b),
    ):
        reply = multiply(b"".join(parts), timeout=60)
        np.testing.assert_array_equal(result_of(reply, 6, 4), a @ b)


def test_many_callers_at_once(server):
    a, b = small_integers(1, 64, 64), small_integers(2, 64, 64)
    calls = [
        server.stub.Multiply.future(product_request(a + i, b), timeout=60) for i in range(200)
    ]
    for i, call in enumerate(calls):
        np.testing.assert_array_equal(result_of(call.result(), 64, 64), (a + i) @ b)
