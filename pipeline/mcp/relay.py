"""Relay: stands between a client and a server of MCP. Calls of tools pass a pipeline, all else keeps its values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
from anyio.abc import TaskGroup

from ..engine.compose import Pipeline
from ..policies.relay_policy import RelayPolicy
from ..privacy import get_logger
from ..tools import ToolRegistry
from .asking_person import ClientQuestions
from .call_relay import CallRelay
from .client_lines import ClientLines
from .jsonrpc import CallBatch, dump
from .lines import BrokenLineError, LineReader, LineWriter, LongLine
from .open_requests import CANCELLED, OpenRequests
from .running_calls import RunningCalls
from .server import Server
from .server_lines import LIST_CHANGED, ServerLines
from .upstream import ServerFailedError, Session, Upstream

_LOG = get_logger()
_DRAINING = 5.0  # seconds for calls to end after the client closed its end
_LOOK = 1.0  # seconds between two looks at whether the client is gone


class Relay:
    """Stands between one client and one server."""

    def __init__(
        self,
        start: Callable[[], Awaitable[Server]],
        policy: RelayPolicy,
        make_pipeline: Callable[[ToolRegistry], Pipeline],
        reader: LineReader,
        writer: LineWriter,
    ) -> None:
        self._session = session = Session()
        self._upstream = Upstream(start, policy.limits, session)
        questions = ClientQuestions(writer, session.read_capabilities)
        self._calls = CallRelay(self._upstream, policy, make_pipeline, questions)
        self._running = RunningCalls(self._calls, policy.limits, self._reply)
        self._open = OpenRequests(policy.limits.in_flight, session)
        self._taken = 0  # lines of the client that were dealt with
        self._has_read_all = False
        self._reader, self._writer = reader, writer
        self._group: TaskGroup = anyio.create_task_group()
        self._client_lines = ClientLines(
            upstream=self._upstream,
            known=self._calls.known,
            running=self._running,
            open_requests=self._open,
            questions=questions,
            reply=self._reply,
            writer=writer,
            group=self._group,
            max_line=policy.limits.line_bytes,
        )
        self._server_lines = ServerLines(
            upstream=self._upstream,
            calls=self._calls,
            running=self._running,
            open_requests=self._open,
            reply=self._reply,
            writer=writer,
            limits=policy.limits,
        )

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline that calls pass; open it around `run`."""
        return self._calls.pipeline

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
        """End the relay if the client is gone and one of its lines waits for a reader that takes nothing."""
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
                await self._client_lines.take(line)
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

    async def take_from_server(self, line: bytes | LongLine) -> bool:
        """As `ServerLines.take`."""
        return await self._server_lines.take(line)

    async def learn_of_death(self) -> None:
        """The server ended: report to the client its open requests, and the questions that are void."""
        self._calls.known.note_death()
        sent, asked = self._open.end(self._client_lines.passing)
        for request in sent:
            await self._client_lines.fail(request)
        for request_id in asked:
            told: dict[str, Any] = {"requestId": request_id, "reason": "the server that asked has ended"}
            await self._writer.write(dump({"jsonrpc": "2.0", "method": CANCELLED, "params": told}))

    async def learn_of_return(self) -> None:
        """The server is back: notify a client that has listed its tools, if they changed."""
        if not self._session.is_greeted or not await self._calls.find_changes():
            return
        try:
            await self._writer.write(dump({"jsonrpc": "2.0", "method": LIST_CHANGED}))
        except BrokenLineError:  # the client is gone
            self._group.cancel_scope.cancel()
