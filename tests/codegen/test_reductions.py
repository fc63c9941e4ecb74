"""Reductions along the vector: lengths around whole vectors, every type, one result or many."""

from __future__ import annotations

import math
from pathlib import Path

import emulated
import pytest
import torch
import torch.nn.functional as F
from fenced import fenced

import tensor_comprehensions as tc
from tensor_comprehensions._define import parse

LENGTHS = [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 33, 47, 64, 65, 127, 128, 129, 143, 255, 300]
TYPES = {
    "uint8": torch.uint8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "float": torch.float32,
    "double": torch.float64,
}


def integers(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Sums of small integers are exact in every order, so results must be equal."""
    return torch.randint(-3 if dtype.is_signed else 0, 4, sizes).to(dtype)


def define(text: str) -> tc.TC:
    return tc.define(text, namespace="tc_reductions")


@pytest.mark.parametrize("length", LENGTHS)
def test_lengths(length: int) -> None:
    t = define("""
    def rows(float(M, K) A, float(M, K) B) -> (S, P, L, H) {
      S(m) +=! A(m, k)
      P(m) *=! B(m, k)
      L(m) min=! A(m, k)
      H(m) max=! A(m, k)
    }
    def dot(float(K) x, float(K) y) -> (s) { s +=! x(k) * y(k) }
    """)
    a = integers(5, length)
    signs = 1 - 2 * torch.randint(0, 2, a.shape).float()
    signs[:, length // 2] *= 3
    total, product, low, high = t.rows(a, signs)
    assert torch.equal(total, a.sum(1))
    assert torch.equal(product, signs.prod(1))
    assert torch.equal(low, a.amin(1))
    assert torch.equal(high, a.amax(1))
    assert t.dot(a[0], a[1]) == a[0] @ a[1]


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("name", ["float", "double", "int32", "int16"])
@pytest.mark.parametrize("length", [1, 2, 3, 5, 7, 8, 9, 13, 16, 21, 28, 31])
def test_vectors_end_where_rows_do(
    length: int, name: str, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lanes behind a row load nothing, and add nothing: not what stands there, nor 0 times
    infinity."""
    monkeypatch.setenv("TC_MACHINE", f"vector_bits={bits}")
    t = define(f"""
    def windows({name}(M, K) A, {name}(M, K) B, {name}(M) w) -> (D, S, W, L, H) {{
      D(m) +=! A(m, k) * B(m, k)
      S(m) +=! A(m, k)
      W(m) +=! A(m, k) * w(m)
      L(m) min=! A(m, k)
      H(m) max=! A(m, k) - B(m, k)
    }}""")
    dtype = TYPES[name]
    a, b = (fenced(integers(6, length, dtype=dtype)) for _ in range(2))
    w = integers(6, dtype=dtype)
    if dtype.is_floating_point:
        a, w = fenced(a.abs() + 1), w.clone()
        a[1, 0], w[2], w[3] = math.inf, math.inf, math.nan
    product, total, weighted, low, high = t.windows(a, b, w)
    same = {"rtol": 0, "atol": 0, "equal_nan": True, "check_dtype": False}
    torch.testing.assert_close(product, (a * b).sum(1), **same)
    torch.testing.assert_close(total, a.sum(1), **same)
    torch.testing.assert_close(weighted, (a * w[:, None]).sum(1), **same)
    torch.testing.assert_close(low, a.amin(1), **same)
    torch.testing.assert_close(high, (a - b).amax(1), **same)


@pytest.mark.parametrize("length", [7, 14, 28])
def test_ends_of_rows_are_multiplied_and_added_in_one_instruction(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums over rows of 7 took two vectors of 4, the second of which was multiplied, chosen from
    and added."""
    monkeypatch.setenv("TC_MACHINE", "vector_bits=512,vector_registers=32")
    text = """def f(float(N,C,H,W) D, float(N,C,P,Q) X) -> (K) {
      K(c,kh,kw) +=! D(n,c,h,w) * X(n,c,h+kh,w+kw) where kh in 0:3, kw in 0:3
    }"""
    d, x = integers(3, 5, length, length), fenced(integers(3, 5, length + 2, length + 2))
    executor = tc.compile(text, "f", None, d, x)
    assert "form      rows" in executor.explain()
    if "fma" in Path("/proc/cpuinfo").read_text():
        assert "vfmadd" in executor.assembly and "vmulps" not in executor.assembly
    expected = F.conv2d(x.transpose(0, 1), d.transpose(0, 1), groups=1)
    expected = torch.stack([expected[c, c] for c in range(5)])
    assert torch.equal(executor(d, x), expected)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("length", [3, 19, 64, 131])
def test_types(name: str, length: int) -> None:
    dtype = TYPES[name]
    t = tc.define(
        f"def typed({name}(M, K) A) -> (S, L, H) {{"
        " S(m) +=! A(m, k)  L(m) min=! A(m, k)  H(m) max=! A(m, k) }",
        namespace=f"tc_reductions_{name}",
    )
    a = integers(4, length, dtype=dtype)
    total, low, high = t.typed(a)
    assert torch.equal(total, a.double().sum(1).to(dtype))
    assert torch.equal(low, a.amin(1))
    assert torch.equal(high, a.amax(1))


@pytest.mark.parametrize("length", [2, 17, 70])
def test_truth(length: int) -> None:
    text = """def truth(bool(M, K) A) -> (E, O) {
      E(m) min=! A(m, k)
      O(m) max=! A(m, k)
    }"""
    t = define(text)
    a = torch.rand(40, length) < torch.linspace(0, 1, 40)[:, None]
    every, some = t.truth(a)
    assert torch.equal(every, a.all(1))
    assert torch.equal(some, a.any(1))


@pytest.mark.parametrize("length", [*LENGTHS, 256, 2048, 4000])
def test_sums_and_products_of_truth_values(length: int) -> None:
    """Sums and maxima say whether one of them holds, products and minima whether all do."""
    t = define("""def of_truth(bool(M, K) A) -> (S, P, L, H) {
      S(m) +=! A(m, k)
      P(m) *=! A(m, k)
      L(m) min=! A(m, k)
      H(m) max=! A(m, k)
    }""")
    a = torch.zeros(4, length, dtype=torch.bool)
    a[1, length // 2] = True
    a[2] = True
    a[3] = ~a[1]
    for given in (a, a.t().contiguous().t()):
        some, every, low, high = t.of_truth(given)
        assert torch.equal(some, a.any(1)) and torch.equal(high, some)
        assert torch.equal(every, a.all(1)) and torch.equal(low, every)


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("types", [("uint8", "int8"), ("int8", "uint8"), ("int8", "int8")])
def test_sums_of_products_of_bytes(
    types: tuple[str, str], bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM has a rule of its own for them where a processor has vpdpbusd."""
    monkeypatch.setenv("TC_MACHINE", f"vector_bits={bits},vector_registers=32,library_rate=1")
    first, second = types
    text = f"def dot({first}(N) A, {second}(N) B) -> (C) {{ C +=! int32(A(n)) * int32(B(n)) }}"
    for length in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 64, 100):
        a, b = (
            torch.randint(0, 256, (length,)).to(getattr(torch, name)).contiguous() for name in types
        )
        wanted = (a.long() * b.long()).sum()
        for options in (None, "naive") if length % 8 == 0 else (None,):
            executor = tc.compile(text, "dot", options, a, b)
            assert executor(a, b) == wanted, f"{length} with {options}"


LOGICAL = """
def rows(float(M, K) A) -> (E, S) {
  E(m) &&=! A(m, k) > -1
  S(m) ||=! A(m, k) > 1
}
def columns(bool(M, K) A, bool(K) p, bool(K) q) -> (E, S) {
  E(k) = p(k)
  E(k) &&= A(m, k)
  S(k) = q(k)
  S(k) ||= A(m, k)
}
def into(bool(M, K) A) -> (E, S) {
  E(m) &&= A(m, k)
  S(m) ||= A(m, k)
}
def whole(float(M, K) A) -> (s) { s ||=! isnan(A(m, k)) }
def every(bool(N) A, bool(N) B) -> (C) { C(n) &&=! A(n) || B(n) }
"""


@pytest.mark.parametrize("length", [1, 2, 16, 17, 70, 300])
def test_logical(length: int) -> None:
    t = define(LOGICAL)
    a = torch.randn(40, length)
    every, some = t.rows(a)
    assert every.dtype == some.dtype == torch.bool
    assert torch.equal(every, (a > -1).all(1))
    assert torch.equal(some, (a > 1).any(1))
    truth = torch.rand(7, length) < torch.linspace(0, 1, length)
    p, q = torch.rand(2, length) < 0.5
    every, some = t.columns(truth, p, q)
    assert torch.equal(every, p & truth.all(0))
    assert torch.equal(some, q | truth.any(0))
    p, q = torch.rand(2, 7) < 0.5
    outputs = p.clone(), q.clone()
    t.into(truth, outputs=outputs)
    assert torch.equal(outputs[0], p & truth.all(1))
    assert torch.equal(outputs[1], q | truth.any(1))
    assert not t.whole(a)
    a[-1, -1] = math.nan
    assert t.whole(a)
    assert torch.equal(t.every(truth[0], truth[1]), truth[0] | truth[1])


def test_logical_over_nothing() -> None:
    every, some = define(LOGICAL).rows(torch.empty(3, 0))
    assert every.all() and not some.any()


def test_logical_on_many_rows() -> None:
    t = define("def long(float(N) x) -> (E, S) { E &&=! x(n) > 0  S ||=! x(n) < 0 }")
    x = torch.rand(300_001) + 0.1
    assert [bool(r) for r in t.long(x)] == [True, False]
    x[200_000] = -1
    assert [bool(r) for r in t.long(x)] == [False, True]


@pytest.mark.parametrize("options", [None, "naive"])
def test_logical_cuda(options: str | None) -> None:
    a = torch.randn(20, 70)
    executor = tc.compile(LOGICAL, "rows", options, a, target="cuda:sm_90")
    every, some = torch.zeros(20, dtype=torch.bool), torch.zeros(20, dtype=torch.bool)
    emulated.run(executor, (a,), (every, some), initial=0)
    assert torch.equal(every, (a > -1).all(1))
    assert torch.equal(some, (a > 1).any(1))


def test_logical_as_written() -> None:
    for op in ("&&=", "&&=!", "||=", "||=!"):
        text = f"def f(bool(M, K) A) -> (E) {{ E(m) {op} A(m, k) }}"
        (definition,) = parse(text).definitions
        assert f"E(m) {op} A(m, k)" in definition.text
        assert parse(definition.text).definitions[0].text == definition.text
        explained = tc.compile(text, "f", None, torch.ones(30, 40, dtype=torch.bool)).explain()
        assert f"E(m) {op} A(m, k)" in explained


@pytest.mark.parametrize("length", [1, 9, 16, 70, 300])
def test_accumulates_into_what_is_there(length: int) -> None:
    t = define("""
    def more(float(M, K) A) -> (S, H) {
      S(m) += A(m, k)
      H(m) max= A(m, k)
    }
    """)
    a, s, h = integers(4, length), integers(4), integers(4)
    total, high = s.clone(), h.clone()
    t.more(a, outputs=(total, high))
    assert torch.equal(total, s + a.sum(1))
    assert torch.equal(high, torch.maximum(h, a.amax(1)))


@pytest.mark.parametrize("length", [5, 16, 40, 150])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none(length: int, value: float) -> None:
    """In every lane of every vector, the overlapping last one included."""
    t = define("""
    def special(float(M, K) A) -> (S, L, H) {
      S(m) +=! A(m, k)
      L(m) min=! A(m, k)
      H(m) max=! A(m, k)
    }
    """)
    a = integers(length, length)
    a.fill_diagonal_(value)
    total, low, high = t.special(a)
    torch.testing.assert_close(total, a.sum(1), equal_nan=True, rtol=0, atol=0)
    torch.testing.assert_close(low, a.amin(1), equal_nan=True, rtol=0, atol=0)
    torch.testing.assert_close(high, a.amax(1), equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("length", [4, 21, 64, 100])
def test_conditions(length: int) -> None:
    """Lanes that a condition leaves out neither count nor read."""
    t = define("""
    def masked(float(M, K) A, int32(M) N) -> (S, D) {
      S(m) +=! k < N(m) ? A(m, k) : 0 where k in 0:K
      D(m) +=! k > 0 ? A(m, k) - A(m, k - 1) : 0 where k in 0:K
    }
    """)
    a, n = integers(9, length), torch.randint(0, length + 1, (9,), dtype=torch.int32)
    kept = torch.arange(length) < n[:, None]
    total, differences = t.masked(a, n)
    assert torch.equal(total, (a * kept).sum(1))
    assert torch.equal(differences, a[:, -1] - a[:, 0])


@pytest.mark.parametrize("sizes", [(2, 3, 5), (3, 4, 16), (2, 7, 33), (1, 16, 1)])
def test_several_reduction_indices(sizes: tuple[int, int, int]) -> None:
    """Loops that walk on in memory become one; those that do not keep their partial results."""
    t = define("""
    def nested(float(M, I, J, K) A, float(I) w) -> (S, W, T) {
      S(m) +=! A(m, i, j, k)
      W(m) +=! A(m, i, j, k) * w(i)
      T(m, j) +=! A(m, i, j, k)
    }
    """)
    a, w = integers(5, *sizes), integers(sizes[0])
    total, weighted, kept = t.nested(a, w)
    assert torch.equal(total, a.sum((1, 2, 3)))
    assert torch.equal(weighted, torch.einsum("mijk,i->m", a, w))
    assert torch.equal(kept, a.sum((1, 3)))


@pytest.mark.sampled
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 13, 26])
@pytest.mark.parametrize("columns", [1, 2, 4, 7, 12, 29])
def test_blocks_of_rows(rows: int, columns: int) -> None:
    """Rows that share loads, and those left over, at every remainder."""
    t = define("""
    def vector(float(M, K) A, float(K) x) -> (y) { y(m) +=! A(m, k) * x(k) }
    def transposed(float(M, K) A, float(N, K) B, float(N) b) -> (C) {
      C(m, n) = b(n)
      C(m, n) += A(m, k) * B(n, k)
      C(m, n) = max(C(m, n), 0)
    }
    def batched(float(P, M, K) A, float(P, N, K) B) -> (C) {
      C(p, m, n) +=! A(p, m, k) * B(p, n, k)
    }
    """)
    for length in (17, 40, 128):
        a, b, bias = integers(rows, length), integers(columns, length), integers(columns)
        assert torch.equal(t.vector(a, b[0]), a @ b[0])
        assert torch.equal(t.transposed(a, b, bias), F.relu(a @ b.t() + bias))
        a, b = integers(3, rows, length), integers(3, columns, length)
        assert torch.equal(t.batched(a, b), a @ b.transpose(1, 2))


