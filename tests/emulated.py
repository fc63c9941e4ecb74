"""Definitions compiled for CUDA and run on the CPU under the emulator."""

from __future__ import annotations

import json
import math

import emulator
import numpy as np
import torch

import tensor_comprehensions as tc

#: struct tc::bad_index of the texts.
REPORT = np.dtype(
    [("state", "u4"), ("check", "i4"), ("position", "i8"), ("index", "i8"), ("kernel", "u8")]
)


def make_outputs(executor: tc.Executor, inputs: tuple) -> tuple[torch.Tensor, ...]:
    """Tensors for the results of a kernel, full of what is no result."""
    infos = executor._definition.inputs
    scalars = [x if info.is_specialized else 0 for info, x in zip(infos, inputs)]
    shapes = [() if info.is_scalar else tuple(x.shape) for info, x in zip(infos, inputs)]
    sizes = iter(executor._definition.infer_sizes(scalars, shapes))
    return tuple(
        torch.full(
            [next(sizes) for _ in range(info.ndim)],
            math.nan if info.dtype.is_floating_point else info.dtype != torch.bool and 77,
            dtype=info.dtype,
        )
        for info in executor._definition.outputs
    )


def elements_between(tensor: torch.Tensor) -> torch.Tensor:
    """The memory from a tensor's first element to its last, as the kernel gets it."""
    if tensor.is_contiguous() or tensor.numel() == 0:
        return tensor.contiguous()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.as_strided((last + 1,), (1,))


def run(
    executor: tc.Executor,
    inputs: tuple,
    outputs: tuple[torch.Tensor, ...],
    order: str = "shuffled",
    initial: int | None = None,
    counts: list[emulator.Counts] | None = None,
    instead: dict[str, tuple[emulator.Module, str] | None] | None = None,
) -> np.void | None:
    """Runs all launches of a kernel; `outputs` are written in place. Temporaries start as NaN, and
    reading what no launch has written raises. So do reads of outputs, where `initial` says how many
    of them, the first, have contents that are added to.

    The bad index that was reported first, if there was one. `counts` receives what every launch
    asks of memory. `instead` has, for some launches, a kernel of another module that takes its
    place, or None where it is left out.
    """
    plan = json.loads(executor.text("launches"))
    memory: dict[str, object] = {}
    for name, value, dtype in zip(executor.input_names, inputs, executor.input_dtypes, strict=True):
        if isinstance(value, torch.Tensor) and value.dim() > 0:
            memory[name] = elements_between(value)
        else:
            number = torch.as_tensor(value, dtype=dtype)
            bits = number.view(torch.int16) if dtype == torch.bfloat16 else number
            memory[name] = bits.numpy()[()]
    memory.update(zip(executor.output_names, outputs, strict=True))
    defined: dict[str, np.ndarray] = {}
    for temporary in plan["temporaries"]:
        size, name = temporary["bytes"], temporary["name"]
        memory[name] = np.full(temporary["elements"], -1, f"i{size}")
        defined[name] = np.zeros(temporary["elements"] * size, np.uint8)
    if initial is not None:
        for name, output in list(zip(executor.output_names, outputs))[initial:]:
            defined[name] = np.zeros(output.numel() * output.element_size(), np.uint8)
    report = np.zeros(1, REPORT)
    memory[".report"], memory[".kernel"] = report.view(np.uint8), np.uint64(7)
    if not plan["launches"]:  # nothing to do
        return None
    module = emulator.compile(executor.cuda_source)
    for launch in plan["launches"]:
        names = launch["arguments"]
        chosen = (instead or {}).get(launch["symbol"], (module, launch["symbol"]))
        if chosen is None:
            continue
        counted = chosen[0].launch(
            chosen[1],
            launch["grid"],
            launch["block"],
            [memory[name] for name in names],
            launch.get("shared_bytes", 0),
            order,
            counts=counts is not None,
            defined={i: defined[name] for i, name in enumerate(names) if name in defined},
        )
        if counts is not None:
            counts.append(counted)
    return report[0] if report["state"][0] else None
