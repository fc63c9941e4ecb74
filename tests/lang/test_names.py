"""Names that the compiler uses itself are the user's all the same."""

from __future__ import annotations

import pytest
import torch
from emulated import run
from workloads import floats

import tensor_comprehensions as tc

#: Of loops, of common subexpressions, of what is hidden from passes, of kernels and their parts.
NAMES = ["t0", "t1", "c0_0", "c1_1", "c2_1", "point0_c2_2", "offset", "choice", "tc_kernel", "x0"]
TEXT = """
def f(float(D, C, D) {0}, float(E, D, D, C) {1}, float {2}, float(C) {3}) -> ({4}) {{
  {5}(d, c) +=! {0}(d, c, d) * {1}(e, d, d, c)
  {4}(d, c) = c > 0 ? {5}(d, c) * {5}(d, c) * {2} + {3}(c - 1) : {5}(d, c) where c in 0:C
}}
"""


def arguments() -> tuple[torch.Tensor, torch.Tensor, float, torch.Tensor]:
    return floats(5, 3, 5), floats(4, 5, 5, 3), 2.5, floats(3)


def reference(a: torch.Tensor, b: torch.Tensor, s: float, c: torch.Tensor) -> torch.Tensor:
    products = torch.einsum("dcd,eddc->dc", a, b)
    result = products.clone()
    result[:, 1:] = products[:, 1:] ** 2 * s + c[:-1]
    return result


@pytest.mark.parametrize("rotation", range(len(NAMES)))
def test_tensors_and_scalars(rotation: int) -> None:
    names = NAMES[rotation:] + NAMES[:rotation]
    values = arguments()
    function = tc.define(TEXT.format(*names), namespace="tc_names").f
    torch.testing.assert_close(function(*values), reference(*values), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rotation", range(0, len(NAMES), 3))
def test_on_cuda(rotation: int) -> None:
    names = NAMES[rotation:] + NAMES[:rotation]
    values, result = arguments(), torch.empty(5, 3)
    executor = tc.compile(
        TEXT.format(*names), "f", tc.MappingOptions(), *values, target="cuda:sm_90"
    )
    run(executor, values, (result,))
    torch.testing.assert_close(result, reference(*values), rtol=1e-5, atol=1e-5)
