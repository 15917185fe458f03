"""What is sent, and that operands reach the message without a copy wherever their layout allows."""

import tracemalloc

import numpy as np
import pytest
from fake_server import fake_server, parse_request, product_reply
from harness import MIB, running_server, small_integers

import gemmd
from gemmd import _panels, _payload, _wire
from gemmd._allocator import expect_message
from gemmd._lanes import CALLS_PER_CHANNEL
from gemmd._payload import MIN_PIECE_BYTES, make_payload, stored_form


def pieces_of(matrix):
    stored, transposed = stored_form(matrix)
    return make_payload(stored), transposed


WIDE = np.zeros((64, 2 * MIN_PIECE_BYTES), np.float32)
CUBE = np.zeros((6, 8, 16), np.float64)

NO_COPY = {
    "C": (np.zeros((30, 40), np.float32), False, 1),
    "Fortran": (np.zeros((30, 40), np.float32, order="F"), True, 1),
    "transpose": (np.zeros((30, 40), np.float32).T, True, 1),
    "batch": (CUBE, False, 1),
    "batch of transposes": (CUBE.swapaxes(1, 2), True, 1),
    "rows": (WIDE[10:20], False, 1),
    "long rows of a wider matrix": (WIDE[:, : MIN_PIECE_BYTES // 4], False, 64),
    "long columns of a taller Fortran matrix": (WIDE[:, : MIN_PIECE_BYTES // 4].T, True, 64),
    "every other long row": (WIDE[::2], False, 32),
    "long rows backwards": (WIDE[::-1], False, 64),
    "every other matrix": (CUBE[::2], False, 3),
    "matrices backwards": (CUBE[::-1], False, 6),
    "a row": (WIDE[3:4, :100], False, 1),
    "a contiguous column": (np.zeros((40, 1)), False, 1),
    "read-only": (np.broadcast_to(np.zeros((30, 40)), (30, 40)), False, 1),
    "misaligned": (np.zeros(401, np.uint8)[1:].view(np.float32).reshape(10, 10), False, 1),
}


@pytest.mark.parametrize("name", NO_COPY)
def test_not_copied(name):
    matrix, want_transposed, want_pieces = NO_COPY[name]
    payload, transposed = pieces_of(matrix)
    assert transposed == want_transposed
    assert len(payload.pieces) == want_pieces
    assert all(np.shares_memory(piece, matrix) for piece in payload.pieces)
    assert sum(piece.nbytes for piece in payload.pieces) == payload.size_bytes == matrix.nbytes


COPIED = {
    "every other column": WIDE[:, ::2],
    "columns backwards": WIDE[:, ::-1],
    "short rows of a wider matrix": WIDE[:, : MIN_PIECE_BYTES // 4 - 1],
    "big-endian": WIDE.astype(">f4"),
    "one number everywhere": np.broadcast_to(np.float32(1), (30, 40)),
}


@pytest.mark.parametrize("name", COPIED)
def test_copied_once(name):
    matrix = COPIED[name]
    payload, _ = pieces_of(matrix)
    (piece,) = payload.pieces
    assert not np.shares_memory(piece, matrix)
    assert piece.nbytes == matrix.nbytes


def test_the_join_is_the_only_allocation(monkeypatch):
    """Of the size of an operand, that is."""
    monkeypatch.setattr(_payload.np, "ascontiguousarray", None)  # Packing would call it.
    a, b = np.ones((1024, 2048), np.float32), np.asfortranarray(np.ones((2048, 1024), np.float32))
    message_bytes = a.nbytes + b.nbytes
    expect_message(message_bytes)  # Else its one block would count.
    tracemalloc.start()
    try:
        payloads = [pieces_of(matrix)[0] for matrix in (a, b)]
        message = _wire.join_message(b"description", payloads)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert message_bytes < len(message) < message_bytes + 100
    assert peak < message_bytes + MIB // 4


def traced_peak(call):
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_put_and_get_copy_once(monkeypatch):
    """A panel is joined into its message, and a reply written into the result: nothing else of
    the size of a matrix, or of a panel, is ever made."""
    array = np.ones((64 * MIB // 4096, 1024), np.float32)
    panel = _panels.PANEL_BYTES
    with running_server() as server, gemmd.Client(server.address, channels=1) as client:
        client.put(array[:5000]).get()  # What the first call makes, and keeps.
        with monkeypatch.context() as patch:
            patch.setattr(_payload.np, "ascontiguousarray", None)
            put_peak = traced_peak(lambda: client.put(array, name="it"))
        # Of each call under way one, and perhaps the one before, which gRPC has not let go of.
        assert panel <= put_peak < 2 * CALLS_PER_CHANNEL * panel + MIB
        matrix = client.get_matrix("it")
        # One reply is let go of when the next is there.
        replies = 2 * CALLS_PER_CHANNEL * panel
        assert array.nbytes <= traced_peak(matrix.get) < array.nbytes + replies + 4 * MIB
        into = np.empty_like(array)
        assert traced_peak(lambda: matrix.get(out=into)) < replies + 4 * MIB
        np.testing.assert_array_equal(into, array)


def test_a_large_product_copies_once():
    a, b = np.ones((32768, 1024), np.float32), np.ones((1024, 1024), np.float32)
    panel = _panels.PANEL_BYTES
    with running_server() as server, gemmd.Client(
        server.address, channels=1, message_limit_bytes=2 * panel
    ) as client:
        out = np.empty((len(a), 1024), np.float32)
        client.matmul(a, b, out=out)
        # Messages and the replies to them.
        most = 3 * CALLS_PER_CHANNEL * panel + 4 * MIB
        assert most < a.nbytes
        assert traced_peak(lambda: client.matmul(a, b, out=out)) < most
        assert (out == 1024).all()


def sent(result_shape, multiply):
    """The request that `multiply(client)` sends, parsed by protobuf."""
    with fake_server(lambda *_: product_reply(np.zeros(result_shape, np.float32))) as server:
        with gemmd.Client(server.address) as client:
            multiply(client)
        (request,) = server.requests
        assert server.metadata[0]["gemmd-request-bytes"] == str(len(request))
        assert server.metadata[0]["user-agent"].startswith("gemmd-python/")
    return parse_request(request)


def test_the_same_memory_is_sent_once():
    a = small_integers(1, 8, 8)
    once = {
        "a aT": lambda c: c.matmul(a, a.T),
        "a a": lambda c: c.matmul(a, a),
        "aT a + a": lambda c: c.matmul(a.T, a, c=a),
        "strided": lambda c: c.matmul(np.repeat(a, 2, 1)[:, ::2], a, c=a),
    }
    for name, multiply in once.items():
        request = sent((8, 8), multiply)
        assert len(request.payloads) == (2 if name == "strided" else 1), name
        assert request.payloads[-1] == a.tobytes()
    strided = np.repeat(a, 2, 1)[:, ::2]
    assert len(sent((8, 8), lambda c: c.matmul(strided, strided.T)).payloads) == 1
    assert len(sent((8, 8), lambda c: c.matmul(a, a.copy())).payloads) == 2
    same_bytes_other_numbers = a.view(">f4")
    assert len(sent((8, 8), lambda c: c.matmul(a, same_bytes_other_numbers)).payloads) == 2


def test_a_broadcast_matrix_is_sent_once():
    a, b = small_integers(1, 5, 4, 3), small_integers(2, 3, 2)
    request = sent((5, 4, 2), lambda client: client.matmul(a, b))
    assert request.payloads[1] == b.tobytes()
    assert request.product.b.HasField("batch_stride") and request.product.b.batch_stride == 0
    assert not request.product.a.HasField("batch_stride")
    assert request.product.batch_count == 5


def test_c_that_is_not_read_is_not_sent():
    a, b, c = small_integers(1, 4, 3), small_integers(2, 3, 2), small_integers(3, 4, 2)
    request = sent((4, 2), lambda client: client.matmul(a, b, c=c, beta=0.0))
    assert len(request.payloads) == 2 and not request.product.HasField("c")


def test_what_is_said_about_a_product():
    a, b = small_integers(1, 4, 3), np.asfortranarray(small_integers(2, 3, 2))
    request = sent(
        (4, 2), lambda client: client.matmul(a, b, alpha=0.5, c=np.float32(1), request_id="me")
    )
    product = request.product
    assert (product.m, product.n, product.k, product.data_type) == (4, 2, 3, 1)
    assert (product.alpha, product.beta, request.request_id) == (0.5, 1.0, "me")
    assert (product.a.transposed, product.b.transposed, product.c.transposed) == (
        False,
        True,
        False,
    )
    assert request.payloads[2] == np.ones((4, 2), np.float32).tobytes()
