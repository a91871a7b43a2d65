"""A FastMCP server, with the pipeline around its tools. Run by `make test-hosts` with the real package."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx2 as httpx
import pytest
import uvicorn
from fastmcp import Client, Context, FastMCP
from fastmcp.apps.app import FastMCPApp
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import DisabledError, InsufficientScopeError, NotFoundError, ToolError
from fastmcp.server import create_proxy
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.server.middleware import Middleware
from fastmcp.server.providers.addressing import hashed_backend_name
from fastmcp.server.transforms.search import RegexSearchTransform
from fastmcp.tools.base import ToolResult
from mcp import MCPError
from mcp.types import ImageContent, TextContent
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import AfterValidator

from host_comparison import MINE, TOLD_OF_AD, TOLD_OF_ADD, RunCall, compare
from killed_host import kill_and_ask_again
from toolcall_pipeline import CallReport, Pipeline, ToolContext, ToolFailed, ToolRegistry
from toolcall_pipeline.hosts.fastmcp import ToolcallMiddleware, export_tools
from toolcall_pipeline.mcp.known_clients import UNKNOWN
from toolcall_pipeline.messages import Image, Link
from toolcall_pipeline.middlewares import Ledger, Retry, Trace, standard
from toolcall_pipeline.stores import Memory
from turns import OTHER, RUNS, TURNS, Turn, check_turns, send


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


def not_negative(value: int) -> int:
    if value < 0:
        raise ValueError("must not be negative")
    return value


async def test_a_validator_of_the_function_tells_what_is_wrong() -> None:
    """It knows more than the schema says; what it refuses is the model's to mend."""

    def add(n: Annotated[int, AfterValidator(not_negative)]) -> int:
        return n

    answer = await ask(make(add), "add", n=-1)
    assert answer.meta["toolcall/kind"] == "validation"
    assert "must not be negative" in answer.content[0].text


@pytest.mark.parametrize(
    ("wait", "raised"),
    [(None, httpx.ReadTimeout("late")), (0.01, None), (None, MCPError(-32001, "Request timed out"))],
    ids=["client", "FastMCP", "proxy"],
)
@pytest.mark.parametrize(("hints", "kind"), [({"readOnlyHint": True}, "timeout"), ({}, "outcome_unknown")])
async def test_a_time_out_is_none_that_asks_to_try_again(wait: Any, raised: Any, hints: Any, kind: str) -> None:
    """FastMCP tells the model to try again, also where the call may have taken effect."""

    async def send() -> None:
        if raised is not None:
            raise raised
        await asyncio.Event().wait()

    server = FastMCP("tools")
    server.tool(send, timeout=wait, annotations=hints)
    server.add_middleware(ToolcallMiddleware(attempts=1))
    answer = await ask(server, "send")
    assert answer.meta["toolcall/kind"] == kind
    assert "retry" not in answer.content[0].text


@pytest.mark.parametrize("raised", [MCPError(-32021, "a capability is missing"), InsufficientScopeError(["write"])])
async def test_an_answer_of_the_protocol_passes(raised: Exception) -> None:
    """A client has to see it as it is."""

    def send() -> None:
        raise raised

    answers: list[str] = []
    for ours in ([ToolcallMiddleware()], []):
        server = FastMCP("tools", middleware=ours)
        server.tool(send)
        try:
            answers.append(str((await ask(server, "send")).content))
        except MCPError as exc:
            answers.append(str(exc))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("raised", [NotFoundError("Unknown tool: 'x'"), DisabledError("x is off"), MCPError(1, "no x")])
@pytest.mark.parametrize("masked", [True, False])
async def test_an_error_of_the_framework_inside_of_a_tool_is_told(raised: Exception, masked: bool) -> None:
    """A tool that calls others says which it did not find, unless the author hides what errors say."""

    def call_tool() -> None:
        raise raised

    server = FastMCP("tools", mask_error_details=masked)
    server.tool(call_tool)
    server.add_middleware(ToolcallMiddleware())
    answer = await ask(server, "call_tool")
    assert answer.meta["toolcall/kind"] == "execution"
    assert (str(raised) in answer.content[0].text) is not masked


