"""What several sums have in common is summed once.

Values are small integers, so that sums are exact in every order.
"""

from __future__ import annotations

import re

import emulated
import pytest
import torch
from exact import integers

import tensor_comprehensions as tc
from tensor_comprehensions import reference

OWN = tc.MappingOptions().matchLibraryCalls(False)
HEAD = """def f(float(N, G, H) X, float(N, G, H) Y, float(G) w, float(N) v, float(N, G) m,
                     float(H) z) -> (O, P) """
VALUES = (
    *(integers(20, 6, 40), integers(20, 6, 40), integers(6), integers(20), integers(20, 6)),
    integers(40),
)

# The statements, and the sums that both read.
SHARED = {
    "factors behind the sum": (
        "{ O(n) +=! X(n, g, h) * w(g)  P(g) +=! X(n, g, h) * v(n) }",
        {"O.over_h"},
    ),
    "a product": (
        "{ O(n) +=! X(n, g, h) * w(g) * Y(n, g, h)  P(g) +=! Y(n, g, h) * (v(n) * X(n, g, h)) }",
        {"O.over_h"},
    ),
    "a difference": (
        "{ O(n) +=! X(n, g, h) * w(g) * (Y(n, g, h) - m(n, g))"
        "  P(g) +=! X(n, g, h) * (Y(n, g, h) - m(n, g)) }",
        {"O.over_h"},
    ),
    "other names": (
        "{ O(n) +=! X(n, a, b) * w(a)  P(k) +=! X(i, k, j) * v(i) }",
        {"O.over_b"},
    ),
    "a sum that goes on": (
        "{ O(n) = v(n)  O(n) += X(n, g, h) * w(g)  P(g) +=! X(n, g, h) }",
        {"O.over_h"},
    ),
    # One is what the other sums.
    "all of the first": ("{ O(n, g) +=! X(n, g, h)  P(g) +=! X(n, g, h) * v(n) }", set()),
    "the same": ("{ O(n, g) +=! X(n, g, h)  P(g, n) +=! X(n, g, h) }", set()),
    "the same and a factor": (
        "{ O(g, n) +=! X(n, g, h) * Y(n, g, h)"
        "  P(n, g) +=! X(n, g, h) * Y(n, g, h) * m(n, g) * 2 }",
        set(),
    ),
}


@pytest.mark.parametrize(("statements", "sums"), SHARED.values(), ids=SHARED)
def test_shared(statements: str, sums: set[str]) -> None:
    executor = tc.compile(HEAD + statements, "f", OWN, *VALUES)
    text = executor.explain()
    assert set(re.findall(r"\w+\.over_\w+", text)) == sums
    # X goes past once: the second sum has no index h.
    last = re.search(r"S\d+ +P\(.*\n(.*)", text)
    assert last and "h 40" not in last[1] and "240" not in last[1]
    for result, wanted in zip(executor(*VALUES), reference.run(HEAD + statements, "f", *VALUES)):
        assert torch.equal(result, wanted)


APART = {
    "different tensors": "{ O(n) +=! X(n, g, h) * w(g)  P(g) +=! Y(n, g, h) * v(n) }",
    "different places": "{ O(n) +=! X(n, g, h) * w(g)  P(g) +=! X(n, g, 39 - h) * v(n) }",
    "a factor that depends on all": "{ O(n) +=! X(n, g, h) * Y(n, g, h)  P(g) +=! X(n, g, h) }",
    "a factor along the sum": "{ O(n) +=! X(n, g, h) * z(h)  P(n) +=! X(n, g, h) * w(g) }",
    "extremes": "{ O(n, g) max=! X(n, g, h)  P(n, g) max=! X(n, g, h) }",
    "a part": "{ O(n, g) +=! X(n, g, h)  P(n, g) +=! X(n, g, h) where h in 0:39 }",
    "summed terms": "{ O(n) +=! X(n, g, h) + w(g)  P(g) +=! X(n, g, h) + v(n) }",
    "changed in between": "{ T(n, g, h) = X(n, g, h) * z(h)  O(n) +=! T(n, g, h) * w(g)"
    "  T(n, g, h) = T(n, g, h) + Y(n, g, h)  P(g) +=! T(n, g, h) * v(n) }",
    "few terms": "{ O(n) +=! m(n, g) * w(g)  P(n) +=! m(n, g) * w(g) * v(n) }",
}


@pytest.mark.parametrize("statements", APART.values(), ids=APART)
def test_apart(statements: str) -> None:
    executor = tc.compile(HEAD + statements, "f", OWN, *VALUES)
    assert ".over_" not in executor.explain()
    for result, wanted in zip(executor(*VALUES), reference.run(HEAD + statements, "f", *VALUES)):
        assert torch.equal(result, wanted)


def test_a_result_that_changes_is_not_read() -> None:
    text = HEAD + "{ O(n, g) +=! X(n, g, h)  O(n, g) = O(n, g) * 2  P(g) +=! X(n, g, h) * v(n) }"
    executor = tc.compile(text, "f", OWN, *VALUES)
    x, v = VALUES[0], VALUES[3]
    assert torch.equal(executor(*VALUES)[0], 2 * x.sum(2))
    assert torch.equal(executor(*VALUES)[1], torch.einsum("ngh,n->g", x, v))


