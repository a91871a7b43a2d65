"""OpenAI Agents SDK: ``agent = pipelined(agent)``, then ``Runner.run(agent, …, run_config=run_config(agent))``."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import attrs
from returns.result import Failure

from ..call import Call, ValidCall, is_failure
from ..compose import Pipeline
from ..errors import SetupError
from ..messages import render
from ..tools import Effect
from .extras import requires
from .host import Host, HostTool
from .openai_agents_tools import export_tools

with requires("openai-agents"):
    from agents import Agent, FunctionTool, RunConfig
    from agents.exceptions import AgentsException
    from agents.tool import set_function_tool_failure_error_function

__all__ = ["export_tools", "pipelined", "run_config"]


@attrs.frozen(eq=False)
class _Behind:
    """Stands in place of the invoker of a tool."""

    tool: FunctionTool
    host: Host
    pipeline: Pipeline

    async def __call__(self, context: Any, sent: str) -> Any:
        async def body(call: ValidCall) -> object:
            return await self.tool.on_invoke_tool(context, json.dumps(call.params))

        call = Call(self.tool.name, sent, context.tool_call_id, deps=context.context)
        outcome = await self.host.run(self.pipeline, call, body)
        return render(outcome) if is_failure(outcome) else outcome.unwrap()


def pipelined(agent: Agent[Any], effects: Mapping[str, Effect] | None = None, **options: Any) -> Agent[Any]:
    """The same agent, with the pipeline around each of its function tools.

    Approvals, guardrails, hand-overs and hosted tools stay with the SDK. A ``failure_error_function`` is not asked any
    more: the pipeline says what went wrong.

    Args:
        agent: It is not changed.
        effects: The effects of tools by name. A tool that is not named counts as ``mutating``.
        options: Those of `Host`, such as ``timeout=60``.
    """
    host = Host(effects, passes=(AgentsException,), **options)
    own = [tool for tool in agent.tools if isinstance(tool, FunctionTool)]
    pipeline = host.offer({tool.name: HostTool(tool.description, tool.params_json_schema) for tool in own})

    def put_behind(tool: FunctionTool) -> FunctionTool:
        raw = dataclasses.replace(tool)
        set_function_tool_failure_error_function(raw, None)  # else each exception is a text, before it is classified
        return dataclasses.replace(tool, on_invoke_tool=_Behind(raw, host, pipeline))

    return agent.clone(tools=[put_behind(each) if isinstance(each, FunctionTool) else each for each in agent.tools])


def run_config(agent: Agent[Any], **options: Any) -> RunConfig:
    """A configuration in which an unknown name is told to the model; the SDK raises for it otherwise.

    Args:
        agent: What `pipelined` returned.
        options: Those of `RunConfig`.

    Raises:
        SetupError: ``agent`` is another one, or has no function tools.
    """
    invokers = (getattr(tool, "on_invoke_tool", None) for tool in agent.tools)
    pipeline = next((each.pipeline for each in invokers if isinstance(each, _Behind)), None)
    if pipeline is None:
        raise SetupError("run_config: `agent` must be what pipelined() returned, with a function tool")

    def tell(args: Any) -> str | None:
        found = pipeline.resolve(Call(args.tool_name)) if args.kind == "tool_not_found" else None
        return render(found) if type(found) is Failure else None

    return RunConfig(tool_not_found_behavior="return_error_to_model", tool_error_formatter=tell, **options)
