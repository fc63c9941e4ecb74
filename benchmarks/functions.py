"""Functions of floats and doubles against PyTorch, on tensors of 1 MiB that stay in a cache.

python benchmarks/functions.py [part of a name ...]
"""

from __future__ import annotations

import argparse

import command
import torch
import torch.nn.functional as F
from harness import Row, Rows
from peers import torch_peers

import tensor_comprehensions as tc

BYTES = 1 << 20
CUBE = "A(i) + 0.044715 * A(i) * A(i) * A(i)"
# Name: expression, PyTorch's function, whether for positive numbers, whether for doubles as well.
CASES = {
    "exp": ("exp(A(i))", torch.exp, False, True),
    "exp2": ("exp2(A(i))", torch.exp2, False, False),
    "expm1": ("expm1(A(i))", torch.expm1, False, True),
    "log": ("log(A(i))", torch.log, True, True),
    "log2": ("log2(A(i))", torch.log2, True, False),
    "log1p": ("log1p(A(i))", torch.log1p, True, True),
    "sin": ("sin(A(i))", torch.sin, False, True),
    "cos": ("cos(A(i))", torch.cos, False, True),
    "tanh": ("tanh(A(i))", torch.tanh, False, True),
    "erf": ("erf(A(i))", torch.erf, False, False),
    "log10": ("log10(A(i))", torch.log10, True, False),
    "tan": ("tan(A(i))", torch.tan, False, False),
    "atan": ("atan(A(i))", torch.atan, False, False),
    "asin": ("asin(sin(A(i)))", lambda a: a.sin().asin(), False, False),
    "sinh": ("sinh(A(i))", torch.sinh, False, False),
    "asinh": ("asinh(A(i))", torch.asinh, False, False),
    "fmod": ("fmod(A(i), 0.3)", lambda a: a.fmod(0.3), False, False),
    "power of 1.5": ("pow(A(i), 1.5)", lambda a: a**1.5, True, False),
    "cube": ("pow(A(i), 3)", lambda a: a**3, False, False),
    "square root": ("sqrt(A(i))", torch.sqrt, True, True),
    "sigmoid": ("1 / (1 + exp(-A(i)))", torch.sigmoid, False, True),
    "silu": ("A(i) / (1 + exp(-A(i)))", F.silu, False, False),
    "gelu": ("0.5 * A(i) * (1 + erf(A(i) * 0.7071067811865476))", F.gelu, False, False),
    "gelu by tanh": (
        f"0.5 * A(i) * (1 + tanh(0.7978845608028654 * ({CUBE})))",
        lambda a: F.gelu(a, approximate="tanh"),
        False,
        False,
    ),
    "softplus": ("log1p(exp(A(i)))", F.softplus, False, False),
}


def row(number: int, name: str, dtype: torch.dtype, options: argparse.Namespace) -> Row:
    expression, reference, positive, _ = CASES[name]
    values = torch.randn(BYTES // dtype.itemsize, dtype=dtype)
    values = values.abs() if positive else values
    element = "double" if dtype == torch.float64 else "float"
    text = f"def f({element}(N) A) -> (O) {{ O(i) = {expression} }}"
    operator = tc.define(text, namespace=f"tc_functions_{number}").f
    return Row(
        lambda: operator(values),
        lambda: torch_peers({"torch": reference}, (values,), with_compilers=options.compiled),
    )


def rows(options: argparse.Namespace) -> Rows:
    number = 0
    for name, (*_, double) in CASES.items():
        for dtype in (torch.float32, torch.float64) if double else (torch.float32,):
            element = "double" if dtype == torch.float64 else "float"
            yield (
                f"{name}, {element}",
                lambda number=number, name=name, dtype=dtype: row(number, name, dtype, options),
            )
            number += 1


def arguments() -> argparse.ArgumentParser:
    return command.parser(__doc__, rounds=9)


if __name__ == "__main__":
    command.main("functions", rows, arguments())
