"""Derived derivatives: numerical differences, PyTorch's own derivatives, and what is refused."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
import torch
import workloads

import tensor_comprehensions as tc

_namespaces = itertools.count()


def define(text: str) -> tc.TC:
    return tc.define(text, namespace=f"tc_derivatives_{next(_namespaces)}")


def derived(text: str, entry: str = "f") -> object:
    return tc.make_autograd(getattr(define(text), entry))


def r(*sizes: int, low: float = -1.0, high: float = 1.0) -> torch.Tensor:
    return (torch.rand(*sizes, dtype=torch.double) * (high - low) + low).requires_grad_()


def check(text: str, *inputs: object, twice: bool = True) -> None:
    f = derived(text)
    assert torch.autograd.gradcheck(f, inputs)
    if twice:
        assert torch.autograd.gradgradcheck(f, inputs, fast_mode=True)


HEAD = "def f(double(N, M) A, double(M, K) B, double(N) x, double(N) y) -> (O) "
TEXTS = {
    "product": "{ O(n, k) +=! A(n, m) * B(m, k) }",
    "two_sums": "{ T(n) +=! A(n, m)  O(n, k) +=! T(n) * A(n, m) * B(m, k) }",
    "in_place": "{ O(n) = x(n) * y(n)  O(n) += A(n, m)  O(n) = tanh(O(n)) * O(n) }",
    "broadcast": "{ O(n, m) = A(n, m) * x(n) / (y(n) * y(n) + 1) }",
    "diagonal": "{ O(i) = A(i, i) * x(i) where i in 0:3 }",
    "row": "{ O(k) = A(1, k) + A(0, k) * A(1, k) }",
    "transpose": "{ O(m, n) = A(n, m) * x(n) }",
    "strided": "{ O(i) = x(2 * i) * y(2 * i + 1) }",
    "strided_window": "{ O(i) +=! x(2 * i + k) * y(k) where k in 0:2 }",
    "dilated_window": "{ O(i) +=! x(i + 2 * k) * y(k) where k in 0:2 }",
    "reversed": "{ O(i) = x(3 - i) * y(i) }",
    "shifted": "{ T(i) = x(i - 1) * 2.0  O(i) = T(i) * y(i) where i in 1:4 }",
    "window_of_two": "{ O(i, j) = x(i + j) * y(j) where j in 0:2 }",
    "division": "{ O(i) = x(i / 2) * 3.0 where i in 0:4 }",
    "remainder": "{ O(i) = x(i % 3) * y(i) where i in 0:4 }",
    "collapsed": "{ O(i) +=! A(i, j) * x(i) where j in 0:M }",
    "ternary": "{ O(n, m) = A(n, m) > 0.1 ? A(n, m) * x(n) : y(n) }",
    "guarded": "{ O(n) = n > 0 && n < 3 ? x(n - 1) * y(n + 1) : x(n) * x(n) where n in 0:N }",
    "nested_ternary": "{ O(n) = x(n) > 0 ? y(n) > 0 ? x(n) : y(n) : x(n) * y(n) }",
    "max_reduction": "{ O(n) max=! A(n, m) }",
    "min_reduction": "{ O(n) min=! A(n, m) * x(n) }",
    "max_over_all": "{ O max=! A(n, m) }",
    "product_reduction": "{ O(n) *=! A(n, m) + x(n) }",
    "kept_product": "{ O(n) = x(n)  O(n) *= A(n, m) }",
    "kept_max": "{ O(n) = x(n)  O(n) max= A(n, m) }",
    "extremes": "{ O(n) = max(x(n), y(n)) * min(x(n), y(n)) + fmax(x(n), 0.2) + fmin(0.1, y(n)) }",
    "concatenation": "{ O(i) = x(i) * 2.0 where i in 0:N  O(i) = y(i - N) where i in N:N + N }",
    "part": "{ O(i) = x(i) where i in 0:N  O(i) = y(i) * O(i) where i in 1:3 }",
    "part_sum": "{ O(i) = x(i) where i in 0:N  O(i) += A(i, m) where i in 1:3 }",
    "scalar_result": "{ S +=! x(n) * y(n)  O(n) = x(n) / S }",
    "softmax": "{ T(n) max=! A(n, m)  E(n, m) = exp(A(n, m) - T(n))  S(n) +=! E(n, m)"
    "  O(n, m) = E(n, m) / S(n) }",
    "let": "{ O(n) = z * z where z = x(n) + y(n) }",
    "size": "{ T(n) +=! A(n, m)  O(n) = T(n) / A.1 + x(n) * T.0 }",
    "unary": "{ O(n) = -x(n) + -(-y(n)) * x(n) }",
    "integers": "{ O(n) = x(n) * n + int32(y(n)) }",
    "casts": "{ O(n) = double(float(x(n)) * 1.0) }",
    "computed_place": "{ P(i) = (2 * i + 1) / 3 where i in 0:4  O(i) = x(P(i)) * y(i) }",
    "guarded_division": "{ O(i) = i % 2 == 0 ? x(i / 2) * y(i / 2) : 0.5 where i in 0:2 * N }",
    "scattered": "{ T(v) = 0 where v in 0:2  T(i / 2) +=! x(i) * y(i)  O(i) = T(i) * T(i) }",
    "negative_lower_bound": "{ T(i) = i >= 0 && i < N ? x(i) : 0.0 where i in -2:N + 2"
    "  O(i) +=! T(i + k) * y(k + 1) where i in -1:N, k in -1:2 }",
}


@pytest.mark.parametrize("name", TEXTS)
def test_gradcheck(name: str) -> None:
    torch.manual_seed(7)
    inputs = r(4, 3), r(3, 5), r(4), r(4)
    if name == "casts":
        # Rounding to float is no numerical derivative's friend.
        f = derived(HEAD + TEXTS[name])
        x = inputs[2]
        (gradient,) = torch.autograd.grad(f(*inputs).sum(), x)
        assert torch.equal(gradient, torch.ones_like(x))
        return
    check(HEAD + TEXTS[name], *inputs)


# Functions by where they are smooth, each on values inside.
SMOOTH = {
    (-0.9, 0.9): (
        "acos asin asinh atan atanh cos cosh cospi erf erfc exp exp10 exp2 expm1 j0 j1 normcdf sin "
        "sinh sinpi tan tanh log1p cyl_bessel_i0 cyl_bessel_i1 erfcx erfinv nearbyint saturate"
    ),
    (1.2, 4.0): "acosh cbrt log log10 log2 rcbrt rsqrt sqrt y0 y1 fabs abs",
    (-3.8, -3.2): "cbrt rcbrt fabs abs ceil floor rint trunc round",
}
PREDICATES = ["isfinite", "isinf", "isnan", "signbit"]
BINARY = [
    "atan2",
    "copysign",
    "fdim",
    "fdivide",
    "fmax",
    "fmin",
    "fmod",
    "hypot",
    "pow",
    "remainder",
    "rhypot",
]


@pytest.mark.parametrize("domain", SMOOTH)
def test_functions(domain: tuple[float, float]) -> None:
    names = SMOOTH[domain].split()
    body = "  ".join(f"O{k}(n) = {name}(x(n)) * x(n)" for k, name in enumerate(names))
    results = ", ".join(f"O{k}" for k in range(len(names)))
    f = derived(f"def f(double(N) x) -> ({results}) {{ {body} }}")
    x = r(4, low=domain[0], high=domain[1])
    assert torch.autograd.gradcheck(f, (x,), atol=1e-4, rtol=1e-4)
    # The second derivative of the whole at once.
    assert torch.autograd.gradgradcheck(f, (x,), fast_mode=True, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("low", [1.2, -3.8])
@pytest.mark.parametrize("name", ["lgamma", "tgamma"])
def test_gamma_functions(name: str, low: float) -> None:
    """Their derivatives are series, which are derived in turn."""
    x = r(4, low=low, high=low + 0.6)
    f = derived(f"def f(double(N) x) -> (O) {{ O(n) = {name}(x(n)) }}")
    assert torch.autograd.gradcheck(f, (x,), atol=1e-4)
    assert torch.autograd.gradgradcheck(f, (x,), atol=1e-3)


def test_functions_with_integers() -> None:
    f = derived(
        "def f(double(N) x) -> (A, B, C, D, E) { A(n) = jn(2, x(n))  B(n) = yn(3, x(n))"
        "  C(n) = ldexp(x(n), 3) * x(n)  D(n) = scalbn(x(n), n)  E(n) = scalbln(x(n) * x(n), 1) }"
    )
    x = r(4, low=1.5, high=3.0)
    assert torch.autograd.gradcheck(f, (x,))
    assert torch.autograd.gradgradcheck(f, (x,), fast_mode=True)


def test_functions_between_0_and_1() -> None:
    f = derived(
        "def f(double(N) x) -> (A, B, C) { A(n) = erfcinv(x(n))  B(n) = normcdfinv(x(n))"
        "  C(n) = saturate(x(n) * 2.0) * x(n) }"
    )
    x = torch.tensor([0.1, 0.3, 0.6, 0.9], dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(f, (x,))
    assert torch.autograd.gradgradcheck(f, (x,), fast_mode=True)


def test_every_function_has_a_derivative_or_says_that_it_has_none() -> None:
    """By the language's page, so that no function is forgotten."""
    page = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
    section = page[page.index("## Built-in functions") : page.index("## Ranges")]
    names = set(re.findall(r"[a-z][a-z0-9_]+", " ".join(re.findall(r"`([a-z0-9_\s]+)`", section))))
    names -= {"bool", "float", "int32", "int64", "min", "max", "fmaxf", "nan", "f"}
    assert {"abs", "cospi", "yn", "fma"} <= names
    two = {*BINARY, "nextafter"}
    without, found = [], 0
    for name in sorted(names):
        arguments = {"fma": "x(n), 1.0, x(n)", "norm3d": "x(n), x(n), 1.0"}.get(name)
        if name in two:
            arguments = "x(n), 2.5"
        elif name in ("jn", "yn"):
            arguments = "2, x(n)"
        elif name in ("ldexp", "scalbn", "scalbln"):
            arguments = "x(n), 2"
        elif name in ("norm3d", "rnorm3d", "norm4d", "rnorm4d"):
            arguments = "x(n), 1.0, 2.0" + (", 3.0" if "4" in name else "")
        rest = "? x(n) : 0.0" if name in PREDICATES else "* x(n)"
        text = f"def f(double(N) x) -> (O) {{ O(n) = {name}({arguments or 'x(n)'}) {rest} }}"
        try:
            assert "d_x" in tc.grad_source(text), name
            found += 1
        except tc.LanguageError as error:
            if "no built-in function" in str(error):
                continue  # a name that the page mentions as left out
            assert f"{name} has no derivative" in str(error), error
            without.append(name)
    assert without == ["nextafter"] and found > 60


