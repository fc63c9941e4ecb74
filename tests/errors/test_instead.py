"""What messages say to write for words of other languages is right, and what is called is there."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import tensor_comprehensions as tc

HEAD = "def f(float(N) A, float(N) C) -> (O) { O(i) = "


def hint(expression: str) -> str:
    """What the message says to write."""
    with pytest.raises(tc.LanguageError, match="undefined variable") as error:
        tc.define(f"{HEAD}{expression} }}")
    assert error.value.column == len(HEAD) + 1
    return str(error.value).splitlines()[0]


def written(expression: str, **arguments: str) -> str:
    found = re.search(r"; write (.*?)(?:\. The library|, or |$)", hint(expression))
    assert found, expression
    return re.sub(r"\b([a-z]\w*)\b", lambda word: arguments.get(word[1], word[1]), found[1])


FUNCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "relu": lambda x, y: F.relu(x),
    "relu6": lambda x, y: F.relu6(x),
    "ReLU": lambda x, y: F.relu(x),
    "leaky_relu": lambda x, y: F.leaky_relu(x, 0.25),
    "elu": lambda x, y: F.elu(x, 0.5),
    "gelu": lambda x, y: F.gelu(x),
    "sigmoid": lambda x, y: torch.sigmoid(x),
    "logistic": lambda x, y: torch.sigmoid(x),
    "silu": lambda x, y: F.silu(x),
    "softplus": lambda x, y: F.softplus(x),
    "hardtanh": lambda x, y: F.hardtanh(x),
    "clamp": lambda x, y: x.clamp(-0.5, 0.5),
    "clip": lambda x, y: x.clamp(-0.5, 0.5),
    "minimum": torch.minimum,
    "maximum": torch.maximum,
    "square": lambda x, y: x.square(),
    "sign": lambda x, y: x.sign(),
    "reciprocal": lambda x, y: 1 / x,
    "power": lambda x, y: x.abs() ** y,
    "ln": lambda x, y: x.abs().log(),
    "mod": torch.fmod,
    "where": lambda x, y: torch.where(x > y, x, y),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    x = "fabs(A(i))" if name in ("power", "ln") else "A(i)"
    expression = written(
        f"{name}(A(i))",
        x=x,
        y="C(i)",
        slope="0.25",
        alpha="0.5",
        low="-0.5",
        high="0.5",
        condition="A(i) > C(i)",
    )
    a, c = torch.randn(200) * 3, torch.randn(200)
    found = tc.define(f"{HEAD}{expression} }}", namespace=f"tc_instead_{name}").f(a, c)
    torch.testing.assert_close(found, FUNCTIONS[name](a, c).to(found.dtype))


CONSTANTS = {
    "inf": torch.inf,
    "Inf": torch.inf,
    "INFINITY": torch.inf,
    "infinity": torch.inf,
    "nan": torch.nan,
    "NAN": torch.nan,
    "FLT_MAX": torch.finfo(torch.float32).max,
    "FLT_MIN": torch.finfo(torch.float32).tiny,
    "FLT_EPSILON": torch.finfo(torch.float32).eps,
    "pi": torch.pi,
    "M_PI": torch.pi,
    "M_E": torch.e,
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants(name: str) -> None:
    text = f"{HEAD}A(i) > C(i) ? A(i) : {written(name)} }}"
    zeros = torch.zeros(3)
    found = tc.define(text, namespace=f"tc_instead_{name}").f(zeros, zeros)
    assert torch.equal(found.nan_to_num(5), torch.full((3,), CONSTANTS[name]).nan_to_num(5))


@pytest.mark.parametrize(
    ("name", "dtype", "value"),
    [
        ("DBL_MAX", "double", torch.finfo(torch.float64).max),
        ("DBL_MIN", "double", torch.finfo(torch.float64).tiny),
        ("DBL_EPSILON", "double", torch.finfo(torch.float64).eps),
        ("INT_MAX", "int32", 2**31 - 1),
        ("INT_MIN", "int32", -(2**31)),
        ("True", "bool", True),
        ("False", "bool", False),
    ],
)
def test_constants_of_other_types(name: str, dtype: str, value: float) -> None:
    text = f"def f({dtype}(N) A) -> ({dtype}(N) O) {{ O(i) = i < 0 ? A(i) : {written(name)} }}"
    found = tc.define(text, namespace=f"tc_instead_{name}").f(
        torch.zeros(2, dtype=getattr(torch, {"double": "float64"}.get(dtype, dtype)))
    )
    assert found.tolist() == [value, value]


STATEMENTS = {
    "sum": "S(i) +=! A(i, k)",
    "argmax": "S(i) argmax=! A(i, k)",
    "mean": "a mean is a sum over its size",
    "norm": "sqrt(S(i))",
    "matmul": "C(i, j) +=! A(i, k) * B(k, j)",
    "cumsum": "S(i) +=! j <= i ? A(j) : 0 where i in 0:N",
    "softmax": "it takes several statements",
    "log_softmax": "it takes several statements",
    "logsumexp": "it takes several statements",
    "layer_norm": "it takes several statements",
    "batch_norm": "it takes several statements",
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_what_takes_statements(name: str) -> None:
    assert STATEMENTS[name] in hint(f"{name}(A(i))")


def test_definitions_of_the_library_are_there() -> None:
    named = set()
    for name in (*FUNCTIONS, *STATEMENTS):
        named |= set(
            re.findall(r'tensor_comprehensions\.ops\.load\("(\w+)"\)', hint(f"{name}(A(i))"))
        )
    assert len(named) > 12
    for name in named:
        assert name in tc.ops.definitions()


def test_names_that_are_close_are_still_suggested() -> None:
    assert "did you mean exp?" in hint("epx(A(i))")
    assert "write" not in hint("frobnicate(A(i))")
    # Where such a name is the user's, it is that.
    t = tc.define(
        "def f(float(N) inf, float pi) -> (O) { O(i) = inf(i) * pi }", namespace="tc_inst"
    )
    assert torch.equal(t.f(torch.ones(2), 2.0), torch.full((2,), 2.0))


#: What other languages write between the braces, the words that say what to write here, and where
#: the caret begins.
WRITTEN = [
    ("O(i) = I(i) >> 1", "x >> 2 is x / 4", ">> 1", 1),
    ("O(i) = I(i) << 1", "x << 2 is x * 4", "<< 1", 1),
    ("O(i) = I(i) & 7", "x & 7 is x % 8", "& 7", 0),
    ("O(i) = I(i) | 7", "no operations on the bits of integers", "| 7", 0),
    ("O(i) = ~I(i)", "~x is -x - 1", "~", 0),
    ("O(i) = P(i) and P(0)", "'and' is no operator; write &&", "and", 0),
    ("O(i) = not P(i)", "'not' is no operator; write !", "not", 0),
    ("O(i) = A(i) is None", "'is' is no operator; write ==", "is", 0),
    ("O(i) = if P(i) then 1 else 2", "a choice is an expression", "if", 0),
    ("O(i) = A(i) if P(i) else 0", "a choice is an expression", "if", 0),
    ("O(i) = lambda x: x", "name a value in a where clause", "lambda", 0),
    ("O(i) = !A(i)", "write (A(i) != 0) if that is meant", "A(i)", 0),
    ("O(i) = None", "0.0 / 0.0 for what is missing, which isnan finds", "None", 0),
    ("O(i) = log_sum_exp(A(i))", 'ops.load("logsumexp")', "log_sum_exp", 0),
    ("O(i) = softmax(A)", 'ops.load("softmax")', "softmax", 0),
    ("O = relu(A)", "write x > 0 ? x : 0", "relu", 0),
    ("O(i) = exp(A)", "A has 1; write A(i)", "A)", 0),
    ("O(i) = A.t", "a transpose exchanges subscripts: X(j, i)", "t }", 0),
    ("O(i) = A.shape(0)", "write X.0 for the size", "shape", 0),
    ("O(i) = A.sum()", "S(i) +=! A(i, k)", "sum", 0),
    ("O(i) = A(i).exp()", "functions stand before what they are applied to", ".exp", 0),
    ("O(i) = X(i, :)", "all elements are those of an index", ":", 0),
    ("O(i) mean=! X(i, j)", "M(i) = S(i) / K", "mean", 0),
    ("O(i) prod=! X(i, j)", "S(i) *=! A(i, k)", "prod", 0),
    ("O(i) any=! P(j)", "S(i) ||=! A(i, k)", "any", 0),
    ("O(i) -= A(i)", "O(i) += -A(i)", "-=", 0),
    ("O(i) /= A(i)", "O(i) *= 1 / A(i)", "/=", 0),
    ("O(i) := A(i)", "an assignment is written as =", ":=", 0),
    ("return A", "results are named in the signature", "return", 0),
    ("let s = A(0)", "an assignment has no word before it: s = A(0)", "let", 0),
    ("float s = A(0)", "types stand in the signature", "s =", 0),
    ("O(i) +=! A(j) where j < i", "O(i) +=! j < i ? A(j) : 0 where i in 0:N", "< i", 0),
    ("O(i) +=! A(j) where 0 <= j", "a condition stands in the value", "0 <=", 0),
    ("O(i) = A(i) where i in 0..N", "as in i in 0:N", ".N", 0),
]
SIGNATURE = "def f(float(N) A, float(N, M) X, int32(N) I, bool(N) P) -> (O) { "


@pytest.mark.parametrize("body, words, at, ahead", WRITTEN)
def test_what_other_languages_write(body: str, words: str, at: str, ahead: int) -> None:
    with pytest.raises(tc.LanguageError) as error:
        tc.define(f"{SIGNATURE}{body} }}")
    assert words in str(error.value).splitlines()[0]
    assert error.value.column == len(SIGNATURE) + f"{body} }}".index(at) + ahead + 1


INSTEAD = [
    ("O(i) = I(i) / 4", lambda a, x, i, p: i >> 2),
    ("O(i) = I(i) % 8", lambda a, x, i, p: i & 7),
    ("O(i) = I(i) * 4", lambda a, x, i, p: i << 2),
    ("O(i) = -I(i) - 1", lambda a, x, i, p: ~i),
    ("O(i) = !(A(i) != 0)", lambda a, x, i, p: ~a.bool()),
    ("O(i) +=! j < i ? A(j) : 0 where i in 0:N", lambda a, x, i, p: a.cumsum(0) - a),
    ("O(i) ||=! X(i, k) > 0", lambda a, x, i, p: (x > 0).any(1)),
    ("S(i) +=! X(i, k) O(i) = S(i) / X.1", lambda a, x, i, p: x.mean(1)),
]


@pytest.mark.parametrize("body, wanted", INSTEAD)
def test_what_is_written_instead(body: str, wanted: Callable[..., torch.Tensor]) -> None:
    inputs = torch.randn(9), torch.randn(9, 4), torch.randint(0, 99, (9,)).int(), torch.ones(9) > 0
    f = tc.define(f"{SIGNATURE}{body} }}", namespace="tc_instead_written").f
    torch.testing.assert_close(f(*inputs), wanted(*inputs))


def test_an_index_of_python_from_the_end() -> None:
    f = tc.define("def f(float(N, M) X) -> (O) { O(i) = X(i, -1) }", namespace="tc_negative").f
    with pytest.raises(tc.TCError, match="indices count from 0, and the last one is 3; pass"):
        f(torch.ones(2, 4))


@pytest.mark.parametrize("name", ["y0", "y1", "j0", "j1", "jn", "exp"])
def test_names_of_functions_are_reserved(name: str) -> None:
    words = f"'{name}' is a built-in function and cannot be redefined"
    with pytest.raises(tc.LanguageError, match=words) as error:
        tc.define(f"def f(float(N) {name}) -> (O) {{ O(i) = {name}(i) }}")
    assert ("Bessel" in str(error.value)) == (name != "exp")
    assert f"such as {name}_in" in str(error.value)


def test_names_of_functions_that_values_have() -> None:
    """Nobody applies a let, a scalar or an index."""
    text = """def f(float(N) x, float y1) -> (O) {
        O(i) = y0 * y0 + y1 * j1 + y0 where y0 = x(i) + j0(x(i)), j1 = exp(x(i))
    }
    def g(float(N) x, float s) -> (R) { R = f(x, s) }"""
    module = tc.define(text, namespace="tc_names_of_values")
    x = torch.linspace(0, 2, 7, requires_grad=True)
    y0 = x + torch.special.bessel_j0(x)
    wanted = y0 * y0 + 3.0 * x.exp() + y0
    for called in (module.f, module.g):
        found = tc.make_autograd(called)(x, 3.0)
        torch.testing.assert_close(found, wanted)
    (gradient,) = torch.autograd.grad(found.sum(), x)
    slope = 1 - torch.special.bessel_j1(x)
    torch.testing.assert_close(gradient, (2 * y0 + 1) * slope + 3.0 * x.exp())


@pytest.mark.parametrize("name", ["y0_in", "y_0", "gamma", "div", "beta", "mod", "sum", "lambda"])
def test_names_that_are_free(name: str) -> None:
    text = f"def f(float(N) {name}) -> (O) {{ O(i) = {name}(i) }}"
    f = tc.define(text, namespace=f"tc_free_{name}").f
    assert torch.equal(f(torch.ones(3)), torch.ones(3))
