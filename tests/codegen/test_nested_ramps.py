"""Vectors of few lanes, picked from a row: they are loaded from the lanes' own places.

Tensors lie beside memory that nobody may touch (see fenced).
"""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from collections.abc import Callable

import pytest
import torch
from fenced import fenced

import tensor_comprehensions as tc

TYPES = {
    "float": torch.float,
    "double": torch.double,
    "half": torch.half,
    "bfloat16": torch.bfloat16,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "bool": torch.bool,
}

# Of a row of N elements, N of them. Bounds of most go beyond the row at one of its ends.
PLACES: dict[str, Callable[[int, int], int]] = {
    "n > 0 ? n - 1 : N - 1": lambda n, size: n - 1 if n > 0 else size - 1,
    "n + 1 < N ? n + 1 : 0": lambda n, size: n + 1 if n + 1 < size else 0,
    "n + 1 >= N ? n + 1 - N : n + 1": lambda n, size: (n + 1) % size,
    "n < 1 ? 1 - n : n - 1": lambda n, size: abs(n - 1),
    "n % 2 == 0 ? n : n - 1": lambda n, size: n - n % 2,
    "n + 1 < N ? n + 1 : 2 * N - 3 - n": lambda n, size: n + 1 if n + 1 < size else size - 2,
    "n == 0 ? N - 1 : 0": lambda n, size: size - 1 if n == 0 else 0,
    "n == 0 ? 1 : 1": lambda n, size: 1,
    "(n + 1) % N": lambda n, size: (n + 1) % size,
    "(n * n) % N": lambda n, size: n * n % size,
    "N - 1 - n / 2": lambda n, size: size - 1 - n // 2,
    "1 - (n % 3 < 2 ? n % 3 : 0)": lambda n, size: 1 - (n % 3 if n % 3 < 2 else 0),
}


@pytest.mark.parametrize("at_start", [True, False], ids=["first", "last"])
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("name", TYPES)
def test_rows(name: str, size: int, at_start: bool) -> None:
    dtype = TYPES[name]
    rows = torch.arange(5 * size).reshape(5, size) % (2 if dtype == torch.bool else 100)
    statements = " ".join(
        f"P{k}(m, n) = A(m, {place}) where n in 0:N" for k, place in enumerate(PLACES)
    )
    results = ", ".join(f"P{k}" for k in range(len(PLACES)))
    text = f"def f({name}(M, N) A) -> ({results}) {{ {statements} }}"
    a = fenced(rows.to(dtype), at_start)
    found = tc.define(text, namespace=f"tc_few_lanes_{zlib.crc32(text.encode())}").f(a)
    for (place, index), result in zip(PLACES.items(), found, strict=True):
        wanted = rows[:, [index(n, size) for n in range(size)]].to(dtype)
        assert torch.equal(result, wanted), place


@pytest.mark.parametrize("at_start", [True, False], ids=["first", "last"])
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("size", [2, 3])
def test_three_times_as_many(size: int, name: str, at_start: bool) -> None:
    """Whole vectors of two lanes, of which some lie the other way round."""
    place = "1 - (n % 3 < 2 ? n % 3 : 0)"
    text = f"def f({name}(M, N) A) -> (O) {{ O(m, n) = A(m, {place}) where n in 0:3 * N }}"
    rows = (torch.arange(8 * size) % 2).reshape(8, size).to(TYPES[name])
    found = tc.define(text, namespace="tc_few_lanes_thrice").f(fenced(rows, at_start))
    assert torch.equal(found, rows[:, [PLACES[place](n, size) for n in range(3 * size)]])


@pytest.mark.parametrize("at_start", [True, False], ids=["first", "last"])
@pytest.mark.parametrize("pitch", [2, 7, 1000])
def test_lanes_of_different_rows(pitch: int, at_start: bool) -> None:
    """A stride apart, few and many elements."""
    text = """def f(float(M, N) A) -> (O) {
        O(n, m) = A(m > 0 ? m - 1 : M - 1, n) where m in 0:M
    }"""
    rows = torch.arange(2.0 * pitch).reshape(2, pitch)
    for a in (fenced(rows, at_start), fenced(rows[:, :2], at_start)):
        found = tc.define(text, namespace="tc_few_lanes_rows").f(a)
        assert torch.equal(found, a.roll(1, 0).t())


def test_vectors_of_128_bits() -> None:
    """Two lanes are a whole vector of the 64-bit types."""
    tests = [__file__, "-k", "test_rows or test_three_times_as_many"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        env={**os.environ, "TC_WITHOUT": "avx"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
