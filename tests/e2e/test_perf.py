"""gemmctl perf: what it measures is what the server saw, and what it cannot measure it says."""

import json
import os
import pty
import re
import signal
import subprocess
import threading
import time

import harness
import pytest

CALL_FAILED = 1
UNUSABLE = 2
SLO_BROKEN = 3

QUICK = ("--duration", "300ms", "--warmup", "100ms", "--shapes", "16x16x16")


def perf_command(address, *flags):
    return list(map(str, [harness.BIN / "gemmctl", "--address", address, "perf", *flags]))


@pytest.fixture
def perf(server):
    """Runs gemmctl perf to its end; with --json also says what it printed."""

    def run(*flags, code=0):
        done = harness.run(perf_command(server.address, *flags))
        assert done.returncode == code, done
        return json.loads(done.stdout) if "--json" in flags else done

    return run


def handled(server, code="OK"):
    """Multiply calls that ended so, by the server's own count."""
    try:
        return server.metric("grpc_server_handled_total", grpc_method="Multiply", grpc_code=code)
    except AssertionError:
        return 0  # none yet


def test_counts_are_those_of_the_server(server, perf):
    before = handled(server)
    report = perf(*QUICK, "--concurrency", "1,4", "--channels", "2", "--json")
    first, second = report["points"]
    assert (first["callers"], second["callers"]) == (1, 4)
    counted = report["check_calls"]
    for point in report["points"]:
        assert point["calls"] > 0 and point["errors"] == {} and point["unsent"] == 0, point
        counted += point["calls"] + point["warmup_calls"]
    harness.wait_until(lambda: handled(server) - before >= counted, "the server's count")
    assert handled(server) - before == counted


def test_figures_agree_with_one_another(perf):
    report = perf("--duration", "500ms", "--shapes", "32x16x8:3,64x64x64/f64/tb", "--json")
    (point,) = report["points"]
    assert [shape["name"] for shape in report["shapes"]] == ["32x16x8/f32", "64x64x64/f64/tb"]
    assert all(shape["kernel"] for shape in report["shapes"]), report["shapes"]
    assert report["link"] == {"kind": "loopback", "channels": 1, "road": "inline", "by_panels": False}
    assert report["server"]["version"] == report["client"]["version"]
    assert point["calls_per_second"] == pytest.approx(point["calls"] / point["seconds"])
    # One caller is always waiting for one call.
    latency = point["latency_seconds"]
    assert latency["mean"] * point["calls"] == pytest.approx(point["seconds"], rel=0.2)
    assert latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["p99.9"] <= latency["max"]
    # By the weights, three small products for each large one.
    small, large = 4 * (32 * 8 + 8 * 16 + 32 * 16), 8 * 3 * 64 * 64
    payload = point["gigabytes_per_second"] * 1e9 / point["calls_per_second"]
    assert payload == pytest.approx((3 * small + large) / 4, rel=0.25)
    split = point["mean_seconds"]
    assert sum(split.values()) == pytest.approx(latency["mean"], rel=1e-3)
    assert all(time >= 0 for time in split.values()), split
    assert split["compute"] > 0 and split["wire_and_client"] > 0, split


def test_open_loop_keeps_its_rate_and_its_seed(perf):
    flags = ("--shapes", "8x8x8", "--rate", "400", "--duration", "1s", "--warmup", "0s", "--json")
    points = [perf(*flags, "--seed", seed)["points"][0] for seed in (5, 5, 6)]
    for point in points:
        assert point["rate"] == 400 and point["errors"] == {} and point["unsent"] == 0, point
        assert abs(point["calls"] - 400) < 5 * 400**0.5, point
    assert points[0]["calls"] == points[1]["calls"]


@pytest.mark.parametrize("batch", [(), ("--batch", "5")])
def test_b_on_the_server(server, perf, batch):
    flags = ("--shapes", "16x24x8,20x10x30/f64/tb", "--resident", "b", *batch)
    report = perf(*flags, "--duration", "300ms", "--warmup", "100ms", "--concurrency", "3", "--json")
    assert report["link"]["road"] == "resident b"
    (point,) = report["points"]
    assert point["calls"] > 0 and point["errors"] == {}, point
    # Of the operands only A travels.
    small, large = 4 * (16 * 8 + 16 * 24), 8 * (20 * 30 + 20 * 10)
    payload = point["gigabytes_per_second"] * 1e9 / point["products_per_second"]
    assert payload == pytest.approx((small + large) / 2, rel=0.25)
    done = perf(*flags, "--duration", "100ms", "--rate", "100")
    assert "A and results inline, B on the server" in done.stdout
    assert server.metric("gemmd_matrices") == 0


