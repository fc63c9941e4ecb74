"""Range inference for given sizes, in the rounds of docs/language.md."""

from __future__ import annotations

from dataclasses import dataclass

from tensor_comprehensions._errors import LanguageError, ShapeError
from tensor_comprehensions.reference._resolve import Program, accumulates, reduced
from tensor_comprehensions.reference._syntax import (
    Binary,
    Cast,
    Expression,
    Index,
    Number,
    Read,
    SizeName,
    SizeOf,
    Statement,
    Unary,
    walk,
)
from tensor_comprehensions.reference._types import divide

Range = tuple[int, int]  # the end is left out


@dataclass(eq=False)
class Quotient:
    """A sum of indices divided by a positive integer, rounded down. Each is one of its own."""

    dividend: Affine
    divisor: int


@dataclass
class Affine:
    """A sum of an integer and multiples of indices and of quotients of such sums."""

    constant: int
    factors: dict[str | Quotient, int]

    def plus(self, other: Affine, times: int) -> Affine:
        factors = dict(self.factors)
        for name, factor in other.factors.items():
            factors[name] = factors.get(name, 0) + times * factor
        return Affine(
            self.constant + times * other.constant, {n: f for n, f in factors.items() if f}
        )

    def indices(self) -> list[str]:
        """One for every place that it stands at."""
        found = []
        for term in self.factors:
            found += term.dividend.indices() if isinstance(term, Quotient) else [term]
        return found


