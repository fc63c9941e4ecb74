"""Random programs as CUDA text under the emulator, and on a GPU, against the interpreter."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, fields

import cases
import emulated
import numpy as np
import torch
from cases import Case, make_options, namespace_for, on_machine
from random_layers import make_layers
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


@dataclass(frozen=True)
class GpuCase(Case):
    """One whose results a GPU computes, as the operator of a user."""

    def actual(self, options: str) -> tuple[torch.Tensor, ...]:
        # A bad index fails the call that met it.
        os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
        options, _, machine = options.partition(" on ")
        t = tc.define(self.text, make_options(options), namespace=namespace_for(machine))
        initial = self.make_initial()
        keywords = {} if initial is None else {"outputs": tuple(map(on_gpu, initial))}
        with on_machine(machine):
            results = t(self.entry, *map(on_gpu, self.make_inputs()), **keywords)
        torch.cuda.synchronize()
        results = results if isinstance(results, tuple) else (results,)
        return tuple(result.cpu() for result in results)


def on_gpu(value: object) -> object:
    """A tensor on the GPU, with the strides and the offset that it has; numbers stay."""
    if not isinstance(value, torch.Tensor):
        return value
    memory = torch.empty(0, dtype=value.dtype, device="cuda")
    storage = value.untyped_storage().cuda()
    return memory.set_(storage, value.storage_offset(), value.size(), value.stride())


def values_of(case: Case) -> dict[str, object]:
    return {f.name: getattr(case, f.name) for f in fields(Case)}


def with_few_options(case: Case, seed: int) -> dict[str, object]:
    """The default options, and for some seeds one of those that were drawn."""
    drawn = [options for options in case.options if options != "None"]
    return {**values_of(case), "options": ("None", *drawn[seed % 2 : 1])}


def make_cuda_case(seed: int) -> CudaCase:
    return CudaCase(**with_few_options(make_case(seed), seed))


def make_gpu_program(seed: int) -> GpuCase:
    return GpuCase(**with_few_options(make_case(seed), seed))


def make_gpu_layer(seed: int) -> GpuCase:
    return GpuCase(**{**values_of(make_layers(seed)), "options": ("None",)})


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
