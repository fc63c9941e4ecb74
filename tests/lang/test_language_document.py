"""docs/language.md says what is so: its examples run, its tables and rules are computed again."""

from __future__ import annotations

import functools
import itertools
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import tensor_comprehensions as tc
from tensor_comprehensions import LanguageError, _torch

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
#: The page as one line, to find sentences in it wherever they are broken.
SENTENCES = " ".join(PAGE.split())


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def parse(text: str) -> _torch.ParsedText:
    return _torch.parse(text)


def define(text: str) -> tc.TC:
    return tc.define(text, namespace=f"tc_document_{zlib.crc32(text.encode())}")


# ---- examples

EXAMPLES = [
    block
    for block in re.findall(r"^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    if re.match(r"(#[^\n]*\n)*def ", block)
]


def nearest(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    distance = (x[:, None] - y).square().sum(2)
    return distance, distance.argmin(1), (distance < 0.01).any(1)


def rows_added(g: torch.Tensor, i: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(table).index_add(0, i, g)


def mixing(k: torch.Tensor, v: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    at = torch.arange(k.shape[0])
    distance = (at[:, None] - at)[..., None]
    level = (k - distance * w).where(distance >= 0, -torch.inf)
    weight = torch.exp(level - level.amax(1, keepdim=True))
    return (weight * v).sum(1), weight.sum(1), (k + distance.abs() * w).amin(1)


def decays(x: torch.Tensor, a: torch.Tensor, rate: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = z = torch.zeros_like(x[0])
    results = []
    for t in range(x.shape[0]):
        y, z = a * y + x[t], rate[t].exp() * z + x[t]
        results.append((y, z))
    return torch.stack([y for y, _ in results]), torch.stack([z for _, z in results])


def mean(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return a.mean(1), a.var(1, unbiased=False)


def since_start(a: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    pieces = torch.tensor_split(a, starts.nonzero()[:, 0])
    return torch.cat([piece.cumsum(0) for piece in pieces])


#: Inputs of the last definition of an example, and what PyTorch makes of them.
REFERENCES: dict[str, tuple[tuple, Callable]] = {
    "matmul": (((5, 7), (7, 3)), torch.matmul),
    "mean": (((4, 33),), mean),
    "nearest": (((6, 3), (4, 3)), nearest),
    "embedding_grad": (((6, 3), torch.tensor([4, 0, 4, 2, 2, 4]), (5, 3)), rows_added),
    "running_sum": (((9,),), lambda a: a.cumsum(0)),
    "since_start": (((9,), torch.arange(9) % 4 == 2), since_start),
    "decay": (((9, 4), (4,), (9, 4)), decays),
    "mixing": (((9, 4), (9, 4), (4,)), mixing),
    "shift": (((9,),), lambda a: F.pad(a, (1, 0))[:-1]),
    "upsample": (
        ((9, 5), (5, 4)),
        lambda a, w: F.conv_transpose1d(a.T, w[:, None], stride=2)[0],
    ),
    "two": (((3, 5), (4, 5), (6, 4)), lambda i, w, v: i @ w.T @ v.T),
    "concat": (((5,), (7,)), lambda a, b: torch.cat([a, b])),
    "conv": (((11,), (3,)), lambda i, w: F.conv1d(i[None, None], w[None, None])[0, 0]),
}


def test_every_example_is_tested() -> None:
    names = [parse(example).definitions[-1].name for example in EXAMPLES]
    assert sorted(names) == sorted(REFERENCES)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples(example: str) -> None:
    parsed = parse(example)
    assert parsed.warnings == []
    name = parsed.definitions[-1].name
    sizes, reference = REFERENCES[name]
    inputs = [x if isinstance(x, torch.Tensor) else torch.randn(x) for x in sizes]
    actual, wanted = define(example)(name, *inputs), reference(*inputs)
    torch.testing.assert_close(actual, wanted, rtol=1e-5, atol=1e-5)


# ---- ranges


def rows(text: str) -> list[list[str]]:
    """The cells of a table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


RANGES = rows(section("Ranges"))


class Outside(Exception):
    """A read that leaves its tensor."""


def reader(values: list[int]) -> Callable[[int], int]:
    def read(index: int) -> int:
        if not 0 <= index < len(values):
            raise Outside
        return values[index]

    return read


@pytest.mark.parametrize("statement, stated", RANGES)
def test_the_table_of_ranges(statement: str, stated: str) -> None:
    assert len(RANGES) > 5
    statement = statement.strip("`")
    # Where nothing is negative, C's division is Python's.
    value = statement.split(" = ")[1].replace("/", "//")
    text = f"def f(int32(N) A, int32(M) B, int32(K) I) -> (O) {{ {statement} }}"
    t = define(text)
    for n, m in [(8, 8), (7, 10), (9, 4), (1, 3)]:
        sizes = {"N": n, "M": m, "K": 6}
        tensors = {
            "A": [100 + k for k in range(n)],
            "B": [200 + k * k for k in range(m)],
            "I": [k * 5 % n for k in range(6)],
        }
        readers = {name: reader(values) for name, values in tensors.items()}

        def at(i: int, value: str = value, readers: dict = readers) -> int | None:
            try:
                return eval(value, {}, {**readers, "i": i})
            except Outside:
                return None

        # What the definition of ranges asks for: all indices for which no read leaves its tensor.
        inside = [i for i in range(-40, 60) if at(i) is not None]
        if stated == "that of `I`":
            first, last = 0, sizes["K"]
        else:
            bounds = stated.strip("`").replace("/", "//").split(":")
            first, last = (eval(bound, {"min": min}, sizes) for bound in bounds)
        assert inside == list(range(first, last)), "the table does not follow from the rules"
        actual = t.f(*(torch.tensor(v, dtype=torch.int32) for v in tensors.values()))
        assert actual.tolist() == [at(i) for i in inside]


# ---- types

SPELLINGS = {
    spelling: canonical
    for names, others in rows(section("Types"))
    for canonical in re.findall(r"`(\w+)`", names)
    for spelling in [
        canonical,
        *(a for a, b in re.findall(r"`(\w+)` for `(\w+)`", others) if b == canonical),
    ]
} | {
    # A row of one type says its other spelling alone.
    other: re.findall(r"`(\w+)`", names)[0]
    for names, others in rows(section("Types"))
    if names.count("`") == 2
    for other in re.findall(r"`(\w+)`", others)
}


def result(value: str, parameters: str = "") -> str:
    """The type of an expression, over vectors and scalars of each type."""
    tensors = ", ".join(f"{name}(N) {name}_" for name in sorted(set(SPELLINGS.values())))
    text = f"def f({tensors}{parameters}) -> (O) {{ O(i) = {value} where i in 0:N }}"
    (output,) = parse(text).definitions[0].outputs
    return canonical_names()[output.dtype]


@functools.cache
def canonical_names() -> dict[torch.dtype, str]:
    names = dict.fromkeys(SPELLINGS.values())
    return {
        parse(f"def f({name}(N) A) -> (O) {{ O(i) = A(i) }}").definitions[0].outputs[0].dtype: name
        for name in names
    }


def test_the_table_of_types() -> None:
    assert len(set(SPELLINGS.values())) == 13 and len(SPELLINGS) == 18
    dtypes = {"half": "float16", "float": "float32", "double": "float64"}
    for spelling, canonical in SPELLINGS.items():
        text = f"def f({spelling}(N) A) -> (O) {{ O(i) = {spelling}(A(i)) }}"
        (definition,) = parse(text).definitions
        dtype = getattr(torch, dtypes.get(canonical, canonical))
        assert definition.inputs[0].dtype == definition.outputs[0].dtype == dtype
        assert f"def f({canonical}(N) A)" in definition.text
        with pytest.raises(LanguageError, match=f"'{spelling}' is a type and cannot be a name"):
            parse(f"def f(float(N) {spelling}) -> (O) {{ O(i) = 1 }}")


INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = ["half", "bfloat16", "float", "double"]
WIDTH = {"half": 16, "bfloat16": 16, "float": 32, "double": 64}

#: A sentence of the page, and the types that follow from it.
PROMOTIONS: list[tuple[str, dict[str, str]]] = [
    ("`x * 0.5` is half for a half `x`", {"half_(i) * 0.5": "half", "0.5 - half_(i)": "half"}),
    (
        "`u + 1` is `uint8` for a `uint8` `u`",
        {"uint8_(i) + 1": "uint8", "255 % uint8_(i)": "uint8"},
    ),
    (
        "a floating-point literal with integers makes `float`",
        {f"{name}_(i) * 0.5": "float" for name in INTEGERS},
    ),
    ("Expressions of literals are literals", {"half_(i) * (1 / 2 + 0.5)": "half"}),
    (
        "By itself a literal with `.` or an exponent is `float`, another is `int32`, or `int64` "
        "when it is larger.",
        {"1.": "float", "1e3": "float", "2147483647": "int32", "2147483648": "int64"},
    ),
    (
        "A float with an integer gives the float's type.",
        {f"{f}_(i) + {n}_(i)": f for f in FLOATS for n in INTEGERS},
    ),
    (
        "Of two floats the wider counts; `half` with `bfloat16` gives `float`.",
        {
            f"min({a}_(i), {b}_(i))": (
                "float" if {a, b} == {"half", "bfloat16"} else max(a, b, key=WIDTH.get)
            )
            for a, b in itertools.product(FLOATS, FLOATS)
        },
    ),
    (
        "Of two integers with the same sign the wider counts.",
        {
            f"{sign}int{a}_(i) * {sign}int{b}_(i)": f"{sign}int{max(a, b)}"
            for sign in ("", "u")
            for a, b in itertools.product((8, 16, 32, 64), repeat=2)
        },
    ),
    (
        "Integers of both signs meet in the smallest signed type that holds both",
        {
            f"i < 3 ? uint{a}_(i) : int{b}_(i)": f"int{max(2 * a, b)}"
            for a, b in itertools.product((8, 16, 32), (8, 16, 32, 64))
        },
    ),
    (
        "`uint8` with `int8` is `int16`, `uint32` with `int32` is `int64`; `uint64` with any is "
        "`int64`.",
        {f"uint64_(i) - int{b}_(i)": "int64" for b in (8, 16, 32, 64)},
    ),
    (
        "counts as 0 and 1 of the other type, two of them are `int32`, and so are",
        {f"bool_(i) + {name}_(i)": name for name in INTEGERS + FLOATS}
        | {"bool_(i) * bool_(i)": "int32"},
    ),
    (
        "Comparisons give `bool`, whose values are `true` and `false`.",
        {f"{name}_(i) < 3": "bool" for name in INTEGERS + FLOATS},
    ),
    ("an integer is turned into one by `!= 0`", {"int32_(i) != 0 && !bool_(i)": "bool"}),
    ("Sizes and indices are `int32` values", {"N": "int32", "i": "int32", "i * N": "int32"}),
    (
        "the others turn integers into `float`",
        {f"exp({name}_(i))": "float" for name in INTEGERS}
        | {f"abs({name}_(i))": name for name in INTEGERS}
        | {f"exp({name}_(i))": name for name in FLOATS},
    ),
]


@pytest.mark.parametrize("sentence, cases", PROMOTIONS)
def test_promotion_rules(sentence: str, cases: dict[str, str]) -> None:
    assert sentence in SENTENCES, "the rule has changed: so must this test"
    assert cases
    for value, wanted in cases.items():
        assert result(value) == wanted, value


# ---- other statements of the page

HEAD = "def f(float(N) A, uint8(N) u, int32(N) n, bool(N) p, float s) -> (O) "

#: A sentence, a body, and a part of the message where the body is refused.
RULES: list[tuple[str, str, str | None]] = [
    ("A literal without a value in that type is an error (`u + 300`)", "O(i) = u(i) + 300", "fit"),
    ("as is one that would become infinite", "O(i) = half(A(i)) * 1e5", "100000 does not fit half"),
    ("`1.0 / 0.0` is infinity", "O(i) = half(A(i)) * (1.0 / 0.0)", None),
    (
        "fits itself to what it meets, also as a let, at each place anew",
        "O(i) = u(i) O(i) = u(i) + x + uint8(A(i) * x) where x = p(i) ? 1 : 2",
        None,
    ),
    ("as in `A(i + k - (K - 1) / 2)`", "O(i) +=! A(i + k - (u.0 - 1) / 2) * u(k)", None),
    ("may need a range of its own", "O(i) = A(i / 2 + i / 3)", "Could not infer"),
    ("must be `bool`", "O(i) = n(i) && p(i) ? 1 : 2", "expected boolean"),
    (
        "Storing a wider type into a narrower one takes a cast",
        "O(i) = u(i) O(i) = A(i)",
        "narrower",
    ),
    ("so an integer in any float and in", "O(i) = A(i) O(i) = n(i)", None),
    ("`A(i) * i / N` is legal", "O(i) = A(i) * i / N", None),
    ("Inputs are immutable.", "A(i) = 1 O(i) = A(i)", "immutable"),
    ("so `=` may not have any", "O = A(i)", "reduction variable"),
    ("A tensor without dimensions is read and written without parentheses", "T = 1 O = T()", None),
    ("Indices may not have the name of a size, scalar or tensor.", "O(N) = A(N)", "as a size"),
    ("Indices may not have the name of a size, scalar or tensor.", "O(s) = A(s)", "as a scalar"),
    ("Indices may not have the name of a size, scalar or tensor.", "O(u) = A(u)", "as a tensor"),
    ("An `id` may begin with a digit (`2LUT`)", "2LUT(i) = A(i) O(i) = 2LUT(i)", None),
    ("where a number is as long, it is the number (`1e5`)", "1e5(i) = A(i) O(i) = 1e5(i)", "1e5"),
    ("a tensor may be called `in`", "in(i) = A(i) O(i) = in(i)", None),
    ("in which alone characters beyond ASCII may stand", "O(i) = A(i) # \u00fc\n", None),
    ("in which alone characters beyond ASCII may stand", "O(\u00fc) = A(\u00fc)", "U+00FC"),
    ("but for indices, lets and scalars, those of", "O(j0) = A(j0)", None),
    ("but for indices, lets and scalars, those of", "O(i) = A(i) * y1 where y1 = A(i)", None),
    ("but for indices, lets and scalars, those of", "exp(i) = A(i) O = 1", "built-in"),
    (
        "`def`, `true`, `false`, `min`, `max`, the names",
        "min(i) = A(i) O = 1",
        "built-in",
    ),
    ("`T.1` is the size of a dimension, counted from 0", "O(i) = A(i) + A.1", "no dimension 1"),
    (
        "The bounds are made of sizes, scalars and integers.",
        "O(i) = 1 where i in 0:n(0)",
        "tensors",
    ),
    ("or products of indices bound nothing", "O(i, j) = A(i * j)", "Could not infer"),
    ("Subscripts with data, `%`,", "O(i) = A(i % 3)", "Could not infer"),
    ("An index without a range is an error that names it", "O(i) = 1", "give i its range"),
    ("a literal, scalar or size beyond it is an error", "O(i) = A(i + 2147483648)", "int32"),
    (
        "as `B(i) = B(i - 1) * 0.5 + A(i)` does, it is refused",
        "O(i) = O(i - 1) * 0.5 + A(i)",
        "this statement reads O in place",
    ),
    (
        "those that leave one value, or none, to an index",
        "O(i) = A(i) O(i) = O(i - 2) where i in 2:N",
        None,
    ),
    ("A trailing `f` is allowed", "O(i) = fmaxf(A(i), expf(s))", None),
]


@pytest.mark.parametrize("sentence, body, message", RULES)
def test_rules(sentence: str, body: str, message: str | None) -> None:
    assert sentence in SENTENCES, "the rule has changed: so must this test"
    text = f"{HEAD}{{ {body} }}"
    if message is None:
        assert parse(text).warnings == []
        return
    with pytest.raises(LanguageError, match=re.escape(message)):
        parse(text)


def test_subscripts_do_not_wrap_around() -> None:
    assert "They do not wrap around" in SENTENCES
    head = "def f(float(N) A) -> (O) "
    a = torch.arange(3.0)
    exact = define(head + "{ O(i) = A(i * 65536 * 65536 / 65536 / 65536) where i in 0:N }")
    assert torch.equal(exact.f(a), a)
    assert "numbers that no data takes part in may have 64 bits" in SENTENCES
    far = define(head + "{ O(i) = A(i * 65536 * 65536) where i in 0:2 }")
    with pytest.raises(tc.ShapeError, match="i = 1 gives index 4294967296"):
        far.f(a)
    body = "{ O(i) = A(i * 2147483647 * 2147483647 * 2147483647 % 3) where i in 0:N }"
    with pytest.raises(tc.ShapeError, match=r"that 64 bits do not hold.* \(line 1\)"):
        define(head + body).f(a)
    assert "A bound of a range is one where a constant in it has no room in 32" in SENTENCES
    with pytest.raises(LanguageError, match="the range of index i does not fit 32 bits"):
        parse(head + "{ O(i) = A(2147483647 - i) }")


def test_values_wrap_around() -> None:
    assert "Integers wrap around, and the smallest divided by -1 is itself" in SENTENCES
    assert "dividing by 0 gives 0" in SENTENCES
    body = """{ P(i) = i + 2147483647 where i in 0:2
        Q(i) = -2147483648 / (i - 1) where i in 0:3
        R(i) = -2147483648 % (i - 1) where i in 0:3
        S(i) = i + 2147483647 > i ? 1.0 : 0.0 where i in 0:2 }"""
    results = define("def f(float(N) A) -> (P, Q, R, S) " + body).f(torch.zeros(1))
    assert [r.tolist() for r in results] == [
        [2**31 - 1, -(2**31)],
        [-(2**31), 0, -(2**31)],
        [0, 0, 0],
        [1.0, 0.0],
    ]


def test_literals_divide_as_in_c() -> None:
    assert "`1 / 2` is 0, as in C" in SENTENCES
    text = "def f(float(N) A) -> (O) { O(i) = A(i) + 1 / 2 + 7 / 2 + -7 / 2 + 1. / 2 }"
    assert define(text).f(torch.zeros(3)).tolist() == [0.5] * 3


def test_an_unwritten_initialisation_warns() -> None:
    assert "The second gives a warning" in SENTENCES
    (warning,) = parse("def f(float(N) A) -> (O) { O(i) += A(i) }").warnings
    assert "+=!" in warning
    assert parse("def f(float(N) A) -> (O) { O(i) = O(i) + A(i) }").warnings == []


# ---- grouping

LEVELS = [
    level.split()
    for level in re.findall(r"`([^`]+)`", SENTENCES.split("from loose to tight:")[1].split(";")[0])
]
#: Operands for which both operators of neighbouring levels have a type.
OPERANDS = {"||": "P(i)", "&&": "P(i)", "==": "P(i)", "!=": "P(i)"}


def canonical(value: str) -> str:
    text = f"def f(bool(N) P, int32(N) A) -> (O) {{ O(i) = {value} }}"
    return parse(text).definitions[0].text.split(" = ", 1)[1].split("\n")[0]


def test_operators_are_listed_from_loose_to_tight() -> None:
    assert sum(map(len, LEVELS)) == 13
    for loose, tight in itertools.pairwise(LEVELS):
        for a, b in itertools.product(loose, tight):
            x, y = OPERANDS.get(a, "A(i)"), OPERANDS.get(b, "A(i)")
            assert canonical(f"{x} {a} ({y} {b} {y})") == f"{x} {a} {y} {b} {y}"
            assert canonical(f"({y} {b} {y}) {a} {x}") == f"{y} {b} {y} {a} {x}"
    for level in LEVELS:
        for a, b in itertools.product(level, level):
            x = OPERANDS.get(a, "A(i)")
            if a in ("<", "<=", ">", ">="):
                x = "P(i)"
            assert canonical(f"({x} {a} {x}) {b} {x}") == f"{x} {a} {x} {b} {x}"
            assert canonical(f"{x} {a} ({x} {b} {x})") == f"{x} {a} ({x} {b} {x})"


def test_a_ternary_is_looser_and_groups_to_the_right() -> None:
    assert canonical("P(i) || P(i) ? A(i) : (P(i) ? 1 : 2 + A(i))") == (
        "P(i) || P(i) ? A(i) : P(i) ? 1 : 2 + A(i)"
    )
    assert canonical("(P(i) ? 1 : 2) + A(i)") == "(P(i) ? 1 : 2) + A(i)"


# ---- functions


def test_listed_functions_are_builtins() -> None:
    names = re.findall(
        r"[a-z]\w*",
        " ".join(
            re.findall(
                r"`([^`]*)`",
                SENTENCES.split("`fmin` and `fmax` ignore NaN")[1].split("`round` rounds")[0],
            )
        ),
    )
    names = [name for name in names if name not in ("min", "max", "bool", "int32", "int64")]
    assert len(names) > 50
    for name in names:
        with pytest.raises(LanguageError, match=f"'{name}' is a built-in function"):
            parse(f"def f(float(N) {name}) -> (O) {{ O = 1 }}")


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
