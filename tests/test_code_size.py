"""Code that must not grow with the nesting of a text: such kernels took minutes to compile."""

from __future__ import annotations

import pytest
import torch

import tensor_comprehensions as tc


def compiled(text: str, *inputs: torch.Tensor) -> tc.Executor:
    return tc.compile(text, "f", tc.MappingOptions().matchLibraryCalls(False), *inputs)


@pytest.mark.parametrize("dtype", ["bfloat16", "half"])
def test_nested_operations_of_narrow_floats(dtype: str) -> None:
    """Rounding reads its argument several times."""
    lengths = []
    for depth in (4, 8):
        value = "A(i)"
        for _ in range(depth):
            value = f"({value} * A(i) + 1)"
        text = f"def f({dtype}(N) A) -> (O) {{ O(i) = {value} }}"
        executor = compiled(text, torch.ones(64, dtype=getattr(torch, dtype)))
        lengths.append(len(executor.text("stmt")))
    assert lengths[1] < 3 * lengths[0]


def test_heavy_bodies_get_small_blocks() -> None:
    text = """
    def f(half(J, K) A, half(I) B, half(J) C, half(R) D) -> (O) {
      O(i, j, k) argmax=! max(r > 0 ? D(r - 1) : -A(j, k), B(i)) + C(j) + D(s) where r in 1:R
    }
    """
    sizes = (17, 3), (5,), (17,), (9,)
    executor = compiled(text, *(torch.ones(*size, dtype=torch.half) for size in sizes))
    assert len(executor.assembly) < 400_000


def test_narrow_elements_for_all_lanes_are_loaded_once() -> None:
    """Under a condition of the lanes: not in a branch for each."""
    text = """
    def f(int16(R, S) A, int16(S, M) B, float(N) X, float(R) Y, int16(Q) P) -> (O) {
      O(i, j) min=! Y(r) >= X(j) ? A(r, s) : B(s, P(i))
    }
    """
    narrow = {"dtype": torch.int16}
    inputs = (
        torch.ones(3, 8, **narrow),
        torch.ones(8, 16, **narrow),
        torch.ones(33),
        torch.ones(3),
    )
    executor = compiled(text, *inputs, torch.zeros(33, **narrow))
    assert len(executor.assembly) < 600_000


def test_reductions_that_leap_read_a_copy() -> None:
    """The innermost loop walks along A, and through B in steps of 128 KiB."""
    text = """
    def f(float(M, L, K) A, float(K, L, N) B) -> (O) { O(m, n) +=! A(m, l, k) * B(k, l, n) }
    """
    a, b = torch.randn(512, 64, 64), torch.randn(64, 64, 512)
    executor = compiled(text, a, b)
    assert "copy      B:" in executor.explain()
    assert "B: contiguous along n, but far apart along the reduction: copied" in executor.explain()
    torch.testing.assert_close(
        executor(a, b), torch.einsum("mlk,kln->mn", a, b), rtol=1e-4, atol=2e-3
    )
    # With few rows a copy costs more than it saves.
    assert "copy      B:" not in compiled(text, a[:8].contiguous(), b).explain()
