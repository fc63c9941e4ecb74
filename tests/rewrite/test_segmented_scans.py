"""Scans that begin anew: sums over the terms for which what only grows, or only falls, is what it
is for the result.

Values are small integers, so that sums are exact in every order.
"""

from __future__ import annotations

import pytest
import torch
from exact import integers

import tensor_comprehensions as tc
from tensor_comprehensions import reference

OWN = tc.MappingOptions().matchLibraryCalls(False)
SIZES = [(3, 8), (5, 16), (4, 17), (7, 31), (2, 100), (1, 333), (20, 9)]

# Numbers the runs of equal keys, from the first element on or from the last.
RUNS = {
    "k <= d": "R(n, d) +=! k <= d ? (k > 0 && Y(n, k) != Y(n, k - 1) ? 1 : 0) : 0",
    "k >= d": "R(n, d) +=! k >= d ? (k < D - 1 && Y(n, k) != Y(n, k + 1) ? 1 : 0) : 0",
}
REDUCTIONS = {"+=!": "0", "*=!": "1", "max=!": "-1.0 / 0.0", "min=!": "1.0 / 0.0"}


def scans_of(executor: tc.Executor) -> int:
    return executor.explain().count("; in order of ")


def check(text: str, scans: int, *values: torch.Tensor) -> None:
    """Held to the interpreter; so many statements have to be scans."""
    executor = tc.compile(text, "f", OWN, *values)
    assert scans_of(executor) == scans
    ours, wanted = executor(*values), reference.run(text, "f", *values)
    for a, b in zip(*((x,) if isinstance(x, torch.Tensor) else x for x in (ours, wanted))):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


