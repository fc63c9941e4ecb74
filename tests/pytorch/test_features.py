"""The table of docs/pytorch.md: what PyTorch asks of an operator, tried on the library."""

from __future__ import annotations

import itertools
import os
import warnings
from pathlib import Path

import pytest
from operators import FAMILIES
from operators.features import FEATURES

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "pytorch.md"
HEAD = "| tried on |"


def table_of(text: str) -> dict[tuple[str, str], str]:
    """The cells of the table, by the names of their row and column."""
    lines = text[text.index(HEAD) :].split("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    names = [name.split(" ")[0] for name in rows[0][1:]]
    return {(row[0], name): cell for row in rows[2:] for name, cell in zip(names, row[1:])}


def table_text(cells: dict[tuple[str, str], str]) -> str:
    heads = [f"{family} ({len(cases)})" for family, cases in FAMILIES.items()]
    lines = [f"{HEAD} {' | '.join(heads)} |", "|---|" + "--:|" * len(FAMILIES)]
    for feature in FEATURES:
        row = [cells.get((feature, family), "") for family in FAMILIES]
        lines.append(f"| {feature} | {' | '.join(row)} |")
    return "\n".join(lines)


#: Whether all definitions of a family meet a feature: what the table says is of such a run.
WHOLE = os.environ.get("TC_FEATURES") == "all" or os.environ.get("TC_UPDATE_GOLDEN") == "1"

#: The family that make test tries a feature on: one of those with few definitions.
SAMPLE = dict(
    zip(FEATURES, itertools.cycle(name for name, cases in FAMILIES.items() if len(cases) <= 30))
)
SAMPLE["channels last in and out"] = "layers"  # others have no images
SAMPLE["AOTInductor package"] = "attention"  # a compiler of C++ takes a second for a definition


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("feature", "family"),
    [
        pytest.param(
            *(feature, family),
            marks=() if family == SAMPLE[feature] else pytest.mark.slow,
            id=f"{feature}-{family}",
        )
        for feature in FEATURES
        for family in FAMILIES
    ],
)
def test_cell(feature: str, family: str) -> None:
    """Tries a feature on a family; the table says on how many of its definitions."""
    cases = FAMILIES[family]
    # Every fifth, beginning at another one for each feature: a definition meets a fifth of them.
    tried = cases if WHOLE else cases[list(FEATURES).index(feature) % 5 :: 5]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        count = FEATURES[feature](tried)
    text = DOCUMENT.read_text()
    cells = table_of(text)
    if os.environ.get("TC_UPDATE_GOLDEN") == "1":
        cells[feature, family] = str(count)
        start = text.index(HEAD)
        end = text.index("\n\n", start)
        DOCUMENT.write_text(text[:start] + table_text(cells) + text[end:])
        return
    written = int(cells[feature, family])
    left_out = len(cases) - len(tried)
    assert written - left_out <= count <= written, (
        f"docs/pytorch.md says {written}, but {count} of {len(tried)} definitions took part: "
        "TC_UPDATE_GOLDEN=1 writes it anew"
    )


def test_table_has_these_rows_and_columns() -> None:
    text = DOCUMENT.read_text()
    assert table_text(table_of(text)) in text
