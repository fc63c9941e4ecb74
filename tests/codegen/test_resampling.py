"""Rows that are read at quotients of their index, as resized images are: neighbours, few loads and
a permutation of them, between ends where extremes keep the places inside."""

from __future__ import annotations

import random
import re

import pytest
import torch
import torch.nn.functional as F
from exact import integers

import tensor_comprehensions as tc
from tensor_comprehensions import reference

OWN = tc.MappingOptions().matchLibraryCalls(False)


def compiled(text: str, *values: object) -> tc.Executor:
    executor = tc.compile(text, "f", OWN, *values)
    results, wanted = executor(*values), reference.run(text, "f", *values)
    if isinstance(results, torch.Tensor):
        results, wanted = (results,), (wanted,)
    for result, of_reference in zip(results, wanted, strict=True):
        assert torch.equal(result, of_reference)
    return executor


def pieces(executor: tc.Executor) -> int:
    return executor.explain().count("\n  S")


def gathers(executor: tc.Executor) -> bool:
    """Whether lanes are loaded one by one."""
    return re.search(r"vgather|vp?insr|vinsertps", executor.assembly) is not None


PLACES = {
    # Where a row is read at w, in how many pieces of the result, and whether these have gathers.
    "bilinear": ("(max(2 * w, 1) - 1) / 4", 2, False),
    "bilinear, the other": ("min((max(2 * w, 1) - 1) / 4, W - 2) + 1", 3, False),
    "thirds": ("min(max((2 * w - 2) / 6 + 1, 0), W - 1)", 2, False),
    "three of five": ("min(max(3 * w / 5 - 2, 0), W - 1)", 3, False),
    "far ends": ("min(max(w / 2 - 7, 3), W - 9)", 3, False),
    "a choice": ("w > 5 ? w / 2 - 3 : 1", 2, False),
    "no ends": ("w / 2", 1, False),
    # No pattern, or none that few loads bring.
    "a long period": ("min(max(w * 7 / 11 - 2, 0), W - 1)", 3, True),
    "far apart": ("max((w * 9) / 2 - 40, 0) % W", 1, True),
}


@pytest.mark.parametrize("width", [64, 65, 101])
@pytest.mark.parametrize(("place", "count", "gathered"), PLACES.values(), ids=PLACES)
def test_places(place: str, count: int, gathered: bool, width: int) -> None:
    text = f"def f(float(N, W) x) -> (O) {{ O(n, w) = x(n, {place}) * 2 where w in 0:{2 * width} }}"
    executor = compiled(text, integers(5, width))
    assert pieces(executor) == count
    if not gathered:
        assert not gathers(executor)


@pytest.mark.parametrize("scale", [2, 3, 4])
@pytest.mark.parametrize("sizes", [(2, 3, 20, 28), (1, 2, 7, 5), (1, 1, 33, 1), (1, 1, 1, 40)])
def test_bilinear(sizes: tuple[int, ...], scale: int) -> None:
    """The tables of `upsample_bilinear` (ops/pixel_shuffle.tc) are put in the place of their
    reads: which elements are read is known, nothing looks at them."""
    torch.manual_seed(0)
    image = torch.randn(*sizes)
    text = tc.ops.source("upsample_bilinear")
    executor = tc.compile(text, "upsample_bilinear", OWN, image, scale)
    torch.testing.assert_close(
        executor(image, scale),
        F.interpolate(image, scale_factor=scale, mode="bilinear"),
        rtol=1e-4,
        atol=1e-4,
    )
    assert "looked at" not in executor.explain()
    if sizes[-1] > 8:
        assert not gathers(executor)


CUBIC = """def cubic(float(N, H, W) x) -> (O) {
    at(w) = (2 * w - 1 + 4) / 4 - 1 where w in 0:2 * W
    left(w) = max(at(w) - 1, 0) where w in 0:2 * W
    mid(w) = max(at(w), 0) where w in 0:2 * W
    right(w) = min(at(w) + 1, W - 1) where w in 0:2 * W
    last(w) = min(at(w) + 2, W - 1) where w in 0:2 * W
    t(w) = float((2 * w + 3) % 4) / 4 where w in 0:2 * W
    O(n, y, w) = ((-0.75 * t(w) + 1.5) * t(w) - 0.75) * t(w) * x(n, y, left(w))
        + ((1.25 * t(w) - 2.25) * t(w) * t(w) + 1) * x(n, y, mid(w))
        + ((1.25 * (1 - t(w)) - 2.25) * (1 - t(w)) * (1 - t(w)) + 1) * x(n, y, right(w))
        + ((-0.75 * (1 - t(w)) + 1.5) * (1 - t(w)) - 0.75) * (1 - t(w)) * x(n, y, last(w))
}"""


