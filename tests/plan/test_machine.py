"""`TC_MACHINE`: decisions for a machine that is described instead of the one at hand."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import torch

import tensor_comprehensions as tc


def test_another_machine_decides_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    # The machine is part of what kernels are kept by.
    text = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
    values = torch.zeros(128, 256), torch.zeros(256, 256)
    monkeypatch.setenv("TC_MACHINE", "vector_bits=512,vector_registers=32,library_rate=1")
    wide = tc.compile(text, "f", None, *values).explain()
    monkeypatch.setenv("TC_MACHINE", "vector_bits=256,vector_registers=16,cores=2,library_rate=1")
    narrow = tc.compile(text, "f", None, *values).explain()
    assert "64 of n (4 vectors of 16)" in wide
    assert " of 8)" in narrow
    assert "256-bit vectors, 16 registers" in narrow


def test_narrow_units_take_wide_vectors_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight filters by 26 columns: two vectors of 16 columns have lanes to spare, as a vector of 8
    filters has not. Units of 512 bits do both halves of the former at once."""
    text = """def grouped(float(N,G,C,H,W) I, float(G,F,C,KH,KW) K) -> (O) {
        O(n,g,f,h,w) +=! I(n,g,c,h+kh,w+kw) * K(g,f,c,kh,kw)
    }"""
    values = torch.randint(-2, 3, (4, 6, 8, 28, 28)), torch.randint(-2, 3, (6, 8, 8, 3, 3))
    values = tuple(value.float() for value in values)
    wide = "vector_bits=512,vector_registers=32,cores=2,cache_bytes=524288,library_rate=1"
    wanted = torch.nn.functional.conv2d(
        values[0].flatten(1, 2), values[1].flatten(0, 1), groups=6
    ).view(4, 6, 8, 26, 26)
    explained = []
    for machine in (wide, wide + ",unit_bits=256"):
        monkeypatch.setenv("TC_MACHINE", machine)
        executor = tc.compile(text, "grouped", None, *values)
        assert torch.equal(executor(*values), wanted)
        explained.append(executor.explain())
    assert "8 of f x 26 of w (2 vectors of 16)" in explained[0]
    assert "of the peak of 64\n" in explained[0]
    assert "26 of w x 8 of f (1 vector of 8)" in explained[1]
    assert "of the peak of 32\n" in explained[1]


def test_results_that_stay_in_registers_are_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bias and an activation behind the sum move no more results than the sum alone."""
    monkeypatch.setenv(
        "TC_MACHINE",
        "vector_bits=512,vector_registers=32,cores=2,cache_bytes=524288,library_rate=1",
    )
    sum_alone = "O(m,n) +=! A(m,k) * B(k,n)"
    values = torch.zeros(96, 8), torch.zeros(8, 128)
    moved = []
    for more in ("", "O(m,n) = O(m,n) + A(m,0)  O(m,n) = fmax(O(m,n), 0)"):
        text = f"def f(float(M,K) A, float(K,N) B) -> (O) {{ {sum_alone} {more} }}"
        explained = tc.compile(text, "f", None, *values).explain()
        moved.append(re.search(r", (.+) of them for copies and results", explained)[1])
    assert moved[0] == moved[1]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("cores", "TC_MACHINE: 'cores' is no name and number, as in cores=2"),
        ("cores=-1", "TC_MACHINE: 'cores=-1' is no name and number"),
        ("caches=3", "TC_MACHINE: 'caches=3' is not understood; it takes vector_bits"),
        ("caches=3", "last_cache_rate, .*lines_of_a_request, .*cores, threads, library_rate, "),
        ("vector_bits=100", "'vector_bits=100' is not understood; .*a multiple of 128"),
        ("unit_bits=100", "'unit_bits=100' is not understood; .*a multiple of 128"),
        ("library_rate=fast", "TC_MACHINE: 'library_rate=fast' is no name and number"),
        ("vector_registers=1", "'vector_registers=1' is not understood; .*at least 8"),
        ("cores=2;threads=1", "TC_MACHINE: 'cores=2;threads=1' is no name and number"),
        ("cores=3x", "TC_MACHINE: 'cores=3x' is no name and number"),
        ("cores=", "TC_MACHINE: 'cores=' is no name and number"),
        ("memory_rate=nan", "TC_MACHINE: 'memory_rate=nan' is no name and number"),
        ("memory_rate=inf", "TC_MACHINE: 'memory_rate=inf' is too large; memory_rate is at most"),
        ("cores=1e30", "TC_MACHINE: 'cores=1e30' is too large; cores is at most 2147483647"),
        ("vector_registers=1e12", "is too large; vector_registers is at most 2147483647"),
        ("last_cache_bytes=1e30", "is too large; last_cache_bytes is at most 9007199254740991"),
    ],
)
def test_machine_descriptions_are_checked(
    monkeypatch: pytest.MonkeyPatch, value: str, message: str
) -> None:
    monkeypatch.setenv("TC_MACHINE", value)
    with pytest.raises(tc.TCError, match=message):
        tc.compile("def g(float(N) A) -> (O) { O(i) = A(i) }", "g", None, torch.zeros(5))


def test_blanks_in_a_description() -> None:
    found = facts(machine=" cores = 3 ,\tthreads= 2")
    assert (found["cores"][0], found["threads"][0]) == ("3", "2")


def facts(*options: str, machine: str = "", without: str = "") -> dict[str, list[str]]:
    """By name, the columns that the command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "tensor_comprehensions", "machine", *options],
        env={**os.environ, "TC_MACHINE": machine, "TC_WITHOUT": without},
        capture_output=True,
        text=True,
        check=True,
    )
    head, *lines = (re.split(r"\s{2,}", line) for line in done.stdout.splitlines())
    assert head == [
        "fact",
        "value",
        *(["measured"] if options else []),
        "unit",
        "source",
        "meaning",
    ]
    return {name: columns for name, *columns in lines}


