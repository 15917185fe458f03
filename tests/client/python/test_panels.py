"""Products of any size: panels of rows against a matrix that is put on the server for the call."""

import itertools
import threading

import grpc
import numpy as np
import pytest
from fake_server import refuse, store_server
from harness import MIB, PATIENCE, reals, running_server, small_integers, wait_until
from test_layouts import embedded

import gemmd
from gemmd import _contract
from gemmd._lanes import CALLS_PER_CHANNEL
from gemmd._panels import PANEL_BYTES, WHOLE_BYTES, cut, panel_rows


@pytest.fixture(scope="module")
def small_messages():
    """Messages of 1 MiB, and 3 MiB for matrices: less than some operands here have."""
    with running_server("--message-limit=1MiB", "--matrix-memory=3MiB") as server:
        yield server


@pytest.fixture
def client(small_messages):
    with gemmd.Client(small_messages.address) as client:
        yield client
        wait_until(lambda: client.matrices() == [], "temporary matrices to go")
    small_messages.check_alive()


def test_heights():
    assert panel_rows(4096, 10**9, 1 << 30) == PANEL_BYTES // 4096
    assert panel_rows(4096, 10, 1 << 30) == 10
    assert panel_rows(4096, 10**9, 10000) == 2
    assert panel_rows(PANEL_BYTES + 1, 10, 1 << 30) == 1
    assert panel_rows(0, 10, 1 << 30) == 10
    with pytest.raises(gemmd.ResourceExhausted, match="one row needs a message of 11 bytes"):
        panel_rows(11, 10, 10)
    assert cut(10, 4) == [(0, 4), (4, 8), (8, 10)] and cut(0, 4) == [] and cut(4, 4) == [(0, 4)]
    assert panel_rows(4, 2**40, 1 << 30) == PANEL_BYTES // 4
    assert cut(2**40, 2**39 + 1)[1] == (2**39 + 1, 2**40)


LARGE = 2560  # squares of more than WHOLE_BYTES, which fit a message


