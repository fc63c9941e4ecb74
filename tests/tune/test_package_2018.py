"""What users of the 2018 package wrote, on today's PyTorch and the CPU: the calls are theirs."""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import tensor_comprehensions as tc
from tensor_comprehensions import tclib

CONFIG = tc.TunerConfig().threads(5).generations(2).pop_size(3)

ADD = "def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }"
ADD_AND_SUB = ADD + "\ndef sub(float(N) A, float(N) B) -> (C) { C(i) = A(i) - B(i) }"
#: As a single kernel, and as two.
FUSED = """
def group_normalization(float(N, G, D, H, W) I, float(G, D) gamma, float(G, D) beta)
-> (Sum, SumSq, O) {
      Sum(n, g) +=! I(n, g, r_d, r_h, r_w)
    SumSq(n, g) +=! I(n, g, r_d, r_h, r_w) * I(n, g, r_d, r_h, r_w)
    O(n, g, d, h, w) = gamma(g, d)
        * (I(n, g, d, h, w) - Sum(n, g) / (D * H * W))
        * rsqrt((SumSq(n, g) - Sum(n, g) * Sum(n, g) / (D * H * W)) / (D * H * W) + 1e-5)
        + beta(g, d)
}
"""
TWO_KERNELS = """
def moments(float(N, K) I) -> (mean, var) {
    mean(n) +=! I(n, r_k)
     var(n) +=! I(n, r_k) * I(n, r_k)
    mean(n)  = mean(n) / (K)
     var(n)  = var(n) / (K) - mean(n) * mean(n)
}
def group_normalization(
    float(N, G, D, H, W) I, float(G, D) gamma, float(G, D) beta,
    float(N, G) mean, float(N, G) var) -> (O) {
    O(n, g, d, h, w) = gamma(g, d) * (I(n, g, d, h, w) - mean(n, g))
        * rsqrt(var(n, g) + 1e-5) + beta(g, d)
}
"""
CONVOLUTION = """
def convolution(float(N,C,H,W) I, float(M,C,KH,KW) W1, float(M) Bias) -> (O) {
    O(n, m, h, w) +=! I(n, r_c, h + r_kh, w + r_kw) * W1(m, r_c, r_kh, r_kw)
    O(n, m, h, w)  = O(n, m, h, w) + Bias(m)
}
def convolution_igrad(float(M,C,KH,KW) W1, float(N,M,H,W) d_O) -> (d_I) {
    d_I(n, c, h, w) +=! d_O(n, r_m, h - r_kh, w - r_kw) * W1(r_m, c, r_kh, r_kw)
}
def convolution_wgrad(float(N,C,H,W) I, float(N,M,H,W) d_O) -> (d_W1) {
    d_W1(m, c, kh, kw) +=! d_O(r_n, m, r_h - kh, r_w - kw) * I(r_n, c, r_h, r_w)
}
def convolution_biasgrad(float(M) Bias) -> (d_Bias) { d_Bias(m) = Bias(m) }
def convolution_grad(
    float(N,C,H,W) I, float(M,C,KH,KW) W1, float(M) Bias, float(N,M,H,W) d_O)
    -> (d_I, d_W1, d_Bias) {
    d_I(n, c, h, w) +=! d_O(n, r_m, h - r_kh, w - r_kw) * W1(r_m, c, r_kh, r_kw)
    d_W1(m, c, kh, kw) +=! d_O(r_n, m, r_h - kh, r_w - kw) * I(r_n, c, r_h, r_w)
    d_Bias(m) = Bias(m)
}
"""
TENSORDOT = """
def tensordot(float(N, C1, C2, H, W) I0, float(N, C2, C3, H, W) I1) -> (O) {
    O(n, c1, c3, h, w) +=! I0(n, c1, c2, h, w) * I1(n, c2, c3, h, w)
}
"""


@pytest.fixture(autouse=True)
def _silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tc, "SILENT", True)


def images() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    n, g, d, h, w = 4, 8, 4, 14, 14
    return torch.randn(n, g, d, h, w), torch.ones(g, d), torch.zeros(g, d)


def normalized(image: torch.Tensor) -> torch.Tensor:
    n, g, d, h, w = image.shape
    return torch.nn.GroupNorm(g, g * d)(image.reshape(n, g * d, h, w)).reshape(image.shape)


