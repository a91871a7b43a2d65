"""Pydantic AI: its tool manager, which the agent asks for each call, and a hook around the execution of tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
from pydantic_ai import InstrumentationSettings, RunContext, ToolReturn
from pydantic_ai.capabilities import AbstractCapability, CombinedCapability, Hooks
from pydantic_ai.capabilities.instrumentation import Instrumentation
from pydantic_ai.exceptions import ToolRetryError
from pydantic_ai.messages import ToolCallPart, ToolReturnPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.toolsets import FunctionToolset
from pydantic_ai.usage import RunUsage

from benchmarks.peers.exporting import Recorder
from benchmarks.peers.functions import ATTEMPTS, FUNCTIONS
from benchmarks.peers.process import Prepare, Send
from benchmarks.peers.scenarios import Sent

PACKAGES = ("pydantic-ai-slim",)
VARIANTS = {
    "": "ToolManager.handle_call, in the tasks of one step; Instrumentation() when traced",
    "hooks": "the same with Hooks(tool_execute=…): tries ConnectionError again, answers what is left with a text",
}


async def _try_again(ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await handler(args)
        except ConnectionError:  # a retry
            if attempt == ATTEMPTS:
                break
            await anyio.lowlevel.checkpoint()
        except ValueError:
            break
    return "The tool failed."


@asynccontextmanager
async def serve(variant: str, recorder: Recorder | None) -> AsyncGenerator[Prepare]:
    """As ai.pydantic.dev/hooks says."""
    capabilities: list[AbstractCapability[Any]] = [Hooks(tool_execute=_try_again)] if variant else []
    if recorder is not None:
        capabilities.append(Instrumentation(settings=InstrumentationSettings()))
    context: Any = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    toolset: Any = FunctionToolset(list(FUNCTIONS), max_retries=1)  # as Agent(retries=1), its default
    manager: Any = ToolManager(toolset, root_capability=CombinedCapability(capabilities))
    manager = await manager.for_run_step(context)

    async def answer(call: ToolCallPart) -> str:
        try:
            result = await manager.handle_call(call)
        except ToolRetryError as exc:  # the agent sends it to the model
            return str(exc.tool_retry.model_response_str())
        value = result.return_value if isinstance(result, ToolReturn) else result
        return str(ToolReturnPart(call.tool_name, value, call.tool_call_id).model_response_str())

    def prepare(sent: Sequence[Sent]) -> Send:
        calls = [ToolCallPart(each.name, each.arguments, str(number)) for number, each in enumerate(sent)]

        async def send() -> list[str]:
            if len(calls) == 1:
                return [await answer(calls[0])]
            async with anyio.create_task_group() as tasks:  # each in a task, as the agent does
                found: list[str] = [""] * len(calls)

                async def keep(number: int) -> None:
                    found[number] = await answer(calls[number])

                for number in range(len(calls)):
                    tasks.start_soon(keep, number)
            return found

        return send

    yield prepare
