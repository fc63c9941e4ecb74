"""Modules that hold definitions: copied, saved, loaded elsewhere, used by workers."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import tensor_comprehensions as tc

LINEAR = """def linear(float(B,I) x, float(O,I) w, float(O) b) -> (y) {
    y(n,o) +=! x(n,i) * w(o,i)
    y(n,o) = y(n,o) + b(o)
}"""


def small_tiles(source: str, entry_point: str, *inputs: object) -> tc.MappingOptions:
    """A factory of options, pickled by its name."""
    return tc.MappingOptions().tile([2, 2])


def backward(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, g: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    return g @ w, g.t() @ x, g.sum(0)


class Linear(torch.nn.Module):
    """Holds its function in one of the ways that there are."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(3, 4))
        self.b = torch.nn.Parameter(torch.randn(3))
        text = tc.define(LINEAR, namespace="tc_modules")
        if how == "text":
            self.text = text
            self.differentiable = tc.make_autograd(text.linear)
        elif how == "pair":
            self.differentiable = tc.make_autograd(text.linear, backward)
        elif how == "derived":
            self.differentiable = tc.make_autograd(text.linear)
        elif how == "options":
            options = tc.MappingOptions().tile([4])
            other = tc.define(LINEAR, options, namespace="tc_modules_options")
            self.differentiable = tc.make_autograd(other.linear)
        else:
            other = tc.define(LINEAR, small_tiles, namespace="tc_modules_factory")
            self.differentiable = tc.make_autograd(other.linear)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.differentiable(x, self.w, self.b)


HOW = ["text", "pair", "derived", "options", "factory"]


def check(module: Linear, weights: Linear) -> None:
    x = torch.randn(5, 4)
    result = module(x)
    torch.testing.assert_close(result, torch.nn.functional.linear(x, weights.w, weights.b))
    result.sum().backward()
    torch.testing.assert_close(module.w.grad, x.sum(0).expand(3, 4))


@pytest.mark.parametrize("how", HOW)
def test_copies(how: str) -> None:
    module = Linear(how)
    copied = copy.deepcopy(module)
    check(copied, module)
    assert module.w.grad is None
    assert module.state_dict().keys() == {"w", "b"}


@pytest.mark.parametrize("how", HOW)
def test_pickles(how: str) -> None:
    module = Linear(how)
    check(pickle.loads(pickle.dumps(module)), module)


def test_the_same_operator_comes_back() -> None:
    text = tc.define(LINEAR, namespace="tc_modules")
    assert pickle.loads(pickle.dumps(text.linear)) is text.linear
    assert copy.deepcopy(text).linear is text.linear
    derived = tc.make_autograd(text.linear)
    assert pickle.loads(pickle.dumps(derived)).__name__ == "linear"


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("how", HOW)
def test_saved_and_loaded_in_another_process(how: str, tmp_path: Path) -> None:
    module = Linear(how)
    torch.save(module, tmp_path / "module.pt")
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import torch
module = torch.load({str(tmp_path / "module.pt")!r}, weights_only=False)
from test_modules import check
check(module, module)
print("same")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout == "same\n", done.stderr


def test_a_batch_of_a_loaded_operator() -> None:
    """Definitions that nobody has written are pickled as well."""
    text = tc.define(LINEAR, namespace="tc_modules").linear
    x, w, b = torch.randn(2, 5, 4), torch.randn(3, 4), torch.randn(3)
    torch.func.vmap(text, in_dims=(0, None, None))(x, w, b)
    batched = text._batches[True, False, False]
    again = pickle.loads(pickle.dumps(batched))
    assert again is batched
    torch.testing.assert_close(again(x, w, b), torch.nn.functional.linear(x, w, b))


class Doubled(Dataset):
    def __init__(self) -> None:
        self.double = tc.define(
            "def twice(float(N) x) -> (y) { y(i) = 2 * x(i) }", namespace="tc_modules"
        ).twice

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.double(torch.full((1000,), float(index)))


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_workers(start: str) -> None:
    """Compiled before and in the workers, with threads in the parent."""
    data = Doubled()
    data[0]
    loader = DataLoader(data, batch_size=2, num_workers=2, multiprocessing_context=start)
    batches = list(loader)
    assert [b[:, 0].tolist() for b in batches] == [[0, 2], [4, 6], [8, 10]]
    assert all(bool((b == b[:, :1]).all()) for b in batches)


# ---- Lambda


def make_layer(**keywords: object) -> tc.nn.Lambda:
    torch.manual_seed(0)
    return tc.nn.Lambda(LINEAR, namespace="tc_modules", **keywords)


def test_lambda() -> None:
    layer = make_layer(I=4, O=3)
    assert layer.input_names == ["x"]
    assert {n: tuple(p.shape) for n, p in layer.named_parameters()} == {"w": (3, 4), "b": (3,)}
    assert float(layer.w.detach().abs().max()) <= 0.5 < 2 * float(layer.w.detach().abs().max())
    assert not layer.b.any()
    check(layer, layer)
    assert "linear(x); w=(3, 4), b=(3,)" in repr(layer)


