"""Random programs of all kinds (`kinds.py`), from the first seed of CI (`seeds.py`) on.

TC_FUZZ_SEED is another first seed, TC_FUZZ_PERCENT says how many of the programs. A failure is
shrunk and printed as text, with its seed and the sizes of its inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from block import Block
from cases import Case, Disagreement, check
from features import LANGUAGE, features
from kinds import KINDS, list_blocks
from random_layers import make_layers
from random_programs import make_case
from seeds import first_seed
from shrink import shrink

import tensor_comprehensions as tc

# Seconds for making a failure smaller.
SHRINK = 60


@pytest.mark.parametrize(
    ("name", "first", "programs"), list_blocks(), ids=lambda value: str(value).replace(" ", "-")
)
def test_block(
    name: str, first: int, programs: int, block_of: Callable[[str, int, int], Block]
) -> None:
    kind, block = KINDS[name], block_of(name, first, programs)
    print(f"{block.counts}, {block.seconds:.1f} seconds of work")
    for seed, message in block.failures.items():
        program, smaller = kind.make(seed), ""
        if isinstance(program, Case):
            smallest, why = shrink(program, SHRINK, kind.check)
            smaller = f"\n\nsmaller: {why}\n{smallest}"
        raise AssertionError(f"{message}\n\n{program}{smaller}")
    assert block.done == programs
    if programs == kind.block:
        kind.enough(block.counts, programs)


def test_programs_use_the_whole_language() -> None:
    """Of ten times as many texts as CI runs: each function is one of 60 that may be drawn."""
    seen: Counter[str] = Counter()
    for seed in range(first_seed(), first_seed() + 10 * KINDS["programs"].count):
        seen.update(features(make_case(seed).text))
    assert seen.keys() <= LANGUAGE
    assert not LANGUAGE - seen.keys()


def test_random_programs_copy_operands() -> None:
    """Products with subscripts in any order reach the copies into the order of use."""
    copies = 0
    for seed in range(first_seed(), first_seed() + 60):
        case = make_case(seed)
        if "+=!" in case.text and not case.initial:
            try:
                executor = tc.compile(case.text, case.entry, None, *case.make_inputs())
            except tc.TCError:
                continue
            copies += "tc.copy" in executor.loop_nest
    assert copies > 5


@pytest.mark.parametrize("make", [make_case, make_layers])
def test_a_wrong_result_is_found_and_shrunk(
    make: Callable[[int], Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiler that adds where it should subtract."""
    honest = Case.actual

    def wrong(case: Case, options: str) -> tuple[torch.Tensor, ...]:
        return honest(replace(case, text=case.text.replace(" - ", " + ")), options)

    monkeypatch.setattr(Case, "actual", wrong)
    for seed in range(first_seed(), first_seed() + 200):
        case = make(seed)
        try:
            check(case)
        except Disagreement as error:
            if error.kind != "values" or case.initial:
                continue
            smaller, _ = shrink(case, 20)
            assert " - " in smaller.text
            assert len(smaller.text) <= len(case.text)
            return
    pytest.fail("no program shows it")


def test_a_block_tells_of_failures_and_crashes(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiler that is wrong for one program and dies at another."""
    from block import run_block

    monkeypatch.setenv("TC_FUZZ_BREAK", f"{first_seed() + 1} {first_seed() + 3}")
    block = run_block("layers", first_seed(), 5, tmp_path)
    assert block.done == 5
    assert block.failures.keys() == {first_seed() + 1, first_seed() + 3}
    assert "told to fail" in block.failures[first_seed() + 1]
    assert "ended its process with -11" in block.failures[first_seed() + 3]
    assert block.counts["programs"] == 1  # the one behind the crash; others are in no last line
