"""After a fork: the child gets fresh locks, because the threads that may hold the old ones exist in the parent only."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import MethodType
from typing import Any, cast
from weakref import WeakKeyDictionary

_functions: WeakKeyDictionary[object, Callable[[Any], object]] = WeakKeyDictionary()  # by the object to call it with


def register_after_fork(method: Callable[[], object]) -> None:
    """Call a method in every child that is forked from this process, for as long as its object lives.

    The child has no other thread than the one that forked. A lock that another thread held at that moment would never
    be released there, and what it protects may be half changed: the method replaces the one and mends the other.

    Args:
        method: A bound method without arguments, which must not raise. Its object is held weakly, and has one such
            method: a second one replaces the first.
    """
    bound = cast("MethodType", method)
    _functions[bound.__self__] = bound.__func__


def _call_in_child() -> None:
    for owner, function in list(_functions.items()):  # no lock of its own: adding to a dict is atomic
        function(owner)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_call_in_child)
