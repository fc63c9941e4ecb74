"""Interleaved timing of our operators and their peers.

The machine may be shared and its clock may drift, so candidates take turns within every round and
are compared by ratios inside one run. One thread decides; more threads are shown beside it. With
one thread, processor time is compared: it leaves out what other programs take in between.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

Candidate = Callable[[], object]


@dataclass(frozen=True)
class Restored:
    """A candidate with a layout of its own: `restore` gives its results the order of the others',
    so that they can be compared. It is not timed."""

    call: Candidate
    restore: Callable[[object], object]

    def __call__(self) -> object:
        return self.call()


@dataclass
class Row:
    """One line of a table: a computation of ours beside the same by others.

    Peers are made when they are asked for, since compiling them takes time. All results are
    compared, but those of `unrelated` candidates, which compute something else with as much work.
    Where there are no peers, the first of these is what the ratio is over. `variants` are other
    kernels of our own: timed beside the peers, but no part of the ratio.
    """

    ours: Candidate
    peers: Callable[[], dict[str, Candidate]] = dict
    variants: dict[str, Candidate] = field(default_factory=dict)
    unrelated: dict[str, Candidate] = field(default_factory=dict)
    tolerance: float = 1e-4
    target: float | None = None  #: the least ratio asked for on one thread
    notes: dict[str, object] = field(default_factory=dict)
    clock: Callable[[], float] | None = None  #: in place of the host's


#: Names with what makes their rows, when it is their turn.
Rows = Iterator[tuple[str, Callable[[], Row]]]


@dataclass
class Timing:
    """Seconds of one call of a candidate, over all rounds."""

    minimum: float
    median: float
    spread: float  # third quartile over first
    samples: list[float] = field(default_factory=list)  # one a round


@dataclass
class Comparison:
    """One workload with one number of threads. `ratio` is the best peer's minimum over ours,
    `ratio_of_medians` the same of medians, each with that peer's name."""

    workload: str
    threads: int
    timings: dict[str, Timing]
    ratio: float
    ratio_of_medians: float
    best: str = ""
    best_median: str = ""
    target: float | None = None
    notes: dict[str, object] = field(default_factory=dict)


def timing(seconds: list[float]) -> Timing:
    low, _, high = statistics.quantiles(seconds, n=4)
    return Timing(min(seconds), statistics.median(seconds), high / low, seconds)


def interleave(
    candidates: dict[str, Candidate],
    rounds: int,
    round_seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Times every candidate once a round, as many calls as fill `round_seconds` divided evenly.

    Every round is in an order of its own: nobody always follows the same neighbour (of three copies
    of one kernel with 20 MB of results, the last in a fixed order was up to 12 % faster).

    The processor time of `time.process_time` is that of all threads together.
    """
    repeats = {}
    for name, call in candidates.items():
        call()
        start = clock()
        call()
        once = max(clock() - start, 1e-7)
        repeats[name] = max(1, int(round_seconds / len(candidates) / once))
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    orders = random.Random(0)
    for _ in range(rounds):
        for name in orders.sample(list(candidates), len(candidates)):
            count, call = repeats[name], candidates[name]
            start = clock()
            for _ in range(count):
                call()
            seconds[name].append((clock() - start) / count)
    return {name: timing(samples) for name, samples in seconds.items()}


def tensors(result: object) -> tuple[torch.Tensor, ...]:
    """What a candidate returned, as PyTorch's tensors: none, one or several, of any library."""
    if result is None:
        return ()
    if isinstance(result, (tuple, list)):
        return tuple(tensor for part in result for tensor in tensors(part))
    return (result if isinstance(result, torch.Tensor) else torch.tensor(np.asarray(result)),)


def check(
    name: str, result: object, wanted: object, tolerance: float, scale: float | None = None
) -> None:
    """Differences are bounded by `tolerance` times `scale`, or the largest value of each tensor; a
    rounding of values of one is allowed where terms of a sum cancel out."""
    result, wanted = tensors(result), tensors(wanted)
    assert len(result) == len(wanted), f"{name}: {len(result)} results, wanted {len(wanted)}"
    for k, (r, w) in enumerate(zip(result, wanted)):
        largest = float(w.abs().max()) if scale is None and w.numel() else scale or 0
        rounding = torch.finfo(w.dtype).eps if w.is_floating_point() else 0
        try:
            torch.testing.assert_close(r, w, rtol=0, atol=max(tolerance * largest, rounding))
        except AssertionError as error:
            raise AssertionError(f"{name}, result {k}: {error}") from None


def results(call: Candidate) -> object:
    return call.restore(call()) if isinstance(call, Restored) else call()


def compare(workload: str, row: Row, rounds: int, round_seconds: float) -> Comparison:
    """Checks that all candidates agree, then times them with PyTorch's number of threads."""
    peers = row.peers()
    candidates = {"ours": row.ours, **peers, **row.variants}
    wanted = results(next(iter(peers.values()))) if peers else None
    for name, call in candidates.items():
        if peers:
            check(f"{workload}: {name}", results(call), wanted, row.tolerance)
    del wanted
    threads = torch.get_num_threads()
    clock = row.clock or (time.process_time if threads == 1 else time.perf_counter)
    timings = interleave(candidates | row.unrelated, rounds, round_seconds, clock)
    over = list(peers or row.unrelated)
    best = min(over, key=lambda name: timings[name].minimum)
    best_median = min(over, key=lambda name: timings[name].median)
    mine = timings["ours"]
    return Comparison(
        workload,
        threads,
        timings,
        timings[best].minimum / mine.minimum,
        timings[best_median].median / mine.median,
        best,
        best_median,
        row.target if threads == 1 else None,
        row.notes,
    )


def print_comparison(comparison: Comparison) -> None:
    parts = ", ".join(
        f"{name} {t.minimum * 1e6:.1f} us (median {t.median * 1e6:.1f}, spread {t.spread:.2f})"
        for name, t in comparison.timings.items()
    )
    print(
        f"{comparison.workload:34s} {comparison.threads} thread(s)  "
        f"ratio {comparison.ratio:.2f} (medians {comparison.ratio_of_medians:.2f})  {parts}",
        flush=True,
    )
