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


@pytest.mark.parametrize("half", [128, 133, 1000, 2500])
def test_halves_of_rows(half: int) -> None:
    """One loop writes both, each through an array of its own."""
    text = """def turn(float(N,E) I, float(F) C) -> (O) {
        O(n,e) = e < F ? I(n,e) * C(e) - I(n,e + F) : I(n,e) + I(n,e - F) * C(e - F)
            where e in 0:2 * F
    }"""
    i, c = integers(40, 2 * half), integers(half)
    a, b = i.chunk(2, 1)
    check(text, torch.cat((a * c - b, b + a * c), 1), i, c)
    assert compiled(text, i, c).text("stmt").count(COPY) == 2


def test_short_halves_stay_in_the_caches() -> None:
    text = """def turn(float(N,E) I) -> (O) {
        O(n,e) = e < 100 ? I(n,e) - I(n,e + 100) : I(n,e) + I(n,e - 100) where e in 0:200
    }"""
    i = integers(40, 200)
    executor = compiled(text, i)
    assert not streams(executor)
    a, b = i.chunk(2, 1)
    assert torch.equal(executor(i), torch.cat((a - b, b + a), 1))


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
