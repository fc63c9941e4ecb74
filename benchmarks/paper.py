"""The measured texts of the papers against ATen, torch.compile and jax.jit.

Our own kernels with default options: no tuning, no library call. One thread decides. The ratio is
the time of the best peer over ours; beside it stands the least that is asked for, and the ratio
where library calls are allowed, which the default options do.

python benchmarks/paper.py [--threads 1 2] [--rounds 7] [part of a name ...]
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import traceback
from dataclasses import asdict
from pathlib import Path

import torch
from cases import CASES, Case
from harness import Comparison, Timing, compare, print_comparison, save, use_same_memory
from peers import limit_threads, peers

import tensor_comprehensions as tc


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="cases whose names contain one of these")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--round-seconds", type=float, default=0.4)
    parser.add_argument(
        "--library",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also the default options, which may call ATen",
    )
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(index: int, case: Case, options: argparse.Namespace) -> Comparison:
    torch.manual_seed(0)
    values = case.inputs()

    def kernel(library: bool) -> object:
        mapping = tc.MappingOptions()
        if not library:
            mapping.matchLibraryCalls(False)
        namespace = f"tc_paper_{index}{'_library' if library else ''}"
        operator = getattr(tc.define(case.text, mapping, namespace=namespace), case.entry)
        return lambda: operator(*values)

    (comparison,) = compare(
        case.name,
        kernel(library=False),
        peers(case, values),
        threads=(torch.get_num_threads(),),
        rounds=options.rounds,
        round_seconds=options.round_seconds,
        variants={"ours, library": kernel(library=True)} if options.library else {},
    )
    times = comparison.timings
    mine = times["ours"].minimum
    # One thread decides.
    target = case.target if comparison.threads == 1 else None
    comparison.notes = {
        "ratios": {name: t.minimum / mine for name, t in times.items() if name != "ours"},
        "figure": case.figure,
        "target": target,
    }
    if target is not None:
        comparison.notes["met"] = comparison.ratio >= target
    if options.library:
        best = comparison.ratio * mine
        comparison.notes["library_ratio"] = best / times["ours, library"].minimum
    return comparison


def work(options: argparse.Namespace) -> None:
    """Measures with this process's number of threads; what failed is kept by name."""
    (threads,) = options.threads
    torch.set_num_threads(threads)
    comparisons, failed = [], {}
    for k, case in enumerate(CASES):
        if options.names and not any(name in case.name for name in options.names):
            continue
        try:
            comparisons.append(measure(k, case, options))
        except Exception as error:
            traceback.print_exc()
            failed[case.name] = str(error).strip().split("\n")[0]
        else:
            print_comparison(comparisons[-1])
        gc.collect()
        report = {"comparisons": [asdict(c) for c in comparisons], "failed": failed}
        options.into.write_text(json.dumps(report))


def measure_apart(threads: int, options: argparse.Namespace) -> tuple[list[Comparison], dict]:
    """The same in a process of its own, with every library limited to that many threads."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        command = [sys.executable, __file__, "--into", str(path), "--threads", str(threads)]
        command += ["--rounds", str(options.rounds), "--round-seconds", str(options.round_seconds)]
        command += ["--library" if options.library else "--no-library", *options.names]
        process = subprocess.run(command, env=limit_threads(dict(os.environ), threads))
        report = json.loads(path.read_text()) if path.exists() else {}
    failed = report.get("failed", {})
    if process.returncode:
        failed[f"the process with {threads} thread(s)"] = f"ended with {process.returncode}"
    comparisons = report.get("comparisons", [])
    for comparison in comparisons:
        comparison["timings"] = {k: Timing(**t) for k, t in comparison["timings"].items()}
    return [Comparison(**comparison) for comparison in comparisons], failed


def print_table(comparisons: list[Comparison]) -> None:
    columns = ["torch", "torch.compile", "jax.jit"]
    print(
        f"{'':38s}{'ours':>10s}" + "".join(f"{c:>15s}" for c in columns) + f"{'ratio':>8s}  asked"
    )
    for comparison in comparisons:
        ratios = comparison.notes["ratios"]
        # The best of what ATen offers.
        plain = {name: r for name, r in ratios.items() if name.split(",")[0] == "torch"}
        cells = [min(plain.values()), ratios.get("torch.compile"), ratios.get("jax.jit")]
        line = f"{comparison.workload:38s}{comparison.timings['ours'].minimum * 1e6:7.0f} us"
        line += "".join(f"{'-' if c is None else f'{c:.2f}':>15s}" for c in cells)
        line += f"{comparison.ratio:8.2f}"
        if comparison.notes["target"] is not None:
            line += f"  {comparison.notes['target']:<4g} "
            line += "ok" if comparison.notes["met"] else "SHORT"
        if "library_ratio" in comparison.notes:
            line += f"  with library calls {comparison.notes['library_ratio']:.2f}"
        print(line)


def main() -> None:
    use_same_memory()
    options = arguments()
    if options.into:
        work(options)
        return
    everything, failures, means = [], {}, {}
    for threads in options.threads:
        comparisons, failed = measure_apart(threads, options)
        failures |= {f"{name}, {threads} thread(s)": why for name, why in failed.items()}
        print(f"\n{threads} thread(s): time of each peer over ours")
        print_table(comparisons)
        ratios = [c.ratio for c in comparisons if c.notes["figure"]]
        if ratios:
            means[threads] = statistics.geometric_mean(ratios)
            print(
                f"geometric mean over {len(ratios)} workloads of figures 5 to 7: "
                f"{means[threads]:.2f} (asked: 1.4)\n"
            )
        everything += comparisons
    for name, why in failures.items():
        print(f"FAILED {name}: {why}")
    if not options.names:
        print("saved", save("paper", everything, geometric_means=means, failed=failures))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
