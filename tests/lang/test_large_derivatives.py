"""Derivatives of definitions with many statements, and of statements with many reads."""

from __future__ import annotations

import time

import pytest

import tensor_comprehensions as tc

#: One statement of a chain, and how many of its derivative's need a range of their own.
CHAINS = [("tanh({0}(i))", 0), ("{0}(i) * {0}(i + 1)", 1)]


@pytest.mark.parametrize(("step", "with_range"), CHAINS)
def test_many_statements_are_derived_in_time(step: str, with_range: int) -> None:
    """In proportion to their number: 200 took half a minute when it was in the square of it."""
    count = 200
    steps = "".join(f"  T{k}(i) = {step.format(f'T{k - 1}')}\n" for k in range(1, count + 1))
    text = f"def f(float(N) A) -> (T{count}) {{\n  T0(i) = A(i)\n{steps}}}"
    start = time.process_time()
    derivative = tc.grad_source(text, "f")
    assert time.process_time() - start < 5  # 0.3 are measured
    # Each is derived as by itself.
    assert derivative.count(" where ") == count * with_range
