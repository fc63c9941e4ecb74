"""Operands under conditions of indices are written out first, where they are used often.

Values are small integers, so that sums are exact in every order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from exact import DTYPES, integers

import tensor_comprehensions as tc
from tensor_comprehensions import reference


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "TC_MACHINE", "vector_bits=512,vector_registers=32,cores=2,cache_bytes=65536,library_rate=1"
    )


CONVOLUTION = """
def f({T}(N,C,H,W) I, {T}(M,C,KH,KW) K) -> (O) {{
  O(n,m,h,w) +=! ({h} >= {p} && {h} < H + {p} && {w} >= {p} && {w} < W + {p}
                  ? I(n, c, {h} - {p}, {w} - {p}) : {T}(0)) * K(m,c,kh,kw)
    where h in 0:{OH}, w in 0:{OW}, kh in 0:KH, kw in 0:KW
}}"""


def convolution(
    dtype: str, size: tuple[int, int], kernel: int, padding: int, stride: int, dilation: int
) -> str:
    sizes = [(n + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 for n in size]
    return CONVOLUTION.format(
        T=dtype,
        h=f"({stride} * h + {dilation} * kh)",
        w=f"({stride} * w + {dilation} * kw)",
        p=padding,
        OH=sizes[0],
        OW=sizes[1],
    )


def added(executor: tc.Executor) -> str:
    lines = [line for line in executor.explain().splitlines() if line.startswith("  added")]
    return lines[0] if lines else ""


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["float", "double", "half", "bfloat16", "int32", "int8"])
@pytest.mark.parametrize(
    ("kernel", "padding", "stride", "dilation"),
    [(3, 1, 1, 1), (3, 1, 2, 1), (5, 2, 1, 1), (3, 2, 1, 2), (2, 1, 2, 1), (4, 3, 3, 1)],
)
def test_convolutions(dtype: str, kernel: int, padding: int, stride: int, dilation: int) -> None:
    type_ = DTYPES[dtype]
    text = convolution(dtype, (11, 13), kernel, padding, stride, dilation)
    i, k = integers(2, 3, 11, 13, dtype=type_), integers(96, 3, kernel, kernel, dtype=type_)
    executor = tc.compile(text, "f", None, i, k)
    assert "I.padded" in added(executor)
    wanted = F.conv2d(i.double(), k.double(), padding=padding, stride=stride, dilation=dilation)
    actual = tc.define(text, namespace="tc_padded").f(i, k)
    assert torch.equal(actual.double(), wanted.to(type_).double())


@dataclass(frozen=True)
class Case:
    text: str
    sizes: tuple[tuple[int, ...], ...]


PADDED = {
    "backwards": Case(
        "def f(float(N) A, float(M, K) B) -> (O) { O(m, i) +=! "
        "(i - k >= 0 ? A(i - k) : 0) * B(m, k) where i in 0:N, k in 0:K }",
        ((50,), (70, 5)),
    ),
    "neither zero nor a product": Case(
        "def f(float(N, K) A, float(M, K) B) -> (O) { O(m, i) max=! "
        "(i + d < 40 ? A(i + d, k) : -1.5) + B(m, k) where i in 0:N, d in 0:3, k in 0:K }",
        ((40, 7), (100, 7)),
    ),
    "a triangle": Case(
        "def f(float(N, N) A, float(N, M) B) -> (O) { O(i, j) +=! "
        "(k <= i ? A(i, k) : 0) * B(k, j) }",
        ((33, 33), (33, 80)),
    ),
    "two tensors, one used twice": Case(
        "def f(float(N) A, float(N) C, float(M, K) B) -> (O) { O(m, i) +=! "
        "(i + k < N ? A(i + k) : C(i + k - N)) * B(m, k) + (i + k < N ? A(i + k) : C(i + k - N)) "
        "where i in 0:N, k in 0:K }",
        ((50,), (50,), (140, 5)),
    ),
    "steps of several in one index": Case(
        "def f(float(N, K) A, float(M, K) B) -> (O) { O(m, i) +=! "
        "(3 * i < 100 ? A(3 * i, k) : 2) * B(m, k) where i in 0:50, k in 0:K }",
        ((100, 5), (140, 5)),
    ),
    "an operand with a value of its own": Case(
        "def f(float(N) A, float(M, K) B, float s) -> (O) { O(m, i) +=! "
        "(i + k >= 2 && i + k < N + 2 ? exp(A(i + k - 2)) : s) * B(m, k) "
        "where i in 0:N, k in 0:K }",
        ((50,), (140, 5)),
    ),
    "a clamped window": Case(
        "def f(float(N) A, float(M, K) B) -> (O) { O(m, i) +=! "
        "A(min(max(i + k - 2, 0), N - 1)) * B(m, k) where i in 0:N, k in 0:K }",
        ((50,), (140, 5)),
    ),
    "clamped on one side, backwards": Case(
        "def f(float(N, K) A, float(M, K) B) -> (O) { O(m, i) max=! "
        "A(max(i - 2 * d, 0), k) - B(m, k) where i in 0:N, d in 0:3, k in 0:K }",
        ((40, 7), (100, 7)),
    ),
    "a window that repeats every element": Case(
        "def f(float(N) A, float(M, K) B) -> (O) { O(m, i) +=! "
        "A(min((i + k) / 3, N - 1)) * B(m, k) where i in 0:150, k in 0:K }",
        ((50,), (140, 5)),
    ),
    "a window around results": Case(
        "def f(float(B, T, C) x) -> (O) { O(b, t, c) +=! x(b, min(max(t + k - 12, 0), T - 1), c) "
        "where t in 0:T, k in 0:25 }",
        ((3, 60, 7),),
    ),
}
LEFT = {
    "a clamped window, few uses": Case(
        "def f(float(N) A, float(M, K) B) -> (O) { O(m, i) +=! "
        "A(min(i + k, N - 1)) * B(m, k) where i in 0:N, k in 0:K }",
        ((50,), (2, 5)),
    ),
    "a clamped window with gaps": Case(
        "def f(float(N) A, float(M, K) B) -> (O) { O(m, i) +=! "
        "A(min(3 * i + k, N - 1)) * B(m, k) where i in 0:20, k in 0:K }",
        ((50,), (140, 2)),
    ),
    "a clamped window of an index that is in another place, too": Case(
        "def f(float(N, L) A, float(M, K) B) -> (O) { O(m, i) +=! "
        "A(i, min(i + k, L - 1)) * B(m, k) where i in 0:N, k in 0:K }",
        ((50, 50), (140, 5)),
    ),
    "one clamped index": Case(
        "def f(float(N, K) A, float(M, K) B) -> (O) { O(m, i) +=! "
        "A(min(i, N - 1), k) * B(m, k) where i in 0:60, k in 0:K }",
        ((50, 5), (140, 5)),
    ),
    "few uses": Case(
        "def f(float(N) A, float(M, K) B) -> (O) { O(m, i) +=! "
        "(i - k >= 0 ? A(i - k) : 0) * B(m, k) where i in 0:N, k in 0:K }",
        ((50,), (7, 5)),
    ),
    "gaps": Case(
        "def f(float(N) A, float(M, K) B) -> (O) { O(m, i) +=! "
        "(3 * i + k < 50 ? A(3 * i + k) : 0) * B(m, k) where i in 0:20, k in 0:K }",
        ((50,), (140, 2)),
    ),
    "a condition of other indices": Case(
        "def f(float(N) A, float(M, N) B) -> (O) { O(m, i) +=! (k < i ? A(k) : 0) * B(m, k) "
        "where i in 0:100 }",
        ((50,), (140, 50)),
    ),
    "one index in two places": Case(
        "def f(float(N, L) A, float(M, K) B) -> (O) { O(m, i) +=! "
        "(i + k < 50 ? A(i, i + k) : 0) * B(m, k) where i in 0:N, k in 0:K }",
        ((50, 50), (140, 5)),
    ),
    "only under another condition": Case(
        "def f(float(N) A, float(M, K) B) -> (O) { O(m, i) +=! "
        "(m < 3 ? (i + k < 50 ? A(i + k) : 1) : 0) * B(m, k) where i in 0:50, k in 0:K }",
        ((50,), (140, 5)),
    ),
}


def check(case: Case) -> str:
    inputs = [integers(*sizes) for sizes in case.sizes]
    if "float s" in case.text:
        inputs.append(1.5)
    wanted, (bound,) = reference.error_bounds(case.text, "f", *inputs)
    assert np.isfinite(bound).all()  # infinite ones promise nothing
    actual = tc.define(case.text, namespace=f"tc_padded_{abs(hash(case.text))}").f(*inputs)
    assert ((actual.double() - torch.as_tensor(wanted).double()).abs().numpy() <= 2 * bound).all()
    return added(tc.compile(case.text, "f", None, *inputs))


@pytest.mark.parametrize("name", PADDED)
def test_written_out(name: str) -> None:
    assert ".padded" in check(PADDED[name])


@pytest.mark.parametrize("name", LEFT)
def test_left_alone(name: str) -> None:
    assert ".padded" not in check(LEFT[name])


def test_derivatives_too() -> None:
    text = convolution("double", (9, 10), 3, 1, 1, 1)
    i, k = integers(2, 4, 9, 10, dtype=torch.double), integers(80, 4, 3, 3, dtype=torch.double)
    i.requires_grad_(), k.requires_grad_()
    actual = tc.make_autograd(tc.define(text, namespace="tc_padded").f)(i, k)
    wanted = F.conv2d(i, k, padding=1)
    g = integers(*wanted.shape, dtype=torch.double)
    for x, y in zip(
        torch.autograd.grad(actual, (i, k), g), torch.autograd.grad(wanted, (i, k), g), strict=True
    ):
        assert torch.equal(x, y)


def test_infinities_keep_their_meaning() -> None:
    text = """def f(float(N) A, float(M, K) B) -> (O) {
      O(m, i) +=! (i + k < N ? A(i + k) - A(i + k) : 0) * B(m, k) where i in 0:N, k in 0:K
    }"""
    a, b = integers(50), integers(140, 5)
    a[20] = float("inf")
    assert ".padded" in added(tc.compile(text, "f", None, a, b))
    wanted = torch.zeros(140, 50)
    wanted[:, 16:21] = float("nan")
    actual = tc.define(text, namespace="tc_padded_infinities").f(a, b)
    torch.testing.assert_close(actual, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", ["float", "half", "int32", "int8"])
def test_edges_that_are_repeated(dtype: str) -> None:
    text = f"""def f({dtype}(N, C, H, W) I, {dtype}(M, C, 3, 5) K) -> (O) {{
      O(n, m, h, w) +=! I(n, c, min(max(h + kh - 1, 0), H - 1), min(max(w + kw - 2, 0), W - 1))
                        * K(m, c, kh, kw) where h in 0:H, w in 0:W }}"""
    type_ = DTYPES[dtype]
    i, k = integers(2, 3, 9, 11, dtype=type_), integers(96, 3, 3, 5, dtype=type_)
    if dtype == "float":
        i[0, 0, 0, 3], i[1, 2, 8, 10] = float("inf"), float("nan")
    # Sums of half are wide, and so is what they add.
    wide = "I.computed" if dtype == "half" else "I.padded"
    assert wide in added(tc.compile(text, "f", None, i, k))
    wanted = F.conv2d(F.pad(i.double(), (2, 2, 1, 1), mode="replicate"), k.double()).to(type_)
    actual = tc.define(text, namespace=f"tc_padded_edges_{dtype}").f(i, k)
    torch.testing.assert_close(actual, wanted, rtol=0, atol=0, equal_nan=True)
