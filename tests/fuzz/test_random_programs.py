"""Random programs: optimised code and the identity schedule against NumPy.

TC_FUZZ_COUNT sets how many (300 by default), TC_FUZZ_SEED the first seed; every failure prints the
seed and the text. Values are small integers, so results must be equal, not close.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from random_programs import Program, make_program

import tensor_comprehensions as tc

COUNT = int(os.environ.get("TC_FUZZ_COUNT", "300"))
FIRST = int(os.environ.get("TC_FUZZ_SEED", "0"))
BATCH = 25

OPTIONS = [
    None,
    "identity",
    tc.MappingOptions("naive").tile(3, 4, 5),
    tc.MappingOptions("naive").tile(2, 16).outerScheduleFusionStrategy("Max"),
]


def check(program: Program, option: object) -> None:
    inputs = program.make_inputs()
    wanted = program.reference(inputs)
    t = tc.define(program.text, option, namespace="tc_fuzz")
    actual = t(f"random_{program.seed}", *(torch.from_numpy(x) for x in inputs))
    actual = actual if isinstance(actual, tuple) else (actual,)
    for name, a, w in zip(program.outputs, actual, wanted, strict=True):
        assert tuple(a.shape) == w.shape, name
        np.testing.assert_array_equal(a.numpy(), w, err_msg=name)


def copies_operands(program: Program) -> bool:
    inputs = [torch.from_numpy(x) for x in program.make_inputs()]
    executor = tc.compile(program.text, f"random_{program.seed}", None, *inputs)
    return "tc.copy" in executor.loop_nest


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_random_programs(first: int) -> None:
    copies, seeds = 0, range(first, min(first + BATCH, FIRST + COUNT))
    for seed in seeds:
        program = make_program(seed)
        for option in OPTIONS if seed % 5 == 0 else OPTIONS[:1]:
            try:
                check(program, option)
            except Exception as error:
                raise AssertionError(
                    f"seed {seed}, options {option}:\n{program.text}\n{error}"
                ) from error
        copies += copies_operands(program)
    print(f"{copies} of {len(seeds)} programs copy operands")
    assert copies > 0 or len(seeds) < BATCH


def test_random_programs_with_library_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the library were so fast that every call is worth making."""
    monkeypatch.setenv("TC_MACHINE", "library_rate=1000000000,library_call_cycles=1")
    for seed in range(FIRST, FIRST + min(COUNT, 100)):
        program = make_program(seed)
        try:
            check(program, None)
        except Exception as error:
            raise AssertionError(f"seed {seed}:\n{program.text}\n{error}") from error
