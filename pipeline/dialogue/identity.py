"""Identity: whether two calls of a turn ask for the same thing, however a model wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs

from ..engine.call import Call, ResolvedCall, ValidCall
from ..engine.compose.pipeline import Pipeline
from ..identity import NotPlainError, params_digest, written_digest
from ..messages.values import as_text
from ..parameters import read_arguments
from ..tools.definition import Tool


@attrs.frozen
class Identity:
    """The identity of a call: its tool and its params, as they were when this was made.

    Args:
        tool: The name of the tool.
        params: The digest of the validated params. None: the call was not validated, or they show nothing to compare.
        is_complete: Whether the params show what to compare; an object without fields and equality does not.
        written: The digest of the arguments as the model wrote them. None: they are not an object.
    """

    tool: str
    params: str | None
    is_complete: bool
    written: str | None

    def is_same(self, other: Identity) -> bool | None:
        """Whether both ask for the same; None if that cannot be known."""
        if self.tool != other.tool:
            return False
        if self.params is not None and other.params is not None:
            return self.params == other.params
        same = self.written == other.written
        if self.written is None or other.written is None or not (same or (self.is_complete and other.is_complete)):
            return None
        return same


def identify(call: Call) -> Identity:
    """The identity of a call in the phase that it has reached, with as much as that phase knows."""
    tool: Tool[..., Any] | None = getattr(call, "tool", None)
    given: Any = getattr(call, "params", None)
    name: Any = call.name if tool is None else tool.name
    params, is_complete = None, True
    if tool is not None and isinstance(given, Mapping):
        try:
            params = params_digest(tool, cast("Mapping[str, object]", given))
        except NotPlainError:
            is_complete = False
    written = None if read_arguments(call.arguments) is None else written_digest(call)
    return Identity(name if type(name) is str else as_text(name), params, is_complete, written)


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
        valid = pipeline.validate(found)
    except Exception:  # noqa: BLE001  # a bug in a user's check; the call itself will report it
        return call
    return valid if isinstance(valid, ValidCall) else found
