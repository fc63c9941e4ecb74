"""The README's table of speeds, made of a file that `paper.py` kept.

python benchmarks/table.py [results.json] [--readme]

It is printed, or written into README.md together with the name of the picture.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from pathlib import Path

from command import RESULTS, comparison
from harness import Comparison
from machine import ROOT

README = ROOT / "README.md"
BEGIN, END = "<!-- speed: {} -->", "<!-- end of speed -->"
MARKED = re.compile(r"<!-- speed: (\S+) -->\n(.*)<!-- end of speed -->\n", re.DOTALL)


def newest(name: str = "paper") -> Path:
    found = sorted(RESULTS.glob(f"????-??-??-{name}-*.json"))
    if not found:
        raise SystemExit(f"no results: run benchmarks/{name}.py first")
    return found[-1]


def microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f}" if seconds >= 99.5e-6 else f"{seconds * 1e6:.1f}"


def markdown(report: dict, picture: str) -> str:
    """What stands between the marks."""
    rows = [comparison(c) for c in report["comparisons"]]
    one = {c.workload: c for c in rows if c.threads == 1}
    two = {c.workload: c for c in rows if c.threads == 2}
    machine = report["machine"]
    caches = ", ".join(f"{level} {size}" for level, size in machine["caches"].items())

    def summary(found: list[Comparison]) -> str:
        minima = statistics.geometric_mean([c.ratio for c in found])
        medians = statistics.geometric_mean([c.ratio_of_medians for c in found])
        return f"{minima:.2f} by minima, {medians:.2f} by medians"

    lines = [
        f"{machine['cpu']}, family {machine.get('cpu family', '?')}, {machine['capability']}; "
        f"{caches}; PyTorch {machine['torch']}.",
        "Microseconds of the fastest call on one thread, and how many times as long the best peer",
        "takes, by minima and by medians; on two threads by minima.",
        "",
        "| | ours | best peer | | minima | medians | two threads |",
        "|---|--:|--:|---|--:|--:|--:|",
    ]
    for name, c in one.items():
        if not is_shown(c):
            continue
        ours, peer = c.timings["ours"].minimum, c.timings[c.best].minimum
        other = f"{two[name].ratio:.2f}" if name in two else ""
        lines.append(
            f"| {name} | {microseconds(ours)} | {microseconds(peer)} | {c.best} | "
            f"{c.ratio:.2f} | {c.ratio_of_medians:.2f} | {other} |"
        )
    figures = [c for c in one.values() if c.notes["figure"]]
    slower = sorted((c for c in one.values() if c.ratio < 1), key=lambda c: c.ratio)
    lines += [
        "",
        f"Geometric mean of the {len(figures)} workloads of the paper's figures: "
        f"{summary(figures)}; of all {len(one)} rows: {summary(list(one.values()))}.",
    ]
    if slower:
        lines.append(
            f"Slower than the best peer are {len(slower)} of them: "
            + ", ".join(f"{c.workload} ({c.ratio:.2f})" for c in slower)
            + "."
        )
    lines += ["", f"![Time of the best peer over ours, one thread]({picture})"]
    return "\n".join(lines) + "\n"


def is_shown(c: Comparison) -> bool:
    """Convolutions of ResNet-50, three rows a layer, are in the picture only."""
    return not any(word in c.workload for word in ("convolution ", "gradient "))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", nargs="?", type=Path)
    parser.add_argument("--readme", action="store_true")
    options = parser.parse_args()
    source = (options.results or newest()).resolve()
    relative = source.relative_to(ROOT)
    text = markdown(json.loads(source.read_text()), str(relative.with_suffix(".png")))
    if not options.readme:
        print(text)
        return
    block = f"{BEGIN.format(relative)}\n{text}{END}\n"
    README.write_text(MARKED.sub(lambda _: block, README.read_text()))


if __name__ == "__main__":
    main()
