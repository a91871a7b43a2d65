"""Relay: stands between a client and a server of MCP. Calls of tools pass a pipeline, all else passes as it came."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

import anyio
import attrs
from anyio.abc import TaskGroup

from ..compose import Pipeline
from ..errors import Unavailable
from ..outside_text import neutralise
from ..tools import ToolRegistry
from .call_batch import CallBatch
from .call_relay import CallRelay
from .jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    SERVER_ENDED,
    Message,
    dump,
    find_id,
    is_answer,
    is_id,
    is_message,
    is_request,
    key_of,
    make_error,
    parse,
    read_object,
)
from .lines import BrokenLineError, LineReader, LineWriter, LongLine
from .policy import Policy
from .server import Server, ServerGoneError
from .session import Session
from .tool_results import make_error_result
from .upstream import AnswerTooLongError, ServerFailedError, Upstream

_LOG = logging.getLogger("toolcall_pipeline")
_CALL, _CANCELLED, _LIST = "tools/call", "notifications/cancelled", "tools/list"
_LIST_CHANGED, _PROGRESS = "notifications/tools/list_changed", "notifications/progress"
_DRAINING = 5.0  # seconds for calls to end after the client closed its end


@attrs.frozen
class _Open:
    """A request that was passed to the server and has no answer yet."""

    request: Message
    changes: int  # of the list of tools, when it was sent
    batch: CallBatch | None = None


@attrs.frozen
class _Running:
    """A call of a tool that runs."""

    scope: anyio.CancelScope
    size: int
    batch: CallBatch | None = None


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
        self._limits = policy.limits
        self._session = Session()
        self._upstream = Upstream(start, policy.limits, self._session)
        self._calls = CallRelay(self._upstream, policy, make_pipeline)
        self._reader, self._writer = reader, writer
        self._open: dict[str, _Open] = {}
        self._running: dict[str, _Running] = {}
        self._held = 0  # bytes of the calls that run
        self._asked: dict[str, object] = {}  # the ids of what the server has asked the client, by their keys
        self._void: dict[str, object] = {}  # as above, asked by a server that has ended
        self._idle = anyio.Event()
        self._group: TaskGroup = anyio.create_task_group()

    async def run(self) -> None:
        """Relay until the client closes its end.

        Raises:
            ServerFailedError: The server cannot be started, or ends again and again.
        """
        failed: ServerFailedError | None = None
        async with anyio.create_task_group() as self._group:
            self._group.start_soon(self._serve_client)
            try:
                await self._upstream.run(self, self._group)
            except BrokenLineError:  # the client is gone
                pass
            except ServerFailedError as exc:
                failed = exc
            self._group.cancel_scope.cancel()
        if failed is not None:  # not raised inside: a task group would put it into a group of exceptions
            raise failed

    async def _serve_client(self) -> None:
        with suppress(BrokenLineError):  # it reads no more
            while (line := await self._reader.read()) is not None:
                await self._take_from_client(line)
            with anyio.move_on_after(_DRAINING):
                while self._running:
                    self._idle = anyio.Event()
                    await self._idle.wait()
        await self._upstream.stop()
        self._group.cancel_scope.cancel()

    async def _take_from_client(self, line: bytes | LongLine) -> None:
        if isinstance(line, LongLine):
            await self._refuse_long(line)
            return
        if not line.strip():
            await self._pass_on(line, None, None)
            return
        try:
            message: object = parse(line)
        except ValueError as exc:  # it may hold a call that another reader would find, so it is not passed on
            await self._writer.write(dump(make_error(None, PARSE_ERROR, f"Parse error: {exc}")))
            return
        line = line if line.endswith(b"\n") else line + b"\n"
        if isinstance(message, list):
            await self._take_batch(cast("list[object]", message), line)
        elif not is_message(message) or not await self._keep(message, len(line), None):
            await self._pass_on(line, message if is_message(message) else None, None)

    async def _take_batch(self, messages: list[object], line: bytes) -> None:
        if not any(is_message(each) and self._is_ours(each) for each in messages):
            for each in messages:
                if is_message(each):
                    self._note_sent(each, None)
            await self._pass_on(line, None, None)
            return
        asked = [each for each in messages if is_message(each) and is_request(each) and is_id(each["id"])]
        batch = CallBatch({key_of(each["id"]) for each in asked})
        rest: list[object] = []
        for each in messages:
            if not is_message(each) or not await self._keep(each, len(line) // len(messages), batch):
                rest.append(each)
        if rest:
            for each in rest:
                if is_message(each):
                    self._note_sent(each, batch)
            await self._pass_on(dump(rest), None, None, [each for each in rest if is_message(each)])

    def _is_ours(self, message: Message) -> bool:
        """Whether a message does not simply pass."""
        method = message.get("method")
        if method == _CALL:
            return True
        if method == _CANCELLED:
            return key_of(read_object(message, "params").get("requestId")) in self._running
        return method is None and key_of(message.get("id")) in self._void

    async def _keep(self, message: Message, size: int, batch: CallBatch | None) -> bool:
        """Deal with a message that does not pass. Returns False for one that does."""
        if not self._is_ours(message):
            return False
        method = message.get("method")
        if method == _CALL:
            await self._begin(message, size, batch)
        elif method == _CANCELLED:
            key = key_of(read_object(message, "params").get("requestId"))
            self._running[key].scope.cancel()
        else:  # an answer to a server that is no more
            del self._void[key_of(message.get("id"))]
        return True

    async def _begin(self, request: Message, size: int, batch: CallBatch | None) -> None:
        request_id = request.get("id")
        if not is_id(request_id):
            if "id" in request:
                await self._writer.write(dump(make_error(None, INVALID_REQUEST, "the id must be a string or a number")))
            return  # a call that wants no answer is none of MCP, and would pass by all rules
        key = key_of(request_id)
        if key in self._running:
            text = f"the id {key} is that of a call that runs"
            await self._writer.write(dump(make_error(request_id, INVALID_REQUEST, text)))
            return
        full = len(self._running) >= self._limits.in_flight
        if full or (self._running and self._held + size > self._limits.in_flight_bytes):
            modern = "io.modelcontextprotocol/protocolVersion" in read_object(read_object(request, "params"), "_meta")
            result = make_error_result(Unavailable(str(request.get("name", "")), "busy"), complete=modern)
            await self._reply(key, dump({"jsonrpc": "2.0", "id": request_id, "result": result}), batch)
            return
        running = self._running[key] = _Running(anyio.CancelScope(), size, batch)
        self._held += size
        self._group.start_soon(self._run_call, key, request, running)

    async def _run_call(self, key: str, request: Message, running: _Running) -> None:
        answer: bytes | None = None
        try:
            with running.scope:
                answer = await self._calls.answer(request)
        except Exception:  # the border: one call must not end the relay
            _LOG.exception("a call could not be relayed")
            answer = dump(make_error(request["id"], INTERNAL_ERROR, "Internal error"))
        finally:
            del self._running[key]
            self._held -= running.size
            if not self._running:
                self._idle.set()
        try:
            await self._reply(key, answer, running.batch)
        except BrokenLineError:  # the client is gone
            self._group.cancel_scope.cancel()

    async def _reply(self, key: str, answer: bytes | None, batch: CallBatch | None) -> None:
        """Answer the client; None: the request was cancelled, and gets no answer."""
        if batch is not None:
            whole = batch.add(key, None if answer is None else parse(answer))
            answer = None if whole is None else dump(whole)
        if answer is not None:
            await self._writer.write(answer)

    def _note_sent(self, message: Message, batch: CallBatch | None) -> None:
        """Remember what is passed to the server."""
        method = message.get("method")
        if is_request(message):
            if len(self._open) >= self._limits.in_flight:  # the oldest is forgotten: it may never be answered
                del self._open[next(iter(self._open))]
            self._open[key_of(message["id"])] = _Open(message, self._calls.known.changes, batch)
        elif method == _CANCELLED:
            found = self._open.pop(key_of(read_object(message, "params").get("requestId")), None)
            del found
        elif method is None:
            self._asked.pop(key_of(message.get("id")), None)
        self._session.note_sent(message)

    async def _pass_on(
        self, line: bytes, message: Message | None, batch: CallBatch | None, messages: list[Message] | None = None
    ) -> None:
        """Pass a line to the server."""
        if message is not None:
            self._note_sent(message, batch)
        try:
            await self._upstream.send(line)
        except ServerGoneError:
            for each in messages or ([] if message is None else [message]):
                if is_request(each):
                    await self._fail_open(key_of(each["id"]))

    async def _refuse_long(self, line: LongLine) -> None:
        request_id, is_an_answer = find_id(line.head, line.tail)
        text = f"the message of {line.size:,} bytes is longer than {self._limits.line_bytes:,}"
        _LOG.warning("%s, and was thrown away", text)
        if is_an_answer:  # the server waits for it
            try:
                await self._upstream.send(dump(make_error(request_id, INVALID_REQUEST, text)))
            except ServerGoneError:
                return
        else:
            await self._writer.write(dump(make_error(request_id, INVALID_REQUEST, text)))

    async def take_from_server(self, line: bytes | LongLine) -> bool:
        """A line of the server, for the client or for us. Returns whether it is a message."""
        if isinstance(line, LongLine):
            await self._take_long(line)
            return True
        if not line.strip():
            await self._writer.write(line)
            return False
        try:
            message: object = parse(line)
        except ValueError:
            if line.endswith(b"\n"):  # or the server died in the middle of it
                await self._writer.write(line)
            return False
        line = line if line.endswith(b"\n") else line + b"\n"
        if isinstance(message, list):
            rest = [each for each in cast("list[object]", message) if not await self._take(each, b"")]
            if len(rest) == len(cast("list[object]", message)):
                await self._writer.write(line)
            elif rest:
                await self._writer.write(dump(rest))
        elif not await self._take(message, line):
            await self._writer.write(line)
        return True

    async def _take(self, message: object, line: bytes) -> bool:
        """Read a message of the server. Returns whether it goes no further."""
        if not is_message(message):
            return False
        method = message.get("method")
        if is_answer(message):
            return await self._take_answer(message, line)
        if method is not None and "id" in message:
            if len(self._asked) < self._limits.in_flight:
                self._asked[key_of(message["id"])] = message["id"]
        elif method == _LIST_CHANGED:
            self._calls.known.forget()
        elif method == _PROGRESS:
            self._calls.note_progress(message)
        elif method == _CANCELLED:
            self._asked.pop(key_of(read_object(message, "params").get("requestId")), None)
        return False

    async def _take_answer(self, answer: Message, line: bytes) -> bool:
        request_id = answer.get("id")
        if self._upstream.deliver(request_id, answer, line):
            return True
        key = key_of(request_id)
        found = self._open.pop(key, None)
        if found is None:
            return False
        self._session.note_answer(answer)
        if found.request.get("method") == _LIST:
            self._calls.known.learn_page(read_object(found.request, "params"), found.changes, answer)
        if found.batch is None:
            return False
        await self._reply(key, dump(answer), found.batch)
        return True

    async def _take_long(self, line: LongLine) -> None:
        request_id, is_an_answer = find_id(line.head, line.tail)
        text = f"the message of {line.size:,} bytes is longer than {self._limits.line_bytes:,}"
        _LOG.warning("%s, and was thrown away; it came from the server", text)
        if not is_an_answer:
            if request_id is not None:
                await self._upstream.send(dump(make_error(request_id, INVALID_REQUEST, text)))
        elif not self._upstream.deliver(request_id, AnswerTooLongError()) and key_of(request_id) in self._open:
            found = self._open.pop(key_of(request_id))
            await self._reply(key_of(request_id), dump(make_error(request_id, INTERNAL_ERROR, text)), found.batch)

    async def learn_of_death(self) -> None:
        """The server ended: tell the client of what it will not answer, and of what it does not ask any more."""
        self._calls.known.forget()
        self._session.forget_open()
        for key in list(self._open):
            await self._fail_open(key)
        asked, self._asked = self._asked, {}
        self._void = asked
        for request_id in asked.values():
            told: dict[str, Any] = {"requestId": request_id, "reason": "the server that asked has ended"}
            await self._writer.write(dump({"jsonrpc": "2.0", "method": _CANCELLED, "params": told}))

    async def _fail_open(self, key: str) -> None:
        found = self._open.pop(key, None)
        if found is None:
            return
        method = neutralise(str(found.request.get("method")))
        text = f"the server ended before it answered {method}; it is started again"
        await self._reply(key, dump(make_error(found.request["id"], SERVER_ENDED, text)), found.batch)
