"""TC_CHECK=1: a read whose index is data and bad is an error that says all about it."""

from __future__ import annotations

import pytest
import torch
from fenced import fenced

import tensor_comprehensions as tc

GATHER = "def gather(float(E, D) T, int32(B) I) -> (O) { O(b, d) = T(I(b), d) }"


@pytest.fixture(autouse=True)
def check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_CHECK", "1")


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
    assert fails(GATHER, table, index, options=options) == (
        f"gather: reads T(I(b), d) outside: at b = {rows - 1}, d = 0 index {bad} of dimension 0, "
        "but dimension 0 of T has size 10; correct the data, or guard the read: "
        "condition ? T(...) : 0 (line 1). The results of this call are not to be used"
    )
    index[rows - 1] = 9
    assert torch.equal(run(GATHER, table, index, options=options)[0], table[index.long()])


def test_the_first_of_many() -> None:
    table, index = torch.randn(10, 5), torch.randint(20, 90, (300_000,), dtype=torch.int32)
    index[:1234] = 4
    assert f"at b = 1234, d = 0 index {index[1234]} of" in fails(GATHER, table, index)


def test_a_bad_read_gives_0() -> None:
    table, index = torch.randn(10, 5), indices(1, 10, -1, 2)
    out = torch.full((4, 5), 7.0)
    executor = tc.compile(GATHER, "gather", None, table, index)
    with pytest.raises(tc.ShapeError):
        executor(table, index, outputs=(out,))
    wanted = table[[1, 0, 0, 2]]
    wanted[1:3] = 0
    assert torch.equal(out, wanted)
    assert torch.equal(executor(table, indices(1, 2, 3, 4)), table[1:5])


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
    assert f"at b = 1, d = 0 index {bad} of" in fails(text, torch.randn(10, 2), index)
    index = torch.tensor([3, 9, 4], dtype=dtype)
    table = torch.randn(10, 2)
    assert torch.equal(run(text, table, index)[0], table[[3, 9, 4]])


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


def test_through_define_and_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of the process is not found under the other setting."""
    table = torch.randn(10, 4)
    gather = tc.define(GATHER, namespace="tc_gather_checks").gather
    with pytest.raises(tc.ShapeError, match="index 10 of dimension 0"):
        gather(table, indices(1, 10))
    assert torch.equal(gather(table, indices(1, 9)), table[[1, 9]])
    checked = tc.compile(GATHER, "gather", None, table, indices(1, 9))
    assert "check.0.at" in checked.explain()
    for value in ("0", ""):
        monkeypatch.setenv("TC_CHECK", value)
        assert "check" not in tc.compile(GATHER, "gather", None, table, indices(1, 9)).explain()
    monkeypatch.setenv("TC_CHECK", "yes")
    with pytest.raises(tc.TCError, match="TC_CHECK: 'yes' is neither 1, to look at every index"):
        tc.compile(GATHER, "gather", None, table, indices(1, 9))


def test_programs_without_gathers_are_left_alone() -> None:
    text = "def plain(float(N) A) -> (B) { B(i) = A(i + 1) }"
    assert "check" not in tc.compile(text, "plain", None, torch.randn(5)).explain()


def test_cuda_is_refused() -> None:
    words = r"gather: TC_CHECK=1 looks at the indices of T\(I\(b\), d\) on the CPU only; unset it"
    with pytest.raises(tc.CompilationError, match=words):
        tc.compile(GATHER, "gather", None, torch.randn(9, 2), indices(1), target="cuda:sm_90")
