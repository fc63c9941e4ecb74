"""Tables whose rows lie across the places that data looks up are transposed first.

Values are small integers, so that sums are exact in every order; tables stand beside memory that
nobody may touch.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from exact import DTYPES, integers
from fenced import fenced

import tensor_comprehensions as tc
from tensor_comprehensions import reference

pytestmark = pytest.mark.usefixtures("described_machine")

PLACES = 12


def places(*sizes: int, last: int = PLACES - 1) -> torch.Tensor:
    """The first and the last one among them."""
    values = torch.randint(0, last + 1, sizes, dtype=torch.int32)
    values.view(-1)[0], values.view(-1)[-1] = last, 0
    return values


def transposed(executor: tc.Executor) -> list[str]:
    """The tensors that are, in the order of their statements."""
    added = re.search(r"^  added +(.*)", executor.explain(), re.MULTILINE)
    return re.findall(r"([\w.]+)\.transposed", added[1]) if added else []


def looked_up(w: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """W(q, d, c(n, d)) as (n, q, d)."""
    return w[:, torch.arange(w.shape[1]), c.long()].transpose(0, 1)


#: Texts with T for the type, and what PyTorch makes of c, b and W, all but c in int64.
READS: dict[str, tuple[str, Callable[..., torch.Tensor]]] = {
    "a sum": (
        "o(n, q) +=! W(q, d, c(n, d)) * b(n, d)",
        lambda c, b, w: (looked_up(w, c) * b[:, None]).sum(2),
    ),
    "a sum of two neighbours": (
        "o(n, q) +=! W(q, d, c(n, d)) * b(n, d) + W(q, d, c(n, d) + 1)",
        lambda c, b, w: (looked_up(w, c) * b[:, None] + looked_up(w, c + 1)).sum(2),
    ),
    "a maximum": (
        "o(n, q) max=! W(q, d, c(n, d)) + b(n, d)",
        lambda c, b, w: (looked_up(w, c) + b[:, None]).amax(2),
    ),
    "a sum along the rows": (
        "o(n, d) +=! W(q, d, c(n, d)) * b(n, q)",
        lambda c, b, w: (looked_up(w, c) * b[:, :, None]).sum(1),
    ),
    "elements": (
        "o(n, d, q) = W(q, d, c(n, d)) - b(n, q)",
        lambda c, b, w: looked_up(w, c).transpose(1, 2) - b[:, None],
    ),
    "terms under a condition": (
        "o(n, q) +=! c(n, d) > 3 ? W(q, d, c(n, d) - 4) * b(n, d) : 0",
        lambda c, b, w: (looked_up(w, (c - 4).clamp(min=0)) * (b * (c > 3))[:, None]).sum(2),
    ),
    "a table of the text": (
        "V(q, d, g) = W(q, d, g) + W(q, d, g)\n o(n, q) +=! V(q, d, c(n, d)) * b(n, d)",
        lambda c, b, w: 2 * (looked_up(w, c) * b[:, None]).sum(2),
    ),
}


def make(dtype: torch.dtype, last: int = PLACES - 2) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    b, w = integers(67, 33, dtype=dtype), integers(33, 33, PLACES, dtype=dtype)
    return fenced(places(67, 33, last=last)), fenced(b), fenced(w)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, t) for name in READS for t in (DTYPES if name == "a sum" else ("float", "half"))],
)
def test_reads(name: str, dtype: str) -> None:
    text, wanted = READS[name]
    values = make(DTYPES[dtype])
    text = f"def f(int32(N,D) c, {dtype}(N,D) b, {dtype}(O,D,G) W) -> (o) {{ {text} }}"
    executor = tc.compile(text, "f", None, *values)
    result = executor(*values)
    assert torch.equal(result, wanted(*(v.long() for v in values)).to(result.dtype))
    assert len(transposed(executor)) == 1


@pytest.mark.parametrize("operator", ["+=!", "+=", "max=!", "min="])
@pytest.mark.parametrize("dtype", ["float", "half", "int32"])
def test_scatters(operator: str, dtype: str) -> None:
    """From nothing, and from what is there."""
    c, b, w = make(DTYPES[dtype])
    g = fenced(integers(67, 33, dtype=b.dtype))
    text = f"""def f(int32(N,D) c, {dtype}(N,D) b, {dtype}(N,O) g) -> ({dtype}(O,D,{PLACES}) W) {{
      W(q, d, c(n, d)) {operator} g(n, q) * b(n, d)
    }}"""
    start = {"+=!": 0, "max=!": -np.inf if w.is_floating_point() else torch.iinfo(w.dtype).min}
    out = fenced(w)
    executor = tc.compile(text, "f", None, c, b, g)
    executor(c, b, g, outputs=out)
    wanted = w.double().numpy().copy()
    if operator in start:
        wanted[:] = start[operator]
    combine = {"+": np.add, "m": np.maximum if operator == "max=!" else np.minimum}[operator[0]]
    q, d = np.arange(33)[:, None], np.arange(33)
    for n in range(67):
        terms = g[n].double()[:, None] * b[n].double()
        combine.at(wanted, (q, d, c[n].numpy()), terms.numpy())
    assert torch.equal(out.double(), torch.from_numpy(wanted))
    assert len(transposed(executor)) == 1


def test_derivatives() -> None:
    """One of them scatters to the table, the other one sums along its rows."""
    c, b, w = (v.double() if v.is_floating_point() else v for v in make(torch.float32))
    text = f"def f(int32(N,D) c, double(N,D) b, double(O,D,G) W) -> (o) {{ {READS['a sum'][0]} }}"
    f = tc.make_autograd(tc.define(text, namespace="tc_transposed_tables").f)
    inputs = [v.clone().requires_grad_() for v in (b, w)]
    g = integers(67, 33, dtype=torch.float64)
    actual = torch.autograd.grad(f(c, *inputs), inputs, g)
    wanted = torch.autograd.grad(READS["a sum"][1](c, *inputs), inputs, g)
    for a, r in zip(actual, wanted, strict=True):
        assert torch.equal(a, r)
    derivative = tc.compile(tc.grad_source(text), "f_grad", None, c, b, w, g)
    assert transposed(derivative) == ["W", "d_W"]


HEAD = "def f(int32(N,D) c, float(N,D) b, float(O,D,G) W) -> (o) "
LEFT_ALONE = {
    "few points": (HEAD + "{ o(n,q) +=! W(q, d, c(n,d)) * b(n,d) where n in 0:2 }", PLACES),
    "a row that an index walks along": (
        HEAD + "{ o(n,q) +=! W(q, d, c(n,d) + k) * b(n,d) where k in 0:4 }",
        PLACES - 4,
    ),
    "places across the rows": (HEAD + "{ o(n,q) +=! W(q, c(n,d), d) * b(n,d) }", PLACES),
    "results along the places": (HEAD + "{ o(q,n) +=! W(q, d, c(n,d)) * b(n,d) }", PLACES),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_is_left_alone(name: str) -> None:
    text, bound = LEFT_ALONE[name]
    c, b = places(67, 12, last=bound - 1), integers(67, 12)
    w = integers(33, 12, PLACES)
    executor = tc.compile(text, "f", None, c, b, w)
    assert not transposed(executor)
    assert torch.equal(executor(c, b, w), reference.run(text, "f", c, b, w))


def test_a_table_that_is_one_element_in_memory() -> None:
    """A copy of it would be larger than it is."""
    c, b, _ = make(torch.float32)
    w = torch.full((1, 1, 1), 2.0).expand(33, 33, PLACES)
    text = HEAD + "{ " + READS["a sum"][0] + " }"
    executor = tc.compile(text, "f", None, c, b, w)
    assert not transposed(executor)
    assert torch.equal(executor(c, b, w), READS["a sum"][1](c, b, w))


def test_a_place_outside_is_told_as_of_the_text() -> None:
    c, b, w = make(torch.float32)
    c[5, 7] = PLACES
    with pytest.raises(tc.ShapeError, match=rf"W\(q, d, c\(n, d\)\).*{PLACES}"):
        tc.compile(HEAD + "{ " + READS["a sum"][0] + " }", "f", None, c, b, w)(c, b, w)
