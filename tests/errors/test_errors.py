"""What calls refuse, and in which words. A failed call changes nothing and spoils nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch

import tensor_comprehensions as tc


def test_exceptions() -> None:
    for kind in (tc.LanguageError, tc.ShapeError, tc.CompilationError, tc.CacheError):
        assert issubclass(kind, tc.TCError)
    assert issubclass(tc.TCError, RuntimeError)
    assert issubclass(tc.ShapeError, ValueError)


# ---- arguments

MATMUL = "def matmul(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
MIXED = """
def scale(float a, int k, bool flip, float(N) A) -> (C) {
  C(i) = (flip ? -a : a) * A(i) + k
}
def small(uint8 u, int8 s, int(N) A) -> (C) { C(i) = A(i) + int32(u) + int32(s) }
def fixed(float(4, N) A) -> (C) { C(i, j) = A(i, j) * 2 }
def padded(float(N) A) -> (C) { C(i) = A(i + 3) where i in 0:5 }
def shorter(float(N) A, float(K) W) -> (C) { C(i) +=! A(i + k) * W(k) }
def pair(float(N) A) -> (C, D) { C(i) = A(i) + 1  D(i) = A(i) + 2 }
def strided(int s, float(N) A) -> (C) { C(i) = A(s * i) }
"""
matmul = tc.define(MATMUL, namespace="tc_errors").matmul
T = tc.define(MIXED, namespace="tc_errors")
OPS = torch.ops.tc_errors


def a() -> torch.Tensor:
    return torch.ones(3, 4)


def b() -> torch.Tensor:
    return torch.ones(4, 5)


def v(n: int = 6) -> torch.Tensor:
    return torch.ones(n)


# Definition, arguments, words of the message. All through T.f and all but the last ones through
# torch.ops, where PyTorch itself refuses what is no tensor.
WRONG: list[tuple[str, Callable[[], tuple], str]] = [
    (
        "matmul",
        lambda: (v(), b()),
        "argument A: expected 2 dimensions (M, K) but got 1, sizes (6,)",
    ),
    (
        "matmul",
        lambda: (a(), torch.ones(7, 5)),
        "Mismatched sizes for dimension 0 of argument B: K is 4 (dimension 1 of A) but found 7",
    ),
    (
        "matmul",
        lambda: (a().double(), b()),
        "argument A: expected dtype float32 but got float64; convert it, or change its type",
    ),
    (
        "matmul",
        lambda: (a(), b().to(torch.complex64)),
        "argument B: expected dtype float32 but got complex64",
    ),
    ("matmul", lambda: (a(), b().half()), "argument B: expected dtype float32 but got float16"),
    (
        "matmul",
        lambda: (a().to_sparse(), b()),
        "argument A: expected a strided tensor but got layout torch.sparse_coo; call to_dense()",
    ),
    ("matmul", lambda: (a(), b().to_sparse_csr()), "argument B: expected a strided tensor but got"),
    (
        "matmul",
        lambda: (torch.ones(1, 4).expand(2**31, 4), b()),
        "argument A: dimension 0 is 2147483648, but indices have 32 bits and sizes end at "
        "2147483647; pass smaller pieces",
    ),
    ("matmul", lambda: (a().to("meta"), b()), "device"),
    ("matmul", lambda: (a(), b().to("meta")), "device"),
    (
        "fixed",
        lambda: (torch.ones(5, 2),),
        "argument A: Constant dimension expected size 4 for dimension 0 but found 5",
    ),
    ("padded", lambda: (v(7),), "padded: "),
    ("shorter", lambda: (v(3), v(6)), "would have size -2 for these inputs"),
]
NOT_TENSORS: list[tuple[str, Callable[[], tuple], str]] = [
    ("matmul", lambda: (a(),), "matmul expected 2 inputs but found 1"),
    ("matmul", lambda: (), "matmul expected 2 inputs but found 0"),
    ("matmul", lambda: (a(), b(), a()), "matmul expected 2 inputs but found 3"),
    ("matmul", lambda: ([[1.0]], b()), "argument A: expected a tensor but got list"),
    ("matmul", lambda: (a(), None), "argument B: expected a tensor but got NoneType"),
    ("matmul", lambda: ("A", b()), "argument A: expected a tensor but got str"),
    ("matmul", lambda: (np.ones((3, 4), np.float32), b()), "argument A: expected a tensor but got"),
    ("matmul", lambda: (a(), 3.0), "argument B: expected a tensor but got float"),
    ("scale", lambda: ("x", 1, True, v()), "argument a: expected a number or a 0-d tensor but got"),
    ("scale", lambda: (None, 1, True, v()), "argument a: expected a number or a 0-d tensor"),
    ("scale", lambda: (1.0, 1.5, True, v()), "argument k: expected an integer but got 1.5"),
    ("scale", lambda: (v(2), 1, True, v()), "argument a: expected a number or a 0-d tensor"),
    ("scale", lambda: (1.0, 2**31, True, v()), "argument k: expected a number that fits int32"),
    ("scale", lambda: (1.0, -(2**31) - 1, True, v()), "argument k: expected a number that fits"),
    ("scale", lambda: (1.0, 2**70, True, v()), "argument k: expected a number that fits int64"),
    (
        "scale",
        lambda: (1.0, torch.tensor(2**63, dtype=torch.uint64), True, v()),
        "argument k: expected a number that fits int64",
    ),
    ("small", lambda: (256, 0, v().int()), "argument u: expected a number that fits uint8"),
    ("small", lambda: (-1, 0, v().int()), "argument u: expected a number that fits uint8"),
    ("small", lambda: (0, -129, v().int()), "argument s: expected a number that fits int8"),
]


def definition(name: str) -> Callable:
    return matmul if name == "matmul" else getattr(T, name)


def check_still_good() -> None:
    torch.testing.assert_close(matmul(a(), b()), a() @ b())
    assert torch.equal(T.scale(2.0, 1, True, v()), v() * -2 + 1)


@pytest.mark.parametrize("name, arguments, words", WRONG + NOT_TENSORS)
def test_wrong_arguments(name: str, arguments: Callable[[], tuple], words: str) -> None:
    with pytest.raises(tc.ShapeError) as error:
        definition(name)(*arguments())
    assert words in str(error.value)
    assert isinstance(error.value, ValueError)
    check_still_good()


@pytest.mark.parametrize("name, arguments, words", WRONG)
def test_wrong_arguments_through_torch_ops(
    name: str, arguments: Callable[[], tuple], words: str
) -> None:
    with pytest.raises(tc.ShapeError) as error:
        getattr(OPS, name)(*arguments())
    assert words in str(error.value)
    check_still_good()


@pytest.mark.parametrize("name, arguments, words", NOT_TENSORS)
def test_values_that_are_no_tensors_through_torch_ops(
    name: str, arguments: Callable[[], tuple], words: str
) -> None:
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        getattr(OPS, name)(*arguments())
    check_still_good()


@pytest.mark.parametrize("name, arguments, words", WRONG[:6])
def test_wrong_arguments_given_outputs(
    name: str, arguments: Callable[[], tuple], words: str
) -> None:
    out = torch.full((3, 5), 7.0)
    with pytest.raises(tc.ShapeError) as error:
        definition(name)(*arguments(), outputs=(out,))
    assert words in str(error.value)
    assert (out == 7).all() and out._version == 0


def test_floating_point_tensors_for_integers() -> None:
    """PyTorch alone would truncate them."""
    for arguments in ((1.0, torch.tensor(1.5), True), (1.0, 1, torch.tensor(0.5))):
        with pytest.raises(tc.ShapeError, match="expected an integer"):
            T.scale(*arguments, v())
        with pytest.raises(tc.ShapeError, match="expected an integer"):
            T.scale(*arguments, v(), outputs=(v(),))


def test_values_of_scalars() -> None:
    for a0, k, flip in itertools.product(
        (2, 2.5, torch.tensor(2.5), torch.tensor(2), np.float32(2.5), np.float64(2.5)),
        (3, torch.tensor(3), torch.tensor(3, dtype=torch.int8), np.int64(3), True),
        (True, False, torch.tensor(True)),
    ):
        wanted = (-float(a0) if flip else float(a0)) * v() + int(k)
        assert torch.equal(T.scale(a0, k, flip, v()), wanted), (a0, k, flip)
    limits = v().int() + 255 - 128
    assert torch.equal(T.small(255, -128, v().int()), limits)


def test_a_specialised_scalar_without_a_good_value() -> None:
    assert torch.equal(T.strided(2, torch.arange(6.0)), torch.tensor([0.0, 2, 4]))
    for value in (2.5, None, "2", 2**40):
        with pytest.raises(tc.ShapeError, match="argument s"):
            T.strided(value, v())
    with pytest.raises(tc.TCError):
        T.strided(0, v())


def test_scalars_that_no_index_can_hold() -> None:
    text = "def first({} s, float(N) A) -> (B) {{ B(i) = A(i) where i in 0:s }}"
    for kind, value in (
        ("int64", 2**32 + 2),
        ("int64", -(2**31) - 1),
        ("uint32", 2**32 - 1),
        ("uint64", 2**63 - 1),
    ):
        first = tc.define(text.format(kind), namespace=f"tc_errors_{kind}").first
        assert first(2, v()).shape == (2,)
        words = (
            f"argument s: a range or subscript depends on it, so it must fit int32, but got {value}"
        )
        with pytest.raises(tc.ShapeError, match=words):
            first(value, v())


def test_sizes_beyond_32_bits() -> None:
    t = tc.define(
        "def f(float(N) A) -> (B) { B(i) = A(0) where i in 0:N * 1000000 * 1000000 }",
        namespace="tc_errors",
    )
    with pytest.raises(tc.ShapeError, match="dimension 0 of B does not fit 32 bits"):
        t.f(v())


def test_ranges_beyond_32_bits() -> None:
    t = tc.define(
        "def wide(float(N) A) -> (S) { S +=! A(0) where i in 0:N * 1000000 * 1000000 }",
        namespace="tc_errors",
    )
    words = (
        "wide: the range of index i does not fit 32 bits for these inputs; pass smaller ones, or "
        "give the index a smaller range in a where clause"
    )
    with pytest.raises(tc.ShapeError, match=words):
        t.wide(v())


def test_kernels_are_for_the_layouts_they_were_compiled_for() -> None:
    executor = tc.compile(MATMUL, "matmul", None, a(), b())
    torch.testing.assert_close(executor(a(), b()), a() @ b())
    for other in (torch.ones(5, 4).t(), torch.ones(4, 6)):
        with pytest.raises(tc.ShapeError, match=r"argument B: matmul was compiled for sizes, stri"):
            executor(a(), other)


def test_declared_sizes_must_agree_with_the_ranges() -> None:
    t = tc.define(
        """
