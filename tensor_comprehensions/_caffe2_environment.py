"""A Python with Caffe2: finding one, making one, and saying what is in the way of one."""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tensor_comprehensions._errors import TCError

PYTHON = "3.9"
#: The last releases that work together: later wheels of torch have no Caffe2 that does, protobuf 4
#: refuses its messages, numpy 1.24 lacks the names that it uses. It imports future and six, which
#: its wheel does not ask for.
PINS = ("torch==1.10.2", "numpy==1.23.5", "protobuf==3.20.3", "future==1.0.0", "six==1.17.0")

MAKE_ONE = (
    "python -m tensor_comprehensions caffe2-build --environment FOLDER makes an environment with "
    "all that Caffe2 needs"
)

# Its last line is a report in JSON.
_PROBE = """
import json, sys, traceback
report = {"version": "%d.%d" % sys.version_info[:2]}
try:
    import torch
    report.update(torch=torch.__version__, folder=list(torch.__path__)[0],
                  new_abi=torch.compiled_with_cxx11_abi())
    if torch.__version__.startswith("1.10."):
        from caffe2.python import core, dyndep, workspace
except Exception:
    report["error"] = traceback.format_exc()
print("\\n" + json.dumps(report))
"""

#: What strikes when Caffe2 is imported or a library is loaded, and the way out of it.
PITFALLS = (
    (r"No module named '(future|past|builtins)", f"pip install {PINS[3]}"),
    (r"No module named 'six", f"pip install {PINS[4]}"),
    (r"No module named '(google|numpy)", f"pip install {PINS[1]} {PINS[2]}"),
    (r"Descriptors cannot (not )?be created directly", f"pip install {PINS[2]}: 4 is too new"),
    (
        r"module 'numpy' has no attribute|compiled using NumPy 1|_ARRAY_API not found",
        f"pip install {PINS[1]}: 1.24 and later lack what Caffe2 uses",
    ),
    (r"No module named 'torch'", f"pip install {PINS[0]}"),
    (
        r"version `(GLIBCXX|CXXABI)_[\d.]+' not found",
        "this Python brings a libstdc++ that is older than the compiler's: use one that takes the "
        "system's, as those of pyenv and uv do, or put the compiler's first in LD_LIBRARY_PATH",
    ),
    (
        r"libtensor_comprehensions\.so: cannot open shared object",
        "tensor_comprehensions was moved: run caffe2-build again",
    ),
)


class Caffe2Error(TCError):
    """No library for Caffe2 could be built, with what is in the way and the way out."""


class NoEnvironment(Caffe2Error):
    """There is no Python 3.9, or Caffe2 could not be installed for it."""


def explain(output: str) -> str:
    """What an error of another process means, by the pitfalls that are known; or nothing."""
    advice = [way_out for pattern, way_out in PITFALLS if re.search(pattern, output)]
    return "".join(f"\n=> {way_out}" for way_out in advice)


@dataclass(frozen=True)
class Caffe2:
    """A Caffe2 that a library can be built against."""

    python: str
    torch: str  #: its version
    folder: Path  #: of torch
    new_abi: bool  #: whether its strings are those of the C++11 ABI


def probe(python: str) -> Caffe2:
    """The Caffe2 of an interpreter. Caffe2Error says why there is none."""
    try:
        done = subprocess.run(
            [python, "-W", "ignore", "-c", _PROBE], capture_output=True, text=True, timeout=300
        )
        report = json.loads(done.stdout.strip().split("\n")[-1])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
        raise Caffe2Error(f"{python} does not run as a Python: {error}") from error
    if "torch" in report and not report["torch"].startswith("1.10."):
        raise Caffe2Error(
            f"{python} has torch {report['torch']}, but Caffe2 is expected as torch 1.10 has it, "
            f"the last release whose Caffe2 works: {PINS[0]} on Python {PYTHON}; {MAKE_ONE}"
        )
    if "error" in report:
        raise Caffe2Error(
            f"{python} (Python {report['version']}) cannot import Caffe2:\n"
            f"{report['error'].strip()}{explain(report['error'])}\n{MAKE_ONE}"
        )
    folder = Path(report["folder"])
    if not (folder / "include" / "caffe2" / "core" / "operator.h").exists():
        raise Caffe2Error(f"{folder} has no headers of Caffe2, which its wheel brings")
    return Caffe2(python, report["torch"], folder, report["new_abi"])


