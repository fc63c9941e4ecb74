"""Reads that the processor does not expect are asked for some iterations ahead: at places that are
data, of rows that lie far apart, of the next row where several loops pass over each, and of the
next part of operands that are worked through in small ones.

The data that says where stands beside memory that nobody may touch, and must not be read further
than the loop reads it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from exact import integers
from fenced import fenced
from workloads import indices

import tensor_comprehensions as tc

LOOKUP = "def lookup(float(E,D) T, int32(B,L) I) -> (O) { O(i,j) +=! T(I(i,k), j) }"


@pytest.fixture(autouse=True)
def small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of more than 8 KiB are large here."""
    monkeypatch.setenv(
        "TC_MACHINE", "vector_bits=512,vector_registers=32,cores=2,cache_bytes=4096,library_rate=1"
    )


# Operands of more than 128 KiB are large.
ROOMY = "vector_bits=512,vector_registers=32,cores=2,cache_bytes=65536,library_rate=1"


def asked_for(executor: tc.Executor, cache: int) -> list[str]:
    """The places that are asked for to be in this cache, 3 for the first."""
    lines = executor.text("stmt").splitlines()
    return [line for line in lines if "prefetch" in line and f", 0, {cache}, 1)" in line]


def run(text: str, *values: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """The result, and whether anything is asked for ahead."""
    entry = text.split("(")[0].split()[-1]
    executor = tc.compile(text, entry, None, *values)
    return executor(*values), "prefetch" in executor.text("stmt")


# Of an index's row: several blocks' worth, less than is asked for ahead, one, and few enough that
# the loop over them is unrolled away.
@pytest.mark.sampled
@pytest.mark.parametrize("length", [50, 33, 5, 1, 3, 0])
@pytest.mark.parametrize("width", [64, 19, 1])
@pytest.mark.parametrize("rows", [37, 2, 1, 0])
def test_lookup(rows: int, width: int, length: int) -> None:
    table, index = integers(10000, width), fenced(indices(10000, rows, length))
    result, _ = run(LOOKUP, table, index)
    torch.testing.assert_close(result, table[index.long()].sum(1), rtol=0, atol=0)


def test_rows_of_a_large_table_are_asked_for_ahead() -> None:
    assert run(LOOKUP, integers(1000, 64), indices(1000, 37, 50))[1]


@pytest.mark.parametrize("width", [16, 40, 64, 128])
def test_all_of_a_row_is_asked_for(width: int) -> None:
    """Into the second cache, which waits for more lines at once than the first. Intel's processors
    bring the lines that follow."""
    step = 256 if "GenuineIntel" in Path("/proc/cpuinfo").read_text() else 64
    table, index = integers(4000, width), indices(4000, 37, 50)
    executor = tc.compile(LOOKUP, "lookup", None, table, index)
    places = [
        re.search(r"\(int64\)4\)?(?: \+ \(int64\)(\d+))?\)", p) for p in asked_for(executor, 2)
    ]
    assert {int(place[1] or 0) for place in places if place} == set(range(0, 4 * width, step))


@pytest.mark.parametrize(("width", "again"), [(16, True), (64, True), (128, False)])
def test_short_rows_are_asked_for_again(width: int, again: bool) -> None:
    """Into the first cache, when they are used soon: 8 rows ahead instead of 32, and those of the
    next bag behind the last ones of this."""
    table, index = integers(4000, width), indices(4000, 37, 50)
    executor = tc.compile(LOOKUP, "lookup", None, table, index)
    intel = "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    assert bool(asked_for(executor, 3)) == (again and not intel)
    if again and not intel:
        assert len(asked_for(executor, 3)) == len(asked_for(executor, 2))
    if width == 64 and not intel:
        ahead = re.findall(r"\) \+ (\d+)\]\*64", "\n".join(asked_for(executor, 2)))
        shortly = re.findall(r"\) \+ (\d+)\]\*64", "\n".join(asked_for(executor, 3)))
        assert {int(n) % 50 for n in ahead} == {32}
        assert {int(n) % 50 for n in shortly} == {8}
    result = executor(table, index)
    torch.testing.assert_close(result, table[index.long()].sum(1), rtol=0, atol=0)


@pytest.mark.parametrize(
    "condition", ["", "i % 2 == 0 ? ", "i > 3 ? "], ids=["always", "alternately", "later"]
)
def test_bags_that_follow_each_other(condition: str) -> None:
    """What says where is read as far as the last bag's, and only where the text reads it."""
    chosen = f"{condition}T(I(i,k), j){' : 0' if condition else ''}"
    text = f"def bags(float(E,D) T, int32(B,L) I) -> (O) {{ O(i,j) +=! {chosen} }}"
    table, index = integers(4000, 64), fenced(indices(4000, 37, 9))
    executor = tc.compile(text, "bags", None, table, index)
    keep = torch.tensor(
        [not condition or (i % 2 == 0 if "%" in condition else i > 3) for i in range(37)]
    )
    wanted = table[index.long()].sum(1) * keep[:, None]
    torch.testing.assert_close(executor(table, index), wanted, rtol=0, atol=0)


def test_rows_of_a_small_table_are_not() -> None:
    assert not run(LOOKUP, integers(31, 64), indices(31, 37, 50))[1]


def test_affine_reads_are_left_to_the_processor() -> None:
    text = "def rows(float(E,D) T) -> (O) { O(j) +=! T(k, j) }"
    assert not run(text, integers(1000, 64))[1]


def test_weighted_lookup() -> None:
    text = """def weighted(float(E,D) T, int32(B,L) I, float(B,L) W) -> (O) {
        O(i,j) +=! T(I(i,k), j) * W(i,k)
    }"""
    table, index, weight = (
        integers(1000, 64),
        fenced(indices(1000, 37, 50)),
        fenced(integers(37, 50)),
    )
    result, ahead = run(text, table, index, weight)
    assert ahead
    wanted = torch.einsum("ikj,ik->ij", table[index.long()], weight)
    torch.testing.assert_close(result, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("at_start", [False, True], ids=["end", "start"])
def test_places_under_a_condition(at_start: bool) -> None:
    text = """def shifted(float(E,D) T, int32(L) I) -> (O) {
        O(i,j) +=! (k >= i ? T(I(k - i), j) : 0) where i in 0:9, k in 0:L
    }"""
    table, index = integers(1000, 64), fenced(indices(1000, 50), at_start)
    result, _ = run(text, table, index)
    wanted = torch.stack([table[index[: 50 - i].long()].sum(0) for i in range(9)])
    torch.testing.assert_close(result, wanted, rtol=0, atol=0)


# One index says where in two tables, so that their loops alternate; with one of its own for each
# table they do too, since a statement behind them reads both results.
TWO = {
    "one index": """def two(float(E,D) S, float(F,C) T, int32(B,L) I) -> (O, P) {
        O(i,j) +=! S(I(i,k), j)
        P(i,j) +=! T(I(i,k), j)
    }""",
    "two indices": """def two(float(E,D) S, float(F,D) T, int32(B,L) I, int32(B,N) J) -> (O, P, Q) {
        O(i,j) +=! S(I(i,k), j)
        P(i,j) +=! T(J(i,k), j)
        Q(i,j) = O(i,j) * P(i,j)
    }""",
}


@pytest.mark.sampled
@pytest.mark.parametrize("rows", [37, 5, 1])
@pytest.mark.parametrize("lengths", [(50, 50), (50, 7), (4, 50), (33, 2), (50, 1)])
@pytest.mark.parametrize("width", [64, 19])
def test_two_lookups_in_turns(width: int, lengths: tuple[int, int], rows: int) -> None:
    first, second = (fenced(indices(900, rows, length)) for length in lengths)
    tables = integers(1000, width), integers(900, width)
    (o, p, q), ahead = run(TWO["two indices"], *tables, first, second)
    assert ahead or rows == 1 or max(lengths) < 50
    torch.testing.assert_close(o, tables[0][first.long()].sum(1), rtol=0, atol=0)
    torch.testing.assert_close(p, tables[1][second.long()].sum(1), rtol=0, atol=0)
    assert torch.equal(q, o * p)


@pytest.mark.parametrize("rows", [37, 5, 1])
@pytest.mark.parametrize("widths", [(64, 64), (64, 19), (19, 64), (100, 64)])
def test_two_tables_at_one_index(widths: tuple[int, int], rows: int) -> None:
    index = fenced(indices(900, rows, 50))
    tables = integers(1000, widths[0]), integers(900, widths[1])
    results, ahead = run(TWO["one index"], *tables, index)
    assert ahead
    for result, table in zip(results, tables, strict=True):
        torch.testing.assert_close(result, table[index.long()].sum(1), rtol=0, atol=0)


def test_rows_whose_places_are_read_apart() -> None:
    # The offset is the same in all iterations of the loop that asks, and ends with the rows.
    text = """def offset(float(E,D) T, int32(B,L) I, int32(B) J) -> (O) {
        O(i,j) +=! T(I(i,k) + J(i), j)
    }"""
    for rows in (37, 2, 1):
        table, index = integers(1000, 64), fenced(indices(500, rows, 50))
        offset = fenced(indices(500, rows))
        result, ahead = run(text, table, index, offset)
        assert ahead
        wanted = table[(index + offset[:, None]).long()].sum(1)
        torch.testing.assert_close(result, wanted, rtol=0, atol=0)


def test_places_in_rows_that_are_not_read() -> None:
    text = """def some(float(E,D) T, int32(B,L) I) -> (O) {
        O(i,j) +=! T(I(i,k), j) where i in 0:9, k in 0:49
    }"""
    table, index = integers(1000, 64), torch.full((20, 50), 2**31 - 1, dtype=torch.int32)
    index[:9, :49] = indices(1000, 9, 49)
    result, ahead = run(text, table, index)
    assert ahead
    wanted = table[index[:9, :49].long()].sum(1)
    torch.testing.assert_close(result, wanted, rtol=0, atol=0)


PRODUCT = "def product(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"


@pytest.mark.sampled
@pytest.mark.parametrize("at_start", [False, True], ids=["end", "start"])
@pytest.mark.parametrize("columns", [640, 700, 1024])
@pytest.mark.parametrize(("rows", "depth"), [(1, 50), (5, 50), (24, 31), (43, 50), (43, 9)])
def test_rows_far_apart(rows: int, depth: int, columns: int, at_start: bool) -> None:
    """Of the rows below, and for several blocks of results of the columns beside."""
    a, b = fenced(integers(rows, depth)), fenced(integers(depth, columns), at_start)
    result, ahead = run(PRODUCT, a, b)
    assert ahead
    assert torch.equal(result, a @ b)


@pytest.mark.parametrize(
    ("depth", "columns", "wanted"), [(50, 100, False), (200, 100, True), (50, 256, True)]
)
def test_rows_close_together_are_left_to_the_processor(
    depth: int, columns: int, wanted: bool
) -> None:
    """Unless the first cache does not keep them for the next block of results."""
    a, b = integers(43, depth), integers(depth, columns)
    executor = tc.compile(PRODUCT, "product", None, a, b)
    assert ("*)B)" in "".join(asked_for(executor, 3))) == wanted
    assert torch.equal(executor(a, b), a @ b)


def test_long_copies_are_asked_for() -> None:
    """They come from the second cache for every block of results."""
    text = "def product(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
    for depth, wanted in ((300, True), (30, False)):
        a, b = integers(43, depth), integers(70, depth)
        with pytest.MonkeyPatch.context() as machine:
            machine.setenv("TC_MACHINE", ROOMY)
            executor = tc.compile(text, "product", None, a, b)
        assert "  copy  " in executor.explain()
        assert (".P0)" in "".join(asked_for(executor, 3))) == wanted
        assert torch.equal(executor(a, b), a @ b.t())


def test_the_columns_beside_are_asked_for() -> None:
    """By all blocks of results together, into the second cache."""
    a, b = integers(43, 50), integers(50, 640)
    assert ", 0, 2, 1)" in tc.compile(PRODUCT, "product", None, a, b).text("stmt")
    assert ", 0, 2, 1)" not in tc.compile(PRODUCT, "product", None, a[:5], b).text("stmt")


def test_lines_stay_in_the_caches() -> None:
    """What is asked for is not marked as read only once."""
    for text, *values in (
        (PRODUCT, integers(43, 50), integers(50, 640)),
        (LOOKUP, integers(1000, 64), indices(1000, 37, 50)),
    ):
        assembly = tc.compile(text, text.split("(")[0].split()[1], None, *values).assembly
        assert re.search(r"prefetcht[01]|prfm", assembly)
        assert "prefetchnta" not in assembly


def test_copies_of_filters_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their rows and columns are short loops, but one place follows the other through all."""
    monkeypatch.setenv("TC_MACHINE", ROOMY)
    text = """def convolution(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
        O(n,f,h,w) +=! I(n,c,2*h+kh,2*w+kw) * K(f,c,kh,kw)
    }"""
    for channels, wanted in ((32, True), (3, False)):
        image, filters = integers(2, channels, 29, 29), integers(32, channels, 3, 3)
        executor = tc.compile(text, "convolution", None, image, filters)
        assert "  copy      K" in executor.explain()
        assert ("(K.P0)" in "".join(asked_for(executor, 3))) == wanted
        expected = torch.nn.functional.conv2d(image, filters, stride=2)
        assert torch.equal(executor(image, filters), expected)


def tensors_asked_for(executor: tc.Executor) -> set[str]:
    """Those that are asked for to be in the second cache."""
    return {name for line in asked_for(executor, 2) for name in re.findall(r"\*\)(\w+)\)", line)}


@pytest.mark.parametrize(("columns", "asked"), [(72, {"Z"}), (77, {"Z"}), (64, set())])
def test_results_that_share_lines_with_others_are_asked_for(columns: int, asked: set[str]) -> None:
    x, y = integers(96, 6), integers(6, columns)
    text = "def f(float(M,K) X, float(K,N) Y) -> (Z) { Z(m,n) +=! X(m,k) * Y(k,n) }"
    executor = tc.compile(text, "f", tc.MappingOptions().matchLibraryCalls(False), x, y)
    assert tensors_asked_for(executor) & {"Z"} == asked
    assert torch.equal(executor(x, y), x @ y)


def test_results_that_are_read_first_are_not() -> None:
    x, y, z = integers(96, 6), integers(6, 77), integers(96, 77)
    text = "def f(float(M,K) X, float(K,N) Y) -> (Z) { Z(m,n) += X(m,k) * Y(k,n) }"
    executor = tc.compile(text, "f", tc.MappingOptions().matchLibraryCalls(False), x, y)
    assert not tensors_asked_for(executor) & {"Z"}
    wanted = z + x @ y
    executor(x, y, outputs=z)
    assert torch.equal(z, wanted)


BATCH = """def batch(float(B,N,M) X, float(B,K,M) Y) -> (Z) {
    Z(b,n,k) +=! X(b,n,m) * Y(b,k,m)
}"""


@pytest.mark.parametrize(
    ("b", "n", "k", "m", "asked"),
    [
        (40, 26, 26, 72, {"X", "Y"}),
        (41, 13, 26, 72, {"X", "Y"}),
        (300, 7, 16, 65, {"X", "Y"}),
        (20, 70, 70, 100, {"X", "Y"}),
        # Only blocks of rows of X are small.
        (3, 64, 64, 1500, {"X"}),
        (4, 16, 16, 5000, set()),
        (4, 26, 26, 72, set()),  # in a cache
    ],
)
def test_the_next_product_of_a_batch_is_asked_for(
    b: int, n: int, k: int, m: int, asked: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TC_MACHINE", ROOMY)
    x, y = fenced(integers(b, n, m)), fenced(integers(b, k, m))
    executor = tc.compile(BATCH, "batch", None, x, y)
    assert tensors_asked_for(executor) & {"X", "Y"} == asked
    assert torch.equal(executor(x, y), torch.einsum("bnm,bkm->bnk", x, y))


def test_a_part_that_lies_elsewhere_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Image after image of one group, whose filters are copied once: the next one lies behind those
    of all other groups."""
    monkeypatch.setenv("TC_MACHINE", ROOMY + ",unit_bits=256")
    text = """def grouped(float(N,G,C,H,W) I, float(G,F,C,KH,KW) K) -> (O) {
        O(n,g,f,h,w) +=! I(n,g,c,h+kh,w+kw) * K(g,f,c,kh,kw)
    }"""
    image, filters = integers(5, 6, 8, 28, 28), integers(6, 8, 8, 3, 3)
    executor = tc.compile(text, "grouped", None, image, filters)
    assert "I: one element for all lanes" in executor.explain()
    (place,) = (line for line in asked_for(executor, 2) if "*)I)" in line)
    assert f"{image[0].numel()}" in place
    expected = torch.nn.functional.conv2d(
        image.flatten(1, 2), filters.flatten(0, 1), groups=6
    ).view(5, 6, 8, 26, 26)
    assert torch.equal(executor(image, filters), expected)


def test_the_next_image_is_asked_for_while_one_is_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the convolution behind it, in a slice of a temporary."""
    monkeypatch.setenv("TC_MACHINE", ROOMY)
    text = """def depthwise(float(N,C,H,W) I, float(C,KH,KW) K) -> (O) {
        padded(n,c,h,w) = h >= 1 && h <= H && w >= 1 && w <= W ? I(n, c, h - 1, w - 1) : 0.0
            where h in 0:H + 2, w in 0:W + 2
        O(n,c,h,w) +=! padded(n, c, h + kh, w + kw) * K(c,kh,kw)
    }"""
    image, filters = fenced(integers(4, 9, 56, 56)), integers(9, 3, 3)
    executor = tc.compile(text, "depthwise", None, image, filters)
    assert "private   padded" in executor.explain()
    assert "I" in tensors_asked_for(executor)
    expected = torch.nn.functional.conv2d(image, filters[:, None], padding=1, groups=9)
    assert torch.equal(executor(image, filters), expected)


@pytest.mark.parametrize("images", [1, 5])
def test_the_next_image_of_a_sum_over_images_is_asked_for(
    images: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind those of all other channels, whose rows are added up."""
    monkeypatch.setenv("TC_MACHINE", ROOMY)
    text = """def sums(float(N,C,H,W) I) -> (O) {
        O(c) +=! I(n,c,h,w) * I(n,c,h,w+1) where w in 0:W - 1
    }"""
    image = fenced(integers(images, 30, 40, 40))
    executor = tc.compile(text, "sums", None, image)
    assert "rows:" in executor.explain()
    assert ("I" in tensors_asked_for(executor)) == (images > 1)
    expected = (image[..., :-1] * image[..., 1:]).sum((0, 2, 3))
    assert torch.equal(executor(image), expected)


def test_lines_of_the_next_product_are_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All steps of a product together ask for every line of the next one's operand."""
    monkeypatch.setenv("TC_MACHINE", ROOMY)
    x, y = integers(64, 10, 64), integers(64, 16, 64)
    executor = tc.compile(BATCH, "batch", None, x, y)
    (place,) = (line for line in asked_for(executor, 2) if "*)X)" in line)
    # One block of results, whose 64 steps ask for 40 lines, 16 elements each.
    assert "10 of n x 16 of k" in executor.explain()
    found = re.search(r" \+ uint64\((.+)\)\), 0, 2, 1\)", place)
    assert found, place
    expression = re.sub(r"\(int64\)|int64", "", found[1])
    batch, step = sorted(set(re.findall(r"c\d+_\d+", expression)))
    places = [eval(expression, {batch: 0, step: m}) for m in range(40)]
    assert places == list(range(4 * 640, 8 * 640, 64))
    guard = executor.text("stmt").split("prefetch")[0].splitlines()[-2]
    assert f"{step} < 40" in guard


def test_what_a_kernel_has_written_is_in_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", ROOMY)
    text = """def chain(float(B,N,M) X, float(M,K) W, float(K,J) V) -> (T, Z) {
        T(b,n,k) +=! X(b,n,m) * W(m,k)
        Z(b,n,j) +=! T(b,n,k) * V(k,j)
    }"""
    x, w, v = integers(100, 32, 32), integers(32, 32), integers(32, 32)
    executor = tc.compile(text, "chain", None, x, w, v)
    places = "".join(asked_for(executor, 2))
    assert "*)X)" in places
    assert "*)T)" not in places
    t, z = executor(x, w, v)
    assert torch.equal(t, x @ w)
    assert torch.equal(z, t @ v)


@pytest.mark.parametrize(
    ("sizes", "stride", "asked"),
    [
        # Rows of an image's channels lie pages apart; of the next row of results, two are new.
        ((2, 32, 29, 29), 2, True),
        ((3, 9, 40, 33), 2, True),
        ((2, 32, 30, 30), 1, True),
        ((1, 512, 12, 12), 1, True),
        # Runs a few lines apart are left to the processor.
        ((2, 256, 7, 7), 1, False),
    ],
)
def test_the_next_rows_of_an_image_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...], stride: int, asked: bool
) -> None:
    monkeypatch.setenv("TC_MACHINE", ROOMY)
    text = f"""def convolution(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {{
        O(n,f,h,w) +=! I(n,c,{stride}*h+kh,{stride}*w+kw) * K(f,c,kh,kw)
    }}"""
    # By twos, few enough filters that columns are unrolled with vectors of 8 as well.
    image, filters = integers(*sizes), integers(32 // stride, sizes[1], 3, 3)
    executor = tc.compile(text, "convolution", None, image, filters)
    assert "I: one element for all lanes" in executor.explain()
    assert ("I" in tensors_asked_for(executor)) == asked
    expected = torch.nn.functional.conv2d(image, filters, stride=stride)
    assert torch.equal(executor(image, filters), expected)


def test_rows_that_the_kernel_itself_has_padded_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TC_MACHINE", ROOMY)
    text = """def convolution(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
        P(n,c,h,w) = h >= 1 && h <= H && w >= 1 && w <= W ? I(n,c,h-1,w-1) : 0.0
            where h in 0:H+2, w in 0:W+2
        O(n,f,h,w) +=! P(n,c,h+kh,w+kw) * K(f,c,kh,kw)
    }"""
    image, filters = integers(2, 32, 28, 28), integers(32, 32, 3, 3)
    executor = tc.compile(text, "convolution", None, image, filters)
    assert "P" in tensors_asked_for(executor)
    assert torch.equal(
        executor(image, filters), torch.nn.functional.conv2d(image, filters, padding=1)
    )


SOFTMAX = """def softmax(float(N,D) I) -> (O) {
    largest(n) max=! I(n,d)
    e(n,d) = exp(I(n,d) - largest(n))
    total(n) +=! e(n,d)
    O(n,d) = e(n,d) / total(n)
}"""


@pytest.mark.parametrize("columns", [1024, 1000, 259, 128])
@pytest.mark.parametrize("rows", [1, 7, 100])
def test_the_next_row_is_asked_for_where_loops_pass_over_each(rows: int, columns: int) -> None:
    values = torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows))
    result, ahead = run(SOFTMAX, fenced(values))
    # Few rows have loops of their own for every statement, and a short row has no loop over it.
    assert ahead == (rows == 100 and columns > 128)
    torch.testing.assert_close(result, values.softmax(1), rtol=1e-5, atol=0)


def test_rows_longer_than_a_cache_are_not() -> None:
    values = torch.randn(7, 10_000)
    result, ahead = run(SOFTMAX, values)
    assert not ahead
    torch.testing.assert_close(result, values.softmax(1), rtol=1e-5, atol=0)


def test_rows_of_two_operands_with_other_strides() -> None:
    text = """def f(float(N,D) A, float(N,D) B) -> (O) {
        s(n) +=! A(n,d) * B(n,d)
        O(n,d) = A(n,d) / (1.0 + exp(s(n) * B(n,d)))
    }"""
    # Sums near 1: of larger ones, exp would be as inexact as they are.
    a, b = torch.randn(50, 600)[:, 44:556] / 16, torch.randn(100, 512)[::2]
    result, ahead = run(text, a, b)
    assert ahead
    products = (a * b).sum(1, keepdim=True)
    torch.testing.assert_close(result, a / (1 + torch.exp(products * b)), rtol=1e-4, atol=1e-5)
