"""One search by several processes of torch.distributed, each with its share of the candidates."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from tensor_comprehensions._tuning.trials import Search, Times


def share() -> tuple[int, int]:
    """This process's number, and how many there are; (0, 1) without a group."""
    if not (dist.is_available() and dist.is_initialized()):
        return (0, 1)
    return (dist.get_rank(), dist.get_world_size())


def agree(kernels: dict[str, float]) -> list[tuple[str, float]]:
    """Of what each process may tune, by identities and with a share of the time, what all have: in
    the order of the first process, with its shares. Clocks differ, and processes that search for
    something else at the same time would wait for each other for ever."""
    _, size = share()
    if size == 1:
        return list(kernels.items())
    everyone: list[Any] = [None] * size
    dist.all_gather_object(everyone, kernels)
    return [
        (identity, found)
        for identity, found in everyone[0].items()
        if all(identity in other for other in everyone)
    ]


def _facts(search: Search, identity: str) -> dict[str, Any]:
    def times(found: Times | None) -> Any:
        return None if found is None else vars(found)

    return {
        "identity": identity,
        "best_plan": search.best_plan,
        "best": times(search.best),
        "standard": times(search.standard),
        "trials": [(trial.plan, trial.ratio) for trial in search.trials],
    }


def gather(search: Search, identity: str) -> tuple[Search, list[tuple[str, float | None]]]:
    """The best of all processes' searches, the same in each, and what others have measured.

    Every process must come here; who searches for something else, as ``identity`` says, adds
    nothing. Times of other machines are compared by their ratio to the compiler's own Plan there.
    """
    rank, size = share()
    if size == 1:
        return search, []
    everyone: list[Any] = [None] * size
    dist.all_gather_object(everyone, _facts(search, identity))

    def ratio(facts: dict[str, Any]) -> float:
        if facts["best"] is None or facts["standard"] is None or facts["identity"] != identity:
            return float("inf")
        return float(facts["best"]["minimum"] / facts["standard"]["minimum"])

    winner = min(range(size), key=lambda other: (ratio(everyone[other]), other))
    facts = everyone[winner]
    if ratio(facts) == float("inf"):  # nobody has measured anything
        return search, []
    search.best_plan = facts["best_plan"]
    search.best = Times(**facts["best"])
    search.standard = Times(**facts["standard"])
    others = [
        (plan, found)
        for other in range(size)
        if other != rank and everyone[other]["identity"] == identity
        for plan, found in everyone[other]["trials"]
    ]
    return search, others
