"""Differentiable functions from a pair of definitions."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tensor_comprehensions._errors import TCError


def make_autograd(forward: Callable, backward: Callable | None = None) -> Callable:
    """A function of tensors whose derivative is another function.

    ``backward`` is called with all inputs of ``forward``, then one contiguous gradient for each of
    its outputs. It returns one gradient for each input that is a floating-point tensor, in order,
    as a tensor or a tuple; None where there is none. Both may be definitions (``T.f``) or any
    callables made of them.
    """
    if backward is None:
        raise TCError(
            "make_autograd needs a backward definition in this version: pass the function that "
            "computes the gradients from the inputs and the outputs' gradients"
        )

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, *inputs: object) -> object:
            ctx.set_materialize_grads(True)
            ctx.scalars = [None if isinstance(x, torch.Tensor) else x for x in inputs]
            ctx.save_for_backward(*(x for x in inputs if isinstance(x, torch.Tensor)))
            return forward(*inputs)

        @staticmethod
        def backward(ctx: object, *gradients: torch.Tensor) -> tuple:
            tensors = iter(ctx.saved_tensors)
            inputs = [next(tensors) if x is None else x for x in ctx.scalars]
            results = backward(*inputs, *(g.contiguous() for g in gradients))
            results = list(results) if isinstance(results, (tuple, list)) else [results]
            wanted = [isinstance(x, torch.Tensor) and x.is_floating_point() for x in inputs]
            if len(results) != sum(wanted):
                raise TCError(
                    f"the backward of {getattr(forward, '__name__', 'forward')} returned "
                    f"{len(results)} gradients but {sum(wanted)} inputs are floating-point tensors"
                )
            gradient = iter(results)
            return tuple(next(gradient) if w else None for w in wanted)

    def differentiable(*inputs: object) -> object:
        return Function.apply(*inputs)

    differentiable.__name__ = getattr(forward, "__name__", "differentiable")
    differentiable.__doc__ = getattr(forward, "__doc__", None)
    return differentiable
