"""Everything at once for a while: right answers throughout, and nothing that grows."""

import os
import random
import threading
import time

import grpc
import harness
import numpy as np
import pytest
from harness import MIB, PATIENCE, gemm_pb2_grpc, open_channel, product_request, result_of, small_integers

SECONDS = float(os.environ.get("GEMMD_SOAK_SECONDS", "120"))


def call_at_random(stub, generator):
    """One call of some kind, checked."""
    m, n, k = (generator.choice((0, 1, 7, 64, 255, 700)) for _ in range(3))
    dtype = generator.choice((np.float32, np.float64))
    a, b = small_integers(m, m, k, dtype=dtype), small_integers(n, k, n, dtype=dtype)
    request = product_request(a, b)
    kind = generator.random()
    if kind < 0.1:
        request.payloads.append(b"for nobody")
        failure = harness.failure_of(lambda: stub.Multiply(request, timeout=PATIENCE))
        assert failure.code == grpc.StatusCode.INVALID_ARGUMENT, failure
    elif kind < 0.2:
        call = stub.Multiply.future(request, timeout=PATIENCE)
        time.sleep(generator.random() * 0.01)
        call.cancel()
    elif kind < 0.25:
        try:
            stub.Multiply(request, timeout=generator.random() * 0.01)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error
    else:
        d = result_of(stub.Multiply(request, timeout=PATIENCE), m, n, dtype=dtype)
        np.testing.assert_array_equal(d, a @ b)


@pytest.mark.timeout(SECONDS + 300)
def test_soak():
    with harness.running_server() as server:
        end = time.monotonic() + SECONDS
        faults = []
        calls = [0] * 8

        def caller(number):
            generator = random.Random(number)
            try:
                while time.monotonic() < end and not faults:
                    # A new connection now and then.
                    with open_channel(server.address) as channel:
                        stub = gemm_pb2_grpc.GemmServiceStub(channel)
                        for _ in range(generator.randrange(1, 200)):
                            call_at_random(stub, generator)
                            calls[number] += 1
            except BaseException as fault:  # a thread's own would be lost
                faults.append(fault)

        threads = [threading.Thread(target=caller, args=(i,)) for i in range(len(calls))]
        for thread in threads:
            thread.start()
        samples = []
        while any(thread.is_alive() for thread in threads):
            samples.append(server.resident_bytes())
            time.sleep(max(0.05, SECONDS / 400))
        for thread in threads:
            thread.join()
        if faults:
            raise faults[0]

        quarter = len(samples) // 4
        after_warm_up = np.median(samples[quarter : 2 * quarter])
        at_the_end = np.median(samples[-quarter:])
        print(
            f"{sum(calls)} calls in {SECONDS:.0f} s; resident {after_warm_up / MIB:.0f} MiB after "
            f"warm-up, {at_the_end / MIB:.0f} MiB at the end"
        )
        if not harness.SANITIZED:
            assert at_the_end < after_warm_up * 1.1 + 16 * MIB
        for pool in ("admission", "host"):
            assert server.metric("gemmd_budget_used_bytes", pool=pool) == 0
        assert server.metric("process_open_fds") < 60
        server.check_alive()
