"""Windows padded by a condition in the text against PyTorch's convolutions and pooling.

python benchmarks/padding.py [PART OF A NAME ...]

Kernels are our own, without library calls. Beside them, as variants: the same window over an image
that is padded already, which is what the condition costs.
"""

from __future__ import annotations

import argparse

import command
import torch
import torch.nn.functional as F
from harness import Row, Rows
from peers import Function, torch_peers

import tensor_comprehensions as tc

OURS = tc.MappingOptions().matchLibraryCalls(False)
# Images, channels, filters, size, kernel, stride.
CONVOLUTIONS = (
    (1, 3, 64, 224, 7, 2),
    (1, 64, 64, 56, 3, 1),
    (1, 64, 64, 56, 3, 2),
    (1, 128, 128, 28, 3, 1),
    (1, 256, 256, 14, 3, 1),
    (1, 512, 512, 7, 3, 1),
    (8, 32, 48, 27, 5, 1),
)
TEXTS = """
def padded(float(N,C,H,W) I, float(M,C,KH,KW) K) -> (O) {{
  O(n,m,h,w) +=! (y >= {p} && y < H + {p} && x >= {p} && x < W + {p}
                  ? I(n, c, y - {p}, x - {p}) : 0.0) * K(m,c,kh,kw)
    where y = {s}*h + kh, x = {s}*w + kw, h in 0:{out}, w in 0:{out}, kh in 0:KH, kw in 0:KW
}}
def plain(float(N,C,H,W) I, float(M,C,KH,KW) K) -> (O) {{
  O(n,m,h,w) +=! I(n, c, {s}*h + kh, {s}*w + kw) * K(m,c,kh,kw) where h in 0:{out}, w in 0:{out}
}}
"""
POOLING = """
def pooled(float(N,C,H,W) I) -> (O) {
  O(n,c,h,w) max=! y >= 1 && y < H + 1 && x >= 1 && x < W + 1 ? I(n, c, y - 1, x - 1) : -3e38
    where y = 2*h + kh, x = 2*w + kw, h in 0:56, w in 0:56, kh in 0:3, kw in 0:3
}
"""


def channels_last(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(x.contiguous(memory_format=torch.channels_last) for x in inputs)


def convolution(geometry: tuple[int, ...], options: argparse.Namespace) -> Row:
    n, c, m, size, kernel, stride = geometry
    padding = kernel // 2
    out = (size + 2 * padding - kernel) // stride + 1
    image, filters = torch.randn(n, c, size, size), torch.randn(m, c, kernel, kernel)
    around = F.pad(image, (padding,) * 4)
    text = TEXTS.format(p=padding, s=stride, out=out)
    t = tc.define(text, OURS, namespace=f"tc_padding_{n}_{c}_{size}_{stride}")

    def reference(image: torch.Tensor, filters: torch.Tensor) -> torch.Tensor:
        return F.conv2d(image, filters, padding=padding, stride=stride)

    functions = {"ATen": reference, "channels last": Function(reference, channels_last)}
    return Row(
        lambda: t.padded(image, filters),
        lambda: torch_peers(functions, (image, filters), (1,), options.compiled),
        variants={"no condition": lambda: t.plain(around, filters)},
    )


def pooling(options: argparse.Namespace) -> Row:
    image = torch.randn(8, 64, 112, 112)
    t = tc.define(POOLING, OURS, namespace="tc_padding_pool")

    def reference(image: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(image, 3, 2, padding=1)

    functions = {"ATen": reference, "channels last": Function(reference, channels_last)}
    return Row(
        lambda: t.pooled(image),
        lambda: torch_peers(functions, (image,), with_compilers=options.compiled),
    )


def rows(options: argparse.Namespace) -> Rows:
    for geometry in CONVOLUTIONS:
        _, c, m, size, kernel, stride = geometry
        name = f"{kernel}x{kernel} {c}->{m}@{size}" + (f" stride {stride}" if stride > 1 else "")
        yield name, lambda geometry=geometry: convolution(geometry, options)
    yield "max pooling 3x3 64@112 stride 2", lambda: pooling(options)


def arguments() -> argparse.ArgumentParser:
    return command.parser(__doc__, threads=(1, 2))


if __name__ == "__main__":
    command.main("padding", rows, arguments())
