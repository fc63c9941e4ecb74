"""Convolutions, pooling, and what rearranges the pixels of images."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from operators.case import Case, Values

IMAGES = [(2, 3, 9, 12), (1, 4, 7, 5)]


def image(v: Values, n: int, c: int, h: int, w: int) -> tuple:
    return (v(n, c, h, w),)


def with_numbers(*numbers: int):
    """An image and these scalars."""
    return lambda v, *sizes: (v(*sizes), *numbers)


def convolution(*numbers: int):
    """An image, filters, a bias, scalars. The sizes: N, C, F, then the image's and the filter's."""

    def inputs(v: Values, n: int, c: int, f: int, *sizes: int) -> tuple:
        rank = len(sizes) // 2
        return (v(n, c, *sizes[:rank]), v(f, c, *sizes[rank:]), v(f), *numbers)

    return inputs


def depthwise(*numbers: int):
    def inputs(v: Values, n: int, c: int, *sizes: int) -> tuple:
        rank = len(sizes) // 2
        return (v(n, c, *sizes[:rank]), v(c, *sizes[rank:]), v(c), *numbers)

    return inputs


def groups(*numbers: int):
    def inputs(v: Values, n: int, g: int, c: int, f: int, h: int, w: int, k: int) -> tuple:
        return (v(n, g, c, h, w), v(g, f, c, k, k), v(g, f), *numbers)

    return inputs


def group_convolution(x, weight, bias, *stride):
    out = F.conv2d(
        x.flatten(1, 2), weight.flatten(0, 1), bias.flatten(), stride or 1, groups=x.shape[1]
    )
    return out.unflatten(1, weight.shape[:2])


def bordered(x, weight, bias, *numbers):
    stride, dilation, (top, left, bottom, right) = numbers[:2], numbers[2:4], numbers[4:]
    padded = F.pad(x, (left, right, top, bottom))
    return F.conv2d(padded, weight, bias, stride, dilation=dilation)


def bordered_groups(x, weight, bias, *numbers):
    """Each group by itself: as convolutions, which `bordered` says what they are."""
    groups = [bordered(x[:, g], weight[g], bias[g], *numbers) for g in range(x.shape[1])]
    return torch.stack(groups, 1)


def multiplied(x, weight, bias):
    out = F.conv2d(x, weight.flatten(0, 1)[:, None], bias.flatten(), groups=x.shape[1])
    return out.unflatten(1, weight.shape[:2])


def separable(x, depthwise_, pointwise, bias):
    filtered = F.conv2d(x, depthwise_[:, None], groups=x.shape[1])
    return F.conv2d(filtered, pointwise[:, :, None, None], bias)


def channels_last(x, weight, bias):
    out = F.conv2d(x.permute(0, 3, 1, 2), weight.permute(0, 3, 1, 2), bias)
    return out.permute(0, 2, 3, 1)


def causal(x, weight, bias):
    return F.conv1d(F.pad(x, (weight.shape[2] - 1, 0)), weight, bias)


def shift(x, weight, shift_h, shift_w, height, width):
    cut = [
        x[:, c, a : a + height, b : b + width]
        for c, (a, b) in enumerate(zip(shift_h.tolist(), shift_w.tolist()))
    ]
    return torch.einsum("nchw,ck->nkhw", torch.stack(cut, 1), weight)


def sparse_filter(x, weight, offset_h, offset_w, height, width):
    k, c, count = weight.shape
    dense = torch.zeros(k, c, x.shape[2] - height + 1, x.shape[3] - width + 1, dtype=x.dtype)
    for i in range(count):
        dense[:, :, offset_h[i], offset_w[i]] += weight[:, :, i]
    return F.conv2d(x, dense)


def quantized(x, weight, stride):
    out = F.conv2d(x.double().permute(2, 0, 1), weight.double().permute(2, 3, 0, 1), stride=stride)
    return out.permute(1, 2, 0).to(torch.int32)


def transposed(function):
    """Trailing numbers are the stride."""
    return lambda x, weight, bias, *stride: function(x, weight, bias, stride)


def transposed_inputs(*stride: int):
    def inputs(v: Values, n: int, c: int, f: int, *sizes: int) -> tuple:
        rank = len(sizes) // 2
        return (v(n, c, *sizes[:rank]), v(c, f, *sizes[rank:]), v(f), *stride)

    return inputs


def unfold(x, kh, kw):
    n, c, h, w = x.shape
    return F.unfold(x, (kh, kw)).view(n, c, kh, kw, h - kh + 1, w - kw + 1)


def fold(x, height, width):
    return F.fold(x.flatten(4).flatten(1, 3), (height, width), tuple(x.shape[2:4]))


def pooling(function):
    """kernel_h, kernel_w, stride_h, stride_w and paddings, as pairs."""

    def reference(x: Tensor, *numbers: int) -> Tensor:
        return function(x, *zip(numbers[::2], numbers[1::2]))

    return reference


def pad(mode: str):
    return lambda x, *sides: F.pad(x, sides, mode=mode)


CONVOLUTIONS = [(2, 3, 5, 9, 14, 3, 2), (1, 1, 1, 3, 3, 3, 3), (1, 4, 3, 7, 20, 1, 1)]
CONVOLUTIONS_1D = [(2, 3, 5, 23, 4), (1, 1, 1, 3, 3)]
CONVOLUTIONS_3D = [(2, 2, 3, 5, 6, 7, 2, 3, 2), (1, 1, 1, 3, 3, 3, 3, 3, 3)]
GROUPS = [(2, 3, 4, 5, 9, 11, 3), (1, 1, 1, 1, 3, 3, 3)]
DEPTHWISE = [(2, 5, 9, 14, 3, 2), (1, 1, 3, 3, 3, 3)]

CASES = [
    Case("convolution", F.conv2d, convolution(), CONVOLUTIONS),
    Case(
        "convolution_without_bias",
        F.conv2d,
        lambda v, *sizes: convolution()(v, *sizes)[:2],
        CONVOLUTIONS,
    ),
    Case(
        "strided_convolution",
        lambda x, w, b, *stride: F.conv2d(x, w, b, stride),
        convolution(2, 3),
        CONVOLUTIONS,
    ),
    Case(
        "dilated_convolution",
        lambda x, w, b, *dilation: F.conv2d(x, w, b, dilation=dilation),
        convolution(2, 3),
        [(2, 3, 5, 9, 14, 3, 2), (1, 1, 1, 5, 7, 3, 3)],
    ),
    Case(
        "padded_convolution",
        lambda x, w, b, *padding: F.conv2d(x, w, b, padding=padding),
        convolution(2, 1),
        CONVOLUTIONS,
    ),
    *(
        Case(
            "general_convolution",
            lambda x, w, b, *n: F.conv2d(x, w, b, n[:2], n[2:4], n[4:]),
            convolution(*numbers),
            CONVOLUTIONS,
        )
        for numbers in ((1, 1, 1, 1, 1, 1), (2, 1, 2, 3, 1, 2), (2, 2, 3, 3, 2, 2))
    ),
    *(
        Case("bordered_convolution", bordered, convolution(*numbers), CONVOLUTIONS)
        for numbers in (
            (1, 1, 1, 1, 0, 0, 0, 0),
            (2, 1, 1, 2, 1, 0, 2, 3),
            (2, 3, 2, 2, 2, 2, 2, 2),
        )
    ),
    Case(
        "pointwise_convolution",
        lambda x, w, b: F.conv2d(x, w[:, :, None, None], b),
        lambda v, n, c, f, h, w: (v(n, c, h, w), v(f, c), v(f)),
        [(2, 7, 5, 6, 9), (1, 1, 1, 1, 1)],
    ),
    Case(
        "convolution_channels_last",
        channels_last,
        lambda v, n, c, f, h, w, k: (v(n, h, w, c), v(f, k, k, c), v(f)),
        [(2, 3, 5, 9, 11, 3), (1, 1, 1, 3, 3, 3)],
    ),
    Case(
        "shift_convolution",
        shift,
        lambda v, n, c, k, h, w: (
            *(v(n, c, h + 2, w + 2), v(c, k)),
            *(v.integers(0, 3, c), v.integers(0, 3, c), h, w),
        ),
        [(2, 7, 5, 6, 9), (1, 1, 1, 1, 1)],
    ),
    Case(
        "sparse_filter_convolution",
        sparse_filter,
        lambda v, n, c, k, x, h, w: (
            *(v(n, c, h + 4, w + 4), v(k, c, x)),
            *(v.integers(0, 5, x), v.integers(0, 5, x), h, w),
        ),
        [(2, 6, 5, 7, 6, 9), (1, 1, 1, 1, 1, 1)],
    ),
    Case(
        "quantized_convolution",
        quantized,
        lambda v, h, w, c, k, r, stride: (
            v.integers(0, 256, h, w, c, dtype=torch.uint8),
            v.integers(-128, 128, r, r, k, c, dtype=torch.int8),
            stride,
        ),
        [(9, 8, 5, 18, 3, 1), (11, 9, 5, 7, 3, 2), (1, 1, 1, 1, 1, 1)],
    ),
    # ---- groups
    Case("group_convolution", group_convolution, groups(), GROUPS),
    Case("strided_group_convolution", group_convolution, groups(2, 1), GROUPS),
    *(
        Case("bordered_group_convolution", bordered_groups, groups(*numbers), GROUPS)
        for numbers in ((1, 1, 1, 1, 0, 0, 0, 0), (2, 1, 1, 2, 1, 2, 2, 2))
    ),
    Case(
        "depthwise_convolution",
        lambda x, w, b: F.conv2d(x, w[:, None], b, groups=x.shape[1]),
        depthwise(),
        DEPTHWISE,
    ),
    Case(
        "strided_depthwise_convolution",
        lambda x, w, b, *n: F.conv2d(x, w[:, None], b, n[:2], n[2:], groups=x.shape[1]),
        depthwise(2, 1, 1, 2),
        DEPTHWISE,
    ),
    Case(
        "depthwise_convolution_multiplied",
        multiplied,
        lambda v, n, c, m, h, w, k: (v(n, c, h, w), v(c, m, k, k), v(c, m)),
        [(2, 5, 3, 9, 11, 3), (1, 1, 1, 3, 3, 3)],
    ),
    Case(
        "separable_convolution",
        separable,
        lambda v, n, c, f, h, w, k: (v(n, c, h, w), v(c, k, k), v(f, c), v(f)),
        [(2, 5, 4, 9, 11, 3), (1, 1, 1, 3, 3, 3)],
    ),
    # ---- one and three dimensions
    Case("convolution_1d", F.conv1d, convolution(), CONVOLUTIONS_1D),
    Case(
        "convolution_1d_single",
        lambda x, w: F.conv1d(x[None, None], w[None, None])[0, 0],
        lambda v, m, n: (v(m), v(n)),
        [(40, 5), (1, 1)],
    ),
    Case("causal_convolution_1d", causal, convolution(), CONVOLUTIONS_1D),
    Case("strided_convolution_1d", F.conv1d, convolution(3), CONVOLUTIONS_1D),
    Case(
        "dilated_convolution_1d",
        lambda x, w, b, dilation: F.conv1d(x, w, b, dilation=dilation),
        convolution(2),
        [(2, 3, 5, 23, 4), (1, 1, 1, 5, 3)],
    ),
    Case(
        "depthwise_convolution_1d",
        lambda x, w, b: F.conv1d(x, w[:, None], b, groups=x.shape[1]),
        depthwise(),
        [(2, 5, 23, 4), (1, 1, 3, 3)],
    ),
    Case("convolution_3d", F.conv3d, convolution(), CONVOLUTIONS_3D),
    Case(
        "strided_convolution_3d",
        lambda x, w, b, *stride: F.conv3d(x, w, b, stride),
        convolution(2, 1, 3),
        CONVOLUTIONS_3D,
    ),
    Case(
        "transposed_convolution",
        transposed(F.conv_transpose2d),
        transposed_inputs(2, 3),
        [(2, 3, 4, 5, 6, 3, 2), (1, 1, 1, 1, 1, 1, 1)],
    ),
    Case(
        "transposed_convolution_1d",
        transposed(F.conv_transpose1d),
        transposed_inputs(3),
        [(2, 3, 4, 9, 4), (1, 1, 1, 1, 1)],
    ),
    # ---- windows
    Case("unfold", unfold, with_numbers(3, 2), [(2, 3, 9, 12), (1, 1, 3, 2)]),
    Case(
        "fold",
        fold,
        lambda v, n, c, kh, kw, h, w: (v(n, c, kh, kw, h, w), h + kh - 1, w + kw - 1),
        [(2, 3, 3, 2, 5, 7), (1, 1, 1, 1, 1, 1)],
    ),
    Case(
        "sliding_windows",
        lambda x, size, step: x.unfold(1, size, step).contiguous(),
        with_numbers(5, 3),
        [(4, 23), (1, 5)],
    ),
    # ---- pooling
    Case("max_pooling", lambda x: F.max_pool2d(x, 2), image, IMAGES),
    Case("max_pooling_strided", pooling(F.max_pool2d), with_numbers(3, 2, 2, 1), IMAGES),
    Case("max_pooling_padded", pooling(F.max_pool2d), with_numbers(3, 3, 2, 1, 1, 1), IMAGES),
    Case("average_pooling", pooling(F.avg_pool2d), with_numbers(3, 2, 2, 1), IMAGES),
    Case(
        "global_average_pooling",
        lambda x: x.mean((2, 3)),
        image,
        [*IMAGES, (1, 1, 1, 1)],
        terms=110,
    ),
    Case("global_max_pooling", lambda x: x.amax((2, 3)), image, [*IMAGES, (1, 1, 1, 1)]),
    *(
        Case(
            "adaptive_average_pooling",
            lambda x, *sizes: F.adaptive_avg_pool2d(x, sizes),
            with_numbers(*sizes),
            IMAGES,
        )
        for sizes in ((3, 4), (5, 2), (10, 9))
    ),
    Case(
        "power_pooling",
        lambda x, p, *n: F.lp_pool2d(x, p, n[:2], n[2:]),
        lambda v, *sizes: (v.between(0.5, 2, *sizes), 3.0, 2, 2, 2, 2),
        [(2, 3, 8, 12), (1, 4, 6, 4)],
    ),
    Case("max_pooling_1d", F.max_pool1d, with_numbers(3, 2), [(2, 3, 20), (1, 1, 3)]),
    Case("average_pooling_1d", F.avg_pool1d, with_numbers(3, 2), [(2, 3, 20), (1, 1, 3)]),
    Case("max_pooling_3d", F.max_pool3d, with_numbers(2, 2), [(2, 3, 6, 5, 9), (1, 1, 2, 2, 2)]),
    # ---- pixels
    Case("pixel_shuffle", F.pixel_shuffle, with_numbers(3), [(2, 18, 4, 5), (1, 9, 1, 1)]),
    Case("pixel_unshuffle", F.pixel_unshuffle, with_numbers(3), [(2, 2, 12, 15), (1, 1, 3, 3)]),
    Case("channel_shuffle", F.channel_shuffle, with_numbers(3), [(2, 12, 4, 5), (1, 3, 1, 1)]),
    Case(
        "upsample_nearest",
        lambda x, scale: F.interpolate(x, scale_factor=scale),
        with_numbers(3),
        [(2, 3, 4, 5), (1, 1, 1, 1)],
    ),
    *(
        Case(
            "upsample_bilinear",
            lambda x, scale: F.interpolate(x, scale_factor=scale, mode="bilinear"),
            with_numbers(scale),
            [(2, 3, 4, 5), (1, 1, 1, 1)],
        )
        for scale in (2, 3, 1)  # benchmarks take the first
    ),
    Case(
        "pad",
        lambda x, *sides: F.pad(x, sides[:4], value=sides[4]),
        with_numbers(1, 2, 3, 0, -1.5),
        IMAGES,
    ),
    Case("pad_replicate", pad("replicate"), with_numbers(1, 2, 3, 0), [*IMAGES, (1, 1, 1, 1)]),
    Case("pad_reflect", pad("reflect"), with_numbers(1, 2, 3, 0), IMAGES),
    Case("pad_circular", pad("circular"), with_numbers(1, 2, 3, 0), IMAGES),
]
