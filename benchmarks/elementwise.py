"""Memory-bound texts against PyTorch: chains, broadcasts, type conversions at ten million elements.

python benchmarks/elementwise.py [part of a name ...]
"""

from __future__ import annotations

import argparse

import command
import torch
from harness import Row, Rows
from peers import torch_peers

import tensor_comprehensions as tc

N = 10_000_000


def cases() -> list[tuple]:
    a, b, c = torch.randn(N), torch.randn(N), torch.randn(N)
    image = torch.randn(32, 64, 70, 70)
    channel, row, column = torch.randn(64), torch.randn(10_000), torch.randn(1000)
    matrix = torch.randn(1000, 10_000)
    double = torch.randn(N, dtype=torch.float64)
    integers = torch.randint(-1000, 1000, (N,), dtype=torch.int32)
    return [
        ("add", "def f(float(N) A, float(N) B) -> (O) { O(i) = A(i) + B(i) }", (a, b), torch.add),
        ("relu", "def f(float(N) A) -> (O) { O(i) = max(A(i), 0) }", (a,), torch.relu),
        (
            "chain of four",
            "def f(float(N) A, float(N) B, float(N) C) -> (O) {"
            " X(i) = A(i) * B(i)  Y(i) = X(i) + C(i)  Z(i) = max(Y(i), 0)  O(i) = Z(i) * 0.5 }",
            (a, b, c),
            lambda a, b, c: torch.relu(a * b + c) * 0.5,
        ),
        (
            "chain, outputs kept",
            "def f(float(N) A, float(N) B) -> (X, O) { X(i) = A(i) + B(i)  O(i) = X(i) * A(i) }",
            (a, b),
            lambda a, b: (a + b, (a + b) * a),
        ),
        (
            "sigmoid",
            "def f(float(N) A) -> (O) { O(i) = 1 / (1 + exp(-A(i))) }",
            (a,),
            torch.sigmoid,
        ),
        (
            "row broadcast",
            "def f(float(M,N) A, float(N) B) -> (O) { O(i,j) = A(i,j) + B(j) }",
            (matrix, row),
            torch.add,
        ),
        (
            "column broadcast",
            "def f(float(M,N) A, float(M) B) -> (O) { O(i,j) = A(i,j) * B(i) }",
            (matrix, column),
            lambda a, b: a * b[:, None],
        ),
        (
            "channel bias",
            "def f(float(N,C,H,W) A, float(C) B) -> (O) { O(n,c,h,w) = A(n,c,h,w) + B(c) }",
            (image, channel),
            lambda a, b: a + b[:, None, None],
        ),
        (
            "channel scale, shift, relu",
            "def f(float(N,C,H,W) A, float(C) G, float(C) B) -> (O) {"
            " O(n,c,h,w) = max(A(n,c,h,w) * G(c) + B(c), 0) }",
            (image, channel, channel),
            lambda a, g, b: torch.relu(a * g[:, None, None] + b[:, None, None]),
        ),
        (
            "double add",
            "def f(double(N) A) -> (O) { O(i) = A(i) + 1 }",
            (double,),
            lambda a: a + 1,
        ),
        (
            "int32 to float",
            "def f(int32(N) A) -> (O) { O(i) = float(A(i)) }",
            (integers,),
            lambda a: a.float(),
        ),
    ]


def row(number: int, case: tuple, options: argparse.Namespace) -> Row:
    _, text, inputs, reference = case
    operator = tc.define(text, namespace=f"tc_elementwise_{number}").f
    return Row(
        lambda: operator(*inputs),
        lambda: torch_peers({"torch": reference}, inputs, with_compilers=options.compiled),
    )


def rows(options: argparse.Namespace) -> Rows:
    for number, case in enumerate(cases()):
        yield case[0], lambda number=number, case=case: row(number, case, options)


def arguments() -> argparse.ArgumentParser:
    return command.parser(__doc__, threads=(1, 2))


if __name__ == "__main__":
    command.main("elementwise", rows, arguments())
