"""Identity: whether two calls of a turn ask for the same thing, however a model wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs

from ..engine.call import Call, ResolvedCall, ValidCall
from ..engine.compose.pipeline import Pipeline
from ..messages.values import as_text
from ..once import join_digest, read_asked, write_arguments
from ..parameters import read_arguments
from ..tools.definition import Tool


@attrs.frozen
class Identity:
    """The identity of a call: its tool and its params, as they were when this was made.

    Args:
        tool: The name of the tool.
        params: The strict digest of the validated params. None: the call was not validated. "": they have no form.
        written: The digest of the arguments as the model wrote them. None: they are not an object.
    """

    tool: str
    params: str | None
    written: str | None

    def is_same(self, other: Identity) -> bool | None:
        """Whether both ask for the same, strictly; None if that cannot be known."""
        if self.tool != other.tool:
            return False
        if self.params and other.params:
            return self.params == other.params
        if self.written is None or other.written is None:
            return None
        return True if self.written == other.written else None if "" in (self.params, other.params) else False


def identify(call: Call) -> Identity:
    """The identity of a call in the phase that it has reached, with as much as that phase knows."""
    tool: Tool[..., Any] | None = getattr(call, "tool", None)
    given: Any = getattr(call, "params", None)
    name: Any = call.name if tool is None else tool.name
    written = None if read_arguments(call.arguments) is None else write_arguments(call)
    params: str | None = None
    if tool is not None and isinstance(given, Mapping):
        form = read_asked(cast("Any", call), cast("Mapping[str, object]", given), written or "").strict
        params = form and join_digest(form)
    as_written = None if written is None else join_digest(written)
    return Identity(name if type(name) is str else as_text(name), params, as_written)


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
