"""Rules for exceptions of clients whose kind depends on what they hold: an HTTP status, a code, another exception."""

from __future__ import annotations

import errno
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from ..base.foreign_values import or_default
from ..privacy import PublicText, approved
from .failure import FailureKind

Kind: TypeAlias = FailureKind | Literal["internal"]


class Meaning(NamedTuple):
    """The meaning of an exception."""

    kind: Kind
    headers: Any = None  # of an HTTP response, for a ``Retry-After``
    text: PublicText = PublicText("")  # a fixed text, never the text of the exception


_MAX_CHAIN = 8  # exceptions within exceptions that are read: one may contain itself
_UNREACHABLE = frozenset(
    (
        errno.ENETUNREACH,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.EHOSTDOWN,
        errno.ENETRESET,
        errno.ENOTCONN,
        errno.EADDRNOTAVAIL,  # no port is free for another connection
    )
)
# "Multiple exceptions" is how asyncio reports a host with several addresses, "All connection attempts" how anyio does.
_SEVERAL = ("Multiple exceptions: [Errno ", "All connection attempts failed")

# PostgreSQL, appendix A: classes of SQLSTATE by their first two characters, and single ones.
_SQL_CLASSES: Mapping[str, Kind] = {"08": "transient", "53": "transient", "28": "configuration"}
_SQL_STATES: Mapping[str, Kind] = {
    "40001": "transient",  # serialization failure
    "40P01": "transient",  # deadlock
    "55P03": "transient",  # lock not available
    "57P01": "transient",  # the server is shut down
    "57P02": "transient",  # it crashed
    "57P03": "transient",  # it starts
    "57P05": "transient",  # the session was idle for too long
    "57014": "timeout",  # statement_timeout
    "25P03": "timeout",  # the transaction was idle for too long
    "3D000": "configuration",  # no such database
    "42501": "permission",
}
_NO_ENTRY = ("authentication failed", "does not exist", "no password supplied", "no pg_hba.conf entry")
# MySQL 8.4 reference, "Client Error Message Reference" (2xxx) and "Server Error Message Reference" (1xxx).
_MYSQL_CODES: Mapping[int, Kind] = {
    **dict.fromkeys((2002, 2003, 2005, 2006, 2013, 2055), "transient"),  # no connection, or it was lost
    **dict.fromkeys((1040, 1053, 1203, 1205, 1213), "transient"),  # full, shutting down, locked, deadlock
    3024: "timeout",  # max_execution_time
    **dict.fromkeys((1045, 1049, 1698), "configuration"),
    **dict.fromkeys((1044, 1142, 1143, 1227), "permission"),
}
# gRPC, "Status codes and their use in gRPC".
_GRPC_CODES: Mapping[str, Kind] = {
    **dict.fromkeys(("UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED", "INTERNAL", "UNKNOWN", "CANCELLED"), "transient"),
    "DEADLINE_EXCEEDED": "timeout",
    "UNAUTHENTICATED": "configuration",
    "PERMISSION_DENIED": "permission",
    "NOT_FOUND": "not_found",
    **dict.fromkeys(
        (
            "INVALID_ARGUMENT",
            "FAILED_PRECONDITION",
            "OUT_OF_RANGE",
            "ALREADY_EXISTS",
            "UNIMPLEMENTED",
            "DATA_LOSS",
        ),
        "execution",
    ),
}
_GRPC_REFUSALS = {"INVALID_ARGUMENT": 400, "OUT_OF_RANGE": 400, "ALREADY_EXISTS": 409, "FAILED_PRECONDITION": 409}
# Codes that AWS services send with a status that says something else, as botocore's retries/standard.py has them.
_AWS_CODES: Mapping[str, Kind] = {
    **dict.fromkeys(
        (
            "Throttling",
            "ThrottlingException",
            "ThrottledException",
            "RequestThrottledException",
            "RequestThrottled",
            "TooManyRequestsException",
            "ProvisionedThroughputExceededException",
            "TransactionInProgressException",
            "RequestLimitExceeded",
            "BandwidthLimitExceeded",
            "LimitExceededException",
            "SlowDown",
            "PriorRequestNotComplete",
            "EC2ThrottledException",
            "RequestTimeout",
            "RequestTimeoutException",
        ),
        "transient",
    ),
    **dict.fromkeys(("AccessDenied", "AccessDeniedException", "UnauthorizedOperation"), "permission"),
    **dict.fromkeys(
        (
            "ExpiredToken",
            "ExpiredTokenException",
            "InvalidAccessKeyId",
            "InvalidClientTokenId",
            "MissingAuthenticationToken",
            "SignatureDoesNotMatch",
            "UnrecognizedClientException",
        ),
        "configuration",
    ),
    **dict.fromkeys(("ResourceNotFoundException", "NoSuchKey", "NoSuchBucket"), "not_found"),
}
# MongoDB, "Error codes".
_MONGO_CODES: Mapping[int, Kind] = {13: "permission", 18: "configuration", 50: "timeout", 89: "timeout"}
_MONGO_LATER = frozenset((6, 7, 91, 112, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436))  # retryable writes, 112


