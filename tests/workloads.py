"""The texts of the papers at small sizes, with references from PyTorch.

Each entry gives a text, a function that makes its inputs, and one that computes its outputs with
PyTorch alone. Sizes are small and odd on purpose: tails and short dimensions are where loops
go wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from convolutions import Convolution

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Workload:
    """One definition: `reference(*inputs)` gives its outputs in order."""

    name: str
    entry: str
    text: str
    inputs: Callable[[], tuple]
    reference: Callable[..., Tensors]
    # Outputs that come in through `outputs=` because the text reads them first.
    initial: Callable[[], Tensors] | None = None
    # However small a result is, it has its digits.
    digits: bool = False


def assert_near(workload: Workload, actual: tuple, wanted: Tensors) -> None:
    """Integers are equal; sums of floats, in another order than PyTorch's, are near for the largest
    of them, or for the 1 that the inputs are about."""
    for a, w in zip(actual, wanted, strict=True):
        if not w.is_floating_point():
            torch.testing.assert_close(a, w, rtol=0, atol=0)
            continue
        largest = max([1.0, *w.abs().flatten().tolist()])
        atol = 0 if workload.digits else 1e-5 * largest
        torch.testing.assert_close(a, w, rtol=1e-5, atol=atol)


def floats(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes)


def indices(bound: int, *sizes: int) -> torch.Tensor:
    return torch.randint(0, bound, sizes, dtype=torch.int32)


def bytes_(*sizes: int, signed: bool) -> torch.Tensor:
    low, high, dtype = (-128, 128, torch.int8) if signed else (0, 256, torch.uint8)
    return torch.randint(low, high, sizes, dtype=dtype)


def matmul_transposed(a: torch.Tensor, b: torch.Tensor) -> Tensors:
    return (a @ b.t(),)


def grouped_convolution(i: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Tensors:
    n, g, c, h, width = i.shape
    f = w.shape[1]
    out = F.conv2d(i.reshape(n, g * c, h, width), w.flatten(0, 1), b.flatten(), groups=g)
    return (out.reshape(n, g, f, out.shape[2], out.shape[3]),)


def lookup(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return table[index.long()].sum(1)


def mlp3(i, w2, b2, w3, b3, w4, b4) -> Tensors:
    o2 = F.relu(F.linear(i, w2, b2))
    o3 = F.relu(F.linear(o2, w3, b3))
    return o2, o3, F.relu(F.linear(o3, w4, b4))


def kronecker(w0, w1, w2, x) -> Tensors:
    xw2 = torch.einsum("mabc,dc->mabd", x, w2)
    xw2w1 = torch.einsum("mabd,eb->maed", xw2, w1)
    return torch.einsum("maed,fa->mfed", xw2w1, w0), xw2, xw2w1


def group_normalization(i, gamma, beta) -> Tensors:
    n, g, d, h, w = i.shape
    total = i.sum((2, 3, 4))
    squares = (i * i).sum((2, 3, 4))
    out = F.group_norm(i.reshape(n, g * d, h, w), g, gamma.flatten(), beta.flatten(), 1e-5)
    return out.reshape(i.shape), total, squares


def quantized_convolution(stride: int) -> Callable[..., Tensors]:
    def reference(a: torch.Tensor, b: torch.Tensor) -> Tensors:
        image = a.double().permute(2, 0, 1).unsqueeze(0)
        weight = b.double().permute(2, 3, 0, 1)
        out = F.conv2d(image, weight, stride=stride)
        return (out[0].permute(1, 2, 0).to(torch.int32),)

    return reference


TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) {\n  C(m,n) +=! A(m,kk) * B(n,kk)\n}\n"
GCONV = """def gconv(float(N,G,C,H,W) I, float(G,F,C,KH,KW) W1, float(G,F) B) -> (O) {
  O(n,g,o,h,w) +=! I(n,g,i,h+kh,w+kw) * W1(g,o,i,kh,kw)
  O(n,g,o,h,w) = O(n,g,o,h,w) + B(g,o)
}
"""
MLP3 = """def MLP3(float(B,N) I, float(O,N) W2, float(O) B2, float(P,O) W3, float(P) B3, \
float(Q,P) W4, float(Q) B4) -> (O2,O3,O4) {
  O2(b,o) = B2(o)
  O2(b,o) += I(b,n) * W2(o,n)
  O2(b,o) = fmax(O2(b,o), 0)
  O3(b,p) = B3(p)
  O3(b,p) += O2(b,o) * W3(p,o)
  O3(b,p) = fmax(O3(b,p), 0)
  O4(b,q) = B4(q)
  O4(b,q) += O3(b,p) * W4(q,p)
  O4(b,q) = fmax(O4(b,q), 0)
}
"""
KRONECKER = """def Kronecker3Full(float(D0,N0) W0, float(D1,N1) W1, float(D2,N2) W2, \
float(M,N0,N1,N2) X) -> (Y, XW2, XW2W1) {
  XW2(m,n0,n1,d2) +=! X(m,n0,n1,r_n2) * W2(d2,r_n2)
  XW2W1(m,n0,d1,d2) +=! XW2(m,n0,r_n1,d2) * W1(d1,r_n1)
  Y(m,d0,d1,d2) +=! XW2W1(m,r_n0,d1,d2) * W0(d0,r_n0)
}
"""
GROUP_NORMALIZATION = """def group_normalization(float(N,G,D,H,W) I, float(G,D) gamma, \
float(G,D) beta) -> (O, sum, sumSquares) {
  sum(n,g) +=! I(n,g,r_d,r_h,r_w)
  sumSquares(n,g) +=! I(n,g,r_d,r_h,r_w) * I(n,g,r_d,r_h,r_w)
  O(n,g,d,h,w) = gamma(g,d) * (I(n,g,d,h,w) - sum(n,g) / (D*H*W)) * rsqrt(sumSquares(n,g) / \
(D*H*W) - sum(n,g) * sum(n,g) / (D*H*W) / (D*H*W) + 1e-5) + beta(g,d)
}
"""
MOMENTS = """def moments2_2D_1D(float(N,K) I) -> (mean, var) {
  mean(n) +=! I(n,r_k)
  var(n) +=! I(n,r_k) * I(n,r_k)
  mean(n) = mean(n) / (K)
  var(n) = var(n) / (K) - mean(n) * mean(n)
}
"""
SOFTMAX = """def softmax(float(N,D) I) -> (O) {
  largest(n) max=! I(n,d)
  e(n,d) = exp(I(n,d) - largest(n))
  total(n) +=! e(n,d)
  O(n,d) = e(n,d) / total(n)
}
"""
LAYER_NORMALIZATION = """\
def layer_normalization(float(N,D) I, float(D) gamma, float(D) beta) -> (O) {
  mean(n) +=! I(n,d)
  mean(n) = mean(n) / D
  variance(n) +=! (I(n,d) - mean(n)) * (I(n,d) - mean(n))
  O(n,d) = (I(n,d) - mean(n)) * rsqrt(variance(n) / D + 1e-5) * gamma(d) + beta(d)
}
"""


def quantized_text(stride: int) -> str:
    factor = f"{stride}*" if stride > 1 else ""
    return (
        "def conv(uint8(H,W,C) a, int8(R,S,K,C) b) -> (c) {\n"
        f"  c(x,y,k) +=! int32(a({factor}x+r,{factor}y+s,rc)) * int32(b(r,s,k,rc))\n}}\n"
    )


def convolution_workloads(layer: Convolution) -> list[Workload]:
    """A layer and both its gradients."""

    def single(function: Callable[..., torch.Tensor]) -> Callable[..., Tensors]:
        return lambda *inputs: (function(*inputs),)

    return [
        Workload(
            *(f"convolution_{layer.name}", "convolution", layer.forward_text()),
            lambda: (layer.image(), layer.filters()),
            single(layer.forward()),
        ),
        Workload(
            *(f"input_gradient_{layer.name}", "input_gradient", layer.input_gradient_text()),
            lambda: (layer.output_gradient(), layer.filters()),
            single(layer.input_gradient()),
        ),
        Workload(
            *(f"weight_gradient_{layer.name}", "weight_gradient", layer.weight_gradient_text()),
            lambda: (layer.image(), layer.output_gradient()),
            single(layer.weight_gradient()),
        ),
    ]


WORKLOADS = [
    Workload("tmm", "tmm", TMM, lambda: (floats(13, 37), floats(21, 37)), matmul_transposed),
    Workload(
        "tbmm",
        "tbmm",
        "def tbmm(float(B,N,M) X, float(B,K,M) Y) -> (Z) {\n"
        "  Z(b,n,k) +=! X(b,n,m) * Y(b,k,m)\n}\n",
        lambda: (floats(5, 26, 31), floats(5, 17, 31)),
        lambda x, y: (x @ y.transpose(1, 2),),
    ),
    Workload(
        "gconv",
        "gconv",
        GCONV,
        lambda: (floats(2, 3, 4, 9, 21), floats(3, 5, 4, 3, 3), floats(3, 5)),
        grouped_convolution,
    ),
    Workload(
        "1LUT",
        "1LUT",
        "def 1LUT(float(E1,D) LUT1, int32(B,L1) I1) -> (O1) {\n  O1(i,j) +=! LUT1(I1(i,k),j)\n}\n",
        lambda: (floats(50, 19), indices(50, 6, 7)),
        lambda table, index: (lookup(table, index),),
    ),
    Workload(
        "2LUT",
        "2LUT",
        "def 2LUT(float(E1,D) LUT1, int32(B,L1) I1, float(E2,D) LUT2, int32(B,L2) I2) -> "
        "(O1,O2) {\n"
        "  O1(i,j) +=! LUT1(I1(i,k),j)\n  O2(i,j) +=! LUT2(I2(i,k),j)\n}\n",
        lambda: (floats(50, 19), indices(50, 6, 7), floats(40, 19), indices(40, 6, 3)),
        lambda t1, i1, t2, i2: (lookup(t1, i1), lookup(t2, i2)),
    ),
    Workload(
        "C3",
        "C3",
        "def C3(float(B,WX) I, float(WY,WX) W) -> (C3) {\n  C3(b,wy) +=! I(b,wxx) * W(wy,wxx)\n}\n",
        lambda: (floats(9, 40), floats(33, 40)),
        lambda i, w: (F.linear(i, w),),
    ),
    Workload(
        "MLP1",
        "MLP1",
        "def MLP1(float(B,M) I, float(O,M) W1, float(O) B1) -> (O1) {\n"
        "  O1(b,n) = B1(n)\n  O1(b,n) += I(b,m) * W1(n,m)\n  O1(b,n) = fmax(O1(b,n), 0)\n}\n",
        lambda: (floats(7, 45), floats(18, 45), floats(18)),
        lambda i, w, b: (F.relu(F.linear(i, w, b)),),
    ),
    Workload(
        "MLP3",
        "MLP3",
        MLP3,
        lambda: (
            floats(7, 13),
            floats(11, 13),
            floats(11),
            floats(6, 11),
            floats(6),
            floats(2, 6),
            floats(2),
        ),
        mlp3,
    ),
    Workload(
        "mv",
        "mv",
        "def mv(float(M,K) A, float(K) x) -> (C) {\n  C(i) +=! A(i,k) * x(k)\n}\n",
        lambda: (floats(23, 35), floats(35)),
        lambda a, x: (a @ x,),
    ),
    Workload(
        "mv_two_statements",
        "mv",
        "def mv(float(M,K) A, float(K) x) -> (C) {\n  C(i) = 0\n  C(i) += A(i,k) * x(k)\n}\n",
        lambda: (floats(23, 35), floats(35)),
        lambda a, x: (a @ x,),
    ),
    Workload(
        "sgemm",
        "sgemm",
        "def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) {\n"
        "  C(i,j) = b * C(i,j)\n  C(i,j) += a * A(i,k) * B(k,j)\n}\n",
        lambda: (0.5, 2.0, floats(11, 8), floats(8, 20)),
        lambda a, b, x, y, c: (a * (x @ y) + b * c,),
        initial=lambda: (floats(11, 20),),
    ),
    Workload(
        "fcrelu",
        "fcrelu",
        "def fcrelu(float(B,I) in, float(O,I) weight, float(I) bias) -> (out) {\n"
        "  out(i,j) = bias(j)\n  out(b,o) += in(b,i) * weight(o,i)\n"
        "  out(i,j) = fmaxf(out(i,j), 0)\n}\n",
        lambda: (floats(9, 17), floats(17, 17), floats(17)),
        lambda i, w, b: (F.relu(F.linear(i, w, b)),),
    ),
    Workload(
        "conv2d",
        "conv2d",
        "def conv2d(float(B,IP,H,W) in, float(OP,IP,KH,KW) weight) -> (out) {\n"
        "  out(b,op,h,w) +=! in(b,ip,h+kh,w+kw) * weight(op,ip,kh,kw)\n}\n",
        lambda: (floats(2, 3, 11, 14), floats(5, 3, 3, 2)),
        lambda i, w: (F.conv2d(i, w),),
    ),
    Workload(
        "maxpool2x2",
        "maxpool2x2",
        "def maxpool2x2(float(B,C,H,W) in) -> (out) {\n"
        "  out(b,c,i,j) max=! in(b,c,2*i+kw,2*j+kh) where kw in 0:2, kh in 0:2\n}\n",
        lambda: (floats(2, 3, 9, 12),),
        lambda i: (F.max_pool2d(i, 2),),
    ),
    Workload(
        "gather",
        "gather",
        "def gather(float(N) X, int(A,B) I) -> (Z) {\n  Z(i,j) = X(I(i,j))\n}\n",
        lambda: (floats(30), indices(30, 7, 20)),
        lambda x, i: (x[i.long()],),
    ),
    Workload(
        "sconv2d",
        "sconv2d",
        "def sconv2d(int sh, int sw, float(N,C,H,W) I, float(F,C,KH,KW) W, float(F) B) -> (O) {\n"
        "  O(n,f,h,w) = B(f)\n"
        "  O(n,f,h,w) += I(n,c,sh*h+kh,sw*w+kw) * W(f,c,kh,kw)\n}\n",
        lambda: (2, 3, floats(2, 3, 11, 16), floats(4, 3, 3, 2), floats(4)),
        lambda sh, sw, i, w, b: (F.conv2d(i, w, b, stride=(sh, sw)),),
    ),
    Workload(
        "outerProductMM",
        "outerProductMM",
        "def outerProductMM(float(P,Q,R) A, float(S,R,T) B) -> (O) {\n"
        "  O(p,s,q,t) +=! A(p,q,r) * B(s,r,t)\n}\n",
        lambda: (floats(3, 5, 7), floats(4, 7, 18)),
        lambda a, b: (torch.einsum("pqr,srt->psqt", a, b),),
    ),
    Workload(
        "mm",
        "mm",
        "def mm(float(M,K) A, float(K,N) B) -> (C) {\n  C(m,n) +=! A(m,kk) * B(kk,n)\n}\n",
        lambda: (floats(33, 9), floats(9, 70)),
        lambda a, b: (a @ b,),
    ),
    Workload(
        "kronecker3",
        "Kronecker3Full",
        KRONECKER,
        lambda: (floats(3, 5), floats(4, 6), floats(5, 7), floats(8, 5, 6, 7)),
        kronecker,
    ),
    Workload(
        "group_normalization",
        "group_normalization",
        GROUP_NORMALIZATION,
        lambda: (floats(2, 3, 4, 5, 6), floats(3, 4), floats(3, 4)),
        group_normalization,
    ),
    Workload(
        "moments2_2D_1D",
        "moments2_2D_1D",
        MOMENTS,
        lambda: (floats(9, 50),),
        lambda i: (i.mean(1), i.var(1, unbiased=False)),
    ),
    Workload(
        "dense",
        "dense",
        "def dense(float(T,K) A, float(K,N) B) -> (C) {\n  C(i,j) +=! A(i,k) * B(k,j)\n}\n",
        lambda: (floats(5, 24), floats(24, 72)),
        lambda a, b: (a @ b,),
    ),
    Workload(
        "bmm",
        "bmm",
        "def bmm(float(B,I,K) X, float(B,K,J) Y) -> (Z) {\n  Z(b,i,j) +=! X(b,i,k) * Y(b,k,j)\n}\n",
        lambda: (floats(3, 10, 8), floats(3, 8, 19)),
        lambda x, y: (x @ y,),
    ),
    Workload(
        "spmv",
        "spmv",
        "def spmv(float(M,K) A, float(K) x) -> (y) {\n  y(i) +=! A(i,j) * x(j)\n}\n",
        lambda: (floats(12, 9), floats(9)),
        lambda a, x: (a @ x,),
    ),
    Workload(
        "spmm",
        "spmm",
        "def spmm(float(M,K) A, float(K,N) B) -> (C) {\n  C(i,k) +=! A(i,j) * B(j,k)\n}\n",
        lambda: (floats(12, 9), floats(9, 5)),
        lambda a, b: (a @ b,),
    ),
    Workload(
        "mttkrp",
        "mttkrp",
        "def mttkrp(float(I,K,L) B, float(K,J) C, float(L,J) D) -> (A) {\n"
        "  A(i,j) +=! B(i,k,l) * C(k,j) * D(l,j)\n}\n",
        lambda: (floats(6, 7, 8), floats(7, 18), floats(8, 18)),
        lambda b, c, d: (torch.einsum("ikl,kj,lj->ij", b, c, d),),
    ),
    Workload(
        "unit_conv",
        "conv",
        quantized_text(1),
        lambda: (bytes_(9, 8, 5, signed=False), bytes_(3, 3, 18, 5, signed=True)),
        quantized_convolution(1),
    ),
    Workload(
        "unit_conv_strided",
        "conv",
        quantized_text(2),
        lambda: (bytes_(11, 9, 5, signed=False), bytes_(3, 3, 7, 5, signed=True)),
        quantized_convolution(2),
    ),
    Workload(
        "softmax",
        "softmax",
        SOFTMAX,
        lambda: (floats(9, 50),),
        lambda i: (torch.softmax(i, 1),),
        digits=True,
    ),
    Workload(
        "layer_normalization",
        "layer_normalization",
        LAYER_NORMALIZATION,
        # Small values: where a whole row is equal, the mean's rounding counts 300 times.
        lambda: (0.1 * floats(9, 50), floats(50), floats(50)),
        lambda i, gamma, beta: (F.layer_norm(i, gamma.shape, gamma, beta),),
    ),
    *convolution_workloads(Convolution(2, 3, 5, 7, kernel=3)),
    *convolution_workloads(Convolution(2, 3, 5, 6, kernel=3, stride=2)),
    *convolution_workloads(Convolution(2, 5, 3, 7, kernel=1)),
]

# Texts of the papers that have no meaning as printed, and what is said about them.
REJECTED = {
    "conv1d": (
        "def conv1d(float(M) I, float(N) K) -> (O) {\n  O(i) = K(x) * I(i + x)\n}\n",
        "does not specify a reduction",
    ),
    "dconv": (
        "def dconv(float(N,F,H,W) I, float(F,GCI,KH,KW) W1, float(M) B) -> (O) {\n"
        "O(n,o,h,w) +=! I(n,gci, h + kh, w + kw) *\n"
        "W1(gci % grp, o / grp, gci / grp, kh, kw)\n"
        "O(n,o,h,w) = O(n,o,h,w) + B(m)\n}\n",
        "undefined variable grp used here",
    ),
    "prodModel": (
        "def prodModel(float(E1,D) LUT1, int(B,L1) I1, float(E2,D) LUT2, int(B,L2) I2, "
        "float(B,WX) I3, float(WY,WX) W) -> (C1,C2,C3,I) {\n"
        "  (C1,C2) = 2LUT(LUT1,I1,LUT2,I2)\n  C3(b,wy) +=! I3(b,wxx) * W(wy,wxx)\n"
        "  I = concat(C1, C2, C3)\n}\n",
        "attempting to access undefined function",
    ),
}
