"""Arguments by the names of the signature, and what `inspect.signature` and `help` say of it."""

from __future__ import annotations

import inspect
import pydoc
import re
from collections.abc import Callable

import pytest
import torch

import tensor_comprehensions as tc

TEXT = """
def matmul(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }
def conv(float(N, H) I, half(KH) K) -> (R, Best) {
  R(n, h) +=! I(n, 2 * h + kh) * K(kh)
  Best(n) argmax=! R(n, h)
}
def scale(float a, int s, float(N) A) -> (C) { C(i) = a * A(s * i) }
def add(float b, float(N) A) -> (C) { C(i) += b * A(i) }
def words(float(N) self, float(N) inputs, float(N) entry_point, float(N) named) -> (C) {
  C(i) = self(i) + 2 * inputs(i) + 4 * entry_point(i) + 8 * named(i)
}
def placed(float(N) A, float(N) in, float(N) outputs, float unchecked, float(N) 1x, float(N) B)
    -> (C) {
  C(i) = A(i) - 2 * in(i) + 4 * outputs(i) * unchecked + 8 * 1x(i) + B(i)
}
def nothing() -> (C) { C(i) = 1.5 where i in 0:3 }
"""
T = tc.define(TEXT, namespace="tc_parameters")


def operands() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(3, 4), torch.randn(4, 5)


def test_arguments_by_name() -> None:
    a, b = operands()
    wanted = T.matmul(a, b)
    torch.testing.assert_close(wanted, a @ b)
    out = torch.empty(3, 5)
    executor = tc.compile(TEXT, "matmul", None, a, b)
    for call in (T.matmul, lambda *x, **n: T("matmul", *x, **n), executor):
        for result in (call(A=a, B=b), call(B=b, A=a), call(a, B=b)):
            assert torch.equal(result, wanted)
        for unchecked in (False, True):
            assert call(B=b, A=a, outputs=out.zero_(), unchecked=unchecked) is out
            assert torch.equal(out, wanted)
    x = torch.randn(9)
    assert torch.equal(T.scale(A=x, s=2, a=3.0), 3 * x[::2])
    assert torch.equal(T.scale(torch.tensor(3.0), A=x, s=torch.tensor(2)), 3 * x[::2])
    with pytest.raises(tc.ShapeError, match=r"argument s: expected an integer but got"):
        T.scale(3.0, s=torch.tensor(2.0), A=x)
    start = torch.ones(9)
    T.add(A=x, b=2.0, outputs=start)
    torch.testing.assert_close(start, 1 + 2 * x)


def test_derivatives_of_arguments_by_name() -> None:
    a, b = (x.requires_grad_() for x in operands())
    paired = tc.make_autograd(T.matmul, lambda a, b, g: (g @ b.t(), a.t() @ g))

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ y

    plain = tc.make_autograd(function, lambda a, b, g: (g @ b.t(), a.t() @ g))
    calls: list[Callable] = [
        lambda f: f(A=a, B=b),
        lambda f: f(a, B=b),
        lambda f: f(B=b, A=a),
    ]
    for call in calls:
        for f in (tc.make_autograd(T.matmul), paired):
            found = torch.autograd.grad(call(f).sum(), (a, b))
            torch.testing.assert_close(found[0], b.detach().sum(1).expand(3, 4))
            torch.testing.assert_close(found[1], a.detach().sum(0)[:, None].expand(4, 5))
    assert torch.equal(plain(y=b, x=a), a @ b)
    with pytest.raises(tc.TCError, match="function: missing a required argument: 'y'"):
        plain(x=a)
    with pytest.raises(tc.ShapeError, match="matmul expected 2 inputs but found 1: A is missing"):
        paired(B=b)
    with pytest.raises(tc.TCError, match="matmul has derivatives, and returns its results"):
        tc.make_autograd(T.matmul)(a, b, outputs=torch.empty(3, 5))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_arguments_by_name_in_graphs(backend: str) -> None:
    a, b = operands()
    derived = tc.make_autograd(T.matmul)
    matmul = T.matmul

    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return matmul(B=b, A=a) + T("matmul", a, B=b) + derived(B=b, A=a)

    torch._dynamo.reset()
    compiled = torch.compile(f, fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(a, b), 3 * (a @ b))
    with pytest.raises(Exception, match="matmul has no parameter b"):
        torch.compile(lambda a: T.matmul(a, b=a), fullgraph=True, backend=backend)(a)


