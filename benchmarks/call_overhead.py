"""What a call costs on four elements, one thread, interleaved.

python benchmarks/call_overhead.py

Our operators stand beside torch.add and beside a custom operator of torch.library whose body is
torch.add; once without gradients, once recorded for autograd. The last comparisons are of modules
of four layers, run as they are and under torch.compile, whose own cost of a call shows on four
elements.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from harness import Comparison, interleave, save, use_same_memory

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


def compare(name: str, functions: dict[str, object], peer: str, mine: str) -> Comparison:
    timings = interleave(functions, rounds=40, round_seconds=0.05)
    base = timings[peer]
    print(name)
    for label, t in timings.items():
        extra = (t.minimum - base.minimum) * 1e6
        print(
            f"  {label:32s} min {t.minimum * 1e6:6.2f} us  median {t.median * 1e6:6.2f} us  "
            f"over {peer} {extra:+.2f} us"
        )
    ours = timings[mine]
    return Comparison(name, 1, timings, base.minimum / ours.minimum, base.median / ours.median)


class Residual(Layers):
    """The same with what commonly stands between layers, which torch.compile fuses."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            x = x + torch.nn.functional.gelu(self.layer(x, weight))
        return x


def step(module: torch.nn.Module, x: torch.Tensor) -> None:
    module(x).sum().backward()


def main() -> None:
    use_same_memory()
    torch.set_num_threads(1)
    t = tc.define(TEXT)
    a, b = torch.randn(4), torch.randn(4)
    packet, overload, attribute = (
        torch.ops.tc.overhead_add,
        torch.ops.tc.overhead_add.default,
        t.overhead_add,
    )
    derived = tc.make_autograd(attribute)
    x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
    comparisons = [
        compare(
            "call on 4 elements",
            {
                "torch.add": lambda: torch.add(a, b),
                "torch.ops.tc.f": lambda: packet(a, b),
                "torch.ops.tc.f.default": lambda: overload(a, b),
                "T.f": lambda: attribute(a, b),
                "make_autograd(T.f)": lambda: derived(a, b),
                "torch.library.custom_op": lambda: custom_add(a, b),
            },
            "torch.add",
            "torch.ops.tc.f",
        ),
        compare(
            "call on 4 elements with gradients",
            {
                "torch.add": lambda: torch.add(x, y),
                "make_autograd(T.f)": lambda: derived(x, y),
                "torch.library.custom_op": lambda: custom_add(x, y),
            },
            "torch.add",
            "make_autograd(T.f)",
        ),
    ]
    layer = tc.make_autograd(t.overhead_layer)
    small = Layers(derived, 4), "custom_op", Layers(custom_add, 4), a
    # What PyTorch calls as it is in both, so that the difference is torch.compile's.
    large = Layers(layer, 512, 512), "torch.mm", Layers(torch.mm, 512, 512), torch.randn(256, 512)
    between = (
        *(Residual(layer, 512, 512), "torch.mm", Residual(torch.mm, 512, 512)),
        torch.randn(256, 512),
    )
    subjects = {"4": small, "256 x 512": large, "256 x 512 with gelu and residuals": between}
    for size, (ours, peer, theirs, argument) in subjects.items():
        modules = {
            "eager": ours,
            "torch.compile": torch.compile(ours, fullgraph=True),
            peer: theirs,
            f"{peer}, torch.compile": torch.compile(theirs, fullgraph=True),
        }
        functions = {name: partial(module, argument) for name, module in modules.items()}
        with torch.no_grad():
            comparisons.append(
                compare(f"four layers on {size}", functions, "eager", "torch.compile")
            )
        steps = {name: partial(step, module, argument) for name, module in modules.items()}
        comparisons.append(
            compare(f"four layers on {size}, and back", steps, "eager", "torch.compile")
        )
    print("saved", save("call_overhead", comparisons))


if __name__ == "__main__":
    main()
