"""The helper process that says which candidates to try."""

from __future__ import annotations

from typing import Any

import torch

from tensor_comprehensions import _torch
from tensor_comprehensions._tuning import tensors
from tensor_comprehensions._tuning.channel import Channel
from tensor_comprehensions._tuning.strategies import STRATEGIES, Strategy
from tensor_comprehensions._tuning.worker import Problem


class Planner:
    """A search strategy, by messages."""

    def __init__(self, problem: Problem, channel: Channel) -> None:
        torch.set_num_threads(problem.threads)
        self._problem = problem
        self._channel = channel
        self._strategy: Strategy | None = None

    def start(self, message: dict[str, Any]) -> None:
        problem = self._problem
        outputs = [tensors.make(found) for found in problem.outputs_described]
        space = _torch.Space(
            problem.definition,
            problem.options,
            problem.target,
            problem.inputs,
            outputs,
            _torch.Options.parse(message["first"]),
        )
        config = message["config"]
        self._strategy = STRATEGIES[config["strategy"]](space, config)
        for plan, ratio in message["known"]:
            self._strategy.know(plan, ratio)
        self._strategy.begin(message["plans"])
        self._channel.send({"started": True})

    def next(self, message: dict[str, Any]) -> None:
        assert self._strategy is not None
        for result in message["results"]:
            self._strategy.know(*result)
        found = self._strategy.next(message["count"])
        self._channel.send(
            {
                "candidates": [each.options for each in found],
                "illegal": self._strategy.illegal,
                "exhausted": self._strategy.exhausted,
            }
        )

    def serve(self) -> None:
        actions = {"start": self.start, "next": self.next}
        while True:
            message, _ = self._channel.receive()
            actions[message["do"]](message)
