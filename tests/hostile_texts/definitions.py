"""Many definitions and calls, long words and numbers."""

from __future__ import annotations

from hostile_texts.kinds import SIZE, Hostile, kind, lines, pointwise


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


# ---- words and numbers


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
