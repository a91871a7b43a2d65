"""Pydantic AI's agent."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from benchmarks.hosts.mistakes import Mistake, Tools
from toolcall_pipeline.hosts.pydantic_ai import ToolcallCapability

VERSION = f"pydantic-ai-slim {version('pydantic-ai-slim')}"
UNSEEN: frozenset[str] = frozenset()


async def ask(mistake: Mistake, tools: Tools, *, behind: bool, times: int = 1, **options: Any) -> str:
    """Let the model make one call, or the same one several times in one message."""
    told: list[Any] = []

    def model(messages: Any, _info: Any) -> ModelResponse:
        if len(messages) == 1:
            ids = map(str, range(times))
            return ModelResponse(parts=[ToolCallPart(mistake.name, mistake.arguments, tool_call_id=id_) for id_ in ids])
        told.append(messages[-1].parts[0])
        return ModelResponse(parts=[TextPart("done")])

    capabilities = [ToolcallCapability(effects={"flaky": "read"}, **options)] if behind else []
    functions = (tools.add, tools.count, tools.crash, tools.flaky)
    agent = Agent(FunctionModel(model), tools=list(functions), capabilities=capabilities)
    await agent.run("go")
    return str(told[0].content)
