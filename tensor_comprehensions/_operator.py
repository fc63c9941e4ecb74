"""One definition as a function of tensors, and its place in torch.ops."""

from __future__ import annotations

import itertools
import re
import threading
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from tensor_comprehensions import _sharding, _torch
from tensor_comprehensions._errors import ShapeError, TCError
from tensor_comprehensions._fake import make_fake
from tensor_comprehensions._parameters import (
    Parameters,
    described,
    document,
    input_types,
    output_types,
    plural,
    signature,
)

_is_traced = torch.compiler.is_dynamo_compiling
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_identifier(name: str) -> bool:
    return _IDENTIFIER.fullmatch(name) is not None


def _type_name(value: object) -> str:
    return type(value).__name__


@described(
    lambda operator: document(operator.definition, *operator.types()),
    lambda operator: signature(operator.definition, *operator.types()),
)
class Operator:
    """One definition of a text, ready to be called: the attribute T.f."""

    def __init__(self, definition: _torch.Definition, operator: _torch.Operator) -> None:
        self.definition = definition
        self.__name__ = definition.name
        self._operator = operator
        self.overload: Any = None  #: torch.ops.<namespace>.<name>.default
        self._out_overload: Callable | None = None
        self._direct: Any = None  #: the overload, for plain arguments
        self.parameters = Parameters.of(definition)
        self._infos = list(definition.inputs)
        self._output_infos = list(definition.outputs)
        self._output_names = _torch.Schema(definition, definition.name).outputs
        self._infer, self._infer_out = make_fake(definition)
        self._simple = not any(info.accumulates for info in self._output_infos)
        self._made_by: tuple = ()
        self.options: str | None = None  #: how it is scheduled; None where a factory says it
        self.is_public = False  #: a user wrote the text, and it is found by the definition's name
        self._batches: dict[tuple[bool, ...], Operator] = {}
        self.sized: Operator | None = None  #: the same with sizes as scalars, for DTensors
        self.name = ""  #: <namespace>::<name> in torch.ops
        self._integers = [
            k
            for k, info in enumerate(self._infos)
            if info.is_scalar and not info.dtype.is_floating_point
        ]

    def register(self, namespace: str, name: str) -> None:
        """Makes torch.ops.<namespace>.<name>."""
        self.name = f"{namespace}::{name}"
        packet = self._register(namespace, name)
        self.overload, self._out_overload = packet.default, packet.out
        self._direct = _torch.direct_call(self._operator, self.name)

    def register_alias(self, namespace: str, name: str) -> None:
        """Makes this operator torch.ops.<namespace>.<name> as well.

        Python finds the operator itself there, under whose name graphs hold it. The name is for
        programs that look for it in the dispatcher, as TorchScript does.
        """
        self._register(namespace, name)
        operators = getattr(torch.ops, namespace)
        contents = self.name.rpartition(":")[2]
        setattr(operators, name, getattr(operators, contents))
        _torch.set_owner(namespace, name, contents)

    def register_former(self, namespace: str, name: str) -> None:
        """Makes this operator known by the name that graphs of another version hold."""
        self._register(namespace, name)

    def _register(self, namespace: str, name: str) -> Any:
        schema = _torch.Schema(self.definition, name)
        self._operator.register(namespace, schema.functional, schema.out)
        torch.library.register_fake(f"{namespace}::{name}", self._infer)
        torch.library.register_fake(f"{namespace}::{name}.out", self._infer_out)
        torch.library.register_vmap(f"{namespace}::{name}", self._run_batch)
        packet = getattr(getattr(torch.ops, namespace), name)
        _sharding.register(self, packet.default)
        return packet

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

    def _run_batch(self, _: object, in_dims: tuple, *inputs: Any) -> tuple:
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

    def made_by(self, function: Callable, *arguments: object) -> None:
        """Says how to make this operator in another process."""
        self._made_by = (function, arguments)

    def __reduce__(self) -> tuple:
        return self._made_by

    def __repr__(self) -> str:
        return f"<tensor comprehension {self.__name__}>"


class Registry:
    """Operators of this process: names in torch.ops are for ever."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[str, tuple] = {}  # "namespace::name" -> what runs under it
        self._operators: dict[tuple, Operator] = {}
        self._by_name: dict[str, Operator] = {}
        self._former_names: set[str] = set()

    def find(self, full_name: str) -> Operator | None:
        """The operator behind a name of torch.ops, as ``tc::f`` or ``tc::f__<digits>``."""
        with self._lock:
            return self._by_name.get(full_name)

    def is_former(self, full_name: str) -> bool:
        """Whether this is a name that another version gave an operator."""
        return full_name in self._former_names

    def check_free(self, namespace: str, name: str) -> None:
        """TCError where someone else has made torch.ops.<namespace>.<name>."""
        if f"{namespace}::{name}" not in self._owners and _torch.is_registered(namespace, name):
            raise TCError(
                f"torch.ops.{namespace}.{name} exists already and was not defined here; pass "
                f"another namespace= to tensor_comprehensions.define"
            )

    def get(
        self,
        definition: _torch.Definition,
        namespace: str,
        choose: Callable,
        options: tuple[str | None, object],
        public: bool = True,
    ) -> Operator:
        """The operator of a text with these options, registered when it is new.

        ``options`` tells texts apart that are scheduled differently: the options' text and the
        user's factory, compared by identity. Every operator has a name that its contents decide, in
        every process alike: what graphs, their caches and saved programs hold under it can be no
        other text. The first of its name that is ``public`` is what torch.ops has under the
        definition's name.
        """
        name = _torch.mangle(definition.name, [], "tc")
        full_name = f"{namespace}::{name}"
        identity = (definition.text, options[0], id(options[1]))
        with self._lock:
            known = self._operators.get((full_name, identity))
            owner = self._owners.get(full_name)
            if public:
                self.check_free(namespace, name)
            if public and owner is not None and owner[0] != definition.text and known is None:
                warnings.warn(
                    f"torch.ops.{namespace}.{name} already belongs to another text and stays "
                    f"with it; T.{definition.name} runs the new one. Pass namespace= to "
                    f"tensor_comprehensions.define to register it under a name of its own",
                    stacklevel=4,
                )
            if known is None:
                known = Operator(definition, _torch.Operator(definition, choose))
                known.options = options[0]
                known.register(namespace, self._name_of_contents(definition, namespace, options))
                self._operators[full_name, identity] = known
                self._by_name[known.name] = known
            if public:
                known.is_public = True
            if public and owner is None:
                known.register_alias(namespace, name)
                self._owners[full_name] = identity
                self._by_name[full_name] = known
            return known

    def add_former_name(self, operator: Operator, name: str) -> None:
        """Registers an operator also by a name that another version gave it, once."""
        namespace = operator.name.partition("::")[0]
        with self._lock:
            if not _torch.is_registered(namespace, name):
                operator.register_former(namespace, name)
                self._by_name[f"{namespace}::{name}"] = operator
                self._former_names.add(f"{namespace}::{name}")

    @staticmethod
    def _name_of_contents(
        definition: _torch.Definition, namespace: str, options: tuple[str | None, object]
    ) -> str:
        text, factory = options
        chooser = (getattr(factory, "__module__", ""), getattr(factory, "__qualname__", ""))
        scheduling = " ".join(chooser) if text is None else text
        # Factories may look alike from outside, as those that one function has made.
        for count in itertools.count(1):
            name = _torch.name_of_contents(definition, scheduling, count)
            if not _torch.is_registered(namespace, name):
                break
        return name
