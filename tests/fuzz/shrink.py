"""Makes a failing random program smaller.

Every candidate runs in a process of its own, so that crashes and programs that do not end are found
and shrunk like wrong results. `tests/fuzz/run.py` calls this for what fails.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from cases import Case, Disagreement, Tensor, check

from tensor_comprehensions import LanguageError
from tensor_comprehensions.reference._syntax import (
    Apply,
    Binary,
    Call,
    Cast,
    Conditional,
    Definition,
    Expression,
    Name,
    Number,
    SizeOf,
    Statement,
    Unary,
    parse,
    walk,
)

#: After how many seconds of work a program hangs.
HANGS = 20

# ---- text of a tree


def expression_text(e: Expression) -> str:
    if isinstance(e, Number):
        return f"({e.value})" if e.value < 0 else f"{e.value}"
    if isinstance(e, Name):
        return e.id
    if isinstance(e, SizeOf):
        return f"{e.tensor}.{e.dimension}"
    inside = [expression_text(c) for c in e.children()]
    if isinstance(e, Apply):
        return f"{e.id}({', '.join(inside)})"
    if isinstance(e, Cast):
        return f"{e.type}({inside[0]})"
    if isinstance(e, Unary):
        return f"({e.operator}{inside[0]})"
    if isinstance(e, Conditional):
        return f"({inside[0]} ? {inside[1]} : {inside[2]})"
    assert isinstance(e, Binary)
    if e.operator in ("min", "max"):
        return f"{e.operator}({', '.join(inside)})"
    return f"({inside[0]} {e.operator} {inside[1]})"


def outside_text(e: Expression) -> str:
    """Without parentheses around all of it."""
    text = expression_text(e)
    bare = isinstance(e, Unary | Binary | Conditional) and text.startswith("(")
    return text[1:-1] if bare else text


def statement_text(s: Statement | Call) -> str:
    if isinstance(s, Call):
        left = s.targets[0] if len(s.targets) == 1 else f"({', '.join(s.targets)})"
        return f"{left} = {s.function}({', '.join(map(expression_text, s.arguments))})"
    left = f"{s.target}({', '.join(s.left)})" if s.left else s.target
    clauses = [
        f"{name} in {expression_text(a)}:{expression_text(b)}" for name, (a, b) in s.ranges.items()
    ]
    clauses += [f"{name} = {expression_text(e)}" for name, e in s.lets.items()]
    clauses += [f"exists {expression_text(e)}" for e in s.exists]
    where = f" where {', '.join(clauses)}" if clauses else ""
    return f"{left} {s.operator} {outside_text(s.value)}{where}"


def definition_text(d: Definition) -> str:
    parameters = []
    for p in d.parameters:
        sizes = "" if p.sizes is None else f"({', '.join(map(expression_text, p.sizes))})"
        parameters.append(f"{p.type}{sizes} {p.name}")
    head = f"def {d.name}({', '.join(parameters)}) -> ({', '.join(d.results)}) {{"
    return "\n".join([head, *(f"  {statement_text(s)}" for s in d.body), "}"])


# ---- smaller programs


@dataclass
class Draft:
    """A case as a tree."""

    definitions: list[Definition]
    inputs: dict[str, Tensor]
    initial: dict[str, Tensor]
    seed: int
    entry: str
    options: tuple[str, ...]

    @property
    def main(self) -> Definition:
        return self.definitions[-1]

    def case(self) -> Case:
        main = self.main
        used = names_of(main)
        main.parameters = [p for p in main.parameters if p.name in used]
        called = {s.function for d in self.definitions for s in d.body if isinstance(s, Call)}
        definitions = [d for d in self.definitions if d is main or d.name in called]
        initial = tuple(
            self.initial.get(r) or Tensor(r, "float", ()) for r in main.results if self.initial
        )
        return Case(
            self.seed,
            "\n".join(map(definition_text, definitions)),
            self.entry,
            tuple(self.inputs[p.name] for p in main.parameters),
            initial,
            self.options,
        )


def names_of(d: Definition) -> set[str]:
    """Everything that a body mentions, with the tensors whose sizes it uses."""
    found: set[str] = set()
    for s in d.body:
        if isinstance(s, Call):
            parts = s.arguments
        else:
            ends = [e for ends in s.ranges.values() for e in ends]
            parts = [s.value, *ends, *s.lets.values(), *s.exists]
        for part in parts:
            for e in walk(part):
                if isinstance(e, Name | Apply):
                    found.add(e.id)
                elif isinstance(e, SizeOf):
                    found.add(e.tensor)
    for p in d.parameters:
        if any(isinstance(size, Name) and size.id in found for size in p.sizes or []):
            found.add(p.name)
    return found


def draft_of(case: Case) -> Draft:
    return Draft(
        parse(case.text),
        {t.name: t for t in case.inputs},
        {t.name: t for t in case.initial},
        case.seed,
        case.entry,
        case.options,
    )


def smaller(draft: Draft) -> Iterator[Draft]:
    """Drafts with one thing less, the largest steps first."""
    for option in draft.options if len(draft.options) > 1 else ():
        yield replace(deepcopy(draft), options=(option,))
    main = draft.main
    # One statement stays: a definition without any fails whatever the case was about.
    for k in range(len(main.body) - 1, -1, -1) if len(main.body) > 1 else ():
        changed = deepcopy(draft)
        del changed.main.body[k]
        keep_results(changed)
        yield changed
    for result in main.results if len(main.results) > 1 else ():
        changed = deepcopy(draft)
        changed.main.results.remove(result)
        yield changed
    for d, definition in enumerate(draft.definitions):
        for k, s in enumerate(definition.body):
            if isinstance(s, Statement):
                yield from smaller_statements(draft, d, k, s)
    for name, tensor in draft.inputs.items():
        yield from smaller_inputs(draft, name, tensor)


def keep_results(draft: Draft) -> None:
    main = draft.main
    assigned = [t for s in main.body for t in (s.targets if isinstance(s, Call) else [s.target])]
    main.results = [r for r in main.results if r in assigned] or assigned[-1:]


def smaller_statements(draft: Draft, d: int, k: int, s: Statement) -> Iterator[Draft]:
    def with_statement(change: Callable[[Statement], None]) -> Draft:
        changed = deepcopy(draft)
        change(changed.definitions[d].body[k])
        return changed

    for kind in ("ranges", "lets"):
        for name in getattr(s, kind):
            yield with_statement(lambda s, kind=kind, name=name: getattr(s, kind).pop(name))
    for e in range(len(s.exists)):
        yield with_statement(lambda s, e=e: s.exists.pop(e))
    if s.operator not in ("=", "+=!"):
        yield with_statement(lambda s: setattr(s, "operator", "+=!"))
    for name in s.left:
        if not draft.definitions[d].body[k + 1 :]:
            yield with_statement(lambda s, name=name: s.left.remove(name))
    for name, (a, b) in s.ranges.items():
        if isinstance(a, Number) and isinstance(b, Number):
            for end in {a.value + 1, (a.value + b.value) // 2, b.value - 1}:
                if a.value < end < b.value:
                    yield with_statement(
                        lambda s, name=name, a=a, end=end: s.ranges.update({name: (a, Number(end))})
                    )
    for value in smaller_expressions(s.value):
        yield with_statement(lambda s, value=value: setattr(s, "value", value))
    for name, let in s.lets.items():
        for value in smaller_expressions(let):
            yield with_statement(lambda s, name=name, value=value: s.lets.update({name: value}))


def smaller_expressions(e: Expression) -> Iterator[Expression]:
    yield from e.children()
    if not isinstance(e, Number | Name):
        yield from (Number(1), Number(2))
    for k, child in enumerate(e.children()):
        for value in smaller_expressions(child):
            children = list(e.children())
            children[k] = value
            yield e.rebuild(tuple(children))


def smaller_inputs(draft: Draft, name: str, tensor: Tensor) -> Iterator[Draft]:
    def with_tensor(**changes: object) -> Draft:
        changed = deepcopy(draft)
        changed.inputs[name] = replace(tensor, **changes)
        return changed

    if not tensor.plain:
        yield with_tensor(plain=True)
    if tensor.kind in ("any", "special", "small"):
        yield with_tensor(kind="whole")
    for d, size in enumerate(tensor.shape or ()):
        for less in dict.fromkeys([1, size // 2, size - 1]):
            if 0 < less < size:
                shape = (*tensor.shape[:d], less, *tensor.shape[d + 1 :])
                changed = with_tensor(shape=shape)
                rename_size(changed, name, d, less)
                yield changed
    parameter = next((p for p in draft.main.parameters if p.name == name), None)
    if parameter and tensor.shape and draft.options and not draft.initial:
        for d in range(len(tensor.shape)):
            own = Name(f"{name}_{d}", parameter.token)
            if parameter.sizes[d] != own:
                changed = deepcopy(draft)
                next(p for p in changed.main.parameters if p.name == name).sizes[d] = own
                yield changed


def rename_size(draft: Draft, name: str, d: int, less: int) -> None:
    for p in draft.main.parameters:
        if p.name == name and isinstance(p.sizes[d], Number):
            p.sizes[d] = Number(less)


# ---- failures


#: What a case is looked at with; raises where something is wrong with it.
Check = Callable[[Case], object]


def failure(case: Case, checked: Check = check) -> tuple[str, str] | None:
    """The kind of a case's failure and what was said, found in another process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        torch.set_num_threads(1)  # this process has none of its parent's
        said = b""
        signal.setitimer(signal.ITIMER_PROF, HANGS)
        try:
            checked(case)
        except Disagreement as error:
            said = f"{error.kind}\n{error}".encode()
        except Exception as error:
            said = f"{type(error).__name__}\n{type(error).__name__}: {error}".encode()
        os.write(write, said[:60000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if status == signal.SIGPROF:
        return "hang", f"not ready after {HANGS} seconds"
    if status:
        return "crash", f"ended with status {status}"
    if not said:
        return None
    kind, _, message = said.partition("\n")
    return kind, message


def shrink(case: Case, seconds: float = 60, checked: Check = check) -> tuple[Case, str]:
    """A smaller case that fails in the same way, and its message."""
    found = failure(case, checked)
    if found is None:
        return case, "does not fail again"
    kind, message = found
    end = time.monotonic() + seconds
    try:
        best = draft_of(case)
    except LanguageError:  # of scatters, which have an interpreter of their own
        return case, message
    best.case()
    progress = True
    seen: set[str] = set()
    while progress and time.monotonic() < end:
        progress = False
        for draft in smaller(best):
            if time.monotonic() > end:
                break
            try:
                candidate = draft.case()
            except (KeyError, IndexError, StopIteration):
                continue
            if (text := str(candidate)) in seen:
                continue
            seen.add(text)
            now = failure(candidate, checked)
            if now and now[0] == kind:
                best, case, message, progress = draft, candidate, now[1], True
                break
    return case, message
