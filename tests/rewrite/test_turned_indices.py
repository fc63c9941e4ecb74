"""Statements that walk memory backwards, and choices that a loop of vectors does not decide."""

from __future__ import annotations

import pytest
import torch
from exact import integers

import tensor_comprehensions as tc
from tensor_comprehensions import reference

SIZES = [(130, 70), (64, 64), (3, 5), (1, 1)]
TURNED = {
    "a picture on its side": "O(i, j) = X(j, N - 1 - i) where i in 0:N, j in 0:M",
    "on its other side": "O(i, j) = X(M - 1 - j, i) where i in 0:N, j in 0:M",
    "upside down": "O(i, j) = X(M - 1 - i, N - 1 - j)",
    "both, computed": "O(i, j) = 2 * X(M - 1 - j, N - 1 - i) - i where i in 0:N, j in 0:M",
    "two reads": "O(i, j) = X(j, N - 1 - i) + X(j, i) where i in 0:N, j in 0:M",
    "under a guard": "O(i, j) = i > 0 ? X(j, N - 1 - i) : 7 where i in 0:N, j in 0:M",
}


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("statement", TURNED.values(), ids=TURNED)
def test_turned(statement: str, sizes: tuple[int, int]) -> None:
    text = f"def f(float(M, N) X) -> (O) {{ {statement} }}"
    x = integers(*sizes)
    assert torch.equal(tc.compile(text, "f", None, x)(x), reference.run(text, "f", x))


def test_a_turned_picture_is_transposed_in_squares() -> None:
    text = f"def f(float(M, N) X) -> (O) {{ {TURNED['a picture on its side']} }}"
    x = integers(130, 70)
    assert (
        "squares with vectors along j, since X lies along i"
        in tc.compile(text, "f", None, x).explain()
    )


CHOICES = {
    "stacked": "O(k, i) = k == 0 ? A(i) : B(i) where k in 0:2",
    "one of three": "O(k, i) = k == 0 ? A(i) : (k == 1 ? B(i) : A(i) * B(i)) where k in 0:3",
    "two choices": "O(k, i) = (k == 0 ? A(i) : B(i)) + (k > 1 ? A(i) : B(i)) where k in 0:3",
    "three choices": "O(k, i) = (k == 0 ? A(i) : B(i)) + (k > 1 ? A(i) : B(i))"
    " * (k != 2 ? A(i) : B(i)) where k in 0:3",
    "data choose": "O(k, i) = C(k) > 0 ? A(i) : B(i)",
    "the index chooses": "O(k, i) = i < k ? A(i) : B(i) where k in 0:3",
}


@pytest.mark.parametrize("length", [1, 40, 100])
@pytest.mark.parametrize("statement", CHOICES.values(), ids=CHOICES)
def test_choices_around_vectors(statement: str, length: int) -> None:
    text = f"def f(float(L) A, float(L) B, float(K) C) -> (O) {{ {statement} }}"
    values = integers(length), integers(length), integers(3)
    executor = tc.compile(text, "f", None, *values)
    assert torch.equal(executor(*values), reference.run(text, "f", *values))
