"""Random programs: optimised code, the identity schedule and others against the interpreter.

TC_FUZZ_COUNT sets how many (2,000 by default), TC_FUZZ_SEED the first seed. A failure is shrunk and
printed as text, with its seed and the sizes of its inputs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from cases import Case, Disagreement, Tally, check
from random_programs import make_case
from shrink import shrink

import tensor_comprehensions as tc

COUNT = int(os.environ.get("TC_FUZZ_COUNT", "2000"))
FIRST = int(os.environ.get("TC_FUZZ_SEED", "0"))
BATCH = 50
# Seconds for making a failure smaller.
SHRINK = 60


def check_or_shrink(case: Case, tally: Tally) -> None:
    try:
        check(case, tally)
    except Disagreement as error:
        smaller, message = shrink(case, SHRINK)
        raise AssertionError(f"{error}\n\n{case}\n\nsmaller: {message}\n{smaller}") from error


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_random_programs(first: int) -> None:
    tally = Tally()
    seeds = range(first, min(first + BATCH, FIRST + COUNT))
    for seed in seeds:
        check_or_shrink(make_case(seed), tally)
    print(tally)
    if len(seeds) == BATCH:
        # Programs that are refused, and elements of which nothing is promised, test little.
        assert tally.programs >= 0.8 * len(seeds)
        assert tally.compared >= 0.7 * tally.elements
        assert tally.exact >= 0.3 * tally.elements


def test_random_programs_copy_operands() -> None:
    """Products with subscripts in any order reach the copies into the order of use."""
    copies = 0
    for seed in range(FIRST, FIRST + 60):
        case = make_case(seed)
        if "+=!" in case.text and not case.initial:
            try:
                executor = tc.compile(case.text, case.entry, None, *case.make_inputs())
            except tc.TCError:
                continue
            copies += "tc.copy" in executor.loop_nest
    assert copies > 5


def test_random_programs_with_library_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the library were so fast that every call is worth making."""
    monkeypatch.setenv("TC_MACHINE", "library_rate=1000000000,library_call_cycles=1")
    tally = Tally()
    for seed in range(FIRST, FIRST + min(COUNT, 100)):
        check_or_shrink(make_case(seed), tally)
    assert tally.programs > 0


def test_a_wrong_result_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that adds where it should subtract."""
    honest = Case.actual

    def wrong(case: Case, options: str) -> tuple[torch.Tensor, ...]:
        from dataclasses import replace

        return honest(replace(case, text=case.text.replace(" - ", " + ")), options)

    monkeypatch.setattr(Case, "actual", wrong)
    found = 0
    for seed in range(FIRST, FIRST + 200):
        case = make_case(seed)
        try:
            check(case)
        except Disagreement as error:
            if error.kind != "values" or case.initial:
                continue
            smaller, _ = shrink(case, 20)
            assert " - " in smaller.text
            assert len(smaller.text) <= len(case.text)
            found += 1
            break
    assert found
