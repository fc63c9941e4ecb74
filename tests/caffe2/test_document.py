"""docs/caffe2.md and the example are what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
from caffe2.python import workspace
from nets import assert_close
from pytorch import ROOT, run_under_pytorch

PAGE = (ROOT / "docs" / "caffe2.md").read_text()


def rows(head):
    """The cells of a table, by the backquoted names of the first."""
    table = re.search(rf"^\| {head} \|.*?(?=\n\n|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    for line in table[0].split("\n")[2:]:
        first, *rest = [cell.strip() for cell in line.split("|")[1:-1]]
        yield re.findall(r"`(\w+)`", first), rest


def names(described):
    return [name for name, _ in described]


def arguments_of(type_):
    return {each.name for each in workspace.C.OpSchema.get(type_).args}


def test_operators():
    """Every operator has a row, with its blobs; the schema has their meaning, and the text."""
    described = {}
    for (type_,), (inputs, outputs, arguments) in rows("type"):
        schema = workspace.C.OpSchema.get(type_)
        assert ", ".join(names(schema.input_desc)) == inputs
        assert ", ".join(names(schema.output_desc)) == outputs
        assert all(meaning for _, meaning in [*schema.input_desc, *schema.output_desc])
        assert set(re.findall(r"`(\w+)`", arguments)) <= arguments_of(type_)
        assert "def " in schema.doc and schema.doc.startswith("#")
        described[type_] = schema
    ours = {name for name in workspace.RegisteredOperators() if name.startswith("Tc")}
    assert ours == {"TcOp", *described, *(f"{type_}Gradient" for type_ in described)}


def test_arguments():
    in_the_page = [name for found, _ in rows("argument") for name in found]
    assert len(in_the_page) == len(set(in_the_page))
    assert set(in_the_page) == arguments_of("TcOp")
    for type_ in ("TcConvolutionOp", "TcGroupConvolutionOp"):
        for argument in arguments_of(type_):
            assert f"`{argument}`" in PAGE or argument == "order"


def test_one_text_in_both(tmp_path):
    ours, theirs = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert re.search(r'TEXT = """.*?"""', ours, re.DOTALL)[0] in theirs
    script = tmp_path / "in_pytorch.py"
    script.write_text(f"import os\nos.chdir({str(tmp_path)!r})\n{ours}")
    run_under_pytorch(script)
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        exec(theirs, {})
    finally:
        os.chdir(before)
    x, w, b = (workspace.FetchBlob(name) for name in "xwb")
    t = x @ w.T + b
    assert_close(workspace.FetchBlob("y"), t / (1 + np.abs(t)))
    seed = 1 / (1 + np.abs(t)) ** 2
    for name, wanted in {"x": seed @ w, "w": seed.T @ x, "b": seed.sum(0)}.items():
        assert_close(workspace.FetchBlob(f"{name}_grad"), wanted)


def test_example():
    command = [sys.executable, "-W", "ignore", str(ROOT / "examples" / "caffe2_net.py")]
    done = subprocess.run(
        [*command, os.environ["TC_CAFFE2_LIBRARY"]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"right for (100.0|9\d.\d)% of new points", done.stdout)
