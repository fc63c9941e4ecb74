"""Reductions with few results run on many threads, in an order that follows from sizes alone."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

import emulated
import pytest
import torch

import tensor_comprehensions as tc
from tensor_comprehensions import reference

X = "def f(float(N) x) -> (s) {{ {} }}"
A = "def f(float(M, N) A) -> (S) {{ {} }}"
# (text, sizes of inputs, terms of a result)
REDUCTIONS = {
    "sum": (X.format("s +=! x(n)"), [(20011,)], 20011),
    "sum of an even number": (X.format("s +=! x(n)"), [(16384,)], 16384),
    "sum of squares": (X.format("s +=! x(n) * x(n)"), [(5000,)], 5000),
    "smallest": (X.format("s min=! x(n)"), [(5003,)], 5003),
    "largest": (X.format("s max=! x(n)"), [(5003,)], 5003),
    "neighbours": (X.format("s +=! x(n) * x(n + 1)"), [(4099,)], 4098),
    "part of a row": (X.format("s +=! x(n) where n in 7:N"), [(3007,)], 3000),
    "rows": (A.format("S(m) +=! A(m, n)"), [(3, 4001)], 4001),
    "columns": (A.format("S(n) +=! A(m, n)"), [(4001, 3)], 4001),
    "a matrix": (A.format("S +=! A(m, n)"), [(70, 90)], 6300),
    "first largest": (A.format("S(m) argmax=! A(m, n)"), [(2, 3001)], 3001),
    "any": (
        "def f(float(N) x) -> (bool s) { s ||=! x(n) > 3 }".replace("bool s", "s"),
        [(3001,)],
        3001,
    ),
    "product of matrices": (
        "def f(float(M, K) A, float(K, N) B) -> (O) { O(m, n) +=! A(m, k) * B(k, n) }",
        [(3, 2000), (2000, 4)],
        2000,
    ),
    "three indices": (
        "def f(float(I, J, K) A, float(J) b) -> (s) { s +=! A(i, j, k) * b(j) }",
        [(20, 30, 17), (30,)],
        10200,
    ),
}


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=[False, True], ids=["any order", "deterministic"])
def deterministic(request: pytest.FixtureRequest) -> Iterator[bool]:
    torch.use_deterministic_algorithms(request.param)
    yield request.param
    torch.use_deterministic_algorithms(False)


def run(executor: tc.Executor, inputs: tuple, **how: object) -> torch.Tensor:
    outputs = emulated.make_outputs(executor, inputs)
    emulated.run(executor, inputs, outputs, initial=0, **how)
    return outputs[0]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_many_threads(name: str) -> None:
    text, sizes, terms = REDUCTIONS[name]
    inputs = tuple(torch.randint(-4, 5, s).float() for s in sizes)
    executor = tc.compile(text, "f", None, *inputs, target="cuda:sm_90")
    launches = json.loads(executor.text("launches"))["launches"]
    threads = max(math.prod(x["grid"]) * math.prod(x["block"]) for x in launches)
    assert threads >= terms / 64
    assert len(launches) <= 1 + math.ceil(math.log(terms, 16)) + (name == "first largest")
    result = run(executor, inputs)
    wanted = reference.run(text, "f", *inputs)
    assert torch.equal(result, torch.as_tensor(wanted).reshape(result.shape))


def test_order_follows_from_sizes(deterministic: bool) -> None:
    """No bit depends on the order of threads."""
    text, sizes, _ = REDUCTIONS["sum"]
    x = torch.randn(sizes[0])
    executor = tc.compile(text, "f", None, x, target="cuda:sm_90")
    assert "atomic" not in executor.cuda_source
    results = {run(executor, (x,), order=order).item() for order in ("forward", "shuffled")}
    assert len(results) == 1
    torch.testing.assert_close(torch.tensor(results.pop()), x.double().sum().float())


def test_a_million_terms() -> None:
    x = torch.empty(1 << 20)
    executor = tc.compile(REDUCTIONS["sum"][0], "f", None, x, target="cuda:sm_90")
    assert executor.number("launches") == 4


@pytest.mark.parametrize("terms", [1, 31, 255])
def test_few_terms_stay_together(terms: int) -> None:
    x = torch.randn(terms)
    executor = tc.compile(REDUCTIONS["sum"][0], "f", None, x, target="cuda:sm_90")
    assert executor.number("launches") == 1
    torch.testing.assert_close(run(executor, (x,)), x.sum().reshape(()))


@pytest.mark.parametrize("terms", [257, 4097, 65537])
def test_the_last_terms_of_a_thread(terms: int) -> None:
    """Some threads have a term fewer. The assembler of CUDA 13.0 gives each of them one from behind
    the end where the text shifts a negated thread index, (0 - tx) >> 7."""
    x = torch.randint(-4, 5, (terms,)).float()
    executor = tc.compile(REDUCTIONS["sum"][0], "f", None, x, target="cuda:sm_90")
    assert re.search(r"< -\(\([^()]*tx \+ \d+\) >> \d+\)", executor.cuda_source)
    assert not re.search(r"\((0 )?- ?[^()]*\) >>", executor.cuda_source)
    assert run(executor, (x,)).item() == x.sum().item()


def test_memory_is_read_side_by_side() -> None:
    x = torch.randn(1 << 14)
    executor = tc.compile(REDUCTIONS["sum"][0], "f", None, x, target="cuda:sm_90")
    counts: list = []
    run(executor, (x,), counts=counts)
    # Its loads have 4 sectors each; stores and later launches are few.
    assert counts[0].efficiency == 1 and counts[0].sectors_per_request == 4


def test_machines_on_which_little_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then parts are made of few terms, but never of one."""
    monkeypatch.setenv("TC_MACHINE", "least_percent=1")
    x = torch.randint(-4, 5, (97,)).float()
    executor = tc.compile(REDUCTIONS["sum"][0], "f", None, x, target="cuda:sm_90")
    assert 3 <= executor.number("launches") <= 7
    assert run(executor, (x,)) == x.sum()
