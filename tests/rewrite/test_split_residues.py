"""Sums under conditions on residues, as strides make them, have no terms that are left out.

Values are small integers, so that sums are exact in every order.
"""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from exact import integers
from torch import Tensor

import tensor_comprehensions as tc
from tensor_comprehensions import reference

OWN = tc.MappingOptions().matchLibraryCalls(False)


def compiled(text: str, *values: object) -> tc.Executor:
    entry = re.findall(r"^\s*def (\w+)", text, re.M)[0]
    return tc.compile(text, entry, OWN, *values)


def is_split(executor: tc.Executor) -> bool:
    return "by residues" in executor.explain()


@pytest.mark.sampled
@pytest.mark.parametrize("stride", [(2, 2), (3, 2), (1, 2), (4, 3)])
@pytest.mark.parametrize("kernel", [(4, 4), (3, 3), (2, 5), (1, 1)])
@pytest.mark.parametrize("size", [(7, 5), (8, 18)])
def test_transposed_convolutions(
    stride: tuple[int, int], kernel: tuple[int, int], size: tuple[int, int]
) -> None:
    image, weight, bias = integers(2, 3, *size), integers(3, 20, *kernel), integers(20)
    executor = compiled(tc.ops.source("transposed_convolution"), image, weight, bias, *stride)
    assert is_split(executor)
    wanted = F.conv_transpose2d(image, weight, bias, stride)
    assert torch.equal(executor(image, weight, bias, *stride), wanted)


