"""The model of cycles beside the clock: 200 random contractions on one thread.

A row is the time of a call, less that of a call with sizes of 1, in cycles of the clock that is
measured in turns with it, over what `Executor.explain()` estimates. The table has the rows that are
farthest from 1, with the estimate's parts; a picture lies beside the file of results.

With `--plans 6` each contraction also runs by so many other Plans, which differ from the compiler's
own in up to three fields: what a model says of Plans that it would not choose decides what it
chooses.

python benchmarks/model.py [part of a name ...] [--count 200] [--seed 4] [--plans 0]
"""

from __future__ import annotations

import argparse
import random
import re
from functools import partial
from pathlib import Path

import command
import numpy as np
import torch
from harness import Candidate, Comparison, Row, Rows
from random_contractions import Contraction, random_contraction

import tensor_comprehensions as tc
from tensor_comprehensions import _torch
from tensor_comprehensions._tuning.problem import Problem

#: What is asked for: the share of the rows between these ratios, and the rank correlation.
LEAST, MOST, SHARE, CORRELATION = 0.8, 1.3, 0.98, 0.98
CYCLES = 1 << 17
#: Other Plans are estimated to take no more than so many times the compiler's own.
SLOWEST = 3
#: Draws of one that can run.
DRAWS = 500
UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
SHOWN = 20


def parts_of(explained: str) -> dict[str, float]:
    """Cycles by part, of all groups."""
    parts: dict[str, float] = {}
    for line in re.findall(r"^  estimate +[\d.]+ ?[kMG]? cycles: (.*)$", explained, re.M):
        for number, unit, name in re.findall(r"([\d.]+) ?([kMG]?) ([a-z ]+)", line):
            parts[name] = parts.get(name, 0) + float(number) * UNITS[unit]
    return parts


def estimate_of(explained: str) -> float:
    found = re.findall(r"^  estimate +([\d.]+) ?([kMG]?) cycles", explained, re.M)
    assert found, explained
    return sum(float(number) * UNITS[unit] for number, unit in found)


def plain() -> tc.MappingOptions:
    return tc.MappingOptions().matchLibraryCalls(False)


def executor(
    text: str, *operands: torch.Tensor, options: tc.MappingOptions | None = None
) -> tc.Executor:
    return tc.compile(text, "contraction", options or plain(), *operands)


def space_of(problem: Problem, first: _torch.Options) -> _torch.Space:
    """Plans of a contraction; the given one is its candidate 0."""
    return _torch.Space(
        *(problem.definition, problem.options(), problem.target, problem.inputs),
        *(problem.given_outputs(), first),
    )


def estimated_cycles(candidate: _torch.Candidate) -> float:
    """The sum of the estimate's parts, which are a candidate's first features."""
    return sum(candidate.features[: _torch.feature_names().index("cycles on all threads")])


def other_plan(own: tc.Executor, text: str, operands: list[torch.Tensor], seed: int) -> str:
    """One that the compiler would not choose, and that can run."""
    problem = Problem(text, "contraction", operands, plain())
    space = space_of(problem, _torch.Options.parse(str(own.options)))
    draws = random.Random(seed)
    first = space.candidate(0)
    for _ in range(DRAWS):
        candidate = first
        for _ in range(draws.choice((1, 1, 2, 3))):
            candidate = space.mutate(candidate.index, draws.getrandbits(60))
        runs = candidate.reason is None and candidate.index != first.index
        if runs and estimated_cycles(candidate) < SLOWEST * estimated_cycles(first):
            return candidate.options
    raise RuntimeError(f"none of {DRAWS} other Plans runs {text}; leave this contraction out")


def call_of_nothing(contraction: Contraction) -> Candidate:
    """The same definition with sizes of 1."""
    ones = [torch.randn([1] * t.dim()) for t in contraction.operands()]
    smallest = executor(contraction.text(), *ones)
    return lambda: smallest(*ones)


def row(number: int, contraction: Contraction, plan: int) -> Row:
    torch.manual_seed(number)
    x, y = contraction.operands()
    own = executor(contraction.text(), x, y)
    if plan:
        other = other_plan(own, contraction.text(), [x, y], 1000 * number + plan)
        own = executor(contraction.text(), x, y, options=tc.MappingOptions.parse(other))
    explained = own.explain()
    form = re.search(r"^  form +(.*)$", explained, re.M)
    return Row(
        lambda: own(x, y),
        unrelated={
            "call": call_of_nothing(contraction),
            "clock": lambda: _torch.spend_cycles(CYCLES),
        },
        notes={
            "estimate": estimate_of(explained),
            "parts": parts_of(explained),
            "form": form[1] if form else "",
            "own": not plan,
            "plan": str(own.options),
        },
    )