@pytest.mark.parametrize("name", ["float", "double", "int32"])
@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_few_rows_of_few_terms(columns: int, name: str) -> None:
    """Of 2 x 2, whose copy is turned in registers, single lanes are named halves by Halide."""
    t = define(f"""
    def squares{columns}({name}(M, {columns}) A) -> (S, O) {{
      S(m) +=! A(m, k) * A(m, k)
      O(m, k) = A(m, k) * S(m)
    }}""")
    for rows in (1, 2, 3, 4):
        a = integers(rows, columns, dtype=TYPES[name])
        total, scaled = t(f"squares{columns}", a)
        wanted = (a * a).sum(1, dtype=a.dtype)
        assert torch.equal(total, wanted)
        assert torch.equal(scaled, a * wanted[:, None])


def test_strided_and_reversed() -> None:
    t = define("def row_sums(float(M, K) A) -> (S) { S(m) +=! A(m, k) }")
    base = integers(40, 90)
    for a in (base.t(), base[:, ::3], base[::2, 1:80], base[3:4]):
        assert torch.equal(t.row_sums(a), a.sum(1))
    t = define("def backwards(float(K) x, float(K) y) -> (s) { s +=! x(k) * y(K - 1 - k) }")
    x, y = integers(77), integers(77)
    assert t.backwards(x, y) == x @ y.flip(0)


