"""Scatters: left-hand sides whose subscripts are expressions, against NumPy's ufunc.at."""

from __future__ import annotations

import re

import pytest
import torch
from emulated import run as emulate
from scatters import SCATTERS, Scatter, combine_at, integers, places

import tensor_comprehensions as tc
from tensor_comprehensions import _torch

by_name = pytest.mark.parametrize("scatter", SCATTERS, ids=lambda s: s.name)
OPTIONS = [None, "identity", "naive", "pointwise"]
OPERATORS = {"+=": "sum", "*=": "product", "min=": "min", "max=": "max"}
TYPES = {
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "float": torch.float32,
    "double": torch.float64,
}


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def threads(request: pytest.FixtureRequest) -> int:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def define(text: str, *options: object) -> tc.TC:
    return tc.define(text, *options, namespace="tc_scatter")


def expected(scatter: Scatter, inputs: tuple, start: torch.Tensor | None) -> tuple:
    wanted = scatter.reference(*inputs, *([] if start is None else [start]))
    return wanted if isinstance(wanted, tuple) else (wanted,)


def check(scatter: Scatter, inputs: tuple, options: object) -> None:
    start = scatter.start() if scatter.start else None
    wanted = expected(scatter, inputs, start)
    run = tc.compile(scatter.text, scatter.entry, options, *inputs)
    outputs = tuple(torch.full_like(w, -7) for w in wanted)
    if start is not None:
        outputs[0].copy_(start)
    run(*inputs, outputs=outputs)
    for output, w in zip(outputs, wanted, strict=True):
        assert torch.equal(output, w)


@pytest.mark.sampled
@by_name
@pytest.mark.parametrize("options", OPTIONS)
def test_agrees_with_numpy(scatter: Scatter, options: str | None, threads: int) -> None:
    check(scatter, scatter.make(), options)


@by_name
def test_strided_inputs(scatter: Scatter) -> None:
    def spread(value: object) -> object:
        if not isinstance(value, torch.Tensor) or value.dim() == 0:
            return value
        wide = torch.stack([value, value + 1], -1)
        return wide[..., 0].transpose(0, -1).contiguous().transpose(0, -1)

    check(scatter, tuple(spread(value) for value in scatter.make()), None)


@pytest.fixture(params=[False, True], ids=["atomic", "deterministic"])
def deterministic(request: pytest.FixtureRequest) -> bool:
    torch.use_deterministic_algorithms(request.param)
    yield request.param
    torch.use_deterministic_algorithms(False)


@pytest.mark.sampled
@by_name
def test_emulated_cuda(scatter: Scatter, deterministic: bool) -> None:
    inputs = scatter.make()
    start = scatter.start() if scatter.start else None
    wanted = expected(scatter, inputs, start)
    executor = tc.compile(scatter.text, scatter.entry, None, *inputs, target="cuda:sm_90")
    outputs = tuple(torch.full_like(w, -7) for w in wanted)
    if start is not None:
        outputs[0].copy_(start)
    emulate(executor, inputs, outputs, initial=int(start is not None))
    for output, w in zip(outputs, wanted, strict=True):
        assert torch.equal(output, w)
    assert ("tc::atomic_" in executor.cuda_source) == (
        not deterministic and "tc::" in executor.cuda_source
    )


def test_threads_of_cuda_whose_number_the_block_decides(deterministic: bool) -> None:
    """Thirds of the rows receive something: which ones of a block do, its number says."""
    text = """def thirds(float(A,B,C) X, float(M,N) S) -> (float(390,139) T, float(390,139) O) {
      T(v, w) = S(v, w)
      T(3 * k, 2 * j + 3 * i + 4) += X(k, i, j)
      O(v, w) = T(v, w) + T(v, w)
    }"""
    x, start = torch.randn(130, 3, 64), torch.randn(390, 139)
    executor = tc.compile(text, "thirds", None, x, start, target="cuda:sm_90")
    found = torch.empty_like(start), torch.empty_like(start)
    emulate(executor, (x, start), found, initial=0)
    k, i, j = torch.meshgrid(torch.arange(130), torch.arange(3), torch.arange(64), indexing="ij")
    wanted = start.index_put((3 * k, 2 * j + 3 * i + 4), x, accumulate=True)
    torch.testing.assert_close(found, (wanted, 2 * wanted), rtol=1e-5, atol=1e-5)


