"""Which candidates are tried: at random, by a genetic search, or by a model that learns."""

from __future__ import annotations

import math
import random
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from tensor_comprehensions import _torch
from tensor_comprehensions._errors import TCError
from tensor_comprehensions._tuning.learner import Learner

#: Candidates that are drawn for one that is returned, at most, before a search is exhausted.
_PATIENCE = 60


class Strategy:
    """Gives candidates of a space, each once, and hears what became of them.

    Ratios are times over that of the compiler's own Plan; None where a candidate cannot run.
    """

    def __init__(self, space: Any, config: dict[str, Any]) -> None:
        self.space = space
        self.config = config
        self.random = random.Random(config["seed"])
        self.ratios: dict[int, float | None] = {}
        self.illegal: Counter[str] = Counter()
        self.exhausted = False
        self._plans = 0  #: of the starts, those that users and files begin with
        self._given: set[int] = {0}  #: the compiler's own is measured in any case
        self.ratios[0] = 1.0
        self._share, self._shares = config["share"]
        #: The compiler's proposals and what users and files begin with.
        self.starts: list[Any] = []

    def begin(self, plans: Iterable[str]) -> None:
        """``plans`` are tried first where they fit, also those that are known: what another search
        has measured wins only if this one finds it as fast."""
        given = [self._add(plan) for plan in plans]
        self._given -= {each.index for each in given if each is not None and each.index}
        first = [each for each in given if each is not None and self._accept(each)]
        self._plans = len(first)
        self.starts = first + self._order(
            [candidate for candidate in self.space.starts() if self._accept(candidate)]
        )

    def _order(self, proposals: list[Any]) -> list[Any]:
        """Those of the compiler's proposals that are tried first."""
        return proposals

    def know(self, plan: str, ratio: float | None, seconds: float | None = None) -> None:
        """What was measured of a Plan, by this search or an earlier one, and how many seconds its
        compilation took."""
        candidate = self._add(plan)
        # A Plan that is none of the space becomes one that is near it, and was not measured.
        if candidate is not None and candidate.options == plan:
            self._given.add(candidate.index)
            self.record(candidate.index, ratio, seconds)

    def _add(self, plan: str) -> Any:
        try:
            return self.space.add(_torch.Options.parse(plan))
        except TCError as error:
            self._refuse(str(error))
            return None

    def _refuse(self, reason: str) -> None:
        # Reasons differ in names and numbers, which would make each of them another one.
        self.illegal[re.sub(r"\d+", "N", reason.split("\n")[0])[:120]] += 1

    def _accept(self, candidate: Any) -> bool:
        """Whether it is new, can be, and is of this process's share."""
        if candidate.index in self._given:
            return False
        self._given.add(candidate.index)
        if candidate.reason is not None:
            self._refuse(candidate.reason)
            return False
        return bool(zlib.crc32(candidate.options.encode()) % self._shares == self._share)

    def _seed(self) -> int:
        return self.random.getrandbits(63)

    def _collect(self, count: int, make: Callable[[], Any]) -> list[Any]:
        """New ones, as long as some are found."""
        found: list[Any] = []
        for _ in range(_PATIENCE * count):
            if len(found) == count:
                break
            candidate = make()
            if self._accept(candidate):
                found.append(candidate)
        return found

    def record(self, index: int, ratio: float | None, seconds: float | None = None) -> None:
        self.ratios[index] = ratio

    def measured(self) -> list[tuple[float, int]]:
        """The fastest first."""
        return sorted((ratio, index) for index, ratio in self.ratios.items() if ratio is not None)

    def next(self, count: int) -> list[Any]:
        raise NotImplementedError


class RandomSearch(Strategy):
    """The compiler's proposals, then draws."""

    def next(self, count: int) -> list[Any]:
        found, self.starts = self.starts[:count], self.starts[count:]
        found += self._collect(count - len(found), lambda: self.space.draw(self._seed()))
        self.exhausted = not found
        return found


