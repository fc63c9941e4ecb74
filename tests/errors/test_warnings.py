"""What is legal but suspect: words, place and caret, and what is left alone."""

from __future__ import annotations

import logging

import pytest
import torch
from workloads import WORKLOADS

import tensor_comprehensions as tc
from tensor_comprehensions._define import parse

PRODUCT = "def f(float(M, K) A, float(N) B, float s, float() t) -> (C) "
OVERLAP = "def f(float(T, K) x, float(K) w, int(T) at, float(N) like) -> (float(N) y) "
CALLEE = "def g(float(N) A) -> (P, Q) { P(i) = A(i) Q(i) = 2 * A(i) }\n"

# Text, words, line, column.
SUSPECT = [
    (
        PRODUCT + "{ C(m, n) +=! A(m, k) * B(n) }",
        "k is summed over, but of the factors only A(m, k) has it. If B(n) should have it too, "
        "write it there; if not, sum A(m, k) in a statement of its own, which is less work, or say "
        "that it is meant by a range: where k in ...",
        1,
        80,
    ),
    (
        PRODUCT + "{\n C(n) +=! s * B(n) * (A(m, 0) + 1) }",
        "only (A(m, 0) + 1) has it. If B(n)",
        2,
        25,
    ),
    (
        PRODUCT + "{\n C(n) = 0\n C(n) += x * B(n)\n   where x = exp(A(0, k)) }",
        "only exp(A(0, k)) has it",
        4,
        23,
    ),
    (
        "def f(float(M, K) A, float(L, N) B) -> (C) { C(m, n) +=! A(m, k) * B(l, n) }",
        "l is summed over, but of the factors only B(l, n) has it. If A(m, k) should",
        1,
        70,
    ),
    (
        "def f(float(N) A) -> (B) {\n B(i) = A(i)\n T(i) = 2 * A(i) }",
        "T is computed, but neither read nor returned; return it, or leave the statement out",
        3,
        2,
    ),
    (
        "def f(float(N) A) -> (B) { B(i) += A(i) }",
        "If B is not pre-initialized before calling the TC function, consider using the !-suffixed "
        "reduction operator +=! instead of +=",
        1,
        33,
    ),
    (
        "def f(bool(N, M) A) -> (B) { B(i) &&= A(i, j) }",
        "consider using the !-suffixed reduction operator &&=! instead of &&=",
        1,
        35,
    ),
    (
        "def f(float(N) A) -> (B) { B(i) = i > 0 ? A(i - 1) : 0 }",
        "i has no range of its own, so that A(i - 1) gives it one, as if the condition always "
        "held: i takes no value at which this would lie outside. Say what it takes: where i in ...",
        1,
        43,
    ),
    (
        "def f(float(N) A, float(K) B) -> (C) {\n C(i) +=! (i + k >= 1 && x > 0 ? x : 0) * B(k)\n"
        "   where x = A(i + k - 1), i in 0:N }",
        "k has no range of its own, so that A(i + k - 1)",
        3,
        14,
    ),
    (
        "def f(float(N) A) -> (B) { B(i) = i < N - 1 && A(i + 1) > A(i) }",
        "i has no range of its own, so that A(i + 1)",
        1,
        48,
    ),
    (
        "def f(float(N) A) -> (B) { B(i) = A(i) where x = A(0) }",
        "x is not used in this statement",
        1,
        46,
    ),
]
SUSPECT.append(
    (
        OVERLAP + "{ y(t * 4) +=! x(t, k) * w(0) }",
        "k is summed over, but of the factors only x(t, k) has it. If w(0)",
        1,
        96,
    )
)
LEFT_ALONE = [
    PRODUCT + "{ C(m) +=! A(m, k) }",
    PRODUCT + "{ C(m) +=! s * A(m, k) }",
    PRODUCT + "{ C(m) +=! A(m, k) * t * 2 / K }",
    PRODUCT + "{ C(m, n) +=! A(m, k) + B(n) }",
    PRODUCT + "{ C(m, n) +=! A(m, k) * B(n) where k in 0:K }",
    PRODUCT + "{ C(m) +=! A(m, k) * A(m, k) }",
    PRODUCT + "{ C(m, n) max=! A(m, k) * B(n) }",
    PRODUCT + "{ C(m, n) +=! A(m, k) * k * B(n) }",
    PRODUCT + "{ C(m) +=! (A(m, k) - B(0)) * (A(m, k) - B(0)) }",
    "def f(float(N) A, int(N) I) -> (B) { B(i) +=! A(i + k) * A(k) }",
    # An index in the place of a scatter is summed only where places meet.
    OVERLAP + "{ y(t * 4 + k) +=! x(t, k) * w(k) }",
    OVERLAP + "{ y(at(t) + k) +=! x(t, k) * w(k) }",
    OVERLAP + "{ y(at(t)) +=! x(t, k) * w(k) }",
    OVERLAP + "{ y(p) +=! x(t, k) * w(k) where p = t * 4 + k }",
    OVERLAP + "{ y(n) = 0.0 * like(n) y(t * 4 + k) += w(k) * x(t, k) }",
    "def f(float(N) A) -> (B) { B(i) = i > 0 ? A(i - 1) : 0 where i in 0:N }",
    "def f(float(N) A, float(N) B) -> (C) { C(i) = i > 3 ? A(i) : B(i) }",
    "def f(float(N) A) -> (B) { B(i) = i % 2 == 0 ? A(i + 1) : A(i) }",
    "def f(float(N) A, float s) -> (B) { B(i) = s > 0 ? A(i + 1) : A(i) }",
    "def f(float(N) A) -> (B) { B(i) = A(i) < A(0) ? A(i + 1) : A(i) }",
    "def f(float(N) A) -> (S, B) { S max=! A(k) B(i) = i < S ? A(i + 1) : A(i) }",
    CALLEE + "def f(float(N) A) -> (B) { (B, unused) = g(A) }",
    "def f(float(N) A) -> (B) { T(i) = A(i) B(i) = 0 where i in 0:T.0 }",
    "def g(float(N) A) -> (B, int32 I) { B(i) = A(i) I argmax=! A(i) }\n"
    "def f(float(N) A) -> (C) { (C, unused) = g(A) }",
]


