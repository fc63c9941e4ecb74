"""Tensor Comprehensions: write what a layer computes, get a PyTorch operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor_comprehensions import _libraries  # noqa: F401  before anything that needs the binding

# isort: split
from tensor_comprehensions import nn, ops
from tensor_comprehensions._autograd import make_autograd
from tensor_comprehensions._cache import CacheInfo, cache_info, cache_limit, clear_cache
from tensor_comprehensions._define import TC, define, make_naive_options_factory
from tensor_comprehensions._errors import (
    CacheError,
    CompilationError,
    LanguageError,
    ShapeError,
    TCError,
)
from tensor_comprehensions._executor import Executor, compile
from tensor_comprehensions._gradients import grad_source
from tensor_comprehensions._options import MappingOptions
from tensor_comprehensions._store import load, save
from tensor_comprehensions._testing import assert_almost_equal

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
    "CompilationError",
    "Executor",
    "LanguageError",
    "MappingOptions",
    "ShapeError",
    "TCError",
    "assert_almost_equal",
    "cache_info",
    "cache_limit",
    "clear_cache",
    "compile",
    "define",
    "einsum",
    "einsum_source",
    "grad_source",
    "load",
    "make_autograd",
    "make_naive_options_factory",
    "nn",
    "ops",
    "save",
    "show_config",
]
