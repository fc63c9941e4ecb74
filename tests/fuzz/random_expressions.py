"""Random well-typed expressions as text, and the inputs that they read.

Expressions are drawn for a type: its parts have types that meet in it. The planned ranges of a
statement's indices say how large a tensor must be that a drawn subscript reads.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from cases import FLOATS, Tensor

from tensor_comprehensions.reference._functions import FUNCTIONS as BUILTINS
from tensor_comprehensions.reference._functions import function_name
from tensor_comprehensions.reference._types import promote

TYPES = {
    **{"float": 8, "double": 3, "half": 3, "bfloat16": 2, "bool": 2, "int32": 3, "int64": 2},
    **{"int16": 1, "int8": 1, "uint8": 2, "uint16": 1, "uint32": 1, "uint64": 1},
}
# Every operation on these is several instructions, and minima of products take seconds to compile.
NARROW = ("half", "bfloat16")

#: How many arguments the built-in functions take.
RANKS = {name: builtin.arguments for name, builtin in BUILTINS.items()}
# Whose results are not rounded.
EXACT_FUNCTIONS = ["fabs", "floor", "ceil", "round", "rint", "trunc", "fmin", "fmax", "nextafter"]
#: All others that give a float; a few spelled as C does for floats.
FUNCTIONS = [
    name for name in RANKS if name not in EXACT_FUNCTIONS and name not in ("abs", "isinf", "isnan")
] + ["sqrtf", "expf", "fabsf"]


@dataclass
class Known:
    """A tensor that can be read: its type and the index range of every dimension."""

    name: str
    type: str
    ranges: list[tuple[int, int]]


@dataclass
class Drawn:
    """A statement that is being drawn."""

    left: list[str]
    reduced: list[str]
    ranges: dict[str, tuple[int, int]]  # planned
    where: set[str] = field(default_factory=set)  # indices that need their range written
    lets: list[tuple[str, str, str]] = field(default_factory=list)  # name, type, text
    exists: list[str] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    sizes: dict[str, list[str]] = field(default_factory=dict)
    target: str = ""  # a tensor that exists; its own elements are read only where they are written
    mentioned: set[str] = field(default_factory=set)

    @property
    def indices(self) -> list[str]:
        return self.left + self.reduced


class ExpressionGenerator:
    """Draws for one statement after the other; `drawn` is the one at hand."""

    def __init__(self, seed: int, prefix: str) -> None:
        self.r = random.Random(seed)
        self.prefix, self.counter = prefix, 0
        self.inputs: list[Tensor] = []
        self.sizes: dict[str, list[str]] = {}  # of inputs, as written
        self.targets: list[Known] = []
        self.drawn = Drawn([], [], {})
        # Most programs stay with a type or two; a few mix all of them.
        types = self.r.choices(list(TYPES), TYPES.values(), k=2)
        self.types = list(TYPES) if self.r.random() < 0.15 else types
        self.exact = self.r.random() < 0.6  # no function that has to be rounded

    def chance(self, probability: float) -> bool:
        return self.r.random() < probability

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.prefix and 'h'}{self.counter}"

    def draw_type(self) -> str:
        return self.r.choice(self.types)

    def expression(self, type_: str, depth: int) -> str:
        r = self.r
        if depth == 0 or self.chance(0.25):
            return self.leaf(type_)
        draw = r.random()
        if type_ == "bool":
            return self.condition(depth)
        if draw < 0.55:
            return self.arithmetic(type_, depth)
        if draw < 0.67:
            condition = self.condition(depth - 1)
            yes, no = self.expression(type_, depth - 1), self.expression(type_, depth - 1)
            if self.chance(0.15):
                no = self.literal(type_)
            return f"({condition} ? {yes} : {no})"
        if draw < 0.77:
            return self.guarded(type_, depth)
        if draw < 0.83:
            other = self.r.choice(list(TYPES))
            return f"{type_}({self.expression(other, depth - 1)})"
        if draw < 0.87:
            return f"(-{self.leaf(type_)})"
        if type_ in FLOATS:
            return self.function(type_, depth)
        return f"abs({self.expression(type_, depth - 1)})"

    def arithmetic(self, type_: str, depth: int) -> str:
        a = self.expression(type_, depth - 1)
        narrower = [t for t in TYPES if promote(t, type_) == type_ and t != "bool"]
        other = type_ if self.chance(0.7) else self.r.choice(narrower)
        b = self.literal(type_) if self.chance(0.15) else self.expression(other, depth - 1)
        return self.meet(a, b, type_, swap=True)

    def meet(self, a: str, b: str, type_: str, swap: bool = False) -> str:
        if type_ == "bool":
            return f"({a} {self.r.choice(['&&', '||', '==', '!='])} {b})"
        if swap and self.chance(0.3):
            a, b = b, a
        operator = self.r.choice(["+", "+", "-", "*", "*", "min", "max", "/", "%"])
        if operator in ("/", "%") and self.chance(0.6):
            operator = "-"
        if operator in ("min", "max"):
            return f"{operator}({a}, {b})"
        if self.chance(0.06):
            return f"{a} {operator} {b}"  # binds as it happens
        return f"({a} {operator} {b})"

    def condition(self, depth: int) -> str:
        r = self.r
        draw = r.random()
        if depth > 0 and draw < 0.2:
            sides = self.condition(depth - 1), self.condition(depth - 1)
            return f"({sides[0]} {r.choice(['&&', '||'])} {sides[1]})"
        if depth > 0 and draw < 0.27:
            return f"!({self.condition(depth - 1)})"
        operator = r.choice(["<", "<=", ">", ">=", "==", "!="])
        if draw < 0.6 and self.drawn.indices:
            name = r.choice(self.drawn.indices)
            low, high = self.drawn.ranges[name]
            other = r.choice(self.drawn.indices)
            left = r.choice([name, name, f"{name} % 2", f"{name} + {other}", f"2 * {name}"])
            return f"({left} {operator} {self.parenthesized(r.randint(low, high))})"
        if draw < 0.7:
            return self.leaf("bool")
        if draw < 0.74:
            type_ = r.choice(FLOATS)
            return f"{r.choice(['isnan', 'isinf'])}({self.expression(type_, max(0, depth - 1))})"
        type_ = self.draw_type()
        type_ = "int32" if type_ == "bool" else type_
        a = self.expression(type_, max(0, depth - 1))
        b = self.literal(type_) if self.chance(0.4) else self.leaf(type_)
        return f"({a} {operator} {b})"

    @staticmethod
    def parenthesized(value: int) -> str:
        return f"({value})" if value < 0 else f"{value}"

    def function(self, type_: str, depth: int) -> str:
        if type_ == "float" and self.chance(0.15):
            integer = self.r.choice(["int32", "uint8", "int64"])
            return (
                f"{self.r.choice(['sqrt', 'fabs', 'floor'])}({self.expression(integer, depth - 1)})"
            )
        name = self.r.choice(EXACT_FUNCTIONS if self.exact else EXACT_FUNCTIONS + FUNCTIONS)
        arguments = [self.expression(type_, depth - 1)]
        while len(arguments) < RANKS[function_name(name)]:
            arguments.append(self.literal(type_) if self.chance(0.3) else self.leaf(type_))
        return f"{name}({', '.join(arguments)})"

    def literal(self, type_: str) -> str:
        r = self.r
        if type_ == "bool":
            return r.choice(["true", "false", f"({r.randint(0, 2)} < {r.randint(0, 2)})"])
        if type_ in FLOATS:
            value = r.choice(["0.5", "2.", "1.5f", "1e1", "0.25", "3", "0", "1", "-1", "-2.5", "4"])
            if not self.exact and self.chance(0.2):
                value = r.choice(["0.1", "1e-3", "3.14159"])
        else:
            value = r.choice(["0", "1", "2", "3", "5", "7", "0x1F", "-1", "-3"])
            if type_.startswith("u"):
                value = value.lstrip("-")
        return f"({value})" if value.startswith("-") else value

    def leaf(self, type_: str) -> str:
        r, d = self.r, self.drawn
        lets = [name for name, of, _ in d.lets if of == type_]
        if lets and self.chance(0.5):
            return r.choice(lets)
        draw = r.random()
        if type_ == "int32" and draw < 0.2 and d.indices:
            return self.mention(r.choice(d.indices))
        if type_ == "int32" and draw < 0.28:
            tensors = [t for t in self.inputs if t.shape]
            if tensors:
                t = r.choice(tensors)
                return r.choice([f"{t.name}.{len(t.shape) - 1}", self.sizes[t.name][0]])
        if draw < 0.05 and type_ != "bool":
            return self.scalar(type_)
        known = [t for t in self.targets if t.type == type_ and t.name != d.target]
        if known and draw < 0.45:
            return self.read(r.choice(known))
        inputs = [t for t in self.inputs if t.type == type_ and t.shape and t.kind != "index"]
        if inputs and (draw < 0.6 or len(self.inputs) > 8):
            t = r.choice(inputs)
            return self.read(Known(t.name, t.type, [(0, size) for size in t.shape]))
        if not d.indices:
            return self.new_read(type_, [])
        return self.new_read(type_, r.sample(d.indices, r.randint(1, min(3, len(d.indices)))))

    def mention(self, index: str) -> str:
        self.drawn.mentioned.add(index)
        return index

    def scalar(self, type_: str) -> str:
        scalars = [t for t in self.inputs if t.type == type_ and t.shape is None]
        if scalars:
            return scalars[0].name
        return self.add(Tensor(self.fresh("s"), type_, None, "small")).name

    def add(self, tensor: Tensor) -> Tensor:
        self.drawn.inputs.append(tensor)
        return tensor

    def data(self, type_: str) -> str:
        """What an input holds."""
        if type_ in FLOATS:
            if self.exact:
                return self.r.choice(["whole", "small"])
            return self.r.choice(["whole", "small", "any", "any", "special"])
        return "any" if self.chance(0.2) else "small"

    def guarded(self, type_: str, depth: int) -> str:
        """A read that a condition keeps inside its tensor."""
        d, r = self.drawn, self.r
        wide = [n for n in d.indices if d.ranges[n][1] - d.ranges[n][0] > 1 and d.ranges[n][0] >= 0]
        if not wide:
            return self.leaf(type_)
        name = r.choice(wide)
        low, high = d.ranges[name]
        cut = r.randint(low + 1, high - 1)
        d.where.add(name)
        self.mention(name)
        tensor = Tensor(self.fresh("A"), type_, (high - cut,), self.data(type_))
        self.add(tensor)
        read = f"{tensor.name}({name} - {cut})"
        if type_ == "bool":
            return f"({name} >= {cut} && {read})"
        inside = r.choice([f"{name} >= {cut}", f"{name} > {cut - 1}", f"!({name} < {cut})"])
        if self.chance(0.3):
            return f"({inside} ? {read} : {self.expression(type_, depth - 1)})"
        if self.chance(0.5):
            outside = r.choice([f"{name} < {cut}", f"{cut} > {name}"])
            return f"({outside} ? {self.expression(type_, depth - 1)} : {read})"
        test = f"{inside} && {read} == {read}"
        return f"({test} ? {read} : {self.expression(type_, depth - 1)})"

    def read(self, tensor: Known) -> str:
        if not tensor.ranges:
            return tensor.name
        subscripts = [self.inside(*range_) for range_ in tensor.ranges]
        return f"{tensor.name}({', '.join(subscripts)})"

    def inside(self, low: int, high: int) -> str:
        """A subscript between bounds that are given."""
        d, r = self.drawn, self.r
        fitting = [n for n in d.indices if low <= d.ranges[n][0] and d.ranges[n][1] <= high]
        same = [n for n in fitting if d.ranges[n] == (low, high)]
        draw = r.random()
        if same and draw < 0.6:
            return self.mention(r.choice(same))
        if fitting and draw < 0.75:
            return self.mention(r.choice(fitting))
        if d.indices and draw < 0.9:
            name = self.mention(r.choice(d.indices))
            a, b = d.ranges[name]
            if b - a <= high - low:
                shift = r.randint(low - a, high - b)
                if self.chance(0.3):
                    most = low + b - 1 + r.randint(0, high - low - b + a)
                    return f"{self.parenthesized(most)} - {name}"
                return f"{name} + {self.parenthesized(shift)}" if shift else name
            if low == 0 and a >= 0 and high > 0 and self.chance(0.6):
                return f"{name} % {r.randint(1, high)}"
            return f"min(max({name}, {self.parenthesized(low)}), {self.parenthesized(high - 1)})"
        if draw < 0.95:
            return self.gather(low, high)
        return self.parenthesized(r.randint(low, high - 1))

    def gather(self, low: int, high: int) -> str:
        d, r = self.drawn, self.r
        signed = ["int32", "int32", "int64", "int16"]
        type_ = r.choice(signed if low < 0 else [*signed, "uint8", "uint32"])
        if (high > 255 and type_ == "uint8") or high > 30000:
            type_ = "int32"
        chosen = r.sample(d.indices, min(len(d.indices), r.randint(1, 2)))
        return self.new_read(type_, chosen, plain=True, bound=(low, high))

    def new_read(
        self,
        type_: str,
        chosen: list[str],
        plain: bool = False,
        bound: tuple[int, int] | None = None,
    ) -> str:
        """Reads a new input, large enough for the planned ranges."""
        r = self.r
        if not chosen:
            size = r.randint(1, 3)
            texts, shape = [f"{r.randint(0, size - 1)}"], [size]
        else:
            texts, shape = map(list, zip(*(self.subscript(n, plain) for n in chosen)))
        kind = self.data(type_) if bound is None else "index"
        tensor = self.add(Tensor(self.fresh("A"), type_, tuple(shape), kind, bound or (0, 0)))
        sizes = [f"{tensor.name}_{d}" for d in range(len(shape))]
        for d, size in enumerate(shape):
            if self.chance(0.05):
                sizes[d] = f"{size}"
            elif self.chance(0.1):
                # The name of another size that is as large.
                same = [
                    text
                    for t in self.inputs
                    for n, text in zip(t.shape or (), self.sizes.get(t.name, []))
                    if n == size and not text.isdigit()
                ]
                sizes[d] = r.choice(same) if same else sizes[d]
        self.drawn.sizes[tensor.name] = sizes
        return f"{tensor.name}({', '.join(texts)})"

    def subscript(self, name: str, plain: bool) -> tuple[str, int]:
        """A subscript of a new tensor, and the size it needs: strided, summed, reversed."""
        r, d = self.r, self.drawn
        self.mention(name)
        low, high = d.ranges[name]
        slack = r.choice([0] * 12 + [1, 2])
        if plain or self.chance(0.55):
            if low < 0:
                return f"{name} + {-low}", high - low + slack
            return name, high + slack
        draw = r.random()
        if draw < 0.15:
            most = high - 1 + r.choice([0, 0, 1])
            return f"{self.parenthesized(most)} - {name}", most - low + 1 + slack
        if draw < 0.3 and low >= 0:
            divisor = r.choice([2, 3])
            shift = r.choice([0, 1])
            text = f"({name} + {shift}) / {divisor}" if shift else f"{name} / {divisor}"
            return text, (high - 1 + shift) // divisor + 1
        factor, shift = r.choice([1, 1, 2, 3]), r.choice([0, 0, 1, 2])
        first, last = factor * low, factor * (high - 1)
        text = name if factor == 1 else f"{factor}*{name}"
        others = [n for n in d.indices if n != name and d.ranges[n][1] - d.ranges[n][0] <= 40]
        if others and self.chance(0.4):
            other = r.choice(others)
            times = r.choice([1, 1, 2, -1])
            a, b = sorted((times * d.ranges[other][0], times * (d.ranges[other][1] - 1)))
            first, last = first + a, last + b
            text += {1: f" + {other}", 2: f" + {other}*2", -1: f" - {other}"}[times]
            self.mention(other)
        shift = max(shift, -first)
        if shift:
            text += f" + {shift}"
        return text, last + shift + 1 + slack
