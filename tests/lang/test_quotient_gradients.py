"""Derivatives of reads at quotients of sums, as of an image that a window reads twice as large."""

from __future__ import annotations

import zlib

import pytest
import torch
import torch.nn.functional as F

import tensor_comprehensions as tc


def r(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, dtype=torch.double, requires_grad=True)


@pytest.mark.parametrize(
    ("size", "scale"), [((1, 2), 3), *((size, s) for size in [(5, 4), (9, 17)] for s in (2, 3))]
)
def test_upsampled_convolution(size: tuple[int, int], scale: int) -> None:
    text = f"""def f(double(B,C,H,W) X, double(O,C,3,3) K) -> (Y) {{
        Y(b,o,y,x) +=! X(b,c,(y+i)/{scale},(x+j)/{scale}) * K(o,c,i,j)
            where y in 0:{scale}*H-2, x in 0:{scale}*W-2, i in 0:3, j in 0:3 }}"""
    x, k = r(2, 3, *size), r(4, 3, 3, 3)
    f = tc.make_autograd(tc.define(text, namespace=f"tc_quotients_{zlib.crc32(text.encode())}").f)
    result, wanted = f(x, k), F.conv2d(F.interpolate(x, scale_factor=scale), k)
    torch.testing.assert_close(result, wanted)
    seed = torch.randn_like(wanted)
    for ours, theirs in zip(
        torch.autograd.grad(result, (x, k), seed),
        torch.autograd.grad(wanted, (x, k), seed),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)
    # Every element of X gathers what it receives: a window of the gradient.
    source = tc.grad_source(text)
    assert "d_X(b, c, y, x) +=!" in source and "rest in 0:" in source


GATHERED = [
    "X((i + j) / 2) * W(j) where i in 0:N, j in 0:5",
    "X((i + 2 * j) / 3) * W(j) where i in 0:N, j in 0:5",
    "X((i + 2 - j) / 2) * W(j) where i in 0:N, j in 0:3",
    "X((i + j) / 2) * W((i + j) % 2) where i in 0:N, j in 0:5",
    "X((3 * i + j) / 2) * W(j) where i in 0:N, j in 0:2",
    "(i + j - 2 >= 0 ? X((i + j - 2) / 2) : 0) * W(j) where i in 0:N, j in 0:5",
    "(i + j - 2 >= 0 && i + j < 9 ? X((i + j - 2) / 2) : 0) * W(j) where i in 0:N, j in 0:5",
]
#: Quotients that round towards zero, nested ones, of data, and several of one index.
OTHERS = [
    "X((i + j) / 2) * X((i + j) / 2 + 1) * W(j) where i in 0:N, j in 0:5",
    "X((i + j + 5) / 4 - 1) * W(j) where i in 0:N, j in 0:5",
    "X((i + j - 2) / 2 + 3) * W(j) where i in 0:N, j in 0:5",
    "X((i + j) / 2 / 2) * W(j) where i in 0:N, j in 0:5",
    "X((i + j) / 2) * W((i + j) / 4) where i in 0:N, j in 0:5",
    "X((i + j) / 2 + (i + j) / 3) * W(j) where i in 0:N, j in 0:5",
    "X((i + P(j)) / 2) * W(j) where i in 0:N, j in 0:5",
    "X((i + j) / 2 + i / 3) * W(j) where i in 0:N, j in 0:5",
]


@pytest.mark.parametrize("term", GATHERED + OTHERS)
@pytest.mark.parametrize("size", [2, 7, 8])
def test_sums_of_quotients(term: str, size: int) -> None:
    text = f"""def f(double(M) X, double(V) W, int32(L) P, double(N) like) -> (O) {{
        O(i) +=! {term} }}"""
    p = torch.tensor([0, 3, 1, 4, 2], dtype=torch.int32)
    f = tc.make_autograd(tc.define(text, namespace=f"tc_quotients_{zlib.crc32(text.encode())}").f)
    x, w = r(2 * size + 20), r(9)
    like = torch.zeros(size, dtype=torch.double)
    assert torch.autograd.gradcheck(lambda x, w: f(x, w, p, like), (x, w))
    if term in GATHERED:
        assert "d_X((" not in tc.grad_source(text)


@pytest.mark.parametrize(
    "term", ["X(i + j) * X(i + j + 1)", "X(i + j) * Y(i + j)", "X(2 * i + j) * Y(i)"]
)
def test_products_of_neighbours(term: str) -> None:
    """Conditions keep other reads inside, where a copy of the gradient inside zeros does not."""
    text = f"""def f(double(M) X, double(L) Y, double(V) W, double(N) like) -> (O) {{
        O(i) +=! {term} * W(j) where i in 0:N, j in 0:5 }}"""
    f = tc.make_autograd(tc.define(text, namespace=f"tc_products_{zlib.crc32(text.encode())}").f)
    x, y, w = r(30), r(12), r(5)
    like = torch.zeros(7, dtype=torch.double)
    assert torch.autograd.gradcheck(lambda x, y, w: f(x, y, w, like), (x, y, w))
    assert torch.autograd.gradgradcheck(lambda x, y, w: f(x, y, w, like), (x, y, w))
