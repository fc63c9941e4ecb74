"""Functions of float that vectors compute themselves, within 2 units in the last place."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from fenced import fenced
from last_places import assert_within_ulps

import tensor_comprehensions as tc

INF, NAN = float("inf"), float("nan")
SPECIAL = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1e-6, 30.0, -30.0]
FLOAT_ONLY = ["log10", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"]
#: NumPy's names of those that it calls otherwise.
NUMPY = {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh"}
NUMPY |= {"atan": "arctan", "atanh": "arctanh"}
DOUBLE = [*NUMPY, "cbrt", "cos", "cosh", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2"]
DOUBLE += ["sin", "sinh", "tan", "tanh"]
#: Beyond 2 units in the last place.
LESS_EXACT_DOUBLE = {"acosh", "asinh", "atanh", "cosh", "sinh", "tan", "tanh"}
MAGNITUDES_OF_DOUBLES = [s * torch.logspace(-320, 2, 1001, dtype=torch.double) for s in (1, -1)]
EXTREME = [88.7, 88.8, -87.3, 1e-45, -1e-45, 1e-40, 1e5, -1e5, 16777216.0, -16777217.0, 8388607.5]


@pytest.mark.parametrize(
    "name",
    ["exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tanh", "erf", "erfc", "cbrt"],
)
def test_functions_of_one_number(name: str) -> None:
    magnitudes = torch.logspace(-44, 38, 100_001)
    x = torch.cat([torch.linspace(-110, 110, 400_001), torch.linspace(-1, 1, 400_001)])
    x = torch.cat([x, magnitudes, -magnitudes, torch.tensor(SPECIAL + EXTREME)])
    text = f"def f(float(N) A) -> (O) {{ O(i) = {name}(A(i)) }}"
    actual = tc.define(text, namespace=f"tc_vector_functions_{name}").f(x)
    # PyTorch has no cube root.
    wanted = torch.from_numpy(np.cbrt(x.double().numpy())) if name == "cbrt" else None
    exact = getattr(torch, name)(x.double()) if wanted is None else wanted
    assert_within_ulps(actual, exact, 2, finite=400_000)


def all_of(names: list[str], element: str = "float") -> str:
    results = " ".join(f"O_{name}(i) = {name}(A(i))" for name in names)
    return f"def f({element}(N) A) -> ({', '.join(f'O_{name}' for name in names)}) {{ {results} }}"


def test_functions_of_one_float() -> None:
    magnitudes = torch.logspace(-44, 38, 20_001)
    x = torch.cat([torch.linspace(-110, 110, 20_001), torch.linspace(-1, 1, 40_001)])
    near_one = 1 + torch.arange(-1000, 1000) * 2.0**-24
    x = torch.cat([x, magnitudes, -magnitudes, near_one, torch.tensor(SPECIAL + EXTREME)])
    names = [*FLOAT_ONLY, "tan"]
    results = tc.define(all_of(names), namespace="tc_vector_functions_float").f(x)
    for name, actual in zip(names, results, strict=True):
        assert_within_ulps(actual, getattr(torch, name)(x.double()), 2, finite=20_000)


def pairs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(6)
    bits = torch.randint(-(2**31), 2**31, (2, 50_000), generator=generator).to(torch.int32)
    x, y = torch.randn(2, 50_000, generator=generator)
    special = torch.tensor(SPECIAL + EXTREME + [3.4e38, -3.4e38, 1.2e-38])
    x_special, y_special = torch.meshgrid(special, special, indexing="ij")
    some, others = bits.view(torch.float32)
    return (
        torch.cat([some, x, x, x_special.reshape(-1)]),
        torch.cat([others, y, x * (1 + y / 100), y_special.reshape(-1)]),
    )


@pytest.mark.parametrize("name", ["atan2", "hypot"])
def test_functions_of_two_numbers(name: str) -> None:
    x, y = pairs()
    text = f"def f(float(N) X, float(N) Y) -> (O) {{ O(i) = {name}(X(i), Y(i)) }}"
    actual = tc.define(text, namespace=f"tc_vector_functions_{name}").f(x, y)
    with np.errstate(all="ignore"):
        function = np.hypot if name == "hypot" else np.arctan2
        exact = torch.from_numpy(function(x.double().numpy(), y.double().numpy()))
    assert_within_ulps(actual, exact, 2, finite=100_000)
    axes = ((x == 0) | (x.abs() == 1) | x.isinf()) & ((y == 0) | (y.abs() == 1) | y.isinf())
    assert axes.sum() >= 36
    assert torch.equal(actual[axes], exact[axes].float())


@pytest.mark.parametrize("name", ["fmod", "remainder"])
def test_remainders_are_exact(name: str) -> None:
    generator = torch.Generator().manual_seed(7)
    some, others = pairs()
    quotients = torch.randint(1, 2**28, (20_000,), generator=generator) / 2
    divisors = torch.randn(20_000, generator=generator)
    # Beside whole quotients and halves; exactly those; and, in vectors of their own, long ones.
    near = (quotients.double() * divisors).float()
    tens = torch.randint(1, 2**10, (2, 20_000), generator=generator).float()
    x = torch.cat([near, torch.nextafter(near, torch.tensor(INF)), tens[0] * tens[1] / 2, some])
    y = torch.cat([divisors, divisors, tens[1], others])
    text = f"def f(float(N) X, float(N) Y) -> (O) {{ O(i) = {name}(X(i), Y(i)) }}"
    actual = tc.define(text, namespace=f"tc_vector_functions_{name}").f(x, y)
    if name == "fmod":
        with np.errstate(all="ignore"):
            exact = torch.from_numpy(np.fmod(x.numpy(), y.numpy()))
    else:
        defined = x.isfinite() & (y != 0) & ~y.isnan()
        numbers = zip(x[defined].tolist(), y[defined].tolist(), strict=True)
        exact = torch.full_like(x, NAN)
        exact[defined] = torch.tensor([math.remainder(*pair) for pair in numbers])
    numbers = ~exact.isnan()
    assert torch.equal(actual.isnan(), ~numbers)
    assert torch.equal(actual[numbers].view(torch.int32), exact[numbers].view(torch.int32))


def test_the_rest_of_a_vector_is_computed_as_vectors_are() -> None:
    x = torch.linspace(0.001, 0.999, 1005)
    text = all_of(["log10", "asin", "cosh", "atanh"])
    function = tc.define(text, namespace="tc_vector_functions_rest").f
    for few, many in zip(function(x[-3:].clone()), function(x), strict=True):
        assert torch.equal(few, many[-3:])


def test_tails_of_the_complementary_error_function() -> None:
    x = torch.linspace(-7, 10.5, 200_001)
    text = "def f(float(N) A) -> (O) { O(i) = erfc(A(i)) }"
    actual = tc.define(text, namespace="tc_vector_functions_tails").f(x)
    assert_within_ulps(actual, torch.erfc(x.double()), 1, finite=200_001)
    assert actual[x < 9.1].min() > 0


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="nothing more exact than double")
@pytest.mark.parametrize("name", DOUBLE)
def test_functions_of_one_double(name: str) -> None:
    generator = torch.Generator().manual_seed(5)
    magnitudes = torch.logspace(-323, 308, 50_001, dtype=torch.double)
    x = torch.cat(
        [
            (torch.rand(200_000, generator=generator, dtype=torch.double) - 0.5) * 1600,
            torch.rand(200_000, generator=generator, dtype=torch.double) * 2 - 1,
            magnitudes,
            -magnitudes,
            torch.tensor(
                [*SPECIAL, 709.7, 709.8, -708.4, -745.2, 710.4, -710.4, 710.5, 5e-324, 1e-310],
                dtype=torch.double,
            ),
        ]
    )
    text = f"def f(double(N) A) -> (O) {{ O(i) = {name}(A(i)) }}"
    actual = tc.define(text, namespace=f"tc_vector_functions_double_{name}").f(x).numpy()
    with np.errstate(all="ignore"):
        exact = getattr(np, NUMPY.get(name, name))(x.numpy().astype(np.longdouble))
        wanted = exact.astype(np.double)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(wanted))
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.isinf(actual[numbers]), np.isinf(wanted[numbers]))
    np.testing.assert_array_equal(np.signbit(actual[numbers]), np.signbit(wanted[numbers]))
    finite = np.isfinite(wanted)
    assert finite.sum() > (80_000 if name == "acosh" else 200_000)
    errors = np.abs(actual[finite] - exact[finite]) / np.spacing(np.abs(wanted[finite]))
    most = 3 if name in LESS_EXACT_DOUBLE else 2
    assert errors.max() < most, (x[finite][errors.argmax()], errors.max())


def test_powers_of_two_and_ten_are_exact_in_double() -> None:
    text = "def f(double(N) A, double(N) B, double(N) C) -> (O, P, Q) { "
    text += "O(i) = exp2(A(i)) P(i) = log2(B(i)) Q(i) = log10(C(i)) }"
    whole = np.arange(-1074.0, 1024)
    tens = np.array([float(f"1e{k}") for k in np.arange(len(whole)) % 300])
    given = [torch.from_numpy(values) for values in (whole, np.ldexp(1.0, whole.astype(int)), tens)]
    results = tc.define(text, namespace="tc_vector_functions_exact_doubles").f(*given)
    wanted = [given[1], given[0], torch.from_numpy(np.round(np.log10(tens)))]
    for actual, exact in zip(results, wanted, strict=True):
        assert torch.equal(actual, exact)


def test_the_error_function_of_doubles() -> None:
    x = torch.cat([torch.linspace(-6.5, 6.5, 4001, dtype=torch.double), *MAGNITUDES_OF_DOUBLES])
    text = "def f(double(N) A) -> (O) { O(i) = erf(A(i)) }"
    actual = tc.define(text, namespace="tc_vector_functions_double_erf").f(x)
    with mpmath.workdps(30):
        exact = [mpmath.erf(value) for value in x.tolist()]
        errors = [
            abs(float(mpmath.mpf(a) - e)) / np.spacing(abs(float(e)))
            for a, e in zip(actual.tolist(), exact, strict=True)
        ]
    assert max(errors) < 2.5, x[int(np.argmax(errors))]
    special = torch.tensor([0.0, -0.0, INF, -INF, NAN], dtype=torch.double)
    of_special = tc.define(text, namespace="tc_vector_functions_double_erf").f(special)
    assert of_special.tolist()[:4] == [0, 0, 1, -1] and of_special[4].isnan()
    assert of_special[:2].signbit().tolist() == [False, True]


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="nothing more exact than double")
def test_angles_of_doubles() -> None:
    x, y = (pair.double() * (1 + 2.0**-40) for pair in pairs())
    text = "def f(double(N) Y, double(N) X) -> (O) { O(i) = atan2(Y(i), X(i)) }"
    actual = tc.define(text, namespace="tc_vector_functions_double_atan2").f(y, x).numpy()
    exact = np.arctan2(y.numpy().astype(np.longdouble), x.numpy().astype(np.longdouble))
    numbers = ~np.isnan(exact)
    np.testing.assert_array_equal(np.isnan(actual), ~numbers)
    np.testing.assert_array_equal(np.signbit(actual[numbers]), np.signbit(exact[numbers]))
    spacing = np.spacing(np.abs(exact[numbers].astype(np.double)))
    assert (np.abs(actual[numbers] - exact[numbers]) / spacing).max() < 2


@pytest.mark.filterwarnings("ignore:.*encountered in power")
def test_powers() -> None:
    generator = torch.Generator().manual_seed(3)
    size = 200_000
    bits = torch.randint(-(2**31), 2**31, (2 * size,), generator=generator).to(torch.int32)
    any_x, any_y = bits.view(torch.float32).split(size)
    positive = torch.rand(size, generator=generator) * 4
    exponents = torch.randn(size, generator=generator) * 30
    whole = torch.randint(-20, 21, (size,), generator=generator).float()
    bases, of_special = torch.meshgrid(
        torch.tensor(SPECIAL + EXTREME), torch.tensor(SPECIAL + EXTREME), indexing="ij"
    )
    x = torch.cat([any_x, any_x, positive, -positive, bases.reshape(-1)])
    y = torch.cat([any_y, whole, exponents, whole, of_special.reshape(-1)])
    text = "def f(float(N) X, float(N) Y) -> (O) { O(i) = pow(X(i), Y(i)) }"
    actual = tc.define(text, namespace="tc_vector_functions_pow").f(x, y)
    exact = torch.from_numpy(np.power(x.double().numpy(), y.double().numpy()))
    assert_within_ulps(actual, exact, 2, finite=300_000)


EXPONENTS = ["2", "3.0", "-1", "0.5", "-0.5", "1.5", "-2", "-2.5", "0", "1"]
EXPONENTS += ["4", "-3", "-4.0", "5", "-6", "7", "-7", "8", "-12", "15", "16", "-16", "17", "-17"]


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_powers_with_a_literal_exponent(exponent: str) -> None:
    generator = torch.Generator().manual_seed(4)
    bits = torch.randint(-(2**31), 2**31, (100_000,), generator=generator).to(torch.int32)
    x = torch.cat(
        [torch.linspace(-50, 50, 10_001), torch.tensor(SPECIAL + EXTREME), bits.view(torch.float32)]
    )
    name = exponent.replace("-", "minus_").replace(".", "_")
    text = f"def f(float(N) X) -> (O) {{ O(i) = pow(X(i), {exponent}) }}"
    actual = tc.define(text, namespace=f"tc_vector_functions_pow_{name}").f(x)
    with np.errstate(all="ignore"):
        # NumPy takes the square root for one exponent of 0.5.
        exponents = np.full(len(x), float(exponent))
        exact = torch.from_numpy(np.power(x.double().numpy(), exponents))
    assert_within_ulps(actual, exact, 2, finite=5000)


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_powers_of_doubles_with_a_literal_exponent(exponent: str) -> None:
    x = torch.cat([torch.linspace(-50, 50, 10_001), torch.tensor(SPECIAL)]).double()
    x = torch.cat([x, *MAGNITUDES_OF_DOUBLES])
    name = exponent.replace("-", "minus_").replace(".", "_")
    text = f"def f(double(N) X) -> (O) {{ O(i) = pow(X(i), {exponent}) }}"
    actual = tc.define(text, namespace=f"tc_vector_functions_double_pow_{name}").f(x)
    with np.errstate(all="ignore"):
        exact = torch.from_numpy(np.power(x.numpy(), np.full(len(x), float(exponent))))
    torch.testing.assert_close(actual, exact, rtol=1e-15, atol=0, equal_nan=True)
    assert torch.equal(actual.signbit() | actual.isnan(), exact.signbit() | exact.isnan())


@pytest.mark.filterwarnings("ignore:.*encountered in")
def test_powers_of_doubles() -> None:
    """Against x87's extended precision, also where a small base has a large exponent."""
    rng = np.random.default_rng(0)
    n = 20_000
    near_one = 1 + rng.uniform(-1, 1, n) * 10 ** rng.uniform(-15, -1, n)
    bases = [rng.uniform(0, 10, n), 10 ** rng.uniform(-320, 308, n), near_one]
    exponents = [rng.uniform(-20, 20, n), rng.uniform(-1, 1, n)]
    exponents.append(rng.choice([-1, 1], n) * 10 ** rng.uniform(0, 17, n))
    extreme = np.array(
        [*SPECIAL, 5e-324, -5e-324, 1e308, -1e308, 2.0**53, 2.0**53 + 2, 1 - 2.0**-53]
    )
    x, y = (grid.ravel() for grid in np.meshgrid(extreme, extreme))
    x, y = np.concatenate([*bases, x]), np.concatenate([*exponents, y])
    text = "def f(double(N) X, double(N) Y) -> (O) { O(i) = pow(X(i), Y(i)) }"
    f = tc.define(text, namespace="tc_vector_functions_double_powers").f
    actual = f(torch.from_numpy(x), torch.from_numpy(y)).numpy()
    exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    wanted = exact.astype(float)
    off = np.abs(actual - exact) / np.spacing(np.abs(wanted)).astype(np.longdouble)
    same = (actual == wanted) & (np.signbit(actual) == np.signbit(wanted))
    same |= np.isnan(actual) & np.isnan(wanted)
    assert (same | (off <= 2)).all(), (x[~(same | (off <= 2))], y[~(same | (off <= 2))])
    assert np.isfinite(wanted).sum() > 2 * n


