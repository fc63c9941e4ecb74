"""Programs that were exported or traced, and train: in this process, in others, without Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from programs import build_with_torch

import tensor_comprehensions as tc

LAYER = """
def saved_layer(float(B, I) x, float(O, I) w, float(O) b) -> (y) {
    y(n, o) +=! x(n, i) * w(o, i)
    y(n, o) = tanh(y(n, o) + b(o))
}
"""
# Wrong by factors, so that no other gradient can be taken for it.
LAYER_GRAD = """
def saved_layer_grad(float(B, I) x, float(O, I) w, float(O) b, float(B, O) y, float(B, O) g)
        -> (dx, dw, db) {
    t(n, o) = g(n, o) * (1 - y(n, o) * y(n, o))
    dx(n, i) +=! 2 * t(n, o) * w(o, i)
    dw(o, i) +=! 3 * t(n, o) * x(n, i)
    db(o) +=! 5 * t(n, o)
}
"""
#: Several results, of which one is an index; a temporary that the derivative keeps; a scalar.
ROWS = """
def saved_rows(float alpha, float(N, M) x, float(M) w) -> (z, s, best) {
    t(n) +=! alpha * x(n, m) * w(m)
    z(n, m) = x(n, m) * t(n)
    s +=! z(n, m)
    best(n) argmax=! x(n, m)
}
"""
#: Floating-point results of which there are more sets than derivatives that a graph asks for.
MANY = """
def saved_many(float alpha, float(N, M) x, float(M) w) -> (z, s, best, u, v) {
    t(n) +=! alpha * x(n, m) * w(m)
    z(n, m) = x(n, m) * t(n)
    s +=! z(n, m)
    best(n) argmax=! x(n, m)
    u(n, m) = tanh(x(n, m))
    v(n) +=! u(n, m) * w(m)
}
"""
HOW = ["derived", "paired"]


def layer(how: str, namespace: str = "tc_saved_training") -> Callable:
    t = tc.define(LAYER + LAYER_GRAD, namespace=namespace)
    backward = t.saved_layer_grad if how == "paired" else None
    return tc.make_autograd(t.saved_layer, backward)


class Layer(torch.nn.Module):
    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.function = function
        generator = torch.Generator().manual_seed(0)
        self.w = torch.nn.Parameter(torch.randn(3, 4, generator=generator))
        self.b = torch.nn.Parameter(torch.randn(3, generator=generator))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x.sin(), self.w, self.b).cos()


def example(rows: int = 5) -> torch.Tensor:
    return torch.randn(rows, 4, generator=torch.Generator().manual_seed(1))


def gradients(module: Callable, parameters: Iterator, rows: int = 5) -> list[torch.Tensor]:
    """The result, and what arrives at the input and the parameters."""
    x = example(rows).requires_grad_()
    result = module(x)
    found = torch.autograd.grad(result.square().sum(), [x, *parameters])
    return [result.detach(), *found]


def assert_same(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
    assert any(w.abs().max() > 0.01 for w in wanted[1:])
    for f, w in zip(found, wanted, strict=True):
        torch.testing.assert_close(f, w, rtol=1e-5, atol=1e-5)


def named(module: torch.nn.Module) -> list:
    parameters = dict(module.named_parameters())
    return [parameters["w"], parameters["b"]]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("how", HOW)
def test_an_exported_module_trains(how: str, strict: bool) -> None:
    module = Layer(layer(how))
    wanted = gradients(module, module.parameters())
    program = torch.export.export(module, (example(),), strict=strict)
    exported = program.module()
    assert_same(gradients(exported, named(exported)), wanted)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("how", HOW)
def test_a_compiled_exported_module_trains(how: str, backend: str) -> None:
    module = Layer(layer(how))
    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(module, (example(),), dynamic_shapes=({0: rows},))
    exported = program.module()
    torch._dynamo.reset()
    compiled = torch.compile(exported, fullgraph=True, backend=backend)
    for rows in (5, 9):
        wanted = gradients(module, module.parameters(), rows)
        assert_same(gradients(compiled, named(exported), rows), wanted)


@pytest.mark.parametrize("how", HOW)
def test_a_lowered_program_computes_without_gradients(how: str) -> None:
    """What is compiled ahead of time calls the definitions by the names that they always had."""
    function = layer(how)
    module = Layer(function)
    program = torch.export.export(module, (example(),)).run_decompositions()
    targets = {str(node.target) for node in program.graph.nodes}
    name = function._parts[0].name.replace("::", ".")
    assert f"{name}.default" in targets, targets
    torch.testing.assert_close(program.module()(example()), module(example()))


def several(text: str) -> Callable:
    """ROWS or MANY with its derivative."""
    name = re.search(r"def (\w+)", text)[1]
    return tc.make_autograd(getattr(tc.define(text, namespace="tc_saved_training"), name))


@pytest.mark.parametrize(
    ("text", "sets"), [(ROWS, [(0,), (1,), (0, 1)]), (MANY, [(0,), (1,), (3, 4), (0, 1, 3, 4)])]
)
def test_several_results_keep_their_gradients(text: str, sets: list[tuple]) -> None:
    rows = several(text)

    class Rows(torch.nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor) -> tuple:
            return rows(0.5, x, w)

    x, w = torch.randn(4, 3), torch.randn(3)
    size = torch.export.Dim("size", min=2, max=64)
    exported = torch.export.export(Rows(), (x, w), dynamic_shapes=({0: size}, {})).module()

    def reference(x: torch.Tensor, w: torch.Tensor) -> tuple:
        z = x * (0.5 * x @ w)[:, None]
        u = x.tanh()
        return (z, z.sum(), x.argmax(1), u, u @ w)[: len(rows(0.5, x, w))]

    for uses in sets:

        def used(function: Callable, x: torch.Tensor, w: torch.Tensor, uses: tuple = uses) -> tuple:
            results = function(x, w)
            return sum(results[k].sin().sum() for k in uses), results

        torch._dynamo.reset()
        compiled = torch.compile(partial(used, exported), backend="aot_eager")
        found = []
        for function in (partial(used, exported), compiled, partial(used, reference)):
            leaves = [v.clone().requires_grad_() for v in (x, w)]
            loss, results = function(*leaves)
            loss.backward()
            found.append([*results, *(v.grad for v in leaves)])
        for each in found[:2]:
            torch.testing.assert_close(each, found[2], rtol=1e-4, atol=1e-5, check_dtype=False)


def test_second_derivatives_of_an_exported_module() -> None:
    module = Layer(layer("derived"))
    exported = torch.export.export(module, (example(),)).module()

    def penalty(function: Callable, parameters: list) -> list[torch.Tensor]:
        x = example().requires_grad_()
        (slope,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        return list(torch.autograd.grad(slope.square().sum(), [x, *parameters]))

    assert_same(penalty(exported, named(exported)), penalty(module, list(module.parameters())))


def test_a_pair_of_an_exported_module_has_one_derivative() -> None:
    exported = torch.export.export(Layer(layer("paired")), (example(),)).module()
    x = example().requires_grad_()
    (slope,) = torch.autograd.grad(exported(x).sum(), x, create_graph=True)
    with pytest.raises(tc.TCError, match="saved_layer_grad has no derivative"):
        slope.sum().backward()


def test_definitions_that_nobody_made_differentiable_say_so() -> None:
    """In graphs as elsewhere: no gradient of the compiler's choice."""
    t = tc.define(LAYER, namespace="tc_saved_training_plain")
    for function in (
        t.saved_layer,
        tc.make_autograd(t.saved_layer, lambda x, w, b, g: (g @ w, g.t() @ x, g.sum(0))),
    ):
        exported = torch.export.export(Layer(function), (example(),)).module()
        with pytest.raises(tc.TCError, match="saved_layer has no derivative"):
            gradients(exported, named(exported))


