"""Statement by statement, over the whole grid of its indices at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tensor_comprehensions._errors import LanguageError, ShapeError
from tensor_comprehensions.reference._arithmetic import (
    NUMPY,
    PRECISION,
    TINY,
    Arithmetic,
    Value,
    flushed,
    is_float,
    round_to,
)
from tensor_comprehensions.reference._ranges import Range, Ranges
from tensor_comprehensions.reference._resolve import Program, accumulates, reads_target, reduced
from tensor_comprehensions.reference._syntax import SizeName, Statement
from tensor_comprehensions.reference._types import (
    COMPARISONS,
    Choice,
    Constant,
    Convert,
    Element,
    IndexValue,
    Operation,
    Result,
    SizeValue,
    Typed,
    Typing,
)

#: How many values of the indices are evaluated at once.
POINTS = 2**20


@dataclass
class Tensor:
    """Elements, their bounds of rounding errors, and the index of the first in each dimension."""

    type: str
    array: np.ndarray
    lower: tuple[int, ...]
    error: np.ndarray | None = None


class Evaluation:
    """One run of a program. `tensors` holds the inputs, then everything assigned."""

    def __init__(
        self,
        program: Program,
        typing: Typing,
        ranges: Ranges,
        tensors: dict[str, Tensor],
        initial: dict[str, Tensor],
        track: bool,
    ) -> None:
        self.program, self.typing, self.ranges = program, typing, ranges
        self.tensors, self.initial, self.track = tensors, initial, track
        sums = sum(s.operator.startswith("+=") and bool(reduced(s)) for s in program.statements)
        # Two sums may have a part in common, which is summed by itself.
        self.least_factors = 3 if sums < 2 else 1

    def run(self) -> None:
        for s, ranges in zip(self.program.statements, self.ranges.statements):
            self.statement(s, ranges)

    def statement(self, s: Statement, ranges: dict[str, Range]) -> None:
        value = self.typing.stored(s)
        target = self.prepare(s)
        over = reduced(s)
        operator = s.operator.rstrip("!")
        if operator == "=" and over:
            raise LanguageError(
                f"= in the statement of {s.target} does not specify a reduction, "
                f"but {', '.join(over)} would be reduced over (line {s.token.line})",
                s.token.line,
                s.token.column,
            )
        if operator.startswith("arg") and not over:
            raise LanguageError(
                f"{s.operator} gives the index of a value, but every index of the statement of "
                f"{s.target} is on the left as well (line {s.token.line})",
                s.token.line,
                s.token.column,
            )
        empty = [n for n in s.left + over if ranges[n][0] >= ranges[n][1]]
        if operator in ("argmin=", "argmax=") and any(n in over for n in empty):
            raise ShapeError(f"{operator} over an empty range has no result")
        if any(n in s.left for n in empty):
            self.tensors[s.target] = target
            return
        names = s.left + over
        wide = bool(over) and operator in ("+=", "*=")
        # All of the right-hand side is read before anything is written.
        array, error = target.array.copy(), None
        if self.track:
            error = np.zeros(array.shape) if target.error is None else target.error.copy()
        for part in self.parts(names, len(s.left), ranges):
            grid = _Grid(self, names, part, wide)
            shape = tuple(part[n][1] - part[n][0] for n in names)
            # Where there are no points, nothing is read.
            where = np.zeros([1] * len(names), bool) if 0 in shape else None
            computed = grid.evaluate(value, where)
            computed = _expand(computed, shape)
            box = tuple(
                slice(part[n][0] - low, part[n][1] - low) for n, low in zip(s.left, target.lower)
            )
            old = None
            if accumulates(s):
                bound = None if target.error is None else target.error[box]
                old = Value(target.type, target.array[box], bound)
            if operator.startswith("arg"):
                # One index has its value, several count from 0.
                start = part[over[0]][0] if len(over) == 1 else 0
                result = self.position(operator, computed, len(s.left), start)
            else:
                result = self.combine(operator, computed, old, len(s.left), target.type)
                if self.track and operator == "+=" and over and self.is_reordered(value):
                    result = _in_any_order(result, computed, len(s.left))
            array[box] = result.array
            if error is not None:
                error[box] = 0 if result.error is None else result.error
        if error is not None and not error.any():
            error = None
        self.tensors[s.target] = Tensor(target.type, array, target.lower, error)

    def parts(self, names: list[str], lefts: int, ranges: dict[str, Range]) -> list[dict]:
        """The domain, cut along its longest dimension on the left where it is large."""
        points = math.prod(ranges[n][1] - ranges[n][0] for n in names)
        if points <= POINTS or not lefts:
            return [ranges]
        name = max(names[:lefts], key=lambda n: ranges[n][1] - ranges[n][0])
        low, high = ranges[name]
        step = max(1, POINTS * (high - low) // points)
        return [
            part
            for first in range(low, high, step)
            for part in (
                [{**ranges, name: (first, min(first + step, high))}]
                if step > 1
                else self.parts(names, lefts, {**ranges, name: (first, first + 1)})
                if high - low > 1
                else [ranges]
            )
        ]

    def prepare(self, s: Statement) -> Tensor:
        """The target as it is before the statement."""
        if s.target in self.tensors:
            return self.tensors[s.target]
        dimensions = self.ranges.dimensions[s.target]
        lower = tuple(low for low, _ in dimensions)
        type_ = self.typing.types[s.target]
        if s.target in self.initial:
            given = self.initial[s.target]
            tensor = Tensor(type_, given.array, lower)
        else:
            if reads_target(s):
                raise ShapeError(
                    f"{s.target} is read before it is assigned: pass its contents in outputs, "
                    f"or start afresh with {s.operator}!"
                )
            shape = self.ranges.shape(s.target)
            # Nothing is promised about what no statement writes.
            error = np.full(shape, np.inf) if self.track else None
            tensor = Tensor(type_, np.zeros(shape, NUMPY[type_]), lower, error)
        self.tensors[s.target] = tensor
        return tensor

    def combine(self, operator: str, v: Value, old: Value | None, lefts: int, type_: str) -> Value:
        """Reduces the trailing dimensions and joins what the target holds."""
        axes = tuple(range(lefts, v.array.ndim))
        arithmetic = Arithmetic(self.track)
        if operator == "=":
            return v
        if not axes and old is None:
            return v
        if operator in ("&&=", "||=") or v.type == "bool":
            every = operator in ("&&=", "*=", "min=")
            array = (np.all if every else np.any)(v.array, axis=axes)
            if old is not None:
                array = (np.logical_and if every else np.logical_or)(array, old.array)
            return Value("bool", array, self.any_uncertain(v, old, axes))
        if operator in ("min=", "max="):
            return self.extreme(operator, v, old, axes)
        if not axes:
            return arithmetic.operation(type_, operator[0], [old, v])
        if not is_float(type_):
            function = np.add if operator == "+=" else np.multiply
            array = function.reduce(v.array, axis=axes, dtype=v.array.dtype)
            array = array if old is None else function(array, old.array)
            return Value(type_, array, self.any_uncertain(v, old, axes))
        if old is not None:  # one more term
            terms = np.concatenate([_flat(old.array, lefts, 1), _flat(v.array, lefts)], axis=-1)
            bound = None
            if v.error is not None or old.error is not None:
                mine = np.broadcast_to(v.bound(), v.array.shape)
                bound = np.concatenate(
                    [
                        _flat(np.broadcast_to(old.bound(), old.array.shape), lefts, 1),
                        _flat(mine, lefts),
                    ],
                    axis=-1,
                )
        else:
            terms = _flat(v.array, lefts)
            bound = None if v.error is None else _flat(v.error, lefts)
        with np.errstate(all="ignore"):
            return (self.sum if operator == "+=" else self.product)(terms, bound, type_)

    def any_uncertain(self, v: Value, old: Value | None, axes: tuple[int, ...]) -> object:
        error = None if v.error is None else np.max(v.error, axis=axes, initial=0)
        if old is not None and old.error is not None:
            error = old.error if error is None else np.maximum(error, old.error)
        return error

    def extreme(self, operator: str, v: Value, old: Value | None, axes: tuple[int, ...]) -> Value:
        least = operator == "min="
        if is_float(v.type):
            start = np.inf if least else -np.inf
        else:
            info = np.iinfo(NUMPY[v.type])
            start = info.max if least else info.min
        function = np.minimum if least else np.maximum
        array = v.array
        for _ in axes:
            # np.min(initial=…) would warn of NaN; the empty reduction is the largest value.
            full = (*array.shape[:-1], 1)
            array = function.reduce(
                np.concatenate([array, np.full(full, start, array.dtype)], axis=-1), axis=-1
            )
        if old is not None:
            array = function(array, old.array)
        return Value(v.type, array, self.any_uncertain(v, old, axes))

    def is_reordered(self, value: Typed) -> bool:
        """Whether some factors of a sum's terms may be summed before the others multiply them."""
        return _is_product(value) and _tensors_multiplied(value) >= self.least_factors

    def position(self, operator: str, v: Value, lefts: int, start: int) -> Value:
        flat = _flat(v.array, lefts)
        array = (np.argmin if operator == "argmin=" else np.argmax)(flat, axis=-1)
        error = None
        if v.error is not None:
            uncertain = _flat(v.error, lefts).max(axis=-1) > 0
            error = np.where(uncertain, np.inf, 0.0)
        return Value("int64", array.astype(np.int64) + start, error)

    def sum(self, terms: np.ndarray, bound: np.ndarray | None, type_: str) -> Value:
        """Accumulated in more digits than the type has, and rounded once."""
        total = np.add.reduce(terms, axis=-1)
        array = round_to(type_, total)
        if not self.track:
            return Value(type_, array)
        # `half` and `bfloat16` accumulate in float.
        kept = "double" if type_ == "double" else "float"
        digits, sizes = PRECISION[kept], np.add.reduce(np.abs(terms), axis=-1)
        unit = np.min(_lowest_bit(terms), axis=-1, initial=np.inf)
        exact = ~(sizes >= 2.0**digits * unit)
        spread = terms.shape[-1] * 2.0**-digits * sizes + TINY[kept] * 2.0**-9
        error = np.where(exact, 0.0, spread)
        # Beyond the largest value the result depends on the order.
        overflow = sizes > (2.0**127 if kept == "float" else 2.0**1022)
        error = np.where(overflow & np.isfinite(total), np.inf, error)
        if bound is not None:
            error = error + np.add.reduce(bound, axis=-1)
        if type_ in ("half", "bfloat16"):
            inexact = (array != total) & np.isfinite(total)
            last = 2.0 ** (1 - PRECISION[type_]) * np.abs(array) + TINY[type_] * 2.0**-9
            error = error + np.where(inexact & (error > 0), last, 0.0)
            error = np.where(np.isinf(array) & np.isfinite(total), np.inf, error)
            error = error + flushed(type_, array)
        error = np.where(np.isnan(total) & ~np.isnan(error) & np.isfinite(error), 0.0, error)
        error = np.where(np.isnan(error), np.where(np.isfinite(total), np.inf, 0.0), error)
        return Value(type_, array, error if error.any() else None)

    def product(self, terms: np.ndarray, bound: np.ndarray | None, type_: str) -> Value:
        total = np.multiply.reduce(terms, axis=-1)
        array = round_to(type_, total)
        if not self.track:
            return Value(type_, array)
        kept = "double" if type_ == "double" else "float"
        digits = PRECISION[kept]
        odd = np.abs(terms) / _lowest_bit(terms)  # without factors of 2; 0 for 0
        length = np.add.reduce(np.where(odd > 1, np.log2(np.maximum(odd, 1)) + 1e-9, 0), axis=-1)
        error = np.where(length < digits, 0.0, terms.shape[-1] * 2.0**-digits * np.abs(total))
        # In another order it may leave the type on the way.
        size = np.abs(terms)
        up = np.add.reduce(np.log2(np.maximum(size, 1.0)), axis=-1)
        down = np.add.reduce(np.log2(np.minimum(np.where(size == 0, 1.0, size), 1.0)), axis=-1)
        limit = 126 if kept == "float" else 1021
        finite = np.isfinite(terms).all(axis=-1)
        error = np.where(((up > limit) | (down < -limit)) & finite, np.inf, error)
        error = np.where(np.isnan(error), np.where(np.isnan(total), 0.0, np.inf), error)
        if bound is not None and bound.any():
            relative = np.where(bound > 0, bound / np.maximum(size, TINY[kept]), 0.0)
            growth = np.multiply.reduce(1 + relative, axis=-1) - 1
            more = np.where((terms == 0) & (bound > 0), np.inf, 0.0).max(axis=-1)
            error = error + 2 * growth * np.abs(total) + more
            error = np.where(np.isnan(error), np.inf, error)
        if type_ in ("half", "bfloat16"):
            last = 2.0 ** (1 - PRECISION[type_]) * np.abs(array) + TINY[type_] * 2.0**-9
            inexact = (array != total) & np.isfinite(total)
            error = error + np.where(inexact & (error > 0), last, 0.0)
            error = np.where(np.isinf(array) & np.isfinite(total), np.inf, error)
            error = error + flushed(type_, array)
        return Value(type_, array, error if error.any() else None)