def test_upload(server, perf):
    report = perf("--upload", "40MiB", "--channels", "3", "--duration", "300ms", "--json")
    assert report["matrix"] == {"rows": 2560, "columns": 4096, "dtype": "f32", "bytes": 40 << 20}
    assert report["link"] == {"kind": "loopback", "channels": 3, "road": "resident"}
    for way in ("put", "get"):
        figures = report[way]
        assert figures["transfers"] >= 1
        rate = figures["transfers"] * (40 << 20) / figures["seconds"] * 1e-9
        assert figures["gigabytes_per_second"] == pytest.approx(rate)
        assert figures["best_gigabytes_per_second"] >= rate * 0.999
    table = perf("--upload", "1MiB", "--duration", "100ms").stdout
    assert re.search(r"^ put +\d+ +\d+\.\d{3} +\d+\.\d{3}$", table, re.MULTILINE), table
    assert server.metric("gemmd_matrices") == 0


def test_upload_that_does_not_fit():
    with harness.running_server("--matrix-memory=1MiB") as server:
        done = harness.run(perf_command(server.address, "--upload", "2MiB"))
        assert done.returncode == CALL_FAILED
        assert "gemmctl: RESOURCE_EXHAUSTED (MEMORY_TOO_SMALL)" in done.stderr


@pytest.mark.parametrize("flags", [("--upload", "16MiB"), ("--resident", "b", "--shapes", "64x64x64")])
def test_interrupted_with_matrices_on_the_server(server, flags):
    command = perf_command(server.address, *flags, "--duration", "1m", "--json")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=harness.clean_environment()
    ) as process:
        harness.wait_until(lambda: server.metric("gemmd_matrices") > 0, "a matrix")
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=harness.PATIENCE)
    assert process.returncode == -signal.SIGINT, errors
    report = json.loads(output)
    assert report["points"][0]["interrupted"] if "points" in report else report["interrupted"]
    assert server.metric("gemmd_matrices") == 0


def test_table(perf):
    done = perf(*QUICK, "--concurrency", "1,3")
    assert re.match(r"gemmd \S+ \(\S+\) at 127\.0\.0\.1:\d+\n", done.stdout), done.stdout
    assert "16x16x16/f32, 100%: " in done.stdout
    assert len(re.findall(r"^ +1 +\d", done.stdout, re.MULTILINE)) == 2, done.stdout
    assert len(re.findall(r"^ +3 +\d", done.stdout, re.MULTILINE)) == 2, done.stdout
    assert "copy_out  wire and client" in done.stdout
    assert done.stderr == ""  # no terminal, no progress


def test_bounds(perf):
    perf(*QUICK, "--slo", "p50=10s,p99.9=1m,errors=0")
    done = perf(*QUICK, "--concurrency", "1,2", "--slo", "p50=1ns,errors=0", code=SLO_BROKEN)
    for point in ("1 caller", "2 callers"):
        assert re.search(rf"^gemmctl: {point}: p50 is .* ms, over p50=1ns$", done.stderr, re.M), done
    report = perf(*QUICK, "--slo", "max=1ns", "--json", code=SLO_BROKEN)
    assert report["points"][0]["slo_broken"][0].startswith("max is "), report


@pytest.mark.parametrize("load", [("--rate", "200"), ("--concurrency", "2")])
def test_stalled_server_is_seen(load):
    """Stopped for a second of the three: an open loop has a third of its calls wait for it, on
    average half of that; a closed one of two callers has just two calls that do."""
    with harness.running_server() as server:
        flags = ("--shapes", "8x8x8", "--duration", "3s", "--warmup", "0s", "--json", *load)
        command = perf_command(server.address, *flags)
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=harness.clean_environment()
        ) as process:
            harness.wait_until(lambda: handled(server) > 10, "the load")
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(1)
            server.process.send_signal(signal.SIGCONT)
            output, _ = process.communicate(timeout=harness.PATIENCE)
        assert process.returncode == 0
        (point,) = json.loads(output)["points"]
        assert point["latency_seconds"]["max"] > 0.9, point
        if "--rate" in load:
            assert point["latency_seconds"]["p99"] > 0.5, point
            assert point["latency_seconds"]["p90"] > 0.3, point
            assert point["unsent"] == 0 and point["errors"] == {}, point
        else:
            assert point["latency_seconds"]["p99"] < 0.5, point


def test_calls_that_cannot_be_sent_are_counted():
    with harness.running_server() as server:
        flags = ("--shapes", "8x8x8", "--rate", "100", "--outstanding", "7", "--duration", "2s")
        command = perf_command(server.address, *flags, "--warmup", "0s", "--slo", "errors=10", "--json")
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=harness.clean_environment()
        ) as process:
            harness.wait_until(lambda: handled(server) > 2, "the load")
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(3)
            server.process.send_signal(signal.SIGCONT)
            output, errors = process.communicate(timeout=harness.PATIENCE)
        assert process.returncode == SLO_BROKEN, errors
        assert "over errors=10" in errors
        (point,) = json.loads(output)["points"]
        # Those before the stop, seven that were under way, and the rest, most of 200.
        assert point["unsent"] > 80, point
        assert abs(point["calls"] + point["unsent"] - 200) < 5 * 200**0.5, point


