"""Google ADK: ``Runner(…, plugins=[ToolcallPlugin()])``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from google.adk.plugins.base_plugin import BasePlugin

from ..call import Call, ValidCall, is_failure
from ..messages import render
from ..tools import Effect
from .host import Host, HostTool


@attrs.frozen
class _Offered:
    """What an agent offered to its model."""

    tools: Mapping[str, Any]
    told: Mapping[str, HostTool]


class ToolcallPlugin(BasePlugin):
    """Puts the pipeline around every tool call of all agents of a runner.

    A tool that waits for a confirmation stays with ADK until the user has confirmed, and so does a long-running tool.

    Args:
        effects: The effects of tools by name; else ``custom_metadata={"effect": "read"}`` of the tool; else
            ``mutating``.
        options: Those of `Host`, such as ``timeout=60``.
    """

    def __init__(self, effects: Mapping[str, Effect] | None = None, **options: Any) -> None:
        super().__init__("toolcall_pipeline")
        self.host = Host(effects, **options)
        self._offered: dict[str, _Offered] = {}  # by the agent's name

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Learn which tools the model may call."""
        tools: dict[str, Any] = dict(llm_request.tools_dict)
        groups = [getattr(each, "function_declarations", None) or () for each in llm_request.config.tools or ()]
        declared = {each.name: each for group in groups for each in group}
        told = {name: _describe(tool, declared.get(name)) for name, tool in tools.items()}
        self._offered[callback_context.agent_name] = _Offered(tools, told)

    async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> Any:
        """Run one call; what it returns stands in place of ADK's own run. None: ADK runs it."""
        offered = self._offered.get(tool_context.agent_name, _Offered({}, {}))
        if tool.name in offered.tools and await _is_left_to_adk(tool, tool_args, tool_context):
            return None

        async def body(call: ValidCall) -> object:
            meant = offered.tools[call.tool.name]
            if meant is not tool and await _is_left_to_adk(meant, dict(call.params), tool_context):
                return self.host.refuse_foreign(f"Call it by its name, {meant.name}: a person has to confirm it.")
            answer = await meant.run_async(args=dict(call.params), tool_context=tool_context)
            if isinstance(answer, dict) and answer.keys() == {"error"}:  # what ADK found wrong by itself
                return self.host.refuse_foreign(answer["error"])
            return answer

        call = Call(tool.name, dict(tool_args), tool_context.function_call_id or "")
        outcome = await self.host.run(self.host.offer(offered.told), call, body)
        if is_failure(outcome):
            return {"error": render(outcome)}
        answer: Any = outcome.unwrap()
        return answer if isinstance(answer, dict) else {"result": answer}


async def _is_left_to_adk(tool: Any, args: dict[str, Any], context: Any) -> bool:
    confirmed = context.tool_confirmation is not None and context.tool_confirmation.confirmed
    return tool.is_long_running or (not confirmed and await tool.check_require_confirmation(args, context) is True)


def _describe(tool: Any, declared: Any) -> HostTool:
    schema = None if declared is None else declared.parameters_json_schema
    if schema is None and declared is not None and declared.parameters is not None:
        schema = declared.parameters.json_schema.model_dump(mode="json", exclude_none=True, by_alias=True)
    return HostTool(tool.description or "", schema, (tool.custom_metadata or {}).get("effect"))
