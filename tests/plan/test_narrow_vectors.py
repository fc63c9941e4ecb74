"""What is decided for 16 registers of 256 bits, which half of all processors have."""

from __future__ import annotations

import re

import pytest
import torch
from explained import notes

import tensor_comprehensions as tc

MACHINE = "vector_bits=256,vector_registers=16,cores=2,cache_bytes=262144,library_rate=1"
CONVOLUTION = """def convolution(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
  O(n,f,h,w) +=! I(n,c,h+kh,w+kw) * K(f,c,kh,kw)
}"""


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", MACHINE)


def explained(text: str, expected: torch.Tensor, *values: torch.Tensor) -> dict[str, list[str]]:
    name = re.search(r"def (\w+)", text)[1]
    executor = tc.compile(text, name, None, *values)
    torch.testing.assert_close(executor(*values), expected, rtol=1e-3, atol=1e-3)
    return notes(executor.explain(), "group 1")


def test_rows_by_rows_count_lanes_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors along the reduction load two operands for 8 terms, not for 16."""
    text = "def product(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
    a, b = torch.randn(128, 2000), torch.randn(128, 2000)
    cycles = []
    for machine in (MACHINE, MACHINE.replace("vector_bits=256", "vector_bits=512")):
        monkeypatch.setenv("TC_MACHINE", machine)
        group = explained(text, a @ b.T, a, b)
        assert group["form"][0].startswith("a block of results in registers")
        block, rows = (
            float(re.search(r"([\d.]+) M", line)[1])
            for line in group["cycles"]
            if "this form" in line or "as rows" in line
        )
        assert 1.9 * block < rows
        cycles.append(rows)
    assert cycles[0] > 1.2 * cycles[1]


def test_lines_of_memory_count_where_rows_lie_apart() -> None:
    """8 columns of 4 images are halves of 4 lines a step; 16 of one image are two at most."""
    i, k = torch.randn(4, 1024, 14, 14), torch.randn(256, 1024, 1, 1)
    group = explained(CONVOLUTION, torch.conv2d(i, k), i, k)
    assert "6 of f x 16 of h (2 vectors of 8)" in group["form"][0]


def test_rows_share_lines_of_what_all_lanes_read() -> None:
    """Places of one image lie side by side, those of four images in four lines."""
    i, k = torch.randn(4, 128, 9, 9), torch.randn(128, 128, 3, 3)
    group = explained(CONVOLUTION, torch.conv2d(i, k), i, k)
    assert re.search(r"\d of [hw] x 16 of f", group["form"][0])


def test_large_products_stream_no_more_than_they_must() -> None:
    """3 x 24 would need 24 bytes a cycle; rows are fetched ahead, so that one copy serves all."""
    text = "def product(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    group = explained(text, a @ b, a, b)
    assert "6 of m x 16 of n" in group["form"][0]
    assert "m whole (1024)" in group["tasks"][0]
