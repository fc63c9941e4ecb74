"""Extremes of terms that move with their distance are scans, as are the sums below them."""

from __future__ import annotations

import itertools

import emulated
import pytest
import torch
from exact import FLOATS, integers

import tensor_comprehensions as tc
from tensor_comprehensions import reference

INF, NAN = float("inf"), float("nan")
OWN = tc.MappingOptions().matchLibraryCalls(False)
SIZES = [(9, 3), (40, 8), (100, 33)]
LOWEST, HIGHEST = "-1.0 / 0.0", "1.0 / 0.0"
WHERE = "where t in 0:T, s in 0:T"


def definition(statements: str, results: str = "M", dtype: str = "float") -> str:
    inputs = f"{dtype}(T, C) k, {dtype}(T, C) v, {dtype}(T, C) l, {dtype}(C) w"
    return f"def f({inputs}) -> ({results}) {{ {statements} }}"


def operands(t: int, c: int, dtype: torch.dtype = torch.float) -> tuple[torch.Tensor, ...]:
    level = -torch.rand(t, c, dtype=torch.double).cumsum(0)
    return tuple(
        e.to(dtype) for e in (torch.randn(t, c), torch.randn(t, c), level, torch.rand(c) + 0.1)
    )


def check(text: str, scans: int, *values: torch.Tensor, close: float = 1e-4) -> None:
    """Held to the interpreter in doubles; so many statements have to be scans."""
    executor = tc.compile(text, "f", OWN, *values)
    assert executor.explain().count("; in order of ") == scans
    for name in ("float(", "half(", "bfloat16("):
        text = text.replace(name, "double(")
    ours, wanted = executor(*values), reference.run(text, "f", *(e.double() for e in values))
    for a, b in zip(*((x,) if isinstance(x, torch.Tensor) else x for x in (ours, wanted))):
        torch.testing.assert_close(a.double(), b, rtol=close, atol=close / 10, equal_nan=True)


EXTREMES = {
    # The statement, and how many scans it is.
    "max": (f"max=! s <= t ? k(s, c) - (t - s) * w(c) : {LOWEST}", 1),
    "max of those before": (f"max=! s < t ? k(s, c) - (t - 1 - s) * w(c) : {LOWEST}", 1),
    "min from the end": (f"min=! s >= t ? k(s, c) + float(s - t) * w(c) : {HIGHEST}", 1),
    "at a distance": (f"min=! s >= t + 2 ? k(s, c) + (s - t) * w(c) : {HIGHEST}", 1),
    "the first term elsewhere": ("max=! s <= t ? k(s, c) - (t - s) * w(c) : k(0, c) - t * w(c)", 1),
    "a bound elsewhere": ("max=! s <= t ? k(s, c) - (t - s) * w(c) : 0.25", 1),
    "other conditions": (f"max=! s <= t && v(s, c) > 0 ? k(s, c) - (t - s) * w(c) : {LOWEST}", 1),
    "both directions": ("min=! k(s, c) + abs(t - s) * w(c)", 2),
    "both directions of a maximum": ("max=! k(s, c) - w(c) * abs(s - t)", 2),
    "a rate that changes": (f"max=! s <= t ? k(s, c) + (l(t, c) - l(s, c)) : {LOWEST}", 1),
    "a scaled rate": (f"max=! s <= t ? (l(t, c) - l(s, c)) * w(c) + k(s, c) : {LOWEST}", 1),
    "a decay": (f"max=! s <= t ? k(s, c) * exp(-w(c) * float(t - s)) : {LOWEST}", 1),
    "a peak": ("max=! s <= t ? fabs(k(s, c)) * exp(-w(c) * float(t - s)) : 0", 1),
    "a number's decay": (f"max=! s < t ? k(s, c) * pow(0.5, float(t - s)) : {LOWEST}", 1),
    "a decay that changes": (f"min=! s <= t ? k(s, c) * exp(l(t, c) - l(s, c)) : {HIGHEST}", 1),
    "a decay that may be 0": (f"max=! s < t ? k(s, c) * exp(-500 * w(c) * (t - s)) : {LOWEST}", 1),
    "another index": (f"max=! s <= t ? k(s, e) + v(s, c) - (t - s) * w(c) : {LOWEST}", 1),
    # Others stay what they are.
    "a square": (f"max=! s <= t ? k(s, c) - (t - s) * (t - s) * w(c) : {LOWEST}", 0),
    "a base of any sign": (f"max=! s <= t ? k(s, c) * pow(w(c), float(t - s)) : {LOWEST}", 0),
    "a factor of any sign": (f"max=! s <= t ? v(t, c) * k(s, c) : {LOWEST}", 0),
    "no decay of what stands for others": (
        "max=! s <= t && v(s, c) > 0 ? k(s, c) - (t - s) * w(c) : 0.0",
        0,
    ),
}


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("case", range(len(EXTREMES)), ids=EXTREMES)
def test_extremes(case: int) -> None:
    """Each with one of the sizes."""
    statement, scans = list(EXTREMES.values())[case]
    text = definition(f"M(t, c) {statement} {WHERE}")
    check(text, scans, *operands(*SIZES[case % len(SIZES)]))


