"""Definitions compiled for fixed inputs."""

from __future__ import annotations

import torch

from tensor_comprehensions import _torch
from tensor_comprehensions._define import Callable_, find_definition
from tensor_comprehensions._options import MappingOptions, to_options


class Executor:
    """One definition, compiled for the sizes, strides and dtypes of given inputs.

    Call it with inputs like those it was compiled for; other sizes are a ShapeError.
    """

    def __init__(
        self,
        source: str,
        entry_point: str,
        options: object,
        inputs: tuple,
        target: str | None,
    ) -> None:
        self._definition = find_definition(source, entry_point)
        self._options = to_options(options) or MappingOptions()
        if target is None:
            on_gpu = any(isinstance(x, torch.Tensor) and x.is_cuda for x in inputs)
            target = "cuda" if on_gpu else "cpu"
        self._target = target
        self._key = self._layout(inputs)
        self._kernel = _torch.Executor(self._definition, self._options._options, target, inputs)
        self._operator = _torch.Operator(self._definition, lambda *_: self._options._options)
        self._call = Callable_(self._definition, self._operator, None)

    @staticmethod
    def _layout(inputs: tuple) -> list:
        return [
            (tuple(x.shape), x.stride(), x.dtype, x.device) if isinstance(x, torch.Tensor) else x
            for x in inputs
        ]

    def __call__(self, *inputs: object, outputs: object = None, unchecked: bool = False) -> object:
        """Runs on these inputs; ``outputs`` are written when given, made otherwise.

        ``unchecked`` leaves out the checks of sizes and overlap. ShapeError where the inputs are
        not like those it was compiled for.
        """
        if self._target.startswith("cuda:"):
            from tensor_comprehensions._errors import TCError

            raise TCError(
                f"this executor was compiled for {self._target} and cannot run; compile without "
                f"target= for CUDA tensors"
            )
        if not unchecked:
            self._check(inputs)
        return self._call.run(inputs, outputs, unchecked)

    def run(self, inputs: tuple, outputs: object = None) -> object:
        """As in 2018: inputs and outputs as lists or tuples."""
        return self(*inputs, outputs=outputs)

    def unchecked_run(self, inputs: tuple, outputs: object = None) -> object:
        """``run`` without checks of sizes and overlap."""
        return self(*inputs, outputs=outputs, unchecked=True)

    def _check(self, inputs: tuple) -> None:
        from tensor_comprehensions._errors import ShapeError

        given = self._layout(inputs)
        if len(given) != len(self._key):
            raise ShapeError(
                f"{self._definition.name} expected {len(self._key)} inputs but found {len(given)}"
            )
        for info, mine, theirs in zip(self._definition.inputs, self._key, given, strict=True):
            if isinstance(mine, tuple) and isinstance(theirs, tuple) and mine != theirs:
                what = "sizes, strides, dtype, device"
                raise ShapeError(
                    f"argument {info.name}: this executor was compiled for {what} {mine} but got "
                    f"{theirs}; compile again, or call the definition through tc.define"
                )

    # ---- looking inside

    def text(self, what: str) -> str:
        """A text about the kernel: program, schedule_tree, loop_nest, stmt, assembly, cuda_source,
        build_log, launches, stages, options."""
        return self._kernel.text(what)

    def number(self, what: str) -> int:
        """A number about the kernel: compile_microseconds; on CUDA registers, spill_bytes,
        shared_bytes, launches."""
        return self._kernel.number(what)

    @property
    def schedule_tree(self) -> str:
        """isl's schedule tree after mapping."""
        return self.text("schedule_tree")

    @property
    def loop_nest(self) -> str:
        """The loops that the schedule became, with what each of them is."""
        return self.text("loop_nest")

    @property
    def assembly(self) -> str:
        """The machine code of a CPU kernel as text."""
        return self.text("assembly")

    @property
    def cuda_source(self) -> str:
        """The CUDA C of a GPU kernel."""
        return self.text("cuda_source")

    @property
    def binary(self) -> bytes:
        """The cubin of a GPU kernel."""
        return self._kernel.binary()

    @property
    def mapping_options(self) -> MappingOptions:
        return self._options

    @property
    def input_names(self) -> list[str]:
        return [info.name for info in self._definition.inputs]

    @property
    def input_dtypes(self) -> list[torch.dtype]:
        return [info.dtype for info in self._definition.inputs]

    @property
    def output_names(self) -> list[str]:
        return [info.name for info in self._definition.outputs]

    def profile(self, *inputs: object, repeat: int = 10) -> float:
        """The shortest of some runs on these inputs, in seconds."""
        import time

        outputs = self(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        on_gpu = any(o.is_cuda for o in outputs)
        best = float("inf")
        for _ in range(repeat):
            start = time.perf_counter()
            self(*inputs, outputs=outputs)
            if on_gpu:
                torch.cuda.synchronize()
            best = min(best, time.perf_counter() - start)
        return best


def compile(  # noqa: A001
    source: str, entry_point: str, options: object, *inputs: object, target: str | None = None
) -> Executor:
    """Compiles one definition of a text for these inputs.

    ``options`` is None, a preset's name or MappingOptions. ``target`` is chosen by the inputs'
    device; ``"cuda:sm_90"`` compiles for a GPU that need not be there, with CPU tensors standing
    for their sizes and strides. LanguageError, ShapeError or CompilationError say what is wrong.
    """
    return Executor(source, entry_point, options, inputs, target)
