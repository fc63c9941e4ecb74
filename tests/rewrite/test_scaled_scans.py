"""What multiplies or divides all terms of a running sum does so with the sum."""

from __future__ import annotations

import emulated
import pytest
import torch
from derived import checked_gradient
from exact import FLOATS, integers

import tensor_comprehensions as tc
from tensor_comprehensions import reference

OWN = tc.MappingOptions().matchLibraryCalls(False)
SIZES = [(3, 8), (5, 16), (4, 17), (2, 100), (20, 9)]
CONDITIONS = ["k <= d", "k < d", "k >= d", "d < k", "k + 3 <= d"]
INF, NAN = float("inf"), float("nan")


def compiled(text: str, *values: object) -> tc.Executor:
    return tc.compile(text, "f", OWN, *values)


def is_scan(executor: tc.Executor) -> bool:
    return "in order of" in executor.explain()


def definition(statement: str, dtype: str = "float") -> str:
    return f"""def f({dtype}(N, D) X, {dtype}(N, D) Q) -> (O) {{
        O(n, d) {statement} where d in 0:D, k in 0:D }}"""


@pytest.mark.sampled
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("dtype", ["float", "double"])
def test_products(size: tuple[int, int], condition: str, dtype: str) -> None:
    x, q = (integers(*size, dtype=FLOATS[dtype]) for _ in range(2))
    executor = compiled(definition(f"+=! {condition} ? Q(n, d) * X(n, k) : 0", dtype), x, q)
    assert is_scan(executor)
    rows = torch.arange(size[1])
    kept = eval(condition, {"k": rows[None, :], "d": rows[:, None]})
    wanted = (q[:, :, None] * x[:, None, :] * kept).sum(2)
    assert torch.equal(executor(x, q), wanted.to(x.dtype))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_running_means(size: tuple[int, int], dtype: str) -> None:
    text = definition("+=! k <= d ? X(n, k) / (d + 1) : 0", dtype)
    x, q = torch.rand(size).to(FLOATS[dtype]), torch.zeros(size).to(FLOATS[dtype])
    executor = compiled(text, x, q)
    assert is_scan(executor)
    wanted = x.double().cumsum(1) / torch.arange(1, size[1] + 1)
    rtol = {"half": 1e-3, "bfloat16": 8e-3}.get(dtype, 1e-5)
    torch.testing.assert_close(executor(x, q).double(), wanted, rtol=rtol, atol=0)


TEXTS = {
    "two factors": "+=! k <= d ? Q(n, d) * X(n, k) * Q(n, k) * X(n, d) : 0",
    "a factor of one index": "+=! k <= d ? X(n, k) * d : 0",
    "a factor that divides": "+=! k <= d ? X(n, k) / (Q(n, d) * Q(n, d) + 1) : 0",
    "a factor of the factor": "+=! k <= d ? Q(n, d) / (d + 1) * (X(n, k) - 1) : 0",
    "no other factor": "+=! k <= d ? Q(n, d) : 0",
    "a constant": "+=! k <= d ? 0.5 * Q(n, d) * X(n, k) : 0",
    "from the end": "+=! k >= d ? X(n, k) / (D - d) : 0",
    "a condition of the result": "+=! k <= d && Q(n, d) > 0 ? Q(n, d) * X(n, k) : 0",
    "a condition of terms": "+=! k <= d && X(n, k) > 0 ? X(n, k) / (d + 1) : 0",
    "a factor inside its tensor": "+=! k + 3 <= d ? Q(n, d - 3) * X(n, k) : 0",
}


@pytest.mark.parametrize("statement", TEXTS.values(), ids=TEXTS)
def test_texts(statement: str) -> None:
    x, q = integers(3, 40), integers(3, 40)
    executor = compiled(definition(statement), x, q)
    assert is_scan(executor)
    wanted = reference.run(definition(statement), "f", x, q)
    torch.testing.assert_close(executor(x, q), wanted, rtol=1e-5, atol=1e-5)


def test_sums_over_other_indices() -> None:
    text = """def f(float(T, D) Q, float(T, D, E) X) -> (O) {
        O(t, d) +=! s <= t ? Q(t, d) * X(s, d, e) * X(s, d, e) : 0 where t in 0:T }"""
    q, x = integers(20, 6), integers(20, 6, 5)
    executor = compiled(text, q, x)
    assert is_scan(executor)
    assert torch.equal(executor(q, x), q * (x * x).sum(2).cumsum(0))


