"""Derivatives of extremes and products of all values up to each take a step for every element."""

from __future__ import annotations

import itertools

import pytest
import torch
from derived import checked_gradient
from exact import integers

import tensor_comprehensions as tc

OWN = tc.MappingOptions().matchLibraryCalls(False)
_namespaces = itertools.count()

RUNNING = {
    "max": ("max=! k <= d ? X(n, k) : X(n, 0)", lambda x: x.cummax(1).values),
    "min": ("min=! k <= d ? X(n, k) : X(n, 0)", lambda x: x.cummin(1).values),
    "max of an infinity": ("max=! d >= k ? X(n, k) : -1.0 / 0.0", lambda x: x.cummax(1).values),
    "max, strictly": ("max=! k < d + 1 ? X(n, k) : X(n, 0)", lambda x: x.cummax(1).values),
    "max from the end": (
        "max=! k >= d ? X(n, k) : X(n, D - 1)",
        lambda x: x.flip(1).cummax(1).values.flip(1),
    ),
    "product": ("*=! k <= d ? X(n, k) : 1", lambda x: x.cumprod(1)),
    "product from the end": ("*=! k >= d ? X(n, k) : 1.0", lambda x: x.flip(1).cumprod(1).flip(1)),
    "max of numbers": ("max=! k <= d ? X(n, k) : float(-3e38)", lambda x: x.cummax(1).values),
    # Of what is computed for each term.
    "max of multiples": (
        "max=! k <= d ? 2.0 * X(n, k) : -1.0 / 0.0",
        lambda x: (2 * x).cummax(1)[0],
    ),
    "max of functions": (
        "max=! k <= d ? sin(X(n, k)) : sin(X(n, 0))",
        lambda x: x.sin().cummax(1).values,
    ),
    "min of opposites, from the end": (
        "min=! k >= d ? -X(n, k) : -X(n, D - 1)",
        lambda x: (-x).flip(1).cummin(1).values.flip(1),
    ),
    "product of differences": ("*=! k <= d ? 2.0 - X(n, k) : 1", lambda x: (2 - x).cumprod(1)),
    "product of exponentials": (
        "*=! k <= d ? exp(X(n, k) - 1.0) : 1.0",
        lambda x: (x - 1).exp().cumprod(1),
    ),
    "product of all before": (
        "*=! k < d ? 2.0 - X(n, k) + 1e-10 : 1",
        lambda x: torch.nn.functional.pad((2 - x).cumprod(1)[:, :-1], (1, 0), value=1.0),
    ),
}


def definition(reduction: str) -> str:
    return f"def f(float(N, D) X) -> (O) {{ O(n, d) {reduction} where d in 0:D }}"


def gradients(text: str, *values: torch.Tensor, received: torch.Tensor) -> tuple[torch.Tensor, ...]:
    operator = tc.define(text, namespace=f"tc_running_{next(_namespaces)}").f
    return torch.autograd.grad(tc.make_autograd(operator)(*values), values, received)


@pytest.mark.parametrize("size", [(3, 8), (5, 16), (4, 17), (2, 100), (1, 333), (20, 9)])
@pytest.mark.parametrize(("reduction", "peer"), RUNNING.values(), ids=RUNNING)
def test_gradients(size: tuple[int, int], reduction: str, peer: object) -> None:
    x, received = torch.randn(size), torch.randn(size)
    least = 1e-4
    if (
        "*=!" in reduction
    ):  # small, and so are its gradients: of numbers above 0 each has its digits
        x, received, least = torch.rand(size) + 0.5, torch.rand(size) + 0.1, 0
    x.requires_grad_()
    (ours,) = gradients(definition(reduction), x, received=received)
    (wanted,) = torch.autograd.grad(peer(x), x, received)
    torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=least)


