"""What torch.compile sees as one operation: calls of definitions with scalars, whose operator
depends on what the scalars are.

Imported when a call is traced first: what marks it for torch.compile takes a second to load.
"""

from __future__ import annotations

from typing import Any

import torch

from tensor_comprehensions._operator import Operator
from tensor_comprehensions._registry import registry


def _find(name: str) -> Operator:
    operator = registry.find(name)
    assert operator is not None
    return operator


def _call(name: str, *inputs: Any) -> Any:
    return _find(name)(*inputs)


def _call_into(name: str, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> Any:
    return _find(name).run(inputs, outputs)


call = torch.compiler.allow_in_graph(_call)
call_into = torch.compiler.allow_in_graph(_call_into)
