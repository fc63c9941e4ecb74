"""Ratio bars of the newest results of `paper.py`, one thread, on a logarithmic scale.

A bar to the right of 1 is faster than the best peer; a tick marks the least that is asked for.

python benchmarks/picture.py [results.json]
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from harness import RESULTS
from matplotlib.ticker import FuncFormatter, NullFormatter
from PIL import Image

MET, SHORT, FREE, TICK = "#2a78b5", "#d1702f", "#9a9a9a", "#202020"


def newest() -> Path:
    found = sorted(RESULTS.glob("????-??-??-paper-*.json"))
    if not found:
        sys.exit("no results: run benchmarks/paper.py first")
    return found[-1]


def color(notes: dict) -> str:
    if notes["target"] is None:
        return FREE
    return MET if notes["met"] else SHORT


def draw(report: dict, path: Path) -> None:
    rows = [c for c in report["comparisons"] if c["threads"] == 1]
    if not rows:
        sys.exit("no results with one thread")
    figure, axes = plt.subplots(figsize=(8.5, 1.2 + 0.19 * len(rows)))
    for k, row in enumerate(rows):
        axes.barh(k, row["ratio"] - 1, left=1, height=0.7, color=color(row["notes"]))
        side = 1 if row["ratio"] >= 1 else -1
        end, target = row["ratio"], row["notes"]["target"]
        if target is not None:
            axes.plot([target] * 2, [k - 0.45, k + 0.45], color=TICK, linewidth=1.5)
            # The number does not stand on the tick.
            if 1 <= (target / end) ** side < 1.3:
                end = target
        axes.annotate(
            f"{row['ratio']:.2f}",
            (end, k),
            (3 * side, 0),
            textcoords="offset points",
            fontsize=6,
            va="center",
            ha="left" if side > 0 else "right",
        )
    axes.set_xscale("log")
    ratios = [row["ratio"] for row in rows]
    axes.set_xlim(min(*ratios, 0.5) / 1.4, max(*ratios, 4) * 1.4)
    ticks = [t for t in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4, 8, 16) if min(ratios) / 1.4 < t]
    axes.set_xticks([t for t in ticks if t < axes.get_xlim()[1]])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.axvline(1, color=TICK, linewidth=0.8)
    axes.set_yticks(range(len(rows)), [row["workload"] for row in rows], fontsize=7)
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.grid(axis="x", linewidth=0.3)
    axes.set_axisbelow(True)
    for edge in ("top", "right", "left"):
        axes.spines[edge].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("time of the best peer / ours, one thread (ticks: asked for)", fontsize=8)
    means = report.get("geometric_means", {})
    mean = f"; geometric mean of figures 5-7: {means['1']:.2f}" if "1" in means else ""
    machine = report["machine"]
    capability = f", {machine['capability']}" if "capability" in machine else ""
    axes.set_title(f"{machine['cpu']}{capability}{mean}", fontsize=9)
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=90, bbox_inches="tight")
    # A palette is a third of the size, for files that are kept with the project.
    Image.open(buffer).convert("RGB").quantize(32).save(path, optimize=True)


def main() -> None:
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else newest()
    path = source.with_suffix(".png")
    draw(json.loads(source.read_text()), path)
    print(f"saved {path}, {path.stat().st_size / 1024:.0f} KB")


if __name__ == "__main__":
    main()
