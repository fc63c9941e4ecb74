"""Blocks of threads: large enough whatever the sizes, with neighbours in memory side by side."""

from __future__ import annotations

import json
import math
import re

import emulated
import emulator
import numpy as np
import pytest
import torch

import tensor_comprehensions as tc

# What no pass joins into fewer dimensions, since two of them change places.
TURNED = "def f(float(A, B, C, D) X) -> (O) { O(a, b, c, d) = X(a, c, b, d) }"
PAIRS = "def f(float(A, C) X, float(B, C) Y) -> (O) { O(a, b, c) = X(a, c) * Y(b, c) }"


def launches_of(executor: tc.Executor) -> list[dict]:
    return json.loads(executor.text("launches"))["launches"]


@pytest.mark.parametrize(
    "text, sizes, least",
    [
        (TURNED, [(20, 3, 40, 3)], 192),  # trailing dimensions of 3 x 3
        (TURNED, [(64, 2, 9, 2)], 64),
        (TURNED, [(40, 1, 50, 1)], 192),
        (TURNED, [(1, 3, 3, 1)], 9),  # all there is
        (TURNED, [(6, 33, 5, 7)], 192),
        (TURNED, [(2, 2, 2, 300)], 192),
        (PAIRS, [(50, 3), (3, 3)], 192),
        (PAIRS, [(1, 300), (1, 300)], 256),
        (PAIRS, [(300, 1), (1, 1)], 256),
    ],
)
def test_blocks_have_many_threads(text: str, sizes: list[tuple[int, ...]], least: int) -> None:
    inputs = tuple(torch.randn(s) for s in sizes)
    executor = tc.compile(text, "f", None, *inputs, target="cuda:sm_90")
    (launch,) = launches_of(executor)
    assert least <= math.prod(launch["block"]) <= 1024
    assert launch["block"][2] <= 64
    counts: list = []
    outputs = emulated.make_outputs(executor, inputs)
    emulated.run(executor, inputs, outputs, initial=0, counts=counts)
    x = inputs[0]
    wanted = x.transpose(1, 2) if len(inputs) == 1 else x[:, None] * inputs[1][None]
    assert torch.equal(outputs[0], wanted)
    assert counts[0].threads <= 2 * outputs[0].numel() + 1024  # most have something to do


def test_lanes_are_full_and_side_by_side() -> None:
    """3 x 3 in the last dimensions: 27 of 28 threads of a warp's stores are neighbours."""
    x = torch.randn(20, 3, 40, 3)
    executor = tc.compile(TURNED, "f", None, x, target="cuda:sm_90")
    counts: list = []
    outputs = emulated.make_outputs(executor, (x,))
    emulated.run(executor, (x,), outputs, initial=0, counts=counts)
    # A load and a store for 32 elements, which take 4 sectors where they lie side by side.
    assert counts[0].global_requests <= 2 * 1.3 * x.numel() / 32
    assert counts[0].sectors_per_request < 8


def test_options_of_the_user_stand() -> None:
    x = torch.randn(20, 3, 40, 3)
    options = tc.MappingOptions("naive").tile(4, 2, 2, 2).mapToThreads(2, 2, 2).mapToBlocks(5)
    executor = tc.compile(TURNED, "f", options, x, target="cuda:sm_90")
    (launch,) = launches_of(executor)
    assert launch["block"] == [2, 2, 2] and launch["grid"] == [5, 1, 1]
    outputs = emulated.make_outputs(executor, (x,))
    emulated.run(executor, (x,), outputs, initial=0)
    assert torch.equal(outputs[0], x.transpose(1, 2))


def test_what_no_vector_can_do_has_no_figure() -> None:
    """Lanes of a scatter meet in one place, which would be infinitely many cycles on a CPU."""
    text = "def f(float(N, D) A, int32(N) I) -> (float(7, D) S) { S(I(i), d) +=! A(i, d) }"
    inputs = torch.randn(40, 9), torch.zeros(40, dtype=torch.int32)
    explained = tc.compile(text, "f", None, *inputs, target="cuda:sm_90").explain()
    assert "28 of i on y" in explained and "inf" not in explained


