"""Every definition of ops/ at sizes of layers, forward and backward, against PyTorch.

python benchmarks/definitions.py [PART OF A NAME ...] [--threads 1] [--rounds 5]

A row is called "DEFINITION, forward" or "DEFINITION, backward". The references are those of
tests/operators, in single precision and with autograd. Options are the defaults, as users get them:
matrix products and convolutions may be library calls, for then both sides make the same call and
what stands between is compared. A ratio far below 1 is a cliff.

Left out backward are definitions without derivatives, and those whose gradient is a view in PyTorch
(`VIEWS`): nothing is computed there.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import command
from harness import Row, Rows
from operators import FAMILIES, Case, Values
from peers import backward_peers, torch_peers

import tensor_comprehensions as tc

#: By family and number of sizes.
USUAL: dict[tuple[str, int], tuple[int, ...]] = {
    ("attention", 4): (8, 8, 128, 128),
    ("attention", 5): (8, 128, 8, 64, 64),
    ("attention", 6): (8, 8, 128, 128, 64, 64),
    ("attention", 7): (8, 2, 4, 128, 128, 64, 64),
    ("elementwise", 2): (512, 1024),
    ("layers", 2): (512, 1024),
    ("layers", 3): (16, 64, 1024),
    ("layers", 4): (8, 64, 56, 56),
    ("layers", 5): (8, 32, 16, 28, 28),
    ("losses", 1): (65536,),
    ("losses", 2): (512, 1000),
    ("movement", 1): (1024,),
    ("movement", 2): (512, 1024),
    ("movement", 3): (64, 128, 128),
    ("movement", 4): (16, 32, 28, 28),
    ("products", 1): (65536,),
    ("products", 2): (512, 1024),
    ("products", 3): (256, 256, 256),
    ("products", 4): (16, 128, 128, 128),
    ("recurrences", 2): (64, 1024),
    ("recurrences", 3): (4, 512, 64),
    ("recurrences", 4): (2, 256, 64, 16),
    ("rows", 2): (512, 1024),
    ("rows", 3): (256, 256, 64),
    ("rows", 4): (8, 64, 28, 28),
    ("rows", 5): (8, 8, 8, 28, 28),
}

# Batch, channels, filters, image, filter.
CONVOLUTION = (8, 64, 64, 28, 28, 3, 3)
DEPTHWISE = (8, 64, 56, 56, 3, 3)
GROUPS = (8, 8, 8, 8, 28, 28, 3)
LOOKUP = (10000, 64, 512, 32)
CELL = (64, 256, 256)

SIZES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(
        (
            *("convolution", "convolution_without_bias", "strided_convolution"),
            *("dilated_convolution", "padded_convolution", "general_convolution"),
            "bordered_convolution",
        ),
        CONVOLUTION,
    ),
    "pointwise_convolution": (8, 64, 128, 28, 28),
    "convolution_channels_last": (8, 64, 64, 28, 28, 3),
    "shift_convolution": (8, 64, 64, 28, 28),
    "sparse_filter_convolution": (4, 32, 32, 7, 28, 28),
    "quantized_convolution": (28, 28, 64, 64, 3, 1),
    "group_convolution": GROUPS,
    "strided_group_convolution": GROUPS,
    "bordered_group_convolution": GROUPS,
    "depthwise_convolution": DEPTHWISE,
    "strided_depthwise_convolution": DEPTHWISE,
    "depthwise_convolution_multiplied": (8, 32, 2, 28, 28, 3),
    "separable_convolution": (8, 64, 64, 28, 28, 3),
    "convolution_1d": (16, 64, 64, 256, 5),
    "convolution_1d_single": (65536, 9),
    "causal_convolution_1d": (16, 64, 64, 256, 5),
    "strided_convolution_1d": (16, 64, 64, 256, 5),
    "dilated_convolution_1d": (16, 64, 64, 256, 5),
    "depthwise_convolution_1d": (16, 64, 1024, 5),
    "convolution_3d": (2, 16, 16, 16, 28, 28, 3, 3, 3),
    "strided_convolution_3d": (2, 16, 16, 16, 28, 28, 3, 3, 3),
    "transposed_convolution": (8, 64, 32, 14, 14, 4, 4),
    "transposed_convolution_1d": (16, 64, 32, 128, 4),
    "unfold": (8, 16, 28, 28),
    "fold": (8, 16, 3, 3, 28, 28),
    "sliding_windows": (64, 4096),
    "max_pooling_1d": (16, 64, 1024),
    "average_pooling_1d": (16, 64, 1024),
    "pixel_shuffle": (8, 72, 28, 28),
    "pixel_unshuffle": (8, 16, 84, 84),
    "channel_shuffle": (8, 72, 28, 28),
    "upsample_nearest": (8, 32, 28, 28),
    "upsample_bilinear": (8, 32, 28, 28),
    "concatenate_3": (512, 512, 256, 128),
    "cross": (65536,),
    "diagonal_matrix": (1024,),
    "trace": (1024, 1024),
    "lower_triangle": (1024, 1024, 0),
    "upper_triangle": (1024, 1024, 0),
    "kronecker": (16, 16, 32, 32),
    "kronecker_3": (16, 32, 32, 32),
    "khatri_rao": (64, 64, 128),
    "outer_product_matmul": (16, 16, 64, 32, 64),
    "mttkrp": (64, 32, 64, 64),
    "tensor_times_vector": (64, 64, 256),
    "tensor_times_matrix": (64, 64, 64, 64),
    "sampled_matmul": (256, 256, 64),
    "tucker": (16, 16, 16),
    "canonical_polyadic": (48, 48, 48, 32),
    "bilinear": (64, 64, 64, 64),
    "batched_matmul": (16, 128, 128, 128),
    "linear": (256, 512, 512),
    "mlp1": (128, 512, 512),
    "mlp2": (128, 512, 256, 128),
    "mlp3": (128, 512, 256, 128, 64),
    "mlp4": (128, 512, 256, 128, 64, 32),
    "feed_forward": (256, 256, 1024),
    "production_model": (128, 64, 64),
    "two_lookup_tables": (64, 64, 512),
    **dict.fromkeys(
        (
            *("lookup_table", "lookup_table_mean", "lookup_table_max"),
            *("lookup_table_weighted", "embedding"),
        ),
        LOOKUP,
    ),
    "take": (100000, 512, 128),
    "index_select": (10000, 64, 4096),
    "gather": (512, 1024, 256),
    "one_hot": (4096, 100),
    **dict.fromkeys(("rnn_cell", "gru_cell", "lstm_cell"), CELL),
    **dict.fromkeys(("distances", "manhattan_distances", "maximum_distances"), (128, 128, 64)),
    "cosine_similarity_all": (128, 128, 64),
    "covariance": (512, 128),
    # Longer rows have products next to nothing.
    **dict.fromkeys(("product_rows", "cumulative_product"), (4096, 64)),
}

#: What inputs of a family are multiplied by: products of normal numbers leave the range in which
#: layers work, and the tails of their activations are denormal.
SCALES = {"products": 0.2, "attention": 0.2}

#: Their gradients are views of the results' gradients in PyTorch.
VIEWS = frozenset(
    (
        *("copy", "transpose", "transpose_batched", "channels_last", "channels_first", "stack"),
        *("permute_120", "permute_201", "permute_0213", "permute_3210"),
        *("concatenate_rows", "concatenate_columns", "concatenate_3", "diagonal_matrix"),
        *("sum_rows", "sum_columns", "mean_rows", "mean_all", "broadcast_rows", "trace"),
    )
)


#: The reference returns views, or another type.
NOT_COMPARED = frozenset(("split", "diagonal", "one_hot"))


def sizes(family: str, case: Case) -> tuple[int, ...]:
    return SIZES.get(case.definition) or USUAL[family, len(case.sizes[0])]


def scaled(inputs: tuple, family: str) -> tuple:
    return tuple(
        x * SCALES.get(family, 1) if isinstance(x, torch.Tensor) and x.is_floating_point() else x
        for x in inputs
    )


def floating(results: object) -> list[torch.Tensor]:
    results = results if isinstance(results, tuple) else (results,)
    return [r for r in results if r.is_floating_point()]


def forward(case: Case, inputs: tuple, compiled: bool) -> Row:
    operator = getattr(tc.define(tc.ops.source(case.definition)), case.definition)
    return Row(
        lambda: operator(*inputs),
        lambda: torch_peers({"ATen": case.reference}, inputs, with_compilers=compiled),
        tolerance=1e-3,
    )


def backward(case: Case, inputs: tuple, compiled: bool) -> Row:
    places = case.differentiable(inputs)
    inputs = tuple(
        x.detach().clone().requires_grad_(k in places) if isinstance(x, torch.Tensor) else x
        for k, x in enumerate(inputs)
    )
    leaves = [inputs[k] for k in places]
    operator = getattr(tc.define(tc.ops.source(case.definition)), case.definition)
    results = floating(tc.make_autograd(operator)(*inputs))
    # As the reference has them: some keep zero-dimensional results.
    gradients = [torch.randn_like(r) for r in floating(case.reference(*inputs))]

    def derive() -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(results, leaves, gradients, retain_graph=True)

    return Row(
        derive,
        lambda: backward_peers({"ATen": case.reference}, inputs, gradients, compiled),
        tolerance=1e-3,
    )


def rows(options: argparse.Namespace) -> Rows:
    for family, cases in FAMILIES.items():
        for case in cases:
            if case.definition in NOT_COMPARED:
                continue

            def inputs(family: str = family, case: Case = case) -> tuple:
                return scaled(case.inputs(Values(torch.float32), *sizes(family, case)), family)

            yield (
                f"{case.definition}, forward",
                lambda case=case, make=inputs: forward(case, make(), options.compiled),
            )
            if case.definition not in VIEWS and case.differentiable(inputs()):
                yield (
                    f"{case.definition}, backward",
                    lambda case=case, make=inputs: backward(case, make(), options.compiled),
                )


def arguments() -> argparse.ArgumentParser:
    parser = command.parser(__doc__, rounds=5)
    parser.set_defaults(round_seconds=0.2)
    return parser


if __name__ == "__main__":
    command.main("definitions", rows, arguments())
