"""Tensors of more elements than 32 bits count: gathers, scatters, gradients, sums, places, einsum.

They are of one byte an element, and mostly memory that nobody has written to, which reads as zeros
and takes none. `test_sizes.py` has the same for plain kernels.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tensor_comprehensions as tc

ROWS, COLUMNS = 50_000, 44_000  # 2.2 billion
LAST = ROWS - 1


def zeros(rows: int, dtype: type) -> torch.Tensor:
    """NumPy's are pages that nobody has written to yet; PyTorch would write them."""
    return torch.from_numpy(np.zeros((rows, COLUMNS), dtype))


def mostly_zeros(dtype: torch.dtype = torch.int8) -> torch.Tensor:
    table = zeros(ROWS, np.int8 if dtype == torch.int8 else np.uint8)
    for row in (0, 1, 48_800, 48_806, 48_807, LAST):  # on both sides of 2^31
        table[row] = (torch.arange(COLUMNS) * (row % 7 + 1) + row).remainder(100).to(dtype)
    return table


def places(*rows: int) -> torch.Tensor:
    return torch.tensor(rows)


TEXT = """
def rows(uint8(V,D) T, int64(N) I) -> (O) { O(n,d) = T(I(n),d) + 1 }
def elements(uint8(V,D) T, int64(N) I, int32(N) J) -> (O) { O(n) = T(I(n), J(n)) }
def columns(uint8(V,D) T, int64(N) I) -> (O) { O(v,n) = T(v, I(n)) }
def bags(uint8(V,D) T, int64(N,L) I) -> (int32(N,D) O) { O(n,d) +=! int32(T(I(n,l),d)) }
def products(uint8(V,D) T, int64(N) I, uint8(D,K) W) -> (int32(N,K) O) {
  O(n,k) +=! int32(T(I(n),d)) * int32(W(d,k)) }
def add(int8(N,D) G, int64(N) I, int8(V,D) T) -> (int8(V,D) S) { S(I(n),d) +=! G(n,d) }
def sum(int8(M,N) A) -> (int64 s) { s +=! int64(A(i,j)) }
def places(int8(M,N) A) -> (most, least) { most argmax=! A(i,j)  least argmin=! A(i,j) }
def sums(int8(M,N) A) -> (int32(M) r, int32(N) c) {
  r(i) +=! int32(A(i,j))  c(j) +=! int32(A(i,j)) }
"""


@pytest.fixture(scope="module")
def definitions() -> tc.TC:
    return tc.define(TEXT, namespace="tc_large_tensors")


@pytest.mark.slow
def test_gathers(definitions: tc.TC) -> None:
    table = mostly_zeros(torch.uint8)
    rows = places(48_806, 48_807, LAST, 0, 48_808, 1, 48_800, LAST)
    wanted = table[rows]
    assert torch.equal(definitions.rows(table, rows), wanted + 1)
    columns = places(COLUMNS - 1, 0, 31_000, 16_000, 44, 43_999, 7, 1).int()
    assert torch.equal(definitions.elements(table, rows, columns), table[rows, columns.long()])
    picked = definitions.columns(table, places(43_999, 5))
    assert torch.equal(picked, table[:, [43_999, 5]])
    bags = definitions.bags(table, rows.reshape(4, 2))
    assert torch.equal(bags, wanted.int().reshape(4, 2, -1).sum(1, dtype=torch.int32))
    weights = torch.randint(0, 5, (COLUMNS, 3), dtype=torch.uint8)
    products = definitions.products(table, rows, weights)
    assert torch.equal(products.double(), wanted.double() @ weights.double())
    for bad in (ROWS, -1, 2**32, 2**31):
        with pytest.raises(tc.ShapeError, match=str(bad)):
            definitions.rows(table, places(1, bad))


@pytest.mark.slow
def test_scatters(definitions: tc.TC) -> None:
    like = zeros(ROWS, np.int8)
    rows = places(48_806, LAST, 48_807, LAST, 0, 48_807)
    values = torch.randint(-20, 20, (len(rows), COLUMNS), dtype=torch.int8)
    result = definitions.add(values, rows, like)
    for row in (0, 48_806, 48_807, LAST):
        assert torch.equal(result[row], values[rows == row].sum(0, dtype=torch.int8)), row
    result[[0, 48_806, 48_807, LAST]] = 0
    assert not result.numpy().view(np.int64).any()  # eight at a time


