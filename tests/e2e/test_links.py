"""Over a link with delay: calls cost what the least that such calls can cost there does. Needs root,
for network namespaces, and rpc_floor, which tests/run.sh --full builds."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import harness
import pytest

LINK = harness.REPOSITORY / "server" / "bench" / "delayed_link.py"
RPC_FLOOR = harness.BIN / "rpc_floor"

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for network namespaces"),
    pytest.mark.skipif(not os.access("/dev/net/tun", os.W_OK), reason="there is no /dev/net/tun"),
    pytest.mark.skipif(not RPC_FLOOR.exists(), reason=f"{RPC_FLOOR} is not built"),
]

CASES = ["64x64x64", "4194304x1x1", "1x1x2097152@1", "1x1x2097152@8"]

SERVE = """
ip netns exec gemmd-server "$@" & server=$!
trap 'kill "${server}"; wait "${server}"' EXIT
until ip netns exec gemmd-client "${BIN}/gemmctl" --address 10.87.0.2:50051 health; do sleep 0.1; done
"""


def over_link(round_trip_ms, command):
    """Runs a shell command beside a gemmd at the far end."""
    gemmd = harness.gemmd_command("--listen=10.87.0.2:50051", "--insecure", "--metrics-listen=")
    link = [sys.executable, LINK, "--round-trip-ms", str(round_trip_ms)]
    with subprocess.Popen(
        [*link, "timeout", "300", "bash", "-euc", SERVE + command, "bash", *map(str, gemmd)],
        env=harness.clean_environment(BIN=str(harness.BIN)),
    ) as process:
        try:
            assert process.wait(400) == 0
        except BaseException:  # a time-out of pytest's among them
            process.terminate()  # it takes away what it has made
            raise


def test_nothing_is_left_of_a_link_that_is_stopped(tmp_path):
    up = tmp_path / "up"
    command = ["bash", "-c", f"touch {up}; exec sleep 1000"]
    with subprocess.Popen([sys.executable, LINK, *command]) as process:
        harness.wait_until(up.exists, "the link")
        assert {"gemmd-client", "gemmd-server"} <= set(os.listdir("/run/netns"))
        process.terminate()
    assert process.returncode == 128 + signal.SIGTERM
    assert not {"gemmd-client", "gemmd-server"} & set(os.listdir("/run/netns"))


# The processors, which the link shares with both ends, are what counts where the delay is short.
@pytest.mark.parametrize("round_trip_ms, least", [(1, 0.6), (10, 0.85)])
@pytest.mark.timeout(900)
def test_as_fast_as_the_floor(tmp_path, round_trip_ms, least):
    best = {}
    for attempt in range(3):
        rows = tmp_path / f"rows-{attempt}.jsonl"
        over_link(
            round_trip_ms,
            'ip netns exec gemmd-client "${BIN}/rpc_floor" --floor-only --rounds 3 '
            "--server-netns gemmd-server --server-host 10.87.0.2 --gemmd 10.87.0.2:50051 "
            f"--json {rows} {' '.join(CASES)}",
        )
        for row in map(json.loads, pathlib.Path(rows).read_text().splitlines()):
            if row["contender"] == "gemmd":
                case = (row["m"], row["n"], row["k"], row["channels"])
                best[case] = max(best.get(case, 0), row["of_floor_without_device"])
        assert len(best) == len(CASES)
        if min(best.values()) >= least:
            return
    raise AssertionError(f"of the floor: {best}")
