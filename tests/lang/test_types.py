"""Every scalar type: arithmetic, casts, reductions, division, special values."""

from __future__ import annotations

import functools
import math
import re
import zlib
from collections.abc import Iterable

import emulated
import numpy as np
import pytest
import torch

import tensor_comprehensions as tc
from tensor_comprehensions import reference

FLOATS = {
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "float": torch.float32,
    "double": torch.float64,
}
INTEGERS = {
    name: getattr(torch, name)
    for name in ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
}
TYPES = {"bool": torch.bool, **INTEGERS, **FLOATS}
SIGNED = [name for name in INTEGERS if name.startswith("int")]
NARROW = ["half", "bfloat16"]
INF, NAN = math.inf, math.nan
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-3, 3.75, 100.0, -100.0, INF, -INF, NAN]

by_integer = pytest.mark.parametrize("name", INTEGERS)
by_float = pytest.mark.parametrize("name", FLOATS)
by_number = pytest.mark.parametrize("name", [n for n in TYPES if n != "bool"])


@functools.cache
def define(text: str) -> tc.TC:
    return tc.define(text, namespace=f"tc_types_{zlib.crc32(text.encode())}")


def run(text: str, *inputs: object) -> tuple[torch.Tensor, ...]:
    result = define(text).f(*inputs)
    return result if isinstance(result, tuple) else (result,)


def limits(name: str) -> tuple[int, int]:
    info = torch.iinfo(INTEGERS[name])
    return info.min, info.max


def integers(name: str, count: int, seed: int = 0) -> np.ndarray:
    """Random values of the whole type, its limits and small numbers among them."""
    low, high = limits(name)
    random = np.random.default_rng(seed)
    values = random.integers(low, high, count, dtype=name, endpoint=True)
    values[::3] = random.integers(-7 if low else 0, 8, len(values[::3]))
    values[(seed + 1) % count] = low
    values[(seed + 5) % count] = high
    return values


def numbers(name: str, count: int, seed: int = 0) -> torch.Tensor:
    if name in INTEGERS:
        return torch.from_numpy(integers(name, count, seed))
    generator = torch.Generator().manual_seed(seed)
    if name == "bool":
        return torch.randint(0, 2, (count,), generator=generator).bool()
    return torch.randn(count, generator=generator).mul(4).to(FLOATS[name])


def same(actual: torch.Tensor, wanted: object, **tolerance: float) -> None:
    if isinstance(wanted, np.ndarray):
        wanted = torch.from_numpy(wanted)
    assert actual.dtype == wanted.dtype
    if not tolerance and not actual.dtype.is_floating_point:
        np.testing.assert_array_equal(actual.numpy(), wanted.numpy())
    else:
        torch.testing.assert_close(actual, wanted, equal_nan=True, **tolerance)


# ---- elementwise


@by_number
def test_arithmetic(name: str) -> None:
    a, b = numbers(name, 71), numbers(name, 71, 1)
    text = f"""def f({name}(N) A, {name}(N) B) -> (P, Q, R, S, T, U, V) {{
      P(i) = A(i) + B(i)
      Q(i) = A(i) - B(i)
      R(i) = A(i) * B(i)
      S(i) = min(A(i), B(i))
      T(i) = max(A(i), B(i))
      U(i) = A(i) < B(i) ? A(i) : B(i)
      V(i) = -A(i)
    }}"""
    results = run(text, a, b)
    if name in INTEGERS:
        x, y = a.numpy(), b.numpy()
        with np.errstate(over="ignore"):
            wanted = (
                x + y,
                x - y,
                x * y,
                np.minimum(x, y),
                np.maximum(x, y),
                np.minimum(x, y),
                (0 - x).astype(x.dtype),
            )
        for actual, w in zip(results, wanted, strict=True):
            same(actual, w)
    else:
        wanted = (
            a + b,
            a - b,
            a * b,
            torch.minimum(a, b),
            torch.maximum(a, b),
            torch.minimum(a, b),
            -a,
        )
        for actual, w in zip(results, wanted, strict=True):
            same(actual, w, rtol=0, atol=0)


