"""Derivatives of reads at quotients and remainders: gathers wherever places are made of digits."""

from __future__ import annotations

import pytest
from derived import checked_gradient

import tensor_comprehensions as tc

HEAD = "def f(double(N) x, double(M, K) A, double(10) y) -> (O) "
# Sizes: N = 12, M = 4, K = 3.
GATHERS = {
    "quotient": "{ O(i) = x(i / 3) where i in 0:3 * N }",
    "part of a quotient": "{ O(i) = x(i / 3) where i in 0:10 }",
    "remainder": "{ O(i) = x(i % 5) where i in 0:15 }",
    "part of a remainder": "{ O(i) = x(i % 5) where i in 0:13 }",
    "less than a remainder": "{ O(i) = x(i % 5) where i in 0:4 }",
    "under a guard that reads": "{ O(i) = y(i) > 0.5 ? x(i / 3) : 2.0 where i in 0:10 }",
    "rows and columns": "{ O(i) = A(i / 3, i % 3) where i in 0:3 * M }",
    "three digits": "{ O(i) = x(i / 2 % 3 + 3 * (i % 2) + 6 * (i / 6)) where i in 0:12 }",
    "digit of a digit": "{ O(i) = A(i % 6 / 2, i % 2) * x(i / (2 * 3)) where i in 0:30 }",
    "digits of two": "{ O(i, j) = A(2 * (i % 2) + j % 2, j / 2) where i in 0:2, j in 0:6 }",
    "whole and digit": "{ O(i) = x(i + i % 2) where i in 0:8 }",
    "moved": "{ O(i) = x(i / 2 + 3) where i in 0:12 }",
    "rotated": "{ O(i) = x((i + 5) % N) where i in 0:N }",
    "rotated backwards": "{ O(i) = x((2 * N - 3 - i) % N) where i in 0:N }",
    "rotated by another index": "{ O(i, j) = x((i + 7) % N) * A(j, 0) where i in 0:N }",
    "less than all, rotated": "{ O(i) = x((i + 2) % 5) where i in 0:5 }",
    "windows side by side": "{ O(i) max=! x(3 * i + k) * x(3 * i + k) where k in 0:3 }",
    "windows with gaps": "{ O(i) +=! x(4 * i + k) * x(4 * i + k) where k in 0:3 }",
    "windows of every other": "{ O(i, k) = x(6 * i + 2 * k + 1) where i in 0:2, k in 0:3 }",
    "windows from two on": "{ O(i, k) = x(3 * i + k) where i in 2:4, k in 0:3 }",
    "windows with factors": "{ O(i) +=! x(3 * i + k) * A(0, k) where k in 0:3 }",
}
SCATTERS = {
    "no digits of one number": "{ O(i) = x(i / 2 + i % 3) where i in 0:12 }",
    "not from zero": "{ O(i) = x(i / 3) where i in 1:12 }",
    "a part, rotated": "{ O(i) = x((i + 5) % N) where i in 0:N - 1 }",
    "rotated by an index": "{ O(i, j) = x((i + j) % N) where i in 0:N, j in 0:3 }",
    "two indices": "{ O(i, j) = x((i + j) / 2) where i in 0:7, j in 0:7 }",
}


def check(statements: str) -> str:
    return checked_gradient(HEAD + statements, (12,), (4, 3), (10,))


@pytest.mark.parametrize("name", GATHERS)
def test_gathers(name: str) -> None:
    text = check(GATHERS[name])
    # A scatter first makes its tensor zero, then adds where it likes.
    assert " += " not in text
    assert "= 0.0" not in text


@pytest.mark.parametrize("name", SCATTERS)
def test_scatters(name: str) -> None:
    assert " += " in check(SCATTERS[name])


def test_pixels_move_back() -> None:
    """The gradient of pixel_shuffle is pixel_unshuffle: nothing is summed."""
    text = tc.grad_source(tc.ops.source("pixel_shuffle"), "pixel_shuffle", r=2)
    assert "d_output(n, c / 4, 2 * y_1 + c / 2 % 2, 2 * x_1 + c % 2)" in text
    assert "+=" not in text


def test_pooling_side_by_side_looks_once() -> None:
    text = tc.grad_source(tc.ops.source("max_pooling"), "max_pooling")
    assert "output(n, c, h / 2, w / 2)" in text
    assert "d_input(n, c, h, w) =" in text