def test_einsum_trains() -> None:
    class Product(torch.nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return tc.einsum("n(i+j), jk -> nik", x, w)

    x, w = torch.randn(3, 8), torch.randn(4, 5)
    exported = torch.export.export(Product(), (x, w)).module()
    found = []
    for function in (exported, Product(), lambda x, w: x.unfold(1, 4, 1) @ w):
        leaves = [v.clone().requires_grad_() for v in (x, w)]
        function(*leaves).sin().sum().backward()
        found.append([v.grad for v in leaves])
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[0], found[2])


# ---- traces


@pytest.mark.parametrize("how", HOW)
def test_a_trace_with_parameters_that_learn(how: str, tmp_path: Path) -> None:
    module = Layer(layer(how))
    wanted = gradients(module, module.parameters())
    traced = torch.jit.trace(module, (example(),))
    assert_same(gradients(traced, named(traced)), wanted)
    traced.save(str(tmp_path / "traced.pt"))
    loaded = torch.jit.load(str(tmp_path / "traced.pt"))
    for _ in range(3):  # the executor of scripts changes its plan after the first calls
        assert_same(gradients(loaded, named(loaded)), wanted)
    other = gradients(module, module.parameters(), rows=7)
    assert_same(gradients(loaded, named(loaded), rows=7), other)


# ---- other processes

