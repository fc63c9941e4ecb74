"""Texts as operators: names, options, results, outputs, executors."""

from __future__ import annotations

import keyword
import logging
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

import tensor_comprehensions as tc
from tensor_comprehensions import _libraries, _torch

ADD = "def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }"
MATMUL = "def matmul(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
SGEMM = """
def sgemm(float a, float b, float(N, M) A, float(M, K) B) -> (C) {
  C(i, j) = b * C(i, j)
  C(i, j) += a * A(i, k) * B(k, j)
}
"""


def test_the_same_text_is_the_same_operator() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = (tc.define(ADD, namespace="tc_define") for _ in range(2))
        # Blanks and comments are no difference.
        third = tc.define("# a comment\n" + ADD.replace(" + ", "\n  +  "), namespace="tc_define")
    assert first.add is second.add and first.add is third.add
    a, b = torch.randn(5), torch.randn(5)
    assert torch.equal(first.add(a, b), a + b)
    assert torch.equal(torch.ops.tc_define.add(a, b), a + b)
    assert torch.equal(first("add", a, b), a + b)


def test_another_text_under_a_taken_name() -> None:
    a, b = torch.randn(5), torch.randn(5)
    first = tc.define(ADD, namespace="tc_taken")
    with pytest.warns(UserWarning, match="namespace="):
        second = tc.define(ADD.replace("+", "-"), namespace="tc_taken")
    assert torch.equal(first.add(a, b), a + b)
    assert torch.equal(second.add(a, b), a - b)
    assert torch.equal(torch.ops.tc_taken.add(a, b), a + b)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        third = tc.define(ADD.replace("+", "-"), namespace="tc_taken_other")
    assert torch.equal(third.add(a, b), a - b)
    assert torch.equal(torch.ops.tc_taken_other.add(a, b), a - b)


@pytest.mark.parametrize(
    "options",
    [
        None,
        "naive",
        "identity",
        tc.MappingOptions("mlp"),
        tc.make_naive_options_factory(),
        lambda source, entry_point, *inputs: tc.MappingOptions("pointwise"),
        lambda *_: "naive",
    ],
)
def test_options(options: object) -> None:
    a, b = torch.randn(9, 13), torch.randn(13, 17)
    t = tc.define(MATMUL, options, namespace="tc_define_options")
    torch.testing.assert_close(t.matmul(a, b), a @ b)


def test_when_a_factory_is_called() -> None:
    asked = []

    def factory(source: str, entry_point: str, *inputs: torch.Tensor) -> tc.MappingOptions:
        asked.append((source, entry_point, [tuple(x.shape) for x in inputs]))
        return tc.MappingOptions("naive")

    t = tc.define(MATMUL, factory, namespace="tc_define_factory")
    assert asked == []  # not before a call
    a, b = torch.randn(9, 13), torch.randn(13, 17)
    for _ in range(3):
        t.matmul(a, b)
        t.matmul(a.clone(), b.clone())
        t("matmul", a, b)
    assert asked == [(MATMUL, "matmul", [(9, 13), (13, 17)])]
    t.matmul(a[:8], b)  # other sizes
    t.matmul(a.t().contiguous().t(), b)  # other strides
    assert len(asked) == 3
    t.matmul(a, b)
    assert len(asked) == 3

    # A second define of the same text uses its own factory.
    own = []

    def other(*arguments: object) -> tc.MappingOptions:
        own.append(arguments)
        return tc.MappingOptions("identity")

    u = tc.define(MATMUL, other, namespace="tc_define_factory")
    torch.testing.assert_close(u.matmul(a, b), a @ b)
    assert len(own) == 1 and len(asked) == 3


