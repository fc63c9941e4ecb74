"""Texts that keep a compiler busy, by kind and size; what grows is named by each function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch


@dataclass
class Hostile:
    """A text whose last definition is `f`, and what its inputs look like."""

    text: str
    shapes: list[tuple[int, ...]]
    dtypes: dict[int, torch.dtype] = field(default_factory=dict)
    outputs: list[tuple[int, ...]] | None = None

    def inputs(self) -> list[torch.Tensor]:
        return [
            torch.ones(shape, dtype=self.dtypes.get(place, torch.float32))
            for place, shape in enumerate(self.shapes)
        ]


KINDS: dict[str, Callable[[int], Hostile]] = {}
SIZE = 100


def kind(make: Callable[[int], Hostile]) -> Callable[[int], Hostile]:
    KINDS[make.__name__] = make
    return make


def pointwise(body: str, result: str = "O", dtype: str = "float") -> Hostile:
    return Hostile(f"def f({dtype}(N) A) -> ({result}) {{\n{body}\n}}", [(SIZE,)])


def lines(*parts: str) -> str:
    return "\n".join(parts)


# ---- many statements


@kind
def in_place(n: int) -> Hostile:
    return pointwise(lines("B(i) = A(i)", *["B(i) = B(i) * 1.5"] * n), "B")


@kind
def in_place_shifted(n: int) -> Hostile:
    """Each reads two neighbours of the version before."""
    steps = [f"T{k}(i) = T{k - 1}(i) + T{k - 1}(i + 1)" for k in range(1, n + 1)]
    case = pointwise(lines("T0(i) = A(i)", *steps, f"O(i) = T{n}(i)"))
    case.shapes = [(n + SIZE,)]
    return case


@kind
def twice_each(n: int) -> Hostile:
    """Temporaries that double when they are put in place of their names."""
    steps = [f"T{k}(i) = T{k - 1}(i) * T{k - 1}(i) + 1" for k in range(1, n + 1)]
    return pointwise(lines("T0(i) = A(i)", *steps, f"O(i) = T{n}(i)"))


@kind
def temporaries(n: int) -> Hostile:
    steps = [f"T{k}(i) = T{k - 1}(i) * 1.5" for k in range(1, n + 1)]
    return pointwise(lines("T0(i) = A(i)", *steps, f"O(i) = T{n}(i)"))


@kind
def chained_sums(n: int) -> Hostile:
    steps = [f"S{k} +=! A(i) * S{k - 1}" for k in range(1, n + 1)]
    return pointwise(lines("S0 +=! A(i)", *steps, f"O = S{n}"))


@kind
def chained_rows(n: int) -> Hostile:
    """A sum over a row of the one before, and a pass over the row."""
    steps = [
        f"S{k}(i) +=! T{k - 1}(i, j)\nT{k}(i, j) = T{k - 1}(i, j) - S{k}(i)"
        for k in range(1, n // 2 + 1)
    ]
    text = lines("T0(i, j) = A(i, j)", *steps, f"O(i, j) = T{n // 2}(i, j)")
    return Hostile(f"def f(float(N, M) A) -> (O) {{\n{text}\n}}", [(SIZE, 20)])


@kind
def chained_products(n: int) -> Hostile:
    steps = [f"T{k}(i, j) +=! T{k - 1}(i, k) * W(k, j)" for k in range(1, n + 1)]
    text = lines("T0(i, j) = A(i, j)", *steps, f"O(i, j) = T{n}(i, j)")
    return Hostile(
        f"def f(float(N, M) A, float(M, M) W) -> (O) {{\n{text}\n}}", [(20, 24), (24, 24)]
    )


@kind
def chained_scans(n: int) -> Hostile:
    steps = [
        f"T{k}(i) +=! j <= i ? T{k - 1}(j) : 0 where i in 0:N, j in 0:N" for k in range(1, n + 1)
    ]
    return pointwise(lines("T0(i) = A(i)", *steps, f"O(i) = T{n}(i)"))


@kind
def sums_of_one(n: int) -> Hostile:
    """All read one tensor and write results of their own."""
    names = [f"O{k}" for k in range(n)]
    steps = [f"O{k}(i) +=! A(i, j) * {k + 1}.5" for k in range(n)]
    return Hostile(
        f"def f(float(N, M) A) -> ({', '.join(names)}) {{\n{lines(*steps)}\n}}", [(SIZE, 20)]
    )


@kind
def outputs(n: int) -> Hostile:
    names = [f"O{k}" for k in range(n)]
    return pointwise(lines(*(f"O{k}(i) = A(i) * {k}.5" for k in range(n))), ", ".join(names))


@kind
def inputs(n: int) -> Hostile:
    parameters = ", ".join(f"float(N) A{k}" for k in range(n))
    body = "O(i) = " + " + ".join(f"A{k}(i)" for k in range(n))
    return Hostile(f"def f({parameters}) -> (O) {{\n{body}\n}}", [(SIZE,)] * n)


@kind
def independent(n: int) -> Hostile:
    """A tensor in and a tensor out for each."""
    parameters = ", ".join(f"float(N{k}) A{k}" for k in range(n))
    names = ", ".join(f"O{k}" for k in range(n))
    body = lines(*(f"O{k}(i) = A{k}(i) * 2" for k in range(n)))
    return Hostile(
        f"def f({parameters}) -> ({names}) {{\n{body}\n}}", [(SIZE + k,) for k in range(n)]
    )


@kind
def scatters(n: int) -> Hostile:
    steps = [f"O(I(i)) += A(i) * {k}.5" for k in range(n)]
    text = lines("O(v) = 0 where v in 0:V", *steps)
    return Hostile(
        f"def f(float(N) A, int(N) I, float(V) T) -> (float(V) O) {{\n{text}\n}}",
        [(SIZE,), (SIZE,), (50,)],
        {1: torch.int32},
    )


@kind
def many_scatters(n: int) -> Hostile:
    names = ", ".join(f"float(V) O{k}" for k in range(n))
    steps = [f"O{k}(I(i)) +=! A(i) * {k}.5" for k in range(n)]
    return Hostile(
        f"def f(float(N) A, int(N) I, float(V) T) -> ({names}) {{\n{lines(*steps)}\n}}",
        [(SIZE,), (SIZE,), (50,)],
        {1: torch.int32},
    )


@kind
def positions(n: int) -> Hostile:
    names = ", ".join(f"O{k}" for k in range(n))
    steps = [f"O{k}(i) argmax=! A(i, j) * {k}.5" for k in range(n)]
    return Hostile(f"def f(float(N, M) A) -> ({names}) {{\n{lines(*steps)}\n}}", [(SIZE, 20)])


@kind
def chained_positions(n: int) -> Hostile:
    steps = [f"P{k}(i) argmax=! A(j) - P{k - 1}(i)" for k in range(1, n + 1)]
    return pointwise(lines("P0(i) argmax=! A(j) - A(i)", *steps, f"O(i) = P{n}(i)"))


@kind
def concatenation(n: int) -> Hostile:
    parameters = ", ".join(f"float(N) A{k}" for k in range(n))
    body = lines(*(f"O(i) = A{k}(i - {k} * N) where i in {k} * N:{k + 1} * N" for k in range(n)))
    return Hostile(f"def f({parameters}) -> (O) {{\n{body}\n}}", [(SIZE,)] * n)


@kind
def pieces(n: int) -> Hostile:
    """One input in pieces."""
    body = lines(*(f"O(i) = A(i) * {k}.5 where i in {k} * 10:{k + 1} * 10" for k in range(n)))
    case = pointwise(body)
    case.shapes = [(10 * n,)]
    return case


@kind
def recurrent(n: int) -> Hostile:
    """Steps of a network: products, sums and functions, each with results of the ones before."""
    steps = []
    for k in range(1, max(n // 3, 1) + 1):
        steps += [
            f"P{k}(b, h) +=! H{k - 1}(b, g) * W(h, g)",
            f"Q{k}(b, h) = P{k}(b, h) + X(b, h)",
            f"H{k}(b, h) = tanh(Q{k}(b, h))",
        ]
    text = lines("H0(b, h) = X(b, h)", *steps, f"O(b, h) = H{max(n // 3, 1)}(b, h)")
    return Hostile(
        f"def f(float(B, H) X, float(H, H) W) -> (O) {{\n{text}\n}}", [(8, 32), (32, 32)]
    )


@kind
def common_factors(n: int) -> Hostile:
    """Sums over products of three that have two factors in common."""
    names = ", ".join(f"O{k}" for k in range(n))
    steps = [f"O{k}(i) +=! A(i, j) * B(j, k) * C(k, {k % 20})" for k in range(n)]
    return Hostile(
        f"def f(float(N, M) A, float(M, K) B, float(K, L) C) -> ({names}) {{\n{lines(*steps)}\n}}",
        [(20, 24), (24, 28), (28, 20)],
    )


@kind
def softmaxes(n: int) -> Hostile:
    steps = []
    for k in range(1, max(n // 4, 1) + 1):
        steps += [
            f"M{k}(i) max=! T{k - 1}(i, j)",
            f"E{k}(i, j) = exp(T{k - 1}(i, j) - M{k}(i))",
            f"S{k}(i) +=! E{k}(i, j)",
            f"T{k}(i, j) = E{k}(i, j) / S{k}(i)",
        ]
    text = lines("T0(i, j) = A(i, j)", *steps, f"O(i, j) = T{max(n // 4, 1)}(i, j)")
    return Hostile(f"def f(float(N, M) A) -> (O) {{\n{text}\n}}", [(SIZE, 20)])


@kind
def transpositions(n: int) -> Hostile:
    steps = [f"T{k}(i, j) = T{k - 1}(j, i) + 1" for k in range(1, n + 1)]
    text = lines("T0(i, j) = A(i, j)", *steps, f"O(i, j) = T{n}(i, j)")
    return Hostile(f"def f(float(N, M) A) -> (O) {{\n{text}\n}}", [(20, 20)])


@kind
def stencils_in_steps(n: int) -> Hostile:
    steps = [
        f"T{k}(i, j) = T{k - 1}(i, j) + T{k - 1}(i + 2, j) + T{k - 1}(i, j + 2)"
        for k in range(1, n + 1)
    ]
    text = lines("T0(i, j) = A(i, j)", *steps, f"O(i, j) = T{n}(i, j)")
    side = 2 * n + 20
    return Hostile(f"def f(float(N, M) A) -> (O) {{\n{text}\n}}", [(side, side)])


@kind
def convolutions(n: int) -> Hostile:
    steps = [
        f"T{k}(b, o, h, w) +=! T{k - 1}(b, c, h + r, w + s) * W(o, c, r, s)"
        for k in range(1, n + 1)
    ]
    text = lines("T0(b, c, h, w) = A(b, c, h, w)", *steps, f"O(b, o, h, w) = T{n}(b, o, h, w)")
    side = 2 * n + 8
    return Hostile(
        f"def f(float(B, C, H, W) A, float(C, C, 3, 3) W) -> (O) {{\n{text}\n}}".replace(
            "H, W) A", "H, X) A"
        ),
        [(1, 4, side, side), (4, 4, 3, 3)],
    )


# ---- one large expression


def nested(wrap: Callable[[str, int], str], n: int, start: str = "A(i)") -> str:
    value = start
    for k in range(n):
        value = wrap(value, k)
    return value


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


# ---- many indices


@kind
def dimensions(n: int) -> Hostile:
    sizes = ", ".join(f"N{k}" for k in range(n))
    indices = ", ".join(f"i{k}" for k in range(n))
    return Hostile(
        f"def f(float({sizes}) A) -> (O) {{ O({indices}) = A({indices}) * 2 }}",
        [tuple(2 if k < 10 else 1 for k in range(n))],
    )


@kind
def turned_dimensions(n: int) -> Hostile:
    sizes = ", ".join(f"N{k}" for k in range(n))
    indices = [f"i{k}" for k in range(n)]
    return Hostile(
        f"def f(float({sizes}) A) -> (O) {{"
        f" O({', '.join(indices)}) = A({', '.join(reversed(indices))}) * 2 }}",
        [tuple(2 if k < 10 else 1 for k in range(n))],
    )


@kind
def reductions(n: int) -> Hostile:
    sizes = ", ".join(f"N{k}" for k in range(n))
    indices = ", ".join(f"i{k}" for k in range(n))
    return Hostile(
        f"def f(float({sizes}) A) -> (O) {{ O +=! A({indices}) * 2 }}",
        [tuple(2 if k < 10 else 1 for k in range(n))],
    )


@kind
def ranges_without_use(n: int) -> Hostile:
    clauses = ", ".join(f"j{k} in 0:{2 if k < 5 else 1}" for k in range(n))
    return pointwise(f"O(i) +=! A(i) where {clauses}")


KINDS["windows"] = lambda n: Hostile(
    "def f(float(N) A, float(M) B) -> (O) { O +=! "
    + " * ".join([*(f"A(i{k} + i{k + 1})" for k in range(n)), f"B(i{n})"])
    + " }",
    [(2,), (2,)],
)


@kind
def unsolved(n: int) -> Hostile:
    """No index can be solved."""
    value = " * ".join(f"A(i{k} + i{k + 1})" for k in range(n))
    return Hostile(f"def f(float(N) A) -> (O) {{ O +=! {value} }}", [(2,)])


@kind
def long_subscripts(n: int) -> Hostile:
    value = " + ".join(f"i{k}" for k in range(n))
    clauses = ", ".join(f"i{k} in 0:{2 if k < 8 else 1}" for k in range(n))
    return Hostile(f"def f(float(N) A) -> (O) {{ O +=! A({value}) where {clauses} }}", [(SIZE,)])


@kind
def intersected_ranges(n: int) -> Hostile:
    """A range that is the smallest of n sizes."""
    parameters = ", ".join(f"float(N{k}) A{k}" for k in range(n))
    body = "O(i) = " + " + ".join(f"A{k}(i + {k})" for k in range(n))
    return Hostile(
        f"def f({parameters}) -> (O) {{\n{body}\n}}", [(SIZE + 2 * k,) for k in range(n)]
    )


@kind
def sizes_in_bounds(n: int) -> Hostile:
    bound = " + ".join(f"N / {k + 1}" for k in range(n))
    return pointwise(f"O(i) = A(i % N) where i in 0:{bound}")


@kind
def nested_bounds(n: int) -> Hostile:
    bound = nested(lambda x, k: f"min({x}, N - {k} + {k})" if k % 2 else f"max({x}, N / 2)", n, "N")
    return pointwise(f"O(i) = A(i) where i in 0:{bound}")


@kind
def exists(n: int) -> Hostile:
    clauses = ", ".join(f"exists A(i + {k})" for k in range(n))
    case = pointwise(f"O(i) = A(i) where {clauses}")
    case.shapes = [(SIZE + n,)]
    return case


@kind
def clauses(n: int) -> Hostile:
    """Lets, each of the ones before."""
    lets = ", ".join(["x0 = A(i)", *(f"x{k} = x{k - 1} + A(i) * {k}" for k in range(1, n))])
    return pointwise(f"O(i) = x{n - 1} where {lets}")


@kind
def lets_without_use(n: int) -> Hostile:
    lets = ", ".join(f"x{k} = A(i) + {k}" for k in range(n))
    return pointwise(f"O(i) = A(i) where {lets}")


@kind
def doubled_lets(n: int) -> Hostile:
    """n operations by lets that stand for twice the one before."""
    steps = n.bit_length()
    lets = ["x0 = A(i)", *(f"x{k} = x{k - 1} * x{k - 1} + 1" for k in range(1, steps))]
    return pointwise(f"O(i) = x{steps - 1} where {', '.join(lets)}")


@kind
def doubled_min(n: int) -> Hostile:
    steps = n.bit_length()
    lets = ["x0 = A(i)", *(f"x{k} = min(x{k - 1}, x{k - 1} + {k})" for k in range(1, steps))]
    return pointwise(f"O(i) = x{steps - 1} where {', '.join(lets)}")


@kind
def doubled_ternary(n: int) -> Hostile:
    steps = n.bit_length()
    lets = [
        "x0 = A(i)",
        *(f"x{k} = (x{k - 1} > {k} ? x{k - 1} : A(i) + {k})" for k in range(1, steps)),
    ]
    return pointwise(f"O(i) = x{steps - 1} where {', '.join(lets)}")


@kind
def doubled_integers(n: int) -> Hostile:
    steps = n.bit_length()
    lets = ["x0 = A(i)", *(f"x{k} = x{k - 1} + x{k - 1}" for k in range(1, steps))]
    case = pointwise(f"O(i) = x{steps - 1} where {', '.join(lets)}", dtype="int")
    case.dtypes = {0: torch.int32}
    return case


@kind
def doubled_subscripts(n: int) -> Hostile:
    steps = n.bit_length()
    lets = ["x0 = i", *(f"x{k} = x{k - 1} + x{k - 1} / 2" for k in range(1, steps))]
    case = pointwise(f"O(i) = A(x{steps - 1} % N) where {', '.join(lets)}, i in 0:N")
    return case


# ---- calls


@kind
def calls(n: int) -> Hostile:
    """Each definition calls the one before."""
    text = ["def f0(float(N) A) -> (O) { O(i) = A(i) + 1 }"]
    text += [f"def f{k}(float(N) A) -> (O) {{ O = f{k - 1}(A) }}" for k in range(1, n)]
    return Hostile(lines(*text, f"def f(float(N) A) -> (O) {{ O = f{n - 1}(A) }}"), [(SIZE,)])


@kind
def doubled_calls(n: int) -> Hostile:
    """n statements by definitions that call the one before twice."""
    text = ["def f0(float(N) A) -> (O) { O(i) = A(i) * A(i) }"]
    steps = n.bit_length()
    text += [
        f"def f{k}(float(N) A) -> (O) {{ T = f{k - 1}(A)\n O = f{k - 1}(T) }}"
        for k in range(1, steps)
    ]
    return Hostile(lines(*text, f"def f(float(N) A) -> (O) {{ O = f{steps - 1}(A) }}"), [(SIZE,)])


@kind
def calls_in_a_row(n: int) -> Hostile:
    text = "def dense(float(B, M) I, float(O, M) W) -> (R) { R(b, o) +=! I(b, m) * W(o, m) }\n"
    steps = [f"T{k} = dense(T{k - 1}, W)" for k in range(1, n + 1)]
    body = lines("T0(i, j) = A(i, j)", *steps, f"O(i, j) = T{n}(i, j)")
    return Hostile(
        text + f"def f(float(N, M) A, float(M, M) W) -> (O) {{\n{body}\n}}", [(20, 24), (24, 24)]
    )


@kind
def definitions(n: int) -> Hostile:
    text = [f"def g{k}(float(N) A) -> (O) {{ O(i) = A(i) + {k} }}" for k in range(n)]
    return Hostile(lines(*text, "def f(float(N) A) -> (O) { O(i) = A(i) }"), [(SIZE,)])


# ---- long words and numbers


@kind
def long_name(n: int) -> Hostile:
    name = "x" * n
    return pointwise(f"{name}(i) = A(i)\nO(i) = {name}(i) + {name}(i)")


@kind
def comments(n: int) -> Hostile:
    return pointwise("# nothing\n" * n + "O(i) = A(i)")


@kind
def long_number(n: int) -> Hostile:
    return pointwise(f"O(i) = A(i) * 0.{'3' * n}")


@kind
def annotations(n: int) -> Hostile:
    return pointwise(f"O(i) = A(i) <=> g({', '.join(['A'] * n)})")
