"""One text and one core in two processes: PyTorch 2 and Caffe2."""

from __future__ import annotations

import json

import numpy as np
from caffe2.python import core, workspace
from nets import random
from network import HIDDEN, RATE, STEPS
from pytorch import core_library, run_under_pytorch


def values():
    x = random(0, 16, 6)
    return {
        "x": x,
        "wanted": np.stack([x.sum(1), np.abs(x).sum(1)], 1),
        "w1": random(1, 8, 6) / 3,
        "b1": random(2, 8),
        "w2": random(3, 2, 8) / 3,
        "b2": random(4, 2),
    }


def test_training_gives_the_same_losses(tmp_path):
    given = values()
    np.savez(tmp_path / "values.npz", **given)
    theirs = json.loads(
        run_under_pytorch("pytorch_train.py", tmp_path / "values.npz").split("\n")[-2]
    )

    for name, value in given.items():
        workspace.FeedBlob(name, value)
    net = core.Net("train")
    net.AddExternalInput(*given)
    net.TcOp(["x", "w1", "b1"], ["h"], tcDef=HIDDEN)
    net.FC(["h", "w2", "b2"], ["found"])
    net.SquaredL2Distance(["found", "wanted"], ["distances"])
    net.AveragedLoss(["distances"], ["loss"])
    gradients = net.AddGradientOperators(["loss"])
    workspace.FeedBlob("one", np.ones(1, np.float32))
    workspace.FeedBlob("rate", np.full(1, -RATE, np.float32))
    for name in ("w1", "b1", "w2", "b2"):
        net.WeightedSum([name, "one", gradients[name], "rate"], name)
    workspace.CreateNet(net)
    losses = []
    for _ in range(STEPS):
        workspace.RunNet(net)
        losses.append(float(workspace.FetchBlob("loss")))

    np.testing.assert_allclose(losses, theirs["losses"], rtol=1e-4)
    assert losses[-1] < losses[0] / 4
    # The very same file.
    assert sorted(core_library()) == theirs["core"]
    assert len(theirs["core"]) == 1
