"""How processes may share the work of a definition, as its text allows.

That each way gives the whole is tried on ops/ by test_features.py and on random programs by fuzz.
"""

from __future__ import annotations

import pytest

import tensor_comprehensions as tc


def ways_of(text: str) -> list:
    return tc.define(text, namespace="tc_sharding").f.definition.shardings()


@pytest.mark.parametrize(
    "text",
    [
        # The number of terms counts.
        "def f(float(N) a) -> (m) { m +=! a(i) / N }",
        "def f(float(N) a) -> (m) { m +=! a(i) * a.0 }",
        "def f(float(N) a) -> (s) { s +=! 1.0 where i in 0:N }",
        # So does the place, or a neighbour.
        "def f(float(N) a) -> (b) { b(i) = a(i) * i }",
        "def f(float(N) a) -> (b) { b(i) = a(i) - a(i + 1) }",
        "def f(float(N) a) -> (b) { b(i) = a(i) where i in 0:N - 1 }",
        "def f(float(N) a) -> (b) { b(i) = a(i) where i in 1:N }",
        "def f(float(N) a) -> (p) { p argmax=! a(i) }",
        "def f(float(N) a, int32(M) t) -> (b) { b(i, j) = a(t(0)) where i in 0:3, j in 0:M + 1 }",
        # A size is fixed, or is that of what is not split with it.
        "def f(float(4) a) -> (b) { b(i) = a(i) }",
        "def f(float(N) a, float(N) b) -> (c) { c(i, j) = a(i) * b(j) }",
        "def f(float(N, N) a) -> (t) { t +=! a(i, i) }",
        "def f(float(N, N) a) -> (t) { t(i, j) = a(j, i) }",
        # A sum is needed before all of it is there, or has other terms.
        "def f(float(N) a) -> (s, b) { s +=! a(i)  b(i) = a(i) / s }",
        "def f(float(N) a) -> (s) { s +=! a(i)  s = s * 2 }",
        "def f(float(N) a, float(4) b) -> (s) { s +=! b(j) where exists a(j) }",
        "def f(bool(N) a) -> (s) { s ||=! a(i) }",
    ],
)
def test_what_must_stay_whole(text: str) -> None:
    assert ways_of(text) == []


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("def f(float(N) a) -> (b) { b(i) = a(i) where i in 0:N }", ([0], [0])),
        ("def f(float(N) a) -> (s) { s +=! a(i) }", ([0], ["sum"])),
        ("def f(float(N) a) -> (s) { s *=! a(i) }", ([0], ["product"])),
        ("def f(float(N) a) -> (s) { s max=! a(i) }", ([0], ["max"])),
        ("def f(float(N) a) -> (s) { s min=! a(i) }", ([0], ["min"])),
        ("def f(float(M) a, int32(N) t) -> (b) { b(i) = a(t(i)) }", ([-1, 0], [0])),
        ("def f(float(N, 4) a) -> (p) { p(i) argmax=! a(i, j) }", ([0], [0])),
        ("def f(float(N) a, float b) -> (c) { t(i) = exp(a(i))  c(i) = t(i) * b }", ([0, -1], [0])),
        ("def f(float(N) a) -> (s) { s(i) += a(i) }", ([0], [0])),
    ],
)
def test_what_may_be_split(text: str, way: tuple) -> None:
    def placed(where: object) -> tuple[int, str]:
        return (where, "") if isinstance(where, int) else (-1, where)

    assert ways_of(text) == [tuple([placed(where) for where in side] for side in way)]


def test_a_sum_onto_what_is_there_is_not_repeated() -> None:
    assert ways_of("def f(float(N) a) -> (s) { s += a(i) }") == []
