"""Operands copied into the order of use, blocks stored transposed: index orders, strides, edges.

Values are small integers, so that sums are exact in every order and results must be equal. All
tensors lie beside memory that nobody may touch (see fenced).
"""

from __future__ import annotations

import itertools
import math
import re
import subprocess
import zlib

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fenced import fenced

import tensor_comprehensions as tc

SIZES = [1, 2, 3, 5, 7, 8, 13, 15, 16, 17, 31, 33, 63, 65]
TYPES = {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
}
# Terms for which a copy of 35 rows is twice as large as what is copied at once, half of the cache.
CACHE = int(subprocess.run(["getconf", "LEVEL2_CACHE_SIZE"], capture_output=True).stdout or 0)
LONG = max(20_003, CACHE // (35 * 4))
EXTREMA = {"max=!": np.max, "min=!": np.min}


def integers(*sizes: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + math.prod(sizes))
    low = 0 if dtype == torch.uint8 else -3
    return torch.randint(low, 4, sizes, generator=generator).to(dtype)


def lay_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values with other strides, between elements that would spoil every sum."""
    spoiled = 113
    if layout == "dense":
        result = tensor
    elif layout == "transposed":
        order = tuple(reversed(range(tensor.dim())))
        result = tensor.permute(order).contiguous().permute(order)
    elif layout == "stepped":
        larger = torch.full([2 * n + 1 for n in tensor.shape], spoiled, dtype=tensor.dtype)
        result = larger[tuple(slice(1, 2 * n, 2) for n in tensor.shape)]
        result.copy_(tensor)
    elif layout == "padded":
        sizes = [*tensor.shape[:-1], tensor.shape[-1] + 3]
        result = torch.full(sizes, spoiled, dtype=tensor.dtype)[..., 2 : 2 + tensor.shape[-1]]
        result.copy_(tensor)
    else:
        raise ValueError(layout)
    return result


def product_text(equation: str, name: str, operator: str = "+=!", accumulate: bool = False) -> str:
    """A definition from einsum's notation; every operand has sizes of its own."""
    operands, left = equation.split("->")
    operands = operands.split(",")
    tensors = "ABCD"[: len(operands)]
    parameters = ", ".join(
        f"{name}({', '.join(f'{t}_{d}' for d in range(len(o)))}) {t}"
        for t, o in zip(tensors, operands, strict=True)
    )
    terms = " * ".join(f"{t}({', '.join(o)})" for t, o in zip(tensors, operands, strict=True))
    if accumulate:
        operator = operator.removesuffix("!")
    subscripts = f"({', '.join(left)})" if left else ""
    return f"def product({parameters}) -> (O) {{ O{subscripts} {operator} {terms} }}"


def reference(equation: str, *operands: torch.Tensor, operator: str = "+=!") -> torch.Tensor:
    """In double, by NumPy: the terms of all indices, then the reduction."""
    values = [x.double().numpy() for x in operands]
    if operator == "+=!":
        return torch.from_numpy(np.asarray(np.einsum(equation, *values)))
    inputs, left = equation.split("->")
    reduced = "".join(sorted(set(inputs) - set(left) - {","}))
    terms = np.einsum(f"{inputs}->{left}{reduced}", *values)
    axes = tuple(range(len(left), len(left) + len(reduced)))
    return torch.from_numpy(np.asarray(EXTREMA[operator](terms, axis=axes)))


def define(text: str) -> tc.TC:
    return tc.define(text, namespace=f"tc_promotion_{zlib.crc32(text.encode())}")


def check(text: str, expected: torch.Tensor, *inputs: torch.Tensor, at_start: bool = False) -> None:
    actual = define(text)("product", *(fenced(x, at_start) for x in inputs))
    assert actual.shape == expected.shape
    assert torch.equal(actual, expected.to(actual.dtype))


def check_product(
    equation: str, *operands: torch.Tensor, name: str = "float", operator: str = "+=!"
) -> None:
    expected = reference(equation, *operands, operator=operator)
    text = product_text(equation, name, operator)
    check(text, expected, *operands, at_start=operands[0].shape[0] % 2 == 0)


def operands_of(
    equation: str, extents: dict[str, int], dtype: torch.dtype = torch.float32
) -> list[torch.Tensor]:
    return [
        integers(*(extents[i] for i in operand), dtype=dtype, seed=k)
        for k, operand in enumerate(equation.split("->")[0].split(","))
    ]


def loop_nest(text: str, *inputs: torch.Tensor) -> str:
    return tc.compile(text, "product", None, *inputs).loop_nest


def test_operands_across_the_vector_are_copied() -> None:
    """Without copies most of this file would test nothing.

    No index is contiguous in these layouts, so that every vector has to be made.
    """
    for equation in ("mk,nk->mn", "mk,nk->nm", "bmk,bnk->bmn", "mij,nij->mn"):
        operands = operands_of(equation, dict.fromkeys("bmnkij", 33))
        operands = [lay_out(x, "stepped") for x in operands]
        nest = loop_nest(product_text(equation, "float"), *operands)
        assert re.search(r"^ *copy$", nest, re.M), equation


ORDERS = [
    "mk,kn->mn",
    "mk,nk->mn",
    "km,kn->mn",
    "km,nk->mn",
    "mk,nk->nm",
    "km,kn->nm",
    "km,nk->nm",
    "bmk,bnk->bmn",
    "kbm,nkb->mbn",
    "mbk,nbk->nmb",
    "mik,kni->nm",
    "kim,nik->mn",
    "mkb,nkb->b",
]


@pytest.mark.sampled
@pytest.mark.parametrize("equation", ORDERS)
@pytest.mark.parametrize("step", range(7))
def test_sizes_around_the_lanes(equation: str, step: int) -> None:
    """Every size for every index, in two combinations with the others."""
    for at in (2 * step, 2 * step + 1):
        extents = {
            "m": SIZES[at],
            "n": SIZES[(5 * at + 3) % len(SIZES)],
            "k": SIZES[(3 * at + 9) % len(SIZES)],
            "b": SIZES[(11 * at + 1) % 8],
            "i": SIZES[(9 * at + 2) % 5],
        }
        check_product(equation, *operands_of(equation, extents))


@pytest.mark.parametrize("columns", SIZES)
def test_every_width_with_long_sums(columns: int) -> None:
    for rows, terms in ((17, 65), (columns, 16)):
        for equation in ("mk,nk->mn", "km,nk->nm"):
            check_product(equation, *operands_of(equation, {"m": rows, "n": columns, "k": terms}))


LAYOUTS = ["dense", "transposed", "stepped", "padded"]


@pytest.mark.sampled
@pytest.mark.parametrize("layouts", list(itertools.product(LAYOUTS, LAYOUTS)), ids="-".join)
@pytest.mark.parametrize("equation", ["mk,nk->mn", "km,kn->nm", "bmk,bkn->mbn"])
def test_strides(equation: str, layouts: tuple[str, str]) -> None:
    for m, n, k, b in ((17, 33, 19, 3), (34, 15, 7, 2), (5, 64, 32, 1)):
        operands = operands_of(equation, {"m": m, "n": n, "k": k, "b": b})
        views = [lay_out(x, layout) for x, layout in zip(operands, layouts, strict=True)]
        check_product(equation, *views)


@pytest.mark.parametrize("equation", ["mk,nk->mn", "km,nk->mn", "bmk,bnk->bmn", "nmk,bnk->bmn"])
@pytest.mark.parametrize("repeated", "mnkb")
def test_elements_shared_by_indices(equation: str, repeated: str) -> None:
    """Strides of 0, as expand makes them."""
    extents = {"m": 18, "n": 35, "k": 21, "b": 2}
    operands = []
    for k, operand in enumerate(equation.split("->")[0].split(",")):
        sizes = [extents[i] for i in operand]
        own = [1 if i == repeated else extents[i] for i in operand]
        operands.append(integers(*own, seed=k).expand(sizes))
    check_product(equation, *operands)
    narrow = [x.transpose(-1, -2).contiguous().transpose(-1, -2) for x in operands]
    check_product(equation, operands[0], narrow[1])


@pytest.mark.sampled
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("accumulate", [False, True], ids=["set", "add"])
@pytest.mark.parametrize("equation", ["mk,nk->mn", "km,kn->mn", "mbk,bnk->mbn"])
def test_results_of_any_strides(equation: str, accumulate: bool, layout: str) -> None:
    """Written through transposed blocks, or first read through them; nothing else is touched."""
    for m, n, k, b in ((16, 16, 5, 2), (33, 17, 9, 1), (13, 63, 16, 3), (2, 31, 4, 5)):
        operands = operands_of(equation, {"m": m, "n": n, "k": k, "b": b})
        sum_of = reference(equation, *operands)
        start = integers(*sum_of.shape, seed=5)
        view = lay_out(start, layout)
        result = fenced(view, at_start=m % 2 == 0)
        span = 1 + sum((s - 1) * t for s, t in zip(view.shape, view.stride(), strict=True))
        before = torch.arange(span, dtype=torch.float32)
        everything = result.as_strided((span,), (1,))
        everything.copy_(before)
        result.copy_(start)
        before.as_strided(view.shape, view.stride()).copy_(sum_of + (start if accumulate else 0))
        t = define(product_text(equation, "float", accumulate=accumulate))
        t("product", *(fenced(x) for x in operands), outputs=(result,))
        assert torch.equal(everything, before)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("equation", ["mk,nk->mn", "km,nk->nm", "km,kn->mn"])
def test_types(equation: str, name: str) -> None:
    for m, n, k in ((19, 37, 23), (33, 130, 17)):
        operands = operands_of(equation, {"m": m, "n": n, "k": k}, TYPES[name])
        expected = reference(equation, *operands)
        if not TYPES[name].is_floating_point:
            expected = expected.to(torch.int64)  # to wrap around from
        check(product_text(equation, name), expected, *operands)


@pytest.mark.parametrize("name", ["float", "double", "int32", "uint8"])
@pytest.mark.parametrize("operator", EXTREMA)
def test_extrema(operator: str, name: str) -> None:
    for equation in ("mk,nk->mn", "km,nk->nm", "mkb,bnk->nbm"):
        for m, n, k, b in ((17, 35, 20, 3), (3, 67, 9, 2)):
            operands = operands_of(equation, {"m": m, "n": n, "k": k, "b": b}, TYPES[name])
            check_product(equation, *operands, name=name, operator=operator)


@pytest.mark.parametrize("name", ["float", "double", "int32", "int64"])
def test_products(name: str) -> None:
    """Powers of two up to 2 ** 28, and signs."""
    text = product_text("mk,nk->mn", name, "*=!")
    for m, n, k in ((17, 33, 14), (5, 65, 7), (40, 16, 3)):
        a = torch.tensor([-1, 1, 2])[integers(m, k).long() % 3].to(TYPES[name])
        b = torch.tensor([-1, 1, 2])[integers(n, k, seed=1).long() % 3].to(TYPES[name])
        check(text, (a.double()[:, None] * b.double()).prod(-1), a, b)


@pytest.mark.parametrize("size", [1, 5, 16, 17, 33, 65])
@pytest.mark.parametrize(
    "equation", ["ik,jk->ij", "ki,kj->ij", "ik,kj->ij", "ik,jk->ji", "bik,bjk->bij"]
)
def test_one_tensor_read_in_two_ways(equation: str, size: int) -> None:
    first, second = equation.split("->")[0].split(",")
    extents = {"i": size, "j": size, "k": size if first[-1] == second[-2] else 20, "b": 2}
    a = integers(*(extents[i] for i in first))
    head, result = product_text(equation, "float").replace("B(", "A(").split(" -> ")
    text = f"{head.split(', float(B_')[0]}) -> {result}"
    check(text, reference(equation, a, a), a)


@pytest.mark.parametrize("sizes", [(17, 33, 20), (6, 64, 9), (35, 5, 31)])
@pytest.mark.parametrize(
    "equation",
    [
        "mk,nk,k->mn",
        "mk,nk,mn->mn",
        "mk,nk,n->nm",
        "mij,ni,nj->mn",
        "ijm,ni,jn->mn",
        "mi,ij,nj->mn",
        "mk,nk,mk,kn->mn",
    ],
)
def test_three_and_more_factors(equation: str, sizes: tuple[int, ...]) -> None:
    m, n, k = sizes
    extents = {"m": m, "n": n, "k": k, "i": 7, "j": k}
    check_product(equation, *operands_of(equation, extents))


CONVOLUTION = """
def product(float(N, C, H, W) I, float(F, C, KH, KW) K) -> (O) {{
  O(n, f, h, w) +=! I(n, c, {h}, {w}) * K(f, c, kh, kw)
}}
"""


@pytest.mark.sampled
@pytest.mark.parametrize("layout", ["dense", "transposed", "last", "stepped"])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (3, 1), (1, 2), (2, 3)], ids=str)
def test_convolutions(stride: int, dilation: int, layout: str) -> None:
    text = CONVOLUTION.format(
        h=f"{stride} * h + {dilation} * kh", w=f"{stride} * w + {dilation} * kw"
    )
    for n, c, f, size, window in ((1, 3, 17, 23, 3), (2, 16, 5, 40, 2), (2, 17, 33, 14, 1)):
        image, kernel = integers(n, c, size, size + 1), integers(f, c, window, window, seed=1)
        if layout == "last":
            image = image.to(memory_format=torch.channels_last)
            kernel = kernel.to(memory_format=torch.channels_last)
        else:
            image, kernel = lay_out(image, layout), lay_out(kernel, layout)
        expected = F.conv2d(image.double(), kernel.double(), stride=stride, dilation=dilation)
        check(text, expected, image, kernel, at_start=layout == "dense")


