#!/usr/bin/env python3
"""Draws the ladder and the roofline from `gemm_bench --mode=ladder --json`.

    plot.py LADDER.jsonl OUTDIR

writes OUTDIR/ladder.svg and OUTDIR/roofline.svg. Needs matplotlib.
"""

import json
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # noqa: E402

# Of an NVIDIA H200, measured by programs of their own.
FMA_TFLOPS = 64.1  # FP32 multiply-adds from registers alone
COPY_TBS = 4.28  # device-to-device copy, read and written

INK = "#222222"
GREY = "#8a8a8a"
BLUE = "#1f5fa8"
ORANGE = "#c8641b"


def load(path):
    run, rungs = {}, []
    for text in pathlib.Path(path).read_text().splitlines():
        line = json.loads(text)
        if line["kind"] == "run":
            run = line
        elif line["kind"] == "rung":
            rungs.append(line)
    return run, rungs


def title_of(rung):
    return "chosen" if rung["rung"].startswith("chosen") else rung["rung"]


def style(axes):
    axes.yaxis.set_major_locator(FixedLocator([0.5, 1, 2, 5, 10, 20, 50]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK, labelsize=8)
    axes.grid(axis="both", color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)


def caption(figure, run):
    figure.text(0.01, 0.01, f"{run['card']}, driver {run['driver']}, {run['peer']}, {run['date']}",
                fontsize=6, color=GREY)


def draw_ladder(run, rungs, path):
    """TFLOP/s over the size, one line for each rung."""
    figure, axes = plt.subplots(figsize=(7, 4.2))
    titles = list(dict.fromkeys(title_of(r) for r in rungs))
    ends = []
    for title in titles:
        points = sorted((r["size"], r["tflops"]) for r in rungs if title_of(r) == title)
        color = ORANGE if title == "cuBLAS" else BLUE if title == "chosen" else GREY
        axes.plot(*zip(*points), marker="o", markersize=3, color=color,
                  linewidth=2 if color != GREY else 1)
        ends.append([points[-1][1], title, color, points[-1][0]])
    # Labels at the lines' ends, pushed apart on the logarithmic scale where these are of one size.
    at = {}
    for tflops, title, color, size in sorted(ends):
        at[size] = max(tflops, at.get(size, 0) * 1.13)
        above = size < max(r["size"] for r in rungs)  # other lines go on beside it
        axes.annotate(title, (size, tflops), (size * 1.08, at[size]), fontsize=7, color=color,
                      va="bottom" if above else "center")
    sizes = sorted({r["size"] for r in rungs})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [str(s) for s in sizes])
    axes.set_xlim(sizes[0] * 0.9, sizes[-1] * 2.6)
    axes.set_xlabel("m = n = k", fontsize=8)
    axes.set_ylabel("TFLOP/s, f32", fontsize=8)
    style(axes)
    caption(figure, run)
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    figure.savefig(path, metadata={"Date": None})


def draw_roofline(run, rungs, path, size=4096):
    """TFLOP/s over the bytes that a block asks of global memory, under the card's two roofs."""
    figure, axes = plt.subplots(figsize=(7, 4.2))
    intensities = [2 ** (e / 4) for e in range(-12, 33)]
    axes.plot(intensities, [min(FMA_TFLOPS, COPY_TBS * i) for i in intensities], color=INK,
              linewidth=1.2)
    axes.annotate(f"multiply-adds from registers, {FMA_TFLOPS} TFLOP/s", (100, FMA_TFLOPS * 1.08),
                  fontsize=7, color=INK, ha="center")
    axes.annotate(f"memory, {COPY_TBS} TB/s", (0.55, COPY_TBS * 0.55 * 0.55), fontsize=7, color=INK,
                  rotation=38)
    for r in rungs:
        other_microtile = r["rung"].startswith("cache-blocked") and r["rung"] != "cache-blocked 8x8"
        if r["size"] != size or not r["flops_per_global_byte"] or other_microtile:
            continue
        axes.plot(r["flops_per_global_byte"], r["tflops"], "o", color=BLUE, markersize=5)
        axes.annotate(title_of(r), (r["flops_per_global_byte"], r["tflops"]), (5, 4),
                      textcoords="offset points", fontsize=7, color=BLUE)
    for r in rungs:
        if r["size"] == size and title_of(r) in ("chosen", "cuBLAS"):
            color = ORANGE if title_of(r) == "cuBLAS" else BLUE
            axes.axhline(r["tflops"], color=color, linewidth=0.8, linestyle="--")
            at = 0.14 if title_of(r) == "cuBLAS" else 1.0
            axes.annotate(f"{title_of(r)}, {r['tflops']:.1f}", (at, r["tflops"]), (0, 2),
                          textcoords="offset points", fontsize=7, color=color)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(0.125, 256)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("FLOP for each byte that a block asks of global memory, by design", fontsize=8)
    axes.set_ylabel(f"TFLOP/s, f32, {size} cubed", fontsize=8)
    style(axes)
    caption(figure, run)
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    figure.savefig(path, metadata={"Date": None})


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    run, rungs = load(sys.argv[1])
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    matplotlib.rcParams["svg.hashsalt"] = "gemm_bench"  # the same picture, the same bytes
    draw_ladder(run, rungs, out / "ladder.svg")
    draw_roofline(run, rungs, out / "roofline.svg")


if __name__ == "__main__":
    main()
