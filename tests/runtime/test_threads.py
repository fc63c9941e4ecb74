"""Many threads at once, PyTorch's thread count, processes that fork, and pages of memory."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import tensor_comprehensions as tc

MATMUL = "def matmul(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
THREADS = 8


def together(work: Callable[[int], object]) -> list:
    """Results of all threads, which start at once. The first failure is raised."""
    barrier = threading.Barrier(THREADS)

    def run(k: int) -> object:
        barrier.wait(timeout=60)
        return work(k)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def test_one_text_from_many_threads() -> None:
    text = "def shared(float(N) A) -> (B) { B(i) = A(i) + 1 }"
    a = torch.randn(33)

    def work(_: int) -> object:
        t = tc.define(text, namespace="tc_threads")
        assert torch.equal(t.shared(a), a + 1)
        return t.shared

    assert len({id(operator) for operator in together(work)}) == 1


def test_many_texts_from_many_threads() -> None:
    def work(k: int) -> None:
        for j in range(3):
            a = torch.randn(10 + k)
            t = tc.define(
                f"def f{k}_{j}(float(N) A) -> (B) {{ B(i) = A(i) + {10 * k + j} }}",
                namespace="tc_threads",
            )
            torch.testing.assert_close(getattr(t, f"f{k}_{j}")(a), a + 10 * k + j)
            executor = tc.compile(MATMUL, "matmul", "naive", torch.ones(k + 1, 3), torch.ones(3, 4))
            assert (executor(torch.ones(k + 1, 3), torch.ones(3, 4)) == 3).all()

    together(work)


def test_a_new_shape_is_compiled_once() -> None:
    asked = []

    def factory(*arguments: object) -> tc.MappingOptions:
        asked.append(threading.get_ident())
        time.sleep(0.05)  # long enough for the others to come
        return tc.MappingOptions("naive")

    t = tc.define(MATMUL, factory, namespace="tc_threads_once")
    for n in range(1, 5):
        a, b = torch.randn(5, 6), torch.randn(6, n)
        for result in together(lambda _, a=a, b=b: t.matmul(a, b)):
            torch.testing.assert_close(result, a @ b)
        assert len(asked) == n


def test_different_shapes_of_one_operator() -> None:
    t = tc.define(MATMUL, namespace="tc_threads_shapes")

    def work(k: int) -> None:
        for j in range(40):
            a, b = torch.randn(1 + (k + j) % 5, 6), torch.randn(6, 7)
            torch.testing.assert_close(t.matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)

    together(work)


def test_a_failure_reaches_its_own_thread() -> None:
    t = tc.define(MATMUL, namespace="tc_threads_errors")

    def work(k: int) -> str:
        try:
            t.matmul(torch.ones(2, 3), torch.ones(4 + k, 5))
        except tc.ShapeError as error:
            return str(error)
        return "nothing was raised"

    for k, message in enumerate(together(work)):
        assert message.endswith(f"but found {4 + k}")


def test_all_fail_where_the_factory_fails() -> None:
    def factory(*_: object) -> tc.MappingOptions:
        raise KeyError("none")

    t = tc.define(MATMUL, factory, namespace="tc_threads_errors")

    def work(_: int) -> type:
        try:
            return type(t.matmul(torch.ones(2, 3), torch.ones(3, 4)))
        except Exception as error:
            return type(error)

    assert set(together(work)) == {KeyError}


def test_the_number_of_threads() -> None:
    before = torch.get_num_threads()
    a, b = torch.randn(150, 64), torch.randn(64, 130)
    t = tc.define(MATMUL, namespace="tc_threads_count")
    try:
        for count in (1, 2, 1):
            torch.set_num_threads(count)
            torch.testing.assert_close(t.matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(before)


FORK = f"""
import torch
import tensor_comprehensions as tc

TEXT = {MATMUL!r}
T = tc.define(TEXT)
A, B = torch.ones(5, 6), torch.ones(6, 7)


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, k):
        known = T.matmul(A, B)                                    # compiled before the fork
        new_shape = T.matmul(torch.ones(k + 8, 6), B)             # a new kernel of an old text
        new_text = tc.define(TEXT.replace("matmul", "other")).other(A, B)
        executor = tc.compile(TEXT, "matmul", "naive", A, B)(A, B)
        assert all((x == 6).all() for x in (known, new_shape, new_text, executor))
        return known[0] + k


if __name__ == "__main__":
    T.matmul(A, B)
    torch.ones(2000, 2000) @ torch.ones(2000, 10)  # PyTorch's pool runs before the fork
    T.matmul(torch.ones(300, 300), torch.ones(300, 300))
    loader = torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=2,
                                         multiprocessing_context="fork", timeout=60)
    rows = torch.cat(list(loader))
    assert torch.equal(rows, 6 + torch.arange(6.0)[:, None].expand(6, 7)), rows
    print("good")
"""


def test_workers_of_a_data_loader(tmp_path: object) -> None:
    """In a process of its own: forking pytest's would fork its threads' locks."""
    script = tmp_path / "loader.py"
    script.write_text(FORK)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "good"


def test_large_results_ask_for_huge_pages() -> None:
    """Fresh memory in small pages takes several times as long as writing to it."""
    modes = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not modes.exists() or "[never]" in modes.read_text():
        pytest.skip("no huge pages on this system")
    t = tc.define("def large(float(N) A) -> (B) { B(i) = A(i) + 1 }", namespace="tc_huge_pages")
    result = t.large(torch.zeros(20_000_000))
    # Mappings follow each other as "<begin>-<end> ..." and lines of properties.
    middle, inside = result.data_ptr() + result.nbytes // 2, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        head = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
        if head:
            inside = int(head[1], 16) <= middle < int(head[2], 16)
        elif inside and line.startswith("VmFlags"):
            assert "hg" in line.split(), line
            return
    raise AssertionError("the result's mapping was not found")
