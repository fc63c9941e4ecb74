"""The tuning process's side of its helpers."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensor_comprehensions._errors import TCError
from tensor_comprehensions._logging import logger
from tensor_comprehensions._tuning.channel import Channel, Closed

#: Seconds that a server may take until it is there: it loads PyTorch.
_START = 120.0
#: Seconds between two looks at signals and at what takes too long.
_TICK = 0.05

#: Signals that are for the tuning process end no helper, also those that a whole tree of processes
#: gets: helpers end with their channels. PyTorch takes seconds to load, so this comes first.
_BEGIN = """
import json, signal, sys
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
sys.path[:] = json.loads(sys.argv[1])
from tensor_comprehensions._tuning.server import main
main(int(sys.argv[2]))
"""


class Server:
    """The process that forks jobs. One for this process, as long as it tunes."""

    _lock = threading.Lock()
    _only: Server | None = None

    @classmethod
    def get(cls) -> Server:
        with cls._lock:
            if cls._only is None or not cls._only.is_alive():
                cls._only = cls()
            return cls._only

    def __init__(self) -> None:
        own, other = Channel.pair()
        # Python passes over entries that are no strings, as paths of pathlib.
        folders = [entry for entry in sys.path if isinstance(entry, str)]
        quiet = None if logger.isEnabledFor(10) else subprocess.DEVNULL
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BEGIN, json.dumps(folders), str(other.fileno())],
            pass_fds=(other.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=quiet,
            start_new_session=True,  # Ctrl-C is this process's
            env={**os.environ, "TC_LOGS": ""},
        )
        other.close()
        self._channel = own
        self._owner = os.getpid()
        self._requests = threading.Lock()
        self._ready = False
        atexit.register(self.close)

    def is_alive(self) -> bool:
        return self._owner == os.getpid() and self._process.poll() is None

    def close(self) -> None:
        if self._owner != os.getpid():
            return
        self._channel.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
            return
        self._process.kill()
        self._process.wait()

    def job(self) -> Job:
        with self._requests:
            own, other = Channel.pair()
            try:
                if not self._ready:
                    _receive(self._channel, _START)
                    self._ready = True
                self._channel.send({"do": "job"}, (other.fileno(),))
            except Closed as error:
                raise TCError(
                    f"the process in which candidates run could not be started: {error}; it ended "
                    f"with {self._process.poll()}; logging at level DEBUG shows what it writes"
                ) from error
            finally:
                other.close()
            return Job(own)


def _receive(
    channel: Channel, seconds: float, stops: Callable[[], bool] | None = None
) -> tuple[dict[str, Any], list[int]]:
    """An answer. Closed where there is none in that time, or where ``stops`` says that nobody waits
    for it any more."""
    deadline = time.monotonic() + seconds
    step = 60.0 if stops is None else _TICK
    while not select.select([channel], [], [], min(step, max(0.0, deadline - time.monotonic())))[0]:
        if time.monotonic() >= deadline:
            raise Closed(f"it does not answer within {seconds:g} seconds")
        if stops is not None and stops():
            raise Closed("a signal came before its answer")
    return channel.receive()


class Child:
    """A worker or planner, by its channel."""

    def __init__(self, job: Job, role: str, number: int) -> None:
        self._job = job
        self.number = number
        own, other = Channel.pair()
        try:
            self.pid = job.ask({"do": "fork", "role": role, "number": number}, (other.fileno(),))[
                "pid"
            ]
        finally:
            other.close()
        self.channel = own

    def fileno(self) -> int:
        return self.channel.fileno()

    def stop(self, stopped: bool) -> None:
        """Lets it stand still, or go on. Its process is there until `end`."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGSTOP if stopped else signal.SIGCONT)

    def processor_seconds(self) -> float:
        """What its threads ran so far, together."""
        try:
            # Behind the name, which may have blanks and parentheses: proc(5), fields 14 and 15.
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self, kill: bool) -> str:
        """How it ended; with `kill` at once."""
        self.stop(False)
        self.channel.close()
        status = self._job.ask({"do": "end", "number": self.number, "kill": kill})["status"]
        if status >= 0:
            return f"ended with {status}"
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return f"was ended by {name}"


class Job:
    """The process that has the inputs of one definition."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._children = 0

    def ask(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> dict[str, Any]:
        self._channel.send(message, descriptors)
        return _receive(self._channel, _START)[0]

    def load(self, problem: dict[str, Any], descriptor: int) -> None:
        self.ask({"do": "load", **problem}, (descriptor,))

    def set_reference(self, tensors: list[Any], descriptor: int) -> None:
        self.ask({"do": "reference", "tensors": tensors}, (descriptor,))

    def fork(self, role: str) -> Child:
        self._children += 1
        return Child(self, role, self._children)

    def close(self) -> None:
        """Ends it with all its children."""
        self._channel.close()
