"""Reads that a condition keeps inside their tensor, beside memory that nobody may touch.

A read that escapes its condition ends the process.
"""

from __future__ import annotations

import zlib

import pytest
import torch
import torch.nn.functional as F
from fenced import fenced

import tensor_comprehensions as tc
from tensor_comprehensions import reference


def integers(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(-3, 4, sizes, generator=torch.Generator().manual_seed(seed)).float()


def check(text: str, expected: torch.Tensor, *inputs: torch.Tensor, at_start: bool) -> None:
    t = tc.define(text, namespace=f"tc_guarded_{zlib.crc32(text.encode())}")
    actual = t.guarded(*(fenced(x, at_start) for x in inputs))
    assert torch.equal(actual, expected)


@pytest.fixture(params=[False, True], ids=["end", "start"])
def at_start(request: pytest.FixtureRequest) -> bool:
    return request.param


SHIFTED = {
    "choice": "(n >= k ? B(n - k, k) : 0)",
    "and": "(n >= k && B(n - k, k) != 9 ? 1 : 0) * B(max(n - k, 0), k)",
    # The same read twice below one condition.
    "twice": "(n >= k && B(n - k, k) != 9 ? B(n - k, k) : 0)",
    "product": "(n < k ? 0 : B(n - k, k) * B(n - k, k) * B(n - k, k))",
    "nested": "(n >= k ? (B(n - k, k) > 0 ? B(n - k, k) : B(n - k, k) + 0) : 0)",
}


@pytest.mark.sampled
@pytest.mark.parametrize("value", SHIFTED)
@pytest.mark.parametrize("sizes", [(9, 20, 17), (17, 33, 20), (33, 16, 5), (1, 19, 19)], ids=str)
def test_sum_of_products(value: str, sizes: tuple[int, ...], at_start: bool) -> None:
    m, n, k = sizes
    text = f"""
    def guarded(float(M, K) A, float(N, K) B) -> (O) {{
      O(m, n) +=! {SHIFTED[value]} * A(m, k) where n in 0:N, k in 0:K
    }}
    """
    a, b = integers(m, k), integers(n, k, seed=1)
    read = b**3 if value == "product" else b
    expected = torch.zeros(m, n)
    for shift in range(min(n, k)):
        expected[:, shift:] += torch.outer(a[:, shift], read[: n - shift, shift])
    check(text, expected, a, b, at_start=at_start)


@pytest.mark.parametrize("value", ["B(k)", "2 * B(k)", "B(k) * B(k)", "-B(k) + A(j)"])
def test_same_element_in_all_lanes(value: str, at_start: bool) -> None:
    """Where no lane is on, it may not be read for all of them."""
    text = f"""
    def guarded(float(J) A, float(N) B) -> (O) {{
      O(k, j) = j + k < N ? {value} : A(j) where k in 0:40
    }}
    """
    for columns, size in ((16, 9), (33, 20), (7, 1)):
        a, b = integers(columns), integers(size, seed=1)
        expected = a.repeat(40, 1)
        for k in range(size):
            on = slice(0, size - k)
            read = {"B(k)": b[k], "2 * B(k)": 2 * b[k], "B(k) * B(k)": b[k] ** 2}
            expected[k, on] = read[value] if value in read else a[on] - b[k]
        check(text, expected, a, b, at_start=at_start)


def test_elementwise(at_start: bool) -> None:
    text = """
    def guarded(float(M, N) A) -> (O) {
      O(m, n) = m > 0 && n > 0 && A(m - 1, n - 1) > A(m, n) ? A(m - 1, n - 1) * A(m - 1, n - 1)
                : n + 1 < N ? A(m, n + 1) : A(m, n) where m in 0:M, n in 0:N
    }
    """
    for m, n in ((1, 1), (3, 17), (8, 33), (20, 5)):
        for a in (integers(m, n), integers(n, m).t()):
            before = torch.zeros(m, n)
            before[1:, 1:] = a[:-1, :-1]
            larger = torch.zeros(m, n, dtype=torch.bool)
            larger[1:, 1:] = a[:-1, :-1] > a[1:, 1:]
            after = torch.cat([a[:, 1:], a[:, -1:]], 1)
            check(text, torch.where(larger, before**2, after), a, at_start=at_start)


@pytest.mark.parametrize("transposed", [False, True])
def test_padded_convolution(transposed: bool, at_start: bool) -> None:
    text = """
    def guarded(float(N, C, H, W) I, float(F, C, 3, 3) K) -> (O) {
      O(n, f, h, w) +=! (h + kh >= 1 && h + kh <= H && w + kw >= 1 && w + kw <= W
                         ? I(n, c, h + kh - 1, w + kw - 1) : 0) * K(f, c, kh, kw)
        where h in 0:H, w in 0:W, kh in 0:3, kw in 0:3
    }
    """
    for n, c, f, h, w in ((1, 3, 17, 9, 20), (2, 16, 4, 5, 33), (2, 8, 33, 3, 2)):
        image, kernel = integers(n, c, h, w), integers(f, c, 3, 3, seed=1)
        if transposed:
            image = image.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)
        check(text, F.conv2d(image, kernel, padding=1), image, kernel, at_start=at_start)


