"""Kernels on one described machine, and what `Executor.explain()` says of them."""

from __future__ import annotations

import re

import torch
from convolutions import FORWARD_3X3
from workloads import WORKLOADS

import tensor_comprehensions as tc

MACHINE = (
    "vector_bits=512,vector_registers=32,cores=2,cache_bytes=524288,last_cache_bytes=33554432,"
    "library_rate=24"
)
TEXTS = {w.name: w for w in WORKLOADS}
LOOKUP = "def lookup(float(E,D) T, int32(B,L) I) -> (O) { O(b,d) +=! T(I(b,l),d) }"
EMBEDDING_GRAD = """def embedding_grad(float(N,D) G, int64(N) I, float(V,D) T) -> (float(V,D) dT) {
  dT(I(i),d) +=! G(i,d)
}"""
QUANTIZED = """def quantized(uint8(M,K) A, int8(N,K) B) -> (C) {
  C(m,n) +=! int32(A(m,k)) * int32(B(n,k))
}"""


def block_of(executor: tc.Executor) -> dict[str, int]:
    """The sides of the register tile of the last statement, by the names of their indices."""
    found = re.findall(r"\.registers\((.*?)\)", str(executor.options))[-1]
    return {name: int(size) for name, size in re.findall(r"(\w+)=(\d+)", found)}


def floats(*sizes: int) -> torch.Tensor:
    """A tensor that kernels are compiled for; what nobody touches takes no memory."""
    return torch.empty(sizes)


def of_workload(name: str) -> tuple[str, str]:
    return TEXTS[name].text, TEXTS[name].entry


KERNELS: dict[str, tuple[tuple[str, str], tuple[torch.Tensor, ...]]] = {
    "add": (
        ("def add(float(N) A, float(N) B) -> (O) { O(i) = A(i) + B(i) }", "add"),
        (floats(100_000), floats(100_000)),
    ),
    "transpose": (
        ("def transpose(float(M,N) A) -> (O) { O(i,j) = A(j,i) }", "transpose"),
        (floats(128, 1024),),
    ),
    "mm": (of_workload("mm"), (floats(128, 1024), floats(1024, 1024))),
    "tmm": (of_workload("tmm"), (floats(128, 1024), floats(1024, 1024))),
    "tbmm": (of_workload("tbmm"), (floats(500, 26, 72), floats(500, 26, 72))),
    "gconv": (
        of_workload("gconv"),
        (floats(32, 32, 16, 14, 14), floats(32, 16, 16, 3, 3), floats(32, 16)),
    ),
    "convolution": (
        (FORWARD_3X3.format(stride=""), "convolution"),
        (floats(4, 512, 7, 7), floats(512, 512, 3, 3)),
    ),
    "mv": (of_workload("mv"), (floats(1000, 4096), floats(4096))),
    "mlp1": (of_workload("MLP1"), (floats(128, 2000), floats(128, 2000), floats(128))),
    "softmax": (of_workload("softmax"), (floats(4096, 1024),)),
    "moments": (of_workload("moments2_2D_1D"), (floats(1024, 36864),)),
    "long_sum": (("def sum(float(N) A) -> (O) { O +=! A(i) }", "sum"), (floats(10_000_000),)),
    "few_results": (
        ("def few(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }", "few"),
        (floats(64, 200_000), floats(64, 200_000)),
    ),
    "lookup": (
        (LOOKUP, "lookup"),
        (floats(1000, 64), torch.zeros(32, 50, dtype=torch.int32)),
    ),
    "embedding_grad": (
        (EMBEDDING_GRAD, "embedding_grad"),
        (floats(6400, 64), torch.zeros(6400, dtype=torch.int64), floats(10_000, 64)),
    ),
    "quantized": (
        (QUANTIZED, "quantized"),
        (torch.zeros(32, 64, dtype=torch.uint8), torch.zeros(48, 64, dtype=torch.int8)),
    ),
}
MATRICES = (floats(96, 224), floats(224, 160))


def compile_kernel(name: str, target: str | None = None) -> tc.Executor:
    (text, entry), values = KERNELS[name]
    return tc.compile(text, entry, None, *values, target=target)


def explain(name: str) -> str:
    return compile_kernel(name).explain()


def notes(text: str, section: str = "whole") -> dict[str, list[str]]:
    """The lines under every label of a section; what stands before the groups is ""."""
    found: dict[str, list[str]] = {}
    current, label = "", ""
    for line in text.splitlines()[1:]:
        if not line.startswith(" "):
            current = line or current
            continue
        if current != section:
            continue
        label = line[:12].strip() or label
        found.setdefault(label, []).append(line[12:])
    assert found, (section, text)
    return found