class Ranges:
    """The ranges of all indices, and of every dimension of the tensors that are assigned.

    `sizes` gives the values of size names, `scalars` those of integer scalars, `inputs` the shapes
    of inputs.
    """

    def __init__(
        self,
        program: Program,
        sizes: dict[str, int],
        scalars: dict[str, int],
        inputs: dict[str, tuple[int, ...]],
    ) -> None:
        self.program, self.sizes, self.scalars = program, dict(sizes), scalars
        self.dimensions: dict[str, list[Range | None]] = {
            name: [(0, size) for size in shape] for name, shape in inputs.items()
        }
        for s in program.statements:
            self.dimensions.setdefault(s.target, [None] * len(s.left))
        self.statements: list[dict[str, Range]] = [{} for _ in program.statements]
        self.solve()
        self.check()

    # Values that are known before the kernel runs.

    def known(self, e: Expression) -> int | None:
        affine = self.affine(e)
        return affine.constant if affine and not affine.factors else None

    def affine(self, e: Expression) -> Affine | None:
        if isinstance(e, Number):
            return Affine(e.value, {}) if isinstance(e.value, int) else None
        if isinstance(e, Index):
            return Affine(0, {e.id: 1})
        if isinstance(e, SizeName):
            return Affine(self.sizes[e.id], {}) if e.id in self.sizes else None
        if isinstance(e, SizeOf):
            range_ = self.dimensions[e.tensor][e.dimension]
            return Affine(range_[1] - range_[0], {}) if range_ else None
        if isinstance(e, Read):
            return Affine(self.scalars[e.tensor], {}) if e.tensor in self.scalars else None
        if isinstance(e, Cast):
            inside = self.affine(e.operand) if "int" in e.type else None
            if inside is None or inside.factors:
                return inside
            bits, least = int(e.type.lstrip("uint")), 0
            if not e.type.startswith("u"):
                least = -(1 << (bits - 1))
            return Affine((inside.constant - least) % (1 << bits) + least, {})
        if isinstance(e, Unary):
            inside = self.affine(e.operand)
            return Affine(0, {}).plus(inside, -1) if inside and e.operator == "-" else None
        if isinstance(e, Binary):
            left, right = self.affine(e.left), self.affine(e.right)
            if left is None or right is None:
                return None
            if e.operator in ("+", "-"):
                return left.plus(right, 1 if e.operator == "+" else -1)
            if e.operator == "*" and not (left.factors and right.factors):
                by, of = (right, left) if not right.factors else (left, right)
                return Affine(0, {}).plus(of, by.constant)
            if e.operator == "/" and left.factors and not right.factors and right.constant > 0:
                return Affine(0, {Quotient(left, right.constant): 1})
            if e.operator in ("/", "%") and not left.factors and not right.factors:
                quotient = divide(left.constant, right.constant)
                remainder = left.constant - quotient * right.constant if right.constant else 0
                return Affine(quotient if e.operator == "/" else remainder, {})
        return None

    # The rounds.

    def solve(self) -> None:
        for s, ranges in zip(self.program.statements, self.statements):
            self.take_where(s, ranges)
        while self.sweep() or self.fill() or self.declare():
            pass
        for s, ranges in zip(self.program.statements, self.statements):
            for name in s.left + reduced(s):
                if name not in ranges:
                    raise LanguageError(
                        f"Could not infer ranges for free variables. Use a where clause: "
                        f"{name} has no range in the statement of {s.target} (line {s.token.line})",
                        s.token.line,
                        s.token.column,
                    )

    def take_where(self, s: Statement, ranges: dict[str, Range]) -> bool:
        changed = False
        for name, (first, last) in s.ranges.items():
            low, high = self.known(first), self.known(last)
            if name not in ranges and low is not None and high is not None:
                if high < low:
                    raise self.empty(s, name, low, high)
                ranges[name] = (low, high)
                changed = True
        return changed

    def sweep(self) -> bool:
        """Once through all statements, each to its end."""
        changed = False
        for s, ranges in zip(self.program.statements, self.statements):
            changed |= self.take_where(s, ranges)
            while self.round(s, ranges):
                changed = True
            changed |= self.give_sizes(s, ranges)
        return changed

    def round(self, s: Statement, ranges: dict[str, Range]) -> bool:
        bounds: dict[str, Range] = {}
        for tensor, d, subscript in self.accesses(s):
            dimension = self.dimensions[tensor][d]
            if dimension is None:
                continue
            low, high = dimension
            affine = self.affine(subscript)
            if affine is None:
                continue
            names = affine.indices()
            unsolved = [n for n in names if n not in ranges]
            if len(set(names)) < len(names):
                continue  # one beside a quotient of itself
            # Indices with a range of their own wait for it.
            if len(unsolved) != 1 or unsolved[0] in s.ranges:
                continue
            (name,) = unsolved
            bound = self.bound(affine, name, ranges, low, high)
            if name in bounds:
                bound = max(bound[0], bounds[name][0]), min(bound[1], bounds[name][1])
            bounds[name] = bound
        for name, bound in bounds.items():
            if bound[1] < bound[0]:
                raise self.empty(s, name, *bound)
        ranges.update(bounds)
        return bool(bounds)

    @staticmethod
    def empty(s: Statement, name: str, low: int, high: int) -> ShapeError:
        return ShapeError(
            f"the range of {name} in the statement of {s.target} (line {s.token.line}) "
            f"would be {low}:{high}"
        )

    def reach(self, affine: Affine, ranges: dict[str, Range]) -> Range:
        """The least and the largest value of a sum, both included.

        An empty range leaves as much room as the formula says: O(h) of I(h + k) * W(k) has
        H - K + 1 elements for K = 0, too.
        """
        least = most = affine.constant
        for term, factor in affine.factors.items():
            if isinstance(term, Quotient):
                first, last = (end // term.divisor for end in self.reach(term.dividend, ranges))
            else:
                first, last = ranges[term][0], ranges[term][1] - 1
            if factor < 0:
                first, last = last, first
            least, most = least + factor * first, most + factor * last
        return least, most

    def bound(
        self, affine: Affine, name: str, ranges: dict[str, Range], low: int, high: int
    ) -> Range:
        """The values of one index that keep a sum in `low:high` whatever the others are."""
        own = next(
            term
            for term in affine.factors
            if term == name or (isinstance(term, Quotient) and name in term.dividend.indices())
        )
        factor = affine.factors[own]
        others = {term: f for term, f in affine.factors.items() if term != own}
        least, most = self.reach(Affine(affine.constant, others), ranges)
        first, last = low - least, high - 1 - most  # of factor * own
        if factor < 0:
            first, last, factor = -last, -first, -factor
        first, end = -(-first // factor), last // factor + 1
        if isinstance(own, Quotient):
            return self.bound(own.dividend, name, ranges, first * own.divisor, end * own.divisor)
        return first, end

    def accesses(self, s: Statement) -> list[tuple[str, int, Expression]]:
        found = []
        for expression in [s.value, *s.exists]:
            for e in walk(expression):
                if isinstance(e, Read):
                    found += [(e.tensor, d, subscript) for d, subscript in enumerate(e.subscripts)]
        if accumulates(s):
            found += [(s.target, d, Index(name)) for d, name in enumerate(s.left)]
        return found

    def give_sizes(self, s: Statement, ranges: dict[str, Range]) -> bool:
        """A statement's ranges are its target's size, or extend it."""
        changed = False
        dimensions = self.dimensions[s.target]
        for d, name in enumerate(s.left):
            if name not in ranges:
                continue
            wanted, have = ranges[name], dimensions[d]
            if have is not None:
                if name not in s.ranges or accumulates(s):
                    continue
                wanted = min(have[0], wanted[0]), max(have[1], wanted[1])
            changed |= dimensions[d] != wanted
            dimensions[d] = wanted
        return changed

    def fill(self) -> bool:
        """An index on the left that is still unsolved runs over the dimension that it writes."""
        for s, ranges in zip(self.program.statements, self.statements):
            for d, name in enumerate(s.left):
                dimension = self.dimensions[s.target][d]
                if name not in ranges and name not in s.ranges and dimension is not None:
                    ranges[name] = dimension
                    return True
        return False

    def declare(self) -> bool:
        """Sizes in the return list, where nothing else gives one."""
        for name, parameter in self.program.declared.items():
            for d, size in enumerate(parameter.sizes or []):
                value = self.known(size)
                dimensions = self.dimensions.get(name)
                if dimensions and dimensions[d] is None and value is not None:
                    dimensions[d] = (0, value)
                    return True
        return False

    def shape(self, tensor: str) -> tuple[int, ...]:
        return tuple(high - low for low, high in self.dimensions[tensor])

    def check(self) -> None:
        """What must hold between sizes, and that int32 holds all of them."""
        for s, ranges in zip(self.program.statements, self.statements):
            for name, (low, high) in ranges.items():
                if low < -(2**31) or high > 2**31:
                    raise ShapeError(
                        f"the range {low}:{high} of {name} in the statement of {s.target} "
                        f"(line {s.token.line}) does not fit 32 bits"
                    )
        for name in self.dimensions:
            if None in self.dimensions[name]:
                raise LanguageError(f"the size of {name} is not known")
            if max(self.shape(name), default=0) >= 2**31:
                raise ShapeError(f"{name} has sizes {self.shape(name)}, which do not fit 32 bits")
        for name, parameter in self.program.declared.items():
            for d, size in enumerate(parameter.sizes or []):
                actual = self.shape(name)[d]
                if isinstance(size, SizeName):
                    self.sizes.setdefault(size.id, actual)
                if self.known(size) != actual:
                    raise ShapeError(
                        f"dimension {d} of {name} is declared as {self.known(size)}, "
                        f"but its range has {actual} elements"
                    )
        for equal in self.program.equal:
            left, right = self.known(equal.left), self.known(equal.right)
            if left != right:
                raise ShapeError(f"{equal.what} is {left}, expected {right}")
        for s, ranges in zip(self.program.statements, self.statements):
            if any(ranges[name][0] >= ranges[name][1] for name in s.left):
                continue  # it writes nothing
            for d, name in enumerate(s.left):
                low, high = self.dimensions[s.target][d]
                first, last = ranges[name]
                if first < low or last > high:
                    raise ShapeError(
                        f"writes {s.target} outside (line {s.token.line}): {name} runs over "
                        f"{first}:{last}, but dimension {d} holds {low}:{high}"
                    )
