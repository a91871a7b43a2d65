"""A registry as tools of Haystack. Run by `make test-more-hosts` with the real package."""

from __future__ import annotations

from typing import Any

from haystack import component
from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import Tool

from further_hosts import CALLS, check_told, make_registry
from toolcall_pipeline.hosts import export_tools
from toolcall_pipeline.middlewares import standard


@component
class Saying:
    """Makes the calls in one turn, and is done then."""

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage], tools: Any = None) -> Any:
        if any(each.tool_call_results for each in messages):
            return {"replies": [ChatMessage.from_assistant("done")]}
        calls = [ToolCall(name, sent, id=str(place)) for place, (name, sent) in enumerate(CALLS)]
        return {"replies": [ChatMessage.from_assistant(tool_calls=calls)]}


def wrap(tool: Any) -> Tool:
    return Tool(tool.name, tool.description, dict(tool.parameters), function=tool, async_function=tool.acall)


def test_an_agent_calls_the_tools() -> None:
    """A failure is an error in the agent's record; Haystack writes its own words before ours."""
    registry = make_registry()
    tools = [wrap(each) for each in export_tools(registry, standard(registry), raises=True)]
    found = Agent(chat_generator=Saying(), tools=tools).run(messages=[ChatMessage.from_user("go")])["messages"]
    assert found[-1].text == "done"
    results = [each for message in found for each in message.tool_call_results]
    check_told([(each.result.rpartition("Error: Error: ")[2], each.error) for each in results])
