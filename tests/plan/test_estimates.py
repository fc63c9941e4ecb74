"""The estimate of a Plan in cycles, by parts, on a described machine (csrc/plan/model/estimate.h).

Bounds come from what can be counted without the compiler: multiply-adds over units, bytes over
bandwidths, elements of copies."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch
from explained import KERNELS, explain

import tensor_comprehensions as tc

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from model import estimate_of, parts_of

MACHINE = (
    "vector_bits=512,vector_registers=32,cores=2,cache_bytes=1048576,last_cache_bytes=67108864,"
    "last_cache_share=33554432,second_cache_percent=72,last_cache_rate=10,memory_rate=4,"
    "library_rate=24"
)
LANES, UNITS = 16, 2
PRODUCT = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"


@pytest.fixture(autouse=True)
def described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", MACHINE)


def floats(*sizes: int) -> torch.Tensor:
    return torch.empty(sizes)


def explained(text: str, *values: torch.Tensor) -> str:
    return tc.compile(text, "f", tc.MappingOptions().matchLibraryCalls(False), *values).explain()


def product(m: int, n: int, k: int) -> str:
    return explained(PRODUCT, floats(m, k), floats(k, n))


def elementwise(value: str, size: int = 4096) -> dict[str, float]:
    return parts_of(explained(f"def f(float(N) A) -> (O) {{ O(i) = {value} }}", floats(size)))


@pytest.mark.parametrize("name", ["mm", "tmm", "gconv", "softmax", "transpose", "lookup", "mlp1"])
def test_parts_add_up(name: str) -> None:
    text = explain(name)
    assert sum(parts_of(text).values()) == pytest.approx(estimate_of(text), rel=0.05)


def test_a_product_takes_its_multiply_adds_and_little_more() -> None:
    text = product(256, 512, 512)
    least = 256 * 512 * 512 / LANES / UNITS
    assert least <= parts_of(text)["arithmetic"] <= 1.15 * least
    assert least < estimate_of(text) < 2 * least


def test_what_is_larger_takes_longer() -> None:
    whole = estimate_of(product(200, 200, 200))
    for sizes in ((400, 200, 200), (200, 400, 200), (200, 200, 400)):
        assert 1.5 * whole < estimate_of(product(*sizes)) < 3 * whole


def test_few_results_wait_for_each_other() -> None:
    """2 x 16 results are 2 vectors: a step takes as long as a multiply-add, not half a cycle."""
    text = product(2, 16, 4096)
    assert "2 of m x 16 of n (1 vector of 16)" in text
    latency = 4
    parts = parts_of(text)
    assert parts["arithmetic"] < 1.15 * 4096 * 2 / UNITS
    steps = parts["arithmetic"] + parts["loads"] + parts["latency"]
    assert steps == pytest.approx(4096 * latency, rel=0.05)
    assert "latency" not in parts_of(product(256, 512, 512))


@pytest.mark.parametrize(("size", "row", "share"), [(3, "h", 5 / 9), (3, "n", 1), (9, "h", 1)])
def test_rows_of_unrolled_windows_load_less(size: int, row: str, share: float) -> None:
    """Three rows and three steps read five rows. 81 terms of six vectors are loops."""
    text = """def f(float(N,C,H,W) I, float(C,KH,KW) K) -> (O) {
      O(n,c,h,w) +=! I(n,c,h+kh,w+kw) * K(c,kh,kw)
    }"""
    values = floats(6, 16, 23 + size, 63 + size), floats(16, size, size)

    def cycles(rows: int) -> float:
        options = tc.MappingOptions().cluster("S0").order("n", "c", "h", "w")
        options.registers(w=32, **({row: rows} if rows > 1 else {})).copy(None)
        parts = parts_of(tc.compile(text, "f", options, *values).explain())
        return parts["arithmetic"] + parts.get("loads", 0)

    # Nearly two lines a vector, and a factor a step.
    one, three = cycles(1), cycles(3)
    terms = 6 * 16 * 24 * 64 * size * size / LANES * 1.05
    crossing = 1 + 15 / 16
    assert one == pytest.approx(terms * (crossing + 1 / 2) / 2, rel=0.03)
    expected = max(terms / UNITS, terms * (share * crossing + 1 / 6) / 2)
    assert three == pytest.approx(expected, rel=0.03)


def test_functions_cost_what_they_take() -> None:
    plain = sum(elementwise("A(i)").values())
    exp, tanh, library = (
        sum(elementwise(f"{name}(A(i))").values()) - plain for name in ("exp", "tanh", "lgamma")
    )
    assert 4 * 4096 / LANES < exp < 20 * 4096 / LANES
    assert 2 * exp < tanh < 10 * exp
    # One by one.
    assert library > 10 * 4096


def test_functions_of_fewer_indices_are_computed_less_often() -> None:
    """exp(B(n)) does not change while k does: it is no part of every step."""
    text = "def f(float(M,K) A, float(M) B) -> (C) {{ C(m) +=! A(m,k) * {} }}"
    inside, outside = (
        parts_of(explained(text.format(value), floats(512, 1024), floats(512)))["arithmetic"]
        for value in ("exp(A(m,k))", "exp(B(m))")
    )
    assert inside > 3 * outside


def test_where_data_lies_decides_what_its_lines_take(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def f(float(N) A, float(N) B) -> (O) { O(i) = A(i) + B(i) }"

    def parts(size: int, *facts: str) -> dict[str, float]:
        monkeypatch.setenv("TC_MACHINE", ",".join([MACHINE, *facts]))
        return parts_of(explained(text, floats(size), floats(size)))

    small, large, huge = parts(1 << 14), parts(1 << 20), parts(1 << 24)
    assert "last cache" not in small and "memory" not in small
    assert "memory" not in large and "last cache" not in huge
    assert 2 * (4 << 20) / 10 / 2 < large["last cache"] < 2 * (4 << 20) / 10
    assert huge["memory"] < 2 * (4 << 24) / 4
    halved = parts(1 << 24, "memory_rate=2")
    assert halved["memory"] == pytest.approx(2 * huge["memory"], rel=0.02)
    # Twice the share keeps twice as much.
    assert "memory" not in parts(1 << 22, "last_cache_share=67108864")
    assert "memory" in parts(1 << 22, "last_cache_share=16777216")


@pytest.mark.parametrize(
    ("fact", "part"),
    [
        ("task_cycles=100000", "start"),
        ("block_cycles=10000", "start"),
        ("copied_element_cycles=50.5", "copies"),
        (
            "transposed_store_cycles=40.5,scattered_store_cycles=40.5,far_store_cycles=400",
            "stores",
        ),
    ],
)
def test_facts_are_what_parts_are_made_of(
    fact: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "def f(float(K,B,M) X, float(K,N,B) Y) -> (Z) { Z(m,n,b) +=! X(k,b,m) * Y(k,n,b) }"
    values = floats(40, 17, 96), floats(40, 64, 17)
    name = fact.split("=")[0]
    # Decisions must not change, so only what the chooser does not look at, or the form that is
    # given, is compared.
    options = tc.MappingOptions().matchLibraryCalls(False)
    before = tc.compile(text, "f", options, *values)
    monkeypatch.setenv("TC_MACHINE", f"{MACHINE},{fact}")
    after = tc.compile(text, "f", before.options, *values)
    assert str(after.options) == str(before.options)
    old, new = parts_of(before.explain()), parts_of(after.explain())
    if name == "copied_element_cycles" and "copies" not in old:
        pytest.skip("nothing is copied one by one here")
    assert new[part] > 1.5 * old.get(part, 0), (old, new)
    assert {k: v for k, v in new.items() if k != part and v > 0.05 * new[part]}.items() <= (
        {k: pytest.approx(v) for k, v in old.items()}
    ).items()


def test_copies_that_are_made_anew_for_every_tile() -> None:
    """A batch index that is contiguous in neither operand: every tile of the others copies its own
    part of both. Model and clock were 20 times apart, since copies counted once."""
    text = """def f(float(M,B,K,U) X, float(B,U,N,K) Y) -> (Z) {
      Z(m,n,b) +=! X(m,b,k,u) * Y(b,u,n,k)
    }"""
    options = tc.MappingOptions().cluster("S0").tile("task", b=128, m=2, n=4)
    options = options.registers(b=128).vector(True)
    values = floats(40, 251, 4, 3), floats(251, 3, 71, 4)
    said = tc.compile(text, "f", options, *values).explain()
    copies = re.findall(r"^ *(?:copy)? +([XY]): ([\d x]+) elements", said, re.M)
    assert {name for name, _ in copies} == {"X", "Y"}
    tasks = int(re.search(r"^  tasks +(\d+)", said, re.M)[1])
    elements = 0
    for _, box in copies:
        sizes = [int(size) for size in box.split(" x ")]
        product_of_sizes = 1
        for size in sizes:
            product_of_sizes *= size
        elements += product_of_sizes
    assert tasks * elements > 4 * (40 * 251 * 12 + 251 * 3 * 71 * 4)
    # No core copies faster than its first cache takes lines.
    assert parts_of(said)["copies"] > tasks * elements / LANES
    assert parts_of(said)["copies"] > 0.5 * estimate_of(said)


def given(registers: str, reductions: str = "", copy: str = "") -> dict[str, float]:
    """Parts of a product whose register tile, tiles of the reduction and copies are these."""
    points = "apart" if reductions else "inside"
    options = tc.MappingOptions.parse(
        "tc.MappingOptions().libraryCalls(None).cluster('S0_init', 'S0').inside().order('m', 'n')"
        f".tile('task').parallel(False).tile('reduction'{reductions}).registers({registers})"
        f".points('{points}').vector(True).nest(None){copy or '.copy(None)'}"
    )
    said = tc.compile(PRODUCT, "f", options, floats(480, 512), floats(512, 64)).explain()
    return parts_of(said)


def test_a_choice_by_an_unrolled_index_is_none() -> None:
    """Of complex products: what both results of a number compute was counted with a choice of lanes
    for each, though a block that has both decides it."""
    text = """def f(float(M,2,K) A, float(K,2,N) B) -> (C) {
      C(m,c,n) +=! c == 0 ? A(m,0,k) * B(k,0,n) - A(m,1,k) * B(k,1,n)
                          : A(m,0,k) * B(k,1,n) + A(m,1,k) * B(k,0,n) where c in 0:2
    }"""
    m, k, n = 48, 64, 64

    def arithmetic(c: int) -> float:
        options = tc.MappingOptions().cluster("S0").registers(m=6, c=c, n=32).vector(True)
        said = tc.compile(text, "f", options, floats(m, 2, k), floats(k, 2, n)).explain()
        return parts_of(said)["arithmetic"]

    # A product, a multiply-add and an addition for every result and term.
    operations = 3 * m * 2 * n * k
    assert arithmetic(2) == pytest.approx(operations / LANES / UNITS, rel=0.1)
    assert arithmetic(1) > 2 * arithmetic(2)


def test_lanes_that_lie_apart_are_loaded_with_those_between_them() -> None:
    def loads(value: str) -> float:
        parts = parts_of(explained(f"def f(float(N) B) -> (O) {{ {value} }}", floats(8192)))
        return parts["loads"] + parts.get("arithmetic", 0)

    one = loads("O(i) = B(2 * i) where i in 0:4000")
    same = loads("O(i) = B(2 * i) + B(2 * i + 1) where i in 0:4000")
    others = loads("O(i) = B(2 * i) + B(2 * i + 2) where i in 0:4000")
    assert 1.1 * one < same < 1.7 * one
    assert others > 1.8 * one


def test_vectors_without_a_register_are_spilled() -> None:
    """6 x 64 results are 24 of 32 vectors; 4 of an operand serve all rows. 8 x 64 are 32."""
    assert "spills" not in given("m=6, n=64")
    eight, sixteen = given("m=8, n=64")["spills"], given("m=16, n=64")["spills"]
    steps = 480 * 512
    assert steps / 8 * 32 / 4 < eight < steps / 8 * 32
    # Twice the results, half the steps: 32 vectors more, each of which is spilled in every step.
    assert sixteen - eight / 2 == pytest.approx(32 * steps / 16 * 1.75, rel=0.02)


def test_operands_that_are_used_again_later_hold_registers() -> None:
    """Of 2 x 14 x 16 results, 14 scalars serve both blocks of rows, and wait for the second."""
    text = "def f(float(M,K) A, float(K,R,N) B) -> (C) { C(r,m,n) +=! A(m,k) * B(k,r,n) }"
    options = (
        "tc.MappingOptions().libraryCalls(None).cluster('S0_init', 'S0').inside()"
        ".order('r', 'm', 'n').tile('task').parallel(False).tile('reduction')"
        ".registers({}, n=16).points('inside').vector(True).nest(None).copy(None)"
    )

    def spills(registers: str) -> float:
        given = tc.MappingOptions.parse(options.format(registers))
        said = tc.compile(text, "f", given, floats(56, 64), floats(64, 4, 16)).explain()
        return parts_of(said).get("spills", 0)

    assert spills("m=28") == 0
    steps = 56 // 14 * 4 // 2 * 64
    # 28 results, a vector and 14 scalars, and one register for the compiler.
    assert spills("r=2, m=14") == pytest.approx((28 + 1 + 14 + 1 - 32) * 1.75 * steps, rel=0.01)


def test_tails_of_half_vectors_need_registers_of_their_own() -> None:
    """A tail of 13 is two vectors of 8 that overlap, where 16 and 8 columns are one vector each."""
    text = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
    options = tc.MappingOptions.parse(
        "tc.MappingOptions().libraryCalls(None).cluster('S0_init', 'S0').inside().order('m', 'n')"
        ".tile('task').parallel(False).tile('reduction').registers(m=24, n=16).points('inside')"
        ".vector(True).nest(None).copy(None)"
    )

    def spills(columns: int) -> float:
        said = tc.compile(text, "f", options, floats(48, 64), floats(64, columns)).explain()
        return parts_of(said).get("spills", 0)

    assert spills(32) == spills(24) == 0
    # 48 results, 2 vectors, a scalar and a register for the compiler, in two tails of 64 steps.
    assert spills(29) == pytest.approx((48 + 2 + 1 + 1 - 32) * 1.75 * 2 * 64, rel=0.01)


def test_tiles_of_a_reduction_begin_and_store_results_again() -> None:
    whole, eighths, single = (given("m=6, n=64", k) for k in ("", ", k=64", ", k=1"))
    assert eighths["start"] == pytest.approx(8 * 480 / 6 * 50, rel=0.1)
    assert eighths["stores"] == pytest.approx(8 * 480 * 64 / LANES, rel=0.1)
    assert sum(single.values()) > 4 * sum(whole.values())


def test_a_copy_across_the_vector_is_no_vector() -> None:
    """Lanes lie apart in it, and are loaded one by one."""
    across, along = (
        given("m=6, n=64", copy=f".copy('B(k, n)', statement='S0', order={order})")
        for order in ("(1, 0)", "(0, 1)")
    )
    assert across["loads"] > across["arithmetic"]
    assert along.get("loads", 0) < 0.1 * along["arithmetic"]


def test_copies_of_elements_a_few_apart_are_vectors() -> None:
    """Of which a line has several, and which are loaded together: the model said one by one."""

    def copies(text: str, read: str, order: tuple[int, ...], *sizes: int) -> float:
        options = tc.MappingOptions().cluster("S0").registers(m=6, n=64).vector(True)
        options = options.tile("task", m=48, n=64).copy(read, statement="S0", order=order)
        said = tc.compile(text, "f", options, floats(48, 256), floats(*sizes)).explain()
        return parts_of(said)["copies"]

    def apart(step: int) -> float:
        text = f"def f(float(M,K) A, float(K,N,{step}) B) -> (C) {{ C(m,n) +=! A(m,k) * B(k,n,0) }}"
        return copies(text, "B(k, n, 0)", (2, 0, 1), 256, 512, step)

    elements = 256 * 512
    vectors = elements / LANES * 9
    lines = elements * 4 / 64
    for step in (2, 4, 8):
        assert vectors < apart(step) < vectors + 16 * step * lines
    assert apart(32) > elements * 1.4
    text = "def f(float(M,K) A, float(K,N,P) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n,p) }"
    rows = copies(text, "B(k, n, p)", (0, 2, 1), 256, 512, 3)
    assert 3 * vectors < rows < 3 * (vectors + 16 * lines)


def test_sums_one_by_one_wait_for_each_other() -> None:
    options = tc.MappingOptions().vectorize(False).cluster("S0").tile("task").order("m")
    options = options.points("around").nest(None)
    text = "def f(float(M,K) A) -> (C) { C(m) +=! A(m,k) }"
    parts = parts_of(tc.compile(text, "f", options, floats(64, 1000)).explain())
    steps = parts["arithmetic"] + parts.get("loads", 0) + parts["latency"]
    assert steps == pytest.approx(4 * 64 * 1000, rel=0.1)


def test_a_vector_that_is_all_of_its_loop_is_no_loop() -> None:
    """What it gathers is taken out of the loop around it, which is the innermost one: the estimate
    was 8 times the clock."""
    text = "def f(float(N,M) X, float(R,N) Y) -> (Z) { Z(n,m,r) = X(n,m) * Y(r,n) }"
    options = tc.MappingOptions.parse(
        "tc.MappingOptions().cluster('S0').inside().order('n', 'm', 'r').tile('task')"
        ".parallel(False).tile('reduction').registers().points('around').vector(True).nest(None)"
        ".copy(None)"
    )
    n, m, r = 4096, 64, LANES
    parts = parts_of(tc.compile(text, "f", options, floats(n, m), floats(r, n)).explain())
    # Rather than a load for every lane of every vector.
    assert parts["arithmetic"] + parts.get("loads", 0) < 2 * n * m
    assert parts.get("start", 0) < 2 * n * 10


def test_products_that_are_bound_by_memory() -> None:
    """Results along the batch index, each of one product: the model said 28 times too little."""
    text = "def f(float(P,M,B) X, float(B) Y) -> (Z) { Z(m,p,b) +=! X(p,m,b) * Y(b) }"
    said = explained(text, floats(15, 19, 31387), floats(31387))
    travelling = 2 * 4 * 15 * 19 * 31387
    assert travelling / 8 < estimate_of(said) < travelling
    parts = parts_of(said)
    assert parts["memory"] + parts["stores"] > 0.8 * estimate_of(said)


def test_every_form_has_an_estimate() -> None:
    for name in KERNELS:
        if name not in ("few_results", "moments"):  # in segments, with a library
            assert estimate_of(explain(name)) > 0


def test_a_copy_for_several_statements_is_made_once() -> None:
    a, b = floats(96, 20), floats(96, 20)
    copies = {}
    for other in "ab":
        text = f"""def f(float(N,M) a, float(N,M) b) -> (O, P) {{
            O(i) +=! a(i, j)
            P(i) +=! {other}(i, k)
        }}"""
        options = tc.MappingOptions().cluster("S0", "S1").registers(i=16).vector(True)
        options.copy("a(i, j)", statement="S0", order=(1, 0))
        options.copy(f"{other}(i, k)", statement="S1", order=(1, 0))
        copies[other] = parts_of(tc.compile(text, "f", options, a, b).explain())["copies"]
    assert copies["b"] == pytest.approx(2 * copies["a"], rel=0.05)


def test_a_task_begins_once_for_all_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", f"{MACHINE},task_cycles=1000")
    texts = {
        "def f(float(N,M) a) -> (O) { O(i) +=! a(i, j) }": ("S0",),
        "def f(float(N,M) a) -> (O, P) { O(i) +=! a(i, j) P(i) max=! a(i, j) }": ("S0", "S1"),
    }
    for tile, tasks in ((10, 96), (96, 10)):
        for text, statements in texts.items():
            options = tc.MappingOptions().cluster(*statements).tile("task", i=tile).parallel(False)
            said = tc.compile(text, "f", options, floats(960, 64)).explain()
            assert 1000 * tasks <= parts_of(said)["start"] < 1400 * tasks


def test_loops_inside_of_tasks_are_no_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where tasks were dear, the maxima of attention's rows were found by columns: 1.5 times slower
    on a Zen 4."""
    monkeypatch.setenv("TC_MACHINE", f"{MACHINE},task_cycles=1000")
    text = tc.ops.source("attention")
    sizes = (8, 8, 128, 64)
    said = tc.compile(text, "attention", None, *(floats(*sizes) for _ in range(3))).explain()
    middle = said.split("group 2\n")[1].split("group 3\n")[0]
    assert "in the loop of the group before" in middle
    assert "form      rows" in middle


