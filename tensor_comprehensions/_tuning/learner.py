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
        self._seed = seed
        self._learns = learns and has_learner()
        names = _torch.feature_names()
        self._structure = names.index(_STRUCTURE)
        self._cycles = names.index(_CYCLES)
        self._rows: list[list[float]] = []
        self._misses: list[float] = []
        self._by_structure: dict[int, list[float]] = defaultdict(list)
        self._slowest = 1.0
        self._forest: Any = None
        self._stale = True

    def _estimate(self, features: Sequence[float]) -> float:
        return math.log(max(features[self._cycles], 1.0))

    @staticmethod
    def _row(features: Sequence[float]) -> list[float]:
        return [math.log1p(max(0.0, value)) for value in features]

    def record(self, features: Sequence[float], ratio: float | None) -> None:
        if not features:
            return
        if ratio is not None:
            self._slowest = max(self._slowest, ratio)
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
        estimates = [self._estimate(features) for features in candidates]
        if self._learns and len(self._rows) >= _ENOUGH and candidates:
            return self._predict_by_forest(candidates, estimates)
        return [
            estimate + self._usual_miss(int(features[self._structure]))
            for features, estimate in zip(candidates, estimates, strict=True)
        ]

    def _predict_by_forest(
        self, candidates: Sequence[Sequence[float]], estimates: list[float]
    ) -> list[float]:
        import numpy as np
        from sklearn.ensemble import ExtraTreesRegressor

        if self._stale:
            self._forest = ExtraTreesRegressor(
                n_estimators=_TREES, min_samples_leaf=2, random_state=self._seed, n_jobs=1
            ).fit(np.array(self._rows), np.array(self._misses))
            self._stale = False
        rows = np.array([self._row(features) for features in candidates], dtype=np.float32)
        trees = np.array([tree.predict(rows) for tree in self._forest.estimators_])
        hoped = trees.mean(axis=0) - _HOPE * trees.std(axis=0)
        return [float(estimate + miss) for estimate, miss in zip(estimates, hoped, strict=True)]
