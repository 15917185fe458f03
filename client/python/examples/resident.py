"""Keeps weights on the server: a chain of products sends its input and fetches its result only.

usage: python resident.py [host:port]
"""

import sys

import numpy as np

import gemmd


def main() -> None:
    generator = np.random.default_rng(1)
    batch = generator.standard_normal((64, 1024), dtype=np.float32)
    first = generator.standard_normal((1024, 4096), dtype=np.float32) / 32
    second = generator.standard_normal((4096, 256), dtype=np.float32) / 64

    with gemmd.Client(sys.argv[1] if len(sys.argv) > 1 else None) as client:
        w1, w2 = client.put(first), client.put(second)  # Once; they go when w1 and w2 do.
        print(f"on the server: {w1}, {w2}")
        hidden = batch @ w1  # Stays there, too.
        result = np.asarray(hidden @ w2)  # Comes here.
        print(f"here: {result.shape[0]} x {result.shape[1]} {result.dtype}")
        top = np.asarray(hidden[:3])  # Rows of what stays there.

        many = client.matmul_many([(row[np.newaxis], w1) for row in batch])
        same = all(np.allclose(row, top[i], atol=1e-4) for i, row in enumerate(many[:3]))

    error = np.abs(result - batch @ first @ second).max()
    print(f"differs from NumPy by {error:.2e}; row by row the same: {same}")


if __name__ == "__main__":
    try:
        main()
    except gemmd.GemmdError as error:
        sys.exit(f"resident.py: {error}")