def test_every_fact_has_a_unit_and_a_source() -> None:
    found = facts()
    for name, (value, unit, source, meaning) in found.items():
        assert float(value) >= 0, name
        assert unit and source and meaning
    assert int(found["cores"][0]) == os.cpu_count()
    assert found["cores"][2] == "the system"
    assert found["multiply_latency"][2] == "assumed"
    # Each can be replaced, and then says so.
    others = {
        name: 1024 + 128 * k if unit == "bits" else 97 + k
        for k, (name, (_, unit, *_)) in enumerate(found.items())
    }
    replaced = facts(machine=",".join(f"{name}={value}" for name, value in others.items()))
    assert {name: float(value) for name, (value, *_) in replaced.items()} == others
    assert {source for _, _, source, _ in replaced.values()} == {"TC_MACHINE"}


@pytest.mark.parametrize(
    ("without", "bits"),
    [
        ("avx512vnni", "512"),
        (" avx512f , avx512cd", "256"),
        ("fma", "256"),
        ("avx2", "128"),
        ("sse4.1,,", "128"),
    ],
)
def test_what_builds_on_instructions_goes_with_them(without: str, bits: str) -> None:
    if facts()["vector_bits"][0] != "512":
        pytest.skip("this processor has no AVX-512")
    assert facts(without=without)["vector_bits"][0] == bits


