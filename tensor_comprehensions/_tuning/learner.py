"""How long a candidate will take, before it is compiled: the estimate, corrected by what was
measured."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from tensor_comprehensions import _torch

#: Measured candidates from which on a learner knows more than the estimate.
_ENOUGH = 16
_TREES = 48
#: Of the spread among the trees, how much a candidate is hoped to be better than their mean.
_HOPE = 0.5
#: Trees that say how long a candidate takes to be compiled: mostly the size of its code. Seconds
#: that it takes to be planned and timed beside that, about. One that takes e times as long in all
#: has to be faster by this share.
_COST_TREES, _BESIDE, _COST = 12, 0.03, 0.1
#: Failures count as so many times the slowest.
_FAILED = 2.0

_STRUCTURE = "structure"
_CYCLES = "cycles on all threads"


def has_learner() -> bool:
    """Whether scikit-learn is installed."""
    try:
        import sklearn.ensemble  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        return False
    return True


class Learner:
    """Predicts the logarithm of a candidate's time over that of the compiler's own Plan.

    The estimate of the compiler's model is the start: a candidate is expected to miss it as others
    of the same structure (groups of statements, library calls) did. From some measurements on,
    extremely randomised trees (Geurts, Ernst and Wehenkel 2006) say by how much it is missed, from
    the parts of the estimate and from what a Plan has of tasks, rows and vectors.
    """

    def __init__(self, seed: int, learns: bool = True) -> None:
        self._seed = seed % 2**32  # what scikit-learn takes
        self._learns = learns and has_learner()
        names = _torch.feature_names()
        self._structure = names.index(_STRUCTURE)
        self._cycles = names.index(_CYCLES)
        self._rows: list[list[float]] = []
        self._misses: list[float] = []
        self._by_structure: dict[int, list[float]] = defaultdict(list)
        self._slowest = 1.0
        self._costs: list[tuple[list[float], float]] = []  # rows and logarithms of seconds
        self._forest: Any = None
        self._cost_forest: Any = None
        self._stale = True

    def _estimate(self, features: Sequence[float]) -> float:
        return math.log(max(features[self._cycles], 1.0))

    @staticmethod
    def _row(features: Sequence[float]) -> list[float]:
        return [math.log1p(max(0.0, value)) for value in features]

    def record(
        self, features: Sequence[float], ratio: float | None, seconds: float | None = None
    ) -> None:
        """What a candidate was: its time over that of the compiler's own Plan, None where it
        failed, and, where it is known, how many seconds its compilation took."""
        if not features:
            return
        if ratio is not None:
            self._slowest = max(self._slowest, ratio)
        if seconds:
            self._costs.append((self._row(features), math.log(seconds + _BESIDE)))
        value = math.log(ratio if ratio else _FAILED * self._slowest)
        miss = value - self._estimate(features)
        self._rows.append(self._row(features))
        self._misses.append(miss)
        if ratio is not None:
            self._by_structure[int(features[self._structure])].append(miss)
        self._stale = True

    def _usual_miss(self, structure: int) -> float:
        misses = self._by_structure.get(structure)
        if not misses:
            # Nothing is known of it: as the best of what is known.
            found = [min(others) for others in self._by_structure.values()]
            return min(found, default=0.0)
        ordered = sorted(misses)
        return ordered[len(ordered) // 2]

    def predict(self, candidates: Sequence[Sequence[float]]) -> list[float]:
        if self._has_learned() and candidates:
            mean, spread = self._predict_by_forest(candidates)
            return [float(each) for each in mean - _HOPE * spread]
        return [
            self._estimate(features) + self._usual_miss(int(features[self._structure]))
            for features in candidates
        ]

    def order(self, candidates: Sequence[Sequence[float]]) -> list[int]:
        """Places of candidates, the most promising first: the fastest, as far as is known, where a
        candidate that takes longer to compile has to promise more."""
        promise = self.predict(candidates)
        if self._has_learned() and self._cost_forest is not None and candidates:
            costs = self._cost_forest.predict(self._rows_of(candidates))
            promise = [
                each + _COST * float(cost) for each, cost in zip(promise, costs, strict=True)
            ]
        return sorted(range(len(promise)), key=promise.__getitem__)

    def _has_learned(self) -> bool:
        return self._learns and len(self._rows) >= _ENOUGH

    def _rows_of(self, candidates: Sequence[Sequence[float]]) -> Any:
        import numpy as np

        return np.array([self._row(features) for features in candidates], dtype=np.float32)

    def _fit(self) -> None:
        import numpy as np
        from sklearn.ensemble import ExtraTreesRegressor

        def forest(trees: int, rows: list[list[float]], values: list[float]) -> Any:
            made = ExtraTreesRegressor(
                n_estimators=trees, min_samples_leaf=2, random_state=self._seed, n_jobs=1
            )
            return made.fit(np.array(rows), np.array(values))

        self._forest = forest(_TREES, self._rows, self._misses)
        if len(self._costs) >= _ENOUGH:
            rows, seconds = zip(*self._costs, strict=True)
            self._cost_forest = forest(_COST_TREES, list(rows), list(seconds))
        self._stale = False

    def _predict_by_forest(self, candidates: Sequence[Sequence[float]]) -> tuple[Any, Any]:
        """Means and spreads of what the trees say."""
        import numpy as np

        if self._stale:
            self._fit()
        rows = self._rows_of(candidates)
        trees = np.array([tree.predict(rows) for tree in self._forest.estimators_])
        estimates = np.array([self._estimate(features) for features in candidates])
        return estimates + trees.mean(axis=0), trees.std(axis=0)
