"""Tuning of one definition, and what it found in files."""

from __future__ import annotations

import logging
import os
import platform
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from tensor_comprehensions import _torch
from tensor_comprehensions._define import parse
from tensor_comprehensions._errors import CacheError, TCError
from tensor_comprehensions._executor import Executor, compile
from tensor_comprehensions._options import MappingOptions, to_options
from tensor_comprehensions._parameters import sizes_text
from tensor_comprehensions._paths import Path, file_name
from tensor_comprehensions._tuning import ranks, trials
from tensor_comprehensions._tuning.config import TunerConfig
from tensor_comprehensions._tuning.problem import Problem
from tensor_comprehensions._tuning.session import Session
from tensor_comprehensions._tuning.trials import Search, Times

logger = logging.getLogger("tensor_comprehensions")


def processor_name(device: torch.device) -> str:
    """As the system has it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _core_times(times: Times) -> _torch.Times:
    return _torch.Times(times.minimum, times.median, times.spread, times.runs)


def _scaled(times: Times, factor: float) -> Times:
    return replace(times, minimum=times.minimum * factor, median=times.median * factor)


def tuned_plan(problem: Problem, search: Search) -> _torch.TunedPlan:
    """The best of a search as files have it, of a GPU with its code."""
    assert search.best is not None and search.standard is not None
    trial = None
    if problem.target.startswith("cuda"):
        trial = _torch.Trial(
            problem.definition,
            _torch.Options.parse(search.best_plan),
            problem.target,
            problem.inputs,
            [torch.empty_like(output, device=problem.device) for output in problem.outputs],
            True,
        )
    return _torch.TunedPlan(
        search.best_plan,
        _core_times(search.best),
        _core_times(search.standard),
        processor_name(problem.device),
        int(time.time()),
        trial,  # type: ignore[arg-type]  # a pointer, which may be null
    )


class TuningFile:
    """What a file knows of one problem."""

    def __init__(self, path: Path, problem: Problem) -> None:
        self._path = file_name(path)
        self._problem = problem
        self._saved = 0  # trials of the search that are in the file

    def _find(self, nearest: bool) -> Any:
        return _torch.Store.read(self._path, True).find_tuning(*self._problem.key(), nearest)

    def plans(self, count: int) -> list[MappingOptions]:
        """The fastest Plans for just these arguments."""
        found = self._find(False)
        plans = found[0].plans if found else []
        return [MappingOptions.parse(plan.options) for plan in plans[:count]]

    def begin(self) -> tuple[list[str], list[tuple[str, float | None]]]:
        """Plans to begin with, also those for the nearest sizes, and what was measured before.

        CacheError where the file cannot be read or written: better now than after the search.
        """
        found = self._find(True)
        self._check_writable()
        if found is None:
            return [], []
        tuning, exact = found
        plans = [plan.options for plan in tuning.plans]
        measured = [(options, ratio if ratio >= 0 else None) for options, ratio in tuning.trials]
        return plans, measured if exact else []

    def _check_writable(self) -> None:
        """Leaves no file where there was none, since the search may fail: another beside it is
        written, which nobody else knows."""
        path = os.path.realpath(self._path)
        if not os.path.lexists(path):
            folder, name = os.path.split(path)
            try:
                with tempfile.NamedTemporaryFile(prefix=f"{name}.", dir=folder) as other:
                    _torch.Store().save(other.name)
                return
            except (OSError, CacheError):
                pass  # what is wrong is said of the file itself
        _torch.Store().save(self._path)

    def _measured_again(
        self, search: Search, measured: Sequence[tuple[str, float | None]]
    ) -> list[_torch.TunedPlan]:
        """Plans of the file that a search has measured and that did not win: as they are now, and
        behind the one that did."""
        assert search.best is not None and search.standard is not None
        found = self._find(False)
        trials = {trial.plan: trial for trial in search.trials}
        ratios = {**dict(measured), **{plan: trial.ratio for plan, trial in trials.items()}}
        again = []
        for plan in found[0].plans if found else ():
            ratio = ratios.get(plan.options)
            if ratio is None or plan.options == search.best_plan:
                continue
            ratio = max(ratio, search.ratio * (1 + 1e-6))
            trial = trials.get(plan.options)
            times = trial.times if trial is not None else None
            if times is None:  # another process has measured it
                times = _scaled(search.standard, ratio)
            standard = _scaled(search.standard, times.minimum / ratio / search.standard.minimum)
            again.append(
                _torch.TunedPlan(
                    plan.options,
                    _core_times(times),
                    _core_times(standard),
                    processor_name(self._problem.device),
                    int(time.time()),
                    None,  # type: ignore[arg-type]  # a pointer, which may be null
                )
            )
        return again

    def save(
        self,
        search: Search,
        measured: Sequence[tuple[str, float | None]] = (),
        ended: bool = True,
    ) -> None:
        """Adds what a search has found so far; other processes may add theirs meanwhile. One that
        has ``ended`` says of what it has measured again how fast it is."""
        problem = self._problem
        if search.best is None or search.standard is None:
            return
        plans = [tuned_plan(problem, search)]
        if ended:
            plans += self._measured_again(search, measured)
        new = search.trials[self._saved :]
        tried = [(trial.plan, trial.ratio) for trial in new]
        store = _torch.Store()
        store.add_tuning(
            *problem.key(),
            plans,
            [(text, -1.0 if ratio is None else ratio) for text, ratio in (*tried, *measured)],
        )
        store.save(self._path)
        self._saved += len(new)

    def keep(
        self,
        search: Search,
        measured: Sequence[tuple[str, float | None]] = (),
        ended: bool = True,
    ) -> None:
        """Saves; a disk that is full, or gone, costs the file's additions and not the search."""
        try:
            self.save(search, measured, ended)
        except CacheError as error:
            logger.warning(
                "what tuning %s has found is not kept: %s; the best is %s",
                *(search.name, error, search.best_plan),
            )


