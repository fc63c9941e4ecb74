"""Rows of a few results: blocks that have them whole, and interleave vectors as they are stored."""

from __future__ import annotations

import pytest
import torch
from explained import block_of

import tensor_comprehensions as tc

MACHINE = "vector_bits=512,unit_bits=256,vector_registers=32,cores=2,library_rate=1"
INTERLEAVED = "whose vectors are interleaved as they are stored"
COMPLEX = """def f(float(N,2) X, float(N,2) Y) -> (Z) {
  Z(n,k) = k == 0 ? X(n,0) * Y(n,0) - X(n,1) * Y(n,1) : X(n,0) * Y(n,1) + X(n,1) * Y(n,0)
      where k in 0:2
}"""
CROSS = """def f(float(N,3) X, float(N,3) Y) -> (Z) {
  Z(n,k) = X(n,(k+1)%3) * Y(n,(k+2)%3) - X(n,(k+2)%3) * Y(n,(k+1)%3) where k in 0:3
}"""
MATRICES = "def f(float(B,N,K) X, float(N,K,K) W) -> (Y) { Y(b,n,i) +=! W(n,i,j) * X(b,n,j) }"
SPECTRUM = """def f(float(B,I,M,2) X, float(I,O,M,2) W) -> (Y) {
  Y(b,o,m,c) +=! c == 0 ? X(b,i,m,0) * W(i,o,m,0) - X(b,i,m,1) * W(i,o,m,1)
                        : X(b,i,m,0) * W(i,o,m,1) + X(b,i,m,1) * W(i,o,m,0) where c in 0:2
}"""


@pytest.fixture(autouse=True)
def described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", MACHINE)


def multiply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(torch.view_as_complex(x) * torch.view_as_complex(y))


@pytest.mark.parametrize("size", [16, 100, 4096, 65537])
def test_products_of_complex_numbers(size: int) -> None:
    """The vector goes along the long loop; what a row chooses by its index is decided."""
    x, y = torch.randn(size, 2), torch.randn(size, 2)
    executor = tc.compile(COMPLEX, "f", None, x, y)
    assert block_of(executor) == {"k": 2, "n": 16} and INTERLEAVED in executor.explain()
    torch.testing.assert_close(executor(x, y), multiply(x, y), atol=1e-5, rtol=1e-5)
    again = tc.compile(COMPLEX, "f", tc.MappingOptions.parse(str(executor.options)), x, y)
    assert torch.equal(again(x, y), executor(x, y))


@pytest.mark.parametrize("size", [15, 16, 100, 4099])
def test_cross_products(size: int) -> None:
    """Where a row begins and ends depends on its index, by a remainder."""
    x, y = torch.randn(size, 3), torch.randn(size, 3)
    given = tc.MappingOptions().cluster("S0").order("k", "n").vector(True).registers(k=3, n=16)
    for options in (None, given):
        executor = tc.compile(CROSS, "f", options, x, y)
        wanted = torch.linalg.cross(x, y)
        torch.testing.assert_close(executor(x, y), wanted, atol=1e-5, rtol=1e-5)


def test_rows_that_are_a_vector_have_none() -> None:
    """Of 16 elements, and where neighbours of the long loop are neighbours in memory."""
    x = torch.randn(4096, 16)
    wide = tc.compile("def f(float(N,16) X) -> (Z) { Z(n,k) = X(n,15-k) - X(n,0) }", "f", None, x)
    assert INTERLEAVED not in wide.explain()
    y = torch.randn(3, 4096)
    text = "def f(float(3,N) X) -> (Z) { Z(k,n) = X(2-k,n) - X(0,n) }"
    assert INTERLEAVED not in tc.compile(text, "f", None, y).explain()