def test_arguments_by_name_in_batches() -> None:
    a, b = torch.randn(6, 3, 4), torch.randn(6, 4, 5)
    batched = torch.func.vmap(lambda x, y: T.matmul(B=y, A=x))
    torch.testing.assert_close(batched(a, b), a @ b)
    derived = tc.make_autograd(T.matmul)
    gradient = torch.func.vmap(torch.func.grad(lambda x, y: derived(B=y, A=x).sum()))
    torch.testing.assert_close(gradient(a, b), b.sum(2)[:, None].expand(6, 3, 4))


def test_arguments_by_name_of_a_module() -> None:
    layer = tc.nn.Lambda(
        """def affine(float(N, I) x, float(O, I) w, float s) -> (y) {
          y(n, o) +=! s * x(n, i) * w(o, i)
        }""",
        namespace="tc_parameters",
        I=4,
        O=5,
    )
    x = torch.randn(3, 4)
    assert torch.equal(layer(s=2.0, x=x), layer(x, 2.0))
    with pytest.raises(tc.ShapeError, match="affine has no parameter X; it has x, s; did you mean"):
        layer(X=x, s=2.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f, x: f(x, b=x), "matmul has no parameter b; it has A, B; did you mean B?"),
        (lambda f, x: f(x, x, weight=x), "matmul has no parameter weight; it has A, B"),
        (lambda f, x: f(x, A=x), "matmul got two values for A: by its place and by its name"),
        (lambda f, x: f(x, A=x, B=x), "matmul got two values for A: by its place and by its"),
        (lambda f, x: f(B=x), "matmul expected 2 inputs but found 1: A is missing"),
        (lambda f, x: f(x), "matmul expected 2 inputs but found 1: B is missing"),
        (lambda f, x: f(), "matmul expected 2 inputs but found 0: A, B are missing"),
        (lambda f, x: f(x, x, x), "matmul expected 2 inputs but found 3: it takes A, B"),
        (lambda f, x: f(x, x, x, A=x), "matmul got two values for A"),
    ],
)
def test_names_that_do_not_fit(call: Callable, message: str) -> None:
    x = torch.randn(4, 4)
    executor = tc.compile(TEXT, "matmul", None, x, x)
    for function in (T.matmul, tc.make_autograd(T.matmul), executor):
        with pytest.raises(tc.ShapeError, match=re.escape(message)):
            call(function, x)
    torch.testing.assert_close(T.matmul(A=x, B=x), x @ x)


def test_names_that_calls_have_themselves() -> None:
    a, b, c, d = torch.randn(4, 5)
    wanted = a + 2 * b + 4 * c + 8 * d
    torch.testing.assert_close(T.words(self=a, inputs=b, entry_point=c, named=d), wanted)
    torch.testing.assert_close(T("words", named=d, self=a, inputs=b, entry_point=c), wanted)
    with pytest.raises(tc.ShapeError, match="nothing has no parameter x; it has none"):
        T.nothing(x=1)
    assert torch.equal(T.nothing(), torch.full((3,), 1.5))


def test_names_that_no_call_can_pass() -> None:
    """`outputs` and `unchecked` are words of the call, `in` and `1x` no names in Python."""
    a, b, c, d, e = torch.randn(5, 6)
    wanted = a - 2 * b + 8 * c + 8 * d + e
    torch.testing.assert_close(T.placed(a, b, c, 2.0, d, e), wanted)
    torch.testing.assert_close(T.placed(a, b, c, 2.0, B=e, **{"1x": d}), wanted)
    out = torch.empty(6)
    assert T.placed(a, b, c, 2.0, d, B=e, outputs=out) is out
    torch.testing.assert_close(out, wanted)
    message = (
        "placed expected 6 inputs but found 4: outputs, unchecked are missing; outputs= is a word "
        "of the call, so pass this parameter by its place; unchecked= is a word"
    )
    with pytest.raises(tc.ShapeError, match=message):
        T.placed(a, b, outputs=c, B=e, **{"1x": d})


