"""Register tiles whose terms an instruction adds up: exact, printed, refused with reasons."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from machine_code import code

import tensor_comprehensions as tc

TESTS = Path(__file__).parents[1]
#: Of a processor that has the instruction, whatever the one at hand has.
MACHINE = "vector_bits=512,dot_products=2,vector_registers=32,cores=2,cache_bytes=524288"
#: How the operands of C(m,n) +=! A * B lie: those of B are indexed by k first, or by n.
LAYOUTS = {
    "mk,kn": "def f(uint8(M,K) A, int8(K,N) B) -> (C) { C(m,n) +=! int32(A(m,k)) * int32(B(k,n)) }",
    "mk,nk": "def f(uint8(M,K) A, int8(N,K) B) -> (C) { C(m,n) +=! int32(A(m,k)) * int32(B(n,k)) }",
    "km,kn": "def f(uint8(K,M) A, int8(K,N) B) -> (C) { C(m,n) +=! int32(A(k,m)) * int32(B(k,n)) }",
    "km,nk": "def f(uint8(K,M) A, int8(N,K) B) -> (C) { C(m,n) +=! int32(A(k,m)) * int32(B(n,k)) }",
}
MM, TMM = LAYOUTS["mk,kn"], LAYOUTS["mk,nk"]
#: The types of others, and of the first one's operands the other way round.
OTHERS = {
    "vpdpbusd": (torch.int8, torch.uint8),
    "vpdpbssd": (torch.int8, torch.int8),
    "vpdpbuud": (torch.uint8, torch.uint8),
    "vpdpwssd": (torch.int16, torch.int16),
}
NAMES = {torch.int8: "int8", torch.uint8: "uint8", torch.int16: "int16"}
USES = tc.MappingOptions().cluster("S0").instruction("vpdpbusd")


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", MACHINE)


def draw(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    """The ends of the type are drawn often: sums of these wrap around where anything can."""
    info = torch.iinfo(dtype)
    values = torch.randint(info.min, info.max + 1, sizes, dtype=dtype)
    ends = torch.tensor([info.min, info.max], dtype=dtype)
    chosen = ends[torch.randint(0, 2, sizes)]
    return torch.where(torch.rand(sizes) < 0.3, chosen, values)


def operands(layout: str, m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    sizes = {"m": m, "n": n, "k": k}
    a, b = (tuple(sizes[index] for index in part) for part in layout.split(","))
    return draw(torch.uint8, *a), draw(torch.int8, *b)


def expected(layout: str, a: torch.Tensor, b: torch.Tensor) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.einsum(
            f"{layout}->mn", a.numpy().astype(np.int32), b.numpy().astype(np.int32), dtype=np.int32
        )


def check(layout: str, options: tc.MappingOptions | None, m: int, n: int, k: int) -> tc.Executor:
    a, b = operands(layout, m, n, k)
    run = tc.compile(LAYOUTS[layout], "f", options, a, b)
    np.testing.assert_array_equal(run(a, b).numpy(), expected(layout, a, b), f"{m} x {n} x {k}")
    return run


def uses(run: tc.Executor, instruction: str = "vpdpbusd") -> bool:
    return f'.instruction("{instruction}")' in str(run.options)


# ---- exact


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6, 7, 8, 13, 27, 64, 70])
def test_every_tail_of_the_terms(layout: str, k: int) -> None:
    assert uses(check(layout, USES, 9, 33, k))


SIZES = [1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 47, 64, 65, 70]


@pytest.mark.sampled
@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize("n", SIZES)
def test_sizes_of_the_result(n: int, m: int) -> None:
    # Each pair in one layout, each size in all of them.
    layout = list(LAYOUTS)[(SIZES.index(m) + SIZES.index(n)) % len(LAYOUTS)]
    # Of one result nothing is a vector.
    check(layout, USES if m * n > 1 else None, m, n, 4 * ((m + n) % 5) + (m * n) % 4 + 1)


@pytest.mark.slow
def test_all_sizes() -> None:
    """Every size from 1 to 70, in one dimension after the other, beside two that are drawn."""
    generator = np.random.default_rng(0)
    for size in range(1, 71):
        sizes = [int(each) for each in generator.integers(1, 71, 3)]
        sizes[size % 3] = size
        # The compiler's own choice: it may sum the last columns in a statement of their own.
        check(list(LAYOUTS)[size % 4], None, *sizes)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_compilers_own_choice(layout: str) -> None:
    for m, n, k in ((64, 96, 130), (7, 200, 255), (150, 17, 66), (3, 64, 1024)):
        check(layout, None, m, n, k)
    run = check(layout, None, 128, 128, 200)
    assert uses(run) and "vpdpbusd adds up 4 terms of k at a time" in run.explain()


def test_strides() -> None:
    a, b = draw(torch.uint8, 40, 150)[::2, 3:], draw(torch.int8, 147, 100)[:, ::3]
    for left, right in ((a, b), (a.flip(0).clone()[1:, 1:], b[1:, 2:]), (a, b.t().clone().t())):
        run = tc.compile(MM, "f", USES, left, right)
        assert uses(run)
        np.testing.assert_array_equal(run(left, right).numpy(), expected("mk,kn", left, right))
    wide = torch.full((20, 90), 7, dtype=torch.int32)
    run = tc.compile(MM, "f", USES, a, b)
    run(a, b, outputs=(wide[:, 7:41],))
    np.testing.assert_array_equal(wide[:, 7:41].numpy(), expected("mk,kn", a, b))
    assert (wide[:, :7] == 7).all() and (wide[:, 41:] == 7).all()


def test_sums_wrap_around() -> None:
    """vpdpbusds would stay at the largest int32."""
    k = 70000
    a, b = torch.full((2, k), 255, dtype=torch.uint8), torch.full((k, 32), 127, dtype=torch.int8)
    total = 255 * 127 * k
    assert total > 2**31
    # As it is, and in parts on several threads.
    for options in (USES.__copy__().parallel(False), None):
        run = tc.compile(MM, "f", options, a, b)
        assert (run(a, b) == total - 2**32).all() and (uses(run) or options is None)


def test_the_rest_of_a_reduction_in_tiles() -> None:
    """What is left over behind whole tiles has copies of its own."""
    for layout, (size, k) in product(LAYOUTS, ((64, 131), (128, 131), (8, 7))):
        run = check(layout, USES.__copy__().tile("reduction", k=size), 20, 40, k)
        assert uses(run) and f"k={size}" in str(run.options)


@pytest.mark.parametrize("sizes", [(20, 40, 33), (64, 64, 64), (5, 7, 1), (3, 70, 2), (1, 16, 7)])
@pytest.mark.parametrize("instruction", OTHERS)
def test_other_types(instruction: str, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    left, right = OTHERS[instruction]
    text = MM.replace("uint8", NAMES[left], 1).replace("K) A, int8", f"K) A, {NAMES[right]}")
    a, b = draw(left, m, k), draw(right, k, n)
    # Along either index of the result: then another operand is the one that all lanes share.
    for order in (("m", "n"), ("n", "m")):
        options = tc.MappingOptions().cluster("S0").instruction(instruction).order(*order)
        if sizes["mn".index(order[1])] == 1:
            continue
        run = tc.compile(text, "f", options, a, b)
        np.testing.assert_array_equal(run(a, b).numpy(), expected("mk,kn", a, b))
        assert uses(run, instruction)
    own = tc.compile(text, "f", None, a, b)
    np.testing.assert_array_equal(own(a, b).numpy(), expected("mk,kn", a, b))


def test_packed_weights_are_not_copied() -> None:
    """They lie as in a register already."""
    text = """def f(uint8(M,Q,4) A, int8(Q,N,4) B) -> (C) {
        C(m,n) +=! int32(A(m,q,j)) * int32(B(q,n,j))
    }"""
    a, b = draw(torch.uint8, 33, 20, 4), draw(torch.int8, 20, 96, 4)
    run = tc.compile(text, "f", None, a, b)
    wanted = np.einsum("mqj,qnj->mn", *(x.numpy().astype(np.int32) for x in (a, b)))
    np.testing.assert_array_equal(run(a, b).numpy(), wanted)
    assert uses(run) and ".copy(None)" in str(run.options)


def test_convolutions() -> None:
    for text, image, filters, wanted in (
        # Channels last, and filters of one channel to the next side by side.
        (
            """def f(uint8(H,W,C) I, int8(R,S,K,C) F) -> (O) {
                O(x,y,k) +=! int32(I(2*x+r,2*y+s,c)) * int32(F(r,s,k,c))
            }""",
            (15, 17, 13),
            (3, 3, 37, 13),
            lambda i, f: torch.nn.functional.conv2d(
                i.permute(2, 0, 1), f.permute(2, 3, 0, 1), stride=2
            ).permute(1, 2, 0),
        ),
        (
            """def f(uint8(N,C,H,W) I, int8(K,C,R,S) F) -> (O) {
                O(n,k,h,w) +=! int32(I(n,c,h+r,w+s)) * int32(F(k,c,r,s))
            }""",
            (2, 6, 9, 40),
            (5, 6, 3, 3),
            torch.nn.functional.conv2d,
        ),
    ):
        i, f = draw(torch.uint8, *image), draw(torch.int8, *filters)
        run = tc.compile(text, "f", None, i, f)
        assert torch.equal(run(i, f), wanted(i.double(), f.double()).int()), text
        assert uses(run)


def test_what_follows_the_sum_is_in_the_tile() -> None:
    text = """def f(uint8(M,K) A, int8(K,N) B, int32(N) bias, float scale) -> (O) {
        C(m,n) +=! int32(A(m,k)) * int32(B(k,n))
        O(m,n) = int8(min(max(scale * float(C(m,n) + bias(n)), -128.0), 127.0))
    }"""
    a, b, bias = draw(torch.uint8, 50, 130), draw(torch.int8, 130, 70), draw(torch.int16, 70).int()
    run = tc.compile(text, "f", None, a, b, bias, 1e-4)
    total = expected("mk,kn", a, b) + bias.numpy()
    wanted = np.clip(np.float32(1e-4) * total.astype(np.float32), -128, 127).astype(np.int8)
    np.testing.assert_array_equal(run(a, b, bias, 1e-4).numpy(), wanted)
    assert uses(run)


# ---- plans


def test_a_plan_again() -> None:
    for m, n, k in ((100, 90, 70), (64, 64, 5000)):
        run = check("mk,kn", None, m, n, k)
        assert re.search(r"\.registers\(.*k=4\)", str(run.options))
        assert 'order=("k/4", "n", "k%4")' in str(run.options)
        again = check("mk,kn", run.options, m, n, k)
        assert again.options == run.options and code(again) == code(run)


def test_any_layout_is_right() -> None:
    """Operands that do not lie as in a register are put together of what there is."""
    a, b = operands("mk,kn", 20, 50, 30)
    plan = (
        'tc.MappingOptions().cluster("S0").order("m", "n").registers(m=3, n=32, k=4).vector(True)'
        '.instruction("vpdpbusd").points("inside")'
    )
    for copies in (
        ".copy(None)",
        '.copy("B(k, n)", statement="S0", order=(0, 1))',
        '.copy("B(k, n)", statement="S0", order=(1, 0))',
        '.copy("B(k, n)", statement="S0", order=("n/16", "k/4", "n%16", "k%4"))',
        '.copy("B(k, n)", statement="S0", order=("k/8", "n", "k%8"))',
        '.copy("B(k, n)", statement="S0", order=("k/3", "n", "k%3"))',
        '.copy("A(m, k)", statement="S0", order=("1/4", "m", "k%4"))'
        '.copy("B(k, n)", statement="S0", order=("k/4", "n", "k%4"))',
    ):
        run = tc.compile(MM, "f", eval(plan + copies), a, b)
        np.testing.assert_array_equal(run(a, b).numpy(), expected("mk,kn", a, b), copies)
        assert uses(run)


def test_terms_without_an_instruction() -> None:
    text = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
    a, b = torch.randn(20, 31), torch.randn(31, 50)
    options = tc.MappingOptions().cluster("S0").order("m", "n").registers(m=3, n=32, k=5).vector()
    run = tc.compile(text, "f", options, a, b)
    torch.testing.assert_close(run(a, b), a @ b, rtol=1e-4, atol=1e-4)
    assert "k=5" in str(run.options)


def test_no_instruction() -> None:
    run = check("mk,kn", tc.MappingOptions().cluster("S0").instruction(None), 64, 64, 64)
    assert not uses(run) and "k=" not in str(run.options)


def test_a_machine_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", MACHINE.replace("dot_products=2,", ""))
    assert not uses(check("mk,kn", None, 64, 64, 64))


def test_points_of_the_result_hold() -> None:
    options = tc.MappingOptions().cluster("S0").registers(m=5, n=16, k=4)
    run = check("mk,kn", options, 40, 50, 60)
    assert uses(run) and "registers(m=5, n=16, k=4)" in str(run.options)


def test_the_nest_says_so() -> None:
    run = check("mk,kn", USES, 40, 50, 61)
    assert run.loop_nest.count("intrinsic vpdpbusd") == 2, (
        run.loop_nest
    )  # whole blocks, and the rest


# ---- reasons

REFUSED = [
    ('registers(m=2, n=16).instruction("vpdpbusd")', "no register tile adds up terms"),
    ('registers(m=2, n=16, k=2).instruction("vpdpbusd")', "adds up 4 terms, not 2 of k"),
    ('registers(m=2, n=16, k=2).instruction("vpdpwssd")', "which computes acc"),
    ('registers(m=2, n=16, k=4).tile("reduction", k=6)', "tiles of the reduction have 6"),
    ("registers(m=2, n=16, k=4).vector(False)", "makes no vector of a shared loop"),
    ("registers(m=16, n=16, k=8)", "at most 64 of them are unrolled"),
    ('copy("B(k, n)", statement="S0", order=("k/4", "n"))', "whole or as blocks and places"),
    ('copy("B(k, n)", statement="S0", order=("k/4", "n", "k%8"))', "whole or as blocks and places"),
]


@pytest.mark.parametrize(("calls", "reason"), REFUSED)
def test_reasons(calls: str, reason: str) -> None:
    order = "" if "vector" in calls else ".vector(True)"
    options = eval(f'tc.MappingOptions().cluster("S0").order("m", "n"){order}.{calls}')
    a, b = operands("mk,kn", 32, 32, 32)
    with pytest.raises(tc.CompilationError, match=reason):
        tc.compile(MM, "f", options, a, b)


def test_more_terms_than_the_instruction_has() -> None:
    """Though they are all that the loop has."""
    options = tc.MappingOptions().cluster("S0").order("m", "n").vector(True)
    options = options.registers(m=2, n=16, k=5).instruction("vpdpbusd")
    with pytest.raises(tc.CompilationError, match="adds up 4 terms, not 5 of k"):
        tc.compile(MM, "f", options, *operands("mk,kn", 32, 32, 5))


def test_a_scan_keeps_its_order() -> None:
    text = "def f(float(N,T) A) -> (O) { O(n,t) +=! u <= t ? A(n,u) : 0 where t in 0:T }"
    options = tc.MappingOptions().cluster("S0").order("n").registers(n=8, t=4).vector(True)
    with pytest.raises(tc.CompilationError, match="whose terms may be in any order"):
        tc.compile(text, "f", options, torch.randn(8, 9))


@pytest.mark.parametrize(
    "call",
    [
        'instruction("vpdpbusds")',
        "instruction(4)",
        'copy("B(k, n)", statement="S0", order=("q/4", "n", "k%4"))',
        'copy("B(k, n)", statement="S0", order=("k/0", "n", "k%0"))',
    ],
)
def test_calls_that_mean_nothing(call: str) -> None:
    with pytest.raises(tc.TCError, match="expected"):
        eval(f'tc.MappingOptions().cluster("S0").{call}')


# ---- processors

#: What other processors lack: then code is made for a Skylake, a Haswell, a Sandy Bridge, a Penryn.
WITHOUT = [
    pytest.param("avx512vnni", marks=pytest.mark.slow),
    pytest.param("avx512f,avx512vl", marks=pytest.mark.slow),
    "avx512f,avx512vl,avx2",
    pytest.param("avx512f,avx512vl,avx2,avx", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("without", WITHOUT)
def test_processors_that_lack_it(without: str) -> None:
    """Others compute the same, over the same copies."""
    program = f"""
import sys; sys.path[:0] = {[str(TESTS), str(TESTS / "plan")]}
import test_instructions as t
for layout in t.LAYOUTS:
    for sizes in ((20, 40, 35), (9, 33, 4), (33, 7, 3), (1, 70, 66)):
        assert t.uses(t.check(layout, t.USES, *sizes))
run = t.check("mk,kn", t.USES, 40, 40, 40)
assert "vpdpbusd" not in run.assembly
for other in t.OTHERS:
    t.test_other_types(other, (20, 40, 33))
"""
    environment = {"TC_WITHOUT": without, "TC_MACHINE": MACHINE}
    run_apart(program, environment)


def run_apart(program: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
