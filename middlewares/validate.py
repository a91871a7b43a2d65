"""Validate: the arguments as the model sent them -> params, or all that is wrong with them at once."""

from __future__ import annotations

from typing import cast

import attrs
from returns.result import Failure

from pipeline import InvalidParams, MalformedCall, ResolvedCall, ValidCall

_CUT_OFF = MalformedCall("the provider stopped at its length limit", truncated=True)


@attrs.frozen
class Validate:
    """Takes a mapping, JSON text, empty text or None, by the tool's own schema."""

    def __call__(self, call: ResolvedCall) -> ValidCall | Failure[MalformedCall | InvalidParams]:
        """The call with its params. A call that was cut off is refused even if what is left of it parses."""
        if call.finish_reason == "length":
            return Failure(_CUT_OFF)
        params = call.tool.parse(call.arguments)
        if type(params) is dict:
            return call.validated(params)
        return Failure(cast("InvalidParams | MalformedCall", params))
