"""How derivatives of quotients are written, a softmax's among them."""

from __future__ import annotations

import re

import pytest
import torch
from derived import checked_gradient

import tensor_comprehensions as tc


def signed(*sizes: int) -> torch.Tensor:
    return (torch.rand(*sizes, dtype=torch.double) * 2 - 1).requires_grad_()


def positive(*sizes: int) -> torch.Tensor:
    return (torch.rand(*sizes, dtype=torch.double) + 1).requires_grad_()


def test_what_all_terms_are_divided_by_divides_their_sum() -> None:
    text = """def f(double(N) x, double(N) y) -> (O) {
        e(n) = exp(x(n))
        O(n) = (y(n) > 0 ? 1 : e(n) * y(n)) / (1 + e(n))
    }"""
    source = checked_gradient(text, (8,), signed(8))
    (d_e,) = re.findall(r"d_e\(n\) =([^=]*)\n", source)
    assert d_e.count("/") == 1 and d_e.endswith("/ (1 + e_again(n))"), d_e
    # Both divisors, one after the other: their product may overflow.
    text = """def f(double(N) x, double(N) s, double(N) t) -> (O, P) {
        e(n) = x(n) * x(n)
        O(n) = e(n) / (s(n) * t(n))
        P(n) = e(n) * x(n) / t(n) / s(n)
    }"""
    source = checked_gradient(text, signed(5), positive(5), positive(5))
    assert re.search(r"d_e\(n\) = \(.*\) / s\(n\) / t\(n\)\n", source), source
    # Where every term has a condition, the divisor may be out of reach.
    text = """def f(double(N) x, double(M) t, bool(N) c) -> (O) {
        e(n) = x(n) * x(n)
        O(n) = (n < M ? e(n) / t(n) : 0.0) + (n < M && c(n) ? -e(n) / t(n) : 0.5)
    }"""
    checked_gradient(text, signed(6), positive(4), torch.rand(6) > 0.5)
    # Sums of narrow floats may overflow where those of quotients do not.
    text = "def f(half(N) x, half(N) t) -> (O, P) { O(n) = x(n) / t(n)  P(n) = 2 * x(n) / t(n) }"
    assert re.search(r"d_x\(n\) = .*/ t\(n\).*/ t\(n\).*\n", tc.grad_source(text))


def test_sums_that_share_their_factors_are_multiplied_once() -> None:
    text = """def f(double(C, T) x, double(C, T) y, double(T) m, double(T) z) -> (R, I) {
        R(c, d) +=! m(t) * (x(c, t) * x(d, t) + y(c, t) * y(d, t)) / z(t)
        I(c, d) +=! m(t) / z(t) * (y(c, t) * x(d, t) - x(c, t) * y(d, t))
    }"""
    source = checked_gradient(text, signed(2, 3), signed(2, 3), signed(3), positive(3))
    for name in "xy":
        sums = re.findall(rf"d_{name}_sum\(\w, t\) (\+=!?) ", source)
        assert sums == ["+=!", "+=", "+=", "+="], source
        (d,) = re.findall(rf"d_{name}(\(\w, t\)) \S?= .*m\(t\) / z\(t\)\n", source)
        assert f"    d_{name}{d} = d_{name}_sum{d} * " in source, source
    # Only those of the same factors.
    text = """def f(double(C, T) x, double(T) m, double(T) z) -> (O) {
        O(c, d) +=! m(t) * x(c, t) * x(d, t)
        O(c, d) += z(t) * x(c, t) * x(d, t)
    }"""
    source = checked_gradient(text, signed(2, 3), signed(3), signed(3))
    assert len(re.findall(r"d_x\(\w, t\) \+?= d_x_sum\w*\(\w, t\) \* [mz]\(t\)\n", source)) == 2


def test_quotients_are_differentiated_through_their_result() -> None:
    text = "def f(double(N, M) A, double(M) b) -> (O) { O(n, m) = A(n, m) / b(m) }"
    source = checked_gradient(text, signed(3, 4), positive(4))
    assert "double(N, M) A" in source  # its size
    assert "* A(n, m)" not in source
    # b * b would be infinite.
    a, b = torch.tensor([1e20]), torch.tensor([1e25], requires_grad=True)
    single = tc.define("def f(float(N) a, float(N) b) -> (O) { O(i) = a(i) / b(i) }")
    tc.make_autograd(single.f)(a, b).backward(torch.tensor([1e10]))
    torch.testing.assert_close(b.grad, torch.tensor([-1e-20]))
    # A result that others change afterwards is none.
    text = "def f(double(N) x, double(N) y) -> (O) { O(n) = x(n) / y(n)  O(n) = O(n) * O(n) }"
    checked_gradient(text, signed(4), positive(4))