def read_connection(exc: BaseException) -> Kind:
    """A lost or refused connection; a certificate that is not accepted, or a time limit, if that is the reason."""
    for each in _walk_reasons(exc):
        if isinstance(each, ssl.SSLCertVerificationError):
            return "configuration"  # the next attempt meets the same certificate
        if isinstance(each, TimeoutError):
            return "timeout"
    return "transient"


def read_os_error(exc: BaseException) -> Kind | None:
    """An OSError of no class of its own: the network, by its number; else nothing that is known."""
    number = getattr(exc, "errno", None)
    if number is None:
        return "transient" if str(exc).startswith(_SEVERAL) else None
    return "transient" if number in _UNREACHABLE else None


def read_subprocess(exc: BaseException) -> Meaning:
    """A command that failed; its output stays private."""
    code: object = getattr(exc, "returncode", None)
    known = isinstance(code, int) and abs(code) < 2**63
    return Meaning("execution", text=approved(f"Command failed with exit code {code}" if known else "Command failed"))


def read_urllib(exc: BaseException) -> Meaning | None:
    """An HTTPError, whose status is its ``code``."""
    return _as_response(getattr(exc, "code", None), getattr(exc, "headers", None))


def read_urllib3(exc: BaseException) -> Kind | Meaning | None:
    """A MaxRetryError: what its ``reason`` means."""
    from .client_exceptions import find_meaning

    reason: object = getattr(exc, "reason", None)
    found = find_meaning(reason) if isinstance(reason, BaseException) and reason is not exc else None
    return found or "transient"


def read_aiohttp(exc: BaseException) -> Meaning | None:
    """A ClientResponseError, which has its ``status`` and ``headers`` itself."""
    return _as_response(getattr(exc, "status", None), getattr(exc, "headers", None))


def read_botocore(exc: BaseException) -> Kind | Meaning | None:
    """A ClientError: the code of the service, else the HTTP status."""
    response: Any = getattr(exc, "response", None)
    metadata = response.get("ResponseMetadata", {})
    kind = _AWS_CODES.get(str(response.get("Error", {}).get("Code")))
    found = kind or kind_of_status(metadata.get("HTTPStatusCode"))
    text = _refusal_of(metadata.get("HTTPStatusCode"), found)
    return None if found is None else Meaning(found, metadata.get("HTTPHeaders"), text)


def read_grpc(exc: BaseException) -> Kind | Meaning | None:
    """An RpcError: its status code. A call that has none did not get that far."""
    code: Any = getattr(exc, "code", None)
    name = getattr(code() if callable(code) else code, "name", "")
    status = _GRPC_REFUSALS.get(name)
    return _GRPC_CODES.get(name) if status is None else _as_response(status, None)


def read_postgres(exc: BaseException) -> Kind | None:
    """An error of PostgreSQL by its SQLSTATE, as asyncpg, psycopg (``sqlstate``) and psycopg2 (``pgcode``) have it."""
    state: object = getattr(exc, "sqlstate", None) or getattr(exc, "pgcode", None)
    return _SQL_STATES.get(state) or _SQL_CLASSES.get(state[:2]) if isinstance(state, str) else None


def read_psycopg(exc: BaseException) -> Kind | None:
    """An OperationalError: without a SQLSTATE the server was not reached, or the connection was lost.

    libpq has no SQLSTATE for what a server says while it connects, so the server's words decide, if they are English.
    """
    if getattr(exc, "sqlstate", None) or getattr(exc, "pgcode", None):
        return read_postgres(exc)
    text = str(exc)
    if any(each in text for each in _NO_ENTRY):
        return "configuration"
    return "timeout" if "timeout expired" in text else read_connection(exc)


