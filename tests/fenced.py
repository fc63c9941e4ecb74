"""Tensors that end, or begin, where memory does: an access beyond them ends the process."""

from __future__ import annotations

import ctypes
import mmap

import torch

_libc = ctypes.CDLL(None, use_errno=True)
_NO_ACCESS = 0


def fenced(tensor: torch.Tensor, at_start: bool = False) -> torch.Tensor:
    """The same values, sizes and strides beside a page that nobody may touch.

    The last element is followed by that page; with ``at_start`` the first one comes right after
    one. Strides are not negative, as torch has none.
    """
    pairs = list(zip(tensor.shape, tensor.stride(), strict=True))
    if tensor.numel() == 0:
        return tensor
    span = 1 + sum((size - 1) * stride for size, stride in pairs)
    size = span * tensor.element_size()
    page = mmap.PAGESIZE
    pages = -(-size // page)
    memory = mmap.mmap(-1, (pages + 2) * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for fence in (start, start + (pages + 1) * page):
        if _libc.mprotect(ctypes.c_void_p(fence), page, _NO_ACCESS):
            raise OSError(ctypes.get_errno(), "mprotect")
    offset = page if at_start else (pages + 1) * page - size
    flat = torch.frombuffer(memory, dtype=tensor.dtype, count=span, offset=offset)
    result = flat.as_strided(tensor.shape, tensor.stride())
    if 0 not in tensor.stride():
        return result.copy_(tensor)
    # Elements that several indices share are written once.
    index = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())
    result[index].copy_(tensor[index])
    return result
