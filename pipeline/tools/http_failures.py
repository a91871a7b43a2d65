"""What an HTTP status in an exception means, where clients keep one, and when the service wants to be asked again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from ..base.foreign_values import or_default
from ..privacy import PublicText
from .failure import FailureKind

Kind: TypeAlias = FailureKind | Literal["internal"]


class Meaning(NamedTuple):
    """The meaning of an exception."""

    kind: Kind
    headers: Any = None  # of an HTTP response, for the wait that it asks for
    text: PublicText = PublicText("")  # a fixed text, never the text of the exception
    source: BaseException | None = None  # an exception that may hold the body of the response
    limited: bool = False  # the service takes no more requests for now, so it did nothing for this one


# Where clients keep a status; the first that is one from 400 to 599 counts. PyGithub, Notion and Kubernetes have
# ``status``, those of Google ``code`` or ``resp.status``, Stripe ``http_status``, and others have these names for codes
# of their own too, which are no such numbers.
_STATUS: tuple[tuple[str, ...], ...] = (
    ("response", "status_code"),
    ("status_code",),
    ("code",),
    ("status",),
    ("http_status",),
    ("resp", "status"),
)
_HEADERS: tuple[tuple[str, ...], ...] = (
    ("response", "headers"),
    ("headers",),
    ("resp",),  # httplib2's is a mapping
    ("meta", "headers"),  # of Elasticsearch
)
_INSIDE = ("__cause__", "__context__")  # Ollama keeps the status alone, and raises while it handles that of httpx
# Where an exception says itself when to come back, in seconds or as a timedelta: of Discord, Pinecone and Telegram;
# of Qdrant; of Tavily.
_WAITS = ("retry_after", "retry_after_s", "retry_after_seconds")
# What of a body was read and kept. `_content` is that of httpx and requests: their public names may read the network.
_BODIES: tuple[tuple[str, ...], ...] = (
    ("details",),
    ("error_details",),
    ("json_body",),
    ("body",),
    ("content",),
    ("response", "_content"),
)
# The names that `read_status` reads first: an instance of a class that defines none has a status only if one was set.
SHOWS_STATUS = frozenset(path[0] for path in _STATUS)

_LATER = frozenset((408, 425, 429))  # and 5xx: RFC 9110 section 15, RFC 8470, RFC 6585
_REFUSALS: Mapping[object, PublicText] = {  # RFC 9110 section 15.5; 422 is its 15.5.21
    400: PublicText("The service refused these arguments: they are not valid."),
    409: PublicText("The service refused these arguments: they conflict with what is there already."),
    412: PublicText("The service refused these arguments: what they are for has changed."),
    413: PublicText("The service refused these arguments: they are too large."),
    422: PublicText("The service refused these arguments: it cannot do what they say."),
}
_STATUS_KINDS: dict[int, FailureKind] = {401: "configuration", 403: "permission", 404: "not_found", 410: "not_found"}
_FORBIDDEN = 403
_TOO_MANY = 429

_LIMITS = ("x-ratelimit-", "ratelimit-", "x-rate-limit-")  # GitHub and most; the draft of the IETF; X
_MAX_HEADERS = 200
_MAX_BODY = 65_536  # bytes
_MAX_NODES = 500  # of a body
_EPOCH = 1e9  # from here on a number is a moment and no wait of 30 years; from 1,000 times of it, in milliseconds
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_PART = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)(ms|s|m|h)", re.ASCII)
_DURATION = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def kind_of_status(status: object) -> FailureKind | None:
    """Return the kind of a status from 400 to 599; None for any other value."""
    if not isinstance(status, int) or isinstance(status, bool):  # an HTTPStatus is an int too
        return None
    if status in _LATER or 500 <= status <= 599:  # noqa: PLR2004
        return "transient"
    if 400 <= status <= 499:  # noqa: PLR2004
        return _STATUS_KINDS.get(status, "execution")
    return None


def refusal_of(status: object, kind: Kind | None) -> PublicText:
    """Return the fixed text of a status with which a service refuses the arguments of a request; "" for any other."""
    return _REFUSALS.get(status, PublicText("")) if kind == "execution" else PublicText("")


def as_response(status: object, headers: object, source: BaseException | None = None) -> Meaning | None:
    """Return the meaning of a response; None for a status that is no failure.

    A 403 that comes with the headers of a rate limit is one, as GitHub sends it.
    """
    kind: Kind | None = kind_of_status(status)
    if kind is None:
        return None
    limited = status == _TOO_MANY
    if status == _FORBIDDEN and headers and _is_limited(_read_headers(headers)):
        kind, limited = "transient", True
    return Meaning(kind, headers, refusal_of(status, kind), source, limited)


@or_default(None)
def read_status(exc: BaseException) -> Meaning | None:
    """Return the meaning of the status of an exception, wherever its client keeps it, and the headers beside it.

    Returns:
        None without a status, and for a status below 400.
    """
    for path in _STATUS:
        if kind_of_status(status := _follow(exc, path)) is not None:
            headers = next((found for place in _HEADERS if (found := _follow(exc, place))), None)
            return as_response(status, headers or _find_inside(exc, status), exc)
    return None


def _find_inside(exc: BaseException, status: object) -> Any:
    """Return the headers of the response in the exception that this one was made of, if it has the same status."""
    for name in _INSIDE:
        if _follow(exc, (name, "response", "status_code")) == status:
            return _follow(exc, (name, "response", "headers"))
    return None


def read_wait(meaning: Meaning, now: float) -> float | None:
    """Return the seconds until the service wants to be asked again. Never raises.

    The first of these that is there and can be read: ``retry-after-ms``; ``Retry-After``, a number of seconds or a date
    (RFC 9110 section 10.2.3); what the exception says itself; ``retryDelay`` in the body (google.rpc.RetryInfo); the
    reset of a rate limit that has nothing left, as seconds, as seconds since the epoch, or as a date.
    """
    named = {} if meaning.headers is None else _read_headers(meaning.headers)
    milliseconds = _read_number(named.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    seconds = _read_moment(named.get("retry-after", ""), now, epoch=False)
    if seconds is None and meaning.kind == "transient" and meaning.source is not None:
        seconds = _read_own_wait(meaning.source)
        seconds = _find_delay(meaning.source) if seconds is None else seconds
    if seconds is None and named and _read_limit(named, "remaining") in ("", "0"):
        seconds = _read_moment(_read_limit(named, "reset-after"), now, epoch=False)
        seconds = _read_moment(_read_limit(named, "reset"), now, epoch=True) if seconds is None else seconds
    return seconds


@or_default(None)
def _follow(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = getattr(value, name, None)
    return value or None  # an object that is empty, or raises when it is asked, says nothing


@or_default(cast("dict[str, str]", {}))
def _read_headers(headers: Any) -> dict[str, str]:
    """Return the headers by their names in lower case; any mapping of texts or bytes has some."""
    return {_to_text(name).lower(): _to_text(value).strip() for name, value in islice(headers.items(), _MAX_HEADERS)}


def _to_text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _is_limited(named: Mapping[str, str]) -> bool:
    return "retry-after" in named or "retry-after-ms" in named or _read_limit(named, "remaining") == "0"


def _read_limit(named: Mapping[str, str], name: str) -> str:
    return next((named[prefix + name] for prefix in _LIMITS if prefix + name in named), "")


def _read_number(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


@or_default(None)
def _read_moment(text: str, now: float, *, epoch: bool) -> float | None:
    """Return the seconds until a moment: a number, a duration such as ``1m30s``, or a date; never less than 0."""
    number = _read_number(text)
    if number is not None:
        if not epoch or number < _EPOCH:
            return number
        return max(0.0, (number if number < _EPOCH * 1000 else number / 1000) - now)
    if not text:
        return None
    if _DURATION.fullmatch(text):
        return sum(float(count) * _UNITS[unit] for count, unit in _PART.findall(text))
    return max(0.0, _read_date(text) - now)


def _read_date(text: str) -> float:
    """Return the seconds since the epoch of a date as HTTP or ISO 8601 has it; without a zone it is in UTC."""
    from email.utils import parsedate_to_datetime  # 6 ms

    moment = datetime.fromisoformat(text) if text[:1].isdigit() else parsedate_to_datetime(text)
    return (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment).timestamp()


@or_default(None)
def _read_own_wait(exc: BaseException) -> float | None:
    """Return the seconds that an exception says itself, in one of the attributes that clients have for them."""
    for name in _WAITS:
        value: Any = getattr(exc, name, None)
        if value is not None and not isinstance(value, bool):
            return _read_moment(
                str(value.total_seconds() if hasattr(value, "total_seconds") else value), 0.0, epoch=False
            )
    return None


@or_default(None)
def _find_delay(exc: BaseException) -> float | None:
    """Return the ``retryDelay`` of the body that an exception of a client of Google has kept, parsed or as bytes."""
    waiting: list[Any] = [_follow(exc, path) for path in _BODIES]
    for value in islice(waiting, _MAX_NODES):  # which grows
        if isinstance(value, (bytes, str)):
            found: Any = value.encode() if isinstance(value, str) else value
            if len(found) <= _MAX_BODY and b"retryDelay" in found:
                waiting.append(json.loads(found))
        elif isinstance(value, Mapping):
            node = cast("Mapping[Any, Any]", value)
            if (seconds := _read_delay(node.get("retryDelay", node.get("retry_delay")))) is not None:
                return seconds
            waiting += [each for each in node.values() if isinstance(each, (list, Mapping))]
        elif isinstance(value, (list, tuple)):
            waiting += cast("list[Any]", value)
        elif (seconds := _read_delay(getattr(value, "retry_delay", None))) is not None:  # a RetryInfo of protobuf
            return seconds
    return None


def _read_delay(delay: Any) -> float | None:
    """Return the seconds of a Duration: its text in JSON, a timedelta, or the message of protobuf."""
    if isinstance(delay, str):
        return _read_moment(delay, 0.0, epoch=False)
    if delay is None or isinstance(delay, (Mapping, list)):
        return None
    return float(delay.total_seconds() if hasattr(delay, "total_seconds") else delay.seconds + delay.nanos / 1e9)
