"""Identity: whether two calls ask for the same thing, however a model wrote them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

import attrs

from ..call import Call, ResolvedCall, ValidCall
from ..compose.pipeline import Pipeline
from ..messages.changes import canonical_arguments
from ..messages.values import as_text
from ..tools.definition import Tool

_AS_THEY_ARE = (date, time, timedelta, UUID, PurePath)  # equal by value, and immutable
_UNKNOWN = "unknown"  # params that raise when they are looked into
_NOT_STATE = frozenset(("__dict__", "__weakref__", "__pydantic_fields_set__"))  # the last: which defaults were sent


@attrs.frozen
class Identity:
    """The identity of a call: its tool and its params, as they were when this was made.

    Args:
        tool: The name of the tool.
        params: The validated params in one form. None: the call was not validated.
        is_complete: Whether all params show what to compare; an object without fields and equality does not.
        written: The arguments as the model wrote them, in one form. None: they are not JSON.
    """

    tool: str
    params: Hashable | None
    is_complete: bool
    written: str | None

    def is_same(self, other: Identity) -> bool | None:
        """Whether both ask for the same; None if that cannot be known."""
        if self.tool != other.tool:
            return False
        if self.params is not None and other.params is not None:
            if self.params != other.params and _UNKNOWN not in (self.params, other.params):
                return False
            if self.is_complete and other.is_complete:
                return True
            return True if self.written is not None and self.written == other.written else None
        return None if self.written is None or other.written is None else self.written == other.written


def identify(call: Call) -> Identity:
    """The identity of a call in the phase that it has reached, with as much as that phase knows."""
    tool: Tool[..., Any] | None = getattr(call, "tool", None)
    given: Any = getattr(call, "params", None)
    name: Any = call.name if tool is None else tool.name
    params: Hashable | None = None
    normaliser = _Normaliser()
    if isinstance(given, Mapping):
        try:
            params = normaliser.normalise(_with_defaults(cast("Mapping[str, Any]", given), tool))
        except Exception:  # noqa: BLE001  # an object of the tool's own may raise anything when it is looked into
            params, normaliser.is_complete = _UNKNOWN, False
    name = name if type(name) is str else as_text(name)
    return Identity(name, params, normaliser.is_complete, canonical_arguments(call.arguments))


def check(pipeline: Pipeline, call: Call) -> Call:
    """The call in the phase to which the checks for name and arguments bring it. Nothing runs.

    Args:
        pipeline: The pipeline that the call is for.
        call: The call as the model wrote it.

    Returns:
        A ValidCall, a ResolvedCall whose arguments are not valid, or the call itself if it has no tool. If these checks
        stand inside of a middleware, or are not from the standard stack, less is known.
    """
    try:
        found = pipeline.resolve(call)
        if not isinstance(found, ResolvedCall):
            return call
        for stage in pipeline.entries:
            if stage.role == "check" and stage.placement.kind == "validate":
                valid = stage.run(found)
                return valid if isinstance(valid, ValidCall) else found
    except Exception:  # noqa: BLE001  # a bug in a user's check; the call itself will report it
        return call
    return found


def _with_defaults(params: Mapping[str, Any], tool: Tool[..., Any] | None) -> dict[str, Any]:
    """The params with the defaults that the schema declares: a default that a model adds makes no other call."""
    schema: Any = {} if tool is None else tool.parameters.schema
    properties: Any = cast("Any", schema).get("properties") if isinstance(schema, Mapping) else None
    known = cast("dict[str, Any]", properties) if isinstance(properties, Mapping) else {}
    defaults: dict[str, Any] = {
        name: cast("Any", each)["default"]
        for name, each in known.items()
        if isinstance(each, Mapping) and "default" in each
    }
    return {**defaults, **params}


class _Normaliser:
    """Makes of a value a hashable one that is equal for what means the same: 7 and 7.0, two objects with equal fields.

    The result is a copy, since a tool may change what it was given.
    """

    def __init__(self) -> None:
        self.is_complete = True  # False: a value showed nothing to compare, and only its type is in the result

    def normalise(self, value: Any) -> Hashable:  # noqa: C901  # a table of types
        if value is None or isinstance(value, Enum):
            return cast("Hashable", value)
        if isinstance(value, bool):  # by value True is 1
            return "boolean", value
        if isinstance(value, (int, float, Decimal, Fraction)):
            return "number", "nan" if math.isnan(value) else value
        if isinstance(value, str):
            return str.__str__(value)  # a subclass may compare as it likes
        if isinstance(value, (bytes, bytearray)):
            return bytes(value)
        if isinstance(value, _AS_THEY_ARE):
            return type(value), value
        if isinstance(value, Mapping):
            pairs = cast("Mapping[Any, Any]", value).items()
            return "mapping", frozenset((self.normalise(key), self.normalise(each)) for key, each in pairs)
        if isinstance(value, AbstractSet):
            return "set", frozenset(map(self.normalise, cast("AbstractSet[Any]", value)))
        if isinstance(value, Sequence):
            return "sequence", tuple(map(self.normalise, cast("Sequence[Any]", value)))
        kind = cast("type[Any]", type(value))
        if state := _state_of(value):
            return kind, self.normalise(state)
        own: list[Any] = [getattr(kind, name) for name in ("__eq__", "__hash__")]
        if own[0] is not object.__eq__ and own[1] is not None:  # compared by its value
            return kind, cast("Hashable", value)
        self.is_complete = False
        return cast("Hashable", kind)


def _state_of(value: object) -> dict[str, Any]:
    state: dict[str, Any] = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots: Any = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in _NOT_STATE and hasattr(value, name):
                state[name] = getattr(value, name)
    return {} if callable(value) else state
