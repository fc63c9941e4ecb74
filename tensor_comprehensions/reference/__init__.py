"""A naive interpreter of the language in NumPy, to compare with.

It follows docs/language.md word by word and shares no code with the compiler: where a kernel gives
an unexpected result, compute with the interpreter and compare::

    from tensor_comprehensions import reference

    wanted = reference.run(text, "matmul", A, B)
    ranges = reference.infer_ranges(text, "matmul", A, B)   # what every index runs over

A statement is evaluated over all values of its indices at once, in parts where there are many, so
small sizes are best. Sums are accumulated in double. How far other correct results may lie from
these, since the order of sums is not promised, is what ``error_bounds`` computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensor_comprehensions._errors import ShapeError
from tensor_comprehensions.reference._arithmetic import NUMPY, is_float, round_to
from tensor_comprehensions.reference._evaluate import Evaluation, Tensor
from tensor_comprehensions.reference._ranges import Ranges
from tensor_comprehensions.reference._resolve import Program, resolve
from tensor_comprehensions.reference._syntax import Name, Number, parse
from tensor_comprehensions.reference._types import Typing

__all__ = ["error_bounds", "infer_ranges", "run"]

_TYPE_OF_NUMPY = {"float16": "half", "float32": "float", "float64": "double"}


def run(source: str, entry_point: str, *inputs: Any, outputs: Any = None) -> Any:
    """What a definition of a text computes.

    ``inputs`` are torch tensors, NumPy arrays or, for scalars, Python numbers. ``outputs`` are the
    contents of results that the text reads before it assigns them; they are not written to.
    Returns a tensor, or a tuple where there are several results: torch tensors if any argument is
    one, else arrays (float32 for ``bfloat16``, which NumPy lacks).

    Raises LanguageError for a text that is wrong, ShapeError for arguments that do not fit it and
    for reads outside of tensors.
    """
    evaluation = _evaluate(source, entry_point, inputs, outputs, track=False)
    return _results(evaluation, _uses_torch(inputs, outputs))


def error_bounds(
    source: str, entry_point: str, *inputs: Any, outputs: Any = None
) -> tuple[Any, tuple[np.ndarray, ...]]:
    """What ``run`` returns, and a tuple with an array of doubles for each result: how far another
    correct result may lie from it.

    0 means that no rounding took place, so that results must be equal. Infinity means that nothing
    is promised, as for a comparison of values that are equal up to rounding, or for an element that
    no statement writes. A bound holds for another order of summation, for ``a * b + c`` rounded
    once or twice, and for functions with a relative error of 2^-18 (2^-44 for double). Of a sum of
    products of three tensors or more nothing is promised where a term is infinite or no number.
    """
    evaluation = _evaluate(source, entry_point, inputs, outputs, track=True)
    bounds = []
    for name in evaluation.program.results:
        tensor = evaluation.tensors[name]
        bounds.append(np.zeros(tensor.array.shape) if tensor.error is None else tensor.error)
    return _results(evaluation, _uses_torch(inputs, outputs)), tuple(bounds)


def infer_ranges(source: str, entry_point: str, *inputs: Any) -> list[dict[str, tuple[int, int]]]:
    """For each statement, calls put in place, the range of every index; the end is left out."""
    program = resolve(parse(source), entry_point)
    Typing(program)
    return _bind(program, inputs)[1].statements


def _evaluate(
    source: str, entry_point: str, inputs: Sequence, outputs: Any, track: bool
) -> Evaluation:
    program = resolve(parse(source), entry_point)
    typing = Typing(program)
    tensors, ranges = _bind(program, inputs)
    initial = {}
    if outputs is not None:
        given = outputs if isinstance(outputs, list | tuple) else (outputs,)
        if len(given) != len(program.results):
            raise ShapeError(f"expected {len(program.results)} outputs but found {len(given)}")
        for name, value in zip(program.results, given):
            type_, array = _as_array(value)
            if type_ != typing.types[name] or array.shape != ranges.shape(name):
                raise ShapeError(
                    f"output {name} must be {typing.types[name]}{list(ranges.shape(name))}, "
                    f"not {type_}{list(array.shape)}"
                )
            initial[name] = Tensor(type_, array, ())
    evaluation = Evaluation(program, typing, ranges, tensors, initial, track)
    with np.errstate(all="ignore"):
        evaluation.run()
    return evaluation


def _bind(program: Program, inputs: Sequence) -> tuple[dict[str, Tensor], Ranges]:
    """The inputs under their names, with the sizes that they bring."""
    if len(inputs) != len(program.parameters):
        raise ShapeError(f"expected {len(program.parameters)} inputs but found {len(inputs)}")
    tensors: dict[str, Tensor] = {}
    sizes: dict[str, int] = {}
    scalars: dict[str, int] = {}
    for parameter, value in zip(program.parameters, inputs):
        type_, array = _as_array(value)
        if parameter.sizes is None:
            if array.ndim:
                raise ShapeError(f"{parameter.name} is a scalar, but has {array.ndim} dimensions")
            array = _scalar(parameter.type, array)
            if "int" in parameter.type:
                scalars[parameter.name] = int(array)
        else:
            if type_ != parameter.type:
                raise ShapeError(f"{parameter.name} has type {parameter.type}, not {type_}")
            if array.ndim != len(parameter.sizes):
                raise ShapeError(
                    f"{parameter.name} has {len(parameter.sizes)} dimensions, not {array.ndim}"
                )
            for d, size in enumerate(parameter.sizes):
                actual = array.shape[d]
                if isinstance(size, Number):
                    wanted = int(size.value)
                else:
                    assert isinstance(size, Name)
                    wanted = sizes.setdefault(size.id, actual)
                if actual != wanted:
                    raise ShapeError(
                        f"Mismatched sizes for dimension {d} of {parameter.name}: "
                        f"expected {wanted} but found {actual}"
                    )
        tensors[parameter.name] = Tensor(parameter.type, array, (0,) * array.ndim)
    shapes = {name: tensor.array.shape for name, tensor in tensors.items()}
    return tensors, Ranges(program, sizes, scalars, shapes)


def _scalar(type_: str, value: np.ndarray) -> np.ndarray:
    if is_float(type_):
        return round_to(type_, value.astype(np.float64))
    return value.astype(NUMPY[type_])


def _as_array(value: Any) -> tuple[str, np.ndarray]:
    """The type of a tensor, array or number, and its elements as arithmetic keeps them."""
    if type(value).__module__.startswith("torch"):
        import torch

        type_ = str(value.dtype).removeprefix("torch.")
        type_ = _TYPE_OF_NUMPY.get(type_, type_)
        value = value.detach().cpu()
        array = (value.double() if value.dtype == torch.bfloat16 else value).numpy()
    else:
        array = np.asarray(value)
        type_ = _TYPE_OF_NUMPY.get(array.dtype.name, array.dtype.name)
    if type_ not in NUMPY:
        raise ShapeError(f"elements of type {type_} are not known to the language")
    return type_, array.astype(NUMPY[type_])


def _uses_torch(inputs: Sequence, outputs: Any) -> bool:
    given = [*inputs, *(outputs if isinstance(outputs, list | tuple) else [outputs])]
    return any(type(value).__module__.startswith("torch") for value in given)


def _results(evaluation: Evaluation, as_torch: bool) -> Any:
    results = []
    for name in evaluation.program.results:
        tensor = evaluation.tensors[name]
        stored = {"half": "float16", "bfloat16": "float32", "float": "float32"}
        dtype = stored.get(tensor.type, tensor.type)
        array = tensor.array.astype("float64" if dtype == "double" else dtype)
        if as_torch:
            import torch

            result = torch.from_numpy(np.array(array))
            results.append(result.bfloat16() if tensor.type == "bfloat16" else result)
        else:
            results.append(array)
    return results[0] if len(results) == 1 else tuple(results)
