"""One definition as a function of tensors, and its operator in PyTorch's dispatcher."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from tensor_comprehensions import _html, _sharding, _torch
from tensor_comprehensions._errors import ShapeError, TCError, forget_locals
from tensor_comprehensions._fake import make_fake
from tensor_comprehensions._options import MappingOptions, Scheduling
from tensor_comprehensions._parameters import (
    Parameters,
    described,
    document,
    input_types,
    output_types,
    plural,
    signature,
)

if TYPE_CHECKING:
    from tensor_comprehensions._executor import Executor
    from tensor_comprehensions._gradients import Derivable

_is_traced = torch.compiler.is_dynamo_compiling


def _type_name(value: object) -> str:
    return type(value).__name__


class Registration:
    """An operator in PyTorch's dispatcher, where it stays for ever.

    ``Operator`` is what users hold of it. When nobody does any more it is gone, and is made anew
    for whoever comes by the name, as graphs and saved programs do.
    """

    _making = threading.Lock()

    def __init__(
        self,
        definition: _torch.Definition,
        operator: _torch.Operator,
        scheduling: Scheduling,
        on_release: Callable[[Registration], None],
    ) -> None:
        self.definition = definition
        self.operator = operator
        self.scheduling = scheduling
        self.name = ""  #: <namespace>::<name> in torch.ops
        self.overload: Any = None  #: torch.ops.<namespace>.<name>.default
        self.out_overload: Any = None
        self.direct: Any = None  #: the overload, for plain arguments
        self.is_public = False  #: a user wrote the text, and it is found by the definition's name
        self.made_by: tuple = ()  #: how to make the operator in another process
        self.derivable: Derivable | None = None  #: its derivatives, where some were asked for
        self._on_release = on_release
        self._found: Callable[[], Operator | None] = lambda: None
        self._kept: Operator | None = None

    def register(self, namespace: str, name: str) -> None:
        """Makes torch.ops.<namespace>.<name>."""
        self.name = f"{namespace}::{name}"
        packet = self._register(namespace, name)
        self.overload, self.out_overload = packet.default, packet.out
        self.direct = _torch.direct_call(self.operator, self.name)

    def register_former(self, namespace: str, name: str) -> None:
        """Makes this operator known by the name that graphs of another version hold."""
        self._register(namespace, name)

    def _register(self, namespace: str, name: str) -> Any:
        schema = _torch.Schema(self.definition, name)
        self.operator.register(namespace, schema.functional, schema.out)
        infer, infer_out = make_fake(self.definition)
        torch.library.register_fake(f"{namespace}::{name}", infer)
        torch.library.register_fake(f"{namespace}::{name}.out", infer_out)
        torch.library.register_vmap(f"{namespace}::{name}", self._run_batch)
        packet = getattr(getattr(torch.ops, namespace), name)
        _sharding.register(self, packet.default)
        return packet

    def take_name(self, namespace: str, name: str) -> None:
        """Makes this operator torch.ops.<namespace>.<name> as well, whatever that was before.

        Python finds the operator itself there, under whose name graphs hold it. The name is for
        programs that look for it in the dispatcher, as TorchScript does.
        """
        contents = self.name.rpartition(":")[2]
        _torch.set_owner(namespace, name, self.definition, contents)
        operators = getattr(torch.ops, namespace)
        setattr(operators, name, getattr(operators, contents))

    def is_held(self) -> bool:
        """Whether somebody holds the definition: T, T.f or what make_autograd made of it."""
        return self._found() is not None

    def handle(self, keep: bool = False) -> Operator:
        """What users hold. Where nobody does, it is made, and with ``keep`` it stays."""
        operator = self._found()
        if operator is not None:
            return operator
        with self._making:
            operator = self._found()
            if operator is None:
                operator = Operator(self.definition, self.operator, self)
                self._found = weakref.ref(operator, self._release)
                if keep:
                    self._kept = operator
        return operator

    def hand_over(self) -> Operator:
        """``handle``, for someone who is going to hold it."""
        operator = self.handle()
        self._kept = None
        return operator

    def _release(self, _: object) -> None:
        self._on_release(self)

    def _run_batch(self, info: object, in_dims: tuple, *inputs: Any) -> tuple:
        # Its batches are kept with it.
        return self.handle(keep=True).run_batch(in_dims, inputs)


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
        self._out_overload: Callable | None = None
        self._direct: Any = None  #: the overload, for plain arguments
        self.name = ""  #: <namespace>::<name> in torch.ops
        if registration is not None:
            self.registration = registration
            self.overload, self._out_overload = registration.overload, registration.out_overload
            self._direct, self.name = registration.direct, registration.name
        self.parameters = Parameters.of(definition)
        self._infos = list(definition.inputs)
        self._output_infos = list(definition.outputs)
        self._output_names = _torch.Schema(definition, definition.name).outputs
        self._simple = not any(info.accumulates for info in self._output_infos)
        self._batches: dict[tuple[bool, ...], Operator] = {}
        self.sized: Operator | None = None  #: the same with sizes as scalars, for DTensors
        self._integers = [
            k
            for k, info in enumerate(self._infos)
            if info.is_scalar and not info.dtype.is_floating_point
        ]

    def types(self) -> tuple[list[str], list[str]]:
        """What inputs and results are, as a text declares them."""
        return input_types(self.definition), output_types(self.definition)

    def __call__(
        self, /, *inputs: Any, outputs: Any = None, unchecked: bool = False, **named: Any
    ) -> Any:
        """Runs on tensors, and numbers or 0-d tensors for scalars, by place or by name.

        One result is returned as a tensor, several as a tuple. ``outputs``, a tensor or a sequence
        of them, are written when given; ``unchecked`` then leaves out the checks of their sizes
        and overlap for layouts that were seen before. ShapeError names the argument that does not
        fit, what was expected and what came.
        """
        try:
            if named:
                inputs = self.parameters.arrange(inputs, named)
            if outputs is None and self._simple:
                if self._integers:
                    self._check_integers(inputs)
                try:
                    # Dynamo is shown the operator.
                    if not _is_traced():
                        result = self._direct(*inputs)
                        if result is not NotImplemented:
                            return result
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

    def run_batch(self, in_dims: tuple, inputs: tuple) -> tuple:
        """For vmap: the definition over a batch, found in the text (see ``batch_text``)."""
        flags = tuple(dim is not None for dim in in_dims)
        operator = self._batches.get(flags)
        if operator is None:
            text = self.definition.batch_text(list(flags))
            operator = self._batches[flags] = self.derive(text, "tc_batch")
        values = [
            value if dim is None else value.movedim(dim, 0)
            for value, dim in zip(inputs, in_dims, strict=True)
        ]
        results = operator(*values)
        dims = tuple(
            0 if batched.ndim > info.ndim else None
            for batched, info in zip(
                operator.definition.outputs, self.definition.outputs, strict=True
            )
        )
        return results, dims if isinstance(results, tuple) else dims[0]

    def derive(self, text: str, namespace: str) -> Operator:
        """An operator of a text that was made from this one's."""
        from tensor_comprehensions._define import make_operator

        # Without the warnings of `parse`: nobody has written this text.
        return make_operator(_torch.parse(text).definitions[0], namespace)

    def derived(self) -> list[Operator]:
        """What `derive` has made so far."""
        return [*self._batches.values(), *([self.sized] if self.sized else [])]

    def _check_integers(self, inputs: tuple) -> None:
        """PyTorch would truncate a 0-d tensor of floats that is passed for an integer."""
        for k in self._integers:
            value = inputs[k] if k < len(inputs) else None
            if isinstance(value, torch.Tensor) and (
                value.is_floating_point() or value.is_complex()
            ):
                self._explain(inputs, None)

    def run(self, inputs: tuple, outputs: Any = None, unchecked: bool = False) -> Any:
        """``__call__`` with inputs and outputs as sequences."""
        inputs = tuple(inputs)
        if outputs is None:
            if not self._simple:
                self._miss_outputs()
            return self(*inputs)
        outputs = self._check_outputs(outputs)
        if len(inputs) != len(self._infos):
            self._explain(inputs, None)
        if self._out_overload is not None and (torch.compiler.is_compiling() or not unchecked):
            # Through the dispatcher: fake tensors, subclasses and lazy negation are seen to there.
            self._check_integers(inputs)
            named = dict(zip(self._output_names, outputs, strict=True))
            try:
                self._out_overload(*inputs, **named)
            except TCError:
                raise
            except (RuntimeError, TypeError) as error:
                self._explain(inputs, error)
                raise
        else:
            self.check_no_gradients(inputs)
            self._operator.call_out(inputs, outputs, unchecked)
        return outputs[0] if len(outputs) == 1 else outputs

    def _miss_outputs(self) -> NoReturn:
        names = ", ".join(info.name for info in self._output_infos if info.accumulates)
        given = "".join(f"{info.name}, " for info in self._output_infos).rstrip()
        raise ShapeError(
            f"{self.__name__} reads the initial contents of {names}: pass outputs=({given}), or "
            f"write +=! to begin from zero"
        )

    def _check_outputs(self, outputs: Any) -> tuple:
        if isinstance(outputs, torch.Tensor):
            outputs = (outputs,)
        outputs = tuple(outputs)
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

    def check_no_gradients(self, inputs: tuple) -> None:
        """TCError where a result without history would lose gradients in silence."""
        if not torch.is_grad_enabled():
            return
        for info, value in zip(self._infos, inputs, strict=True):
            if isinstance(value, torch.Tensor) and value.requires_grad:
                raise TCError(
                    f"{self.__name__} into given outputs has no derivative, but argument "
                    f"{info.name} requires gradients; call it under torch.no_grad(), or through "
                    f"tensor_comprehensions.make_autograd without outputs"
                )

    def _explain(self, inputs: tuple, error: Exception | None) -> None:
        """PyTorch's complaint about an argument, in our words where it is about the definition."""
        if len(inputs) != len(self._infos):
            raise self.parameters.count_error(len(inputs)) from error
        for info, value in zip(self._infos, inputs, strict=True):
            expected, got = None, _type_name(value)
            if info.is_scalar:
                expected = self._explain_scalar(info, value)
                if isinstance(value, torch.Tensor):
                    got = f"a tensor of sizes {tuple(value.shape)} and dtype {value.dtype}"
                elif isinstance(value, (int, float)):
                    got = str(value)
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

    @staticmethod
    def _explain_scalar(info: _torch.ArgumentInfo, value: object) -> str | None:
        """What the scalar should have been; None where the value is good."""
        if isinstance(value, torch.Tensor):
            if value.dim() != 0:
                return "a number or a 0-d tensor"
            integral = not value.is_floating_point() and not value.is_complex()
        elif isinstance(value, (int, float, torch.SymInt, torch.SymFloat)):
            integral = not isinstance(value, (float, torch.SymFloat))
        else:
            integral = hasattr(value, "__index__")
            if not integral and not hasattr(value, "__float__"):
                return "a number or a 0-d tensor"
        if not info.dtype.is_floating_point and not integral:
            return "an integer"
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return "a number of at most 64 bits"
        return None

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
        target: str | None = None,
        **named: Any,
    ) -> Executor:
        """This definition, compiled for these inputs, as a call of it would compile it.

        Without ``options`` (a preset's name or MappingOptions) it takes those that it was defined
        with, asking the factory where it was one. ``target`` is as for ``compile`` of the package.
        """
        from tensor_comprehensions._executor import Executor

        try:
            if named:
                inputs = self.parameters.arrange(inputs, named)
            if len(inputs) != len(self._infos):
                raise self.parameters.count_error(len(inputs))
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
        target: str | None = None,
        **named: Any,
    ) -> str:
        """What the compiler decides for these inputs, and why: ``Executor.explain``."""
        try:
            return self.compile(*inputs, options=options, target=target, **named).explain()
        except BaseException:
            del self, inputs, named  # as in __call__
            raise

    def __reduce__(self) -> tuple:
        return self.registration.made_by

    def __repr__(self) -> str:
        return f"<tensor comprehension {_html.heading(self.definition.text)}>"

    def _repr_html_(self) -> str:
        return _html.text_block(self.definition.text)
