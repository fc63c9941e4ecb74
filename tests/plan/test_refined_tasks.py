"""Sizes and order of tasks by the estimate (csrc/plan/refine_tasks.h): when other tasks are chosen
than the rules give, what holds for them, and results where the last task is smaller."""

from __future__ import annotations

import re

import pytest
import torch
from explained import MACHINE, notes

import tensor_comprehensions as tc

pytestmark = pytest.mark.usefixtures("described_machine")

# Batches lie beside each other in X: a task of one batch reads lines of which it needs an element.
BATCHES = """def f(float(M,U,K,B) X, float(U,B,N,K,R) Y) -> (Z) {
  Z(b,n,r,m) +=! X(m,u,k,b) * Y(u,b,n,k,r)
}"""
CHEAPEST = "the cheapest by the estimate"


def operands(b: int = 24, n: int = 5, r: int = 11, m: int = 380) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(b + n + r + m)
    u, k = 11, 5
    sizes = (m, u, k, b), (u, b, n, k, r)
    return tuple(torch.randint(-3, 4, size, generator=generator).float() for size in sizes)


def tasks_of(text: str, *values: torch.Tensor, options: tc.MappingOptions | None = None) -> str:
    said = tc.compile(text, "f", options, *values).explain()
    found = notes(said, "group 1")
    return "\n".join(found.get("tasks", []) + found.get("tiles", []))


def plain() -> tc.MappingOptions:
    return tc.MappingOptions().matchLibraryCalls(False)


def test_batches_that_share_lines_are_one_task() -> None:
    tasks = tasks_of(BATCHES, *operands(), options=plain())
    assert CHEAPEST in tasks
    tiles = re.search(r"b in (\d+) tiles of (\d+)", tasks)
    assert tiles and int(tiles[2]) > 1


def test_both_estimates_are_told() -> None:
    said = tc.compile(BATCHES, "f", plain(), *operands()).explain()
    cycles = "\n".join(notes(said, "group 1")["cycles"])
    chosen, rules = (
        float(re.search(rf"([\d.]+) M +{what}", cycles)[1])
        for what in ("this form", "the same with tasks by rules")
    )
    assert rules > 1.15 * chosen


def test_given_sizes_stay() -> None:
    options = plain().cluster("S0").tile("task", b=1)
    assert "b one by one (24)" in tasks_of(BATCHES, *operands(), options=options)
    options = plain().tile(1, 5, 11, 64)
    assert "b one by one (24)" in tasks_of(BATCHES, *operands(), options=options)


@pytest.mark.parametrize("cores", [2, 16, 64])
def test_cores_have_tasks(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", MACHINE.replace("cores=2", f"cores={cores}"))
    tasks = int(tasks_of(BATCHES, *operands(), options=plain()).split()[0])
    rounds = -(-tasks // cores)
    assert tasks >= 0.75 * rounds * cores


def test_products_whose_tasks_are_right_keep_them() -> None:
    text = "def f(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
    for size in (128, 512, 1000):
        values = torch.randn(size, 512), torch.randn(size, 512)
        assert CHEAPEST not in tasks_of(text, *values, options=plain())


@pytest.mark.parametrize("batches", [1, 2, 3, 5, 8, 17, 23, 25])
def test_the_last_task_is_smaller(batches: int) -> None:
    values = operands(batches, 3, 7, 97)
    executor = tc.compile(BATCHES, "f", plain(), *values)
    expected = torch.einsum("mukb,ubnkr->bnrm", *values)
    assert torch.equal(executor(*values), expected)