def test_three_sums_of_one() -> None:
    text = """def f(float(N, G, H) X, float(G) w, float(N) v) -> (O, P, Q) {
        O(n) +=! X(n, g, h) * w(g)
        P(g) +=! X(n, g, h) * v(n)
        Q +=! X(n, g, h) * v(n) * w(g)
    }"""
    x, w, v = VALUES[0], VALUES[2], VALUES[3]
    executor = tc.compile(text, "f", OWN, x, w, v)
    assert set(re.findall(r"\w+\.over_\w+", executor.explain())) == {"O.over_h"}
    o, p, q = executor(x, w, v)
    assert torch.equal(o, torch.einsum("ngh,g->n", x, w))
    assert torch.equal(p, torch.einsum("ngh,n->g", x, v))
    assert torch.equal(q, torch.einsum("ngh,n,g->", x, v, w))


def test_cuda() -> None:
    statements, sums = SHARED["a product"]
    executor = tc.compile(HEAD + statements, "f", None, *VALUES, target="cuda:sm_90")
    assert set(re.findall(r"\w+\.over_\w+", executor.explain())) == sums
    results = torch.full((20,), torch.nan), torch.full((6,), torch.nan)
    emulated.run(executor, VALUES, results, initial=0)
    for result, wanted in zip(results, reference.run(HEAD + statements, "f", *VALUES)):
        assert torch.equal(result, wanted)


def test_the_loops_of_the_text_stay() -> None:
    statements, _ = SHARED["a product"]
    executor = tc.compile(HEAD + statements, "f", tc.MappingOptions("identity"), *VALUES)
    assert ".over_" not in executor.explain()
    for result, wanted in zip(executor(*VALUES), reference.run(HEAD + statements, "f", *VALUES)):
        assert torch.equal(result, wanted)


def test_the_gradient_of_a_group_normalization_reads_its_operands_twice() -> None:
    """Once for both sums of each channel, once for the result: Wu and He, Group Normalization."""
    text = tc.grad_source(tc.ops.source("group_normalization"), "group_normalization")
    sizes = (4, 4, 4, 8, 8)
    values = (integers(*sizes), integers(4, 4), integers(4, 4), 1e-5, integers(*sizes))
    found = tc.compile(text, "group_normalization_grad", OWN, *values).explain()
    assert "d_squares_sum.over_hw" in found
    assert "d_mean_sum.over_hw" in found
    assert not re.search(r"d_(weight|bias)\(.*d_output", found)


IN_PLACE = {
    "added to": "{ C(i) +=! A(i, k)  C(i) += A(i, k) * D(i, l) }",
    "begun anew": "{ C(i) +=! A(i, k)  E(i) = C(i) * 2  C(i) +=! A(i, k) * D(i, l) }",
}


@pytest.mark.parametrize("kind", IN_PLACE)
def test_a_sum_is_not_read_by_what_writes_it(kind: str) -> None:
    results = "(C, E)" if "E(i)" in IN_PLACE[kind] else "(C)"
    text = f"def f(float(N, K) A, float(N, L) D) -> {results} {IN_PLACE[kind]}"
    values = integers(64, 128), integers(64, 5)
    found, wanted = tc.compile(text, "f", OWN, *values)(*values), reference.run(text, "f", *values)
    for result, right in zip(*((r if isinstance(r, tuple) else (r,)) for r in (found, wanted))):
        assert torch.equal(result, right)


def sums_of(text: str, *values: torch.Tensor) -> set[str]:
    """The sums inside, of a definition whose results are right."""
    executor = tc.compile(text, "f", OWN, *values)
    for result, wanted in zip(executor(*values), reference.run(text, "f", *values)):
        assert torch.equal(result, wanted)
    return set(re.findall(r"\w+\.over_\w+", executor.explain()))


def test_products_of_gathered_rows() -> None:
    """The order of indices and of factors is one of each sum."""
    text = """def f(float(N, H, D) X, float(N, H, D) Y, int32(E) s, int32(E) t, float(E, H) p)
        -> (O, P) {
        O(h, e) +=! -(X(s(e), h, d) * Y(t(e), h, d)) * p(e, h)
        P(i, j) +=! Y(t(i), j, d) * X(s(i), j, d) }"""
    rows = [torch.randint(0, 9, (40,), dtype=torch.int32) for _ in range(2)]
    values = (integers(9, 4, 32), integers(9, 4, 32), *rows, integers(40, 4))
    assert sums_of(text, *values) == {"O.over_d"}
    swapped = text.replace("Y(t(i), j, d) * X(s(i), j, d)", "Y(s(i), j, d) * X(t(i), j, d)")
    assert sums_of(swapped, *values) == set()


def test_products_of_matrices() -> None:
    text = """def f(float(N, D) X, float(M, D) Y, float(M, N) p, float(N, M) q) -> (O, P) {
        O(n) +=! X(n, d) * Y(m, d) * p(m, n)
        P(m) +=! q(n, m) * Y(m, d) * X(n, d) }"""
    values = (integers(24, 32), integers(20, 32), integers(20, 24), integers(24, 20))
    assert sums_of(text, *values) == {"O.over_d"}


def test_sums_that_cost_less_apart() -> None:
    """Each has a sum of fewer points inside."""
    text = """def f(float(N, D) X, float(M, D) Y, float(M, L) p, float(N, L) q) -> (O, P) {
        O(n, l) +=! X(n, d) * Y(m, d) * p(m, l)
        P(m, l) +=! X(n, d) * Y(m, d) * q(n, l) }"""
    values = (integers(60, 50), integers(70, 50), integers(70, 3), integers(60, 3))
    assert sums_of(text, *values) == {"O.over_m", "P.over_n"}
