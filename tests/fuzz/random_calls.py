"""One operator, called again and again: with other values and strides, with sizes that change,
0 and 1 among them, with inputs that share memory, and into memory that others lie in.

The first call is made once more at the end: what came between must not have changed its result.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import torch
from cases import DTYPES, Case, Disagreement, Tensor, compare, namespace_for
from cases import check as check_values

import tensor_comprehensions as tc
from tensor_comprehensions import reference

#: What memory holds that a kernel is not to touch.
UNTOUCHED = 77


def check(case: Case) -> Counter[str]:
    """Counts the "calls" that gave what the interpreter says."""
    case = replace(case, options=("None",))
    r = random.Random(f"calls {case.seed}")
    counts: Counter[str] = Counter()
    first = None
    if check_values(case)["programs"]:
        counts["calls"] += 1
        first = case.actual("None")
    for _ in range(2):
        other = replace(case, seed=case.seed + r.randrange(1, 10**6))
        counts["calls"] += check_values(other)["programs"]
        sized = replace(case, inputs=resize(case.inputs, r))
        if not case.initial:  # the sizes of what is passed would have to follow
            made = check_values(sized)["programs"]
            counts["calls"] += made
            counts["other sizes"] += made
            counts["empty"] += made and any(0 in (t.shape or ()) for t in sized.inputs)
    if first is None or case.initial:
        return counts
    operator = tc.define(case.text, namespace=namespace_for(""))
    check_views(case, operator, first, r, counts)
    _, bounds = case.wanted()
    for again, before, bound in zip(case.actual("None"), first, bounds, strict=True):
        # What nothing is promised about may be what lay in the memory.
        same = (again.nan_to_num() == before.nan_to_num()) | ~torch.as_tensor(np.isfinite(bound))
        if not same.all():
            raise Disagreement("again", f"the first call gives {again}, and gave {before}")
    return counts


def resize(inputs: tuple[Tensor, ...], r: random.Random) -> tuple[Tensor, ...]:
    """Every dimension of one size, in all inputs, has another one; those of tables stay."""
    sizes = {n for t in inputs if t.kind != "index" for n in t.shape or ()}
    if not sizes:
        return inputs
    old = r.choice(sorted(sizes))
    new = r.choice([0, 1, old + 1, max(1, old - 1), 2 * old])

    def changed(t: Tensor) -> Tensor:
        if t.shape is None or (t.kind == "index" and t.bound[1] == old):
            return t
        return replace(t, shape=tuple(new if n == old else n for n in t.shape))

    return tuple(map(changed, inputs))


def check_views(
    case: Case,
    operator: object,
    results: tuple[torch.Tensor, ...],
    r: random.Random,
    counts: Counter[str],
) -> None:
    """Inputs that are views of one memory, results in the gaps of an input."""
    inputs = share_memory(case, r)
    try:
        wanted, bounds = reference.error_bounds(
            case.text,
            case.entry,
            *(torch.as_tensor(x, dtype=DTYPES[t.type]) for x, t in zip(inputs, case.inputs)),
        )
    except tc.TCError:
        return
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    wanted = tuple(torch.as_tensor(w) for w in wanted)
    outputs, gaps = [], []
    for k, w in enumerate(wanted):
        memory, view, beside = interleave(w, r)
        same = [
            n
            for n, x in enumerate(inputs)
            if isinstance(x, torch.Tensor) and x.dtype == w.dtype and x.shape == w.shape
        ]
        if k == 0 and same:
            place = r.choice(same)
            beside.copy_(inputs[place])
            inputs[place] = beside
        outputs.append(view)
        gaps.append((memory, beside, beside.clone()))
    run = getattr(operator, case.entry)
    written = run(*inputs, outputs=tuple(outputs))
    written = written if isinstance(written, tuple) else (written,)
    for k, (a, w, bound) in enumerate(zip(outputs, wanted, bounds, strict=True)):
        compare(a, w, bound, f"views, result {k}")
        if a.numel() and written[k].data_ptr() != a.data_ptr():
            raise Disagreement("memory", f"result {k} is not what was passed for it")
    for k, (memory, beside, before) in enumerate(gaps):
        rest = memory[..., 2]
        touched = not torch.equal(rest, torch.full_like(rest, UNTOUCHED))
        if touched or not torch.equal(beside.nan_to_num(), before.nan_to_num()):
            raise Disagreement("beside", f"something beside result {k} was written")
    counts["calls"] += 1
    counts["views"] += 1
    for n, x in enumerate(inputs):
        if isinstance(x, torch.Tensor) and x.numel() and can_hold(x, results[0]):
            held = x.clone()
            try:
                run(*inputs, outputs=(x, *outputs[1:]))
            except tc.ShapeError as error:
                if "overlap" not in str(error) and "share one place" not in str(error):
                    raise
                counts["overlaps"] += 1
            else:
                raise Disagreement("overlap", f"the memory of input {n} was taken for a result")
            if not torch.equal(x.nan_to_num(), held.nan_to_num()):
                raise Disagreement("overlap", f"input {n} was written by a call that was refused")
            break


def can_hold(x: torch.Tensor, result: torch.Tensor) -> bool:
    return x.dtype == result.dtype and x.shape == result.shape


def interleave(
    w: torch.Tensor, r: random.Random
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Memory, a place in it for such a result, and the places between its elements."""
    order = r.sample(range(w.dim()), w.dim())
    memory = torch.full((*(w.shape[d] for d in order), 3), UNTOUCHED, dtype=w.dtype)
    back = np.argsort(order).tolist()
    place = r.randrange(2)
    return memory, memory[..., place].permute(back), memory[..., 1 - place].permute(back)


def share_memory(case: Case, r: random.Random) -> list:
    """The inputs of one type as views of one memory, which lie in each other or repeat elements."""
    values = case.make_inputs()
    for type_ in {t.type for t in case.inputs}:
        places = [
            k
            for k, t in enumerate(case.inputs)
            if t.type == type_ and t.shape is not None and t.kind != "index"
        ]
        whole = [values[k].flatten() for k in places if values[k].numel()]
        if not whole:
            continue
        memory = torch.cat(whole)
        for k in places:
            strides, reach = [], 0
            for size in case.inputs[k].shape:
                most = (memory.numel() - 1 - reach) // max(1, size - 1)
                strides.append(r.randint(0, max(0, min(most, 5))))
                reach += strides[-1] * max(0, size - 1)
            start = r.randint(0, memory.numel() - 1 - reach)
            values[k] = memory.as_strided(case.inputs[k].shape, strides, start)
    return values
