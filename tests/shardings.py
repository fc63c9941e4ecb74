"""The ways to share a definition's work, each done part by part by the interpreter."""

from __future__ import annotations

import numpy as np
import torch

from tensor_comprehensions import reference

REDUCTIONS = {"sum": np.add, "product": np.multiply, "min": np.minimum, "max": np.maximum}


def evaluate(text: str, entry: str, inputs: tuple) -> tuple[list, list]:
    """Results and error bounds as arrays."""
    results, bounds = reference.error_bounds(text, entry, *inputs)
    results = results if isinstance(results, tuple) else (results,)
    return [np.asarray(torch.as_tensor(r).float() if is_half(r) else r) for r in results], bounds


def is_half(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (torch.half, torch.bfloat16)


def compare(parts: list, bounds: list, where: tuple[int, str], wanted, bound, eps: float) -> None:
    """What several processes hold of a result, with the result."""
    dimension, reduction = where
    dtype = wanted.dtype
    with np.errstate(all="ignore"):
        if reduction:
            combine = REDUCTIONS[reduction]
            actual = combine.reduce(np.stack(parts), axis=0, dtype=dtype)
            # Parts are rounded before they are combined.
            error = sum(b + 4 * eps * np.abs(p.astype(float)) for p, b in zip(parts, bounds))
            if reduction == "product":
                factors = [np.abs(p.astype(float)) + 1 for p in parts]
                error = error * np.multiply.reduce(np.stack(factors))
        elif dimension >= 0:
            actual, error = np.concatenate(parts, dimension), np.concatenate(bounds, dimension)
        else:
            actual, error = parts[-1], bounds[-1]
        assert actual.shape == wanted.shape, f"{actual.shape} instead of {wanted.shape}"
        error = error + bound
        if not np.issubdtype(dtype, np.floating):
            error = np.where(np.isinf(error), error, 0)
        apart = np.abs(actual.astype(float) - wanted.astype(float))
        same = (actual == wanted) | (
            np.isnan(actual.astype(float)) & np.isnan(wanted.astype(float))
        )
        near = same | (apart <= error) | ~np.isfinite(error)
    assert near.all(), f"{actual[~near][:4]} instead of {wanted[~near][:4]}, placed {where}"


def check_ways(operator: object, text: str, inputs: tuple, processes: int = 2) -> int:
    """How many ways there are for these inputs; each must give what the whole gives."""
    wanted, bounds = evaluate(text, operator.__name__, inputs)
    sized, sizes = operator.definition.sized_text()
    if sized:
        inputs += tuple(inputs[k].shape[d] for k, d in sizes)
        operator, text = operator.derive(sized, "tc_sized"), sized
    entry = operator.__name__
    eps = [
        torch.finfo(info.dtype).eps if info.dtype.is_floating_point else 0
        for info in operator.definition.outputs
    ]
    count = 0
    for given, results in operator.definition.shardings():
        placed = list(zip(inputs, [d for d, _ in given], strict=True))
        sizes = {x.shape[d] for x, d in placed if d >= 0}
        if len(sizes) != 1 or min(sizes) < processes:
            continue
        count += 1
        held = [x.tensor_split(processes, d) if d >= 0 else (x,) * processes for x, d in placed]
        done = [evaluate(text, entry, arguments) for arguments in zip(*held, strict=True)]
        for k, where in enumerate(results):
            parts = [part[k] for part, _ in done]
            errors = [error[k] for _, error in done]
            compare(parts, errors, where, wanted[k], bounds[k], eps[k])
    return count
