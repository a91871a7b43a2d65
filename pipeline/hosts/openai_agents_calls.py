"""One function tool of the OpenAI Agents SDK behind the pipeline."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import attrs
from pydantic import ValidationError
from returns.result import Failure

from ..call import Call, ValidCall, is_failure
from ..compose import Pipeline
from ..errors import Crashed, ExecutionFailed
from ..messages import render
from ..privacy import approved
from .checked_arguments import refuse_arguments
from .extras import requires
from .host import Host
from .openai_agents_guards import judge_repaired

with requires("openai-agents"):
    from agents import AgentsException, FunctionTool, ModelBehaviorError
    from agents.tool import resolve_function_tool_failure_error_function, set_function_tool_failure_error_function

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
        return render(outcome) if is_failure(outcome) else outcome.unwrap()

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
        host: That of the agent.
        pipeline: For the tools of the agent; of several that share the name of this one it has to know this one.
    """
    raw = dataclasses.replace(tool)
    raises = resolve_function_tool_failure_error_function(tool) is None
    set_function_tool_failure_error_function(raw, None)  # else each exception is a text, before it is classified
    changed = judge_repaired(tool, pipeline)
    return dataclasses.replace(tool, on_invoke_tool=Behind(raw, host, pipeline, raises), **changed)
