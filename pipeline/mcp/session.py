"""Session: what a client has told a server, to be told again to the server that takes its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from .jsonrpc import Message, dump, is_request, key_of, read_object

INITIALIZE: Final = "initialize"
INITIALIZED: Final = "notifications/initialized"
_MAX_SUBSCRIPTIONS = 1_000
_MAX_BYTES = 100_000  # of a message that is told again
_SET_LEVEL = "logging/setLevel"
_SUBSCRIBE, _UNSUBSCRIBE = "resources/subscribe", "resources/unsubscribe"


class Session:
    """The client's greeting, its log level and its subscriptions, in its own words.

    The versions without a handshake (from 2026) have none of them: each request says all that it needs.
    """

    def __init__(self) -> None:
        self._told: dict[str, Message] = {}  # in the order in which they are told again
        self._asked: dict[str, tuple[str, Message]] = {}  # by the key of a request that has no answer yet

    def note_sent(self, message: Message) -> None:
        """Note what the client sends."""
        method = message.get("method")
        if method == INITIALIZED:
            self._told[INITIALIZED] = message
        elif is_request(message) and method in (INITIALIZE, _SET_LEVEL, _SUBSCRIBE, _UNSUBSCRIBE):
            uri: Any = read_object(message, "params").get("uri") if method in (_SUBSCRIBE, _UNSUBSCRIBE) else ""
            is_small = len(dump(message)) <= _MAX_BYTES
            if is_small and isinstance(uri, str) and len(self._asked) < _MAX_SUBSCRIPTIONS:
                self._asked[key_of(message["id"])] = f"{method} {uri}", message

    def note_answer(self, answer: Message) -> None:
        """Note what the server has accepted."""
        asked = self._asked.pop(key_of(answer.get("id")), None) if self._asked else None
        if asked is None or "result" not in answer:
            return
        subject, message = asked
        if message["method"] == _UNSUBSCRIBE:
            self._told.pop(subject.replace(_UNSUBSCRIBE, _SUBSCRIBE, 1), None)
        elif len(self._told) < _MAX_SUBSCRIPTIONS:
            self._told[subject] = message

    def forget_open(self, kept: Iterable[str]) -> None:
        """The server ended: what it has not answered, it never accepts.

        Args:
            kept: The keys of requests that it did not get, and the next one will.
        """
        self._asked = {key: self._asked[key] for key in kept if key in self._asked}

    @property
    def is_greeted(self) -> bool:
        """Whether there was a handshake, so that the server may tell of changes that nobody listens for."""
        return INITIALIZED in self._told

    def __iter__(self) -> Iterator[Message]:
        """What to tell a new server, in this order; the requests with the ids that they had."""
        return iter(list(self._told.values()))
