"""Marker: whether the tool's body began before its time was up, so that what did not begin may be repeated."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .tools.definition import Tool


class TooLateError(Exception):
    """The time was up before the body began: now it must not begin, for its call has been given back as not run."""


class Marker:
    """A time limit hands one in; Execute claims it right before the body and lets go right after.

    The body of a sync tool begins in another thread than the one in which its time runs out: whoever comes first
    has it. One lock for all the limits around one call, and none where there is no limit.
    """

    __slots__ = ("_lock", "_outer", "_over", "began", "running", "tool")

    def __init__(self, outer: Marker | None = None) -> None:
        self.began = False
        self.running = 0  # bodies, of all attempts: a thread that was left behind runs on
        self.tool: Tool[..., Any] | None = None  # the one whose body began
        self._over = False
        self._outer = outer  # a limit may stand inside another one
        self._lock: Lock = Lock() if outer is None else outer._lock  # noqa: SLF001

    def begin(self, tool: Tool[..., Any]) -> None:
        """The body starts now. Raises TooLateError where the time of this limit, or of one around it, is up."""
        with self._lock:
            if any(marker._over for marker in self._all()):  # noqa: SLF001
                raise TooLateError
            for marker in self._all():
                marker.began = True
                marker.tool = tool
                marker.running += 1

    def end(self) -> None:
        """The body came back, if only to a thread that nobody waits for any more."""
        with self._lock:
            for marker in self._all():
                marker.running -= 1

    def over(self) -> None:
        """The time is up: what has not begun will not begin."""
        with self._lock:
            self._over = True

    def _all(self) -> Iterator[Marker]:
        marker: Marker | None = self
        while marker is not None:
            yield marker
            marker = marker._outer  # noqa: SLF001
