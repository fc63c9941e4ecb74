"""What a helper process does with candidates: compiles, runs, compares and times them.

Nothing here is trusted: a kernel may end the process, hang, or compute something else.
"""

from __future__ import annotations

import statistics
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tensor_comprehensions import _torch
from tensor_comprehensions._define import find_definition
from tensor_comprehensions._errors import CompilationError, TCError
from tensor_comprehensions._tuning import tensors
from tensor_comprehensions._tuning.channel import Channel, Closed
from tensor_comprehensions._tuning.comparison import difference

#: Seconds of the first measurement of a candidate, and of one in turns with the best so far: at
#: least, at most, and runs of a kernel that are enough between them. Minima of so few are within
#: some percent; what may win is measured again in the end.
_SHORT, _SHORT_RUNS = (0.002, 0.012), 8
_TURNS, _TURNS_RUNS = (0.008, 0.06), 36
#: Rounds of turns: at most, and of kernels that take long; seconds after which these end.
_ROUNDS, _LEAST_ROUNDS, _LONG = 6, 2, 0.12
#: A candidate whose first measurement is within this factor of the best is measured in turns; one
#: that is measured by its first run alone, within the other. It is not measured any further once it
#: is so far behind in turns.
_NEAR, _NEAR_AT_FIRST, _BEHIND = 1.1, 1.25, 1.04
#: What is too slow at first is run again, until it is not, for so many times that long and so many
#: seconds; once more where its first run is within those seconds or so many times the best.
_AGAIN, _AGAIN_SECONDS, _ONCE_MORE = 30.0, 0.05, 10.0
#: Bytes that a tensor is moved farther than the one before: whole lines, and no part of a page.
_DISPLACED = 448
#: Kernels of rivals that stay compiled.
_MOST_KEPT = 4


class Problem:
    """A definition with the arguments that it is tuned for, in a helper process."""

    def __init__(self, message: dict[str, Any], descriptors: Sequence[int]) -> None:
        self.definition = find_definition(message["source"], message["entry"])
        self.options = _torch.Options.parse(message["options"])
        self.target = message["target"]
        self.threads = message["threads"]
        self.outputs_described = message["outputs"]
        self.initial: list[torch.Tensor] = []
        self.reference: list[torch.Tensor] | None = None
        given = iter(tensors.read(message["tensors"], descriptors[0]))
        self.inputs = [next(given) if value is None else value for value in message["inputs"]]

    def set_reference(self, described: list[dict[str, Any]], descriptor: int) -> None:
        self.reference = tensors.read(described, descriptor)

    def on_device(self) -> list[Any]:
        """The inputs where they are computed with."""
        if not self.target.startswith("cuda"):
            return self.inputs
        return [
            value.to(self.outputs_described[0]["device"])
            if isinstance(value, torch.Tensor) and value.dim()
            else value
            for value in self.inputs
        ]


def summary(seconds: Sequence[float]) -> dict[str, Any]:
    """Minimum, median, spread (third quartile over first) and number of runs."""
    if len(seconds) < 2:
        only = seconds[0]
        return {"minimum": only, "median": only, "spread": 1.0, "runs": 1}
    low, middle, high = statistics.quantiles(seconds, n=4)
    return {
        "minimum": min(seconds),
        "median": middle,
        "spread": high / low if low > 0 else 1.0,
        "runs": len(seconds),
    }


def _between(bounds: tuple[float, float], value: float) -> float:
    return min(max(value, bounds[0]), bounds[1])


def shortest_at_first(first: float, run: Callable[[], float], slow: float, best: float) -> float:
    """The first run of a candidate, or the shortest of some more where that took too long.

    A library makes plans of its own in the first run, and threads wait where others run. Neither
    makes a kernel that takes long so many times longer, and runs of those are what a search has
    least time for.
    """
    shortest = spent = first
    again = first < max(_AGAIN_SECONDS, _ONCE_MORE * best)
    while shortest > slow and (again or spent < min(_AGAIN * slow, _AGAIN_SECONDS)):
        again = False
        seconds = run()
        spent += seconds
        shortest = min(shortest, seconds)
    return shortest


