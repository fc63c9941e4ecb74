"""Edge sizes and the ways data may lie in memory: empty, single, many dimensions, tails, views."""

from __future__ import annotations

import functools
import zlib

import pytest
import torch
import torch.nn.functional as F

import tensor_comprehensions as tc
from tensor_comprehensions import reference

PLAIN = "def f(float(N) A, float(N) B) -> (O) { O(i) = A(i) * B(i) + 1 }"
MATMUL = "def f(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
LARGE = 2**15 + 77


@functools.cache
def define(text: str) -> tc.TC:
    return tc.define(text, namespace=f"tc_sizes_{zlib.crc32(text.encode())}")


def run(text: str, *inputs: object, **keywords: object) -> tuple[torch.Tensor, ...]:
    result = define(text).f(*inputs, **keywords)
    return result if isinstance(result, tuple) else (result,)


def same(actual: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(actual, wanted, rtol=1e-5, atol=1e-5)


# ---- sizes


@pytest.mark.parametrize("size", [*range(1, 41), LARGE])
def test_vector_tails(size: int) -> None:
    a, b = torch.randn(size), torch.randn(size)
    same(run(PLAIN, a, b)[0], a * b + 1)


@pytest.mark.parametrize("size", [1, 2, 7, 15, 17, 31, 33])
def test_tails_of_products(size: int) -> None:
    a, b = torch.randn(3, size), torch.randn(size, size + 1)
    same(run(MATMUL, a, b)[0], a @ b)


@pytest.mark.parametrize("dtype", ["int8", "int64", "double", "half"])
def test_tails_of_other_widths(dtype: str) -> None:
    text = f"def f({dtype}(N) A) -> (O) {{ O(i) = A(i) + A(i) }}"
    for size in (1, 3, 8, 31, 63, 65, LARGE):
        a = torch.arange(size).remainder(50).to(getattr(torch, dtype))
        torch.testing.assert_close(run(text, a)[0], a + a)


@pytest.mark.parametrize("rank", range(9))
def test_ranks(rank: int) -> None:
    sizes = [(3, 2, 1, 4)[d % 4] for d in range(rank)]
    names = ", ".join(f"N{d}" for d in range(rank))
    indices = ", ".join(f"i{d}" for d in range(rank))
    type_, access = (f"float({names})", f"({indices})") if rank else ("float()", "()")
    if rank == 0:
        type_ = "float"
    text = f"def f({type_} A) -> (O, S) {{ O{access} = A{access} * 2  S() +=! A{access} }}"
    if rank == 0:
        text = "def f(float A) -> (O, S) { O() = A * 2  S() +=! A }"
    a = torch.randn(sizes)
    out, total = run(text, a if rank else a.item())
    same(out, a * 2)
    same(total, a.sum())


@pytest.mark.parametrize("rank", [2, 5, 8])
def test_permuted_ranks(rank: int) -> None:
    a = torch.randn([2, 3, 1, 2, 3, 2, 1, 2][:rank])
    indices = [f"i{d}" for d in range(rank)]
    names = ", ".join(f"N{d}" for d in range(rank))
    text = (
        f"def f(float({names}) A) -> (O) "
        f"{{ O({', '.join(reversed(indices))}) = A({', '.join(indices)}) }}"
    )
    same(run(text, a)[0], a.permute(*reversed(range(rank))).contiguous())


def test_single_elements() -> None:
    a, b = torch.randn(1, 1), torch.randn(1, 1)
    same(run(MATMUL, a, b)[0], a @ b)
    same(run(PLAIN, a[0], b[0])[0], a[0] * b[0] + 1)


@pytest.mark.parametrize(("m", "k", "n"), [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_empty_products(m: int, k: int, n: int) -> None:
    a, b = torch.randn(m, k), torch.randn(k, n)
    same(run(MATMUL, a, b)[0], a @ b)


def test_an_empty_reduction_gives_its_identity() -> None:
    text = """def f(float(N, K) A) -> (P, Q, R, S) {
      P(i) +=! A(i, k)
      Q(i) *=! A(i, k)
      R(i) min=! A(i, k)
      S(i) max=! A(i, k)
    }"""
    results = run(text, torch.empty(3, 0))
    for actual, wanted in zip(results, (0.0, 1.0, float("inf"), -float("inf")), strict=True):
        same(actual, torch.full((3,), wanted))


@pytest.mark.parametrize("dtype", ["half", "bfloat16"])
def test_empty_reductions_of_narrow_types(dtype: str) -> None:
    text = f"def f({dtype}(N, K) A) -> (P, Q) {{ P(i) +=! A(i, k)  Q(i) *=! A(i, k) }}"
    type_ = getattr(torch, dtype)
    for size in (0, 1):
        a = torch.full((3, size), 2.5, dtype=type_)
        for actual, wanted in zip(run(text, a), (a.sum(1), a.prod(1)), strict=True):
            same(actual, wanted)


def test_an_empty_sum_whose_operands_would_be_copied() -> None:
    t = define(
        "def empty_sum(float(N, M, R, S) A, float(R, N, K, L) B) -> (O) {"
        " O(m, l, n) +=! A(n, m, r, s) * B(r, n, 2 * s + n, l) }"
    )
    assert torch.equal(
        t.empty_sum(torch.randn(2, 16, 0, 0), torch.randn(0, 2, 4, 7)), torch.zeros(16, 7, 2)
    )


def test_places_in_a_temporary_without_elements() -> None:
    """Data may say that it is read, which is an error, or that it is not."""
    t = define("""def empty_table(float(N, M) A, int32(K) I) -> (O) {
      T(i, j) = A(i, j) + cos(A(i, j) * 3)
      O(i, k) = T(i, I(k))
    }""")
    none, one = torch.empty(0, dtype=torch.int32), torch.ones(1, dtype=torch.int32)
    assert t.empty_table(torch.randn(8, 0), none).shape == (8, 0)
    assert t.empty_table(torch.randn(0, 8), one).shape == (0, 1)
    with pytest.raises(tc.ShapeError, match=r"index 1 of dimension 1, but .* has size 0"):
        t.empty_table(torch.randn(8, 0), one)


def test_an_index_from_the_least_integer_on() -> None:
    """Its opposite is none: what is outside is found there, too."""
    text = "def least(float(N) A) -> (O) { O(i) = A(i % 5 + S) where i in -2147483648:-2147483645 }"
    with pytest.raises(tc.ShapeError, match="i = -2147483648 gives index -3, but dimension 0"):
        define(text.replace("S", "0")).least(torch.arange(5.0))
    shifted = define(text.replace("S", "3")).least(torch.arange(5.0))
    assert shifted.tolist() == [0, 1, 2]


def test_an_empty_reduction_keeps_what_is_there() -> None:
    text = "def f(float(N, K) A) -> (O) { O(i) += A(i, k) }"
    start = torch.randn(3)
    same(run(text, torch.empty(3, 0), outputs=start.clone())[0], start)


def test_an_empty_result_beside_others() -> None:
    text = "def f(float(N) A, float(M) B) -> (O, P) { O(i) = A(i)  P(j) = B(j) + 1 }"
    b = torch.randn(5)
    out, other = run(text, torch.empty(0), b)
    assert out.shape == (0,)
    same(other, b + 1)


def test_large_reduction() -> None:
    a = torch.randn(LARGE, dtype=torch.float64)
    text = "def f(double(N) A) -> (S, M) { S() +=! A(i)  M() max=! A(i) }"
    total, most = run(text, a)
    same(total, a.sum())
    same(most, a.max())


# ---- memory


@pytest.mark.parametrize("offset", range(5))
def test_views_that_start_anywhere(offset: int) -> None:
    base = torch.randn(200)
    a, b = base[offset : offset + 67], base[100 + offset : 167 + offset]
    same(run(PLAIN, a, b)[0], a * b + 1)


def test_strides() -> None:
    a, b = torch.randn(67, 3)[:, 1], torch.randn(1).expand(67)
    same(run(PLAIN, a, b)[0], a * b + 1)
    a, b = torch.randn(9, 20).t()[::2], torch.randn(9, 7, 2)[..., 1]
    same(run(MATMUL, a, b)[0], a @ b)
    same(
        run(MATMUL, a[:, :1].expand(10, 9), b[:1].expand(9, 7))[0],
        a[:, :1].expand(10, 9) @ b[:1].expand(9, 7),
    )


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: torch.full((20, 30), 7.0)[3 : 3 + x.shape[0], 5 : 5 + x.shape[1]],
        lambda x: torch.full((x.shape[0], x.shape[1], 3), 7.0)[..., 1],
    ],
    ids=["transposed", "sliced", "strided"],
)
def test_outputs_that_are_views(view: object) -> None:
    a, b = torch.randn(9, 13), torch.randn(13, 17)
    out = view(
        torch.full((17, 9), 7.0) if view(torch.zeros(2, 3)).shape == (3, 2) else torch.zeros(9, 17)
    )
    run(MATMUL, a, b, outputs=out)
    same(out, a @ b)
    # Nothing around the view is touched.
    out.fill_(7.0)
    assert torch.equal(out._base, torch.full_like(out._base, 7.0))


def test_updates_in_place() -> None:
    text = "def f(float(N) B) -> (O) { O(i) = O(i) + B(i)  O(i) = O(i) * O(i) }"
    b, out = torch.randn(67), torch.randn(67)
    wanted = (out + b).square()
    run(text, b, outputs=out)
    same(out, wanted)


@pytest.mark.parametrize(
    "statement",
    [
        "O(i, j) = O(j, i) + B(i, j)",
        "O(i, j) = O(i + 1, j) + B(i, j) where i in 0:N - 1",
        "O(i, j) = O(i - 1, j) + B(i, j) where i in 1:N",
    ],
)
def test_updates_that_would_read_what_they_wrote(statement: str) -> None:
    text = f"def f(float(N, N) B) -> (O) {{ O(i, j) = B(i, j)  {statement} }}"
    with pytest.raises(tc.TCError, match="O") as error:
        run(text, torch.randn(5, 5))
    assert "internal" not in str(error.value)


# ---- statements


def test_ranges_that_start_above_0() -> None:
    a = torch.randn(40)
    text = "def f(float(N) A) -> (O) { O(i) = A(i) where i in 2:37 }"
    same(run(text, a)[0], a[2:37])
    text = "def f(float(N) A) -> (S) { S() +=! A(i) where i in 3:5 }"
    same(run(text, a)[0], a[3:5].sum())
    text = "def f(float(N) A) -> (O) { O(i) = A(i - 1) + 1  }"
    same(run(text, a)[0], a + 1)
    text = "def f(float(N) A) -> (O) { T(i) = A(i - 1)  O(i) = T(i) where i in 1:N }"
    same(run(text, a)[0], a[:-1])


@pytest.mark.parametrize("size", [3, 16, 19, 40])
def test_reads_backwards(size: int) -> None:
    a = torch.randn(size)
    text = f"""def f(float(N) A) -> (T, O) {{
      T(i) = A({size - 1} - i)
      O(i) = T({size - 1} - i) + T(i)
    }}"""
    flipped, out = run(text, a)
    same(flipped, a.flip(0))
    same(out, a + a.flip(0))


def test_parts_are_overwritten() -> None:
    a = torch.randn(40)
    text = "def f(float(N) A) -> (O) { O(i) = A(i)  O(i) = 0 where i in 2:5 }"
    wanted = a.clone()
    wanted[2:5] = 0
    same(run(text, a)[0], wanted)


def test_parts_of_rows() -> None:
    """Their two loops are not one: each row ends before the next begins."""
    a = torch.randn(6, 40)
    text = "def f(float(M, N) A) -> (O, S) { O(i, j) = A(i, j) * 2  S() +=! O(i, j) }"
    text = text.replace("A(i, j) * 2", "A(i, j) * 2 where i in 0:5, j in 0:33")
    out, total = run(text, a)
    same(out, a[:5, :33] * 2)
    same(total, out.sum())


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 40])
def test_padding_in_one_dimension(size: int) -> None:
    a = torch.randn(size)
    text = """def f(float(N) A) -> (O) {
      O(i) = i >= 2 && i < N + 2 ? A(i - 2) : 0 where i in 0:N + 4
    }"""
    same(run(text, a)[0], F.pad(a, (2, 2)))