@pytest.mark.parametrize(
    ("name", "dtype"), [("max", "half"), ("both directions", "bfloat16"), ("a decay", "double")]
)
def test_types(name: str, dtype: str) -> None:
    statement, scans = EXTREMES[name]
    statement = statement.replace("float(", f"{dtype}(")
    close = {"half": 1e-2, "bfloat16": 1e-1, "double": 1e-12}[dtype]
    text = definition(f"M(t, c) {statement} {WHERE}", dtype=dtype)
    check(text, scans, *operands(40, 8, FLOATS[dtype]), close=close)


def test_integers_wrap_around() -> None:
    text = f"""def f(int32(T) k, int32(T) l) -> (M) {{
        M(t) max=! s <= t ? k(s) + (l(t) - l(s)) : -2147483647 - 1 {WHERE} }}"""
    k, level = (torch.randint(-(2**31), 2**31, (20,), dtype=torch.int32) for _ in range(2))
    executor = tc.compile(text, "f", OWN, k, level)
    assert "in order of" not in executor.explain()
    assert torch.equal(executor(k, level), reference.run(text, "f", k, level))


def no_numbers(t: int, c: int) -> tuple[torch.Tensor, ...]:
    """Columns that begin with some, have one, or end with some."""
    k, v, level, w = operands(t, c)
    for column, number in enumerate((INF, -INF, NAN)):
        k[:5, 3 * column] = k[7, 3 * column + 1] = k[10:, 3 * column + 2] = number
    return k, v, level, w


@pytest.mark.parametrize("name", ["max of those before", "both directions", "other conditions"])
def test_extremes_of_no_numbers(name: str) -> None:
    statement, scans = EXTREMES[name]
    check(definition(f"M(t, c) {statement} {WHERE}"), scans, *no_numbers(20, 10))


def test_small_steps_are_not_lost() -> None:
    """Each is less than half of the last digit of what it is subtracted from."""
    statement, scans = EXTREMES["max"]
    k = torch.full((1000, 4), -INF)
    k[0] = 1000.0
    w = torch.full((4,), 2e-5)
    check(definition(f"M(t, c) {statement} {WHERE}"), scans, k, k, k, w, close=1e-7)


LEVELS = {
    "up to": f"M(t, c) max=! s <= t ? k(s, c) - (t - s) * w(c) : {LOWEST} {WHERE}",
    "before": f"M(t, c) max=! s < t ? k(s, c) - (t - 1 - s) * w(c) : {LOWEST} {WHERE}",
    "from the end": f"M(t, c) max=! s >= t ? k(s, c) - (s - t) * w(c) : {LOWEST} {WHERE}",
    "changing": f"M(t, c) max=! s <= t ? k(s, c) + (l(t, c) - l(s, c)) : {LOWEST} {WHERE}",
}
BOUND = "N(t, c) = max(M(t, c), w(c) + k(t, c))"