@pytest.mark.parametrize("name", TYPES)
def test_comparisons(name: str) -> None:
    a, b = numbers(name, 71), numbers(name, 71, 1)
    b[::4] = a[::4]
    if name in FLOATS:
        a[3], b[5], a[8], b[8], a[11] = NAN, NAN, NAN, NAN, INF
    symbols = {
        "<": "less",
        "<=": "less_equal",
        ">": "greater",
        ">=": "greater_equal",
        "==": "equal",
        "!=": "not_equal",
    }
    statements = "\n".join(
        f"O{k}(i) = A(i) {s} B(i)  P{k}(i) = A(i) {s} B(i) ? 1 : 2" for k, s in enumerate(symbols)
    )
    outputs = ", ".join(f"O{k}, P{k}" for k in range(len(symbols)))
    results = run(f"def f({name}(N) A, {name}(N) B) -> ({outputs}) {{ {statements} }}", a, b)
    left, right = (x.float() if name in NARROW else x for x in (a, b))
    for k, function in enumerate(symbols.values()):
        wanted = getattr(np, function)(left.numpy(), right.numpy())
        same(results[2 * k], wanted)
        same(results[2 * k + 1], np.where(wanted, 1, 2).astype("int32"))


@pytest.mark.parametrize("name", TYPES)
def test_casts(name: str) -> None:
    """To every other type, of values that it can hold."""
    a = numbers(name, 71)
    if name in INTEGERS:
        a = torch.from_numpy(integers(name, 71) % 100)
    elif name in FLOATS:
        a = a.abs()
    statements = "\n".join(f"O{k}(i) = {to}(A(i))" for k, to in enumerate(TYPES))
    outputs = ", ".join(f"O{k}" for k in range(len(TYPES)))
    results = run(f"def f({name}(N) A) -> ({outputs}) {{ {statements} }}", a)
    for actual, to in zip(results, TYPES.values(), strict=True):
        same(actual, a.to(to), rtol=0, atol=0)


@by_integer
def test_casts_of_integers_wrap_around(name: str) -> None:
    a = integers(name, 71)
    statements = "\n".join(f"O{k}(i) = {to}(A(i))" for k, to in enumerate(INTEGERS))
    outputs = ", ".join(f"O{k}" for k in range(len(INTEGERS)))
    results = run(f"def f({name}(N) A) -> ({outputs}) {{ {statements} }}", torch.from_numpy(a))
    for actual, to in zip(results, INTEGERS, strict=True):
        same(actual, a.astype(to))


def test_bool_operators() -> None:
    a, b = numbers("bool", 71), numbers("bool", 71, 1)
    text = """def f(bool(N) A, bool(N) B) -> (P, Q, R, S, T, U, V) {
      P(i) = A(i) && B(i)
      Q(i) = A(i) || B(i)
      R(i) = !A(i)
      S(i) = min(A(i), B(i))
      T(i) = max(A(i), B(i))
      U(i) = A(i) + B(i)
      V(i) = A(i) ? B(i) : !B(i)
    }"""
    wanted = (a & b, a | b, ~a, a & b, a | b, a.int() + b.int(), ~(a ^ b))
    for actual, w in zip(run(text, a, b), wanted, strict=True):
        same(actual, w)


@pytest.mark.parametrize("left", TYPES)
def test_mixed_operands(left: str) -> None:
    """Sums of all pairs have the documented type and the value computed in it."""
    rights = list(TYPES)
    a = torch.from_numpy(integers("int8", 40) % 20).abs().to(TYPES[left])
    b = [torch.from_numpy(integers("int8", 40, 1) % 20).abs().to(TYPES[r]) for r in rights]
    parameters = ", ".join(f"{r}(N) B{k}" for k, r in enumerate(rights))
    statements = " ".join(f"O{k}(i) = A(i) + B{k}(i)" for k in range(len(rights)))
    outputs = ", ".join(f"O{k}" for k in range(len(rights)))
    results = run(f"def f({left}(N) A, {parameters}) -> ({outputs}) {{ {statements} }}", a, *b)
    for actual, other, right in zip(results, b, rights, strict=True):
        assert actual.dtype == sum_type(left, right), (left, right)
        wanted = a.double() + other.double()
        torch.testing.assert_close(actual.double(), wanted, rtol=0, atol=0)


