"""A FastMCP server, with the pipeline around its tools. Run by `make test-hosts` with the real package."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import Middleware
from fastmcp.tools.base import ToolResult

from middlewares import standard
from pipeline import ToolContext, ToolFailed, ToolRegistry
from pipeline.hosts.fastmcp import ToolcallMiddleware, export_tools


@pytest.fixture
def anyio_backend() -> str:
    """One of the loops is enough."""
    return "asyncio"


def make(*functions: Any, effects: Any = None, **options: Any) -> FastMCP:
    server = FastMCP("tools")
    for function in functions:
        server.tool(function)
    server.add_middleware(ToolcallMiddleware(effects, **options))
    return server


async def ask(server: FastMCP, name: str, **arguments: Any) -> Any:
    async with Client(server) as client:
        return await client.call_tool(name, arguments, raise_on_error=False)


async def test_the_context_and_what_a_tool_returns_stay_the_servers() -> None:
    """The context is injected, progress is told, structured results and a ToolError's text arrive."""
    told: list[float] = []

    async def work(n: int, ctx: Context) -> dict[str, int]:
        await ctx.report_progress(n, 2)
        return {"n": n}

    def result() -> ToolResult:
        return ToolResult(content="text", structured_content={"a": 1})

    def refuse() -> str:
        raise ToolError("Ask for fewer.")

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    server = make(work, result, refuse)
    async with Client(server) as client:
        answer = await client.call_tool("work", {"n": "1"}, progress_handler=listen)
        assert answer.structured_content == {"n": 1}
        assert (await client.call_tool("result", {})).structured_content == {"a": 1}
        refused = await client.call_tool("refuse", {}, raise_on_error=False)
    assert told == [1]
    assert refused.is_error
    assert "Ask for fewer." in refused.content[0].text


async def test_a_tool_that_another_middleware_hides_is_not_named() -> None:
    """What `tools/list` does not show this client is no suggestion."""

    class Hide(Middleware):
        async def on_list_tools(self, context: Any, call_next: Any) -> Any:
            return [tool for tool in await call_next(context) if tool.name != "delete_all"]

    def delete_all() -> str:
        return "gone"

    def add(a: int) -> int:
        return a

    server = make(add, delete_all)
    server.add_middleware(Hide())
    assert "delete_all" not in (await ask(server, "delete_al")).content[0].text.replace("delete_al'", "")
    assert "add" in (await ask(server, "ad")).content[0].text


async def test_servers_that_share_a_middleware_keep_their_tools() -> None:
    """Two tools of one name, two calls at once; tools that come and go are known at once."""
    ours, go_on = ToolcallMiddleware(), asyncio.Event()
    first, second = FastMCP("one"), FastMCP("two")
    for server in (first, second):
        server.add_middleware(ours)

    @first.tool(name="find")
    async def by_number(n: int) -> str:
        await go_on.wait()
        return f"number {n}"

    @second.tool(name="find")
    def by_text(text: str) -> str:
        return f"text {text}"

    task = asyncio.create_task(ask(first, "find", n="1"))
    assert (await ask(second, "find", text="x")).content[0].text == "text x"
    go_on.set()
    assert (await asyncio.wait_for(task, 20)).content[0].text == "number 1"

    @second.tool
    def later(n: int) -> int:
        return n

    assert (await ask(second, "later", n="3")).data == 3
    second.local_provider.remove_tool("later")
    assert "not found" in (await ask(second, "later", n="3")).content[0].text


@pytest.mark.parametrize(("hints", "runs"), [({"readOnlyHint": True}, 2), ({}, 1)])
async def test_what_may_have_taken_effect_is_run_once(hints: Any, runs: int) -> None:
    """A lost call of a tool that changes something is not repeated."""
    ran: list[int] = []
    server = FastMCP("tools")
    server.add_middleware(ToolcallMiddleware(attempts=2))

    @server.tool(annotations=hints)
    def send(n: int) -> str:
        ran.append(n)
        raise ConnectionError("503")

    assert (await ask(server, "send", n=1)).is_error
    assert len(ran) == runs


async def test_a_time_limit_ends_the_tool_and_calls_at_once_run_at_once() -> None:
    """The tool's task is cancelled; two calls of one client wait for each other."""
    ended: list[int] = []
    both = asyncio.Barrier(2)

    async def hang(n: int) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(n)
        return "never"

    async def meet(n: int) -> int:
        await both.wait()
        return n

    server = make(hang, meet, effects={"hang": "read"}, timeout=10, attempts=1)
    slow = make(hang, effects={"hang": "read"}, timeout=0.05, attempts=1)
    assert "did not finish" in (await ask(slow, "hang", n=1)).content[0].text
    assert ended == [1]
    async with Client(server) as client:
        one, two = await asyncio.gather(client.call_tool("meet", {"n": 1}), client.call_tool("meet", {"n": 2}))
    assert (one.data, two.data) == (1, 2)


async def test_a_registry_as_tools_of_a_server() -> None:
    """Repaired, refused and failed calls; failures are results with isError and a kind."""
    registry = ToolRegistry()

    @registry.tool(effect="read", context=True)
    def double(context: ToolContext[Any], n: int) -> dict[str, Any]:
        """Double."""
        return {"n": n * 2, "has_id": bool(context.call_id)}

    @registry.tool
    def fail(n: int) -> int:
        """Fail."""
        if n:
            raise ToolFailed("Ask for fewer.")
        raise ValueError("password=hunter2")

    server = FastMCP("tools")
    for tool in export_tools(registry, standard(registry)):
        server.add_tool(tool)
    async with Client(server) as client:
        listed = {tool.name: tool for tool in await client.list_tools()}
        assert listed["double"].annotations is not None
        assert listed["double"].annotations.read_only_hint is True
    right = await ask(server, "double", n="2")
    assert right.structured_content == {"n": 4, "has_id": True}
    missing, failed, crashed = [
        await ask(server, "double"),
        await ask(server, "fail", n=1),
        await ask(server, "fail", n=0),
    ]
    assert "Missing required parameter: n" in missing.content[0].text
    assert missing.meta["toolcall/kind"] == "validation"
    assert "Ask for fewer." in failed.content[0].text
    assert "hunter2" not in crashed.content[0].text
    assert missing.is_error
    assert failed.is_error
    assert crashed.is_error
