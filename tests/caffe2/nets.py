"""Running operators and nets, and what their results are compared with."""

from __future__ import annotations

import numpy as np
from caffe2.python import core, gradient_checker, workspace


def random(seed, *sizes, dtype=np.float32):
    return np.random.RandomState(seed).randn(*sizes).astype(dtype)


def integers(seed, below, *sizes, dtype=np.int32):
    return np.random.RandomState(seed).randint(0, below, sizes).astype(dtype)


def names(prefix, count):
    return [f"{prefix}{k}" for k in range(count)]


def operator(type_, inputs, outputs, **arguments):
    return core.CreateOperator(type_, inputs, outputs, **arguments)


def run(type_, values, outputs=1, **arguments):
    """The results of an operator, one or a list."""
    inputs, results = names("in", len(values)), names("out", outputs)
    for name, value in zip(inputs, values):
        workspace.FeedBlob(name, value)
    workspace.RunOperatorOnce(operator(type_, inputs, results, **arguments))
    found = [workspace.FetchBlob(name) for name in results]
    return found[0] if outputs == 1 else found


def run_net(net, values):
    for name, value in values.items():
        workspace.FeedBlob(name, value)
    workspace.RunNetOnce(net)


def gradients(type_, values, seeds, wanted, **arguments):
    """The gradients of inputs, as Caffe2 adds them to a net, for these gradients of all outputs."""
    inputs, outputs = names("in", len(values)), names("out", len(seeds))
    net = core.Net("gradients")
    net.AddExternalInput(*inputs)
    net.Proto().op.extend([operator(type_, inputs, outputs, **arguments)])
    given = {}
    for name, seed in zip(outputs, seeds):
        given[name] = f"{name}_given"
        net.AddExternalInput(given[name])
        workspace.FeedBlob(given[name], seed)
    made = net.AddGradientOperators(given)
    run_net(net, dict(zip(inputs, values)))
    return [workspace.FetchBlob(str(made[inputs[k]])) for k in wanted]


def check_gradients(type_, values, wanted, outputs=1, threshold=0.02, **arguments):
    """By differences, as Caffe2 checks its own."""
    inputs, results = names("in", len(values)), names("out", outputs)
    op = operator(type_, inputs, results, **arguments)
    checker = gradient_checker.GradientChecker(0.02, threshold)
    for k in wanted:
        right, found, estimated = checker.CheckSimple(op, values, k, list(range(outputs)))
        assert right, f"{type_}, input {k}: {found} is not {estimated}"


def check_shapes(type_, values, outputs=1, **arguments):
    """What Caffe2 infers before a net runs is what it then has."""
    inputs, results = names("in", len(values)), names("out", outputs)
    net = core.Net("shapes")
    net.Proto().op.extend([operator(type_, inputs, results, **arguments)])
    for name, value in zip(inputs, values):
        workspace.FeedBlob(name, value)
    sizes, types = workspace.InferShapesAndTypes([net])
    workspace.RunNetOnce(net)
    for name in results:
        found = workspace.FetchBlob(name)
        assert tuple(sizes[name]) == found.shape
        expected = {"float32": 1, "int32": 2, "uint8": 6, "int64": 10, "float16": 12, "float64": 13}
        assert types[name] == expected[str(found.dtype)]


def assert_close(found, wanted, tolerance=1e-5):
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    scale = max(1.0, np.abs(wanted).max()) if wanted.size else 1.0
    difference = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
    assert difference.max(initial=0) <= tolerance * scale
