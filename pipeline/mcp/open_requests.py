"""OpenRequests: what has passed a relay and has no answer yet, in both directions."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from .call_batch import CallBatch
from .jsonrpc import Message, is_request, key_of, read_object
from .session import Session

CANCELLED = "notifications/cancelled"


@attrs.frozen
class OpenRequest:
    """A request of the client that was passed to the server.

    Args:
        request: It.
        changes: How often the list of tools had changed when it was sent.
        batch: The batch whose answers are collected here. None: its answer passes.
    """

    request: Message
    changes: int
    batch: CallBatch | None = None


class OpenRequests:
    """The requests of both sides.

    Args:
        limit: Requests that are remembered; of more, the oldest of the client are forgotten, and the newest of the
            server are not noted.
        session: What the client has told the server.
    """

    def __init__(self, limit: int, session: Session) -> None:
        self._limit = limit
        self._session = session
        self._sent: dict[str, OpenRequest] = {}
        self._asked: dict[str, object] = {}  # the ids of what the server has asked the client, by their keys
        self._void: dict[str, object] = {}  # as above, asked by a server that has ended

    def note_sent(self, message: Message, changes: int, batch: CallBatch | None) -> OpenRequest | None:
        """Note what passes to the server.

        Returns:
            The request whose answer is not waited for any more: it is cancelled, or the oldest of too many. None: none.
        """
        method = message.get("method")
        forgotten = None
        if is_request(message):
            key = key_of(message["id"])
            if key in self._sent or len(self._sent) >= self._limit:
                forgotten = self._sent.pop(key if key in self._sent else next(iter(self._sent)))
            self._sent[key] = OpenRequest(message, changes, batch)
        elif method == CANCELLED:
            forgotten = self._sent.pop(key_of(read_object(message, "params").get("requestId")), None)
        elif method is None:
            self._asked.pop(key_of(message.get("id")), None)
        self._session.note_sent(message)
        return forgotten

    def note_asked(self, request: Message) -> None:
        """Note a request of the server."""
        if len(self._asked) < self._limit:
            self._asked[key_of(request["id"])] = request["id"]

    def forget_asked(self, notification: Message) -> None:
        """The server has cancelled a request of its own."""
        self._asked.pop(key_of(read_object(notification, "params").get("requestId")), None)

    def close(self, answer: Message) -> OpenRequest | None:
        """The request of the client to which this is the answer; None: no such request is open."""
        found = self._sent.pop(key_of(answer.get("id")), None)
        if found is not None:
            self._session.note_answer(answer)
        return found

    def is_void(self, message: Message) -> bool:
        """Whether the client answers a server that has ended."""
        return "method" not in message and key_of(message.get("id")) in self._void

    def drop_void(self, message: Message) -> None:
        """That answer came."""
        self._void.pop(key_of(message.get("id")), None)

    def end(self, unsent: Iterable[Message]) -> tuple[list[OpenRequest], list[object]]:
        """The server ended. Returns what it will not answer, and the ids of what it does not ask any more.

        Args:
            unsent: Messages that were noted, and that it did not get. They stay open: the next server gets them.
        """
        keys = {key_of(each["id"]) for each in unsent if is_request(each)}
        ended = [self._sent.pop(key) for key in list(self._sent) if key not in keys]
        self._void, self._asked = self._asked, {}
        self._session.forget_open(keys)
        return ended, list(self._void.values())
