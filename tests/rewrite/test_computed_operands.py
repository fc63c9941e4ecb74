"""Operands that are computed: once for every element where they are used often, in their copies.

Each case is compared with the interpreter, within the bounds of its roundings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from exact import integers

import tensor_comprehensions as tc
from tensor_comprehensions import reference

MACHINE = "vector_bits=512,unit_bits=512,vector_registers=32,cores=2,library_rate=1,cache_bytes={}"


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", MACHINE.format(65536))


@dataclass(frozen=True)
class Case:
    text: str
    sizes: tuple[tuple[int, ...], ...]
    dtypes: tuple[torch.dtype, ...] = ()

    def inputs(self) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        dtypes = self.dtypes or (torch.float32,) * len(self.sizes)
        return [
            (torch.rand(sizes, generator=generator) * 2 - 1).to(dtype)
            for sizes, dtype in zip(self.sizes, dtypes, strict=True)
        ]


def product(value: str, *more: str, types: tuple[str, str] = ("float", "float")) -> str:
    a, b = types
    parameters = ", ".join([f"{a}(M, K) A", f"{b}(N, K) B", *more])
    return f"def f({parameters}) -> (C) {{ C(m, n) +=! {value} }}"


SIZES = ((70, 45), (83, 45))
GROUPS = "float(N, G) z", "float(N, G) s"
WRITTEN = {
    "a function of what the vector walks": Case(product("A(m, k) * exp(B(n, k))"), SIZES),
    "a function of what rows share": Case(product("tanh(A(m, k)) * B(n, k)"), SIZES),
    "both": Case(product("exp(A(m, k)) * sin(B(n, k))"), SIZES),
    "contiguous along a result": Case(
        "def f(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * exp(B(k, n)) }",
        ((70, 45), (45, 83)),
    ),
    "of several tensors": Case(
        product("A(m, k) * sqrt(abs(B(n, k) * s(k) + t(n)))", "float(K) s", "float(N) t"),
        (*SIZES, (45,), (83,)),
    ),
    "of one index": Case(product("A(m, k) * B(n, k) * exp(s(k))", "float(K) s"), (*SIZES, (45,))),
    "a few results": Case(product("A(m, k) * exp(B(n, k))"), ((4, 45), (83, 45))),
    "light, for many": Case(product("max(A(m, k), 0) * B(n, k)"), ((33, 20), (900, 20))),
    "a choice by data": Case(
        product("(A(m, k) > 0 ? A(m, k) : 0.1 * A(m, k)) * B(n, k)"), ((33, 20), (400, 20))
    ),
    "scaled": Case(
        product("A(m, k) * (B(n, k) * s(k))", "float(K) s"), ((900, 20), (37, 20), (20,))
    ),
    "double": Case(
        product("A(m, k) * exp(B(n, k))", types=("double", "double")),
        SIZES,
        (torch.float64, torch.float64),
    ),
    "half in float": Case(
        product("float(A(m, k)) * float(B(n, k))", types=("half", "half")),
        ((330, 20), (340, 20)),
        (torch.float16, torch.float16),
    ),
    "another reduction": Case(product("A(m, k) - exp(B(n, k))").replace("+=!", "max=!"), SIZES),
    "a window": Case(
        "def f(float(N) A, float(M, K) B) -> (O) "
        "{ O(m, i) +=! exp(A(i + k)) * B(m, k) where i in 0:40, k in 0:K }",
        ((50,), (70, 5)),
    ),
    "where a table says": Case(
        "def f(float(N) A, int32(K) t, float(M, K) B) -> (O) "
        "{ O(m, i) +=! exp(A(i) * float(t(k))) * B(m, k) }",
        ((50,), (5,), (70, 5)),
        (torch.float32, torch.int32, torch.float32),
    ),
}
WRITTEN |= {
    "an index as a value": Case(product("A(m, k) * cos(B(n, 0) * k)"), SIZES),
    "terms that count": Case(product("k <= n ? A(m, k) * exp(B(n, k)) : 0"), SIZES),
    "of a distance": Case(
        product("k <= n ? A(m, k) * pow(s(0), sqrt(float(n - k))) : 0", "float(1) s").replace(
            " }", " where n in 0:N }"
        ),
        (*SIZES, (1,)),
    ),
    "inside for all terms": Case(
        "def f(float(M, K) A, float(L, K) B) -> (C) { C(m, n) +=! "
        "k <= n ? A(m, k) * exp(B(n + 3, k)) : 0 where n in 0:40, k in 0:K }",
        ((70, 45), (84, 45)),
    ),
}
WRITTEN |= {
    "with scales of groups": Case(
        product("A(m, k) * (sqrt(abs(B(n, k))) - z(n, k / 8)) * s(n, k / 8)", *GROUPS),
        (*SIZES, (83, 6), (83, 6)),
    ),
    "converted, with scales of groups": Case(
        product("A(m, k) * (B(n, k) * s(n, k / 8))", GROUPS[1], types=("float", "int8")),
        ((20, 45), (83, 45), (83, 6)),
        (torch.float32, torch.int8, torch.float32),
    ),
    "groups of a window": Case(
        "def f(float(N) A, float(M, K) B) -> (O) "
        "{ O(m, i) +=! exp(A((i + k) / 3)) * B(m, k) where i in 0:40, k in 0:K }",
        ((50,), (70, 5)),
    ),
    "rows in turn": Case(
        product("A(m, k) * exp(B(n % 7, k))").replace(" }", " where n in 0:83 }"), SIZES
    ),
}
ROTARY = """def f(float(B,S,H,D) x, float(D) f) -> (O) {{
    O(b, s, h, d) = {value} where s in 0:S
}}"""
ROTARY_SIZES = ((4, 12, 5, 16), (16,))
WRITTEN |= {
    "angles of two of four indices": Case(
        ROTARY.format(
            value="x(b, s, h, d) * cos(s * f(d)) + x(b, s, h, D - 1 - d) * sin(s * f(d))"
        ),
        ROTARY_SIZES,
    ),
    "angles of indices alone": Case(
        ROTARY.format(value="x(b, s, h, d) * f(d) * sin(0.1 * s * d)"), ROTARY_SIZES
    ),
    "rows for many": Case(
        "def f(float(M, N) A, float(N) s) -> (O) { O(m, n) = A(m, n) * tanh(s(n)) }",
        ((70, 45), (45,)),
    ),
}
LEFT = {
    "light, with scales of groups": Case(
        product("A(m, k) * (B(n, k) * s(n, k / 8))", GROUPS[1]), ((20, 45), (83, 45), (83, 6))
    ),
    "repeated rows": Case(
        product("A(m, k) * B(n / 4, k)").replace(" }", " where n in 0:332 }"), SIZES
    ),
    "groups of outer indices": Case(
        "def f(float(H, M, K) A, float(G, N, K) B, float(K) s) -> (C) "
        "{ C(h, m, n) +=! A(h, m, k) * (B(h / 4, n, k) * s(k)) }",
        ((8, 70, 45), (2, 30, 45), (45,)),
    ),
    "the same for a row": Case(
        "def f(float(M, N) A, float(M) s) -> (O) { O(m, n) = A(m, n) * tanh(s(m)) }",
        ((70, 45), (70,)),
    ),
    "rows for few": Case(
        "def f(float(M, N) A, float(N) s) -> (O) { O(m, n) = A(m, n) * tanh(s(n)) }",
        ((12, 45), (45,)),
    ),
    "few uses": Case(product("A(m, k) * exp(B(n, k))"), ((3, 45), (83, 45))),
    "few uses of rows of results": Case(
        "def f(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * exp(B(k, n)) }",
        ((12, 45), (45, 83)),
    ),
    "of all indices": Case(product("exp(A(m, k) + B(n, k))"), SIZES),
    "light": Case(product("max(A(m, k), 0) * B(n, k)"), SIZES),
    "bfloat16, whose conversion is a shift": Case(
        product("float(A(m, k)) * float(B(n, k))", types=("bfloat16", "bfloat16")),
        ((330, 20), (340, 20)),
        (torch.bfloat16, torch.bfloat16),
    ),
    "larger than everything": Case(
        "def f(float(I, K) A, float(J, K) B, float(L) s) -> (C) "
        "{ C(l) +=! exp(A(i, k) * B(j, k)) * s(l) }",
        ((300, 40), (300, 40), (5,)),
    ),
    "inside for the terms that count": Case(
        product("m + n + 3 < N ? A(m, k) * exp(B(n + 3, k)) : 0").replace(
            " }", " where m in 0:M, n in 0:N, k in 0:K }"
        ),
        SIZES,
    ),
    "light, of the terms that count": Case(
        product("k <= n ? max(A(m, k), 0) * B(n, k) : 0"), ((33, 20), (900, 20))
    ),
    "terms that data leaves out": Case(product("A(m, k) > 0 ? A(m, k) * exp(B(n, k)) : 0"), SIZES),
    "terms of another value": Case(product("k <= n ? A(m, k) * exp(B(n, k)) : 1"), SIZES),
    "not in the order of the text": Case(
        product("A(m, k) * B(n, k) * s(k)", "float(K) s").replace("+=!", "max=!"),
        ((330, 20), (37, 20), (20,)),
    ),
}


def check(case: Case) -> str:
    inputs = case.inputs()
    wanted, (bound,) = reference.error_bounds(case.text, "f", *inputs)
    assert np.isfinite(bound).all()  # infinite ones promise nothing
    # An operator would keep the kernel of another machine.
    executor = tc.compile(case.text, "f", None, *inputs)
    actual = executor(*inputs)
    assert ((actual.double() - torch.as_tensor(wanted).double()).abs().numpy() <= 2 * bound).all()
    return executor.explain()


@pytest.mark.parametrize("name", WRITTEN)
def test_once_for_every_element(name: str) -> None:
    assert ".computed" in check(WRITTEN[name])


def test_temporaries_lie_like_results() -> None:
    """Though the index that counts as a value is found behind the one that something is read at."""
    assert "f.computed(s, d) = cos(" in check(WRITTEN["angles of two of four indices"])


@pytest.mark.parametrize("name", LEFT)
def test_left_alone(name: str) -> None:
    assert ".computed" not in check(LEFT[name])


def test_a_layer_in_front_of_a_convolution() -> None:
    """Normalised, rectified and padded with zeros: one temporary holds all of it."""
    text = """def f(float(N, C, H, W) I, float(C) g, float(C) b, float(M, C, 3, 3) K) -> (O) {
      O(n, m, h, w) +=! (y >= 1 && y < H + 1 && x >= 1 && x < W + 1
                         ? max(I(n, c, y - 1, x - 1) * g(c) + b(c), 0) : 0) * K(m, c, kh, kw)
        where y = h + kh, x = w + kw, h in 0:H, w in 0:W, kh in 0:3, kw in 0:3 }"""
    i, k = integers(2, 5, 11, 13), integers(96, 5, 3, 3)
    g, b = integers(5), integers(5)
    explained = tc.compile(text, "f", None, i, g, b, k).explain()
    assert "I.padded" in explained and ".computed" not in explained
    wanted = F.conv2d(F.relu(i * g[:, None, None] + b[:, None, None]), k, padding=1)
    assert torch.equal(tc.define(text, namespace="tc_computed_layer").f(i, g, b, k), wanted)


# In copies: sizes that are whole vectors, have tails, are smaller than a vector; a cache that keeps
# the copies of the whole reduction, and one that does not.
SHAPES = ((64, 64, 64), (70, 83, 45), (21, 150, 3), (40, 5, 70), (130, 33, 257))


@pytest.mark.sampled
@pytest.mark.parametrize("cache", [4096, 65536])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", ["n, k", "k, n"])
@pytest.mark.parametrize("dtype", ["float", "double"])
def test_in_copies(
    dtype: str, order: str, shape: tuple[int, int, int], cache: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TC_MACHINE", MACHINE.format(cache))
    m, n, k = shape
    sizes = {"n, k": (n, k), "k, n": (k, n)}[order]
    text = f"""def f({dtype}(M, K) A, {dtype}({order.upper()}) B, {dtype}(K) s) -> (C) {{
      T({order}) = exp(B({order})) + s(k)
      C(m, n) +=! A(m, k) * T({order}) }}"""
    case = Case(text, ((m, k), sizes, (k,)), (getattr(torch, dtype, torch.float32),) * 3)
    explained = check(case)
    assert "prologue" in explained or (shape, cache) != ((64, 64, 64), 4096)


def prologues(text: str, *inputs: torch.Tensor) -> list[str]:
    options = tc.MappingOptions().matchLibraryCalls(False)
    explained = tc.compile(text, "f", options, *inputs).explain()
    return [line.strip() for line in explained.splitlines() if line.startswith("  prologue")]


def large(case: str, *sizes: tuple[int, ...]) -> tuple[list[str], torch.Tensor, list[torch.Tensor]]:
    inputs = Case(case, sizes).inputs()
    actual = tc.define(case, namespace=f"tc_computed_{abs(hash(case))}").f(*inputs)
    return prologues(case, *inputs), actual, inputs


def test_no_temporary_where_every_read_is_a_copy() -> None:
    text = "def f(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * exp(B(k, n)) }"
    found, actual, (a, b) = large(text, (64, 512), (512, 2048))
    assert found == ["prologue  copies compute B.computed(k, n) = exp(B(k, n))"]
    explained = tc.compile(text, "f", None, a, b).explain()
    assert "workspace none" in explained and "B.computed: never whole" in explained
    torch.testing.assert_close(actual, a @ b.exp(), rtol=1e-4, atol=1e-4)


def test_a_temporary_of_the_text_as_well() -> None:
    text = """def f(float(M, K) A, float(N, K) B, float(K) s) -> (C) {
      T(n, k) = tanh(B(n, k)) * s(k)
      C(m, n) +=! A(m, k) * T(n, k) }"""
    found, actual, (a, b, s) = large(text, (96, 512), (1024, 512), (512,))
    assert found == ["prologue  copies compute T(n, k) = tanh(B(n, k))*s(k)"]
    torch.testing.assert_close(actual, a @ (b.tanh() * s).T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("memory_rate", [1, 64])
def test_a_form_without_copies_pays_for_the_temporary(
    memory_rate: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where memory is slow, rows are the cheapest form of the product, which read each element
    once, but have no copies: that the temporary is written and read again counts, too."""
    monkeypatch.setenv(
        "TC_MACHINE",
        "vector_bits=512,unit_bits=512,vector_registers=32,cores=2,library_rate=1,"
        f"cache_bytes=1048576,memory_rate={memory_rate}",
    )
    text = "def f(float(M, K) A, float(N, K) B) -> (C) { C(m, n) +=! A(m, k) * exp(B(n, k)) }"
    found, actual, (a, b) = large(text, (32, 4096), (4096, 4096))
    assert found[0] == "prologue  copies compute B.computed(n, k) = exp(B(n, k))"
    assert [each for each in found if "cycles of all groups" in each] == found[1:]
    assert len(found[1:]) == (memory_rate == 1)
    if memory_rate == 1:
        chosen, without = (float(n) for n in re.findall(r"([\d.]+) M", found[1]))
        assert chosen < without
    torch.testing.assert_close(actual, a @ b.exp().T, rtol=1e-4, atol=1e-2)


