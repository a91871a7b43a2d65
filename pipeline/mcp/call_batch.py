"""CallBatch: a JSON-RPC batch of the client in which there are calls of tools: its answers go back as one array.

Only the version 2025-03-26 of MCP has batches; https://www.jsonrpc.org/specification, section 6, says what they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .jsonrpc import join_array


class CallBatch:
    """Collects the answers to a batch.

    Args:
        keys: Those of its requests, see `key_of`; one that stands there twice gets two answers.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._missing = Counter(keys)
        self._answers: list[bytes] = []

    def add(self, key: str, answer: bytes | None) -> bytes | None:
        """Add an answer; None for a request that gets none, since it was cancelled.

        Returns:
            The line with all answers, once the last one is there; None before, and if there is none at all.
        """
        if not self._missing[key]:
            return None
        self._missing[key] -= 1
        if answer is not None:
            self._answers.append(answer.rstrip(b"\r\n"))
        return join_array(self._answers) if self._answers and not self._missing.total() else None
