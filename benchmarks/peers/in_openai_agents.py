"""The OpenAI Agents SDK: what its runner does with the function calls of a response."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import agents
from agents import Agent, RunConfig, RunContextWrapper, RunHooks, function_tool
from agents.items import ModelResponse
from agents.run_internal.agent_bindings import bind_public_agent
from agents.run_internal.tool_execution import execute_function_tool_calls
from agents.run_internal.turn_resolution import process_model_response
from agents.tracing import TracingProcessor
from agents.usage import Usage
from openai.types.responses import ResponseFunctionToolCall

from benchmarks.peers.exporting import Recorder
from benchmarks.peers.functions import FUNCTIONS
from benchmarks.peers.process import Prepare, Send
from benchmarks.peers.scenarios import Sent

os.environ.setdefault("OPENAI_API_KEY", "unused")
PACKAGES = ("openai-agents",)
VARIANTS = {"": "process_model_response and execute_function_tool_calls, as Runner.run does; its own tracing"}


class _ToRecorder(TracingProcessor):
    """Its tracing is not OpenTelemetry's: a processor of its own gives the spans to the recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def on_span_end(self, span: Any) -> None:
        self.recorder.add(json.dumps(span.export()))

    def on_trace_start(self, trace: Any) -> None: ...
    def on_trace_end(self, trace: Any) -> None: ...
    def on_span_start(self, span: Any) -> None: ...
    def shutdown(self) -> None: ...
    def force_flush(self) -> None: ...


@asynccontextmanager
async def serve(variant: str, recorder: Recorder | None) -> AsyncGenerator[Prepare]:
    """As openai.github.io/openai-agents-python/tools says."""
    tools: list[Any] = [function_tool(each) for each in FUNCTIONS]
    agent: Any = Agent("agent", tools=tools)
    bindings: Any = bind_public_agent(agent)
    agents.set_tracing_disabled(recorder is None)
    agents.set_trace_processors([] if recorder is None else [_ToRecorder(recorder)])

    def prepare(sent: Sequence[Sent]) -> Send:
        async def send() -> list[str]:
            calls: Any = [
                ResponseFunctionToolCall(arguments=e.arguments, call_id=str(n), name=e.name, type="function_call")
                for n, e in enumerate(sent)
            ]
            response = ModelResponse(output=calls, usage=Usage(), response_id=None)
            processed = process_model_response(
                agent=agent, all_tools=tools, response=response, output_schema=None, handoffs=[]
            )
            results, _, _ = await execute_function_tool_calls(
                bindings=bindings,
                tool_runs=processed.functions,
                hooks=RunHooks(),
                context_wrapper=RunContextWrapper(context=None),  # it remembers which calls have run
                config=RunConfig(tracing_disabled=recorder is None),
            )
            return [str(each.output) for each in results]

        return send

    if recorder is None:
        yield prepare
    else:
        with agents.trace("measured"):
            yield prepare
