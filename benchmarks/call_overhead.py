"""What a call costs on four elements: our operators against torch.add, interleaved, one thread.

python benchmarks/call_overhead.py
"""

from __future__ import annotations

import torch
from harness import Comparison, interleave, print_comparison, save

import tensor_comprehensions as tc

TEXT = "def overhead_add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }"


def main() -> None:
    torch.set_num_threads(1)
    t = tc.define(TEXT)
    a, b = torch.randn(4), torch.randn(4)
    packet, overload, attribute = (
        torch.ops.tc.overhead_add,
        torch.ops.tc.overhead_add.default,
        t.overhead_add,
    )
    timings = interleave(
        {
            "torch.add": lambda: torch.add(a, b),
            "torch.ops.tc.f": lambda: packet(a, b),
            "torch.ops.tc.f.default": lambda: overload(a, b),
            "T.f": lambda: attribute(a, b),
        },
        rounds=40,
        round_seconds=0.1,
    )
    base = timings["torch.add"]
    for name, t in timings.items():
        extra = (t.minimum - base.minimum) * 1e6
        print(
            f"{name:26s} min {t.minimum * 1e6:.2f} us  median {t.median * 1e6:.2f} us  "
            f"over torch.add {extra:+.2f} us"
        )
    mine = timings["torch.ops.tc.f"]
    comparison = Comparison(
        "call on 4 elements", 1, timings, base.minimum / mine.minimum, base.median / mine.median
    )
    print_comparison(comparison)
    print("saved", save("call_overhead", [comparison]))


if __name__ == "__main__":
    main()
