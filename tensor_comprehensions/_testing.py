"""Comparison of results as the 2018 package did it."""

from __future__ import annotations

import torch


def assert_almost_equal(
    actual: torch.Tensor,
    expected: torch.Tensor,
    *inputs: torch.Tensor,
    operations: int = 1,
    precision: float = 1e-7,
) -> None:
    """Raises AssertionError unless both are of one shape and the largest difference is at most
    ``operations * precision * max |input|``, where the maximum runs over all inputs.
    """
    if actual.shape != expected.shape:
        raise AssertionError(
            f"the shape is {tuple(actual.shape)}, expected is {tuple(expected.shape)}"
        )
    difference = (actual.double() - expected.double()).abs().max().item() if actual.numel() else 0.0
    largest = max((x.double().abs().max().item() for x in inputs if x.numel()), default=1.0)
    bound = operations * precision * largest
    if not difference <= bound:
        raise AssertionError(
            f"the largest difference is {difference:.3g}, allowed is {bound:.3g} = {operations} "
            f"operations x {precision:.3g} x {largest:.3g}"
        )
