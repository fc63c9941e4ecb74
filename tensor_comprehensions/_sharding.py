"""The work of an operator on DTensors: what each process does, from the definition's text."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensor_comprehensions._operator import Operator


def is_imported() -> bool:
    """Whether there may be DTensors; importing them takes longer than all the rest."""
    return "torch.distributed.tensor" in sys.modules


def register(operator: Operator) -> None:
    """Tells DTensor how processes may share an operator's work.

    Each way splits one group of dimensions of equal size. An index of a result that walks them
    splits the result, and one that is reduced over leaves a partial result in each process. What no
    way covers is computed by all processes on whole tensors.
    """
    from torch.distributed.tensor import Partial, Replicate, Shard
    from torch.distributed.tensor.experimental import register_sharding

    definition = operator.definition
    scalars = [info.is_scalar for info in definition.inputs]
    accumulates = [info.accumulates for info in definition.outputs]
    ways = definition.shardings()

    def placement(dimension: int, reduction: str) -> object:
        if reduction:
            return Partial(reduction)
        return Replicate() if dimension < 0 else Shard(dimension)

    def choose(*arguments: Any) -> list[tuple[list, list]]:
        whole = [(-1, "")]
        chosen = [(whole * len(scalars), whole * len(accumulates))]
        for inputs, outputs in ways:
            # Tensors of different sizes are split in different places.
            split = zip(arguments, inputs, strict=False)
            if len({x.shape[dimension] for x, (dimension, _) in split if dimension >= 0}) == 1:
                chosen.append((inputs, outputs))
        result = []
        for inputs, outputs in chosen:
            results = [placement(*where) for where in outputs]
            given = [
                None if scalar else placement(*where)
                for scalar, where in zip(scalars, inputs, strict=True)
            ]
            # Initial contents follow the inputs and are where the results are.
            given += [p for p, use in zip(results, accumulates, strict=True) if use]
            result.append((results, given))
        return result

    register_sharding(operator.overload)(choose)
