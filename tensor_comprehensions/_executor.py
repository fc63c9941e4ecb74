"""Definitions compiled for fixed inputs."""

from __future__ import annotations

from itertools import islice
from typing import Any, cast

import torch

from tensor_comprehensions import _html, _torch
from tensor_comprehensions._define import find_definition
from tensor_comprehensions._errors import ShapeError, TCError
from tensor_comprehensions._operator import Operator, unchecked_indices
from tensor_comprehensions._options import MappingOptions, to_options
from tensor_comprehensions._parameters import Parameters, declared, described, document, signature


@described(
    lambda executor: document(executor._definition, *executor._types()),
    lambda executor: signature(executor._definition, *executor._types()),
)
class Executor:
    """One definition, compiled for the sizes, strides and dtypes of given inputs.

    Call it with inputs like those it was compiled for; other sizes are a ShapeError. Its results
    carry no gradients. It is no operator: TCError where a graph is traced, and for tensors that are
    no memory, as fake ones.
    """

    def __init__(
        self,
        definition: _torch.Definition,
        options: object,
        inputs: tuple[Any, ...],
        target: str | torch.device | None,
    ) -> None:
        self._definition = definition
        self._infos = list(self._definition.inputs)
        self._parameters = Parameters.of(self._definition)
        chosen = (to_options(options) or MappingOptions()).__copy__()
        self._options = chosen
        on_gpu = any(isinstance(x, torch.Tensor) and x.is_cuda for x in inputs)
        here = "cuda" if on_gpu else "cpu"
        self._target = here if target is None else str(target)
        self._operator = _torch.Operator(self._definition, lambda *_: chosen._options, keeps=True)
        # What runs is what texts tell of, whatever is tuned or loaded later.
        self._kernel = (
            _torch.Executor(self._operator, inputs)
            if self._target == here
            else _torch.Executor(self._definition, chosen._options, self._target, inputs)
        )
        self._layouts = self._layouts_of(inputs)
        self._outputs = Operator(self._definition, self._operator)

    def _types(self) -> tuple[list[str], list[str]]:
        """What inputs and results are, with the sizes that this was compiled for."""
        infos, definition = self._infos, self._definition
        shapes = [
            () if info.is_scalar else tuple(layout[0])
            for info, layout in zip(infos, self._layouts, strict=True)
        ]
        scalars = [
            layout if info.is_specialized else 0
            for info, layout in zip(infos, self._layouts, strict=True)
        ]
        sizes = iter(definition.infer_sizes(scalars, shapes))
        return (
            [declared(info, shape) for info, shape in zip(infos, shapes, strict=True)],
            [
                f"{declared(info, list(islice(sizes, info.ndim)))} {info.name}"
                for info in definition.outputs
            ],
        )

    def _layouts_of(self, inputs: tuple[Any, ...]) -> list[Any]:
        """What the code was made for: of scalars only those whose value decides sizes."""
        return [
            (value.shape, value.stride(), value.dtype, value.device)
            if isinstance(value, torch.Tensor) and not info.is_scalar
            else int(value)
            if info.is_specialized
            else None
            for info, value in zip(self._infos, inputs, strict=True)
        ]

    def __call__(
        self, /, *inputs: object, outputs: object = None, unchecked: bool = False, **named: object
    ) -> torch.Tensor:
        """Runs on these inputs, by place or by name.

        ``outputs`` are written when given, made otherwise. ``unchecked`` leaves out the comparison
        with the inputs it was compiled for, the checks of overlap and every look at indices that
        are data: one outside reads or writes whatever lies there. ShapeError where the inputs are
        not like those, or an index leaves its tensor.
        """
        if self._target.startswith("cuda:"):
            raise TCError(
                f"this executor was compiled for {self._target} and cannot run; compile without "
                f"target= for CUDA tensors"
            )
        if named:
            inputs = self._parameters.arrange(inputs, named)
        if unchecked:
            with unchecked_indices():
                return self._run(inputs, outputs, unchecked)
        self._check(inputs)
        return self._run(inputs, outputs, unchecked)

    def _run(self, inputs: tuple[Any, ...], outputs: object, unchecked: bool) -> torch.Tensor:
        if outputs is not None:
            with torch.no_grad():
                written: torch.Tensor = self._outputs.run(inputs, outputs, unchecked)
                return written
        if any(info.accumulates for info in self._definition.outputs):
            self._outputs.run(inputs)  # says which outputs must be given
        results = self._operator.call(inputs)
        return results[0] if len(results) == 1 else cast(torch.Tensor, tuple(results))

    def run(self, inputs: tuple[Any, ...], outputs: object = None) -> torch.Tensor:
        """As in 2018: inputs and outputs as lists or tuples; without outputs these are made."""
        return self(*inputs, outputs=_given(outputs))

    def unchecked_run(self, inputs: tuple[Any, ...], outputs: object = None) -> torch.Tensor:
        """``run`` without checks of sizes and overlap."""
        return self(*inputs, outputs=_given(outputs), unchecked=True)

    def _check(self, inputs: tuple[Any, ...]) -> None:
        infos, name = self._infos, self._definition.name
        if len(inputs) != len(infos):
            raise self._parameters.count_error(len(inputs))
        for info, value in zip(infos, inputs, strict=True):
            if not info.is_scalar and not isinstance(value, torch.Tensor):
                raise ShapeError(
                    f"argument {info.name}: expected a tensor but got {type(value).__name__}"
                )
        given = self._layouts_of(inputs)
        if given == self._layouts:
            return
        for info, expected, got in zip(infos, self._layouts, given, strict=True):
            if expected == got or _lie_alike(expected, got):
                continue
            if info.is_scalar:
                what, expected, got = "the value", (expected,), (got,)
            else:
                what = "sizes, strides, dtype and device"
            raise ShapeError(
                f"argument {info.name}: {name} was compiled for {what} "
                f"{', '.join(_text(x) for x in expected)} but got "
                f"{', '.join(_text(x) for x in got)}; compile again, or call the definition "
                f"through tensor_comprehensions.define"
            )

    # ---- looking inside

    def text(self, what: str) -> str:
        """A text about the kernel: program, explain, schedule_tree, loop_nest, stmt, assembly,
        cuda_source, build_log, launches, stages, options."""
        return self._kernel.text(what)

    def number(self, what: str) -> int:
        """A number about the kernel: compile_microseconds; on the CPU scratch_bytes and
        task_scratch_bytes (memory for copies, of the caller and of each parallel task); on CUDA
        registers, spill_bytes, shared_bytes, launches."""
        return self._kernel.number(what)

    @property
    def schedule_tree(self) -> str:
        """isl's schedule tree after mapping."""
        return self.text("schedule_tree")

    @property
    def loop_nest(self) -> str:
        """The loops that the schedule became, with what each of them is."""
        return self.text("loop_nest")

    def explain(self) -> str:
        """What the compiler decided, and why, in lines of a label and a text.

        For every fusion group its statements, what became vectors, blocks, tiles, tasks and copies,
        and the cycles that the model expects of the choice and of what lost. For the whole the
        operations (a multiply-add is two), the bytes of inputs and outputs if each element travels
        once, the share of a core's peak that the model expects, workspaces and scratch in bytes
        (KiB are 1024), and the milliseconds of every stage. On CUDA the grid, block, registers and
        shared memory of every launch. docs/explain.md explains the lines; the words may change.
        """
        return self.text("explain")

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
        """What it was compiled with."""
        return self._options

    @property
    def options(self) -> MappingOptions:
        """The whole Plan that runs: compiled with these options, it is the same machine code."""
        return MappingOptions.parse(self.text("options"))

    @property
    def input_names(self) -> list[str]:
        return [info.name for info in self._definition.inputs]

    @property
    def input_dtypes(self) -> list[torch.dtype]:
        return [info.dtype for info in self._definition.inputs]

    @property
    def output_names(self) -> list[str]:
        return [info.name for info in self._definition.outputs]

    def __repr__(self) -> str:
        inputs, outputs = self._types()
        named = [f"{text} {name}" for text, name in zip(inputs, self.input_names, strict=True)]
        called = f"{self._definition.name}({', '.join(named)}) -> ({', '.join(outputs)})"
        return f"<executor of {_html.heading(called)} on {self._target}>"

    def _repr_html_(self) -> str:
        return (
            f"{_html.code(repr(self))}{_html.text_block(self._definition.text)}"
            f"{_html.details('what the compiler decided', self.explain())}"
        )

    def profile(self, *inputs: object, repeat: int = 10) -> float:
        """The shortest of some runs on these inputs, in seconds: of the kernel alone, on a GPU by
        the device's own clock."""
        results: Any = self(*inputs)
        outputs = list(results) if isinstance(results, tuple) else [results]
        with torch.no_grad():
            return min(self._operator.time(inputs, outputs) for _ in range(max(1, repeat)))