@pytest.mark.parametrize(("reduction", "peer"), RUNNING.values(), ids=RUNNING)
def test_all_sums_are_scans(reduction: str, peer: object) -> None:
    source = tc.grad_source(definition(reduction))
    parameters = source.split("(", 1)[1].split("->")[0].count("float(")
    explained = tc.compile(source, "f_grad", OWN, *[torch.ones(20, 40)] * parameters).explain()
    assert "in order of" in explained
    assert "reduction over" not in explained


@pytest.mark.parametrize(("reduction", "peer"), RUNNING.values(), ids=RUNNING)
def test_gradients_have_gradients(reduction: str, peer: object) -> None:
    checked_gradient(definition(reduction).replace("float", "double"), (3, 11))


def test_largest_values_share_what_their_results_receive() -> None:
    """As all extremes do: the sum of what the results receive while they are the largest, in equal
    parts up to each result."""
    x = torch.tensor([[1.0, 3, 3, 2, 3, 5, 5, 4]], requires_grad=True)
    received = torch.tensor([[1.0, 2, 4, 8, 6, 16, 32, 64]])
    (ours,) = gradients(definition(RUNNING["max"][0]), x, received=received)
    third = 2 + 4 / 2 + 8 / 2 + 6 / 3
    wanted = [[1, third, 4 / 2 + 8 / 2 + 6 / 3, 0, 6 / 3, 16 + 32 / 2 + 64 / 2, 32 / 2 + 64 / 2, 0]]
    torch.testing.assert_close(ours, torch.tensor(wanted))


BOUNDED = {
    "max": ("max=! k <= d ? X(n, k) : 3", lambda terms: terms.amax(-1)),
    "max, computed": ("max=! k <= d ? 1.0 * X(n, k) : 3.0", lambda terms: terms.amax(-1)),
    "min from the end": ("min=! k >= d ? X(n, k) : 3", lambda terms: terms.amin(-1)),
}


@pytest.mark.parametrize("size", [(3, 8), (1, 1), (5, 40)])
@pytest.mark.parametrize(("reduction", "peer"), BOUNDED.values(), ids=BOUNDED)
def test_bounds_take_their_share(size: tuple[int, int], reduction: str, peer: object) -> None:
    """A literal that is reached counts as each of the terms that it stands for."""
    n, d = size
    x = (integers(*size) + 2).requires_grad_()
    received = integers(*size)
    (ours,) = gradients(definition(reduction), x, received=received)
    inside = torch.ones(d, d, dtype=torch.bool)
    inside = inside.triu() if ">=" in reduction else inside.tril()
    terms = torch.where(inside, x[:, None].expand(n, d, d), 3.0)
    (wanted,) = torch.autograd.grad(peer(terms), x, received)
    torch.testing.assert_close(ours, wanted)


def test_bounds_of_several_terms_of_each_place() -> None:
    text = "def f(float(N, D, E) X) -> (O) {"
    text += " O(n, d) max=! k <= d ? X(n, k, e) : 3 where d in 0:D }"
    x = (integers(4, 7, 3) + 2).requires_grad_()
    received = integers(4, 7)
    (ours,) = gradients(text, x, received=received)
    inside = torch.ones(7, 7, dtype=torch.bool).tril()[..., None]
    terms = torch.where(inside, x[:, None].expand(4, 7, 7, 3), 3.0)
    (wanted,) = torch.autograd.grad(terms.amax((2, 3)), x, received)
    torch.testing.assert_close(ours, wanted)


@pytest.mark.parametrize("zeros", [[], [0], [5], [36], [3, 20], [0, 1, 36]])
def test_products_with_zeros(zeros: list[int]) -> None:
    x = torch.rand(4, 37) + 0.5
    x[1:, zeros] = 0
    x.requires_grad_()
    received = torch.randn(4, 37)
    (ours,) = gradients(definition(RUNNING["product"][0]), x, received=received)
    (wanted,) = torch.autograd.grad(x.cumprod(1), x, received)
    torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_whole_products_with_zeros(zeros: int) -> None:
    x = torch.rand(3, 7) + 0.5
    x[:, :zeros] = 0
    x.requires_grad_()
    received = torch.randn(3)
    text = "def f(float(N, D) X) -> (O) { O(n) *=! X(n, k) }"
    (ours,) = gradients(text, x, received=received)
    (wanted,) = torch.autograd.grad(x.prod(1), x, received)
    torch.testing.assert_close(ours, wanted)


