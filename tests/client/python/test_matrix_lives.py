"""Matrices that stay on the server: how long, under which names, and what the server refuses."""

import gc
import time

import numpy as np
import pytest
from harness import running_server, small_integers, wait_until

import gemmd


# So small that everything takes several messages.
SERVER_FLAGS = ["--message-limit=1MiB"]


def names(client):
    return [info.name for info in client.matrices()]


# Names and lives.


def test_without_a_name_it_lives_as_long_as_its_handles(client):
    matrix = client.put(small_integers(1, 6, 5))
    view = matrix[2:4].T
    del matrix
    gc.collect()
    time.sleep(0.1)
    assert names(client) == [view.name]
    result = view.T @ small_integers(2, 5, 4)
    left = [result.name]
    del view
    gc.collect()
    wait_until(lambda: names(client) == left, "the operand to go")
    del result
    gc.collect()
    wait_until(lambda: names(client) == [], "the result to go")


def test_with_a_name_it_stays(client, server):
    array = small_integers(1, 6, 5)
    client.put(array, name="weights")
    client.matmul(array, array.T, keep="gram")
    gc.collect()
    with gemmd.Client(server.address) as other:
        assert names(other) == ["gram", "weights"]
        with other.get_matrix("weights") as weights, other.get_matrix("gram") as gram:
            assert weights.shape == (6, 5) and weights.dtype == np.float32
            np.testing.assert_array_equal(gram @ weights, array @ array.T @ array)
    assert names(client) == []


def test_close_deletes(server):
    client = gemmd.Client(server.address)
    unnamed = [client.put(small_integers(1, 6, 5)) for _ in range(20)]
    client.put(small_integers(1, 6, 5), name="stays")
    client.close()
    with pytest.raises(gemmd.Cancelled):
        unnamed[0].get()
    with gemmd.Client(server.address) as other:
        assert names(other) == ["stays"]
        other.get_matrix("stays").delete()


def test_an_error_inside_with_deletes_too(client):
    with pytest.raises(ZeroDivisionError), client.put(small_integers(1, 6, 5), name="mine"):
        raise ZeroDivisionError
    wait_until(lambda: names(client) == [], "it to go")


def test_deleted(client):
    array = small_integers(1, 6, 5)
    matrix = client.put(array)
    view = matrix[1:]
    matrix.delete()
    matrix.delete()
    for use in (lambda: view @ array.T, lambda: client.matmul(array, view.T), view.get):
        with pytest.raises(gemmd.MatrixNotFound, match="deleted") as caught:
            use()
        assert isinstance(caught.value, LookupError) and caught.value.reason == "MATRIX_NOT_FOUND"
    with pytest.raises(gemmd.MatrixNotFound):
        client.get_matrix(matrix.name)


def test_taken_names(client):
    array = small_integers(1, 6, 5)
    with client.put(array, name="taken") as taken:
        for use in (
            lambda: client.put(array + 1, name="taken"),
            lambda: client.put(array[:2], name="taken"),
            lambda: client.put(array[:2], name="taken", exist_ok=True),
            lambda: client.matmul(array, array.T, keep="taken"),
        ):
            with pytest.raises(gemmd.MatrixExists) as caught:
                use()
            assert caught.value.reason == "MATRIX_EXISTS" and "another name" in caught.value.hint
        again = client.put(array, name="taken", exist_ok=True)
        np.testing.assert_array_equal(again.get(), taken.get())


def test_bad_arguments(client):
    array = small_integers(1, 6, 5)
    for bad in (array[0], array[np.newaxis], np.float32(1)):
        with pytest.raises(gemmd.InvalidArgument, match="dimensions"):
            client.put(bad)
    for name in ("", "a b", "x" * 129, "ä"):
        with pytest.raises(gemmd.InvalidArgument, match="1 to 128") as caught:
            client.put(array, name=name)
        assert caught.value.field == "name"
        with pytest.raises(gemmd.InvalidArgument, match="1 to 128"):
            client.matmul(array, array.T, keep=name)
    for ttl in (0, -1, float("nan"), 1e30):
        with pytest.raises(gemmd.InvalidArgument, match="ttl"):
            client.put(array, ttl=ttl)
    with pytest.raises(TypeError):
        client.put(array.astype(int))
    with pytest.raises(TypeError):
        client.put(array, name=3)
    with pytest.raises(TypeError):
        client.matmul(array, array.T, keep=3)
    with pytest.raises(gemmd.InvalidArgument, match="out"):
        client.matmul(array, array.T, keep=True, out=np.empty((6, 6), np.float32))
    matrix = client.put(array)
    with pytest.raises(gemmd.InvalidType, match="float64 but a has float32"):
        matrix @ np.ones((5, 2))
    with pytest.raises(gemmd.InvalidArgument, match="do not multiply"):
        matrix @ matrix
    with pytest.raises(gemmd.InvalidArgument, match="does not broadcast"):
        client.matmul(array, array.T, c=matrix)
    with pytest.raises(gemmd.InvalidArgument, match="transpose"):
        client.matmul(array, array[:5].T, c=client.put(small_integers(1, 5, 6)).T)
    with gemmd.Client("127.0.0.1:1") as elsewhere:
        with pytest.raises(gemmd.InvalidArgument, match="is a matrix on"):
            elsewhere.matmul(array, matrix.T)


def test_many_matrices_are_listed(client):
    """Over a page of the server's."""
    matrices = [client.put(np.ones((1, 1))) for _ in range(1010)]
    listed = client.matrices()
    assert len(listed) == 1010 and [each.name for each in listed] == sorted(
        m.name for m in matrices
    )


def test_expiry(client):
    array = small_integers(1, 6, 5)
    matrix, other = client.put(array, ttl=0.2), client.put(array, ttl=0.2, keep_source=False)
    assert matrix.info().ttl == pytest.approx(0.2)
    time.sleep(0.5)
    assert names(client) == []
    np.testing.assert_array_equal(matrix @ array.T, array @ array.T)  # It was sent again.
    with pytest.raises(gemmd.MatrixNotFound, match="no array to send again"):
        other.get()


# What the server refuses.


def test_quotas():
    array = np.ones((600, 600), np.float32)
    with running_server("--matrix-quota=2MiB") as server, gemmd.Client(server.address) as client:
        first = client.put(array)
        with pytest.raises(gemmd.QuotaExceeded) as caught:
            client.put(array)
        assert isinstance(caught.value, gemmd.ResourceExhausted)
        assert "delete" in caught.value.hint and "--matrix-quota" in caught.value.hint
        with pytest.raises(gemmd.QuotaExceeded):
            first @ first
        first.delete()
        second = client.put(array)
        del second  # What is on its way out is waited for.
        third = client.put(array)
        del third
        np.testing.assert_array_equal(client.put(array).get(), array)
    with running_server("--matrix-memory=1MiB") as server, gemmd.Client(server.address) as client:
        with pytest.raises(gemmd.ResourceExhausted) as caught:
            client.put(array)
        assert caught.value.reason == "MEMORY_TOO_SMALL" and "--matrix-memory" in caught.value.hint
