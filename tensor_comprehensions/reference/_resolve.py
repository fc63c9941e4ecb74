"""Names: what each stands for, lets put in place, calls replaced by the statements called."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tensor_comprehensions._errors import LanguageError
from tensor_comprehensions.reference._functions import FUNCTIONS, function_name
from tensor_comprehensions.reference._syntax import (
    Apply,
    Argument,
    Call,
    Definition,
    Expression,
    Index,
    Name,
    Number,
    Parameter,
    Read,
    SizeName,
    SizeOf,
    Statement,
    Token,
    Truth,
    fail,
    transform,
    walk,
)


@dataclass(frozen=True)
class Function(Expression):
    """A built-in function and its arguments."""

    name: str
    arguments: tuple[Expression, ...]
    token: Token = field(compare=False, repr=False)


@dataclass
class Equal:
    """A size that has to agree with another: of an argument of a call, or of a result."""

    left: Expression
    right: Expression
    what: str


@dataclass
class Program:
    """A definition without calls and lets."""

    name: str
    parameters: list[Parameter]
    results: list[str]
    declared: dict[str, Parameter]
    statements: list[Statement]
    equal: list[Equal]
    argument_types: list[tuple[str, str]]  # a tensor given to a call, and the type wanted

    @property
    def sizes(self) -> set[str]:
        return {s.id for p in self.parameters for s in p.sizes or [] if isinstance(s, Name)}

    @property
    def tensors(self) -> set[str]:
        return {p.name for p in self.parameters} | {s.target for s in self.statements}


def resolve(definitions: list[Definition], entry_point: str) -> Program:
    """The program of a definition of the text, with the calls it makes put in place."""
    programs: dict[str, Program] = {}
    for definition in definitions:
        if definition.name in programs:
            raise LanguageError(f"{definition.name} is already defined")
        programs[definition.name] = _Resolver(definition, programs).program()
    if entry_point not in programs:
        known = ", ".join(programs) or "nothing"
        raise LanguageError(f"undefined entry point {entry_point}; the text defines {known}")
    return programs[entry_point]


class _Resolver:
    def __init__(self, definition: Definition, programs: dict[str, Program]) -> None:
        self.definition, self.programs = definition, programs
        self.ranks = {p.name: len(p.sizes or []) for p in definition.parameters}
        self.sizes = {
            s.id for p in definition.parameters for s in p.sizes or [] if isinstance(s, Name)
        }
        self.calls = 0
        for parameter in definition.parameters:
            if [p.name for p in definition.parameters].count(parameter.name) > 1:
                raise fail(f"{parameter.name} is already defined", parameter.token)

    def program(self) -> Program:
        d = self.definition
        body = [self.as_call(part) for part in d.body]
        for part in body:
            targets = part.targets if isinstance(part, Call) else [part.target]
            for target in targets:
                if target in (p.name for p in d.parameters):
                    raise fail(f"{target} is assigned: TC inputs are immutable", part.token)
            if isinstance(part, Statement):
                rank = self.ranks.setdefault(part.target, len(part.left))
                if rank != len(part.left):
                    raise fail(
                        f"{part.target} has {rank} dimensions but {len(part.left)} here",
                        part.token,
                    )
            else:
                for target, rank in zip(part.targets, self.result_ranks(part)):
                    self.ranks.setdefault(target, rank)
        declared = {}
        for parameter in d.declared:
            # Names that no input has are bound by the first size they stand for.
            sizes = None if parameter.sizes is None else [self.size(s) for s in parameter.sizes]
            declared[parameter.name] = replace(parameter, sizes=sizes)
        program = Program(d.name, d.parameters, d.results, declared, [], [], [])
        for part in body:
            if isinstance(part, Call):
                self.inline(part, program)
            else:
                program.statements.append(self.statement(part))
        for result in d.results:
            if result not in self.ranks or result not in {s.target for s in program.statements}:
                raise LanguageError(f"result {result} of {d.name} is never assigned")
        return program

    def as_call(self, part: Statement | Call) -> Statement | Call:
        """`H = f(X)` reads like a statement until f turns out to be a definition."""
        value = part.value if isinstance(part, Statement) else None
        if not isinstance(value, Apply) or part.operator != "=" or part.left:
            return part
        assigned = {p.target for p in self.definition.body if isinstance(p, Statement)}
        if value.id in self.ranks or value.id in assigned or function_name(value.id) in FUNCTIONS:
            return part
        return Call([part.target], value.id, list(value.arguments), part.token)

    def result_ranks(self, call: Call) -> list[int]:
        if call.function not in self.programs:
            raise fail(f"attempting to access undefined function {call.function}", call.token)
        callee = self.programs[call.function]
        if len(callee.results) != len(call.targets):
            raise fail(
                f"{call.function} has {len(callee.results)} results, not {len(call.targets)}",
                call.token,
            )
        if len(set(call.targets)) != len(call.targets):
            raise fail(f"a call gives two results of {call.function} one name", call.token)
        ranks = {s.target: len(s.left) for s in callee.statements}
        return [ranks[r] for r in callee.results]

    def size(self, size: Expression) -> Expression:
        return SizeName(size.id) if isinstance(size, Name) else size

    def statement(self, s: Statement) -> Statement:
        if len(set(s.left)) != len(s.left):
            raise fail(f"an index stands twice on the left of {s.target}", s.token)
        lets: dict[str, Expression] = {}
        for name, value in s.lets.items():
            lets[name] = self.expression(value, lets)
        for name in [*s.left, *s.ranges]:
            if name in self.sizes or name in self.ranks:
                raise fail(f"{name} is already defined and cannot be an index", s.token)
        return replace(
            s,
            value=self.expression(s.value, lets),
            ranges={
                name: (self.expression(a, lets), self.expression(b, lets))
                for name, (a, b) in s.ranges.items()
            },
            lets={},
            exists=[self.expression(e, lets) for e in s.exists],
        )

    def expression(self, expression: Expression, lets: dict[str, Expression]) -> Expression:
        def change(e: Expression) -> Expression | None:
            if isinstance(e, Name):
                if e.id in lets:
                    return lets[e.id]
                if e.id in ("true", "false"):
                    return Truth(e.id == "true")
                if e.id in self.sizes:
                    return SizeName(e.id)
                if e.id in self.ranks:
                    return self.read(e.id, (), e.token)
                return Index(e.id)
            if isinstance(e, SizeOf):
                if e.tensor not in self.ranks:
                    raise fail(f"undefined tensor {e.tensor}", e.token)
                if e.dimension >= self.ranks[e.tensor]:
                    raise fail(f"{e.tensor} has no dimension {e.dimension}", e.token)
                return e
            if isinstance(e, Apply):
                arguments = tuple(self.expression(a, lets) for a in e.arguments)
                if e.id in self.ranks:
                    return self.read(e.id, arguments, e.token)
                name = function_name(e.id)
                if name not in FUNCTIONS:
                    raise fail(f"undefined tensor or function {e.id}", e.token)
                if len(arguments) != FUNCTIONS[name].arguments:
                    raise fail(
                        f"{name} takes {FUNCTIONS[name].arguments} arguments, not {len(arguments)}",
                        e.token,
                    )
                return Function(name, arguments, e.token)
            return None

        return transform(expression, change)

    def read(self, name: str, subscripts: tuple[Expression, ...], token: Token) -> Read:
        if len(subscripts) != self.ranks[name]:
            raise fail(
                f"{name} has {self.ranks[name]} dimensions but {len(subscripts)} subscripts here",
                token,
            )
        return Read(name, subscripts, token)

    def inline(self, call: Call, program: Program) -> None:
        callee = self.programs[call.function]
        if len(call.arguments) != len(callee.parameters):
            raise fail(
                f"{call.function} takes {len(callee.parameters)} arguments, "
                f"not {len(call.arguments)}",
                call.token,
            )
        self.calls += 1
        # The callee reads its arguments as they were, also those that its results are written to.
        read = {
            e.id
            for argument in call.arguments
            for e in walk(argument)
            if isinstance(e, Name | Apply)
        }
        tensors = {
            result: f"{call.function}.{self.calls}.{result}" if target in read else target
            for result, target in zip(callee.results, call.targets)
        }
        for s in callee.statements:
            tensors.setdefault(s.target, f"{call.function}.{self.calls}.{s.target}")
        scalars: dict[str, Expression] = {}
        sizes: dict[str, Expression] = {}
        for parameter, argument in zip(callee.parameters, call.arguments):
            if parameter.sizes is None:
                value = self.expression(argument, {})
                for unknown in indices(value):  # a call has none
                    raise fail(f"undefined variable {unknown}", call.token)
                scalars[parameter.name] = Argument(parameter.type, value, call.token)
                continue
            rank = len(parameter.sizes)
            if not isinstance(argument, Name) or self.ranks.get(argument.id) != rank:
                raise fail(
                    f"argument {parameter.name} of {call.function} must be a tensor "
                    f"with {rank} dimensions",
                    call.token,
                )
            tensors[parameter.name] = argument.id
            program.argument_types.append((argument.id, parameter.type))
            for d, size in enumerate(parameter.sizes):
                actual = SizeOf(argument.id, d)
                if isinstance(size, Number):
                    wanted: Expression = size
                else:
                    wanted = sizes.setdefault(size.id, actual)
                if wanted is not actual:
                    what = f"size {d} of argument {parameter.name} of {call.function}"
                    program.equal.append(Equal(actual, wanted, what))

        taken = self.sizes | set(self.ranks)

        def index(name: str) -> str:
            return f"{call.function}.{self.calls}.{name}" if name in taken else name

        def change(e: Expression) -> Expression | None:
            if isinstance(e, Index):
                return Index(index(e.id))
            if isinstance(e, SizeName):
                return sizes.get(e.id, e)
            if isinstance(e, SizeOf):
                return SizeOf(tensors[e.tensor], e.dimension)
            if isinstance(e, Read) and e.tensor in scalars:
                return scalars[e.tensor]
            if isinstance(e, Read):
                subscripts = tuple(transform(s, change) for s in e.subscripts)
                return Read(tensors[e.tensor], subscripts, e.token)
            return None

        for name, parameter in callee.declared.items():
            declared_sizes = parameter.sizes and [transform(s, change) for s in parameter.sizes]
            program.declared.setdefault(
                tensors[name], replace(parameter, sizes=declared_sizes, name=tensors[name])
            )
        for e in callee.equal:
            program.equal.append(
                Equal(transform(e.left, change), transform(e.right, change), e.what)
            )
        program.argument_types += [(tensors[t], wanted) for t, wanted in callee.argument_types]
        for result, target in zip(callee.results, call.targets):
            if tensors[result] != target and starts_from_caller(callee, result):
                rank = len(next(s.left for s in callee.statements if s.target == result))
                self.copy(target, tensors[result], rank, call, program)
        for s in callee.statements:
            program.statements.append(
                replace(
                    s,
                    target=tensors[s.target],
                    left=[index(name) for name in s.left],
                    value=transform(s.value, change),
                    ranges={
                        index(name): (transform(a, change), transform(b, change))
                        for name, (a, b) in s.ranges.items()
                    },
                    exists=[transform(e, change) for e in s.exists],
                )
            )
            self.ranks[tensors[s.target]] = len(s.left)
        for result, target in zip(callee.results, call.targets):
            source = tensors[result]
            if source != target:
                self.copy(source, target, self.ranks[source], call, program)

    def copy(self, source: str, target: str, rank: int, call: Call, program: Program) -> None:
        left = [f"{source}.{d}" for d in range(rank)]
        value = self.read(source, tuple(map(Index, left)), call.token)
        program.statements.append(Statement(target, left, "=", value, call.token))


def indices(expression: Expression) -> list[str]:
    """The indices in an expression, in order of appearance."""
    return list(dict.fromkeys(e.id for e in walk(expression) if isinstance(e, Index)))


def reduced(statement: Statement) -> list[str]:
    """The indices that a statement reduces over: only on its right, or only with a range."""
    found = indices(statement.value) + list(statement.ranges)
    return [i for i in dict.fromkeys(found) if i not in statement.left]


def reads_target(statement: Statement) -> bool:
    """Whether a statement reads what it is about to write, by its operator or by its value."""
    return accumulates(statement) or any(
        isinstance(e, Read) and e.tensor == statement.target for e in walk(statement.value)
    )


def accumulates(statement: Statement) -> bool:
    """Whether the operator reads the left-hand side."""
    return statement.operator in ("+=", "*=", "min=", "max=", "&&=", "||=")


def starts_from_caller(program: Program, result: str) -> bool:
    """Whether a result is read, or accumulated into without `!`, before it is assigned."""
    for s in program.statements:
        if any(isinstance(e, Read) and e.tensor == result for e in walk(s.value)):
            return True
        if s.target == result:
            return accumulates(s)
    return False
