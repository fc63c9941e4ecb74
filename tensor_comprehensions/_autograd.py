"""Differentiable functions from a pair of definitions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from tensor_comprehensions._errors import TCError, forget_locals
from tensor_comprehensions._gradients import Derivable, cast_for_autocast, records
from tensor_comprehensions._operator import Operator
from tensor_comprehensions._parameters import arrange_for, described, without_outputs


def _name(function: Callable) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _is_differentiable(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _match(name: str, results: object, inputs: list) -> tuple:
    """One gradient for each input, from what a backward returned."""
    results = tuple(results) if isinstance(results, (tuple, list)) else (results,)
    wanted = [_is_differentiable(value) for value in inputs]
    if len(results) == len(inputs):
        return tuple(result if want else None for result, want in zip(results, wanted, strict=True))
    if len(results) != sum(wanted):
        raise TCError(
            f"{name} returned {len(results)} gradients, but {sum(wanted)} of the {len(inputs)} "
            f"inputs are floating-point tensors; return one for each of those, in order"
        )
    gradients = iter(results)
    return tuple(next(gradients) if want else None for want in wanted)


def _traceable(function: Callable) -> Callable:
    """The same for torch.compile, which cannot look into our objects inside of a Function."""
    if isinstance(function, Operator) and function.overload is not None:
        return function.overload
    return function


def make_autograd(forward: Callable, backward: Callable | None = None) -> Differentiable:
    """A function of tensors whose derivative is another function, or is found by the compiler.

    Without ``backward``, ``forward`` is a definition (``T.f``), and its derivative is derived from
    its text, as ``grad_source`` shows it, for those inputs and results that a call is about. It can
    be differentiated again, and works under ``torch.compile``. LanguageError where something has no
    derivative.

    ``backward`` is called with all inputs of ``forward``, then one contiguous gradient for each of
    its outputs. It returns a gradient for each input that is a floating-point tensor, in order, as
    a tensor or a tuple, with None where there is none; one for every input is good too. Both may be
    definitions (``T.f``) or any callables made of them. A definition which has parameters named as
    results of ``forward`` between the inputs and the gradients is given these results. TCError
    where the count does not fit.
    """
    run = _derived(forward) if backward is None else _paired(forward, backward)
    return Differentiable(forward, backward, run)


@described(
    lambda function: function._parts[0].__doc__,
    lambda function: without_outputs(inspect.signature(function._parts[0])),
)
class Differentiable:
    """What ``make_autograd`` returns. It is pickled as the functions that it was made of."""

    def __init__(self, forward: Callable, backward: Callable | None, run: Callable) -> None:
        self._parts = (forward, backward)
        self._run = run
        self.__name__ = _name(forward)

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        try:
            if named:
                inputs = self._arrange(inputs, named)
            return self._run(*inputs)
        except BaseException as error:
            forget_locals(error)
            del self, inputs, named  # a traceback that is kept shall not hold them
            raise

    def _arrange(self, inputs: tuple, named: dict[str, Any]) -> tuple:
        forward = self._parts[0]
        if not isinstance(forward, Operator):
            return arrange_for(forward, inputs, named)
        if "outputs" in named and "outputs" not in forward.parameters.names:
            raise TCError(
                f"{self.__name__} has derivatives, and returns its results: call it without "
                f"outputs="
            )
        return forward.parameters.arrange(inputs, named)

    def __reduce__(self) -> tuple:
        return make_autograd, self._parts

    def __repr__(self) -> str:
        return f"<differentiable {self.__name__}>"


def _paired(forward: Callable, backward: Callable) -> Callable:
    rest = _name(backward), _saved_results(forward, backward), _ranks(backward)
    eager = _make_function(forward, backward, *rest)
    traced = _make_function(_traceable(forward), _traceable(backward), *rest)

    def run(*inputs: object) -> object:
        if isinstance(forward, Operator):
            inputs = cast_for_autocast(forward, inputs)
        if torch.compiler.is_compiling():
            return traced.apply(*inputs)
        return eager.apply(*inputs) if records(inputs) else forward(*inputs)

    return run


def _derived(forward: Callable) -> Callable:
    if not isinstance(forward, Operator):
        raise TCError(
            f"make_autograd derives the derivative of a definition, as T.f of T = define(...); "
            f"{_name(forward)} is none: pass backward, the function that computes the gradients "
            f"from the inputs and the outputs' gradients"
        )
    derivable = Derivable.of(forward)

    def run(*inputs: object) -> object:
        return derivable(*inputs)

    # What happens inside is for autograd, not for Dynamo, which sees one operation.
    return torch.compiler.allow_in_graph(run)


def _saved_results(forward: Callable, backward: Callable) -> list[int]:
    """Places of the results that a backward definition has parameters for, after the inputs."""
    if not isinstance(forward, Operator) or not isinstance(backward, Operator):
        return []
    outputs = [info.name for info in forward.definition.outputs]
    after = [info.name for info in backward.definition.inputs][len(forward.definition.inputs) :]
    places = []
    for name in after:
        if name not in outputs:
            break
        places.append(outputs.index(name))
    return places


def _ranks(backward: Callable) -> list[int] | None:
    """How many dimensions the parameters of a definition have."""
    if not isinstance(backward, Operator):
        return None
    return [0 if info.is_scalar else info.ndim for info in backward.definition.inputs]


def _make_function(
    run_forward: Callable,
    run_backward: Callable,
    name: str,
    results: list[int],
    ranks: list[int] | None,
) -> type[torch.autograd.Function]:
    """An autograd function of two callables; ``name`` is what errors call the second.

    ``results`` are the places of the forward's results that the backward takes.
    """

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(*inputs: object) -> object:
            return run_forward(*inputs)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple, output: object) -> None:
            outputs = output if isinstance(output, tuple) else (output,)
            is_tensor = [isinstance(value, torch.Tensor) for value in inputs]
            ctx.is_tensor = is_tensor
            ctx.others = [
                None if tensor else value for value, tensor in zip(inputs, is_tensor, strict=True)
            ]
            ctx.save_for_backward(
                *(value for value, tensor in zip(inputs, is_tensor, strict=True) if tensor),
                *(outputs[k] for k in results),
            )

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> tuple:
            tensors = iter(ctx.saved_tensors)
            inputs = [
                next(tensors) if tensor else value
                for value, tensor in zip(ctx.others, ctx.is_tensor, strict=True)
            ]
            # sum().backward() sends gradients of stride 0, which backwards may not expect.
            rest = [*tensors, *(gradient.contiguous() for gradient in gradients)]
            for k, value in enumerate(rest):
                # What has no dimensions is a tensor of one element to a derived definition.
                if ranks is not None and value.dim() == 0 and ranks[len(inputs) + k :][:1] == [1]:
                    rest[k] = value.reshape(1)
            return _match(name, run_backward(*inputs, *rest), inputs)

    return Function