def test_names() -> None:
    """Everything that could be imported, by its place."""
    for name in (
        *("logtostderr", "debug_lang", "debug_halide", "debug_tc_mapper", "debug_tuner"),
        *("dump_cuda", "dump_ptx", "cuda_compiler", "llvm_flags", "nvcc_flags"),
        *("CompilationCache", "MappingOptions", "MappingOptionsCache", "Tuner", "TunerConfig"),
    ):
        assert getattr(tc, name) is getattr(tclib, name)
    for name in ("compile", "parse_defs", "TcExecutor"):
        assert hasattr(tclib, name)
    for name in (
        *("assert_almost_equal", "autotune", "autotune_and_compile", "compile", "define"),
        *("make_autograd", "make_naive_options_factory", "make_load_from_cache_options_factory"),
        *("make_autotuned_options_factory", "TC", "Executor", "SILENT"),
    ):
        assert hasattr(tc, name)


def test_signatures() -> None:
    keywords = ["starting_options", "tuner_config", "cache_filename", "load_from_cache"]
    keywords += ["store_to_cache"]
    for function in (tc.autotune, tc.autotune_and_compile):
        assert list(inspect.signature(function).parameters) == [
            *("source", "entry_point", "inputs"),
            *keywords,
        ]
    factory = inspect.signature(tc.make_autotuned_options_factory)
    assert list(factory.parameters) == keywords
    assert list(inspect.signature(tc.MappingOptionsCache.load).parameters)[1:] == [
        *("source", "entry_point", "inputs", "num_candidates")
    ]
    assert list(inspect.signature(tc.Tuner.tune).parameters)[1:] == [
        *("entry_point", "inputs", "base_options", "config")
    ]


def test_mapping_options() -> None:
    options = (
        tc.MappingOptions("naive")
        .useSharedMemory(True)
        .unrollCopyShared(False)
        .mapToBlocks([256, 8])
        .mapToThreads([4, 16, 4])
        .tile([2, 8, 64, 128])
        .unroll(128)
        .fixParametersBeforeScheduling(False)
        .scheduleFusionStrategy("Max")
        .outerScheduleFusionStrategy("Preserve3Coincident")
    )
    assert tc.MappingOptions.parse(options.serialize()) == options


def test_tuner_config() -> None:
    config = tc.TunerConfig()
    assert (
        config.generations(25)
        .pop_size(100)
        .crossover_rate(80)
        .mutation_rate(7)
        .number_elites(10)
        .tuner_min_launch_total_threads(64)
        .threads(8)
        .devices("0")
        .logtostderr(False)
        .stderrthreshold(3)
    ) is config


@pytest.mark.parametrize("compiler", ["nvrtc", "llvm", "nvcc"])
def test_compile_with_any_compiler(compiler: str) -> None:
    a, b = torch.randn(100), torch.randn(100)
    tc.cuda_compiler(compiler)
    add = tc.compile(ADD, "add", "naive", a, b)
    tc.cuda_compiler("nvrtc")
    tc.assert_almost_equal(add(a, b), torch.add(a, b), a, b)
    with pytest.raises(tc.TCError, match="expected one of nvrtc, nvcc, llvm"):
        tc.cuda_compiler("gcc")


def test_autotune_and_compile() -> None:
    a, b = torch.randn(10**5), torch.randn(10**5)
    add = tc.autotune_and_compile(ADD, "add", a, b, starting_options="naive", tuner_config=CONFIG)
    c = add(a, b)
    tc.assert_almost_equal(c, torch.add(a, b), a, b)
    c.zero_()
    add(a, b, outputs=(c,))
    tc.assert_almost_equal(c, torch.add(a, b), a, b)


def test_define() -> None:
    t = tc.define(ADD_AND_SUB, tc.make_naive_options_factory())
    a, b = torch.randn(100), torch.randn(100)
    tc.assert_almost_equal(t.add(a, b), torch.add(a, b), a, b)
    tc.assert_almost_equal(t.sub(a, b), a - b, a, b)


def test_substitution_in_a_text() -> None:
    text = """
    def avgpool(float(B, C, H, W) input) -> (output) {
        output(b, c, h, w) +=! input(b, c, h * <sh> + kh, w * <sw> + kw) / (<kH> * <kW>)
            where kh in 0:<kH>, kw in 0:<kW>
    }
    """
    for name, value in (("sh", 1), ("sw", 1), ("kH", 2), ("kW", 2)):
        text = re.sub(f"<{name}>", str(value), text)
    image = torch.ones(1, 1, 4, 4)
    out = tc.define(text, tc.make_naive_options_factory()).avgpool(image)
    tc.assert_almost_equal(torch.nn.AvgPool2d(2, stride=1)(image), out, image)


