"""Classify: what a tool's failure means. Inside of Retry, which looks at nothing else."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, cast

import attrs
from returns.result import Failure

from pipeline import (
    Crashed,
    Denied,
    ExecutionFailed,
    Handler,
    InvalidParams,
    NeedsSetup,
    NeedsUserInput,
    Outcome,
    Placement,
    Problem,
    PublicText,
    ResolvedCall,
    ResourceNotFound,
    TimedOut,
    Tool,
    ToolError,
    ToolFailed,
    Transient,
    Unavailable,
    approved,
)

R = TypeVar("R", bound=ResolvedCall)
_LATER = frozenset((408, 425, 429))  # and 5xx: RFC 9110 section 15, RFC 8470, RFC 6585


@attrs.frozen
class Classify:
    """Reads what Execute caught, by the table of exceptions; everything it has no word for stays a crash."""

    placement: ClassVar[Placement] = Placement(
        marks=True,
        kind="classify",
        reason="inside of retry, which reads its verdict",
        inside_of={
            "retry": "Retry repeats by the kind that Classify finds, and would see nothing but crashes",
            "circuit_breaker": "CircuitBreaker counts by the kind that Classify finds, and would see nothing but crashes",
        },
    )

    clock: Callable[[], float] = attrs.field(default=time.time, repr=False)  # for a Retry-After that is a date

    async def __call__(self, call: R, call_next: Handler[R]) -> Outcome:
        """The outcome as it is, or the failure under its kind."""
        outcome = await call_next(call)
        if type(outcome) is Failure:
            error: ToolError = outcome.failure()
            if type(error) is Crashed and error.cause is not None:
                read = self._read(error.cause, call.tool)
                return outcome if read is None else Failure(read)
        return outcome

    def _read(self, exc: BaseException, tool: Tool[..., Any]) -> ToolError | None:
        while isinstance(exc, BaseExceptionGroup):
            first, *others = cast("BaseExceptionGroup[BaseException]", exc).exceptions
            if others:
                return None
            exc = first  # a task group wraps even a single failure
        if isinstance(exc, ToolFailed):
            return _as_its_author_says(exc, tool)
        words = _text(exc) if tool.reveal and isinstance(exc, tool.reveal) else approved("")
        if isinstance(exc, OSError):
            if isinstance(exc, (ConnectionError, socket.gaierror)):
                return Transient(exc)
            if isinstance(exc, TimeoutError):
                return TimedOut(cause=exc)
            if isinstance(exc, PermissionError):
                return Denied(tool.name, words, cause=exc)
            if isinstance(exc, FileNotFoundError):
                return ResourceNotFound(words, cause=exc)
        status, headers = _status(exc)
        if status is not None and (read := self._by_status(status, headers, exc, tool, words)) is not None:
            return read
        return ExecutionFailed(words, cause=exc) if tool.reveal and isinstance(exc, tool.reveal) else None

    def _by_status(
        self, status: int, headers: Any, exc: BaseException, tool: Tool[..., Any], words: PublicText
    ) -> ToolError | None:
        if status == 401:  # noqa: PLR2004
            return NeedsSetup(approved(tool.name), words, cause=exc)
        if status == 403:  # noqa: PLR2004
            return Denied(tool.name, words, cause=exc)
        if status in (404, 410):
            return ResourceNotFound(words, cause=exc)
        if status in _LATER or 500 <= status <= 599:  # noqa: PLR2004
            return Transient(exc, retry_after(headers, self.clock))
        if 400 <= status <= 499:  # noqa: PLR2004
            return ExecutionFailed(words, cause=exc)
        return None


def _as_its_author_says(failed: ToolFailed, tool: Tool[..., Any]) -> ToolError:
    message, details, kind = _text(failed), failed.details, failed.kind  # it is the cause: it knows whether it landed
    match kind:
        case "not_found":
            return ResourceNotFound(message, details, cause=failed)
        case "permission":
            return Denied(tool.name, message, cause=failed)
        case "configuration":
            return NeedsSetup(approved(tool.name), message, cause=failed)
        case "needs_input":
            return NeedsUserInput(message, details.parameter)
        case "validation":
            return InvalidParams((Problem(details.parameter or "", "validator", message),))
        case "unavailable":
            return Unavailable(tool.name, "busy", failed.retry_after)
        case "timeout":
            return TimedOut(landed=failed.landed, cause=failed)
        case "transient":
            return Transient(failed, failed.retry_after, failed.landed)
        case _:
            return ExecutionFailed(message, details, cause=failed)


def _text(exc: BaseException) -> PublicText:
    """Its own text: asked for only where the tool's author declared that a model may see that."""
    try:
        if type(exc).__module__.startswith("pydantic") and callable(errors := getattr(exc, "errors", None)):
            # Its own text has its author's class names and a link to pydantic's pages: nobody approved of those.
            told: Any = errors(include_url=False, include_context=False, include_input=False)
            return approved("; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in told))
        return approved(str(exc))
    except Exception:  # noqa: BLE001  # an exception's own __str__ may raise anything
        return approved("")


def _status(exc: BaseException) -> tuple[int | None, Any]:
    """An HTTP status and its headers, as httpx, requests, openai and anthropic carry them; else None."""
    try:
        response: Any = getattr(exc, "response", None)
        holder: Any = exc if getattr(response, "status_code", None) is None else response
        status: Any = getattr(holder, "status_code", None)
        if not isinstance(status, int) or isinstance(status, bool):  # an HTTPStatus is an int too
            return None, None
        return int(status), getattr(holder, "headers", None)
    except Exception:  # noqa: BLE001  # a foreign property may raise anything
        return None, None


def retry_after(headers: Any, clock: Callable[[], float]) -> float | None:
    """Seconds to wait by a ``Retry-After`` header, a number of seconds or a date (RFC 9110 section 10.2.3)."""
    from email.utils import parsedate_to_datetime  # 6 ms

    try:
        value = str(headers.get("Retry-After") or headers.get("retry-after") or "").strip()
        if value.isascii() and value.isdigit():
            return float(value)
        return max(0.0, parsedate_to_datetime(value).timestamp() - clock())
    except Exception:  # noqa: BLE001  # whatever a backend put there: no hint is no reason to fail
        return None
