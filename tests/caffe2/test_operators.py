"""The operators of the library: beside Caffe2's own, and their gradients by differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from nets import (
    assert_close,
    check_gradients,
    check_shapes,
    gradients,
    integers,
    random,
    run,
)


@pytest.mark.parametrize(("trans_a", "trans_b"), itertools.product((0, 1), repeat=2))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_matmul(trans_a, trans_b, dtype):
    a = random(0, *((5, 7) if trans_a else (7, 5)), dtype=dtype)
    b = random(1, *((6, 5) if trans_b else (5, 6)), dtype=dtype)
    arguments = {"trans_a": trans_a, "trans_b": trans_b}
    wanted = (a.T if trans_a else a) @ (b.T if trans_b else b)
    assert_close(run("TcMatMulOp", [a, b], **arguments), wanted)
    if dtype == np.float32:
        assert_close(wanted, run("MatMul", [a, b], **arguments))
        check_gradients("TcMatMulOp", [a, b], [0, 1], **arguments)
    check_shapes("TcMatMulOp", [a, b], **arguments)


def test_matmul_of_half():
    a, b = random(0, 5, 7, dtype=np.float16), random(1, 7, 6, dtype=np.float16)
    wanted = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16)
    assert_close(run("TcMatMulOp", [a, b]), wanted, 1e-3)
    check_shapes("TcMatMulOp", [a, b])


def layer_values(layers, dtype=np.float32):
    widths = [6, 5, 7, 4, 3][: layers + 1]
    values = [random(0, 8, widths[0], dtype=dtype)]
    for k in range(layers):
        values.append(random(2 * k + 1, widths[k + 1], widths[k], dtype=dtype))
        values.append(random(2 * k + 2, widths[k + 1], dtype=dtype))
    return values


def layers_in_numpy(values):
    results, x = [], values[0]
    for weight, bias in zip(values[1::2], values[2::2]):
        x = np.maximum(x @ weight.T + bias, 0)
        results.append(x)
    return results


def layer_gradients(values, seeds):
    """Of the input, and of each layer's weight and bias: what Caffe2's FC and Relu give."""
    results = layers_in_numpy(values)
    count = len(results)
    found, arriving = [None] * len(values), np.zeros_like(results[-1])
    for k in reversed(range(count)):
        below = results[k - 1] if k else values[0]
        inside = (arriving + seeds[k]) * (results[k] > 0)
        found[2 * k + 1], found[2 * k + 2] = inside.T @ below, inside.sum(0)
        arriving = inside @ values[2 * k + 1]
    found[0] = arriving
    return found


LAYERS = {1: "TcFCReluOp", 2: "Tc2FCReluOp", 3: "Tc3FCReluOp", 4: "Tc4FCReluOp"}


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layers(layers, dtype):
    values = layer_values(layers, dtype)
    wanted = layers_in_numpy(values)
    found = run(LAYERS[layers], values, outputs=layers)
    for f, w in zip([found] if layers == 1 else found, wanted):
        assert_close(f, w)
    if dtype == np.float32:
        x = values[0]
        for k in range(layers):
            x = run("Relu", [run("FC", [x, values[2 * k + 1], values[2 * k + 2]])])
        assert_close(wanted[-1], x)
    seeds = [random(20 + k, *w.shape, dtype=dtype) for k, w in enumerate(wanted)]
    everything = range(len(values))
    for f, w in zip(
        gradients(LAYERS[layers], values, seeds, everything), layer_gradients(values, seeds)
    ):
        assert_close(f, w)
    check_shapes(LAYERS[layers], values, outputs=layers)


@pytest.mark.parametrize("layers", LAYERS)
def test_gradients_of_layers_by_differences(layers):
    """Away from the corner of the ReLU, which a difference would step over."""
    values = [np.abs(v) / v.size + 0.1 for v in layer_values(layers)]
    everything = range(len(values))
    check_gradients(LAYERS[layers], values, everything, outputs=layers)


def test_gradient_of_some_outputs():
    """A loss of the last layer alone."""
    from caffe2.python import core, workspace

    values = layer_values(2)
    net = core.Net("last")
    blobs = [f"v{k}" for k in range(len(values))]
    seed = random(9, 8, 7)
    for name, value in [*zip(blobs, values), ("seed", seed)]:
        workspace.FeedBlob(name, value)
        net.AddExternalInput(name)
    net.Tc2FCReluOp(blobs, ["o1", "o2"])
    made = net.AddGradientOperators({"o2": "seed"})
    workspace.RunNetOnce(net)
    wanted = layer_gradients(values, [np.zeros((8, 5), np.float32), seed])
    for name, w in zip(blobs, wanted):
        assert_close(workspace.FetchBlob(str(made[name])), w)


@pytest.mark.parametrize("sizes", [(7,), (3, 5), (2, 3, 4), (2, 3, 2, 3), (2, 1, 3, 2, 2), (0, 4)])
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.float16, np.int32, np.int64, np.uint8]
)
def test_copy(sizes, dtype):
    x = (10 * random(0, *sizes)).astype(dtype)
    assert_close(run("TcCopyOp", [x]), x, 0)
    if dtype == np.float32 and x.size:
        check_gradients("TcCopyOp", [x], [0])
    check_shapes("TcCopyOp", [x])


WINDOWS = [
    {},
    {"stride": 2},
    {"stride_h": 2, "stride_w": 1},
    {"pad": 1},
    {"pad_t": 1, "pad_l": 2, "pad_b": 0, "pad_r": 1},
    {"stride": 2, "pad": 2, "dilation": 2},
    {"dilation_h": 2, "dilation_w": 1},
]


@pytest.mark.parametrize("windows", WINDOWS, ids=str)
def test_convolution(windows):
    values = [random(0, 2, 3, 9, 8), random(1, 4, 3, 3, 2), random(2, 4)]
    wanted = run("Conv", values, kernel_h=3, kernel_w=2, **windows)
    assert_close(run("TcConvolutionOp", values, **windows), wanted)
    check_shapes("TcConvolutionOp", values, **windows)
    seed = random(3, *wanted.shape)
    theirs = gradients("Conv", values, [seed], range(3), kernel_h=3, kernel_w=2, **windows)
    ours = gradients("TcConvolutionOp", values, [seed], range(3), **windows)
    for found, expected in zip(ours, theirs):
        assert_close(found, expected, 1e-4)


@pytest.mark.parametrize("windows", WINDOWS[4:6], ids=str)
def test_gradient_of_convolution_by_differences(windows):
    values = [random(0, 1, 2, 6, 5), random(1, 2, 2, 2, 2), random(2, 2)]
    check_gradients("TcConvolutionOp", values, [0, 1, 2], **windows)


def test_convolution_in_double():
    values = [
        random(k, *s, dtype=np.float64) for k, s in enumerate([(1, 2, 6, 5), (3, 2, 2, 2), (3,)])
    ]
    single = [v.astype(np.float32) for v in values]
    found = run("TcConvolutionOp", values, stride=2, pad=1)
    assert found.dtype == np.float64
    assert_close(found.astype(np.float32), run("Conv", single, kernel=2, stride=2, pad=1))


@pytest.mark.parametrize("windows", WINDOWS, ids=str)
def test_group_convolution(windows):
    """Both layouts: of Caffe2's Conv, and of 2018 with a dimension for the groups."""
    n, g, c, f = 2, 4, 3, 5
    values = [random(0, n, g * c, 9, 8), random(1, g * f, c, 3, 2), random(2, g * f)]
    wanted = run("Conv", values, kernel_h=3, kernel_w=2, group=g, **windows)
    assert_close(run("TcGroupConvolutionOp", values, group=g, **windows), wanted)
    check_shapes("TcGroupConvolutionOp", values, group=g, **windows)
    divided = [
        values[0].reshape(n, g, c, 9, 8),
        values[1].reshape(g, f, c, 3, 2),
        values[2].reshape(g, f),
    ]
    found = run("TcGroupConvolutionOp", divided, **windows)
    assert_close(found, wanted.reshape(n, g, f, *wanted.shape[2:]))
    check_shapes("TcGroupConvolutionOp", divided, **windows)
    seed = random(3, *wanted.shape)
    theirs = gradients("Conv", values, [seed], range(3), kernel_h=3, kernel_w=2, group=g, **windows)
    ours = gradients("TcGroupConvolutionOp", values, [seed], range(3), group=g, **windows)
    for a, b in zip(ours, theirs):
        assert_close(a, b, 1e-4)
    ours = gradients(
        "TcGroupConvolutionOp", divided, [seed.reshape(found.shape)], range(3), **windows
    )
    for a, b, like in zip(ours, theirs, divided):
        assert_close(a, b.reshape(like.shape), 1e-4)