@pytest.mark.parametrize("transposed", [False, True])
def test_padding_in_two_dimensions(transposed: bool) -> None:
    """The guarded read stands in vector position, or is one element for all lanes."""
    a = torch.randn(11, 19)
    a = a.t().contiguous().t() if transposed else a
    text = """def f(float(H, W) A) -> (O) {
      O(i, j) = i >= 1 && i < H + 1 && j >= 2 && j < W + 2 ? A(i - 1, j - 2) : 0
        where i in 0:H + 2, j in 0:W + 4
    }"""
    same(run(text, a)[0], F.pad(a, (2, 2, 1, 1)))
    text = """def f(float(N) A, float(M) B) -> (O) {
      O(i, j) = (i > 0 ? A(i - 1) : 0) * B(j) where i in 0:N + 1
    }"""
    same(run(text, a[0], a[:, 0])[0], F.pad(a[0], (1, 0))[:, None] * a[:, 0])


def test_padded_convolution() -> None:
    image, weight = torch.randn(2, 3, 9, 21), torch.randn(4, 3, 3, 3)
    text = """def f(float(N, C, H, W) I, float(O, C, KH, KW) K) -> (R) {
      R(n, o, h, w) +=! (h + a >= 1 && h + a < H + 1 && w + b >= 1 && w + b < W + 1
        ? I(n, c, h + a - 1, w + b - 1) : 0) * K(o, c, a, b)
        where h in 0:H, w in 0:W, a in 0:KH, b in 0:KW
    }"""
    torch.testing.assert_close(
        run(text, image, weight)[0], F.conv2d(image, weight, padding=1), rtol=1e-4, atol=1e-4
    )