def test_skewed_loops_have_bounds() -> None:
    """An owner of results takes those terms of a sum whose places are its own: loops over sums of
    indices, in blocks and tiles, whose bounds speak of each other."""
    text = """def f(float(I, J) A, float(P, I) B) -> (float(P, I) T) {
        T(p, i) = B(p, i)
        T(j + i + 4, i) += A(i, j)
    }"""
    a = torch.arange(300.0 * 130).reshape(300, 130) % 17
    b = torch.arange(433.0 * 300).reshape(433, 300) % 13
    options = tc.MappingOptions("naive").tile(4, 16)
    torch.use_deterministic_algorithms(True)
    try:
        executor = tc.compile(text, "f", options, a, b, target="cuda:sm_90")
    finally:
        torch.use_deterministic_algorithms(False)
    outputs = emulated.make_outputs(executor, (a, b))
    emulated.run(executor, (a, b), outputs, initial=0)
    wanted = b.clone()
    for i in range(300):
        wanted[i + 4 : i + 134, i] += a[i]
    assert torch.equal(outputs[0], wanted)


PRODUCT = "def f(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
PROLOGUE = """def f(float(M, K) A, float(N, K) B) -> (C) {
  T(n, k) = exp(B(n, k))
  C(m, n) +=! A(m, k) * T(n, k)
}"""