def test_a_large_product_goes_in_panels_though_it_fits_a_message(server):
    a, b = small_integers(1, LARGE, LARGE), small_integers(2, LARGE, 64)
    assert WHOLE_BYTES < a.nbytes + b.nbytes < 64 * MIB
    with gemmd.Client(server.address) as client:
        result = client.matmul_result(a, b)
        np.testing.assert_array_equal(result.array, a @ b)
        assert len(result.reports) > 1
        assert max(report.request_bytes for report in result.reports) <= PANEL_BYTES + 4096
        few = WHOLE_BYTES // (LARGE * 4) - 256
        assert len(client.matmul_result(a[:few], b).reports) == 1
        right = client.put(b)
        assert len(client.matmul_result(a[:few], right).reports) > 1
        assert len(client.matmul_result(a[: few // 3], right).reports) == 1


def test_where_there_is_no_room_for_panels_it_is_one_message():
    a, b = small_integers(1, 64, LARGE), small_integers(2, LARGE, LARGE)
    with running_server("--matrix-quota=1MiB") as server, gemmd.Client(server.address) as client:
        result = client.matmul_result(a, b)
        np.testing.assert_array_equal(result.array, a @ b)
        assert len(result.reports) == 1
    with running_server("--matrix-memory=30MiB") as server, gemmd.Client(server.address) as client:
        for in_the_way in (True, False):
            with client.put(small_integers(3, 2048 if in_the_way else 1, 1024)):
                result = client.matmul_result(a, b)
            np.testing.assert_array_equal(result.array, a @ b)
            assert (result.reports[0].request_bytes > b.nbytes) == in_the_way

    def keep_none(name, _request, context, _count):
        if name == "CreateMatrix":
            refuse(context, grpc.StatusCode.UNIMPLEMENTED, "unknown method CreateMatrix")

    with store_server(keep_none) as store, gemmd.Client(store.address) as client:
        np.testing.assert_array_equal(client.matmul(a, b), a @ b)
        assert store.calls("Multiply") == 1


SHAPES = {
    "square": (900, 900, 900),
    "tall": (30000, 20, 40),
    "wide": (20, 30000, 40),
    "long sums": (20, 30, 30000),
    "rows of D longer than a message": (3, 300_001, 2),
    "b larger than the server's memory": (50, 2000, 600),
    "b much larger": (7, 1000, 4001),
    "a column": (300_000, 1, 2),
    "outer product": (700, 800, 1),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(client, name, dtype):
    m, n, k = SHAPES[name]
    a, b = small_integers(1, m, k, dtype=dtype), small_integers(2, k, n, dtype=dtype)
    c = small_integers(3, m, n, dtype=dtype)
    result = client.matmul_result(a, b)
    np.testing.assert_array_equal(result.array, a @ b)
    assert len(result.reports) > 1 and result.array.flags.c_contiguous
    assert all(report.request_bytes <= MIB for report in result.reports)
    np.testing.assert_array_equal(client.matmul(a, b, alpha=2, beta=-1, c=c), 2 * (a @ b) - c)


LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "strided": lambda x: embedded(x, (2, 3), (1, 1)),
    "backwards": lambda x: x[::-1].copy()[::-1],
    "big-endian": lambda x: x.astype(">f4"),
}


@pytest.mark.parametrize(("left", "right"), list(itertools.product(LAYOUTS, LAYOUTS)))
def test_layouts(client, left, right):
    a, b = small_integers(1, 800, 500), small_integers(2, 500, 700)
    found = client.matmul(LAYOUTS[left](a), LAYOUTS[right](b))
    np.testing.assert_array_equal(found, a @ b)


def test_batches_and_vectors(client):
    a, b = small_integers(1, 3, 1, 900, 400), small_integers(2, 2, 400, 700)
    np.testing.assert_array_equal(client.matmul(a, b), a @ b)
    np.testing.assert_array_equal(client.matmul(a[:, 0], b[0]), a[:, 0] @ b[0])
    tall = small_integers(3, 30000, 40)
    np.testing.assert_array_equal(client.matmul(tall, tall[0]), tall @ tall[0])
    np.testing.assert_array_equal(client.matmul(tall[0], tall.T), tall[0] @ tall.T)
    long = small_integers(4, 100_000)
    assert client.matmul(long, long) == long @ long


def test_a_shared_matrix_is_put_once():
    a, b = small_integers(1, 3, 600, 400), small_integers(2, 400, 700)
    with store_server() as store:
        with gemmd.Client(store.address, message_limit_bytes=MIB) as client:
            np.testing.assert_array_equal(client.matmul(a, b), a @ b)
        assert store.calls("CreateMatrix") == 1
        assert sum(rows for _, _, rows in store.writes) == 400
        # And nothing of it beside.
        sent = [
            _contract.MultiplyRequest.FromString(request)
            for request, method in zip(store.server.requests, store.server.methods, strict=True)
            if method == _contract.MULTIPLY
        ]
        assert sum(len(message.payloads[0]) for message in sent) == a.nbytes


def test_what_a_process_leaves_that_dies_is_gone_soon():
    """As long as a call may take, and some minutes, but never more than the server's limit."""
    a, b = small_integers(1, 900, 600), small_integers(2, 600, 800)
    lives = []

    def note(name, request, _context, _count):
        if name == "CreateMatrix":
            lives.append(request.time_to_live_ns / 1e9)

    with store_server(note) as store:
        store.server.info.time_to_live_limit_ns = 3600 * 10**9
        for timeout in (30, float("inf")):
            with gemmd.Client(store.address, message_limit_bytes=MIB, timeout=timeout) as client:
                np.testing.assert_array_equal(client.matmul(a, b), a @ b)
    assert 329 < lives[0] <= 330 and lives[1:] == [3600]


def test_handles():
    a, b = small_integers(1, 900, 600), small_integers(2, 600, 800)
    c = small_integers(3, 900, 800)
    with running_server("--message-limit=1MiB") as server, gemmd.Client(server.address) as client:
        lefts = [a, client.put(a), client.put(a.T.copy()).T]
        rights = [b, client.put(b), client.put(b.T.copy()).T]
        for left, right, addend in itertools.product(lefts, rights, [None, c, client.put(c)]):
            want = a @ b if addend is None else a @ b + c
            np.testing.assert_array_equal(client.matmul(left, right, c=addend), want)
        long = client.put(small_integers(4, 300_000, 2))
        found = client.matmul(a[:3, :2], long.T)  # Cut into rows of what is stored.
        np.testing.assert_array_equal(found, a[:3, :2] @ long.get().T)
        server.check_alive()


def test_out(client):
    a, b = small_integers(1, 900, 900), small_integers(2, 900, 900)
    want = a @ b
    wide = np.full((900, 1800), np.nan, np.float32)
    out = wide[:, ::2]
    assert client.matmul(a, b, out=out) is out
    np.testing.assert_array_equal(out, want)
    assert np.isnan(wide[:, 1::2]).all()
    assert client.matmul(a, b, out=a) is a  # Each panel is computed of what a held before.
    np.testing.assert_array_equal(a, want)
    square = small_integers(3, 900, 900)
    want = square @ b + square
    client.matmul(square, b, c=square, out=square[::1])
    np.testing.assert_array_equal(square, want)


def test_the_bits_do_not_depend_on_the_channels(small_messages):
    a, b = reals(1, 1500, 700), reals(2, 700, 900)
    found = set()
    for channels in (1, 2, 8):
        with gemmd.Client(small_messages.address, channels=channels) as client:
            found.add(client.matmul(a, b).tobytes())
            found.add(client.matmul(a, b, out=np.empty((1500, 900), np.float32)).tobytes())
    assert len(found) == 1


def test_it_is_right(client):
    a, b = reals(1, 1000, 900), reals(2, 900, 800)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = 4 * np.sqrt(900) * 2.0**-24 * (np.abs(a).astype(np.float64) @ np.abs(b))
    assert (np.abs(client.matmul(a, b) - exact) <= bound).all()


def test_progress(client):
    a, b, seen = small_integers(1, 1500, 700), small_integers(2, 700, 900), []
    client.matmul(a, b, progress=lambda *done: seen.append(done))
    assert seen == sorted(seen) and len(seen) > 8
    assert seen[-1][0] == seen[-1][1] == a.nbytes + b.nbytes + 1500 * 900 * 4
    seen.clear()
    client.matmul(a[:5], b[:, :5], progress=lambda *done: seen.append(done))
    ((done, total),) = seen
    assert done == total > a[:5].nbytes


def test_a_callback_that_raises_ends_the_product(client):
    a, b = small_integers(1, 1500, 700), small_integers(2, 700, 900)

    def stop(done, _total):
        if done > b.nbytes + MIB:
            raise ZeroDivisionError

    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        client.matmul(a, b, progress=stop)
    wait_until(lambda: threading.active_count() <= before + 1, "its threads to end")  # A reaper.
    np.testing.assert_array_equal(client.matmul(a, b), a @ b)


def test_a_failure_ends_the_product():
    a, b = small_integers(1, 1500, 700), small_integers(2, 700, 900)
    gate = threading.Event()

    at_once = 2 * CALLS_PER_CHANNEL

    def fail_the_last(name, _request, context, count):
        if name == "Multiply" and count == at_once - 1:
            refuse(context, grpc.StatusCode.INTERNAL, "it broke", "DEVICE_FAILED")
        elif name == "Multiply":
            gate.wait(PATIENCE)

    with store_server(fail_the_last) as store:
        with gemmd.Client(store.address, message_limit_bytes=MIB, channels=2) as client:
            with pytest.raises(gemmd.Internal, match="it broke"):
                client.matmul(a, b)
            assert store.calls("Multiply") == at_once  # The others were given up, and none begun.
            gate.set()
        assert store.matrices == {}


def full_at(numbers, at_once):
    """Refuses those Multiply calls, `at_once` of them together."""
    together = threading.Barrier(at_once)

    def interfere(name, _request, context, count):
        if name == "Multiply" and count in numbers:
            together.wait(PATIENCE)
            refuse(context, grpc.StatusCode.UNAVAILABLE, "full", "MEMORY_FULL", retry_delay=0.001)

    return interfere


def test_fewer_calls_at_once_where_the_server_is_full():
    a, b = small_integers(1, 1500, 700), small_integers(2, 700, 900)
    width = 2 * CALLS_PER_CHANNEL
    options = {"message_limit_bytes": MIB, "channels": 2, "max_retries": 0}
    # All but one, and all: the last has the server to itself.
    for refused in (width - 1, width):
        with store_server(full_at(range(refused), refused)) as store:
            with gemmd.Client(store.address, **options) as client:
                np.testing.assert_array_equal(client.matmul(a, b), a @ b)
    # When even that is too much, the product fails.
    with store_server(full_at(range(width + 1), 1)) as store:
        with gemmd.Client(store.address, **options) as client:
            with pytest.raises(gemmd.Unavailable, match="full"):
                client.matmul(a, b)
        assert store.calls("Multiply") <= width + 1
        assert store.matrices == {}


def test_a_product_needs_no_more_than_the_server_has():
    """A whole product's calls at once would need several times that."""
    a, b = small_integers(1, 3000, 1000), small_integers(2, 1000, 3000)
    flags = ("--message-limit=4MiB", "--host-memory=8MiB", "--matrix-ttl=1m", "--matrix-ttl-limit=1m")
    with running_server(*flags) as server:
        with gemmd.Client(server.address) as client:
            for _ in range(2):
                np.testing.assert_array_equal(client.matmul(a, b), a @ b)
        assert server.metric("gemmd_refused_total", reason="MEMORY_FULL") > 0


def test_a_server_that_loses_the_matrix_meanwhile():
    a, b = small_integers(1, 1500, 700), small_integers(2, 700, 900)
    with store_server() as store:

        def forget_once(name, _request, _context, count):
            if name == "Multiply" and count == 3:
                store.forget_all()

        store.interfere = forget_once
        with gemmd.Client(store.address, message_limit_bytes=MIB) as client:
            np.testing.assert_array_equal(client.matmul(a, b), a @ b)
        assert store.calls("CreateMatrix") == 2


def test_timeouts():
    """The client's is for each message, a call's own for all of it."""

    def dawdle(name, *_):
        if name == "Multiply":
            threading.Event().wait(0.4)

    a, b = small_integers(1, 1500, 700), small_integers(2, 700, 900)
    with store_server(dawdle) as store:
        with gemmd.Client(
            store.address, message_limit_bytes=MIB, channels=1, timeout=1.0
        ) as client:
            np.testing.assert_array_equal(client.matmul(a, b), a @ b)
            with pytest.raises(gemmd.DeadlineExceeded):
                client.matmul(a, b, timeout=1.0)
