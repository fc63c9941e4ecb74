"""Library calls: which statements are recognised, that results are right, and when none is made.

`library_rate` of TC_MACHINE tells how fast the library is thought to be, instead of measurements:
so high a rate, beside narrow vectors of our own, has every call made that is worth its overhead.
"""

from __future__ import annotations

import os
import random
import re
import zlib

import pytest
import torch
import torch.nn.functional as F
from convolutions import Convolution
from torch.utils._python_dispatch import TorchDispatchMode
from workloads import convolution_workloads

import tensor_comprehensions as tc

SEEDS = int(os.environ.get("TC_FUZZ_PERCENT", "100"))
ALWAYS = "vector_bits=128,vector_registers=16,library_rate=1000000"
PRODUCT = "def f({t}(M,K) A, {t}(K,N) B) -> (C) {{ C(m,n) +=! A(m,k) * B(k,n) }}"


@pytest.fixture(autouse=True)
def always_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", ALWAYS)


def compiled(text: str, *inputs: torch.Tensor, options: object = None) -> str:
    """What explain() says, columns by one space."""
    made = tc.compile(text, text.split("(")[0].split()[-1], options, *inputs).explain()
    return "\n".join(" ".join(line.split()) for line in made.splitlines())


def call_of(text: str, *inputs: torch.Tensor) -> str:
    """The call that is made, as explain() names it; empty where there is none."""
    calls = [
        line
        for line in compiled(text, *inputs).splitlines()
        if line.startswith("library call: ATen, ")
    ]
    assert len(calls) <= 1
    return calls[0].split("ATen, ")[1] if calls else ""


def run(text: str, *inputs: torch.Tensor) -> torch.Tensor:
    namespace = f"tc_library_{zlib.crc32(text.encode())}"
    return tc.define(text, namespace=namespace)(text.split("(")[0].split()[-1], *inputs)


