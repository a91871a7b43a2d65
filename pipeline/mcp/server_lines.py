"""ServerLines: which message of a server passes to the client, and which is dealt with here."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, cast

from ..policies.relay_policy import RelayLimits
from ..privacy import get_logger
from .call_relay import CallRelay
from .jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Message,
    dump,
    find_id,
    find_unread_id,
    is_answer,
    is_message,
    is_request,
    is_spoken,
    key_of,
    loose_key_of,
    make_error,
    make_plain,
    read,
    read_object,
    write_answer,
)
from .lines import LineWriter, LongLine, tell_long
from .open_requests import CANCELLED, OpenRequests
from .running_calls import Reply, RunningCalls
from .server import ServerGoneError
from .upstream import Upstream

LIST_CHANGED: Final = "notifications/tools/list_changed"
_LOG = get_logger()
_UNREADABLE: Final = "the answer of the server cannot be read"
_LIST, _PROGRESS = "tools/list", "notifications/progress"


class ServerLines:
    """Takes what the server writes."""

    def __init__(
        self,
        *,
        upstream: Upstream,
        calls: CallRelay,
        running: RunningCalls,
        open_requests: OpenRequests,
        reply: Reply,
        writer: LineWriter,
        limits: RelayLimits,
    ) -> None:
        self._upstream, self._calls, self._running = upstream, calls, running
        self._open = open_requests
        self._reply, self._writer = reply, writer
        self._limits = limits

    async def take(self, line: bytes | LongLine) -> bool:
        """A line of the server, for the client or for us. Returns whether it is a message."""
        if isinstance(line, LongLine):
            await self._take_long(line)
            return True
        # Else a client that reads slowly would fill the memory.
        await self._writer.wait_for_room(self._limits.in_flight_bytes)
        try:
            message: object = read(line, leniently=True)
            is_ours = is_message(message) and self._upstream.own_requests.is_ours(message.get("id"))
            written = line if is_ours else dump(message)
        except ValueError:
            await self._take_unreadable(line)
            return False
        messages = cast("list[object]", message) if isinstance(message, list) else [message]
        spoken = [each for each in messages if is_message(each) and self._is_spoken(each)]
        if not spoken:
            await self._take_unreadable(line)
            return False
        if len(spoken) < len(messages):
            _LOG.warning("a part of a line of the server is no message, and was thrown away")
        rest = [each for each in spoken if not await self._take_message(each)]
        if rest:
            await self._writer.write(written if len(rest) == len(messages) else dump(rest))
        return True

    def _is_spoken(self, message: Message) -> bool:
        """Whether an object is a message, and not a line of a log. What answers somebody is one, however odd."""
        if is_spoken(message):
            return True
        is_ours = self._upstream.own_requests.is_ours(message.get("id"))
        return is_answer(message) and (is_ours or self._open.is_waited_for(message))

    async def _take_unreadable(self, line: bytes) -> None:
        """A line that is no message goes no further: another reader could find one in it. What it answers fails."""
        if not line.strip() or not line.endswith(b"\n"):  # without a line end the server died in the middle of it
            return
        may_answer = line.lstrip()[:1] in (b"{", b"[") and find_id(line, b"")[1]
        if may_answer and self._upstream.own_requests.deliver_unusable(line, is_long=False):
            _LOG.warning("an answer of the server cannot be read, and was thrown away")
            return
        request_id, is_an_answer = find_unread_id(line)
        if is_an_answer and request_id is not None:
            await self._fail_open(request_id, _UNREADABLE)
        _LOG.warning("a line of the server is no message, and was thrown away")

    async def _fail_open(self, request_id: object, text: str) -> None:
        """Tell the client that the answer to a request of it was thrown away."""
        error = make_error(request_id, INTERNAL_ERROR, text)
        found = self._open.close(error)
        if found is not None:
            await self._reply(key_of(request_id), dump(error), found.batch)

    async def _take_message(self, message: Message) -> bool:
        """Read a message of the server. Returns whether it goes no further."""
        method = message.get("method")
        if is_answer(message):
            return await self._take_answer(message)
        if is_request(message):
            return await self._pass_back(self._open.note_asked(message), message)
        if method == LIST_CHANGED:
            self._calls.known.forget()
        elif method == _PROGRESS:
            self._calls.note_progress(message)
        elif method == CANCELLED:
            return await self._pass_back(self._open.forget_asked(message), message)
        return False

    async def _pass_back(self, changed: Message, message: Message) -> bool:
        """Pass a message of the server with another id. Returns whether it has one."""
        if changed is message:
            return False
        await self._writer.write(dump(changed))
        return True

    async def _take_answer(self, answer: Message) -> bool:
        if self._upstream.own_requests.deliver(answer.get("id"), answer):
            return True
        found = self._open.close(answer)
        if found is None:  # nobody answers a call in our place
            return self._is_running(answer.get("id"))
        self._upstream.note_use()
        own_id = found.request["id"]
        written = write_answer(answer, own_id)
        passes = written is not None and found.batch is None and written.keys() == answer.keys()
        if written is None:
            _LOG.warning("an answer of the server cannot be read, and was thrown away")
            written = make_error(own_id, INTERNAL_ERROR, _UNREADABLE)
        elif found.request.get("method") == _LIST:
            self._calls.known.learn_page(read_object(found.request, "params"), found.changes, make_plain(written))
        if passes and is_spoken(answer) and key_of(answer["id"]) == key_of(own_id):
            return False
        await self._reply(key_of(own_id), dump(written), found.batch)
        return True

    def _is_running(self, request_id: object) -> bool:
        """Whether a client could take an answer with this id for that of a call."""
        return any(
            key in self._running for key in (key_of(request_id), loose_key_of(request_id), key_of(f"{request_id}"))
        )

    async def _take_long(self, line: LongLine) -> None:
        request_id, is_an_answer = find_id(line.head, line.tail)
        text = tell_long(line, self._limits.line_bytes)
        if not is_an_answer:
            if request_id is not None:
                with suppress(ServerGoneError):
                    await self._upstream.send(dump(make_error(request_id, INVALID_REQUEST, text)))
        elif not self._upstream.own_requests.deliver_unusable(line.head + b"\n" + line.tail, is_long=True):
            await self._fail_open(request_id, text)
