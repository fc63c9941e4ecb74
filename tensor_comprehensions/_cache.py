"""How many compiled kernels this process keeps, and which folder keeps code for others."""

from __future__ import annotations

import os
from operator import index
from typing import Any, NamedTuple

from tensor_comprehensions import _torch
from tensor_comprehensions._errors import TCError
from tensor_comprehensions._paths import Path, file_name


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


def _count(name: str, value: Any, advice: str) -> int:
    """A number of 64 bits that is not negative."""
    try:
        number = index(value)
    except TypeError:
        raise TCError(f"{name}={value!r} is no integer") from None
    if number < 0:
        raise TCError(f"{name}={number} is negative; {advice}")
    return min(number, 2**63 - 1)


def cache_limit(kernels: int | None = None, bytes: int | None = None) -> None:
    """Limits how many compiled kernels operators keep, by number and by memory in bytes.

    Beyond either limit, those that were used least recently are dropped, and compiled again when
    they are called. None leaves a limit as it is; 0 keeps none. At first there are 2,048 kernels
    and 128 MiB. TCError for negative numbers.
    """
    advice = "0 keeps no kernel at all"
    _torch.limit_kernels(
        -1 if kernels is None else _count("cache_limit: kernels", kernels, advice),
        -1 if bytes is None else _count("cache_limit: bytes", bytes, advice),
    )


def clear_cache() -> None:
    """Drops all compiled kernels for the CPU; calls compile what they need again."""
    _torch.clear_kernels()


def cache_dir(path: Path | None, *, bytes: int = 1 << 30) -> None:
    """Keeps compiled code for the CPU in a folder, where later processes find it within
    milliseconds; None keeps none. At first that of the environment variable ``TC_CACHE_DIR``. A
    path that begins with ``~`` lies in the home, and a relative one below the working directory of
    that moment, wherever the process goes later.

    Code is found by its text, sizes, options or tuned Plan, the processor and this very build of
    the library. The folder is made where it is missing. It holds some ``bytes`` at most: what was
    used least recently goes. Any number of processes may use it, and be killed at any time.
    CacheError where the folder belongs to somebody else, or others may write to it: whoever writes
    there could have this process run what they like.
    """
    most = _count("cache_dir: bytes", bytes, "a path of None keeps nothing")
    given = "" if path is None else file_name(path)
    if path is not None and not given:
        raise TCError("cache_dir: the path is empty; None keeps no code")
    _torch.set_code_folder(os.path.abspath(os.path.expanduser(given)) if given else "", most)
