"""Golden texts of `Executor.explain()`: the decisions on one described machine.

TC_UPDATE_GOLDEN=1 writes them anew; read the difference before it is committed.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from explained import KERNELS, compile_kernel, explain

pytestmark = pytest.mark.usefixtures("described_machine")

GOLDEN = Path(__file__).parent
# Kernels with further texts.
SHAPES = ("tmm", "softmax", "transpose", "few_results")


def golden(path: Path, text: str) -> None:
    if os.environ.get("TC_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def without_measurements(text: str) -> str:
    """Compile times vary, and what ptxas needs does with its version."""
    lines = text.splitlines(keepends=True)
    return "".join(x for x in lines if not re.search(r"^  compiled |registers? a thread", x))


@pytest.mark.parametrize("name", KERNELS)
def test_golden(name: str) -> None:
    golden(GOLDEN / f"{name}.txt", without_measurements(explain(name)))


@pytest.mark.parametrize("name", SHAPES)
def test_golden_schedule_trees_and_loop_nests(name: str) -> None:
    executor = compile_kernel(name)
    golden(GOLDEN / f"{name}.schedule_tree.txt", executor.schedule_tree)
    golden(GOLDEN / f"{name}.loop_nest.txt", executor.loop_nest)


@pytest.mark.parametrize("name", ["gconv", "softmax"])
def test_golden_cuda(name: str) -> None:
    text = compile_kernel(name, "cuda:sm_80").explain()
    golden(GOLDEN / f"{name}.cuda.txt", without_measurements(text))


def test_the_manual_shows_the_golden_text() -> None:
    page = Path(__file__).parents[2] / "docs" / "explain.md"
    golden(
        page,
        re.sub(
            r"(?<=```text\n).*?(?=```)",
            lambda _: (GOLDEN / "tmm.txt").read_text(),
            page.read_text(),
            count=1,
            flags=re.DOTALL,
        ),
    )


def test_no_golden_text_is_left_over() -> None:
    expected = {f"{name}.txt" for name in KERNELS}
    expected |= {f"{name}.{what}.txt" for name in SHAPES for what in ("schedule_tree", "loop_nest")}
    expected |= {"gconv.cuda.txt", "softmax.cuda.txt"}
    assert {path.name for path in GOLDEN.glob("*.txt")} == expected
