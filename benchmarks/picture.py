"""Ratio bars of results of `paper.py`, one thread, on a logarithmic scale.

A bar to the right of 1 is faster than the best peer, one to the left slower. A dot is the ratio of
medians, a diamond the ratio where library calls are allowed, a tick the least that is asked for.

python benchmarks/picture.py [results.json]
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from command import comparison
from harness import Comparison
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullFormatter
from PIL import Image
from table import newest

FASTER, SLOWER, INK, LIBRARY = "#2a78b5", "#d1702f", "#202020", "#3f9a5a"


def library_ratio(c: Comparison) -> float | None:
    own = c.timings.get("ours, library")
    return c.timings[c.best].minimum / own.minimum if own else None


def draw(report: dict, path: Path) -> None:
    rows = [c for c in map(comparison, report["comparisons"]) if c.threads == 1]
    if not rows:
        sys.exit("no results with one thread")
    figure, axes = plt.subplots(figsize=(8.5, 1.6 + 0.19 * len(rows)))
    for k, row in enumerate(rows):
        color = FASTER if row.ratio >= 1 else SLOWER
        axes.barh(k, row.ratio - 1, left=1, height=0.7, color=color)
        axes.plot(row.ratio_of_medians, k, ".", color=INK, markersize=3)
        library = library_ratio(row)
        if library is not None:
            axes.plot(library, k, "D", color=LIBRARY, markersize=2.5)
        if row.target is not None:
            axes.plot([row.target] * 2, [k - 0.45, k + 0.45], color=INK, linewidth=1.2)
        # The number stands behind all marks.
        marks = [row.ratio, row.ratio_of_medians, row.target, library]
        marks = [mark for mark in marks if mark is not None]
        side = 1 if row.ratio >= 1 else -1
        axes.annotate(
            f"{row.ratio:.2f}",
            (max(marks) if side > 0 else min(marks), k),
            (4 * side, 0),
            textcoords="offset points",
            fontsize=6,
            va="center",
            ha="left" if side > 0 else "right",
        )
    axes.set_xscale("log")
    ratios = [row.ratio for row in rows]
    axes.set_xlim(min(*ratios, 0.5) / 1.4, max(*ratios, 4) * 1.4)
    ticks = [t for t in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4, 8, 16) if min(ratios) / 1.4 < t]
    axes.set_xticks([t for t in ticks if t < axes.get_xlim()[1]])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.axvline(1, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(rows)), [row.workload for row in rows], fontsize=7)
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.grid(axis="x", linewidth=0.3)
    axes.set_axisbelow(True)
    for edge in ("top", "right", "left"):
        axes.spines[edge].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("time of the best peer / ours, one thread, by minima", fontsize=8)
    axes.legend(
        handles=[
            Patch(color=FASTER, label="faster than the best peer"),
            Patch(color=SLOWER, label="slower"),
            Line2D([], [], color=INK, marker=".", linestyle="", label="by medians"),
            Line2D(
                *([], []),
                **{"color": LIBRARY, "marker": "D", "markersize": 4, "linestyle": ""},
                label="library calls allowed",
            ),
            Line2D([], [], color=INK, marker="|", markersize=8, linestyle="", label="asked for"),
        ],
        loc="lower left",
        fontsize=7,
    )
    machine = report["machine"]
    mean = report.get("geometric_means", {}).get("1", {}).get("minima")
    title = f"{machine['cpu']}, {machine['capability']}"
    axes.set_title(title + (f"; figures 5 to 7: {mean:.2f}" if mean else ""), fontsize=9)
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=90, bbox_inches="tight")
    # A palette is a third of the size, for files that are kept with the project.
    Image.open(buffer).convert("RGB").quantize(32).save(path, optimize=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("results", nargs="?", type=Path, help="a file of paper.py's")
    source = arguments.parse_args().results or newest()
    path = source.with_suffix(".png")
    draw(json.loads(source.read_text()), path)
    print(f"saved {path}, {path.stat().st_size / 1024:.0f} KB")


if __name__ == "__main__":
    main()
