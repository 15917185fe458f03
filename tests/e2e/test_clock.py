"""A machine whose clock is set while the server runs, by a library that is preloaded (set_clock.cc)."""

import re
import struct

import harness
import numpy as np
import pytest
from harness import (
    PATIENCE,
    PATIENT_DRAIN,
    clean_environment,
    gemm_pb2,
    product_request,
    result_of,
    running_server,
    small_integers,
    small_request,
    wait_until,
)
from matrix_calls import put, state
from test_ends import slow_request

LIBRARY = harness.BIN / "set_clock.so"
DAY = 86400.0

pytestmark = pytest.mark.skipif(
    harness.SANITIZED or not LIBRARY.exists(), reason="nothing can be preloaded"
)


class Clock:
    def __init__(self, path):
        self.path = path
        self.path.write_bytes(struct.pack("q", 0))

    def set(self, seconds):
        """Ahead of the machine's own."""
        with open(self.path, "r+b") as file:
            file.write(struct.pack("q", int(seconds)))

    def environment(self):
        return clean_environment(LD_PRELOAD=str(LIBRARY), SET_CLOCK_FILE=str(self.path))


def last_time(server):
    return server.records()[-1]["time"]


def spent(server):
    """All times that the metrics have."""
    times = re.findall(r"^(?:grpc|gemmd)\w+_seconds_sum\S* (\S+)$", server.metrics_text(), re.MULTILINE)
    assert times
    return [float(time) for time in times]


def test_setting_the_clock_moves_nothing(tmp_path):
    clock = Clock(tmp_path / "clock")
    with running_server("--log-level=debug", environment=clock.environment()) as server:
        before = last_time(server)
        name = put(server.stub, small_integers(1, 4, 4))
        slow = server.stub.Multiply.future(slow_request(server, 2), timeout=PATIENCE)
        wait_until(lambda: server.metric("gemmd_running_problems") == 1, "a running product")
        waiting = server.stub.Multiply.future(small_request(), timeout=PATIENCE)
        wait_until(lambda: server.metric("gemmd_queue_problems") == 1, "one that waits")
        clock.set(2 * DAY)
        assert waiting.result().report.queue_ns < PATIENCE * 1e9
        assert slow.result().report.compute_ns < PATIENCE * 1e9

        def logged_later():
            server.multiply(small_request())
            return last_time(server)[:10] > before[:10]

        wait_until(logged_later, "the log to tell the time of day")
        assert state(server.stub, name).sealed

        clock.set(-2 * DAY)
        a, b = small_integers(1, 7, 5), small_integers(2, 5, 3)
        for _ in range(20):
            reply = server.multiply(product_request(a, b))
            np.testing.assert_array_equal(result_of(reply, 7, 3), a @ b)
            assert reply.report.receive_ns < PATIENCE * 1e9
        assert state(server.stub, name).expires_in_ns <= 3600e9
        info = server.stub.GetServerInfo(gemm_pb2.GetServerInfoRequest(), timeout=PATIENCE)
        assert info.uptime_ns < DAY * 1e9
        assert all(0 <= time < 10 * PATIENCE for time in spent(server)), spent(server)


@pytest.mark.parametrize("days", [2, -2])
def test_setting_the_clock_while_draining_moves_nothing(tmp_path, days):
    clock = Clock(tmp_path / "clock")
    with running_server(PATIENT_DRAIN, environment=clock.environment()) as server:
        call = server.stub.Multiply.future(slow_request(server, 2), timeout=PATIENCE)
        wait_until(lambda: server.metric("gemmd_running_problems") == 1, "a running product")
        server.terminate()
        wait_until(lambda: '"draining"' in server.log(), "the drain")
        clock.set(days * DAY)
        assert call.result().payloads
        assert server.wait() == 0
        drained = server.records()[-1]
        assert drained["message"] == "drained" and 0 <= drained["seconds"] < PATIENCE, drained
