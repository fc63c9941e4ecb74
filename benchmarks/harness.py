"""Interleaved timing of our operators and their peers.

The machine may be shared and its clock may drift, so candidates take turns within every round and
are compared by ratios inside one run. One thread decides; more threads are shown beside it. With
one thread, processor time is compared: it leaves out what other programs take in between.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch

RESULTS = Path(__file__).parent / "results"

#: Memory is the same for all candidates. Results of ours lie in huge pages, so PyTorch's do too;
#: and glibc keeps what was freed instead of giving it back to the system, which would map, and
#: clear, the pages of large results anew at every call.
MEMORY = {
    "THP_MEM_ALLOC_ENABLE": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
}


def use_same_memory() -> None:
    """Starts this program again with the variables of `MEMORY`, which are read when it starts."""
    if any(os.environ.get(name) != value for name, value in MEMORY.items()):
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **MEMORY})


@dataclass
class Timing:
    """Seconds of one call of a candidate, over all rounds."""

    minimum: float
    median: float
    spread: float  # third quartile over first
    samples: list[float] = field(default_factory=list)  # one a round


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
    return Timing(min(seconds), statistics.median(seconds), high / low, seconds)


def interleave(
    candidates: dict[str, Callable[[], object]],
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
    """What a candidate returned, as PyTorch's tensors: a single one or several, of any library."""
    if isinstance(result, (tuple, list)):
        return tuple(tensor for part in result for tensor in tensors(part))
    return (result if isinstance(result, torch.Tensor) else torch.tensor(np.asarray(result)),)


def check(
    name: str, result: object, wanted: object, tolerance: float, scale: float | None = None
) -> None:
    """Differences are bounded by `tolerance` times `scale`, or the largest value of each tensor."""
    result, wanted = tensors(result), tensors(wanted)
    assert len(result) == len(wanted), f"{name}: {len(result)} results, wanted {len(wanted)}"
    for k, (r, w) in enumerate(zip(result, wanted, strict=True)):
        torch.testing.assert_close(
            r,
            w,
            rtol=0,
            atol=tolerance * (float(w.abs().max()) if scale is None else scale),
            msg=lambda message, k=k: f"{name}, result {k}: {message}",
        )


def compare(
    workload: str,
    ours: Callable[[], object],
    peers: dict[str, Callable[[], object]],
    *,
    threads: Iterable[int] = (1, 2),
    rounds: int = 15,
    round_seconds: float = 0.2,
    tolerance: float = 1e-4,
    variants: dict[str, Callable[[], object]] | None = None,
    unrelated: dict[str, Callable[[], object]] | None = None,
) -> list[Comparison]:
    """Checks that all candidates agree, then times them for each number of threads.

    `variants` are other kernels of our own: timed beside the peers, but no part of the ratio.
    `unrelated` compute something else with as much work, for scale.
    """
    candidates = {"ours": ours, **peers, **(variants or {})}
    wanted = next(iter(peers.values()))()
    for name, call in candidates.items():
        check(f"{workload}: {name}", call(), wanted, tolerance)
    del wanted
    candidates |= unrelated or {}
    before = torch.get_num_threads()
    comparisons = []
    for count in threads:
        torch.set_num_threads(count)
        clock = time.process_time if count == 1 else time.perf_counter
        timings = interleave(candidates, rounds, round_seconds, clock)
        best = min(timings[name].minimum for name in peers)
        best_median = min(timings[name].median for name in peers)
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
    """Keeps the figures as benchmarks/results/<date>-<name>-<maker and vectors of the CPU>.json,
    with a number where that exists: no file is written twice."""
    RESULTS.mkdir(exist_ok=True)
    maker = re.match(r"\w*", cpu_name())[0]
    machine = f"{maker}-{torch.backends.cpu.get_cpu_capability()}".lower().replace(" ", "")
    stem = f"{datetime.date.today().isoformat()}-{name}-{machine}"
    report = {
        "commit": commit(),
        "command": [f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]],
        "machine": machine_facts(),
        "comparisons": [asdict(c) for c in comparisons],
        **extra,
    }
    text = json.dumps(rounded(report), indent=1)
    # Samples, on a line each list.
    text = re.sub(r"\[[\d\s.,e-]+\]", lambda found: " ".join(found[0].split()), text) + "\n"
    for number in range(1, 1000):
        path = RESULTS / (f"{stem}.json" if number == 1 else f"{stem}-{number}.json")
        try:
            with path.open("x") as file:
                file.write(text)
            return path
        except FileExistsError:
            continue
    raise FileExistsError(f"{RESULTS / stem}.json and 998 more")


def commit() -> str:
    """The commit that is checked out, "with changes" where the tree differs from it."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(RESULTS.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def machine_facts() -> dict[str, object]:
    def read(path: str) -> str:
        try:
            return Path(path).read_text().strip()
        except OSError:
            return "unknown"

    caches = {}
    for cache in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind = read(f"{cache}/type")
        if kind != "Instruction":
            caches[f"L{read(f'{cache}/level')}"] = read(f"{cache}/size")
    return {
        "cpu": cpu_name(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "cores": torch.get_num_threads(),
        "caches": caches,
        "huge_pages": read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "memory": {name: os.environ.get(name, "") for name in MEMORY},
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def rounded(value: object) -> object:
    """Four digits are more than a timing has, and keep the files short."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(part) for part in value]
    return value


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()
