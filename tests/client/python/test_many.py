"""Many products in one call: `Client.matmul_many`."""

import collections
import gc

import grpc
import numpy as np
import pytest
from fake_server import fake_server, refuse, store_server
from harness import MIB, reals, running_server, small_integers

import gemmd
from gemmd import _batch, _contract
from gemmd._messages import Terms
from gemmd._operands import check_operands
from gemmd._panels import PANEL_BYTES


def test_of_many_shapes(client):
    random = np.random.default_rng(1)
    pairs, wants = [], []
    for index in range(500):
        m, n, k = random.integers(0, 40, 3)
        a, b = small_integers(index, m, k), small_integers(index + 1, k, n)
        if index % 7 == 0:
            a, b = a.astype(np.float64), np.asfortranarray(b.astype(np.float64))
        pairs.append((a, b))
        wants.append(a @ b)
    for copy in (True, False):
        for found, want in zip(client.matmul_many(iter(pairs), copy=copy), wants, strict=True):
            assert found.dtype == want.dtype
            np.testing.assert_array_equal(found, want)
            assert copy == found.flags.writeable or found.size == 0
    assert client.matmul_many([]) == []


def test_of_every_kind(client):
    """Batches, vectors, scalars, handles, alpha, beta and c, and one that takes several calls."""
    a, b, c = small_integers(1, 6, 5), small_integers(2, 5, 4), small_integers(3, 6, 4)
    left, right = small_integers(4, 3, 1, 6, 5), small_integers(5, 1, 2, 5, 4)
    on_server = client.put(b)
    products = [
        (a, b),
        (a[0], b),
        (a, b[:, 0]),
        (a[0], b[:, 0]),
        (left, right),
        (left, b),
        (a, on_server),
        (on_server.T, a.T),
        (on_server[2:4], c.T),
        (a.tolist(), b.astype(np.float64)),
        gemmd.Product(a, b, alpha=2),
        gemmd.Product(a, b, c=c),
        gemmd.Product(a, on_server, alpha=-1, beta=0.5, c=client.put(c)),
        gemmd.Product(a, b, alpha=0, c=np.float32(3)),
    ]
    wants = [
        a @ b,
        a[0] @ b,
        a @ b[:, 0],
        a[0] @ b[:, 0],
        left @ right,
        left @ b,
        a @ b,
        b.T @ a.T,
        b[2:4] @ c.T,
        a @ b,
        2 * (a @ b),
        a @ b + c,
        -(a @ b) + c / 2,
        np.full((6, 4), 3),
    ]
    found = client.matmul_many(products)
    assert isinstance(found[3], np.float32)
    for each, want in zip(found, wants, strict=True):
        assert np.shape(each) == want.shape
        np.testing.assert_array_equal(each, want)


def test_the_bits_are_those_of_matmul(client):
    pairs = [(reals(i, 30 + i, 300), reals(i + 1, 300, 20)) for i in range(40)]
    for (a, b), found in zip(pairs, client.matmul_many(pairs), strict=True):
        assert found.tobytes() == client.matmul(a, b).tobytes()


def test_any_size():
    """Of messages of 1 MiB: some products share one, some need several."""
    with running_server("--message-limit=1MiB") as server, gemmd.Client(server.address) as client:
        small, large = small_integers(1, 100, 100), small_integers(2, 900, 900)
        batch = small_integers(3, 40, 100, 100)
        products = [(small, small), (large, large), (batch, batch), (small, small.T)] * 3
        products += [(small, small)] * 4500
        for (a, b), found in zip(products, client.matmul_many(products), strict=True):
            np.testing.assert_array_equal(found, a @ b)
        server.check_alive()


def units(pairs):
    terms = Terms(1.0, 0.0, 1)
    return [
        _batch.Unit(index, check_operands(a, b, None, False), terms, None)
        for index, (a, b) in enumerate(pairs)
    ]


