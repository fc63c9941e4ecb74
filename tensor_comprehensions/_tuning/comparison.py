"""Whether a result is what the compiler's own Plan computed."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

#: Of the largest magnitude of a result, how far sums in another order may be from it.
TOLERANCES = {
    torch.float64: 1e-10,
    torch.float32: 1e-4,
    torch.float16: 1e-2,
    torch.bfloat16: 6e-2,
}
#: Elements that are compared at once: what is computed of them stays in a cache and takes no new
#: pages, which cost more than a kernel that is limited by memory.
_PART = 1 << 14


def difference(result: torch.Tensor, wanted: torch.Tensor) -> str | None:
    """What is wrong with a result; None where it is within the bound."""
    if result.numel() == 0:
        return None
    bound = TOLERANCES.get(wanted.dtype)
    if bound is None:
        wrong = 0 if torch.equal(result, wanted) else int((result != wanted).sum())
        return f"{wrong} of {wanted.numel()} elements differ" if wrong else None
    distance, largest = _distance(result, wanted)
    if not math.isfinite(distance):
        finite = torch.isfinite(wanted)
        if not bool(finite.all()):
            same = torch.equal(
                torch.nan_to_num(result[~finite], nan=7.0),
                torch.nan_to_num(wanted[~finite], nan=7.0),
            )
            if not same:
                return "elements that are infinite or no numbers are others"
            result, wanted = result[finite], wanted[finite]
            if wanted.numel() == 0:
                return None
            distance, largest = _distance(result, wanted)
    # NaN where something is missing.
    if distance <= bound * max(largest, torch.finfo(wanted.dtype).tiny):
        return None
    return f"off by {distance:.3g}, allowed is {bound:g} of {largest:.3g}"


def _distance(result: torch.Tensor, wanted: torch.Tensor) -> tuple[float, float]:
    """The largest distance of two elements, and the largest magnitude of what is wanted; NaN where
    one of them is."""
    distance = largest = 0.0
    for found, right in _parts(result, wanted):
        if right.dtype in (torch.float16, torch.bfloat16):
            found, right = found.float(), right.float()
        part = _magnitude(found - right)
        if math.isnan(part):
            return math.nan, math.nan
        distance = max(distance, part)
        largest = max(largest, _magnitude(right))
    return distance, largest


def _magnitude(values: torch.Tensor) -> float:
    least, most = torch.aminmax(values)
    return float(torch.maximum(-least, most))


def _parts(
    result: torch.Tensor, wanted: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Parts of two tensors, in the order of memory where their elements lie densely and alike."""
    # Such a layout is what its own kind keeps.
    dense = torch.empty_like(wanted, device="meta").stride() == wanted.stride()
    if dense and result.stride() == wanted.stride():
        count = wanted.numel()
        result, wanted = (x.as_strided((count,), (1,)) for x in (result, wanted))
        yield from zip(result.split(_PART), wanted.split(_PART), strict=True)
    else:
        yield result, wanted