def test_whole_powers_and_logarithms_of_two_are_exact() -> None:
    n = torch.arange(-149, 128).float()
    text = "def f(float(N) A) -> (P, Q) { P(i) = exp2(A(i))  Q(i) = log2(P(i)) }"
    powers, logarithms = tc.define(text, namespace="tc_vector_functions_whole").f(n)
    assert torch.equal(powers, torch.ldexp(torch.ones(277, dtype=torch.double), n).float())
    assert torch.equal(logarithms, n)


def test_logarithms_of_powers_of_ten_are_exact() -> None:
    n = torch.arange(11)
    text = "def f(float(N) A) -> (O) { O(i) = log10(A(i)) }"
    actual = tc.define(text, namespace="tc_vector_functions_ten").f((10.0 ** n.double()).float())
    assert torch.equal(actual, n.float())


def angles(*size: int) -> torch.Tensor:
    """With numbers among them for which only the C library's functions are exact enough."""
    x = torch.randn(*size, generator=torch.Generator().manual_seed(sum(size))) * 100
    x.view(-1)[::37] *= 1e10
    return x


def test_sines_of_far_angles_among_near_ones() -> None:
    x = angles(7, 1001)
    text = "def f(float(N,D) A) -> (S, C) { S(n,d) = sin(A(n,d))  C(n,d) = cos(A(n,d) + 1.0) }"
    sines, cosines = tc.define(text, namespace="tc_vector_functions_far").f(x)
    assert_within_ulps(sines, x.double().sin(), 2, finite=7000)
    assert_within_ulps(cosines, (x + 1).double().cos(), 2, finite=7000)


