"""A registry as tools of Strands. Run by `make test-more-hosts` with the real package."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent
from strands.models import Model
from strands.tools.tools import PythonAgentTool

from further_hosts import CALLS, check_told, make_registry
from toolcall_pipeline.hosts import export_tools
from toolcall_pipeline.middlewares import standard


class Saying(Model):
    """Makes the calls, one a turn, and is done then."""

    def __init__(self) -> None:
        self.calls = [*CALLS]

    def update_config(self, **options: Any) -> None: ...
    def get_config(self) -> Any: ...
    def structured_output(self, *args: Any, **options: Any) -> Any: ...

    async def stream(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        start: Any = {}
        delta: Any = {"text": "done"}
        if self.calls:
            name, sent = self.calls.pop(0)
            start = {"toolUse": {"name": name, "toolUseId": f"call_{len(self.calls)}"}}
            delta = {"toolUse": {"input": json.dumps(sent)}}
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": start}}
        yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if start else "end_turn"}}


def wrap(tool: Any) -> PythonAgentTool:
    async def run(use: Any, **options: Any) -> Any:
        answer = await tool.run(use["input"], id=use["toolUseId"])
        status = "error" if answer.is_error else "success"
        return {"toolUseId": use["toolUseId"], "status": status, "content": [{"text": answer.text}]}

    spec: Any = {"name": tool.name, "description": tool.description, "inputSchema": {"json": tool.parameters}}
    return PythonAgentTool(tool.name, spec, run)


def test_an_agent_calls_the_tools() -> None:
    """Each answer comes with the id of its call, and a failure has the status of one."""
    registry = make_registry()
    tools: list[Any] = [wrap(each) for each in export_tools(registry, standard(registry))]
    agent = Agent(model=Saying(), tools=tools, callback_handler=None)
    assert str(agent("go")).strip() == "done"
    blocks: list[Any] = [block for message in agent.messages for block in message["content"]]
    results = [block["toolResult"] for block in blocks if "toolResult" in block]
    assert [each["toolUseId"] for each in results] == [f"call_{left}" for left in reversed(range(len(CALLS)))]
    check_told([(each["content"][0]["text"], each["status"] == "error") for each in results])
