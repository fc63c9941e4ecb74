"""The operators of definitions in PyTorch's dispatcher."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch

from tensor_comprehensions import _sharding, _torch
from tensor_comprehensions._fake import make_fake
from tensor_comprehensions._operator import Operator
from tensor_comprehensions._options import MappingOptions, Scheduling


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
        self.made_by: tuple[Any, ...] = ()  #: how to make the operator in another process
        self.differentiable: Any = None  #: the operator that differentiates itself, directly
        self._derivatives: list[Registration] = []
        self._on_release = on_release
        self._found: Callable[[], Operator | None] = lambda: None
        self._kept: Operator | None = None

    def register(self, namespace: str, name: str) -> None:
        """Makes torch.ops.<namespace>.<name>."""
        self.name = f"{namespace}::{name}"
        packet = self._register(namespace, name)
        self.overload, self.out_overload = packet.default, packet.out
        self.direct = _torch.direct_call(self.operator, self.name)
        self.differentiable = self._register_derived(self.name)

    def register_former(self, namespace: str, name: str) -> None:
        """Makes this operator known by the name that graphs of another version hold."""
        self._register(namespace, name)
        self._register_derived(f"{namespace}::{name}")

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

    def _register_derived(self, name: str) -> Any:
        """Makes the operator that graphs hold where the derivative follows, as it is derived."""
        registered = _torch.register_derived(self.operator, name, self._make_derivative)
        torch.library.register_vmap(_torch.derived_name(name), self._run_derived_batch)
        return registered

    def _make_derivative(self, text: str, namespace: str) -> str:
        made = self.handle().derive(text, namespace).registration
        if made not in self._derivatives:
            self._derivatives.append(made)
        return made.name

    def derivatives(self) -> list[Operator]:
        """Those that were derived so far."""
        return [made.handle() for made in self._derivatives]

    def allow_keeping(self) -> None:
        """Recorded calls may run a definition with more results, which the derivative would compute
        again otherwise: that of a user, whose results nobody expects, without options of theirs."""
        self.differentiable.may_keep = self.scheduling.text == str(MappingOptions())

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

    # For vmap. Batches are kept with the operator.

    def _run_batch(self, _: object, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, ...]:
        operator, values, dims = self.handle(keep=True).over_batch(in_dims, inputs)
        results = operator(*values)
        return results, dims if isinstance(results, tuple) else dims[0]

    def _run_derived_batch(
        self, _: object, in_dims: tuple[Any, ...], *inputs: Any
    ) -> tuple[Any, ...]:
        operator, values, dims = self.handle(keep=True).over_batch(in_dims, inputs)
        results = operator.differentiate(*values)
        return results, dims if isinstance(results, tuple) else dims[0]
