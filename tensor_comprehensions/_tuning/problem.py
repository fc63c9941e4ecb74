"""What is tuned: a definition with arguments."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from typing import Any

import torch

from tensor_comprehensions import _torch
from tensor_comprehensions._define import find_definition
from tensor_comprehensions._errors import ShapeError, TCError
from tensor_comprehensions._fake import dtype_name
from tensor_comprehensions._options import MappingOptions
from tensor_comprehensions._parameters import Parameters
from tensor_comprehensions._scalars import number_of
from tensor_comprehensions._tuning import tensors


def forms_of(values: Sequence[Any]) -> list[str]:
    """Dtypes, sizes and strides of tensors; the values of scalars."""
    return [
        f"{x.dtype} {tuple(x.shape)} {x.stride()}" if isinstance(x, torch.Tensor) else repr(x)
        for x in values
    ]


def kernel_threads() -> int:
    """As kernels of this process have them, and stores keep Plans for: one where it was forked off
    the threads of another, and all that there are in deterministic mode, where their number must
    decide nothing."""
    facts = dict(line.split("\t")[:2] for line in _torch.machine_facts(False).splitlines())
    # A described machine may have more than this one.
    return min(int(float(facts["threads"])), len(os.sched_getaffinity(0)))


def conditions() -> dict[str, Any]:
    """What else decides how kernels are compiled here, for processes that do that elsewhere."""
    return {
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "environment": {
            name: value
            for name, value in os.environ.items()
            if name.startswith("TC_") and name != "TC_LOGS"  # helpers write nothing
        },
    }


class Problem:
    """A definition, its inputs, how its results lie, and what is decided beforehand."""

    def __init__(
        self,
        source: str,
        entry: str,
        inputs: Sequence[Any],
        constraints: MappingOptions | None = None,
        outputs: Sequence[torch.Tensor] | None = None,
    ) -> None:
        self.source = source
        self.entry = entry
        self.definition = find_definition(source, entry)
        self.constraints = (constraints or MappingOptions()).__copy__()
        infos = self.definition.inputs
        if len(inputs) != len(infos):
            raise Parameters.of(self.definition).count_error(len(inputs))
        self.inputs: list[Any] = []
        for info, value in zip(infos, inputs, strict=True):
            if info.is_scalar:
                self.inputs.append(number_of(info, value))
            elif not isinstance(value, torch.Tensor):
                raise ShapeError(
                    f"argument {info.name}: expected a tensor but got {type(value).__name__}"
                )
            elif value.dtype != info.dtype:
                raise ShapeError(
                    f"argument {info.name}: expected dtype {dtype_name(info.dtype)} but got "
                    f"{dtype_name(value.dtype)}; convert it, or change its type in the text"
                )
            elif value.layout != torch.strided:
                raise ShapeError(
                    f"argument {info.name}: expected a strided tensor but got {value.layout}; "
                    f"convert it with .to_dense()"
                )
            else:
                self.inputs.append(value.detach().resolve_neg())
        devices = {x.device for x in self.inputs if isinstance(x, torch.Tensor)}
        if len({device.type for device in devices}) > 1 or len(devices) > 1:
            raise ShapeError(
                f"the inputs of {entry} are on {', '.join(map(str, sorted(devices, key=str)))}; "
                f"move them to one device"
            )
        self.device = next(iter(devices), torch.device("cpu"))
        if self.device.type not in ("cpu", "cuda"):
            raise TCError(f"{entry} cannot be tuned on {self.device}: CPU and CUDA run kernels")
        self.target = "cuda" if self.device.type == "cuda" else "cpu"
        self.threads = kernel_threads()
        self.outputs = list(outputs) if outputs is not None else self._make_outputs()
        self.is_row_major = outputs is None and all(
            output.is_contiguous() for output in self.outputs
        )

    def _make_outputs(self) -> list[torch.Tensor]:
        """Without elements: sizes and strides as a call makes them."""
        infos = self.definition.inputs
        shapes = [
            () if info.is_scalar else tuple(value.shape)
            for info, value in zip(infos, self.inputs, strict=True)
        ]
        scalars = [
            value if info.is_specialized else 0
            for info, value in zip(infos, self.inputs, strict=True)
        ]
        sizes = iter(self.definition.infer_sizes(scalars, shapes))
        outputs = []
        for info in self.definition.outputs:
            shape = list(islice(sizes, info.ndim))
            form = torch.contiguous_format
            if info.follows >= 0:
                form = torch._prims_common.suggest_memory_format(self.inputs[info.follows])
            outputs.append(
                torch.empty(shape, dtype=info.dtype, device="meta").to(memory_format=form)
            )
        return outputs

    def identity(self) -> str:
        """The same in every process that tunes this."""
        texts = [self.source, self.entry, str(self.constraints), self.target]
        return "\n".join(texts + forms_of(self.inputs))

    def message(self) -> tuple[dict[str, Any], int]:
        """All of it for another process, and the descriptor of its tensors' memory."""
        given = [x for x in self.inputs if isinstance(x, torch.Tensor)]
        described, descriptor = tensors.write([x.cpu() for x in given])
        outputs = [
            {**tensors.describe(output), "device": str(self.device)} for output in self.outputs
        ]
        return {
            "source": self.source,
            "entry": self.entry,
            "options": str(self.constraints),
            "target": self.target,
            "threads": self.threads,
            **conditions(),
            "inputs": [None if isinstance(x, torch.Tensor) else x for x in self.inputs],
            "tensors": described,
            "outputs": outputs,
        }, descriptor

    def given_outputs(self) -> list[torch.Tensor]:
        """For the core, which takes no layouts for row-major ones."""
        return [] if self.is_row_major else self.outputs

    def options(self) -> _torch.Options:
        return _torch.Options.parse(str(self.constraints))

    def key(self) -> tuple[_torch.Definition, _torch.Options, str, list[Any], list[torch.Tensor]]:
        """What stores keep Plans for."""
        options, outputs = self.options(), self.given_outputs()
        return self.definition, options, self.target, self.inputs, outputs
