"""Whether statements share the loops over the points of a tile, as the options say."""

from __future__ import annotations

import re

import pytest
import torch

import tensor_comprehensions as tc

ELEMENTWISE = """def f(float(M, N) A, float(M, K) B, float(K, N) W) -> (D) {
  X(m, n) = A(m, n) * 2
  D(m, n) = exp(X(m, n)) + X(m, n)
  D(m, n) += X(m, n) }"""
PRODUCT = """def f(float(M, N) A, float(M, K) B, float(K, N) W) -> (D) {
  C(m, n) +=! B(m, k) * W(k, n)
  D(m, n) = fmax(C(m, n), A(m, n)) }"""
ROWS = """def f(float(M, N) A, float(M, K) B, float(K, N) W) -> (R, S) {
  R(m) +=! B(m, k) where k in 0:K
  S(m) max=! A(m, n) * R(m) }"""


def wanted(text: str, a: torch.Tensor, b: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    if text == ELEMENTWISE:
        return [(a * 2).exp() + 4 * a]
    if text == PRODUCT:
        return [torch.maximum(b @ w, a)]
    return [b.sum(1), (a * b.sum(1)[:, None]).max(1).values]


def tiled(strategy: str, tile: tuple[int, ...], vectorize: bool = True) -> tc.MappingOptions:
    options = tc.MappingOptions("naive").tile(*tile).scheduleFusionStrategy("Max")
    return options.intraTileScheduleFusionStrategy(strategy).vectorize(vectorize)


def shapes(loop_nest: str) -> list[tuple[str, tuple[str, ...]]]:
    """What is stored below which loops, in order: a loop of the text has a number of its own."""
    loops: list[tuple[int, str]] = []
    found = []
    for line in loop_nest.splitlines():
        depth = len(line) - len(line.lstrip())
        loops = [loop for loop in loops if loop[0] < depth]
        if opened := re.search(r" (c\d+_\d+) in ", line):
            loops.append((depth, opened[1]))
        elif stored := re.match(r"\s*(\w+)\[", line):
            found.append((stored[1], tuple(name for _, name in loops)))
    return found


def common(loop_nest: str) -> int:
    """Loops that all stores lie in."""
    nests = [loops for _, loops in shapes(loop_nest)]
    return len(set.intersection(*(set(loops) for loops in nests)))


INPUTS = [
    torch.randn(20, 30, generator=torch.Generator().manual_seed(0)),
    torch.randn(20, 40, generator=torch.Generator().manual_seed(1)),
    torch.randn(40, 30, generator=torch.Generator().manual_seed(2)),
]


@pytest.mark.sampled
@pytest.mark.parametrize("vectorize", [True, False])
@pytest.mark.parametrize("tile", [(8, 16), (1,), (32, 32), (5, 7)])
@pytest.mark.parametrize("strategy", ["Min", "Preserve3Coincident", "Max"])
@pytest.mark.parametrize("text", [ELEMENTWISE, PRODUCT, ROWS], ids=["elements", "product", "rows"])
def test_results(text: str, strategy: str, tile: tuple[int, ...], vectorize: bool) -> None:
    options = tiled(strategy, tile, vectorize)
    name = f"tc_tiles_{abs(hash((text, strategy, tile, vectorize)))}"
    actual = tc.define(text, options, namespace=name).f(*INPUTS)
    actual = [actual] if isinstance(actual, torch.Tensor) else list(actual)
    torch.testing.assert_close(actual, wanted(text, *INPUTS), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("text", "strategy", "vectorize", "loops"),
    [
        # Two loops over tiles, two over their points.
        (ELEMENTWISE, "Min", True, 2),
        (ELEMENTWISE, "Preserve3Coincident", True, 4),
        (ELEMENTWISE, "Max", True, 4),
        (PRODUCT, "Min", True, 2),
        (PRODUCT, "Preserve3Coincident", True, 2),
        # In one register tile.
        (PRODUCT, "Max", True, 2),
        (PRODUCT, "Max", False, 4),
        # One and one.
        (ROWS, "Min", True, 1),
        (ROWS, "Preserve3Coincident", True, 2),
        (ROWS, "Max", True, 2),
    ],
)
def test_shared_loops(
    text: str, strategy: str, vectorize: bool, loops: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where copies pay, and so stand between loops, depends on the machine.
    monkeypatch.setenv("TC_MACHINE", "vector_bits=512,vector_registers=32,library_rate=1")
    executor = tc.compile(text, "f", tiled(strategy, (8, 16), vectorize).parallel(False), *INPUTS)
    assert common(executor.loop_nest) == loops
    says = [line for line in executor.explain().splitlines() if line.startswith("  points")]
    assert bool(says) == (strategy != "Preserve3Coincident")
    assert all("as the options say" in line for line in says)


def test_without_tiles_the_outer_strategy_decides() -> None:
    nests = [
        tc.compile(
            ELEMENTWISE,
            "f",
            tc.MappingOptions("unmapped")
            .outerScheduleFusionStrategy("Max")
            .intraTileScheduleFusionStrategy(strategy),
            *INPUTS,
        ).loop_nest
        for strategy in ("Min", "Max")
    ]
    assert nests[0] == nests[1]
