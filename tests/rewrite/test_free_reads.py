"""Reads that lie inside their tensors whatever a guard says are made without it."""

from __future__ import annotations

import pytest
import torch
from exact import integers
from fenced import fenced

import tensor_comprehensions as tc
from tensor_comprehensions import reference

HEAD = "def f(float(N, L) X, float(N, M) Y) -> (O) "
# X has twice as many columns as Y.
GUARDED = {
    "two apart": "O(n, i) +=! i - k >= 0 ? X(n, 2 * i) * Y(n, i - k) : 0",
    "backwards": "O(n, i) +=! i - k >= 0 && i < 50 ? X(n, 199 - 3 * i) * Y(n, i - k) : 0",
    "compared": "O(n, i) +=! i >= k ? (X(n, 2 * i + 1) == Y(n, i - k) ? Y(n, i - k) : 1) : 0",
    "something else outside": "O(n, i) +=! i >= k ? X(n, 2 * i) * Y(n, i - k) : 3",
    "both need it": "O(n, i) +=! i >= k ? X(n, 2 * (i - k)) * Y(n, i - k) : 0",
    "a maximum": "O(n, i) max=! i >= k ? X(n, 2 * i) + Y(n, i - k) : -100",
    "data decide": "O(n, i) +=! Y(n, i) > 0 && i >= k ? X(n, 2 * i) * Y(n, i - k) : 0",
}


@pytest.mark.parametrize("statement", GUARDED.values(), ids=GUARDED)
def test_values(statement: str) -> None:
    columns = 50 if "i < 50" in statement else 100
    text = f"{HEAD} {{ {statement} where n in 0:N, i in 0:{columns}, k in 0:3 }}"
    x, y = integers(20, 200), integers(20, 100)
    executor = tc.compile(text, "f", None, x, y)
    assert torch.equal(executor(x, y), reference.run(text, "f", x, y))


def test_nothing_is_gathered() -> None:
    text = f"{HEAD} {{ {GUARDED['compared']} where n in 0:N, i in 0:96, k in 0:3 }}"
    x, y = integers(20, 200), integers(20, 100)
    executor = tc.compile(text, "f", None, x, y)
    assert "gather" not in executor.assembly
    assert torch.equal(executor(x, y), reference.run(text, "f", x, y))


def test_what_a_guard_keeps_inside_stays_under_it() -> None:
    """The first columns of Y would be read in front of its memory."""
    text = (
        f"{HEAD} {{ O(n, i) +=! i >= k ? X(n, 2 * i) * Y(n, i - k) : 0 where i in 0:M, k in 0:90 }}"
    )
    x, y = integers(1, 200), integers(1, 100)
    executor = tc.compile(text, "f", None, x, y)
    assert torch.equal(executor(x, y), reference.run(text, "f", x, y))
    x[0, ::2] = torch.inf  # where the guard fails, nothing times infinity would be a NaN
    assert torch.equal(executor(x, y).isnan(), reference.run(text, "f", x, y).isnan())


def test_what_a_guard_keeps_in_front_of_the_end_stays_under_it() -> None:
    """The last columns of Y lie in front of memory that nobody may touch."""
    text = (
        f"{HEAD} {{ O(n, i) +=! i + k < M ? X(n, 2 * i) * Y(n, i + k) : 0"
        " where i in 0:M, k in 0:90 }"
    )
    x, y = integers(1, 200), fenced(integers(1, 100))
    executor = tc.compile(text, "f", None, x, y)
    assert torch.equal(executor(x, y), reference.run(text, "f", x, y))
