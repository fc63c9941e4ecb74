"""Blocks of elements: several iterations at once share what is the same for all of them."""

from __future__ import annotations

import re

import pytest
import torch
from explained import block_of

import tensor_comprehensions as tc

MACHINE = "vector_bits=512,unit_bits=256,vector_registers=32,cores=2,library_rate=1"
PRODUCTS = "def f(float(I,R) A, float(J,R) B) -> (O) { O(i,j,r) = A(i,r) * B(j,r) }"
ROTATED = """def f(float(B,T,E) X, float(T,E) C, float(T,E) S) -> (O) {
  O(b,t,e) = X(b,t,e) * C(t,e) + X(b,t,e) * X(b,t,e) * S(t,e)
}"""
SHARED = "that share what they load"


@pytest.fixture(autouse=True)
def described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", MACHINE)


def code_of(executor: tc.Executor) -> str:
    """Without the numbers that names end with."""
    return re.sub(r"_\d+\b", "", executor.assembly)


@pytest.mark.parametrize("sizes", [(64, 64, 128), (63, 61, 127), (64, 5, 40)])
def test_rows_that_read_the_same_go_together(sizes: tuple[int, int, int]) -> None:
    """Of both operands every row is loaded again for all rows of the other one."""
    i, j, r = sizes
    a, b = torch.randn(i, r), torch.randn(j, r)
    executor = tc.compile(PRODUCTS, "f", None, a, b)
    block = block_of(executor)
    assert block.get("i", 1) * block.get("j", 1) >= 4
    assert SHARED in executor.explain()
    assert torch.equal(executor(a, b), a[:, None] * b[None])
    again = tc.compile(PRODUCTS, "f", tc.MappingOptions.parse(str(executor.options)), a, b)
    assert code_of(again) == code_of(executor)


def test_rows_of_their_own_are_not_read_side_by_side() -> None:
    """Images share tables, but each of them is a stream from memory."""
    x, c, s = torch.randn(7, 64, 96), torch.randn(64, 96), torch.randn(64, 96)
    executor = tc.compile(ROTATED, "f", None, x, c, s)
    assert block_of(executor) == {}
    torch.testing.assert_close(executor(x, c, s), x * c + x * x * s)


def test_statements_that_read_the_same_go_together() -> None:
    """Halves of rows, each of which takes part in both results: up to 16 streams at a time."""
    text = """def f(float(B,T,E) X, float(T,F) C, float(T,F) S) -> (O) {
      O(b,t,e) = e < F ? X(b,t,e) * C(t,e) - X(b,t,e + F) * S(t,e)
                       : X(b,t,e) * C(t,e - F) + X(b,t,e - F) * S(t,e - F) where e in 0:2 * F
    }"""
    x, c, s = torch.randn(64, 128, 256), torch.randn(128, 128), torch.randn(128, 128)
    executor = tc.compile(text, "f", None, x, c, s)
    block = block_of(executor)
    assert 2 <= block["b"] <= 4 and SHARED in executor.explain()
    low, high = x.chunk(2, -1)
    wanted = torch.cat([low * c - high * s, high * c + low * s], -1)
    torch.testing.assert_close(executor(x, c, s), wanted)
    again = tc.compile(text, "f", tc.MappingOptions.parse(str(executor.options)), x, c, s)
    assert code_of(again) == code_of(executor)


@pytest.mark.parametrize(
    "text",
    [
        "def f(float(I,J,R) A, float(I,J,R) B) -> (O) { O(i,j,r) = A(i,j,r) * B(i,j,r) }",
        "def f(float(I,J,R) A, float(I,J,R) B) -> (O) { O(i,j,r) = exp(A(i,j,r)) + exp(B(0,0,r)) }",
    ],
)
def test_elements_that_share_nothing_that_counts_have_no_blocks(text: str) -> None:
    """Nothing, or little beside the arithmetic."""
    a, b = torch.randn(16, 16, 128), torch.randn(16, 16, 128)
    executor = tc.compile(text, "f", None, a, b)
    assert block_of(executor) == {} and SHARED not in executor.explain()


def test_options_that_say_where_points_are_are_kept() -> None:
    a, b = torch.randn(64, 128), torch.randn(64, 128)
    for options in (
        tc.MappingOptions().tile(8, 8, 128),
        tc.MappingOptions().cluster("S0").registers(),
        tc.MappingOptions().cluster("S0").points("around"),
    ):
        executor = tc.compile(PRODUCTS, "f", options, a, b)
        assert SHARED not in executor.explain()
        assert torch.equal(executor(a, b), a[:, None] * b[None])