@pytest.mark.parametrize("terms", [1, 5, 16, 40])
def test_windows_of_one_dimension(terms: int) -> None:
    text = """
    def product(float(B, T) X, float(F, K) W) -> (O) { O(b, f, t) +=! X(b, t + k) * W(f, k) }
    """
    for b, f, t in ((3, 17, 33), (1, 65, 8), (16, 2, 31)):
        x, w = integers(b, t + terms - 1), integers(f, terms, seed=1)
        expected = torch.einsum("btk,fk->bft", x.double().unfold(1, terms, 1), w.double())
        check(text, expected, x, w)
        # Positions that step over data, along the vector.
        strided = text.replace("t + k", "3 * t + k")
        x = integers(b, 3 * t + terms)
        windows = x.double().unfold(1, terms, 3)
        check(strided, torch.einsum("btk,fk->bft", windows, w.double()), x, w)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_of_a_convolution(layout: str) -> None:
    text = """
    def product(float(N, C, H, W) I, float(N, F, P, Q) G) -> (O) {
      O(f, c, kh, kw) +=! G(n, f, p, q) * I(n, c, p + kh, q + kw)
    }
    """
    for n, c, f, size, window in ((2, 5, 17, 9, 3), (1, 16, 16, 12, 5), (3, 33, 2, 7, 2)):
        image = lay_out(integers(n, c, size, size), layout)
        out = size - window + 1
        given = lay_out(integers(n, f, out, out, seed=1), layout)
        windows = image.double().unfold(2, window, 1).unfold(3, window, 1)
        expected = torch.einsum("nfpq,ncpqhw->fchw", given.double(), windows)
        check(text, expected, image, given)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_follows_a_product(layout: str) -> None:
    """Bias and activation in registers, and the next statement from there."""
    text = """
    def layer(float(M, K) A, float(N, K) B, float(N) bias, float(N, M) G) -> (C, D, E) {
      C(m, n) = bias(n)
      C(m, n) += A(m, k) * B(n, k)
      C(m, n) = max(C(m, n), 0)
      D(m, n) = C(m, n) * G(n, m)
      E(m, n) = C(m, n) > 2 ? D(m, n) : -C(m, n)
    }
    """
    for m, n, k in ((17, 33, 20), (32, 64, 15), (3, 7, 65), (50, 1, 16)):
        a, b = lay_out(integers(m, k), layout), lay_out(integers(n, k, seed=1), layout)
        bias, g = integers(n), lay_out(integers(n, m, seed=2), layout)
        c, d, e = define(text).layer(*(fenced(x) for x in (a, b, bias, g)))
        expected = F.relu(a @ b.t() + bias)
        assert torch.equal(c, expected)
        assert torch.equal(d, expected * g.t())
        assert torch.equal(e, torch.where(expected > 2, expected * g.t(), -expected))


