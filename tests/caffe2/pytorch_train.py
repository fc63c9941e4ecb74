"""Trains the network of test_pytorch.py; run by the Python that has tensor_comprehensions."""

import json
import sys

import numpy as np
import torch
from network import HIDDEN, RATE, STEPS
from pytorch import core_library

import tensor_comprehensions as tc

values = np.load(sys.argv[1])
x, wanted = torch.tensor(values["x"]), torch.tensor(values["wanted"])
parameters = [torch.tensor(values[name], requires_grad=True) for name in ("w1", "b1", "w2", "b2")]
hidden = tc.make_autograd(tc.define(HIDDEN).hidden)
losses = []
for _ in range(STEPS):
    found = torch.nn.functional.linear(hidden(x, *parameters[:2]), *parameters[2:])
    loss = ((found - wanted) ** 2).sum(1).div(2).mean()
    losses.append(loss.item())
    gradients = torch.autograd.grad(loss, parameters)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients):
            parameter -= RATE * gradient
print(json.dumps({"losses": losses, "core": sorted(core_library())}))
