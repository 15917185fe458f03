"""Every layout that NumPy has, against NumPy, on small integers whose products are exact."""

import itertools
import warnings

import numpy as np
import pytest
from harness import MIB, small_integers

import gemmd

DTYPES = [np.float32, np.float64]


def misaligned(array):
    """A copy of `array` that begins one byte off."""
    memory = np.zeros(array.nbytes + 1, np.uint8)
    shifted = memory[1:].view(array.dtype).reshape(array.shape)
    shifted[...] = array
    assert not shifted.flags.aligned or array.size == 0
    return shifted


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def embedded(array, steps, offsets):
    """The same matrix, as a strided window of a larger one that is full of NaN."""
    rows, columns = array.shape
    shape = [
        (size - 1) * abs(step) + 1 + offset + 3
        for size, step, offset in zip((rows, columns), steps, offsets)
    ]
    memory = np.full(shape, np.nan, array.dtype)
    slices = []
    for size, step, offset in zip((rows, columns), steps, offsets):
        extent = (size - 1) * abs(step)
        start, stop = (offset, offset + extent + 1) if step > 0 else (offset + extent, offset - 1)
        slices.append(slice(start, stop if stop >= 0 else None, step))
    window = memory[tuple(slices)]
    window[...] = array
    return window


LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "transpose of a copy": lambda x: x.T.copy().T,
    "columns of a wider one": lambda x: embedded(x, (1, 1), (0, 0)),
    "columns from the middle": lambda x: embedded(x, (1, 1), (2, 5)),
    "rows of a Fortran one": lambda x: embedded(x.T, (1, 1), (2, 5)).T,
    "every other row": lambda x: embedded(x, (2, 1), (0, 0)),
    "every third column": lambda x: embedded(x, (1, 3), (0, 1)),
    "both strided": lambda x: embedded(x, (2, 3), (1, 1)),
    "both strided, Fortran": lambda x: embedded(x.T, (2, 3), (1, 1)).T,
    "rows backwards": lambda x: embedded(x, (-1, 1), (0, 0)),
    "columns backwards": lambda x: embedded(x, (1, -1), (0, 0)),
    "all backwards by two": lambda x: embedded(x, (-2, -2), (1, 1)),
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "misaligned": misaligned,
    "misaligned Fortran": lambda x: misaligned(x.T.copy()).T,
    "read-only": read_only,
    "nested lists": lambda x: x.tolist() if x.dtype == np.float64 else x,
    "matrix class": lambda x: _matrix(x),
}


