"""Integers at the ends of their types, compiled and interpreted.

Values wrap around. Subscripts and ranges do not: they are right, or the program is refused, in
words about the bits that it would take. TC_FUZZ_COUNT sets how many programs (300 by default),
TC_FUZZ_SEED the first seed.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from cases import Case, compare
from random_integers import SIZE, make_differentiable_text, make_integer_case

import tensor_comprehensions as tc
from tensor_comprehensions import reference

COUNT = int(os.environ.get("TC_FUZZ_COUNT", "300"))
FIRST = int(os.environ.get("TC_FUZZ_SEED", "0"))
BATCH = 50
# What the compiler may refuse although a computer with more bits could do it.
TOO_WIDE = re.compile(r"\b(32|64) bits|does not fit|beyond the largest")


def check(case: Case) -> str:
    """ "ran", "refused", or "too wide"; an AssertionError where the two disagree."""
    try:
        wanted, bounds = case.wanted()
    except (tc.LanguageError, tc.ShapeError) as refusal:
        for options in case.options:
            with pytest.raises((tc.LanguageError, tc.ShapeError)):
                print(f"{case}\nthe interpreter refuses: {refusal}")
                case.actual(options)
        return "refused"
    for options in case.options:
        try:
            actual = case.actual(options)
        except (tc.LanguageError, tc.ShapeError) as error:
            assert TOO_WIDE.search(str(error)), f"{case}\n{type(error).__name__}: {error}"
            return "too wide"
        except tc.TCError as error:
            raise AssertionError(f"{case}\n{type(error).__name__}: {error}") from error
        for k, (a, w, bound) in enumerate(zip(actual, wanted, bounds, strict=True)):
            try:
                compare(a, w, bound, f"options {options}, result {k}")
            except AssertionError as error:
                raise AssertionError(f"{error}\n{case}\n{a}\n{w}") from error
    return "ran"


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_random_integers(first: int) -> None:
    seeds = range(first, min(first + BATCH, FIRST + COUNT))
    results = [check(make_integer_case(seed)) for seed in seeds]
    counts = {result: results.count(result) for result in results}
    print(f"seeds from {first}: {counts}")
    # Programs that are refused test little.
    assert counts.get("ran", 0) >= 0.6 * len(seeds)
    assert counts.get("too wide", 0) <= 0.2 * len(seeds)


def check_derivative(text: str) -> str:
    """As `check`, of the gradient that the compiler writes, against differences."""
    a = torch.arange(float(SIZE), dtype=torch.float64).requires_grad_()
    try:
        reference.run(text, "f", a.detach())
    except (tc.LanguageError, tc.ShapeError):
        return "refused"
    try:
        result = tc.make_autograd(tc.define(text, namespace="tc_fuzz_derivatives").f)(a)
        given = torch.arange(1.0, 1 + result.numel(), dtype=torch.float64).reshape(result.shape)
        (actual,) = torch.autograd.grad(result, a, given)
    except (tc.LanguageError, tc.ShapeError) as error:
        assert TOO_WIDE.search(str(error)), f"{text}\n{type(error).__name__}: {error}"
        return "too wide"
    wanted = torch.zeros(SIZE, dtype=torch.float64)
    for k in range(SIZE):
        step = torch.zeros(SIZE, dtype=torch.float64)
        step[k] = 0.5
        after, before = (reference.run(text, "f", a.detach() + sign * step) for sign in (1, -1))
        wanted[k] = (torch.as_tensor(after - before) * given).sum()
    torch.testing.assert_close(actual, wanted, rtol=1e-9, atol=1e-6, msg=lambda m: f"{text}\n{m}")
    return "ran"


@pytest.mark.parametrize("first", range(FIRST, FIRST + max(1, COUNT // 3), BATCH))
def test_derivatives_of_random_integers(first: int) -> None:
    results = [check_derivative(make_differentiable_text(first + k)) for k in range(BATCH)]
    counts = {result: results.count(result) for result in results}
    print(f"seeds from {first}: {counts}")
    assert counts.get("ran", 0) >= 0.6 * BATCH