def large(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Small integers: every order of summation gives the same."""
    return torch.randint(-3, 4, sizes).to(dtype)


# (text, sizes of the operands, the call, the same in PyTorch)
PRODUCTS = {
    "mm": (
        "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
        ((65, 130), (130, 70)),
        "product of matrices 65x130 and 130x70",
        torch.mm,
    ),
    "transposed result": (
        "def f(float(M,K) A, float(N,K) B) -> (C) { C(n,m) +=! A(m,k) * B(n,k) }",
        ((65, 130), (70, 130)),
        # Rows are those of the first factor.
        "product of matrices 65x130 and 130x70",
        lambda a, b: b @ a.t(),
    ),
    "batches": (
        "def f(float(B,M,K) X, float(B,N,K) Y) -> (C) { C(b,m,n) +=! X(b,m,k) * Y(b,n,k) }",
        ((7, 33, 40), (7, 35, 40)),
        "products of 7 pairs of matrices 33x40 and 40x35",
        lambda x, y: x @ y.transpose(1, 2),
    ),
    "indices that merge": (
        "def f(float(I,J,K,L) X, float(K,L,N) Y) -> (C) { C(i,j,n) +=! X(i,j,k,l) * Y(k,l,n) }",
        ((5, 6, 7, 8), (7, 8, 90)),
        "product of matrices 30x56 and 56x90",
        lambda x, y: torch.einsum("ijkl,kln->ijn", x, y),
    ),
    "rows that do not merge are a batch": (
        "def f(float(N,C,H,W) I, float(F,C) K) -> (O) { O(n,f,h,w) +=! I(n,c,h,w) * K(f,c) }",
        ((3, 17, 18, 19), (20, 17)),
        "products of 3 pairs of matrices 342x17 and 17x20",
        lambda i, k: torch.einsum("nchw,fc->nfhw", i, k),
    ),
    "a part of a tensor, with steps": (
        "def f(float(M,L) A, float(K,N) B) -> (C) {"
        " C(m,n) +=! A(m+1,2*k+1) * B(k,n) where m in 0:M-1 }",
        ((31, 82), (40, 150)),
        "product of matrices 30x40 and 40x150",
        lambda a, b: a[1:, 1:81:2] @ b,
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    text, sizes, call, reference = PRODUCTS[name]
    inputs = [large(*s) for s in sizes]
    assert call_of(text, *inputs) == call
    torch.testing.assert_close(run(text, *inputs), reference(*inputs), rtol=0, atol=0)


@pytest.mark.parametrize("layout", ["transposed", "steps", "expanded"])
def test_products_of_views(layout: str) -> None:
    def view(m: int, n: int) -> torch.Tensor:
        if layout == "transposed":
            return large(n, m).t()
        return large(m, 2 * n)[:, ::2] if layout == "steps" else large(1, n).expand(m, n)

    a, b = view(40, 50), view(50, 60)
    text = PRODUCT.format(t="float")
    calls = call_of(text, a, b)
    # An operand that stays where it is along m is no matrix.
    assert (calls == "") == (layout == "expanded")
    torch.testing.assert_close(run(text, a, b), a @ b, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["double", "half", "bfloat16"])
def test_types(name: str) -> None:
    dtype = {"double": torch.double, "half": torch.half, "bfloat16": torch.bfloat16}[name]
    a, b = torch.rand(64, 512).to(dtype), torch.rand(512, 48).to(dtype)
    text = PRODUCT.format(t=name)
    assert call_of(text, a, b) == "product of matrices 64x512 and 512x48"
    # Accumulated in float: one rounding at the end.
    wanted = (a.double() @ b.double()).to(dtype)
    torch.testing.assert_close(run(text, a, b), wanted)


def test_results_that_are_added_to() -> None:
    text = "def f(float(M,K) A, float(K,N) B, float(M,N) D) -> (C) {\n"
    text += "  C(m,n) = 2.0 * D(m,n)\n  C(m,n) += A(m,k) * B(k,n)\n}"
    a, b, d = large(50, 60), large(60, 70), large(50, 70)
    assert call_of(text, a, b, d) == "product of matrices 50x60 and 60x70"
    torch.testing.assert_close(run(text, a, b, d), 2 * d + a @ b, rtol=0, atol=0)


def test_initial_contents_are_added_to() -> None:
    text = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) += A(m,k) * B(k,n) }"
    a, b, c = large(50, 60), large(60, 70), large(50, 70)
    wanted = c + a @ b
    tc.define(text, namespace="tc_library_initial")("f", a, b, outputs=c)
    torch.testing.assert_close(c, wanted, rtol=0, atol=0)


def test_statements_around_calls() -> None:
    """A temporary of the text goes from kernel to call to kernel."""
    text = """def f(float(M,K) X, float(K,H) W1, float(H) B1, float(H,N) W2) -> (O, S) {
      R(m,k) = fmax(X(m,k), 0.0)
      Z(m,h) +=! R(m,k) * W1(k,h)
      A(m,h) = fmax(Z(m,h) + B1(h), 0.0)
      Y(m,n) +=! A(m,h) * W2(h,n)
      O(m,n) = Y(m,n) - X(m,n)
      S(m) +=! O(m,n)
    }"""
    x, w1, b1, w2 = large(60, 70), large(70, 80), large(80), large(80, 70)
    text_of_calls = compiled(text, x, w1, b1, w2)
    assert text_of_calls.count("library call: ") == 2
    out = x.relu().mm(w1).add(b1).relu().mm(w2) - x
    o, s = run(text, x, w1, b1, w2)
    torch.testing.assert_close(o, out, rtol=0, atol=0)
    torch.testing.assert_close(s, out.sum(1), rtol=0, atol=0)


def test_texts_of_kernels_and_calls_follow_each_other() -> None:
    text = "def f(float(M,K) A, float(K,N) B) -> (C) {\n"
    text += "  C(m,n) +=! A(m,k) * B(k,n)\n  C(m,n) = exp(C(m,n))\n}"
    executor = tc.compile(text, "f", None, large(50, 60), large(60, 70))
    for what in (executor.loop_nest, executor.schedule_tree, executor.assembly):
        assert what.startswith("# ATen: product of matrices 50x60 and 60x70\n")
    assert "exp" in executor.loop_nest
    with pytest.raises(tc.TCError, match="this kernel has no text 'cuda_source'"):
        executor.text("cuda_source")


LAYERS = [
    Convolution(2, 16, 18, 13, kernel=3),
    Convolution(2, 16, 18, 14, kernel=3, stride=2),
    Convolution(1, 26, 28, 15, kernel=1),
]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_convolutions_and_their_gradients(layer: Convolution) -> None:
    for workload in convolution_workloads(layer):
        inputs = [large(*x.shape) for x in workload.inputs()]
        text = compiled(workload.text, *inputs)
        # A 1x1 convolution is a product; the gradient of one with stride 2 is several.
        whole = layer.kernel == 3 and (layer.stride == 1 or "input" not in workload.name)
        if whole:
            assert "padding 1" in text and text.count("library call: ") == 1
        wanted = workload.reference(*inputs)
        actual = tc.define(workload.text, namespace=f"tc_library_{layer.name}")(
            workload.entry, *inputs
        )
        torch.testing.assert_close(actual, wanted[0], rtol=1e-5, atol=1e-4)


CONVOLUTIONS = {
    "one dimension": (
        "def f(float(N,C,L) I, float(F,C,K) W) -> (O) { O(n,f,l) +=! I(n,c,l+k) * W(f,c,k) }",
        ((2, 15, 140), (17, 15, 3)),
        "convolution of 2x15x140 with 17x15x3",
        F.conv1d,
    ),
    "dilation and stride": (
        "def f(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {"
        " O(n,f,h,w) +=! I(n,c,2*h+3*kh,w+2*kw) * K(f,c,kh,kw) }",
        ((2, 13, 20, 21), (24, 13, 3, 2)),
        "convolution of 2x13x19x21 with 24x13x3x2, stride 2x1, dilation 3x2",
        lambda i, k: F.conv2d(i, k, stride=(2, 1), dilation=(3, 2)),
    ),
    "groups": (
        "def f(float(N,G,C,H,W) I, float(G,F,C,KH,KW) K) -> (O) {"
        " O(n,g,f,h,w) +=! I(n,g,c,h+kh,w+kw) * K(g,f,c,kh,kw) }",
        ((2, 3, 14, 9, 9), (3, 15, 14, 3, 3)),
        "convolution of 2x42x9x9 with 45x14x3x3, 3 groups",
        lambda i, k: F.conv2d(i.flatten(1, 2), k.flatten(0, 1), groups=3).unflatten(1, (3, 15)),
    ),
    "three dimensions": (
        "def f(float(N,C,D,H,W) I, float(F,C,KD,KH,KW) K) -> (O) {"
        " O(n,f,d,h,w) +=! I(n,c,d+kd,h+kh,w+kw) * K(f,c,kd,kh,kw) }",
        ((1, 12, 6, 7, 8), (13, 12, 2, 3, 2)),
        "convolution of 1x12x6x7x8 with 13x12x2x3x2",
        F.conv3d,
    ),
    "channels last": (
        "def f(float(N,H,W,C) I, float(KH,KW,C,F) K) -> (O) {"
        " O(n,h,w,f) +=! I(n,h+kh,w+kw,c) * K(kh,kw,c,f) }",
        ((2, 9, 10, 15), (3, 3, 15, 16)),
        "convolution of 2x15x9x10 with 16x15x3x3",
        lambda i, k: F.conv2d(i.permute(0, 3, 1, 2), k.permute(3, 2, 0, 1)).permute(0, 2, 3, 1),
    ),
    "zeros on one side only": (
        "def f(float(N,C,H) I, float(F,C,K) W) -> (O) {\n"
        " P(n,c,h) = h >= 2 ? I(n,c,h-2) : 0.0 where h in 0:H+2\n"
        " O(n,f,h) +=! P(n,c,h+k) * W(f,c,k) }",
        ((2, 15, 140), (17, 15, 3)),
        # A library pads both sides alike, so the padded tensor is made.
        "convolution of 2x15x142 with 17x15x3",
        lambda i, w: F.conv1d(F.pad(i, (2, 0)), w),
    ),
    "zeros that are looked at elsewhere": (
        "def f(float(N,C,H) I, float(F,C,K) W) -> (O) {\n"
        " P(n,c,h) = h >= 1 && h <= H ? I(n,c,h-1) : 0.0 where h in 0:H+2\n"
        " O(n,f,h) +=! P(n,c,h+k) * W(f,c,k)\n"
        " O(n,f,h) = O(n,f,h) + P(n,0,h) }",
        ((2, 15, 140), (17, 15, 3)),
        "convolution of 2x15x142 with 17x15x3",
        lambda i, w: F.conv1d(i, w, padding=1) + F.pad(i, (1, 1))[:, :1, :140],
    ),
    "padding that is none": (
        "def f(float(N,C,H) I, float(F,C,K) W) -> (O) {\n"
        " P(n,c,h) = h >= 1 && h < H ? I(n,c,h-1) : 0.0 where h in 0:H+2\n"
        " O(n,f,h) +=! P(n,c,h+k) * W(f,c,k) }",
        ((2, 15, 140), (17, 15, 3)),
        # The last element is left out: zeros around I would not be the same.
        "convolution of 2x15x142 with 17x15x3",
        lambda i, w: F.conv1d(F.pad(i[:, :, :139], (1, 2)), w),
    ),
    "turned filter": (
        "def f(float(N,C,H) I, float(F,C,K) W) -> (O) { O(n,f,h) +=! I(n,c,h+k) * W(f,c,K-1-k) }",
        ((2, 15, 140), (17, 15, 3)),
        "gradient of an image, from 2x15x140 and filters 15x17x3, padding 2",
        lambda i, w: F.conv1d(i, w.flip(2)),
    ),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    text, sizes, call, reference = CONVOLUTIONS[name]
    inputs = [large(*s) for s in sizes]
    assert call_of(text, *inputs) == call
    torch.testing.assert_close(run(text, *inputs), reference(*inputs), rtol=1e-5, atol=1e-4)


NO_CALLS = {
    "a scaled product": "C(m,n) +=! 2.0 * A(m,k) * B(k,n)",
    "a sum of sums": "C(m,n) +=! A(m,k) + B(k,n)",
    "a maximum": "C(m,n) max=! A(m,k) * B(k,n)",
    "an index of one factor alone": "C(m,n) +=! A(m,k) * B(l,n)",
    "a slanted window": "C(m,n) +=! A(k+m,k) * B(k,n) where k in 0:8, m in 0:8",
    "a window of three indices": "C(m,n) +=! A(m+n+k,k) * B(k,m) where k in 0:4, n in 0:4",
    "an element-wise product": "C(m,n) +=! A(m,n) * A(m,n) where n in 0:16",
}


@pytest.mark.parametrize("name", NO_CALLS)
def test_other_statements_are_left_alone(name: str) -> None:
    text = f"def f(float(M,K) A, float(K,N) B) -> (C) {{ {NO_CALLS[name]} }}"
    assert "library call" not in compiled(text, large(16, 16), large(16, 16))


@pytest.mark.parametrize("first", [0, 1])
def test_windows_of_an_image_whose_rows_lie_in_one_place(first: int) -> None:
    """Where they begin is not told by an offset in memory."""
    text = f"""def f(float(N,C,H,W) I, float(M,C,KH,KW) K) -> (O) {{
      P(n,c,h,w) = h >= 2 && h < H + 2 && w >= 2 && w < W + 2 ? I(n,c,h - 2,w - 2) : 0
        where h in 0:H + 4, w in 0:W + 4
      O(n,m,h,w) +=! P(n,c,2 * h + {first} + kh,2 * w + kw) * K(m,c,kh,kw)
        where h in 0:9, w in 0:9
    }}"""
    image = large(2, 16, 1, 16).expand(2, 16, 16, 16)
    kernel = large(24, 16, 3, 3)
    padded = F.pad(image, (2, 2, 2, 2))[:, :, first:, :]
    expected = F.conv2d(padded.contiguous(), kernel, stride=2)[:, :, :9, :9]
    assert torch.equal(run(text, image, kernel), expected)


@pytest.mark.parametrize(
    "options",
    [
        tc.MappingOptions().matchLibraryCalls(False),
        "identity",
        "naive",
        tc.MappingOptions().tile(8, 8),
    ],
)
def test_no_calls_unless_asked_for(options: object) -> None:
    text = PRODUCT.format(t="float")
    assert "library call" not in compiled(text, large(64, 64), large(64, 64), options=options)


def test_asked_for_beside_tiles() -> None:
    options = tc.MappingOptions().tile(8, 8).matchLibraryCalls(True)
    text = PRODUCT.format(t="float")
    assert "library call: ATen" in compiled(text, large(64, 64), large(64, 64), options=options)
    assert eval(str(options), {"tc": tc}) == options


def test_slow_libraries_are_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", "library_rate=1")
    text = compiled(PRODUCT.format(t="float"), large(64, 64), large(64, 64))
    assert (
        "library call left alone: ATen, product of matrices 64x64 and 64x64\nexpected 0.53" in text
    )


def test_kernels_without_a_model_are_no_reason_for_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TC_MACHINE", "library_rate=1")
    text = "def f(float(K) x, float(K) y) -> (s) { s +=! x(k) * y(k) }"
    assert "library call left alone" in compiled(text, large(1 << 14), large(1 << 14))


def test_small_products_are_not_worth_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", ALWAYS)
    text = compiled(PRODUCT.format(t="float"), large(8, 8), large(8, 8))
    assert "library call left alone" in text and "library call: " not in text


def test_products_of_vectors_are_bound_by_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TC_MACHINE")
    text = "def f(float(M,K) A, float(K) x) -> (y) { y(m) +=! A(m,k) * x(k) }"
    made = compiled(text, large(1000, 400), large(400))
    assert "library call left alone: ATen, product of matrices 1000x400 and 400x1" in made


def test_measured_without_a_description(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TC_MACHINE")
    text = compiled(
        PRODUCT.format(t="double"),
        large(96, 96, dtype=torch.double),
        large(96, 96, dtype=torch.double),
    )
    # Whichever is faster here: the other one is named with its time.
    assert "library call" in text and "for a kernel of ours" in text


@pytest.mark.parametrize("rows", [8, 4096])
def test_calls_that_are_too_large_to_measure_have_to_be_expected_far_faster(
    monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.delenv("TC_MACHINE")
    operands = torch.empty(rows, 4096), torch.empty(4096, 1 << 13)  # 128 MiB, never touched
    text = compiled(PRODUCT.format(t="float"), *operands)
    theirs, own = map(float, re.search(r"expected (\S+) M cycles, (\S+) for a", text).groups())
    assert ("library call: " in text) == (theirs < own / 1.5)


def test_deterministic_mode_makes_no_calls() -> None:
    text = PRODUCT.format(t="float").replace("f(", "deterministic(", 1)
    torch.use_deterministic_algorithms(True)
    try:
        assert "library call" not in compiled(text, large(64, 64), large(64, 64))
    finally:
        torch.use_deterministic_algorithms(False)
    assert "library call: " in compiled(text, large(64, 64), large(64, 64))


def calls_made(operator: object, *inputs: torch.Tensor) -> set[str]:
    with torch.autograd.profiler.profile() as profile:
        operator(*inputs)
    return {event.name for event in profile.function_events if event.name.startswith("aten::mm")}


def test_deterministic_mode_chooses_another_kernel_of_an_operator() -> None:
    """Also where the operator was called with these inputs before, and back."""
    text = PRODUCT.format(t="float").replace("f(", "toggled(", 1)
    a, b = large(64, 80), large(80, 64)
    operator = tc.define(text, namespace="tc_library").toggled
    operator(a, b)
    assert calls_made(operator, a, b) == {"aten::mm"}
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.equal(operator(a, b), a @ b)
        assert calls_made(operator, a, b) == set()
    finally:
        torch.use_deterministic_algorithms(False)
    compiled = tc.cache_info().compiled
    assert calls_made(operator, a, b) == {"aten::mm"}
    assert tc.cache_info().compiled == compiled


def test_calls_reach_the_library() -> None:
    text = PRODUCT.format(t="float")
    a, b = large(64, 80), large(80, 64)
    operator = tc.define(text, namespace="tc_library").f
    operator(a, b)
    with torch.autograd.profiler.profile() as profile:
        operator(a, b)
    assert "aten::mm" in {event.name for event in profile.function_events}


def test_autocast_does_not_reach_into_calls() -> None:
    text = CONVOLUTIONS["one dimension"][0]
    i, w = torch.rand(2, 15, 140), torch.rand(17, 15, 3)
    operator = tc.define(text, namespace="tc_library_autocast").f
    alone = operator(i, w)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(operator(i, w), alone)


class Seen(TorchDispatchMode):
    """Keeps the names of what is dispatched."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_modes_do_not_see_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither those of a run nor those of measurements while compiling."""
    text = PRODUCT.format(t="float")
    a, b = large(64, 81), large(81, 64)
    with Seen() as seen:
        executor = tc.compile(text, "f", None, a, b)
        tc.define(text, namespace="tc_library_modes").f(a, b)
    assert "library call: " in " ".join(executor.explain().split())
    monkeypatch.delenv("TC_MACHINE")
    a, b = large(64, 81, dtype=torch.double), large(81, 64, dtype=torch.double)
    with Seen() as measured:
        tc.compile(PRODUCT.format(t="double"), "f", None, a, b)
    assert not [name for name in seen.names + measured.names if "mm" in name]


def test_transformations_stay_outside() -> None:
    """torch.func knows the operator, not the calls below it."""
    text = PRODUCT.format(t="float").replace("f(", "f_func(", 1)
    backward = (
        "def b_func(float(M,K) A, float(K,N) B, float(M,N) dC) -> (dA, dB) {"
        " dA(m,k) +=! dC(m,n) * B(k,n)  dB(k,n) +=! A(m,k) * dC(m,n) }"
    )
    operators = tc.define(text + "\n" + backward, namespace="tc_library_func")
    f = tc.make_autograd(operators.f_func, operators.b_func)
    a, b = large(64, 80), large(80, 64)
    x = a.clone().requires_grad_()
    f(x, b).sum().backward()
    torch.testing.assert_close(x.grad, torch.ones(64, 64) @ b.t(), rtol=0, atol=0)


def test_gradients_and_views_stay_outside() -> None:
    """An operand that requires gradients is memory to the library."""
    text = PRODUCT.format(t="float")
    a, b = large(64, 80).requires_grad_(), large(80, 64)
    out = torch.empty(64, 64)
    t = tc.define(text, namespace="tc_library")
    with torch.no_grad():
        t("f", a, b, outputs=out)
    assert torch.equal(out, a.detach() @ b)


# Every match is called, however small.
EVERY = "library_rate=1000000000,library_call_cycles=1"


def scrambled(order: random.Random, labels: str, extents: dict[str, int]) -> tuple:
    """Labels in some order, and a tensor with those dimensions, dense or as a view."""
    labels = "".join(order.sample(labels, len(labels)))
    inner = order.sample(range(len(labels)), len(labels))
    step = order.choice([1, 1, 2])
    memory = large(*(extents[labels[d]] * step for d in inner))
    view = memory[tuple(slice(None, None, step) for _ in inner)]
    return labels, view.permute([inner.index(d) for d in range(len(labels))])


def random_product(seed: int) -> tuple[str, torch.Tensor, torch.Tensor, str]:
    """A product with up to two indices in every role, in any order, and its einsum."""
    order = random.Random(seed)
    roles = {"m": "mp", "n": "nq", "k": "kl"}
    used = {role: names[: order.choice([1, 1, 2])] for role, names in roles.items()}
    used["b"] = "bc"[: order.choice([0, 1, 2])]
    extents = {label: order.randint(1, 7) for label in "".join(used.values())}
    a, x = scrambled(order, used["b"] + used["m"] + used["k"], extents)
    b, y = scrambled(order, used["b"] + used["k"] + used["n"], extents)
    c = "".join(order.sample(used["b"] + used["m"] + used["n"], len(extents) - len(used["k"])))
    arguments = ", ".join(
        f"float({','.join(s.upper() for s in labels)}) {name}"
        for labels, name in ((a, "X"), (b, "Y"))
    )
    body = f"Z({','.join(c)}) +=! X({','.join(a)}) * Y({','.join(b)})"
    return f"def f({arguments}) -> (Z) {{ {body} }}", x, y, f"{a},{b}->{c}"


def test_random_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", EVERY)
    called = 0
    for seed in range(SEEDS):
        text, x, y, equation = random_product(seed)
        wanted = torch.einsum(equation, x.double(), y.double()).float()
        assert torch.equal(run(text, x, y), wanted), f"seed {seed}:\n{text}"
        called += "library call: " in compiled(text, x, y)
    # Some reductions do not merge into one.
    print(f"{called} of {SEEDS} products are calls")
    assert called > SEEDS / 5


def random_convolution(seed: int) -> tuple[str, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Strides, dilations, padding, groups, turned filters, filters larger than their results; and
    the result by gathered windows."""
    order = random.Random(seed)
    n, g, c, f = (order.randint(1, 4) for _ in range(4))
    g = g if order.random() < 0.3 else 1
    out = [order.randint(1, 6) for _ in range(2)]
    taps = [order.randint(1, 6 if seed % 3 == 0 else 3) for _ in range(2)]
    stride = [order.choice([1, 1, 2, 3]) for _ in range(2)]
    dilation = [order.choice([1, 1, 2, 3]) for _ in range(2)]
    turned = order.random() < 0.3
    sizes = [(o - 1) * s + (t - 1) * d + 1 for o, s, t, d in zip(out, stride, taps, dilation)]
    pads = [p if size > 2 * p else 0 for p, size in zip(order.choices([0, 0, 1, 2], k=2), sizes)]
    image = large(n, g, c, *(size - 2 * p for size, p in zip(sizes, pads)))
    filters = large(g, f, c, *taps)

    padded = F.pad(image, (pads[1], pads[1], pads[0], pads[0])).double()
    rows, columns = (
        torch.arange(o)[:, None] * s + torch.arange(t)[None, :] * d
        for o, s, t, d in zip(out, stride, taps, dilation)
    )
    windows = padded[:, :, :, rows][:, :, :, :, :, columns]
    weights = (filters.flip(3, 4) if turned else filters).double()
    wanted = torch.einsum("ngchkwl,gfckl->ngfhw", windows, weights).float()

    p, q = pads
    pad = (
        f" P(n,g,c,h,w) = h >= {p} && h < H + {p} && w >= {q} && w < W + {q}"
        f" ? I(n,g,c,h-{p},w-{q}) : 0.0 where h in 0:H+{2 * p}, w in 0:W+{2 * q}\n"
    )
    tap = "KH-1-i,KW-1-j" if turned else "i,j"
    text = (
        "def f(float(N,G,C,H,W) I, float(G,F,C,KH,KW) K) -> (O) {\n"
        f"{pad if p or q else ''}"
        f" O(n,g,f,h,w) +=! {'P' if p or q else 'I'}(n,g,c,{stride[0]}*h+{dilation[0]}*i,"
        f"{stride[1]}*w+{dilation[1]}*j) * K(g,f,c,{tap})\n"
        f"   where h in 0:{out[0]}, w in 0:{out[1]}\n}}"
    )
    return text, image, filters, wanted


def test_random_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MACHINE", EVERY)
    called = 0
    for seed in range(SEEDS):
        text, image, filters, wanted = random_convolution(seed)
        try:
            torch.testing.assert_close(run(text, image, filters), wanted, rtol=1e-5, atol=1e-4)
        except Exception as error:
            raise AssertionError(f"seed {seed}:\n{text}\n{error}") from error
        called += "library call: " in compiled(text, image, filters)
    print(f"{called} of {SEEDS} convolutions are calls")
    assert called > SEEDS / 5