def test_results_in_memory_that_do_not_fill_a_vector_wait_for_their_neighbours() -> None:
    """Rows of 14, one behind the other: what stores one overlaps what loads the next."""
    latency = {}
    for columns in (14, 16):
        text = f"""def f(float(N,M) a) -> (O) {{
            O(n, i) +=! a(n + k, i) where n in 0:64, i in 0:{columns}, k in 0:8
        }}"""
        options = tc.MappingOptions().cluster("S0").registers().vector(True)
        said = tc.compile(text, "f", options, floats(72, columns)).explain()
        assert "tiles of results in memory" in said
        latency[columns] = parts_of(said).get("latency", 0)
    assert latency[14] > latency[16] + 20 * 64 * 8


def test_results_that_keep_nan_take_two_registers() -> None:
    """A maximum's old and new value: 24 of them and their operands were 17 stores and loads a step
    more, and half the speed of 12."""
    spills = {}
    for reduction in ("+=!", "max=!"):
        text = f"def f(float(M,K) A, float(N,K) B) -> (C) {{ C(m,n) {reduction} A(m,k) - B(n,k) }}"
        options = tc.MappingOptions().cluster("S0").registers(m=6, n=64).vector(True)
        said = tc.compile(text, "f", options, floats(128, 64), floats(128, 64)).explain()
        assert "6 of m x 64 of n, as the options say" in said
        spills[reduction] = parts_of(said).get("spills", 0)
        chosen = tc.compile(text, "f", None, floats(128, 64), floats(128, 64)).explain()
        rows, vectors = re.search(r"(\d+) of m x \d+ of n \((\d+) vectors", chosen).groups()
        results = int(rows) * int(vectors)
        assert results <= (14 if "max" in reduction else 28)
    assert spills["+=!"] == 0 < spills["max=!"]