def test_sines_in_sums() -> None:
    x = angles(9, 1234)
    text = "def f(float(N,D) A) -> (S) { S(n) +=! sin(A(n,d)) * cos(2.0 * A(n,d)) }"
    sums = tc.define(text, namespace="tc_vector_functions_sums").f(x)
    terms = x.double().sin() * (2 * x).double().cos()
    assert ((sums.double() - terms.sum(1)).abs() < 1e-6 * terms.abs().sum(1)).all()


def test_sines_of_sines_and_of_values_used_twice() -> None:
    x = angles(3000)
    text = """def f(float(N) A) -> (O) {
        O(i) = sin(sin(A(i))) + tanh(cos(A(i))) * sin(pow(A(i), 2)) + A(i) / (2.0 + sin(A(i))) }"""
    actual = tc.define(text, namespace="tc_vector_functions_nested").f(x)
    y = x.double()
    exact = y.sin().sin() + y.cos().tanh() * (x * x).double().sin() + y / (2 + y.sin())
    torch.testing.assert_close(actual.double(), exact, rtol=1e-6, atol=1e-6)


def test_sines_under_conditions() -> None:
    x, few = angles(500), angles(40)
    text = """def f(float(N) A, float(M) B) -> (O) {
        O(i) = (i < M) ? sin(B(i)) : cos(A(i)) where i in 0:N }"""
    actual = tc.define(text, namespace="tc_vector_functions_conditions").f(x, few)
    exact = torch.cat([few.double().sin(), x[40:].double().cos()])
    assert_within_ulps(actual, exact, 2, finite=400)


