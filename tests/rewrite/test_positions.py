"""argmin= and argmax=: every type, ties, NaN, several indices, on both targets, against PyTorch."""

from __future__ import annotations

import math

import emulated
import pytest
import torch

import tensor_comprehensions as tc
from tensor_comprehensions._define import parse

TYPES = {
    "bool": torch.bool,
    "uint8": torch.uint8,
    "uint16": torch.uint16,
    "uint32": torch.uint32,
    "uint64": torch.uint64,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "float": torch.float32,
    "double": torch.float64,
}
ROWS = """def rows({0}(M, K) A) -> (L, H) {{
  L(m) argmin=! A(m, k)
  H(m) argmax=! A(m, k)
}}"""


def define(text: str) -> tc.TC:
    return tc.define(text, namespace="tc_positions")


def first(a: torch.Tensor, largest: bool) -> torch.Tensor:
    """The first position along the last dimension; NaN is more extreme than any number."""
    x = a.to(torch.float64) if a.is_floating_point() else a.to(torch.int64)
    if a.dtype == torch.uint64:  # in the order of int64
        x = a.view(torch.int64) ^ torch.iinfo(torch.int64).min
    best = x.amax(-1, keepdim=True) if largest else x.amin(-1, keepdim=True)
    hit = (x == best) | x.isnan() if x.is_floating_point() else x == best
    places = torch.arange(a.shape[-1]).expand(a.shape)
    return places.masked_fill(~hit, a.shape[-1]).amin(-1)


def values(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    """Few different ones, so that there are ties, and the extremes of the type."""
    if dtype == torch.bool:
        return torch.rand(sizes) < 0.5
    if dtype.is_floating_point:
        a = torch.randint(-4, 5, sizes).to(dtype) / 2
        info = torch.finfo(dtype)
        a.view(-1)[::7] = math.copysign(0.0, -1)
        a.view(-1)[3::11] = info.max
        a.view(-1)[5::13] = info.min
        a.view(-1)[6::17] = math.inf
        return a
    info = torch.iinfo(dtype)
    table = [info.min, info.max, info.max // 2, info.max - 1, 1]
    bits = dtype.itemsize * 8
    table = [x - 2**bits if x >= 2 ** (bits - 1) else x for x in table]
    signed = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}[bits]
    return torch.tensor(table, dtype=signed)[torch.randint(0, 5, sizes)].view(dtype)


@pytest.mark.sampled
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 64, 70, 300])
@pytest.mark.parametrize("name", TYPES)
def test_types(name: str, length: int) -> None:
    a = values(TYPES[name], 9, length)
    low, high = tc.define(ROWS.format(name), namespace=f"tc_positions_{name}").rows(a)
    assert low.dtype == high.dtype == torch.int64
    assert torch.equal(low, first(a, False))
    assert torch.equal(high, first(a, True))


@pytest.mark.parametrize("length", [3, 16, 33, 140])
@pytest.mark.parametrize("name", ["half", "bfloat16", "float", "double"])
def test_nan_as_in_torch(name: str, length: int) -> None:
    """The first NaN is where both point; its sign does not count."""
    a = torch.randn(length + 1, length).to(TYPES[name])
    a[:length].fill_diagonal_(math.nan)
    a[1:length, 0] = -math.nan
    a[:length, length - 1] = math.nan
    low, high = tc.define(ROWS.format(name), namespace=f"tc_positions_{name}").rows(a)
    assert torch.equal(low, a.argmin(1))
    assert torch.equal(high, a.argmax(1))


@pytest.mark.parametrize("name", ["float", "double"])
def test_all_kinds_of_infinities_and_zeros(name: str) -> None:
    rows = [
        [-math.inf, -math.inf, -math.inf],
        [math.inf, math.inf, math.inf],
        [0.0, -0.0, 0.0],
        [-0.0, 0.0, -0.0],
        [-math.inf, math.nan, math.inf],
        [1e-45, -1e-45, 0.0],
        [5e-324, -5e-324, -0.0],
    ]
    a = torch.tensor(rows, dtype=TYPES[name])
    low, high = tc.define(ROWS.format(name), namespace=f"tc_positions_{name}").rows(a)
    assert torch.equal(low, a.argmin(1))
    assert torch.equal(high, a.argmax(1))


