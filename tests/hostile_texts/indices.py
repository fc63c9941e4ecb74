"""Many indices, ranges and lets."""

from __future__ import annotations

import torch

from hostile_texts.kinds import KINDS, SIZE, Hostile, kind, nested, pointwise


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
def extremes_of_far_indices(n: int) -> Hostile:
    """Numbers that lie farther apart than an index reaches."""
    value = nested(lambda x, k: f"min(i + {2000000000 + k}, {x})", n, "i")
    return pointwise(f"O(i) = {value} where exists A(i)")


@kind
def subscripts_of_results(n: int) -> Hostile:
    value = nested(lambda x, k: f"{x} / 3", n, "I(i)")
    text = f"def f(float(N) A, int32(N) I) -> (float(8) O) {{ O({value}) +=! A(i) }}"
    return Hostile(text, [(SIZE,), (SIZE,)], {1: torch.int32})


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


def remainders(n: int) -> list[str]:
    """Of two indices, none a multiple of another."""
    return [f"(i * {2 * k + 1} + j * {k + 2}) % {k + 3}" for k in range(n)]


@kind
def sums_of_remainders(n: int) -> Hostile:
    total = " + ".join(remainders(n))
    return Hostile(
        f"def f(float(N) A) -> (O) {{ O(i, j) = {total} < N ? A({total}) : 0"
        " where i in 0:80, j in 0:80 }",
        [(SIZE,)],
    )


@kind
def conditions_on_remainders(n: int) -> Hostile:
    condition = " && ".join(f"{remainder} != 1" for remainder in remainders(n))
    return Hostile(
        f"def f(float(N) A) -> (O) {{ O(i, j) = {condition} ? A(i * 51 + j) : 0"
        " where i in 0:80, j in 0:80 }",
        [(4000,)],
    )
