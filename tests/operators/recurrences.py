"""Linear recurrences, against their loops over time."""

from __future__ import annotations

import torch
from torch import Tensor

from operators.case import Case, Values

SERIES = [(2, 19, 5), (1, 8, 33), (1, 1, 1)]


def exponential_average(x: Tensor, decay: Tensor) -> Tensor:
    average, results = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        average = decay * average + (1 - decay) * x[:, t]
        results.append(average)
    return torch.stack(results, 1)


def discounted_sum(x: Tensor, discount: float) -> Tensor:
    total, results = torch.zeros_like(x[:, 0]), []
    for t in reversed(range(x.shape[1])):
        total = discount * total + x[:, t]
        results.append(total)
    return torch.stack(results[::-1], 1)


def discounted_returns(x: Tensor, ends: Tensor, discount: float) -> Tensor:
    total, results = torch.zeros_like(x[:, 0]), []
    for t in reversed(range(x.shape[1])):
        total = x[:, t] + discount * torch.where(ends[:, t], 0, total)
        results.append(total)
    return torch.stack(results[::-1], 1)


def linear_recurrence(x: Tensor, rate: Tensor) -> Tensor:
    state, results = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        state = torch.exp(rate[:, t]) * state + x[:, t]
        results.append(state)
    return torch.stack(results, 1)


def selective_scan(x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    state, results = x.new_zeros(x.shape[0], *a.shape), []
    for t in range(x.shape[1]):
        added = (delta[:, t] * x[:, t])[..., None] * b[:, t, None]
        state = torch.exp(delta[:, t, :, None] * a) * state + added
        results.append((state * c[:, t, None]).sum(2))
    return torch.stack(results, 1)


def wkv(key: Tensor, value: Tensor, decay: Tensor, bonus: Tensor) -> Tensor:
    weighted = weights = torch.zeros_like(key[:, 0])
    top = torch.full_like(weights, -torch.inf)
    results = []
    for t in range(key.shape[1]):
        level = torch.maximum(top, bonus + key[:, t])
        old, own = torch.exp(top - level), torch.exp(bonus + key[:, t] - level)
        results.append((old * weighted + own * value[:, t]) / (old * weights + own))
        level = torch.maximum(top - decay, key[:, t])
        old, own = torch.exp(top - decay - level), torch.exp(key[:, t] - level)
        weighted, weights, top = old * weighted + own * value[:, t], old * weights + own, level
    return torch.stack(results, 1)


def channels(v: Values, b: int, t: int, d: int) -> tuple:
    return v(b, t, d), v.between(0.25, 0.9375, d)


def rates(v: Values, b: int, t: int, d: int) -> tuple:
    return v(b, t, d), v.between(-1, 0, b, t, d)


def states(v: Values, b: int, t: int, d: int, n: int) -> tuple:
    return (
        v(b, t, d),
        v.between(0, 0.25, b, t, d),
        v.between(-2, -0.125, d, n),
        v(b, t, n),
        v(b, t, n),
    )


def mixed(v: Values, b: int, t: int, c: int) -> tuple:
    return v(b, t, c), v(b, t, c), v.between(0.0625, 2, c), v(c)


CASES = [
    Case("exponential_average", exponential_average, channels, SERIES),
    Case(
        "discounted_sum",
        discounted_sum,
        lambda v, b, t: (v(b, t), 0.9375),
        [(3, 37), (19, 8), (1, 1)],
    ),
    Case(
        "discounted_returns",
        discounted_returns,
        lambda v, b, t: (v(b, t), v.mask(b, t), 0.9375),
        [(3, 37), (19, 8), (1, 1)],
    ),
    Case("linear_recurrence", linear_recurrence, rates, SERIES),
    Case("wkv", wkv, mixed, SERIES),
    Case("selective_scan", selective_scan, states, [(2, 19, 5, 3), (1, 8, 9, 16), (1, 1, 1, 1)]),
]
