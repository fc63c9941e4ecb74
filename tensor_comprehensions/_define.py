"""From a text to operators of PyTorch."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import torch

import tensor_comprehensions
from tensor_comprehensions import _torch
from tensor_comprehensions._errors import TCError
from tensor_comprehensions._operator import Operator, Registry, is_identifier
from tensor_comprehensions._options import MappingOptions, to_options

logger = logging.getLogger("tensor_comprehensions")


@functools.lru_cache(maxsize=1024)
def parse(source: str) -> _torch.ParsedText:
    """The checked definitions of a text; warnings are logged once."""
    parsed = _torch.parse(source)
    for message in parsed.warnings:
        logger.warning("%s", message)
    return parsed


def find_definition(source: str, entry_point: str) -> _torch.Definition:
    """A definition of a text by name; TCError that lists the others."""
    definitions = parse(source).definitions
    for definition in definitions:
        if definition.name == entry_point:
            return definition
    known = ", ".join(d.name for d in definitions)
    raise TCError(
        f"attempting to access undefined function {entry_point}; the text defines: {known}"
    )


_registry = Registry()
# Keeps user's factories alive, since operators are told apart by their identity.
_factories: dict[int, Callable] = {}


class TC:
    """The definitions of one text; each is an attribute of its name."""

    def __init__(self, made_of: tuple, operators: dict[str, Operator]) -> None:
        self._made_of = made_of  # arguments of _define_again
        self._operators = operators
        # As attributes they are found without __getattr__. A definition may bear any name: one
        # that this class uses itself is still reached by T("name", ...).
        for name, operator in operators.items():
            if name not in self.__dict__:
                self.__dict__[name] = operator

    def __getattr__(self, name: str) -> Operator:
        raise AttributeError(
            f"attempting to access undefined function {name}; the text defines: "
            f"{', '.join(self.__dict__.get('_operators', ()))}"
        )

    def __call__(self, entry_point: str, *inputs: Any, **keywords: Any) -> Any:
        """T("f", A, B) is T.f(A, B)."""
        operator = self._operators.get(entry_point)
        if operator is None:
            raise TCError(
                f"attempting to access undefined function {entry_point}; the text defines: "
                f"{', '.join(self._operators)}"
            )
        return operator(*inputs, **keywords)

    def __reduce__(self) -> tuple:
        """Pickled and copied as the text: the same text is the same operators."""
        return _define_again, self._made_of

    def __repr__(self) -> str:
        return f"<TC: {', '.join(self._operators)}>"


def _define_again(source: str, options: object, namespace: str) -> TC:
    return define(source, options, namespace=namespace)


def _operator_again(text: str, options: object, namespace: str, public: bool) -> Operator:
    definition = parse(text).definitions[0]
    if not public:
        return make_operator(definition, namespace)
    return define(text, options, namespace=namespace)._operators[definition.name]


def _announce(entry_point: str, inputs: tuple) -> None:
    """The line that a call writes when it has to compile first."""
    if tensor_comprehensions.SILENT or not logger.isEnabledFor(logging.INFO):
        return
    sizes = ", ".join(
        str(tuple(x.shape)) if isinstance(x, torch.Tensor) else str(x) for x in inputs
    )
    logger.info(
        "%s was not explicitly compiled for inputs of sizes: %s; compiling", entry_point, sizes
    )


def _chooser(
    source: str, entry_point: str, options: MappingOptions, factory: Callable | None
) -> Callable:
    """What the core asks for options: once for each set of sizes, strides and dtypes."""

    def choose(*inputs: object) -> _torch.Options:
        _announce(entry_point, inputs)
        if factory is None:
            return options._options
        chosen = factory(source, entry_point, *inputs)
        if not isinstance(chosen, (MappingOptions, str)):
            raise TCError(
                f"the options factory returned {chosen!r} for {entry_point}; it must return "
                f"MappingOptions or a preset's name"
            )
        return (to_options(chosen) or MappingOptions())._options

    return choose


def define(
    source: str, options: object = None, *, namespace: str = "tc", cache: str | None = None
) -> TC:
    """Parses and checks a text and registers an operator for each of its definitions.

    ``options`` is None (the compiler chooses), a preset's name, MappingOptions, or a factory
    ``(source, entry_point, *inputs) -> MappingOptions`` that is asked once for each set of sizes,
    strides and dtypes. Operators appear as ``torch.ops.<namespace>.<name>``; where another text has
    the name already it keeps it, with a warning. LanguageError where the text is wrong.
    """
    if not isinstance(source, str):
        raise TypeError(f"a text was expected, not {type(source).__name__}")
    if not isinstance(namespace, str) or not is_identifier(namespace):
        raise TCError(f"namespace {namespace!r} is no identifier")
    if cache is not None:
        raise TCError("reading tuned options from a file (cache=) is not available in this version")
    factory: Callable | None = None
    identity: tuple[str | None, Callable | None]
    if callable(options) and not isinstance(options, (MappingOptions, str)):
        factory = _factories.setdefault(id(options), options)
        fixed, identity = MappingOptions(), (None, factory)
    else:
        fixed = (to_options(options) or MappingOptions()).__copy__()
        identity = (str(fixed), None)
    operators = {}
    for definition in parse(source).definitions:
        choose = _chooser(source, definition.name, fixed, factory)
        operator = _registry.get(definition, namespace, choose, identity)
        operator.made_by(_operator_again, definition.text, factory or fixed, namespace, True)
        operators[definition.name] = operator
    return TC((source, factory or fixed, namespace), operators)


def make_operator(definition: _torch.Definition, namespace: str) -> Operator:
    """An operator with the compiler's own options, for a text that no user has written.

    Its name in torch.ops ends in a number that its text decides, so that it is in nobody's way.
    """
    choose = _chooser(definition.text, definition.name, MappingOptions(), None)
    options = (str(MappingOptions()), None)
    operator = _registry.get(definition, namespace, choose, options, public=False)
    operator.made_by(_operator_again, definition.text, None, namespace, False)
    return operator


def _naive_options(source: str, entry_point: str, *inputs: object) -> MappingOptions:
    return MappingOptions("naive")


def make_naive_options_factory() -> Callable:
    """A factory for ``define`` that gives the naive options for everything."""
    return _naive_options  # one function, so that equal definitions share an operator
