"""Says how near a call's transfer comes to what bytes cost in Python's gRPC.

usage: python transfer_floor.py [--address host:port] [--mib 16] [--seconds 10]

So many MiB go up and come back, in turns within one run, medians:
  echo    bare bytes, by grpcio from and to a grpcio server in a process of its own on this machine
  bytes   a request that is made already, by grpcio to the gemmd server
  client  the same product from NumPy arrays and back by gemmd.Client
Of the last two the time that the server's device takes is left out, as the client's calls report
it. (a is a column, b one number.)
Where the server is another machine, echo says nothing of it.
"""

import argparse
import contextlib
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from concurrent import futures
from typing import Any

import grpc
import numpy as np

import gemmd
from gemmd import _panels

_METHOD = "/gemm.v1.GemmService/Multiply"
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_ON_DEVICE = ("queue", "copy_in", "compute", "copy_out")


def serve_echo(pipe: Any) -> None:
    server = grpc.server(futures.ThreadPoolExecutor(4), options=_OPTIONS)
    echo = grpc.unary_unary_rpc_method_handler(lambda request, _context: request)
    service, method = _METHOD[1:].split("/")
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {method: echo}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    pipe.send(port)
    with contextlib.suppress(EOFError):
        pipe.recv()  # Nothing comes: the other end is closed.
    server.stop(None)


def bare_call(address: str) -> Any:
    options = [*_OPTIONS, ("grpc.enable_http_proxy", 0)]
    return grpc.insecure_channel(address, options).unary_unary(_METHOD)


def request_of(client: gemmd.Client, a: Any, b: Any) -> bytes:
    """The message that the client sends for a @ b."""
    sent: list[bytes] = []
    transport: Any = client._session.transport
    call = transport.call

    def keep(method: str, request: bytes, *rest: Any, **named: Any) -> Any:
        sent.append(request)
        return call(method, request, *rest, **named)

    transport.call = keep
    try:
        client.matmul(a, b)
    finally:
        del transport.call
    return sent[-1]


def in_turns(roads: dict[str, Callable[[], float]], budget: float) -> dict[str, list[float]]:
    """Seconds of each call, without what the road says that a device took."""
    times: dict[str, list[float]] = {name: [] for name in roads}
    for road in roads.values():  # Warm-up.
        road()
    end = time.perf_counter() + budget
    while time.perf_counter() < end or len(times["echo"]) < 5:
        for name, road in roads.items():
            start = time.perf_counter()
            device = road()
            times[name].append(time.perf_counter() - start - device)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--address", help="host:port of the server")
    parser.add_argument("--mib", type=int, default=16, help="each way")
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()

    _panels.WHOLE_BYTES = 1 << 62  # One message each way, as the echo's.
    a = np.random.default_rng(1).standard_normal((arguments.mib << 18, 1), dtype=np.float32)
    b = np.full((1, 1), 2, np.float32)
    out = np.empty_like(a)
    payload = a.tobytes()

    context = multiprocessing.get_context("spawn")  # gRPC does not survive a fork.
    pipe, far = context.Pipe()
    process = context.Process(target=serve_echo, args=(far,), daemon=True)
    process.start()
    far.close()
    echo = bare_call(f"127.0.0.1:{pipe.recv()}")
    with gemmd.Client(arguments.address) as client:
        request = request_of(client, a, b)
        call = bare_call(client.address)
        taken = [0.0]  # by the device, of the last call of the client

        def by_echo() -> float:
            if len(echo(payload)) != len(payload):
                sys.exit("transfer_floor.py: the echo is wrong")
            return 0.0

        def by_bytes() -> float:
            if len(call(request)) < len(payload):
                sys.exit("transfer_floor.py: the reply is wrong")
            return taken[0]

        def by_client() -> float:
            result = client.matmul_result(a, b, out=out)
            taken[0] = sum(result.report.phases.get(phase, 0.0) for phase in _ON_DEVICE)
            return taken[0]

        by_client()
        if not np.array_equal(out, 2 * a):  # No time of a wrong result.
            sys.exit("transfer_floor.py: the product is wrong")
        roads = {"echo": by_echo, "bytes": by_bytes, "client": by_client}
        times = in_turns(roads, arguments.seconds)
        device = client.info().devices[0].name
        rounds = len(times["echo"])
        print(f"{arguments.mib} MiB each way, {device} at {client.address}, {rounds} rounds")
    pipe.close()
    process.join()
    for name, found in times.items():
        ratio = statistics.median(e / t for e, t in zip(times["echo"], found, strict=True))
        milliseconds = statistics.median(found) * 1e3
        print(f"{name:>7} {milliseconds:9.2f} ms   {ratio:5.2f} of the echo's speed")


if __name__ == "__main__":
    try:
        main()
    except gemmd.GemmdError as error:
        sys.exit(f"transfer_floor.py: {error}")
