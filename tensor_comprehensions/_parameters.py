"""Parameters of a definition by their names: keyword arguments, signatures, help."""

from __future__ import annotations

import difflib
import inspect
import keyword
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeVar

import torch

from tensor_comprehensions import _torch
from tensor_comprehensions._errors import ShapeError, TCError

Class = TypeVar("Class")

_TYPES = {
    torch.float16: "half",
    torch.float32: "float",
    torch.float64: "double",
    torch.int32: "int",
}
#: What a call takes beside the inputs: a parameter of that name is passed by its place.
OWN_WORDS = ("outputs", "unchecked")
#: The same of ``compile`` and ``explain``.
COMPILE_WORDS = ("options", "target")


def plural(count: int, noun: str) -> str:
    """``1 input``, ``2 inputs``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def sizes_text(inputs: Iterable[Any]) -> str:
    """``(3, 4), 5``: the sizes of tensors, and other values."""
    return ", ".join(str(tuple(x.shape)) if isinstance(x, torch.Tensor) else str(x) for x in inputs)


def suggest(name: str, known: Iterable[str]) -> str:
    """``; did you mean X?`` for the closest in spelling, or nothing where none is close."""
    if torch.compiler.is_dynamo_compiling():
        return ""  # which cannot look into difflib
    folded: dict[str, str] = {}
    for each in known:
        folded.setdefault(each.casefold(), each)
    close = difflib.get_close_matches(name.casefold(), folded, n=1)
    return f"; did you mean {folded[close[0]]}?" if close else ""


class Parameters:
    """The inputs of a function, which a call passes by their places or by their names."""

    def __init__(self, function: str, names: Iterable[str]) -> None:
        self.function = function
        self.names = list(names)

    @classmethod
    def of(cls, definition: _torch.Definition) -> Parameters:
        return cls(definition.name, (info.name for info in definition.inputs))

    def arrange(
        self, inputs: tuple[Any, ...], named: dict[str, Any], words: Sequence[str] = OWN_WORDS
    ) -> tuple[Any, ...]:
        """All inputs in order, from those in order and those by name; ``words`` are what the call
        takes by name for itself. ShapeError."""
        values = list(inputs)
        for name in self.names[len(inputs) :]:
            if name not in named:
                self._refuse(len(inputs), list(named), words)
            values.append(named[name])
        if len(inputs) + len(named) != len(self.names):
            self._refuse(len(inputs), list(named), words)
        return tuple(values)

    def count_error(self, count: int, words: Sequence[str] = OWN_WORDS) -> ShapeError:
        """What to say where so many inputs were passed by their places alone."""
        return self._count_error(count, self.names[count:], words)

    def _count_error(self, count: int, missing: Sequence[str], words: Sequence[str]) -> ShapeError:
        said = f"{self.function} expected {plural(len(self.names), 'input')} but found {count}"
        if count > len(self.names) > 0:
            said += f": it takes {', '.join(self.names)}"
        if missing:
            said += f": {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        for name in words:
            if name in missing:
                said += f"; {name}= is a word of the call, so pass this parameter by its place"
        return ShapeError(said)

    def _refuse(self, count: int, named: Sequence[str], words: Sequence[str]) -> NoReturn:
        for name in named:
            if name not in self.names:
                raise ShapeError(
                    f"{self.function} has no parameter {name}; it has "
                    f"{', '.join(self.names) or 'none'}{suggest(name, self.names)}"
                )
        for name in self.names[:count]:
            if name in named:
                raise ShapeError(
                    f"{self.function} got two values for {name}: by its place and by its name"
                )
        missing = [name for name in self.names[count:] if name not in named]
        raise self._count_error(count + len(named), missing, words)


def arrange_for(
    function: Callable[..., Any], inputs: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, ...]:
    """The same for any function: what it takes by name, by place. TCError where it cannot."""
    try:
        bound = inspect.signature(function).bind(*inputs, **named)
    except (TypeError, ValueError) as error:
        raise TCError(f"{getattr(function, '__name__', function)}: {error}") from error
    bound.apply_defaults()
    if bound.kwargs:
        raise TCError(
            f"{getattr(function, '__name__', function)} takes {', '.join(bound.kwargs)} by name "
            f"only, which a differentiable function cannot pass on"
        )
    return bound.args


# ---- signatures and help


class _Shown(str):
    """An annotation that is shown as it is, without quotes."""

    __slots__ = ()

    __repr__ = str.__str__


class _OfInstances:
    """An attribute that is made when it is asked for, and that the class has one of its own for."""

    def __init__(self, make: Callable[[Any], Any], of_class: str | None = None) -> None:
        self._make = make
        self._of_class = of_class

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is not None and not torch.compiler.is_dynamo_compiling():
            return self._make(instance)
        if self._of_class is None:
            raise AttributeError
        return self._of_class


def described(
    document: Callable[[Any], str | None], signature: Callable[[Any], inspect.Signature]
) -> Callable[[type[Class]], type[Class]]:
    """A class whose instances have a ``__doc__`` and a ``__signature__`` of their own.

    They are made when they are asked for: sizes of results take a millisecond.
    """

    def describe(described: type[Class]) -> type[Class]:
        of_instances = _OfInstances(document, described.__doc__)
        described.__doc__ = of_instances  # type: ignore[assignment]
        described.__signature__ = _OfInstances(signature)  # type: ignore[attr-defined]
        return described

    return describe


def declared(info: _torch.ArgumentInfo, sizes: Sequence[object]) -> str:
    """A type with sizes, as a text has it."""
    name = _TYPES.get(info.dtype, str(info.dtype).removeprefix("torch."))
    return f"{name}({', '.join(map(str, sizes))})" if sizes else name


def _without_parentheses(expression: str) -> str:
    """Without those around the whole."""
    depth = 0
    for k, letter in enumerate(expression):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return expression[1:-1] if 0 < k == len(expression) - 1 else expression
    return expression


def _size_of_result(definition: _torch.Definition, output: int, dimension: int) -> str:
    """As an expression of the sizes of the inputs; ``...`` where scalars decide as well."""
    found = set()
    for value in (1, 2) if any(info.is_specialized for info in definition.inputs) else (1,):
        try:
            scalars = [value] * len(definition.inputs)
            found.add(definition.size_expression(scalars, output, dimension))
        except TCError:  # what the text does not allow for these values
            return "..."
    return _without_parentheses(found.pop()) if len(found) == 1 else "..."


def input_types(definition: _torch.Definition) -> list[str]:
    """The type of every input, as ``float(M, K)``."""
    return [
        declared(info, [definition.input_dimension(k, d) for d in range(info.ndim)])
        for k, info in enumerate(definition.inputs)
    ]


def output_types(definition: _torch.Definition) -> list[str]:
    """The type of every result with its name, as ``float(M, N) C``."""
    return [
        f"{declared(info, [_size_of_result(definition, k, d) for d in range(info.ndim)])} "
        f"{info.name}"
        for k, info in enumerate(definition.outputs)
    ]


def _can_be_named(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and name not in OWN_WORDS


def signature(
    definition: _torch.Definition, inputs: Sequence[str], outputs: Sequence[str]
) -> inspect.Signature:
    """What calls take, with these types: ``(A: float(M, K), *, outputs=None, ...)``.

    What Python does not accept as a name of an argument (``in``, ``1x``), or a call takes for
    itself, is passed by its place, and so, says the signature, is what stands in front of it.
    """
    names = [info.name for info in definition.inputs]
    placed = max((k + 1 for k, name in enumerate(names) if not _can_be_named(name)), default=0)
    parameters: list[inspect.Parameter] = []
    for k, (name, text) in enumerate(zip(names, inputs, strict=True)):
        kind: inspect._ParameterKind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        if k < placed:
            kind = inspect.Parameter.POSITIONAL_ONLY
        taken = [*names, *(parameter.name for parameter in parameters)]
        shown = name if name.isidentifier() else _torch.mangle(name, taken, "arg")
        parameters.append(inspect.Parameter(shown, kind, annotation=_Shown(text)))
    needs_outputs = any(info.accumulates for info in definition.outputs)
    for name, default in (
        ("outputs", inspect.Parameter.empty if needs_outputs else None),
        ("unchecked", False),
    ):
        if name not in names:  # a signature has no two of one name
            parameters.append(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            )
    returned = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
    return inspect.Signature(parameters, return_annotation=_Shown(returned))


def without_outputs(found: inspect.Signature) -> inspect.Signature:
    """What a function takes that passes no more than inputs on."""
    return found.replace(
        parameters=[
            parameter
            for parameter in found.parameters.values()
            if parameter.kind != inspect.Parameter.KEYWORD_ONLY
        ]
    )


def document(definition: _torch.Definition, inputs: Sequence[str], outputs: Sequence[str]) -> str:
    """The text, and under it what a call takes and returns."""
    names = [info.name for info in definition.inputs]
    takes = [f"{text} {name}" for text, name in zip(inputs, names, strict=True)]
    accumulating = [info.name for info in definition.outputs if info.accumulates]
    lines = [
        definition.text.rstrip(),
        "",
        f"Takes {', '.join(takes) or 'nothing'}, by their places or by their names.",
        f"Returns {', '.join(outputs)}{' as a tuple' if len(outputs) > 1 else ''}.",
    ]
    if accumulating:
        lines.append(
            f"outputs= must be given, since the initial contents of {', '.join(accumulating)} "
            f"are read."
        )
    else:
        lines.append("outputs=, a tensor or a sequence of them, is written where it is given.")
    return "\n".join(lines)
