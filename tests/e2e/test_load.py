"""More than the server can take at once: memory stays bounded, everyone is answered, and work that
nobody waits for is not done."""

import multiprocessing
import os
import signal
import threading
import time

import grpc
import harness
import numpy as np
import pytest
from harness import (
    MIB,
    MULTIPLY,
    PATIENCE,
    failure_of,
    open_channel,
    product_request,
    raw_multiply,
    result_of,
    running_server,
    small_integers,
    small_request,
    wait_until,
)
from test_ends import slow_request

CODE = grpc.StatusCode


def wait_until_busy(server):
    """Until the device is at work on the one product that was sent."""
    wait_until(lambda: server.metric("gemmd_running_problems") == 1, "a running product")


def wait_until_all_is_given_back(server):
    for pool in ("admission", "host"):
        wait_until(
            lambda pool=pool: server.metric("gemmd_budget_used_bytes", pool=pool) == 0,
            f"the {pool} memory to be given back",
        )
    assert server.metric("gemmd_queue_problems") == 0


def test_deadline_that_passes_in_the_queue(server):
    dropped = server.metric("gemmd_dropped_total", reason="DEADLINE_PASSED")
    slow = server.stub.Multiply.future(slow_request(server, 3), timeout=PATIENCE)
    launches = server.metric("gemmd_kernel_launches_total")
    wait_until_busy(server)
    failure = failure_of(lambda: server.multiply(small_request(), timeout=0.3))
    assert failure.code == CODE.DEADLINE_EXCEEDED, failure
    assert not slow.done()
    slow.result()
    wait_until(
        lambda: server.metric("gemmd_dropped_total", reason="DEADLINE_PASSED")
        + server.metric("gemmd_dropped_total", reason="CALLER_GONE")
        > dropped,
        "the dropped product in the metrics",
    )
    assert server.metric("gemmd_kernel_launches_total") <= launches + 1
    wait_until_all_is_given_back(server)


def test_deadline_that_has_passed_already(server):
    failure = failure_of(lambda: server.multiply(small_request(), timeout=-1))
    assert failure.code == CODE.DEADLINE_EXCEEDED, failure


def test_caller_gone_while_in_the_queue(server):
    gone = server.metric("gemmd_dropped_total", reason="CALLER_GONE")
    slow = server.stub.Multiply.future(slow_request(server, 2), timeout=PATIENCE)
    wait_until_busy(server)
    waiting = [server.stub.Multiply.future(small_request(), timeout=PATIENCE) for _ in range(10)]
    wait_until(lambda: server.metric("gemmd_queue_problems") == 10, "ten waiting products")
    for call in waiting:
        call.cancel()
    slow.result()
    wait_until(
        lambda: server.metric("gemmd_dropped_total", reason="CALLER_GONE") == gone + 10,
        "ten dropped products in the metrics",
    )
    wait_until_all_is_given_back(server)


def test_caller_gone_while_it_runs(server):
    call = server.stub.Multiply.future(slow_request(server, 1), timeout=PATIENCE)
    wait_until_busy(server)
    call.cancel()
    wait_until_all_is_given_back(server)


def test_caller_gone_in_mid_upload(server):
    message = product_request(
        np.zeros((3500, 4096), np.float32), np.zeros((4096, 1), np.float32)
    ).SerializeToString()
    for i in range(30):
        with open_channel(server.address) as channel:
            call = raw_multiply(channel).future(message, timeout=PATIENCE)
            time.sleep(i * 0.002)
            call.cancel()
    wait_until_all_is_given_back(server)


def test_full_queue():
    with running_server("--queue-problems=2") as server:
        slow = server.stub.Multiply.future(slow_request(server, 3), timeout=PATIENCE)
        wait_until_busy(server)
        calls = [server.stub.Multiply.future(small_request(), timeout=PATIENCE) for _ in range(20)]
        refused = [harness.Failure(call) for call in calls if call.exception() is not None]
        # Two wait, and perhaps one or two more are on their way; the rest were told at once.
        assert 16 <= len(refused) <= 18, refused
        for failure in refused:
            assert failure.code == CODE.UNAVAILABLE, failure
            assert failure.reason == "QUEUE_FULL", failure
            assert failure.retry_seconds > 0, failure
        slow.result()
        assert server.metric("gemmd_refused_total", reason="QUEUE_FULL") == len(refused)
        server.check_alive()


def fill_admission(server):
    """A call whose headers alone fill the budget of 64 MiB, since a message that is not announced
    counts as large as it may be; and what lets it send its message."""
    send = threading.Event()

    def messages():
        send.wait(PATIENCE)
        yield small_request().SerializeToString()

    call = server.channel.stream_unary(MULTIPLY).future(messages(), timeout=PATIENCE)
    wait_until(
        lambda: server.metric("gemmd_budget_used_bytes", pool="admission") == 64 * MIB,
        "admission of the first call",
    )
    return call, send


def test_no_line_for_admission():
    with running_server("--admission-budget=64MiB", "--admission-line=0") as server:
        first, send = fill_admission(server)
        for _ in range(5):
            failure = failure_of(lambda: server.multiply(small_request()))
            assert failure.code == CODE.UNAVAILABLE, failure
            assert failure.reason == "QUEUE_FULL", failure
            assert failure.retry_seconds > 0, failure
        send.set()
        first.result()
        wait_until_all_is_given_back(server)
        server.check_alive()


