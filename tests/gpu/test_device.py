"""Every workload on a GPU against PyTorch on the CPU; streams and devices."""

from __future__ import annotations

import pytest
import torch
from gpu_tensors import on_gpu
from workloads import WORKLOADS, Workload

import tensor_comprehensions as tc

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
ADD = "def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }"
MATMUL = "def matmul(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"


@pytest.mark.parametrize("options", [None, "naive"])
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_workloads(workload: Workload, options: str | None) -> None:
    torch.manual_seed(1)
    inputs = workload.inputs()
    initial = workload.initial() if workload.initial else ()
    wanted = workload.reference(*inputs, *initial)
    namespace = f"tc_gpu_{workload.name}_{options}"
    t = tc.define(workload.text, options, namespace=namespace)
    if initial:
        outputs = on_gpu(initial)
        results = t(workload.entry, *on_gpu(inputs), outputs=outputs)
    else:
        results = t(workload.entry, *on_gpu(inputs))
    results = results if isinstance(results, tuple) else (results,)
    for actual, expected in zip(results, wanted, strict=True):
        assert actual.is_cuda
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)


def test_strides_and_outputs() -> None:
    t = tc.define(MATMUL, namespace="tc_gpu")
    a, b = torch.randn(13, 9).t(), torch.randn(17, 26).t()[::2]
    torch.testing.assert_close(t.matmul(a.cuda(), b.cuda()).cpu(), a @ b, rtol=1e-4, atol=1e-4)
    out = torch.zeros(17, 9, device="cuda").t()
    assert t.matmul(a.cuda(), b.cuda(), outputs=(out,)) is out
    torch.testing.assert_close(out.cpu(), a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("terms", [257, 4097, 65537])
def test_nothing_behind_the_end_is_added(terms: int) -> None:
    """The assembler of CUDA 13.0 miscompiles (0 - tx) >> 7, where a thread's terms end."""
    t = tc.define("def add_up(float(N) A) -> (O) { O +=! A(n) }", namespace="tc_gpu")
    memory = torch.full((2 * terms,), float("nan"))
    memory[:terms] = torch.randint(-4, 5, (terms,))
    assert t.add_up(memory.cuda()[:terms]).item() == memory[:terms].sum().item()


def test_the_current_stream() -> None:
    """The kernel waits for what its own stream still has to do, and others do not wait for it."""
    t = tc.define(ADD, namespace="tc_gpu")
    a = torch.zeros(1 << 16, device="cuda")
    t.add(a, a)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        a.fill_(1)
        result = t.add(a, a)
        done = torch.cuda.Event()
        done.record()
    assert not done.query()  # the call did not wait
    stream.synchronize()
    assert (result == 2).all()


def test_cuda_graphs() -> None:
    t = tc.define(ADD, namespace="tc_gpu")
    a, b = torch.ones(64, device="cuda"), torch.ones(64, device="cuda")
    out = torch.empty(64, device="cuda")
    t.add(a, b, outputs=(out,))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        t.add(a, b, outputs=(out,))
    a.fill_(5)
    graph.replay()
    torch.cuda.synchronize()
    assert (out == 6).all()


def test_both_devices_in_one_operator() -> None:
    t = tc.define(ADD, namespace="tc_gpu")
    a, b = torch.randn(7), torch.randn(7)
    for _ in range(2):
        assert torch.equal(t.add(a, b), a + b)
        assert torch.equal(t.add(a.cuda(), b.cuda()).cpu(), a + b)
    with pytest.raises(tc.ShapeError, match=r"argument B: expected device .* \(that of A\)"):
        t.add(a.cuda(), b)


TOTAL = "def total(float(N) A) -> (s) { s +=! A(i) }"


def test_outputs_are_where_inputs_are() -> None:
    """Tensors of no dimension too, which as inputs may be on the CPU."""
    add, total = tc.define(ADD, namespace="tc_gpu").add, tc.define(TOTAL, namespace="tc_gpu").total
    a = torch.ones(7)
    for operator, arguments, sizes in ((add, 2, (7,)), (total, 1, ())):
        out = torch.zeros(sizes)
        with pytest.raises(tc.ShapeError, match=r"output \w+: expected device cuda:0 but got cpu"):
            operator(*[a.cuda()] * arguments, outputs=(out,))
        with pytest.raises(tc.ShapeError, match=r"output \w+: expected device cpu but got cuda:0"):
            operator(*[a] * arguments, outputs=(out.cuda(),))
        assert out.abs().sum() == 0


def test_compile_and_executor() -> None:
    a, b = torch.randn(33, 20, device="cuda"), torch.randn(20, 17, device="cuda")
    t = tc.define(MATMUL, namespace="tc_gpu")
    f = torch.compile(lambda a, b: t.matmul(a, b).relu(), fullgraph=True)
    torch.testing.assert_close(f(a, b), (a @ b).relu(), rtol=1e-3, atol=1e-3)
    executor = tc.compile(MATMUL, "matmul", "naive", a, b)
    torch.testing.assert_close(executor(a, b), a @ b, rtol=1e-3, atol=1e-3)
    assert "__global__" in executor.cuda_source and executor.profile(a, b) > 0
    # In another process too, which may find in NVRTC's own cache what this one compiled.
    assert executor.number("registers") > 0


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one CUDA device")
def test_several_devices() -> None:
    t = tc.define(ADD, namespace="tc_gpu")
    for device in range(torch.cuda.device_count()):
        a = torch.ones(9, device=f"cuda:{device}")
        result = t.add(a, a)
        assert result.device == a.device and (result == 2).all()
