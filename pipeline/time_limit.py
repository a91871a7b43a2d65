"""TimeLimit: may the body of a tool still begin, and did it? What did not begin may be repeated."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .tools.definition import Tool


class TooLateError(Exception):
    """The time was up before the body began. It must not begin now: the call was answered as one that did not run."""


class TimeLimit:
    """What a time limit and the body inside of it know of each other; it travels on the call.

    The executor enters it right before the body and leaves it right after. The body of a sync tool begins in another
    thread than the one in which the time runs out, so the first of the two wins: all limits around one call share one
    lock. A call without a time limit has none of this.
    """

    __slots__ = ("_expired", "_lock", "_outer", "began", "running", "tool")

    def __init__(self, outer: TimeLimit | None = None) -> None:
        self.began = False
        self.running = 0  # bodies, of all attempts: a thread that was left behind still runs
        self.tool: Tool[..., Any] | None = None  # the tool of the call, once it is known
        self._expired = False
        self._outer = outer  # the limit around this one
        self._lock: Lock = Lock() if outer is None else outer._lock  # noqa: SLF001

    def resolve(self, tool: Tool[..., Any]) -> None:
        """The call inside of this limit was found to be for this tool."""
        for limit in self._all():
            limit.tool = tool

    def enter(self, tool: Tool[..., Any] | None) -> None:
        """The body begins now.

        Raises:
            TooLateError: The time of this limit, or of one around it, is up.
        """
        with self._lock:
            if any(limit._expired for limit in self._all()):  # noqa: SLF001
                raise TooLateError
            for limit in self._all():
                limit.began = True
                limit.tool = tool
                limit.running += 1

    def leave(self) -> None:
        """The body returned, perhaps in a thread that nobody waits for any more."""
        with self._lock:
            for limit in self._all():
                limit.running -= 1

    def expire(self) -> None:
        """The time is up: a body that has not begun will not begin."""
        with self._lock:
            self._expired = True

    def _all(self) -> Iterator[TimeLimit]:
        limit: TimeLimit | None = self
        while limit is not None:
            yield limit
            limit = limit._outer  # noqa: SLF001