def test_exists_lets_and_sizes() -> None:
    a, b = torch.randn(40), torch.randn(33)
    text = "def f(float(N) A, float(M) B) -> (O) { O(i) = A(i) where exists B(i) }"
    same(run(text, a, b)[0], a[:33])
    text = "def f(float(N) A) -> (O) { O(i) = x * x + x where x = A(i) }"
    same(run(text, a)[0], a * a + a)
    text = "def f(float(M, N) A) -> (O, P) { O(i) +=! A(i, j) / A.1  P() = O.0 + A.1 }"
    mean, count = run(text, a.reshape(4, 10))
    same(mean, a.reshape(4, 10).mean(1))
    assert count.item() == 14


@pytest.mark.parametrize(
    ("operator", "value"), [("=", "A(i, 0)"), ("+=!", "A(i, j)"), ("max=!", "A(i, j)"), ("=", "3")]
)
def test_calls_keep_the_declared_types_of_results(operator: str, value: str) -> None:
    where = " where i in 0:N" if value == "3" else ""
    t = tc.define(
        f"""
    def wide(float(N, M) A) -> (double(N) R) {{ R(i) {operator} {value}{where} }}
    def returned(float(N, M) A) -> (R) {{ R = wide(A) }}
    def between(float(N, M) A) -> (S) {{ R = wide(A)  S(i) = R(i) / 3 }}""",
        namespace=f"tc_sizes_calls_{zlib.crc32((operator + value).encode())}",
    )
    a = torch.full((4, 2), 2.0**24)
    a[:, 1] = 1
    wide, returned, between = t.wide(a), t.returned(a), t.between(a)
    assert wide.dtype == returned.dtype == between.dtype == torch.double
    assert torch.equal(returned, wide)
    if operator == "+=!":
        assert torch.equal(wide, a.double().sum(1))
    torch.testing.assert_close(between, wide / 3, rtol=1e-15, atol=0)


