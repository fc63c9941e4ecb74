"""What `paper.py` measures: texts, inputs, the same in PyTorch, and the ratio that is asked for.

Sizes are those of the papers. JAX's versions are in `jax_references.py`, by the case's `kind`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from convolutions import Convolution
from peers import Function
from workloads import WORKLOADS, Tensors, convolution_workloads, floats, indices

# Rows of a lookup table: the paper's ten million would not fit beside its copies.
ROWS = 1_000_000

# Images of four.
CONVOLUTIONS = [
    Convolution(4, 64, 64, 56, kernel=3),
    Convolution(4, 128, 128, 28, kernel=3),
    Convolution(4, 256, 256, 14, kernel=3),
    Convolution(4, 512, 512, 7, kernel=3),
    Convolution(4, 128, 128, 56, kernel=3, stride=2),
    Convolution(4, 64, 256, 56, kernel=1),
    Convolution(4, 256, 64, 56, kernel=1),
    Convolution(4, 512, 128, 28, kernel=1),
    Convolution(4, 1024, 256, 14, kernel=1),
    Convolution(4, 2048, 512, 7, kernel=1),
]


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    name: str
    kind: str
    text: str
    entry: str
    inputs: Callable[[], tuple]
    # Computes the outputs of the text in order; torch.compile gets it too.
    reference: Callable[..., Tensors]
    # The least ratio asked of our own kernels on one thread; None where none is.
    target: float | None
    figure: str = ""
    # What a user who knows PyTorch well would call instead, by name.
    alternatives: dict[str, Function] = field(default_factory=dict)
    # The places of the inputs that are the weights of a layer, and could be packed once.
    weights: tuple[int, ...] = ()


def into(function: Callable[..., Tensors]) -> Function:
    """`function(out, *inputs)` that writes into given tensors: those of its first call, which gets
    None."""
    kept: list[Tensors | None] = [None]

    def call(*inputs: torch.Tensor) -> Tensors:
        kept[0] = function(kept[0], *inputs)
        return kept[0]

    return Function(call, compiled=False)


def product_into(
    multiply: Callable[..., torch.Tensor], transposed: bool
) -> Callable[[Tensors | None, torch.Tensor, torch.Tensor], Tensors]:
    """A product, of the second operand transposed or as it is."""

    def call(out: Tensors | None, a: torch.Tensor, b: torch.Tensor) -> Tensors:
        b = b.transpose(-1, -2) if transposed else b
        return (multiply(a, b, out=out[0] if out else None),)

    return call


def mlp_into(out: Tensors | None, i: torch.Tensor, *weights: torch.Tensor) -> Tensors:
    """Layers of addmm and relu."""
    results = []
    for k in range(0, len(weights), 2):
        w, b = weights[k : k + 2]
        i = torch.addmm(b, i, w.t(), out=out[k // 2] if out else None).relu_()
        results.append(i)
    return tuple(results)


def embedding_bag(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return F.embedding_bag(index, table, mode="sum")


def native_group_norm(i: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> Tensors:
    """The sums follow from the means and deviations that PyTorch's kernel keeps anyway."""
    n, g, d, h, w = i.shape
    size = d * h * w
    out, mean, deviation = torch.native_group_norm(
        i, gamma.flatten(), beta.flatten(), n, g * d, h * w, g, 1e-5
    )
    return out, mean * size, (deviation**-2 - 1e-5 + mean**2) * size


def var_mean(i: torch.Tensor) -> Tensors:
    variance, mean = torch.var_mean(i, 1, correction=0)
    return mean, variance


def moments_by_squares(i: torch.Tensor) -> Tensors:
    """E[x^2] - mean^2, as the text has it."""
    mean = i.mean(1)
    return mean, (i * i).mean(1) - mean * mean


def moments_by_norm(i: torch.Tensor) -> Tensors:
    """The same with the sum of squares in one pass and no product that is stored."""
    mean = i.mean(1)
    return mean, torch.linalg.vector_norm(i, 2, 1).square() / i.shape[1] - mean * mean


