"""torch.compile: the graph of one function is not run for another that is made by the same code."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch._dynamo.testing import CompileCounter

import tensor_comprehensions as tc


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def times(factor: int) -> object:
    """Definitions that differ in a number alone; ``scaled`` has a scalar as well."""
    return tc.define(
        f"""
        def f(float(N) x) -> (y) {{ y(i) = {factor} * x(i) }}
        def f_grad(float(N) x, float(N) g) -> (d) {{ d(i) = {factor} * g(i) + 0 * x(i) }}
        def scaled(float a, float(N) x) -> (y) {{ y(i) = {factor} * a * x(i) }}
        def scaled_grad(float a, float(N) x, float(N) g) -> (d) {{
            d(i) = {factor} * a * g(i) + 0 * x(i)
        }}""",
        namespace=f"tc_guards_{factor}",
    )


def backward(factor: int) -> Callable:
    """Of Python, which is another closure for each factor."""
    return lambda x, g: factor * g


def with_scalar(make: Callable) -> Callable:
    def made(factor: int) -> Callable:
        function = make(factor)
        return lambda x: function(1.0, x)

    return made


def python_forward(factor: int) -> Callable:
    f = times(factor).f
    return tc.make_autograd(lambda x: f(x), backward(factor))


def scaled_backward(factor: int) -> Callable:
    return lambda a, x, g: factor * a * g


def layer(factor: int) -> Callable:
    text = f"def f(float(N) x) -> (y) {{ y(i) = {factor} * x(i) }}"
    return tc.nn.Lambda(text, namespace=f"tc_guards_{factor}")


MAKERS: dict[str, Callable[[int], Callable]] = {
    "operator": lambda k: times(k).f,
    "derived": lambda k: tc.make_autograd(times(k).f),
    "derived, scalar": with_scalar(lambda k: tc.make_autograd(times(k).scaled)),
    "pair": lambda k: tc.make_autograd(times(k).f, times(k).f_grad),
    "pair, scalar": with_scalar(lambda k: tc.make_autograd(times(k).scaled, times(k).scaled_grad)),
    "python": lambda k: tc.make_autograd(times(k).f, backward(k)),
    "python, scalar": with_scalar(lambda k: tc.make_autograd(times(k).scaled, scaled_backward(k))),
    "python, both": python_forward,
    "operators": lambda k: tc.make_autograd(times(k).f, tc.make_autograd(times(k).f_grad)),
    "layer": layer,
}
DIFFERENTIABLE = [name for name in MAKERS if name != "operator"]


def gradient(run: Callable, function: Callable) -> list[float]:
    x = torch.ones(2, requires_grad=True)
    run(function, x).sum().backward()
    return x.grad.tolist()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", MAKERS)
def test_functions_that_are_passed(name: str, backend: str) -> None:
    functions = {k: MAKERS[name](k) for k in (2, 3, 4)}
    run = torch.compile(lambda h, x: h(x), backend=backend, fullgraph=True)
    for k in (2, 3, 4, 2):
        assert run(functions[k], torch.ones(2)).tolist() == [k, k]
    if name in DIFFERENTIABLE:
        for k in (2, 3, 4, 2):
            assert gradient(run, functions[k]) == [k, k]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_functions_under_torch_func(name: str, dynamic: bool | None) -> None:
    run = torch.compile(
        lambda h, x: torch.func.grad(lambda x: h(x).sum())(x), backend="eager", dynamic=dynamic
    )
    for k in (2, 3, 4):
        assert run(MAKERS[name](k), torch.ones(2)).tolist() == [k, k]


@pytest.mark.parametrize("name", MAKERS)
def test_instances_of_a_module(name: str) -> None:
    class Model(torch.nn.Module):
        def __init__(self, function: Callable) -> None:
            super().__init__()
            self.function = function

        @torch.compile(backend="eager")
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.function(x)

    for k in (2, 3):
        assert Model(MAKERS[name](k))(torch.ones(2)).tolist() == [k, k]


def test_layers_with_the_default_backend() -> None:
    run = torch.compile(lambda h, x: h(x))
    for k in (2, 3):
        assert run(layer(k), torch.ones(2)).tolist() == [k, k]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_one_function_is_compiled_once(name: str) -> None:
    function, counter = MAKERS[name](2), CompileCounter()
    run = torch.compile(lambda h, x: h(x), backend=counter)
    for _ in range(3):
        run(function, torch.ones(2))
    assert counter.frame_count == 1
