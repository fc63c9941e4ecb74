"""Which statements share a loop over rows (csrc/poly/fuse.h, the rule for rows), and what layers of
several passes over a row compute."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from exact import integers

import tensor_comprehensions as tc

described = pytest.mark.usefixtures("described_machine")


def define(text: str) -> tc.TC:
    return tc.define(text, namespace="tc_fusion_of_rows")


def groups_of(text: str, *values: torch.Tensor) -> list[list[str]]:
    """The statements of every group, by the tensors that they write."""
    options = tc.MappingOptions().matchLibraryCalls(False)
    said = tc.compile(text, "f", options, *values).explain()
    parts = said.split("\ngroup ")[1:]
    return [re.findall(r"^  S\d+ +([\w.]+)\(", part, re.MULTILINE) for part in parts]


@described
def test_passes_over_the_same_rows_are_together() -> None:
    text = """def f(float(N,M) A) -> (O) {
      S(n) +=! A(n, m)
      O(n, m) = A(n, m) / S(n)
    }"""
    assert groups_of(text, torch.rand(256, 1024)) == [["S", "O"]]


@described
def test_a_matrix_is_not_written_by_columns_for_the_sake_of_a_vector() -> None:
    """V and what is made of it have n in common, below which O goes from row to row; x, which is
    consecutive there, is the same for all n."""
    text = """def f(float(M) x, float(N) y) -> (V, O) {
      V(n) = exp(y(n))
      O(m, n) = V(n) * x(m)
    }"""
    x, y = torch.rand(512), torch.rand(1024)
    assert groups_of(text, x, y) == [["V"], ["O"]]
    v, o = tc.define(text, namespace="tc_fusion_of_rows").f(x, y)
    torch.testing.assert_close(v, y.exp())
    torch.testing.assert_close(o, torch.outer(x, y.exp()))


@described
def test_rows_of_either_operand_of_a_transposition() -> None:
    """What is read is consecutive, though what is written is not."""
    text = """def f(float(N,M) A) -> (S, O) {
      S(n) +=! A(n, m)
      O(m, n) = A(n, m) - S(n)
    }"""
    a = torch.rand(256, 1024)
    assert groups_of(text, a) == [["S", "O"]]
    s, o = tc.define(text, namespace="tc_fusion_of_transposed_rows").f(a)
    torch.testing.assert_close(o, (a - s[:, None]).T)


@described
def test_what_all_rows_have_in_common_decides_where_nothing_else_does() -> None:
    """A sum over a table that every row weighs with one number."""
    text = """def f(float(N) w, float(K) t) -> (O, P) {
      O(n) +=! w(n) * t(k)
      P(n) max=! w(n) - t(k)
    }"""
    assert groups_of(text, torch.rand(256), torch.rand(1000)) == [["O", "P"]]


# ---- passes over a row

SOFTMAX = """
def softmax(float(N, D) I) -> (O, high, total) {
  high(n) max=! I(n, d)
  O(n, d) = exp(I(n, d) - high(n))
  total(n) +=! O(n, d)
  O(n, d) = O(n, d) / total(n)
}
"""
LAYER_NORM = """
def layer_norm(float(N, D) I, float(D) gamma, float(D) beta) -> (O, mean, var) {
  mean(n) +=! I(n, d)
  var(n) +=! I(n, d) * I(n, d)
  mean(n) = mean(n) / D
  var(n) = var(n) / D - mean(n) * mean(n)
  O(n, d) = gamma(d) * (I(n, d) - mean(n)) * rsqrt(var(n) + 1e-5) + beta(d)
}
"""
BATCH_NORM = """
def batch_norm(float(N, C, H, W) I) -> (O, mean, var) {
  mean(c) +=! I(n, c, h, w)
  var(c) +=! I(n, c, h, w) * I(n, c, h, w)
  mean(c) = mean(c) / (N * H * W)
  var(c) = var(c) / (N * H * W) - mean(c) * mean(c)
  O(n, c, h, w) = (I(n, c, h, w) - mean(c)) * rsqrt(var(c) + 1e-5)
}
"""


@pytest.mark.parametrize("sizes", [(3, 5), (16, 64), (17, 65), (40, 130), (64, 1000)])
def test_softmax(sizes: tuple[int, int]) -> None:
    x = torch.randn(*sizes) * 3
    out, high, total = define(SOFTMAX).softmax(x)
    torch.testing.assert_close(out, F.softmax(x, 1), rtol=1e-5, atol=0)
    assert torch.equal(high, x.amax(1))
    torch.testing.assert_close(total, torch.exp(x - x.amax(1, keepdim=True)).sum(1))


@pytest.mark.parametrize("sizes", [(3, 5), (17, 65), (33, 768)])
def test_layer_norm(sizes: tuple[int, int]) -> None:
    x, gamma, beta = torch.randn(*sizes), torch.randn(sizes[1]), torch.randn(sizes[1])
    out, mean, var = define(LAYER_NORM).layer_norm(x, gamma, beta)
    torch.testing.assert_close(out, F.layer_norm(x, sizes[1:], gamma, beta), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mean, x.mean(1), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(var, x.var(1, unbiased=False), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", [(2, 3, 4, 5), (4, 17, 9, 11)])
def test_batch_norm(sizes: tuple[int, ...]) -> None:
    x = torch.randn(*sizes)
    out, _, _ = define(BATCH_NORM).batch_norm(x)
    torch.testing.assert_close(
        out, F.batch_norm(x, None, None, training=True), rtol=1e-4, atol=1e-5
    )


def vector_loops(text: str, entry: str, *inputs: torch.Tensor) -> tuple[str, int]:
    nest = tc.compile(text, entry, "default", *inputs).loop_nest
    return nest, len(re.findall(r"^ *vector ", nest, re.M))


def test_passes_share_their_rows() -> None:
    nest, vectors = vector_loops(
        LAYER_NORM, "layer_norm", torch.randn(64, 1024), torch.randn(1024), torch.randn(1024)
    )
    assert nest.count("parallel") == 1, nest
    assert vectors == 2, nest  # both sums in one loop, then the result
    nest, vectors = vector_loops(SOFTMAX, "softmax", torch.randn(64, 1024))
    assert nest.count("parallel") == 1, nest
    assert vectors == 3, nest  # the exponentials are added up as they are made


TEMPORARIES = """
def standardize(float(N, D) I) -> (O) {
  mean(n) +=! I(n, d)
  centered(n, d) = I(n, d) - mean(n) / D
  var(n) +=! centered(n, d) * centered(n, d)
  O(n, d) = centered(n, d) * rsqrt(var(n) / D + 1e-5)
}
"""


@pytest.mark.parametrize("sizes", [(5, 7), (16, 64), (37, 100), (20, 5000), (16, 70_000)])
def test_temporaries_of_a_row(sizes: tuple[int, int]) -> None:
    x = torch.randn(*sizes)
    out = define(TEMPORARIES).standardize(x)
    torch.testing.assert_close(out, F.layer_norm(x, sizes[1:]), rtol=1e-4, atol=1e-5)
    nest, _ = vector_loops(TEMPORARIES, "standardize", torch.randn(64, 1024))
    assert re.search(r"centered\.private\[(1024|2048)\] of float32 on the stack", nest), nest


def test_temporaries_that_outlive_a_row() -> None:
    """Written under a condition, read by another row, or larger than what was written first."""
    t = define("""
    def outlive(float(N, D) I) -> (O, P) {
      T(n, d) = I(n, d)
      s(n) +=! T(n, d)
      O(n, d) = T(n, d) + s(n)
      P(n, d) = T(N - 1 - n, d) * 2
    }
    """)
    x = integers(40, 100)
    out, flipped = t.outlive(x)
    assert torch.equal(out, x + x.sum(1, keepdim=True))
    assert torch.equal(flipped, 2 * x.flip(0))


def test_few_or_short_rows_are_not_shared() -> None:
    """Fewer rows than threads, or rows of a few elements, are better off in passes of their own."""
    for sizes in ((2, 100_000), (5000, 8)):
        nest, _ = vector_loops(SOFTMAX, "softmax", torch.randn(*sizes))
        assert nest.count("parallel") > 1, nest


def test_a_matrix_product_keeps_its_blocks() -> None:
    """A row reduction after a matrix product does not pull the product into its rows."""
    text = """
    def product(float(M, K) A, float(K, N) B) -> (C, S) {
      C(m, n) +=! A(m, k) * B(k, n)
      S(m) +=! C(m, n)
    }
    """
    a, b = integers(64, 96), integers(96, 128)
    both = tc.compile(text, "product", "default", a, b)
    alone = tc.compile(
        "def product(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }",
        "product",
        "default",
        a,
        b,
    )
    assert alone.schedule_tree in both.schedule_tree
    c, s = both(a, b)
    assert torch.equal(c, a @ b)
    assert torch.equal(s, (a @ b).sum(1))


@described
def test_a_depthwise_convolution_keeps_its_blocks() -> None:
    """What interleaves its channels shares all loops but theirs, in which the sum would be for each
    point of a row by itself."""
    text = """def f(float(N,C,H,W) x, float(C,3,3) q) -> (O) {
      z(n, c, h, w) +=! x(n, c, h + r, w + s) * q(c, r, s)
      O(n, c, h, w) = c % 2 == 0 ? x(n, c / 2, h, w) : fmax(z(n, c / 2, h, w), 0) where c in 0:2 * C
    }"""
    x, q = integers(2, 8, 30, 30), integers(8, 3, 3)
    assert groups_of(text, x, q) == [["z"], ["O"]]
    convolved = F.relu(F.conv2d(x, q[:, None], groups=8))
    expected = torch.stack((x[:, :, :28, :28], convolved), 2).flatten(1, 2)
    assert torch.equal(define(text).f(x, q), expected)


EDGES = """def f(float(B,N,O) p, int32(B,N,K) I, float(B,N,C) x, float(O,C) W) -> (out) {
  s(b, n, o) +=! x(b, n, c) * W(o, c)
  a(b, n, k, o) = p(b, I(b, n, k), o) + s(b, n, o)
  out(b, n, o) max=! a(b, n, k, o) > 0 ? a(b, n, k, o) : 0.5 * a(b, n, k, o)
}"""


@described
def test_a_product_keeps_its_block_beside_what_has_more_dimensions() -> None:
    """Every point of the loops in common has several elements of a."""
    p, x, w = integers(2, 64, 32), integers(2, 64, 32), integers(32, 32)
    places = torch.randint(0, 64, (2, 64, 12), dtype=torch.int32)
    assert groups_of(EDGES, p, places, x, w)[0] == ["s"]
    gathered = torch.stack([p[b][places[b].long()] for b in range(2)])
    expected = F.leaky_relu(gathered + (x @ w.T)[:, :, None], 0.5).amax(2)
    assert torch.equal(define(EDGES).f(p, places, x, w), expected)


@described
def test_a_product_has_a_block_behind_what_has_more_dimensions() -> None:
    text = """def f(float(B,N,O) p, int32(B,N,K) I, float(B,N,C) x, float(O,C) W) -> (a, s) {
      a(b, n, k, o) = p(b, I(b, n, k), o)
      s(b, n, o) +=! x(b, n, c) * W(o, c)
    }"""
    p, x, w = integers(2, 64, 32), integers(2, 64, 32), integers(32, 32)
    places = torch.randint(0, 64, (2, 64, 12), dtype=torch.int32)
    assert groups_of(text, p, places, x, w) == [["a"], ["s"]]
    a, s = define(text).f(p, places, x, w)
    assert torch.equal(a, torch.stack([p[b][places[b].long()] for b in range(2)]))
    assert torch.equal(s, x @ w.T)


@described
def test_a_scan_has_no_block_to_keep() -> None:
    """Its states share the loops over sequences with what makes floats of them, which goes to the
    copies of the product behind them."""
    source = tc.ops.source("selective_scan")
    text = source[source.index("def selective_scan") :].replace("selective_scan", "f")
    sizes = (1, 8, 9), (1, 8, 9), (9, 16), (1, 8, 16), (1, 8, 16)
    assert groups_of(text, *map(torch.rand, sizes)) == [["time"], ["state.scan"], ["output"]]