def test_functions_of_several_arguments() -> None:
    body = "  ".join(f"O{k}(n) = {name}(x(n), y(n))" for k, name in enumerate(BINARY))
    more = "P(n) = fma(x(n), y(n), x(n))  Q(n) = norm3d(x(n), y(n), 2.0) + rnorm3d(x(n), y(n), 1.0)"
    results = ", ".join(f"O{k}" for k in range(len(BINARY)))
    f = derived(
        f"def f(double(N) x, double(N) y) -> ({results}, P, Q, R) {{ {body}  {more}"
        "  R(n) = norm4d(x(n), y(n), 1.0, 2.0) + rnorm4d(x(n), y(n), 1.0, y(n)) }"
    )
    inputs = r(5, low=2.1, high=2.4), r(5, low=0.9, high=1.1)
    assert torch.autograd.gradcheck(f, inputs, atol=1e-4)
    assert torch.autograd.gradgradcheck(f, inputs, fast_mode=True, atol=1e-3)


# A function at points where its derivative jumps, and PyTorch's.
POINTS = {
    "abs(x(n))": torch.abs,
    "max(x(n), y(n))": torch.maximum,
    "min(x(n), y(n))": torch.minimum,
    "fmax(x(n), y(n))": torch.fmax,
    "fmin(x(n), y(n))": torch.fmin,
    "max(x(n), 0.0)": torch.relu,
    "fmax(x(n), 0)": torch.relu,
    "x(n) > 0 ? x(n) : 0.0": torch.relu,
    "atan2(x(n), y(n))": torch.atan2,
    "copysign(x(n), y(n))": torch.copysign,
    "hypot(x(n) + 1, y(n) + 2)": lambda x, y: torch.hypot(x + 1, y + 2),
}


