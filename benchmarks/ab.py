"""Two versions of the compiler side by side: which kernels became faster or slower.

python benchmarks/ab.py COMMIT [part of a name ...] [--with COMMIT] [--benchmarks paper layers]
python benchmarks/ab.py . --facts last_cache_rate=10 [--environment NAME=VALUE ...] [...]

Both versions measure the rows of this tree's benchmarks, our own kernels only, each in a process of
its own. They take turns: within a round both run the same row for as long, in a random order, and
what is compared is the ratio of each such pair, so that drifts of the clock and most of what other
programs do cancel out. All of that is done several times, in new processes with new inputs, since
small kernels differ by some hundredths with the places of their tensors in memory. The ratio is
COMMIT's time over that of the other version, which is this tree as `make build` left it: above 1,
this tree is the faster one.

With `--facts`, COMMIT plans for a machine of these facts (see `TC_MACHINE`); as `.` it is this tree
as well, so that the ratio is what other facts would cost or gain. `--environment` does so with any
other variables, such as `HL_LLVM_ARGS=-disable-lsr`.

Versions are built below build/ab, once for each commit. The exit status is 1 where a row became
slower, 2 where one failed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import command
from harness import Comparison, Row, timing
from machine import ROOT, git, limit_threads, use_same_memory

BENCHMARKS = (
    *("paper", "definitions", "layers", "einsum", "contractions", "elementwise", "functions"),
    *("padding", "prologues", "index_checks", "call_overhead"),
)
#: Batches of calls in one turn, of which the fastest counts.
BATCHES = 3
#: What is told apart at least.
LEAST = 0.01


# ---- the process of one version


class Worker:
    """Answers the commands of `Version`: one line of JSON each, one in return."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.rows: Iterator[tuple[str, Callable[[], Row]]] = iter(())
        self.names = options.names
        self.threads = options.threads
        self.make: Callable[[], Row] | None = None
        self.call: Callable[[], object] | None = None
        self.moved: object = None

    def benchmark(self, name: str) -> None:
        module = importlib.import_module(name)
        options = module.arguments().parse_args([])
        options.compiled = False
        options.names = self.names
        if hasattr(options, "library"):
            options.library = False
        self.rows = command.selected(module.rows(options), self.names)

    def next(self) -> str | None:
        """The name of the next row."""
        name, self.make = next(self.rows, (None, None))
        self.call = None
        return name

    def prepare(self, seed: int) -> float:
        """Makes the row with new inputs; the seconds of a call."""
        import torch

        torch.manual_seed(seed)
        self.call = self.moved = None
        # Elsewhere in memory than before, and than the other version's: kernels in a cache differ
        # by some percent with the places of their tensors.
        self.moved = torch.empty(random.randrange(1 << 16, 1 << 22), dtype=torch.uint8)
        self.call = self.make().ours
        for _ in range(3):
            self.call()
        return self.time(1)

    def time(self, count: int) -> float:
        """Seconds of one call, of so many in each batch; of the fastest batch."""
        return min(self._batch(count) for _ in range(BATCHES))

    def _batch(self, count: int) -> float:
        call = self.call
        clock = time.process_time if self.threads == 1 else time.perf_counter
        start = clock()
        for _ in range(count):
            call()
        return (clock() - start) / count


def work(options: argparse.Namespace) -> None:
    import torch

    torch.set_num_threads(options.threads)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what benchmarks print is no answer
    import tensor_comprehensions as tc

    found = Path(tc.__file__).resolve().parents[1]
    assert found == Path(options.worker).resolve(), f"{found} instead of {options.worker}"
    worker = Worker(options)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            answer = {"result": getattr(worker, name)(*arguments)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}".split("\n")[0]}
        print(json.dumps(answer), file=answers, flush=True)


# ---- the process that compares


class Failed(Exception):
    """What a version answered instead of a result."""


