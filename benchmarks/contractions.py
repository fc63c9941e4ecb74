"""Random contractions against torch.mm at equal FLOPs, and torch.einsum, on one thread.

The matrix product has contiguous operands whose sizes are the products of the extents of the
index classes, and is a stack of products where there are batch indices. The figures that decide
are those of compute-bound contractions: more than 16 FLOPs a byte. PyTorch's library is slow on
some processors, so JAX's matrix product stands beside it where JAX is installed.

python benchmarks/contractions.py [part of a name ...] [--count 120] [--seed 4] [--loop-nest]
"""

from __future__ import annotations

import argparse
import time
from functools import partial

import command
import numpy as np
import torch
from harness import Candidate, Comparison, Row, Rows, check
from peers import jax_references, torch_peers
from random_contractions import Contraction, random_contraction

import tensor_comprehensions as tc

INTENSITY = 16
MEDIAN, FIFTH_PERCENTILE = 0.75, 0.4


def product_of_jax(a: torch.Tensor, b: torch.Tensor) -> dict[str, Candidate]:
    if jax_references() is None:
        return {}
    import jax

    jitted, arrays = jax.jit(jax.numpy.matmul), [jax.numpy.asarray(t.numpy()) for t in (a, b)]
    return {"jax, product": lambda: jax.block_until_ready(jitted(*arrays))}


def row(number: int, contraction: Contraction, options: argparse.Namespace) -> Row:
    torch.manual_seed(number)
    x, y = contraction.operands()
    if options.loop_nest:
        print(contraction.text())
        print(tc.compile(contraction.text(), "contraction", None, x, y).loop_nest)
    start = time.process_time()
    own = tc.MappingOptions().matchLibraryCalls(False)
    namespace = f"tc_contraction_{options.seed}_{number}"
    operator = tc.define(contraction.text(), own, namespace=namespace).contraction
    result = operator(x, y)
    compile_seconds = time.process_time() - start
    allowed = tc.define(contraction.text(), namespace=f"{namespace}_library").contraction
    exact_x, exact_y = x.double(), y.double()
    # Terms cancel; what rounding can do follows from their absolute values.
    scale = float(contraction.einsum(exact_x.abs(), exact_y.abs()).max())
    check(contraction.name, result.double(), contraction.einsum(exact_x, exact_y), 1e-6, scale)
    a, b = contraction.matrices()
    multiply = torch.bmm if a.dim() == 3 else torch.mm
    reference = {"torch.einsum": contraction.einsum}
    return Row(
        lambda: operator(x, y),
        lambda: torch_peers(reference, (x, y), with_compilers=options.compiled),
        variants={"ours, library": lambda: allowed(x, y)},
        unrelated={"product": lambda: multiply(a, b), **product_of_jax(a, b)},
        notes={
            "intensity": contraction.intensity,
            "product": [*a.shape[:-1], b.shape[-1], a.shape[-1]],
            "flops": contraction.flops,
            "compile_seconds": compile_seconds,
        },
    )


def rows(options: argparse.Namespace) -> Rows:
    for number in range(options.count):
        contraction = random_contraction(options.seed, number)
        yield f"{number}: {contraction.name}", partial(row, number, contraction, options)


def over_product(c: Comparison, name: str) -> float:
    return c.timings["product"].minimum / c.timings[name].minimum


def over_best_product(c: Comparison) -> float:
    best = min(t.minimum for name, t in c.timings.items() if "product" in name)
    return best / c.timings["ours"].minimum


def summary(comparisons: list[Comparison]) -> dict[str, object]:
    """Medians and fifth percentiles of the speed over that of the matrix product."""
    bound = [c for c in comparisons if c.notes["intensity"] > INTENSITY]
    columns = {
        "ours over the product": lambda c: over_product(c, "ours"),
        "ours with library calls over the product": lambda c: over_product(c, "ours, library"),
        "torch.einsum over the product": lambda c: over_product(c, "torch.einsum"),
        "ours over the better of PyTorch's and JAX's product": over_best_product,
        "ours over the best peer": lambda c: c.ratio,
    }
    report: dict[str, object] = {}
    for title, part in (("compute-bound", bound), ("all", comparisons)):
        if not part:
            continue
        report[title] = {"count": len(part)}
        for column, ratio in columns.items():
            ratios = [ratio(c) for c in part]
            median, p5 = np.median(ratios).item(), np.percentile(ratios, 5).item()
            report[title][column] = {"median": median, "p5": p5}
            print(f"{title} ({len(part)}), {column}: median {median:.2f}, 5th percentile {p5:.2f}")
    print(f"asked of the compute-bound, over the product: {MEDIAN} and {FIFTH_PERCENTILE}")
    print("worst of the compute-bound:")
    for c in sorted(bound, key=lambda c: over_product(c, "ours"))[:10]:
        print(
            f"  {over_product(c, 'ours'):.2f}  {c.notes['intensity']:5.1f} FLOP/byte  {c.workload}"
        )
    slowest = max(comparisons, key=lambda c: c.notes["compile_seconds"])
    print(f"slowest compilation {slowest.notes['compile_seconds']:.2f} s: {slowest.workload}")
    return {"summary": report}


def arguments() -> argparse.ArgumentParser:
    parser = command.parser(__doc__, rounds=5)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--loop-nest", action="store_true", help="prints the texts and the loops")
    return parser


if __name__ == "__main__":
    command.main(
        *("contractions", rows, arguments(), summary),
        partial=lambda options: (options.count, options.seed) != (120, 4),
    )
