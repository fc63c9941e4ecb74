"""Plans: what is set holds, what ran can be read and run again, what cannot hold says why."""

from __future__ import annotations

import re

import pytest
import torch
from machine_code import code
from operators import FAMILIES, Case, Values

import tensor_comprehensions as tc
from tensor_comprehensions import reference

MATMUL = "def matmul(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
SOFTMAX = """def softmax(float(N,D) x) -> (y, top, sum) {
    top(n) max=! x(n,d)
    sum(n) +=! exp(x(n,d) - top(n))
    y(n,d) = exp(x(n,d) - top(n)) / sum(n)
}"""
PROLOGUE = """def f(float(M,K) A, float(N,K) B) -> (C) {
    T(n,k) = exp(B(n,k))
    C(m,n) +=! A(m,k) * T(n,k)
}"""
#: Four vectors of sixteen and copies, whatever processor this is.
MACHINE = "vector_bits=512,vector_registers=32,cores=2,cache_bytes=524288,library_rate=1"


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", MACHINE)


def square(text: str, options: tc.MappingOptions | None, size: int = 96) -> tc.Executor:
    """A product of matrices, which is right."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    entry = re.match(r"def (\w+)", text)[1]
    run = tc.compile(text, entry, options, a, b)
    wanted = a @ (b if entry == "matmul" else b.T)
    torch.testing.assert_close(run(a, b), wanted, rtol=1e-4, atol=1e-4)
    return run


def section(options: tc.MappingOptions, name: str) -> str:
    """The arguments of a call in the text of options."""
    found = re.search(rf"\.{name}\((.*?)\)(?=\.|$)", str(options))
    assert found, options
    return found[1]


# ---- what ran can be run again


def check_again(run: tc.Executor, text: str, entry: str, inputs: tuple) -> None:
    again = tc.compile(text, entry, run.options, *inputs)
    assert again.options == run.options
    assert code(again) == code(run)


@pytest.mark.parametrize("text", [MATMUL, TMM, PROLOGUE])
def test_products_again(text: str) -> None:
    inputs = (torch.randn(150, 200), torch.randn(*((200, 90) if text == MATMUL else (90, 200))))
    entry = re.match(r"def (\w+)", text)[1]
    run = tc.compile(text, entry, None, *inputs)
    assert ".registers(" in str(run.options)
    check_again(run, text, entry, inputs)


def test_a_prologue_in_copies_again() -> None:
    """The copies compute what another statement would: it is left out again."""
    inputs = (torch.randn(512, 512), torch.randn(512, 512))
    run = tc.compile(PROLOGUE, "f", None, *inputs)
    assert 'computes="S0"' in str(run.options) and '.cluster("S0")' not in str(run.options)
    check_again(run, PROLOGUE, "f", inputs)


def test_copies_that_compute_decide_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search gives them alone. The model would choose a form that has no such copies."""
    monkeypatch.setenv(
        "TC_MACHINE",
        "vector_bits=512,vector_registers=32,cores=2,cache_bytes=2048,last_cache_bytes=4,"
        "least_percent=1",
    )
    text = """
    def layers(float(N, M) A) -> (B, E) {
      B(i, j) = A(i, j)
      C(i, j) = B(i, j)
      D(i, j) = exp(C(i, j))
      E(i) +=! D(i, j)
    }
    """
    a = torch.rand(32, 33)
    run = tc.compile(text, "layers", None, a)
    (copy,) = re.findall(r"\.copy\((\".*computes=\"S1\")\)", str(run.options))
    options = eval(f'tc.MappingOptions().cluster("S2_init", "S2").copy({copy})')
    again = tc.compile(text, "layers", options, a)
    assert f".copy({copy})" in str(again.options)
    torch.testing.assert_close(again(a), (a, a.exp().sum(1)))


def test_passes_over_rows_again() -> None:
    x = torch.randn(64, 512)
    run = tc.compile(SOFTMAX, "softmax", None, x)
    assert '.nest("S0", loops=("d",), vector=True)' in str(run.options)
    check_again(run, SOFTMAX, "softmax", (x,))


CASES = [case for cases in FAMILIES.values() for case in cases]


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.definition)
def test_definitions_again(case: Case) -> None:
    inputs = case.inputs(Values(torch.float32), *case.sizes[-1])
    text = tc.ops.source(case.definition)
    run = tc.compile(text, case.definition, None, *inputs)
    check_again(run, text, case.definition, inputs)


