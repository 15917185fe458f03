"""Finds each query's nearest neighbours among many points: the heavy part is one product.

|q - p|^2 = |q|^2 - 2 q.p + |p|^2, and |q|^2 does not change the order: so the server computes
-2 Q PT + |p|^2, with |p|^2 as a row that broadcasts, and P, stored by rows, goes as it is.

usage: python nearest.py [host:port]     (default: GEMMD_ADDRESS, or else 127.0.0.1:50051)
"""

import sys

import numpy as np
import numpy.typing as npt

import gemmd

Floats = npt.NDArray[np.float32]


def nearest(
    client: gemmd.Client, queries: Floats, points: Floats, count: int
) -> npt.NDArray[np.intp]:
    """The indices of the `count` nearest points of each query, nearest first."""
    norms = np.einsum("ij,ij->i", points, points)
    scores = client.matmul(queries, points.T, alpha=-2.0, c=norms)
    found = np.argpartition(scores, count, axis=1)[:, :count]
    order = np.take_along_axis(scores, found, axis=1).argsort(axis=1)
    return np.take_along_axis(found, order, axis=1)


def main() -> None:
    generator = np.random.default_rng(1)
    points = generator.standard_normal((5000, 64), dtype=np.float32)
    chosen = generator.choice(len(points), 200, replace=False)
    queries = points[chosen] + generator.normal(0, 0.05, (200, 64)).astype(np.float32)
    with gemmd.Client(*sys.argv[1:2]) as client:
        found = nearest(client, queries, points, count=5)
    hits = int((found[:, 0] == chosen).sum())
    print(f"{hits} of {len(chosen)} queries found the point that they were made from")


if __name__ == "__main__":
    try:
        main()
    except gemmd.GemmdError as error:
        sys.exit(f"nearest.py: {error}")
