"""Graphs that other processes compiled: found again for the same text, and for no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tensor_comprehensions as tc

SCRIPT = """
import sys
import pytest
import torch
from torch._dynamo.utils import counters
import tensor_comprehensions as tc

T = tc.define(sys.argv[1], namespace="tc_caches")
x = torch.arange(8.0)
results = []
for f in (T.f, torch.ops.tc_caches.f, tc.make_autograd(T.f)):
    torch._dynamo.reset()
    graph = torch.compile(lambda x: f(x.sin()).cos() * 2, fullgraph=True)
    results.append(graph(x))
    assert torch.allclose(results[-1], T.f(x.sin()).cos() * 2), sys.argv[1]
y = x.clone().requires_grad_()
graph(y).sum().backward()
wanted = x.clone().requires_grad_()
(tc.make_autograd(T.f)(wanted.sin()).cos() * 2).sum().backward()
assert torch.allclose(y.grad, wanted.grad, atol=1e-5)
print("hits", counters["inductor"]["fxgraph_cache_hit"], T.f.name)
"""
PLUS_1 = "def f(float(N) a) -> (b) { b(i) = a(i) + 1 }"
# Results of the same sizes and of another type, which kernels of the other graph would misread.
IN_DOUBLE = "def f(float(N) a) -> (b) { b(i) = double(a(i)) + 7 }"


def run(text: str, folder: Path) -> tuple[int, str]:
    package = Path(tc.__file__).resolve().parent.parent
    path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "TORCHINDUCTOR_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, text], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    _, hits, name = done.stdout.split()
    return int(hits), name


@pytest.mark.slow
def test_graphs_in_caches_belong_to_one_text(tmp_path: Path) -> None:
    _, first = run(PLUS_1, tmp_path)
    hits, again = run(PLUS_1, tmp_path)
    assert hits >= 3
    assert first == again
    _, other = run(IN_DOUBLE, tmp_path)
    assert other != first


def test_names_of_contents() -> None:
    t = tc.define(PLUS_1, namespace="tc_caches_names")
    same = tc.define(PLUS_1.replace(" }", "\n}  # the same"), namespace="tc_caches_names")
    other = tc.define(PLUS_1, "naive", namespace="tc_caches_names")
    assert same.f is t.f
    assert t.f.name.startswith("tc_caches_names::f__")
    assert other.f.name != t.f.name
    assert torch.ops.tc_caches_names.f.default is t.f.overload
    # What looks for the name in the dispatcher, as C++ does, finds the same.
    x = torch.arange(3.0)
    plain = torch._C._jit_get_operation("tc_caches_names::f")[0]
    assert torch.equal(plain(x), x + 1)


def test_factories_that_look_alike_have_operators_of_their_own() -> None:
    def make(tile: int) -> object:
        return lambda source, entry_point, *inputs: tc.MappingOptions("naive").tile(tile)

    operators = [tc.define(PLUS_1, make(k), namespace="tc_caches_factories").f for k in (8, 16)]
    assert operators[0].name != operators[1].name
    for f in operators:
        assert torch.equal(f(torch.arange(3.0)), torch.arange(3.0) + 1)