@pytest.mark.parametrize("expression", POINTS)
def test_subgradients_are_those_of_torch(expression: str) -> None:
    f = derived(f"def f(double(N) x, double(N) y) -> (O) {{ O(n) = {expression} + 0.0 * y(n) }}")
    values = torch.tensor([-1.0, 0.0, 1.0, 2.0, -0.5], dtype=torch.double)
    others = torch.tensor([-1.0, 0.0, 3.0, 1.0, 0.5], dtype=torch.double)
    reference = POINTS[expression]
    unary = reference in (torch.abs, torch.relu)
    ours = [values.clone().requires_grad_(), others.clone().requires_grad_()]
    theirs = [values.clone().requires_grad_(), others.clone().requires_grad_()]
    weight = torch.arange(1.0, 6.0, dtype=torch.double)
    (f(*ours) * weight).sum().backward()
    (reference(*theirs[: 1 if unary else 2]) * weight).sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, torch.zeros_like(a) if b.grad is None else b.grad)


def test_powers_of_zero_and_zeroth_powers() -> None:
    """Where y pow(x, y - 1) and log(x) have no value, as PyTorch does."""
    f = derived("def f(double(N) x, double(N) y) -> (O) { O(n) = pow(x(n), y(n)) }")
    x = torch.tensor([0.0, 0, 0, 2, 1, -2], dtype=torch.double)
    y = torch.tensor([0.0, 1, 2, 0, 3, 0], dtype=torch.double)
    ours = [x.clone().requires_grad_(), y.clone().requires_grad_()]
    theirs = [x.clone().requires_grad_(), y.clone().requires_grad_()]
    f(*ours).sum().backward()
    torch.pow(*theirs).sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad, equal_nan=True)
    assert ours[0].grad[:3].tolist() == [0, 1, 0]


