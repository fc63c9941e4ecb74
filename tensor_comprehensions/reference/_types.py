"""The rules for types: promotion, literals that adapt, what may be stored where.

`Typing.check` turns a resolved expression into one of typed nodes in which every conversion stands
explicitly, so that who evaluates it needs to know nothing of these rules. A literal is a Python
number until it meets a type.
"""

from __future__ import annotations

import math
import operator as op
from dataclasses import dataclass, field

import numpy as np

from tensor_comprehensions._errors import LanguageError
from tensor_comprehensions.reference._arithmetic import COMPARISONS, round_to
from tensor_comprehensions.reference._resolve import Function, Program
from tensor_comprehensions.reference._syntax import (
    Argument,
    Binary,
    Cast,
    Conditional,
    Expression,
    Index,
    Number,
    Read,
    SizeName,
    SizeOf,
    Statement,
    Token,
    Truth,
    Unary,
    fail,
)

FLOATS = ("half", "bfloat16", "float", "double")


@dataclass(frozen=True)
class Typed:
    type: str


@dataclass(frozen=True)
class Constant(Typed):
    value: int | float


@dataclass(frozen=True)
class IndexValue(Typed):
    name: str


@dataclass(frozen=True)
class SizeValue(Typed):
    size: SizeName | SizeOf


@dataclass(frozen=True)
class Element(Typed):
    tensor: str
    subscripts: tuple[Typed, ...]
    token: Token = field(compare=False, repr=False)


@dataclass(frozen=True)
class Convert(Typed):
    operand: Typed


@dataclass(frozen=True)
class Operation(Typed):
    operator: str
    operands: tuple[Typed, ...]


@dataclass(frozen=True)
class Choice(Typed):
    condition: Typed
    yes: Typed
    no: Typed


@dataclass(frozen=True)
class Result(Typed):
    """Of a built-in function, computed in `type` unless that is bool."""

    function: str
    operands: tuple[Typed, ...]


@dataclass(frozen=True)
class LiteralChoice:
    """`c ? 1 : 2`: a literal that depends on a condition."""

    condition: Typed
    yes: Literal
    no: Literal


Literal = int | float | LiteralChoice
Checked = Typed | Literal  # literals have not met a type yet


def is_literal(value: Checked) -> bool:
    return not isinstance(value, Typed)


def is_float_literal(value: Literal) -> bool:
    if isinstance(value, LiteralChoice):
        return is_float_literal(value.yes) or is_float_literal(value.no)
    return isinstance(value, float)


def integer_range(type_: str) -> tuple[int, int]:
    info = np.iinfo(type_)
    return int(info.min), int(info.max)


def is_integer(type_: str) -> bool:
    return "int" in type_


def bits(type_: str) -> int:
    return int(type_[type_.index("int") + 3 :])


def promote(a: str, b: str) -> str:
    """The type in which two operands of arithmetic meet."""
    if a == b:
        return "int32" if a == "bool" else a
    if "bool" in (a, b):
        return b if a == "bool" else a
    if a in FLOATS and b in FLOATS:
        if {a, b} == {"half", "bfloat16"}:
            return "float"
        return max(a, b, key=FLOATS.index)
    if a in FLOATS or b in FLOATS:
        return a if a in FLOATS else b
    if a.startswith("u") == b.startswith("u"):
        return max(a, b, key=bits)
    unsigned, signed = (a, b) if a.startswith("u") else (b, a)
    return f"int{min(64, max(2 * bits(unsigned), bits(signed)))}"


def literal_type(value: Literal) -> str:
    """The type of a literal by itself."""
    if is_float_literal(value):
        return "float"
    if isinstance(value, LiteralChoice):
        return promote(literal_type(value.yes), literal_type(value.no))
    low, high = integer_range("int32")
    return "int32" if low <= value <= high else "int64"


def may_store(value: str, target: str) -> bool:
    """Whether a value may be stored without a cast."""
    return value == target or promote(value, target) == target


def divide(a: int, b: int) -> int:
    """C's integer division; by 0 it is 0."""
    if b == 0:
        return 0
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def fold(operator: str, a: Literal, b: Literal) -> Literal:
    """An operation on two literals, which is a literal."""
    if isinstance(a, LiteralChoice):
        return LiteralChoice(a.condition, fold(operator, a.yes, b), fold(operator, a.no, b))
    if isinstance(b, LiteralChoice):
        return LiteralChoice(b.condition, fold(operator, a, b.yes), fold(operator, a, b.no))
    integers = isinstance(a, int) and isinstance(b, int)
    result = fold_numbers(operator, a, b, integers)
    if integers and not -(2**63) <= result < 2**63:
        raise LanguageError(f"the constant {result} does not fit 64 bits")
    return result