def test_threads_of_cuda_visit_the_points_of_their_places() -> None:
    """Where atomic updates are off, a place is the thread's, and its points are a loop's bounds."""
    text = """def diagonals(float(N, K) A, float(P) Z) -> (float(P) O) {
      O(i + k) +=! A(i, k) where i in 0:N, k in 0:K
    }"""
    a, z = integers(100, 30), torch.zeros(129)
    torch.use_deterministic_algorithms(True)
    try:
        executor = tc.compile(text, "diagonals", None, a, z, target="cuda:sm_90")
    finally:
        torch.use_deterministic_algorithms(False)
    places = (torch.arange(100)[:, None] + torch.arange(30)).flatten()
    output = torch.full((129,), -7.0)
    emulate(executor, (a, z), (output,), initial=0)
    assert torch.equal(output, torch.zeros(129).index_add_(0, places, a.flatten()))
    loops = re.findall(r"for \(.*\n +(\w+)", executor.cuda_source)
    assert len(loops) == 1 and loops[0] not in ("for", "if")


@pytest.mark.sampled
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_cuda_compiles(name: str, operator: str, arch: str) -> None:
    text = f"""def types({name}(N, D) A, int32(N) I) -> ({name}(23, D) S) {{
      S(I(i), d) {operator}! A(i, d)
    }}"""
    a, i = integers(9, 5, dtype=TYPES[name]), places(23, 9).int()
    executor = tc.compile(text, "types", None, a, i, target=f"cuda:{arch}")
    assert f"tc::atomic_{OPERATORS[operator]}(" in executor.cuda_source


def reduced(
    start: torch.Tensor, place: torch.Tensor, values: torch.Tensor, operator: str
) -> torch.Tensor:
    """In 64 bits and back, which for these values is exact or wraps around as the type does."""
    wide = torch.float64 if values.is_floating_point() else torch.int64
    result = combine_at(start.to(wide), (place,), values.to(wide), operator)
    return result.to(values.dtype)


def identity(dtype: torch.dtype, operator: str) -> float:
    if operator in ("+=", "*="):
        return 0 if operator == "+=" else 1
    if dtype.is_floating_point:
        return float("inf") if operator == "min=" else float("-inf")
    info = torch.iinfo(dtype)
    return info.max if operator == "min=" else info.min