class Worker:
    """Candidates of one problem, one after the other."""

    def __init__(self, problem: Problem, channel: Channel) -> None:
        torch.set_num_threads(problem.threads)
        self._problem = problem
        self._channel = channel
        self._inputs = problem.on_device()
        self._outputs = [self._allocate(found) for found in problem.outputs_described]
        self._on_processor = problem.threads == 1 and not problem.target.startswith("cuda")
        self._kept: OrderedDict[str, _torch.Trial] = OrderedDict()

    def _allocate(self, described: dict[str, Any]) -> torch.Tensor:
        made = tensors.make(described)
        if not self._problem.target.startswith("cuda"):
            return made
        device = described["device"]
        return torch.empty_strided(made.shape, made.stride(), dtype=made.dtype, device=device)

    def _compile(self, options: _torch.Options, final: bool = False) -> _torch.Trial:
        problem = self._problem
        return _torch.Trial(
            problem.definition, options, problem.target, self._inputs, self._outputs, final
        )

    def _find(self, plan: str) -> _torch.Trial:
        """The kernel of a Plan that others are compared with."""
        if plan not in self._kept:
            self._keep(plan, self._compile(_torch.Options.parse(plan)))
        self._kept.move_to_end(plan)
        return self._kept[plan]

    def _keep(self, plan: str, trial: _torch.Trial) -> None:
        self._kept[plan] = trial
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)

    def _begin(self) -> None:
        """What is not written stays conspicuous; what is added to begins the same every time."""
        generator = torch.Generator().manual_seed(0)
        for info, output in zip(self._problem.definition.outputs, self._outputs, strict=True):
            if not output.numel():
                continue
            if info.accumulates:
                start = torch.rand(output.shape, generator=generator, dtype=torch.float64)
                output.copy_((start * 4).to(output.dtype))
            elif output.dtype.is_floating_point:
                output.fill_(float("nan"))
            else:
                output.fill_(True if output.dtype == torch.bool else 85)

    def _measure(self, trials: list[_torch.Trial], rounds: int, seconds: float) -> list[Any]:
        return list(_torch.interleave(trials, rounds, seconds / rounds, self._on_processor))

    def _run(self, trial: _torch.Trial) -> float:
        """Seconds of one run, by the clock that all measurements are made by."""
        return float(self._measure([trial], 1, 0.0)[0][0])

    # ---- what is asked for

    def baseline(self, _: dict[str, Any]) -> None:
        """The definition as the compiler runs it: its Plan, results and times."""
        begin = time.perf_counter()
        try:
            trial = self._compile(self._problem.options, final=True)
            plan = trial.text("options")
            self._kept[plan] = trial
            compiled = time.perf_counter() - begin
            self._begin()
            first = trial.run()
        except TCError as error:
            return self._channel.send({"error": type(error).__name__, "reason": str(error)})
        results = [output.detach().cpu() for output in self._outputs]
        described, descriptor = tensors.write(results)
        samples = self._measure([trial], 3, _TURNS[1])[0]
        self._channel.send(
            {
                "plan": plan,
                "first": first,
                "compile": compiled,
                "times": summary(samples),
                "reference": described,
            },
            (descriptor,),
        )
        return None

    def attempt(self, message: dict[str, Any]) -> None:
        """One candidate, up to its times; another process decides when to measure."""
        begin, processor_begin = time.perf_counter(), time.process_time()
        try:
            trial = self._compile(_torch.Options.parse(message["plan"]))
        except CompilationError as error:
            return self._channel.send({"status": "illegal", "reason": str(error)})
        except TCError as error:
            return self._channel.send({"status": "failed", "reason": str(error)})
        compiled = time.perf_counter() - begin
        # Seconds of the clock depend on who else compiles.
        processor = time.process_time() - processor_begin
        # Now, since while it is measured others may stand still, and it has less time.
        rival = self._find(message["rival"])
        self._channel.send({"status": "compiled", "compile": compiled})
        self._channel.receive()
        self._begin()
        first = self._run(trial)
        report: dict[str, Any] = {"compile": compiled, "processor": processor, "first": first}
        wrong = self._compare()
        if wrong is not None:
            self._channel.send({"status": "wrong", "reason": wrong, **report})
            raise Closed("memory may be damaged")
        best = message["best"]
        first = shortest_at_first(first, lambda: self._run(trial), message["slow"], best)
        if first > message["slow"]:
            return self._channel.send({"status": "slow", **report, "times": summary([first])})
        near, samples = _NEAR_AT_FIRST, [first]
        if first < _SHORT[1]:
            near = _NEAR
            samples = self._measure([trial], 1, _between(_SHORT, _SHORT_RUNS * first))[0]
        times = summary(samples)
        ratio = None
        if times["minimum"] < near * best:
            own, other = self._take_turns(trial, rival, times["minimum"])
            times = summary(own)
            ratio = times["minimum"] / summary(other)["minimum"]
            if ratio < 1:  # the next rival, perhaps
                self._keep(message["plan"], trial)
        self._channel.send({"status": "measured", **report, "times": times, "ratio": ratio})
        return None

    def _take_turns(
        self, trial: _torch.Trial, rival: _torch.Trial, seconds: float
    ) -> tuple[list[float], list[float]]:
        """Times of a candidate, which takes about so long, and of what it has to be faster than."""
        own: list[float] = []
        other: list[float] = []
        share = _between(_TURNS, _TURNS_RUNS * seconds) / _ROUNDS
        for number in range(_ROUNDS):
            turns = [(trial, own), (rival, other)]
            if number % 2:
                turns.reverse()
            for (_, times), samples in zip(
                turns, self._measure([each for each, _ in turns], 1, share), strict=True
            ):
                times += samples
            if number + 1 >= _LEAST_ROUNDS and (
                sum(own) + sum(other) > _LONG or min(own) > _BEHIND * min(other)
            ):
                break
        return own, other

    def _compare(self) -> str | None:
        assert self._problem.reference is not None
        for info, output, wanted in zip(
            self._problem.definition.outputs, self._outputs, self._problem.reference, strict=True
        ):
            wrong = difference(output.cpu(), wanted)
            if wrong is not None:
                return f"{info.name}: {wrong}"
        return None

    def final(self, message: dict[str, Any]) -> None:
        """Times of some Plans, measured in turns: with the tensors where they are and, in another
        place, elsewhere."""
        times = [self._time_in_turns(message)]
        if message["places"] > 1 and not self._problem.target.startswith("cuda"):
            self._displace()
            times.append(self._time_in_turns(message))
        self._channel.send({"times": times})

    def _time_in_turns(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        trials = []
        for plan in message["plans"]:
            trials.append(self._compile(_torch.Options.parse(plan), final=True))
            self._begin()
            trials[-1].run()
            # A trial may be other code than what it stands for.
            if self._compare() is not None:
                raise Closed("another result")
        samples = self._measure(trials, message["rounds"], message["seconds"])
        return [summary(each) for each in samples]

    def _displace(self) -> None:
        """Moves tensors to other places in their pages. How results and operands lie to each other
        there makes a kernel up to 15 % slower, and another one not."""
        moved: list[Any] = [*self._inputs, *self._outputs]
        for number, value in enumerate(moved):
            if isinstance(value, torch.Tensor):
                moved[number] = tensors.copy(value, _DISPLACED * (number + 1))
        self._inputs, self._outputs = moved[: len(self._inputs)], moved[len(self._inputs) :]

    def serve(self) -> None:
        actions = {"baseline": self.baseline, "try": self.attempt, "final": self.final}
        while True:
            message, _ = self._channel.receive()
            actions[message["do"]](message)
