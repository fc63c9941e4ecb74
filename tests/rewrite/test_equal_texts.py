"""What a text says in a clumsy way becomes what the plain one is: ranges that conditions shrink,
values that statements have in common, conditions of whole results, divisions by constants.

Values are compared with the interpreter within its bounds; what became of a text is read off the
statements that `explain()` shows.
"""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
import torch

import tensor_comprehensions as tc
from tensor_comprehensions import reference

OWN = tc.MappingOptions().matchLibraryCalls(False)


def check(text: str, *inputs: object) -> str:
    """Returns the statements."""
    wanted, bounds = reference.error_bounds(text, "f", *inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    executor = tc.compile(text, "f", OWN, *inputs)
    actual = executor(*inputs)
    for a, w, bound in zip(
        actual if isinstance(actual, tuple) else (actual,), wanted, bounds, strict=True
    ):
        assert np.isfinite(bound).all()  # infinite ones promise nothing
        assert (np.abs(a.double().numpy() - np.asarray(w, dtype=np.float64)) <= 2 * bound).all()
    return "\n".join(re.findall(r"^  S\d+ +(.*)$", executor.explain(), re.M))


def ranges(text: str, *inputs: object) -> str:
    return tc.compile(text, "f", OWN, *inputs).explain()


# ---- ranges


# The term, and the range of k that is left of 0:40.
SHRUNK = {
    "below": ("k < 13 ? X(n, k) : 0", "k 13"),
    "from on": ("k >= 13 ? X(n, k) : 0", "k 27"),
    "between": ("k > 3 && k <= 20 ? X(n, k) : 0", "k 17"),
    "by a size": ("k < K / 2 ? X(n, k) : 0", "k 20"),
    "turned": ("30 > 2 * k ? X(n, k) : 0", "k 15"),
    "with another one": ("k < 13 && X(n, k) > 0 ? X(n, k) : 0", "k 13"),
    "nested": ("k < 13 ? (k > 2 ? X(n, k) : 0) : 0", "k 13"),
    "beyond the end": ("k < 100 ? X(n, k) : 0", "k 40"),
}


@pytest.mark.parametrize(("term", "left"), SHRUNK.values(), ids=SHRUNK)
def test_conditions_on_an_index_of_the_sum_are_its_range(term: str, left: str) -> None:
    text = f"def f(float(N, K) X) -> (O) {{ O(n) +=! {term} }}"
    x = torch.randn(7, 40)
    check(text, x)
    assert f"reduction over {left}" in ranges(text, x)


KEPT = {
    "not an interval": "k != 5 ? X(n, k) : 0",
    "both": "k <= n ? X(n, k) : 0",
    "something else elsewhere": "k < 13 ? X(n, k) : 1",
    "data": "X(n, k) < 0.5 ? X(n, k) : 0",
}


@pytest.mark.parametrize("term", KEPT.values(), ids=KEPT)
def test_other_conditions_keep_the_range(term: str) -> None:
    text = f"def f(float(N, K) X) -> (O) {{ O(n) +=! {term} }}"
    x = torch.randn(7, 40)
    check(text, x)
    explained = ranges(text, x)
    assert re.search(r"reduction over k 40|k 40|in order of", explained)


def test_a_condition_that_never_holds_leaves_the_identity() -> None:
    x = torch.randn(7, 40)
    for operator, wanted in (("+=!", 0.0), ("max=!", -math.inf), ("min=!", math.inf)):
        other = {"+=!": "0", "max=!": "-1.0 / 0.0", "min=!": "1.0 / 0.0"}[operator]
        text = f"def f(float(N, K) X) -> (O) {{ O(n) {operator} k > 50 ? X(n, k) : {other} }}"
        assert (tc.define(text, OWN).f(x) == wanted).all()


def test_reads_behind_the_range_are_not_made() -> None:
    """The condition is what keeps them inside."""
    text = "def f(float(N, K) X) -> (O) { O(n) +=! k < K - 5 ? X(n, k + 5) : 0 where k in 0:K }"
    x = torch.randn(7, 40)
    check(text, x)
    torch.testing.assert_close(tc.define(text, OWN).f(x), x[:, 5:].sum(1))


# The value of a sum, and the ranges of m and n that are left of 0:9 and 0:40.
BOXES = {
    "the last of one": ("m < 7 ? X(m, k) * Y(k, n) : 0", "m 7, n 40"),
    "both ends": ("m > 1 && m < 7 ? X(m, k) * Y(k, n) : 0", "m 5, n 40"),
    "of both": ("m < 7 && n >= 3 && n < 38 ? X(m, k) * Y(k, n) : 0", "m 7, n 35"),
    "an extreme": ("max(m, n) <= 7 ? X(m, k) * Y(k, n) : 0", "m 8, n 8"),
    "what is read": ("n < 38 ? X(m, k) * Y(k, n + 2) : 0", "m 9, n 38"),
    "beside data": ("m < 7 && X(m, k) > 0 ? X(m, k) * Y(k, n) : 0", "m 7, n 40"),
    "beside a range of the sum": ("m < 7 && k < 13 ? X(m, k) * Y(k, n) : 0", "m 7, n 40"),
    "one point": ("m == 3 && n == 4 ? X(m, k) * Y(k, n) : 0", "m 1, n 1"),
}


@pytest.mark.parametrize("operator", ["+=!", "max=!", "+="])
@pytest.mark.parametrize(("value", "left"), BOXES.values(), ids=BOXES)
def test_results_without_terms_are_set_apart(value: str, left: str, operator: str) -> None:
    if operator == "max=!":
        value = value.replace(": 0", ": -1.0 / 0.0")
    text = f"""def f(float(9, K) X, float(K, 40) Y) -> (O) {{
      {"O(m, n) = 2 where m in 0:9, n in 0:40" if operator == "+=" else ""}
      O(m, n) {operator} {value} where m in 0:9, n in 0:40
    }}"""
    x, y = torch.randn(9, 30), torch.randn(30, 40)
    wanted = torch.as_tensor(np.asarray(reference.run(text, "f", x, y), dtype=np.float32))
    torch.testing.assert_close(tc.define(text, OWN).f(x, y), wanted, rtol=1e-4, atol=1e-4)
    explained = ranges(text, x, y)
    # What is set in front of a sum is one statement about its results more.
    assert ("where no term counts" in explained) == (operator != "+=")
    if operator != "+=":
        assert re.search(rf"^ +{left}; reduction", explained, re.M), explained


WHOLE = {
    "no box": "m + n < 20 ? X(m, k) * Y(k, n) : 0",
    "every other": "m % 2 == 0 ? X(m, k) * Y(k, n) : 0",
    "something else elsewhere": "m < 7 ? X(m, k) * Y(k, n) : 1",
    "with an index of the sum": "m <= k ? X(m, k) * Y(k, n) : 0",
    "everywhere": "m < 70 ? X(m, k) * Y(k, n) : 0",
}


@pytest.mark.parametrize("value", WHOLE.values(), ids=WHOLE)
def test_other_results_stay_together(value: str) -> None:
    text = f"def f(float(9, K) X, float(K, 40) Y) -> (O) {{ O(m, n) +=! {value} }}"
    x, y = torch.randn(9, 30), torch.randn(30, 40)
    check(text, x, y)
    assert "where no term counts" not in ranges(text, x, y)


def test_results_that_others_read_stay_together() -> None:
    text = """def f(float(M, K) X, float(K, N) Y) -> (O, P) {
      O(m, n) +=! m < 7 ? X(m, k) * Y(k, n) : 0
      P(m) +=! O(m, n)
    }"""
    x, y = torch.randn(9, 30), torch.randn(30, 40)
    check(text, x, y)
    assert "where no term counts" not in ranges(text, x, y)


def test_extremes_have_ranges_too() -> None:
    text = "def f(float(N, K) X) -> (O) { O(n) max=! k < 9 ? X(n, k) : -1.0 / 0.0 }"
    x = torch.randn(7, 40)
    assert torch.equal(tc.define(text, OWN).f(x), x[:, :9].amax(1))


# ---- sums that are written out


@pytest.mark.parametrize("values", list(itertools.product((False, True), repeat=3)))
def test_sums_of_bools_that_an_index_chooses(values: tuple[bool, ...]) -> None:
    text = """def f(bool(N) A, bool(M) B, bool(K) C) -> (O) {
      O(i, j) +=! ((r != 1 && A(i)) == B(j)) != C(r / 3) where r in 0:3
    }"""
    inputs = [torch.tensor([value]) for value in values]
    wanted = torch.as_tensor(np.asarray(reference.run(text, "f", *inputs)))
    assert torch.equal(tc.define(text, OWN).f(*inputs), wanted)


POLYNOMIAL = "def f(float(N, D) X, float(K, D) C) -> (O) { O(n, d) +=! C(k, d) * pow(X(n, d), %s) }"


@pytest.mark.parametrize("exponent", ["k", "float(k) - 1.0", "2 * k + 1", "float(-k)"])
def test_polynomials_are_written_out(exponent: str) -> None:
    inputs = torch.rand(33, 40) + 0.5, torch.randn(6, 40)
    assert check(POLYNOMIAL % exponent, *inputs).count("pow") == 6


def test_polynomials_have_derivatives() -> None:
    x = (torch.rand(33, 40, dtype=torch.double) - 0.5).requires_grad_()
    c = torch.randn(5, 40, dtype=torch.double, requires_grad=True)
    text = (POLYNOMIAL % "k").replace("float", "double")
    result = tc.make_autograd(tc.define(text).f)(x, c)
    wanted = sum(c[k] * x**k for k in range(5))
    torch.testing.assert_close(result, wanted)
    received = torch.randn(33, 40, dtype=torch.double)
    for a, b in zip(
        torch.autograd.grad(result, (x, c), received), torch.autograd.grad(wanted, (x, c), received)
    ):
        torch.testing.assert_close(a, b)


def test_long_sums_of_powers_stay_sums() -> None:
    x, c = torch.rand(33, 40), torch.randn(9, 40)
    assert check(POLYNOMIAL % "k", x, c).count("pow") == 1


# ---- values


SOFTMAX = """def f(float(N, D) X) -> (O) {
  M(n) max=! X(n, d)
  Z(n) +=! exp(X(n, d) - M(n))
  O(n, d) = exp(X(n, d) - M(n)) / Z(n)
}"""


def test_exponentials_of_a_softmax_are_computed_once() -> None:
    statements = check(SOFTMAX, torch.randn(40, 70))
    assert statements.count("exp(") == 1 and "Z.values" in statements


def test_other_names_of_indices_are_the_same_value() -> None:
    text = SOFTMAX.replace(
        "O(n, d) = exp(X(n, d) - M(n)) / Z(n)", "O(a, b) = exp(X(a, b) - M(a)) / Z(a)"
    )
    assert check(text, torch.randn(40, 70)).count("exp(") == 1


def test_what_is_read_is_written_in_between() -> None:
    text = """def f(float(N, D) X) -> (Y, Z, O) {
      Y(n, d) = X(n, d) * 0.5
      Z(n) +=! exp(Y(n, d))
      Y(n, d) += X(n, d)
      O(n, d) = exp(Y(n, d)) / Z(n)
    }"""
    assert check(text, torch.randn(40, 70)).count("exp(") == 2


def test_the_statement_itself_writes_what_the_value_reads() -> None:
    text = """def f(float(N, D) X) -> (Y, O) {
      Y(n, d) = X(n, d) * 0.5
      Y(n, d) = exp(Y(n, d))
      O(n, d) = exp(Y(n, d)) * 2.0
    }"""
    check(text, torch.rand(40, 70))


# Values that differ in something.
APART = {
    "transposed": "exp(X(d, n) - M(n))",
    "another range": "exp(X(n, d) - M(n)) where d in 0:30",
    "another function": "expm1(X(n, d) - M(n))",
}


@pytest.mark.parametrize("value", APART.values(), ids=APART)
def test_values_that_differ_stay_apart(value: str) -> None:
    text = SOFTMAX.replace("exp(X(n, d) - M(n)) / Z(n)", value)
    assert "values" not in check(text, torch.randn(40, 40))


def test_sides_of_choices_are_for_some_points_only() -> None:
    text = """def f(float(N, D) X) -> (Z, O) {
      Z(n) +=! X(n, d) > 0.0 ? log(X(n, d)) : 0.0
      O(n, d) = X(n, d) > 0.5 ? log(X(n, d)) : 1.0
    }"""
    assert "values" not in check(text, torch.randn(40, 70))


@pytest.mark.parametrize("first", ["always", "chosen"])
def test_what_one_statement_computes_at_all_points_others_may_choose(first: str) -> None:
    statements = [
        "O(n, d) = log(abs(X(n, d)) + 1.0)",
        "P(n, d) = X(n, d) > 0.5 ? 2.0 * log(abs(X(n, d)) + 1.0) : X(n, d)",
    ]
    both = "\n".join(statements if first == "always" else reversed(statements))
    text = f"def f(float(N, D) X) -> (O, P) {{ {both} }}"
    assert check(text, torch.randn(40, 70)).count("log(") == 1


def test_values_in_conditions_are_computed_at_all_points() -> None:
    text = """def f(float(N, D) X) -> (O, P) {
      O(n, d) = exp(X(n, d)) > 1.0 ? X(n, d) : 1.0
      P(n, d) = exp(X(n, d)) > 2.0 ? X(n, d) : 2.0
    }"""
    assert check(text, torch.randn(40, 70)).count("exp(") == 1


def test_values_of_few_points_are_computed_again() -> None:
    assert "values" not in check(SOFTMAX, torch.randn(1, 3))


def test_the_part_with_the_functions_is_shared_where_it_has_fewer_points() -> None:
    text = """def f(float(B) t, float(K) w, float(B, K, D) X) -> (O, P) {
        O(b, k, d) = X(b, k, d) * cos(t(b) * w(k)) + 1
        P(b, d) +=! X(b, k, d) * cos(t(b) * w(k)) * w(k) }"""
    statements = check(text, torch.randn(64), torch.randn(48), torch.randn(64, 48, 20))
    assert "O.values(b, k) = cos(t(b)*w(k))" in statements
    assert statements.count("cos") == 1


# ---- conditions


MASKED = "def f(float(M, K) A, float(N, K) B, float(M) keep) -> (O) {{ O(m, n) {term} }}"
CHOSEN = {
    "a sum": "+=! keep(m) > 0.5 ? A(m, k) * B(n, k) : 0",
    "a maximum": "max=! keep(m) > 0.5 ? A(m, k) + B(n, k) : -1.0 / 0.0",
}


@pytest.mark.parametrize("term", CHOSEN.values(), ids=CHOSEN)
def test_conditions_of_all_terms_choose_the_result(term: str) -> None:
    a, b, keep = torch.randn(20, 30), torch.randn(25, 30), torch.rand(20)
    a[3] = math.nan  # of a row that is not kept
    keep[3] = 0
    executor = tc.compile(MASKED.format(term=term), "f", OWN, a, b, keep)
    found = executor(a, b, keep)
    both = a[:, None] * b if "+=" in term else a[:, None] + b
    wanted = both.double().sum(2) if "+=" in term else both.amax(2).double()
    wanted = torch.where(keep[:, None] > 0.5, wanted, 0.0 if "+=" in term else -math.inf)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)
    assert "O.over_k" in executor.explain()


