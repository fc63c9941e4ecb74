"""Sums of terms that decay are linear recurrences: exponential averages, state spaces."""

from __future__ import annotations

import itertools
import re

import emulated
import pytest
import torch
from derived import checked_gradient
from exact import FLOATS

import tensor_comprehensions as tc
from tensor_comprehensions import reference

INF = float("inf")
OWN = tc.MappingOptions().matchLibraryCalls(False)
SIZES = [(2, 9, 3), (1, 40, 1), (3, 17, 33), (2, 30, 8)]
CONDITIONS = ["s <= t", "s < t", "s >= t", "t < s", "s + 3 <= t", "s >= t + 2"]


def compiled(text: str, *values: object) -> tc.Executor:
    return tc.compile(text, "f", OWN, *values)


def is_scan(executor: tc.Executor) -> bool:
    return "in order of" in executor.explain()


def definition(value: str, condition: str = "s <= t", dtype: str = "float") -> str:
    return f"""def f({dtype}(B, T, D) X, {dtype}(B, T, D) C, {dtype}(D) A) -> (Y) {{
        Y(b, t, d) +=! {condition} ? {value} : 0 where t in 0:T, s in 0:T }}"""


def operands(b: int, t: int, d: int, dtype: torch.dtype = torch.float) -> tuple[torch.Tensor, ...]:
    c = -torch.rand(b, t, d, dtype=torch.double).cumsum(1)
    return tuple(e.to(dtype) for e in (torch.randn(b, t, d), c, torch.rand(d) * 0.6 + 0.5))


def wanted(text: str, *values: torch.Tensor) -> torch.Tensor:
    """What the interpreter makes of it in doubles."""
    for name in ("float(", "half(", "bfloat16("):
        text = text.replace(name, "double(")
    return reference.run(text, "f", *(value.double() for value in values))


WEIGHTS = {
    "a power": "pow(A(d), float(t - s)) * X(b, s, d)",
    "an exponential": "exp(-A(d) * float(t - s)) * X(b, s, d)",
    "a rate that changes": "exp(C(b, t, d) - C(b, s, d)) * X(b, s, d)",
    "a scaled rate": "X(b, s, d) * exp(A(d) * (C(b, t, d) - C(b, s, d)))",
    "a rate by an index": "exp((C(b, t, d) - C(b, s, d)) / (d + 1)) * X(b, s, d)",
    "several exponents": "exp(C(b, t, d) - A(d) * float(t - s) + X(b, s, d) - C(b, s, d))",
    "two weights": "pow(A(d), float(t - s)) * exp(C(b, t, d) - C(b, s, d)) * X(b, s, d)",
    "a power one less": "pow(A(d), float(t - s - 1)) * X(b, s, d)",
    "a number's power": "pow(0.75, float(t - s)) * X(b, s, d)",
    "discounts": "X(b, s, d) / pow(1 + A(d), float(t - s))",
    "a factor of the result": "C(b, t, d) * pow(A(d), float(t - s)) * X(b, s, d)",
    "a difference": "float(t - s) * X(b, s, d)",
    "a weighted difference": "(t - s) * pow(A(d), float(t - s)) * X(b, s, d)",
    "a square": "(t - s) * exp(-A(d) * float(t - s)) * float(t - s) * X(b, s, d)",
    "a third power": "(t - s) * pow(A(d), float(t - s)) * (t - s) * X(b, s, d) * (t - s)",
    "a derivative": (
        "exp(A(d) * (C(b, t, d) - C(b, s, d))) * (C(b, t, d) - C(b, s, d)) * X(b, s, d)"
    ),
    "a common weight": (
        "(t - s) * X(b, s, d) * exp(-A(d) * float(t - s))"
        " - exp(-A(d) * float(t - s)) * A(d) * X(b, s, d)"
    ),
    "a decay in front": "(1 - A(d)) * pow(A(d), float(t - s)) * X(b, s, d)",
    "a base of a difference": "A(d) * pow(1.5 - A(d), float(t - s)) * X(b, s, d)",
    "a time": "exp(-float(t - s) / A(d)) / A(d) * X(b, s, d)",
    "an even power": "pow(A(d), 2 * (t - s)) * X(b, s, d)",
    "a half": "exp2(-A(d) * float(t - s)) * X(b, s, d)",
    "a number's real power": "pow(2.0, C(b, t, d) - C(b, s, d)) * X(b, s, d)",
    "two decays": "(exp(-A(d) * float(t - s)) - exp(-2.0 * A(d) * float(t - s))) * X(b, s, d)",
    "terms in another order": "exp(C(b, t, d) * A(d) - A(d) * C(b, s, d)) * X(b, s, d)",
    "negative factors": "exp(-A(d) * -C(b, t, d) + -A(d) * C(b, s, d)) * X(b, s, d)",
    "a start": (
        "(s > 0 ? A(d) * pow(1.5 - A(d), float(t - s)) * X(b, s, d)"
        " : pow(1.5 - A(d), float(t - s)) * X(b, s, d))"
    ),
    "another term first": "pow(A(d), float(t - s)) * (s == 2 ? C(b, s, d) : X(b, s, d))",
    "both": "C(b, t, d) * X(b, s, d) * exp(C(b, t, d) - C(b, s, d)) * float(t - s)",
}


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("name", "condition", "size"),
    [
        (*case, SIZES[k % len(SIZES)])
        for k, case in enumerate(itertools.product(WEIGHTS, CONDITIONS))
    ],
)
def test_weights(name: str, condition: str, size: tuple[int, int, int]) -> None:
    """Growing ones, where s is behind t, too; of the sizes each in turn."""
    text, values = definition(WEIGHTS[name], condition), operands(*size)
    executor = compiled(text, *values)
    assert is_scan(executor)
    right = wanted(text, *values)
    torch.testing.assert_close(
        executor(*values).double(), right, rtol=5e-4, atol=1e-5 * float(right.abs().max())
    )


