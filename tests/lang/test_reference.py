"""The interpreter: against PyTorch on the papers' texts, and rule by rule of docs/language.md."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from workloads import WORKLOADS, Workload, assert_near

import tensor_comprehensions as tc
from tensor_comprehensions import reference


def evaluate(
    body: str, parameters: str = "float(N) A", *inputs: object, result: str = "O"
) -> object:
    text = f"def f({parameters}) -> ({result}) {{ {body} }}"
    return reference.run(text, "f", *inputs)


ARANGE = np.arange(6, dtype=np.float32)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_texts_of_the_papers(workload: Workload) -> None:
    torch.manual_seed(0)
    inputs = workload.inputs()
    initial = workload.initial() if workload.initial else ()
    results, bounds = reference.error_bounds(
        workload.text, workload.entry, *inputs, outputs=initial or None
    )
    results = results if isinstance(results, tuple) else (results,)
    wanted = workload.reference(*inputs, *initial)
    assert_near(workload, results, wanted)
    for actual, value, bound in zip(results, wanted, bounds, strict=True):
        apart = (actual.double() - value.double()).abs()
        assert bool((apart <= 2 * torch.from_numpy(bound)).all())


@pytest.mark.parametrize(
    ("statement", "low", "high"),
    [
        ("O(i) = A(2 * i)", 0, 3),
        ("O(i) = A(2 * i) + A(2 * i + 1)", 0, 3),
        ("O(i) = A(i - 1)", 1, 7),
        ("O(i) = A(10 - i)", 5, 11),
        ("O(i) = A(i / 2)", 0, 12),
        ("O(i) = A((i + 1) / 2)", -1, 11),
        ("O(i) = A(i / 2 + 1)", -2, 10),
        ("O(i) = A(3 - i / 2)", -4, 8),
        ("O(i) = A(2 * (i / 3))", 0, 9),
        ("O(i) = A((i / 2 + N / 4) / 3)", -2, 34),
        ("O(i) = A(i + (N - 7) / 2)", 0, 6),
        ("O(i) = A(i) where exists A(i + 2)", 0, 4),
        ("O(i) = A(i) + x where x = A(i + 1)", 0, 5),
        ("O(i) = A(i) where i in 1:N - 1", 1, 5),
        ("O(i) = A(i % 2) where i in 0:7", 0, 7),
    ],
)
def test_ranges(statement: str, low: int, high: int) -> None:
    text = f"def f(float(N) A) -> (O) {{ {statement} }}"
    assert reference.infer_ranges(text, "f", ARANGE) == [{"i": (low, high)}]


def test_ranges_in_rounds_and_from_later_statements() -> None:
    text = """
    def f(float(H) I, float(K) W) -> (O) {
      O(h) = 0
      O(h) += I(2 * h + k) * W(k)
    }"""
    ranges = reference.infer_ranges(text, "f", np.ones(10, np.float32), np.ones(3, np.float32))
    assert ranges == [{"h": (0, 4)}, {"h": (0, 4), "k": (0, 3)}]


def test_a_range_that_starts_elsewhere_is_read_by_its_index() -> None:
    result = evaluate(
        "T(i) = A(i - 1) O(j) = T(j) * j P = T(1)", "float(N) A", ARANGE, result="O, P"
    )
    np.testing.assert_array_equal(result[0], ARANGE * np.arange(1, 7))
    assert result[1] == ARANGE[0]


def test_what_writes_nothing_lies_nowhere_outside() -> None:
    """Nor is it an error for the compiler."""
    text = """def f(float(N, M) A, float(N) B) -> (O) {
        O(i, j) max=! A(i, j) * A(r, j)
        O(i, j) min= B(i) where j in 0:3
    }"""
    inputs = torch.zeros(0, 2), torch.zeros(0)
    assert reference.run(text, "f", *inputs).shape == (0, 2)
    assert tc.compile(text, "f", None, *inputs)(*inputs).shape == (0, 2)


def test_no_index_of_nothing() -> None:
    """Not even for a result without elements."""
    text = "def f(float(N, M) A) -> (O) { O(i) argmax=! A(i, j) }"
    for run in (reference.run, lambda *a: tc.compile(a[0], a[1], None, a[2])(a[2])):
        assert run(text, "f", torch.zeros(0, 2)).shape == (0,)
        for rows in 0, 3:
            with pytest.raises(tc.ShapeError, match=r"argmax=!? (over an empty range|looks along)"):
                run(text, "f", torch.zeros(rows, 0))


def test_tensors_are_joined() -> None:
    body = "O(i) = A(i) where i in 0:N O(i) = B(i - N) where i in N:N + M"
    b = np.full(3, 7, np.float32)
    joined = evaluate(body, "float(N) A, float(M) B", ARANGE, b)
    np.testing.assert_array_equal(joined, np.concatenate([ARANGE, b]))


@pytest.mark.parametrize(
    ("expression", "dtype", "value"),
    [
        ("u(i) + 1", "uint8", 201),
        ("u(i) + 100", "uint8", 44),
        ("u(i) * s(i)", "int16", -600),
        ("-u(i)", "uint8", 56),
        ("s(i) / 2", "int8", -1),
        ("s(i) % 2", "int8", -1),
        ("s(i) / (s(i) + 3)", "int8", 0),
        ("1 / 2 + s(i)", "int8", -3),
        ("u(i) * 0.5", "float32", 100),
        ("h(i) * 0.5", "float16", 0.75),
        ("h(i) + u(i)", "float16", 201.5),
        ("h(i) * N", "float16", 1.5),
        ("u(i) > s(i)", "bool", True),
        ("(u(i) > 3) + (u(i) > 4)", "int32", 2),
        ("max(u(i) > 3, u(i) > 250)", "bool", True),
        ("u(i) + (u(i) > 3 ? 1 : 2)", "uint8", 201),
        ("int64(u(i)) * 100", "int64", 20000),
        ("sqrt(u(i) / 2)", "float32", 10),
        ("abs(s(i))", "int8", 3),
        ("isnan(h(i))", "bool", False),
        ("3000000000", "int64", 3000000000),
        ("i + 0x1F", "int32", 31),
    ],
)
def test_types(expression: str, dtype: str, value: object) -> None:
    u, s = np.array([200], np.uint8), np.array([-3], np.int8)
    h = np.array([1.5], np.float16)
    parameters = "uint8(N) u, int8(N) s, half(N) h"
    result = evaluate(f"O(i) = {expression} where i in 0:N", parameters, u, s, h)
    assert (str(result.dtype), result[0]) == (dtype, value)


def test_sums_of_half_accumulate_in_float_and_round_once() -> None:
    h = torch.full((4096,), 1.0, dtype=torch.half)
    text = "def f(half(N) A) -> (O) { O +=! A(i) }"
    assert reference.run(text, "f", h).item() == 4096
    b = torch.full((1000,), 1.0, dtype=torch.bfloat16)
    result = reference.run(text.replace("half", "bfloat16"), "f", b)
    assert result.dtype == torch.bfloat16
    assert result.item() == torch.tensor(1000.0).bfloat16().item()


def test_every_other_operation_on_half_is_rounded() -> None:
    h = np.array([2048], np.float16)
    assert evaluate("O(i) = (A(i) + 1) - A(i)", "half(N) A", h)[0] == 0


def test_reads_count_only_where_they_are_evaluated() -> None:
    shifted = evaluate("O(i) = i > 0 ? A(i - 1) : 0 where i in 0:N", "float(N) A", ARANGE)
    np.testing.assert_array_equal(shifted, [0, 0, 1, 2, 3, 4])
    both = evaluate("O(i) = i > 0 && A(i - 1) > 1 where i in 0:N", "float(N) A", ARANGE)
    np.testing.assert_array_equal(both, [False, False, False, True, True, True])
    # Where an index has no value, nothing is: neither a table nor what it leads to.
    table = np.array([3, 4], np.int32)
    looked_up = "O(i, j) = A(i, I(j))", "float(N, M) A, int32(K) I"
    assert evaluate(*looked_up, np.zeros((0, 0), np.float32), table).shape == (0, 2)
    with pytest.raises(tc.ShapeError, match=r"subscript 1 reaches 3, but .* holds 0:0"):
        evaluate(*looked_up, np.zeros((2, 0), np.float32), table)


def test_the_right_side_is_read_before_anything_is_written() -> None:
    body = "O(i) = A(i) O(i) = O(N - 1 - i) - O(i)"
    np.testing.assert_array_equal(evaluate(body, "float(N) A", ARANGE), ARANGE[::-1] - ARANGE)


@pytest.mark.parametrize(
    ("operator", "value"),
    [("+=!", 15), ("*=!", 0), ("min=!", 0), ("max=!", 5), ("+=", 17), ("max=", 5), ("min=", 0)],
)
def test_reductions(operator: str, value: float) -> None:
    result = evaluate(f"O = 2 O {operator} A(i)", "float(N) A", ARANGE)
    assert result == value


def test_logical_reductions_and_positions() -> None:
    b = np.array([[True, False], [True, True], [False, False]])
    for operator, wanted in (("&&=!", b.all(1)), ("||=!", b.any(1))):
        np.testing.assert_array_equal(
            evaluate(f"O(i) {operator} A(i, k)", "bool(N, M) A", b), wanted
        )
    x = torch.tensor([[1.0, 3.0, 3.0], [float("nan"), 9.0, 1.0], [2.0, 2.0, -1.0]])
    for name in ("argmin", "argmax"):
        for operator in (f"{name}=", f"{name}=!"):
            text = f"def f(float(N, M) A) -> (O) {{ O(i) {operator} A(i, k) }}"
            torch.testing.assert_close(reference.run(text, "f", x), getattr(x, name)(1))
    text = "def f(float(N, M) A) -> (O) { O argmax=! A(i, k) }"
    assert reference.run(text, "f", x) == x.argmax()
    # One index has its value, wherever it starts; two count from 0.
    assert evaluate("O argmax=! A(k - 2)", "float(N) A", ARANGE) == 7
    assert evaluate("O argmin=! A(k + 1)", "float(N) A", ARANGE) == -1
    assert evaluate("O argmin=! A(k + 1) + A(l - 2)", "float(N) A", ARANGE) == 0


def test_calls() -> None:
    text = """
    def scale(float(N) A, float s) -> (R) { R(i) = A(i) * s }
    def both(float(N) A) -> (P, Q) { P(i) = A(i) + 1 Q +=! A(i) }
    def f(float(M) X) -> (T, U, V) {
      T = scale(X, 2)
      (U, V) = both(T)
    }"""
    t, u, v = reference.run(text, "f", ARANGE)
    np.testing.assert_array_equal(t, 2 * ARANGE)
    np.testing.assert_array_equal(u, 2 * ARANGE + 1)
    assert v == 30


SUMS = {
    "of one": ("O(n) +=! A(n, k) * c(n)", [0.0, 0.0]),
    "of three": ("O(n) +=! A(n, k) * b(k) * c(n)", [np.inf, 0.0]),
    # What two sums share may be summed by itself.
    "of one, twice": ("T(n) +=! A(n, k)  O(n) +=! A(n, k) * c(n)", [np.inf, 0.0]),
}


@pytest.mark.parametrize(("statements", "bounds"), SUMS.values(), ids=SUMS)
def test_products_promise_nothing_of_infinities(statements: str, bounds: list[float]) -> None:
    text = f"def f(float(N, K) A, float(K) b, float(N) c) -> (O) {{ {statements} }}"
    a = np.array([[1.0, 0.0], [1.0, 2.0]], np.float32)
    b, c = np.array([1.0, 2.0], np.float32), np.array([np.inf, 3.0], np.float32)
    assert reference.error_bounds(text, "f", a, b, c)[1][0].tolist() == bounds


def test_bounds_are_zero_where_nothing_is_rounded() -> None:
    text = "def f(float(N) A) -> (O, P) { O +=! A(i) * A(i) P +=! A(i) / 3 }"
    _, (exact, rounded) = reference.error_bounds(text, "f", ARANGE)
    assert exact == 0
    assert 0 < rounded < 1e-5


def test_nothing_is_promised_about_elements_that_no_statement_writes() -> None:
    text = """def f(float(N) A) -> (O, P, Q) {
        O(i) = A(i) where i in 2:4
        O(i) = A(i) where i in 0:1
        P(i) = O(i) * 0
        P(i) += O(3 - i)
        Q +=! O(i)
    }"""
    _, (o, p, q) = reference.error_bounds(text, "f", ARANGE)
    np.testing.assert_equal(o, [0, np.inf, 0, 0])
    np.testing.assert_equal(p, [0, np.inf, np.inf, 0])
    assert q == np.inf


@pytest.mark.parametrize("dtype", ["half", "bfloat16", "float"])
def test_a_product_that_overflows_on_the_way_to_zero(dtype: str) -> None:
    a = torch.tensor([1e4] * 20 + [0.0]).to(getattr(torch, dtype))
    text = f"def f({dtype}(N) A) -> (P) {{ P *=! A(i) }}"
    _, (bound,) = reference.error_bounds(text, "f", a)
    assert bound == np.inf


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "sinpi", "cospi", "j0", "j1", "y0", "y1"])
def test_functions_that_swing_within_the_error_of_their_argument(name: str) -> None:
    text = f"def f(float(N) A) -> (O) {{ S(i) +=! A(i) / k where k in 3:7 O(i) = {name}(S(i)) }}"
    _, ((small, large),) = reference.error_bounds(text, "f", np.array([1.0, 1e9], np.float32))
    assert 0 < small < 1e-5
    assert large == np.inf


@pytest.mark.parametrize(("name", "zero"), [("cospi", 1.5), ("cospi", -0.5), ("sinpi", -3.0)])
def test_functions_of_half_turns_have_all_their_digits_near_their_zeros(
    name: str, zero: float
) -> None:
    distance = np.arange(-8, 9) * 2.0**-40
    values = evaluate(f"O(i) = {name}(A(i))", "double(N) A", zero + distance)
    slopes = values[distance != 0] / distance[distance != 0]
    np.testing.assert_allclose(np.abs(slopes), np.pi, rtol=1e-15)
    assert values[8] == 0


@pytest.mark.parametrize("zero", [-2.4570247382208006, -3.14358088834998, 1.0, 2.0])
def test_lgamma_has_all_its_digits_near_its_zeros(zero: float) -> None:
    """There it is a line: next to no difference of differences, which Python's function has."""
    near = zero + np.arange(-8, 9) * 2.0**-48
    values = evaluate("O(i) = lgamma(A(i))", "double(N) A", near)
    steps = np.diff(values)
    assert np.abs(steps / steps.mean() - 1).max() < 1e-6


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("O(i) = A(i) * A(k)", tc.LanguageError, "does not specify a reduction"),
        ("O(i) argmax=! A(i)", tc.LanguageError, "argmax=! gives the index of a value, but every"),
        ("O(i) = 1", tc.LanguageError, "i has no range"),
        ("O(i) = B(i)", tc.LanguageError, "undefined tensor or function B"),
        ("A(i) = 1", tc.LanguageError, "inputs are immutable"),
        ("O(i) = A(i) ? 1 : 2", tc.LanguageError, "a condition must be bool, not float"),
        ("O(i) = int8(A(i)) + 300", tc.LanguageError, "the literal 300 has no value in int8"),
        ("O(i) = A(i + 1) where i in 0:N", tc.ShapeError, "reads A outside"),
        ("O(i) = A(i) O(i) = A(i - 1)", tc.ShapeError, "writes O outside"),
        ("O(i) += A(i)", tc.ShapeError, "pass its contents in outputs"),
        ("O(i = A(i)", tc.LanguageError, "expected ','"),
    ],
)
def test_refusals(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        evaluate(text, "float(N) A", ARANGE)
