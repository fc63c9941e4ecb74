"""Derivatives of extremes whose terms move with their distance take a step for every element."""

from __future__ import annotations

import itertools

import pytest
import torch
from derived import checked_gradient
from exact import FLOATS, integers

import tensor_comprehensions as tc

INF = float("inf")
OWN = tc.MappingOptions().matchLibraryCalls(False)
WHERE = "where t in 0:T, s in 0:T"
_namespaces = itertools.count()

#: Statements, and their terms by keys, rates, levels and distances t - s.
STEPPED = {
    "max": (
        "max=! s <= t ? k(s, c) - (t - s) * w(c) : -1.0 / 0.0",
        lambda k, w, _, d: torch.where(d >= 0, k - d * w, -INF),
    ),
    "max of those before": (
        "max=! s < t ? k(s, c) - (t - 1 - s) * w(c) : -1.0 / 0.0",
        lambda k, w, _, d: torch.where(d >= 1, k - (d - 1) * w, -INF),
    ),
    "min from the end": (
        "min=! s >= t ? k(s, c) + (s - t) * w(c) : 1.0 / 0.0",
        lambda k, w, _, d: torch.where(d <= 0, k - d * w, INF),
    ),
    "min at a distance": (
        "min=! t + 2 <= s ? (s - t) * w(c) + k(s, c) : 1.0 / 0.0",
        lambda k, w, _, d: torch.where(d <= -2, k - d * w, INF),
    ),
    "rates that change": (
        "max=! s <= t ? k(s, c) + w(c) * (l(t, c) - l(s, c)) : -1.0 / 0.0",
        lambda k, w, level, d: torch.where(d >= 0, k + w * (level[:, None] - level), -INF),
    ),
    "both directions": (
        "min=! k(s, c) + abs(t - s) * w(c)",
        lambda k, w, _, d: k + d.abs() * w,
    ),
    "both directions of a maximum": (
        "max=! k(s, c) - w(c) * abs(s - t)",
        lambda k, w, _, d: k - d.abs() * w,
    ),
}


def definition(statement: str, dtype: str = "float") -> str:
    return f"""def f({dtype}(T, C) k, {dtype}(C) w, {dtype}(T, C) l) -> (M) {{
        M(t, c) {statement} {WHERE} }}"""


def gradients(text: str, values: tuple, received: torch.Tensor) -> tuple[torch.Tensor, ...]:
    f = tc.make_autograd(tc.define(text, namespace=f"tc_stepped_{next(_namespaces)}").f)
    values = [x.clone().requires_grad_() for x in values]
    return torch.autograd.grad(f(*values), values, received, allow_unused=True)


def wanted(name: str, values: tuple, received: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Those of torch.amax and torch.amin, of which equal terms have equal shares. A result without
    terms has no derivative."""
    statement, terms = STEPPED[name]
    values = [x.double().requires_grad_() for x in values]
    places = torch.arange(values[0].shape[0])
    all_terms = terms(*values, (places[:, None] - places)[..., None])
    extreme = all_terms.amax(1) if "max=" in statement else all_terms.amin(1)
    none = (all_terms == (-INF if "max=" in statement else INF)).all(1)
    received = torch.where(none, 0, received.double())
    return torch.autograd.grad(extreme, values, received, allow_unused=True)


def check(name: str, dtype: str, values: tuple) -> None:
    received = integers(*values[0].shape).to(FLOATS[dtype])
    ours = gradients(definition(STEPPED[name][0], dtype), values, received)
    close = {"half": 2e-2, "bfloat16": 1e-1}.get(dtype, 1e-4)
    for a, b in zip(ours, wanted(name, values, received)):
        if a is not None:
            torch.testing.assert_close(a.double(), b, rtol=close, atol=close)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("case", range(len(STEPPED)), ids=STEPPED)
def test_gradients(case: int) -> None:
    """Each at one of the sizes."""
    t, c = [(40, 5), (3, 2), (17, 9), (1, 1)][case % 4]
    check(list(STEPPED)[case], "float", (torch.randn(t, c), torch.rand(c), torch.randn(t, c)))


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("case", range(len(STEPPED)), ids=STEPPED)
def test_equal_terms_have_equal_shares(case: int) -> None:
    """Each of one type."""
    dtype = list(FLOATS)[case % len(FLOATS)]
    values = (integers(24, 6), integers(6).abs(), integers(24, 6))
    check(list(STEPPED)[case], dtype, tuple(x.to(FLOATS[dtype]) for x in values))


def is_linear(source: str, entry_point: str, *values: torch.Tensor) -> bool:
    """Without a sum over pairs of places in time, of which there are 40."""
    explained = tc.compile(source, entry_point, OWN, *values).explain()
    sums = [line for line in explained.splitlines() if "reduction over" in line]
    return "in order of" in explained and all(line.count(" 40") < 2 for line in sums)


@pytest.mark.parametrize("name", ["max of those before", "rates that change", "both directions"])
def test_all_sums_are_scans(name: str) -> None:
    source = tc.grad_source(definition(STEPPED[name][0]))
    inputs = source.split("->")[0].split("float(")[1:]
    values = [torch.ones(40, 20) if "T, C" in each else torch.ones(20) for each in inputs]
    assert is_linear(source, "f_grad", *values)


def test_gradients_have_gradients() -> None:
    generator = torch.Generator().manual_seed(3)
    values = (
        torch.randn(size, generator=generator, dtype=torch.double).requires_grad_()
        for size in ((7, 2), (2,))
    )
    text = definition(STEPPED["max"][0], "double").replace(", double(T, C) l", "")
    checked_gradient(text, *values)


def test_padding() -> None:
    """Results of nothing but padding are passed no gradient here: whatever shares it is none."""
    k, received = torch.randn(12, 3), integers(12, 3)
    k[:4, 0] = k[5, 1] = k[9:, 2] = -INF
    received[:4, 0] = 0
    values = (k, torch.rand(3), torch.randn(12, 3))
    ours = gradients(definition(STEPPED["max"][0]), values, received)
    for a, b in zip(ours[:2], wanted("max", values, received)):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-4)


def test_last_bits_lose_no_gradient() -> None:
    """An extreme that is stepped to may be another number than its term at that distance."""
    t, c = 300, 16
    k = torch.randn(t, c)
    k[0] += 20
    values = (k, torch.rand(c) * 0.03, torch.randn(t, c))
    received = torch.ones(t, c)
    d_k, d_w, _ = gradients(definition(STEPPED["max"][0]), values, received)
    torch.testing.assert_close(d_k.sum(0), received.sum(0))
    torch.testing.assert_close(d_w, -d_k[0] * (d_k[0] - 1) / 2, rtol=1e-3, atol=1e-3)


def test_time_mixing() -> None:
    """Its values are held to a loop in tests/operators."""
    text = tc.ops.source("wkv")
    text = text[text.index("def wkv") :]
    source = tc.grad_source(text[: text.index("\n}") + 2])
    inputs = source.split("->")[0].split("float(")[1:]
    values = [torch.rand((2, 40, 16) if "B" in each else (16,)) for each in inputs]
    assert is_linear(source, "wkv_grad", *values)