LITERALS = ["0", "1", "2", "2.0", "3", "0.5", "-1", "-2.0", "2.5", "1.0 / 3.0", "1.0 + 1.0"]


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("exponent", LITERALS)
def test_powers_by_literals(exponent: str, kind: str) -> None:
    f = derived(f"def f({kind}(N) x) -> (O) {{ O(n) = pow(x(n), {exponent}) }}")
    x = torch.tensor([0.0, 1, 2.5, 0.1, -3, float("inf")], dtype=getattr(torch, kind))
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    weight = torch.arange(1.0, 7.0, dtype=x.dtype)
    (f(ours) * weight).sum().backward()
    (theirs.pow(eval(exponent)) * weight).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, equal_nan=True)


def test_second_derivatives_of_powers_by_literals() -> None:
    for exponent in LITERALS:
        text = f"def f(double(N) x) -> (O) {{ O(n) = pow(x(n), {exponent}) }}"
        check(text, r(5, low=0.5, high=2.0))


def test_derivatives_of_squares_and_cubes_have_no_powers() -> None:
    text = "def f(float(N) x) -> (O) {{ O(n) = pow(x(n), {}) }}"
    assert "d_x(n) = d_O(n) * 2.0 * x(n)\n" in tc.grad_source(text.format("2.0"))
    assert "d_x(n) = d_O(n)\n" in tc.grad_source(text.format("1"))
    assert "d_x(n) = d_O(n) * 3.0 * pow(x(n), 2.0)\n" in tc.grad_source(text.format("3.0"))


def test_equal_extremes_share_the_gradient() -> None:
    f = derived("def f(float(N, M) A) -> (O) { O(n) max=! A(n, m) }")
    a = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], requires_grad=True)
    b = a.detach().clone().requires_grad_()
    (f(a) * torch.tensor([1.0, 5.0])).sum().backward()
    (b.amax(1) * torch.tensor([1.0, 5.0])).sum().backward()
    torch.testing.assert_close(a.grad, b.grad)


def test_zeros_in_products() -> None:
    f = derived("def f(float(N, M) A) -> (O) { O(n) *=! A(n, m) }")
    a = torch.tensor([[2.0, 3.0, 4.0], [0.0, 3.0, 4.0], [0.0, 0.0, 4.0]], requires_grad=True)
    b = a.detach().clone().requires_grad_()
    f(a).sum().backward()
    b.prod(1).sum().backward()
    torch.testing.assert_close(a.grad, b.grad)


def test_gathers() -> None:
    text = """def f(double(V, D) table, int32(N, L) I, double(N, L) w) -> (O) {
  O(n, d) +=! table(I(n, l), d) * w(n, l) }"""
    index = torch.tensor([[0, 3, 3], [2, 0, 2]], dtype=torch.int32)
    check(text, r(5, 2), index, r(2, 3))


def test_what_a_place_receives_is_summed_first() -> None:
    """Over the indices that do not matter for it, as the classes that one is compared with."""
    index = torch.tensor([2, 0, 2, 5, 3])
    text = """def f(double(N, C) X, int64(N) t) -> (O) {
        O(n, c) = (X(n, c) - X(n, t(n))) * X(n, c)
    }"""
    check(text, r(5, 6), index)
    source = tc.grad_source(text)
    assert "d_O_sum(n) +=! " in source
    # The element is one of all c for every n, no sum over them.
    assert not re.search(r"d_X\(n, i1\) \+", source)
    # What guards a place stays with it, and what it says of the others is in the sum.
    text = """def f(double(N, C) X, int64(N) t) -> (O) {
        O(n, c) = n > 0 ? X(n, t(n - 1)) * X(n, c) : X(n, c)
    }"""
    check(text, r(5, 6), index)
    text = """def f(double(N, C) X, int64(N) t) -> (O) {
        O(n, c) = c > n ? X(t(n) / 2, 0) * X(n, c) : X(n, c)
    }"""
    check(text, r(5, 6), index)
    check(
        "def f(double(N, M) X, int64(L) t) -> (O) { O(i, j) = X(t(i), 1) * X(j, 0) }",
        r(6, 2),
        index,
    )


def test_an_element_at_a_constant_place_receives_one_sum() -> None:
    text = """def f(double(N, D) X, double(N) y) -> (O) {
        O(n, d) +=! k <= d ? X(n, k) * y(n) : X(n, 0) * X(n, k) where d in 0:D
    }"""
    check(text, r(2, 5), r(2))
    source = tc.grad_source(text)
    assert re.search(r"d_X\(n, (\w+)\) = 0 == \1 \? d_O_sum\(n\) : 0.0\n", source), source
    text = """def f(double(N) x, double(M) y) -> (O) {
        O(n) = n > 1 ? x(2) * y(0) : y(1) where n in 0:4 }"""
    check(text, r(5), r(3))


