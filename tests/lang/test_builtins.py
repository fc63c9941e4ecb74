"""Built-in functions against PyTorch, NumPy and C's: vectors, tails, special values."""

from __future__ import annotations

import functools
import math
import re
import zlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import emulated
import numpy as np
import pytest
import scipy.special
import torch
from last_places import assert_within_ulps

import tensor_comprehensions as tc

INF, NAN = math.inf, math.nan
SPECIAL = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 0.5, -0.5, 2.5, -2.5, 1e-6, 30.0, -30.0]


def elementwise(function: Callable) -> Callable:
    """A function of Python's floats, NaN where it raises."""

    def call(*values: float) -> float:
        try:
            return function(*values)
        except ValueError:
            return NAN
        except OverflowError:
            return INF

    return lambda *tensors: torch.tensor(
        [call(*values) for values in zip(*(t.tolist() for t in tensors), strict=True)],
        dtype=torch.float64,
    )


def logb(x: float) -> float:
    if x == 0:
        return -INF
    return abs(x) if math.isinf(x) else x if math.isnan(x) else float(math.frexp(x)[1] - 1)


def integer(function: Callable) -> Callable:
    """Of functions that give int64, over what has a value there."""
    return lambda x: function(x.double()).to(torch.int64)


def ilogb(x: torch.Tensor) -> torch.Tensor:
    limits = {0.0: -(2**31), INF: 2**31 - 1}
    return torch.tensor(
        [
            -(2**31) if math.isnan(v) else limits.get(abs(v), math.frexp(v)[1] - 1)
            for v in x.tolist()
        ],
        dtype=torch.int32,
    )


def scipy_function(name: str) -> Callable:
    function = getattr(scipy.special, name)
    return lambda *x: torch.from_numpy(np.asarray(function(*(a.numpy() for a in x))))


def fused(x: float, y: float, z: float) -> float:
    """Rounded once."""
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        return x * y + z
    return float(Fraction(x) * Fraction(y) + Fraction(z)) or x * y + z


def of_quarters(x: torch.Tensor, ahead: int) -> torch.Tensor:
    """The sine of x half turns, or the cosine where it is a quarter ahead: what is left of the
    nearest quarter is exact, and small where the result is."""
    quarters = torch.round(2 * x)
    rest = (x - quarters / 2) * math.pi
    which = (quarters.long() + ahead) % 4
    return torch.where(which % 2 == 0, rest.sin(), rest.cos()) * torch.where(which < 2, 1.0, -1.0)


def norm(*tensors: torch.Tensor) -> torch.Tensor:
    return functools.reduce(torch.hypot, tensors)