def sums(level: str, subtracted: str = "M(t, c)", pairs: bool = False) -> str:
    """Over terms below the level, and over results, as derivatives have them: scans with 1, 1 and,
    where distances multiply the terms, 2 steps for each element."""
    condition, exponent = LEVELS[level].split("max=! ")[1].split(f" : {LOWEST}")[0].split(" ? ")
    exponential = f"exp({exponent} - {subtracted})"
    if pairs:
        return f"P(c) +=! {condition} ? v(t, c) * {exponential} * v(s, c) * float(t - s) : 0"
    return f"""
        P(t, c) +=! {condition} ? {exponential} * v(s, c) : 0
        Q(s, c) +=! {condition} ? v(t, c) * {exponential} : 0
        R(t, c) +=! {condition} ? (t - s) * {exponential} * v(t, c) : 0"""


@pytest.mark.parametrize(("level", "size"), list(zip(LEVELS, itertools.cycle([(9, 3), (50, 20)]))))
def test_sums_below_levels(level: str, size: tuple[int, int]) -> None:
    check(definition(f"{LEVELS[level]} {sums(level)}", "M, P, Q, R"), 5, *operands(*size))


@pytest.mark.parametrize("bound", [BOUND, ""])
def test_sums_below_what_is_above_the_level(bound: str) -> None:
    subtracted = "N(t, c)" if bound else "max(w(c) + k(t, c), M(t, c))"
    text = definition(f"{LEVELS['before']} {bound} {sums('before', subtracted)}", "M, P, Q, R")
    check(text, 5, *operands(50, 8))


def test_sums_over_pairs() -> None:
    text = definition(f"{LEVELS['up to']} {sums('up to', pairs=True)}", "M, P")
    check(text, 3, *operands(120, 33))


@pytest.mark.parametrize("bound", [BOUND, ""])
def test_sums_of_no_numbers(bound: str) -> None:
    """Padding is nothing where something else is above it, and no number by itself."""
    subtracted = "N(t, c)" if bound else "M(t, c)"
    text = definition(f"{LEVELS['before']} {bound} {sums('before', subtracted)}", "M, P, Q, R")
    check(text, 5, *no_numbers(20, 10))


def test_keys_far_apart() -> None:
    """Exponentials that would be infinite, or 0, by themselves."""
    k, v, level, w = operands(60, 4)
    k += torch.tensor([-50.0, -3.0, 3.0, 50.0]) * torch.arange(60.0)[:, None]
    text = definition(f"{LEVELS['up to']} {sums('up to')}", "M, P, Q, R")
    check(text, 5, k, v, level, w, close=1e-3)


def test_levels_of_other_steps_are_none() -> None:
    statement = "P(t, c) +=! s <= t ? exp(k(s, c) - (t - s) * 2 * w(c) - M(t, c)) * v(s, c) : 0"
    check(definition(f"{LEVELS['up to']} {statement}", "M, P"), 1, *operands(40, 8))


def test_levels_that_are_written_again_are_none() -> None:
    text = f"{LEVELS['up to']} M(t, c) = M(t, c) + v(t, c) {sums('up to')}"
    check(definition(text, "M, P, Q, R"), 1, *operands(40, 8))


def test_distance_transforms() -> None:
    """Exact where numbers are integers, as the distance to the next one of a mask is."""
    text = definition(f"M(t, c) min=! k(s, c) + abs(t - s) * w(c) {WHERE}")
    k, w = integers(60, 8) * 7, integers(8).abs()
    distance = (torch.arange(60)[:, None] - torch.arange(60)).abs()[..., None]
    executor = tc.compile(text, "f", OWN, k, k, k, w)
    assert torch.equal(executor(k, k, k, w), (k + distance * w).amin(1))


def test_on_a_gpu() -> None:
    text = definition(f"{LEVELS['before']} {BOUND} {sums('before', 'N(t, c)')}", "M, P, Q, R")
    values = operands(40, 6)
    executor = tc.compile(text, "f", None, *values, target="cuda:sm_90")
    assert executor.explain().count("in order of") == 5
    results = tuple(torch.full((40, 6), NAN) for _ in range(4))
    emulated.run(executor, values, results, initial=0)
    wanted = reference.run(text.replace("float(", "double("), "f", *(e.double() for e in values))
    for ours, right in zip(results, wanted):
        torch.testing.assert_close(ours.double(), right, rtol=1e-4, atol=1e-5)