def run_search(
    problem: Problem, config: TunerConfig, plans: Sequence[str] = (), file: Path | None = None
) -> Search:
    """Searches, alone or as one process of several, and adds to a file what is found."""
    stored = TuningFile(file, problem) if file is not None else None
    known: list[tuple[str, float | None]] = []
    rank, _ = share = ranks.share()
    checkpoint: Callable[[Search], None] | None = None
    if stored is not None and rank == 0:  # which adds what the others measured in the end
        checkpoint = partial(stored.keep, ended=False)
    search = Search(problem.definition.name)
    session: Session | None = None
    try:
        if stored is not None:
            more, known = stored.begin()
            plans = [*plans, *more]
        session = Session(problem, config, plans, known, share, checkpoint)
        search = session.search
        session.run()
    except BaseException as error:
        # What was measured until then is not lost.
        if stored is not None and search.trials:
            stored.keep(search, ended=False)
        if session is not None and session.terminated:
            os.kill(os.getpid(), signal.SIGTERM)  # which the search has only noted
        if isinstance(error, Exception):
            ranks.gather(search, problem.identity())  # others would wait for ever
        raise
    if session.terminated:
        if stored is not None:
            stored.keep(search)
        os.kill(os.getpid(), signal.SIGTERM)
    search, others = ranks.gather(search, problem.identity())
    if stored is not None and rank == 0:
        stored.keep(search, others)
    return search


class Tuner:
    """Tunes definitions of a text; as in 2018.

    ``cache_file`` is where the best is kept, and what earlier searches have measured, from which
    the next one goes on.
    """

    def __init__(self, source: str, cache_file: Path = "") -> None:
        self._source = source
        self._file = cache_file or None
        #: Searches so far, the last one last.
        self.searches: list[Search] = []
        parse(source)

    @property
    def history(self) -> list[trials.Trial]:
        """The candidates of the last search."""
        return self.searches[-1].trials if self.searches else []

    def tune(
        self,
        entry_point: str,
        inputs: Sequence[Any],
        base_options: MappingOptions | str | None = None,
        config: TunerConfig | None = None,
    ) -> MappingOptions:
        """The best options found: the whole Plan. ``base_options`` are what is tried first."""
        base = to_options(base_options) or MappingOptions()
        problem = Problem(self._source, entry_point, inputs)
        plans = _starting_plans(problem, base)
        search = run_search(problem, config or TunerConfig(), plans, self._file)
        self.searches.append(search)
        return MappingOptions.parse(search.best_plan)

    def plot(self, path: Path | None = None) -> Any:
        """Draws the searches so far; the figure of matplotlib, which ``path`` is given to."""
        return trials.plot(self.searches, path)


def _starting_plans(problem: Problem, base: MappingOptions) -> list[str]:
    """Options as whole Plans; the compiler's own is tried in any case."""
    if str(base) == str(problem.constraints):
        return []
    try:
        executor = compile(problem.source, problem.entry, base, *problem.inputs)
    except TCError as error:
        logger.warning("the options that %s starts from cannot be: %s", problem.entry, error)
        return []
    return [str(executor.options)]


