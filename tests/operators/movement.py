"""Copies, joins, permutations, shifts: what computes nothing."""

from __future__ import annotations

import torch

from operators.case import MATRIX, Case, matrices, matrix


def two_matrices(v, m, n, k):
    return v(m, k), v(n, k)


def with_numbers(*numbers: int):
    return lambda v, *sizes: (v(*sizes), *numbers)


def permutation(name: str, *order: int, sizes=((3, 5, 7, 9), (1, 1, 1, 1))):
    return Case(
        name,
        lambda x: x.permute(order).contiguous(),
        lambda v, *given: (v(*given),),
        [size[: len(order)] for size in sizes],
    )


CASES = [
    Case("copy", torch.clone, matrix, MATRIX),
    Case(
        "concatenate_rows",
        lambda a, b: torch.cat((a, b)),
        two_matrices,
        [(5, 7, 19), (1, 1, 1)],
    ),
    Case(
        "concatenate_columns",
        lambda a, b: torch.cat((a, b), 1),
        lambda v, n, d, e: (v(n, d), v(n, e)),
        [(5, 7, 19), (1, 1, 1)],
    ),
    Case(
        "concatenate_3",
        lambda a, b, c: torch.cat((a, b, c), 1),
        lambda v, n, d, e, f: (v(n, d), v(n, e), v(n, f)),
        [(5, 7, 19, 3), (1, 1, 1, 1)],
    ),
    Case("stack", lambda a, b: torch.stack((a, b)), matrices, MATRIX),
    Case(
        "split",
        lambda x, size: x.split((size, x.shape[1] - size), 1),
        with_numbers(3),
        [(5, 19), (1, 4)],
    ),
    Case(
        "broadcast_rows",
        lambda x, rows: x.expand(rows, -1).contiguous(),
        with_numbers(5),
        [(19,), (1,)],
    ),
    Case("repeat", lambda x, m, n: x.repeat(m, n), with_numbers(3, 2), MATRIX),
    Case(
        "repeat_interleave", lambda x, times: x.repeat_interleave(times, 1), with_numbers(3), MATRIX
    ),
    Case("transpose", lambda x: x.t().contiguous(), matrix, MATRIX),
    permutation("transpose_batched", 0, 2, 1),
    permutation("permute_120", 1, 2, 0),
    permutation("permute_201", 2, 0, 1),
    permutation("permute_0213", 0, 2, 1, 3),
    permutation("channels_last", 0, 2, 3, 1),
    permutation("channels_first", 0, 3, 1, 2),
    permutation("permute_3210", 3, 2, 1, 0),
    Case("flip", lambda x: x.flip(1), matrix, MATRIX),
    Case("flip_both", lambda x: x.flip(0, 1), matrix, MATRIX),
    *(
        Case("roll", lambda x, shift: x.roll(shift, 1), with_numbers(shift), [(7, 37), (19, 5)])
        for shift in (0, 3, -4)
    ),
    Case("rotate", torch.rot90, matrix, MATRIX),
]
