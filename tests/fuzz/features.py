"""What of the language a text uses, by names that a test can count."""

from __future__ import annotations

from collections.abc import Iterator

from tensor_comprehensions.reference._functions import FUNCTIONS, function_name
from tensor_comprehensions.reference._syntax import (
    OPERATORS,
    PRECEDENCE,
    TYPES,
    Apply,
    Binary,
    Call,
    Cast,
    Conditional,
    Definition,
    Expression,
    Number,
    SizeOf,
    Statement,
    Unary,
    parse,
    walk,
)

_TYPES = sorted(set(TYPES.values()))
#: All of it but for spellings (`byte`, `# comments`), annotations, which mean nothing, scatters,
#: which the interpreter does not know and `random_scatters` draws, and functions that it lacks.
LANGUAGE = frozenset(
    [
        "=",
        *(operator + mark for operator in OPERATORS[1:] for mark in ("", "!")),
        *(f"a {symbol} b" for symbols in PRECEDENCE for symbol in symbols),
        *("min(a, b)", "max(a, b)", "-a", "!a", "a ? b : c", "T.1", "true or false"),
        *("an integer", "a number with a point"),
        *("a range", "a let", "exists", "a call", "a call with several results"),
        *(
            "a scalar",
            "a size that is a number",
            "a size that two tensors have",
            "a declared result",
        ),
        *("no index on the left", "data in a subscript", "an index as a number"),
        *(f"{type_} parameter" for type_ in _TYPES),
        *(f"{type_}(a)" for type_ in _TYPES),
        *(f"{function}()" for function in FUNCTIONS),
    ]
)


def features(text: str) -> set[str]:
    """Those of a text; each is one of LANGUAGE."""
    definitions = parse(text)
    names = {definition.name for definition in definitions}
    return {name for definition in definitions for name in _of_definition(definition, names)}


def _of_definition(definition: Definition, definitions: set[str]) -> Iterator[str]:
    sizes: set[str] = set()
    for parameter in definition.parameters:
        yield f"{parameter.type} parameter"
        if parameter.sizes is None:
            yield "a scalar"
        names = {size.id for size in parameter.sizes or [] if not isinstance(size, Number)}
        if len(names) < len(parameter.sizes or []) - sum(
            isinstance(size, Number) for size in parameter.sizes or []
        ) or not sizes.isdisjoint(names):
            yield "a size that two tensors have"
        sizes |= names
        if any(isinstance(size, Number) for size in parameter.sizes or []):
            yield "a size that is a number"
    if definition.declared:
        yield "a declared result"
    tensors = {p.name for p in definition.parameters} | {
        name for s in definition.body for name in (s.targets if isinstance(s, Call) else [s.target])
    }
    for statement in definition.body:
        if isinstance(statement, Call):
            yield "a call"
            if len(statement.targets) > 1:
                yield "a call with several results"
        elif isinstance(statement.value, Apply) and statement.value.id in definitions:
            yield "a call"  # as the parser leaves one with a single result
        else:
            yield from _of_statement(statement, tensors)


def _of_statement(s: Statement, tensors: set[str]) -> Iterator[str]:
    yield s.operator
    if not s.left:
        yield "no index on the left"
    if s.ranges:
        yield "a range"
    if s.lets:
        yield "a let"
    if s.exists:
        yield "exists"
    for part in [s.value, *s.lets.values()]:
        yield from _of_expression(part, tensors, s)


def _of_expression(e: Expression, tensors: set[str], s: Statement) -> Iterator[str]:
    if isinstance(e, Number):
        yield "a number with a point" if isinstance(e.value, float) else "an integer"
    elif isinstance(e, SizeOf):
        yield "T.1"
    elif isinstance(e, Cast):
        yield f"{e.type}(a)"
    elif isinstance(e, Unary):
        yield f"{e.operator}a"
    elif isinstance(e, Conditional):
        yield "a ? b : c"
    elif isinstance(e, Binary):
        yield f"{e.operator}(a, b)" if e.operator in ("min", "max") else f"a {e.operator} b"
    elif isinstance(e, Apply):
        if e.id not in tensors:
            yield f"{function_name(e.id)}()"
        else:
            inside = [part for subscript in e.arguments for part in walk(subscript)]
            if any(isinstance(part, Apply) and part.id in tensors for part in inside):
                yield "data in a subscript"
            # Indices there are no numbers of the value.
            for part in inside:
                if not _is_index(part, s):
                    yield from _of_node(part, tensors, s)
            return
    elif getattr(e, "id", "") in ("true", "false"):
        yield "true or false"
    elif _is_index(e, s):
        yield "an index as a number"
    for child in e.children():
        yield from _of_expression(child, tensors, s)


def _is_index(e: Expression, s: Statement) -> bool:
    return getattr(e, "id", "") in {*s.left, *s.ranges} and not isinstance(e, Apply)


def _of_node(e: Expression, tensors: set[str], s: Statement) -> Iterator[str]:
    """Without what is inside of it."""
    shallow = e.rebuild(tuple(Number(0) for _ in e.children())) if e.children() else e
    if not isinstance(e, Apply) or e.id not in tensors:
        yield from _of_expression(shallow, tensors, s)
