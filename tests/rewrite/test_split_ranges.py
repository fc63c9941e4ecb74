"""Copies whose places are affine piece by piece are copies of neighbours, a statement a piece."""

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
    assert torch.equal(executor(*values), reference.run(text, "f", *values))
    return executor


def pieces(executor: tc.Executor) -> int:
    return executor.explain().count("\n  S")


PLACES = {
    # Where a row of W elements is read at w, and in how many pieces.
    "circular": ("(w - 3 + W) % W", 3),
    "replicated": ("min(max(w - 3, 0), W - 1)", 3),
    "reflected": ("W - 1 - abs(W - 1 - abs(w - 3))", 3),
    "turned around": ("(2 * W - 1 - w) % W", 2),
    # As the derivative of a circular read is written; where the first remainder is 0, nothing is
    # added to it.
    "circular in two steps": ("((w - (W - 3)) % W + W) % W", 2),
    "all but one": ("w == W - 3 ? 2 : w % W", 4),
    "a step": ("w < 8 ? 0 : w - 8", 2),
    "conditions": ("w > 4 && !(w > W - 1) ? w - 4 : 5", 3),
    "either": ("w < 4 || w >= W ? 2 : w - 1", 3),
    "halves": ("w >= W / 2 ? w - W / 2 : w", 2),
}


@pytest.mark.parametrize("width", [64, 65, 100, 131])
@pytest.mark.parametrize(("place", "count"), PLACES.values(), ids=PLACES)
def test_pieces(place: str, count: int, width: int) -> None:
    text = f"def f(float(N, W) x) -> (O) {{ O(n, w) = x(n, {place}) where w in 0:W + 6 }}"
    if place.startswith(("(2", "w >=")):
        text = text.replace("W + 6", "W + W / 2" if "/ 2" in place else "2 * W")
    executor = compiled(text, integers(5, width))
    assert pieces(executor) >= count


@pytest.mark.parametrize("mode", ["circular", "reflect", "replicate"])
@pytest.mark.parametrize("border", [(0, 0, 0, 0), (1, 2, 3, 0), (7, 0, 5, 6), (30, 31, 1, 1)])
def test_padding(mode: str, border: tuple[int, ...]) -> None:
    image = integers(2, 3, 33, 90)
    text = tc.ops.source(f"pad_{mode}").replace(f"def pad_{mode}(", "def f(")
    executor = tc.compile(text, "f", OWN, image, *border)
    assert torch.equal(executor(image, *border), F.pad(image, border, mode=mode))
    columns = 1 + (border[0] > 0) + (border[1] > 0)
    # Without a border at that side the condition decides nothing; a remainder may.
    assert pieces(executor) == columns


@pytest.mark.parametrize("place", ["((w - W) % W + W) % W", "(w == 0 ? W : w) % W"])
def test_one_piece(place: str) -> None:
    """What is affine on the whole row reads neighbours like what is written so."""
    text = f"def f(float(N, W) x) -> (O) {{ O(n, w) = x(n, {place}) where w in 0:W }}"
    executor = compiled(text, integers(5, 100))
    assert pieces(executor) == 1
    assert not re.search(r"select|%", executor.explain().split("whole")[0])


def test_several_reads() -> None:
    """The pieces of all reads together."""
    text = """def f(float(N, W) x, float(N, W) y) -> (O) {
        O(n, w) = x(n, (w + 5) % W) * y(n, max(w - 7, 0)) + x(n, w) * (w % 3)
    }"""
    assert pieces(compiled(text, integers(4, 100), integers(4, 100))) == 3


def test_numbers_and_other_indices_stay() -> None:
    text = """def f(float(N, W) x, float s) -> (O) {
        O(n, w) = (w + 5) % W > n + 3 ? s * x(n, (w + 5) % W) * w : x((n + 1) % N, w)
    }"""
    assert pieces(compiled(text, integers(7, 100), 2.0)) == 2


ALONE = {
    "too many pieces": "x(n, w % 10)",
    "elements far apart": "x(n, (w * 2) % W)",
    "another index in the place": "x(n, (w + n) % W)",
    "a reduction": "+=! x(n, (w + r) % W) where r in 0:2",
    "a row": "x((n + 1) % N, w) where w in 0:W, n in 0:N",
    "short rows": "x(n, (w + 1) % 7) where w in 0:7",
}


@pytest.mark.parametrize("value", ALONE.values(), ids=ALONE)
def test_left_alone(value: str) -> None:
    equals = "" if value.startswith("+") else "= "
    text = f"def f(float(N, W) x) -> (O) {{ O(n, w) {equals}{value} }}"
    if "where" not in value:
        text = text.replace(" }", " where w in 0:W }")
    elif "r in" in value:
        text = text.replace(" }", ", w in 0:W }")
    x = integers(5, 100)
    executor = tc.compile(text, "f", OWN, x)
    assert torch.equal(executor(x), reference.run(text, "f", x))
    assert pieces(executor) == 1


