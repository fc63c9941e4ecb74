"""Products of vectors, matrices and tensors."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F

from operators.case import Case, Values, matrices, matrix

SIZES = [(13, 37, 21), (33, 9, 70), (1, 1, 1)]
BATCHES = [(5, 13, 31, 17), (2, 8, 3, 40), (1, 1, 1, 1)]


def with_bias(v: Values, m: int, k: int, n: int) -> tuple:
    return v(m, n), v(m, k), v(k, n), 0.5, -2.0


def kronecker_3(w0, w1, w2, x):
    xw2 = torch.einsum("mabc,dc->mabd", x, w2)
    xw2w1 = torch.einsum("mabd,eb->maed", xw2, w1)
    return torch.einsum("ai,bj,ck,mijk->mabc", w0, w1, w2, x), xw2, xw2w1


def layers(v: Values, batch: int, *widths: int) -> tuple:
    """Rows, then a weight and a bias for every layer."""
    parameters = [x for m, n in pairwise(widths) for x in (v(n, m), v(n))]
    return (v(batch, widths[0]), *parameters)


def mlp(x, *parameters):
    results = []
    for weight, bias in zip(parameters[::2], parameters[1::2], strict=True):
        x = F.relu(F.linear(x, weight, bias))
        results.append(x)
    return tuple(results)


def feed_forward(x, weight1, bias1, weight2, bias2):
    return F.linear(F.gelu(F.linear(x, weight1, bias1)), weight2, bias2)


def bags(table, index):
    return F.embedding_bag(index.long(), table, mode="sum")


def production_model(table1, index1, table2, index2, dense, projection, *parameters):
    stages = (bags(table1, index1), bags(table2, index2), F.linear(dense, projection))
    joined = torch.cat(stages, 1)
    return (*stages, joined, *mlp(joined, *parameters))


def production_inputs(v: Values, batch: int, d: int, y: int) -> tuple:
    parameters = layers(v, batch, 2 * d + y, 11, 9, 5, 2)[1:]
    tables = (v(50, d), v.integers(0, 50, batch, 7), v(40, d), v.integers(0, 40, batch, 3))
    return (*tables, v(batch, 13), v(y, 13), *parameters)


def lookup(v: Values, rows: int, columns: int, bags_: int, length: int) -> tuple:
    return v(rows, columns), v.integers(0, rows, bags_, length)


def embedding_bag(mode: str):
    return lambda table, index: F.embedding_bag(index.long(), table, mode=mode)


LOOKUPS = [(50, 19, 6, 7), (3, 40, 2, 5), (1, 1, 1, 1)]

CASES = [
    Case("matmul", torch.mm, lambda v, m, k, n: (v(m, k), v(k, n)), SIZES),
    Case(
        "matmul_transposed_a",
        lambda a, b: a.t() @ b,
        lambda v, m, k, n: (v(k, m), v(k, n)),
        SIZES,
    ),
    Case(
        "matmul_transposed_b",
        lambda a, b: a @ b.t(),
        lambda v, m, k, n: (v(m, k), v(n, k)),
        SIZES,
    ),
    Case(
        "matmul_transposed_both",
        lambda a, b: a.t() @ b.t(),
        lambda v, m, k, n: (v(k, m), v(n, k)),
        SIZES,
    ),
    Case(
        "addmm",
        lambda c, a, b, beta, alpha: torch.addmm(c, a, b, beta=beta, alpha=alpha),
        with_bias,
        SIZES,
    ),
    Case(
        "quantized_matmul",
        lambda a, b: a.int() @ b.int().t(),
        lambda v, m, k, n: (
            v.integers(0, 256, m, k, dtype=torch.uint8),
            v.integers(-128, 128, n, k, dtype=torch.int8),
        ),
        SIZES,
    ),
    Case("batched_matmul", torch.bmm, lambda v, b, m, k, n: (v(b, m, k), v(b, k, n)), BATCHES),
    Case(
        "batched_matmul_transposed_a",
        lambda x, y: x.mT @ y,
        lambda v, b, m, k, n: (v(b, k, m), v(b, k, n)),
        BATCHES,
    ),
    Case(
        "batched_matmul_transposed_b",
        lambda x, y: x @ y.mT,
        lambda v, b, m, k, n: (v(b, m, k), v(b, n, k)),
        BATCHES,
    ),
    Case(
        "batched_matmul_transposed_both",
        lambda x, y: x.mT @ y.mT,
        lambda v, b, m, k, n: (v(b, k, m), v(b, n, k)),
        BATCHES,
    ),
    Case(
        "batched_matmul_shared",
        lambda x, y: x @ y,
        lambda v, b, m, k, n: (v(b, m, k), v(k, n)),
        BATCHES,
    ),
    Case(
        "baddbmm",
        lambda c, x, y, beta, alpha: torch.baddbmm(c, x, y, beta=beta, alpha=alpha),
        lambda v, b, m, k, n: (v(b, m, n), v(b, m, k), v(b, k, n), -1.5, 0.25),
        BATCHES,
    ),
    # ---- vectors
    Case("dot", torch.dot, lambda v, n: (v(n), v(n)), [(61,), (1,)]),
    Case("dot_rows", torch.linalg.vecdot, matrices, [(7, 37), (19, 5), (1, 1)]),
    Case("matrix_vector", torch.mv, lambda v, m, k: (v(m, k), v(k)), [(23, 35), (1, 1)]),
    Case(
        "matrix_vector_transposed",
        lambda a, x: a.t() @ x,
        lambda v, m, k: (v(k, m), v(k)),
        [(23, 35), (1, 1)],
    ),
    Case(
        "addmv",
        lambda c, a, x, beta, alpha: torch.addmv(c, a, x, beta=beta, alpha=alpha),
        lambda v, m, k: (v(m), v(m, k), v(k), 2.0, -0.75),
        [(23, 35), (1, 1)],
    ),
    Case("outer", torch.outer, lambda v, m, n: (v(m), v(n)), [(13, 22), (1, 1)]),
    Case(
        "quadratic_form",
        lambda x, a, y: x @ a @ y,
        lambda v, m, n: (v(m), v(m, n), v(n)),
        [(13, 22), (1, 1)],
        terms=300,
    ),
    Case("cross", torch.linalg.cross, lambda v, n: (v(n, 3), v(n, 3)), [(11,), (1,)]),
    # ---- diagonals
    Case("diagonal", torch.diagonal, matrix, [(5, 9), (9, 5), (1, 1)]),
    Case("trace", torch.trace, matrix, [(5, 9), (9, 5), (1, 1)]),
    Case("diagonal_matrix", torch.diag, lambda v, n: (v(n),), [(11,), (1,)]),
    *(
        Case(
            name,
            function,
            lambda v, m, n, diagonal: (v(m, n), diagonal),
            [(7, 9, 0), (9, 7, 2), (6, 6, -3), (1, 1, 1)],
        )
        for name, function in (("lower_triangle", torch.tril), ("upper_triangle", torch.triu))
    ),
    # ---- Kronecker, tensors
    Case(
        "kronecker",
        torch.kron,
        lambda v, m, n, p, q: (v(m, n), v(p, q)),
        [(3, 4, 5, 6), (2, 1, 7, 3), (1, 1, 1, 1)],
    ),
    Case(
        "kronecker_3",
        kronecker_3,
        lambda v, m, n0, n1, n2: (v(3, n0), v(4, n1), v(5, n2), v(m, n0, n1, n2)),
        [(8, 5, 6, 7), (1, 1, 2, 1)],
        terms=210,
    ),
    Case(
        "khatri_rao",
        lambda a, b: torch.einsum("ir,jr->ijr", a, b),
        lambda v, i, j, r: (v(i, r), v(j, r)),
        [(5, 7, 9), (1, 1, 1)],
    ),
    Case(
        "outer_product_matmul",
        lambda a, b: torch.einsum("pqr,srt->psqt", a, b),
        lambda v, p, q, r, s, t: (v(p, q, r), v(s, r, t)),
        [(3, 5, 7, 4, 18), (1, 1, 1, 1, 1)],
    ),
    Case(
        "mttkrp",
        lambda b, c, d: torch.einsum("ikl,kj,lj->ij", b, c, d),
        lambda v, i, j, k, l_: (v(i, k, l_), v(k, j), v(l_, j)),
        [(6, 18, 7, 8), (1, 1, 1, 1)],
    ),
    Case(
        "tensor_times_vector",
        lambda b, c: torch.einsum("ijk,k->ij", b, c),
        lambda v, i, j, k: (v(i, j, k), v(k)),
        [(5, 7, 9), (1, 1, 1)],
    ),
    Case(
        "tensor_times_matrix",
        lambda b, c: torch.einsum("ijk,lk->ijl", b, c),
        lambda v, i, j, k, l_: (v(i, j, k), v(l_, k)),
        [(5, 7, 9, 6), (1, 1, 1, 1)],
    ),
    Case(
        "sampled_matmul",
        lambda b, c, d: b * (c @ d),
        lambda v, i, j, k: (v(i, j), v(i, k), v(k, j)),
        [(5, 17, 9), (1, 1, 1)],
    ),
    Case(
        "tucker",
        lambda g, a, b, c: torch.einsum("abc,ia,jb,kc->ijk", g, a, b, c),
        lambda v, p, q, r: (v(p, q, r), v(5, p), v(6, q), v(7, r)),
        [(3, 4, 5), (1, 1, 1)],
    ),
    Case(
        "canonical_polyadic",
        lambda a, b, c: torch.einsum("ir,jr,kr->ijk", a, b, c),
        lambda v, i, j, k, r: (v(i, r), v(j, r), v(k, r)),
        [(5, 6, 7, 9), (1, 1, 1, 1)],
    ),
    Case(
        "bilinear",
        F.bilinear,
        lambda v, n, i, j, o: (v(n, i), v(n, j), v(o, i, j), v(o)),
        [(5, 7, 9, 4), (1, 1, 1, 1)],
    ),
    # ---- fully connected
    Case(
        "linear",
        F.linear,
        lambda v, n, i, o: (v(n, i), v(o, i), v(o)),
        [(7, 45, 18), (1, 1, 1)],
    ),
    *(
        Case(f"mlp{len(widths) - 1}", mlp, layers, [(7, *widths), (1, *[1] * len(widths))])
        for widths in ((45, 18), (13, 11, 6), (13, 11, 6, 2), (13, 11, 9, 6, 2))
    ),
    Case(
        "feed_forward",
        feed_forward,
        lambda v, t, d, f: (v(t, d), v(f, d), v(f), v(d, f), v(d)),
        [(5, 11, 23), (1, 1, 1)],
    ),
    Case(
        "production_model", production_model, production_inputs, [(6, 19, 8), (1, 1, 1)], terms=200
    ),
    # ---- lookup tables
    Case("lookup_table", bags, lookup, LOOKUPS),
    Case("lookup_table_mean", embedding_bag("mean"), lookup, LOOKUPS),
    Case("lookup_table_max", embedding_bag("max"), lookup, LOOKUPS),
    Case(
        "two_lookup_tables",
        lambda t1, i1, t2, i2: (bags(t1, i1), bags(t2, i2)),
        lambda v, d1, d2, b: (
            v(50, d1),
            v.integers(0, 50, b, 7),
            v(40, d2),
            v.integers(0, 40, b, 3),
        ),
        [(19, 21, 6), (1, 1, 1)],
    ),
    Case(
        "dense_and_lookup_tables",
        lambda x, i1, i2, w, b, t1, t2: (F.linear(x, w, b), bags(t1, i1), bags(t2, i2)),
        lambda v, b, m, n, d: (
            v(b, m),
            v.integers(0, 50, b, 7),
            v.integers(0, 40, b, 3),
            v(n, m),
            v(n),
            v(50, d),
            v(40, d),
        ),
        [(6, 19, 21, 8), (1, 1, 1, 1)],
    ),
    Case(
        "lookup_table_weighted",
        lambda t, i, w: F.embedding_bag(i.long(), t, mode="sum", per_sample_weights=w),
        lambda v, e, d, b, l_: (*lookup(v, e, d, b, l_), v(b, l_)),
        LOOKUPS,
    ),
    Case("embedding", lambda table, index: F.embedding(index, table), lookup, LOOKUPS),
    Case(
        "take",
        lambda x, i: x[i.long()],
        lambda v, n, a, b: (v(n), v.integers(0, n, a, b)),
        [(30, 7, 20), (1, 1, 1)],
    ),
    Case(
        "index_select",
        lambda x, i: torch.index_select(x, 0, i),
        lambda v, m, n, k: (v(m, n), v.integers(0, m, k)),
        [(30, 7, 20), (1, 1, 1)],
    ),
    Case(
        "gather",
        lambda x, i: torch.gather(x, 1, i),
        lambda v, m, n, k: (v(m, n), v.classes(n, m, k)),
        [(9, 17, 4), (1, 1, 1)],
    ),
    Case(
        "one_hot",
        lambda i, classes: F.one_hot(i, classes).double(),
        lambda v, n, classes: (v.classes(classes, n), classes),
        [(9, 17), (1, 1)],
    ),
]
