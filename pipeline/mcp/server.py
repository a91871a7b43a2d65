"""The server behind a relay: its protocol, and the error for a server that is gone."""

from __future__ import annotations

from typing import Protocol

from ..engine.errors import Landed
from .lines import LongLine


class ServerGoneError(ConnectionError):
    """The server ended, or cannot be reached.

    Attributes:
        landed: "no": the request did not reach it. "maybe": unknown.
        is_away: It was waited for, and did not come back in time.
    """

    def __init__(self, landed: Landed, *, is_away: bool = False) -> None:
        super().__init__("the server is gone")
        self.landed: Landed = landed
        self.is_away = is_away


class UnsendableError(Exception):
    """The message cannot be sent to this server at all, since it is none of MCP. The server goes on."""


class Server(Protocol):
    """One run of a server.

    Attributes:
        is_remote: It runs elsewhere, and may come back after any time.
    """

    is_remote: bool

    async def send(self, line: bytes) -> None:
        """Send a line, with its line end.

        Raises:
            ServerGoneError: It is gone.
            UnsendableError: Only what is a message of MCP can be sent, and this is none.
        """
        ...

    async def read(self) -> bytes | LongLine | None:
        """The next line, with its line end. None: the server is gone."""
        ...

    async def watch(self) -> None:
        """Return when it ends; at once where only `read` can see it."""
        ...

    async def close(self, grace: float) -> None:
        """End it; it gets ``grace`` seconds to end by itself."""
        ...

    @property
    def exit_code(self) -> int | None:
        """The exit code of its process; None: it runs, or the code is not known."""
        ...
