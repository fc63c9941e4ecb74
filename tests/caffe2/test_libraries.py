"""The library that Caffe2 comes with, which the compiler may leave products and convolutions to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

#: A machine whose library is believed to be faster than anything.
ALWAYS = "library_rate=1000000000,library_call_cycles=1"


def test_calls():
    """Results are right, and these kinds of calls were made for them."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(__file__).with_name("run_libraries.py"))],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TC_MACHINE": ALWAYS, "TC_LOGS": "explain"},
    )
    assert done.returncode == 0, done.stdout[-4000:]
    kinds = (
        "products of",
        "product of",
        "convolution of",
        "gradient of an image",
        "gradient of filters",
    )
    calls = Counter(
        kind
        for line in done.stdout.split("\n")
        for kind in kinds
        if f"library   call: ATen, {kind}" in line
    )
    assert set(calls) == set(kinds), calls
