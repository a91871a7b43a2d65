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
    is_answer,
    is_message,
    is_request,
    join_array,
    key_of,
    make_error,
    parse_leniently,
    read_object,
    split_array,
)
from .lines import LineWriter, LongLine, tell_long
from .open_requests import CANCELLED, OpenRequests
from .running_calls import Reply
from .server import ServerGoneError
from .upstream import Upstream

LIST_CHANGED: Final = "notifications/tools/list_changed"
_LOG = get_logger()
_LIST, _PROGRESS = "tools/list", "notifications/progress"


class ServerLines:
    """Takes what the server writes.

    Args:
        upstream: The server; an answer to a request of ours goes to the task that asked there.
        calls: The calls of tools, for their progress and for the tools that are listed.
        open_requests: Requests that have passed and have no answer yet.
        reply: Sends the answer to a request to the client.
        writer: The stream that the client reads.
        limits: How long a line may be, and how much may wait for the client.
    """

    def __init__(
        self,
        *,
        upstream: Upstream,
        calls: CallRelay,
        open_requests: OpenRequests,
        reply: Reply,
        writer: LineWriter,
        limits: RelayLimits,
    ) -> None:
        self._upstream, self._calls = upstream, calls
        self._open = open_requests
        self._reply, self._writer = reply, writer
        self._limits = limits

    async def take(self, line: bytes | LongLine) -> bool:
        """A line of the server, for the client or for us. Returns whether it is a message.

        Raises:
            BrokenLineError: The client reads no more.
        """
        if isinstance(line, LongLine):
            await self._take_long(line)
            return True
        # Else a client that reads slowly would fill the memory.
        await self._writer.wait_for_room(self._limits.in_flight_bytes)
        try:
            message: object = parse_leniently(line)
        except ValueError:
            if not line.endswith(b"\n"):  # the server died in the middle of it
                return False
            if not self._take_unreadable(line):
                await self._writer.write(line)
            return False
        line = line if line.endswith(b"\n") else line + b"\n"
        if isinstance(message, list):
            both = zip(cast("list[object]", message), split_array(line), strict=True)
            rest = [text for each, text in both if not await self._take_message(each, text)]
            line = line if len(rest) == len(cast("list[object]", message)) else join_array(rest) if rest else b""
        elif await self._take_message(message, line):
            line = b""
        if line:
            await self._writer.write(line)
        return True

    def _take_unreadable(self, line: bytes) -> bool:
        """Fail the call that a line answers which is not JSON, or too deep. Returns whether there is one."""
        may_answer = line.lstrip()[:1] in (b"{", b"[") and find_id(line, b"")[1]
        if not may_answer or not self._upstream.own_requests.deliver_unusable(line, is_long=False):
            return False
        _LOG.warning("an answer of the server cannot be read, and was thrown away")
        return True

    async def _take_message(self, message: object, line: bytes) -> bool:
        """Read a message of the server. Returns whether it goes no further."""
        if not is_message(message):
            return False
        method = message.get("method")
        if is_answer(message):
            return await self._take_answer(message, line)
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

    async def _take_answer(self, answer: Message, line: bytes) -> bool:
        if self._upstream.own_requests.deliver(answer.get("id"), answer, line):
            return True
        found = self._open.close(answer)
        if found is None:
            return False
        self._upstream.note_use()
        if found.request.get("method") == _LIST:
            self._calls.known.learn_page(read_object(found.request, "params"), found.changes, answer)
        if found.batch is None:
            return False
        await self._reply(key_of(answer["id"]), line, found.batch)
        return True

    async def _take_long(self, line: LongLine) -> None:
        request_id, is_an_answer = find_id(line.head, line.tail)
        text = tell_long(line, self._limits.line_bytes)
        if not is_an_answer:
            if request_id is not None:
                with suppress(ServerGoneError):
                    await self._upstream.send(dump(make_error(request_id, INVALID_REQUEST, text)))
        elif not self._upstream.own_requests.deliver_unusable(line.head + b"\n" + line.tail, is_long=True):
            error = make_error(request_id, INTERNAL_ERROR, text)
            found = self._open.close(error)
            if found is not None:
                await self._reply(key_of(request_id), dump(error), found.batch)
