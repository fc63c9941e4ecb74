"""Reductions over all that lies up to an index, or from it on, take a step for every element.

Values are small integers, so that sums are exact in every order.
"""

from __future__ import annotations

import re

import emulated
import pytest
import torch
from exact import integers
from fenced import fenced

import tensor_comprehensions as tc
from tensor_comprehensions import reference

OWN = tc.MappingOptions().matchLibraryCalls(False)
SIZES = [(3, 8), (5, 16), (4, 17), (7, 31), (2, 100), (1, 333), (20, 9)]


def compiled(text: str, *values: object) -> tc.Executor:
    return tc.compile(text, "f", OWN, *values)


def is_scan(executor: tc.Executor) -> bool:
    return "in order of" in executor.explain()


@pytest.mark.sampled
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "condition", ["k <= d", "k < d", "k >= d", "d < k", "!(k > d)", "d + 3 < k"]
)
@pytest.mark.parametrize("dtype", ["float", "double", "int32", "half"])
def test_sums(size: tuple[int, int], condition: str, dtype: str) -> None:
    text = f"""def f({dtype}(N, D) X) -> (O) {{
        O(n, d) +=! {condition} ? X(n, k) : 0 where d in 0:D }}"""
    types = {"float": torch.float, "double": torch.double, "int32": torch.int32}
    x = integers(*size, dtype=types.get(dtype, torch.half))
    executor = compiled(text, x)
    assert is_scan(executor)
    assert torch.equal(executor(x), reference.run(text, "f", x))


