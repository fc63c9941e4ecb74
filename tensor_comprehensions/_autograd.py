"""Differentiable functions from definitions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from tensor_comprehensions._errors import TCError, forget_locals
from tensor_comprehensions._operator import Operator
from tensor_comprehensions._pairs import Pair, join, name_of
from tensor_comprehensions._parameters import arrange_for, described, without_outputs

_is_traced = torch.compiler.is_dynamo_compiling


def make_autograd(
    forward: Callable[..., Any], backward: Callable[..., Any] | None = None
) -> Differentiable:
    """A function of tensors whose derivative is another function, or is found by the compiler.

    Without ``backward``, ``forward`` is a definition (``T.f``), and its derivative is derived from
    its text, as ``grad_source`` shows it, for those inputs and results that a call is about. It can
    be differentiated again, and works under ``torch.compile``. A scalar that is passed as a 0-d
    tensor receives a gradient too. LanguageError where something has no derivative.

    ``backward`` is called with all inputs of ``forward``, then one contiguous gradient for each of
    its outputs. It returns a gradient for each input that is a floating-point tensor, in order, as
    a tensor or a tuple, with None where there is none; one for every input is good too. Both may be
    definitions (``T.f``) or any callables made of them. A definition which has parameters named as
    results of ``forward`` between the inputs and the gradients is given these results. TCError
    where the count does not fit.

    What is derived, and a pair of two definitions, is one operator with its derivative, and stays
    one in exported and traced modules, which train like this function.
    """
    run = _derived(forward) if backward is None else _paired(forward, backward)
    return Differentiable(forward, backward, run)


@described(
    lambda function: function._parts[0].__doc__,
    lambda function: without_outputs(inspect.signature(function._parts[0])),
)
class Differentiable:
    """What ``make_autograd`` returns. It is pickled as the functions that it was made of."""

    def __init__(
        self,
        forward: Callable[..., Any],
        backward: Callable[..., Any] | None,
        run: Callable[..., Any],
    ) -> None:
        self._parts = (forward, backward)
        self._run = run
        self.__name__ = name_of(forward)

    def __call__(self, /, *inputs: Any, **named: Any) -> torch.Tensor:
        """A tensor; where there are several results, a tuple of them."""
        try:
            if named:
                inputs = self._arrange(inputs, named)
            results: torch.Tensor = self._run(*inputs)
            return results
        except BaseException as error:
            forget_locals(error)
            del self, inputs, named  # a traceback that is kept shall not hold them
            raise

    def _arrange(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        forward = self._parts[0]
        if not isinstance(forward, Operator):
            return arrange_for(forward, inputs, named)
        if "outputs" in named and "outputs" not in forward.parameters.names:
            raise TCError(
                f"{self.__name__} has derivatives, and returns its results: call it without "
                f"outputs="
            )
        return forward.parameters.arrange(inputs, named)

    def __reduce__(self) -> tuple[Any, ...]:
        return make_autograd, self._parts

    def __repr__(self) -> str:
        return f"<differentiable {self.__name__}>"


def _traced_differentiate() -> Callable[..., Any]:
    from tensor_comprehensions import _traced

    return _traced.differentiate


def _derived(forward: Callable[..., Any]) -> Callable[..., Any]:
    if not isinstance(forward, Operator):
        raise TCError(
            f"make_autograd derives the derivative of a definition, as T.f of T = define(...); "
            f"{name_of(forward)} is none: pass backward, the function that computes the gradients "
            f"from the inputs and the outputs' gradients"
        )
    # Not the operator: a frame of a traceback that is kept holds its function.
    registration = forward.registration

    def run(*inputs: object) -> object:
        # What happens inside is for autograd, not for Dynamo, which sees one operation.
        if _is_traced():
            return _traced_differentiate()(registration.name, *inputs)
        return registration.handle().differentiate(*inputs)

    return run


def _paired(forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    if isinstance(forward, Operator) and isinstance(backward, Operator):
        pair = Pair.of(forward, backward)
        if pair is not None:
            return pair.function
    return join(forward, backward)
