"""Models: which kernels a call reaches, and what is saved with them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import tensor_comprehensions as tc
from tensor_comprehensions import _torch
from tensor_comprehensions._tuning.modules import _kernels

LAYER = """def layer(float(B, I) x, float(O, I) w) -> (y) {
  y(b, o) +=! x(b, i) * w(o, i)
  y(b, o) = tanh(y(b, o))
}"""
SCALE = "def scale(float(N, C) x, float(C) s) -> (y) { y(n, c) = x(n, c) * s(c) }"


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.t = tc.define(LAYER)
        self.layer = tc.make_autograd(self.t.layer)
        self.scale = tc.nn.Lambda(SCALE, C=48)
        self.w = torch.nn.Parameter(torch.randn(48, 96))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.scale(self.layer(x, self.w))
        return y + tc.einsum("ij, kj -> ik", y, y).sum()


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    _torch.forget_tunings()
    tc.clear_cache()


def quick() -> tc.TunerConfig:
    return tc.TunerConfig().generations(1).pop_size(3).threads(2)


def test_which_kernels_a_call_reaches() -> None:
    """Forward and backward, equations too; each once, however often it is called."""
    model, x = Model(), torch.randn(64, 96)
    kernels = _kernels(model, (x,))
    names = [kernel.definition.name for kernel in kernels]
    assert any(name.startswith("layer") for name in names)
    assert "einsum" in names
    assert len(kernels) >= 5, names  # gradients of three definitions among them
    assert all(kernel.count == 3 and kernel.seconds > 0 for kernel in kernels)
    assert kernels == sorted(kernels, key=lambda kernel: -kernel.seconds)
    with torch.no_grad():
        assert len(_kernels(model, (x,))) == 3
    assert not _torch.recorded_launches()


def test_parameters_and_gradients_are_left_alone() -> None:
    model, x = Model(), torch.randn(64, 96)
    before = model.w.detach().clone()
    tc.tune(model, x, budget_seconds=4, config=quick())
    assert model.w.grad is None
    assert torch.equal(model.w.detach(), before)


def test_a_model_that_raises_leaves_nothing_behind() -> None:
    """What was recorded of it until then has its tensors."""
    scale = tc.define(SCALE).scale
    calls = 0

    def model(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        result = scale(x, x[0])
        if calls == 3:
            raise ValueError("once too often")
        return result

    with pytest.raises(ValueError, match="once too often"):
        tc.tune(model, torch.randn(20, 48))
    assert not _torch.recorded_launches()


def test_calls_without_definitions() -> None:
    with pytest.raises(tc.TCError, match="the call reached no definition"):
        tc.tune(torch.nn.Linear(3, 4), torch.randn(2, 3))
    with pytest.raises(tc.TCError, match="effort 'most': expected one of quick, normal, full"):
        tc.tune(torch.nn.Linear(3, 4), torch.randn(2, 3), effort="most")
    with pytest.raises(tc.TCError, match="expected seconds, at least 0"):
        tc.tune(torch.nn.Linear(3, 4), torch.randn(2, 3), budget_seconds=-1.0)


FRESH = """
import json, sys, torch
import tensor_comprehensions as tc
sys.path.insert(0, sys.argv[1])
from test_tuned_models import Model
tc.load(sys.argv[2])
model = Model()
model.load_state_dict(torch.load(sys.argv[3]))
before = tc.cache_info().compiled
x = torch.load(sys.argv[4])
out = model(x)
out.sum().backward()
first = tc.cache_info().compiled - before
model(x).sum().backward()
print(json.dumps([first, tc.cache_info().compiled - before - first,
                  "tuned" in model.t.layer.compile(x, model.w.detach()).explain(),
                  out.sum().item()]))
