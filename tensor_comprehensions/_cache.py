"""How many compiled kernels this process keeps."""

from __future__ import annotations

from typing import NamedTuple

from tensor_comprehensions import _torch
from tensor_comprehensions._errors import TCError


class CacheInfo(NamedTuple):
    """What operators keep compiled, one kernel for each set of sizes, strides and dtypes."""

    kernels: int  #: kept now
    bytes: int  #: of memory that they take, roughly
    kernel_limit: int  #: of `kernels`
    byte_limit: int  #: of `bytes`
    compiled: int  #: kernels since the process began
    dropped: int  #: of those, how many made room for others


def cache_info() -> CacheInfo:
    """What the cache of compiled kernels holds, and its limits.

    Kernels for a GPU are not counted: a CUDA graph may hold them, so that they stay. Neither are
    executors, whose kernels go with them.
    """
    info = _torch.kernel_info()
    return CacheInfo(
        info.kernels,
        info.bytes,
        info.kernel_limit,
        info.byte_limit,
        info.compiled,
        info.dropped,
    )


def cache_limit(kernels: int | None = None, bytes: int | None = None) -> None:
    """Limits how many compiled kernels operators keep, by number and by memory in bytes.

    Beyond either limit, those that were used least recently are dropped, and compiled again when
    they are called. None leaves a limit as it is; 0 keeps none. At first there are 2,048 kernels
    and 128 MiB. TCError for negative numbers.
    """
    for name, value in (("kernels", kernels), ("bytes", bytes)):
        if value is not None and value < 0:
            raise TCError(f"cache_limit: {name}={value} is negative; 0 keeps no kernel at all")
    _torch.limit_kernels(-1 if kernels is None else kernels, -1 if bytes is None else bytes)


def clear_cache() -> None:
    """Drops all compiled kernels for the CPU; calls compile what they need again."""
    _torch.clear_kernels()
