"""What it costs to look at indices that are data: kernels with the checks against the same without.

python benchmarks/index_checks.py [PART OF A NAME ...] [--threads 1] [--rounds 15]

1LUT and 2LUT of the papers, and every definition of ops/ that reads or writes at places that data
says, with its derivative. The ratio is the time without the checks over the time with them: 0.97 is
3 %. Both kernels take turns on the same tensors.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import command
from cases import CASES
from definitions import scaled, sizes
from harness import Comparison, Row, Rows
from operators import FAMILIES, Values

import tensor_comprehensions as tc

#: Of the papers.
LOOKUPS = ("1LUT", "2LUT")


def kernel(source: str, entry_point: str, inputs: tuple, checked: bool) -> Callable[[], object]:
    """A call that writes into memory of its own, as compiled with or without the checks."""
    if not checked:
        os.environ["TC_CHECK"] = "0"
    operator = getattr(
        tc.define(source, namespace="tc_checked" if checked else "tc_unchecked"), entry_point
    )
    try:
        operator(*inputs)
    finally:
        os.environ.pop("TC_CHECK", None)
    return lambda: operator(*inputs)


def looks_at_indices(source: str, entry_point: str, inputs: tuple) -> bool:
    text = tc.compile(source, entry_point, None, *inputs).explain()
    return any(line.split()[:2] == ["indices", "looked"] for line in text.splitlines())


def gradient_of(source: str, entry_point: str, inputs: tuple) -> tuple[str, str, tuple] | None:
    """The derivative's text and name, and what it takes: inputs, results, gradients of ones."""
    scalars = {
        name: value
        for name, value in zip(names_of(source, entry_point), inputs, strict=True)
        if isinstance(value, int)
    }
    try:
        text = tc.grad_source(source, entry_point, **scalars)
    except tc.TCError:
        return None
    if not text:
        return None
    operator = getattr(tc.define(source), entry_point)
    results = operator(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    outputs = [info.name for info in operator.definition.outputs]
    given = dict(zip(names_of(source, entry_point), inputs, strict=True))
    given |= dict(zip(outputs, results, strict=True))
    given |= {
        f"d_{name}": torch.ones_like(result) for name, result in zip(outputs, results, strict=True)
    }
    name = f"{entry_point}_grad"
    arguments = [given[parameter] for parameter in names_of(text, name)]
    return (
        text,
        name,
        tuple(
            x.reshape(1) if isinstance(x, torch.Tensor) and x.dim() == 0 else x for x in arguments
        ),
    )


def names_of(source: str, entry_point: str) -> list[str]:
    definition = getattr(tc.define(source), entry_point).definition
    return [info.name for info in definition.inputs]


def workloads() -> Iterator[tuple[str, str, str, tuple]]:
    """A title, a text, the definition's name and its inputs."""
    for case in CASES:
        if case.name in LOOKUPS:
            yield case.name, case.text, case.entry, case.inputs()
    for family, cases in FAMILIES.items():
        for case in cases:
            name = case.definition
            # Where there is no tensor of integers, there is no index that is data.
            inputs = case.inputs(Values(torch.float32), *sizes(family, case))
            if not any(isinstance(x, torch.Tensor) and not x.is_floating_point() for x in inputs):
                continue
            yield name, tc.ops.source(name), name, scaled(inputs, family)


def row(text: str, name: str, given: tuple) -> Row:
    return Row(
        kernel(text, name, given, checked=True),
        lambda: {"unchecked": kernel(text, name, given, checked=False)},
        tolerance=0,
    )


def rows(options: argparse.Namespace) -> Rows:
    for title, source, entry_point, inputs in workloads():
        if options.names and not any(
            part in f"{title}, {way}" for part in options.names for way in ("forward", "backward")
        ):
            continue
        gradient = gradient_of(source, entry_point, inputs) if title not in LOOKUPS else None
        for part, *given in (
            ("forward", source, entry_point, inputs),
            *([("backward", *gradient)] if gradient else []),
        ):
            if looks_at_indices(*given):
                yield f"{title}, {part}", partial(row, *given)


def summary(comparisons: list[Comparison]) -> dict[str, object]:
    print(f"least {min(c.ratio for c in comparisons):.3f}")
    return {}


def arguments() -> argparse.ArgumentParser:
    return command.parser(__doc__, rounds=15)


if __name__ == "__main__":
    command.main("index_checks", rows, arguments(), summary)
