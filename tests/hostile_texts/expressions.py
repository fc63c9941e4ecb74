"""One large expression."""

from __future__ import annotations

from collections.abc import Callable

import torch

from hostile_texts.kinds import KINDS, SIZE, Hostile, kind, nested, pointwise


def nest_kind(name: str, wrap: Callable[[str, int], str], dtype: str = "float") -> None:
    types = {"float": torch.float32, "int": torch.int32, "half": torch.half, "bool": torch.bool}
    types |= {"bfloat16": torch.bfloat16, "uint8": torch.uint8, "int64": torch.int64}
    types |= {"double": torch.float64}

    def make(n: int) -> Hostile:
        case = pointwise(f"O(i) = {nested(wrap, n)}", dtype=dtype)
        case.dtypes = {0: types[dtype]}
        return case

    KINDS[name] = make


nest_kind("min", lambda x, k: f"min(A(i) + {k}, {x})")
nest_kind("max_left", lambda x, k: f"max({x}, A(i) * {k}.5)")
nest_kind("min_max", lambda x, k: f"{('min', 'max')[k % 2]}({x}, A(i) + {k})")
nest_kind("min_of_two", lambda x, k: f"min({x}, {k}.5)" if k % 2 else f"max({x} * A(i), {k}.5)")
nest_kind("min_of_integers", lambda x, k: f"min({x} + A(i), A(i) - {k})", "int")
nest_kind("min_of_offsets", lambda x, k: f"min(A(i + {k % 50}), {x})")
nest_kind("ternary", lambda x, k: f"(A(i) > {k} ? A(i) + {k} : {x})")
nest_kind("ternary_condition", lambda x, k: f"(({x}) > {k} ? A(i) : {k}.5)")
nest_kind("ternary_first", lambda x, k: f"(A(i) > {k} ? {x} : A(i) * {k})")
nest_kind("ternary_integers", lambda x, k: f"(A(i) > {k} ? A(i) - {k} : {x})", "int")
nest_kind("ternary_of_index", lambda x, k: f"(i > {k} ? A(i) + {k} : {x})")
nest_kind("ternary_of_constants", lambda x, k: f"(A(i) > {k} ? {k}.5 : {x if k else '0'})")
nest_kind("exp", lambda x, k: f"exp({x})")
nest_kind("tanh", lambda x, k: f"tanh({x})")
nest_kind("sin", lambda x, k: f"sin({x})")
nest_kind("log", lambda x, k: f"log({x})")
nest_kind("pow", lambda x, k: f"pow({x}, A(i))")
nest_kind("erf", lambda x, k: f"erf({x})")
nest_kind("abs", lambda x, k: f"abs({x} - {k})")
nest_kind("abs_of_integers", lambda x, k: f"abs({x} - {k})", "int")
nest_kind("bessel", lambda x, k: f"j0({x})")
nest_kind("sqrt", lambda x, k: f"sqrt({x} + 1)")
nest_kind("floor", lambda x, k: f"floor({x} * 1.5)")
nest_kind("fmax", lambda x, k: f"fmax({x}, A(i) - {k})")
nest_kind("parentheses", lambda x, k: f"({x})")
nest_kind("minus", lambda x, k: f"-({x})")
nest_kind("halves", lambda x, k: f"({x} * A(i) + 1)", "half")
nest_kind("half_functions", lambda x, k: f"exp({x})", "half")
nest_kind("divisions", lambda x, k: f"(A(i) / {x})")
nest_kind("integer_divisions", lambda x, k: f"({x} / 3 + A(i))", "int")
nest_kind("integer_remainders", lambda x, k: f"(({x} + A(i)) % {k + 7})", "int")
nest_kind("divisors", lambda x, k: f"(A(i) / ({x}))", "int")
nest_kind("products", lambda x, k: f"({x} * A(i))", "int")
nest_kind("horner", lambda x, k: f"({x} * A(i) + {k}.5)")
nest_kind("casts", lambda x, k: f"int32(float({x}))", "int")
nest_kind("narrow_casts", lambda x, k: f"int32(int8({x} + {k}))", "int")
nest_kind("at_most", lambda x, k: f"(({x}) <= {k} ? A(i) : {k}.5)")
nest_kind("at_least", lambda x, k: f"(A(i) >= ({x}) ? A(i) : {k}.5)")
nest_kind("equal", lambda x, k: f"(({x}) == {k} ? A(i) : {k}.5)")
nest_kind("unequal", lambda x, k: f"(({x}) != {k} ? A(i) : {k}.5)")
nest_kind("compared_integers", lambda x, k: f"(({x}) <= {k} ? A(i) : {k})", "int")
nest_kind("is_nan", lambda x, k: f"float(isnan({x}))")
nest_kind("is_infinite", lambda x, k: f"(isinf({x}) ? A(i) : {k}.5)")
nest_kind("round", lambda x, k: f"round({x} * 1.5)")
nest_kind("sinpi", lambda x, k: f"sinpi({x})")
nest_kind("ldexp", lambda x, k: f"ldexp(A(i), int32({x}))")
nest_kind("hypot", lambda x, k: f"norm3d({x}, A(i), {k})")
nest_kind("bfloat", lambda x, k: f"({x} * A(i) + 1)", "bfloat16")
nest_kind("bytes", lambda x, k: f"({x} * A(i) + 1)", "uint8")
nest_kind("longs", lambda x, k: f"({x} * A(i) + 1)", "int64")
nest_kind("doubles", lambda x, k: f"({x} * A(i) + 1)", "double")
nest_kind("and", lambda x, k: f"({x} && A(i) > {k})".replace("(A(i) &&", "(A(i) > 0 &&"), "int")
nest_kind("nots", lambda x, k: f"!({x} > {k})".replace("(!", "((!") if k == 0 else f"!({x})", "int")
nest_kind("quotients_of_index", lambda x, k: f"(({x} + i) / {k + 2})", "int")
nest_kind("remainders_of_index", lambda x, k: f"((i + {k}) % {k + 2} > 0 ? {x} : A(i) - {k})")


