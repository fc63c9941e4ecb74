"""Which input a gradient is of, and derivatives by some results alone."""

from __future__ import annotations

import itertools

import torch

import tensor_comprehensions as tc


def derived(text: str) -> object:
    return tc.make_autograd(tc.define(text, namespace="tc_parts").f)


def test_an_input_may_be_called_as_another_with_a_number() -> None:
    f = derived("def f(float(N) W, float(N) W_2) -> (O) { O(i) = W(i) * W_2(i) }")
    w, w2 = torch.randn(5), torch.randn(5, requires_grad=True)
    assert torch.equal(torch.autograd.grad(f(w, w2).sum(), w2)[0], w)
    _, tangent = torch.func.jvp(lambda y: f(w, y), (w2.detach(),), (torch.ones(5),))
    assert torch.equal(tangent, w)
    g = derived("def f(int64(N) I, float(N) I_1) -> (O) { O(i) = I_1(i) * I(i) }")
    i, x = torch.tensor([3, 0, 2]), torch.randn(3, requires_grad=True)
    assert torch.equal(torch.autograd.grad(g(i, x).sum(), x)[0], i.float())
    h = derived(
        "def f(float(N) x, float(N) x_1) -> (O) { O(i) = x(i) > 0.0 ? x_1(i) * 2.0 : x_1(i) }"
    )
    x = torch.tensor([1.0, -1.0], requires_grad=True)
    x1 = torch.randn(2, requires_grad=True)
    found = torch.autograd.grad(h(x, x1).sum(), (x, x1), allow_unused=True)
    assert found[1].tolist() == [2, 1]
    assert found[0] is None or found[0].tolist() == [0, 0]


def test_a_part_may_read_results_that_the_whole_does_not() -> None:
    """O alone is all that e receives: its derivative reads O, that of both reads e again."""
    f = derived(
        """def f(double(N, K) X, double(N) Y, double(N, K) Z) -> (O, R) {
          E(i, k) = exp(X(i, k))
          O(i, k) = E(i, k) / Y(i)
          R(i, k) = E(i, k) * Z(i, k)
        }"""
    )

    def right(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.exp() / y[:, None], x.exp() * z

    inputs = [torch.rand(4, 5).double(), torch.rand(4).double() + 1, torch.rand(4, 5).double()]
    for by, given in itertools.product([(0,), (0, 1, 2)], [(0,), (1,), (0, 1)]):
        leaves = [x.clone().requires_grad_(k in by) for k, x in enumerate(inputs)]
        wanted, found = (
            torch.autograd.grad(
                sum(results[k].sum() for k in given),
                [leaves[k] for k in by],
                allow_unused=True,
                materialize_grads=True,
            )
            for results in (right(*leaves), f(*leaves))
        )
        torch.testing.assert_close(found, wanted)


def test_a_product_is_kept_beside_a_maximum_that_goes_on() -> None:
    """Whose steps have names of their own."""
    text = """def f(float(N, M) A, float(M, K) B, float(N) x) -> (O, P) {
      T(n, k) +=! A(n, m) * B(m, k)
      P(n, k) = tanh(T(n, k)) * T(n, k)
      O(n) = x(n)
      O(n) max= A(n, m)
    }"""
    a, b, x = (torch.randn(*s, requires_grad=True) for s in ((5, 6), (6, 4), (5,)))
    o, p = tc.make_autograd(tc.define(text).f)(a, b, x)
    (o.sum() + p.sum()).backward()
    found = [each.grad.clone() for each in (a, b, x)]
    product = a @ b
    wanted = torch.maximum(x, a.amax(1)).sum() + (product.tanh() * product).sum()
    for one, other in zip(found, torch.autograd.grad(wanted, (a, b, x)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
