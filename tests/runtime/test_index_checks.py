"""Indices that are data: a bad one is an error that says all about it, and nothing else happens."""

from __future__ import annotations

import re
from collections.abc import Callable

import emulated
import numpy as np
import pytest
import torch
from fenced import fenced

import tensor_comprehensions as tc
from tensor_comprehensions import reference

# One index for a row, and one for every element.
GATHER = "def gather(float(E, D) T, int32(B) I) -> (O) { O(b, d) = T(I(b), d) }"
TAKE = "def take(float(N) X, int64(A, B) I) -> (O) { O(a, b) = X(I(a, b)) }"
SCATTER = """def scatter(float(N, D) G, int32(N) I, float(M, D) S) -> (O) {
  O(m, d) = S(m, d)
  O(I(n), d) += G(n, d)
}"""
PUT = """def put(float(A, B) G, int32(A, B) I, float(M) S) -> (O) {
  O(m) = S(m)
  O(I(a, b)) += G(a, b)
}"""
BEFORE = "The outputs are as they were"
MEANWHILE = "Outputs that were passed hold no particular values now"


def run(text: str, *inputs: object, options: str | None = None) -> tuple[torch.Tensor, ...]:
    name = text.split("def ")[-1].split("(")[0].strip()
    results = tc.compile(text, name, options, *inputs)(*inputs)
    return results if isinstance(results, tuple) else (results,)


def fails(text: str, *inputs: object, options: str | None = None) -> str:
    with pytest.raises(tc.ShapeError) as error:
        run(text, *inputs, options=options)
    return str(error.value)


