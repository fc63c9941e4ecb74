"""Arguments of the C interface whose strides are negative, as NumPy has them and torch has not.

Their memory lies beside some that nobody may touch (see fenced), and what is between the elements
of a result stays as it was.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from fenced import fenced

import tensor_comprehensions as tc

CORE = ctypes.CDLL(str(Path(tc.__file__).parent / "lib" / "libtensor_comprehensions.so"))
CORE.tc_error_message.restype = ctypes.c_char_p
for _free in (CORE.tc_module_free, CORE.tc_kernel_free):
    _free.argtypes, _free.restype = [ctypes.c_void_p], None

CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
TYPES = {"float": "f4", "double": "f8", "half": "f2", "int32": "i4", "int64": "i8"}
UNTOUCHED = 0x7B


class DLTensor(ctypes.Structure):
    """As tc.h has it."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def pointers(arrays: list[np.ndarray]) -> ctypes.Array:
    tensors = []
    for x in arrays:
        sizes = ctypes.c_int64 * x.ndim
        strides = sizes(*(stride // x.itemsize for stride in x.strides))
        kind = CODES[x.dtype.kind], 8 * x.itemsize, 1
        tensors.append(DLTensor(x.ctypes.data, 1, 0, x.ndim, *kind, sizes(*x.shape), strides, 0))
    return (ctypes.POINTER(DLTensor) * len(tensors))(*map(ctypes.pointer, tensors))


def check(status: int) -> None:
    assert status == 0, CORE.tc_error_message().decode()


def run(text: str, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
    module, definition, kernel = (ctypes.c_void_p() for _ in range(3))
    check(CORE.tc_module_parse(text.encode(), ctypes.byref(module)))
    check(CORE.tc_module_find(module, b"f", ctypes.byref(definition)))
    arguments = pointers(inputs), len(inputs), pointers(outputs), len(outputs)
    check(CORE.tc_compile(definition, None, b"cpu", *arguments, ctypes.byref(kernel)))
    check(CORE.tc_kernel_run(kernel, None, *arguments))
    CORE.tc_kernel_free(kernel)
    CORE.tc_module_free(module)


def laid_out(
    sizes: tuple[int, ...], dtype: str, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Dimensions in some order and direction, some with gaps, at least one of them reversed; and
    the memory that they are in."""
    strides, step = [0] * len(sizes), int(random.choice([1, 1, 2]))
    for d in random.permutation(len(sizes)):
        strides[d] = step
        step = step * sizes[d] + int(random.choice([0, 1, 5]))
    span = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    width = np.dtype(dtype).itemsize
    memory = fenced(
        torch.full((span * width,), UNTOUCHED, dtype=torch.uint8), random.random() < 0.5
    )
    flat = memory.numpy().view(dtype)
    whole = np.lib.stride_tricks.as_strided(flat, sizes, [stride * width for stride in strides])
    signs = random.choice([-1, 1], len(sizes))
    signs[random.integers(len(sizes))] = -1
    return whole[tuple(slice(None, None, sign) for sign in signs)], flat


def memory_of(width: int) -> int:
    """An element of memory that nobody wrote."""
    return int.from_bytes(bytes([UNTOUCHED]) * width, "little")


class Index(NamedTuple):
    """An operand of numbers below a limit."""

    count: int
    limit: int


def scattered(g: np.ndarray, i: np.ndarray, table: np.ndarray) -> np.ndarray:
    result = np.zeros_like(table)
    np.add.at(result, i, g)
    return result


def convolved(x: np.ndarray, k: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, k.shape[2:], (2, 3))
    return np.einsum("bchwpq,fcpq->bfhw", windows, k)


#: The text behind `def f(`, the sizes of what it reads, and what comes out of it.
PROGRAMS: dict[str, tuple[str, tuple, Callable]] = {
    "product": (
        "{t}(M, K) A, {t}(K, N) B) -> (C) {{ C(m, n) +=! A(m, k) * B(k, n)",
        ((33, 17), (17, 40)),
        lambda a, b: a @ b,
    ),
    "product of rows": (
        "{t}(M, K) A, {t}(N, K) B) -> (C) {{ C(m, n) +=! A(m, k) * B(n, k)",
        ((7, 65), (16, 65)),
        lambda a, b: a @ b.T,
    ),
    "batch": (
        "{t}(B, M, K) X, {t}(B, K, N) Y) -> (C) {{ C(b, m, n) +=! X(b, m, k) * Y(b, k, n)",
        ((3, 8, 15), (3, 15, 31)),
        lambda a, b: a @ b,
    ),
    "rows less their maximum": (
        "{t}(M, N) A) -> (L, O) {{ L(m) max=! A(m, n) O(m, n) = A(m, n) - L(m)",
        ((5, 63),),
        lambda a: (a.max(1), a - a.max(1, keepdims=True)),
    ),
    "transposed": (
        "{t}(M, N) A, {t}(N, M) B) -> (O) {{ O(n, m) = A(m, n) + B(n, m)",
        ((33, 40), (40, 33)),
        lambda a, b: a.T + b,
    ),
    "running sums": (
        "{t}(M, N) A) -> (S) {{ S(m, n) +=! k <= n ? A(m, k) : 0 where n in 0:N",
        ((3, 40),),
        lambda a: a.cumsum(1),
    ),
    "both ways": (
        "{t}(M, N) A) -> (O) {{ O(m, n) = A(M - 1 - m, n) + A(m, N - 1 - n)",
        ((7, 33),),
        lambda a: a[::-1] + a[:, ::-1],
    ),
    "every other": (
        "{t}(M, N) A) -> (O) {{ O(m, n) = A(m, 2 * n) + A(m, 2 * n + 1)",
        ((7, 34),),
        lambda a: a[:, ::2] + a[:, 1::2],
    ),
    "lookup": (
        "{t}(M, N) A, int32(K) I) -> (O) {{ O(k, n) = A(I(k), n)",
        ((17, 16), Index(33, 17)),
        lambda a, i: a[i],
    ),
    "scatter": (
        "{t}(K, N) G, int32(K) I, {t}(M, N) T) -> ({t}(M, N) O) {{ O(I(k), n) +=! G(k, n)",
        ((33, 16), Index(33, 5), (5, 16)),
        scattered,
    ),
    "convolution": (
        "{t}(B, C, H, W) X, {t}(F, C, P, Q) K) -> (O) {{"
        " O(b, f, h, w) +=! X(b, c, h + p, w + q) * K(f, c, p, q)",
        ((2, 3, 9, 19), (4, 3, 3, 3)),
        convolved,
    ),
}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_negative_strides(program: str, name: str) -> None:
    body, operands, function = PROGRAMS[program]
    text = f"def f({body.format(t=name)} }}"
    random = np.random.default_rng(len(text))
    inputs = []
    for operand in operands:
        is_index = isinstance(operand, Index)
        sizes = (operand.count,) if is_index else operand
        x, _ = laid_out(sizes, "i4" if is_index else TYPES[name], random)
        x[...] = random.integers(*((0, operand.limit) if is_index else (-2, 3)), sizes)
        inputs.append(x)
    results = function(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    outputs = [laid_out(result.shape, TYPES[name], random) for result in results]
    run(text, inputs, [output for output, _ in outputs])
    for (output, memory), wanted in zip(outputs, results, strict=True):
        np.testing.assert_array_equal(output, wanted)
        output.view(f"u{output.itemsize}")[...] = memory_of(output.itemsize)
        assert (memory.view("u1") == UNTOUCHED).all(), "written between the elements of a result"
