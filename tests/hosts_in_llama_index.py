"""A registry as tools of LlamaIndex. Run by `make test-more-hosts` with the real package."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms import MockLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import FunctionTool, ToolMetadata
from pydantic import Field

from further_hosts import make_registry
from toolcall_pipeline.hosts import export_tools
from toolcall_pipeline.middlewares import standard


class Saying(MockLLM, FunctionCallingLLM):
    """Makes these calls, one a turn, and is done then."""

    turns: list[Any] = Field(default_factory=list)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True)

    def _prepare_chat_with_tools(self, *args: Any, **more: Any) -> Any:
        return {"messages": []}

    async def achat(self, messages: Any, **more: Any) -> ChatResponse:
        return ChatResponse(message=ChatMessage(role="assistant", content="done"))

    async def achat_with_tools(self, *args: Any, **more: Any) -> ChatResponse:
        return await self.achat([])

    async def astream_chat_with_tools(self, *args: Any, **more: Any) -> Any:
        async def stream() -> Any:
            yield await self.achat([])

        return stream()

    def get_tool_calls_from_response(self, response: Any, **more: Any) -> list[ToolSelection]:
        if not self.turns:
            return []
        name, arguments = self.turns.pop(0)
        return [ToolSelection(tool_id="1", tool_name=name, tool_kwargs=arguments)]


def wrap(tool: Any) -> FunctionTool:
    metadata = ToolMetadata(description=tool.description, name=tool.name, fn_schema=tool.model)
    return FunctionTool(fn=tool, async_fn=tool.acall, metadata=metadata)


def test_an_agent_calls_the_tools() -> None:
    """A right call, a repaired one, a failure in the author's words, and a crash without its secret."""
    registry = make_registry()
    tools: Any = [wrap(each) for each in export_tools(registry, standard(registry), raises=True)]
    model = Saying()
    model.turns = [("double", {"n": 2}), ("double", {"n": "3"}), ("fail", {"n": 1}), ("fail", {"n": 0})]
    results: list[Any] = []

    async def run() -> None:
        nonlocal results
        handler = FunctionAgent(tools=tools, llm=model, streaming=False).run("go")
        async for event in handler.stream_events():
            results += [event.tool_output] if isinstance(event, ToolCallResult) else []
        await handler

    asyncio.run(run())
    assert tools[0].metadata.get_parameters_dict()["properties"]["n"]["type"] == "integer"
    assert [each.content for each in results[:2]] == ["4", "6"]
    assert [each.is_error for each in results] == [False, False, True, True]
    assert "Ask for fewer." in results[2].content
    assert "hunter2" not in results[3].content