def gradients(result: Tensor, leaves: list[Tensor], received: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(result, leaves, received)


@pytest.mark.sampled
@pytest.mark.parametrize("definition", ["strided_convolution", "transposed_convolution"])
@pytest.mark.parametrize("stride", [(2, 2), (3, 1), (2, 4)])
@pytest.mark.parametrize("kernel", [(3, 3), (4, 2), (1, 1)])
@pytest.mark.parametrize("size", [(9, 12), (8, 7)])
def test_derivatives_of_strided_convolutions(
    definition: str, stride: tuple[int, int], kernel: tuple[int, int], size: tuple[int, int]
) -> None:
    transposed = definition == "transposed_convolution"
    convolution = F.conv_transpose2d if transposed else F.conv2d
    filters = (3, 5) if transposed else (5, 3)
    leaves = [integers(2, 3, *size), integers(*filters, *kernel), integers(5)]
    for leaf in leaves:
        leaf.requires_grad_()
    wanted = convolution(*leaves, stride)
    received = integers(*wanted.shape)
    operator = getattr(tc.define(tc.ops.source(definition), namespace="tc_residues"), definition)
    result = tc.make_autograd(operator)(*leaves, *stride)
    assert torch.equal(result, wanted)
    for a, b in zip(gradients(result, leaves, received), gradients(wanted, leaves, received)):
        assert torch.equal(a, b)


TEXTS = {
    # The text, and the sizes of its inputs.
    "offset": (
        "def f(float(N) A, float(K) B) -> (O) { O(y) +=! (y + 2 - k) % 3 == 0 ? A(y) * B(k) : 0 }",
        ((20,), (11,)),
    ),
    "sum": (
        "def f(float(N) A, float(K) B) -> (O) { O(y) +=! (y + k) % 3 == 1 ? A(y) * B(k) : 0 }",
        ((20,), (11,)),
    ),
    "whole numbers of steps": (
        "def f(float(N) A, float(K) B) -> (O) { O(y) +=! (y + 2 - k) % 3 == 0 ? A(y) * B(k) : 0 }",
        ((21,), (12,)),
    ),
    "a sum over whole numbers of steps": (
        "def f(float(N) A, float(K) B) -> (O) { O(y) +=! (y + k) % 3 == 1 ? A(y) * B(k) : 0 }",
        ((21,), (12,)),
    ),
    "one index of the results": (
        "def f(float(M, N) A, float(K) B) -> (O) { "
        "O(x, y) +=! (y - k) % 2 == 0 ? A(x, y) * B(k) : 0 }",
        ((5, 21), (7,)),
    ),
    "other conditions": (
        "def f(float(M, N) A, float(K) B) -> (O) { "
        "O(x, y) +=! (y - k) % 2 == 0 && A(x, y) > 0 ? A(x, y) * B(k) : 0 }",
        ((5, 21), (7,)),
    ),
    "no term for some residues": (
        "def f(float(N) A, float(K) B) -> (O) { O(y) +=! (y - k) % 5 == 0 ? A(y) * B(k) : 0 }",
        ((20,), (3,)),
    ),
    "fewer results than residues": (
        "def f(float(N) A, float(K) B) -> (O) { O(y) +=! (y - k) % 7 == 0 ? A(y) * B(k) : 0 }",
        ((4,), (30,)),
    ),
    "a large modulus": (
        "def f(float(N) A, float(K) B) -> (O) { "
        "O(y) +=! (y + 700 - k) % 1000 == 0 ? A(y) * B(k) : 0 }",
        ((4321,), (2345,)),
    ),
    "a sum with a large modulus": (
        "def f(float(N) A, float(K) B) -> (O) { O(y) +=! (y + k) % 997 == 5 ? A(y) * B(k) : 0 }",
        ((4321,), (1500,)),
    ),
    "a modulus beyond all results": (
        "def f(float(N) A, float(K) B) -> (O) { O(y) +=! (y - k) % 40 == 0 ? A(y) * B(k) : 0 }",
        ((20,), (50,)),
    ),
    "added to what is there": (
        "def f(float(N) A, float(K) B) -> (O) { O(y) = A(y) + 1 "
        "O(y) += (y + 2 - k) % 3 == 0 ? A(y) * B(k) : 0 }",
        ((20,), (11,)),
    ),
    "added where residues have terms": (
        "def f(float(M, N) A, float(K) B) -> (O) { O(y, x) = A(x, y) + 1 "
        "O(y, x) += (y - k) % 4 == 0 ? A(x, y) * B(k) : 0 }",
        ((5, 20), (3,)),
    ),
    "two sums": (
        "def f(float(N) A, float(K) B) -> (O) { O(y) +=! (y - k) % 3 == 0 ? A(y) * B(k) : 0 "
        "O(y) += (y + 1 - k) % 5 == 0 ? A(y) + B(k) : 0 }",
        ((20,), (11,)),
    ),
    "the largest of what is there": (
        "def f(int32(N) A, int32(K) B) -> (O) { O(y) = A(y) "
        "O(y) max= (y - k) % 3 == 0 ? A(y) * B(k) : -2147483647 - 1 }",
        ((20,), (11,)),
    ),
    "a product": (
        "def f(float(N) A, float(K) B) -> (O) { O(y) *=! (y - k) % 4 == 0 ? A(y) + B(k) : 1 }",
        ((9,), (8,)),
    ),
    "no remainder in the text": (
        "def f(float(N) A, float(K) B) -> (O) { "
        "O(y) +=! (y - k) / 3 * 3 == y - k ? A(y) * B(k) : 0 }",
        ((20,), (11,)),
    ),
    "two conditions that say it": (
        "def f(float(N) A, float(K) B) -> (O) { "
        "O(y) +=! (y - k) % 4 == 2 || (y - k) % 4 == 0 || (k - y) % 4 == 2 ? A(y) * B(k) : 0 }",
        ((20,), (11,)),
    ),
    "ranges that start elsewhere": (
        "def f(float(N) A, float(K) B) -> (O) { "
        "O(y) +=! (y - k) % 3 == 0 ? A(y) * B(k) : 0 where y in 4:20, k in 2:9 }",
        ((20,), (11,)),
    ),
}


@pytest.mark.parametrize(("text", "sizes"), TEXTS.values(), ids=TEXTS)
def test_sums_by_residues(text: str, sizes: tuple[tuple[int, ...], ...]) -> None:
    dtype = torch.int32 if "int32" in text else torch.float32
    values = [integers(*s, dtype=dtype) for s in sizes]
    executor = compiled(text, *values)
    assert is_split(executor)
    assert torch.equal(executor(*values), reference.run(text, "f", *values))


DIGITS = {
    "a transposed convolution": (
        "Y(o, y, x) +=! X(c, y / 2, x / 3) * K(c, o, y % 2, x % 3) where y in 0:2*H, x in 0:3*W"
    ),
    "rows that end anywhere": (
        "Y(o, y, x) +=! X(c, y / 2, x / 3) * K(c, o, y % 2, x % 3)"
        " where y in 0:2*H - 1, x in 0:3*W - 2"
    ),
    "rows that begin anywhere": (
        "Y(o, y, x) +=! X(c, (y + 1) / 2, (x + 4) / 3) * K(c, o, (y + 1) % 2, (x + 4) % 3)"
        " where y in 0:2*H - 1, x in 0:3*W - 4"
    ),
    "below nothing": (
        "Y(o, y, x) +=! x >= 2 ? X(c, y, (x - 2) / 3) * K(c, o, 0, (x - 2) % 3) : 0"
        " where y in 0:H, x in 0:3*W"
    ),
    "windows": (
        "Y(o, y, x) +=! X(c, y, x / 2 + r) * K(c, o, 0, x % 2)"
        " where y in 0:H, x in 0:2*W - 2, r in 0:2"
    ),
    "the largest": "Y(o, y, x) max=! X(c, y, x / 3) + K(c, o, 1, x % 3) where y in 0:H, x in 0:3*W",
    "added to what is there": (
        "Y(o, y, x) = 1 where o in 0:O, y in 0:H, x in 0:3*W "
        "Y(o, y, x) += X(c, y, x / 3) * K(c, o, 1, x % 3) where y in 0:H, x in 0:3*W"
    ),
    "beside strides": (
        "Y(o, y, x) +=! (y - r) % 2 == 0 && y >= r ? X(c, (y - r) / 2, x / 3) * K(c, o, r, x % 3)"
        " : 0 where y in 0:2*H, x in 0:3*W, r in 0:2"
    ),
}


@pytest.mark.parametrize("statement", DIGITS.values(), ids=DIGITS)
def test_quotients_and_residues_of_results(statement: str) -> None:
    text = f"def f(float(C, H, W) X, float(C, O, 2, 3) K) -> (Y) {{ {statement} }}"
    values = integers(17, 5, 7), integers(17, 6, 2, 3)
    executor = compiled(text, *values)
    assert is_split(executor)
    assert torch.equal(executor(*values), reference.run(text, "f", *values))


UNDIVIDED = {
    "few terms": "Y(o, x) +=! X(c, x / 3) * K(c, o, x % 3) where c in 0:3, x in 0:3*W",
    "the residue alone": "Y(o, x) +=! X(c, 0) * K(c, o, x % 3) where x in 0:3*W",
    "two numbers": "Y(o, x) +=! X(c, x / 4) * K(c, o, x % 3) where x in 0:3*W",
    "two places": "Y(o, x) +=! X(c, x / 3) * K(c, o, (x + 1) % 3) where x in 0:3*W",
    "the index itself": "Y(o, x) +=! x * X(c, x / 3) * K(c, o, x % 3) where x in 0:3*W",
    "no sum": "Y(c, x) = X(c, x / 3) * K(c, 0, x % 3) where x in 0:3*W",
}


@pytest.mark.parametrize("statement", UNDIVIDED.values(), ids=UNDIVIDED)
def test_other_quotients_stay(statement: str) -> None:
    text = f"def f(float(C, W) X, float(C, O, 3) K) -> (Y) {{ {statement} }}"
    values = integers(17, 7), integers(17, 6, 3)
    executor = compiled(text, *values)
    assert not is_split(executor)
    assert torch.equal(executor(*values), reference.run(text, "f", *values))


def test_derivative_of_windows_that_leave_out_the_last_pixels() -> None:
    """Pixels that no window has get zeros; the others lie in one each."""
    image, weight = integers(2, 3, 23, 30).requires_grad_(), integers(20, 3, 4, 4).requires_grad_()
    text = """def f(float(B,C,H,W) X, float(O,C,4,4) K) -> (Y) {
      Y(b, o, h, w) +=! X(b, c, 4*h + i, 4*w + j) * K(o, c, i, j) where h in 0:H/4, w in 0:W/4 }"""
    result, wanted = (
        tc.make_autograd(tc.define(text).f)(image, weight),
        F.conv2d(image, weight, None, 4),
    )
    received = integers(*wanted.shape)
    for a, b in zip(
        gradients(result, [image, weight], received), gradients(wanted, [image, weight], received)
    ):
        assert torch.equal(a, b)
    source = tc.grad_source(text)
    explained = tc.compile(
        source, "f_grad", OWN, image.detach(), weight.detach(), received
    ).explain()
    assert "by residues" in explained and "where no term counts" in explained


WHOLE = {
    "another value elsewhere": "O(y) +=! (y - k) % 2 == 0 ? A(y) * B(k) : 1",
    "other terms for other residues": "O(y) +=! (y - k) % 4 < 2 ? A(y) * B(k) : 0",
    "no index of the results": "O(y) +=! k % 2 == 0 ? A(y) * B(k) : 0",
    "no index of the reduction": "O(y) +=! y % 2 == 0 ? A(y) * B(k) : 0",
    "twice the index": "O(y) +=! (y - 2 * k) % 4 == 0 ? A(y) * B(k) : 0",
    "a product with data": "O(y) +=! ((y - k) % 2 == 0 ? A(y) : 0) * B(k)",
}


@pytest.mark.parametrize("statement", WHOLE.values(), ids=WHOLE)
def test_others_stay_whole(statement: str) -> None:
    text = f"def f(float(N) A, float(K) B) -> (O) {{ {statement} }}"
    values = integers(20), integers(11)
    executor = compiled(text, *values)
    assert not is_split(executor)
    assert torch.equal(executor(*values), reference.run(text, "f", *values))


FRAMES = """
def frames(float(B, T) x, float(L, F) c, int hop) -> (y) {
    y(b, t, f) +=! x(b, hop * t + l) * c(l, f)
}
"""

PAIR = """
def frames(float(B, T) x, float(L, F) c, float(L, F) s, int hop) -> (re, im) {
    re(b, t, f) +=! x(b, hop * t + l) * c(l, f)
    im(b, t, f) +=! x(b, hop * t + l) * s(l, f)
}
"""


@pytest.mark.parametrize(
    ("length", "window", "hop"),
    [
        (640, 130, 64),
        (777, 130, 65),
        (1000, 400, 160),
        (960, 160, 160),
        (1000, 100, 160),
        (999, 3, 160),
        (5000, 2048, 1500),
        (300, 20, 4000),
    ],
)
@pytest.mark.parametrize("text", [FRAMES, PAIR], ids=["one sum", "two sums"])
def test_derivatives_of_frames(text: str, length: int, window: int, hop: int) -> None:
    """The derivative of every sum over frames is taken apart, whatever their distance is."""
    signal = integers(2, length).requires_grad_()
    filters = [integers(window, 5) for _ in range(1 if text is FRAMES else 2)]
    operator = tc.define(text, namespace=f"tc_frames_{len(filters)}").frames
    results = tc.make_autograd(operator)(signal, *filters, hop)
    results = results if isinstance(results, tuple) else (results,)
    wanted = [signal.unfold(1, window, hop) @ f for f in filters]
    received = [integers(*w.shape) for w in wanted]
    (ours,) = torch.autograd.grad(results, [signal], received)
    (theirs,) = torch.autograd.grad(wanted, [signal], received)
    assert torch.equal(ours, theirs)
    executor = tc.compile(
        tc.grad_source(text, "frames", hop=hop),
        "frames_grad",
        OWN,
        signal.detach(),
        *filters,
        hop,
        *received,
    )
    assert len(set(re.findall(r"d_x\.residues_*", executor.explain()))) == len(filters)


SINGLE = """
def frames(float(B, T) x, float(L) c, int hop) -> (y) {
    y(b, t) +=! x(b, hop * t + l) * c(l)
}
"""


@pytest.mark.parametrize(("length", "window"), [(2000, 400), (1999, 400), (2000, 160), (2000, 30)])
def test_residues_of_short_sums_are_in_the_order_of_the_row(length: int, window: int) -> None:
    """What a last statement puts in its place it reads as it writes it."""
    signal, window = integers(3, length).requires_grad_(), integers(window)
    wanted = signal.unfold(1, len(window), 160) @ window
    received = integers(*wanted.shape)
    text = tc.grad_source(SINGLE, "frames", hop=160)
    executor = tc.compile(text, "frames_grad", OWN, signal.detach(), window, 160, received)
    assert re.search(r"d_x\(.*\) = d_x\.residues\(.*t/160, t % 160\)", executor.explain())
    ours, _ = executor(signal.detach(), window, 160, received)
    (theirs,) = torch.autograd.grad(wanted, [signal], received)
    assert torch.equal(ours, theirs)


def test_terms_that_do_not_count_are_not_computed() -> None:
    """What a residue leaves out adds nothing, whatever it would be."""
    text = "def f(float(N) A, float(K) B) -> (O) { O(y) +=! (y - k) % 2 == 0 ? A(y) * B(k) : 0 }"
    a, b = torch.zeros(8), torch.tensor([1.0, torch.inf, 2.0, torch.nan])
    assert compiled(text, a, b)(a, b).isnan().tolist() == [False, True] * 4


def test_results_by_residues_have_blocks_of_their_own() -> None:
    """They lie in one tensor, but are not the same results."""
    numbers = {"stride_h": 2, "stride_w": 2, "dilation_h": 1, "dilation_w": 1}
    numbers |= {"padding_h": 1, "padding_w": 1}
    name = "general_convolution"
    text = tc.grad_source(tc.ops.source(name), name, **numbers)
    values = torch.zeros(2, 16, 28, 28), torch.zeros(32, 16, 3, 3), torch.zeros(32)
    executor = tc.compile(
        text, f"{name}_grad", OWN, *values, 2, 2, 1, 1, 1, 1, torch.zeros(2, 32, 14, 14)
    )
    groups = executor.explain().split("\n\n")
    found = [g for g in groups if "d_input by residues" in g]
    assert len(found) == 4
    assert all("form      a block of results in registers" in g for g in found)


def test_results_without_terms_are_written_beside_the_blocks() -> None:
    """Of a filter of one pixel, three of four results by twos have no terms."""
    numbers = {"stride_h": 2, "stride_w": 2, "dilation_h": 1, "dilation_w": 1}
    numbers |= {"padding_h": 0, "padding_w": 0}
    name = "general_convolution"
    text = tc.grad_source(tc.ops.source(name), name, **numbers)
    values = integers(1, 48, 8, 8), integers(64, 48, 1, 1), integers(64)
    gradient = integers(1, 64, 4, 4)
    arguments = (*values, 2, 2, 0, 0, 1, 1, gradient)
    executor = tc.compile(text, f"{name}_grad", OWN, *arguments)
    assert "writes beside a block in registers" in executor.explain()
    leaves = [x.clone().requires_grad_() for x in values]
    result = torch.nn.functional.conv2d(*leaves, stride=2)
    wanted = torch.autograd.grad(result, leaves, gradient)
    for ours, theirs in zip(executor(*arguments), wanted, strict=True):
        assert torch.equal(ours, theirs)
