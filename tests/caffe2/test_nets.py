"""Nets: of all kinds of executors, in many threads, saved and loaded, over changing sizes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

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


def test_several_threads():
    """On those of Caffe2's OpenMP, of which there is one in the process."""
    script = """
import conftest, os
from nets import assert_close, random, run
from texts import MATMUL
a, b = random(0, 300, 400), random(1, 400, 500)
assert_close(run("TcOp", [a, b], tcDef=MATMUL), a @ b, 1e-4)
with open("/proc/self/maps") as maps:
    found = {line.split()[-1] for line in maps if "gomp" in line}
print(len(os.listdir("/proc/self/task")), *found)
"""
    threads = {}
    for count in ("1", "3"):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script],
            stdout=subprocess.PIPE,
            text=True,
            cwd=str(Path(__file__).parent),
            env={**os.environ, "OMP_NUM_THREADS": count},
            check=True,
        )
        threads[count], *runtimes = done.stdout.split("\n")[-2].split()
        assert len(runtimes) == 1, runtimes
    assert int(threads["3"]) > int(threads["1"])


FORKS = """
import os, signal, sys
import numpy as np
from caffe2.python import core, dyndep, workspace
workspace.GlobalInit(["caffe2", "--caffe2_omp_num_threads=4"])
dyndep.InitOpsLibrary(os.environ["TC_CAFFE2_LIBRARY"])
x = np.ones((512, 512), np.float32)
workspace.FeedBlob("x", x)
multiply = core.CreateOperator("TcMatMulOp", ["x", "x"], ["y"])
workspace.RunOperatorOnce(multiply)
child = os.fork()
if child == 0:
    signal.alarm(60)
    workspace.FeedBlob("x", 2 * x)
    workspace.RunOperatorOnce(multiply)
    os._exit(0 if (workspace.FetchBlob("y") == 4 * 512).all() else 1)
sys.exit(os.waitpid(child, 0)[1] != 0)
"""


@pytest.mark.parametrize("machine", ["library_rate=1", "library_rate=1000000000"])
def test_children_of_fork(machine):
    """OpenMP would wait there for threads that are the parent's, in the core's kernels and, on the
    second machine, in ATen's."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TC_MACHINE": machine, "TC_LOGS": "explain"},
    )
    assert done.returncode == 0, done.stderr
    assert ("call: ATen" in done.stderr) == (machine != "library_rate=1")


@pytest.mark.parametrize(
    ("limit", "compiled"), [("", 3), ("most_kernels=2", 6), ("most_kernel_bytes=1", 6)]
)
def test_kernels_of_nets_that_are_gone(limit, compiled):
    """Three sizes in turns, twice, by operators that are made anew each time."""
    script = """
import conftest, sys
from caffe2.python import workspace
from nets import random, run
if sys.argv[1]:
    workspace.GlobalInit(["caffe2", "--caffe2_tc_" + sys.argv[1]])
for size in [3, 4, 5] * 2:
    run("TcCopyOp", [random(0, size)])
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, limit],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=str(Path(__file__).parent),
        env={**os.environ, "TC_LOGS": "explain"},
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("copy on the CPU") == compiled


def test_shapes_of_gradients():
    """Are inferred too, where the forward operator sees its blobs with other sizes."""
    net = core.Net("inferred")
    net.AddExternalInput("x", "w", "b", "seed")
    net.TcGroupConvolutionOp(["x", "w", "b"], ["y"], group=2, pad=1)
    made = net.AddGradientOperators({"y": "seed"})
    values = {"x": random(0, 2, 6, 5, 5), "w": random(1, 4, 3, 3, 3), "b": random(2, 4)}
    for name, value in {**values, "seed": random(3, 2, 4, 5, 5)}.items():
        workspace.FeedBlob(name, value)
    sizes, _ = workspace.InferShapesAndTypes([net])
    workspace.RunNetOnce(net)
    for name, value in values.items():
        gradient = str(made[name])
        assert tuple(sizes[gradient]) == value.shape == workspace.FetchBlob(gradient).shape
