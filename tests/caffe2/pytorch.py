"""The other side: what the same texts do under the PyTorch of tensor_comprehensions."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]


def run_under_pytorch(script, *arguments):
    """Runs a script of this folder in the other Python; what it prints."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [os.environ["TC_PYTHON"], str(FOLDER / script), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def core_library():
    """The file of the core that this process has loaded."""
    with open("/proc/self/maps") as maps:
        return {line.split()[-1] for line in maps if "libtensor_comprehensions.so" in line}
