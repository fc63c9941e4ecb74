"""docs/environment.md beside the variables that the sources read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from logs import said

import tensor_comprehensions as tc
from tensor_comprehensions._environment import VARIABLES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "environment.md").read_text()

#: Read by others: PyTorch, and the C++ library's idea of a folder for temporary files.
OF_OTHERS = {"OMP_NUM_THREADS", "TMPDIR"}
READ = re.compile(
    r'getenv\("(\w+)"\)|environ(?:\.get|\.setdefault|\.pop)?[(\[]\s*"(\w+)"|'
    r'"(\w+)" (?:not )?in os\.environ'
)


def rows(title: str) -> dict[str, list[str]]:
    """A table of the page: what stands in the columns behind the first, which is in backquotes."""
    section = PAGE.split(f"{title}\n")[1].split("\n## ")[0]
    table = re.search(r"^\|.*?(?=\n\n|\n?\Z)", section, re.MULTILINE | re.DOTALL)
    assert table
    found = {}
    for line in table[0].splitlines()[2:]:
        name, *rest = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        found[name.strip("`")] = rest
    assert found
    return found


def variables_in(paths: Iterable[Path]) -> set[str]:
    return {next(filter(None, match)) for path in paths for match in READ.findall(path.read_text())}


def sources(folder: str, *endings: str) -> list[Path]:
    found = [path for ending in endings for path in (ROOT / folder).rglob(f"*{ending}")]
    assert found, folder
    return found


BUILDS = [ROOT / "setup.py", *sorted((ROOT / "tensor_comprehensions").glob("_caffe2_*.py"))]


def test_variables_of_running_programs() -> None:
    read = variables_in(
        {*sources("csrc", ".cpp", ".h"), *sources("tensor_comprehensions", ".py")} - {*BUILDS}
    )
    assert {"TC_LOGS", "TC_MACHINE", "TC_CHECK"} <= read
    assert set(rows("## While programs run")) == read | OF_OTHERS
    assert set(VARIABLES) == read | OF_OTHERS
    assert (ROOT / "csrc/codegen/cpu/cpu_kernel.cpp").read_text().count("temp_directory_path") == 1


def test_variables_of_builds() -> None:
    assert set(rows("## While it is built")) == variables_in(BUILDS)
    makefile = (ROOT / "Makefile").read_text()
    optional = re.findall(r"^(\w+) \?=", makefile, re.MULTILINE)
    (said_of_make,) = re.findall(r"`make` takes (.*?) from the environment", PAGE)
    assert re.findall(r"`(\w+)`", said_of_make) == optional


def test_variables_of_tests() -> None:
    read = variables_in(sources("tests", ".py", ".cpp"))
    own = {name for name in read if name.startswith("TC_")} - set(VARIABLES) - {"TC_BUILD_DIR"}
    assert set(rows("## While it is tested")) == own


def test_topics_of_logs() -> None:
    lines = said("help", "import tensor_comprehensions").splitlines()[1:]
    described = dict(re.split(r" +", line.strip(), maxsplit=1) for line in lines)
    assert {name: text for name, (text,) in rows("The topics of `TC_LOGS`:").items()} == described


def test_the_page_is_linked() -> None:
    assert "`docs/environment.md`" in (ROOT / "README.md").read_text()


def test_show_config_tells_of_what_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert not set(VARIABLES) & {line.split()[0] for line in tc.show_config().splitlines()}
    monkeypatch.setenv("TMPDIR", "/somewhere")
    monkeypatch.setenv("TC_CHECK", "1")
    entries = dict(line.split(None, 1) for line in tc.show_config().splitlines())
    assert entries["TMPDIR"] == "/somewhere" and entries["TC_CHECK"] == "1"
