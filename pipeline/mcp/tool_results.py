"""Results of ``tools/call`` that say of a failure of ours what a server says of its own."""

from __future__ import annotations

from typing import Final

from returns.result import Failure

from ..call import Outcome
from ..errors import ToolError
from ..messages import render
from .jsonrpc import Message

KIND: Final = "toolcall/kind"  # in the `_meta` of a result that the server did not make


def make_error_result(error: ToolError, *, complete: bool) -> Message:
    """The result that tells a client of a failure of ours, as a tool tells of its own.

    Args:
        error: What happened.
        complete: Whether to say ``resultType: "complete"``, as the versions without a handshake demand (from 2026).
    """
    outcome: Outcome = Failure(error)
    result: Message = {
        "content": [{"type": "text", "text": str(render(outcome))}],
        "isError": True,
        "_meta": {KIND: error.kind},
    }
    return {"resultType": "complete", **result} if complete else result
