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
tuner = tc.Tuner(sys.argv[1], sys.argv[2])
best = tuner.tune("tmm", (a, b), None, config)
print(json.dumps([dist.get_rank(), str(best), [trial.plan for trial in tuner.history]]), flush=True)
dist.barrier()
dist.destroy_process_group()
"""


def test_every_rank_measures_its_share(tmp_path: Path) -> None:
    """All get the same in the end, and the file what each has measured."""
    script, file = tmp_path / "tune.py", tmp_path / "tuned.tc.pb"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", str(script), TMM, str(file)),
        ],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert sorted(rank for rank, _, _ in reports) == [0, 1]
    (_, best, first), (_, other, second) = reports
    assert best == other
    assert len(first) == len(second) == 8
    assert not set(first) & set(second)
    (tuning,) = _torch.Store.read(str(file), False).tunings()
    assert {plan for plan, _ in tuning.trials} == {*first, *second}
    assert tuning.plans[0].options == best