@pytest.mark.parametrize("extent", [5, 10, 17, 30])
@pytest.mark.parametrize("function", ["sin", "cos", "tan"])
def test_ends_of_rows(function: str, extent: int) -> None:
    """Lanes behind the end of a row call nobody, wherever those before it lie."""
    text = f"def f(float(N, M) A) -> (O) {{ O(i, j) = {function}(A(i, j)) }}"
    x = angles(40 * extent).view(40, extent)
    x[1:20] = x[1:20].clamp(-1000, 1000)
    executor = tc.compile(text, "f", None, fenced(x).view(40, extent)[:, ::1])
    assert_within_ulps(executor(x), getattr(torch, function)(x.double()), 2, finite=30 * extent)
    rows = tc.compile(text.replace("A(i, j))", "A(j, i))"), "f", None, x)
    assert_within_ulps(rows(x), getattr(torch, function)(x.t().double()), 2, finite=30 * extent)


def test_ends_of_rows_are_vectors() -> None:
    text = """def f(float(N) A, float(M) w) -> (O) { O(i, j) = sin(A(i) * w(j)) }"""
    executor = tc.compile(text, "f", None, torch.randn(100), torch.randn(10))
    assert "sin_f32" in executor.text("stmt")
    assert "(float32)sin_f32" not in executor.text("stmt")


