"""OpenRequests: what has passed a relay and has no answer yet, in both directions."""

from __future__ import annotations

from collections.abc import Iterable
from secrets import token_hex

import attrs

from .jsonrpc import CallBatch, Message, is_request, key_of, loose_key_of, read_object
from .upstream import Session

CANCELLED = "notifications/cancelled"
_MAX_ID = 1_000  # characters of an id that is remembered
_MAX_TEXT = 10_000  # characters of a method or a cursor that is remembered


@attrs.frozen
class OpenRequest:
    """A request of the client that was passed to the server."""

    request: Message  # its id, its method, and the cursor in its params: the rest may be large
    changes: int  # how often the list of tools had changed when it was sent
    batch: CallBatch | None = None  # None: its answer passes


class OpenRequests:
    """The requests of both sides.

    Args:
        limit: Requests that are remembered; of more, the oldest of the client are forgotten, and the newest of the
            server are not noted. Nor is one with an id that fills the memory.
        session: The messages of the client that set up the server.
    """

    def __init__(self, limit: int, session: Session) -> None:
        self._limit = limit
        self._session = session
        self._sent: dict[str, OpenRequest] = {}
        self._asked: dict[str, object] = {}  # the ids of what the server has asked the client, by their keys
        self._void: dict[str, object] = {}  # as above, asked by a server that has ended
        self._own_ids: dict[str, object] = {}  # the ids of the server, by the keys under which the client was asked

    def note_sent(self, message: Message, changes: int, batch: CallBatch | None) -> OpenRequest | None:
        """Note what passes to the server.

        Returns:
            The request whose answer is not waited for any more: it is cancelled, or the oldest of too many. None: none.
        """
        method = message.get("method")
        forgotten = None
        if is_request(message):
            key = key_of(message["id"])
            if len(key) > _MAX_ID and batch is None:
                return None
            if key in self._sent or len(self._sent) >= self._limit:
                forgotten = self._sent.pop(key if key in self._sent else next(iter(self._sent)))
            self._sent[key] = OpenRequest(_shorten(message), changes, batch)
        elif method == CANCELLED:
            forgotten = self._sent.pop(key_of(read_object(message, "params").get("requestId")), None)
        elif method is None:
            self._asked.pop(key_of(message.get("id")), None)
        self._session.note_sent(message)
        return forgotten

    def note_asked(self, request: Message) -> Message:
        """Note a request of the server.

        Returns:
            It, as the client gets it: with another id, if a server that has ended asked under the same one. The client
            may still answer that, and a consent to one question must not be taken for a consent to another.
        """
        if len(self._asked) >= self._limit or len(key_of(request["id"])) > _MAX_ID:
            return request
        own_id = request["id"]
        if key_of(own_id) in self._void:
            request = {**request, "id": f"toolcall-{token_hex(8)}"}
            self._own_ids[key_of(request["id"])] = own_id
        self._asked[key_of(request["id"])] = request["id"]
        return request

    def forget_asked(self, notification: Message) -> Message:
        """The server has cancelled a request of its own. Returns the notification as the client gets it."""
        params = read_object(notification, "params")
        own_key = key_of(params.get("requestId"))
        key = next((key for key, own_id in self._own_ids.items() if key_of(own_id) == own_key), None)
        if key is None:
            self._asked.pop(own_key, None)
            return notification
        del self._own_ids[key]
        return {**notification, "params": {**params, "requestId": self._asked.pop(key, None)}}

    def has_other_id(self, message: Message) -> bool:
        """Whether the client answers a request under another id than the server gave it."""
        return "method" not in message and key_of(message.get("id")) in self._own_ids

    def restore_id(self, message: Message) -> Message:
        """Such an answer with the id of the server."""
        key = key_of(message["id"])
        self._asked.pop(key, None)
        return {**message, "id": self._own_ids.pop(key)}

    def close(self, answer: Message) -> OpenRequest | None:
        """The request of the client to which this is the answer; None: no such request is open."""
        found = self._sent.pop(self._find(answer), None)
        if found is not None:
            self._session.note_answer({**answer, "id": found.request["id"]})
        return found

    def is_waited_for(self, answer: Message) -> bool:
        """Whether this answers a request of the client."""
        return self._find(answer) in self._sent

    def _find(self, answer: Message) -> str:
        key = key_of(answer.get("id"))
        if key in self._sent:
            return key
        loose = loose_key_of(answer.get("id"))
        return next((each for each, sent in self._sent.items() if loose_key_of(sent.request["id"]) == loose), "")

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
        asked = list(self._asked.values())
        self._void.update(self._asked)
        while len(self._void) > self._limit:
            del self._void[next(iter(self._void))]
        self._asked, self._own_ids = {}, {}
        self._session.forget_open(keys)
        return ended, asked


def _shorten(request: Message) -> Message:
    """The parts of a request that are needed when its answer comes, or never comes."""
    method, cursor = request["method"], read_object(request, "params").get("cursor")
    kept: Message = {"id": request["id"], "method": method[:_MAX_TEXT] if isinstance(method, str) else None}
    if cursor is not None:  # one that is too long is none of a list that is learned
        kept["params"] = {"cursor": cursor if isinstance(cursor, str) and len(cursor) <= _MAX_TEXT else []}
    return kept
