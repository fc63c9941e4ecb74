"""What make test runs of a product of parameters covers it."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path

import pytest
from sampling import of_part, sample


@pytest.mark.parametrize("sizes", [(3, 39), (4, 3, 6), (2, 2), (5, 5, 2, 3)], ids=str)
def test_combinations_of_all_parameters_but_one(sizes: tuple[int, ...]) -> None:
    points = list(itertools.product(*map(range, sizes)))
    chosen = [points[k] for k in sample(points, None)]
    for left_out in range(len(sizes)):
        kept = [size for k, size in enumerate(sizes) if k != left_out]
        seen = {point[:left_out] + point[left_out + 1 :] for point in chosen}
        assert len(seen) == math.prod(kept)
    # A perfect cover has as many as the largest of these; a greedy one some more.
    assert len(chosen) <= 1.5 * max(math.prod(sizes) // size for size in sizes)


def test_values_that_occur_together_only() -> None:
    """As where some combinations are left out: those that there are, are covered."""
    rng = random.Random(3)
    points = [p for p in itertools.product("abcd", range(5), range(3)) if rng.random() < 0.6]
    chosen = [points[k] for k in sample(points, None)]
    assert len(chosen) < len(points)
    for a, b in itertools.combinations(range(3), 2):
        assert {(p[a], p[b]) for p in chosen} == {(p[a], p[b]) for p in points}


def test_parameters_with_one_value_do_not_count() -> None:
    points = [(k, 0, j) for k in range(4) for j in range(3)]
    assert len(sample(points, None)) == 4


def test_one_of_so_many() -> None:
    points = [(k,) for k in range(10)]
    assert sample(points, 3) == [0, 3, 6, 9]
    with pytest.raises(ValueError, match=r"one parameter has no combinations"):
        sample(points, None)


HOOKS = "pytest_addoption, pytest_collection_modifyitems"


def with_our_conftest(pytester: pytest.Pytester, test_it: str) -> None:
    pytester.makeconftest(f"from conftest_of_all import {HOOKS}")
    conftest_of_all = (Path(__file__).parents[1] / "conftest.py").read_text()
    pytester.makepyfile(conftest_of_all=conftest_of_all, test_it=test_it)
    pytester.makeini("[pytest]\nmarkers =\n  sampled\n  slow")


def test_cases_that_are_left_out_are_slow(pytester: pytest.Pytester) -> None:
    with_our_conftest(
        pytester,
        """
        import pytest
        @pytest.mark.sampled
        @pytest.mark.parametrize(("a", "b"), [(1, 2), (3, 4), (5, 6)])
        @pytest.mark.parametrize("c", range(4))
        def test_product(a, b, c): pass
        @pytest.mark.sampled(every=2)
        @pytest.mark.parametrize("c", range(5))
        def test_line(c): pass
        def test_other(): pass
        """,
    )
    pytester.runpytest("-m", "not slow").assert_outcomes(passed=4 + 3 + 1, deselected=8 + 2)
    pytester.runpytest().assert_outcomes(passed=12 + 5 + 1)


def test_parts_share_the_slow_cases_out() -> None:
    names = [f"tests/a_test.py::test_sum[{k}]" for k in range(3000)]
    parts = [of_part(names, f"{k}/3") for k in (1, 2, 3)]
    assert set().union(*parts) == set(names)
    assert sum(map(len, parts)) == len(names)
    assert all(900 <= len(part) <= 1100 for part in parts)
    assert of_part(names[1000:], "2/3") == parts[1] & set(names[1000:])


@pytest.mark.parametrize("part", ["0/3", "4/3", "2", "2/0", "a/b", "-1/3"])
def test_parts_that_there_are_not(part: str) -> None:
    with pytest.raises(ValueError, match="is not K/N with K from 1 to N"):
        of_part(["a"], part)


def test_quick_cases_are_in_every_part(pytester: pytest.Pytester) -> None:
    with_our_conftest(
        pytester,
        """
        import pytest
        @pytest.mark.parametrize("k", range(4))
        def test_quick(k): pass
        @pytest.mark.slow
        @pytest.mark.parametrize("k", range(30))
        def test_slow(k): pass
        """,
    )
    parts = [pytester.runpytest("--slow-part", f"{k}/2").parseoutcomes() for k in (1, 2)]
    assert sum(part["passed"] for part in parts) == 4 + 30 + 4
    assert all(part["passed"] > 4 and part["passed"] + part["deselected"] == 34 for part in parts)
    assert pytester.runpytest("--slow-part", "3/2").ret == pytest.ExitCode.USAGE_ERROR