def test_what_a_table_picks_is_put_in_order_first() -> None:
    text = """def f(float(K, M) A, float(K, N) B, int32(N) t) -> (C) {
      C(m, n) +=! A(k, m) * B(k, t(n)) }"""
    a, b = Case(text, ((256, 140), (256, 600))).inputs()
    t = torch.randperm(600, generator=torch.Generator().manual_seed(0)).int()
    assert "B.gathered" in tc.compile(text, "f", None, a, b, t).explain()
    assert not prologues(text, a, b, t)
    actual = tc.define(text, namespace="tc_computed_table").f(a, b, t)
    torch.testing.assert_close(actual, a.T @ b[:, t.long()], rtol=1e-4, atol=1e-4)


def test_the_rest_of_a_group_stays() -> None:
    text = """def f(float(M, K) A, float(K, N) B) -> (C, X) {
      T(k, n) = exp(B(k, n))
      X(k, n) = B(k, n) * 2
      C(m, n) +=! A(m, k) * T(k, n) }"""
    found, (c, x), (a, b) = large(text, (64, 512), (512, 2048))
    assert found == ["prologue  copies compute T(k, n) = exp(B(k, n))"]
    torch.testing.assert_close(c, a @ b.exp(), rtol=1e-4, atol=1e-4)
    assert torch.equal(x, b * 2)