def sum_type(a: str, b: str) -> torch.dtype:
    """Docs, "Types"."""
    if a == b:
        return torch.int32 if a == "bool" else TYPES[a]
    if "bool" in (a, b):
        return TYPES[b if a == "bool" else a]
    if a in FLOATS or b in FLOATS:
        if a in FLOATS and b in FLOATS:
            return (
                torch.float32
                if {a, b} == set(NARROW)
                else max(TYPES[a], TYPES[b], key=lambda t: t.itemsize)
            )
        return TYPES[a if a in FLOATS else b]
    bits = [8 * TYPES[x].itemsize for x in (a, b)]
    if (a in SIGNED) == (b in SIGNED):
        return TYPES[a if bits[0] > bits[1] else b]
    signed, unsigned = bits if a in SIGNED else reversed(bits)
    return INTEGERS[f"int{min(64, max(signed, 2 * unsigned))}"]


# ---- integers


def test_division_by_what_turns_out_to_be_zero() -> None:
    """The index has one value, which is the divisor."""
    text = """def f(float(N) A) -> (Q, R) {
      Q(i) = max(-int64(i) * (int64(i) / int64(-9223372036854775807)),
                 -(3 / int64(i))) where i in 0:1
      R(i) = 7 - (3 % int32(i)) + 5 / int32(i) where i in 0:1
    }"""
    quotient, rest = tc.define(text, namespace="tc_zero_divisor").f(torch.ones(3))
    assert quotient.tolist() == [0] and rest.tolist() == [7]


@by_integer
def test_division_rounds_towards_zero(name: str) -> None:
    low, high = limits(name)
    values = [v for v in (low, low + 1, -7, -2, -1, 0, 1, 2, 3, 7, high - 1, high) if v >= low]
    pairs = [(x, y) for x in values for y in values]
    a, b = (torch.from_numpy(np.array(v, dtype=name)) for v in zip(*pairs, strict=True))
    text = f"""def f({name}(N) A, {name}(N) B) -> (Q, R, S, T) {{
      Q(i) = A(i) / B(i)
      R(i) = A(i) % B(i)
      S(i) = A(i) / 3
      T(i) = A(i) % 3
    }}"""

    def quotient(x: int, y: int) -> int:
        if y == 0:
            return 0
        q = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        return low if q > high else q

    def remainder(x: int, y: int) -> int:
        return 0 if y == 0 else abs(x) % abs(y) * (1 if x >= 0 else -1)

    q, r, s, t = (x.numpy().tolist() for x in run(text, a, b))
    assert q == [quotient(x, y) for x, y in pairs]
    assert r == [remainder(x, y) for x, y in pairs]
    assert s == [quotient(x, 3) for x, _ in pairs]
    assert t == [remainder(x, 3) for x, _ in pairs]


@pytest.mark.parametrize("name", SIGNED)
def test_magnitudes_whose_product_wraps_around(name: str) -> None:
    """|a| * |b| is not |a * b|."""
    a = torch.from_numpy(integers(name, 60)).view(2, 30)
    text = f"def f({name}(M, N) A) -> (P) {{ P(j) *=! abs(A(i, j)) }}"
    (actual,) = run(text, a)
    assert torch.equal(actual, a[0].abs() * a[1].abs())


