"""Convolutions of whole networks, forward and backward, against ATen: cliffs would show here.

python benchmarks/layers.py [PART OF A NAME ...] [--batch 1 16] [--threads 1]

Every distinct layer of ResNet-50 (He et al., "Deep Residual Learning for Image Recognition", table
1) by `general_convolution`, and layers of MobileNetV2 (Sandler et al., table 2) whose filters have
one channel each. Kernels are our own, without library calls. Backward are the gradients of all
inputs, derived by the compiler.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import command
import torch
import torch.nn.functional as F
from harness import Row, Rows
from peers import Function, backward_peers, torch_peers

import tensor_comprehensions as tc

OURS = tc.MappingOptions().matchLibraryCalls(False)
# Channels, filters, size, kernel, stride.
RESNET = (
    (3, 64, 224, 7, 2),
    (64, 64, 56, 1, 1),
    (64, 64, 56, 3, 1),
    (64, 256, 56, 1, 1),
    (256, 64, 56, 1, 1),
    (256, 128, 56, 1, 1),
    (128, 128, 56, 3, 2),
    (128, 512, 28, 1, 1),
    (256, 512, 56, 1, 2),
    (512, 128, 28, 1, 1),
    (128, 128, 28, 3, 1),
    (512, 256, 28, 1, 1),
    (256, 256, 28, 3, 2),
    (256, 1024, 14, 1, 1),
    (512, 1024, 28, 1, 2),
    (1024, 256, 14, 1, 1),
    (256, 256, 14, 3, 1),
    (1024, 512, 14, 1, 1),
    (512, 512, 14, 3, 2),
    (512, 2048, 7, 1, 1),
    (1024, 2048, 14, 1, 2),
    (2048, 512, 7, 1, 1),
    (512, 512, 7, 3, 1),
)
# Channels, size, stride; kernels of 3 x 3.
MOBILENET = (
    (32, 112, 1),
    (96, 112, 2),
    (144, 56, 1),
    (144, 56, 2),
    (192, 28, 1),
    (384, 14, 1),
    (576, 14, 2),
    (960, 7, 1),
)
DEPTHWISE = """
def depthwise(float(N,C,H,W) I, float(C,KH,KW) K) -> (O) {{
  padded(n,c,h,w) = h >= 1 && h <= H && w >= 1 && w <= W ? I(n, c, h - 1, w - 1) : 0.0
    where h in 0:H + 2, w in 0:W + 2
  O(n,c,h,w) +=! padded(n, c, {stride}*h + kh, {stride}*w + kw) * K(c,kh,kw)
}}
"""


def reference(stride: int, padding: int) -> Callable[..., torch.Tensor]:
    def convolve(*tensors: torch.Tensor) -> torch.Tensor:
        if tensors[1].dim() == 4:
            return F.conv2d(*tensors, stride, padding)
        image, filters = tensors
        return F.conv2d(image, filters[:, None], None, stride, padding, groups=image.shape[1])

    return convolve


def channels_last(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(
        x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x for x in tensors
    )


def forward(
    operator: Callable, tensors: tuple, numbers: tuple, geometry: tuple, compiled: bool
) -> Row:
    convolve = reference(*geometry)
    functions = {"ATen": convolve, "channels last": Function(convolve, channels_last)}
    weights = range(1, len(tensors))
    return Row(
        lambda: operator(*tensors, *numbers),
        lambda: torch_peers(functions, tensors, weights, compiled),
    )


def backward(
    operator: Callable, tensors: tuple, numbers: tuple, geometry: tuple, compiled: bool
) -> Row:
    convolve = reference(*geometry)
    leaves = tuple(t.clone().requires_grad_() for t in tensors)
    result = tc.make_autograd(operator)(*leaves, *numbers)
    gradient = torch.randn_like(result) / result.shape[0]

    def derive() -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(result, leaves, gradient, retain_graph=True)

    functions = {"ATen": convolve, "channels last": Function(convolve, channels_last)}
    return Row(
        derive,
        lambda: backward_peers(functions, leaves, [gradient], compiled),
        tolerance=1e-3,
    )


def rows(options: argparse.Namespace) -> Rows:
    for batch in options.batch:
        for channels, filters, size, kernel, stride in RESNET:
            name = f"{kernel}x{kernel} {channels}->{filters}@{size}/{stride}, {batch}"
            padding = kernel // 2

            def general(
                part: Callable[..., Row],
                sizes: tuple = (batch, channels, filters, size, kernel, stride, padding),
            ) -> Row:
                n, c, m, size, kernel, stride, padding = sizes
                t = tc.define(tc.ops.source("general_convolution"), OURS, namespace="tc_layers")
                tensors = (
                    torch.randn(n, c, size, size),
                    torch.randn(m, c, kernel, kernel) * (c * kernel * kernel) ** -0.5,
                    torch.randn(m),
                )
                numbers = (stride, stride, padding, padding, 1, 1)
                given = (t.general_convolution, tensors, numbers, (stride, padding))
                return part(*given, options.compiled)

            yield f"{name}, forward", lambda make=general: make(forward)
            yield f"{name}, backward", lambda make=general: make(backward)
        for channels, size, stride in MOBILENET:
            name = f"depthwise {channels}@{size}/{stride}, {batch}"

            def depthwise(
                part: Callable[..., Row], sizes: tuple = (batch, channels, size, stride)
            ) -> Row:
                n, c, size, stride = sizes
                text = DEPTHWISE.format(stride=stride)
                t = tc.define(text, OURS, namespace=f"tc_layers_depthwise_{stride}")
                tensors = torch.randn(n, c, size, size), torch.randn(c, 3, 3) / 3
                return part(t.depthwise, tensors, (), (stride, 1), options.compiled)

            yield f"{name}, forward", lambda make=depthwise: make(forward)
            yield f"{name}, backward", lambda make=depthwise: make(backward)


def arguments() -> argparse.ArgumentParser:
    parser = command.parser(__doc__)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16])
    return parser


if __name__ == "__main__":
    command.main("layers", rows, arguments(), partial=lambda options: options.batch != [1, 16])
