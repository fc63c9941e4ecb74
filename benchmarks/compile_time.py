"""From a text to a callable: every text of the papers, the first in a process and later ones.

python benchmarks/compile_time.py
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from harness import save
from workloads import WORKLOADS

import tensor_comprehensions as tc


def main() -> None:
    seconds = {}
    for workload in WORKLOADS:
        inputs = workload.inputs()
        start = time.perf_counter()
        t = tc.define(workload.text, namespace=f"tc_compile_time_{len(seconds)}")
        if workload.initial is None:
            t(workload.entry, *inputs)
        else:
            t(workload.entry, *inputs, outputs=workload.initial())
        seconds[workload.name] = time.perf_counter() - start
    first, *later = seconds.values()
    for name, value in seconds.items():
        print(f"{name:24s} {value * 1e3:7.1f} ms")
    print(
        f"first {first * 1e3:.0f} ms; later: median {statistics.median(later) * 1e3:.0f} ms, "
        f"slowest {max(later) * 1e3:.0f} ms"
    )
    print("saved", save("compile_time", [], seconds=seconds))


if __name__ == "__main__":
    main()
