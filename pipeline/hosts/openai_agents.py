"""OpenAI Agents SDK: ``agent = pipelined(agent)``, then ``Runner.run(agent, …, run_config=run_config(agent))``."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from copy import copy
from typing import Any

import attrs
from pydantic import ValidationError
from returns.result import Failure

from ..call import Call, ValidCall, is_failure
from ..compose import Pipeline
from ..errors import Crashed, ExecutionFailed, SetupError
from ..messages import File, Image, render
from ..privacy import approved
from ..tools import Effect, ToolView
from .framework import foresee, list_media, list_offered, refuse_arguments, requires
from .host import Host, HostTool

with requires("openai-agents"):
    from agents import (
        Agent,
        AgentsException,
        FunctionTool,
        ModelBehaviorError,
        RunConfig,
        ToolOutputFileContent,
        ToolOutputImage,
        ToolOutputText,
    )
    from agents.tool import resolve_function_tool_failure_error_function, set_function_tool_failure_error_function


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
        options: Options of `Host`, such as ``timeout=60``.
    """
    host = Host(effects, passes=(AgentsException,), **options)
    functions = [each for each in agent.tools if isinstance(each, FunctionTool)]

    def wrap(tool: FunctionTool) -> FunctionTool:
        pipeline = host.offer(_describe([*functions, tool]))  # last: a tool of another namespace may share its name
        return put_behind(tool, host, pipeline)

    return agent.clone(tools=[wrap(each) if isinstance(each, FunctionTool) else each for each in agent.tools])


def run_config(agent: Agent[Any], **options: Any) -> RunConfig:
    """Return a configuration that answers an unknown name to the model; else the SDK raises for it.

    Args:
        agent: The return value of `pipelined`.
        options: Options of `RunConfig`. A filter of the model's input and a formatter of other errors are asked as
            well.

    Raises:
        SetupError: ``agent`` is another one, or has no function tools.
    """
    if not _list_behind(agent.tools):
        raise SetupError("run_config: `agent` must be what pipelined() returned, with a function tool")
    own_filter, own_formatter = (
        options.pop(each, None) for each in ("call_model_input_filter", "tool_error_formatter")
    )

    async def learn(data: Any) -> Any:
        _active.set(data.agent)  # hand-overs change it, and the formatter of an error does not get it
        return data.model_data if own_filter is None else await wait_for(own_filter(data))

    async def tell(args: Any) -> str | None:
        if args.kind != "tool_not_found":
            return None if own_formatter is None else await wait_for(own_formatter(args))
        # those that are enabled
        own = _list_behind(await _active.get(agent).clone(mcp_servers=[]).get_all_tools(args.run_context))
        if not own:
            return None
        pipeline = own[0].host.offer(_describe(each.tool for each in own))
        found: Any = pipeline.resolve(Call(args.tool_name))
        return render(found, wording=pipeline.wording) if is_failure(found) else None

    options |= {"tool_error_formatter": tell, "call_model_input_filter": learn}
    return RunConfig(tool_not_found_behavior="return_error_to_model", **options)


def _list_behind(tools: Any) -> list[Behind]:
    return [tool.on_invoke_tool for tool in tools if isinstance(getattr(tool, "on_invoke_tool", None), Behind)]


def _describe(tools: Iterable[FunctionTool]) -> dict[str, HostTool]:
    return {tool.name: HostTool(tool.description, tool.params_json_schema) for tool in tools}


def judge_repaired(tool: Any, pipeline: Pipeline) -> dict[str, Any]:
    """The fields of a function tool whose functions are to see the arguments as the pipeline repairs them.

    Args:
        tool: It is not changed.
        pipeline: Runs its calls.
    """
    changed: dict[str, Any] = {}
    if callable(needs_approval := tool.needs_approval):

        async def judge(context: Any, params: Any, call_id: str) -> Any:
            valid = foresee(pipeline, Call(tool.name, params))
            return await wait_for(needs_approval(context, params if valid is None else dict(valid.params), call_id))

        changed["needs_approval"] = judge
    if tool.tool_input_guardrails:
        changed["tool_input_guardrails"] = [_show_repaired(each, pipeline) for each in tool.tool_input_guardrails]
    return changed


