"""Files that say which operators a saved model calls."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from tensor_comprehensions import _torch
from tensor_comprehensions._autograd import Differentiable
from tensor_comprehensions._define import TC, define_with, make_operator
from tensor_comprehensions._errors import CacheError, TCError
from tensor_comprehensions._operator import Operator
from tensor_comprehensions._options import MappingOptions
from tensor_comprehensions._pairs import Pair
from tensor_comprehensions._paths import Path, file_name
from tensor_comprehensions._registry import registry


class _Text:
    """A text with the operators of its definitions, and the names that graphs hold them by."""

    def __init__(self, source: str, operators: list[Operator], names: list[str]) -> None:
        self.source = source
        self.operators = operators
        self.names = names
        self.derivatives: dict[str, Operator | None] = {}  # the backward, None where it is derived
        self.pairs: dict[str, list[str]] = {}  # names of backwards that graphs call it with

    def covers(self, other: _Text) -> bool:
        return set(other.names) <= set(self.names)

    def stored(self) -> _torch.StoredText:
        definitions = []
        for operator, name in zip(self.operators, self.names, strict=True):
            key = operator.__name__
            backward = self.derivatives.get(key)
            definitions.append(
                _torch.StoredDefinition(
                    name=key,
                    operator_name=name.partition("::")[2],
                    options=operator.registration.scheduling.text or "",
                    derived=key in self.derivatives and backward is None,
                    backward=backward.name if backward is not None else None,
                    pairs=self.pairs.get(key, []),
                )
            )
        namespace = self.names[0].partition("::")[0]
        by_user = any(operator.registration.is_public for operator in self.operators)
        return _torch.StoredText(namespace, self.source, by_user, definitions)


def _definition(part: Callable[..., Any], role: str, function: Differentiable) -> Operator:
    if not isinstance(part, Operator):
        raise CacheError(
            f"the {role} of {function.__name__} is a Python function, which a file cannot hold; "
            f"pass the definitions that it calls, T of T = define(...), or the exported program"
        )
    return part


class _Collection:
    """Texts on their way to a file: each once, in the order in which they were found."""

    def __init__(self) -> None:
        self._texts: list[_Text] = []
        self._seen: set[int] = set()

    def _add(self, added: _Text) -> None:
        for operator in added.operators:
            if operator.registration.scheduling.text is None:
                raise CacheError(
                    f"{operator.__name__} takes its options from a function, which a file cannot "
                    f"hold; define it with MappingOptions, a preset's name or None to save it"
                )
        if any(text.covers(added) for text in self._texts):
            return
        # A definition that was found alone, and now with the rest of its text.
        for text in [text for text in self._texts if added.covers(text)]:
            added.derivatives.update(text.derivatives)
            added.pairs.update(text.pairs)
            self._texts.remove(text)
        self._texts.append(added)
        for operator in added.operators:
            self._add_made(operator)

    def _add_made(self, operator: Operator) -> None:
        """What was derived from a definition so far, and what that was made into."""
        if id(operator.registration) in self._seen:
            return
        self._seen.add(id(operator.registration))
        for made in operator.derived():
            self.add_operator(made)

    def add_definitions(self, definitions: TC) -> None:
        operators = list(definitions._operators.values())
        self._add(_Text(definitions._source, operators, [each.name for each in operators]))
        for name, backward in definitions._backwards.items():
            self._add_pair(definitions._operators[name], backward)

    def add_operator(self, operator: Operator, name: str = "") -> None:
        self._add(_Text(operator.definition.text, [operator], [name or operator.name]))

    def _add_pair(self, forward: Operator, backward: Operator | None) -> None:
        self.add_operator(forward)
        if backward is not None:
            self.add_operator(backward)
        for text in self._texts:
            if forward.name in text.names:
                text.derivatives[forward.__name__] = backward

    def _add_called_pair(self, pair: Pair) -> None:
        """What a graph calls, which need not be what the definition was made differentiable by."""
        names = pair.names
        for operator, own in zip((pair.forward, pair.backward), names, strict=True):
            self.add_operator(operator, own)
        for text in self._texts:
            if names[0] in text.names:
                known = text.pairs.setdefault(pair.forward.__name__, [])
                known += [names[1]] if names[1] not in known else []

    def add_differentiable(self, function: Differentiable) -> None:
        forward, backward = function._parts
        self._add_pair(
            _definition(forward, "forward", function),
            None if backward is None else _definition(backward, "backward", function),
        )

    def add_names(self, names: Iterator[str]) -> bool:
        """Adds what graphs hold by these names, and says whether something of it is ours."""
        found = False
        for name in names:
            pair = Pair.find(name)
            name = name.removesuffix(_torch.derived_name(""))
            operator = registry.find(name)
            if pair is not None:
                self._add_called_pair(pair)
            elif operator is not None:
                self.add_operator(operator, name if registry.is_former(name) else "")
            found = found or pair is not None or operator is not None
        return found

    def store(self) -> _torch.Store:
        result = _torch.Store()
        for text in self._texts:
            result.add(text.stored())
        return result


def _overloads(value: object) -> Iterator[str]:
    """Names of the operators among an argument of a node."""
    if isinstance(value, torch._ops.OpOverload):
        yield value.name().partition(".")[0]
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _overloads(each)


def _names_in(graph_module: torch.fx.GraphModule) -> Iterator[str]:
    for module in graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                yield from _overloads((node.target, *node.args, *node.kwargs.values()))


def _held(value: object, seen: dict[int, object]) -> Iterator[Any]:
    """The definitions in an attribute of a module, also in lists and dictionaries.

    ``seen`` has the containers that were looked into, which may hold each other, by their identity.
    """
    if isinstance(value, (TC, Operator, Differentiable)):
        yield value
        return
    if isinstance(value, functools.partial):
        value = [value.func, *value.args]
    elif isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple, set, frozenset)) and id(value) not in seen:
        seen[id(value)] = value
        for each in value:
            yield from _held(each, seen)


def _attributes(module: torch.nn.Module) -> Iterator[Any]:
    seen: dict[int, object] = {}
    for kind in type(module).__mro__:
        if kind is torch.nn.Module:
            break
        yield from _held(list(vars(kind).values()), seen)
    yield from _held(list(vars(module).values()), seen)


def _collect(collection: _Collection, value: Any) -> bool:
    """Adds the definitions that something holds or calls; whether there are any."""
    if isinstance(value, TC):
        collection.add_definitions(value)
    elif isinstance(value, Operator):
        collection.add_operator(value)
    elif isinstance(value, Differentiable):
        collection.add_differentiable(value)
    elif isinstance(value, torch.export.ExportedProgram):
        return collection.add_names(_names_in(value.graph_module))
    elif isinstance(value, torch.fx.GraphModule):
        return collection.add_names(_names_in(value))
    elif isinstance(value, torch.jit.ScriptModule):
        names = torch.jit.export_opnames(value)
        return collection.add_names(name.partition(".")[0] for name in names)
    elif isinstance(value, torch.nn.Module):
        found = False
        for held in _attributes(value):
            found = _collect(collection, held) or found
        for child in value.children():
            found = _collect(collection, child) or found
        return found
    else:
        raise TypeError(
            f"definitions, modules that hold them or exported programs can be saved, not "
            f"{type(value).__name__}"
        )
    return True


def save(path: Path, *operators: Any) -> None:
    """Saves what ``load`` needs to register operators in another process, with their options.

    ``operators`` are ``T``, ``T.f``, what ``make_autograd`` returns, modules that hold such among
    their attributes (as ``tc.nn.Lambda``), and graphs that call them: exported programs, scripted
    and traced modules. What has been derived of a definition so far, its gradients and batches, is
    saved with it; a graph brings what it calls, equations of ``einsum`` too.

    The file keeps what it held before, and has each operator once. It is replaced as a whole:
    whoever reads it meanwhile sees the old one or the new one, and several processes may save to it
    at once. CacheError where the file cannot be written, is no such file, or where something has no
    text that a file could hold; the file is then as it was.
    """
    collection = _Collection()
    for value in operators:
        if not _collect(collection, value):
            raise CacheError(
                f"no definition was found in {type(value).__name__}: modules are searched for T, "
                f"T.f and what make_autograd returns among their attributes, graphs for the "
                f"operators that they call; pass the definitions themselves, or the exported "
                f"program"
            )
    collection.store().save(file_name(path))


def load(path: Path) -> list[TC]:
    """Registers the operators that a file of ``save`` holds, with their options.

    They appear as ``torch.ops.<namespace>.<name>``, as with ``define``: where another text has that
    name and is still held, a warning says so. They also appear under the names that graphs hold, so
    that exported programs, packages of AOTInductor and scripted modules find them. Load first, then
    these. Plans that tuning found run wherever their definition is called with their sizes, also
    where it was defined before, as long as its options are those that it was tuned with.

    Returns what ``define`` returned for the texts of users, in the order of the file;
    ``T.differentiable("f")`` has the backward that was saved with it. Loading again changes
    nothing. CacheError where the file is missing, damaged, of a newer version, or holds a text that
    this version refuses; then no operator was registered.
    """
    file = file_name(path)
    store = _torch.Store.read(file, False)
    texts = store.texts()
    # All is checked before the first is registered, since operators are for ever.
    for k, text in enumerate(texts):
        store.check_text(k)
        for stored in text.definitions if text.by_user else ():
            try:
                registry.check_free(text.namespace, _torch.mangle(stored.name, [], "tc"))
            except TCError as error:
                raise CacheError(
                    f"{stored.name} of '{file}' cannot be registered: torch.ops.{text.namespace}."
                    f"{stored.name} exists already and was not defined here; load the file before "
                    f"what makes it, or save {stored.name} under another namespace"
                ) from error
    store.use()
    loaded: dict[str, Operator] = {}
    results: list[tuple[TC, _torch.StoredText]] = []
    for text in texts:
        if text.by_user:
            options = {d.name: MappingOptions.parse(d.options) for d in text.definitions}
            definitions = define_with(text.source, options, text.namespace)
            operators = definitions._operators
            results.append((definitions, text))
        else:
            # Without the warnings of `parse`: nobody has written this text.
            parsed = _torch.parse(text.source).definitions
            operators = {d.name: make_operator(d, text.namespace) for d in parsed}
        for stored in text.definitions:
            operator = operators[stored.name]
            registry.add_former_name(operator, stored.operator_name)
            loaded[f"{text.namespace}::{stored.operator_name}"] = operator
    for text in texts:
        for stored in text.definitions:
            name = f"{text.namespace}::{stored.operator_name}"
            for backward in stored.pairs:
                Pair.of(loaded[name], loaded[backward])
                Pair.of(loaded[name], loaded[backward], (name, backward))
    for definitions, text in results:
        for stored in text.definitions:
            if stored.backward is not None:
                definitions._backwards[stored.name] = loaded[stored.backward]
    return [definitions for definitions, _ in results]


def describe(path: Path) -> str:
    """What a file of ``save`` holds, as text."""
    store = _torch.Store.read(file_name(path), False)
    parts = []
    for text in store.texts():
        names = []
        for stored in text.definitions:
            line = f"torch.ops.{text.namespace}.{stored.operator_name}  {stored.options}"
            if stored.backward is not None:
                line += f"  backward {stored.backward}"
            elif stored.derived:
                line += "  backward derived"
            names.append(line)
        author = "" if text.by_user else "# by the compiler\n"
        parts.append(author + text.source.strip() + "\n" + "".join(f"  {n}\n" for n in names))
    return "\n".join(parts)
