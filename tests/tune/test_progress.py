"""What searches tell: the bar, the log, files of candidates, pictures."""

from __future__ import annotations

import csv
import io
import json
import logging
import math
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import tensor_comprehensions as tc
from tensor_comprehensions._tuning.problem import Problem
from tensor_comprehensions._tuning.progress import Progress
from tensor_comprehensions._tuning.trials import STATUSES, Search, Times, Trial
from tensor_comprehensions._tuning.tuner import run_search

TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"


def product(m: int = 33, n: int = 40, k: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(m, k), torch.randn(n, k)


def small(candidates: int) -> tc.TunerConfig:
    return tc.TunerConfig().generations(1).pop_size(candidates).threads(2)


def problem() -> Problem:
    return Problem(TMM, "tmm", product())


def test_logs_of_candidates(tmp_path: Path) -> None:
    for name in ("log.csv", "log.jsonl"):
        path = tmp_path / name
        config = small(5).log(path)
        searches = [run_search(problem(), config), run_search(problem(), config)]
        with path.open() as file:
            reads = csv.DictReader if name.endswith("csv") else partial(map, json.loads)
            rows = list(reads(file))
        trials = [trial for search in searches for trial in search.trials]
        assert len(rows) == len(trials) == 10
        for row, trial in zip(rows, trials, strict=True):
            assert row["definition"] == "tmm"
            assert row["plan"] == trial.plan and row["status"] == trial.status
            assert row["status"] in STATUSES
            if trial.times is not None:
                assert float(row["minimum"]) > 0 and float(row["median"]) > 0
    with pytest.raises(tc.TCError, match="cannot write the log of candidates"):
        run_search(problem(), small(2).log(tmp_path / "no" / "log.csv"))


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl"])
def test_a_log_on_a_full_disk(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / name).symlink_to("/dev/full")
    with caplog.at_level(logging.WARNING, "tensor_comprehensions"):
        search = run_search(problem(), small(4).log(tmp_path / name))
    assert len(search.trials) == 4 and search.best is not None
    (warning,) = (r.getMessage() for r in caplog.records if "candidates" in r.getMessage())
    assert warning == f"the log of candidates '{tmp_path / name}' ends: No space left on device"


def test_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    tuner = tc.Tuner(TMM)
    with pytest.raises(tc.TCError, match="no search to draw"):
        tuner.plot()
    tuner.tune("tmm", product(), None, small(6))
    figure = tuner.plot(tmp_path / "search.png")
    assert (tmp_path / "search.png").stat().st_size > 1000
    (axes,) = figure.axes
    assert "tmm" in axes.get_title()
    points = axes.collections[0].get_offsets()
    assert len(points) == sum(trial.ratio is not None for trial in tuner.history)


def test_nothing_is_written_where_nobody_looks(capfd: pytest.CaptureFixture[str]) -> None:
    tc.autotune(TMM, "tmm", *product(), tuner_config=small(3))
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""


def test_history_and_text_of_a_search() -> None:
    tuner = tc.Tuner(TMM)
    assert tuner.history == []
    tuner.tune("tmm", product(), None, small(5))
    (search,) = tuner.searches
    assert len(tuner.history) == 5 == len(search.trials)
    assert search.per_second() > 0
    assert math.isfinite(search.ratio) and search.ratio <= 1
    assert str(search).startswith("tmm: ") and " us by the compiler's own Plan" in str(search)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def search_of_two() -> Search:
    """Half and three times the time of the compiler's own Plan, 8 us; a library takes 6."""
    trials = [
        Trial(1, "a", "measured", ratio=0.5),
        Trial(2, "b", "measured", ratio=3.0),
        Trial(3, "c", "crashed"),
    ]
    return Search("tmm", standard=Times(8e-6, 9e-6), library=0.75, trials=trials)


def test_a_bar_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    bar = Progress(search_of_two(), 60.0, math.inf, False)
    bar.update(12.0)
    bar.close()
    shown = terminal.getvalue()
    assert "tuning tmm" in shown and "12/60 s" in shown
    assert "3 Plans, best 4 us, median 14 us, own 8 us, library 6 us" in shown


@pytest.mark.parametrize("reason", ["silent", "no terminal"])
def test_no_bar(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream: Any = Terminal() if reason == "silent" else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(tc, "SILENT", reason == "silent")
    bar = Progress(search_of_two(), 60.0, math.inf, False)
    bar.update(12.0)
    bar.close()
    assert stream.getvalue() == ""


def test_the_log_tells_of_the_search_and_of_candidates(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.INFO, "tensor_comprehensions"):
        run_search(problem(), small(3).logtostderr(True))
        lines = [record.getMessage() for record in caplog.records]
        assert sum(line.startswith("candidate ") and " of tmm: " in line for line in lines) == 3
        assert sum(line.startswith("tuned tmm: ") for line in lines) == 1
        caplog.clear()
        monkeypatch.setattr(tc, "SILENT", True)
        run_search(problem(), small(2))
        assert not any("tmm" in record.getMessage() for record in caplog.records)
