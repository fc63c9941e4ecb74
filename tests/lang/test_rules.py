"""Small texts for the corners of docs/language.md: the compiler and the interpreter agree."""

from __future__ import annotations

import zlib

import pytest
import torch

import tensor_comprehensions as tc
from tensor_comprehensions import reference

BOOLS = torch.tensor([True, False, True, True])
BYTES = torch.tensor([3, 2, 1, 0], dtype=torch.uint8)
HALVES = torch.arange(4, dtype=torch.half)
FLOATS = torch.arange(4.0)

ACCEPTED = [
    ("float(N) A", "T(i) = A(i) > 2 ? true : false"),
    ("float(N) A", "T(i) = A(i) > 2 == true"),
    ("bool(N) b", "T(i) = b(i) ? (b(i) ? 1 : 2) / 2 : 0.5"),
    ("half(N) h", "T(i) = h(i) * ((h(i) > 1 ? 1 : 2) / 2)"),
    ("half(N) h", "T(i) = 1 == 1.0 && h(i) > 1"),
    ("half(N) h", "T(i) = pow(2, 3) + h(i)"),
    ("half(N) h", "T(i) = abs(-3) * h(i)"),
    ("half(N) h", "T(i) = fmax(h(i), 1.5)"),
    ("uint8(N) u", "T(i) = fmax(u(i), 300)"),
    ("float(N) A", "T(i) = A(i) * -2 % 3"),
    ("float(N) A", "T(i) = !(i > 2) ? A(i) : -A(i) / 2 where i in 0:N"),
    ("float(N) A", "T(i) = i > 1 ? 1 : i > 0 ? 2 : A(i)"),
    ("float(N) A", "T(i) = A.0 + A(i) * N"),
    ("float(N) A", "T(i) = A(i) + 0x10 + 1e1 + 1.f + .5 + 010"),
    ("float(N) A", "T(i) = 2147483647 + 1 where i in 0:N"),
    ("float(N) A", "T(i) = A((i * -2147483648) / -2147483648) where i in 0:N"),
    ("float(N) A", "T(i) = A(i % -2147483648) where i in 0:N"),
    ("float(N) A", "T(i) = A(abs(abs(i - 2) - 1)) where i in 0:N"),
    ("float(N) A", "T(i) = A(i) + float(-2147483648 / (i - i))"),
    ("float(N) A", "T(i) = A(i) + float(i * 65536 * 65536 + i / 50000 + 50000)"),
    ("float(N) A", "T(i) = int64(i) - 9223372036854775807 - 2 where i in 0:N"),
    ("float(N) A", "T(i) = A(i + 2147483647)"),
    ("float(N) A", "T(i) = i * 2 where i in 2147483640:2147483647"),
    (
        "float(N) A",
        "T(i) = abs(i) + (i < -2147483647 ? -i : i / -1) where i in -2147483648:-2147483640",
    ),
    ("float(N) A", "T(i) = min(i, 2147483646) + A(i + 3) where i in -3:1"),
    ("float(N) A", "T(i) = max(i, 2147483646) % 7 + A(i + 3) where i in -3:1"),
    ("float(N) A", "T(i) = i % -2147483647 + A(i + 3) where i in -3:1"),
    ("float(N) A", "T(i) = int32(A(i + 3)) * (i / 3 % 2147483647) where i in -3:1"),
    ("float(N) A", "T(i) = A(i + 3) + int64(i) % 9223372036854775807 where i in -3:1"),
    ("float(N) A", "T(i) = (i % 2147483647) * 1.5 + A(0) where i in -2147483648:-2147483640"),
    ("float(N) A", "T(i) +=! (i + k * 2) % 2147483640 + A(0) where i in -3:5, k in -7:1"),
    ("float(N) A", "T(i) = int16(i) * i != 1073741824 where i in 2147483643:2147483644"),
    ("float(N) A", "T(i) = A(i + 2147483640 + 8) where i in -2147483648:-2147483644"),
    ("float(N) A", "T(i) = A(2 * i - 1)"),
    ("float(N) A", "T(i) = A(-2 * i + 1)"),
    ("float(N) A", "T(i) = A(i / 2)"),
    ("float(N) A", "T(i) = A((i + 3) / 2)"),
    ("float(N) A", "T(i) = A(i) where i in 2:2"),
    ("float(N) A", "T(i) +=! A(i) where k in 0:3"),
    ("float(N) A", "T(i) +=! A(i) where k in 0:0"),
    ("float(N) A", "T(i) max=! A(i) where k in 0:0"),
    ("float(N) A", "T(i) +=! A(i) where exists A(k)"),
    ("float(N) A", "T(i) = A(i) + y where y = A(i + 1), z = y"),
    ("float(N) A", "T = A(1) T = T + A(N - 1)"),
    ("float(N) A", "S(i) = A(i - 1) T(i) = S(i) * i + S(1)"),
    ("float(N) A", "T(i) = A(i) where in = 2, exists = 3, i in 0:in"),
    ("float(N) A, uint8(M) u", "T(i) = A(u(i))"),
    ("float(N) A, uint8(M) u", "T(i) = A(u(i) + 1 - 1)"),
    ("bool(N) b", "T(i) = -b(i)"),
    ("bool(N) b", "T(i) = min(b(i), b(0))"),
    ("bool(N) b", "T(i) = b(i) + 2"),
    ("bool(N) b", "T(i) = b(i) ? b(i) : 2"),
    ("bool(N) b", "T(i) = b(i) < b(0)"),
    ("bool(N) b", "T(i) = b(i) * b(i) + b(i) / 2"),
    ("bool(N) b", "T(i) = abs(b(i))"),
    ("bool(N) b", "T +=! b(i)"),
    ("bool(N) b", "T *=! b(i)"),
    ("bool(N) b", "T +=! int32(b(i))"),
    ("bool(N) b, uint8(N) u", "T(i) = u(i) + (b(i) ? 1 : 2)"),
    ("bool(N) b, uint8(N) u", "T(i) = u(i) - b(i)"),
    ("uint8(N) u", "T(i) = isnan(u(i)) || isinf(1.5 / u(i))"),
    ("uint8(N) u", "T(i) = u(i) / (u(i) - u(i)) + u(i) % (u(i) - u(i))"),
    ("uint8(N) u", "T(i) = int16(1) T(i) = u(i)"),
    ("uint8(N) u", "T(i) = 0 T(i) = -u(i)"),
    # A let of literals is one, too, with a type for each place that it stands at.
    ("uint8(N) u, bool(N) b", "T(i) = u(i) + x where x = b(i) ? 1 : 2"),
    ("uint8(N) u, bool(N) b", "T(i) = u(i) + y where x = (b(i) ? 5 : 2) / 2, y = -x + 9"),
    ("half(N) h, bool(N) b", "T(i) = h(i) * x where x = b(i) ? 0.1 : 0.2"),
    ("half(N) h, bool(N) b", "T(i) = double(h(i)) * y where x = b(i) ? 0.1 : 2, y = x"),
    (
        "half(N) h, bool(N) b, uint8(N) u",
        "T(i) = double(h(i) + y) + float(u(i) + y) where x = b(i) ? 1 : 2, y = x",
    ),
    ("half(N) h", "T(i) = h(i) * 65519.0"),
    ("half(N) h", "T(i) = h(i) * half(1e5)"),
    ("half(N) h", "T(i) = h(i) + 1.0 / 0.0"),
    ("half(N) h", "T(i) = double(h(i)) * x where x = 1e39"),
    ("uint8(N) u", "T(i) = uint64(u(i)) + uint64(-1)"),
    ("uint8(N) u", "T(i) = int64(u(i)) + (-9223372036854775807 - 1)"),
]
REFUSED = [
    ("uint8(N) u", "T(i) = u(i) + -1"),
    ("uint8(N) u", "T(i) = u(i) / 0"),
    ("uint8(N) u", "T(i) = u(i) T(i) = int16(1)"),
    ("float(N) A", "T(i) = A(i) T(i) = double(1)"),
    ("float(N) A", "T(i) = A(i) ? 1 : 2"),
    ("float(N) A", "T(i) = A(k)"),
    ("float(N) A", "T(i) = A(i) where i in 3:2"),
    ("float(N) A", "T(i) = A(i * 65536 * 65536) where i in 0:2"),
    ("float(N) A", "T(i) = A(i / -1)"),
    ("float(N) A", "T(i) = A(i - 2147483647)"),
    ("float(N) A", "T(i) = i where i in N * 2147483647:N * 2147483647 + 2"),
    ("float(N) A", "T(i) = A(i) T(i) = A(i + 1)"),
    ("float(N) A", "T(i) = A(i + 1) where i in 0:N"),
    ("float(N) A", "T(i) = A(i - 1) U(i) = T(0)"),
    ("float(N) A", "T(i) = i where true in 0:3"),
    ("float(5) A", "T(i) = A(i)"),
    ("uint8(N) u, bool(N) b", "T(i) = u(i) + x where x = b(i) ? 1 : 300"),
    ("half(N) h", "T(i) = h(i) * 65520"),
    ("half(N) h", "T(i) = h(i) * (h(i) > 1 ? -1e5 : 0.0)"),
    ("half(N) h", "T(i) = x where x = h(i) * 1e5"),
    ("half(N) h", "T(i) = h(i) < 1e5"),
    ("float(N) A", "T(i) = A(i) + 1e39"),
    ("float(N) A", "T(i) = 1e39 where i in 0:N"),
    ("uint8(N) u", "T(i) = uint64(u(i)) + 18446744073709551615"),
]
TYPES = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
TYPES += ["half", "bfloat16", "float", "double"]
TENSORS = {"float": FLOATS, "bool": BOOLS, "uint8": BYTES, "half": HALVES}


