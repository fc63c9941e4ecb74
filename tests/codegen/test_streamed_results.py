"""Large results go past the caches, through the same values as any others."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest
import torch
from exact import integers

import tensor_comprehensions as tc

#: Results of 512 bytes and more do, where 1.5 KiB are read and written.
MACHINE = "vector_bits=512,vector_registers=32,cores=2,cache_bytes=65536,last_cache_bytes=2048"
COPY = "tc_copy_nontemporal"

pytestmark = pytest.mark.skipif(
    "sse2" not in Path("/proc/cpuinfo").read_text(), reason="no such stores"
)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", MACHINE + ",library_rate=1")


def compiled(text: str, *values: torch.Tensor) -> tc.Executor:
    return tc.compile(text, text.split("(")[0].split()[-1], None, *values)


def streams(executor: tc.Executor) -> bool:
    return COPY in executor.text("stmt")


def check(text: str, wanted: torch.Tensor, *values: torch.Tensor) -> None:
    """Whether it streams, and is right in memory that was used before and that was not."""
    executor = compiled(text, *values)
    assert streams(executor)
    used = torch.full_like(wanted, 7)
    executor(*values, outputs=(used,))
    assert torch.equal(used, wanted)
    size = wanted.numel() * wanted.element_size()
    memory = mmap.mmap(-1, size)
    fresh = torch.frombuffer(memory, dtype=wanted.dtype).view(wanted.shape)
    executor(*values, outputs=(fresh,))
    assert torch.equal(fresh, wanted)


# A row that is whole lines, one that is not, several parts with and without a rest, one that is
# shorter than a part.
@pytest.mark.parametrize("columns", [768, 777, 2048, 3001, 256, 300])
@pytest.mark.parametrize("rows", [1, 2, 37])
def test_rows(rows: int, columns: int) -> None:
    text = """def center(float(N,D) I, float(D) W) -> (O) {
        mean(n) +=! I(n,d)
        O(n,d) = (I(n,d) - mean(n)) * W(d)
    }"""
    i, w = integers(rows, columns), integers(columns)
    check(text, (i - i.sum(1, keepdim=True)) * w, i, w)


@pytest.mark.parametrize("size", [16384, 16385, 40000, 3001])
def test_all_in_one_row(size: int) -> None:
    text = "def add(float(N) I, float(N) J) -> (O) { O(n) = fmax(I(n), J(n)) }"
    i, j = integers(size), integers(size)
    check(text, torch.maximum(i, j), i, j)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("double", torch.float64), ("half", torch.float16), ("int8", torch.int8)],
)
def test_other_types(name: str, dtype: torch.dtype) -> None:
    text = f"def same({name}(N,D) I, {name}(N,D) J) -> (O) {{ O(n,d) = I(n,d) + J(n,d) }}"
    i, j = integers(50, 901).clamp(-8, 8).to(dtype), integers(50, 901).clamp(-8, 8).to(dtype)
    check(text, i + j, i, j)


def test_comparisons() -> None:
    text = "def less(float(N,D) I, float(N,D) J) -> (O) { O(n,d) = I(n,d) < J(n,d) }"
    i, j = integers(50, 901), integers(50, 901)
    check(text, i < j, i, j)


@pytest.mark.parametrize("start", range(0, 17, 5))
def test_results_that_begin_inside_a_line(start: int) -> None:
    text = "def add(float(N,D) I, float(N,D) J) -> (O) { O(n,d) = I(n,d) + J(n,d) }"
    i, j = integers(20, 777), integers(20, 777)
    memory = torch.full((start + i.numel() + 16,), 7.0)
    result = memory[start : start + i.numel()].view(i.shape)
    executor = compiled(text, i, j)
    assert streams(executor)
    executor(i, j, outputs=(result,))
    assert torch.equal(result, i + j)
    assert (memory[:start] == 7).all() and (memory[start + i.numel() :] == 7).all()


def test_rows_apart_in_memory() -> None:
    text = "def add(float(N,D) I, float(N,D) J) -> (O) { O(n,d) = I(n,d) + J(n,d) }"
    i, j = integers(20, 512), integers(20, 512)
    memory = torch.full((20, 600), 7.0)
    tc.define(text, namespace="tc_rows_apart").add(i, j, outputs=(memory[:, :512],))
    assert torch.equal(memory[:, :512], i + j)
    assert (memory[:, 512:] == 7).all()


def test_two_results() -> None:
    text = """def both(float(N,D) I, float(N,D) J) -> (O, P) {
        O(n,d) = I(n,d) + J(n,d)
        P(n,d) = I(n,d) - J(n,d)
    }"""
    i, j = integers(20, 768), integers(20, 768)
    executor = compiled(text, i, j)
    assert streams(executor)
    o, p = executor(i, j)
    assert torch.equal(o, i + j)
    assert torch.equal(p, i - j)


def test_threads() -> None:
    """What one thread has stored is there for the next kernel, whichever thread that runs on."""
    text = "def next(float(N,D) I, float(D) W) -> (O) { O(n,d) = I(n,d) + W(d) }"
    i, w = integers(400, 768), integers(768)
    executor = compiled(text, i, w)
    assert streams(executor)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        value = i
        for _ in range(20):
            value = executor(value, w)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(value, i + 20 * w)


@pytest.mark.parametrize(
    ("why", "text"),
    [
        ("exp takes longer than memory", "O(n,d) = exp(I(n,d)) + J(n,d)"),
        ("exp takes longer", "E(n,d) = exp(I(n,d)) s(n) +=! E(n,d) O(n,d) = E(n,d) / s(n)"),
        ("a later statement reads it", "O(n,d) = I(n,d) + J(n,d)  s(n) +=! O(n,d)"),
        ("lanes lie apart", "O(n,d) = I(n,d) + J(n,799-d)"),
    ],
)
def test_other_results_stay_in_the_caches(why: str, text: str) -> None:
    results = "O, s" if "+=! O" in text else "O"
    i = integers(800, 800)
    executor = compiled(
        f"def f(float(N,D) I, float(N,D) J) -> ({results}) {{ {text} }}", i, integers(800, 800)
    )
    assert not streams(executor), why


def test_a_result_that_little_is_read_for_stays() -> None:
    text = "def outer(float(N) I, float(D) J) -> (O) { O(n,d) = I(n) + J(d) }"
    assert not streams(compiled(text, integers(100), integers(768)))


def test_what_the_last_cache_holds_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def twice(float(N,D) I) -> (O) { O(n,d) = I(n,d) + I(n,d) }"
    assert streams(compiled(text, integers(40, 768)))
    monkeypatch.setenv("TC_MACHINE", MACHINE.replace("2048", "1000000"))
    assert not streams(compiled(text, integers(40, 768)))
