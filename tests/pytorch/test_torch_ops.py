"""Operators under PyTorch's machinery: compile, export, script, opcheck, fakes, profiler."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import tensor_comprehensions as tc

T = tc.define(
    """
def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }
def matmul(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }
def conv(float(N, C, H, W) I, float(O, C, KH, KW) K) -> (R) {
  R(n, o, h, w) +=! I(n, c, h + kh, w + kw) * K(o, c, kh, kw)
}
def moments(float(N, K) I) -> (mean, var) {
  mean(n) +=! I(n, k)  var(n) +=! I(n, k) * I(n, k)
  mean(n) = mean(n) / K  var(n) = var(n) / K - mean(n) * mean(n)
}
def scale(float a, int k, bool flip, float(N) in) -> (out) {
  out(i) = (flip ? -a : a) * in(i) + k
}
def strided(int s, float(N) A) -> (C) { C(i) = A(s * i) }
def sgemm(float a, float b, float(N, M) A, float(M, K) B) -> (C) {
  C(i, j) = b * C(i, j)
  C(i, j) += a * A(i, k) * B(k, j)
}
def fixed(float(4, N) A) -> (C) { C(i, j) = A(i, j) * 2 }
""",
    namespace="tc_torch_ops",
)
OPS = torch.ops.tc_torch_ops
BACKENDS = ["aot_eager", "inductor"]


def r(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes)


INPUTS: dict[str, list[Callable[[], tuple]]] = {
    "add": [lambda: (r(7), r(7)), lambda: (r(7, 3)[:, 1], r(1).expand(7)), lambda: (r(0), r(0))],
    "matmul": [
        lambda: (r(5, 6), r(6, 7)),
        lambda: (r(6, 5).t(), r(7, 6).t()),
        lambda: (r(5, 1).expand(5, 6), r(1, 7).expand(6, 7)),
    ],
    "conv": [
        lambda: (r(2, 3, 8, 9), r(4, 3, 3, 2)),
        lambda: (r(2, 8, 9, 3).permute(0, 3, 1, 2), r(4, 3, 3, 2)),
    ],
    "moments": [lambda: (r(5, 9),), lambda: (r(9, 5).t(),)],
    "scale": [lambda: (2.5, 3, True, r(6)), lambda: (1.0, -3, False, r(12)[::2])],
    "strided": [lambda: (2, r(9)), lambda: (3, r(9))],
    "sgemm": [lambda: (0.5, 2.0, r(3, 4), r(4, 5), r(3, 5))],
    "fixed": [lambda: (r(4, 3),)],
}
REFERENCES: dict[str, Callable] = {
    "add": torch.add,
    "matmul": torch.matmul,
    "conv": torch.nn.functional.conv2d,
    "moments": lambda i: (i.mean(1), i.var(1, unbiased=False)),
    "scale": lambda a, k, flip, x: (-a if flip else a) * x + k,
    "strided": lambda s, x: x[::s],
    "sgemm": lambda a, b, x, y, c: a * (x @ y) + b * c,
    "fixed": lambda x: x * 2,
}
CASES = [(name, make) for name, makers in INPUTS.items() for make in makers]


def same(actual: object, wanted: object) -> None:
    torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name, make", CASES)
def test_values(name: str, make: Callable[[], tuple]) -> None:
    inputs = make()
    same(getattr(OPS, name)(*inputs), REFERENCES[name](*inputs))
    with torch.inference_mode():
        same(getattr(OPS, name)(*inputs), REFERENCES[name](*inputs))


@pytest.mark.parametrize("name, make", CASES)
def test_opcheck(name: str, make: Callable[[], tuple]) -> None:
    torch.library.opcheck(getattr(OPS, name).default, make())


@pytest.mark.parametrize("name, make", [c for c in CASES if c[0] != "sgemm"])
def test_opcheck_of_out(name: str, make: Callable[[], tuple]) -> None:
    inputs = make()
    results = getattr(OPS, name)(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    overload = getattr(OPS, name).out
    names = [a.name for a in overload._schema.arguments][len(inputs) :]
    torch.library.opcheck(
        overload, inputs, {n: torch.zeros_like(x) for n, x in zip(names, results, strict=True)}
    )


@pytest.mark.parametrize("name, make", CASES)
@pytest.mark.parametrize("device", ["fake", "meta"])
def test_without_data(name: str, make: Callable[[], tuple], device: str) -> None:
    inputs = make()
    real = getattr(OPS, name)(*inputs)
    if device == "meta":
        moved = [x.to("meta") if isinstance(x, torch.Tensor) else x for x in inputs]
        results = getattr(OPS, name)(*moved)
    else:
        with FakeTensorMode() as mode:
            moved = [mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in inputs]
            results = getattr(OPS, name)(*moved)
    many = isinstance(real, tuple)
    for wanted, got in zip(real if many else [real], results if many else [results], strict=True):
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        assert got.stride() == wanted.stride()


def test_errors_without_data() -> None:
    for wrong in ((r(5, 6), r(7, 7)), (r(5), r(5, 7)), (r(5, 6).double(), r(6, 7))):
        with pytest.raises(tc.ShapeError) as real:
            OPS.matmul(*wrong)
        with pytest.raises(tc.ShapeError) as meta:
            OPS.matmul(*(x.to("meta") for x in wrong))
        assert str(meta.value) == str(real.value)
    with pytest.raises(tc.ShapeError, match="would have size -2"):
        OPS.conv(r(1, 1, 3, 3).to("meta"), r(1, 1, 6, 1).to("meta"))


DECLARED = """def declared(float(N) a, float(M) b) -> (float(M) c) { c(i) = a(i) }
def outside(float(N) a, float(M) b) -> (c) { c(i) = a(i) + b(i + 1) where i in 0:N }
def empty(float(N) a, float(M) b) -> (p) { p argmax=! a(i) + b(j) }"""


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("declared", (3, 5), "dimension 0 of c is declared as M = 5 but its index takes 3 values"),
        ("outside", (4, 3), "outside: reads b(i + 1) outside: i = 2 gives index 3"),
        ("empty", (0, 3), "which has no value for these inputs"),
    ],
)
def test_sizes_that_a_call_refuses_are_refused_without_data(
    name: str, wrong: tuple[int, int], message: str
) -> None:
    f = getattr(tc.define(DECLARED, namespace="tc_declared"), name)
    said = []
    for device in ("cpu", "meta"):
        with pytest.raises(tc.ShapeError) as refusal:
            f(*(torch.zeros(size, device=device) for size in wrong))
        said.append(str(refusal.value))
    assert said[0] == said[1]
    assert message in said[0]
    with FakeTensorMode(), pytest.raises(tc.ShapeError, match=re.escape(message)):
        f(*map(torch.zeros, wrong))


def test_declared_sizes_are_conditions_on_symbols() -> None:
    f = tc.define(DECLARED, namespace="tc_declared").declared
    compiled = torch.compile(f, fullgraph=True, dynamic=True, backend="eager")
    a, b = torch.arange(4.0), torch.zeros(4)
    torch.testing.assert_close(compiled(a, b), a)
    with pytest.raises(Exception, match="c is declared as M but its index takes N values"):
        torch.compile(f, fullgraph=True, dynamic=True, backend="eager")(a, torch.zeros(5))


# ---- compilers


def compiled(function: Callable, backend: str, **keywords: object) -> Callable:
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend=backend, **keywords)


@pytest.mark.parametrize("backend", BACKENDS)
def test_compile_traces_attributes_and_operators(backend: str) -> None:
    def network(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        hidden = T.matmul(x, w).relu()
        mean, var = OPS.moments(hidden)
        same_again = T("matmul", x, w)
        return (same_again - mean[:, None]) * (var[:, None] + 1).rsqrt()

    f = compiled(network, backend, dynamic=True)
    counter = torch._dynamo.utils.counters
    counter.clear()
    for m, k, n in ((5, 6, 7), (8, 9, 10), (11, 3, 4)):
        x, w = r(m, k), r(k, n)
        same(f(x, w), network(x, w))
    assert counter["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_compile_with_scalars(backend: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return T.scale(2.5, 3, True, x) + T.strided(2, x).sum()

    x = r(8)
    same(compiled(f, backend)(x), f(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_compile_into_outputs(backend: str) -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(x.shape[0], w.shape[1])
        T.matmul(x, w, outputs=(out,))
        return out + 1

    x, w = r(5, 6), r(6, 7)
    same(compiled(f, backend)(x, w), x @ w + 1)


def test_compile_says_what_is_wrong() -> None:
    f = compiled(lambda x, w: T.matmul(x, w), "aot_eager")
    with pytest.raises(Exception, match="Mismatched sizes for dimension 0 of argument B"):
        f(r(5, 6), r(7, 7))
    x, w = r(5, 6), r(6, 7)
    same(f(x, w), x @ w)


def test_compile_of_the_backward() -> None:
    t = tc.define(
        """def mul(float(N) A, float(N) B) -> (C) { C(i) = A(i) * B(i) }
        def mul_grad(float(N) A, float(N) B, float(N) G) -> (dA, dB) {
          dA(i) = G(i) * B(i)  dB(i) = G(i) * A(i)
        }""",
        namespace="tc_torch_ops_backward",
    )
    mul = tc.make_autograd(t.mul, t.mul_grad)
    a, b = r(6).requires_grad_(), r(6).requires_grad_()
    compiled(lambda a, b: mul(a, b).sum(), "aot_eager")(a, b).backward()
    same(a.grad, b.detach())
    same(b.grad, a.detach())


@torch._dynamo.config.patch(compiled_autograd=True)
def test_compiled_backward_of_recorded_calls() -> None:
    """Of calls that were made before: compiled autograd tells their graphs apart by what they
    recorded, and runs one for all that recorded the same."""
    t = tc.define(
        """def bent(float(N) A, float s) -> (C) { C(i) = tanh(s * A(i)) }
        def bent_more(float(N) A, float s) -> (C) { C(i) = exp(s * A(i)) }
        def raised(float(N) A, int k) -> (C, D) { C(i) = pow(A(i), k)  D(i) = A(i) + k }
        def strides(float(N) A, int s) -> (C) { C(i) = A(s * i) * A(s * i) }
        def mul(float(N) A, float(N) B) -> (C, D) { C(i) = A(i) * B(i)  D(i) = A(i) + 1 }
        def mul_grad(float(N) A, float(N) B, float(N) G, float(N) H) -> (dA, dB) {
          dA(i) = G(i) * B(i) + H(i)  dB(i) = G(i) * A(i)
        }""",
        namespace="tc_torch_ops_compiled_backward",
    )
    bent, bent_more, raised = map(tc.make_autograd, (t.bent, t.bent_more, t.raised))
    strides, mul = tc.make_autograd(t.strides), tc.make_autograd(t.mul, t.mul_grad)
    cases = [
        (lambda x: bent(x, 2.0), lambda x: (2 * x).tanh()),
        (lambda x: bent(x, 3.0), lambda x: (3 * x).tanh()),
        (lambda x: bent_more(x, 2.0), lambda x: (2 * x).exp()),
        (lambda x: raised(x, 2)[0], lambda x: x**2),
        (lambda x: raised(x, 3)[1], lambda x: x + 3),
        (lambda x: strides(x, 2), lambda x: x[::2] ** 2),
        (lambda x: strides(x, 3), lambda x: x[::3] ** 2),
        (lambda x: bent(bent_more(x, 0.5), 1.0), lambda x: (x / 2).exp().tanh()),
        (lambda x: mul(x, x + 1)[0], lambda x: x * (x + 1)),
    ]
    torch._dynamo.reset()

    @torch.compile(backend="aot_eager")
    def backward(loss: torch.Tensor) -> None:
        loss.backward()

    for size in (6, 7, 6):
        for ours, theirs in cases:
            x = torch.rand(size, requires_grad=True)
            backward(ours(x).sum())
            wanted = x.detach().clone().requires_grad_()
            theirs(wanted).sum().backward()
            same(x.grad, wanted.grad)


class Module(torch.nn.Module):
    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.ops.tc_torch_ops.matmul(x, w) + 1


class Attribute(torch.nn.Module):
    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return T.matmul(x, w) + 1


@pytest.mark.parametrize("module", [Module, Attribute])
def test_export_with_dynamic_sizes(module: type) -> None:
    m, k, n = (torch.export.Dim(name, min=2, max=64) for name in "mkn")
    program = torch.export.export(
        module(), (r(5, 6), r(6, 7)), dynamic_shapes=({0: m, 1: k}, {0: k, 1: n})
    )
    x, w = r(8, 3), r(3, 9)
    same(program.module()(x, w), x @ w + 1)


def test_export_of_a_convolution() -> None:
    class Convolution(torch.nn.Module):
        def forward(self, i: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
            return OPS.conv(i, k)

    h = torch.export.Dim("h", min=8, max=64)
    program = torch.export.export(
        Convolution(), (r(2, 3, 10, 9), r(4, 3, 3, 2)), dynamic_shapes=({2: h}, None)
    )
    i, k = r(2, 3, 20, 9), r(4, 3, 3, 2)
    same(program.module()(i, k), torch.nn.functional.conv2d(i, k))


def test_script_and_trace(tmp_path: object) -> None:
    x, w = r(5, 6), r(6, 7)
    for module in (torch.jit.script(Module()), torch.jit.trace(Module(), (x, w))):
        same(module(x, w), x @ w + 1)
        module.save(str(tmp_path / "module.pt"))
        same(torch.jit.load(str(tmp_path / "module.pt"))(x, w), x @ w + 1)


# ---- the rest


def test_the_name_in_the_profiler() -> None:
    a, b = r(5), r(5)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        T.add(a, b)
    assert "tc_torch_ops::add" in {event.key for event in profile.key_averages()}


def test_inference_mode() -> None:
    with torch.inference_mode():
        a, b, out = r(5), r(5), torch.zeros(5)
        assert torch.equal(T.add(a, b), a + b)
        T.add(a, b, outputs=(out,))
        assert torch.equal(out, a + b)
        assert T.add(a, b).is_inference()
    # Outside of it such tensors are not written, and by a call that is refused least of all.
    with pytest.raises(tc.TCError, match=r"output \w+ was made in inference mode, outside"):
        T.add(torch.ones(5), torch.ones(5), outputs=(out,))
    assert torch.equal(out, a + b)


def test_missing_derivatives() -> None:
    a = r(5).requires_grad_()
    result = T.add(a, r(5))
    assert result.requires_grad
    with pytest.raises(tc.TCError, match="add has no derivative: call it through add = ") as error:
        result.sum().backward()
    words = "add = tensor_comprehensions.make_autograd(T.add), which derives one"
    assert words in str(error.value)
    b = r(5)
    assert torch.equal(tc.make_autograd(T.add)(a, b), a + b)
    with torch.no_grad():
        assert not T.add(a, a).requires_grad
    with (
        torch.autograd.forward_ad.dual_level(),
        pytest.raises(tc.TCError, match="no forward-mode derivative"),
    ):
        T.add(torch.autograd.forward_ad.make_dual(r(5), r(5)), r(5))


def test_conjugates_and_negatives() -> None:
    z = torch.randn(5, dtype=torch.complex64)
    negative = z.conj().imag  # a view with the negative bit
    assert negative.is_neg()
    same(T.add(negative, r(5) * 0), -z.imag)
    out, zeros = r(5), torch.zeros(5)
    for unchecked in (False, True):
        T.add(negative, zeros, outputs=(out.zero_(),), unchecked=unchecked)
        same(out, -z.imag)
    executor = tc.compile("def f(float(N) A) -> (B) { B(i) = A(i) }", "f", None, negative)
    same(executor(negative), -z.imag)
    for unchecked in (False, True):
        with pytest.raises(tc.ShapeError, match="output C: expected plain memory"):
            T.add(zeros, zeros, outputs=(negative,), unchecked=unchecked)
    with pytest.raises(tc.ShapeError, match="output C: expected dtype float32 but got complex64"):
        T.add(zeros, zeros, outputs=(z.conj(),))
    with pytest.raises(tc.ShapeError, match="argument B: expected dtype float32"):
        T.add(zeros, z.conj(), outputs=(out,))


def test_fake_tensors_into_outputs() -> None:
    with FakeTensorMode():
        out = torch.empty(5)
        T.add(torch.empty(5), torch.empty(5), outputs=(out,))
    meta = torch.empty(5, device="meta")
    T.add(meta, meta, outputs=(torch.empty(5, device="meta"),))


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_outputs_of_other_sizes_are_refused_without_data(device: str) -> None:
    a, out = torch.empty(5, device=device), torch.empty(6, device=device)
    message = r"output C: expected sizes \(5,\) but got \(6,\)"
    with pytest.raises(tc.ShapeError, match=message):
        T.add(a, a, outputs=out)
    with FakeTensorMode(), pytest.raises(tc.ShapeError, match=message):
        T.add(torch.empty(5), torch.empty(5), outputs=torch.empty(6))


def test_sizes_of_outputs_are_conditions_on_symbols() -> None:
    def add(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return T.add(a, b, outputs=out)

    torch._dynamo.reset()
    compiled = torch.compile(add, backend="eager", dynamic=True, fullgraph=True)
    for size in (5, 7):
        a, b = r(size), r(size)
        same(compiled(a, b, torch.empty(size)), a + b)
    with pytest.raises(Exception, match=r"output C: expected sizes"):
        compiled(r(5), r(5), torch.empty(6))
