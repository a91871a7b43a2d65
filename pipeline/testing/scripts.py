"""script: a handler with prepared answers, in place of what a middleware calls next."""

from __future__ import annotations

from typing import Any

from ..call import Call, Outcome


class Script:
    """A handler whose calls get one prepared answer after the other. Make it with `script`."""

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
    """Make a handler with prepared answers: ``script(Failure(Transient()), Success(1))`` fails once, then succeeds.

    Args:
        *parts: The answers, one for each call. An exception is raised. A further call raises AssertionError.
    """
    return Script(parts)
