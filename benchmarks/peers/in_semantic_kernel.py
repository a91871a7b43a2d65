"""Semantic Kernel: what its chat completion does with the function calls of a model, and a filter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from semantic_kernel import Kernel
from semantic_kernel.contents import ChatHistory, FunctionCallContent
from semantic_kernel.filters.filter_types import FilterTypes
from semantic_kernel.functions import FunctionResult, kernel_function

from benchmarks.peers.exporting import Recorder
from benchmarks.peers.functions import ATTEMPTS, FUNCTIONS
from benchmarks.peers.process import Prepare, Send
from benchmarks.peers.scenarios import Sent

PACKAGES = ("semantic-kernel",)
VARIANTS = {
    "": "kernel.invoke_function_call, as automatic function calling does",
    "filter": "the same with a FUNCTION_INVOCATION filter that tries ConnectionError again and answers what is left",
}


async def _try_again(context: Any, next: Any) -> None:  # noqa: A002  # its own name
    for attempt in range(1, ATTEMPTS + 1):
        try:
            await next(context)
            return
        except ConnectionError:
            if attempt == ATTEMPTS:
                break
            await asyncio.sleep(0)
        except ValueError:
            break
    context.result = FunctionResult(function=context.function.metadata, value="The tool failed.")


@asynccontextmanager
async def serve(variant: str, recorder: Recorder | None) -> AsyncGenerator[Prepare]:
    """As learn.microsoft.com/semantic-kernel/concepts/enterprise-readiness/filters says."""
    kernel = Kernel()
    for function in FUNCTIONS:
        kernel.add_function("tools", kernel_function(function))
    if variant:
        kernel.add_filter(FilterTypes.FUNCTION_INVOCATION, _try_again)

    async def ask(call: FunctionCallContent) -> str:
        history: Any = ChatHistory()
        await kernel.invoke_function_call(call, history)
        return str(history.messages[-1].items[0].result)

    def prepare(sent: Sequence[Sent]) -> Send:
        numbered = enumerate(sent)
        calls = [FunctionCallContent(id=str(n), name=f"tools-{e.name}", arguments=e.arguments) for n, e in numbered]

        async def send() -> list[str]:
            if len(calls) == 1:
                return [await ask(calls[0])]
            return await asyncio.gather(*[ask(each) for each in calls])

        return send

    yield prepare