def test_cubic() -> None:
    """Tables of tables, with more ends than there are pieces: those beside the middle keep some."""
    torch.manual_seed(0)
    image = torch.randn(3, 5, 32)
    executor = tc.compile(CUBIC, "cubic", OWN, image)
    wanted = F.interpolate(image[:, None], size=(5, 64), mode="bicubic")[:, 0]
    torch.testing.assert_close(executor(image), wanted, rtol=1e-4, atol=1e-4)
    explained = executor.explain()
    assert "looked at" not in explained
    (middle,) = re.findall(r"O\(n, w \+ 3\) = (.*)", explained)
    places = ["w/2", "(w/2) + 1", "(w/2) + 2", "(w/2) + 3"]
    assert re.findall(r"x\(n, ((?:\(w/2\) \+ \d|w/2))\)", middle) == places


def test_tables_that_are_results_too() -> None:
    text = """def f(float(N, W) x) -> (at, O) {
        at(w) = min(w / 2 + 1, W - 1) where w in 0:2 * W
        O(n, w) = x(n, at(w)) + at(w)
    }"""
    executor = compiled(text, integers(3, 40))
    assert "looked at" not in executor.explain()
    assert "at(w)]" not in executor.explain()


TABLES_THAT_STAY = {
    # The definitions of what x is read at.
    "data": "at(w) = k(w) where w in 0:W",
    "written twice": "at(w) = w where w in 0:W\n at(w) = W - 1 - at(w)",
    "a sum": "at(w) +=! r <= w ? 1 : 0 where w in 0:W, r in 1:W",
    "one that wraps around": "at(w) = abs((w + 2147483647) / 60000000) where w in 0:W",
    "one that wraps around where it is read": "at(w) = w where w in 0:W",
    "one of 8 bits": "at(w) = uint8(w + 256) where w in 0:W",
}


@pytest.mark.parametrize(("kind", "table"), TABLES_THAT_STAY.items(), ids=TABLES_THAT_STAY)
def test_tables_that_stay(kind: str, table: str) -> None:
    text = f"""def f(float(N, W) x, int32(W) k) -> (O) {{
        {table}
        O(n, w) = x(n, at(w)) + k(w) where w in 0:W
    }}"""
    if "it is read" in kind:
        text = text.replace("at(w)) +", "abs(at(w) * 1000003 * 1000003) % W) +")
    executor = compiled(text, integers(3, 40), torch.randperm(40).int())
    assert "at(w)" in executor.explain()


def test_part_of_a_place_is_data() -> None:
    """What is data is looked at, what is not is known."""
    text = """def f(float(N, W) x, int32(M) k) -> (O) {
        at(w) = w / 2 where w in 0:2 * W
        O(m, w) = x(k(m), at(w))
    }"""
    k = torch.tensor([3, 0, 1, 1], dtype=torch.int32)
    executor = compiled(text, integers(4, 40), k)
    looked = [line for line in executor.explain().split("\n") if "looked at" in line]
    assert len(looked) == 1
    assert "k(m)" in looked[0]
    k[2] = 4
    with pytest.raises(tc.ShapeError, match=re.escape("x(k(m), w/2) outside: at m = 2 index 4")):
        executor(integers(4, 40), k)


def test_places_in_a_table_that_data_says() -> None:
    """Are looked at: what lies behind the table's end would be inside of what it leads to."""
    text = """def f(float(N, W) x, int32(M) k) -> (O) {
        at(w) = w / 4 where w in 0:W
        O(n, m) = x(n, at(k(m)))
    }"""
    k = torch.tensor([3, 0, 39, 17], dtype=torch.int32)
    executor = compiled(text, integers(4, 40), k)
    k[2] = 40
    with pytest.raises(tc.ShapeError, match=re.escape("at(k(m)) outside: at m = 2 index 40")):
        executor(integers(4, 40), k)


def test_places_outside() -> None:
    """Tell of the table and what it holds, as if it were data."""
    text = """def f(float(N, W) x) -> (O) {
        at(w) = w / 2 + 1 where w in 0:2 * W
        O(n, w) = x(n, at(w))
    }"""
    with pytest.raises(tc.ShapeError, match=r"x\(n, at\(w\)\) outside: at .*w = 78.* index 40 of"):
        tc.compile(text, "f", OWN, integers(3, 40))(integers(3, 40))
    # Nor is a table read outside of it.
    with pytest.raises(tc.ShapeError, match=r"reads at\(w \+ 1\)"):
        text = text.replace("at(w))", "at(w + 1) - 1) where w in 0:2 * W")
        tc.compile(text, "f", OWN, integers(3, 40))