def test_two_products_in_one_nest() -> None:
    text = """
    def two(float(M, K) A, float(N, K) B, float(N, L) C, float(M, L) D) -> (P, Q) {
      P(m, n) +=! A(m, k) * B(n, k)
      Q(m, n) +=! D(m, l) * C(n, l)
      P(m, n) = P(m, n) - Q(m, n)
    }
    """
    for m, n, k, l in ((17, 33, 20, 7), (33, 16, 3, 65), (5, 70, 8, 8)):  # noqa: E741
        a, b = integers(m, k), integers(n, k, seed=1)
        c, d = integers(n, l, seed=2), integers(m, l, seed=3)
        p, q = define(text).two(*(fenced(x) for x in (a, b, c, d)))
        assert torch.equal(q, d @ c.t())
        assert torch.equal(p, a @ b.t() - d @ c.t())


def test_statements_share_copies_of_the_same_elements() -> None:
    """Their loops have other names. What reads fewer elements, or has its copy in another order of
    dimensions, has a copy of its own; so has what passes over a tile by itself."""
    text = """
    def f(float(N, M) A, float(L) B) -> (O, P, Q, R) {
      O(i) +=! A(i, j) * B(j)
      P(r) +=! A(r, s) * A(r, s)
      Q(i) +=! A(i, j) * 2
      R(i) +=! A(i, j) * 3
    }
    """
    a, b = integers(100, 20), integers(5, seed=1)
    expected = a[:, :5] @ b, (a * a).sum(1), a.sum(1) * 2, a.sum(1) * 3
    for points, copies in (("inside", 3), ("apart", 4)):
        options = tc.MappingOptions().cluster("S0", "S1", "S2", "S3").tile("task", i=48)
        options.registers(i=16).vector(True).points(points)
        options.copy("A(i, j)", statement="S0", order=(1, 0))
        options.copy("A(r, s)", statement="S1", order=(1, 0))
        options.copy("A(i, j)", statement="S2", order=(1, 0))
        options.copy("A(i, j)", statement="S3", order=(0, 1))
        executor = tc.compile(text, "f", options, a, b)
        for actual, value in zip(executor(fenced(a), fenced(b)), expected, strict=True):
            assert torch.equal(actual, value)
        assert executor.loop_nest.count("buffer A.P") == copies
        assert str(executor.options).count(".copy(") == 4
        again = tc.compile(text, "f", executor.options, a, b)
        assert again.loop_nest == executor.loop_nest