@pytest.mark.parametrize("name", SIGNED)
def test_division_by_negative_constants(name: str) -> None:
    a = integers(name, 71)
    text = f"""def f({name}(N) A) -> (P, Q, R, S, T) {{
      P(i) = A(i) / (-1)
      Q(i) = A(i) % (-1)
      R(i) = A(i) / (-4)
      S(i) = A(i) % (-4)
      T(i) = abs(A(i))
    }}"""
    with np.errstate(over="ignore"):
        negative = (0 - a).astype(name)
    wide = a.astype(object)
    truncated = np.array([abs(x) // 4 * (-1 if x > 0 else 1) for x in wide]).astype(name)
    rest = np.array([abs(x) % 4 * (1 if x > 0 else -1) for x in wide]).astype(name)
    for actual, wanted in zip(
        run(text, torch.from_numpy(a)), (negative, 0 * a, truncated, rest, np.abs(a)), strict=True
    ):
        same(actual, wanted)


@pytest.mark.parametrize("name", ["int32", "int64", "int8", "uint8"])
def test_overflow_has_a_meaning(name: str) -> None:
    """No comparison or quotient may assume that a sum did not wrap around."""
    a = integers(name, 71)
    text = f"""def f({name}(N) A) -> (P, Q, R, S) {{
      P(i) = A(i) + 1 > A(i)
      Q(i) = (A(i) * 2) / 2
      R(i) = -A(i) < 0
      S(i) = A(i) - 1 < A(i) ? 1 : 2
    }}"""
    one, two = np.array(1, name), np.array(2, name)
    with np.errstate(over="ignore"):
        more, less, twice, negative = a + one, a - one, a * two, (0 * a - a)
    half = np.array([abs(int(x)) // 2 * (1 if x > 0 else -1) for x in twice]).astype(name)
    wanted = (more > a, half, negative < 0, np.where(less < a, 1, 2).astype("int32"))
    for actual, w in zip(run(text, torch.from_numpy(a)), wanted, strict=True):
        same(actual, w)


# ---- reductions


@by_number
@pytest.mark.parametrize("rows", [1, 37])
def test_reductions(name: str, rows: int) -> None:
    """With the identity first, and from what the caller brings."""
    a = numbers(name, rows * 23).reshape(rows, 23)
    if name in FLOATS:
        a = a / 8 + 1
    start = numbers(name, rows, 2)
    operators = ("+=", "*=", "min=", "max=")
    statements = " ".join(f"O{k}(i) {o}! A(i, k)" for k, o in enumerate(operators))
    given = " ".join(f"P{k}(i) {o} A(i, k)" for k, o in enumerate(operators))
    results = [
        *run(f"def f({name}(M, K) A) -> (O0, O1, O2, O3) {{ {statements} }}", a),
        *define(f"def g({name}(M, K) A) -> (P0, P1, P2, P3) {{ {given} }}").g(
            a, outputs=tuple(start.clone() for _ in operators)
        ),
    ]
    if name in INTEGERS:
        x, s = a.numpy(), start.numpy()
        with np.errstate(over="ignore"):
            wanted = [x.sum(1, dtype=name), x.prod(1, dtype=name), x.min(1), x.max(1)]
            wanted += [
                wanted[0] + s,
                wanted[1] * s,
                np.minimum(wanted[2], s),
                np.maximum(wanted[3], s),
            ]
        for actual, w in zip(results, wanted, strict=True):
            same(actual, w)
        return
    x, s = a.double(), start.double()
    wanted = [x.sum(1), x.prod(1), x.amin(1), x.amax(1)]
    wanted += [wanted[0] + s, wanted[1] * s, wanted[2].minimum(s), wanted[3].maximum(s)]
    # Accumulated in float, narrow types are rounded once.
    tolerance = {"half": 2e-3, "bfloat16": 1e-2, "float": 1e-5, "double": 1e-12}[name]
    info = torch.finfo(a.dtype)
    for k, (actual, w) in enumerate(zip(results, wanted, strict=True)):
        # Only sums lose what is small beside their terms; products may be denormal.
        least = tolerance if k % 4 == 0 else 4 * info.smallest_normal * info.eps
        torch.testing.assert_close(actual, w.to(a.dtype), rtol=tolerance, atol=least)


def test_bool_reductions() -> None:
    a = numbers("bool", 37 * 5).reshape(37, 5)
    text = """def f(bool(M, K) A) -> (P, Q, R, S) {
      P(i) +=! A(i, k)
      Q(i) *=! A(i, k)
      R(i) min=! A(i, k)
      S(i) max=! A(i, k)
    }"""
    any_, all_ = a.any(1), a.all(1)
    for actual, w in zip(run(text, a), (any_, all_, all_, any_), strict=True):
        same(actual, w)


# ---- scalars


@pytest.mark.parametrize("name", TYPES)
def test_scalars(name: str) -> None:
    text = f"def f({name}(N) A, {name} s) -> (O, P) {{ O(i) = max(A(i), s)  P() = s }}"
    a = numbers(name, 19)
    value = True if name == "bool" else 3 if name in INTEGERS else 0.5
    maximum, kept = run(text, a, value)
    scalar = torch.tensor(value, dtype=TYPES[name])
    same(kept, scalar)
    left = a.float() if name in NARROW else a
    wanted = np.maximum(left.numpy(), np.array(value, left.numpy().dtype))
    same(maximum.float() if name in NARROW else maximum, wanted.astype(left.numpy().dtype))


@by_integer
def test_scalars_at_the_limits(name: str) -> None:
    text = f"def f({name} s) -> (O) {{ O() = s }}"
    for value in limits(name):
        if -(2**63) <= value < 2**63:
            assert run(text, value)[0].item() == value


# ---- not a number, infinities, zeros


def pairs_of_special(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.tensor(SPECIAL, dtype=dtype)
    return x.repeat_interleave(len(x)), x.repeat(len(x))


@by_float
@pytest.mark.parametrize("options", [None, "identity"])
def test_special_values(name: str, options: str | None) -> None:
    """What is computed, not only what is read, may be NaN or infinite."""
    a, b = pairs_of_special(FLOATS[name])
    text = f"""def f({name}(N) A, {name}(N) B) -> (O0, O1, O2, O3, O4, O5, O6, O7, O8, O9, O10) {{
      O0(i) = A(i) + B(i)
      O1(i) = A(i) - B(i)
      O2(i) = A(i) * B(i)
      O3(i) = A(i) / B(i)
      O4(i) = A(i) - A(i)
      O5(i) = A(i) * 0
      O6(i) = A(i) / A(i)
      O7(i) = max(A(i) + B(i), 0)
      O8(i) = min(A(i) * B(i), A(i) - B(i))
      O9(i) = fmax(A(i), B(i))
      O10(i) = fmin(A(i), B(i))
    }}"""
    namespace = f"tc_types_special_{name}_{options}"
    results = tc.define(text, options, namespace=namespace).f(a, b)
    x, y = a.double(), b.double()
    wanted = (
        x + y,
        x - y,
        x * y,
        x / y,
        x - x,
        x * 0,
        x / x,
        (x + y).clamp(min=0),
        torch.minimum(x * y, x - y),
        torch.fmax(x, y),
        torch.fmin(x, y),
    )
    for actual, w in zip(results, wanted, strict=True):
        same(actual, w.to(FLOATS[name]))


@by_float
def test_tests_of_special_values(name: str) -> None:
    a, b = pairs_of_special(FLOATS[name])
    text = f"""def f({name}(N) A, {name}(N) B) -> (P, Q, R, S, T, U) {{
      P(i) = isnan(A(i) + B(i))
      Q(i) = isinf(A(i) * B(i))
      R(i) = A(i) - B(i) == A(i) - B(i)
      S(i) = A(i) / B(i) != A(i) / B(i)
      T(i) = !(A(i) + B(i) <= A(i))
      U(i) = A(i) - B(i) >= 0 ? 1 : 2
    }}"""
    if name in NARROW:
        a, b = (x.float().clamp(-5, 5).where(x.isfinite(), x.float()).to(x.dtype) for x in (a, b))
    wanted = (
        torch.isnan(a + b),
        torch.isinf(a * b),
        ~torch.isnan(a - b),
        torch.isnan(a / b),
        ~(a + b <= a),
        torch.where(a - b >= 0, 1, 2).int(),
    )
    for actual, w in zip(run(text, a, b), wanted, strict=True):
        same(actual, w)


@by_float
def test_reductions_of_special_values(name: str) -> None:
    rows = torch.tensor(
        [
            [1, NAN, 2],
            [INF, -INF, 0],
            [NAN, INF, -INF],
            [-INF] * 3,
            [INF, 1, 0],
            [NAN, 1, 5],
            [1, 5, NAN],
        ],
        dtype=FLOATS[name],
    )
    text = f"""def f({name}(M, K) A) -> (P, Q, R, S, T) {{
      P(i) +=! A(i, k)
      Q(i) *=! A(i, k)
      R(i) min=! A(i, k)
      S(i) max=! A(i, k)
      T(i) = max(P(i), 0)
    }}"""
    x = rows.double()
    wanted = (x.sum(1), x.prod(1), x.amin(1), x.amax(1), x.sum(1).clamp(min=0))
    for actual, w in zip(run(text, rows), wanted, strict=True):
        same(actual, w.to(FLOATS[name]))


@pytest.mark.parametrize("options", [None, "identity", "cuda"])
@pytest.mark.parametrize(
    "condition",
    ["x - x == 0.0", "x * 0.0 == 0.0", "x / x == 1.0", "x == x", "!(x < 1.5)", "min(x, x) >= x"],
)
def test_conditions_on_special_values_decide_over_places(
    condition: str, options: str | None
) -> None:
    """In subscripts, places of scatters and guards: nothing takes floats for finite numbers."""
    x = torch.tensor([1.0, math.nan, math.inf, 2.0, -math.inf])
    table = torch.tensor([10.0, 20.0, 30.0])
    condition = condition.replace("x", "A(i)")
    text = f"""def f(float(N) A, float(M) T) -> (O, P, Q) {{
        O(i) = T({condition} ? 1 : 0)
        P(m) = 0 where m in 0:2
        P({condition} ? 1 : 0) += T(0)
        Q(i) = {condition} ? T(0) : T(i / 8 + 1) where i in 0:N
    }}"""
    plain = f"def f(float(N) A) -> (O) {{ O(i) = {condition} ? 1 : 0 }}"
    holds = reference.run(plain, "f", x).bool()
    if options == "cuda":
        found = torch.empty(5), torch.empty(2), torch.empty(5)
        cuda = tc.compile(text, "f", tc.MappingOptions(), x, table, target="cuda:sm_90")
        emulated.run(cuda, (x, table), found)
    else:
        found = tc.compile(text, "f", options, x, table)(x, table)
    assert torch.equal(found[0], torch.where(holds, 20.0, 10.0))
    assert torch.equal(found[1], 10.0 * torch.stack([~holds, holds]).sum(1))
    assert torch.equal(found[2], torch.where(holds, 10.0, 20.0))


@pytest.mark.parametrize(
    "text",
    [
        # What ends a scan, a constant divisor, offsets in a table.
        "def f(float(N) A) -> (S) { S(i) +=! j <= i ? A(j) : A(i) * 0.0 where i in 0:N }",
        "def f(float(N) A) -> (S) { S(i) +=! j <= i ? A(j) : A(i) - A(i) where i in 0:N }",
        "def f(float(N) A) -> (S) { S(i) +=! A(j) / (A(i) * 0.0 + 2.0) where i in 0:N }",
        """def f(float(N) A) -> (S) {
          X(h, i) = h * 100 + i where h in 0:40, i in 0:50
          S(h, i) +=! X(h, i + (A(k) - A(k) == 0.0 ? 1 : 0) + (A(k) == A(k) ? 2 : 0))
              where h in 0:40, i in 0:47
        }""",
        """def f(float(N) A, float(H, W) X) -> (S) {
          S(h, i) +=! X(h + (A(k) * 0.0 == 0.0 ? 2 : 0), i + (A(k) == A(k) ? 1 : 0))
              where h in 0:H - 2, i in 0:W - 1
        }""",
    ],
)
def test_sums_take_nothing_for_finite(text: str) -> None:
    inputs = [torch.arange(1.0, 41.0)]
    inputs[0][5], inputs[0][7] = INF, NAN
    if " X)" in text:
        inputs.append(torch.arange(2000.0).reshape(40, 50) % 64)
    wanted = reference.run(text, "f", *inputs)
    torch.testing.assert_close(define(text).f(*inputs), wanted, equal_nan=True)


def test_softmax_of_masked_rows() -> None:
    a = torch.randn(5, 37)
    a[0, ::2] = -INF
    a[1] = -INF
    a[2, 4] = NAN
    a[3, :36] = -INF
    text = """def f(float(N, D) I) -> (O, M, S) {
      M(n) max=! I(n, d)
      S(n) +=! exp(I(n, d) - M(n))
      O(n, d) = exp(I(n, d) - M(n)) / S(n)
    }"""
    same(run(text, a)[0], torch.softmax(a, 1), rtol=1e-5, atol=0)


def test_maximum_and_minimum_start_below_and_above_infinity() -> None:
    text = "def f(float(N, K) A) -> (P, Q) { P(n) max=! A(n, k)  Q(n) min=! A(n, k) }"
    low, high = torch.full((3, 5), -INF), torch.full((3, 5), INF)
    assert (run(text, low)[0] == -INF).all()
    assert (run(text, high)[1] == INF).all()


@pytest.mark.parametrize(
    ("outer", "inner"),
    [("uint8", "int32"), ("uint32", "int64"), ("uint16", "int16"), ("uint32", "int32")],
)
def test_a_cast_of_a_truncated_float(outer: str, inner: str) -> None:
    x = torch.tensor([-300.7, 300.2, -5.0, 1e4, -1e4, 0.5] * 8)
    text = f"def f(float(N) A) -> (O) {{ O(i) = {outer}({inner}(A(i))) }}"
    assert torch.equal(run(text, x)[0], x.to(TYPES[inner]).to(TYPES[outer]))


@by_float
def test_truncated_floats_wrap_in_arithmetic(name: str) -> None:
    x = torch.tensor([-3.5, 3.5, -100.0], dtype=FLOATS[name])
    s = torch.tensor([2, -1, 7], dtype=torch.int32)
    text = f"def f(int32(N) s, {name}(N) A) -> (O) {{ O(i) = s(i) - int32(A(i)) }}"
    assert torch.equal(run(text, s, x)[0], s - x.to(torch.int32))


@pytest.mark.parametrize("operator", ["=", "+=!"])
def test_conditions_do_not_decide_the_type_of_literals(operator: str) -> None:
    """Not while the types of tensors are being found, either."""
    x = torch.tensor([-1.0, 0.5, 2.0])
    text = f"""def f(float(N) X) -> (O) {{
        R(i) {operator} X(i) > 0 ? 1 : 0
        O(i) {operator} R(i) == 1 ? 1.0 : 0.0
    }}"""
    (result,) = run(text, x)
    assert result.dtype == torch.float
    assert torch.equal(result, (x > 0).float())


class Wrapped:
    """32 bits, as C's unsigned arithmetic gives them; division is C's."""

    def __init__(self, number: int) -> None:
        self.number = (number + 2**31) % 2**32 - 2**31

    def __add__(self, other: Wrapped) -> Wrapped:
        return Wrapped(self.number + other.number)

    def __sub__(self, other: Wrapped) -> Wrapped:
        return Wrapped(self.number - other.number)

    def __mul__(self, other: Wrapped) -> Wrapped:
        return Wrapped(self.number * other.number)

    def __truediv__(self, other: Wrapped) -> Wrapped:
        sign = 1 if (self.number < 0) == (other.number < 0) else -1
        return Wrapped(sign * (abs(self.number) // abs(other.number)))

    def __gt__(self, other: Wrapped) -> bool:
        return self.number > other.number


def wrapped(value: str, numbers: Iterable[int]) -> list[int]:
    """An expression of x, in 32 bits."""
    python = re.sub(r"(\d+)", r"Wrapped(\1)", value)
    if "?" in python:
        python = re.sub(r"(.*) \? (.*) : (.*)", r"(\2) if (\1) else (\3)", python)
    found = (eval(python, {"Wrapped": Wrapped, "x": Wrapped(number)}) for number in numbers)
    return [each.number if isinstance(each, Wrapped) else each for each in found]


@pytest.mark.parametrize(
    "value",
    [
        "x + 2000000000 + 2000000000",
        "2000000000 - (x - 2000000000)",
        "(x - 2147483647) - 5 - x",
        "x * 65536 * 65536 + x * 3",
        "(x + 2147483647) * 2 - 7",
        "(x + 2147483647 + 2147483647) / 3",
        "2147483647 + (x + 2147483647) > x ? x + 2147483647 + 2 : x",
    ],
)
def test_constants_whose_sum_leaves_the_type(value: str) -> None:
    """What data is added to wraps around; constants are put together as if they did, too."""
    edges = [0, 1, -1, 2**31 - 1, -(2**31), 2**31 - 6, 147483648, -1852516353]
    x = torch.tensor(edges * 5, dtype=torch.int32)
    text = f"def f(int32(N) A) -> (O) {{ O(i) = {value.replace('x', 'A(i)')} }}"
    found = tc.compile(text, "f", None, x)(x)
    assert found.tolist() == wrapped(value, edges * 5)


@pytest.mark.parametrize(
    "value",
    [
        "x * 1073741824 + x > x - 256",
        "x * 1073741824 + x > 0 - (256 - x)",
        "x * 1073741824 + x > 5 - x",
    ],
)
def test_constants_of_indices_leave_the_type(value: str) -> None:
    """What is moved to the other side of a comparison may wrap around there."""
    text = f"def f() -> (O) {{ O(i) = {value.replace('x', 'i')} where i in -3:9 }}"
    assert tc.compile(text, "f", None)().tolist() == wrapped(value, range(-3, 9))


@pytest.mark.parametrize(("dtype", "least"), [(torch.int8, -128), (torch.int16, -32768)])
def test_the_least_integer_is_a_literal(dtype: torch.dtype, least: int) -> None:
    """Of -128 the operand, 128, is no int8."""
    name = str(dtype).removeprefix("torch.")
    text = f"def f({name}(N) a) -> (T, C) {{ T(i) = max(a(i), {least})  C(i) = a(i) == {least} }}"
    a = torch.tensor([least, -1, 5], dtype=dtype)
    found = tc.define(text, namespace="tc_least").f(a)
    assert found[0].tolist() == [least, -1, 5]
    assert found[1].tolist() == [True, False, False]


def test_extremes_of_literals_keep_what_is_no_number() -> None:
    text = "def f(float(N) A) -> (T) { T(i) = A(i) + min(1.0, 0.0 / 0.0) }"
    assert tc.define(text, namespace="tc_least").f(torch.zeros(3)).isnan().all()


def test_orders_of_functions_in_sums_are_integers() -> None:
    text = "def f(TYPE(N, K) A) -> (S) { S(n) +=! jn(0, A(n, k)) }"
    for name, dtype in (("float", torch.float), ("double", torch.double), ("half", torch.half)):
        a = (torch.rand(3, 5) * 4).to(dtype)
        found = tc.define(text.replace("TYPE", name), namespace="tc_orders").f(a)
        wanted = torch.special.bessel_j0(a.double()).sum(1)
        torch.testing.assert_close(found.double(), wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("form", [".registers(m=16)", ""])
def test_sums_of_integers_wrap_around_also_for_what_reads_them(form: str) -> None:
    """LLVM must not take for granted that terms above zero have a sum above zero."""
    text = """def f(int32(K,M) A) -> (S, T, U) {
      S(m) +=! max(A(k,m), 0)
      T(m) = S(m) < 0 ? 1 : 0
      U(m) = int64(S(m))
    }"""
    options = tc.MappingOptions().cluster("S0", "S1", "S2")
    if form:
        options = options.registers(m=16)
    a = torch.full((3, 64), 2**30, dtype=torch.int32)
    s, t, u = tc.compile(text, "f", options, a)(a)
    wanted = torch.full((64,), -(2**30), dtype=torch.int64)
    assert torch.equal(s, wanted.int()) and torch.equal(u, wanted)
    assert (t == 1).all()
