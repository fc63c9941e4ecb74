"""Derivatives compute with integers in the text's types; what they leave out is zero in these.

Factors leave a sum only where conditions that guard its terms do not keep them from being infinite.
"""

from __future__ import annotations

import math
import re

import pytest
import torch

import tensor_comprehensions as tc


def gradients(text: str, *inputs: object, by: tuple[int, ...] = (0,)) -> tuple[torch.Tensor, ...]:
    leaves = [x.clone().requires_grad_() if k in by else x for k, x in enumerate(inputs)]
    result = tc.make_autograd(tc.define(text, namespace="tc_typed").f)(*leaves)
    return torch.autograd.grad(result.sum(), [leaves[k] for k in by])


def check(text: str, *inputs: object, by: tuple[int, ...] = (0,)) -> None:
    """Against differences of what the definition computes."""
    f = tc.make_autograd(tc.define(text, namespace="tc_typed").f)
    leaves = [x.clone().requires_grad_() if k in by else x for k, x in enumerate(inputs)]
    assert torch.autograd.gradcheck(f, leaves)


def d(*sizes: int) -> torch.Tensor:
    return torch.rand(*sizes, dtype=torch.double) + 0.5


def bytes_of(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.uint8)


BYTES = {
    "less a pad": (
        "double(N, C) X, uint8(C) u",
        "X(i + u(c) - 1, c) where i in 1:N - 1",
        (d(6, 3), bytes_of(0, 1, 2)),
    ),
    "subtracted": (
        "double(N, C) X, uint8(C) u",
        "X(i + 3 - u(c), c) where i in 2:N - 3",
        (d(9, 3), bytes_of(1, 3, 5)),
    ),
    "of two": (
        "double(N) X, uint8(C) u, uint8(C) v",
        "X(i + u(c) + v(c)) where i in 0:4",
        (d(310), bytes_of(200, 3), bytes_of(100, 4)),
    ),
    "times a number": (
        "double(N) X, uint8(C) u",
        "X(2 * (i + u(c))) where i in 0:4",
        (d(410), bytes_of(200, 3)),
    ),
}


@pytest.mark.parametrize("kind", BYTES)
def test_shifts_by_bytes_do_not_wrap_around(kind: str) -> None:
    parameters, value, inputs = BYTES[kind]
    check(f"def f({parameters}) -> (O) {{ O(i, c) = {value} }}", *inputs)


def test_scalars_that_are_known_keep_their_type() -> None:
    """A number in place of s would be of int8, and 100 times 100 of that is 16."""
    A, Q = torch.rand(201), torch.tensor([100, -2, 3], dtype=torch.int8)
    text = "def f(float(N) A, int8(M) Q, int32 s) -> (O) { O(i) = A(s * i) * (Q(i) * s) }"
    (gradient,) = gradients(text, A, Q, 100)
    assert gradient[::100].tolist() == [10000, -200, 300]


UNSIGNED = {
    "uint32": "s - uint32(i) > 0 ? A(i + s) : 0",
    "uint64": "s - 4 < i64 ? A(i + s) : 0",
    "a sum": "s - 4 >= uint32(i) ? A(i + s) : A(i)",
    "a choice": "(i > 2 ? s : 1) - uint32(i) > 0 ? A(i + s) : 0",
    "an index": "A(max(s - 5, uint32(i)) + s)",
}


@pytest.mark.parametrize("kind", UNSIGNED)
def test_scalars_that_are_known_keep_their_sign(kind: str) -> None:
    """A number in place of s would be of an unsigned type, and 2 - 3 of that is large."""
    value = UNSIGNED[kind].replace("i64", "uint64(i)")
    text = f"def f(double(N) A, int32 s) -> (O) {{ O(i) = {value} where i in 0:5 }}"
    check(text, d(9), 2)


def test_a_scalar_byte_is_an_int_in_a_sum() -> None:
    check("def f(double(N) X, uint8 p) -> (O) { O(i) = X(i + p - 1) where i in 1:N - 1 }", d(6), 0)


def test_a_subscript_that_a_weight_computes_with_keeps_its_type() -> None:
    u = bytes_of(20, 3, 17)  # 400 and 289 are 144 and 33 as bytes
    check("def f(double(M, N) X, uint8(N) u) -> (O) { O(i) = X(u(i), i) * float(u(i) * u(i)) }",
          d(25, 3), u)  # fmt: skip
    index = torch.tensor([30000, 5])
    x = torch.zeros(30001, 2, dtype=torch.double)
    text = "def f(double(M, N) X, int64(N) I) -> (O) { O(i) = X(I(i), i) * (I(i) * 100000) }"
    (gradient,) = gradients(text, x, index)
    wanted = torch.zeros_like(x)
    wanted[index, torch.arange(2)] = index.double() * 100000
    torch.testing.assert_close(gradient, wanted)


