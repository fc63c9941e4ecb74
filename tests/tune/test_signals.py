"""Signals that come while a search runs: to its process, or to all helpers too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import tensor_comprehensions as tc
from tensor_comprehensions import _torch
from tensor_comprehensions._tuning.channel import Channel, Closed
from tensor_comprehensions._tuning.helpers import _receive
from tensor_comprehensions._tuning.problem import Problem
from tensor_comprehensions._tuning.session import Session
from tensor_comprehensions._tuning.trials import Times, Trial
from tensor_comprehensions._tuning.tuner import run_search

TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"


def problem() -> Problem:
    return Problem(TMM, "tmm", (torch.randn(33, 20), torch.randn(40, 20)))


def small(candidates: int = 6) -> tc.TunerConfig:
    return tc.TunerConfig().generations(1).pop_size(candidates).threads(2)


@pytest.fixture
def got() -> Iterator[list[int]]:
    """Signals that reach this process, which goes on."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    came: list[int] = []
    for number in numbers:
        signal.signal(number, lambda number, frame: came.append(number))
    yield came
    for number, handler in before.items():
        signal.signal(number, handler)


# ---- to a tree of processes

TREE = """
import sys, torch
import tensor_comprehensions as tc
T = tc.define(sys.argv[1])
config = tc.TunerConfig().threads(2).log(sys.argv[3])
a, b = torch.randn(65, 40), torch.randn(70, 40)
print(tc.tune(T.tmm, (a, b), budget_seconds=100, config=config, cache=sys.argv[2]), flush=True)
"""


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended meanwhile
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def test_sigterm_to_all_processes_ends_them_all(tmp_path: Path) -> None:
    """As batch systems and systemd send it. What was measured is kept, and the process ends by the
    signal, as when it alone gets it."""
    file, log = tmp_path / "tuned.tc.pb", tmp_path / "log.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-c", TREE, TMM, str(file), str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not (log.exists() and log.read_text().count("\n") > 3):
        time.sleep(0.05)
    processes = family(process.pid)
    assert len(processes) >= 4  # with the server, a job and a worker
    for pid in reversed(processes):  # helpers first
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            continue
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (-signal.SIGTERM, ""), err
    (tuning,) = _torch.Store.read(str(file), False).tunings()
    assert len(tuning.trials) > 3 and tuning.plans
    for _ in range(100):
        if not any(Path(f"/proc/{pid}").exists() for pid in processes):
            return
        time.sleep(0.1)
    pytest.fail("helpers outlive the process that tuned")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_helpers_that_end_after_a_signal_cost_nothing(
    number: int, got: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search is interrupted, with what is known."""

    class Ended(Session):
        def _wait(self) -> None:
            super()._wait()
            if len(self.search.trials) >= 2:
                os.kill(os.getpid(), number)
                raise Closed("the other process has ended")

    monkeypatch.setattr("tensor_comprehensions._tuning.tuner.Session", Ended)
    search = run_search(problem(), small())
    assert search.ended == "interrupted"
    assert len(search.trials) >= 2 and search.best_plan
    # SIGTERM has been sent again, since it was not for the search alone.
    assert got == ([signal.SIGTERM] if number == signal.SIGTERM else [])


def test_sigterm_before_anything_is_measured(
    got: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Early(Session):
        def _load(self) -> None:
            super()._load()
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("tensor_comprehensions._tuning.tuner.Session", Early)
    with pytest.raises(tc.TCError, match="a signal came before its answer"):
        run_search(problem(), small())
    assert got == [signal.SIGTERM]


# ---- that the process ignores


@pytest.mark.parametrize("handler", [signal.SIG_IGN, None])
def test_signals_that_the_process_ignores(
    handler: Any, got: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As jobs that a script runs in the background do; None is what Python says of a handler that a
    program around it has set, which it could not put back."""
    if handler is not None:
        signal.signal(signal.SIGINT, handler)
    else:
        monkeypatch.setattr(signal, "getsignal", lambda number: None)

    class Signalled(Session):
        def _compare_last(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            super()._compare_last()

    session = Signalled(problem(), small(3))
    search = session.run()
    assert search.ended == "all candidates are tried"
    assert got == ([] if handler is not None else [signal.SIGINT])
    assert not session._signals
    if handler is not None:
        assert signal.getsignal(signal.SIGINT) == handler


# ---- in the last comparison


def test_an_answer_is_waited_for_until_a_signal_comes() -> None:
    own, other = Channel.pair()
    came: list[int] = []
    threading.Timer(0.3, came.append, (signal.SIGINT,)).start()
    with pytest.raises(Closed, match="a signal came before its answer"):
        _receive(own, 200.0, lambda: bool(came))
    assert came
    other.send({"done": True})
    assert _receive(own, 200.0, lambda: True)[0] == {"done": True}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("ratio", [0.5, 0.97])
def test_a_signal_ends_the_last_comparison(number: int, ratio: float, got: list[int]) -> None:
    """With what is known: a candidate that is much faster by its own measurement."""

    class Endless(Session):
        def _compare_last(self) -> None:
            for trial in self.search.trials:
                trial.status, trial.ratio, trial.times = "measured", 1.0, Times(1e-3, 2e-3)
            self.search.trials[-1].ratio = ratio
            threading.Timer(0.5, os.kill, (os.getpid(), number)).start()
            super()._compare_last()

        def _time_in_turns(self, plans: list[str]) -> Any:
            fork = self._job.fork  # type: ignore[union-attr]

            def fork_stopped(role: str) -> Any:
                child = fork(role)
                child.stop(True)
                return child

            self._job.fork = fork_stopped  # type: ignore[union-attr, method-assign]
            return super()._time_in_turns(plans)

    session = Endless(problem(), small(3))
    begin = time.monotonic()
    search = session.run()
    assert time.monotonic() - begin < 60  # it would wait for 90 seconds at least
    assert search.ended == "interrupted"
    assert session._signals == [number]
    if ratio > 0.95:
        assert search.best_plan == search.standard_plan
    else:
        assert search.best_plan == search.trials[-1].plan
        assert search.ratio == pytest.approx(ratio)
        assert search.best is not None
        assert search.best.median == pytest.approx(2 * search.best.minimum)


def test_who_sends_a_signal_waits_for_a_short_comparison() -> None:
    """One that came before is no reason to leave it out."""
    asked: list[dict[str, Any]] = []

    class Seeing(Session):
        def _fork_worker(self) -> Any:
            worker = super()._fork_worker()
            send = worker.child.channel.send

            def seen(message: dict[str, Any]) -> None:
                asked.append(message)
                send(message)

            worker.child.channel.send = seen
            return worker

        def _compare_last(self) -> None:
            self._signals.append(signal.SIGINT)
            plan = self.search.trials[0].plan
            self.search.trials.append(Trial(9, plan, "measured", times=Times(1, 1), ratio=0.5))
            super()._compare_last()

    config = tc.TunerConfig().budget_seconds(600).generations(1).pop_size(2).threads(2)
    search = Seeing(problem(), config).run()
    assert search.ended == "interrupted"
    (final,) = [message for message in asked if message.get("do") == "final"]
    assert final["seconds"] <= 0.5
