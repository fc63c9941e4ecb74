"""Tensor Comprehensions: write what a layer computes, get a PyTorch operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor_comprehensions import _libraries  # noqa: F401  before anything that needs the binding

# isort: split
from tensor_comprehensions import _forks, nn, ops  # noqa: F401  _forks for what it registers
from tensor_comprehensions._autograd import make_autograd
from tensor_comprehensions._cache import CacheInfo, cache_dir, cache_info, cache_limit, clear_cache
from tensor_comprehensions._define import TC, define, make_naive_options_factory
from tensor_comprehensions._errors import (
    CacheError,
    CompilationError,
    LanguageError,
    ShapeError,
    TCError,
)
from tensor_comprehensions._executor import Executor, compile
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
from tensor_comprehensions._gradients import grad_source
from tensor_comprehensions._options import MappingOptions
from tensor_comprehensions._store import load, save
from tensor_comprehensions._testing import assert_almost_equal
from tensor_comprehensions._tuning.config import TunerConfig
from tensor_comprehensions._tuning.modules import tune
from tensor_comprehensions._tuning.tuner import (
    MappingOptionsCache,
    Tuner,
    autotune,
    autotune_and_compile,
    make_autotuned_options_factory,
    make_load_from_cache_options_factory,
)
from tensor_comprehensions.tclib import CompilationCache, TcExecutor

if TYPE_CHECKING:
    from tensor_comprehensions._doctor import show_config
    from tensor_comprehensions._einsum import einsum, einsum_source

__version__ = "0.1.0"

#: True hides the line that a call writes to the logger "tensor_comprehensions" when it compiles.
SILENT = False


# Type checkers see the names above, and that there are no others.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """einsum comes when it is asked for: what marks it for torch.compile takes a second."""
        if name in ("einsum", "einsum_source"):
            from tensor_comprehensions import _einsum

            globals().update(einsum=_einsum.einsum, einsum_source=_einsum.einsum_source)
            return globals()[name]
        if name == "show_config":
            from tensor_comprehensions._doctor import show_config

            return show_config
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """With the names that come when they are asked for."""
    return sorted({*globals(), *__all__})


__all__ = [
    "SILENT",
    "TC",
    "CacheError",
    "CacheInfo",
    "CompilationCache",
    "CompilationError",
    "Executor",
    "LanguageError",
    "MappingOptions",
    "MappingOptionsCache",
    "ShapeError",
    "TCError",
    "TcExecutor",
    "Tuner",
    "TunerConfig",
    "assert_almost_equal",
    "autotune",
    "autotune_and_compile",
    "cache_dir",
    "cache_info",
    "cache_limit",
    "clear_cache",
    "compile",
    "cuda_compiler",
    "debug_halide",
    "debug_lang",
    "debug_tc_mapper",
    "debug_tuner",
    "define",
    "dump_cuda",
    "dump_ptx",
    "einsum",
    "einsum_source",
    "grad_source",
    "llvm_flags",
    "load",
    "logtostderr",
    "make_autograd",
    "make_autotuned_options_factory",
    "make_load_from_cache_options_factory",
    "make_naive_options_factory",
    "nn",
    "nvcc_flags",
    "ops",
    "save",
    "show_config",
    "tclib",
    "tune",
]
