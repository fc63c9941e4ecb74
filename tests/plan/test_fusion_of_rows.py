"""Which statements share a loop over rows (csrc/poly/fuse.h, the rule for rows): those that pass
over consecutive elements below it, of what is another row for every iteration."""

from __future__ import annotations

import re

import pytest
import torch

import tensor_comprehensions as tc

pytestmark = pytest.mark.usefixtures("described_machine")


def groups_of(text: str, *values: torch.Tensor) -> list[list[str]]:
    """The statements of every group, by the tensors that they write."""
    options = tc.MappingOptions().matchLibraryCalls(False)
    said = tc.compile(text, "f", options, *values).explain()
    parts = said.split("\ngroup ")[1:]
    return [re.findall(r"^  S\d+ +([\w.]+)\(", part, re.MULTILINE) for part in parts]


def test_passes_over_the_same_rows_are_together() -> None:
    text = """def f(float(N,M) A) -> (O) {
      S(n) +=! A(n, m)
      O(n, m) = A(n, m) / S(n)
    }"""
    assert groups_of(text, torch.rand(256, 1024)) == [["S", "O"]]


def test_a_matrix_is_not_written_by_columns_for_the_sake_of_a_vector() -> None:
    """V and what is made of it have n in common, below which O goes from row to row; x, which is
    consecutive there, is the same for all n."""
    text = """def f(float(M) x, float(N) y) -> (V, O) {
      V(n) = exp(y(n))
      O(m, n) = V(n) * x(m)
    }"""
    x, y = torch.rand(512), torch.rand(1024)
    assert groups_of(text, x, y) == [["V"], ["O"]]
    v, o = tc.define(text, namespace="tc_fusion_of_rows").f(x, y)
    torch.testing.assert_close(v, y.exp())
    torch.testing.assert_close(o, torch.outer(x, y.exp()))


def test_rows_of_either_operand_of_a_transposition() -> None:
    """What is read is consecutive, though what is written is not."""
    text = """def f(float(N,M) A) -> (S, O) {
      S(n) +=! A(n, m)
      O(m, n) = A(n, m) - S(n)
    }"""
    a = torch.rand(256, 1024)
    assert groups_of(text, a) == [["S", "O"]]
    s, o = tc.define(text, namespace="tc_fusion_of_transposed_rows").f(a)
    torch.testing.assert_close(o, (a - s[:, None]).T)


def test_what_all_rows_have_in_common_decides_where_nothing_else_does() -> None:
    """A sum over a table that every row weighs with one number."""
    text = """def f(float(N) w, float(K) t) -> (O, P) {
      O(n) +=! w(n) * t(k)
      P(n) max=! w(n) - t(k)
    }"""
    assert groups_of(text, torch.rand(256), torch.rand(1000)) == [["O", "P"]]
