"""Arithmetic on arrays as the language defines it, and how far other correct results may lie.

Elements of `half`, `bfloat16` and `float` are kept and computed in double and rounded after each
operation, which for sums, products, quotients and square roots is the correctly rounded result.

Where asked, a value carries a bound of what rounding may have changed: the language leaves open
the order of sums and whether `a * b + c` is rounded once. Operations whose results need no rounding
add nothing, so whole numbers are compared exactly. An infinite bound means that nothing is promised
(a condition between values that are equal up to rounding, the sign of a zero).
"""

from __future__ import annotations

import operator as op
from dataclasses import dataclass

import numpy as np

from tensor_comprehensions.reference._functions import FUNCTIONS

NUMPY = {
    "bool": np.bool_,
    **{f"{s}int{b}": np.dtype(f"{s}int{b}").type for s in ("", "u") for b in (8, 16, 32, 64)},
    **dict.fromkeys(["half", "bfloat16", "float", "double"], np.float64),
}
COMPARISONS = {"==": op.eq, "!=": op.ne, "<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge}
# Digits of the mantissa, and the smallest normal number.
PRECISION = {"half": 11, "bfloat16": 8, "float": 24, "double": 53}
TINY = {"half": 2.0**-14, "bfloat16": 2.0**-126, "float": 2.0**-126, "double": 2.0**-1022}
# What a built-in function may be off beside its rounding, relative to its result.
FUNCTION_ERROR = {"half": 2.0**-18, "bfloat16": 2.0**-18, "float": 2.0**-18, "double": 2.0**-44}


def is_float(type_: str) -> bool:
    return type_ in PRECISION


def round_to(type_: str, x: np.ndarray) -> np.ndarray:
    """Doubles rounded to the nearest values of a float type, ties to even."""
    with np.errstate(all="ignore"):
        if type_ == "double":
            return np.asarray(x, np.float64)
        if type_ == "half":
            return np.asarray(x).astype(np.float16).astype(np.float64)
        narrow = np.asarray(x).astype(np.float32)
        if type_ == "bfloat16":
            # Exact results of bfloat16 operands are not rounded twice to another value: a float
            # has more than twice as many digits.
            pattern = np.atleast_1d(narrow).view(np.uint32)
            even = ((pattern >> 16) & 1) + np.uint32(0x7FFF)
            kept = ((pattern + even) & np.uint32(0xFFFF0000)).view(np.float32)
            narrow = np.where(np.isnan(narrow), narrow, kept.reshape(narrow.shape))
        return narrow.astype(np.float64)


@dataclass
class Value:
    """An array over the indices of a statement, 1 long where it does not depend on one."""

    type: str
    array: np.ndarray
    error: np.ndarray | None = None  # None: exact

    def bound(self) -> np.ndarray:
        return np.zeros(()) if self.error is None else self.error


def flushed(type_: str, array: np.ndarray) -> np.ndarray:
    """What is lost where a number that was rounded to a type may be 0 instead."""
    if type_ != "bfloat16":
        return np.zeros(())
    size = np.abs(array)
    return np.where(size <= TINY[type_], size, 0.0)


def _some(error: np.ndarray) -> np.ndarray | None:
    return error if error.any() else None


def _difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How far two results lie apart: 0 where both are the same infinity or NaN."""
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    apart = np.abs(np.subtract(a, b))
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))


class Arithmetic:
    """Operations on values.

    `track` keeps error bounds. `wide` is how the right-hand sides of sums compute: without rounding
    `half` and `bfloat16`.
    """

    def __init__(self, track: bool = False, wide: bool = False) -> None:
        self.track, self.wide = track, wide

    def computed_in(self, type_: str) -> str:
        return "float" if self.wide and type_ in ("half", "bfloat16") else type_

    def rounded(self, type_: str, exact: np.ndarray, bound: np.ndarray | None) -> Value:
        """A double rounded to a type; `bound` is what the operands' errors make of it."""
        array = round_to(type_, exact)
        if not self.track:
            return Value(type_, array)
        error = flushed(type_, array) + (np.zeros(()) if bound is None else bound)
        inexact = _difference(array, exact) > 0
        if inexact.any():
            unit = 2.0 ** (1 - PRECISION[type_]) * np.abs(array) + TINY[type_] * 2.0**-9
            # What overflows here may not where it is rounded once.
            unit = np.where(np.isinf(array), np.inf, unit)
            error = error + np.where(inexact, unit, 0.0)
        if error.any():
            # A NaN stays one, whatever the operands' bounds.
            error = np.where(np.isnan(error), np.inf, error)
        return Value(type_, array, _some(np.asarray(error)))

    def convert(self, type_: str, v: Value) -> Value:
        """A cast, written or implied."""
        if v.type == type_:
            return v
        if type_ == "bool":
            return Value("bool", v.array != 0, self.where_uncertain(v, np.abs(v.array)))
        if is_float(type_):
            target = self.computed_in(type_)
            exact = v.array.astype(np.float64)
            bound = v.error
            if self.track and target != type_:
                # Inside a sum a cast may round or not.
                lost = _difference(round_to(type_, exact), round_to(target, exact))
                bound = v.bound() + lost
            if self.track and v.type in ("int64", "uint64"):
                lost = np.abs(v.array.astype(np.longdouble) - exact.astype(np.longdouble))
                unit = 2.0 ** (1 - PRECISION[target]) * np.abs(exact)
                bound = (v.bound() if bound is None else bound) + np.where(lost > 0, unit, 0.0)
            result = self.rounded(target, exact, bound)
            return Value(type_, result.array, result.error)
        if is_float(v.type):
            with np.errstate(all="ignore"):
                info = np.iinfo(type_)
                whole = np.trunc(v.array)
                fits = (whole >= float(info.min)) & (whole <= float(info.max))
                if info.bits == 64:
                    fits &= whole < 2.0 ** (info.bits - (info.min < 0))
                array = np.where(fits, whole, 0).astype(np.int64 if info.min < 0 else np.uint64)
                array = array.astype(NUMPY[type_])
                error = None
                if self.track:
                    # Nothing is promised for a value that the type does not hold.
                    error = np.where(fits, 0.0, np.inf)
                    if v.error is not None:
                        low, high = np.trunc(v.array - v.error), np.trunc(v.array + v.error)
                        error = np.where(low == high, error, np.inf)
                    error = _some(error)
            return Value(type_, array, error)
        return Value(type_, v.array.astype(NUMPY[type_]), v.error)

    def where_uncertain(self, v: Value, distance: np.ndarray) -> np.ndarray | None:
        """The bound of a decision made at `distance` from its border."""
        if v.error is None:
            return None
        return _some(np.where((v.error > 0) & ~(distance > v.error), np.inf, 0.0))

    def operation(self, type_: str, operator: str, operands: list[Value]) -> Value:
        with np.errstate(all="ignore"):
            if operator == "-" and len(operands) == 1:
                (v,) = operands
                return Value(type_, np.negative(v.array), v.error)
            a, b = operands
            if operator in ("min", "max"):
                return self.extreme(operator, a, b)
            if is_float(type_):
                return self.float_operation(self.computed_in(type_), type_, operator, a, b)
            array = np.asarray(integer_operation(operator, a.array, b.array))
            return Value(type_, array, self.either(a, b))

    def either(self, *operands: Value) -> np.ndarray | None:
        """The bound of something discrete that depends on uncertain operands."""
        bounds = [v.error for v in operands if v.error is not None]
        return _some(np.where(sum(bounds) > 0, np.inf, 0.0)) if bounds else None

    def extreme(self, operator: str, a: Value, b: Value) -> Value:
        """min and max return NaN where one operand is NaN."""
        if a.type == "bool":
            function = np.logical_and if operator == "min" else np.logical_or
            return Value("bool", function(a.array, b.array), self.either(a, b))
        function = np.minimum if operator == "min" else np.maximum
        error = None
        if a.error is not None or b.error is not None:
            error = np.maximum(a.bound(), b.bound())
        return Value(a.type, function(a.array, b.array), error)

    def float_operation(self, kind: str, type_: str, operator: str, a: Value, b: Value) -> Value:
        x, y = a.array, b.array
        function = {
            "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod
        }[operator]  # fmt: skip
        exact = function(x, y)
        if not self.track:
            return Value(type_, round_to(kind, exact))
        bound = None
        if a.error is not None or b.error is not None:
            bound = self.corners(function, exact, [a, b])
        if operator in ("/", "%"):
            # The sign of a zero is not promised, and with it that of the infinity.
            bound = (np.zeros(()) if bound is None else bound) + np.where(
                (y == 0) & (x != 0) & ~np.isnan(x) & (operator == "/"), np.inf, 0.0
            )
        if operator == "/" and self.wide:
            # A constant's reciprocal may multiply what it divides.
            step = 2.0 ** (1 - PRECISION[kind]) * np.abs(np.where(np.isfinite(exact), exact, 0.0))
            bound = (np.zeros(()) if bound is None else bound) + step
        if kind == "double":
            wide = function(x.astype(np.longdouble), y.astype(np.longdouble))
            inexact = _difference(wide, exact.astype(np.longdouble)) > 0
            unit = 2.0**-52 * np.abs(exact) + TINY["double"] * 2.0**-9
            unit = np.where(np.isinf(exact), np.inf, unit)
            bound = (np.zeros(()) if bound is None else bound) + np.where(inexact, unit, 0.0)
        result = self.rounded(kind, exact, bound)
        return Value(type_, result.array, result.error)

    def corners(self, function: object, exact: np.ndarray, operands: list[Value]) -> np.ndarray:
        """What a function of uncertain operands may be off: it is taken at their extremes."""
        bound = np.zeros(exact.shape)
        choices: list[list[np.ndarray]] = [[]]
        for v in operands:
            sides = [v.array]
            if v.error is not None:
                sides = [v.array - v.error, v.array + v.error]
            choices = [[*chosen, side] for chosen in choices for side in sides]
        for chosen in choices:
            bound = np.maximum(bound, _difference(function(*chosen), exact))
        # Infinite bounds stay so, even behind a function that hides them.
        for v in operands:
            if v.error is not None:
                bound = np.where(np.isinf(v.error), np.inf, bound)
        return 1.25 * bound  # the extremes lie at the corners only nearly

    def compare(self, operator: str, a: Value, b: Value) -> Value:
        array = np.asarray(COMPARISONS[operator](a.array, b.array))
        if a.error is None and b.error is None:
            return Value("bool", array)
        bound = a.bound() + b.bound()
        with np.errstate(all="ignore"):
            close = ~(np.abs(np.subtract(a.array, b.array, dtype=np.float64)) > bound)
        same = np.isnan(a.array) | np.isnan(b.array) if is_float(a.type) else False
        close = np.where(np.isinf(bound), True, close & ~same)
        return Value("bool", array, _some(np.where((bound > 0) & close, np.inf, 0.0)))

    def choose(self, condition: Value, yes: Value, no: Value) -> Value:
        array = np.where(condition.array, yes.array, no.array)
        if condition.error is None and yes.error is None and no.error is None:
            return Value(yes.type, array)
        error = np.where(condition.array, yes.bound(), no.bound())
        if condition.error is not None:
            apart = _difference(yes.array.astype(np.float64), no.array.astype(np.float64))
            if not is_float(yes.type):
                apart = np.where(apart > 0, np.inf, 0.0)
            either = apart + np.maximum(yes.bound(), no.bound())
            error = np.where(condition.error > 0, either, error)
        return Value(yes.type, array, _some(error))

    def function(self, type_: str, name: str, operands: list[Value]) -> Value:
        builtin = FUNCTIONS[name]
        with np.errstate(all="ignore"):
            arrays = [v.array for v in operands]
            if type_ == "bool":
                array = builtin.compute(*arrays)
                return Value("bool", array, self.either(*operands))
            if not is_float(type_):
                return Value(type_, np.abs(arrays[0]), operands[0].error)
            kind = self.computed_in(type_)
            if name == "nextafter":
                compute = lambda x, y: next_after(type_, x, y)  # noqa: E731
            else:
                compute = builtin.compute
            exact = np.asarray(compute(*arrays), np.float64)
            if not self.track:
                return Value(type_, round_to(kind, exact))
            bound = self.corners(compute, exact, operands)
            if operands[0].error is not None:
                bound = np.where(operands[0].error > builtin.swings, np.inf, bound)
            if any((x == 0).any() for x in arrays):
                # The sign of a zero is not promised.
                for zero in (0.0, -0.0):
                    signed = [np.where(x == 0, zero, x) for x in arrays]
                    bound = np.maximum(bound, _difference(compute(*signed), exact))
            if not builtin.exact:
                bound = bound + np.where(
                    np.isfinite(exact), FUNCTION_ERROR[kind] * np.abs(exact) + TINY[kind], 0.0
                )
            result = self.rounded(kind, exact, bound)
            return Value(type_, result.array, result.error)


def integer_operation(operator: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if operator in ("/", "%"):
        # NumPy's fmod truncates as C does; a remainder of 0 makes its rounding down exact.
        safe = np.where(b == 0, np.ones((), b.dtype), b)
        negated = (b.dtype.kind == "i") & (safe == -1)
        safe = np.where(negated, np.ones((), b.dtype), safe)
        remainder = np.fmod(a, safe)
        if operator == "%":
            return np.where(b == 0, np.zeros((), a.dtype), remainder)
        quotient = np.floor_divide(a - remainder, safe)
        quotient = np.where(negated, np.negative(a), quotient)
        return np.where(b == 0, np.zeros((), a.dtype), quotient)
    return {"+": np.add, "-": np.subtract, "*": np.multiply}[operator](a, b)


def next_after(type_: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if type_ == "double":
        return np.nextafter(x, y)
    if type_ in ("float", "half"):
        narrow = np.float32 if type_ == "float" else np.float16
        return np.nextafter(x.astype(narrow), y.astype(narrow)).astype(np.float64)
    # The values of a bfloat16 are 2^16 floats apart.
    x, y = np.broadcast_arrays(x, y)
    pattern = np.atleast_1d(x.astype(np.float32)).view(np.int32).reshape(x.shape)
    away = np.where((y > x) == (x > 0), 1, -1) * 0x10000
    stepped = np.atleast_1d(pattern + away.astype(np.int32)).view(np.float32).reshape(x.shape)
    smallest = np.copysign(2.0**-133, y)
    moved = np.where(x == 0, smallest, stepped.astype(np.float64))
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x == y, y, moved))
