"""Blocks, tiles and tasks that the model chooses for products, as `explain()` says them."""

from __future__ import annotations

import math
import re

import pytest
import torch
from explained import MACHINE, floats, notes

import tensor_comprehensions as tc

pytestmark = pytest.mark.usefixtures("described_machine")


@pytest.mark.parametrize("cores", [2, 3, 6, 16])
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(128, 1024, 1024), (1024, 1024, 1024), (1000, 128, 1000), (300, 300, 300), (515, 203, 777)],
)
def test_tiles_of_products_are_even_and_enough_for_the_cores(
    m: int, n: int, k: int, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the tiles along a loop, the last has half of a tile's rows at least; of the cores, none
    has many more tiles than the others."""
    monkeypatch.setenv("TC_MACHINE", MACHINE.replace("cores=2", f"cores={cores}"))
    text = "def f(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
    executor = tc.compile(text, "f", None, torch.randn(m, k), torch.randn(n, k))
    (tasks,) = notes(executor.explain(), "group 1")["tasks"]
    total = int(tasks.split()[0])
    assert total >= 0.8 * cores * math.ceil(total / cores)
    tiles = re.findall(r"([mn]) in (\d+) tiles of (\d+)", tasks)
    assert tiles
    for name, count, size in tiles:
        if int(size) <= 64:  # one block of results
            continue
        last = {"m": m, "n": n}[name] - (int(count) - 1) * int(size)
        assert 0.5 * int(size) <= last <= int(size)


@pytest.mark.parametrize(
    ("text", "image", "filters", "tasks"),
    [
        ("O(n,f,h,w) +=! I(n,c,h,w) * K(f,c)", (4, 256, 56, 56), (64, 256), "f whole (64)"),
        ("O(n,f,h,w) +=! I(n,c,h,w) * K(f,c)", (4, 64, 56, 56), (256, 64), "f whole (256)"),
        # The filters of a channel lie 1 KiB apart.
        ("O(n,f,h,w) +=! I(n,c,h,w) * K(c,f)", (4, 64, 56, 56), (64, 256), "f in 5 tiles of 54"),
        (
            "O(n,g,f,h,w) +=! I(n,g,c,h+kh,w+kw) * K(g,f,c,kh,kw)",
            (32, 32, 8, 28, 28),
            (32, 8, 8, 3, 3),
            "h whole (26), f whole (8), w whole (26)",
        ),
    ],
    ids=["many channels", "many filters", "filters apart", "groups"],
)
def test_tasks_have_enough_to_do(
    text: str, image: tuple[int, ...], filters: tuple[int, ...], tasks: str
) -> None:
    """Short blocks of results share a task; many rows share a panel that is read where it lies, if
    what they read beside it stays in the cache."""
    sizes = {4: "float(N,C,H,W) I", 5: "float(N,G,C,H,W) I"}[len(image)]
    indices = re.findall(r"K\((.*)\)", text)[0].upper()
    executor = tc.compile(
        f"def conv({sizes}, float({indices}) K) -> (O) {{ {text} }}",
        "conv",
        None,
        floats(*image),
        floats(*filters),
    )
    assert tasks in notes(executor.explain(), "group 1")["tasks"][0]


def test_blocks_of_the_same_time_with_fewer_loads() -> None:
    text = "def bmm(float(B,I,K) X, float(B,K,J) Y) -> (Z) { Z(b,i,j) +=! X(b,i,k) * Y(b,k,j) }"
    note = notes(
        tc.compile(text, "bmm", None, floats(12, 81, 64), floats(12, 64, 80)).explain(), "group 1"
    )
    assert "9 of i x 48 of j" in note["form"][0]


@pytest.mark.parametrize(
    ("depth", "most"),
    [(1024, 8), (3072, 8), (512, 14), (1040, 14), (1000, 14)],
    ids=["a page", "three pages", "half a page", "a page and a line", "no lines"],
)
def test_rows_that_share_sets_of_the_first_cache_have_room_there(depth: int, most: int) -> None:
    """Sixteen steps read from each line. The rows of B that a block reads together need a place in
    the cache from the first step to the last; of a set's eight places, rows a page apart share
    one set."""
    text = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
    executor = tc.compile(text, "tmm", None, floats(128, depth), floats(1024, depth))
    form = notes(executor.explain(), "group 1")["form"]
    rows = int(re.search(r"registers: (\d+) of n x", form[0]).group(1))
    assert rows <= most
    # No narrower than it has to be.
    assert rows > 8 or most == 8


@pytest.mark.parametrize(("images", "pixels", "cut"), [(4, 196, True), (1, 784, False)])
def test_short_walks_are_made_in_chunks_that_the_cache_keeps(
    images: int, pixels: int, cut: bool
) -> None:
    """Both read 3 MiB of I again for every tile of f; long walks through it are fetched ahead."""
    text = "def f(float(N,F,H) dO, float(N,C,H) I) -> (dK) { dK(f,c) +=! dO(n,f,h) * I(n,c,h) }"
    executor = tc.compile(
        text, "f", None, floats(images, 256, pixels), floats(images, 1024, pixels)
    )
    (tasks,) = notes(executor.explain(), "group 1")["tasks"]
    assert ("c in " in tasks, "c whole (1024)" in tasks) == (cut, not cut)


def test_steps_of_one_iteration_hide_no_leaps() -> None:
    """The columns of K lie 8 KiB apart, whatever the loops over its one pixel."""
    text = """def f(float(N,F,H,W) dO, float(F,C,KH,KW) K) -> (dI) {
      dI(n,c,h,w) +=! dO(n,f,h-kh,w-kw) * K(f,c,kh,kw)
    }"""
    executor = tc.compile(text, "f", None, floats(4, 512, 7, 7), floats(512, 2048, 1, 1))
    (copy,) = notes(executor.explain(), "group 1")["copy"]
    assert copy.startswith("K: ")


def test_shifted_places_that_exceed_the_cache_are_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All tiles of k pass over a row of an image before the next row comes, from channels that data
    shifts; an image that a larger cache keeps is passed over whole."""
    name, shifts = "shift_convolution", torch.zeros(256, dtype=torch.int32)
    values = floats(4, 256, 30, 30), floats(256, 256), shifts, shifts, 28, 28
    for cache, order in ((1 << 19, "n, h, k"), (1 << 20, "n, k, h")):
        machine = re.sub(r"cache_bytes=\d+", f"cache_bytes={cache}", MACHINE)
        monkeypatch.setenv("TC_MACHINE", machine)
        executor = tc.compile(tc.ops.source(name), name, None, *values)
        (tasks,) = notes(executor.explain(), "group 2")["tasks"]
        found = re.findall(r"(\w) (?:one by one|in \d+ tiles)", tasks)
        assert ", ".join(found) == order
