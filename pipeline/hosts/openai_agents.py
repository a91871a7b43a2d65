"""OpenAI Agents SDK: ``agent = pipelined(agent)``, then ``Runner.run(agent, …, run_config=run_config(agent))``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any

from ..call import Call, is_failure
from ..errors import SetupError
from ..messages import render
from ..tools import Effect
from .extras import requires
from .host import Host, HostTool
from .openai_agents_calls import Behind, put_behind
from .openai_agents_guards import wait_for
from .openai_agents_tools import export_tools

with requires("openai-agents"):
    from agents import Agent, AgentsException, FunctionTool, RunConfig

__all__ = ["export_tools", "pipelined", "run_config"]


_active: ContextVar[Agent[Any]] = ContextVar("toolcall_pipeline_active_agent")


def pipelined(agent: Agent[Any], effects: Mapping[str, Effect] | None = None, **options: Any) -> Agent[Any]:
    """The same agent, with the pipeline around each of its function tools.

    Approvals, guardrails, hand-overs and hosted tools stay with the SDK; approvals and guardrails of a tool's input see
    the arguments as the pipeline repairs them. A ``failure_error_function`` is not asked any more: the pipeline says
    what went wrong. Where it is None, an exception of the SDK that a tool raises ends the run, as without the pipeline.

    Args:
        agent: It is not changed.
        effects: The effects of tools by name. A tool that is not named counts as ``mutating``.
        options: Those of `Host`, such as ``timeout=60``.
    """
    host = Host(effects, passes=(AgentsException,), **options)
    functions = [each for each in agent.tools if isinstance(each, FunctionTool)]

    def wrap(tool: FunctionTool) -> FunctionTool:
        pipeline = host.offer(_describe([*functions, tool]))  # last: a tool of another namespace may share its name
        return put_behind(tool, host, pipeline)

    return agent.clone(tools=[wrap(each) if isinstance(each, FunctionTool) else each for each in agent.tools])


def run_config(agent: Agent[Any], **options: Any) -> RunConfig:
    """A configuration in which an unknown name is told to the model; the SDK raises for it otherwise.

    Args:
        agent: What `pipelined` returned.
        options: Those of `RunConfig`. A filter of the model's input and a formatter of other errors are asked as well.

    Raises:
        SetupError: ``agent`` is another one, or has no function tools.
    """
    if not _list_behind(agent.tools):
        raise SetupError("run_config: `agent` must be what pipelined() returned, with a function tool")
    own_filter, own_formatter = (
        options.pop(each, None) for each in ("call_model_input_filter", "tool_error_formatter")
    )

    async def learn(data: Any) -> Any:
        _active.set(data.agent)  # hand-overs change it, and what formats an error is not told
        return data.model_data if own_filter is None else await wait_for(own_filter(data))

    async def tell(args: Any) -> str | None:
        if args.kind != "tool_not_found":
            return None if own_formatter is None else await wait_for(own_formatter(args))
        # those that are enabled
        own = _list_behind(await _active.get(agent).clone(mcp_servers=[]).get_all_tools(args.run_context))
        if not own:
            return None
        found: Any = own[0].host.offer(_describe(each.tool for each in own)).resolve(Call(args.tool_name))
        return render(found) if is_failure(found) else None

    options |= {"tool_error_formatter": tell, "call_model_input_filter": learn}
    return RunConfig(tool_not_found_behavior="return_error_to_model", **options)


def _list_behind(tools: Any) -> list[Behind]:
    return [tool.on_invoke_tool for tool in tools if isinstance(getattr(tool, "on_invoke_tool", None), Behind)]


def _describe(tools: Iterable[FunctionTool]) -> dict[str, HostTool]:
    return {tool.name: HostTool(tool.description, tool.params_json_schema) for tool in tools}