def test_copies_that_the_compiler_chooses_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "TC_MACHINE", "vector_bits=512,vector_registers=32,cores=2,cache_bytes=524288"
    )
    text = """
    def product(float(M, K) Ar, float(M, K) Ai, float(N, K) Br, float(N, K) Bi) -> (Cr, Ci) {
      Cr(m, n) +=! Ar(m, k) * Br(n, k) - Ai(m, k) * Bi(n, k)
      Ci(m, n) +=! Ar(m, k) * Bi(n, k) + Ai(m, k) * Br(n, k)
    }
    """
    values = [integers(*sizes, seed=k) for k, sizes in enumerate([(33, 20)] * 2 + [(48, 20)] * 2)]
    expected = torch.complex(*values[:2]) @ torch.complex(*values[2:]).t()
    options = tc.MappingOptions().cluster("S0", "S1")
    executor = tc.compile(text, "product", options, *values)
    results = executor(*map(fenced, values))
    assert torch.equal(torch.complex(*results), expected)
    for tensor in ("Br", "Bi"):
        assert executor.loop_nest.count(f"buffer {tensor}.P") == 1


def test_subscripts_with_data() -> None:
    """Rows that a table names: only what the tensors hold is read."""
    text = """
    def product(float(M, K) A, float(V, K) B, int32(N) I) -> (O) {
      O(m, n) +=! A(m, k) * B(I(n), k)
    }
    """
    for m, n, k, v in ((17, 33, 20, 50), (3, 65, 16, 4)):
        a, b = integers(m, k), integers(v, k, seed=1)
        table = torch.randint(0, v, (n,), generator=torch.Generator().manual_seed(2)).int()
        check(text, a.double() @ b.double()[table.long()].t(), a, b, table)
    fixed = text.replace("int32(N) I", "int32(1) I").replace("B(I(n), k)", "B(n + I(0), k)")
    fixed = fixed.replace("k) }", "k) where n in 0:33 }").replace("k)\n", "k) where n in 0:33\n")
    a, b = integers(17, 20), integers(50, 20, seed=1)
    check(fixed, a.double() @ b.double()[11:44].t(), a, b, torch.tensor([11], dtype=torch.int32))


