"""script: a handler that answers as a test tells it to, in place of what a middleware calls next."""

from __future__ import annotations

from typing import Any

from ..call import Call, Outcome


class Script:
    """A handler that answers with one part after the other. Make it with `script`."""

    def __init__(self, parts: tuple[Outcome | BaseException, ...]) -> None:
        self._parts = list(parts)
        self.calls: list[Any] = []  # the calls it was given, in order

    async def __call__(self, call: Call) -> Outcome:
        """Return the next part, or raise it if it is an exception. Raises AssertionError if no part is left."""
        self.calls.append(call)
        if not self._parts:
            raise AssertionError(f"the script has no part for call {len(self.calls)}")
        part = self._parts.pop(0)
        if isinstance(part, BaseException):
            raise part
        return part


def script(*parts: Outcome | BaseException) -> Script:
    """A `Script` of these parts: ``script(Failure(Transient()), Success(1))`` fails once, then succeeds."""
    return Script(parts)
