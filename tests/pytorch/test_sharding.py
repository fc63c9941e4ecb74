"""How processes may share the work of a definition, as its text allows.

That each way gives the whole is tried on ops/ by test_features.py and on random programs by fuzz.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

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
        "def g(float(M) a, float(N) b) -> (float(4) c) { c(i) = a(i) + b(i) }\n"
        "def f(float(M) a, float(N) b) -> (c) { c = g(a, b) }",
        # A sum is needed before all of it is there, or has other terms.
        "def f(float(N) a) -> (s, b) { s +=! a(i)  b(i) = a(i) / s }",
        "def f(float(N) a) -> (s) { s +=! a(i)  s = s * 2 }",
        "def f(float(N) a) -> (t) { s +=! a(i)  t = s + 1 }",
        "def f(float(N) a) -> (t) { s +=! a(i)  t = s * s }",
        "def f(float(N) a) -> (t) { s +=! a(i)  t = 1 / s }",
        "def f(float(N) a) -> (t) { s +=! a(i)  t = s > 0 ? s : -s }",
        "def f(float(N) a, float x) -> (t) { s +=! a(i)  t = x > 0 ? s : x }",
        "def f(float(N) a) -> (t) { s +=! a(i)  t = exp(s) }",
        "def f(float(N, 3) a) -> (t) { s(j) +=! a(i, j)  t max=! s(j) }",
        "def f(float(N, 3) a) -> (t) { s(j) +=! a(i, j)  t(j) += s(j) }",
        "def f(float(N) a, float(3) b) -> (t) { s +=! a(i)  t(j) = s + b(j) }",
        "def f(float(N) a) -> (t) { s max=! a(i)  t = 2 * s }",
        "def f(float(N) a) -> (s, t) { t = 2 * s  s +=! a(i) }",
        # Integers wrap around, and what is cut off is lost.
        "def f(int32(N) a) -> (t) { s +=! a(i)  t = s / 2 }",
        "def f(int8(N) a) -> (t) { s +=! a(i)  t = float(s) }",
        "def f(float(N) a) -> (t) { s +=! a(i)  t = int32(s) }",
        "def f(float(N) a, float(3) b) -> (t) { s +=! a(i)  t = b(int32(s)) }",
        "def f(float(N) a, float(4) b) -> (s) { s +=! b(j) where exists a(j) }",
        "def f(float(N) a, float(4) b) -> (s) { s +=! b(j) where x = a(i) }",
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
        ("def f(float(N) a) -> (t) { s +=! a(i)  t = -s / 3 * 2 + s }", ([0], ["sum"])),
        (
            "def f(float(N) a, double x) -> (t) { s +=! a(i)  t = x > 0 ? y : s where y = 2 * s }",
            ([0, -1], ["sum"]),
        ),
        (
            "def f(half(N, 3) a) -> (s, t) { s(j) +=! a(i, j)  t +=! x * s(j) where x = 2.0 }",
            ([0], ["sum", "sum"]),
        ),
    ],
)
def test_what_may_be_split(text: str, way: tuple) -> None:
    def placed(where: object) -> tuple[int, str]:
        return (where, "") if isinstance(where, int) else (-1, where)

    assert ways_of(text) == [tuple([placed(where) for where in side] for side in way)]


def test_a_sum_onto_what_is_there_is_not_repeated() -> None:
    assert ways_of("def f(float(N) a) -> (s) { s += a(i) }") == []


def sized(text: str) -> tuple[str, list]:
    """The body of the text that is told sizes, and which."""
    text, sizes = tc.define(text, namespace="tc_sharding").f.definition.sized_text()
    return " ".join(text.partition("{")[2].partition("}")[0].split()), sizes


@pytest.mark.parametrize(
    ("text", "body", "sizes"),
    [
        ("def f(float(N) a) -> (m) { m +=! a(i) / N }", "m +=! a(i) / whole_N", [(0, 0)]),
        (
            "def f(float(N, 3) a, float(M, N) b) -> (c) { c(i) = M * (a(i, 0) + b.1 + a.1) }",
            "c(i) = whole_M * (a(i, 0) + whole_N + a.1)",
            [(1, 0), (0, 0)],
        ),
        (
            "def f(float(N) a) -> (m) { m +=! a(i) * x where x = 1.0 / N }",
            "m +=! a(i) * x where x = 1.0 / whole_N",
            [(0, 0)],
        ),
        (
            "def f(float(N) a, float whole_N) -> (m) { m +=! a(i) / N * whole_N }",
            "m +=! a(i) / whole_N_1 * whole_N",
            [(0, 0)],
        ),
        # Which elements there are stays what it is.
        ("def f(float(N) a) -> (b) { b(i) = a(N - 1 - i) where i in 0:N }", "", []),
        ("def f(float(N) a) -> (b) { b(i) = i < N - 1 ? a(i + 1) : 0 where i in 0:N }", "", []),
        ("def f(float(4) a) -> (b) { b(i) = a(i) * a.0 }", "", []),
        ("def f(float(N) a) -> (b, c) { b(i) = a(i)  c(i) = b(i) / b.0 }", "", []),
    ],
)
def test_sizes_that_are_values_become_parameters(text: str, body: str, sizes: list) -> None:
    assert sized(text) == (body, sizes)


def test_a_mean_of_parts_is_a_sum_of_means() -> None:
    f = tc.define("def f(float(N) a) -> (m) { s +=! a(i)  m = s / N }", namespace="tc_sharding").f
    a = torch.arange(5.0)
    told = f.derive(f.definition.sized_text()[0], "tc_sized")
    assert told.definition.shardings() == [([(0, ""), (-1, "")], [(-1, "sum")])]
    assert told(a[:3], 5) + told(a[3:], 5) == f(a) == 2


def test_a_dtensor_that_takes_no_rules_stops_no_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.distributed.tensor.experimental as experimental

    monkeypatch.delattr(experimental, "register_sharding")
    with pytest.warns(UserWarning, match="was not told how to share the work of other .*ImportErr"):
        t = tc.define("def other(float(N) a) -> (b) { b(i) = a(i) + 3 }", namespace="tc_sharding")
    assert t.other(torch.zeros(2)).tolist() == [3, 3]


def test_who_asks_whether_dtensor_is_there_takes_no_rules_away() -> None:
    script = """
import importlib.util, torch, tensor_comprehensions as tc
f = tc.define("def f(float(N) a) -> (b) { b(i) = 2 * a(i) }").f
assert importlib.util.find_spec("torch.distributed.tensor") is not None
from torch.distributed.tensor import DTensor
propagator = DTensor._op_dispatcher.sharding_propagator
known = [*propagator.op_strategy_funcs, *propagator.op_to_rules]
print(any("tc" in str(each) and ".f" in str(each).replace("::", ".") for each in known))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr
