"""SetupError: a mistake of the programmer, told when a pipeline is built."""

from __future__ import annotations


class SetupError(TypeError, ValueError):
    """A programmer's mistake at set-up. Raised at once, never during a call.

    It is a TypeError and a ValueError, so ``except TypeError`` and ``except ValueError`` catch it too.
    """