def test_indirect() -> None:
    t = define("def picked(float(N) X, int32(M, K) I) -> (S) { S(m) +=! X(I(m, k)) }")
    x, i = integers(50), torch.randint(0, 50, (6, 37), dtype=torch.int32)
    assert torch.equal(t.picked(x, i), x[i.long()].sum(1))


def test_naive_options() -> None:
    """Explicit tile sizes tile the rows."""
    t = tc.define(
        "def tiled(float(M, N, K) A) -> (S, O) { S(m, n) +=! A(m, n, k)  O(m, n) = 2 * S(m, n) }",
        tc.MappingOptions("naive").tile(3, 4, 5),
        namespace="tc_reductions_naive",
    )
    a = integers(7, 9, 50)
    total, twice = t.tiled(a)
    assert torch.equal(total, a.sum(2))
    assert torch.equal(twice, 2 * a.sum(2))


@pytest.mark.skipif(
    "avx2" not in torch.backends.cpu.get_cpu_capability().lower()
    and "avx512" not in torch.backends.cpu.get_cpu_capability().lower(),
    reason="needs a processor with FMA",
)
def test_products_are_fused_into_sums() -> None:
    text = "def dot(float(K) x, float(K) y) -> (s) { s +=! x(k) * y(k) }"
    x = torch.randn(1 << 14)
    assembly = tc.compile(text, "dot", "default", x, x).assembly
    fused = [line for line in assembly.splitlines() if "vfmadd" in line and "mm" in line]
    registers = {line.split(",")[-1].split("#")[0].strip() for line in fused}
    assert len(registers) >= 8, fused  # as many sums as hide the latency


