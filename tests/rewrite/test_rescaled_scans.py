"""Sums of exponentials below the largest up to each result go on from the result before, scaled."""

from __future__ import annotations

import pytest
import torch
from derived import checked_gradient

import tensor_comprehensions as tc
from tensor_comprehensions import reference

OWN = tc.MappingOptions().matchLibraryCalls(False)
SIZES = [(3, 8), (5, 16), (4, 17), (7, 31), (2, 100), (1, 333), (20, 9)]

LEVELS = {
    "k <= d": "L(n, d) max=! k <= d ? X(n, k) : X(n, 0) where d in 0:D",
    "k >= d": "L(n, d) max=! k >= d ? X(n, k) : X(n, D - 1) where d in 0:D",
}
OPPOSITE = {"k <= d": "k >= d", "k >= d": "k <= d"}


def check(
    text: str, scans: int, *values: torch.Tensor, rtol: float = 2e-5, atol: float = 0
) -> None:
    """Held to the interpreter; so many statements have to be scans."""
    executor = tc.compile(text, "f", OWN, *values)
    assert executor.explain().count("; in order of ") == scans
    ours, wanted = executor(*values), reference.run(text, "f", *values)
    for a, b in zip(*((x,) if isinstance(x, torch.Tensor) else x for x in (ours, wanted))):
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True)


def definition(condition: str, statement: str, dtype: str = "float") -> str:
    return f"""def f({dtype}(N, D) X, {dtype}(N, D) W) -> (L, O) {{
        {LEVELS[condition]}
        {statement} }}"""


def forward(condition: str, dtype: str = "float") -> str:
    statement = f"O(n, d) +=! {condition} ? W(n, k) * exp(X(n, k) - L(n, d)) : 0"
    return definition(condition, statement, dtype)


def backward(condition: str, dtype: str = "float") -> str:
    opposite = OPPOSITE[condition]
    statement = f"O(n, d) +=! {opposite} ? W(n, k) * exp(X(n, d) - L(n, k)) : 0"
    return definition(condition, statement, dtype)


@pytest.mark.sampled
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("condition", LEVELS)
@pytest.mark.parametrize("text", [forward, backward])
@pytest.mark.parametrize("dtype", ["float", "double"])
def test_sums(size: tuple[int, int], condition: str, text: object, dtype: str) -> None:
    kind = torch.float if dtype == "float" else torch.double
    check(text(condition, dtype), 2, torch.randn(size, dtype=kind), torch.rand(size, dtype=kind))


@pytest.mark.parametrize("text", [forward, backward])
@pytest.mark.parametrize("slope", [-30.0, -1.0, 0.0, 0.1, 1.0, 30.0, 100.0])
def test_rows_that_rise_or_fall(text: object, slope: float) -> None:
    """Levels far above what lies before leave nothing of it, as the exponentials do."""
    x = slope * torch.arange(50.0).repeat(2, 1)
    check(text("k <= d"), 2, x, torch.rand(2, 50))


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("text", [forward, backward])
@pytest.mark.parametrize(
    "values",
    [{0: -INF, 1: -INF}, {5: INF}, {0: INF}, {20: NAN}, {3: -INF, 7: INF, 30: NAN}, {39: INF}],
)
def test_special_values(text: object, values: dict[int, float]) -> None:
    x = torch.randn(3, 40)
    for place, value in values.items():
        x[1, place] = value
    check(text("k <= d"), 2, x, torch.rand(3, 40))


def test_rows_of_nothing() -> None:
    check(forward("k <= d"), 2, torch.full((2, 20), -INF), torch.ones(2, 20))


OTHERS = {
    # The statements, and how many of them are scans.
    "without weights": ("O(n, d) +=! k <= d ? exp(X(n, k) - L(n, d)) : 0", 2),
    "two weights": ("O(n, d) +=! k <= d ? W(n, k) * exp(X(n, k) - L(n, d)) * X(n, k) : 0", 2),
    "another condition": (
        "O(n, d) +=! k <= d && W(n, k) > 0.5 ? exp(X(n, k) - L(n, d)) : 0",
        1,
    ),
    "terms that are sums": (
        "O(n, d) +=! k <= d ? exp(X(n, k) + X(n, e) - L(n, d)) : 0 where e in 0:3",
        1,
    ),
    "levels of the other direction": ("O(n, d) +=! k >= d ? exp(X(n, k) - L(n, d)) : 0", 1),
    "weights of the result": ("O(n, d) +=! k <= d ? W(n, d) * exp(X(n, k) - L(n, d)) : 0", 2),
    "another row's levels": ("O(n, d) +=! k <= d ? exp(X(n, k) - L(N - 1 - n, d)) : 0", 1),
    "levels that are no maxima": (
        "P(n, d) min=! k <= d ? X(n, k) : X(n, 0) where d in 0:D"
        " O(n, d) +=! k <= d ? exp(X(n, k) - P(n, d)) : 0",
        2,
    ),
    "levels that are an argument": ("O(n, d) +=! k <= d ? exp(X(n, k) - W(n, d)) : 0", 1),
    "a product": ("O(n, d) *=! k <= d ? exp(X(n, k) - L(n, d)) : 1", 1),
}