def test_a_factory_sees_scalars_as_numbers() -> None:
    seen = []
    t = tc.define(
        "def f(float a, int k, float(N) A) -> (C) { C(i) = a * A(i) + k }",
        lambda source, entry, *inputs: seen.append(inputs) or "naive",
        namespace="tc_define_factory",
    )
    x = torch.randn(4)
    torch.testing.assert_close(t.f(2.5, 3, x), 2.5 * x + 3)
    assert seen[0][:2] == (2.5, 3) and torch.equal(seen[0][2], x)


def test_a_factory_may_compile() -> None:
    a, b = torch.randn(4, 5), torch.randn(5, 6)

    def factory(source: str, entry_point: str, *inputs: torch.Tensor) -> tc.MappingOptions:
        tc.compile(source, entry_point, "naive", *inputs)(*inputs)
        return tc.MappingOptions("naive")

    t = tc.define(MATMUL, factory, namespace="tc_define_nested")
    torch.testing.assert_close(t.matmul(a, b), a @ b)
    holder = []
    again = tc.define(MATMUL, lambda *_: holder[0].matmul(a, b), namespace="tc_define_nested")
    holder.append(again)
    with pytest.raises(tc.TCError, match=r"use tc\.compile with options there"):
        again.matmul(a, b)


def test_several_definitions() -> None:
    t = tc.define(ADD + MATMUL + SGEMM, namespace="tc_define_several")
    a = torch.randn(5, 5)
    torch.testing.assert_close(t.matmul(a, a), a @ a)
    assert torch.equal(t.add(a[0], a[1]), a[0] + a[1])
    assert repr(t) == "<TC: add, matmul, sgemm>"
    assert t.matmul.__name__ == "matmul" and "matmul" in t.matmul.__doc__


