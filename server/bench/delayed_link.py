#!/usr/bin/env python3
"""Runs a command beside two network namespaces with a slow link between them.

    sudo server/bench/delayed_link.py --round-trip-ms 10 --gbit 1 COMMAND ARGUMENT...

The namespaces are gemmd-client (10.87.0.1) and gemmd-server (10.87.0.2); `ip netns exec` runs
programs in them. Each packet is held back by half of the round trip, and those that go the same
way go one after another at the rate. Two processes of this program carry them from one TUN device
to the other, which needs no kernel module (`tc netem` is one, and not everywhere) but some of the
CPU. What comes in faster than the link is dropped when 50 ms of it wait.
"""

import argparse
import collections
import contextlib
import ctypes
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator

CLIENT, SERVER = "gemmd-client", "gemmd-server"
ADDRESSES = {CLIENT: "10.87.0.1", SERVER: "10.87.0.2"}
LARGEST = 70_000  # bytes: a packet that segmentation offload leaves whole, and its header
QUEUE_SECONDS = 0.05

_TUNSETIFF, _TUNSETOFFLOAD = 0x400454CA, 0x400454D0
_IFF_TUN, _IFF_NO_PI, _IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
_TUN_F_CSUM, _TUN_F_TSO4 = 0x01, 0x02
_CLONE_NEWNET = 0x40000000


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def enter(namespace: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with open(namespace, "rb") as file:
        if libc.setns(file.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")


def open_device(namespace: str) -> int:
    """The end of the link in a namespace: what it sends is read here, what is written here arrives
    there. Packets of up to 64 KiB stay in one piece, as they would up to a network card."""
    enter(f"/run/netns/{namespace}")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    flags = _IFF_TUN | _IFF_NO_PI | _IFF_VNET_HDR
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", b"far", flags))
    fcntl.ioctl(device, _TUNSETOFFLOAD, _TUN_F_CSUM | _TUN_F_TSO4)
    ip("address", "add", f"{ADDRESSES[namespace]}/24", "dev", "far")
    ip("link", "set", "dev", "far", "txqueuelen", "10000", "up")
    ip("link", "set", "dev", "lo", "up")
    return device


def carry(source: int, sink: int, delay: float, bytes_per_second: float) -> None:
    """Packets of one direction, for ever."""
    waiting: collections.deque[tuple[float, bytes]] = collections.deque()  # with when they arrive
    free_at = 0.0  # when the link can begin with the next packet
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            with contextlib.suppress(OSError):  # A full device drops, as any would.
                os.write(sink, waiting.popleft()[1])
        wait = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        if not select.select([source], [], [], wait)[0]:
            continue
        now = time.monotonic()
        for _ in range(64):
            try:
                packet = os.read(source, LARGEST)
            except BlockingIOError:
                break
            begin = max(now, free_at)
            if begin - now > QUEUE_SECONDS:
                continue
            free_at = begin + len(packet) / bytes_per_second
            waiting.append((free_at + delay, packet))


@contextlib.contextmanager
def link(round_trip_ms: float, gbit: float) -> Iterator[None]:
    """Makes the namespaces and the link, and takes them away."""
    carriers = []
    made = []
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        for namespace in (CLIENT, SERVER):
            ip("netns", "add", namespace)
            made.append(namespace)
        devices = [open_device(namespace) for namespace in (CLIENT, SERVER)]
        enter(f"/proc/self/fd/{home}")
        delay, bytes_per_second = round_trip_ms / 2e3, gbit * 1e9 / 8
        for source, sink in (devices, devices[::-1]):
            carrier = os.fork()
            if carrier == 0:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                try:
                    carry(source, sink, delay, bytes_per_second)
                finally:
                    os._exit(1)
            carriers.append(carrier)
        for device in devices:
            os.close(device)
        yield
    finally:
        enter(f"/proc/self/fd/{home}")
        os.close(home)
        for carrier in carriers:
            os.kill(carrier, signal.SIGKILL)
            os.waitpid(carrier, 0)
        for namespace in made:
            ip("netns", "delete", namespace)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--round-trip-ms", type=float, default=1.0)
    parser.add_argument("--gbit", type=float, default=1000.0, help="a second, each way")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if not arguments.command:
        parser.error("no command")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with link(arguments.round_trip_ms, arguments.gbit):
        with subprocess.Popen(arguments.command) as command:
            try:
                return command.wait()
            except BaseException:
                command.terminate()  # and waits for its end, on the way out
                raise


if __name__ == "__main__":
    sys.exit(main())
