"""Texts that are refused, with the words of the message, its place and the way out."""

from __future__ import annotations

import pytest

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
    (
        HEAD + "{ B(i) -= A(i) }",
        "'argmin=', 'argmax=' or one of them followed by '!' but found '-'",
        1,
        33,
    ),
    (HEAD + "{ B(i) = A(i) where i 0:3 }", "in a where clause", 1, 48),
    (HEAD + "{ B(i) = A(i) + }", "expected an expression but found '}'", 1, 42),
    (HEAD + "{ B(i) = A(i) + A.x }", "expected the number of a dimension after '.'", 1, 44),
    (HEAD + "{ B(i) = int32(A(i), 3) }", "a cast to int32 takes 1 argument, not 2", 1, 35),
    (HEAD + "{ B(i) = min(A(i)) }", "min takes 2 arguments, not 1", 1, 35),
    (HEAD + "{ B(i) = (float)A(i) }", "is written as a function; write float(A(i))", 1, 35),
    (HEAD + "{ B(i) = 2 * (float) A(i) + 1 }", "a function; write float(A(i))", 1, 39),
    (HEAD + "{ B(i) = (float)2 }", "a function; write float(2)", 1, 35),
    (HEAD + "{ B(i) = (int32) - A(i) }", "a cast is written as a function: int32(x)", 1, 35),
    (HEAD + "{ B(i) = (double)(A(i) + 1) }", "a function; write double(A(i) + 1)", 1, 35),
    (
        HEAD + "{ B(i) = (half) }",
        "it is a type, and a cast is written as a function: half(x)",
        1,
        35,
    ),
    (HEAD + "{ B(i) = A(i) // 2 }", "there is no operator '//'; x / y of integers", 1, 41),
    (HEAD + "{ B(i) = float('inf') }", "there are no strings, and infinity is 1.0 / 0.0", 1, 41),
    (HEAD + "{ B(i) = A(i) @ 3 }", "'@' starts no token", 1, 40),
    (HEAD + '{ B(i) = "x" }', "starts no token", 1, 35),
    (HEAD + "{ B(i) = A(i) } }", "expected 'def' but found '}'", 1, 42),
    (HEAD + "{ B(i) = A(i) }\0", "NUL", 1, 41),
    ("def f(float(N) exp) -> (B) { }", "'exp' is a built-in function", 1, 16),
    ("def exp(float(N) A) -> (B) { B(i) = A(i) }", "'exp' is a built-in function", 1, 5),
    ("def half(float(N) A) -> (B) { B(i) = A(i) }", "'half' is a type and cannot be", 1, 5),
    ("def f(float(true) A) -> (B) { B(i) = A(i) }", "'true' is a word of the language", 1, 13),
    ("def f(float(N) def) -> (B) { B(i) = 1 where i in 0:N }", "'def' is a word of", 1, 16),
    ("def f(float(N) float) -> (B) { }", "'float' is a type and cannot be a name", 1, 16),
    ("def f(float(N) A, float(N) A) -> (B) { }", "A already defined as an input", 1, 28),
    ("def f(float(N) A) -> (B, B) { B(i) = A(i) }", "B already defined as a returned", 1, 26),
    ("def f(float N, float(N) A) -> (B) { }", "N already defined as a scalar", 1, 22),
    ("def f(float(99999999999) A) -> (B) { }", "does not fit 32 bits", 1, 13),
    (HEAD + "{\n B(i) = A(i)\n A(i) = 3 }", "TC inputs are immutable: A", 3, 2),
    (HEAD + "{ B(i) = A(i)\n B(i, j) = A(i) + A(j) }", "expected 1 dimension but found 2", 2, 2),
    ("def f(float(N) A) -> (B, D) { B(i) = A(i) }", "undefined variable D used here", 1, 26),
    (HEAD + "{ }", "undefined variable B used here", 1, 23),
    ("def f(float(N) A) -> (float(N,N) B) { B(i) = A(i) }", "declared as an output with 2", 1, 23),
    (HEAD + "{ B(i) = A(i) + q }", "undefined variable q used here", 1, 42),
    (HEAD + "{ B() = A(i) }", "does not specify a reduction", 1, 36),
    ("def f(double(N) A) -> (float(N) B) { B(i) = A(i) }", "to narrower type float", 1, 45),
    ("def f(float(N) A) -> (bool(N) B) { B(i) = A(i) }", "to narrower type bool", 1, 43),
    (HEAD + "{ B(i) = A(j) where j in 0:i, i in 0:3 }", "cannot depend on index i", 1, 53),
    (HEAD + "{ B(i) +=! A(j) where j in 0:i+1 }", "as in S(i) +=! j <= i ? A(j) : 0", 1, 55),
    (
        HEAD + "{\n B(i) = B(i - 1) * 0.5 + A(i) }",
        "this statement reads B in place, at elements that other iterations of it write",
        2,
        2,
    ),
    (INTEGERS + "{ B(i) = A(i) where i in 0:A(0) }", "cannot read tensors", 1, 51),
    (HEAD + "{ B(i) = T(i)\n T(i) = A(i) }", "first assigned at line 2", 1, 35),
    (MATRIX + "{ B(i) = A(i) }", "expected 2 dimensions but found 1 dimension", 1, 38),
    (MATRIX + "{ B(i) = A }", "expected 2 dimensions but found 0 dimensions", 1, 38),
    (HEAD + "{ B(i) = A(i) + A.1 }", "A has no dimension 1", 1, 42),
    (HEAD + "{ B(i) = A(i) + Z.1 }", "undefined variable Z used here", 1, 42),
    (HEAD + "{ B(i) = epx(A(i)) }", "did you mean exp?", 1, 35),
    (HEAD + "{ T(i) = T(i) + A(i)\n B(i) = T(i) }", "T is read before it is assigned", 1, 28),
    (
        CALLEE + "def f(float(N) A) -> (C, D) { (C, D) = g(A) }",
        "g returns 1 tensor but 2 are",
        2,
        31,
    ),
    (CALLEE + "def f(float(N) A) -> (C) { C = g(3 + 4) }", "parameter A of g is a tensor", 2, 34),
    (CALLEE + "def f(float(N) A) -> (C) { C = g(A, A) }", "expected 1 input but found 2", 2, 28),
    (HEAD + "{ B = g(A) }", "attempting to access undefined function g", 1, 32),
    (HEAD + "{ B = f(A) }", "a definition cannot call itself", 1, 32),
    (CALLEE + CALLEE, "g already defined in this text", 2, 5),
    (HEAD + "{ B(i) = A(i) ? 1 : 0 }", "expected boolean but found float", 1, 35),
    (INTEGERS + "{ B(i) = !A(i) }", "as the operand of '!'", 1, 34),
    (INTEGERS + "{ B(i) = A(i) && A(i) > 0 }", "as an operand of '&&'", 1, 33),
    (INTEGERS + "{ B(i) = A(i) / 0 }", "integer division by zero", 1, 33),
    (INTEGERS + "{ B(i) = A(i) + 3 % 0 }", "integer division by zero", 1, 40),
    (HEAD + "{ B(i) = exp(A(i), A(i)) }", "exp expected 1 argument but found 2", 1, 35),
    (
        "def f(uint8(N) A) -> (B) { B(i) = A(i) + 300 }",
        "300 does not fit uint8, the type of what it is combined with; cast the other operand to "
        "int32 first, as in int32(x)",
        1,
        42,
    ),
    (
        INTEGERS + "{ B(i) = A(i) + 3000000000 }",
        "3000000000 does not fit int32, the type of what it is combined with; cast the other "
        "operand to int64 first, as in int64(x). Subscripts and ranges stay within int32",
        1,
        40,
    ),
    (HEAD + "{ B(i) = A(i + 3000000000) }", "ranges stay within int32", 1, 41),
    (
        "def f(uint32(N) A) -> (B) { B(i) = A(i) + -1 }",
        "-1 does not fit uint32, the type of what it is combined with; cast the other operand to "
        "int64 first, as in int64(x)",
        1,
        43,
    ),
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
    (
        "def f(int s, float(N) A) -> (float(s) B) { B(i) = A(i) }",
        "by the range of an index, as in where i in 0:s, or choose another name",
        1,
        36,
    ),
    ("def f(float s, float(s) A) -> (B) { B(i) = A(i) }", "s already defined as a scalar;", 1, 22),
    (RETURNS + "(float(4) B) { B(i) = A(i) where i in 0:3 }", "is declared as 4 but its", 1, 29),
    (MATRIX + "{ B(i) &&=! A(i, k) }", "write A(i, k) != 0 if that is meant", 1, 41),
    (
        MATRIX + "{ B(i) ||= A(i, k) > 0 ? 0 : i }",
        "write (A(i, k) > 0 ? 0 : i) != 0",
        1,
        40,
    ),
    (MATRIX + "{ B(i) ||=! 1 where i in 0:3, k in 0:M }", "found int32 as the right-hand", 1, 41),
    (
        "def f(bool(N, M) A) -> (int32(N) B) { B(i) &&=! A(i, k) }",
        "&&=! gives bool, but B has type int32; declare bool in the return list, and cast where it",
        1,
        39,
    ),
    (
        "def f(bool(N, M) A, float(N) X) -> (B) { B(i) = X(i)\n B(i) ||= A(i, k) }",
        "||= gives bool, but B has type float; assign it to another tensor first, and cast where",
        2,
        2,
    ),
    (
        MATRIX + "{ B(i, k) argmax= A(i, k) }",
        "argmax= gives the index of a value, but every index of the right-hand side is on the left "
        "as well; leave out of B(i, k) the one to look along",
        1,
        39,
    ),
    (
        "def f(float(N, M) A, int64(N) I) -> (int64(9) B) { B(I(i)) argmax=! A(i, k) }",
        "the left-hand side of 'argmax=!' has plain indices, but found 'I(i)': a position counts "
        "along the indices that are not on the left, and those of an expression are among them. "
        "Find the positions in a tensor with plain indices and combine these in a statement of "
        "their own, as in B(I(i)) max=! ...",
        1,
        54,
    ),
    (
        "def f(float(N, M) A, int64(N) I) -> (int32(N, 9) B) { B(i, 2 * k) argmin= A(i, k) }",
        "the left-hand side of 'argmin=' has plain indices, but found '2 * k'",
        1,
        60,
    ),
    (
        "def f(float(N, M) A, int32 row) -> (int64(9, N) B) { B(row, i) argmax=! A(i, k) }",
        "the left-hand side of 'argmax=!' has plain indices, but found 'row'",
        1,
        56,
    ),
    (MATRIX + "{ B(i) = argmax(A(i, k)) }", "is a statement: S(i) argmax=! A(i, k)", 1, 38),
    (MATRIX + "{ B(i) = sum(A(i, k)) }", "a reduction is a statement: S(i) +=! A(i, k)", 1, 38),
    (
        "def f(float(N, M) A) -> (float(N) B) { B(i) argmin=! A(i, k) }",
        "argmin=! gives an index, which is int64 or int32, but B has type float; declare int64 in",
        1,
        40,
    ),
    # How a text is made.
    ("def f float(N) A) -> (B) { B(i) = A(i) }", "expected '(' before the parameters but", 1, 7),
    (
        RETURNS + "B { B(i) = A(i) }",
        "expected '(' before the returned tensors but found 'B'",
        1,
        22,
    ),
    (HEAD + "B(i) = A(i)", "expected '{' before the statements but found 'B'", 1, 26),
    ("def f(3 A) -> (B) { }", "expected a type but found '3'", 1, 7),
    ("def f(float(N) A, ) -> (B) { }", "expected a type but found ')'", 1, 19),
    ("def f(float(N) A float(N) B) -> (C) { }", "expected ')' or ',' in a list but found", 1, 18),
    ("def f(float(-1) A) -> (B) { }", "expected a size: a name or an integer but found '-'", 1, 13),
    (
        "def f(float(N + 1) A) -> (B) { }",
        "expected ',' or ')' but found '+': a declared size is a name or an integer; what follows "
        "from other sizes is found by range inference or given by a where clause",
        1,
        15,
    ),
    ("def f(float(N) 3) -> (B) { }", "expected the name of the parameter but found '3'", 1, 16),
    (
        RETURNS + "(3) { B(i) = A(i) }",
        "expected the name of a returned tensor but found '3'",
        1,
        23,
    ),
    (HEAD + "<=> 3 { B(i) = A(i) }", "expected a name after '<=>' but found '3'", 1, 30),
    (HEAD + "{ (3, B) = g(A) }", "expected the name of a tensor but found '3'", 1, 29),
    (HEAD + "{ () = g(A) }", "a call assigns at least one tensor: (a, b) = f(x)", 1, 28),
    (HEAD + "{ (B) g(A) }", "expected '=' after a list of tensors but found 'g'", 1, 32),
    (HEAD + "{ (B) = 3 }", "expected the name of a definition but found '3'", 1, 34),
    (CALLEE + HEAD + "{ (B) = g A }", "expected '(' after the name of a definition", 2, 36),
    (HEAD + "{ B(i) = A(i) where i in 0 3 }", "expected ':' between the bounds of a range", 1, 53),
    (HEAD + "{ B(i) = A(i) > 0 ? 1 }", "expected ':' between the branches of '?' but", 1, 48),
    (HEAD + "{ B(i) = (A(i) }", "expected ')' after an expression in parentheses but", 1, 41),
    (HEAD + "{ B(i) = A(i) + 9223372036854775808 }", "write it as a floating-point number", 1, 42),
    (HEAD + "{ B(i) = -9223372036854775808 }", "int64 as -9223372036854775807 - 1", 1, 36),
    (HEAD + "{ B(i) = 0xFFFFFFFFFFFFFFFE }", "or a uint64 as uint64(-2)", 1, 35),
    (HEAD + "{ B(i) = A(i) * 1e39 }", "1e+39 does not fit float; compute in a wider type", 1, 42),
    (HEAD + "{ B(i) = half(A(i)) + -65520 }", "-65520 does not fit half", 1, 48),
    (HEAD + "{ B(i) = -9223372036854775807 - 9 }", "this constant does not fit 64 bits", 1, 35),
    # What other languages write.
    (HEAD + "{ B(i) = A[i] }", "'[' starts no token of the language; subscripts stand in", 1, 36),
    (HEAD + "{ B(i) = A(i); }", "statements need no sign at their end", 1, 39),
    (HEAD + "{ B(i) = A(i) ^ 2 }", "a power is pow(x, y)", 1, 40),
    (HEAD + "{ B(i) = A(i) ** 2 }", "there is no operator '**'; a power is pow(x, y)", 1, 41),
    (HEAD + "{ B(i) = A(i) > 0 & A(i) < 1 }", 'write && for "and"', 1, 44),
    (HEAD + "{ B(i) = A(i) > 0 | A(i) < 1 }", 'write || for "or"', 1, 44),
    (HEAD + "{ B(i) = ~A(i) }", 'write ! for "not"', 1, 35),
    (HEAD + "{ B(i) = A(i) @ A(i) }", "is C(m, n) +=! A(m, k) * B(k, n)", 1, 40),
    (HEAD + "{ B(i) = A(i) > 0 and A(i) < 1 }", "'and' is no operator; write &&", 1, 44),
    (HEAD + "{ B(i) = A(i) > 0 or A(i) < 1 }", "'or' is no operator; write ||", 1, 44),
    (HEAD + "{ for i: B(i) = A(i) }", "no statements with 'for'; loops follow from the", 1, 28),
    (HEAD + "{ if A(0) > 0: B(i) = A(i) }", "'if'; a choice is an expression: B(i) = A", 1, 28),
    # Calls.
    (
        CALLEE + HEAD + "{ B = g(A) where i in 0:3 }",
        "g is a definition, and a call of one is a statement of its own, without indices, "
        "reductions and where clauses: T = g(A); then T can be read",
        2,
        32,
    ),
    (CALLEE + HEAD + "{ B += g(A) }", "a statement of its own", 2, 33),
    (CALLEE + HEAD + "{ B(i) = g(A) }", "a statement of its own", 2, 35),
    (CALLEE + HEAD + "{ B(i) = A(i) + x where x = g(A) }", "a statement of its own", 2, 54),
    (
        CALLEE + "def f(float(N, M) A) -> (B) { B = g(A) }",
        "parameter A of g is a tensor with 1 dimension, but A is a tensor with 2 dimensions",
        2,
        37,
    ),
    (CALLEE + "def f(float s) -> (B) { B = g(s) }", "but s is a scalar", 2, 31),
    (
        "def g(float s, float(N) A) -> (B) { B(i) = A(i) * s }\n" + HEAD + "{ B = g(A, A) }",
        "parameter s of g is a scalar, but A is a tensor with 1 dimension",
        2,
        34,
    ),
    # Names that stand for something else.
    ("def f(float s, float(N) A) -> (B) { B(s) = A(s) }", "s already defined as a scalar", 1, 39),
    ("def f(float(N) A, float N) -> (B) { }", "N already defined as a size", 1, 25),
    ("def f(float s, float s) -> (B) { }", "s already defined as an input", 1, 22),
    (RETURNS + "(N) { N +=! A(i) }", "N already defined as a size", 1, 28),
    (RETURNS + "(A) { B(i) = A(i) }", "as an input, and TC inputs are immutable; choose", 1, 23),
    (HEAD + "{ B(i) = x where x = A(i), x = 2 }", "x already defined as a let of this", 1, 53),
    (HEAD + "{ B(i) = A(i) where i = 2 }", "i already defined as an index", 1, 46),
    (HEAD + "{ B(i) = A(i) where N = 2 }", "N already defined as a size", 1, 46),
    (HEAD + "{ B(i) = A(i) where A = 2 }", "A already defined as a tensor", 1, 46),
    ("def f(float(N) A, int s) -> (B) { B(i) = A(i) where s = 2 }", "s already defined", 1, 53),
    (HEAD + "{ B(i) = A(i) where max = 2 }", "'max' is a built-in function", 1, 46),
    (HEAD + "{ B(i) = A(i) where int = 2 }", "'int' is a type and cannot be a name; choose", 1, 46),
    (
        HEAD + "{ B(i) = A(i) where i in 0:N, i in 0:3 }",
        "i already defined as an index with a range in this where clause; choose another name",
        1,
        56,
    ),
    (HEAD + "{ B(float) = A(float) }", "'float' is a type and cannot be a name", 1, 30),
    (HEAD + "{ max(i) = A(i) }", "'max' is a built-in function and cannot be redefined", 1, 28),
    (
        HEAD + "{ B(i) = B.0 where i in 0:3 }",
        "its sizes are not known before it is assigned",
        1,
        35,
    ),
    # Types.
    (HEAD + "{ B(i) = A(i) where i in 0:exp(3) }", "exp is a function of floating-point", 1, 53),
    (HEAD + "{ B(i) = A(i) where i in 0:N / 2.0 }", "write int32(N / 2.0) to truncate it", 1, 53),
    (
        HEAD + "{ B(i) = A(true) where i in 0:3 }",
        "found bool as a subscript; write int32(tr",
        1,
        37,
    ),
    (HEAD + "{ B(i) = ldexp(A(i), 0.5) }", "as argument 2 of ldexp; write int32(0.5)", 1, 47),
    (HEAD + "{ B(i) = jn(A(i), A(i)) }", "as argument 1 of jn; write int32(A(i)) to", 1, 38),
    (HEAD + "{ B(i) = jn(2) }", "jn expected 2 arguments but found 1", 1, 35),
    (
        RETURNS + "(int8(N) B) { B(i) = 300 where i in 0:N }",
        "300 does not fit int8, the type of B; write int8(...) around the right-hand side or widen "
        "the type in the return list",
        1,
        43,
    ),
    (
        RETURNS + "(bool(N) B) { B(i) = A(i) > 0 ? 1 : 2 }",
        "2 does not fit bool, the type of B; write bool(...) around the right-hand side or widen",
        1,
        58,
    ),
    (
        "def f(uint8(N) A) -> (B) { B(i) = A(i) B(i) = 300 where i in 0:N }",
        "300 does not fit uint8, the type of B; write uint8(...) around the right-hand side or "
        "declare a wider type of B in the return list",
        1,
        47,
    ),
    (
        "def f(uint8(N) A) -> (B) { T(i) = A(i) T(i) = 300 where i in 0:N B(i) = T(i) }",
        "300 does not fit uint8, the type of T; write uint8(...) around the right-hand side or "
        "cast what gives T its type to a wider one",
        1,
        47,
    ),
    (
        RETURNS + "(int8(N) B) { B(i) = 0.5 where i in 0:N }",
        "or widen the type in the return",
        1,
        43,
    ),
    (INTEGERS + "{ B(i) = A(i) % 0 }", "integer division by zero: the divisor is always 0", 1, 33),
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
