"""The cases as a user of JAX would write them, by kind. Importing this needs JAX.

`OWN_LAYOUTS` are the same with images whose channels come last and filters whose channels do, and
with weights that stand as a product reads them, which is how XLA's CPU backend likes them best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn

Array = jax.Array
Arrays = tuple[Array, ...]


@dataclass(frozen=True)
class OwnLayout:
    """`prepare` makes its inputs of those of the text, `restore` the text's results of its own."""

    call: Callable[..., Arrays | Array]
    prepare: Callable[..., tuple[np.ndarray, ...]]
    restore: Callable[[object], object] = lambda results: results


def grouped_convolution(i: Array, w: Array, b: Array) -> Arrays:
    n, g, c, h, width = i.shape
    f = w.shape[1]
    out = lax.conv_general_dilated(
        i.reshape(n, g * c, h, width),
        w.reshape(g * f, *w.shape[2:]),
        (1, 1),
        "VALID",
        feature_group_count=g,
    )
    out = out + b.reshape(1, g * f, 1, 1)
    return (out.reshape(n, g, f, *out.shape[2:]),)


def grouped_convolution_last(i: Array, w: Array, b: Array) -> Array:
    """Images N x H x W x (G C), filters KH x KW x C x (G F), biases G F."""
    out = lax.conv_general_dilated(
        i,
        w,
        (1, 1),
        "VALID",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=i.shape[3] // w.shape[2],
    )
    return out + b