NAMES = [
    "1LUT",
    "2x",
    "lambda",
    "class",
    "None",
    "self",
    "out",
    "I",
    "__call__",
    "_source",
    "name",
    "call",
    "_operators",
    "Tensor",
    "__init__",
    "__class__",
    "default",
    "_",
    "import",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_definitions(name: str) -> None:
    t = tc.define(
        f"def {name}(float(N) A) -> (C) {{ C(i) = A(i) + 1 }}", namespace="tc_define_names"
    )
    a = torch.randn(5)
    assert torch.equal(t(name, a), a + 1)
    if not name.startswith("_"):
        assert torch.equal(getattr(t, name)(a), a + 1)


@pytest.mark.parametrize(
    "name",
    [
        "in",
        "self",
        "out",
        "I",
        "lambda",
        "1x",
        "Tensor",
        "outputs",
        "unchecked",
        "inputs",
        "__a",
        "where",
        "exists",
        "None",
        "args",
    ],
)
def test_names_of_tensors(name: str) -> None:
    a, b = torch.randn(5), torch.randn(5)
    namespace = "tc_define_tensors"
    text = f"""def f(float(N) {name}, float(N) B) -> (C, D) {{
      C(i) = {name}(i) + B(i)  D(i) = C(i)
    }}"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        c, d = tc.define(text, namespace=namespace).f(a, b)
        assert torch.equal(c, a + b) and torch.equal(d, c)
        text = f"def g(float(N) A) -> ({name}) {{ {name}(i) = A(i) + 1 }}"
        t = tc.define(text, namespace=namespace)
        out = torch.empty(5)
        assert torch.equal(t.g(a), a + 1)
        assert t.g(a, outputs=out) is out and torch.equal(out, a + 1)


def test_words_of_python_are_no_names_of_schemas() -> None:
    for word in keyword.kwlist:
        assert _torch.mangle(word, [], "arg") == f"arg_{word}"


def test_names_that_differ_after_mangling() -> None:
    t = tc.define(
        "def f(float(N) arg_in, float(N) in) -> (out) { out(i) = arg_in(i) - 2 * in(i) }",
        namespace="tc_define_mangled",
    )
    a, b = torch.randn(5), torch.randn(5)
    torch.testing.assert_close(t.f(a, b), a - 2 * b)


def test_results() -> None:
    t = tc.define(
        """def one(float(N) A) -> (S) { S +=! A(i) }
        def two(float(N) A) -> (S, T) { S +=! A(i)  T(i) = A(i) }""",
        namespace="tc_define_results",
    )
    a = torch.randn(7)
    assert isinstance(t.one(a), torch.Tensor) and t.one(a).shape == ()
    results = t.two(a)
    assert isinstance(results, tuple) and len(results) == 2
    assert isinstance(torch.ops.tc_define_results.two(a), tuple)


def test_outputs() -> None:
    t = tc.define(MATMUL, namespace="tc_define")
    a, b, out = torch.randn(4, 5), torch.randn(5, 6), torch.zeros(4, 6)
    for outputs in (out, (out,), [out]):
        out.zero_()
        assert t.matmul(a, b, outputs=outputs) is out
        torch.testing.assert_close(out, a @ b)
    out.zero_()
    t.matmul(a, b, outputs=(out,), unchecked=True)
    t("matmul", a, b, outputs=(out,), unchecked=True)
    torch.testing.assert_close(out, a @ b)


def test_outputs_are_new_versions() -> None:
    t = tc.define(ADD, namespace="tc_define")
    a, b, out = torch.randn(4), torch.randn(4), torch.zeros(4)
    version = out._version
    t.add(a, b, outputs=(out,))
    t.add(a, b, outputs=(out,), unchecked=True)
    torch.ops.tc_define.add.out(a, b, C=out)
    assert out._version == version + 3
    leaf = torch.randn(4, requires_grad=True)
    squares = (leaf * out).sum()  # keeps out for its backward
    t.add(a, b, outputs=(out,))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squares.backward()


def test_accumulation_into_outputs() -> None:
    t = tc.define(SGEMM, namespace="tc_define_sgemm")
    a, b, c = torch.randn(3, 4), torch.randn(4, 5), torch.randn(3, 5)
    wanted = 0.5 * (a @ b) + 2 * c
    start = c.clone()
    # The operator is functional: the initial contents are an argument more.
    torch.testing.assert_close(torch.ops.tc_define_sgemm.sgemm(0.5, 2.0, a, b, start), wanted)
    assert torch.equal(start, c)
    t.sgemm(0.5, 2.0, a, b, outputs=(start,))
    torch.testing.assert_close(start, wanted)
    with pytest.raises(tc.ShapeError, match=r"pass outputs=\(C,\)"):
        t.sgemm(0.5, 2.0, a, b)
    with pytest.raises(tc.ShapeError, match="output C: expected initial contents of sizes"):
        torch.ops.tc_define_sgemm.sgemm(0.5, 2.0, a, b, c[:2])
    executor = tc.compile(SGEMM, "sgemm", None, 0.5, 2.0, a, b)
    start = c.clone()
    executor(0.5, 2.0, a, b, outputs=(start,))
    torch.testing.assert_close(start, wanted)
    with pytest.raises(tc.ShapeError, match="pass outputs="):
        executor(0.5, 2.0, a, b)


def test_the_line_about_compiling(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = ADD.replace("add", "announced")
    t = tc.define(text, namespace="tc_define_log")
    with caplog.at_level(logging.INFO, logger="tensor_comprehensions"):
        t.announced(torch.ones(3), torch.ones(3))
        t.announced(torch.ones(3), torch.ones(3))
        lines = [r.message for r in caplog.records if "explicitly" in r.message]
        assert len(lines) == 1
        assert "announced was not explicitly compiled for inputs of sizes: (3,), (3,)" in lines[0]
        caplog.clear()
        monkeypatch.setattr(tc, "SILENT", True)
        t.announced(torch.ones(4), torch.ones(4))
        assert not [r for r in caplog.records if "explicitly" in r.message]


# ---- executors


def test_executors() -> None:
    a, b = torch.randn(9, 13), torch.randn(13, 17)
    executor = tc.compile(MATMUL, "matmul", "naive", a, b)
    for _ in range(3):
        a, b = torch.randn(9, 13), torch.randn(13, 17)
        out = torch.empty(9, 17)
        torch.testing.assert_close(executor(a, b), a @ b)
        assert executor(a, b, outputs=(out,)) is out
        torch.testing.assert_close(executor.run([a, b]), a @ b)
        torch.testing.assert_close(executor.unchecked_run([a, b], [out]), a @ b)
    assert executor.mapping_options == tc.MappingOptions("naive")
    assert executor.input_names == ["A", "B"] and executor.output_names == ["C"]
    assert executor.input_dtypes == [torch.float32] * 2
    assert 0 < executor.profile(a, b) < 1
    for bad in ((a[:8], b), (a.t().contiguous().t(), b), (a.double(), b)):
        with pytest.raises(tc.ShapeError, match="argument A: matmul was compiled for"):
            executor(*bad)
    with pytest.raises(tc.ShapeError, match="matmul expected 2 inputs but found 1"):
        executor(a)
    with pytest.raises(tc.ShapeError, match="argument B: expected a tensor but got list"):
        executor(a, [[1.0]])
    torch.testing.assert_close(executor(a, b), a @ b)


def test_looking_inside() -> None:
    a, b = torch.randn(9, 13), torch.randn(13, 17)
    executor = tc.compile(MATMUL, "matmul", None, a, b)
    assert "domain" in executor.schedule_tree
    for text in (
        executor.loop_nest,
        executor.assembly,
        executor.text("program"),
        executor.text("stmt"),
        executor.text("options"),
    ):
        assert text.strip()
    assert executor.number("compile_microseconds") > 0
    for what in ("nonsense", "cuda_source"):
        with pytest.raises(tc.TCError) as error:
            executor.text(what)
        assert what in str(error.value) or "CPU" in str(error.value)
    with pytest.raises(tc.TCError):
        executor.number("nonsense")
    with pytest.raises(tc.TCError):
        executor.binary  # noqa: B018


def test_assembly_passes_through_a_temporary_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Nobody has asked for this kernel's before.
    executor = tc.compile(MATMUL, "matmul", None, torch.randn(11, 19), torch.randn(19, 23))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    with pytest.raises(tc.CompilationError, match="set TMPDIR to a directory that can be written"):
        executor.assembly  # noqa: B018
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert "ret" in executor.assembly
    assert not list(tmp_path.iterdir())


def test_a_gpu_that_is_not_here() -> None:
    a, b = torch.randn(9, 13), torch.randn(13, 17)
    executor = tc.compile(MATMUL, "matmul", "naive", a, b, target="cuda:sm_90")
    assert "__global__" in executor.cuda_source
    assert executor.binary[:4] == b"\x7fELF"
    with pytest.raises(tc.TCError, match="compiled for cuda:sm_90 and cannot run"):
        executor(a, b)


# ---- the libraries


def test_halide_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_libraries.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'pip install "halide==21\.\*"'):
        _libraries.load_halide()
    with pytest.raises(ImportError, match="compiled part of tensor_comprehensions is missing"):
        _libraries.check_torch()


def test_another_release_of_torch(tmp_path: Path) -> None:
    binding = Path(tc._libraries.importlib.util.find_spec("tensor_comprehensions._torch").origin)
    _libraries.check_torch(binding)
    with pytest.raises(ImportError, match=r"built with torch 2\.\d+, but torch 1\.4\.0 is"):
        _libraries.check_torch(binding, "1.4.0")


def test_import_without_any_search_path() -> None:
    """libHalide.so is found in its package, wherever ours lies."""
    program = (
        f"import sys; sys.path.insert(0, {str(Path(tc.__file__).parent.parent)!r}); "
        "import tensor_comprehensions as tc; print(tc.__version__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": "/usr/bin"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == tc.__version__
