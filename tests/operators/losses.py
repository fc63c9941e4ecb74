"""Losses: means over a batch, tensors without dimensions."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from operators.case import Case, matrices

SIZES = [(7, 37), (19, 5), (1, 2)]
TERMS = 300


def scores(v, n, c):
    """A row of scores for each sample, and the right classes."""
    return v(n, c), v.classes(c, n)


def signed(v, n, d):
    return v(n, d), v.signs(n, d)


def case(name, reference, inputs, constant=(), sizes=SIZES):
    return Case(name, reference, inputs, sizes, terms=TERMS, constant=constant)


def focal(x, target, gamma):
    p = torch.where(target == 1, torch.sigmoid(x), torch.sigmoid(-x))
    return (-((1 - p) ** gamma) * torch.log(p)).mean()


CASES = [
    case("mse_loss", F.mse_loss, matrices),
    case("l1_loss", F.l1_loss, matrices),
    case(
        "smooth_l1_loss",
        lambda x, y, beta: F.smooth_l1_loss(x, y, beta=beta),
        lambda v, n, d: (*matrices(v, n, d), 0.75),
    ),
    case(
        "huber_loss",
        lambda x, y, delta: F.huber_loss(x, y, delta=delta),
        lambda v, n, d: (*matrices(v, n, d), 0.75),
    ),
    case("cross_entropy", F.cross_entropy, scores),
    case(
        "cross_entropy",
        F.cross_entropy,
        lambda v, n, c: (v.between(-500, 500, n, c), v.classes(c, n)),
    ),
    case(
        "cross_entropy_weighted",
        F.cross_entropy,
        lambda v, n, c: (*scores(v, n, c), v.between(0.5, 2, c)),
        # PyTorch has no derivative of the weights.
        constant=(2,),
    ),
    case(
        "cross_entropy_smoothed",
        lambda x, y, smoothing: F.cross_entropy(x, y, label_smoothing=smoothing),
        lambda v, n, c: (*scores(v, n, c), 0.125),
    ),
    case(
        "cross_entropy_probabilities",
        F.cross_entropy,
        lambda v, n, c: (v(n, c), v.probabilities(n, c)),
    ),
    case("nll_loss", F.nll_loss, scores),
    case(
        "binary_cross_entropy",
        F.binary_cross_entropy,
        lambda v, n, d: (v.between(0.05, 0.95, n, d), v.between(0, 1, n, d)),
    ),
    case(
        "binary_cross_entropy",
        F.binary_cross_entropy,
        # Where a probability is 0 or 1, the logarithm is cut off.
        lambda v, n, d: (v.mask(n, d).to(v.dtype), v.between(0, 1, n, d)),
        constant=(0, 1),
    ),
    case(
        "binary_cross_entropy_with_logits",
        F.binary_cross_entropy_with_logits,
        lambda v, n, d: (v(n, d), v.between(0, 1, n, d)),
    ),
    case(
        "binary_cross_entropy_with_logits",
        F.binary_cross_entropy_with_logits,
        lambda v, n, d: (v.between(-200, 200, n, d), v.between(0, 1, n, d)),
    ),
    case(
        "kl_divergence",
        lambda x, y: F.kl_div(x, y, reduction="batchmean"),
        lambda v, n, d: (v.probabilities(n, d).log(), v.probabilities(n, d)),
    ),
    case(
        "hinge_loss",
        lambda x, y, margin: F.relu(margin - y * x).mean(),
        lambda v, n, d: (*signed(v, n, d), 0.75),
        constant=(1,),
    ),
    case(
        "hinge_embedding_loss",
        F.hinge_embedding_loss,
        lambda v, n, d: (*signed(v, n, d), 0.75),
        constant=(1,),
    ),
    case(
        "multi_margin_loss",
        lambda x, y, margin: F.multi_margin_loss(x, y, margin=margin),
        lambda v, n, c: (*scores(v, n, c), 0.75),
    ),
    case("soft_margin_loss", F.soft_margin_loss, signed, constant=(1,)),
    case(
        "cosine_embedding_loss",
        F.cosine_embedding_loss,
        lambda v, n, d: (*matrices(v, n, d), v.signs(n), 0.0625),
        constant=(2,),
    ),
    case(
        "triplet_margin_loss",
        F.triplet_margin_loss,
        lambda v, n, d: (v(n, d), v(n, d), v(n, d), 1.0),
    ),
    case(
        "margin_ranking_loss",
        F.margin_ranking_loss,
        lambda v, n: (v(n), v(n), v.signs(n), 0.25),
        constant=(2,),
        sizes=[(37,), (1,)],
    ),
    case("poisson_nll_loss", F.poisson_nll_loss, matrices),
    case(
        "gaussian_nll_loss",
        F.gaussian_nll_loss,
        lambda v, n, d: (*matrices(v, n, d), v.between(0.25, 2, n, d)),
    ),
    case(
        "focal_loss",
        focal,
        lambda v, n, d: (v(n, d), v.mask(n, d).to(v.dtype), 2.0),
        constant=(1,),
    ),
]
