"""Tensors on their way to another process, through memory that both map."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

#: What decides how vectors lie to lines of the cache.
_LINE = 64


def _span(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last."""
    if 0 in sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def describe(tensor: torch.Tensor) -> dict[str, Any]:
    """Dtype, layout and alignment: all that code is made for."""
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "sizes": list(tensor.shape),
        "strides": list(tensor.stride()),
        "offset": tensor.data_ptr() % _LINE if tensor.device.type == "cpu" else 0,
        "device": str(tensor.device),
    }


def make(
    description: dict[str, Any], memory: torch.Tensor | None = None, displaced: int = 0
) -> torch.Tensor:
    """A tensor of such a layout in memory of its own, so many bytes behind its begin, or in the
    given bytes."""
    dtype = getattr(torch, description["dtype"])
    sizes, strides = description["sizes"], description["strides"]
    size = _span(sizes, strides) * dtype.itemsize
    if memory is None:
        memory = torch.empty(size + displaced + 2 * _LINE, dtype=torch.uint8)
        start = displaced + (description["offset"] - displaced - memory.data_ptr()) % _LINE
        memory = memory[start : start + size]
    return memory[:size].view(dtype).as_strided(sizes, strides)


def _distinct(tensor: torch.Tensor) -> torch.Tensor:
    """Each element once: expanded dimensions have one."""
    for dimension, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[dimension] > 1:
            tensor = tensor.narrow(dimension, 0, 1)
    return tensor


def write(tensors: Sequence[torch.Tensor]) -> tuple[list[dict[str, Any]], int]:
    """Puts tensors into memory of the system's; descriptions, and the descriptor of the memory."""
    described, starts, size = [], [], 0
    for tensor in tensors:
        found = describe(tensor)
        starts.append(size)
        described.append({**found, "start": size})
        size += _span(found["sizes"], found["strides"]) * tensor.element_size()
        size = (size + _LINE - 1) // _LINE * _LINE
    descriptor = os.memfd_create("tensor_comprehensions", os.MFD_CLOEXEC)
    try:
        os.truncate(descriptor, max(size, 1))
        memory = _mapped(descriptor, max(size, 1), shared=True)
        for tensor, found, start in zip(tensors, described, starts, strict=True):
            if tensor.numel():
                _distinct(make(found, memory[start:])).copy_(_distinct(tensor.detach()))
    except BaseException:
        os.close(descriptor)
        raise
    return described, descriptor


def _mapped(descriptor: int, size: int, shared: bool) -> torch.Tensor:
    path = f"/proc/self/fd/{descriptor}"
    return torch.from_file(path, shared=shared, size=size, dtype=torch.uint8)


def copy(tensor: torch.Tensor, displaced: int) -> torch.Tensor:
    """Of the same layout, so many bytes behind the begin of its memory."""
    result = make(describe(tensor), displaced=displaced)
    if tensor.numel():
        _distinct(result).copy_(_distinct(tensor))
    return result


def read(described: Sequence[dict[str, Any]], descriptor: int) -> list[torch.Tensor]:
    """Copies of the tensors in memory of the usual kind."""
    size = os.fstat(descriptor).st_size
    memory = _mapped(descriptor, size, shared=False)
    result = []
    for found in described:
        tensor = make(found)
        if tensor.numel():
            _distinct(tensor).copy_(_distinct(make(found, memory[found["start"] :])))
        result.append(tensor)
    return result