@pytest.mark.parametrize(("statement", "scans"), OTHERS.values(), ids=OTHERS)
def test_other_texts(statement: str, scans: int) -> None:
    x, w = torch.randn(4, 37) / 4, torch.rand(4, 37)
    # Terms of both signs may nearly cancel.
    check(definition("k <= d", statement), scans, x, w, rtol=1e-4, atol=1e-5)


def test_the_largest_up_to_each_needs_no_second_pass() -> None:
    """The first value stands in each prefix, whatever the text says behind the condition."""
    executor = tc.compile(forward("k <= d"), "f", OWN, torch.ones(3, 20), torch.ones(3, 20))
    assert "L.scan" not in executor.explain()


def test_gradients() -> None:
    text = tc.ops.source("cumulative_logsumexp").replace("float", "double")
    text = text[text.index("def cumulative_logsumexp") :].replace("cumulative_logsumexp", "f", 1)
    text = text[: text.index("\n}") + 2]
    source = checked_gradient(text, (3, 11))
    values = [torch.rand(8, 40, dtype=torch.double)] * source.split("->")[0].count("double(")
    explained = tc.compile(source, "f_grad", OWN, *values).explain()
    assert "in order of" in explained
    assert "reduction over" not in explained


def test_levels_are_the_largest_of_the_exponents() -> None:
    """Far above others an exponential is infinite, which scaled by 0 is no number."""
    text = """def f(float(N) X, float(N) Y) -> (L, O) {
        L(d) max=! k <= d ? Y(k) : Y(0) where d in 0:N, k in 0:N
        O(d) +=! k <= d ? exp(X(k) - L(d)) : 0 where d in 0:N, k in 0:N }"""
    x, y = torch.zeros(24), torch.zeros(24)
    x[3], y[10:] = 200, 200
    check(text, 1, x, y)


def test_rows_that_the_result_chooses_are_no_levels() -> None:
    text = """def f(float(N, N) X, float(N) Z, float(N) W) -> (L, O) {
        L(n, d) max=! k >= d ? X(n, k) : X(n, N - 1) where d in 0:N, k in 0:N
        O(d) +=! k <= d ? W(k) * exp(Z(d) - L(d, k)) : 0 where d in 0:N, k in 0:N }"""
    check(text, 1, torch.randn(20, 20), torch.randn(20), torch.rand(20), rtol=1e-4)


def test_levels_of_fewer_terms_are_none() -> None:
    """A largest value of the terms before, or of the first ones, may be below a term's."""
    before = """def f(float(D) X) -> (L, O) {
      L(d) max=! k < d ? X(k) : -1.0 / 0.0 where d in 0:D, k in 0:D
      O(d) +=! k <= d ? exp(X(k) - L(d)) : 0 where d in 0:D, k in 0:D
    }"""
    some = """def f(float(D) X) -> (L, O) {
      L(d) max=! k >= d ? X(k) : -1.0 / 0.0 where d in 0:D, k in 0:8
      O(d) +=! k >= d ? exp(X(k) - L(d)) : 0 where d in 0:D, k in 0:D
    }"""
    for text in (before, some):
        for x in (torch.zeros(20), torch.linspace(-3, 3, 20)):
            ours, wanted = tc.compile(text, "f", OWN, x)(x)[1], reference.run(text, "f", x)[1]
            torch.testing.assert_close(ours, wanted, rtol=2e-5, atol=0, equal_nan=True)


def test_levels_of_what_is_written_again_are_none() -> None:
    text = """def f(float(D) X, float(D) V) -> (L, O) {
      Y(d) = X(d)
      L(d) max=! k <= d ? Y(k) : Y(0) where d in 0:D, k in 0:D
      Y(d) = Y(d) + V(d)
      O(d) +=! k <= d ? exp(Y(k) - L(d)) : 0 where d in 0:D, k in 0:D
    }"""
    x, v = torch.zeros(20), torch.zeros(20)
    x[5:], v[0] = 200.0, 150.0
    ours, wanted = tc.compile(text, "f", OWN, x, v)(x, v)[1], reference.run(text, "f", x, v)[1]
    torch.testing.assert_close(ours, wanted, rtol=2e-5, atol=0, equal_nan=True)
    assert ours[5:].isfinite().all()
