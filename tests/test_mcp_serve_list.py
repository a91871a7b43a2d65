"""Clients of a server are told when its list of tools changes: once for each change, from any thread."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from threading import Thread
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from support import PATIENT, a_tool
from toolcall_pipeline import ToolRegistry, ToolView, Unavailable
from toolcall_pipeline.mcp.served_tools import ServedTools
from toolcall_pipeline.mcp.serving import ListAudience
from toolcall_pipeline.testing import FakeClock


class Client:
    """A connection that is told."""

    def __init__(self) -> None:
        self.told = 0
        self.deaf = False

    async def send_tool_list_changed(self) -> None:
        if self.deaf:
            await anyio.sleep_forever()
        self.told += 1


class Desk:
    """A registry with two tools, a client, and those that listen."""

    def __init__(self) -> None:
        self.tools, self.client, self.published = ToolRegistry(), Client(), 0
        for name in ("one", "two"):
            self.tools.register(a_tool(name))
        self.audience: Any = None

    async def publish(self) -> None:
        self.published += 1


@asynccontextmanager
async def watched(*registries: ToolView) -> AsyncGenerator[Desk, None]:
    desk = Desk()
    desk.audience = ListAudience(ServedTools(registries or [desk.tools]), desk.publish)
    desk.audience.add(desk.client)
    async with anyio.create_task_group() as group:
        group.start_soon(desk.audience.watch)
        await anyio.wait_all_tasks_blocked()
        yield desk
        group.cancel_scope.cancel()


async def test_what_changes_the_list_is_told() -> None:
    """A closed, opened, new or removed tool is one notification; what changes no list is none."""
    async with watched() as desk:
        steps: list[tuple[Any, int]] = [
            (lambda: desk.tools.disable("one"), 1),
            (lambda: desk.tools.pause("one", 3600), 1),  # closed already
            (lambda: desk.tools.enable("one"), 1),
            (lambda: desk.tools.resume("one"), 2),
            (lambda: desk.tools.register(a_tool("three")), 3),
            (lambda: desk.tools.replace(a_tool("three")), 4),
            (lambda: desk.tools.unregister("three"), 5),
            (lambda: desk.tools.register(a_tool("secret", hidden=True)), 5),
        ]
        for step, told in steps:
            step()
            await anyio.wait_all_tasks_blocked()
            assert (desk.client.told, desk.published) == (told, told)


async def test_many_changes_at_once_are_one() -> None:
    """Those of a thread as well."""
    async with watched() as desk:

        def change() -> None:
            for _ in range(1_000):
                desk.tools.disable("one")
                desk.tools.enable("one")
            desk.tools.disable("two")

        thread = Thread(target=change, daemon=True)
        thread.start()
        thread.join()
        with anyio.fail_after(PATIENT):
            while not desk.client.told:  # another thread has said so
                await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()
        assert 1 <= desk.client.told <= 2


async def test_a_tool_that_opens_by_itself() -> None:
    """A lock that ends has no listener: its time is waited for, once. A pause that stays is not asked about again."""
    with FakeClock() as clock:
        async with watched() as desk:
            ends = clock() + 60
            desk.tools.close(Unavailable("one", "breaker_open"), lambda: ends - clock())
            desk.tools.pause("two", retry_after=5)
            await anyio.wait_all_tasks_blocked()
            assert desk.client.told == 1
            clock.advance(30)
            await anyio.wait_all_tasks_blocked()
            assert desk.client.told == 1
            clock.advance(31)
            await anyio.wait_all_tasks_blocked()
            assert desk.client.told == 2
            clock.advance(3600)
            await anyio.wait_all_tasks_blocked()
            assert desk.client.told == 2


async def test_a_client_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are told, and it is given up."""
    monkeypatch.setattr("toolcall_pipeline.mcp.serving._PATIENCE", 0)
    async with watched() as desk:
        other = Client()
        desk.audience.add(other)
        desk.client.deaf = True
        desk.tools.disable("one")
        await anyio.wait_all_tasks_blocked()
        desk.tools.enable("one")
        await anyio.wait_all_tasks_blocked()
        assert (desk.client.told, other.told, desk.published) == (0, 2, 2)


async def test_clients_that_are_gone_are_forgotten() -> None:
    """Nobody says when a connection ends; it is not kept."""
    async with watched() as desk:
        for _ in range(100):
            desk.audience.add(Client())
        assert len(desk.audience._connections) <= 2
        desk.tools.disable("one")
        await anyio.wait_all_tasks_blocked()
        assert desk.client.told == 1


async def test_several_registries_and_views() -> None:
    """Each registry of a pipeline is watched, and none when nobody serves any more."""
    one, two = ToolRegistry(), ToolRegistry()
    one.register(a_tool("a"))
    two.register(a_tool("b"))
    async with watched(one.view({"a"}), two) as desk:
        for told, change in enumerate((one.disable, one.enable), 1):
            change("a")
            await anyio.wait_all_tasks_blocked()
            assert desk.client.told == told
        two.disable("b")
        await anyio.wait_all_tasks_blocked()
        assert desk.client.told == 3
    told = desk.client.told
    two.enable("b")
    await anyio.wait_all_tasks_blocked()
    assert desk.client.told == told == 3
