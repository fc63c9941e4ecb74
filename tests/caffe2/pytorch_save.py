"""Saves a definition for test_stores.py; run by the Python that has tensor_comprehensions."""

import sys

import torch
from texts import MATMUL

import tensor_comprehensions as tc

path, options = sys.argv[1:]
definitions = tc.define(MATMUL, eval(options, {"tc": tc}) if options else None)
product = tc.make_autograd(definitions.matmul)
a, b = (torch.randn(sizes, requires_grad=True) for sizes in ((5, 4), (4, 6)))
product(a, b).sum().backward()  # so that the derivative is saved too
tc.save(path, product)
print(definitions.matmul.explain(a.detach(), b.detach()))
