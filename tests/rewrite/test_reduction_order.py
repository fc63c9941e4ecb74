"""Reductions follow memory where the text's order is that of no operand.

Values are small integers, so that sums are exact in every order.
"""

from __future__ import annotations

import itertools
import re

import pytest
import torch
from exact import integers

import tensor_comprehensions as tc

A, B = integers(9, 5, 6, 7), integers(8, 5, 6, 7)
ORDERS = ["".join(order) for order in itertools.permutations("xyz")]


def run(text: str, *values: torch.Tensor) -> tuple[torch.Tensor, str]:
    """The result, and the indices reduced over, outermost first."""
    executor = tc.compile(text, "f", None, *values)
    found = re.search(r"reduction over (.*)", executor.explain())
    assert found
    return executor(*values), "".join(re.findall(r"([a-z]) \d+", found[1]))


def windows(written: str) -> str:
    """Windows in A times B; the condition, which always holds, is where indices appear first."""
    return f"""def f(float(M,P,Q,R) A, float(N,P,Q,R) B) -> (C) {{
      C(m,n,i,j,k) +=! ({" + ".join(written)} >= m - 8 ? A(m, i + x, j + y, k + z) : 0.0)
                       * B(n, x, y, z)
        where i in 0:2, j in 0:3, k in 0:2, x in 0:4, y in 0:4, z in 0:6
    }}"""


@pytest.mark.parametrize("written", ORDERS)
def test_both_operands_lie_in_one_order(written: str) -> None:
    result, order = run(windows(written), A, B)
    places = A.unfold(1, 4, 1).unfold(2, 4, 1).unfold(3, 6, 1)
    assert torch.equal(result, torch.einsum("mijkxyz,nxyz->mnijk", places, B[:, :4, :4, :6]))
    assert order == "xyz"


@pytest.mark.parametrize("lying", ORDERS)
def test_tensors_lie_as_their_strides_say(lying: str) -> None:
    """Not as their dimensions are listed."""
    axes = [1 + "xyz".index(axis) for axis in lying]
    back = [0, *(1 + axes.index(axis) for axis in (1, 2, 3))]
    a, b = (t.permute(0, *axes).contiguous().permute(*back) for t in (A, B))
    result, order = run(windows("zxy" if lying != "zxy" else "yxz"), a, b)
    places = A.unfold(1, 4, 1).unfold(2, 4, 1).unfold(3, 6, 1)
    assert torch.equal(result, torch.einsum("mijkxyz,nxyz->mnijk", places, B[:, :4, :4, :6]))
    assert order == lying


@pytest.mark.parametrize("written", ["xy", "yx"])
def test_an_operand_in_the_order_of_the_text(written: str) -> None:
    """The other one lies the other way around."""
    a, b = integers(9, 13, 5), integers(5, 13, 8)
    text = f"""def f(float(M,X,Y) A, float(Y,X,N) B) -> (C) {{
      C(m,n) +=! ({" + ".join(written)} >= m - 8 ? A(m,x,y) : 0.0) * B(y,x,n)
    }}"""
    result, order = run(text, a, b)
    assert torch.equal(result, torch.einsum("mxy,yxn->mn", a, b))
    assert order == written


@pytest.mark.parametrize("larger", ["first", "second"])
def test_the_larger_of_operands_in_other_orders(larger: str) -> None:
    rows = (64, 2) if larger == "first" else (2, 64)
    a, b = integers(rows[0], 13, 5, 7), integers(rows[1], 7, 5, 13)
    text = """def f(float(M,X,Y,Z) A, float(N,Z,Y,X) B) -> (C) {
      C(m,n) +=! (y + x + z >= m - 64 ? A(m,x,y,z) : 0.0) * B(n,z,y,x)
    }"""
    result, order = run(text, a, b)
    assert torch.equal(result, torch.einsum("mxyz,nzyx->mn", a, b))
    assert order == ("xyz" if larger == "first" else "zyx")


def test_positions_count_in_the_order_of_the_text() -> None:
    a = integers(3, 4, 5)
    text = "def f(float(X,Y,Z) A) -> (P) { P(y) argmax=! z < X + Z ? A(x,y,z) : 0.0 }"
    wanted = a.permute(1, 2, 0).flatten(1).argmax(1)
    assert torch.equal(tc.compile(text, "f", None, a)(a), wanted)
