"""Random programs under torch.func.vmap: every example of a batch is what the interpreter says."""

from __future__ import annotations

import random

import torch
from cases import DTYPES, Case, compare

import tensor_comprehensions as tc
from tensor_comprehensions import reference

EXAMPLES = 3


def check_batch(case: Case) -> bool:
    """Whether there was anything to compare."""
    if case.initial:
        return False
    rng = random.Random(case.seed)
    batched = [t.shape is not None and rng.random() < 0.7 for t in case.inputs]
    if not any(batched):
        return False
    examples = [
        [t.make(case.seed + 7919 * n * b) for t, b in zip(case.inputs, batched, strict=True)]
        for n in range(EXAMPLES)
    ]
    try:
        found = [
            reference.error_bounds(
                case.text,
                case.entry,
                *(torch.as_tensor(v, dtype=DTYPES[t.type]) for v, t in zip(e, case.inputs)),
            )
            for e in examples
        ]
    except tc.TCError:
        return False  # test_random_programs looks at refusals
    dims = tuple((rng.choice([0, -1]) if b else None) for b in batched)
    inputs = [
        values[0] if dim is None else torch.stack(values, dim)
        for values, dim in zip(zip(*examples, strict=True), dims, strict=True)
    ]
    operator = getattr(tc.define(case.text, namespace="tc_fuzz_batch"), case.entry)
    results = torch.func.vmap(operator, in_dims=dims)(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    for n, (wanted, bounds) in enumerate(found):
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for k, (result, w, bound) in enumerate(zip(results, wanted, bounds, strict=True)):
            where = f"example {n} along {dims}, result {k}"
            compare(result[n], torch.as_tensor(w), bound, where)
    return True
