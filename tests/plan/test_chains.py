"""Clusters that hand a large tensor on slice by slice, inside common outer loops."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from workloads import WORKLOADS, floats

import tensor_comprehensions as tc

KRONECKER = next(w for w in WORKLOADS if w.name == "kronecker3")


@pytest.fixture(autouse=True)
def small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tensors are large here."""
    monkeypatch.setenv(
        "TC_MACHINE", "vector_bits=512,vector_registers=32,cores=2,cache_bytes=24576,library_rate=1"
    )


def run(text: str, *values: torch.Tensor, options: tc.MappingOptions | None = None) -> tuple:
    """The results and what was decided."""
    entry = text.split("(")[0].split()[-1]
    options = (options or tc.MappingOptions()).matchLibraryCalls(False)
    executor = tc.compile(text, entry, options, *values)
    results = executor(*values)
    return results if isinstance(results, tuple) else (results,), executor.explain()


def check(results: tuple, wanted: tuple) -> None:
    for result, reference in zip(results, wanted, strict=True):
        torch.testing.assert_close(result, reference, rtol=0, atol=1e-4)


def test_equal_sizes_do_not_fuse_two_products() -> None:
    # The zeros of O could share the loop over n with S, but not what is added to them.
    text = """def squares(float(B,M,K) X, float(B,K,N) V, float(B,N,N) W) -> (S, O) {
        S(b,m,n) +=! X(b,m,k) * V(b,k,n)
        O(b,m,p) +=! S(b,m,n) * W(b,n,p)
    }"""
    x, v, w = floats(8, 40, 36), floats(8, 36, 16), floats(8, 16, 16)
    results, decisions = run(text, x, v, w)
    assert decisions.count("a block of results in registers") == 2
    check(results, (x @ v, x @ v @ w))


def kronecker_values(m: int) -> tuple:
    return (*(floats(6, 12) for _ in range(3)), floats(m, 12, 12, 12))


def test_three_products_run_slice_by_slice() -> None:
    values = kronecker_values(19)
    results, decisions = run(KRONECKER.text, *values)
    assert "in one loop with the next group: m one by one (19)" in decisions
    assert decisions.count("in the loop of the group before: m one by one (19)") == 2
    check(results, KRONECKER.reference(*values))


def test_fewer_slices_than_threads_need_are_not_chained() -> None:
    values = kronecker_values(9)
    results, decisions = run(KRONECKER.text, *values)
    assert "in the loop" not in decisions
    check(results, KRONECKER.reference(*values))


def test_explicit_options_are_followed_to_the_letter() -> None:
    values = kronecker_values(19)
    options = tc.MappingOptions().tile([4, 4, 4, 4])
    results, decisions = run(KRONECKER.text, *values, options=options)
    assert "in the loop" not in decisions
    check(results, KRONECKER.reference(*values))


def test_a_private_tensor_between_two_products() -> None:
    # T is no result: a slice of it is all that is ever kept.
    text = """def pair(float(B,M,K) X, float(B,K,N) V, float(B,N,P) W) -> (O) {
        T(b,m,n) +=! X(b,m,k) * V(b,k,n)
        O(b,m,p) +=! T(b,m,n) * W(b,n,p)
    }"""
    x, v, w = floats(40, 14, 30), floats(40, 30, 20), floats(40, 20, 18)
    (result,), decisions = run(text, x, v, w)
    assert "in the loop of the group before: b one by one (40)" in decisions
    check((result,), (x @ v @ w,))


def test_a_reader_of_neighbouring_slices_waits_for_all() -> None:
    text = """def neighbours(float(B,M,K) X, float(B,K,N) V, float(B,N,P) W) -> (T, O) {
        T(b,m,n) +=! X(b,m,k) * V(b,k,n)
        O(b,m,p) +=! T((b + 1) % B,m,n) * W(b,n,p)
    }"""
    x, v, w = floats(40, 14, 30), floats(40, 30, 20), floats(40, 20, 18)
    results, decisions = run(text, x, v, w)
    assert "in the loop" not in decisions
    check(results, (x @ v, (x @ v).roll(-1, 0) @ w))


def test_a_loop_that_a_block_needs_stays_with_it() -> None:
    # Slices along b would leave the second product no rows to use W for.
    text = """def turned(float(B,M,K) X, float(B,K,N) V, float(M,N,P) W) -> (T, O) {
        T(b,m,n) +=! X(b,m,k) * V(b,k,n)
        O(m,b,p) +=! T(b,m,n) * W(m,n,p)
    }"""
    x, v, w = floats(32, 12, 30), floats(32, 30, 20), floats(12, 20, 18)
    results, decisions = run(text, x, v, w)
    assert "in the loop" not in decisions
    check(results, (x @ v, (x @ v).transpose(0, 1) @ w))


def test_an_elementwise_pass_before_two_products() -> None:
    text = """def passed(float(B,M,K) X, float(B,K,N) V, float(B,N,P) W) -> (T, S, O) {
        T(b,m,k) = X(b,m,k) * X(b,m,k) + 1
        S(b,m,n) +=! T(b,m,k) * V(b,k,n)
        O(b,m,p) +=! S(b,m,n) * W(b,n,p)
    }"""
    x, v, w = floats(40, 40, 36), floats(40, 36, 16), floats(40, 16, 16)
    results, decisions = run(text, x, v, w)
    assert decisions.count("in the loop of the group before: b one by one (40)") == 2
    t = x * x + 1
    check(results, (t, t @ v, t @ v @ w))


