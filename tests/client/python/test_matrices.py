"""Matrices that stay on the server: what is put there comes back, and is an operand wherever an
array is."""

import itertools

import numpy as np
import pytest
from harness import reals, small_integers, wait_until
from test_layouts import LAYOUTS, misaligned, read_only

import gemmd
from gemmd import _contract


# So small that everything takes several messages.
SERVER_FLAGS = ["--message-limit=1MiB"]


def calls_of(client, monkeypatch):
    """The methods that the client calls from now on."""
    called = []
    original = client._session.transport.call

    def call(method, *arguments, **options):
        called.append(method)
        return original(method, *arguments, **options)

    monkeypatch.setattr(client._session.transport, "call", call)
    return called


# There and back.

SHAPES = [(1, 1), (3, 700), (700, 3), (1000, 900), (0, 5), (5, 0), (0, 0)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_there_and_back(client, shape, dtype):
    array = reals(1, *shape, dtype=dtype)
    with client.put(array) as matrix:
        assert (matrix.shape, matrix.dtype, matrix.nbytes) == (shape, array.dtype, array.nbytes)
        assert len(matrix) == shape[0] and matrix.ndim == 2
        info = matrix.info()
        assert info.sealed and info.shape == shape and info.dtype == array.dtype.name
        assert info.rows_written == shape[0]
        for back in (matrix.get(), np.asarray(matrix)):
            assert back.dtype == dtype and back.flags.writeable and back.flags.c_contiguous
            np.testing.assert_array_equal(back, array)
        np.testing.assert_array_equal(matrix.T.get(), array.T)
    assert client.matrices() == []


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(client, name):
    array = reals(1, 600, 500)
    matrix = client.put(LAYOUTS[name](array))
    assert matrix.get().tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "lay_out",
    [misaligned, read_only, lambda x: x.astype(">f4"), lambda x: x.astype(float).tolist()],
)
def test_other_arrays(client, lay_out):
    array = small_integers(1, 60, 50)
    np.testing.assert_array_equal(client.put(lay_out(array)).get(), array)


def test_conversion(client):
    array = small_integers(1, 6, 5)
    matrix = client.put(array)
    assert np.asarray(matrix, np.float64).dtype == np.float64
    np.testing.assert_array_equal(np.array(matrix), array)
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        with pytest.raises(ValueError, match="without a copy"):
            np.asarray(matrix, copy=False)
    assert "6 x 5 float32" in repr(matrix) and matrix.name in repr(matrix)


def test_out(client):
    array = reals(1, 900, 400)
    matrix = client.put(array)
    wide = np.full((900, 900), np.nan, np.float32)
    out = wide[:, ::2][:, :400]
    assert matrix.get(out=out) is out
    np.testing.assert_array_equal(out, array)
    assert np.isnan(wide[:, 1::2]).all()
    tall = np.empty((400, 900), np.float32)
    matrix.T.get(out=tall)
    np.testing.assert_array_equal(tall, array.T)
    for bad in (np.empty((900, 400)), np.empty((400, 900), np.float32), read_only(array)):
        with pytest.raises(gemmd.InvalidArgument):
            matrix.get(out=bad)


def test_progress(client):
    array, seen = reals(1, 1000, 1000), []
    matrix = client.put(array, progress=lambda *done: seen.append(done))
    assert seen[-1] == (array.nbytes, array.nbytes) and len(seen) == 4
    assert seen == sorted(seen) and {total for _, total in seen} == {array.nbytes}
    seen.clear()
    matrix[100:].get(progress=lambda *done: seen.append(done))
    assert seen[-1] == (900 * 4000, 900 * 4000) and seen == sorted(seen)


# Views.


def test_rows(client):
    array = reals(1, 50, 20)
    matrix = client.put(array)
    for rows in (
        slice(10, 20),
        slice(None),
        slice(-5, None),
        slice(3, 400),
        slice(7, 7),
        slice(9, 2),
    ):
        for found in (matrix[rows], matrix[rows, :], matrix.T[:, rows].T):
            assert found.shape == array[rows].shape
            np.testing.assert_array_equal(found.get(), array[rows])
        np.testing.assert_array_equal(matrix.T[:, rows].get(), array.T[:, rows])
    np.testing.assert_array_equal(matrix[10:40][5:10][1].get(), array[16:17])
    np.testing.assert_array_equal(matrix[-1].get(), array[-1:])
    np.testing.assert_array_equal(matrix[np.int64(3)].get(), array[3:4])
    assert matrix[3].T.shape == (20, 1)


BAD_INDICES = [
    (slice(None, None, 2), "step 2"),
    (slice(None, None, -1), "step -1"),
    ((slice(None), slice(3)), "only rows"),
    ((slice(None), 3), "only rows"),
    ((0, 0, 0), "3 indices"),
    (1.5, "type float"),
    (np.arange(3), "type ndarray"),
]


