"""The processes in which candidates run.

A server, which has this package loaded, forks a job for every definition that is tuned; the job has
the inputs and forks workers, one after the other as these end. Forking is quick, and copies nothing
that nobody writes to. No process but the workers runs kernels or plans, so that none but these
ends or hangs. Each ends when who asked for it is gone.
"""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

from tensor_comprehensions._tuning.channel import Channel, Closed

_PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _fork(child: Callable[[], None], closed: tuple[Channel, ...]) -> int:
    """A process that does something and ends, whatever happens to it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of compilations have ended
        pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        _end_with_parent()
        for channel in closed:
            channel.close()
        child()
        status = 0
    except (Closed, KeyboardInterrupt):
        status = 0
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        os._exit(status)


class Job:
    """The inputs of a definition, and the processes that have them."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._children: dict[int, int] = {}  # by number, the process
        self._problem: Any = None

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        actions = {
            "load": self._load,
            "reference": self._take_reference,
            "fork": self._fork_child,
            "end": self._end_child,
        }
        while True:
            message, descriptors = self._channel.receive()
            answer = actions[message["do"]](message, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            self._channel.send(answer)

    def _load(self, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        import torch

        from tensor_comprehensions._tuning.worker import Problem

        # The tuning process may have changed these since it started the server.
        for name in [name for name in os.environ if name.startswith("TC_")]:
            del os.environ[name]
        os.environ.update(message["environment"])
        # Only the core is to know; what helpers do themselves is no matter.
        torch.use_deterministic_algorithms(message["deterministic"], warn_only=True)
        self._problem = Problem(message, descriptors)
        return {}

    def _take_reference(self, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        self._problem.set_reference(message["tensors"], descriptors[0])
        return {}

    def _fork_child(self, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        channel = Channel.of(os.dup(descriptors[0]))
        serve = self._roles()[message["role"]]
        pid = _fork(lambda: serve(channel), (self._channel,))
        channel.close()
        self._children[message["number"]] = pid
        return {"pid": pid}

    def _roles(self) -> dict[str, Callable[[Channel], None]]:
        def work(channel: Channel) -> None:
            from tensor_comprehensions._tuning.worker import Worker

            Worker(self._problem, channel).serve()

        def plan(channel: Channel) -> None:
            from tensor_comprehensions._tuning.planner import Planner

            Planner(self._problem, channel).serve()

        return {"worker": work, "planner": plan}

    def _end_child(self, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Ends a child that has not ended yet; how it did."""
        pid = self._children.pop(message["number"])
        ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:
            if message["kill"] or not _ends_soon(pid):
                os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
        return {"status": os.waitstatus_to_exitcode(status)}


def _ends_soon(pid: int) -> bool:
    """Waits a little for a process that has closed its channel."""
    descriptor = os.pidfd_open(pid)
    try:
        return bool(select.select([descriptor], [], [], 1.0)[0])
    finally:
        os.close(descriptor)


def _warm_up() -> None:
    """What children then need not do: LLVM takes 0.4 seconds to begin with, the learner 0.8."""
    import torch

    import tensor_comprehensions as tc
    from tensor_comprehensions._tuning.learner import has_learner

    torch.set_num_threads(1)  # no team of threads, which children would miss
    x = torch.zeros(4)
    tc.compile("def warm(float(N) x) -> (y) { y(i) = x(i) + 1 }", "warm", None, x)
    has_learner()
    # What is there already is never garbage, and stays shared with the children.
    gc.freeze()


def main(descriptor: int) -> None:
    channel = Channel.of(descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for jobs
    _warm_up()
    try:
        channel.send({"ready": True})
        while True:
            _, descriptors = channel.receive()
            own = Channel.of(descriptors[0])
            _fork(lambda own=own: Job(own).serve(), (channel,))  # type: ignore[misc]
            own.close()
    except Closed:
        os._exit(0)
