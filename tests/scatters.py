"""Texts whose left-hand side is scattered, with inputs and what NumPy makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

UFUNCS = {
    **{"+=": np.add, "*=": np.multiply, "min=": np.minimum, "max=": np.maximum},
    **{"&&=": np.logical_and, "||=": np.logical_or},
}


def integers(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Sums of small integers are exact in every order, so results must be equal."""
    return torch.randint(-3 if dtype.is_signed else 0, 4, sizes).to(dtype)


def places(count: int, *sizes: int) -> torch.Tensor:
    """Places in 0:count; none may be asked for where there are none."""
    return torch.randint(0, max(count, 1), sizes)


def combine_at(
    start: torch.Tensor, where: tuple, values: torch.Tensor, operator: str = "+="
) -> torch.Tensor:
    """``start`` with every value combined at its place, one after the other."""
    result = start.clone().numpy()
    where = tuple(w.numpy() if isinstance(w, torch.Tensor) else w for w in where)
    UFUNCS[operator].at(result, where, values.numpy())
    return torch.from_numpy(result)


def grid(*sizes: int) -> tuple[torch.Tensor, ...]:
    """Indices that broadcast against each other."""
    return tuple(torch.from_numpy(a) for a in np.ix_(*[np.arange(size) for size in sizes]))


@dataclass
class Scatter:
    name: str
    text: str
    make: Callable[[], tuple]
    reference: Callable[..., torch.Tensor]
    """Of the inputs, then of what the results start from, if that counts."""
    start: Callable[[], torch.Tensor] | None = None

    @property
    def entry(self) -> str:
        return self.text.split()[1].split("(")[0]


def _embedding(n: int, v: int, d: int) -> Scatter:
    return Scatter(
        f"embedding {n} {v} {d}",
        """def embedding_grad(float(N, D) G, int64(N) I, float(V, D) table) -> (float(V, D) T) {
             T(I(i), d) +=! G(i, d)
           }""",
        lambda: (integers(n, d), places(v, n), torch.empty(v, d)),
        lambda g, i, table: torch.zeros_like(table).index_add_(0, i, g),
    )


def _histogram(n: int, v: int) -> Scatter:
    return Scatter(
        f"histogram {n} {v}",
        "def histogram(int32(N) I, float(N) W, float(V) like) -> (float(V) H) {\n"
        "  H(I(i)) +=! W(i) }",
        lambda: (places(v, n).int(), integers(n), torch.empty(v)),
        lambda i, w, like: torch.bincount(i.long(), w.double(), like.numel()).float(),
    )