def test_calls_of_definitions() -> None:
    text = """
    def dense(float(B, M) I, float(O, M) W) -> (R) { R(b, o) +=! I(b, m) * W(o, m) }
    def f(float(B, M) I, float(O, M) W, float(P, O) V) -> (R) {
      H = dense(I, W)
      R = dense(H, V)
    }"""
    i, w, v = torch.randn(3, 5), torch.randn(7, 5), torch.randn(17, 7)
    same(run(text, i, w, v)[0], i @ w.t() @ v.t())


def test_temporaries() -> None:
    a = torch.randn(9, 37)
    text = """def f(float(N, K) A) -> (O) {
      S(i) +=! A(i, k)
      T(i, k) = A(i, k) - S(i) / K
      Q(i) +=! T(i, k) * T(i, k)
      O(i, k) = T(i, k) * rsqrt(Q(i) / K + 0.00001)
    }"""
    torch.testing.assert_close(run(text, a)[0], F.layer_norm(a, (37,)), rtol=1e-4, atol=1e-4)


def test_many_outputs() -> None:
    count = 40
    statements = " ".join(f"O{k}(i) = A(i) + {k}" for k in range(count))
    outputs = ", ".join(f"O{k}" for k in range(count))
    a = torch.randn(19)
    results = run(f"def f(float(N) A) -> ({outputs}) {{ {statements} }}", a)
    for k, actual in enumerate(results):
        same(actual, a + k)


