"""Operands that lie where tables say are put in order first, where they are used often.

Values are small integers, so that sums are exact in every order. Tables stand beside memory that
nobody may touch (see fenced), and so do the tensors that they lead to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from exact import DTYPES, integers
from fenced import fenced

import tensor_comprehensions as tc
from tensor_comprehensions import reference


def table(bound: int, *sizes: int) -> torch.Tensor:
    """Places in no order, the first and the last among them."""
    values = torch.randint(0, bound, (math.prod(sizes),))
    values[0], values[-1] = bound - 1, 0
    return values.to(torch.int32).reshape(sizes)


MACHINE = "vector_bits=512,vector_registers=32,cores=2,library_rate=1"


@pytest.fixture(autouse=True)
def small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns exceed their share of the cache from 64 steps of a reduction on."""
    monkeypatch.setenv("TC_MACHINE", f"{MACHINE},cache_bytes=32768")


@dataclass(frozen=True)
class Case:
    """A text with T for the type, the sizes of its operands, its tables as (bound, sizes)."""

    text: str
    operands: tuple[tuple[int, ...], ...]
    tables: tuple[tuple[int, ...], ...]
    reference: Callable[..., torch.Tensor]
    gathered: str  #: sizes of what is put in order

    def make(self, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
        torch.manual_seed(0)
        operands = [integers(*sizes, dtype=dtype) for sizes in self.operands]
        return operands + [table(*sizes) for sizes in self.tables]

    def wanted(self, values: list[torch.Tensor]) -> torch.Tensor:
        exact = [v.double() if i < len(self.operands) else v.long() for i, v in enumerate(values)]
        return self.reference(*exact)


CASES = {
    "along a row": Case(
        "def f(T(M,E) A, T(K,N) B, int32(K) t) -> (O) { O(m,n) +=! A(m, t(k)) * B(k,n) }",
        ((3, 14000), (13000, 257)),
        ((14000, 13000),),
        lambda a, b, t: a[:, t] @ b,
        "m 3, k 13000",
    ),
    "along a row through two tables": Case(
        "def f(T(M,P,Q) A, T(C,D,N) B, int32(C) ta, int32(D) tb) -> (O) {"
        " O(m,n) +=! A(m, ta(c), tb(d)) * B(c,d,n) }",
        ((4, 130, 110), (130, 101, 259)),
        ((130, 130), (110, 101)),
        lambda a, b, ta, tb: torch.einsum("mcd,cdn->mn", a[:, ta][:, :, tb], b),
        # Not as one: the offsets of 13130 places would take more than a quarter of the cache.
        "m 4, c 130, d 101",
    ),
    "rows": Case(
        "def f(T(M,K) A, T(E,N) B, int32(K) t) -> (O) { O(m,n) +=! A(m,k) * B(t(k), n) }",
        ((131, 67), (90, 37)),
        ((90, 67),),
        lambda a, b, t: a @ b[t],
        "k 67, n 37",
    ),
    "rows through two tables": Case(
        "def f(T(M,C,D) A, T(P,Q,N) B, int32(C) ta, int32(D) tb) -> (O) {"
        " O(m,n) +=! A(m,c,d) * B(ta(c), tb(d), n) }",
        ((131, 9, 11), (10, 12, 37)),
        ((10, 9), (12, 11)),
        lambda a, b, ta, tb: torch.einsum("mcd,cdn->mn", a, b[ta][:, tb]),
        "c 99 (c and d as one), n 37",
    ),
    "columns": Case(
        "def f(T(M,K) A, T(N,E) B, int32(K) t) -> (O) { O(m,n) +=! A(m,k) * B(n, t(k)) }",
        ((259, 13000), (3, 14000)),
        ((14000, 13000),),
        lambda a, b, t: a @ b[:, t].T,
        "n 3, k 13000",
    ),
    "a result's table, one element for all lanes": Case(
        "def f(T(B,E) A, T(B,N) D, int32(M) t) -> (O) { O(m,n) +=! A(b, t(m)) * D(b,n) }",
        ((9, 35), (9, 130)),
        ((35, 33),),
        lambda a, d, t: a[:, t].T @ d,
        "b 9, m 33",
    ),
    "a result's table, lanes apart": Case(
        "def f(T(B,M) A, T(B,E) D, int32(N) t) -> (O) { O(m,n) +=! A(b, m) * D(b, t(n)) }",
        ((9, 130), (9, 35)),
        ((35, 33),),
        lambda a, d, t: a.T @ d[:, t],
        "b 9, n 33",
    ),
    "results' tables in both dimensions": Case(
        "def f(T(K,P,Q) A, T(K,N) B, int32(X) tx, int32(Y) ty) -> (O) {"
        " O(x,y,n) +=! A(k, tx(x), ty(y)) * B(k, n) }",
        ((5, 9, 11), (5, 131)),
        ((9, 7), (11, 10)),
        lambda a, b, tx, ty: torch.einsum("kxy,kn->xyn", a[:, tx][:, :, ty], b),
        "k 5, x 70 (x and y as one)",
    ),
    "a table of both": Case(
        "def f(T(B,E) A, T(K,B,N) D, int32(K,M) t) -> (O) { O(m,n) +=! A(b, t(k,m)) * D(k,b,n) }",
        ((9, 360), (10, 9, 130)),
        ((360, 10, 33),),
        lambda a, d, t: torch.einsum("bkm,kbn->mn", a[:, t], d),
        "b 9, k 10, m 33",
    ),
    "a sum of tables": Case(
        "def f(T(B,E) A, T(B,N) D, int32(M) s, int32(M) t) -> (O) {"
        " O(m,n) +=! A(b, 2 * s(m) - t(m) + 7) * D(b,n) }",
        ((9, 36), (9, 130)),
        ((14, 33), (8, 33)),
        lambda a, d, s, t: a[:, 2 * s - t + 7].T @ d,
        "b 9, m 33",
    ),
    "both operands": Case(
        "def f(T(B,E) A, T(B,F) D, int32(M) s, int32(N) t) -> (O) {"
        " O(m,n) +=! A(b, s(m)) * D(b, t(n)) }",
        ((9, 140), (9, 150)),
        ((140, 129), (150, 131)),
        lambda a, d, s, t: a[:, s].T @ d[:, t],
        "b 9, n 131",
    ),
    "read twice": Case(
        "def f(T(B,E) A, T(B,N) D, int32(M) t) -> (O) {"
        " O(m,n) +=! A(b, t(m)) * D(b,n) * A(b, t(m)) }",
        ((9, 35), (9, 130)),
        ((35, 33),),
        lambda a, d, t: (a[:, t] * a[:, t]).T @ d,
        "b 9, m 33",
    ),
    "a table of a table": Case(
        "def f(T(B,E) A, T(B,N) D, int32(Q) outer, int32(M) inner) -> (O) {"
        " O(m,n) +=! A(b, outer(inner(m))) * D(b,n) }",
        ((9, 35), (9, 130)),
        ((35, 40), (40, 33)),
        lambda a, d, outer, inner: a[:, outer[inner]].T @ d,
        "b 9, m 33",
    ),
    "a tensor that the text computes": Case(
        "def f(T(B,E) A, T(B,N) D, int32(M) t) -> (O) {"
        " S(b,e) = A(b,e) + A(b,e)\n O(m,n) +=! S(b, t(m)) * D(b,n) }",
        ((9, 35), (9, 130)),
        ((35, 33),),
        lambda a, d, t: 2 * a[:, t].T @ d,
        "b 9, m 33",
    ),
}


def in_order(explained: str) -> list[str]:
    """What is put in order, each with its loops."""
    lines = explained.splitlines()
    return [lines[i + 1].strip() for i, line in enumerate(lines) if "in order of use, in" in line]


IN_ALL_TYPES = ("along a row", "rows", "a result's table, lanes apart", "both operands")


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, t) for name in CASES for t in (DTYPES if name in IN_ALL_TYPES else ("float", "half"))],
)
def test_types(name: str, dtype: str) -> None:
    case = CASES[name]
    values = [fenced(v) for v in case.make(DTYPES[dtype])]
    executor = tc.compile(case.text.replace("T(", f"{dtype}("), "f", None, *values)
    wanted = case.wanted(values)
    if dtype == "int8":
        wanted = wanted.to(torch.int64).to(torch.int8)
    actual = executor(*values)
    assert torch.equal(actual, wanted.to(actual.dtype))
    assert case.gathered in in_order(executor.explain())


