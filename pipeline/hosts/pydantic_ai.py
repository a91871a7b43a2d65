"""Pydantic AI: ``Agent(model, capabilities=[ToolcallCapability()])``."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from returns.result import Failure

from ..call import Call, ValidCall, is_failure
from ..compose import Pipeline
from ..errors import ExecutionFailed
from ..messages import render
from ..privacy import approved
from ..tools import Effect
from .checked_arguments import foresee
from .extras import requires
from .host import Host, HostTool
from .pydantic_ai_names import put_names_right, tell_unknown_names
from .pydantic_ai_tools import export_tools

with requires("pydantic-ai-slim"):
    from pydantic_ai import exceptions as told
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import ModelRetry, ToolFailed

__all__ = ["ToolcallCapability", "export_tools"]

_PASSES = (
    *(told.ApprovalRequired, told.CallDeferred, told.SkipToolExecution, told.SkipToolValidation),
    *(told.ToolRetryError, told.ToolFailedError, told.UsageLimitExceeded, told.RunCancelled),
)


class ToolcallCapability(AbstractCapability[Any]):
    """Puts the pipeline around every function tool of an agent.

    What asks for approval or defers passes untouched, and so do Pydantic AI's own retries, its limits of usage and what
    cancels a run. `ModelRetry` and `ToolFailed` are the tool author's words: the model reads them.

    Args:
        effects: The effects of tools by name; else ``metadata={"effect": "read"}`` of the tool; else ``mutating``.
        options: Those of `Host`, such as ``timeout=60``.
    """

    def __init__(self, effects: Mapping[str, Effect] | None = None, **options: Any) -> None:
        self.host = Host(effects, passes=_PASSES, **options)
        self._offered: dict[str, HostTool] = {}

    async def for_run(self, ctx: Any) -> ToolcallCapability:  # noqa: ARG002
        """One of its own for each run: agents and runs may share a capability, and differ in their tools."""
        return copy(self)

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:  # noqa: ARG002
        """Put right a name that stands for a tool beyond doubt: Pydantic AI refuses unknown names itself."""
        return put_names_right(response, *self._offer(request_context))

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:  # noqa: ARG002
        """Say of an unknown name what the pipeline says of it, in the request alone."""
        return tell_unknown_names(request_context, *self._offer(request_context))

    async def wrap_tool_validate(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        """Validate by the pipeline first, and give Pydantic AI the repaired arguments."""
        pipeline, sent = self._read(ctx, tool_def, call, args)
        if (valid := foresee(pipeline, sent)) is not None:
            return await handler(dict(valid.params))
        raise ToolFailed(render(await pipeline(sent)))  # refused there too, and recorded

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        """Run one call."""

        async def body(valid: ValidCall) -> object:  # noqa: ARG001  # Pydantic AI has validated as well
            try:
                return await handler(args)
            except (ModelRetry, ToolFailed) as exc:
                return Failure(ExecutionFailed(approved(exc.message), cause=exc))

        outcome = await self.host.run(*self._read(ctx, tool_def, call, call.args), body)
        if is_failure(outcome):
            raise ToolFailed(render(outcome))
        return outcome.unwrap()

    def _offer(self, request: Any) -> tuple[Pipeline, frozenset[str]]:
        self._offered = {each.name: _describe(each) for each in request.model_request_parameters.function_tools}
        output = (each.name for each in request.model_request_parameters.output_tools)
        return self.host.offer(self._offered), frozenset((*self._offered, *output))

    def _read(self, ctx: Any, tool_def: Any, call: Any, args: Any) -> tuple[Pipeline, Call]:
        offered = {**self._offered, tool_def.name: _describe(tool_def)}
        return self.host.offer(offered), Call(tool_def.name, args, call.tool_call_id or "", deps=ctx.deps)


def _describe(tool: Any) -> HostTool:
    return HostTool(tool.description or "", tool.parameters_json_schema, (tool.metadata or {}).get("effect"))
