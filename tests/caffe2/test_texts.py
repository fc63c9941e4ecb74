"""TcOp: texts of one's own, the arguments of 2018, gradients that are given and that are found."""

from __future__ import annotations

import numpy as np
import pytest
from caffe2.python import core, workspace
from nets import (
    assert_close,
    check_gradients,
    check_shapes,
    gradients,
    integers,
    operator,
    random,
    run,
)
from texts import (
    ACCUMULATED,
    BATCHED,
    GATHER,
    MATMUL,
    MATMUL_GRADIENT,
    MATMUL_LISTS,
    NORMALIZED,
    SCALED,
    SIGMOID,
    STRIDED,
    TOTAL,
)


def normalized(x, scale):
    mean = x.mean(1)
    return (x - mean[:, None]) / np.sqrt(x.var(1) + 0.001)[:, None] * scale, mean


def strided(x, weight, stride):
    windows = np.lib.stride_tricks.sliding_window_view(x, len(weight))[::stride]
    return windows @ weight


# The text, its inputs, its results by NumPy, the inputs that have gradients.
CASES = {
    "matmul": (MATMUL, [random(0, 5, 4), random(1, 4, 6)], lambda a, b: [a @ b], [0, 1]),
    "batched": (BATCHED, [random(0, 3, 5, 4), random(1, 3, 4, 2)], lambda x, y: [x @ y], [0, 1]),
    "sigmoid": (SIGMOID, [random(0, 2, 3, 4)], lambda x: [1 / (1 + np.exp(-x))], [0]),
    "normalized": (
        NORMALIZED,
        [random(0, 4, 6), random(1, 6)],
        lambda *v: [*normalized(*v)],
        [0, 1],
    ),
    "gather": (GATHER, [random(0, 9), integers(1, 9, 3, 4)], lambda x, i: [x[i]], [0]),
    "total": (TOTAL, [random(0, 3, 4)], lambda x: [(x * x).sum()], [0]),
    "scaled": (SCALED, [random(0, 7), np.array(3, np.float32)], lambda x, f: [f * x * x], [0]),
    "strided": (
        STRIDED,
        [random(0, 11), random(1, 3), np.array([2], np.int32)],
        lambda x, w, s: [strided(x, w, s[0])],
        [0, 1],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_text(name):
    text, values, reference, differentiable = CASES[name]
    wanted = reference(*values)
    found = run("TcOp", values, outputs=len(wanted), tcDef=text)
    for f, w in zip(found if len(wanted) > 1 else [found], wanted):
        assert_close(f, w)
    check_gradients("TcOp", values, differentiable, outputs=len(wanted), tcDef=text)
    if name != "strided":  # whose sizes depend on a value
        check_shapes("TcOp", values, outputs=len(wanted), tcDef=text)


def test_nothing_is_inferred_from_a_value():
    net = core.Net("unknown")
    net.Proto().op.extend([operator("TcOp", ["x", "w", "s"], ["y"], tcDef=STRIDED)])
    for name, value in zip("xws", CASES["strided"][1]):
        workspace.FeedBlob(name, value)
    sizes, _ = workspace.InferShapesAndTypes([net])
    assert "y" not in sizes or not sizes["y"]


@pytest.mark.parametrize("spelling", ["tcDef", "tc_def"])
def test_net_of_2018(spelling):
    """The arguments that the test of the original had, in both spellings."""
    arguments = {
        "tcDef": MATMUL + MATMUL_GRADIENT,
        "tcName": "matmul",
        "tcGradDef": MATMUL + MATMUL_GRADIENT,
        "tcGradName": "matmul_grad",
        "checkSizes": True,
    }
    if spelling == "tc_def":
        later = ("tc_def", "tc_name", "tc_grad_def", "tc_grad_name", "check_sizes")
        arguments = dict(zip(later, arguments.values()))
    values = [random(0, 5, 4), random(1, 4, 6)]
    assert_close(run("TcOp", values, **arguments, **MATMUL_LISTS), values[0] @ values[1])
    check_gradients("TcOp", values, [0, 1], **arguments, **MATMUL_LISTS)
    seed = random(2, 5, 6)
    a, b = gradients("TcOp", values, [seed], [0, 1], **arguments, **MATMUL_LISTS)
    assert_close(a, seed @ values[1].T)
    assert_close(b, values[0].T @ seed)


def test_given_gradient_with_outputs():
    """A gradient of the result's values: inputs, then outputs, then gradients."""
    forward = "def f(float(N) x) -> (y) { y(n) = exp(x(n)) }"
    backward = "def g(float(N) y, float(N) d_y) -> (d_x) { d_x(n) = y(n) * d_y(n) }"
    lists = {
        "outputs_used_by_gradient": [0],
        "output_gradients_used_by_gradient": [0],
        "inputs_to_compute_gradients_of": [0],
    }
    x, seed = random(0, 6), random(1, 6)
    (found,) = gradients("TcOp", [x], [seed], [0], tcDef=forward, tcGradDef=backward, **lists)
    assert_close(found, np.exp(x) * seed)


def test_the_given_gradient_is_the_one_that_runs():
    """A wrong one, to see that."""
    text = "def f(float(N) x) -> (y) { y(n) = x(n) }"
    wrong = "def g(float(N) d_y) -> (d_x) { d_x(n) = 7 * d_y(n) }"
    lists = {"output_gradients_used_by_gradient": [0], "inputs_to_compute_gradients_of": [0]}
    (found,) = gradients(
        "TcOp", [random(0, 3)], [np.ones(3, np.float32)], [0], tcDef=text, tcGradDef=wrong, **lists
    )
    assert_close(found, np.full(3, 7, np.float32))


def test_only_wanted_gradients():
    values = [random(0, 5, 4), random(1, 4, 6)]
    net = core.Net("one")
    net.AddExternalInput("a", "b", "seed")
    net.TcOp(["a", "b"], ["c"], tcDef=MATMUL, inputs_to_compute_gradients_of=[1])
    made = net.AddGradientOperators({"c": "seed"})
    assert "b" in made and "a" not in made
    (gradient,) = (op for op in net.Proto().op if op.is_gradient_op)
    assert list(gradient.output) == ["b_grad"]
    seed = random(2, 5, 6)
    for name, value in zip(("a", "b", "seed"), [*values, seed]):
        workspace.FeedBlob(name, value)
    workspace.RunNetOnce(net)
    assert_close(workspace.FetchBlob("b_grad"), values[0].T @ seed)


def test_no_gradient_is_given_where_none_is_reached():
    """The result does not depend on `b`'s values."""
    text = "def f(float(N) a, float(N) b) -> (y) { y(n) = 2 * a(n) }"
    net = core.Net("unreached")
    net.AddExternalInput("a", "b", "seed")
    net.TcOp(["a", "b"], ["y"], tcDef=text)
    made = net.AddGradientOperators({"y": "seed"})
    assert "a" in made and "b" not in made


def test_blob_that_is_used_twice():
    """As Caffe2's own operators: both gradients are added up."""
    x, seed = random(0, 4, 4), random(1, 4, 4)
    net = core.Net("twice")
    net.AddExternalInput("x", "seed")
    copy = net.Copy("x", "copy")
    net.TcOp(["x", copy], ["y"], tcDef=MATMUL)
    net.AddGradientOperators({"y": "seed"})
    workspace.FeedBlob("x", x)
    workspace.FeedBlob("seed", seed)
    workspace.RunNetOnce(net)
    assert_close(workspace.FetchBlob("x_grad"), seed @ x.T + x.T @ seed)


TYPES = [np.float64, np.float16, np.int32, np.int64, np.int16, np.int8, np.uint8, np.uint16]


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.__name__)
def test_types(dtype):
    word = {"float64": "double", "float16": "half"}.get(dtype.__name__, dtype.__name__)
    x = (5 * np.abs(random(0, 6))).astype(dtype)
    found = run("TcOp", [x], tcDef=f"def f({word}(N) x) -> (y) {{ y(n) = x(n) + x(n) }}")
    assert_close(found, x + x, 0)
    if word == "double":
        check_gradients_of_doubles(x)


def check_gradients_of_doubles(x):
    text = "def f(double(N) x) -> (y) { y(n) = x(n) * x(n) }"
    (found,) = gradients("TcOp", [x], [np.ones_like(x)], [0], tcDef=text)
    assert found.dtype == np.float64
    assert_close(found, 2 * x)


def test_booleans():
    x = random(0, 9)
    found = run("TcOp", [x], tcDef="def f(float(N) x) -> (y) { y(n) = x(n) > 0 }")
    assert found.dtype == bool
    assert (found == (x > 0)).all()


def test_results_that_are_added_to():
    x, start = random(0, 3, 5), random(1, 3)
    workspace.FeedBlob("x", x)
    workspace.FeedBlob("sum", start)
    op = operator("TcOp", ["x"], ["sum"], tcDef=ACCUMULATED)
    for times in (1, 2):
        workspace.RunOperatorOnce(op)
        assert_close(workspace.FetchBlob("sum"), start + times * x.sum(1))


def test_options():
    """str(MappingOptions) and names of presets."""
    values = [random(0, 33, 20), random(1, 20, 17)]
    wanted = values[0] @ values[1]
    for options in ("naive", 'tc.MappingOptions("naive").tile(8, 8).unroll(4)'):
        found = run("TcOp", values, tcDef=MATMUL, mappingOptions=options)
        assert_close(found, wanted)
        check_gradients(
            "TcOp", [v[:4, :4] for v in values], [0], tcDef=MATMUL, gradMappingOptions=options
        )
