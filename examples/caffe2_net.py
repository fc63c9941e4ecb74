"""A network in Caffe2 whose layers are Tensor Comprehensions: it learns which of two spirals a
point lies on.

    library=$(python -m tensor_comprehensions caffe2-build --environment .venv-caffe2 | tail -1)
    .venv-caffe2/bin/python examples/caffe2_net.py $library

One layer is an operator of the library, one a text of its own; Caffe2 adds the gradients of both to
the net. The exit status is 1 if fewer than 95 % of new points are classified right.
"""

from __future__ import annotations

import sys

import numpy as np
from caffe2.python import core, dyndep, workspace

# A layer whose activation Caffe2 does not have: x / (1 + |x|).
SOFTSIGN_LAYER = """
def softsign_layer(float(B, I) x, float(O, I) w, float(O) b) -> (y) {
    s(n, o) +=! x(n, i) * w(o, i)
    t(n, o) = s(n, o) + b(o)
    y(n, o) = t(n, o) / (1 + fabs(t(n, o)))
}
"""
BATCH, WIDTH, STEPS, RATE = 64, 32, 1000, 0.3
PARAMETERS = {"w1": (WIDTH, 2), "b1": (WIDTH,), "w2": (WIDTH, WIDTH), "b2": (WIDTH,)}
PARAMETERS.update({"w3": (2, WIDTH), "b3": (2,)})


def spirals(random: np.random.RandomState, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points, and on which spiral each lies."""
    label = random.randint(0, 2, count)
    turn = 0.5 + 3.5 * random.rand(count)
    angle = turn + np.pi * label
    points = np.stack([turn * np.cos(angle), turn * np.sin(angle)], 1) / 2
    return points.astype(np.float32), label.astype(np.int32)


def add_layers(net: core.Net) -> None:
    net.AddExternalInput("x", *PARAMETERS)
    net.TcFCReluOp(["x", "w1", "b1"], ["h1"])
    net.TcOp(["h1", "w2", "b2"], ["h2"], tcDef=SOFTSIGN_LAYER)
    net.FC(["h2", "w3", "b3"], ["scores"])


def training_net() -> core.Net:
    net = core.Net("training")
    add_layers(net)
    net.AddExternalInput("label", "one", "rate")
    net.SoftmaxWithLoss(["scores", "label"], ["softmax", "loss"])
    gradients = net.AddGradientOperators(["loss"])
    for name in PARAMETERS:
        net.WeightedSum([name, "one", gradients[name], "rate"], name)
    return net


def main() -> int:
    workspace.GlobalInit(["caffe2", "--caffe2_log_level=3"])
    dyndep.InitOpsLibrary(sys.argv[1])
    random = np.random.RandomState(0)
    for name, sizes in PARAMETERS.items():
        scale = 1 / np.sqrt(sizes[1]) if len(sizes) == 2 else 0.1
        workspace.FeedBlob(name, (scale * random.randn(*sizes)).astype(np.float32))
    workspace.FeedBlob("one", np.ones(1, np.float32))
    workspace.FeedBlob("rate", np.full(1, -RATE, np.float32))

    def feed(count: int) -> np.ndarray:
        points, label = spirals(random, count)
        workspace.FeedBlob("x", points)
        workspace.FeedBlob("label", label)
        return label

    feed(BATCH)
    net = training_net()
    workspace.CreateNet(net)
    for step in range(STEPS):
        feed(BATCH)
        workspace.RunNet(net)
        if step % 250 == 0:
            print(f"step {step:4d}: loss {float(workspace.FetchBlob('loss')):.4f}")

    # Another number of points: the operators compile for it when it comes.
    label = feed(1000)
    net = core.Net("inference")
    add_layers(net)
    workspace.RunNetOnce(net)
    right = (workspace.FetchBlob("scores").argmax(1) == label).mean()
    print(f"right for {right:.1%} of new points")
    return 0 if right >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
