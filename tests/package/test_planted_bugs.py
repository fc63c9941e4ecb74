"""The planted bugs of `planted_bugs/` still apply, each to its pass; `run.py` there plants them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from planted_bugs import run

ROOT = Path(__file__).resolve().parents[2]
BUGS = run.all_bugs()

pytestmark = pytest.mark.skipif(
    not (ROOT / "csrc").is_dir() or shutil.which("git") is None, reason="no sources, or no git"
)


def test_they_apply() -> None:
    failures = []
    for bug in BUGS:
        try:
            run.apply(bug, ROOT, "--check")
        except run.Broken as error:
            failures.append(str(error))
    assert not failures, "\n".join(failures)


def test_each_is_in_the_pass_that_it_names() -> None:
    assert len({bug.where for bug in BUGS}) >= 20
    for bug in BUGS:
        changed = set(re.findall(r"^\+\+\+ b/csrc/(.*)\.\w+$", bug.path.read_text(), re.MULTILINE))
        assert changed == {bug.where}, bug.name


def test_the_tests_that_they_name_exist() -> None:
    for bug in BUGS:
        for tests in bug.tests:
            if tests[0] == "ctest":
                assert all((ROOT / "tests" / "cpp" / f"{t}.cpp").exists() for t in tests[1:])
                continue
            files = [test for test in tests if test.endswith(".py")]
            assert files and all((ROOT / file).exists() for file in files), bug.name
            assert tests[len(files) :][:1] in ([], ["-k"]), bug.name


def test_what_does_not_apply_is_told(tmp_path: Path) -> None:
    """`git apply` leaves out what it does not find where a repository lies around the folder."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    tree = tmp_path / "tree"
    tree.mkdir()
    with pytest.raises(run.Broken, match=rf"{BUGS[0].name}\.patch does not apply: .*; write it"):
        run.apply(BUGS[0], tree, "--check")
    target = tree / "csrc" / f"{BUGS[0].where}.cpp"
    target.parent.mkdir(parents=True)
    before = (ROOT / "csrc" / f"{BUGS[0].where}.cpp").read_text()
    target.write_text(before)
    run.apply(BUGS[0], tree)
    assert target.read_text() != before


@pytest.mark.parametrize(
    "header",
    ["Bug: wrong\nTests: a.py", "Pass: ir/x\nTests: a.py", "Pass: ir/x\nBug: wrong", "Passes: x"],
)
def test_headers_are_complete(header: str, tmp_path: Path) -> None:
    path = tmp_path / "some.patch"
    path.write_text(f"{header}\n\ndiff --git a/x b/x\n")
    with pytest.raises(run.Broken, match=r"some\.patch: "):
        run.read(path)
