"""Every example of docs/language.md runs and gives what the page says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import tensor_comprehensions as tc
from tensor_comprehensions._define import parse

PAGE = (Path(__file__).parents[1] / "docs" / "language.md").read_text()
EXAMPLES = [block for block in re.findall(r"```\n(.*?)```", PAGE, re.DOTALL) if "def " in block]
LAST = [re.findall(r"def (\w+)", block)[-1] for block in EXAMPLES]


def nearest(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    distance = (x[:, None] - y).square().sum(2)
    return distance, distance.argmin(1), (distance < 0.01).any(1)


# Sizes of the inputs, and the same in PyTorch.
MEANING: dict[str, tuple[tuple, Callable]] = {
    "matmul": (((5, 7), (7, 4)), lambda a, b: (a @ b,)),
    "mean": (((5, 9),), lambda a: (a.mean(1), a.var(1, unbiased=False))),
    "nearest": (((6, 3), (4, 3)), nearest),
    "shift": (((8,),), lambda a: (torch.cat([torch.zeros(1), a[:-1]]),)),
    "two": (((3, 5), (4, 5), (2, 4)), lambda i, w, v: (i @ w.t() @ v.t(),)),
    "conv": (((11,), (3,)), lambda i, w: (F.conv1d(i[None, None], w[None, None])[0, 0],)),
    "concat": (((4,), (5,)), lambda a, b: (torch.cat([a, b]),)),
}


@pytest.mark.parametrize("name, block", list(zip(LAST, EXAMPLES, strict=True)))
def test_example(name: str, block: str) -> None:
    sizes, reference = MEANING[name]
    inputs = [torch.randn(s) for s in sizes]
    actual = getattr(tc.define(block, namespace="tc_language_page"), name)(*inputs)
    wanted = reference(*inputs)
    for a, w in zip(actual if isinstance(actual, tuple) else (actual,), wanted, strict=True):
        torch.testing.assert_close(a, w, rtol=1e-4, atol=1e-4)


def test_every_example_has_a_meaning() -> None:
    assert set(LAST) == set(MEANING)


def rows() -> list[tuple[str, str]]:
    table = PAGE.split("| statement | range |")[1].split("\n\n")[0]
    return [tuple(re.findall(r"`([^`]*)`", row)) for row in table.splitlines() if "`" in row]


@pytest.mark.parametrize("statement, text", rows())
def test_table_of_ranges(statement: str, text: str) -> None:
    """The range decides how many elements there are, and which is the first."""
    n, m = 13, 9
    header = "def ranges(float(N) A, float(M) B, int32(M) I) -> (O) "
    inputs = torch.arange(float(n)), torch.arange(float(m)), torch.arange(m, dtype=torch.int32)
    if text == "I":
        first, end = 0, m
    else:
        code = text.replace("/", "//").replace("N", str(n)).replace("M", str(m))
        first, end = (eval(side) for side in code.split(":"))
    # The index itself beside the value, so that element 0 tells where the range begins.
    actual = tc.define(f"{header}{{ {statement} }}", namespace="tc_language_page").ranges(*inputs)
    assert actual.shape == (end - first,)
    name = f"{header}{{ {statement} * 0 + i }}"
    starts = tc.define(name, namespace="tc_language_page").ranges(*inputs)
    if "+ A" not in statement and "+ B" not in statement:
        assert starts[0] == first and starts[-1] == end - 1


def test_operators_of_the_grammar() -> None:
    """Every reduction that the grammar lists is one, and no other is."""
    line = next(x for x in PAGE.splitlines() if x.startswith("operator    ="))
    listed = re.findall(r'"([^"]+)"', line)
    for op in set(listed) - {"=", "!"}:
        value = "A(i, k) > 0" if op in ("&&=", "||=") else "A(i, k)"
        for suffix in ("", "!"):
            parse(f"def f(float(N, K) A) -> (O) {{ O(i) {op}{suffix} {value} }}")
    for op in ("-=", "/=", "%=", "=!"):
        with pytest.raises(tc.LanguageError):
            parse(f"def f(float(N, K) A) -> (O) {{ O(i) {op} A(i, k) }}")
