"""Random programs shared between processes: together they compute what the interpreter says."""

from __future__ import annotations

import os

import pytest
import torch
from cases import DTYPES
from random_programs import make_case
from shardings import check_ways

import tensor_comprehensions as tc

BLOCK = 50
FIRST = int(os.environ.get("TC_FUZZ_SEED", 0))


@pytest.mark.parametrize("first", range(FIRST, FIRST + 200, BLOCK))
def test_random_shardings(first: int) -> None:
    ways = 0
    for seed in range(first, first + BLOCK):
        case = make_case(seed)
        if case.initial:
            continue
        inputs = tuple(
            torch.as_tensor(t.make(case.seed), dtype=DTYPES[t.type]) for t in case.inputs
        )
        try:
            operator = getattr(tc.define(case.text, namespace="tc_fuzz_sharding"), case.entry)
            for processes in (2, 3):
                ways += check_ways(operator, case.text, inputs, processes)
        except tc.TCError:
            continue  # test_random_programs looks at refusals
        except Exception as error:
            error.add_note(str(case))
            raise
    assert ways >= BLOCK // 4
