"""For tests, ours and yours: an inside that plays a part."""

from __future__ import annotations

from typing import Any

from .call import Call, Outcome


class Script:
    """The inside of a middleware under test: answers as it was told to, and remembers what it was asked."""

    def __init__(self, parts: tuple[Outcome | BaseException, ...]) -> None:
        self._parts = list(parts)
        self.calls: list[Any] = []  # what it was asked, in order

    async def __call__(self, call: Call) -> Outcome:
        """The next outcome; an exception is raised. Asked more often than it has parts, it fails the test."""
        self.calls.append(call)
        if not self._parts:
            raise AssertionError(f"the script has no part for call {len(self.calls)}")
        part = self._parts.pop(0)
        if isinstance(part, BaseException):
            raise part
        return part


def script(*parts: Outcome | BaseException) -> Script:
    """A `Script`: ``script(Failure(Transient()), Success(1))`` fails once, then succeeds."""
    return Script(parts)
