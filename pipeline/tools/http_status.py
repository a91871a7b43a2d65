"""Which kind of error an HTTP status means, and when to come back: the facts of a response that an exception holds."""

from __future__ import annotations

from typing import Any

from .failure import FailureKind

_LATER = frozenset((408, 425, 429))  # and 5xx: RFC 9110 section 15, RFC 8470, RFC 6585
_KINDS: dict[int, FailureKind] = {401: "configuration", 403: "permission", 404: "not_found", 410: "not_found"}


def kind_of_status(status: object) -> FailureKind | None:
    """The kind of a status from 400 to 599; None for any other, and for what is no integer."""
    if not isinstance(status, int) or isinstance(status, bool):  # an HTTPStatus is an int too
        return None
    if status in _LATER or 500 <= status <= 599:  # noqa: PLR2004
        return "transient"
    if 400 <= status <= 499:  # noqa: PLR2004
        return _KINDS.get(status, "execution")
    return None


def read_status(exc: BaseException) -> tuple[FailureKind | None, Any]:
    """The kind that the status of an exception means, and the headers beside it.

    The status is ``exception.response.status_code`` or ``exception.status_code``, as httpx, requests, openai,
    anthropic and others have it.

    Returns:
        None in place of the kind, if there is no status or it is no error.
    """
    try:
        response: Any = getattr(exc, "response", None)
        holder: Any = exc if getattr(response, "status_code", None) is None else response
        return kind_of_status(getattr(holder, "status_code", None)), getattr(holder, "headers", None)
    except Exception:  # noqa: BLE001  # a foreign property may raise anything
        return None, None


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
