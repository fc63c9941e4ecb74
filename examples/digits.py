"""Trains a small convolutional network on handwritten digits, twice, step by step side by side.

Once every layer and every gradient is a Tensor Comprehensions text from ops/; once it is torch.nn.
Both start from the same weights and see the same batches, so their losses must agree at every step.
Ends with both accuracies, the time of each layer, and a picture in demo_output/. The exit status
is 1 if an accuracy is below 97 % or the losses drift apart by more than 0.001.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import tensor_comprehensions as tc

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
BATCH = 60  # divides the 360 held-out images, so that one compiled shape serves all
LEAST_ACCURACY = 0.97
LARGEST_DRIFT = 1e-3


# ---- the layers: a text each


def operator(name: str) -> Callable[..., Tensor]:
    """The definition `name` of ops/`name`.tc, with `name`_grad as its derivative."""
    definitions = tc.ops.load(name)
    return tc.make_autograd(getattr(definitions, name), getattr(definitions, f"{name}_grad"))


class Convolution(nn.Module):
    def __init__(self, channels: int, filters: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(filters, channels, size, size))
        self.bias = nn.Parameter(torch.empty(filters))
        self.function = operator("convolution")

    def forward(self, images: Tensor) -> Tensor:
        return self.function(images, self.weight, self.bias)


class Linear(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.function = operator("linear")

    def forward(self, rows: Tensor) -> Tensor:
        return self.function(rows, self.weight, self.bias)


class Relu(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.function = operator("relu")

    def forward(self, values: Tensor) -> Tensor:
        return self.function(values.flatten(1)).view_as(values)


class MaxPooling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.function = operator("max_pooling")

    def forward(self, images: Tensor) -> Tensor:
        return self.function(images)


def torch_network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def tc_network() -> nn.Sequential:
    return nn.Sequential(
        Convolution(1, 16, 3),
        Relu(),
        Convolution(16, 32, 3),
        Relu(),
        MaxPooling(),
        nn.Flatten(),
        Linear(128, 64),
        Relu(),
        Linear(64, 10),
    )


# ---- the data


@dataclass(frozen=True)
class Digits:
    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor

    def batches(self, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """The training set in a new order, without the rest that fills no batch."""
        order = torch.randperm(len(self.train_labels), generator=generator)
        for start in range(0, len(order) - BATCH + 1, BATCH):
            rows = order[start : start + BATCH]
            yield self.train_images[rows], self.train_labels[rows]


def load_data(seed: int) -> Digits:
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[:, None]
    train_x, test_x, train_y, test_y = train_test_split(
        images, digits.target, test_size=360, random_state=seed, stratify=digits.target
    )
    return Digits(*(torch.from_numpy(a) for a in (train_x, train_y, test_x, test_y)))


# ---- training


@torch.no_grad()
def predict(network: nn.Module, images: Tensor) -> Tensor:
    return torch.cat([network(batch).argmax(1) for batch in images.split(BATCH)])


def accuracy(network: nn.Module, data: Digits) -> float:
    return (predict(network, data.test_images) == data.test_labels).float().mean().item()


class Trainer:
    """A network, its optimizer, and what its losses were."""

    def __init__(self, network: nn.Module, steps: int) -> None:
        self.network = network
        self.optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, steps)
        self.losses: list[float] = []

    def step(self, images: Tensor, labels: Tensor) -> None:
        loss = F.cross_entropy(self.network(images), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.losses.append(loss.item())


def train(data: Digits, ours: Trainer, theirs: Trainer, epochs: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    start = time.perf_counter()
    for epoch in range(epochs):
        first = len(ours.losses)
        for images, labels in data.batches(generator):
            ours.step(images, labels)
            theirs.step(images, labels)
        print(
            f"epoch {epoch + 1:2}/{epochs}   mean loss  TC {np.mean(ours.losses[first:]):.6f}"
            f"  torch {np.mean(theirs.losses[first:]):.6f}   held-out accuracy"
            f"  TC {accuracy(ours.network, data):.1%}  torch {accuracy(theirs.network, data):.1%}"
            f"   {time.perf_counter() - start:.1f} s",
            flush=True,
        )


def largest_drift(ours: Trainer, theirs: Trainer) -> float:
    return float(np.abs(np.subtract(ours.losses, theirs.losses)).max())


# ---- timing


def least_microseconds(function: Callable[[], object], seconds: float = 0.3) -> float:
    """The fastest of many runs: what a busy machine adds to some of them says nothing here."""
    best = float("inf")
    runs, end = 0, time.perf_counter() + seconds
    while runs < 10 or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
        runs += 1
    return best * 1e6


def layer_times(layer: nn.Module, value: Tensor) -> tuple[float, float]:
    """Least microseconds of a layer forward, and of all its gradients given the output's."""
    with torch.no_grad():
        forward = least_microseconds(lambda: layer(value))
    inputs = [value.clone().requires_grad_(), *layer.parameters()]
    output = layer(inputs[0])
    gradient = torch.randn_like(output)
    backward = least_microseconds(
        lambda: torch.autograd.grad(output, inputs, gradient, retain_graph=True)
    )
    return forward, backward