@kind
def gathers(n: int) -> Hostile:
    value = nested(lambda x, k: f"I({x})", n, "i")
    return Hostile(
        f"def f(float(N) A, int(N) I) -> (O) {{ O(i) = A({value}) where i in 0:N }}",
        [(SIZE,), (SIZE,)],
        {1: torch.int32},
    )


@kind
def terms(n: int) -> Hostile:
    return pointwise("O(i) = " + " + ".join(f"A(i) * {k}.5" for k in range(n)))


@kind
def factors(n: int) -> Hostile:
    return pointwise("O(i) = " + " * ".join(f"(A(i) + {k})" for k in range(n)))


@kind
def summed_factors(n: int) -> Hostile:
    value = " * ".join(f"A(i, j + {k})" for k in range(n))
    return Hostile(f"def f(float(N, M) A) -> (O) {{ O(i) +=! {value} }}", [(SIZE, 20 + n)])


@kind
def chain_of_factors(n: int) -> Hostile:
    """A product of matrices in one statement."""
    value = " * ".join(f"A{k}(i{k}, i{k + 1})" for k in range(n))
    parameters = ", ".join(f"float(S{k}, S{k + 1}) A{k}" for k in range(n))
    return Hostile(f"def f({parameters}) -> (O) {{ O(i0, i{n}) +=! {value} }}", [(4, 4)] * n)


@kind
def integer_terms(n: int) -> Hostile:
    case = pointwise("O(i) = " + " + ".join(f"A(i) * {k}" for k in range(n)), dtype="int")
    case.dtypes = {0: torch.int32}
    return case


@kind
def summed_terms(n: int) -> Hostile:
    value = " + ".join(f"A(i, j) * B(j, {k})" for k in range(n))
    return Hostile(
        f"def f(float(N, M) A, float(M, K) B) -> (O) {{ O(i) +=! {value} }}", [(SIZE, 20), (20, n)]
    )


@kind
def bounded_terms(n: int) -> Hostile:
    """What the largest value of a row is taken of."""
    value = " + ".join(f"A(i, j) * B({k})" for k in range(n))
    return Hostile(
        f"def f(float(N, M) A, float(K) B) -> (O) {{ O(i) max=! {value} }}", [(SIZE, 20), (n,)]
    )


@kind
def stencil(n: int) -> Hostile:
    case = pointwise("O(i) = " + " + ".join(f"A(i + {k})" for k in range(n)))
    case.shapes = [(SIZE + n,)]
    return case


