"""Scalars of a signature: numbers, 0-d tensors, symbols of a graph; and their derivatives."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

import tensor_comprehensions as tc

TEXT = """
def affine(float alpha, int k, bool flip, float(N) x) -> (y) {
    y(i) = (flip ? -alpha : alpha) * x(i) + k
}
def affine_grad(float alpha, int k, bool flip, float(N) x, float(N) g) -> (dx) {
    dx(i) = (flip ? -alpha : alpha) * g(i)
}
def curve(double alpha, double beta, double(N) x) -> (y, s) {
    y(i) = exp(alpha * x(i)) + beta * alpha
    s +=! y(i) * beta
}
def stepped(int s, float alpha, float(N) x) -> (y) { y(i) = alpha * x(s * i) }
def halved(half alpha, half(N) x) -> (y) { y(i) = alpha * x(i) }
def placed(float where, float(N) x) -> (y) { y(i) = x(i) * x(int32(where)) }
def alone(float alpha, float beta) -> (y) { y(i) = alpha * beta + i where i in 0:3 }
def scaled_start(float alpha, float(N) x) -> (y) { y(i) += alpha * x(i) }
"""
T = tc.define(TEXT, namespace="tc_scalars")
FORMS: dict[str, Callable] = {
    "operator": T.affine,
    "derived": tc.make_autograd(T.affine),
    "paired": tc.make_autograd(T.affine, T.affine_grad),
}


def reference(alpha: object, k: object, flip: object, x: torch.Tensor) -> torch.Tensor:
    return (-1 if flip else 1) * alpha * x + k


def curve(alpha: object, beta: object, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = torch.exp(alpha * x) + beta * alpha
    return y, (y * beta).sum()


def vector(size: int = 5) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(0))


def scalar(value: object, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.tensor(value, dtype=dtype)


def test_numbers_of_numpy() -> None:
    x = vector()
    for alpha in (np.float32(2.5), np.float64(2.5), np.float16(2.5)):
        given = alpha, np.int64(3), np.bool_(True), x
        executor = T.affine.compile(*given)
        for f in (*FORMS.values(), executor):
            torch.testing.assert_close(f(*given), reference(2.5, 3, True, x))
        out = torch.empty(5)
        for f in (T.affine, executor):
            f(*given, outputs=out)
            torch.testing.assert_close(out, reference(2.5, 3, True, x))
    with pytest.raises(tc.ShapeError, match="argument k: expected an integer but got float32"):
        T.affine(1.0, np.float32(3), True, x)


# ---- graphs


@pytest.mark.parametrize("dynamic", [None, False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("form", FORMS)
def test_tensors_in_a_graph(form: str, backend: str, dynamic: bool | None) -> None:
    """One graph for all values: none of them is looked at while it is made."""
    torch._dynamo.reset()
    counters.clear()
    f, x = FORMS[form], vector()
    compiled = torch.compile(
        lambda a, k, flip, x: f(a * 2, k, flip, x).sin(),
        fullgraph=True,
        backend=backend,
        dynamic=dynamic,
    )
    for a, k, flip in ((2.5, 3, True), (-1.0, 4, False), (0.0, 0, True)):
        found = compiled(scalar(a), scalar(k), scalar(flip), x)
        torch.testing.assert_close(found, reference(2 * a, k, flip, x).sin())
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("form", FORMS)
def test_numbers_in_a_graph_for_all_of_them(form: str, backend: str) -> None:
    """More values than graphs would be made for."""
    torch._dynamo.reset()
    counters.clear()
    f, x = FORMS[form], vector()
    compiled = torch.compile(
        lambda a, k, x: f(a, k, False, x), fullgraph=True, backend=backend, dynamic=True
    )
    for step in range(2, 14):
        found = compiled(step + 0.1, step, x)
        torch.testing.assert_close(found, reference(step + 0.1, step, False, x))
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("form", ["derived", "paired"])
def test_numbers_and_tensors_together(form: str) -> None:
    torch._dynamo.reset()
    f, x = FORMS[form], vector().requires_grad_()
    compiled = torch.compile(lambda a, x: f(a, 3, True, x), fullgraph=True, backend="aot_eager")
    for value in (1.5, 2.5):
        (found,) = torch.autograd.grad(compiled(scalar(value), x).sum(), x)
        torch.testing.assert_close(found, torch.full_like(x, -value))


def test_exported_with_a_tensor() -> None:
    class Affine(torch.nn.Module):
        def forward(self, a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return T.affine(a, 3, False, x)

    x = vector()
    program = torch.export.export(Affine(), (scalar(1.0), x))
    stream = io.BytesIO()
    torch.export.save(program, stream)
    stream.seek(0)
    exported = torch.export.load(stream).module()
    for value in (2.5, -0.5):
        torch.testing.assert_close(exported(scalar(value), x), reference(value, 3, False, x))


def test_traced_with_a_tensor() -> None:
    class Affine(torch.nn.Module):
        def forward(self, a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return FORMS["derived"](a, 3, False, x)

    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        traced = torch.jit.trace(Affine(), (scalar(1.0), vector()))
    torch.testing.assert_close(traced(scalar(2.5), vector()), reference(2.5, 3, False, vector()))


def test_fake_tensors() -> None:
    with FakeTensorMode() as mode:
        x = mode.from_tensor(vector())
        for form in FORMS.values():
            result = form(mode.from_tensor(scalar(2.5)), 3, True, x)
            assert (result.shape, result.dtype) == (x.shape, x.dtype)
    meta = T.affine(scalar(2.5).to("meta"), 3, True, vector().to("meta"))
    assert meta.shape == (5,) and meta.device.type == "meta"


def test_into_outputs_in_a_graph() -> None:
    torch._dynamo.reset()

    def f(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(x)
        T.affine(a, 1, False, x, outputs=(out,))
        return out

    x = vector()
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    for value in (2.5, 3.5):
        torch.testing.assert_close(compiled(scalar(value), x), value * x + 1)


def test_what_decides_sizes_must_be_known_to_a_graph() -> None:
    x = vector(9)
    torch.testing.assert_close(T.stepped(scalar(2), scalar(0.5), x), 0.5 * x[::2])
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda a, x: T.stepped(2, a, x), fullgraph=True, backend="aot_eager", dynamic=True
    )
    torch.testing.assert_close(compiled(scalar(0.5), x), 0.5 * x[::2])
    torch._dynamo.reset()
    # Without fullgraph the graph ends before the call.
    parts = torch.compile(lambda s, x: T.stepped(s, 0.5, x.sin()), backend="aot_eager")
    for step in (2, 4):
        torch.testing.assert_close(parts(scalar(step), x), 0.5 * x.sin()[::step])
    message = "scalar s of stepped decides sizes or subscripts.*pass a number"
    with FakeTensorMode() as mode, pytest.raises(tc.ShapeError, match=message):
        T.stepped(mode.from_tensor(scalar(2)), 0.5, mode.from_tensor(x))
    with pytest.raises(tc.ShapeError, match=message):
        vmap(lambda s: T.stepped(s, 0.5, x))(torch.tensor([1, 2]))
    with pytest.raises(tc.ShapeError, match="argument k: expected an integer"):
        vmap(lambda k: T.affine(1.0, k, False, x))(torch.tensor([1.0, 2.0]))


def test_types_of_scalars_in_a_graph() -> None:
    """They are what the text declares, as numbers are."""
    torch._dynamo.reset()
    x = vector().half()
    compiled = torch.compile(T.halved, fullgraph=True, backend="aot_eager")
    for value in (1 / 3, 1000.4):
        torch.testing.assert_close(
            compiled(scalar(value, torch.float64), x), T.halved(value, x), rtol=0, atol=0
        )
    torch._dynamo.reset()
    compiled = torch.compile(T.placed, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(scalar(2.7), x.float()), x.float() * x.float()[2])
    with pytest.raises(Exception, match="argument k: expected an integer"):
        torch.compile(T.affine, fullgraph=True, backend="aot_eager")(1.0, scalar(2.5), True, x)
    with pytest.raises(Exception, match="argument alpha: expected a number or a 0-d tensor"):
        torch.compile(T.affine, fullgraph=True, backend="aot_eager")(vector(), 2, True, vector())


# ---- derivatives


def doubles(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, dtype=torch.double, generator=torch.Generator().manual_seed(3))


def test_gradients_of_scalars() -> None:
    f = tc.make_autograd(T.curve)
    inputs = [scalar(0.7, torch.double), scalar(-1.2, torch.double), doubles(4)]
    for count in range(1, 8):  # which of the three
        leaves = [v.clone().requires_grad_(bool(count >> k & 1)) for k, v in enumerate(inputs)]
        assert torch.autograd.gradcheck(f, leaves)
        assert torch.autograd.gradgradcheck(f, leaves)
    alpha = scalar(0.7, torch.double).requires_grad_()
    y, s = f(alpha, -1.2, inputs[2])
    (found,) = torch.autograd.grad(y.sum() + s, alpha)
    y, s = curve(alpha, -1.2, inputs[2])
    (wanted,) = torch.autograd.grad(y.sum() + s, alpha)
    assert found.shape == () and found.dtype == torch.double
    torch.testing.assert_close(found, wanted)


def test_gradients_of_scalars_of_other_types() -> None:
    """A parameter of another floating-point type receives a gradient of its own."""
    f, x = FORMS["derived"], vector()
    for dtype in (torch.float16, torch.float32, torch.float64):
        alpha = scalar(2.5, dtype).requires_grad_()
        f(alpha, 3, True, x).sum().backward()
        assert alpha.grad.dtype == dtype
        torch.testing.assert_close(alpha.grad.float(), -x.sum(), rtol=1e-2, atol=1e-2)


def test_a_scalar_parameter_learns() -> None:
    class Scale(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.alpha = torch.nn.Parameter(torch.tensor(0.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return FORMS["derived"](self.alpha, 1, False, x)

    x = vector(32)
    for form in (Scale(), torch.compile(Scale(), fullgraph=True, backend="aot_eager")):
        (parameter,) = form.parameters()
        optimizer = torch.optim.SGD([parameter], lr=0.5)
        for _ in range(40):
            optimizer.zero_grad()
            (form(x) - (3 * x + 1)).square().mean().backward()
            optimizer.step()
        torch.testing.assert_close(parameter.detach(), scalar(3.0), rtol=1e-3, atol=1e-3)
    exported = torch.export.export(Scale(), (x,)).module()
    exported(x).sum().backward()
    torch.testing.assert_close(exported.alpha.grad, x.sum())


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_gradients_of_scalars_in_a_graph(backend: str) -> None:
    torch._dynamo.reset()
    f, x = tc.make_autograd(T.curve), doubles(4)

    def loss(function: Callable, alpha: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
        y, s = function(alpha, beta, x)
        return y.square().sum() + s

    compiled = torch.compile(lambda a, b: loss(f, a, b), fullgraph=True, backend=backend)
    leaves = [scalar(v, torch.double).requires_grad_() for v in (0.7, -1.2)]
    found = torch.autograd.grad(compiled(*leaves), leaves)
    torch.testing.assert_close(found, torch.autograd.grad(loss(curve, *leaves), leaves))


@pytest.mark.parametrize("transform", [grad, jacrev, jacfwd, hessian])
def test_transforms_of_scalars(transform: Callable) -> None:
    f, x, beta = tc.make_autograd(T.curve), doubles(4), scalar(-1.2, torch.double)
    found = transform(lambda a: f(a, beta, x)[1])(scalar(0.7, torch.double))
    wanted = transform(lambda a: curve(a, beta, x)[1])(scalar(0.7, torch.double))
    torch.testing.assert_close(found, wanted)


def test_tangents_of_scalars() -> None:
    f, x = tc.make_autograd(T.curve), doubles(4)
    primals = (scalar(0.7, torch.double), scalar(-1.2, torch.double))
    tangents = (scalar(2.0, torch.double), scalar(3.0, torch.double))
    found = jvp(lambda a, b: f(a, b, x), primals, tangents)
    wanted = jvp(lambda a, b: curve(a, b, x), primals, tangents)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("form", FORMS)
def test_scalars_of_a_batch(form: str) -> None:
    f, x = FORMS[form], vector()
    alphas, ks, flips = torch.tensor([1.0, 2.5]), torch.tensor([3, 4]), torch.tensor([True, False])
    wanted = torch.stack(
        [
            reference(a, k, flip, x)
            for a, k, flip in zip(alphas.tolist(), ks.tolist(), flips.tolist(), strict=True)
        ]
    )
    torch.testing.assert_close(vmap(f, in_dims=(0, 0, 0, None))(alphas, ks, flips, x), wanted)
    both = vmap(f, in_dims=(0, None, None, 0))(alphas, 3, True, torch.stack([x, 2 * x]))
    torch.testing.assert_close(both, -alphas[:, None] * torch.stack([x, 2 * x]) + 3)


def test_gradients_for_every_scalar_of_a_batch() -> None:
    f, x, beta = tc.make_autograd(T.curve), doubles(4), scalar(-1.2, torch.double)
    alphas = doubles(3)
    found = vmap(grad(lambda a: f(a, beta, x)[1]))(alphas)
    torch.testing.assert_close(found, vmap(grad(lambda a: curve(a, beta, x)[1]))(alphas))


def test_definitions_of_scalars_alone() -> None:
    f = tc.make_autograd(T.alone)
    alpha = scalar(2.0).requires_grad_()
    result = f(alpha, 3.0)
    torch.testing.assert_close(result, torch.tensor([6.0, 7.0, 8.0]))
    torch.testing.assert_close(torch.autograd.grad(result.sum(), alpha)[0], scalar(9.0))


# ---- never silence


def test_definitions_without_a_derivative_say_so() -> None:
    alpha, x = scalar(2.5).requires_grad_(), vector()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = T.affine(alpha, 3, False, x)
    torch.testing.assert_close(result.detach(), 2.5 * x + 3)
    with pytest.raises(tc.TCError, match=r"affine.* has no derivative.*make_autograd"):
        result.sum().backward()
    with torch.no_grad():
        assert not T.affine(alpha, 3, False, x).requires_grad
    message = "affine into given outputs has no derivative, but argument alpha requires gradients"
    for unchecked in (False, True):
        with pytest.raises(tc.TCError, match=message):
            T.affine(alpha, 3, False, x, outputs=torch.zeros(5), unchecked=unchecked)
    message = "scaled_start into given outputs has no derivative, but argument alpha requires"
    with pytest.raises(tc.TCError, match=message):
        T.scaled_start(alpha, x, outputs=torch.zeros(5))


def test_pairs_whose_backward_leaves_the_scalar_out_say_so() -> None:
    f, x = FORMS["paired"], vector().requires_grad_()
    f(scalar(2.5), 3, True, x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, -2.5))
    message = (
        r"affine_grad gives no gradient to scalar alpha of affine, which requires one: declare it "
        r"as float\(1\) alpha in both texts and write alpha\(0\), or pass alpha.detach\(\)"
    )
    for inputs in ((scalar(2.5).requires_grad_(), x), (scalar(2.5).requires_grad_(), x.detach())):
        with pytest.raises(tc.TCError, match=message):
            f(inputs[0], 3, True, inputs[1])
    with pytest.raises(tc.TCError, match=message):
        grad(lambda a: f(a, 3, True, x.detach()).sum())(scalar(2.5))
    with torch.no_grad():
        assert not f(scalar(2.5).requires_grad_(), 3, True, x).requires_grad


def test_the_way_out_of_that_message() -> None:
    t = tc.define(
        """
        def way(float(1) alpha, float(N) x) -> (y) { y(i) = alpha(0) * x(i) }
        def way_grad(float(1) alpha, float(N) x, float(N) g) -> (da, dx) {
            da(j) +=! g(i) * x(i) where j in 0:1
            dx(i) = alpha(0) * g(i)
        }""",
        namespace="tc_scalars",
    )
    f, alpha, x = tc.make_autograd(t.way, t.way_grad), torch.tensor([2.5]), vector()
    found = grad(lambda a: f(a, x).sum())(alpha)
    torch.testing.assert_close(found, x.sum().reshape(1))


def test_backwards_of_ones_own_receive_and_return_scalars() -> None:
    def backward(a: torch.Tensor, k: object, flip: object, x: torch.Tensor, g: torch.Tensor):
        return (g * x).sum(), a * g

    f = tc.make_autograd(T.affine, backward)
    alpha, x = scalar(2.5).requires_grad_(), vector().requires_grad_()
    f(alpha, 3, False, x).sum().backward()
    torch.testing.assert_close(alpha.grad, x.detach().sum())
    torch.testing.assert_close(x.grad, torch.full_like(x, 2.5))


# ---- autocast


@pytest.mark.parametrize("form", FORMS)
def test_scalars_under_autocast(form: str) -> None:
    f, x = FORMS[form], vector()
    with torch.autocast("cpu", torch.bfloat16):
        for alpha in (2.5, scalar(2.5), scalar(2.5).bfloat16()):
            found = f(alpha, 3, False, x.bfloat16())
            torch.testing.assert_close(found, 2.5 * x.bfloat16().float() + 3)
    leaf = x.bfloat16().requires_grad_()
    if form != "operator":
        with torch.autocast("cpu", torch.bfloat16):
            result = f(scalar(2.5), 3, False, leaf)
        result.sum().backward()
        assert leaf.grad.dtype == torch.bfloat16
        assert leaf.grad.tolist() == [2.5] * 5


def test_gradients_of_scalars_under_autocast() -> None:
    alpha, x = scalar(2.5).bfloat16().requires_grad_(), vector().bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        result = FORMS["derived"](alpha, 3, False, x)
    result.sum().backward()
    assert alpha.grad.dtype == torch.bfloat16
    torch.testing.assert_close(alpha.grad.float(), x.float().sum(), rtol=1e-2, atol=1e-2)


# ---- a scalar of 0


@pytest.mark.parametrize("times", ["times", "(2 * times)", "(3 - 3 + times)"])
@pytest.mark.parametrize("op", ["/", "%"])
def test_gradients_where_a_scalar_of_0_divides(times: str, op: str) -> None:
    """The range is empty, and the gradient 0; no number 0 is written into its text."""
    f = tc.make_autograd(
        tc.define(
            f"""def f(float(M, N) x, int times) -> (y) {{
                y(m, j) = x(m, j {op} {times}) + x(m, 0) where j in 0:N * times
            }}""",
            namespace="tc_scalars_zero",
        ).f
    )
    x = torch.randn(2, 3, requires_grad=True)
    result = f(x, 0)
    assert result.shape == (2, 0)
    result.sum().backward()
    assert x.grad is not None and torch.equal(x.grad, torch.zeros(2, 3))


def test_numbers_beyond_32_bits_that_divide_are_not_0() -> None:
    f = tc.make_autograd(
        tc.define(
            "def f(float(N) x) -> (y) { y(j) = x(int64(j) * 4294967296 / 4294967296)"
            " where j in 0:N }",
            namespace="tc_scalars_wide",
        ).f
    )
    x = torch.randn(3, requires_grad=True)
    f(x).backward(torch.tensor([1.0, 2.0, 3.0]))
    assert torch.equal(x.grad, torch.tensor([1.0, 2.0, 3.0]))


def test_repeating_no_times() -> None:
    f = tc.make_autograd(tc.ops.load("copy").repeat_interleave)
    for times in (0, 2, 1):
        x = torch.randn(2, 3, requires_grad=True)
        result = f(x, times)
        assert torch.equal(result, x.repeat_interleave(times, 1))
        result.sum().backward()
        assert x.grad is not None and torch.equal(x.grad, torch.full((2, 3), float(times)))