def test_names_that_compile_has_itself() -> None:
    text = "def f(float(N) target, float(N) outputs, float(N) options) -> (y) { "
    t = tc.define(
        text + "y(i) = target(i) - outputs(i) * options(i) }", namespace="tc_parameters_compile"
    )
    a, b, c = torch.randn(3, 6)
    for found in (t.f(a, b, options=c), t.f.compile(a, b, c)(a, b, options=c)):
        torch.testing.assert_close(found, a - b * c)
    with pytest.raises(tc.ShapeError, match="options= is a word of the call, so pass this"):
        t.f.compile(a, outputs=b, options=c)
    with pytest.raises(tc.ShapeError, match="target= is a word of the call, so pass this"):
        t.f.explain(outputs=b, target=a)


# ---- signatures


def test_signatures() -> None:
    def shown(function: Callable) -> str:
        return str(inspect.signature(function))

    more = ", *, outputs=None, unchecked=False)"
    assert shown(T.matmul) == f"(A: float(M, K), B: float(K, N){more} -> float(M, N) C"
    assert shown(T.conv) == (
        f"(I: float(N, H), K: half(KH){more} -> (float(N, ((H - KH) // 2) + 1) R, int64(N) Best)"
    )
    # The size depends on the value of s.
    assert shown(T.scale) == f"(a: float, s: int, A: float(N){more} -> float(...) C"
    assert shown(T.add) == "(b: float, A: float(N), *, outputs, unchecked=False) -> float(N) C"
    assert shown(T.nothing) == "(*, outputs=None, unchecked=False) -> float(3) C"
    assert shown(T.placed) == (
        "(A: float(N), in: float(N), outputs: float(N), unchecked: float, arg_1x: float(N), /, "
        "B: float(N)) -> float(N) C"
    )
    assert shown(tc.make_autograd(T.matmul)) == "(A: float(M, K), B: float(K, N)) -> float(M, N) C"
    executor = tc.compile(TEXT, "matmul", None, *operands())
    assert shown(executor) == f"(A: float(3, 4), B: float(4, 5){more} -> float(3, 5) C"
    scaled = tc.compile(TEXT, "scale", None, 1.0, 4, torch.randn(9))
    assert shown(scaled) == f"(a: float, s: int, A: float(9){more} -> float(3) C"


def test_signatures_bind_what_calls_take() -> None:
    a, b = operands()
    for function in (T.matmul, tc.compile(TEXT, "matmul", None, a, b)):
        bound = inspect.signature(function).bind(a, B=b)
        torch.testing.assert_close(function(*bound.args, **bound.kwargs), a @ b)
        with pytest.raises(TypeError):
            inspect.signature(function).bind(a, b=b)


def test_help() -> None:
    said = pydoc.render_doc(T.matmul, renderer=pydoc.plaintext)
    assert "def matmul(float(M, K) A, float(K, N) B) -> (C) {" in said
    assert "C(m, n) +=! A(m, k) * B(k, n)" in said
    assert "Takes float(M, K) A, float(K, N) B, by their places or by their names." in said
    assert "Returns float(M, N) C." in said
    assert T.matmul.__doc__.startswith("def matmul(")
    assert "initial contents of C are read" in T.add.__doc__
    assert "as a tuple." in T.conv.__doc__
    executor = tc.compile(TEXT, "matmul", None, *operands())
    assert "Takes float(3, 4) A" in pydoc.render_doc(executor, renderer=pydoc.plaintext)
    assert tc.make_autograd(T.matmul).__doc__ == T.matmul.__doc__
    # The classes describe themselves.
    for kind in (type(T.matmul), tc.Executor):
        assert kind.__doc__.startswith("One definition")
        assert "definition" in str(inspect.signature(kind)) or "source" in str(
            inspect.signature(kind)
        )
