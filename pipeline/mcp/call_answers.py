"""What a server answers to a call, as the value of a tool or as an error of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from returns.result import Failure

from ..errors import ExecutionFailed, TimedOut, ToolError, Transient
from ..messages.mcp_content import read_mcp
from ..messages.values import elide_middle
from ..privacy import PublicText, approved
from ..tools.detectors import ReturnedError, TextPolicy
from .server_session import Answer, InvalidAnswerError, RequestRefusedError, SessionLostError

_KIND: Final = "toolcall/kind"  # in the `_meta` of a result that `toolcall` made
_REQUEST_TIMEOUT: Final = -32001  # of the package mcp
_MAX_TEXT: Final = 8_000  # characters of an error


def read_answer(answer: Answer, text: TextPolicy, *, structured: bool, trusted: bool) -> object:
    """The value of a result, or a Failure if it has ``isError``.

    The value is the structured one if the tool declared an output schema and the content holds text alone; else the
    content: a text as it is, one part, or a list of parts.

    Args:
        answer: The result, as it came.
        text: What becomes of the text of an error, see `ReturnedError`.
        structured: Whether the tool declared an output schema.
        trusted: Whether the kind that a server of ours names is believed.
    """
    if answer.get("isError") is True:
        return Failure(_read_error(answer, text, trusted=trusted))
    read = read_mcp(answer)
    if read is None:
        return answer.get("structuredContent")
    if structured and read.structured is not None and all(isinstance(part, str) for part in read.parts):
        return read.structured
    return read.parts[0] if len(read.parts) == 1 else read.parts


def read_exception(exc: Exception, text: TextPolicy) -> Failure[ToolError]:
    """The failure that stands for what a session raised."""
    match exc:
        case SessionLostError():
            return Failure(Transient(exc, landed=exc.landed))
        case RequestRefusedError(code=code) if code == _REQUEST_TIMEOUT:
            return Failure(TimedOut(landed="maybe", cause=exc))
        case RequestRefusedError():
            return Failure(ExecutionFailed(_publish(exc.message, text), cause=exc))
        case InvalidAnswerError():
            told = approved("The result of the tool does not have the form that it declares.")
            return Failure(ExecutionFailed(told, cause=exc))
        case _:
            raise exc


def _read_error(answer: Answer, text: TextPolicy, *, trusted: bool) -> ToolError:
    structured, meta = answer.get("structuredContent"), answer.get("_meta")
    said: dict[str, Any] = dict(cast("Mapping[str, Any]", structured)) if isinstance(structured, Mapping) else {}
    kind = cast("Mapping[str, Any]", meta).get(_KIND) if trusted and isinstance(meta, Mapping) else None
    if kind == "outcome_unknown":  # Classify says so again if the tool is mutating
        return Transient(None, landed="maybe")
    named = {"errorType": kind} if isinstance(kind, str) else {}
    found = ReturnedError(text=text)({**said, **named, "isError": True, "content": answer.get("content")})
    return ExecutionFailed() if found is None else found


def _publish(message: str, policy: TextPolicy) -> PublicText:
    if policy == "hide":
        return PublicText("")
    message = elide_middle(message, _MAX_TEXT)
    if policy == "scrub":
        from ..messages.scrub import scrub  # 3 ms

        message = scrub(message)
    return approved(message)
