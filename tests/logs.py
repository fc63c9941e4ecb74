"""What a process says on its way with TC_LOGS."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

COMPILE = (
    "import torch, tensor_comprehensions as tc\n"
    "t = tc.define('def logged(float(N) A) -> (O) { O(i) = A(i) }')\n"
    "t.logged(torch.zeros(5)); t.logged(torch.zeros(6))\n"
)


@functools.cache
def said(topics: str, script: str = COMPILE) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "TC_LOGS": topics},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
    return done.stderr