ATTENTION = "Q(t, d) * K(s, d) * V(s, e)"


def attention(condition: str, dtype: str = "float") -> str:
    return f"""def f({dtype}(T, D) Q, {dtype}(T, D) K, {dtype}(T, E) V) -> (O) {{
        O(t, e) +=! {condition} ? {ATTENTION} : 0 where t in 0:T, s in 0:T }}"""


@pytest.mark.parametrize("condition", ["s <= t", "s < t", "s >= t", "t < s"])
@pytest.mark.parametrize("dtype", ["float", "double", "half"])
def test_a_factor_of_another_reduction(condition: str, dtype: str) -> None:
    """Each of its points has a scan: the states of linear attention."""
    q, k, v = (integers(60, n, dtype=FLOATS[dtype]) for n in (6, 6, 10))
    executor = compiled(attention(condition, dtype), q, k, v)
    assert "O.wide.scan" in executor.explain() or "O.scan" in executor.explain()
    rows = torch.arange(60)
    kept = eval(condition, {"t": rows[:, None], "s": rows[None, :]})
    wanted = (kept * (q.double() @ k.double().t())) @ v.double()
    torch.testing.assert_close(executor(q, k, v).double(), wanted, rtol=1e-3, atol=0)


OTHERS_BESIDE = {
    # As derivatives of states have it.
    "a derivative": "O(s, d) +=! s <= t ? G(t, d, e) * V(s, e) : 0",
    "results in another order": "O(d, s) +=! s <= t ? G(t, d, e) * V(s, e) : 0",
    "an index of the factor alone": "O(s, d) +=! s <= t ? G(t, d, 0) * V(s, e) : 0",
    "a sum of all": "O(s) +=! s <= t ? G(t, d, e) * V(s, e) : 0",
    "a condition of terms": "O(s, d) +=! s <= t && t != 5 && e > 0 ? G(t, d, e) * e * s : 0",
    "a condition of results": "O(s, d) +=! s <= t && s > 4 ? G(t, d, e) * V(s, e) : 0",
    "going on": "O(s, d) += s <= t ? G(t, d, e) * V(s, e) : 0",
    "reads inside": "O(s, d) +=! s + 3 <= t ? G(t - 3, d, e) * V(s + 3, e) : 0",
}


@pytest.mark.parametrize("statement", OTHERS_BESIDE.values(), ids=OTHERS_BESIDE)
def test_factors_of_other_reductions(statement: str) -> None:
    start = "O(s, d) = V(s, 0) + d where s in 0:T, d in 0:D" if " += " in statement else ""
    text = f"""def f(float(T, D, E) G, float(T, E) V) -> (O) {{
        {start} {statement} where s in 0:T, t in 0:T, d in 0:D, e in 0:E }}"""
    g, v = integers(60, 5, 7), integers(60, 7)
    executor = compiled(text, g, v)
    assert is_scan(executor)
    assert torch.equal(executor(g, v), reference.run(text, "f", g, v))


def test_gradients_of_states() -> None:
    checked_gradient(attention("s <= t", "double"), (12, 2), (12, 2), (12, 3))


def test_going_on() -> None:
    text = """def f(float(N, D) X, float(N, D) Q) -> (O) {
        O(n, d) = X(n, d) * 3
        O(n, d) += k <= d ? Q(n, d) * X(n, k) : 0 }"""
    x, q = integers(3, 40), integers(3, 40)
    executor = compiled(text, x, q)
    assert is_scan(executor)
    assert torch.equal(executor(x, q), 3 * x + q * x.cumsum(1))


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("value", ["Q(n, d) * X(n, k)", "X(n, k) / Q(n, d)"])
@pytest.mark.parametrize("factor", [INF, NAN, 0.0])
def test_sums_of_no_terms_are_zero(condition: str, value: str, factor: float) -> None:
    text = definition(f"+=! {condition} ? {value} : 0")
    x, q = torch.rand(2, 20) + 1, torch.full((2, 20), factor)
    executor = compiled(text, x, q)
    assert is_scan(executor)
    wanted = reference.run(text, "f", x, q)
    assert torch.equal(executor(x, q).nan_to_num(7, 8, 9), wanted.nan_to_num(7, 8, 9))


