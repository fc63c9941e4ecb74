"""Machine code to compare."""

from __future__ import annotations

import re

import tensor_comprehensions as tc


def code(run: tc.Executor) -> str:
    """Without comments, a file's name, and the numbers in names that count compilations."""
    text = re.sub(r"^\s*\.file.*$|\s*#.*$", "", run.assembly, flags=re.M)
    return re.sub(r"__\d+\b", "", text)