SCATTERS = [
    *[_embedding(*sizes) for sizes in [(37, 11, 19), (1, 1, 1), (300, 7, 64), (65, 1000, 130)]],
    *[
        _embedding(*sizes)
        for sizes in [(0, 5, 3), (4, 3, 0), (0, 0, 3), (700, 3, 1), (900, 40, 33)]
    ],
    *[_histogram(*sizes) for sizes in [(1000, 10), (33, 100), (0, 4), (5000, 1)]],
    Scatter(
        "large",
        "def large(float(N, D) G, int64(N) I) -> (float(5003, D) T) { T(I(i), d) +=! G(i, d) }",
        lambda: (integers(6400, 65), places(5003, 6400)),
        lambda g, i: torch.zeros(5003, g.shape[1]).index_add_(0, i, g),
    ),
    Scatter(
        "few results of many terms",
        "def few(float(N) G, int64(N) I) -> (float(3) T) { T(I(i)) +=! G(i) }",
        lambda: (integers(100003), places(3, 100003)),
        lambda g, i: torch.zeros(3).index_add_(0, i, g),
    ),
    Scatter(
        "columns",
        "def columns(float(N, D) G, int64(N) I) -> (float(D, 21) T) { T(d, I(i)) +=! G(i, d) }",
        lambda: (integers(57, 34), places(21, 57)),
        lambda g, i: torch.zeros(g.shape[1], 21).index_add_(1, i, g.t()),
    ),
    Scatter(
        "many columns",
        "def columns(float(D, N) G, int64(N) I) -> (float(D, 210) T) { T(d, I(i)) +=! G(d, i) }",
        lambda: (integers(300, 257), places(210, 257)),
        lambda g, i: torch.zeros(g.shape[0], 210).index_add_(1, i, g),
    ),
    Scatter(
        "two places",
        """def two(float(N, M) A, int32(N) I, uint8(N, M) J) -> (float(9, 13) T) {
             T(I(i), J(i, j)) +=! A(i, j)
           }""",
        lambda: (integers(41, 17), places(9, 41).int(), places(13, 41, 17).byte()),
        lambda a, i, j: combine_at(torch.zeros(9, 13), (i[:, None], j.long()), a),
    ),
    Scatter(
        "between plain indices",
        """def between(float(N, B, D) A, int64(B, N) I) -> (float(B, 6, D) T) {
             T(b, I(b, i), d) +=! A(i, b, d)
           }""",
        lambda: (integers(23, 5, 18), places(6, 5, 23)),
        lambda a, i: combine_at(
            torch.zeros(5, 6, 18),
            (grid(5, 23, 18)[0], i[:, :, None], grid(5, 23, 18)[2]),
            a.transpose(0, 1),
        ),
    ),
    Scatter(
        "places that depend on a plain index",
        "def each(float(N, D) A, int64(N, D) I) -> (float(7, D) T) { T(I(i, d), d) +=! A(i, d) }",
        lambda: (integers(30, 35), places(7, 30, 35)),
        lambda a, i: torch.zeros(7, 35).scatter_add_(0, i, a),
    ),
    Scatter(
        "gathers on both sides",
        """def both(float(M, D) X, int64(E) From, int64(E) To, float(E) W) -> (float(31, D) Y) {
             Y(To(e), d) +=! W(e) * X(From(e), d)
           }""",
        lambda: (integers(12, 20), places(12, 111), places(31, 111), integers(111)),
        lambda x, source, to, w: torch.zeros(31, 20).index_add_(0, to, w[:, None] * x[source]),
    ),
    Scatter(
        "window",
        """def window(float(N, K) A) -> (float(40) O) { O(2 * i + k) +=! A(i, k) }""",
        lambda: (integers(18, 5),),
        lambda a: combine_at(torch.zeros(40), (2 * grid(18, 5)[0] + grid(18, 5)[1],), a),
    ),
    Scatter(
        "long window",
        """def window(float(N, K) A) -> (float(1003) O) { O(i + k) +=! A(i, k) }""",
        lambda: (integers(1001, 3),),
        lambda a: combine_at(torch.zeros(1003), (grid(1001, 3)[0] + grid(1001, 3)[1],), a),
    ),
    Scatter(
        "window with bounded index",
        """def window(float(N) A) -> (float(6) O) { O(3 * i + 1) +=! A(i) }""",
        lambda: (integers(50),),
        lambda a: combine_at(torch.zeros(6), (torch.tensor([1, 4]),), a[:2]),
    ),
    Scatter(
        "transposed convolution",
        """def transposed(float(B, H, W, C) X, float(C, F, R, S) K) -> (float(B, 13, 15, F) Y) {
             Y(b, 2 * h + r, 2 * w + s, f) +=! X(b, h, w, c) * K(c, f, r, s)
           }""",
        lambda: (integers(2, 6, 7, 4), integers(4, 5, 3, 3)),
        lambda x, k: torch.nn.functional.conv_transpose2d(
            x.permute(0, 3, 1, 2), k, stride=2
        ).permute(0, 2, 3, 1),
    ),
    Scatter(
        "one place",
        """def place(float(N, D) A) -> (float(3, D) T) { T(1, d) +=! A(i, d) }""",
        lambda: (integers(14, 9),),
        lambda a: torch.stack([torch.zeros(9), a.sum(0), torch.zeros(9)]),
    ),
    Scatter(
        "one point",
        """def point(float(D) A) -> (float(3, D) T) { T(2, d) +=! A(d) }""",
        lambda: (integers(37),),
        lambda a: torch.stack([torch.zeros(37), torch.zeros(37), a]),
    ),
    Scatter(
        "diagonal",
        """def diagonal(float(N) A) -> (float(N, 40) T) { T(i, i + 2) +=! A(i) }""",
        lambda: (integers(21),),
        lambda a: torch.nn.functional.pad(torch.diag(a, 2)[:21], (0, 17)),
    ),
    Scatter(
        "plain range",
        """def part(float(N, D) A, int64(N) I) -> (float(5, 12) T) {
             T(v, d) = 1 where v in 0:5, d in 0:12
             T(I(i), d) +=! A(i, d - 3) where d in 3:9
           }""",
        lambda: (integers(16, 6), places(5, 16)),
        lambda a, i: torch.cat(
            [
                torch.ones(5, 3),
                torch.zeros(5, 6).index_add_(0, i, a),
                torch.ones(5, 3),
            ],
            1,
        ),
    ),
    Scatter(
        "earlier values",
        """def update(float(V) B, float(N) A, int64(N) I) -> (O) {
             O(v) = B(v)
             O(I(i)) += A(i)
           }""",
        lambda: (integers(19), integers(33), places(19, 33)),
        lambda b, a, i: b.index_add(0, i, a),
    ),
    Scatter(
        "caller's values",
        "def into(float(N, D) A, int64(N) I, int64(V) like) -> (float(V, D) O) {\n"
        "  O(I(i), d) += A(i, d) }",
        lambda: (integers(33, 6), places(8, 33), torch.empty(8).long()),
        lambda a, i, like, start: start.index_add(0, i, a),
        lambda: integers(8, 6),
    ),
    Scatter(
        "temporary",
        """def temporary(float(N, D) A, int64(N) I, float(V) S) -> (O) {
             T(v, d) = 0 where v in 0:V
             T(I(i), d) += A(i, d)
             O(v, d) = S(v) * T(v, d)
           }""",
        lambda: (integers(33, 16), places(8, 33), integers(8)),
        lambda a, i, s: s[:, None] * torch.zeros(8, 16).index_add_(0, i, a),
    ),
    Scatter(
        "read later",
        """def normalized(float(N) A, int64(N) I) -> (float(N) O, float(6) S) {
             S(I(i)) +=! A(i) * A(i)
             O(i) = 2 * S(I(i)) + A(i)
           }""",
        lambda: (integers(33), places(6, 33)),
        lambda a, i: (
            2 * torch.zeros(6).index_add_(0, i, a * a)[i] + a,
            torch.zeros(6).index_add_(0, i, a * a),
        ),
    ),
    Scatter(
        "places computed before",
        """def computed(float(N) A, int64(N) I) -> (float(50) O) {
             P(i) = 2 * I(i) + 1
             O(P(i)) +=! A(i)
           }""",
        lambda: (integers(61), places(20, 61)),
        lambda a, i: torch.zeros(50).index_add_(0, 2 * i + 1, a),
    ),
    Scatter(
        "lets and scalars",
        """def lets(float(N, D) A, int64(N) I, int32 shift) -> (float(30, D) O) {
             O(place, d) +=! A(i, d) where place = I(i) + shift
           }""",
        lambda: (integers(61, 3), places(20, 61), 7),
        lambda a, i, shift: torch.zeros(30, 3).index_add_(0, i + shift, a),
    ),
    Scatter(
        "scalar",
        """def scalar(float(N, D) A, int32 row) -> (float(5, D) O) { O(row, d) +=! A(i, d) }""",
        lambda: (integers(12, 7), 3),
        lambda a, row: torch.zeros(5, 7).index_add_(0, torch.full((12,), row), a),
    ),
    Scatter(
        "range that starts above 0",
        """def above(float(N) A, int64(N) I) -> (O) {
             O(v) = 5 where v in 10:30
             O(I(i) + 10) += A(i)
           }""",
        lambda: (integers(61), places(20, 61)),
        lambda a, i: torch.full((20,), 5.0).index_add_(0, i, a),
    ),
    Scatter(
        "terms of one place",
        """def inner(float(N, K) A, float(K, D) B, int64(N) I) -> (float(11, D) O) {
             O(I(i), d) +=! A(i, k) * B(k, d)
           }""",
        lambda: (integers(45, 30), integers(30, 17), places(11, 45)),
        lambda a, b, i: torch.zeros(11, 17).index_add_(0, i, a @ b),
    ),
    Scatter(
        "merged indices",
        """def batch(float(B, L, D) G, int64(B, L) I) -> (float(15, D) T) {
             T(I(b, l), d) +=! G(b, l, d)
           }""",
        lambda: (integers(6, 7, 8), places(15, 6, 7)),
        lambda g, i: torch.zeros(15, 8).index_add_(0, i.flatten(), g.flatten(0, 1)),
    ),
    Scatter(
        "condition",
        """def condition(float(N) A, int64(N) I) -> (float(9) T) {
             T(I(i) < 0 ? 8 : I(i)) +=! A(i)
           }""",
        lambda: (integers(46), places(9, 46) - 1),
        lambda a, i: torch.zeros(9).index_add_(0, torch.where(i < 0, 8, i), a),
    ),
]
