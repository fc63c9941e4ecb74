"""Definitions that call definitions: what is called has the sizes and types of its own."""

from __future__ import annotations

import pickle
import time
import warnings

import pytest
import torch

import tensor_comprehensions as tc
from tensor_comprehensions import reference
from tensor_comprehensions._torch import parse

MATMUL = "def matmul(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }\n"
SUM = "def sums(float(M,K) A) -> (S) { S(m) +=! A(m,k) }\n"
BLUR = "def blur(float(N) A) -> (B) { B(i) = A(i) + A(i + 1) + A(i + 2) }\n"
SHIFT = "def shift(float(N) A, int32 s) -> (B) { B(i) = A(i) * s }\n"


def define(text: str, namespace: str = "tc_calls") -> tc.TC:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one text after the other has these names
        return tc.define(text, namespace=namespace)


def refused(text: str, *inputs: object, entry: str = "f") -> str:
    """What is said to a text, or to a call of it; the interpreter refuses that as well."""
    with pytest.raises((tc.LanguageError, tc.ShapeError)):
        reference.run(text, entry, *inputs)
    with pytest.raises((tc.LanguageError, tc.ShapeError)) as caught:
        define(text)(entry, *inputs)
    return str(caught.value)


def same(text: str, *inputs: object, entry: str = "f") -> None:
    actual = define(text)(entry, *inputs)
    expected = reference.run(text, entry, *inputs)
    assert actual.dtype == expected.dtype
    assert torch.equal(actual, expected)


def whole(*sizes: int) -> torch.Tensor:
    return torch.randint(-3, 4, sizes).float()


def test_sizes_of_inputs_become_one() -> None:
    text = MATMUL + "def f(float(P,Q) X, float(R,S) Y) -> (D) { D = matmul(X, Y) }"
    same(text, whole(3, 4), whole(4, 6))
    message = refused(text, whole(3, 4), whole(5, 6))
    assert message == (
        "Mismatched sizes for dimension 0 of argument Y: Q is 4 (dimension 1 of X) but found 5"
    )


def test_a_size_of_an_input_becomes_a_number() -> None:
    text = (
        "def four(float(M,4) A) -> (S) { S(m) +=! A(m,k) }\n"
        "def f(float(P,Q) X, float(Q) Y) -> (D, E) { D = four(X)\n E(q) = Y(q) * Q }"
    )
    assert torch.equal(define(text).f(whole(3, 4), torch.ones(4))[1], torch.full((4,), 4.0))
    message = refused(text, whole(3, 5), whole(5))
    assert message == ("argument X: Constant dimension expected size 4 for dimension 1 but found 5")


def test_numbers_that_differ() -> None:
    text = (
        "def four(float(M,4) A) -> (S) { S(m) +=! A(m,k) }\n"
        "def f(float(P,5) X) -> (D) { D = four(X) }"
    )
    message = refused(text, whole(3, 5))
    assert "four takes 4 for dimension 1 of A, but that of X is 5" in message
    assert message.splitlines()[-1].strip() == "^~~~~~~~~~~"


def test_sizes_of_what_another_call_gave() -> None:
    text = (
        MATMUL
        + "def f(float(A,B) X, float(C,D) Y, float(E,F) Z) -> (O) {"
        + " T = matmul(X, Y)\n O = matmul(T, Z) }"
    )
    same(text, whole(2, 3), whole(3, 4), whole(4, 5))
    message = refused(text, whole(2, 3), whole(3, 4), whole(6, 5))
    assert "Mismatched sizes for dimension 0 of argument Z" in message


def test_computed_sizes_are_compared_by_the_call() -> None:
    text = (
        BLUR
        + "def dot(float(N) A, float(N) B) -> (S) { S +=! A(i) * B(i) }\n"
        + "def f(float(N) X, float(M) Y) -> (S) { T = blur(X)\n S = dot(T, Y) }"
    )
    same(text, whole(10), whole(8))
    message = refused(text, whole(10), whole(9))
    assert message == "f: N = 8 was expected for dimension 0 of B of dot, but that of Y is 9"