FROM_TORCH = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "rsqrt",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]
UNARY: dict[str, Callable] = {
    **{name: getattr(torch, name) for name in FROM_TORCH},
    "abs": torch.abs,
    "fabs": torch.abs,
    "cbrt": lambda x: torch.from_numpy(np.cbrt(x.numpy())),
    "exp10": lambda x: torch.pow(torch.tensor(10.0, dtype=x.dtype), x),
    "isinf": torch.isinf,
    "isnan": torch.isnan,
    "j0": scipy_function("j0"),
    "j1": scipy_function("j1"),
    "logb": elementwise(logb),
    "rint": torch.round,
    "round": lambda x: torch.copysign((x.abs() + 0.5).floor(), x),
    "tgamma": elementwise(math.gamma),
    "y0": scipy_function("y0"),
    "y1": scipy_function("y1"),
    "cospi": lambda x: of_quarters(x, 1),
    "sinpi": lambda x: of_quarters(x, 0),
    "normcdf": scipy_function("ndtr"),
    "rcbrt": lambda x: 1 / torch.from_numpy(np.cbrt(x.numpy())),
    "nearbyint": torch.round,
    "saturate": lambda x: x.nan_to_num(0).clamp(0, 1),
    # SciPy gives NaN at infinities.
    "cyl_bessel_i0": lambda x: torch.where(x.isinf(), x.abs(), scipy_function("i0")(x)),
    "cyl_bessel_i1": lambda x: torch.where(x.isinf() | (x == 0), x, scipy_function("i1")(x)),
    "erfcinv": scipy_function("erfcinv"),
    "erfcx": scipy_function("erfcx"),
    "erfinv": lambda x: torch.where(x == 0, x, scipy_function("erfinv")(x)),
    "normcdfinv": scipy_function("ndtri"),
    "isfinite": torch.isfinite,
    "signbit": torch.signbit,
    "ilogb": ilogb,
    "lrint": integer(torch.round),
    "llrint": integer(torch.round),
    "lround": integer(lambda x: torch.copysign((x.abs() + 0.5).floor(), x)),
    "llround": integer(lambda x: torch.copysign((x.abs() + 0.5).floor(), x)),
}
BINARY: dict[str, Callable] = {
    **{
        name: getattr(torch, name)
        for name in ("atan2", "copysign", "fmax", "fmin", "fmod", "hypot", "nextafter", "pow")
    },
    "fdim": lambda x, y: torch.where(
        torch.isnan(x) | torch.isnan(y), x + y, torch.where(x > y, x - y, torch.zeros_like(x))
    ),
    "fdivide": torch.div,
    "remainder": elementwise(math.remainder),
    "rhypot": lambda x, y: 1 / torch.hypot(x, y),
}
MORE: dict[str, tuple[int, Callable]] = {
    "fma": (3, elementwise(fused)),
    "norm3d": (3, norm),
    "norm4d": (4, norm),
    "rnorm3d": (3, lambda *x: 1 / norm(*x)),
    "rnorm4d": (4, lambda *x: 1 / norm(*x)),
}
# The first or second argument is an integer.
WITH_INTEGERS: dict[str, tuple[str, Callable]] = {
    "jn": ("n, x", scipy_function("jn")),
    "yn": ("n, x", scipy_function("yn")),
    "ldexp": ("x, n", torch.ldexp),
    "scalbn": ("x, n", torch.ldexp),
    "scalbln": ("x, n", torch.ldexp),
}
FUNCTIONS = {
    **{name: (1, f) for name, f in UNARY.items()},
    **{name: (2, f) for name, f in BINARY.items()},
    **MORE,
}
# Units of the last place: of float, whose references are of double, and of double, whose references
# are off by as much themselves.
ULPS = {"float": 2, "double": 4}
# What is close to a zero of the function, or has the rounding of an argument times its square.
MORE_ULPS = {
    "float": {"j0": 50, "y0": 10, "y1": 100, "normcdf": 20},
    "double": {
        "cyl_bessel_i1": 8,
        "j0": 50,
        "j1": 50,
        "y0": 50,
        "y1": 50,
        "normcdf": 900,
        "erfcx": 12,
    },
}
# C leaves open which zero of two is the larger one; where a function crosses 0 at another number
# than 0, the zero's sign says nothing.
ANY_ZERO = {"fmax", "fmin", "erfcinv", "normcdfinv"}
# At infinities PyTorch's Bessel functions give NaN, C's their limits; its gamma at the poles
# differs from Python's.
FINITE_ONLY = {"j0", "j1", "y0", "y1", "tgamma", "lgamma", "cospi", "sinpi"}
FINITE_ONLY |= {"lrint", "llrint", "lround", "llround"}
EXACT = {"nextafter", "isnan", "isinf", "isfinite", "signbit", "saturate", "nearbyint", "ilogb"}
EXACT |= {"lrint", "llrint", "lround", "llround"}
TYPES = {"float": torch.float32, "double": torch.float64}