# What is chosen by w alone where both sides of a choice would be computed, and in how many pieces.
CHOICES = {
    "halves": ("w < W / 2 ? x(n, w) * y(w) : x(n, w - W / 2) + y(w)", 2),
    "backwards": ("W / 2 <= w ? x(n, w - W / 2) + y(w) : x(n, w) * y(w)", 2),
    "a middle": ("w >= 20 && w < 50 ? x(n, w) * 2 : x(n, w)", 3),
    "one in the other": ("w < 20 ? x(n, w) * 2 : w < 50 ? x(n, w) + y(w) : y(w)", 3),
    "two": ("(w < 20 ? x(n, w) * 2 : y(w)) + (w < 50 ? y(w) * y(w) : 1)", 3),
    "with data": ("w < 40 && y(w) > 0 ? x(n, w) * 2 : y(w)", 2),
    "numbers": ("w < 40 ? x(n, w) * 2 : 0", 2),
    "below a subscript": ("w < 40 ? 2 * x(n, (w + 30) % W) : y(w)", 3),
    # A vector loads both sides of these, or there are short pieces, or too many.
    "reads": ("w < W / 2 ? x(n, w) : y(w - W / 2)", 1),
    "a border": ("w >= 3 && w < W - 3 ? x(n, w - 3) * 2 : 0", 1),
    "every other": ("w % 2 == 0 ? x(n, w) * 2 : y(w)", 1),
    "five": (
        "(w < 10 ? y(w) * 2 : 1) + (w < 20 ? y(w) * 3 : 1)"
        " + (w < 30 ? y(w) * 4 : 1) + (w < 40 ? y(w) * 5 : x(n, w))",
        1,
    ),
    "of data": ("y(w) > 0 ? x(n, w) * 2 : y(w)", 1),
    "of two indices": ("w < n + 40 ? x(n, w) * 2 : y(w)", 1),
}


@pytest.mark.parametrize(("value", "count"), CHOICES.values(), ids=CHOICES)
def test_choices(value: str, count: int) -> None:
    text = f"def f(float(N, W) x, float(W) y) -> (O) {{ O(n, w) = {value} where w in 0:W }}"
    assert pieces(compiled(text, integers(5, 100), integers(100))) == count


def test_pieces_of_choices_share_a_loop() -> None:
    """Halves that are turned are computed together: what one reads the other reads too."""
    text = """def f(float(N, E) x, float(F) c, float(F) s) -> (O) {
        O(n, e) = e < F ? x(n, e) * c(e) - x(n, e + F) * s(e)
                        : x(n, e) * c(e - F) + x(n, e - F) * s(e - F) where e in 0:2 * F
    }"""
    executor = compiled(text, integers(6, 128), integers(64), integers(64))
    assert pieces(executor) == 2
    assert str(executor.options).count(".cluster(") == 1
    assert executor.text("loop_nest").count("register tile") == 1
    assert "select" not in executor.text("stmt")


def expression(r: random.Random, depth: int) -> str:
    """An integer expression of w, of no division by zero."""
    if depth == 0:
        return r.choice(["w", "w", str(r.randint(-9, 140))])
    a, b = expression(r, depth - 1), expression(r, depth - 1)
    return r.choice(
        [
            f"({a} + {b})",
            f"({a} - {b})",
            f"({a} * {r.randint(-3, 3)})",
            f"({a} % {r.randint(20, 200)})",
            f"({a} / {r.choice([-40, 30, 64, 200])})",
            f"min({a}, {b})",
            f"max({a}, {b})",
            f"abs({a})",
            f"({a} {r.choice(['<', '<=', '>', '>=', '==', '!='])} {b} ? {a} : {b})",
            f"({a} < {b} && w > {r.randint(0, 90)} ? {b} : w)",
        ]
    )


def test_random_places() -> None:
    split = 0
    for seed in range(150):
        r = random.Random(seed)
        place = expression(r, r.randint(1, 3))
        text = f"""def f(float(N, W) x) -> (O) {{
            O(n, w) = x(n, min(max({place}, 0), W - 1)) where w in 0:{r.choice([64, 100, 133])}
        }}"""
        split += pieces(compiled(text, integers(3, 111))) > 1
    assert split > 40


def test_random_choices() -> None:
    split = 0
    for seed in range(150):
        r = random.Random(seed)
        conditions = [
            f"{expression(r, r.randint(0, 2))} {r.choice(['<', '>=', '=='])} {r.randint(0, 130)}"
            for _ in range(2)
        ]
        value = f"({conditions[0]} ? x(n, w) * 2 : y(w)) + ({conditions[1]} ? y(w) * 3 : x(n, w))"
        text = f"""def f(float(N, W) x, float(W) y) -> (O) {{
            O(n, w) = {value} where w in 0:{r.choice([64, 100, 133])}
        }}"""
        split += pieces(compiled(text, integers(3, 133), integers(133))) > 1
    assert split > 15