class GeneticSearch(Strategy):
    """The search of the 2018 package: elites, crossover of three parents, mutation.

    A parent is drawn in proportion to 1 / time. Where fewer than the elites of a generation can
    run, the others are drawn anew.
    """

    def __init__(self, space: Any, config: dict[str, Any]) -> None:
        super().__init__(space, config)
        self._size = config["pop_size"]
        self._elites = min(config["number_elites"], max(1, self._size // 2))
        self._population: list[int] = []
        self._queue: list[Any] = []
        self._waiting: set[int] = set()
        self._began = False

    def record(self, index: int, ratio: float | None, seconds: float | None = None) -> None:
        super().record(index, ratio)
        self._waiting.discard(index)

    def next(self, count: int) -> list[Any]:
        if not self._queue and not self._waiting:
            self._queue = self._generation()
            self.exhausted = not self._queue
            self._waiting = {candidate.index for candidate in self._queue}
        found, self._queue = self._queue[:count], self._queue[count:]
        return found

    def _generation(self) -> list[Any]:
        if not self._began:
            self._began = True
            new = self.starts[: self._size]
            new += self._collect(self._size - len(new), lambda: self.space.draw(self._seed()))
            self._population = [0, *(candidate.index for candidate in new)]
            return new
        valid = sorted(
            (ratio, index)
            for index in set(self._population)
            if (ratio := self.ratios.get(index)) is not None
        )
        elites = [index for _, index in valid[: self._elites]]
        if len(valid) < self._elites:
            new = self._collect(self._size - len(elites), lambda: self.space.draw(self._seed()))
        else:
            new = self._collect(self._size - len(elites), lambda: self._child(valid))
        self._population = elites + [candidate.index for candidate in new]
        return new

    def _select(self, valid: list[tuple[float, int]]) -> int:
        weights = [1 / ratio for ratio, _ in valid]
        return self.random.choices([index for _, index in valid], weights)[0]

    def _child(self, valid: list[tuple[float, int]]) -> Any:
        if self.random.randrange(100) < self.config["crossover_rate"]:
            made = self.space.cross([self._select(valid) for _ in range(3)], self._seed())
        else:
            made = self.space.candidate(self._select(valid))
        # One that is there already changes in any case: it need not be measured again.
        again = made.index in self._given
        if again or self.random.randrange(100) < self.config["mutation_rate"]:
            made = self.space.mutate(made.index, self._seed())
        return made


class ModelSearch(Strategy):
    """Many candidates near the best and some anywhere; those that a model expects most of run.

    The model is the compiler's estimate, corrected by what was measured (see Learner). Some are
    taken whatever it says, so that it learns where it is wrong.
    """

    #: Candidates that are looked at for one that is taken, beside all neighbours of the best.
    POOL = 8
    #: Of those: changes of good ones, crosses, and draws.
    SHARES = (0.4, 0.15, 0.15)
    #: Good ones, by their number.
    GOOD = 12
    #: Of those that are taken, the share that the model has no say in.
    FREE = 0.12
    #: Proposals that are expected to take so many times as long as the compiler's own Plan wait
    #: until the model expects more of them.
    FAR = 2.0

    def __init__(self, space: Any, config: dict[str, Any]) -> None:
        super().__init__(space, config)
        self._learner = Learner(config["seed"], config["learner"])
        self._learner.record(space.candidate(0).features, 1.0)
        self._near: list[Any] = []
        self._neighbours: set[int] = set()
        self._around: set[int] = set()

    def _order(self, proposals: list[Any]) -> list[Any]:
        """The most promising first: a compilation of many statements takes a second, and there may
        be dozens of proposals."""
        predicted = self._learner.predict([candidate.features for candidate in proposals])
        order = sorted(range(len(proposals)), key=predicted.__getitem__)
        # Predictions are logarithms of the time over that of the compiler's own Plan.
        near = [proposals[k] for k in order if predicted[k] < math.log(self.FAR)]
        self._put_back([proposals[k] for k in order[len(near) :]])
        return near

    def _put_back(self, candidates: list[Any]) -> None:
        """Candidates that are not tried yet stay among the neighbours of good ones."""
        self._given -= {candidate.index for candidate in candidates}
        self._neighbours.update(candidate.index for candidate in candidates)
        self._near += candidates

    def record(self, index: int, ratio: float | None, seconds: float | None = None) -> None:
        super().record(index, ratio)
        self._learner.record(self.space.candidate(index).features, ratio, seconds)

    def next(self, count: int) -> list[Any]:
        # Half of them are proposals, as long as there are some.
        most = max((count + 1) // 2, min(count, self._plans))
        found, self.starts = self.starts[:most], self.starts[most:]
        self._plans = max(0, self._plans - len(found))
        wanted = count - len(found)
        pool = self._pool(self.POOL * wanted) if wanted else []
        if not pool:
            more, self.starts = self.starts[:wanted], self.starts[wanted:]
            found += more
            self.exhausted = not found
            return found
        order = self._learner.order([candidate.features for candidate in pool])
        taken = []
        for _ in range(min(wanted, len(order))):
            place = self.random.randrange(len(order)) if self.random.random() < self.FREE else 0
            taken.append(order.pop(place))
        # The rest may be drawn again, and the neighbours wait for their turn.
        left = [pool[k] for k in order]
        self._given -= {candidate.index for candidate in left}
        self._near += [candidate for candidate in left if candidate.index in self._neighbours]
        return found + [pool[k] for k in taken]

    def _pool(self, size: int) -> list[Any]:
        best = self.measured()[: self.GOOD]
        pool: list[Any] = []
        changed, crossed, drawn = (round(share * size) for share in self.SHARES)
        for _, index in best[:3]:
            if index not in self._around:
                self._around.add(index)
                near_it = self.space.neighbours(index)
                self._near += near_it
                self._neighbours.update(candidate.index for candidate in near_it)
        # All neighbours, which are known already.
        pool += [candidate for candidate in self._near if self._accept(candidate)]
        self._near.clear()

        def good() -> int:
            # The better the likelier.
            return best[min(int(self.random.expovariate(0.35)), len(best) - 1)][1]

        if best:
            pool += self._collect(changed, lambda: self.space.mutate(good(), self._seed()))
            pool += self._collect(
                crossed, lambda: self.space.cross([good() for _ in range(3)], self._seed())
            )
        pool += self._collect(drawn, lambda: self.space.draw(self._seed()))
        return pool


STRATEGIES: dict[str, type[Strategy]] = {
    "model": ModelSearch,
    "genetic": GeneticSearch,
    "random": RandomSearch,
}
