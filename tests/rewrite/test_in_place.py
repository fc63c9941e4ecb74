"""Statements that overwrite what the statement before them wrote, element by element."""

from __future__ import annotations

import pytest
import torch
from exact import FLOATS
from workloads import floats

import tensor_comprehensions as tc

TEXT = """
def squares({0}(M, N) X) -> (T) {{
  T(i, j) = X(i, j)
  T(i, j) = T(i, j) * T(i, j) + 1
  T(i, j) = T(i, j) * T(i, j) - 2
}}
def scaled({0}(M, N) X, {0}(M) s) -> (T) {{
  T(i, j) = X(i, j)
  T(i, j) *= 2
  T(i, j) *= s(i)
}}
def chosen({0}(M, N) X, {0}(M) s) -> (T) {{
  T(i, j) = X(i, j)
  T(i, j) = T(i, j) > 0 ? T(i, j) - s(i) : T(i, j) + s(i)
  T(i, j) = T(i, j) > 0 ? T(i, j) - s(i) : T(i, j) + s(i)
}}
"""
DTYPES = {**FLOATS, "int32": torch.int32, "int16": torch.int16}


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("sizes", [(16, 2), (5, 16), (3, 40), (7, 1)], ids=str)
def test_updates_in_a_row(name: str, sizes: tuple[int, int]) -> None:
    """The second reads what the first wrote, not what was read before it."""
    t = tc.define(TEXT.format(name), namespace=f"tc_in_place_{name}")
    dtype = DTYPES[name]
    # Small integers: every operation is exact.
    x = (floats(*sizes) * 8).round().clamp(-3, 3).to(dtype)
    s = (floats(sizes[0]) * 8).round().clamp(-3, 3).to(dtype)

    wanted = x * x + 1
    assert torch.equal(t.squares(x), wanted * wanted - 2)
    assert torch.equal(t.scaled(x, s), x * 2 * s[:, None])
    wanted = x
    for _ in range(2):
        wanted = torch.where(wanted > 0, wanted - s[:, None], wanted + s[:, None])
    assert torch.equal(t.chosen(x, s), wanted)


def test_a_temporary_of_what_is_overwritten_elsewhere() -> None:
    """It keeps what was there: the result is written while it is read across."""
    text = """def f(float(N, N) B) -> (O) {
      O(i, j) = B(i, j) * 3
      T(i, j) = O(i, j) * 2
      O(i, j) = T(j, i) + 1
    }"""
    b = floats(9, 9)
    assert torch.equal(tc.define(text, namespace="tc_in_place_across").f(b), (b * 3 * 2).t() + 1)


def test_what_is_read_across_is_overwritten_afterwards() -> None:
    text = """def f(float(N) B) -> (X, Y) {
      X(i) = B(i) * 3
      Y(i) = X(N - 1 - i) + 1
      X(i) = B(i) * 5
    }"""
    b = floats(100)
    x, y = tc.define(text, namespace="tc_in_place_afterwards").f(b)
    assert torch.equal(x, b * 5) and torch.equal(y, (b * 3).flip(0) + 1)


def test_what_a_group_wrote_is_read_across_behind_it() -> None:
    """Not by the last statement of the group, but by one before it."""
    text = """def f(float(N) B) -> (X, Y, Z) {
      X(i) = B(i) * 3
      Y(i) = B(i) + 1
      Z(i) = X(N - 1 - i) + 2
    }"""
    b = floats(100)
    x, y, z = tc.define(text, namespace="tc_in_place_behind").f(b)
    assert torch.equal(x, b * 3) and torch.equal(y, b + 1)
    assert torch.equal(z, (b * 3).flip(0) + 2)
