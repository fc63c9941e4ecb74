"""Machine code to compare."""

from __future__ import annotations

import re

import tensor_comprehensions as tc


def code(run: tc.Executor) -> str:
    """Without numbers that names have of all that the process compiled, and a file's name."""
    text = re.sub(r"^\s*\.file.*$", "", run.assembly, flags=re.M)
    return re.sub(r"__\d+\b", "", text)