def indices(*values: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


@pytest.mark.parametrize("options", [None, "naive"])
@pytest.mark.parametrize("bad", [-1, 10, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("rows", [3, 70])
def test_message(rows: int, bad: int, options: str | None) -> None:
    # A read next to the table would end the process.
    table = fenced(torch.randn(10, 19), at_start=bad < 0)
    index = torch.randint(0, 10, (rows,), dtype=torch.int32)
    index[rows - 1] = bad
    counted = " and indices count from 0" if bad < 0 else ""
    assert fails(GATHER, table, index, options=options) == (
        f"gather: reads T(I(b), d) outside: at b = {rows - 1} index {bad} of dimension 0, "
        f"but dimension 0 of T has size 10{counted}; correct the data, or guard the read: "
        f"condition ? T(...) : 0 (line 1). {BEFORE}"
    )
    index[rows - 1] = 9
    assert torch.equal(run(GATHER, table, index, options=options)[0], table[index.long()])


def test_a_subscript_of_indices_alone() -> None:
    """Of more points than are looked at before it runs; there is no data to correct."""
    text = """def f(float(N) A, float(M) B) -> (O) {
        O(i, j) = A((i * j + i * i) % (j + 90000 / (i + 1))) where i in 0:M, j in 0:M }"""
    message = fails(text, torch.randn(4000), torch.randn(300))
    # At i = 13 and j = 295, (3835 + 169) % (295 + 6428) is 4004.
    assert "outside: at i = 13, j = 295 index 4004 of dimension 0, but dimension 0 of A" in message
    assert "; change the subscript or the ranges of its indices, or guard the read: " in message
    assert "data" not in message
    assert run(text, torch.randn(90300), torch.randn(300))[0].shape == (300, 300)


@pytest.mark.parametrize("options", [None, "naive", "identity"])
@pytest.mark.parametrize("bad", [-1, 100, 2**31 - 1, -(2**31), 2**32])
def test_an_index_for_every_element(bad: int, options: str | None) -> None:
    """The loops look at it where they use it: a pass before them would cost as much as they do."""
    values = fenced(torch.randn(100), at_start=bad < 0)
    index = torch.randint(0, 100, (70, 80))
    index[50, 7] = bad
    message = fails(TAKE, values, index, options=options)
    assert f"take: reads X(I(a, b)) outside: at a = 50, b = 7 index {bad} of dimension 0" in message
    assert message.endswith(MEANWHILE)
    index[50, 7] = 99
    assert torch.equal(run(TAKE, values, index, options=options)[0], values[index])


@pytest.mark.parametrize("options", [None, "naive", "identity"])
@pytest.mark.parametrize("bad", [-1, 20, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("width", [1, 5, 64])
def test_scattered_places(width: int, bad: int, options: str | None) -> None:
    start, g = torch.randn(20, width), torch.randn(300, width)
    index = torch.randint(0, 20, (300,), dtype=torch.int32)
    index[200] = bad
    message = fails(SCATTER, g, index, start, options=options)
    assert f"scatter: writes O(I(n), d) outside: at n = 200 index {bad} of dimension 0" in message
    assert "give such updates a place inside and a value that changes nothing (line 3)" in message
    index[200] = 19
    torch.testing.assert_close(
        run(SCATTER, g, index, start, options=options)[0],
        start.index_add(0, index.long(), g),
        atol=1e-4,
        rtol=1e-4,
    )


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("bad", [-1, 500, 2**31 - 1])
def test_updates_outside_change_nothing(bad: int, threads: int) -> None:
    """Neither beside the result, nor in it: all updates with good places are made."""
    text = """def add(float(A, B) G, int32(A, B) I, float(M) like) -> (float(M) O) {
      O(I(a, b)) += G(a, b)
    }"""
    g, index = torch.randint(-9, 9, (60, 70)).float(), torch.randint(0, 500, (60, 70)).int()
    index[31, 5] = bad
    out = fenced(torch.zeros(500), at_start=bad < 0)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        add = tc.define(text, namespace="tc_outside").add
        with pytest.raises(tc.ShapeError, match=rf"at a = 31, b = 5 index {bad} of"):
            add(g, index, torch.empty(500), outputs=(out,))
    finally:
        torch.set_num_threads(before)
    good = (index >= 0) & (index < 500)
    wanted = torch.zeros(500).index_add(0, index[good].long(), g[good])
    assert torch.equal(out, wanted)


def test_outputs_that_were_passed() -> None:
    """What is looked at before the run leaves them as they are."""
    table, index = torch.randn(10, 50), indices(1, 10, -1, 2)
    out = torch.full((4, 50), 7.0)
    executor = tc.compile(GATHER, "gather", None, table, index)
    with pytest.raises(tc.ShapeError, match=BEFORE):
        executor(table, index, outputs=(out,))
    assert torch.equal(out, torch.full((4, 50), 7.0))
    assert torch.equal(executor(table, indices(1, 2, 3, 4)), table[1:5])


def test_the_first_of_many() -> None:
    table, index = torch.randn(10, 5), torch.randint(20, 90, (300_000,), dtype=torch.int32)
    index[:1234] = 4
    assert f"at b = 1234 index {index[1234]} of" in fails(GATHER, table, index)


def test_the_last_of_many() -> None:
    """Threads share the look at them, which is in front of the run where rows are long enough."""
    table, index = torch.randn(10, 16), torch.randint(0, 10, (300_000,), dtype=torch.int32)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert torch.equal(run(GATHER, table, index)[0], table[index.long()])
        index[-1] = 10
        message = fails(GATHER, table, index)
        assert "at b = 299999 index 10 of" in message and message.endswith(BEFORE)
        index = index[:-1].reshape(-1, 1).expand(-1, 3)[:, 0]
        assert torch.equal(run(GATHER, table, index)[0], table[index.long()])
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    "dtype, bad",
    [
        (torch.int64, 2**32 + 3),
        (torch.int64, -(2**63)),
        (torch.uint8, 255),
        (torch.int8, -128),
        (torch.uint32, 2**32 - 1),
        (torch.uint64, 2**64 - 1),
    ],
)
def test_indices_of_every_type(dtype: torch.dtype, bad: int) -> None:
    """Also those that as int32 would look good."""
    name = str(dtype).removeprefix("torch.")
    text = GATHER.replace("int32", name)
    index = torch.tensor([3, bad, 4], dtype=dtype)
    assert f"at b = 1 index {bad} of" in fails(text, torch.randn(10, 2), index)
    index = torch.tensor([3, 9, 4], dtype=dtype)
    table = torch.randn(10, 2)
    assert torch.equal(run(text, table, index)[0], table[[3, 9, 4]])
    # As large as the type lets a row of a table be.
    last = min(torch.iinfo(dtype).max, 50_000)
    index = torch.tensor([last, 0, last], dtype=dtype)
    table = torch.randn(last + 1, 2)
    assert torch.equal(run(text, table, index)[0], table[[last, 0, last]])


@pytest.mark.parametrize("bad", [5, -3, 2**32 - 2, 2**62, 2**63 - 1, -(2**63)])
def test_places_that_count_from_below_zero(bad: int) -> None:
    """T has elements from -2 on, which its memory counts from 0."""
    text = "def below(float(A) X, int64(N) I) -> (T, S) { T(i) = X(i + 2)  S(j) = T(I(j)) }"
    x, good = torch.randn(7), torch.tensor([0, -2, 4])
    assert torch.equal(run(text, x, good)[1], x[good + 2])
    assert "reads T(I(j) + 2) outside: at j = 1 index" in fails(text, x, torch.tensor([0, bad, 4]))


def test_indices_of_indices() -> None:
    text = "def two(float(N) A, int32(M) I, int32(K) J) -> (B) { B(k) = A(I(J(k)) + 1) }"
    a, i = torch.randn(6), indices(0, 1, 4, 5)
    assert "reads A(I(J(k)) + 1) outside: at k = 2 index 6" in fails(text, a, i, indices(0, 2, 3))
    assert "reads I(J(k)) outside: at k = 1 index 4" in fails(text, a, i, indices(3, 4, 0))
    assert torch.equal(run(text, a, i, indices(0, 2, 1))[0], a[[1, 5, 2]])


def test_reductions_and_ranges() -> None:
    text = """def picked(float(N) X, int32(M, K) I) -> (S) {
      S(m) +=! X(I(m, k)) where k in 2:5
    }"""
    x, i = torch.randn(20), torch.randint(0, 20, (6, 9), dtype=torch.int32)
    torch.testing.assert_close(run(text, x, i)[0], x[i[:, 2:5].long()].sum(1))
    i[:, 5:] = -3  # never read
    torch.testing.assert_close(run(text, x, i)[0], x[i[:, 2:5].long()].sum(1))
    i[4, 3] = 20
    assert "reads X(I(m, k)) outside: at m = 4, k = 3 index 20" in fails(text, x, i)


@pytest.mark.parametrize(
    ("subscript", "value", "index"),
    [("I(m) / 3", 61, 20), ("I(m) % 7", -5, -5), ("3 < I(m) ? I(m) : 0", 61, 61)],
)
def test_operators_are_shown_as_they_are_written(subscript: str, value: int, index: int) -> None:
    """Division truncates, which is not how the machine's integers are divided."""
    text = f"def f(float(N) X, int32(M) I) -> (O) {{ O(m) = X({subscript}) }}"
    shown = f"reads X({subscript}) outside: at m = 1 index {index} of"
    message = fails(text, torch.ones(9), indices(1, value))
    assert shown in message.replace("I(m)/3", "I(m) / 3")


def test_conditions() -> None:
    """What a condition keeps from being read is not looked at; one of data is."""
    text = "def masked(float(N) A, int32(M) I) -> (O) { O(m) = I(m) >= 0 ? A(I(m)) : 0 }"
    a = torch.randn(5)
    assert torch.equal(run(text, a, indices(1, -1, 4))[0], torch.stack([a[1], 0 * a[0], a[4]]))
    assert "at m = 2 index 5 of" in fails(text, a, indices(1, -1, 5))
    text = """def before(float(N) A, bool(N) first) -> (O) {
      O(n) = first(n) ? 0 : A(n - 1) where n in 0:N
    }"""
    first = torch.tensor([True, False, False, True, False])
    wanted = torch.where(first, torch.zeros(()), a.roll(1))
    assert torch.equal(run(text, a, first)[0], wanted)
    first[0] = False
    assert "reads A(n - 1) outside: at n = 0 index -1 of" in fails(text, a, first)


def test_both_branches() -> None:
    text = """def either(float(N) A, float(M) B, int32(K) I) -> (O) {
      O(k) = I(k) < 3 ? A(I(k)) : B(I(k) - 3)
    }"""
    a, b = torch.randn(3), torch.randn(4)
    assert torch.equal(run(text, a, b, indices(0, 6, 2, 3))[0], torch.cat([a, b])[[0, 6, 2, 3]])
    assert "reads B(I(k) - 3) outside: at k = 1 index 4 of" in fails(text, a, b, indices(0, 7))
    assert "reads A(I(k)) outside: at k = 0 index -1 of" in fails(text, a, b, indices(-1, 6))


def test_tables_that_are_computed() -> None:
    """Each statement is looked at after those before it."""
    text = """def computed(float(N) A, int32(M) I) -> (O) {
      J(m) = I(m) * 2
      O(m) = A(J(m))
    }"""
    a = torch.randn(9)
    assert torch.equal(run(text, a, indices(0, 4, 3))[0], a[[0, 8, 6]])
    assert "at m = 1 index 10 of dimension 0, but" in fails(text, a, indices(0, 5, 3))


@pytest.mark.parametrize("index", ["value", "i"])
def test_what_an_index_is_called_does_not_matter(index: str) -> None:
    """The index that is read may not stand for one of the text."""
    text = f"""def less(float(N) A, int32(M) I) -> (O) {{
      O({index}, m) = A(2 * {index} - I(m)) where {index} in 0:4
    }}"""
    a = torch.randn(8)
    assert torch.equal(run(text, a, indices(0, 0))[0], a[[0, 2, 4, 6], None].expand(4, 2))
    words = f"at {index} = 0, m = 1 index -7 of dimension 0, but dimension 0 of A has size 8"
    assert words in fails(text, a, indices(0, 7))


def test_no_indices_and_empty_tensors() -> None:
    text = "def one(float(N) A, int32 i, int32(M) I) -> (O) { O = A(I(0)) }"
    assert run(text, torch.arange(4.0), 0, indices(2))[0] == 2
    words = "one: reads A(I(0)) outside: index 4 of dimension 0, but dimension 0 of A has size 4"
    assert words in fails(text, torch.arange(4.0), 0, indices(4))
    empty = torch.empty(0, 3)
    assert "but dimension 0 of T has size 0" in fails(GATHER, empty, indices(0))
    assert run(GATHER, empty, indices())[0].shape == (0, 3)


def test_positions_of_extremes() -> None:
    text = """def sorted_once(float(N) A, int32(M, K) I) -> (P) {
      P(m) argmax=! A(I(m, k))
    }"""
    a, i = torch.randn(12), torch.randint(0, 12, (5, 7), dtype=torch.int32)
    assert torch.equal(run(text, a, i)[0], a[i.long()].argmax(1))
    i[3, 6] = 12
    assert "at m = 3, k = 6 index 12 of" in fails(text, a, i)


def test_what_is_computed_by_sums() -> None:
    """Such indices are known in the middle of the run only."""
    text = """def rows(float(N, D) A, int32(M, K) I) -> (O) {
      J(m) +=! I(m, k)
      O(m, d) = A(J(m), d)
    }"""
    a, i = torch.randn(9, 40), torch.tensor([[0, 2], [4, 4], [3, 3]], dtype=torch.int32)
    assert torch.equal(run(text, a, i)[0], a[[2, 8, 6]])
    i[1, 1] = 5
    assert "reads A(J(m), d) outside: at m = 1 index 9 of dimension 0" in fails(text, a, i)
    text = text.replace("-> (O)", "-> (J, O)").replace("+=!", "+=")
    out = (torch.tensor([0, 100, 0], dtype=torch.int32), torch.empty(3, 40))
    name = tc.define(text, namespace="tc_check_sums").rows
    with pytest.raises(tc.ShapeError, match=r"reads A\(J\(m\), d\) outside: a bad index of"):
        name(a, i, outputs=out)


def test_tasks_with_copies() -> None:
    """A parallel task that copies operands, and looks at indices of what follows its product."""
    text = """def scaled(float(M, K) A, float(K, N) B, float(E) S, int32(M, N) I) -> (O) {
      C(m, n) +=! A(m, k) * B(k, n)
      O(m, n) = C(m, n) * S(I(m, n))
    }"""
    a, b, scales = torch.randn(200, 90), torch.randn(90, 300), torch.randn(50)
    index = torch.randint(0, 50, (200, 300), dtype=torch.int32)
    wanted = a @ b * scales[index.long()]
    torch.testing.assert_close(run(text, a, b, scales, index)[0], wanted, atol=1e-4, rtol=1e-4)
    index[190, 299] = 50
    message = fails(text, a, b, scales, index)
    assert "scaled: reads S(I(m, n)) outside: at m = 190, n = 299 index 50" in message


def test_what_the_text_keeps_inside_is_not_looked_at() -> None:
    for text, inputs in (
        ("O(b) = T(min(max(I(b), 0), N - 1))", (torch.randn(9), indices(-5, 100, 3))),
        ("O(b) = T(uint8(I(b)))", (torch.randn(256), indices(-5, 100, 3))),
        ("P(b) argmax=! T(n) * I(b)\n O(b) = T(P(b))", (torch.randn(9), indices(1, -1, 3))),
    ):
        text = f"def f(float(N) T, int32(B) I) -> (O) {{ {text} }}"
        executor = tc.compile(text, "f", None, *inputs)
        assert "indices" not in executor.explain()
        wanted = torch.as_tensor(reference.run(text, "f", *inputs))
        assert torch.equal(executor(*inputs), wanted)


def test_conditions_without_data_that_no_polyhedron_describes() -> None:
    text = """def f(float(N) A, int32(M) L) -> (O) {
      O(i, j) = i * j < 6 ? A(i * j + 1) : 0 where i in 0:3, j in 0:M
    }"""
    a, like = torch.randn(7), indices(0, 0, 0, 0)
    ij = torch.arange(3)[:, None] * torch.arange(4)
    wanted = torch.where(ij < 6, a[(ij + 1).clamp(max=6)], 0)
    assert torch.equal(run(text, a, like)[0], wanted)
    assert "outside: at i = 1, j = 3 index 4 of" in fails(text, a[:4].clone(), like)


def test_conditions_on_what_is_written_in_part() -> None:
    """They are computed in front of the loops by the statement that wrote it, not beyond that."""
    text = """def f(float(N) A, float(M) T, int32(B) I) -> (P, O) {
      P(i) = A(i)
      P(i) = P(i) == 1 ? 2 : T(I(i)) where i in 0:B
      O(i) = P(i)
    }"""
    table, index = torch.randn(7), indices(3, 6, 0)
    for size in (0, 1, 2):
        written = run(text, fenced(torch.ones(size)), table, index)[0]
        assert torch.equal(written[:size], torch.full((size,), 2.0))
        bad = index.clone()
        bad[0] = 7
        if size:  # what the others find in P nobody has written
            assert torch.equal(run(text, torch.ones(size), table, bad)[0][:size], written[:size])
    # Nothing is read where all are 1.
    results = run(text, torch.ones(3), table, indices(7, 7, 7))[0]
    assert torch.equal(results, torch.full((3,), 2.0))


def test_more_points_than_are_looked_at_when_it_is_compiled() -> None:
    """Between the ends, which are looked at, the subscript is larger."""
    text = "def bow(float(N) A) -> (O) { O(i) = A(i * (20000 - i) / 20000) where i in 0:20001 }"
    a = torch.randn(5001)
    i = torch.arange(20001)
    assert torch.equal(run(text, a)[0], a[i * (20000 - i) // 20000])
    assert "outside: at i = 10000 index 5000 of dimension 0" in fails(text, fenced(a[:5000]))


def test_einsum() -> None:
    """An equation fits its tables; its text does not know them."""
    data, weight = torch.randn(2, 3, 20, 20), torch.randn(3, 8)
    equation, shift = "nc(h+shift[c])w, ck -> nkhw", np.array([0, 2, 1])
    table = torch.from_numpy(shift)
    wanted = tc.einsum(equation, data, weight, shift=table)
    shift[1] = 1000  # PyTorch does not see it, and neither does a plan that was made before
    assert torch.equal(tc.einsum(equation, data, weight, shift=table), wanted)
    table.add_(0)
    with pytest.raises(tc.TCError, match="1000"):
        tc.einsum(equation, data, weight, shift=table)
    shift[1] = 2
    source = tc.einsum_source(equation, data, weight, shift=table)
    f = tc.define(source, namespace="tc_check_einsum").einsum
    numbers = (0, 18)  # h_begin, h_end
    f(data, weight, table.int(), *numbers)
    for bad in (-1, 3, 2**31 - 1):
        with pytest.raises(
            tc.ShapeError, match=r"outside: at .* of dimension 2, but dimension 2 of"
        ):
            f(data, weight, torch.tensor([0, bad, 1], dtype=torch.int32), *numbers)


LOOKUP = tc.ops.load("lookup_table")


def lookup(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return LOOKUP.lookup_table(table, index)


def embedding_backward(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """The forward sees good indices, the backward scatters to bad ones."""
    good = index.clamp(0, 9)
    leaf = table.clone().requires_grad_()
    result = tc.make_autograd(LOOKUP.embedding)(leaf, good)
    good.data.copy_(index)
    return torch.autograd.grad(result.sum(), leaf)[0]


def take_backward(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    good = index.clamp(0, 9)
    leaf = table[:, 0].clone().requires_grad_()
    result = tc.make_autograd(LOOKUP.take)(leaf, good)
    good.data.copy_(index)
    return torch.autograd.grad(result.sum(), leaf)[0]


def scatter_backward(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    good = index[0].clamp(0, 9)
    leaf = torch.randn(index.shape[1], table.shape[1]).requires_grad_()
    scatter = tc.make_autograd(tc.define(SCATTER, namespace="tc_check_backward").scatter)
    result = scatter(leaf, good, table)
    good.data.copy_(index[0])
    return torch.autograd.grad(result.square().sum(), leaf)[0]


def batched(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return torch.func.vmap(tc.define(GATHER).gather, in_dims=(None, 0))(table, index)


def compiled(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return torch.compile(lookup, fullgraph=True)(table, index)


@pytest.mark.parametrize("bad", [-1, 10, 2**30, -(2**31)])
@pytest.mark.parametrize(
    "call", [lookup, embedding_backward, take_backward, scatter_backward, batched, compiled]
)
def test_wherever_it_is_called(call: Callable, bad: int) -> None:
    table, index = torch.randn(10, 19), torch.randint(0, 10, (7, 33), dtype=torch.int32)
    call(table, index)
    index[0, 30] = bad
    with pytest.raises(tc.ShapeError, match=f"index {bad} of dimension 0, but dimension 0"):
        call(table, index)


def test_options_and_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    table, index = torch.randn(10, 4), indices(1, 9)
    for text, inputs in (
        (GATHER, (table, index)),
        (TAKE, (table[:, 0], torch.ones(90, 90).long())),
    ):
        name = "gather" if text == GATHER else "take"
        assert "looked at" in tc.compile(text, name, None, *inputs).explain()
        options = tc.MappingOptions().checkIndices(False)
        assert "looked at" not in tc.compile(text, name, options, *inputs).explain()
        monkeypatch.setenv("TC_CHECK", "0")
        assert "looked at" not in tc.compile(text, name, None, *inputs).explain()
        monkeypatch.setenv("TC_CHECK", "1")
        assert "looked at" in tc.compile(text, name, None, *inputs).explain()
        monkeypatch.delenv("TC_CHECK")
    monkeypatch.setenv("TC_CHECK", "yes")
    with pytest.raises(tc.TCError, match="TC_CHECK: 'yes' is neither 1, to look at every index"):
        tc.compile(GATHER, "gather", None, table, index)


def test_programs_without_data_in_subscripts_are_left_alone() -> None:
    text = "def plain(float(N) A) -> (B) { B(i) = A(i + 1) }"
    assert "looked at" not in tc.compile(text, "plain", None, torch.randn(5)).explain()


CUDA_CASES = {
    "rows": (GATHER, (torch.randn(10, 19), indices(3, 4, 1, 9)), 1, (2,)),
    "elements": (TAKE, (torch.randn(100), torch.randint(0, 100, (7, 80))), 1, (5, 77)),
    "scattered rows": (
        SCATTER,
        (torch.randn(6, 19), indices(3, 4, 1, 9, 0, 0), torch.randn(10, 19)),
        1,
        (4,),
    ),
    "scattered elements": (
        PUT,
        (torch.randn(5, 6), torch.randint(0, 10, (5, 6), dtype=torch.int32), torch.randn(10)),
        1,
        (2, 3),
    ),
    "guarded": (
        "def f(float(N) A, int32(M) I) -> (O) { O(m) = I(m) > 2 ? A(I(m)) : 0 }",
        (torch.randn(10), indices(-3, 2, 5, 1, 9)),
        1,
        (2,),
    ),
}


@pytest.mark.parametrize("bad", [10**6, 2**31 - 1])
@pytest.mark.parametrize("case", CUDA_CASES)
def test_cuda(case: str, bad: int) -> None:
    """The kernel reports the first bad index, reads nothing outside and goes on."""
    text, inputs, place, at = CUDA_CASES[case]
    name = re.search(r"def (\w+)", text)[1]
    executor = tc.compile(text, name, None, *inputs, target="cuda:sm_90")
    wanted = run(text, *inputs)[0]
    out = torch.full_like(wanted, torch.nan)
    assert emulated.run(executor, inputs, (out,), initial=0) is None
    torch.testing.assert_close(out, wanted)
    changed = [x.clone() for x in inputs]
    changed[place][at] = bad
    out = torch.full_like(wanted, torch.nan)
    report = emulated.run(executor, tuple(changed), (out,), initial=0)
    assert report["state"] == 2 and report["index"] == bad and report["kernel"] == 7
    assert report["position"] == np.ravel_multi_index(at, inputs[place].shape)
    assert not out.isnan().any()


@pytest.mark.parametrize(("operator", "known"), [("&&=!", False), ("||=!", True)])
def test_cuda_looks_at_indices_whatever_is_known_already(operator: str, known: bool) -> None:
    """C++ evaluates the right-hand side of && only where the left one is true."""
    text = f"def f(bool(N) A, int32(M) I) -> (O) {{ O {operator} A(I(m)) }}"
    inputs = (torch.full((4,), known), indices(0, 1, 9, 2))
    executor = tc.compile(text, "f", None, *inputs, target="cuda:sm_90")
    report = emulated.run(executor, inputs, (torch.zeros((), dtype=torch.bool),), initial=0)
    assert report["state"] == 2 and report["index"] == 9 and report["position"] == 2


def test_cuda_without_checks() -> None:
    inputs = (torch.randn(9, 2), indices(1))
    options = tc.MappingOptions().checkIndices(False)
    executor = tc.compile(GATHER, "gather", options, *inputs, target="cuda:sm_90")
    assert "checked_index" not in executor.cuda_source
    assert (
        "checked_index"
        in tc.compile(GATHER, "gather", None, *inputs, target="cuda:sm_90").cuda_source
    )


def test_checks_of_lanes_that_a_remainder_chooses() -> None:
    """Halide takes the lanes of remainders apart, and took apart the index that they come to."""
    text = """def f(bool(N, M, K) X, float(P) Y, float(Q, R) Z) -> (O) {
        O +=! i % 2 >= 0 ? (X(r - k + 6, i + 2, k) ? Y(r + s) : Z(s, r)) : 2.0
    }"""
    x = torch.zeros(8, 13, 7, dtype=torch.bool)
    inputs = x, torch.ones(1), torch.arange(12.0).reshape(6, 2)
    (result,) = run(text, *inputs)
    torch.testing.assert_close(result, torch.as_tensor(reference.run(text, "f", *inputs)))
    x[7, 2, 0] = True
    assert "reads Y(r + s) outside" in fails(text, *inputs)


def test_a_bad_index_of_many_indices_of_indices() -> None:
    """So many that they are looked at in the loops, the outer one behind the inner one."""
    text = """def add(float(A,B) G, int32(A,B) I, int32(P) J, float(M) like) -> (float(M) O) {
      O(m) = 0.0 * like(m)
      O(J(I(a,b))) += G(a,b)
    }"""
    g, j = torch.ones(60, 70), torch.randint(0, 500, (500,), dtype=torch.int32)
    i = torch.randint(0, 500, (60, 70), dtype=torch.int32)
    wanted = torch.zeros(500).index_add(0, j[i.long()].flatten().long(), g.flatten())
    torch.testing.assert_close(run(text, g, i, j, torch.zeros(500))[0], wanted)
    for bad in (2**31 - 1, -(2**31), 500):
        i[31, 5] = bad
        assert f"index {bad} of" in fails(text, g, i, j, torch.zeros(500))
    text = "def rows(float(V,D) T, int32(P,D) J, int32(A) I) -> (O) { O(a,d) = T(J(I(a),d),d) }"
    t, j = torch.randn(50, 4), torch.randint(0, 50, (30, 4), dtype=torch.int32)
    i = torch.randint(0, 30, (4096,), dtype=torch.int32)
    assert torch.equal(run(text, t, j, i)[0], t.gather(0, j[i.long()].long()))
    i[4000] = 2**31 - 1
    fails(text, t, j, i)


def test_what_is_fetched_ahead_reads_no_index_at_a_bad_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A prefetch at a bad address does no harm, but the load of the index it is made from does."""
    monkeypatch.setenv("TC_MACHINE", "vector_bits=512,vector_registers=32,cache_bytes=4096")
    text = """def f(float(V,D) T, int32(P) J, int32(B,L) I) -> (O) {
      O(b,d) +=! T(J(I(b,l)), d)
    }"""
    t, j = torch.randn(1000, 4), torch.randint(0, 1000, (1000,), dtype=torch.int32)
    i = torch.randint(0, 1000, (256, 32), dtype=torch.int32)
    torch.testing.assert_close(run(text, t, j, i)[0], t[j.long()][i.long()].sum(1))
    i[200, 20] = -(2**31)
    fails(text, t, j, i)


@pytest.mark.parametrize(
    ("subscript", "index", "values"),
    [
        ("int8(i) * 64", -128, 3),
        ("int8(i) * 7 + 120", -122, 3),
        ("(uint32(i) - 5) / 1000000000", 4, 2),
        ("(uint64(i) - 5) / 1000000000", 18446744073, 2),
    ],
)
def test_narrow_subscripts_wrap_around(subscript: str, index: int, values: int) -> None:
    """What reads outside has to be found by the numbers that the kernel computes."""
    text = f"def f(float(N) A) -> (O) {{ O(i) = A({subscript}) where i in 0:{values} }}"
    table = fenced(torch.randn(3 if "uint" in subscript else 130), at_start=index < 0)
    assert f" index {index} of dimension 0" in fails(text, table)
    with pytest.raises(tc.ShapeError, match=f"subscript 0 reaches {index}"):
        reference.run(text, "f", table)


def test_narrow_places_wrap_around() -> None:
    text = "def f(float(N) A) -> (float(N) O) { O(int8(i) * 32 / 32) +=! A(i) where i in 0:N }"
    assert " at i = 4 index -4 of dimension 0" in fails(text, torch.ones(9))
    assert torch.equal(run(text, torch.ones(4))[0], torch.ones(4))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(
    "subscript",
    [
        "min(max(I(b), 0), V - 1)",
        "I(b) < 0 ? I(b) + V : I(b)",
        "(I(b) * 31 + 7) % V",
        "(I(b) + 1) / 2",
        "abs(I(b))",
        "I(b) % V + 1",
    ],
)
def test_arithmetic_on_indices(subscript: str, dtype: str) -> None:
    text = f"def f(float(V, D) T, {dtype}(B) I) -> (O) {{ O(b, d) = T({subscript}, d) }}"
    inputs = torch.randn(5, 3), torch.tensor([0, 2, -1], dtype=getattr(torch, dtype))
    if "31" in subscript:
        inputs[1][2] = 4  # a remainder of a negative number is one
    assert torch.equal(run(text, *inputs)[0], reference.run(text, "f", *inputs))
    inputs[1][1] = torch.iinfo(inputs[1].dtype).max - 1
    if "min" not in subscript and "%" not in subscript:
        assert " at b = 1 index " in fails(text, *inputs)


def test_the_derivative_of_a_table_with_a_row_for_nothing() -> None:
    text = """def f(float(V, D) T, int64(B) I) -> (O) {
      O(b, d) = I(b) > 0 ? T(I(b) - 1, d) : 0
    }"""
    table = torch.randn(5, 3, requires_grad=True)
    lookup = tc.make_autograd(tc.define(text, namespace="tc_index_checks").f)
    lookup(table, torch.tensor([0, 2, 5, 2])).sum().backward()
    assert torch.equal(table.grad, torch.tensor([0.0, 2, 0, 0, 1])[:, None].expand(5, 3))


def test_positions_that_are_moved() -> None:
    text = """def f(float(N, M) A) -> (O, P) {
      J(n) argmax=! A(n, m)
      O(n) = A(n, (J(n) + 1) % M)
      P(n) = A(n, min(J(n) + 1, M - 1))
    }"""
    a = torch.randn(6, 4)
    rows, at = torch.arange(6), a.argmax(1)
    after, last = run(text, a)
    assert torch.equal(after, a[rows, (at + 1) % 4])
    assert torch.equal(last, a[rows, (at + 1).clamp(max=3)])


#: The mean over a graph's edges: nodes, features, edges.
MEAN = """def mean(float(N, D) X, int64(E) From, int64(E) To, int64(E) Counted) -> (S, C) {
  C(n) = 0.0 where n in 0:N
  C(Counted(e)) += 1.0
  S(n, d) = X(n, d)
  S(To(e), d) += X(From(e), d)
}"""


def edges(nodes: int, count: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(nodes, 64), *torch.randint(0, nodes, (2, count)))


def test_what_another_check_says_is_not_looked_at_again() -> None:
    """A scatter of single elements, and one of rows to the same places."""
    text = MEAN.replace(", int64(E) Counted", "").replace("Counted", "To")
    x, begin, end = edges(50, 40000)
    explained = tc.compile(text, "mean", None, x, begin, end).explain()
    assert "looked at before the run" in explained
    assert "looked at by the loops" not in explained
    sums, counts = run(text, x, begin, end)
    assert torch.equal(counts, torch.bincount(end, minlength=50).float())
    torch.testing.assert_close(sums, x.index_add(0, end, x[begin]), rtol=1e-4, atol=1e-4)
    end[300] = 50
    assert "C(To(e)) outside: at e = 300 index 50 of dimension 0" in fails(text, x, begin, end)


def test_neighbours_of_what_was_looked_at_are_loaded_together() -> None:
    """Beside a check that the loops make."""
    x, begin, end = edges(50, 40000)
    executor = tc.compile(MEAN, "mean", None, x, begin, end, begin)
    assert "looked at by the loops: C(Counted(e))" in executor.explain()
    sums, counts = executor(x, begin, end, begin)
    assert torch.equal(counts, torch.bincount(begin, minlength=50).float())
    torch.testing.assert_close(sums, x.index_add(0, end, x[begin]), rtol=1e-4, atol=1e-4)
    assert "insertps" not in executor.assembly
