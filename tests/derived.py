"""Derivatives of texts, held to numerical differences."""

from __future__ import annotations

import itertools

import torch

import tensor_comprehensions as tc

_namespaces = itertools.count()


def checked_gradient(text: str, *inputs: tuple[int, ...] | torch.Tensor) -> str:
    """The text of the derivative of f, once it and its own derivative agree with differences.

    Where an input is a size, it is random doubles of this size.
    """
    torch.manual_seed(5)
    inputs = tuple(
        size
        if isinstance(size, torch.Tensor)
        else torch.rand(size, dtype=torch.double, requires_grad=True)
        for size in inputs
    )
    f = tc.make_autograd(tc.define(text, namespace=f"tc_checked_{next(_namespaces)}").f)
    assert torch.autograd.gradcheck(f, inputs)
    assert torch.autograd.gradgradcheck(f, inputs, fast_mode=True)
    return tc.grad_source(text)
