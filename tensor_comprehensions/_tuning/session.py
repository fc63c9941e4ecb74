"""One search: candidates are compiled and timed in helper processes until the budget is spent.

Compilations go on side by side; a candidate that is compiled waits until it is the only one that is
timed. A helper that ends, hangs or computes something else costs the candidate that it had, and
another one takes its place.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensor_comprehensions._errors import TCError, error_class
from tensor_comprehensions._logging import logger
from tensor_comprehensions._tuning.channel import Closed
from tensor_comprehensions._tuning.config import TunerConfig
from tensor_comprehensions._tuning.helpers import _TICK, Child, Job, Server, _receive
from tensor_comprehensions._tuning.problem import Problem
from tensor_comprehensions._tuning.progress import Progress
from tensor_comprehensions._tuning.trials import Log, Search, Times, Trial

#: A candidate whose first run takes so many times the best is not timed any further; seconds that
#: a first run may take beside that, for pages that nobody touched before.
_SLOW, _FIRST = 4.0, 3e-4
#: A run that takes so many times the best, and so many seconds more, hangs, if it had the processor
#: for that share of them.
_HANGS, _HANGS_SECONDS, _HANGS_SHARE = 100.0, 3.0, 0.7
#: A gain that is none, by what repeated measurements differ.
_GAIN = 0.99
#: What wins has to be so much faster than the compiler's own Plan by the shortest run, and faster
#: by the median.
_WINS = 0.985
#: Candidates of the last comparison, and its share of the budget; least and most seconds of each of
#: the places that tensors are in.
_FINALISTS, _FINAL_SHARE, _FINAL_LEAST, _FINAL_MOST = 4, 0.08, 0.3, 2.0
#: Rounds of turns there, at most; of kernels that take long, and of those that would take more
#: than that share of the budget otherwise.
_FINAL_ROUNDS, _LONG_ROUNDS, _FEWEST_ROUNDS, _LONG_SHARE = 24, 4, 2, 0.25
#: What is believed of a gain that no last comparison has confirmed; seconds that count as the
#: budget of one which others wait for.
_UNCONFIRMED, _HURRY = 0.95, 10.0
#: Candidates that a planner is asked for, for each worker.
_BATCH = 6
#: Times that a planner may end, and be begun anew.
_PLANNERS = 3


@dataclass
class _Worker:
    """A helper and what it is at."""

    child: Child
    candidate: str | None = None  #: the Plan
    state: str = "idle"  #: idle, compiling, ready, measuring
    deadline: float = float("inf")
    compile: float | None = None
    hangs_after: float = float("inf")  #: seconds of processor time of its process
    rival: float = 1.0  #: the ratio of the Plan that it is timed in turns with


def _seconds_of_place(budget: float) -> float:
    """Of the last comparison, for each of the places that tensors are in."""
    return min(max(_FINAL_SHARE / 2 * budget, _FINAL_LEAST), _FINAL_MOST)


def last_comparison(run: float, candidates: int, budget: float) -> tuple[int, int, int]:
    """How many candidates are compared with the compiler's own Plan in the end, in how many rounds
    of turns and places of memory, where one run takes so long: less of each the longer it is.

    Everything is run once more than there are rounds, in each place.
    """
    places = 2
    candidates = min(candidates, _FINALISTS)
    run = max(run, 1e-9)
    rounds = _seconds_of_place(budget) / (run * (1 + candidates))
    rounds = int(min(max(rounds, _LONG_ROUNDS), _FINAL_ROUNDS))
    while (1 + candidates) * (1 + rounds) * places * run > _LONG_SHARE * budget:
        if rounds > _FEWEST_ROUNDS:
            rounds -= 1
        elif candidates > 1:
            candidates -= 1
        elif places > 1:
            places = 1
        else:
            rounds = 1
            break
    return candidates, rounds, places


class Session:
    """A search for one problem. ``run`` once."""

    def __init__(
        self,
        problem: Problem,
        config: TunerConfig,
        plans: Sequence[str] = (),
        known: Sequence[tuple[str, float | None]] = (),
        share: tuple[int, int] = (0, 1),
        checkpoint: Callable[[Search], None] | None = None,
    ) -> None:
        self._problem = problem
        self._config = config
        self._plans = plans
        self._known = known
        self._share = share
        self._checkpoint = checkpoint
        self.search = Search(problem.definition.name, known=len(known))
        self._workers: list[_Worker] = []
        self._queue: deque[str] = deque()
        self._results: list[tuple[str, float | None, float | None]] = []
        self._planner: Child | None = None
        self._planners = 0
        self._asked = 0.0
        self._exhausted = False
        self._measuring: _Worker | None = None
        self._stopped = 0.0  #: since when others stand still; 0 where they do not
        self._signals: list[int] = []
        self._heard = 0  # signals that had come when the last comparison began
        self._best = (1.0, "")  # ratio and Plan, of those that are clearly faster than others
        self._without_gain = 0
        self._begin = 0.0
        self._job: Job | None = None
        self._log: Log | None = None
        self._progress: Progress | None = None

    # ---- from begin to end

    def run(self) -> Search:
        """Searches until the budget is spent, Ctrl-C comes, or there is nothing left to try."""
        search = self.search
        with self._signals_noted():
            try:
                self._log = Log(self._config._log)
                self._job = Server.get().job()
                self._load()
                self._measure_standard()
                self._progress = Progress(
                    search,
                    self._config.seconds(),
                    self._config.most_candidates(),
                    self._config._logs,
                )
                self._begin = time.monotonic()
                self._start_planner()
                self._loop()
                self._end_workers()
                search.seconds = time.monotonic() - self._begin
                self._compare_last()
                if self._signals:
                    search.ended = "interrupted"
            except Closed as error:
                if not self._signals or search.standard is None:
                    raise TCError(
                        f"the process that {search.name} is tuned in has ended: {error}"
                    ) from error
                # Who ends a tree of processes has ended helpers, too.
                search.seconds = search.seconds or time.monotonic() - self._begin
                self._take_known()
                search.ended = "interrupted"
            finally:
                if self._job is not None:
                    self._job.close()
                for worker in self._workers:
                    worker.child.channel.close()
                if self._planner is not None:
                    self._planner.channel.close()
                if self._log is not None:
                    self._log.close()
                if self._progress is not None:
                    self._progress.close()
        return search

    @contextlib.contextmanager
    def _signals_noted(self) -> Iterator[None]:
        """SIGINT and SIGTERM end the search, if the process does not ignore them; the second SIGINT
        is one again. Whoever has run the search ends the process, if ``terminated`` says so, when
        it has saved what was found."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        # What the process ignores, as jobs that a shell runs in the background do, it goes on to
        # ignore; a handler of a program around Python could not be put back.
        before = {
            number: handler
            for number, handler in before.items()
            if handler is not None and handler != signal.SIG_IGN
        }

        def note(number: int, frame: Any) -> None:
            self._signals.append(number)
            if number == signal.SIGINT:
                signal.signal(signal.SIGINT, before[signal.SIGINT])

        try:
            for number in before:
                signal.signal(number, note)
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @property
    def terminated(self) -> bool:
        """Whether SIGTERM has ended the search."""
        return signal.SIGTERM in self._signals

    def _load(self) -> None:
        assert self._job is not None
        message, descriptor = self._problem.message()
        try:
            self._job.load(message, descriptor)
        except Closed as error:
            raise TCError(
                f"the inputs of {self.search.name} could not be handed to another process: {error}"
            ) from error
        finally:
            os.close(descriptor)

    def _measure_standard(self) -> None:
        """The compiler's own Plan, whose results are the reference."""
        assert self._job is not None
        worker = self._fork_worker()
        worker.child.channel.send({"do": "baseline"})
        limit = 10 * self._config._timeout
        try:
            report, descriptors = _receive(worker.child.channel, limit, lambda: self.terminated)
        except Closed as error:
            how = worker.child.end(kill=True)
            raise TCError(
                f"{self.search.name} cannot be tuned: a process that ran it as the compiler "
                f"chooses {how} ({error}); logging at level DEBUG shows what it writes"
            ) from error
        if "error" in report:  # what a call of it would raise
            raise error_class(report["error"])(report["reason"])
        self.search.standard_plan = self.search.best_plan = report["plan"]
        self.search.standard = self.search.best = Times(**report["times"])
        self._best = (1.0, report["plan"])
        self._job.set_reference(report["reference"], descriptors[0])
        os.close(descriptors[0])
        # That one was forked without the reference.
        self._workers.remove(worker)
        worker.child.end(kill=True)

    def _loop(self) -> None:
        saved = time.monotonic()
        while not self._is_over():
            self._ask_planner()
            self._dispatch()
            if (
                self._exhausted
                and not self._queue
                and all(worker.state == "idle" for worker in self._workers)
            ):
                self.search.ended = "there is nothing left to try"
                return
            self._wait()
            self._look_at_clock()
            if self._checkpoint and time.monotonic() - saved > 15:
                saved = time.monotonic()
                self._checkpoint(self.search)

    def _is_over(self) -> bool:
        elapsed = time.monotonic() - self._begin
        reasons = {
            "interrupted": bool(self._signals),
            "the budget is spent": elapsed >= self._config.seconds() - self._reserved(),
            "all candidates are tried": len(self.search.trials) >= self._config.most_candidates(),
            "there was no gain any more": self._without_gain >= self._config.most_without_gain(),
        }
        self.search.ended = next((why for why, holds in reasons.items() if holds), "")
        return bool(self.search.ended)

    def _reserved(self) -> float:
        """Seconds of the budget that the last comparison gets."""
        assert self.search.standard is not None
        budget = self._config.seconds()
        if budget == float("inf"):
            return 0.0
        run = self.search.standard.minimum
        candidates, rounds, places = last_comparison(run, _FINALISTS, budget)
        seconds = (1 + candidates) * (1 + rounds) * places * run
        return min(max(seconds, _FINAL_SHARE * budget), _LONG_SHARE * budget)

    def _end_workers(self) -> None:
        for worker in self._workers:
            worker.child.end(kill=True)
        self._workers.clear()
        if self._planner is not None:
            with contextlib.suppress(Closed):
                self._planner.end(kill=True)
            self._planner = None

    # ---- helpers

    def _fork_worker(self) -> _Worker:
        assert self._job is not None
        worker = _Worker(self._job.fork("worker"))
        self._workers.append(worker)
        return worker

    def _start_planner(self) -> None:
        assert self._job is not None
        self._planners += 1
        if self._planners > _PLANNERS:
            self._exhausted = True
            self._planner = None
            return
        self._planner = self._job.fork("planner")
        known = [*self._known, *((t.plan, t.ratio) for t in self.search.trials)]
        # Those that are under way will be told of; until then they are as good as failed.
        known += [(worker.candidate, None) for worker in self._workers if worker.candidate]
        plans: list[str] = []
        if self._planners == 1:
            # What earlier searches found best is measured once more, so that it may win again.
            best = sorted((ratio, plan) for plan, ratio in self._known if ratio and ratio < 1)
            plans = [*self._plans, *(plan for _, plan in best[:_FINALISTS])]
        with contextlib.suppress(Closed):  # which is noticed when it is read from
            self._planner.channel.send(
                {
                    "do": "start",
                    "first": self.search.standard_plan,
                    "plans": plans,
                    "known": known,
                    "config": self._planner_config(),
                }
            )
        self._asked = time.monotonic()

    def _restart_planner(self) -> None:
        assert self._planner is not None
        how = self._planner.end(kill=True)
        logger.debug("the planner of %s %s", self.search.name, how)
        # The next one knows what was measured, but not what waits: it would say that again.
        self._queue.clear()
        self._results.clear()
        self._start_planner()

    def _planner_config(self) -> dict[str, Any]:
        config = self._config
        return {
            "strategy": config._strategy,
            # A planner that ended would end again.
            "seed": config._seed + 1000003 * self._planners + self._share[0],
            "pop_size": config._pop_size,
            "number_elites": config._number_elites,
            "crossover_rate": config._crossover_rate,
            "mutation_rate": config._mutation_rate,
            "learner": config._learner,
            "share": list(self._share),
        }

    def _ask_planner(self) -> None:
        """For further candidates, in time."""
        wanted = _BATCH * self._config.workers()
        if self._planner is None or self._asked or self._exhausted:
            return
        if len(self._queue) > wanted // 2:
            return
        left = self._config.most_candidates() - len(self.search.trials) - len(self._queue)
        left -= sum(worker.candidate is not None for worker in self._workers)
        if left <= 0:
            return
        with contextlib.suppress(Closed):
            self._planner.channel.send(
                {"do": "next", "count": int(min(wanted, left)), "results": self._results}
            )
        self._results = []
        self._asked = time.monotonic()

    def _hear_planner(self) -> None:
        assert self._planner is not None
        try:
            answer, _ = self._planner.channel.receive()
        except Closed:
            self._restart_planner()
            return
        self._asked = 0.0
        if "candidates" not in answer:
            return
        self._queue.extend(answer["candidates"])
        self.search.illegal = answer["illegal"]
        self._exhausted = answer["exhausted"]
        if not answer["candidates"] and not self._exhausted and not self._results:
            # It waits for results: the next one asks again. Those that came while it answered are
            # still to be told, and there may be no others.
            self._asked = float("inf")

    # ---- candidates

    def _dispatch(self) -> None:
        assert self._job is not None
        idle = [worker for worker in self._workers if worker.state == "idle"]
        most = self._config.workers()
        while self._queue and not self._stopped and (idle or len(self._workers) < most):
            worker = idle.pop() if idle else self._fork_worker()
            worker.candidate = self._queue.popleft()
            worker.state = "compiling"
            worker.deadline = time.monotonic() + self._config._timeout
            worker.compile = None
            worker.rival = self._best[0]
            self._send(worker, self._attempt(worker.candidate))
        self._measure_next()

    def _attempt(self, plan: str) -> dict[str, Any]:
        assert self.search.standard is not None
        best = self._best[0] * self.search.standard.minimum
        return {
            "do": "try",
            "plan": plan,
            "rival": self._best[1],
            "best": best,
            "slow": _SLOW * best + _FIRST,
        }

    def _send(self, worker: _Worker, message: dict[str, Any]) -> None:
        try:
            worker.child.channel.send(message)
        except Closed:
            self._lose(worker, "crashed")

    def _measure_next(self) -> None:
        if self._measuring is not None:
            return
        ready = [worker for worker in self._workers if worker.state == "ready"]
        if not ready:
            return
        assert self.search.standard is not None
        worker = ready[0]
        worker.state = "measuring"
        best = self._best[0] * self.search.standard.minimum
        seconds = _HANGS * best + _HANGS_SECONDS
        worker.deadline = time.monotonic() + seconds
        worker.hangs_after = worker.child.processor_seconds() + _HANGS_SHARE * seconds
        self._measuring = worker
        # Threads of a kernel would wait for processors that compilations have.
        if self._problem.threads > 1:
            self._stop_others(worker, True)
        self._send(worker, {"go": True})

    def _stop_others(self, worker: _Worker, stopped: bool) -> None:
        now = time.monotonic()
        for other in self._workers:
            if other is worker or (stopped and other.state != "compiling"):
                continue
            # One that was stopped may be ready by now: what it had said was not heard yet.
            other.child.stop(stopped)
            if not stopped and other.state == "compiling":
                other.deadline += now - self._stopped  # what stood still is not late
        self._stopped = now if stopped else 0.0

    def _measured(self, worker: _Worker) -> None:
        if self._measuring is not worker:
            return
        self._measuring = None
        if self._stopped:
            self._stop_others(worker, False)

    def _hear(self, worker: _Worker) -> None:
        try:
            answer, _ = worker.child.channel.receive()
        except Closed:
            self._lose(worker, "crashed")
            return
        if answer["status"] == "compiled":
            worker.state = "ready"
            worker.compile = answer["compile"]
            worker.deadline = float("inf")
            return
        self._measured(worker)
        self._take(worker, answer)
        worker.state = "idle"
        worker.deadline = float("inf")
        if answer["status"] == "wrong":
            # It may have written anywhere.
            self._workers.remove(worker)
            worker.child.end(kill=True)

    def _lose(self, worker: _Worker, status: str) -> None:
        """A worker that ended, or that is ended."""
        self._measured(worker)
        self._workers.remove(worker)
        how = worker.child.end(kill=status == "timeout")
        if worker.candidate is not None:
            reason = f"its process {how}" if status == "crashed" else "it takes too long"
            self._take(worker, {"status": status, "reason": reason})

    def _take(self, worker: _Worker, answer: dict[str, Any]) -> None:
        """What became of a candidate."""
        assert worker.candidate is not None and self.search.standard is not None
        plan = worker.candidate
        worker.candidate = None
        status = answer["status"]
        times = Times(**answer["times"]) if "times" in answer else None
        ratio = None
        if times is not None:
            ratio = times.minimum / self.search.standard.minimum
            if answer.get("ratio") is not None:
                # In turns with the best: a busy machine slows both.
                ratio = answer["ratio"] * worker.rival
        trial = Trial(
            number=len(self.search.trials) + 1,
            plan=plan,
            status=status,
            seconds=time.monotonic() - self._begin,
            compile=answer.get("compile", worker.compile),
            times=times,
            ratio=ratio,
            reason=answer.get("reason", "").split("\n")[0],
        )
        self.search.trials.append(trial)
        self._without_gain += 1
        if status == "measured" and ratio is not None and ratio < _GAIN * self._best[0]:
            # By less it would be noise that chooses, and every worker would compile it.
            self._without_gain = 0
            self._best = (ratio, plan)
        if ratio is not None and "libraryCalls(None)" not in plan and "libraryCalls(" in plan:
            self.search.library = min(ratio, self.search.library or ratio)
        known = ratio if status in ("measured", "slow") else None
        self._results.append((plan, known, answer.get("processor")))
        if self._asked == float("inf"):
            self._asked = 0.0
        assert self._log is not None and self._progress is not None
        self._log.write(self.search.name, trial)
        self._progress.update(trial.seconds, trial)

    # ---- waiting

    def _wait(self) -> None:
        watched: list[Any] = [worker.child for worker in self._workers if worker.state != "idle"]
        if self._planner is not None:
            watched.append(self._planner)
        if not watched:
            time.sleep(_TICK)
            return
        ready, _, _ = select.select(watched, [], [], _TICK)
        for child in ready:
            if child is self._planner:
                self._hear_planner()
                continue
            found = [worker for worker in self._workers if worker.child is child]
            if found:
                self._hear(found[0])

    def _look_at_clock(self) -> None:
        now = time.monotonic()
        for worker in list(self._workers):
            waits = self._stopped and worker.state == "compiling"
            if worker.deadline < now and not waits and not self._waits_for_processors(worker, now):
                self._lose(worker, "timeout")
        if self._planner is not None and 0 < self._asked < now - 10 * self._config._timeout:
            self._restart_planner()
        if self._progress is not None:
            self._progress.update(now - self._begin)

    def _waits_for_processors(self, worker: _Worker, now: float) -> bool:
        """Whether a run has not ended because others have the processors; up to the timeout."""
        if worker.state != "measuring" or now > worker.deadline + self._config._timeout:
            return False
        return worker.child.processor_seconds() < worker.hangs_after

    # ---- the last comparison

    def _compare_last(self) -> None:
        """The best candidates and the compiler's own Plan once more, in turns and with nothing
        beside them: what wins is clearly faster, wherever in their pages the tensors begin."""
        search = self.search
        assert search.standard is not None
        finalists = [trial.plan for trial in search.measured() if (trial.ratio or 2) < 1]
        finalists = [plan for plan in finalists if plan != search.standard_plan]
        if not finalists:
            return
        self._heard = len(self._signals)
        run, budget = search.standard.minimum, self._final_budget()
        finalists = finalists[: last_comparison(run, len(finalists), budget)[0]]
        times = self._time_in_turns([search.standard_plan, *finalists])
        if times is None and self._hears_more():
            self._take_known()
            return
        if times is None and len(finalists) > 1:
            # One of them ends the process, hangs or computes something else: each is tried alone.
            alone = {plan: self._time_in_turns([search.standard_plan, plan]) for plan in finalists}
            finalists = [plan for plan in finalists if alone[plan] is not None]
            if len(finalists) > 1:
                times = self._time_in_turns([search.standard_plan, *finalists])
            if times is None and finalists:
                finalists = finalists[:1]
                times = alone[finalists[0]]
        if times is not None:
            self._choose([search.standard_plan, *finalists], times)

    def _hears_more(self) -> bool:
        """Whether a signal came in the last comparison, which is not waited for then."""
        return len(self._signals) > self._heard

    def _final_budget(self) -> float:
        """What the last comparison has a share of: who has sent a signal waits."""
        budget = self._config.seconds()
        return min(budget, _HURRY) if self._signals else budget

    def _time_in_turns(self, plans: list[str]) -> list[list[Times]] | None:
        """Times of Plans, for each of the places that tensors are put in."""
        if self._hears_more():
            return None
        assert self.search.standard is not None
        worker = self._fork_worker()
        budget = self._final_budget()
        seconds = _seconds_of_place(budget)
        run = self.search.standard.minimum
        _, rounds, places = last_comparison(run, len(plans) - 1, budget)
        limit = len(plans) * self._config._timeout + _HANGS_SECONDS
        limit += places * (2 * seconds + _SLOW * (1 + rounds) * run * len(plans))
        try:
            worker.child.channel.send(
                {
                    "do": "final",
                    "plans": plans,
                    "rounds": rounds,
                    "seconds": seconds,
                    "places": places,
                }
            )
            answer, _ = _receive(worker.child.channel, limit, self._hears_more)
        except Closed:
            return None
        finally:
            self._workers.remove(worker)
            worker.child.end(kill=True)
        return [[Times(**each) for each in place] for place in answer["times"]]

    def _take_known(self) -> None:
        """The best by what the candidates' own measurements say, where no comparison has ended."""
        search = self.search
        assert search.standard is not None
        found = [trial for trial in search.measured() if trial.status == "measured" and trial.times]
        if not found or (found[0].ratio or 1.0) > _UNCONFIRMED:
            return
        best = found[0]
        assert best.times is not None and best.ratio is not None
        # Measured in turns with others, a ratio is better known than the seconds are.
        minimum = best.ratio * search.standard.minimum
        median = minimum * best.times.median / max(best.times.minimum, 1e-9)
        search.best_plan = best.plan
        search.best = replace(best.times, minimum=minimum, median=median)

    def _choose(self, plans: list[str], times: list[list[Times]]) -> None:
        search = self.search
        search.standard = search.best = times[0][0]
        best = 1.0
        for number, plan in enumerate(plans[1:], 1):
            # The place where it gains least counts.
            each, standard = max(
                ((place[number], place[0]) for place in times),
                key=lambda pair: pair[0].minimum / pair[1].minimum,
            )
            by_minimum = each.minimum / standard.minimum
            by_median = max(place[number].median / place[0].median for place in times)
            for trial in search.trials:
                if trial.plan == plan:
                    trial.times, trial.ratio = each, by_minimum
            if by_minimum < _WINS and by_median < 1 and by_minimum * by_median < best:
                best = by_minimum * by_median
                search.standard = standard
                search.best, search.best_plan = each, plan