"""


def test_a_model_is_tuned_saved_and_loaded(tmp_path: Path) -> None:
    """In a fresh process its Plans run, each compiled once; nothing is measured."""
    model, x = Model(), torch.randn(64, 96)
    file, state, inputs = (tmp_path / name for name in ("model.tc.pb", "state.pt", "x.pt"))
    # Three candidates of each, however small its share is.
    tuned = tc.tune(model, (x,), budget_seconds=3000, cache=file, config=quick())
    assert len(tuned) >= 3
    assert sum(tuned.shares) > 0.9
    assert "layer" in str(tuned) and "%" in str(tuned)
    # Here, too, from now on.
    note = model.t.layer.compile(x, model.w.detach()).explain()
    assert "tuned" in note
    torch.save(model.state_dict(), state)
    torch.save(x, inputs)
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", FRESH, here, str(file), str(state), str(inputs)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    first, again, uses, total = json.loads(done.stdout)
    assert first >= 5 and again == 0
    assert uses
    assert total == pytest.approx(model(x).sum().item(), rel=1e-4)
    assert len(_torch.Store.read(str(file), False).tunings()) == len(tuned)


PROGRAM = r"""
// run MODULE.pt OPERATORS IN.pt OUT.pt
#include <torch/script.h>
#include <torch/torch.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <tc/torch.hpp>

std::vector<char> read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int main(int, char** argv) try {
  tensor_comprehensions::load_operators(argv[2]);
  torch::jit::Module module = torch::jit::load(argv[1]);
  torch::Tensor x = torch::pickle_load(read(argv[3])).toTensor();
  torch::Tensor result;
  for (int step = 0; step < 3; ++step) {
    std::cerr << "step " << step << std::endl;
    result = module.forward({x}).toTensor();
    result.sum().backward();
  }
  std::vector<char> bytes = torch::pickle_save(result.detach());
  std::ofstream(argv[4], std::ios::binary).write(bytes.data(), bytes.size());
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\\n";
  return 1;
}
"""


@pytest.mark.slow
def test_a_tuned_model_runs_in_a_program_without_python(tmp_path: Path) -> None:
    """The Plans that were found run, each compiled once; nothing is measured."""
    from programs import build_with_torch  # which the process of the test above does not find

    model, x = Model(), torch.randn(64, 96)
    store = tmp_path / "model.tc.pb"
    tuned = tc.tune(model, (x,), budget_seconds=3000, cache=store, config=quick())
    traced = torch.jit.trace(model, (x,))
    traced.save(str(tmp_path / "module.pt"))
    tc.save(store, traced)  # beside the Plans
    torch.save(x, tmp_path / "in.pt")
    (tmp_path / "run.cpp").write_text(PROGRAM)
    build_with_torch(tmp_path / "run.cpp", tmp_path / "run")
    names = ("run", "module.pt", store.name, "in.pt", "out.pt")
    done = subprocess.run(
        [str(tmp_path / name) for name in names],
        capture_output=True,
        text=True,
        env={**os.environ, "TC_LOGS": "stages,explain"},
    )
    assert done.returncode == 0, done.stderr
    torch.testing.assert_close(torch.load(tmp_path / "out.pt"), model(x).detach())
    _, first, second, third = done.stderr.split("step ")
    compiled = re.findall(r"^\[tc:stages\] (\w+)", first, re.M)
    assert len(compiled) == len(set(compiled)) >= 5
    assert len(re.findall(r"^  tuned ", first, re.M)) == len(tuned)
    assert "measured" not in first  # where a library is as fast is known
    assert "[tc:" not in second + third


def test_a_single_definition() -> None:
    t = tc.define(LAYER)
    x, w = torch.randn(32, 40), torch.randn(24, 40)
    (search,) = tc.tune(t.layer, (x, w), budget_seconds=20, config=quick())
    assert search.name == "layer" and len(search.trials) == 3


def test_budgets_go_by_shares() -> None:
    """What takes next to nothing is not searched for."""
    t = tc.define(LAYER)
    x, w = torch.randn(256, 400), torch.randn(240, 400)
    small = torch.randn(2, 3), torch.randn(4, 3)

    def both(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        t.layer(*small)
        return t.layer(x, w)

    tuned = tc.tune(both, (x, w), budget_seconds=10, config=quick())
    assert len(tuned) == 1 and tuned.skipped == 1
    assert "not tuned: 1 kernel of small shares" in str(tuned)
