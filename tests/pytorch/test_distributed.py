"""Layers of definitions in two processes: data parallel, with parameters in shards, on DTensors."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import tensor_comprehensions as tc

TEXT = """def layer(float(B,I) x, float(O,I) w, float(O) b) -> (y) {
    h(n,o) +=! x(n,i) * w(o,i)
    y(n,o) = tanh(h(n,o) + b(o))
}"""
PROCESSES = 2


def make_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        tc.nn.Lambda(TEXT, namespace="tc_distributed", I=6, O=8),
        tc.nn.Lambda(TEXT, namespace="tc_distributed", I=8, O=4),
    )


def batches() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(8, 6, generator=generator), torch.randn(8, 4, generator=generator)


def train(model: torch.nn.Module, x: torch.Tensor, target: torch.Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        (model(x) - target).square().mean().backward()
        optimizer.step()


def join(rank: int, folder: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", GLOO_SOCKET_IFNAME="lo")
    store = dist.FileStore(f"{folder}/store", PROCESSES)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=PROCESSES)


def leave() -> None:
    """Ends a process that is done, without the interpreter's own end.

    Gloo's threads may still let go of tensors of Python's then, which aborts the process
    (pytorch/pytorch#179291): seen in one run of some hundred.
    """
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def work(rank: int, how: str, folder: str) -> None:
    join(rank, folder)
    model = make_model()
    x, target = (part.chunk(PROCESSES)[rank] for part in batches())
    if how == "ddp":
        train(torch.nn.parallel.DistributedDataParallel(model), x, target)
        state = model.state_dict()
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (PROCESSES,))
        for layer in model:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        train(model, x, target)
        state = {name: value.full_tensor() for name, value in model.state_dict().items()}
    if rank == 0:
        torch.save({name: value.clone() for name, value in state.items()}, f"{folder}/state.pt")
    leave()


@pytest.mark.parametrize("how", [pytest.param("ddp", marks=pytest.mark.slow), "fsdp"])
def test_training_in_two_processes(how: str, tmp_path: Path) -> None:
    mp.spawn(work, args=(how, str(tmp_path)), nprocs=PROCESSES)
    model = make_model()
    train(model, *batches())
    for name, value in torch.load(tmp_path / "state.pt").items():
        torch.testing.assert_close(value, model.state_dict()[name], rtol=1e-4, atol=1e-5)


def product_of_parts(rank: int, folder: str) -> None:
    """What comes of a product whose factors are placed in each way, and what was communicated."""
    # Before the import of DTensor: its rules are made when one arrives.
    matmul = tc.define(
        "def matmul(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
        namespace="tc_distributed_product",
    ).matmul
    join(rank, folder)
    from torch.distributed.tensor import DeviceMesh, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.debug import CommDebugMode

    mesh = DeviceMesh("cpu", range(PROCESSES))
    generator = torch.Generator().manual_seed(2)
    a, b = torch.randn(5, 7, generator=generator), torch.randn(7, 4, generator=generator)
    seen = {}
    with torch.inference_mode():
        for of_a in (Shard(0), Shard(1), Replicate()):
            for of_b in (Shard(0), Shard(1), Replicate()):
                given = distribute_tensor(a, mesh, [of_a]), distribute_tensor(b, mesh, [of_b])
                with CommDebugMode() as communication:
                    c = matmul(*given)
                torch.testing.assert_close(c.full_tensor(), a @ b, rtol=1e-5, atol=1e-5)
                seen[str(of_a), str(of_b)] = (str(*c.placements), communication.get_total_counts())
    if rank == 0:
        torch.save(seen, f"{folder}/seen.pt")
    leave()


def test_products_of_parts(tmp_path: Path) -> None:
    mp.spawn(product_of_parts, args=(str(tmp_path),), nprocs=PROCESSES)
    assert torch.load(tmp_path / "seen.pt") == {
        ("S(0)", "R"): ("S(0)", 0),
        ("R", "S(1)"): ("S(1)", 0),
        ("S(1)", "S(0)"): ("P(sum)", 0),
        ("S(1)", "R"): ("P(sum)", 0),
        ("R", "S(0)"): ("P(sum)", 0),
        ("R", "R"): ("R", 0),
        # One factor is split where the other is not: it is gathered.
        ("S(0)", "S(0)"): ("S(0)", 1),
        ("S(0)", "S(1)"): ("S(0)", 1),
        ("S(1)", "S(1)"): ("S(1)", 1),
    }


def tensor_parallel(rank: int, folder: str) -> None:
    """A perceptron whose hidden units are split: one sum of parts, and its gradients."""
    join(rank, folder)
    from torch.distributed.tensor import DeviceMesh, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.debug import CommDebugMode

    mesh = DeviceMesh("cpu", range(PROCESSES))
    t = tc.define(
        """def hidden(float(B,I) x, float(O,I) w, float(O) b) -> (y) {
            h(n,o) +=! x(n,i) * w(o,i)
            y(n,o) = tanh(h(n,o) + b(o))
        }
        def output(float(B,I) x, float(O,I) w) -> (y) { y(n,o) +=! x(n,i) * w(o,i) }""",
        namespace="tc_distributed_parallel",
    )
    hidden, output = tc.make_autograd(t.hidden), tc.make_autograd(t.output)
    generator = torch.Generator().manual_seed(3)
    x, first, bias, second = (
        torch.randn(sizes, generator=generator) for sizes in ((3, 6), (8, 6), (8,), (2, 8))
    )
    places = [Replicate(), Shard(0), Shard(0), Shard(1)]
    parts = [
        distribute_tensor(value, mesh, [place]).requires_grad_()
        for value, place in zip((x, first, bias, second), places, strict=True)
    ]
    with CommDebugMode() as communication:
        y = output(hidden(*parts[:3]), parts[3])
    assert communication.get_total_counts() == 0
    assert y.placements[0].is_partial("sum")
    y.full_tensor().square().sum().backward()
    whole = [value.clone().requires_grad_() for value in (x, first, bias, second)]
    wanted = torch.tanh(whole[0] @ whole[1].t() + whole[2]) @ whole[3].t()
    wanted.square().sum().backward()
    torch.testing.assert_close(y.full_tensor(), wanted, rtol=1e-4, atol=1e-4)
    for part, value, place in zip(parts[1:], whole[1:], places[1:], strict=True):
        assert part.grad.placements == (place,)
        torch.testing.assert_close(part.grad.full_tensor(), value.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(parts[0].grad.full_tensor(), whole[0].grad, rtol=1e-4, atol=1e-4)
    leave()


def test_a_perceptron_in_parts(tmp_path: Path) -> None:
    mp.spawn(tensor_parallel, args=(str(tmp_path),), nprocs=PROCESSES)


LOSS = """def loss(float(N,D) x, float(N,D) target) -> (mean) {
    squares +=! (x(n,d) - target(n,d)) * (x(n,d) - target(n,d))
    mean = squares / N / D
}"""


def mean_of_parts(rank: int, folder: str, first: str) -> None:
    """A mean knows how large the whole is, whichever comes first, it or DTensor."""
    join(rank, folder)
    if first == "definition":
        loss = tc.make_autograd(tc.define(LOSS, namespace="tc_distributed_mean").loss)
    from torch.distributed.tensor import DeviceMesh, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.debug import CommDebugMode

    if first == "DTensor":
        loss = tc.make_autograd(tc.define(LOSS, namespace="tc_distributed_mean").loss)
    mesh = DeviceMesh("cpu", range(PROCESSES))
    generator = torch.Generator().manual_seed(4)
    x, target = torch.randn(5, 3, generator=generator), torch.randn(5, 3, generator=generator)
    whole = x.clone().requires_grad_()
    wanted = torch.nn.functional.mse_loss(whole, target)
    wanted.backward()
    for place in (Shard(0), Shard(1), Replicate()):  # parts of 3 and 2
        part = distribute_tensor(x, mesh, [place]).requires_grad_()
        aim = distribute_tensor(target, mesh, [place])
        with CommDebugMode() as communication:
            mean = loss(part, aim)
            mean.backward()
        assert communication.get_total_counts() == 0
        assert mean.placements[0].is_partial("sum") == (place != Replicate())
        torch.testing.assert_close(mean.full_tensor(), wanted.detach())
        assert part.grad.placements == (place,)
        torch.testing.assert_close(part.grad.full_tensor(), whole.grad)
    leave()


@pytest.mark.parametrize("first", [pytest.param("definition", marks=pytest.mark.slow), "DTensor"])
def test_a_mean_of_parts(first: str, tmp_path: Path) -> None:
    mp.spawn(mean_of_parts, args=(str(tmp_path), first), nprocs=PROCESSES)


def equation_of_parts(rank: int, folder: str) -> None:
    """Tables are every process's own, and indices stand beside DTensors as one of them."""
    join(rank, folder)
    from torch.distributed.tensor import DeviceMesh, Replicate, Shard, distribute_tensor

    mesh = DeviceMesh("cpu", range(PROCESSES))
    x = torch.randn(3, 9, generator=torch.Generator().manual_seed(5))
    shifts = [0, 2, 1]
    table = torch.tensor(shifts)
    wanted = sum(x[c, s : s + 7] for c, s in enumerate(shifts))
    for place in (Replicate(), Shard(0), Shard(1)):
        part = distribute_tensor(x, mesh, [place]).requires_grad_()
        for given in (shifts, table):
            shifted = tc.einsum("c(h+s[c]) -> h", part, s=given)
            torch.testing.assert_close(shifted.full_tensor(), wanted)
        shifted.sum().backward()
        assert part.grad.full_tensor().sum() == 21
        with pytest.raises(tc.ShapeError, match="table s is a tensor whose values are not known"):
            tc.einsum("c(h+s[c]) -> h", part, s=distribute_tensor(table, mesh, [Replicate()]))
    leave()


def test_an_equation_of_parts(tmp_path: Path) -> None:
    mp.spawn(equation_of_parts, args=(str(tmp_path),), nprocs=PROCESSES)
