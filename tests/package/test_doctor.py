"""`tc.show_config()` and `python -m tensor_comprehensions doctor`."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import torch

import tensor_comprehensions as tc
from tensor_comprehensions import _doctor
from tensor_comprehensions.__main__ import main


def test_show_config(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = "vector_bits=256,vector_registers=16,cores=3,cache_bytes=65536"
    monkeypatch.setenv("TC_MACHINE", machine)
    entries = dict(line.split(None, 1) for line in tc.show_config().splitlines())
    assert entries["torch"] == torch.__version__
    assert entries["halide"].startswith("21.")
    assert entries["TC_MACHINE"] == machine
    assert entries["decisions"] == (
        "for          256-bit vectors, 16 registers, 3 cores, 64 KiB of cache for copies"
    )


def test_doctor() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tensor_comprehensions", "doctor"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("tensor_comprehensions")
    states = dict(re.split(r"  +", line, maxsplit=1) for line in lines[lines.index("") + 1 :])
    for name in (
        *("kernels on the CPU", "several threads", "operators and gradients", "torch.compile"),
        "einsum",
    ):
        assert states[name] == "works"
    if torch.version.cuda is None:
        reason = f"not here: torch {torch.__version__} was built without CUDA"
        assert states["running on a GPU"] == reason


def test_doctor_says_what_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def fail() -> None:
        raise tc.CompilationError("no assembler\nand more")

    monkeypatch.setattr(_doctor, "_run_threads", fail)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "several threads           FAILS: no assembler\n" in out
    assert "einsum                    works\n" in out


def test_doctor_tells_of_a_machine_that_nobody_understands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("TC_MACHINE", "cores")
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "decisions for" in out and "unknown: TC_MACHINE: 'cores'" in out
    assert "kernels on the CPU        FAILS: TC_MACHINE: 'cores'" in out
    assert main(["machine"]) == 1
    assert "TC_MACHINE: 'cores' is no name and number" in capsys.readouterr().err
