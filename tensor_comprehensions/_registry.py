"""Which operators this process has, and which of them torch.ops has under a definition's name."""

from __future__ import annotations

import gc
import itertools
import logging
import re
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from tensor_comprehensions import _torch
from tensor_comprehensions._errors import TCError
from tensor_comprehensions._operator import Operator
from tensor_comprehensions._options import MappingOptions, Scheduling
from tensor_comprehensions._parameters import plural
from tensor_comprehensions._registration import Registration, forget_attribute

logger = logging.getLogger("tensor_comprehensions")

#: Of a schema in PyTorch's dispatcher.
_MOST_ARGUMENTS = 64
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Definitions that nobody holds stay in the dispatcher until so many others are dropped.
_MOST_DROPPED = 256
#: How many are looked at together, since that means to look through all objects.
_SWEEP = 64


def is_identifier(name: str) -> bool:
    return _IDENTIFIER.fullmatch(name) is not None


def _after_cell(action: Callable[[], None]) -> bool:
    """Does something when the cell of a notebook that runs now is done; False outside of one."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    if shell is None or threading.current_thread() is not threading.main_thread():
        return False

    def once(*_: object) -> None:
        shell.events.unregister("post_run_cell", once)
        action()

    shell.events.register("post_run_cell", once)
    return True


class _Lost(NamedTuple):
    """What makes an operator again that has left the dispatcher."""

    text: str
    namespace: str
    options: str | Scheduling  #: as text, where no factory says them
    make: Callable[..., Any]  #: in another process
    is_public: bool

    def scheduling(self) -> Scheduling:
        if isinstance(self.options, Scheduling):
            return self.options
        return Scheduling(self.text, MappingOptions.parse(self.options))


def _compiled_scripts() -> str | None:
    """The graphs of TorchScript in this process, which hold operators without counting; None where
    there may be others, as packages of AOTInductor, that cannot be looked into."""
    package = sys.modules.get("torch._inductor.package.package")
    opaque = getattr(package, "AOTICompiledModel", ())
    objects = gc.get_objects()
    # There are a million objects, but few types of them.
    kinds = set(map(type, objects))
    if opaque and any(issubclass(kind, opaque) for kind in kinds):
        return None
    scripts = (torch._C.ScriptFunction, torch.jit.ScriptModule)
    kinds = {kind for kind in kinds if issubclass(kind, scripts)}
    graphs = []
    for value in [value for value in objects if type(value) in kinds] if kinds else []:
        try:
            if isinstance(value, torch._C.ScriptFunction):
                graphs.append(str(value.graph))
            elif "_c" in vars(value):
                # Functions that these call have graphs of their own.
                methods = (value._c._get_method(name) for name in value._c._method_names())
                graphs += [str(method.inlined_graph) for method in methods]
        except (RuntimeError, AttributeError):
            return None  # it is being made, or taken apart
    return "\n".join(graphs)


class _Namespace(torch._ops._OpNamespace):
    """torch.ops.<namespace>, where operators that nobody held are made again when looked up."""

    __module__ = "torch._ops"  # operators have names in it, by which graphs that are kept find them

    def __getattr__(self, name: str) -> Any:
        if registry.restore(f"{self.name}::{name}") and name in self.__dict__:
            return self.__dict__[name]
        return super().__getattr__(name)


class Registry:
    """Operators of this process, and the plain names of definitions in torch.ops.

    Where nobody holds the definition that has its plain name in torch.ops any more, that becomes
    the one that was defined last. Operators that nobody holds leave the dispatcher when many others
    were dropped after them, where PyTorch shows that nothing refers to them; by their names they
    are found again.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._registrations: dict[tuple[Any, ...], Registration] = {}
        self._by_name: dict[str, Registration] = {}  # "namespace::name" in the dispatcher
        self._owners: dict[str, Registration] = {}  # "namespace::name" -> what runs under it
        #: What was defined last under a name that another definition has, and still uses.
        self._waiting: dict[str, Registration] = {}
        self._former_names: set[str] = set()
        self._released: deque[Registration] = deque()
        self._dropped: dict[Registration, None] = {}  # that nobody holds, in the order of that
        self._drops = 0  #: since the last sweep
        self._lost: dict[str, _Lost] = {}  # by names in torch.ops

    def find(self, full_name: str) -> Operator | None:
        """The operator behind a name of torch.ops, as ``tc::f`` or ``tc::f__<digits>``."""
        self.restore(full_name)
        with self.lock:
            found = self._by_name.get(full_name)
            # Held from now on, so that it stays when others are dropped.
            operator = found.handle() if found is not None else None
        self._settle()
        return operator

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
        scheduling: Scheduling,
        made_by: tuple[Any, ...],
        public: bool = True,
        replace: bool = False,
    ) -> Operator:
        """The operator of a text that is scheduled this way, registered when it is new.

        Every operator has a name that its contents decide, in every process alike: what graphs,
        their caches and saved programs hold under it can be no other text. Of those that are
        ``public`` one is what torch.ops has under the definition's name: the first, as long as it
        is used, then the last, and with ``replace`` this one. ``made_by`` is a function and its
        arguments, which make the operator in another process.
        """
        name = _torch.mangle(definition.name, [], "tc")
        key = _key(namespace, definition, scheduling)
        try:
            with self.lock:
                known = self._registrations.get(key)
                if public:
                    self.check_free(namespace, name)
                if known is None:
                    known = self._register(definition, namespace, scheduling, key)
                known.made_by = made_by
                operator = known.hand_over()
                self._dropped.pop(known, None)
                if public:
                    known.is_public = True
                    known.allow_keeping()
                    self._claim(namespace, name, known, replace)
        finally:
            self._settle()
        return operator

    def _register(
        self,
        definition: _torch.Definition,
        namespace: str,
        scheduling: Scheduling,
        key: tuple[Any, ...],
    ) -> Registration:
        inputs, outputs = len(definition.inputs), len(definition.outputs)
        if inputs + outputs > _MOST_ARGUMENTS:
            raise TCError(
                f"{definition.name} has {plural(inputs, 'input')} and {plural(outputs, 'output')}, "
                f"but an operator of PyTorch has at most {_MOST_ARGUMENTS} of both together; join "
                f"some of them in one tensor"
            )
        operator = _torch.Operator(definition, scheduling.chooser(definition.name))
        made = Registration(definition, operator, scheduling, key, self._release)
        name = _name_of_contents(definition, namespace, scheduling)
        self._lost.pop(f"{namespace}::{name}", None)
        operators = getattr(torch.ops, namespace)
        if type(operators) is torch._ops._OpNamespace:
            operators.__class__ = _Namespace
        made.register(namespace, name)
        self._registrations[key] = self._by_name[made.name] = made
        return made

    def _claim(self, namespace: str, name: str, claimant: Registration, replace: bool) -> None:
        full_name = f"{namespace}::{name}"
        owner = self._owners.get(full_name)
        if owner is None or replace or not owner.is_held():
            self._give(full_name, claimant)
            return
        announced = self._waiting.pop(full_name, None) is claimant
        if owner is claimant:
            return
        self._waiting[full_name] = claimant
        if announced or owner.definition.text == claimant.definition.text:
            return
        message = (
            f"torch.ops.{namespace}.{name} stays with an earlier text for as long as something "
            f"holds that, as a variable or the output of a cell does; T.{claimant.definition.name} "
            f"runs the new one. Pass replace=True to tensor_comprehensions.define to give it the "
            f"name at once, or namespace= to register it under a name of its own"
        )
        # In a cell that is run again, T still has the earlier definition while define runs.
        if not _after_cell(lambda: self._warn_of_waiting(full_name, claimant, message)):
            warnings.warn(message, stacklevel=5)

    def _warn_of_waiting(self, full_name: str, claimant: Registration, message: str) -> None:
        if self._waiting.get(full_name) is claimant:
            gc.collect()  # a pair of make_autograd is part of a cycle
        if self._waiting.get(full_name) is claimant:
            logger.warning("%s", message)

    def _give(self, full_name: str, claimant: Registration) -> None:
        self._waiting.pop(full_name, None)
        self._lost.pop(full_name, None)
        owner = self._owners.get(full_name)
        if owner is claimant:
            return
        namespace, _, name = full_name.partition("::")
        claimant.take_name(namespace, name)
        self._owners[full_name] = self._by_name[full_name] = claimant
        if owner is not None and owner.definition.text != claimant.definition.text:
            logger.warning(
                "torch.ops.%s.%s is now the text that was defined last; graphs that were made with "
                "the earlier one keep it",
                namespace,
                name,
            )

    def _release(self, released: Registration) -> None:
        """Called when nobody holds a definition any more, from wherever its last reference went."""
        if not sys.is_finalizing():
            self._released.append(released)
            self._settle()

    def _settle(self) -> None:
        """Gives names of definitions that nobody holds to those that wait for them.

        Whoever has the lock does it afterwards: this may be called amidst its work, by the same
        thread, from a garbage collection.
        """
        while self._released and self.lock.acquire(blocking=False):
            try:
                while self._released:
                    released = self._released.popleft()
                    self._drop(released)
                    for full_name, waiting in list(self._waiting.items()):
                        if self._owners[full_name] is released and not released.is_held():
                            if waiting.is_held():
                                self._give(full_name, waiting)
                            else:
                                del self._waiting[full_name]
                if self._drops >= _SWEEP and len(self._dropped) > _MOST_DROPPED:
                    self._sweep()
            finally:
                self.lock.release()

    def _drop(self, registration: Registration) -> None:
        if not registration.is_held() and self._registrations.get(registration.key) is registration:
            self._dropped.pop(registration, None)
            if not registration.is_pinned:
                self._dropped[registration] = None
                self._drops += 1

    def _sweep(self) -> None:
        """Takes those that were dropped first out of the dispatcher, but for what is in use."""
        self._drops = 0
        scripts = _compiled_scripts()
        if scripts is None:
            return
        if not scripts:
            _torch.forget_moves()
        first = min(len(self._dropped) - _MOST_DROPPED, 2 * _SWEEP)
        owned: dict[Registration, list[str]] = {}
        for name, owner in self._owners.items():
            owned.setdefault(owner, []).append(name)
        for registration in list(self._dropped)[:first]:
            del self._dropped[registration]
            plain = owned.get(registration, [])
            names = [registration.name, *plain]
            if registration.is_in_use(len(plain)) or any(name in scripts for name in names):
                if not registration.is_pinned:
                    self._dropped[registration] = None
                continue
            for name in plain:
                self._take_away(name)
            for name in [name for name, each in self._waiting.items() if each is registration]:
                del self._waiting[name]
            for made in self._unregister(registration, names):
                self._drop(made)

    def _take_away(self, full_name: str) -> None:
        namespace, _, name = full_name.partition("::")
        _torch.remove_owner(namespace, name)
        forget_attribute(namespace, name)
        del self._owners[full_name]

    def _unregister(self, registration: Registration, names: list[str]) -> list[Registration]:
        namespace = registration.name.partition("::")[0]
        scheduling = registration.scheduling
        lost = _Lost(
            registration.definition.text,
            namespace,
            scheduling if scheduling.text is None else sys.intern(scheduling.text),
            registration.made_by[0],
            registration.is_public,
        )
        for name in names:
            del self._by_name[name]
            self._lost[name] = lost
        del self._registrations[registration.key]
        return registration.unregister()

    def restore(self, full_name: str) -> bool:
        """Makes the operator behind a name again, where it has left the dispatcher."""
        if full_name not in self._lost:
            full_name = full_name.removesuffix(_torch.derived_name(""))  # comes with the other one
        if full_name not in self._lost:
            return False
        with self.lock:
            lost = self._lost.get(full_name)
            if lost is None:
                return True  # by another thread
            definition = _torch.parse(lost.text).definitions[0]
            scheduling = lost.scheduling()
            key = _key(lost.namespace, definition, scheduling)
            made = self._registrations.get(key)
            if made is None:
                made = self._register(definition, lost.namespace, scheduling, key)
            options = scheduling.given()
            again = options if callable(options) else {definition.name: options}
            given = (lost.text, again if lost.is_public else {}, lost.namespace, lost.is_public)
            made.made_by, made.is_public = (lost.make, given), lost.is_public
            # Who looks it up may go on to do so.
            made.is_pinned = True
            if lost.is_public:
                made.allow_keeping()
            if full_name != made.name:
                self._give(full_name, made)
        return True

    def add_former_name(self, operator: Operator, name: str) -> None:
        """Registers an operator also by a name that another version gave it, once."""
        registration = operator.registration
        namespace = registration.name.partition("::")[0]
        with self.lock:
            if not _torch.is_registered(namespace, name):
                registration.register_former(namespace, name)
                self._by_name[f"{namespace}::{name}"] = registration
                self._former_names.add(f"{namespace}::{name}")
        self._settle()


#: The operators of this process.
registry = Registry()


def _key(namespace: str, definition: _torch.Definition, scheduling: Scheduling) -> tuple[Any, ...]:
    return (namespace, definition.name, definition.text, *scheduling.identity)


def _name_of_contents(definition: _torch.Definition, namespace: str, scheduling: Scheduling) -> str:
    # Factories may look alike from outside, as those that one function has made.
    for count in itertools.count(1):
        name = _torch.name_of_contents(definition, scheduling.description, count)
        if not _torch.is_registered(namespace, name):
            break
    return name
