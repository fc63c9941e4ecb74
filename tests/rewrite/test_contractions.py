"""Products of several factors are taken in the order that costs least, and what statements share is
made once.

Values are small integers, so that sums are exact in every order.
"""

from __future__ import annotations

import re

import emulated
import pytest
import torch
from exact import FLOATS, integers

import tensor_comprehensions as tc
from tensor_comprehensions import reference

OWN = tc.MappingOptions().matchLibraryCalls(False)


def compiled(text: str, *values: object) -> tc.Executor:
    return tc.compile(text, "f", OWN, *values)


def statements(executor: tc.Executor) -> list[str]:
    return re.findall(r"^  S\d+ +(.*)$", executor.explain(), re.M)


def made(executor: tc.Executor) -> dict[str, str]:
    """What temporaries are computed of, by their names without indices."""
    pairs = (re.match(r"([\w.]+)(\(.*?\)) \+?=!? (.*)", line) for line in statements(executor))
    return {m[1]: m[2] + " " + m[3] for m in pairs if m and "." in m[1]}


CUBIC = """def f(float(O_, I, I, I) W, float(B, I) X) -> (O) {
    O(b, o) +=! W(o, i, j, k) * X(b, i) * X(b, j) * X(b, k)
}"""
QUADRATIC = """def f(float(O_, I, I) W, float(B, I) X) -> (O) {
    O(b, o) +=! W(o, i, j) * X(b, i) * X(b, j)
}"""
MACHINE = """def f(float(I, R) V, float(B, I) X) -> (O) {
    O(b) +=! V(i, r) * V(j, r) * V(k, r) * X(b, i) * X(b, j) * X(b, k)
}"""
SYMMETRIC = """def f(float(I, I, P) U, float(E, P, C) W, float(N, C, I) A, int32(N) e) -> (B) {
    B(n, c) +=! U(i, j, p) * W(e(n), p, c) * A(n, c, i) * A(n, c, j)
}"""

ORDERS = {
    # The text, the equation, its operands, sizes, and temporaries.
    "cubic": (
        CUBIC,
        "oijk,bi,bj,bk->bo",
        "WXXX",
        {"o": 6, "i": 12, "j": 12, "k": 12, "b": 32},
        {"O.product", "O.over_ij"},
    ),
    "a product first": (
        QUADRATIC,
        "oij,bi,bj->bo",
        "WXX",
        {"o": 60, "i": 12, "j": 12, "b": 32},
        {"O.product"},
    ),
    "a sum first": (
        QUADRATIC,
        "oij,bi,bj->bo",
        "WXX",
        {"o": 5, "i": 40, "j": 40, "b": 32},
        {"O.over_i"},
    ),
    "factorization machine": (
        MACHINE,
        "ir,jr,kr,bi,bj,bk->b",
        "VVVXXX",
        {"i": 10, "j": 10, "k": 10, "r": 5, "b": 20},
        {"O.over_i"},
    ),
}


def operands(equation: str, names: str, sizes: dict[str, int]) -> dict[str, torch.Tensor]:
    letters = dict(zip(names, equation.split("->")[0].split(",")))
    return {name: integers(*(sizes[i] for i in letters[name])) for name in dict.fromkeys(names)}


@pytest.mark.parametrize(
    ("text", "equation", "names", "sizes", "wanted"), ORDERS.values(), ids=ORDERS
)
def test_orders(
    text: str, equation: str, names: str, sizes: dict[str, int], wanted: set[str]
) -> None:
    values = operands(equation, names, sizes)
    executor = compiled(text, *values.values())
    assert set(made(executor)) == wanted
    right = torch.einsum(equation, *(values[name].double() for name in names))
    assert torch.equal(executor(*values.values()).double(), right)


def gradients(text: str, *values: torch.Tensor) -> tuple[tc.Executor, list[torch.Tensor]]:
    source = tc.grad_source(text, "f")
    executor = tc.compile(source, "f_grad", OWN, *values)
    found = executor(*values)
    return executor, list(found) if isinstance(found, tuple) else [found]