class Version:
    """A built tree with the process that runs its kernels."""

    def __init__(self, name: str, tree: Path, options: argparse.Namespace) -> None:
        self.name = name
        others = options.environment if name == "A" else {}
        path = os.pathsep.join([str(tree), *filter(None, [os.environ.get("PYTHONPATH")])])
        arguments = [sys.executable, __file__, "-", *options.names, "--worker", str(tree)]
        arguments += ["--threads", str(options.threads)]
        self.process = subprocess.Popen(
            arguments,
            env=limit_threads(
                {**os.environ, "PYTHONPATH": path, **others},
                options.threads,
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, name: str, *arguments: object) -> object:
        self.process.stdin.write(json.dumps([name, *arguments]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} ended with {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(f"{self.name}: {answer['error']}")
        return answer["result"]

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()


@dataclass
class Verdict:
    ratio: float
    low: float  # 95 % of what the median would be if it were measured again
    high: float

    @property
    def word(self) -> str:
        if self.low > 1 and self.ratio > 1 + LEAST:
            return "faster"
        if self.high < 1 and self.ratio < 1 - LEAST:
            return "slower"
        return "same" if self.high - self.low < 0.05 else "unclear"


def judge(sets: list[list[float]]) -> Verdict:
    """Of the ratios of pairs, a list for each pair of processes.

    The interval comes from drawing anew, sets first and then pairs in them.
    """
    draws = random.Random(0)
    medians = sorted(
        statistics.median(
            ratio
            for chosen in draws.choices(sets, k=len(sets))
            for ratio in draws.choices(chosen, k=len(chosen))
        )
        for _ in range(400)
    )
    ratio = statistics.median(r for one in sets for r in one)
    return Verdict(ratio, medians[10], medians[-11])


@dataclass
class Measured:
    """Of one row: ratios of pairs, a list for each pair of processes, and the samples of each."""

    sets: list[list[float]] = field(default_factory=list)
    samples: dict[str, list[float]] = field(default_factory=lambda: {"A": [], "B": []})


def measure_row(versions: tuple[Version, Version], seed: int, options: argparse.Namespace) -> dict:
    """Seconds of the turns of each version."""
    once = max(version("prepare", seed) for version in versions)
    count = max(1, int(options.seconds / BATCHES / max(once, 1e-7)))
    turns: dict[str, list[float]] = {"A": [], "B": []}
    for _ in range(options.rounds):
        for version in random.sample(versions, 2):
            turns[version.name].append(version("time", count))
    return turns


def measure(
    trees: dict[str, Path], options: argparse.Namespace
) -> tuple[dict[str, Measured], dict[str, str]]:
    """All rows by their names, and what failed."""
    measured: dict[str, Measured] = {}
    failed: dict[str, str] = {}
    for seed in range(options.sets):
        print(f"processes {seed + 1} of {options.sets}", end="\r", file=sys.stderr, flush=True)
        versions = tuple(Version(name, tree, options) for name, tree in trees.items())
        for benchmark in options.benchmarks:
            for version in versions:
                version("benchmark", benchmark)
            while True:
                try:
                    name, other = (version("next") for version in versions)
                except Failed as error:  # one of them does not know what the rows are about
                    failed[benchmark] = str(error)
                    break
                assert name == other, f"rows differ: {name} and {other}"
                if name is None:
                    break
                row = f"{benchmark}: {name}"
                try:
                    turns = measure_row(versions, seed, options)
                except Failed as error:
                    failed[row] = str(error)
                    continue
                one = measured.setdefault(row, Measured())
                one.sets.append([a / b for a, b in zip(turns["A"], turns["B"], strict=True)])
                for which, seconds in turns.items():
                    one.samples[which] += seconds
        for version in versions:
            version.end()
    return {row: one for row, one in measured.items() if row not in failed}, failed


def build(commit: str) -> Path:
    """The tree of a commit with its package built in it; `.` is this tree."""
    if commit == ".":
        return ROOT
    sha = git("rev-parse", "--verify", f"{commit}^{{commit}}")
    tree = ROOT / "build" / "ab" / sha[:12]
    if (tree / ".built").exists():
        return tree
    print(f"building {sha[:12]}", flush=True)
    if tree.exists():
        shutil.rmtree(tree)
    git("worktree", "prune")
    git("worktree", "add", "--detach", str(tree), sha)
    log = tree / "build.log"
    with log.open("w") as file:
        done = subprocess.run(
            [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
            cwd=tree,
            env={**os.environ, "TC_BUILD_DIR": str(tree / "build" / "cmake")},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    if done.returncode:
        sys.exit(f"{commit} does not build: see {log}")
    (tree / ".built").touch()
    return tree


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("commit", help="what this tree is compared with; . is itself")
    parser.add_argument("names", nargs="*", help="rows whose names contain one of these")
    parser.add_argument("--with", dest="other", metavar="COMMIT", help="in the place of this tree")
    parser.add_argument("--facts", help="COMMIT plans for a machine of these, as in TC_MACHINE")
    parser.add_argument(
        "--environment",
        nargs="+",
        default=[],
        type=lambda pair: pair.split("=", 1),
        metavar="NAME=VALUE",
        help="variables of COMMIT's processes",
    )
    parser.add_argument("--benchmarks", nargs="+", choices=BENCHMARKS, default=BENCHMARKS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sets", type=int, default=6, help="pairs of processes")
    parser.add_argument("--rounds", type=int, default=5, help="turns in each process")
    parser.add_argument("--seconds", type=float, default=0.02, help="of one turn")
    parser.add_argument("--save", action="store_true", help="keep the figures in results/")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if any(len(pair) < 2 for pair in options.environment):
        parser.error("--environment takes NAME=VALUE")
    options.environment = dict(options.environment)
    if options.facts:
        options.environment["TC_MACHINE"] = options.facts
    return options


def main() -> None:
    use_same_memory()
    options = arguments()
    if options.worker:
        work(options)
        return
    names = {"A": options.commit, "B": options.other or "this tree"}
    if options.environment:
        pairs = (f"{name}={value}" for name, value in options.environment.items())
        names["A"] += f" with {' '.join(pairs)}"
    trees = {"A": build(options.commit), "B": build(options.other) if options.other else ROOT}
    print(f"A is {names['A']}, B is {names['B']}: A's time over B's\n", flush=True)
    random.seed(0)
    measured, failed = measure(trees, options)
    comparisons, words = [], []
    for row, why in failed.items():
        print(f"{row:58s} FAILED {why}")
    for row, one in measured.items():
        verdict = judge(one.sets)
        words.append(verdict.word)
        timings = {which: timing(seconds) for which, seconds in one.samples.items()}
        print(
            f"{row:58s} {timings['A'].median * 1e6:10.1f} us "
            f"{timings['B'].median * 1e6:10.1f} us  ratio {verdict.ratio:.3f} "
            f"({verdict.low:.3f} to {verdict.high:.3f})  {verdict.word}"
        )
        comparisons.append(
            Comparison(
                row,
                options.threads,
                timings,
                verdict.ratio,
                timings["A"].median / timings["B"].median,
                notes={"low": verdict.low, "high": verdict.high, "verdict": verdict.word},
            )
        )
    if not comparisons:
        sys.exit("no rows")
    off = sorted(abs(c.ratio - 1) for c in comparisons)
    print(
        f"\n{len(comparisons)} rows: {words.count('faster')} faster, {words.count('slower')} "
        f"slower, {words.count('unclear')} unclear, {len(failed)} failed; geometric mean "
        f"{statistics.geometric_mean([c.ratio for c in comparisons]):.3f}; distance from 1: median "
        f"{100 * statistics.median(off):.1f} %, 95th percentile "
        f"{100 * off[min(len(off) - 1, int(0.95 * len(off)))]:.1f} %"
    )
    if options.save:
        print("saved", command.save("ab", comparisons, versions=names, failed=failed))
    sys.exit(2 if failed else 1 if "slower" in words else 0)


if __name__ == "__main__":
    main()
