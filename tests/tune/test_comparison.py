"""What the results of candidates are held to."""

from __future__ import annotations

import pytest
import torch

from tensor_comprehensions._tuning.comparison import difference


def test_differences_are_bounded_by_the_largest_magnitude() -> None:
    wanted = torch.tensor([100.0, 1e-3, -50.0])
    assert difference(wanted + 5e-3, wanted) is None
    found = difference(wanted + 0.02, wanted)
    assert found is not None and "allowed is 0.0001 of 100" in found
    # What is not written stays what it was.
    assert difference(torch.tensor([100.0, float("nan"), -50.0]), wanted) is not None
    both = torch.tensor([float("inf"), float("nan"), 1.0])
    assert difference(both.clone(), both) is None
    assert difference(torch.tensor([float("-inf"), float("nan"), 1.0]), both) is not None
    integers = torch.tensor([1, 2, 3])
    assert difference(integers.clone(), integers) is None
    assert difference(torch.tensor([1, 2, 4]), integers) == "1 of 3 elements differ"
    assert difference(torch.zeros(0), torch.zeros(0)) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("layout", ["rows", "columns", "apart", "other strides"])
def test_every_part_of_large_results_is_compared(layout: str, dtype: torch.dtype) -> None:
    sizes = (331, 173)
    wanted = torch.randn(sizes).to(dtype)
    result = wanted.clone()
    if layout == "columns":
        wanted, result = (x.t().contiguous().t() for x in (wanted, result))
    elif layout == "apart":
        wanted, result = (x.repeat_interleave(2, 1)[:, ::2] for x in (wanted, result))
    elif layout == "other strides":
        result = result.t().contiguous().t()
    assert difference(result, wanted) is None
    for place in ((0, 0), (165, 90), (330, 172)):
        for value in (1000.0, float("nan"), float("inf")):
            wrong = result.clone(memory_format=torch.preserve_format)
            wrong[place] = value
            assert difference(wrong, wanted) is not None
            # What is infinite there has to be infinite here.
            right = wanted.clone(memory_format=torch.preserve_format)
            right[place] = value
            assert difference(wrong, right) is None
            assert difference(result, right) is not None


def test_halves_may_lie_farther_apart_than_a_half_can_be() -> None:
    wanted = torch.tensor([60000.0, 1.0], dtype=torch.float16)
    found = difference(-wanted, wanted)
    assert found is not None and "off by 1.2e+05" in found
