"""Every definition of ops/ on a GPU, with its gradients, against PyTorch on the CPU."""

from __future__ import annotations

import pytest
import torch
from gpu_tensors import on_gpu
from operators import CASES, Case, Values
from operators.features import as_tuple, operator_of, same, uneven, with_gradients

import tensor_comprehensions as tc

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
INSTANCES = [(case, sizes) for case in CASES for sizes in case.sizes]


def on_cpu(results: object) -> tuple:
    return tuple(x.cpu() for x in as_tuple(results))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float", "double"])
@pytest.mark.parametrize(
    ("case", "sizes"),
    INSTANCES,
    ids=[f"{case.definition}-{'x'.join(map(str, sizes))}" for case, sizes in INSTANCES],
)
def test_results(case: Case, sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    inputs = case.inputs(Values(dtype), *sizes)
    results = operator_of(case, dtype)(*on_gpu(inputs))
    assert all(x.is_cuda for x in as_tuple(results))
    same(case, on_cpu(results), case.expected(inputs))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.definition)
def test_gradients(case: Case) -> None:
    """As autograd derives the reference, which some of PyTorch's derivatives do in float."""
    inputs = case.inputs(Values(torch.float64), *case.sizes[0])
    places = case.differentiable(inputs)
    if not places:
        pytest.skip("it has no derivative")
    leaves = with_gradients(case, inputs)
    wanted = [r for r in as_tuple(case.reference(*leaves)) if r.requires_grad]
    weights = [uneven(r) for r in wanted]
    wanted = torch.autograd.grad(wanted, [leaves[k] for k in places], weights, allow_unused=True)

    leaves = with_gradients(case, on_gpu(inputs))
    results = as_tuple(tc.make_autograd(operator_of(case, torch.float64))(*leaves))
    results = [r for r in results if r.is_floating_point()]
    found = torch.autograd.grad(
        results, [leaves[k] for k in places], [w.cuda() for w in weights], allow_unused=True
    )
    for k, f, w in zip(places, found, wanted, strict=True):
        zeros = torch.zeros_like(inputs[k])
        f, w = (zeros if each is None else each.cpu() for each in (f, w))
        same(case, f, w, torch.finfo(torch.float32).eps)
