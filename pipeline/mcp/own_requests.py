"""OwnRequests: the requests that a relay itself sends to a server, and who waits for their answers."""

from __future__ import annotations

import re
from secrets import token_hex
from typing import TypeGuard, cast

import anyio
import attrs

from .jsonrpc import Message, dump
from .server import Server, ServerGoneError


class UnusableAnswerError(Exception):
    """An answer came and was thrown away: it was longer than a line may be (``is_long``), or cannot be read."""

    def __init__(self, *, is_long: bool) -> None:
        super().__init__("too long" if is_long else "not to be read")
        self.is_long = is_long


@attrs.define(eq=False)
class OwnRequest:
    """A request of ours that waits for its answer."""

    request_id: str
    line: bytes
    server: Server | None = attrs.field(default=None, init=False)  # the run that was asked, or is being asked
    answer: Message | Exception | None = attrs.field(default=None, init=False)  # or the reason why none comes
    _event: anyio.Event = attrs.field(factory=anyio.Event, init=False)

    async def wait(self) -> Message:
        """Wait for the answer; ServerGoneError or UnusableAnswerError if none comes."""
        await self._event.wait()
        if isinstance(self.answer, dict):
            return self.answer
        raise cast("Exception", self.answer)

    def end(self, answer: Message | Exception) -> None:
        """Wake the waiting task; the first answer counts."""
        if self.answer is None:
            self.answer = answer
            self._event.set()

    def forget_run(self) -> None:
        """The run that was asked did not take it: a report of the end of that run does not count."""
        self.server = self.answer = None
        self._event = anyio.Event()


class OwnRequests:
    """The waiting requests, by random ids, so that no id of the client is one of them."""

    def __init__(self) -> None:
        self._prefix = f"toolcall-{token_hex(6)}-"
        self._our_id = re.compile(rb'"id"\s*:\s*"(%s\d+)"' % self._prefix.encode())
        self._number = 0
        self._waiting: dict[str, OwnRequest] = {}

    def open(self, method: str, params: object) -> OwnRequest:
        """Make a request that waits for its answer until `close`. ``params`` None: it has none."""
        self._number += 1
        request_id = f"{self._prefix}{self._number}"
        message: Message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        request = OwnRequest(request_id, dump(message if params is None else {**message, "params": params}))
        self._waiting[request_id] = request
        return request

    def close(self, request: OwnRequest) -> None:
        """Forget a request whose caller does not wait any more."""
        del self._waiting[request.request_id]

    def is_ours(self, request_id: object) -> TypeGuard[str]:
        """Whether an id is that of a request of ours, which may wait no more."""
        return isinstance(request_id, str) and request_id.startswith(self._prefix)

    def deliver(self, request_id: object, answer: Message | Exception) -> bool:
        """Hand an answer to the task that asked. Returns whether the request was ours.

        An answer without a waiting task, or a second one, is dropped.
        """
        if not self.is_ours(request_id):
            return False
        waiting = self._waiting.get(request_id)
        if waiting is not None:
            waiting.end(answer)
        return True

    def deliver_unusable(self, line: bytes, *, is_long: bool) -> bool:
        """Fail the task that waits for an answer that cannot be used. Returns whether the request was ours.

        The id is found in the text: our ids begin with a random text, so that nothing else is taken for one.
        """
        found = {each.decode() for each in self._our_id.findall(line)}
        return len(found) == 1 and self.deliver(found.pop(), UnusableAnswerError(is_long=is_long))

    def fail(self, server: Server) -> None:
        """A run of the server ended: fail the tasks that wait for its answers."""
        for waiting in self._waiting.values():
            if waiting.server is server:
                waiting.end(ServerGoneError("maybe"))
