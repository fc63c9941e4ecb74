"""Facts of a processor, fitted to measured Plans.

python benchmarks/model.py --plans 4                   # on an idle machine; saves measured Plans
python benchmarks/calibrate.py RESULTS.json [--seconds 600]

Costs that no small kernel shows alone (a line that hides behind arithmetic, what begins a block)
are searched for: each fact in turn is multiplied by a step and kept where that brings the estimates
of all Plans in the file nearer to what they took. After each round over the facts they are printed
as TC_MACHINE takes them, in the end those that changed as `csrc/machine/processors.cpp` has them.
No round begins after the given seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from pathlib import Path

import numpy as np
from command import comparison
from model import LEAST, MOST, estimated_cycles, measured_cycles, plain, space_of
from random_contractions import random_contraction

from tensor_comprehensions import _torch
from tensor_comprehensions._tuning.problem import Problem

#: What is fitted, with the least and most that make sense.
FACTS = {
    "second_cache_percent": (20, 250),
    "walked_line_percent": (5, 100),
    "spread_line_percent": (5, 150),
    "last_cache_rate": (2, 60),
    "task_cycles": (20, 400),
    "block_cycles": (5, 200),
    "loop_cycles": (2, 50),
    "spilled_vector_cycles": (0.5, 8),
    "copied_element_cycles": (0.4, 8),
    "copied_vector_cycles": (1, 20),
    "transposed_row_cycles": (0.5, 8),
    "transposed_store_cycles": (0.3, 4),
    "scattered_store_cycles": (0.5, 8),
    "far_store_cycles": (2, 60),
    "lanes_sum_cycles": (1, 16),
    "strided_lane_cycles": (0.4, 2),
    "gathered_lane_cycles": (0.4, 2),
}
STEPS = (1.5, 1.3, 1.15)
#: A Plan that the compiler would not choose counts half, and none more than a factor of e.
OTHER, FARTHEST = 0.5, 1.0
#: What a step has to gain.
GAIN = 1e-4


class Measured:
    """Plans of random contractions with the cycles that each took."""

    def __init__(self, path: Path, seed: int) -> None:
        problems: dict[int, Problem] = {}
        self._plans = []
        cycles, own = [], []
        for found in json.loads(path.read_text())["comparisons"]:
            c = comparison(found)
            number = int(re.match(r"\d+", c.workload)[0])
            if number not in problems:
                contraction = random_contraction(seed, number)
                problems[number] = Problem(
                    contraction.text(), "contraction", contraction.operands(), plain()
                )
            self._plans.append((problems[number], _torch.Options.parse(c.notes["plan"])))
            cycles.append(measured_cycles(c))
            own.append(c.notes["own"])
        self._cycles = np.array(cycles)
        self._own = np.array(own)

    def ratios(self, facts: dict[str, float]) -> np.ndarray:
        """Measured over estimated cycles; NaN where a Plan cannot be with such facts."""
        os.environ["TC_MACHINE"] = text(facts)
        estimated = [
            estimated_cycles(space_of(problem, plan).candidate(0)) or float("nan")
            for problem, plan in self._plans
        ]
        return self._cycles / np.array(estimated)

    def distance(self, facts: dict[str, float]) -> float:
        """How far estimates are off, and how far beyond what is asked of them."""
        misses = np.nan_to_num(np.log(self.ratios(facts)))
        beyond = np.maximum(np.log(LEAST) - misses, 0) + np.maximum(misses - np.log(MOST), 0)
        cost = np.minimum(np.abs(misses), FARTHEST) / 2 + 2 * np.minimum(beyond, FARTHEST)
        return float(np.average(cost, weights=np.where(self._own, 1, OTHER)))

    def report(self, facts: dict[str, float]) -> str:
        ratios = self.ratios(facts)
        within = (ratios >= LEAST) & (ratios <= MOST)
        return (
            f"{within[self._own].mean():.1%} of the compiler's own Plans and {within.mean():.1%} "
            f"of all between {LEAST} and {MOST}, median {np.nanmedian(ratios):.2f}"
        )


def text(facts: dict[str, float]) -> str:
    return ",".join(f"{name}={value:g}" for name, value in facts.items())


def rounded(value: float) -> float:
    """As facts are given: whole numbers, or some hundredths."""
    return float(round(value) if value >= 10 else round(value, 2))


def assumed() -> dict[str, float]:
    """What is known of this processor, or assumed."""
    found = dict(re.findall(r"^(\w+)\t([\d.]+)\t", _torch.machine_facts(False), re.M))
    return {name: float(found[name]) for name in FACTS}


def descend(
    measured: Measured, facts: dict[str, float], best: float, name: str, factor: float
) -> tuple[dict[str, float], float]:
    """Multiplies one fact as long as that gains; the facts, and how far they are off."""
    least, most = FACTS[name]
    while True:
        value = rounded(facts[name] * factor)
        if not least <= value <= most or value == facts[name]:
            return facts, best
        found = measured.distance(facts | {name: value})
        if found > best - GAIN:
            return facts, best
        facts, best = facts | {name: value}, found


def fit(measured: Measured, facts: dict[str, float], seconds: float) -> dict[str, float]:
    """Descends fact by fact, by smaller and smaller steps."""
    best, end = measured.distance(facts), time.monotonic() + seconds
    for step in STEPS:
        before = float("inf")
        while best < before and time.monotonic() < end:
            before = best
            for name in FACTS:
                for factor in (step, 1 / step):
                    facts, best = descend(measured, facts, best, name, factor)
            print(f"steps of {step}: {measured.report(facts)}\n  {text(facts)}", flush=True)
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="a file of `model.py --plans`")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=4, help="of the contractions in the file")
    options = parser.parse_args()
    measured = Measured(options.results, options.seed)
    before = assumed()
    print(f"as it is: {measured.report(before)}")
    after = fit(measured, before, options.seconds)
    for name, value in after.items():
        if value != before[name]:
            print(f'{{"{name}", {value:g}}},')


if __name__ == "__main__":
    main()
