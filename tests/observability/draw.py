"""Draws the dashboard's panels from what the real Prometheus answers to their expressions, without
Grafana, and prints the answers as a table.

    build/venv/bin/pip install matplotlib==3.11.2
    build/venv/bin/python tests/observability/draw.py [--seconds 90] [-o deploy/grafana/panels.png]
"""

import argparse
import datetime
import math
import re
import textwrap

import rig

COLUMNS = 3
NOTE = (
    "gemmd --device=cpu under the load of tests/observability/rig.py, scraped every second by "
    "Prometheus; drawn by tests/observability/draw.py, not by Grafana.\n"
    "The GPU row shows the written page dcgm_sample.prom, not a card."
)


def legend(target, labels):
    return re.sub(r"\{\{(\w+)\}\}", lambda match: labels.get(match[1], ""), target["legendFormat"])


def table(answers):
    """Markdown: what each expression of the dashboard answered last."""
    lines = [
        "| panel | expression | series | last value of the first |",
        "| --- | --- | --: | --: |",
    ]
    for panel, results in answers:
        for target, result in zip(panel["targets"], results, strict=True):
            value = float(result[0]["values"][-1][1]) if result else math.nan
            expression = target["expr"].replace("|", "\\|")
            lines.append(f"| {panel['title']} | `{expression}` | {len(result)} | {value:.4g} |")
    return "\n".join(lines)


def bucket_bound(series):
    return float(series["metric"]["le"].replace("+Inf", "inf"))


def draw_heatmap(axes, result, seconds_ago):
    series = sorted(result, key=bucket_bound)
    cumulative = [[float(value) for _, value in one["values"]] for one in series]
    counts = [
        [here - below for here, below in zip(row, previous, strict=True)]
        for row, previous in zip(cumulative, [[0] * len(cumulative[0]), *cumulative], strict=False)
    ]
    times = [seconds_ago(at) for at, _ in series[0]["values"]]
    axes.pcolormesh(times, range(len(series)), counts, cmap="Oranges", shading="nearest")
    axes.set_yticks(range(0, len(series), 3), [f"{bucket_bound(one):g} s" for one in series[::3]])


def draw_stat(axes, panel, results):
    axes.axis("off")
    shown = [
        (legend(target, one["metric"]), one["values"][-1][1])
        for target, result in zip(panel["targets"], results, strict=True)
        for one in result
    ]
    for i, (name, value) in enumerate(shown):
        axes.text(0.1, 0.7 - 0.35 * i, value, fontsize=20, color="tab:green")
        axes.text(0.35, 0.72 - 0.35 * i, name, fontsize=8)


def draw_series(axes, panel, results, seconds_ago, formatter_of):
    defaults = panel["fieldConfig"]["defaults"]
    named = [
        (legend(target, one["metric"]), one["values"])
        for target, result in zip(panel["targets"], results, strict=True)
        for one in result
    ]
    right = None

    def override(name):
        for one in panel["fieldConfig"]["overrides"]:
            if re.fullmatch(one["matcher"]["options"], name):
                return {property["id"]: property["value"] for property in one["properties"]}
        return {}

    axes.yaxis.set_major_formatter(formatter_of(defaults["unit"]))
    if defaults["custom"]["stacking"]["mode"] == "normal":
        times = sorted({at for _, values in named for at, _ in values})
        rows = [dict(values) for _, values in named]
        heights = [[float(row.get(at, 0)) for at in times] for row in rows]
        heights = [[0 if math.isnan(height) else height for height in row] for row in heights]
        axes.stackplot(
            list(map(seconds_ago, times)), heights, labels=[n for n, _ in named], alpha=0.8
        )
    else:
        for i, (name, values) in enumerate(named):
            where = axes
            changed = override(name)
            if "unit" in changed:
                right = right or axes.twinx()
                right.tick_params(labelsize=7)
                right.yaxis.set_major_formatter(formatter_of(changed["unit"]))
                where = right
            points = [seconds_ago(at) for at, _ in values], [float(value) for _, value in values]
            style = "dashed" if "custom.lineStyle" in changed else "solid"
            where.plot(*points, label=name, color=f"C{i}", linewidth=1.2, linestyle=style)
    if "scaleDistribution" in defaults["custom"]:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(formatter_of(defaults["unit"]))
        axes.yaxis.set_minor_formatter("")
    else:
        for one in filter(None, (axes, right)):
            one.set_ylim(0, max(one.get_ylim()[1], 1e-9))
    handles = [
        handle
        for one in filter(None, (axes, right))
        for handle in one.get_legend_handles_labels()[0]
    ]
    axes.legend(
        handles, [handle.get_label() for handle in handles], fontsize=6, ncols=2, frameon=False,
        loc="upper center", bbox_to_anchor=(0.5, -0.1),
    )  # fmt: skip


def draw(answers, path):
    import matplotlib
    import PIL.Image

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    def formatter_of(unit):
        if unit == "percentunit":
            return ticker.PercentFormatter(1)
        if unit == "short":
            return ticker.ScalarFormatter()
        names = {
            "s": "s",
            "bytes": "B",
            "Bps": "B/s",
            "reqps": "/s",
            "cps": "/s",
            "flops": "FLOP/s",
        }
        names |= {"watt": "W", "celsius": "°C"}
        return ticker.EngFormatter(names[unit])

    end = max(
        at
        for _, results in answers
        for result in results
        for one in result
        for at, _ in one["values"]
    )
    rows = math.ceil(len(answers) / COLUMNS)
    figure, grid = pyplot.subplots(rows, COLUMNS, figsize=(13, 2.9 * rows), layout="constrained")
    for axes, (panel, results) in zip(grid.flat, answers, strict=False):
        axes.set_title(panel["title"], fontsize=9)
        axes.tick_params(labelsize=7)
        if panel["type"] == "heatmap":
            draw_heatmap(axes, results[0], lambda at: at - end)
        elif panel["type"] == "stat":
            draw_stat(axes, panel, results)
        else:
            draw_series(axes, panel, results, lambda at: at - end, formatter_of)
    for axes in list(grid.flat)[len(answers) :]:
        axes.axis("off")
    taken = datetime.datetime.now(datetime.UTC).date()
    figure.suptitle(f"{taken}: {NOTE}", fontsize=8)
    figure.supxlabel("seconds before the last scrape", fontsize=8)
    figure.savefig(path, dpi=85)
    with PIL.Image.open(path) as picture:
        picture.convert("RGB").quantize(64).save(path, optimize=True)  # a quarter of the size


def main():
    parser = argparse.ArgumentParser(
        description=textwrap.dedent(__doc__), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=90, help="how long the load runs")
    parser.add_argument("-o", "--output", default=rig.REPOSITORY / "deploy/grafana/panels.png")
    arguments = parser.parse_args()
    with rig.running_rig() as running:
        running.await_history(arguments.seconds)
        shown = arguments.seconds - rig.WINDOW_SECONDS
        answers = [
            (panel, [
                running.prometheus.query_range(rig.substitute(target["expr"]), shown)
                for target in panel["targets"]
            ])
            for panel in rig.panels()
        ]  # fmt: skip
    print(table(answers))
    draw(answers, arguments.output)


if __name__ == "__main__":
    main()
