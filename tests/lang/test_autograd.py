"""make_autograd with a given backward, against PyTorch's own derivatives."""

from __future__ import annotations

import pytest
import torch

import tensor_comprehensions as tc

T = tc.define(
    """
def conv1d(double(H) I, double(K) W) -> (O) { O(h) +=! I(h + k) * W(k) }
def conv1d_grad(double(H) I, double(K) W, double(O) G) -> (dI, dW) {
  dI(h) +=! (h - k >= 0 && h - k < O ? G(h - k) : 0) * W(k) where h in 0:H, k in 0:K
  dW(k) +=! G(h) * I(h + k)
}
def matmul(double(M, K) A, double(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }
def matmul_grad(double(M, K) A, double(K, N) B, double(M, N) G) -> (dA, dB) {
  dA(m, k) +=! G(m, n) * B(k, n)
  dB(k, n) +=! G(m, n) * A(m, k)
}
def both(double(N) A) -> (S, P) { S(i) = A(i) * A(i)  P(i) = A(i) * 3 }
def both_grad(double(N) A, double(N) GS, double(N) GP) -> (dA) {
  dA(i) = 2 * A(i) * GS(i) + 3 * GP(i)
}
def scale(double a, int k, double(N) A) -> (C) { C(i) = a * A(i) + k }
def scale_grad(double a, int k, double(N) A, double(N) G) -> (dA) { dA(i) = a * G(i) }
def gather(double(N) X, int64(M) I) -> (O) { O(i) = X(I(i)) }
""",
    namespace="tc_autograd",
)
conv1d = tc.make_autograd(T.conv1d, T.conv1d_grad)
matmul = tc.make_autograd(T.matmul, T.matmul_grad)
both = tc.make_autograd(T.both, T.both_grad)


def r(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, dtype=torch.double, requires_grad=True)


def test_gradients() -> None:
    assert torch.autograd.gradcheck(conv1d, (r(9), r(3)))
    assert torch.autograd.gradcheck(matmul, (r(3, 4), r(4, 5)))
    assert torch.autograd.gradcheck(matmul, (r(4, 3).t(), r(5, 4).t()))
    assert torch.autograd.gradcheck(both, (r(5),))


def test_gradients_of_stride_0() -> None:
    a, b = r(3, 4), r(4, 5)
    matmul(a, b).sum().backward()
    torch.testing.assert_close(a.grad, b.detach().sum(1).expand(3, 4))
    torch.testing.assert_close(b.grad, a.detach().sum(0)[:, None].expand(4, 5))
    strides = []

    def backward(a: torch.Tensor, b: torch.Tensor, gradient: torch.Tensor) -> tuple:
        strides.append(gradient.stride())
        return T.matmul_grad(a, b, gradient)

    tc.make_autograd(T.matmul, backward)(r(3, 4), r(4, 5)).sum().backward()
    assert strides == [(5, 1)]


def test_gradients_of_transposed_results_are_read_where_they_lie() -> None:
    """Those of parts of a tensor are copied."""
    function = tc.make_autograd(T.matmul)
    a, b, weight = r(3, 4), r(4, 5), r(5, 3).detach()
    part = torch.randn(3, 7, dtype=torch.double)[:, :5].copy_(weight.t())

    def copies(gradient: torch.Tensor) -> int:
        result = function(a, b)
        with torch.profiler.profile() as profile:
            (found,) = torch.autograd.grad(result, a, gradient)
        torch.testing.assert_close(found, weight.t() @ b.detach().t())
        return sum(event.name == "aten::copy_" for event in profile.events())

    assert [copies(gradient) for gradient in (weight.t(), part)] == [0, 1]


def test_some_inputs_need_no_gradient() -> None:
    a, b = r(3, 4), r(4, 5).detach()
    matmul(a, b).sum().backward()
    assert a.grad is not None and b.grad is None
    assert not matmul(a.detach(), b).requires_grad
    with torch.no_grad():
        assert not matmul(a, b).requires_grad


def test_one_of_several_outputs_is_used() -> None:
    a = r(5)
    squares, _ = both(a)
    squares.sum().backward()
    torch.testing.assert_close(a.grad, 2 * a.detach())


def test_scalars() -> None:
    scale = tc.make_autograd(T.scale, T.scale_grad)
    a = r(5)
    scale(2.5, 3, a).sum().backward()
    torch.testing.assert_close(a.grad, torch.full_like(a, 2.5))
    assert torch.autograd.gradcheck(lambda x: scale(2.5, 3, x), (r(5),))


def test_integer_inputs_and_backwards_of_pytorch() -> None:
    index = torch.tensor([0, 2, 2, 4])

    def backward(x: torch.Tensor, i: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x).index_add(0, i, gradient)

    gather = tc.make_autograd(T.gather, backward)
    assert torch.autograd.gradcheck(lambda x: gather(x, index), (r(5),))