# ---- parts


@pytest.mark.parametrize("length", [100_000, 262_144, 1_000_003])
def test_long_reductions(length: int) -> None:
    t = define("""
    def long(float(M, K) A) -> (S, Q, H) {
      S(m) +=! A(m, k)
      Q(m) +=! A(m, k) * A(m, k)
      H(m) max=! A(m, k)
    }
    def total(float(K) x) -> (s) { s +=! x(k) }
    def columns(float(K, N) A) -> (S) { S(n) +=! A(k, n) }
    """)
    a = integers(3, length)
    total, squares, high = t.long(a)
    assert torch.equal(total, a.sum(1))
    assert torch.equal(squares, (a * a).sum(1))
    assert torch.equal(high, a.amax(1))
    assert t.total(a[1]) == a[1].sum()
    assert torch.equal(t.columns(a.t().contiguous()), a.sum(1))


def test_parts_do_not_depend_on_threads() -> None:
    text = "def sums(float(K) x, float(K) y) -> (s, q) { s +=! x(k) * y(k)  q +=! x(k) * x(k) }"
    t = define(text)
    x, y = torch.randn(1_234_567), torch.randn(1_234_567)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(torch.stack(t.sums(x, y)))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])
    wanted = torch.stack([x.double() @ y.double(), x.double() @ x.double()])
    torch.testing.assert_close(results[0].double(), wanted, rtol=1e-5, atol=1e-2)
    nest = tc.compile(text, "sums", "default", x, y).loop_nest
    assert nest.count("parallel") == 1, nest  # both in one loop over the parts
    single = tc.compile(text, "sums", tc.MappingOptions("single_thread"), x, y).loop_nest
    assert "parallel" not in single


