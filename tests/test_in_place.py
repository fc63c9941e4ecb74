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