def test_a_plan_for_a_gpu_again() -> None:
    x = torch.randn(64, 512)
    run = tc.compile(SOFTMAX, "softmax", None, x, target="cuda:sm_90")
    again = tc.compile(SOFTMAX, "softmax", run.options, x, target="cuda:sm_90")
    assert again.options == run.options and again.cuda_source == run.cuda_source


def test_library_calls_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", f"{MACHINE},library_rate=1000000000,library_call_cycles=1")
    run = square(MATMUL, None)
    assert section(run.options, "libraryCalls") == '"S0"'
    monkeypatch.setenv("TC_MACHINE", MACHINE)
    again = square(MATMUL, run.options)
    assert "call: ATen" in again.explain() and again.options == run.options
    without = square(MATMUL, None)
    assert section(without.options, "libraryCalls") == "None"


# ---- what is set holds, and the rest stays chosen


def test_tiles_keep_the_registers() -> None:
    run = square(TMM, tc.MappingOptions().tile(32, 24))
    assert "a block of results in registers" in run.explain()
    assert re.search(r"m in 3 tiles of 32", run.explain())
    assert re.search(r"n in 4 tiles of 24", run.explain())
    tiles = dict(re.findall(r"(\w)=(\d+)", section(run.options, "registers")))
    assert int(tiles["m"]) <= 32 and int(tiles["n"]) <= 24


def test_presets_keep_the_registers() -> None:
    assert "a block of results in registers" in square(TMM, tc.MappingOptions("naive")).explain()


def test_a_tile_of_a_cluster() -> None:
    run = square(TMM, tc.MappingOptions().cluster("S0").tile("task", n=40))
    assert re.search(r"n in 3 tiles of 40", run.explain())
    assert "a block of results in registers" in run.explain()


def test_an_order_decides_the_vector() -> None:
    for order in (("m", "n"), ("n", "m")):
        run = square(MATMUL, tc.MappingOptions().cluster("S0").order(*order))
        assert f"this form, vectors along {order[1]}\n" in run.explain()


def test_no_register_tile() -> None:
    run = square(TMM, tc.MappingOptions().cluster("S0").registers())
    assert "registers" not in run.explain().split("form")[1].split("\n")[0]


def test_a_register_tile() -> None:
    options = tc.MappingOptions().cluster("S0").registers(n=3, m=32).order("n", "m").vector()
    run = square(TMM, options)
    assert section(run.options, "registers") == "n=3, m=32"


def test_one_thread_for_a_cluster() -> None:
    big = tc.MappingOptions().cluster("S0").parallel(False)
    assert section(square(TMM, big, 256).options, "parallel") == "False"
    assert section(square(TMM, None, 256).options, "parallel") == "True"


def test_scalar_own_loops() -> None:
    x = torch.randn(64, 512)
    options = tc.MappingOptions().cluster("S0").nest(None)
    run = tc.compile(SOFTMAX, "softmax", options, x)
    assert ".nest(None)" in str(run.options)
    torch.testing.assert_close(run(x)[0], torch.softmax(x, 1), rtol=1e-5, atol=0)


def test_clusters_are_as_they_are_named() -> None:
    x = torch.randn(64, 512)
    together = tc.compile(SOFTMAX, "softmax", tc.MappingOptions().cluster("S0", "S1", "S2"), x)
    apart = tc.compile(
        SOFTMAX, "softmax", tc.MappingOptions().cluster("S0").cluster("S1").cluster("S2"), x
    )
    assert "softmax on the CPU, 1 group" in together.explain()
    assert "softmax on the CPU, 3 groups" in apart.explain()
    for run in (together, apart):
        torch.testing.assert_close(run(x)[0], torch.softmax(x, 1), rtol=1e-5, atol=0)


