"""Random contractions of two tensors: which indices, how long, in what order and with what strides.

Letters tell an index's class: m p q o are in the first operand and the result, n r s t in the
second and the result, k u v w in both operands (summed over), b c d e in all three.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import torch

CLASSES = {"rows": "mpqo", "columns": "nrst", "reduction": "kuvw", "batch": "bcde"}


@dataclass(frozen=True)
class Convolved:
    """The first operand is read at `factor * row + tap`, where `tap` is a reduction index."""

    row: str
    tap: str
    factor: int


@dataclass(frozen=True)
class Layout:
    """The indices of a tensor, outermost first, and how it lies in a larger one.

    `margin` elements more in the last dimension, of which every `step`-th counts.
    """

    indices: str
    margin: int = 0
    step: int = 1

    def make(self, sizes: list[int]) -> torch.Tensor:
        if not sizes:
            return torch.randn(())
        whole = torch.randn(*sizes[:-1], sizes[-1] * self.step + self.margin)
        return whole[..., : sizes[-1] * self.step : self.step]

    def __str__(self) -> str:
        margin = f"+{self.margin}" if self.margin else ""
        step = f":{self.step}" if self.step > 1 else ""
        return self.indices + margin + step


@dataclass(frozen=True)
class Contraction:
    extents: dict[str, int]
    first: Layout
    second: Layout
    result: str
    convolved: tuple[Convolved, ...] = ()

    @property
    def name(self) -> str:
        sums = "".join(
            f" {c.factor if c.factor > 1 else ''}{c.row}+{c.tap}" for c in self.convolved
        )
        sizes = " ".join(f"{index}={extent}" for index, extent in self.extents.items())
        return f"{self.first},{self.second}->{self.result}{sums}  {sizes}"

    def product(self, role: str) -> int:
        """Of the extents of one class."""
        return math.prod(e for index, e in self.extents.items() if index in CLASSES[role])

    @property
    def flops(self) -> int:
        return 2 * math.prod(self.extents.values())

    @property
    def intensity(self) -> float:
        """FLOPs a byte when every element of the three tensors travels once."""
        sizes = (
            self._first_sizes(),
            [self.extents[i] for i in self.second.indices],
            [self.extents[i] for i in self.result],
        )
        return self.flops / sum(4 * math.prod(size) for size in sizes)

    def text(self) -> str:
        """Two operands X and Y; the indices' capitals are sizes."""
        sums = {c.row: c for c in self.convolved}
        taps = {c.tap for c in self.convolved}
        sizes, subscripts = [], []
        for index in self.first.indices:
            if index in taps:
                continue
            sizes.append(index.upper())
            subscript = index
            if index in sums:
                found = sums[index]
                factor = f"{found.factor}*" if found.factor > 1 else ""
                subscript = f"{factor}{index}+{found.tap}"
                sizes[-1] += found.tap.upper()
            subscripts.append(subscript)
        second = self.second.indices
        return (
            f"def contraction(float({','.join(sizes)}) X, float({','.join(second.upper())}) Y)"
            f" -> (Z) {{\n  Z({','.join(self.result)}) +=! "
            f"X({','.join(subscripts)}) * Y({','.join(second)})\n}}\n"
        )

    def _first_sizes(self) -> list[int]:
        sums = {c.row: c for c in self.convolved}
        taps = {c.tap for c in self.convolved}
        sizes = []
        for index in self.first.indices:
            if index in taps:
                continue
            extent = self.extents[index]
            if index in sums:
                extent = sums[index].factor * (extent - 1) + self.extents[sums[index].tap]
            sizes.append(extent)
        return sizes

    def operands(self) -> tuple[torch.Tensor, torch.Tensor]:
        second = [self.extents[i] for i in self.second.indices]
        return self.first.make(self._first_sizes()), self.second.make(second)

    def einsum(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """With PyTorch; sums of indices become a view with overlapping windows."""
        taps = "".join(c.tap for c in self.convolved)
        outer = "".join(i for i in self.first.indices if i not in taps)
        for found in self.convolved:
            x = x.unfold(outer.index(found.row), self.extents[found.tap], found.factor)
        return torch.einsum(f"{outer}{taps},{self.second.indices}->{self.result}", x, y)

    def matrices(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Contiguous matrices, or stacks of them, whose product has as many FLOPs."""
        m, n, k, b = (self.product(role) for role in CLASSES)
        batch = (b,) if b > 1 else ()
        return torch.randn(*batch, m, k), torch.randn(*batch, k, n)


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))


def _extent(rng: random.Random, bits: float) -> int:
    """About 2**bits: any, odd, prime, or a multiple of 8."""
    extent = max(2, round(2**bits))
    kind = rng.random()
    if kind < 0.3:
        while not _is_prime(extent):
            extent += 1
    elif kind < 0.6:
        extent |= 1
    elif kind < 0.8 and extent > 8:
        extent = (extent + 4) // 8 * 8
    return extent


def _shuffled(rng: random.Random, indices: list[str]) -> str:
    return "".join(rng.sample(indices, len(indices)))


def _layout(rng: random.Random, indices: list[str]) -> Layout:
    """Mostly contiguous; one in seven is a slice of a larger tensor, one in twenty has step 2."""
    kind = rng.random()
    margin = rng.randint(1, 5) if kind < 0.15 else 0
    return Layout(_shuffled(rng, indices), margin, 2 if 0.15 <= kind < 0.2 else 1)


def random_contraction(seed: int, number: int) -> Contraction:
    """The `number`-th of a seed: 3 to 6 indices, 2**22 to 2**26 multiply-adds.

    One in twenty reads its first operand as a convolution does, in one or two dimensions. One in
    ten has no index promised in each class, so that products of vectors occur.
    """
    rng = random.Random(f"{seed}/{number}")
    convolutions = rng.choice([1, 1, 2]) if number % 20 == 10 else 0
    pool = list(CLASSES)
    if convolutions:
        roles = ["rows", "reduction"] * convolutions + ["columns", "reduction"]
    elif rng.random() < 0.1:
        roles = rng.choices(pool, k=3)
    else:
        roles = ["rows", "columns", "reduction"]
    wanted = max(rng.choice([3, 4, 4, 5, 5, 6, 6]), len(roles))
    roles += rng.choices(pool, weights=[3, 3, 3, 2], k=wanted - len(roles))
    used = dict.fromkeys(pool, 0)
    indices = []
    for role in roles:
        if used[role] < len(CLASSES[role]):
            indices.append(CLASSES[role][used[role]])
            used[role] += 1
    convolved = tuple(
        Convolved(CLASSES["rows"][k], CLASSES["reduction"][k], rng.choice([1, 1, 2]))
        for k in range(convolutions)
    )
    extents = {c.tap: rng.choice([2, 3, 5, 7]) for c in convolved}
    bits = rng.uniform(22, 26) - sum(math.log2(extent) for extent in extents.values())
    # The classes have about equal products, so that most contractions have work for their memory.
    free = [[i for i in indices if i in CLASSES[role] and i not in extents] for role in pool]
    parts = {"".join(part): rng.uniform(0.5, 1.5) for part in free if part}
    for part, weight in parts.items():
        shares = [rng.uniform(0.5, 1.5) for _ in part]
        for index, share in zip(part, shares, strict=True):
            fraction = weight / sum(parts.values()) * share / sum(shares)
            extents[index] = _extent(rng, bits * fraction)
    extents = {index: extents[index] for index in sorted(indices)}

    def having(*roles: str) -> list[str]:
        return [i for i in extents if any(i in CLASSES[role] for role in roles)]

    taps = [c.tap for c in convolved]
    first = _layout(rng, [i for i in having("rows", "reduction", "batch") if i not in taps])
    return Contraction(
        extents,
        first,
        _layout(rng, having("columns", "reduction", "batch")),
        _shuffled(rng, having("rows", "columns", "batch")),
        convolved,
    )