def copies_in_reduction_tiles(text: str, *inputs: torch.Tensor) -> bool:
    """Whether the copy is made anew in a loop around it that runs one after the other."""
    lines = [line.strip() for line in loop_nest(text, *inputs).splitlines()]
    before = lines[: lines.index("copy")] if "copy" in lines else []
    return any(line.startswith("for ") for line in before)


@pytest.mark.parametrize(
    ("equation", "sizes", "layout"),
    [
        ("mk,nk->mn", (35, 70, LONG), "dense"),
        ("mk,nk->mn", (3, 5, 100_001), "stepped"),
        ("mk,nk->mn", (17, 33, 140_003), "stepped"),
        ("mk,nk->nm", (35, 64, LONG), "stepped"),
        ("km,kn->mn", (7, 18, 120_007), "stepped"),
        ("km,nk->nm", (16, 16, 131_072), "stepped"),
        ("mk,nk,k->mn", (35, 65, LONG), "dense"),
    ],
)
def test_sums_in_tiles(equation: str, sizes: tuple[int, int, int], layout: str) -> None:
    """Copies of such operands are larger than common caches of the second level."""
    operands = operands_of(equation, dict(zip("mnk", sizes, strict=True)))
    check_product(equation, *(lay_out(x, layout) for x in operands))