@pytest.mark.parametrize("name", ["drop", "functions.drop", '"drop"'])
@pytest.mark.parametrize("ours_first", [True, False])
async def test_no_way_to_write_a_name_passes_a_guard(name: str, ours_first: bool) -> None:
    """A middleware that decides by the name is asked about the tool that will run, whatever the order."""
    ran: list[int] = []

    class Guard(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            if context.message.name == "drop":
                raise ToolError("forbidden")
            return await call_next(context)

    def drop(n: int) -> None:
        ran.append(n)

    server = FastMCP("tools")
    server.tool(drop)
    both = [ToolcallMiddleware(), Guard()]
    for each in both if ours_first else reversed(both):
        server.add_middleware(each)
    assert "forbidden" in (await ask(server, name, n=1)).content[0].text
    assert ran == []


async def test_a_result_that_says_of_an_error_is_a_failure_and_stays_as_it_is() -> None:
    """The client gets what the tool made, and the trace of the call is red."""
    heard: list[Any] = []

    def send() -> ToolResult:
        shown = ImageContent(type="image", data="eA==", mime_type="image/png")
        content = [TextContent(type="text", text="no"), shown, TextContent(type="text", text="never")]
        return ToolResult(content=content, structured_content={"code": 7}, is_error=True)

    def build(tools: ToolRegistry, **options: Any) -> Pipeline:
        return standard(tools, **options).replace("trace", Trace(sinks=[heard.append]))

    answer = await ask(make(send, build=build), "send")
    assert (answer.is_error, answer.content[0].text, answer.structured_content) == (True, "no", {"code": 7})
    assert [block.type for block in answer.content] == ["text", "image", "text"]
    assert [(report.outcome.failure().kind, report.outcome.failure().message) for report in heard] == [
        ("execution", "no\n\nnever")
    ]


async def test_a_server_that_is_called_without_a_client() -> None:
    """There is no request then, and so no id."""

    def add(n: int) -> int:
        return n

    server, registry = make(add), ToolRegistry()

    @registry.tool(effect="read")
    def double(n: int) -> int:
        """Double."""
        return n * 2

    (exported,) = export_tools(registry, standard(registry))
    server.add_tool(exported)
    assert [block.text for block in (await server.call_tool("functions.add", {"n": "1"})).content] == ["1"]
    assert [block.text for block in (await server.call_tool("double", {"n": "1"})).content] == ["2"]
    assert [block.text for block in (await exported.run({"n": "1"})).content] == ["2"]


def without_waits(tools: Any, **options: Any) -> Pipeline:
    """The pipeline, with no pause between attempts."""
    return standard(tools, **options).replace("retry", Retry(first_delay=0))


class Backend(FastMCP[Any]):
    """Counts how often its tools are listed."""

    listed = 0

    async def list_tools(self, **options: Any) -> Any:
        self.listed += 1
        return await super().list_tools(**options)


async def test_a_server_behind_this_one_is_asked_for_its_list_once() -> None:
    """Not for each call. A local tool that takes the place of one of its tools is judged by its own schema."""
    backend = Backend("backend")

    @backend.tool(name="add")
    def add(n: int) -> int:
        return n

    @backend.tool(name="find")
    def find_there(n: int) -> str:
        return f"there {n}"

    proxy = create_proxy(backend)

    @proxy.tool(name="find")
    def find_here(text: str) -> str:
        return f"here {text}"

    proxy.add_middleware(ToolcallMiddleware())
    async with Client(proxy) as client:
        assert (await client.call_tool("add", {"n": "1"})).content[0].text == "1"
        listed = backend.listed
        for _ in range(5):
            assert (await client.call_tool("add", {"n": "1"})).content[0].text == "1"
            assert (await client.call_tool("find", {"text": "x"})).content[0].text == "here x"
            refused = await client.call_tool("find", {"n": 1}, raise_on_error=False)
            assert "text" in refused.content[0].text
    assert backend.listed == listed


async def test_what_can_be_called_need_not_be_listed() -> None:
    """A tool behind a search is called by its name, and validated."""
    server = FastMCP("tools", transforms=[RegexSearchTransform()])

    @server.tool
    def add(n: int) -> int:
        return n

    server.add_middleware(ToolcallMiddleware())
    async with Client(server) as client:
        assert "add" not in [tool.name for tool in await client.list_tools()]
        assert (await client.call_tool("add", {"n": "5"})).content[0].text == "5"
        refused = await client.call_tool("add", {"n": "five"}, raise_on_error=False)
        through = await client.call_tool("call_tool", {"name": "add", "arguments": {"n": 6}}, raise_on_error=False)
    assert "n" in refused.content[0].text
    assert refused.meta["toolcall/kind"] == "validation"
    assert through.content[0].text == "6"


@pytest.mark.parametrize("effect", ["read", "mutating"])
async def test_a_tool_of_an_app_is_the_tool_of_its_name(effect: Any) -> None:
    """Its own interface calls it by another one; what is said of the tool holds for both."""
    seen: list[str] = []
    ran: list[int] = []

    async def note(call: Any, call_next: Any) -> Any:
        seen.append(call.name)
        return await call_next(call)

    def build(tools: Any, **options: Any) -> Pipeline:
        return without_waits(tools, **options).before("retry", note)

    app = FastMCPApp("crm")

    @app.tool
    def save(n: int) -> str:
        ran.append(n)
        raise ConnectionError

    server = FastMCP("tools", providers=[app])
    server.add_middleware(ToolcallMiddleware({"save": effect}, build=build))
    await ask(server, hashed_backend_name("crm", "save"), n="5")
    assert (seen, ran) == (["save"], [5] * (3 if effect == "read" else 1))


@pytest.mark.parametrize("follows", [False, True])
async def test_a_tool_made_of_openapi_makes_one_request(follows: bool) -> None:
    """So one that was turned away has had no effect, and is sent again. A client that follows others may send two."""
    sent: list[Any] = []

    def answer(request: Any) -> Any:
        sent.append(request)
        return httpx.Response(429) if len(sent) == 1 else httpx.Response(200, json={"ok": True})

    operation = {"operationId": "pay", "responses": {"200": {"description": "ok"}}}
    spec = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/pay": {"post": operation}}}
    transport = httpx.MockTransport(answer)
    async with httpx.AsyncClient(transport=transport, base_url="http://pay", follow_redirects=follows) as client:
        server = FastMCP.from_openapi(spec, client)
        server.add_middleware(ToolcallMiddleware(build=without_waits))
        result = await ask(server, "pay")
    assert (result.is_error, len(sent)) == ((True, 1) if follows else (False, 2))


async def test_arguments_that_make_no_request_are_told() -> None:
    """FastMCP says why it sends none, so nothing has had an effect, unless the author hides what errors say."""
    operation = {
        "operationId": "pay",
        "parameters": [{"name": "to", "in": "path", "required": True, "schema": {"type": "string"}}],
        "responses": {"200": {"description": "ok"}},
    }
    spec = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/pay/{to}": {"post": operation}}}
    texts: list[str] = []
    async with httpx.AsyncClient(base_url="http://pay") as client:
        for masked in (False, True):
            server = FastMCP.from_openapi(spec, client, mask_error_details=masked)
            server.add_middleware(ToolcallMiddleware())
            texts.append((await ask(server, "pay", to="..")).content[0].text)
    told, hidden = texts
    assert "Error building request" in told
    assert "dot segments" in told
    assert "may have taken effect" not in told + hidden
    assert "dot segments" not in hidden


@pytest.mark.parametrize(
    ("raised", "text", "kind"),
    [
        (httpx.ReadTimeout("late"), "HTTP request timed out (ReadTimeout)", "timeout"),
        (httpx.ConnectError("away"), "Request error (ConnectError): away", "transient"),
    ],
)
async def test_a_request_that_had_no_answer_is_no_bug_of_the_tool(raised: Exception, text: str, kind: str) -> None:
    """Of the errors of the client `httpx` FastMCP makes a ValueError."""

    def find() -> None:
        raise ValueError(text) from raised

    server = FastMCP("tools")
    server.tool(find, annotations={"readOnlyHint": True})
    server.add_middleware(ToolcallMiddleware(attempts=1))
    assert (await ask(server, "find")).meta["toolcall/kind"] == kind


async def test_each_version_of_a_tool_has_its_own_schema() -> None:
    """The version that the client asks for is the one that validates."""
    server = FastMCP("tools")

    @server.tool(name="find", version="1")
    def by_number(n: int) -> str:
        return f"number {n}"

    @server.tool(name="find", version="2")
    def by_text(text: str) -> str:
        return f"text {text}"

    server.add_middleware(ToolcallMiddleware())
    async with Client(server) as client:
        assert (await client.call_tool("find", {"n": "1"}, version="1")).data == "number 1"
        assert (await client.call_tool("find", {"text": "x"})).data == "text x"


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

    @registry.tool
    def draw() -> Image:
        """Draw."""
        return Image("image/png", b"\x89PNG\r\n\x1a\n")

    @registry.tool
    def mix() -> list[Any]:
        """Mix."""
        return ["see", b"\x89PNG\r\n\x1a\n", Link("https://example.com")]

    @registry.tool
    def tell() -> dict[str, Any]:
        """Tell of a failure as MCP does."""
        return {"content": [{"type": "text", "text": "no"}], "isError": True}

    server = FastMCP("tools")
    for tool in export_tools(registry, standard(registry)):
        server.add_tool(tool)
    async with Client(server) as client:
        listed = {tool.name: tool for tool in await client.list_tools()}
        assert listed["double"].annotations is not None
        assert listed["double"].annotations.read_only_hint is True
    drawn, mixed, told = [await ask(server, name) for name in ("draw", "mix", "tell")]
    assert [block.type for block in drawn.content] == ["image"]
    assert [block.type for block in mixed.content] == ["text", "image", "resource_link"]
    assert (told.is_error, told.content[0].text) == (True, "Error: no")
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


async def test_a_call_adds_no_list_to_its_trace() -> None:
    """The server's span counts the call, ours stands below it, and no span says that tools were listed."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)

    def add(a: int) -> int:
        return a

    registry = ToolRegistry()
    registry.tool(effect="read")(add)
    exported = FastMCP("tools")
    for each in export_tools(registry, standard(registry)):
        exported.add_tool(each)
    seen: list[list[tuple[str, str]]] = []
    for server in (make(add), exported, FastMCP("tools")):
        if server is not exported:
            server.tool(add)
        async with Client(server) as client:
            exporter.clear()
            await client.call_tool("add", {"a": 1})
        spans = exporter.get_finished_spans()
        own = [span for span in spans if span.name.startswith(("toolcall", "execute_tool"))]
        assert [span.name for span in own] == (["toolcall add"] if len(seen) < 2 else [])
        for facts in (span.attributes or {} for span in own):
            assert facts["mcp.method.name"] == "tools/call"
            assert facts["jsonrpc.request.id"]
        theirs = [span for span in spans if span.name.startswith(("tools/", "MCP"))]
        seen.append(sorted((span.name, span.kind.name) for span in theirs))
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize(("name", "arguments"), [("add", {"a": "x"}), ("nothing", {}), ("add", {})])
async def test_a_refused_call_is_counted_as_by_fastmcp_alone(name: str, arguments: Any) -> None:
    """By the span of the request, which names the tool and is red."""
    exporter = InMemorySpanExporter()
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    def add(a: int) -> int:
        return a

    seen: list[Any] = []
    for server in (make(add), FastMCP("tools")):
        server.tool(add)
        exporter.clear()
        await ask(server, name, **arguments)
        asked = [span for span in exporter.get_finished_spans() if span.name.startswith("tools/")]
        counted = [span for span in asked if span.kind is trace.SpanKind.SERVER]
        kept = ("gen_ai.operation.name", "gen_ai.tool.name", "fastmcp.component.type", "fastmcp.server.name")
        facts = [[(span.attributes or {}).get(each) for each in kept] for span in counted]
        seen.append([(span.name, span.status.status_code, each) for span, each in zip(counted, facts, strict=True)])
    assert seen[0] == seen[1]
    assert len(seen[0]) == 1


PAYING = """
from pathlib import Path
from fastmcp import FastMCP
from toolcall_pipeline.hosts.fastmcp import ToolcallMiddleware

server = FastMCP("tools")
server.add_middleware(ToolcallMiddleware(attempts=1))

@server.tool
def pay(amount: int) -> str:
    with Path("paid").open("a") as paid:
        paid.write(f"{amount} ")
    raise ConnectionResetError

server.run(show_banner=False)
"""
TOKENS: Any = {name: {"client_id": name} for name in ("ann", "bob")}


async def pay_twice(clients: Iterable[Client[Any]], meta: dict[str, str] | None) -> None:
    for client in clients:
        async with client:
            for _ in range(2):
                answer = await client.call_tool("pay", {"amount": 5}, raise_on_error=False, meta=meta)
                assert (answer.meta or {})["toolcall/kind"] == "outcome_unknown"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(
    ("over", "token", "names", "modern", "legacy"),
    [
        ("memory", None, None, 2, 2),  # two connections, two clients
        ("http", None, None, 4, 2),  # nobody is known; the session is
        ("http", "ann", None, 1, 2),  # the principal
        ("http", "ann", ["a", "a"], 1, 2),
        ("http", "ann", ["a", "b"], 2, 2),
    ],
)
async def test_a_lost_payment_that_is_sent_again(
    over: str,
    token: str | None,
    names: list[str] | None,
    modern: int,
    legacy: int,
    mode: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It runs once for each client that is known; else that is said in the log, once, and in the report."""
    ran: list[int] = []
    reports: list[CallReport] = []

    def build(tools: ToolRegistry, **options: Any) -> Pipeline:
        return standard(tools, **options).replace("trace", Trace(sinks=[reports.append]))

    def pay(amount: int) -> str:
        ran.append(amount)
        raise ConnectionResetError

    registry = ToolRegistry()
    registry.tool(pay)
    auth = None if token is None else StaticTokenVerifier(TOKENS)
    exported, ours = FastMCP("tools", auth=auth), FastMCP("tools", auth=auth)
    for each in export_tools(registry, build(registry, attempts=1)):
        exported.add_tool(each)
    ours.tool(pay)
    ours.add_middleware(ToolcallMiddleware(build=build, attempts=1))
    for kind, server in (("ours", ours), ("exported", exported)):
        ran.clear()
        reports.clear()
        caplog.clear()
        async with AsyncExitStack() as stack:
            target: Any = server if over == "memory" else await stack.enter_async_context(serve_http(server))
            for name in names or [None, None]:
                meta = None if name is None else {"toolcall/conversation": f"{name} {kind} {over}"}
                await pay_twice([Client(target, auth=token, mode=mode)], meta)
        assert len(ran) == (modern if mode == "auto" else legacy)
        is_unknown = len(ran) == 4
        told = [each.note for report in reports for each in report.stages if each.note == UNKNOWN]
        assert len(told) == (4 if is_unknown else 0)
        assert caplog.text.count("are not known again") == is_unknown


@asynccontextmanager
async def serve_http(server: FastMCP) -> AsyncGenerator[str, None]:
    """Serve at a free port, and yield the URL."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        web = uvicorn.Server(uvicorn.Config(server.http_app(), log_level="critical"))
        serving = asyncio.create_task(web.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            web.should_exit = True
            await serving


async def test_two_principals_are_two_clients() -> None:
    """What is undecided of one says nothing of the other, and after ten minutes nothing of himself."""
    ran: list[int] = []

    def pay(amount: int) -> str:
        ran.append(amount)
        raise ConnectionResetError

    server = FastMCP("tools", auth=StaticTokenVerifier(TOKENS))
    server.tool(pay)
    server.add_middleware(ToolcallMiddleware(attempts=1))
    async with serve_http(server) as url:
        for name, runs in (("ann", 1), ("bob", 2), ("ann", 2)):
            await pay_twice([Client(url, auth=name)], None)
            assert len(ran) == runs


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_connection_over_stdio_is_a_client(mode: str, tmp_path: Path) -> None:
    """A lost payment that its client sends again runs once."""
    (tmp_path / "paying.py").write_text(PAYING)
    command = StdioTransport(sys.executable, ["paying.py"], cwd=str(tmp_path), env=dict(os.environ))
    await pay_twice([Client(command, mode=mode)], None)
    assert (tmp_path / "paid").read_text() == "5 "


async def test_a_conversation_of_the_application_comes_first() -> None:
    """Its calls are told apart by their requests, for each client begins its ids anew."""
    seen: list[tuple[str, str, str]] = []

    async def note(call: Any, call_next: Any) -> Any:
        seen.append((call.conversation, call.reply, call.id))
        return await call_next(call)

    def build(tools: ToolRegistry, **options: Any) -> Pipeline:
        return standard(tools, **options).before("retry", note)

    def add(a: int) -> int:
        return a

    server = make(add, build=build, conversation=lambda _context: "thread 1")
    for _ in range(2):
        await ask(server, "add", a=1)
    assert {each[0] for each in seen} == {"thread 1"}
    assert len({each[1] for each in seen}) == 2


@pytest.mark.parametrize(
    ("over", "mode", "is_known"),
    [
        ("memory", "auto", True),
        ("memory", "legacy", True),
        ("http", "legacy", True),  # in a session
        ("token and meta", "auto", True),
        ("token", "auto", False),  # of a client that does not say which of its conversations it is
        ("http", "auto", False),
    ],
)
@pytest.mark.parametrize("exported", [True, False])
async def test_a_text_says_what_changed_since_the_last_failure(
    exported: bool, over: str, mode: Any, is_known: bool
) -> None:
    """Throughout a conversation that is known, and in no other one."""
    registry = ToolRegistry()
    registry.tool(effect="read")(send)
    server = FastMCP("tools", auth=StaticTokenVerifier(TOKENS) if "token" in over else None)
    if exported:
        for each in export_tools(registry, standard(registry)):
            server.add_tool(each)
    else:
        server.tool(send)
        server.add_middleware(ToolcallMiddleware())
    auth = "ann" if "token" in over else None

    async def play(client: Client[Any], name: str, turns: Any) -> list[str]:
        meta = {"toolcall/conversation": name} if "meta" in over else None
        calls = [await client.call_tool("send", turn.sent, raise_on_error=False, meta=meta) for turn in turns]
        return [answer.content[0].text for answer in calls]  # type: ignore[union-attr]  # all are texts

    async with AsyncExitStack() as stack:
        target: Any = server if over == "memory" else await stack.enter_async_context(serve_http(server))
        mine, other = [await stack.enter_async_context(Client(target, auth=auth, mode=mode)) for _ in range(2)]
        texts = await play(mine, "mine", RUNS[0])
        check_turns(await play(other, "other", OTHER), OTHER)
        texts += await play(mine, "mine", RUNS[1])
    check_turns(texts, TURNS if is_known else tuple(map(Turn.as_first, TURNS)))


async def test_the_texts_are_those_of_a_profile_of_ones_own() -> None:
    """One option words what the client is told of its calls."""

    def add(a: int) -> int:
        return a

    server = make(add, wording=MINE)
    told = [(await ask(server, name)).content[0].text for name in ("add", "ad")]
    assert told == [TOLD_OF_ADD, TOLD_OF_AD]


@pytest.mark.long
async def test_what_runs_without_the_pipeline_runs_with_it() -> None:
    """Of 60 signatures with 30 calls none that ran is refused, or runs with other values or another number of times."""

    async def make_runner(function: Any) -> RunCall:
        servers = {ours: FastMCP("tools", middleware=[ToolcallMiddleware()] if ours else []) for ours in (True, False)}
        for server in servers.values():
            server.tool(function)

        async def run(sent: dict[str, Any], ours: bool) -> None:
            await ask(servers[ours], "work", **sent)

        return run

    found = await compare(make_runner)
    sys.stdout.write(f"\n{found}\n")
    assert not found.refused, found.refused[:20]
    assert not found.differ, found.differ[:20]
    assert found.calls >= 1_000


async def test_a_kept_answer_is_the_result_that_it_was() -> None:
    """A call that is made again gets the result of its tool from the store, with its blocks and its structure."""
    store, paid = Memory(), list[int]()

    def pay(n: int) -> ToolResult:
        paid.append(n)
        return ToolResult([TextContent(text=f"paid {n}", type="text")], {"receipt": n})

    def replay(tools: ToolRegistry, **options: Any) -> Pipeline:
        return standard(tools, **options).replace("ledger", Ledger(store, repeats="replay"))

    answers: list[Any] = []
    for _ in range(2):
        server = make(pay, store=store, build=replay, conversation=lambda context: "one")
        answers.append(await ask(server, "pay", n=1))
    assert paid == [1]
    assert [(each.content[0].text, each.structured_content) for each in answers] == [("paid 1", {"receipt": 1})] * 2


def test_a_call_that_killed_its_process_is_not_made_again(tmp_path: Path) -> None:
    """With a store, two further processes of the same conversation tell the model to check first."""
    codes, texts, effects = kill_and_ask_again("fastmcp", tmp_path)
    assert (codes, effects) == ([-signal.SIGKILL, 0, 0], ["1 2"])
    assert len(texts) == 2
    assert all("may have taken effect" in text for text in texts)
