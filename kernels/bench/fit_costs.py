#!/usr/bin/env python3
"""Fits the SIMT families' numbers for the cost model to recorded times.

    fit_costs.py bench/results/tune_f32.jsonl bench/results/regret7_f32.jsonl ...

Prints, for each kernel, the last five numbers of its row in the family's table (math_fraction,
lone_fraction, begin, result_fraction, start_seconds) and how far off the model is on the times that
were given, in natural logarithms. A time counts the less, the slower the kernel is beside the best
on the same product: choices are made among the fast. Needs numpy and scipy.
"""

import argparse
import collections
import json
import re

import numpy as np
from scipy.optimize import least_squares

# The H200 of bench/literal_devices.h.
FLOPS = {"f32": 66.9e12, "f64": 33.5e12}
BYTES_PER_SECOND = 4.9e12
MULTIPROCESSORS = 132
ELEMENT_BYTES = {"f32": 4, "f64": 8}

# Beyond so many times the best, a time is often that of a single launch.
SLOWEST = 2.5

# m and n of a tile.
TILES = {
    "cached_f32_8x8": (128, 128),
    "cached_f32_8x4": (128, 64),
    "tiled_f32_32x32x32": (32, 32),
    "tiled_f32_16x16x16": (16, 16),
    "naive_f32_16x16": (16, 16),
    "blocked1d_f32_64x64x8": (64, 64),
    "register_f32_128x128x8": (128, 128),
    "register_f32_64x64x8": (64, 64),
}


def read(paths: list[str]) -> dict[str, np.ndarray]:
    """{kernel: array of rows (m, n, k, batch, seconds, times the best)}"""
    products = collections.defaultdict(dict)
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for line in map(json.loads, lines):
                if line.get("kind") == "time":
                    products[line["dtype"], line["shape"]][line["kernel"]] = line["us"]
    rows = collections.defaultdict(list)
    for (_, shape), times in products.items():
        m, n, k, batch = re.match(r"(\d+)x(\d+)x(\d+)(?:b(\d+))?", shape).groups()
        best = min(times.values())
        for kernel, us in times.items():
            if us < SLOWEST * best:
                sizes = (float(m), float(n), float(k), float(batch or 1))
                rows[kernel].append((*sizes, 1e-6 * us, us / best))
    return {kernel: np.array(times) for kernel, times in rows.items()}


def model(
    rows: np.ndarray,
    dtype: str,
    tile: tuple[int, int],
    math: float,
    lone: float,
    begin: float,
    result: float,
    start: float,
) -> np.ndarray:
    """ModelTileSeconds of families/cost_model.h, and the start."""
    m, n, k, batch = rows[:, :4].T
    tiles = np.ceil(m / tile[0]) * np.ceil(n / tile[1]) * batch
    waves = np.ceil(tiles / MULTIPROCESSORS)

    def seconds(fraction: float, products: np.ndarray) -> np.ndarray:
        return 2 * tile[0] * tile[1] * products * MULTIPROCESSORS / (FLOPS[dtype] * fraction)

    bytes_of_waves = waves * np.minimum(tiles, MULTIPROCESSORS) * sum(tile) * k
    return (
        start
        + np.maximum.reduce(
            [
                waves * seconds(math, k + begin),
                ELEMENT_BYTES[dtype] * bytes_of_waves / BYTES_PER_SECOND,
                seconds(lone, k),
            ]
        )
        + ELEMENT_BYTES[dtype] * m * n * batch / BYTES_PER_SECOND / result
    )


def fit(kernel: str, rows: np.ndarray) -> tuple[tuple[float, ...], float]:
    dtype = kernel.split("_")[1]
    weights = 1 / rows[:, 5]

    def numbers(x: np.ndarray) -> tuple[float, ...]:
        math = np.exp(x[0])
        lone = math / (1 + np.exp(x[1]))  # a tile alone is no faster
        return math, lone, x[2] ** 2, np.exp(x[3]), 1e-6 * np.exp(x[4])

    def errors(x: np.ndarray) -> np.ndarray:
        return weights * np.log(model(rows, dtype, TILES[kernel], *numbers(x)) / rows[:, 4])

    first = [np.log(0.2), 0, 2, np.log(0.5), np.log(2)]
    best = least_squares(errors, first, loss="soft_l1", f_scale=0.1)
    return numbers(best.x), np.sqrt(np.mean(errors(best.x) ** 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", help="JSON lines of gemm_bench")
    times = read(parser.parse_args().files)
    for kernel in TILES:
        if len(times.get(kernel, ())) < 10:
            continue
        (math, lone, begin, result, start), error = fit(kernel, times[kernel])
        print(
            f"{kernel:24} {math:.3g}, {lone:.3g}, {begin:.1f}, {result:.3g}, {start:.3g}"
            f"   off by {error:.3f} on {len(times[kernel])}"
        )


if __name__ == "__main__":
    main()