def test_what_the_last_cache_holds_comes_from_memory_once() -> None:
    """Four blocks of rows pass over a panel that no cache of a core holds, of a matrix that the
    last one does not: 32 x 4096 x 4096 took twice as long in blocks so narrow that their panels
    were kept."""
    text = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
    values = floats(32, 8192), floats(8192, 4096)
    memory = {}
    for columns in (16, 64):
        options = tc.MappingOptions().cluster("S0").registers(m=8, n=columns)
        options = options.tile("task", m=32, n=columns).copy(None)
        parts = parts_of(tc.compile(text, "f", options, *values).explain())
        memory[columns] = parts["memory"]
        assert parts["memory"] >= 0.8 * 4 * 8192 * 4096 / 4 * 0.85
    assert memory[64] <= 1.3 * memory[16]


def test_rows_are_cut_evenly() -> None:
    """32 rows are four blocks of 8, not three of 9 and one of 5."""
    assert "form      a block of results in registers: 8 of m x 48 of n" in product(32, 480, 512)
    assert "9 of m x 48 of n" in product(33, 480, 512)


BIAS = (
    "def f(float(K,M) A, float(K,N) B, float(N) b) -> (C) {"
    " T(m,n) +=! A(k,m) * B(k,n)  C(m,n) = T(m,n) + b(n) }"
)
IN_PLACE = BIAS.replace("T(", "C(")


