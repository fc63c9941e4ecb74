"""Tensor Comprehensions: write what a layer computes, get a PyTorch operator."""

from __future__ import annotations

import torch as _pytorch  # noqa: F401  the binding needs PyTorch's libraries loaded

from tensor_comprehensions._autograd import make_autograd
from tensor_comprehensions._define import TC, define, make_naive_options_factory
from tensor_comprehensions._errors import (
    CacheError,
    CompilationError,
    LanguageError,
    ShapeError,
    TCError,
)
from tensor_comprehensions._executor import Executor, compile  # noqa: A004
from tensor_comprehensions._options import MappingOptions
from tensor_comprehensions._testing import assert_almost_equal

__version__ = "0.1.0"

__all__ = [
    "TC",
    "CacheError",
    "CompilationError",
    "Executor",
    "LanguageError",
    "MappingOptions",
    "ShapeError",
    "TCError",
    "assert_almost_equal",
    "compile",
    "define",
    "make_autograd",
    "make_naive_options_factory",
]