def test_a_choice_of_functions() -> None:
    """Of what both sides read, in vectors along another loop than the one with two values; their
    common factor has a name around them."""
    text = """def f(float(N) A) -> (O, S) {
        O(i, k, s) = s == 0 ? sin(A(i) * pow(2.0, float(k))) : cos(A(i) * pow(2.0, float(k)))
            where k in 0:6, s in 0:2
        S(i) +=! s == 0 ? O(i, k, s) * cos(A(i) * pow(2.0, float(k))) * pow(2.0, float(k))
            : O(i, k, s) * sin(A(i) * pow(2.0, float(k))) * pow(2.0, float(k))
    }"""
    x = torch.randn(1000)
    executor = tc.compile(text, "f", None, x)
    found, sums = executor(x)
    powers = 2.0 ** torch.arange(6)
    y = x.double()[:, None] * powers
    assert_within_ulps(found, torch.stack([y.sin(), y.cos()], 2), 2, finite=12000)
    wanted = (2 * powers * y.sin() * y.cos()).sum(1)
    torch.testing.assert_close(sums.double(), wanted, rtol=1e-4, atol=1e-4)
    assert re.search(r"O\(i, k, s\)(.*\n)*?  form .*vectors along i\n", executor.explain())
    assert "(float32)sin_f32" not in executor.text("stmt")