@pytest.mark.sampled
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_types(name: str, operator: str, target: str) -> None:
    dtype = TYPES[name]
    text = f"""def types({name}(N, D) A, int32(N) I) -> ({name}(23, D) S, {name}(23, D) T) {{
      S(I(i), d) {operator}! A(i, d)
      T(I(i), d) {operator} A(i, d)
    }}"""
    a = integers(57, 37, dtype=dtype)
    if operator == "*=" and dtype.is_floating_point:
        a = 2.0 ** a.clamp(-1, 1)
    i = torch.cat([places(23, 56), torch.tensor([0])]).int()
    start = integers(23, 37, dtype=dtype)
    empty = torch.full((23, 37), identity(dtype, operator), dtype=dtype)
    if operator in ("min=", "max=") and dtype.is_floating_point:
        a[3, 5] = float("nan")
    wanted = [reduced(s, i.long(), a, operator) for s in (empty, start)]
    outputs = (torch.zeros_like(start), start.clone())
    if target == "cpu":
        tc.compile(text, "types", None, a, i)(a, i, outputs=outputs)
    else:
        emulate(
            tc.compile(text, "types", None, a, i, target="cuda:sm_90"),
            (a, i),
            outputs,
        )
    for output, w in zip(outputs, wanted, strict=True):
        torch.testing.assert_close(output, w, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_logical_reductions(target: str) -> None:
    """Afresh and into what is there, with and without an index that no place depends on."""
    text = """def logical(float(N, K, D) A, int64(N) I)
        -> (bool(11, D) Any, bool(11, D) All, bool(11, D) More, bool(11, D) Fewer, bool(13) Near) {
      Any(I(i), d) ||=! A(i, k, d) > 2
      All(I(i), d) &&=! A(i, k, d) > -3
      More(I(i), d) ||= A(i, 0, d) > 0
      Fewer(I(i), d) &&= A(i, 0, d) > 0
      Near(I(i) + 1) ||=! A(i, k, d) == 0 where d in 0:1
    }"""
    a, i = integers(40, 3, 9), places(10, 40)  # no point reaches the last place
    outputs = (*(torch.rand(11, 9) < 0.5 for _ in range(4)), torch.zeros(13, dtype=torch.bool))
    nothing = torch.zeros(11, 9, dtype=torch.bool)
    wanted = [
        combine_at(nothing, (i,), (a > 2).any(1), "||="),
        combine_at(~nothing, (i,), (a > -3).all(1), "&&="),
        combine_at(outputs[2], (i,), a[:, 0] > 0, "||="),
        combine_at(outputs[3], (i,), a[:, 0] > 0, "&&="),
        combine_at(outputs[4], (i + 1,), (a[:, :, 0] == 0).any(1), "||="),
    ]
    run = tc.compile(text, "logical", None, a, i, target="cpu" if target == "cpu" else "cuda:sm_80")
    if target == "cpu":
        run(a, i, outputs=outputs)
    else:
        emulate(run, (a, i), outputs)
    for output, w in zip(outputs, wanted, strict=True):
        assert torch.equal(output, w)


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_bools(target: str) -> None:
    text = """def bools(bool(N, D) A, int64(N) I) -> (bool(11, D) Any, bool(11, D) All) {
      Any(I(i), d) +=! A(i, d)
      All(I(i), d) *=! A(i, d)
    }"""
    a, i = integers(40, 9) > 0, places(11, 40)
    outputs = (torch.zeros(11, 9, dtype=torch.bool), torch.zeros(11, 9, dtype=torch.bool))
    run = tc.compile(text, "bools", None, a, i, target="cpu" if target == "cpu" else "cuda:sm_80")
    if target == "cpu":
        run(a, i, outputs=outputs)
    else:
        emulate(run, (a, i), outputs)
    zeros, ones = torch.zeros(11, 9), torch.ones(11, 9)
    assert torch.equal(outputs[0], combine_at(zeros, (i,), a.float(), "max=") > 0)
    assert torch.equal(outputs[1], combine_at(ones, (i,), a.float(), "min=") > 0)


@pytest.mark.parametrize("name", ["half", "bfloat16"])
def test_narrow_floats_accumulate_in_float(name: str) -> None:
    """Ones beyond the point where a narrow sum stays where it is."""
    a, i = torch.ones(5000, 3, dtype=TYPES[name]), torch.zeros(5000, dtype=torch.int64)
    t = define(f"""def ones_{name}({name}(N, D) A, int64(N) I) -> ({name}(2, D) S) {{
      S(I(i), d) +=! A(i, d)
    }}""")
    assert torch.equal(t(f"ones_{name}", a, i)[0], torch.full((3,), 5000.0).to(TYPES[name]))


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "int64"])
def test_places_of_every_type(name: str) -> None:
    i = places(100, 300)
    a = integers(300)
    t = define(
        f"def typed_{name}(float(N) A, {name}(N) I) -> (float(100) S) {{ S(I(i)) +=! A(i) }}"
    )
    assert torch.equal(
        t(f"typed_{name}", a, i.to(TYPES[name])), torch.zeros(100).index_add_(0, i, a)
    )


