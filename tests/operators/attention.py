"""Attention and its pieces."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from operators.case import Case, Values

# B, H, T, S, E, D
SIZES = [(2, 3, 7, 9, 5, 4), (1, 2, 12, 12, 16, 16), (1, 1, 1, 1, 1, 1)]


def queries(v: Values, b: int, h: int, t: int, s: int, e: int, d: int) -> tuple:
    return v(b, h, t, e), v(b, h, s, e), v(b, h, s, d)


def scores(v: Values, b: int, h: int, t: int, s: int) -> tuple:
    return (v(b, h, t, s),)


def masked(v: Values, b: int, h: int, t: int, s: int) -> tuple:
    mask = v.mask(t, s)
    mask[:, -1] = True  # a query that may see nothing has no softmax
    return v(b, h, t, s), mask


def masked_softmax(x, mask):
    return F.softmax(x.masked_fill(~mask, -torch.inf), 3)


def causal_softmax(x):
    return masked_softmax(x, torch.ones(x.shape[2:]).tril().bool())


def rotary(x, cosine, sine):
    x1, x2 = x.chunk(2, 3)
    return torch.cat((x1 * cosine - x2 * sine, x2 * cosine + x1 * sine), 3)


def rotary_inputs(v: Values, b: int, h: int, t: int, f: int) -> tuple:
    angles = v.between(-3, 3, t, f)
    return v(b, h, t, 2 * f), angles.cos(), angles.sin()


def attention(**options):
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options)


CASES = [
    Case(
        "attention_scores",
        lambda q, k: q @ k.mT / q.shape[3] ** 0.5,
        lambda v, *sizes: queries(v, *sizes)[:2],
        SIZES,
    ),
    Case("masked_softmax", masked_softmax, masked, [(2, 3, 7, 9), (1, 1, 1, 1)], digits=True),
    Case(
        "causal_softmax",
        causal_softmax,
        scores,
        [(2, 3, 7, 9), (1, 2, 20, 20), (1, 1, 1, 1)],
        digits=True,
    ),
    Case(
        "attention_values",
        lambda weights, values: weights @ values,
        lambda v, b, h, t, s, e, d: (v(b, h, t, s), v(b, h, s, d)),
        SIZES,
    ),
    Case("attention", attention(), queries, SIZES),
    Case("causal_attention", attention(is_causal=True), queries, SIZES),
    Case(
        "biased_attention",
        lambda q, k, v, bias: F.scaled_dot_product_attention(q, k, v, attn_mask=bias),
        lambda v, b, h, t, s, e, d: (*queries(v, b, h, t, s, e, d), v(t, s)),
        SIZES,
    ),
    Case(
        "grouped_query_attention",
        lambda q, k, v: F.scaled_dot_product_attention(q.flatten(1, 2), k, v, enable_gqa=True).view(
            *q.shape[:4], -1
        ),
        lambda v, b, g, h, t, s, e, d: (v(b, g, h, t, e), v(b, g, s, e), v(b, g, s, d)),
        [(2, 3, 2, 7, 9, 5, 4), (1, 1, 1, 1, 1, 1, 1)],
    ),
    Case(
        "attention_projection",
        lambda x, w: torch.einsum("nths,hes->nhte", x, w),
        lambda v, n, t, h, s, e: (v(n, t, h, s), v(h, e, s)),
        [(2, 7, 3, 5, 9), (1, 1, 1, 1, 1)],
    ),
    Case("rotary_embedding", rotary, rotary_inputs, [(2, 3, 5, 4), (1, 1, 1, 1)]),
]
