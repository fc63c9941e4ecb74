"""CUDA texts on the CPU: those that tests/cpp/cuda_printer_test prints from hand-built statements,
compared with numpy under the emulator, which watches every access. What the emulator finds is in
tests/codegen/test_cuda_races.py, and in tests/codegen/test_cuda_mutants.py."""

import math

import emulated
import emulator
import numpy as np
import pytest
import scipy.special
import torch
from cuda_cases import DTYPES, Case

import tensor_comprehensions as tc


def uniform(*shape, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(*shape, generator=generator, dtype=torch.float64) * 2 - 1).to(dtype)


def same(actual, expected):
    torch.testing.assert_close(
        actual, expected.reshape(actual.shape), rtol=0, atol=0, equal_nan=True
    )


def test_add(cases):
    case = Case(cases, "add")
    t = {**case.zeros("tc_add"), "A": uniform(1000), "B": uniform(1000, seed=1), "alpha": 0.75}
    case.run("tc_add", t)
    same(t["C"], t["A"] + 0.75 * t["B"])


@pytest.mark.parametrize("name", ["matmul", "matmul_wide", "matmul_dynamic"])
@pytest.mark.parametrize("sanitize", [False, True])
def test_matmul(cases, name, sanitize):
    """AddressSanitizer looks at the local arrays, too."""
    case = Case(cases, name)
    a, b = uniform(48, 40), uniform(40, 32, seed=1)
    t = {**case.zeros(f"tc_{name}"), "A": a, "B": b}
    case.run(f"tc_{name}", t, sanitize)
    torch.testing.assert_close(t["C"].reshape(48, 32), a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name, outputs", [("reduce_tree", 3), ("reduce_warp", 6)])
def test_reduction(cases, name, outputs):
    case = Case(cases, name)
    t = {**case.zeros(f"tc_{name}"), "A": uniform(768)}
    case.run(f"tc_{name}", t)
    size = 256 if name == "reduce_tree" else 32
    expected = t["A"][: outputs * size].reshape(outputs, size).sum(1)
    torch.testing.assert_close(t["S"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sanitize", [False, True])
def test_nest_tmm(cases, sanitize):
    """Operands in shared memory, copied by all threads of a block."""
    case = Case(cases, "nest_tmm")
    a, b = uniform(48, 40), uniform(32, 40, seed=1)
    t = {**case.zeros("tc_nest_tmm"), "A": a, "B": b}
    case.run("tc_nest_tmm", t, sanitize)
    torch.testing.assert_close(t["C"].reshape(48, 32), a @ b.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sanitize", [False, True])
def test_nest_softmax(cases, sanitize):
    """Reductions over the threads of a block, whose number is no power of two."""
    case = Case(cases, "nest_softmax")
    x = uniform(5, 200) * 10
    t = {**case.zeros("tc_nest_softmax"), "x": x}
    case.run("tc_nest_softmax", t, sanitize)
    torch.testing.assert_close(t["y"].reshape(5, 200), torch.softmax(x, 1), rtol=1e-5, atol=1e-7)
    same(t["top"], x.amax(1))


def values(dtype, count, seed=0):
    """Small values, where every type computes exactly what numpy's does, and a NaN in floats."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).bool()
    low = 0 if dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64) else -100
    result = torch.randint(low, 100, (count,), generator=generator)
    if dtype.is_floating_point:
        result = (result * 1.125).to(dtype)
        result[seed] = math.nan
        return result
    return result.to(dtype)


@pytest.mark.parametrize("name", DTYPES)
def test_types(cases, name):
    case, dtype, kernel = Case(cases, "types"), DTYPES[name], f"tc_types_{name}"
    a, b = values(dtype, 64), values(dtype, 64, seed=1)
    t = {**case.zeros(kernel), "A": a, "B": b}
    case.run(kernel, t)
    # torch has no arithmetic on the wider unsigned types; theirs is that of int64, cut off.
    wide = torch.int64 if name in ("uint16", "uint32", "uint64") else dtype
    a, b = a.to(wide), b.to(wide)
    expected = a ^ b if dtype == torch.bool else (a + b) * a - b
    same(t["C"][:64], expected.to(dtype))
    same(t["C"][64:128], torch.minimum(a, b).to(dtype))
    same(t["C"][128:], torch.maximum(a, b).to(dtype))


@pytest.mark.parametrize("name", DTYPES)
def test_casts(cases, name):
    case, dtype = Case(cases, "casts"), DTYPES[name]
    # Within the range of every type, since beyond it the result is undefined for floats.
    a = torch.tensor([0, 1, 2, 3, 5, 7, 10, 31, 63, 64, 100, 101, 113, 120, 126, 127])
    a = (a + 0.25 if dtype.is_floating_point else a).to(dtype)
    if dtype == torch.float64:
        a[0], a[1] = 0.1, 1 / 3
    t = {**case.zeros(f"tc_casts_{name}"), "A": a}
    case.run(f"tc_casts_{name}", t)
    for target, to in DTYPES.items():
        same(t[target], a.to(to))


def test_half_conversions(cases):
    """All 65536 half values, and floats that round to each of them."""
    text = (cases / "casts.cu").read_text()
    text = (
        text[: text.index('extern "C"')]
        + """
extern "C" __global__ void f(const tc::half* h, const tc::bfloat16* b, const float* x, float* hf,
                             float* bf, tc::half* xh, tc::bfloat16* xb) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  hf[i] = tc::to_float(h[i]); bf[i] = tc::to_float(b[i]);
  xh[i] = tc::to_half(x[i]); xb[i] = tc::to_bfloat16(x[i]);
}"""
    )
    h = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.float16)
    b = h.view(torch.bfloat16)
    noise = uniform(65536, dtype=torch.float32) * 1e-3 + 1
    between = (h.float() + h.roll(-1).float()) / 2  # ties
    for x in (h.float(), h.float() * noise, b.float() * noise, between):
        hf, bf = torch.zeros(65536), torch.zeros(65536)
        xh, xb = torch.zeros_like(h), torch.zeros_like(b)
        emulator.compile(text).launch("f", 256, 256, [h, b, x, hf, bf, xh, xb])
        same(hf, h.float())
        same(bf, b.float())
        same(xh, x.half())
        same(xb, x.bfloat16())


@pytest.mark.parametrize("name", ["int8", "int32", "int64", "uint32"])
def test_division(cases, name):
    case, dtype = Case(cases, "division"), np.dtype(name)
    grid = np.arange(16) if dtype.kind == "u" else np.arange(-8, 8)
    a, b = (x.reshape(-1).astype(dtype) for x in np.meshgrid(grid * 3 + 1, grid))
    if dtype.kind == "i":
        a[0], b[0] = np.iinfo(dtype).min, -1  # wraps
    t = {**case.zeros(f"tc_division_{name}"), "A": torch.from_numpy(a), "B": torch.from_numpy(b)}
    case.run(f"tc_division_{name}", t)

    def euclidean(x, y):
        """The remainder is in [0, |y|); by zero both are zero."""
        return (0, 0) if y == 0 else ((x - x % abs(y)) // y, x % abs(y))

    def truncated(x, y):
        q = 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        return q, 0 if y == 0 else x - q * y

    odd = 3 if dtype.kind == "u" else -3
    rows = [[] for _ in range(10)]
    for x, y in zip(a.tolist(), b.tolist()):
        pairs = [
            euclidean(x, y),
            truncated(x, y),
            euclidean(x, 8),
            euclidean(x, 7),
            euclidean(x, odd),
        ]
        for row, value in zip(rows, [v for pair in pairs for v in pair]):
            row.append(value % 2**64)
    expected = np.array(rows, dtype=np.uint64).astype(dtype)
    np.testing.assert_array_equal(t["C"].numpy().reshape(10, 256), expected)


def test_division_of_indices_is_plain(cases):
    case = Case(cases, "division")
    t = case.zeros("tc_division_indices")
    case.run("tc_division_indices", t)
    same(
        t["C"],
        torch.tensor(
            [sum((i * 3 + k) // 5 % 7 for k in range(3)) for i in range(64)], dtype=torch.int32
        ),
    )
    text = (cases / "division.cu").read_text()
    assert "(tx * 3 + k) / 5 % 7" in text


def test_control(cases):
    case = Case(cases, "control")
    a = uniform(64)
    a[5] = math.nan
    t = {**case.zeros("tc_control"), "A": a}
    case.run("tc_control", t)
    i = torch.arange(64)
    before, after, four = a.roll(1), a.roll(-1), a.roll(4)
    quarter = torch.tensor(0.25)
    expected = [
        2 * a + (2 * a + 1) * 3,
        torch.where(i < 8, 1.0, torch.where(i < 16, 2.0, torch.where(i < 32, 3.0, 4.0))),
        torch.where(i >= 1, before + before, a),
        torch.where(i < 63, after, a),
        torch.where(((i > 3) & (four > 0)) | (i == 2) | ~(i < 60), 5.0, 6.0),
        torch.minimum(a, quarter),
        torch.maximum(quarter, a),
        (i + 1).float(),
    ]
    same(t["C"].reshape(8, 64), torch.stack(expected))


def test_literals_and_names(cases):
    case = Case(cases, "control")
    t = case.zeros("tc_literals")
    case.run("tc_literals", t)
    inf, nan = math.inf, math.nan
    same(t["f"], torch.tensor([0.1, 1e-45, 3.4028234663852886e38, inf, -inf, nan, -0.0]))
    assert math.copysign(1, t["f"][6].item()) == -1
    same(t["d"], torch.tensor([0.1, 5e-324, 3, -inf, nan], dtype=torch.float64))
    assert t["i"].tolist() == [-(2**31), -7, 7]
    assert t["l"].tolist() == [-(2**63), 2**63 - 1, 2**40]
    assert t["u"].numpy()[0] == 2**64 - 1
    same(t["h"], torch.tensor([0.333251953125, -inf, 65504], dtype=torch.float16))

    names = ["a_b", "threadIdx", "tx", "expf", "__x"]
    t = {**case.zeros("tc_names"), **{n: uniform(32, seed=k) for k, n in enumerate(names)}}
    case.run("tc_names", t)
    expected = t["a_b"] + t["threadIdx"] + t["tx"] + t["expf"].exp() + t["__x"]
    torch.testing.assert_close(t["a.b"], expected)


#: Words of C++ and CUDA that the language knows nothing of: types, functions, macros.
WORDS = [
    *("threadIdx", "blockDim", "warpSize", "int4", "float2", "dim3", "size_t", "template"),
    *("this", "and", "xor_eq", "linux", "typeof", "assert", "errno", "STD", "NAN", "INFINITY"),
    *("NULL", "memcpy", "atomicAdd", "tc", "tc_shared", "report", "kernel", "bits"),
    *("__restrict__", "__shared__", "__x", "cudaStreamDefault", "CUDART_VERSION"),
    *("CU_UUID_HAS_BEEN_DEFINED", "NV_NO_TARGET", "va_start"),
]


def test_words_of_cuda_as_names():
    """NVRTC and the compiler of the emulator take the texts, which compute the same."""
    every = [f"float(N) {name}" for name in WORDS]
    inputs = f"def f({', '.join(every)}) -> (o) {{ o(i) = {'(i) + '.join(WORDS)}(i) }}"
    every = [f"float {name}" for name in WORDS]
    total = " + ".join(WORDS)
    scalars = f"def f({', '.join(every)}, float(N) x) -> (o) {{ o(i) = x(i) * ({total}) }}"
    results = ", ".join(f"o{k}" for k in range(len(WORDS)))
    sums = " ".join(f"o{k}(i) +=! x(i, {name})" for k, name in enumerate(WORDS))
    indices = f"def f(float(N, N) x) -> ({results}) {{ {sums} }}"
    chain = " ".join(
        f"{name}(i) max=! {before}(j) - x(i)" for before, name in zip(["x", *WORDS], WORDS)
    )
    temporaries = f"def f(float(N) x) -> (o) {{ {chain} o(i) = {WORDS[-1]}(i) }}"

    x, square = torch.arange(40.0), torch.arange(1600.0).reshape(40, 40)
    numbers = [float(k) for k in range(len(WORDS))]
    maxima = x
    for _ in WORDS:
        maxima = maxima.max() - x
    for text, given, wanted in (
        (inputs, [x + k for k in numbers], [len(WORDS) * x + sum(numbers)]),
        (scalars, [*numbers, x], [x * sum(numbers)]),
        (indices, [square], [square.sum(1)] * len(WORDS)),
        (temporaries, [x], [maxima]),
    ):
        executor = tc.compile(text, "f", None, *given, target="cuda:sm_90")
        outputs = emulated.make_outputs(executor, tuple(given))
        emulated.run(executor, tuple(given), outputs)
        for found, expected in zip(outputs, wanted, strict=True):
            same(found, expected)


# What a builtin is where torch has no function of its name or another meaning.
BUILTINS = {
    "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
    "erfcinv": lambda x: torch.special.erfinv(1 - x),
    "erfcx": torch.special.erfcx,
    "erfinv": torch.special.erfinv,
    "jn": lambda n, x: torch.from_numpy(scipy.special.jn(n.numpy(), x.numpy())),
    "normcdfinv": torch.special.ndtri,
    "yn": lambda n, x: torch.from_numpy(scipy.special.yn(n.numpy(), x.numpy())),
    "cbrt": lambda x: x.sign() * x.abs() ** (1 / 3),
    "exp10": lambda x: 10**x,
    "fabs": torch.abs,
    "fdim": lambda x, y: (x - y).clamp(min=0),
    "fma": lambda x, y, z: x * y + z,
    "isinf": lambda x: x.isinf().to(x.dtype),
    "isnan": lambda x: x.isnan().to(x.dtype),
    "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1,
    "logb": lambda x: x.abs().log2().floor(),
    "remainder": lambda x, y: x - y * (x / y).round(),
    "rint": torch.round,
    "round": lambda x: x.sign() * (x.abs() + 0.5).floor(),
    "tgamma": lambda x: x.lgamma().exp(),
    "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1,
}
DOMAINS = {
    "acosh": (1, 3),
    "lgamma": (0.5, 4),
    "tgamma": (0.5, 4),
    "rsqrt": (0.1, 4),
    "sqrt": (0, 4),
    "pow": (0.1, 3),
    "log": (0.1, 4),
    "log10": (0.1, 4),
    "log2": (0.1, 4),
    "log1p": (-0.5, 4),
    "atanh": (-0.9, 0.9),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "erfcinv": (0.2, 1.8),
    "erfinv": (-0.9, 0.9),
    "normcdfinv": (0.1, 0.9),
    "jn": (0.5, 6),
    "yn": (0.5, 6),
    "y0": (0.1, 4),
    "y1": (0.1, 4),
}


@pytest.mark.parametrize("name", ["float32", "float64", "float16"])
def test_math(cases, name):
    case, dtype, kernel = Case(cases, "math"), DTYPES[name], f"tc_math_{name}"
    functions = case.description["builtins"]
    x = uniform(len(functions), 3, 32, dtype=torch.float64)
    for k, function in enumerate(functions):
        low, high = DOMAINS.get(function, (-3, 3))
        x[k] = (low + high) / 2 + x[k] * (high - low) / 2
        if function in ("isnan", "isinf"):
            x[k, 0, :3] = torch.tensor([math.nan, math.inf, -math.inf])
        if function in ("fmin", "fmax"):  # they ignore NaN
            x[k, 0, 0] = x[k, 1, 1] = math.nan
    x = x.to(dtype)
    t = {**case.zeros(kernel), "X": x}
    case.run(kernel, t)
    actual = t["C"].reshape(len(functions), 32)
    tolerance = {"float32": 2e-6, "float64": 1e-12, "float16": 2e-3}[name]
    for k, function in enumerate(functions):
        reference = BUILTINS.get(function) or getattr(torch, function, None)
        arity = {
            "atan2": 2,
            "copysign": 2,
            "fdim": 2,
            "fma": 3,
            "fmax": 2,
            "fmin": 2,
            "fmod": 2,
            "hypot": 2,
            "jn": 2,
            "yn": 2,
            "nextafter": 2,
            "pow": 2,
            "remainder": 2,
        }.get(function, 1)
        assert reference is not None, f"no reference for the builtin {function}"
        values = list(x[k, :arity].double())
        if function in ("jn", "yn"):
            values[0] = values[0].trunc()
        expected = reference(*values)
        allowed = tolerance
        if function in (
            "j0",
            "j1",
            "y0",
            "y1",
            "cyl_bessel_i0",
            "cyl_bessel_i1",
        ):  # torch's have fewer digits
            allowed = max(tolerance, 1e-9)
        torch.testing.assert_close(
            actual[k].double(),
            expected,
            rtol=allowed,
            atol=allowed,
            equal_nan=True,
            msg=lambda m, f=function: f"{f}: {m}",
        )


def test_intrinsics(cases):
    case = Case(cases, "intrinsics")
    a = torch.cat(
        [torch.tensor([0, 1, -1, 7, -(2**31), 2**31 - 1]), torch.randint(-1000, 1000, (58,))]
    ).to(torch.int32)
    x = uniform(64) * 20
    x[:4] = torch.tensor([0.5, 1.5, -2.5, math.nan])
    u = torch.arange(0, 256, 4).to(torch.uint8)
    t = {**case.zeros("tc_intrinsics"), "A": a, "X": x, "U": u}
    case.run("tc_intrinsics", t)
    n = a.numpy().astype(np.int64)
    expected = np.array([n & 7, n | 7, n ^ 7, ~n, n << 3, n >> 3, x.numpy().view(np.int32)])
    np.testing.assert_array_equal(t["I"].numpy().reshape(7, 64), expected.astype(np.int32))
    same(t["F"], a.view(torch.float32))
    v = u.numpy().astype(np.int64)
    np.testing.assert_array_equal(
        t["B"].numpy().reshape(2, 64), np.array([255 - v, v << 3]).astype(np.uint8)
    )


def test_chain_of_launches(cases):
    case = Case(cases, "chain")
    t = {
        "A": uniform(100),
        "T": torch.full((100,), math.nan),
        "C": torch.zeros(100),
        "n": 3,
        "h": 0.5,
    }
    case.run("tc_chain_0", t)
    case.run("tc_chain_1", t)
    same(t["C"], t["A"] * t["A"] + 0.5 + 3)
