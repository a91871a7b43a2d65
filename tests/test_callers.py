"""Who asks: `principal=` and `deps=` of all calls of a reply, a gather or a turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from returns.result import Success

from toolcall_pipeline import Call, Pipeline, ToolContext, ToolRegistry, gather
from toolcall_pipeline.adapters import anthropic, openai
from toolcall_pipeline.dialogue import run_turn
from toolcall_pipeline.middlewares import standard


def asking() -> Pipeline:
    """A pipeline with one tool that says who asks."""
    tools = ToolRegistry()

    @tools.tool(effect="read", context=True)
    async def who(context: ToolContext[str | None], times: int = 1) -> str:
        return f"{context.principal} {context.deps}" * times

    return standard(tools)


CHAT = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "who", "arguments": "{}"}}]}
BLOCKS: dict[str, Any] = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "who", "input": {}}]}


@pytest.mark.parametrize(
    ("calls", "reply"),
    [pytest.param(openai.calls, CHAT, id="openai"), pytest.param(anthropic.calls, BLOCKS, id="anthropic")],
)
def test_the_calls_of_a_reply_have_one_caller(calls: Callable[..., list[Call]], reply: object) -> None:
    """An adapter knows neither principal nor deps, so it is told for all calls of the reply."""
    deps = object()
    (call,) = calls(reply, principal="ann", deps=deps)
    assert (call.name, call.id, call.principal) == ("who", "1", "ann")
    assert call.deps is deps
    (call,) = calls(reply)
    assert (call.principal, call.deps) == ("", None)


async def test_the_calls_of_a_gather_have_one_caller() -> None:
    """What a call says itself stays; the caller's own list and calls are not changed."""
    calls = [Call("who"), Call("who", principal="bob"), Call("who", deps="own")]
    before = list(calls)
    outcomes = await gather(asking(), calls, principal="ann", deps="books")
    assert outcomes == [Success("ann books"), Success("bob books"), Success("ann own")]
    assert all(mine is theirs for mine, theirs in zip(calls, before, strict=True))
    assert await gather(asking(), calls) == [Success(" None"), Success("bob None"), Success(" own")]


async def test_the_calls_of_a_turn_have_one_caller() -> None:
    """Those that the model makes when it is asked again too."""

    async def model(*_: Any) -> Sequence[Call]:
        return [Call("who", {"times": 1}, id="2")]

    turn = await run_turn(model, [Call("who", {"times": "many"}, id="1")], asking(), principal="ann", deps="books")
    assert [each.outcome for each in turn.answered] == [Success("ann books")]
