"""Files of tensor_comprehensions.save, which a net uses by the argument tc_cache."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from nets import random, run
from pytorch import run_under_pytorch
from texts import SCALED

#: The compiler's own, what a user decides, and a whole Plan, a decision for every loop, as a tuner
#: leaves it.
OPTIONS = {
    "default": "",
    "tiles": 'tc.MappingOptions("naive").tile(4, 4)',
    "plan": 'tc.MappingOptions("default").libraryCalls(None).cluster("S0_init", "S0").inside()'
    '.order("k", "m").tile("task", k=3, m=4).parallel(False).tile("reduction").registers(k=3, m=4)'
    '.points("inside").vector(True).nest(None).copy(None)',
}


def decisions(explained):
    """What was decided for the product, without what differs from run to run and host to host."""
    found = re.search(r"^group 1\n.*?(?=^  estimate)", explained, re.MULTILINE | re.DOTALL)
    return found[0]


def explained_by_caffe2(file):
    script = Path(__file__).with_name("run_matmul.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TC_LOGS": "explain"},
    )
    assert done.returncode == 0, done.stdout
    return done.stdout[done.stdout.index("matmul on the CPU") :]


def test_files_of_pytorch(tmp_path):
    """Each is used, and decides the same in both."""
    seen = set()
    for name, options in OPTIONS.items():
        file = tmp_path / f"{name}.tc.pb"
        theirs = decisions(run_under_pytorch("pytorch_save.py", file, options))
        assert decisions(explained_by_caffe2(file)) == theirs
        seen.add(theirs)
    assert len(seen) == len(OPTIONS)


def test_text_that_the_file_has_not(tmp_path):
    file = tmp_path / "model.tc.pb"
    run_under_pytorch("pytorch_save.py", file, "")
    with pytest.raises(RuntimeError) as caught:
        run("TcOp", [random(0, 5), random(1, 1)], tcDef=SCALED, tc_cache=str(file))
    assert f"the file '{file}' has nothing about scaled: it holds " in str(caught.value)
    assert "matmul" in str(caught.value)
