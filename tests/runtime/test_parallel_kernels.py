"""Kernels whose loops run on several threads, called from several threads at once, and in processes
that fork after such kernels have run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import tensor_comprehensions as tc

# Loops over tasks of every kind: blocks of products with copies of operands, rows, parts of a sum,
# private temporaries, gathers with checked indices, and places that are shared by owner or copied.
TEXT = """
def product(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }
def rows(float(M,N) A) -> (O) {
  largest(m) max=! A(m,n)
  T(m,n) = A(m,n) - largest(m)
  total(m) +=! T(m,n)
  O(m,n) = T(m,n) + total(m)
}
def total(float(M,N) A) -> (s) { s +=! A(m,n) }
def gather(float(V,D) T, int64(N) I) -> (O) { O(n,d) = T(I(n),d) + 1 }
def scatter(float(N,D) G, int64(N) I, float(V,D) T) -> (float(V,D) dT) { dT(I(n),d) +=! G(n,d) }
def scan(float(M,N) A) -> (S) { S(m,n) +=! k <= n ? A(m,k) : 0 where n in 0:N }
"""
NAMES = ("product", "rows", "total", "gather", "scatter", "scan")
CALLERS, THREADS = 6, 3


@pytest.fixture(autouse=True)
def several_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    monkeypatch.setenv("TC_MACHINE", f"library_rate=1,cores={THREADS},least_percent=10")
    yield
    torch.set_num_threads(before)


def whole(generator: torch.Generator, *sizes: int) -> torch.Tensor:
    """Small integers: every order of summation gives the same."""
    return torch.randint(-3, 4, sizes, generator=generator).float()


def example(name: str, seed: int) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """Inputs of a definition, and what it gives."""
    g = torch.Generator().manual_seed(seed)
    if name == "product":
        a, b = whole(g, 150, 140), whole(g, 130, 140)
        return (a, b), a @ b.t()
    if name == "scatter":
        gradient, table = whole(g, 40_000, 16), torch.zeros(97, 16)
        index = torch.randint(0, 97, (40_000,), generator=g)
        return (gradient, index, table), table.index_add(0, index, gradient)
    a = whole(g, 300, 257)
    if name == "rows":
        t = a - a.amax(1, keepdim=True)
        return (a,), t + t.sum(1, keepdim=True)
    if name == "total":
        return (a,), a.sum()
    if name == "scan":
        return (a,), a.cumsum(1)
    index = torch.randint(0, 300, (1000,), generator=g)
    return (a, index), a[index] + 1


def at_once(work: Callable[[int], None]) -> None:
    """By all callers, which start at the same time; the first failure is raised."""
    barrier = threading.Barrier(CALLERS)

    def run(caller: int) -> None:
        torch.set_num_threads(THREADS)  # counts by thread
        barrier.wait(timeout=60)
        work(caller)

    with ThreadPoolExecutor(CALLERS) as pool:
        list(pool.map(run, range(CALLERS)))


def test_the_kernels_are_parallel() -> None:
    for name in NAMES:
        inputs, _ = example(name, 0)
        loops = tc.compile(TEXT, name, None, *inputs).loop_nest
        assert "parallel" in loops, (name, loops)


@pytest.mark.parametrize("name", NAMES)
def test_one_kernel_in_several_threads(name: str) -> None:
    f = getattr(tc.define(TEXT, namespace="tc_parallel"), name)
    f(*example(name, 0)[0])

    def work(caller: int) -> None:
        inputs, wanted = example(name, caller)
        for _ in range(15):
            assert torch.equal(f(*inputs), wanted), (name, caller)

    at_once(work)


def test_different_kernels_in_several_threads() -> None:
    """Compiled while others run."""
    t = tc.define(TEXT, namespace="tc_parallel_all")

    def work(caller: int) -> None:
        for round_ in range(3 * len(NAMES)):
            name = NAMES[(caller + round_) % len(NAMES)]
            inputs, wanted = example(name, caller)
            assert torch.equal(getattr(t, name)(*inputs), wanted), (name, caller)

    at_once(work)


def test_bad_indices_stay_with_their_thread() -> None:
    f = tc.define(TEXT, namespace="tc_parallel_bad").gather

    def work(caller: int) -> None:
        inputs, wanted = example("gather", caller)
        for _ in range(15):
            if caller % 2:
                assert torch.equal(f(*inputs), wanted)
                continue
            index = inputs[1].clone()
            index[17 * caller] = 300 + caller
            with pytest.raises(tc.ShapeError, match=f"{300 + caller}"):
                f(inputs[0], index)

    at_once(work)


FORKS = """
import multiprocessing, os, signal, sys
import numpy as np
import torch
sys.path.insert(0, sys.argv[1])
import tensor_comprehensions as tc
import test_parallel_kernels as kernels