OTHERS = {
    # Held to differences, whether they are found to be running extremes or not.
    "further terms": (
        "def f(double(N, D, E) X) -> (O) {"
        " O(n, d) max=! k <= d ? X(n, k, e) : X(n, 0, e) where d in 0:D }",
        ((2, 6, 3),),
    ),
    "computed terms": (
        "def f(double(N, D) X, double(D) y) -> (O) {"
        " O(n, d) max=! k <= d ? X(n, k) * y(k) : -1.0 / 0.0 where d in 0:D }",
        ((2, 6), (6,)),
    ),
    "another range": (
        "def f(double(N, D) X) -> (O) {"
        " O(n, d) max=! k <= d ? X(n, k) : X(n, 0) where d in 2:D, k in 0:D }",
        ((2, 6),),
    ),
    "a distance": (
        "def f(double(N, D) X) -> (O) {"
        " O(n, d) max=! k + 2 <= d ? X(n, k) : X(n, 0) where d in 0:D }",
        ((2, 6),),
    ),
    "a bound": (
        "def f(double(N, D) X) -> (O) { O(n, d) max=! k <= d ? X(n, k) : 0.25 where d in 0:D }",
        ((2, 6),),
    ),
    "another element": (
        "def f(double(N, D) X) -> (O) { O(n, d) max=! k <= d ? X(n, k) : X(n, 3) where d in 0:D }",
        ((2, 6),),
    ),
    "columns": (
        "def f(double(D, N) X) -> (O) { O(d, n) max=! k <= d ? X(k, n) : X(0, n) where d in 0:D }",
        ((6, 2),),
    ),
    "terms of both indices": (
        "def f(double(N, D) X, double(D) y) -> (O) {"
        " O(n, d) *=! k <= d ? 2.0 - X(n, k) * y(d) : 1 where d in 0:D }",
        ((2, 6), (6,)),
    ),
    # Without the condition these would be read outside.
    "terms that the condition keeps inside": (
        "def f(double(N, D) X) -> (O) {"
        " O(n, d) *=! k <= d && k > 0 ? 2.0 - X(n, k - 1) : 1 where d in 0:D, k in 0:D }",
        ((2, 6),),
    ),
    "terms that the other index keeps inside": (
        "def f(double(N, D) X) -> (O) {"
        " O(n, d) max=! k < d ? 2.0 * X(n, k + 1) : -9.0 where d in 0:D, k in 0:D }",
        ((2, 6),),
    ),
    "terms that conditions choose": (
        "def f(double(N, D) X) -> (O) { O(n, d) *=! k <= d ?"
        " (k > 0 ? 2.0 - X(n, k - 1) : 1.5 * X(n, 0)) : 1 where d in 0:D, k in 0:D }",
        ((2, 6),),
    ),
    "computed terms of both branches": (
        "def f(double(N, D) X, double(D) y) -> (O) {"
        " O(n, d) max=! k <= d ? 2.0 * X(n, k) : 0.5 * y(k) where d in 0:D }",
        ((2, 6), (6,)),
    ),
    "computed factors of both branches": (
        "def f(double(N, D) X, double(D) y) -> (O) {"
        " O(n, d) *=! k <= d ? 2.0 * X(n, k) : 1.5 - y(k) where d in 0:D }",
        ((2, 6), (6,)),
    ),
    "used again": (
        "def f(double(N, D) X) -> (P) {"
        " O(n, d) max=! k <= d ? X(n, k) : X(n, 0) where d in 0:D"
        " P(n, d) = O(n, d) * X(n, d) }",
        ((2, 6),),
    ),
}


