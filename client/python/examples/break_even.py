"""Says from which size on a product is faster on the server than here, by the road it takes.

usage: python break_even.py [--address host:port]... [--link "10 GbE"] [--sizes 64,256,1024,4096]

Squares of f32, each the median of several calls, all roads but NumPy in turn within one run:
  inline    both factors are sent, the result comes back
  resident  b is on the server already; a is sent, the result comes back
  kept      a and b are there, and the result stays: what a chain of products costs
  batch     `--batch` small products a call (matmul_many), b on the server; the time is of one
beside
  NumPy     on this machine, with the BLAS that NumPy has here
  CuPy      on a GPU of this machine, where CuPy is installed: from NumPy and back
  PyTorch   the same where PyTorch is installed; "pinned": from page-locked memory and back
"CuPy kept" and "PyTorch kept" are the product alone, of what is on the GPU already.

Several addresses, of one server by TCP and by UNIX socket, say, are measured in turns, too.
"""

import argparse
import importlib
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gemmd

_SMALL = 512  # Up to here a batch makes sense.
_CHECKED_ROWS = 64  # of a result

# The threads of NumPy's BLAS look for more work for a while, on every core, before they sleep.
_BLAS_REST = 0.2  # seconds

Roads = dict[str, Callable[[], object]]


def seconds(calls: list[Callable[[], object]], budget: float) -> list[float]:
    """The median time of each, called in turn until the budget is spent; at least 3 times."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:  # Warm-up.
        call()
    end = time.perf_counter() + budget
    while len(times[0]) < 3 or time.perf_counter() < end:
        for call, found in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            found.append(time.perf_counter() - start)
    return [statistics.median(each) for each in times]


def cupy_roads(a: Any, b: Any) -> Roads:
    try:
        cupy = importlib.import_module("cupy")
        on_gpu = cupy.asarray(a), cupy.asarray(b)
    except Exception:  # Not installed, or no GPU.
        return {}

    def on_gpu_only() -> None:
        on_gpu[0] @ on_gpu[1]
        cupy.cuda.Device().synchronize()

    return {
        "CuPy": lambda: cupy.asnumpy(cupy.asarray(a) @ cupy.asarray(b)),
        "CuPy kept": on_gpu_only,
    }


def torch_roads(a: Any, b: Any) -> Roads:
    try:
        torch = importlib.import_module("torch")
        torch.backends.cuda.matmul.allow_tf32 = False  # f32, as the server computes.
        here = torch.from_numpy(a), torch.from_numpy(b)
        pinned = here[0].pin_memory(), here[1].pin_memory()
        result = torch.empty_like(here[0]).pin_memory()
        on_gpu = here[0].cuda(), here[1].cuda()
    except Exception:  # Not installed, or no GPU.
        return {}

    def by_pinned() -> None:
        left, right = (x.cuda(non_blocking=True) for x in pinned)
        result.copy_(left @ right, non_blocking=True)
        torch.cuda.synchronize()

    def on_gpu_only() -> None:
        on_gpu[0] @ on_gpu[1]
        torch.cuda.synchronize()

    return {
        "PyTorch": lambda: (here[0].cuda() @ here[1].cuda()).cpu().numpy(),
        "PyTorch pinned": by_pinned,
        "PyTorch kept": on_gpu_only,
    }


def service_roads(client: gemmd.Client, a: Any, b: Any, out: Any, batch: int) -> Roads:
    """Those whose result comes back write it to `out`, but for batch. The matrices live as long
    as the roads."""
    left, right = client.put(a), client.put(b)
    roads: Roads = {
        "inline": lambda: client.matmul(a, b, out=out),
        "resident": lambda: client.matmul(a, right, out=out),
        "kept": lambda: (left @ right).delete(),
    }
    if a.shape[0] <= _SMALL:
        pairs = [(a, right)] * batch
        roads["batch"] = lambda: client.matmul_many(pairs, copy=False)
    return roads


def measure(clients: list[gemmd.Client], size: int, batch: int, budget: float) -> dict[str, float]:
    """Seconds of a product, by road."""
    generator = np.random.default_rng(size)
    a = generator.standard_normal((size, size), dtype=np.float32)
    b = generator.standard_normal((size, size), dtype=np.float32)
    out = np.empty((size, size), np.float32)
    some = generator.choice(size, min(size, _CHECKED_ROWS), replace=False)
    want = a[some].astype(np.float64) @ b.astype(np.float64)
    bound = 16 * np.sqrt(size) * 2.0**-24 * size
    by_numpy = seconds([lambda: np.matmul(a, b, out=out)], budget / 4)
    time.sleep(_BLAS_REST)
    roads: Roads = {}
    for client in clients:
        link = f" {client.address}" if len(clients) > 1 else ""
        of_service = service_roads(client, a, b, out, batch)
        for name in ("inline", "resident"):  # No time of a wrong result.
            out.fill(np.nan)
            of_service[name]()
            if not np.abs(out[some] - want).max() <= bound:
                sys.exit(f"break_even.py: {name} at {size} is wrong")
        roads |= {name + link: road for name, road in of_service.items()}
    roads |= cupy_roads(a, b) | torch_roads(a, b)
    times = zip(["NumPy", *roads], by_numpy + seconds(list(roads.values()), budget), strict=True)
    return {name: each / batch if name.startswith("batch") else each for name, each in times}


def ahead_from(name: str, rows: dict[int, dict[str, float]]) -> str:
    """The size from which on, that is at every larger one too, a road is faster than NumPy."""
    ahead = "none"
    for size in sorted((size for size in rows if name in rows[size]), reverse=True):
        if rows[size][name] >= rows[size]["NumPy"]:
            break
        ahead = str(size)
    return ahead


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--address", action="append", help="host:port of the server; repeatable")
    parser.add_argument(
        "--link", default="loopback", help="how the server is reached, for the title"
    )
    parser.add_argument("--sizes", default="32,64,128,256,512,1024,2048,4096")
    parser.add_argument("--batch", type=int, default=256, help="products of a matmul_many")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each size")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",")]

    clients = [gemmd.Client(address) for address in arguments.address or [None]]
    device = clients[0].info().devices[0].name
    at = " and ".join(client.address for client in clients)
    print(f"server: {device} at {at}, link: {arguments.link}")
    print(
        f"here: {platform.machine()}, {os.cpu_count()} cores, NumPy {np.__version__}; "
        "f32, milliseconds a product; ahead: from which size on it is faster than NumPy here"
    )
    rows: dict[int, dict[str, float]] = {}
    for size in sizes:
        rows[size] = measure(clients, size, arguments.batch, arguments.seconds)
        print(f"measured {size}", file=sys.stderr, flush=True)
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    width = max(map(len, names))
    print("  ".join([" " * width, *(f"{size:>9}" for size in sizes), "ahead"]))
    for name in names:
        cells = [f"{rows[s][name] * 1e3:9.3f}" if name in rows[s] else f"{'-':>9}" for s in sizes]
        ahead = "" if name == "NumPy" else f"{ahead_from(name, rows):>5}"
        print("  ".join([f"{name:<{width}}", *cells, ahead]))
    for client in clients:
        client.close()


if __name__ == "__main__":
    try:
        main()
    except gemmd.GemmdError as error:
        sys.exit(f"break_even.py: {error}")