torch.set_num_threads(3)
T = tc.define(kernels.TEXT)
EXAMPLES = {(n, seed): kernels.example(n, seed) for n in kernels.NAMES for seed in range(4)}


def same(a, b):  # PyTorch's own functions are what would wait in a child
    return np.array_equal(a.numpy(), b.numpy())


def all_kernels(seed=0, more=0):
    for name in kernels.NAMES:
        inputs, wanted = EXAMPLES[name, seed % 4]
        assert same(getattr(T, name)(*inputs), wanted), name
    if more:  # a size that the parent has no kernel for
        a = torch.ones(100 + more, 128)
        assert (T.product(a, a).numpy() == 128).all()
    return seed


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, k):
        return all_kernels(k, more=k + 1)


all_kernels()  # OpenMP has its threads from here on
(torch.ones(2000, 2000) @ torch.ones(2000, 200)).sum()
"""

WAYS = {
    "fork": """
for trial in range(2):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        all_kernels(trial, more=1)
        grandchild = os.fork()
        if grandchild == 0:
            signal.alarm(60)
            all_kernels(trial, more=2)
            os._exit(0)
        assert os.waitpid(grandchild, 0)[1] == 0
        assert torch.get_num_threads() == 3  # as before: the caller's business
        os._exit(0)
    all_kernels(trial)  # at the same time
    assert os.waitpid(child, 0)[1] == 0
""",
    "threads of a child": """
import threading
child = os.fork()
if child == 0:
    signal.alarm(60)
    failures = []
    def work(k):
        try:
            torch.set_num_threads(3)
            all_kernels(k, more=3)
        except BaseException as error:
            failures.append(error)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    os._exit(len(failures))
assert os.waitpid(child, 0)[1] == 0
""",
    "library calls": """
os.environ["TC_MACHINE"] = "library_rate=1000000000,library_call_cycles=1"
a = torch.randint(-3, 4, (300, 310)).float()
b = torch.randint(-3, 4, (320, 310)).float()
U = tc.define(kernels.TEXT.replace("product", "called"))
wanted = U.called(a, b)
assert "library call" in " ".join(tc.compile(kernels.TEXT, "product", None, a, b).explain().split())
child = os.fork()
if child == 0:
    signal.alarm(60)
    assert same(U.called(a, b), wanted)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
""",
    "pools and data loaders": """
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map_async(all_kernels, range(4)).get(100) == list(range(4))
loader = torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=2,
                                     multiprocessing_context="fork", timeout=100)
assert torch.cat(list(loader)).tolist() == list(range(6))
""",
}


@pytest.mark.parametrize("way", WAYS)
def test_children_of_a_process_whose_kernels_ran_in_parallel(way: str) -> None:
    """OpenMP waits for ever for a team that is gone; in a process of its own, since forking
    pytest's would fork its threads' locks."""
    script = FORKS + WAYS[way] + "\nprint('good')\n"
    done = subprocess.run(
        [sys.executable, "-c", script, os.path.dirname(os.path.abspath(__file__))],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.endswith("good\n"), done.stdout + done.stderr
