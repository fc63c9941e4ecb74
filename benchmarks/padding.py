"""Windows padded by a condition in the text against PyTorch's convolutions and pooling.

python benchmarks/padding.py [PART OF A NAME ...]

Kernels are our own, without library calls. Beside them, as variants: the same window over an image
that is padded already, which is what the condition costs.
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from harness import compare, print_comparison, save, use_same_memory

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


def convolution(n: int, c: int, m: int, size: int, kernel: int, stride: int) -> tuple:
    padding = kernel // 2
    out = (size + 2 * padding - kernel) // stride + 1
    image, filters = torch.randn(n, c, size, size), torch.randn(m, c, kernel, kernel)
    around = F.pad(image, (padding,) * 4)
    name = f"{kernel}x{kernel} {c}->{m}@{size}" + (f" stride {stride}" if stride > 1 else "")
    text = TEXTS.format(p=padding, s=stride, out=out)
    t = tc.define(text, OURS, namespace=f"tc_padding_{n}_{c}_{size}_{stride}")
    return (
        name,
        lambda: t.padded(image, filters),
        lambda: F.conv2d(image, filters, padding=padding, stride=stride),
        {"no condition": lambda: t.plain(around, filters)},
    )


def pooling() -> tuple:
    image = torch.randn(8, 64, 112, 112)
    t = tc.define(POOLING, OURS, namespace="tc_padding_pool")
    return (
        "max pooling 3x3 64@112 stride 2",
        lambda: t.pooled(image),
        lambda: F.max_pool2d(image, 3, 2, padding=1),
        {},
    )


def main() -> None:
    use_same_memory()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of what to run")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    comparisons = []
    for name, ours, reference, variants in (*(convolution(*s) for s in CONVOLUTIONS), pooling()):
        if arguments.names and not any(part in name for part in arguments.names):
            continue
        found = compare(
            name, ours, {"ATen": reference}, variants=variants, threads=arguments.threads
        )
        comparisons += found
        for comparison in found:
            print_comparison(comparison)
    print("saved", save("padding", comparisons))


if __name__ == "__main__":
    main()