@pytest.mark.parametrize("dtype", [torch.float, torch.double, torch.half, torch.bfloat16])
@pytest.mark.parametrize("row", [2, 3, 4, 5, 8])
def test_rows_of_every_type(row: int, dtype: torch.dtype) -> None:
    name = {torch.half: "half", torch.double: "double"}.get(dtype, str(dtype)[6:])
    name = "float" if name == "float32" else name
    text = f"""def f({name}(N,{row}) X, {name}(N) s) -> (Z) {{
      Z(n,k) = X(n,{row}-1-k) * s(n) - X(n,0) where k in 0:{row}
    }}"""
    x, s = torch.randint(-4, 5, (777, row)).to(dtype), torch.randint(-4, 5, (777,)).to(dtype)
    given = tc.MappingOptions().cluster("S0").order("k", "n").vector(True).registers(k=row, n=16)
    for options in (None, given):
        executor = tc.compile(text, "f", options, x, s)
        assert torch.equal(executor(x, s), x.flip(1) * s[:, None] - x[:, :1])


@pytest.mark.parametrize("row", [2, 3, 4])
def test_small_matrices(row: int) -> None:
    """Sums with such results have blocks in registers, which are stored the same way."""
    x, w = torch.randn(5, 301, row), torch.randn(301, row, row)
    executor = tc.compile(MATRICES, "f", None, x, w)
    torch.testing.assert_close(executor(x, w), torch.einsum("nij,bnj->bni", w, x))
    given = tc.MappingOptions().cluster("S0").order("b", "i", "n").vector(True)
    for block in ({"b": 2, "n": 16}, {"b": 1, "n": 32}):
        options = tc.MappingOptions.parse(f"{given.registers(i=row, **block)}")
        made = tc.compile(MATRICES, "f", options, x, w)
        assert block_of(made)["i"] == row
        torch.testing.assert_close(made(x, w), torch.einsum("nij,bnj->bni", w, x))


def test_products_of_spectra() -> None:
    """What both sides of a choice read is read in any case: no load is masked, and copies may
    be made."""
    x, w = torch.randn(4, 8, 50, 2), torch.randn(8, 6, 50, 2)
    executor = tc.compile(SPECTRUM, "f", None, x, w)
    wanted = torch.einsum("bim,iom->bom", torch.view_as_complex(x), torch.view_as_complex(w))
    torch.testing.assert_close(executor(x, w), torch.view_as_real(wanted), atol=1e-5, rtol=1e-5)
    assert "block of results in registers" in executor.explain()
    given = tc.MappingOptions().cluster("S0").order("b", "o", "c", "m").vector(True)
    made = tc.compile(SPECTRUM, "f", given.registers(b=2, o=2, c=2, m=16), x, w)
    torch.testing.assert_close(made(x, w), torch.view_as_real(wanted), atol=1e-5, rtol=1e-5)


def test_gradients_of_complex_products_are_one_pass() -> None:
    """Sums over two terms that an index chooses are written out, and go where they are read."""
    x, y, g = torch.randn(777, 2), torch.randn(777, 2), torch.randn(777, 2)
    source = tc.grad_source(COMPLEX, "f")
    executor = tc.compile(source, "f_grad", None, x, y, g)
    text = executor.explain()
    assert INTERLEAVED in text and "1 group" in text and "workspace none" in text
    leaves = [t.clone().requires_grad_() for t in (x, y)]
    wanted = torch.autograd.grad(multiply(*leaves), leaves, g)
    for made, each in zip(executor(x, y, g), wanted, strict=True):
        torch.testing.assert_close(made, each, atol=1e-5, rtol=1e-5)


def test_sums_that_choose_by_more_than_an_index_stay() -> None:
    text = """def f(float(N,3) X, int32(N) t) -> (S, T, U) {
      S(n) +=! k == t(n) ? X(n,k) : -X(n,k)
      T(n) +=! k < 2 ? X(n,k) : 2 * X(n,k)
      U +=! k == 1 ? X(n,k) : 0
    }"""
    x, t = torch.randn(50, 3), torch.randint(0, 3, (50,)).int()
    executor = tc.compile(text, "f", None, x, t)
    s, u, v = executor(x, t)
    one = torch.nn.functional.one_hot(t.long(), 3)
    torch.testing.assert_close(s, (x * (2 * one - 1)).sum(1))
    torch.testing.assert_close(u, x.sum(1) + x[:, 2])
    torch.testing.assert_close(v, x[:, 1].sum())
    made = executor.explain()
    assert "S(n) +=!" in made and "T(n) = " in made and "U() +=!" in made
