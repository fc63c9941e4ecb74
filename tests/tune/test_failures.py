"""Searches whose helpers crash, hang or compute something else, and that are interrupted."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from sampling import REPEATED

import tensor_comprehensions as tc
from tensor_comprehensions import _torch
from tensor_comprehensions._tuning.channel import Channel
from tensor_comprehensions._tuning.helpers import Server
from tensor_comprehensions._tuning.problem import Problem
from tensor_comprehensions._tuning.session import Session
from tensor_comprehensions._tuning.trials import Search
from tensor_comprehensions._tuning.tuner import run_search

TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"


def product() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(33, 20), torch.randn(40, 20)


def small(candidates: int) -> tc.TunerConfig:
    return tc.TunerConfig().generations(1).pop_size(candidates).threads(2)


def problem() -> Problem:
    return Problem(TMM, "tmm", product())


class Sabotage(Session):
    """Signals to workers that have a candidate, as if its kernel had done that."""

    def __init__(self, *arguments: Any, seed: int, share: float, signals: Any) -> None:
        super().__init__(*arguments)
        self._random = random.Random(seed)
        self._chance = share
        self._numbers = signals
        self.sent = 0

    def _send(self, worker: Any, message: dict[str, Any]) -> None:
        super()._send(worker, message)
        if worker in self._workers and self._random.random() < self._chance:
            self.sent += 1
            os.kill(worker.child.pid, self._random.choice(self._numbers))


def test_crashes_cost_one_candidate_each() -> None:
    # Where others run, several threads wait for each other, at times too long.
    alone = problem()
    alone.threads = 1
    session = Sabotage(
        alone, small(30), seed=1, share=0.3, signals=(signal.SIGSEGV, signal.SIGKILL)
    )
    search = session.run()
    counts = search.counts()
    assert session.sent >= 5
    # A signal may come when the candidate is done already.
    assert session.sent - 3 <= counts["crashed"] <= session.sent
    # On a busy machine some are slow.
    assert counts["measured"] + counts["slow"] == 30 - counts["crashed"] >= 3
    assert len(search.trials) == 30
    reasons = {trial.reason for trial in search.trials if trial.status == "crashed"}
    assert reasons <= {"its process was ended by SIGSEGV", "its process was ended by SIGKILL"}
    assert search.best_plan


def test_hangs_end_at_their_time() -> None:
    config = small(12).timeout_seconds(1.0)
    # With more threads, the search itself stops processes and lets them go on.
    alone = problem()
    alone.threads = 1
    session = Sabotage(alone, config, seed=3, share=0.15, signals=(signal.SIGSTOP,))
    begin = time.monotonic()
    search = session.run()
    assert session.sent >= 2
    counts = search.counts()
    assert counts["timeout"] >= 1
    # On a busy machine some are slow.
    assert counts["measured"] + counts["slow"] == 12 - counts["timeout"] >= 3
    assert time.monotonic() - begin < 60


def test_runs_that_wait_for_processors_are_no_hangs() -> None:
    """As on a busy machine: one stands still for longer than a run may take."""

    class Busy(Session):
        waited = 0

        def _measure_next(self) -> None:
            before = self._measuring
            super()._measure_next()
            if before is None and self._measuring is not None and not self.waited:
                self.waited = self._measuring.child.pid
                os.kill(self.waited, signal.SIGSTOP)
                threading.Timer(4.0, os.kill, (self.waited, signal.SIGCONT)).start()

    alone = problem()
    alone.threads = 1
    session = Busy(alone, small(4))
    search = session.run()
    assert session.waited
    assert search.counts()["timeout"] == 0
    assert len(search.trials) == 4


class Doubting(Session):
    """The reference is another one, so that every candidate is wrong."""

    def _load(self) -> None:
        super()._load()
        job = self._job
        assert job is not None
        ask = job.set_reference

        def other(described: list[Any], descriptor: int) -> None:
            size = os.fstat(descriptor).st_size
            memory = torch.from_file(
                f"/proc/self/fd/{descriptor}", shared=True, size=size, dtype=torch.uint8
            )
            memory[:4] = torch.tensor([1000.0]).view(torch.uint8)
            ask(described, descriptor)

        job.set_reference = other  # type: ignore[method-assign]


def test_wrong_results_never_win() -> None:
    """The compiler's own Plan stays."""
    search = Doubting(problem(), small(8)).run()
    assert len(search.trials) == 8
    assert search.best_plan == search.standard_plan
    # On a busy machine, some wait too long.
    wrong = [trial for trial in search.trials if trial.status != "timeout"]
    assert len(wrong) >= 4
    assert all(t.status == "wrong" and "C: off by" in t.reason for t in wrong)


