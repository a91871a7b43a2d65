"""A server of MCP over two file descriptors. It ends with its input, after the calls that are under way.

The SDK's own transport reads in a thread, which no signal ends, and does not answer a line that is not a message.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream

from .jsonrpc import (
    INVALID_REQUEST,
    PARSE_ERROR,
    REPEATED,
    Message,
    dump,
    find_id,
    find_unread_id,
    is_id,
    is_message,
    key_of,
    make_error,
    parse,
    read_object,
)
from .lines import BrokenLineError, LineReader, LineWriter, LongLine
from .sdk_server import SdkServer

_LONGEST: Final = 16_777_216  # bytes of a line, as for the proxy
_MOST_WAITING: Final = 67_108_864  # bytes of answers that wait to be written, as for the proxy
_OUTCOMES: Final = frozenset(("result", "error"))  # of an answer, whose id is one of ours
_GRACE: Final = 5.0  # seconds for the calls that are under way when the input ends
_ENDLESS: Final = "subscriptions/listen"  # a request that has no answer until the end


class StdioTransport:
    """The two streams that the server of the SDK is run with: `run` does it."""

    def __init__(self, stdin: int, stdout: int) -> None:
        sdk = SdkServer.load()
        self._make = sdk.message
        self._adapter = sdk.types.jsonrpc_message_adapter
        self._reader = LineReader(stdin, _LONGEST)
        self._writer = LineWriter(stdout)
        self._reading = anyio.CancelScope()
        self._stopped = False
        self._open: set[str] = set()  # the requests that have no answer
        self._settled = anyio.Event()

    async def run(self, server: Any) -> None:
        """Serve one client until its input ends, or until `stop`."""
        await server.run(_Incoming(self), _Outgoing(self), server.create_initialization_options())

    def stop(self) -> None:
        """Read no more. The calls that are under way have the same time as at the end of the input."""
        self._stopped = True
        self._reading.cancel()

    async def receive(self) -> Any:
        """The next message.

        Raises:
            anyio.EndOfStream: The input has ended, and each request is answered or has had its time.
        """
        while True:
            line: bytes | LongLine | None = None
            with anyio.CancelScope() as self._reading:
                if self._stopped:
                    self._reading.cancel()
                await self._writer.wait_for_room(_MOST_WAITING)  # a client that does not read would fill the memory
                line = await self._reader.read()
            if line is None:
                await self._wait_for_answers()
                raise anyio.EndOfStream
            if isinstance(line, LongLine):
                await self._refuse_long(line)
            elif line.strip():
                message = await self._read(line)
                if message is not None and await self._note(message):
                    return self._make(message)

    async def send(self, item: Any) -> None:
        """Write a message; anyio.BrokenResourceError if the reader has gone."""
        message = item.message
        try:
            line: bytes = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        except ValueError:  # half of a surrogate pair, which JSON can escape and UTF-8 cannot hold
            line = dump(message.model_dump(by_alias=True, exclude_unset=True))
        await self._write(line)
        if not hasattr(message, "method"):
            self._settle(message.id)

    async def _write(self, line: bytes) -> None:
        try:
            await self._writer.write(line)
        except BrokenLineError as exc:
            raise anyio.BrokenResourceError from exc

    async def _read(self, line: bytes) -> Any:
        """Return the message in a line; None: it holds none, and the client gets an error."""
        message: Any = None
        with suppress(ValueError):  # also for what this parser does not read: deep nesting, half of a surrogate pair
            message = self._adapter.validate_json(line, by_name=False)
        if message is not None and (hasattr(message, "id") or not (b'"id"' in line or b"\\u" in line)):
            return message
        found: object = None
        try:
            found = parse(line)
            message = self._adapter.validate_python(found, by_name=False)
        except ValueError:
            message = None
        # With an invalid id a request would pass for a notification, and its client would get no answer.
        if message is not None and (hasattr(message, "id") or not (is_message(found) and "id" in found)):
            return message
        if found is None:
            request_id, is_answer = find_unread_id(line)
            answer = make_error(None if is_answer else request_id, PARSE_ERROR, "Parse error")
        else:
            sent: object = found.get("id") if is_message(found) and not found.keys() & _OUTCOMES else None
            answer = make_error(sent if is_id(sent) else None, INVALID_REQUEST, "Invalid request")
        await self._answer(answer)
        return None

    async def _refuse_long(self, line: LongLine) -> None:
        request_id, is_answer = find_id(line.head, line.tail)
        if not is_answer:
            text = f"The message is longer than {_LONGEST:,} bytes, and was thrown away."
            await self._answer(make_error(request_id, INVALID_REQUEST, text))

    async def _answer(self, answer: Message) -> None:
        try:
            await self._write(dump(answer))
        except anyio.BrokenResourceError:
            self.stop()

    async def _note(self, message: Any) -> bool:
        """Keep in mind which requests are open. One that is cancelled gets no answer.

        Returns False for a request with the id of an open one, which is refused: two answers would have one id.
        """
        method, request_id = getattr(message, "method", None), getattr(message, "id", None)
        if method == "notifications/cancelled":
            self._settle(read_object({"params": message.params}, "params").get("requestId"))
        elif method is not None and method != _ENDLESS and request_id is not None:
            key = key_of(request_id)
            if key in self._open:
                await self._answer(make_error(request_id, INVALID_REQUEST, REPEATED))
                return False
            self._open.add(key)
        return True

    def _settle(self, request_id: object) -> None:
        self._open.discard(key_of(request_id))
        if not self._open:
            self._settled.set()

    async def _wait_for_answers(self) -> None:
        if self._open:
            self._settled = anyio.Event()
            with anyio.move_on_after(_GRACE):
                await self._settled.wait()


class _End:
    """The part that both ends share: closing them leaves the file descriptors open."""

    def __init__(self, transport: StdioTransport) -> None:
        self._transport = transport

    async def aclose(self) -> None:
        """Close nothing."""


class _Incoming(_End, ObjectReceiveStream[Any]):
    async def receive(self) -> Any:
        return await self._transport.receive()


class _Outgoing(_End, ObjectSendStream[Any]):
    async def send(self, item: Any) -> None:
        await self._transport.send(item)
