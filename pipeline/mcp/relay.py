"""Relay: stands between a client and a server of MCP. Calls of tools pass a pipeline, all else passes as it came."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup

from ..compose import Pipeline
from ..outside_text import get_logger, neutralise
from ..tools import ToolRegistry
from .call_batch import CallBatch
from .call_relay import CallRelay
from .jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    SERVER_ENDED,
    TOOLS_CALL,
    Message,
    dump,
    find_id,
    hides_call,
    is_answer,
    is_message,
    is_request,
    join_array,
    key_of,
    make_error,
    parse,
    parse_leniently,
    read_object,
    split_array,
)
from .lines import BrokenLineError, LineReader, LineWriter, LongLine
from .open_requests import CANCELLED, OpenRequest, OpenRequests
from .policy import Policy
from .running_calls import RunningCalls
from .server import Server, ServerGoneError
from .session import Session
from .upstream import ServerFailedError, Upstream

_LOG = get_logger()
_LIST, _PROGRESS = "tools/list", "notifications/progress"
_LIST_CHANGED = "notifications/tools/list_changed"
_DRAINING = 5.0  # seconds for calls to end after the client closed its end
_LOOK = 1.0  # seconds between two looks at whether the client is gone
_MAX_METHOD = 200  # characters of a method that is told back


class Relay:
    """Stands between one client and one server.

    Args:
        start: Starts a run of the server.
        policy: What is decided about it.
        make_pipeline: Makes the pipeline for a registry that is filled later.
        reader: What the client writes.
        writer: What the client reads.
    """

    def __init__(
        self,
        start: Callable[[], Awaitable[Server]],
        policy: Policy,
        make_pipeline: Callable[[ToolRegistry], Pipeline],
        reader: LineReader,
        writer: LineWriter,
    ) -> None:
        self._session = session = Session()
        self._max_line, self._max_held = policy.limits.line_bytes, policy.limits.in_flight_bytes
        self._upstream = Upstream(start, policy.limits, session)
        self._calls = CallRelay(self._upstream, policy, make_pipeline)
        self._running = RunningCalls(self._calls, policy.limits, self._reply)
        self._open = OpenRequests(policy.limits.in_flight, session)
        self._passing: list[Message] = []  # noted, and not sent yet
        self._taken = 0  # lines of the client that were dealt with
        self._has_read_all = False
        self._reader, self._writer = reader, writer
        self._group: TaskGroup = anyio.create_task_group()

    async def run(self) -> None:
        """Relay until the client closes its end.

        Raises:
            ServerFailedError: The server cannot be started, or ends again and again.
        """
        failed: ServerFailedError | None = None
        async with self._group as group:
            group.start_soon(self._serve_client)
            group.start_soon(self._watch_client)
            try:
                await self._upstream.run(self, group)
            except BrokenLineError:  # the client is gone
                pass
            except ServerFailedError as exc:
                failed = exc
            group.cancel_scope.cancel()
        if failed is not None:  # not raised inside: a task group would put it into a group of exceptions
            raise failed

    async def _watch_client(self) -> None:
        """End the relay if the client is gone, and a line of its waits for somebody who takes nothing."""
        while not self._reader.is_hung_up():  # noqa: ASYNC110  # no event tells of it while there is more to read
            await anyio.sleep(_LOOK)
        taken = -1
        while taken != self._taken:
            taken = self._taken
            await anyio.sleep(_DRAINING)
        if not self._has_read_all:
            _LOG.warning("the client is gone, and a message of it cannot be passed on")
            await self._upstream.stop()
            self._group.cancel_scope.cancel()

    async def _serve_client(self) -> None:
        with suppress(BrokenLineError):  # it reads no more
            while (line := await self._reader.read()) is not None:
                await self._take_from_client(line)
                self._taken += 1
            self._has_read_all = True
            with anyio.move_on_after(_DRAINING):
                await self._running.wait()
        await self._upstream.stop()
        self._group.cancel_scope.cancel()

    async def _reply(self, key: str, answer: bytes | None, batch: CallBatch | None) -> None:
        if batch is not None:
            answer = batch.add(key, answer)
        if answer is not None:
            await self._writer.write(answer)

    # From the client to the server.

    async def _take_from_client(self, line: bytes | LongLine) -> None:
        if isinstance(line, LongLine):
            await self._refuse_long(line)
            return
        if not line.strip():
            await self._pass_on(line, [])
            return
        # What may hold a call that another reader would find is not passed on.
        try:
            message: object = parse(line)
        except ValueError as exc:
            await self._writer.write(dump(make_error(None, PARSE_ERROR, f"Parse error: {exc}")))
            return
        line = line if line.endswith(b"\n") else line + b"\n"
        if isinstance(message, list):
            await self._take_batch(cast("list[object]", message), line)
        elif is_message(message) and await self._keep(message, len(line), None):
            return
        elif hides_call(line):
            await self._refuse_hidden_call()
        else:
            await self._pass_on(line, [message] if is_message(message) else [])

    async def _take_batch(self, messages: list[object], line: bytes) -> None:
        """Take what is ours out of a batch; a batch without such a message passes as it came."""
        texts = split_array(line)
        is_call = [is_message(each) and each.get("method") == TOOLS_CALL for each in messages]
        if any(hides_call(text) for text, known in zip(texts, is_call, strict=True) if not known):
            await self._refuse_hidden_call()
            return
        known = [each for each in messages if is_message(each)]
        if not any(map(self._is_ours, known)):
            await self._pass_on(line, known)
            return
        batch = CallBatch(key_of(each["id"]) for each in known if is_request(each))
        rest: list[tuple[object, bytes]] = []
        for message, text in zip(messages, texts, strict=True):
            if not is_message(message) or not await self._keep(message, len(text), batch):
                rest.append((message, text))
        if rest:
            passed = [message for message, _ in rest if is_message(message)]
            await self._pass_on(join_array(text for _, text in rest), passed, batch)

    async def _refuse_hidden_call(self) -> None:
        text = "the message could be read as a call of a tool, and as none"
        await self._writer.write(dump(make_error(None, INVALID_REQUEST, text)))

    def _is_ours(self, message: Message) -> bool:
        """Whether a message does not simply pass."""
        method = message.get("method")
        if method == CANCELLED:
            return key_of(read_object(message, "params").get("requestId")) in self._running
        return method == TOOLS_CALL or self._open.is_void(message) or self._open.has_other_id(message)

    async def _keep(self, message: Message, size: int, batch: CallBatch | None) -> bool:
        """Deal with a message that does not pass. Returns False for one that does."""
        if not self._is_ours(message):
            return False
        method = message.get("method")
        if method == TOOLS_CALL:
            await self._running.begin(message, size, batch, self._group)
        elif method == CANCELLED:
            self._running.cancel(key_of(read_object(message, "params").get("requestId")))
        elif self._open.has_other_id(message):
            answer = self._open.restore_id(message)
            await self._pass_on(dump(answer), [answer])
        else:
            self._open.drop_void(message)
        return True

    async def _pass_on(self, line: bytes, messages: list[Message], batch: CallBatch | None = None) -> None:
        """Pass a line to the server, with the messages in it."""
        self._passing = messages
        for message in messages:
            forgotten = self._open.note_sent(message, self._calls.known.changes, batch)
            if forgotten is not None and forgotten.batch is not None:
                await self._reply(key_of(forgotten.request["id"]), None, forgotten.batch)
        try:
            await self._upstream.send(line)
        except ServerGoneError:
            for message in messages:
                if is_request(message) and (found := self._open.close(message)) is not None:
                    await self._fail(found)
        finally:
            self._passing = []

    async def _refuse_long(self, line: LongLine) -> None:
        request_id, is_an_answer = find_id(line.head, line.tail)
        error = make_error(request_id, INVALID_REQUEST, self._tell_long(line))
        if is_an_answer:  # the server waits for it
            with suppress(ServerGoneError):
                await self._upstream.send(dump(error))
        else:
            await self._writer.write(dump(error))

    def _tell_long(self, line: LongLine) -> str:
        text = f"the message of {line.size:,} bytes is longer than {self._max_line:,}"
        _LOG.warning("%s, and was thrown away", text)
        return text

    # From the server to the client.

    async def take_from_server(self, line: bytes | LongLine) -> bool:
        """A line of the server, for the client or for us. Returns whether it is a message."""
        if isinstance(line, LongLine):
            await self._take_long(line)
            return True
        await self._writer.wait_for_room(self._max_held)  # else a client that reads slowly would fill the memory
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
            rest = [text for each, text in both if not await self._take(each, text)]
            line = line if len(rest) == len(cast("list[object]", message)) else join_array(rest) if rest else b""
        elif await self._take(message, line):
            line = b""
        if line:
            await self._writer.write(line)
        return True

    def _take_unreadable(self, line: bytes) -> bool:
        """Fail the call that a line answers which is no JSON, or too deep. Returns whether there is one."""
        may_answer = line.lstrip()[:1] in (b"{", b"[") and find_id(line, b"")[1]
        if not may_answer or not self._upstream.deliver_unusable(line, is_long=False):
            return False
        _LOG.warning("an answer of the server cannot be read, and was thrown away")
        return True

    async def _take(self, message: object, line: bytes) -> bool:
        """Read a message of the server. Returns whether it goes no further."""
        if not is_message(message):
            return False
        method = message.get("method")
        if is_answer(message):
            return await self._take_answer(message, line)
        if is_request(message):
            return await self._pass_back(self._open.note_asked(message), message)
        if method == _LIST_CHANGED:
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
        if self._upstream.deliver(answer.get("id"), answer, line):
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
        text = self._tell_long(line)
        if not is_an_answer:
            if request_id is not None:
                with suppress(ServerGoneError):
                    await self._upstream.send(dump(make_error(request_id, INVALID_REQUEST, text)))
        elif not self._upstream.deliver_unusable(line.head + b"\n" + line.tail, is_long=True):
            error = make_error(request_id, INTERNAL_ERROR, text)
            found = self._open.close(error)
            if found is not None:
                await self._reply(key_of(request_id), dump(error), found.batch)

    async def learn_of_death(self) -> None:
        """The server ended: tell the client of what it will not answer, and of what it does not ask any more."""
        self._calls.known.note_death()
        sent, asked = self._open.end(self._passing)
        for request in sent:
            await self._fail(request)
        for request_id in asked:
            told: dict[str, Any] = {"requestId": request_id, "reason": "the server that asked has ended"}
            await self._writer.write(dump({"jsonrpc": "2.0", "method": CANCELLED, "params": told}))

    async def learn_of_return(self) -> None:
        """The server is back: tell a client that has seen its tools if they are others now."""
        if not self._session.is_greeted or not await self._calls.find_changes():
            return
        try:
            await self._writer.write(dump({"jsonrpc": "2.0", "method": _LIST_CHANGED}))
        except BrokenLineError:  # the client is gone
            self._group.cancel_scope.cancel()

    async def _fail(self, found: OpenRequest) -> None:
        method, request_id = found.request.get("method"), found.request["id"]
        method = neutralise(method, limit=_MAX_METHOD) if isinstance(method, str) else "the request"
        error = make_error(request_id, SERVER_ENDED, f"the server ended before it answered {method}")
        await self._reply(key_of(request_id), dump(error), found.batch)