def read_mysql(exc: BaseException) -> Kind | None:
    """An error of MySQL by its number, the first argument."""
    number: object = exc.args[0] if exc.args else None
    return _MYSQL_CODES.get(number) if isinstance(number, int) else None


def read_sqlite(exc: BaseException) -> Kind | None:
    """A database or a table that another connection has locked; anything else is a bug, or a broken file."""
    name = str(getattr(exc, "sqlite_errorname", None) or "")
    locked = name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")) or (not name and " is locked" in str(exc))
    return "transient" if locked else None


def read_orm(exc: BaseException) -> Kind | Meaning | None:
    """An error of SQLAlchemy: a connection that it gave up, else what the driver's own error means."""
    from .client_exceptions import find_meaning

    if getattr(exc, "connection_invalidated", False) is True:  # what is_disconnect of the dialect said
        return "transient"
    inner: object = getattr(exc, "orig", None) or exc.__cause__
    return find_meaning(inner) if isinstance(inner, BaseException) and inner is not exc else None


def read_mongo(exc: BaseException) -> Kind | None:
    """An OperationFailure by its code."""
    code: object = getattr(exc, "code", None)
    if getattr(exc, "timeout", False) is True:
        return "timeout"
    if not isinstance(code, int):
        return None
    return "transient" if code in _MONGO_LATER else _MONGO_CODES.get(code)


def _as_response(status: object, headers: object) -> Meaning | None:
    kind = kind_of_status(status)
    return None if kind is None else Meaning(kind, headers, _refusal_of(status, kind))


def _walk_reasons(exc: BaseException) -> Iterator[BaseException]:
    """The exception and those that it names as its reason. Not its context, which may be of another request."""
    each: object = exc
    for _ in range(_MAX_CHAIN):
        if not isinstance(each, BaseException):
            return
        yield each
        first: object = each.args[0] if each.args else None
        reasons = (getattr(each, "reason", None), first, each.__cause__)
        each = next((reason for reason in reasons if isinstance(reason, BaseException)), None)


_LATER = frozenset((408, 425, 429))  # and 5xx: RFC 9110 section 15, RFC 8470, RFC 6585
_REFUSALS: Mapping[object, PublicText] = {  # RFC 9110 section 15.5; 422 is its 15.5.21
    400: PublicText("The service refused these arguments: they are not valid."),
    409: PublicText("The service refused these arguments: they conflict with what is there already."),
    412: PublicText("The service refused these arguments: what they are for has changed."),
    413: PublicText("The service refused these arguments: they are too large."),
    422: PublicText("The service refused these arguments: it cannot do what they say."),
}
_STATUS_KINDS: dict[int, FailureKind] = {401: "configuration", 403: "permission", 404: "not_found", 410: "not_found"}


def kind_of_status(status: object) -> FailureKind | None:
    """Return the kind of a status from 400 to 599; None for any other value."""
    if not isinstance(status, int) or isinstance(status, bool):  # an HTTPStatus is an int too
        return None
    if status in _LATER or 500 <= status <= 599:  # noqa: PLR2004
        return "transient"
    if 400 <= status <= 499:  # noqa: PLR2004
        return _STATUS_KINDS.get(status, "execution")
    return None


def _refusal_of(status: object, kind: Kind | None) -> PublicText:
    """Return the fixed text of a status with which a service refuses the arguments of a request; "" for any other."""
    return _REFUSALS.get(status, PublicText("")) if kind == "execution" else PublicText("")


@or_default(None)
def read_status(exc: BaseException) -> Meaning | None:
    """Return the meaning of the status of an exception, and the headers beside it.

    The status is ``exception.response.status_code`` or ``exception.status_code``, as httpx, requests, openai,
    anthropic and others have it.

    Returns:
        None without a status, and for a status below 400.
    """
    response: Any = getattr(exc, "response", None)
    holder: Any = exc if getattr(response, "status_code", None) is None else response
    return _as_response(getattr(holder, "status_code", None), getattr(holder, "headers", None))


@or_default(None)
def parse_retry_after(headers: Any, now: float) -> float | None:
    """Return the seconds of a ``Retry-After`` header: a number of seconds or a date (RFC 9110 section 10.2.3).

    Args:
        headers: A mapping, or any other object that a client has under that name.
        now: Seconds since the epoch.

    Returns:
        None without a header, and for one that is neither.
    """
    from email.utils import parsedate_to_datetime  # 6 ms

    value = str(headers.get("Retry-After") or headers.get("retry-after") or "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    return max(0.0, parsedate_to_datetime(value).timestamp() - now)
