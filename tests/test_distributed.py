"""Layers of definitions in two processes: data parallel, and with parameters in shards."""

from __future__ import annotations

import os
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


def work(rank: int, how: str, folder: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", GLOO_SOCKET_IFNAME="lo")
    store = dist.FileStore(f"{folder}/store", PROCESSES)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=PROCESSES)
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
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_training_in_two_processes(how: str, tmp_path: Path) -> None:
    mp.spawn(work, args=(how, str(tmp_path)), nprocs=PROCESSES)
    model = make_model()
    train(model, *batches())
    for name, value in torch.load(tmp_path / "state.pt").items():
        torch.testing.assert_close(value, model.state_dict()[name], rtol=1e-4, atol=1e-5)
