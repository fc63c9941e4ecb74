"""How a search is run."""

from __future__ import annotations

import os
from numbers import Real  # of which NumPy's are, too
from operator import index
from typing import Any

from tensor_comprehensions._errors import TCError
from tensor_comprehensions._paths import Path, file_name

#: Seconds, and candidates without a gain after which a search ends, by effort.
EFFORTS: dict[str, tuple[float, int]] = {
    "quick": (8.0, 150),
    "normal": (60.0, 600),
    "full": (600.0, 2000),
}
STRATEGIES = ("model", "genetic", "random")


def _number(name: str, value: Any, least: int, most: int | None = None) -> int:
    try:
        number = index(value)
    except TypeError:
        number = least - 1
    if number < least or (most is not None and number > most):
        bound = f"at least {least}" if most is None else f"{least} to {most}"
        raise TCError(f"TunerConfig.{name}({value!r}): expected an integer of {bound}")
    return number


class TunerConfig:
    """How ``autotune`` searches; every method changes that and returns it.

    Without any, a search takes the time of ``effort("normal")``, with the strategy ``"model"``.
    ``generations`` and ``pop_size`` bound the number of candidates; what ends a search is whatever
    is reached first.
    """

    def __init__(self) -> None:
        self._threads = 0
        self._generations: int | None = None
        self._pop_size = 100
        self._crossover_rate = 80
        self._mutation_rate = 7
        self._number_elites = 10
        self._min_launch_total_threads = 64
        self._devices = "0"
        self._strategy = "model"
        self._effort = "normal"
        self._budget: float | None = None
        self._patience: int | None = None
        self._seed = 0
        self._timeout = 30.0
        self._log: str | None = None
        self._learner = True
        self._logs = False

    # ---- as in 2018

    def threads(self, count: int) -> TunerConfig:
        """Processes that compile at once; at first as many as there are processors."""
        self._threads = _number("threads", count, 1, 1024)
        return self

    def generations(self, count: int) -> TunerConfig:
        """So many times ``pop_size`` candidates are tried at most."""
        self._generations = _number("generations", count, 1)
        return self

    def pop_size(self, count: int) -> TunerConfig:
        """Candidates of a generation; 100 at first."""
        self._pop_size = _number("pop_size", count, 1)
        return self

    def number_elites(self, count: int) -> TunerConfig:
        """Candidates that a generation hands on as they are, at most half of it; 10 at first."""
        self._number_elites = _number("number_elites", count, 0)
        return self

    def crossover_rate(self, percent: int) -> TunerConfig:
        """Of the new candidates, those that have three parents, in percent; 80 at first."""
        self._crossover_rate = _number("crossover_rate", percent, 0, 100)
        return self

    def mutation_rate(self, percent: int) -> TunerConfig:
        """Of the new candidates, those that are changed at random, in percent; 7 at first."""
        self._mutation_rate = _number("mutation_rate", percent, 0, 100)
        return self

    def tuner_min_launch_total_threads(self, count: int) -> TunerConfig:
        """CUDA: kernels of fewer threads are not tried; 64 at first, 1 tries all."""
        self._min_launch_total_threads = _number("tuner_min_launch_total_threads", count, 1)
        return self

    def devices(self, numbers: str) -> TunerConfig:
        """CUDA: devices that candidates run on, ``"0,1"``."""
        parts = str(numbers).split(",")
        if not all(part.strip().isdigit() for part in parts):
            raise TCError(
                f'TunerConfig.devices({numbers!r}): expected numbers of devices, as "0,1"'
            )
        self._devices = ",".join(part.strip() for part in parts)
        return self

    def logtostderr(self, log: bool) -> TunerConfig:
        """Whether every candidate is told of on the logger ``tensor_comprehensions``."""
        self._logs = bool(log)
        return self

    def stderrthreshold(self, level: int) -> TunerConfig:
        """Taken as in 2018, where it chose the least severe level that was told."""
        _number("stderrthreshold", level, 0, 3)
        return self

    # ---- since

    def strategy(self, name: str) -> TunerConfig:
        """``"model"``: candidates that the compiler's model, corrected by what was measured, finds
        fastest; ``"genetic"`` and ``"random"``: as in 2018."""
        if name not in STRATEGIES:
            raise TCError(
                f"TunerConfig.strategy({name!r}): expected one of {', '.join(STRATEGIES)}"
            )
        self._strategy = name
        return self

    def effort(self, name: str) -> TunerConfig:
        """``"quick"`` (8 seconds), ``"normal"`` (a minute) or ``"full"`` (ten)."""
        if name not in EFFORTS:
            raise TCError(f"TunerConfig.effort({name!r}): expected one of {', '.join(EFFORTS)}")
        self._effort = name
        return self

    def budget_seconds(self, seconds: float) -> TunerConfig:
        """Seconds of a search, from its first candidate on; 0 for no bound."""
        if not isinstance(seconds, Real) or not seconds >= 0:
            raise TCError(f"TunerConfig.budget_seconds({seconds!r}): expected seconds, at least 0")
        self._budget = float(seconds)
        return self

    def patience(self, candidates: int) -> TunerConfig:
        """The search ends after so many candidates without a gain; 0 for no bound."""
        self._patience = _number("patience", candidates, 0)
        return self

    def seed(self, number: int) -> TunerConfig:
        """What all random numbers follow from; 0 at first."""
        self._seed = _number("seed", number, 0, 2**63 - 1)
        return self

    def timeout_seconds(self, seconds: float) -> TunerConfig:
        """How long a candidate may compile; 30 at first. How long it may run follows from the best
        so far."""
        if not isinstance(seconds, Real) or not seconds > 0:
            raise TCError(f"TunerConfig.timeout_seconds({seconds!r}): expected seconds, above 0")
        self._timeout = float(seconds)
        return self

    def log(self, path: Path | None) -> TunerConfig:
        """A file that gets a line for every candidate: CSV where its name ends so, else JSON."""
        self._log = None if path is None else file_name(path)
        return self

    def learner(self, use: bool) -> TunerConfig:
        """Whether the strategy ``"model"`` learns, where scikit-learn is installed; else estimates
        alone rank."""
        self._learner = bool(use)
        return self

    # ---- what follows

    def seconds(self) -> float:
        """The budget; infinite where there is no bound."""
        budget = self._budget
        if budget is None:
            # Who says how many candidates there are gets them, within what the effort allows.
            named = self._generations is not None and self._effort == "normal"
            budget = EFFORTS["full" if named else self._effort][0]
        return budget or float("inf")

    def most_candidates(self) -> float:
        if self._generations is None:
            return float("inf")
        return self._generations * self._pop_size

    def most_without_gain(self) -> float:
        patience = EFFORTS[self._effort][1] if self._patience is None else self._patience
        return patience or float("inf")

    def workers(self) -> int:
        return self._threads or len(os.sched_getaffinity(0))

    def __repr__(self) -> str:
        fresh = vars(TunerConfig())
        changed = [
            f"{name.removeprefix('_')}={value!r}"
            for name, value in vars(self).items()
            if value != fresh[name]
        ]
        return f"TunerConfig({', '.join(changed)})"
