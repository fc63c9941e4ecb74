"""Nets: of all kinds of executors, in many threads, saved and loaded, over changing sizes."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace
from nets import assert_close, random
from texts import MATMUL, NORMALIZED, SIGMOID

BRANCHES = 6


def branching_net(name, kind="simple", workers=1):
    """Products of x with weights of their own, added up, with gradients."""
    net = core.Net(name)
    blobs = {"x": random(0, 7, 5), **{f"w{k}": random(k + 1, 5, 4) for k in range(BRANCHES)}}
    net.AddExternalInput(*blobs)
    parts = [net.TcMatMulOp(["x", f"w{k}"], [f"p{k}"]) for k in range(BRANCHES)]
    net.Sum(parts, ["sum"])
    net.AveragedLoss(["sum"], ["loss"])
    net.AddGradientOperators(["loss"])
    net.Proto().type, net.Proto().num_workers = kind, workers
    for blob, value in blobs.items():
        workspace.FeedBlob(blob, value)
    return net, blobs


def check_branching_net(blobs):
    weights = sum(blobs[f"w{k}"] for k in range(BRANCHES))
    assert_close(workspace.FetchBlob("sum"), blobs["x"] @ weights)
    seed = np.full((7, 4), 1 / 28, np.float32)
    assert_close(workspace.FetchBlob("x_grad"), seed @ weights.T)
    for k in range(BRANCHES):
        assert_close(workspace.FetchBlob(f"w{k}_grad"), blobs["x"].T @ seed)


@pytest.mark.parametrize(
    ("kind", "workers"),
    [("simple", 1), ("dag", 1), ("dag", 4), ("async_scheduling", 1), ("async_scheduling", 4)],
)
def test_executors(kind, workers):
    net, blobs = branching_net(f"branches_{kind}_{workers}", kind, workers)
    workspace.CreateNet(net)
    for _ in range(20):
        workspace.RunNet(net)
        check_branching_net(blobs)


def test_exception_in_a_worker():
    net, _ = branching_net("failing", "dag", 4)
    workspace.FeedBlob("w3", random(0, 6, 4))
    workspace.CreateNet(net)
    with pytest.raises(RuntimeError, match="Mismatched sizes for dimension 0 of argument B"):
        workspace.RunNet(net)


def test_nets_in_parallel_threads():
    """32 nets, each of its own sizes and in its own workspace's blobs, all compiled at once."""
    count, failures = 32, []
    nets = []
    for k in range(count):
        net = core.Net(f"parallel{k}")
        net.AddExternalInput(f"a{k}", f"b{k}")
        net.TcOp([f"a{k}", f"b{k}"], [f"c{k}"], tcDef=MATMUL)
        # Half of them share their sizes, and so their kernels.
        a, b = random(k, 3 + k // 2, 5), random(k, 5, 4)
        workspace.FeedBlob(f"a{k}", a)
        workspace.FeedBlob(f"b{k}", b)
        workspace.CreateNet(net)
        nets.append((net, a, b))
    start = threading.Barrier(count)

    def work(k):
        net, a, b = nets[k]
        start.wait()
        try:
            for _ in range(50):
                workspace.RunNet(net)
            assert_close(workspace.FetchBlob(f"c{k}"), a @ b)
        except Exception as error:
            failures.append((k, error))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_changing_sizes():
    """What 2018 could not: it went on with the tensors of the first run."""
    net = core.Net("sizes")
    net.AddExternalInput("x", "scale", "seed")
    net.TcOp(["x", "scale"], ["y", "mean"], tcDef=NORMALIZED)
    net.AddGradientOperators({"y": "seed"})
    made = False
    for round_ in range(3):
        for rows, columns in [
            (3, 5),
            (1, 7),
            (8, 2),
            (3, 5),
            (0, 5),
            (40, 33),
            *[(k, 4) for k in range(1, 14)],
        ]:
            x, scale = random(round_, rows, columns), random(1, columns)
            for name, value in (("x", x), ("scale", scale), ("seed", np.ones_like(x))):
                workspace.FeedBlob(name, value)
            if not made:
                workspace.CreateNet(net)
                made = True
            workspace.RunNet(net)
            mean = x.mean(1, keepdims=True)
            wanted = (x - mean) / np.sqrt(x.var(1, keepdims=True) + 0.001)
            assert_close(workspace.FetchBlob("y"), wanted * scale)
            assert_close(workspace.FetchBlob("mean"), mean[:, 0])
            assert workspace.FetchBlob("x_grad").shape == x.shape
            assert_close(workspace.FetchBlob("scale_grad"), wanted.sum(0), 1e-4)


def test_changing_types():
    net = core.Net("types")
    net.AddExternalInput("x")
    net.TcCopyOp(["x"], ["y"])
    workspace.FeedBlob("x", random(0, 3))
    workspace.CreateNet(net)
    for dtype in (np.float32, np.float64, np.int64, np.float32):
        x = (9 * random(1, 4, 3)).astype(dtype)
        workspace.FeedBlob("x", x)
        workspace.RunNet(net)
        assert_close(workspace.FetchBlob("y"), x, 0)


def test_values_change_while_sizes_stay():
    """Of inputs, and of scalars, which may decide sizes."""
    text = """
    def shortened(float(N) x, float factor, int stride) -> (y) {
        y(n) = factor * x(stride * n)
    }"""
    net = core.Net("values")
    net.AddExternalInput("x", "factor", "stride")
    net.TcOp(["x", "factor", "stride"], ["y"], tcDef=text)
    workspace.FeedBlob("x", random(0, 12))
    workspace.FeedBlob("factor", np.ones(1, np.float32))
    workspace.FeedBlob("stride", np.ones(1, np.int32))
    workspace.CreateNet(net)
    for k in range(12):
        x, factor, stride = random(k, 12), np.float32(k), 1 + k % 3
        workspace.FeedBlob("x", x)
        workspace.FeedBlob("factor", np.array([factor]))
        workspace.FeedBlob("stride", np.array([stride], np.int32))
        workspace.RunNet(net)
        assert_close(workspace.FetchBlob("y"), factor * x[::stride])


def test_saved_and_loaded(tmp_path):
    """As protobuf: the gradient's operators, too, are all in the net."""
    net, blobs = branching_net("saved")
    net.TcOp(["sum"], ["last"], tcDef=SIGMOID.replace("B, N, M", "N, M").replace("b, i, j", "i, j"))
    (tmp_path / "net.pb").write_bytes(net.Proto().SerializeToString())
    loaded = caffe2_pb2.NetDef()
    loaded.ParseFromString((tmp_path / "net.pb").read_bytes())
    workspace.ResetWorkspace()
    for name, value in blobs.items():
        workspace.FeedBlob(name, value)
    workspace.CreateNet(loaded)
    workspace.RunNet(loaded.name)
    check_branching_net(blobs)
    assert_close(workspace.FetchBlob("last"), 1 / (1 + np.exp(-workspace.FetchBlob("sum"))))


def test_mobile_predictor_format():
    """A predict net with its parameters, as Caffe2 exports models."""
    from caffe2.python.predictor import mobile_exporter

    x, weight, bias = random(0, 3, 5), random(1, 4, 5), random(2, 4)
    net = core.Net("exported")
    net.AddExternalInput("x", "w", "b")
    net.AddExternalOutput(net.TcFCReluOp(["x", "w", "b"], ["y"]))
    for name, value in (("x", x), ("w", weight), ("b", bias)):
        workspace.FeedBlob(name, value)
    init, predict = mobile_exporter.Export(workspace, net, ["w", "b"])
    workspace.ResetWorkspace()
    predictor = workspace.Predictor(init.SerializeToString(), predict.SerializeToString())
    (found,) = predictor.run([x])
    assert_close(np.array(found), np.maximum(x @ weight.T + bias, 0))


def test_documentation():
    """Every operator says what it computes, and what its blobs and arguments are."""
    from caffe2.python import workspace as w

    for name in sorted(w.RegisteredOperators()):
        if not name.startswith("Tc"):
            continue
        schema = w.C.OpSchema.get(name)
        assert schema.doc, name
        if name.endswith("Gradient"):
            continue
        assert schema.args, name
        assert name == "TcOp" or (schema.input_desc and schema.output_desc and "def " in schema.doc)