def test_shares_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, ranges of places and copies: however threads share, results are right."""
    cases = {
        "owner": (3000, 500, 600),
        "copies": (40000, 10, 2),
        "in parallel": (3000, 900, 128),
    }
    text = "def shared(float(N, D) G, int64(N) I) -> (float({v}, D) T) {{ T(I(i), d) +=! G(i, d) }}"
    for threads in (2, 3, 7):
        monkeypatch.setenv("TC_MACHINE", f"cores={threads},library_rate=1")
        for word, (n, v, d) in cases.items():
            g, i = integers(n, d), places(v, n)
            run = tc.compile(text.format(v=v), "shared", None, g, i)
            assert word in run.explain()
            # What only data says stays a guard.
            assert ("if (" in run.loop_nest) == (word == "owner")
            assert torch.equal(run(g, i), torch.zeros(v, d).index_add_(0, i, g))


LINEAR = {
    "sum": ("i + k", lambda i, k: i + k),
    "steps": ("2 * i + k", lambda i, k: 2 * i + k),
    "backwards": ("P - 1 - i - 2 * k", lambda i, k: 799 - i - 2 * k),
    "in a part": ("i / 2 + k + 100", lambda i, k: i // 2 + k + 100),
    "around": ("(i + k) % 200", lambda i, k: (i + k) % 200),
}


@pytest.mark.parametrize("place", LINEAR)
@pytest.mark.parametrize("cores", [2, 3, 7])
def test_owners_of_places_that_indices_say(
    place: str, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their ranges are in the domain: no owner looks at the points of another."""
    subscript, at = LINEAR[place]
    monkeypatch.setenv("TC_MACHINE", f"cores={cores},least_percent=1")
    text = f"""def linear(float(N, K, D) A, float(P) Z) -> (float(P, D) O) {{
      O({subscript}, d) +=! A(i, k, d) where i in 0:N, k in 0:K
    }}"""
    a, z = integers(301, 20, 260), torch.zeros(800)
    run = tc.compile(text, "linear", None, a, z)
    i, k = torch.meshgrid(torch.arange(301), torch.arange(20), indexing="ij")
    wanted = torch.zeros(800, 260).index_add_(0, at(i, k).flatten(), a.flatten(0, 1))
    assert torch.equal(run(a, z), wanted)
    assert "owner" in run.explain()
    # Loops have no bounds for what begins anew somewhere.
    assert "if (" not in run.loop_nest or place == "around"


def test_sums_do_not_depend_on_threads() -> None:
    text = "def sums(float(N, D) G, int64(N) I) -> (float(50, D) T) { T(I(i), d) +=! G(i, d) }"
    torch.use_deterministic_algorithms(True)
    try:
        for d in (1, 3, 64, 700):
            g, i = torch.randn(20011, d), places(50, 20011)
            results = []
            for threads in (1, 2, 1):
                torch.set_num_threads(threads)
                results.append(define(text).sums(g, i))
            assert all(torch.equal(results[0], other) for other in results[1:])
    finally:
        torch.use_deterministic_algorithms(False)


def test_values_that_are_read_in_place_are_refused() -> None:
    for operator, value in [("+=", "B(i)"), ("+=!", "B(i)"), ("+=!", "A(B(0))")]:
        text = f"""def place(int32(N) A, int32(N) I) -> (int32(N) B) {{
          B(i) = A(i)
          B(I(i)) {operator} {value} where i in 0:N
        }}"""
        a = torch.zeros(8, dtype=torch.int32)
        with pytest.raises(tc.LanguageError, match="Write to a tensor of another name") as error:
            tc.compile(text, "place", None, a, a)
        assert error.value.line == 3


def test_writes_that_leave_their_tensor() -> None:
    t = define("""def leave(float(N, K) A) -> (float(20) O) {
      O(2 * i + k) +=! A(i, k) where i in 0:N, k in 0:K
    }""")
    assert t.leave(torch.ones(8, 5)).sum() == 40
    with pytest.raises(tc.ShapeError) as error:
        t.leave(torch.ones(9, 5))
    assert (
        "writes O((i*2) + k) outside: i = 8, k = 4 gives index 20, but dimension 0 of O has size 20"
        in str(error.value)
    )
    assert "guard" not in str(error.value)