@pytest.mark.parametrize("sizes", [(5, 3), (64, 70), (300, 1), (1, 300), (40, 9)])
def test_columns_and_all(sizes: tuple[int, int]) -> None:
    t = define("""
    def columns(float(M, K) A) -> (I) { I(k) argmax=! A(m, k) }
    def flat(float(M, K) A) -> (I) { I argmax=! A(m, k) }
    def least(float(M, K) A) -> (I) { I argmin=! A(m, k) }
    """)
    a = torch.randn(sizes).mul(4).round()
    assert torch.equal(t.columns(a), a.argmax(0))
    assert t.flat(a) == a.argmax()
    assert t.least(a) == a.argmin()
    b = a.t().contiguous().t()
    assert torch.equal(t.columns(b), b.argmax(0))
    assert t.flat(b) == a.argmax()


def test_order_of_appearance() -> None:
    """Positions count over k, m here: the first to appear is the slowest."""
    t = define("def f(float(M, K) A, float(K) w) -> (I) { I argmax=! w(k) * A(m, k) }")
    a, w = torch.randn(7, 5), torch.randn(5)
    assert t.f(a, w) == (a * w).t().argmax()
    t = define("def g(float(N, H, W) A) -> (I) { I(n) argmin=! A(n, h, w) }")
    a = torch.randint(0, 4, (6, 5, 9)).float()
    assert torch.equal(t.g(a), a.flatten(1).argmin(1))


def test_many_terms_in_parallel() -> None:
    t = define("""
    def single(float(K) x) -> (I, J) { I argmax=! x(k)  J argmin=! x(k) }
    def wide(double(K) x) -> (I, J) { I argmax=! x(k)  J argmin=! x(k) }
    """)
    x = torch.randint(-500, 500, (200_003,)).float()
    for f, y in ((t.single, x), (t.wide, x.double())):
        high, low = f(y)
        assert high == first(y, True) and low == first(y, False)
        y[150_000:] = math.nan
        high, low = f(y)
        assert high == low == 150_000


def test_the_value_of_the_index() -> None:
    """Not its distance from where it starts."""
    t = define("""
    def part(float(N) A) -> (I) { I argmax=! A(k) where k in 2:5 }
    def before(float(N) A) -> (I) { I argmax=! A(k + 4) where k in -4:0 }
    def shifted(float(N) A) -> (I) { I argmin=! A(k - 3) }
    """)
    a = torch.tensor([9.0, 8, 1, 5, 5, 7, 7])
    assert t.part(a) == 3
    assert t.before(a) == -4
    assert t.shifted(a) == 5


@pytest.mark.parametrize("name", ["float", "double"])
def test_values_that_are_computed(name: str) -> None:
    t = tc.define(
        f"""
    def nearest({name}(M, D) X, {name}(C, D) Y) -> (S, I) {{
      S(m, c) +=! (X(m, d) - Y(c, d)) * (X(m, d) - Y(c, d))
      I(m) argmin=! S(m, c)
    }}
    def peak({name}(M, K) A, {name}(K) w, {name}(K) b) -> (I) {{
      I(m) argmax=! exp(A(m, k)) * w(k) + b(k)
    }}
    def steepest({name}(N) A) -> (I) {{
      I argmax=! k > 0 ? A(k) - A(k - 1) : 0 where k in 0:N
    }}
    """,
        namespace=f"tc_positions_{name}",
    )
    x, y = torch.randn(30, 7, dtype=TYPES[name]), torch.randn(11, 7, dtype=TYPES[name])
    distances, nearest = t.nearest(x, y)
    assert torch.equal(nearest, distances.argmin(1))
    a, w, b = (torch.randn(s, dtype=TYPES[name]) for s in ((12, 40), (40,), (40,)))
    assert torch.equal(t.peak(a, w, b), (a.exp() * w + b).argmax(1))
    steps = torch.cat([torch.zeros(1, dtype=TYPES[name]), a[0, 1:] - a[0, :-1]])
    assert t.steepest(a[0]) == steps.argmax()


