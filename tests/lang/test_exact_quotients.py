"""Derivatives of sums of which only every other term counts leave no term out."""

from __future__ import annotations

import pytest
from derived import checked_gradient

import tensor_comprehensions as tc

HEAD = "def f(double(H) X, double(K) W) -> (O) "
# Of X has 5 and W 3 elements.
DENSE = {
    "a transposed convolution": "{ O(y) +=! (y - k) % 2 == 0"
    " ? (y >= k && (y - k) / 2 < H ? X((y - k) / 2) : 0) * W(k) : 0"
    " where y in 0:2 * H + K - 2, k in 0:K }",
    "all in one guard": "{ O(y) +=! y >= k && (y - k) % 3 == 0 && (y - k) / 3 < H"
    " ? X((y - k) / 3) * W(k) : 0 where y in 0:3 * H + K - 3, k in 0:K }",
    "in another place": "{ O(y) +=! (y - k + 1) % 2 == 0"
    " ? (y + 1 >= k && (y - k + 1) / 2 < H ? X((y - k + 1) / 2) : 0) * W(k) : 0"
    " where y in -1:2 * H + K - 3, k in 0:K }",
}
SPARSE = {
    "cut off": "{ O(y) +=! (y - k) % 2 == 0"
    " ? (y >= k && (y - k) / 2 < H ? X((y - k) / 2) : 0) * W(k) : 0"
    " where y in 0:2 * H, k in 0:K }",
    "one bound": "{ O(y) +=! (y - k) % 2 == 0 ? (y >= k ? X(y / 4) : 0) * W(k) : 0"
    " where y in 0:2 * H, k in 0:K }",
    "something else outside": "{ O(y) +=! (y - k) % 2 == 0"
    " ? (y >= k && (y - k) / 2 < H ? X((y - k) / 2) : 1) * W(k) : 0"
    " where y in 0:2 * H + K - 2, k in 0:K }",
    "every other of one index": "{ O(k) +=! y % 2 == 0 ? X(y) * W(k) : 0 where y in 0:H }",
}


def check(statements: str) -> str:
    return checked_gradient(HEAD + statements, (5,), (3,))


def of_weight(text: str) -> str:
    return text[text.index("d_W(") :]


@pytest.mark.parametrize("text", DENSE.values(), ids=DENSE)
def test_every_term_counts(text: str) -> None:
    found = of_weight(check(text))
    assert "%" not in found
    assert "y_quotient in 0:H" in found


@pytest.mark.parametrize("text", SPARSE.values(), ids=SPARSE)
def test_others(text: str) -> None:
    assert "quotient" not in of_weight(check(text))


def test_transposed_convolutions() -> None:
    text = tc.grad_source(
        tc.ops.source("transposed_convolution"), "transposed_convolution", stride_h=2, stride_w=3
    )
    assert "d_output(n, f, 2 * y_quotient + kh, 3 * x_quotient + kw)" in text
    assert "%" not in text
