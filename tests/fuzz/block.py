"""Runs a block of random programs of one kind, in a process of its own.

`python tests/fuzz/block.py KIND FIRST COUNT FILE [SECONDS]` writes a line of JSON to FILE for every
seed that it comes to and every one that fails, and in the end what was counted, with what the
passes of the compiler did. Kernels stay in memory for as long as their process, and a crash ends no
more than a block: `run_block` starts this, and goes on behind what it crashed at.
"""

from __future__ import annotations

import json
import logging
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

#: After how many seconds of work a program hangs, and after how many by the clock one that does
#: nothing: fewer than a test has.
HANGS, WAITS = 60, 200


@dataclass
class Passes:
    """The passes of all lists, with how often each changed something, and how often it ran."""

    lists: dict[str, list[str]] = field(default_factory=dict)
    fired: Counter[str] = field(default_factory=Counter)
    ran: Counter[str] = field(default_factory=Counter)
    milliseconds: Counter[str] = field(default_factory=Counter)

    def add(self, other: Passes) -> None:
        self.lists.update(other.lists)
        self.fired.update(other.fired)
        self.ran.update(other.ran)
        self.milliseconds.update(other.milliseconds)

    def names(self) -> list[str]:
        return [f"{name}.{each}" for name, all_ in sorted(self.lists.items()) for each in all_]


@dataclass
class Block:
    """What became of one."""

    kind: str
    counts: Counter[str] = field(default_factory=Counter)
    passes: Passes = field(default_factory=Passes)
    failures: dict[int, str] = field(default_factory=dict)
    done: int = 0  # programs
    seconds: float = 0  # of work


class Recorder(logging.Handler):
    """Reads what TC_LOGS=passes says."""

    _RUN = re.compile(r"passes: ([\w.]+): (changed|same), ([\d.]+) ms")
    _LIST = re.compile(r"passes: list (\w+): (.*)")

    def __init__(self, passes: Passes) -> None:
        super().__init__()
        self.passes = passes

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if run := self._RUN.fullmatch(message):
            self.passes.ran[run[1]] += 1
            self.passes.fired[run[1]] += run[2] == "changed"
            self.passes.milliseconds[run[1]] += float(run[3])
        elif names := self._LIST.fullmatch(message):
            self.passes.lists[names[1]] = names[2].split(", ")


def run_block(kind: str, first: int, count: int, folder: Path, seconds: float = 1e9) -> Block:
    """In other processes, until all programs are done or so much time is over."""
    block = Block(kind)
    end = time.monotonic() + seconds
    at, last = first, first + count
    while at < last and time.monotonic() < end:
        file = folder / f"{kind.replace(' ', '_')}-{at}.json"
        left = str(max(1.0, end - time.monotonic()))
        command = [sys.executable, __file__, kind, str(at), str(last - at), str(file), left]
        status = run_while_it_works(command)
        before = block.done
        if read_lines(file, block):
            break
        at = first + block.done  # behind the one that it ended at
        hung = -status in (signal.SIGPROF, signal.SIGALRM)
        said = "did not end" if hung else f"ended its process with {status}"
        if block.done == before:
            raise RuntimeError(f"{' '.join(command)}: {said} before its first program")
        block.failures[at - 1] = said
    return block


def run_while_it_works(command: list[str]) -> int:
    """The status of a process, which is ended where it waits for ever."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    worked, since = 0, time.monotonic()
    while True:
        try:
            return process.wait(timeout=WAITS / 20)
        except subprocess.TimeoutExpired:
            found = ticks(process.pid)
            if found != worked:
                worked, since = found, time.monotonic()
            elif time.monotonic() - since > WAITS:
                process.send_signal(signal.SIGALRM)


def ticks(pid: int) -> int:
    """The processor time of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15]))


def read_lines(file: Path, block: Block) -> bool:
    """Adds what was written; whether the process came to its end."""
    for line in file.read_text().splitlines() if file.exists() else []:
        said = json.loads(line)
        if "at" in said:
            block.done += 1
        elif "failed" in said:
            block.failures[said["failed"]] = said["message"]
        else:
            block.counts.update(said["counts"])
            passes = said["passes"]
            block.passes.add(
                Passes(
                    passes["lists"],
                    Counter(passes["fired"]),
                    Counter(passes["ran"]),
                    Counter(passes["milliseconds"]),
                )
            )
            block.seconds += said["seconds"]
            return True
    return False


def break_down(seed: int) -> None:
    """For a test of this file: TC_FUZZ_BREAK has seeds with what becomes of them, as "7:fails"."""
    breaks = dict(each.split(":") for each in os.environ.get("TC_FUZZ_BREAK", "").split())
    how = breaks.get(str(seed), "")
    assert how != "fails", "told to fail"
    if how == "crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "waits":
        signal.pause()


def main(kind: str, first: int, count: int, file: str, seconds: float = 1e9) -> None:
    # As in tests/conftest.py.
    os.environ.setdefault("TC_MACHINE", "library_rate=1")
    os.environ["TC_LOGS"] = "passes"
    sys.path.append(str(Path(__file__).parents[1]))
    from kinds import ALL_KINDS

    passes = Passes()
    logger = logging.getLogger("tensor_comprehensions")
    logger.handlers[:] = [Recorder(passes)]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    chosen = ALL_KINDS[kind]
    counts: Counter[str] = Counter()
    end = time.monotonic() + seconds
    with open(file, "w", buffering=1) as out:
        for seed in range(first, first + count):
            if time.monotonic() > end:
                break
            out.write(json.dumps({"at": seed}) + "\n")
            signal.setitimer(signal.ITIMER_PROF, HANGS)
            program: object = ""
            try:
                break_down(seed)
                program = chosen.make(seed)
                counts.update(chosen.check(program))
            except Exception as error:
                notes = "\n".join(getattr(error, "__notes__", []))
                message = f"{type(error).__name__}: {error}\n{notes}\n{program}"
                out.write(json.dumps({"failed": seed, "message": message}) + "\n")
        signal.setitimer(signal.ITIMER_PROF, 0)
        used = resource.getrusage(resource.RUSAGE_SELF)
        out.write(
            json.dumps(
                {
                    "counts": counts,
                    "passes": vars(passes),
                    "seconds": used.ru_utime + used.ru_stime,
                }
            )
            + "\n"
        )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], *map(float, sys.argv[5:]))