@pytest.mark.parametrize("value", ["Q(n, d) * X(n, k)", "X(n, k) / Q(n, d)"])
def test_factors_of_terms_that_data_chooses(value: str) -> None:
    """A result may have no terms, and is 0 also where its factor is infinite."""
    text = definition(f"+=! k <= d && X(n, k) > 0 ? {value} : 0")
    x = torch.cat((torch.zeros(2, 10), torch.rand(2, 10) + 1), 1)
    for factor in (INF, NAN, 0.0):
        q = torch.full((2, 20), factor)
        ours, wanted = compiled(text, x, q)(x, q), reference.run(text, "f", x, q)
        assert torch.equal(ours.nan_to_num(7, 8, 9), wanted.nan_to_num(7, 8, 9))


def test_more_results_than_factors() -> None:
    """The comparison is what keeps the factor inside its tensor."""
    text = """def f(float(D) X, float(D) Q) -> (O) {
        O(d) +=! k >= d ? Q(d) * X(k) : 0 where d in 0:D + 9 }"""
    x, q = integers(30), integers(30)
    executor = compiled(text, x, q)
    assert is_scan(executor)
    wanted = torch.nn.functional.pad(q * x.flip(0).cumsum(0).flip(0), (0, 9))
    assert torch.equal(executor(x, q), wanted)


def test_conditions_that_keep_factors_inside() -> None:
    text = """def f(float(N, D) X, int32(M, D) q) -> (O) {
        O(n, d) +=! k <= d && n < M ? X(n, k) * q(n, d) : 0
            where n in 0:N, d in 0:D, k in 0:D }"""
    x, q = integers(6, 40), integers(2, 40, dtype=torch.int32)
    wanted = torch.zeros(6, 40)
    wanted[:2] = q * x[:2].cumsum(1)
    assert torch.equal(compiled(text, x, q)(x, q), wanted)


@pytest.mark.parametrize("value", ["X(n, k) / (d + 1)", "Q(n, d) * X(n, k)"])
def test_sums_are_no_larger_than_in_the_text(value: str) -> None:
    x, q = torch.full((2, 2000), 1e37), torch.full((2, 2000), 1e-4)
    executor = compiled(definition(f"+=! k <= d ? {value} : 0"), x, q)
    assert is_scan(executor)
    assert torch.isfinite(executor(x, q)).all()


ALONE = {
    "a factor of both": "+=! k <= d ? X(n, k) * abs(Q(n, d) - X(n, k)) : 0",
    "a sum": "+=! k <= d ? X(n, k) + Q(n, d) : 0",
    "a window": "+=! k <= d && k + 4 > d ? X(n, k) * Q(n, d) : 0",
    "a product": "*=! k <= d ? X(n, k) * Q(n, d) : 1",
    "a largest": "max=! k <= d ? X(n, k) * Q(n, d) : -1.0 / 0.0",
}


@pytest.mark.parametrize("statement", ALONE.values(), ids=ALONE)
def test_left_alone(statement: str) -> None:
    x, q = integers(3, 40), integers(3, 40)
    executor = compiled(definition(statement), x, q)
    assert not is_scan(executor)
    assert torch.equal(executor(x, q), reference.run(definition(statement), "f", x, q))


@pytest.mark.parametrize("value", ["Q(n, d) * X(n, k)", "X(n, k) / (Q(n, d) + 2)"])
def test_gradients(value: str) -> None:
    checked_gradient(definition(f"+=! k <= d ? {value} : 0", "double"), (3, 12), (3, 12))


def test_cuda_states() -> None:
    values = integers(60, 6), integers(60, 6), integers(60, 10)
    executor = tc.compile(attention("s <= t"), "f", None, *values, target="cuda:sm_90")
    assert is_scan(executor)
    result = torch.full((60, 10), torch.nan)
    emulated.run(executor, values, (result,), initial=0)
    assert torch.equal(result, (values[0] @ values[1].t()).tril() @ values[2])


def test_cuda() -> None:
    text = definition("+=! k <= d ? Q(n, d) * X(n, k) : 0")
    x, q = integers(3, 40), integers(3, 40)
    executor = tc.compile(text, "f", None, x, q, target="cuda:sm_90")
    assert is_scan(executor)
    result = torch.full((3, 40), torch.nan)
    emulated.run(executor, (x, q), (result,), initial=0)
    assert torch.equal(result, q * x.cumsum(1))
