"""Derivatives of sigmoids, of what they gate and of their integrals: exact, also far out."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from derived import checked_gradient

import tensor_comprehensions as tc


def softplus(x: torch.Tensor) -> torch.Tensor:
    return torch.logaddexp(x, torch.zeros_like(x))


VALUES = {
    "1 / (1 + exp(-X(n)))": torch.sigmoid,
    "1.0 / (exp(-X(n)) + 1.0)": torch.sigmoid,
    "X(n) / (1 + exp(-X(n)))": F.silu,
    "2 / (1 + exp(-2 * X(n))) - 1": torch.tanh,
    "3 / (3 + 3 * exp(X(n)))": lambda x: torch.sigmoid(-x),
    "0.5 + X(n) * 2 / (exp(X(n)) * 0.25 + 0.25)": lambda x: 0.5 + 8 * x * torch.sigmoid(-x),
    "log(1 + exp(-X(n)))": lambda x: softplus(-x),
    "log(2 + exp(X(n)))": lambda x: torch.logaddexp(x, torch.tensor(2.0, dtype=x.dtype).log()),
    "log1p(exp(-X(n)))": lambda x: softplus(-x),
}


@pytest.mark.parametrize("dtype", [torch.float, torch.double])
@pytest.mark.parametrize("value", VALUES)
def test_derivatives_are_numbers_where_exponentials_are_infinite(
    value: str, dtype: torch.dtype
) -> None:
    """Step by step they would be products of an infinity and a 0."""
    name = {torch.float: "float", torch.double: "double"}[dtype]
    text = f"def f({name}(N) X) -> (O) {{ O(n) = {value} }}"
    f = tc.make_autograd(tc.define(text, namespace="tc_logistic").f)
    ends = [-2000.0, -800.0, -400.0, -100.0, -90.0, 90.0, 100.0, 400.0, 800.0, 2000.0]
    x = torch.cat([torch.tensor(ends, dtype=dtype), torch.linspace(-9, 9, 101, dtype=dtype)])
    x.requires_grad_()
    (made,) = torch.autograd.grad(f(x).sum(), x)
    exact = x.detach().double().requires_grad_()
    (wanted,) = torch.autograd.grad(VALUES[value](exact).sum(), exact)
    assert made.isfinite().all()
    torch.testing.assert_close(made.double(), wanted, rtol=1e-5, atol=1e-6)


def test_a_sigmoid_s_derivative_is_made_of_its_result() -> None:
    source = tc.grad_source("def f(float(N) X) -> (O) { O(n) = 1 / (1 + exp(-X(n))) }")
    assert "exp" not in source and "(1.0 - O(n))" in source


def test_gates_and_what_they_gate() -> None:
    """Numerators, and numbers that are none, get what they did before; so do sums."""
    x, y = (torch.randn(7, 5, dtype=torch.double, requires_grad=True) for _ in range(2))
    for value in (
        "X(n,d) * Y(n,d) / (1 + exp(-Y(n,d)))",
        "X(n,d) / (1 - exp(-Y(n,d) * Y(n,d) - 1))",
        "X(n,d) / (Y(n,d) * Y(n,d) + exp(-Y(n,d)))",
        "X(n,d) / (2 + X(n,d) * exp(-Y(n,d)) * X(n,d))",
        "log(1 + Y(n,d) * Y(n,d) * exp(X(n,d)))",
        "log(1 + 3 * exp(X(n,d) * Y(n,d)))",
    ):
        checked_gradient(f"def f(double(N,D) X, double(N,D) Y) -> (O) {{ O(n,d) = {value} }}", x, y)
        text = f"def f(double(N,D) X, double(N,D) Y) -> (O) {{ O(n) +=! {value} }}"
        checked_gradient(text, x, y)