@pytest.mark.slow
def test_reductions(definitions: tc.TC) -> None:
    a = mostly_zeros()
    a[LAST, COLUMNS - 2], a[48_900, 17] = 120, -120
    written = torch.tensor([0, 1, 48_800, 48_806, 48_807, 48_900, LAST])
    exact = a[written].long()
    assert definitions.sum(a).item() == exact.sum().item()
    most, least = definitions.places(a)
    assert most.item() == LAST * COLUMNS + COLUMNS - 2
    assert least.item() == 48_900 * COLUMNS + 17
    rows, columns = definitions.sums(a)
    wanted = torch.zeros(ROWS, dtype=torch.int32)
    wanted[written] = exact.sum(1).int()
    assert torch.equal(rows, wanted)
    assert torch.equal(columns, exact.sum(0).int())


@pytest.mark.slow
def test_einsum() -> None:
    a = mostly_zeros()
    x = torch.randint(-3, 4, (COLUMNS,), dtype=torch.int8)
    written = [0, 1, 48_800, 48_806, 48_807, LAST]
    y = tc.einsum("ij,j->i", a, x)
    wanted = torch.zeros(ROWS, dtype=torch.int8)
    wanted[written] = (a[written].long() @ x.long()).to(torch.int8)  # sums wrap around
    assert torch.equal(y, wanted)
    rows = places(LAST, 48_807, 0)
    assert torch.equal(tc.einsum("(r[n])j,j->n", a, x, r=rows), wanted[rows])


@pytest.mark.slow
def test_gradients() -> None:
    """Of floats whose elements lie that far apart, and of what meets a large table."""
    text = """
    def far(float(V,D) T, int64(N) I) -> (O) { O(n,d) = T(I(n),d) * 2 }
    def near(uint8(V,D) T, int64(N) I, float(D) W) -> (O) {
      O(n) +=! float(T(I(n),d)) * W(d) }"""
    t = tc.define(text, namespace="tc_large_gradients")
    rows = places(20, 0, 20, 19)
    table = zeros(60_000, np.float32)[::2999]  # 21 rows
    table[20], table[19] = 3, 5
    table.requires_grad_()
    result = tc.make_autograd(t.far)(table, rows)
    assert torch.equal(result[:, 7], torch.tensor([6.0, 0, 6, 10]))
    (gradient,) = torch.autograd.grad(result, table, torch.ones_like(result))
    wanted = torch.zeros(21)
    wanted[0], wanted[19], wanted[20] = 2, 2, 4
    assert torch.equal(gradient, wanted[:, None].expand(21, COLUMNS))

    bytes_ = mostly_zeros(torch.uint8)
    rows = places(LAST, 48_807, 0)
    weights = torch.randint(-3, 4, (COLUMNS,)).float().requires_grad_()
    received = torch.tensor([1.0, -2, 3])
    result = tc.make_autograd(t.near)(bytes_, rows, weights)
    (gradient,) = torch.autograd.grad(result, weights, received)
    assert torch.equal(gradient, received @ bytes_[rows].float())


def test_dimensions_beyond_32_bits_are_refused(definitions: tc.TC) -> None:
    """Indices have 32 bits: one dimension ends there, whatever memory holds."""
    a = torch.empty(1, dtype=torch.int8).expand(2**31 + 5)
    text = "def f(int8(N) A) -> (int64 s) { s +=! int64(A(i)) }"
    with pytest.raises(tc.ShapeError, match=r"A.*2147483653.*32 bits"):
        tc.define(text, namespace="tc_large_dimension").f(a)
    with pytest.raises(tc.ShapeError, match=r"2147483653.*32 bits"):
        tc.einsum("i,i->", a, a)
    index = places(0)
    text = "def f(int8(N) T, int64(M) I) -> (O) { O(i) = T(I(i)) }"
    with pytest.raises(tc.ShapeError, match=r"T.*2147483653.*32 bits"):
        tc.define(text, namespace="tc_large_dimension").f(a, index)
