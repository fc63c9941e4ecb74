"""What a call costs on four elements, one thread, interleaved.

python benchmarks/call_overhead.py [part of a name ...]

Our operators stand beside torch.add and beside a custom operator of torch.library whose body is
torch.add; once without gradients, once recorded for autograd. The last comparisons are of modules
of four layers, run as they are and under torch.compile, whose own cost of a call shows on four
elements.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import command
import torch
from harness import Comparison, Row, Rows

import tensor_comprehensions as tc

TEXT = """
def overhead_add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }
def overhead_layer(float(N, I) x, float(I, O) w) -> (y) { y(n, o) +=! x(n, i) * w(i, o) }
"""


@torch.library.custom_op("tc_overhead::add", mutates_args=())
def custom_add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b


custom_add.register_fake(lambda a, b: torch.empty_like(a))
custom_add.register_autograd(lambda ctx, gradient: (gradient, gradient))


class Layers(torch.nn.Module):
    """Four layers with parameters, and nothing between them whose own fusion would count."""

    def __init__(self, layer: Callable, *sizes: int) -> None:
        super().__init__()
        self.layer = layer
        self.weights = torch.nn.ParameterList(
            torch.randn(sizes) / sizes[0] ** 0.5 for _ in range(4)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            x = self.layer(x, weight)
        return x


class Residual(Layers):
    """The same with what commonly stands between layers, which torch.compile fuses."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            x = x + torch.nn.functional.gelu(self.layer(x, weight))
        return x


def step(module: torch.nn.Module, x: torch.Tensor) -> None:
    module(x).sum().backward()


def call() -> Row:
    t = tc.define(TEXT)
    a, b = torch.randn(4), torch.randn(4)
    packet, attribute = torch.ops.tc.overhead_add, t.overhead_add
    overload, derived = packet.default, tc.make_autograd(attribute)
    return Row(
        lambda: packet(a, b),
        lambda: {
            "torch.add": lambda: torch.add(a, b),
            "torch.library.custom_op": lambda: custom_add(a, b),
        },
        variants={
            "torch.ops.tc.f.default": lambda: overload(a, b),
            "T.f": lambda: attribute(a, b),
            "make_autograd(T.f)": lambda: derived(a, b),
        },
    )


def call_with_gradients() -> Row:
    derived = tc.make_autograd(tc.define(TEXT).overhead_add)
    x, y = torch.randn(4).requires_grad_(), torch.randn(4).requires_grad_()
    return Row(
        lambda: derived(x, y),
        lambda: {
            "torch.add": lambda: torch.add(x, y),
            "torch.library.custom_op": lambda: custom_add(x, y),
        },
    )


def layers(
    module: type[Layers], peer: str, layer: Callable, sizes: tuple, rows: int, back: bool
) -> Row:
    """Four layers of ours under torch.compile; beside them the same without it, and others' layers,
    whose own cost under torch.compile shows what is PyTorch's."""
    ours = module(tc.make_autograd(tc.define(TEXT).overhead_layer), *sizes)
    theirs = module(layer, *sizes)
    x = torch.randn(rows, sizes[0]) if len(sizes) == 2 else torch.randn(4)
    if len(sizes) == 1:
        ours = module(tc.make_autograd(tc.define(TEXT).overhead_add), *sizes)
    run = step if back else forward
    return Row(
        partial(run, torch.compile(ours, fullgraph=True), x),
        lambda: {"eager": partial(run, ours, x)},
        unrelated={
            peer: partial(run, theirs, x),
            f"{peer}, torch.compile": partial(run, torch.compile(theirs, fullgraph=True), x),
        },
    )


def forward(module: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return module(x)


def rows(options: argparse.Namespace) -> Rows:
    yield "call on 4 elements", call
    yield "call on 4 elements with gradients", call_with_gradients
    # What PyTorch calls as it is in both, so that the difference is torch.compile's.
    subjects = {
        "4": (Layers, "custom_op", custom_add, (4,), 1),
        "256 x 512": (Layers, "torch.mm", torch.mm, (512, 512), 256),
        "256 x 512 with gelu and residuals": (Residual, "torch.mm", torch.mm, (512, 512), 256),
    }
    for size, subject in subjects.items():
        yield f"four layers on {size}", partial(layers, *subject, back=False)
        yield f"four layers on {size}, and back", partial(layers, *subject, back=True)


def summary(comparisons: list[Comparison]) -> dict[str, object]:
    for c in comparisons:
        base = c.timings[c.best].minimum
        print(c.workload)
        for name, t in c.timings.items():
            print(
                f"  {name:32s} min {t.minimum * 1e6:8.2f} us  median {t.median * 1e6:8.2f} us  "
                f"over {c.best} {(t.minimum - base) * 1e6:+.2f} us"
            )
    return {}


def arguments() -> argparse.ArgumentParser:
    return command.parser(__doc__, rounds=40)


if __name__ == "__main__":
    command.main("call_overhead", rows, arguments(), summary)
