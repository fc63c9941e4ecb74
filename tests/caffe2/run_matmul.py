"""Runs the net of test_stores.py with a file, and its gradient; TC_LOGS says what was compiled."""

import sys

import conftest  # noqa: F401
from nets import assert_close, gradients, random, run
from texts import MATMUL

a, b, seed = random(0, 5, 4), random(1, 4, 6), random(2, 5, 6)
arguments = {"tcDef": MATMUL, "tc_cache": sys.argv[1]}
assert_close(run("TcOp", [a, b], **arguments), a @ b)
for found, wanted in zip(
    gradients("TcOp", [a, b], [seed], [0, 1], **arguments), (seed @ b.T, a.T @ seed)
):
    assert_close(found, wanted)
