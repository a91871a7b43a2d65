"""Strands Agents: the executor of an agent's tools, and a hook that tries again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from strands import Agent, tool
from strands.hooks import AfterToolCallEvent
from strands.models.model import Model
from strands.telemetry import tracer as strands_tracer
from strands.telemetry.metrics import Trace

from benchmarks.peers.exporting import Recorder
from benchmarks.peers.functions import ATTEMPTS, FUNCTIONS
from benchmarks.peers.process import Prepare, Send
from benchmarks.peers.scenarios import Sent

PACKAGES = ("strands-agents",)
VARIANTS = {
    "": "the ConcurrentToolExecutor of Agent(tools=…), as its event loop calls it",
    "hook": "the same with an AfterToolCallEvent hook that asks for another attempt",
}


class _NoModel(Model):
    def update_config(self, **config: Any) -> None: ...

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *args: Any, **more: Any) -> Any:
        raise NotImplementedError

    def stream(self, *args: Any, **more: Any) -> Any:
        raise NotImplementedError


def _try_again(attempts: dict[str, int], event: AfterToolCallEvent) -> None:
    if isinstance(event.exception, ConnectionError):
        attempts["made"] += 1
        event.retry = attempts["made"] < ATTEMPTS


@asynccontextmanager
async def serve(variant: str, recorder: Recorder | None) -> AsyncGenerator[Prepare]:
    """As strandsagents.com says in its guide about hooks."""
    strands_tracer._tracer_instance = None  # noqa: SLF001  # it was made before the provider was set
    agent = Agent(model=_NoModel(), tools=[tool(each) for each in FUNCTIONS], callback_handler=None)
    executor: Any = agent.tool_executor
    attempts = {"made": 0}
    if variant:
        agent.hooks.add_callback(AfterToolCallEvent, lambda event: _try_again(attempts, event))

    def prepare(sent: Sequence[Sent]) -> Send:
        calls = [{"toolUseId": str(n), "name": each.name, "input": each.mapping} for n, each in enumerate(sent)]

        async def send() -> list[str]:
            attempts["made"] = 0
            results: list[Any] = []
            async for _ in executor._execute(agent, calls, results, Trace("cycle"), None, {}):  # noqa: SLF001
                pass
            return ["".join(part.get("text", "") for part in each["content"]) for each in results]

        return send

    yield prepare
