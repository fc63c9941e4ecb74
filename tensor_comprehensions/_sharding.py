"""The work of an operator on DTensors: what each process does, from the definition's text."""

from __future__ import annotations

import importlib.machinery
import sys
import warnings
import weakref
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from tensor_comprehensions._registration import Registration

#: Importing it takes longer than all the rest.
_DTENSOR = "torch.distributed.tensor"
#: Operators of which DTensor is told when it is imported.
_waiting: weakref.WeakSet[Registration] = weakref.WeakSet()


class _Watch(MetaPathFinder):
    """Sees DTensor being imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _DTENSOR:
            return None
        # Also for who only asks whether it is there: the import that follows finds it anew.
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_tell(module: ModuleType) -> None:
                load(module)
                sys.meta_path.remove(self)
                for operator in list(_waiting):
                    _tell(operator, operator.overload)
                _waiting.clear()

            spec.loader.exec_module = load_and_tell  # type: ignore[method-assign]
        return spec


if _DTENSOR not in sys.modules:
    sys.meta_path.insert(0, _Watch())


def register(operator: Registration, overload: Any) -> None:
    """Tells DTensor, now or when there is one, how processes may share an operator's work.

    Where a size of the inputs is a value, as N in ``sum / N``, parts would take their own for that
    of the whole: on DTensors such an operator is another one, which is passed the sizes.

    Every way to share an operator's work splits one group of dimensions of equal size. An index of
    a result that walks them splits the result, and one that is reduced over leaves a partial result
    in each process. What no way covers is computed by all processes on whole tensors.
    """
    if _DTENSOR in sys.modules:
        _tell(operator, overload)
    else:
        _waiting.add(operator)


def _tables() -> list[dict[Any, Any]]:
    """What DTensor has noted of operators, by overloads."""
    if _DTENSOR not in sys.modules:
        return []
    dispatcher = sys.modules[_DTENSOR].DTensor._op_dispatcher
    propagator = dispatcher.sharding_propagator
    return [propagator.op_strategy_funcs, propagator.op_to_schema_info]


def count_notes(overload: Any) -> int:
    """How often DTensor refers to an overload for what it was told."""
    return sum(overload in table for table in _tables())


def forget(overload: Any) -> None:
    """Takes back what DTensor was told."""
    for table in _tables():
        table.pop(overload, None)


def replicate_like(value: torch.Tensor, others: Sequence[torch.Tensor]) -> torch.Tensor:
    """A tensor that every process has, as a DTensor where others are."""
    if _DTENSOR not in sys.modules:
        return value
    module = sys.modules[_DTENSOR]
    for other in others:
        if isinstance(other, module.DTensor):
            mesh = other.device_mesh
            whole: torch.Tensor = module.DTensor.from_local(
                value, mesh, [module.Replicate()] * mesh.ndim, run_check=False
            )
            return whole
    return value


def _tell(operator: Registration, overload: Any) -> None:
    """Neither a definition nor the import of DTensor fails where this does."""
    try:
        text, sizes = operator.definition.sized_text()
        if text:
            _register_sized(operator, overload, text, sizes)
        else:
            _register_ways(operator, overload)
    except Exception as error:
        warnings.warn(
            f"DTensor of torch {torch.__version__} was not told how to share the work of "
            f"{operator.definition.name} ({type(error).__name__}: {error}); on DTensors, call it "
            f"on to_local() or full_tensor()",
            stacklevel=2,
        )


def _register_sized(
    registration: Registration, overload: Any, text: str, sizes: list[tuple[int, int]]
) -> None:
    from torch.distributed.tensor import DTensor

    count = len(registration.definition.inputs)

    def run(
        _: type, func: object, types: object, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        operator = registration.handle(keep=True)  # with what is derived of it
        if operator.sized is None:
            operator.sized = operator.derive(text, "tc_sized")
        numbers = [arguments[k].shape[d] for k, d in sizes]
        # Initial contents follow the inputs.
        return operator.sized.overload(*arguments[:count], *numbers, *arguments[count:])

    name = overload.name().removesuffix(".default")
    torch.library.register_torch_dispatch(name, DTensor, run, lib=registration.library)


def _register_ways(operator: Registration, overload: Any) -> None:
    from torch.distributed.tensor import Partial, Replicate, Shard
    from torch.distributed.tensor.experimental import register_sharding

    definition = operator.definition
    scalars = [info.is_scalar for info in definition.inputs]
    accumulates = [info.accumulates for info in definition.outputs]
    ways: list[Any] | None = None

    def placement(dimension: int, reduction: str) -> object:
        if reduction:
            return Partial(reduction)
        return Replicate() if dimension < 0 else Shard(dimension)

    def choose(*arguments: Any) -> list[tuple[list[Any], list[Any]]]:
        nonlocal ways
        if ways is None:
            ways = definition.shardings()
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

    register_sharding(overload)(choose)
