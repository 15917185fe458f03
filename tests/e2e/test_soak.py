"""Everything at once for a while: right answers throughout, and nothing that grows.

What counts is what allocations hold. Resident memory says less: the allocator keeps the most that calls have
held at once, which rises for as long as more of them meet than ever before."""

import os
import random
import threading
import time

import grpc
import harness
import numpy as np
import pytest
from harness import MIB, PATIENCE, gemm_pb2_grpc, open_channel, product_request, result_of, small_integers
from matrix_calls import SECOND_NS, Code, create, delete, fresh, get, product, put, rows_of, write
from test_multiply_batch import batch_of

SECONDS = float(os.environ.get("GEMMD_SOAK_SECONDS", "600"))
LEAST_CALLS = 150 * SECONDS  # two quiet cores make 180 a second
SIZES = (0, 1, 7, 64, 255, 700)


def operands_at_random(generator):
    m, n, k = (generator.choice(SIZES) for _ in range(3))
    dtype = generator.choice((np.float32, np.float64))
    return small_integers(m, m, k, dtype=dtype), small_integers(n, k, n, dtype=dtype)


def multiply(stub, generator):
    a, b = operands_at_random(generator)
    reply = stub.Multiply(product_request(a, b), timeout=PATIENCE)
    np.testing.assert_array_equal(result_of(reply, len(a), b.shape[1], dtype=a.dtype), a @ b)


def multiply_wrongly(stub, generator):
    request = product_request(*operands_at_random(generator))
    request.payloads.append(b"for nobody")
    failure = harness.failure_of(lambda: stub.Multiply(request, timeout=PATIENCE))
    assert failure.code == Code.INVALID_ARGUMENT, failure


def cancel_a_product(stub, generator):
    call = stub.Multiply.future(product_request(*operands_at_random(generator)), timeout=PATIENCE)
    time.sleep(generator.random() * 0.01)
    call.cancel()


def multiply_in_no_time(stub, generator):
    try:
        stub.Multiply(product_request(*operands_at_random(generator)), timeout=generator.random() * 0.01)
    except grpc.RpcError as error:
        assert error.code() == Code.DEADLINE_EXCEEDED, error


def multiply_many(stub, generator):
    pairs = [operands_at_random(generator) for _ in range(generator.randrange(1, 20))]
    batch = batch_of([product_request(a, b) for a, b in pairs])
    reply = stub.MultiplyBatch(batch, timeout=PATIENCE)
    for (a, b), payload in zip(pairs, reply.payloads, strict=True):
        d = np.frombuffer(payload, a.dtype).reshape(len(a), b.shape[1])
        np.testing.assert_array_equal(d, a @ b)


def keep_matrices(stub, generator):
    """Operands and results that stay, and a chain of two products; all is deleted but what expires."""
    size = generator.choice((7, 64, 255, 700))
    a, b = small_integers(1, size, size), small_integers(2, size, size)
    shape = (size, size, size)
    kept, result = put(stub, b), fresh()
    operand = product_request(a, b).product.a
    first = product(shape, operand, rows_of(kept), result=result)
    first.payloads.append(a.tobytes())
    stub.Multiply(first, timeout=PATIENCE)
    np.testing.assert_array_equal(get(stub, result), a @ b)
    reply = stub.Multiply(product(shape, rows_of(kept), rows_of(kept)), timeout=PATIENCE)
    np.testing.assert_array_equal(result_of(reply, size, size), b @ b)
    if generator.random() < 0.2:
        # Nobody uses it: on a busy machine any time between two calls may be longer than its life.
        left = product(shape, rows_of(kept), rows_of(kept), result=fresh())
        left.product.result.time_to_live_ns = 2 * SECOND_NS
        stub.Multiply(left, timeout=PATIENCE)
    for name in (kept, result):
        delete(stub, name)


def leave_a_matrix_unfinished(stub, generator):
    array = small_integers(1, 400, 700)
    name = create(stub, array, time_to_live_ns=SECOND_NS).name
    rows = generator.randrange(1, 400)

    def write_some_and_read_the_rest():
        if generator.random() < 0.5:
            write(stub, name, array, 0, rows)
        get(stub, name, rows)

    failure = harness.failure_of(write_some_and_read_the_rest)
    assert failure.code in (Code.FAILED_PRECONDITION, Code.NOT_FOUND), failure


CALLS = {
    multiply: 60,
    multiply_wrongly: 8,
    cancel_a_product: 8,
    multiply_in_no_time: 5,
    multiply_many: 9,
    keep_matrices: 7,
    leave_a_matrix_unfinished: 3,
}


def growth(samples):
    """By how much a line through the samples rises from end to end, and how far they lie from it."""
    steps = np.arange(len(samples))
    line = np.poly1d(np.polyfit(steps, samples, 1))
    return line(steps[-1]) - line(0), np.std(samples - line(steps))


@pytest.mark.timeout(3 * SECONDS + 300)
def test_soak():
    with harness.running_server() as server:
        start = time.monotonic()
        end = start + SECONDS
        faults = []
        calls = [0] * 8

        def caller(number):
            generator = random.Random(number)
            try:
                while (time.monotonic() < end or sum(calls) < LEAST_CALLS) and not faults:
                    # A new connection now and then.
                    with open_channel(server.address) as channel:
                        stub = gemm_pb2_grpc.GemmServiceStub(channel)
                        for _ in range(generator.randrange(1, 200)):
                            (call,) = generator.choices(list(CALLS), CALLS.values())
                            call(stub, generator)
                            calls[number] += 1
            except BaseException as fault:  # a thread's own would be lost
                faults.append(fault)

        threads = [threading.Thread(target=caller, args=(i,)) for i in range(len(calls))]
        for thread in threads:
            thread.start()
        samples = []
        while any(thread.is_alive() for thread in threads):
            # The pool of host memory, which a CPU's server allocates, keeps what it has.
            pool = server.metric("gemmd_host_memory_reserved_bytes")
            samples.append(server.metric("gemmd_heap_used_bytes") - pool)
            time.sleep(max(0.05, SECONDS / 400))
        for thread in threads:
            thread.join()
        if faults:
            raise faults[0]

        after_warm_up = np.array(samples[len(samples) // 2 :])
        grown, noise = growth(after_warm_up)
        print(
            f"{sum(calls)} calls in {time.monotonic() - start:.0f} s; in the second half {np.median(after_warm_up) / MIB:.0f} "
            f"MiB held beside the pool, rising by {grown / MIB:.1f} MiB, +-{noise / MIB:.1f} MiB"
        )
        if not harness.SANITIZED:
            by_chance = noise * np.sqrt(12 / len(after_warm_up))  # what a line through level samples rises by
            assert grown < 4 * by_chance + 2 * MIB
        for pool in ("admission", "host"):
            assert server.metric("gemmd_budget_used_bytes", pool=pool) == 0
        assert server.metric("process_open_fds") < 60
        server.check_alive()
        harness.wait_until(
            lambda: server.metric("gemmd_budget_used_bytes", pool="matrices") == 0, "what is left to expire"
        )