def fold_numbers(operator: str, a: int | float, b: int | float, integers: bool) -> int | float:
    if operator in ("min", "max"):
        chosen = min(a, b) if operator == "min" else max(a, b)
        return chosen if integers else float(chosen)
    if operator == "/":
        if integers:
            return divide(a, b)
        with np.errstate(all="ignore"):
            return float(np.float64(a) / np.float64(b))
    if operator == "%":
        if integers:
            return a - divide(a, b) * b if b else 0
        return math.fmod(a, b) if b else math.nan
    return {"+": op.add, "-": op.sub, "*": op.mul}[operator](a, b)


class Typing:
    """Types of the tensors of a program, and of expressions that read them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.types = {p.name: p.type for p in program.parameters}
        self.finding: set[str] = set()
        for s in program.statements:
            self.tensor(s.target)
        for name, wanted in program.argument_types:
            if self.types[name] != wanted:
                raise LanguageError(
                    f"argument {name} has type {self.types[name]}, but the call takes {wanted}"
                )

    def tensor(self, name: str) -> str | None:
        """The type of a tensor; None while it is being found."""
        if name in self.types:
            return self.types[name]
        if name in self.program.declared:
            self.types[name] = self.program.declared[name].type
            return self.types[name]
        if name in self.finding:
            return None
        self.finding.add(name)
        literal = None
        for s in self.program.statements:
            if s.target != name:
                continue
            value = self.value_type(s)
            if value is None:
                continue
            if not is_literal(value):
                self.types[name] = value.type
                break
            literal = literal if literal is not None else value
        self.finding.discard(name)
        if name not in self.types and literal is not None:
            self.types[name] = literal_type(literal)
        return self.types.get(name)

    def value_type(self, s: Statement) -> Checked | None:
        try:
            if s.operator.startswith("arg"):
                return Constant("int64", 0)
            return self.check(s.value)
        except _Unknown:
            return None

    def stored(self, s: Statement) -> Typed:
        """What a statement's right-hand side gives to its operator, in the target's type."""
        value = self.check(s.value)
        target = self.types[s.target]
        if s.operator.startswith("arg"):
            return self.settle(value)
        if s.operator.strip("!") in ("&&=", "||=") and (
            is_literal(value) or value.type != "bool" or target != "bool"
        ):
            raise fail(f"{s.operator} takes bool values; use != 0", s.token)
        if is_literal(value):
            if is_float_literal(value) and target not in FLOATS:
                raise fail(
                    f"a floating-point literal cannot be stored in {s.target}, which is {target}",
                    s.token,
                )
            return self.adapt(value, target, s.token)
        if not may_store(value.type, target):
            raise fail(
                f"a value of type {value.type} cannot be stored in {s.target}, which is {target}; "
                f"cast it: {target}(…)",
                s.token,
            )
        return value if value.type == target else Convert(target, value)

    def settle(self, value: Checked) -> Typed:
        """A literal by itself, or the node."""
        return self.adapt(value, literal_type(value), None) if is_literal(value) else value

    def adapt(self, value: Checked, type_: str, token: Token | None) -> Typed:
        if isinstance(value, Typed):
            return value if value.type == type_ else Convert(type_, value)
        if isinstance(value, LiteralChoice):
            branches = (self.adapt(side, type_, token) for side in (value.yes, value.no))
            return Choice(type_, value.condition, *branches)
        if type_ in FLOATS:
            rounded = float(round_to(type_, np.asarray(float(value))))
            if math.isinf(rounded) and not math.isinf(value):
                raise self.no_value(value, type_, token)
            return Constant(type_, rounded)
        low, high = (0, 1) if type_ == "bool" else integer_range(type_)
        if isinstance(value, float) or not low <= value <= high:
            raise self.no_value(value, type_, token)
        return Constant(type_, value)

    @staticmethod
    def no_value(value: int | float, type_: str, token: Token | None) -> LanguageError:
        message = f"the literal {value} has no value in {type_}"
        return fail(message, token) if token else LanguageError(message)

    def expect_value(self, value: Checked, type_: str, token: Token) -> None:
        """Refuses a number that an integer type does not hold."""
        if isinstance(value, int | float) and type_ not in (*FLOATS, "bool"):
            low, high = integer_range(type_)
            if not math.isfinite(value) or not low <= math.trunc(value) <= high:
                raise self.no_value(value, type_, token)

    def meet(self, a: Checked, b: Checked, token: Token, arithmetic: bool = True) -> list[Typed]:
        """Two operands in their common type; at least one is no literal."""
        if is_literal(a) or is_literal(b):
            literal, node = (a, b) if is_literal(a) else (b, a)
            common = node.type
            if is_float_literal(literal) and common not in FLOATS:
                common = "float"
            elif common == "bool":
                common = "int32"
        elif a.type == b.type and not arithmetic:
            common = a.type  # bool stays bool
        else:
            common = promote(a.type, b.type)
        return [self.adapt(a, common, token), self.adapt(b, common, token)]

    def check(self, e: Expression) -> Checked:
        if isinstance(e, Number):
            return e.value
        if isinstance(e, Index):
            return IndexValue("int32", e.id)
        if isinstance(e, Truth):
            return Constant("bool", int(e.value))
        if isinstance(e, SizeName | SizeOf):
            return SizeValue("int32", e)
        if isinstance(e, Read):
            return self.check_read(e)
        if isinstance(e, Cast):
            checked = self.check(e.operand)
            if isinstance(e, Argument):
                self.expect_value(checked, e.type, e.token)
            if e.type == "double" and is_float_literal(checked):
                return self.adapt(checked, e.type, None)
            return Convert(e.type, self.settle(checked))
        if isinstance(e, Unary):
            return self.check_unary(e)
        if isinstance(e, Binary):
            return self.check_binary(e)
        if isinstance(e, Conditional):
            condition = self.condition(e.condition, e.token)
            yes, no = self.check(e.yes), self.check(e.no)
            if is_literal(yes) and is_literal(no):
                return LiteralChoice(condition, yes, no)
            branches = self.meet(yes, no, e.token, arithmetic=False)
            return Choice(branches[0].type, condition, *branches)
        assert isinstance(e, Function)
        return self.check_function(e)

    def check_read(self, e: Read) -> Typed:
        type_ = self.tensor(e.tensor)
        if type_ is None:
            raise _Unknown
        subscripts = []
        for subscript in e.subscripts:
            checked = self.settle(self.check(subscript))
            if not is_integer(checked.type):
                raise fail(f"a subscript of {e.tensor} has type {checked.type}", e.token)
            subscripts.append(checked)
        return Element(type_, e.tensor, tuple(subscripts), e.token)

    def condition(self, e: Expression, token: Token) -> Typed:
        checked = self.settle(self.check(e))
        if checked.type != "bool":
            raise fail(f"a condition must be bool, not {checked.type}; use != 0", token)
        return checked

    def check_unary(self, e: Unary) -> Checked:
        if e.operator == "!":
            return Operation("bool", "!", (self.condition(e.operand, e.token),))
        operand = self.check(e.operand)
        if is_literal(operand):
            return fold("*", -1, operand)
        if operand.type == "bool":
            operand = Convert("int32", operand)
        return Operation(operand.type, "-", (operand,))

    def check_binary(self, e: Binary) -> Checked:
        if e.operator in ("&&", "||"):
            sides = self.condition(e.left, e.token), self.condition(e.right, e.token)
            return Operation("bool", e.operator, sides)
        # An operand whose type is being found takes the other's.
        sides = []
        for side in (e.left, e.right):
            try:
                sides.append(self.check(side))
            except _Unknown:
                continue
        if len(sides) < 2:
            if not sides or is_literal(sides[0]) or e.operator in COMPARISONS:
                raise _Unknown
            return sides[0]
        a, b = sides
        compares = e.operator in COMPARISONS
        by_zero = e.operator in ("/", "%") and isinstance(b, int) and b == 0
        if by_zero and is_integer(literal_type(a) if is_literal(a) else a.type):
            raise fail("integer division by zero", e.token)
        if is_literal(a) and is_literal(b):
            if not compares:
                return fold(e.operator, a, b)
            a = self.adapt(a, promote(literal_type(a), literal_type(b)), e.token)
        a, b = self.meet(a, b, e.token, arithmetic=e.operator in ("+", "-", "*", "/", "%"))
        return Operation("bool" if compares else a.type, e.operator, (a, b))

    def check_function(self, e: Function) -> Typed:
        arguments = [self.check(a) for a in e.arguments]
        typed = [a for a in arguments if not is_literal(a)]
        if typed:
            common = typed[0].type
            for other in typed[1:]:
                common = promote(common, other.type) if common != other.type else common
        else:
            floats = any(is_float_literal(a) for a in arguments)
            common = "float" if floats or e.name != "abs" else literal_type(arguments[0])
        keeps_integers = e.name == "abs" and is_integer(common)
        if common not in FLOATS and not keeps_integers:
            common = "float"
        operands = tuple(self.adapt(a, common, e.token) for a in arguments)
        type_ = "bool" if e.name in ("isnan", "isinf") else common
        return Result(type_, e.name, operands)


class _Unknown(Exception):
    """An expression whose type depends on the one that is being found."""
