"""Random programs of all kinds (`kinds.py`), from the first seed of CI (`seeds.py`) on.

TC_FUZZ_SEED is another first seed, TC_FUZZ_PERCENT says how many of the programs. A failure is
shrunk and printed as text, with its seed and the sizes of its inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from block import Block, run_block
from cases import Case, Disagreement, Tensor, check
from features import LANGUAGE, features
from kinds import KINDS, list_blocks
from random_layers import make_layers
from random_programs import make_case
from run import that_tested_little
from seeds import first_seed
from shrink import shrink

import tensor_comprehensions as tc

# Seconds for making a failure smaller.
SHRINK = 60
#: Of these make test runs the first block. The others' subjects, as what is called or batched, have
#: tests beside them, and several Plans for every program take as long as all of these.
QUICK = ("programs", "layers", "integers", "scatters", "layer derivatives", "emulated")


def is_quick(kind: str, first: int, programs: int) -> bool:
    return kind in QUICK and first == first_seed()


@pytest.mark.parametrize(
    ("name", "first", "programs"),
    [
        pytest.param(*block, marks=() if is_quick(*block) else pytest.mark.slow)
        for block in list_blocks()
    ],
    ids=lambda value: str(value).replace(" ", "-"),
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


@pytest.mark.slow
@pytest.mark.timeout(1200)  # where no other test has run the blocks yet
def test_bad_indices_are_among_them(block_of: Callable[[str, int, int], Block]) -> None:
    counts: Counter[str] = Counter()
    for kind, *block in list_blocks():
        if kind in ("programs", "emulated"):
            counts.update({kind: block_of(kind, *block).counts["bad indices"]})
    assert min(counts.values()) > 0, counts


def test_the_page_has_every_kind() -> None:
    page = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
    table = page.partition("| kind | what is drawn")[2].partition("\n\n")[0]
    heads = [row.split("|")[1].strip() for row in table.splitlines()[2:]]
    assert sorted(", ".join(heads).split(", ")) == sorted(KINDS)


def test_programs_use_the_whole_language() -> None:
    """Of ten times as many texts as CI runs: each function is one of 60 that may be drawn."""
    seen: set[str] = set()
    for seed in range(first_seed(), first_seed() + 10 * KINDS["programs"].count):
        seen |= features(make_case(seed).text)
        if seen >= LANGUAGE:
            break
    assert seen == LANGUAGE


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
            copies += "  copy\n" in executor.loop_nest
        if copies > 5:
            return
    pytest.fail(f"{copies} of 60 programs have copies")


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
            smaller, _ = shrink(case, 5)
            assert " - " in smaller.text
            assert len(smaller.text) <= len(case.text)
            return
    pytest.fail("no program shows it")


def test_reads_that_no_result_depends_on_need_not_be_refused() -> None:
    """Of a tensor that is written all the same."""
    text = "def f(int8(N) A, int16(M) I) -> (T, O) { T(i) = A(i) O(i) = %s T(I(i)) }"
    inputs = (Tensor("A", "int8", (4,)), Tensor("I", "int16", (3,), "index", (0, 4), bad=True))
    kept, left_out = (Case(1, text % factor, "f", inputs) for factor in ("2 *", "0 *"))
    assert kept.reads("T", 1) and not left_out.reads("T", 1)
    assert check(kept) == {"refused": 1, "bad indices": 1}
    assert check(left_out) == {}


def test_reads_of_statements_that_no_result_depends_on_need_not_be_refused() -> None:
    """Where the condition in front of it is computed, nobody looks at the data."""
    text = """def f(float(N) X, float(N) Y, uint8(M) A) -> ({}) {{
      T(i) = X(i)
      T(i) +=! i * r where r in 0:2
      U(i, j) = X(i) <= T(i) ? X(i) : Y(A(j))
    }}"""
    inputs = (
        Tensor("X", "float", (6,), "whole"),
        Tensor("Y", "float", (6,), "whole"),
        Tensor("A", "uint8", (5,), "index", (0, 6), bad=True),
    )
    assert check(Case(3, text.format("U"), "f", inputs))["bad indices"]
    assert not check(Case(3, text.format("T"), "f", inputs))
    assert not Case(3, text.format("T"), "f", inputs).reads("Y", 4)


def test_of_a_line_whose_reads_are_left_out_another_one_may_have_the_same() -> None:
    text = """def f(uint8(N, M) A, uint8(M) B) -> (T, O) {
      T(i, j) = A(i, j)
      O(j) = max(A(%s, j) %% A(%s, j), B(j))
    }"""
    inputs = (Tensor("A", "uint8", (1, 3)), Tensor("B", "uint8", (3,)))
    assert check(Case(4, text % (1, 1), "f", inputs)) == {}
    assert check(Case(4, text.replace("%%", "+") % (1, 1), "f", inputs))["refused"] == 1
    assert check(Case(4, text % (0, 0), "f", inputs))["programs"] == 1


@pytest.mark.parametrize("size", [3, 2])
def test_what_is_computed_from_what_nobody_wrote(size: int) -> None:
    text = """def f(float(N) A, float(M) B) -> (O) {
      T(i) = A(i)
      T(i) = T(i) * 2 where i in 0:3
      O(i) = B(i)
    }"""
    inputs = (Tensor("A", "float", (size,)), Tensor("B", "float", (4,)))
    assert Case(1, text, "f", inputs).promises_everything() == (size == 3)


def test_what_the_interpreter_does_not_read_stays_as_large() -> None:
    def fails(case: Case) -> Counter[str]:
        raise AssertionError("told to fail")

    scatter = KINDS["launches"].make(8 * first_seed() + 1)
    smallest, why = shrink(scatter, 20, fails)
    assert smallest is scatter
    assert "told to fail" in why


def test_a_block_tells_of_failures_crashes_and_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiler that is wrong for one program, dies at another and waits for ever at a third."""
    seeds = range(first_seed(), first_seed() + 6)
    monkeypatch.setattr("block.WAITS", 10)  # others are at work whenever they do not wait
    monkeypatch.setenv("TC_FUZZ_BREAK", f"{seeds[1]}:fails {seeds[2]}:waits {seeds[4]}:crashes")
    block = run_block("layers", first_seed(), 6, tmp_path)
    assert block.done == 6
    assert block.failures.keys() == {seeds[1], seeds[2], seeds[4]}
    assert "told to fail" in block.failures[seeds[1]]
    assert block.failures[seeds[2]] == "did not end"
    assert block.failures[seeds[4]] == "ended its process with -11"
    assert block.counts["programs"] == 1  # the one behind the crash; others are in no last line


def test_a_block_that_does_not_begin_is_no_block(tmp_path: Path) -> None:
    """Not a failure of a program, and nothing to try for ever."""
    with pytest.raises(RuntimeError, match="before its first program"):
        run_block("nothing of the kind", first_seed(), 3, tmp_path)


def test_a_run_says_which_kinds_tested_little() -> None:
    good = Counter(programs=50, elements=100, compared=90)
    few = Counter(programs=50, elements=100, compared=20)
    assert that_tested_little(Counter(layers=50), {"layers": good}) == []
    assert that_tested_little(Counter(layers=50), {"layers": few}) == ["layers"]
    assert that_tested_little(Counter(layers=3), {"layers": few}) == []  # too few to tell
