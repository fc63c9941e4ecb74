"""What type checkers see: the stub of the binding, and the types that users get."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tensor_comprehensions as tc

ROOT = Path(__file__).resolve().parents[2]
STUB = ROOT / "tensor_comprehensions" / "_torch.pyi"

USER = """
import torch
import tensor_comprehensions as tc

T = tc.define("def f(float(N) a) -> (b) { b(i) = a(i) }", "naive", namespace="tc_typing")
x = torch.ones(3)
reveal_type(T)
reveal_type(T.f)
reveal_type(T.f(x) + 1)
reveal_type(T("f", x, outputs=x))
one, other = T.f(x)
reveal_type(one)
reveal_type(tc.make_autograd(T.f))
reveal_type(tc.make_autograd(T.f)(x))
reveal_type(tc.einsum("ij, jk -> ik", x, x, table=x))
reveal_type(tc.einsum_source("ii", x))
reveal_type(tc.grad_source("..."))
reveal_type(tc.compile("...", "f", None, x))
reveal_type(tc.compile("...", "f", None, x)(x))
reveal_type(tc.compile("...", "f", tc.MappingOptions("naive"), x).explain())
reveal_type(tc.MappingOptions("naive").tile(8, 8).parallel(False))
reveal_type(tc.nn.Lambda("...", C=8))
reveal_type(tc.ops.load("matmul").matmul)
reveal_type(tc.show_config())
reveal_type(tc.save("model.tc.pb", T, T.f, tc.nn.Lambda("...")))
reveal_type(tc.load("model.tc.pb"))
reveal_type(T.differentiable("f"))
try:
    T.f()
except tc.LanguageError as error:
    reveal_type(error.line)
reveal_type(tc.SILENT)
tc.no_such_name
from tensor_comprehensions import nor_this_one
tc.define(3)
tc.MappingOptions("naive").tile("8")
tc.compile("...")
"""
REVEALED = [
    "tensor_comprehensions._define.TC",
    "tensor_comprehensions._operator.Operator",
    "torch._tensor.Tensor",
    "torch._tensor.Tensor",
    "Any",
    "tensor_comprehensions._autograd.Differentiable",
    "torch._tensor.Tensor",
    "torch._tensor.Tensor",
    "str",
    "str",
    "tensor_comprehensions._executor.Executor",
    "torch._tensor.Tensor",
    "str",
    "tensor_comprehensions._options.MappingOptions",
    "tensor_comprehensions.nn.Lambda",
    "tensor_comprehensions._operator.Operator",
    "str",
    "None",
    "list[tensor_comprehensions._define.TC]",
    "tensor_comprehensions._autograd.Differentiable",
    "int",
    "bool",
]


def run_tool(*arguments: str, folder: Path) -> str:
    package = Path(tc.__file__).resolve().parent.parent
    path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    if package.name != "site-packages":  # where mypy looks anyway
        environment["MYPYPATH"] = str(package)
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


def test_the_stub_is_what_the_binding_is(tmp_path: Path) -> None:
    said = run_tool(
        "pybind11_stubgen", "tensor_comprehensions._torch", "-o", str(tmp_path), folder=tmp_path
    )
    found = tmp_path / "tensor_comprehensions" / "_torch.pyi"
    assert found.exists(), said
    if os.environ.get("TC_UPDATE_GOLDEN") == "1":
        STUB.write_text(found.read_text())
    assert STUB.read_text() == found.read_text(), "TC_UPDATE_GOLDEN=1 writes it anew"


@pytest.mark.slow
def test_the_stub_is_strict(tmp_path: Path) -> None:
    """Without what the package's own configuration allows."""
    copy = tmp_path / "stub.pyi"
    copy.write_text(STUB.read_text())
    said = run_tool("mypy", "--strict", "--config-file", os.devnull, str(copy), folder=tmp_path)
    assert "Success: no issues found" in said, said


def test_names_at_run_time_are_those_that_type_checkers_see() -> None:
    for name in tc.__all__:
        assert getattr(tc, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        tc.no_such_name  # noqa: B018


@pytest.mark.slow
def test_the_package_is_typed(tmp_path: Path) -> None:
    """Without errors itself, and with the types that users should see."""
    # The second run finds in the first one's cache what mypy thinks of PyTorch.
    mypy = ("mypy", "--strict", "--cache-dir", str(tmp_path / "cache"))
    said = run_tool(*mypy, folder=ROOT)
    assert "Success: no issues found" in said, said

    assert (Path(tc.__file__).parent / "py.typed").exists()
    user = tmp_path / "user.py"
    user.write_text(USER)
    said = run_tool(
        *(*mypy, "--config-file", str(ROOT / "pyproject.toml"), str(user)), folder=tmp_path
    )
    assert re.findall(r'user\.py:\d+: note: Revealed type is "(.*)"', said) == REVEALED, said
    errors = re.findall(r"^(\S+?):\d+: error: .*\[(.*)\]$", said, re.MULTILINE)
    wanted = ["attr-defined", "attr-defined", "arg-type", "arg-type", "call-arg"]
    assert [code for _, code in errors] == wanted, said
    assert 'has no attribute "no_such_name"' in said, said
    assert {Path(file).name for file, _ in errors} == {"user.py"}, said
