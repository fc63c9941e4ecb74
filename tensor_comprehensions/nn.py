"""Modules made of texts."""

from __future__ import annotations

import math
import numbers
import pickle
from collections.abc import Callable, Mapping
from keyword import iskeyword
from operator import index
from typing import Any

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


_NAMES = "_forward_names"


#: Classes by what they are derived from and the parameters of their ``forward``.
_CLASSES: dict[tuple[type[torch.nn.Module], tuple[str, ...]], type[Lambda]] = {}


def _with_forward(written: type[Lambda], names: tuple[str, ...]) -> type[Lambda]:
    """The class with a ``forward`` of these parameters.

    ``torch.fx`` and ``torch.export`` look at that of the class for what a module takes.
    """
    known = _CLASSES.get((written, names))
    if known is not None:
        return known
    parameters = ", ".join(("self", *names))
    arguments = ", ".join(names)
    text = f"def forward({parameters}):\n    return self._apply_to({arguments})\n"
    made: dict[str, Any] = {}
    exec(compile(text, "<tensor_comprehensions.nn.Lambda>", "exec"), made)
    forward = made["forward"]
    forward.__doc__ = written.forward.__doc__
    forward.__module__ = written.__module__
    forward.__qualname__ = f"{written.__qualname__}.forward"
    own = {
        "forward": forward,
        _NAMES: names,
        "__doc__": written.__doc__,
        "__module__": written.__module__,
        "__qualname__": written.__qualname__,
    }
    return _CLASSES.setdefault((written, names), type(written.__name__, (written,), own))


def _named(written: type[Lambda], names: tuple[str, ...]) -> type[Lambda]:
    """The class of a layer; without a ``forward`` of its own where the names are none of Python, or
    where a derived class has one."""
    usable = all(n.isidentifier() and not iskeyword(n) and n != "self" for n in names)
    return (
        _with_forward(written, names) if usable and written.forward is Lambda.forward else written
    )


def _empty(written: type[Lambda], names: tuple[str, ...] | None) -> Lambda:
    """What a layer is unpickled into."""
    made = _named(written, names) if names is not None else written
    return made.__new__(made)


class _Initial:
    """A function that a parameter begins with.

    Pickled without it where it has no name to be pickled by, as a ``lambda``: a module that is
    loaded has its values, and may never begin anew.
    """

    def __init__(self, name: str, function: Callable[[torch.Tensor], object] | None) -> None:
        self.name = name
        self.function = function

    def __call__(self, value: torch.Tensor) -> None:
        if self.function is None:
            raise TCError(
                f"the function that initialize had for {self.name} could not be pickled, and so is "
                f"not here; give {self.name} its values yourself, or pass a function that a module "
                f"has under its name"
            )
        self.function(value)

    def __deepcopy__(self, memo: object) -> _Initial:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        function = self.function
        try:
            pickle.dumps(function)
        except (pickle.PicklingError, AttributeError, TypeError):
            function = None
        return _Initial, (self.name, function)


class Lambda(torch.nn.Module):
    """A layer that a text defines.

    ``sizes`` gives values to size names and scalars of the signature. A tensor whose sizes are all
    known then, or constants in the text, is a parameter of the module, under its own name; the
    others are the inputs of ``forward``, in order, with the scalars that have no value. ``inputs``
    names these tensors where that rule does not fit, as for a batch of a fixed size. A scalar whose
    value is a ``torch.nn.Parameter`` is a parameter too, and any other tensor of no dimensions is a
    buffer.

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
        **sizes: float | torch.Tensor,
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
        self._initialize = {n: _Initial(n, f) for n, f in (initialize or {}).items()}
        self._constants: dict[str, float] = {}
        self._scalars: dict[str, torch.Tensor] = {}  # what those that are tensors begin with
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
                    self._keep_scalar(entry_point, info.name, sizes[info.name])
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
            self._check_free(entry_point, info.name)
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
        self.__class__ = _named(type(self), tuple(self.input_names))
        self.reset_parameters()

    def _keep_scalar(self, function: str, name: str, value: object) -> None:
        """A number is a constant; a tensor is a parameter where it is one, and else a buffer."""
        if isinstance(value, torch.Tensor):
            if value.dim() > 0:
                raise TCError(
                    f"{name} of {function} is a scalar, but {name}= is a tensor of sizes "
                    f"{tuple(value.shape)}; pass a number or a tensor without dimensions"
                )
            self._check_free(function, name)
            if isinstance(value, torch.nn.Parameter):
                self.register_parameter(name, value)
            else:
                self.register_buffer(name, value)
            self._scalars[name] = value.detach().clone()
        elif isinstance(value, (numbers.Real, torch.SymInt, torch.SymFloat, torch.SymBool)):
            self._constants[name] = value  # type: ignore[assignment]
        else:
            raise TCError(
                f"{name} of {function} is a scalar, but {name}={value!r} is of type "
                f"{type(value).__name__}; pass a number or a tensor without dimensions"
            )

    def _check_free(self, function: str, name: str) -> None:
        if hasattr(self, name):
            raise TCError(
                f"{name} of {function} cannot be a parameter: every module has an attribute of "
                f"that name; rename it in the text"
            )

    @staticmethod
    def _check(
        name: str,
        definition: _torch.Definition,
        shapes: dict[str, list[str]],
        sizes: dict[str, float | torch.Tensor],
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
                elif name in self._scalars:
                    value.copy_(self._scalars[name])
                elif value.dim() > 1 and value.is_floating_point() and value.numel() > 0:
                    bound = 1 / math.sqrt(value[0].numel())
                    value.uniform_(-bound, bound)
                else:
                    value.zero_()

    def forward(self, /, *inputs: object, **named: object) -> torch.Tensor:
        """The definition; every layer has a ``forward`` whose parameters are those of its text."""
        if named or len(inputs) != len(self.input_names):
            parameters = Parameters(self._function.__name__, self.input_names)
            inputs = parameters.arrange(inputs, named)
        return self._apply_to(*inputs)

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        if named or len(inputs) != len(self.input_names):  # refused as the definition does it
            parameters = Parameters(self._function.__name__, self.input_names)
            parameters.arrange(inputs, named)
        return super().__call__(*inputs, **named)

    def _apply_to(self, *inputs: object) -> torch.Tensor:
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

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # The class is made anew where the layer arrives; it can be found by no name.
        written = type(self).__bases__[0] if _NAMES in vars(type(self)) else type(self)
        return _empty, (written, vars(type(self)).get(_NAMES)), self.__getstate__()

    def extra_repr(self) -> str:
        own = [f"{n}={tuple(v.shape)}" for n, v in self.named_parameters()]
        own += [f"{n}={tuple(v.shape)}" for n, v in self.named_buffers()]
        own += [f"{n}={v}" for n, v in self._constants.items()]
        return f"{self._function.__name__}({', '.join(self.input_names)}); {', '.join(own)}"
