"""One definition as a function of tensors, and its operator in PyTorch's dispatcher."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from tensor_comprehensions import _html, _torch
from tensor_comprehensions._errors import ShapeError, TCError, forget_locals
from tensor_comprehensions._options import MappingOptions
from tensor_comprehensions._parameters import (
    COMPILE_WORDS,
    Parameters,
    described,
    document,
    input_types,
    output_types,
    plural,
    signature,
)
from tensor_comprehensions._scalars import as_tensors, explain_scalar

if TYPE_CHECKING:
    from tensor_comprehensions._executor import Executor
    from tensor_comprehensions._registration import Registration

_is_traced = torch.compiler.is_dynamo_compiling


@contextmanager
def unchecked_indices() -> Iterator[None]:
    """Kernels that this thread launches meanwhile do not look at indices that are data."""
    before = _torch.set_checks_indices(False)
    try:
        yield
    finally:
        _torch.set_checks_indices(before)


def _traced_call() -> Callable[..., Any]:
    from tensor_comprehensions import _traced

    return _traced.call


def _traced_call_into() -> Callable[..., Any]:
    from tensor_comprehensions import _traced

    return _traced.call_into


def _type_name(value: object) -> str:
    return type(value).__name__


@described(
    lambda operator: document(operator.definition, *operator.types()),
    lambda operator: signature(operator.definition, *operator.types()),
)
class Operator:
    """One definition of a text, ready to be called: the attribute T.f."""

    def __init__(
        self,
        definition: _torch.Definition,
        operator: _torch.Operator,
        registration: Registration | None = None,
    ) -> None:
        self.definition = definition
        self.__name__ = definition.name
        self._operator = operator
        self.overload: Any = None  #: torch.ops.<namespace>.<name>.default
        self._out_overload: Any = None
        self._direct: Any = None  #: the overload, for plain arguments
        self.differentiable: Any = None  #: the operator that differentiates itself, directly
        self.name = ""  #: <namespace>::<name> in torch.ops
        if registration is not None:
            self.registration = registration
            self.overload, self._out_overload = registration.overload, registration.out_overload
            self._direct, self.name = registration.direct, registration.name
            self.differentiable = registration.differentiable
        self.parameters = Parameters.of(definition)
        self._infos = list(definition.inputs)
        self._output_infos = list(definition.outputs)
        self._output_names = _torch.Schema(definition, definition.name).outputs
        #: whether it takes inputs alone, and not what its results start from
        self.is_simple = not any(info.accumulates for info in self._output_infos)
        self._batches: dict[tuple[bool, ...], Operator] = {}
        self._with_tensors: dict[tuple[bool, ...], Operator] = {}
        self._shapes: Any = None
        self.sized: Operator | None = None  #: the same with sizes as scalars, for DTensors
        self._integers = [
            k
            for k, info in enumerate(self._infos)
            if info.is_scalar and not info.dtype.is_floating_point
        ]
        self._scalars = [k for k, info in enumerate(self._infos) if info.is_scalar]
        self._specialized = [k for k, info in enumerate(self._infos) if info.is_specialized]

    @property
    def derived_overload(self) -> Any:
        """The overload of the operator that differentiates itself."""
        namespace, _, name = _torch.derived_name(self.name).partition("::")
        return getattr(getattr(torch.ops, namespace), name).default

    def types(self) -> tuple[list[str], list[str]]:
        """What inputs and results are, as a text declares them."""
        return input_types(self.definition), output_types(self.definition)

    def __call__(
        self, /, *inputs: Any, outputs: Any = None, unchecked: bool = False, **named: Any
    ) -> torch.Tensor:
        """Runs on tensors, and numbers or 0-d tensors for scalars, by place or by name.

        One result is returned as a tensor, several as a tuple. (To type checkers, which cannot know
        how many there are, it is a tensor: that can be taken apart as well.) ``outputs``, a tensor
        or a sequence of them, are written when given. ``unchecked`` leaves out every look at
        indices that are data, so that one outside reads or writes whatever lies there (the first
        such call may compile), and of ``outputs`` the checks of sizes and overlap for layouts that
        were seen before. ShapeError names the argument that does not fit, or the index that leaves
        its tensor, what was expected and what came.
        """
        try:
            if named:
                inputs = self.parameters.arrange(inputs, named)
            if unchecked and not _is_traced():
                with unchecked_indices():
                    return self(*inputs) if outputs is None else self.run(inputs, outputs, True)
            if outputs is None and self.is_simple:
                if self._scalars and _is_traced():
                    return _traced_call()(self.name, *self._without_specialized(inputs))
                try:
                    # Dynamo is shown the operator.
                    if not _is_traced():
                        result: Any = self._direct(*inputs)
                        if result is not NotImplemented:
                            return result
                        if self._integers:
                            self._check_integers(inputs)
                        if self._scalars and (found := as_tensors(self, inputs)) is not None:
                            return found[0](*found[1])
                    return self.overload(*inputs)
                except TCError:
                    raise
                except (RuntimeError, TypeError) as error:
                    self._explain(inputs, error)
                    raise
            return self.run(inputs, outputs, unchecked)
        except BaseException as error:
            # Whoever keeps the traceback, as notebooks do, would keep the definition in use.
            forget_locals(error)
            del self, inputs, outputs, named
            raise

    def differentiate(self, *inputs: Any) -> torch.Tensor:
        """``__call__`` with the derivative that is derived from the text."""
        if not self.is_simple:
            return self(*inputs)
        try:
            result: Any = self.differentiable(*inputs)
            if result is not NotImplemented:
                return result
            if self._integers:
                self._check_integers(inputs)
            if self._scalars and (found := as_tensors(self, inputs)) is not None:
                return found[0].differentiate(*found[1])
            return self.derived_overload(*inputs)
        except TCError:
            raise
        except (RuntimeError, TypeError) as error:
            self._explain(inputs, error)
            raise

    def _without_specialized(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """For Dynamo: the values of tensors that decide sizes, for which a graph ends."""
        return tuple(
            value.item() if k in self._specialized and isinstance(value, torch.Tensor) else value
            for k, value in enumerate(inputs)
        )

    def with_tensors(self, flags: tuple[bool, ...]) -> Operator:
        """The definition with some scalars as tensors of one element (see ``tensors_text``)."""
        if flags not in self._with_tensors:
            text = self.definition.tensors_text(list(flags))
            self._with_tensors[flags] = self.derive(text, "tc_scalar")
        return self._with_tensors[flags]

    def batch(self, flags: tuple[bool, ...]) -> Operator:
        """The definition over a batch of some inputs, found in the text (see ``batch_text``)."""
        if flags not in self._batches:
            text = self.definition.batch_text(list(flags))
            self._batches[flags] = self.derive(text, "tc_batch")
        return self._batches[flags]

    def over_batch(
        self, in_dims: tuple[Any, ...], inputs: tuple[Any, ...]
    ) -> tuple[Operator, list[Any], tuple[Any, ...]]:
        """The operator for a batch, its inputs, and in which dimension results have the batch."""
        self._check_example(in_dims, inputs)
        operator = self.batch(tuple(dim is not None for dim in in_dims))
        values = [
            value if dim is None else value.movedim(dim, 0)
            for value, dim in zip(inputs, in_dims, strict=True)
        ]
        dims = tuple(
            0 if batched.ndim > info.ndim else None
            for batched, info in zip(
                operator.definition.outputs, self.definition.outputs, strict=True
            )
        )
        return operator, values, dims

    def _check_example(self, in_dims: tuple[Any, ...], inputs: tuple[Any, ...]) -> None:
        """The sizes of one example, as a call with it checks them: the text for a batch has lost
        what the definitions that it calls ask of sizes."""
        from tensor_comprehensions._fake import Shapes

        example = []
        for value, dim in zip(inputs, in_dims, strict=True):
            if isinstance(value, torch.Tensor) and value.dim():
                sizes = list(value.shape)
                if dim is not None:
                    del sizes[dim]
                value = torch.empty(sizes, dtype=value.dtype, device="meta")
            example.append(value)
        self._shapes = self._shapes or Shapes(self.definition)
        self._shapes(tuple(example))

    def derive(self, text: str, namespace: str) -> Operator:
        """An operator of a text that was made from this one's."""
        from tensor_comprehensions._define import make_operator

        # Without the warnings of `parse`: nobody has written this text.
        return make_operator(_torch.parse(text).definitions[0], namespace)

    def derived(self) -> list[Operator]:
        """What `derive` has made so far."""
        made = [*self._batches.values(), *self._with_tensors.values()]
        made += self.registration.derivatives()
        return [*made, self.sized] if self.sized else made

    def _check_integers(self, inputs: tuple[Any, ...]) -> None:
        """PyTorch would truncate a tensor of floats, or a float of NumPy's, that is passed for an
        integer."""
        for k in self._integers:
            value = inputs[k] if k < len(inputs) else 0
            if type(value) is not int and explain_scalar(self._infos[k], value) is not None:
                self._explain(inputs, None)

    def run(self, inputs: tuple[Any, ...], outputs: Any = None, unchecked: bool = False) -> Any:
        """``__call__`` with inputs and outputs as sequences."""
        inputs = tuple(inputs)
        if outputs is None:
            if not self.is_simple:
                self._miss_outputs()
            return self(*inputs)
        outputs = self._check_outputs(outputs)
        if len(inputs) != len(self._infos):
            self._explain(inputs, None)
        if self._scalars:
            if _is_traced():
                return _traced_call_into()(self.name, self._without_specialized(inputs), outputs)
            self.check_no_gradients(inputs, self._scalars)
            found = as_tensors(self, inputs)
            if found is not None:
                return found[0].run(found[1], outputs, unchecked)
        is_registered, done = self._out_overload is not None, False
        if not is_registered or (unchecked and not torch.compiler.is_compiling()):
            self.check_no_gradients(inputs)
            done = self._operator.call_out(inputs, outputs, unchecked, is_registered)
        if not done:
            self._call_out(inputs, outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def _call_out(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        """Through the dispatcher: fake tensors, subclasses and lazy negation are seen to there."""
        self._check_integers(inputs)
        named = dict(zip(self._output_names, outputs, strict=True))
        try:
            self._out_overload(*inputs, **named)
        except TCError:
            raise
        except (RuntimeError, TypeError) as error:
            self._explain(inputs, error)
            raise

    def _miss_outputs(self) -> NoReturn:
        names = ", ".join(info.name for info in self._output_infos if info.accumulates)
        given = "".join(f"{info.name}, " for info in self._output_infos).rstrip()
        raise ShapeError(
            f"{self.__name__} reads the initial contents of {names}: pass outputs=({given}), or "
            f"write +=! to begin from zero"
        )

    def _check_outputs(self, outputs: Any) -> tuple[Any, ...]:
        if isinstance(outputs, torch.Tensor):
            outputs = (outputs,)
        try:
            outputs = tuple(outputs)
        except TypeError:
            raise ShapeError(
                f"outputs: expected a tensor or a sequence of them but got {_type_name(outputs)}"
            ) from None
        if len(outputs) != len(self._output_infos):
            raise ShapeError(
                f"{self.__name__} expected {plural(len(self._output_infos), 'output')} but found "
                f"{len(outputs)}"
            )
        for info, output in zip(self._output_infos, outputs, strict=True):
            if not isinstance(output, torch.Tensor):
                raise ShapeError(
                    f"output {info.name}: expected a tensor but got {_type_name(output)}"
                )
            if torch.is_grad_enabled() and output.requires_grad:
                raise TCError(
                    f"output {info.name} requires gradients, which writing into it would lose; "
                    f"pass {info.name}.detach() or call under torch.no_grad()"
                )
        return outputs

    def check_no_gradients(
        self, inputs: tuple[Any, ...], places: Iterable[int] | None = None
    ) -> None:
        """TCError where a result without history would lose gradients in silence."""
        if not torch.is_grad_enabled():
            return
        for k in range(len(inputs)) if places is None else places:
            info, value = self._infos[k], inputs[k]
            if isinstance(value, torch.Tensor) and value.requires_grad:
                raise TCError(
                    f"{self.__name__} into given outputs has no derivative, but argument "
                    f"{info.name} requires gradients; call it under torch.no_grad(), or through "
                    f"tensor_comprehensions.make_autograd without outputs"
                )

    def _explain(self, inputs: tuple[Any, ...], error: Exception | None) -> None:
        """PyTorch's complaint about an argument, in our words where it is about the definition."""
        if len(inputs) != len(self._infos):
            raise self.parameters.count_error(len(inputs)) from error
        for info, value in zip(self._infos, inputs, strict=True):
            expected, got = None, _type_name(value)
            if info.is_scalar:
                if (wrong := explain_scalar(info, value)) is not None:
                    raise wrong from error
            elif not isinstance(value, torch.Tensor):
                expected = "a tensor"
            elif value.layout != torch.strided:
                raise ShapeError(
                    f"argument {info.name}: expected a strided tensor but got layout "
                    f"{value.layout}; call to_dense() on it"
                ) from error
            elif value.device.type not in ("cpu", "cuda", "meta"):
                expected, got = "a tensor on the CPU or a CUDA device", str(value.device)
            if expected is not None:
                raise ShapeError(f"argument {info.name}: expected {expected} but got {got}") from (
                    error
                )

    # ---- looking inside

    @property
    def options(self) -> MappingOptions | Callable:
        """What it was defined with: a copy of the options, or the factory of them."""
        return self.registration.scheduling.given()

    def compile(
        self,
        /,
        *inputs: Any,
        options: object = None,
        target: str | torch.device | None = None,
        **named: Any,
    ) -> Executor:
        """This definition, compiled for these inputs, as a call of it would compile it.

        Without ``options`` (a preset's name or MappingOptions) it takes those that it was defined
        with, asking the factory where it was one. ``target`` is as for ``compile`` of the package.
        """
        from tensor_comprehensions._executor import Executor

        try:
            if named:
                inputs = self.parameters.arrange(inputs, named, COMPILE_WORDS)
            if len(inputs) != len(self._infos):
                raise self.parameters.count_error(len(inputs), COMPILE_WORDS)
            if options is None:
                options = self.registration.scheduling.choose(self.__name__, inputs)
            return Executor(self.definition, options, inputs, target)
        except BaseException:
            del self, inputs, named  # as in __call__
            raise

    def explain(
        self,
        /,
        *inputs: Any,
        options: object = None,
        target: str | torch.device | None = None,
        **named: Any,
    ) -> str:
        """What the compiler decides for these inputs, and why: ``Executor.explain``."""
        try:
            return self.compile(*inputs, options=options, target=target, **named).explain()
        except BaseException:
            del self, inputs, named  # as in __call__
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        return self.registration.made_by

    def __repr__(self) -> str:
        return f"<tensor comprehension {_html.heading(self.definition.text)}>"

    def _repr_html_(self) -> str:
        return _html.text_block(self.definition.text)
