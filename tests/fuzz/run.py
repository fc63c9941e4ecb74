"""Runs new random programs: `make fuzz`, or `python tests/fuzz/run.py --minutes 10`.

Seeds are drawn from the clock, and printed; with `--seed` they are those of another run. Kinds take
turns, a block of programs each, until the time is over or every kind has had so many `--programs`.
What fails is printed with its seed and, where it is a program, shrunk; so is a kind whose programs
tested little. The exit status says whether anything did.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from block import Block, Passes, run_block

BLOCK = 50
# Seconds for making a failure smaller, and how many are made smaller.
SHRINK, MOST_SHRUNK = 120, 10
#: Seeds that the clock gives do not come near those of CI for a long time.
FIRST_DRAWN = 10**9


def draw_seed() -> int:
    """Another one every second; blocks of a run are far shorter than the next run is away."""
    return FIRST_DRAWN + int(time.time()) % 10**8 * 1000


def blocks(kinds: list[str], seed: int, programs: int) -> Iterator[tuple[str, int, int]]:
    for start in range(0, programs, BLOCK):
        for kind in kinds:
            yield kind, seed + start, min(BLOCK, programs - start)


def shrunk(kind: str, seed: int) -> str:
    """Where the program of the seed is one that can be made smaller."""
    from cases import Case
    from kinds import ALL_KINDS
    from shrink import shrink

    chosen = ALL_KINDS[kind]
    program = chosen.make(seed)
    if not isinstance(program, Case):
        return str(program)
    smallest, why = shrink(program, SHRINK, chosen.check)
    return f"{smallest}\n{why}"


def run(kinds: list[str], seed: int, programs: int, minutes: float, jobs: int) -> int:
    """The number of failures, kinds that tested little among them."""
    end = time.monotonic() + 60 * minutes
    done: Counter[str] = Counter()
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    failures: list[tuple[str, int]] = []
    passes = Passes()
    waiting = blocks(kinds, seed, programs)

    def take(finished: Future[Block]) -> None:
        block = finished.result()
        done[block.kind] += block.done
        counts[block.kind] += block.counts
        passes.add(block.passes)
        for failed, message in block.failures.items():
            failures.append((block.kind, failed))
            print(f"---- {block.kind}, seed {failed}: {message}", flush=True)

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        running: set[Future[Block]] = set()
        while True:
            left = end - time.monotonic()
            while len(running) < jobs and left > 0 and (work := next(waiting, None)):
                running.add(pool.submit(run_block, *work, Path(folder), left))
            if not running:
                break
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for each in ended:
                take(each)
    for kind, failed in failures[:MOST_SHRUNK]:
        print(f"---- {kind}, seed {failed}, made smaller:\n{shrunk(kind, failed)}", flush=True)
    print(f"{sum(done.values())} programs from {seed}: {dict(done)}")
    for kind, counted in counts.items():
        print(f"  {kind}: {dict(counted)}")
    empty = that_tested_little(done, counts) if not failures else []
    for kind in empty:
        print(f"---- {kind}: its programs tested little, {dict(counts[kind])}")
    never = [name for name in passes.names() if not passes.fired[name]]
    print(f"passes that changed nothing: {', '.join(never) or 'none'}")
    print(
        f"{len(failures)} failures: {', '.join(f'{kind} {at}' for kind, at in failures) or 'none'}"
    )
    return len(failures) + len(empty)


def that_tested_little(done: Counter[str], counts: dict[str, Counter[str]]) -> list[str]:
    """Kinds of which a block or more ran, but whose counts are not those of programs that test."""
    from kinds import ALL_KINDS

    found = []
    for kind, programs in done.items():
        try:
            if programs >= ALL_KINDS[kind].block:
                ALL_KINDS[kind].enough(counts[kind], programs)
        except AssertionError:
            found.append(kind)
    return found


def main() -> int:
    # As in tests/conftest.py.
    os.environ.setdefault("TC_MACHINE", "library_rate=1")
    from kinds import ALL_KINDS, GPU_KINDS, KINDS

    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--programs", type=int, default=10**6, help="of every kind, at most")
    parser.add_argument("--seed", type=int, default=None, help="drawn from the clock by default")
    kinds_help = f"{', '.join(KINDS)}; with a GPU {', '.join(GPU_KINDS)}"
    parser.add_argument("--kinds", default=",".join(KINDS), help=kinds_help)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    given = parser.parse_args()
    kinds = [kind.strip() for kind in given.kinds.split(",")]
    if unknown := [kind for kind in kinds if kind not in ALL_KINDS]:
        parser.error(f"there is no kind {unknown[0]!r}; there are {', '.join(ALL_KINDS)}")
    seed = draw_seed() if given.seed is None else given.seed
    print(f"seeds from {seed} on, for {given.minutes:g} minutes at most", flush=True)
    return min(1, run(kinds, seed, given.programs, given.minutes, given.jobs))


if __name__ == "__main__":
    raise SystemExit(main())
