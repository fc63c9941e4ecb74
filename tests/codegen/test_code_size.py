"""Code that must not grow with the nesting of a text: such kernels took minutes to compile."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F

import tensor_comprehensions as tc


def compiled(text: str, *inputs: torch.Tensor) -> tc.Executor:
    return tc.compile(text, "f", tc.MappingOptions().matchLibraryCalls(False), *inputs)


@pytest.mark.parametrize("dtype", ["bfloat16", "half"])
def test_nested_operations_of_narrow_floats(dtype: str) -> None:
    """Rounding reads its argument several times."""
    lengths = []
    for depth in (4, 8):
        value = "A(i)"
        for _ in range(depth):
            value = f"({value} * A(i) + 1)"
        text = f"def f({dtype}(N) A) -> (O) {{ O(i) = {value} }}"
        executor = compiled(text, torch.ones(64, dtype=getattr(torch, dtype)))
        lengths.append(len(executor.text("stmt")))
    assert lengths[1] < 3 * lengths[0]


def test_heavy_bodies_get_small_blocks() -> None:
    text = """
    def f(half(J, K) A, half(I) B, half(J) C, half(R) D) -> (O) {
      O(i, j, k) argmax=! max(r > 0 ? D(r - 1) : -A(j, k), B(i)) + C(j) + D(s) where r in 1:R
    }
    """
    sizes = (17, 3), (5,), (17,), (9,)
    executor = compiled(text, *(torch.ones(*size, dtype=torch.half) for size in sizes))
    assert len(executor.assembly) < 400_000


def test_functions_of_register_tiles_are_not_unrolled_as_sums_are() -> None:
    """A cosine is some 60 operations; 64 of four vectors each took half a minute."""
    text = """def f(float(N, M) A, int32(M) I) -> (T, O) {
        T(i, j) = A(i, j) + cos(A(i, j))
        O(i, j) = T(i, I(j))
    }"""
    a, index = torch.randn(40, 64), torch.randint(0, 64, (64,), dtype=torch.int32)
    options = tc.MappingOptions().libraryCalls(None).cluster("S0", "S1").order("i")
    options = options.tile("task", i=40).registers(i=32).points("inside").vector(True)
    options = options.nest("S0", loops=("j",)).nest("S1", loops=("j",)).copy(None)
    executor = tc.compile(text, "f", options, a, index)
    torch.testing.assert_close(executor(a, index)[1], (a + a.cos())[:, index])
    assert len(executor.assembly) < 400_000


def test_conditions_of_indices_do_not_keep_steps_in_loops() -> None:
    """They are constants once their loop is unrolled: such sums took three times as long."""
    text = """def f(float(N, X) D) -> (O) {
        O(n, r, s) +=! x * 14 <= s && s < x * 14 + 14 && r > x && r + s > x ? D(n, x) : 0
            where r in 0:56, s in 0:56
    }"""
    d = torch.randn(6, 4)
    options = tc.MappingOptions().libraryCalls(None).cluster("S0_init", "S0").order("n", "r", "s")
    options = options.tile("task", n=1, r=28, s=56).registers(r=14, s=32).points("inside")
    executor = tc.compile(text, "f", options.vector(True).copy(None), d)
    x, r, s = (torch.arange(size) for size in (4, 56, 56))
    inside = (s // 14 == x[:, None])[None] & (r[:, None] > x)[..., None]
    torch.testing.assert_close(executor(d), torch.einsum("nx,rxs->nrs", d, inside.float()))
    assert not re.search(r"for \(\w+, 0, 4\)", executor.text("stmt"))


def test_points_of_many_functions_stay_in_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A register tile whose rows were unrolled: six of five vectors of twelve functions each."""
    monkeypatch.setenv("TC_MACHINE", "library_rate=1,vector_bits=256,vector_registers=16")
    value = "A(i, j)"
    for _ in range(12):
        value = f"tanh({value})"
    a = torch.randn(40, 18)
    options = tc.MappingOptions().libraryCalls(None).cluster("S0").order("j", "i").copy(None)
    options = options.tile("task", j=6).registers(j=6, i=40).points("inside").vector(True)
    text = f"def f(float(N, M) A) -> (O) {{ O(j, i) = {value} }}"
    executor = tc.compile(text, "f", options, a)
    wanted = a
    for _ in range(12):
        wanted = wanted.tanh()
    torch.testing.assert_close(executor(a), wanted.t())
    assert len(executor.assembly) < 150_000


SUM = "def f(float(B, D) X, float(C, D) W) -> (%s) { S(b, c) +=! X(b, d) * W(c, d) %s }"
MISH = "S(b, c) * tanh(log1p(exp(S(b, c))))"
# The results, and what follows the sum.
EPILOGUES = {
    "another result": ("O", f"O(b, c) = {MISH}"),
    "the same": ("S", f"S(b, c) = {MISH}"),
    "both": ("S, O", f"O(b, c) = {MISH}"),
    "one after the other": ("S, O", f"S(b, c) = {MISH} O(b, c) = S(b, c) * {MISH}"),
}


