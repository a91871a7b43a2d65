"""LangChain: the tool node of its agent, as `create_agent` builds it, and its own middlewares for failures."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ToolErrorMiddleware, ToolRetryMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.runtime import Runtime
from openinference.instrumentation.langchain import LangChainInstrumentor

from benchmarks.peers.exporting import Recorder
from benchmarks.peers.functions import ATTEMPTS, FUNCTIONS
from benchmarks.peers.process import Prepare, Send
from benchmarks.peers.scenarios import Sent

PACKAGES = ("langchain", "langchain-core", "langgraph", "openinference-instrumentation-langchain")
VARIANTS = {
    "": "the ToolNode of create_agent(model, tools); traced by OpenInference",
    "middleware": "the same with ToolErrorMiddleware and ToolRetryMiddleware, composed as its guide says",
}


class _Model(GenericFakeChatModel):
    def bind_tools(self, *args: Any, **more: Any) -> Any:  # noqa: ARG002
        return self


def _say_error(exc: Exception, request: Any) -> str:
    return f"Tool '{request.tool_call['name']}' failed: {type(exc).__name__}"


@asynccontextmanager
async def serve(variant: str, recorder: Recorder | None) -> AsyncGenerator[Prepare]:
    """As docs.langchain.com/oss/python/langchain/middleware/built-in says."""
    retry = ToolRetryMiddleware(max_retries=ATTEMPTS - 1, initial_delay=0, jitter=False, on_failure="error")
    middleware: Any = [ToolErrorMiddleware(_say_error), retry] if variant else []
    tools = [StructuredTool.from_function(coroutine=each) for each in FUNCTIONS]
    agent: Any = create_agent(_Model(messages=iter([])), tools, middleware=middleware)
    node = agent.nodes["tools"].bound
    config: Any = {"configurable": {"__pregel_runtime": Runtime()}}
    if recorder is not None:
        LangChainInstrumentor().instrument()

    def prepare(sent: Sequence[Sent]) -> Send:
        numbered = enumerate(sent)
        calls: Any = [{"name": e.name, "args": e.mapping, "id": str(n), "type": "tool_call"} for n, e in numbered]
        state = {"messages": [AIMessage(content="", tool_calls=calls)]}

        async def send() -> list[str]:
            return [str(message.content) for message in (await node.ainvoke(state, config))["messages"]]

        return send

    try:
        yield prepare
    finally:
        if recorder is not None:
            LangChainInstrumentor().uninstrument()
