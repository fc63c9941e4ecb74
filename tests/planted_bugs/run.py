"""Plants the compiler bugs of this folder, one after the other, and says which test finds each.

    python tests/planted_bugs/run.py [NAMES...]

A patch begins with lines that say in which pass the bug is, what is wrong, and which tests are
expected to find it: arguments of pytest, or "ctest NAME". Those run first, then the rest of the
suite, up to the first failure. A bug that nothing finds is a hole in the suite: the exit status is
1, and a test is missing.

Nothing is changed in the checkout: its files, those that are not committed too, are copied to
build/planted_bugs, which has a build of its own. The first one takes as long as `make build`, each
of the others one file and a link. In the end every test that found a bug runs again without it, so
that a test which fails anyway counts for nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
# Of pytest: tests failed. Others mean that none ran, or that it was called wrongly; a negative
# status is a crash.
FAILED = 1
SECONDS = 1800  # for one run of tests: a bug may make a program hang


class Broken(Exception):
    """A patch, a build or a list of tests that is no good: nothing is known of the suite."""


@dataclass
class Bug:
    """A patch with what its first lines say."""

    path: Path
    where: str = ""  # the pass
    wrong: str = ""
    tests: list[list[str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.path.stem


def read(path: Path) -> Bug:
    """The first lines of a patch: "Pass:", "Bug:" and one or more of "Tests:"."""
    bug = Bug(path)
    header = path.read_text().partition("\ndiff --git ")[0]
    # A line that is indented goes on with the one before.
    for line in re.sub(r"\n[ \t]+", " ", header).splitlines():
        key, _, value = line.partition(":")
        value = value.strip()
        if key == "Pass":
            bug.where = value
        elif key == "Bug":
            bug.wrong = value
        elif key == "Tests":
            bug.tests.append(shlex.split(value))
        else:
            raise Broken(f"{path.name}: '{line}' is no line 'Pass:', 'Bug:' or 'Tests:'")
    if not (bug.where and bug.wrong and bug.tests):
        raise Broken(f"{path.name}: needs the lines 'Pass:', 'Bug:' and 'Tests:'")
    return bug


def all_bugs() -> list[Bug]:
    return [read(path) for path in sorted(FOLDER.glob("*.patch"))]


def apply(bug: Bug, tree: Path, *options: str) -> None:
    """`git apply` in a tree that need be no repository, and no part of one around it."""
    done = subprocess.run(
        ["git", "apply", *options, str(bug.path)],
        cwd=tree,
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent), "GIT_DIR": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Broken(f"{bug.name}.patch does not apply: {done.stderr.strip()}; write it anew")


class Copy:
    """The checkout's files with a build of their own."""

    def __init__(self, jobs: int) -> None:
        self.tree = ROOT / "build" / "planted_bugs" / "tree"
        self.build_folder = ROOT / "build" / "planted_bugs" / "cmake"
        self.log = ROOT / "build" / "planted_bugs" / "log.txt"
        self.jobs = jobs
        self.tree.mkdir(parents=True, exist_ok=True)

    def update(self) -> None:
        """Only files that differ are written, so that only those are compiled."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split("\0")
        names = {name for name in listed if name and (ROOT / name).is_file()}
        for name in names:
            source, target = ROOT / name, self.tree / name
            content = source.read_bytes()
            if not target.exists() or target.read_bytes() != content:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                target.chmod(source.stat().st_mode)
        for folder in ("csrc", "ops", "tensor_comprehensions", "tests"):
            for path in (self.tree / folder).rglob("*"):
                name = path.relative_to(self.tree).as_posix()
                kept = name.startswith(
                    ("tensor_comprehensions/lib/", "tensor_comprehensions/include/")
                )
                if path.is_file() and name not in names and not kept and path.suffix != ".so":
                    path.unlink()

    def _step(self, command: list[str]) -> None:
        with self.log.open("a") as log:
            status = subprocess.run(command, stdout=log, stderr=log, check=False).returncode
        if status != 0:
            raise Broken(f"does not build: see {self.log}")

    def build(self) -> None:
        if not (self.build_folder / "CMakeCache.txt").exists():
            found = ["-G", "Ninja"] if shutil.which("ninja") else []
            if shutil.which("ccache"):  # it has what a patch changed, when that is undone
                found.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
            self._step(
                [
                    *("cmake", "-S", str(self.tree / "csrc"), "-B", str(self.build_folder)),
                    *found,
                    f"-DPython3_EXECUTABLE={sys.executable}",
                    "-DTC_BUILD_TESTS=ON",
                    "-DCMAKE_INSTALL_RPATH_USE_LINK_PATH=ON",
                    *shlex.split(os.environ.get("CMAKE_ARGS", "")),
                ]
            )
        folder = str(self.build_folder)
        targets = ["--target", "tensor_comprehensions", "tensor_comprehensions_torch", "_torch"]
        self._step(["cmake", "--build", folder, "--parallel", str(self.jobs), *targets])
        package = str(self.tree / "tensor_comprehensions")
        self._step(["cmake", "--install", folder, "--prefix", package])

    def run(self, tests: list[str]) -> list[str]:
        """The arguments that run the first of these tests that failed; none where all passed."""
        if tests[:1] == ["ctest"]:
            folder = str(self.build_folder)
            self._step(
                ["cmake", "--build", folder, "--parallel", str(self.jobs), "--target", *tests[1:]]
            )
            pattern = "^(" + "|".join(tests[1:]) + ")$"
            command = ["ctest", "--test-dir", folder, "--no-tests=error", "-R", pattern]
            return tests if self._status(command)[0] != 0 else []
        failed = self.failures(["-x", *tests])
        # A crash leaves no name behind.
        return tests if failed == [""] else failed[:1]

    def failures(self, tests: list[str]) -> list[str]:
        """The names of those that failed, of pytest; an empty one for a crash."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
        status, output = self._status(command)
        if status == 0:
            return []
        found = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
        if status == FAILED and found:
            return found
        if status < 0 or status >= 128 or "Timeout" in output:
            return [""]
        raise Broken(f"pytest {' '.join(tests)} ends with {status}: see {self.log}")

    def _status(self, command: list[str]) -> tuple[int, str]:
        environment = {**os.environ, "PYTHONPATH": str(self.tree)}
        try:
            done = subprocess.run(
                command,
                cwd=self.tree,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=SECONDS,
                check=False,
            )
            status, output = done.returncode, done.stdout
        except subprocess.TimeoutExpired as expired:
            status, output = 128, str(expired.stdout)
        with self.log.open("a") as log:
            log.write(f"$ {shlex.join(command)}\n{output}\n")
        return status, output


