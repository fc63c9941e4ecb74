"""What tuning finds beside the compiler's own Plan.

python benchmarks/tuning.py [PART OF A NAME ...] [--sets paper ops contractions]
                            [--efforts quick full] [--budget SECONDS] [--threads 1 2]

Every row is tuned afresh with each effort, the longest last. "ours" is what that found, the peer is
the compiler's own Plan, and the ratio is the gain; what shorter efforts found stands beside it. The
search times candidates in other processes and picks by minima: what counts is measured here again,
in turns. All efforts together bound a row's time: 100 rows with "full" take a day, so a budget may
stand for its ten minutes; the summary says how long the searches took. A run of some sets has a
file of its own, in which these are whole.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import command
import definitions
import torch
from cases import CASES
from harness import Candidate, Comparison, Row, Rows
from operators import FAMILIES, Values
from random_contractions import random_contraction

import tensor_comprehensions as tc
from tensor_comprehensions._tuning.config import EFFORTS

#: Asked: no row slower than so many times the compiler's own, and of the gain of the longest effort
#: what the shortest one finds.
WORST, RECOVERED = 1.02, 0.9
#: Of 100 random contractions, as `contractions.py` has them.
SEED, CONTRACTIONS = 4, 100
#: Candidates a second, compiled and measured on two cores, asked for of small kernels.
PER_SECOND = {"tbmm 500x26x72x26": 20, "MLP3": 20}

#: A text, the definition in it, and arguments.
Problem = Callable[[], tuple[str, str, Sequence[object]]]


def paper() -> Rows:
    for case in CASES:
        yield case.name, lambda case=case: (case.text, case.entry, case.inputs())


def ops() -> Rows:
    for family, cases in FAMILIES.items():
        for case in cases:

            def make(family: str = family, case: object = case) -> tuple:
                values = case.inputs(Values(torch.float32), *definitions.sizes(family, case))
                text = tc.ops.source(case.definition)
                return text, case.definition, definitions.scaled(values, family)

            yield f"ops: {case.definition}", make


def contractions() -> Rows:
    for number in range(CONTRACTIONS):

        def make(number: int = number) -> tuple:
            torch.manual_seed(number)
            contraction = random_contraction(SEED, number)
            return contraction.text(), "contraction", contraction.operands()

        yield f"contraction {number}: {random_contraction(SEED, number).name}", make


SETS = {"paper": paper, "ops": ops, "contractions": contractions}


def row(make: Problem, options: argparse.Namespace) -> Row:
    text, entry, inputs = make()
    found: dict[str, Candidate] = {}
    notes: dict[str, object] = {}
    for effort in options.efforts:
        config = tc.TunerConfig().effort(effort).seed(options.seed)
        if options.budget is not None and effort == options.efforts[-1]:
            config.budget_seconds(options.budget)
        tuner = tc.Tuner(text)
        best = tuner.tune(entry, inputs, None, config)
        (search,) = tuner.searches
        executor = tc.compile(text, entry, best, *inputs)
        found[effort] = partial(executor, *inputs)
        notes[effort] = {
            "seconds": search.seconds,
            "candidates": len(search.trials),
            "per_second": search.per_second(),
            "ratio": search.ratio,
            "counts": dict(search.counts()),
            "ended": search.ended,
            "is_own": search.best_plan == search.standard_plan,
        }
    own = tc.compile(text, entry, None, *inputs)
    *shorter, last = options.efforts
    return Row(
        found[last],
        lambda: {"default": partial(own, *inputs)},
        variants={effort: found[effort] for effort in shorter},
        tolerance=1e-3,
        notes=notes,
    )


def rows(options: argparse.Namespace) -> Rows:
    for name in options.sets:
        for title, make in SETS[name]():
            yield title, partial(row, make, options)


def gain(c: Comparison, candidate: str) -> float:
    return c.timings["default"].minimum / c.timings[candidate].minimum


def summary(comparisons: list[Comparison]) -> dict[str, object]:
    """Gains by number of threads; what the shortest effort finds of them; candidates a second."""
    report: dict[str, object] = {}
    for threads in sorted({c.threads for c in comparisons}):
        part = [c for c in comparisons if c.threads == threads]
        gains = [c.ratio for c in part]
        figures: dict[str, float] = {
            "rows": len(part),
            "gain": statistics.geometric_mean(gains),
            "least": min(gains),
            "faster": sum(g > 1.02 for g in gains),
        }
        efforts = [name for name in part[0].timings if name in EFFORTS]
        for effort in efforts:
            found = [gain(c, effort) for c in part]
            figures[f"gain of {effort}"] = statistics.geometric_mean(found)
        report[str(threads)] = figures
        # Where nothing better was found, the same code was measured twice.
        others = [c.ratio for c in part if not list(c.notes.values())[-1]["is_own"]]
        figures["other Plans"] = len(others)
        figures["least of other Plans"] = min(others, default=1.0)
        print(
            f"{threads} thread(s), {len(part)} rows: {figures['gain']:.3f} times as fast "
            f"(geometric mean), {figures['faster']} by more than 2 %; the least {min(gains):.3f}, "
            f"of {len(others)} with another Plan {figures['least of other Plans']:.3f}, "
            f"asked {1 / WORST:.3f}"
        )
        if efforts and figures["gain"] > 1:
            share = (figures[f"gain of {efforts[0]}"] - 1) / (figures["gain"] - 1)
            figures["recovered"] = share
            print(f"  of that {share:.0%} by {efforts[0]}, asked {RECOVERED:.0%}")
        for effort in part[0].notes:
            rates = [c.notes[effort]["per_second"] for c in part]
            seconds = [c.notes[effort]["seconds"] for c in part]
            print(
                f"  {effort}: {statistics.median(rates):.1f} candidates a second (median), "
                f"{statistics.median(seconds):.1f} s"
            )
            for c in part:
                if c.workload in PER_SECOND:
                    print(
                        f"  {effort}, {c.workload}: {c.notes[effort]['per_second']:.1f} candidates "
                        f"a second, asked {PER_SECOND[c.workload]}"
                    )
    return {"summary": report}


def picture(comparisons: list[Comparison], path: Path) -> None:
    """Gains, the largest first, a line for each number of threads and effort."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for threads in sorted({c.threads for c in comparisons}):
        part = [c for c in comparisons if c.threads == threads]
        efforts = [name for name in part[0].timings if name != "default"]
        for effort in efforts:
            last = list(part[0].notes)[-1]
            gains = sorted((gain(c, effort) for c in part), reverse=True)
            label = f"{last if effort == 'ours' else effort}, {threads} thread(s)"
            axes.step(range(len(gains)), gains, where="mid", label=label)
    axes.axhline(1, color="gray", linestyle="--", linewidth=1)
    axes.set_yscale("log")
    axes.set_xlabel("rows, by gain")
    axes.set_ylabel("time of the compiler's own Plan / tuned")
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=110)


def arguments() -> argparse.ArgumentParser:
    parser = command.parser(__doc__, threads=(1, 2))
    parser.set_defaults(round_seconds=0.4)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--efforts", nargs="+", choices=EFFORTS, default=["quick", "full"])
    parser.add_argument("--budget", type=float, help="seconds of the searches with the last effort")
    parser.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    chosen = arguments().parse_args().sets
    name = "tuning" if set(chosen) == set(SETS) else "_".join(["tuning", *sorted(chosen)])
    command.main(name, rows, arguments(), summary, picture=picture)
