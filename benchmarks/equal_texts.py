"""Texts that say the same layer in two ways: how one writes it should not decide how fast it is.

python benchmarks/equal_texts.py [PART OF A NAME ...]

Of each pair, "ours" is the clumsy text (a division inside a sum, a function computed for indices
that it does not depend on, a temporary for every step, a condition around more than it guards), and
its peer the plain one. Both are our own kernels with default options, without library calls. The
clumsy one may take 1.1 times as long. Both give the same for all data, but for roundings: a
condition around a product is none of these, which keeps a NaN out that a zero beside it would not.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import command
import torch
from harness import Row, Rows

import tensor_comprehensions as tc

OURS = tc.MappingOptions().matchLibraryCalls(False)
#: Of the plain text's time, what the clumsy one may take.
MOST = 1.1


@dataclass(frozen=True)
class Pair:
    """The parameters and results of both texts, their statements, and what they are called with."""

    parameters: str
    results: str
    plain: str
    clumsy: str
    inputs: Callable[[], tuple[torch.Tensor, ...]]


def matrices(m: int, n: int, k: int, across: bool = False) -> Callable[[], tuple]:
    return lambda: (torch.randn(m, k), torch.randn(*((k, n) if across else (n, k))) / 8)


def also(
    inputs: Callable[[], tuple], *more: Callable[[], torch.Tensor]
) -> Callable[[], tuple[torch.Tensor, ...]]:
    return lambda: (*inputs(), *(make() for make in more))


def positive(*sizes: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.rand(*sizes) + 0.5


SCALES = {
    "rows of a product divided": Pair(
        "float(N, K) A, float(K, M) B, float(N) z",
        "C",
        "S(n, m) +=! A(n, k) * B(k, m)  C(n, m) = S(n, m) / z(n)",
        "C(n, m) +=! A(n, k) * B(k, m) / z(n)",
        also(matrices(256, 512, 512, across=True), positive(256)),
    ),
    "a product times a number": Pair(
        "float(M, K) A, float(N, K) B, float alpha",
        "C",
        "S(m, n) +=! A(m, k) * B(n, k)  C(m, n) = alpha * S(m, n)",
        "C(m, n) +=! alpha * A(m, k) * B(n, k)",
        lambda: (*matrices(128, 512, 512)(), 0.125),
    ),
    "scores over the root of their length": Pair(
        "float(B, H, S, D) Q, float(B, H, T, D) K",
        "O",
        "P(b, h, s, t) +=! Q(b, h, s, d) * K(b, h, t, d)\n"
        "O(b, h, s, t) = P(b, h, s, t) / sqrt(float(D))",
        "O(b, h, s, t) +=! Q(b, h, s, d) * K(b, h, t, d) / sqrt(float(D))",
        lambda: (torch.randn(2, 8, 128, 64), torch.randn(2, 8, 128, 64)),
    ),
    "a mean, term by term": Pair(
        "float(N, C, H, W) X",
        "O",
        "S(n, c) +=! X(n, c, h, w)  O(n, c) = S(n, c) / float(H * W)",
        "O(n, c) +=! X(n, c, h, w) / float(H * W)",
        lambda: (torch.randn(8, 64, 56, 56),),
    ),
    "weighted rows of a table, divided by the sum of weights": Pair(
        "float(E, D) T, int32(B, L) I, float(B, L) w, float(B) z",
        "O",
        "S(b, d) +=! T(I(b, l), d) * w(b, l)  O(b, d) = S(b, d) / z(b)",
        "O(b, d) +=! T(I(b, l), d) * w(b, l) / z(b)",
        lambda: (
            torch.randn(10000, 64),
            torch.randint(10000, (128, 20), dtype=torch.int32),
            torch.rand(128, 20),
            torch.rand(128) + 0.5,
        ),
    ),
}
FUNCTIONS = {
    "exponentials of an operand": Pair(
        "float(M, K) A, float(N, K) B",
        "C",
        "E(n, k) = exp(B(n, k))  C(m, n) +=! A(m, k) * E(n, k)",
        "C(m, n) +=! A(m, k) * exp(B(n, k))",
        matrices(128, 512, 512),
    ),
    "a scale along the reduction": Pair(
        "float(M, K) A, float(N, K) B, float(K) s",
        "C",
        "E(n, k) = B(n, k) * s(k)  C(m, n) +=! A(m, k) * E(n, k)",
        "C(m, n) +=! A(m, k) * s(k) * B(n, k)",
        also(matrices(128, 512, 512), positive(512)),
    ),
    "angles of positions": Pair(
        "float(B, S, H, D) X, float(D) f",
        "O",
        "c(s, d) = cos(s * f(d)) where s in 0:S  e(s, d) = sin(s * f(d)) where s in 0:S\n"
        "O(b, s, h, d) = X(b, s, h, d) * c(s, d) + X(b, s, h, D - 1 - d) * e(s, d)",
        "O(b, s, h, d) = X(b, s, h, d) * cos(s * f(d)) + X(b, s, h, D - 1 - d) * sin(s * f(d))"
        " where s in 0:S",
        lambda: (torch.randn(4, 256, 8, 64), torch.rand(64)),
    ),
    "normalization by channel": Pair(
        "float(N, C, H, W) X, float(C) mean, float(C) variance, float(C) g, float(C) b",
        "O",
        "a(c) = g(c) / sqrt(variance(c) + 1e-5)  e(c) = b(c) - mean(c) * a(c)\n"
        "O(n, c, h, w) = X(n, c, h, w) * a(c) + e(c)",
        "O(n, c, h, w) = (X(n, c, h, w) - mean(c)) / sqrt(variance(c) + 1e-5) * g(c) + b(c)",
        lambda: (torch.randn(8, 64, 28, 28), *(torch.rand(64) + 0.5 for _ in range(4))),
    ),
    "gated channels of a convolution": Pair(
        "float(N, C, H, W) X, float(F, C, KH, KW) V, float(C) g",
        "O",
        "U(f, c, p, q) = V(f, c, p, q) / (1.0 + exp(-g(c)))\n"
        "O(n, f, h, w) +=! X(n, c, h + p, w + q) * U(f, c, p, q)",
        "O(n, f, h, w) +=! X(n, c, h + p, w + q) * V(f, c, p, q) / (1.0 + exp(-g(c)))",
        lambda: (torch.randn(4, 32, 30, 30), torch.randn(32, 32, 3, 3) / 8, torch.randn(32)),
    ),
}
TEMPORARIES = {
    "a layer with bias and activation, step by step": Pair(
        "float(M, K) A, float(N, K) B, float(N) b",
        "O",
        "C(m, n) +=! A(m, k) * B(n, k)  O(m, n) = max(C(m, n) + b(n), 0.0)",
        "T(k, m) = A(m, k)  C(m, n) +=! T(k, m) * B(n, k)  D(m, n) = C(m, n) + b(n)\n"
        "F(m, n) = max(D(m, n), 0.0)  O(m, n) = F(m, n)",
        also(matrices(128, 512, 512), positive(512)),
    ),
    "three factors in one sum": Pair(
        "float(M, K) A, float(K, L) B, float(L, N) D",
        "O",
        "T(m, l) +=! A(m, k) * B(k, l)  O(m, n) +=! T(m, l) * D(l, n)",
        "O(m, n) +=! A(m, k) * B(k, l) * D(l, n)",
        lambda: (torch.randn(128, 128), torch.randn(128, 96) / 8, torch.randn(96, 128) / 8),
    ),
    "softmax with a temporary for every step": Pair(
        "float(N, D) X",
        "O",
        "M(n) max=! X(n, d)  E(n, d) = exp(X(n, d) - M(n))  S(n) +=! E(n, d)\n"
        "O(n, d) = E(n, d) / S(n)",
        "M(n) max=! X(n, d)  U(n, d) = X(n, d) - M(n)  E(n, d) = exp(U(n, d))  S(n) +=! E(n, d)\n"
        "Z(n, d) = S(n) where d in 0:D  O(n, d) = E(n, d) / Z(n, d)",
        lambda: (torch.randn(1024, 512),),
    ),
    "layer normalization with a temporary for every step": Pair(
        "float(N, D) X, float(D) g, float(D) b",
        "O",
        "S(n) +=! X(n, d)  V(n) +=! (X(n, d) - S(n) / float(D)) * (X(n, d) - S(n) / float(D))\n"
        "O(n, d) = (X(n, d) - S(n) / float(D)) * rsqrt(V(n) / float(D) + 1e-5) * g(d) + b(d)",
        "S(n) +=! X(n, d)  A(n) = S(n) / float(D)  U(n, d) = X(n, d) - A(n)\n"
        "W(n, d) = U(n, d) * U(n, d)  V(n) +=! W(n, d)\n"
        "R(n) = rsqrt(V(n) / float(D) + 1e-5)  Z(n, d) = U(n, d) * R(n)\n"
        "Y(n, d) = Z(n, d) * g(d)  O(n, d) = Y(n, d) + b(d)",
        lambda: (torch.randn(1024, 512), torch.rand(512), torch.rand(512)),
    ),
    "an activation in five statements": Pair(
        "float(N) X",
        "O",
        "O(n) = 0.5 * X(n) * (1.0 + tanh(0.79788456 * (X(n) + 0.044715 * X(n) * X(n) * X(n))))",
        "A(n) = X(n) * X(n) * X(n)  B(n) = X(n) + 0.044715 * A(n)  C(n) = tanh(0.79788456 * B(n))\n"
        "D(n) = 1.0 + C(n)  O(n) = 0.5 * X(n) * D(n)",
        lambda: (torch.randn(1 << 20),),
    ),
}
CONDITIONS = {
    "zeros around an image, inside the sum": Pair(
        "float(N, C, H, W) X, float(F, C, KH, KW) V",
        "O",
        "P(n, c, i, j) = i >= 1 && i <= H && j >= 1 && j <= W ? X(n, c, i - 1, j - 1) : 0.0"
        " where i in 0:H+2, j in 0:W+2\n"
        "O(n, f, h, w) +=! P(n, c, h + p, w + q) * V(f, c, p, q)",
        "O(n, f, h, w) +=! (h + p >= 1 && h + p <= H && w + q >= 1 && w + q <= W"
        " ? X(n, c, h + p - 1, w + q - 1) : 0.0) * V(f, c, p, q)"
        " where h in 0:H, w in 0:W, p in 0:KH, q in 0:KW",
        lambda: (torch.randn(4, 32, 28, 28), torch.randn(32, 32, 3, 3) / 8),
    ),
    "rows that a mask leaves out": Pair(
        "float(M, K) A, float(N, K) B, float(M) keep",
        "O",
        "C(m, n) +=! A(m, k) * B(n, k)  O(m, n) = keep(m) > 0.5 ? C(m, n) : 0.0",
        "O(m, n) +=! keep(m) > 0.5 ? A(m, k) * B(n, k) : 0.0",
        also(matrices(128, 512, 512), lambda: torch.rand(128)),
    ),
    "a causal softmax, masked at every use": Pair(
        "float(B, S, T) X",
        "O",
        "Y(b, s, t) = t <= s ? X(b, s, t) : -1e30  M(b, s) max=! Y(b, s, t)\n"
        "E(b, s, t) = exp(Y(b, s, t) - M(b, s))  Z(b, s) +=! E(b, s, t)\n"
        "O(b, s, t) = E(b, s, t) / Z(b, s)",
        "M(b, s) max=! t <= s ? X(b, s, t) : -1e30\n"
        "Z(b, s) +=! exp((t <= s ? X(b, s, t) : -1e30) - M(b, s))\n"
        "O(b, s, t) = exp((t <= s ? X(b, s, t) : -1e30) - M(b, s)) / Z(b, s)",
        lambda: (torch.randn(8, 256, 256),),
    ),
    "a sum over part of a range": Pair(
        "float(N, K) X",
        "O",
        "O(n) +=! X(n, k) where k in 0:K/2",
        "O(n) +=! k < K/2 ? X(n, k) : 0.0",
        lambda: (torch.randn(1024, 1024),),
    ),
    "two tensors side by side, by a condition": Pair(
        "float(N, K) X, float(N, K) Y",
        "O",
        "O(n, j) = j < K ? X(n, j) : Y(n, j - K) where j in 0:2*K",
        "A(n, j) = j < K ? X(n, j) : 0.0 where j in 0:2*K\n"
        "B(n, j) = j >= K ? Y(n, j - K) : 0.0 where j in 0:2*K  O(n, j) = A(n, j) + B(n, j)",
        lambda: (torch.randn(512, 512), torch.randn(512, 512)),
    ),
}
PAIRS = SCALES | FUNCTIONS | TEMPORARIES | CONDITIONS


def row(number: int, pair: Pair) -> Row:
    calls = []
    inputs = pair.inputs()
    for name, statements in (("plain", pair.plain), ("clumsy", pair.clumsy)):
        text = f"def {name}({pair.parameters}) -> ({pair.results}) {{ {statements} }}"
        operator = getattr(tc.define(text, OURS, namespace=f"tc_equal_texts_{number}"), name)
        calls.append(lambda operator=operator: operator(*inputs))
    return Row(calls[1], lambda: {"plain": calls[0]}, target=round(1 / MOST, 2))


def rows(options: argparse.Namespace) -> Rows:
    for number, (name, pair) in enumerate(PAIRS.items()):
        yield name, lambda given=(number, pair): row(*given)


if __name__ == "__main__":
    command.main("equal_texts", rows, command.parser(__doc__))
