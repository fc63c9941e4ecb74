"""Rows of matrices and channels of images: moments, norms, softmax, distances, scans, cells."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from operators.case import MATRIX, Case, Values, matrices, matrix

IMAGES = [(3, 4, 5, 6), (2, 1, 1, 3)]


def all_rows(v: Values, m: int, n: int, d: int) -> tuple:
    return v(m, d), v(n, d)


ALL_ROWS = [(5, 19, 11), (1, 1, 1)]


def grouped(v: Values, n: int, g: int, d: int, h: int, w: int) -> tuple:
    return v(n, g, d, h, w), v(g, d), v(g, d)


def group_norm(x, weight, bias, epsilon=1e-5):
    out = F.group_norm(x.flatten(1, 2), x.shape[1], weight.flatten(), bias.flatten(), epsilon)
    return out.view(x.shape)


def trained(x, running_mean, running_variance, weight, bias, momentum, epsilon):
    # F.batch_norm would write into the statistics that it is given.
    out = F.batch_norm(x, None, None, weight, bias, True, momentum, epsilon)
    new_mean = torch.lerp(running_mean, x.mean((0, 2, 3)), momentum)
    new_variance = torch.lerp(running_variance, x.var((0, 2, 3)), momentum)
    return out, x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False), new_mean, new_variance


def moments(*dimensions: int):
    return lambda x: (x.mean(dimensions), x.var(dimensions, unbiased=False))


def cell(gates: int, states: int):
    """The arguments of a cell: input, its states, weights and biases."""

    def inputs(v: Values, n: int, i: int, h: int) -> tuple:
        g = gates * h
        return (v(n, i), *(v(n, h) for _ in range(states)), v(g, i), v(g, h), v(g), v(g))

    return inputs


CELLS = [(5, 7, 11), (1, 1, 1)]


def scaled(v: Values, n: int, d: int) -> tuple:
    return (0.5 * v(n, d),)


def segmented_sum(x: Tensor, starts: Tensor) -> Tensor:
    total, results = torch.zeros_like(x[:, 0]), []
    for d in range(x.shape[1]):
        total = x[:, d] + torch.where(starts[:, d], 0, total)
        results.append(total)
    return torch.stack(results, 1)


CASES = [
    Case("softmax", lambda x: F.softmax(x, 1), matrix, MATRIX, digits=True),
    Case(
        "softmax",
        lambda x: F.softmax(x, 1),
        lambda v, n, d: (500 * v(n, d),),
        MATRIX,
        digits=True,
    ),
    Case("softmax_columns", lambda x: F.softmax(x, 0), matrix, MATRIX, digits=True),
    Case("softmin", lambda x: F.softmin(x, 1), matrix, MATRIX, digits=True),
    Case("log_softmax", lambda x: F.log_softmax(x, 1), matrix, MATRIX),
    Case("logsumexp", lambda x: torch.logsumexp(x, 1), matrix, MATRIX),
    # ---- normalisations; a row of equal values would show the rounding of its mean only
    Case(
        "layer_normalization",
        lambda x, w, b, epsilon: F.layer_norm(x, w.shape, w, b, epsilon),
        lambda v, n, d: (v(n, d), v(d), v(d), 1e-5),
        MATRIX,
    ),
    Case(
        "rms_normalization",
        lambda x, w, epsilon: F.rms_norm(x, w.shape, w, epsilon),
        lambda v, n, d: (v(n, d), v(d), 1e-5),
        MATRIX,
    ),
    Case(
        "batch_normalization",
        lambda x, mean, var, w, b, epsilon: F.batch_norm(x, mean, var, w, b, False, 0.0, epsilon),
        lambda v, n, c, h, w: (*(v(n, c, h, w), v(c), v.between(0.5, 2, c), v(c), v(c), 1e-5),),
        IMAGES,
        constant=(1, 2),
    ),
    Case(
        "batch_normalization_training",
        trained,
        lambda v, n, c, h, w: (
            *(v(n, c, h, w), v(c), v.between(0.5, 2, c), v(c), v(c), 0.125, 1e-5),
        ),
        IMAGES,
        terms=100,
    ),
    Case(
        "group_normalization",
        group_norm,
        lambda v, *sizes: (*grouped(v, *sizes), 1e-5),
        [(2, 3, 4, 5, 6), (1, 1, 1, 2, 1)],
        terms=120,
    ),
    Case(
        "group_normalization_sums",
        lambda x, w, b: (group_norm(x, w, b), x.sum((2, 3, 4)), (x * x).sum((2, 3, 4))),
        grouped,
        [(2, 3, 4, 5, 6), (1, 1, 1, 2, 1)],
        terms=240,
    ),
    Case(
        "instance_normalization",
        lambda x, w, b, epsilon: F.instance_norm(x, weight=w, bias=b, eps=epsilon),
        lambda v, n, c, h, w: (v(n, c, h, w), v(c), v(c), 1e-5),
        IMAGES,
    ),
    Case(
        "l1_normalization",
        lambda x, epsilon: F.normalize(x, p=1, eps=epsilon),
        lambda v, n, d: (v(n, d), 1e-6),
        MATRIX,
    ),
    Case(
        "l2_normalization",
        lambda x, epsilon: F.normalize(x, eps=epsilon),
        lambda v, n, d: (v(n, d), 1e-6),
        MATRIX,
    ),
    *(
        Case(
            "local_response_normalization",
            F.local_response_norm,
            lambda v, n, c, h, w, size=size: (v(n, c, h, w), size, 0.5, 0.75, 1.0),
            [(2, 9, 4, 5), (1, 1, 1, 1)],
        )
        for size in (3, 5)
    ),
    # ---- moments and other reductions; of one value, a variance in one pass is rounding alone
    Case("moments", moments(1), matrix, [(7, 37), (19, 5), (1, 2)], terms=128),
    Case("moments_two_passes", moments(1), matrix, MATRIX),
    Case("moments_columns", moments(0), matrix, MATRIX),
    Case("moments_channels", moments(0, 2, 3), lambda v, *s: (v(*s),), IMAGES, terms=100),
    Case("sum_rows", lambda x: x.sum(1), matrix, MATRIX),
    Case("sum_columns", lambda x: x.sum(0), matrix, MATRIX),
    Case("mean_rows", lambda x: x.mean(1), matrix, MATRIX),
    Case("mean_all", torch.mean, matrix, MATRIX, terms=260),
    Case("product_rows", lambda x: x.prod(1), matrix, MATRIX, digits=True),
    Case("max_rows", lambda x: x.amax(1), matrix, MATRIX),
    Case("min_rows", lambda x: x.amin(1), matrix, MATRIX),
    Case("norm_rows", lambda x: torch.linalg.vector_norm(x, dim=1), matrix, MATRIX),
    Case("standard_deviation", lambda x: x.std(1), matrix, [(7, 37), (19, 5), (1, 2)]),
    Case("covariance", lambda x: torch.cov(x.t()), matrix, [(7, 37), (19, 5), (2, 2)]),
    # ---- distances
    Case(
        "cosine_similarity",
        lambda a, b, epsilon: F.cosine_similarity(a, b, eps=epsilon),
        lambda v, n, d: (*matrices(v, n, d), 1e-6),
        MATRIX,
    ),
    Case(
        "cosine_similarity_all",
        lambda a, b, epsilon: F.cosine_similarity(a[:, None], b[None], 2, epsilon),
        lambda v, *sizes: (*all_rows(v, *sizes), 1e-6),
        ALL_ROWS,
    ),
    Case(
        "pairwise_distance",
        lambda a, b, epsilon: F.pairwise_distance(a, b, eps=epsilon),
        lambda v, n, d: (*matrices(v, n, d), 1e-6),
        MATRIX,
    ),
    Case("squared_distances", lambda a, b: torch.cdist(a, b) ** 2, all_rows, ALL_ROWS),
    Case("distances", torch.cdist, all_rows, ALL_ROWS),
    Case("manhattan_distances", lambda a, b: torch.cdist(a, b, p=1), all_rows, ALL_ROWS),
    Case("maximum_distances", lambda a, b: torch.cdist(a, b, p=torch.inf), all_rows, ALL_ROWS),
    Case(
        "gaussian_kernel",
        lambda a, b, gamma: torch.exp(-gamma * torch.cdist(a, b) ** 2),
        lambda v, *sizes: (*all_rows(v, *sizes), 0.125),
        ALL_ROWS,
    ),
    # ---- scans
    Case("cumulative_sum", lambda x: x.cumsum(1), matrix, MATRIX),
    Case("segmented_sum", segmented_sum, lambda v, n, d: (v(n, d), v.mask(n, d)), MATRIX),
    Case("cumulative_product", lambda x: x.cumprod(1), matrix, MATRIX, digits=True),
    Case("cumulative_max", lambda x: x.cummax(1).values, matrix, MATRIX),
    Case("cumulative_min", lambda x: x.cummin(1).values, matrix, MATRIX),
    Case("cumulative_logsumexp", lambda x: torch.logcumsumexp(x, 1), matrix, MATRIX),
    Case("difference", lambda x: x.diff(dim=1), matrix, [(7, 37), (19, 5), (1, 2)]),
    Case(
        "moving_sum",
        lambda x, size: x.unfold(1, size, 1).sum(2),
        lambda v, n, d: (v(n, d), 4),
        [(7, 37), (19, 5), (1, 4)],
    ),
    # ---- cells of recurrent networks
    Case("rnn_cell", torch.rnn_tanh_cell, cell(1, 1), CELLS),
    Case("gru_cell", torch.gru_cell, cell(3, 1), CELLS),
    Case("lstm_cell", lambda x, h, c, *w: torch.lstm_cell(x, (h, c), *w), cell(4, 2), CELLS),
]