@pytest.mark.parametrize("text", [BIAS, IN_PLACE])
def test_what_a_register_tile_holds_is_neither_stored_nor_loaded(text: str) -> None:
    """Vectors along the rows of C, whose elements lie apart: a bias adds an operation a result."""

    def parts(text: str, statements: tuple[str, ...], reduction: dict[str, int]) -> dict:
        options = tc.MappingOptions().libraryCalls(None).cluster(*statements).order("n", "m")
        options = options.tile("task", n=96, m=64).tile("reduction", **reduction)
        options = options.registers(n=12, m=32).points("inside").vector(True).copy(None)
        names = re.findall(r"float\(\w+(?:,\w+)?\) (\w)", text)
        sizes = {"A": (512, 640), "B": (512, 960), "b": (960,)}
        inputs = [floats(*sizes[name]) for name in names]
        return parts_of(tc.compile(text, "f", options, *inputs).explain())

    plain = PRODUCT.replace("(M,K) A", "(K,M) A").replace("A(m,k)", "A(k,m)")
    alone = parts(plain, ("S0_init", "S0"), {})
    bias = parts(text, ("S0_init", "S0", "S1"), {})
    assert bias["stores"] == pytest.approx(alone["stores"], rel=0.02)
    assert bias.get("loads", 0) <= alone.get("loads", 0) + 0.01 * alone["arithmetic"]
    # Between tiles of the reduction they are in memory.
    tiled, cut = (
        parts(each, names, {"k": 128})
        for each, names in ((plain, ("S0_init", "S0")), (text, ("S0_init", "S0", "S1")))
    )
    assert cut["stores"] > 1.2 * tiled["stores"] > 2.4 * alone["stores"]
    assert cut["loads"] > tiled.get("loads", 0) + 640 * 960 / 4
