"""Which kind of error an exception of a tool means. Its text is private unless the tool reveals it.

=====================================================  ====================================================
a `ToolFailed`                                         the kind that it names, with its text
ConnectionError, ``socket.gaierror``                   ``transient``
TimeoutError                                           ``timeout``
PermissionError                                        ``permission``
FileNotFoundError                                      ``not_found``
an HTTP status 401                                     ``configuration``
an HTTP status 403                                     ``permission``
an HTTP status 404 or 410                              ``not_found``
an HTTP status 408, 425, 429 or 5xx                    ``transient``, with the seconds of a ``Retry-After``
any other HTTP status 4xx                              ``execution``
any other exception that the tool reveals              ``execution``
anything else, such as ValueError and KeyError         ``internal``: it stays a crash
=====================================================  ====================================================

The first line that applies decides; an exception group of one exception counts as that exception. The HTTP status is
``exception.response.status_code`` or ``exception.status_code``, as httpx, requests, openai and anthropic have it.
"""

from __future__ import annotations

import socket
from typing import Any, cast

from ..errors import (
    Crashed,
    Denied,
    ExecutionFailed,
    InvalidParams,
    NeedsSetup,
    NeedsUserInput,
    Problem,
    ResourceNotFound,
    TimedOut,
    ToolError,
    Transient,
    Unavailable,
)
from ..privacy import PublicText, approved
from .definition import Tool
from .failure import ToolFailed

_LATER = frozenset((408, 425, 429))  # and 5xx: RFC 9110 section 15, RFC 8470, RFC 6585


def classify(error: Crashed, tool: Tool[..., Any], now: float) -> ToolError:
    """Find the error that an exception means.

    Args:
        error: A crash, with the exception as its cause.
        tool: The tool that raised it.
        now: Seconds since the epoch, for a ``Retry-After`` that is a date.

    Returns:
        An error by the table above, with the exception as its private cause. ``error`` itself if it stays a crash.
    """
    exc = error.cause
    if isinstance(exc, BaseExceptionGroup):
        exc = _unwrap(cast("BaseException", exc))
    if exc is None:
        return error
    if isinstance(exc, ToolFailed):
        return _as_declared(exc, tool.name)
    revealed = bool(tool.reveal) and isinstance(exc, tool.reveal)
    text = _read_text(exc) if revealed else PublicText("")
    if isinstance(exc, OSError) and (found := _by_type(exc, tool.name, text)) is not None:
        return found
    status, headers = _read_status(exc)
    if status is not None and (found := _by_status(status, headers, exc, tool.name, text, now)) is not None:
        return found
    return ExecutionFailed(text, cause=exc) if revealed else error


def parse_retry_after(headers: Any, now: float) -> float | None:
    """The seconds of a ``Retry-After`` header: a number of seconds or a date (RFC 9110 section 10.2.3).

    Args:
        headers: A mapping, or whatever else a client has under that name.
        now: Seconds since the epoch.

    Returns:
        None without a header, and for one that is neither.
    """
    from email.utils import parsedate_to_datetime  # 6 ms

    try:
        value = str(headers.get("Retry-After") or headers.get("retry-after") or "").strip()
        if value.isascii() and value.isdigit():
            return float(value)
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except Exception:  # noqa: BLE001  # a foreign header may be anything, and may be left out
        return None


def _unwrap(exc: BaseException) -> BaseException | None:
    """The only exception of a group, which a task group makes of it; None for a group of several."""
    while isinstance(exc, BaseExceptionGroup):
        first, *others = cast("BaseExceptionGroup[BaseException]", exc).exceptions
        if others:
            return None
        exc = first
    return exc


def _as_declared(failed: ToolFailed, tool: str) -> ToolError:
    message, details = _read_text(failed), failed.details
    match failed.kind:
        case "not_found":
            return ResourceNotFound(message, details, cause=failed)
        case "permission":
            return Denied(tool, message, cause=failed)
        case "configuration":
            return NeedsSetup(approved(tool), message, cause=failed)
        case "needs_input":
            return NeedsUserInput(message, details.parameter)
        case "validation":
            return InvalidParams((Problem(details.parameter or "", "validator", message),))
        case "unavailable":
            return Unavailable(tool, "busy", failed.retry_after)
        case "timeout":
            return TimedOut(landed=failed.landed, cause=failed)
        case "transient":
            return Transient(failed, failed.retry_after, failed.landed)
        case _:
            return ExecutionFailed(message, details, cause=failed)


def _by_type(exc: OSError, tool: str, text: PublicText) -> ToolError | None:
    match exc:
        case ConnectionError() | socket.gaierror():
            return Transient(exc)
        case TimeoutError():
            return TimedOut(cause=exc)
        case PermissionError():
            return Denied(tool, text, cause=exc)
        case FileNotFoundError():
            return ResourceNotFound(text, cause=exc)
        case _:
            return None


def _by_status(
    status: int, headers: Any, exc: BaseException, tool: str, text: PublicText, now: float
) -> ToolError | None:
    match status:
        case 401:
            return NeedsSetup(approved(tool), text, cause=exc)
        case 403:
            return Denied(tool, text, cause=exc)
        case 404 | 410:
            return ResourceNotFound(text, cause=exc)
        case _ if status in _LATER or 500 <= status <= 599:  # noqa: PLR2004
            return Transient(exc, parse_retry_after(headers, now))
        case _ if 400 <= status <= 499:  # noqa: PLR2004
            return ExecutionFailed(text, cause=exc)
        case _:
            return None


def _read_text(exc: BaseException) -> PublicText:
    """The text of an exception that the tool's author approves."""
    try:
        if type(exc).__module__.startswith("pydantic") and callable(errors := getattr(exc, "errors", None)):
            # str(exc) would hold class names of the author and a link to pydantic's pages, which nobody approved.
            problems: Any = errors(include_url=False, include_context=False, include_input=False)
            return approved("; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problems))
        return approved(str(exc))
    except Exception:  # noqa: BLE001  # a foreign __str__ may raise anything
        return approved("")


def _read_status(exc: BaseException) -> tuple[int | None, Any]:
    """An HTTP status and its headers; None without a status."""
    try:
        response: Any = getattr(exc, "response", None)
        holder: Any = exc if getattr(response, "status_code", None) is None else response
        status: Any = getattr(holder, "status_code", None)
        if not isinstance(status, int) or isinstance(status, bool):  # an HTTPStatus is an int too
            return None, None
        return int(status), getattr(holder, "headers", None)
    except Exception:  # noqa: BLE001  # a foreign property may raise anything
        return None, None
