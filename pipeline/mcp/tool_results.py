"""What a server answers to ``tools/call``, told as a value or as a kind of error, and the way back."""

from __future__ import annotations

from typing import Any, Final

from returns.result import Failure

from ..call import Outcome
from ..errors import ExecutionFailed, ToolError
from ..messages import render
from ..messages.mcp_content import read_mcp
from ..privacy import approved
from .jsonrpc import Message, is_message

KIND: Final = "toolcall/kind"  # in the `_meta` of a result that the server did not make


def read_failure(answer: Message, cause: Exception | None = None) -> ExecutionFailed | None:
    """The failure that an answer tells of: a result with ``isError``, or an error of JSON-RPC; None: it succeeded.

    Args:
        answer: The whole answer, as it came.
        cause: Kept as the private cause of the failure. Default None: none.
    """
    result: Any = answer.get("result")
    if is_message(result):
        return ExecutionFailed(approved(_read_text(result)), cause=cause) if result.get("isError") is True else None
    error: Any = answer.get("error")
    text: Any = error.get("message") if is_message(error) else None
    return ExecutionFailed(approved(text if isinstance(text, str) else ""), cause=cause)


def _read_text(result: Message) -> str:
    read = read_mcp(result)
    return "\n".join(part for part in read.parts if isinstance(part, str)) if read is not None else ""


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