@pytest.mark.parametrize("name", ["half", "bfloat16"])
def test_functions_of_narrow_floats(name: str) -> None:
    dtype = getattr(torch, name)
    x = (torch.randn(1000, generator=torch.Generator().manual_seed(1)) * 100).to(dtype)
    names = ["sin", "tan", "atan", "asinh"]
    results = tc.define(all_of(names, name), namespace=f"tc_vector_functions_{name}").f(x)
    for function, actual in zip(names, results, strict=True):
        assert_within_ulps(actual, getattr(torch, function)(x.double()), 1.01, finite=1000)


@pytest.mark.parametrize("columns", [2, 3, 40])
@pytest.mark.parametrize("name", ["half", "bfloat16", "float"])
@pytest.mark.parametrize("function", ["sin", "cos"])
def test_sines_of_values_that_not_all_lanes_read(function: str, name: str, columns: int) -> None:
    dtype = getattr(torch, name)
    x, y = torch.tensor([-0.75], dtype=dtype), torch.linspace(-2, 2, 5).to(dtype)
    text = f"""def f({name}(N) A, {name}(M) B) -> (O) {{
        O(i, j) = min({function}((j >= N) ? 1 : A(j)), B(i)) where j in 0:{columns} }}"""
    actual = tc.define(text, namespace=f"tc_vector_functions_{function}_{name}_{columns}").f(x, y)
    lanes = torch.cat([x, torch.ones(columns - 1, dtype=dtype)])
    expected = torch.minimum(getattr(torch, function)(lanes)[None], y[:, None])
    torch.testing.assert_close(actual, expected)


def test_rotary_embedding() -> None:
    """Angles that are computed from indices, and both functions of each."""
    text = """def rotate(float(T,H,D,2) X, float(D) F) -> (O) {
        O(t,h,d,c) = c == 0 ? X(t,h,d,0) * cos(t * F(d)) - X(t,h,d,1) * sin(t * F(d))
                            : X(t,h,d,0) * sin(t * F(d)) + X(t,h,d,1) * cos(t * F(d))
            where t in 0:T, h in 0:H, d in 0:D, c in 0:2 }"""
    x = torch.randn(50, 3, 32, 2, generator=torch.Generator().manual_seed(2))
    frequencies = 10000.0 ** -(torch.arange(32) / 32)
    actual = tc.define(text, namespace="tc_vector_functions_rotary").rotate(x, frequencies)
    phases = torch.polar(
        torch.ones(50, 1, 32), (torch.arange(50.0)[:, None] * frequencies)[:, None]
    )
    expected = torch.view_as_real(torch.view_as_complex(x) * phases)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def test_functions_called_twice_stay_behind_their_conditions() -> None:
    """They have one name, in the branch: what they are called of lies outside its tensor."""
    text = """def f(float(M) A, int32(N) I) -> (S, D) {
      S(i) = I(i) < M ? exp(A(I(i))) / (1 + exp(A(I(i)))) : -1
      D(i) = cos(sin(A(i))) * cos(A(i)) + sin(A(i)) / (2 + cos(sin(A(i)))) where i in 0:20
    }"""
    torch.manual_seed(0)
    a = torch.randn(20)
    index = torch.randint(0, 20, (37,), dtype=torch.int32)
    index[::5] = 25
    found, rest = tc.define(text, namespace="tc_called_twice").f(fenced(a), index)
    inside = index < 20
    wanted = torch.where(inside, torch.sigmoid(a[index.long() * inside]), -1)
    torch.testing.assert_close(found, wanted)
    x = a.double()
    exact = x.sin().cos() * x.cos() + x.sin() / (2 + x.sin().cos())
    torch.testing.assert_close(rest, exact.float())


def test_functions_without_multiply_adds_that_round_once() -> None:
    """The multiple of pi / 2 that is taken off has to be exact: libm's sines run instead."""
    program = f"""
import sys; sys.path.insert(0, {str(Path(__file__).resolve().parents[1])!r})
import torch
import tensor_comprehensions as tc
from last_places import assert_within_ulps
x = torch.linspace(-110, 110, 100001)
for name in ("sin", "cos", "log10", "asin", "cosh"):
    text = f"def f(float(N) A) -> (O) {{{{ O(i) = {{name}}(A(i)) }}}}"
    assert_within_ulps(tc.compile(text, "f", None, x)(x), getattr(torch, name)(x.double()), 2)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TC_WITHOUT": "fma,avx512f,avx512vl"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
