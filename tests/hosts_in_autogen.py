"""A registry as tools of AutoGen. Run by `make test-more-hosts` with the real package."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, ModelInfo, RequestUsage
from autogen_core.tools import BaseTool
from autogen_ext.models.replay import ReplayChatCompletionClient

from further_hosts import CALLS, check_told, make_registry
from toolcall_pipeline.hosts import export_tools
from toolcall_pipeline.middlewares import standard


class Exported(BaseTool[Any, str]):
    def __init__(self, tool: Any) -> None:
        super().__init__(tool.model, str, tool.name, tool.description)
        self.tool = tool

    async def run(self, args: Any, cancellation_token: Any) -> str:
        return await self.tool.acall(**args.model_dump())


def test_an_agent_calls_the_tools() -> None:
    """An answer that is a failure is one in the agent's record."""
    registry = make_registry()
    calls = [
        FunctionCall(id=str(place), name=name, arguments=json.dumps(sent)) for place, (name, sent) in enumerate(CALLS)
    ]
    asked = CreateResult(finish_reason="function_calls", content=calls, usage=RequestUsage(0, 0), cached=False)
    info = ModelInfo(vision=False, function_calling=True, json_output=False, family="fake", structured_output=False)
    tools: Any = [Exported(each) for each in export_tools(registry, standard(registry), raises=True)]
    model = ReplayChatCompletionClient([asked, "done"], model_info=info)
    agent = AssistantAgent("agent", model, tools=tools, reflect_on_tool_use=True)
    messages: Any = asyncio.run(agent.run(task="go")).messages
    assert messages[-1].content == "done"
    (results,) = (each.content for each in messages if each.type == "ToolCallExecutionEvent")
    check_told([(each.content, each.is_error) for each in results])
    assert tools[0].schema["parameters"]["properties"]["n"]["type"] == "integer"
