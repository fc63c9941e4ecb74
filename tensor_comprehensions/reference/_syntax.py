"""Tokens, tree and parser of the language, after the grammar in docs/language.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tensor_comprehensions._errors import LanguageError

#: Every spelling of a type and its name in messages and in the tree.
TYPES = {
    "bool": "bool",
    "byte": "uint8",
    "int": "int32",
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **dict.fromkeys(["half", "float16"], "half"),
    "bfloat16": "bfloat16",
    **dict.fromkeys(["float", "float32"], "float"),
    **dict.fromkeys(["double", "float64"], "double"),
}

OPERATORS = ["=", "+=", "*=", "min=", "max=", "&&=", "||=", "argmin=", "argmax="]

# From loose to tight; all group to the left.
PRECEDENCE = [["||"], ["&&"], ["==", "!="], ["<", "<=", ">", ">="], ["+", "-"], ["*", "/", "%"]]

_NUMBER = re.compile(
    r"0[xX][0-9a-fA-F]+|(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?|\d+[eE][+-]?\d+[fF]?|\d+"
)
_ID = re.compile(r"[0-9]*[A-Za-z_][A-Za-z0-9_]*")
_SPACE = re.compile(r"(?:\s|#[^\n]*)*")
_REDUCTION = re.compile(r"(?:(?:arg)?(?:min|max)|\+|\*|&&|\|\|)=(?!=)!?")
_SYMBOL = re.compile(r"<=>|->|&&|\|\||[=!<>]=|[-+*/%!<>=?:.,(){}]")


def fail(message: str, token: Token) -> LanguageError:
    return LanguageError(f"{message} (line {token.line})", token.line, token.column)


@dataclass(frozen=True)
class Token:
    kind: str  # "id", "number", "symbol", "operator" or "end"
    text: str
    line: int
    column: int
    starts_line: bool


def tokenize(source: str) -> list[Token]:
    tokens: list[Token] = []
    at, last_line = 0, 0
    while True:
        at = _SPACE.match(source, at).end()
        line = source.count("\n", 0, at) + 1
        column = at - (source.rfind("\n", 0, at) + 1) + 1

        def add(kind: str, text: str, line: int = line, column: int = column) -> None:
            nonlocal at, last_line
            tokens.append(Token(kind, text, line, column, line != last_line))
            last_line = line
            at += len(text)

        if at == len(source):
            add("end", "")
            return tokens
        # `T.1` is a size, not `T` and `.1`.
        after_name = tokens and tokens[-1].kind == "id"
        if after_name and (size := re.compile(r"\.\s*(\d+)").match(source, at)):
            add("symbol", ".")
            at = size.start(1)
            add("number", size.group(1))
            continue
        number, name = _NUMBER.match(source, at), _ID.match(source, at)
        if operator := _REDUCTION.match(source, at):
            add("operator", operator.group())
        elif number and (not name or number.end() >= name.end()):
            add("number", number.group())
        elif name:
            add("id", name.group())
        elif symbol := _SYMBOL.match(source, at):
            add("symbol", symbol.group())
        else:
            message = f"invalid character {source[at]!r} (line {line})"
            raise LanguageError(message, line, column)


# The tree. Before names are resolved there are `Name`s; afterwards `Index`, `SizeName` and `Read`.


@dataclass(frozen=True)
class Expression:
    """Base of all expressions; `children` and `rebuild` serve walks over the tree."""

    def children(self) -> tuple[Expression, ...]:
        """Those in its fields, in the order of the text."""
        return tuple(
            child
            for value in vars(self).values()
            for child in (value if isinstance(value, tuple) else (value,))
            if isinstance(child, Expression)
        )

    def rebuild(self, children: tuple[Expression, ...]) -> Expression:
        """The same with others in their places."""
        rest = iter(children)
        changed = {
            name: tuple(next(rest) for _ in value) if isinstance(value, tuple) else next(rest)
            for name, value in vars(self).items()
            if isinstance(value, (tuple, Expression))
        }
        return replace(self, **changed) if changed else self


@dataclass(frozen=True)
class Number(Expression):
    value: int | float


@dataclass(frozen=True)
class Truth(Expression):
    """`true` or `false`"""

    value: bool


@dataclass(frozen=True)
class Name(Expression):
    id: str
    token: Token = field(compare=False, repr=False)


@dataclass(frozen=True)
class Index(Expression):
    """An index of the statement, an int32."""

    id: str


@dataclass(frozen=True)
class SizeName(Expression):
    """A size that has a name in the signature, an int32."""

    id: str


@dataclass(frozen=True)
class SizeOf(Expression):
    """`T.1`"""

    tensor: str
    dimension: int
    token: Token | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Apply(Expression):
    """`id(arguments)`: a read of a tensor or, after names are resolved, a built-in function."""

    id: str
    arguments: tuple[Expression, ...]
    token: Token = field(compare=False, repr=False)


@dataclass(frozen=True)
class Read(Expression):
    """An element of a tensor; scalars are tensors without dimensions."""

    tensor: str
    subscripts: tuple[Expression, ...]
    token: Token = field(compare=False, repr=False)


@dataclass(frozen=True)
class Cast(Expression):
    type: str
    operand: Expression


@dataclass(frozen=True)
class Argument(Cast):
    """The value of a parameter of a definition that is called."""

    token: Token = field(compare=False, repr=False)


@dataclass(frozen=True)
class Unary(Expression):
    operator: str
    operand: Expression
    token: Token = field(compare=False, repr=False)


@dataclass(frozen=True)
class Binary(Expression):
    """Also `min` and `max`."""

    operator: str
    left: Expression
    right: Expression
    token: Token = field(compare=False, repr=False)


@dataclass(frozen=True)
class Conditional(Expression):
    condition: Expression
    yes: Expression
    no: Expression
    token: Token = field(compare=False, repr=False)


def walk(expression: Expression) -> list[Expression]:
    """The expression and everything inside it, in the order of the text."""
    found = [expression]
    for child in expression.children():
        found += walk(child)
    return found


def transform(
    expression: Expression, change: Callable[[Expression], Expression | None]
) -> Expression:
    """Replaces, from the outside in, every part for which `change` returns something."""
    changed = change(expression)
    if changed is not None:
        return changed
    return expression.rebuild(tuple(transform(c, change) for c in expression.children()))


@dataclass
class Parameter:
    """An input, or a result with a declared type and declared sizes."""

    type: str
    sizes: list[Expression] | None  # None: a scalar
    name: str
    token: Token


@dataclass
class Statement:
    target: str
    left: list[str]
    operator: str
    value: Expression
    token: Token
    ranges: dict[str, tuple[Expression, Expression]] = field(default_factory=dict)
    lets: dict[str, Expression] = field(default_factory=dict)
    exists: list[Expression] = field(default_factory=list)


@dataclass
class Call:
    targets: list[str]
    function: str
    arguments: list[Expression]
    token: Token


@dataclass
class Definition:
    name: str
    parameters: list[Parameter]
    results: list[str]
    declared: list[Parameter]  # results with types
    body: list[Statement | Call]


class Parser:
    def __init__(self, source: str) -> None:
        self.tokens = tokenize(source)
        self.at = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def peek(self, ahead: int = 1) -> Token:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def next(self) -> Token:
        token = self.token
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def accept(self, text: str) -> Token | None:
        if self.token.text == text and self.token.kind != "end":
            return self.next()
        return None

    def expect(self, text: str) -> Token:
        if self.token.text != text:
            raise fail(f"expected {text!r} but found {self.token.text!r}", self.token)
        return self.next()

    def id(self) -> Token:
        if self.token.kind != "id":
            raise fail(f"expected an identifier but found {self.token.text!r}", self.token)
        return self.next()

    def sequence(self, item: Callable[[], object]) -> list:
        """`( item, item, … )`, perhaps empty."""
        self.expect("(")
        items: list = []
        while not self.accept(")"):
            if items:
                self.expect(",")
            items.append(item())
        return items

    def text(self) -> list[Definition]:
        definitions = []
        while self.token.kind != "end":
            definitions.append(self.definition())
        return definitions

    def definition(self) -> Definition:
        self.expect("def")
        name = self.id().text
        parameters = self.sequence(self.parameter)
        self.expect("->")
        results, declared = [], []
        for result in self.sequence(self.result):
            results.append(result.name if isinstance(result, Parameter) else result.text)
            if isinstance(result, Parameter):
                declared.append(result)
        self.annotation()
        self.expect("{")
        body = []
        while not self.accept("}"):
            body.append(self.statement())
        return Definition(name, parameters, results, declared, body)

    def annotation(self) -> None:
        if self.accept("<=>"):
            self.id()
            self.sequence(self.expression)

    def parameter(self) -> Parameter:
        token = self.id()
        if token.text not in TYPES:
            raise fail(f"expected a type but found {token.text!r}", token)
        sizes = self.sequence(self.size) if self.token.text == "(" else None
        name = self.id()
        return Parameter(TYPES[token.text], sizes, name.text, name)

    def result(self) -> Parameter | Token:
        if self.token.text in TYPES:
            return self.parameter()
        return self.id()

    def size(self) -> Expression:
        if self.token.kind == "number":
            return number(self.next())
        return Name(self.token.text, self.id())

    def statement(self) -> Statement | Call:
        if self.token.text == "(":
            token = self.token
            targets = [t.text for t in self.sequence(self.id)]
            self.expect("=")
            return self.call(targets, token)
        target = self.id()
        # `H = f(X)` is a call unless f is a built-in function or a tensor: the resolver decides.
        left = [t.text for t in self.sequence(self.id)] if self.token.text == "(" else []
        if self.token.kind != "operator" and self.token.text != "=":
            raise fail(f"expected an assignment but found {self.token.text!r}", self.token)
        operator = self.next().text
        statement = Statement(target.text, left, operator, self.expression(), target)
        self.annotation()
        if self.token.text == "where" and self.peek().kind == "id":
            self.next()
            self.clause(statement)
            while self.accept(","):
                self.clause(statement)
        return statement

    def call(self, targets: list[str], token: Token) -> Call:
        name = self.id()
        return Call(targets, name.text, self.sequence(self.expression), token)

    def clause(self, statement: Statement) -> None:
        if self.token.text == "exists" and self.peek().text not in ("in", "="):
            self.next()
            statement.exists.append(self.expression())
            return
        name = self.id().text
        if self.accept("="):
            statement.lets[name] = self.expression()
            return
        self.expect("in")
        first = self.expression()
        self.expect(":")
        statement.ranges[name] = (first, self.expression())

    def expression(self) -> Expression:
        condition = self.binary(0)
        if token := self.accept("?"):
            yes = self.expression()
            self.expect(":")
            return Conditional(condition, yes, self.expression(), token)
        return condition

    def binary(self, level: int) -> Expression:
        if level == len(PRECEDENCE):
            return self.unary()
        left = self.binary(level + 1)
        while self.token.kind == "symbol" and self.token.text in PRECEDENCE[level]:
            token = self.next()
            left = Binary(token.text, left, self.binary(level + 1), token)
        return left

    def unary(self) -> Expression:
        if self.token.text in ("-", "!"):
            token = self.next()
            return Unary(token.text, self.unary(), token)
        return self.primary()

    def primary(self) -> Expression:
        token = self.next()
        if token.kind == "number":
            return number(token)
        if token.text == "(":
            inside = self.expression()
            self.expect(")")
            return inside
        if token.kind != "id":
            raise fail(f"expected an expression but found {token.text!r}", token)
        if self.token.text == "." and self.peek().kind == "number":
            self.next()
            return SizeOf(token.text, int(self.next().text), token)
        if self.token.text != "(" or self.starts_statement():
            return Name(token.text, token)
        arguments = self.sequence(self.expression)
        if token.text in TYPES or token.text in ("min", "max"):
            wanted = 1 if token.text in TYPES else 2
            if len(arguments) != wanted:
                raise fail(f"{token.text} takes {wanted} arguments, not {len(arguments)}", token)
            if wanted == 1:
                return Cast(TYPES[token.text], arguments[0])
            return Binary(token.text, *arguments, token)
        return Apply(token.text, tuple(arguments), token)

    def starts_statement(self) -> bool:
        """Whether the parenthesis here opens a line `(a, b) =`."""
        ahead = 1
        if not self.token.starts_line:
            return False
        while self.peek(ahead).kind == "id" and self.peek(ahead + 1).text == ",":
            ahead += 2
        closes = self.peek(ahead).kind == "id" and self.peek(ahead + 1).text == ")"
        return closes and self.peek(ahead + 2).text == "="


def fitting(value: int, token: Token) -> int:
    if value >= 2**63:
        raise fail(f"{value} does not fit 64 bits", token)
    return value


def number(token: Token) -> Number:
    if token.text[:2] in ("0x", "0X"):
        return Number(fitting(int(token.text, 16), token))
    if token.text.isdigit():
        return Number(fitting(int(token.text), token))
    return Number(float(token.text.rstrip("fF")))


def parse(source: str) -> list[Definition]:
    """All definitions of a text, with names not yet resolved."""
    return Parser(source).text()
