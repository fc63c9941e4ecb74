"""What goes wrong reaches Python as an exception with the words of the compiler."""

from __future__ import annotations

import numpy as np
import pytest
from caffe2.python import core, workspace
from nets import gradients, operator, random, run
from texts import ACCUMULATED, GATHER, MATMUL, MATMUL_GRADIENT, MATMUL_LISTS, SCALED, STRIDED

A, B = random(0, 5, 4), random(1, 4, 6)
TWO = MATMUL + SCALED
IMAGES = [random(0, 1, 4, 6, 6), random(1, 4, 2, 3, 3), random(2, 4)]

# What runs, and a part of its message.
RUNS = {
    "no text": ("TcOp", [A], {}, "the argument tcDef is missing"),
    "syntax": (
        "TcOp",
        [A],
        {"tcDef": "def f(float(N) x -> (y) {}"},
        "1:18: expected ')' or ',' in a list but found '->'",
    ),
    "undefined": (
        "TcOp",
        [A],
        {"tcDef": "def f(float(N) x) -> (y) { y(n) = z(n) }"},
        "undefined variable z used here",
    ),
    "which one": ("TcOp", [A, B], {"tcDef": TWO}, "tcDef has 2 definitions (matmul, scaled)"),
    "no such": (
        "TcOp",
        [A, B],
        {"tcDef": TWO, "tcName": "mm"},
        "attempting to access undefined function",
    ),
    "count": ("TcOp", [A], {"tcDef": MATMUL}, "matmul expected 2 inputs but found 1"),
    "type": (
        "TcOp",
        [A, B.astype(np.float64)],
        {"tcDef": MATMUL},
        "argument B: expected dtype float32 but got float64",
    ),
    "sizes": (
        "TcOp",
        [A, A],
        {"tcDef": MATMUL},
        "Mismatched sizes for dimension 0 of argument B: N is 4 (dimension 1 of A)",
    ),
    "rank": (
        "TcOp",
        [A, B[0]],
        {"tcDef": MATMUL},
        "argument B: expected 2 dimensions (N, K) but got 1",
    ),
    "two spellings": (
        "TcOp",
        [A, B],
        {"tcDef": MATMUL, "tc_def": MATMUL},
        "tcDef and tc_def are two spellings of one",
    ),
    "options": (
        "TcOp",
        [A, B],
        {"tcDef": MATMUL, "mappingOptions": "tc.MappingOptions().tile(-1)"},
        "mappingOptions: MappingOptions.tile(-1): expected 1 to 16 integers",
    ),
    "options of 2018": (
        "TcOp",
        [A, B],
        {"tcDef": MATMUL, "mapping_options": b"\x0a\x04\x08\x01\x10\x20"},
        "mapping_options holds 6 bytes that are no text, as serialised CUDA options of 2018",
    ),
    "no file": (
        "TcOp",
        [A, B],
        {"tcDef": MATMUL, "tc_cache": "/nowhere/file.tc.pb"},
        "cannot read '/nowhere/file.tc.pb'",
    ),
    "index": (
        "TcOp",
        [random(0, 5), np.array([[0, 5]], np.int32)],
        {"tcDef": GATHER},
        "gather: reads X(I(i, j)) outside: at i = 0, j = 1 index 5 of dimension 0",
    ),
    "a scalar": (
        "TcOp",
        [random(0, 5), random(1, 2)],
        {"tcDef": SCALED},
        "argument factor: expected a scalar but got sizes (2,)",
    ),
    "a deciding scalar": (
        "TcOp",
        [random(0, 5), random(1, 2), np.array([1, 2], np.int32)],
        {"tcDef": STRIDED},
        "argument stride: expected a scalar but got sizes (2,)",
    ),
    "no start": (
        "TcOp",
        [A],
        {"tcDef": ACCUMULATED},
        "output 0 is added to, so that it has to hold values: a tensor of sizes [5]",
    ),
    "strings": (
        "TcOp",
        [np.array(["a", "b"], dtype=object)],
        {"tcDef": SCALED},
        "have no place in a text",
    ),
    "unsigned result": (
        "TcOp",
        [A],
        {"tcDef": "def f(float(M, N) x) -> (y) { y(m, n) = uint32(x(m, n)) }"},
        "a result of type uint32 is none that Caffe2 has",
    ),
    "product": (
        "TcMatMulOp",
        [A, A],
        {},
        "Mismatched sizes for dimension 0 of argument B: K is 4 (dimension 1 of A)",
    ),
    "group": (
        "TcGroupConvolutionOp",
        IMAGES,
        {"group": 3},
        "4 channels of the images cannot be divided into group=3",
    ),
    "no group": (
        "TcGroupConvolutionOp",
        IMAGES,
        {},
        "argument input: expected 5 dimensions (N, G, C, H, W) but got 4",
    ),
    "group zero": (
        "TcGroupConvolutionOp",
        IMAGES,
        {"group": 0},
        "group is 0, but has to be at least 1",
    ),
    "group elsewhere": ("TcConvolutionOp", IMAGES, {"group": 2}, "TcGroupConvolutionOp has groups"),
    "stride": ("TcConvolutionOp", IMAGES, {"stride": 0}, "stride is 0, but has to be from 1 to"),
    "padding": ("TcConvolutionOp", IMAGES, {"pad_l": -1}, "pad_l is -1, but has to be from 0 to"),
    "far padding": (
        "TcConvolutionOp",
        IMAGES,
        {"pad": 2**40},
        "pad is 1099511627776, but has to be from 0 to 2147483647",
    ),
    "both": (
        "TcConvolutionOp",
        IMAGES,
        {"stride": 2, "stride_h": 2},
        "stride and stride_h say the same",
    ),
    "order": (
        "TcConvolutionOp",
        IMAGES,
        {"order": "NHWC"},
        "order is NHWC, but images are expected as NCHW",
    ),
    "lists": ("TcConvolutionOp", IMAGES, {"pads": [1, 1, 1, 1]}, "pads is a list of any rank"),
    "legacy": ("TcConvolutionOp", IMAGES, {"legacy_pad": 1}, "legacy_pad is not supported"),
    "table": (
        "TcLUTOp",
        [A, np.array([[5]], np.int64)],
        {},
        "lookup_table: reads table(index(b, l), d) outside",
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_run(name):
    type_, values, arguments, message = RUNS[name]
    with pytest.raises(RuntimeError) as caught:
        run(type_, values, **arguments)
    assert type_ in str(caught.value)
    assert message in str(caught.value)


def test_number_of_outputs():
    with pytest.raises(RuntimeError, match="matmul gives 1 outputs but the operator has 2"):
        run("TcOp", [A, B], outputs=2, tcDef=MATMUL)


def test_wrong_numbers_of_blobs_of_the_library():
    with pytest.raises(RuntimeError, match="did not pass schema checking"):
        run("TcMatMulOp", [A])


def test_in_place():
    workspace.FeedBlob("x", A)
    with pytest.raises(RuntimeError, match="did not pass schema checking"):
        workspace.RunOperatorOnce(operator("TcCopyOp", ["x"], ["x"]))


def test_memory_that_blobs_share():
    """Caffe2 knows no better than that these are two blobs."""
    workspace.FeedBlob("x", A)
    workspace.RunOperatorOnce(operator("Alias", ["x"], ["y"]))
    with pytest.raises(RuntimeError, match="overlap"):
        workspace.RunOperatorOnce(operator("TcCopyOp", ["x"], ["y"]))


def test_blob_without_values():
    workspace.CreateBlob("empty")
    with pytest.raises(RuntimeError):
        workspace.RunOperatorOnce(operator("TcCopyOp", ["empty"], ["y"]))


GRADIENTS = {
    "lists": ({"tcGradDef": MATMUL_GRADIENT}, "not the argument output_gradients_used_by_gradient"),
    "range": (
        {**MATMUL_LISTS, "tcGradDef": MATMUL_GRADIENT, "inputs_used_by_gradient": [0, 2]},
        "inputs_used_by_gradient has 2, but the operator has 2 inputs",
    ),
    "text": ({**MATMUL_LISTS, "tcGradDef": "def g("}, "1:"),
    "wanted": ({"inputs_to_compute_gradients_of": [2]}, "inputs_to_compute_gradients_of has 2"),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient(name):
    arguments, message = GRADIENTS[name]
    seed = np.ones((5, 6), np.float32)
    with pytest.raises(Exception) as caught:
        gradients("TcOp", [A, B], [seed], [0], tcDef=MATMUL, **arguments)
    assert message in str(caught.value)


def test_second_derivative():
    net = core.Net("second")
    net.AddExternalInput("a", "b", "seed", "other")
    net.TcOp(["a", "b"], ["c"], tcDef=MATMUL)
    net.AddGradientOperators({"c": "seed"})
    (made,) = (op for op in net.Proto().op if op.is_gradient_op)
    with pytest.raises(Exception, match="a derivative has no gradient operator itself"):
        core.GradientRegistry.GetGradientForOp(made, ["other", None])


def test_the_net_goes_on_after_an_error():
    values = {"a": A, "b": B}
    net = core.Net("again")
    net.AddExternalInput("a", "b")
    net.TcOp(["a", "b"], ["c"], tcDef=MATMUL)
    workspace.FeedBlob("a", A)
    workspace.FeedBlob("b", A)
    workspace.CreateNet(net)
    with pytest.raises(RuntimeError, match="Mismatched sizes"):
        workspace.RunNet(net)
    for name, value in values.items():
        workspace.FeedBlob(name, value)
    workspace.RunNet(net)
    np.testing.assert_allclose(workspace.FetchBlob("c"), A @ B, atol=1e-5)