def test_messages():
    """Every message is within the limits, none of a few products is much smaller, and all
    products are there, in order."""
    a, b = np.ones((64, 64), np.float32), np.ones((64, 64), np.float32)
    distinct = [(a + i, b) for i in range(300)]
    for pairs, lanes, limit, most in [
        (distinct, 1, 1 << 30, 248),  # 4 MiB, of 16 KiB each and the shared b
        (distinct, 4, 1 << 30, 75),
        (distinct, 100, 1 << 30, 32),
        (distinct, 1, MIB, 62),
        ([(a[:2, :2], b[:2, :2])] * 20000, 1, 1 << 30, 4096),
        ([(a, b)] * 3, 8, 1000, 1),  # Each is over the limit on its own, which others check.
    ]:
        messages = _batch.pack(units(pairs), lanes, limit, "")
        counts = [len(message.units) for message in messages]
        assert max(counts) == most
        assert [u.index for message in messages for u in message.units] == list(range(len(pairs)))
        for message, count in zip(messages, counts, strict=True):
            joined = message.join()
            assert count == 1 or len(joined) <= min(limit, PANEL_BYTES)
            parsed = _contract.MultiplyBatchRequest.FromString(joined)
            assert len(parsed.products) == count
            used = {operand.payload for p in parsed.products for operand in (p.a, p.b)}
            assert used == set(range(len(parsed.payloads)))


def test_what_is_shared_is_sent_once_a_message():
    a = [small_integers(i, 20, 30) for i in range(10)]
    b = small_integers(99, 30, 8)
    with store_server() as store, gemmd.Client(store.address) as client:
        found = client.matmul_many([(x, b) for x in a] + [(a[0], a[0].T), (b.T, a[0].T)])
        for x, each in zip(a, found):
            np.testing.assert_array_equal(each, x @ b)
        np.testing.assert_array_equal(found[10], a[0] @ a[0].T)
        (request,) = store.server.requests
        message = _contract.MultiplyBatchRequest.FromString(request)
        assert sorted(message.payloads) == sorted(x.tobytes() for x in [*a, b])
        assert store.server.metadata[0]["gemmd-request-bytes"] == str(len(request))


def test_several_connections():
    """Messages go side by side; the server counts who calls."""
    pairs = [(reals(1, 64, 64), reals(2, 64, 64))] * 400
    peers = set()
    with store_server() as store:
        original = store.behave

        def behave(number, request, context):
            peers.add(context.peer())
            return original(number, request, context)

        store.server.behave = behave
        with gemmd.Client(store.address, channels=4) as several:
            several.matmul_many(pairs)
    assert len(peers) > 1


# Failures.


def test_arguments(client):
    a, b = small_integers(1, 6, 5), small_integers(2, 5, 4)
    bad = [(a, a), (a, b.astype(int)), (a, b, a), a, gemmd.Product(a, b, beta=1)]
    for product in bad:
        with pytest.raises(gemmd.InvalidArgument) as caught:
            client.matmul_many([(a, b), product, (a, b)])
        assert caught.value.index == 1 and str(caught.value).startswith("product 1: ")
    found = client.matmul_many([(a, b), *bad, (a, b)], return_exceptions=True)
    assert [isinstance(each, gemmd.InvalidArgument) for each in found] == [
        False,
        *[True] * 5,
        False,
    ]
    assert [each.index for each in found[1:-1]] == [1, 2, 3, 4, 5]
    for each in (found[0], found[-1]):
        np.testing.assert_array_equal(each, a @ b)


def test_one_failure_leaves_the_others_alone(client):
    a, b = small_integers(1, 6, 5), small_integers(2, 5, 4)
    gone = client.put(b)
    with gemmd.Client(client.address) as other:
        lost = other.get_matrix(gone.name)
        products = [(a, b), gemmd.Product(a, lost), (a, b), gemmd.Product(a[:2], lost)]
        gone.delete()
        gc.collect()
        found = other.matmul_many(products, return_exceptions=True)
        for each in found[::2]:
            np.testing.assert_array_equal(each, a @ b)
        for index, each in enumerate(found):
            if index % 2:
                assert isinstance(each, gemmd.MatrixNotFound) and each.index == index
        with pytest.raises(gemmd.MatrixNotFound, match="no matrix") as caught:
            other.matmul_many(products)
        assert caught.value.index == 1


