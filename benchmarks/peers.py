"""What our operators are compared with: ATen, torch.compile and jax.jit.

Tracing and compiling happen here, before anything is timed. JAX is optional; where it is not
installed, or a compiler cannot be used, a line says so and the column is left out.
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Callable

import torch
from cases import Case


def limit_threads(environment: dict[str, str], threads: int) -> dict[str, str]:
    """The variables for a process in which every library uses that many threads.

    XLA makes its pools once a process, and inductor's code has the number in it: numbers of
    threads are compared in processes of their own.
    """
    changed = {"OMP_NUM_THREADS": str(threads), "PJRT_NPROC": str(threads)}
    if threads == 1:
        changed["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    return {**environment, "JAX_PLATFORMS": "cpu", **changed}


@functools.cache
def jax_references() -> dict[str, Callable] | None:
    try:
        from jax_references import REFERENCES
    except ImportError as error:
        print(f"no column for jax.jit: {error}", flush=True)
        return None
    return REFERENCES


@functools.cache
def inductor_works() -> bool:
    compiler = os.environ.get("CXX", "g++")
    try:
        subprocess.run([compiler, "--version"], check=True, capture_output=True)
        torch.compile(lambda x: x + 1, fullgraph=True)(torch.zeros(3))
    except Exception as error:
        first = str(error).strip().split("\n")[0]
        print(f"no column for torch.compile: with the compiler {compiler}: {first}", flush=True)
        return False
    return True


def peers(case: Case, values: tuple) -> dict[str, Callable[[], object]]:
    """By name; the first is PyTorch without a compiler, and what all are checked against."""
    calls: dict[str, Callable[[], object]] = {"torch": lambda: case.reference(*values)}
    for name, function in case.alternatives.items():
        calls[f"torch, {name}"] = lambda function=function: function(*values)
    if inductor_works():
        # Other cases have the same functions at other sizes, which would count as recompilations.
        torch._dynamo.reset()
        compiled = torch.compile(case.reference, fullgraph=True, dynamic=False)
        calls["torch.compile"] = lambda: compiled(*values)
    references = jax_references()
    if references is not None:
        import jax

        jitted = jax.jit(references[case.kind])
        arrays = [jax.numpy.asarray(value.numpy()) for value in values]
        calls["jax.jit"] = lambda: jax.block_until_ready(jitted(*arrays))
    return calls