@pytest.mark.parametrize("text", [PRODUCT, PROLOGUE], ids=["product", "prologue"])
@pytest.mark.parametrize("parallel", [True, False])
def test_what_a_plan_says_of_a_processor_is_not_of_a_gpu(
    text: str, parallel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vectors, registers and copies stay behind; a statement that copies compute has loops."""
    monkeypatch.setenv("TC_MACHINE", "vector_bits=512,vector_registers=32,library_rate=1")
    a = torch.randn(96, 80)
    b = torch.randn(80, 70) if text is PRODUCT else torch.randn(70, 80)
    plan = str(tc.compile(text, "f", None, a, b).options)
    if not parallel:
        plan = plan.replace("parallel(True)", "parallel(False)")
    options = eval(plan, {"tc": tc})
    run = tc.compile(text, "f", options, a, b, target="cuda:sm_90")
    outputs = emulated.make_outputs(run, (a, b))
    emulated.run(run, (a, b), outputs)
    wanted = a @ b if text is PRODUCT else a @ b.exp().T
    torch.testing.assert_close(outputs[0], wanted, rtol=1e-4, atol=1e-3)


MOST = 2**31 - 1


@pytest.mark.parametrize(
    "size, tile, threads, blocks",
    [
        (MOST, 1, 1, 1000),  # rounds over blocks
        (MOST, MOST, 100, 1000),  # rounds over threads
        (MOST, 1000, 1000, 2**22),  # the last tile ends outside
        (MOST - 500, 1000, 300, 2**22),
        (MOST, 2**30, 100, 7),
        (MOST - 1024, 1000, 1000, 2**22),
    ],
)
def test_indices_near_the_end_of_32_bits(size: int, tile: int, threads: int, blocks: int) -> None:
    """Threads past the end of the result, whose indices 32 bits do not hold, store nothing."""
    x = torch.zeros(1, dtype=torch.int8).expand(size)
    options = tc.MappingOptions("naive").tile(tile).mapToThreads(threads).mapToBlocks(blocks)
    text = "def f(int8(A) X) -> (O) { O(a) = X(a) }"
    executor = tc.compile(text, "f", options, x, target="cuda:sm_90")
    (launch,) = launches_of(executor)
    # The last blocks in their last rounds, counting what they would store, by place: inside, the
    # last one, outside.
    first = max(0, launch["grid"][0] - 1000 // threads)
    counter = rf"((\1) < 0 || (\1) >= {size} ? 2 : (\1) == {size - 1})"
    source = re.sub(r"O\[(.*)\] = X\[0\];", rf"atomicAdd(&O[{counter}], 1);", executor.cuda_source)
    source = source.replace("signed char* O, const signed char* X", "int* O")
    source = source.replace("= blockIdx.x;", f"= {first} + blockIdx.x;")
    source = re.sub(
        r"(\w+_round) = 0; \1 < (\d+);",
        lambda m: f"{m[1]} = {max(int(m[2]) - 9, 0)}; {m[1]} < {m[2]};",
        source,
    )
    stores = np.zeros(3, np.int32)
    emulator.compile(source).launch("tc_f_0", launch["grid"][0] - first, launch["block"], [stores])
    assert stores[0] > 0 and stores.tolist()[1:] == [1, 0]


def test_serial_tasks_of_a_plan_are_blocks() -> None:
    """On the CPU, `.parallel(False)` only says that tasks are not worth threads."""
    a, b = torch.randn(16, 16), torch.randn(16, 16)
    options = tc.compile(PRODUCT, "f", tc.MappingOptions().libraryCalls(None), a, b).options
    assert ".parallel(False)" in str(options)
    for given in (options, tc.MappingOptions().cluster("S0").parallel(False)):
        (launch,) = launches_of(tc.compile(PRODUCT, "f", given, a, b, target="cuda:sm_90"))
        assert math.prod(launch["grid"]) * math.prod(launch["block"]) >= a.numel()


SOFTMAX = """def f(float(N, K) A) -> (O) {
  m(n) max=! A(n, k)
  s(n) +=! exp(A(n, k) - m(n))
  O(n, k) = exp(A(n, k) - m(n)) / s(n)
}"""
TWO_PRODUCTS = """def f(float(B, N, N) A, float(B, N, N) W) -> (T, O) {
  T(b, i, j) +=! A(b, i, k) * W(b, k, j)
  O(b, i, j) +=! T(b, j, k) * W(b, k, i)
}"""


@pytest.mark.parametrize(
    "text, inputs",
    [
        ("def f(float(N) A, float(N) B) -> (O) { O +=! A(i) * B(i) }", [(500,), (500,)]),
        (SOFTMAX, [(300, 512)]),
        (
            "def f(float(N, D) G, int32(N) I) -> (float(10, D) T) { T(I(n), d) +=! G(n, d) }",
            [(50, 7), (50,)],
        ),
        (
            "def f(float(N, K) A) -> (O, P) { O(n) +=! A(n, k) P(n) = O(n) * 2 }",
            [(300, 512)],
        ),
        (TWO_PRODUCTS, [(3, 20, 20)] * 2),
    ],
    ids=["dot", "softmax", "scatter", "rows", "inside"],
)
def test_plans_of_a_processor_for_loops_that_a_gpu_has_not(text: str, inputs: list) -> None:
    values = [torch.randn(shape) for shape in inputs]
    if "int32" in text:
        values[1] = torch.randint(0, 10, (50,), dtype=torch.int32)
    options = tc.MappingOptions().libraryCalls(None)
    options = tc.compile(text, "f", options, *values).options
    if text is TWO_PRODUCTS:
        given = str(options).replace(".inside()", '.inside("b")')
        options = tc.MappingOptions.parse(given)
    run = tc.compile(text, "f", options, *values, target="cuda:sm_90")
    assert "a whole Plan for other loops than these" in run.explain()
    outputs = emulated.make_outputs(run, tuple(values))
    emulated.run(run, tuple(values), outputs)
    own = tc.compile(text, "f", None, *values)(*values)
    for mine, other in zip(outputs, own if isinstance(own, tuple) else (own,), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-3)
    again = tc.compile(text, "f", run.options, *values, target="cuda:sm_90")
    assert again.cuda_source == run.cuda_source
    # Loops are shared where they can be, so that no thread does all of it.
    whole = tc.compile(text, "f", None, *values, target="cuda:sm_90")
    threads = [sum(math.prod(s["grid"]) for s in launches_of(each)) for each in (run, whole)]
    assert threads[0] * 16 >= threads[1]


def test_plans_of_a_gpu_for_loops_that_a_processor_has_not() -> None:
    x = torch.randn(300, 512)
    options = tc.compile(SOFTMAX, "f", None, x, target="cuda:sm_90").options
    with pytest.raises(tc.CompilationError, match="share the loops n; a whole Plan is of the targ"):
        tc.compile(SOFTMAX, "f", options, x)
