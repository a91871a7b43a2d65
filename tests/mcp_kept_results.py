"""Kept results as resources of MCP, with the client of the official SDK. ``make test-mcp`` runs it."""

from __future__ import annotations

import json
import re
from importlib import import_module
from typing import Annotated, Any

import pytest

from mcp_served_tools import MODERN, SHORT, URL, both_eras, kind_of, make_app_with_tokens, make_client
from toolcall_pipeline import Pipeline, Secret, ToolRegistry, builtin
from toolcall_pipeline.mcp import kept_resources, make_server
from toolcall_pipeline.middlewares import Shape, standard
from toolcall_pipeline.stores import Entry, Memory, StoreError
from toolcall_pipeline.testing import FakeClock

pytestmark = pytest.mark.filterwarnings("default")  # those of the packages of others
HANDLE = re.compile(r"res_[0-9a-f]{24}")
LONG = "\n".join(f"line {n}: ü\ud800" for n in range(2_000))
SHOWN = LONG.replace("\ud800", "?")


@pytest.fixture(params=["asyncio"] if SHORT else ["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The short form has one event loop."""
    return str(request.param)


class Away(Memory):
    """A store that gives no answer once it is away."""

    away = False

    async def get(self, key: str) -> Entry | None:
        """Read, or fail."""
        if self.away:
            raise StoreError("away")
        return await super().get(key)


def make_pipeline(value: object = LONG, store: Memory | None = None, **options: Any) -> Pipeline:
    """A pipeline of tools with a long and with a short result, that keeps the long one."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def read_log(token: Annotated[str, Secret] = "") -> Any:
        return value

    @tools.tool(effect="read")
    async def repeat(text: str) -> str:
        return text

    pipeline = standard(tools).before("retry", Shape(2_000, tools={"batch": None}, keep=store or Memory(), **options))
    builtin.install(tools, pipeline)
    return pipeline


def find_links(result: Any) -> list[Any]:
    return [each for each in result.content if each.type == "resource_link"]


async def find_refusal(client: Any, uri: str) -> tuple[int, Any]:
    """The code and the data of the error that a client gets for a resource."""
    with pytest.raises(import_module("mcp.shared.exceptions").MCPError) as caught:
        await client.read_resource(uri)
    return caught.value.error.code, caught.value.error.data


@both_eras
@pytest.mark.parametrize(
    ("value", "shown"),
    [(LONG, SHOWN), ([{"n": n} for n in range(1_000)], json.dumps([{"n": n} for n in range(1_000)]))],
    ids=["text", "data"],
)
async def test_a_kept_result_has_a_link(mode: str, value: object, shown: str) -> None:
    """The link names the handle of the text and the size in bytes; it is read whole, as the text for the model."""
    pipeline = make_pipeline(value)
    async with pipeline, make_client(make_server(pipeline), mode) as client:
        assert client.server_capabilities.resources is not None
        assert (await client.list_resources()).resources == []
        assert (await client.list_resource_templates()).resource_templates == []
        result = await client.call_tool("read_log", {})
        text, link = result.content
        handle = HANDLE.findall(text.text)[0]
        assert (link.uri, link.name, link.mime_type) == (f"toolcall-result:///{handle}", handle, "text/plain")
        assert link.size == len(shown.encode())
        (content,) = (await client.read_resource(link.uri)).contents
        assert (content.uri, content.mime_type, content.text) == (link.uri, "text/plain", shown)
        short = await client.call_tool("repeat", {"text": "all of it"})
        assert [each.type for each in short.content] == ["text"]
        both = await client.call_tool("batch", {"calls": [{"tool": "read_log", "args": {}}] * 2})
        named = HANDLE.findall(both.content[0].text)
        assert len(set(named)) == 2
        assert [each.name for each in find_links(both)] == named
        for each in find_links(both):
            assert (await client.read_resource(each.uri)).contents[0].text == shown


@both_eras
async def test_a_link_is_of_one_principal_and_conversation(mode: str) -> None:
    """Another client, another principal, and a made-up URI get the same error, and a text that names it no link."""
    pipeline = make_pipeline().with_(principal="ann", conversation="c1")
    others = [
        pipeline.with_(principal="bob"),
        pipeline.with_(conversation="c2"),
    ]
    async with pipeline, make_client(make_server(pipeline), mode) as client:
        (link,) = find_links(await client.call_tool("read_log", {}))
        for other in others:
            async with make_client(make_server(other), mode) as stranger:
                assert await find_refusal(stranger, link.uri) == (-32602, {"uri": link.uri})
                assert find_links(await stranger.call_tool("repeat", {"text": link.name})) == []
        for uri in ("toolcall-result:///", f"{link.uri}/0", f"{link.uri}x", link.name, "file:///etc/passwd"):
            assert await find_refusal(client, uri) == (-32602, {"uri": uri})
        assert (await client.read_resource(link.uri)).contents[0].text == SHOWN


@both_eras
async def test_clients_of_one_server_read_their_own(mode: str) -> None:
    """Without a word of the application each connection is a conversation, so a link holds for its connection."""
    pipeline = make_pipeline()
    server = make_server(pipeline)
    async with pipeline, make_client(server, mode) as client, make_client(server, mode) as stranger:
        (link,) = find_links(await client.call_tool("read_log", {}))
        assert await find_refusal(stranger, link.uri) == (-32602, {"uri": link.uri})
        assert (await client.read_resource(link.uri)).contents[0].text == SHOWN


async def test_over_http_a_link_is_of_the_principal_of_the_token() -> None:
    """With tokens, in the conversation that a client names, a link holds for its principal alone."""
    pipeline = make_pipeline()
    server = make_server(pipeline)
    app = make_app_with_tokens(server)
    web: Any = import_module("httpx2")

    async def send(who: str, method: str, conversation: str, of: str, /, **params: Any) -> Any:
        meta = {**MODERN, "toolcall/conversation": conversation}
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": method,
            "mcp-name": of,
            "authorization": f"Bearer {who}",
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        return (await client.post(f"{URL}/mcp", json=message, headers=headers)).json()

    transport = web.ASGITransport(app=app)
    async with pipeline, server.session_manager.run(), web.AsyncClient(transport=transport) as client:
        called = await send("ann", "tools/call", "c1", "read_log", name="read_log", arguments={})
        uri = called["result"]["content"][1]["uri"]
        for who, conversation in (("bob", "c1"), ("ann", "c2"), ("ann", "")):
            refused = await send(who, "resources/read", conversation, uri, uri=uri)
            assert refused["error"]["code"] == -32602, refused
        read = await send("ann", "resources/read", "c1", uri, uri=uri)
        assert read["result"]["contents"][0]["text"] == SHOWN
        assert (read["result"]["ttlMs"], read["result"]["cacheScope"]) == (0, "private")


@both_eras
async def test_what_is_read_is_masked_and_expires(mode: str) -> None:
    """Declared secrets are masked in the resource too, and after its time it is gone."""
    with FakeClock() as clock:
        pipeline = make_pipeline("hunter2-hunter2 " * 1_000, keep_seconds=60)
        async with pipeline, make_client(make_server(pipeline), mode, cache=None) as client:
            (link,) = find_links(await client.call_tool("read_log", {"token": "hunter2-hunter2"}))
            text = (await client.read_resource(link.uri)).contents[0].text
            assert "hunter2" not in text
            assert len(text.encode()) == link.size
            clock.advance(61)
            assert await find_refusal(client, link.uri) == (-32602, {"uri": link.uri})


@both_eras
async def test_what_refuses_the_tool_refuses_the_resource(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resource is not read while `read_result` is closed; a store that is away is an error, and costs the link."""
    store = Away()
    pipeline = make_pipeline(store=store)
    async with pipeline, make_client(make_server(pipeline), mode, cache=None) as client:
        (link,) = find_links(await client.call_tool("read_log", {}))
        registry: Any = pipeline.registries[0]
        registry.disable("read_result")
        code, data = await find_refusal(client, link.uri)
        assert (code, data["toolcall/kind"]) == (-32603, "unavailable")
        registry.enable("read_result")
        assert (await client.read_resource(link.uri)).contents[0].text == SHOWN
        store.away = True
        assert (await find_refusal(client, link.uri))[0] == -32603
        told = await client.call_tool("repeat", {"text": link.name})
        assert (kind_of(told), find_links(told)) == (None, [])
        store.away = False
        monkeypatch.setattr(kept_resources, "LONGEST", len(SHOWN) - 1)
        assert find_links(await client.call_tool("read_log", {})) == []
        assert await find_refusal(client, link.uri) == (-32602, {"uri": link.uri})


@both_eras
async def test_a_pipeline_that_keeps_nothing_has_no_resources(mode: str) -> None:
    """Neither without `keep`, nor without the tool that reads what is kept: no capability, and no such method."""
    for shape in (Shape(2_000), Shape(2_000, keep=Memory())):
        tools = ToolRegistry()

        @tools.tool(effect="read")
        async def read_log() -> str:
            return LONG

        pipeline = standard(tools).before("retry", shape)
        async with pipeline, make_client(make_server(pipeline), mode) as client:
            assert client.server_capabilities.resources is None
            assert find_links(await client.call_tool("read_log", {})) == []
            assert (await find_refusal(client, "toolcall-result:///res_0"))[0] == -32601
