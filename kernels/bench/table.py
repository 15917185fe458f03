#!/usr/bin/env python3
"""Prints the rows of kernels/README.md's "Beside cuBLAS" from `gemm_bench --mode=bench --json`.

    table.py list_f32.jsonl [PEER.jsonl]

Of each shape the chosen kernel and the peer, then the geometric mean and the largest spreads. The
peer may be of another run: cuBLAS does not start where CUDA_FORCE_PTX_JIT is set.
"""

import json
import math
import pathlib
import sys
from typing import Any


def us(value: float) -> str:
    return f"{value:.1f}" if value < 10000 else f"{value:.0f}"


def tflops(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def main() -> None:
    ours: dict[str, Any] = {}
    peers: dict[str, Any] = {}
    for path in sys.argv[1:]:
        for line in map(json.loads, pathlib.Path(path).read_text().splitlines()):
            if line["kind"] == "run":
                print(f"{line['card']}, {line['peer']}, {line['date']}, commit {line['commit']}")
                print(f"{line['command']}\n")
            elif line["kind"] == "kernel" and line["chosen"] and path == sys.argv[1]:
                ours[line["shape"]] = line
            elif line["kind"] == "peer":
                peers[line["shape"]] = line

    print("| m x n x k | kernel | us | TFLOP/s | cuBLAS us | x cuBLAS |")
    print("|---|---|---|---|---|---|")
    ratios = []
    for shape, row in ours.items():
        if shape not in peers:
            continue
        peer = peers[shape]
        ratios.append(peer["us"] / row["us"])
        print(
            f"| {shape} | `{row['kernel']}` | {us(row['us'])} | {tflops(row['tflops'])} "
            f"| {us(peer['us'])} | {ratios[-1]:.3f} |"
        )
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    worst = min(ratios)
    print(f"\nGeometric mean {mean:.3f} over {len(ratios)} shapes, worst {worst:.3f}.")
    for what, rows in (("ours", ours), ("the peer", peers)):
        shape = max(rows, key=lambda s: rows[s]["spread"])
        print(f"Largest spread of {what}: {100 * rows[shape]['spread']:.1f} % at {shape}.")


if __name__ == "__main__":
    main()
