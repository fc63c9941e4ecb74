"""Locks when a process forks: the child gets them free, and what they guard complete.

A child has only the thread that forked. What another one was about to define at that moment is
waited for, since nobody would go on with it there.
"""

from __future__ import annotations

import os
import threading

from tensor_comprehensions._pairs import Pair
from tensor_comprehensions._registration import Registration
from tensor_comprehensions._registry import registry

#: Of an equation that looks at its tables.
looking = threading.Lock()

#: In the order in which one is taken inside another.
_LOCKS = (looking, Pair.lock, registry.lock, Registration.making)


def _acquire() -> None:
    for lock in _LOCKS:
        lock.acquire()


def _release() -> None:
    for lock in reversed(_LOCKS):
        lock.release()


os.register_at_fork(before=_acquire, after_in_parent=_release, after_in_child=_release)