def test_planners_that_end_are_begun_anew() -> None:
    class Impatient(Session):
        ended = 0

        def _ask_planner(self) -> None:
            super()._ask_planner()
            if self._planner is not None and len(self.search.trials) in (4, 9) and self.ended < 2:
                self.ended += 1
                os.kill(self._planner.pid, signal.SIGKILL)

    session = Impatient(problem(), small(20))
    search = session.run()
    assert session.ended == 2
    assert len(search.trials) == 20
    assert len({trial.plan for trial in search.trials}) == 20  # none twice


def test_results_that_come_while_the_planner_answers() -> None:
    """A generation needs the results of the one before. Its last ones may come between the question
    and the answer that there is nothing to try yet, and no others follow that would ask again."""

    class Late(Session):
        def _hear_planner(self) -> None:
            if not any(worker.candidate is not None for worker in self._workers):
                super()._hear_planner()

    config = tc.TunerConfig().generations(3).pop_size(3).number_elites(1).threads(2)
    config = config.strategy("genetic").budget_seconds(30)
    search = Late(problem(), config).run()
    assert search.ended in ("all candidates are tried", "there is nothing left to try")
    assert len(search.trials) == 9


def test_a_server_that_ended_is_replaced() -> None:
    run_search(problem(), small(2))
    server = Server.get()
    server._process.kill()
    server._process.wait()
    assert len(run_search(problem(), small(3)).trials) == 3
    assert Server.get() is not server