def test_many_inputs() -> None:
    count = 45
    inputs = [torch.randn(19) for _ in range(count)]
    parameters = ", ".join(f"float(N) A{k}" for k in range(count))
    total = " + ".join(f"A{k}(i)" for k in range(count))
    same(
        run(f"def f({parameters}) -> (O) {{ O(i) = {total} }}", *inputs)[0],
        torch.stack(inputs).sum(0),
    )


@pytest.mark.parametrize("kept", [False, True])
def test_long_chains(kept: bool) -> None:
    """Temporaries or outputs, thirty statements long."""
    steps = 30
    statements = "T0(i) = A(i) " + " ".join(
        f"T{k}(i) = T{k - 1}(i) * 0.5 + A(i)" for k in range(1, steps)
    )
    outputs = [f"T{k}" for k in range(steps)] if kept else [f"T{steps - 1}"]
    a = torch.randn(67)
    results = run(f"def f(float(N) A) -> ({', '.join(outputs)}) {{ {statements} }}", a)
    value, values = a, [a]
    for _ in range(1, steps):
        value = value * 0.5 + a
        values.append(value)
    for actual, wanted in zip(results, values if kept else values[-1:], strict=True):
        same(actual, wanted)


def test_a_long_chain_of_reductions() -> None:
    steps = 12
    statements = " ".join(f"T{k}(i) +=! W(i, j) * T{k - 1}(j)" for k in range(1, steps))
    text = f"def f(float(N, N) W, float(N) T0) -> (T{steps - 1}) {{ {statements} }}"
    w, x = torch.randn(13, 13) / 4, torch.randn(13)
    wanted = x
    for _ in range(1, steps):
        wanted = w @ wanted
    same(run(text, w, x)[0], wanted)


@pytest.mark.parametrize(
    "first", ["T(i) = 0 T(i) += A(i)", "T(i) += A(i)", "T(i) += A(i) where i in 0:N"]
)
def test_the_first_statement_that_solves_an_index_gives_the_size(first: str) -> None:
    """Also where it reads the tensor itself, and a later one has a range of its own."""
    a = torch.arange(4.0)
    text = f"def f(float(N) A) -> (T) {{ {first} T(i) = 2 where i in 4:6 }}"
    keywords = {} if "= 0" in first else {"outputs": (torch.zeros(6),)}
    same(run(text, a, **keywords)[0], torch.tensor([0.0, 1, 2, 3, 2, 2]))


@pytest.mark.slow
def test_more_elements_than_32_bits_count() -> None:
    """2.2 billion bytes: addresses in 64 bits, of rows and of columns."""
    a = torch.randint(-100, 100, (50_000, 44_000), dtype=torch.int8)
    text = """
    def next(int8(M,N) A) -> (B) { B(i,j) = A(i,j) + 1 }
    def largest(int8(M,N) A) -> (m) { m(i) max=! A(i,j) }
    def halves(int8(M,N) A) -> (B) { B(i,j) = max(A(i,2*j), A(i,j/2)) where j in 0:22000 }
    """
    t = tc.define(text, namespace="tc_sizes_large")
    b = t.next(a)
    for rows in range(0, 50_000, 5_000):
        assert torch.equal(b[rows : rows + 5_000], a[rows : rows + 5_000] + 1)
    del b
    b = t.halves(a)
    for rows in range(0, 50_000, 10_000):
        part = a[rows : rows + 10_000]
        wanted = torch.maximum(part[:, ::2], part[:, :11_000].repeat_interleave(2, 1))
        assert torch.equal(b[rows : rows + 10_000], wanted)
    del b
    assert torch.equal(t.largest(a), a.amax(1))
    assert torch.equal(t.largest(a.t()), a.amax(0))
    small = tc.compile(text, "largest", None, a[:10])
    assert "int64" in tc.compile(text, "largest", None, a).loop_nest
    assert "int64" not in small.loop_nest


