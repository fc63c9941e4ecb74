"""Candidates are measured under the conditions that what is found is kept for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import tensor_comprehensions as tc
from tensor_comprehensions import _torch
from tensor_comprehensions._tuning.problem import Problem
from tensor_comprehensions._tuning.trials import Search
from tensor_comprehensions._tuning.tuner import run_search

TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
NARROW = "vector_bits=128,unit_bits=128,vector_registers=16,library_rate=1"


@pytest.fixture(autouse=True)
def mode_stays() -> Iterator[None]:
    yield
    torch.use_deterministic_algorithms(False)


def search_for(file: Path) -> tuple[Problem, Search]:
    problem = Problem(TMM, "tmm", (torch.randn(60, 50), torch.randn(70, 50)))
    config = tc.TunerConfig().generations(1).pop_size(6).threads(2)
    return problem, run_search(problem, config, (), file)


def own_plan(problem: Problem) -> str:
    return str(tc.compile(TMM, "tmm", None, *problem.inputs).options)


def test_the_number_of_threads_is_that_of_the_key(tmp_path: Path) -> None:
    """Also in deterministic mode, where it is that of all."""
    torch.set_num_threads(1)
    for deterministic in (False, True):
        torch.use_deterministic_algorithms(deterministic)
        file = tmp_path / f"{deterministic}.tc.pb"
        problem, search = search_for(file)
        (tuning,) = _torch.Store.read(str(file), False).tunings()
        assert problem.message()[0]["threads"] == problem.threads == tuning.threads
        assert problem.threads == (len(os.sched_getaffinity(0)) if deterministic else 1)
        assert search.standard_plan == own_plan(problem)


FORKED = """
import json, os, sys, torch
import tensor_comprehensions as tc
sys.path.insert(0, sys.argv[1])
from test_conditions import _torch, own_plan, search_for
torch.randn(500, 500) @ torch.randn(500, 500)
torch.ones(1 << 20).exp()  # by all threads
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
problem, search = search_for(sys.argv[2])
(tuning,) = _torch.Store.read(sys.argv[2], False).tunings()
print(json.dumps([problem.threads, tuning.threads, search.standard_plan == own_plan(problem)]))
"""


def test_a_process_that_was_forked_has_one_thread(tmp_path: Path) -> None:
    """Kernels run on one there, since the team of its threads was the parent's."""
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(here), str(tmp_path / "tuned.tc.pb")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    threads, kept_for, is_own = json.loads(done.stdout)
    assert threads == kept_for
    assert is_own
    assert threads == 1


def test_libraries_are_as_they_are_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No call of one is tried where compiling it would leave it out."""
    monkeypatch.setenv("TC_MACHINE", "library_rate=1000000,library_call_cycles=1")
    tried = {}
    for deterministic in (False, True):
        torch.use_deterministic_algorithms(deterministic)
        problem, search = search_for(tmp_path / f"{deterministic}.tc.pb")
        assert search.standard_plan == own_plan(problem)
        plans = [search.standard_plan, *(trial.plan for trial in search.trials)]
        tried[deterministic] = any('libraryCalls("' in plan for plan in plans)
    assert tried == {False: True, True: False}


def test_a_machine_that_is_described_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The helpers were there before it was; what they find is kept for that one."""
    problem, search = search_for(tmp_path / "here.tc.pb")
    assert search.standard_plan == own_plan(problem)
    monkeypatch.setenv("TC_MACHINE", NARROW)
    file = tmp_path / "described.tc.pb"
    problem, search = search_for(file)
    assert search.standard_plan == own_plan(problem)
    (tuning,) = _torch.Store.read(str(file), False).tunings()
    assert "vector_bits=128" in tuning.machine
    monkeypatch.delenv("TC_MACHINE")
    problem, search = search_for(tmp_path / "again.tc.pb")
    assert search.standard_plan == own_plan(problem)
