"""ServerSession: what the tools of a server need of a connection to it. `sdk_session` makes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, TypeAlias

Answer: TypeAlias = Mapping[str, Any]  # a result in the spelling of the protocol: ``isError``, ``inputSchema``
TellProgress: TypeAlias = Callable[[float, float | None, str], object]


class SessionLostError(Exception):
    """The connection ended.

    Args:
        reason: For the log.
        landed: "no": the request was not sent. Default "maybe": it was sent, and its answer is lost.
    """

    def __init__(self, reason: str, *, landed: Literal["no", "maybe"] = "maybe") -> None:
        super().__init__(reason)
        self.landed: Literal["no", "maybe"] = landed


class RequestRefusedError(Exception):
    """The server answered with an error of JSON-RPC instead of a result."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code, self.message = code, message


class InvalidAnswerError(Exception):
    """The server answered with something that the protocol, or its own output schema, does not permit."""


class ServerSession(Protocol):
    """A connection to a server, after the greeting."""

    async def list_page(self, cursor: str | None) -> Answer:
        """The result of ``tools/list``.

        Args:
            cursor: That of the page before. None: the first page.

        Raises:
            SessionLostError: The connection ended.
            RequestRefusedError: The server refused.
            InvalidAnswerError: The answer is not valid.
        """
        ...

    async def call_tool(self, name: str, arguments: dict[str, Any], tell: TellProgress) -> Answer:
        """The result of ``tools/call``. If it is cancelled, the server is told.

        Args:
            name: The name that the server gave the tool.
            arguments: The arguments.
            tell: Called with how far the tool has come, the whole or None, and a text.

        Raises:
            SessionLostError: The connection ended.
            RequestRefusedError: The server refused.
            InvalidAnswerError: The answer is not valid.
        """
        ...

    async def wait_until_lost(self) -> None:
        """Return when the connection has ended."""
        ...


# Opens a session, which ends with the context. The function that it is given is to be called when the server says that
# its list of tools changed.
Connect: TypeAlias = Callable[[Callable[[], object]], AbstractAsyncContextManager[ServerSession]]