@pytest.mark.parametrize("sizes", [(128, 1000, 64), (13, 77, 20), (5, 16, 3)])
@pytest.mark.parametrize(("results", "epilogue"), EPILOGUES.values(), ids=EPILOGUES)
def test_functions_behind_a_sum_stay_in_loops(
    results: str, epilogue: str, sizes: tuple[int, int, int]
) -> None:
    """A block of 6 rows of four vectors, and its versions for the last rows and columns."""
    b, c, d = sizes
    x, w = torch.randn(b, d), torch.randn(c, d) / d**0.5
    executor = compiled(SUM % (results, epilogue), x, w)
    actual = executor(x, w)
    product = x @ w.T
    if epilogue.startswith("S"):
        product = F.mish(product)
    wanted = {"S": product, "O": F.mish(x @ w.T)}
    if results == "S, O" and epilogue.startswith("S"):
        wanted["O"] = product * F.mish(product)
    for name, value in zip(results.split(", "), actual if isinstance(actual, tuple) else (actual,)):
        torch.testing.assert_close(value, wanted[name], rtol=1e-4, atol=1e-5)
    if "block of results" in executor.explain():
        assert len(executor.assembly.splitlines()) < 5000  # 7300 where they were unrolled


def test_loops_of_many_gathers_are_not_analysed_by_llvm() -> None:
    """Any two accesses for a dependence: 1,536 took a minute."""
    text = "def f(float(N, M) A, float(N, K) B) -> (O) { O(i, j) +=! A(i, j) * B(i, k) }"
    a, b = torch.as_strided(torch.rand(200 * 81), (40, 200), (2, 81)), torch.rand(40, 2)
    options = tc.MappingOptions().libraryCalls(None).cluster("S0_init", "S0").inside()
    options = options.order("i", "j").tile("task", i=40, j=64).registers(i=6, j=64)
    options = options.points("inside").vector(True).nest("S0_init", loops=())
    options = options.nest("S0", loops=("k",)).copy(None)
    executor = tc.compile(text, "f", options, a, b)
    torch.testing.assert_close(executor(a, b), a * b.sum(1, keepdim=True))
    assert "prefetch" in executor.assembly, "what ends the analysis"


def test_narrow_elements_for_all_lanes_are_loaded_once() -> None:
    """Under a condition of the lanes: not in a branch for each."""
    text = """
    def f(int16(R, S) A, int16(S, M) B, float(N) X, float(R) Y, int16(Q) P) -> (O) {
      O(i, j) min=! Y(r) >= X(j) ? A(r, s) : B(s, P(i))
    }
    """
    narrow = {"dtype": torch.int16}
    inputs = (
        torch.ones(3, 8, **narrow),
        torch.ones(8, 16, **narrow),
        torch.ones(33),
        torch.ones(3),
    )
    executor = compiled(text, *inputs, torch.zeros(33, **narrow))
    assert len(executor.assembly) < 600_000


def test_reductions_that_leap_read_a_copy() -> None:
    """The innermost loop walks along A, and through B in steps of 128 KiB."""
    text = """
    def f(float(M, L, K) A, float(K, L, N) B) -> (O) { O(m, n) +=! A(m, l, k) * B(k, l, n) }
    """
    a, b = torch.randn(512, 64, 64), torch.randn(64, 64, 512)
    executor = compiled(text, a, b)
    assert "copy      B:" in executor.explain()
    assert "B: contiguous along n, but far apart along the reduction: copied" in executor.explain()
    torch.testing.assert_close(
        executor(a, b), torch.einsum("mlk,kln->mn", a, b), rtol=1e-4, atol=2e-3
    )
    # With few rows a copy costs more than it saves.
    assert "copy      B:" not in compiled(text, a[:8].contiguous(), b).explain()


def test_elements_under_a_condition_are_no_branches_of_lanes() -> None:
    text = """def f(int32(M, N) A, int32(K, L) B, int32(N, K) C) -> (O) {
      O(i, j, k) min=! x * x - x == x where x = (i == A(k, j) ? B(r, s) : C(j, r)), i in 0:38
    }"""
    inputs = [torch.zeros(s, dtype=torch.int32) for s in ((17, 17), (2, 4), (17, 2))]
    assert len(tc.compile(text, "f", None, *inputs).assembly) < 600_000


@pytest.mark.parametrize("name", ["sinpi", "cospi", "normcdf", "rhypot"])
def test_functions_of_narrow_floats_are_rounded_once(name: str) -> None:
    arguments = "A(i), A(i)" if name == "rhypot" else "A(i)"
    text = f"def f(bfloat16(N) A) -> (O) {{ O(i) = i < 3 ? 0.5 : A(i) * {name}({arguments}) }}"
    executor = tc.compile(text, "f", None, torch.zeros(50, dtype=torch.bfloat16))
    assert len(executor.text("stmt")) < 11_000


