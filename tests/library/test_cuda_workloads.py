"""Every text of the papers for CUDA, without a GPU.

The printed text is compiled by NVRTC for two architectures, where no kernel may spill registers,
and run on the CPU under the emulator.
"""

from __future__ import annotations

import emulated
import pytest
import torch
from workloads import WORKLOADS, Workload, assert_near

import tensor_comprehensions as tc

by_name = pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
OPTIONS = {
    "automatic": None,
    "few threads": tc.MappingOptions("naive").tile(4, 8, 16).mapToThreads(4, 2).mapToBlocks(3),
}


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def emulate(executor: tc.Executor, workload: Workload, inputs: tuple, wanted: tuple) -> None:
    """Runs all launches of a kernel on CPU arrays and compares every output."""
    torch.manual_seed(1)
    initial = workload.initial() if workload.initial else ()
    outputs = [w.new_full(w.shape, -7) for w in wanted]
    for output, start in zip(outputs, initial, strict=False):
        output.copy_(start)
    emulated.run(executor, inputs, tuple(outputs), initial=None if initial else 0)
    assert_near(workload, outputs, wanted)


def compile_for(workload: Workload, inputs: tuple, options: object, arch: str) -> tc.Executor:
    return tc.compile(workload.text, workload.entry, options, *inputs, target=f"cuda:{arch}")


@pytest.mark.sampled
@by_name
@pytest.mark.parametrize("options", OPTIONS)
def test_emulated(workload: Workload, options: str) -> None:
    inputs = workload.inputs()
    if workload.initial is None:
        wanted = workload.reference(*inputs)
    else:
        torch.manual_seed(1)
        wanted = workload.reference(*inputs, *workload.initial())
    executor = compile_for(workload, inputs, OPTIONS[options], "sm_90")
    emulate(executor, workload, inputs, wanted)


@pytest.mark.sampled
@by_name
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_no_spills(workload: Workload, arch: str) -> None:
    executor = compile_for(workload, workload.inputs(), None, arch)
    assert executor.number("spill_bytes") == 0
    assert 0 < executor.number("registers") <= 255
    assert len(executor.binary) > 0
