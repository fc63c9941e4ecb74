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