@pytest.mark.parametrize("size", range(195, 600, 45))
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
def test_one_iteration_gathers_fewer_elements_than_llvm_compares(
    monkeypatch: pytest.MonkeyPatch, dtype: str, size: int
) -> None:
    # A processor on which the model chooses vectors along the sum, which gather, for every type.
    monkeypatch.setenv("TC_MACHINE", "vector_bits=512,vector_registers=32,library_rate=1")
    type_ = {"float32": "float", "float64": "double"}.get(dtype, dtype)
    text = f"""def f({type_}(A, B, C) X) -> (O) {{
      O(i, j) +=! X(3 * j - i + 30, r, i + 2) where i in (-2):31, j in 0:17
    }}"""
    x = torch.zeros(81, size, 33, dtype=getattr(torch, dtype))
    along_terms = tc.MappingOptions().cluster("S0").vector(False)
    stmt = tc.compile(text, "f", along_terms, x).text("stmt")
    lanes = [int(n) for n in re.findall(r"X\[ramp\(.*?, 33, (\d+)\)", stmt)]
    assert 0 < sum(lanes) < 250


def test_vectors_put_together_element_by_element_are_not_unrolled_as_loads_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing gathers 16 bits: an operand of `vpdpwssd` is 32 loads; 120 such took 8 seconds."""
    # No room for copies, in which elements would lie in order.
    machine = "vector_bits=512,dot_products=2,vector_registers=32,cores=2,cache_bytes=512"
    monkeypatch.setenv("TC_MACHINE", machine)
    text = """def f(int16(40, 17, 19) A, int16(17, 5, 40, 15) B) -> (C) {
        C(m) +=! int32(A(m, p, q + k)) * int32(B(p, q, m, k))
    }"""
    shapes = (40, 17, 19), (17, 5, 40, 15)
    a, b = (torch.randint(-100, 100, shape, dtype=torch.int16) for shape in shapes)
    executor = tc.compile(text, "f", None, a, b)
    windows = a.double().unfold(2, 15, 1)  # m, p, q, k
    assert torch.equal(executor(a, b).double(), torch.einsum("mpqk,pqmk->m", windows, b.double()))
    assert len(executor.assembly) < 200_000


@pytest.mark.parametrize("dtype", ["half", "float"])
def test_results_that_are_no_neighbours_are_stored_in_loops(
    monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    """Also where a block is only initialised or converted, as on machines that split reductions."""
    text = f"""def f({dtype}(R, P, Q, S) A, {dtype}(R, S, V) B) -> (T) {{
      T(v, p, q) *=! A(r, p, q, s) * B(r, s, v)
      T(v, p, q) = 0 where v in 0:V, p in 0:P, q in 3:4
    }}"""
    type_ = torch.half if dtype == "half" else torch.float
    a, b = torch.ones(40, 17, 3, 3, dtype=type_), torch.ones(40, 3, 16, dtype=type_)
    machine = "vector_bits=512,vector_registers=32,cores=2,cache_bytes=2048,least_percent=1"
    monkeypatch.setenv("TC_MACHINE", f"{machine},library_rate=1")
    executor = compiled(text, a, b)
    across = re.findall(r"\bT(?:\.wide)?\[ramp\([^\]]*, (?:51|68), \d+\)\]", executor.text("stmt"))
    assert not across


def test_choices_in_choices() -> None:
    """Of which every condition reads, with a choice of its own, what those before allow."""
    lengths = []
    for depth in (2, 4):
        value, least = "X(i)", "(i > 2 && X(i - 3) > Z(i) ? X(i - 3) : Z(i))"
        for d in range(depth):
            value = f"{least} > Y({d}, i) ? 0.0 : {value} * ({least} == Y({d}, i) ? 0.5 : 2.0)"
            least = f"min({least}, Y({d}, i))"
        text = (
            "def f(float(N) X, float(4, N) Y, float(N) Z) -> (O) {"
            f" O(i) = {value} where i in 0:N }}"
        )
        x, y, z = inputs = torch.rand(32), torch.rand(4, 32), torch.rand(32) / 2
        executor = compiled(text, *inputs)
        lengths.append(len(executor.assembly))
        before = torch.cat((torch.zeros(3), x[:-3]))
        least, wanted = torch.where(before > z, before, z), x
        for row in y[:depth]:
            wanted = torch.where(least > row, 0, wanted * torch.where(least == row, 0.5, 2.0))
            least = torch.minimum(least, row)
        torch.testing.assert_close(executor(*inputs), wanted)
    assert lengths[1] < 3 * lengths[0], lengths