def test_computed_sizes_that_never_agree() -> None:
    text = (
        BLUR
        + "def dot(float(N) A, float(N) B) -> (S) { S +=! A(i) * B(i) }\n"
        + "def f(float(N) X) -> (S) { T = blur(X)\n S = dot(T, X) }"
    )
    message = refused(text, whole(10))
    assert "dot takes N = N - 2 for dimension 0 of B, but that of X is N" in message


def test_calls_inside_calls() -> None:
    text = (
        MATMUL
        + "def twice(float(A,B) X, float(C,D) Y, float(E,F) Z) -> (O) {"
        + " T = matmul(X, Y)\n O = matmul(T, Z) }\n"
        + "def f(float(G,H) U, float(I,J) V) -> (W) { W = twice(U, V, V) }"
    )
    same(text, whole(2, 3), whole(3, 3))
    assert "Mismatched sizes" in refused(text, whole(2, 3), whole(3, 4))


def test_declared_sizes_of_results() -> None:
    text = (
        "def head(float(N) A, float(M) B) -> (float(M) C) { C(i) = A(i) where i in 0:N }\n"
        "def f(float(P) X, float(Q) Y) -> (Z) { Z = head(X, Y) }"
    )
    same(text, whole(4), whole(4))
    assert "Mismatched sizes for dimension 0 of argument Y" in refused(text, whole(4), whole(5))


def test_one_size_where_the_caller_uses_both_names() -> None:
    text = (
        MATMUL
        + "def f(float(P,Q) X, float(R,S) Y) -> (D, E) {"
        + " D = matmul(X, Y)\n E(i) = Y(i, 0) * R + Q where i in 0:R }"
    )
    x, y = whole(3, 4), whole(4, 6)
    d, e = define(text).f(x, y)
    assert torch.equal(d, x @ y)
    assert torch.equal(e, y[:, 0] * 4 + 4)


def test_a_copy_asks_for_the_same() -> None:
    text = MATMUL + "def f(float(P,Q) X, float(R,S) Y) -> (D) { D = matmul(X, Y) }"
    again = pickle.loads(pickle.dumps(define(text).f))
    with pytest.raises(tc.ShapeError, match="Q is 4"):
        again(whole(3, 4), whole(5, 6))


def test_types_of_tensors() -> None:
    text = SUM + "def f(int32(M,K) X) -> (S) { S = sums(X) }"
    message = refused(text, torch.ones(3, 4, dtype=torch.int32))
    assert (
        "sums takes a tensor of float for A, but X is of int32; convert it in a statement of its "
        "own, as in X_(i, j) = float(X(i, j))" in message
    )


def test_types_of_what_was_computed() -> None:
    text = SUM + "def f(float(M,K) X) -> (S) { T(m,k) = int32(X(m,k))\n S = sums(T) }"
    assert "sums takes a tensor of float for A, but T is of int32" in refused(text, whole(3, 4))


@pytest.mark.parametrize("argument", ["2.5", "-2.5", "7 / 2.0", "2"])
def test_numbers_become_what_the_parameter_is(argument: str) -> None:
    same(SHIFT + f"def f(float(N) X) -> (Y) {{ Y = shift(X, {argument}) }}", whole(5))


@pytest.mark.parametrize(
    ("given", "wanted", "value"),
    [("int32", "uint8", 300), ("int32", "float", 2), ("float", "int32", 2.75)],
)
def test_scalars_become_what_the_parameter_is(given: str, wanted: str, value: float) -> None:
    text = (
        f"def g(int32(N) A, {wanted} s) -> (B) {{ B(i) = A(i) / s }}\n"
        f"def f(int32(N) X, {given} q) -> (Y) {{ Y = g(X, q) }}"
    )
    same(text, torch.arange(-5, 6, dtype=torch.int32), value)


