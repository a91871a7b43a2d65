"""This pipeline: the default stack, and the message that the adapter makes of an outcome."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from benchmarks.peers.exporting import Recorder
from benchmarks.peers.functions import ATTEMPTS, CHANGING, FUNCTIONS
from benchmarks.peers.process import Prepare, Send
from benchmarks.peers.scenarios import Sent
from toolcall_pipeline import Call, Tool, ToolRegistry, gather
from toolcall_pipeline.adapters import openai
from toolcall_pipeline.middlewares import Resolve, Retry, Trace, Validate, standard

PACKAGES = ("toolcall-pipeline",)
VARIANTS = {
    "": "standard(tools), openai.message(call, outcome); many: gather(pipeline, calls)",
    "undeclared": "the same with no effect declared: each tool counts as one that changes something",
    "stages=False": "the same with Trace(stages=False): spans for call and attempts only",
    "plain": "the same with Resolve(tools, listed=0), Validate(repair=()) and Retry(1): no list of the tools, no "
    "repair and one attempt, as with most of the others",
}
# Scenarios in which a variant differs from the first one.
ONLY = {
    "stages=False": frozenset({"traced", "traced_crash"}),
    "plain": frozenset({"unknown_name", "bad_parameter", "json_text", "raising_tool", "503_once", "lost_answer"}),
}


async def _no_sleep(seconds: float) -> None:
    """Waits are not what is measured."""


@asynccontextmanager
async def serve(variant: str, recorder: Recorder | None) -> AsyncGenerator[Prepare]:
    """As README.md says."""
    tools = ToolRegistry()
    for function in FUNCTIONS:
        changes = variant == "undeclared" or function.__name__ in CHANGING
        tools.register(Tool(function.__name__, function, "mutating" if changes else "read"))
    pipeline = standard(tools).replace("retry", Retry(ATTEMPTS, sleep=_no_sleep))
    if variant == "stages=False":
        pipeline = pipeline.replace("trace", Trace(stages=False))
    if variant == "plain":
        pipeline = pipeline.replace("resolve", Resolve(tools, listed=0)).replace("validate", Validate(repair=()))
        pipeline = pipeline.replace("retry", Retry(1))

    def prepare(sent: Sequence[Sent]) -> Send:
        calls = [Call(each.name, each.arguments, id=str(number)) for number, each in enumerate(sent)]

        async def send_one() -> list[str]:
            message = openai.message(calls[0], await pipeline(calls[0]))
            return [str(message["content"])]

        async def send_many() -> list[str]:
            outcomes = await gather(pipeline, calls)
            return [str(openai.message(*each)["content"]) for each in zip(calls, outcomes, strict=True)]

        return send_many if len(calls) > 1 else send_one

    yield prepare
