"""Blocks in registers of sums of a few neighbours: their sides, and their tasks."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F

import tensor_comprehensions as tc

MACHINE = "vector_bits=512,vector_registers=32,cores=2,library_rate=1"
DEPTHWISE = """def f(float(N,C,H,W) I, float(C,KH,KW) K) -> (O) {
  O(n,c,h,w) +=! I(n,c,h+kh,w+kw) * K(c,kh,kw)
}"""
POOLING = "def f(float(N,L) I) -> (O) { O(n,l) max=! I(n,2*l+k) where k in 0:3 }"


def block_of(executor: tc.Executor) -> dict[str, int]:
    """The sides of the block in registers, by the names of their indices."""
    (found,) = re.findall(r"\.registers\((.*?)\)", str(executor.options))
    sides = {name: int(size) for name, size in re.findall(r"(\w+)=(\d+)", found)}
    return {name: size for name, size in sides.items() if size > 1}


@pytest.mark.parametrize("size", [28, 56, 112])
def test_windows_stay_in_registers(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results, a factor for each of the nine terms, and rows that several results read."""
    monkeypatch.setenv("TC_MACHINE", MACHINE)
    image, kernel = torch.randn(2, 8, size + 2, size + 2), torch.randn(8, 3, 3)
    executor = tc.compile(DEPTHWISE, "f", None, image, kernel)
    sides = block_of(executor)
    rows, vectors = sides.get("h", 1), -(-sides["w"] // 16)
    assert 9 * rows * vectors <= 128  # no term is a loop
    assert rows * vectors + 9 + (rows * vectors if rows > 2 else 0) <= 32
    expected = F.conv2d(image, kernel[:, None], groups=8)
    torch.testing.assert_close(executor(image, kernel), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("images", [1, 8])
def test_rows_of_an_image_share_what_they_read(
    images: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rows read four, and rows of two images six."""
    monkeypatch.setenv("TC_MACHINE", MACHINE)
    image, kernel = torch.randn(images, 16, 56, 56), torch.randn(16, 3, 3)
    executor = tc.compile(DEPTHWISE, "f", None, image, kernel)
    sides = block_of(executor)
    assert sides["h"] > 1 and "n" not in sides
    expected = F.conv2d(image, kernel[:, None], groups=16)
    torch.testing.assert_close(executor(image, kernel), expected, rtol=1e-4, atol=1e-4)


def test_what_walks_along_rows_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory gives long pieces of few rows best: two rows of 112, not fourteen of 16."""
    monkeypatch.setenv("TC_MACHINE", MACHINE)
    image, kernel = torch.randn(4, 32, 114, 114), torch.randn(32, 3, 3)
    assert block_of(tc.compile(DEPTHWISE, "f", None, image, kernel)) == {"h": 2, "w": 112}


def test_larger_windows_are_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """The factors of 25 terms would leave no registers."""
    monkeypatch.setenv("TC_MACHINE", MACHINE)
    image, kernel = torch.randn(2, 8, 60, 60), torch.randn(8, 5, 5)
    executor = tc.compile(DEPTHWISE, "f", None, image, kernel)
    sides = block_of(executor)
    assert sides.get("h", 1) * -(-sides["w"] // 16) > 8
    expected = F.conv2d(image, kernel[:, None], groups=8)
    torch.testing.assert_close(executor(image, kernel), expected, rtol=1e-4, atol=1e-4)


def test_rows_that_share_nothing_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task goes from one end of its rows to the other."""
    monkeypatch.setenv("TC_MACHINE", MACHINE)
    rows = torch.randn(1024, 1023)
    executor = tc.compile(POOLING, "f", None, rows)
    assert "blocks of rows that share nothing" in executor.explain()
    assert re.search(r'tile\("task", n=\d+, l=511\)', str(executor.options))
    assert torch.equal(executor(rows), F.max_pool1d(rows[None], 3, 2)[0])


def test_rows_that_share_columns_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", MACHINE)
    text = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
    a, b = torch.randn(2000, 12), torch.randn(12, 300)
    assert "share nothing" not in tc.compile(text, "f", None, a, b).explain()
