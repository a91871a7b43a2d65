"""OneAnswer: an application of ASGI that answers each request of a session, also one whose id is under way.

The SDK keeps one stream for each id of a session: of two requests that have the same, it runs both and answers one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

from .jsonrpc import INVALID_REQUEST, REPEATED, dump, is_id, is_message, key_of, make_error, parse

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_SESSION: Final = b"mcp-session-id"
_MOST_READ: Final = 4 * 1024 * 1024  # bytes of a body; the SDK refuses a longer one


class OneAnswer:
    """Refuses a request whose id is that of an open request of its session.

    Args:
        app: The application that answers the others.
    """

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._app = app
        self._open: set[tuple[bytes, str]] = set()  # session and id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of HTTP."""
        session = dict(scope.get("headers", ())).get(_SESSION) if scope.get("method") == "POST" else None
        if session is None:
            await self._app(scope, receive, send)
            return
        body, again = await _read_body(receive)
        request_id = _find_id(body)
        key = session, key_of(request_id)
        if request_id is None:
            await self._app(scope, again, send)
        elif key in self._open:
            await _refuse(send, request_id)
        else:
            self._open.add(key)
            try:
                await self._app(scope, again, send)
            finally:
                self._open.discard(key)


async def _read_body(receive: Receive) -> tuple[bytes, Receive]:
    """The body, or its beginning, and a function that yields the same events again."""
    events: list[MutableMapping[str, Any]] = []
    body = bytearray()
    while True:
        event = await receive()
        events.append(event)
        body += event.get("body", b"")
        if not event.get("more_body") or len(body) > _MOST_READ:
            break
    events.reverse()

    async def again() -> MutableMapping[str, Any]:
        return events.pop() if events else await receive()

    return bytes(body), again


def _find_id(body: bytes) -> str | int | None:
    """The id of the request in a body; None: it holds none."""
    try:
        message: object = parse(body)
    except ValueError:
        return None
    if not is_message(message) or "method" not in message or not is_id(found := message.get("id")):
        return None
    return found


async def _refuse(send: Send, request_id: str | int) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": dump(make_error(request_id, INVALID_REQUEST, REPEATED))})