NOT_CHOSEN = {
    "an index of the sum": "+=! keep(m) * B(n, k) > 0.5 ? A(m, k) * B(n, k) : 0",
    "another value elsewhere": "+=! keep(m) > 0.5 ? A(m, k) * B(n, k) : 1",
    "a guard": "+=! keep(m) > 0.5 ? A(m, k + int32(keep(m))) * B(n, k) : 0 where k in 0:20",
}


@pytest.mark.parametrize("term", NOT_CHOSEN.values(), ids=NOT_CHOSEN)
def test_other_conditions_stay_where_they_are(term: str) -> None:
    text = MASKED.format(term=term)
    inputs = torch.randn(20, 30), torch.randn(25, 30), torch.rand(20)
    assert "chosen" not in check(text, *inputs) and ".over_k" not in check(text, *inputs)


# ---- divisions


def test_terms_that_a_constant_divides_are_multiplied() -> None:
    text = "def f(float(N, K) X) -> (O) { O(n) +=! X(n, k) / 3.0 }"
    statements = check(text, torch.randn(9, 200))
    assert "/" not in statements.split("+=!")[1]


def test_means_of_large_numbers_stay_finite() -> None:
    text = "def f(float(N, K) X) -> (O) { O(n) +=! X(n, k) / float(K) }"
    x = torch.full((4, 300), 3e38)
    torch.testing.assert_close(tc.define(text, OWN).f(x), x[:, 0], rtol=1e-5, atol=0)