# ---- what cannot hold says why


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            tc.MappingOptions().cluster("S0").tile("task", q=4),
            "the options speak of a loop q of S0_init, S0, which share the loops m, n",
        ),
        (tc.MappingOptions().cluster("S0").registers(q=4), "the options speak of a loop q"),
        (tc.MappingOptions().cluster("S0").order("m"), "the plan does not order the loop n"),
        (
            tc.MappingOptions().cluster("S0").order("m", "m"),
            "the plan orders a loop m, which the statements of S0_init, S0 do not share, or orders "
            "it twice",
        ),
        (
            tc.MappingOptions().cluster("S0").nest("S0", loops=("k",)).nest("S0_init"),
            "the plan has S0 in front of S0_init, which it depends on",
        ),
        (
            tc.MappingOptions().cluster("S0").nest("S0_init"),
            "the plan has no loops for S0",
        ),
        (
            tc.MappingOptions().cluster("S0").nest("S0_init").nest("S0", loops=("m",)),
            "the plan orders a loop m of S0, which has none of its own of that name",
        ),
        (
            tc.MappingOptions().cluster("S0").copy("A(k, m)", statement="S0", order=(0, 1)),
            "the plan copies A(k, m) of S0, which reads A(m, k), B(n, k)",
        ),
        (
            tc.MappingOptions().cluster("S0").copy("A(m, k)", statement="S0", order=(0, 0)),
            "in an order that does not name each of its 2 dimensions once",
        ),
        (
            tc.MappingOptions().cluster("S7").tile("task", m=4),
            "the options speak of a statement S7; with loops of their own are S0, S0_init",
        ),
        (
            tc.MappingOptions().libraryCalls("S1"),
            "the options leave S1 to a library, which has no function for it; it has some for S0",
        ),
    ],
)
def test_reasons(options: tc.MappingOptions, words: str) -> None:
    a, b = torch.randn(8, 8), torch.randn(8, 8)
    with pytest.raises(tc.CompilationError) as refused:
        tc.compile(TMM, "tmm", options, a, b)
    assert words in str(refused.value)


def rows_of(text: str, *sizes: int, options: tc.MappingOptions) -> str:
    """Why these options cannot be."""
    entry = re.match(r"def (\w+)", text)[1]
    inputs = (
        [torch.randn(*sizes), torch.randn(sizes[1])] if "K) x" in text else [torch.randn(*sizes)]
    )
    with pytest.raises(tc.CompilationError) as refused:
        tc.compile(text, entry, options, *inputs)
    return str(refused.value)


def test_reasons_about_register_tiles() -> None:
    """They were internal errors, of isl or of the code generator."""
    moments = (
        "def moments(float(N,K) I) -> (a, b) {\n  a(n) +=! I(n,k)\n  b(n) +=! I(n,k) * I(n,k)\n}"
    )
    rows = tc.MappingOptions().cluster("S0", "S1").registers(n=3).vector(False)
    rows.nest("S0_init").nest("S1_init").nest("S0", "S1", loops=("k",), vector=True)
    assert ("the plan has rows in registers around a vector that S0 and S1 share") in rows_of(
        moments, 9, 50, options=rows
    )
    product = "def mv(float(M,K) A, float(K) x) -> (C) { C(i) +=! A(i,k) * x(k) }"
    points = tc.MappingOptions().cluster("S0").registers(i=2).vector(False).tile("reduction", k=1)
    points.nest("S0_init").nest("S0", loops=("k",), vector=True)
    assert (
        "the plan has rows in registers around a vector along k, of which a tile has 1 point"
    ) in rows_of(product, 23, 35, options=points)


def test_reasons_about_statements() -> None:
    x = torch.randn(8, 8)
    shared = tc.MappingOptions().cluster("S0", "S1", "S2")
    with pytest.raises(tc.CompilationError) as refused:
        loops = shared.nest("S0_init").nest("S1_init").nest("S0", "S1", "S2", loops=("d",))
        tc.compile(SOFTMAX, "softmax", loops, x)
    assert "the plan lets S0 and S1 share loops, but the second needs of the first" in str(
        refused.value
    )
    with pytest.raises(tc.CompilationError) as refused:
        tc.compile(SOFTMAX, "softmax", tc.MappingOptions().cluster("S0", "S2").cluster("S1"), x)
    assert "the options put S0, S2 into one cluster, but others lie between them" in str(
        refused.value
    )