def rows_with_runs(size: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Factors of 1, -1 and 2, whose products are exact, and keys that often stay."""
    x = integers(*size) % 3
    return torch.where(x == 0, -1.0, x), torch.randint(0, 2, size, dtype=torch.int32)


@pytest.mark.sampled
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("condition", RUNS)
@pytest.mark.parametrize("dtype", ["float", "double", "int32", "half"])
def test_reductions(size: tuple[int, int], reduction: str, condition: str, dtype: str) -> None:
    if dtype == "int32" and reduction in ("max=!", "min=!"):
        pytest.skip("no infinity")
    x, keys = rows_with_runs(size)
    types = {"float": torch.float, "double": torch.double, "int32": torch.int32}
    text = f"""def f({dtype}(N, D) X, int32(N, D) Y) -> (R, O) {{
        {RUNS[condition]} where d in 0:D, k in 0:D
        O(n, d) {reduction} {condition} && R(n, k) == R(n, d) ? X(n, k) : {REDUCTIONS[reduction]}
    }}"""
    if reduction == "*=!":
        x = torch.where(x == 2, 1.0, x)
    check(text, 2, x.to(types.get(dtype, torch.half)), keys)


TEXTS = {
    # The text, and how many of its statements are scans.
    "the other way round": (
        """R(n, d) +=! k <= d ? (k > 0 && Y(n, k) != Y(n, k - 1) ? 1 : 0) : 0
        where k in 0:D, d in 0:D
        O(n, d) +=! k >= d && R(n, d) == R(n, k) ? X(n, k) : 0""",
        2,
    ),
    "the largest number so far": (
        """R(n, d) max=! k <= d ? Y(n, k) : -2147483648 where d in 0:D
        O(n, d) +=! k <= d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        2,
    ),
    "the smallest number from there on": (
        """R(n, d) min=! k >= d ? Y(n, k) : 2147483647 where d in 0:D
        O(n, d) +=! k <= d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        2,
    ),
    "the largest number so far, and one elsewhere": (
        """R(n, d) max=! k <= d ? Y(n, k) : 0 where d in 0:D
        O(n, d) +=! k <= d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        2,
    ),
    "an extreme that what is elsewhere is beyond": (
        """R(n, d) max=! k <= d ? Y(n, k) : 7 where d in 0:D
        O(n, d) +=! k <= d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        2,
    ),
    "an extreme from there on, and what is elsewhere beyond it": (
        """R(n, d) min=! k >= d ? Y(n, k) : -7 where d in 0:D
        O(n, d) +=! k >= d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        2,
    ),
    "a number of the row elsewhere": (
        """R(n, d) max=! k <= d ? Y(n, k) : Y(n, 3) where d in 0:D
        O(n, d) +=! k <= d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        2,
    ),
    "the next end": (
        """R(n, d) min=! k >= d ? (Y(n, k) > 0 ? k : D) : D where d in 0:D
        O(n, d) +=! k >= d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        2,
    ),
    "the next end, in one condition": (
        """R(n, d) min=! k >= d && Y(n, k) > 0 ? k : D where d in 0:D
        O(n, d) +=! k >= d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        2,
    ),
    "the place behind the last end": (
        """R(n, d) max=! k < d && Y(n, k) > 0 ? k + 1 : 0 where d in 0:D
        O(n, d) +=! k <= d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        2,
    ),
    "twice the place of the last end": (
        """R(n, d) max=! k < d && Y(n, k) > 0 ? 2 * k : 0 where d in 0:D
        O(n, d) +=! k <= d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        2,
    ),
    "a count of floats": (
        """R(n, d) +=! k <= d ? (Y(n, k) > 0 ? 1.0 : 0.0) : 0 where d in 0:D
        O(n, d) +=! k <= d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        2,
    ),
    "a count that falls": (
        """R(n, d) +=! k <= d && Y(n, k) > 0 ? -1 : 0 where d in 0:D
        O(n, d) +=! k <= d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        2,
    ),
    "two counts of the same": (
        """P(n, d) +=! k <= d && Y(n, k) > 0 ? 1 : 0 where d in 0:D
        R(n, d) +=! k <= d && Y(n, k) > 0 ? 1 : 0 where d in 0:D
        O(n, d) +=! k <= d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        2,
    ),
    "further conditions": (
        """R(n, d) +=! k <= d ? Y(n, k) * Y(n, k) > 0 ? 1 : 0 : 0 where d in 0:D
        O(n, d) +=! k <= d && R(n, k) == R(n, d) && X(n, k) > 0 ? X(n, k) : 0""",
        2,
    ),
    "terms that are sums": (
        """R(n, d) +=! k <= d ? Y(n, k) * Y(n, k) > 0 ? 1 : 0 : 0 where d in 0:D
        O(n, d) +=! k <= d && R(n, k) == R(n, d) ? X(n, k) * e : 0 where e in 0:3""",
        2,
    ),
    "conditions of the result": (
        "O(n, d) +=! k <= d && X(n, d) > 0 ? X(n, k) : 0",
        1,
    ),
    "conditions of the result, and choices joined": (
        "O(n, d) +=! k > d || X(n, d) > 0 ? 0 : X(n, k)",
        1,
    ),
    "results that start from others": (
        """O(n, d) = X(n, d)
        R(n, d) +=! k <= d ? Y(n, k) * Y(n, k) > 0 ? 1 : 0 : 0 where d in 0:D
        O(n, d) += k <= d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        2,
    ),
    # No scans, and right all the same: equal numbers do not follow each other.
    "sums that may fall": (
        """R(n, d) +=! k <= d ? Y(n, k) : 0 where d in 0:D
        O(n, d) +=! k <= d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        1,
    ),
    "sums of floats that are no integers": (
        """R(n, d) +=! k <= d ? (Y(n, k) > 0 ? 0.25 : 0.0) : 0 where d in 0:D
        O(n, d) +=! k <= d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        1,
    ),
    "sums of floats that may fall": (
        """R(n, d) +=! k <= d ? (Y(n, k) > 0 ? 1.0 : -1.0) : 0 where d in 0:D
        O(n, d) +=! k <= d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        1,
    ),
    "an extreme of results under a condition": (
        """R(n, d) max=! k <= d && Y(n, d) > 0 ? Y(n, k) : -2147483648
        where d in 0:D, k in 0:D
        O(n, d) +=! k <= d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        1,
    ),
    "an argument": ("O(n, d) +=! k <= d && Y(n, k) == Y(n, d) ? X(n, k) : 0", 0),
    "a scan that is written again": (
        """R(n, d) max=! k <= d ? Y(n, k) : -2147483648 where d in 0:D
        R(n, d) += Y(n, d)
        O(n, d) +=! k <= d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        1,
    ),
    "another row": (
        """R(n, d) max=! k <= d ? Y(n, k) : -2147483648 where d in 0:D
        O(n, d) +=! k <= d && R(N - 1 - n, k) == R(n, d) ? X(n, k) : 0""",
        1,
    ),
    "terms behind the result": (
        """R(n, d) max=! k <= d ? Y(n, k) : -2147483648 where d in 0:D
        O(n, d) +=! k < d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        1,
    ),
    "numbers that NaN may be among": (
        """R(n, d) max=! k <= d ? X(n, k) / X(n, k) : -1.0 / 0.0 where d in 0:D
        O(n, d) +=! k <= d && R(n, k) == R(n, d) ? X(n, k) : 0""",
        1,
    ),
}


@pytest.mark.parametrize(("statements", "scans"), TEXTS.values(), ids=TEXTS)
def test_texts(statements: str, scans: int) -> None:
    text = f"def f(float(N, D) X, int32(N, D) Y) -> (O) {{ {statements} where d in 0:D, k in 0:D }}"
    if statements.count("where") == 2 or "e in" in statements:
        text = text.replace(" where d in 0:D, k in 0:D }", " }")
    check(text, scans, integers(4, 37), torch.randint(-1, 2, (4, 37), dtype=torch.int32))


def test_special_values_end_with_their_segment() -> None:
    """What lies in front of a change reaches nothing behind it."""
    text = f"""def f(float(N, D) X, int32(N, D) Y) -> (O) {{
        {RUNS["k <= d"]} where d in 0:D, k in 0:D
        O(n, d) +=! k <= d && R(n, k) == R(n, d) ? X(n, k) : 0 }}"""
    x, keys = torch.ones(2, 40), torch.zeros(2, 40, dtype=torch.int32)
    x[0, 5], x[1, 17] = float("nan"), float("inf")
    keys[:, 20:] = 1
    check(text, 2, x, keys)


def test_joined_conditions_tell_nan_apart() -> None:
    """That NaN is not larger does not make it smaller."""
    x = integers(3, 40)
    x[0, 7] = float("nan")
    text = "def f(float(N, D) X) -> (O) { O(n, d) +=! k > d || X(n, d) > 0 ? 0 : X(n, k) }"
    check(text.replace(" }", " where d in 0:D }"), 1, x)


def test_sums_that_do_not_fit_say_nothing_of_places_between() -> None:
    """Counts of 8 bits are equal again 256 terms later, and so are sums of 2^30 after four. Floats
    beyond 2^24 are rounded."""
    text = """def f(TYPE(N) B, float(N) A) -> (S, O) {
        S(d) +=! k <= d ? VALUE : 0 where d in 0:N, k in 0:N
        O(d) +=! k <= d && S(k) == S(d) ? A(k) : 0 where d in 0:N, k in 0:N }"""
    count = text.replace("TYPE", "uint8").replace("VALUE", "B(k)")
    check(count, 1, torch.ones(600, dtype=torch.uint8), integers(600))
    rounded = text.replace("TYPE", "int32").replace("VALUE", "(B(k) > 0 ? 1000001.0 : 0.0)")
    check(rounded, 1, torch.zeros(50, dtype=torch.int32), integers(50))
    large = text.replace("TYPE", "int32").replace("VALUE", "(B(k) > 0 ? 1073741824 : 0)")
    check(large, 1, torch.randint(0, 2, (50,), dtype=torch.int32), integers(50))


def test_rows_that_the_result_chooses_are_no_segments() -> None:
    text = """def f(int32(N, N) Y, float(N) A) -> (R, O) {
        R(n, d) max=! k <= d ? Y(n, k) : -2147483648 where d in 0:N, k in 0:N
        O(d) +=! k <= d && R(d, k) == R(d, d) ? A(k) : 0 where d in 0:N, k in 0:N }"""
    check(text, 1, torch.randint(0, 4, (24, 24), dtype=torch.int32), integers(24))


@pytest.mark.parametrize("name", ["segmented_sum", "discounted_returns"])
def test_definitions_and_their_derivatives(name: str) -> None:
    x, flags = integers(3, 50), torch.rand(3, 50) < 0.2
    values = (x, flags, 0.5) if name == "discounted_returns" else (x, flags)
    assert scans_of(tc.compile(tc.ops.source(name), name, OWN, *values)) == 2
    derived = tc.grad_source(tc.ops.source(name), name)
    assert scans_of(tc.compile(derived, f"{name}_grad", OWN, *values, integers(3, 50))) == 2


FLAGS = {
    "bool(N, D) Y": ["int32(Y(n, k))", "Y(n, k) ? 1 : 0", "Y(n, k) ? 1.0 : 0.0"],
    "uint8(N, D) Y": ["int32(Y(n, k))", "Y(n, k) > 0 ? 1 : 0"],
    "float(N, D) Y": ["int32(Y(n, k) > 0)", "Y(n, k) != 0 ? 1 : 0"],
}


@pytest.mark.parametrize(
    ("flags", "term"), [(flags, term) for flags, terms in FLAGS.items() for term in terms]
)
def test_counts_of_flags(flags: str, term: str) -> None:
    text = f"""def f(float(N, D) X, {flags}) -> (O) {{
        R(n, d) +=! k < d ? ({term}) : 0 where d in 0:D
        O(n, d) +=! k >= d && R(n, k) == R(n, d) ? X(n, k) : 0 }}"""
    types = {"bool": torch.bool, "uint8": torch.uint8, "float": torch.float}
    check(text, 2, integers(3, 60), (torch.rand(3, 60) < 0.2).to(types[flags.split("(")[0]]))
