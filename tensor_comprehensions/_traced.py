"""What torch.compile sees as one operation: calls of definitions with scalars, whose operator
depends on what the scalars are, and those with a derivative.

Each is one function for all definitions, which it is told by name: torch.compile compares the
values of constants with those that a graph was made for, and of a closure nothing but its code.

Imported when a call is traced first: what marks it for torch.compile takes a second to load.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tensor_comprehensions._operator import Operator
from tensor_comprehensions._pairs import Pair, joined
from tensor_comprehensions._registry import registry


def _find(name: str) -> Operator:
    operator = registry.find(name)
    assert operator is not None
    return operator


def _call(name: str, *inputs: Any) -> Any:
    return _find(name)(*inputs)


def _call_into(name: str, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> Any:
    return _find(name).run(inputs, outputs)


def _differentiate(name: str, *inputs: Any) -> Any:
    return _find(name).differentiate(*inputs)


def _call_pair(name: str, *inputs: Any) -> Any:
    pair = Pair.find(name)
    assert pair is not None
    return pair(*inputs)


def _apply(key: str, *inputs: Any) -> Any:
    return joined[key].apply(*inputs)


Traced = Callable[..., Any]
call: Traced = torch.compiler.allow_in_graph(_call)
call_into: Traced = torch.compiler.allow_in_graph(_call_into)
differentiate: Traced = torch.compiler.allow_in_graph(_differentiate)
call_pair: Traced = torch.compiler.allow_in_graph(_call_pair)
apply: Traced = torch.compiler.allow_in_graph(_apply)
