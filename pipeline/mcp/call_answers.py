"""The answer of a server to a call: as the value of a tool, as an error of ours, or only whether it failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from returns.result import Failure

from ..engine.errors import ExecutionFailed, TimedOut, ToolError, Transient, Unavailable
from ..messages.parts import Part
from ..messages.result_parts import McpResult, read_mcp
from ..messages.values import elide_middle
from ..privacy import PublicText, approved
from ..tools.detectors import ReturnedError, TextPolicy
from .jsonrpc import Message, is_message
from .result_blocks import KIND
from .server_session import Answer, InvalidAnswerError, RequestRefusedError, SessionLostError

_REQUEST_TIMEOUT: Final = -32001  # of the package mcp
_MAX_TEXT: Final = 8_000  # characters of an error


class StructuredParts(list[Part]):
    """The parts of a result that has a structured value besides, so that neither is lost.

    `read_mcp` reads it as it reads the results of the package ``mcp``: by its attributes.
    """

    is_error: Final = False

    def __init__(self, answer: Answer, read: McpResult) -> None:
        super().__init__(read.parts)
        self.content: list[Any] = answer["content"]
        self.structured_content = read.structured

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ({"content": self.content}, McpResult(list(self), self.structured_content, is_error=False))


def read_answer(answer: Answer, text: TextPolicy, *, structured: bool, trusted: bool) -> object:
    """The value of a result, or a Failure if it has ``isError``.

    The value is the structured one if the tool declared an output schema and the content holds text alone; else the
    content: a text as it is, one part, or a list of parts, which knows the structured value as well if there is one.
    """
    if _is_failure(answer):
        return Failure(_read_error(answer, text, trusted=trusted))
    read = read_mcp(answer)
    if read is None:
        return answer.get("structuredContent")
    if structured and read.structured is not None:
        return read.structured if all(isinstance(part, str) for part in read.parts) else StructuredParts(answer, read)
    return read.parts[0] if len(read.parts) == 1 else read.parts


def read_reply(reply: Message, cause: Exception) -> ExecutionFailed | None:
    """Return the failure in a reply of JSON-RPC, in the server's words and of one kind; None: it succeeded.

    A relay passes on what the server says of a failure, so it reads no more than that there is one.
    """
    result: Any = reply.get("result")
    if not is_message(result):
        error: Any = reply.get("error")
        text: Any = error.get("message") if is_message(error) else None
        return ExecutionFailed(approved(text if isinstance(text, str) else ""), cause=cause)
    if not _is_failure(result):
        return None
    read = read_mcp(result)
    texts = [part for part in read.parts if isinstance(part, str)] if read is not None else []
    return ExecutionFailed(approved("\n".join(texts)), cause=cause)


def _is_failure(answer: Answer) -> bool:
    return answer.get("isError") is True


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
    kind = cast("Mapping[str, Any]", meta).get(KIND) if trusted and isinstance(meta, Mapping) else None
    if kind == "outcome_unknown":  # Classify says so again if the tool is mutating
        return Transient(None, landed="maybe")
    named = {"errorType": kind} if isinstance(kind, str) else {}
    found = ReturnedError(text=text)({**said, **named, "isError": True, "content": answer.get("content")})
    if kind == "unavailable" and isinstance(found, Unavailable):  # of a pipeline, which would say if a body had begun
        return found.changed(body_landed="no")
    return ExecutionFailed() if found is None else found


def _publish(message: str, policy: TextPolicy) -> PublicText:
    if policy == "hide":
        return PublicText("")
    message = elide_middle(message, _MAX_TEXT)
    if policy == "scrub":
        from ..privacy import scrub  # 3 ms

        message = scrub(message)
    return approved(message)
