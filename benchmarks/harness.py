"""Interleaved timing of our operators and their peers.

The machine may be shared and its clock may drift, so candidates take turns within every round and
are compared by ratios inside one run. One thread decides; more threads are shown beside it.
"""

from __future__ import annotations

import datetime
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

RESULTS = Path(__file__).parent / "results"


@dataclass
class Timing:
    """Seconds of one call of a candidate, over all rounds."""

    minimum: float
    median: float
    spread: float  # third quartile over first


@dataclass
class Comparison:
    """One workload with one number of threads. `ratio` is the best peer's minimum over ours."""

    workload: str
    threads: int
    timings: dict[str, Timing]
    ratio: float
    ratio_of_medians: float
    notes: dict[str, object] = field(default_factory=dict)


def timing(seconds: list[float]) -> Timing:
    low, _, high = statistics.quantiles(seconds, n=4)
    return Timing(min(seconds), statistics.median(seconds), high / low)


def interleave(
    candidates: dict[str, Callable[[], object]], rounds: int, round_seconds: float
) -> dict[str, Timing]:
    """Times every candidate once a round, as many calls as fill `round_seconds` divided evenly."""
    repeats = {}
    for name, call in candidates.items():
        call()
        start = time.perf_counter()
        call()
        once = max(time.perf_counter() - start, 1e-7)
        repeats[name] = max(1, int(round_seconds / len(candidates) / once))
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, call in candidates.items():
            count = repeats[name]
            start = time.perf_counter()
            for _ in range(count):
                call()
            seconds[name].append((time.perf_counter() - start) / count)
    return {name: timing(samples) for name, samples in seconds.items()}


def compare(
    workload: str,
    ours: Callable[[], object],
    peers: dict[str, Callable[[], object]],
    *,
    threads: Iterable[int] = (1, 2),
    rounds: int = 15,
    round_seconds: float = 0.2,
    tolerance: float = 1e-4,
) -> list[Comparison]:
    """Checks that all candidates agree, then times them for each number of threads."""
    wanted = next(iter(peers.values()))()
    torch.testing.assert_close(ours(), wanted, rtol=tolerance, atol=tolerance)
    before = torch.get_num_threads()
    comparisons = []
    for count in threads:
        torch.set_num_threads(count)
        timings = interleave({"ours": ours, **peers}, rounds, round_seconds)
        best = min(t.minimum for name, t in timings.items() if name != "ours")
        best_median = min(t.median for name, t in timings.items() if name != "ours")
        mine = timings["ours"]
        comparisons.append(
            Comparison(workload, count, timings, best / mine.minimum, best_median / mine.median)
        )
    torch.set_num_threads(before)
    return comparisons


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


def save(name: str, comparisons: list[Comparison], **extra: object) -> Path:
    """Keeps the figures as benchmarks/results/<date>-<name>.json."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{datetime.date.today().isoformat()}-{name}.json"
    report = {
        "machine": {
            "cpu": cpu_name(),
            "cores": torch.get_num_threads(),
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "comparisons": [asdict(c) for c in comparisons],
        **extra,
    }
    path.write_text(json.dumps(report, indent=1) + "\n")
    return path


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()
