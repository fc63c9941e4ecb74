"""Calls that leave out the look at indices that are data: no check is made, before or in loops."""

from __future__ import annotations

import re

import pytest
import torch
from fenced import fenced

import tensor_comprehensions as tc

GATHER = "def gather(float(E, D) T, int32(B) I) -> (O) { O(b, d) = T(I(b), d) }"


def test_unchecked_rows() -> None:
    table, index = torch.randn(10, 19), torch.tensor([1, 9], dtype=torch.int32)
    gather = tc.define(GATHER, namespace="tc_unchecked").gather
    assert torch.equal(gather(table, index, unchecked=True), table[[1, 9]])
    # Inside of the memory behind the table, so that reading it is harmless here.
    with pytest.raises(tc.ShapeError):
        gather(table[:5], index)
    assert torch.equal(gather(table[:5], index, unchecked=True), table[[1, 9]])
    with pytest.raises(tc.ShapeError):
        gather(table[:5], index)
    executor = tc.compile(GATHER, "gather", None, table[:5], index)
    assert torch.equal(executor(table[:5], index, unchecked=True), table[[1, 9]])
    out = torch.empty(2, 19)
    executor(table[:5], index, outputs=(out,), unchecked=True)
    assert torch.equal(out, table[[1, 9]])
    with pytest.raises(tc.ShapeError):
        executor(table[:5], index)


def behind(size: int, more: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A vector of some numbers, and one whose memory has more behind it: those are harmless."""
    whole = torch.arange(float(size + more))
    return whole, whole[:size]


#: Where the loops would look at an index, and what the index leads to without a look.
UNCHECKED = {
    "elements": (
        "def take(float(N) X, int64(A, B) I) -> (O) { O(a, b) = X(I(a, b)) }",
        (torch.randint(0, 120, (70, 80)),),
        lambda x, i: x[i],
    ),
    "windows": (
        "def windows(float(N) X, int32(B) I) -> (O) { O(b, j) = X(I(b) + j) where j in 0:4 }",
        (torch.randint(0, 117, (5000,), dtype=torch.int32),),
        lambda x, i: x[i.long()[:, None] + torch.arange(4)],
    ),
    "computed": (
        "def computed(float(N) X, int32(A, B) I) -> (O) { O(a, b) = X((I(a, b) * 7 + 3) / 9) }",
        (torch.randint(0, 150, (70, 80), dtype=torch.int32),),
        lambda x, i: x[(i.long() * 7 + 3) // 9],
    ),
    "indices of indices": (
        "def nested(float(N) X, int32(P) J, int32(A, B) I) -> (O) { O(a, b) = X(J(I(a, b))) }",
        (
            torch.randint(0, 120, (50,), dtype=torch.int32),
            torch.randint(0, 50, (70, 80), dtype=torch.int32),
        ),
        lambda x, j, i: x[j.long()[i.long()]],
    ),
    "a sum": (
        "def total(float(N) X, int32(A, B) I) -> (O) { O(a) +=! X(I(a, b)) }",
        (torch.randint(0, 120, (70, 80), dtype=torch.int32),),
        lambda x, i: x[i.long()].sum(1),
    ),
}


@pytest.mark.parametrize("options", [None, "naive"])
@pytest.mark.parametrize("case", UNCHECKED)
def test_unchecked_loops_look_at_nothing(case: str, options: str | None) -> None:
    """They would read some element in place of a bad one, and so does no unchecked kernel."""
    text, index, wanted = UNCHECKED[case]
    whole, x = behind(100, 20)
    executor = tc.compile(text, re.search(r"def (\w+)", text)[1], options, x, *index)
    assert "looked at by the loops" in executor.explain()
    with pytest.raises(tc.ShapeError, match="outside: at "):
        executor(x, *index)
    assert torch.equal(executor(x, *index, unchecked=True), wanted(whole, *index))
    with pytest.raises(tc.ShapeError, match="outside: at "):
        executor(x, *index)


def test_unchecked_updates() -> None:
    """One that is outside is made there."""
    whole, out = behind(100, 20)
    g, index = torch.randn(60, 70), torch.randint(0, 120, (60, 70), dtype=torch.int32)
    text = """def add(float(A, B) G, int32(A, B) I, float(M) like) -> (float(M) O) {
      O(I(a, b)) += G(a, b)
    }"""
    wanted = whole.index_add(0, index.flatten().long(), g.flatten())
    add = tc.define(text, namespace="tc_unchecked").add
    assert add(g, index, torch.empty(100), outputs=(out,), unchecked=True) is out
    torch.testing.assert_close(whole, wanted)


@pytest.mark.parametrize("bad", [-1, 100, 2**31 - 1, -(2**31)])
def test_unchecked_reads_that_a_condition_keeps_inside(bad: int) -> None:
    """The promise is one about reads that are made."""
    text = """def guarded(float(N) X, int32(A, B) I) -> (O) {
      O(a, b) = I(a, b) >= 0 && I(a, b) < N ? X(I(a, b)) : -1
    }"""
    x = fenced(torch.randn(100), at_start=bad < 0)
    index = torch.randint(0, 100, (70, 80), dtype=torch.int32)
    index[::3, ::7] = bad
    wanted = torch.where(index == bad, -1.0, x[index.long().clamp(0, 99)])
    executor = tc.compile(text, "guarded", None, x, index)
    assert torch.equal(executor(x, index, unchecked=True), wanted)
