"""Keys by which the stages of a process keep callers apart."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import Any, Literal, TypeAlias, cast

from ..engine.call import ResolvedCall
from ..engine.call_state import TURN
from ..once import NotPlainError
from ..once.digests import write_strict

Part: TypeAlias = Literal["conversation", "principal", "tool", "turn"]
Key: TypeAlias = Callable[[ResolvedCall], Hashable] | Literal["principal", "conversation"] | None

KEYS = '"principal", "conversation" or'  # what a SetupError names beside a function
# By what shares a limit. The principal is the partition: no limit but a user's own is shared by two of them.
PARTS: dict[str, Callable[[ResolvedCall], Hashable]] = {
    "conversation": attrgetter("principal", "conversation"),
    "principal": attrgetter("principal"),
    "tool": attrgetter("principal", "tool.name"),
    "turn": lambda call: (call.principal, call.conversation, call.reply or call.get_state(TURN, "")),
}


def read_key(key: Key) -> Callable[[ResolvedCall], Hashable] | None:
    """The function of the option ``key=``: also the name of what shares a limit."""
    return PARTS[key] if isinstance(key, str) and key in ("principal", "conversation") else cast("Any", key)


def find_partition(call: ResolvedCall, key: Callable[[Any], Hashable] | None) -> Hashable:
    """Equal for calls that share a limit: by tool and principal, or by what a user's function says."""
    if key is not None:
        return as_given(key(call))
    who: object = call.principal
    if type(who) is not str:
        return (call.tool.name, as_given(who))  # any value that is none of the type is kept apart, too
    return (call.tool.name, who) if who else call.tool.name  # the hash of a str is cached


def as_given(key: Hashable) -> Hashable:
    """A key that is equal for strictly equal ones alone, as in a store: 1, 1.0 and True are three keys.

    A value that has no form goes by its own equality.
    """
    if key is None or type(key) is str:
        return key
    try:
        return (write_strict(key),)  # no text, which stands for itself
    except NotPlainError:
        return key