KEPT = {
    "another reader": (
        "T(n, k) = exp(B(n, k)) C(m, n) +=! A(m, k) * T(n, k) D(n) +=! T(n, k)",
        "C, D",
    ),
    "overwritten on the way": (
        "X(n, k) = B(n, k) * 2 T(n, k) = exp(X(n, k)) X(n, k) = sin(T(n, k)) "
        "C(m, n) +=! A(m, k) * T(n, k)",
        "C, X",
    ),
    "computed from what is overwritten": (
        "X(n, k) = B(n, k) * 2 T(n, k) = exp(X(n, k)) X(n, k) = X(n, k) * 3 "
        "C(m, n) +=! A(m, k) * T(n, k)",
        "C, X",
    ),
    "a result": ("T(n, k) = exp(B(n, k)) C(m, n) +=! A(m, k) * T(n, k)", "C, T"),
    "a sum": (
        "T(n, k) +=! B(n, k) * float(q) where q in 0:3 C(m, n) +=! A(m, k) * T(n, k)",
        "C",
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_temporaries_that_are_needed(name: str) -> None:
    body, results = KEPT[name]
    text = f"def f(float(M, K) A, float(N, K) B) -> ({results}) {{ {body} }}"
    case = Case(text, ((96, 256), (512, 256)))
    a, b = case.inputs()
    assert not [line for line in prologues(text, a, b) if " T(n, k)" in line]
    actual = tc.define(text, namespace=f"tc_computed_kept_{abs(hash(name))}").f(a, b)
    c = actual if isinstance(actual, torch.Tensor) else actual[0]
    of_two = name in ("overwritten on the way", "computed from what is overwritten")
    t = b * 3 if name == "a sum" else (2 * b if of_two else b).exp()
    torch.testing.assert_close(c, a @ t.T, rtol=1e-4, atol=1e-4)
    if name == "another reader":
        torch.testing.assert_close(actual[1], t.sum(1), rtol=1e-4, atol=1e-4)
    if name == "overwritten on the way":
        torch.testing.assert_close(actual[1], t.sin(), rtol=1e-4, atol=1e-4)
    if name == "computed from what is overwritten":
        assert torch.equal(actual[1], b * 2 * 3)


@pytest.mark.parametrize("rows", [1, 16])
@pytest.mark.parametrize("along", ["weights", "results"])
def test_weights_of_four_bits(rows: int, along: str) -> None:
    """Two to a byte, with a zero and a scale for every group: floats may take eight times as much
    memory, more than twice that of the largest tensor."""
    packed = torch.randint(0, 256, (96, 128), dtype=torch.uint8)
    zeros, scales = integers(96, 8), integers(96, 8)
    a = integers(rows, 256 if along == "weights" else 96)
    level = "float((int32(q(n, k / 2)) / (k % 2 == 0 ? 1 : 16)) % 16)"
    value = f"({level} - z(n, k / 32)) * s(n, k / 32)"
    result, read = ("m, n", "m, k") if along == "weights" else ("m, k", "m, n")
    text = f"""def f(float(M, I) A, uint8(N, H) q, float(N, G) z, float(N, G) s) -> (C) {{
      C({result}) +=! A({read}) * {value} where k in 0:256 }}"""
    executor = tc.compile(text, "f", None, a, packed, zeros, scales)
    assert (".computed" in executor.explain()) == (rows > 1)
    levels = torch.stack([packed % 16, packed // 16], -1).reshape(96, 256).float()
    weights = (levels - zeros.repeat_interleave(32, 1)) * scales.repeat_interleave(32, 1)
    wanted = a @ (weights.T if along == "weights" else weights)
    assert torch.equal(executor(a, packed, zeros, scales), wanted)


def test_infinities_keep_their_meaning() -> None:
    text = product("A(m, k) * exp(B(n, k))")
    a, b = integers(70, 45), integers(83, 45)
    a[3] = 0
    b[5, 7] = float("inf")
    b[6, 7] = float("-inf")
    actual = tc.define(text, namespace="tc_computed_infinities").f(a, b)
    wanted = a @ b.exp().T
    assert torch.equal(actual[3].isnan(), wanted[3].isnan()) and actual[3, 5].isnan()
    torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-3, equal_nan=True)


def test_an_index_may_be_called_as_a_sum_of_others() -> None:
    text = """def f(float(P) A, float(J) B, float(M, K, J) W) -> (O) {
        O(m, i) +=! exp(A(i + k) * B(i_k)) * W(m, k, i_k) where i in 0:40
    }"""
    values = torch.randn(48) / 4, torch.randn(8) / 4, torch.randn(64, 9, 8)
    wanted = reference.run(text, "f", *values)
    options = tc.MappingOptions().matchLibraryCalls(False)
    found = tc.compile(text, "f", options, *values)(*values)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
