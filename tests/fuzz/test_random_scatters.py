"""Random scatters: every schedule, any number of threads, and CUDA's text under the emulator.

TC_FUZZ_COUNT sets how many (300 by default), TC_FUZZ_SEED the first seed; every failure prints the
seed and the text. Values are small integers, so that results must be equal.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from emulated import run as emulate
from random_scatters import RandomScatter, make_scatter

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


def check(scatter: RandomScatter, options: object, target: str) -> None:
    inputs = tuple(torch.from_numpy(np.ascontiguousarray(value)) for value in scatter.inputs)
    run = tc.compile(scatter.text, "scatter", options, *inputs, target=target)
    outputs = (torch.from_numpy(scatter.start.copy()), torch.zeros(scatter.start.shape))
    outputs = (outputs[0], outputs[1].to(outputs[0].dtype))
    if target == "cpu":
        run(*inputs, outputs=outputs)
    else:
        emulate(run, inputs, outputs, "shuffled")
    for output, wanted in zip(outputs, scatter.wanted, strict=True):
        np.testing.assert_array_equal(output.numpy(), wanted)


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_random_scatters(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(first, min(first + BATCH, FIRST + COUNT)):
        monkeypatch.setenv("TC_MACHINE", f"cores={1 + seed % 4},library_rate=1")
        scatter = make_scatter(seed)
        cases = [(option, "cpu") for option in (OPTIONS if seed % 5 == 0 else OPTIONS[:1])]
        if seed % 10 == 0:
            cases.append((None, "cuda:sm_90"))
        for option, target in cases:
            try:
                check(scatter, option, target)
            except Exception as error:
                raise AssertionError(
                    f"seed {seed}, options {option}, {target}:\n{scatter.text}\n{error}"
                ) from error
