"""A storm of random calls on a server with tiny budgets: valid products small and large, bad ones,
garbage, announced sizes that are lies, calls of every method that are given up after 0 to 20 ms
with any number of messages sent, deadlines of 0 to 20 ms, connections dropped with calls under way,
and matrices that stay on the server, made, written, read, multiplied and deleted by all callers at
once. No answer may be wrong at any time, nor a valid call be refused for good; afterwards all that
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
from harness import (
    MIB,
    MULTIPLY,
    PATIENCE,
    gemm_pb2,
    gemm_pb2_grpc,
    open_channel,
    product_request,
    small_integers,
)

SECONDS = float(os.environ.get("GEMMD_STORM_SECONDS", "20"))
SEED = int(os.environ.get("GEMMD_STORM_SEED", "1"))
CALLERS = 8
BUDGETS = ("--admission-budget=8MiB", "--message-limit=8MiB", "--host-memory=16MiB")
BUDGETS += ("--queue-problems=4", "--admission-line=6", "--slow-call=1h", "--matrix-memory=1536KiB")
PROMPTLY = 30 if harness.SANITIZED else 10

GARBAGE_METHODS = (
    MULTIPLY,
    "/gemm.v1.GemmService/Explain",
    "/gemm.v1.GemmService/GetServerInfo",
    "/gemm.v1.GemmService/CreateMatrix",
    "/gemm.v1.GemmService/WriteRows",
    "/gemm.v1.GemmService/ReadRows",
    "/gemm.v1.GemmService/ListMatrices",
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

# What each name stands for, whoever makes it: results are the product with its own transpose. They
# do not fit all at once.
MATRICES = {f"m{i}": small_integers(i, 300, columns) for i, columns in enumerate((1, 200, 300, 333))}
RESULTS = {f"r{name}": a @ a.T for name, a in MATRICES.items()}
MATRIX_REASONS = ("MATRIX_NOT_FOUND", "MATRIX_NOT_SEALED", "MATRIX_BUSY", "QUOTA_EXCEEDED")
MATRIX_REASONS += ("QUEUE_FULL", "MEMORY_FULL")


class Caller:
    """One thread's calls. `may_fail`: set once the server is going away."""

    def __init__(self, server, seed, may_fail):
        self.server, self.may_fail = server, may_fail
        self.random = random.Random(seed)
        self.right = self.calls = self.matrices = 0

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

    def matrix(self, channel):
        """A call about a matrix that other callers may be making or deleting just now."""
        name = self.random.choice(list(MATRICES))
        begin = self.random.randrange(300)
        rows = {"row_begin": begin, "row_count": self.random.randrange(1, 301 - begin)}
        if self.random.random() < 0.3:
            rows = {"row_begin": 0, "row_count": 300}
        kind = self.random.choice(("create", "write", "write", "read", "multiply", "keep", "delete"))
        method, request, expected = getattr(self, "matrix_" + kind)(name, rows)
        stub = gemm_pb2_grpc.GemmServiceStub(channel)
        call = getattr(stub, method).future(request, timeout=PATIENCE)
        given_up = self.random.random() < 0.2
        if given_up:
            time.sleep(self.pause())
            call.cancel()
        try:
            reply = call.result()
        except grpc.FutureCancelledError:
            assert given_up
        except grpc.RpcError as error:
            if not self.may_fail.is_set() and not given_up:
                assert harness.Failure(error).reason in MATRIX_REASONS, harness.Failure(error)
        else:
            if expected is not None:
                got = np.frombuffer(reply.payloads[0], np.float32).reshape(expected.shape)
                np.testing.assert_array_equal(got, expected)
                self.matrices += 1

    # Each: method, request, and what must come back.

    def matrix_create(self, name, rows):
        columns = MATRICES[name].shape[1]
        request = gemm_pb2.CreateMatrixRequest(
            name=name, data_type=gemm_pb2.DATA_TYPE_F32, rows=300, columns=columns
        )
        return "CreateMatrix", request, None

    def matrix_write(self, name, rows):
        request = gemm_pb2.WriteRowsRequest(name=name, **rows)
        request.payloads.append(self.rows_of(MATRICES[name], rows).tobytes())
        return "WriteRows", request, None

    def matrix_read(self, name, rows):
        array = MATRICES[name]
        if self.random.random() < 0.5:
            name, array = "r" + name, RESULTS["r" + name]
        request = gemm_pb2.ReadRowsRequest(name=name, **rows)
        return "ReadRows", request, self.rows_of(array, rows)

    def matrix_delete(self, name, rows):
        name = self.random.choice((name, "r" + name))
        return "DeleteMatrix", gemm_pb2.DeleteMatrixRequest(name=name), None

    def matrix_multiply(self, name, rows):
        request = gemm_pb2.MultiplyRequest()
        product = request.product
        product.m, product.n, product.k = rows["row_count"], 300, MATRICES[name].shape[1]
        product.data_type = gemm_pb2.DATA_TYPE_F32
        product.a.matrix.CopyFrom(gemm_pb2.MatrixRows(name=name, **rows))
        product.b.matrix.name = name
        product.b.transposed = True
        return "Multiply", request, self.rows_of(RESULTS["r" + name], rows)

    def matrix_keep(self, name, rows):
        method, request, _ = self.matrix_multiply(name, {"row_begin": 0, "row_count": 300})
        request.product.result.name = "r" + name
        return method, request, None

    @staticmethod
    def rows_of(array, rows):
        return array[rows["row_begin"] :][: rows["row_count"]]

    def matrices_in_turn(self, channel):
        for _ in range(10):
            self.matrix(channel)

    KINDS = (valid, valid, burst, given_up, given_up, deadline, deadline, left_under_way, bad, garbage,
             lie, too_large, half_a_call, half_a_call, half_a_call, watch, no_protocol, matrices_in_turn,
             matrices_in_turn)


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
        right, calls, matrices = (
            sum(getattr(c, what) for c in storm.callers) for what in ("right", "calls", "matrices")
        )
        print(f"seed {SEED}: {calls} calls, {right} products, {matrices} of matrices that stay")
        assert right > 0 and matrices > 0
        for matrix in server.stub.ListMatrices(gemm_pb2.ListMatricesRequest()).matrices:
            server.stub.DeleteMatrix(gemm_pb2.DeleteMatrixRequest(name=matrix.name))
        for name, labels in (
            ("gemmd_budget_used_bytes", {"pool": "admission"}),
            ("gemmd_budget_used_bytes", {"pool": "host"}),
            ("gemmd_budget_used_bytes", {"pool": "matrices"}),
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
