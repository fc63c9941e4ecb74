"""Operators in a real Caffe2 beside Caffe2's own.

python benchmarks/caffe2.py --environment FOLDER [PART OF A NAME ...]

The rows are measured in the Python that has Caffe2, by the library that caffe2-build builds for it:
nets of one of our operators beside nets of Caffe2's, forward alone and with the gradients of all
inputs; and what a call costs over that of one of Caffe2's operators on the elements of a vector.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import command
import numpy as np
import torch
from harness import Comparison, Restored, Row, Rows
from machine import cpu_name

#: Operators in a net that measures calls: what starting it costs is shared by them.
CALLS = 1000
#: Seconds that a call of ours may take beyond one of Caffe2's.
MOST_OVERHEAD = 3e-6

# Batch, then the widths of inputs and layers: the model of 2018, and layers of one width.
MLP = ((128, 2000, 128, 64, 32, 2), (32, 200, 64, 32, 2, 23), (128, 512, 512, 512, 512, 512))
# Channels of a group and size of the images, of 32 groups and 32 images (Tensor Comprehensions,
# figure 5), filters of 3 x 3.
GROUPS = ((4, 56), (8, 28), (16, 14), (16, 7))


def caffe2_modules():
    """Caffe2, and not this file, which has its name; with our operators."""
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    from caffe2.python import core, dyndep, workspace

    workspace.GlobalInit(["caffe2", "--caffe2_log_level=3"])
    dyndep.InitOpsLibrary(os.environ["TC_CAFFE2_LIBRARY"])
    return core, workspace


def notes():
    """What a row has to say of the other side."""
    return {"caffe2": torch.__version__, "MKL_DEBUG_CPU_TYPE": os.environ.get("MKL_DEBUG_CPU_TYPE")}


class Nets:
    """Makes candidates: nets over the same blobs."""

    def __init__(self):
        self.core, self.workspace = caffe2_modules()

    def feed(self, **blobs):
        """Values whose sums are exact through four layers: of another rounding, ReLU would now and
        then make another zero, and with it a gradient that differs."""
        random = np.random.RandomState(0)
        for name, sizes in blobs.items():
            self.workspace.FeedBlob(name, (random.randint(-1, 2, sizes) / 16).astype(np.float32))

    def candidate(self, name, inputs, build, outputs, backward):
        """`build` adds to a net what makes these outputs; with `backward`, the net also makes the
        gradients of all inputs."""
        net = self.core.Net(name)
        net.AddExternalInput(*inputs)
        build(net)
        results = list(outputs)
        if backward:
            # Gradients of ones for the last output.
            net.ConstantFill([outputs[-1]], [f"{name}_ones"], value=1.0)
            made = net.AddGradientOperators({outputs[-1]: f"{name}_ones"})
            renamed = {}
            for op in net.Proto().op:  # two nets would write the same gradients
                for k, blob in enumerate(op.output):
                    if blob.endswith("_grad") or "_grad_" in blob:
                        renamed[blob] = f"{name}_{blob}"
                        op.output[k] = renamed[blob]
                for k, blob in enumerate(op.input):
                    op.input[k] = renamed.get(blob, blob)
            results = [renamed.get(str(made[blob]), str(made[blob])) for blob in inputs]
        self.workspace.CreateNet(net)
        run = self.workspace.C.run_net
        called = net.Name()
        return Restored(
            lambda: run(called, 1, False),
            lambda _: [self.workspace.FetchBlob(blob) for blob in results],
        )


def layers(nets, sizes, backward):
    batch, *widths = sizes
    blobs = {"x": (batch, widths[0])}
    for k in range(1, 5):
        blobs.update({f"w{k}": (widths[k], widths[k - 1]), f"b{k}": (widths[k],)})

    def ours(net):
        net.Tc4FCReluOp(list(blobs), [f"o{k}" for k in range(1, 5)])

    def theirs(net):
        blob = "x"
        for k in range(1, 5):
            net.FC([blob, f"w{k}", f"b{k}"], [f"s{k}"])
            blob = net.Relu([f"s{k}"], [f"p{k}"])

    def row():
        nets.feed(**blobs)
        mine = nets.candidate("ours", blobs, ours, [f"o{k}" for k in range(1, 5)], backward)
        other = nets.candidate("caffe2", blobs, theirs, [f"p{k}" for k in range(1, 5)], backward)
        return Row(mine, lambda: {"Caffe2: FC, Relu": other}, tolerance=1e-3, notes=notes())

    return row


def groups(nets, channels, size, backward):
    n, g = 32, 32
    blobs = {
        "x": (n, g * channels, size, size),
        "w": (g * channels, channels, 3, 3),
        "b": (g * channels,),
    }

    def row():
        nets.feed(**blobs)
        mine = nets.candidate(
            "ours",
            blobs,
            lambda net: net.TcGroupConvolutionOp(list(blobs), ["o"], group=g),
            ["o"],
            backward,
        )
        other = nets.candidate(
            "caffe2",
            blobs,
            lambda net: net.Conv(list(blobs), ["p"], group=g, kernel=3),
            ["p"],
            backward,
        )
        return Row(mine, lambda: {"Caffe2: Conv": other}, tolerance=1e-3, notes=notes())

    return row


def calls(nets):
    """Nets of many operators on a few elements: the time of each is that of a call."""
    text = "def twice(float(N) x) -> (y) { y(n) = 2 * x(n) }"

    def ours(net):
        for _ in range(CALLS):
            net.TcOp(["x"], ["o"], tcDef=text)

    def theirs(net):
        for _ in range(CALLS):
            net.Scale(["x"], ["p"], scale=2.0)

    def row():
        nets.feed(x=(4,))
        mine = nets.candidate("ours", ["x"], ours, ["o"], False)
        other = nets.candidate("caffe2", ["x"], theirs, ["p"], False)
        return Row(mine, lambda: {"Caffe2: Scale": other}, notes={"calls": CALLS, **notes()})

    return row


def rows(options: argparse.Namespace) -> Rows:
    nets = Nets()
    for backward in (False, True):
        way = "with gradients" if backward else "forward"
        for sizes in MLP:
            name = f"Tc4FCReluOp {' '.join(map(str, sizes))}, {way}"
            yield name, layers(nets, sizes, backward)
        for channels, size in GROUPS:
            name = f"TcGroupConvolutionOp {channels}x{size}, {way}"
            yield name, groups(nets, channels, size, backward)
    yield "calls", calls(nets)


def summary(comparisons: list[Comparison]) -> dict[str, object]:
    """Seconds of one call over Caffe2's."""
    found = {}
    for c in comparisons:
        if c.workload == "calls":
            ours = c.timings["ours"].minimum
            theirs = min(t.minimum for name, t in c.timings.items() if name != "ours")
            over = (ours - theirs) / CALLS
            found[f"{c.threads} thread(s)"] = over
            verdict = "ok" if over <= MOST_OVERHEAD else "MISSED"
            print(
                f"a call, {c.threads} thread(s): {ours / CALLS * 1e6:.2f} us, Caffe2's "
                f"{theirs / CALLS * 1e6:.2f} us: {over * 1e6:.2f} us more; asked for at most "
                f"{MOST_OVERHEAD * 1e6:g}, {verdict}"
            )
    return {"call_overhead": found}


def arguments() -> argparse.ArgumentParser:
    made = command.parser(__doc__)
    made.add_argument("--python", help="the Python that has Caffe2")
    made.add_argument("--environment", help="an environment with Caffe2, made where it is missing")
    return made


def measuring_python(options: argparse.Namespace) -> str:
    """The Python to measure in, with the variable that tells it where the operators are."""
    from tensor_comprehensions._caffe2_build import build
    from tensor_comprehensions._caffe2_environment import find_caffe2

    # The MKL of that release asks who made the processor, and takes slow code for all but Intel's
    # (39 GFLOP/s in place of 104 for 512 x 512 x 512): this names one with AVX2.
    if cpu_name().startswith("AMD"):
        os.environ["MKL_DEBUG_CPU_TYPE"] = "5"
    found = find_caffe2(options.python, options.environment)
    os.environ["TC_CAFFE2_LIBRARY"] = str(build(found))
    return found.python


if __name__ == "__main__":
    command.main("caffe2", rows, arguments(), summary, python=measuring_python)
