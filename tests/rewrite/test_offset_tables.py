"""Reads through tables along a reduction become one offset a step, in one loop.

Values are small integers, so that sums are exact in every order. Operands lie beside memory that
nobody may touch (see fenced).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from exact import DTYPES, integers
from fenced import fenced

import tensor_comprehensions as tc
from tensor_comprehensions import reference


def table(bound: int, *sizes: int) -> torch.Tensor:
    """Every place of a dimension where there are enough, so that nobody can leave one out."""
    count = 1
    for size in sizes:
        count *= size
    values = torch.cat([torch.randperm(bound), torch.randint(0, bound, (count,))])[:count]
    return values.to(torch.int32).reshape(sizes)


def stepped(x: torch.Tensor) -> torch.Tensor:
    """No dimension is contiguous."""
    spread = torch.full([2 * n for n in x.shape], 113).to(x.dtype)
    result = spread[tuple(slice(1, None, 2) for _ in x.shape)]
    result.copy_(x)
    return result


def uneven(x: torch.Tensor) -> torch.Tensor:
    """Elements lie three apart, rows a number apart that three does not divide."""
    spread = torch.full((*x.shape[:-1], 3 * x.shape[-1] + 1), 113).to(x.dtype)
    result = spread[..., : 3 * x.shape[-1] : 3]
    result.copy_(x)
    return result


def turned(x: torch.Tensor) -> torch.Tensor:
    """Dimensions lie in memory in the opposite order."""
    order = tuple(reversed(range(x.dim())))
    return x.permute(order).contiguous().permute(order)


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "dense": lambda x: x,
    "stepped": stepped,
    "uneven": uneven,
    "turned": turned,
    "repeated": lambda x: x[:1].expand(x.shape),
}


@dataclass(frozen=True)
class Case:
    """A text with T for the type, the sizes of its operands, its tables as (bound, sizes)."""

    text: str
    operands: tuple[tuple[int, ...], ...]
    tables: tuple[tuple[int, ...], ...]
    reference: Callable[..., torch.Tensor]
    loops: int = 1  #: that the reduction has


def two(a: torch.Tensor, b: torch.Tensor, ta: torch.Tensor, tb: torch.Tensor) -> torch.Tensor:
    return torch.einsum("mab,abn->mn", a[:, ta][:, :, tb], b)


def shifted(
    x: torch.Tensor, w: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor
) -> torch.Tensor:
    moved = [x[:, c, r : r + 9, s : s + 10] for c, (r, s) in enumerate(zip(rows, columns))]
    return torch.einsum("nchw,ck->nkhw", torch.stack(moved, 1), w)


CASES = {
    "two tables": Case(
        "def f(T(M,P,Q) A, T(C,D,N) B, int32(C) ta, int32(D) tb) -> (O) {"
        " O(m,n) +=! A(m, ta(c), tb(d)) * B(c,d,n) }",
        ((27, 7, 9), (5, 6, 40)),
        ((7, 5), (9, 6)),
        two,
    ),
    "the other operand's order": Case(
        "def f(T(M,P,Q) A, T(D,C,N) B, int32(C) ta, int32(D) tb) -> (O) {"
        " O(m,n) +=! A(m, ta(c), tb(d)) * B(d,c,n) }",
        ((27, 7, 9), (6, 5, 40)),
        ((7, 5), (9, 6)),
        lambda a, b, ta, tb: two(a, b.transpose(0, 1), ta, tb),
    ),
    "a plain index too": Case(
        "def f(T(M,C,P) A, T(C,D,N) B, int32(D) ta) -> (O) {"
        " O(m,n) +=! A(m, c, ta(d)) * B(c,d,n) }",
        ((27, 5, 9), (5, 6, 40)),
        ((9, 6),),
        lambda a, b, ta: torch.einsum("mcd,cdn->mn", a[:, :, ta], b),
    ),
    "a table of two indices": Case(
        "def f(T(M,P) A, T(C,D,N) B, int32(C,D) t) -> (O) { O(m,n) +=! A(m, t(c,d)) * B(c,d,n) }",
        ((27, 50), (5, 6, 40)),
        ((50, 5, 6),),
        lambda a, b, t: torch.einsum("mcd,cdn->mn", a[:, t], b),
    ),
    "a table of a table": Case(
        "def f(T(M,P) A, T(C,N) B, int32(Q) outer, int32(C) inner) -> (O) {"
        " O(m,n) +=! A(m, outer(inner(c))) * B(c,n) }",
        ((27, 11), (17, 40)),
        ((11, 8), (8, 17)),
        lambda a, b, outer, inner: a[:, outer[inner]] @ b,
    ),
    "sums and multiples": Case(
        "def f(T(M,P) A, T(C,D,N) B, int32(C) ta, int32(D) tb) -> (O) {"
        " O(m,n) +=! A(m + 2, 2 * ta(c) - tb(d) + c + 8) * B(c,d,n) where m in 0:27 }",
        ((29, 30), (5, 6, 40)),
        ((9, 5), (9, 6)),
        lambda a, b, ta, tb: torch.einsum(
            "mcd,cdn->mn", a[2:, (2 * ta + torch.arange(5))[:, None] - tb + 8], b
        ),
    ),
    "every channel shifted": Case(
        "def f(T(N,C,H,W) A, T(C,K) B, int32(C) ta, int32(C) tb) -> (O) {"
        " O(n,k,h,w) +=! A(n, c, h + ta(c), w + tb(c)) * B(c,k) where h in 0:9, w in 0:10 }",
        ((2, 17, 11, 12), (17, 20)),
        ((3, 17), (3, 17)),
        shifted,
    ),
    "both operands": Case(
        "def f(T(M,P,Q) A, T(S,D,N) B, int32(C) ta, int32(D) tb, int32(C) tc) -> (O) {"
        " O(m,n) +=! A(m, ta(c), tb(d)) * B(tc(c), d, n) }",
        ((27, 7, 9), (8, 6, 40)),
        ((7, 5), (9, 6), (8, 5)),
        lambda a, b, ta, tb, tc: two(a, b[tc], ta, tb),
        loops=1,
    ),
    "a table that the text computes": Case(
        "def f(T(M,P) A, T(C,D,N) B, int32(C,D) t) -> (O, S) {"
        " S(c,d) = 2 * t(c,d)\n O(m,n) +=! A(m, S(c,d)) * B(c,d,n) }",
        ((27, 50), (5, 6, 40)),
        ((25, 5, 6),),
        lambda a, b, t: torch.einsum("mcd,cdn->mn", a[:, 2 * t], b),
    ),
    "two reads of one operand": Case(
        "def f(T(M,P,P) A, T(C,D,N) B, int32(C) ta, int32(D) tb) -> (O) {"
        " O(m,n) +=! (A(m, ta(c), tb(d)) + A(m, tb(d), ta(c))) * B(c,d,n) }",
        ((27, 9, 9), (5, 6, 40)),
        ((9, 5), (9, 6)),
        lambda a, b, ta, tb: two(a + a.transpose(1, 2), b, ta, tb),
    ),
}


def make(case: Case, dtype: torch.dtype) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    torch.manual_seed(0)
    operands = [integers(*sizes, dtype=dtype) for sizes in case.operands]
    return operands, [table(*sizes) for sizes in case.tables]


def wanted(case: Case, operands: list[torch.Tensor], tables: list[torch.Tensor]) -> torch.Tensor:
    return case.reference(*(x.double() for x in operands), *(t.long() for t in tables))


def first(results: torch.Tensor | tuple[torch.Tensor, ...]) -> torch.Tensor:
    return results[0] if isinstance(results, tuple) else results


def count_reduction_loops(nest: str) -> int:
    """Loops that are neither parallel, vectorized nor unrolled, below the last task."""
    tile = nest.rsplit("register tile", 1)[1]
    return len(re.findall(r"^ *for ", tile, re.M))


@pytest.mark.sampled
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CASES)
def test_layouts(name: str, layout: str) -> None:
    case = CASES[name]
    operands, tables = make(case, torch.float32)
    operands = [LAYOUTS[layout](x) for x in operands]
    text = case.text.replace("T(", "float(")
    executor = tc.compile(text, "f", None, *operands, *tables)
    expected = wanted(case, operands, tables)
    assert torch.equal(first(executor(*operands, *tables)).double(), expected)


IN_ALL_TYPES = ("two tables", "sums and multiples", "both operands")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, t) for name in CASES for t in (DTYPES if name in IN_ALL_TYPES else ("float", "half"))],
)
def test_types(name: str, dtype: str) -> None:
    case = CASES[name]
    operands, tables = make(case, DTYPES[dtype])
    operands, tables = [fenced(x) for x in operands], [fenced(t) for t in tables]
    text = case.text.replace("T(", f"{dtype}(")
    operator = tc.define(
        text, namespace="tc_offsets_" + "".join(filter(str.isalpha, name)) + dtype
    ).f
    expected = wanted(case, operands, tables)
    actual = first(operator(*operands, *tables))
    if dtype == "int8":
        expected = expected.to(torch.int64).to(torch.int8)
    assert torch.equal(actual, expected.to(actual.dtype))


@pytest.mark.parametrize("name", CASES)
def test_one_loop_and_one_table_for_every_read(name: str) -> None:
    case = CASES[name]
    operands, tables = make(case, torch.float32)
    executor = tc.compile(case.text.replace("T(", "float("), "f", None, *operands, *tables)
    assert "offsets in A, in A.offsets" in executor.explain()
    assert count_reduction_loops(executor.loop_nest) == case.loops, executor.loop_nest


@pytest.mark.parametrize("reduction", ["max=!", "min=!", "*=!"])
def test_other_reductions(reduction: str) -> None:
    case = CASES["two tables"]
    operands, tables = make(case, torch.float64)
    text = case.text.replace("T(", "double(").replace("+=!", reduction)
    a, b = operands
    terms = a[:, tables[0].long()][:, :, tables[1].long()].flatten(1)[:, :, None] * b.flatten(0, 1)
    expected = {"max=!": terms.amax(1), "min=!": terms.amin(1), "*=!": terms.prod(1)}[reduction]
    assert torch.equal(
        tc.compile(text, "f", None, *operands, *tables)(*operands, *tables), expected
    )


def test_one_loop_after_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is copied, the other operand has an index of the results between the reductions."""
    # Narrower units may rather have vectors along w, for which nothing is copied.
    monkeypatch.setenv(
        "TC_MACHINE",
        "vector_bits=512,vector_registers=32,cores=2,cache_bytes=524288,library_rate=1",
    )
    text = """def f(float(N,C,H,W) A, float(C,K,X) B, int32(C,X) ta, int32(C,X) tb) -> (O) {
      O(n,k,h,w) +=! A(n, c, h + ta(c,x), w + tb(c,x)) * B(c,k,x) where h in 0:9, w in 0:10
    }"""
    torch.manual_seed(0)
    a, b = integers(2, 13, 13, 14), integers(13, 20, 17)
    ta, tb = table(5, 13, 17), table(5, 13, 17)
    executor = tc.compile(text, "f", None, a, b, ta, tb)
    moved = torch.stack(
        [
            torch.stack([a[:, c, r : r + 9, s : s + 10] for r, s in zip(ta[c], tb[c], strict=True)])
            for c in range(13)
        ]
    )
    assert torch.equal(executor(a, b, ta, tb), torch.einsum("cxnhw,ckx->nkhw", moved, b))
    assert "B: 13 x 17 x" in executor.explain()
    assert re.search(rf"for \(\S+, 0, {13 * 17}\)", executor.text("stmt"))