def test_types_of_results() -> None:
    t = define("""
    def narrow(float(M, K) A) -> (int32(M) I) { I(m) argmax=! A(m, k) }
    def called(float(M, K) A) -> (I) { I = narrow(A) }
    def chosen(float(M, K) A) -> (V) { I(m) argmax=! A(m, k)  V(m) = A(m, I(m)) }
    def later(float(M, K) A) -> (I) { I(m) = 0  I(m) argmax=! A(m, k) }
    def plain(float(M, K) A) -> (I) { I(m) argmax= A(m, k) }
    """)
    a = torch.randn(6, 20)
    assert t.narrow(a).dtype == t.called(a).dtype == torch.int32
    assert t.later(a).dtype == t.plain(a).dtype == torch.int64
    for f in (t.narrow, t.called, t.later, t.plain):
        assert torch.equal(f(a).long(), a.argmax(1))
    assert torch.equal(t.chosen(a), a.amax(1))


def test_canonical_text() -> None:
    for op in ("argmin", "argmax"):
        text = f"def f(float(M, K) A) -> (I) {{ I(m) {op}= A(m, k) }}"
        (definition,) = parse(text).definitions
        assert f"I(m) {op}=! A(m, k)" in definition.text
        assert parse(definition.text).definitions[0].text == definition.text


def test_explained_in_the_words_of_the_text() -> None:
    text = "def f(float(M, K) A) -> (I) { I(m) argmax=! A(m, k) }"
    explained = tc.compile(text, "f", None, torch.randn(50, 70)).explain()
    assert "I(m) argmax=! A(m, k), in I.both" in explained
    assert "I(m) argmax=! A(m, k), the positions alone, in I" in explained
    assert "added     I.both" in explained


def test_nothing_to_choose_from() -> None:
    t = define("def choose(float(M, K) A) -> (I) { I(m) argmax= A(m, k) }")
    assert t.choose(torch.empty(0, 3)).shape == (0,)
    for rows in (0, 4):
        with pytest.raises(tc.ShapeError) as error:
            t.choose(torch.empty(rows, 0))
        assert str(error.value) == (
            "choose: I argmax=! looks along index k, which has no value for these inputs "
            f"(M = {rows}, K = 0); there is no index to give, so pass larger ones (line 1)"
        )


@pytest.mark.parametrize("kept", [0, 2])
def test_more_points_than_positions(kept: int) -> None:
    """2^63 and 2^64 of them; the last of 2^62 is an int64."""
    large = torch.zeros(1, 1, dtype=torch.uint8).expand(32768, 65536)
    text = """def f(uint8(N, M) A, uint8(K) B) -> (O) {
      O(x) argmax=! A(i, j) * A(k, l) * B(p) where x in 0:%d
    }"""
    t = define(text % kept)
    for size in (2, 4):
        with pytest.raises(tc.ShapeError) as error:
            t.f(large, large[0, :size])
        counts = f"32768 * 65536 * 32768 * 65536 * {size}"
        assert str(error.value) == (
            f"f: O argmax=! looks along {counts} points, of which int64 does not count the last "
            f"for these inputs (N = 32768, M = 65536, K = {size}); look along fewer indices at "
            "once, or pass smaller ones (line 2)"
        )
    if kept == 0:
        assert t.f(large, large[0, :1]).shape == (0,)


@pytest.mark.parametrize("options", [None, "naive"])
@pytest.mark.parametrize("name", ["bool", "int16", "uint32", "half", "float", "double", "uint64"])
def test_cuda(name: str, options: str | None) -> None:
    a = values(TYPES[name], 9, 75)
    if TYPES[name].is_floating_point:
        a[4, 40:50] = math.nan
    wanted = first(a, False), first(a, True)
    executor = tc.compile(ROWS.format(name), "rows", options, a, target="cuda:sm_90")
    outputs = torch.full((9,), -7), torch.full((9,), -7)
    emulated.run(executor, (a,), outputs, initial=0)
    assert torch.equal(outputs[0], wanted[0]) and torch.equal(outputs[1], wanted[1])


@pytest.mark.parametrize("options", [None, "naive"])
def test_options(options: str | None) -> None:
    a = torch.randn(33, 47, dtype=torch.float64)
    t = tc.define(ROWS.format("double"), options, namespace="tc_positions_options")
    low, high = t.rows(a)
    assert torch.equal(low, a.argmin(1)) and torch.equal(high, a.argmax(1))
