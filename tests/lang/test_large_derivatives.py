"""Derivatives of definitions with many statements, and of statements with many reads."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable

import pytest
import torch

import tensor_comprehensions as tc

#: One statement of a chain, and how many of its derivative's need a range of their own.
CHAINS = [("tanh({0}(i))", 0), ("{0}(i) * {0}(i + 1)", 1)]


@pytest.mark.parametrize(("step", "with_range"), CHAINS)
def test_many_statements_are_derived_in_time(step: str, with_range: int) -> None:
    """In proportion to their number: 200 took half a minute when it was in the square of it."""
    count = 200
    steps = "".join(f"  T{k}(i) = {step.format(f'T{k - 1}')}\n" for k in range(1, count + 1))
    text = f"def f(float(N) A) -> (T{count}) {{\n  T0(i) = A(i)\n{steps}}}"
    start = time.process_time()
    derivative = tc.grad_source(text, "f")
    assert time.process_time() - start < 5  # 0.3 are measured
    # Each is derived as by itself.
    assert derivative.count(" where ") == count * with_range


def compare(text: str, function: Callable, size: int) -> None:
    f = tc.make_autograd(tc.define(text, namespace=f"tc_large_{zlib.crc32(text.encode())}").f)
    a = torch.randint(-3, 4, (size,)).double().requires_grad_()
    x = a.detach().clone().requires_grad_()
    value, wanted = f(a), function(x)
    torch.testing.assert_close(value, wanted, rtol=1e-12, atol=0)
    seed = torch.randint(-3, 4, value.shape).double()
    value.backward(seed)
    wanted.backward(seed)
    torch.testing.assert_close(a.grad, x.grad, rtol=1e-10, atol=1e-10 * x.grad.abs().max().item())


@pytest.mark.parametrize("taps", [5, 20, 49, 120])
def test_squares_of_wide_stencils(taps: int) -> None:
    """What all reads receive is computed once where the derivative is long with a copy for each."""
    total = " + ".join(f"A(i + {k})" for k in range(taps))
    text = f"def f(double(N) A) -> (O) {{ O(i) = x * x where x = {total} }}"
    compare(text, lambda a: a.unfold(0, taps, 1).sum(1).square(), taps + 30)
    assert ("d_O_weight(i) =" in tc.grad_source(text, "f")) == (taps > 20)


def test_long_sums_of_different_contributions() -> None:
    """They are added in several statements."""
    count = 40
    product = " * ".join(f"(A(i + {k}) + {k % 3})" for k in range(count))
    text = f"def f(double(N) A) -> (O) {{ O(i) = {product} where i in 0:N - {count} }}"

    def reference(a: torch.Tensor) -> torch.Tensor:
        windows = a[:-1].unfold(0, count, 1)
        return (windows + torch.arange(count) % 3).prod(1)

    compare(text, reference, count + 20)
    assert tc.grad_source(text, "f").count("d_A(i) +=") >= 1


def test_wide_maxima() -> None:
    """Every tap receives under conditions of its own."""
    taps, value = 14, "A(i)"
    for k in range(1, taps):
        value = f"max({value}, A(i + {k}))"
    text = f"def f(double(N) A) -> (O) {{ O(i) = {value} }}"

    def maximum(a: torch.Tensor) -> torch.Tensor:
        windows = a.unfold(0, taps, 1)
        result = windows[:, 0]
        for k in range(1, taps):
            result = torch.maximum(result, windows[:, k])
        return result

    compare(text, maximum, 40)
    assert tc.grad_source(text, "f").count("d_A(i) +=") >= 1


def test_a_weight_that_no_statement_holds_is_said_of_the_forward_statement() -> None:
    value = "A(i)"
    for k in range(1, 90):
        value = f"max({value}, A(i + {k}))"
    text = f"def f(float(N) A) -> (O) {{ O(i) = {value} }}"
    with pytest.raises(tc.LanguageError) as caught:
        tc.grad_source(text, "f")
    assert (
        "what A receives in the derivative of this statement has more than 10000 operations; give "
        "a part of the statement a tensor of its own"
    ) in str(caught.value)
    assert "O(i) = max(" in str(caught.value)


@pytest.mark.parametrize("halvings", [1, 3, 6])
def test_parts_that_occur_again_are_gone_through_once(halvings: int) -> None:
    """What a name stands for receives from all its uses; path by path there are 2 ** halvings."""
    steps = ", ".join(f"x{k} = 0.5 * (x{k - 1} + sin(x{k - 1}))" for k in range(1, halvings + 1))
    text = f"""def f(double(N) A, double(N) B) -> (O) {{
        O(i) = x{halvings} where x0 = A(i) - B(i), {steps} }}"""
    # Each once, in what A receives and in what B does.
    assert tc.grad_source(text, "f").count("cos(") == 2 * halvings
    f = tc.make_autograd(tc.define(text, namespace=f"tc_large_parts_{halvings}").f)
    inputs = [torch.randn(20, dtype=torch.double, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(f, inputs)


def test_parts_in_both_branches_receive_once() -> None:
    """Of a choice whose branches use one part, in different ways and alike."""
    text = """def f(double(N) A, double(N) B) -> (O) {
        O(i) = (B(i) > 0 ? 2 * s : s * s) + (B(i) > 1 ? s : s) where s = exp(A(i)) * B(i) }"""
    assert tc.grad_source(text, "f").count("B(i) > 1") == 0
    f = tc.make_autograd(tc.define(text, namespace="tc_large_branches").f)
    inputs = [torch.randn(20, dtype=torch.double, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(f, inputs)


def test_common_factors_with_signs() -> None:
    """What a part receives twice is a product where both begin alike, whatever signs are there."""
    text = """def f(double(N) A, double(N) B) -> (O) {
        O(i) = -s * (-s) * B(i) - s * B(i) * s * A(i) - s where s = sin(A(i)) * B(i) }"""
    assert tc.grad_source(text, "f").count("cos(") == 1
    f = tc.make_autograd(tc.define(text, namespace="tc_large_signs").f)
    inputs = [torch.randn(20, dtype=torch.double, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(f, inputs)
    assert torch.autograd.gradgradcheck(f, inputs)


def test_factors_of_half_stay_with_their_terms() -> None:
    """Their sum would be infinite where that of the products is not."""
    text = """def f(half(N) A, half(N) B) -> (O) {
        O(i) = B(i) * (s * 40000 + s * 32000) where s = 2 * A(i) }"""
    f = tc.make_autograd(tc.define(text, namespace="tc_large_half").f)
    a = torch.full((3,), 0.01, dtype=torch.half, requires_grad=True)
    b = torch.full((3,), 0.125, dtype=torch.half)
    f(a, b).backward(torch.full((3,), 0.25, dtype=torch.half))
    assert torch.equal(a.grad, torch.full((3,), 4500, dtype=torch.half))