def test_refusals_are_counted_by_code():
    with harness.running_server("--queue-problems=1") as server:
        done = harness.run(
            perf_command(
                server.address, "--shapes", "700x700x700", "--concurrency", "12", "--duration", "1s", "--json"
            )
        )
        assert done.returncode == 0, done
        (point,) = json.loads(done.stdout)["points"]
        assert point["calls"] > 0 and point["errors"].get("UNAVAILABLE", 0) > 0, point
        assert handled(server, "UNAVAILABLE") >= point["errors"]["UNAVAILABLE"]


def test_server_that_goes_away():
    with harness.running_server() as server:
        command = perf_command(server.address, "--shapes", "8x8x8", "--duration", "1s", "--concurrency", "2,3")
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=harness.clean_environment()
        ) as process:
            harness.wait_until(lambda: handled(server) > 10, "the load")
            server.process.kill()
            output, errors = process.communicate(timeout=harness.PATIENCE)
        assert process.returncode == CALL_FAILED, (output, errors)
        assert "gemmctl: 3 callers: no call was answered" in errors
        assert "UNAVAILABLE" in output


def test_no_server():
    for flags in ((), ("--json",)):
        command = [harness.BIN / "gemmctl", "--address", "127.0.0.1:1", "--retries", "0", "perf", *flags]
        done = harness.run(command)
        assert done.returncode == CALL_FAILED
        assert "no server listens at 127.0.0.1:1" in done.stderr
    assert json.loads(done.stdout)["error"]["code"] == "UNAVAILABLE"


def test_product_too_large_for_the_server():
    with harness.running_server("--message-limit=1MiB") as server:
        done = harness.run(perf_command(server.address, "--shapes", "1x1x1000000"))
        assert done.returncode == CALL_FAILED
        assert "gemmctl: RESOURCE_EXHAUSTED (MESSAGE_TOO_LARGE)" in done.stderr


@pytest.mark.parametrize(
    "flags, words",
    [
        (("--shapes", "64x64"), "does not begin as MxNxK"),
        (("--shapes", "64x64x64/f16"), "none of /f32, /f64, /ta, /tb"),
        (("--shapes", "64x64x64:0"), "no weight above 0"),
        (("--concurrency", "0"), "not a number of callers"),
        (("--concurrency", "4,"), "not a number of callers"),
        (("--rate", "fast"), "not a number of calls a second"),
        (("--rate", "10", "--concurrency", "1"), "excludes --"),
        (("--duration", "5"), "not a duration"),
        (("--duration", "0s"), "not a duration"),
        (("--warmup", "-1s"), "not a duration"),
        (("--channels", "0"), "--channels"),
        (("--outstanding", "0"), "--outstanding"),
        (("--seed", "x"), "--seed"),
        (("--slo", "p99"), "not of the form p99=5ms"),
        (("--slo", "errors=many"), "not of the form errors=0"),
        (("64x64x64",), "64x64x64"),
    ],
)
def test_bad_flags(gemmctl, flags, words):
    done = gemmctl("perf", *flags)
    assert done.returncode == UNUSABLE, done
    assert words in done.stderr and "gemmctl perf --help" in done.stderr, done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(server, signal_number):
    """It stops at once, though the call under way would take an hour, and says what it has."""
    before = handled(server)
    command = perf_command(server.address, "--shapes", "8x8x8", "--duration", "1h", "--warmup", "0s", "--json")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=harness.clean_environment()
    ) as process:
        harness.wait_until(lambda: handled(server) > before + 100, "the load")
        process.send_signal(signal_number)
        output, errors = process.communicate(timeout=harness.PATIENCE)
    assert process.returncode == -signal_number, errors
    (point,) = json.loads(output)["points"]
    assert point["interrupted"] and point["calls"] >= 100 and point["errors"] == {}, point
    assert point["seconds"] < harness.PATIENCE
    assert point["calls_per_second"] == pytest.approx(point["calls"] / point["seconds"])


def test_interrupted_while_the_server_stands_still():
    with harness.running_server() as server:
        command = perf_command(server.address, "--shapes", "8x8x8", "--duration", "1h", "--concurrency", "3")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=harness.clean_environment()) as process:
            harness.wait_until(lambda: handled(server) > 100, "the load")
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=harness.PATIENCE)
            server.process.send_signal(signal.SIGCONT)
        assert process.returncode == -signal.SIGINT
        assert ", interrupted" in output


def test_progress_on_a_terminal(server):
    near, far = pty.openpty()
    seen = bytearray()

    def read():
        try:
            while data := os.read(near, 4096):
                seen.extend(data)
        except OSError:  # the other end is closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    done = subprocess.run(
        perf_command(server.address, "--shapes", "8x8x8", "--duration", "1500ms", "--concurrency", "2"),
        stdout=subprocess.PIPE,
        stderr=far,
        timeout=harness.PATIENCE,
        check=False,
        env=harness.clean_environment(),
    )
    os.close(far)
    reader.join()
    os.close(near)
    assert done.returncode == 0
    words = seen.decode()
    assert "2 callers (1 of 1), warming up: " in words, words
    assert re.search(r"2 callers \(1 of 1\): 1\S*s of 1\.5s, \d+ calls, \d+/s, 0 errors", words), words
    assert words.endswith("\r\x1b[K"), words  # and gone in the end
