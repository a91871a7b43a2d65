"""Rules for exceptions of clients whose kind depends on what they hold: a number, a code, another exception."""

from __future__ import annotations

import errno
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, cast

from ..privacy import PublicText, approved
from .http_failures import Kind, Meaning, as_response, read_status

_MAX_TEXT = 2_000  # characters
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
# A file system that says no; what the process itself may not (EACCES) or has not (ENOENT) are classes of their own.
_FILE_REFUSALS: Mapping[int, PublicText] = {
    errno.EISDIR: PublicText("It is a directory and not a file."),
    errno.ENOTDIR: PublicText("It is not a directory, or a part of its path is none."),
    errno.EEXIST: PublicText("It exists already."),
    errno.ENOTEMPTY: PublicText("The directory is not empty."),
    errno.ENAMETOOLONG: PublicText("The name is too long."),
    errno.ELOOP: PublicText("Its links lead in a circle."),
    errno.EXDEV: PublicText("It cannot be moved to another file system."),
    errno.EBUSY: PublicText("It is in use."),
    errno.ETXTBSY: PublicText("It is in use."),
    errno.EFBIG: PublicText("The file is too large."),
    errno.EROFS: PublicText("It cannot be changed: its file system is read-only."),
    errno.ENOSPC: PublicText("There is no space left."),
    errno.EDQUOT: PublicText("There is no space left."),
}
# Exceptions of these classes stand for several requests: what the last one met says nothing of those before it.
_SEVERAL_REQUESTS: Mapping[str, frozenset[str]] = dict.fromkeys(("google", "tenacity"), frozenset(("RetryError",)))
# Exceptions of these classes, or below them, are raised before a request is sent, whatever their reason.
NOT_SENT: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("httpx", "httpx2", "httpcore", "httpcore2"), frozenset(("ConnectError",))),
    "aiohttp": frozenset(("ClientConnectorError",)),
    "urllib3": frozenset(("NewConnectionError", "NameResolutionError")),
    "botocore": frozenset(("EndpointConnectionError",)),
}
_FILE_CLASSES: Mapping[type[OSError], int] = {  # raised without a number
    IsADirectoryError: errno.EISDIR,
    NotADirectoryError: errno.ENOTDIR,
    FileExistsError: errno.EEXIST,
}
UNDECODABLE = Meaning("execution", text=PublicText("It holds bytes that are no text in the expected encoding."))
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
# Slack, "Handling errors": a refused call has status 200, and an ``error`` in its body.
_SLACK_CODES: Mapping[str, int] = {
    **dict.fromkeys(
        ("not_authed", "invalid_auth", "account_inactive", "token_revoked", "token_expired", "team_access_not_granted"),
        401,
    ),
    **dict.fromkeys(
        ("missing_scope", "no_permission", "access_denied", "not_allowed_token_type", "not_in_channel"), 403
    ),
    **dict.fromkeys(("restricted_action", "ekm_access_denied", "org_login_required", "cant_update_message"), 403),
    **dict.fromkeys(("ratelimited", "rate_limited"), 429),
    **dict.fromkeys(("internal_error", "fatal_error", "service_unavailable", "request_timeout"), 503),
    "already_in_channel": 409,
    "name_taken": 409,
}
_SLACK_CODE = re.compile(r"[a-z_]{1,60}")
# PostgREST, "Errors": the status of each of its codes and of each SQLSTATE, by the longest beginning that stands here.
_POSTGREST_CODES: Mapping[str, int] = {
    **dict.fromkeys(("PGRST000", "PGRST001", "PGRST002", "PGRST003", "08", "53"), 503),
    **dict.fromkeys(("PGRST1", "PGRST2", "P0001"), 400),
    **dict.fromkeys(("PGRST125", "PGRST202", "PGRST205", "42P01", "42883"), 404),
    **dict.fromkeys(("PGRST300", "PGRST301", "PGRST302", "PGRST303"), 401),  # 300: it has no secret
    **dict.fromkeys(("42501", "28", "0L", "0P"), 403),
    **dict.fromkeys(("23503", "23505"), 409),
    **dict.fromkeys(("40", "54", "55", "57", "58", "XX", "F0", "HV", "09", "PGRSTX"), 500),
}
_CODE_LENGTHS = (8, 7, 6, 5, 2)
_SQL_STATE = re.compile(r"[0-9A-Z]{5}", re.ASCII)
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


def read_os_error(exc: BaseException) -> Kind | Meaning | None:
    """An OSError that no other row has, by its number or its class: the network, or a file system that says no."""
    number = getattr(exc, "errno", None)
    if number is None:
        number = next((each for kind, each in _FILE_CLASSES.items() if isinstance(exc, kind)), None)
    if number is None:
        return "transient" if str(exc).startswith(_SEVERAL) else None
    refusal = _FILE_REFUSALS.get(number)
    return ("transient" if number in _UNREACHABLE else None) if refusal is None else Meaning("execution", text=refusal)


def read_subprocess(exc: BaseException) -> Meaning:
    """A command that failed; its output stays private."""
    code: object = getattr(exc, "returncode", None)
    known = isinstance(code, int) and abs(code) < 2**63
    return Meaning("execution", text=approved(f"Command failed with exit code {code}" if known else "Command failed"))


def read_reason(exc: BaseException) -> Kind | Meaning | None:
    """An exception around another one: what the first that it names as its reason means. None: none has a meaning."""
    from .client_exceptions import find_meaning, find_rule

    for each in islice(_walk_reasons(exc), 1, None):
        # One that asks its own reason is passed over: that comes next here, and in a ring they would ask for ever.
        if find_rule(type(each)) not in _ASKING and (found := find_meaning(each)) is not None:
            return found
    return None