@pytest.mark.parametrize("value", ["a power", "a rate that changes", "a derivative"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_types(value: str, dtype: str) -> None:
    text = definition(WEIGHTS[value], dtype=dtype)
    values = operands(2, 30, 8, FLOATS[dtype])
    close = {"half": 2e-2, "bfloat16": 2e-1, "float": 1e-4, "double": 1e-9}[dtype]
    executor = compiled(text, *values)
    assert is_scan(executor)
    torch.testing.assert_close(
        executor(*values).double(), wanted(text, *values), rtol=close, atol=close
    )


def test_other_layouts() -> None:
    """Along the last dimension, and written in another order."""
    text = """def f(float(D, T) X, float(D) A) -> (Y) {
        Y(d, t) +=! s <= t ? pow(A(d), float(t - s)) * X(d, s) : 0 where t in 0:T }"""
    for d, t in ((5, 100), (40, 37)):
        x, a = torch.randn(d, t), torch.rand(d)
        executor = compiled(text, x, a)
        assert is_scan(executor)
        torch.testing.assert_close(
            executor(x, a).double(), wanted(text, x, a), rtol=1e-4, atol=1e-5
        )


def test_steps_are_computed_once() -> None:
    text = definition("exp(A(d) * float(s - t)) * (1 - exp(-A(d))) * X(b, s, d)")
    values = operands(2, 100, 64)
    executor = compiled(text, *values)
    assert is_scan(executor)
    assert "A.computed" in executor.explain()
    torch.testing.assert_close(
        executor(*values).double(), wanted(text, *values), rtol=1e-4, atol=1e-5
    )


def test_equal_scans_are_one() -> None:
    """Whatever the names of their results and the order of their factors."""
    text = """def f(float(T, D) X, float(T, D) G, float(T, D) C) -> (Y, Z, V, W) {
        Y(t, d) +=! s <= t ? exp(C(t, d) - C(s, d)) * X(s, d) * G(s, d) : 0 where t in 0:T
        Z(t, d) +=! s <= t ? 3 * G(s, d) * X(s, d) * exp(C(t, d) - C(s, d)) * X(t, d) : 0
        V(s, d) +=! t <= s ? X(s, d) * G(t, d) * exp(C(s, d) - C(t, d)) * X(t, d) : 0
        W(t, d) +=! s < t ? exp(C(t, d) - C(s, d)) * X(s, d) * G(s, d) : 0 }"""
    x, g = torch.randn(60, 8), torch.randn(60, 8)
    c = -torch.rand(60, 8).cumsum(0)
    executor = compiled(text, x, g, c)
    assert executor.explain().count("in order of") == 2
    for ours, right in zip(executor(x, g, c), wanted(text, x, g, c)):
        torch.testing.assert_close(ours.double(), right, rtol=1e-4, atol=1e-4)


def test_scans_of_what_is_written_between() -> None:
    text = """def f(float(T, D) X, float(D) A) -> (Y, Z, V) {
        V(t, d) = X(t, d)
        Y(t, d) +=! s <= t ? pow(A(d), float(t - s)) * V(s, d) * X(t, d) : 0
        V(t, d) += 1
        Z(t, d) +=! s <= t ? pow(A(d), float(t - s)) * V(s, d) * X(t, d) : 0 }"""
    x, a = torch.randn(60, 8), torch.rand(8)
    executor = compiled(text, x, a)
    assert is_scan(executor)
    for ours, right in zip(executor(x, a), wanted(text, x, a)):
        torch.testing.assert_close(ours.double(), right, rtol=1e-4, atol=1e-4)


def test_sums_over_other_indices() -> None:
    text = """def f(float(T, D, E) X, float(D) A, float(D, E) R) -> (Y, Z) {
        Y(t, d) +=! s <= t ? pow(A(d), float(t - s)) * X(s, d, e) : 0 where t in 0:T
        Z(t, d) +=! s <= t ? exp(-R(d, e) * float(t - s)) * X(s, d, e) : 0 where t in 0:T }"""
    values = torch.randn(200, 8, 6), torch.rand(8), torch.rand(8, 6)
    executor = compiled(text, *values)
    assert executor.explain().count("in order of") >= 2
    for ours, right in zip(executor(*values), wanted(text, *values)):
        torch.testing.assert_close(ours.double(), right, rtol=1e-4, atol=1e-4)


def test_conditions_of_terms_and_segments() -> None:
    text = """def f(float(T, D) X, float(D) A, int32(T) First) -> (Y, Z) {
        Y(t, d) +=! s <= t && X(s, d) > 0 ? pow(A(d), float(t - s)) * X(s, d) : 0 where t in 0:T
        N(t) +=! s <= t ? (First(s) == 1 ? 1 : 0) : 0 where t in 0:T
        Z(t, d) +=! s <= t && N(s) == N(t) ? pow(A(d), float(t - s)) * X(s, d) : 0 }"""
    x, a = torch.randn(60, 8), torch.rand(8)
    first = (torch.rand(60) < 0.2).int()
    executor = compiled(text, x, a, first)
    assert executor.explain().count("in order of") >= 3
    right = reference.run(text, "f", x, a, first)
    torch.testing.assert_close(executor(x, a, first), right, rtol=1e-4, atol=1e-5)


def test_weights_that_fall_and_rise_again() -> None:
    """What is too small for a float in between counts later."""
    text = definition("exp(C(b, t, d) - C(b, s, d)) * X(b, s, d)")
    rate = torch.cat((-torch.ones(150), torch.ones(150)))
    c = rate.cumsum(0)[None, :, None].expand(1, 300, 4).contiguous()
    x, a = torch.zeros(1, 300, 4), torch.ones(4)
    x[0, 0] = torch.tensor([1.0, 2.0, -3.0, 0.5])
    executor = compiled(text, x, c, a)
    assert is_scan(executor)
    torch.testing.assert_close(
        executor(x, c, a).double(), wanted(text, x, c, a), rtol=1e-4, atol=1e-40
    )


@pytest.mark.parametrize("base", [0.0, -0.5, 1.0, -2.0])
def test_bases(base: float) -> None:
    x, c, _ = operands(1, 20, 4)
    a = torch.full((4,), base)
    for weight in ("a power", "a weighted difference"):
        text = definition(WEIGHTS[weight])
        right = wanted(text, x, c, a)
        torch.testing.assert_close(
            compiled(text, x, c, a)(x, c, a).double(),
            right,
            rtol=1e-4,
            atol=1e-6 * float(right.abs().max()),
        )


@pytest.mark.parametrize("factor", ["", "-", "-2 * ", "3 * -"])
def test_powers_that_derivatives_guard(factor: str) -> None:
    """What leaves out the term at s == t makes the condition s < t."""
    text = definition(
        f"{factor}(float(t - s) == 0 ? 0 : X(b, s, d) * (t - s) * pow(A(d), float(t - s) - 1))"
    )
    for values in (operands(2, 30, 8), (*operands(2, 30, 8)[:2], torch.zeros(8))):
        executor = compiled(text, *values)
        assert is_scan(executor)
        torch.testing.assert_close(
            executor(*values).double(), wanted(text, *values), rtol=1e-4, atol=1e-5
        )


TRIANGLES = {
    "a power": "Z(d) +=! s <= t ? C(b, t, d) * pow(A(d), float(t - s)) * X(b, s, d) : 0",
    "a difference": (
        "Z(d) +=! s < t ? C(b, t, d) * (t - s) * pow(A(d), float(t - s)) * X(b, s, d) : 0"
    ),
    "no weight": "Z(d) +=! s <= t ? C(b, t, d) * X(b, s, d) : 0",
    "from the end": "Z(d) +=! s > t ? C(b, t, d) * X(b, s, d) : 0",
    "all": "Z() +=! s <= t ? C(b, t, d) * X(b, s, d) * pow(A(d), float(t - s)) : 0",
    "going on": "Z(d) += s <= t ? C(b, t, d) * X(b, s, d) : 0",
}


@pytest.mark.parametrize("statement", TRIANGLES.values(), ids=TRIANGLES)
def test_sums_over_pairs(statement: str) -> None:
    """Of both indices that are compared."""
    start = "Z(d) = A(d) where d in 0:D" if " += " in statement else ""
    text = f"""def f(float(B, T, D) X, float(B, T, D) C, float(D) A) -> (Z) {{
        {start} {statement} where t in 0:T, s in 0:T }}"""
    values = operands(2, 100, 8)
    executor = compiled(text, *values)
    assert is_scan(executor)
    torch.testing.assert_close(
        executor(*values).double(), wanted(text, *values), rtol=1e-4, atol=1e-3
    )


@pytest.mark.parametrize(
    "weight",
    ["1", "pow(0.5, t - s)", "(t - s) * pow(0.5, t - s)", "(t - s - 1) * pow(0.5, t - s - 2)"],
)
@pytest.mark.parametrize("distance", [1, 2, 5])
def test_pairs_without_terms(weight: str, distance: int) -> None:
    text = f"""def f(float(T, D) X, float(T, D) C) -> (Z) {{
        Z(d) +=! s + {distance} <= t ? C(t, d) * X(s, d) * {weight} : 0
            where t in 0:T, s in 0:T }}"""
    x, c = torch.rand(100, 8), torch.rand(100, 8)
    c[:distance] = torch.nan
    executor = compiled(text, x, c)
    assert is_scan(executor)
    torch.testing.assert_close(executor(x, c), reference.run(text, "f", x, c))


def test_sums_of_weights_with_others_elsewhere() -> None:
    text = definition("(exp(-A(d) * float(t - s)) - pow(0.5, t - s)) * X(b, s, d)")
    text = text.replace(" : 0 where", " : 0.5 where")
    values = operands(2, 30, 8)
    torch.testing.assert_close(
        compiled(text, *values)(*values).double(), wanted(text, *values), rtol=1e-4, atol=1e-4
    )


TWO_SIDES = {
    "a distance": "exp(-A(d) * abs(t - s)) * X(b, s, d)",
    "a choice": "X(b, s, d) * (t < s ? pow(A(d), s - t) : exp(C(b, t, d) - C(b, s, d)))",
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("value", TWO_SIDES.values(), ids=TWO_SIDES)
def test_both_sides(value: str, size: tuple[int, int, int]) -> None:
    text = definition(value).replace("s <= t ? ", "").replace(" : 0 where", " where")
    if "?" in value:
        text = definition(value).replace("s <= t ? X", "X").replace(") : 0 where", ") where")
    values = operands(*size)
    executor = compiled(text, *values)
    assert executor.explain().count("in order of") == 2
    torch.testing.assert_close(
        executor(*values).double(), wanted(text, *values), rtol=1e-4, atol=1e-5
    )


QUADRATIC = ("both",)


@pytest.mark.parametrize("name", [name for name in WEIGHTS if name not in QUADRATIC])
def test_gradients_take_a_step_for_every_element(name: str) -> None:
    """No loops over both indices are left."""
    text = definition(WEIGHTS[name])
    values = operands(2, 200, 8)
    source = tc.grad_source(text)
    names = re.search(r"def f_grad\((.*?)\) ->", source, re.DOTALL)[1]
    grad = torch.randn(2, 200, 8)
    by_name = {"X": values[0], "C": values[1], "A": values[2], "d_Y": grad}
    given = [by_name[name] for name in re.findall(r"\) (\w+)", names)]
    explained = tc.compile(source, "f_grad", OWN, *given).explain()
    assert not [line for line in explained.splitlines() if "t 200" in line and "s 200" in line]


@pytest.mark.parametrize("sign", [-1, 1])
def test_times_of_padding(sign: int) -> None:
    """Events that never are in front, or behind, are nothing to those that are."""
    text = """def f(float(N) At, float(N) M, float beta) -> (S) {
        S(i) +=! j < i ? exp(-beta * (At(i) - At(j))) * M(j) : 0 where i in 0:N }"""
    at, padding = torch.rand(30).cumsum(0), torch.full((10,), sign * INF)
    at = torch.cat((padding, at) if sign < 0 else (at, padding))
    real = torch.isfinite(at)
    m = torch.randn(40, requires_grad=True)
    executor = compiled(text, at, m, 0.5)
    assert is_scan(executor)
    direct = torch.exp(-0.5 * (at[:, None] - at[None, :])).tril(-1)
    right = (direct[real] * m.where(real, 0)).nansum(1)
    f = tc.make_autograd(tc.define(text, namespace="tc_padding").f)
    ours = f(at, m, 0.5)[real]
    torch.testing.assert_close(ours, right, rtol=1e-4, atol=1e-5)
    grad = torch.randn(30)
    (ours,), (right,) = (torch.autograd.grad(y, m, grad) for y in (ours, right))
    torch.testing.assert_close(ours[real], right[real], rtol=1e-4, atol=1e-5)


ALONE = {
    "two rates": "exp(C(b, t, d) - X(b, s, d)) * X(b, s, d)",
    "a power of a rate": "pow(A(d), C(b, t, d) - C(b, s, d)) * X(b, s, d)",
    "a rate and a constant": "(exp(C(b, t, d) - C(b, s, d)) + abs(C(b, t, d) - X(b, s, d)))",
    "a product": "exp(-C(b, t, d) * C(b, s, d)) * X(b, s, d)",
    "a Gaussian": "exp(-float((t - s) * (t - s))) * X(b, s, d)",
    "a product of differences": "(t - s) * (C(b, t, d) - C(b, s, d)) * X(b, s, d)",
    "a base that changes": "pow(A(d) * float(s), float(t - s)) * X(b, s, d)",
}


@pytest.mark.parametrize("value", ALONE.values(), ids=ALONE)
def test_left_alone(value: str) -> None:
    text, values = definition(value), operands(2, 20, 8)
    executor = compiled(text, *values)
    assert not is_scan(executor)
    torch.testing.assert_close(
        executor(*values).double(), wanted(text, *values), rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("value", WEIGHTS.values(), ids=WEIGHTS)
def test_gradients(value: str) -> None:
    checked_gradient(definition(value, dtype="double"), (2, 9, 2), (2, 9, 2), (2,))


SELECTIVE = """def f({0}(B, T, D) X, {0}(B, T, D) Delta, {0}(D, N) A, {0}(B, T, N) P,
                   {0}(B, T, N) Q) -> (Y) {{
    C(b, t, d) +=! s <= t ? Delta(b, s, d) : 0 where t in 0:T
    H(b, t, d, n) +=! s <= t ? exp(A(d, n) * (C(b, t, d) - C(b, s, d))) * Delta(b, s, d)
                               * X(b, s, d) * P(b, s, n) : 0 where t in 0:T
    Y(b, t, d) +=! H(b, t, d, n) * Q(b, t, n) }}"""


def selective(x, delta, a, p, q) -> torch.Tensor:
    h, results = x.new_zeros(x.shape[0], x.shape[2], a.shape[1]), []
    for t in range(x.shape[1]):
        h = (
            h * torch.exp(delta[:, t, :, None] * a)
            + (delta[:, t] * x[:, t])[..., None] * p[:, t, None]
        )
        results.append((h * q[:, t, None]).sum(-1))
    return torch.stack(results, 1)


def test_selective_state_spaces() -> None:
    """The layer of Mamba, against its loop over time, with derivatives."""
    b, t, d, n = 2, 50, 12, 5
    values = [
        torch.randn(b, t, d),
        torch.rand(b, t, d) * 0.2,
        -torch.rand(d, n) - 0.1,
        torch.randn(b, t, n),
        torch.randn(b, t, n),
    ]
    values = [value.requires_grad_() for value in values]
    f = tc.make_autograd(tc.define(SELECTIVE.format("float"), namespace="tc_selective").f)
    ours, right = f(*values), selective(*(value.double() for value in values))
    torch.testing.assert_close(ours.double(), right, rtol=1e-4, atol=1e-4)
    grad = torch.randn_like(ours)
    gradients = torch.autograd.grad(ours, values, grad)
    for a, e in zip(gradients, torch.autograd.grad(right, values, grad.double())):
        torch.testing.assert_close(a, e, rtol=1e-3, atol=1e-4 * float(e.abs().max()))


def test_gradients_of_selective_state_spaces() -> None:
    checked_gradient(SELECTIVE.format("double"), (1, 9, 2), (1, 9, 2), (2, 2), (1, 9, 2), (1, 9, 2))


@pytest.mark.parametrize("value", ["a power", "a rate that changes", "a derivative"])
def test_cuda(value: str) -> None:
    text, values = definition(WEIGHTS[value]), operands(2, 40, 6)
    executor = tc.compile(text, "f", None, *values, target="cuda:sm_90")
    assert is_scan(executor)
    result = torch.full((2, 40, 6), torch.nan)
    emulated.run(executor, values, (result,), initial=0)
    torch.testing.assert_close(result.double(), wanted(text, *values), rtol=1e-4, atol=1e-5)