def constant(float(N) A) -> (float(7) B) { B(i) = A(i) }
def named(float(N) A, float(M) X) -> (float(M) B) { B(i) = A(i) }
def own(float(N) A, float(M) X) -> (float(P) B, double(P) C) { B(i) = A(i) C(i) = X(i) }
def unread(float(N) A) -> (float(N, 3) B) { B(i, j) = A(0) }
""",
        namespace="tc_errors",
    )
    assert t.constant(v(7)).shape == (7,)
    with pytest.raises(
        tc.ShapeError,
        match="constant: dimension 0 of B is declared as 7 but its index takes 4 values for these",
    ):
        t.constant(v(4))
    assert t.named(v(3), v(3)).shape == (3,)
    with pytest.raises(tc.ShapeError, match="dimension 0 of B is declared as M = 3 but its index "):
        t.named(v(4), v(3))
    b, c = t.own(v(5), v(5))
    assert b.shape == c.shape == (5,) and c.dtype == torch.double
    with pytest.raises(tc.ShapeError, match="dimension 0 of C is declared as P = 5 but its index "):
        t.own(v(5), v(4))
    assert t.unread(v(2)).shape == (2, 3)


def test_reads_that_leave_their_tensor() -> None:
    with pytest.raises(tc.ShapeError, match=r"padded: .*A"):
        T.padded(v(7))
    assert T.padded(v(8)).shape == (5,)


# ---- outputs


def test_wrong_outputs() -> None:
    storage = torch.full((64,), 7.0)
    good = storage[:15].view(3, 5)
    x = a()
    wide = torch.ones(30)
    cases = [
        ((), "matmul expected 1 output but found 0"),
        ((good, good), "matmul expected 1 output but found 2"),
        ((storage[:10].view(2, 5),), "output C: expected sizes (3, 5) but got (2, 5)"),
        ((storage[:15],), "output C: expected sizes (3, 5) but got (15,)"),
        ((good.int(),), "output C: expected dtype float32 but got int32"),
        ((storage[:1].expand(3, 5),), "output C: several of its elements share one place"),
        ((storage.as_strided((3, 5), (2, 1)),), "output C: several of its elements share"),
        ((good.to("meta"),), "output C"),
        ((good.to_sparse(),), "output C: expected a strided tensor"),
        ((None,), "output C: expected a tensor but got NoneType"),
        (([1.0],), "output C: expected a tensor but got list"),
        (good.numpy(), "matmul expected 1 output but found 3"),
        (7.0, "outputs: expected a tensor or a sequence of them but got float"),
    ]
    for outputs, words in cases:
        with pytest.raises(tc.ShapeError) as error:
            matmul(x, b(), outputs=outputs)
        assert words in str(error.value)
        assert (storage == 7).all() and storage._version == 0, words
    overlapping = wide[:12].view(3, 4)
    with pytest.raises(tc.ShapeError, match="output C overlaps input A in memory"):
        matmul(overlapping, b(), outputs=(wide[11:26].view(3, 5),))
    assert (wide == 1).all()
    with pytest.raises(tc.ShapeError, match="output D overlaps output C in memory"):
        T.pair(v(), outputs=(storage[:6], storage[5:11]))
    assert (storage == 7).all()
    check_still_good()
    matmul(x, b(), outputs=(good,))
    assert torch.equal(good, x @ b()) and (storage[15:] == 7).all()


def test_outputs_that_need_gradients() -> None:
    leaf = torch.full((3, 5), 7.0, requires_grad=True)
    with pytest.raises(tc.TCError, match="output C requires gradients"):
        matmul(a(), b(), outputs=(leaf,))
    with pytest.raises(tc.TCError, match="argument A requires gradients"):
        matmul(a().requires_grad_(), b(), outputs=(leaf.detach(),))
    assert (leaf == 7).all()
    with torch.no_grad():
        matmul(a(), b(), outputs=(leaf,))
    assert (leaf == 4).all()


def test_outputs_through_torch_ops() -> None:
    out = torch.full((3, 4), 7.0)
    with pytest.raises(tc.ShapeError, match=r"output C: expected sizes \(3, 5\)"):
        OPS.matmul.out(a(), b(), C=out)
    x = a()
    with pytest.raises(tc.ShapeError, match="output C overlaps input A"):
        OPS.fixed.out(x.t(), C=x.t())
    with pytest.raises(tc.TCError, match="requires gradients"):
        OPS.matmul.out(a(), b(), C=torch.ones(3, 5, requires_grad=True))
    assert (out == 7).all() and (x == 1).all()


# ---- define


@pytest.mark.parametrize(
    "options, kind, words",
    [
        ("nonsense", tc.TCError, "unknown preset 'nonsense'"),
        (3, TypeError, "options must be None, a preset name, MappingOptions or a factory, not int"),
        ({"tile": 3}, TypeError, "options must be"),
    ],
)
def test_bad_options(options: object, kind: type, words: str) -> None:
    with pytest.raises(kind) as error:
        tc.define(MATMUL, options, namespace="tc_errors_options")
    assert words in str(error.value)
    with pytest.raises(kind):
        tc.compile(MATMUL, "matmul", options, a(), b())
    assert not hasattr(torch.ops.tc_errors_options, "matmul")


def test_options_that_no_call_takes() -> None:
    with pytest.raises(TypeError, match="a factory of options is for define; call it"):
        tc.compile(MATMUL, "matmul", tc.make_naive_options_factory(), a(), b())
    with pytest.raises(TypeError, match="the name of a preset was expected, not NoneType"):
        tc.MappingOptions(None)  # type: ignore[arg-type]


def test_bad_factories() -> None:
    def fails(*_: object) -> tc.MappingOptions:
        raise KeyError("the factory's own")

    for factory, kind, words in [
        (lambda *_: None, tc.TCError, "the options factory returned None for matmul"),
        (lambda *_: 3, tc.TCError, "returned 3 for matmul"),
        (lambda *_: "nonsense", tc.TCError, "unknown preset"),
        (fails, KeyError, "the factory's own"),
        (lambda: "naive", TypeError, "positional argument"),
    ]:
        t = tc.define(MATMUL, factory, namespace="tc_errors_factories")
        for call in (t.matmul, lambda *x, t=t: t("matmul", *x)):
            with pytest.raises(kind) as error:
                call(a(), b())
            assert words in str(error.value)
    check_still_good()


def test_a_factory_that_fails_once() -> None:
    answers = iter([None, "naive"])
    t = tc.define(MATMUL, lambda *_: next(answers), namespace="tc_errors_factories")
    with pytest.raises(tc.TCError):
        t.matmul(a(), b())
    torch.testing.assert_close(t.matmul(a(), b()), a() @ b())


@pytest.mark.parametrize("namespace", ["", "a b", "1a", "a.b", "a::b", "ä", None, 3])
def test_bad_namespaces(namespace: object) -> None:
    with pytest.raises(tc.TCError, match="is no identifier"):
        tc.define(MATMUL, namespace=namespace)


def test_bad_texts() -> None:
    for text in (None, b"def", 3, ["def"]):
        with pytest.raises(TypeError, match="a text was expected"):
            tc.define(text)


def test_undefined_functions() -> None:
    words = "attempting to access undefined function nothing; the text defines: scale, small"
    with pytest.raises(AttributeError, match=words):
        T.nothing  # noqa: B018
    with pytest.raises(tc.TCError, match=words):
        T("nothing", v())
    with pytest.raises(tc.TCError, match=words):
        tc.compile(MIXED, "nothing", None, v())
    words = (
        r"expected the name of a definition but got Tensor: call T\.scale\(\.\.\.\) or T\.small\("
    )
    with pytest.raises(tc.TCError, match=words):
        T(v())


def test_names_that_others_took() -> None:
    with pytest.raises(tc.TCError, match=r"torch\.ops\.aten\.relu exists already"):
        tc.define("def relu(float(N) A) -> (B) { B(i) = A(i) }", namespace="aten")


@pytest.mark.parametrize("target", ["gpu", "cuda:", "cuda:90", "cuda:sm_", "cuda:sm_x"])
def test_bad_targets(target: str) -> None:
    with pytest.raises(tc.TCError) as error:
        tc.compile(MATMUL, "matmul", None, a(), b(), target=target)
    assert "target" in str(error.value) or "sm_" in str(error.value)
    assert "internal" not in str(error.value)


def test_devices_of_torch_as_targets() -> None:
    executor = tc.compile(MATMUL, "matmul", None, a(), b(), target=torch.device("cpu"))
    assert torch.equal(executor(a(), b()), a() @ b())
    with pytest.raises(tc.TCError, match="unknown target 'meta'"):
        matmul.compile(a(), b(), target=torch.device("meta"))


def test_a_target_elsewhere() -> None:
    with pytest.raises(tc.ShapeError, match="the inputs are on the CPU"):
        tc.compile(MATMUL, "matmul", None, a(), b(), target="cuda")


def test_errors_in_the_middle_of_nothing() -> None:
    """Errors of one thread or definition do not appear in another's."""
    with pytest.raises(tc.LanguageError) as first:
        tc.define("def")
    with pytest.raises(tc.ShapeError) as second:
        matmul(a(), torch.ones(7, 5))
    assert "def" not in str(second.value)
    assert first.value.line == 1


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_results_beyond_32_bits(device: str) -> None:
    text = "def huge(float(N) A) -> (B) { B(i) max=! A(0) where i in -2147483648:N }"
    huge = tc.define(text, namespace="tc_errors").huge
    with pytest.raises(tc.ShapeError, match="does not fit 32 bits"):
        huge(torch.ones(3, device=device))


def test_a_launch_that_fails_counts_as_a_change_of_its_results() -> None:
    """It may have written a part of them, which a saved one must not hide."""
    text = "def rows(float(V,D) T, int32(B) I) -> (J, O) { J(b) = I(b) + 0  O(b,d) = T(J(b),d) }"
    t = tc.define(text, namespace="tc_partly_written")
    table, out = torch.randn(9, 4), torch.zeros(3, 4)
    index, held = torch.tensor([0, 99, 1], dtype=torch.int32), torch.zeros(3, dtype=torch.int32)
    weight = torch.ones(3, 4, requires_grad=True)
    loss = (weight * out).sum()
    with pytest.raises(tc.ShapeError, match="index 99"):
        t.rows(table, index, outputs=(held, out))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
