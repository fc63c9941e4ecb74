"""`Executor.explain()`: what it says beside what follows from the text, sizes and strides."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import subprocess
import sys

import pytest
import torch
from explained import (
    KERNELS,
    LOOKUP,
    MACHINE,
    MATRICES,
    TEXTS,
    compile_kernel,
    explain,
    floats,
    notes,
    of_workload,
)

import tensor_comprehensions as tc

pytestmark = pytest.mark.usefixtures("described_machine")


def count(value: float) -> str:
    """As an engineer writes it: three digits and a power of 1000."""
    power = 0
    while value >= 999.5:
        value, power = value / 1000, power + 1
    return (f"{value:.3g}" if value < 100 else f"{value:.0f}") + ["", " k", " M", " G"][power]


def size(value: float) -> str:
    power = 0
    while value >= 1023.5:
        value, power = value / 1024, power + 1
    unit = ["bytes", "KiB", "MiB", "GiB"][power]
    return (f"{value:.3g} " if value < 100 else f"{value:.0f} ") + unit


def number(text: str) -> float:
    """The figure at the start of a line."""
    found = re.match(r" *([\d.]+)(?: ([kMG])\b)?", text)
    assert found, text
    return float(found[1]) * {None: 1, "k": 1e3, "M": 1e6, "G": 1e9}[found[2]]


# ---- work and traffic


def test_work_and_traffic_of_a_product() -> None:
    m, n, k = 128, 1024, 1024
    whole = notes(explain("mm"))
    operations, a, b, c = 2 * m * n * k, 4 * m * k, 4 * k * n, 4 * m * n
    assert whole["work"] == [f"{count(operations)} floating-point operations"]
    assert whole["traffic"] == [
        f"{size(a + b + c)} if every element travels once: "
        f"reads A {size(a)}, B {size(b)}; writes C {size(c)}"
    ]
    assert whole["balance"] == [f"{operations / (a + b + c):.3g} operations a byte"]


def test_work_and_traffic_of_a_grouped_convolution() -> None:
    n, g, c, f, h, k = 32, 32, 16, 16, 14, 3
    out = h - k + 1
    results = n * g * f * out * out
    whole = notes(explain("gconv"))
    # A multiply-add for every weight of a result, and its bias.
    assert whole["work"] == [f"{count(results * (2 * c * k * k + 1))} floating-point operations"]
    assert (
        f"reads I {size(4 * n * g * c * h * h)}, W1 {size(4 * g * f * c * k * k)}, "
        in (whole["traffic"][0])
    )
    assert whole["traffic"][0].endswith(f"B {size(4 * g * f)}; writes O {size(4 * results)}")


def test_work_that_an_index_does_not_change_is_done_once() -> None:
    workload = TEXTS["group_normalization"]
    n, g, d, h, w = 8, 4, 16, 14, 14
    values = floats(n, g, d, h, w), floats(g, d), floats(g, d)
    whole = notes(tc.compile(workload.text, workload.entry, None, *values).explain())
    # A sum, a sum of squares, and (I - mean) * gamma * scale + beta for every element; the mean
    # and 1 / sqrt(sumSquares / D - sum * sum / D / D + eps) once for every group.
    operations = n * g * d * h * w * (1 + 2 + 4) + n * g * (1 + 7)
    assert whole["work"] == [f"{count(operations)} floating-point operations"]


@pytest.mark.parametrize("value", ["X(n) > -0.3 ? X(n)*1e-08 : -inf", "(X(n)*0.1) - 2.0"])
def test_statements_are_shown_as_they_are_written(value: str) -> None:
    text = f"def f(float(N) X) -> (O) {{ O(n) = {value.replace('inf', '1.0 / 0.0')} }}"
    assert f"O(n) = {value}\n" in tc.compile(text, "f", None, torch.ones(9)).explain()


def test_calls_of_functions_are_counted() -> None:
    rows, columns = 128, 300
    text = """def several(float(N, D) X, float p) -> (Y) {
      largest(n) max=! X(n, d)
      total(n) +=! exp(X(n, d) - largest(n))
      Y(n, d) = tanh(exp(X(n, d) - largest(n)) / total(n)) + pow(sin(p), log(total(n)))
          + sqrt(fabs(X(n, d))) + floor(X(n, d))
    }"""
    whole = notes(tc.compile(text, "several", None, floats(rows, columns), 0.5).explain())
    # The exponential stands in the text twice; what does not depend on an index is done once.
    elements = count(rows * columns)
    assert whole["functions"] == [
        f"calls of exp {count(2 * rows * columns)}, tanh {elements}, log {rows}, pow {rows}, sin 1"
    ]
    operations = rows * columns * (1 + 3 + 7 + 1 - 0) + 0
    assert number(whole["work"][0]) == pytest.approx(operations, rel=0.3)
    # Instructions are no calls.
    plain = "def plain(float(N) X) -> (Y) { Y(i) = sqrt(fabs(X(i))) + fmax(X(i), 0) }"
    assert "functions" not in notes(tc.compile(plain, "plain", None, floats(9)).explain())
    # Nor are functions of subscripts, which decide where is read.
    places = "def places(float(N) X, float(M) P) -> (Y) { Y(i) = X(int32(exp(P(i)))) }"
    found = notes(tc.compile(places, "places", None, floats(9), floats(3)).explain())
    assert "functions" not in found


def test_no_model_is_faster_than_the_peak() -> None:
    value = "X(i)"
    for k in range(50):
        value = f"({value} * {k}.5 + {k}.25)"
    text = f"def chain(float(N) X) -> (Y) {{ Y(i) = {value} }}"
    whole = notes(tc.compile(text, "chain", None, floats(100_000)).explain())
    assert whole["work"] == ["10 M floating-point operations"]
    cycles, speed, _ = whole["expected"]
    assert 10e6 / 64 <= number(cycles) < 2 * 10e6 / 64
    assert 32 < number(speed) <= 64


def test_narrow_floats_are_computed_in_32_bits() -> None:
    text = "def product_half(half(M,K) A, half(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
    values = [x.half() for x in MATRICES]
    text = tc.compile(text, "product_half", None, *values).explain()
    assert notes(text)["expected"][1].endswith("of the peak of 64")
    assert notes(text, "")["added"] == ["C.wide"]
    assert notes(text)["traffic"][0].startswith(f"{size(2 * (96 * 224 + 224 * 160 + 96 * 160))} ")


def test_a_refused_copy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = 8192
    monkeypatch.setenv("TC_MACHINE", MACHINE.replace("524288", str(cache)))
    text = """def two(float(M,K) A, float(N,K) B, float(N,K) D) -> (C) {
      C(m,n) +=! A(m,k) * B(n,k)
      C(m,n) += A(m,k) * D(n,k)
    }"""
    values = floats(128, 1000), floats(256, 1000), floats(256, 1000)
    text = tc.compile(text, "two", None, *values).explain()
    group = notes(text, "group 1")
    assert len(group["no copy"]) == len({x for x in group["operands"] if "gathered" in x})
    # Twice the cache, in floats: no reduction is tiled where two statements would have to agree.
    reason = f"needs more than {2 * cache // 4} elements"
    for tensor, line in zip("ABD", group["operands"], strict=True):
        refused = "gathered" in line
        assert refused == ("neighbours along" in line)
        assert refused == any(f"of {tensor} {reason}" in x for x in group["no copy"])
    # The search for a block counted on the copies, the estimate knows that they are not made.
    assert number(group["cycles"][0]) > 2 * number(group["vectors"][0])


def test_no_more_of_a_tensor_travels_than_is_read() -> None:
    # 32 x 50 rows of 64, though some may be the same, are more than the table's 1000.
    assert (
        f"reads T {size(4 * 1000 * 64)}, I {size(4 * 32 * 50)};"
        in (notes(explain("lookup"))["traffic"][0])
    )
    few = "def few(float(E,D) T, int32(B) I) -> (O) { O(b,d) = T(I(b),d) }"
    executor = tc.compile(few, "few", None, floats(1000, 64), torch.zeros(10, dtype=torch.int32))
    assert f"reads T {size(4 * 10 * 64)}, I 40 bytes;" in notes(executor.explain())["traffic"][0]
    assert notes(executor.explain())["work"] == ["no arithmetic"]

    stride = "def every_second(float(N) X) -> (O) { O(i) = X(2 * i) where i in 0:50 }"
    executor = tc.compile(stride, "every_second", None, floats(100))
    assert "reads X 200 bytes; writes O 200 bytes" in notes(executor.explain())["traffic"][0]

    broadcast = "def twice(float(M,N) X) -> (O) { O(m,n) = X(m,n) + X(m,n) }"
    executor = tc.compile(broadcast, "twice", None, floats(1, 30).expand(20, 30))
    assert "reads X 120 bytes; writes O 2.34 KiB" in notes(executor.explain())["traffic"][0]


def test_outputs_that_are_updated_travel_both_ways() -> None:
    text = "def add_to(float(N) X) -> (Y) { Y(n) += X(n) }"
    traffic = notes(tc.compile(text, "add_to", None, floats(10)).explain())["traffic"]
    assert traffic == [
        "120 bytes if every element travels once: reads X 40 bytes, Y 40 bytes; writes Y 40 bytes"
    ]


def test_integer_operations_are_counted_apart() -> None:
    whole = notes(explain("quantized"))
    assert whole["work"] == [f"{count(2 * 32 * 48 * 64)} integer operations"]
    assert "floating-point" not in "".join(whole["expected"])


@pytest.mark.parametrize(
    ("dtype", "machine", "peak"),
    [
        ("float", MACHINE, 64),
        ("double", MACHINE, 32),
        ("float", "vector_bits=256,library_rate=1", 32),
    ],
)
def test_share_of_the_peak(
    monkeypatch: pytest.MonkeyPatch, dtype: str, machine: str, peak: int
) -> None:
    """Two multiply-adds a cycle, each of as many numbers as a vector holds."""
    monkeypatch.setenv("TC_MACHINE", machine)
    name = f"product_{dtype}"
    text = f"def {name}({dtype}(M,K) A, {dtype}(K,N) B) -> (C) {{ C(m,n) +=! A(m,k) * B(k,n) }}"
    values = [x.to(torch.float64 if dtype == "double" else torch.float32) for x in MATRICES]
    explained = tc.compile(text, name, None, *values).explain()
    cycles, speed, memory = notes(explained)["expected"]
    per_cycle = 2 * 96 * 160 * 224 / number(cycles)
    assert number(speed) == pytest.approx(per_cycle, rel=0.02)
    share, of = re.fullmatch(r".* a cycle, ([\d.]+) % of the peak of ([\d.]+)", speed).groups()
    assert float(of) == peak
    assert float(share) == pytest.approx(100 * per_cycle / peak, rel=0.02)
    assert float(share) <= 100
    element = 8 if dtype == "double" else 4
    bytes_moved = element * (96 * 224 + 224 * 160 + 96 * 160)
    assert number(memory) == pytest.approx(bytes_moved / number(cycles), rel=0.02)
    # What the groups' tables say.
    assert (
        notes(explained, "group 1")["estimate"][0].split(" cycles")[0]
        == (cycles.split(" cycles")[0])
    )


# ---- decisions


ORDERS = list(itertools.product(("mk", "km"), ("kn", "nk"), ("mn", "nm")))


@pytest.mark.parametrize(("a", "b", "c"), ORDERS)
def test_operands_are_what_their_strides_make_them(a: str, b: str, c: str) -> None:
    sizes = {"m": 96, "n": 160, "k": 224}
    name = f"product_{a}_{b}_{c}"
    text = (
        f"def {name}(float({','.join(a.upper())}) A, float({','.join(b.upper())}) B) -> (C) "
        f"{{ C({','.join(c)}) +=! A({','.join(a)}) * B({','.join(b)}) }}"
    )
    values = [floats(*(sizes[i] for i in x)) for x in (a, b)]
    group = notes(tc.compile(text, name, None, *values).explain(), "group 1")
    cycles = [number(line) for line in group["cycles"]]
    assert cycles[0] == min(cycles)
    vector = re.search(r"this form, vectors along (\w+)$", group["cycles"][0])[1]
    assert vector in "mn"
    vectors = [number(line) for line in group["vectors"]]
    assert vectors[0] == min(vectors)
    along = [re.search(r" along (\w+)", line)[1] for line in group["vectors"]]
    assert along == [vector, *set("mn") - {vector}]
    copied = []
    for tensor, indices, line in zip("AB", (a, b), group["operands"], strict=True):
        if vector not in indices:
            expected = "one element for all lanes"
        elif indices[-1] == vector:
            expected = f"contiguous along {vector}, read where it lies"
        else:
            distance = sizes[indices[-1]]
            expected = f"neighbours along {vector} lie {distance} elements apart: copied"
            copied.append((tensor, indices))
        assert line == f"{tensor}: {expected}"
    assert len(group.get("copy", [])) == len(copied)
    for (tensor, indices), line in zip(copied, group.get("copy", []), strict=True):
        reduction, width = re.match(rf"{tensor}: (\d+) x (\d+) elements", line).groups()
        assert int(reduction) == sizes["k"]
        assert f", {size(4 * int(reduction) * int(width))}, " in line
        assert line.endswith(f"as (k, {vector}), transposed from ({', '.join(indices)})")


@pytest.mark.parametrize("name", ["mm", "tmm", "tbmm", "gconv", "mlp1", "few_results"])
def test_blocks_fit_the_registers(name: str) -> None:
    form = notes(explain(name), "group 1")["form"]
    points = [int(x) for x in re.findall(r"(\d+) of \w+", form[0])]
    assert "a block of results in registers" in form[0]
    rows, width = math.prod(points[:-1]), points[-1]
    vectors = math.ceil(width / 16)
    assert f"({vectors} vector{'s' if vectors > 1 else ''} of 16)" in form[0]
    # The block, a row of loads, and a broadcast.
    assert rows * vectors + vectors + 1 <= 32
    assert form[1].startswith(f"{rows * vectors} of 32 registers hold it ")


@pytest.mark.parametrize("sizes", [(96, 256, 64), (97, 250, 64), (64, 64, 64), (50, 26, 300)])
def test_blocks_are_the_accumulators_of_the_assembly(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int, int]
) -> None:
    monkeypatch.delenv("TC_MACHINE")
    m, n, k = sizes
    name = f"block_{m}_{n}_{k}"
    text = f"def {name}(float(M,K) A, float(K,N) B) -> (C) {{ C(m,n) +=! A(m,k) * B(k,n) }}"
    executor = tc.compile(text, name, None, floats(m, k), floats(k, n))
    if "vfmadd" not in executor.assembly:
        pytest.skip("this processor has no multiply-add of AVX")
    # Between two labels: the registers that multiply-adds add to.
    accumulators = [
        len(set(re.findall(r"vfmadd\w+ps\s[^#\n]*(%[xyz]mm\d+)\s*(?:#|\n)", block)))
        for block in re.split(r"^\.L\w+:", executor.assembly, flags=re.MULTILINE)
    ]
    # The last columns may be a group of their own.
    said = re.search(r"(\d+) of \d+ registers hold", executor.explain())
    assert said and max(accumulators) == int(said[1])


@pytest.mark.parametrize("name", KERNELS)
def test_tasks_are_the_parallel_loops(name: str) -> None:
    executor = compile_kernel(name)
    text = executor.explain()
    tasks = []
    for group in re.findall(r"^group \d+$", text, re.MULTILINE):
        for line in notes(text, group).get("tasks", []):
            counts = re.findall(r"(?:in (\d+) tiles|one by one \((\d+)\))", line)
            assert int(line.split()[0]) == math.prod(int(x or y) for x, y in counts)
            tasks.append(int(line.split()[0]))
    loops, depth, found = [], 0, []
    for line in executor.loop_nest.splitlines():
        parallel = re.match(r" *parallel \S+ in 0:(\d+)$", line)
        indent = len(line) - len(line.lstrip())
        if parallel and loops and indent > depth:
            found[-1] *= int(parallel[1])
        elif parallel:
            found.append(int(parallel[1]))
        if parallel:
            loops.append(line)
            depth = indent
    assert found == tasks


def test_scratch_holds_the_copies() -> None:
    for name, copies in {"tmm": 1024 * 64 * 4, "gconv": 16 * 9 * 16 * 4}.items():
        executor = compile_kernel(name)
        scratch = executor.number("task_scratch_bytes")
        # Each begins at a cache line.
        assert copies <= scratch <= copies + 128
        assert notes(executor.explain())["scratch"] == [f"{size(scratch)} for every task"]
    assert notes(explain("softmax"))["scratch"] == ["none"]


def test_temporaries_are_workspaces_or_private() -> None:
    whole = notes(explain("convolution"))
    assert whole["workspace"] == [f"padded {size(4 * 4 * 512 * 9 * 9)}"]
    whole = notes(explain("softmax"))
    assert whole["workspace"] == ["none"]
    assert whole["private"] == ["e, largest, total: never whole, a part for every iteration"]


def test_rewriting_in_front_of_the_schedule_is_named() -> None:
    chain = """def chain(float(N) X) -> (Y) {
      T(i) = X(i) * 2
      Y(i) = T(i) + 1
    }"""
    text = tc.compile(chain, "chain", None, floats(100)).explain()
    assert notes(text, "")["inlined"] == ["T"]
    # One result of ten million elements becomes parts first.
    assert notes(explain("long_sum"), "")["added"] == ["O.parts"]


def test_what_all_terms_share_makes_no_parts() -> None:
    """The mean lies along the groups; the terms of a variance do not."""
    text = tc.ops.source("group_normalization")
    executor = tc.compile(
        text, "group_normalization", None, floats(4, 8, 8, 56, 56), floats(8, 8), floats(8, 8), 1e-5
    )
    assert executor.explain().startswith("group_normalization on the CPU, 1 group\n")


def test_indices_that_became_one_are_named() -> None:
    scale = "def scale(float(N,C,H,W) X, float(C) s) -> (Y) { Y(n,c,h,w) = X(n,c,h,w) * s(c) }"
    text = tc.compile(scale, "scale", None, floats(4, 16, 20, 30), floats(16)).explain()
    assert notes(text, "group 1")["S0"][1] == "n 4, c 16, h 600 (h and w as one)"
    # Three: nothing keeps the planes apart.
    copy = "def copy(float(N,H,W) X) -> (Y) { Y(n,h,w) = X(n,h,w) }"
    text = tc.compile(copy, "copy", None, floats(4, 20, 30)).explain()
    assert notes(text, "group 1")["S0"][1] == "n 2400 (n and h and w as one)"
    assert notes(explain("long_sum"), "group 1")["S0"][1].startswith("i_part 64 (parts of i); ")


def test_passes_over_a_row_are_one_group() -> None:
    text = explain("softmax")
    assert text.splitlines()[0] == "softmax on the CPU, 1 group"
    group = notes(text, "group 1")
    assert group["form"] == ["rows: every statement has vectors along loops of its own below n"]
    assert group["no block"] == ["the group shares 1 loop, but e in S1 has 2 dimensions"]
    # S1 makes what S2 adds up in the same order; S0 and S3 stand before and after.
    assert [line.split(":")[0] for line in group["loops"]] == ["S0", "S1, S2", "S3"]
    for line in group["loops"]:
        best, scalar = re.search(r"along d, (.*) memory operations \((.*) scalar\)", line).groups()
        assert number(best) < number(scalar)


def test_groups_say_why_they_are_apart() -> None:
    reason = notes(explain("convolution"), "group 2")["apart"]
    # A result of (n, f, h, w) needs all c and windows of h and w: three loops cannot be shared.
    assert re.fullmatch(r"S1 could share \d of 4 loops; fusing takes 3", reason[0])
    apart = tc.MappingOptions("naive").outerScheduleFusionStrategy("Min")
    pair = """def pair(float(N) X) -> (Y, Z) {
      Y(i) = X(i) * 2
      Z(i) = Y(i) + 1
    }"""
    text = tc.compile(pair, "pair", apart, floats(100)).explain()
    assert notes(text, "group 2")["apart"] == ["the options fuse nothing"]


def test_lookups_of_different_tables_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "TC_MACHINE", "vector_bits=512,vector_registers=32,cores=2,cache_bytes=65536,library_rate=1"
    )
    head = "def f(float(E,D) S, float(F,D) T, int32(B,L) I, int32(B,L) J) -> "
    lookups = "O(i,j) +=! S(I(i,k), j) P(i,j) +=! T({}(i,k), j)"

    def groups(text: str, entries: int, rows: int) -> dict:
        places = torch.zeros(rows, 50, dtype=torch.int32)
        return tc.compile(
            text, "f", None, floats(entries, 64), floats(entries, 64), places, places
        ).explain()

    two = head + "(O, P) { " + lookups.format("J") + " }"
    explained = groups(two, 1000, 64)
    assert notes(explained, "group 2")["apart"] == [
        "S1 shares no data with its group, and both read more than the cache keeps"
    ]
    # 256 rows of 256 bytes are all that the cache keeps; both lookups read fewer.
    assert "1 group" in groups(two, 100, 64)
    assert "1 group" in groups(two, 1000, 5)
    assert "1 group" in groups(head + "(O, P) { " + lookups.format("I") + " }", 1000, 64)
    together = head + "(O, P, Q) { " + lookups.format("J") + " Q(i,j) = O(i,j) * P(i,j) }"
    assert "1 group" in groups(together, 1000, 64)


@pytest.mark.parametrize(("entries", "width", "rows"), [(1000, 64, 1), (1000, 16, 3), (100, 64, 6)])
def test_rows_of_a_large_table_need_no_company(
    entries: int, width: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Three rows of one vector each keep the memory busy as long as a sum takes.
    monkeypatch.setenv(
        "TC_MACHINE", "vector_bits=512,vector_registers=32,cores=2,cache_bytes=16384,library_rate=1"
    )
    text = tc.compile(
        LOOKUP, "lookup", None, floats(entries, width), torch.zeros(60, 50, dtype=torch.int32)
    ).explain()
    form = notes(text, "group 1")["form"][0]
    assert (f"{rows} of b x" in form) == (rows > 1), form
    assert f"{width} of d" in form


def test_chained_products_keep_their_blocks() -> None:
    # Sharing m, n0 and d2, the first two would have one-dimensional rows of results.
    text, entry = of_workload("kronecker3")
    values = (*(floats(16, 32) for _ in range(3)), floats(256, 32, 32, 32))
    assert tc.compile(text, entry, None, *values).explain().count("a block of results") == 3


def test_a_long_reduction_says_its_tiles() -> None:
    group = notes(explain("few_results"), "group 1")
    tile = group["reduction"]
    length, limit = re.fullmatch(
        r"(\d+) of k: copies for the whole .* exceed (.*)", tile[0]
    ).groups()
    assert limit == "512 KiB"
    columns = int(re.search(r"(\d+) of n", group["form"][0])[1])
    # The tile of a panel of columns fits; all of it does not.
    assert int(length) * columns * 4 <= 512 * 1024 < 200_000 * columns * 4


def test_reasons_for_one_thread() -> None:
    text = "def little(float(N) A) -> (O) { O(i) = A(i) }"
    group = notes(tc.compile(text, "little", None, floats(100)).explain(), "group 1")
    assert group["threads"] == ["one: 200 accesses are fewer than 32768"]
    (mm, entry), values = KERNELS["mm"]
    text = tc.compile(mm, entry, "single_thread", *values).explain()
    assert notes(text, "group 1")["threads"] == ["one, as the options say"]


def test_options_are_named_as_the_reason() -> None:
    (mm, entry), values = KERNELS["mm"]
    text = tc.compile(mm, entry, "identity", *values).explain()
    assert notes(text, "group 1")["form"] == [
        "the loops of the text, serial and scalar, as the options say"
    ]
    # No model speaks of it.
    assert "expected" not in notes(text)
    tiled = tc.MappingOptions("naive").tile(16, 8)
    group = notes(tc.compile(mm, entry, tiled, *values).explain(), "group 1")
    assert group["tasks"] == [
        "1024 in parallel, as the options say: n in 128 tiles of 8, m in 8 tiles of 16"
    ]


def test_gathers_and_transposes() -> None:
    group = notes(explain("transpose"), "group 1")
    assert group["form"] == ["squares with vectors along j, since A lies along i"]
    assert group["copy"] == [
        f"A: 64 x 64 elements, {size(64 * 64 * 4)}, as (i, j), transposed from (j, i)"
    ]
    # Rows of the table are contiguous along d, whichever they are.
    lookup = notes(explain("lookup"), "group 1")
    assert any("vectors along d" in line for line in lookup["cycles"][:1] + lookup["form"])


def test_compile_times_add_up() -> None:
    executor = compile_kernel("tmm")
    line = notes(executor.explain())["compiled"][0]
    total, stages = re.fullmatch(r"([\d.]+) ms: (.*)", line).groups()
    parts = [part.rsplit(" ", 1) for part in stages.split(", ")]
    assert {"dependences", "schedule", "ast", "halide passes", "llvm"} <= {p[0] for p in parts}
    assert sum(float(p[1]) for p in parts) == pytest.approx(float(total), abs=0.5)
    assert executor.number("compile_microseconds") / 1000 == pytest.approx(float(total), abs=0.1)


def test_lines_are_aligned_and_short() -> None:
    for name in KERNELS:
        for line in explain(name).splitlines():
            assert len(line) <= 160, line
            assert line == line.rstrip()
            assert not line.startswith("  ") or line[11] == " ", line


# ---- CUDA


def test_cuda_launches() -> None:
    executor = compile_kernel("mm", "cuda:sm_80")
    text = executor.explain()
    assert text.splitlines()[0] == "mm on CUDA sm_80, 1 group"
    group, (launch,) = notes(text, "group 1"), json.loads(executor.text("launches"))["launches"]
    grid, block = (" x ".join(map(str, launch[what])) for what in ("grid", "block"))
    assert group["launch"][0] == f"mm_0: grid {grid}, block {block}, nothing in shared memory"
    assert group["launch"][1] == f"{executor.number('registers')} registers a thread, 0 bytes spilt"
    # C and B are contiguous along n; along m, C, its initialisation and A are not.
    x, y = launch["block"][:2]
    assert group["threads"][0].startswith(f"{x} of n on x, {y} of m on y: {x * y};")
    figures = {line.split()[-3]: number(line) for line in group["accesses"]}
    assert figures["n"] < figures["m"]
    assert int(group["blocks"][0].split(":")[0]) == math.ceil(128 / y) * math.ceil(1024 / x)
    assert "machine" not in text
    assert "expected" not in text


def test_cuda_temporaries() -> None:
    whole = notes(compile_kernel("softmax", "cuda:sm_80").explain())
    # Both reductions have 4,096 results, and 8 parts of each.
    parts = size(8 * 4096 * 4)
    assert whole["workspace"] == [
        f"e {size(4096 * 1024 * 4)}, largest 16 KiB, largest.parts {parts}, total 16 KiB, "
        f"total.parts {parts}"
    ]


def test_cuda_options_decide_launches() -> None:
    (mm, entry), values = KERNELS["mm"]
    options = tc.MappingOptions("naive").tile(16, 8).mapToThreads(8, 4).mapToBlocks(4)
    text = tc.compile(mm, entry, options, *values, target="cuda:sm_80").explain()
    group = notes(text, "group 1")
    assert group["threads"] == ["8 of n on x, 16 of m on y: 128, as the options say"]
    assert group["launch"][0].startswith("mm_0: grid 4 x 1 x 1, block 8 x 4 x 1,")


# ---- where else it can be seen


def test_the_log_explains_what_calls_compile() -> None:
    script = (
        "import torch, tensor_comprehensions as tc\n"
        "tc.define('def logged(float(N) A) -> (O) { O(i) = A(i) }').logged(torch.zeros(5))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "TC_LOGS": "explain"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "logged on the CPU, 1 group" in done.stderr
    assert "O(i) = A(i)" in done.stderr


# ---- the machine


def test_the_machine_is_named() -> None:
    assert notes(explain("mm"), "")["machine"] == [
        "512-bit vectors, 32 registers, 2 cores, 512 KiB of cache for copies"
    ]