@pytest.mark.parametrize(
    "expression",
    [
        "i > 3 ? 1.0 : i > 3 && i == A(i - 4) ? A(i - 4) : B(i)",
        "i > 3 ? 1.0 : i > 3 ? A(i - 4) : B(i)",
        "i > 3 ? (!(i > 3) && B(i) > 0.0 ? A(i) : 1.0) : B(i)",
        "i > 3 || B(i) == 9.0 ? 1.0 : (i > 3 ? A(i - 4) : B(i))",
    ],
)
def test_a_condition_that_is_known_already(expression: str) -> None:
    t = tc.define(
        f"def known(double(N) A, double(M) B) -> (O) {{ O(i) = {expression} where i in 0:5 }}",
        namespace=f"tc_known_{abs(hash(expression))}",
    )
    a, b = torch.randn(9).double(), torch.randn(13).double()
    expected = torch.where(torch.arange(5) > 3, torch.ones(5).double(), b[:5])
    assert torch.equal(t.known(a, b), expected)


@pytest.mark.parametrize("operator", ["%", "/", "+"])
@pytest.mark.parametrize("kind", ["int8", "int32", "uint8"])
def test_what_an_integer_division_reads_is_inside(kind: str, operator: str) -> None:
    """Its sign is a choice between two expressions that both read the operands."""
    t = tc.define(
        f"""def outside({kind}(N) A, {kind}(P) B, float(X, Y) C) -> (T) {{
          T +=! A(i) {operator} B(i + r) where exists C(r, i)
        }}""",
        namespace=f"tc_division_{kind}_{ord(operator)}",
    )
    a, b = (torch.ones(n, dtype=getattr(torch, kind)) for n in (7, 35))
    with pytest.raises(tc.ShapeError, match=r"reads B\(i \+ r\) outside: i = 1, r = 34 gives"):
        t.outside(a, b, torch.ones(35, 7))


@pytest.mark.parametrize("both", ["&&", "||"])
def test_a_condition_that_no_lane_meets(both: str) -> None:
    """Where LLVM sees that a guarded read is never made, the other side alone decides."""
    inner = "j > 11 && B(j - 12) == 1" if both == "&&" else "j <= 11 || B(j - 12) == 1"
    text = f"""
def f(double(I, J) A, double(N) B) -> (O) {{
  O(i, j) = i == j && j <= 1 ? ({inner} ? 1 : 2) : A(i, j) where j in 0:16
}}"""
    a, b = torch.randn(17, 17, dtype=torch.double), torch.ones(5, dtype=torch.double)
    expected = a[:, :16].clone()
    expected[0, 0] = expected[1, 1] = 2 if both == "&&" else 1
    function = tc.define(text, namespace="tc_guarded").f
    torch.testing.assert_close(function(a, b), expected, rtol=0, atol=0)


