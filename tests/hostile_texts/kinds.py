"""What the kinds of texts share; what grows is named by each function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch


@dataclass
class Hostile:
    """A text whose last definition is `f`, and what its inputs look like."""

    text: str
    shapes: list[tuple[int, ...]]
    dtypes: dict[int, torch.dtype] = field(default_factory=dict)
    outputs: list[tuple[int, ...]] | None = None

    def inputs(self) -> list[torch.Tensor]:
        return [
            torch.ones(shape, dtype=self.dtypes.get(place, torch.float32))
            for place, shape in enumerate(self.shapes)
        ]


KINDS: dict[str, Callable[[int], Hostile]] = {}
SIZE = 100


def kind(make: Callable[[int], Hostile]) -> Callable[[int], Hostile]:
    KINDS[make.__name__] = make
    return make


def pointwise(body: str, result: str = "O", dtype: str = "float") -> Hostile:
    return Hostile(f"def f({dtype}(N) A) -> ({result}) {{\n{body}\n}}", [(SIZE,)])


def lines(*parts: str) -> str:
    return "\n".join(parts)


def nested(wrap: Callable[[str, int], str], n: int, start: str = "A(i)") -> str:
    value = start
    for k in range(n):
        value = wrap(value, k)
    return value
