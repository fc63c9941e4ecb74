"""Many statements."""

from __future__ import annotations

import torch

from hostile_texts.kinds import SIZE, Hostile, kind, lines, pointwise


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