DERIVATIVES = {
    # A product that all terms of a derivative share: sum_i V(i, r) * X(b, i), once for all six, and
    # sum_o W(o, i, j) * d_O(b, o), once for both.
    "factorization machine": (
        MACHINE,
        "ir,jr,kr,bi,bj,bk->b",
        "VVVXXX",
        {"i": 8, "j": 8, "k": 8, "r": 4, "b": 20},
        r"\bV\(.*\bX\(|\bX\(.*\bV\(",
    ),
    "quadratic": (
        QUADRATIC,
        "oij,bi,bj->bo",
        "WXX",
        {"o": 30, "i": 20, "j": 20, "b": 24},
        r"\bW\(",
    ),
}


@pytest.mark.parametrize(
    ("text", "equation", "names", "sizes", "once"), DERIVATIVES.values(), ids=DERIVATIVES
)
def test_derivatives(
    text: str, equation: str, names: str, sizes: dict[str, int], once: str
) -> None:
    values = operands(equation, names, sizes)
    leaves = {name: value.double().requires_grad_() for name, value in values.items()}
    result = torch.einsum(equation, *(leaves[name] for name in names))
    outer = integers(*result.shape)
    right = torch.autograd.grad(result, list(leaves.values()), outer.double())
    executor, found = gradients(text, *values.values(), outer)
    for gradient, wanted in zip(found, right):
        assert torch.equal(gradient.double(), wanted)
    assert sum(bool(re.search(once, line)) for line in statements(executor)) == 1


