"""Compiling and calling in processes that fork, end, and run out of memory or of stack."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, resource, signal, sys, tempfile, threading, time
import torch
import tensor_comprehensions as tc

tc.SILENT = True
torch.set_num_threads(2)
x = torch.rand(37, 37)

# Half a second of compiling with three results.
def long_text(name, results=3):
    body = " ".join(
        f"T{k}(i, j) = tanh(A(i, j) * {k}.5f) + pow(A(j, i), {k}.25f) + sin(A(i, j) + {k})"
        for k in range(results)
    )
    names = ", ".join(f"T{k}" for k in range(results))
    return f"def {name}(float(N, N) A) -> ({names}) {{ {body} }}"

def check(found):
    wanted = torch.tanh(x * 2.5) + x.T**2.25 + torch.sin(x + 2)
    torch.testing.assert_close(found[2], wanted, atol=1e-5, rtol=1e-5)
"""


def run(
    script: str,
    *arguments: object,
    expect: int = 0,
    environment: dict[str, str] | None = None,
) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + script, *map(str, arguments)],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == expect, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


# ---- fork


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_fork_while_another_thread_compiles(step: int) -> None:
    """The child has none of the threads that its parent waits for."""
    run(
        """
for trial in range(1, 12, int(sys.argv[1])):
    f = getattr(tc.define(long_text(f"f{trial}")), f"f{trial}")
    other = threading.Thread(target=lambda: f(x))
    other.start()
    time.sleep(0.04 * trial)
    child = os.fork()
    if child == 0:
        signal.alarm(120)
        torch.set_num_threads(1)
        check(f(x))  # what the parent is compiling
        check(tc.define(long_text("g")).g(x))
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    other.join()
    check(f(x))
    assert status == 0, (trial, status)
""",
        step,
    )


def test_fork_while_a_process_compiles_for_the_first_time() -> None:
    """What is made once a process, also in Halide and LLVM, is made or not begun in a child."""
    run(
        """
def first(trial):
    h = tc.define("def h(float(N, N) A) -> (B) { B(i, j) = A(i, j) + 2 }").h
    other = threading.Thread(target=lambda: h(x))
    other.start()
    children = []
    while other.is_alive():
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            torch.set_num_threads(1)
            assert torch.equal(h(x), x + 2)
            os._exit(0)
        children.append(child)
    other.join()
    assert children
    for child in children:
        status = os.waitpid(child, 0)[1]
        assert status == 0, (trial, status)

for trial in range(10):
    # This process compiles nothing, so that each of these begins anew.
    process = os.fork()
    if process == 0:
        first(trial)
        os._exit(0)
    status = os.waitpid(process, 0)[1]
    assert status == 0, (trial, status)
"""
    )


def test_fork_while_other_threads_define() -> None:
    """The locks of what defines are free in the child."""
    run(
        """
done = []
def work():
    while not done:
        text = f"def d{time.monotonic_ns()}(float(N) A) -> (B) {{ B(i) = A(i) + 1 }}"
        tc.define(text, namespace="fork")

threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for trial in range(16):
    time.sleep(0.011 * (trial % 4) + 0.003)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        tc.define("def g(float(N) A) -> (B) { B(i) = A(i) * 3 }", namespace="child")
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status == 0, (trial, status)
done.append(True)
for thread in threads:
    thread.join()
"""
    )


def test_fork_while_another_thread_looks_at_a_kernel() -> None:
    """Texts that are made by compiling again, and those that an earlier thread has asked for."""
    run(
        """
f = tc.define(long_text("f")).f
f(x)
for trial in range(4):
    executor = f.compile(x)
    other = threading.Thread(target=lambda: executor.assembly)
    other.start()
    time.sleep(0.02 + 0.06 * trial)
    child = os.fork()
    if child == 0:
        signal.alarm(120)
        assert "ret" in executor.assembly and executor.loop_nest
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    other.join()
    assert status == 0, (trial, status)
"""
    )


# ---- the end of a process


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("moment", [0.0, 0.01, 0.03, 0.05, 0.2, 0.5])
def test_exit_while_other_threads_compile(moment: float) -> None:
    """Python unwinds threads that want its lock then, which no handler of ours may catch."""
    out = run(
        """
f = tc.define(long_text("f")).f
for _ in range(3):
    threading.Thread(target=lambda: f(x), daemon=True).start()

def define_and_call(k):
    getattr(tc.define(long_text(f"g{k}")), f"g{k}")(x)

def factory(source, name, *inputs):
    time.sleep(0.001)
    return tc.MappingOptions()

def choose():
    while True:
        tc.define(long_text("h"), factory).h(x)

for k in range(6):
    threading.Thread(target=define_and_call, args=(k,), daemon=True).start()
threading.Thread(target=choose, daemon=True).start()
time.sleep(float(sys.argv[1]))
print("end", flush=True)
""",
        moment,
    )
    assert out == "end\n"