@pytest.mark.parametrize("heads", [(5, 8), (40, 1)])
def test_products_around_a_softmax(heads: tuple[int, int]) -> None:
    text = """def attention(float(B,H,I,D) Q, float(B,H,J,D) K, float(B,H,J,D) V) -> (O) {
        S(b,h,i,j) +=! Q(b,h,i,d) * K(b,h,j,d)
        M(b,h,i) max=! S(b,h,i,j)
        E(b,h,i,j) = exp(S(b,h,i,j) - M(b,h,i))
        L(b,h,i) +=! E(b,h,i,j)
        O(b,h,i,d) +=! E(b,h,i,j) / L(b,h,i) * V(b,h,j,d)
    }"""
    q, k, v = (floats(*heads, 20, 12) for _ in range(3))
    (result,), _ = run(text, q, k, v)
    check((result,), (F.softmax(q @ k.transpose(2, 3), -1) @ v,))


def test_slices_are_private_whatever_leads_into_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads under guards, whose places seem to lie beyond the slice where they are not made."""
    monkeypatch.setenv("TC_MACHINE", "vector_bits=512,cores=2,cache_bytes=200000")
    pooling = tc.ops.source("max_pooling_padded")
    numbers = {"kernel_h": 3, "kernel_w": 3, "stride_h": 2, "stride_w": 2}
    numbers |= {"padding_h": 1, "padding_w": 1}
    text = tc.grad_source(pooling, "max_pooling_padded", **numbers)
    x = torch.randn(2, 16, 90, 110, requires_grad=True)
    o = F.max_pool2d(x, 3, 2, 1)
    d = torch.randn_like(o)
    values = (x.detach(), *numbers.values(), o.detach(), d)
    executor = tc.compile(text, "max_pooling_padded_grad", None, *values)
    decisions = executor.explain()
    assert "in the loop of the group before: n one by one (32)" in decisions
    assert "workspace none" in decisions
    assert re.search(r"private +d_input.residues, d_output_share, output_ties, pad", decisions)
    check((executor(*values),), torch.autograd.grad(o, x, d))


def test_what_reaches_into_the_next_slice_is_not_private() -> None:
    text = """def smooth(float(N,H,W) X, float(W,W) V) -> (O) {
        S(n,h,w) +=! X(n,h,v) * V(v,w)
        O(n,h,w) +=! n - k >= 0 ? S(n - k, h, w) : 0 where n in 0:N, k in 0:2
    }"""
    x, v = floats(8, 40, 36), floats(36, 36)
    results, decisions = run(text, x, v)
    assert not re.search(r"private +S", decisions), decisions
    s = x @ v
    check(results, (s + F.pad(s, (0, 0, 0, 0, 1, 0))[:8],))


# ---- as the options say

SLICES = """def f(float(H,N,W) A, float(W,V) B, float(V,W) C) -> (T, O) {
    T(n,h,v) +=! A(h,n,w) * B(w,v)
    O(n,h,w) +=! T(n,h,v) * C(v,w)
}"""


def given(first: tuple[str, ...], second: tuple[str, ...]) -> tc.MappingOptions:
    return tc.MappingOptions().cluster("S0").inside(*first).cluster("S1").inside(*second, joined=1)


@pytest.mark.parametrize("loops", [(("n",), ("n",)), (("n", "h"), ("n", "h")), (("h",), ("h",))])
def test_given_loops_are_joined(loops: tuple) -> None:
    a, b, c = floats(32, 32, 24), floats(24, 40), floats(40, 24)
    results, decisions = run(SLICES, a, b, c, options=given(*loops))
    assert f"in the loop of the group before: {loops[0][0]} one by one (32)" in decisions
    t = a.transpose(0, 1) @ b
    check(results, (t, t @ c))


def test_fewer_of_the_given_loops_are_joined() -> None:
    text = """def f(float(N,H,W) A, float(H,W,V) B) -> (O) {
        T(n,h,w) = A(n,h,w) * A(n,h,w)
        O(n,h,v) +=! T(n,h,w) * B(h,w,v)
    }"""
    a, b = floats(20, 12, 24), floats(12, 24, 40)
    results, decisions = run(text, a, b, options=given(("n", "h"), ("n",)))
    assert "in one loop with the next group: n one by one (20), h one by one (12)" in decisions
    assert "in the loop of the group before: n one by one (20)\n" in decisions
    check(results, ((a * a).transpose(0, 1).bmm(b).transpose(0, 1),))


@pytest.mark.parametrize("height", [20, 32])
@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (("n",), ("h",), "inside loops over h, which are not the outermost loops around"),
        (("h",), ("n",), "inside loops over n, which are not the outermost loops around"),
        (("n", "h"), ("h", "n"), "over h, n, which are not the outermost loops around"),
        (("n", "h"), ("h",), "over h, which are not the outermost loops around"),
        (("n",), ("n", "h"), "over n, h, which are not the outermost loops around"),
        (("n",), (), "put S1 inside no loops and let it join those of the cluster before"),
    ],
)
def test_other_loops_are_not_joined(height: int, first: tuple, second: tuple, words: str) -> None:
    """They were, by position: results were wrong where the loops had as many iterations."""
    values = floats(height, 32, 24), floats(24, 40), floats(40, 24)
    with pytest.raises(tc.CompilationError) as refused:
        run(SLICES, *values, options=given(first, second))
    assert words in str(refused.value)
