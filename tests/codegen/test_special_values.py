"""NaN and infinity through sums of products, and through what follows them in the same loops."""

from __future__ import annotations

import math
import zlib

import numpy as np
import pytest
import torch
from exact import integers

import tensor_comprehensions as tc
from tensor_comprehensions import reference

INF, NAN = math.inf, math.nan
TYPES = {"float": torch.float32, "double": torch.float64, "half": torch.float16}

# Sizes of results and of the sum: one vector, blocks with all kinds of edges, no vector.
SIZES = [(1, 1, 1), (3, 16, 5), (17, 33, 20), (16, 64, 40), (7, 5, 33)]

PRODUCTS = {
    "rows": ("A(m, k) * B(k, n)", lambda a, b: (a, b)),
    "columns": ("A(m, k) * B(n, k)", lambda a, b: (a, b.t().contiguous())),
    "transposed": ("A(k, m) * B(n, k)", lambda a, b: (a.t().contiguous(), b.t().contiguous())),
}


def run(text: str, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    t = tc.define(text, namespace=f"tc_special_{zlib.crc32(text.encode())}")
    results = t("special", *inputs)
    return results if isinstance(results, tuple) else (results,)


def spoil(a: torch.Tensor, b: torch.Tensor) -> None:
    """Special values that meet numbers, zeros and each other, and leave most results alone."""
    m, k = a.shape
    n = b.shape[1]
    places = [
        (a, m // 2, k // 2, NAN),
        (b, k // 3, n // 2, INF),
        (b, k - 1, n - 1, -INF),
        (a, m - 1, k - 1, INF),
        (a, 0, k // 3, 0.0),  # times inf
        (b, 0, n // 4, NAN),
    ]
    for tensor, row, column, value in places:
        tensor[row, column] = value


def numbers(*sizes: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, sizes, generator=generator).to(dtype)


def same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected.to(actual.dtype), rtol=0, atol=0, equal_nan=True)


FOLLOWING = """
  D(m, n) = C(m, n) == C(m, n) ? 1.0 : 0.0
  E(m, n) = fmax(C(m, n), 0)
  F(m, n) = max(C(m, n), 0)
  G(m, n) = C(m, n) < 1 ? 2.0 : C(m, n) >= 1 ? 3.0 : 4.0
  H(m, n) = isnan(C(m, n)) ? 5.0 : isinf(C(m, n)) ? 6.0 : C(m, n) - C(m, n)
  I(m, n) = C(m, n) * bias(n) + bias(n)
  J(m, n) = I(m, n) != I(m, n) ? 7.0 : 8.0
  K(m, n) = !(C(m, n) <= bias(n)) ? 1.0 : 0.0
"""


def following(c: torch.Tensor, bias: torch.Tensor) -> list[torch.Tensor]:
    zero = torch.zeros((), dtype=c.dtype)
    product = c * bias + bias
    return [
        (c == c).double(),
        torch.fmax(c, zero),
        torch.maximum(c, zero),
        torch.where(c < 1, 2.0, torch.where(c >= 1, 3.0, 4.0)),
        torch.where(c.isnan(), 5.0, torch.where(c.isinf(), 6.0, 0.0)),
        product,
        torch.where(product.isnan(), 7.0, 8.0),
        (~(c <= bias)).double(),
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_what_follows_a_product(sizes: tuple[int, ...], product: str, name: str) -> None:
    """All in one nest of loops, the results still in registers."""
    m, n, k = sizes
    term, arrange = PRODUCTS[product]
    text = f"""
    def special({name}(A_0, A_1) A, {name}(B_0, B_1) B, {name}(N) bias)
        -> (C, D, E, F, G, H, I, J, K) {{
      C(m, n) +=! {term}
      {FOLLOWING}
    }}
    """
    a = numbers(m, k, dtype=TYPES[name], seed=0)
    b = numbers(k, n, dtype=TYPES[name], seed=1)
    bias = numbers(n, dtype=TYPES[name], seed=2)
    bias[n // 3] = NAN
    spoil(a, b)
    c, *others = run(text, *arrange(a, b), bias)
    expected = (a.double() @ b.double()).to(a.dtype)
    same(c, expected)
    for actual, wanted in zip(others, following(expected, bias), strict=True):
        same(actual, wanted)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_what_comes_before_a_product(sizes: tuple[int, ...], name: str) -> None:
    """Terms that take a NaN, or the infinity of a mask, out of the sum."""
    m, n, k = sizes
    text = f"""
    def special({name}(M, K) A, {name}(N, K) B) -> (P, Q, R, S) {{
      P(m, n) +=! (A(m, k) == A(m, k) ? A(m, k) : 0) * B(n, k)
      Q(m, n) +=! (isnan(A(m, k)) || isinf(A(m, k)) ? 0 : A(m, k)) * B(n, k)
      R(m, n) +=! fmin(fmax(A(m, k), -2), 2) * B(n, k)
      S(m, n) +=! (A(m, k) < 3 ? 1 : A(m, k) >= 3 ? 2 : 0) * B(n, k)
    }}
    """
    a = numbers(m, k, dtype=TYPES[name], seed=0)
    b = numbers(n, k, dtype=TYPES[name], seed=1)
    spoil(a, a.t().clone())
    a[m // 2, 0], a[m // 3, k - 1], a[0, k // 2] = -INF, NAN, NAN
    p, q, r, s = run(text, a, b)
    wide, right = a.double(), b.double().t()
    no_nan = torch.where(wide.isnan(), 0.0, wide)
    same(p, (no_nan @ right).to(a.dtype))
    same(q, (torch.where(wide.isfinite(), wide, 0.0) @ right).to(a.dtype))
    clamped = torch.fmin(torch.fmax(wide, torch.tensor(-2.0)), torch.tensor(2.0))
    same(r, (clamped @ right).to(a.dtype))
    weights = (wide < 3).double() + 2 * (wide >= 3).double()
    same(s, (weights @ right).to(a.dtype))


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_values_that_follow_from_constants(sizes: tuple[int, ...], name: str) -> None:
    """Infinities of masks, which no operand holds, and tests of them."""
    m, n, k = sizes
    text = f"""
    def special({name}(M, K) A, {name}(N, K) B) -> (C, D, E, F) {{
      C(m, n) +=! A(m, k) * B(n, k)
      C(m, n) = n > m ? -1.0 / 0.0 : C(m, n)
      D(m, n) = C(m, n) < -1e4 ? 1.0 : 0.0
      E(m, n) = exp(C(m, n))
      F(m, n) = n < m ? 0.0 / 0.0 : C(m, n)
      D(m, n) = F(m, n) != F(m, n) ? 2.0 : D(m, n)
    }}
    """
    a = numbers(m, k, dtype=TYPES[name], seed=0) / 16
    b = numbers(n, k, dtype=TYPES[name], seed=1) / 16
    c, d, e, f = run(text, a, b)
    masked = (a.double() @ b.double().t()).to(a.dtype)
    above = torch.ones(m, n, dtype=torch.bool).triu(1)
    below = torch.ones(m, n, dtype=torch.bool).tril(-1)
    masked[above] = -INF
    same(c, masked)
    same(d, torch.where(below, 2.0, torch.where(above, 1.0, 0.0)))
    torch.testing.assert_close(e, masked.exp())
    same(f, torch.where(below, NAN, masked))


@pytest.mark.parametrize(("name", "large"), [("float", 3e38), ("double", 1e308), ("half", 6e4)])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_overflow(sizes: tuple[int, ...], name: str, large: float) -> None:
    m, n, k = sizes
    text = f"""
    def special({name}(M, K) A, {name}(N, K) B) -> (C, D, E) {{
      C(m, n) +=! A(m, k) * B(n, k)
      D(m, n) = C(m, n) - C(m, n)
      E(m, n) = C(m, n) * 0 == 0 ? 1.0 : 0.0
    }}
    """
    a = torch.zeros(m, k, dtype=TYPES[name])
    b = torch.zeros(n, k, dtype=TYPES[name])
    a[:, k // 2] = large
    b[::2, k // 2] = 16
    b[1::3, k // 2] = -8
    c, d, e = run(text, a, b)
    # One term is not zero, so that there is one order.
    expected = a[:, k // 2, None] * b[:, k // 2]
    same(c, expected)
    same(d, expected - expected)
    same(e, expected.isfinite().double())


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("operator", ["max", "min"])
def test_extrema_of_products(operator: str, name: str) -> None:
    text = f"""
    def special({name}(M, K) A, {name}(N, K) B) -> (C, D) {{
      C(m, n) {operator}=! A(m, k) * B(n, k)
      D(m, n) = C(m, n) != C(m, n) ? 1.0 : 0.0
    }}
    """
    for m, n, k in SIZES:
        a = numbers(m, k, dtype=TYPES[name], seed=0)
        b = numbers(k, n, dtype=TYPES[name], seed=1)
        spoil(a, b)
        c, d = run(text, a, b.t().contiguous())
        terms = a[:, None] * b.t()
        expected = terms.amax(-1) if operator == "max" else terms.amin(-1)
        same(c, expected)
        same(d, expected.isnan().double())


@pytest.mark.parametrize("name", ["float", "double"])
def test_long_sums(name: str) -> None:
    """Sums in parts and in tiles."""
    text = f"""
    def special({name}(M, K) A, {name}(N, K) B) -> (C, D) {{
      C(m, n) +=! A(m, k) * B(n, k)
      D(m, n) = C(m, n) == C(m, n) ? 1.0 : 0.0
    }}
    """
    for m, n, k in ((1, 3, 100_003), (5, 17, 100_000)):
        a = numbers(m, k, dtype=TYPES[name], seed=0)
        b = numbers(n, k, dtype=TYPES[name], seed=1)
        a[0, 77], b[n // 2, k // 2], a[m - 1, k - 1] = 1, INF, NAN
        b[0, 5] = NAN
        c, d = run(text, a, b)
        expected = a.double() @ b.double().t()
        same(c, expected)
        same(d, (~expected.isnan()).double())


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("divisor", ["0", "float(N - 4)", "-0.0"])
def test_division_by_a_constant_zero(name: str, divisor: str) -> None:
    text = f"""
    def special({name}(N) A) -> (C, S) {{
      C(i) = A(i) / {divisor.replace("float", name)}
      S(i) +=! A(k) / {divisor.replace("float", name)} where i in 0:3
    }}
    """
    a = torch.tensor([1.0, -2.0, 0.0, NAN], dtype=TYPES[name])
    c, s = run(text, a)
    same(c, a.double() / (-0.0 if divisor == "-0.0" else 0.0))
    assert s.isnan().all()


@pytest.mark.parametrize("name", ["float", "double"])
@pytest.mark.parametrize(("m", "n"), [(1, 5), (3, 16), (8, 35), (33, 64)])
def test_terms_with_a_factor_in_common(m: int, n: int, name: str) -> None:
    """x * a + x * b is no x * (a + b): inf - inf is not a number, inf * (1 - 2) is -inf."""
    text = f"""
    def special({name}(M, K) A, {name}(L, N) B) -> (C, D, E, F) {{
      C(m, n) +=! A(m, k) * B(l, n) where k in 0:K, l in 0:L
      D(m, n) +=! A(m, k + l) * B(l, n) where k in 0:2
      E(m, n) +=! A(m, k) * B(0, n) * float(k + 1)
      F(m, n) +=! A(m, k) * B(l, n) * float(l - 1) where k in 0:2
    }}
    """
    for k, taps in ((3, 2), (2, 1), (6, 3), (4, 3)):
        a = numbers(m, k, dtype=TYPES[name], seed=0)
        b = numbers(taps, n, dtype=TYPES[name], seed=1)
        a[:, 1], a[m - 1, k - 1] = INF, -1
        a[m - 1, 0] = -2
        b[taps // 2, n // 2], b[taps - 1, n - 1], b[0, 0] = -INF, NAN, INF
        results = run(text.replace("k in 0:2", f"k in 0:{k - taps + 1}"), a, b)
        terms = a.double()[:, :, None, None] * b.double()  # m, k, taps, n
        shift = range(k - taps + 1)
        weights = torch.arange(taps)[:, None] - 1.0
        expected = [
            terms.sum((1, 2)),
            sum(terms[:, i + j, j] for i in shift for j in range(taps)),
            (terms[:, :, 0] * torch.arange(1.0, k + 1)[:, None]).sum(1),
            (terms[:, : k - taps + 1] * weights).sum((1, 2)),
        ]
        for actual, wanted in zip(results, expected, strict=True):
            same(actual, wanted)


@pytest.mark.parametrize("name", ["float", "double"])
@pytest.mark.parametrize(
    ("factor", "weights"),
    [
        ("l", (0, 1, 2)),
        ("(-l)", (0, -1, -2)),
        ("(l > 0 ? 1 : 0)", (0, 1, 1)),
        ("float(l > 5)", (0, 0, 0)),
    ],
)
def test_factors_that_are_zero_in_some_iterations(
    factor: str, weights: tuple[int, ...], name: str
) -> None:
    text = f"""
    def special({name}(M, K) A, {name}(K, N) B) -> (C, D) {{
      C(n) +=! A(0, k) * {factor} * B(k, n) where l in 0:3
      D(m, n) +=! B(k, n) * A(m, k) * {factor} where l in 0:3
    }}
    """
    for m, n, k in SIZES:
        a = numbers(m, k, dtype=TYPES[name], seed=0)
        b = numbers(k, n, dtype=TYPES[name], seed=1)
        spoil(a, b)
        c, d = run(text, a, b)
        terms = a.double()[:, :, None] * b.double()
        expected = sum((terms * weight).sum(1) for weight in weights)
        same(c, expected[0])
        same(d, expected)


@pytest.mark.parametrize("size", [3, 5, 9, 17])
@pytest.mark.parametrize(
    "name", ["float32", "float64", "float16", "bfloat16", "int8", "int32", "int64"]
)
def test_lanes_that_alternate_hold_their_own_values(name: str, size: int) -> None:
    """Halide's simplifier takes two scalars a and b for steps from a, the second a + (b - a)."""
    dtype = getattr(torch, name)
    info = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    type_ = {"float32": "float", "float64": "double", "float16": "half"}.get(name, name)
    text = f"""def f({type_}(M, N) A, {type_}(K) B) -> (O) {{
      O(i) min=! (i % 2 >= 1 ? B(0) : A(r, 0)) where i in 0:{size}
    }}"""
    small = torch.tensor([[0.1], [0.2]]).to(dtype) if dtype.is_floating_point else info.min
    for first, second in ((small, info.max), (info.max, small), (info.min, info.max)):
        a, b = torch.zeros(2, 20, dtype=dtype), torch.zeros(1, dtype=dtype)
        a[:, :1] = first
        b[:] = second if not isinstance(second, torch.Tensor) else second[0]
        wanted = a[:, 0].min().repeat(size)
        wanted[1::2] = b[0]
        assert torch.equal(tc.define(text, namespace="tc_alternate").f(a, b), wanted)


UNARY = ["abs", "ceil", "exp", "fabs", "floor", "log", "rint", "round", "rsqrt", "sqrt", "trunc"]
VALUES = [*(f"{name}(x(n))" for name in UNARY), "-x(n)", "(y(n) > 0 ? x(n) : y(n))"]
VALUES += ["x(n) * y(n) + x(n)", "max(x(n), y(n))", "fmin(x(n), y(n))", "copysign(x(n), y(n))"]


@pytest.mark.parametrize("name", ["float", "double"])
def test_values_beside_a_sum_of_products(name: str) -> None:
    """What the sum may assume of its terms holds for no other value of the kernel."""
    kinds = "".join(
        f"  K{k}(n) = isnan(z) ? 1 : isinf(z) ? 2 : z == z ? 3 : 4 where z = {value}"
        f"  M{k}(n) = max(y(n), {value})"
        for k, value in enumerate(VALUES)
    )
    results = ", ".join(f"K{k}, M{k}" for k in range(len(VALUES)))
    head = f"def special({name}(N) x, {name}(N) y, {name}(M, K) A, {name}(K, L) B) -> "
    values = torch.tensor([NAN, INF, -INF, 0.0, 1.5, -2.5, -0.0, 3.0] * 3, dtype=TYPES[name])
    inputs = values, values.flip(0).roll(3), torch.rand(40, 20).to(TYPES[name])
    inputs = *inputs, torch.rand(20, 40).to(TYPES[name])
    text = f"{head}(C, {results}) {{ C(m, l) +=! A(m, k) * B(k, l){kinds} }}"
    _, *found = run(text, *inputs)
    wanted = reference.run(f"{head}({results}) {{ {kinds} }}", "special", *inputs)
    for value, ours, theirs in zip(np.repeat(VALUES, 2), found, wanted, strict=True):
        theirs = torch.as_tensor(theirs).to(ours.dtype)
        torch.testing.assert_close(ours, theirs, equal_nan=True, msg=lambda m, v=value: f"{v}: {m}")


CHOSEN_TERMS = {
    "by rows": "k < size(m) ? A(m, k) * B(k, n) : 0",
    "by columns": "k < size(n) ? A(m, k) * B(k, n) : 0",
    "by a mask": "W(k, n) > 0 ? A(m, k) * B(k, n) : 0",
}


@pytest.mark.parametrize("name", CHOSEN_TERMS)
def test_terms_that_data_leaves_out(name: str) -> None:
    """What they would multiply may be infinite or NaN, and the sum is contracted nonetheless."""
    m = n = 40
    text = f"""def f(float(M, K) A, float(K, N) B, int32(S) size, float(K, N) W) -> (C) {{
      C(m, n) +=! {CHOSEN_TERMS[name]} }}"""
    a, b = integers(m, 70), integers(70, n)
    size, w = torch.randint(0, 71, (40,), dtype=torch.int32), integers(70, n)
    a[3, 60], a[5, 20], b[66, 2], b[10, 7] = INF, NAN, NAN, -INF
    steps = torch.arange(70)
    kept = {
        "by rows": (steps < size[:, None])[:, :, None].expand(m, 70, n),
        "by columns": (steps[:, None] < size)[None].expand(m, 70, n),
        "by a mask": (w > 0)[None].expand(m, 70, n),
    }[name]
    wanted = torch.where(kept, a[:, :, None] * b, 0).sum(1)
    found = tc.compile(text, "f", None, a, b, size, w)(a, b, size, w)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
