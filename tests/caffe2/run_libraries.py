"""Products and convolutions that are left to ATen, with their gradients; run by test_libraries.py,
which counts the calls that are told of."""

from __future__ import annotations

import conftest  # noqa: F401
import numpy as np
from nets import assert_close, gradients, random, run
from texts import BATCHED, MATMUL

CONVOLUTIONS = [
    ("TcConvolutionOp", [(2, 3, 9, 8), (4, 3, 3, 2), (4,)], {}),
    ("TcConvolutionOp", [(2, 3, 9, 8), (4, 3, 3, 2), (4,)], {"stride": 2, "pad": 1}),
    ("TcConvolutionOp", [(2, 3, 9, 8), (4, 3, 3, 2), (4,)], {"pad": 2, "dilation": 2}),
    ("TcGroupConvolutionOp", [(2, 6, 9, 8), (4, 3, 3, 2), (4,)], {"group": 2, "stride": 2}),
]
# Along one dimension and along three.
LINE = """
def line(float(N, C, W) I, float(F, C, K) W1) -> (O) {
    O(n, f, w) +=! I(n, c, 2 * w + k) * W1(f, c, k)
}
"""
SOLID = """
def solid(float(N, C, D, H, W) I, float(F, C, KD, KH, KW) W1) -> (O) {
    O(n, f, d, h, w) +=! I(n, c, d + kd, h + kh, w + kw) * W1(f, c, kd, kh, kw)
}
"""

# Windows that read their filters backwards: the library's gradient of an image.
TURNED_LINE = """
def turned_line(float(N, F, W) I, float(F, C, K) W1) -> (O) {
    O(n, c, w) +=! I(n, f, w + k) * W1(f, c, K - 1 - k)
}
"""
TURNED = """
def turned(float(N, F, H, W) I, float(F, C, KH, KW) W1) -> (O) {
    O(n, c, h, w) +=! I(n, f, h + kh, w + kw) * W1(f, c, KH - 1 - kh, KW - 1 - kw)
}
"""


def in_numpy(image, filters, stride):
    """A convolution as a sum over the filter's places."""
    rank = image.ndim - 2
    sizes = [(i - k) // stride + 1 for i, k in zip(image.shape[2:], filters.shape[2:])]
    result = 0
    for place in np.ndindex(*filters.shape[2:]):
        cut = tuple(slice(p, p + stride * (s - 1) + 1, stride) for p, s in zip(place, sizes))
        part = image[(slice(None), slice(None), *cut)]
        result = result + np.einsum("nc...,fc->nf...", part, filters[(slice(None),) * 2 + place])
    assert result.ndim == rank + 2
    return result


def gradients_in_numpy(image, filters, stride, seed):
    d_image, d_filters = np.zeros_like(image), np.zeros_like(filters)
    for place in np.ndindex(*filters.shape[2:]):
        cut = tuple(
            slice(p, p + stride * (s - 1) + 1, stride) for p, s in zip(place, seed.shape[2:])
        )
        at = (slice(None), slice(None), *cut)
        here = (slice(None),) * 2 + place
        d_image[at] += np.einsum("nf...,fc->nc...", seed, filters[here])
        d_filters[here] = np.einsum(
            "nfx,ncx->fc",
            seed.reshape(*seed.shape[:2], -1),
            image[at].reshape(*image.shape[:2], -1),
        )
    return d_image, d_filters


def products():
    for dtype, word in ((np.float32, "float"), (np.float64, "double")):
        a, b, seed = (random(k, *s, dtype=dtype) for k, s in enumerate([(5, 7), (7, 6), (5, 6)]))
        text = MATMUL.replace("float", word)
        assert_close(run("TcOp", [a, b], tcDef=text), a @ b)
        for found, wanted in zip(
            gradients("TcOp", [a, b], [seed], [0, 1], tcDef=text), (seed @ b.T, a.T @ seed)
        ):
            assert_close(found, wanted)
    x, y = random(0, 3, 5, 4), random(1, 3, 4, 6)
    assert_close(run("TcOp", [x, y], tcDef=BATCHED), x @ y)


def added_products():
    """Products that are added to what a result holds, of matrices and batches of them."""
    from caffe2.python import workspace
    from nets import operator

    for text, sizes in (
        (MATMUL, ((5, 4), (4, 6), (5, 6))),
        (BATCHED, ((3, 5, 4), (3, 4, 2), (3, 5, 2))),
    ):
        a, b, start = (random(k, *s) for k, s in enumerate(sizes))
        for name, value in zip("abc", (a, b, start)):
            workspace.FeedBlob(name, value)
        workspace.RunOperatorOnce(
            operator("TcOp", ["a", "b"], ["c"], tcDef=text.replace("+=!", "+="))
        )
        assert_close(workspace.FetchBlob("c"), start + a @ b)


def windows():
    for type_, sizes, arguments in CONVOLUTIONS:
        values = [random(k, *s) for k, s in enumerate(sizes)]
        wanted = run("Conv", values, kernel_h=3, kernel_w=2, **arguments)
        assert_close(run(type_, values, **arguments), wanted)
        seed = random(3, *wanted.shape)
        theirs = gradients("Conv", values, [seed], range(3), kernel_h=3, kernel_w=2, **arguments)
        for found, expected in zip(gradients(type_, values, [seed], range(3), **arguments), theirs):
            assert_close(found, expected, 1e-4)
        double = [v.astype(np.float64) for v in values]
        found = gradients(type_, double, [seed.astype(np.float64)], range(3), **arguments)
        for f, expected in zip(found, theirs):
            assert_close(f.astype(np.float32), expected, 1e-4)


def other_dimensions():
    for text, stride, sizes in (
        (LINE, 2, ((2, 3, 12), (4, 3, 3))),
        (SOLID, 1, ((2, 2, 5, 6, 4), (3, 2, 2, 3, 2))),
    ):
        for dtype, word in ((np.float32, "float"), (np.float64, "double")):
            image, filters = (random(k, *s, dtype=dtype) for k, s in enumerate(sizes))
            source = text.replace("float", word)
            wanted = in_numpy(image, filters, stride)
            assert_close(run("TcOp", [image, filters], tcDef=source), wanted)
            seed = random(2, *wanted.shape, dtype=dtype)
            found = gradients("TcOp", [image, filters], [seed], [0, 1], tcDef=source)
            for f, w in zip(found, gradients_in_numpy(image, filters, stride, seed)):
                assert_close(f, w)


def turned_filters():
    for text, image, filters in (
        (TURNED_LINE, (2, 3, 12), (3, 4, 3)),
        (TURNED, (2, 3, 9, 8), (3, 4, 3, 2)),
    ):
        for dtype, word in ((np.float32, "float"), (np.float64, "double")):
            x, w = random(0, *image, dtype=dtype), random(1, *filters, dtype=dtype)
            backwards = np.flip(w, tuple(range(2, w.ndim))).swapaxes(0, 1)
            found = run("TcOp", [x, w], tcDef=text.replace("float", word))
            assert_close(found, in_numpy(x, backwards, 1))


products()
added_products()
windows()
other_dimensions()
turned_filters()