@pytest.mark.parametrize("result", [True, False])
@pytest.mark.parametrize(
    ("dtype", "x", "y", "g"),
    [
        ("half", 600.0, 300.0, 1.0),
        ("half", 50000.0, 500.0, 1000.0),
        ("half", 2.0**-12, 2.0**-13, 0.5),
        ("bfloat16", 2.0**70, 2.0**71, 4.0),
        ("float", 2.0**-80, 2.0**-80, 2.0),
        ("float", 2.0**100, 2.0**90, 2.0**40),
    ],
)
def test_squares_of_divisors_may_leave_the_type(
    dtype: str, x: float, y: float, g: float, result: bool
) -> None:
    """Where neither the quotient nor its derivative does; as PyTorch has it."""
    value = "x(n) / y(n)" if result else "-fdivide(x(n), y(n)) + -(x(n) / y(n))"
    f = tc.make_autograd(
        tc.define(f"def f({dtype}(N) x, {dtype}(N) y) -> (O) {{ O(n) = {value} }}").f
    )
    type_ = {"half": torch.half, "bfloat16": torch.bfloat16, "float": torch.float}[dtype]
    a, b, given = (torch.tensor([v], dtype=type_) for v in (x, y, g))
    ours, theirs = (t.clone().requires_grad_() for t in (b, b))
    f(a, ours).backward(given)
    (a / theirs).backward(given)
    assert theirs.grad.isfinite().all()
    wanted = theirs.grad if result else -2 * theirs.grad
    torch.testing.assert_close(ours.grad, wanted, rtol=1e-2, atol=0)


def test_reciprocal_lengths_of_large_vectors() -> None:
    text = (
        "def f(float(N) x, float(N) y) -> (O, P) { O(n) = rhypot(x(n), y(n))  P(n) = rcbrt(x(n)) }"
    )
    f = tc.make_autograd(tc.define(text).f)
    x, y = (torch.tensor([2.0**90], requires_grad=True) for _ in range(2))
    lengths, _ = f(x, y)
    lengths.backward(torch.tensor([2.0**60]))
    torch.testing.assert_close(y.grad, torch.tensor([-(2.0**-120) / 8**0.5]), rtol=1e-5, atol=0)
    x = torch.tensor([2.0**126 * 3], requires_grad=True)
    f(x, y)[1].backward(torch.tensor([2.0**60]))
    wanted = -(2.0**60) / 3 * (3 * 2.0**126) ** (-4 / 3)
    torch.testing.assert_close(x.grad, torch.tensor([wanted]), rtol=1e-5, atol=0)


SOFTMAX = "{{ E(n, m) = {exponential}  S({total}) +=! E(n, m)  O({place}) = E(n, m) / S({total}) }}"


@pytest.mark.parametrize(
    ("exponential", "total", "place"),
    [
        ("exp(A(n, m))", "n", "n, m"),
        ("exp2(A(n, m) * A(n, m))", "m", "n, m"),
        ("exp10(0.2 * A(n, m) - x(n))", "n", "m, n"),
        ("m <= n ? exp(A(n, m)) : 0.0", "n", "n, m"),
        ("m < 2 ? exp(A(n, m)) : m < 3 ? exp2(x(n)) : 1.0", "n", "n, m"),
    ],
)
def test_softmax_is_differentiated_by_its_result(exponential: str, total: str, place: str) -> None:
    """(d_O - sum of d_O * O) * O, without exponentials and quotients."""
    text = "def f(double(N, M) A, double(N) x) -> (O) " + SOFTMAX.format(
        exponential=exponential, total=total, place=place
    )
    source = checked_gradient(text, signed(4, 3), signed(4))
    assert "exp" not in source and "/" not in source, source
    assert len(source.split("{")[1].splitlines()) <= (8 if "x(n)" in exponential else 6), source


def test_softmax_over_everything() -> None:
    text = "def f(double(N) x) -> (O) { e(i) = exp(x(i))  s +=! e(j)  O(k) = e(k) / s }"
    assert "exp" not in checked_gradient(text, signed(6))


@pytest.mark.parametrize(
    "body",
    [
        # The exponential serves something else, too.
        "E(n, m) = exp(A(n, m))  S(n) +=! E(n, m)  O(n, m) = E(n, m) / S(n)  P(n) +=! E(n, m)",
        # The sums are used beside the quotient.
        "E(n, m) = exp(A(n, m))  S(n) +=! E(n, m)  O(n, m) = E(n, m) / S(n)  P(n) = log(S(n))",
        # Another divisor.
        "E(n, m) = exp(A(n, m))  S(n) +=! E(n, m)  O(n, m) = E(n, m) / (1 + S(n))",
        "E(n, m) = exp(A(n, m))  S(n) +=! E(n, m)  O(n, m) = E(n, m) / S((n + 1) % 4)",
        # Some elements only, or each for several.
        "E(n, m) = exp(A(n, m))  S(n) +=! E(n, m)  O(n, m) = E(n, m) / S(n) where m in 0:2",
        "E(n, m) = exp(A(n, m))  S(n) +=! E(n, m)  O(n, m, k) = E(n, m) / S(n) where k in 0:2",
        "E(n, m) = exp(A(n, m))  S(n) +=! E(n, m)  O(n) = E(n, 1) / S(n)",
        # No exponential, or one that something is added to.
        "E(n, m) = A(n, m) * A(n, m)  S(n) +=! E(n, m)  O(n, m) = E(n, m) / S(n)",
        "E(n, m) = 1 + exp(A(n, m))  S(n) +=! E(n, m)  O(n, m) = E(n, m) / S(n)",
        # The quotient is no result.
        "E(n, m) = exp(A(n, m))  S(n) +=! E(n, m)  Q(n, m) = E(n, m) / S(n)  O(n) +=! Q(n, m) * m",
    ],
)
def test_other_quotients_of_exponentials(body: str) -> None:
    results = "O, P" if " P(" in body else "O"
    checked_gradient(f"def f(double(N, M) A) -> ({results}) {{ {body} }}", signed(4, 3))