def test_exit_from_within_a_call() -> None:
    """An options factory is Python that runs while a call compiles."""
    run(
        """
def factory(source, name, *inputs):
    sys.exit(3)
tc.define(long_text("f"), factory).f(x)
""",
        expect=3,
    )


# ---- little stack


@pytest.mark.parametrize(
    "kibibytes", [64, *(pytest.param(k, marks=pytest.mark.slow) for k in (128, 256)), 1024]
)
def test_little_stack(kibibytes: int) -> None:
    """Whatever is compiled or called in a thread of its own works as elsewhere."""
    run(
        """
threading.stack_size(int(sys.argv[1]) * 1024)
product = "def mm(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
a = torch.rand(300, 300)
known = tc.define(product).mm
known(a, a)
nested = "(" * 300 + "A(i, j)" + " + 1)" * 300

def compiles():
    check(tc.define(long_text("f")).f(x))

def is_deep():
    T = tc.define(f"def deep(float(N, M) A) -> (B) {{ B(i, j) = {nested} }}")
    torch.testing.assert_close(T.deep(x), x + 300)

def calls():
    torch.testing.assert_close(known(a, a), a @ a, atol=1e-3, rtol=1e-3)

def differentiates():
    b = torch.rand(30, 30, requires_grad=True)
    tc.make_autograd(known)(b, b).sum().backward()
    c = b.detach().requires_grad_()
    (c @ c).sum().backward()
    torch.testing.assert_close(b.grad, c.grad)

def saves():
    with tempfile.TemporaryDirectory() as folder:
        T = tc.define(f"def saved(float(N, M) A) -> (B) {{ B(i, j) = {nested} }}")
        tc.save(folder + "/deep.tc.pb", T)

def contracts():
    torch.testing.assert_close(tc.einsum("ij,jk->ik", x, x), x @ x)

for work in (compiles, is_deep, calls, differentiates, saves, contracts):
    failures = []
    def guarded():
        try:
            work()
        except BaseException as error:
            failures.append(error)
    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    assert not failures, (work.__name__, failures)
""",
        kibibytes,
    )


# ---- little memory


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_little_memory() -> None:
    """A compilation that gets none is an error that says so; the process goes on."""
    out = run(
        """
import ctypes
check(tc.define(long_text("first")).first(x))
loose = (_, hard) = resource.getrlimit(resource.RLIMIT_AS)
failed = []
for quarters in (*range(12), *range(12, 24, 3), *range(24, 60, 12), 80, 400):
    f = getattr(tc.define(long_text(f"f{quarters}")), f"f{quarters}")
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    tight = (used + quarters * 2**18, hard)
    try:
        try:
            resource.setrlimit(resource.RLIMIT_AS, tight)
            f(x)
        finally:  # before Python needs any to look at the error
            resource.setrlimit(resource.RLIMIT_AS, loose)
    except (tc.TCError, MemoryError, RuntimeError) as error:
        message = str(error)
        failed.append(quarters)
    else:
        message = "out of memory"
    print(quarters, message, flush=True)
    assert "out of memory" in message
    check(f(x))
assert len(failed) > 5, failed
print("end")
""",
        # Memory that is got from the system little by little, and given back.
        environment={"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"},
    )
    assert out.endswith("end\n")


@pytest.mark.timeout(600)
def test_little_memory_for_isl() -> None:
    """It asks malloc itself, in the middle of its work."""
    out = run(
        """
import ctypes
def sums(name, count):
    results = [f"T{k}" for k in range(count)]
    body = " ".join(
        f"{t}(i, j) +=! A(i, r) * A(r, j + {k}) where j in 0:20" for k, t in enumerate(results)
    )
    return f"def {name}(float(N, N) A) -> ({', '.join(results)}) {{ {body} }}"

tc.define(sums("first", 6)).first(x)
loose = (_, hard) = resource.getrlimit(resource.RLIMIT_AS)
refused = 0
for trial in range(48):
    name = f"f{trial}"
    f = getattr(tc.define(sums(name, 5 + trial % 3)), name)
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    tight = (used + trial % 24 * 2**16, hard)
    try:
        try:
            resource.setrlimit(resource.RLIMIT_AS, tight)
            f(x)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, loose)
    except (tc.TCError, MemoryError, RuntimeError) as error:
        assert "out of memory" in str(error), error
        refused += 1
    tc.clear_cache()
assert refused > 5, refused
print("end")
""",
        environment={"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"},
    )
    assert out == "end\n"


def test_who_compiles_at_the_very_end_gets_an_error() -> None:
    """In a handler that was registered before ours, and so runs after it."""
    script = """
import atexit
def late():
    for work in (lambda: T.f(torch.ones(7)), lambda: tc.define(TEXT.replace("2", "3"))):
        try:
            work()
        except tc.TCError as error:
            print(error)
atexit.register(late)
import torch, tensor_comprehensions as tc
TEXT = "def f(float(N) x) -> (y) { y(i) = 2 * x(i) }"
T = tc.define(TEXT)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "nothing is compiled any more: the process ends" in done.stdout