def _given(outputs: object) -> object:
    """None for a sequence of no tensors."""
    return None if isinstance(outputs, (tuple, list)) and not outputs else outputs


def _lie_alike(expected: object, got: object) -> bool:
    """Whether tensors of these sizes, strides, dtypes and devices differ in nothing but strides
    that lead to no other element."""
    if not (isinstance(expected, tuple) and isinstance(got, tuple)):
        return False
    (sizes, a, *kind), (other_sizes, b, *other_kind) = expected, got
    if sizes != other_sizes or kind != other_kind:
        return False
    return 0 in sizes or all(n == 1 or x == y for n, x, y in zip(sizes, a, b, strict=True))


def _text(value: object) -> str:
    return str(tuple(value)) if isinstance(value, torch.Size) else str(value)


def compile(
    source: str,
    entry_point: str,
    options: object,
    *inputs: object,
    target: str | torch.device | None = None,
) -> Executor:
    """Compiles one definition of a text for these inputs.

    ``options`` is None, a preset's name or MappingOptions. ``target`` is chosen by the inputs'
    device; ``"cuda:sm_90"`` compiles for a GPU that need not be there, with CPU tensors standing
    for their sizes and strides. LanguageError, ShapeError or CompilationError say what is wrong.
    """
    return Executor(find_definition(source, entry_point), options, inputs, target)
