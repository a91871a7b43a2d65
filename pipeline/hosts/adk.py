"""Google ADK: ``Runner(…, plugins=[ToolcallPlugin()])``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from ..call import Call, ValidCall, is_failure
from ..messages import render
from ..tools import Effect
from .extras import requires
from .host import Host, HostTool

with requires("google-adk"):
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.base_tool import BaseTool

_MAX_TURNS = 1_000  # runs of agents that are remembered with what their model was offered
_LEFT = object()  # stands for a call that ADK has to run


class ToolcallPlugin(BasePlugin):
    """Puts the pipeline around every tool call of all agents of a runner. It has to be the last of its plugins.

    A tool that waits for a confirmation stays with ADK until the user has confirmed, and so does a long-running tool.
    An agent's own ``before_tool_callback`` is asked before each run, as ADK does.

    Args:
        effects: The effects of tools by name; else ``custom_metadata={"effect": "read"}`` of the tool; else
            ``mutating``.
        options: Those of `Host`, such as ``timeout=60``.
    """

    def __init__(self, effects: Mapping[str, Effect] | None = None, **options: Any) -> None:
        super().__init__("toolcall_pipeline")
        self.host = Host(effects, **options)
        self._offered: dict[tuple[str, str], dict[str, tuple[Any, HostTool]]] = {}

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Learn which tools the model may call."""
        groups = [getattr(each, "function_declarations", None) or () for each in llm_request.config.tools or ()]
        declared = {each.name: each for group in groups for each in group}
        told = {name: (tool, _describe(tool, declared.get(name))) for name, tool in llm_request.tools_dict.items()}
        if len(self._offered) >= _MAX_TURNS:
            del self._offered[next(iter(self._offered))]
        self._offered[callback_context.invocation_id, callback_context.agent_name] = told

    async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> Any:
        """Run one call; what it returns stands in place of ADK's own run. None: ADK runs it."""
        offered = self._offered.get((tool_context.invocation_id, tool_context.agent_name), {})
        if type(tool) is not BaseTool and offered.get(tool.name, (None,))[0] is not tool:  # a call that goes on later
            offered = {**offered, tool.name: (tool, _describe(tool, None))}
        if not offered or (tool.name in offered and await _is_left_to_adk(tool, tool_args, tool_context)):
            return None

        async def body(call: ValidCall) -> object:
            meant, args = offered[call.tool.name][0], dict(call.params)
            if await _is_left_to_adk(meant, args, tool_context):
                if meant is not tool:
                    return self.host.refuse_foreign(f"Call it by its name, {meant.name}: a person has to confirm it.")
                tool_args.clear()
                tool_args.update(args)  # repaired ones
                return _LEFT
            answer = await _run(meant, args, tool_context)
            is_wrong = isinstance(answer, dict) and answer.keys() == {"error"}  # what ADK found by itself
            return self.host.refuse_foreign(answer["error"]) if is_wrong else answer

        pipeline = self.host.offer({name: told for name, (_, told) in offered.items()})
        call = Call(tool.name, dict(tool_args), tool_context.function_call_id or "")
        outcome = await self.host.run(pipeline, call, body)
        answer: Any = {"error": render(outcome)} if is_failure(outcome) else outcome.unwrap()
        return None if answer is _LEFT else answer if isinstance(answer, dict) else {"result": answer}


async def _is_left_to_adk(tool: Any, args: dict[str, Any], context: Any) -> bool:
    later = tool.is_long_running or getattr(tool, "_defers_response", False)  # somebody else answers it
    confirmed = getattr(context.tool_confirmation, "confirmed", False)
    return later or (not confirmed and await tool.check_require_confirmation(args, context) is True)


async def _run(tool: Any, args: dict[str, Any], context: Any) -> Any:
    own = getattr(context.get_invocation_context().agent, "before_tool_callback", None) or []
    for callback in own if isinstance(own, list) else [own]:
        answer = callback(tool, args, context)
        answer = await answer if inspect.isawaitable(answer) else answer
        if answer is not None:
            return answer
    return await tool.run_async(args=args, tool_context=context)


def _describe(tool: Any, declared: Any) -> HostTool:
    schema = None if declared is None else declared.parameters_json_schema
    if schema is None and declared is not None and declared.parameters is not None:
        schema = declared.parameters.json_schema.model_dump(mode="json", exclude_none=True, by_alias=True)
    return HostTool(tool.description or "", schema, (tool.custom_metadata or {}).get("effect"))
