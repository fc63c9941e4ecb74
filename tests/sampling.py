"""Which cases of a test that is marked `sampled` make test runs; the others are slow."""

from __future__ import annotations

import itertools
import os
import re
import zlib
from collections.abc import Sequence

#: How often what can go wrong at any moment is made to go wrong: 25 crashes, or TC_REPEATED.
REPEATED = int(os.environ.get("TC_REPEATED", 25))


def covering(points: Sequence[tuple]) -> list[int]:
    """Of cases, each a value for every parameter: as few as a greedy choice finds in which all
    combinations of values of all parameters but one occur. Most mistakes show with a value or a
    pair of them, whatever the rest is."""
    strength = max(1, len(points[0]) - 1)
    parts = [set(itertools.combinations(enumerate(point), strength)) for point in points]
    missing = set().union(*parts)
    shared = [0] * len(points)  # values that a case has in common with those chosen
    chosen: list[int] = []
    while missing:
        # Of equals the one that shares least: neighbours take turns.
        best = max(range(len(points)), key=lambda k: (len(parts[k] & missing), -shared[k]))
        chosen.append(best)
        missing -= parts[best]
        for k, point in enumerate(points):
            shared[k] += sum(a == b for a, b in zip(point, points[best]))
    return sorted(chosen)


def sample(points: Sequence[tuple], every: int | None) -> list[int]:
    """The cases that are run always: one of `every`, or what covers the product."""
    if every is not None:
        return list(range(0, len(points), every))
    axes = [axis for axis in zip(*points, strict=True) if len(set(axis)) > 1]
    if len(axes) < 2:
        raise ValueError("one parameter has no combinations: say sampled(every=...)")
    return covering(list(zip(*axes, strict=True)))


def of_part(names: Sequence[str], part: str) -> set[str]:
    """Of the names of cases, the Kth of N parts, for `part` = "K/N". A name is always in the same
    part, whatever the other names are."""
    match = re.fullmatch(r"(\d+)/(\d+)", part)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"{part!r} is not K/N with K from 1 to N, as 2/3")
    k, count = int(match[1]), int(match[2])
    return {name for name in names if zlib.crc32(name.encode()) % count == k - 1}
