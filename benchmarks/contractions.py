"""Random contractions against torch.mm at equal FLOPs, and torch.einsum, on one thread.

The matrix product has contiguous operands whose sizes are the products of the extents of the
index classes, and is a stack of products where there are batch indices. The figures that decide
are those of compute-bound contractions: more than 16 FLOPs a byte. PyTorch's library is slow on
some processors, so JAX's matrix product stands beside it where JAX is installed.

python benchmarks/contractions.py [--count 120] [--seed 4] [--only NUMBER ...] [--loop-nest]
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
import torch
from harness import check, interleave, save, use_same_memory
from peers import limit_threads
from random_contractions import Contraction, random_contraction

import tensor_comprehensions as tc

INTENSITY = 16
MEDIAN, FIFTH_PERCENTILE = 0.75, 0.4
COLUMNS = {
    "ours over torch.mm": "ratio",
    "ours with library calls over torch.mm": "library_ratio",
    "torch.einsum over torch.mm": "einsum_ratio",
    "ours over the better of torch.mm and JAX": "best_ratio",
}


def measure(contraction: Contraction, namespace: str, options: argparse.Namespace) -> dict:
    torch.manual_seed(0)
    x, y = contraction.operands()
    start = time.process_time()
    own = tc.MappingOptions().matchLibraryCalls(False)
    operator = tc.define(contraction.text(), own, namespace=namespace).contraction
    result = operator(x, y)
    compile_seconds = time.process_time() - start
    allowed = tc.define(contraction.text(), namespace=f"{namespace}_library").contraction
    allowed(x, y)
    exact_x, exact_y = x.double(), y.double()
    # Terms cancel; what rounding can do follows from their absolute values.
    scale = float(contraction.einsum(exact_x.abs(), exact_y.abs()).max())
    check(contraction.name, result.double(), contraction.einsum(exact_x, exact_y), 1e-6, scale)
    del result, exact_x, exact_y
    a, b = contraction.matrices()
    multiply = torch.bmm if a.dim() == 3 else torch.mm
    candidates = {
        "ours": lambda: operator(x, y),
        "ours, library": lambda: allowed(x, y),
        "mm": lambda: multiply(a, b),
        "einsum": lambda: contraction.einsum(x, y),
    }
    if options.jax is not None:
        jax = options.jax
        jitted, arrays = jax.jit(jax.numpy.matmul), [jax.numpy.asarray(t.numpy()) for t in (a, b)]
        candidates["jax"] = lambda: jax.block_until_ready(jitted(*arrays))
    timings = interleave(candidates, options.rounds, options.round_seconds, time.process_time)
    seconds = {name: t.minimum for name, t in timings.items()}
    best = min(seconds["mm"], seconds.get("jax", seconds["mm"]))
    return {
        "name": contraction.name,
        "intensity": contraction.intensity,
        "mm": [*a.shape[:-1], b.shape[-1], a.shape[-1]],
        "gflops": {name: contraction.flops / s * 1e-9 for name, s in seconds.items()},
        "ratio": seconds["mm"] / seconds["ours"],
        "library_ratio": seconds["mm"] / seconds["ours, library"],
        "einsum_ratio": seconds["mm"] / seconds["einsum"],
        "best_ratio": best / seconds["ours"],
        "compile_seconds": compile_seconds,
    }


def line(row: dict) -> str:
    speed = row["gflops"]
    return (
        f"{row['number']:4d}  ratio {row['ratio']:.2f}  ours {speed['ours']:6.1f}  "
        f"mm {speed['mm']:6.1f}  einsum {speed['einsum']:6.1f}  "
        f"jax {speed.get('jax', float('nan')):6.1f} GFLOP/s  "
        f"{row['intensity']:5.1f} FLOP/byte  {row['name']}"
    )


def summary(rows: list[dict]) -> dict:
    """Medians and fifth percentiles of the speed over that of the matrix product."""

    def of(column: str) -> dict:
        ratios = [row[column] for row in rows]
        return {"median": np.median(ratios).item(), "p5": np.percentile(ratios, 5).item()}

    return {"count": len(rows), **{title: of(column) for title, column in COLUMNS.items()}}


def main() -> None:
    use_same_memory()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--only", type=int, nargs="+", help="these numbers; nothing is saved")
    parser.add_argument("--loop-nest", action="store_true", help="prints the text and the loops")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--round-seconds", type=float, default=0.15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.update(limit_threads({}, 1))
    try:
        import jax
    except ImportError as error:
        print(f"no column for JAX: {error}")
        jax = None
    options.jax = jax
    print(f"seed {options.seed}")
    rows, failed = [], {}
    for number in options.only or range(options.count):
        contraction = random_contraction(options.seed, number)
        if options.loop_nest:
            print(contraction.text())
            executor = tc.compile(contraction.text(), "contraction", None, *contraction.operands())
            print(executor.loop_nest)
        try:
            row = measure(contraction, f"tc_contraction_{number}", options)
        except Exception as error:
            failed[number] = f"{contraction.name}: {error}"
            print(f"{number:4d}  FAILED {contraction.name}: {error}", flush=True)
            continue
        rows.append({"number": number, **row})
        print(line(rows[-1]), flush=True)
    bound = [row for row in rows if row["intensity"] > INTENSITY]
    report = {}
    for title, part in (("compute-bound", bound), ("all", rows)):
        if not part:
            continue
        report[title] = summary(part)
        for who in COLUMNS:
            figures = report[title][who]
            print(
                f"{title} ({len(part)}), {who}: median {figures['median']:.2f}, "
                f"5th percentile {figures['p5']:.2f}"
            )
    print(f"asked of the compute-bound, over torch.mm: {MEDIAN} and {FIFTH_PERCENTILE}")
    print("worst of the compute-bound:")
    for row in sorted(bound, key=lambda row: row["ratio"])[:10]:
        print(line(row))
    if rows:
        slowest = max(rows, key=lambda row: row["compile_seconds"])
        print(f"slowest compilation {slowest['compile_seconds']:.2f} s: {slowest['name']}")
    if failed:
        print(f"{len(failed)} failed: {', '.join(map(str, failed))}")
    if not options.only:
        print(
            "saved",
            save("contractions", [], seed=options.seed, summary=report, failed=failed, rows=rows),
        )


if __name__ == "__main__":
    main()