def rows(options: argparse.Namespace) -> Rows:
    for number in range(options.count):
        contraction = random_contraction(options.seed, number)
        for plan in range(1 + options.plans):
            name = f"{number}.{plan}" if plan else str(number)
            yield f"{name}: {contraction.name}", partial(row, number, contraction, plan)


def measured_cycles(c: Comparison) -> float:
    seconds = c.timings["ours"].minimum - c.timings["call"].minimum
    return seconds / (c.timings["clock"].minimum / CYCLES)


def ranks(values: list[float]) -> np.ndarray:
    return np.argsort(np.argsort(np.array(values))).astype(float)


def rank_correlation(a: list[float], b: list[float]) -> float:
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def statistics_of(comparisons: list[Comparison]) -> tuple[np.ndarray, dict[str, object]]:
    """Measured over estimated cycles, and how they are spread."""
    measured = [measured_cycles(c) for c in comparisons]
    estimated = [float(c.notes["estimate"]) for c in comparisons]
    ratios = np.array(measured) / np.array(estimated)
    share = float(np.mean((ratios >= LEAST) & (ratios <= MOST)))
    correlation = rank_correlation(measured, estimated)
    percentiles = {str(p): float(np.percentile(ratios, p)) for p in (0, 1, 5, 50, 95, 99, 100)}
    print(f"measured over estimated cycles, percentiles: {percentiles}")
    print(f"{share:.1%} between {LEAST} and {MOST}, asked {SHARE:.0%}")
    print(f"rank correlation {correlation:.4f}, asked {CORRELATION}")
    found = {"within": share, "rank_correlation": correlation, "percentiles": percentiles}
    return ratios, found


def other_plans(comparisons: list[Comparison]) -> dict[str, object]:
    """Of other Plans than the compiler's own, by their ratios over that of the own one: the
    processor's own speed, and what else all Plans of a contraction share, drop out."""
    ratios, found = statistics_of(comparisons)
    plans = [
        (re.match(r"\d+", c.workload)[0], ratio, c.notes["own"])
        for ratio, c in zip(ratios, comparisons, strict=True)
    ]
    owns = {number: ratio for number, ratio, own in plans if own}
    relative = np.array(
        [ratio / owns[number] for number, ratio, own in plans if not own and number in owns]
    )
    found["within_of_own"] = float(np.mean((relative >= LEAST) & (relative <= MOST)))
    print(f"beside the own Plan {found['within_of_own']:.1%} between {LEAST} and {MOST}")
    return found


def summary(comparisons: list[Comparison]) -> dict[str, object]:
    own = [c for c in comparisons if c.notes["own"]]
    ratios, found = statistics_of(own)
    for k in np.argsort(-np.abs(np.log(ratios)))[:SHOWN]:
        c = own[k]
        parts = ", ".join(f"{name} {value:.2g}" for name, value in c.notes["parts"].items())
        measured = measured_cycles(c)
        print(f"  {ratios[k]:5.2f}  {measured:9.3g} measured; {parts}\n         {c.workload}")
    if len(own) == len(comparisons):
        return {"summary": found}
    print("all Plans")
    return {"summary": found, "all_plans": other_plans(comparisons)}


def draw(comparisons: list[Comparison], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    estimated = np.array([float(c.notes["estimate"]) for c in comparisons])
    measured = np.array([measured_cycles(c) for c in comparisons])
    largest = [max(c.notes["parts"], key=c.notes["parts"].get) for c in comparisons]
    figure, axes = plt.subplots(figsize=(6, 5.5))
    ends = np.array([min(estimated.min(), measured.min()), max(estimated.max(), measured.max())])
    axes.fill_between(ends, LEAST * ends, MOST * ends, color="#e4ecf2", label="0.8 to 1.3")
    for name in sorted(set(largest)):
        own = np.array([part == name for part in largest])
        axes.plot(estimated[own], measured[own], ".", markersize=5, label=f"mostly {name}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("cycles by the model")
    axes.set_ylabel("cycles measured")
    axes.legend(fontsize=7)
    axes.set_title("random contractions, one thread", fontsize=9)
    figure.savefig(path, dpi=90, bbox_inches="tight")


def arguments() -> argparse.ArgumentParser:
    parser = command.parser(__doc__, rounds=5)
    parser.set_defaults(round_seconds=0.05)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--plans", type=int, default=0, help="others of each contraction")
    return parser


if __name__ == "__main__":
    plans = arguments().parse_args().plans
    command.main(
        *("model_plans" if plans else "model", rows, arguments(), summary),
        partial=lambda options: (options.count, options.seed) != (200, 4),
        picture=draw,
    )
