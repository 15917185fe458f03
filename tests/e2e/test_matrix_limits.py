"""How much may stay on the server, how long, and many callers at once."""

import contextlib
import random
import threading
import time

import grpc
import harness
import numpy as np
from harness import (
    MIB,
    PATIENCE,
    PATIENT_DRAIN,
    failure_of,
    gemm_pb2_grpc,
    open_channel,
    reals,
    result_of,
    running_server,
    small_integers,
    wait_until,
)
from matrix_calls import (
    SECOND_NS,
    Code,
    create,
    delete,
    fresh,
    get,
    names,
    product,
    put,
    rows_of,
    state,
    write,
)

# Limits


def test_past_the_size_of_a_message():
    with running_server("--message-limit=1MiB", "--host-memory=16MiB") as server:
        stub = server.stub
        a, b = small_integers(1, 1200, 1100), small_integers(2, 1100, 1000)  # 5 MiB, 4 MiB
        operands = []
        for array in (a, b):
            name = create(stub, array).name
            for begin in range(0, len(array), 150):
                write(stub, name, array, begin, min(150, len(array) - begin))
            operands.append(rows_of(name))
        failure = failure_of(lambda: stub.Multiply(product((1200, 1000, 1100), *operands)))
        assert (failure.code, failure.reason) == (Code.RESOURCE_EXHAUSTED, "RESULT_TOO_LARGE")
        reply = stub.Multiply(product((1200, 1000, 1100), *operands, result="d"), timeout=PATIENCE)
        assert reply.result.sealed
        failure = failure_of(lambda: get(stub, "d"))
        assert (failure.reason, failure.field) == ("RESULT_TOO_LARGE", "row_count"), failure
        parts = [get(stub, "d", begin, 200) for begin in range(0, 1200, 200)]
        np.testing.assert_array_equal(np.vstack(parts), a @ b)