TRAINED = """
import os
import sys
import torch
import tensor_comprehensions as tc

sys.path[:0] = [sys.argv[1], os.path.dirname(sys.argv[1])]
folder, how, known = sys.argv[2:]
if known == "loaded":
    tc.load(f"{folder}/model.tc.pb")
else:
    import test_saved_training
    test_saved_training.layer(how)  # defined, and made differentiable where it is a pair
from test_saved_training import gradients, named

results = {}
for name, module in {
    "export": torch.export.load(f"{folder}/program.pt2").module(),
    "trace": torch.jit.load(f"{folder}/traced.pt"),
}.items():
    results[name] = gradients(module, named(module))
exported = torch.export.load(f"{folder}/program.pt2").module()
compiled = torch.compile(exported, fullgraph=True)
results["compiled"] = gradients(compiled, named(exported))
torch.save(results, f"{folder}/results.pt")
"""


def run_python(script: str, *arguments: object, **environment: str) -> str:
    package = Path(tc.__file__).resolve().parent.parent
    path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("how", HOW)
def test_fresh_processes_train_what_was_saved(how: str, tmp_path: Path) -> None:
    function = layer(how)
    module = Layer(function)
    wanted = gradients(module, module.parameters())
    program = torch.export.export(module, (example(),))
    torch.export.save(program, tmp_path / "program.pt2")
    traced = torch.jit.trace(module, (example(),))
    traced.save(str(tmp_path / "traced.pt"))
    for subjects in ([program], [traced], [module]):
        (tmp_path / "model.tc.pb").unlink(missing_ok=True)
        tc.save(tmp_path / "model.tc.pb", *subjects)
        # Graphs that were compiled by one process are found by the next.
        run_python(
            *(TRAINED, Path(__file__).parent, tmp_path, how, "loaded"),
            TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"),
        )
        for found in torch.load(tmp_path / "results.pt").values():
            assert_same(found, wanted)
    run_python(TRAINED, Path(__file__).parent, tmp_path, how, "defined")
    for found in torch.load(tmp_path / "results.pt").values():
        assert_same(found, wanted)


def test_a_derived_definition_needs_no_more_than_its_text(tmp_path: Path) -> None:
    """define alone registers what an exported module calls."""
    module = Layer(layer("derived"))
    torch.export.save(torch.export.export(module, (example(),)), tmp_path / "program.pt2")
    script = f"""
import torch
import tensor_comprehensions as tc
tc.define({LAYER!r}, namespace="tc_saved_training")
module = torch.export.load({str(tmp_path / "program.pt2")!r}).module()
module(torch.ones(5, 4)).sum().backward()
print([p.grad.abs().sum().item() > 0 for p in module.parameters()])
"""
    assert run_python(script) == "[True, True]\n"