def test_places_outside_that_nothing_reads() -> None:
    text = """def f(float(N, W) x) -> (O) {
        at(w) = w - 2 where w in 0:W
        O(n, w) = at(w) >= 0 ? x(n, at(w)) : 1 where w in 0:W
    }"""
    executor = compiled(text, integers(3, 40))
    assert "looked at" not in executor.explain()


GRID = """def grid(float(B, C, H, W) X, float(B, P, Q, 2) G) -> (O) {
    O(b, c, p, q) = (1 - u) * (1 - v) * (y >= 0 && y < H && x >= 0 && x < W ? X(b, c, y, x) : 0)
        + (1 - u) * v * (y >= 0 && y < H && x + 1 >= 0 && x + 1 < W ? X(b, c, y, x + 1) : 0)
        + u * (1 - v) * (y + 1 >= 0 && y + 1 < H && x >= 0 && x < W ? X(b, c, y + 1, x) : 0)
        + u * v * (y + 1 >= 0 && y + 1 < H && x + 1 >= 0 && x + 1 < W ? X(b, c, y + 1, x + 1) : 0)
        where px = (G(b, p, q, 0) + 1) * 0.5 * (W - 1), py = (G(b, p, q, 1) + 1) * 0.5 * (H - 1),
              x = int32(floor(px)), y = int32(floor(py)), v = px - floor(px), u = py - floor(py)
}"""


@pytest.mark.parametrize("sizes", [(2, 13, 64, 64, 40, 31), (1, 32, 40, 33, 40, 40)])
def test_grid(sizes: tuple[int, ...]) -> None:
    """Places that data says: vectors along the results, not along channels, whose results lie a
    plane apart. The gradient adds to planes of the image, some of which a task passes over at
    once."""
    b, c, h, w, p, q = sizes
    torch.manual_seed(0)
    image = torch.randn(b, c, h, w, requires_grad=True)
    grid = ((torch.rand(b, p, q, 2) * 2 - 1) * 1.1).requires_grad_()
    executor = tc.compile(GRID, "grid", None, image.detach(), grid.detach())
    assert re.search(r"form +element by element, vectors along [pq]\n", executor.explain())
    called = tc.make_autograd(tc.define(GRID).grid)
    found, wanted = called(image, grid), F.grid_sample(image, grid, align_corners=True)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    seed = torch.randn_like(wanted)
    for one, other in zip(
        torch.autograd.grad(found, (image, grid), seed),
        torch.autograd.grad(wanted, (image, grid), seed),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_planes_that_a_scatter_adds_to() -> None:
    """Of planes that lie whole pages apart, four at a time."""
    text = """def f(float(C, P) d, float(P) y, float(P) x) -> (float(C, 64, 64) o) {
        o(c, int32(y(p)), int32(x(p))) +=! d(c, p)
    }"""
    torch.manual_seed(0)
    values, y, x = integers(10, 500), torch.rand(500) * 64, torch.rand(500) * 64
    executor = tc.compile(text, "f", OWN, values, y, x)
    assert "c in 3 tiles of 4" in executor.explain()
    wanted = torch.zeros(10, 64 * 64).index_add_(1, y.long() * 64 + x.long(), values)
    assert torch.equal(executor(values, y, x), wanted.view(10, 64, 64))


def expression(r: random.Random, depth: int) -> str:
    """An integer expression of w, of no division by zero."""
    if depth == 0:
        return r.choice(["w", "w", "2 * w", str(r.randint(-9, 90))])
    a, b = expression(r, depth - 1), expression(r, depth - 1)
    return r.choice(
        [
            f"({a} + {b})",
            f"({a} - {b})",
            f"({a} * {r.randint(-3, 3)})",
            f"({a} % {r.choice([2, 3, 4, 50])})",
            f"({a} / {r.choice([-2, 2, 3, 4, 6, 8])})",
            f"min({a}, {b})",
            f"max({a}, {b})",
            f"({a} {r.choice(['<', '<=', '>', '>='])} {b} ? {a} : {b})",
        ]
    )


def test_random_places() -> None:
    """In the text of the read or behind a table, from two rows at a time."""
    split = 0
    for seed in range(120):
        r = random.Random(seed)
        places = [f"min(max({expression(r, r.randint(1, 3))}, 0), W - 1)" for _ in range(2)]
        if seed % 2:
            text = f"""def f(float(N, W) x) -> (O) {{
                a(w) = {places[0]} where w in 0:W
                b(w) = {places[1]} where w in 0:W
                O(n, w) = x(n, a(w)) - x(n, b(w))
            }}"""
        else:
            text = f"""def f(float(N, W) x) -> (O) {{
                O(n, w) = x(n, {places[0]}) - x(n, {places[1]}) where w in 0:W
            }}"""
        executor = compiled(text, integers(3, r.choice([24, 64, 81])))
        split += pieces(executor) > 1
    assert split > 30
