"""The measured texts of the Tensor Comprehensions paper (figures 5 to 7) against PyTorch, and
softmax, layer normalisation and a matrix-vector product, which live from memory bandwidth.

Our own kernels with default options: no tuning, no library call. One thread decides.

python benchmarks/paper.py [name ...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from harness import compare, print_comparison, save
from workloads import WORKLOADS, floats, indices

import tensor_comprehensions as tc

# Rows of a lookup table: the paper's ten million would not fit beside its copies.
ROWS = 1_000_000


def convolution(n: int, g: int, c: int, size: int) -> Callable[[], tuple]:
    return lambda: (floats(n, g, c, size, size), floats(g, c, c, 3, 3), floats(g, c))


# name, text among the workloads, inputs at the paper's sizes
CASES: list[tuple[str, str, Callable[[], tuple]]] = [
    ("tmm 128x32x256", "tmm", lambda: (floats(128, 32), floats(256, 32))),
    ("tmm 128x1024x1024", "tmm", lambda: (floats(128, 1024), floats(1024, 1024))),
    ("mm 128x1024x1024", "mm", lambda: (floats(128, 1024), floats(1024, 1024))),
    ("mm 1024x1024x1024", "mm", lambda: (floats(1024, 1024), floats(1024, 1024))),
    ("tbmm 500x26x72x26", "tbmm", lambda: (floats(500, 26, 72), floats(500, 26, 72))),
    ("gconv 4x56", "gconv", convolution(32, 32, 4, 56)),
    ("gconv 8x28", "gconv", convolution(32, 32, 8, 28)),
    ("gconv 16x14", "gconv", convolution(32, 32, 16, 14)),
    ("gconv 32x7", "gconv", convolution(32, 32, 32, 7)),
    ("1LUT", "1LUT", lambda: (floats(ROWS, 64), indices(ROWS, 128, 50))),
    ("C3", "C3", lambda: (floats(128, 1000), floats(1024, 1000))),
    ("MLP1", "MLP1", lambda: (floats(128, 2000), floats(128, 2000), floats(128))),
    (
        "MLP3",
        "MLP3",
        lambda: (
            *(floats(128, 128), floats(64, 128), floats(64), floats(32, 64)),
            *(floats(32), floats(2, 32), floats(2)),
        ),
    ),
    ("moments 1024x36864", "moments2_2D_1D", lambda: (floats(1024, 36864),)),
    (
        "group normalization",
        "group_normalization",
        lambda: (floats(32, 32, 16, 48, 48), floats(32, 16), floats(32, 16)),
    ),
    ("softmax 4096x1024", "softmax", lambda: (floats(4096, 1024),)),
    ("softmax 64x50257", "softmax", lambda: (floats(64, 50257),)),
    (
        "layer norm 4096x768",
        "layer_normalization",
        lambda: (floats(4096, 768), floats(768), floats(768)),
    ),
    ("mv 1024x1024", "mv", lambda: (floats(1024, 1024), floats(1024))),
]


def main(names: list[str]) -> None:
    workloads = {w.name: w for w in WORKLOADS}
    comparisons = []
    for k, (name, text, inputs) in enumerate(CASES):
        if names and name not in names:
            continue
        torch.manual_seed(0)
        workload = workloads[text]
        values = inputs()
        t = tc.define(workload.text, namespace=f"tc_paper_{k}")

        def ours(t: tc.TC = t, entry: str = workload.entry, values: tuple = values) -> tuple:
            result = t(entry, *values)
            return result if isinstance(result, tuple) else (result,)

        def torch_(reference: Callable = workload.reference, values: tuple = values) -> tuple:
            return reference(*values)

        # Sums over thousands of float32 terms in another order.
        comparisons += compare(
            name, ours, {"torch": torch_}, rounds=7, round_seconds=0.3, tolerance=2e-2
        )
        for comparison in comparisons[-2:]:
            print_comparison(comparison)
    print("saved", save("paper", comparisons))


if __name__ == "__main__":
    main(sys.argv[1:])
