"""Options that are no Plan of a program: refused before anything is planned by them."""

from __future__ import annotations

import pytest
import torch

import tensor_comprehensions as tc

MATMUL = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
MATRICES = ((33, 20), (20, 40))
#: Six shared loops, more than the estimate of a Plan with another one found in its place.
TURNED = """def f(float(F1,E1,D1,C1,B1,A1,K) X, float(K) Y) -> (O) {
    O(a,b,c,d,e,f) +=! X(f,e,d,c,b,a,k) * Y(k)
}"""
#: Statements with two loops of their own, and with one.
UNLIKE = """def f(float(N,M,K) A) -> (S, Q) {
    S(n) +=! A(n,m,k)
    Q(n) +=! A(n,m,0)
}"""
SUM = "def f(float(N) A) -> (s) { s +=! A(i) }"


def cluster(*statements: str) -> tc.MappingOptions:
    return tc.MappingOptions().libraryCalls(None).cluster(*(statements or ("S0",)))


def unlike(first: str, second: str, loops: tuple) -> tc.MappingOptions:
    inits = cluster("S0", "S1").nest("S0_init").nest("S1_init")
    return inits.nest(first, second, loops=loops)


@pytest.mark.parametrize(
    ("text", "sizes", "options", "words"),
    [
        (
            MATMUL,
            MATRICES,
            cluster().registers(m=4, n=16).copy("B(k, n)", statement="S0", order=(0, 7)),
            "in an order that does not name each of its 2 dimensions once",
        ),
        (
            MATMUL,
            MATRICES,
            cluster()
            .registers(m=4, n=16)
            .copy("B(k, n)", statement="S0", order=("9/4", "n", "9%4")),
            "in an order that does not name each of its 2 dimensions once",
        ),
        (
            TURNED,
            ((3, 3, 3, 3, 3, 3, 4), (4,)),
            cluster().order("zzz", "b", "c", "d", "e", "f").registers(e=3, f=3),
            "the plan orders a loop zzz, which the statements of S0_init, S0 do not share",
        ),
        (
            MATMUL,
            MATRICES,
            cluster().nest("S0_init", "S0", loops=((), ("k",))),
            "the plan lets S0_init, S0 share loops, of which they have unlike numbers",
        ),
        (
            UNLIKE,
            ((10, 12, 14),),
            unlike("S1", "S0", (("m",), ("m", "k"))),
            "the plan lets S1, S0 share loops, of which they have unlike numbers",
        ),
        (
            UNLIKE,
            ((10, 12, 14),),
            unlike("S0", "S1", (("m", "k"), ("m",))),
            "the plan lets S0, S1 share loops, of which they have unlike numbers",
        ),
        (
            MATMUL,
            MATRICES,
            cluster().tile("reduction", typo=4),
            "the plan cuts a reduction over typo, which no statement of S0_init, S0 has as a loop",
        ),
        (
            MATMUL,
            MATRICES,
            cluster().tile("reduction", m=4),
            "the plan cuts a reduction over m, which no statement of S0_init, S0 has as a loop",
        ),
        (
            SUM,
            ((40,),),
            cluster().copy("A(i)", statement="S0", order=(0,)),
            "the options copy A(i): there are no shared loops whose tasks would make it",
        ),
    ],
)
def test_reasons_instead_of_crashes(
    text: str, sizes: tuple, options: tc.MappingOptions, words: str
) -> None:
    """Most ended the process, in the estimate of what nobody had looked at, or in isl."""
    for _ in range(3):
        with pytest.raises(tc.CompilationError) as refused:
            tc.compile(text, "f", options, *(torch.randn(size) for size in sizes))
        assert words in str(refused.value)


