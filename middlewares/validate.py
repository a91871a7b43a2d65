"""Validate: the arguments as the model sent them -> params, or all that is wrong with them at once."""

from __future__ import annotations

from typing import cast

import attrs
from returns.result import Failure

from pipeline import InvalidParams, MalformedCall, ResolvedCall, ValidCall

_WITHHELD = MalformedCall("the provider withheld the rest of this reply")
_STOPPED = {  # finish reasons that say that a call may not be whole; all else ended as it should
    "length": MalformedCall("the provider stopped at its length limit", truncated=True),
    "content_filter": _WITHHELD,
    "refusal": _WITHHELD,
}


@attrs.frozen
class Validate:
    """Takes a mapping, JSON text, empty text or None, by the tool's own schema."""

    def __call__(self, call: ResolvedCall) -> ValidCall | Failure[MalformedCall | InvalidParams]:
        """The call with its params. What was cut off or withheld is refused even if what is left parses."""
        if call.finish_reason is not None and (stopped := _STOPPED.get(call.finish_reason)) is not None:
            return Failure(stopped)
        params = call.tool.parse(call.arguments)
        if type(params) is dict:
            return call.validated(params)
        return Failure(cast("InvalidParams | MalformedCall", params))