def autotune(
    source: str,
    entry_point: str,
    *inputs: Any,
    starting_options: MappingOptions | str | None = None,
    tuner_config: TunerConfig | None = None,
    cache_filename: Path | None = None,
    load_from_cache: bool = False,
    store_to_cache: bool = False,
) -> MappingOptions:
    """The fastest options found for a definition and inputs: a whole Plan, as `Executor.options`.

    It searches Plans as ``tuner_config`` says, beginning with ``starting_options``, the compiler's
    own proposals and, where there is a file, what that knows of these sizes and the nearest ones.
    Candidates run in processes of their own; each has to give what the compiler's own Plan gives
    before its time counts. That Plan is measured in turns with the best, and stays where nothing is
    clearly faster. Ctrl-C ends the search and gives the best so far.

    ``cache_filename`` is a file as ``save`` writes it. With ``load_from_cache`` the search starts
    from the options that it has for just these inputs, CacheError where it has none; with
    ``store_to_cache`` what is found is added, as for ``define(cache=)`` and ``load``. With a file
    and neither of them, it is added, and a search goes on from what is there.
    """
    if (load_from_cache or store_to_cache) and cache_filename is None:
        raise TCError("load_from_cache and store_to_cache need cache_filename=, the file")
    if load_from_cache and starting_options is not None:
        raise TCError(
            "a search starts from starting_options= or from what load_from_cache= finds, not both"
        )
    problem = Problem(source, entry_point, inputs)
    if load_from_cache:
        assert cache_filename is not None
        found = TuningFile(cache_filename, problem).plans(1)
        if not found:
            raise CacheError(
                f"'{os.fsdecode(cache_filename)}' has no options for {entry_point} and inputs of "
                f"sizes {sizes_text(inputs)} on this machine"
            )
        starting_options = found[0]
    stores = store_to_cache or (cache_filename is not None and not load_from_cache)
    tuner = Tuner(source, cache_filename if stores and cache_filename is not None else "")
    return tuner.tune(entry_point, inputs, starting_options, tuner_config)


def autotune_and_compile(
    source: str,
    entry_point: str,
    *inputs: Any,
    starting_options: MappingOptions | str | None = None,
    tuner_config: TunerConfig | None = None,
    cache_filename: Path | None = None,
    load_from_cache: bool = False,
    store_to_cache: bool = False,
) -> Executor:
    """``autotune``, then the executor with the options that it found."""
    best = autotune(
        source,
        entry_point,
        *inputs,
        starting_options=starting_options,
        tuner_config=tuner_config,
        cache_filename=cache_filename,
        load_from_cache=load_from_cache,
        store_to_cache=store_to_cache,
    )
    return compile(source, entry_point, best, *inputs)


class MappingOptionsCache:
    """Options in a file, as in 2018."""

    def __init__(self, cache_file: Path) -> None:
        self._file = cache_file

    def load(
        self, source: str, entry_point: str, inputs: Sequence[Any], num_candidates: int
    ) -> list[MappingOptions]:
        """The fastest options for a definition and inputs of just these sizes on this machine, at
        most so many; none where the file is missing or empty."""
        return TuningFile(self._file, Problem(source, entry_point, inputs)).plans(num_candidates)


def make_load_from_cache_options_factory(cache_filename: Path) -> Callable[..., Any]:
    """A factory for ``define`` that gives the options which a file has for the inputs of a call."""

    def generate(source: str, entry_point: str, *inputs: Any) -> MappingOptions | None:
        found = MappingOptionsCache(cache_filename).load(source, entry_point, inputs, 1)
        return found[0] if found else None

    return generate


def make_autotuned_options_factory(
    starting_options: MappingOptions | str | None = None,
    tuner_config: TunerConfig | None = None,
    cache_filename: Path | None = None,
    load_from_cache: bool = False,
    store_to_cache: bool = False,
) -> Callable[..., Any]:
    """A factory for ``define`` that tunes a definition when it is called with new sizes."""

    def generate(source: str, entry_point: str, *inputs: Any) -> MappingOptions:
        return autotune(
            source,
            entry_point,
            *inputs,
            starting_options=starting_options,
            tuner_config=tuner_config,
            cache_filename=cache_filename,
            load_from_cache=load_from_cache,
            store_to_cache=store_to_cache,
        )

    return generate
