"""Tensors whose memory was freed or cut under them, as FSDP does between uses of a parameter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

import tensor_comprehensions as tc

TEXT = """
def freed_add(float(N) a, float(N) b) -> (c) { c(i) = a(i) + b(i) }
def freed_both(float(N, M) a) -> (s, t) { s(n) +=! a(n, m)  t(m) +=! a(n, m) }
def freed_start(float(N) a) -> (c) { c(i) += a(i) }
"""
T = tc.define(TEXT, namespace="tc_freed")
OPS = torch.ops.tc_freed
SIZE = 1000
BYTES = 4 * SIZE


def vector(size: int = SIZE) -> torch.Tensor:
    return torch.ones(size)


def freed(tensor: torch.Tensor, left: int = 0) -> torch.Tensor:
    tensor.untyped_storage().resize_(left)
    return tensor


def message(what: str, needs: int = BYTES, left: int = 0) -> str:
    return f"{what}: its elements need {needs} bytes of memory but its storage holds {left}"


CALLS: dict[str, tuple[Callable[[torch.Tensor], object], str]] = {
    "first input": (lambda x: T.freed_add(x, vector()), "argument a"),
    "second input": (lambda x: T.freed_add(vector(), x), "argument b"),
    "operator": (lambda x: OPS.freed_add(x, vector()), "argument a"),
    "differentiable": (lambda x: tc.make_autograd(T.freed_add)(x, vector()), "argument a"),
    "output": (lambda x: T.freed_add(vector(), vector(), outputs=x), "output c"),
    "unchecked output": (
        lambda x: T.freed_add(vector(), vector(), outputs=x, unchecked=True),
        "output c",
    ),
    "input beside outputs": (lambda x: T.freed_add(vector(), x, outputs=vector()), "argument b"),
    "operator out": (lambda x: OPS.freed_add.out(vector(), vector(), c=x), "output c"),
    "initial contents": (lambda x: T.freed_start.overload(vector(), x), "output c"),
    "executor": (
        lambda x: tc.compile(TEXT, "freed_add", None, vector(), vector())(x, vector()),
        "argument a",
    ),
    "executor output": (
        lambda x: tc.compile(TEXT, "freed_add", None, vector(), vector())(
            vector(), vector(), outputs=x
        ),
        "output c",
    ),
    "executor for it": (
        lambda x: tc.compile(TEXT, "freed_add", None, x, vector())(x, vector()),
        "argument a",
    ),
    "einsum": (lambda x: tc.einsum("i, i -> i", x, vector()), "argument"),
    "compiled": (
        lambda x: torch.compile(T.freed_add, backend="eager", fullgraph=True)(x, vector()),
        "argument a",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_freed_storage_is_an_error(name: str) -> None:
    call, what = CALLS[name]
    call(vector())  # compiled, so that nothing but the memory is new
    with pytest.raises(tc.ShapeError, match=f"{what}.*its elements need {BYTES} bytes") as error:
        call(freed(vector()))
    assert "holds 0" in str(error.value)


def test_the_words() -> None:
    with pytest.raises(tc.ShapeError) as error:
        T.freed_add(freed(vector()), vector())
    assert str(error.value) == message("argument a") + (
        "; it was freed or made smaller, as by untyped_storage().resize_(): fill it again before "
        "the call"
    )


def test_storage_that_is_too_small_is_an_error() -> None:
    part = vector(SIZE + 10)[10:]
    T.freed_add(part, vector())
    with pytest.raises(tc.ShapeError, match=message("argument a", BYTES + 40, 400)):
        T.freed_add(freed(part, 400), vector())
    with pytest.raises(tc.ShapeError, match=message("argument a", BYTES + 40, BYTES)):
        T.freed_add(freed(part, BYTES), vector())


def test_strided_tensors_need_what_they_span() -> None:
    wide = torch.ones(6, 5)
    turned = wide.t()[:4, ::2]  # (4, 3), strides (1, 10): the last of 24 elements
    T.freed_both(turned)
    with pytest.raises(tc.ShapeError, match=message("argument a", 96, 95)):
        T.freed_both(freed(turned, 95))
    row = torch.ones(5).expand(7, 5)
    s, t = T.freed_both(row)
    assert s.tolist() == [5.0] * 7 and t.tolist() == [7.0] * 5
    with pytest.raises(tc.ShapeError, match=message("argument a", 20, 0)):
        T.freed_both(freed(row))


def test_memory_that_came_back() -> None:
    x = vector()
    freed(x)
    with pytest.raises(tc.ShapeError):
        T.freed_add(x, vector())
    x.untyped_storage().resize_(BYTES)
    x.fill_(3)
    assert T.freed_add(x, vector()).tolist() == [4.0] * SIZE


def test_nothing_to_read_needs_no_memory() -> None:
    empty = freed(vector())[:0]
    assert T.freed_add(empty, empty).shape == (0,)


def test_what_was_saved_for_the_backward() -> None:
    t = tc.define(
        "def freed_square(float(N) a) -> (b) { b(i) = a(i) * a(i) }", namespace="tc_freed"
    )
    square = tc.make_autograd(t.freed_square)
    x = vector().requires_grad_()
    result = square(x)
    freed(x)
    with pytest.raises(tc.ShapeError, match=message("argument a")):
        result.sum().backward()
    x.untyped_storage().resize_(BYTES)
    with torch.no_grad():
        x.fill_(2)
    square(x).sum().backward()
    assert x.grad.tolist() == [4.0] * SIZE


def test_no_process_dies() -> None:
    """The same in a process of its own, whose end says whether memory was read."""
    script = """
import torch
import tensor_comprehensions as tc
T = tc.define("def freed_alone(float(N) a) -> (b) { b(i) = 2 * a(i) }")
x = torch.ones(1 << 20)
T.freed_alone(x)
x.untyped_storage().resize_(0)
for call in (T.freed_alone, torch.ops.tc.freed_alone, lambda x: T.freed_alone(x, outputs=x)):
    try:
        call(x)
    except tc.ShapeError as error:
        print(str(error).partition(":")[0])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["argument a"] * 3