def test_a_lost_matrix_is_sent_again():
    a, b = small_integers(1, 6, 5), small_integers(2, 5, 4)
    with store_server() as store, gemmd.Client(store.address) as client:
        matrix = client.put(b)
        store.forget_all()
        found = client.matmul_many([(a, matrix), (a, b), (a[:2], matrix)])
        for each, want in zip(found, [a @ b, a @ b, a[:2] @ b], strict=True):
            np.testing.assert_array_equal(each, want)
        # What had succeeded was not computed again.
        again = _contract.MultiplyBatchRequest.FromString(store.server.requests[-1])
        assert len(again.products) == 2


def test_products_that_find_no_room_are_tried_again():
    a, b = small_integers(1, 6, 5), small_integers(2, 5, 4)
    with store_server() as store:
        seen = collections.Counter()

        def fails(product):
            seen[product.m] += 1
            if product.m == 6 or seen[product.m] > product.m:
                return None
            return grpc.StatusCode.UNAVAILABLE, "QUEUE_FULL"

        store.fails = fails
        pairs = [(a[:m], b) for m in range(1, 7)]
        with gemmd.Client(store.address, max_retries=5, backoff_initial=0.001) as client:
            for (x, y), found in zip(pairs, client.matmul_many(pairs), strict=True):
                np.testing.assert_array_equal(found, x @ y)
        assert [seen[m] for m in range(1, 7)] == [2, 3, 4, 5, 6, 1]
        seen.clear()
        with gemmd.Client(store.address, max_retries=2, backoff_initial=0.001) as client:
            found = client.matmul_many(pairs, return_exceptions=True)
        kinds = [type(each) for each in found]
        assert kinds == [np.ndarray] * 2 + [gemmd.Unavailable] * 3 + [np.ndarray]
        assert [each.index for each in found[2:5]] == [2, 3, 4] and found[2].reason == "QUEUE_FULL"


def test_a_message_that_fails():
    pairs = [(small_integers(i, 60, 50), small_integers(i, 50, 40)) for i in range(100)]

    def refuse_some(name, request, context, count):
        if np.frombuffer(request.payloads[0], "f4").tobytes() == pairs[50][0].tobytes():
            refuse(context, grpc.StatusCode.INTERNAL, "it broke", "DEVICE_FAILED")

    with store_server(refuse_some) as store, gemmd.Client(store.address, channels=2) as client:
        with pytest.raises(gemmd.Internal, match="it broke") as caught:
            client.matmul_many(pairs)
        assert caught.value.index == 50
        found = client.matmul_many(pairs, return_exceptions=True)
        for index, (each, (a, b)) in enumerate(zip(found, pairs, strict=True)):
            if index < 50:
                np.testing.assert_array_equal(each, a @ b)
            else:
                assert isinstance(each, gemmd.Internal) and each.index == index
    with gemmd.Client("127.0.0.1:1", max_retries=0) as nowhere:
        with pytest.raises(gemmd.ConnectionFailed):
            nowhere.matmul_many(pairs)
        found = nowhere.matmul_many(pairs, return_exceptions=True)
        assert {type(each) for each in found} == {gemmd.ConnectionFailed}


@pytest.mark.parametrize("results, payloads", [(1, 2), (2, 1), (0, 0), (2, 2)])
def test_replies_that_make_no_sense(results, payloads):
    reply = _contract.MultiplyBatchReply()
    for _ in range(results):
        reply.results.add()
    reply.payloads.extend([b"1234"] * payloads)
    pair = (small_integers(1, 6, 5), small_integers(2, 5, 4))
    with fake_server(lambda *_: reply.SerializeToString()) as server:
        with gemmd.Client(server.address) as client:
            with pytest.raises(gemmd.Internal, match="makes no sense"):
                client.matmul_many([pair, pair])