def arguments(parameters: str) -> list[torch.Tensor]:
    return [TENSORS[p.strip().split("(")[0]] for p in parameters.split(", ")]


def text_of(parameters: str, body: str) -> tuple[str, str]:
    text = f"def f({parameters}) -> (T) {{ {body} }}"
    return text, f"tc_rules_{zlib.crc32(text.encode())}"


@pytest.mark.parametrize(("parameters", "body"), ACCEPTED)
def test_accepted(parameters: str, body: str) -> None:
    text, namespace = text_of(parameters, body)
    inputs = arguments(parameters)
    actual = tc.define(text, namespace=namespace).f(*inputs)
    wanted = reference.run(text, "f", *inputs)
    torch.testing.assert_close(actual, wanted, rtol=1e-6, atol=0, equal_nan=True)


@pytest.mark.parametrize(("parameters", "body"), REFUSED)
def test_refused(parameters: str, body: str) -> None:
    text, namespace = text_of(parameters, body)
    inputs = arguments(parameters)
    with pytest.raises((tc.LanguageError, tc.ShapeError)):
        reference.run(text, "f", *inputs)
    with pytest.raises((tc.LanguageError, tc.ShapeError)):
        tc.define(text, namespace=namespace).f(*inputs)


@pytest.mark.parametrize(
    "body",
    [
        "T(i) = A(i + N / 2 - M / 3)",
        "T(i) +=! A(i + k - (M - 1) / 2) * B(k)",
        "T(i) +=! A(i + k - (M + 2) % 2 - N / M) * B(k)",
        "T(i) = A((i + (M - 5) / 2) / 2)",
        "T(i) = A(i + min(N, M * M) - B.0) where h = (M - 1) / 2, exists B(i - h)",
        "T(i) +=! A(i / 2 + k) * B(k)",
        "T(i) +=! A(2 * i + k / 2 - 1) * B(k)",
        "T(i) +=! A(k - i / 2) * B(k)",
        "T(i) = A(2 * (i / 3) + 1)",
        "T(i) = A((i / 2 + 1) / 3)",
        "T(i, j) = A(i / 2 + j / 2) * B(j)",
        "S(i) = A(i / 2) T(i) +=! S(i + k - (S.0 - 39) / 2) * B(k)",
    ],
)
def test_quotients_in_sums_bound_indices(body: str) -> None:
    """Those of sizes alone are numbers; those of indices bound these as if they rounded down."""
    text = f"def f(float(N) A, float(M) B) -> (T) {{ {body} }}"
    _, namespace = text_of("", body)
    f = tc.define(text, namespace=namespace).f
    for size in (3, 4):
        inputs = torch.arange(20.0), torch.arange(1.0, size + 1)
        try:
            wanted = reference.run(text, "f", *inputs)
        except tc.ShapeError:  # where the quotient of a negative number rounds up
            with pytest.raises(tc.ShapeError):
                f(*inputs)
            continue
        assert torch.equal(f(*inputs), wanted)