def test_plans_of_long_programs_again() -> None:
    """More statements than are compiled together: those of each segment have names of their own."""
    steps = [f"T{k}(i) = exp(T{k - 1}(i)) - A(i)" for k in range(1, 70)]
    text = "def f(float(N) A) -> (S) { T0(i) = A(i)\n" + "\n".join(steps) + "\nS +=! T69(i) }"
    for target in ("cpu", "cuda:sm_90"):
        a = torch.randn(50)
        run = tc.compile(text, "f", None, a, target=target)
        again = tc.compile(text, "f", run.options, a, target=target)
        assert again.options == run.options
        assert again.loop_nest == run.loop_nest


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda o: o.tile("task", m=0), 'MappingOptions.tile("task", m=0): expected a level'),
        (lambda o: o.tile("lunch", m=4), 'MappingOptions.tile("lunch", m=4): expected a level'),
        (lambda o: o.tile("task", m="a"), 'tile("task", m="a"): expected a level'),
        (lambda o: o.points("above"), 'expected one of "around", "vector inside", "inside"'),
        (lambda o: o.cluster(), "MappingOptions.cluster(): expected names of statements"),
        (lambda o: o.cluster("S1").cluster("S1"), "that no cluster before has; S1 is in one"),
        (lambda o: o.nest(), "MappingOptions.nest(): expected statements, their loops"),
        (lambda o: o.copy("A(m, k)"), "expected a read, the statement that makes it"),
        (lambda o: o.registers(m=-1), "expected points of a register tile"),
        (lambda o: o.libraryCalls(), "expected names of statements, as Executor.explain() has"),
    ],
)
def test_bad_values(make: object, words: str) -> None:
    options = tc.MappingOptions().cluster("S0")
    before = str(options)
    with pytest.raises(tc.TCError) as refused:
        make(options)
    assert words in str(refused.value)
    assert str(options) == before or "S1" in str(options)


def test_options_of_clusters_need_a_cluster() -> None:
    message = (
        r"registers is said of a cluster: .* first, as in cluster\(.S0.\)\.registers\(\.\.\.\)"
    )
    with pytest.raises(tc.TCError, match=message):
        tc.MappingOptions().registers(m=4)


# ---- text and files


def test_texts_rebuild_options() -> None:
    options = (
        tc.MappingOptions("naive")
        .libraryCalls(None)
        .cluster("S0_init", "S0")
        .inside("b")
        .order("n", "m")
        .tile("task", m=64, n=8)
        .parallel(True)
        .tile("reduction", k=100)
        .registers(n=6, m=64)
        .points("apart")
        .vector(True)
        .nest("S0_init")
        .nest("S0", loops=("k",), vector=False)
        .copy("A(m, k)", statement="S0", order=(1, 0), computes="S7")
        .cluster("S1")
        .tile("task", ("in", 4), ("a.b", 3))
        .copy(None)
    )
    assert eval(str(options), {"tc": tc}) == options
    assert tc.MappingOptions.parse(str(options)) == options
    assert '("in", 4), ("a.b", 3)' in str(options)


def test_plans_travel_in_files(tmp_path: object) -> None:
    path = f"{tmp_path}/plans"
    options = tc.MappingOptions().cluster("S0").tile("task", m=32, n=24).libraryCalls(None)
    t = tc.define(TMM, options, namespace="tc_plans_saved")
    tc.save(path, t)
    loaded = tc.define(TMM, cache=path, namespace="tc_plans_loaded")
    assert str(loaded.tmm.options) == str(options)


def test_register_tiles_of_more_than_the_stack_holds() -> None:
    """Twice 20 KiB of results: Halide took them from memory that nobody had counted."""
    product = "{ O(b, i, j) +=! A(b, i, k) * C(b, j, k) }"
    text = f"def f(double(B, I, K) A, double(B, J, K) C) -> (O) {product}"
    a, c = (torch.randn(40, 8, 8, dtype=torch.double) for _ in range(2))
    options = tc.MappingOptions().libraryCalls(None).cluster("S0_init", "S0").order("i", "j", "b")
    options = options.tile("task", b=40, i=8, j=8).registers(b=40, i=8, j=8).points("inside")
    executor = tc.compile(text, "f", options.vector(True).copy(None), a, c)
    assert "register tile 8 x 8 x 40" in executor.loop_nest
    assert executor.number("scratch_bytes") > 2 * 40 * 8 * 8 * 8
    torch.testing.assert_close(executor(a, c), a @ c.mT)


