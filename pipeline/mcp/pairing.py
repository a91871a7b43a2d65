"""Pairing: each request that a transport of the package ``mcp`` sent gets an answer, also where none can be read.

The package drops an answer that it cannot read, and one whose id it did not give: who asked would wait for ever. Here
such an answer becomes an error under the id of its request; where it could be that of any request, the connection is of
no use any more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, cast

from ..privacy import get_logger, neutralise
from .jsonrpc import (
    PARSE_ERROR,
    PROTOCOL_VERSION,
    Message,
    find_id,
    find_unread_id,
    is_answer,
    is_message,
    is_request,
    loose_key_of,
    parse,
    read_object,
)
from .open_requests import CANCELLED
from .tool_definitions import read_name

_LOG = get_logger()
_LIST: Final = "tools/list"
_HANDSHAKE: Final = "2025-11-25"  # the version whose forms count where a request names none
_MOST_ENDED: Final = 1_000  # ids of requests that have ended, which may get a late answer
UNREADABLE: Final = "the answer cannot be read"
_ENVELOPE: Final = frozenset(("jsonrpc", "id", "result", "error"))
_JSON_BEGINS: Final = (b"{", b"}", b'"', b":", b",")
_MEMBER: Final = re.compile(rb'"(?:jsonrpc|id)"\s*:')
_OUTCOME: Final = re.compile(rb'"(?:result|error)"\s*:')
_OK, _ACCEPTED, _BAD_GATEWAY = 200, 202, 502


class UnpairedError(Exception):
    """An answer came that cannot be read, and it could be that of any request."""


class Pairing:
    """Knows the requests that one connection has sent and that have no answer yet."""

    def __init__(self) -> None:
        self._open: dict[str, Message] = {}  # method, params and id of each request, by the key of the id
        self._ended: dict[str, None] = {}
        self._notified = 0  # notifications that a server may answer by mistake, with an error without an id

    def note_sent(self, item: Any) -> None:
        """Note a message that goes to the server."""
        message: Message = item.message.model_dump(by_alias=True, exclude_unset=True)
        if is_request(message):
            self._open[loose_key_of(message["id"])] = message
        elif "method" in message:
            self._notified += 1
            if message["method"] == CANCELLED:
                self._end(loose_key_of(read_object(message, "params").get("requestId")))

    def mend(self, item: Any) -> Any:
        """Return what came from the server, or an error in its place that ends its request.

        Raises:
            UnpairedError: It is an answer to one of several requests, or cannot be told from one.
        """
        if isinstance(item, Exception):
            return self._mend_unread(item)
        message = item.message
        if hasattr(message, "method"):
            return item
        key = loose_key_of(message.id)
        if message.id is None and self._notified:
            self._notified -= 1
        elif key in self._open:
            request = self._open[key]
            self._end(key)
            if request["method"] == _LIST and hasattr(message, "result"):
                message.result = self._leave_out(message.result, request)
        elif key not in self._ended and self._open:
            raise UnpairedError
        return item

    def _end(self, key: str) -> None:
        if self._open.pop(key, None) is not None:
            self._ended[key] = None
            if len(self._ended) > _MOST_ENDED:
                del self._ended[next(iter(self._ended))]

    def _mend_unread(self, failure: Exception) -> Any:
        """What could not be read, or an error in its place."""
        found = _find_input(failure)
        if is_message(found):
            may_answer = "method" not in found and bool(found.keys() & _ENVELOPE)
            request_id = found.get("id")
        elif isinstance(found, (str, bytes)):
            request_id, may_answer = _find_id(found if isinstance(found, bytes) else found.encode(errors="replace"))
        else:
            request_id, may_answer = None, isinstance(found, list)
        key = loose_key_of(request_id)
        if not may_answer or (key in self._ended and key not in self._open):
            return failure
        if key not in self._open:
            if self._open:
                raise UnpairedError
            return failure
        request_id = self._open[key]["id"]
        self._end(key)
        types: Any = import_module("mcp_types")
        data = types.ErrorData(code=PARSE_ERROR, message=UNREADABLE)
        error = types.JSONRPCError(jsonrpc="2.0", id=request_id, error=data)
        return cast("Any", import_module("mcp.shared.message")).SessionMessage(error)

    def _leave_out(self, result: dict[str, Any], request: Message) -> dict[str, Any]:
        """A page of tools without those that the package does not take: it would refuse the others with them."""
        tools: Any = result.get("tools")
        version = read_object(read_object(request, "params"), "_meta").get(PROTOCOL_VERSION, _HANDSHAKE)
        if not isinstance(tools, list) or self._find_fault({**result, "tools": []}, version):
            return result
        kept: list[object] = []
        for each in cast("list[object]", tools):
            fault = self._find_fault({**result, "tools": [each]}, version)
            if fault:
                name = neutralise(read_name(each) or "one without a name")
                _LOG.warning("a tool of an MCP server is left out: %s: %s", name, fault)
            else:
                kept.append(each)
        return {**result, "tools": kept}

    def _find_fault(self, result: Mapping[str, Any], version: object) -> str:
        """What is wrong with a page of tools; "": nothing."""
        try:
            import_module("mcp_types.methods").validate_server_result(_LIST, version, result)
            import_module("mcp_types").ListToolsResult.model_validate(result, by_name=False)
        except KeyError:  # the version has no such method
            return ""
        except ValueError as exc:
            problems: list[Any] = getattr(exc, "errors", list)()
            where = [str(part) for part in problems[0]["loc"][2:]] if problems else []
            return neutralise(f"{'.'.join(where)}: {problems[0]['msg']}" if problems else type(exc).__name__)
        return ""


def _find_input(failure: Exception) -> object:
    """The line, or the value in it, that pydantic did not take; None: the failure is another one."""
    problems: list[Any] = getattr(failure, "errors", list)()
    given = [each.get("input") for each in problems]
    return next((each for each in given if is_message(each) and each.keys() & _ENVELOPE), given[0] if given else None)


def _find_id(line: bytes) -> tuple[str | int | None, bool]:
    """The id in a line that is no JSON, and whether the line may be an answer: more than text that a server prints."""
    is_text = b"\0" not in line and "\ufffd" not in line.decode(errors="replace")
    line = line.replace(b"\0", b"").removeprefix("\ufeff".encode()).strip()
    request_id, is_an_answer = find_unread_id(line)
    if is_an_answer and request_id is not None:
        return request_id, True
    has_outcome = _OUTCOME.search(line) is not None
    is_part = b'":' in line and line.count(b"{") != line.count(b"}")  # of a message of several lines, or a cut one
    looks_so = line[:1] in _JSON_BEGINS or is_part or has_outcome or _MEMBER.search(line) is not None
    return None, bool(line) and (not is_text or (looks_so and (has_outcome or find_id(line, b"")[1])))


async def refuse_answerless(response: Any) -> None:
    """A hook of the client of HTTP: a response to a request that holds no answer to it gets the status 502.

    The package would wait for the answer elsewhere, where none comes.
    """
    if response.request.method != "POST" or response.status_code not in (_OK, _ACCEPTED):
        return
    try:
        sent: object = parse(response.request.content)
    except ValueError:
        return
    if not is_message(sent) or not is_request(sent):
        return
    kind = response.headers.get("content-type", "").lower()
    if response.status_code == _OK and kind.startswith("application/json"):
        found: object = None
        with suppress(ValueError):
            found = parse(await response.aread())
        if is_message(found) and is_answer(found) and loose_key_of(found.get("id")) == loose_key_of(sent["id"]):
            return
        response.status_code = _BAD_GATEWAY
    elif response.status_code == _ACCEPTED:
        response.status_code = _BAD_GATEWAY