@pytest.mark.parametrize("value", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_what_may_be_stored_without_a_cast(value: str, target: str) -> None:
    text = f"def f({value}(N) A) -> ({target}(N) T) {{ T(i) = A(i) }}"
    dtypes = {"half": torch.half, "float": torch.float, "double": torch.double}
    a = torch.ones(2, dtype=dtypes.get(value) or getattr(torch, value))
    try:
        wanted = reference.run(text, "f", a)
    except tc.LanguageError:
        with pytest.raises(tc.LanguageError, match="without an explicit cast"):
            tc.define(text, namespace=f"tc_rules_{value}_{target}").f(a)
        return
    actual = tc.define(text, namespace=f"tc_rules_{value}_{target}").f(a)
    torch.testing.assert_close(actual, wanted)


def test_literals_beyond_double_are_errors() -> None:
    with pytest.raises(
        tc.LanguageError, match=r"1e400 does not fit double; write infinity as 1\.0 / 0\.0"
    ):
        tc.define("def f(float(N) A) -> (O) { O(i) = A(i) * 1e400 }")


def test_a_nan_is_no_number() -> None:
    t = tc.define("""def largest(float(N) A) -> (P, Q, R, S) {
      P(i) = max(A(i), 0.0 / 0.0)
      Q(i) = fmax(A(i), 0.0 / 0.0)
      R(i) = min(0.0 / 0.0, A(i))
      S(i) = fmin(0.0 / 0.0, A(i))
    }""")
    a = torch.randn(37)
    p, q, r, s = t.largest(a)
    assert p.isnan().all() and r.isnan().all()
    assert torch.equal(q, a) and torch.equal(s, a)


@pytest.mark.parametrize("reduction", ["+=!", "max=!", "*=!"])
def test_what_a_reduction_begins_with_spoils_what_it_reads(reduction: str) -> None:
    """Also where there is one term alone."""
    text = f"def f(float(N) A) -> (C) {{ C(i) = A(i) C(i) {reduction} C(i) * 2 where k in 0:1 }}"
    with pytest.raises(tc.LanguageError, match="C"):
        tc.compile(text, "f", None, torch.ones(5))
