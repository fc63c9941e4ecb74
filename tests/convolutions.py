"""Convolutions as networks have them, and their gradients, as texts and as PyTorch computes them.

Images are N x C x H x W, filters F x C x KH x KW. A 3x3 convolution has a border of one zero on
every side, as the network's has; the text says so, and PyTorch is asked for `padding=1`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

FORWARD_3X3 = """def convolution(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {{
  padded(n,c,h,w) = (h >= 1 && h <= H && w >= 1 && w <= W) ? I(n,c,h-1,w-1) : 0.0
      where h in 0:H+2, w in 0:W+2
  O(n,f,h,w) +=! padded(n,c,{stride}h+kh,{stride}w+kw) * K(f,c,kh,kw)
}}
"""
# A convolution with the filters turned round.
INPUT_GRADIENT_3X3 = """def input_gradient(float(N,F,H,W) dO, float(F,C,KH,KW) K) -> (dI) {
  padded(n,f,h,w) = (h >= 1 && h <= H && w >= 1 && w <= W) ? dO(n,f,h-1,w-1) : 0.0
      where h in 0:H+2, w in 0:W+2
  dI(n,c,h,w) +=! padded(n,f,h+kh,w+kw) * K(f,c,KH-1-kh,KW-1-kw)
}
"""
# With stride 2 an even row of the input meets the middle row of a filter only, an odd row the two
# others; columns alike. So there are four sums, each over the filter's elements that count.
INPUT_GRADIENT_3X3_STRIDE_2 = """\
def input_gradient(float(N,F,H,W) dO, float(F,C,KH,KW) K) -> (dI) {
  padded(n,f,h,w) = (h < H && w < W) ? dO(n,f,h,w) : 0.0 where h in 0:H+1, w in 0:W+1
  even_even(n,c,h,w) +=! dO(n,f,h,w) * K(f,c,1,1)
  even_odd(n,c,h,w) +=! padded(n,f,h,w+j) * K(f,c,1,2-2*j) where h in 0:H, j in 0:2
  odd_even(n,c,h,w) +=! padded(n,f,h+i,w) * K(f,c,2-2*i,1) where w in 0:W, i in 0:2
  odd_odd(n,c,h,w) +=! padded(n,f,h+i,w+j) * K(f,c,2-2*i,2-2*j) where i in 0:2, j in 0:2
  dI(n,c,h,w) = h % 2 == 0
      ? (w % 2 == 0 ? even_even(n,c,h/2,w/2) : even_odd(n,c,h/2,w/2))
      : (w % 2 == 0 ? odd_even(n,c,h/2,w/2) : odd_odd(n,c,h/2,w/2))
      where h in 0:2*H, w in 0:2*W
}
"""
WEIGHT_GRADIENT_3X3 = """\
def weight_gradient(float(N,C,H,W) I, float(N,F,HO,WO) dO) -> (dK) {{
  padded(n,c,h,w) = (h >= 1 && h <= H && w >= 1 && w <= W) ? I(n,c,h-1,w-1) : 0.0
      where h in 0:H+2, w in 0:W+2
  dK(f,c,kh,kw) +=! dO(n,f,h,w) * padded(n,c,{stride}h+kh,{stride}w+kw) where kh in 0:3, kw in 0:3
}}
"""
FORWARD_1X1 = """def convolution(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
  O(n,f,h,w) +=! I(n,c,h+kh,w+kw) * K(f,c,kh,kw)
}
"""
INPUT_GRADIENT_1X1 = """def input_gradient(float(N,F,H,W) dO, float(F,C,KH,KW) K) -> (dI) {
  dI(n,c,h,w) +=! dO(n,f,h-kh,w-kw) * K(f,c,kh,kw)
}
"""
WEIGHT_GRADIENT_1X1 = """def weight_gradient(float(N,C,H,W) I, float(N,F,H,W) dO) -> (dK) {
  dK(f,c,kh,kw) +=! dO(n,f,h,w) * I(n,c,h+kh,w+kw) where kh in 0:1, kw in 0:1
}
"""


@dataclass(frozen=True)
class Convolution:
    """One layer with `kernel` x `kernel` filters: C channels of size x size become F."""

    n: int
    c: int
    f: int
    size: int
    kernel: int
    stride: int = 1

    @property
    def padding(self) -> int:
        return self.kernel // 2

    @property
    def name(self) -> str:
        stride = f"_stride_{self.stride}" if self.stride > 1 else ""
        return f"{self.kernel}x{self.kernel}_{self.c}_to_{self.f}_at_{self.size}{stride}"

    @property
    def out_size(self) -> int:
        return (self.size + 2 * self.padding - self.kernel) // self.stride + 1

    def image(self) -> torch.Tensor:
        return torch.randn(self.n, self.c, self.size, self.size)

    def filters(self) -> torch.Tensor:
        return torch.randn(self.f, self.c, self.kernel, self.kernel)

    def output_gradient(self) -> torch.Tensor:
        return torch.randn(self.n, self.f, self.out_size, self.out_size)

    def forward_text(self) -> str:
        return FORWARD_1X1 if self.kernel == 1 else FORWARD_3X3.format(stride=self._factor)

    def input_gradient_text(self) -> str:
        if self.kernel == 1:
            return INPUT_GRADIENT_1X1
        return INPUT_GRADIENT_3X3 if self.stride == 1 else INPUT_GRADIENT_3X3_STRIDE_2

    def weight_gradient_text(self) -> str:
        if self.kernel == 1:
            return WEIGHT_GRADIENT_1X1
        return WEIGHT_GRADIENT_3X3.format(stride=self._factor)

    @property
    def _factor(self) -> str:
        return f"{self.stride}*" if self.stride > 1 else ""

    def forward(self) -> Callable[..., torch.Tensor]:
        stride, padding = self.stride, self.padding
        return lambda image, filters: F.conv2d(image, filters, stride=stride, padding=padding)

    def input_gradient(self) -> Callable[..., torch.Tensor]:
        backward = self._backward([True, False, False])
        sizes = (self.n, self.c, self.size, self.size)
        # Only the sizes of the image count.
        return lambda gradient, filters: backward(gradient, gradient.new_empty(sizes), filters)[0]

    def weight_gradient(self) -> Callable[..., torch.Tensor]:
        backward = self._backward([False, True, False])
        sizes = (self.f, self.c, self.kernel, self.kernel)
        return lambda image, gradient: backward(gradient, image, image.new_empty(sizes))[1]

    def _backward(self, mask: list[bool]) -> Callable[..., tuple]:
        stride, padding = [self.stride] * 2, [self.padding] * 2

        def backward(gradient: torch.Tensor, image: torch.Tensor, filters: torch.Tensor) -> tuple:
            return torch.ops.aten.convolution_backward(
                gradient, image, filters, None, stride, padding, [1, 1], False, [0, 0], 1, mask
            )

        return backward