def test_reads_of_places_stay_inside() -> None:
    t = define(
        "def inside(float(N) A, int64(M) I) -> (float(9) O) { O(I(i)) +=! A(i) where i in 0:N }"
    )
    with pytest.raises(tc.ShapeError, match=r"reads I\(i\) outside: i = 3 gives index 3"):
        t.inside(torch.ones(4), torch.zeros(3, dtype=torch.int64))


def test_results_that_are_passed() -> None:
    """Views with strides, and a second call into the same memory."""
    t = define("def view(float(N, D) G, int64(N) I) -> (float(8, D) T) { T(I(i), d) +=! G(i, d) }")
    g, i = integers(30, 6), places(8, 30)
    wide = torch.full((6, 16), 5.0)
    out = wide.t()[::2]
    for _ in range(2):
        t.view(g, i, outputs=out)
        assert torch.equal(out, torch.zeros(8, 6).index_add_(0, i, g))
    assert (wide[:, 1::2] == 5).all()


@pytest.mark.parametrize("dtype", ["half", "bfloat16", "float", "int8"])
def test_a_scatter_goes_on_from_what_is_there(dtype: str) -> None:
    """Narrow floats are added up in wider ones, which begin with it."""
    text = f"def more({dtype}(N) G, int64(N) I) -> ({dtype}(9) T) {{ T(I(i)) += G(i) }}"
    kind = {"half": torch.half, "bfloat16": torch.bfloat16, "float": torch.float}
    g, i = integers(30).to(kind.get(dtype, torch.int8)), places(8, 30)
    out = torch.arange(9).to(g.dtype)
    wanted = torch.arange(9.0).index_add_(0, i, g.float()).to(g.dtype)
    define(text).more(g, i, outputs=out)
    assert torch.equal(out, wanted)


def test_explain_names_the_scatter() -> None:
    g, i = integers(30, 6), places(8, 30)
    text = "def seen(float(N, D) G, int64(N) I) -> (float(8, D) T) { T(I(i), d) +=! G(i, d) }"
    said = tc.compile(text, "seen", None, g, i).explain()
    assert "a scatter: loops over i, d inside each task, vectors along d" in said
    assert "a scatter has loops of its own" in said
    # G and the places are read, the whole result is filled.
    assert "reads G 720 bytes, I 240 bytes; writes T 192 bytes" in said


def test_two_places_of_one_point() -> None:
    """Every statement takes place as a whole, in order."""
    t = define("""
    def both(float(N) A, int64(N) I) -> (float(12) O) {
      O(I(i)) +=! A(i)
      O(11 - I(i)) max= A(i)
      O(v) = 2 * O(v)
      O(3) *= 0.5
    }
    """)
    a, i = integers(25), places(12, 25)
    wanted = torch.zeros(12).index_add_(0, i, a)
    wanted = 2 * combine_at(wanted, (11 - i,), a, "max=")
    wanted[3] /= 2
    assert torch.equal(t.both(a, i), wanted)


def test_a_called_definition_may_scatter() -> None:
    t = define("""
    def add(float(N) A, int64(N) I, float(V) B) -> (O) {
      O(v) = B(v)
      O(place) += A(i) where place = I(i)
    }
    def twice(float(N) A, int64(N) I, float(V) B) -> (P) {
      O = add(A, I, B)
      P = add(A, I, O)
    }
    """)
    a, i, b = integers(25), places(12, 25), integers(12)
    assert torch.equal(t.twice(a, i, b), b.index_add(0, i, a, alpha=2))


def test_sums_are_scattered_into_nothing() -> None:
    """Places that are computed are looked at by the loops; no element of the tensor is written."""
    text = """def f(int32(M, K) B, float(M, L) G, float(V) like) -> (float(V) O) {
        J(m) +=! B(m, k)
        O(J(m)) +=! G(m, l)
    }"""
    f = tc.define(text, namespace="tc_scatter_nothing").f
    with pytest.raises(tc.ShapeError, match="has size 0"):
        f(torch.ones(4, 3, dtype=torch.int32), torch.randn(4, 5), torch.empty(0))
    assert f(torch.ones(0, 3, dtype=torch.int32), torch.randn(0, 5), torch.empty(0)).numel() == 0