def test_none_gradients_and_one_for_every_input() -> None:
    a, b = r(3, 4), r(4, 5)
    tc.make_autograd(T.matmul, lambda a, b, g: (g @ b.t(), None))(a, b).sum().backward()
    assert a.grad is not None and b.grad is None
    scale = tc.make_autograd(T.scale, lambda a, k, x, g: (None, None, a * g))
    x = r(5)
    scale(2.5, 3, x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 2.5))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_wrong_counts(count: int) -> None:
    def backward(a: torch.Tensor, b: torch.Tensor, g: torch.Tensor) -> tuple:
        return (g,) * count

    result = tc.make_autograd(T.matmul, backward)(r(3, 4), r(4, 5))
    with pytest.raises(tc.TCError, match=f"backward returned {count} gradients, but 2 of the 2"):
        result.sum().backward()


def test_wrong_sizes() -> None:
    f = tc.make_autograd(T.matmul, lambda a, b, g: (a[:1], b))
    with pytest.raises(RuntimeError, match="shape"):
        f(r(3, 4), r(4, 5)).sum().backward()


def test_errors_of_the_forward() -> None:
    with pytest.raises(tc.ShapeError, match="Mismatched sizes"):
        matmul(r(3, 4), r(5, 5))


def test_second_derivatives_are_refused() -> None:
    """A backward that is a definition has no derivative; it says so."""
    a, b = r(3, 4), r(4, 5)
    (gradient,) = torch.autograd.grad(matmul(a, b).pow(2).sum(), a, create_graph=True)
    with pytest.raises(tc.TCError, match="matmul_grad has no derivative"):
        gradient.sum().backward()


@pytest.mark.parametrize("backend", [None, "eager", "aot_eager"])
def test_backwards_that_are_differentiated(backend: str | None) -> None:
    """As that message says: they are given results, and tensors of one element, as others are."""
    t = tc.define(
        """
        def th(double(N) x) -> (y) { y(i) = tanh(x(i)) }
        def th_grad(double(N) x, double(N) y, double(N) d) -> (g) {
            g(i) = d(i) * (1 - y(i) * y(i))
        }
        def squares(double(N) x) -> (s) { s +=! x(i) * x(i) }
        def squares_grad(double(N) x, double(1) d) -> (g) { g(i) = 2 * d(0) * x(i) }""",
        namespace="tc_differentiated_backwards",
    )
    torch._dynamo.reset()
    for forward, backward, reference in (
        (t.th, t.th_grad, torch.tanh),
        (t.squares, t.squares_grad, lambda x: (x * x).sum()),
    ):
        f = tc.make_autograd(forward, tc.make_autograd(backward))
        run = f if backend is None else torch.compile(f, backend=backend)
        x = r(4)
        (found,) = torch.autograd.grad(run(x).sum(), x)
        (wanted,) = torch.autograd.grad(reference(x).sum(), x)
        torch.testing.assert_close(found, wanted)
        (wanted,) = torch.autograd.grad(reference(x).sum(), x, create_graph=True)
        (found,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        found, wanted = (torch.autograd.grad(g.sum(), x)[0] for g in (found, wanted))
        torch.testing.assert_close(found, wanted)
        ours = torch.func.grad(lambda x, f=f: f(x).sum())(x.detach())
        torch.testing.assert_close(ours, torch.autograd.grad(reference(x).sum(), x)[0])


def test_names() -> None:
    assert matmul.__name__ == "matmul" and "def matmul" in matmul.__doc__


def test_a_module_learns() -> None:
    torch.manual_seed(0)
    w, x = torch.zeros(4, 1, dtype=torch.double, requires_grad=True), r(64, 4).detach()
    wanted = torch.tensor([[1.0], [-2], [3], [0.5]], dtype=torch.double)
    optimizer = torch.optim.SGD([w], lr=0.1)
    for _ in range(200):
        optimizer.zero_grad()
        (matmul(x, w) - x @ wanted).square().mean().backward()
        optimizer.step()
    torch.testing.assert_close(w.detach(), wanted, rtol=1e-3, atol=1e-3)


def test_nothing_is_recorded_without_need() -> None:
    a, b = r(3, 4), r(4, 5)
    with torch.no_grad():
        assert matmul(a, b).grad_fn is None
    result = matmul(a.detach(), b.detach())
    assert result.grad_fn is None
    torch.testing.assert_close(result, a.detach() @ b.detach())


def test_func_grad() -> None:
    a, b = r(3, 4).detach(), r(4, 5).detach()
    ours = torch.func.grad(lambda x: matmul(x, b).pow(2).sum())(a)
    torch.testing.assert_close(ours, torch.func.grad(lambda x: (x @ b).pow(2).sum())(a))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_under_compile(backend: str) -> None:
    def loss(function: object, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (function(a.sin(), b) + 1).pow(2).sum()

    a, b = r(3, 4), r(4, 5)
    compiled = torch.compile(lambda x, y: loss(matmul, x, y), fullgraph=True, backend=backend)
    ours = torch.autograd.grad(compiled(a, b), (a, b))
    torch.testing.assert_close(ours, torch.autograd.grad(loss(torch.matmul, a, b), (a, b)))
