"""The derivatives of every definition in ops/, once and twice, by numerical differences."""

from __future__ import annotations

import pytest
import torch
from operators import CASES, Case, Values
from test_ops import GRADIENTS, text_of

import tensor_comprehensions as tc


def differentiable(case: Case) -> tuple[object, tuple]:
    torch.manual_seed(11)
    inputs = case.inputs(Values(torch.float64), *case.sizes[0])
    wanted = set(case.differentiable(inputs))
    inputs = tuple(x.detach().requires_grad_() if k in wanted else x for k, x in enumerate(inputs))
    text = text_of(case.definition, torch.float64)
    t = tc.define(text, namespace="tc_ops_derivatives")
    return tc.make_autograd(getattr(t, case.definition)), inputs


@pytest.mark.parametrize(
    "case",
    [
        case
        for case in {case.definition: case for case in CASES}.values()
        if case.definition not in GRADIENTS
    ],
    ids=lambda case: case.definition,
)
def test_derivatives(case: Case) -> None:
    f, inputs = differentiable(case)
    if not any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs):
        pytest.skip("no input has a derivative")
    assert torch.autograd.gradcheck(f, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(f, inputs, fast_mode=True)
