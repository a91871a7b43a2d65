"""Microsoft's Agent Framework: what its chat client does with function calls, and a function middleware."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from agent_framework import Content, FunctionMiddleware, FunctionTool
from agent_framework._middleware import FunctionMiddlewarePipeline
from agent_framework._tools import _auto_invoke_function, normalize_function_invocation_configuration
from agent_framework.observability import OBSERVABILITY_SETTINGS

from benchmarks.peers.exporting import Recorder
from benchmarks.peers.functions import ATTEMPTS, FUNCTIONS
from benchmarks.peers.process import Prepare, Send
from benchmarks.peers.scenarios import Sent

PACKAGES = ("agent-framework-core",)
VARIANTS = {
    "": "_auto_invoke_function, as the function invocation layer of a chat client does",
    "middleware": "the same with a FunctionMiddleware that tries ConnectionError again and answers what is left",
}


class _TryAgain(FunctionMiddleware):
    async def process(self, context: Any, call_next: Any) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await call_next()
                return
            except ConnectionError:
                if attempt == ATTEMPTS:
                    break
                await asyncio.sleep(0)
            except ValueError:
                break
        context.result = "The tool failed."


@asynccontextmanager
async def serve(variant: str, recorder: Recorder | None) -> AsyncGenerator[Prepare]:
    """As its guides about middleware and observability say."""
    tools = {
        each.__name__: FunctionTool(name=each.__name__, description=each.__doc__ or "", func=each) for each in FUNCTIONS
    }
    config: Any = normalize_function_invocation_configuration(None)
    pipeline: Any = FunctionMiddlewarePipeline(_TryAgain()) if variant else None
    OBSERVABILITY_SETTINGS.enable_instrumentation = recorder is not None

    async def ask(call: Any) -> str:
        answer: Any = await _auto_invoke_function(call, config=config, tool_map=tools, middleware_pipeline=pipeline)
        return str(answer.result)

    def prepare(sent: Sequence[Sent]) -> Send:
        calls = [Content.from_function_call(str(n), each.name, arguments=each.arguments) for n, each in enumerate(sent)]

        async def send() -> list[str]:
            if len(calls) == 1:
                return [await ask(calls[0])]
            return await asyncio.gather(*[ask(each) for each in calls])

        return send

    yield prepare
