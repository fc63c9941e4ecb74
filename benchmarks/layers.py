"""Convolutions of whole networks, forward and backward, against ATen: cliffs would show here.

python benchmarks/layers.py [--batch 1 16] [--threads 1] [PART OF A NAME ...]

Every distinct layer of ResNet-50 (He et al., "Deep Residual Learning for Image Recognition", table
1) by `general_convolution`, and layers of MobileNetV2 (Sandler et al., table 2) whose filters have
one channel each. Kernels are our own, without library calls. Backward are the gradients of all
inputs, derived by the compiler.
"""

from __future__ import annotations

import argparse
import statistics

import torch
import torch.nn.functional as F
from harness import compare, print_comparison, save, use_same_memory

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


def cases(batch: int) -> list[tuple]:
    """Name, operator, its tensors, its numbers, the same of ATen."""
    found = []
    t = tc.define(tc.ops.source("general_convolution"), OURS, namespace="tc_layers")
    for channels, filters, size, kernel, stride in RESNET:
        padding = kernel // 2
        scale = (channels * kernel * kernel) ** -0.5
        tensors = (
            torch.randn(batch, channels, size, size),
            torch.randn(filters, channels, kernel, kernel) * scale,
            torch.randn(filters),
        )
        numbers = (stride, stride, padding, padding, 1, 1)
        name = f"{kernel}x{kernel} {channels}->{filters}@{size}/{stride}, {batch}"
        found.append((name, t.general_convolution, tensors, numbers, (stride, padding)))
    for channels, size, stride in MOBILENET:
        d = tc.define(
            DEPTHWISE.format(stride=stride), OURS, namespace=f"tc_layers_depthwise_{stride}"
        )
        tensors = torch.randn(batch, channels, size, size), torch.randn(channels, 3, 3) / 3
        name = f"depthwise {channels}@{size}/{stride}, {batch}"
        found.append((name, d.depthwise, tensors, (), (stride, 1)))
    return found


def reference(tensors: tuple[torch.Tensor, ...], stride: int, padding: int) -> torch.Tensor:
    if tensors[1].dim() == 4:
        return F.conv2d(*tensors, stride, padding)
    image, filters = tensors
    return F.conv2d(image, filters[:, None], None, stride, padding, groups=image.shape[1])


def measure(case: tuple, threads: list[int]) -> list:
    name, operator, tensors, numbers, geometry = case
    found = compare(
        f"{name}, forward",
        lambda: operator(*tensors, *numbers),
        {"ATen": lambda: reference(tensors, *geometry)},
        threads=threads,
        rounds=7,
    )
    leaves = tuple(t.clone().requires_grad_() for t in tensors)
    ours = tc.make_autograd(operator)(*leaves, *numbers)
    theirs = reference(leaves, *geometry)
    gradient = torch.randn_like(theirs) / theirs.shape[0]

    def backward(result: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(result, leaves, gradient, retain_graph=True)

    return found + compare(
        f"{name}, backward",
        lambda: backward(ours),
        {"ATen": lambda: backward(theirs)},
        threads=threads,
        rounds=7,
        tolerance=1e-3,
    )


def main() -> None:
    use_same_memory()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of the names of what to run")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    arguments = parser.parse_args()
    comparisons = []
    for batch in arguments.batch:
        for case in cases(batch):
            if arguments.names and not any(part in case[0] for part in arguments.names):
                continue
            for comparison in measure(case, arguments.threads):
                print_comparison(comparison)
                comparisons.append(comparison)
    ratios = sorted(c.ratio for c in comparisons)
    print(f"least {ratios[0]:.2f}, median {statistics.median(ratios):.2f}")
    if not arguments.names:
        print("saved", save("layers", comparisons))


if __name__ == "__main__":
    main()
