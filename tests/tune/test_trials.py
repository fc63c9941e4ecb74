"""Kernels that are timed and thrown away: groups of statements compiled apart, and found again."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import product

import pytest
import torch

import tensor_comprehensions as tc
from tensor_comprehensions import _torch
from tensor_comprehensions._tuning.problem import Problem

#: `H` is a temporary that both groups have.
CHAIN = """def chain(float(B, N) I, float(O, N) W, float(P, O) V) -> (R) {
  H(b, o) +=! I(b, n) * W(o, n)
  R(b, p) +=! H(b, o) * V(p, o)
}"""
LAYERS = """def layers(float(B, N) I, float(O, N) W, float(O) c, float(P, O) V) -> (H, R, S) {
  H(b, o) = c(o)
  H(b, o) += I(b, n) * W(o, n)
  H(b, o) = fmax(H(b, o), 0)
  R(b, p) +=! H(b, o) * V(p, o)
  M(b) max=! R(b, p)
  E(b, p) = exp(R(b, p) - M(b))
  T(b) +=! E(b, p)
  S(b, p) = E(b, p) / T(b)
}"""


@pytest.fixture
def stages(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """How long each stage of a compilation took, as lines of the log."""
    _torch.enable_log("stages", True)
    with caplog.at_level(logging.INFO, "tensor_comprehensions"):
        yield caplog
    _torch.enable_log("stages", False)


def run(
    problem: Problem, options: tc.MappingOptions | str | None, final: bool = False
) -> list[torch.Tensor]:
    results = [torch.full(o.shape, float("nan"), dtype=o.dtype) for o in problem.outputs]
    trial = _torch.Trial(
        problem.definition,
        None if options is None else _torch.Options.parse(str(options)),
        *("cpu", problem.inputs, results, final),
    )
    trial.run()
    return results


def matrices(*sizes: Sequence[int]) -> list[torch.Tensor]:
    return [torch.randn(*size) for size in sizes]


def chained(rows: int, columns: int) -> tc.MappingOptions:
    """Two groups, each with a register tile of its own."""
    options = tc.MappingOptions().matchLibraryCalls(False)
    options.cluster("S0").registers(b=rows, o=16)
    return options.cluster("S1").registers(b=columns, p=16)


def test_groups_apart_compute_the_same() -> None:
    problem = Problem(CHAIN, "chain", matrices((33, 20), (40, 20), (24, 40)))
    i, w, v = problem.inputs
    for rows, columns in ((1, 2), (3, 4)):
        (result,) = run(problem, chained(rows, columns))
        torch.testing.assert_close(result, i @ w.t() @ v.t(), rtol=1e-4, atol=1e-4)


def test_several_results_and_temporaries() -> None:
    """Statements that share loops are one group; what passes between groups lies in memory."""
    problem = Problem(LAYERS, "layers", matrices((16, 20), (24, 20), (24,), (9, 24)))
    i, w, c, v = problem.inputs
    hidden = torch.relu(torch.addmm(c, i, w.t()))
    for options in (None, tc.MappingOptions().matchLibraryCalls(False)):
        h, r, s = run(problem, options)
        torch.testing.assert_close(h, hidden, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(r, hidden @ v.t(), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(s, torch.softmax(hidden @ v.t(), 1), rtol=1e-4, atol=1e-5)


def test_groups_are_found_again(stages: pytest.LogCaptureFixture) -> None:
    """A candidate whose groups others have had takes no code generation; a final kernel does."""
    problem = Problem(CHAIN, "chain", matrices((35, 21), (41, 21), (25, 41)))
    wanted = torch.linalg.multi_dot(
        [problem.inputs[0], problem.inputs[1].t(), problem.inputs[2].t()]
    )
    generated = []
    for rows, columns in product((2, 3), repeat=2):
        stages.clear()
        (result,) = run(problem, chained(rows, columns))
        torch.testing.assert_close(result, wanted, rtol=1e-4, atol=1e-4)
        lines = [r.getMessage() for r in stages.records if "schedule" in r.getMessage()]
        assert len(lines) == 1
        generated.append("llvm" in lines[0])
    assert generated == [True, True, True, False]
    stages.clear()
    run(problem, chained(3, 3), final=True)
    assert any("llvm" in r.getMessage() for r in stages.records)


def test_other_sizes_are_other_kernels() -> None:
    for rows in (7, 8, 9):
        problem = Problem(CHAIN, "chain", matrices((rows, 20), (40, 20), (24, 40)))
        i, w, v = problem.inputs
        (result,) = run(problem, chained(2, 2))
        torch.testing.assert_close(result, i @ w.t() @ v.t(), rtol=1e-4, atol=1e-4)
