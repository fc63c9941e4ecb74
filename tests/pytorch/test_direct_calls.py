"""Calls of T.f do not pass by what watches or changes calls of PyTorch's operators."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import tensor_comprehensions as tc

T = tc.define(
    """
def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }
def moments(float(N, K) I) -> (mean, var) {
  mean(n) +=! I(n, k) / K   var(n) +=! I(n, k) * I(n, k) / K }
def scale(float a, int k, float(N) in) -> (out) { out(i) = a * in(i) + k }""",
    namespace="tc_direct",
)
a, b = torch.rand(5), torch.rand(5)


class Watching:
    """What a mode has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[object] = []

    def watch(
        self, function: Callable, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        self.seen.append(function)
        return function(*args, **(kwargs or {}))


class Functions(Watching, TorchFunctionMode):
    __torch_function__ = Watching.watch


class Dispatched(Watching, TorchDispatchMode):
    __torch_dispatch__ = Watching.watch


@pytest.mark.parametrize("mode", [Functions, Dispatched])
def test_modes(mode: type) -> None:
    with mode() as watching:
        assert torch.equal(T.add(a, b), a + b)
    assert T.add.overload in watching.seen


def test_subclasses() -> None:
    seen = []

    class Named(torch.Tensor):
        @classmethod
        def __torch_function__(
            cls, function: Callable, types: object, args: tuple = (), kwargs: dict | None = None
        ) -> object:
            seen.append(function)
            return super().__torch_function__(function, types, args, kwargs or {})

    result = T.add(a.as_subclass(Named), b)
    assert T.add.overload in seen
    assert isinstance(result, Named)


def test_parameters_and_several_results() -> None:
    with torch.no_grad():
        assert torch.equal(T.add(torch.nn.Parameter(a), b), a + b)
        mean, var = T.moments(torch.stack((a, b)))
    torch.testing.assert_close(mean, torch.stack((a.mean(), b.mean())))
    torch.testing.assert_close(var, torch.stack((a.square().mean(), b.square().mean())))


@pytest.mark.parametrize("scalars", [(2.5, 3), (2, 3), (torch.tensor(2.5), torch.tensor(3))])
def test_scalars(scalars: tuple) -> None:
    torch.testing.assert_close(T.scale(*scalars, a), float(scalars[0]) * a + 3)


def test_under_autocast() -> None:
    half = a.bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(T.add(half, b), half.float() + b)
    with pytest.raises(tc.ShapeError, match="argument A: expected dtype float32 but got bfloat16"):
        T.add(half, b)


def test_missing_derivatives_are_missed() -> None:
    result = T.add(a.clone().requires_grad_(), b)
    with pytest.raises(tc.TCError, match="has no derivative"):
        result.sum().backward()


def test_inputs_are_let_go() -> None:
    """A call keeps nothing of its arguments."""
    x = torch.rand(5)
    view = x.untyped_storage()
    count = torch._C._storage_Use_Count(view._cdata)
    for _ in range(3):
        T.add(x, b)
    assert torch._C._storage_Use_Count(view._cdata) == count


def test_modes_see_the_backward() -> None:
    f = tc.make_autograd(T.moments)
    x = torch.rand(4, 3, requires_grad=True)
    wanted = torch.autograd.grad(f(x)[1].sum(), x)
    results = f(x)
    with Dispatched() as watching:
        found = torch.autograd.grad(results[1].sum(), x)
    assert any("moments_grad" in str(operator) for operator in watching.seen)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(found[0], 2 * x / 3)


# ---- into given outputs, without the checks


def into(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    T.add(x, y, outputs=out, unchecked=True)
    return out + 1


@pytest.mark.parametrize("mode", [Functions, Dispatched])
def test_modes_see_unchecked_outputs(mode: type) -> None:
    with mode() as watching:
        torch.testing.assert_close(into(a, b, torch.empty(5)), a + b + 1)
    assert any("add" in str(operator) and "out" in str(operator) for operator in watching.seen)


def test_traces_hold_unchecked_outputs() -> None:
    out, twos = torch.zeros(5), torch.full((5,), 2.0)
    for traced in (
        torch.jit.trace(into, (a, b, out)),
        make_fx(into)(a, b, out),
        make_fx(into, tracing_mode="fake")(a, b, out),
    ):
        assert traced(twos, twos, torch.zeros(5)).tolist() == [5] * 5


def test_unchecked_outputs_without_data() -> None:
    with FakeTensorMode():
        assert into(torch.empty(5), torch.empty(5), torch.empty(5)).shape == (5,)
    meta = torch.empty(5, device="meta")
    assert into(meta, meta, torch.empty_like(meta)).is_meta


def test_unchecked_outputs_under_autocast() -> None:
    out = torch.empty(5)
    with torch.autocast("cpu", torch.bfloat16):
        T.add(a.bfloat16(), b, outputs=out, unchecked=True)
    assert torch.equal(out, a.bfloat16().float() + b)


def test_unchecked_outputs_carry_no_tangents() -> None:
    """Nor do they lose them in silence."""
    message = "given outputs has no forward-mode derivative, but argument A carries a tangent"
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(a, b)
        with pytest.raises(tc.TCError, match=message):
            T.add(dual, b, outputs=torch.empty(5), unchecked=True)
    with pytest.raises(tc.TCError, match=message):
        torch.func.jvp(lambda x: into(x, b, torch.empty(5)), (a,), (b,))
    with pytest.raises(RuntimeError, match=r"Batching rule not implemented for .*add.*\.out"):
        torch.vmap(into)(torch.ones(2, 5), torch.ones(2, 5), torch.ones(2, 5))


# ---- executors, which are no operators


@pytest.mark.parametrize("unchecked", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_executors_are_in_no_graph(given: bool, unchecked: bool) -> None:
    executor = T.add.compile(a, b)

    def run(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return executor(x, y, outputs=out if given else None, unchecked=unchecked) + 1

    inputs = (a, b, torch.empty(5))
    for trace in (lambda: torch.jit.trace(run, inputs), lambda: make_fx(run)(*inputs)):
        with pytest.raises(tc.TCError, match="add: an executor is no operator, and a graph that"):
            trace()
    message = "argument A of add: an executor runs on tensors in memory, and not on fake ones"
    with FakeTensorMode(), pytest.raises(tc.TCError, match=message):
        run(torch.empty(5), torch.empty(5), torch.empty(5))
    with pytest.raises(tc.TCError, match=message):
        torch.vmap(run)(*(x.expand(3, 5) for x in inputs))
    with pytest.raises(tc.TCError, match=message):
        torch.func.grad(lambda x: run(x, *inputs[1:]).sum())(a)
    # Whoever only looks on is none of these.
    with Dispatched(), torch.autocast("cpu", torch.bfloat16), torch.device("cpu"):
        torch.testing.assert_close(run(*inputs), a + b + 1)
    compiled = torch.compile(run, backend="eager")
    torch.testing.assert_close(compiled(*inputs), a + b + 1)