IN_BOUNDS = {
    "an index": ("i in 0:N, l = i + 1, j in 0:l", "cannot depend on index i"),
    "a tensor": ("l = I(0), i in 0:l, j in 0:N", "cannot read tensors"),
    "a float": ("i in 0:int32(x), j in 0:N", "cannot depend on x, a scalar of type float"),
    "a truth": ("i in 0:(b ? 3 : 4), j in 0:N", "cannot depend on b, a scalar of type bool"),
}


@pytest.mark.parametrize("kind", IN_BOUNDS)
def test_bounds_that_are_not_known_before_the_run(kind: str) -> None:
    """Also behind the name of a let."""
    clauses, message = IN_BOUNDS[kind]
    text = f"""def f(float(N) A, int32(M) I, float x, bool b) -> (O) {{
        O(i) +=! A(j) where {clauses} }}"""
    with pytest.raises(tc.LanguageError, match=message):
        tc.define(text, namespace="tc_bounds")


def test_graphs_know_sizes_with_remainders_and_sizes_called_as_words() -> None:
    text = "def f(float(N) A) -> (B) { B(i) = A(0) + i where i in 0:(N - 10) % 3 + 5 }"
    f = tc.define(text, namespace="tc_word_sizes").f
    run = torch.compile(f, dynamic=True, backend="eager", fullgraph=True)
    for n in (3, 7, 12, 13):
        assert torch.equal(run(torch.ones(n)), f(torch.ones(n)))
    g = tc.define("def g(float(if, else) A) -> (B) { B(i, j) = A(i, j) * 2 }",
                  namespace="tc_word_sizes").g  # fmt: skip
    twice = torch.compile(g, dynamic=True, backend="eager", fullgraph=True)
    for n in (5, 6):
        a = torch.randn(n, n + 1)
        assert torch.equal(twice(a), a * 2)


@pytest.mark.parametrize("reduction", ["+=!", "*=!", "max=!", "min=!"])
def test_an_empty_reduction_writes_inside_its_result(reduction: str) -> None:
    """Its results are written without a term."""
    t = define(f"""def beyond(float(N) B, float(M, K) A) -> (O) {{
      O(i) = B(i)
      O(i) {reduction} A(i, k)
    }}""")
    memory = torch.full((8,), 7.0)
    for terms in 0, 1:
        with pytest.raises(tc.ShapeError, match=r"writes O\(i\) outside: i = 2 gives index 2"):
            t.beyond(torch.ones(2), torch.empty(5, terms), outputs=memory[:2])
    assert (memory == 7).all()
    t.beyond(torch.ones(2), torch.empty(2, 0), outputs=memory[:2])
    assert (memory[2:] == 7).all()


@pytest.mark.parametrize(
    ("dtype", "range_", "scalar", "extent"),
    [
        ("int8", "0:s * s", 16, 256),
        ("uint8", "0:s + s", 200, 400),
        ("uint8", "s - 1:3", 0, 4),
        ("int8", "0:-s", -128, 128),
        ("int8", "0:abs(s)", -128, 128),
        ("int8", "0:(s > 0 ? s * s : 2)", 16, 256),
        ("uint8", "0:uint8(s + 250)", 9, 3),
    ],
)
def test_narrow_scalars_in_ranges(dtype: str, range_: str, scalar: int, extent: int) -> None:
    """They do not wrap around there, but for a cast that says so."""
    text = f"def f(float(N) A, {dtype} s) -> (O) {{ O(i) = A(0) where i in {range_} }}"
    assert run(text, torch.ones(1), scalar)[0].shape == (extent,)
    if "abs" not in range_ and "?" not in range_:  # whose ranges the interpreter does not find
        assert reference.run(text, "f", torch.ones(1), scalar).shape == (extent,)