REDUCTIONS = {
    "product": "*=! k <= d ? X(n, k) : 1",
    "largest": "max=! k <= d ? X(n, k) : X(n, 0)",
    "smallest": "min=! k >= d ? X(n, k) : X(n, 0)",
    "largest of what lies before": "max=! k < d ? X(n, k) : -1.0 / 0.0",
    "largest with a bound": "max=! k < d ? X(n, k) : 0.5",
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("reduction", REDUCTIONS.values(), ids=REDUCTIONS)
def test_reductions(size: tuple[int, int], reduction: str) -> None:
    text = f"def f(float(N, D) X) -> (O) {{ O(n, d) {reduction} where d in 0:D }}"
    x = torch.rand(size) + 0.5
    executor = compiled(text, x)
    assert is_scan(executor)
    torch.testing.assert_close(executor(x), reference.run(text, "f", x), rtol=1e-4, atol=0)


TEXTS = {
    # The text, and the sizes of its inputs.
    "along the first dimension": (
        "def f(float(D, N) X) -> (O) { O(d, n) +=! k <= d ? X(k, n) : 0 where d in 0:D }",
        ((13, 40),),
    ),
    "one row": (
        "def f(float(D) X) -> (O) { O(d) +=! k <= d ? X(k) : 0 where d in 0:D }",
        ((1000,),),
    ),
    "in the middle": (
        "def f(float(N, D, M) X) -> (O) { O(n, d, m) +=! k >= d ? X(n, k, m) : 0 where d in 0:D }",
        ((3, 20, 18),),
    ),
    "transposed": (
        "def f(float(N, D) X) -> (O) { O(d, n) +=! k <= d ? X(n, k) : 0 where d in 0:D }",
        ((6, 40),),
    ),
    "terms that lie backwards": (
        "def f(float(N, D) X) -> (O) {"
        " O(d, n) +=! k <= d ? X(n, D - 1 - k) : 0 where d in 0:D, k in 0:D }",
        ((6, 40),),
    ),
    "terms of two": (
        "def f(float(N, D) X, float(D) y) -> (O) {"
        " O(n, d) +=! k <= d ? X(n, k) * y(k) : 0 where d in 0:D }",
        ((6, 40), (40,)),
    ),
    "terms that are sums": (
        "def f(float(N, D, E) X) -> (O) {"
        " O(n, d) +=! k <= d ? X(n, k, e) * X(n, k, e) : 0 where d in 0:D }",
        ((6, 40, 5),),
    ),
    "terms without the row": (
        "def f(float(N) y, float(D) X) -> (O) {"
        " O(n, d) +=! k <= d ? X(k) : 0 where d in 0:D, n in 0:N }",
        ((6,), (40,)),
    ),
    "terms that are one number": (
        "def f(float(N) y, float(D) X) -> (O) {"
        " O(n, d) +=! k <= d ? y(n) : 0 where d in 0:D, k in 0:D }",
        ((6,), (40,)),
    ),
    "the index itself": (
        "def f(float(N) y, float(D) X) -> (O) {"
        " O(n, d) +=! k <= d ? y(n) * k : 0 where d in 0:D, k in 0:D }",
        ((6,), (40,)),
    ),
    "more results than terms": (
        "def f(float(N, D) X) -> (O) { O(n, d) +=! k <= d ? X(n, k) : 0 where d in 0:D + 19 }",
        ((3, 17),),
    ),
    "fewer results than terms": (
        "def f(float(N, D) X) -> (O) { O(n, d) +=! k <= d ? X(n, k) : 0 where d in 0:D - 3 }",
        ((3, 17),),
    ),
    "more results than terms, from the end": (
        "def f(float(N, D) X) -> (O) { O(n, d) +=! k + 2 >= d ? X(n, k) : 0 where d in 0:D + 7 }",
        ((3, 17),),
    ),
    "a distance": (
        "def f(float(N, D) X) -> (O) { O(n, d) +=! k + 5 <= d ? X(n, k) : 0 where d in 0:D }",
        ((3, 40),),
    ),
    "ranges that begin elsewhere": (
        "def f(float(N, D) X) -> (O) {"
        " O(n, d) +=! k + 2 <= d ? X(n, k) : 0 where d in 5:D, k in 3:D }",
        ((3, 40),),
    ),
    "another condition": (
        "def f(float(N, D) X) -> (O) {"
        " O(n, d) +=! k <= d && X(n, k) > 0 && n < 2 ? X(n, k) : 0 where d in 0:D }",
        ((3, 40),),
    ),
    "going on": (
        "def f(float(N, D) X) -> (O) { O(n, d) = X(n, d) * 3 O(n, d) += k <= d ? X(n, k) : 0 }",
        ((3, 40),),
    ),
    "used in the same row": (
        "def f(float(N, D) X) -> (O) {"
        " S(n, d) +=! k <= d ? X(n, k) : 0 where d in 0:D"
        " T(n) max=! S(n, d)"
        " O(n, d) = S(n, d) - T(n) + X(n, d) }",
        ((3, 40),),
    ),
    "a scan of a scan": (
        "def f(float(N, D) X) -> (O) {"
        " S(n, d) +=! k <= d ? X(n, k) : 0 where d in 0:D"
        " O(n, d) +=! k >= d ? S(n, k) : 0 where d in 0:D }",
        ((3, 40),),
    ),
    "two of one row": (
        "def f(float(N, D) X) -> (O, P) {"
        " O(n, d) +=! k <= d ? X(n, k) : 0 where d in 0:D"
        " P(n, d) max=! k <= d ? X(n, k) : X(n, 0) where d in 0:D }",
        ((3, 40),),
    ),
    "sums under the condition that keeps them inside": (
        "def f(float(M, E) X, float(D) y) -> (O) {"
        " O(d) +=! k <= d ? X(k, e) * X(k, e) : 0 where d in 0:10, k in 0:D, e in 0:E }",
        ((10, 3), (40,)),
    ),
    "the same from the end": (
        "def f(float(M, E) X, float(D) y) -> (O) {"
        " O(d) +=! k >= d + 30 ? X(k - 30, e) * X(k - 30, e) : 0"
        " where d in 0:10, k in 0:D, e in 0:E }",
        ((10, 3), (40,)),
    ),
    "states of linear attention": (
        "def f(float(T, D) Q, float(T, D) K, float(T, E) V) -> (O) {"
        " S(t, d, e) +=! s <= t ? K(s, d) * V(s, e) : 0 where t in 0:T"
        " O(t, e) +=! Q(t, d) * S(t, d, e) }",
        ((20, 6), (20, 6), (20, 10)),
    ),
    "looked up": (
        "def f(float(N, D) X, int32(D) i) -> (O) {"
        " O(n, d) +=! k <= d ? X(n, i(k)) : 0 where d in 0:D }",
        ((3, 40), (40,)),
    ),
}


@pytest.mark.parametrize(("text", "sizes"), TEXTS.values(), ids=TEXTS)
def test_texts(text: str, sizes: tuple[tuple[int, ...], ...]) -> None:
    values = [integers(*s) for s in sizes]
    if "int32(D) i" in text:
        values[1] = torch.randint(40, (40,), dtype=torch.int32)
    executor = compiled(text, *values)
    assert is_scan(executor)
    ours, wanted = executor(*values), reference.run(text, "f", *values)
    for a, b in zip(*((x,) if isinstance(x, torch.Tensor) else x for x in (ours, wanted))):
        assert torch.equal(a, b)


@pytest.mark.parametrize("strides", ["columns", "every second", "backwards rows"])
def test_strided_arguments(strides: str) -> None:
    text = TEXTS["one row"][0].replace("(D)", "(N, D)").replace("O(d)", "O(n, d)")
    text = text.replace("X(k)", "X(n, k)")
    whole = integers(40, 80)
    x = {"columns": whole.t(), "every second": whole[:, ::2], "backwards rows": whole[::3]}[strides]
    executor = compiled(text, x)
    assert is_scan(executor)
    assert torch.equal(executor(x), x.cumsum(1))


def test_nan_and_infinity() -> None:
    x = torch.randn(3, 50)
    x[0, 20], x[1, 33], x[2, 5], x[2, 30] = torch.nan, torch.inf, -torch.inf, torch.inf
    text = "def f(float(N, D) X) -> (O) { O(n, d) +=! k <= d ? X(n, k) : 0 where d in 0:D }"
    torch.testing.assert_close(compiled(text, x)(x), x.cumsum(1), equal_nan=True)
    text = text.replace("+=!", "max=!").replace(": 0", ": X(n, 0)")
    torch.testing.assert_close(compiled(text, x)(x), x.cummax(1).values, equal_nan=True)


SIDES = {
    "terms elsewhere": "k <= d ? X(n, k) : X(n, k) * 2",
    "a number elsewhere": "k <= d ? X(n, k) : 1",
    "a factor of one side": "k < d ? X(n, k) : X(n, d) * X(n, k)",
}


@pytest.mark.parametrize("value", SIDES.values(), ids=SIDES)
def test_sums_of_both_sides(value: str) -> None:
    """Up to each result, and from it on."""
    text = f"def f(float(N, D) X) -> (O) {{ O(n, d) +=! {value} where d in 0:D, k in 0:D }}"
    x = integers(3, 40)
    executor = compiled(text, x)
    assert executor.explain().count("in order of") == 2
    assert torch.equal(executor(x), reference.run(text, "f", x))


ALONE = {
    "terms that depend on the result": "O(n, d) +=! k <= d ? abs(X(n, k) - X(n, d)) : 0",
    "a product with the result": "O(n, d) *=! k <= d ? X(n, k) * X(n, d) : 1",
    "an extreme with the result": "O(n, d) max=! k <= d ? X(n, k) * X(n, d) : -1.0 / 0.0",
    "a window": "O(n, d) +=! k <= d && k + 4 > d ? X(n, k) : 0",
    "another step": "O(n, d) +=! k <= 2 * d ? X(n, k) : 0",
    "two terms of the first result": "O(n, d) +=! k <= d + 1 ? X(n, k) : 0",
    "a product elsewhere": "O(n, d) *=! k <= d ? X(n, k) : 2",
    "an extreme of others": "O(n, d) max=! k <= d ? X(n, k) : X(n, d)",
    "equality": "O(n, d) +=! k == d ? X(n, k) : 0",
}


@pytest.mark.parametrize("statement", ALONE.values(), ids=ALONE)
def test_left_alone(statement: str) -> None:
    text = f"def f(float(N, D) X) -> (O) {{ {statement} where d in 0:D }}"
    x = integers(3, 40)
    executor = compiled(text, x)
    assert not is_scan(executor)
    assert torch.equal(executor(x), reference.run(text, "f", x))


def test_the_loops_of_the_text_stay() -> None:
    text = TEXTS["one row"][0]
    x = integers(40)
    executor = tc.compile(text, "f", tc.MappingOptions("identity"), x)
    assert not is_scan(executor)
    assert torch.equal(executor(x), x.cumsum(0))


@pytest.mark.parametrize(
    "name", ["one row", "along the first dimension", "in the middle", "terms that are sums"]
)
def test_cuda(name: str) -> None:
    text, sizes = TEXTS[name]
    values = [integers(*s) for s in sizes]
    executor = tc.compile(text, "f", None, *values, target="cuda:sm_90")
    assert is_scan(executor)
    wanted = reference.run(text, "f", *values)
    result = torch.full_like(wanted, torch.nan)
    emulated.run(executor, tuple(values), (result,), initial=0)
    assert torch.equal(result, wanted)


def test_lanes_go_on_from_those_before() -> None:
    """A row of neighbours is scanned in vectors, as columns are."""
    text = TEXTS["one row"][0]
    row = compiled(text, integers(1000)).explain()
    assert re.search(r"vectors along d.*each lane from those before it", row), row
    columns = compiled(TEXTS["along the first dimension"][0], integers(13, 40)).explain()
    assert "vectors along n" in columns


@pytest.mark.parametrize("condition", ["k <= d", "k < d"])
@pytest.mark.parametrize("bits", [128, 256, 512])
def test_vectors_of_few_lanes(monkeypatch: pytest.MonkeyPatch, bits: int, condition: str) -> None:
    """One vector with a tail, of 2, 4 and 8 lanes."""
    monkeypatch.setenv("TC_MACHINE", f"vector_bits={bits}")
    text = f"def f(int64(D) X) -> (O) {{ O(d) +=! {condition} ? X(k) : 0 where d in 0:3 }}"
    x = integers(8, dtype=torch.int64)
    executor = compiled(text, x)
    assert is_scan(executor)
    assert torch.equal(executor(x), reference.run(text, "f", x))


@pytest.mark.parametrize("points", ["apart", "around"])
def test_vectors_of_a_scan_around_uneven_register_tiles(points: str) -> None:
    """They become a serial loop, in which the rows of 4 that are left of 17 cannot be unrolled."""
    options = tc.MappingOptions().libraryCalls(None).cluster("S0").order("i").tile("task", i=17)
    options = (
        options.registers(i=4).points(points).vector(False).nest("S0", loops=("j",), vector=True)
    )
    text = "def f(int8(P, Q) A) -> (T) { T(i, j) +=! r >= j + 3 ? A(i, r) : 0 where j in 1:37 }"
    a = integers(17, 40, dtype=torch.int8)
    executor = tc.compile(text, "f", options, a)
    assert is_scan(executor) and "registers(i=4)" in str(executor.options)
    wanted = a.flip(1).cumsum(1).flip(1)[:, 4:].to(torch.int8)
    assert torch.equal(executor(a), wanted)


@pytest.mark.parametrize("block", [5, 8, 16, 36])
@pytest.mark.parametrize("condition", ["k <= d", "k >= d"])
def test_vectors_of_a_scan_that_is_cut_into_blocks(condition: str, block: int) -> None:
    """Each block goes on from the one before."""
    options = (
        tc.MappingOptions().libraryCalls(None).cluster("S0").order("n").tile("reduction", d=block)
    )
    options = options.points("apart").vector(False).nest("S0", loops=("d",), vector=True)
    text = f"def f(float(N, D) X) -> (O) {{ O(n, d) +=! {condition} ? X(n, k) : 0 where d in 0:D }}"
    x = integers(3, 37)
    executor = tc.compile(text, "f", options, x)
    assert is_scan(executor) and f'tile("reduction", d={block})' in str(executor.options)
    wanted = x.cumsum(1) if condition == "k <= d" else x.flip(1).cumsum(1).flip(1)
    assert torch.equal(executor(x), wanted)


def test_a_scan_beside_private_temporaries() -> None:
    text = """def f(float(N, D) X) -> (O) {
        S(n, d) +=! k <= d ? X(n, k) : 0.0 where d in 0:D
        M(n) max=! S(n, d)
        O(n, d) = S(n, d) - M(n) }"""
    x = integers(64, 200)
    executor = compiled(text, x)
    assert "M.private" in executor.loop_nest
    sums = x.cumsum(1)
    assert torch.equal(executor(x), sums - sums.amax(1, keepdim=True))


def test_derivatives_are_scans() -> None:
    operator = tc.define(tc.ops.source("cumulative_sum"), namespace="tc_scans").cumulative_sum
    x = integers(5, 37).requires_grad_()
    received = integers(5, 37)
    (ours,) = torch.autograd.grad(tc.make_autograd(operator)(x), x, received)
    (wanted,) = torch.autograd.grad(x.cumsum(1), x, received)
    assert torch.equal(ours, wanted)
    source = tc.grad_source(tc.ops.source("cumulative_sum"), "cumulative_sum")
    executor = tc.compile(source, "cumulative_sum_grad", OWN, x.detach(), received)
    assert is_scan(executor)


def test_terms_that_no_result_has_are_not_read() -> None:
    """What a condition on the result leaves out may lie outside of the tensor."""
    text = """def f(float(N) A) -> (S) {
        S(d) +=! d < N && k <= d ? A(k) : 0 where d in 0:2 * N + 2000, k in 0:2 * N + 2000 }"""
    x = fenced(integers(512))
    executor = compiled(text, x)
    assert torch.equal(executor(x)[:512], x.cumsum(0))


def test_an_extreme_without_terms() -> None:
    text = """def f(float(N, J) A) -> (M) {
        M(d) max=! k <= d ? A(k, j) : -5.0 where d in 0:N, k in 0:N, j in 0:J }"""
    assert tc.define(text, namespace="tc_scans").f(torch.zeros(20, 0)).tolist() == [-torch.inf] * 20


def test_conditions_that_keep_others_from_reading_outside() -> None:
    """`&&` reads what stands behind it only where what stands in front holds."""
    text = """def f(float(D) X, int32(D) I, float(M) B) -> (O) {
      O(d) +=! k <= d && I(d) >= 0 && B(I(d)) > 0 ? X(k) : 0 where d in 0:D, k in 0:D
    }"""
    x, b = torch.rand(40), torch.tensor([1.0, -1.0, 1.0])
    i = torch.arange(40, dtype=torch.int32) % 3
    i[0] = -1000000000
    wanted = torch.where(b[i.clamp(min=0).long()] > 0, x.cumsum(0), torch.zeros(()))
    wanted[0] = 0
    torch.testing.assert_close(tc.compile(text, "f", None, x, i, b)(x, i, b), wanted)
    text = """def f(float(N, D) X, float(M, D) B) -> (O) {
      O(n, d) +=! k <= d && n >= 3 && B(n - 3, d) > 0 ? X(n, k) : 0
        where n in 0:N, d in 0:D, k in 0:D
    }"""
    x, b = torch.rand(9, 40), fenced(torch.randn(6, 40), at_start=True)
    wanted = x.cumsum(1)
    wanted[3:] = torch.where(b > 0, wanted[3:], torch.zeros(()))
    wanted[:3] = 0
    torch.testing.assert_close(tc.compile(text, "f", None, x, b)(x, b), wanted)
