"""Statements change places where that lets them share their loops.

Values are small integers, so that sums are exact in every order.
"""

from __future__ import annotations

import re

import pytest
import torch
from exact import integers

import tensor_comprehensions as tc
from tensor_comprehensions import reference

OWN = tc.MappingOptions().matchLibraryCalls(False)


def test_passes_become_neighbours() -> None:
    """The second sum over X waits for nothing: both share the loops of the first."""
    text = """def f(float(N, H) X, float(N, H) Y) -> (O, P, Q) {
        O(n) +=! X(n, h) * Y(n, h)
        Q(h) +=! Y(n, h)
        P(n) +=! X(n, h)
    }"""
    x, y = integers(80, 100), integers(80, 100)
    executor = tc.compile(text, "f", OWN, x, y)
    order = re.findall(r"S\d +([OPQ])\(", executor.explain())
    assert order == ["O", "P", "Q"]
    for result, wanted in zip(executor(x, y), ((x * y).sum(1), x.sum(1), y.sum(0))):
        assert torch.equal(result, wanted)


def test_passes_stay_behind_what_they_need() -> None:
    text = """def f(float(N, H) X) -> (O, Q, P) {
        O(n) +=! X(n, h)
        Q(n) = O(n) * 2
        P(n) +=! X(n, h) * Q(n)
    }"""
    x = integers(80, 100)
    executor = tc.compile(text, "f", OWN, x)
    _, q, p = executor(x)
    assert torch.equal(p, x.sum(1) * q)


def groups(text: str, *values: object, options: tc.MappingOptions = OWN) -> list[list[str]]:
    """What each group's statements write, for a kernel that computes what the text says."""
    executor = tc.compile(text, "f", options, *values)
    results, wanted = executor(*values), reference.run(text, "f", *values)
    for result, value in zip(*(r if isinstance(r, tuple) else (r,) for r in (results, wanted))):
        assert torch.equal(result, value)
    return [re.findall(r" S\d+ +(\w+)\(", g) for g in executor.explain().split("\ngroup ")[1:]]


BETWEEN = """def f(float(N) X, float(N) Y, float s, float(1) t) -> (O) {{
    A(n) = fabs(X(n) - Y(n))
    {number}
    B(n) = A(n) * z
    O(n) = B(n) + A(n) * B(n)
}}"""


@pytest.mark.parametrize(
    "number",
    ["z = t(0) + s", "z +=! t(k) where k in 0:1", "z = t(0)  z = z * s", "y = s * 2  z = y + t(0)"],
    ids=["assigned", "summed", "changed", "in two steps"],
)
def test_numbers_come_first(number: str) -> None:
    """What is before and behind them is one pass."""
    values = integers(5000), integers(5000), 2.0, integers(1)
    found = groups(BETWEEN.format(number=number), *values)
    assert found[-1][0] == "A" and found[-1][-1] == "O"


@pytest.mark.parametrize(
    "number",
    ["z = A(3)", "z +=! A(n)", "z = t(0)  A(n) = z * A(n)  z = z + 1"],
    ids=["of an element", "of a sum", "changed in between"],
)
def test_numbers_stay_behind_what_they_need(number: str) -> None:
    groups(BETWEEN.format(number=number), integers(5000), integers(5000), 2.0, integers(1))


def test_numbers_that_are_read_before_they_change() -> None:
    text = """def f(float(N) X, float s) -> (O, P) {
        z = s
        O(n) = X(n) * z
        z = s + 1
        P(n) = O(n) * z
    }"""
    groups(text, integers(5000), 3.0)


def test_options_about_loops_change_nothing_here() -> None:
    values = integers(500), integers(500), 2.0, integers(1)
    text = BETWEEN.format(number="z = t(0)")
    naive = groups(text, *values, options=tc.MappingOptions("naive"))
    assert naive == groups(text, *values)
