"""Derived derivatives of random programs against differences of what the interpreter computes."""

from __future__ import annotations

import re

import numpy as np
import torch
from cases import DTYPES, FLOATS, Case, with_temporaries_as_results

import tensor_comprehensions as tc
from tensor_comprehensions import reference

STEP = 2.0**-20
#: Piecewise constant functions.
STEPS = re.compile(r"\b(floor|ceil|round|rint|trunc|nextafter|u?int(8|16|32|64))\(")


def in_double(case: Case) -> tuple[str, list]:
    """The program in double, and inputs of which no two are near each other."""
    text = re.sub(rf"\b({'|'.join(FLOATS)})\b", "double", case.text)
    rng = np.random.default_rng(case.seed)
    inputs = []
    for tensor in case.inputs:
        value = tensor.make(case.seed)
        if tensor.type in FLOATS:
            if tensor.shape is None:
                value = float(rng.uniform(0.5, 2))
            else:
                # Away from zero, where functions have no derivative.
                size = rng.uniform(0.5, 2, value.shape) * rng.choice([-1, 1], value.shape)
                value = torch.from_numpy(np.asarray(size))
        elif tensor.shape is not None:
            value = torch.as_tensor(value, dtype=DTYPES[tensor.type])
        inputs.append(value)
    return text, inputs


def results_of(text: str, entry: str, inputs: list) -> list[torch.Tensor]:
    results = reference.run(text, entry, *inputs)
    results = results if isinstance(results, tuple) else (results,)
    return [torch.as_tensor(r) for r in results if torch.as_tensor(r).dtype == torch.double]


def check(case: Case) -> str:
    """What became of the case: "same" where both were computed and agree."""
    text, inputs = in_double(case)
    places = [
        k for k, x in enumerate(inputs) if isinstance(x, torch.Tensor) and x.dtype == torch.double
    ]
    if not places or case.initial:
        return "nothing to derive"
    rng = np.random.default_rng(case.seed + 1)

    def normal(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.asarray(rng.standard_normal(x.shape)))

    moves = {k: normal(inputs[k]) for k in places}
    try:
        middle = results_of(text, case.entry, inputs)
        _, bounds = reference.error_bounds(text, case.entry, *inputs)
        if not middle:
            return "nothing to derive"
        weights = [normal(r) for r in middle]

        def total(step: float) -> float:
            moved = [x + step * moves[k] if k in moves else x for k, x in enumerate(inputs)]
            found = results_of(text, case.entry, moved)
            return sum(float((r * w).sum()) for r, w in zip(found, weights, strict=True))

        slopes = [(total(h) - total(-h)) / (2 * h) for h in (STEP, STEP / 4)]
    except tc.TCError:
        return "refused"
    size = sum(float((r * w).abs().sum()) for r, w in zip(middle, weights, strict=True))
    if not np.isfinite(slopes).all() or not np.isfinite(size):
        return "not finite"
    if not np.isfinite(np.concatenate([b.ravel() for b in bounds])).all():
        return "not promised"  # as a negative number cast to a type without a sign
    if abs(slopes[0] - slopes[1]) > 1e-4 * (abs(slopes[0]) + abs(slopes[1])) + 1e-7 * size:
        return "not smooth"
    try:
        f = tc.make_autograd(getattr(tc.define(text, namespace="tc_fuzz_derivatives"), case.entry))
        leaves = [x.clone().requires_grad_() if k in moves else x for k, x in enumerate(inputs)]
        results = f(*leaves)
    except tc.LanguageError as error:
        said = str(error)
        # The last is a limit of the language.
        known = ("derivative", "gradient", "with its lets and calls replaced")
        assert any(word in said for word in known), error
        return "no derivative"
    results = results if isinstance(results, tuple) else (results,)
    results = [r for r in results if r.dtype == torch.double]
    found = torch.autograd.grad(
        results,
        [leaves[k] for k in places],
        weights,
        allow_unused=True,
    )
    slope = sum(
        float((g * moves[k]).sum()) for g, k in zip(found, places, strict=True) if g is not None
    )
    if not np.isfinite(slope):
        # What nobody chooses may be infinite, and its derivative is 0 times that, as in PyTorch.
        everything = results_of(with_temporaries_as_results(text, case.entry), case.entry, inputs)
        if not all(r.isfinite().all() for r in everything):
            return "not finite"
    wanted = slopes[1]
    # What cancels out, as in the logarithm of a softmax of one column, leaves roundings.
    roundings = 1e-12 * sum(float(w.abs().sum()) for w in weights)
    near = 1e-3 * (abs(wanted) + abs(slope)) + 1e-6 * size + roundings
    if abs(slope - wanted) <= near:
        return "same"
    if STEPS.search(text) and abs(wanted) * STEP > 1:
        return "not smooth"  # so many steps lie between that differences do not see them
    # As in x - (x - y) where x is much larger than y: y's moves are lost among the roundings of x.
    if sum(float(np.max(b, initial=0.0)) for b in bounds) / (STEP / 4) > near:
        return "not smooth"
    raise AssertionError(f"the slope is {slope}, differences give {slopes}")
