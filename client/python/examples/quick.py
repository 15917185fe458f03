"""Multiplies two matrices on the server and compares with NumPy.

usage: python quick.py [host:port]     (default: GEMMD_ADDRESS, or else 127.0.0.1:50051)
"""

import sys

import numpy as np

import gemmd


def main() -> None:
    generator = np.random.default_rng(1)
    a = generator.standard_normal((500, 300), dtype=np.float32)
    b = generator.standard_normal((300, 400), dtype=np.float32)
    with gemmd.Client(*sys.argv[1:2]) as client:
        d = client.matmul(a, b)
        gram = client.matmul(a, a.T)  # The transpose is free, and a travels once.
        biased = client.matmul(a, b, alpha=2.0, c=np.ones(400, np.float32))
    for name, got, wanted in [
        ("a b", d, a @ b),
        ("a aT", gram, a @ a.T),
        ("2 a b + 1", biased, 2 * (a @ b) + 1),
    ]:
        print(f"{name}: {got.shape}, differs from NumPy by {np.abs(got - wanted).max():.1e}")


if __name__ == "__main__":
    try:
        main()
    except gemmd.GemmdError as error:
        sys.exit(f"quick.py: {error}")
