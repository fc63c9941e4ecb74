"""Modules made of texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from operator import index

import torch

from tensor_comprehensions import _torch
from tensor_comprehensions._autograd import make_autograd
from tensor_comprehensions._define import define, undefined
from tensor_comprehensions._errors import TCError
from tensor_comprehensions._parameters import Parameters

#: What Lambda takes by name beside sizes and scalars.
_OWN_WORDS = ("text", "inputs", "initialize", "entry_point", "options", "namespace", "device")


def _size(name: str, value: object) -> int:
    try:
        size = index(value)  # type: ignore[arg-type]
    except TypeError:
        size = -1
    if size < 0:
        raise TCError(f"{name}={value!r}: a size is an integer, and 0 at least")
    return size


class Lambda(torch.nn.Module):
    """A layer that a text defines.

    ``sizes`` gives values to size names and scalars of the signature. A tensor whose sizes are all
    known then, or constants in the text, is a parameter of the module, under its own name; the
    others are the inputs of ``forward``, in order, with the scalars that have no value. ``inputs``
    names these tensors where that rule does not fit, as for a batch of a fixed size.

        Lambda("def linear(float(B,I) x, float(O,I) w, float(O) b) -> (y) { ... }", I=64, O=10)

    Parameters of two and more dimensions begin as those of ``torch.nn.Linear``, uniform up to the
    inverse root of the number of elements behind the first dimension, and others at zero;
    ``initialize`` has a function for each that shall begin otherwise, called with the tensor.
    Integer tensors with known sizes are buffers, and begin at zero too. ``entry_point`` chooses
    among several definitions, ``options`` and ``namespace`` are those of ``define``.

    TCError names a size, tensor or function that does not fit the signature.
    """

    def __init__(
        self,
        text: str,
        *,
        inputs: tuple[str, ...] | None = None,
        initialize: Mapping[str, Callable[[torch.Tensor], object]] | None = None,
        entry_point: str | None = None,
        options: object = None,
        namespace: str = "tc",
        device: torch.device | str | None = None,
        **sizes: float,
    ) -> None:
        super().__init__()
        definitions = define(text, options, namespace=namespace)
        operators = definitions._operators
        if entry_point is None:
            if len(operators) > 1:
                raise TCError(
                    f"the text has several definitions, {', '.join(operators)}; choose one by "
                    f"entry_point="
                )
            entry_point = next(iter(operators))
        elif entry_point not in operators:
            raise TCError(undefined(entry_point, operators))
        definition = operators[entry_point].definition
        self._function = make_autograd(operators[entry_point])
        self._names = [info.name for info in definition.inputs]
        self._initialize = dict(initialize or {})
        self._constants: dict[str, float] = {}
        shapes = {
            info.name: [definition.input_dimension(k, d) for d in range(info.ndim)]
            for k, info in enumerate(definition.inputs)
            if not info.is_scalar
        }
        self._check(entry_point, definition, shapes, sizes, inputs)
        self.input_names: list[str] = []  #: what ``forward`` takes, in order
        for info in definition.inputs:
            if info.is_scalar:
                if info.name in sizes:
                    self._constants[info.name] = sizes[info.name]
                else:
                    self.input_names.append(info.name)
                continue
            shape = [
                int(s) if s.isdigit() else _size(s, sizes[s]) if s in sizes else None
                for s in shapes[info.name]
            ]
            known = all(size is not None for size in shape)
            if info.name in inputs if inputs is not None else not known:
                self.input_names.append(info.name)
                continue
            if not known:
                missing = [s for s, size in zip(shapes[info.name], shape) if size is None]
                way_out = f"pass {missing[0]}="
                if missing[0] in _OWN_WORDS:
                    way_out = f"{missing[0]}= is a word of Lambda, so rename it in the text"
                raise TCError(
                    f"{info.name} of {entry_point} is no input, but its size {missing[0]} has no "
                    f"value; {way_out}"
                )
            if hasattr(self, info.name):
                raise TCError(
                    f"{info.name} of {entry_point} cannot be a parameter: every module has an "
                    f"attribute of that name; rename it in the text"
                )
            value = torch.zeros(
                [size for size in shape if size is not None], dtype=info.dtype, device=device
            )
            if info.dtype.is_floating_point:
                self.register_parameter(info.name, torch.nn.Parameter(value))
            else:
                self.register_buffer(info.name, value)
        for name in self._initialize:
            if name not in dict(self.named_parameters()) and name not in dict(self.named_buffers()):
                raise TCError(f"initialize has a function for {name}, which is no parameter")
        self.reset_parameters()

    @staticmethod
    def _check(
        name: str,
        definition: _torch.Definition,
        shapes: dict[str, list[str]],
        sizes: dict[str, float],
        inputs: tuple[str, ...] | None,
    ) -> None:
        scalars = {info.name for info in definition.inputs if info.is_scalar}
        known = {s for shape in shapes.values() for s in shape if not s.isdigit()} | scalars
        for size in sizes:
            if size not in known:
                raise TCError(
                    f"{size} is no size or scalar of {name}, which has {', '.join(sorted(known))}"
                )
        for tensor in inputs or ():
            if tensor not in shapes:
                raise TCError(
                    f"{tensor} is no tensor in the signature of {name}, which has "
                    f"{', '.join(shapes)}"
                )

    def reset_parameters(self) -> None:
        """Gives all parameters the values that they begin with."""
        with torch.no_grad():
            for name, value in [*self.named_parameters(), *self.named_buffers()]:
                if name in self._initialize:
                    self._initialize[name](value)
                elif value.dim() > 1 and value.is_floating_point() and value.numel() > 0:
                    bound = 1 / math.sqrt(value[0].numel())
                    value.uniform_(-bound, bound)
                else:
                    value.zero_()

    def forward(self, /, *inputs: object, **named: object) -> torch.Tensor:
        if named or len(inputs) != len(self.input_names):
            parameters = Parameters(self._function.__name__, self.input_names)
            inputs = parameters.arrange(inputs, named)
        given = dict(zip(self.input_names, inputs, strict=True))
        return self._function(
            *(
                given[name]
                if name in given
                else self._constants[name]
                if name in self._constants
                else getattr(self, name)
                for name in self._names
            )
        )

    def extra_repr(self) -> str:
        own = [f"{n}={tuple(v.shape)}" for n, v in self.named_parameters()]
        own += [f"{n}={tuple(v.shape)}" for n, v in self.named_buffers()]
        own += [f"{n}={v}" for n, v in self._constants.items()]
        return f"{self._function.__name__}({', '.join(self.input_names)}); {', '.join(own)}"
