"""Definitions compiled for CUDA and run on the CPU under the emulator."""

from __future__ import annotations

import json

import emulator
import numpy as np
import torch

import tensor_comprehensions as tc

#: struct tc::bad_index of the texts.
REPORT = np.dtype(
    [("state", "u4"), ("check", "i4"), ("position", "i8"), ("index", "i8"), ("kernel", "u8")]
)


def run(
    executor: tc.Executor,
    inputs: tuple,
    outputs: tuple[torch.Tensor, ...],
    order: str = "forward",
) -> np.void | None:
    """Runs all launches of a kernel; `outputs` are written in place. Temporaries start as NaN.

    The bad index that was reported first, if there was one.
    """
    plan = json.loads(executor.text("launches"))
    memory: dict[str, object] = {}
    for name, value, dtype in zip(executor.input_names, inputs, executor.input_dtypes, strict=True):
        if isinstance(value, torch.Tensor) and value.dim() > 0:
            memory[name] = value.contiguous()
        else:
            memory[name] = np.dtype(str(dtype).removeprefix("torch.")).type(value)
    memory.update(zip(executor.output_names, outputs, strict=True))
    for temporary in plan["temporaries"]:
        memory[temporary["name"]] = np.full(
            temporary["elements"] * temporary["bytes"], 0xFF, np.uint8
        )
    report = np.zeros(1, REPORT)
    memory[".report"], memory[".kernel"] = report.view(np.uint8), np.uint64(7)
    if not plan["launches"]:  # nothing to do
        return None
    module = emulator.Module(executor.cuda_source)
    for launch in plan["launches"]:
        module.launch(
            launch["symbol"],
            launch["grid"],
            launch["block"],
            [memory[name] for name in launch["arguments"]],
            order=order,
        )
    return report[0] if report["state"][0] else None
