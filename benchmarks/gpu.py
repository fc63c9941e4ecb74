"""The measured texts of the papers on a GPU against ATen and torch.compile.

Our own kernels with default options: no tuning, no library call. Every text has two rows: calls as
a program makes them, one after the other, and replays of the CUDA graph of one call, which leave
out what the host does for it. A time is that until the device has ended all calls of a round, over
their number. Products are those of single precision for all: TF32 is off.

python benchmarks/gpu.py [part of a name ...] [--autotune] [--rounds 7]
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import command
import torch
from cases import CASES, Case
from harness import Candidate, Row, Rows, tensors
from peers import torch_peers

import tensor_comprehensions as tc


def clock() -> float:
    """Seconds, when the device has ended what it was given."""
    torch.cuda.synchronize()
    return time.perf_counter()


@dataclass
class Recorded:
    """Replays of one call, whose inputs it keeps, with the results that it had."""

    call: Candidate
    graph: torch.cuda.CUDAGraph
    results: tuple[torch.Tensor, ...]

    def __call__(self) -> object:
        self.graph.replay()
        return self.results


def recorded(call: Candidate) -> Recorded:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = tensors(call())
    return Recorded(call, graph, results)


def candidates(
    index: int, case: Case, values: tuple, options: argparse.Namespace
) -> dict[str, Candidate]:
    """Ours first."""
    mapping = tc.MappingOptions().matchLibraryCalls(False)
    operator = getattr(tc.define(case.text, mapping, namespace=f"tc_gpu_{index}"), case.entry)
    found: dict[str, Candidate] = {"ours": lambda: operator(*values)}
    functions = {"torch": case.reference, **case.alternatives}
    return found | torch_peers(functions, values, (), options.compiled, options.autotune)


def row(calls: dict[str, Candidate], case: Case) -> Row:
    peers = {name: call for name, call in calls.items() if name != "ours"}
    return Row(calls["ours"], lambda: peers, notes={"figure": case.figure}, clock=clock)


def rows(options: argparse.Namespace) -> Rows:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for index, case in enumerate(CASES):
        made: list[dict[str, Candidate]] = []

        def prepared(index: int = index, case: Case = case, made: list = made) -> dict:
            if not made:
                inputs = case.inputs()
                values = tuple(x.cuda() if isinstance(x, torch.Tensor) else x for x in inputs)
                made.append(candidates(index, case, values, options))
            return made[0]

        def called(case: Case = case, prepared: Callable = prepared) -> Row:
            return row(prepared(), case)

        def replayed(case: Case = case, prepared: Callable = prepared, made: list = made) -> Row:
            calls = {name: recorded(call) for name, call in prepared().items()}
            made.clear()
            return row(calls, case)

        steps: tuple[tuple[str, Callable[[], Row]], ...] = (("calls", called), ("graph", replayed))
        for kind, make in steps:
            yield f"{case.name}, {kind}", make


def gpu_label() -> str:
    """As "nvidia-h100"."""
    name = re.sub(r"[^a-z0-9]+", "-", torch.cuda.get_device_name().lower())
    return "-".join(name.split("-")[:2])


def arguments() -> argparse.ArgumentParser:
    parser = command.parser(__doc__)
    parser.set_defaults(round_seconds=0.1)
    parser.add_argument(
        "--autotune", action="store_true", help="also torch.compile in the mode max-autotune"
    )
    return parser


if __name__ == "__main__":
    command.main("gpu", rows, arguments(), machine=gpu_label)
