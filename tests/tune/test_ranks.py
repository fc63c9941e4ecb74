"""One search by two processes of torchrun."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tensor_comprehensions import _torch

TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
SCRIPT = """
import json, sys, torch
import torch.distributed as dist
import tensor_comprehensions as tc
dist.init_process_group("gloo")
torch.manual_seed(0)
a, b = torch.randn(33, 20), torch.randn(40, 20)
config = tc.TunerConfig().generations(1).pop_size(8).threads(1).strategy("random")
tuner = tc.Tuner(sys.argv[1], sys.argv[2 + dist.get_rank()])
try:
    best = tuner.tune("tmm", (a, b), None, config)
except tc.CacheError as error:
    best = error
print(json.dumps([dist.get_rank(), str(best), [trial.plan for trial in tuner.history]]), flush=True)
dist.barrier()
dist.destroy_process_group()
"""


def reports_of(text: str, folder: Path, *arguments: str) -> list[list]:
    """What two ranks that run a script print in JSON, in their order."""
    script = folder / "tune.py"
    script.write_text(text)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", str(script), *arguments),
        ],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    # Both write to one pipe, and one may come between the other's text and its newline.
    reports, rest = [], done.stdout
    while (begin := rest.find("[")) >= 0:
        report, end = json.JSONDecoder().raw_decode(rest, begin)
        reports.append(report)
        rest = rest[end:]
    return sorted(reports)


def run_ranks(folder: Path, *files: Path) -> list[tuple[str, list[str]]]:
    """What each rank has found, or the error it ended with, and the Plans that it tried."""
    reports = reports_of(SCRIPT, folder, TMM, *map(str, files))
    assert [rank for rank, _, _ in reports] == [0, 1]
    return [(best, tried) for _, best, tried in reports]


def test_a_rank_that_cannot_begin_keeps_no_other_waiting(tmp_path: Path) -> None:
    (best, tried), (error, none) = run_ranks(tmp_path, tmp_path / "a.pb", tmp_path / "no" / "b.pb")
    assert len(tried) == 8
    assert best.startswith("tc.MappingOptions")
    assert none == []
    assert "no/b.pb" in error


UNEXPECTED = """
import json, sys, torch
import torch.distributed as dist
import tensor_comprehensions as tc
from tensor_comprehensions._tuning.session import Session
dist.init_process_group("gloo")
rank, loop = dist.get_rank(), Session._loop
def broken(session):
    loop(session)
    if rank == 1:
        raise ZeroDivisionError("a bug")
Session._loop = broken
config = tc.TunerConfig().generations(1).pop_size(3).threads(1)
try:
    found = str(tc.autotune(sys.argv[1], "tmm", torch.ones(9, 8), torch.ones(7, 8),
                            tuner_config=config))
except ZeroDivisionError as error:
    found = str(error)
print(json.dumps([rank, found]), flush=True)
dist.barrier()
dist.destroy_process_group()
"""


def test_an_error_of_any_kind_keeps_no_other_waiting(tmp_path: Path) -> None:
    (_, found), (_, error) = reports_of(UNEXPECTED, tmp_path, TMM)
    assert found.startswith("tc.MappingOptions")
    assert error == "a bug"


def test_every_rank_measures_its_share(tmp_path: Path) -> None:
    """All get the same in the end, and the file what each has measured."""
    file = tmp_path / "tuned.tc.pb"
    (best, first), (other, second) = run_ranks(tmp_path, file, file)
    assert best == other
    assert len(first) == len(second) == 8
    assert not set(first) & set(second)
    (tuning,) = _torch.Store.read(str(file), False).tunings()
    assert {plan for plan, _ in tuning.trials} == {*first, *second}
    assert tuning.plans[0].options == best


MODEL = """
import json, sys, torch
import torch.distributed as dist
import tensor_comprehensions as tc
from tensor_comprehensions._tuning import modules
dist.init_process_group("gloo")
torch.manual_seed(0)
rank = dist.get_rank()
T = tc.define("def f(float(N) x) -> (y) { y(i) = exp(x(i)) }"
              "def g(float(N) x) -> (y) { y(i) = sin(x(i)) * x(i) }"
              "def h(float(N) x) -> (y) { y(i) = 2 * x(i) }")
found = modules._kernels
def kernels(module, inputs):
    all = sorted(found(module, inputs), key=lambda kernel: kernel.definition.name)
    return all if rank == 0 else all[1::-1]  # as by other clocks, and one is missing
modules._kernels = kernels
config = tc.TunerConfig().generations(1).pop_size(4).threads(1)
tuned = tc.tune(lambda x: T.h(T.g(T.f(x))), torch.randn(5000), config=config, budget_seconds=60)
print(json.dumps([rank, [(search.name, search.best_plan) for search in tuned], tuned.skipped]),
      flush=True)
dist.barrier()
dist.destroy_process_group()
"""


def test_ranks_tune_the_kernels_of_a_model_in_one_order(tmp_path: Path) -> None:
    reports = reports_of(MODEL, tmp_path)
    (_, first, one), (_, second, none) = reports
    assert [name for name, _ in first] == ["f", "g"]
    assert first == second
    assert (one, none) == (1, 0)