@pytest.mark.parametrize("text, words, line, column", SUSPECT)
def test_suspect(text: str, words: str, line: int, column: int) -> None:
    (message,) = (str(w) for w in parse(text).warnings if words in str(w))
    assert message.startswith(f"{line}:{column}: warning: ")
    source, marks = message.splitlines()[-2:]
    assert source == "  " + text.split("\n")[line - 1]
    assert marks.index("^") == column - 1 + 2


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_left_alone(text: str) -> None:
    assert list(parse(text).warnings) == []


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_the_papers_give_no_warning(workload: object) -> None:
    """But where they accumulate into what the caller passes."""
    for message in parse(workload.text).warnings:
        assert "Reduction without initialization" in str(message) and workload.initial


def test_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="tensor_comprehensions"):
        for _ in range(2):
            tc.define("def once(float(N) A) -> (B) { B(i) += A(i) }", namespace="tc_warnings")
    assert len(caplog.records) == 1
    assert "Reduction without initialization" in caplog.records[0].getMessage()


def test_overlap_add_and_its_derivative(caplog: pytest.LogCaptureFixture) -> None:
    text = OVERLAP + "{ y(t * 4 + k) +=! x(t, k) * w(k) }"
    x, w = torch.randn(5, 8, requires_grad=True), torch.randn(8, requires_grad=True)
    at, like = torch.zeros(5, dtype=torch.int32), torch.empty(24)
    with caplog.at_level(logging.WARNING, logger="tensor_comprehensions"):
        y = tc.make_autograd(tc.define(text, namespace="tc_overlap").f)(x, w, at, like)
        found = torch.autograd.grad(y.square().sum(), (x, w))
    assert not caplog.records
    frames = (x * w).T[None]
    wanted = torch.nn.functional.fold(frames, (1, 24), (1, 8), stride=(1, 4)).flatten()
    torch.testing.assert_close(y, wanted)
    torch.testing.assert_close(found, torch.autograd.grad(wanted.square().sum(), (x, w)))
