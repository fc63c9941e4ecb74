"""How far a search is, for whoever waits at a terminal."""

from __future__ import annotations

import statistics
import sys
from typing import Any

import tensor_comprehensions
from tensor_comprehensions._logging import logger
from tensor_comprehensions._tuning.trials import Search, Trial, microseconds


class Progress:
    """A bar with the best, median, own and library's time; nothing where nobody sees it."""

    def __init__(self, search: Search, seconds: float, candidates: float, logs: bool) -> None:
        self._search = search
        self._logs = logs
        self._bar: Any = None
        if tensor_comprehensions.SILENT or not sys.stderr.isatty():
            return
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return
        by_time = seconds < float("inf")
        total = seconds if by_time else candidates if candidates < float("inf") else None
        self._by_time = by_time
        self._bar = tqdm(
            total=total,
            desc=f"tuning {search.name}",
            unit="s" if by_time else "Plan",
            bar_format="{l_bar}{bar}| {n:.0f}/{total:.0f} {unit}{postfix}" if total else None,
            leave=False,
        )

    def update(self, seconds: float, trial: Trial | None = None) -> None:
        if trial is not None and self._logs:
            ratio = "" if trial.ratio is None else f" {trial.ratio:.3f}"
            logger.info(
                "candidate %d of %s: %s%s %s %s",
                *(trial.number, self._search.name, trial.status, ratio, trial.reason, trial.plan),
            )
        if self._bar is None or self._search.standard is None:
            return
        base = self._search.standard.minimum
        ratios = [each.ratio for each in self._search.trials if each.ratio is not None]
        parts = [f"{len(self._search.trials)} Plans"]
        if ratios:
            parts.append(f"best {microseconds(min([1.0, *ratios]) * base)}")
            parts.append(f"median {microseconds(statistics.median(ratios) * base)}")
        parts.append(f"own {microseconds(base)}")
        if self._search.library is not None:
            parts.append(f"library {microseconds(self._search.library * base)}")
        done = seconds if self._by_time else float(len(self._search.trials))
        self._bar.n = min(done, self._bar.total) if self._bar.total else done
        self._bar.set_postfix_str(", ".join(parts), refresh=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        if not tensor_comprehensions.SILENT:
            logger.info("tuned %s", self._search)
