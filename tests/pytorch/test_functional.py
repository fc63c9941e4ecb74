"""torch.func: batches, and derivatives in both directions, of definitions and of their pairs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import tensor_comprehensions as tc

MATMUL = "def matmul(double(M,K) A, double(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
MLP = """def mlp(double(B,I) x, double(H,I) w, double(H) b) -> (o, s) {
    h(n,j) +=! x(n,i) * w(j,i)
    o(n,j) = tanh(h(n,j) + b(j))
    s(j) +=! o(n,j)
}"""
CONVOLUTION = """def convolution(double(N,C,H,W) x, double(K,C,R,S) w) -> (o) {
    o(n,k,h,v) +=! x(n,c,2*h+r,v+s) * w(k,c,r,s)
}"""
SOFTMAX = """def softmax(double(N,D) x) -> (y) {
    largest(n) max=! x(n,d)
    total(n) +=! exp(x(n,d) - largest(n))
    y(n,d) = exp(x(n,d) - largest(n)) / total(n)
}"""
LOOKUP = "def lookup(double(E,D) t, int32(B,L) i) -> (o) { o(b,d) +=! t(i(b,l),d) }"


def define(text: str) -> object:
    name = text.split("(")[0].split()[-1]
    return getattr(tc.define(text, namespace="tc_functional"), name)


def mlp(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    o = torch.tanh(x @ w.t() + b)
    return o, o.sum(0)


def doubles(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, dtype=torch.float64)


def indices(bound: int, *sizes: int) -> torch.Tensor:
    return torch.randint(0, bound, sizes, dtype=torch.int32)


CASES = {
    "matmul": (MATMUL, torch.matmul, lambda: (doubles(3, 4), doubles(4, 5))),
    "mlp": (MLP, mlp, lambda: (doubles(3, 4), doubles(5, 4), doubles(5))),
    "convolution": (
        CONVOLUTION,
        lambda x, w: F.conv2d(x, w, stride=(2, 1)),
        lambda: (doubles(2, 3, 7, 6), doubles(4, 3, 3, 2)),
    ),
    "softmax": (SOFTMAX, lambda x: x.softmax(1), lambda: (doubles(3, 5),)),
    "lookup": (
        LOOKUP,
        lambda t, i: t[i.long()].sum(1),
        lambda: (doubles(7, 4), indices(7, 3, 5)),
    ),
}


def tuple_of(value: object) -> tuple:
    return value if isinstance(value, tuple) else (value,)


def assert_equal(actual: object, wanted: object) -> None:
    for a, w in zip(tuple_of(actual), tuple_of(wanted), strict=True):
        torch.testing.assert_close(a, w, rtol=1e-9, atol=1e-9)


def example_dims(count: int) -> list[tuple]:
    """Every choice of inputs that are batched, along their first or last dimension."""
    choices: list[tuple] = [()]
    for _ in range(count):
        choices = [(*c, dim) for c in choices for dim in (None, 0, -1)]
    return [c for c in choices if any(dim is not None for dim in c)]


def batch(value: torch.Tensor, dim: int | None, size: int, seed: int) -> torch.Tensor:
    if dim is None:
        return value
    torch.manual_seed(seed)
    if value.dtype == torch.float64:
        return torch.stack([torch.randn_like(value) for _ in range(size)], dim)
    return torch.stack([value.flatten()[torch.randperm(value.numel())].reshape(value.shape)
                        for _ in range(size)], dim)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_vmap(name: str) -> None:
    text, reference, make = CASES[name]
    torch.manual_seed(0)
    values = make()
    for dims in example_dims(len(values)):
        batched = [batch(v, d, 6, k) for k, (v, d) in enumerate(zip(values, dims, strict=True))]
        wanted = [
            reference(*(v if d is None else v.select(d, n)
                        for v, d in zip(batched, dims, strict=True)))
            for n in range(6)
        ]  # fmt: skip
        wanted = tuple(torch.stack(parts) for parts in zip(*map(tuple_of, wanted), strict=True))
        assert_equal(vmap(define(text), in_dims=dims)(*batched), wanted)


def test_vmap_is_one_call() -> None:
    """A batch is a definition of its own, not a loop over calls."""
    matmul = define(MATMUL)
    with torch.profiler.profile() as profile:
        vmap(matmul)(doubles(9, 3, 4), doubles(9, 4, 5))
    counts = {e.key: e.count for e in profile.key_averages() if "matmul" in e.key}
    assert counts["tc_batch::matmul_batch"] == 1, counts


def test_nested_vmap() -> None:
    a, b = doubles(2, 7, 3, 4), doubles(7, 4, 5)
    actual = vmap(vmap(define(MATMUL)), in_dims=(0, None))(a, b)
    assert_equal(actual, a @ b)
    inner = vmap(define(MATMUL), in_dims=(None, 0))
    assert_equal(vmap(inner, in_dims=(0, None))(a[:, 0], b), a[:, :1] @ b)


@pytest.mark.parametrize("wrap", [lambda f: f, tc.make_autograd], ids=["plain", "differentiable"])
def test_vmap_keeps_what_calls_ask_of_sizes(wrap: Callable) -> None:
    text = """def four(double(4) X) -> (Y) { Y(i) = X(i) * 2 }
    def f(double(N) A) -> (B) { T(i) = A(i) + A(i + 1)  B = four(T) }"""
    f = vmap(wrap(tc.define(text, namespace="tc_functional").f))
    a = doubles(3, 5)
    assert_equal(f(a), 2 * (a[:, 1:] + a[:, :-1]))
    message = "4 was expected for dimension 0 of X of four, but that of T is 6"
    with pytest.raises(tc.ShapeError, match=message):
        f(doubles(3, 7))


def test_vmap_into_the_last_dimension() -> None:
    a, b = doubles(7, 3, 4), doubles(7, 4, 5)
    assert_equal(vmap(define(MATMUL), out_dims=-1)(a, b), (a @ b).movedim(0, -1))


def test_vmap_with_a_result_of_its_own() -> None:
    """What depends on no batched input is computed once."""
    text = """def both(double(N) a, double(N) b) -> (x, y) {
        x(i) = 2 * a(i)
        y(i) = a(i) + b(i)
    }"""
    a, b = doubles(5), doubles(6, 5)
    x, y = vmap(define(text), in_dims=(None, 0))(a, b)
    assert_equal((x, y), ((2 * a).expand(6, 5), a + b))


def test_vmap_of_scalars_names_and_sizes() -> None:
    """Names that the batch could take are taken; sizes of tensors are one dimension further."""
    text = """def scaled(double(Batch,K) batch, double alpha) -> (Batch_, total) {
        Batch_(b, k) = alpha * batch(b, k) / batch.1
        total +=! Batch_(b, k) where b in 0:batch.0
    }"""
    x = doubles(4, 3, 5)
    wanted = 0.5 * x / 5
    assert_equal(vmap(define(text), in_dims=(0, None))(x, 0.5), (wanted, wanted.sum((1, 2))))


def test_vmap_of_conditions_scatters_and_starts() -> None:
    text = """def counted(double(N) x, int32(N) place) -> (o) {
        o(j) = 1.0 where j in 0:9
        o(place(i)) += x(i) > 0 ? x(i) : 0.0
    }"""
    x, place = doubles(6, 20), indices(9, 6, 20)
    wanted = torch.ones(6, 9, dtype=torch.float64).scatter_add(1, place.long(), x.relu())
    assert_equal(vmap(define(text))(x, place), wanted)
    wanted = torch.ones(6, 9, dtype=torch.float64).scatter_add(
        1, place[0].long().expand(6, 20), x.relu()
    )
    assert_equal(vmap(define(text), in_dims=(0, None))(x, place[0]), wanted)


def test_vmap_of_what_adds_to_its_outputs() -> None:
    text = "def add(double(M,K) A) -> (s) { s(m) += A(m,k) }"
    operator = define(text)
    with pytest.raises(tc.TCError, match="adds to s, which its caller passes: no batch of it"):
        vmap(operator.overload)(doubles(3, 4, 5), doubles(3, 4))


# ---- derivatives


def inputs_of(name: str) -> tuple:
    torch.manual_seed(1)
    return CASES[name][2]()


def differentiable(name: str) -> tuple:
    """The definition and the reference as functions of their floating-point inputs, and these."""
    text, reference, _ = CASES[name]
    values = inputs_of(name)
    function = tc.make_autograd(define(text))
    fixed = [v for v in values if not v.is_floating_point()]
    floats = [v for v in values if v.is_floating_point()]

    def ours(*x: torch.Tensor) -> object:
        return function(*x, *fixed)

    def theirs(*x: torch.Tensor) -> object:
        return reference(*x, *fixed)

    return ours, theirs, floats


def total(function: object) -> object:
    return lambda *x: sum((r * r).sum() for r in tuple_of(function(*x)))


@pytest.mark.parametrize("name", CASES)
def test_jvp(name: str) -> None:
    ours, theirs, values = differentiable(name)
    tangents = [torch.randn_like(v) for v in values]
    actual = jvp(ours, tuple(values), tuple(tangents))
    wanted = jvp(theirs, tuple(values), tuple(tangents))
    assert_equal(actual[0], wanted[0])
    assert_equal(actual[1], wanted[1])


@pytest.mark.parametrize("name", CASES)
def test_forward_mode(name: str) -> None:
    """Dual numbers; one input after the other carries a tangent."""
    ours, theirs, values = differentiable(name)
    for k in range(len(values)):
        tangent = torch.randn_like(values[k])
        results = []
        for function in (ours, theirs):
            with forward_ad.dual_level():
                duals = list(values)
                duals[k] = forward_ad.make_dual(values[k], tangent)
                parts = [forward_ad.unpack_dual(r).tangent for r in tuple_of(function(*duals))]
                results.append(tuple(p.clone() for p in parts))
        assert_equal(*results)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("transform", [jacrev, jacfwd])
def test_jacobians(name: str, transform: object) -> None:
    ours, theirs, values = differentiable(name)
    for k in range(len(values)):
        assert_equal(
            tuple_of(transform(ours, argnums=k)(*values)),
            tuple_of(transform(theirs, argnums=k)(*values)),
        )


@pytest.mark.parametrize("name", [n for n in CASES if n != "lookup"])
@pytest.mark.parametrize(
    "transform", [hessian, lambda f: jacrev(jacfwd(f)), lambda f: jacrev(jacrev(f))]
)
def test_second_derivatives(name: str, transform: object) -> None:
    ours, theirs, values = differentiable(name)
    assert_equal(transform(total(ours))(*values), transform(total(theirs))(*values))


@pytest.mark.parametrize("name", CASES)
def test_forward_over_reverse(name: str) -> None:
    """Dual numbers: gradients move with the results that they are computed from, too."""
    ours, theirs, values = differentiable(name)
    tangents = [torch.randn_like(v) for v in values]
    results = []
    for function in (ours, theirs):
        with forward_ad.dual_level():
            leaves = [v.clone().requires_grad_() for v in values]
            duals = [forward_ad.make_dual(v, t) for v, t in zip(leaves, tangents, strict=True)]
            found = torch.autograd.grad(total(function)(*duals), duals, create_graph=True)
            results.append(tuple(forward_ad.unpack_dual(g).tangent.detach() for g in found))
    assert_equal(*results)


@pytest.mark.parametrize("name", CASES)
def test_gradients_for_every_example(name: str) -> None:
    ours, theirs, values = differentiable(name)
    examples = torch.stack([torch.randn_like(values[0]) for _ in range(4)])
    dims = (0, *(None for _ in values[1:]))
    wanted = vmap(grad(total(theirs)), in_dims=dims)(examples, *values[1:])
    assert_equal(vmap(grad(total(ours)), in_dims=dims)(examples, *values[1:]), wanted)


@pytest.mark.parametrize("name", CASES)
def test_vjp_of_a_batch(name: str) -> None:
    ours, theirs, values = differentiable(name)
    examples = torch.stack([torch.randn_like(values[0]) for _ in range(4)])
    dims = (0, *(None for _ in values[1:]))
    results = []
    for function in (ours, theirs):
        out, pull = vjp(lambda *x, f=function: vmap(f, in_dims=dims)(*x), examples, *values[1:])
        torch.manual_seed(2)
        cotangent = tuple(torch.randn_like(o) for o in tuple_of(out))
        results.append(pull(cotangent if isinstance(out, tuple) else cotangent[0]))
    assert_equal(*results)


# ---- what is refused


def test_operators_without_their_pair() -> None:
    """Never a tangent of zero in silence."""
    matmul, a, b = define(MATMUL), doubles(3, 4), doubles(4, 5)
    out = torch.zeros(3, 5, dtype=torch.float64)
    message = (
        "tc_functional::matmul has no forward-mode derivative: call it through .*make_autograd"
    )
    with pytest.raises(tc.TCError, match=message):
        jvp(matmul, (a, b), (a, b))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(a, a)
        with pytest.raises(tc.TCError, match=message):
            matmul(dual, b)
        with pytest.raises(tc.TCError, match=r"given outputs .* argument A carries a tangent"):
            matmul(dual, b, outputs=out)
    assert not out.any()
    with pytest.raises(tc.TCError, match="tc_functional::matmul has no derivative: call it"):
        jacrev(matmul)(a, b)


@pytest.mark.parametrize("name", ["matmul", "mlp", "lookup"])
def test_under_compile(name: str) -> None:
    ours, theirs, values = differentiable(name)
    dims = (0, *(None for _ in values[1:]))
    batched = (torch.stack([values[0], 2 * values[0]]), *values[1:])
    compiled = torch.compile(vmap(ours, in_dims=dims), fullgraph=True, backend="aot_eager")
    assert_equal(compiled(*batched), vmap(theirs, in_dims=dims)(*batched))


def test_the_page_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # it saves files
    page = (Path(__file__).parents[2] / "docs" / "pytorch.md").read_text()
    names: dict = {}
    torch.manual_seed(0)
    for code in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(code, names)
    assert names["y"].shape == (2, 8, 14, 14) and names["y"].requires_grad
    q, k, v = names["q"], names["k"], names["v"]

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (q @ k.transpose(-1, -2)).softmax(-1) @ v

    near = {"rtol": 1e-3, "atol": 1e-3}
    torch.testing.assert_close(names["heads"], attend(q, k, v), **near)
    torch.testing.assert_close(names["model"](q[0], k[0], v[0]), attend(q, k, v)[0], **near)
    assert [t.attend.name for t in tc.load("model.tc.pb")] == [names["T"].attend.name]
    wanted = grad(lambda *x: attend(*x).sum(), argnums=(0, 1, 2))(q, k, v)
    torch.testing.assert_close(names["per_head"], wanted, **near)
    _, moved = jvp(lambda x: attend(x, k[0], v[0]), (q[0],), (q[1],))
    torch.testing.assert_close(names["moved"], moved, **near)
    torch.testing.assert_close(names["alpha"].grad, names["x"].sum())
    torch.testing.assert_close(names["outer"], torch.outer(torch.arange(3.0), names["x"]))


def test_levels_that_batch_none_of_the_arguments_keep_the_derivative() -> None:
    twice = tc.make_autograd(
        tc.define("def twice(float(N) A) -> (B) { B(i) = 2 * A(i) }", namespace="tc_levels").twice
    )
    x, factors = torch.rand(3, 5, requires_grad=True), torch.rand(4)
    rows = torch.vmap(lambda row: torch.vmap(lambda by: twice(row).sum() * by)(factors))(x)
    rows.sum().backward()
    torch.testing.assert_close(x.grad, (2 * factors.sum()).expand(3, 5))


def test_pairs_with_a_backward_of_ones_own() -> None:
    """PyTorch says what it lacks; nothing is silently wrong."""
    pair = tc.make_autograd(define(MATMUL), lambda a, b, g: (g @ b.t(), a.t() @ g))
    a, b = doubles(3, 4), doubles(4, 5)
    with pytest.raises(RuntimeError, match="vmap"):
        vmap(pair, in_dims=(0, None))(torch.stack([a, a]), b)
    with pytest.raises((RuntimeError, NotImplementedError), match="jvp"):
        jvp(pair, (a, b), (a, b))
    assert_equal(jacrev(pair)(a, b), jacrev(torch.matmul)(a, b))


MATMUL_GRAD = """def matmul_grad(double(M,K) A, double(K,N) B, double(M,N) G) -> (dA, dB) {
    dA(m,k) +=! G(m,n) * B(k,n)
    dB(k,n) +=! G(m,n) * A(m,k)
}"""


def pairs() -> dict[str, Callable]:
    return {
        "definition": tc.make_autograd(define(MATMUL), define(MATMUL_GRAD)),
        "function": tc.make_autograd(define(MATMUL), lambda a, b, g: (g @ b.t(), a.t() @ g)),
    }


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("kind", ["definition", "function"])
def test_compiled_gradients_of_pairs(kind: str, backend: str) -> None:
    torch._dynamo.reset()
    pair, a, b = pairs()[kind], doubles(3, 4), doubles(4, 5)

    def loss(function: Callable) -> Callable:
        return lambda a, b: function(a.sin(), b).pow(2).sum()

    for transform in (
        lambda f: grad(f, argnums=(0, 1)),
        lambda f: lambda *x: torch.func.grad_and_value(f)(*x),
        lambda f: lambda a, b: vjp(f, a, b)[1](torch.ones((), dtype=a.dtype)),
    ):
        compiled = torch.compile(transform(loss(pair)), fullgraph=True, backend=backend)
        assert_equal(compiled(a, b), transform(loss(torch.matmul))(a, b))


@pytest.mark.parametrize("compiled", [False, True])
def test_pairs_of_definitions_have_batches(compiled: bool) -> None:
    torch._dynamo.reset()
    pair, a, b = pairs()["definition"], doubles(6, 3, 4), doubles(6, 4, 5)

    def loss(function: Callable) -> Callable:
        return lambda a, b: function(a, b).pow(2).sum()

    def run(function: Callable) -> list:
        transforms = [
            lambda f: vmap(grad(loss(f), argnums=(0, 1))),
            lambda f: lambda a, b: vmap(grad(loss(f), argnums=(0, 1)), in_dims=(0, None))(a, b[0]),
            lambda f: lambda a, b: grad(loss(vmap(f)), argnums=(0, 1))(a, b),
            lambda f: lambda a, b: grad(loss(vmap(f, in_dims=(0, None))), argnums=(0, 1))(a, b[0]),
            lambda f: (
                lambda a, b: grad(loss(vmap(f, in_dims=(None, 1))), argnums=(0, 1))(
                    a[0], b.movedim(0, 1)
                )
            ),
            lambda f: lambda a, b: jacrev(f, argnums=(0, 1))(a[0], b[0]),
            lambda f: lambda a, b: vmap(f)(a, b),
        ]
        results = []
        for transform in transforms:
            g = transform(function)
            if compiled and function is pair:
                g = torch.compile(g, fullgraph=True, backend="aot_eager")
            results.append(g(a, b))
        return results

    for actual, wanted in zip(run(pair), run(torch.matmul), strict=True):
        assert_equal(actual, wanted)


def test_batches_of_pairs_outside_of_transforms() -> None:
    """The rule of vmap is differentiated by autograd."""
    pair = pairs()["definition"]
    a, b = doubles(6, 3, 4).requires_grad_(), doubles(4, 5).requires_grad_()
    found = torch.autograd.grad(vmap(pair, in_dims=(0, None))(a, b).pow(2).sum(), (a, b))
    assert_equal(found, torch.autograd.grad((a @ b).pow(2).sum(), (a, b)))


def test_pairs_of_definitions_have_no_tangents() -> None:
    pair, a, b = pairs()["definition"], doubles(3, 4), doubles(4, 5)
    message = "matmul with the backward matmul_grad has no forward-mode derivative"
    with pytest.raises(tc.TCError, match=message):
        jvp(pair, (a, b), (a, b))
    with forward_ad.dual_level(), pytest.raises(tc.TCError, match=message):
        pair(forward_ad.make_dual(a, a), b)


@pytest.mark.parametrize("name", CASES)
def test_compiled_gradients(name: str) -> None:
    torch._dynamo.reset()
    ours, theirs, values = differentiable(name)
    compiled = torch.compile(grad(total(ours)), fullgraph=True, backend="aot_eager")
    assert_equal(compiled(*values), grad(total(theirs))(*values))


def test_a_batch_of_declared_results_without_dimensions() -> None:
    t = tc.define("def total(float(N) A) -> (float S) { S +=! A(i) }")
    x = torch.randn(4, 7)
    torch.testing.assert_close(torch.vmap(t.total)(x), x.sum(1))
