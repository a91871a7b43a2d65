"""A registry as tools of Agno. Run by `make test-more-hosts` with the real package."""

from __future__ import annotations

import json
from typing import Any

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.tools.function import Function

from further_hosts import CALLS, check_told, make_registry
from toolcall_pipeline.hosts import export_tools
from toolcall_pipeline.middlewares import standard


class Saying(Model):
    """Makes the calls in one turn, and is done then."""

    def invoke(self, *args: Any, **options: Any) -> ModelResponse:
        if any(each.role == "tool" for each in options["messages"]):
            return ModelResponse(role="assistant", content="done")
        calls = [
            {"id": str(place), "type": "function", "function": {"name": name, "arguments": json.dumps(sent)}}
            for place, (name, sent) in enumerate(CALLS)
        ]
        return ModelResponse(role="assistant", tool_calls=calls)

    async def ainvoke(self, *args: Any, **options: Any) -> Any: ...
    def invoke_stream(self, *args: Any, **options: Any) -> Any: ...
    def ainvoke_stream(self, *args: Any, **options: Any) -> Any: ...
    def _parse_provider_response(self, response: Any, **options: Any) -> Any: ...
    def _parse_provider_response_delta(self, response: Any) -> Any: ...


def wrap(tool: Any) -> Function:
    return Function(
        name=tool.name,
        description=tool.description,
        parameters=dict(tool.parameters),
        entrypoint=tool,
        skip_entrypoint_processing=True,
    )


def test_an_agent_calls_the_tools() -> None:
    """An answer that is a failure is one in the agent's record."""
    registry = make_registry()
    tools = [wrap(each) for each in export_tools(registry, standard(registry), raises=True)]
    result: Any = Agent(model=Saying(id="fake"), tools=tools).run("go")
    assert result.content == "done"
    check_told([(each.result, each.tool_call_error) for each in result.tools])
