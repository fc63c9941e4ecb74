"""Memory formats of results, and the dtypes of autocast."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import tensor_comprehensions as tc

T = tc.define(
    """
def convolution(float(N, C, H, W) x, float(O, C, R, S) w) -> (y) {
    y(n, o, h, v) +=! x(n, c, 2 * h + r, 2 * v + s) * w(o, c, r, s)
}
def layer(float(N, C, H, W) x, float(O, C, R, S) w, float(O) b) -> (y) {
    t(n, o, h, v) +=! x(n, c, h + r, v + s) * w(o, c, r, s)
    y(n, o, h, v) = fmax(t(n, o, h, v) + b(o), 0)
}
def volume(float(N, C, D, H, W) x) -> (y) { y(n, c, d, h, w) = 2 * x(n, c, d, h, w) }
def spread(float(N, C) x, float(N, C, H, W) s) -> (y) { y(n, c, h, w) = x(n, c) + s(n, c, h, w) }
def last(float(N, C, H, W) x) -> (y) { y(n, h, w, c) = x(n, c, h, w) }
def scores(float(B, H, N, D) q, float(B, H, M, D) k) -> (s) {
    s(b, h, i, j) +=! q(b, h, i, d) * k(b, h, j, d)
}
def half_sum(float(N, D) x, half(D) h) -> (y) { y(n, d) = x(n, d) + h(d) }
def scale(float(N) x, float a, int32(N) k) -> (y) { y(i) = a * x(i) + k(i) }
def double_sum(double(N) x) -> (s) { s +=! x(i) }
""",
    namespace="tc_formats",
)


def images(*sizes: int) -> torch.Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return torch.randn(*sizes).to(memory_format=formats[len(sizes)])


def is_last(x: torch.Tensor) -> bool:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return x.is_contiguous(memory_format=formats[x.dim()]) and not x.is_contiguous()


def test_results_follow_their_images() -> None:
    x, w, b = images(2, 3, 9, 8), torch.randn(4, 3, 3, 2), torch.randn(4)
    y = T.convolution(x, w)
    assert is_last(y)
    torch.testing.assert_close(y, F.conv2d(x, w, stride=2), rtol=1e-4, atol=1e-4)
    y = T.layer(x, w, b)
    assert is_last(y)
    torch.testing.assert_close(y, F.conv2d(x, w, b).relu(), rtol=1e-4, atol=1e-4)
    assert is_last(T.volume(images(2, 3, 4, 5, 6)))
    # The first input of the same rank decides, not the weights.
    assert not is_last(T.convolution(x.contiguous(), images(4, 3, 3, 2)))
    assert is_last(T.spread(torch.randn(2, 3), images(2, 3, 4, 5)))


def test_results_that_follow_nothing_are_contiguous() -> None:
    assert T.last(images(2, 3, 4, 5)).is_contiguous()
    assert T.scores(images(2, 3, 4, 5), images(2, 3, 6, 5)).is_contiguous()


def test_gradients_follow_too() -> None:
    x, w, b = images(2, 3, 9, 8).requires_grad_(), torch.randn(4, 3, 3, 2), torch.randn(4)
    y = tc.make_autograd(T.layer)(x, w, b)
    y.backward(images(*y.shape))
    assert is_last(x.grad)


@pytest.mark.parametrize("dynamic", [False, True])
def test_formats_in_graphs(dynamic: bool) -> None:
    x, w, b = images(2, 3, 9, 8), torch.randn(4, 3, 3, 2), torch.randn(4)
    graph = torch.compile(
        lambda x: T.layer(x, w, b), fullgraph=True, dynamic=dynamic, backend="aot_eager"
    )
    assert is_last(graph(x))
    assert graph(x.contiguous()).is_contiguous()
    assert is_last(T.layer(x.to("meta"), w.to("meta"), b.to("meta")))


# ---- autocast


def test_arguments_become_what_the_text_declares() -> None:
    x, h = torch.randn(3, 4), torch.randn(4)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(T.half_sum(x.bfloat16(), h), x.bfloat16().float() + h.half())
        # Integers and doubles are what they are.
        k = torch.arange(3, dtype=torch.int32)
        assert torch.equal(T.scale(h[:3].bfloat16(), 1.0, k), h[:3].bfloat16().float() + k)
        with pytest.raises(tc.ShapeError, match="expected dtype float32 but got float64"):
            T.half_sum(x.double(), h)
        with pytest.raises(tc.ShapeError, match="expected dtype int32 but got int64"):
            T.scale(h[:3], 1.0, k.long())
    with pytest.raises(tc.ShapeError, match="expected dtype float32 but got bfloat16"):
        T.half_sum(x.bfloat16(), h.half())


def test_outputs_stay_as_given() -> None:
    x, h = torch.randn(3, 4), torch.randn(4)
    out = torch.empty(3, 4)
    with torch.autocast("cpu", torch.bfloat16):
        T.half_sum(x.bfloat16(), h, outputs=out)
        with pytest.raises(tc.ShapeError, match="output y"):
            T.half_sum(x, h, outputs=out.bfloat16())
    assert torch.equal(out, x.bfloat16().float() + h.half())


@pytest.mark.parametrize("graph", [False, True])
def test_between_layers_in_half_precision(graph: bool) -> None:
    torch.manual_seed(0)
    before = torch.nn.Conv2d(3, 3, 1)
    w, b = torch.randn(4, 3, 3, 3).requires_grad_(), torch.randn(4)
    f = tc.make_autograd(T.layer)

    def run(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            h = before(x)
            assert h.dtype == torch.bfloat16
            return f(h, w, b)

    x = torch.randn(2, 3, 6, 6)
    y = (torch.compile(run, fullgraph=True, backend="aot_eager") if graph else run)(x)
    assert y.dtype == torch.float32
    y.sum().backward()
    ours = w.grad, before.weight.grad
    w.grad = before.weight.grad = None
    with torch.autocast("cpu", torch.bfloat16):
        h = before(x)
    wanted = F.conv2d(h.float(), w, b).relu()
    wanted.sum().backward()
    torch.testing.assert_close(y, wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours[0], w.grad, rtol=1e-5, atol=1e-4)
    # What arrives at the layer before is rounded to bfloat16, and then added up.
    largest = before.weight.grad.abs().max().item()
    torch.testing.assert_close(ours[1], before.weight.grad, rtol=0, atol=0.01 * largest)


def test_a_backward_of_ones_own() -> None:
    t = tc.define(
        """def twice(float(N) x) -> (y) { y(i) = 2 * x(i) * x(i) }
        def twice_grad(float(N) x, float(N) d_y) -> (d_x) { d_x(i) = 4 * x(i) * d_y(i) }""",
        namespace="tc_formats_own",
    )
    x = torch.randn(5, dtype=torch.bfloat16).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        y = tc.make_autograd(t.twice, t.twice_grad)(x)
    y.sum().backward()
    assert x.grad.dtype == torch.bfloat16
    torch.testing.assert_close(x.grad, 4 * x.detach(), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("graph", [False, True])
def test_einsum_computes_as_torch_einsum(graph: bool) -> None:
    a, b = torch.randn(3, 4), torch.randn(4, 5, dtype=torch.bfloat16)

    def f(einsum: object) -> tuple:
        return einsum("ij, jk -> ik", a, b), einsum("ij -> i", a)

    ours = torch.compile(f, backend="aot_eager") if graph else f
    with torch.autocast("cpu", torch.bfloat16):
        found, wanted = ours(tc.einsum), f(torch.einsum)
    for x, y in zip(found, wanted, strict=True):
        assert x.dtype == y.dtype
        torch.testing.assert_close(x, y, rtol=0.02, atol=0.05)
