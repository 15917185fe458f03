"""Shows where the time of a product goes, beside the same product in NumPy on this machine.

usage: python phases.py [--address host:port] [--size 1024] [--calls 10]
"""

import argparse
import sys
import time

import numpy as np

import gemmd


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--address", help="host:port of the server")
    parser.add_argument("--size", type=int, default=1024, help="multiply size x size matrices")
    parser.add_argument("--calls", type=int, default=10, help="take the fastest of so many calls")
    arguments = parser.parse_args()

    generator = np.random.default_rng(1)
    shape = (arguments.size, arguments.size)
    a = generator.standard_normal(shape, dtype=np.float32)
    b = generator.standard_normal(shape, dtype=np.float32)

    reports, local = [], []
    with gemmd.Client(arguments.address) as client:
        for _ in range(max(1, arguments.calls)):
            reports.append(client.matmul_result(a, b).report)
            start = time.perf_counter()
            a @ b
            local.append(time.perf_counter() - start)

    report = min(reports, key=lambda each: each.wall)
    print(f"{report.kernel} on {report.device}: {arguments.size} cubed, f32")
    for phase, seconds in report.phases.items():
        print(f"  {phase:<28}{seconds * 1e3:10.3f} ms")
    # "receive" overlaps the sending; what is left is mostly the way back and Python.
    rest = report.wall - sum(report.phases.values())
    print(f"  {'network and client':<28}{rest * 1e3:10.3f} ms")
    print(f"  {'whole call':<28}{report.wall * 1e3:10.3f} ms")
    print(f"  {'NumPy here':<28}{min(local) * 1e3:10.3f} ms")


if __name__ == "__main__":
    try:
        main()
    except gemmd.GemmdError as error:
        sys.exit(f"phases.py: {error}")