def _show_repaired(guardrail: Any, pipeline: Pipeline) -> Any:
    async def judge(data: Any) -> Any:
        valid = foresee(pipeline, Call(data.context.tool_name, data.context.tool_arguments))
        if valid is not None and valid.repairs:
            seen = copy(data.context)
            seen.tool_arguments = json.dumps(valid.params)
            data = dataclasses.replace(data, context=seen)
        return await wait_for(guardrail.guardrail_function(data))

    return dataclasses.replace(guardrail, guardrail_function=judge, name=guardrail.get_name())


async def wait_for(answer: Any) -> Any:
    """Return the answer of a user's function, sync or async."""
    return await answer if inspect.isawaitable(answer) else answer


_UNFIT = "Invalid JSON input for tool"  # how the SDK says that a function's own types refuse the arguments


@attrs.frozen(eq=False)
class Behind:
    """Stands in place of the invoker of a tool."""

    tool: FunctionTool
    host: Host
    pipeline: Pipeline
    raises: bool  # an exception of the SDK ends the run, as ``failure_error_function=None`` says

    async def __call__(self, context: Any, sent: str) -> Any:
        """Run one call."""

        async def body(call: ValidCall) -> object:
            try:
                return await self.tool.on_invoke_tool(context, json.dumps(call.params))
            except AgentsException as exc:
                return self._read(call, exc)

        call = Call(self.tool.name, sent, context.tool_call_id, deps=context.context)
        outcome = await self.host.run(self.pipeline, call, body)
        return render(outcome, call=call) if is_failure(outcome) else outcome.unwrap()

    def _read(self, call: ValidCall, exc: AgentsException) -> object:
        if isinstance(exc, ModelBehaviorError) and str(exc).startswith(_UNFIT):
            if isinstance(exc.__cause__, ValidationError):
                return refuse_arguments(call, exc.__cause__)
            return Failure(ExecutionFailed(approved("The tool does not take these arguments."), cause=exc))
        if self.raises:
            raise exc
        return Failure(Crashed(exc))


def put_behind(tool: FunctionTool, host: Host, pipeline: Pipeline) -> FunctionTool:
    """The tool, whose calls go through the pipeline.

    Its approval and its input guardrails judge the arguments as the pipeline repairs them: those are what will run.

    Args:
        tool: It is not changed.
        host: The host of the agent.
        pipeline: For the tools of the agent; of several that share the name of this one it has to know this one.
    """
    raw = dataclasses.replace(tool)
    raises = resolve_function_tool_failure_error_function(tool) is None
    set_function_tool_failure_error_function(raw, None)  # else each exception is a text, before it is classified
    changed = judge_repaired(tool, pipeline)
    return dataclasses.replace(tool, on_invoke_tool=Behind(raw, host, pipeline, raises), **changed)


def export_tools(registry: ToolView, pipeline: Pipeline) -> list[FunctionTool]:
    """The tools that may be called now as function tools, not strict. A failure is the text that the model reads.

    An image or a PDF file that a tool returns is an output of that type. The pipeline gets the arguments as the model
    wrote them, the id of each call, and the run's context as ``deps``.

    Args:
        registry: The tools.
        pipeline: Runs their calls.
    """
    return [_export(each, own, pipeline) for each, own in list_offered(registry)]


def _export(offered: dict[str, Any], own: str, pipeline: Pipeline) -> FunctionTool:
    async def run(context: Any, sent: str) -> Any:
        call = Call(own, sent, context.tool_call_id, deps=context.context)
        outcome = await pipeline(call)
        media = list_media(outcome)
        return render(outcome, call=call) if media is None else [_to_output(part) for part in media]

    return FunctionTool(
        name=offered["name"],
        description=offered.get("description", ""),
        params_json_schema=offered["parameters"],
        on_invoke_tool=run,
        strict_json_schema=False,
    )


def _to_output(part: str | Image | File) -> Any:
    if isinstance(part, str):
        return ToolOutputText(text=part)
    url = f"data:{part.media_type};base64,{part.base64}"
    if isinstance(part, Image):
        return ToolOutputImage(image_url=url)
    return ToolOutputFileContent(file_data=url, filename=part.name or "file.pdf")
