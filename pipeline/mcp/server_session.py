"""A connection to an MCP server: its errors, the pages of its list, and the delay before it is made again.

`sdk_session` makes a `ServerSession` with the package ``mcp``.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from itertools import islice
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

from ..base.setup_error import SetupError
from ..privacy import neutralise

Answer: TypeAlias = Mapping[str, Any]  # a result in the spelling of the protocol: ``isError``, ``inputSchema``
TellProgress: TypeAlias = Callable[[float, float | None, str], object]
MAX_TOOLS: Final = 10_000  # of one server; an endless list ends here
_MAX_PAGES: Final = 1_000
_STEADY: Final = 10.0  # seconds
_SHOWN: Final = 500  # characters of what a server or its transport said
_ADDRESS = re.compile(r"(?P<scheme>\w+://)(?:[^\s/?#'\"<>]*@)?(?P<place>[^\s?#'\"<>]*)(?P<rest>[?#][^\s'\"<>]*)?")


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

        Raises:
            SessionLostError: The connection ended.
            RequestRefusedError: The server refused.
            InvalidAnswerError: The answer is not valid.
        """
        ...

    async def call_tool(self, name: str, arguments: dict[str, Any], tell: TellProgress) -> Answer:
        """The result of ``tools/call``. A cancellation is sent to the server.

        Args:
            name: The name that the server gave the tool.
            arguments: The arguments.
            tell: Called with how far the tool has come, the whole or None, and a text.
        """
        ...

    async def wait_until_lost(self) -> None:
        """Return when the connection has ended."""
        ...


# Opens a session, which ends with the context. The function that it is given is to be called when the server says that
# its list of tools changed.
Connect: TypeAlias = Callable[[Callable[[], object]], AbstractAsyncContextManager[ServerSession]]


def find_first(exc: BaseException) -> BaseException:
    """Return the first failure in a group; another exception as it is."""
    while isinstance(exc, BaseExceptionGroup):
        exc = cast("BaseExceptionGroup[BaseException]", exc).exceptions[0]
    return exc


def as_setup_error(exc: BaseException) -> SetupError:
    """Return the error to raise where a server cannot be added."""
    first = find_first(exc)
    if isinstance(first, SetupError):
        return first
    return SetupError(f"add_server: the server cannot be used: {neutralise(describe_failure(first), limit=_SHOWN)}")


def describe_failure(exc: BaseException) -> str:
    """A failure with its text: it is for the operator. Of an address only the part that holds no secret."""
    first = find_first(exc)
    return f"{type(first).__name__}: {_ADDRESS.sub(_shorten_address, str(first))}"


def _shorten_address(found: re.Match[str]) -> str:
    return found["scheme"] + found["place"] + ("?…" if found["rest"] else "")


class Backoff:
    """Delays between two connections: they double until a connection was good."""

    def __init__(self, first: float, most: float) -> None:
        self._first, self._most = first, most
        self._next = first

    def next_delay(self, lasted: float, *, was_useful: bool = False) -> float:
        """Return the seconds to wait now.

        Args:
            lasted: Seconds that the last connection held; one that held for 10 was good.
            was_useful: Whether it was good in any case. Default False.
        """
        delay = self._first if was_useful or lasted >= _STEADY else self._next
        self._next = min(delay * 2, self._most)
        return delay


async def read_pages(ask: Callable[[str | None], Awaitable[Mapping[str, Any]]]) -> list[Any]:
    """Return all tools that a server lists, page after page: at most 10,000 tools and 1,000 pages.

    Raises:
        InvalidAnswerError: A page holds no list of tools.
    """
    found: list[Any] = []
    seen: set[str] = set()
    cursor: str | None = None
    while len(seen) < _MAX_PAGES and len(found) < MAX_TOOLS:
        page = await ask(cursor)
        tools: Any = page.get("tools")
        if not isinstance(tools, list):
            raise InvalidAnswerError("the server does not list its tools")
        found.extend(islice(cast("Iterable[object]", tools), MAX_TOOLS - len(found)))
        following: Any = page.get("nextCursor")
        if not isinstance(following, str) or not following or following in seen:
            break
        cursor = following
        seen.add(cursor)
    return found