def test_a_byte_may_be_the_place_of_a_tensor_that_begins_below_zero() -> None:
    check(
        """def f(double(N) A, uint8(M) u) -> (O) {
          T(i) = A(i + 1) * A(i + 1)
          O(j) = u(j) < 3 ? T(u(j)) : 0.0
        }""",
        d(6),
        bytes_of(0, 2, 9, 1),
    )


def test_quotients_of_integers_round_as_factors() -> None:
    check(
        "def f(double(N) x, double(N, K) Y) -> (O) { O(i, k) = x(i) * (3 / 2) * Y(i, k) }",
        *(d(3), d(3, 4)),
    )
    check(
        """def f(double(N) X) -> (P) {
          P(h, k) = X(3 * h + k) * h * 2.0 where h in 0:4, k in 0:3
        }""",
        d(12),
    )


def test_functions_of_bytes_and_literals() -> None:
    check("def f(double(N) X, uint8(N) u) -> (O) { O(i) = atan2(u(i), X(i)) }",
          d(3), bytes_of(20, 3, 200))  # fmt: skip
    x = d(5)
    (gradient,) = gradients("def f(double(N) x) -> (O) { O(i) = pow(2.0, x(i)) }", x)
    torch.testing.assert_close(gradient, 2**x * math.log(2), rtol=1e-14, atol=0)


NARROW = {
    "atan2": ("float", "half", "atan2(A(i), B(i))", (100.0, 300.0)),
    "atan2, the other way": ("float", "half", "atan2(B(i), A(i))", (100.0, 300.0)),
    "pow": ("float", "bfloat16", "pow(A(i), B(i))", (100.0, 0.1)),
    "hypot of doubles": ("double", "float", "hypot(A(i), B(i))", (1e30, 1e30)),
    "in double": ("double", "half", "atan2(B(i), A(i))", (1e3, 300.0)),
}
DTYPES = {
    "half": torch.half,
    "bfloat16": torch.bfloat16,
    "float": torch.float,
    "double": torch.double,
}


@pytest.mark.parametrize("kind", NARROW)
def test_rules_compute_in_the_type_of_their_function(kind: str) -> None:
    """The square of 300 is no half, and 0.1 - 1 has few digits as a bfloat16."""
    wide, narrow, value, numbers = NARROW[kind]
    text = f"def f({wide}(N) A, {narrow}(N) B) -> (O) {{ O(i) = {value} }}"
    inputs = [torch.tensor([x], dtype=DTYPES[t]) for x, t in zip(numbers, (wide, narrow))]
    (found,) = gradients(text, *inputs)
    name, first, second = re.match(r"(\w+)\((\w)\(i\), (\w)", value).groups()
    leaves = {"A": inputs[0].clone().requires_grad_(), "B": inputs[1].to(DTYPES[wide])}
    getattr(torch, name)(leaves[first], leaves[second]).sum().backward()
    torch.testing.assert_close(found, leaves["A"].grad, rtol=1e-5, atol=0)


def test_digits_of_indices_whose_names_look_like_digits() -> None:
    check(
        """def f(double(A, 2, C, 2) X) -> (O) {
          O(a, a_0) = X(a / 2, a % 2, a_0 / 2, a_0 % 2) where a in 0:2 * A, a_0 in 0:2 * C
        }""",
        d(2, 2, 3, 2),
    )
    check("def f(double(A, M) X) -> (O) { O(i0) = X(0, i0 / 2) where i0 in 0:2 * M }", d(2, 3))


NO_ZEROS = {
    "parity of a float": "X(i) * (int32(y(i)) - int32(y(i)) / 2 * 2)",
    "parity of an integer": "X(i) * ((I(i) + 1) / 2 * 2 - I(i) - 1)",
    "rounded to fewer bits": "X(i) * (y(i) - double(bfloat16(y(i))))",
    "bytes that wrap around": "X(i) * (float(u(i) * u(i)) - float(u(i)) * float(u(i)))",
}


@pytest.mark.parametrize("kind", NO_ZEROS)
def test_what_integers_and_roundings_leave_is_no_zero(kind: str) -> None:
    y = torch.tensor([1.2, 2.2, 3.3, 4.7], dtype=torch.double)
    inputs = (d(4), y, torch.tensor([1, 2, 3, 10], dtype=torch.int32), bytes_of(20, 17, 200, 100))
    text = "def f(double(N) X, double(N) y, int32(N) I, uint8(N) u) -> (O) { O(i) = VALUE }"
    text = text.replace("VALUE", NO_ZEROS[kind])
    (gradient,) = gradients(text, *inputs)
    ones = tc.define(text, namespace="tc_typed").f(torch.ones_like(inputs[0]), *inputs[1:])
    assert ones.count_nonzero() > 0
    torch.testing.assert_close(gradient, ones)


