"""What the comparison by last places takes for equal, and what not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from last_places import FORMATS, assert_within_ulps, units_off

INF, NAN = float("inf"), float("nan")
TYPES = {torch.float16: np.float16, torch.float32: np.float32, torch.float64: np.float64}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("exact", [0.0, 2.0**-14, 1e-5, 0.75, 1.0, 3.0, 1000.0, -5.5])
def test_neighbours_are_a_unit_away(dtype: torch.dtype, exact: float) -> None:
    value = TYPES[dtype](exact)
    neighbours = torch.from_numpy(np.array([value, np.nextafter(value, TYPES[dtype](2000))]))
    wanted = torch.full((2,), float(value), dtype=torch.double)
    assert units_off(neighbours, wanted).tolist() == [0, 1]


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize(
    ("actual", "exact"),
    [
        (0.0, 6e-6),
        (3e-7, 0.0),
        (-0.0, 0.0),
        (1.0, 1.04),
        (1.0, NAN),
        (NAN, 1.0),
        (INF, 1.0),
        (1.0, -INF),
        (INF, -INF),
    ],
)
def test_what_is_wrong(dtype: torch.dtype, actual: float, exact: float) -> None:
    found, wanted = torch.tensor([1.0, actual]).to(dtype), torch.tensor([1.0, exact]).double()
    with pytest.raises(AssertionError):
        assert_within_ulps(found, wanted, 2)
    assert_within_ulps(found[:1], wanted[:1], 2)


def test_something_has_to_be_finite() -> None:
    with pytest.raises(AssertionError):
        assert_within_ulps(torch.tensor([INF, NAN]), torch.tensor([INF, NAN]).double(), 2)
