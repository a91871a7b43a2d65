"""CallBatch: a JSON-RPC batch of the client in which there are calls of tools: its answers go back as one array.

Only the version 2025-03-26 of MCP has batches; https://www.jsonrpc.org/specification, section 6, says what they are.
"""

from __future__ import annotations

from .jsonrpc import Message


class CallBatch:
    """Collects the answers to a batch.

    Args:
        keys: Those of its requests, see `key_of`.
    """

    def __init__(self, keys: set[str]) -> None:
        self._missing = keys
        self._answers: list[Message] = []

    def add(self, key: str, answer: Message | None) -> list[Message] | None:
        """Add an answer; None for a request that gets none, since it was cancelled.

        Returns:
            All answers, once the last one is there; None before, and if there is none at all.
        """
        if key not in self._missing:
            return None
        self._missing.discard(key)
        if answer is not None:
            self._answers.append(answer)
        return self._answers if self._answers and not self._missing else None