def test_what_all_terms_share_multiplies_their_sum() -> None:
    text = """def f(double(N, M) A, double(N) s, double(M) t) -> (O) {
        O(n, m) = A(n, m) * t(m) / (s(n) * s(n) + 2)
    }"""
    check(text, r(3, 4), r(3), r(4))
    source = tc.grad_source(text)
    assert re.search(r"(\w+)\(n\) \+=! d_O\(n, m\) \* O\(n, m\)\n", source), source
    # No quotient is taken for every term of a sum over m, and one is for those of one over n.
    assert not re.search(r"d_s\w*\(n\) \+=!.*/", source), source
    assert re.search(r"d_t\w*\(m\) \+=!.*/", source), source
    # Integers divide otherwise: i / 2 is no factor and a divisor.
    text = (
        "def f(double(N, M) A, double(N) x) -> (O) { O(i, m) = x(i) * (i / 2) * A(i, m) * (m / 3) }"
    )
    check(text, r(5, 4), r(5))
    # Guards may be what keeps a read of what is shared inside its tensor.
    text = """def f(double(N) x, double(M) y, double a) -> (O) {
        O(n, k) = n + k < M ? x(n) * y(n) * a / 3 : 0 where k in 0:2, n in 0:N
    }"""
    check(text, r(6), r(4), 2.0)
    # Sums of narrow floats may overflow where those of smaller terms do not.
    text = "def f(half(N, M) A, half(N) s) -> (O) { O(n, m) = A(n, m) / s(n) }"
    assert "_sum" not in tc.grad_source(text)


def test_what_all_terms_share_is_taken_out_of_conditions() -> None:
    """A running sum of products is derived by running sums, without a product a term."""
    text = """def f(double(B, T) k, double(B, T) v) -> (O) {
        O(b, t) +=! s <= t ? k(b, s) * v(b, s) : 0 where t in 0:T
    }"""
    check(text, r(2, 5), r(2, 5))
    source = tc.grad_source(text)
    assert re.search(r"d_k(\w*)\(b, s\) \+=! s <= t \? d_O\(b, t\) : 0.0", source), source
    # What the condition keeps inside its tensor stays behind it.
    for place in ("s - 1", "s + 1", "2 * s", "t"):
        text = f"""def f(double(B, T) k, double(B, S) v) -> (O) {{
            O(b, t) +=! s <= t && {place} >= 0 && {place} < S ? k(b, s) * v(b, {place}) : 0
                where t in 0:T, s in 0:T
        }}"""
        check(text, r(2, 5), r(2, 4))


def test_branches_of_one_condition_and_equal_reads_are_one_term() -> None:
    text = "def f(double(N) x) -> (O) { O(n) = exp(x(n) >= 0 ? -x(n) : x(n)) }"
    check(text, r(6))
    assert re.search(r"x\(n\) >= 0 \? -.* : [^0]", tc.grad_source(text)), tc.grad_source(text)
    text = "def f(double(N) x, double(N) y) -> (O) { O(n) = (x(n) - y(n)) * (x(n) - y(n)) }"
    check(text, r(6), r(6))
    assert "d_x(n) = 2.0 * (d_O(n) * (x(n) - y(n)))" in tc.grad_source(text)
    text = """def f(double(N) x, double(N) y) -> (O) {
        O(n) = y(n) > 0 ? x(n) > 0 ? x(n) * x(n) : x(n) * y(n) : x(n) * 3
    }"""
    check(text, r(12), r(12))


def test_windows_are_summed_over_their_places() -> None:
    text = """def f(double(N, L) X) -> (O) {
        O(n, w, i) = X(n, 3 * w + i) * X(n, 3 * w) where i in 0:5
    }"""
    check(text, r(2, 14))
    assert re.search(r"\(w - i\) % 3 == 0", tc.grad_source(text))


def test_shifts_by_data_are_gathers_of_the_gradient() -> None:
    text = """def f(double(C, H) A, int32(C) s) -> (O) {
  O(c, h) = A(c, h + s(c)) * A(c, h + s(c)) where h in 0:3 }"""
    source = tc.grad_source(text)
    assert "h - s(c)" in source, source
    check(text, r(4, 5), torch.tensor([0, 2, 1, 1], dtype=torch.int32))


@pytest.mark.parametrize("count", [3, 4, 5, 8])
def test_ranges_that_are_rounded_below_zero(count: int) -> None:
    text = "def f(double(N) x, double(M) y) -> (O) { O(i) +=! x(3 * k + i + 2) * y(6 - i) }"
    check(text, r(17), r(count))


