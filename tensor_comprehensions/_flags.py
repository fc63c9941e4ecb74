"""Switches of the 2018 package for what it logged, as topics of today's log."""

from __future__ import annotations

import logging
import sys

from tensor_comprehensions._errors import TCError

logger = logging.getLogger("tensor_comprehensions")

_handler: logging.Handler | None = None

#: Compilers of CUDA C that 2018 had. Today there is one, which gives the same kernels.
_COMPILERS = ("nvrtc", "nvcc", "llvm")


def logtostderr(log: bool) -> None:
    """Whether what this package logs goes to standard error."""
    global _handler
    if log and _handler is None:
        _handler = logging.StreamHandler(sys.stderr)
        _handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
        logger.addHandler(_handler)
        logger.setLevel(logging.INFO)
    elif not log and _handler is not None:
        logger.removeHandler(_handler)
        _handler = None


def _topics(*topics: str) -> None:
    from tensor_comprehensions import _torch

    for topic in topics:
        _torch.enable_log(topic.removeprefix("-"), not topic.startswith("-"))


def debug_lang(log: bool) -> None:
    """Whether the statements of definitions are logged, with their ranges."""
    _topics("program" if log else "-program")


def debug_halide(log: bool) -> None:
    """Whether the Halide statements are logged that code is generated from."""
    _topics("stmt" if log else "-stmt")


def debug_tc_mapper(log: bool) -> None:
    """Whether schedule trees are logged, and what was decided."""
    _topics(*(("schedule_tree", "explain") if log else ("-schedule_tree", "-explain")))


def debug_tuner(log: bool) -> None:
    """Whether everything is logged that tuning does, at level DEBUG."""
    logger.setLevel(logging.DEBUG if log else logging.INFO if _handler else logging.NOTSET)


def dump_cuda(log: bool) -> None:
    """Whether the CUDA C that NVRTC is given is logged."""
    _topics("cuda" if log else "-cuda")


def dump_ptx(log: bool) -> None:
    """As ``dump_cuda``: NVRTC gives the code of the device, and no PTX on the way."""
    dump_cuda(log)


def cuda_compiler(name: str) -> None:
    """``"nvrtc"``; ``"nvcc"`` and ``"llvm"`` are taken as in 2018, and NVRTC compiles."""
    if name not in _COMPILERS:
        raise TCError(f"cuda_compiler({name!r}): expected one of {', '.join(_COMPILERS)}")


def llvm_flags(flags: str) -> None:
    """Taken as in 2018, where they were for compiling CUDA C with clang."""
    if not isinstance(flags, str):
        raise TypeError(f"llvm_flags: expected a string, not {type(flags).__name__}")


def nvcc_flags(flags: str) -> None:
    """Taken as in 2018, where they were for nvcc."""
    if not isinstance(flags, str):
        raise TypeError(f"nvcc_flags: expected a string, not {type(flags).__name__}")
