"""Outputs in the memory of inputs or of each other: exact, by elements, not by address ranges."""

from __future__ import annotations

import random

import pytest
import torch

import tensor_comprehensions as tc

T = tc.define(
    """
def copy2(float(M, N) A) -> (B) { B(i, j) = A(i, j) + 1 }
def pair(float(N) A) -> (B, C) { B(i) = A(i)  C(i) = A(i) }
""",
    namespace="tc_overlap",
)


def addresses(tensor: torch.Tensor) -> list[int]:
    base = tensor.untyped_storage().data_ptr()
    everything = torch.arange(tensor.untyped_storage().nbytes() // tensor.element_size())
    offset = (tensor.data_ptr() - base) // tensor.element_size()
    view = everything.as_strided(tensor.shape, tensor.stride(), offset)
    return view.flatten().tolist()


def test_interleaved_columns_are_apart() -> None:
    storage = torch.ones(6, 8)
    T.copy2(storage[:, ::2], outputs=(storage[:, 1::2],))
    assert (storage[:, ::2] == 1).all() and (storage[:, 1::2] == 2).all()
    with pytest.raises(tc.ShapeError, match="output B overlaps input A"):
        T.copy2(storage[:, :4], outputs=(storage[:, 3:7],))


def test_random_views() -> None:
    """Against the sets of addresses."""
    choose = random.Random(7)
    refused = accepted = inner = 0
    for _ in range(120):
        m, n = choose.randint(1, 4), choose.randint(1, 4)
        storage = torch.ones(160)

        def view(m: int = m, n: int = n, storage: torch.Tensor = storage) -> torch.Tensor:
            strides = (choose.randint(0, 12), choose.randint(0, 6))
            return storage.as_strided((m, n), strides, choose.randint(0, 40))

        source, target = view(), view()
        places = addresses(target)
        repeats = len(set(places)) != len(places)
        meets = not set(places).isdisjoint(addresses(source))
        if repeats or meets:
            words = "share one place in memory" if repeats else "output B overlaps input A"
            with pytest.raises(tc.ShapeError, match=words):
                T.copy2(source, outputs=(target,))
            assert (storage == 1).all()
        else:
            T.copy2(source, outputs=(target,))
            assert (target == 2).all()
            assert storage.sum() == storage.numel() + len(places)
        refused, accepted, inner = (
            refused + meets,
            accepted + (not meets and not repeats),
            (inner + repeats),
        )
    assert min(refused, accepted, inner) > 10


def test_empty_tensors_overlap_nothing() -> None:
    storage = torch.ones(8)
    T.copy2(storage.as_strided((0, 4), (4, 1)), outputs=(storage.as_strided((0, 4), (4, 1)),))
    T.pair(storage[:0], outputs=(storage[:0], storage[:0]))


def test_outputs_that_touch() -> None:
    storage = torch.zeros(9)
    T.pair(torch.ones(4), outputs=(storage[:4], storage[4:8]))
    assert storage.tolist() == [1] * 8 + [0]
    with pytest.raises(tc.ShapeError, match="output C overlaps output B"):
        T.pair(torch.ones(4), outputs=(storage[:4], storage[:4]))


def test_a_kernel_that_ran_before_is_still_checked() -> None:
    """The same layouts find the same kernel; only the addresses say that memory is shared."""
    apart, storage = torch.ones(3, 4), torch.ones(8, 4)
    T.copy2(apart, outputs=(storage[:3],))
    storage.fill_(1)
    with pytest.raises(tc.ShapeError, match="output B overlaps input A"):
        T.copy2(storage[2:5], outputs=(storage[:3],))
    with pytest.raises(tc.ShapeError, match="output B overlaps input A"):
        torch.ops.tc_overlap.copy2.out(storage[2:5], B=storage[:3])
    assert (storage == 1).all()
    torch.ops.tc_overlap.copy2.out(storage[3:6], B=storage[:3])
    assert (storage[:3] == 2).all() and (storage[3:] == 1).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int32])
def test_results_of_another_dtype_are_refused_by_executors(dtype: torch.dtype) -> None:
    """A kernel would write behind the end of a smaller one."""
    text = "def f(float(N) x) -> (y) { y(i) = 2 * x(i) }"
    x, y = torch.ones(1000), torch.zeros(1000, dtype=dtype)
    name = str(dtype).removeprefix("torch.")
    with pytest.raises(tc.ShapeError, match=f"output y: expected dtype float32 but got {name}"):
        tc.compile(text, "f", None, x)(x, outputs=y)
    assert not y.any()


def test_results_that_are_copied_when_written_are_copied() -> None:
    text = "def f(float(N) x) -> (y) { y(i) = x(i) + 1 }"
    base = torch.zeros(8)
    result = torch._lazy_clone(base)[::2]
    tc.compile(text, "f", None, base[1::2])(base[1::2], outputs=result)
    assert not base.any() and (result == 1).all()


@pytest.mark.parametrize("call", ["attribute", "operator"])
def test_the_first_call_copies_what_is_copied_when_written(call: str) -> None:
    """A call that compiles sees the memory that it is going to write, as later calls do."""
    namespace = f"tc_overlap_lazily_{call}"
    t = tc.define(
        "def f(float(N) x) -> (y, z) { y(i) = x(i) + 1  z(i) = x(i) + 2 }", namespace=namespace
    )
    for size in (8, 9, 8):
        x = torch.zeros(size)
        y, z = torch._lazy_clone(x), torch._lazy_clone(x)
        if call == "attribute":
            t.f(x, outputs=(y, z))
        else:
            getattr(torch.ops, namespace).f.out(x, y=y, z=z)
        assert not x.any() and (y == 1).all() and (z == 2).all()