@pytest.mark.parametrize(("index", "words"), BAD_INDICES)
def test_views_that_there_are_not(client, index, words):
    with client.put(small_integers(1, 5, 4)) as matrix:
        with pytest.raises(gemmd.InvalidArgument, match=words) as caught:
            matrix[index]
        assert caught.value.field == "index"
        with pytest.raises(gemmd.InvalidArgument, match="columns of a transpose"):
            matrix.T[1:2]
        for beyond in (5, -6):
            with pytest.raises(IndexError):
                matrix[beyond]
        assert len(list(matrix)) == 5  # By IndexError an iteration ends.


# Products.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products(client, dtype):
    m, n, k = 30, 20, 40
    a, b, c = (
        small_integers(seed, *shape, dtype=dtype)
        for seed, shape in enumerate([(m, k), (k, n), (m, n)])
    )
    whole = client.put(
        np.vstack([np.full((3, k), np.nan, dtype), a, np.full((3, k), np.nan, dtype)])
    )
    on_server = {
        "a": [a, client.put(a), client.put(a.T.copy()).T, whole[3:-3]],
        "b": [b, client.put(b), client.put(b.T.copy()).T],
        "c": [None, c, client.put(c), client.put(np.vstack([c, c]))[m:]],
    }
    for left, right, addend in itertools.product(*on_server.values()):
        want = 2 * (a @ b) + (0 if addend is None else -1 * c)
        beta = 0 if addend is None else -1
        found = client.matmul(left, right, alpha=2, c=addend, beta=beta)
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, want)
        kept = client.matmul(left, right, alpha=2, c=addend, beta=beta, keep=True)
        assert isinstance(kept, gemmd.Matrix)
        np.testing.assert_array_equal(kept.get(), want)
        if isinstance(left, gemmd.Matrix) or isinstance(right, gemmd.Matrix):
            assert isinstance(left @ right, gemmd.Matrix)
            np.testing.assert_array_equal(left @ right, a @ b)
    np.testing.assert_array_equal(whole[3:-3] @ whole[3:-3].T, a @ a.T)


def test_batches_and_vectors(client):
    a, b = small_integers(1, 4, 6, 5), small_integers(2, 5, 3)
    matrix = client.put(b)
    np.testing.assert_array_equal(client.matmul(a, matrix), a @ b)
    np.testing.assert_array_equal(client.matmul(matrix.T, a.swapaxes(1, 2)), b.T @ a.swapaxes(1, 2))
    np.testing.assert_array_equal(client.matmul(a[0, 0], matrix), a[0, 0] @ b)
    np.testing.assert_array_equal(client.matmul(matrix, b[0]), b @ b[0])
    for left, right in ((a, matrix), (a[0, 0], matrix), (matrix, b[0])):
        with pytest.raises(gemmd.InvalidArgument, match="two dimensions"):
            left @ right


def test_empty_products(client):
    full, wide, tall = (client.put(np.ones(shape)) for shape in [(4, 4), (0, 4), (4, 0)])
    for left, right in itertools.product([full, wide, tall, full[2:2]], [full, wide.T, tall, wide]):
        if left.shape[1] == right.shape[0]:
            want = np.asarray(left) @ np.asarray(right)
            np.testing.assert_array_equal(left @ right, want)
            np.testing.assert_array_equal(client.matmul(left, right), want)
    # No row of a matrix that has some: k is 0.
    np.testing.assert_array_equal(client.matmul(np.ones((4, 0)), full[1:1]), np.zeros((4, 4)))


def test_a_chain_stays_on_the_server(client, monkeypatch):
    a, b, c = (small_integers(seed, 40, 40) for seed in range(3))
    first, second = client.put(b), client.put(c)
    called = calls_of(client, monkeypatch)
    result = (a @ first) @ second
    assert called == [_contract.MULTIPLY] * 2
    np.testing.assert_array_equal(np.asarray(result), a @ b @ c)
    assert called[2:].count(_contract.READ_ROWS) == 1


def test_larger_than_a_message(client):
    """Operands and results alike."""
    a, b = small_integers(1, 1200, 900), small_integers(2, 900, 800)
    with client.matmul(a, b, keep=True) as kept:
        np.testing.assert_array_equal(kept, a @ b)
    with client.matmul(a, a.T, keep=True) as kept, client.put(a) as on_server:
        np.testing.assert_array_equal(kept, a @ a.T)
        np.testing.assert_array_equal((on_server @ on_server.T) @ a, a @ a.T @ a)
        np.testing.assert_array_equal(
            client.matmul(b, b[:800], c=a[:900, :800]), b @ b[:800] + a[:900, :800]
        )
    wait_until(lambda: client.matrices() == [], "temporary matrices to go")