GUARDED = {
    "divided": ("X(i, k) / s(i)", lambda x, s: x / s),
    "logarithm": ("X(i, k) * log(s(i))", lambda x, s: x * s.log()),
    "root": ("X(i, k) * rsqrt(s(i))", lambda x, s: x * s.rsqrt()),
}


@pytest.mark.parametrize("condition", ["s(i) > 0.0", "s(i) > 0.0 && k < 3"])
@pytest.mark.parametrize("kind", GUARDED)
def test_conditions_keep_factors_from_being_infinite(kind: str, condition: str) -> None:
    """A sum without terms is 0, also where what its terms would be divided by is 0."""
    value, function = GUARDED[kind]
    x, s = d(3, 4), torch.tensor([0.5, 0.0, 2.0], dtype=torch.double)
    text = f"def f(double(N, K) X, double(N) s) -> (O) {{ O(i, k) = {condition} ? {value} : 0.0 }}"
    found = gradients(text, x, s, by=(0, 1))
    leaves = x.requires_grad_(), s.requires_grad_()
    kept = torch.zeros(3, 4, dtype=torch.bool)
    kept[[0, 2], : 3 if "k < 3" in condition else 4] = True
    rows = torch.where(leaves[1] > 0, leaves[1], 1.0)[:, None]
    right = torch.where(kept, function(leaves[0], rows), 0.0)
    torch.testing.assert_close(found, torch.autograd.grad(right.sum(), leaves))


def test_elements_that_no_point_reads_receive_zero() -> None:
    x = d(3, 4)
    for unused in (0.0, math.nan):
        s = torch.tensor([0.5, 1.0, unused], dtype=torch.double)
        text = """def f(double(N, K) X, double(N) s) -> (O) {
          O(i, k) = X(i, k) / s(i) where i in 0:N - 1
        }"""
        (gradient,) = gradients(text, x, s, by=(1,))
        wanted = torch.cat([-x[:2].sum(1) / s[:2] ** 2, torch.zeros(1, dtype=torch.double)])
        torch.testing.assert_close(gradient, wanted)


INTEGERS = {
    "int8": ("x(n) * Q(n, k)", "int8(N, K) Q", torch.full((2, 3), 100, dtype=torch.int8)),
    "bool": ("x(n) * Q(n, k)", "bool(N, K) Q", torch.ones(2, 3, dtype=torch.bool)),
    "index": ("x(n) * k", "double(K) Q", torch.zeros(70000)),
    "quotient": ("(k + 1) / ((Q(n) + 1) * x(n))", "int64(N) Q, float(K) like", None),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_sums_of_integers_are_the_gradients_type(name: str) -> None:
    """Where all that is a float leaves the sum, what stays is added up as a float."""
    value, inputs, q = INTEGERS[name]
    text = f"def f(double(N) x, {inputs}) -> (O) {{ O(n) +=! {value} where n in 0:N, k in 0:K }}"
    x = torch.tensor([1.5, 2.0], dtype=torch.double)
    k = torch.arange(3.0, dtype=torch.double) + 1
    if q is None:
        q = torch.tensor([1, 2])
        (actual,) = gradients(text, x, q, torch.zeros(3))
        expected = -k.sum() / ((q + 1) * x * x)
    else:
        q = q.double() if name == "index" else q
        (actual,) = gradients(text, x, q)
        expected = q.double().sum(1) if q.dim() == 2 else torch.arange(70000.0).double().sum()
    torch.testing.assert_close(actual, expected.expand(2))


@pytest.mark.parametrize("function", ["fabs", "abs", "copysign"])
def test_chains_of_signs_stay_short(function: str) -> None:
    """The factor of each stands in the next one's derivative once."""
    value = "x(i)"
    for _ in range(28):
        value = (
            f"copysign({value} - 1, x(i))" if function == "copysign" else f"{function}({value} - 1)"
        )
    text = f"def f(double(N) x) -> (O) {{ O(i) = {value} }}"
    x = torch.tensor([0.3, -2.6, 7.4], dtype=torch.double)
    check(text, x)


def test_a_scalar_that_is_called_without_arguments_may_be_a_tensor() -> None:
    text = "def f(float(N) x, float a) -> (O) { O(i) = x(i) * a() }"
    a = torch.tensor(2.0, requires_grad=True)
    f = tc.make_autograd(tc.define(text, namespace="tc_typed").f)
    f(torch.arange(4.0), a).sum().backward()
    assert a.grad == 6