def layer_norm_of_rows(i: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> Tensors:
    return (torch.native_layer_norm(i, gamma.shape, gamma, beta, 1e-5)[0],)


def grouped_channels_last() -> Function:
    """Images N x (G C) x H x W whose channels are next to each other in memory."""

    def prepare(i: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple:
        image = i.flatten(1, 2).contiguous(memory_format=torch.channels_last)
        filters = w.flatten(0, 1).contiguous(memory_format=torch.channels_last)
        return image, filters, b.flatten()

    def call(image: torch.Tensor, filters: torch.Tensor, b: torch.Tensor) -> Tensors:
        groups = image.shape[1] // filters.shape[1]
        return (F.conv2d(image, filters, b, groups=groups).unflatten(1, (groups, -1)),)

    return Function(call, prepare)


def channels_last(function: Callable[..., Tensors]) -> Function:
    """Images and filters whose channels are next to each other in memory."""

    def prepare(*inputs: torch.Tensor) -> tuple:
        return tuple(x.contiguous(memory_format=torch.channels_last) for x in inputs)

    return Function(function, prepare)


def kronecker_matmul(
    w0: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, x: torch.Tensor
) -> Tensors:
    xw2 = x @ w2.t()
    xw2w1 = w1 @ xw2
    m, n0, d1, d2 = xw2w1.shape
    return (w0 @ xw2w1.view(m, n0, d1 * d2)).view(m, -1, d1, d2), xw2, xw2w1


def addmm_relu(i: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Tensors:
    return (torch.addmm(b, i, w.t()).relu_(),)


def _group_convolution(n: int, g: int, c: int, size: int) -> Callable[[], tuple]:
    return lambda: (floats(n, g, c, size, size), floats(g, c, c, 3, 3), floats(g, c))


def _workload_case(
    name: str, workload: str, inputs: Callable[[], tuple], target: float | None, **extra: object
) -> Case:
    """A text that the tests have at small sizes."""
    found = next(w for w in WORKLOADS if w.name == workload)
    return Case(name, workload, found.text, found.entry, inputs, found.reference, target, **extra)


def _bags(pairs: int) -> Callable[..., Tensors]:
    return lambda *a: tuple(embedding_bag(a[2 * k], a[2 * k + 1]) for k in range(pairs))


def _product_case(
    name: str, workload: str, inputs: Callable[[], tuple], target: float | None, **extra: object
) -> Case:
    """A product of two operands, which PyTorch can write into a given tensor."""
    multiply = torch.bmm if workload in ("tbmm", "bmm") else torch.mm
    call = product_into(multiply, transposed=workload in ("tmm", "tbmm", "C3"))
    return _workload_case(
        name, workload, inputs, target, alternatives={"out=": into(call)}, **extra
    )


def _paper_cases() -> list[Case]:
    weights = {"weights": (1,)}
    return [
        _product_case(name, workload, inputs, target, figure=figure, **extra)
        for name, workload, inputs, target, figure, extra in (
            (
                *("tmm 128x32x256", "tmm"),
                *(lambda: (floats(128, 32), floats(256, 32)), 1.15, "5", weights),
            ),
            (
                *("tmm 128x1024x1024", "tmm"),
                *(lambda: (floats(128, 1024), floats(1024, 1024)), 0.95, "5", weights),
            ),
            (
                *("tmm 128x4096x16384", "tmm"),
                *(lambda: (floats(128, 4096), floats(16384, 4096)), 1.05, "5", weights),
            ),
            (
                *("tbmm 500x26x72x26", "tbmm"),
                *(lambda: (floats(500, 26, 72), floats(500, 26, 72)), 1.5, "5", {}),
            ),
            (
                *("C3", "C3"),
                *(lambda: (floats(128, 1000), floats(1024, 1000)), 0.95, "6", weights),
            ),
        )
    ] + [
        *(
            _workload_case(
                *(f"gconv {channels}x{size}", "gconv"),
                *(_group_convolution(32, 32, channels, size), target),
                figure="5",
                alternatives={"channels last": grouped_channels_last()},
                weights=(1, 2),
            )
            for channels, size, target in ((4, 56, 2.5), (8, 28, 1.6), (16, 14, 1.1), (32, 7, 1.1))
        ),
        _workload_case(
            *("1LUT", "1LUT", lambda: (floats(ROWS, 64), indices(ROWS, 128, 50)), 1.3),
            figure="6",
            alternatives={"embedding_bag": Function(_bags(1))},
        ),
        _workload_case(
            *("2LUT", "2LUT"),
            lambda: (
                *(floats(ROWS, 64), indices(ROWS, 128, 50)),
                *(floats(ROWS, 64), indices(ROWS, 128, 50)),
            ),
            1.3,
            figure="6",
            alternatives={"embedding_bag": Function(_bags(2))},
        ),
        _workload_case(
            *("MLP1", "MLP1", lambda: (floats(128, 2000), floats(128, 2000), floats(128)), 0.95),
            figure="6",
            alternatives={"relu in place": Function(addmm_relu), "out=": into(mlp_into)},
            weights=(1, 2),
        ),
        _workload_case(
            *("MLP3", "MLP3"),
            lambda: (
                *(floats(128, 128), floats(64, 128), floats(64), floats(32, 64)),
                *(floats(32), floats(2, 32), floats(2)),
            ),
            1.5,
            figure="6",
            alternatives={"out=": into(mlp_into)},
            weights=(1, 2, 3, 4, 5, 6),
        ),
    ]


def _normalization_cases() -> list[Case]:
    return [
        _workload_case(
            *("group normalization", "group_normalization"),
            lambda: (floats(32, 32, 16, 48, 48), floats(32, 16), floats(32, 16)),
            1.05,
            alternatives={"native_group_norm": Function(native_group_norm)},
        ),
        _workload_case(
            *("moments 1024x36864", "moments2_2D_1D", lambda: (floats(1024, 36864),), 1.15),
            alternatives={
                "var_mean": Function(var_mean),
                "squares": Function(moments_by_squares),
                "norm": Function(moments_by_norm),
            },
        ),
        _workload_case(
            *("softmax 4096x1024", "softmax", lambda: (floats(4096, 1024),), 1.15),
            alternatives={"out=": into(lambda out, i: (torch.softmax(i, 1, out=out and out[0]),))},
        ),
        _workload_case(
            *("layer normalization 4096x768", "layer_normalization"),
            lambda: (floats(4096, 768), floats(768), floats(768)),
            1.15,
            alternatives={"native_layer_norm": Function(layer_norm_of_rows)},
        ),
        _workload_case(
            *("Kronecker 256x32^3", "kronecker3"),
            lambda: (*(floats(16, 32) for _ in range(3)), floats(256, 32, 32, 32)),
            1.15,
            alternatives={"matmul": Function(kronecker_matmul)},
            weights=(0, 1, 2),
        ),
    ]


def _convolution_cases(layer: Convolution) -> list[Case]:
    """ResNet-50's layers and their gradients."""
    stride = f"/{layer.stride}" if layer.stride > 1 else ""
    shape = f"{layer.kernel}x{layer.kernel} {layer.c}->{layer.f}@{layer.size}{stride}"
    rows = (
        ("convolution", 0.9, (1,)),
        ("input gradient", 0.85, (1,)),
        ("weight gradient", 0.85, ()),
    )
    return [
        Case(
            *(f"{what} {shape}", f"{what} {layer.kernel} {layer.stride}"),
            *(w.text, w.entry, w.inputs, w.reference, target),
            alternatives={"channels last": channels_last(w.reference)},
            weights=weights,
        )
        for (what, target, weights), w in zip(rows, convolution_workloads(layer), strict=True)
    ]


def _dynamic_cases() -> list[Case]:
    """FTuner's dense layer and the product of queries and keys, at lengths T."""
    dense = [
        _product_case(
            *(f"dense T={t}", "dense", lambda t=t: (floats(t, 768), floats(768, 2304)), 1.2),
            weights=(1,),
        )
        for t in (5, 24, 43)
    ]
    queries = [
        _product_case(
            *(f"QK T={t}", "bmm", lambda t=t: (floats(12, t, 64), floats(12, 64, t)), 1.2)
        )
        for t in (43, 81)
    ]
    return dense + queries


def _other_cases() -> list[Case]:
    """Products with the other operand contiguous, and square ones: no ratio is asked for."""
    return [
        _product_case(
            *("mm 128x1024x1024", "mm", lambda: (floats(128, 1024), floats(1024, 1024)), None),
            weights=(1,),
        ),
        _product_case(
            *("mm 1024x1024x1024", "mm", lambda: (floats(1024, 1024), floats(1024, 1024)), None),
            weights=(1,),
        ),
    ]


CASES = [
    *_paper_cases(),
    *_normalization_cases(),
    *(case for layer in CONVOLUTIONS for case in _convolution_cases(layer)),
    *_dynamic_cases(),
    *_other_cases(),
]
