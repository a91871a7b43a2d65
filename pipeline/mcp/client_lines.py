"""ClientLines: which message of a client passes to the server, and which is dealt with here."""

from __future__ import annotations

from typing import cast

from anyio.abc import TaskGroup

from ..privacy import neutralise
from .asking_person import ClientQuestions
from .jsonrpc import (
    INVALID_REQUEST,
    PARSE_ERROR,
    SERVER_ENDED,
    TOOLS_CALL,
    CallBatch,
    Message,
    dump,
    find_id,
    find_unread_id,
    hides_call,
    is_message,
    is_request,
    key_of,
    make_error,
    read,
    read_object,
)
from .known_tools import KnownTools
from .lines import LineWriter, LongLine, tell_long
from .open_requests import CANCELLED, OpenRequest, OpenRequests
from .running_calls import Reply, RunningCalls
from .server import ServerGoneError, UnsendableError
from .upstream import Upstream

_MAX_METHOD = 200  # characters of a method in an answer


class ClientLines:
    """Takes what the client writes.

    Attributes:
        passing: Messages that are noted as open, and that no server has got yet.
    """

    def __init__(
        self,
        *,
        upstream: Upstream,
        known: KnownTools,
        running: RunningCalls,
        open_requests: OpenRequests,
        questions: ClientQuestions,
        reply: Reply,
        writer: LineWriter,
        group: TaskGroup,
        max_line: int,
    ) -> None:
        self._upstream, self._known = upstream, known
        self._questions = questions
        self._running, self._open = running, open_requests
        self._reply, self._writer = reply, writer
        self._group, self._max_line = group, max_line
        self.passing: list[Message] = []

    async def take(self, line: bytes | LongLine) -> None:
        """A line of the client, for the server or for us; BrokenLineError if the client reads no more."""
        if isinstance(line, LongLine):
            await self._refuse_long(line)
            return
        if not line.strip():
            return  # it holds nothing
        # What passes is written anew from what was read here, so that no other reader can find another message in it.
        try:
            message: object = read(line)
            is_call = is_message(message) and message.get("method") == TOOLS_CALL
            written = line if is_call else dump(message)
        except ValueError as exc:
            await self._refuse(*find_unread_id(line), PARSE_ERROR, f"Parse error: {exc}")
            return
        if isinstance(message, list):
            await self._take_batch(cast("list[object]", message), written)
        elif is_message(message) and await self._keep(message, len(written), None):
            return
        elif hides_call(message):
            await self._refuse_hidden_call()
        else:
            await self._pass_on(written, [message] if is_message(message) else [])

    async def _take_batch(self, messages: list[object], line: bytes) -> None:
        """Take what is ours out of a batch; a batch without such a message passes whole."""
        if any(hides_call(each) for each in messages if not is_message(each) or each.get("method") != TOOLS_CALL):
            await self._refuse_hidden_call()
            return
        known = [each for each in messages if is_message(each)]
        if not any(map(self._is_ours, known)):
            await self._pass_on(line, known)
            return
        batch = CallBatch(key_of(each["id"]) for each in known if is_request(each))
        rest = [each for each in messages if not is_message(each) or not await self._keep(each, len(dump(each)), batch)]
        if rest:
            await self._pass_on(dump(rest), [each for each in rest if is_message(each)], batch)

    async def _refuse_hidden_call(self) -> None:
        text = "the message could be read as a call of a tool, and as none"
        await self._writer.write(dump(make_error(None, INVALID_REQUEST, text)))

    def _is_ours(self, message: Message) -> bool:
        method = message.get("method")
        if method == CANCELLED:
            return key_of(read_object(message, "params").get("requestId")) in self._running
        if method == TOOLS_CALL or self._questions.is_answered_by(message):
            return True
        return self._open.is_void(message) or self._open.has_other_id(message)

    async def _keep(self, message: Message, size: int, batch: CallBatch | None) -> bool:
        """Deal with a message that does not pass. Returns False for one that does."""
        if not self._is_ours(message):
            return False
        method = message.get("method")
        if method == TOOLS_CALL:
            await self._running.begin(message, size, batch, self._group)
        elif method == CANCELLED:
            self._running.cancel(key_of(read_object(message, "params").get("requestId")))
        elif self._questions.is_answered_by(message):
            self._questions.take(message)
        elif self._open.has_other_id(message):
            answer = self._open.restore_id(message)
            await self._pass_on(dump(answer), [answer])
        else:
            self._open.drop_void(message)
        return True

    async def _pass_on(self, line: bytes, messages: list[Message], batch: CallBatch | None = None) -> None:
        """Pass a line to the server, with the messages in it."""
        self.passing = messages
        for message in messages:
            forgotten = self._open.note_sent(message, self._known.changes, batch)
            if forgotten is not None and forgotten.batch is not None:
                await self._reply(key_of(forgotten.request["id"]), None, forgotten.batch)
        try:
            await self._upstream.send(line)
        except (ServerGoneError, UnsendableError) as exc:
            for message in messages:
                if is_request(message) and (found := self._open.close(message)) is not None:
                    await self.fail(found, is_odd=isinstance(exc, UnsendableError))
        finally:
            self.passing = []

    async def _refuse_long(self, line: LongLine) -> None:
        await self._refuse(*find_id(line.head, line.tail), INVALID_REQUEST, tell_long(line, self._max_line))

    async def _refuse(self, request_id: object, is_an_answer: bool, code: int, text: str) -> None:  # noqa: FBT001
        """Answer the waiting side that a message of the client does not pass."""
        error = make_error(request_id, code, text)
        if not is_an_answer or request_id is None:
            await self._writer.write(dump(error))
        elif not await self._keep(error, 0, None):  # the server waits for it
            await self._pass_on(dump(error), [error])

    async def fail(self, found: OpenRequest, *, is_odd: bool = False) -> None:
        """Answer a request of the client that the server will not answer: it has ended, or was not sent the request."""
        method, request_id = found.request.get("method"), found.request["id"]
        method = neutralise(method, limit=_MAX_METHOD) if isinstance(method, str) else "the request"
        error = make_error(request_id, SERVER_ENDED, f"the server ended before it answered {method}")
        if is_odd:
            error = make_error(request_id, INVALID_REQUEST, f"{method} is no request of MCP, or is in a batch")
        await self._reply(key_of(request_id), dump(error), found.batch)