def test_a_vector_for_which_registers_are_too_many_is_not_taken() -> None:
    """Of a tile with 66 rows, only those rows can be the vector."""
    a, b = torch.randn(160, 20), torch.randn(20, 40)
    options = cluster().registers(m=66, n=16)
    run = tc.compile(MATMUL, "f", options, a, b)
    assert ".registers(m=66, n=16)" in str(run.options) and '.order("n", "m")' in str(run.options)
    torch.testing.assert_close(run(a, b), a @ b, rtol=1e-4, atol=1e-4)


# ---- statements that share a nest without loops

MOMENTS = """def f(float(N,M) A) -> (S, Q) {
    S(n) +=! A(n,m)
    Q(n) +=! A(n,m) * A(n,m)
}"""
EXTREMES = """def f(float(N) A) -> (S, Q) {
    S +=! A(i)
    Q max=! A(i)
}"""


def moments(*points: str, vector: bool = False) -> tc.MappingOptions:
    options = cluster("S0", "S1")
    for place in points:
        options.points(place)
    return options.vector(vector).nest("S0_init", "S1_init")


@pytest.mark.parametrize(
    "options",
    [
        moments().nest("S0", "S1", loops=("m",), vector=True),
        moments().registers(n=4).nest("S0", loops=("m",), vector=True).nest("S1", loops=("m",)),
        *(
            moments(place, vector=vector)
            .nest("S0", loops=("m",))
            .nest("S1", loops=("m",))
            .copy("A(n, m)", statement="S0", order=(1, 0))
            for place in ("around", "inside", "vector inside", "apart")
            for vector in (True, False)
        ),
        moments("apart").nest("S0", "S1", loops=("m",), vector=True),
        # All loops of a nest are terms of a register tile.
        moments("apart", vector=True).registers(n=16, m=3).nest("S0", "S1", loops=("m",)),
    ],
    ids=lambda options: str(options).split("vector(")[0].rsplit(".")[-2],
)
def test_initialisations_share_a_nest(options: tc.MappingOptions) -> None:
    """isl took their sequence for a part of that of all nests, and those behind were miscounted."""
    a = torch.randn(40, 3 if "m=3" in str(options) else 50)
    run = tc.compile(MOMENTS, "f", options, a)
    torch.testing.assert_close(run(a), (a.sum(1), (a * a).sum(1)), rtol=1e-4, atol=1e-4)
    again = tc.compile(MOMENTS, "f", run.options, a)
    assert again.options == run.options and again.loop_nest == run.loop_nest


@pytest.mark.parametrize("place", ["around", "apart"])
def test_nests_without_shared_loops(place: str) -> None:
    options = cluster("S0", "S1").points(place).nest("S0_init", "S1_init")
    options.nest("S0", loops=("i",), vector=True).nest("S1", loops=("i",), vector=True)
    a = torch.randn(50)
    run = tc.compile(EXTREMES, "f", options, a)
    torch.testing.assert_close(run(a), (a.sum(), a.max()), rtol=1e-4, atol=1e-4)


# ---- sizes of 0


@pytest.mark.parametrize("sizes", [(0, 8, 20), (4, 0, 20), (4, 8, 0), (0, 0, 0)])
@pytest.mark.parametrize(
    "options",
    [
        tc.MappingOptions().cluster("S0").registers(m=4, n=16),
        tc.MappingOptions().cluster("S0").registers(m=3, n=16, k=2),
        tc.MappingOptions().cluster("S0_init", "S0").order("m", "n").tile("task", m=2),
        tc.MappingOptions().cluster("S0").copy("B(k, n)", statement="S0", order=(0, 1)),
        tc.MappingOptions().cluster("S0").nest("S0_init").nest("S0", loops=("k",)),
        tc.MappingOptions().cluster("S0").tile("reduction", k=4),
        tc.MappingOptions().libraryCalls("S0"),
    ],
    ids=str,
)
def test_options_of_statements_that_have_nothing_to_do(
    options: tc.MappingOptions, sizes: tuple[int, int, int]
) -> None:
    m, k, n = sizes
    t = tc.define(MATMUL, options)
    a, b = torch.randn(m, k), torch.randn(k, n)
    assert torch.equal(t.f(a, b), torch.zeros(m, n))
    a, b = torch.randn(4, 8), torch.randn(8, 20)
    torch.testing.assert_close(t.f(a, b), a @ b, rtol=1e-4, atol=1e-4)


