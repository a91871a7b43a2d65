"""A registry as an MCP server of the Claude Agent SDK. Run by `make test-more-hosts` with the real package.

The SDK runs a program that needs a key; its server is asked here by a client of MCP.
"""

from __future__ import annotations

import asyncio
from typing import Any

from claude_agent_sdk import SdkMcpTool, create_sdk_mcp_server
from mcp import Client

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

    async def run() -> list[Any]:
        async with Client(server["instance"]) as client:
            listed = await client.list_tools()
            assert [each.name for each in listed.tools] == ["double", "fail"]
            calls = [("double", {"n": 2}), ("fail", {"n": 1}), ("fail", {"n": 0})]
            return [await client.call_tool(name, sent) for name, sent in calls]

    right, failed, crashed = asyncio.run(run())
    assert (right.content[0].text, right.is_error) == ("4", False)
    assert "Ask for fewer." in failed.content[0].text
    assert failed.is_error
    assert crashed.is_error
    assert "hunter2" not in str(crashed)
