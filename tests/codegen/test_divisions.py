"""Vectors divided by one number: from its reciprocal, with the result of a division."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import tensor_comprehensions as tc

CPU = Path("/proc/cpuinfo")
INF, NAN = float("inf"), float("nan")
# Inside of 2^-20 to 2^20 a quotient comes from the reciprocal, elsewhere from a division.
DIVISORS = [1.0, 3.0, 7.0, 0.1, 1 / 3, 1023.99, 2.0**20 - 1, 2.0**-20, 2.0**20, 1e-3, 12345.678]
OTHERS = [-3.0, -0.7, 0.0, -0.0, 1e-10, 1e10, 1e-38, 1e-45, 3e38, INF, -INF, NAN]
SPECIAL = [0.0, -0.0, INF, -INF, NAN, 1.0, -1.0]
ROWS = "def f({0}(N,D) A, {0}(N) B) -> (O) {{ O(n,d) = A(n,d) / B(n) }}"


def numerators(rows: int, columns: int, exponents: int, dtype: torch.dtype) -> torch.Tensor:
    """Of all magnitudes up to 2^exponents and from 2^-exponents on, and special ones among them."""
    generator = torch.Generator().manual_seed(rows * columns)
    mantissas = torch.rand(rows, columns, generator=generator, dtype=torch.float64) * 2 - 1
    powers = torch.randint(-exponents, exponents, (rows, columns), generator=generator)
    values = torch.ldexp(mantissas.sign() + mantissas, powers).to(dtype)
    values[:, 3 : 3 + len(SPECIAL)] = torch.tensor(SPECIAL, dtype=dtype)
    return values


def assert_same_bits(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.dtype == expected.dtype
    assert torch.equal(actual.isnan(), expected.isnan())
    numbers = ~expected.isnan()
    assert torch.equal(actual[numbers], expected[numbers])
    assert torch.equal(actual[numbers].signbit(), expected[numbers].signbit())


@pytest.mark.parametrize("columns", [64, 259, 1024, 1021])
@pytest.mark.parametrize(
    ("name", "dtype", "exponents"),
    [("float", torch.float32, 100), ("double", torch.float64, 900), ("half", torch.half, 14)],
)
def test_quotients_are_those_of_a_division(
    name: str, dtype: torch.dtype, exponents: int, columns: int
) -> None:
    b = torch.tensor(DIVISORS + OTHERS).to(dtype)
    random = torch.rand(200, generator=torch.Generator().manual_seed(columns), dtype=torch.float64)
    b = torch.cat([b, torch.exp2(random * 30 - 15).to(dtype)])
    a = numerators(len(b), columns, exponents, dtype)
    f = tc.define(ROWS.format(name), namespace=f"tc_divisions_{name}_{columns}").f
    assert_same_bits(f(a, b), a / b[:, None])


def test_quotients_next_to_the_ends_of_the_range_are_off_by_one_at_most() -> None:
    b = torch.tensor(DIVISORS + OTHERS)
    bits = torch.arange(0, 2**31, 2**31 // 4096, dtype=torch.int64).to(torch.int32)
    a = bits.view(torch.float32).repeat(len(b), 1)
    a = torch.cat([a, -a], 1)
    actual = tc.define(ROWS.format("float"), namespace="tc_divisions_ends").f(a, b)
    expected = a / b[:, None]
    assert torch.equal(actual.isnan(), expected.isnan())
    numbers = ~expected.isnan()
    assert numbers.sum() > 100_000
    np.testing.assert_array_max_ulp(actual[numbers].numpy(), expected[numbers].numpy(), 1)
    far = numbers & (a.abs() > 2.0**-100) & (expected.abs() > 2.0**-100)
    assert_same_bits(actual[far], expected[far])


@pytest.mark.parametrize(("name", "dtype"), [("float", torch.float32), ("double", torch.float64)])
def test_of_large_quotients_the_largest_alone_may_become_infinite(
    name: str, dtype: torch.dtype
) -> None:
    b = torch.rand(500, generator=torch.Generator().manual_seed(5), dtype=dtype) * 1.5
    steps = torch.arange(-32, 32).to(dtype) * torch.finfo(dtype).eps / 2
    largest = torch.finfo(dtype).max
    a = (b * largest)[:, None] * (1 + steps)
    a = torch.cat([a, -a], 1).clamp(-largest, largest)
    actual = tc.define(ROWS.format(name), namespace=f"tc_divisions_largest_{name}").f(a, b)
    expected = a / b[:, None]
    is_largest = expected.abs() == largest
    assert is_largest.sum() > 500 and expected.isinf().sum() > 500
    assert_same_bits(actual[~is_largest], expected[~is_largest])
    infinite = is_largest & actual.isinf()
    assert torch.equal(actual[infinite].sign(), expected[infinite].sign())
    assert_same_bits(actual[is_largest & ~infinite], expected[is_largest & ~infinite])


@pytest.mark.parametrize("divisor", ["3.0", "10", "0.7", "-3.0", "8.0", "1e-30", "768"])
def test_literal_divisors(divisor: str) -> None:
    a = numerators(3, 4096, 60, torch.float32)
    text = f"def f(float(N,D) A) -> (O) {{ O(n,d) = A(n,d) / {divisor} }}"
    actual = tc.define(text, namespace=re.sub(r"\W", "_", f"tc_divisions_{divisor}")).f(a)
    assert_same_bits(actual, a / torch.tensor(float(divisor)))


def test_several_divisors_of_one_loop() -> None:
    text = """def f(float(N,D) A, float(N) B, float(N) C) -> (O) {
        O(n,d) = A(n,d) / B(n) - C(n) / A(n,d) + (A(n,d) + 1.0) / (B(n) * C(n)) }"""
    a = torch.rand(7, 1000, dtype=torch.float64) + 0.5
    b, c = torch.rand(7, dtype=torch.float64) + 0.5, torch.rand(7, dtype=torch.float64) + 0.5
    actual = tc.define(text, namespace="tc_divisions_several").f(a.float(), b.float(), c.float())
    expected = a / b[:, None] - c[:, None] / a + (a + 1) / (b * c)[:, None]
    torch.testing.assert_close(actual.double(), expected, rtol=2e-6, atol=2e-6)


def test_a_divisor_that_a_condition_keeps_from_being_read() -> None:
    text = """def f(float(N,D) A, float(M) B) -> (O) {
        O(n,d) = (n < M) ? (A(n,d) / B(n)) : 0.0 where n in 0:N, d in 0:D }"""
    a, b = torch.randn(9, 512), torch.rand(4) + 0.5
    actual = tc.define(text, namespace="tc_divisions_condition").f(a, b)
    assert_same_bits(actual[:4], a[:4] / b[:, None])
    assert torch.equal(actual[4:], torch.zeros(5, 512))


def test_changing_sizes() -> None:
    text = ROWS.format("float")
    f = tc.define(text, namespace="tc_divisions_sizes").f
    for columns in (1, 3, 16, 63, 64, 65, 100, 500):
        a, b = numerators(5, max(columns, 12), 60, torch.float32)[:, :columns], torch.rand(5) + 0.5
        assert_same_bits(f(a.contiguous(), b), a / b[:, None])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="looks for an instruction of x86")
def test_rows_are_multiplied_by_the_reciprocal() -> None:
    def has_multiply_add(divisor: str, size: str) -> bool:
        text = f"def f(float(N,D) A, float({size}) B) -> (O) {{ O(n,d) = A(n,d) / {divisor} }}"
        b = torch.rand((5, 1024) if size == "N,D" else (5,)) + 0.5
        options = tc.MappingOptions()
        return "vfnm" in tc.compile(text, "f", options, torch.randn(5, 1024), b).assembly

    assert has_multiply_add("B(n)", "N")
    assert not has_multiply_add("B(n,d)", "N,D")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the name of an instruction")
def test_divisions_that_hide_behind_other_arithmetic_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a division is quick, it goes on beside comparisons and sums; the results are equal."""
    text = "def f(float(N) A, float p) -> (O) { O(i) = min(max(A(i) + 3, 0), 6) * A(i) / p }"
    a = torch.randn(1000) * 5
    results, reciprocals = [], []
    for cycles in (100, 1):
        monkeypatch.setenv("TC_MACHINE", f"division_cycles={cycles}")
        executor = tc.compile(text, "f", None, a, 6.0)
        # A reciprocal is a number.
        reciprocals.append("divss" in executor.assembly)
        results.append(executor(a, 6.0))
    if "fma" not in os.environ.get("TC_WITHOUT", "") and "fma" in CPU.read_text():
        assert reciprocals == [True, False]
    assert_same_bits(results[0], (a + 3).clamp(0, 6) * a / 6)
    assert_same_bits(results[1], results[0])