def candidates() -> list[str]:
    """Interpreters that may be the Python that Caffe2 needs."""
    found = [
        shutil.which(f"python{PYTHON}"),
        *sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{PYTHON}.*/bin/python{PYTHON}"))),
        *sorted(glob.glob(f"/opt/python/cp{PYTHON.replace('.', '')}*/bin/python{PYTHON}")),
    ]
    uv = shutil.which("uv")
    if uv:
        done = subprocess.run([uv, "python", "find", PYTHON], capture_output=True, text=True)
        found.append(done.stdout.strip() if done.returncode == 0 else None)
    return [python for python in found if python]


def _has_version(python: str) -> bool:
    # Shims of pyenv exist for versions that are switched off.
    program = f"import sys, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '{PYTHON}')"
    return subprocess.run([python, "-c", program], capture_output=True).returncode == 0


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise NoEnvironment(f"{what} failed:\n{done.stdout.strip()[-4000:]}")


def _make_by_uv(folder: Path) -> None:
    """An environment whose Python uv fetches: no Debian has one that is old enough."""
    with tempfile.TemporaryDirectory() as tools:
        uv = shutil.which("uv")
        if not uv:
            pip = [sys.executable, "-m", "pip", "install", "-q", "--target", tools, "uv"]
            _run(pip, "fetching uv, which has Pythons")
            uv = str(Path(tools) / "bin" / "uv")
        try:
            _run([uv, "venv", "-q", "--seed", "--python", PYTHON, str(folder)], "uv")
        except NoEnvironment as error:
            raise NoEnvironment(
                f"Caffe2 needs Python {PYTHON}, and there is none: it is neither on the PATH nor "
                f"among those of pyenv, and uv could not fetch it; name one by --base. {error}"
            ) from None


def make_environment(folder: Path, base: str | None = None) -> str:
    """The interpreter of an environment with Caffe2, which is made where it is missing.

    ``base`` is the Python to make it with; else one is looked for, and at last fetched by uv.
    NoEnvironment with what is in the way.
    """
    python = folder / "bin" / "python"
    stamp = folder / "caffe2-pins.txt"
    if stamp.exists() and stamp.read_text().split() == list(PINS):
        return str(python)
    if folder.exists() and not stamp.exists() and any(folder.iterdir()):
        raise Caffe2Error(
            f"{folder} is not empty, and caffe2-build has not made it; give another folder, or use "
            f"an environment of your own by --python"
        )
    bases = [base] if base else candidates()
    found = next((each for each in bases if _has_version(each)), None)
    if base and not found:
        raise NoEnvironment(f"{base} is not Python {PYTHON}, or has no ensurepip")
    print(f"making {folder}: {' '.join(PINS)}, about 900 MB", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        if found:
            _run([found, "-m", "venv", str(folder)], f"{found} -m venv")
        else:
            _make_by_uv(folder)
    except NoEnvironment:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    stamp.write_text("unfinished\n")
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    pip.append("--no-cache-dir")  # with one, pip holds the whole wheel in memory
    _run([*pip, *PINS], "pip")
    stamp.write_text("\n".join(PINS) + "\n")
    return str(python)


def find_caffe2(python: str | None, environment: str | None, base: str | None = None) -> Caffe2:
    """The Caffe2 of an interpreter, of an environment that may have to be made, or of whatever
    Python of the right version has one."""
    if python:
        return probe(python)
    if environment:
        return probe(make_environment(Path(environment).absolute(), base))
    reasons = []
    for each in candidates():
        try:
            return probe(each)
        except Caffe2Error as error:
            reasons.append(str(error).split("\n")[0])
    tried = "".join(f"\n  {reason}" for reason in reasons)
    raise Caffe2Error(f"no Python with Caffe2 was found; {MAKE_ONE}{tried}")