def test_time_to_live():
    with running_server("--matrix-ttl=1s", "--matrix-ttl-limit=60s") as server:
        stub = server.stub
        array = small_integers(1, 3, 3)
        short = put(stub, array, time_to_live_ns=SECOND_NS * 3 // 2)
        kept = put(stub, array, time_to_live_ns=60 * SECOND_NS)
        by_default = create(stub, array)
        assert by_default.time_to_live_ns == SECOND_NS
        assert 0 < by_default.expires_in_ns <= SECOND_NS
        failure = failure_of(lambda: put(stub, array, time_to_live_ns=61 * SECOND_NS))
        assert failure.field == "time_to_live_ns", failure
        end = time.monotonic() + 3
        while time.monotonic() < end:  # longer than it lives without this
            assert state(stub, short).sealed
            time.sleep(0.1)
        wait_until(lambda: names(stub) == [kept], "the others to expire")
        wait_until(lambda: server.metric("gemmd_matrices") == 1, "the gauge")


def test_quota_and_memory():
    with running_server("--matrix-memory=1MiB", "--matrix-count=3") as server:
        stub = server.stub
        quarter = np.zeros((256, 256), np.float32)
        made = [put(stub, quarter) for _ in range(3)]
        failure = failure_of(lambda: put(stub, quarter))
        assert (failure.code, failure.reason) == (Code.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED")
        delete(stub, made.pop())
        half = np.zeros((513, 256), np.float32)
        failure = failure_of(lambda: put(stub, half))
        assert (failure.code, failure.reason) == (Code.UNAVAILABLE, "MEMORY_FULL"), failure
        assert failure.retry_seconds > 0
        assert server.metric("gemmd_budget_used_bytes", pool="matrices") == 2 * 256 * 256 * 4
        assert server.metric("gemmd_budget_limit_bytes", pool="matrices") == MIB
        info = server.info()
        assert info.matrix_memory_bytes == MIB
        assert info.matrix_memory_used_bytes == 2 * 256 * 256 * 4
        assert info.time_to_live_limit_ns == 24 * 3600 * SECOND_NS
        failure = failure_of(lambda: put(stub, np.zeros((1025, 256), np.float32)))
        assert failure.reason == "MEMORY_TOO_SMALL", failure


# Many at once


def test_many_writers_in_random_order(server, stub):
    """Each row is sent by some of eight connections, several times over."""
    array = reals(1, 640, 513)
    name = create(stub, array).name
    errors = []

    def writer(seed):
        order = list(range(0, 640, 20))
        random.Random(seed).shuffle(order)
        try:
            with open_channel(server.address) as channel:
                own = gemm_pb2_grpc.GemmServiceStub(channel)
                for begin in order:
                    while True:
                        try:
                            write(own, name, array, begin, 20)
                            break
                        except grpc.RpcError as error:
                            failure = harness.Failure(error)
                            assert failure.reason == "MATRIX_BUSY", failure
                            assert failure.code == Code.UNAVAILABLE
                            time.sleep(failure.retry_seconds)
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=writer, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert state(stub, name).sealed
    np.testing.assert_array_equal(get(stub, name), array)


def test_deleted_in_use(server, stub):
    """Products go on with a matrix that is deleted under them; its memory is given back after."""
    n = 1200
    a = small_integers(1, n, n)
    want = a @ a
    base = server.metric("gemmd_budget_used_bytes", pool="matrices")
    for _ in range(3):
        name = put(stub, a)
        calls = [
            stub.Multiply.future(product((n, n, n), rows_of(name), rows_of(name)), timeout=PATIENCE)
            for _ in range(4)
        ]
        with contextlib.suppress(grpc.FutureTimeoutError):
            calls[0].result(timeout=0.01)
        delete(stub, name)
        for call in calls:
            try:
                np.testing.assert_array_equal(result_of(call.result(), n, n), want)
            except grpc.RpcError as error:  # came after the delete
                assert harness.Failure(error).reason == "MATRIX_NOT_FOUND"
    wait_until(
        lambda: server.metric("gemmd_budget_used_bytes", pool="matrices") == base, "the memory"
    )


def test_many_want_one_result(server, stub):
    n = 700
    a = small_integers(1, n, n)
    name, result = put(stub, a), fresh()
    computed = []

    def caller():
        with open_channel(server.address) as channel:
            own = gemm_pb2_grpc.GemmServiceStub(channel)
            while True:
                try:
                    request = product((n, n, n), rows_of(name), rows_of(name), result=result)
                    reply = own.Multiply(request, timeout=PATIENCE)
                    assert reply.result.sealed
                    computed.append(bool(reply.report.kernel))
                    return
                except grpc.RpcError as error:
                    failure = harness.Failure(error)
                    assert failure.reason == "MATRIX_BUSY", failure
                    time.sleep(failure.retry_seconds)

    threads = [threading.Thread(target=caller) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(computed) == [False] * 5 + [True]
    np.testing.assert_array_equal(get(stub, result), a @ a)


def test_a_quota_is_not_waited_for():
    with running_server("--matrix-quota=300KiB") as server:
        quarter = np.zeros((256, 256), np.float32)
        put(server.stub, quarter)
        failure = failure_of(lambda: put(server.stub, quarter))
        assert (failure.code, failure.reason) == (Code.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED")
        assert failure.retry_seconds is None and "row panels" in failure.message, failure


def test_the_log_names_the_matrix(server, stub):
    name = fresh()
    failure_of(lambda: get(stub, name))

    def logged():
        return [record for record in server.records() if record.get("matrix") == name]

    wait_until(logged, "the log's record")
    assert logged()[0]["method"] == "ReadRows" and logged()[0]["code"] == "NOT_FOUND"


# Servers of their own


def test_reflection_leaves_matrices_to_the_gate():
    with running_server("--reflection") as server:
        array = small_integers(1, 3, 3)
        np.testing.assert_array_equal(get(server.stub, put(server.stub, array)), array)


def test_none_outlives_the_server():
    array = small_integers(1, 3, 3)
    with running_server() as server:
        name = put(server.stub, array)
    with running_server() as server:
        failure = failure_of(lambda: get(server.stub, name))
        assert (failure.code, failure.reason) == (Code.NOT_FOUND, "MATRIX_NOT_FOUND"), failure


def test_a_draining_server_refuses_matrices_too():
    with running_server("--drain-window=0s", PATIENT_DRAIN) as server:
        a = small_integers(1, 2500, 2500)
        name = put(server.stub, a)
        request = product((2500, 2500, 2500), rows_of(name), rows_of(name), result="d")
        call = server.stub.Multiply.future(request, timeout=PATIENCE)
        wait_until(
            lambda: server.metric("grpc_server_started_total", grpc_method="Multiply") == 1, "it"
        )
        server.terminate()
        with contextlib.suppress(grpc.RpcError):
            while True:  # until it refuses or has gone
                create(server.stub, a, name)
        assert call.result().result.sealed  # what was under way was finished
        assert server.wait() == 0