def test_waiting_in_line_for_admission():
    with running_server("--admission-budget=64MiB") as server:
        first, send = fill_admission(server)
        waiting = [server.stub.Multiply.future(small_request(), timeout=PATIENCE) for _ in range(20)]
        failure = failure_of(lambda: server.multiply(small_request(), timeout=0.2))
        assert failure.code == CODE.DEADLINE_EXCEEDED, failure
        for call in waiting[:5]:
            call.cancel()
        assert not any(call.done() for call in waiting[5:])
        send.set()
        first.result()
        for call in waiting[5:]:
            call.result()
        wait_until_all_is_given_back(server)
        server.check_alive()


def test_product_larger_than_host_memory():
    with running_server("--message-limit=8MiB", "--host-memory=16MiB") as server:
        # 7 MiB of operands, 8 MiB - 1 KiB of result: within each limit, and within the memory.
        a, b = small_integers(1, 1536, 1), small_integers(2, 1, 1365)
        d = result_of(server.multiply(product_request(a, b)), 1536, 1365)
        np.testing.assert_array_equal(d, a @ b)
        wait_until_all_is_given_back(server)


@pytest.mark.skipif(harness.SANITIZED, reason="a sanitizer's memory says nothing of the server's")
@pytest.mark.parametrize(
    "m, k, n, payloads",
    [
        (8192, 8192, 1, 2),  # of a request: in gRPC's slices, and where the device takes it from
        (8192, 1, 8192, 1),  # of a reply: gRPC sends from where the device has put it
    ],
)
def test_memory_of_one_large_call(m, k, n, payloads):
    with running_server("--message-limit=300MiB", "--host-memory=1GiB") as server:
        server.check_alive()
        request = product_request(small_integers(1, m, k), small_integers(2, k, n))
        server.reset_peak()
        before = server.peak_resident_bytes()
        for _ in range(3):
            assert len(server.multiply(request).payloads[0]) == 4 * m * n
        growth = server.peak_resident_bytes() - before
    most = payloads * 256 * MIB * 1.1 + 32 * MIB
    assert growth < most, f"the server grew by {growth / MIB:.0f} MiB"


@pytest.mark.skipif(harness.SANITIZED, reason="a sanitizer's memory says nothing of the server's")
def test_many_uploads_against_a_small_budget():
    """32 uploads of 32 MiB at once, 1 GiB, against budgets of 128 MiB for messages and as much for
    host memory. Without a gate before the read, gRPC alone would buffer the whole GiB."""
    callers, budget = 32, 128 * MIB
    with running_server(f"--admission-budget={budget}", f"--host-memory={budget}") as server:
        server.check_alive()
        a, b = small_integers(1, 2040, 4096), small_integers(2, 4096, 1)
        expected = a @ b
        message = product_request(a, b).SerializeToString()
        assert 31 * MIB < len(message) <= 32 * MIB
        server.reset_peak()
        before = server.peak_resident_bytes()

        outcomes = [None] * callers
        ready = threading.Barrier(callers)

        def upload(i):
            with open_channel(server.address) as channel:
                grpc.channel_ready_future(channel).result(PATIENCE)
                ready.wait()
                try:
                    outcomes[i] = raw_multiply(channel)(message, timeout=2 * PATIENCE)
                except grpc.RpcError as error:
                    outcomes[i] = harness.Failure(error)

        threads = [threading.Thread(target=upload, args=(i,)) for i in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        growth = server.peak_resident_bytes() - before
        answered = 0
        for outcome in outcomes:
            if isinstance(outcome, harness.Failure):
                assert outcome.code == CODE.UNAVAILABLE, outcome
                assert outcome.reason in ("MEMORY_FULL", "QUEUE_FULL"), outcome
            else:
                np.testing.assert_array_equal(result_of(outcome, 2040, 1), expected)
                answered += 1
        print(f"grew by {growth / MIB:.0f} MiB; {answered} of {callers} answered with a product")
        # Each line may hold a window of its connection besides: 32 times 2 MiB.
        assert growth < 2 * budget + callers * 2 * MIB, f"the server grew by {growth / MIB:.0f} MiB"
        assert answered >= 4
        wait_until_all_is_given_back(server)
        server.check_alive()


def call_without_end(address):
    """The life of a caller that a test stops and kills."""
    a, b = np.ones((2800, 2800), np.float32), np.ones((2800, 2800), np.float32)
    with open_channel(address) as channel:
        calls = [raw_multiply(channel).future(product_request(a, b).SerializeToString())
                 for _ in range(4)]
        for call in calls:
            call.result()
        call_without_end(address)


def test_caller_that_stops_moving():
    """A caller that neither sends on nor takes its replies holds up nobody else, and all that it
    held comes back when it is gone."""
    with running_server() as server:
        caller = multiprocessing.get_context("spawn").Process(
            target=call_without_end, args=(server.address,)
        )
        caller.start()
        try:
            for _ in range(5):
                wait_until(
                    lambda: server.metric("gemmd_budget_used_bytes", pool="admission") > 0, "a call"
                )
                os.kill(caller.pid, signal.SIGSTOP)
                for _ in range(20):
                    server.check_alive()
                os.kill(caller.pid, signal.SIGCONT)
                time.sleep(0.1)
            os.kill(caller.pid, signal.SIGSTOP)
        finally:
            caller.kill()
            caller.join()
        wait_until_all_is_given_back(server)
        server.check_alive()
