"""Mapping options: how a definition is scheduled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from operator import index
from typing import Any, Literal, overload

import tensor_comprehensions
from tensor_comprehensions import _html, _torch
from tensor_comprehensions._errors import TCError
from tensor_comprehensions._parameters import sizes_text

logger = logging.getLogger("tensor_comprehensions")


def _plain(value: Any) -> Any:
    """Numbers and arrays of NumPy, and tensors, as Python's own."""
    return value.tolist() if hasattr(value, "tolist") else value


def _flatten(values: Iterable[Any]) -> list[int]:
    """tile(32, 32) and tile([32, 32]), as the 2018 package took both."""
    result: list[int] = []
    for value in map(_plain, values):
        if isinstance(value, (list, tuple)):
            result += _flatten(value)
        else:
            result.append(value)
    return result


def _text(value: object) -> str:
    """A value as the core reads it."""
    value = _plain(value)
    if isinstance(value, str):
        if '"' in value:
            raise TCError(f"names in MappingOptions have no quotes: {value}")
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(_text, value))}{',' if value else ''})"
    if value is None or isinstance(value, bool):
        return str(value)
    return str(index(value))  # type: ignore[arg-type]


class MappingOptions:
    """What is decided about loops; every method changes that and returns it.

    These are a part of a Plan: what is set holds, the rest the compiler chooses by its models,
    which know what was set. `Executor.options` is all of a Plan, as it ran. ``cluster`` begins with
    the options of one cluster, a group of statements that share loops as `Executor.explain()` lists
    them; ``inside``, ``order``, ``tile`` with a level, ``parallel``, ``registers``,
    ``instruction``, ``points``, ``vector``, ``nest`` and ``copy`` speak of that cluster from then
    on.

    ``preset`` is one of ``default`` (nothing is set), ``naive``, ``pointwise``, ``mlp``,
    ``convolution``, ``group_convolution``, ``unmapped``, ``single_thread``, ``identity`` (the order
    of the text, serial and scalar). ``str()`` gives the Python expression that rebuilds the
    options; equal options have equal texts.
    """

    def __init__(self, preset: str = "default") -> None:
        if not isinstance(preset, str):
            raise TypeError(f"the name of a preset was expected, not {type(preset).__name__}")
        self._options = _torch.Options(preset)

    @classmethod
    def parse(cls, text: str | bytes) -> MappingOptions:
        """From what ``str()`` or ``serialize()`` gives. TCError where it is something else."""
        if isinstance(text, bytes):
            try:
                text = text.decode()
            except UnicodeDecodeError as error:
                raise TCError(f"MappingOptions: {error}; serialize() gives UTF-8") from error
        result = cls.__new__(cls)
        result._options = _torch.Options.parse(text)
        return result

    def _set(self, name: str, values: Iterable[Any]) -> MappingOptions:
        numbers = [index(value) for value in _flatten(values)]
        if any(not -(2**63) <= number < 2**63 for number in numbers):
            return self._call(name, *numbers)  # says what is allowed
        self._options.set(name, numbers)
        return self

    def _set_word(self, name: str, word: str) -> MappingOptions:
        self._options.set_word(name, word)
        return self

    def _call(self, name: str, /, *values: object, **named: object) -> MappingOptions:
        """Appends a call to the text; the core reads it, and says what is wrong with it."""
        arguments = [_text(value) for value in values]
        arguments += [f"{key}={_text(value)}" for key, value in named.items()]
        self._options = _torch.Options.parse(f"{self}.{name}({', '.join(arguments)})")
        return self

    @overload
    def tile(self, /, *sizes: int | Sequence[int]) -> MappingOptions: ...
    @overload
    def tile(
        self, level: Literal["task", "reduction"], /, *pairs: tuple[str, int], **points: int
    ) -> MappingOptions: ...
    def tile(self, /, *sizes: Any, **points: int) -> MappingOptions:
        """Tile sizes of the loops that statements share, outermost first; 0 leaves a loop whole.

        Of a cluster, ``tile("task", m=64, n=8)``: points of a task along these loops, which is what
        threads get; named all, their order is that of the loops. ``tile("reduction", k=256)``:
        points of a reduction between which results rest in memory and copies are made anew.
        """
        if points or (sizes and isinstance(sizes[0], str)):
            return self._call("tile", *sizes, **points)
        return self._set("tile", sizes)

    def cluster(self, *statements: str) -> MappingOptions:
        """Begins with the options of the cluster that has these statements, and all of them.

        Statements of two clusters that are named do not share loops.
        """
        return self._call("cluster", *statements)

    def inside(self, *loops: str, joined: bool = False) -> MappingOptions:
        """Of a cluster: the loops around it; ``joined``: it runs inside those of the one before."""
        return self._call("inside", *loops, **({"joined": True} if joined else {}))

    def order(self, *loops: str) -> MappingOptions:
        """Of a cluster: all shared loops in the order of a tile's points, outermost first."""
        return self._call("order", *loops)

    def registers(self, /, *pairs: tuple[str, int], **points: int) -> MappingOptions:
        """Of a cluster: points of a register tile, ``registers(n=6, m=64)``; none without any.

        Of a reduction's index, ``registers(n=6, m=64, k=4)``: terms that are added up at a time.
        """
        return self._call("registers", *pairs, **points)

    def instruction(self, name: str | None) -> MappingOptions:
        """Of a cluster: adds up the terms of a register tile, ``instruction("vpdpbusd")``, or None.

        Where the processor does not have it, others compute the same.
        """
        return self._call("instruction", name)

    def points(self, where: str) -> MappingOptions:
        """Of a cluster: where the loops over a tile's points are.

        ``around`` all statements' own loops, ``inside`` all of them, ``vector inside`` (the last of
        the loops, the others around), or ``apart``: around those of every nest by itself.
        """
        return self._call("points", where)

    def vector(self, use: bool = True) -> MappingOptions:
        """Of a cluster: whether the last of the shared loops is a vector."""
        return self._call("vector", use)

    def nest(self, /, *statements: str | None, **options: Any) -> MappingOptions:
        """Of a cluster: loops of statements beside the shared ones, ``nest("S0", loops=("k",))``.

        One call for each group of statements that have their loops in common, in order of
        execution; ``vector=True``: the innermost is one. ``nest(None)``: every statement has its
        own, in the order of the text.
        """
        return self._call("nest", *statements, **options)

    def copy(self, read: str | None, **options: Any) -> MappingOptions:
        """Of a cluster: ``copy("B(k, n)", statement="S0", order=(0, 1))`` of what a task reads.

        ``order`` has the tensor's dimensions from the slowest of the copy to its fastest. One in
        blocks is two of them, the block and the place in it: ``order=("k/4", "n", "k%4")``.
        ``copy(None)``: there is none.
        """
        return self._call("copy", read, **options)

    def libraryCalls(self, *statements: str | None) -> MappingOptions:
        """CPU: the statements that a library computes, whatever the models say; None: no one."""
        return self._call("libraryCalls", *statements)

    def mapToThreads(self, *sizes: int) -> MappingOptions:
        """CUDA threads of a block: x, y, z, at most; without ``tile``, so many points of a tile."""
        return self._set("mapToThreads", sizes)

    def mapToBlocks(self, *sizes: int) -> MappingOptions:
        """CUDA blocks of a grid: x, y, z, at most."""
        return self._set("mapToBlocks", sizes)

    def unroll(self, factor: int) -> MappingOptions:
        """Upper bound on the copies of the innermost body.

        Kept and printed; no mapping acts upon it yet.
        """
        return self._set("unroll", [factor])

    def useSharedMemory(self, use: bool = True) -> MappingOptions:
        """CUDA: copies of what a block reuses in shared memory.

        Kept and printed; no mapping acts upon it yet.
        """
        return self._set("useSharedMemory", [use])

    def usePrivateMemory(self, use: bool = True) -> MappingOptions:
        """CUDA: copies of what a thread reuses in registers.

        Kept and printed; no mapping acts upon it yet.
        """
        return self._set("usePrivateMemory", [use])

    def unrollCopyShared(self, unroll: bool = True) -> MappingOptions:
        """CUDA: unrolled copies to and from shared memory.

        Kept and printed; no mapping acts upon it yet.
        """
        return self._set("unrollCopyShared", [unroll])

    def maxSharedMemory(self, size: int) -> MappingOptions:
        """CUDA: bytes of shared memory a block may use; 0 for what the device has.

        Kept and printed; no mapping acts upon it yet.
        """
        return self._set("maxSharedMemory", [size])

    def useReadOnlyCache(self, use: bool = True) -> MappingOptions:
        """CUDA: reads of inputs through the read-only cache.

        Kept and printed; no mapping acts upon it yet.
        """
        return self._set("useReadOnlyCache", [use])

    def matchLibraryCalls(self, match: bool = True) -> MappingOptions:
        """CPU: products of matrices and convolutions may be left to PyTorch's libraries.

        A statement that ATen has a function for is one if the library comes near by its measured
        rate, and is clearly faster when both are run once on memory of zeros while compiling;
        `Executor.explain()` names both times. On with the default options until the mapping is
        set by hand, off with every other preset and under
        `torch.use_deterministic_algorithms(True)`, since measurements differ from run to run.
        """
        return self._set("matchLibraryCalls", [match])

    def checkIndices(self, check: bool = True) -> MappingOptions:
        """Whether subscripts that are data are looked at; on unless this turns it off.

        One that leaves its tensor makes the call a ShapeError. Without the check it reads or writes
        whatever lies there, or ends the process.
        """
        return self._set("checkIndices", [check])

    def fixParametersBeforeScheduling(self, fix: bool = True) -> MappingOptions:
        """Sizes are constants in the schedule, not symbols.

        Kept and printed; no mapping acts upon it yet.
        """
        return self._set("fixParametersBeforeScheduling", [fix])

    def tileImperfectlyNested(self, tile: bool = True) -> MappingOptions:
        """Tiles over loops that hold more than one statement at several depths.

        Kept and printed; no mapping acts upon it yet.
        """
        return self._set("tileImperfectlyNested", [tile])

    def scheduleFusionStrategy(self, strategy: str) -> MappingOptions:
        """``outerScheduleFusionStrategy`` and ``intraTileScheduleFusionStrategy`` in one.

        The preset ``default`` starts from ``Preserve3Coincident`` and, on the CPU, also lets passes
        over the same long rows share their outer loops, whatever their number.
        """
        return self._set_word("scheduleFusionStrategy", strategy)

    def outerScheduleFusionStrategy(self, strategy: str) -> MappingOptions:
        """Which statements share loops: ``Max``, ``Min`` or ``Preserve3Coincident``."""
        return self._set_word("outerScheduleFusionStrategy", strategy)

    def intraTileScheduleFusionStrategy(self, strategy: str) -> MappingOptions:
        """CPU: whether statements share the loops over the points of a tile that ``tile`` gives.

        ``Max``: they do, but for the vector where some have loops of their own below; ``Min``: each
        passes over the tile by itself, before the next one does; ``Preserve3Coincident``: they do
        where none has loops of its own, as it does without a tile.
        """
        return self._set_word("intraTileScheduleFusionStrategy", strategy)

    def vectorize(self, use: bool = True) -> MappingOptions:
        """CPU: vector instructions for the innermost parallel loop."""
        return self._set("vectorize", [use])

    def parallel(self, use: bool = True) -> MappingOptions:
        """CPU: tiles on PyTorch's threads. Of a cluster: its tasks."""
        return self._set("parallel", [use])

    def serialize(self) -> bytes:
        """The options as bytes: what ``str()`` gives, in UTF-8. ``parse`` reads it back."""
        return str(self).encode()

    def __str__(self) -> str:
        return self._options.text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _html.code(str(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MappingOptions):
            return NotImplemented
        return self._options.equals(other._options)

    def __hash__(self) -> int:
        return hash(str(self))

    def __copy__(self) -> MappingOptions:
        return MappingOptions.parse(str(self))

    def __deepcopy__(self, memo: dict[int, object]) -> MappingOptions:
        return self.__copy__()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return MappingOptions.parse, (str(self),)


def to_options(options: object) -> MappingOptions | None:
    """What users may pass where options go: None, a preset's name, or options."""
    if options is None or isinstance(options, MappingOptions):
        return options
    if isinstance(options, str):
        return MappingOptions(options)
    if callable(options):
        raise TypeError(
            "a factory of options is for define; call it with the text, the name of the definition "
            "and the inputs, and pass the MappingOptions that it returns"
        )
    raise TypeError(
        f"options must be None, a preset name, MappingOptions or a factory, not "
        f"{type(options).__name__}"
    )


class Scheduling:
    """How a definition of a text is scheduled: by options, or by a user's factory of them."""

    def __init__(self, source: str, options: MappingOptions | Callable[..., Any]) -> None:
        self._source = source  #: the whole text, for a factory
        self._options = options
        is_fixed = isinstance(options, MappingOptions)
        #: The options as text; None where a factory says them.
        self.text: str | None = str(options) if is_fixed else None
        #: Tells operators of one text apart: factories are compared as objects.
        self.identity = (self.text, None if is_fixed else id(options))

    @property
    def description(self) -> str:
        """The same in every process."""
        if self.text is not None:
            return self.text
        factory = self._options
        return f"{getattr(factory, '__module__', '')} {getattr(factory, '__qualname__', '')}"

    def given(self) -> MappingOptions | Callable[..., Any]:
        """What was given, options as a copy."""
        given = self._options
        return given.__copy__() if isinstance(given, MappingOptions) else given

    def choose(self, entry_point: str, inputs: tuple[Any, ...]) -> MappingOptions:
        """The options for these inputs."""
        if isinstance(self._options, MappingOptions):
            return self._options
        chosen = self._options(self._source, entry_point, *inputs)
        if not isinstance(chosen, (MappingOptions, str)):
            raise TCError(
                f"the options factory returned {chosen!r} for {entry_point}; it must return "
                f"MappingOptions or a preset's name"
            )
        return to_options(chosen) or MappingOptions()

    def chooser(self, entry_point: str) -> Callable[..., Any]:
        """What the core asks for options: once for each set of sizes, strides and dtypes."""

        def choose(*inputs: object) -> _torch.Options:
            _announce(entry_point, inputs)
            return self.choose(entry_point, inputs)._options

        return choose


def _announce(entry_point: str, inputs: tuple[Any, ...]) -> None:
    """The line that a call writes when it has to compile first."""
    if tensor_comprehensions.SILENT or not logger.isEnabledFor(logging.INFO):
        return
    logger.info(
        "%s was not explicitly compiled for inputs of sizes: %s; compiling",
        entry_point,
        sizes_text(inputs),
    )
