"""Kernels that take long: how often a search runs them."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from tensor_comprehensions._tuning.session import last_comparison
from tensor_comprehensions._tuning.worker import shortest_at_first

BUDGETS = [2.0, 8.0, 60.0, 600.0, math.inf]
RUNS = [0.0, 1e-6, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.5, 1.6, 10.0, 100.0]


def runs_of(seconds: list[float]) -> tuple[Callable[[], float], list[float]]:
    """A kernel whose runs take so long, the last one again and again; the runs that were made."""
    made: list[float] = []

    def run() -> float:
        made.append(seconds[min(len(made), len(seconds) - 1)])
        return made[-1]

    return run, made


def first_runs(seconds: list[float], best: float) -> tuple[float, float]:
    """What a candidate is judged by, and the time that its runs took."""
    run, made = runs_of(seconds)
    shortest = shortest_at_first(run(), run, 4 * best + 3e-4, best)
    assert shortest == min(made)
    return shortest, sum(made)


@pytest.mark.parametrize("best", [1e-5, 1e-3, 0.03, 1.0])
@pytest.mark.parametrize("ratio", [1.0, 3.0, 5.0, 9.0, 16.0, 200.0])
def test_slow_candidates_are_left_soon(best: float, ratio: float) -> None:
    """One of 16 times the best is not run 150 times as long."""
    seconds = ratio * best
    _, spent = first_runs([seconds], best)
    assert spent <= max(2 * seconds, 0.05 + seconds)
    if ratio <= 4 or seconds >= max(0.05, 10 * best):
        assert spent == seconds  # one run


def test_a_first_run_that_makes_plans_does_not_count() -> None:
    for best in (1e-5, 1e-3, 5e-3):
        assert first_runs([0.04, best], best)[0] == best
    # Threads of a kernel that takes long wait for others.
    assert first_runs([6.0, 1.1], 1.0) == (1.1, 7.1)
    # They may wait more than once where that takes no time.
    assert first_runs([2e-3, 2e-3, 2e-3, 1e-5], 1e-5)[0] == 1e-5


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("run", RUNS)
def test_the_last_comparison_has_a_share_of_the_budget(run: float, budget: float) -> None:
    for count in (1, 2, 4, 30):
        candidates, rounds, places = last_comparison(run, count, budget)
        assert 1 <= candidates <= min(count, 4) and 1 <= rounds <= 24 and 1 <= places <= 2
        runs = (1 + candidates) * (1 + rounds) * places
        # What there has to be: the candidate and the compiler's own, each once more.
        assert runs * run <= 0.25 * budget or (candidates, rounds, places) == (1, 1, 1)
        # Those that are left are compared just so.
        assert last_comparison(run, candidates, budget)[0] == candidates


def test_the_last_comparison_of_short_kernels_is_whole() -> None:
    assert last_comparison(1e-4, 9, 8.0) == (4, 24, 2)
    assert last_comparison(0.01, 9, 60.0) == (4, 24, 2)
    assert last_comparison(0.1, 9, math.inf) == (4, 4, 2)
    # Of longer ones: fewer rounds, then fewer candidates, then one place.
    assert last_comparison(0.1, 9, 8.0) == (2, 2, 2)
    assert last_comparison(1.6, 9, 4.0) == (1, 1, 1)
