"""A storm of random calls on a server with tiny budgets: valid products small and large, bad ones,
garbage, announced sizes that are lies, calls of every method that are given up after 0 to 20 ms
with any number of messages sent, deadlines of 0 to 20 ms, and connections dropped with calls under
way. No answer may be wrong at any time, nor a valid call be refused for good; afterwards all that
was counted must be given back and the server must end at once. Then the same with SIGTERM in the
middle. GEMMD_STORM_SECONDS says for how long, GEMMD_STORM_SEED with which calls."""

import os
import random
import socket
import threading
import time

import grpc
import harness
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness import MIB, MULTIPLY, PATIENCE, gemm_pb2_grpc, open_channel, product_request, small_integers

SECONDS = float(os.environ.get("GEMMD_STORM_SECONDS", "20"))
SEED = int(os.environ.get("GEMMD_STORM_SEED", "1"))
CALLERS = 8
BUDGETS = ("--admission-budget=8MiB", "--message-limit=8MiB", "--host-memory=16MiB")
BUDGETS += ("--queue-problems=4", "--admission-line=6", "--slow-call=1h")
PROMPTLY = 30 if harness.SANITIZED else 10

GARBAGE_METHODS = (
    MULTIPLY,
    "/gemm.v1.GemmService/Explain",
    "/gemm.v1.GemmService/GetServerInfo",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/gemm.v1.GemmService/Divide",
)


def make_products():
    """Requests of 0 bytes to 3 MiB, serialized, with their results."""
    products = []
    for m, n, k in ((0, 3, 3), (1, 1, 1), (7, 5, 3), (64, 64, 64), (90, 90, 0), (300, 200, 100),
                    (500, 600, 700), (4, 1000, 800), (700, 700, 1)):
        a, b = small_integers(m, m, k), small_integers(n, k, n)
        products.append((product_request(a, b).SerializeToString(), a @ b))
    return products


PRODUCTS = make_products()


