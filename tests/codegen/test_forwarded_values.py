"""Values that only the iteration uses that makes them need no memory."""

from __future__ import annotations

import re

import pytest
import torch

import tensor_comprehensions as tc
from tensor_comprehensions import reference

OWN = tc.MappingOptions().matchLibraryCalls(False)


def workspaces(executor: tc.Executor) -> str:
    return re.search(r"workspace +(.*)", executor.explain())[1]


def compiled(text: str, *values: object, least: float = 1e-6) -> tc.Executor:
    """Compared with the interpreter; `least` is what sums may lose of what is small."""
    executor = tc.compile(text, "f", OWN, *values)
    wanted = reference.run(text, "f", *values)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    results = executor(*values)
    results = results if isinstance(results, tuple) else (results,)
    for ours, theirs in zip(results, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=least)
    return executor


PASSED = {
    # Sizes that are and are not whole vectors, in one piece and in tasks.
    "a chain": "{ e(i) = exp(x(i))  d(i) = 1 + e(i)  O(i) = e(i) / (d(i) * d(i)) }",
    "a condition": "{ e(i) = exp(x(i))  O(i) = x(i) > 0 ? e(i) * e(i) : y(i) }",
    "two results": "{ e(i) = x(i) * y(i)  O(i) = e(i) + e(i) * x(i)  P(i) = e(i) - e(i) * y(i) }",
    "another type": "{ e(i) = double(x(i)) * y(i)  O(i) = float(e(i) * e(i)) }",
    "truths": "{ e(i) = x(i) > y(i)  O(i) = e(i) ? x(i) : e(i) || y(i) > 1 ? 1 : y(i) }",
}


@pytest.mark.parametrize("size", [1, 5, 16, 100, 1003, 70000])
@pytest.mark.parametrize("body", PASSED.values(), ids=PASSED)
def test_elementwise_chains(body: str, size: int) -> None:
    results = "(O, P)" if "P(i)" in body else "(O)"
    text = f"def f(float(N) x, float(N) y) -> {results} {body}"
    executor = compiled(text, torch.randn(size), torch.randn(size))
    assert workspaces(executor) == "none"


def test_an_element_in_another_iteration_is_kept() -> None:
    text = """def f(float(N) x) -> (O) {
        e(i) = x(i) * x(i)
        O(i) = e(i + 1) * e(i) where i in 0:N - 1
    }"""
    assert workspaces(compiled(text, torch.randn(100000))).startswith("e ")


def test_an_element_that_changes_in_between_is_kept() -> None:
    text = """def f(float(N) x) -> (O, P) {
        e(i) = x(i) * x(i)
        O(i) = e(i) + 1
        e(i) = e(i) * 2
        P(i) = e(i) + O(i)
    }"""
    assert workspaces(compiled(text, torch.randn(1003))) == "none"


def test_what_nothing_reads() -> None:
    """Lines of it are asked for ahead, as they are written: its place has to be known."""
    text = """def f(int32(M, R) A, int32(N, M) B) -> (O) {
        O(n) +=! B(n, m)
        T(i, j) +=! A(i, r) * B(j, i)
        T(i, j) = B(j, i)
    }"""
    compiled(text, torch.ones(300, 40, dtype=torch.int32), torch.ones(70, 300, dtype=torch.int32))


def test_rows_of_a_sum() -> None:
    """What two loops of a row share stays with the row; what one loop uses does not."""
    text = """def f(float(N, M) x) -> (O) {
        e(n, m) = exp(x(n, m))
        s(n) +=! e(n, m)
        d(n, m) = e(n, m) / s(n)
        O(n, m) = d(n, m) * d(n, m)
    }"""
    compiled(text, torch.randn(40, 1003), least=0)