def find(bug: Bug, copy: Copy, likely_only: bool) -> list[str]:
    """The first test that fails with the bug, as arguments that run it; none."""
    apply(bug, copy.tree)
    copy.build()
    for tests in bug.tests:
        if failed := copy.run(tests):
            return failed
    return [] if likely_only else copy.run(["-n", str(copy.jobs), "tests"])


def main() -> int:
    bugs = {bug.name: bug for bug in all_bugs()}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="of patches without .patch; all by default")
    parser.add_argument("--list", action="store_true", help="say what is wrong in each, and end")
    parser.add_argument("--likely", action="store_true", help="run only the tests named in patches")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in bugs]:
        parser.error(f"no patch {', '.join(unknown)}; there are {', '.join(bugs)}")
    chosen = [bugs[name] for name in options.names or bugs]
    if options.list:
        for bug in chosen:
            print(f"{bug.name}: {bug.where}: {bug.wrong}")
        return 0

    copy = Copy(options.jobs)
    copy.log.unlink(missing_ok=True)
    copy.update()
    copy.build()
    found: dict[str, list[str]] = {}
    bad = []
    for bug in chosen:
        begin = time.monotonic()
        try:
            failed = find(bug, copy, options.likely)
            said = f"found by {shlex.join(failed)}" if failed else "MISSED"
            found[bug.name] = failed
        except Broken as error:
            said = f"BROKEN: {error}"
            bad.append(bug.name)
        finally:
            copy.update()
        if not found.get(bug.name):
            bad.append(bug.name)
        print(f"{bug.name:32} {time.monotonic() - begin:5.0f} s  {said}", flush=True)

    copy.build()
    alone = [tests for tests in found.values() if len(tests) == 1]
    for tests in found.values():
        if len(tests) > 1 and copy.run(tests):
            print(f"{shlex.join(tests)} fails without a bug as well")
            bad.append(tests[0])
    if alone:
        for name in copy.failures(sorted({tests[0] for tests in alone})):
            print(f"{name} fails without a bug as well")
            bad.append(name)
    missed = len({name for name in bad if name in bugs})
    print(f"{len(chosen) - missed} of {len(chosen)} planted bugs are found")
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Broken as error:
        sys.exit(str(error))
