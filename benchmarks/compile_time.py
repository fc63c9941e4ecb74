"""From a text to a callable: seconds of processor time, and memory that compiling takes.

Every text of the papers at small sizes, the first in a process and later ones; then the cases of
`paper.py` at their own sizes, each the first in a process of its own.

python benchmarks/compile_time.py
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import re
import statistics
import time
from pathlib import Path

import torch
from cases import CASES
from command import save
from workloads import WORKLOADS

import tensor_comprehensions as tc

MEGABYTES = 500


def resident(peak: bool) -> float:
    """Megabytes of this process in memory: now, or the most since `forget_peak`."""
    field = "VmHWM" if peak else "VmRSS"
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+) kB", status).group(1)) / 1024


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def compile_case(number: int) -> tuple[float, float]:
    """Seconds, and the most megabytes beyond those before; inputs are there before, too."""
    case = CASES[number]
    values = case.inputs()
    gc.collect()
    forget_peak()
    before = resident(peak=False)
    start = time.process_time()
    tc.compile(case.text, case.entry, None, *values)
    return time.process_time() - start, resident(peak=True) - before


def in_fresh_processes() -> dict[str, tuple[float, float]]:
    """Children of a process that has imported everything and compiled nothing."""
    # Threads would not survive a fork.
    torch.set_num_threads(1)
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        figures = pool.imap(compile_case, range(len(CASES)), chunksize=1)
        return {case.name: figure for case, figure in zip(CASES, figures, strict=True)}


def in_one_process() -> dict[str, float]:
    seconds = {}
    for workload in WORKLOADS:
        inputs = workload.inputs()
        start = time.process_time()
        t = tc.define(workload.text, namespace=f"tc_compile_time_{len(seconds)}")
        if workload.initial is None:
            t(workload.entry, *inputs)
        else:
            t(workload.entry, *inputs, outputs=workload.initial())
        seconds[workload.name] = time.process_time() - start
    return seconds


def main() -> None:
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    fresh = in_fresh_processes()
    for name, (seconds, megabytes) in fresh.items():
        over = "" if megabytes <= MEGABYTES else f"  above {MEGABYTES} MB"
        print(f"{name:40s} {seconds * 1e3:7.1f} ms {megabytes:7.1f} MB{over}")
    times, sizes = zip(*fresh.values(), strict=True)
    print(
        f"each the first of its process: median {statistics.median(times) * 1e3:.0f} ms, slowest "
        f"{max(times) * 1e3:.0f} ms; memory: median {statistics.median(sizes):.0f} MB, largest "
        f"{max(sizes):.0f} MB (at most {MEGABYTES} are allowed)\n"
    )
    in_turn = in_one_process()
    for name, seconds in in_turn.items():
        print(f"{name:40s} {seconds * 1e3:7.1f} ms")
    first, *later = in_turn.values()
    print(
        f"first {first * 1e3:.0f} ms; later: median {statistics.median(later) * 1e3:.0f} ms, "
        f"slowest {max(later) * 1e3:.0f} ms"
    )
    rows = {name: {"seconds": s, "megabytes": m} for name, (s, m) in fresh.items()}
    print("saved", save("compile_time", [], seconds=in_turn, fresh=rows))


if __name__ == "__main__":
    main()
