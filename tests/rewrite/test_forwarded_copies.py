"""Temporaries of which another tensor is a copy are computed in its place, and no more of them than
is copied. Images padded by nothing are read where they lie.

Values are small integers, so that sums are exact in every order.
"""

from __future__ import annotations

import pytest
import torch
from exact import integers

import tensor_comprehensions as tc
from tensor_comprehensions import reference

OWN = tc.MappingOptions().matchLibraryCalls(False)


def run(text: str, *values: object) -> tuple[object, str]:
    """The results, and what explain() says is gone."""
    executor = tc.compile(text, "f", OWN, *values)
    gone = [line for line in executor.explain().splitlines() if line.startswith("  inlined")]
    return executor(*values), gone[0].split(maxsplit=1)[1] if gone else ""


def test_the_middle_of_a_product() -> None:
    text = """def f(float(M,K) A, float(K,N) B) -> (O) {
      T(m,n) +=! A(m,k) * B(k,n)
      O(i,j) = T(i + 3, j + 1) where i in 0:5, j in 0:7
    }"""
    a, b = integers(10, 6), integers(6, 9)
    executor = tc.compile(text, "f", OWN, a, b)
    assert torch.equal(executor(a, b), (a @ b)[3:8, 1:8])
    assert "m 5, n 7; reduction over k 6" in executor.explain()


def test_several_statements_compute_it() -> None:
    text = """def f(float(M,K) A, float(K,N) B, float(N) c) -> (O) {
      T(m,n) +=! A(m,k) * B(k,n)
      T(m,n) += c(n)
      T(m,n) = fmax(T(m,n), 0)
      O(m,n) = T(m,n + 2) where n in 0:4
    }"""
    a, b, c = integers(10, 6), integers(6, 9), integers(9)
    result, gone = run(text, a, b, c)
    assert gone == "T"
    assert torch.equal(result, (a @ b + c).clamp(min=0)[:, 2:6])


def test_ranges_that_start_elsewhere() -> None:
    text = """def f(float(N) a) -> (O) {
      T(i) = a(i + 2) * i where i in -2:6
      O(j) = T(j - 1) where j in 1:5
    }"""
    a = integers(8)
    result, gone = run(text, a)
    assert gone == "T"
    assert torch.equal(result, a[2:6] * torch.arange(4))


@pytest.mark.parametrize(
    "text",
    [
        # It has another use.
        "T(i) = a(i) * 2  O(i) = T(i + 1) where i in 0:4  P(i) = T(i) + 1",
        # Only a part of it is computed last.
        "T(i) = a(i) * 2  T(i) += a(i) where i in 0:5  O(i) = T(i + 1) where i in 0:6  P(i) = a(i)",
        # The copy has another order, steps or type.
        "T(i,j) +=! a(i) * a(j) * a(k)  O(i,j) = T(j,i)  P(i) = a(i)",
        "T(i) +=! a(i) * a(k)  O(i) = T(2 * i) where i in 0:4  P(i) = a(i)",
        "T(i) +=! a(i) * a(k)  O(i) = double(T(i))  P(i) = a(i)",
        # What is copied to is used before.
        "O(i) = a(i)  T(i) +=! O(k) * a(i)  O(i) = T(i)  P(i) = a(i)",
        # It changes behind the copy.
        "T(i) = a(i) * 2  O(i) = T(i)  T(i) = a(i) + 1  P(i) = a(i)",
        # Not all of its elements are of one statement, nor are they plain ones.
        "T(i) +=! a(i) * a(k)  T(i) = a(i) where i in 1:8  O(i) = T(i)  P(i) = a(i)",
    ],
)
def test_what_is_no_copy_of_one_temporary(text: str) -> None:
    text = f"def f(float(N) a) -> (O, P) {{ {text} }}"
    a = integers(8)
    result, gone = run(text, a)
    assert gone == ""
    wanted = reference.run(text, "f", a)
    for ours, theirs in zip(result, wanted, strict=True):
        assert torch.equal(ours, torch.as_tensor(theirs))


def test_results_that_are_also_read_keep_what_they_hold() -> None:
    text = """def f(float(N) a) -> (O) {
      O(i) += a(i)
      T(i) +=! O(k) * a(i)
      O(i) = T(i)
    }"""
    a, o = integers(8), integers(8)
    wanted = (o + a).sum() * a
    tc.compile(text, "f", OWN, a)(a, outputs=o)
    assert torch.equal(o, wanted)


def test_half_results_are_rounded_once() -> None:
    text = """def f(half(M,K) A) -> (O) {
      T(m) +=! A(m,k)
      O(m) = T(m + 1) where m in 0:3
    }"""
    a = torch.randn(5, 4000).half()
    result, _ = run(text, a)
    wanted = a.double().sum(1)[1:4]
    assert (result.double() - wanted).abs().max() <= 0.5 * torch.finfo(torch.half).eps * 256


@pytest.mark.parametrize("padding", [0, 1])
def test_images_padded_by_nothing_are_read_where_they_lie(padding: int) -> None:
    text = tc.ops.source("padded_convolution").split("def padded_convolution")[1]
    text = "def f" + text.split("\ndef ")[0]
    values = integers(2, 3, 9, 8), integers(5, 3, 3, 3), integers(5)
    result, gone = run(text, *values, padding, padding)
    assert torch.equal(result, torch.nn.functional.conv2d(*values, padding=padding))
    assert gone == ("padded" if padding == 0 else "")


def test_gradients_of_padded_images_leave_the_border_out() -> None:
    name = "padded_convolution"
    text = tc.grad_source(tc.ops.source(name), name, padding_h=1, padding_w=1)
    values = integers(2, 4, 7, 7), integers(6, 4, 3, 3), integers(6)
    gradient = integers(2, 6, 7, 7)
    executor = tc.compile(text, f"{name}_grad", OWN, *values, 1, 1, gradient)
    assert "d_padded" in executor.explain().split("  inlined")[1].split("\n")[0]
    leaves = [x.clone().requires_grad_() for x in values]
    wanted = torch.autograd.grad(torch.nn.functional.conv2d(*leaves, padding=1), leaves, gradient)
    for ours, theirs in zip(executor(*values, 1, 1, gradient), wanted, strict=True):
        assert torch.equal(ours, theirs)
