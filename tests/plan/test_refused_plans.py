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