@pytest.mark.parametrize(
    ("without", "message"),
    [
        ("avx512_vnni", "TC_WITHOUT: no instruction set is called 'avx512_vnni'; did you mean avx"),
        ("AVX", "TC_WITHOUT: no instruction set is called 'AVX'.*sse4.1, .* and avx512fp16"),
        ("avx2;fma", "TC_WITHOUT: no instruction set is called 'avx2;fma'"),
    ],
)
def test_names_of_instructions_are_checked(without: str, message: str) -> None:
    script = (
        "import torch, tensor_comprehensions as tc\n"
        "f = tc.define('def f(float(N) A) -> (B) { B(i) = A(i) }').f\n"
        "for _ in range(2):\n"
        "    try: f(torch.ones(3))\n"
        "    except tc.TCError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "TC_WITHOUT": without},
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(re.findall(message, done.stdout)) == 2, done.stdout


def test_what_was_measured_of_a_processor_is_not_of_another() -> None:
    """Whoever describes vectors describes another processor: decisions are then alike everywhere.
    What is said behind that stands."""
    described = facts(machine="vector_bits=512,vector_registers=32,cores=2,block_cycles=7")
    assert not [name for name, (_, _, source, _) in described.items() if "measured" in source]
    assert float(described["block_cycles"][0]) == 7
    assert float(described["second_cache_percent"][0]) == 72
    assert float(described["copied_vector_cycles"][0]) == 9


def test_units_of_half_a_vector_take_half_vectors_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate of a block of 8 columns of floats: half the arithmetic of one of 16 where units
    have 256 bits, and as much where they have 512. One of 12 columns is two vectors of 8."""
    text = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
    registers = "vector_bits=512,vector_registers=32,library_rate=1"
    found = {}
    for bits in (256, 512):
        monkeypatch.setenv("TC_MACHINE", f"{registers},unit_bits={bits}")
        for columns in (8, 12, 16):
            values = torch.zeros(96, 4096), torch.zeros(4096, columns)
            options = tc.MappingOptions().cluster("S0").registers(m=6, n=columns)
            explained = tc.compile(text, "f", options, *values).explain()
            (number, unit) = re.search(r"cycles: ([\d.]+) ?([kM]) arithmetic", explained).groups()
            found[bits, columns] = float(number) * {"k": 1e3, "M": 1e6}[unit]
    assert found[256, 16] == pytest.approx(2 * found[256, 8], rel=0.02)
    assert found[256, 12] == pytest.approx(found[256, 16], rel=0.02)
    assert found[512, 16] == pytest.approx(found[512, 8], rel=0.02)
    assert found[512, 12] == pytest.approx(2 * found[512, 16], rel=0.02)
    assert found[512, 16] == pytest.approx(96 * 4096 * 16 / (2 * 16) * 1.05, rel=0.02)


def test_facts_can_be_measured() -> None:
    """As far as a shared machine tells: none is off by ten times."""
    measured = {
        name: (float(value), float(found))
        for name, (value, found, *_) in facts("--measure").items()
        if re.fullmatch(r"[\d.]+", found)
    }
    assert {"multiply_latency", "loads", "line_buffers", "second_cache_percent"} <= measured.keys()
    for name, (value, found) in measured.items():
        assert 0.1 < found / value < 10, name


def test_decisions_follow_the_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four sums wait for a slow multiply-add, ten times as long for one that is ten times as slow:
    then another form is the faster one."""
    text = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
    values = torch.zeros(4, 512), torch.zeros(512, 16)
    machine = "vector_bits=512,vector_registers=32,cores=1,library_rate=1"
    explained = []
    for latency in (4, 40):
        monkeypatch.setenv("TC_MACHINE", f"{machine},multiply_latency={latency}")
        explained.append(tc.compile(text, "f", None, *values).explain())
    assert "a block of results in registers: 4 of m x 16 of n" in explained[0]
    assert re.search(r"vectors +2\.05 k  cycles along n", explained[0])
    assert "a block of results in registers: " not in explained[1]
    lost = re.search(r" ([\d.]+) k  as a block of results in registers", explained[1])
    assert float(lost[1]) == pytest.approx(512 * 40 / 1000, rel=0.1)


def test_requests_ahead_follow_the_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a row of four lines, each is asked for where none comes with another."""
    text = "def f(float(N,D) T, int32(B,L) I) -> (O) { O(b,d) +=! T(I(b,l),d) }"
    values = torch.zeros(100000, 64), torch.zeros(8, 50, dtype=torch.int32)
    requests = []
    for lines in (1, 4):
        monkeypatch.setenv(
            "TC_MACHINE", f"cache_bytes=65536,cores=1,library_rate=1,lines_of_a_request={lines}"
        )
        requests.append(tc.compile(text, "f", None, *values).text("stmt").count("prefetch"))
    assert requests[0] > requests[1] > 0


GATHERS = """def gather(float(C,W) A, int32(X) I, int32(X) J) -> (B) {
    B(c,x) = A(c, I(x)) + A(c, J(x)) where x in 0:X
}"""


@pytest.mark.parametrize(("cycles", "vector"), [(0.3, True), (4, False)])
def test_slow_gathers_are_left_to_scalar_loads(
    cycles: float, vector: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "TC_MACHINE", f"vector_bits=512,cores=2,library_rate=1,table_lane_cycles={cycles}"
    )
    a, i, j = torch.randn(64, 40), *torch.randint(0, 40, (2, 500), dtype=torch.int32)
    executor = tc.compile(GATHERS, "gather", None, a, i, j)
    assert f".vector({vector})" in str(executor.options)
    assert torch.equal(executor(a, i, j), a[:, i.long()] + a[:, j.long()])
    # What the options say holds.
    given = tc.MappingOptions("default").cluster("S0").vector(True)
    assert ".vector(True)" in str(tc.compile(GATHERS, "gather", given, a, i, j).options)
