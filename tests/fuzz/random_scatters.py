"""Random scatters, as text and as NumPy's ufunc.at."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np

REDUCTIONS = {"+=": np.add, "*=": np.multiply, "min=": np.minimum, "max=": np.maximum}
DTYPES = {"float": np.float32, "double": np.float64, "int32": np.int32, "int64": np.int64}
PLACES = {"int32": np.int32, "int64": np.int64, "uint8": np.uint8}
EXTENTS = [1, 2, 3, 5, 16, 17, 33, 64, 130, 300]
MOST_POINTS = 60_000


@dataclass
class RandomScatter:
    text: str
    inputs: list[np.ndarray]
    start: np.ndarray
    """What the scattered result holds before the call."""
    wanted: list[np.ndarray]


class Generator:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.parameters: list[str] = []
        self.inputs: list[np.ndarray] = []
        self.extents: dict[str, int] = {}
        while not self.extents or math.prod(self.extents.values()) > MOST_POINTS:
            count = self.random.randint(1, 4)
            self.extents = {f"i{k}": self.random.choice(EXTENTS) for k in range(count)}
        axes = np.indices(tuple(self.extents.values()))
        self.grid = dict(zip(self.extents, axes, strict=True))

    def add_input(self, kind: str, value: np.ndarray) -> str:
        name = f"A{len(self.inputs)}"
        sizes = ", ".join(f"{name}_{d}" for d in range(value.ndim))
        self.parameters.append(f"{kind}({sizes}) {name}")
        self.inputs.append(value)
        return name

    def subset(self, least: int) -> list[str]:
        names = list(self.extents)
        return self.random.sample(names, self.random.randint(least, len(names)))

    def read(self, kind: str, names: list[str], value: np.ndarray) -> tuple[str, np.ndarray]:
        """A new input at these indices: its text, and its value at every point."""
        name = self.add_input(kind, value)
        at = value[tuple(self.grid[i] for i in names)]
        return f"{name}({', '.join(names)})", at

    def dimension(self, plain: list[str]) -> tuple[str, np.ndarray, int]:
        """The text of a subscript, its value at every point, and a size that holds them all."""
        r = self.random
        kind = r.choice(["plain", "data", "data", "affine", "constant"])
        if kind == "plain" and plain:
            name = plain.pop()
            return name, self.grid[name], self.extents[name]
        if kind == "affine":
            names = self.subset(1)[:2]
            factors = [r.choice([1, 1, 2, 3]) for _ in names]
            shift = r.choice([0, 0, 1, 4])
            value = sum(f * self.grid[n] for f, n in zip(factors, names, strict=True)) + shift
            text = " + ".join(f"{f} * {n}" for f, n in zip(factors, names, strict=True))
            return f"{text} + {shift}", value, int(value.max()) + 1 + r.choice([0, 2])
        if kind == "data":
            size, names = r.choice([1, 2, 7, 40, 200]), self.subset(1)
            stored = r.choice(list(PLACES))
            shape = [self.extents[n] for n in names]
            value = self.numbers.integers(0, size, shape).astype(PLACES[stored])
            text, at = self.read(stored, names, value)
            return text, at.astype(np.int64), size
        place = r.randint(0, 3)
        return f"{place} + 0", np.full_like(next(iter(self.grid.values())), place), place + 1

    def make(self) -> RandomScatter:
        r = self.random
        dtype = r.choice(list(DTYPES))
        rank = r.randint(1, 3)
        plain = self.subset(0)
        dimensions = [self.dimension(plain) for _ in range(rank)]
        while all(text in self.extents for text, _, _ in dimensions):
            dimensions[-1] = self.dimension(plain)
        while math.prod(size for _, _, size in dimensions) > 4 * MOST_POINTS:
            dimensions = (
                dimensions[:-1] if len(dimensions) > 1 else [("0 + 0", 0 * self.grid["i0"], 1)]
            )
        if all(text in self.extents for text, _, _ in dimensions):
            dimensions[0] = ("0 + 0", 0 * self.grid["i0"], 1)
        operator = r.choice(["+=", "+=", *REDUCTIONS])
        largest = 2 if operator == "*=" else 4

        def values(*shape: int) -> np.ndarray:
            low = 1 if operator == "*=" else -3
            return self.numbers.integers(low, largest, shape).astype(DTYPES[dtype])

        names = self.subset(len(self.extents))
        text, value = self.read(dtype, names, values(*[self.extents[n] for n in names]))
        if r.random() < 0.4:
            names = self.subset(1)
            factor, by = self.read(dtype, names, values(*[self.extents[n] for n in names]))
            text, value = f"{text} * {factor}", value * by
        sizes = tuple(size for _, _, size in dimensions)
        start = values(*sizes)
        left = ", ".join(subscript for subscript, _, _ in dimensions)
        fresh = r.random() < 0.5
        first = ""
        if fresh:
            first = f"T({left}) {operator}! {text}\n"
        else:
            if r.random() < 0.5:
                # From a tensor instead of what the caller passes.
                name = self.add_input(dtype, start)
                indices = ", ".join(f"v{d}" for d in range(len(sizes)))
                first = f"T({indices}) = {name}({indices})\n  "
            first += f"T({left}) {operator} {text}\n"
        later = ", ".join(f"v{d}" for d in range(len(sizes)))
        result = ", ".join(str(size) for size in sizes)
        definition = (
            f"def scatter({', '.join(self.parameters)})\n"
            f"-> ({dtype}({result}) T, {dtype}({result}) O) {{\n"
            f"  {first}  O({later}) = T({later}) + T({later})\n}}"
        )
        return self.finish(definition, dimensions, operator, value, start, fresh)

    def finish(
        self,
        text: str,
        dimensions: list[tuple[str, np.ndarray, int]],
        operator: str,
        value: np.ndarray,
        start: np.ndarray,
        fresh: bool,
    ) -> RandomScatter:
        result = start.copy()
        if fresh:
            info = np.iinfo if result.dtype.kind == "i" else np.finfo
            extreme = info(result.dtype)
            infinite = result.dtype.kind == "f"
            result[...] = {
                "+=": 0,
                "*=": 1,
                "min=": np.inf if infinite else extreme.max,
                "max=": -np.inf if infinite else extreme.min,
            }[operator]
        with np.errstate(over="ignore"):
            REDUCTIONS[operator].at(result, tuple(at for _, at, _ in dimensions), value)
        return RandomScatter(text, self.inputs, start, [result, result + result])


def make_scatter(seed: int) -> RandomScatter:
    return Generator(seed).make()
