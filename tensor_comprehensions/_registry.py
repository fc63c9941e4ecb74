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
from typing import Any

from tensor_comprehensions import _torch
from tensor_comprehensions._errors import TCError
from tensor_comprehensions._operator import Operator
from tensor_comprehensions._options import Scheduling
from tensor_comprehensions._parameters import plural
from tensor_comprehensions._registration import Registration

logger = logging.getLogger("tensor_comprehensions")

#: Of a schema in PyTorch's dispatcher.
_MOST_ARGUMENTS = 64
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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


class Registry:
    """Operators of this process: names in torch.ops are for ever.

    What users hold of them is not: where nobody holds the definition that has its plain name in
    torch.ops any more, that becomes the one that was defined last.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._registrations: dict[tuple[Any, ...], Registration] = {}
        self._by_name: dict[str, Registration] = {}  # "namespace::name" in the dispatcher
        self._owners: dict[str, Registration] = {}  # "namespace::name" -> what runs under it
        #: What was defined last under a name that another definition has, and still uses.
        self._waiting: dict[str, Registration] = {}
        self._former_names: set[str] = set()
        self._released: deque[Registration] = deque()

    def find(self, full_name: str) -> Operator | None:
        """The operator behind a name of torch.ops, as ``tc::f`` or ``tc::f__<digits>``."""
        with self._lock:
            found = self._by_name.get(full_name)
        self._settle()
        return found.handle() if found is not None else None

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
        key = (namespace, definition.name, definition.text, *scheduling.identity)
        try:
            with self._lock:
                known = self._registrations.get(key)
                if public:
                    self.check_free(namespace, name)
                if known is None:
                    known = self._register(definition, namespace, scheduling)
                    self._registrations[key] = known
                    self._by_name[known.name] = known
                known.made_by = made_by
                operator = known.hand_over()
                if public:
                    known.is_public = True
                    known.allow_keeping()
                    self._claim(namespace, name, known, replace)
        finally:
            self._settle()
        return operator

    def _register(
        self, definition: _torch.Definition, namespace: str, scheduling: Scheduling
    ) -> Registration:
        inputs, outputs = len(definition.inputs), len(definition.outputs)
        if inputs + outputs > _MOST_ARGUMENTS:
            raise TCError(
                f"{definition.name} has {plural(inputs, 'input')} and {plural(outputs, 'output')}, "
                f"but an operator of PyTorch has at most {_MOST_ARGUMENTS} of both together; join "
                f"some of them in one tensor"
            )
        operator = _torch.Operator(definition, scheduling.chooser(definition.name))
        made = Registration(definition, operator, scheduling, self._release)
        made.register(namespace, _name_of_contents(definition, namespace, scheduling))
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
        while self._released and self._lock.acquire(blocking=False):
            try:
                while self._released:
                    released = self._released.popleft()
                    for full_name, waiting in list(self._waiting.items()):
                        if self._owners[full_name] is released and not released.is_held():
                            if waiting.is_held():
                                self._give(full_name, waiting)
                            else:
                                del self._waiting[full_name]
            finally:
                self._lock.release()

    def add_former_name(self, operator: Operator, name: str) -> None:
        """Registers an operator also by a name that another version gave it, once."""
        registration = operator.registration
        namespace = registration.name.partition("::")[0]
        with self._lock:
            if not _torch.is_registered(namespace, name):
                registration.register_former(namespace, name)
                self._by_name[f"{namespace}::{name}"] = registration
                self._former_names.add(f"{namespace}::{name}")
        self._settle()


def _name_of_contents(definition: _torch.Definition, namespace: str, scheduling: Scheduling) -> str:
    # Factories may look alike from outside, as those that one function has made.
    for count in itertools.count(1):
        name = _torch.name_of_contents(definition, scheduling.description, count)
        if not _torch.is_registered(namespace, name):
            break
    return name