def test_scalars_in_subscripts_and_ranges() -> None:
    text = (
        "def part(float(N) A, int32 s) -> (B) { B(i) = A(i + s) where i in 0:s }\n"
        "def f(float(N) X, int32 q) -> (Y) { Y = part(X, q / 2 + 1) }"
    )
    same(text, whole(9), 5)


def test_temporaries_of_what_is_called_are_called_as_nothing_else() -> None:
    callee = "def f(float(N) A) -> (O) { T(i) = A(i)  O(i) = T(i) * 2 }\n"
    # An index and a let of the caller.
    same(callee + "def g(float(N) A) -> (R) { B = f(A)  R(f_T) = B(f_T) }", whole(5), entry="g")
    text = callee + "def g(float(N) A) -> (R) { B = f(A)  R(i) = f_T + 1 where f_T = B(i) }"
    same(text, whole(5), entry="g")
    # A function.
    text = (
        "def cyl_bessel(float(N) A) -> (O) { i0(i) = A(i)  O(i) = i0(i) * 2 }\n"
        "def g(float(N) A) -> (R) { R = cyl_bessel(A) }"
    )
    same(text, whole(5), entry="g")


def test_indices_of_what_is_called_stay_apart() -> None:
    """One of them has a name that the caller uses, the other the one that this would get."""
    text = (
        "def f(float(N, M) A) -> (O) { O(i_1, i) = A(i_1, i) * 2 }\n"
        "def g(float(N, M) A, float(N) i) -> (R) { B = f(A)  R(n, m) = B(n, m) * i(n) }"
    )
    same(text, whole(3, 4), whole(3), entry="g")


def test_an_argument_names_what_the_caller_has() -> None:
    scale = "def scale(float(N) A, float alpha) -> (R) { R(i) = A(i) * alpha }\n"
    for argument in ("i", "i + 1", "X(i)"):
        text = scale + f"def f(float(N) A, float(N) X) -> (R) {{ R = scale(A, {argument}) }}"
        assert "undefined variable i" in refused(text, whole(4), whole(4))


def test_a_size_that_a_call_fixes_is_an_int32() -> None:
    t = tc.define("""
def doubled(float(4) X) -> (Y) { Y(i) = X(i) * 2 }
def f(float(N) A, uint8(M) U) -> (Y, O) {
  Y = doubled(A)
  O(i) = U(i) * N
}""")
    scaled = t.f(torch.ones(4), torch.full((3,), 100, dtype=torch.uint8))[1]
    assert torch.equal(scaled, torch.full((3,), 400, dtype=torch.int32))


def test_a_result_may_replace_an_argument() -> None:
    """What is called reads its argument as it was before the call."""
    twice = "def g(float(N) X) -> (O) { O(i) = X(i) * 2  O(i) = O(i) + X(i) }\n"
    same(twice + "def f(float(N) A) -> (T) { T(i) = A(i)  T = g(T) }", whole(5))
    reverse = "def g(float(N) X) -> (O) { O(i) = X(N - 1 - i) }\n"
    same(reverse + "def f(float(N) A) -> (T) { T(i) = A(i)  T = g(T)  T = g(T) }", whole(5))
    both = "def g(float(N) X, float(N) Y) -> (O, P) { O(i) = X(i) + Y(i)  P(i) = X(i) - Y(i) }\n"
    swapped = "{ S(i) = A(i)  T(i) = A(i) * 3  (S, T) = g(T, S)  R(i) = S(i) - 2 * T(i) }"
    same(both + "def f(float(N) A) -> (R) " + swapped, whole(5))
    # A result without dimensions that is an argument of another kind; a type of its own.
    add = "def g(float(N) X, float s) -> (float O) { O +=! X(i)  O = O * s + s }\n"
    same(add + "def f(float(N) A) -> (T) { T +=! A(i)  T = g(A, T + 1) }", whole(5))


