"""The operators of definitions in PyTorch's dispatcher."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, cast

import torch
from torch._functorch.autograd_function import custom_function_call_vmap_helper
from torch._functorch.pyfunctorch import (
    VmapInterpreter,
    retrieve_current_functorch_interpreter,
)

from tensor_comprehensions import _sharding, _torch
from tensor_comprehensions._fake import make_fake
from tensor_comprehensions._operator import Operator
from tensor_comprehensions._options import MappingOptions, Scheduling


class Registration:
    """An operator in PyTorch's dispatcher.

    ``Operator`` is what users hold of it. When nobody does any more it is gone, and is made anew
    for whoever comes by the name, as graphs and saved programs do.
    """

    making = threading.Lock()

    def __init__(
        self,
        definition: _torch.Definition,
        operator: _torch.Operator,
        scheduling: Scheduling,
        key: tuple[Any, ...],
        on_release: Callable[[Registration], None],
    ) -> None:
        self.definition = definition
        self.operator = operator
        self.scheduling = scheduling
        self.key = key  #: tells it apart from others
        self.name = ""  #: <namespace>::<name> in torch.ops
        self.overload: Any = None  #: torch.ops.<namespace>.<name>.default
        self.out_overload: Any = None
        self.direct: Any = None  #: the overload, for plain arguments
        self.is_public = False  #: a user wrote the text, and it is found by the definition's name
        self.made_by: tuple[Any, ...] = ()  #: how to make the operator in another process
        self.differentiable: Any = None  #: the operator that differentiates itself, directly
        #: somebody may know it by a name, or a handle of the dispatcher's, for ever
        self.is_pinned = False
        self._derivatives: list[Registration] = []
        self._needed_by = 0  #: operators of which this is a derivative
        self.library: Any = None
        self._references: list[int] = []
        self._infer, self._infer_out = make_fake(definition)
        self._on_release = on_release
        self._found: Callable[[], Operator | None] = lambda: None
        self._kept: Operator | None = None

    # ---- the dispatcher

    def register(self, namespace: str, name: str) -> None:
        """Makes torch.ops.<namespace>.<name>."""
        self.name = f"{namespace}::{name}"
        self.library = torch.library.Library(namespace, "FRAGMENT")
        packet = self._register(namespace, name, self.library)
        self.overload, self.out_overload = packet.default, packet.out
        del packet
        notes = _sharding.count_notes(self.overload)
        self.direct = _torch.direct_call(self.operator, self.name)
        self.differentiable = self._register_derived(self.name, self.library)
        self._count_references()  # makes what is counted
        self._references = self._count_references()
        self._references[1] -= notes

    def register_former(self, namespace: str, name: str) -> None:
        """Makes this operator known by the name that graphs of another version hold."""
        self.is_pinned = True
        self._register(namespace, name, self.library)
        self._register_derived(f"{namespace}::{name}", self.library)

    def _register(self, namespace: str, name: str, library: Any) -> Any:
        schema = _torch.Schema(self.definition, name)
        self.operator.register(namespace, schema.functional, schema.out)
        for overload, infer in ((name, "_infer"), (f"{name}.out", "_infer_out")):
            _register_fake(library, f"{namespace}::{overload}", self._weakly(infer))
        self._register_batching(library, f"{namespace}::{name}", differentiates=False)
        packet = getattr(getattr(torch.ops, namespace), name)
        _sharding.register(self, packet.default)
        return packet

    def _weakly(self, method: str) -> Callable[..., Any]:
        """A method for PyTorch, which keeps functions for ever."""
        found = weakref.ref(self)

        def call(*arguments: Any, **named: Any) -> Any:
            return getattr(found(), method)(*arguments, **named)

        return call

    def _register_batching(self, library: Any, full_name: str, differentiates: bool) -> None:
        """torch.library.register_vmap, but that PyTorch does not keep the operator as well."""
        namespace, _, name = full_name.partition("::")
        rule = functools.partial(self._weakly("_run_batch"), differentiates)

        def call(keyset: Any, *arguments: Any) -> Any:
            return custom_function_call_vmap_helper(
                cast(VmapInterpreter, retrieve_current_functorch_interpreter()),
                rule,
                # Called as it is at levels that batch none of the arguments.
                getattr(getattr(torch.ops, namespace), name).default,
                *arguments,
            )

        library.impl(name, call, "FuncTorchBatched", with_keyset=True)

    def _register_derived(self, name: str, library: Any) -> Any:
        """Makes the operator that graphs hold where the derivative follows, as it is derived."""
        registered = _torch.register_derived(self.operator, name, self._make_derivative)
        self._register_batching(library, _torch.derived_name(name), differentiates=True)
        return registered

    def _make_derivative(self, text: str, namespace: str) -> str:
        made = self.handle().derive(text, namespace).registration
        if made not in self._derivatives:
            self._derivatives.append(made)
            made._needed_by += 1
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

    # ---- who uses it

    def is_held(self) -> bool:
        """Whether somebody holds the definition: T, T.f or what make_autograd made of it."""
        return self._found() is not None

    def handle(self, keep: bool = False) -> Operator:
        """What users hold. Where nobody does, it is made, and with ``keep`` it stays."""
        operator = self._found()
        if operator is not None:
            return operator
        with self.making:
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

    def is_in_use(self, plain_names: int) -> bool:
        """Whether something could call it still: a definition, a derivative's forward, a graph of
        autograd, or who holds the overloads, as the graphs of torch.compile and exported programs
        do. ``plain_names`` is how many names torch.ops has it under beside its own."""
        if self.is_pinned or self._needed_by or self.is_held() or _torch.is_recorded(self.name):
            return True
        packet, default, *others = self._references
        expected = [packet + plain_names, default + _sharding.count_notes(self.overload), *others]
        return self._count_references() != expected

    def _count_references(self) -> list[int]:
        """To what PyTorch has of it in Python, by those that count and, at first, nobody else."""
        namespace, _, name = self.name.partition("::")
        operators = getattr(torch.ops, namespace)
        derived = getattr(operators, _torch.derived_name(name))
        packet = getattr(operators, name)
        return [
            sys.getrefcount(packet),
            sys.getrefcount(packet.default),
            sys.getrefcount(packet.out),
            sys.getrefcount(derived),
            sys.getrefcount(derived.default),
        ]

    def unregister(self) -> list[Registration]:
        """Takes it out of the dispatcher and of torch.ops. Those of which this was the last that
        needed them."""
        namespace, _, name = self.name.partition("::")
        _sharding.forget(self.overload)
        self.overload = self.out_overload = self.direct = self.differentiable = None
        derived = _torch.derived_name(name)
        _forget_kernels(
            self.library,
            (name, "Meta"),
            (f"{name}.out", "Meta"),
            (name, "FuncTorchBatched"),
            (derived, "FuncTorchBatched"),
        )
        self.library._destroy()
        _torch.unregister(self.name)
        for each in (name, derived):
            forget_attribute(namespace, each)
            for overload in (each, f"{each}.out"):
                torch._library.simple_registry.singleton._data.pop(f"{namespace}::{overload}", None)
        left, self._derivatives = self._derivatives, []
        for made in left:
            made._needed_by -= 1
        return [made for made in left if not made._needed_by]

    # ---- batches, which are kept with the operator

    def _run_batch(
        self, differentiates: bool, _: object, in_dims: tuple[Any, ...], *inputs: Any
    ) -> tuple[Any, ...]:
        operator, values, dims = self.handle(keep=True).over_batch(in_dims, inputs)
        results = operator.differentiate(*values) if differentiates else operator(*values)
        return results, dims if isinstance(results, tuple) else dims[0]


def _register_fake(library: Any, name: str, infer: Callable[..., Any]) -> None:
    """torch.library.register_fake, without a look for the module of the caller, which takes longer
    than all the rest, and without what of it stays behind."""
    entry = torch._library.simple_registry.singleton.find(name)
    handle = entry.fake_impl.register(infer, "tensor_comprehensions", lib=library)
    library._registration_handles.append(handle)


def _has_left(*_: Any) -> Any:
    raise AssertionError("an operator that has left the dispatcher was called")


def _forget_kernels(library: Any, *names_and_keys: tuple[str, str]) -> None:
    """PyTorch keeps the Python function that was last registered for a name and a dispatch key
    (``python_registrations_`` in python_dispatch.cpp), also when its library is destroyed. Leaves
    it one function for all."""
    library.m.reset()
    for name, key in names_and_keys:
        library.m.impl(name, key, _has_left, False)


def forget_attribute(namespace: str, name: str) -> None:
    """Removes what torch.ops has found by a name, with PyTorch's notes of it."""
    operators = getattr(torch.ops, namespace)
    packet = operators.__dict__.pop(name, None)
    if packet is not None and packet.__name__ == name:
        notes = torch.jit._builtins._get_builtin_table()
        overloads = (getattr(packet, overload) for overload in packet.overloads())
        for known in (packet, *overloads):
            notes.pop(id(known._op), None)
    if name in operators._dir:
        operators._dir.remove(name)
