"""A registry as an MCP server of the Claude Agent SDK. Run by `make test-more-hosts` with the real package.

The SDK runs a program that needs a key; its server is asked here in the way in which the SDK asks it for that program.
"""

from __future__ import annotations

import asyncio
from typing import Any

from claude_agent_sdk import SdkMcpTool, create_sdk_mcp_server
from claude_agent_sdk._internal.query import Query

from further_hosts import make_registry
from toolcall_pipeline.hosts import export_tools
from toolcall_pipeline.middlewares import standard


def wrap(tool: Any) -> SdkMcpTool[Any]:
    async def run(sent: Any) -> Any:
        return (await tool.run(sent)).as_mcp()

    return SdkMcpTool(tool.name, tool.description, tool.parameters, run)


def test_the_server_answers_as_an_mcp_server_does() -> None:
    """A right call, a failure in the author's words, and a crash without its secret."""
    registry = make_registry()
    tools = [wrap(each) for each in export_tools(registry, standard(registry))]
    server = create_sdk_mcp_server("tools", tools=tools)
    query: Any = Query.__new__(Query)
    query.sdk_mcp_servers = {"tools": server["instance"]}

    async def ask(method: str, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return (await query._handle_sdk_mcp_request("tools", message))["result"]

    async def run() -> list[Any]:
        listed = await ask("tools/list")
        assert [each["name"] for each in listed["tools"]] == ["double", "fail"]
        calls = [("double", {"n": 2}), ("fail", {"n": 1}), ("fail", {"n": 0})]
        return [await ask("tools/call", name=name, arguments=sent) for name, sent in calls]

    right, failed, crashed = asyncio.run(run())
    assert right["content"][0]["text"] == "4"
    assert "Ask for fewer." in failed["content"][0]["text"]
    assert failed.get("isError", failed.get("is_error")) is True
    assert "hunter2" not in str(crashed)