def test_scalars() -> None:
    text = """def f(double(N) x, int stride, double a) -> (O) {
  O(i) +=! a * x(stride * i + k) where k in 0:stride }"""
    check(text, r(9), 2, 1.5)
    check(text, r(9), 3, 0.5)
    with pytest.raises(tc.TCError, match=r"value of scalar stride.*as in stride=1"):
        tc.grad_source(text)
    with pytest.raises(tc.TCError, match=r"stride=2\.5: a scalar that decides sizes is an integer"):
        tc.grad_source(text, stride=2.5)  # type: ignore[arg-type]
    assert "d_x" in tc.grad_source(text, stride=2)
    assert "d_x" in tc.grad_source(text.replace("stride", "source"), source=2)


def test_parts_that_are_asked_for() -> None:
    """Of inputs that need no gradient only the sizes stay, and unused results cost nothing."""
    t = define("""def f(double(M, K) A, double(K, N) B) -> (C, S) {
  C(m, n) +=! A(m, k) * B(k, n)  S(m) +=! A(m, k) }""")
    f = tc.make_autograd(t.f)
    a, b = r(3, 4), r(4, 5).detach()
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
        c, _ = f(a, b)
    assert [tuple(x.shape) for x in saved] == [(4, 5)]
    c.sum().backward()
    torch.testing.assert_close(a.grad, b.sum(1).expand(3, 4))
    a.grad = None
    f(a, b)[1].sum().backward()
    torch.testing.assert_close(a.grad, torch.ones(3, 4, dtype=torch.double))
    with torch.no_grad():
        assert not f(a, b)[0].requires_grad


def test_what_is_saved_and_computed_again() -> None:
    text = """def f(float(N, M) A, float(K, M) W) -> (O) {
  T(n, k) +=! A(n, m) * W(k, m)
  O(n, k) = exp(T(n, k)) }"""
    source = tc.grad_source(text)
    # The derivative of exp is its result, which the caller has.
    assert "T_again" not in source and "O(n, k)" in source, source
    source = tc.grad_source(text.replace("exp", "sin"))
    assert re.search(r"T_again\(n, k\) \+=! A\(n, m\) \* W\(k, m\)", source), source
    assert "O(n, k)" not in source.replace("d_O(n, k)", ""), source


def test_a_branch_that_is_taken_has_the_result() -> None:
    text = """def f(double(N) x, double(N) y) -> (O, P) {
  O(n) = y(n) > 1 ? sqrt(x(n)) : y(n) < 0 ? exp(x(n)) : x(n) * y(n)
  P(n) = y(n) > 0 ? tanh(x(n)) * x(n) : sqrt(x(n)) }"""
    source = tc.grad_source(text)
    assert "sqrt" not in source and "exp" not in source, source
    x = torch.rand(7, dtype=torch.double) + 0.5
    y = torch.tensor([2.0, -1, 0.5, 3, -2, 0.2, 0.9], dtype=torch.double)
    x, y = x.requires_grad_(), y.requires_grad_()
    torch.autograd.gradcheck(tc.make_autograd(tc.define(text).f), (x, y))


KEPT = {
    # The text, and how large what is kept of temporaries is.
    "a product": (
        "{ T(n, k) +=! A(n, m) * B(m, k)  O(n, k) = sin(T(n, k)) }",
        [(4, 5)],
    ),
    "the sum of a row": ("{ S(n) +=! A(n, m) * A(n, m)  O(n, m) = A(n, m) / S(n) }", [(4,)]),
    "both": (
        "{ T(n, k) +=! A(n, m) * B(m, k)  S(n) +=! T(n, k) * T(n, k)  O(n, k) = T(n, k) / S(n) }",
        [(4, 5), (4,)],
    ),
    "a number": ("{ S +=! A(n, m)  O(n) = x(n) * S * S }", [()]),
    "a window is summed again": (
        "{ T(i) +=! x(i + k) where k in 0:2  O(i) = sin(T(i)) }",
        [],
    ),
    "a window of powers": (
        "{ T(i) +=! pow(x(i + k), 3.0) where k in 0:2  O(i) = sin(T(i)) }",
        [(3,)],
    ),
    "what is assigned is computed again": ("{ T(n) = x(n) * y(n)  O(n) = sin(T(n)) }", []),
    "what was overwritten is computed again": (
        "{ T(n) +=! A(n, m)  T(n) = sin(T(n))  O(n) = T(n) * T(n) }",
        [],
    ),
    "what is a result is saved as one": ("{ O(n) +=! A(n, m) }", []),
}


@pytest.mark.parametrize(("text", "kept"), KEPT.values(), ids=KEPT)
def test_what_costs_more_to_compute_is_kept(text: str, kept: list[tuple[int, ...]]) -> None:
    inputs = [r(4, 3), r(3, 5), r(4), r(4)]
    check(HEAD + text, *inputs)
    f = derived(HEAD + text)
    saved = []
    own = {x.data_ptr() for x in inputs}
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
        result = f(*inputs)
    own.add(result.data_ptr())
    assert [tuple(x.shape) for x in saved if x.data_ptr() not in own] == kept
    # Nothing is kept where no derivative follows.
    with torch.no_grad():
        assert torch.equal(f(*inputs), result)