def test_sizes_of_many_calls_become_one_in_time() -> None:
    """60 inputs of a chain have 240 sizes of their own, of which 4 stay."""
    text = "def add(float(A,B,C,D) x, float(A,B,C,D) y) -> (z) "
    text += "{ z(i,j,k,l) = x(i,j,k,l) + y(i,j,k,l) }\ndef f("
    text += ", ".join(f"float(A{n},B{n},C{n},D{n}) I{n}" for n in range(60)) + ") -> (S59) {\n"
    text += "  S1 = add(I0, I1)\n"
    text += "".join(f"  S{n} = add(S{n - 1}, I{n})\n" for n in range(2, 60)) + "}\n"
    start = time.process_time()
    module = parse(text)
    assert time.process_time() - start < 5  # 0.5 are measured
    assert {size for size in "ABCD" if f"{size}1" in module.definitions[1].text} == set()
    assert module.definitions[1].text.count("A0,") == 60


def called(text: str, *inputs: object, entry: str = "f") -> object:
    return define(text)(entry, *inputs)


BYTES = torch.tensor([1, 2, 3], dtype=torch.uint8)
INTS = torch.tensor([7, -5, 0], dtype=torch.int32)
#: A definition with an int32 scalar, and what it makes of BYTES and the value, in int32 or wider.
WITH_SCALAR = [
    ("R(i) = A(i) * s", lambda a, s: a * s),
    ("R(i) = s - A(i)", lambda a, s: s - a),
    ("R(i) = A(i) * (s + s)", lambda a, s: a * (2 * s)),
    ("R(i) = x * A(i) where x = s * 2", lambda a, s: a * (2 * s)),
    ("R(i) = A(i) > s", lambda a, s: a > s),
    ("R(i) = A(i) > 1 ? s : A(i)", lambda a, s: torch.where(a > 1, s, a)),
    ("R(i) = max(A(i), s)", lambda a, s: a.clamp(min=s)),
]


@pytest.mark.parametrize("argument", ["200", "0xC8", "-7", "3 - 5", "300", "0", "20 * 10 + 1"])
@pytest.mark.parametrize("statement, wanted", WITH_SCALAR)
def test_a_number_has_the_type_of_its_parameter(
    statement: str, wanted: object, argument: str
) -> None:
    """It does not take that of what it meets in there."""
    text = (
        f"def q(uint8(N) A, int32 s) -> (R) {{ {statement} }}\n"
        f"def f(uint8(N) A) -> (R) {{ R = q(A, {argument}) }}"
    )
    value = eval(argument)
    expected = wanted(BYTES.int(), torch.tensor(value, dtype=torch.int32))
    assert called(text, BYTES).dtype == expected.dtype
    assert torch.equal(called(text, BYTES), expected)
    assert torch.equal(called(text, BYTES, value, entry="q"), expected)


def test_a_number_in_a_sum_has_the_type_of_its_parameter() -> None:
    text = (
        "def q(uint8(N, K) A, int32 s) -> (R) { R(i) +=! A(i, k) * s }\n"
        "def f(uint8(N, K) A) -> (R) { R = q(A, 1) }"
    )
    a = torch.full((2, 5), 200, dtype=torch.uint8)
    assert torch.equal(called(text, a), torch.full((2,), 1000, dtype=torch.int32))


def test_a_number_that_divides_may_be_0() -> None:
    text = "def q(int32(N) A, int32 s) -> (R) { R(i) = A(i) / s + A(i) % s }\n"
    text += "def f(int32(N) A) -> (R) { R = q(A, 0) }"
    assert torch.equal(called(text, INTS), torch.zeros_like(INTS))
    text = "def q(int32(N) A, int32 s) -> (R) { R(i) = A(i / s) where i in 0:N }\n"
    text += "def f(int32(N) A) -> (R) { R = q(A, 0) }"
    assert torch.equal(called(text, INTS), INTS[:1].expand(3))


