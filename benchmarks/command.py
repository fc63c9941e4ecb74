"""What all benchmarks have in common as commands: arguments, processes, tables, files of results.

A benchmark is a module with `rows(options)`, names with what makes their rows. It is measured with
each number of threads in a process of its own. Whole runs are kept in `results`, those that were
asked for some rows only are printed.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from harness import Comparison, Rows, Timing, compare, print_comparison
from machine import ROOT, commit, cpu_name, limit_threads, machine_facts, use_same_memory

RESULTS = ROOT / "benchmarks" / "results"

Summary = Callable[[list[Comparison]], dict[str, object]]


def parser(
    description: str, threads: Sequence[int] = (1,), rounds: int = 7
) -> argparse.ArgumentParser:
    """The arguments that all benchmarks take."""
    made = argparse.ArgumentParser(description=description.split("\n")[0])
    made.add_argument("names", nargs="*", help="rows whose names contain one of these; not saved")
    made.add_argument("--threads", type=int, nargs="+", default=list(threads))
    made.add_argument("--rounds", type=int, default=rounds)
    made.add_argument("--round-seconds", type=float, default=0.3)
    made.add_argument(
        "--compiled",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="with columns for torch.compile and jax.jit; saved only with them",
    )
    made.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    return made


def selected(rows: Rows, names: Sequence[str]) -> Rows:
    return (row for row in rows if not names or any(part in row[0] for part in names))


def cpu_label() -> str:
    """Its maker and vectors."""
    maker = re.match(r"\w*", cpu_name())[0]
    return f"{maker}-{torch.backends.cpu.get_cpu_capability()}".lower().replace(" ", "")


def main(
    name: str,
    rows: Callable[[argparse.Namespace], Rows],
    arguments: argparse.ArgumentParser,
    summary: Summary | None = None,
    partial: Callable[[argparse.Namespace], bool] = lambda options: False,
    picture: Callable[[list[Comparison], Path], None] | None = None,
    python: Callable[[argparse.Namespace], str] = lambda options: sys.executable,
    machine: Callable[[], str] = cpu_label,
) -> None:
    """Runs a benchmark. `partial` says whether arguments of its own leave out some rows;
    `summary` prints what follows from all rows, and returns what is kept of it. `picture` draws
    a file beside the results. `python` says which interpreter measures, if not this one, and
    `machine` the end of the name of the file of results."""
    options = arguments.parse_args()
    if options.into:
        work(rows, options)
        return
    use_same_memory()
    interpreter = python(options)
    comparisons: list[Comparison] = []
    failed: dict[str, str] = {}
    for threads in options.threads:
        found, failures = measure_apart(threads, options, interpreter)
        failed |= {f"{row}, {threads} thread(s)": why for row, why in failures.items()}
        print_table(found)
        comparisons += found
    for row, why in failed.items():
        print(f"FAILED {row}: {why}")
    extra = summary(comparisons) if summary and comparisons else {}
    if not (options.names or not options.compiled or partial(options)):
        saved = save(name, comparisons, machine(), failed=failed, **extra)
        print("saved", saved)
        if picture:
            picture(comparisons, saved.with_suffix(".png"))
    sys.exit(1 if failed or not comparisons else 0)


def work(rows: Callable[[argparse.Namespace], Rows], options: argparse.Namespace) -> None:
    """Measures with this process's number of threads; what failed is kept by name."""
    (threads,) = options.threads
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    comparisons, failed = [], {}
    for name, make in selected(rows(options), options.names):
        try:
            comparisons.append(compare(name, make(), options.rounds, options.round_seconds))
        except Exception as error:
            traceback.print_exc()
            failed[name] = str(error).strip().split("\n")[0]
        else:
            print_comparison(comparisons[-1])
        gc.collect()
        report = {"comparisons": [asdict(c) for c in comparisons], "failed": failed}
        options.into.write_text(json.dumps(report))


def measure_apart(
    threads: int, options: argparse.Namespace, python: str = sys.executable
) -> tuple[list[Comparison], dict[str, str]]:
    """The rows from a process of their own, with every library limited to that many threads."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        command = [
            python,
            *sys.orig_argv[1:],
            "--into",
            str(path),
            "--threads",
            str(threads),
        ]
        process = subprocess.run(command, env=limit_threads(dict(os.environ), threads))
        report = json.loads(path.read_text()) if path.exists() else {}
    failed = report.get("failed", {})
    if process.returncode:
        failed[f"the process with {threads} thread(s)"] = f"ended with {process.returncode}"
    return [comparison(found) for found in report.get("comparisons", [])], failed


def comparison(found: dict) -> Comparison:
    """From what a file holds."""
    timings = {name: Timing(**t) for name, t in found["timings"].items()}
    return Comparison(**{**found, "timings": timings})


def print_table(comparisons: list[Comparison]) -> None:
    """The best peer's time over ours, by minima and medians."""
    if not comparisons:
        return
    print(f"\n{comparisons[0].threads} thread(s): time of the best peer over ours")
    print(f"{'':44s}{'ours':>12s}{'minima':>8s}{'medians':>9s}  the best peer")
    for c in comparisons:
        line = f"{c.workload:44s}{c.timings['ours'].minimum * 1e6:9.1f} us{c.ratio:8.2f}"
        line += f"{c.ratio_of_medians:9.2f}  {c.best}"
        if c.target is not None:
            line += f"; asked {c.target:g}, {'ok' if c.ratio >= c.target else 'SHORT'}"
        print(line)
    ratios = [c.ratio for c in comparisons]
    medians = [c.ratio_of_medians for c in comparisons]
    print(
        f"{len(ratios)} rows: least {min(ratios):.2f}, median {statistics.median(ratios):.2f}, "
        f"geometric mean {statistics.geometric_mean(ratios):.2f} by minima, "
        f"{statistics.geometric_mean(medians):.2f} by medians; "
        f"{sum(r < 1 for r in ratios)} slower than the best peer\n",
        flush=True,
    )


def save(
    name: str, comparisons: list[Comparison], machine: str | None = None, **extra: object
) -> Path:
    """Keeps the figures as benchmarks/results/<date>-<name>-<machine>.json, with a number where
    that exists: no file is written twice."""
    RESULTS.mkdir(exist_ok=True)
    machine = machine or cpu_label()
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


def rounded(value: object) -> object:
    """Four digits are more than a timing has, and keep the files short."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(part) for part in value]
    return value
