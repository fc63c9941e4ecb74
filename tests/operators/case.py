"""What a case is, and where its numbers come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


class Values:
    """Random arguments of one element type; calling it draws from the normal distribution."""

    def __init__(self, dtype: torch.dtype, seed: int = 0) -> None:
        self.dtype = dtype
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, *sizes: int) -> Tensor:
        return torch.randn(sizes, generator=self.generator, dtype=torch.float64).to(self.dtype)

    def between(self, low: float, high: float, *sizes: int) -> Tensor:
        values = torch.rand(sizes, generator=self.generator, dtype=torch.float64)
        return (low + (high - low) * values).to(self.dtype)

    def integers(
        self, low: int, high: int, *sizes: int, dtype: torch.dtype = torch.int32
    ) -> Tensor:
        """From low to high - 1."""
        return torch.randint(low, high, sizes, generator=self.generator).to(dtype)

    def classes(self, count: int, *sizes: int) -> Tensor:
        return self.integers(0, count, *sizes, dtype=torch.int64)

    def signs(self, *sizes: int) -> Tensor:
        return (2 * self.integers(0, 2, *sizes) - 1).to(self.dtype)

    def mask(self, *sizes: int) -> Tensor:
        return self.integers(0, 2, *sizes).bool()

    def probabilities(self, *sizes: int) -> Tensor:
        """Positive, with a sum of 1 along the last dimension."""
        return torch.softmax(self(*sizes).double(), -1).to(self.dtype)


@dataclass(frozen=True)
class Case:
    """One definition: ``inputs(values, *sizes)`` are its arguments for each entry of ``sizes``.

    ``reference(*inputs)`` gives its result, or several in order, from PyTorch. ``terms`` is at
    least the number of terms of the longest sum at these sizes: its rounding decides the tolerance.
    ``constant`` are the places of floating-point tensors that have no derivative, as targets have
    none, or for which the reference has none. ``digits`` says that results have their digits
    however small they are, as quotients of exponentials do, so that 0 is wrong for one of 1e-20.
    """

    definition: str
    reference: Callable[..., object]
    inputs: Callable[..., tuple]
    sizes: list[tuple[int, ...]]
    terms: int = 64
    constant: tuple[int, ...] = ()
    digits: bool = False

    def expected(self, inputs: tuple) -> tuple[Tensor, ...]:
        exact = tuple(
            x.double() if isinstance(x, Tensor) and x.is_floating_point() else x for x in inputs
        )
        results = self.reference(*exact)
        return results if isinstance(results, tuple) else (results,)

    def differentiable(self, inputs: tuple) -> list[int]:
        """The places of the arguments that have a derivative."""
        return [
            k
            for k, x in enumerate(inputs)
            if isinstance(x, Tensor) and x.is_floating_point() and k not in self.constant
        ]


def matrix(values: Values, rows: int, columns: int) -> tuple:
    """The argument of a function of one matrix."""
    return (values(rows, columns),)


def matrices(values: Values, rows: int, columns: int) -> tuple:
    """The arguments of a function of two matrices of the same sizes."""
    return values(rows, columns), values(rows, columns)


# Rows shorter than a vector, longer than a cache line, and of one element.
MATRIX = [(7, 37), (19, 5), (1, 1)]
