"""The cases as a user of JAX would write them, by kind. Importing this needs JAX."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax, nn

Array = jax.Array
Arrays = tuple[Array, ...]


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


def lookup(table: Array, index: Array) -> Array:
    return table[index].sum(1)


def mlp1(i: Array, w: Array, b: Array) -> Arrays:
    return (nn.relu(i @ w.T + b),)


def mlp3(i: Array, w2: Array, b2: Array, w3: Array, b3: Array, w4: Array, b4: Array) -> Arrays:
    (o2,) = mlp1(i, w2, b2)
    (o3,) = mlp1(o2, w3, b3)
    return o2, o3, *mlp1(o3, w4, b4)


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


def layer_normalization(i: Array, gamma: Array, beta: Array) -> Arrays:
    return (nn.standardize(i, axis=1, epsilon=1e-5) * gamma + beta,)


def convolution(kernel: int, stride: int) -> Callable[[Array, Array], Array]:
    border = [(kernel // 2, kernel // 2)] * 2
    return lambda image, filters: lax.conv_general_dilated(image, filters, (stride, stride), border)


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
    "moments2_2D_1D": lambda i: (i.mean(1), i.var(1)),
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
