"""Every text of the papers against PyTorch: layouts, threads, schedules."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import torch
from workloads import REJECTED, WORKLOADS, Workload, assert_near

import tensor_comprehensions as tc

by_name = pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def run(workload: Workload, inputs: tuple, options: object = None) -> tuple[torch.Tensor, ...]:
    """Runs a text through the compiler; fresh copies of what it accumulates into."""
    # One definition name has several texts among the workloads.
    t = tc.define(workload.text, options, namespace=f"tc_tests_{workload.name}")
    if workload.initial is None:
        result = t(workload.entry, *inputs)
    else:
        torch.manual_seed(1)
        result = t(workload.entry, *inputs, outputs=workload.initial())
    return result if isinstance(result, tuple) else (result,)


def expected(workload: Workload, inputs: tuple) -> tuple[torch.Tensor, ...]:
    if workload.initial is None:
        return workload.reference(*inputs)
    torch.manual_seed(1)
    return workload.reference(*inputs, *workload.initial())


def strided(tensor: object) -> object:
    """The same values behind strides that are neither 1 nor sorted, at an odd offset."""
    if not isinstance(tensor, torch.Tensor) or tensor.dim() == 0:
        return tensor
    order = list(reversed(range(tensor.dim())))
    sizes = [tensor.shape[d] for d in order]
    base = torch.zeros([2 * size + 1 for size in sizes], dtype=tensor.dtype)
    view = base[tuple(slice(1, None, 2) for _ in sizes)].permute(order)
    view.copy_(tensor)
    return view


@by_name
def test_agrees_with_pytorch(workload: Workload) -> None:
    inputs = workload.inputs()
    assert_near(workload, run(workload, inputs), expected(workload, inputs))


@by_name
def test_identity_schedule_agrees_with_pytorch(workload: Workload) -> None:
    inputs = workload.inputs()
    assert_near(workload, run(workload, inputs, "identity"), expected(workload, inputs))


@pytest.mark.sampled
@by_name
@pytest.mark.parametrize("preset", ["naive", "pointwise", "mlp"])
def test_presets(workload: Workload, preset: str) -> None:
    inputs = workload.inputs()
    assert_near(workload, run(workload, inputs, preset), expected(workload, inputs))


@pytest.mark.sampled
@by_name
@pytest.mark.parametrize("fusion", ["Max", "Min", "Preserve3Coincident"])
def test_fusion_strategies(workload: Workload, fusion: str) -> None:
    options = tc.MappingOptions("naive").tile(4, 8).outerScheduleFusionStrategy(fusion)
    inputs = workload.inputs()
    assert_near(workload, run(workload, inputs, options), expected(workload, inputs))


@by_name
def test_any_strides(workload: Workload) -> None:
    inputs = workload.inputs()
    views = tuple(strided(t) for t in inputs)
    assert_near(workload, run(workload, views), expected(workload, inputs))


@by_name
def test_broadcast_inputs(workload: Workload) -> None:
    """Stride 0, as the gradient of a sum has."""
    inputs = tuple(
        t[..., :1].expand_as(t) if isinstance(t, torch.Tensor) and t.dim() else t
        for t in workload.inputs()
    )
    assert_near(workload, run(workload, inputs), expected(workload, inputs))


@pytest.mark.sampled
@by_name
@pytest.mark.parametrize("threads", [1, 2])
def test_threads(workload: Workload, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        inputs = workload.inputs()
        assert_near(workload, run(workload, inputs), expected(workload, inputs))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", REJECTED)
def test_texts_without_meaning_are_rejected(name: str) -> None:
    text, message = REJECTED[name]
    with pytest.raises(tc.LanguageError, match=message) as error:
        tc.define(text)
    assert error.value.line > 0
    assert "^" in str(error.value)


def test_every_published_text_is_covered() -> None:
    """The texts above are those of the collection of workloads, where it is at hand."""
    collection = Path(__file__).parents[2] / ".." / "shared" / "workloads.toml"
    if not collection.exists():
        pytest.skip("the collection of workloads is not beside the project")
    rejected = 0
    defined = 0
    for workload in tomllib.loads(collection.read_text())["workload"]:
        if "tc" not in workload:
            continue
        if workload["name"] in REJECTED:
            rejected += 1
            with pytest.raises(tc.LanguageError, match=REJECTED[workload["name"]][1]):
                tc.define(workload["tc"], namespace="tc_published")
        else:
            tc.define(workload["tc"], namespace=f"tc_published_{defined}")
            defined += 1
    assert rejected == len(REJECTED)
    assert defined > 40