def _matrix(array):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return np.matrix(array)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout_a", LAYOUTS)
def test_layouts(client, layout_a, dtype):
    a, b, c = (
        small_integers(s, *shape, dtype=dtype) for s, shape in enumerate([(6, 9), (9, 4), (6, 4)])
    )
    for layout_b in LAYOUTS:
        left, right = LAYOUTS[layout_a](a), LAYOUTS[layout_b](b)
        d = client.matmul(left, right)
        assert d.dtype == dtype and d.dtype.isnative
        np.testing.assert_array_equal(d, a @ b, err_msg=layout_b)
    addend = LAYOUTS[layout_a](c)
    d = client.matmul(a, b, alpha=2.0, c=addend, beta=-3.0)
    np.testing.assert_array_equal(d, 2 * (a @ b) - 3 * c)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_times_its_own_transpose(client, layout):
    a = LAYOUTS[layout](small_integers(3, 6, 9, dtype=np.float64))
    want = np.asarray(a, np.float64)
    transpose = np.asarray(a).T
    np.testing.assert_array_equal(client.matmul(a, transpose), want @ want.T)
    np.testing.assert_array_equal(client.matmul(transpose, a), want.T @ want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_thin_shapes(client, dtype):
    for m, n, k in itertools.product((1, 2, 5), repeat=3):
        for orders in itertools.product("CF", repeat=2):
            a = np.array(small_integers(m, m, k, dtype=dtype), order=orders[0])
            b = np.array(small_integers(n, k, n, dtype=dtype), order=orders[1])
            np.testing.assert_array_equal(client.matmul(a, b), a @ b)


VECTORS = [
    ((5,), (5,)),
    ((5,), (5, 3)),
    ((4, 5), (5,)),
    ((5,), (2, 5, 3)),
    ((2, 4, 5), (5,)),
    ((3, 2, 4, 5), (5,)),
    ((1,), (1,)),
]


@pytest.mark.parametrize(("shape_a", "shape_b"), VECTORS)
def test_vectors(client, shape_a, shape_b):
    a, b = small_integers(1, *shape_a), small_integers(2, *shape_b)
    want = a @ b
    d = client.matmul(a, b)
    assert np.shape(d) == np.shape(want) and type(d) is type(want)
    np.testing.assert_array_equal(d, want)
    strided = np.repeat(a, 2, axis=-1)[..., ::2]
    c = small_integers(3, *np.shape(want))
    np.testing.assert_array_equal(client.matmul(strided, b, c=c), want + c)


BATCHES = [
    ((3, 4, 5), (3, 5, 2)),
    ((3, 4, 5), (5, 2)),
    ((4, 5), (3, 5, 2)),
    ((3, 4, 5), (1, 5, 2)),
    ((2, 3, 4, 5), (2, 3, 5, 2)),
    ((2, 3, 4, 5), (3, 5, 2)),
    ((2, 1, 4, 5), (1, 3, 5, 2)),
    ((2, 1, 3, 4, 5), (7, 1, 5, 2)),
    ((1, 1, 4, 5), (5, 2)),
    ((2, 3, 4, 5), (2, 1, 5, 2)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape_a", "shape_b"), BATCHES)
def test_batches(client, shape_a, shape_b, dtype):
    a, b = small_integers(1, *shape_a, dtype=dtype), small_integers(2, *shape_b, dtype=dtype)
    want = a @ b
    np.testing.assert_array_equal(client.matmul(a, b), want)
    swapped = a.swapaxes(-1, -2).copy().swapaxes(-1, -2)
    np.testing.assert_array_equal(client.matmul(swapped, b), want)
    np.testing.assert_array_equal(client.matmul(a[..., ::-1, :], b), want[..., ::-1, :])
    c = small_integers(3, 4, 2, dtype=dtype)
    out = np.full(want.shape, np.nan, dtype)
    assert client.matmul(a, b, c=c, beta=2.0, out=out) is out
    np.testing.assert_array_equal(out, want + 2 * c)


def test_a_batch_is_one_call_where_the_contract_allows(client):
    for shape_a, shape_b in BATCHES[:6]:
        result = client.matmul_result(small_integers(1, *shape_a), small_integers(2, *shape_b))
        assert len(result.reports) == 1


def test_large_outer_batches_are_looped_rather_than_repeated(client):
    # Repeating a 3 x 256 KiB and b 4 x 256 KiB to 12 each would send 6 MiB; in three calls 3.75.
    a, b = small_integers(1, 3, 1, 256, 256), small_integers(2, 1, 4, 256, 256)
    result = client.matmul_result(a, b)
    np.testing.assert_array_equal(result.array, a @ b)
    assert len(result.reports) == 3
    assert sum(report.request_bytes for report in result.reports) < 4 * MIB
    with pytest.raises(ValueError, match="expected 1"):
        _ = result.report


EMPTY = [((0, 5), (5, 3)), ((4, 5), (5, 0)), ((0, 0), (0, 0)), ((0, 4, 5), (5, 3)), ((0, 5), (5,))]


@pytest.mark.parametrize(("shape_a", "shape_b"), EMPTY)
def test_empty_results(client, shape_a, shape_b):
    a, b = np.ones(shape_a, np.float32), np.ones(shape_b, np.float32)
    result = client.matmul_result(a, b)
    assert result.array.shape == (a @ b).shape and result.array.dtype == np.float32
    assert result.reports == ()


@pytest.mark.parametrize(
    ("shape_a", "shape_b"), [((4, 0), (0, 3)), ((2, 4, 0), (0, 3)), ((0,), (0,))]
)
def test_empty_sums(client, shape_a, shape_b):
    a, b = np.ones(shape_a), np.ones(shape_b)
    np.testing.assert_array_equal(client.matmul(a, b), a @ b)
    c = np.full(np.shape(a @ b), 7.0)
    np.testing.assert_array_equal(client.matmul(a, b, c=c, beta=0.5), c / 2)


def test_zero_bytes_of_a_huge_shape(client):
    a = np.empty((0, 2**40), np.float32)
    b = np.broadcast_to(np.float32(1), (2**40, 3))
    assert client.matmul(a, b).shape == (0, 3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_strides(client, dtype):
    """Random shapes, slices, axis orders and broadcasts."""
    generator = np.random.default_rng(20)
    for _ in range(150):
        m, n, k = generator.integers(1, 12, 3)
        batch = generator.integers(1, 4, generator.integers(0, 3))
        operands = []
        for rows, columns in ((m, k), (k, n), (m, n)):
            kept = batch[generator.integers(0, len(batch) + 1) :]
            shape = [*np.where(generator.random(len(kept)) < 0.3, 1, kept), rows, columns]
            operands.append(random_view(generator, shape, dtype))
        a, b, c = operands
        want = a @ b
        np.testing.assert_array_equal(client.matmul(a, b), want)
        try:
            c = np.broadcast_to(c, want.shape)
        except ValueError:
            continue
        np.testing.assert_array_equal(client.matmul(a, b, alpha=-1, c=c), c - want)


def random_view(generator, shape, dtype):
    steps = generator.choice([-2, -1, 1, 1, 1, 2], len(shape))
    order = generator.permutation(len(shape))
    memory = generator.integers(-4, 5, np.array(shape)[order] * 2).astype(dtype)
    view = memory.transpose(np.argsort(order))
    view = view[tuple(slice(None, None, step) for step in steps)]
    return view[tuple(slice(0, size) for size in shape)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_not_finite_values_travel(client, dtype):
    a = np.array([[np.inf, 1], [np.nan, 1], [-np.inf, 0], [0, 2]], dtype)
    b = np.array([[1, 0.5], [2, 4]], dtype)
    np.testing.assert_array_equal(client.matmul(a, b), a @ b)
    np.testing.assert_array_equal(client.matmul(a, b, alpha=0.0), np.zeros((4, 2)))
    assert np.isnan(client.matmul(a, b, alpha=np.nan)).all()
    tiny = np.array([[np.finfo(dtype).smallest_subnormal]])
    assert client.matmul(tiny, np.ones((1, 1), dtype)) == tiny


def test_c_is_not_read_when_beta_is_zero(client):
    a, b = small_integers(1, 6, 9), small_integers(2, 9, 4)
    d = client.matmul(a, b, c=np.full((6, 4), np.nan, np.float32), beta=0.0)
    np.testing.assert_array_equal(d, a @ b)


# The result.


def test_the_result_is_an_array_like_any_other(client):
    a, b = small_integers(1, 6, 9), small_integers(2, 9, 4)
    d = client.matmul(a, b)
    assert d.flags.writeable and d.flags.aligned and d.flags.c_contiguous and d.flags.owndata
    d += 1
    np.testing.assert_array_equal(d, a @ b + 1)


def test_a_view_of_the_reply(client):
    a, b = small_integers(1, 6, 9), small_integers(2, 9, 4)
    d = client.matmul(a, b, copy=False)
    assert not d.flags.writeable
    np.testing.assert_array_equal(d, a @ b)


def test_out(client):
    a, b = small_integers(1, 6, 9), small_integers(2, 9, 4)
    for out in (np.empty((6, 4), np.float32), np.empty((4, 6), np.float32).T):
        assert client.matmul(a, b, out=out) is out
        np.testing.assert_array_equal(out, a @ b)
    memory = np.full((12, 12), -1, np.float32)
    client.matmul(a, b, out=memory[::2, ::3])
    np.testing.assert_array_equal(memory[::2, ::3], a @ b)
    assert (memory[1::2] == -1).all()
    scalar = np.empty((), np.float32)
    assert client.matmul(a[0], b[:, 0], out=scalar) is scalar
    assert scalar == a[0] @ b[:, 0]


def test_out_may_be_an_operand(client):
    a, b = small_integers(1, 5, 5), small_integers(2, 5, 5)
    want = a @ b + 3 * a
    client.matmul(a, b, c=a, beta=3.0, out=a)
    np.testing.assert_array_equal(a, want)
    # Also where it takes several calls.
    a, b = small_integers(1, 3, 1, 300, 300), small_integers(2, 3, 4, 300, 300)
    want = a @ b
    assert client.matmul(a, b, out=b) is b
    np.testing.assert_array_equal(b, want)


def test_out_is_left_alone_when_the_call_fails(client):
    a, b = small_integers(1, 5, 5), small_integers(2, 5, 5)
    out = np.full((5, 5), 7, np.float32)
    with pytest.raises(gemmd.DeadlineExceeded):
        client.matmul(a, b, out=out, timeout=1e-9)
    assert (out == 7).all()


def test_report(client):
    a, b = small_integers(1, 60, 90), small_integers(2, 90, 40)
    report = client.matmul_result(a, b, request_id="a report").report
    assert report.kernel and report.device == "cpu" and report.attempts == 1
    assert list(report.phases) == [
        "admit",
        "receive",
        "decode",
        "queue",
        "copy_in",
        "compute",
        "copy_out",
    ]
    assert 0 < sum(report.phases.values()) < report.wall < 60
    assert report.request_bytes > a.nbytes + b.nbytes and report.reply_bytes > 60 * 40 * 4


def test_16_mib_each_way(client):
    a, b = small_integers(1, 2048, 3), small_integers(2, 3, 2048)
    c = small_integers(3, 2048, 2048)
    np.testing.assert_array_equal(client.matmul(a, b, c=c), a @ b + c)
