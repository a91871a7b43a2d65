"""An MCP server that a test plays, and a clock for what waits between two connections."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from support import PATIENT
from toolcall_pipeline import ToolRegistry
from toolcall_pipeline.base import timing
from toolcall_pipeline.mcp.adding import add_server
from toolcall_pipeline.mcp.remote_server import RemoteServer
from toolcall_pipeline.mcp.server_session import SessionLostError

Message = dict[str, Any]
Tell = Callable[[float, float | None, str], object]
OBJECT = {"type": "object"}


def definition(name: str = "read", description: Any = "Reads.", **more: Any) -> Message:
    """A tool as a server lists it."""
    return {"name": name, "description": description, "inputSchema": OBJECT, **more}


def said(text: str, **more: Any) -> Message:
    """A result with a text."""
    return {"content": [{"type": "text", "text": text}], "isError": False, **more}


async def answer_name(name: str, arguments: Message, tell: Tell) -> Message:
    """Answer with the name of the tool."""
    return said(name)


class ScriptedServer:
    """What the server has, and what happened to it."""

    def __init__(self, *tools: Message, answer: Callable[..., Awaitable[Message]] = answer_name) -> None:
        self.tools: list[Any] = list(tools) or [definition()]
        self.answer = answer
        self.down = False  # nobody can connect
        self.silent = False  # it lists nothing
        self.closed: anyio.Event | None = None  # for which the end of a connection waits
        self.connections = self.lists = self.cancelled = 0
        self.calls: list[tuple[str, Message]] = []
        self.page = 100  # tools of one page
        self._lost = anyio.Event()
        self._changed: Callable[[], object] = self.kill

    def kill(self) -> None:
        """End the connection."""
        self._lost.set()

    def change(self, *tools: Any) -> None:
        """List other tools, and say so."""
        self.tools = list(tools)
        self._changed()

    @asynccontextmanager
    async def connect(self, changed: Callable[[], object]) -> AsyncGenerator[ScriptedServer, None]:
        """Connect, as `sdk_session` does: what fails inside comes out in a group."""
        if self.down:
            raise ConnectionRefusedError("nobody there")
        self.connections += 1
        self._changed, self._lost = changed, anyio.Event()
        async with anyio.create_task_group():
            yield self
        if self.closed is not None:
            await self.closed.wait()

    async def list_page(self, cursor: str | None) -> Message:
        self.lists += 1
        if self.silent:
            await anyio.sleep_forever()
        start = int(cursor or 0)
        end = start + self.page
        following = {"nextCursor": str(end)} if end < len(self.tools) else {}
        return {"tools": self.tools[start:end], **following}

    async def call_tool(self, name: str, arguments: Message, tell: Tell) -> Message:
        lost = self._lost
        if lost.is_set():
            raise SessionLostError("gone", landed="no")
        self.calls.append((name, arguments))
        answers: list[Message] = []
        raised: list[Exception] = []

        async def work() -> None:
            try:
                answers.append(await self.answer(name, arguments, tell))
            except Exception as exc:
                raised.append(exc)
            group.cancel_scope.cancel()

        async def watch() -> None:
            await lost.wait()
            group.cancel_scope.cancel()

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(work)
                group.start_soon(watch)
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        if raised:
            raise raised[0]
        if not answers:
            raise SessionLostError("gone")
        return answers[0]

    async def wait_until_lost(self) -> None:
        await self._lost.wait()


def add(tools: ToolRegistry, played: ScriptedServer, **options: Any) -> AbstractAsyncContextManager[RemoteServer]:
    """Add the tools of a server, with the options of `add_server`."""
    return add_server(tools, None, connect=played.connect, **options)


class HeldTime:
    """Stands in for `timing.sleep`: who sleeps longer than a retry does wakes when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slept: list[float] = []
        self._now = 0.0
        self._sleepers: list[tuple[float, anyio.Event]] = []
        monkeypatch.setattr(timing, "sleep", self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if seconds < 0.15:  # a retry
            await anyio.lowlevel.checkpoint()
            return
        woken = anyio.Event()
        self._sleepers.append((self._now + seconds, woken))
        await woken.wait()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds
        for end, woken in self._sleepers:
            if end <= self._now + 1e-9:
                woken.set()


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    with anyio.fail_after(PATIENT):
        while not holds():
            await anyio.lowlevel.checkpoint()
