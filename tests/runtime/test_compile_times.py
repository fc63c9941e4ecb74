"""Texts that keep compilers busy: each compiles in time in proportion to it, or is refused.

Bounds are of processor time, and far from what is measured: they are for passes that take much more
than in proportion to a text, which take minutes here.
"""

from __future__ import annotations

import os
import resource
import time

import pytest
import torch
from hostile_texts import KINDS, Hostile

import tensor_comprehensions as tc


def compile_in_a_child(case: Hostile, seconds: float) -> tuple[str, float]:
    """What was raised, or nothing, and the processor time; a child that takes longer is ended."""
    tc.compile("def f(float(N) A) -> (B) { B(i) = A(i) }", "f", None, torch.ones(5))  # starts LLVM
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        limit = int(seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        start = time.process_time()
        said = ""
        try:
            torch.set_num_threads(1)
            tc.compile(case.text, "f", None, *case.inputs())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, f"{time.process_time() - start} {said[:2000]}".encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    status = os.waitpid(child, 0)[1]
    assert status == 0, f"ended with status {status}, after more than {seconds} s perhaps"
    taken, _, said = text.partition(" ")
    return said, float(taken)


@pytest.mark.parametrize(
    ("kind", "count"), [("in_place", 150), ("min", 200), ("chained_sums", 60), ("in_place", 500)]
)
def test_long_texts(kind: str, count: int) -> None:
    said, seconds = compile_in_a_child(KINDS[kind](count), 60)
    assert said == ""
    assert seconds < (8 if count < 500 else 20)


@pytest.mark.parametrize("kind", ["sums_of_remainders", "conditions_on_remainders"])
def test_many_remainders(kind: str) -> None:
    """What polyhedra say of so many takes time exponential in their number: it is left to a check
    while the kernel runs."""
    said, seconds = compile_in_a_child(KINDS[kind](20), 60)
    assert said == ""
    assert seconds < 10


def test_texts_that_are_too_long() -> None:
    said, seconds = compile_in_a_child(KINDS["chained_sums"](1000), 60)
    assert "LanguageError" in said
    assert "f has 1002 statements, but may have 512; split it into definitions" in said
    assert seconds < 2


#: What is refused when nested or chained so often, and not when it is twice.
TOO_LARGE = [
    *("abs_of_integers", "divisors", "integer_divisions", "integer_remainders", "ldexp"),
    *("quotients_of_index", "sinpi", "subscripts_of_results"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "count"), [*((kind, 24) for kind in KINDS), *((kind, 48) for kind in list(KINDS)[::3])]
)
def test_every_kind(kind: str, count: int) -> None:
    said, seconds = compile_in_a_child(KINDS[kind](count), 60)
    if kind == "unsolved":
        assert said.startswith("LanguageError: 1:28: Could not infer ranges"), said
    elif said:
        place = "1:51" if kind == "subscripts_of_results" else "2:8"
        assert said.startswith(f"LanguageError: {place}: with its lets and calls replaced"), said
        assert "more than 10000 operations" in said
    if count == 24:
        assert (said != "") == (kind in [*TOO_LARGE, "unsolved"]), said
    assert seconds < 15


@pytest.mark.parametrize("kind", TOO_LARGE)
def test_less_of_what_is_too_large(kind: str) -> None:
    said, seconds = compile_in_a_child(KINDS[kind](2), 60)
    assert said == ""
    assert seconds < 2


@pytest.mark.parametrize("type_name", ["float", "double"])
@pytest.mark.parametrize("size", [1, 2])
def test_functions_of_functions(type_name: str, size: int) -> None:
    """At a constant place all names are of scalars that follow from each other, which Halide would
    put into each other's places. The derivative has the most of them."""
    text = f"""
    def f({type_name}(M, N) A) -> (B) {{
      B(i, j) = sin(tanh(tanh(tanh(erf(tanh(sqrt(fabs(A(i, j)) + 0.5)))))))
    }}
    """
    dtype = torch.float64 if type_name == "double" else torch.float32
    gradient = tc.grad_source(text).replace("f_grad", "f")
    inputs = tc.define(gradient, namespace=f"tc_times_{type_name}").f.definition.inputs
    case = Hostile(gradient, [(size, size)] * len(inputs), dict.fromkeys(range(len(inputs)), dtype))
    said, seconds = compile_in_a_child(case, 60)
    assert said == ""
    assert seconds < 10


def test_the_derivative_of_many_nested_functions() -> None:
    """Its text has the inner functions once for every one around them, and narrow floats are
    rounded between them by choices that hold each other."""
    text = """
    def f(bfloat16(M, N) A, bfloat16(M) B) -> (C, D) {
      C(i, j) = exp(tanh(expm1(tanh(exp(tanh(sin(tanh(log(fabs(fabs(tanh(
          cos(tanh(exp2(tanh(A(i, j)))))))) + 0.5)))))))))
      D(i, j) = C(i, j) / B(i)
    }
    """
    gradient = tc.grad_source(text).replace("f_grad", "f")
    inputs = tc.define(gradient, namespace="tc_times_nested").f.definition.inputs
    shapes = [(1, 33) if info.ndim == 2 else (1,) for info in inputs]
    case = Hostile(gradient, shapes, dict.fromkeys(range(len(inputs)), torch.bfloat16))
    said, seconds = compile_in_a_child(case, 60)
    assert said == ""
    assert seconds < 15
