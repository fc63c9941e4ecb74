"""Random programs as CUDA text under the emulator, against the interpreter."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields

import cases
import emulated
import numpy as np
import torch
from cases import Case, make_options, on_machine
from random_programs import make_case

import tensor_comprehensions as tc

launches = 0


@dataclass(frozen=True)
class CudaCase(Case):
    """One whose results are those of its CUDA text."""

    def actual(self, options: str) -> tuple[torch.Tensor, ...]:
        global launches
        options, _, machine = options.partition(" on ")
        inputs = tuple(self.make_inputs())
        with on_machine(machine):
            executor = tc.compile(
                self.text, self.entry, make_options(options), *inputs, target="cuda:sm_90"
            )
        initial = self.make_initial()
        outputs = initial or emulated.make_outputs(executor, inputs)
        outputs = tuple(output.contiguous() for output in outputs)
        report = emulated.run(executor, inputs, outputs, initial=None if initial else 0)
        launches += executor.number("launches")
        if report is not None:
            raise tc.ShapeError(f"a bad index was reported: {report}")
        return outputs


def make_cuda_case(seed: int) -> CudaCase:
    """With the default options, and for some seeds with those that were drawn."""
    case = make_case(seed)
    values = {f.name: getattr(case, f.name) for f in fields(Case)}
    drawn = [options for options in case.options if options != "None"]
    return CudaCase(**{**values, "options": ("None", *drawn[seed % 2 : 1])})


def check(case: CudaCase) -> Counter[str]:
    """What `cases.check` counts, and the launches that were made."""
    before = launches
    try:
        counts = cases.check(case)
    except cases.Disagreement as error:
        # Where data say that such elements are read, nothing is promised.
        unwritten = "nobody has written it" in str(error)
        if not unwritten or all(np.isfinite(bound).all() for bound in case.wanted()[1]):
            raise
        counts = Counter()
    counts["launches"] = launches - before
    return counts