def arguments(name: str, count: int, dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    result = []
    for k in range(count):
        x = torch.randn(83, generator=generator, dtype=torch.float64) * 2
        if name in FINITE_ONLY:
            x = x.abs() + 0.1
        else:
            special = torch.tensor(SPECIAL, dtype=torch.float64)
            x[: len(SPECIAL)] = special.roll(k)
            if k:
                x[40 : 40 + len(SPECIAL)] = special.flip(0).roll(k)
        result.append(x.to(dtype))
    return result


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_builtin(name: str, type_: str) -> None:
    count, reference = FUNCTIONS[name]
    inputs = arguments(name, count, TYPES[type_])
    names = "ABCD"[:count]
    parameters = ", ".join(f"{type_}(N) {n}" for n in names)
    text = f"""def f({parameters}) -> (O) {{
      O(i) = {name}({", ".join(f"{n}(i)" for n in names)})
    }}"""
    actual = tc.define(text, namespace=f"tc_builtins_{name}_{type_}").f(*inputs)
    exact = name in EXACT
    wanted = reference(*(x if exact else x.double() for x in inputs))
    if exact:
        assert actual.dtype == wanted.dtype
        assert torch.equal(
            actual.nan_to_num(7) if actual.is_floating_point() else actual,
            wanted.nan_to_num(7) if wanted.is_floating_point() else wanted,
        )
        return
    if name in ANY_ZERO:
        actual, wanted = actual + 0.0, wanted + 0.0
    assert_within_ulps(actual, wanted, MORE_ULPS[type_].get(name, ULPS[type_]), finite=10)


@pytest.mark.parametrize("type_", ["half", "bfloat16"])
@pytest.mark.parametrize("form", ["O(i) = {}", "O(i) +=! {} * C(k)"])
def test_the_next_number_of_a_narrow_type(type_: str, form: str) -> None:
    """A step of a float would be lost when it is rounded to the type."""
    dtype = {"half": torch.float16, "bfloat16": torch.bfloat16}[type_]
    smallest = torch.finfo(dtype).smallest_normal
    values = torch.tensor(
        [*SPECIAL, 1, -1, 2, 0.1, -3.75, smallest, smallest / 2, torch.finfo(dtype).max]
    ).to(dtype)
    a, b = (x.flatten() for x in torch.meshgrid(values, values, indexing="ij"))
    text = f"""def f({type_}(N) A, {type_}(N) B, {type_}(K) C) -> (O) {{
      {form.format("nextafter(A(i), B(i))")}
    }}"""
    actual = tc.define(text, namespace="tc_builtins_next").f(a, b, torch.ones(1, dtype=dtype))
    if dtype == torch.float16:
        with np.errstate(over="ignore"):
            wanted = torch.from_numpy(np.nextafter(a.numpy(), b.numpy()))
    else:
        # As floats, 2^16 of them apart; the smallest bfloat16 is the 2^16th.
        single = torch.nextafter(a.float(), b.float())
        moved = (a.view(torch.int16) + torch.where(single.abs() > a.float().abs(), 1, -1)).to(
            torch.int16
        )
        from_zero = torch.copysign(torch.tensor(2.0**-133), b.float()).to(dtype)
        wanted = torch.where(a == 0, from_zero, moved.view(dtype))
        wanted = torch.where(a == b, b, torch.where(a.isnan() | b.isnan(), torch.nan, wanted))
    on_gpu, inputs = torch.empty_like(actual), (a, b, torch.ones(1, dtype=dtype))
    emulated.run(tc.compile(text, "f", None, *inputs, target="cuda:sm_90"), inputs, (on_gpu,))
    for made in (actual, on_gpu):
        assert torch.equal(made.isnan(), wanted.isnan())
        same = made.nan_to_num(7) == wanted.nan_to_num(7)
        if dtype == torch.bfloat16 and "+=" in form:
            # A sum is rounded, and may be 0 then.
            same |= (made == 0) & (wanted.abs() <= smallest)
        assert same.all()
    assert (actual != a).sum() > len(values) // 2


def with_integers(name: str, type_: str, n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    arguments = WITH_INTEGERS[name][0].replace("n", "n(i)").replace("x", "x(i)")
    kind = {torch.int32: "int32", torch.int64: "int64", torch.int8: "int8"}[n.dtype]
    text = f"def f({kind}(N) n, {type_}(N) x) -> (O) {{ O(i) = {name}({arguments}) }}"
    return tc.define(text, namespace=f"tc_builtins_{name}_{type_}_{kind}").f(n, x)


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", ["ldexp", "scalbn", "scalbln"])
def test_scaling_by_powers(name: str, type_: str) -> None:
    """Exact, and rounded once where the result is below the normal numbers."""
    dtype = TYPES[type_]
    x = torch.cat([torch.randn(40, dtype=dtype), torch.tensor(SPECIAL, dtype=dtype)])
    info = torch.finfo(dtype)
    x = torch.cat([x, torch.tensor([info.max, info.tiny, info.tiny / 8], dtype=dtype)])
    for n in [*range(-160, 160, 7), -1074, -1100, -2200, 1024, 2100, 2**31 - 1, -(2**31)]:
        with np.errstate(over="ignore"):
            wanted = torch.tensor(np.ldexp(x.numpy(), n))
        actual = with_integers(name, type_, torch.full(x.shape, n, dtype=torch.int32), x)
        assert torch.equal(actual.nan_to_num(7), wanted.nan_to_num(7)), n
        assert torch.equal(actual.signbit() & ~x.isnan(), wanted.signbit() & ~x.isnan())


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", ["jn", "yn"])
def test_bessel_functions_of_an_order(name: str, type_: str) -> None:
    n = torch.arange(60, dtype=torch.int64) % 7
    x = torch.rand(60, dtype=torch.float64).to(TYPES[type_]) * 20 + 0.1
    actual = with_integers(name, type_, n, x)
    wanted = WITH_INTEGERS[name][1](n, x.double())
    assert_within_ulps(actual, wanted, 2000)  # some are close to zeros of theirs


@pytest.mark.parametrize("type_", ["half", "bfloat16"])
def test_integers_of_narrow_types(type_: str) -> None:
    dtype = {"half": torch.float16, "bfloat16": torch.bfloat16}[type_]
    x = torch.cat([torch.randn(40), torch.tensor(SPECIAL)]).to(dtype)
    n = torch.randint(-30, 15, x.shape, dtype=torch.int8)
    wanted = torch.ldexp(x.double(), n.double()).to(dtype)
    assert torch.equal(with_integers("ldexp", type_, n, x).nan_to_num(7), wanted.nan_to_num(7))
    text = f"""def f({type_}(N) A) -> (E, F, S) {{
      E(i) = ilogb(A(i))  F(i) = isfinite(A(i))  S(i) = signbit(A(i))
    }}"""
    e, f, s = tc.define(text, namespace=f"tc_builtins_integers_{type_}").f(x)
    assert torch.equal(e, ilogb(x))
    assert torch.equal(f, x.isfinite())
    assert torch.equal(s, x.signbit())


# Functions over the parts of their domains where their values are far apart.
WIDE = {
    "cyl_bessel_i0": [(-700, 700), (-9, 9)],
    "cyl_bessel_i1": [(-700, 700), (-9, 9), (-1e-5, 1e-5)],
    "erfcinv": [(0, 2), (0, 1e-10), (0, 1e-300), (0.999999, 1.000001)],
    "erfcx": [(-26, 30), (20, 1e4), (-1, 1)],
    "erfinv": [(-1, 1), (-1e-8, 1e-8), (1 - 1e-13, 1)],
    "normcdfinv": [(0, 1), (0, 1e-200), (0.4999, 0.5001)],
}


@pytest.mark.parametrize("name", WIDE)
def test_digits_of_special_functions(name: str) -> None:
    text = "def f(double(N) A, float(N) B) -> (O, P) { O(i) = F(A(i))  P(i) = F(B(i)) }"
    f = tc.define(text.replace("F", name), namespace=f"tc_builtins_digits_{name}").f
    for low, high in WIDE[name]:
        x = torch.rand(1001, dtype=torch.float64) * (high - low) + low
        wide, narrow = f(x, x.float())
        # The reference itself is off by some 1e-13 where it squares large arguments.
        torch.testing.assert_close(wide, UNARY[name](x), rtol=2e-13, atol=0)
        wanted = UNARY[name](x.float().double()).float()
        torch.testing.assert_close(narrow, wanted, rtol=3e-7, atol=0)


def test_functions_outside_their_domains() -> None:
    text = """def f(double(N) A) -> (P, Q, R, X, I, K) {
      P(i) = erfinv(A(i))  Q(i) = erfcinv(A(i))  R(i) = normcdfinv(A(i))
      X(i) = erfcx(A(i))  I(i) = cyl_bessel_i0(A(i))  K(i) = cyl_bessel_i1(A(i))
    }"""
    x = torch.tensor([0.0, -0.0, 1, -1, 2, -2, 1.5, INF, -INF, NAN], dtype=torch.float64)
    names = ("erfinv", "erfcinv", "normcdfinv", "erfcx", "cyl_bessel_i0", "cyl_bessel_i1")
    actual = tc.define(text, namespace="tc_builtins_domains").f(x)
    for name, values in zip(names, actual, strict=True):
        torch.testing.assert_close(values, UNARY[name](x), rtol=1e-14, atol=0, equal_nan=True)


@pytest.mark.parametrize("type_", ["half", "bfloat16"])
@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sqrt", "rsqrt", "sin", "erf", "fabs"])
def test_builtins_of_narrow_types(name: str, type_: str) -> None:
    dtype = {"half": torch.float16, "bfloat16": torch.bfloat16}[type_]
    x = arguments(name, 1, torch.float32)[0].to(dtype)
    text = f"def f({type_}(N) A) -> (O) {{ O(i) = {name}(A(i)) }}"
    actual = tc.define(text, namespace=f"tc_builtins_{name}_{type_}").f(x)
    assert_within_ulps(actual, FUNCTIONS[name][1](x.double()), 1.01)


def test_exp_and_log_over_the_whole_range() -> None:
    text = """def f(float(N) A) -> (P, Q, R) {
      P(i) = exp(A(i))  Q(i) = log(A(i))  R(i) = tanh(A(i))
    }"""
    x = torch.cat([torch.linspace(-110, 110, 4001), torch.tensor([88.7, 88.8, -87.3, 1e38, -1e38])])
    results = tc.define(text, namespace="tc_builtins_range").f(x)
    for result, function in zip(results, (torch.exp, torch.log, torch.tanh), strict=True):
        assert_within_ulps(result, function(x.double()), 2)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("fmax(0.5 * A(i), {})", lambda x, y: torch.fmax(0.5 * x, y)),
        ("max(0.5, A(i) * {})", lambda x, y: (x * y).clamp(min=0.5)),
        ("log(2 + {})", lambda x, y: torch.log(2 + y)),
        ("round(1.5 * {})", lambda x, y: torch.copysign((1.5 * y.abs() + 0.5).floor(), y)),
        ("tanh(2 * {})", lambda x, y: torch.tanh(2 * y)),
    ],
)
def test_functions_of_functions(name: str, reference: Callable) -> None:
    """Twelve deep: what each of them repeats three times would be there half a million times."""
    x = torch.linspace(-3, 3, 83).abs()
    expression, wanted = "A(i)", x
    for _ in range(12):
        expression, wanted = name.format(expression), reference(x, wanted)
    text = f"def f(float(N) A) -> (O) {{ O(i) = {expression} }}"
    actual = tc.define(text, namespace=f"tc_builtins_{name.partition('(')[0]}_deep").f(x)
    torch.testing.assert_close(actual, wanted, rtol=1e-5, atol=0)


