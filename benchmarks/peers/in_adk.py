"""Google's Agent Development Kit: what its flow does with function calls, and its plugin for failures."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.run_config import RunConfig
from google.adk.flows.llm_flows.functions import handle_function_call_list_async
from google.adk.plugins.plugin_manager import PluginManager
from google.adk.plugins.reflect_retry_tool_plugin import ReflectAndRetryToolPlugin
from google.adk.sessions import InMemorySessionService
from google.adk.tools.function_tool import FunctionTool
from google.genai import types

from benchmarks.peers.exporting import Recorder
from benchmarks.peers.functions import FUNCTIONS
from benchmarks.peers.process import Prepare, Send
from benchmarks.peers.scenarios import Sent

PACKAGES = ("google-adk",)
VARIANTS = {
    "": "handle_function_call_list_async, as its flow does",
    "plugin": "the same with ReflectAndRetryToolPlugin, which lets the model try again",
}
_FOR_EVER = 10**9  # the plugin counts failures, and a benchmark has many


@asynccontextmanager
async def serve(variant: str, recorder: Recorder | None) -> AsyncGenerator[Prepare]:
    """As google.github.io/adk-docs/plugins/reflect-and-retry says."""
    tools = {each.__name__: FunctionTool(each) for each in FUNCTIONS}
    agent: Any = LlmAgent(name="agent", model="none", tools=list(tools.values()))
    service = InMemorySessionService()
    context: Any = InvocationContext(
        session_service=service,
        invocation_id="1",
        agent=agent,
        session=await service.create_session(app_name="peers", user_id="user"),
        plugin_manager=PluginManager(plugins=[ReflectAndRetryToolPlugin(max_retries=_FOR_EVER)] if variant else []),
        run_config=RunConfig(),
    )

    def prepare(sent: Sequence[Sent]) -> Send:
        calls = [types.FunctionCall(id=str(n), name=each.name, args=each.mapping) for n, each in enumerate(sent)]

        async def send() -> list[str]:
            event: Any = await handle_function_call_list_async(context, calls, tools)
            answers = [part.function_response.response for part in event.content.parts]
            return [str(answer.get("error", answer.get("result", answer))) for answer in answers]

        return send

    yield prepare
