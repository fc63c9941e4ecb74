"""Scatters: left-hand sides whose subscripts are expressions, against NumPy's ufunc.at."""

from __future__ import annotations

import pytest
import torch
from scatters import SCATTERS, Scatter

import tensor_comprehensions as tc

by_name = pytest.mark.parametrize("scatter", SCATTERS, ids=lambda s: s.name)
OPTIONS = [None, "identity", "naive", "pointwise"]
TYPES = {
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "float": torch.float32,
    "double": torch.float64,
}


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def threads(request: pytest.FixtureRequest) -> int:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def define(text: str, *options: object) -> tc.TC:
    return tc.define(text, *options, namespace="tc_scatter")


def expected(scatter: Scatter, inputs: tuple, start: torch.Tensor | None) -> tuple:
    wanted = scatter.reference(*inputs, *([] if start is None else [start]))
    return wanted if isinstance(wanted, tuple) else (wanted,)


def check(scatter: Scatter, inputs: tuple, options: object) -> None:
    start = scatter.start() if scatter.start else None
    wanted = expected(scatter, inputs, start)
    run = tc.compile(scatter.text, scatter.entry, options, *inputs)
    outputs = tuple(torch.full_like(w, -7) for w in wanted)
    if start is not None:
        outputs[0].copy_(start)
    run(*inputs, outputs=outputs)
    for output, w in zip(outputs, wanted, strict=True):
        assert torch.equal(output, w)


@by_name
@pytest.mark.parametrize("options", OPTIONS)
def test_agrees_with_numpy(scatter: Scatter, options: str | None, threads: int) -> None:
    check(scatter, scatter.make(), options)


@by_name
def test_strided_inputs(scatter: Scatter) -> None:
    def spread(value: object) -> object:
        if not isinstance(value, torch.Tensor) or value.dim() == 0:
            return value
        wide = torch.stack([value, value + 1], -1)
        return wide[..., 0].transpose(0, -1).contiguous().transpose(0, -1)

    check(scatter, tuple(spread(value) for value in scatter.make()), None)
