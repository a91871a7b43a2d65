"""Upstream: the server behind a relay over all its runs. One that dies is started again and greeted again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from math import inf
from typing import Any, Final, Protocol

import anyio
from anyio.abc import TaskGroup

from ..base import timing
from ..policies.relay_policy import RelayLimits
from ..privacy import get_logger
from .jsonrpc import Message, dump, is_request, key_of, read_object
from .lines import LongLine
from .own_requests import OwnRequest, OwnRequests, UnusableAnswerError
from .server import Server, ServerGoneError, UnsendableError
from .server_session import Backoff

_LOG = get_logger()
_MAX_FRUITLESS = 5  # runs in a row without a line from the restarted server
_FIRST_DELAY, _MAX_DELAY = 0.05, 5.0  # seconds before a server is started again
_GONE = 0.5  # seconds for a server that closed its stdout to end
_CLOSING = 2.0  # seconds for each step of the shutdown
_CANCELLING = 1.0  # seconds to send the server a cancellation
INITIALIZE: Final = "initialize"
INITIALIZED: Final = "notifications/initialized"
_MAX_SUBSCRIPTIONS = 1_000
_MAX_BYTES = 100_000  # of a message that is sent again
_SET_LEVEL = "logging/setLevel"
_SUBSCRIBE, _UNSUBSCRIBE = "resources/subscribe", "resources/unsubscribe"


class ServerFailedError(Exception):
    """The server cannot be started, or ends again and again.

    Attributes:
        exit_code: How it ended; None: not known.
    """

    def __init__(self, text: str, exit_code: int | None) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class Downstream(Protocol):
    """The receiver of the server's messages: the relay."""

    async def take_from_server(self, line: bytes | LongLine) -> bool:
        """A line came. Returns whether it is a message, and not something that was printed by mistake."""
        ...

    async def learn_of_death(self) -> None:
        """The server ended. Its open requests never get an answer."""
        ...

    async def learn_of_return(self) -> None:
        """The server was started again, and greeted."""
        ...