def test_a_choice_that_is_one_number_for_a_vector() -> None:
    """Halide's rewrite of every other lane made a vector of its branch."""
    text = """
    def guarded(uint64(N) A, uint64(M) B, int32(L) t) -> (P) {
      P(r) = (r % 2 == 1 ? A(t(0)) % 2 % B(r) : 0)
    }
    """
    a, b, t = torch.tensor([4, 5]), torch.tensor([7, 2, 9]), torch.tensor([1])
    actual = tc.define(text, namespace="tc_guarded_number").guarded(
        a.to(torch.uint64), b.to(torch.uint64), t.to(torch.int32)
    )
    assert actual.tolist() == [0, 1, 0]


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("checked", [True, False])
def test_rows_of_no_table(rows: int, checked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes that a condition switches off read the first element, and of an empty tensor nothing:
    it has no memory at all."""
    if not checked:
        monkeypatch.setenv("TC_CHECK", "0")
    text = f"""
    def guarded_{rows}(float(N, K) A, int32(M) I) -> (O) {{
      O(i, j) = I(j) >= 0 ? A(I(j), i) : 1.0 where i in 0:{rows}
    }}
    """
    t = tc.define(text, namespace=f"tc_guarded_{rows}_{checked}")
    index = torch.full((40,), -1, dtype=torch.int32)
    actual = getattr(t, f"guarded_{rows}")(torch.empty(0, rows), index)
    assert torch.equal(actual, torch.ones(rows, 40))


@pytest.mark.parametrize("type_", ["half", "float", "int32"])
@pytest.mark.parametrize(
    "alternating", ["l % 2", "l % 2 > 0", "(l % 2 == 0 ? A(0, 0) : A(0, 1))"], ids=str
)
@pytest.mark.parametrize("columns", [2, 8])
def test_choices_beside_lanes_that_alternate(columns: int, alternating: str, type_: str) -> None:
    """Every other lane is computed by itself, with a read that is one for all lanes and needs some
    lane's condition, which has a name."""
    dtype = {"half": torch.half, "float": torch.float, "int32": torch.int32}[type_]
    text = f"""
    def guarded({type_}(M, N) A, {type_}(I, K, L) B, {type_}(J) C, {type_}(I) D) -> (O) {{
      O +=! A(i, i) < 4 ? (B(i, k, l / 2) != 3 ? D(i) : C(k)) : {alternating}
    }}"""
    inputs = [integers(*s, seed=k) for k, s in enumerate(((4, 6), (1, 3, columns), (5,), (1,)))]
    for first in (1, 5):
        inputs[0][0, 0] = first
        given = [x.to(dtype) for x in inputs]
        wanted = torch.as_tensor(reference.run(text, "guarded", *given))
        assert torch.equal(tc.compile(text, "guarded", None, *given)(*given), wanted)


# Terms of a sum over t of each s, which read X backwards along s.
BACKWARDS = {
    "neighbours": "s <= t ? X(t - s) * Y(t) : 0",
    "of two ends": "s <= t && t - s < 5 ? X(t - s) * Y(t) : 0",
    "the other way round": "s > t ? 0 : X(t - s) * Y(t)",
    "where not": "!(s > t || Z(s) == 0) ? X(t - s) * Y(t) : 0",
    "where data says so": "s <= t && Z(s) > 0 ? X(t - s) * Y(t) : 0",
    "where the element says so": "s <= t && X(t - s) != 0 ? X(t - s) * Y(t) : 0",
    "in both branches": "s <= t ? X(t - s) * Y(t) : X(t - s + L)",
}


@pytest.mark.sampled
@pytest.mark.parametrize("length", [1, 5, 16, 37, 130])
@pytest.mark.parametrize("term", BACKWARDS.values(), ids=BACKWARDS)
@pytest.mark.parametrize("dtype", ["float", "double", "half", "int32", "int64", "uint8"])
def test_backwards(term: str, dtype: str, length: int, at_start: bool) -> None:
    text = f"""def f({dtype}(L) X, {dtype}(L) Y, int32(L) Z) -> (O) {{
        O(s) +=! {term} where t in 0:L, s in 0:L }}"""
    types = {"float": torch.float, "double": torch.double, "half": torch.half, "uint8": torch.uint8}
    values = [torch.randint(0, 3, (length,)) for _ in range(3)]
    element = types.get(dtype) or getattr(torch, dtype)
    inputs = values[0].to(element), values[1].to(element), values[2].int()
    expected = reference.run(text, "f", *inputs)
    run = tc.compile(text, "f", None, *inputs)
    assert torch.equal(run(*(fenced(x, at_start) for x in inputs)), expected)


def test_backwards_is_no_gather() -> None:
    text = """def f(float(L) X, float(L) Y) -> (O) {
        O(s) +=! s <= t ? X(t - s) * Y(t) : 0 where t in 0:L, s in 0:L }"""
    x = torch.randn(128)
    run = tc.compile(text, "f", None, x, x)
    assert "gather" not in run.assembly
    expected = [(x[: 128 - s].double() * x[s:].double()).sum() for s in range(128)]
    torch.testing.assert_close(run(x, x), torch.stack(expected).float(), rtol=1e-4, atol=1e-4)
