"""Exceptions of clients that are not installed, with the attributes that their packages give them."""

from __future__ import annotations

from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import httpx


def made_in(module: str) -> Any:
    """Say that a class is of another module."""

    def decorate(cls: Any) -> Any:
        cls.__module__ = module
        return cls

    return decorate


@made_in("google.api_core.exceptions")
class GoogleAPICallError(Exception):
    code: Any = None

    def __init__(self, details: Any = (), response: Any = None) -> None:
        super().__init__("hunter2")
        self._details, self._response = details, response

    @property
    def details(self) -> list[Any]:
        return list(self._details)

    @property
    def response(self) -> Any:
        return self._response


def google(code: HTTPStatus, details: Any = ()) -> Exception:
    made: Any = type("Subclass", (GoogleAPICallError,), {"__module__": "google.api_core.exceptions", "code": code})
    return made(details)  # type: ignore[no-any-return]


class RetryInfo:
    """The message of protobuf."""

    def __init__(self, seconds: int, nanos: int = 0) -> None:
        self.retry_delay = SimpleNamespace(seconds=seconds, nanos=nanos)


@made_in("google.genai.errors")
class APIError(Exception):
    def __init__(self, code: int, response_json: Any, response: Any = None) -> None:
        self.response, self.details, self.code = response, response_json, code
        self.status = response_json.get("error", {}).get("status")
        super().__init__("hunter2")


class HttplibResponse(dict[str, str]):
    """Of httplib2: a mapping of the headers in lower case, with the status beside it."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__({name.replace("_", "-"): value for name, value in headers.items()})
        self.status = status


@made_in("googleapiclient.errors")
class HttpError(Exception):
    def __init__(self, resp: Any, content: bytes, error_details: Any = "") -> None:
        self.resp, self.content, self.error_details = resp, content, error_details
        super().__init__("hunter2")


@made_in("github.GithubException")
class GithubException(Exception):
    def __init__(self, status: int, data: Any = None, headers: dict[str, str] | None = None) -> None:
        super().__init__()
        self.__status, self.__data, self.__headers = status, data, headers
        self.args = (status, data, headers, "hunter2")

    @property
    def status(self) -> int:
        return self.__status

    @property
    def data(self) -> Any:
        return self.__data

    @property
    def headers(self) -> dict[str, str] | None:
        return self.__headers


@made_in("notion_client.errors")
class APIResponseError(Exception):
    def __init__(self, code: str, status: int, **headers: str) -> None:
        super().__init__("hunter2")
        self.code, self.status, self.body = code, status, "{}"
        self.headers = httpx.Headers({name.replace("_", "-"): value for name, value in headers.items()})


@made_in("stripe._error")
class StripeError(Exception):
    def __init__(self, http_status: int | None = None, headers: dict[str, str] | None = None, code: Any = None) -> None:
        super().__init__("hunter2")
        self.http_status, self.headers, self.code = http_status, headers or {}, code
        self.http_body = self.json_body = None


@made_in("stripe._error")
class APIConnectionError(StripeError):
    pass


@made_in("discord.errors")
class HTTPException(Exception):
    def __init__(self, status: int, code: int = 0, **headers: str) -> None:
        named = {name.replace("_", "-").title(): value for name, value in headers.items()}
        self.response = SimpleNamespace(status=status, headers=named, reason="x")  # of aiohttp
        self.status, self.code, self.text = status, code, "hunter2"
        super().__init__("hunter2")


@made_in("kubernetes.client.exceptions")
class ApiException(Exception):
    def __init__(self, status: Any = None, headers: Any = None) -> None:
        super().__init__("hunter2")
        self.status, self.reason, self.body, self.headers = status, "x", "hunter2", headers


@made_in("pymongo.errors")
class OperationFailure(Exception):
    def __init__(self, code: int) -> None:
        super().__init__("hunter2")
        self.code, self.details = code, {"ok": 0.0}


@made_in("opensearchpy.exceptions")
class TransportError(Exception):
    @property
    def status_code(self) -> Any:
        return self.args[0]


@made_in("elasticsearch")
class ElasticError(Exception):
    """Its ApiError: the status and the headers are of its ``meta``."""

    def __init__(self, status: int, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.meta = SimpleNamespace(status=status, headers=named)
        super().__init__("hunter2")

    @property
    def status_code(self) -> int:
        return self.meta.status  # type: ignore[no-any-return]


@made_in("lxml.etree")
class XMLSyntaxError(SyntaxError):
    code = 504


GOOGLE_BODY: Any = {
    "error": {
        "code": 429,
        "status": "RESOURCE_EXHAUSTED",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaValue": "50"}]},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "23.5s"},
        ],
    }
}
