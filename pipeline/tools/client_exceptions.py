"""The meaning of exceptions of common clients, which are known by package and class name: no client is imported.

`find_meaning` walks the base classes of an exception and takes the first that stands in `MEANINGS`. A row is a kind, or
a function for the classes whose kind depends on what the exception holds. A class that stands in no row has no meaning
here, and so it is a crash: add rows for clients of your own with ``errors=``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from ..base.foreign_values import FaultBarrier, or_default
from .client_rules import (
    UNDECODABLE,
    read_aiohttp,
    read_botocore,
    read_connection,
    read_grpc,
    read_limit,
    read_mongo,
    read_mysql,
    read_orm,
    read_os_error,
    read_postgres,
    read_postgrest,
    read_psycopg,
    read_reason,
    read_repeated,
    read_setup,
    read_slack,
    read_sqlite,
    read_subprocess,
    tells_of_several,
    was_not_connected,
)
from .failure import ToolFailed
from .http_failures import SHOWS_STATUS, Kind, Meaning, read_status, refusal_of

Rule: TypeAlias = Kind | Meaning | Callable[[BaseException], "Kind | Meaning | None"]

_HTTPX: Mapping[str, Rule] = {
    "TimeoutException": "timeout",
    "LocalProtocolError": "internal",  # a request that the tool built wrongly
    "UnsupportedProtocol": "internal",
    "TransportError": read_connection,
    "NetworkError": read_connection,  # not a TransportError in httpcore; the next two neither
    "ProtocolError": read_connection,
    "ProxyError": read_connection,
    "DecodingError": read_connection,
    "TooManyRedirects": "execution",
}
_MODEL_SDK: Mapping[str, Rule] = {"APITimeoutError": "timeout", "APIConnectionError": read_connection}  # else: status
_ELASTIC: Mapping[str, Rule] = {  # theirs and those of OpenSearch, which have the same names
    "ConnectionTimeout": "timeout",
    "ConnectionError": read_connection,
    "SniffingError": "transient",
}
_POSTGRES: Mapping[str, Rule] = {"OperationalError": read_psycopg, "Error": read_postgres}
_MYSQL: Mapping[str, Rule] = {"OperationalError": read_mysql, "InternalError": read_mysql}

# Package, then class. The first one of the class and its bases that stands here decides.
MEANINGS: Mapping[str, Mapping[str, Rule]] = {
    "builtins": {
        "ConnectionError": "transient",
        "TimeoutError": "timeout",  # also asyncio.TimeoutError, socket.timeout and concurrent.futures.TimeoutError
        "PermissionError": "permission",
        "FileNotFoundError": "not_found",
        "OSError": read_os_error,
        "UnicodeDecodeError": UNDECODABLE,
        "SystemExit": "internal",  # its code is the one of a process
        "SyntaxError": "internal",  # lxml's have a code of the parser
    },
    "socket": {"gaierror": "transient", "herror": "transient"},
    "ssl": {
        "SSLCertVerificationError": "configuration",
        "SSLError": read_connection,
    },
    "asyncio": {"IncompleteReadError": "transient", "LimitOverrunError": "internal"},
    "anyio": {
        "BrokenResourceError": "transient",
        "EndOfStream": "transient",
        "IncompleteRead": "transient",
        "ConnectionFailed": read_connection,
    },
    "trio": {"BrokenResourceError": "transient", "TooSlowError": "timeout"},
    "subprocess": {"TimeoutExpired": "timeout", "CalledProcessError": read_subprocess},
    "http": {"IncompleteRead": "transient", "BadStatusLine": "transient"},  # http.client
    "urllib": {"HTTPError": read_status, "ContentTooShortError": "transient", "URLError": read_connection},
    "httpx": _HTTPX,
    "httpx2": _HTTPX,
    "httpcore": _HTTPX,
    "httpcore2": _HTTPX,
    "requests": {
        "ConnectTimeout": "timeout",  # a ConnectionError too
        "Timeout": "timeout",
        "ConnectionError": read_connection,
        "ChunkedEncodingError": read_connection,
        "ContentDecodingError": read_connection,
        "RetryError": "transient",
        "TooManyRedirects": "execution",
    },
    "urllib3": {
        "NewConnectionError": read_connection,  # a TimeoutError by its bases, which a refused connection is not
        "TimeoutError": "timeout",
        "MaxRetryError": read_repeated,
        "ResponseError": "transient",
        "ProtocolError": read_connection,
        "IncompleteRead": "transient",
        "EmptyPoolError": "transient",
        "ProxyError": read_connection,
        "SSLError": read_connection,
        "DecodeError": read_connection,
        "InvalidHeader": "transient",  # a Retry-After or a length that it cannot read
    },
    "aiohttp": {
        "ClientResponseError": read_aiohttp,
        "ServerTimeoutError": "timeout",
        "ClientConnectorCertificateError": "configuration",
        "ServerFingerprintMismatch": "configuration",
        "ClientConnectionError": read_connection,
        "ClientPayloadError": read_connection,
    },
    "openai": _MODEL_SDK,
    "anthropic": {
        **_MODEL_SDK,
        "CredentialsError": "configuration",
        "WorkloadIdentityError": "configuration",
        "RetryableError": "transient",
    },
    "botocore": {
        "ClientError": read_botocore,
        "ConnectTimeoutError": "timeout",
        "ReadTimeoutError": "timeout",
        "SSLError": read_connection,
        "ConnectionError": read_connection,
        "HTTPClientError": read_connection,
        "IncompleteReadError": "transient",
        "NoCredentialsError": "configuration",
        "PartialCredentialsError": "configuration",
        "CredentialRetrievalError": "configuration",
        "NoAuthTokenError": "configuration",
        "SSOError": "configuration",
        "LoginError": "configuration",
        "NoRegionError": "configuration",
        "ProfileNotFound": "configuration",
        "ConfigNotFound": "configuration",
    },
    "stripe": {"APIConnectionError": read_connection},  # these have no status; all others of theirs have one
    "notion_client": {"RequestTimeoutError": "timeout"},
    "azure": {
        "ServiceRequestTimeoutError": "timeout",
        "ServiceResponseTimeoutError": "timeout",
        "ServiceRequestError": read_connection,
        "ServiceResponseError": read_connection,
        "IncompleteReadError": "transient",
        "ClientAuthenticationError": read_setup,
    },
    "google": {
        "RetryError": read_repeated,
        "TransportError": read_connection,  # these and the next of google.auth
        "TimeoutError": "timeout",
        "GoogleAuthError": read_setup,
    },
    "discord": {
        "LoginFailure": "configuration",
        "PrivilegedIntentsRequired": "configuration",
        "RateLimited": read_limit,
        "ConnectionClosed": "transient",
        "GatewayNotFound": "transient",
    },
    "slack_sdk": {"SlackApiError": read_slack},
    "elastic_transport": _ELASTIC,
    "elasticsearch": _ELASTIC,  # before version 8
    "opensearchpy": _ELASTIC,
    "qdrant_client": {
        "ResponseHandlingException": read_reason,
        "ResourceExhaustedResponse": read_limit,
        "QdrantException": read_limit,  # a ResourceExhaustedResponse whose Retry-After it cannot read
    },
    "pinecone": {"PineconeConnectionError": read_connection},
    "tavily": {
        "UsageLimitExceededError": read_limit,
        "TimeoutError": "timeout",
        "BadRequestError": Meaning("execution", text=refusal_of(400, "execution")),
        "ForbiddenError": "permission",
        "InvalidAPIKeyError": "configuration",
        "MissingAPIKeyError": "configuration",
        "KeylessUnsupportedEndpointError": "configuration",
    },
    "postgrest": {"APIError": read_postgrest},
    "telegram": {"RetryAfter": read_limit},
    "aiogram": {"TelegramRetryAfter": read_limit},
    "tenacity": {"RetryError": read_reason},
    "clickhouse_driver": {"NetworkError": read_connection, "SocketTimeoutError": "timeout", "Error": "internal"},
    "grpc": {"RpcError": read_grpc, "FutureTimeoutError": "timeout"},
    "asyncpg": {"PostgresError": read_postgres, "TargetServerAttributeNotMatched": "transient"},
    "psycopg": {**_POSTGRES, "ConnectionTimeout": "timeout"},
    "psycopg2": _POSTGRES,
    "psycopg_pool": {"PoolTimeout": "timeout", "TooManyRequests": "transient", "PoolClosed": "internal"},
    "pymysql": _MYSQL,
    "MySQLdb": _MYSQL,
    "sqlite3": {"Error": read_sqlite},
    "sqlalchemy": {
        "TimeoutError": "timeout",  # no connection of the pool became free
        "DisconnectionError": "transient",
        "DBAPIError": read_orm,
        "Error": read_orm,  # how the asyncio dialects wrap the error of a driver
    },
    "redis": {
        "AuthenticationError": "configuration",
        "AuthenticationWrongNumberOfArgsError": "configuration",
        "AuthorizationError": "configuration",
        "ExternalAuthProviderError": "configuration",
        "NoPermissionError": "permission",
        "ConnectionError": read_connection,
        "TimeoutError": "timeout",
        "ClusterError": "transient",
        "TryAgainError": "transient",
        "ReadOnlyError": "transient",  # a replica, while another server takes over
        "OutOfMemoryError": "transient",
    },
    "pymongo": {
        "ConfigurationError": "configuration",
        "NetworkTimeout": "timeout",
        "ExecutionTimeout": "timeout",
        "WTimeoutError": "timeout",
        "ConnectionFailure": read_connection,
        "OperationFailure": read_mongo,
    },
}


@or_default(default=False)
def proves_no_effect(exc: object) -> bool:
    """Whether an exception proves that the request which raised it had no effect.

    True for a 429, or a 403 that is a rate limit; for a connection that was refused or never made; and for a name that
    has no address. False for everything else, and for an exception that no row knows, whatever its cause.

    Args:
        exc: An exception. Of a group each must prove it.
    """
    if isinstance(exc, BaseExceptionGroup):
        return all(map(proves_no_effect, cast("BaseExceptionGroup[BaseException]", exc).exceptions))
    if not isinstance(exc, BaseException) or (meaning := find_meaning(exc)) is None or meaning.kind == "internal":
        return False
    if tells_of_several(exc):
        return False
    return meaning.limited or was_not_connected(exc)


def find_meaning(exc: BaseException) -> Meaning | None:
    """Find the meaning of an exception by its type, else by its HTTP status; None if it is unknown. Never raises."""
    rule = find_rule(type(exc))
    found: Kind | Meaning | None = None
    if callable(rule):
        with FaultBarrier():  # a foreign exception may hold anything
            found = rule(exc)
    else:
        found = rule
    if found is None:
        return read_status(exc)
    return found if isinstance(found, Meaning) else Meaning(found)


def find_rule(cls: type[BaseException]) -> Rule | None:
    """Find the row of a class, which is that of its nearest base; None if there is none."""
    try:
        return _FOUND[cls]
    except KeyError:
        pass
    except Exception:  # noqa: BLE001  # a foreign metaclass may refuse to be hashed or compared
        return None
    if len(_FOUND) >= _MAX_FOUND:  # classes made at run time must not be kept for ever
        _FOUND.clear()
        WITHOUT_MEANING.clear()
    rule = _FOUND[cls] = _look_up(cls)
    if rule is None and not issubclass(cls, (BaseExceptionGroup, ToolFailed)) and not _may_hold_status(cls):
        WITHOUT_MEANING.add(cls)
    return rule


def _may_hold_status(cls: type[BaseException]) -> bool:
    """Whether an instance may show a status that is not in its ``__dict__``, by what the class defines."""
    defined: set[str] = set()
    for each in cls.__mro__:
        if each not in (BaseException, object):
            defined.update(vars(each))
    return not defined.isdisjoint(_SHOWS_STATUS)


def _look_up(cls: type[BaseException]) -> Rule | None:
    for each in cls.__mro__:
        known = MEANINGS.get(str(each.__module__).partition(".")[0])
        if known is not None and (rule := known.get(each.__name__)) is not None:
            return rule
    return None


# The rule found for a class: an unknown class costs only one walk over its bases.
_FOUND: dict[type[BaseException], Rule | None] = {}
_MAX_FOUND = 1_000
# Classes without a row, whose instances have an HTTP status only if one was set on the instance.
WITHOUT_MEANING: set[type[BaseException]] = set()
_SHOWS_STATUS = SHOWS_STATUS | {"__dict__", "__getattr__", "__getattribute__"}
