"""The examples run, give back all their memory, and the texts of ops/ agree with PyTorch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from programs import build, build_with_torch

import tensor_comprehensions as tc

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


# ---- C and C++


def run_checked(program: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=1"}
    return subprocess.run([program], env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("name", ["matmul.c", "convolution.cpp"])
def test_compiled_example(name, tmp_path):
    build(EXAMPLES / name, tmp_path / "example")
    done = run_checked(tmp_path / "example")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "largest difference" in done.stdout
    assert "Sanitizer" not in done.stderr


def test_a_leak_would_be_seen(tmp_path):
    """Guards the test above: modules that are not freed are reported."""
    leaking = tmp_path / "leak.c"
    # Several, since a forgotten copy of the last pointer on the stack counts as a use of it.
    leaking.write_text("""
        #include <tc/tc.h>
        int main(void) {
          tc_module* module = 0;
          for (int i = 0; i < 10; ++i)
            tc_module_parse("def f(float(N) A) -> (B) { B(i) = A(i) }", &module);
          return 0;
        }
    """)
    build(leaking, tmp_path / "leak")
    done = run_checked(tmp_path / "leak")
    assert done.returncode != 0 and "LeakSanitizer" in done.stderr


LAYERS = """
def aot_hidden(float(B, I) x, float(O, I) w) -> (y) {
    h(b, o) +=! x(b, i) * w(o, i)
    y(b, o) = tanh(h(b, o))
}
def aot_scores(float(B, I) x, float(O, I) w) -> (y, best) {
    y(b, o) +=! x(b, i) * w(o, i)
    best(b) argmax=! y(b, o)
}
"""


class Model(torch.nn.Module):
    def __init__(self, t: tc.TC) -> None:
        super().__init__()
        self.t = t
        self.first, self.second = (
            torch.nn.Parameter(torch.randn(sizes)) for sizes in ((8, 6), (5, 8))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, best = self.t.aot_scores(self.t.aot_hidden(x, self.first), self.second)
        return y.sin() + best[:, None]


@pytest.fixture(scope="module")
def aot_example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("aot") / "aot_inductor"
    build_with_torch(EXAMPLES / "aot_inductor.cpp", target)
    return target


@pytest.mark.slow
def test_a_compiled_model_in_a_program_without_python(aot_example: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Model(tc.define(LAYERS)).eval()
    x = torch.randn(3, 6)
    with torch.no_grad():
        wanted = model(x)
        torch._inductor.aoti_compile_and_package(
            torch.export.export(model, (x,)), package_path=str(tmp_path / "model.pt2")
        )
    layers, given, found = (tmp_path / name for name in ("layers.tc", "in.pt", "out.pt"))
    layers.write_text(LAYERS)
    torch.save(x, given)
    store = tmp_path / "model.tc.pb"
    tc.save(store, model)
    for operators in (layers, store):
        found.unlink(missing_ok=True)
        command = [aot_example, tmp_path / "model.pt2", operators, given, found]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        torch.testing.assert_close(torch.load(found), wanted, rtol=1e-5, atol=1e-5)

    # A file that is damaged is refused before anything runs.
    store.write_bytes(store.read_bytes()[:-9])
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"'{store}' is damaged or cut short" in done.stderr, done.stderr

    command[2] = layers
    # With another text the operator that the model calls is missing, and its name is said.
    layers.write_text(LAYERS.replace("tanh", "exp"))
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "aot_hidden__" in done.stderr, done.stderr
    layers.write_text("def f(float(N) a) -> (b) { b(i) = c(i) }")
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "1:" in done.stderr and "b(i) = c(i)" in done.stderr, done.stderr


def test_names_that_are_taken_in_a_program_without_python(tmp_path: Path) -> None:
    """Includes no header of PyTorch's, so that it compiles in no time."""
    source = tmp_path / "names.cpp"
    source.write_text(r"""
        #include <iostream>
        #include <tc/torch.hpp>

        using namespace tensor_comprehensions;

        void attempt(const std::string& text, const std::string& ns, const char* options = "") try {
          register_operators(text, ns, options);
          std::cout << "registered\n";
        } catch (const std::runtime_error& error) {
          std::cout << error.what() << "\n";
        }

        int main(int, char** argv) {
          const std::string f = "def f(float(N) a) -> (b) { b(i) = a(i) }";
          const std::string g = "def g(float(N) a) -> (b) { b(i) = 2 * a(i) }";
          attempt(f, "names");
          attempt(f, "names");
          attempt(g + f, "names", R"(tc.MappingOptions("naive"))");
          attempt(g, "names");
          attempt("def relu(float(N) a) -> (b) { b(i) = a(i) }", "aten");
          load_operators(argv[1]);
          load_operators(argv[1]);
        }
    """)
    build_with_torch(source, tmp_path / "names")
    first = tc.define(LAYERS, namespace="names_of_layers")
    with pytest.warns(UserWarning, match="stays with an earlier text"):
        second = tc.define(LAYERS.replace("tanh", "exp"), namespace="names_of_layers")
    tc.save(tmp_path / "a.tc.pb", first, second)
    command = [str(tmp_path / "names"), str(tmp_path / "a.tc.pb")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["registered", "registered"]
    assert lines[2].startswith("torch.ops.names.f is f__") and "other options" in lines[2]
    assert lines[2].endswith("; pass another namespace")
    assert lines[3] == "registered"  # the text above was refused as a whole
    assert lines[4].startswith("torch.ops.aten.relu exists already and was not registered here")
    name = second.aot_hidden.name.partition("::")[2]
    warned = f"torch.ops.names_of_layers.aot_hidden is {first.aot_hidden.name.partition('::')[2]}"
    assert f"{warned} already and cannot be {name}" in done.stderr


# ---- Python


@pytest.mark.slow
def test_digits(tmp_path):
    command = [sys.executable, str(EXAMPLES / "digits.py"), "--output", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "digits.png").stat().st_size > 10_000


def test_readme():
    """Its Python blocks, one after the other, as a reader would paste them."""
    blocks = (ROOT / "README.md").read_text().split("```python\n")[1:]
    assert blocks
    program = "".join(block.partition("```")[0] for block in blocks)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, program + done.stderr


# ---- ops/


def pooled(x):
    return F.max_pool2d(x, 2)


# name, PyTorch's function, the sizes of the arguments
OPERATORS = [
    ("convolution", F.conv2d, [(2, 3, 7, 9), (5, 3, 3, 2), (5,)]),
    ("convolution", F.conv2d, [(1, 1, 3, 3), (1, 1, 3, 3), (1,)]),
    ("linear", F.linear, [(7, 13), (5, 13), (5,)]),
    ("linear", F.linear, [(1, 1), (1, 1), (1,)]),
    ("relu", F.relu, [(5, 19)]),
    ("max_pooling", pooled, [(2, 3, 6, 8)]),
    ("max_pooling", pooled, [(2, 3, 7, 5)]),
]


@pytest.mark.parametrize(("name", "reference", "sizes"), OPERATORS)
def test_operator_and_its_gradients(name, reference, sizes):
    import tensor_comprehensions as tc

    generator = torch.Generator().manual_seed(0)
    # Few distinct values: maxima are shared, and zeros are exact.
    inputs = [torch.randint(-2, 3, s, generator=generator).float() for s in sizes]
    definitions = tc.ops.load(name)
    function = tc.make_autograd(getattr(definitions, name), getattr(definitions, f"{name}_grad"))
    results = []
    for f in (function, reference):
        leaves = [x.clone().requires_grad_() for x in inputs]
        output = f(*leaves)
        weights = torch.arange(output.numel(), dtype=torch.float32).view_as(output) % 7 - 3
        gradients = torch.autograd.grad(output, leaves, weights)
        results.append((output.detach(), *gradients))
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected)
