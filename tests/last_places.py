"""How far results may lie from exact ones: in units of the exact ones' last places.

An absolute tolerance takes 0 for whatever is smaller than it: exp(-12) is 6e-6.
"""

from __future__ import annotations

import numpy as np
import torch

# Bits of a fraction, the hidden one too, and the exponent of the smallest denormal number.
FORMATS = {
    torch.float16: (11, -24),
    torch.bfloat16: (8, -133),
    torch.float32: (24, -149),
    torch.float64: (53, -1074),
}


def units_off(actual: torch.Tensor, exact: torch.Tensor) -> np.ndarray:
    """Distances in units of the last place that `exact`, in double, has in the type of `actual`."""
    bits, least = FORMATS[actual.dtype]
    _, exponents = np.frexp(exact.numpy())
    # Zero, whose exponent frexp calls 0, has the smallest unit.
    exponents = np.where(exact.numpy() == 0, least, exponents)
    units = np.ldexp(1.0, np.maximum(exponents - bits, least))
    with np.errstate(over="ignore"):
        return (actual.double() - exact).abs().numpy() / units


def assert_within_ulps(
    actual: torch.Tensor, exact: torch.Tensor, ulps: float, finite: int = 1
) -> None:
    """NaN, infinities and signs, those of zeros too, where `exact`, in double, has them; what is
    finite, at least so many numbers, less than `ulps` units of the last place away."""
    wanted = exact.to(actual.dtype)
    assert torch.equal(actual.isnan(), wanted.isnan())
    numbers = ~wanted.isnan()
    assert torch.equal(actual[numbers].isinf(), wanted[numbers].isinf())
    assert torch.equal(actual[numbers].signbit(), wanted[numbers].signbit())
    ends = wanted.isfinite()
    assert ends.sum() >= finite
    errors = units_off(actual[ends], exact[ends])
    worst = int(errors.argmax())
    assert errors.max() < ulps, (
        f"{actual[ends][worst].item()} instead of {exact[ends][worst].item()}, "
        f"{errors.max():.3g} units of the last place away"
    )