def test_group_normalization_in_one_kernel() -> None:
    t = tc.define(
        FUSED, tc.make_autotuned_options_factory(starting_options="naive", tuner_config=CONFIG)
    )
    image, gamma, beta = images()
    _, _, out = t.group_normalization(image, gamma, beta)
    operations = image[0, 0].numel()
    tc.assert_almost_equal(normalized(image), out, image, operations=operations)


def _normalize(t: Any, image: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> Any:
    n, g = image.shape[:2]
    mean, var = t.moments(image.view((n * g, -1)))
    return t.group_normalization(image, gamma, beta, mean.view((n, g)), var.view((n, g)))


def test_group_normalization_in_two_kernels() -> None:
    t = tc.define(
        TWO_KERNELS,
        tc.make_autotuned_options_factory(starting_options="naive", tuner_config=CONFIG),
    )
    image, gamma, beta = images()
    _normalize(t, image, gamma, beta)  # tunes
    out = _normalize(t, image, gamma, beta)
    tc.assert_almost_equal(normalized(image), out, image, operations=image[0, 0].numel())


def test_reinforcement() -> None:
    """The file is there, and empty, at first."""
    with tempfile.NamedTemporaryFile() as cache_file:
        image, gamma, beta = images()
        t = tc.define(
            TWO_KERNELS,
            tc.make_autotuned_options_factory(
                starting_options="naive",
                tuner_config=CONFIG,
                cache_filename=cache_file.name,
                store_to_cache=True,
            ),
        )
        _normalize(t, image, gamma, beta)
        t = tc.define(
            TWO_KERNELS,
            tc.make_autotuned_options_factory(
                tuner_config=CONFIG,
                cache_filename=cache_file.name,
                load_from_cache=True,
                store_to_cache=True,
            ),
        )
        out = _normalize(t, image, gamma, beta)
        tc.assert_almost_equal(normalized(image), out, image, operations=image[0, 0].numel())


@pytest.mark.parametrize("kernels", [1, 2])
def test_convolution_with_its_backward(kernels: int) -> None:
    n, c, h, w, o = 4, 4, 14, 14, 8
    image = torch.randn(n, c, h, w, requires_grad=True)
    t = tc.define(
        CONVOLUTION,
        tc.make_autotuned_options_factory(starting_options="naive", tuner_config=CONFIG),
    )

    def backward(image: Any, weight: Any, bias: Any, d_o: Any) -> Any:
        return (
            t.convolution_igrad(weight, d_o),
            t.convolution_wgrad(image, d_o),
            t.convolution_biasgrad(bias),
        )

    function = tc.make_autograd(t.convolution, t.convolution_grad if kernels == 1 else backward)
    layer = torch.nn.Conv2d(c, o, 1, stride=1)
    wanted = layer(image)
    weight, bias = layer.weight.clone(), layer.bias.clone()
    for _ in range(2):  # the first one tunes
        out = function(image, weight, bias)
        out.sum().backward()
    tc.assert_almost_equal(wanted, out, image, operations=c)
    (gradient,) = torch.autograd.grad(layer(image).sum(), image)
    tc.assert_almost_equal(image.grad, 2 * gradient, image, operations=o)


def test_low_level_compile() -> None:
    text = "def matmul(float(M,N) A, float(N,K) B) -> (C) { C(m, k) +=! A(m, r_n) * B(r_n, k) }"
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    executor = tclib.compile(text, "matmul", (a, b), tc.MappingOptions("naive"))
    c = executor.run((a, b), ())
    tc.assert_almost_equal(c, torch.mm(a, b), a, b, operations=4)
    c = executor.run((a, b), (c,))
    tc.assert_almost_equal(c, torch.mm(a, b), a, b, operations=4)
    c = executor.unchecked_run((a, b), (c,))
    tc.assert_almost_equal(c, torch.mm(a, b), a, b, operations=4)


def test_low_level_tuner() -> None:
    with tempfile.NamedTemporaryFile() as cache_file:
        i0, i1 = torch.randn(8, 6, 4, 5, 7), torch.randn(8, 4, 9, 5, 7)
        tuner = tc.Tuner(TENSORDOT, cache_file.name)
        best = tuner.tune("tensordot", (i0, i1), tc.MappingOptions("naive"), CONFIG)
        cache = tc.MappingOptionsCache(cache_file.name)
        (stored,) = cache.load(TENSORDOT, "tensordot", (i0, i1), 10)
        assert str(best) == str(stored)
        out = tclib.compile(TENSORDOT, "tensordot", (i0, i1), stored).run((i0, i1), ())
        naive = tclib.compile(TENSORDOT, "tensordot", (i0, i1), tc.MappingOptions("naive"))
        tc.assert_almost_equal(naive.run((i0, i1), ()), out, i0, i1, operations=4)


def test_compilation_cache() -> None:
    cache = tc.CompilationCache(ADD_AND_SUB)
    a, b = torch.randn(100), torch.randn(100)
    assert not cache.is_compiled("add", (a, b))
    with pytest.raises(tc.TCError, match=r"add is not compiled for inputs of sizes \(100,\)"):
        cache.run("add", (a, b))
    cache.compile("add", (a, b), tc.MappingOptions("naive"))
    assert cache.is_compiled("add", (a, b))
    assert not cache.is_compiled("sub", (a, b))
    assert not cache.is_compiled("add", (a[:50], b[:50]))
    (out,) = cache.alloc_outputs("add", (a, b))
    assert out.shape == (100,)
    cache.run("add", (a, b), (out,))
    tc.assert_almost_equal(out, a + b, a, b)
    tc.assert_almost_equal(cache.unchecked_run("add", (a, b)), a + b, a, b)


@pytest.mark.parametrize("run", [tc.CompilationCache.run, tc.CompilationCache.unchecked_run])
def test_compilation_cache_writes_to_a_lone_tensor(run: Callable[..., object]) -> None:
    cache = tc.CompilationCache("def twice(float(N, M) x) -> (y) { y(n, m) = 2 * x(n, m) }")
    x = torch.randn(5, 7)
    cache.compile("twice", (x,), tc.MappingOptions("naive"))
    for outputs in (torch.zeros(5, 7), (torch.zeros(5, 7),), [torch.zeros(5, 7)]):
        run(cache, "twice", (x,), outputs)
        assert torch.equal(outputs if isinstance(outputs, torch.Tensor) else outputs[0], 2 * x)
    with pytest.raises(tc.TCError, match=r"expected sizes? .*\(5, 7\)"):
        cache.run("twice", (x,), torch.zeros(5, 6))


def test_compilation_cache_of_sparse_tensors() -> None:
    cache = tc.CompilationCache(ADD_AND_SUB)
    a, b = torch.randn(100), torch.randn(100).to_sparse()
    assert not cache.is_compiled("add", (a, b))
    with pytest.raises(tc.TCError, match=r"add is not compiled for inputs of sizes \(100,\)"):
        cache.run("add", (a, b))
    with pytest.raises(tc.TCError, match="sparse_coo"):
        cache.compile("add", (a, b), tc.MappingOptions("naive"))


def test_parse_defs() -> None:
    assert tclib.parse_defs(ADD_AND_SUB) == ["add", "sub"]


def test_flags_of_logs(capfd: pytest.CaptureFixture[str]) -> None:
    # No other test's text: a kernel that the process has is not compiled again, and logs nothing.
    text = ADD.replace("add", "add_that_logs")
    a, b = torch.randn(7), torch.randn(7)
    tc.logtostderr(True)
    tc.debug_lang(True)
    try:
        tc.compile(text, "add_that_logs", None, a, b)
    finally:
        tc.debug_lang(False)
        tc.logtostderr(False)
    assert "program: add_that_logs" in capfd.readouterr().err
    tc.compile(text, "add_that_logs", None, torch.randn(8), torch.randn(8))
    assert capfd.readouterr().err == ""
    for flag in (tc.debug_halide, tc.debug_tc_mapper, tc.debug_tuner, tc.dump_cuda, tc.dump_ptx):
        flag(True)
        flag(False)
    tc.llvm_flags("-O3")
    tc.nvcc_flags("--use_fast_math")


def test_files_that_are_missing_or_empty(tmp_path: Path) -> None:
    a, b = torch.randn(9), torch.randn(9)
    assert tc.MappingOptionsCache(str(tmp_path / "none")).load(ADD, "add", (a, b), 3) == []
    (tmp_path / "empty").touch()
    assert tc.MappingOptionsCache(str(tmp_path / "empty")).load(ADD, "add", (a, b), 3) == []