def groups_last(i: np.ndarray, w: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
    n, g, c, height, width = i.shape
    f = w.shape[1]
    image = i.reshape(n, g * c, height, width).transpose(0, 2, 3, 1)
    filters = w.reshape(g * f, *w.shape[2:]).transpose(2, 3, 1, 0)
    return np.ascontiguousarray(image), np.ascontiguousarray(filters), b.reshape(-1)


def groups_first(groups: int) -> Callable[[object], tuple[np.ndarray]]:
    def restore(out: object) -> tuple[np.ndarray]:
        moved = np.asarray(out).transpose(0, 3, 1, 2)
        return (moved.reshape(moved.shape[0], groups, -1, *moved.shape[2:]),)

    return restore


def lookup(table: Array, index: Array) -> Array:
    return table[index].sum(1)


def mlp1(i: Array, w: Array, b: Array) -> Arrays:
    return (nn.relu(i @ w.T + b),)


def mlp3(i: Array, w2: Array, b2: Array, w3: Array, b3: Array, w4: Array, b4: Array) -> Arrays:
    (o2,) = mlp1(i, w2, b2)
    (o3,) = mlp1(o2, w3, b3)
    return o2, o3, *mlp1(o3, w4, b4)


def mlp1_last(i: Array, w: Array, b: Array) -> Arrays:
    return (nn.relu(i @ w + b),)


def mlp3_last(i: Array, w2: Array, b2: Array, w3: Array, b3: Array, w4: Array, b4: Array) -> Arrays:
    (o2,) = mlp1_last(i, w2, b2)
    (o3,) = mlp1_last(o2, w3, b3)
    return o2, o3, *mlp1_last(o3, w4, b4)


def kronecker(w0: Array, w1: Array, w2: Array, x: Array) -> Arrays:
    xw2 = jnp.einsum("mabc,dc->mabd", x, w2)
    xw2w1 = jnp.einsum("mabd,eb->maed", xw2, w1)
    return jnp.einsum("maed,fa->mfed", xw2w1, w0), xw2, xw2w1


def group_normalization(i: Array, gamma: Array, beta: Array) -> Arrays:
    size = i.shape[2] * i.shape[3] * i.shape[4]
    total = i.sum((2, 3, 4))
    squares = (i * i).sum((2, 3, 4))
    mean = total / size
    scale = lax.rsqrt(squares / size - mean * mean + 1e-5)
    out = (i - mean[:, :, None, None, None]) * scale[:, :, None, None, None]
    return out * gamma[:, :, None, None] + beta[:, :, None, None], total, squares


def moments(i: Array) -> Arrays:
    """E[x^2] - mean^2, as the text has it."""
    mean = i.mean(1)
    return mean, (i * i).mean(1) - mean * mean


def layer_normalization(i: Array, gamma: Array, beta: Array) -> Arrays:
    return (nn.standardize(i, axis=1, epsilon=1e-5) * gamma + beta,)


def convolution(
    kernel: int, stride: int, numbers: tuple[str, str, str] | None = None
) -> Callable[[Array, Array], Array]:
    border = [(kernel // 2, kernel // 2)] * 2
    return lambda image, filters: lax.conv_general_dilated(
        image, filters, (stride, stride), border, dimension_numbers=numbers
    )


def input_gradient(kernel: int, stride: int) -> Callable[[Array, Array], Arrays]:
    forward = convolution(kernel, stride)

    def gradient(d_out: Array, filters: Array) -> Arrays:
        n, _, h, w = d_out.shape
        image = jnp.zeros((n, filters.shape[1], stride * h, stride * w), d_out.dtype)
        return jax.vjp(lambda image: forward(image, filters), image)[1](d_out)

    return gradient


def weight_gradient(kernel: int, stride: int) -> Callable[[Array, Array], Arrays]:
    forward = convolution(kernel, stride)

    def gradient(image: Array, d_out: Array) -> Arrays:
        filters = jnp.zeros((d_out.shape[1], image.shape[1], kernel, kernel), image.dtype)
        return jax.vjp(lambda filters: forward(image, filters), filters)[1](d_out)

    return gradient


LAST = ("NHWC", "HWIO", "NHWC")


def channels_last(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1))


def filters_last(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(2, 3, 1, 0))


def channels_first(x: object) -> np.ndarray:
    return np.asarray(x).transpose(0, 3, 1, 2)


def filters_first(x: object) -> np.ndarray:
    return np.asarray(x).transpose(3, 2, 0, 1)


def convolution_last(kernel: int, stride: int) -> OwnLayout:
    return OwnLayout(
        convolution(kernel, stride, LAST),
        lambda image, filters: (channels_last(image), filters_last(filters)),
        channels_first,
    )


def input_gradient_last(kernel: int, stride: int) -> OwnLayout:
    forward = convolution(kernel, stride, LAST)

    def gradient(d_out: Array, filters: Array) -> Array:
        n, h, w, _ = d_out.shape
        image = jnp.zeros((n, stride * h, stride * w, filters.shape[2]), d_out.dtype)
        return jax.vjp(lambda image: forward(image, filters), image)[1](d_out)[0]

    return OwnLayout(
        gradient,
        lambda d_out, filters: (channels_last(d_out), filters_last(filters)),
        channels_first,
    )


def weight_gradient_last(kernel: int, stride: int) -> OwnLayout:
    forward = convolution(kernel, stride, LAST)

    def gradient(image: Array, d_out: Array) -> Array:
        filters = jnp.zeros((kernel, kernel, image.shape[3], d_out.shape[3]), image.dtype)
        return jax.vjp(lambda filters: forward(image, filters), filters)[1](d_out)[0]

    return OwnLayout(
        gradient,
        lambda image, d_out: (channels_last(image), channels_last(d_out)),
        filters_first,
    )


def transposed(w: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(w.T)


REFERENCES: dict[str, Callable[..., Arrays | Array]] = {
    "tmm": lambda a, b: a @ b.T,
    "tbmm": lambda x, y: x @ y.transpose(0, 2, 1),
    "gconv": grouped_convolution,
    "1LUT": lookup,
    "2LUT": lambda t1, i1, t2, i2: (lookup(t1, i1), lookup(t2, i2)),
    "C3": lambda i, w: i @ w.T,
    "MLP1": mlp1,
    "MLP3": mlp3,
    "group_normalization": group_normalization,
    "moments2_2D_1D": moments,
    "softmax": lambda i: nn.softmax(i, 1),
    "layer_normalization": layer_normalization,
    "kronecker3": kronecker,
    "dense": lambda a, b: a @ b,
    "bmm": lambda x, y: x @ y,
    "mm": lambda a, b: a @ b,
    **{
        f"{name} {kernel} {stride}": make(kernel, stride)
        for kernel, stride in ((3, 1), (3, 2), (1, 1))
        for name, make in (
            ("convolution", convolution),
            ("input gradient", input_gradient),
            ("weight gradient", weight_gradient),
        )
    },
}

OWN_LAYOUTS: dict[str, OwnLayout] = {
    # As many groups as in the papers.
    "gconv": OwnLayout(grouped_convolution_last, groups_last, groups_first(32)),
    "tmm": OwnLayout(lambda a, b: a @ b, lambda a, b: (a, transposed(b))),
    "C3": OwnLayout(lambda i, w: i @ w, lambda i, w: (i, transposed(w))),
    "MLP1": OwnLayout(mlp1_last, lambda i, w, b: (i, transposed(w), b)),
    "MLP3": OwnLayout(
        mlp3_last,
        lambda i, w2, b2, w3, b3, w4, b4: (
            *(i, transposed(w2), b2),
            *(transposed(w3), b3, transposed(w4), b4),
        ),
    ),
    **{
        f"{name} {kernel} {stride}": make(kernel, stride)
        for kernel, stride in ((3, 1), (3, 2), (1, 1))
        for name, make in (
            ("convolution", convolution_last),
            ("input gradient", input_gradient_last),
            ("weight gradient", weight_gradient_last),
        )
    },
}

#: Other ways to the same results.
ALTERNATIVES: dict[str, dict[str, Callable[..., Arrays | Array]]] = {
    "moments2_2D_1D": {"two passes": lambda i: (i.mean(1), i.var(1))},
}
