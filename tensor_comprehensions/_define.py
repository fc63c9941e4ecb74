"""From a text to operators of PyTorch."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from tensor_comprehensions import _html, _torch
from tensor_comprehensions._errors import TCError
from tensor_comprehensions._operator import Operator
from tensor_comprehensions._options import MappingOptions, Scheduling, to_options
from tensor_comprehensions._parameters import suggest
from tensor_comprehensions._paths import file_name
from tensor_comprehensions._registry import is_identifier, registry

if TYPE_CHECKING:
    from tensor_comprehensions._autograd import Differentiable

logger = logging.getLogger("tensor_comprehensions")

#: What decides how definitions are scheduled: options by their names, or a user's factory.
Options = Mapping[str, MappingOptions] | Callable


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
    raise TCError(undefined(entry_point, (d.name for d in definitions)))


def undefined(entry_point: str, names: Iterable[str]) -> str:
    """What to say of a name that a text does not define."""
    known = list(names)
    return (
        f"attempting to access undefined function {entry_point}; the text defines: "
        f"{', '.join(known)}{suggest(entry_point, known)}"
    )


class TC:
    """The definitions of one text; each is an attribute of its name."""

    def __init__(
        self,
        source: str,
        options: Options,
        namespace: str,
        operators: dict[str, Operator],
        backwards: dict[str, Operator] | None = None,
    ) -> None:
        self._source = source
        self._options = options
        self._namespace = namespace
        self._operators = operators
        self._backwards = backwards or {}  # what a file says, for `differentiable`
        # As attributes they are found without __getattr__. A definition may bear any name: one
        # that this class uses itself is still reached by T("name", ...).
        for name, operator in operators.items():
            if name not in self.__dict__:
                self.__dict__[name] = operator

    def __getattr__(self, name: str) -> Operator:
        raise AttributeError(undefined(name, self.__dict__.get("_operators", ())))

    def __call__(self, entry_point: str, /, *inputs: Any, **keywords: Any) -> torch.Tensor:
        """T("f", A, B) is T.f(A, B)."""
        try:
            return _find(self, entry_point)(*inputs, **keywords)
        except BaseException:
            del self, inputs, keywords  # a traceback that is kept shall not hold them
            raise

    def differentiable(self, entry_point: str) -> Differentiable:
        """A definition with derivatives, as ``make_autograd`` gives it.

        Of what ``load`` returns with the backward that it was saved with, else derived.
        """
        from tensor_comprehensions._autograd import make_autograd

        return make_autograd(_find(self, entry_point), self._backwards.get(entry_point))

    def __reduce__(self) -> tuple:
        """Pickled and copied as the text: the same text is the same operators."""
        return define_with, (self._source, self._options, self._namespace, self._backwards)

    def __repr__(self) -> str:
        return f"<TC: {_html.names(self._operators)}>"

    def _repr_html_(self) -> str:
        texts = (operator.definition.text for operator in self._operators.values())
        return _html.text_block("\n".join(texts))


# No method, since a definition may bear its name.
def _find(definitions: TC, entry_point: str) -> Operator:
    if not isinstance(entry_point, str):
        raise TCError(
            f"expected the name of a definition but got {type(entry_point).__name__}: call "
            + " or ".join(f"T.{name}(...)" for name in definitions._operators)
        )
    operator = definitions._operators.get(entry_point)
    if operator is None:
        raise TCError(undefined(entry_point, definitions._operators))
    return operator


def _operator_again(
    text: str, options: Mapping[str, MappingOptions] | Callable, namespace: str, public: bool
) -> Operator:
    definition = parse(text).definitions[0]
    if not public:
        return make_operator(definition, namespace)
    return define_with(text, options, namespace)._operators[definition.name]


def _saved(source: str, cache: str | os.PathLike[str]) -> dict[str, MappingOptions]:
    """Options that definitions of a text were saved with, whatever their names."""
    store = _torch.Store.read(file_name(cache), True)
    store.use()
    found = {}
    for definition in parse(source).definitions:
        options = store.find_options(definition)
        if options is not None:
            found[definition.name] = MappingOptions.parse(options)
    return found


def define(
    source: str,
    options: object = None,
    *,
    namespace: str = "tc",
    cache: str | os.PathLike[str] | None = None,
    replace: bool = False,
) -> TC:
    """Parses and checks a text and registers an operator for each of its definitions.

    ``options`` is None (the compiler chooses), a preset's name, MappingOptions, or a factory
    ``(source, entry_point, *inputs) -> MappingOptions`` that is asked once for each set of sizes,
    strides and dtypes. ``cache`` is a file that ``save``, ``autotune`` or ``tune`` wrote: calls run
    the Plans that tuning found for these options and their sizes on a machine like this one, and
    without ``options`` a definition takes those that were saved last for the same one, by whatever
    names. That holds for the process: for all operators of such a text, and for what is derived of
    it. A missing or empty file has none. LanguageError where the text is wrong, CacheError where
    the file cannot be read.

    Operators appear as ``torch.ops.<namespace>.<name>``. Another text that has the name already
    loses it, with a note in the log, when nothing holds ``T``, ``T.f`` or ``make_autograd(T.f)`` of
    it any more, or at once with ``replace``; until then it keeps it, and a warning says so. Graphs
    that were made with it keep it in any case.
    """
    if not isinstance(source, str):
        raise TypeError(f"a text was expected, not {type(source).__name__}")
    if not isinstance(namespace, str) or not is_identifier(namespace):
        raise TCError(f"namespace {namespace!r} is no identifier")
    chosen: Options
    saved = {} if cache is None else _saved(source, cache)
    if callable(options) and not isinstance(options, (MappingOptions, str)):
        chosen = options
    elif options is None and cache is not None:
        chosen = saved
    else:
        fixed = (to_options(options) or MappingOptions()).__copy__()
        chosen = {definition.name: fixed for definition in parse(source).definitions}
    return define_with(source, chosen, namespace, replace=replace)


def define_with(
    source: str,
    options: Options,
    namespace: str,
    backwards: dict[str, Operator] | None = None,
    replace: bool = False,
) -> TC:
    """``define`` with options for each definition; those that it leaves out have the default."""
    operators = {}
    for definition in parse(source).definitions:
        name = definition.name
        given = options if callable(options) else options.get(name, MappingOptions())
        again: Options = given if callable(given) else {name: given}
        operators[name] = registry.get(
            definition,
            namespace,
            Scheduling(source, given),
            (_operator_again, (definition.text, again, namespace, True)),
            replace=replace,
        )
    return TC(source, options, namespace, operators, backwards)


def make_operator(definition: _torch.Definition, namespace: str) -> Operator:
    """An operator with the compiler's own options, for a text that no user has written.

    Its name in torch.ops ends in a number that its text decides, so that it is in nobody's way.
    """
    return registry.get(
        definition,
        namespace,
        Scheduling(definition.text, MappingOptions()),
        (_operator_again, (definition.text, {}, namespace, False)),
        public=False,
    )


def _naive_options(source: str, entry_point: str, *inputs: object) -> MappingOptions:
    return MappingOptions("naive")


def make_naive_options_factory() -> Callable:
    """A factory for ``define`` that gives the naive options for everything."""
    return _naive_options  # one function, so that equal definitions share an operator
