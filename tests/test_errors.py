"""What is refused, and in which words. A failed call changes nothing and spoils nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch

import tensor_comprehensions as tc

HEAD = "def f(float(N) A) -> (B) "
MATRIX = "def f(float(N, M) A) -> (B) "
INTEGERS = "def f(int(N) A) -> (B) "
CALLEE = "def g(float(N) A) -> (B) { B(i) = A(i) }\n"
RETURNS = "def f(float(N) A) -> "
SCALAR_READ = (
    "A is a scalar, since its declaration has no sizes; read it as A, or declare a tensor, as in "
    "float(N) A"
)
BOUNDS = (
    ": it is no size and no scalar; the bounds of a range are made of sizes, scalars and integers"
)

# Text, words of the message, line, column.
REJECTED = [
    ("", "holds no definition", 1, 1),
    ("# a comment", "holds no definition", 1, 12),
    ("foo", "expected 'def' but found 'foo'", 1, 1),
    ("DEF f(float(N) A) -> (B) { B(i) = A(i) }", "expected 'def' but found 'DEF'", 1, 1),
    ("def (float(N) A) -> (B) { }", "expected the name of the definition", 1, 5),
    ("def f(flaot(N) A) -> (B) { }", "'flaot' is not a type; did you mean float?", 1, 7),
    ("def f(float(N) A) (B) { }", "expected '->' after the parameters", 1, 19),
    (HEAD + "{ B(i) = A(i)", "expected a statement or '}' but found the end of the text", 1, 39),
    (HEAD + "{ 3 = A(i) }", "expected a statement but found '3'", 1, 28),
    (HEAD + "{ B(0) = A(i) }", "has plain indices, but found '0': two points may meet", 1, 30),
    (HEAD + "{ B(i+1) = A(i) }", "Reduce them, as in B(i+1) +=! ..., or move the", 1, 30),
    (HEAD + "{ B(i, N - i) = A(i) }", "as in B(i, N - i) +=! ...", 1, 33),
    (HEAD + "{ B(i i) = A(i) }", "expected ')' or ',' in a list but found 'i'", 1, 32),
    (HEAD + "{ B(i, i) += A(i) }", "i already defined as an index of this left-hand side", 1, 33),
    (HEAD + "{ B(A(i)) += A(i) }", "integral type but found float as a subscript", 1, 30),
    (HEAD + "{ B(99999999999) += A(i) }", "does not fit int32, the type of a subscript", 1, 30),
    (HEAD + "{ B(C(i)) += A(i) }", "undefined variable C used here", 1, 30),
    (
        HEAD + "{ B(2 * i) +=! A(i) }",
        "the size of dimension 0 of B is not known: the subscript 2 * i does not say how many "
        "places there are. Declare the result with its size, as in -> (float(N) B), where a size "
        "is an integer or has the name of one that an input brings",
        1,
        30,
    ),
    (
        "def f(float(M) A, int(N) I) -> (int32(M, V) B) { B(j, I(i)) min=! I(i) where j in 0:M }",
        "the size of dimension 1 of B is not known: V is the size of no input, and the subscript "
        "I(i) does not say how many places there are. Write an integer",
        1,
        42,
    ),
    (
        "def f(float(N) A, int(N) I) -> (B) { T(I(i)) +=! A(i)\n B(i) = T(I(i)) }",
        "T is not returned, so an earlier statement has to give it, as in T(v0) = 0 where v0 in "
        "0:16",
        1,
        40,
    ),
    (HEAD + "{ B(i) -= A(i) }", "one of them followed by '!' but found '-'", 1, 33),
    (HEAD + "{ B(i) = A(i) where i 0:3 }", "in a where clause", 1, 48),
    (HEAD + "{ B(i) = A(i) + }", "expected an expression but found '}'", 1, 42),
    (HEAD + "{ B(i) = A(i) + A.x }", "expected the number of a dimension after '.'", 1, 44),
    (HEAD + "{ B(i) = int32(A(i), 3) }", "a cast to int32 takes 1 argument, not 2", 1, 35),
    (HEAD + "{ B(i) = min(A(i)) }", "min takes 2 arguments, not 1", 1, 35),
    (HEAD + "{ B(i) = A(i) @ 3 }", "'@' starts no token", 1, 40),
    (HEAD + '{ B(i) = "x" }', "starts no token", 1, 35),
    (HEAD + "{ B(i) = A(i) } }", "expected 'def' but found '}'", 1, 42),
    (HEAD + "{ B(i) = A(i) }\0", "NUL", 1, 41),
    ("def f(float(N) exp) -> (B) { }", "'exp' is a built-in function", 1, 16),
    ("def f(float(N) float) -> (B) { }", "'float' is a type and cannot be a name", 1, 16),
    ("def f(float(N) A, float(N) A) -> (B) { }", "A already defined as an input", 1, 28),
    ("def f(float(N) A) -> (B, B) { B(i) = A(i) }", "B already defined as a returned", 1, 26),
    ("def f(float N, float(N) A) -> (B) { }", "N already defined as a scalar", 1, 22),
    ("def f(float(99999999999) A) -> (B) { }", "does not fit 32 bits", 1, 13),
    (HEAD + "{\n B(i) = A(i)\n A(i) = 3 }", "TC inputs are immutable: A", 3, 2),
    (HEAD + "{ B(i) = A(i)\n B(i, j) = A(i) + A(j) }", "expected 1 dimensions but found 2", 2, 2),
    ("def f(float(N) A) -> (B, D) { B(i) = A(i) }", "undefined variable D used here", 1, 26),
    (HEAD + "{ }", "undefined variable B used here", 1, 23),
    ("def f(float(N) A) -> (float(N,N) B) { B(i) = A(i) }", "declared as an output with 2", 1, 23),
    (HEAD + "{ B(i) = A(i) + q }", "undefined variable q used here", 1, 42),
    (HEAD + "{ B() = A(i) }", "does not specify a reduction", 1, 36),
    ("def f(double(N) A) -> (float(N) B) { B(i) = A(i) }", "to narrower type float", 1, 45),
    ("def f(float(N) A) -> (bool(N) B) { B(i) = A(i) }", "to narrower type bool", 1, 43),
    (HEAD + "{ B(i) = A(j) where j in 0:i, i in 0:3 }", "cannot depend on index i", 1, 53),
    (INTEGERS + "{ B(i) = A(i) where i in 0:A(0) }", "cannot read tensors", 1, 51),
    (HEAD + "{ B(i) = T(i)\n T(i) = A(i) }", "first assigned at line 2", 1, 35),
    (MATRIX + "{ B(i) = A(i) }", "expected 2 dimensions but found 1 dimensions", 1, 38),
    (MATRIX + "{ B(i) = A }", "expected 2 dimensions but found 0 dimensions", 1, 38),
    (HEAD + "{ B(i) = A(i) + A.1 }", "A has no dimension 1", 1, 42),
    (HEAD + "{ B(i) = A(i) + Z.1 }", "undefined variable Z used here", 1, 42),
    (HEAD + "{ B(i) = epx(A(i)) }", "did you mean exp?", 1, 35),
    (HEAD + "{ T(i) = T(i) + A(i)\n B(i) = T(i) }", "T is read before it is assigned", 1, 28),
    (CALLEE + "def f(float(N) A) -> (C, D) { (C, D) = g(A) }", "g returns 1 tensors but 2", 2, 31),
    (CALLEE + "def f(float(N) A) -> (C) { C = g(3 + 4) }", "parameter A of g is a tensor", 2, 34),
    (CALLEE + "def f(float(N) A) -> (C) { C = g(A, A) }", "expected 1 inputs but found 2", 2, 28),
    (HEAD + "{ B = g(A) }", "attempting to access undefined function g", 1, 32),
    (HEAD + "{ B = f(A) }", "a definition cannot call itself", 1, 32),
    (CALLEE + CALLEE, "g already defined in this text", 2, 5),
    (HEAD + "{ B(i) = A(i) ? 1 : 0 }", "expected boolean but found float", 1, 35),
    (INTEGERS + "{ B(i) = !A(i) }", "as the operand of '!'", 1, 34),
    (INTEGERS + "{ B(i) = A(i) && A(i) > 0 }", "as an operand of '&&'", 1, 33),
    (INTEGERS + "{ B(i) = A(i) / 0 }", "integer division by zero", 1, 33),
    (INTEGERS + "{ B(i) = A(i) + 3 % 0 }", "integer division by zero", 1, 40),
    (HEAD + "{ B(i) = exp(A(i), A(i)) }", "exp expected 1 argument but found 2", 1, 35),
    ("def f(uint8(N) A) -> (B) { B(i) = A(i) + 300 }", "300 does not fit uint8", 1, 42),
    ("def f(float(N) A, float(M) X) -> (B) { B(i) = A(X(i)) }", "expected integral type", 1, 49),
    (HEAD + "{ B(i, j) = A(i) }", "Could not infer ranges for free variables", 1, 28),
    (HEAD + "{ B(i) +=! A(i + j) }", "to give i and j their ranges", 1, 28),
    (HEAD + "{ B(i) = A(i) where i in 5:2 }", "an empty range for variable i", 1, 30),
    (HEAD + "{ B(N) = A(N) }", "N already defined as a size", 1, 30),
    (HEAD + "{ B(A) = A(A) }", "A already defined as a tensor", 1, 30),
    (HEAD + "{ B(i, i) = A(i) }", "i already defined as an index", 1, 33),
    ("def f(float() A) -> (B) { B(i) = A(i) }", SCALAR_READ, 1, 34),
    ("def f(float A) -> (B) { B(i) = A(i) where i in 0:3 }", SCALAR_READ, 1, 32),
    ("def f(int s, float(N) A) -> (B) { B(i) = A(i) + s(i, i) }", "as in int32(N0, N1) s", 1, 49),
    ("def f(float() A) -> (B) { B = A.0 }", "A is a scalar and has no dimension 0", 1, 31),
    ("def f(float(N) A) -> (float() B) { B(i) = A(i) }", "as in float(N) B", 1, 23),
    (HEAD + "{ B(i) = A(i) \u2212 3 }", "'\u2212' (U+2212) starts no token", 1, 40),
    (HEAD + "{ B(i) = A\u00e9(i) }", "'\u00e9' (U+00E9) starts no token", 1, 36),
    (HEAD + "{ B(i) = \U0001f600 }", "'\U0001f600' (U+1F600) starts no token", 1, 35),
    (HEAD + "{ B(i) = A(i)\u00a0}", "U+00A0 starts no token", 1, 39),
    ("\ufeff" + HEAD + "{ B(i) = A(i) }", "U+FEFF starts no token", 1, 1),
    (HEAD + "{ # \u00e9\u4e2d\n B(i) = A(i) @ 3 }", "'@' starts no token", 2, 14),
    (HEAD + "{ B(i) = A(i) where i in 0:M }", "undefined variable M used here" + BOUNDS, 1, 53),
    (HEAD + "{ B(i) = A(i) where i in 0:n }", "did you mean N?", 1, 53),
    (HEAD + "{ B(i) = A(i) where i in M:N }", "undefined variable M used here" + BOUNDS, 1, 51),
    (HEAD + "{ B(i) = A(i) where i in 0:A }", "cannot read tensors; A.0 is a size of A", 1, 53),
    (HEAD + "{ B(i) = A(i) where i in 0:Z.0 }", "Z used here: it is no tensor", 1, 53),
    (HEAD + "{ B(i) = A(i) where i in 0:8:2 }", "a range has no step", 1, 54),
    (HEAD + "{ B(i) = A(i) where i in 0:true }", "write int32(true) for 0 or 1", 1, 53),
    (HEAD + "{ B(i) = A(i) where i in 0:4294967298 }", "4294967298 does not fit int32", 1, 53),
    (HEAD + "{ B(i) = A(i) where i in 0:3 * 1000000000 }", "does not fit int32", 1, 53),
    (HEAD + "{ B(i) = A(i) + A(4294967296) }", "4294967296 does not fit int32", 1, 44),
    (RETURNS + "(float(99999999999) B) { B(i) = A(i) }", "does not fit 32 bits", 1, 29),
    (RETURNS + "(float(exp) B) { B(i) = A(i) }", "'exp' is a built-in function", 1, 29),
    (RETURNS + "(float(int) B) { B(i) = A(i) }", "'int' is a type and cannot be a name", 1, 29),
    ("def f(int s, float(N) A) -> (float(s) B) { B(i) = A(i) }", "s already defined as a", 1, 36),
    (RETURNS + "(float(4) B) { B(i) = A(i) where i in 0:3 }", "is declared as 4 but its", 1, 29),
    (
        RETURNS
        + "(float(P) B, float(P) C) { B(i) = A(i) where i in 0:3 C(i) = B(i) where i in 0:2 }",
        "dimension 0 of C is declared as P = 3 but its index takes 2 values",
        1,
        41,
    ),
]


@pytest.mark.parametrize("text, words, line, column", REJECTED)
def test_rejected_texts(text: str, words: str, line: int, column: int) -> None:
    with pytest.raises(tc.LanguageError) as error:
        tc.define(text, namespace="tc_errors_language")
    message = str(error.value)
    assert words in message
    assert (error.value.line, error.value.column) == (line, column)
    # The source line, with a caret below the place.
    assert message.startswith(f"{line}:{column}: ")
    assert message.splitlines()[-1].strip(" ~") == "^"
    assert message.splitlines()[-1].index("^") == column - 1 + 2
    assert message.splitlines()[-2] == "  " + [*text.rstrip("\0").split("\n"), ""][line - 1]


def test_carets_count_characters() -> None:
    text = HEAD + "{\n B(i, j) = A(i) # \u00e9\u4e2d\U0001f600\n + A(i) }"
    with pytest.raises(tc.LanguageError) as error:
        tc.define(text, namespace="tc_errors_language")
    line, marks = str(error.value).splitlines()[-2:]
    assert marks == "   ^" + "~" * (len(line) - 4)


def test_a_definition_without_results_is_refused() -> None:
    with pytest.raises(tc.LanguageError, match="returns nothing") as error:
        tc.define("\ndef f(float(N) A) -> () { B(i) = A(i) }", namespace="tc_errors_language")
    assert error.value.line == 2


def test_exceptions() -> None:
    for kind in (tc.LanguageError, tc.ShapeError, tc.CompilationError, tc.CacheError):
        assert issubclass(kind, tc.TCError)
    assert issubclass(tc.TCError, RuntimeError)
    assert issubclass(tc.ShapeError, ValueError)


# ---- arguments

MATMUL = "def matmul(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
MIXED = """
def scale(float a, int k, bool flip, float(N) A) -> (C) {
  C(i) = (flip ? -a : a) * A(i) + k
}
def small(uint8 u, int8 s, int(N) A) -> (C) { C(i) = A(i) + int32(u) + int32(s) }
def fixed(float(4, N) A) -> (C) { C(i, j) = A(i, j) * 2 }
def padded(float(N) A) -> (C) { C(i) = A(i + 3) where i in 0:5 }
def shorter(float(N) A, float(K) W) -> (C) { C(i) +=! A(i + k) * W(k) }
def pair(float(N) A) -> (C, D) { C(i) = A(i) + 1  D(i) = A(i) + 2 }
def strided(int s, float(N) A) -> (C) { C(i) = A(s * i) }
"""
matmul = tc.define(MATMUL, namespace="tc_errors").matmul
T = tc.define(MIXED, namespace="tc_errors")
OPS = torch.ops.tc_errors


def a() -> torch.Tensor:
    return torch.ones(3, 4)


def b() -> torch.Tensor:
    return torch.ones(4, 5)


def v(n: int = 6) -> torch.Tensor:
    return torch.ones(n)


# Definition, arguments, words of the message. All through T.f and all but the last ones through
# torch.ops, where PyTorch itself refuses what is no tensor.
WRONG: list[tuple[str, Callable[[], tuple], str]] = [
    (
        "matmul",
        lambda: (v(), b()),
        "argument A: expected 2 dimensions (M, K) but got 1, sizes (6,)",
    ),
    (
        "matmul",
        lambda: (a(), torch.ones(7, 5)),
        "Mismatched sizes for dimension 0 of argument B: K is 4 (dimension 1 of A) but found 7",
    ),
    ("matmul", lambda: (a().double(), b()), "argument A: expected dtype float32 but got float64"),
    (
        "matmul",
        lambda: (a(), b().to(torch.complex64)),
        "argument B: expected dtype float32 but got complex64",
    ),
    ("matmul", lambda: (a(), b().half()), "argument B: expected dtype float32 but got float16"),
    (
        "matmul",
        lambda: (a().to_sparse(), b()),
        "argument A: expected a strided tensor but got layout torch.sparse_coo; call to_dense()",
    ),
    ("matmul", lambda: (a(), b().to_sparse_csr()), "argument B: expected a strided tensor but got"),
    ("matmul", lambda: (a().to("meta"), b()), "device"),
    ("matmul", lambda: (a(), b().to("meta")), "device"),
    (
        "fixed",
        lambda: (torch.ones(5, 2),),
        "argument A: Constant dimension expected size 4 for dimension 0 but found 5",
    ),
    ("padded", lambda: (v(7),), "padded: "),
    ("shorter", lambda: (v(3), v(6)), "would have size -2 for these inputs"),
]
NOT_TENSORS: list[tuple[str, Callable[[], tuple], str]] = [
    ("matmul", lambda: (a(),), "matmul expected 2 inputs but found 1"),
    ("matmul", lambda: (), "matmul expected 2 inputs but found 0"),
    ("matmul", lambda: (a(), b(), a()), "matmul expected 2 inputs but found 3"),
    ("matmul", lambda: ([[1.0]], b()), "argument A: expected a tensor but got list"),
    ("matmul", lambda: (a(), None), "argument B: expected a tensor but got NoneType"),
    ("matmul", lambda: ("A", b()), "argument A: expected a tensor but got str"),
    ("matmul", lambda: (np.ones((3, 4), np.float32), b()), "argument A: expected a tensor but got"),
    ("matmul", lambda: (a(), 3.0), "argument B: expected a tensor but got float"),
    ("scale", lambda: ("x", 1, True, v()), "argument a: expected a number or a 0-d tensor but got"),
    ("scale", lambda: (None, 1, True, v()), "argument a: expected a number or a 0-d tensor"),
    ("scale", lambda: (1.0, 1.5, True, v()), "argument k: expected an integer but got 1.5"),
    ("scale", lambda: (v(2), 1, True, v()), "argument a: expected a number or a 0-d tensor"),
    ("scale", lambda: (1.0, 2**31, True, v()), "argument k: expected a number that fits Int"),
    ("scale", lambda: (1.0, -(2**31) - 1, True, v()), "argument k: expected a number that fits"),
    ("scale", lambda: (1.0, 2**70, True, v()), "argument k: expected a number of at most 64 bits"),
    ("small", lambda: (256, 0, v().int()), "argument u: expected a number that fits Byte"),
    ("small", lambda: (0, -129, v().int()), "argument s: expected a number that fits Char"),
]


def definition(name: str) -> Callable:
    return matmul if name == "matmul" else getattr(T, name)


def check_still_good() -> None:
    torch.testing.assert_close(matmul(a(), b()), a() @ b())
    assert torch.equal(T.scale(2.0, 1, True, v()), v() * -2 + 1)


@pytest.mark.parametrize("name, arguments, words", WRONG + NOT_TENSORS)
def test_wrong_arguments(name: str, arguments: Callable[[], tuple], words: str) -> None:
    with pytest.raises(tc.ShapeError) as error:
        definition(name)(*arguments())
    assert words in str(error.value)
    assert isinstance(error.value, ValueError)
    check_still_good()


@pytest.mark.parametrize("name, arguments, words", WRONG)
def test_wrong_arguments_through_torch_ops(
    name: str, arguments: Callable[[], tuple], words: str
) -> None:
    with pytest.raises(tc.ShapeError) as error:
        getattr(OPS, name)(*arguments())
    assert words in str(error.value)
    check_still_good()


@pytest.mark.parametrize("name, arguments, words", NOT_TENSORS)
def test_values_that_are_no_tensors_through_torch_ops(
    name: str, arguments: Callable[[], tuple], words: str
) -> None:
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        getattr(OPS, name)(*arguments())
    check_still_good()


@pytest.mark.parametrize("name, arguments, words", WRONG[:6])
def test_wrong_arguments_given_outputs(
    name: str, arguments: Callable[[], tuple], words: str
) -> None:
    out = torch.full((3, 5), 7.0)
    with pytest.raises(tc.ShapeError) as error:
        definition(name)(*arguments(), outputs=(out,))
    assert words in str(error.value)
    assert (out == 7).all() and out._version == 0


def test_floating_point_tensors_for_integers() -> None:
    """PyTorch alone would truncate them."""
    for arguments in ((1.0, torch.tensor(1.5), True), (1.0, 1, torch.tensor(0.5))):
        with pytest.raises(tc.ShapeError, match="expected an integer"):
            T.scale(*arguments, v())
        with pytest.raises(tc.ShapeError, match="expected an integer"):
            T.scale(*arguments, v(), outputs=(v(),))


def test_values_of_scalars() -> None:
    for a0, k, flip in itertools.product(
        (2, 2.5, torch.tensor(2.5), torch.tensor(2), np.float32(2.5), np.float64(2.5)),
        (3, torch.tensor(3), torch.tensor(3, dtype=torch.int8), np.int64(3), True),
        (True, False, torch.tensor(True)),
    ):
        wanted = (-float(a0) if flip else float(a0)) * v() + int(k)
        assert torch.equal(T.scale(a0, k, flip, v()), wanted), (a0, k, flip)
    limits = v().int() + 255 - 128
    assert torch.equal(T.small(255, -128, v().int()), limits)


def test_a_specialised_scalar_without_a_good_value() -> None:
    assert torch.equal(T.strided(2, torch.arange(6.0)), torch.tensor([0.0, 2, 4]))
    for value in (2.5, None, "2", 2**40):
        with pytest.raises(tc.ShapeError, match="argument s"):
            T.strided(value, v())
    with pytest.raises(tc.TCError):
        T.strided(0, v())


def test_scalars_that_no_index_can_hold() -> None:
    text = "def first({} s, float(N) A) -> (B) {{ B(i) = A(i) where i in 0:s }}"
    for kind, value in (
        ("int64", 2**32 + 2),
        ("int64", -(2**31) - 1),
        ("uint32", 2**32 - 1),
        ("uint64", 2**63 - 1),
    ):
        first = tc.define(text.format(kind), namespace=f"tc_errors_{kind}").first
        assert first(2, v()).shape == (2,)
        words = (
            f"argument s: a range or subscript depends on it, so it must fit int32, but got {value}"
        )
        with pytest.raises(tc.ShapeError, match=words):
            first(value, v())


def test_sizes_beyond_32_bits() -> None:
    t = tc.define(
        "def f(float(N) A) -> (B) { B(i) = A(0) where i in 0:N * 1000000 * 1000000 }",
        namespace="tc_errors",
    )
    with pytest.raises(tc.ShapeError, match="dimension 0 of B does not fit 32 bits"):
        t.f(v())


def test_declared_sizes_must_agree_with_the_ranges() -> None:
    t = tc.define(
        """