@pytest.mark.parametrize(("text", "sizes"), OTHERS.values(), ids=OTHERS)
def test_other_texts(text: str, sizes: tuple[tuple[int, ...], ...]) -> None:
    checked_gradient(text, *sizes)


def test_terms_where_data_says() -> None:
    """What the condition leaves out lies outside of the tensor that is read."""
    text = """def f(double(N, D) X, int32(D) I) -> (O) {
        O(n, d) *=! I(k) >= 0 && k <= d ? 2.0 - X(n, I(k)) : 1 where d in 0:D }"""
    places = torch.tensor([2, -1, 5, 0, -7, 2], dtype=torch.int32)
    x = torch.rand(2, 6, dtype=torch.double, requires_grad=True)
    operator = tc.define(text, namespace=f"tc_running_{next(_namespaces)}").f
    received = torch.rand(2, 6, dtype=torch.double)
    (ours,) = torch.autograd.grad(tc.make_autograd(operator)(x, places), x, received)
    factors = torch.where(places >= 0, 2 - x[:, places.clamp(min=0).long()], 1)
    (wanted,) = torch.autograd.grad(factors.cumprod(1), x, received)
    torch.testing.assert_close(ours, wanted)


@pytest.mark.parametrize("zeros", [[], [0], [5], [36], [3, 20], [0, 1, 36]])
def test_products_of_differences_with_zeros(zeros: list[int]) -> None:
    x = torch.rand(4, 37) + 0.5
    x[1:, zeros] = 2
    x.requires_grad_()
    received = torch.randn(4, 37)
    (ours,) = gradients(definition(RUNNING["product of differences"][0]), x, received=received)
    (wanted,) = torch.autograd.grad((2 - x).cumprod(1), x, received)
    torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-4)


def test_halves() -> None:
    x = (integers(3, 40) / 4).half().requires_grad_()
    received = torch.ones(3, 40).half()
    (ours,) = gradients(
        definition(RUNNING["max"][0]).replace("float", "half"), x, received=received
    )
    torch.testing.assert_close(ours.float().sum(1), received.float().sum(1), rtol=1e-3, atol=0)


@pytest.mark.parametrize("running", [True, False])
def test_extremes_of_what_is_computed_again(running: bool) -> None:
    """A last bit that differs from what the result was made of does not lose its gradient."""
    statement = "T(i, j) max=! k <= j ? V(i, k) : V(i, 0)" if running else "T(i) max=! V(i, k)"
    where = " where j in 0:7, k in 0:7" if running else ""
    text = f"""def f(double(N, M) a, double(N) b, double(M) c) -> (T) {{
        V(i, j) = a(i, j) + sin(b(i) * c(j))
        {statement}{where} }}"""
    a = [
        *(0.5293449239601056, -1.3665321312724967, -1.6493856504409248, 1.1254202289975823),
        *(1.6435080399354312, 1.336647237806639, 1.5268671110724208),
    ]
    c = [
        *(1.010769315193652, 1.44732944304419, 0.6502913673809863, 0.9825227192997106),
        *(1.2205884432524492, 1.8551312613046362, 0.7688707265663861),
    ]
    given = [torch.tensor(x, dtype=torch.double) for x in ([a], [1.7355930229195338], c)]
    ours, wanted = ([x.clone().requires_grad_() for x in given] for _ in range(2))
    f = tc.make_autograd(tc.define(text, namespace="tc_computed_again").f)
    values = wanted[0] + torch.sin(wanted[1][:, None] * wanted[2])
    right = values.cummax(1).values if running else values.amax(1)
    grads = torch.autograd.grad(f(*ours).sum(), ours)
    for one, other in zip(grads, torch.autograd.grad(right.sum(), wanted)):
        torch.testing.assert_close(one, other)