# The divisor, where the quotient is that of the type.
DIVIDED = {
    "zero": "0.0",
    "infinite reciprocal": "1e-39",
    "tiny reciprocal": "3e38",
    "data": "X(n, 0)",
}


@pytest.mark.parametrize("divisor", DIVIDED.values(), ids=DIVIDED)
def test_other_divisions_stay(divisor: str) -> None:
    text = f"def f(float(N, K) X) -> (O) {{ O(n) +=! X(n, k) / {divisor} }}"
    x = torch.rand(9, 200) + 0.5
    if divisor == "1e-39":
        x = x / 1000  # so that quotients are finite
    found = tc.define(text, OWN).f(x)
    by = x[:, :1] if "X" in divisor else torch.tensor(float(divisor))
    torch.testing.assert_close(found, (x / by).sum(1), rtol=1e-5, atol=0)


def test_single_quotients_are_exact() -> None:
    text = "def f(float(N) X) -> (O) { O(n) = X(n) / 3.0 }"
    x = torch.randn(1000)
    assert torch.equal(tc.define(text, OWN).f(x), x / 3)


# ---- products


def test_factors_of_an_operand_are_no_sum_of_their_own() -> None:
    """The gate belongs to the filter, which is small, and not around a sum over the window."""
    text = """def f(float(N, C, H, W) X, float(F, C, KH, KW) V, float(C) g) -> (O) {
      O(n, f, h, w) +=! X(n, c, h + p, w + q) * V(f, c, p, q) / (1.0 + exp(-g(c)))
    }"""
    statements = check(text, torch.randn(2, 8, 14, 14), torch.randn(8, 8, 3, 3), torch.randn(8))
    assert "over_" not in statements and "computed" in statements