class Upstream:
    """Talks with a server, and keeps it running.

    Attributes:
        own_requests: The requests that we have sent to it. The reader of an answer delivers it there.
    """

    def __init__(self, start: Callable[[], Awaitable[Server]], limits: RelayLimits, session: Session) -> None:
        self._start = start
        self._limits = limits
        self._session = session
        self._server: Server | None = None
        self._up = anyio.Event()  # set while a server runs that has been greeted
        self._down_since = timing.monotonic()
        self.own_requests = OwnRequests()
        self._stopping = False
        self._is_of_use = False  # this run has answered the client

    def note_use(self) -> None:
        """This run of the server has answered a request of the client, so to start it was worth it."""
        self._is_of_use = True

    async def run(self, downstream: Downstream, group: TaskGroup) -> None:
        """Start the server, and again whenever it ends."""
        fruitless, is_first = 0, True
        backoff = Backoff(_FIRST_DELAY, _MAX_DELAY)
        while True:
            try:
                self._server = server = await self._start()
            except OSError as exc:
                raise ServerFailedError(f"the server cannot be started: {exc}", None) from exc
            begun, self._is_of_use = timing.monotonic(), False
            try:
                if is_first:
                    self._up.set()
                else:
                    group.start_soon(self._greet, server, downstream)
                group.start_soon(self._watch, server)
                has_spoken = await self._read_all(server, downstream)
            finally:
                self._set_down()
                with anyio.CancelScope(shield=True):
                    await server.close(_GONE)
            self.own_requests.fail(server)
            await downstream.learn_of_death()
            if self._stopping:
                return
            fruitless = 0 if has_spoken else fruitless + 1
            may_come_back = server.is_remote
            if fruitless > (0 if is_first else inf if may_come_back else _MAX_FRUITLESS):
                raise ServerFailedError("the server ended before it answered anything", server.exit_code)
            _LOG.warning("the server ended (exit code %s) and is started again", server.exit_code)
            is_first = False
            await timing.sleep(backoff.next_delay(timing.monotonic() - begun, was_useful=self._is_of_use))

    async def _read_all(self, server: Server, downstream: Downstream) -> bool:
        has_spoken = False
        while (line := await server.read()) is not None:
            has_spoken |= await downstream.take_from_server(line)
        return has_spoken

    async def _watch(self, server: Server) -> None:
        await server.watch()
        if server.exit_code is not None:  # a process that it left behind may hold its stdout open
            await server.close(_GONE)

    async def _greet(self, server: Server, downstream: Downstream) -> None:
        """Say again what the client has said to the run before; then the waiting calls go on."""
        try:
            for message in self._session:
                if is_request(message):
                    with anyio.fail_after(self._limits.list_wait):
                        await self._ask(server, message["method"], message.get("params"))
                else:
                    with suppress(UnsendableError):  # the run before did not get it either
                        await server.send(dump(message))
        except (ServerGoneError, UnusableAnswerError):
            return
        except TimeoutError:
            _LOG.warning("the server does not answer its greeting, and is ended")
            await server.close(_GONE)
            return
        if server is self._server:
            self._up.set()
            await downstream.learn_of_return()

    async def stop(self) -> None:
        """End the server. Its last lines are still read."""
        self._stopping = True
        if self._server is not None:
            await self._server.close(_CLOSING)

    async def send(self, line: bytes) -> None:
        """Send a line, once the server is there. A line that an ended server did not take goes to the next one.

        Other lines wait for this one. So the time that it may wait counts from when the server went away: a hundred
        lines wait no longer than one.

        Raises:
            ServerGoneError: It ended with a part of the line, or is not there in time.
            UnsendableError: This server takes no such line.
        """
        await self._send(line)

    async def _send(self, line: bytes, request: OwnRequest | None = None) -> None:
        while True:
            server = await self._wait_for_server(self._down_since if request is None else timing.monotonic())
            if request is not None:
                request.server = server
            try:
                await server.send(line)
            except ServerGoneError as exc:
                if exc.landed != "no":
                    raise
                if request is not None:  # it may know already that this run ended
                    request.forget_run()
                if server is self._server:
                    self._set_down()
                await server.close(_GONE)  # one that reads no more is of no use, and `run` starts another
            else:
                return

    def _set_down(self) -> None:
        if self._up.is_set():  # else a task waits for this very event
            self._up = anyio.Event()
            self._down_since = timing.monotonic()

    async def _wait_for_server(self, since: float) -> Server:
        if not self._up.is_set():
            with anyio.move_on_after(since + self._limits.server_wait - timing.monotonic()):
                await self._up.wait()
        if self._server is None or not self._up.is_set():
            raise ServerGoneError("no", is_away=True)
        return self._server

    async def ask(self, method: str, params: Message) -> Message:
        """Send a request of ours, and wait for its answer; a caller who is cancelled cancels it at the server too.

        Raises:
            ServerGoneError: The server ended, or is not there in time.
            UnusableAnswerError: The answer was thrown away.
        """
        return await self._ask(None, method, params)

    async def _ask(self, server: Server | None, method: str, params: object) -> Message:
        """As `ask`; of one run of the server, or of the one that is there."""
        request = self.own_requests.open(method, params)
        try:
            if server is None:
                await self._send(request.line, request)
            else:
                request.server = server
                await server.send(request.line)
            return await request.wait()
        except anyio.get_cancelled_exc_class():
            await self._cancel(request.request_id)
            raise
        finally:
            self.own_requests.close(request)

    async def _cancel(self, request_id: str) -> None:
        told: Message = {"requestId": request_id, "reason": "the caller does not wait any more"}
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CANCELLING), suppress(ServerGoneError):
            if self._server is not None:
                line = dump({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": told})
                await self._server.send(line)


class Session:
    """The client's greeting, its log level and its subscriptions, in its own words.

    The versions without a handshake (from 2026) have none of them: each request says all that it needs.
    """

    def __init__(self) -> None:
        self._told: dict[str, Message] = {}  # in the order of sending them again
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

    def read_capabilities(self) -> Message:
        """The capabilities that the client declared in its handshake."""
        return read_object(read_object(self._told.get(f"{INITIALIZE} ", {}), "params"), "capabilities")

    @property
    def is_greeted(self) -> bool:
        """Whether there was a handshake, so that the server may announce changes without a listener."""
        return INITIALIZED in self._told

    def __iter__(self) -> Iterator[Message]:
        """The messages for a new server, in this order; the requests with the ids that they had."""
        return iter(list(self._told.values()))