def test_every_function_of_the_documentation_is_tested() -> None:
    page = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
    section = page.split("## Built-in functions")[1].split("\n## ")[0].split("Left out")[0]
    listed = set(re.findall(r"[a-z]\w*", " ".join(re.findall(r"`([^`]*)`", section))))
    others = {"fmaxf", "min", "max", "float", "f", "bool", "int32", "int64"}
    assert listed - others == set(FUNCTIONS) | set(WITH_INTEGERS)


@pytest.mark.parametrize("dtype", ["float", "double"])
def test_multiples_of_half_turns(dtype: str) -> None:
    text = f"def f({dtype}(N) X) -> (S, C) {{ S(i) = sinpi(X(i)) C(i) = cospi(X(i)) }}"
    x = torch.tensor([-7, -2.5, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5, 3, 2**23 + 1])
    quarters = (2 * x).long() % 4
    sine, cosine = torch.tensor([0, 1, 0, -1]), torch.tensor([1, 0, -1, 0])
    s, c = tc.define(text, namespace="tc_half_turns").f(x.to(TYPES[dtype]))
    assert torch.equal(s, sine[quarters].to(TYPES[dtype]))
    assert torch.equal(c, cosine[quarters].to(TYPES[dtype]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lengths_whose_squares_leave_the_type(dtype: torch.dtype) -> None:
    """And those of vectors with an infinite part, whatever the others are."""
    kind = "float" if dtype == torch.float32 else "double"
    large, inf = float(torch.finfo(dtype).max) / 4, float("inf")
    x = torch.tensor(
        [[large, 0, -large, 0], [0, 1 / large, 0, 0], [0, float("nan"), -inf, 2], [3, 0, 4, 0]],
        dtype=dtype,
    )
    found = []
    for name, count in (("norm3d", 3), ("norm4d", 4), ("rnorm3d", 3), ("rnorm4d", 4)):
        values = ", ".join(f"A(i, {k})" for k in range(count))
        text = f"def lengths({kind}(N, M) A) -> (O) {{ O(i) = {name}({values}) }}"
        found.append(tc.compile(text, "lengths", None, x)(x))
    wanted = torch.tensor([large * 2**0.5, 1 / large, inf, 5], dtype=dtype)
    for lengths in found[:2]:
        torch.testing.assert_close(lengths, wanted)
    for reciprocals in found[2:]:
        torch.testing.assert_close(reciprocals, 1 / wanted)
