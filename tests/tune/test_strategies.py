"""Strategies and the learner on a space whose times are known: no kernel runs."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from tensor_comprehensions import _torch
from tensor_comprehensions._tuning.config import TunerConfig
from tensor_comprehensions._tuning.learner import Learner, has_learner
from tensor_comprehensions._tuning.strategies import STRATEGIES, Strategy

FEATURES = _torch.feature_names()
CYCLES = FEATURES.index("cycles on all threads")
STRUCTURE = FEATURES.index("structure")


@dataclass
class Candidate:
    index: int
    options: str
    genes: tuple[int, ...]
    reason: str | None = None
    structure: int = 0
    features: list[float] = field(default_factory=list)


class Hills:
    """Points of four coordinates, each with a best value; the estimate is wrong about one of them,
    and every 7th point cannot be."""

    SIZE, BEST = 16, (13, 2, 6, 11)

    def __init__(self) -> None:
        self._all: list[Candidate] = []
        self._known: dict[tuple[int, ...], int] = {}
        self.make((0, 0, 0, 0))

    def time(self, genes: tuple[int, ...]) -> float:
        return math.exp(sum(0.2 * abs(g - b) for g, b in zip(genes, self.BEST, strict=True)))

    def make(self, genes: tuple[int, ...]) -> Candidate:
        if genes in self._known:
            return self._all[self._known[genes]]
        features = [0.0] * len(FEATURES)
        # The first coordinate seems not to matter, which the tasks show.
        features[CYCLES] = 1e5 * self.time((self.BEST[0], *genes[1:]))
        features[FEATURES.index("tasks")] = float(genes[0])
        number = len(self._all)
        reason = "no such 7" if number and sum(genes) % 7 == 0 else None
        made = Candidate(number, str(genes), genes, reason, 0, [] if reason else features)
        self._known[genes] = made.index
        self._all.append(made)
        return made

    def candidate(self, index: int) -> Candidate:
        return self._all[index]

    def starts(self) -> list[Candidate]:
        return [self.make((4, 4, 4, 4))]

    def draw(self, seed: int) -> Candidate:
        r = random.Random(seed)
        return self.make(tuple(r.randrange(self.SIZE) for _ in self.BEST))

    def mutate(self, parent: int, seed: int) -> Candidate:
        r = random.Random(seed)
        genes = list(self._all[parent].genes)
        k = r.randrange(len(genes))
        genes[k] = min(max(genes[k] + r.choice((-1, 1)), 0), self.SIZE - 1)
        return self.make(tuple(genes))

    def cross(self, parents: list[int], seed: int) -> Candidate:
        r = random.Random(seed)
        return self.make(
            tuple(self._all[r.choice(parents)].genes[k] for k in range(len(self.BEST)))
        )

    def neighbours(self, index: int) -> list[Candidate]:
        genes = self._all[index].genes
        found = []
        for k, value in enumerate(genes):
            for other in (value - 1, value + 1):
                if 0 <= other < self.SIZE:
                    found.append(self.make((*genes[:k], other, *genes[k + 1 :])))
        return found


def config(strategy: str, **changes: Any) -> dict[str, Any]:
    made = {
        "strategy": strategy,
        "seed": 1,
        "pop_size": 16,
        "number_elites": 4,
        "crossover_rate": 80,
        "mutation_rate": 30,
        "learner": True,
        "share": [0, 1],
    }
    return {**made, **changes}


def search(
    strategy: str, candidates: int, batch: int = 8, **changes: Any
) -> tuple[Strategy, Hills, list[Candidate]]:
    space = Hills()
    made = STRATEGIES[strategy](space, config(strategy, **changes))
    made.begin([])
    base = space.time(space.candidate(0).genes)
    tried: list[Candidate] = []
    while len(tried) < candidates:
        found = made.next(min(batch, candidates - len(tried)))
        if not found:
            assert made.exhausted
            break
        for candidate in found:
            made.record(candidate.index, space.time(candidate.genes) / base)
        tried += found
    return made, space, tried


def best(space: Hills, tried: list[Candidate]) -> float:
    return min(space.time(candidate.genes) for candidate in tried)


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_each_candidate_once_and_only_those_that_can_be(strategy: str) -> None:
    made, _, tried = search(strategy, 120)
    assert len(tried) == 120
    assert len({candidate.index for candidate in tried}) == 120
    assert all(candidate.reason is None and candidate.index != 0 for candidate in tried)
    assert tried[0].genes == (4, 4, 4, 4)  # the compiler's proposal
    assert made.illegal["no such N"] > 0


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_the_same_seed_gives_the_same(strategy: str) -> None:
    first = [candidate.genes for candidate in search(strategy, 60)[2]]
    again = [candidate.genes for candidate in search(strategy, 60)[2]]
    other = [candidate.genes for candidate in search(strategy, 60, seed=2)[2]]
    assert first == again
    assert first != other


def test_searches_are_better_than_chance() -> None:
    """By the geometric mean over ten seeds, of 65,536 points."""
    mean = {}
    for strategy in STRATEGIES:
        values = [
            math.log(best(space, tried))
            for seed in range(10)
            for _, space, tried in [search(strategy, 100, seed=seed)]
        ]
        mean[strategy] = sum(values) / len(values)
    assert mean["model"] < mean["genetic"] < mean["random"], mean
    assert mean["model"] < 0.3, mean  # two steps of all coordinates from the best


@pytest.mark.skipif(not has_learner(), reason="scikit-learn is not installed")
def test_learning_beats_the_estimate_where_that_is_wrong() -> None:
    found = {
        learner: [
            best(space, tried)
            for seed in range(10)
            for _, space, tried in [search("model", 56, seed=seed, learner=learner)]
        ]
        for learner in (True, False)
    }
    assert sum(map(math.log, found[True])) < sum(map(math.log, found[False])), found


def test_shares_of_ranks_are_disjoint() -> None:
    tried = [
        {candidate.options for candidate in search("random", 200, share=[rank, 3])[2]}
        for rank in range(3)
    ]
    assert all(tried)
    assert not tried[0] & tried[1] and not tried[1] & tried[2] and not tried[0] & tried[2]


def test_what_was_measured_before_is_not_tried_again() -> None:
    _, _, tried = search("random", 20)

    class Found(Hills):
        def add(self, options: Any) -> Candidate:
            made = self.make(tried[0].genes)
            made.options = options.text()
            return made

    space = Found()
    made = STRATEGIES["random"](space, config("random"))
    made.know(str(_torch.Options("naive").text()), 0.25)
    made.begin([])
    assert made.measured()[0][0] == 0.25
    assert all(candidate.genes != tried[0].genes for candidate in made.next(100))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_plans_that_are_given_are_measured_again(strategy: str) -> None:
    """Also those that an earlier search has measured: only what this one measures may win."""

    class Found(Hills):
        def add(self, options: Any) -> Candidate:
            made = self.make((3, 3, 3, 2))
            made.options = options.text()
            return made

    plan = str(_torch.Options("naive").text())
    made = STRATEGIES[strategy](Found(), config(strategy))
    made.know(plan, 0.25)
    made.begin([plan])
    assert (3, 3, 3, 2) in [candidate.genes for candidate in made.next(8)]


def test_genetic_search_waits_for_its_generation() -> None:
    space = Hills()
    made = STRATEGIES["genetic"](space, config("genetic"))
    made.begin([])
    generation = [candidate for _ in range(4) for candidate in made.next(4)]
    assert len(generation) == 16
    assert made.next(4) == [] and not made.exhausted
    for candidate in generation[:-1]:
        made.record(candidate.index, 1.0)
    assert made.next(4) == []
    made.record(generation[-1].index, None)  # one that cannot run is no obstacle
    assert len(made.next(4)) == 4


def test_genetic_search_draws_anew_without_elites() -> None:
    space = Hills()
    made = STRATEGIES["genetic"](space, config("genetic", number_elites=8))
    made.begin([])
    generation = made.next(16)
    for candidate in generation:
        made.record(candidate.index, None)
    crossed: list[int] = []
    space.cross = lambda parents, seed: crossed.append(seed)  # type: ignore[assignment]
    assert made.next(8) and not crossed


def features(cycles: float, structure: int = 0) -> list[float]:
    made = [0.0] * len(FEATURES)
    made[CYCLES], made[STRUCTURE] = cycles, float(structure)
    return made


def test_estimates_alone_rank_by_structure() -> None:
    """Where structures are misjudged by different factors, these are taken out."""
    learner = Learner(0, learns=False)
    learner.record(features(1000, 0), 1.0)
    learner.record(features(500, 1), 4.0)
    fast, slow = learner.predict([features(900, 0), features(400, 1)])
    assert fast < slow
    assert fast == pytest.approx(math.log(0.9))
    assert slow == pytest.approx(math.log(3.2))


def test_config_refuses_what_means_nothing() -> None:
    from tensor_comprehensions import TCError

    for call, words in (
        (lambda c: c.threads(0), "TunerConfig.threads(0): expected an integer of 1 to 1024"),
        (lambda c: c.pop_size("many"), "TunerConfig.pop_size('many'): expected an integer"),
        (lambda c: c.strategy("best"), "expected one of model, genetic, random"),
        (lambda c: c.effort("most"), "expected one of quick, normal, full"),
        (lambda c: c.budget_seconds(-1), "expected seconds, at least 0"),
        (lambda c: c.devices("first"), 'expected numbers of devices, as "0,1"'),
        (lambda c: c.mutation_rate(101), "expected an integer of 0 to 100"),
        (lambda c: c.timeout_seconds(0), "expected seconds, above 0"),
    ):
        with pytest.raises(TCError) as error:
            call(TunerConfig())
        assert words in str(error.value)


def test_config_bounds() -> None:
    assert TunerConfig().seconds() == 60
    assert TunerConfig().effort("quick").seconds() == 8
    assert TunerConfig().budget_seconds(0).seconds() == math.inf
    assert TunerConfig().most_candidates() == math.inf
    asked = TunerConfig().generations(3).pop_size(5)
    assert asked.most_candidates() == 15
    assert asked.seconds() == 600  # candidates are what was asked for
    assert repr(asked) == "TunerConfig(generations=3, pop_size=5)"


@pytest.mark.skipif(not has_learner(), reason="scikit-learn is not installed")
@pytest.mark.parametrize("costly", [0, 1])
def test_of_what_promises_as_much_the_cheaper_is_tried(costly: int) -> None:
    """Candidates whose times do not depend on what their compilations take."""
    unrolled, tasks = FEATURES.index("unrolled"), FEATURES.index("tasks")

    def candidate(number: int, size: float) -> list[float]:
        made = features(1000)
        made[unrolled], made[tasks] = size, float(number)
        return made

    learner = Learner(0)
    draws = random.Random(0)
    for number in range(80):
        size = draws.choice([4.0, 400.0])
        ratio = 1 + 0.01 * draws.random()
        learner.record(candidate(number % 10, size), ratio, 0.5 if size > 100 else 0.03)
    pair = [candidate(5, 4.0), candidate(5, 4.0)]
    pair[costly][unrolled] = 400.0
    assert learner.order(pair) == [1 - costly, costly]


@pytest.mark.skipif(not has_learner(), reason="scikit-learn is not installed")
def test_seeds_may_have_64_bits() -> None:
    learner = Learner(2**63 - 1)
    for number in range(40):
        learner.record(features(1000 + number), 1.0 + number % 3, 0.1)
    assert len(learner.predict([features(1000), features(2000)])) == 2
