"""Rows, every statement with vectors along loops of its own: what they wait for, and what helps."""

from __future__ import annotations

import pytest
import torch

import tensor_comprehensions as tc

MACHINE = "vector_bits=512,unit_bits=256,vector_registers=32,cores=2,library_rate=1"
#: Of a core that looks ahead over many rows.
FAR = MACHINE + ",window_cycles=100000"
L2 = """def f(float(N, D) X) -> (Y) {
  squares(n) +=! X(n, d) * X(n, d)
  Y(n, d) = X(n, d) * rsqrt(squares(n))
}"""
WINDOWS = """def f(float(N, R, L) X) -> (O) {
  O(n, x) +=! X(n, r, 14 * x + s) where x in 0:4, s in 0:14
}"""
APART = '.points("apart")'


def softmax(monkeypatch: pytest.MonkeyPatch, machine: str, x: torch.Tensor) -> tc.Executor:
    monkeypatch.setenv("TC_MACHINE", machine)
    return tc.compile(tc.ops.source("softmax"), "softmax", None, x)


@pytest.mark.parametrize("size", [64, 128])
def test_rows_that_wait_for_their_sums_go_nest_by_nest(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exponentials wait for the largest value, quotients for the sum: the sums of many rows come
    first, which wait for nothing."""
    x = torch.randn(512, size)
    executor = softmax(monkeypatch, MACHINE, x)
    assert APART in str(executor.options)
    assert "each nest passes over a task by itself" in executor.explain()
    assert "as rows, vectors along the statements' own loops" in executor.explain()
    torch.testing.assert_close(executor(x), torch.softmax(x, 1))


def test_rows_that_a_core_sees_beyond_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(512, 128)
    executor = softmax(monkeypatch, FAR, x)
    assert APART not in str(executor.options)
    torch.testing.assert_close(executor(x), torch.softmax(x, 1))


@pytest.mark.parametrize("size", [64, 256, 1024])
def test_rows_that_read_more_than_they_wait_stay_together(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who passes over a task twice finds it in the second cache the second time."""
    monkeypatch.setenv("TC_MACHINE", MACHINE)
    x = torch.randn(2**18 // size, size)
    executor = tc.compile(L2, "f", None, x)
    assert APART not in str(executor.options)
    torch.testing.assert_close(executor(x), x / x.norm(dim=1, keepdim=True))


def test_options_say_where_the_points_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", MACHINE)
    x = torch.randn(2048, 128)
    for points in ("around", "apart"):
        options = tc.MappingOptions().cluster("S0").points(points)
        executor = tc.compile(tc.ops.source("softmax"), "softmax", options, x)
        assert f'.points("{points}")' in str(executor.options)
        torch.testing.assert_close(executor(x), torch.softmax(x, 1))


def test_short_rows_are_computed_several_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vector of 14 lanes is added up 20 times, and each time waits for the one before."""
    monkeypatch.setenv("TC_MACHINE", MACHINE)
    x = torch.randn(512, 20, 56)
    executor = tc.compile(WINDOWS, "f", None, x)
    assert ".registers(n=1, x=4)" in str(executor.options)
    assert "the sums of a block's rows do not wait for each other" in executor.explain()
    expected = x.unfold(2, 14, 14).sum((1, 3))
    torch.testing.assert_close(executor(x), expected, rtol=1e-4, atol=1e-4)


def test_long_rows_are_computed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors of one row are enough for all sums that may be under way."""
    monkeypatch.setenv("TC_MACHINE", MACHINE)
    x = torch.randn(512, 20, 512)
    text = "def f(float(N, R, L) X) -> (O) { O(n) +=! X(n, r, s) }"
    executor = tc.compile(text, "f", None, x)
    assert ".registers()" in str(executor.options)
    torch.testing.assert_close(executor(x), x.sum((1, 2)), rtol=1e-4, atol=1e-3)