@kind
def wide_stencil(n: int) -> Hostile:
    side = int(n**0.5) + 1
    places = [(k // side, k % side) for k in range(n)]
    value = " + ".join(f"{k}.5 * A(i + {r}, j + {s})" for k, (r, s) in enumerate(places))
    return Hostile(f"def f(float(N, M) A) -> (O) {{ O(i, j) = {value} }}", [(side + 40, side + 40)])


@kind
def summed_stencil(n: int) -> Hostile:
    value = " + ".join(f"A(i + {k}, c)" for k in range(n))
    return Hostile(f"def f(float(N, M) A) -> (O) {{ O(i) +=! {value} }}", [(SIZE + n, 20)])


@kind
def strided_stencil(n: int) -> Hostile:
    """Neighbours a few elements apart, which loads and permutations make."""
    case = pointwise("O(i) = " + " + ".join(f"A({2 + k % 3} * i + {k})" for k in range(n)))
    case.shapes = [(4 * SIZE + n,)]
    return case


@kind
def divided_stencil(n: int) -> Hostile:
    value = " + ".join(f"A((i + {k}) / {2 + k % 5})" for k in range(n))
    return pointwise(f"O(i) = {value} where i in 0:{SIZE // 2}")


@kind
def remainder_stencil(n: int) -> Hostile:
    value = " + ".join(f"A((i + {k}) % {7 + k})" for k in range(n))
    case = pointwise(f"O(i) = {value} where i in 0:{SIZE}")
    case.shapes = [(SIZE + n,)]
    return case


@kind
def guarded_stencil(n: int) -> Hostile:
    value = " + ".join(f"(i >= {k} && i - {k} < N ? A(i - {k}) : 0)" for k in range(n))
    return pointwise(f"O(i) = {value} where i in 0:N")


@kind
def summed_guards(n: int) -> Hostile:
    value = " + ".join(
        f"(i + j >= {k} && i + j - {k} < N ? A(i + j - {k}) * B(j) : 0)" for k in range(n)
    )
    return Hostile(
        f"def f(float(N) A, float(M) B) -> (O) {{ O(i) +=! {value} where i in 0:N, j in 0:M }}",
        [(SIZE,), (20,)],
    )


@kind
def residues(n: int) -> Hostile:
    value = " + ".join(f"((i - j) % {k + 2} == 0 ? B(j) * {k}.5 : 0)" for k in range(n))
    return Hostile(
        f"def f(float(N) A, float(M) B) -> (O) {{ O(i) +=! {value} where i in 0:N }}",
        [(SIZE,), (20,)],
    )


@kind
def rows_of_a_table(n: int) -> Hostile:
    value = " + ".join(f"A(I(i) + {k}, j)" for k in range(n))
    return Hostile(
        f"def f(float(N, M) A, int(K) I) -> (O) {{ O(i, j) = {value} }}",
        [(SIZE + n, 40), (SIZE,)],
        {1: torch.int32},
    )


@kind
def elements_of_a_table(n: int) -> Hostile:
    value = " + ".join(f"A(I(i) + {k})" for k in range(n))
    return Hostile(
        f"def f(float(N) A, int(K) I) -> (O) {{ O(i) = {value} }}",
        [(SIZE + n,), (SIZE,)],
        {1: torch.int32},
    )


@kind
def balanced(n: int) -> Hostile:
    """A sum of n products, as a tree without depth."""

    def tree(first: int, count: int) -> str:
        if count == 1:
            return f"A(i) * {first}.5"
        half = count // 2
        return f"({tree(first, half)} + {tree(first + half, count - half)})"

    return pointwise(f"O(i) = {tree(0, n)}")


@kind
def balanced_min(n: int) -> Hostile:
    def tree(first: int, count: int) -> str:
        if count == 1:
            return f"A(i) * {first}.5"
        half = count // 2
        return f"min({tree(first, half)}, {tree(first + half, count - half)})"

    return pointwise(f"O(i) = {tree(0, n)}")


@kind
def balanced_reads(n: int) -> Hostile:
    def tree(first: int, count: int) -> str:
        if count == 1:
            return f"A(i + {first})"
        half = count // 2
        return f"({tree(first, half)} + {tree(first + half, count - half)})"

    case = pointwise(f"O(i) = {tree(0, n)}")
    case.shapes = [(SIZE + n,)]
    return case


@kind
def functions_of_terms(n: int) -> Hostile:
    return pointwise("O(i) = " + " + ".join(f"exp(A(i) * {k}.5)" for k in range(n)))


@kind
def conditions_of_terms(n: int) -> Hostile:
    value = " + ".join(
        f"(A(i) > {k} && A(i) < {2 * k} || A(i) == {k} ? A(i) : {k}.5)" for k in range(n)
    )
    return pointwise("O(i) = " + value)


@kind
def mixed(n: int) -> Hostile:
    """Everything in everything, by a sequence that is always the same."""
    wraps = [
        lambda x, k: f"min(A(i) + {k}, {x})",
        lambda x, k: f"({x} * A(i) + {k}.5)",
        lambda x, k: f"(A(i) > {k} ? {x} : A(i) * {k})",
        lambda x, k: f"sqrt(abs({x}) + 1)",
        lambda x, k: f"(i > {k % 7} ? {x} : A(i))",
        lambda x, k: f"max({x}, {k}.5)",
        lambda x, k: f"({x} / (A(i) + {k}))",
        lambda x, k: f"float(int32({x}))",
        lambda x, k: f"(A(i) - {x})",
        lambda x, k: f"(({x}) <= {k} ? A(i) : {k}.5)",
        lambda x, k: f"A(i) * ({x} >= A(i) ? {k}.5 : A(i))",
        lambda x, k: f"floor({x} * 0.5)",
    ]
    state = 1
    value = "A(i)"
    for k in range(n):
        state = (state * 1103515245 + 12345) % 2**31
        value = wraps[(state >> 16) % len(wraps)](value, k)
    return pointwise(f"O(i) = {value}")
