"""StateKey: the name and type of what one stage of a pipeline hands to those inside of it, and to the tool.

Beside it stand the context variables that calls are told by.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Generic, TypeAlias, TypeVar, cast

import attrs

from ..base.setup_error import SetupError

S = TypeVar("S")

REQUIRED: Any = object()  # stands for a default that was not given; None is a default


def _check_name(key: Any, attribute: Any, name: Any) -> None:
    del key, attribute
    if not isinstance(name, str) or not name:
        raise SetupError(f"StateKey: `name` must be a text that is not empty, not {name!r}")


@attrs.frozen
class StateKey(Generic[S]):
    """A key for `Call.with_state` and `Call.get_state`: ``TENANT = StateKey[Tenant]("tenant")``.

    The type checkers take the type of the value from the key; at run time it is not checked. Two keys of one name are
    the same key, so that a key is known in another process: a library takes its own name as a prefix.

    Args:
        name: Its name in error texts, not empty.

    Raises:
        SetupError: The name is not a text, or empty.
    """

    name: str = attrs.field(validator=_check_name)


State: TypeAlias = Mapping[StateKey[Any], object]
# Not a field of its own: a call that has nothing of it, as most, would pay for the field in each phase.
WIRE: StateKey[Mapping[str, Any]] = StateKey("toolcall-pipeline.wire")
TURN: StateKey[str] = StateKey("toolcall-pipeline.turn")  # of calls that `gather` runs together, without a reply
# Of a call that a tool makes: the delivery of the tool's own call, and what the call is in it. "": that has no id.
WITHIN: StateKey[str] = StateKey("toolcall-pipeline.within")
# The conversation of all calls in a block, for those that name none; `telemetry.agent` sets it.
CURRENT_CONVERSATION: ContextVar[str] = ContextVar("toolcall_conversation", default="")
# Set by `gather` around several calls: those whose reply has no id came together as well.
BATCH: ContextVar[object] = ContextVar("toolcall_batch", default=None)


@attrs.frozen
class LeftBehind:
    """Stands in a worker process for a value that did not get there."""

    reason: str


def add_state(state: State | None, key: StateKey[S], value: S) -> State:
    """The state with one more value. The other copies of the call keep theirs."""
    return {**(state or {}), _check_key(key): value}


def read_state(state: State | None, key: StateKey[S], default: S) -> S:
    """The value under the key, or the default; see `Call.get_state`.

    Raises:
        SetupError: The value is missing and the default is `REQUIRED`, or the value was left behind, or the key is no
            `StateKey`.
    """
    found: Any = default if state is None else state.get(_check_key(key), default)
    if found is REQUIRED:
        name = _check_key(key).name
        raise SetupError(f"the call has no state {name!r}: a stage outside of here must set it, with call.with_state()")
    if type(found) is LeftBehind:
        raise SetupError(f"the state {key.name!r} did not get to this process: {found.reason}")
    return cast("S", found)


def _check_key(key: Any) -> StateKey[Any]:
    if not isinstance(key, StateKey):
        # Its type alone: it may be the value, where a caller mixed the two up, and a value is in no log.
        raise SetupError(f"the key of a state must be a StateKey, not a value of type {type(key).__name__}")
    return cast("StateKey[Any]", key)
