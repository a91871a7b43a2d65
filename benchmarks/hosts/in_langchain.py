"""LangChain's agent."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.metadata import version
from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool

from benchmarks.hosts.mistakes import Mistake, Tools
from toolcall_pipeline.hosts.langchain import ToolcallMiddleware

create_agent: Any = import_module("langchain.agents").create_agent  # its type has parameters that are not known
VERSION = f"langchain {version('langchain')}, langgraph {version('langgraph')}"
UNSEEN: frozenset[str] = frozenset()


class FakeModel(GenericFakeChatModel):
    """Says what it is given."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:  # noqa: ARG002
        """It needs to know none."""
        return self


async def ask(mistake: Mistake, tools: Tools, *, behind: bool, times: int = 1, **options: Any) -> str:
    """Let the model make one call, or the same one several times in one message."""
    call = {"name": mistake.name, "args": json.loads(mistake.arguments), "type": "tool_call"}
    calls: Any = [{**call, "id": str(number)} for number in range(times)]
    model = FakeModel(messages=iter([AIMessage(content="", tool_calls=calls), AIMessage(content="done")]))
    functions = (tools.add, tools.count, tools.crash, tools.flaky)
    agent = create_agent(
        model,
        [StructuredTool.from_function(function) for function in functions],
        middleware=[ToolcallMiddleware(effects={"flaky": "read"}, **options)] if behind else [],
    )
    sent: Any = {"messages": [("user", "go")]}
    result = await agent.ainvoke(sent)
    return str(next(message.text for message in result["messages"] if message.type == "tool"))