def read_repeated(exc: BaseException) -> Kind | Meaning:
    """A client that gave up repeating: what the last request met."""
    return read_reason(exc) or "transient"


def read_limit(exc: BaseException) -> Meaning | None:
    """An exception that stands for a 429, whose status it has not kept."""
    return as_response(429, None, exc)


def read_setup(exc: BaseException) -> Kind | Meaning:
    """Credentials that are missing or refused: what a status says, if there is one."""
    if getattr(exc, "retryable", False) is True:  # of google.auth: the service of tokens is down
        return "transient"
    return read_status(exc) or "configuration"


def read_slack(exc: BaseException) -> Meaning | None:
    """A SlackApiError: the ``error`` of the body, else the status."""
    response: Any = getattr(exc, "response", None)
    code: object = response.get("error") if hasattr(response, "get") else None
    if (meaning := read_status(exc)) or not isinstance(code, str) or not _SLACK_CODE.fullmatch(code):
        return meaning
    status = _SLACK_CODES.get(code, 404 if code.endswith("_not_found") else 400)
    return as_response(status, getattr(response, "headers", None), exc)


def read_postgrest(exc: BaseException) -> Kind | Meaning | None:
    """An APIError of PostgREST: it has no status, and a code for it; that is the status where the body was no JSON."""
    code: object = getattr(exc, "code", None)
    if not isinstance(code, str):
        return None
    if code == "57014":
        return "timeout"
    if code.isdecimal() and len(code) == 3:  # noqa: PLR2004
        return as_response(int(code), None, exc)
    if code.startswith("PT"):  # a status that a function of the user's database raises
        return as_response(int(code[2:]), None, exc)
    status = next((found for size in _CODE_LENGTHS if (found := _POSTGREST_CODES.get(code[:size]))), None)
    return as_response(400 if status is None and _SQL_STATE.fullmatch(code) else status, None, exc)


def read_aiohttp(exc: BaseException) -> Meaning | None:
    """A ClientResponseError; its ``code`` is deprecated, and says so when it is read."""
    return as_response(getattr(exc, "status", None), getattr(exc, "headers", None))


def read_botocore(exc: BaseException) -> Kind | Meaning | None:
    """A ClientError: the code of the service, else the HTTP status."""
    response: Any = getattr(exc, "response", None)
    metadata = response.get("ResponseMetadata", {})
    read = as_response(metadata.get("HTTPStatusCode"), metadata.get("HTTPHeaders"))
    kind = _AWS_CODES.get(str(response.get("Error", {}).get("Code")))
    if kind is None or read is None:
        return read or kind
    return read._replace(kind=kind, text=PublicText(""))


def read_grpc(exc: BaseException) -> Kind | Meaning | None:
    """An RpcError: its status code. A call that has none did not get that far."""
    code: Any = getattr(exc, "code", None)
    name = getattr(code() if callable(code) else code, "name", "")
    status = _GRPC_REFUSALS.get(name)
    return _GRPC_CODES.get(name) if status is None else as_response(status, None)


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


_ASKING = (read_reason, read_repeated, read_orm)


def read_mongo(exc: BaseException) -> Kind:
    """An OperationFailure by its code."""
    code: object = getattr(exc, "code", None)
    if getattr(exc, "timeout", False) is True:
        return "timeout"
    if not isinstance(code, int):
        return "internal"
    return "transient" if code in _MONGO_LATER else _MONGO_CODES.get(code, "internal")  # some are as an HTTP status is


def was_not_connected(exc: BaseException) -> bool:
    """Whether an exception, or one that it names as its reason, says that a connection was never made.

    It was refused, or the name of the host has no address. An `OSError` of several attempts counts if all were refused.
    """
    for each in _walk_reasons(exc):
        if isinstance(each, BaseExceptionGroup):
            return all(map(was_not_connected, cast("BaseExceptionGroup[BaseException]", each).exceptions))
        if isinstance(each, (ConnectionRefusedError, socket.gaierror, socket.herror)):
            return True
        if _stands_in(type(each), NOT_SENT):
            return True
        if type(each) is OSError and each.errno is None:
            attempts = re.findall(r"\[Errno (\d+)\]", str(each)[:_MAX_TEXT])
            if attempts and all(int(number) == errno.ECONNREFUSED for number in attempts):
                return True
    return False


def _stands_in(kind: type, classes: Mapping[str, frozenset[str]]) -> bool:
    """Whether a class or one of its bases is one of these, by package and name."""
    return any(each.__name__ in classes.get(str(each.__module__).partition(".")[0], ()) for each in kind.__mro__)


def tells_of_several(exc: BaseException) -> bool:
    """Whether an exception, or one that it names as its reason, stands for several requests."""
    return any(_stands_in(type(each), _SEVERAL_REQUESTS) for each in _walk_reasons(exc))


def _walk_reasons(exc: BaseException) -> Iterator[BaseException]:
    """The exception and those that it names as its reason. Not its context, which may be of another request."""
    each: object = exc
    for _ in range(_MAX_CHAIN):
        if not isinstance(each, BaseException):
            return
        yield each
        first: object = each.args[0] if each.args else None
        reasons = (getattr(each, "reason", None), getattr(each, "inner_exception", None), first, each.__cause__)
        each = next((reason for reason in reasons if isinstance(reason, BaseException)), None)