def test_folders_of_imports_that_are_no_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python passes over them, and so does the server."""
    monkeypatch.setattr(sys, "path", [*sys.path, Path("/usr/share")])
    monkeypatch.setattr(Server, "_only", None)
    try:
        assert len(run_search(problem(), small(2)).trials) == 2
    finally:
        if Server._only is not None:
            Server._only.close()


@pytest.mark.parametrize("step", [0, 1])
def test_a_clock_of_processor_time_that_lies(step: int, tmp_path: Path) -> None:
    """It stands still, as where a system moves it at every tick only, or gives runs less than they
    took, as where a hypervisor's thefts are taken from it: neither decides what is fastest."""
    source = tmp_path / "clock.c"
    source.write_text(
        "#define _GNU_SOURCE\n"
        "#include <sys/syscall.h>\n"
        "#include <time.h>\n"
        "#include <unistd.h>\n"
        "int clock_gettime(clockid_t clock, struct timespec* now) {\n"
        "  if (clock != CLOCK_THREAD_CPUTIME_ID) return syscall(SYS_clock_gettime, clock, now);\n"
        "  static long moved;\n"
        "  now->tv_sec = 1;\n"
        f"  now->tv_nsec = moved += {step};\n"
        "  return 0;\n"
        "}\n"
    )
    library = tmp_path / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    script = (
        "import time, torch\n"
        "import tensor_comprehensions as tc\n"
        "from tensor_comprehensions._tuning.problem import Problem\n"
        "from tensor_comprehensions._tuning.tuner import run_search\n"
        "assert 1.0 <= time.thread_time() < 1.1\n"
        "torch.set_num_threads(1)\n"
        "inputs = (torch.randn(33, 20), torch.randn(40, 20))\n"
        "config = tc.TunerConfig().generations(1).pop_size(4).threads(2)\n"
        f"search = run_search(Problem({TMM!r}, 'tmm', inputs), config)\n"
        "assert search.counts()['measured'], search.counts()\n"
        "times = [search.standard, *(t.times for t in search.trials if t.status == 'measured')]\n"
        "assert all(1e-7 < each.minimum < 1e-2 for each in times), times\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_helpers_end_with_the_process() -> None:
    script = (
        "import os, sys, torch\n"
        "import tensor_comprehensions as tc\n"
        "from tensor_comprehensions._tuning.helpers import Server\n"
        f"tc.autotune({TMM!r}, 'tmm', torch.randn(9, 9), torch.randn(9, 9),\n"
        "            tuner_config=tc.TunerConfig().generations(1).pop_size(2))\n"
        "print(Server.get()._process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    pid = int(done.stdout)
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.1)
    pytest.fail("the server outlives the process that tuned")


# ---- many of each


def is_right(search: Search) -> None:
    a, b = product()
    options = tc.MappingOptions.parse(search.best_plan)
    torch.testing.assert_close(tc.compile(TMM, "tmm", options, a, b)(a, b), a @ b.t())


@pytest.mark.slow
def test_many_crashes() -> None:
    signals = (signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT)
    session = Sabotage(
        problem(), small(2 * REPEATED).patience(0), seed=2, share=0.4, signals=signals
    )
    search = session.run()
    assert search.counts()["crashed"] >= REPEATED // 2
    assert len(search.trials) == 2 * REPEATED
    is_right(search)


@pytest.mark.slow
def test_many_hangs() -> None:
    """While they compile; those of runs take longer to be seen."""

    class Hanging(Sabotage):
        def _send(self, worker: Any, message: dict[str, Any]) -> None:
            self._chance = 0.7 if "plan" in message else 0.0
            super()._send(worker, message)

    alone = problem()
    alone.threads = 1  # with more, searches stop and continue their helpers themselves
    config = small(REPEATED).patience(0).timeout_seconds(0.4)
    search = Hanging(alone, config, seed=4, share=0.7, signals=(signal.SIGSTOP,)).run()
    assert search.counts()["timeout"] >= REPEATED // 2
    assert len(search.trials) == REPEATED
    is_right(search)


@pytest.mark.slow
def test_many_wrong_kernels() -> None:
    search = Doubting(problem(), small(REPEATED).patience(0)).run()
    counts = search.counts()
    # On a busy machine, runs of some seconds are hangs.
    others = [(t.status, t.reason) for t in search.trials if t.status != "wrong"]
    assert counts["wrong"] + counts["timeout"] == REPEATED, (search.ended, others)
    assert counts["timeout"] <= 5
    assert search.best_plan == search.standard_plan


@pytest.mark.slow
def test_interrupted_at_any_time(tmp_path: Path) -> None:
    """Each search goes on from what the file has of those before."""
    file = tmp_path / "tuned.tc.pb"
    r = random.Random(0)

    class Interrupted(Session):
        def _loop(self) -> None:
            self.after = r.randrange(5)
            super()._loop()

        def _wait(self) -> None:
            super()._wait()
            if len(self.search.trials) >= self.after and not self._signals:
                time.sleep(0.01 * r.random())
                os.kill(os.getpid(), signal.SIGINT)

    measured = 0
    config = tc.TunerConfig().budget_seconds(100).threads(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tensor_comprehensions._tuning.tuner.Session", Interrupted)
        for _ in range(10):
            search = run_search(problem(), config, (), file)
            assert search.ended == "interrupted"
            measured += len(search.trials)
            if measured:
                (tuning,) = _torch.Store.read(str(file), False).tunings()
                assert tuning.measured == measured
    assert measured > 10


def test_a_worker_that_was_ready_when_others_were_stopped_goes_on() -> None:
    """It had said so, which was not heard yet: it is stopped as one that compiles."""

    class Late(Session):
        stopped = 0

        def _stop_others(self, worker: Any, stopped: bool) -> None:
            super()._stop_others(worker, stopped)
            for other in self._workers:
                if stopped and other is not worker and other.state == "compiling":
                    # As if its message had come just now.
                    other.state = "ready"
                    self.stopped += 1

    several = problem()
    several.threads = 2
    session = Late(several, small(8))
    begin = time.monotonic()
    search = session.run()
    assert session.stopped
    assert search.counts()["timeout"] == 0
    assert time.monotonic() - begin < 25


def test_a_message_is_sent_at_once() -> None:
    """A process that is stopped between two writes leaves half a message."""
    first, second = Channel.pair()
    written: list[int] = []

    class Counting:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def sendmsg(self, *arguments: Any) -> int:
            written.append(self._inner.sendmsg(*arguments))
            return written[-1]

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    first._socket = Counting(first._socket)  # type: ignore[assignment]
    first.send({"text": "x" * 5000})
    assert second.receive()[0] == {"text": "x" * 5000}
    assert written[0] > 5000