def test_copies_of_rows_of_one_element() -> None:
    """The last tile has one column: nothing there is interleaved as vectors."""
    text = """def f(bfloat16(M, 1) A, bfloat16(1, P, I) B, bfloat16(M, N) C, bool(N) D,
                  bfloat16(3, 9) E, bfloat16(M, 7, N) F) -> (T) {
        T(i, m, n) +=! A(m, r) * B(r, n, i) * C(m, n)
        T(i, m, n) += (D(n) ? E(2 - i, (n + 1) / 2) : C(m, m + 9))
        T(i, m, n) *= (0.5 + F(m, 2 * i - m + 2, n))
    }"""
    sizes = (2, 1), (1, 18, 3), (2, 17), (17,), (3, 9), (2, 7, 17)
    inputs = [torch.randint(-2, 3, size).to(torch.bfloat16) for size in sizes]
    inputs[3] = inputs[3] > 0
    options = tc.MappingOptions().libraryCalls(None)
    options = options.cluster("S0_init", "S0", "S1", "S2", "S3").inside()
    options = options.tile("task", i=1, n=16, m=3).parallel(False).points("vector inside")
    options = options.copy("B(r, n, i)", statement="S0", order=(0, 1, 2))
    wanted = torch.as_tensor(reference.run(text, "f", *inputs))
    assert torch.equal(tc.compile(text, "f", options, *inputs)(*inputs), wanted)


def test_results_that_loops_inside_a_register_tile_lead_through_stay_in_memory() -> None:
    """Of a statement that does not reduce, every iteration of its own loops has another result."""
    text = """def f(double(N, M) A) -> (O) {
        T(i, j, k) = A(i, 4 * j + k) where j in 0:25, k in 0:4
        O(i, j) = T(i, j / 4, j % 4) where j in 0:100
    }"""
    options = (
        tc.MappingOptions()
        .cluster("S0", "S1")
        .order("i")
        .registers(i=64)
        .points("apart")
        .vector(True)
        .nest("S0", loops=("j", "k"), vector=True)
        .nest("S1", loops=("j",))
        .copy(None)
    )
    a = torch.randn(40, 100, dtype=torch.double)
    wanted = a[:, [4 * (j // 4) + j % 4 for j in range(100)]]
    assert torch.equal(tc.define(text, options).f(a), wanted)


@pytest.mark.parametrize("own", [1, 2, 20])
def test_rows_around_vectors_that_are_no_loops(own: int) -> None:
    """A vector along a loop of one iteration is none; its rows are fewer in the last task."""
    text = "def f(float(N,K) A, float(M,K) B) -> (C) { C(n,m) +=! A(n,k) * B(m,k) }"
    options = (
        tc.MappingOptions()
        .libraryCalls(None)
        .cluster("S0_init", "S0")
        .order("m", "n")
        .tile("task", n=3)
        .registers(n=3)
        .vector(False)
        .nest("S0_init", loops=())
        .nest("S0", loops=("k",), vector=True)
    )
    a, b = torch.randn(4, own), torch.randn(7, own)
    torch.testing.assert_close(tc.define(text, options).f(a, b), a @ b.t())


def test_copies_compute_nothing_from_what_their_tasks_overwrite(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(
        "TC_MACHINE",
        "vector_bits=512,vector_registers=32,cores=2,cache_bytes=524288,library_rate=1",
    )
    text = """def f(float(N,N) A, float(N,N) B) -> (C, X) {
      X(n,k) = B(n,k) * 0.5
      T(n,k) = exp(X(n,k))
      C(m,n) +=! A(m,k) * T(n,k)
      X(m,n) = C(m,n)
    }"""
    a, b = torch.randn(512, 512), torch.randn(512, 512)
    options = tc.MappingOptions("default").libraryCalls(None)
    c, x = tc.compile(text, "f", options, a, b)(a, b)
    wanted = a @ (b * 0.5).exp().T
    torch.testing.assert_close(c, wanted, rtol=1e-3, atol=1e-2)
    torch.testing.assert_close(x, wanted, rtol=1e-3, atol=1e-2)


def test_a_copy_of_a_part_stands_for_no_temporary(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of a reduction is small enough to be copied, the whole steps are not."""
    monkeypatch.setenv(
        "TC_MACHINE",
        "vector_bits=512,vector_registers=32,cores=2,cache_bytes=524288,library_rate=1",
    )
    text = """def f(float(M,K) A, float(N,K) B) -> (C) {
      T(n,k) = exp(B(n,k))
      C(m,n) +=! A(m,k) * T(n,k)
    }"""
    a, b = torch.randn(16, 2050), torch.randn(1024, 2050)
    options = tc.MappingOptions("default").libraryCalls(None).cluster("S1").order("m", "n")
    options.tile("task", n=1024).tile("reduction", k=1024).registers(m=4, n=16, k=4)
    result = tc.compile(text, "f", options, a, b)(a, b)
    torch.testing.assert_close(result, a @ b.exp().T, rtol=1e-3, atol=2e-1)