LEFT_ALONE = {
    "a single table": (
        "def f(float(M,P) A, float(C,N) B, int32(C) t) -> (O) { O(m,n) +=! A(m, t(c)) * B(c,n) }",
        ((27, 7), (5, 40)),
        ((7, 5),),
    ),
    "a table along the results": (
        "def f(float(M,P,Q) A, float(C,D,N) B, int32(C,M) ta, int32(D) tb) -> (O) {"
        " O(m,n) +=! A(m, ta(c,m), tb(d)) * B(c,d,n) }",
        ((27, 7, 9), (5, 6, 40)),
        ((7, 5, 27), (9, 6)),
    ),
    "a read that some points make": (
        "def f(float(M,P,Q) A, float(C,D,N) B, int32(C) ta, int32(D) tb) -> (O) {"
        " O(m,n) +=! (c > m ? A(m, ta(c), tb(d)) * B(c,d,n) : 0) }",
        ((27, 7, 9), (5, 6, 40)),
        ((7, 5), (9, 6)),
    ),
    "few results": (
        "def f(float(M,P,Q) A, float(C,D,N) B, int32(C) ta, int32(D) tb) -> (O) {"
        " O(m,n) +=! A(m, ta(c), tb(d)) * B(c,d,n) }",
        ((3, 7, 9), (5, 6, 4)),
        ((7, 5), (9, 6)),
    ),
    "a tensor that the text computes": (
        "def f(float(M,P,Q) A, float(C,D,N) B, int32(C) ta, int32(D) tb) -> (S, O) {"
        " S(m,p,q) = 2 * A(m,p,q)\n O(m,n) +=! S(m, ta(c), tb(d)) * B(c,d,n) }",
        ((27, 7, 9), (5, 6, 40)),
        ((7, 5), (9, 6)),
    ),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_is_left_alone(name: str) -> None:
    text, sizes, bounds = LEFT_ALONE[name]
    torch.manual_seed(0)
    values = [integers(*s) for s in sizes] + [table(*b) for b in bounds]
    executor = tc.compile(text, "f", None, *values)
    assert "offsets in" not in executor.explain()
    results = executor(*values)
    expected = reference.run(text, "f", *values)
    if not isinstance(results, tuple):
        results, expected = (results,), (expected,)
    for actual, value in zip(results, expected, strict=True):
        assert torch.equal(actual, value)


def test_tables_may_change_between_calls() -> None:
    case = CASES["two tables"]
    operands, tables = make(case, torch.float32)
    executor = tc.compile(case.text.replace("T(", "float("), "f", None, *operands, *tables)
    for _ in range(3):
        assert torch.equal(executor(*operands, *tables).double(), wanted(case, operands, tables))
        for t in tables:
            t.copy_(t.flip(0))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads(threads: int) -> None:
    case = Case(CASES["two tables"].text, ((97, 40, 50), (30, 40, 130)), ((40, 30), (50, 40)), two)
    operands, tables = make(case, torch.float32)
    executor = tc.compile(case.text.replace("T(", "float("), "f", None, *operands, *tables)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert torch.equal(executor(*operands, *tables).double(), wanted(case, operands, tables))
    finally:
        torch.set_num_threads(before)


# The offset of a part of a place, times the length of a row, has no room in 32 bits.
FAR = 100_000_000


@pytest.mark.parametrize("options", [None, "identity"])
@pytest.mark.parametrize("start", [5, 2_200_000, FAR])
def test_places_that_count_from_far_away(start: int, options: str | None) -> None:
    text = f"""def f(float(N,L,D) A, int32(K) I, int32(K) J) -> (O) {{
        O(i,d) +=! A(I(k) + i - {start}, J(k), d) where i in 0:2000 }}"""
    a, j = integers(3000, 64, 16), torch.randint(0, 64, (40,), dtype=torch.int32)
    rows = torch.randint(0, 900, (40,), dtype=torch.int32)
    f = tc.compile(text, "f", options, a, rows + start, j)
    windows = torch.stack([a[row : row + 2000, place] for row, place in zip(rows, j, strict=True)])
    assert torch.equal(f(a, rows + start, j), windows.sum(0))
    assert options or ("offsets in" in f.explain()) == (start == 5)


@pytest.mark.parametrize("start", [5, 2_200_000, FAR])
def test_places_that_count_from_a_scalar(start: int) -> None:
    text = """def f(float(R,L,D) A, int32(K) I, int32(K) J, float(B,K) W, int start) -> (O) {
        O(b,d) +=! A(I(k) - start, J(k), d) * W(b,k) }"""
    a, w = integers(1000, 64, 16), integers(100, 40)
    i = torch.randint(0, 1000, (40,), dtype=torch.int32)
    j = torch.randint(0, 64, (40,), dtype=torch.int32)
    result = tc.compile(text, "f", None, a, i + start, j, w, start)(a, i + start, j, w, start)
    assert torch.equal(result, w @ a[i.long(), j.long()])


def test_places_that_count_from_an_element() -> None:
    """What no index changes is a part of the offset, whatever data says."""
    text = """def f(float(R,L,D) A, int32(K) I, int32(K) J, float(B,K) W, int32(2) S) -> (O) {
        O(b,d) +=! A(I(k) - S(1), J(k), d) * W(b,k) }"""
    a, w = integers(1000, 64, 16), integers(100, 40)
    i = torch.randint(0, 1000, (40,), dtype=torch.int32)
    j = torch.randint(0, 64, (40,), dtype=torch.int32)
    start = torch.tensor([0, 2_200_000], dtype=torch.int32)
    inputs = a, i + start[1], j, w, start
    f = tc.compile(text, "f", None, *inputs)
    assert torch.equal(f(*inputs), w @ a[i.long(), j.long()])
    assert "offsets in" in f.explain()


def test_rows_that_lie_apart_are_transposed_with_their_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Places count through dimensions as they lie: not as they do in a copy that is transposed."""
    machine = "vector_bits=256,vector_registers=16,cores=3,cache_bytes=4096,least_percent=2"
    monkeypatch.setenv("TC_MACHINE", machine)
    text = """def f(float(I,J,L) A, int32(P) t, int32(Q) u, float(K,P,Q) B) -> (O) {
        O(i,k) +=! A(i, t(p), u(q)) * B(k,p,q) }"""
    t, u = torch.randint(0, 17, (4,)).int(), torch.randint(0, 2, (5,)).int()
    b = torch.randint(-3, 4, (1, 4, 5)).float()
    whole = torch.randint(-3, 4, (17, 32, 6)).float().transpose(0, 1)  # rows 192 apart
    for a in (whole[..., :2], whole[..., :2].contiguous()):
        wanted = torch.einsum("ipq,kpq->ik", a[:, t.long()][:, :, u.long()], b)
        executor = tc.compile(text, "f", None, a, t, u, b)
        assert torch.equal(executor(a, t, u, b), wanted)
        assert ("A.transposed" in executor.explain()) == a.is_contiguous()
