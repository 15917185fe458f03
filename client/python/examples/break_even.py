"""Says from which size on a product is faster on the server than here, by the road it takes.

usage: python break_even.py [--address host:port] [--link "10 GbE"] [--sizes 64,256,1024,4096]

Squares of f32, each the median of several calls, all roads in turn within one run:
  inline    both factors are sent, the result comes back
  resident  b is on the server already; a is sent, the result comes back
  kept      a and b are there, and the result stays: what a chain of products costs
  batch     `--batch` small products a call (matmul_many), b on the server; the time is of one
beside
  NumPy     on this machine, with the BLAS that NumPy has here
  CuPy      on a GPU of this machine, where CuPy is installed: from NumPy and back, and on the GPU
  PyTorch   the same where PyTorch is installed and CuPy is not
"""

import argparse
import importlib
import platform
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gemmd

_SMALL = 512  # Up to here a batch makes sense.


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


def cupy_roads(a: Any, b: Any) -> dict[str, Callable[[], object]]:
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


def torch_roads(a: Any, b: Any) -> dict[str, Callable[[], object]]:
    try:
        torch = importlib.import_module("torch")
        torch.backends.cuda.matmul.allow_tf32 = False  # f32, as the server computes.
        on_gpu = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
    except Exception:  # Not installed, or no GPU.
        return {}

    def on_gpu_only() -> None:
        on_gpu[0] @ on_gpu[1]
        torch.cuda.synchronize()

    return {
        "PyTorch": lambda: (torch.from_numpy(a).cuda() @ torch.from_numpy(b).cuda()).cpu().numpy(),
        "PyT kept": on_gpu_only,
    }


def measure(client: gemmd.Client, size: int, batch: int, budget: float) -> dict[str, float]:
    """Seconds of a product, by road."""
    generator = np.random.default_rng(size)
    a = generator.standard_normal((size, size), dtype=np.float32)
    b = generator.standard_normal((size, size), dtype=np.float32)
    out = np.empty((size, size), np.float32)
    bound = 16 * np.sqrt(size) * 2.0**-24 * size
    with client.put(a) as left, client.put(b) as right:
        roads: dict[str, Callable[[], object]] = {
            "NumPy": lambda: np.matmul(a, b, out=out),
            "inline": lambda: client.matmul(a, b, out=out),
            "resident": lambda: client.matmul(a, right, out=out),
            "kept": lambda: (left @ right).delete(),
        }
        if size <= _SMALL:
            pairs = [(a, right)] * batch
            roads["batch"] = lambda: client.matmul_many(pairs, copy=False)
        roads |= cupy_roads(a, b) or torch_roads(a, b)
        want = a.astype(np.float64) @ b.astype(np.float64)
        for name in ("inline", "resident"):  # No time of a wrong result.
            out.fill(np.nan)
            roads[name]()
            if not np.abs(out - want).max() <= bound:
                sys.exit(f"break_even.py: {name} at {size} is wrong")
        found = dict(zip(roads, seconds(list(roads.values()), budget), strict=True))
    if "batch" in found:
        found["batch"] /= batch
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--address", help="host:port of the server")
    parser.add_argument(
        "--link", default="loopback", help="how the server is reached, for the title"
    )
    parser.add_argument("--sizes", default="32,64,128,256,512,1024,2048,4096")
    parser.add_argument("--batch", type=int, default=256, help="products of a matmul_many")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each size")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",")]

    with gemmd.Client(arguments.address) as client:
        device = client.info().devices[0].name
        print(f"server: {device} at {client.address}, link: {arguments.link}")
        print(f"here: {platform.machine()}, NumPy {np.__version__}; f32, milliseconds a product")
        rows = {size: measure(client, size, arguments.batch, arguments.seconds) for size in sizes}
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    print("  ".join(["  size", *(f"{name:>9}" for name in names)]))
    for size, row in rows.items():
        cells = [f"{row[name] * 1e3:9.3f}" if name in row else f"{'-':>9}" for name in names]
        print("  ".join([f"{size:>6}", *cells]))
    for name in names[1:]:
        # From a size on, that is: at every larger one, too.
        ahead: int | None = None
        for size in sorted(rows, reverse=True):
            if name not in rows[size]:
                continue
            if rows[size][name] >= rows[size]["NumPy"]:
                break
            ahead = size
        largest = max(size for size in rows if name in rows[size])
        said = f"from {ahead} on" if ahead is not None else f"at no size up to {largest}"
        print(f"{name}: faster than NumPy here {said}")


if __name__ == "__main__":
    try:
        main()
    except gemmd.GemmdError as error:
        sys.exit(f"break_even.py: {error}")
