"""Derivatives of reads at quotients and remainders: gathers wherever places are made of digits."""

from __future__ import annotations

import pytest
import torch
from derived import checked_gradient

import tensor_comprehensions as tc

HEAD = "def f(double(N) x, double(M, K) A, double(10) y, double(P, Q) B) -> (O) "
# Sizes: N = 12, M = 4, K = 3, P = 2, Q = 5.
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
    "products of all elements": """{
        O(i, j) = A(i / P, j / Q) * B(i % P, j % Q) where i in 0:M * P, j in 0:K * Q
    }""",
    "rows side by side": "{ O(i, j) = A(i % M, j % K) where i in 0:2 * M, j in 0:K * 3 }",
    "rows and columns of sizes": "{ O(i) = A(i / K, i % K) * A(i / K, i % K) where i in 0:M * K }",
    "three digits of sizes": "{ O(i) = A(i / Q % M, i / (Q * M)) where i in 0:K * M * Q }",
    "numbers and sizes": "{ O(i) = A(i / 2 % M, i / (2 * M)) * x(i % 2) where i in 0:2 * K * M }",
    "sizes of tensors": "{ O(i) = A(i / A.1, i % A.1) where i in 0:A.0 * A.1 }",
    "the digits of other indices": """{
        O(i, j) = A(i / P, j % K) * x(i % P + j / K) where i in 0:M * P, j in 0:2 * K
    }""",
    "laid out in a row": "{ O(i, j) = x(K * i + j) * A(i, j) }",
    "a volume in a row": """{
        O(i, j, k) = x(i * (P * K) + j * K + k) * B(j, i) where i in 0:2, j in 0:P, k in 0:K
    }""",
    "from two on in a row": "{ O(i, j) = x(K * i + j) * A(i, j) where i in 2:M, j in 0:K }",
    "moved in a row": "{ O(i, j) = x(P * i + j + 1) where i in 0:K, j in 0:P }",
    "two indices": "{ O(i, j) = x((i + j) / 2) where i in 0:7, j in 0:7 }",
}
SCATTERS = {
    "no digits of one number": "{ O(i) = x(i / 2 + i % 3) where i in 0:12 }",
    "not from zero": "{ O(i) = x(i / 3) where i in 1:12 }",
    "a part, rotated": "{ O(i) = x((i + 5) % N) where i in 0:N - 1 }",
    "rotated by an index": "{ O(i, j) = x((i + j) % N) where i in 0:N, j in 0:3 }",
    # P may be 0.
    "a number of digits of sizes": "{ O(i) = x(i % P) where i in 0:7 }",
    "sizes of two numbers": "{ O(i) = x(i % P + i / Q) where i in 0:P * Q }",
}


def check(statements: str) -> str:
    return checked_gradient(HEAD + statements, (12,), (4, 3), (10,), (2, 5))


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


def test_a_product_of_all_elements_is_summed() -> None:
    text = tc.grad_source(tc.ops.source("kronecker"), "kronecker")
    assert "d_A(i_1, j_1) +=! d_output(P * i_1 + i_0, Q * j_1 + j_0) * B(i_0, j_0)" in text
    assert "d_B(i_0, j_0) +=! d_output(P * i_1 + i_0, Q * j_1 + j_0) * A(i_1, j_1)" in text


def test_a_place_in_a_row_is_solved_for_all_digits() -> None:
    """A sum over one of them would look at every element once for each of its values."""
    text = tc.grad_source("""def f(float(N, C, H, W) x, float(N, K) y) -> (O) {
        O(n, c, h, w) = x(n, c, h, w) * y(n, c * (H * W) + h * W + w)
    }""")
    assert "d_y" in text
    assert "+=!" not in text


@pytest.mark.parametrize("empty", ["M", "K", "P", "Q"])
def test_digits_of_empty_tensors(empty: str) -> None:
    sizes = {"M": 4, "K": 3, "P": 2, "Q": 5} | {empty: 0}
    m, k, p, q = sizes.values()
    text = tc.ops.source("kronecker")
    f = tc.make_autograd(tc.define(text, namespace=f"tc_digits_of_none_{empty}").kronecker)
    a = torch.rand(m, k, requires_grad=True)
    b = torch.rand(p, q, requires_grad=True)
    result = f(a, b)
    assert result.shape == (m * p, k * q)
    for x, gradient in zip((a, b), torch.autograd.grad(result.sum(), (a, b)), strict=True):
        assert torch.equal(gradient, torch.zeros_like(x))


@pytest.mark.parametrize("p", [0, 2])
def test_no_row_of_what_is_laid_out_in_one(p: int) -> None:
    text = "def f(float(N) x, float(M, P) A) -> (O) { O(i, j) = x(P * i + j) * A(i, j) }"
    f = tc.make_autograd(tc.define(text, namespace=f"tc_digits_in_a_row_{p}").f)
    x, a = torch.rand(9, requires_grad=True), torch.rand(4, p)
    (gradient,) = torch.autograd.grad(f(x, a).sum(), x)
    assert torch.equal(gradient, torch.nn.functional.pad(a.flatten(), (0, 9 - 4 * p)))
