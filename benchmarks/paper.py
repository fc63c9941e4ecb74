"""The measured texts of the papers against ATen, torch.compile and jax.jit.

Our own kernels with default options: no tuning, no library call. One thread decides. The ratio is
the time of the best peer over ours; beside it stands the least that is asked for, and the ratio
where library calls are allowed, which the default options do. Peers have the layout that they like
best, and weights that are packed before they are timed; ours take what the text says.

python benchmarks/paper.py [part of a name ...] [--threads 1 2] [--rounds 7]
"""

from __future__ import annotations

import argparse
import statistics

import command
from cases import CASES, Case
from harness import Comparison, Row, Rows
from peers import jax_peers, torch_peers

import tensor_comprehensions as tc


def row(index: int, case: Case, options: argparse.Namespace) -> Row:
    values = case.inputs()

    def kernel(library: bool) -> object:
        mapping = tc.MappingOptions()
        if not library:
            mapping.matchLibraryCalls(False)
        namespace = f"tc_paper_{index}{'_library' if library else ''}"
        operator = getattr(tc.define(case.text, mapping, namespace=namespace), case.entry)
        return lambda: operator(*values)

    def peers() -> dict:
        functions = {"torch": case.reference, **case.alternatives}
        made = torch_peers(functions, values, case.weights, options.compiled)
        return made | (jax_peers(case.kind, values) if options.compiled else {})

    return Row(
        kernel(library=False),
        peers,
        variants={"ours, library": kernel(library=True)} if options.library else {},
        target=case.target,
        notes={"figure": case.figure},
    )


def rows(options: argparse.Namespace) -> Rows:
    for index, case in enumerate(CASES):
        yield case.name, lambda index=index, case=case: row(index, case, options)


def summary(comparisons: list[Comparison]) -> dict[str, object]:
    means = {}
    for threads in sorted({c.threads for c in comparisons}):
        found = [c for c in comparisons if c.threads == threads and c.notes["figure"]]
        if not found:
            continue
        means[str(threads)] = {
            "minima": statistics.geometric_mean([c.ratio for c in found]),
            "medians": statistics.geometric_mean([c.ratio_of_medians for c in found]),
        }
        print(
            f"geometric mean over {len(found)} workloads of figures 5 to 7, {threads} thread(s): "
            f"{means[str(threads)]['minima']:.2f} by minima, "
            f"{means[str(threads)]['medians']:.2f} by medians"
        )
    return {"geometric_means": means}


def arguments() -> argparse.ArgumentParser:
    parser = command.parser(__doc__, threads=(1, 2))
    parser.set_defaults(round_seconds=0.8)
    parser.add_argument(
        "--library",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also the default options, which may call ATen",
    )
    return parser


if __name__ == "__main__":
    command.main("paper", rows, arguments(), summary, partial=lambda options: not options.library)