class Caller:
    """One thread's calls. `may_fail`: set once the server is going away."""

    def __init__(self, server, seed, may_fail):
        self.server, self.may_fail = server, may_fail
        self.random = random.Random(seed)
        self.right = self.calls = 0

    def work(self, until):
        while not until():
            try:
                with open_channel(self.server.address) as channel:
                    for _ in range(self.random.choice((1, 5, 60))):
                        if until():
                            break
                        self.calls += 1
                        self.random.choice(self.KINDS)(self, channel)
                    # Some calls may still be under way: the connection drops.
            except grpc.RpcError as error:
                assert self.may_fail.is_set(), harness.Failure(error)

    def pause(self):
        return self.random.choice((0, self.random.random() * 0.003, self.random.random() * 0.02))

    def multiply(self, channel, **options):
        message, expected = self.random.choice(PRODUCTS)
        if self.random.random() < 0.7:
            options["metadata"] = (("gemmd-request-bytes", str(len(message))),)
        return harness.raw_multiply(channel).future(message, **options), expected

    def check_failure(self, error, *codes):
        """One of `codes`, or too much at once."""
        if not self.may_fail.is_set() and error.code() not in codes:
            assert harness.Failure(error).reason in ("QUEUE_FULL", "MEMORY_FULL"), harness.Failure(error)

    def check(self, call, expected, *more_codes):
        try:
            payload = call.result().payloads[0]
        except grpc.FutureCancelledError:
            assert grpc.StatusCode.CANCELLED in more_codes
        except grpc.RpcError as error:
            self.check_failure(error, *more_codes)
        else:
            d = np.frombuffer(payload, np.float32).reshape(expected.shape)
            np.testing.assert_array_equal(d, expected)
            self.right += 1

    def valid(self, channel):
        self.check(*self.multiply(channel, timeout=PATIENCE))

    def burst(self, channel):
        for call in [self.multiply(channel, timeout=PATIENCE) for _ in range(6)]:
            self.check(*call)

    def given_up(self, channel):
        call, expected = self.multiply(channel, timeout=PATIENCE)
        time.sleep(self.pause())
        call.cancel()
        self.check(call, expected, grpc.StatusCode.CANCELLED)

    def deadline(self, channel):
        call = self.multiply(channel, timeout=self.pause())
        self.check(*call, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)

    def left_under_way(self, channel):
        for _ in range(self.random.randrange(4)):
            self.multiply(channel)

    def refused(self, channel, message, metadata=()):
        call = channel.unary_unary(MULTIPLY)
        error = call.future(message, timeout=PATIENCE, metadata=metadata).exception()
        assert error is not None, "an invalid call succeeded"
        self.check_failure(
            error, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED
        )

    def bad(self, channel):
        message, _ = self.random.choice(PRODUCTS)
        self.refused(channel, message[: self.random.randrange(len(message))])

    def garbage(self, channel):
        self.refused(channel, b"\xff" + self.random.randbytes(self.random.choice((0, 9, 5000, MIB))))

    def lie(self, channel):
        message, _ = self.random.choice(PRODUCTS)
        lies = ("0", str(len(message) - 1), "-1", "lots", str(9 * MIB), "9" * 30)
        self.refused(channel, message, (("gemmd-request-bytes", self.random.choice(lies)),))

    def too_large(self, channel):
        self.refused(channel, bytes(8 * MIB + 1))

    def half_a_call(self, channel):
        """Any number of messages, announced or not, then half-closed or open, then given up."""
        messages = [b"", b"\xff", PRODUCTS[2][0], PRODUCTS[6][0]]
        messages = self.random.choices(messages, k=self.random.randrange(3))
        stop = threading.Event()
        open_end = self.random.random() < 0.7

        def send():
            yield from messages
            if open_end:
                stop.wait()

        announced = str(self.random.choice((0, 1000, 8 * MIB)))
        metadata = self.random.choice(((), (("gemmd-request-bytes", announced),)))
        method = channel.stream_stream(self.random.choice(GARBAGE_METHODS))
        call = method(send(), timeout=self.random.choice((None, self.pause())), metadata=metadata)
        time.sleep(self.pause())
        call.cancel()
        stop.set()

    def watch(self, channel):
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        if self.random.random() < 0.5:
            next(watch, None)
        watch.cancel()

    def no_protocol(self, channel):
        host, port = self.server.address.rsplit(":", 1)
        try:
            with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
                preface = self.random.choice((b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
                connection.sendall(preface + self.random.randbytes(self.random.randrange(3000)))
        except OSError:
            pass

    KINDS = (valid, valid, burst, given_up, given_up, deadline, deadline, left_under_way, bad, garbage,
             lie, too_large, half_a_call, half_a_call, half_a_call, watch, no_protocol)


class Storm:
    """Callers that run until told to stop."""

    def __init__(self, server, seed):
        self.going_away = threading.Event()
        self._stop = threading.Event()
        self._faults = []
        self.callers = [Caller(server, f"{seed} {i}", self.going_away) for i in range(CALLERS)]
        self._threads = [threading.Thread(target=self._work, args=(c,)) for c in self.callers]
        for thread in self._threads:
            thread.start()

    def _work(self, caller):
        try:
            caller.work(lambda: self._stop.is_set() or self._faults)
        except BaseException as fault:  # a thread's own would be lost
            self._faults.append(fault)

    def blow(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._faults:
            time.sleep(0.05)

    def end(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._faults:
            raise self._faults[0]


def end_promptly(server):
    started = time.monotonic()
    server.terminate()
    assert server.wait() == 0
    took = time.monotonic() - started
    assert took < PROMPTLY, f"the end took {took:.1f} s"
    server.records()  # all JSON: no sanitizer has written among them
    assert "runtime error" not in server.log()


@pytest.mark.timeout(SECONDS + 300)
def test_storm():
    with harness.running_server(*BUDGETS) as server:
        storm = Storm(server, SEED)
        try:
            storm.blow(SECONDS * 0.6)
        finally:
            storm.end()
        right, calls = (sum(getattr(c, what) for c in storm.callers) for what in ("right", "calls"))
        print(f"seed {SEED}: {calls} calls, {right} products")
        assert right > 0
        for name, labels in (
            ("gemmd_budget_used_bytes", {"pool": "admission"}),
            ("gemmd_budget_used_bytes", {"pool": "host"}),
            ("gemmd_queue_problems", {}),
            ("gemmd_queue_bytes", {}),
        ):
            harness.wait_until(lambda: server.metric(name, **labels) == 0, f"{name} {labels} to be 0")
        server.check_alive()
        end_promptly(server)


@pytest.mark.timeout(SECONDS + 300)
def test_sigterm_in_the_storm():
    end = time.monotonic() + SECONDS * 0.4
    for number in range(1000):
        with harness.running_server(*BUDGETS, "--drain-timeout=3s") as server:
            storm = Storm(server, f"{SEED} {number}")
            try:
                storm.blow(random.Random(number).uniform(0.1, 3))
                storm.going_away.set()
                end_promptly(server)
            finally:
                storm.going_away.set()
                storm.end()
        if time.monotonic() > end:
            break
