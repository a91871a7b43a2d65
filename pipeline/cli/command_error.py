"""CommandError: why a command cannot do its work, or cannot finish it."""

from __future__ import annotations


class CommandError(Exception):
    """Ends a command with exit code 2. Its text is one line for the person who typed the command."""
