"""Rows, every statement with vectors along loops of its own: what they wait for, and what helps."""

from __future__ import annotations

import re

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


ACROSS = "of copies of what lies across"


def transposed(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Whose first index has neighbours in memory."""
    made = torch.randn(*reversed(sizes), generator=torch.Generator().manual_seed(0)).to(dtype)
    return made.permute(*reversed(range(len(sizes))))


@pytest.mark.parametrize(
    ("rows", "size", "type_"),
    [(512, 768, "float"), (512, 768, "double"), (512, 768, "bfloat16"), (40, 200, "float")],
)
def test_rows_of_what_lies_across_are_copied(
    rows: int, size: int, type_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row's elements are a column's; a task copies whole cache lines of them."""
    monkeypatch.setenv("TC_MACHINE", MACHINE)
    text = tc.ops.source("softmax").replace("float", type_)
    dtype = {"float": torch.float32, "double": torch.double, "bfloat16": torch.bfloat16}[type_]
    x = transposed(rows, size, dtype=dtype)
    executor = tc.compile(text, "softmax", None, x)
    notes = executor.explain()
    copied = re.search(r"copy +input: (\d+) x.*transposed from", notes)
    assert ACROSS in notes and copied
    assert int(copied[1]) == rows or int(copied[1]) % (64 // x.element_size()) == 0
    torch.testing.assert_close(executor(x), torch.softmax(x, 1))
    contiguous = tc.compile(text, "softmax", None, x.contiguous())
    assert ACROSS not in contiguous.explain()


def test_rows_across_of_several_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three dimensions, one read backwards; the same read of two statements is one copy."""
    monkeypatch.setenv("TC_MACHINE", MACHINE)
    text = """def f(float(B, N, D) X, float(B, N, D) Y) -> (O) {
      M(b, n) max=! X(b, n, d) + Y(b, n, D - 1 - d) where d in 0:D
      E(b, n, d) = exp(X(b, n, d) + Y(b, n, D - 1 - d) - M(b, n)) where d in 0:D
      S(b, n) +=! E(b, n, d)
      O(b, n, d) = E(b, n, d) / S(b, n)
    }"""
    x, y = (transposed(3, 40, 70).permute(2, 0, 1).contiguous().permute(1, 2, 0) for _ in range(2))
    y = y * 0.5
    executor = tc.compile(text, "f", None, x, y)
    assert ACROSS in executor.explain()
    torch.testing.assert_close(executor(x, y), torch.softmax(x + y.flip(2), 2))


def test_options_forbid_copies_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", MACHINE)
    x = transposed(512, 768)
    options = tc.MappingOptions().cluster("S1").copy(None)
    executor = tc.compile(tc.ops.source("softmax"), "softmax", options, x)
    assert "transposed from" not in executor.explain()
    torch.testing.assert_close(executor(x), torch.softmax(x, 1))
    copied = softmax(monkeypatch, MACHINE, x)
    again = tc.compile(tc.ops.source("softmax"), "softmax", copied.options, x)
    assert str(again.options) == str(copied.options) and "transposed from" in again.explain()