def test_reduction_tiles_of_several_loops() -> None:
    """Whole inner loops, a part of the next one: also where nothing divides."""
    for i, j, k in ((7, 311, 47), (401, 3, 101), (3, 2, 20_011), (30_011, 1, 2)):
        operands = operands_of("mijk,nkij->mn", {"m": 24, "n": 65, "i": i, "j": j, "k": k})
        check_product("mijk,nkij->mn", *(lay_out(x, "stepped") for x in operands))


def test_copies_are_made_in_reduction_tiles() -> None:
    """The tests above and below would test nothing if they were made at once, or not at all."""
    for equation, sizes in (("mk,nk->mn", "mnk"), ("mijk,nkij->mn", "mnijk")):
        extents = dict(zip(sizes, (35, 70, LONG) if len(sizes) == 3 else (35, 70, 7, 311, LONG)))
        extents["k"] //= math.prod(extents[i] for i in "ij" if i in extents)
        operands = [lay_out(x, "stepped") for x in operands_of(equation, extents)]
        assert copies_in_reduction_tiles(product_text(equation, "float"), *operands), equation


def test_what_follows_a_sum_in_tiles() -> None:
    text = """
    def layer(float(M, K) A, float(N, K) B, float(N) bias) -> (C) {
      C(m, n) = bias(n)
      C(m, n) += A(m, k) * B(n, k)
      C(m, n) = max(C(m, n), 0)
    }
    """
    for m, n, k in ((35, 70, LONG), (18, 33, 70_000)):
        a, b, bias = integers(m, k), integers(n, k, seed=1), integers(n)
        c = define(text).layer(*(fenced(x) for x in (a, b, bias)))
        expected = F.relu(a.double() @ b.double().t() + bias)
        assert torch.equal(c, expected.float())