def test_gradient_of_group_convolution_by_differences():
    values = [random(0, 1, 4, 5, 5), random(1, 4, 2, 2, 2), random(2, 4)]
    check_gradients("TcGroupConvolutionOp", values, [0, 1, 2], group=2, stride=2, pad=1)


@pytest.mark.parametrize("group", [1, 4])
def test_groups_of_one_channel_and_of_all(group):
    values = [random(0, 2, 4, 6, 6), random(1, 4, 4 // group, 3, 3), random(2, 4)]
    wanted = run("Conv", values, kernel=3, group=group)
    assert_close(run("TcGroupConvolutionOp", values, group=group), wanted)


def sums_of_rows(table, index):
    """By Caffe2: of every row of an index matrix, the rows of the table that it names."""
    lengths = np.full(index.shape[0], index.shape[1], np.int32)
    return run("SparseLengthsSum", [table, index.reshape(-1).astype(np.int64), lengths])


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lookup_table(index, dtype):
    values = [random(0, 11, 4, dtype=dtype), integers(1, 11, 5, 3, dtype=index)]
    wanted = sums_of_rows(values[0].astype(np.float32), values[1]).astype(dtype)
    assert_close(run("TcLUTOp", values), wanted)
    check_shapes("TcLUTOp", values)
    if dtype == np.float32:
        check_gradients("TcLUTOp", values, [0])


def test_two_lookup_tables():
    values = [random(0, 11, 4), integers(1, 11, 5, 3), random(2, 7, 6), integers(3, 7, 5, 2)]
    first, second = run("Tc2LUTOp", values, outputs=2)
    assert_close(first, sums_of_rows(values[0], values[1]))
    assert_close(second, sums_of_rows(values[2], values[3]))
    check_shapes("Tc2LUTOp", values, outputs=2)
    check_gradients("Tc2LUTOp", values, [0, 2], outputs=2)


def test_dense_and_lookup_tables():
    values = [
        random(0, 5, 6),
        integers(1, 11, 5, 3),
        integers(2, 7, 5, 2),
        random(3, 4, 6),
        random(4, 4),
        random(5, 11, 4),
        random(6, 7, 4),
    ]
    output, first, second = run("TcDperLutConcatOp", values, outputs=3)
    assert_close(output, run("FC", [values[0], values[3], values[4]]))
    assert_close(first, sums_of_rows(values[5], values[1]))
    assert_close(second, sums_of_rows(values[6], values[2]))
    check_shapes("TcDperLutConcatOp", values, outputs=3)
    check_gradients("TcDperLutConcatOp", values, [0, 3, 4, 5, 6], outputs=3)
