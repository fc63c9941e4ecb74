"""The low-level names of the 2018 package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tensor_comprehensions import _executor
from tensor_comprehensions._define import find_definition, parse
from tensor_comprehensions._errors import TCError
from tensor_comprehensions._executor import Executor as TcExecutor
from tensor_comprehensions._flags import (
    cuda_compiler,
    debug_halide,
    debug_lang,
    debug_tc_mapper,
    debug_tuner,
    dump_cuda,
    dump_ptx,
    llvm_flags,
    logtostderr,
    nvcc_flags,
)
from tensor_comprehensions._options import MappingOptions
from tensor_comprehensions._parameters import sizes_text
from tensor_comprehensions._tuning.config import TunerConfig
from tensor_comprehensions._tuning.tuner import MappingOptionsCache, Tuner

Tensors = Sequence[torch.Tensor]


def _listed(outputs: torch.Tensor | Tensors) -> tuple[torch.Tensor, ...] | None:
    """The tensors to write to; a lone one is one, and not its rows."""
    return (outputs,) if isinstance(outputs, torch.Tensor) else tuple(outputs) or None


def _layout(tensor: torch.Tensor) -> object:
    """Strides, which sparse tensors have none of; ``compile`` says so of these."""
    return tensor.stride() if tensor.layout == torch.strided else tensor.layout


def parse_defs(source: str) -> list[str]:
    """The names of the definitions of a text."""
    return [definition.name for definition in parse(source).definitions]


def compile(
    source: str, entry_point: str, inputs: Sequence[Any], options: MappingOptions
) -> TcExecutor:
    """``tensor_comprehensions.compile`` with the inputs in front of the options."""
    return _executor.compile(source, entry_point, options, *inputs)


class CompilationCache:
    """Executors of the definitions of a text, by the layouts of their inputs."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._executors: dict[Any, TcExecutor] = {}
        parse(source)

    def _key(self, entry_point: str, inputs: Sequence[Any]) -> Any:
        find_definition(self._source, entry_point)
        return entry_point, tuple(
            (x.shape, _layout(x), x.dtype, x.device) if isinstance(x, torch.Tensor) else x
            for x in inputs
        )

    def is_compiled(self, entry_point: str, inputs: Sequence[Any]) -> bool:
        """Whether ``compile`` was called for such inputs."""
        return self._key(entry_point, inputs) in self._executors

    def compile(self, entry_point: str, inputs: Sequence[Any], options: MappingOptions) -> None:
        """Compiles for these inputs, in place of what was compiled for them before."""
        key = self._key(entry_point, inputs)
        self._executors[key] = _executor.compile(self._source, entry_point, options, *inputs)

    def alloc_outputs(self, entry_point: str, inputs: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """Outputs for these inputs, without particular values."""
        from tensor_comprehensions._tuning.problem import Problem

        problem = Problem(self._source, entry_point, inputs)
        return tuple(torch.empty_like(x, device=problem.device) for x in problem.outputs)

    def _find(self, entry_point: str, inputs: Sequence[Any]) -> TcExecutor:
        found = self._executors.get(self._key(entry_point, inputs))
        if found is None:
            raise TCError(
                f"{entry_point} is not compiled for inputs of sizes {sizes_text(inputs)}; call "
                f"compile first"
            )
        return found

    def run(
        self, entry_point: str, inputs: Sequence[Any], outputs: torch.Tensor | Tensors = ()
    ) -> torch.Tensor:
        """Runs what was compiled; ``outputs`` are written where there are any."""
        return self._find(entry_point, inputs).run(tuple(inputs), _listed(outputs))

    def unchecked_run(
        self, entry_point: str, inputs: Sequence[Any], outputs: torch.Tensor | Tensors = ()
    ) -> torch.Tensor:
        """``run`` without checks of sizes and overlap."""
        return self._find(entry_point, inputs).unchecked_run(tuple(inputs), _listed(outputs))


__all__ = [
    "CompilationCache",
    "MappingOptions",
    "MappingOptionsCache",
    "TcExecutor",
    "Tuner",
    "TunerConfig",
    "compile",
    "cuda_compiler",
    "debug_halide",
    "debug_lang",
    "debug_tc_mapper",
    "debug_tuner",
    "dump_cuda",
    "dump_ptx",
    "llvm_flags",
    "logtostderr",
    "nvcc_flags",
    "parse_defs",
]
