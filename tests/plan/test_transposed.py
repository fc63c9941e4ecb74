"""Elementwise statements that read across the direction in which they write."""

from __future__ import annotations

import pytest
import torch

import tensor_comprehensions as tc

SIZES = [(1, 1), (2, 3), (5, 16), (17, 15), (64, 64), (65, 130), (200, 33)]
TYPES = {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "int32": torch.int32,
    "uint8": torch.uint8,
}


def define(name: str, text: str) -> object:
    return getattr(tc.define(text, namespace=f"tc_transposed_{name}"), name)


def values(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    return torch.randint(0, 100, sizes).to(dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_transpose(dtype: str) -> None:
    transpose = define("transpose", f"def transpose({dtype}(M,N) A) -> (O) {{ O(i,j) = A(j,i) }}")
    for m, n in SIZES:
        a = values(TYPES[dtype], m, n)
        assert torch.equal(transpose(a), a.t())


@pytest.mark.parametrize(("m", "n"), SIZES)
def test_sum_with_the_transposed(m: int, n: int) -> None:
    add = define("add", "def add(float(M,N) A, float(N,M) B) -> (O) { O(i,j) = A(i,j) + B(j,i) }")
    a, b = torch.randn(m, n), torch.randn(n, m)
    assert torch.equal(add(a, b), a + b.t())


def test_of_views_and_of_a_tensor_with_its_own_transposed() -> None:
    symmetric = define(
        "symmetric", "def symmetric(float(N,N) A) -> (O) { O(i,j) = A(i,j) + A(j,i) }"
    )
    wide = torch.randn(100, 300)
    for a in (
        wide[:, ::3],
        wide.t()[::3, :],
        wide[:100, 100:200],
        torch.randn(100, 1).expand(-1, 100),
    ):
        assert torch.equal(symmetric(a), a + a.t())


def test_channels_to_the_front_and_back() -> None:
    front = define("front", "def front(float(N,H,W,C) A) -> (O) { O(n,c,h,w) = 2 * A(n,h,w,c) }")
    back = define("back", "def back(float(N,C,H,W) A) -> (O) { O(n,h,w,c) = A(n,c,h,w) + 1 }")
    a = torch.randn(3, 7, 9, 20)
    assert torch.equal(front(a), 2 * a.permute(0, 3, 1, 2))
    assert torch.equal(back(a), a.permute(0, 2, 3, 1) + 1)


def test_windows_and_strides_across() -> None:
    shifted = define(
        "shifted",
        "def shifted(float(M,N) A) -> (O) { O(i,j) = A(j+2,3*i+1) + A(j,3*i) "
        "where i in 0:20, j in 0:70 }",
    )
    a = torch.randn(72, 60)
    wanted = a[2:72, 1:60:3].t() + a[0:70, 0:60:3].t()
    assert torch.equal(shifted(a), wanted)


def test_guarded_reads_stay_inside() -> None:
    padded = define(
        "padded",
        "def padded(float(M,N) A) -> (O) { O(i,j) = i < N && j < M ? A(j,i) : 7.0 "
        "where i in 0:N+5, j in 0:M+5 }",
    )
    a = torch.randn(70, 40)
    wanted = torch.full((45, 75), 7.0)
    wanted[:40, :70] = a.t()
    assert torch.equal(padded(a), wanted)


def test_short_squares_share_a_task() -> None:
    """Of those that lie next to each other in what is read; large ones have one of their own."""
    reverse = "def reverse(float(A,B,C,D) X) -> (O) { O(d,c,b,a) = X(a,b,c,d) }"
    for sizes, tiles in [
        ((16, 32, 28, 28), "c=7, b=1, d=28, a=16"),
        ((16, 9, 3, 28), "c=3, b=3, d=28, a=16"),
        ((70, 5, 6, 80), "c=1, b=1, d=64, a=64"),
    ]:
        x = torch.randn(sizes)
        executor = tc.compile(reverse, "reverse", None, x)
        assert f'tile("task", {tiles})' in str(executor.options)
        assert torch.equal(executor(x), x.permute(3, 2, 1, 0))
    x = torch.randn(16, 32, 28, 28)
    given = tc.MappingOptions("default").cluster("S0").tile("task", b=4)
    executor = tc.compile(reverse, "reverse", given, x)
    assert "b=4" in str(executor.options)
    assert torch.equal(executor(x), x.permute(3, 2, 1, 0))