def symmetric(u: torch.Tensor, w: torch.Tensor, a: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    return torch.einsum("ijp,npc,nci,ncj->nc", u, w[e.long()], a, a)


def test_places() -> None:
    """Batatia et al., MACE, 2022: the weights of few elements, picked for many atoms."""
    u, w, a = integers(7, 7, 4), integers(3, 4, 16), integers(24, 16, 7)
    e = torch.randint(0, 2, (24,), dtype=torch.int32)
    executor = compiled(SYMMETRIC, u, w, a, e)
    # For each of the elements, not for each of the atoms.
    assert any(re.search(r"W\(n_, p, c\)", line) for line in statements(executor))
    right = symmetric(u.double(), w.double(), a.double(), e)
    assert torch.equal(executor(u, w, a, e).double(), right)
    # A row that is not picked does not count.
    w[2] = torch.nan
    assert torch.equal(executor(u, w, a, e).double(), right)
    with pytest.raises(tc.TCError, match=r"W\(e\(n\), p, c\)"):
        executor(u, w, a, torch.full_like(e, 3))


def test_places_that_are_many_are_none() -> None:
    u, w, a = integers(7, 7, 4), integers(40, 4, 16), integers(24, 16, 7)
    e = torch.randint(0, 40, (24,), dtype=torch.int32)
    executor = compiled(SYMMETRIC, u, w, a, e)
    assert not any("n_" in line for line in statements(executor))
    assert torch.equal(
        executor(u, w, a, e).double(), symmetric(u.double(), w.double(), a.double(), e)
    )


GUARDED = {
    "a row that is none": "(e(n) >= 0 ? W(e(n), p, c) : 0) * U(p, k)",
    "one of a shorter tensor, too": "W(e(n), p, c) * V(e(n), k) * U(p, k)",
    "in two dimensions": "X(e(n), g(n), p) * U(p, k) * W(e(n), p, c)",
}


@pytest.mark.parametrize("factors", GUARDED.values(), ids=GUARDED)
def test_which_places_count(factors: str) -> None:
    integer = "int64" if "X(" in factors else "int32"
    text = f"""def f(float(E, P, C) W, float(F, K) V, float(P, K) U, float(N, K) A,
                     float(E, F, P) X, {integer}(N) e, {integer}(N) g) -> (O) {{
        O(n, c) +=! {factors} * A(n, k) where n in 0:N, k in 0:K, p in 0:P, c in 0:C
    }}"""
    sizes = ((5, 6, 20), (3, 8), (6, 8), (64, 8), (5, 3, 6))
    values = [integers(*size) for size in sizes]
    places = [torch.randint(0, 3, (64,), dtype=getattr(torch, integer)) for _ in range(2)]
    if "?" in factors:
        places[0][::7] = -1
    executor = compiled(text, *values, *places)
    assert torch.equal(executor(*values, *places), reference.run(text, "f", *values, *places))


def test_derivatives_at_places() -> None:
    u, w, a = integers(7, 7, 4), integers(3, 4, 16), integers(24, 16, 7)
    e, outer = torch.randint(0, 3, (24,), dtype=torch.int32), integers(24, 16)
    leaves = [value.double().requires_grad_() for value in (u, w, a)]
    right = torch.autograd.grad(symmetric(*leaves, e), leaves, outer.double())
    _, found = gradients(SYMMETRIC, u, w, a, e, outer)
    for gradient, wanted in zip(found, right):
        assert torch.equal(gradient.double(), wanted)


TWO = """def f(float(I, J) A, float(J, K) B, float(K, L) C, float(L, M) D, float(M) s) -> (O, P) {{
    {0}
}}"""
SIZES = ((20, 30), (30, 25), (25, 18), (18, 22), (22,))
# Statements, and how many of their products hold A and B.
SHARED = {
    "one product of two statements": (
        "O(i, l) +=! A(i, j) * B(j, k) * C(k, l)"
        "  P(m, i) +=! B(q, r) * (D(l, m) * A(i, q)) * C(r, l)",
        1,
    ),
    "written in between": (
        "T(j, k) = B(j, k)  O(i, l) +=! A(i, j) * T(j, k) * C(k, l)"
        "  T(j, k) = T(j, k) + 1  P(i, m) +=! A(i, j) * T(j, k) * C(k, l) * D(l, m)",
        2,
    ),
    "constants that differ in the last place": (
        "O(i, l) +=! A(i, j) * (B(j, k) + 1.0) * C(k, l)"
        "  P(i, l) +=! A(i, j) * (B(j, k) + 1.0000001) * C(k, l)",
        2,
    ),
    "a quotient and a product": (
        "O(i, l) +=! A(i, j) * exp2(B(j, k)) * C(k, l)"
        "  P(i, l) +=! A(i, j) / exp2(B(j, k)) * C(k, l)",
        2,
    ),
}


@pytest.mark.parametrize(("text", "count"), SHARED.values(), ids=SHARED)
def test_shared(text: str, count: int) -> None:
    values = [integers(*size) for size in SIZES]
    executor = compiled(TWO.format(text), *values)
    products = [line for line in statements(executor) if re.search(r"\.over_j+\(.*A\(", line)]
    assert len([p for p in products if "A(" in p.split("=")[-1]]) == count
    doubles = TWO.format(text).replace("float", "double")
    right = reference.run(doubles, "f", *(value.double() for value in values))
    for result, wanted in zip(executor(*values), right):
        torch.testing.assert_close(result.double(), wanted, rtol=1e-6, atol=1e-4)


def test_a_factor_that_is_summed_alone_inside_a_product() -> None:
    text = """def f(double(E, F, B) T, double(E, D, B) S, double(R, B) W, int32(B) g) -> (O) {
        O(d, e, f) +=! S(e, d, b) * S(e, d, b) * T(e, i, b) * S(e, d, b) * W(g(a), a) * T(e, f, b)
    }"""
    t, s, w = (integers(*size, dtype=torch.double) for size in ((6, 8, 16), (6, 24, 16), (2, 16)))
    g = torch.randint(0, 2, (16,), dtype=torch.int32)
    wanted = torch.einsum("edb,edb,eib,edb,a,efb->def", s, s, t, s, w[g.long(), range(16)], t)
    assert torch.equal(compiled(text, t, s, w, g)(t, s, w, g), wanted)


def test_many_factors() -> None:
    letters = "abcdefghijkl"
    names = [f"M{n}" for n in range(11)]
    parameters = ", ".join(f"double(S{n}, S{n + 1}) {name}" for n, name in enumerate(names))
    product = " * ".join(f"{name}({letters[n]}, {letters[n + 1]})" for n, name in enumerate(names))
    values = [integers(4, 4, dtype=torch.double) for _ in names]
    text = f"def f({parameters}) -> (O) {{ O(a, l) +=! {product} }}"
    executor = compiled(text, *values)
    assert torch.equal(executor(*values), torch.linalg.multi_dot(values))


@pytest.mark.parametrize("name", ["double", "half"])
def test_types(name: str) -> None:
    weight, x = (integers(*size, dtype=FLOATS[name]) for size in ((40, 16, 16), (20, 16)))
    text = QUADRATIC.replace("float", name)
    wanted = torch.einsum("oij,bi,bj->bo", weight.double(), x.double(), x.double()).to(x.dtype)
    executor = compiled(text, weight, x)
    assert made(executor)
    assert torch.equal(executor(weight, x), wanted)


def test_integers_and_empty_sums() -> None:
    weight, x = integers(4, 8, 8, dtype=torch.int32), integers(20, 8, dtype=torch.int32)
    wanted = torch.einsum("oij,bi,bj->bo", weight.double(), x.double(), x.double())
    result = compiled(QUADRATIC.replace("float", "int32"), weight, x)(weight, x)
    assert torch.equal(result.double(), wanted)
    nothing = integers(4, 0, 0), integers(20, 0)
    assert torch.equal(compiled(QUADRATIC, *nothing)(*nothing), torch.zeros(20, 4))


def test_strides() -> None:
    weight, x = integers(16, 16, 40).permute(2, 1, 0), integers(16, 48)[:, ::2].t()
    wanted = torch.einsum("oij,bi,bj->bo", weight.double(), x.double(), x.double())
    executor = compiled(QUADRATIC, weight, x)
    assert made(executor)
    assert torch.equal(executor(weight, x).double(), wanted)


def test_scales_stay_with_their_terms() -> None:
    """What keeps a sum finite is part of the first one."""
    text = """def f(float(I, J) A, float(J, K) B, float(K, L) C) -> (O) {
        O(i, l) +=! A(i, j) * B(j, k) * C(k, l) * 0.001
    }"""
    a, b, c = torch.full((20, 30), 3e18), torch.full((30, 25), 1e19), torch.ones(25, 18)
    executor = compiled(text, a, b, c)
    assert made(executor)
    torch.testing.assert_close(executor(a, b, c), torch.full((20, 18), 2.25e37))


def test_conditions() -> None:
    text = """def f(float(T, D) Q, float(T, D) K, float(T, D) G, float(T, E) V, float(T) z) -> (O) {
        O(t, e) +=! s <= t ? Q(t, d) * K(s, d) * G(s, d) * V(s, e) * z(t - s) : 0
            where t in 0:T, s in 0:T
    }"""
    q, k, g, v, z = (integers(*s) for s in ((40, 30), (40, 30), (40, 30), (40, 50), (40,)))
    executor = compiled(text, q, k, g, v, z)
    assert any("over_d" in name for name in made(executor))
    rows = torch.arange(40)
    decays = (rows[:, None] - rows).clamp(min=0)
    weights = (q @ (k * g).t()) * torch.tril(z[decays])
    assert torch.equal(executor(q, k, g, v, z), weights @ v)


def test_cuda() -> None:
    u, w, a = integers(6, 6, 4), integers(2, 4, 16), integers(8, 16, 6)
    e = torch.randint(0, 2, (8,), dtype=torch.int32)
    executor = tc.compile(SYMMETRIC, "f", None, u, w, a, e, target="cuda:sm_90")
    result = torch.full((8, 16), torch.nan)
    emulated.run(executor, (u, w, a, e), (result,), initial=0)
    assert torch.equal(result.double(), symmetric(u.double(), w.double(), a.double(), e))