def test_a_number_among_halves() -> None:
    """1000 * 1000 is one of int32, and infinite in half."""
    text = "def q(half(N) A, int32 s) -> (R) { R(i) = A(i) + s * s }\n"
    text += "def f(half(N) A) -> (R) { R = q(A, 1000) }"
    assert torch.equal(called(text, torch.ones(3).half()), torch.full((3,), torch.inf).half())


@pytest.mark.parametrize("argument", ["2", "1 + 1", "6 / 3"])
def test_a_number_in_subscripts_and_ranges(argument: str) -> None:
    """They are found as with the number in its place; in data it has its type."""
    text = (
        "def q(float(N) A, uint8(M) I, int32 s) -> (R) "
        "{ R(i) = A(s * i + s / 2) + A(I(i) * s % N) where i in 0:M / s }\n"
        f"def f(float(N) A, uint8(M) I) -> (R) {{ R = q(A, I, {argument}) }}"
    )
    a, indices = whole(300), torch.tensor([200, 140, 3, 4, 5, 6], dtype=torch.uint8)
    expected = a[1:6:2] + a[indices[:3].long() * 2 % 300]
    assert torch.equal(called(text, a, indices), expected)
    blur = (
        "def q(float(N) A, int32 s) -> (R) { R(i) +=! A(s * i + k - s) where k in 0:s }\n"
        f"def f(float(N) A) -> (R) {{ R = q(A, {argument}) }}"
    )
    a = whole(9)
    assert torch.equal(called(blur, a), a[:8].view(4, 2).sum(1))


def test_derivatives_of_a_strided_definition_with_a_number() -> None:
    text = (
        "def q(float(N) A, float(K) W, int32 s) -> (R) { R(i) +=! A(s * i + k) * W(k) }\n"
        "def f(float(N) A, float(K) W) -> (R) { R = q(A, W, 2) }"
    )
    strided = tc.make_autograd(define(text).f)
    a, w = whole(11).requires_grad_(), whole(3).requires_grad_()
    strided(a, w).square().sum().backward()
    x, y = a.detach().clone().requires_grad_(), w.detach().clone().requires_grad_()
    torch.nn.functional.conv1d(x[None, None], y[None, None], stride=2).square().sum().backward()
    assert torch.equal(a.grad, x.grad) and torch.equal(w.grad, y.grad)


@pytest.mark.parametrize(
    ("type", "argument"),
    [("int32", "3000000000"), ("uint8", "300"), ("uint8", "-1"), ("int8", "100 + 28")],
)
def test_a_number_that_its_parameter_does_not_hold(type: str, argument: str) -> None:
    text = (
        f"def q(int32(N) A, {type} s) -> (R) {{ R(i) = A(i) + s }}\n"
        f"def f(int32(N) A) -> (R) {{ R = q(A, {argument}) }}"
    )
    message = refused(text, INTS)
    assert f"{argument} does not fit {type}, the type of parameter s of q; " in message
    assert f"write {type}({argument}) if it is to wrap around" in message
    wrapped = text.replace(argument, f"{type}({argument})")
    s = torch.tensor(eval(argument)).to(getattr(torch, type))
    assert torch.equal(called(wrapped, INTS), INTS + s.int())


def test_a_float_that_its_integer_parameter_does_not_hold() -> None:
    message = refused(SHIFT + "def f(float(N) X) -> (Y) { Y = shift(X, 1e10) }", whole(5))
    assert "1e10 does not fit int32, the type of parameter s of shift; pass a smaller" in message


def test_an_element_of_a_result_may_be_an_argument() -> None:
    """It is read as it was before the call, as a tensor is."""
    a = torch.tensor([1.0, 2.0, 3.0])
    two = (
        "def q(float(N) A, float s) -> (R, Q) { R(i) = A(i) * 10  Q(i) = A(i) * s }\n"
        "def f(float(N) A) -> (H, Q) { H(i) = A(i) + 1  (H, Q) = q(A, H(0)) }"
    )
    h, q = called(two, a)
    assert torch.equal(h, a * 10) and torch.equal(q, a * 2)
    same_statement = (
        "def q(float(N) A, float s) -> (R) { R(i) = A(i) * s }\n"
        "def f(float(N) A) -> (H) { H(i) = A(i) + 1  H = q(A, H(1) * 2) }"
    )
    assert torch.equal(called(same_statement, a), a * 6)


