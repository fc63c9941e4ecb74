"""Derivatives of definitions, found by the core."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import torch
from torch.autograd import forward_ad

from tensor_comprehensions import _torch
from tensor_comprehensions._define import parse, undefined
from tensor_comprehensions._errors import TCError
from tensor_comprehensions._operator import Operator


def _integer(name: str, value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        raise TCError(f"{name}={value!r}: a scalar that decides sizes is an integer") from None


def _values(definition: _torch.Definition, scalars: dict[str, int]) -> list[int]:
    """A value for every input, of which those of scalars that decide sizes matter."""
    values = []
    for info in definition.inputs:
        if info.is_specialized and info.name not in scalars:
            raise TCError(
                f"the sizes of {definition.name} depend on the value of scalar {info.name}, and so "
                f"does its derivative; pass it, as in {info.name}=1"
            )
        values.append(_integer(info.name, scalars.get(info.name, 0)))
    return values


def grad_source(source: str, /, entry_point: str | None = None, **scalars: int) -> str:
    """The text of the derivative of every definition of a text, or of one of them.

    The derivative of ``f`` is ``f_grad``. Its parameters are the inputs of ``f``, then those of its
    results whose values the derivative is made of, under their own names, then ``d_R`` for each
    result ``R``. It returns ``d_X`` for each floating-point input ``X`` that reaches a result. A
    result without dimensions is passed as a tensor of one element, and so is its gradient. Other
    values of the forward computation are computed again. ``scalars`` gives values to integer
    scalars that decide sizes. ``make_autograd(T.f, G.f_grad)`` joins both definitions.

    LanguageError names what has no derivative.
    """
    definitions = parse(source).definitions
    if entry_point is not None:
        known = [definition.name for definition in definitions]
        if entry_point not in known:
            raise TCError(undefined(entry_point, known))
        definitions = [d for d in definitions if d.name == entry_point]
    texts = [
        d.gradient_text(_values(d, scalars), [True] * len(d.inputs), [True] * len(d.outputs))
        for d in definitions
    ]
    return _torch.format("\n".join(texts)) if any(texts) else ""


def may_carry_tangents() -> bool:
    return (
        forward_ad._current_level >= 0 or torch._C._functorch.peek_interpreter_stack() is not None
    )


def records(inputs: Sequence[object]) -> bool:
    """Whether a call leaves a trace for derivatives; without, a Function only costs time."""
    return may_carry_tangents() or (
        torch.is_grad_enabled()
        and any(isinstance(value, torch.Tensor) and value.requires_grad for value in inputs)
    )


def is_autocast(value: Any) -> bool:
    """Whether autocast is on where a tensor lies, and converts ones of its type."""
    return (
        isinstance(value, torch.Tensor)
        and torch.is_autocast_enabled(value.device.type)
        and value.dtype in (torch.float16, torch.bfloat16, torch.float32)
    )


def cast_for_autocast(operator: Operator, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the operator's own rule for autocast would make of its inputs.

    A backward that is a Python function runs outside of autocast on what the forward saved, which
    must have these types.
    """
    if not torch.is_autocast_enabled("cpu") and not torch.is_autocast_enabled("cuda"):
        return inputs
    cast = []
    for info, value in zip(operator.definition.inputs, inputs, strict=False):
        takes = info.dtype.is_floating_point and not info.is_scalar
        cast.append(value.to(info.dtype) if takes and is_autocast(value) else value)
    return (*cast, *inputs[len(cast) :])