def _is_product(value: Typed) -> bool:
    while isinstance(value, Convert) or (isinstance(value, Operation) and len(value.operands) == 1):
        value = value.operand if isinstance(value, Convert) else value.operands[0]
    return isinstance(value, Operation) and value.operator == "*"


def _tensors_multiplied(value: Typed) -> int:
    """How many factors of a product read tensors."""
    if isinstance(value, Operation) and (value.operator == "*" or len(value.operands) == 1):
        return sum(_tensors_multiplied(operand) for operand in value.operands)
    if isinstance(value, Convert):
        return _tensors_multiplied(value.operand)
    return int(_reads(value))


def _reads(value: Typed) -> bool:
    return isinstance(value, Element) or any(map(_reads, _operands(value)))


def _in_any_order(result: Value, terms: Value, lefts: int) -> Value:
    """A sum of products whose factors may be summed first: inf - inf in one order is inf * (1 - 2)
    in another.
    """
    special = ~np.isfinite(_flat(terms.array, lefts)).all(axis=-1)
    return Value(result.type, result.array, np.where(special, np.inf, result.bound()))


def _lowest_bit(x: np.ndarray) -> np.ndarray:
    """The value of the last bit that is set; infinite for 0."""
    mantissa, exponent = np.frexp(np.where(np.isfinite(x), x, 0.0))
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    return np.where(whole == 0, np.inf, np.ldexp((whole & -whole).astype(float), exponent - 53))


