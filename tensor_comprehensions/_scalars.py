"""Scalars of a signature whose values are no numbers yet: tensors and symbols of graphs."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

import torch
from torch._C import _TorchDispatchModeKey as ModeKey
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.autograd import forward_ad

from tensor_comprehensions._errors import ShapeError

if TYPE_CHECKING:
    from tensor_comprehensions import _torch
    from tensor_comprehensions._operator import Operator


def _without_numpy(value: Any) -> Any:
    """A number or an array without dimensions of NumPy as Python's number."""
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


def _expected(info: _torch.ArgumentInfo, value: Any) -> str | None:
    """What the scalar should have been; None where the value is good."""
    if isinstance(value, torch.Tensor):
        if value.dim() != 0:
            return "a number or a 0-d tensor"
        integral = not value.is_floating_point() and not value.is_complex()
    else:
        value = _without_numpy(value)
        integral = hasattr(value, "__index__") and not isinstance(value, torch.SymFloat)
        if getattr(value, "shape", ()) != () or not (integral or hasattr(value, "__float__")):
            return "a number or a 0-d tensor"
    if not info.dtype.is_floating_point and not integral:
        return "an integer"
    number = value
    if isinstance(value, torch.Tensor) and value.dtype == torch.uint64 and value.is_cpu:
        number = value.item()
    if isinstance(number, int) and not -(2**63) <= number < 2**63:
        return "a number that fits int64"
    return None


def explain_scalar(info: _torch.ArgumentInfo, value: object) -> ShapeError | None:
    """What is wrong with the value of a scalar; None where it is good."""
    expected, got = _expected(info, value), type(value).__name__
    if expected is None:
        return None
    if isinstance(value, torch.Tensor):
        got = f"a tensor of sizes {tuple(value.shape)} and dtype {value.dtype}"
    elif isinstance(value, (int, float)):
        got = str(value)
    return ShapeError(f"argument {info.name}: expected {expected} but got {got}")


def number_of(info: _torch.ArgumentInfo, value: Any) -> bool | int | float:
    """The value of a scalar as Python's number. ShapeError where it is none of its type."""
    if (wrong := explain_scalar(info, value)) is not None:
        raise wrong
    found = value.item() if isinstance(value, torch.Tensor) else _without_numpy(value)
    if isinstance(found, (int, float)):
        return found
    return index(found) if hasattr(found, "__index__") else float(found)


def is_traced() -> bool:
    """Whether torch.jit.trace looks on."""
    return torch._C._get_tracing_state() is not None


def _is_graph_made() -> bool:
    return is_traced() or any(
        torch._C._get_dispatch_mode(key) is not None for key in (ModeKey.PROXY, ModeKey.FAKE)
    )


def _has_value(value: torch.Tensor) -> bool:
    """Whether PyTorch may take the number out of a tensor: not where a graph is made, where it
    would be a constant, and not where it is one of a batch, or differentiated."""
    return (
        type(value) in (torch.Tensor, torch.nn.Parameter)
        and not value.is_meta
        and not (torch.is_grad_enabled() and value.requires_grad)
        and forward_ad._current_level < 0
        and not is_functorch_wrapped_tensor(value)
        and not _is_graph_made()
    )


def _must_be_tensor(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return value.dim() == 0 and not _has_value(value)
    return isinstance(value, (torch.SymFloat, torch.SymInt))


def as_tensors(
    operator: Operator, inputs: tuple[Any, ...]
) -> tuple[Operator, tuple[Any, ...]] | None:
    """The definition with scalars as tensors of one element, and its inputs; None where all
    scalars are numbers, or tensors that hold one.

    ShapeError where a scalar decides sizes, or is none of its type.
    """
    infos = operator.definition.inputs
    if not any(info.is_scalar for info in infos) or len(inputs) != len(infos):
        return None
    flags = [
        info.is_scalar and _must_be_tensor(value) for info, value in zip(infos, inputs, strict=True)
    ]
    device = next(
        (
            value.device
            for info, value in zip(infos, inputs, strict=True)
            if not info.is_scalar and isinstance(value, torch.Tensor)
        ),
        None,
    )
    values = list(inputs)
    for k, info in enumerate(infos):
        value = inputs[k]
        if not flags[k]:
            continue
        if info.is_specialized:
            flags[k] = False
            if isinstance(value, torch.Tensor):
                raise ShapeError(
                    f"argument {info.name}: scalar {info.name} of {operator.__name__} decides "
                    f"sizes or subscripts, so its value must be known where a graph is made, and "
                    f"is the same for a whole batch; pass a number"
                )
            continue
        values[k] = _as_vector(operator, k, value, device)
    if not any(flags):
        return None
    return operator.with_tensors(tuple(flags)), tuple(values)


def _as_tensor(value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    dtype = torch.float64 if isinstance(value, torch.SymFloat) else torch.int64
    # A product, which compilers leave to the value of each call.
    product: torch.Tensor = torch.ones((), dtype=dtype) * value
    return product


def _as_vector(
    operator: Operator, place: int, number: Any, device: torch.device | None
) -> torch.Tensor:
    info, value = operator.definition.inputs[place], _as_tensor(number)
    if not info.dtype.is_floating_point and (value.is_floating_point() or value.is_complex()):
        raise ShapeError(
            f"argument {info.name}: expected an integer but got a tensor of sizes "
            f"{tuple(value.shape)} and dtype {value.dtype}"
        )
    return value.to(value.device if device is None else device, info.dtype).reshape(1)
