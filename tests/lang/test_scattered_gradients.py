"""Derivatives of reads at places that no index is solved from: tables, clamped indices, guards."""

from __future__ import annotations

import re

import pytest
import torch
from derived import checked_gradient

import tensor_comprehensions as tc
from tensor_comprehensions._torch import parse


def indices(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize("place", ["min(max(i, 1), 3)", "i * i / 4", "5 - min(i, 4)"])
def test_a_place_that_a_later_dimension_decides(place: str) -> None:
    """Only this place of a column receives, though its dimension comes first."""
    text = checked_gradient(
        f"def f(double(6, M) A, double(M) x) -> (O) {{ O(i) = A({place}, i + 2) * x(i) }}",
        (6, 6),
        (6,),
    )
    assert " == i0" in text
    assert " +=" not in text.replace("+=!", "")


@pytest.mark.parametrize(
    "place",
    [
        "min(max(-(N * (-2147483647 - 1)), 0), 4)",
        "(-2147483646 * (N / (-1)) % 5 + 5) % 5",
        "min(max(int32(min(65536, int64(-3037000499))), 0), 4)",
        "((-2 - 1) * abs(-1073741824) % 5 + 5) % 5",
        "(i + N * 2147483647) % 5",
        "(N * N * N * N * N * N * N * N * N * N * N * N * N * N + i) % 5",
    ],
)
def test_places_of_more_than_32_bits(place: str) -> None:
    """Subscripts do not wrap around; where a gradient compares them, they must not either."""
    checked_gradient(
        f"def f(double(N) A) -> (O) {{ O(i) = A({place}) * (i + 1) where i in 0:5 }}", (5,)
    )


def test_a_solved_index_stays_a_value_of_32_bits() -> None:
    """It is found with 64 where the place is large; what is computed with it wraps around at 32."""
    checked_gradient(
        """def f(double(N) A) -> (O) {
            O(i) = int32(1073741825) * i <= 0 ? A((i + 2147483641) % 5) * 1.5 : 2.5 where i in 0:5
        }""",
        (5,),
    )


def test_a_table_is_read_only_where_its_guard_holds() -> None:
    text = """def f(double(P) x, int32(N) t, double(M) y) -> (O) {
        O(i) = i < N ? x(t(i)) * y(i) : 0.0 where i in 0:M
    }"""
    source = checked_gradient(text, (4,), indices(3, 1, 3), (7,))
    assert "d_x(i < N ? t(i) : 0) += i < N ? " in source


SCALARS = {
    "a pad": ("int64 pad", "O(b, d) = I(b) != pad ? T(I(b), d) : 0", -1),
    "a length": ("int32 n", "O(b, d) = b < n ? T(I(b), d) : 0", 3),
    "both": ("int32 n", "O(b, d) = b < n && I(b) >= n - 3 ? T(I(b), d) : 0", 3),
    "in a sum": ("int32 n", "O(d) +=! b < n ? T(I(b), d) * T(I(b), d) : 0", 3),
    "in an extreme": ("int32 n", "O(d) max=! b < n ? T(I(b), d) : -1.0", 3),
    "alone": ("int32 n", "O(d) = n > 2 ? T(I(1), d) : 0", 3),
    "of a float": ("float n", "O(b, d) = I(b) > n ? T(I(b), d) : 0", -0.5),
}


@pytest.mark.parametrize("kind", SCALARS)
def test_a_guard_with_a_scalar(kind: str) -> None:
    """The scalar is passed, not compiled into the derivative, as in the definition."""
    scalar, statement, number = SCALARS[kind]
    text = f"def f(double(V, D) T, int64(B) I, {scalar}) -> (O) {{ {statement} }}"
    table = torch.rand(5, 2, dtype=torch.double, requires_grad=True)
    index = torch.tensor([4, 1, 0, -1] if kind != "a length" else [4, 1, 0, 99])
    f = tc.make_autograd(tc.define(text, namespace="tc_scattered").f)
    assert torch.autograd.gradcheck(lambda t: f(t, index, number), [table])
    (derived,) = parse(tc.grad_source(text)).definitions
    assert not any(info.is_specialized for info in derived.inputs)


def test_a_table_is_read_only_where_a_solved_index_exists() -> None:
    text = """def f(double(5, 6, K) A, int32(N, K) t, double(K) y) -> (O) {
        O(i, k) = A(t(i + 1, k), i + 2, 2) * y(k)
    }"""
    table = torch.tensor([[0, 1, 1], [4, 2, 0], [3, 3, 3]], dtype=torch.int32)
    assert re.search(r" \+=\s", checked_gradient(text, (5, 6, 3), table, (3,)))


def test_what_others_decide_is_no_loop_of_a_scatter() -> None:
    text = """def f(double(N, N, P) A, int32(M) t) -> (O) {
        O(i, j) = A(i + 1, i, t(j)) * A(i + 1, i, t(j))
    }"""
    source = checked_gradient(text, (4, 4, 3), indices(2, 0, 2, 1, 2))
    (scatter,) = re.findall(r"d_A\((.*)\) \+=\s", source)
    assert scatter == "min(max(i + 1, 0), N - 1), i, i <= N - 2 ? t(j) : 0", source


def test_one_place_in_two_dimensions_and_a_table_in_a_third() -> None:
    text = checked_gradient(
        "def f(double(N, N, P) A, int32(M) t) -> (O) { O(i, j) = A(i, i, t(j)) * 2 }",
        (3, 3, 4),
        indices(1, 3, 1),
    )
    assert "(i0, (i0)," in text or "(i, (i)," in text


def test_a_place_that_is_a_number_of_the_program() -> None:
    checked_gradient(
        """def f(double(N, D) X, int32(K) I, double(N) S) -> (O) {
          R argmax=! S(n)
          O(k) = X(R, I(k))
        }""",
        (3, 4),
        indices(2, 0, 2),
        torch.tensor([0.5, 2.0, 1.0], dtype=torch.double),
    )


WINDOWS = {
    "two neighbours": (
        "double(N) x, int64(M) I, double(M) w",
        "O(m) +=! (a == 0 ? 1 - w(m) : w(m)) * x(I(m) + a) where a in 0:2",
        ((12,), [3, 0, 3, 9, 1, 4, 4, 7, 8], (9,)),
    ),
    "a filter": (
        "double(N, C) x, int64(M) I, double(K) w",
        "O(m, c) +=! w(k) * x(I(m) + k, c)",
        ((12, 2), [3, 0, 3, 9, 1, 4, 4, 7, 8], (3,)),
    ),
    "digits": (
        "double(N) x, int32(M) I, double(M) w",
        "O(m) +=! w(m) * x(I(m) + 2 * a + b) where a in 0:2, b in 0:2",
        ((13,), [3, 0, 3, 9, 1, 4, 4, 7, 8], (9,)),
    ),
    "strides": (
        "double(N, C) x, int64(M) I",
        "O(m, k, c) = x(I(m) + 2 * k, c) * (k + 2) where k in 0:3",
        ((14, 2), [3, 0, 3, 9, 1, 4, 4, 7, 8]),
    ),
    "of two dimensions": (
        "double(H, W) x, int64(M) I, int64(M) J, double(M, 2, 2) w",
        "O(m) +=! w(m, a, b) * x(I(m) + a, J(m) - b) where a in 0:2, b in 0:2",
        ((6, 7), [3, 0, 3, 2, 1, 4, 4, 1, 2], [1, 5, 1, 2, 3, 6, 6, 2, 1], (9, 2, 2)),
    ),
    "with zeros around": (
        "double(N) x, int64(M) I, double(3) w",
        "O(m) +=! I(m) + k >= 0 && I(m) + k < N ? w(k) * x(I(m) + k) : 0",
        ((8,), [3, -1, 3, 6, -2, 7, 7, 1, 90], (3,)),
    ),
    "rows of many lengths": (
        "double(L, D) x, int64(B) first, int64(B) count, double(T) w",
        "O(b, t, d) = t < count(b) ? w(t) * x(first(b) + t, d) : 0",
        ((12, 2), [0, 3, 3, 5, 9, 9, 11, 12, 12], [3, 0, 2, 4, 0, 2, 1, 0, 0], (4,)),
    ),
    "beside another": (
        "double(N, P) x, int64(M) I, int64(M) J",
        "O(m, k) = x(I(m) + k, J(m)) * (k + 2) where k in 0:3",
        ((12, 3), [3, 0, 3, 9, 1, 4, 4, 7, 8], [0, 2, 0, 1, 1, 2, 0, 1, 0]),
    ),
}


@pytest.mark.parametrize("kind", WINDOWS)
def test_windows_that_data_places_are_scattered(kind: str) -> None:
    """Else every element would look through all windows for those that hold it."""
    parameters, statement, given = WINDOWS[kind]
    inputs = [torch.tensor(g) if isinstance(g, list) else g for g in given]
    if "int32" in parameters:
        inputs = [g.int() if isinstance(g, torch.Tensor) else g for g in inputs]
    text = checked_gradient(f"def f({parameters}) -> (O) {{ {statement} }}", *inputs)
    assert re.search(r"d_x\(.*\) \+=\s", text), text


GATHERS = {
    "what another dimension decides": (
        "O(i, c) = x(I(c) + i, c) * (i + 2) where i in 0:3",
        (14, 9),
    ),
    "what a later dimension solves": (
        "O(i, c) = x(I(c) + i, c + 1) * (i + 2) where i in 0:3",
        (14, 10),
    ),
    "a whole dimension": ("O(c, i) = x(I(c) + i) * (i + 2) where i in 0:N - 9", (14,)),
    "a filter with few weights": ("O(i) +=! x(I(c) + i) * w(c) where i in 0:4", (14,)),
}


@pytest.mark.parametrize("kind", GATHERS)
def test_places_by_data_that_are_gathered(kind: str) -> None:
    """Every element looks at no more than a scatter would write."""
    statement, size = GATHERS[kind]
    parameters = "double(N, K) x" if len(size) == 2 else "double(N) x"
    text = checked_gradient(
        f"def f({parameters}, int64(C) I, double(C) w) -> (O) {{ {statement} }}",
        size,
        torch.tensor([3, 0, 3, 9, 1, 4, 4, 7, 8]),
        (9,),
    )
    assert " += " not in text and " +=\n" not in text, text


def test_windows_by_quotients_are_gathered() -> None:
    """The digits of an index leave few terms for every element."""
    text = checked_gradient(
        "def f(double(N) x, double(2) w) -> (O) {"
        " O(m) +=! w(a) * x(m / 2 + a) where m in 0:2 * N - 2 }",
        (7,),
        (2,),
    )
    assert "in 0:N * 2" not in text.split("d_w(")[0], text


FUNCTIONS = {
    "a function": "O(n) = cos(acos(x(n, y(n))) + 0.5)",
    "a power": "O(n) = pow(x(n, y(n)), 1.5)",
    "a logarithm": "O(n) = -log(x(n, y(n)))",
    "a square": "O(n) = x(n, y(n)) * x(n, y(n))",
    "of all": "O +=! pow(x(n, y(n)), 1.5) * w(y(n))",
    "under a guard": "O(n) = y(n) != -1 ? sin(x(n, y(n))) : 0",
    "with a place that is clamped": "O(i) = sin(x(i, min(i, 3)) * w(min(i, 3))) where i in 0:N",
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_functions_of_what_data_chooses(kind: str) -> None:
    """They are computed for what is read, not for all that might be."""
    y = torch.tensor([2, 0, 3, 3, 1] if kind != "under a guard" else [2, -1, 3, -1, 1])
    text = checked_gradient(
        f"def f(double(N, C) x, int64(N) y, double(C) w) -> (O) {{ {FUNCTIONS[kind]} }}",
        (5, 4),
        y,
        (4,),
    )
    (elements,) = re.findall(r"d_x\(n, i1\) = (.*)|d_x\(i, i1\) = (.*)", text)
    assert not re.search(r"[xw]\(|sin|acos|pow|/", "".join(elements).replace("int64(i1)", "")), text


def test_a_function_of_what_a_number_of_the_program_chooses() -> None:
    text = checked_gradient(
        """def f(double(N) X, double(N) S) -> (O) {
          R argmax=! S(n)
          O = pow(X(R), 1.5)
        }""",
        (4,),
        torch.tensor([0.5, 2.0, 1.0, 0.0], dtype=torch.double),
    )
    assert "pow" not in text.split("d_X(")[-1]