def _flat(array: np.ndarray, lefts: int, last: int | None = None) -> np.ndarray:
    """With everything behind the first dimensions as one."""
    behind = math.prod(array.shape[lefts:]) if last is None else last
    return array.reshape(*array.shape[:lefts], behind)


def _expand(v: Value, shape: tuple[int, ...]) -> Value:
    error = None if v.error is None else np.broadcast_to(v.error, shape)
    return Value(v.type, np.broadcast_to(v.array, shape), error)


class _Grid:
    """Expressions over a box of values of a statement's indices.

    Every value has one dimension for each index, 1 long where it does not depend on it. `where`
    says at which points a value counts: reads elsewhere may leave their tensors and give 0.
    """

    def __init__(
        self, run: Evaluation, names: list[str], ranges: dict[str, Range], wide: bool
    ) -> None:
        self.run, self.arithmetic = run, Arithmetic(run.track, wide)
        self.axes: dict[str, np.ndarray] = {}
        for k, name in enumerate(names):
            shape = [1] * len(names)
            shape[k] = -1
            self.axes[name] = np.arange(*ranges[name], dtype=np.int32).reshape(shape)

    def evaluate(self, e: Typed, where: np.ndarray | None) -> Value:
        a = self.arithmetic
        if isinstance(e, Constant):
            return Value(e.type, np.asarray(e.value, NUMPY[e.type]))
        if isinstance(e, IndexValue):
            return Value(e.type, self.axes[e.name])
        if isinstance(e, SizeValue):
            ranges = self.run.ranges
            size = (
                ranges.sizes[e.size.id]
                if isinstance(e.size, SizeName)
                else ranges.shape(e.size.tensor)[e.size.dimension]
            )
            return Value(e.type, np.asarray(size, np.int32))
        if isinstance(e, Element):
            return self.read(e, where)
        if isinstance(e, Convert):
            return a.convert(e.type, self.evaluate(e.operand, where))
        if isinstance(e, Choice):
            condition = self.evaluate(e.condition, where)
            yes = self.evaluate(e.yes, _and(where, condition.array))
            no = self.evaluate(e.no, _and(where, ~condition.array))
            return a.choose(condition, yes, no)
        if isinstance(e, Result):
            return a.function(e.type, e.function, [self.evaluate(o, where) for o in e.operands])
        assert isinstance(e, Operation)
        if e.operator in ("&&", "||"):
            left = self.evaluate(e.operands[0], where)
            counts = left.array if e.operator == "&&" else ~left.array
            right = self.evaluate(e.operands[1], _and(where, counts))
            decided = Value("bool", np.asarray(e.operator == "||"))
            branches = (right, decided) if e.operator == "&&" else (decided, right)
            return a.choose(left, *branches)
        operands = [self.evaluate(o, where) for o in e.operands]
        if e.operator == "!":
            return Value("bool", ~operands[0].array, operands[0].error)
        if e.operator in COMPARISONS:
            return a.compare(e.operator, *operands)
        return a.operation(e.type, e.operator, operands)

    def read(self, e: Element, where: np.ndarray | None) -> Value:
        if e.tensor not in self.run.tensors:
            self.take_initial(e)
        tensor = self.run.tensors[e.tensor]
        if not e.subscripts:
            return Value(e.type, tensor.array, tensor.error)
        places, uncertain = [], None
        for d, subscript in enumerate(e.subscripts):
            index = self.subscript(subscript, where)
            if index.error is not None:
                uncertain = index.error if uncertain is None else uncertain + index.error
            place = index.array - tensor.lower[d]
            outside = (place < 0) | (place >= tensor.array.shape[d])
            if outside.any():
                counted = np.broadcast_arrays(_and(where, outside), index.array)
                if counted[0].any():
                    condition = "" if where is None else ", under a condition that allows it"
                    raise ShapeError(
                        f"reads {e.tensor} outside (line {e.token.line}): subscript {d} reaches "
                        f"{counted[1][counted[0]][0]}, but the dimension holds "
                        f"{tensor.lower[d]}:{tensor.lower[d] + tensor.array.shape[d]}{condition}"
                    )
                place = np.where(outside, 0, place)
            places.append(place.astype(np.int64))
        if 0 in tensor.array.shape:  # read nowhere that counts
            shape = np.broadcast_shapes(*(p.shape for p in places))
            return Value(e.type, np.zeros(shape, NUMPY[e.type]))
        array = tensor.array[tuple(places)]
        error = None if tensor.error is None else tensor.error[tuple(places)]
        if uncertain is not None:
            error = np.where(uncertain > 0, np.inf, 0 if error is None else error)
        return Value(e.type, array, error)

    def subscript(self, e: Typed, where: np.ndarray | None) -> Value:
        """What indices, sizes, scalars and data of 32 bits give does not wrap around."""
        if self.wraps_around(e):
            index = self.evaluate(e, where)
            return Value(index.type, index.array.astype(np.int64), index.error)
        array = self.exact(e, where)[0]
        return Value(e.type, array)

    def wraps_around(self, e: Typed) -> bool:
        """Whether data takes part in a subscript of which 64 bits may hold no step: of that many
        bits itself, or as a divisor."""
        if isinstance(e, Element):
            return self.is_data(e) and e.type not in ("int8", "int16", "int32")
        divides = isinstance(e, Operation) and e.operator in ("/", "%")
        if divides and self.is_data(e.operands[1]):
            return True
        return any(self.wraps_around(operand) for operand in _operands(e))

    def is_data(self, e: Typed) -> bool:
        if isinstance(e, Element):
            return e.tensor not in self.run.ranges.scalars
        return any(self.is_data(operand) for operand in _operands(e))

    def exact(self, e: Typed, where: np.ndarray | None) -> tuple[np.ndarray, int]:
        """Integers as they are, in as many bits as they take, and a bound of their magnitude."""
        if e.type not in ("int32", "int64"):
            # Narrow and unsigned types are asked for by casts, which wrap around.
            array = self.evaluate(e, where).array.astype(np.int64)
            return array, int(np.abs(array).max(initial=0))
        if isinstance(e, Convert) and e.operand.type in ("int32", "int64"):
            return self.exact(e.operand, where)
        if isinstance(e, Choice):
            condition = self.holds(e.condition, where)
            yes = self.exact(e.yes, _and(where, condition))
            no = self.exact(e.no, _and(where, ~condition))
            return np.where(condition, yes[0], no[0]), max(yes[1], no[1])
        if isinstance(e, Result):
            array, bound = self.exact(e.operands[0], where)
            return np.abs(array), bound
        if not isinstance(e, Operation):
            array = self.evaluate(e, where).array.astype(np.int64)
            return array, int(np.abs(array).max(initial=0))
        operands = [self.exact(operand, where) for operand in e.operands]
        a, b = (
            [np.zeros((), np.int64), operands[0][0]]
            if len(operands) == 1
            else [array for array, _ in operands]
        )
        bounds = [bound for _, bound in operands]
        bound = math.prod(max(1, x) for x in bounds) if e.operator == "*" else sum(bounds)
        if bound >= 2**62:
            a, b = a.astype(object), b.astype(object)
        array = np.asarray(_EXACT[e.operator](a, b))
        return array, bound

    def holds(self, e: Typed, where: np.ndarray | None) -> np.ndarray:
        """A condition inside a subscript."""
        if isinstance(e, Operation) and e.operator in COMPARISONS:
            if all(operand.type in ("int32", "int64") for operand in e.operands):
                a, b = (self.exact(operand, where)[0] for operand in e.operands)
                return np.asarray(COMPARISONS[e.operator](a, b), np.bool_)
        elif isinstance(e, Operation) and e.operator in ("&&", "||", "!"):
            sides = [self.holds(operand, where) for operand in e.operands]
            if e.operator == "!":
                return ~sides[0]
            return sides[0] & sides[1] if e.operator == "&&" else sides[0] | sides[1]
        return self.evaluate(e, where).array

    def take_initial(self, e: Element) -> None:
        """A result that is read before it is assigned."""
        run = self.run
        if e.tensor not in run.initial:
            raise ShapeError(
                f"{e.tensor} is read before it is assigned (line {e.token.line}): "
                f"pass its contents in outputs"
            )
        lower = tuple(low for low, _ in run.ranges.dimensions[e.tensor])
        given = run.initial[e.tensor]
        run.tensors[e.tensor] = Tensor(given.type, given.array, lower)


def _operands(e: Typed) -> tuple[Typed, ...]:
    if isinstance(e, Choice):
        return (e.condition, e.yes, e.no)
    if isinstance(e, Convert):
        return (e.operand,)
    return e.operands if isinstance(e, (Operation, Result)) else ()


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Towards zero; 0 by zero."""
    safe = np.where(b == 0, 1, b)
    magnitude = np.abs(a) // np.abs(safe)
    return np.where(b == 0, 0, np.where((a < 0) == (safe < 0), magnitude, -magnitude))


_EXACT = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
    "%": lambda a, b: np.where(b == 0, 0, a - _quotient(a, b) * b),
    "min": np.minimum,
    "max": np.maximum,
}


def _and(where: np.ndarray | None, condition: np.ndarray) -> np.ndarray:
    return condition if where is None else where & condition
