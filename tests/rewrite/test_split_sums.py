"""Sums of several products are taken apart where their inner sums cost less.

Values are small integers, so that sums are exact in every order.
"""

from __future__ import annotations

import re

import emulated
import pytest
import torch
from exact import integers

import tensor_comprehensions as tc
from tensor_comprehensions import reference

OWN = tc.MappingOptions().matchLibraryCalls(False)
HEAD = """def f(float(B, D) G, float(B, D) H, float(K, D) A, float(K, D) C, float(B, K) P,
    float(B, K) Q, float(B, K, D) X, float(B) v) -> """
VALUES = (
    *(integers(60, 40), integers(60, 40), integers(32, 40), integers(32, 40)),
    *(integers(60, 32), integers(60, 32), integers(60, 32, 40), integers(60)),
)
BOTH = {"O.over_d", "O.over_d_"}


def added(executor: tc.Executor) -> set[str]:
    return set(re.findall(r"\w+\.over_\w+", executor.explain()))


def check(statements: str, values: tuple[torch.Tensor, ...], sums: set[str]) -> None:
    executor = tc.compile(HEAD + statements, "f", OWN, *values)
    assert added(executor) == sums
    found, wanted = executor(*values), reference.run(HEAD + statements, "f", *values)
    pairs = zip(found, wanted) if isinstance(found, tuple) else ((found, wanted),)
    for result, right in pairs:
        torch.testing.assert_close(result, right, rtol=0, atol=0, equal_nan=True)


SPLIT = {
    "two": ("O(b) +=! G(b, d) * A(k, d) * P(b, k) + H(b, d) * C(k, d) * Q(b, k)", BOTH),
    "a difference": ("O(b) +=! G(b, d) * A(k, d) * P(b, k) - Q(b, k) * H(b, d) * C(k, d)", BOTH),
    "a sum that goes on": (
        "O(b) = v(b)  O(b) += -(G(b, d) * A(k, d)) * P(b, k) + H(b, d) * C(k, d) * Q(b, k)",
        BOTH,
    ),
    "a factor of both": ("O(b) +=! P(b, k) * (G(b, d) * A(k, d) - H(b, d) * C(k, d))", BOTH),
    "one of two": (
        "O(b) +=! G(b, d) * A(k, d) * P(b, k) / Q(b, k) / Q(b, k) + H(b, d) * X(b, k, d)",
        {"O.over_d"},
    ),
}


@pytest.mark.parametrize(("statements", "sums"), SPLIT.values(), ids=SPLIT)
def test_split(statements: str, sums: set[str]) -> None:
    values = list(VALUES)
    values[5] = 2.0 ** integers(60, 32).clamp(-1, 1)  # some texts divide by it
    check("(O) { " + statements + " }", tuple(values), sums)


def test_alone() -> None:
    statements = """(O, R, S, T, U) {
        O(b) +=! G(b, d) * A(k, d) * P(b, k) - X(b, k, d)
        R(b) +=! H(b, d) * A(k, d) * Q(b, k) - G(b, d) * H(b, d)
        S(b, k) +=! G(b, d) * A(k, d) + H(b, d) * C(k, d)
        T(b) +=! X(b, k, d) * G(b, d) * v(b) + X(b, k, d) * v(b) * 2
        U(b) max=! G(b, d) * A(k, d) * P(b, k) + H(b, d) * C(k, d) * Q(b, k) }"""
    check(statements, VALUES, set())


def test_a_difference_stays_small() -> None:
    values = list(VALUES)
    values[2] = integers(32, 40) + 2.0**23
    values[3] = values[2] - integers(32, 40)
    statements = "(O) { O(b) +=! G(b, d) * (A(k, d) - C(k, d)) * P(b, k) }"
    check(statements, tuple(values), {"O.over_d"})


def test_infinities() -> None:
    values = [value.abs() + 1 for value in VALUES]
    values[0][3, 4] = torch.inf
    values[1][5, 6], values[5][5] = torch.inf, -1
    values[1][3, 7], values[5][3, 2] = torch.inf, -1
    values[4][8, 1] = torch.nan
    statements, sums = SPLIT["two"]
    check("(O) { " + statements + " }", tuple(values), sums)


def test_sums_of_two_results_are_shared() -> None:
    check(
        """(O, W) {
            O(b) +=! G(b, d) * A(k, d) * P(b, k) * Q(b, k) - G(b, d) * C(k, d) * P(b, k)
            W(k) +=! v(b) * A(k, d) * G(b, d) * Q(b, k) - G(b, d) * P(b, k) * C(k, d) * v(b) }""",
        VALUES,
        BOTH,
    )


def test_the_gradient_of_fourier_features_keeps_no_products() -> None:
    text = """def f(float(B) t, float(K) w, float(K, D) a, float(K, D) c) -> (o) {
        o(b, d) +=! sin(t(b) * w(k)) * a(k, d) + cos(t(b) * w(k)) * c(k, d) }"""
    values = [torch.randn(*size) for size in ((300,), (16,), (16, 64), (16, 64))]
    executor = tc.compile(tc.grad_source(text), "f_grad", OWN, *values, torch.randn(300, 64))
    assert not re.search(r"\(b, d, k\)|\(b, k, d\)", executor.explain())
    for value in values:
        value.requires_grad_()
    t, w, a, c = values
    angles = t[:, None] * w
    wanted = torch.autograd.grad((angles.sin() @ a + angles.cos() @ c).sum(), values)
    found = executor(*(value.detach() for value in values), torch.ones(300, 64))
    for result, right in zip(found, wanted):
        torch.testing.assert_close(result, right, rtol=1e-4, atol=1e-3)


def test_cuda() -> None:
    statements, sums = SPLIT["two"]
    text = HEAD + "(O) { " + statements + " }"
    executor = tc.compile(text, "f", None, *VALUES, target="cuda:sm_90")
    assert added(executor) == sums
    result = torch.full((60,), torch.nan)
    emulated.run(executor, VALUES, (result,), initial=0)
    assert torch.equal(result, reference.run(text, "f", *VALUES))


def test_the_loops_of_the_text_stay() -> None:
    text = HEAD + "(O) { " + SPLIT["two"][0] + " }"
    executor = tc.compile(text, "f", tc.MappingOptions("identity"), *VALUES)
    assert not added(executor)
    assert torch.equal(executor(*VALUES), reference.run(text, "f", *VALUES))