def print_layer_times(ours: nn.Sequential, theirs: nn.Sequential, value: Tensor) -> None:
    threads = torch.get_num_threads()
    print(f"\nMicroseconds per layer, fastest run, batch of {len(value)}, {threads} threads:")
    print(f"{'':33}{'forward':^23}{'backward':^23}")
    print(f"{'layer':14}{'input':19}" + f"{'TC':>7}{'torch':>7}{'ratio':>7}  " * 2)
    totals = np.zeros(4)
    for our_layer, their_layer in zip(ours, theirs, strict=True):
        if not isinstance(our_layer, nn.Flatten):
            times = (*layer_times(our_layer, value), *layer_times(their_layer, value))
            totals += times
            sizes = "x".join(map(str, value.shape))
            print_row(type(our_layer).__name__, sizes, times)
        with torch.no_grad():
            value = their_layer(value)
    print_row("all", "", tuple(totals))


def print_row(name: str, sizes: str, times: tuple[float, ...]) -> None:
    our_forward, our_backward, their_forward, their_backward = times
    print(
        f"{name:14}{sizes:19}"
        f"{our_forward:7.0f}{their_forward:7.0f}{our_forward / their_forward:7.2f}  "
        f"{our_backward:7.0f}{their_backward:7.0f}{our_backward / their_backward:7.2f}"
    )


# ---- the picture


def draw(data: Digits, ours: Trainer, theirs: Trainer, path: Path) -> None:
    figure = plt.figure(figsize=(12, 4.5), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.2, 1))
    axes = left.subplots()
    axes.plot(theirs.losses, color="tab:orange", linewidth=4, alpha=0.5, label="torch.nn")
    axes.plot(ours.losses, color="tab:blue", linewidth=1, label="Tensor Comprehensions")
    axes.set(xlabel="step", ylabel="cross-entropy of the batch", yscale="log")
    axes.set_title(f"largest difference {largest_drift(ours, theirs):.1e}")
    axes.legend()

    predictions = predict(ours.network, data.test_images)
    wrong = (predictions != data.test_labels).nonzero().flatten().tolist()
    correct = (predictions == data.test_labels).nonzero().flatten().tolist()
    shown = (wrong[:4] + correct)[:15]
    right.suptitle("held-out digits and predictions; mistakes first, in red")
    for place, index in zip(right.subplots(3, 5).flat, shown, strict=True):
        place.imshow(data.test_images[index, 0], cmap="gray_r")
        place.set_title(str(predictions[index].item()), color="red" if index in wrong else "black")
        place.set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=ROOT / "demo_output")
    arguments = parser.parse_args()

    torch.manual_seed(arguments.seed)
    data = load_data(arguments.seed)
    steps = arguments.epochs * (len(data.train_labels) // BATCH)
    theirs = Trainer(torch_network(), steps)
    network = tc_network()
    network.load_state_dict(theirs.network.state_dict())
    ours = Trainer(network, steps)
    print(f"{len(data.train_labels)} digits to learn from, {len(data.test_labels)} held out")

    start = time.perf_counter()
    network(data.train_images[:BATCH]).sum().backward()
    print(f"compiled forward and backward in {time.perf_counter() - start:.1f} s")

    train(data, ours, theirs, arguments.epochs, arguments.seed)
    print_layer_times(ours.network, theirs.network, data.train_images[:BATCH])
    picture = arguments.output / "digits.png"
    draw(data, ours, theirs, picture)

    accuracies = {"TC": accuracy(ours.network, data), "torch": accuracy(theirs.network, data)}
    drift = largest_drift(ours, theirs)
    print(f"\npicture: {picture}")
    print(f"largest difference of the losses over {len(ours.losses)} steps: {drift:.2e}")
    print("held-out accuracy: " + ", ".join(f"{name} {a:.2%}" for name, a in accuracies.items()))
    failures = [f"{name} is below 97 %" for name, a in accuracies.items() if a < LEAST_ACCURACY]
    # Written so that a loss that is not a number fails too.
    if not drift <= LARGEST_DRIFT:
        failures.append(f"the losses differ by more than {LARGEST_DRIFT}")
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