def test_what_ran_runs_an_empty_batch() -> None:
    a, b = torch.randn(40, 30), torch.randn(30, 50)
    run = tc.compile(MATMUL, "f", tc.MappingOptions().libraryCalls(None), a, b)
    t = tc.define(MATMUL, run.options)
    assert t.f(a[:0], b).shape == (0, 50)
    assert torch.equal(t.f(a[:, :0], b[:0]), torch.zeros(40, 50))


def test_other_clusters_keep_their_options_beside_an_empty_one() -> None:
    text = """def f(float(N,M) A, float(L) B) -> (S, O) {
        S(n) +=! A(n,m)
        O(i) = B(i) * B(i)
    }"""
    options = tc.MappingOptions().cluster("S0").tile("task", n=8).tile("reduction", m=4)
    options.cluster("S1").tile("task", i=25)
    b = torch.randn(100)
    run = tc.compile(text, "f", options, torch.randn(20, 0), b)
    assert '.tile("task", i=25)' in str(run.options) and "n=8" not in str(run.options)
    s, o = run(torch.randn(20, 0), b)
    assert torch.equal(s, torch.zeros(20)) and torch.equal(o, b * b)


def test_statements_that_there_are_not_are_told_of_for_sizes_of_0() -> None:
    a, b = torch.randn(0, 8), torch.randn(8, 20)
    for target in ("cpu", "cuda:sm_90"):
        options = tc.MappingOptions().cluster("S0").tile("task", m=4)
        tc.compile(MATMUL, "f", options, a, b, target=target)
        with pytest.raises(tc.CompilationError) as refused:
            options = tc.MappingOptions().cluster("S7").tile("task", m=4)
            tc.compile(MATMUL, "f", options, a, b, target=target)
        assert "the options speak of a statement S7; with loops of their own are S0" in str(
            refused.value
        )
    with pytest.raises(tc.CompilationError, match="the options leave S7 to a library"):
        tc.compile(MATMUL, "f", tc.MappingOptions().libraryCalls("S7"), a, b)


@pytest.mark.parametrize(
    "make, words",
    [
        (
            lambda o: o.copy("Nope(i)", statement="S9", order=(0,)),
            "the plan copies what S9 reads, which is no statement of S0_init, S0",
        ),
        (lambda o: o.copy("Nope(i)", statement="S0", order=(0,)), "the plan copies Nope(i) of S0"),
        (lambda o: o.inside("zzz"), "inside loops over zzz, "),
        (
            lambda o: o.tile("reduction", zzz=4),
            "the plan cuts a reduction over zzz, which no statement of S0_init, S0 has",
        ),
        (lambda o: o.instruction("vpdpbusd"), "the instruction vpdpbusd"),
    ],
)
@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])
def test_what_a_gpu_has_no_use_for_is_looked_at(make, words: str, target: str) -> None:
    a, b = torch.randn(17, 33), torch.randn(33, 9)
    options = make(tc.MappingOptions().libraryCalls(None).cluster("S0"))
    with pytest.raises(tc.CompilationError) as refused:
        tc.compile(MATMUL, "f", options, a, b, target=target)
    assert words in str(refused.value)


def test_what_a_gpu_has_no_use_for_may_be_said() -> None:
    a, b = torch.randn(17, 33), torch.randn(33, 9)
    options = tc.MappingOptions().cluster("S0").tile("reduction", k=8).vector(True)
    options.copy("B(k, n)", statement="S0", order=(1, 0)).inside("m")
    run = tc.compile(MATMUL, "f", options, a, b, target="cuda:sm_90")
    assert run.cuda_source == tc.compile(MATMUL, "f", None, a, b, target="cuda:sm_90").cuda_source
