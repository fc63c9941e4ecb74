"""What became of candidates: the history of a search, its log and its picture."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TextIO

from tensor_comprehensions._errors import TCError
from tensor_comprehensions._logging import logger

#: What may become of a candidate.
STATUSES = ("measured", "slow", "illegal", "wrong", "failed", "crashed", "timeout")


def microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.4g} us"


@dataclass
class Times:
    """Single runs, in seconds."""

    minimum: float
    median: float
    spread: float = 1.0  #: the third quartile over the first
    runs: int = 1


@dataclass
class Trial:
    """One candidate."""

    number: int
    plan: str  #: as MappingOptions
    status: str  #: one of STATUSES
    seconds: float = 0.0  #: from the search's begin to its end
    compile: float | None = None  #: seconds
    times: Times | None = None
    ratio: float | None = None  #: its time over that of the compiler's own Plan
    reason: str = ""  #: why it is not measured


@dataclass
class Search:
    """A search that has ended, or goes on: what it has found so far."""

    name: str  #: of the definition
    standard_plan: str = ""  #: that the compiler chose
    standard: Times | None = None
    best_plan: str = ""
    best: Times | None = None
    library: float | None = None  #: ratio of the fastest candidate that calls a library
    trials: list[Trial] = field(default_factory=list)
    #: Plans that were not compiled, by the reason; names and numbers in it are left out.
    illegal: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    ended: str = ""  #: by what
    known: int = 0  #: candidates of earlier searches that it went on from

    @property
    def ratio(self) -> float:
        """The time of the best over that of the compiler's own Plan."""
        if self.best is None or self.standard is None or not self.standard.minimum:
            return 1.0
        return self.best.minimum / self.standard.minimum

    def counts(self) -> Counter[str]:
        """Candidates by what became of them."""
        return Counter(trial.status for trial in self.trials)

    def measured(self) -> list[Trial]:
        """Those with a time, the fastest first."""
        found = [trial for trial in self.trials if trial.ratio is not None]
        return sorted(found, key=lambda trial: trial.ratio or 0.0)

    def per_second(self) -> float:
        """Candidates compiled and measured in a second."""
        done = sum(trial.status in ("measured", "slow") for trial in self.trials)
        return done / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        if self.best is None or self.standard is None:
            return f"{self.name}: nothing was measured"
        counts = ", ".join(f"{count} {status}" for status, count in self.counts().most_common())
        return (
            f"{self.name}: {microseconds(self.best.minimum)}, "
            f"{microseconds(self.standard.minimum)} by the compiler's own Plan (ratio "
            f"{self.ratio:.3f}); {counts or 'no candidates'} in {self.seconds:.1f} s"
        )


class Log:
    """A file with a line for every candidate: CSV, or JSON where its name does not end so. Where it
    cannot be written any more, as on a full disk, a warning says so and the search goes on."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._csv: Any = None
        if path is None:
            return
        try:
            is_new = not os.path.exists(path) or os.path.getsize(path) == 0
            self._file = open(path, "a", newline="")  # noqa: SIM115  closed by `close`
        except OSError as error:
            raise TCError(
                f"cannot write the log of candidates '{path}': {error.strerror}"
            ) from error
        if path.endswith(".csv"):
            self._csv = csv.DictWriter(self._file, ["definition", *_columns()])
            if is_new:
                self._csv.writeheader()

    def write(self, name: str, trial: Trial) -> None:
        if self._file is None:
            return
        row = {"definition": name, **_row(trial)}
        try:
            if self._csv is not None:
                self._csv.writerow(row)
            else:
                self._file.write(json.dumps(row) + "\n")
            self._file.flush()
        except OSError as error:
            logger.warning(
                "the log of candidates '%s' ends: %s", os.fsdecode(self._path or ""), error.strerror
            )
            self.close()

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            # What is still buffered meets the same error.
            with suppress(OSError):
                file.close()


def _columns() -> list[str]:
    names = [each.name for each in fields(Trial)]
    at = names.index("times")
    return [*names[:at], *(each.name for each in fields(Times)), *names[at + 1 :]]


def _row(trial: Trial) -> dict[str, Any]:
    row = asdict(trial)
    times = row.pop("times") or {}
    return {name: row[name] if name in row else times.get(name) for name in _columns()}


def plot(searches: Sequence[Search], path: str | os.PathLike[str] | None = None) -> Any:
    """Draws searches as figures of the best time so far over the candidates tried.

    Points are candidates, the line the best so far, the dashed one the compiler's own Plan. Returns
    the figure of matplotlib; ``path`` is where to save it.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise TCError("drawing a search needs matplotlib: pip install matplotlib") from error
    if not searches:
        raise TCError("there is no search to draw: call tune first")
    figure = Figure(figsize=(6.4, 3.2 * len(searches)), layout="constrained")
    for search, axes in zip(searches, figure.subplots(len(searches), squeeze=False), strict=True):
        axis = axes[0]
        numbers, times, best = [], [], []
        base = search.standard.minimum if search.standard else 1.0
        for trial in search.trials:
            if trial.ratio is None:
                continue
            numbers.append(trial.number)
            times.append(trial.ratio * base * 1e6)
            best.append(min(*times, base * 1e6))
        axis.scatter(numbers, times, s=8, alpha=0.5, label="candidates")
        axis.step(numbers, best, where="post", label="best so far")
        axis.axhline(base * 1e6, linestyle="--", color="gray", label="the compiler's own Plan")
        axis.set_yscale("log")
        axis.set_xlabel("candidate")
        axis.set_ylabel("shortest run, us")
        axis.set_title(f"{search.name}: {search.ratio:.2f} of the compiler's own time")
        axis.legend(fontsize="small")
    if path is not None:
        figure.savefig(path)
    return figure
