"""Conditions of derived texts: those that the ranges of their indices imply are left out."""

from __future__ import annotations

import itertools

import pytest
import torch

import tensor_comprehensions as tc

_namespaces = itertools.count()

# A text, its wanted statement of d_X without the ranges, and inputs.
CONDITIONS = {
    "of a solved index and of a guard": (
        "double(D, L) X, double(D, L) Y",
        "O(d, t) +=! s <= t ? X(d, t - s) * Y(d, s) : 0 where t in 0:L, s in 0:L",
        "d_X(d, t) +=! t + s <= L - 1 ? d_O(d, t + s) * Y(d, s) : 0.0",
        ((3, 7), (3, 7)),
    ),
    "of a solved index, its larger end": (
        "double(N) X",
        "O(i) = X(i + 1) - X(i)",
        "d_X(i) = (i - 1 >= 0 ? d_O(i - 1) : 0.0) + (i <= N - 2 ? -d_O(i) : 0.0)",
        ((7,),),
    ),
    "with sizes": (
        "double(F) X, double(E) Y",
        "O(e) = e < F ? Y(e) : X(e - F) * Y(e) where e in 0:2 * F",
        "d_X(e) = d_O(e + F) * Y(e + F) where",
        ((5,), (10,)),
    ),
    "with sizes, of an index that is read as it is": (
        "double(F) X, double(E) Y",
        "O(e) = e < F ? X(e) * Y(e) : 2 * Y(e) where e in 0:2 * F",
        "d_X(e) = d_O(e) * Y(e) where",
        ((5,), (10,)),
    ),
    "strict ones": (
        "double(N) X, double(N) Y",
        "O(i) +=! i - j < N && j > -1 ? X(i - j) * Y(j) : 0 where i in 0:N, j in 0:1",
        "d_X(i) +=! d_O(i + j) * Y(j)",
        ((6,), (6,)),
    ),
    # What may fail stays.
    "an end that may be left": (
        "double(N) X, double(M) Y",
        "O(i) +=! i >= j ? X(i - j) * Y(j) : 0 where i in 0:N, j in 0:M",
        "d_X(i) +=! i + j <= N - 1 ? d_O(i + j) * Y(j) : 0.0",
        ((7,), (3,)),
    ),
    "a scalar": (
        "double(N) X, int32 s",
        "O(i) = i + s >= 0 ? X(i) * 2 : 0 where i in 0:N",
        "d_X(i) = i + s >= 0 ? d_O(i) * 2 : 0.0",
        ((7,), -3),
    ),
    "sums that wrap around": (
        "double(N) X",
        "O(i) = i * 1000000000 >= 0 ? X(i) * 2 : 0 where i in 0:N",
        "d_X(i) = i * 1000000000 >= 0 ? d_O(i) * 2 : 0.0",
        ((7,),),
    ),
}


@pytest.mark.parametrize(
    ("parameters", "statement", "derived", "sizes"), CONDITIONS.values(), ids=CONDITIONS
)
def test_conditions(parameters: str, statement: str, derived: str, sizes: tuple) -> None:
    text = f"def f({parameters}) -> (O) {{ {statement} }}"
    source = tc.grad_source(text, "f")
    assert derived in " ".join(source.split()), source
    name = f"tc_derived_conditions_{next(_namespaces)}"
    values = [
        torch.randn(x, dtype=torch.double, requires_grad=True) if isinstance(x, tuple) else x
        for x in sizes
    ]
    assert torch.autograd.gradcheck(tc.make_autograd(tc.define(text, namespace=name).f), values)