def test_lambda_learns_and_is_saved(tmp_path: Path) -> None:
    layer = make_layer(I=4, O=3)
    x, target = torch.randn(32, 4), torch.randn(32, 3)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (layer(x) - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    other = make_layer(I=4, O=3)
    other.load_state_dict(layer.state_dict())
    torch.save(layer, tmp_path / "layer.pt")
    loaded = torch.load(tmp_path / "layer.pt", weights_only=False)
    for again in (other, loaded, copy.deepcopy(layer)):
        assert torch.equal(again(x), layer(x))


def test_lambda_in_double_and_under_compile() -> None:
    text = """def scale(double(N,4) x, double(4) s, double alpha) -> (y) {
        y(n,c) = alpha * x(n,c) * s(c)
    }"""
    layer = tc.nn.Lambda(text, alpha=0.5, initialize={"s": torch.nn.init.ones_})
    x = torch.randn(7, 4, dtype=torch.float64)
    assert torch.equal(layer(x), 0.5 * x)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), 0.5 * x)
    compiled(x).sum().backward()
    torch.testing.assert_close(layer.s.grad, 0.5 * x.sum(0))
    assert torch.equal(tc.nn.Lambda(text, inputs=("x", "s"))(x, layer.s, 2.0), 2 * x)


def test_lambda_with_buffers_and_several_definitions() -> None:
    text = """
    def first(float(N) x) -> (y) { y(i) = x(i) }
    def pick(float(N,D) x, int32(K) places) -> (y) { y(n,k) = x(n, places(k)) }
    """
    layer = tc.nn.Lambda(text, entry_point="pick", namespace="tc_modules", K=3)
    layer.places.copy_(torch.tensor([2, 0, 1]))
    assert list(layer.state_dict()) == ["places"]
    x = torch.randn(5, 4)
    assert torch.equal(layer(x), x[:, [2, 0, 1]])


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"H": 3}, "H is no size or scalar of linear, which has B, I, O"),
        ({"inputs": ("X",)}, "X is no tensor in the signature of linear, which has x, w, b"),
        ({"O": 3, "inputs": ("x",)}, "w of linear is no input, but its size I has no value"),
        ({"I": 4, "initialize": {"b": torch.zero_}}, "initialize has a function for b, which"),
        ({"entry_point": "f"}, "undefined function f; the text defines: linear"),
        ({"I": 4, "O": 2.5}, "O=2.5: a size is an integer, and 0 at least"),
        ({"I": -4, "O": 2}, "I=-4: a size is an integer, and 0 at least"),
    ],
)
def test_lambda_says_what_does_not_fit(keywords: dict, message: str) -> None:
    with pytest.raises(tc.TCError, match=message):
        make_layer(**keywords)


TWO_INPUTS = """def f(float(B,I) x, float scale, float(O,I) w) -> (y) {
    y(n,o) +=! scale * x(n,i) * w(o,i)
}"""


def two_inputs() -> tc.nn.Lambda:
    torch.manual_seed(0)
    return tc.nn.Lambda(TWO_INPUTS, namespace="tc_modules", I=4, O=3)


def test_lambda_takes_what_its_text_names() -> None:
    layer, x = two_inputs(), torch.randn(5, 4)
    expected = 2 * x @ layer.w.t()
    assert str(inspect.signature(layer.forward)) == "(x, scale)"
    torch.testing.assert_close(layer(x, 2.0), expected)
    torch.testing.assert_close(layer(x, scale=2.0), expected)
    torch.testing.assert_close(layer(scale=2.0, x=x), expected)
    assert isinstance(layer, tc.nn.Lambda) and type(layer).__name__ == "Lambda"
    for again in (copy.deepcopy(layer), copy.copy(layer), pickle.loads(pickle.dumps(layer))):
        assert type(again) is type(layer)
        torch.testing.assert_close(again(x, 2.0), expected)
        assert again.state_dict().keys() == {"w"}


def test_lambda_is_traced_by_fx() -> None:
    layer, x = make_layer(I=4, O=3), torch.randn(5, 4)
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(layer, torch.nn.ReLU()))
    torch.testing.assert_close(traced(x), layer(x).relu())
    traced = torch.fx.symbolic_trace(layer)
    assert [n.name for n in traced.graph.nodes if n.op == "placeholder"] == ["x"]
    torch.testing.assert_close(traced(x), layer(x))


def test_lambda_is_exported_with_sizes_by_name() -> None:
    layer, x = make_layer(I=4, O=3), torch.randn(5, 4)
    rows = {"x": {0: torch.export.Dim("rows")}}
    for arguments, named in (((x,), {}), ((), {"x": x})):
        program = torch.export.export(layer, arguments, named, dynamic_shapes=rows).module()
        longer = torch.randn(9, 4)
        found = program(x=longer) if named else program(longer)
        torch.testing.assert_close(found, layer(longer))


