"""Sizes and checks of a definition without data: what fake and meta tensors need."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import islice
from types import CodeType
from typing import Any

import torch
from torch._prims_common import suggest_memory_format

from tensor_comprehensions import _torch
from tensor_comprehensions._errors import ShapeError
from tensor_comprehensions._parameters import plural

# Size names may begin with a digit or be words of Python's, so each gets a prefix there; words in
# front of a parenthesis are functions.
_NAME = re.compile(r"\b(?!\d+\b)(\w+)\b(?!\()")
_FUNCTIONS = {
    "__builtins__": {},
    "min": torch.sym_min,
    "max": torch.sym_max,
    "select": lambda condition, a, b: a if condition else b,
}


def _python(expression: str) -> str:
    return _NAME.sub(r"size_\1", expression)


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class Shapes:
    """Checks inputs against a signature and computes the sizes of the results.

    Sizes may be symbolic: those that must agree become conditions on the symbols. That no read
    leaves its tensor is seen where they are numbers.
    """

    def __init__(self, definition: _torch.Definition) -> None:
        self._definition = definition
        self._inputs = list(definition.inputs)
        self._outputs = list(definition.outputs)
        self._dimensions = [
            [definition.input_dimension(k, d) for d in range(info.ndim)]
            for k, info in enumerate(self._inputs)
        ]
        self._by_scalars: dict[tuple[Any, ...], tuple[list[Any], list[Any]]] = {}
        self._infer = lru_cache(64)(self._infer_sizes)

    def _symbolic(self, scalars: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
        """Sizes of results, and conditions with what to say where they do not hold, as code."""
        if scalars not in self._by_scalars:
            definition = self._definition

            def code(expression: str) -> CodeType:
                return compile(_python(expression), "<size>", "eval")

            self._by_scalars[scalars] = (
                [
                    [code(definition.size_expression(scalars, k, d)) for d in range(info.ndim)]
                    for k, info in enumerate(self._outputs)
                ],
                [
                    (code(found), code(wanted), message)
                    for found, wanted, message in definition.size_conditions(scalars)
                ],
            )
        return self._by_scalars[scalars]

    def _infer_sizes(self, scalars: tuple[Any, ...], shapes: tuple[Any, ...]) -> list[list[int]]:
        sizes = iter(self._definition.infer_sizes(scalars, shapes))
        return [list(islice(sizes, info.ndim)) for info in self._outputs]

    def _equal(self, a: Any, b: Any, message: Callable[[], str]) -> None:
        if isinstance(a, int) and isinstance(b, int):
            if a != b:
                raise ShapeError(message())
        else:
            torch._check(a == b, message)

    def _bind(self, inputs: tuple[Any, ...]) -> tuple[dict[str, object], torch.device]:
        sizes: dict[str, Any] = {}
        first: dict[str, str] = {}
        device, on_device = None, ""
        for info, names, value in zip(self._inputs, self._dimensions, inputs, strict=True):
            if info.is_scalar:
                continue
            if value.dtype != info.dtype:
                raise ShapeError(
                    f"argument {info.name}: expected dtype {dtype_name(info.dtype)} but got "
                    f"{dtype_name(value.dtype)}; convert it, or change its type in the text"
                )
            if value.dim() != info.ndim:
                raise ShapeError(
                    f"argument {info.name}: expected {plural(info.ndim, 'dimension')} "
                    f"({', '.join(names)}) but got {value.dim()}, sizes {tuple(value.shape)}"
                )
            if device is None:
                device, on_device = value.device, info.name
            elif value.device != device:
                raise ShapeError(
                    f"argument {info.name}: expected device {device} (that of {on_device}) but "
                    f"got {value.device}; move one of them"
                )
            for d, (name, size) in enumerate(zip(names, value.shape, strict=True)):
                if name.isdigit():
                    self._equal(
                        size,
                        int(name),
                        partial(
                            "argument {}: Constant dimension expected size {} for dimension {} but "
                            "found {}".format,
                            info.name,
                            name,
                            d,
                            size,
                        ),
                    )
                elif name in sizes:
                    self._equal(
                        size,
                        sizes[name],
                        partial(
                            "Mismatched sizes for dimension {} of argument {}: {} is {} ({}) but "
                            "found {}".format,
                            d,
                            info.name,
                            name,
                            sizes[name],
                            first[name],
                            size,
                        ),
                    )
                else:
                    sizes[name] = size
                    first[name] = f"dimension {d} of {info.name}"
        return sizes, device if device is not None else torch.device("cpu")

    def __call__(self, inputs: tuple[Any, ...]) -> tuple[list[list[Any]], torch.device]:
        """Sizes of every result and the device of all of them. ShapeError as a call raises it."""
        inputs = inputs[: len(self._inputs)]
        sizes, device = self._bind(inputs)
        # Specialised ones take part with their values.
        scalars = tuple(
            int(value) if info.is_specialized else 0
            for info, value in zip(self._inputs, inputs, strict=True)
        )
        shapes = tuple(
            () if info.is_scalar else tuple(value.shape)
            for info, value in zip(self._inputs, inputs, strict=True)
        )
        if all(isinstance(size, int) for shape in shapes for size in shape):
            return self._infer(scalars, shapes), device
        names = {f"size_{name}": size for name, size in sizes.items()}
        expressions, conditions = self._symbolic(scalars)
        for found, wanted, message in conditions:
            self._equal(
                eval(found, _FUNCTIONS, names),
                eval(wanted, _FUNCTIONS, names),
                partial(str, message),
            )
        return [[eval(code, _FUNCTIONS, names) for code in sizes] for sizes in expressions], device

    def check_output(self, info: _torch.ArgumentInfo, sizes: list[Any], given: Any) -> None:
        """ShapeError where a given output has no such sizes."""
        for size, found in zip(sizes, given, strict=True):
            self._equal(
                found,
                size,
                partial(
                    "output {}: expected sizes {} but got {}".format,
                    info.name,
                    tuple(sizes),
                    tuple(given),
                ),
            )

    def empty(self, inputs: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
        """Results of the right sizes, dtypes and device with no contents of their own."""
        results, device = self(inputs)
        return tuple(
            torch.empty(
                size,
                dtype=info.dtype,
                device=device,
                memory_format=suggest_memory_format(inputs[info.follows])
                if info.follows >= 0
                else torch.contiguous_format,
            )
            for size, info in zip(results, self._outputs, strict=True)
        )


def make_fake(definition: _torch.Definition) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What torch.library.register_fake takes, for the operator and its overload ``out``."""
    shapes = Shapes(definition)

    def fake(*inputs: object) -> object:
        results = shapes.empty(inputs)
        return results[0] if len(results) == 1 else results

    def fake_out(*inputs: object, **outputs: torch.Tensor) -> None:
        expected, device = shapes(inputs)
        for info, sizes, output in zip(definition.outputs, expected, outputs.values(), strict=True):
            if output.device != device:
                raise ShapeError(
                    f"output {info.name}: expected device {device} but got {output.device}"
                )
            if output.dtype != info.dtype or output.dim() != info.ndim:
                raise ShapeError(
                    f"output {info.name}: expected sizes {tuple(sizes)} and dtype "
                    f"{dtype_name(info.dtype)} but got {tuple(output.shape)} and "
                    f"{dtype_name(output.dtype)}"
                )
            shapes.check_output(info, sizes, output.shape)

    return fake, fake_out
