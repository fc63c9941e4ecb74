"""The last columns of a sum, where they would leave most of a vector idle, are sums of their own.

Values are small integers, so that sums are exact in every order.
"""

from __future__ import annotations

import pytest
import torch
from exact import DTYPES, integers
from explained import notes

import tensor_comprehensions as tc

MACHINE = "vector_bits=512,vector_registers=32,cores=2,cache_bytes=1048576,library_rate=1"


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", MACHINE)


def einsum_text(equation: str, dtype: str = "float") -> str:
    operands, result = equation.split("->")
    subscripts = operands.split(",")
    parameters = [f"{dtype}({','.join(s.upper())}) T{i}" for i, s in enumerate(subscripts)]
    product = " * ".join(f"T{i}({','.join(s)})" for i, s in enumerate(subscripts))
    return f"def f({', '.join(parameters)}) -> (Z) {{ Z({','.join(result)}) +=! {product} }}"


def operands(equation: str, sizes: dict[str, int], dtype: str = "float") -> list[torch.Tensor]:
    subscripts = equation.split("->")[0].split(",")
    return [integers(*[sizes[i] for i in s], dtype=DTYPES[dtype]) for s in subscripts]


def is_split(executor: tc.Executor) -> bool:
    return "_rest" in executor.explain()


def copies(executor: tc.Executor) -> list[str]:
    return [
        part for line in notes(executor.explain(), "").get("added", []) for part in line.split(", ")
    ]


SPLIT = {
    "across": ("bik,bkj->bij", {"b": 3, "i": 50, "k": 64, "j": 81}, ["T1.columns"]),
    "several": ("ik,kj->ij", {"i": 100, "k": 256, "j": 35}, ["T1.columns"]),
    "along": ("ik,jk->ij", {"i": 100, "k": 256, "j": 34}, []),
    "results": ("bki,bkj->bij", {"b": 3, "i": 49, "k": 64, "j": 49}, []),
    "two operands": ("ik,kj,kj->ij", {"i": 100, "k": 256, "j": 33}, ["T1.columns", "T2.columns"]),
}


@pytest.mark.parametrize(("equation", "sizes", "made"), SPLIT.values(), ids=SPLIT)
@pytest.mark.parametrize("dtype", ["float", "double"])
def test_columns_that_fill_no_vector(
    equation: str, sizes: dict[str, int], made: list[str], dtype: str
) -> None:
    values = operands(equation, sizes, dtype)
    text = einsum_text(equation, dtype)
    executor = tc.compile(text, "f", None, *values)
    if dtype == "float":
        assert is_split(executor)
        assert copies(executor) == made
    wanted = torch.einsum(equation, *[v.double() for v in values])
    assert torch.equal(executor(*values).double(), wanted)


def test_adds_to_what_is_there() -> None:
    text = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) += A(m,k) * B(k,n) }"
    a, b, c = integers(100, 256), integers(256, 33), integers(100, 33)
    wanted = c.double() + a.double() @ b.double()
    executor = tc.compile(text, "f", None, a, b)
    assert is_split(executor)
    executor(a, b, outputs=c)
    assert torch.equal(c.double(), wanted)


def test_ranges_that_start_elsewhere() -> None:
    text = """def f(float(M,K) A, float(K,N) B) -> (C) {
      C(m,n) +=! A(m,k) * B(k,n) where n in 7:56
    }"""
    a, b = integers(100, 256), integers(256, 60)
    executor = tc.compile(text, "f", None, a, b)
    assert is_split(executor)
    assert torch.equal(executor(a, b), a @ b[:, 7:56])


def test_what_is_no_number_stays_none() -> None:
    """0 times infinity is none, in the columns at the end as in the others."""
    text = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * (B(k,n) * 0.0) }"
    a, b = integers(100, 256), integers(256, 33)
    b[3, 1] = b[3, 32] = float("inf")
    executor = tc.compile(text, "f", None, a, b)
    assert is_split(executor)
    wanted = torch.zeros(100, 33)
    wanted[:, [1, 32]] = float("nan")
    torch.testing.assert_close(executor(a, b), wanted, equal_nan=True)


def test_windows() -> None:
    text = """def f(float(N,C,W) I, float(C,K,F) S) -> (O) {
      O(f,n,w) +=! I(n,c,w+k) * S(c,k,f)
    }"""
    image, filters = integers(2, 8, 51), integers(8, 3, 32)
    wanted = torch.nn.functional.conv1d(image, filters.permute(2, 0, 1).contiguous())
    actual = tc.compile(text, "f", None, image, filters)(image, filters)
    assert torch.equal(actual, wanted.transpose(0, 1))


@pytest.mark.parametrize(
    ("equation", "sizes"),
    [
        ("ik,kj->ij", {"i": 100, "k": 256, "j": 32}),  # whole vectors
        ("ik,kj->ij", {"i": 100, "k": 256, "j": 13}),  # no whole one
        ("ik,kj->ij", {"i": 100, "k": 256, "j": 44}),  # three quarters of one
        ("ik,kj->ij", {"i": 100, "k": 12, "j": 33}),  # sums shorter than a vector
        ("ki,kj->ij", {"i": 96, "k": 256, "j": 33}),  # rows fill vectors
        ("ik,kj->ij", {"i": 2000, "k": 2000, "j": 33}),  # rows would come from memory again
    ],
    ids=["whole", "narrow", "wide", "short", "rows", "large"],
)
def test_left_alone(equation: str, sizes: dict[str, int]) -> None:
    subscripts = equation.split("->")[0].split(",")
    values = [torch.zeros([sizes[i] for i in s]) for s in subscripts]
    assert not is_split(tc.compile(einsum_text(equation), "f", None, *values))


@pytest.mark.parametrize(
    "text",
    [
        """def f(float(M,K) A, float(K,N) B) -> (C, D) {
          C(m,n) +=! A(m,k) * B(k,n)
          D(m,n) = fmax(C(m,n), 0.0)
        }""",
        """def f(float(M,K) A, float(K,N) B) -> (C, D) {
          D(k,n) = exp(B(k,n))
          C(m,n) +=! A(m,k) * D(k,n)
        }""",
    ],
    ids=["consumer", "producer"],
)
def test_what_may_share_a_pass_stays_whole(text: str) -> None:
    assert not is_split(tc.compile(text, "f", None, torch.zeros(100, 256), torch.zeros(256, 33)))


def test_the_last_columns_of_an_expanded_operand() -> None:
    """A dimension without a stride has an index in the subscripts."""
    text = """def f(float(B, I, K) X, float(B, K, J) Y) -> (Z) {
        Z(b, i, j) +=! X(b, i, k) * Y(b, k, j)
    }"""
    x, y = integers(3, 50, 64), integers(64, 81).expand(3, 64, 81)
    assert torch.equal(
        tc.compile(text, "f", tc.MappingOptions().matchLibraryCalls(False), x, y)(x, y), x @ y
    )
