"""Built-in functions against PyTorch, NumPy and C's: vectors, tails, special values."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

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


def norm(*tensors: torch.Tensor) -> torch.Tensor:
    return torch.stack(tensors).square().sum(0).sqrt()


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
    "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1,
    "logb": elementwise(logb),
    "rint": torch.round,
    "round": lambda x: torch.copysign((x.abs() + 0.5).floor(), x),
    "tgamma": elementwise(math.gamma),
    "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1,
    "cospi": lambda x: torch.cos(torch.remainder(x, 2) * math.pi),
    "sinpi": lambda x: torch.sin(torch.remainder(x, 2) * math.pi),
    "normcdf": torch.special.ndtr,
    "rcbrt": lambda x: 1 / torch.from_numpy(np.cbrt(x.numpy())),
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
    "fma": (3, lambda x, y, z: x * y + z),
    "norm3d": (3, norm),
    "norm4d": (4, norm),
    "rnorm3d": (3, lambda *x: 1 / norm(*x)),
    "rnorm4d": (4, lambda *x: 1 / norm(*x)),
}
FUNCTIONS = {
    **{name: (1, f) for name, f in UNARY.items()},
    **{name: (2, f) for name, f in BINARY.items()},
    **MORE,
}
# Series that PyTorch computes to fewer digits, or that have no value everywhere.
LOOSE = {"tgamma", "lgamma", "j0", "j1", "y0", "y1", "pow", "exp10"}
# At infinities PyTorch's Bessel functions give NaN, C's their limits; its gamma at the poles
# differs from Python's.
FINITE_ONLY = {"j0", "j1", "y0", "y1", "tgamma", "lgamma", "cospi", "sinpi"}
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
    exact = name in ("nextafter", "isnan", "isinf")
    wanted = reference(*(x if exact else x.double() for x in inputs))
    if exact:
        assert torch.equal(
            actual.nan_to_num(7) if actual.is_floating_point() else actual,
            wanted.nan_to_num(7) if wanted.is_floating_point() else wanted,
        )
        return
    if type_ == "float":
        relative = absolute = 1e-4 if name in LOOSE else 2e-5
    else:
        relative, absolute = (1e-5, 1e-6) if name in LOOSE else (1e-9, 1e-12)
    torch.testing.assert_close(
        actual.double(),
        wanted.to(TYPES[type_]).double(),
        rtol=relative,
        atol=absolute,
        equal_nan=True,
    )


@pytest.mark.parametrize("type_", ["half", "bfloat16"])
@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sqrt", "rsqrt", "sin", "erf", "fabs"])
def test_builtins_of_narrow_types(name: str, type_: str) -> None:
    dtype = {"half": torch.float16, "bfloat16": torch.bfloat16}[type_]
    x = arguments(name, 1, torch.float32)[0].to(dtype)
    text = f"def f({type_}(N) A) -> (O) {{ O(i) = {name}(A(i)) }}"
    actual = tc.define(text, namespace=f"tc_builtins_{name}_{type_}").f(x)
    wanted = FUNCTIONS[name][1](x.float()).to(dtype)
    torch.testing.assert_close(
        actual, wanted, rtol=torch.finfo(dtype).eps, atol=1e-6, equal_nan=True
    )


def test_exp_and_log_over_the_whole_range() -> None:
    text = """def f(float(N) A) -> (P, Q, R) {
      P(i) = exp(A(i))  Q(i) = log(A(i))  R(i) = tanh(A(i))
    }"""
    x = torch.cat([torch.linspace(-110, 110, 4001), torch.tensor([88.7, 88.8, -87.3, 1e38, -1e38])])
    exp, log, tanh = tc.define(text, namespace="tc_builtins_range").f(x)
    torch.testing.assert_close(exp, torch.exp(x), rtol=2e-6, atol=2e-38)
    torch.testing.assert_close(log, torch.log(x), rtol=2e-6, atol=2e-6, equal_nan=True)
    torch.testing.assert_close(tanh, torch.tanh(x), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", ["exp", "expm1", "log1p", "tanh", "erf"])
def test_functions_of_vectors_are_within_4_ulp(name: str) -> None:
    """What the compiler computes itself in float, wherever the result is a normal number."""
    magnitudes = torch.logspace(-37, 38, 100_001)
    x = torch.cat([torch.linspace(-110, 110, 400_001), torch.linspace(-1, 1, 400_001)])
    x = torch.cat([x, magnitudes, -magnitudes, torch.tensor([*SPECIAL, 88.7, 88.8, -87.3, 1e-45])])
    text = f"def f(float(N) A) -> (O) {{ O(i) = {name}(A(i)) }}"
    actual = tc.define(text, namespace=f"tc_builtins_ulp_{name}").f(x)
    exact = getattr(torch, name)(x.double())
    wanted = exact.float()
    assert torch.equal(actual.isnan(), wanted.isnan())
    assert torch.equal(actual.isinf(), wanted.isinf())
    # Zeros too: a function that is 0 at 0 keeps its sign.
    zeros = wanted == 0
    assert torch.equal(actual[zeros].signbit(), wanted[zeros].signbit())
    normal = wanted.isfinite() & (wanted.abs() > 2e-38)
    unit = torch.nextafter(wanted.abs(), torch.tensor(INF)).double() - wanted.abs().double()
    errors = ((actual.double() - exact).abs() / unit)[normal]
    assert errors.numel() > 400_000
    assert errors.max() < 4


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
    torch.testing.assert_close(actual, wanted, rtol=1e-5, atol=1e-5)


def test_every_function_of_the_documentation_is_tested() -> None:
    page = (Path(__file__).parents[1] / "docs" / "language.md").read_text()
    section = page.split("## Built-in functions")[1].split("\n## ")[0]
    listed = set(re.findall(r"[a-z]\w*", " ".join(re.findall(r"`([^`]*)`", section))))
    assert listed - {"fmaxf", "min", "max", "float", "f"} == set(FUNCTIONS)
