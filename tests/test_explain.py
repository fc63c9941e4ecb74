"""`Executor.explain()`: facts that must be there, and golden texts of a dozen kernels.

The golden texts hold the decisions on one described machine. TC_UPDATE_GOLDEN=1 writes them anew;
read the difference before it is committed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from convolutions import FORWARD_3X3
from workloads import WORKLOADS

import tensor_comprehensions as tc

MACHINE = "vector_bits=512,vector_registers=32,cores=2,cache_bytes=524288"
GOLDEN = Path(__file__).parent / "golden"
TEXTS = {w.name: w for w in WORKLOADS}


def floats(*sizes: int) -> torch.Tensor:
    return torch.zeros(sizes)


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
}


@pytest.fixture(autouse=True)
def described_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", MACHINE)


def explain(name: str) -> str:
    (text, entry), values = KERNELS[name]
    return tc.compile(text, entry, None, *values).explain()


@pytest.mark.parametrize("name", KERNELS)
def test_golden(name: str) -> None:
    path, text = GOLDEN / f"{name}.txt", explain(name)
    if os.environ.get("TC_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def test_products_copy_what_is_not_contiguous_along_the_vector() -> None:
    assert "copied in the order of use" in explain("tmm")
    assert "copied" not in explain("mm")
    assert "W1: 16 x 3 x 3 x 16 elements (9 KiB)" in explain("gconv")


def test_work_and_traffic() -> None:
    # 2 * 128 * 1024 * 1024 operations; 128 * 1024 + 1024 * 1024 + 128 * 1024 floats.
    assert "268 M floating-point operations, 5.24 M bytes" in explain("mm")
    assert "100 k floating-point operations, 1.2 M bytes" in explain("add")


def test_passes_over_a_row_are_one_group() -> None:
    assert explain("softmax").count("group") == 1
    assert "rows" in explain("softmax")


def test_chained_products_keep_their_blocks() -> None:
    # Sharing m, n0 and d2, the first two would have one-dimensional rows of results.
    text, entry = of_workload("kronecker3")
    values = (*(floats(16, 32) for _ in range(3)), floats(256, 32, 32, 32))
    assert tc.compile(text, entry, None, *values).explain().count("a block of results") == 3


def test_a_long_reduction_says_its_stretches() -> None:
    assert "stretches of" in explain("few_results")


def test_another_machine_decides_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    # Kernels are kept by text, sizes and options, so these two differ in a name.
    text = "def {}(float(M,K) A, float(K,N) B) -> (C) {{ C(m,n) +=! A(m,k) * B(k,n) }}"
    values = floats(128, 256), floats(256, 256)
    wide = tc.compile(text.format("wide"), "wide", None, *values).explain()
    monkeypatch.setenv("TC_MACHINE", "vector_bits=256,vector_registers=16,cores=2")
    narrow = tc.compile(text.format("narrow"), "narrow", None, *values).explain()
    assert "by vectors over 64 of n" in wide
    assert "by vectors over 64 of n" not in narrow


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("cores", "TC_MACHINE: 'cores' is no name and number, as in cores=2"),
        ("cores=-1", "TC_MACHINE: 'cores=-1' is no name and number"),
        ("caches=3", "TC_MACHINE: 'caches=3' is not understood; it takes vector_bits"),
        ("vector_bits=100", "'vector_bits=100' is not understood; .*a multiple of 128"),
        ("vector_registers=1", "'vector_registers=1' is not understood; .*at least 8"),
    ],
)
def test_machine_descriptions_are_checked(
    monkeypatch: pytest.MonkeyPatch, value: str, message: str
) -> None:
    monkeypatch.setenv("TC_MACHINE", value)
    with pytest.raises(tc.TCError, match=message):
        tc.compile("def g(float(N) A) -> (O) { O(i) = A(i) }", "g", None, floats(5))