@pytest.mark.parametrize(("channels", "ahead"), [(256, True), (48, False)])
def test_copies_from_page_to_page_look_ahead(
    monkeypatch: pytest.MonkeyPatch, channels: int, ahead: bool
) -> None:
    monkeypatch.setenv(
        "TC_MACHINE", "vector_bits=512,vector_registers=32,cores=2,cache_bytes=524288"
    )
    # A copy takes some channels of one filter after the other, which lie 36 bytes x all channels
    # apart. What is on another page, a processor does not expect by itself.
    text = """
def product(float(N, F, H, W) I, float(F, C, KH, KW) K) -> (O) {
  O(n, c, h, w) +=! I(n, f, h + kh, w + kw) * K(f, c, 2 - kh, 2 - kw)
}
"""
    image, filters = integers(2, 5, 16, 16), integers(5, channels, 3, 3)
    expected = F.conv2d(image, filters.flip(2, 3).transpose(0, 1))
    check(text, expected, image, filters)
    kernel = tc.compile(text, "product", None, image, filters)
    assert "  copy  " in kernel.explain()
    assert bool(re.search(r"llvm\.prefetch.*\(void \*\)K\)", kernel.text("stmt"))) == ahead


def test_reduction_tiles_of_one_statement_beside_copies_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each copies what it reads itself, in its own loops."""
    monkeypatch.setenv("TC_MACHINE", "cores=2,cache_bytes=256,library_rate=1")
    text = """def f(float(M,K) A, float(N,K) B, float(M,N) C) -> (O) {
        O(m, n) +=! A(m, k) * B(n, k)
        O(m, n) += C(m, n)
    }"""
    a, b, c = integers(35, 50), integers(40, 50), lay_out(integers(35, 40), "transposed")
    options = tc.MappingOptions().cluster("S0", "S1").registers(m=12, n=16).vector(True)
    executor = tc.compile(text, "f", options, a, b, c)
    assert "\n  reduction " in executor.explain()
    assert torch.equal(executor(a, b, c), a @ b.T + c)


@pytest.mark.parametrize("dtype", ["float", "double", "half", "int8"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 16, 17, 23])
def test_tasks_that_do_not_divide_a_loop(dtype: str, size: int) -> None:
    """Squares are no wider than a task has columns; the last task has fewer."""
    text = f"""def f({dtype}(K,M,B) X, {dtype}(N,K) Y) -> (Z) {{
      Z(b,n,m) +=! X(k,m,b) * Y(n,k)
    }}"""
    options = tc.MappingOptions().matchLibraryCalls(False).cluster("S0")
    options = options.tile("task", b=size, m=16, n=14).registers(n=2, m=16).vector(True)
    options = options.copy("X(k, m, b)", statement="S0", order=(2, 0, 1))
    x = integers(19, 16, 23, dtype=TYPES[dtype])
    y = integers(14, 19, dtype=TYPES[dtype])
    expected = torch.einsum("kmb,nk->bnm", x.double(), y.double()).to(TYPES[dtype])
    for at_start in (False, True):
        values = fenced(x, at_start), fenced(y, at_start)
        assert torch.equal(tc.compile(text, "f", options, *values)(*values), expected)


@pytest.mark.parametrize("rows", [16, 35, 64, 129])
@pytest.mark.parametrize("columns", range(2, 10))
def test_a_few_columns_that_follow_each_other(columns: int, rows: int) -> None:
    """Rows of up to 8 elements are taken apart by whole vectors, beyond that in squares."""
    text = "def f({0}(M,C) A, {0}(N,C) B) -> (O) {{ O(m,n) +=! A(m,c) * B(n,c) }}"
    options = tc.MappingOptions().cluster("S0").registers(m=2, n=16).vector(True)
    options.copy("B(n, c)", statement="S0", order=(1, 0))
    for name in ("float", "double", "int8", "half"):
        dtype = TYPES[name]
        a, b = integers(6, columns, dtype=dtype), integers(rows, columns, dtype=dtype, seed=1)
        a, b = fenced(a), fenced(b)
        executor = tc.compile(text.format(name), "f", options, a, b)
        assert re.search(rf"copy +B: {columns} x \d+ elements", executor.explain())
        wanted = a.double() @ b.double().T
        assert torch.equal(executor(a, b).double(), wanted), name