def test_options_of_a_user_are_kept_to() -> None:
    text = HEAD + KEPT["a product"][0]
    t = tc.define(text, "naive", namespace="tc_derivatives_naive")
    inputs = [r(4, 3), r(3, 5), r(4), r(4)]
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
        tc.make_autograd(t.f)(*inputs)
    assert (4, 5) not in [tuple(x.shape) for x in saved]


def test_kept_values_with_torch_compile_and_functional_transforms() -> None:
    f = derived((HEAD + KEPT["both"][0]).replace("double", "float"))
    inputs = [x.detach().float() for x in (r(4, 3), r(3, 5), r(4), r(4))]

    def wanted(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        t = a @ b
        return (t / (t * t).sum(1, keepdim=True)).sum()

    def ours(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return f(a, b, *inputs[2:]).sum()

    theirs = torch.func.grad(wanted, (0, 1))(*inputs[:2])
    for a, b in zip(torch.func.grad(ours, (0, 1))(*inputs[:2]), theirs, strict=True):
        torch.testing.assert_close(a, b)
    leaves = [x.clone().requires_grad_() for x in inputs[:2]]
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    for a, b in zip(torch.autograd.grad(compiled(*leaves), leaves), theirs, strict=True):
        torch.testing.assert_close(a, b)


def test_source_by_hand() -> None:
    """The derived text is a definition like any other, and make_autograd takes it."""
    text = """def f(float(N, M) A) -> (O, S) {
  S +=! A(n, m) * A(n, m)
  O(n, m) = exp(A(n, m)) / S }"""
    t, g = define(text), define(tc.grad_source(text))
    f = tc.make_autograd(t.f, g.f_grad)
    a = torch.rand(3, 4).requires_grad_()
    b = a.detach().clone().requires_grad_()
    o, s = f(a)
    (o.sum() + 2 * s).backward()
    total = (b * b).sum()
    ((b.exp() / total).sum() + 2 * total).backward()
    torch.testing.assert_close(a.grad, b.grad)


@pytest.mark.parametrize("dtype", ["half", "bfloat16", "float"])
def test_types(dtype: str) -> None:
    torch_type = {"half": torch.half, "bfloat16": torch.bfloat16}.get(dtype, torch.float)
    f = derived(
        f"def f({dtype}(N, M) A, float(M, K) B) -> (O, P) {{\n"
        "  O(n, k) +=! A(n, m) * B(m, k)\n  P(n) max=! A(n, m) }"
    )
    a = torch.rand(4, 5).to(torch_type).requires_grad_()
    b = torch.rand(5, 3).requires_grad_()
    c, d = a.detach().clone().requires_grad_(), b.detach().clone().requires_grad_()
    o, p = f(a, b)
    (o.sum() + p.float().sum()).backward()
    ((c.float() @ d).sum() + c.amax(1).float().sum()).backward()
    assert a.grad.dtype == torch_type
    tolerance = {"half": 2e-3, "bfloat16": 2e-2}.get(dtype, 1e-5)
    torch.testing.assert_close(a.grad, c.grad, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(b.grad, d.grad, atol=tolerance, rtol=tolerance)


DIFFERENTIABLE = [
    w
    for w in workloads.WORKLOADS
    if w.initial is None
    and any(isinstance(x, torch.Tensor) and x.is_floating_point() for x in w.inputs())
]


def _doubles(workload: workloads.Workload) -> tuple[str, list]:
    torch.manual_seed(1)
    return re.sub(r"\bfloat\b", "double", workload.text), [
        x.double().requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
        for x in workload.inputs()
    ]


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("workload", DIFFERENTIABLE, ids=lambda w: w.name)
def test_workloads(workload: workloads.Workload) -> None:
    """First derivatives against PyTorch's, second ones by differences in a random direction."""
    text, inputs = _doubles(workload)
    f = derived(text, workload.entry)
    wanted = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    outputs = f(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    seeds = [torch.randn_like(o) for o in outputs]
    ours = torch.autograd.grad(outputs, wanted, seeds, allow_unused=True)
    theirs = torch.autograd.grad(workload.reference(*inputs), wanted, seeds, allow_unused=True)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)
    assert torch.autograd.gradgradcheck(f, inputs, fast_mode=True)


def test_compiled() -> None:
    f = derived(
        "def f(float(M, K) A, float(N, K) B) -> (C) { C(m, n) +=! tanh(A(m, k)) * B(n, k) }"
    )

    def model(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (f(a * 2, b) + 1).relu().sum()

    a, b = torch.rand(3, 4, requires_grad=True), torch.rand(5, 4, requires_grad=True)
    wanted = torch.autograd.grad(model(a, b), (a, b))
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for ours, expected in zip(torch.autograd.grad(compiled(a, b), (a, b)), wanted, strict=True):
        torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("transposed", [False, True])
def test_compiled_where_data_says_how_many(transposed: bool) -> None:
    """Whether a gradient is dense must not be asked of sizes that nobody knows yet."""
    f = derived("def f(float(N, M) A, float(M) b) -> (O) { O(n, m) = A(n, m) * b(m) * b(m) }")

    def model(a: torch.Tensor, b: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        result = f(a[chosen], b)
        return (result.t() * 2).sum() if transposed else result.sum()

    a, b = torch.rand(8, 4, requires_grad=True), torch.rand(4, requires_grad=True)
    chosen = torch.arange(8) % 3 == 0
    wanted = torch.autograd.grad(model(a, b, chosen), (a, b))
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=True)
        found = torch.autograd.grad(compiled(a, b, chosen), (a, b))
    for ours, expected in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, expected)


REFUSED = [
    (
        "def f(double(N) x) -> (O) { O(n) = nextafter(x(n), 1.0) }",
        "nextafter has no derivative; give the definition a backward of its own",
    ),
    (
        "def f(double(N) x) -> (O) { O(n) += x(n) }",
        "O starts from what the caller passes, which has no place for a gradient",
    ),
]


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_refused(text: str, words: str) -> None:
    with pytest.raises(tc.LanguageError, match=re.escape(words)):
        tc.grad_source(text)


def test_not_a_definition() -> None:
    with pytest.raises(tc.TCError, match="derives the derivative of a definition"):
        tc.make_autograd(torch.relu)
    with pytest.raises(tc.TCError, match="undefined function g; the text defines: f"):
        tc.grad_source("def f(float(N) x) -> (O) { O(n) = x(n) }", "g")


def test_the_page_shows_what_is_derived() -> None:
    page = (Path(__file__).parents[2] / "docs" / "derivatives.md").read_text()
    text = re.search(r'define\("""\n(.*?)"""', page, re.DOTALL)[1]
    assert tc.grad_source(text) in page, tc.grad_source(text)
    layer = tc.make_autograd(define(text).layer)
    inputs = [torch.randn(size, requires_grad=True) for size in ((5, 3), (4, 3), (4,))]
    i, w, bias = (x.detach().clone().requires_grad_() for x in inputs)
    layer(*inputs).sum().backward()
    torch.tanh(torch.nn.functional.linear(i, w, bias)).sum().backward()
    for ours, theirs in zip(inputs, (i, w, bias), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_a_first_statement_that_writes_a_part() -> None:
    """What is computed again has the size that all statements give it."""
    text = """def parts(double(N, M) A, double(P) B) -> (T) {
      T(i, j) = A(i, j) * A(i, j)
      T(i, j) *= B(j)
      T(i, j) = B(i + j) where i in 0:2, j in 2:4
      T(i, j) = T(i, j) * T(i, j)
    }"""
    parts = tc.make_autograd(tc.define(text, namespace="tc_derivatives").parts)
    a, b = torch.randn(2, 2, dtype=torch.double), torch.randn(6, dtype=torch.double)
    leaves = [a.requires_grad_(), b.requires_grad_()]
    rows = torch.arange(2)[:, None]
    wanted = torch.cat([a * a * b[:2], b[rows + torch.arange(2, 4)]], 1).square()
    torch.testing.assert_close(parts(*leaves), wanted)
    weights = torch.randn(2, 4, dtype=torch.double)
    torch.testing.assert_close(
        torch.autograd.grad((parts(*leaves) * weights).sum(), leaves),
        torch.autograd.grad((wanted * weights).sum(), leaves),
    )


def test_windows_of_a_result_that_two_statements_write() -> None:
    """What is subtracted in the end has a gradient of its own; the sum before it reads thirds."""
    text = """def thirds(double(N, M) A, double(P) B, double(Q, R) C) -> (T) {
      T(i, j) +=! A(i / 3, 3 * j + i * 2)
      T(k, l) = T(k, l) - min(B(k), C(l, k + l))
    }"""
    shapes = (11, 110), (33,), (16, 48)
    inputs = [torch.randn(*shape, dtype=torch.double, requires_grad=True) for shape in shapes]
    thirds = tc.make_autograd(tc.define(text, namespace="tc_derivatives").thirds)
    k, m = torch.meshgrid(torch.arange(33), torch.arange(16), indexing="ij")
    a, b, c = inputs
    wanted = a[k // 3, 3 * m + 2 * k] - torch.minimum(b[k], c[m, k + m])
    torch.testing.assert_close(thirds(*inputs), wanted)
    weights = torch.randn_like(wanted)
    torch.testing.assert_close(
        torch.autograd.grad((thirds(*inputs) * weights).sum(), inputs),
        torch.autograd.grad((wanted * weights).sum(), inputs),
    )
