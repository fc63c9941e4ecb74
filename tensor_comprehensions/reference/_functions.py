"""The built-in functions, in double; who calls them rounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Builtin:
    arguments: int
    compute: Callable[..., np.ndarray]
    exact: bool = False  # a value of the arguments' type, whatever the arguments
    swings: float = math.inf  # how far the ends of an interval say what lies between


def _each(function: Callable[..., float]) -> Callable[..., np.ndarray]:
    """A function of Python's math, with IEEE's results where Python raises."""

    def safe(*arguments: float) -> float:
        try:
            return function(*arguments)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return np.vectorize(safe, otypes=[np.float64])


def _lgamma(x: float) -> float:
    if x == -math.inf or (x <= 0 and x == math.floor(x)):
        return math.inf
    value = math.lgamma(x)
    if abs(value) > 0.01:
        return value
    # Near its zeros, Python's has the error of terms that cancel. PyTorch requires SymPy, and with
    # it mpmath.
    import mpmath

    with mpmath.workprec(160):
        return float(mpmath.log(abs(mpmath.gamma(x))))


def _tgamma(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    try:
        return math.gamma(x)
    except OverflowError:  # below zero the results are tiny, so this is above
        return math.inf


def _bessel(name: str) -> Callable[[np.ndarray], np.ndarray]:
    def compute(x: np.ndarray) -> np.ndarray:
        # NumPy has no Bessel functions, and PyTorch's have seven digits near their zeros.
        try:
            from scipy import special

            value = getattr(special, name)(x)
        except ImportError:
            import torch

            kind = {"j": "bessel_j", "y": "bessel_y"}[name[0]] + name[1]
            value = getattr(torch.special, kind)(torch.from_numpy(np.array(x))).numpy()
        # They fade out, which both libraries may have as NaN.
        return np.where(x == np.inf if name[0] == "y" else np.isinf(x), 0.0, value)

    return compute


def _round(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), whole)


def _remainder(x: float, y: float) -> float:
    return math.remainder(x, y) if not (math.isnan(x) or math.isnan(y)) else math.nan


def _logb(x: np.ndarray) -> np.ndarray:
    exponent = np.frexp(x)[1] - 1.0
    return np.where(x == 0, -np.inf, np.where(np.isfinite(x), exponent, np.abs(x)))


def _fdim(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x - y, 0.0))


def _fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    wide = np.asarray(x, np.longdouble) * np.asarray(y, np.longdouble)
    return (wide + np.asarray(z, np.longdouble)).astype(np.float64)


def _of_pi(ahead: int) -> Callable[[np.ndarray], np.ndarray]:
    """The sine of pi * x, or the cosine where it is a quarter ahead. What is left of the nearest
    quarter of a turn is exact, and small where the result is."""

    def compute(x: np.ndarray) -> np.ndarray:
        quarters = np.rint(2 * x)
        rest = np.pi * (x - quarters / 2)
        which = np.mod(quarters + ahead, 4)
        value = np.where(np.mod(which, 2) == 0, np.sin(rest), np.cos(rest))
        return np.where(which < 2, value, -value)

    return compute


def _norm(*x: np.ndarray) -> np.ndarray:
    value = x[0]
    for other in x[1:]:
        value = np.hypot(value, other)
    return np.abs(value)


FUNCTIONS: dict[str, Builtin] = {
    "abs": Builtin(1, np.abs, exact=True),
    "acos": Builtin(1, np.arccos),
    "acosh": Builtin(1, np.arccosh),
    "asin": Builtin(1, np.arcsin),
    "asinh": Builtin(1, np.arcsinh),
    "atan": Builtin(1, np.arctan),
    "atan2": Builtin(2, np.arctan2),
    "atanh": Builtin(1, np.arctanh),
    "cbrt": Builtin(1, np.cbrt),
    "ceil": Builtin(1, np.ceil, exact=True),
    "copysign": Builtin(2, np.copysign, exact=True),
    "cos": Builtin(1, np.cos, swings=1.0),
    "cosh": Builtin(1, np.cosh),
    "cospi": Builtin(1, _of_pi(1), swings=0.25),
    "erf": Builtin(1, _each(math.erf)),
    "erfc": Builtin(1, _each(math.erfc)),
    "exp": Builtin(1, np.exp),
    "exp10": Builtin(1, lambda x: np.power(10.0, x)),
    "exp2": Builtin(1, np.exp2),
    "expm1": Builtin(1, np.expm1),
    "fabs": Builtin(1, np.abs, exact=True),
    "fdim": Builtin(2, _fdim),
    "fdivide": Builtin(2, np.divide),
    "floor": Builtin(1, np.floor, exact=True),
    "fma": Builtin(3, _fma),
    "fmax": Builtin(2, np.fmax, exact=True),
    "fmin": Builtin(2, np.fmin, exact=True),
    "fmod": Builtin(2, np.fmod, exact=True),
    "hypot": Builtin(2, np.hypot),
    "isinf": Builtin(1, np.isinf),
    "isnan": Builtin(1, np.isnan),
    "j0": Builtin(1, _bessel("j0"), swings=1.0),
    "j1": Builtin(1, _bessel("j1"), swings=1.0),
    "lgamma": Builtin(1, _each(_lgamma)),
    "log": Builtin(1, np.log),
    "log10": Builtin(1, np.log10),
    "log1p": Builtin(1, np.log1p),
    "log2": Builtin(1, np.log2),
    "logb": Builtin(1, _logb, exact=True),
    "nextafter": Builtin(2, np.nextafter, exact=True),  # in the type: see arithmetic
    "norm3d": Builtin(3, _norm),
    "norm4d": Builtin(4, _norm),
    "normcdf": Builtin(1, lambda x: 0.5 * _each(math.erfc)(-x / math.sqrt(2.0))),
    "pow": Builtin(2, np.power),
    "rcbrt": Builtin(1, lambda x: 1.0 / np.cbrt(x)),
    "remainder": Builtin(2, _each(_remainder), exact=True),
    "rhypot": Builtin(2, lambda x, y: 1.0 / np.hypot(x, y)),
    "rint": Builtin(1, np.rint, exact=True),
    "rnorm3d": Builtin(3, lambda *x: 1.0 / _norm(*x)),
    "rnorm4d": Builtin(4, lambda *x: 1.0 / _norm(*x)),
    "round": Builtin(1, _round, exact=True),
    "rsqrt": Builtin(1, lambda x: 1.0 / np.sqrt(x)),
    "sin": Builtin(1, np.sin, swings=1.0),
    "sinh": Builtin(1, np.sinh),
    "sinpi": Builtin(1, _of_pi(0), swings=0.25),
    "sqrt": Builtin(1, np.sqrt),
    "tan": Builtin(1, np.tan, swings=1.0),
    "tanh": Builtin(1, np.tanh),
    "tgamma": Builtin(1, _each(_tgamma)),
    "trunc": Builtin(1, np.trunc, exact=True),
    "y0": Builtin(1, _bessel("y0"), swings=1.0),
    "y1": Builtin(1, _bessel("y1"), swings=1.0),
}


def function_name(spelling: str) -> str:
    """The function that a name stands for: `fmaxf` is `fmax`."""
    if spelling not in FUNCTIONS and spelling.endswith("f") and spelling[:-1] in FUNCTIONS:
        return spelling[:-1]
    return spelling
