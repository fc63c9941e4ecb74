"""Random well-formed programs, as text and as NumPy.

A program is built from ranges outwards: every index gets an extent first, and every tensor the
sizes that its subscripts then need, so that range inference must find exactly these ranges again.
The reference evaluates the same tree over dense index grids, one statement at a time, in NumPy.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

REDUCTIONS = {
    "+=!": (np.add, 0),
    "max=!": (np.maximum, None),
    "min=!": (np.minimum, None),
}
DTYPES = {
    "float": np.float32,
    "double": np.float64,
    "half": np.float16,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
}
# Extents of a single reduction index: around whole vectors, and enough to be split into parts.
LONG = [15, 16, 17, 31, 32, 33, 40, 64, 65, 100, 127, 130, 257]
VERY_LONG = [16384, 20011]
# What NumPy evaluates at once, and the largest index that may be added to another in a subscript.
MOST_POINTS, MOST_ADDED = 500_000, 40
# Up to here whole numbers are exact, with a margin for sums on the way.
EXACT = {"half": 2**10, "int16": 2**14, "float": 2**22, "int32": 2**30}

Grid = dict[str, np.ndarray]


@dataclass
class Node:
    """A piece of an expression: its text, and its value over a grid of indices."""

    text: str
    value: Callable[[Grid, dict[str, np.ndarray]], np.ndarray]
    text_indices: set[str] = field(default_factory=set)  # the indices it mentions
    reads: bool = False  # whether it reads a tensor


@dataclass
class Statement:
    target: str
    left: list[str]
    reduced: list[str]
    operator: str
    body: Node
    where: list[str]


@dataclass
class Program:
    seed: int
    dtype: str
    inputs: dict[str, tuple[int, ...]] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)  # of left-hand sides
    extents: dict[str, int] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)

    @property
    def text(self) -> str:
        parameters = ", ".join(
            f"{self.dtype}({', '.join(f'{name}_{d}' for d in range(len(size)))}) {name}"
            for name, size in self.inputs.items()
        )
        lines = [f"def random_{self.seed}({parameters}) -> ({', '.join(self.outputs)}) {{"]
        for s in self.statements:
            left = f"{s.target}({', '.join(s.left)})" if s.left else s.target
            where = f" where {', '.join(s.where)}" if s.where else ""
            lines.append(f"  {left} {s.operator} {s.body.text}{where}")
        return "\n".join([*lines, "}"])

    def make_inputs(self) -> list[np.ndarray]:
        generator = np.random.default_rng(self.seed)
        values = []
        for size in self.inputs.values():
            # Small integers: sums are exact in every order, so results must be equal.
            value = generator.integers(-4, 5, size).astype(DTYPES[self.dtype])
            # Some lie in memory in another order.
            if generator.random() < 0.3:
                order = generator.permutation(len(size))
                value = np.ascontiguousarray(value.transpose(order)).transpose(np.argsort(order))
            values.append(value)
        return values

    def reference(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
        tensors = self.evaluate(inputs)
        return [tensors[name] for name in self.outputs]

    def evaluate(self, inputs: list[np.ndarray]) -> dict[str, np.ndarray]:
        tensors = dict(zip(self.inputs, inputs, strict=True))
        for s in self.statements:
            names = s.left + s.reduced
            axes = np.indices([self.extents[n] for n in names], sparse=False)
            grid = {name: axes[k] for k, name in enumerate(names)}
            shape = tuple(self.extents[n] for n in names)
            value = np.broadcast_to(s.body.value(grid, tensors), shape).astype(DTYPES[self.dtype])
            if s.reduced:
                ufunc, _ = REDUCTIONS[s.operator]
                for _ in s.reduced:
                    value = ufunc.reduce(value, axis=-1)
            tensors[s.target] = value.astype(DTYPES[self.dtype])
        return tensors


class Generator:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.program = Program(seed, self.random.choice([*DTYPES, "float", "float"]))
        self.counter = 0

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def make(self) -> Program:
        count = self.random.randint(1, 4)
        for k in range(count):
            make = self.contraction if self.random.random() < 0.4 else self.statement
            make(last=k == count - 1)
        return self.program

    def contraction(self, last: bool) -> None:
        """A product of two tensors, or three, with their subscripts in any order."""
        r = self.random
        rows, columns = ([self.fresh("i") for _ in range(r.choice([1, 1, 2]))] for _ in "AB")
        batch = [self.fresh("i") for _ in range(r.choice([0, 0, 1]))]
        reduced = [self.fresh("r") for _ in range(r.choice([1, 2]))]
        for names, extents in (
            (rows, [1, 2, 5, 16, 17, 33]),
            (columns, [1, 2, 5, 16, 17, 33]),
            (batch, [1, 2, 3]),
            (reduced, [1, 2, 7, 16, 40]),
        ):
            for k, name in enumerate(names):
                self.program.extents[name] = r.choice(extents if k == 0 else [1, 2, 3])
        left, every = rows + columns + batch, rows + columns + batch + reduced
        r.shuffle(left)
        self.pinned = set()
        body = self.factor(rows + batch + reduced, every)
        body = self.product(body, self.factor(columns + batch + reduced, every))
        if r.random() < 0.2:
            body = self.product(body, self.factor(r.sample(every, r.randint(1, 2)), every))
        operator = r.choice(["+=!"] * 4 + list(REDUCTIONS))
        self.add(left, reduced, operator, body, last)

    def factor(self, indices: list[str], every: list[str]) -> Node:
        return self.plain_read(
            self.random.sample(indices, len(indices)), every, plain=self.random.random() < 0.7
        )

    @staticmethod
    def product(a: Node, b: Node) -> Node:
        node = Node(f"{a.text} * {b.text}", lambda g, t: np.multiply(a.value(g, t), b.value(g, t)))
        node.text_indices = a.text_indices | b.text_indices
        node.reads = True
        return node

    def statement(self, last: bool) -> None:
        r = self.random
        left = [self.fresh("i") for _ in range(r.randint(0, 4))]
        reduced = [self.fresh("r") for _ in range(r.choice([0, 0, 1, 1, 2, 3]))]
        if not left and not reduced:
            left = [self.fresh("i")]
        for name in left:
            self.program.extents[name] = (
                r.choice([1, 2, 3, 5, 7, 16, 17, 33])
                if len(left) < 3
                else r.choice([1, 2, 3, 5, 17])
            )
        for name in reduced:
            self.program.extents[name] = r.choice([1, 2, 3, 5, 8])
        results = math.prod(self.program.extents[name] for name in left)
        if reduced and results <= 600 and r.random() < 0.6:
            # The last index mostly walks through consecutive elements.
            name = r.choice([reduced[-1], r.choice(reduced)])
            points = results * math.prod(self.program.extents[i] for i in reduced if i != name)
            very = points <= 16 and r.random() < 0.2
            if points * max(LONG) <= MOST_POINTS:
                self.program.extents[name] = r.choice(VERY_LONG if very else LONG)
        self.pinned: set[str] = set()
        body = self.expression(left + reduced, r.randint(1, 3))
        for name in left + reduced:
            # Every index is read somewhere, so that the value has the program's element type.
            if name not in body.text_indices or not body.reads:
                body = self.combine(body, self.plain_read([name], left + reduced))
        self.add(left, reduced, r.choice(list(REDUCTIONS)) if reduced else "=", body, last)

    def add(
        self, left: list[str], reduced: list[str], operator: str, body: Node, last: bool
    ) -> None:
        where = [
            f"{name} in 0:{self.program.extents[name]}"
            for name in left + reduced
            if name not in self.pinned
        ]
        target = self.fresh("T")
        self.program.statements.append(Statement(target, left, reduced, operator, body, where))
        self.program.sizes[target] = tuple(self.program.extents[n] for n in left)
        if last or self.random.random() < 0.5:
            self.program.outputs.append(target)

    # Expressions remember which indices they mention.
    def expression(self, indices: list[str], depth: int) -> Node:
        r = self.random
        if depth == 0 or r.random() < 0.3:
            return self.leaf(indices)
        kind = r.random()
        if kind < 0.8:
            return self.combine(
                self.expression(indices, depth - 1), self.expression(indices, depth - 1)
            )
        condition_index = r.choice(indices) if indices else None
        a, b = self.expression(indices, depth - 1), self.expression(indices, depth - 1)
        if condition_index is None:
            return self.combine(a, b)
        bound = r.randint(0, self.program.extents[condition_index])
        node = Node(
            f"({condition_index} < {bound} ? {a.text} : {b.text})",
            lambda g, t: np.where(g[condition_index] < bound, a.value(g, t), b.value(g, t)),
        )
        node.text_indices = a.text_indices | b.text_indices | {condition_index}
        node.reads = a.reads or b.reads
        return node

    def combine(self, a: Node, b: Node) -> Node:
        operator, function = self.random.choice(
            [
                ("+", np.add),
                ("-", np.subtract),
                ("+", np.add),
                ("min", np.minimum),
                ("max", np.maximum),
            ]
        )
        text = (
            f"{operator}({a.text}, {b.text})"
            if operator in ("min", "max")
            else f"({a.text} {operator} {b.text})"
        )
        node = Node(text, lambda g, t: function(a.value(g, t), b.value(g, t)))
        node.text_indices = a.text_indices | b.text_indices
        node.reads = a.reads or b.reads
        return node

    def leaf(self, indices: list[str]) -> Node:
        r = self.random
        if r.random() < 0.15 or not indices:
            constant = r.randint(-3, 3)
            literal = f"({constant})" if constant < 0 else f"{constant}"
            return Node(literal, lambda g, t: np.asarray(constant))
        earlier = [
            s
            for s in self.program.statements
            if all(
                any(self.program.extents[i] == e for i in indices)
                for e in self.program.sizes[s.target]
            )
        ]
        if earlier and r.random() < 0.5:
            return self.read_earlier(r.choice(earlier), indices)
        chosen = r.sample(indices, r.randint(1, min(3, len(indices))))
        return self.plain_read(chosen, indices)

    def read_earlier(self, source: Statement, indices: list[str]) -> Node:
        """Reads a result at indices of the same extents, in any order, perhaps one twice."""
        subscripts = []
        for extent in self.program.sizes[source.target]:
            fitting = [i for i in indices if self.program.extents[i] == extent]
            subscripts.append(self.random.choice(fitting))
        self.pinned.update(subscripts)
        name = source.target
        text = f"{name}({', '.join(subscripts)})" if subscripts else name
        node = Node(text, lambda g, t: t[name][tuple(g[i] for i in subscripts)])
        node.text_indices = set(subscripts)
        node.reads = True
        return node

    def plain_read(self, chosen: list[str], indices: list[str], plain: bool = False) -> Node:
        """Reads a new input: plain, strided, shifted and summed subscripts, or only plain ones."""
        r = self.random
        texts, functions, sizes, mentioned = [], [], [], set()
        for name in chosen:
            factor, shift = r.choice([1, 1, 1, 2, 3]), r.choice([0, 0, 0, 1, 2])
            other = r.choice(indices) if r.random() < 0.25 else None
            if plain:
                factor, shift, other = 1, 0, None
            if other == name or (other and self.program.extents[other] > MOST_ADDED):
                other = None
            highest = factor * (self.program.extents[name] - 1) + shift
            text = name if factor == 1 else f"{factor}*{name}"
            if other:
                highest += self.program.extents[other] - 1
                text += f" + {other}"
                mentioned.add(other)
            if shift:
                text += f" + {shift}"
            if factor == 1 and shift == 0 and other is None:
                self.pinned.add(name)
            mentioned.add(name)
            texts.append(text)
            sizes.append(highest + 1)
            functions.append((name, factor, other, shift))

        def subscript(g: Grid, piece: tuple) -> np.ndarray:
            index, factor, other, shift = piece
            value = factor * g[index] + shift
            return value + g[other] if other else value

        tensor = self.fresh("A")
        self.program.inputs[tensor] = tuple(sizes)
        node = Node(
            f"{tensor}({', '.join(texts)})",
            lambda g, t: t[tensor][tuple(subscript(g, f) for f in functions)],
        )
        node.text_indices = mentioned
        node.reads = True
        return node


def make_program(seed: int) -> Program:
    program = Generator(seed).make()
    # Where rounding or overflow would decide the results, a wider type takes the place.
    wide = replace(program, dtype="double")
    largest = max(
        np.abs(value).max(initial=0) for value in wide.evaluate(wide.make_inputs()).values()
    )
    if largest > EXACT.get(program.dtype, math.inf):
        program.dtype = "double" if largest > EXACT["float"] else "float"
    return program
