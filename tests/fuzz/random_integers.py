"""Random arithmetic on the ends of integer types: what overflows, divides by 0 or -1, is shifted.

A program has a few statements, each of one kind: a value that is stored as an integer or decides
what is stored, a subscript, a range. Constants are drawn around the ends of the types, and
small ones that bring sums and products there.
"""

from __future__ import annotations

import random
import re

import torch
from cases import Case, Tensor, compare

import tensor_comprehensions as tc
from tensor_comprehensions import reference

#: The size of every input.
SIZE = 5
ENDS = {"int8": 2**7, "int16": 2**15, "int32": 2**31, "int64": 2**63}
KINDS = ("value", "value", "value", "condition", "subscript", "subscript", "range")


def constants(end: int) -> list[int]:
    root = int(end**0.5)
    near = [end - 1, end - 2, -end, 1 - end, end // 2, end // 2 + 1, -(end // 2), end // 3]
    return [*near, root, root + 1, -root, *[2**k for k in (8, 16, 24) if 2**k < end]]


class Drawing:
    """One statement: its index `i` runs over `range`, `j` is reduced over where it is used."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.data = True
        self.lets: list[str] = []

    def constant(self, type_: str) -> str:
        end = ENDS[type_]
        value = self.r.choice(constants(end) if self.r.random() < 0.5 else [0, 1, 2, 3, 7, -1, -2])
        if value < -(2**63) + 1:
            return f"({value + 1} - 1)"  # the literal behind the minus has no room in 64 bits
        return f"({value})" if value < 0 else str(value)

    def leaf(self, type_: str) -> str:
        r = self.r
        draw = r.random()
        if draw < 0.45:
            return self.typed("i", type_)
        if draw < 0.55:
            return self.typed("N", type_)
        if self.data and draw < 0.7:
            name = {"int32": "I", "int64": "L", "int8": "C"}.get(type_)
            return f"{name}(i)" if name else self.typed("I(i)", type_)
        return f"{type_}({self.constant(type_)})" if draw < 0.75 else self.constant(type_)

    def typed(self, text: str, type_: str) -> str:
        return text if type_ == "int32" else f"{type_}({text})"

    def number(self, type_: str, depth: int) -> str:
        r = self.r
        if depth == 0 or r.random() < 0.12:
            return self.leaf(type_)
        draw = r.random()
        if draw < 0.06:
            return f"(-{self.number(type_, depth - 1)})"
        if draw < 0.1:
            return f"abs({self.number(type_, depth - 1)})"
        if draw < 0.18:
            other = r.choice([t for t in ("int32", "int64", "int8", "int16") if t != type_])
            return f"{type_}({self.number(other, depth - 1)})"
        if draw < 0.26:
            # Of two literals the choice would be a literal, whose arithmetic has no type yet.
            yes, no = self.number(type_, depth - 1), self.number(type_, depth - 1)
            return f"({self.condition(type_, depth - 1)} ? {type_}({yes}) : {no})"
        a, b = self.number(type_, depth - 1), self.number(type_, depth - 1)
        if draw < 0.36:
            return f"{r.choice(['min', 'max'])}({a}, {b})"
        return f"({a} {r.choice(['+', '-', '*', '*', '/', '/', '%'])} {b})"

    def condition(self, type_: str, depth: int) -> str:
        a, b = self.number(type_, depth), self.number(type_, depth)
        return f"({a} {self.r.choice(['<', '<=', '>', '>=', '==', '!='])} {b})"

    def range(self) -> tuple[int, int]:
        """Short, anywhere in int32."""
        r = self.r
        low = r.choice([0, 0, 0, 1, -3, -(2**31), 2**31 - SIZE, 2**30 - 2, -(2**30) - 2])
        return low, low + r.randint(1, SIZE)


def literal(value: int) -> str:
    return str(value)


def inside(d: Drawing, low: int, high: int) -> str:
    """A subscript for indices in low:high, in most cases inside 0:SIZE, by a way that is not."""
    r = d.r
    base = f"i - {literal(low)}" if low > 0 else f"i + {literal(-low)}" if low < 0 else "i"
    if low == -(2**31):
        base = "i + 2147483647 + 1"
    c = r.choice([2**31 - 1, 2**30, 65536, 3, -1, -(2**31), 2**31 - 7])
    text = f"({c})" if c < 0 else str(c)
    ways = [
        base,
        f"({base}) * {text} / {text}",
        f"({base}) + {text} - {text}",
        f"({base}) * {text} - ({base}) * {text} + ({base})",
        f"min(max(({base}) * {text}, 0), {SIZE - 1})",
        f"min(max({d.number('int32', 2)}, 0), {SIZE - 1})",
        f"(({base}) + {text}) % {SIZE}",
        f"({d.number('int32', 2)} % {SIZE} + {SIZE}) % {SIZE}",
        f"({base}) / {text}",
        f"int64({base}) * 4294967296 / 4294967296",
        f"{d.condition('int32', 1)} ? {base} : 0",
    ]
    return r.choice(ways)


def statement(name: str, kind: str, r: random.Random) -> str:
    d = Drawing(r)
    low, high = d.range()
    where = f" where i in {literal(low)}:{literal(high)}"
    type_ = r.choice(["int32", "int32", "int64"])
    if kind in ("value", "condition"):
        # Data is read at the index, which has to be that of an input.
        if r.random() < 0.5:
            where = f" where i in 0:{SIZE}"
        else:
            d.data = False
    if kind == "value":
        value = d.number(type_, 3)
        if r.random() < 0.3:
            value = f"float({value})"
        if r.random() < 0.2:
            where += f", x = {d.number(type_, 2)}"
            value = f"{value} + x" if not value.startswith("float") else f"{value} + float(x)"
        return f"{name}(i) = {value}{where}"
    if kind == "condition":
        return f"{name}(i) = {d.condition(type_, 2)} ? 1.5 : {d.leaf('int32')}{where}"
    if kind == "subscript":
        d.data = False
        return f"{name}(i) = A({inside(d, low, high)}){where}"
    # Ranges that are inferred, or whose bounds are computed.
    c = r.choice([2**31 - 1, 2**31 - 3, 2**30, -(2**31), 1 - 2**31, -(2**30), 7])
    text = f"({c})" if c < 0 else str(c)
    ways = [
        f"{name}(i) = A(i + {text})",
        f"{name}(i) = A(i - {text})",
        f"{name}(i) = A({text} - i)",
        f"{name}(i) = A(2 * i + {text})",
        f"{name}(i) = A(i * {text})",
        f"{name}(i) = A((i + {text}) / 3)",
        f"{name}(i) = A((i * {text}) / {text})",
        f"{name}(i) = A(i / -1)",
        f"{name}(i) = float(i) where i in N * {text} / {text} - 2:N * {text} / {text}",
        f"{name}(i) = float(i) where i in {text}:{text} + N",
        f"{name}(i) = float(i) where i in N + {text} - {text}:N + 3",
        f"{name}(i) = float(i) where i in {text} % N:{text} % N + 3",
        f"{name} +=! float(i) where i in {text}:{text} + 3",
    ]
    return r.choice(ways)


def make_differentiable_text(seed: int) -> str:
    """Of degree 2 at most in A, so that differences of its values are its derivative."""
    r = random.Random(seed)
    d = Drawing(r)
    d.data = False
    low, high = d.range()
    read = f"A({inside(d, low, high)})"
    factor, condition = f"double({d.number('int32', 2)})", d.condition("int32", 1)
    body = r.choice(
        [
            f"B(i) = {read} * {factor}",
            f"B(i) = {condition} ? {read} : 0",
            f"B(i) = {read} * {read}",
            f"B +=! {read} * {factor}",
            f"B(i) = {factor} * {read} + ({condition} ? 1.5 * {read} : 2.5)",
        ]
    )
    return f"def f(double(N) A) -> (B) {{ {body} where i in {literal(low)}:{literal(high)} }}"


def make_integer_case(seed: int) -> Case:
    r = random.Random(seed)
    statements, results = [], []
    for k in range(r.randint(1, 2)):
        statements.append(f"  {statement(f'B{k}', r.choice(KINDS), r)}\n")
        results.append(f"B{k}")
    inputs = (
        Tensor("A", "float", (SIZE,), "whole", plain=True),
        Tensor("I", "int32", (SIZE,), "any", plain=True),
        Tensor("L", "int64", (SIZE,), "any", plain=True),
        Tensor("C", "int8", (SIZE,), "any", plain=True),
    )
    text = (
        "def f(float(N) A, int32(N) I, int64(N) L, int8(N) C) -> "
        f"({', '.join(results)}) {{\n{''.join(statements)}}}"
    )
    return Case(seed, text, "f", inputs, options=("None", "identity"))


# ---- compiled and interpreted

# What the compiler may refuse although a computer with more bits could do it.
TOO_WIDE = re.compile(r"\b(32|64) bits|does not fit|beyond the largest")


def check(case: Case) -> str:
    """ "ran", "refused", or "too wide"; an AssertionError where the two disagree."""
    try:
        wanted, bounds = case.wanted()
    except (tc.LanguageError, tc.ShapeError) as refusal:
        for options in case.options:
            try:
                case.actual(options)
            except (tc.LanguageError, tc.ShapeError):
                continue
            raise AssertionError(f"the interpreter refuses: {refusal}") from refusal
        return "refused"
    for options in case.options:
        try:
            actual = case.actual(options)
        except (tc.LanguageError, tc.ShapeError) as error:
            assert TOO_WIDE.search(str(error)), f"{type(error).__name__}: {error}"
            return "too wide"
        except tc.TCError as error:
            raise AssertionError(f"{type(error).__name__}: {error}") from error
        for k, (a, w, bound) in enumerate(zip(actual, wanted, bounds, strict=True)):
            compare(a, w, bound, f"options {options}, result {k}")
    return "ran"


def check_derivative(text: str) -> str:
    """As `check`, of the gradient that the compiler writes, against differences."""
    a = torch.arange(float(SIZE), dtype=torch.float64).requires_grad_()
    try:
        reference.run(text, "f", a.detach())
    except (tc.LanguageError, tc.ShapeError):
        return "refused"
    try:
        result = tc.make_autograd(tc.define(text, namespace="tc_fuzz_derivatives").f)(a)
        given = torch.arange(1.0, 1 + result.numel(), dtype=torch.float64).reshape(result.shape)
        (actual,) = torch.autograd.grad(result, a, given)
    except (tc.LanguageError, tc.ShapeError) as error:
        # Quotients of quotients grow when they are lowered, those of a solved index most.
        long = "has more than 10000 operations" in str(error)
        assert long or TOO_WIDE.search(str(error)), f"{text}\n{type(error).__name__}: {error}"
        return "too wide"
    wanted = torch.zeros(SIZE, dtype=torch.float64)
    for k in range(SIZE):
        step = torch.zeros(SIZE, dtype=torch.float64)
        step[k] = 0.5
        after, before = (reference.run(text, "f", a.detach() + sign * step) for sign in (1, -1))
        wanted[k] = (torch.as_tensor(after - before) * given).sum()
    torch.testing.assert_close(actual, wanted, rtol=1e-9, atol=1e-6)
    return "ran"