def test_a_place_that_is_an_index_or_a_number_of_data() -> None:
    """`O((i))` scatters, as `O(i)` does not, and stays what it is in the text that is kept."""
    text = "def f(float(N) A) -> (float(N) O) { O((i)) +=! A(i + 1) }"
    a = torch.arange(1.0, 5.0)
    t = tc.define(text, namespace="tc_scatter_places")
    assert torch.equal(t.f(a), torch.tensor([2.0, 3.0, 4.0, 0.0]))
    kept = _torch.parse(text).definitions[0].text
    assert "O((" in kept
    again = tc.define(kept, namespace="tc_scatter_places_again")
    assert torch.equal(again.f(a), t.f(a))
    plain = "def f(float(N) A) -> (O) { O(i) +=! A(i + 1) }"  # for i from -1 on
    assert torch.equal(tc.define(plain, namespace="tc_scatter_places_not").f(a), a)
    text = "def f(float(N) A, int32(N) I) -> (z, float(N) O) { z max=! I(i)  O((z)) +=! A(i) }"
    kept = _torch.parse(text).definitions[0].text
    assert _torch.parse(kept).definitions[0].text == kept


# What lies at a place, by the indices of the values; rows whose vectors have tails, next to each
# other and at one place again and again.
PARTS = {
    "in order": ("float(E, C, D) V", "O(b(e), c, d) +=! V(e, c, d)", "ecd->ecd"),
    "turned": ("float(E, D, C) V", "O(b(e), c, d) +=! V(e, d, c)", "edc->ecd"),
    "outermost": ("float(C, D, E) V", "O(b(e), c, d) +=! V(c, d, e)", "cde->ecd"),
    "by channels": ("float(N, E, C, D) V", "O(n, b(e), c, d) +=! V(n, e, c, d)", "necd->necd"),
}


@pytest.mark.parametrize(("values", "statement", "turned"), PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("columns", [3, 9, 23])
def test_parts_of_a_place(values: str, statement: str, turned: str, columns: int) -> None:
    sizes = {"n": 3, "e": 400, "c": 5, "d": columns}
    leading = "N, " if "n" in turned else ""
    text = f"""def f({values}, int64(E) b, float(B, C, D) z) -> (float({leading}B, C, D) O) {{
        {statement} }}"""
    read = turned.split("->")[0]
    operand = integers(*(sizes[index] for index in read))
    places = torch.randint(0, 30, (400,)).sort()[0]
    z = torch.zeros(30, 5, columns)
    result = tc.compile(text, "f", tc.MappingOptions(), operand, places, z)(operand, places, z)
    rows = torch.einsum(turned, operand)
    dimension = turned.index("e", turned.index(">")) - turned.index(">") - 1
    wanted = torch.zeros(*([3] if leading else []), 30, 5, columns)
    assert torch.equal(result, wanted.index_add_(dimension, places, rows))


def test_what_lies_at_a_place_is_passed_over_once() -> None:
    text = """def f(int64(E) b, float(E, C) H, float(E, M) Y, float(B) z) -> (float(B, C, M) O) {
        O(b(e), c, m) +=! H(e, c) * Y(e, m) }"""
    places, h, y = torch.randint(0, 50, (300,)), integers(300, 16), integers(300, 9)
    z = torch.zeros(50)
    executor = tc.compile(text, "f", tc.MappingOptions(), places, h, y, z)
    assert "loops over e, c, m inside each task, vectors along m" in executor.explain()
    rows = torch.einsum("ec,em->ecm", h, y)
    wanted = torch.zeros(50, 16, 9).index_add_(0, places, rows)
    assert torch.equal(executor(places, h, y, z), wanted)