def test_offsets_that_the_cache_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tables become one of offsets, which the loops along both of them walk as one."""
    case = CASES["along a row through two tables"]
    values = [fenced(v) for v in case.make()]
    found = {}
    for cache in (4 * 4 * 13130 - 16, 4 * 4 * 13130 + 16):
        monkeypatch.setenv("TC_MACHINE", f"{MACHINE},cache_bytes={cache}")
        executor = tc.compile(case.text.replace("T(", "float("), "f", None, *values)
        assert torch.equal(executor(*values), case.wanted(values).float())
        found[cache] = in_order(executor.explain())
    assert list(found.values()) == [["m 4, c 130, d 101"], ["m 4, c 13130 (c and d as one)"]]


@pytest.mark.parametrize("name", CASES)
def test_other_layouts(name: str) -> None:
    """Rows apart from each other, and dimensions in the other order."""
    case = CASES[name]
    values = case.make()
    count = len(case.operands)
    spread = [fenced(torch.stack([v, 113 + v], -2)[..., 0, :]) for v in values[:count]]
    turned = [v.mT.contiguous().mT for v in values[:count]]
    for operands in (spread, turned):
        executor = tc.compile(
            case.text.replace("T(", "float("), "f", None, *operands, *values[count:]
        )
        actual = executor(*operands, *values[count:])
        assert torch.equal(actual.double(), case.wanted(values))


LEFT_ALONE = {
    "few uses": (
        "def f(float(B,E) A, float(B,N) D, int32(M) t) -> (O) { O(m,n) +=! A(b, t(m)) * D(b,n) }",
        ((9, 35), (9, 40)),
        ((35, 33),),
    ),
    "a row that a cache keeps": (
        "def f(float(M,E) A, float(K,N) B, int32(K) t) -> (O) { O(m,n) +=! A(m,t(k)) * B(k,n) }",
        ((3, 200), (200, 257)),
        ((200, 200),),
    ),
    "a window": (
        "def f(float(B,E) A, float(K,B,N) D, int32(K) t) -> (O) {"
        " O(m,n) +=! A(b, m + t(k)) * D(k,b,n) where m in 0:30 }",
        ((9, 35), (4, 9, 130)),
        ((6, 4),),
    ),
    "more than there is": (
        "def f(float(B,E) A, float(B,N) D, int32(M) t) -> (O) { O(m,n) +=! A(b, t(m)) * D(b,n) }",
        ((9, 7), (9, 130)),
        ((7, 33),),
    ),
    "a read that some points make": (
        "def f(float(B,E) A, float(B,N) D, int32(M) t) -> (O) {"
        " O(m,n) +=! (b > m ? A(b, t(m)) * D(b,n) : 0) }",
        ((9, 35), (9, 130)),
        ((35, 33),),
    ),
    "rows in order": (
        "def f(float(E,K) A, float(K,N) D, int32(M) t) -> (O) { O(m,n) +=! A(t(m), k) * D(k,n) }",
        ((35, 70), (70, 130)),
        ((35, 33),),
    ),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_is_left_alone(name: str) -> None:
    text, sizes, bounds = LEFT_ALONE[name]
    torch.manual_seed(0)
    values = [integers(*s) for s in sizes] + [table(*b) for b in bounds]
    executor = tc.compile(text, "f", None, *values)
    assert not in_order(executor.explain())
    assert torch.equal(executor(*values), reference.run(text, "f", *values))


def test_tables_may_change_between_calls() -> None:
    case = CASES["both operands"]
    values = case.make()
    executor = tc.compile(case.text.replace("T(", "float("), "f", None, *values)
    for _ in range(3):
        assert torch.equal(executor(*values).double(), case.wanted(values))
        for t in values[2:]:
            t.copy_(t.flip(0))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads(threads: int) -> None:
    case = CASES["along a row through two tables"]
    values = case.make()
    executor = tc.compile(case.text.replace("T(", "float("), "f", None, *values)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert torch.equal(executor(*values).double(), case.wanted(values))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("rows", "picked"), [(40, 2000), (40, 1999), (9, 1100)])
def test_the_next_row_is_asked_for(rows: int, picked: int) -> None:
    """Beyond the last one, too, where nobody may read."""
    text = "def f(float(M,E) A, int32(K) t) -> (O) { O(m,k) = A(m, t(k)) }"
    a, t = fenced(integers(rows, 2000)), fenced(table(2000, picked))
    executor = tc.compile(text, "f", None, a, t)
    assert torch.equal(executor(a, t), a[:, t.long()])
    assert "prefetch" in executor.text("stmt")


def test_long_rows_of_which_few_elements_are_picked_are_not() -> None:
    text = "def f(float(M,E) A, int32(K) t) -> (O) { O(m,k) = A(m, t(k)) }"
    a, t = integers(40, 20000), table(20000, 200)
    executor = tc.compile(text, "f", None, a, t)
    assert torch.equal(executor(a, t), a[:, t.long()])
    assert "prefetch" not in executor.text("stmt")


def test_a_temporary_that_is_read_at_what_it_holds() -> None:
    text = "def f(int32(N) P) -> (Q) { T(i) = P(i)  Q(i) = T(T(i)) }"
    p = torch.randperm(16).int()
    assert torch.equal(tc.compile(text, "f", None, p)(p), p[p.long()])
    text = "def f(int32(N) P) -> (Q) { T(i) = N - 1 - P(i)  Q(i) = T(T(T(i))) }"
    t = 15 - p
    assert torch.equal(tc.compile(text, "f", None, p)(p), t[t[t.long()].long()])
