"""What a prompt and a notebook show of texts, operators, executors and options."""

from __future__ import annotations

import inspect
from html.parser import HTMLParser

import pytest
import torch

import tensor_comprehensions as tc

TEXT = """
def matmul(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }
def clamp(float(N) A, float low) -> (C) { C(i) = A(i) < low && A(i) > -1 ? low : A(i) }
"""
T = tc.define(TEXT, namespace="tc_inside")


class Reader(HTMLParser):
    """The text of a page, and its elements, which have to be closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.elements, self._open = "", [], []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.elements.append(tag)
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_names_of_the_package() -> None:
    names = dir(tc)
    assert set(tc.__all__) <= set(names)
    for name in ("einsum", "einsum_source", "show_config", "define", "__version__"):
        assert name in names
    for name in names:
        getattr(tc, name)  # each is there
    assert {"clamp", "matmul", "differentiable"} <= set(dir(T))


# ---- compile, explain, options


@pytest.mark.parametrize("sizes", [(1, 8), (8, 1), (0, 3), (3, 0), (1, 1)])
def test_executors_take_strides_that_lead_nowhere(sizes: tuple[int, int]) -> None:
    """Of dimensions of one element, and of empty tensors."""
    a, b = torch.randn(sizes), torch.randn(sizes[::-1]).t()
    assert a.stride() != b.stride() or sizes == (1, 1)
    t = tc.define("def twice(float(M, N) A) -> (B) { B(i, j) = 2 * A(i, j) }", namespace="tc_one")
    for compiled, other in ((a, b), (b, a)):
        executor = t.twice.compile(compiled)
        for x in (other, compiled):
            torch.testing.assert_close(executor(x), 2 * x)
            given = torch.empty_like(other)
            executor(x, outputs=given)
            torch.testing.assert_close(given, 2 * x)
    if 8 in sizes:
        wide = torch.randn(sizes[0] * 2, sizes[1] * 2)[::2, ::2]
        with pytest.raises(tc.ShapeError, match="strides"):
            t.twice.compile(a)(wide)


def test_compile_of_a_definition() -> None:
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    t = tc.define(TEXT, "naive", namespace="tc_inside_naive")
    for executor in (t.matmul.compile(a, b), t.matmul.compile(B=b, A=a)):
        assert isinstance(executor, tc.Executor)
        torch.testing.assert_close(executor(a, b), a @ b)
        assert executor.mapping_options == tc.MappingOptions("naive")
    assert T.matmul.compile(a, b, options="mlp").mapping_options == tc.MappingOptions("mlp")
    assert "__global__" in T.matmul.compile(a, b, target="cuda:sm_90").cuda_source
    # A definition that calls another.
    both = tc.define(
        TEXT + "def twice(float(N, N) A) -> (C) { B = matmul(A, A)  C = matmul(B, A) }",
        namespace="tc_inside_calls",
    )
    c = torch.randn(4, 4)
    torch.testing.assert_close(both.twice.compile(c)(c), c @ c @ c)
    with pytest.raises(tc.ShapeError, match="matmul expected 2 inputs but found 1: B is missing"):
        T.matmul.compile(a)
    with pytest.raises(tc.ShapeError, match="Mismatched sizes for dimension 0 of argument B"):
        T.matmul.compile(a, a)


def test_explain_of_a_definition() -> None:
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    said = T.matmul.explain(a, B=b)
    assert said.startswith("matmul on the CPU")
    assert "work" in said and "120 floating-point operations" in said
    assert "matmul on CUDA sm_90" in T.matmul.explain(a, b, target="cuda:sm_90")


def test_options_of_a_definition() -> None:
    assert T.matmul.options == tc.MappingOptions()
    given = tc.MappingOptions("mlp").tile(8, 8)
    t = tc.define(TEXT, given, namespace="tc_inside_given")
    kept = str(given)
    given.tile(4)
    assert str(t.matmul.options) == kept
    t.matmul.options.tile(2)  # of a copy
    assert str(t.matmul.options) == kept
    assert tc.define(TEXT, "naive", namespace="tc_inside_given").clamp.options == (
        tc.MappingOptions("naive")
    )
    asked = []

    def factory(source: str, entry_point: str, *inputs: object) -> str:
        asked.append((source, entry_point, inputs))
        return "naive"

    f = tc.define(TEXT, factory, namespace="tc_inside_given").matmul
    assert f.options is factory and asked == []
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    assert f.compile(a, b).mapping_options == tc.MappingOptions("naive")
    ((source, entry_point, inputs),) = asked
    assert (source, entry_point) == (TEXT, "matmul") and inputs[0] is a and inputs[1] is b


# ---- representations


def test_representations() -> None:
    assert repr(T) == "<TC: matmul, clamp>"
    assert repr(T.matmul) == ("<tensor comprehension matmul(float(M, K) A, float(K, N) B) -> (C)>")
    executor = T.matmul.compile(torch.randn(3, 4), torch.randn(4, 5))
    assert repr(executor) == (
        "<executor of matmul(float(3, 4) A, float(4, 5) B) -> (float(3, 5) C) on cpu>"
    )
    scaled = tc.compile(TEXT, "clamp", None, torch.randn(3), 0.5, target="cuda:sm_80")
    assert (
        repr(scaled) == "<executor of clamp(float(3) A, float low) -> (float(3) C) on cuda:sm_80>"
    )
    assert repr(tc.MappingOptions("mlp")) == 'tc.MappingOptions("mlp")'


def test_representations_in_notebooks() -> None:
    page = Reader(T._repr_html_())
    assert "A(i) < low && A(i) > -1 ? low : A(i)" in page.text and page.elements == ["pre"]
    assert "def matmul" in page.text
    page = Reader(T.clamp._repr_html_())
    assert page.text.startswith("def clamp") and "matmul" not in page.text
    executor = T.clamp.compile(torch.randn(3), 0.5)
    page = Reader(executor._repr_html_())
    assert page.elements == ["code", "pre", "details", "summary", "pre"]
    assert repr(executor) in page.text and executor.explain().strip() in page.text
    assert Reader(tc.MappingOptions("mlp")._repr_html_()).text == 'tc.MappingOptions("mlp")'


def test_representations_of_large_texts() -> None:
    statements = "".join(f"  C{k}(i) = A(i) + {k}\n" for k in range(50))
    results = ", ".join(f"C{k}" for k in range(50))
    definitions = "".join(
        f"def f{k}(float(N) A) -> (C) {{ C(i) = A(i) + {k} }}\n" for k in range(20)
    )
    large = tc.define(
        f"{definitions}def large(float(N) A) -> ({results}) {{\n{statements}}}",
        namespace="tc_inside_large",
    )
    assert repr(large) == "<TC: f0, f1, f2, f3, f4, f5, f6, f7 and 13 more>"
    assert len(repr(large.large)) < 200 and repr(large.large).endswith("...>")
    for value in (large, large.large):
        page = Reader(value._repr_html_())
        assert page.text.count("\n") <= 45 and "more lines" in page.text
    # The signature and the help say everything.
    assert "float(N) C49" in str(inspect.signature(large.large))
    assert "C49(i) = A(i) + 49" in large.large.__doc__
