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