def test_a_call_names_a_tensor_for_every_result() -> None:
    text = (
        "def q(float(N) A) -> (R, S) { R(i) = A(i)  S(i) = A(i) * 10  R(i) = R(i) + 1 }\n"
        "def f(float(N) A) -> (X) { (X, X) = q(A) }"
    )
    message = refused(text, whole(3))
    assert "X already defined as result R of q; choose another name" in message
    assert message.splitlines()[-1].index("^") - message.splitlines()[-2].index("(X, X)") == 4


def test_arithmetic_of_truths_may_be_a_truth() -> None:
    text = (
        "def q(float(N) A, bool c) -> (R) { R(i) = c ? A(i) : 0 }\n"
        "def f(float(N) A, bool a, bool b) -> (R) { R = q(A, a + b) }"
    )
    a = whole(4)
    for first, second in [(False, False), (True, False), (True, True)]:
        wanted = a if first or second else torch.zeros(4)
        assert torch.equal(called(text, a, first, second), wanted)


def test_the_name_of_a_size_and_a_tensor_is_the_size_to_a_scalar() -> None:
    text = (
        "def q(float(N) A, int32 s) -> (R) { R(i) = A(i) * s }\n"
        "def f(float(W) W) -> (R) { R = q(W, W) }"
    )
    a = whole(5)
    assert torch.equal(called(text, a), a * 5)


def test_a_result_that_starts_from_the_argument_it_replaces() -> None:
    a = whole(5)
    text = (
        "def q(float(N) A) -> (R) { R(i) += A(i) }\n"
        "def f(float(N) A) -> (R) { R(i) = A(i)  R = q(R) }"
    )
    assert torch.equal(called(text, a), a * 2)
    # One that is read; an element of the result beside a tensor of two dimensions.
    text = (
        "def q(float(M, N) A, float s) -> (R, S) "
        "{ S(i) = A(0, i)  R(j, i) = R(j, i) * s - A(j, N - 1 - i) }\n"
        "def f(float(M, N) A) -> (R, S) { R(j, i) = A(j, i) + 1  (R, S) = q(R, R(0, 0)) }"
    )
    b = whole(3, 4)
    r, s = called(text, b)
    assert torch.equal(r, (b + 1) * (b[0, 0] + 1) - (b + 1).flip(1))
    assert torch.equal(s, b[0] + 1)
    # One that the caller of both gives.
    text = (
        "def q(float(N) A) -> (R) { R(i) += A(i) }\n"
        "def f(float(N) A) -> (float(N) R) { R = q(A)  R = q(R) }"
    )
    r = torch.ones(5)
    define(text).f(a, outputs=r)
    assert torch.equal(r, (a + 1) * 2)


@pytest.mark.parametrize(
    "value",
    ["A(i) > 0 ? 0.1 : 0.2", "-(A(i) > 0 ? 0.1 : 0.2) * 3.0", "x where x = A(i) > 0 ? 0.1 : 1"],
)
def test_declared_doubles_keep_their_digits(value: str) -> None:
    """Numbers that are chosen from are doubles also where the definition is called."""
    text = (
        f"def q(int32(N) A) -> (double(N) R) {{ R(i) = {value} }}\n"
        "def f(int32(N) A) -> (R) { R = q(A) }"
    )
    same(text, INTS)
    wanted = called(text, INTS, entry="q")
    assert wanted.dtype == torch.float64 and wanted[0].item() in (0.1, -0.1 * 3.0)
    assert torch.equal(called(text, INTS), wanted)