def test_parts_accumulate() -> None:
    t = define("def more_of_one(float(K) x) -> (s) { s += x(k) }")
    x, s = integers(400_001), torch.tensor(5.0)
    t.more_of_one(x, outputs=(s,))
    assert s == 5 + x.sum()


def test_parts_of_a_reduction_that_feeds_another() -> None:
    t = define("""
    def deviations(float(K) x) -> (s, q) {
      s +=! x(k)
      q +=! (x(k) - s) * (x(k) - s)
    }
    """)
    x = torch.zeros(300_000)
    x[::1000] = integers(300)
    s, q = t.deviations(x)
    assert s == x.sum()
    torch.testing.assert_close(q, ((x - x.sum()).double() ** 2).sum().float(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("operator", ["+=", "min=", "*="])
@pytest.mark.parametrize("rows", [3, 4, 5, 7, 9])
def test_rows_that_do_not_divide_and_accumulate(rows: int, operator: str) -> None:
    name = {"+=": "sums", "*=": "products", "min=": "minima"}[operator]
    body = f"T(i) {operator} X(k) + Y(3*i + k)"
    t = define(f"def rows_{name}(float(A) X, float(B) Y) -> (T) {{ {body} }}")
    x, y, before = integers(15), integers(15 + 3 * (rows - 1)), integers(rows)
    terms = (x + y.unfold(0, 15, 3)).double()
    wanted = {
        "+=": before + terms.sum(1),
        "*=": before * terms.prod(1),
        "min=": torch.minimum(before.double(), terms.amin(1)),
    }[operator]
    actual = t(f"rows_{name}", x, y, outputs=(before,))
    torch.testing.assert_close(actual.double(), wanted.double(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("size", [3, 17, 257, 1000])
def test_extremes_of_indices(size: int) -> None:
    """Halide moves what is added to a term over to the extreme beside it, which then overflows."""
    text = """def f(float(N) A, int32(N) B) -> (L, S, C, P) {
        L max=! r + 256 where r in 0:N
        S min=! 7 - r - s where r in 0:N, s in 0:3
        C max=! B(r) > 0 ? r + 300 : r - 5 where r in 0:N
        P(i) max=! j <= i ? j + 20 : -2147483647 where i in 0:N, j in 0:N
    }"""
    b = torch.arange(size, dtype=torch.int32) % 3
    largest, smallest, chosen, running = tc.define(text).f(torch.zeros(size), b)
    r = torch.arange(size)
    assert largest == size + 255 and smallest == 7 - (size - 1) - 2
    assert chosen == torch.where(b > 0, r + 300, r - 5).max()
    assert torch.equal(running.long(), r + 20)
