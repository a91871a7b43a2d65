"""After a fork: the child gets fresh locks, because the threads that may hold the old ones exist in the parent only."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from weakref import WeakMethod

_methods: set[WeakMethod[Callable[[], Any]]] = set()


def register_after_fork(method: Callable[[], object]) -> None:
    """Call a method in every child that is forked from this process, for as long as its object lives.

    The child has no other thread than the one that forked. A lock that another thread held at that moment would never
    be released there, and what it protects may be half changed: the method replaces the one and mends the other.

    Args:
        method: A bound method without arguments, which must not raise. Its object is held weakly.
    """
    _methods.add(WeakMethod(method, _methods.discard))


def _call_in_child() -> None:
    for reference in list(_methods):  # adding and copying are atomic, so this needs no lock of its own
        if (method := reference()) is not None:
            method()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_call_in_child)