def constant(float(N) A) -> (float(7) B) { B(i) = A(i) }
def named(float(N) A, float(M) X) -> (float(M) B) { B(i) = A(i) }
def own(float(N) A, float(M) X) -> (float(P) B, double(P) C) { B(i) = A(i) C(i) = X(i) }
def unread(float(N) A) -> (float(N, 3) B) { B(i, j) = A(0) }
""",
        namespace="tc_errors",
    )
    assert t.constant(v(7)).shape == (7,)
    with pytest.raises(
        tc.ShapeError,
        match="constant: dimension 0 of B is declared as 7 but its index takes 4 values for these",
    ):
        t.constant(v(4))
    assert t.named(v(3), v(3)).shape == (3,)
    with pytest.raises(tc.ShapeError, match="dimension 0 of B is declared as M = 3 but its index "):
        t.named(v(4), v(3))
    b, c = t.own(v(5), v(5))
    assert b.shape == c.shape == (5,) and c.dtype == torch.double
    with pytest.raises(tc.ShapeError, match="dimension 0 of C is declared as P = 5 but its index "):
        t.own(v(5), v(4))
    assert t.unread(v(2)).shape == (2, 3)


def test_reads_that_leave_their_tensor() -> None:
    with pytest.raises(tc.ShapeError, match=r"padded: .*A"):
        T.padded(v(7))
    assert T.padded(v(8)).shape == (5,)


# ---- outputs


def test_wrong_outputs() -> None:
    storage = torch.full((64,), 7.0)
    good = storage[:15].view(3, 5)
    x = a()
    wide = torch.ones(30)
    cases = [
        ((), "matmul expected 1 outputs but found 0"),
        ((good, good), "matmul expected 1 outputs but found 2"),
        ((storage[:10].view(2, 5),), "output C: expected sizes (3, 5) but got (2, 5)"),
        ((storage[:15],), "output C: expected sizes (3, 5) but got (15,)"),
        ((good.int(),), "output C: expected dtype float32 but got int32"),
        ((storage[:1].expand(3, 5),), "output C: several of its elements share one place"),
        ((storage.as_strided((3, 5), (2, 1)),), "output C: several of its elements share"),
        ((good.to("meta"),), "output C"),
        ((good.to_sparse(),), "output C: expected a strided tensor"),
        ((None,), "output C: expected a tensor but got NoneType"),
        (([1.0],), "output C: expected a tensor but got list"),
        (good.numpy(), "matmul expected 1 outputs but found 3"),
    ]
    for outputs, words in cases:
        with pytest.raises(tc.ShapeError) as error:
            matmul(x, b(), outputs=outputs)
        assert words in str(error.value)
        assert (storage == 7).all() and storage._version == 0, words
    overlapping = wide[:12].view(3, 4)
    with pytest.raises(tc.ShapeError, match="output C overlaps input A in memory"):
        matmul(overlapping, b(), outputs=(wide[11:26].view(3, 5),))
    assert (wide == 1).all()
    with pytest.raises(tc.ShapeError, match="output D overlaps output C in memory"):
        T.pair(v(), outputs=(storage[:6], storage[5:11]))
    assert (storage == 7).all()
    check_still_good()
    matmul(x, b(), outputs=(good,))
    assert torch.equal(good, x @ b()) and (storage[15:] == 7).all()


def test_outputs_that_need_gradients() -> None:
    leaf = torch.full((3, 5), 7.0, requires_grad=True)
    with pytest.raises(tc.TCError, match="output C requires gradients"):
        matmul(a(), b(), outputs=(leaf,))
    with pytest.raises(tc.TCError, match="argument A requires gradients"):
        matmul(a().requires_grad_(), b(), outputs=(leaf.detach(),))
    assert (leaf == 7).all()
    with torch.no_grad():
        matmul(a(), b(), outputs=(leaf,))
    assert (leaf == 4).all()


def test_outputs_through_torch_ops() -> None:
    out = torch.full((3, 4), 7.0)
    with pytest.raises(tc.ShapeError, match=r"output C: expected sizes \(3, 5\)"):
        OPS.matmul.out(a(), b(), C=out)
    x = a()
    with pytest.raises(tc.ShapeError, match="output C overlaps input A"):
        OPS.fixed.out(x.t(), C=x.t())
    with pytest.raises(tc.TCError, match="requires gradients"):
        OPS.matmul.out(a(), b(), C=torch.ones(3, 5, requires_grad=True))
    assert (out == 7).all() and (x == 1).all()


# ---- define


@pytest.mark.parametrize(
    "options, kind, words",
    [
        ("nonsense", tc.TCError, "unknown preset 'nonsense'"),
        (3, TypeError, "options must be None, a preset name, MappingOptions or a factory, not int"),
        ({"tile": 3}, TypeError, "options must be"),
    ],
)
def test_bad_options(options: object, kind: type, words: str) -> None:
    with pytest.raises(kind) as error:
        tc.define(MATMUL, options, namespace="tc_errors_options")
    assert words in str(error.value)
    with pytest.raises(kind):
        tc.compile(MATMUL, "matmul", options, a(), b())
    assert not hasattr(torch.ops.tc_errors_options, "matmul")


def test_bad_factories() -> None:
    def fails(*_: object) -> tc.MappingOptions:
        raise KeyError("the factory's own")

    for factory, kind, words in [
        (lambda *_: None, tc.TCError, "the options factory returned None for matmul"),
        (lambda *_: 3, tc.TCError, "returned 3 for matmul"),
        (lambda *_: "nonsense", tc.TCError, "unknown preset"),
        (fails, KeyError, "the factory's own"),
        (lambda: "naive", TypeError, "positional argument"),
    ]:
        t = tc.define(MATMUL, factory, namespace="tc_errors_factories")
        for call in (t.matmul, lambda *x, t=t: t("matmul", *x)):
            with pytest.raises(kind) as error:
                call(a(), b())
            assert words in str(error.value)
    check_still_good()


def test_a_factory_that_fails_once() -> None:
    answers = iter([None, "naive"])
    t = tc.define(MATMUL, lambda *_: next(answers), namespace="tc_errors_factories")
    with pytest.raises(tc.TCError):
        t.matmul(a(), b())
    torch.testing.assert_close(t.matmul(a(), b()), a() @ b())


@pytest.mark.parametrize("namespace", ["", "a b", "1a", "a.b", "a::b", "ä", None, 3])
def test_bad_namespaces(namespace: object) -> None:
    with pytest.raises(tc.TCError, match="is no identifier"):
        tc.define(MATMUL, namespace=namespace)


def test_bad_texts() -> None:
    for text in (None, b"def", 3, ["def"]):
        with pytest.raises(TypeError, match="a text was expected"):
            tc.define(text)


def test_undefined_functions() -> None:
    words = "attempting to access undefined function nothing; the text defines: scale, small"
    with pytest.raises(AttributeError, match=words):
        T.nothing  # noqa: B018
    with pytest.raises(tc.TCError, match=words):
        T("nothing", v())
    with pytest.raises(tc.TCError, match=words):
        tc.compile(MIXED, "nothing", None, v())


def test_names_that_others_took() -> None:
    with pytest.raises(tc.TCError, match=r"torch\.ops\.aten\.relu exists already"):
        tc.define("def relu(float(N) A) -> (B) { B(i) = A(i) }", namespace="aten")


@pytest.mark.parametrize("target", ["gpu", "cuda:", "cuda:90", "cuda:sm_", "cuda:sm_x"])
def test_bad_targets(target: str) -> None:
    with pytest.raises(tc.TCError) as error:
        tc.compile(MATMUL, "matmul", None, a(), b(), target=target)
    assert "target" in str(error.value) or "sm_" in str(error.value)
    assert "internal" not in str(error.value)


def test_a_target_elsewhere() -> None:
    with pytest.raises(tc.ShapeError, match="the inputs are on the CPU"):
        tc.compile(MATMUL, "matmul", None, a(), b(), target="cuda")


def test_errors_in_the_middle_of_nothing() -> None:
    """Errors of one thread or definition do not appear in another's."""
    with pytest.raises(tc.LanguageError) as first:
        tc.define("def")
    with pytest.raises(tc.ShapeError) as second:
        matmul(a(), torch.ones(7, 5))
    assert "def" not in str(second.value)
    assert first.value.line == 1
