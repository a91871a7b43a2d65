"""RunningCalls: the calls of tools that run at once behind a relay, within its limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio
import attrs
from anyio.abc import TaskGroup

from ..engine.errors import Unavailable
from ..policies.relay_policy import RelayLimits
from ..privacy import get_logger
from .call_relay import CallRelay
from .jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PROTOCOL_VERSION,
    REPEATED,
    CallBatch,
    Message,
    dump,
    is_id,
    key_of,
    make_error,
    read_object,
)
from .lines import BrokenLineError
from .result_blocks import make_error_result

_LOG = get_logger()

# Sends the answer to the request of that key, maybe as a part of a batch. None: it was cancelled, and gets no answer.
Reply: TypeAlias = Callable[[str, bytes | None, CallBatch | None], Awaitable[None]]


@attrs.frozen
class _Running:
    scope: anyio.CancelScope
    size: int


class RunningCalls:
    """Runs calls, each in a task of its own."""

    def __init__(self, relay: CallRelay, limits: RelayLimits, reply: Reply) -> None:
        self._relay = relay
        self._limits = limits
        self._reply = reply
        self._running: dict[str, _Running] = {}
        self._held = 0  # bytes of the calls that run
        self._idle = anyio.Event()

    def __contains__(self, key: str) -> bool:
        return key in self._running

    def cancel(self, key: str) -> None:
        """Cancel a call that runs."""
        self._running[key].scope.cancel()

    async def wait(self) -> None:
        """Wait until none runs."""
        while self._running:
            self._idle = anyio.Event()
            await self._idle.wait()

    async def begin(self, request: Message, size: int, batch: CallBatch | None, group: TaskGroup) -> None:
        """Begin a call, or answer why it does not begin."""
        if "id" not in request:  # a notification: MCP has no such call of a tool
            return
        request_id = request["id"]
        key = key_of(request_id)
        if not is_id(request_id):
            error = make_error(None, INVALID_REQUEST, "the id must be a string or an integer")
            await self._reply(key, dump(error), batch)
        elif key in self._running:
            error = make_error(request_id, INVALID_REQUEST, REPEATED)
            await self._reply(key, dump(error), batch)
        elif self._is_full(size):
            is_modern = PROTOCOL_VERSION in read_object(read_object(request, "params"), "_meta")
            result = make_error_result(Unavailable("", "busy"), complete=is_modern, wording=self._relay.wording)
            await self._reply(key, dump({"jsonrpc": "2.0", "id": request_id, "result": result}), batch)
        else:
            running = self._running[key] = _Running(anyio.CancelScope(), size)
            self._held += size
            group.start_soon(self._run, key, request, running, batch, group)

    def _is_full(self, size: int) -> bool:
        """Whether a call of that size has to come later. One alone may be as large as a line."""
        if len(self._running) >= self._limits.in_flight:
            return True
        return bool(self._running) and self._held + size > self._limits.in_flight_bytes

    async def _run(
        self, key: str, request: Message, running: _Running, batch: CallBatch | None, group: TaskGroup
    ) -> None:
        answer: bytes | None = None
        try:
            with running.scope:
                answer = await self._relay.answer(request)
        except Exception:  # noqa: BLE001  # the border: one call must not end the relay
            _LOG.exception("a call could not be relayed")
            answer = dump(make_error(request["id"], INTERNAL_ERROR, "Internal error"))
        try:
            await self._reply(key, answer, batch)
        except BrokenLineError:  # the client is gone
            group.cancel_scope.cancel()
        finally:
            del self._running[key]
            self._held -= running.size
            if not self._running:
                self._idle.set()
