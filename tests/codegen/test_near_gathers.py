"""Reads at quotients and remainders: loads of neighbours and a permutation, where a gather was."""

from __future__ import annotations

import pytest
import torch
from exact import integers

import tensor_comprehensions as tc
from tensor_comprehensions import reference


def compiled(text: str, *values: object) -> tc.Executor:
    return tc.compile(text, "f", None, *values)


# Of a row of X, which has 100 elements.
PLACES = {
    "a third": "n, i / 3",
    "a third, from two on": "n, (i + 2) / 3",
    "a third, from the third on": "n, i / 3 + 3",
    "halves": "n, i / 2",
    "a remainder": "n, i % 5",
    "quotient and remainder": "n, i / 4 + 20 * (i % 4)",
    "far apart": "n, 90 * (i % 2) + i / 60",
    "backwards": "n, 99 - i / 3",
    "of sevenths": "n, i / 7",
    "of ninths": "n, i / 9",
    "of thirds and halves": "n, i / 6 + i % 3 + i % 2",
    "rows in turn": "(n + i) % 2, i / 2",
    "columns": "i % 6, n",
}


@pytest.mark.parametrize("length", [1, 7, 16, 48, 53, 96, 120])
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_places(place: str, length: int) -> None:
    text = f"def f(float(N, L) X) -> (O) {{ O(n, i) = X({place}) where n in 0:6, i in 0:{length} }}"
    x = torch.arange(600.0).reshape(6, 100)
    assert torch.equal(compiled(text, x)(x), reference.run(text, "f", x))


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("terms", [1, 2, 3])
def test_rows_backwards(terms: int, stride: int) -> None:
    """Every other lane of neighbours that are taken from the last to the first."""
    text = "def f(double(K) A, float(M, K) B) -> (O) { O(i) +=! max(A(k), B(3 - i, k)) }"
    a = torch.arange(float(terms), dtype=torch.float64)
    b = torch.as_strided(torch.arange(20.0), (4, terms), (stride, 1))
    wanted = torch.maximum(a, b.flip(0).double()).sum(1)
    assert torch.equal(compiled(text, a, b)(a, b), wanted)


@pytest.mark.parametrize("first", [-5, 1, 3])
def test_ranges_that_do_not_begin_at_zero(first: int) -> None:
    text = f"""def f(float(N, L) X) -> (O) {{
        O(n, i) = X(n, (i + 5) / 3) where i in {first}:{first + 100}
    }}"""
    x = torch.arange(600.0).reshape(6, 100)
    assert torch.equal(compiled(text, x)(x), reference.run(text, "f", x))


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int64, torch.double, torch.half, torch.bool], ids=str
)
def test_types(dtype: torch.dtype) -> None:
    name = {torch.uint8: "uint8", torch.int64: "int64", torch.bool: "bool"}.get(
        dtype, "double" if dtype == torch.double else "half"
    )
    text = f"def f({name}(N, L) X) -> (O) {{ O(n, i) = X(n, i / 3) where i in 0:290 }}"
    x = (torch.arange(600).reshape(6, 100) % 113).to(dtype)
    assert torch.equal(compiled(text, x)(x), x.repeat_interleave(3, 1)[:, :290])


def test_the_last_elements_are_not_read_past() -> None:
    """Six elements are needed of the sixteen that a vector has: the last ones end a page."""
    text = "def f(float(N) X) -> (O) { O(i) = X(i / 3) where i in 0:3 * N }"
    size = 2**18  # a multiple of a page, in memory of its own
    x = torch.arange(float(size))
    assert torch.equal(compiled(text, x)(x), x.repeat_interleave(3))


@pytest.mark.parametrize(
    ("value", "sizes"),
    [
        ("X(n, i / 3)", (8, 100)),
        ("X(n, i / 2 + 150 * (i % 2))", (8, 300)),
        ("X(n, i / 3) * Y(n, i)", (8, 100)),
    ],
)
def test_nothing_is_gathered(value: str, sizes: tuple[int, ...]) -> None:
    text = f"def f(float(N, L) X, float(N, M) Y) -> (O) {{ O(n, i) = {value} where i in 0:288 }}"
    x, y = integers(*sizes), integers(8, 288)
    executor = compiled(text, x, y)
    assert "gather" not in executor.assembly
    assert torch.equal(executor(x, y), reference.run(text, "f", x, y))


@pytest.mark.parametrize("length", [13, 14, 28, 60])
@pytest.mark.parametrize("value", ["X(n, 2 * i)", "X(n, 2 * i + 1)", "X(n, i / 2)", "X(n, 3 * i)"])
def test_ends_of_rows(value: str, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lanes that a row's last vector leaves off are the last ones: the others are loads of
    neighbours, too. Rows of 14 in steps of 2 took 52 cycles when lanes were loaded one by one."""
    monkeypatch.setenv("TC_MACHINE", "vector_bits=512,library_rate=1")
    text = f"""def f(float(N, L) X, float(N, M) Y) -> (O) {{
        O(n, i) +=! {value} * Y(k, i) where i in 0:{length}, k in 0:3
    }}"""
    options = tc.MappingOptions().cluster("S0").registers()
    x, y = integers(8, 3 * length), integers(8, length)
    executor = tc.compile(text, "f", options, x, y)
    assert torch.equal(executor(x, y), reference.run(text, "f", x, y))
    # Places of their own would be taken out of a vector.
    assert "gather" not in executor.assembly and "vpextr" not in executor.assembly


@pytest.mark.parametrize("length", [13, 14, 28])
def test_ends_of_rows_are_not_read_past(length: int) -> None:
    """The last element ends a page."""
    text = f"def f(float(N, L) X) -> (O) {{ O(n, i) = X(n, 2 * i) where i in 0:{length} }}"
    pitch, width = 64, 2 * length - 1
    x = torch.arange(float(2**18)).view(-1, pitch)[:, pitch - width :]
    assert torch.equal(compiled(text, x)(x), x[:, ::2])