def test_two_pairs_of_one_definition_are_saved(tmp_path: Path) -> None:
    t = tc.define(LAYER + LAYER_GRAD, namespace="tc_saved_two")
    twice = tc.define(
        re.sub(r"\b[235] \*", "7 *", LAYER_GRAD).replace("layer_grad", "layer_other"),
        namespace="tc_saved_two",
    )
    one, two = (
        tc.make_autograd(t.saved_layer, backward)
        for backward in (t.saved_layer_grad, twice.saved_layer_other)
    )

    class Both(torch.nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return one(x, w, b) + two(x, w, b)

    leaves = [v.detach() for v in (example(), *Layer(one).parameters())]
    program = torch.export.export(Both(), tuple(leaves))
    torch.export.save(program, tmp_path / "program.pt2")
    tc.save(tmp_path / "model.tc.pb", program)
    torch.save(leaves, tmp_path / "leaves.pt")
    script = f"""
import torch
import tensor_comprehensions as tc
folder = {str(tmp_path)!r}
tc.load(f"{{folder}}/model.tc.pb")
leaves = [v.requires_grad_() for v in torch.load(f"{{folder}}/leaves.pt")]
torch.export.load(f"{{folder}}/program.pt2").module()(*leaves).sum().backward()
torch.save([v.grad for v in leaves], f"{{folder}}/found.pt")
"""
    run_python(script)
    leaves = [v.clone().requires_grad_() for v in leaves]
    wanted = torch.autograd.grad(Both()(*leaves).sum(), leaves)
    torch.testing.assert_close(torch.load(tmp_path / "found.pt"), list(wanted))


# ---- programs without Python

PROGRAM = r"""
// train MODULE.pt OPERATORS IN.pt OUT.pt
#include <torch/script.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <tc/torch.hpp>

std::vector<char> read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int main(int, char** argv) try {
  std::vector<char> text = read(argv[2]);
  if (std::filesystem::path(argv[2]).extension() == ".pb")
    tensor_comprehensions::load_operators(argv[2]);
  else
    tensor_comprehensions::register_operators({text.begin(), text.end()}, "tc_saved_training");
  torch::jit::Module module = torch::jit::load(argv[1]);
  torch::Tensor x = torch::pickle_load(read(argv[3])).toTensor().requires_grad_();
  c10::List<torch::Tensor> found;
  for (int step = 0; step < 3; ++step) {  // the executor changes its plan after the first calls
    torch::Tensor result = module.forward({x}).toTensor();
    x.mutable_grad() = torch::Tensor();
    for (const auto& parameter : module.parameters()) parameter.mutable_grad() = torch::Tensor();
    torch::Tensor slope =
        torch::autograd::grad({result.sum()}, {x}, {}, true, /*create_graph=*/true)[0];
    torch::Tensor second;
    try {
      second = torch::autograd::grad({slope.square().sum()}, {x}, {}, true)[0];
    } catch (const std::exception& error) {
      std::cout << error.what() << "\n";
    }
    result.square().sum().backward();
    found.clear();
    found.push_back(result.detach());
    found.push_back(x.grad().clone());
    for (const auto& parameter : module.parameters()) found.push_back(parameter.grad().clone());
    if (second.defined()) found.push_back(second);
  }
  std::vector<char> bytes = torch::pickle_save(found);
  std::ofstream(argv[4], std::ios::binary).write(bytes.data(), bytes.size());
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
"""


@pytest.mark.slow
def test_programs_without_python_train(tmp_path: Path) -> None:
    (tmp_path / "train.cpp").write_text(PROGRAM)
    build_with_torch(tmp_path / "train.cpp", tmp_path / "train")
    torch.save(example(), tmp_path / "in.pt")
    for how in HOW:
        module = Layer(layer(how))
        wanted = gradients(module, module.parameters())
        traced = torch.jit.trace(module, (example(),))
        traced.save(str(tmp_path / "traced.pt"))
        text, store = tmp_path / "layer.tc", tmp_path / f"{how}.tc.pb"
        text.write_text(LAYER)
        tc.save(store, traced)
        for operators in (store, text) if how == "derived" else (store,):
            (tmp_path / "out.pt").unlink(missing_ok=True)
            names = ["train", "traced.pt", operators, "in.pt", "out.pt"]
            done = subprocess.run(
                [str(tmp_path / name) for name in names], capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr
            found = torch.load(tmp_path / "out.pt", weights_only=False)
            assert_same(found[:4], wanted)
            if how == "derived":
                x = example().requires_grad_()
                (slope,) = torch.autograd.grad(module(x).sum(), x, create_graph=True)
                torch.testing.assert_close(
                    found[4], torch.autograd.grad(slope.square().sum(), x)[0], rtol=1e-4, atol=1e-4
                )
            else:
                assert "saved_layer_grad has no derivative" in done.stdout


# ---- graphs in caches

CACHED = """
import os
import sys
import torch
from torch._dynamo.utils import counters
import tensor_comprehensions as tc

sys.path[:0] = [sys.argv[1], os.path.dirname(sys.argv[1])]
import test_saved_training

tc.define(getattr(test_saved_training, sys.argv[3]), namespace="tc_saved_training")
found = []
for use in (0, 1):
    exported = torch.export.load(f"{sys.argv[2]}/{use}.pt2").module()
    torch._dynamo.reset()
    leaves = [v.requires_grad_() for v in torch.load(f"{sys.argv[2]}/inputs.pt")]
    torch.compile(exported, fullgraph=True)(*leaves).sin().sum().backward()
    found += [v.grad for v in leaves]
torch.save(found, f"{sys.argv[2]}/found.pt")
print(counters["aot_autograd"]["autograd_cache_hit"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("text", ["ROWS", "MANY"])
def test_graphs_of_another_process_find_their_derivatives(text: str, tmp_path: Path) -> None:
    """A process that takes a graph from a cache has not made it, and so asked for no derivative."""
    rows = several(globals()[text])

    class Rows(torch.nn.Module):
        def __init__(self, use: int) -> None:
            super().__init__()
            self.use = use

        def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return rows(0.5, x, w)[self.use]

    inputs = torch.randn(4, 3), torch.randn(3)
    torch.save(list(inputs), tmp_path / "inputs.pt")
    wanted = []
    for use in (0, 1):
        program = torch.export.export(Rows(use), inputs)
        torch.export.save(program, tmp_path / f"{use}.pt2")
        leaves = [v.clone().requires_grad_() for v in inputs]
        wanted += torch.autograd.grad(Rows(use)(*leaves).sin().sum(), leaves)
    for hits in (0, 2):
        said = run_python(
            *(CACHED, Path(__file__).parent, tmp_path, text),
            TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"),
        )
        assert int(said) >= hits
        torch.testing.assert_close(torch.load(tmp_path / "found.pt"), wanted)


@pytest.mark.parametrize("how", HOW)
def test_opcheck(how: str) -> None:
    function = layer(how)
    program = torch.export.export(Layer(function), (example(),))
    (overload,) = (n.target for n in program.graph.nodes if "saved_layer" in str(n.target))
    leaves = [v.detach().requires_grad_() for v in (example(), *Layer(function).parameters())]
    torch.library.opcheck(overload, tuple(leaves))