class Residual(tc.nn.Lambda):
    """A layer with a forward of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + super().forward(x)


class Plain(tc.nn.Lambda):
    """One without."""


def test_classes_derived_from_lambda() -> None:
    x = torch.randn(5, 4)
    for made in (Residual, Plain):
        layer = made(LINEAR, namespace="tc_modules", I=4, O=4)
        for again in (layer, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert isinstance(again, made)
            expected = torch.nn.functional.linear(x, layer.w, layer.b)
            torch.testing.assert_close(again(x), expected + x if made is Residual else expected)


def test_lambda_whose_inputs_have_words_of_python() -> None:
    text = "def f(float(N) self, float(N) lambda) -> (y) { y(n) = self(n) + lambda(n) }"
    layer = tc.nn.Lambda(text, namespace="tc_modules", inputs=("self", "lambda"))
    assert layer.input_names == ["self", "lambda"]
    x = torch.randn(7)
    for again in (layer, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(again(x, x), 2 * x)


def test_lambda_that_begins_by_a_function_without_a_name() -> None:
    layer = make_layer(I=4, O=3, initialize={"w": lambda w: w.fill_(2), "b": torch.nn.init.ones_})
    assert bool((layer.w == 2).all()) and bool((layer.b == 1).all())
    copied, loaded = copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))
    for again in (copied, loaded):
        assert torch.equal(again.w, layer.w) and torch.equal(again.b, layer.b)
        with torch.no_grad():
            again.w.zero_()
            again.b.zero_()
    copied.reset_parameters()
    assert bool((copied.w == 2).all()) and bool((copied.b == 1).all())
    with pytest.raises(tc.TCError, match="the function that initialize had for w could not be"):
        loaded.reset_parameters()
    named = pickle.loads(pickle.dumps(make_layer(I=4, O=3, initialize={"b": torch.nn.init.ones_})))
    named.reset_parameters()
    assert bool((named.b == 1).all())


SCALED = "def scaled(float(N) x, float alpha, int shift) -> (y) { y(n) = alpha * x(n) + shift }"


def test_lambda_learns_a_scalar(tmp_path: Path) -> None:
    alpha = torch.nn.Parameter(torch.tensor(0.5))
    layer = tc.nn.Lambda(SCALED, namespace="tc_modules", alpha=alpha, shift=3)
    assert dict(layer.named_parameters()) == {"alpha": alpha}
    assert layer.alpha is alpha
    x = torch.randn(7)
    torch.testing.assert_close(layer(x), 0.5 * x + 3)
    layer(x).sum().backward()
    torch.testing.assert_close(alpha.grad, x.sum())
    with torch.no_grad():
        alpha.fill_(2)
    assert layer.state_dict() == {"alpha": torch.tensor(2.0)}
    torch.save(layer, tmp_path / "layer.pt")
    for again in (torch.load(tmp_path / "layer.pt", weights_only=False), copy.deepcopy(layer)):
        torch.testing.assert_close(again(x), 2 * x + 3)
        assert isinstance(again.alpha, torch.nn.Parameter)
        again.reset_parameters()
        torch.testing.assert_close(again(x), 0.5 * x + 3)
    assert "shift=3" in repr(layer) and "alpha=()" in repr(layer)


def test_lambda_keeps_a_tensor_as_a_buffer() -> None:
    layer = tc.nn.Lambda(
        SCALED,
        namespace="tc_modules",
        alpha=torch.tensor(0.5),
        shift=torch.tensor(3),
        initialize={"alpha": torch.nn.init.ones_},
    )
    assert list(layer.parameters()) == []
    assert layer.state_dict() == {"alpha": torch.tensor(1.0), "shift": torch.tensor(3)}
    x = torch.randn(7)
    torch.testing.assert_close(layer(x), x + 3)


@pytest.mark.parametrize(
    ("alpha", "message"),
    [
        ("0.5", "alpha of scaled is a scalar, but alpha='0.5' is of type str; pass a number"),
        (None, "alpha of scaled is a scalar, but alpha=None is of type NoneType; pass a number"),
        (torch.ones(2), r"alpha of scaled is a scalar, but alpha= is a tensor of sizes \(2,\)"),
    ],
)
def test_lambda_refuses_what_is_no_scalar(alpha: object, message: str) -> None:
    with pytest.raises(tc.TCError, match=message):
        tc.nn.Lambda(SCALED, namespace="tc_modules", alpha=alpha, shift=3)


def test_lambda_whose_size_has_a_name_of_its_own() -> None:
    text = "def f(float(N) x, float(device) w) -> (y) { y(n) +=! x(n) * w(k) }"
    with pytest.raises(tc.TCError, match="device= is a word of Lambda, so rename it in the text"):
        tc.nn.Lambda(text, inputs=("x",), namespace="tc_modules", device="cpu")


def test_lambda_counts_its_inputs() -> None:
    with pytest.raises(tc.TCError, match="linear expected 1 input but found 2: it takes x"):
        make_layer(I=4, O=3)(torch.ones(2, 4), torch.ones(2))


def test_lambda_whose_parameter_has_a_name_of_modules() -> None:
    text = "def f(float(N) x, float(3) forward) -> (y) { y(n) = x(n) * forward(0) }"
    with pytest.raises(tc.TCError, match="forward of f cannot be a parameter: every module has"):
        tc.nn.Lambda(text, namespace="tc_modules")
