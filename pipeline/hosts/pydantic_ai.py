"""Pydantic AI: ``Agent(model, capabilities=[ToolcallCapability()])``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

from pydantic_core import SchemaValidator

from ..adapters.common import says_error
from ..approvals import Approval
from ..engine.call import Call, Outcome, ValidCall, is_failure
from ..engine.compose import Pipeline
from ..engine.errors import ExecutionFailed
from ..messages import Wording, render
from ..messages.result_parts import find_parts
from ..messages.values import to_data
from ..tools import Effect, ToolView
from .approving import Decision, HostApprovals
from .framework import foresee, list_media, list_offered, requires
from .framework_reading import ValidatorReader, checks_names
from .host import Host, HostTool
from .signed_calls import Find, Signer

with requires("pydantic-ai-slim"):
    from pydantic_ai import BinaryContent, FunctionToolset, RunContext, Tool, exceptions
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import ApprovalRequired, ModelRetry, ToolFailed
    from pydantic_ai.messages import ModelRequest

_PASSES = (
    *(
        exceptions.ApprovalRequired,
        exceptions.CallDeferred,
        exceptions.SkipToolExecution,
        exceptions.SkipToolValidation,
    ),
    *(exceptions.UsageLimitExceeded, exceptions.RunCancelled, exceptions.UnexpectedModelBehavior, exceptions.UserError),
)
_ANSWERS = ("tool-return", "retry-prompt")  # kinds of parts that answer a call; the second until 3.0
_COUNTED = (exceptions.ToolRetryError, exceptions.ToolFailedError)  # failures that Pydantic AI has recorded itself


class ToolcallCapability(AbstractCapability[Any]):
    """Puts the pipeline around every function tool of an agent.

    A call that asks for approval or defers passes untouched, and so do Pydantic AI's limits of usage and what cancels a
    run. `ModelRetry` and `ToolFailed` are the tool author's words: the model reads them. Refused arguments and
    `ModelRetry` spend Pydantic AI's ``retries``, which end the run as they do without the pipeline.

    Args:
        effects: The effects of tools by name; else ``metadata={"effect": "read"}`` of the tool; else ``mutating``.
        options: Options of `Host`, such as ``timeout=60``. ``principal=`` and ``conversation=`` get the `RunContext`.
            Without them the conversation is the run's.
    """

    def __init__(self, effects: Mapping[str, Effect] | None = None, **options: Any) -> None:
        self.host = Host(effects, passes=_PASSES, **options)
        self._offered: dict[str, HostTool] = {}
        self._unknown: dict[str, str] = {}  # what is said of a name that no tool has, by the id of its call

    async def for_run(self, ctx: Any) -> ToolcallCapability:  # noqa: ARG002
        """One of its own for each run: agents and runs may share a capability, and differ in their tools."""
        made = copy(self)
        made._unknown = {}  # noqa: SLF001  # of the same class
        return made

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
        """Put right a name that stands for a tool beyond doubt: Pydantic AI refuses unknown names itself."""
        pipeline, known = self._offer(ctx, request_context)
        return replace(response, parts=[self._put_right(part, pipeline, known) for part in response.parts])

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:  # noqa: ARG002
        """Say of unknown names what the pipeline said of them, in each request of the run; the history stays."""
        if not self._unknown:
            return request_context
        return replace(request_context, messages=[self._retell(each) for each in request_context.messages])

    def _put_right(self, part: Any, pipeline: Pipeline, known: Collection[str]) -> Any:
        if part.part_kind != "tool-call" or part.tool_name in known:
            return part
        found: Any = pipeline.resolve(Call(part.tool_name))
        if not is_failure(found):
            return replace(part, tool_name=found.tool.name)
        self._unknown[part.tool_call_id] = render(found, wording=pipeline.wording)
        return part

    def _retell(self, message: Any) -> Any:
        """The message, with our text in place of Pydantic AI's where it answers a call of an unknown name."""
        if not isinstance(message, ModelRequest):
            return message
        parts: Any = message.parts
        answers = [self._unknown.get(each.tool_call_id) if each.part_kind in _ANSWERS else None for each in parts]
        told: Any = [
            part if text is None else replace(part, content=text) for part, text in zip(parts, answers, strict=True)
        ]
        return replace(message, parts=told)

    async def wrap_tool_validate(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        """Validate by the pipeline first, and give Pydantic AI the repaired arguments."""
        pipeline, sent = self._read(ctx, tool_def, call, args)
        if (valid := foresee(pipeline, sent)) is not None:
            return await handler(dict(valid.params) if valid.repairs else args)
        outcome = await self.host.run(pipeline, sent, _never, ctx)  # refused there too, and recorded
        raise ModelRetry(render(outcome, call=sent))

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        """Run one call."""
        raised: list[Exception] = []

        async def body(valid: ValidCall) -> object:  # noqa: ARG001  # Pydantic AI has validated as well
            try:
                return await handler(args)
            except (ModelRetry, ToolFailed) as exc:
                raised[:] = [exc]
                return self.host.refuse_authored(exc.message)
            except _COUNTED as exc:
                raised[:] = [exc]
                part: Any = getattr(exc, "tool_retry", None) or getattr(exc, "tool_failed", None)
                return self.host.refuse_authored(getattr(part, "content", exc))

        pipeline, sent = self._read(ctx, tool_def, call, call.args)
        outcome = await self.host.run(pipeline, sent, body, ctx)
        if not is_failure(outcome):
            return outcome.unwrap()
        if raised and isinstance(outcome.failure(), ExecutionFailed):
            raise raised[-1]
        raise ToolFailed(render(outcome, call=sent))

    def _offer(self, ctx: Any, request: Any) -> tuple[Pipeline, frozenset[str]]:
        tools = _list_tools(ctx)
        self._offered = {
            each.name: _describe(ctx, each, tools) for each in request.model_request_parameters.function_tools
        }
        output = (each.name for each in request.model_request_parameters.output_tools)
        return self.host.offer(self._offered), frozenset((*self._offered, *output))

    def _read(self, ctx: Any, tool_def: Any, call: Any, args: Any) -> tuple[Pipeline, Call]:
        offered = {**self._offered, tool_def.name: _describe(ctx, tool_def, _list_tools(ctx))}
        return self.host.offer(offered), _make_call(ctx, tool_def.name, args, call.tool_call_id)


def _make_call(ctx: Any, name: str, args: Any, id: str | None) -> Call:  # noqa: A002
    conversation = getattr(ctx, "conversation_id", None) or getattr(ctx, "run_id", None) or ""
    return Call(name, args, id or "", deps=ctx.deps, conversation=str(conversation))


async def _never(_call: ValidCall) -> object:
    """Stand for the body of a call that is refused before it."""
    raise NotImplementedError


def _list_tools(ctx: Any) -> Mapping[str, Any]:
    """The tools of a step of a run, with their validators."""
    return getattr(getattr(ctx, "tool_manager", None), "tools", None) or {}


def _describe(ctx: Any, tool: Any, tools: Mapping[str, Any]) -> HostTool:
    validator: SchemaValidator | None = getattr(tools.get(tool.name), "args_validator", None)
    read = None
    if validator is not None and checks_names(validator):
        read = ValidatorReader(validator, ctx.validation_context)
    metadata: Mapping[str, Any] = tool.metadata or {}
    return HostTool(tool.description or "", tool.parameters_json_schema, metadata.get("effect"), read)


def export_tools(
    registry: ToolView,
    pipeline: Pipeline,
    *,
    principal: Find | None = None,
    conversation: Find | None = None,
    ask: bool = False,
) -> FunctionToolset[Any]:
    """A toolset of the tools that may be called now: ``Agent(model, toolsets=[export_tools(tools, run)])``.

    The pipeline gets the id of each call, the run's conversation, and the agent's ``deps``. A failure is a
    `ToolFailed`, which spends none of Pydantic AI's retries: the pipeline has tried again where that is safe. An image
    or a PDF file is a `BinaryContent`.

    Args:
        registry: The tools.
        pipeline: Runs their calls.
        principal: Finds who asks, in the `RunContext`. Default None: no principal.
        conversation: Finds the conversation there. Default None: the run's. With ``ask`` it has to be the same in the
            run that goes on.
        ask: Whether a call that waits for a person ends the run with `DeferredToolRequests`, which the agent must have
            among its output types. It runs when the next run has `ToolApproved` for it; one that is denied there waits
            until it expires. Default False: the model reads that the call waits.

    Raises:
        SetupError: ``ask`` is true, and no stage of the pipeline asks for approval.
    """
    approvals = HostApprovals(pipeline, Signer("export_tools", principal, conversation), ask)
    return FunctionToolset([_export(each, own, approvals) for each, own in list_offered(registry)])


def _export(offered: dict[str, Any], own: str, approvals: HostApprovals) -> Tool[Any]:
    async def run(ctx: RunContext[Any], /, **arguments: object) -> object:
        call = _make_call(ctx, own, arguments, ctx.tool_call_id)

        def decide(approval: Approval) -> Decision:
            if not ctx.tool_call_approved:
                facts = {"approval": approval.id, "arguments": dict(approval.arguments), "reason": approval.reason}
                raise ApprovalRequired(facts)
            return Decision(approved=True, by="the user of Pydantic AI")

        outcome, wording = await approvals.run(call, ctx, decide), approvals.pipeline.wording
        if says_error(outcome):
            raise ToolFailed(render(outcome, call=call, wording=wording))
        return _to_return(outcome, call, wording)

    description = offered.get("description", "")
    return Tool.from_schema(run, offered["name"], description, json_schema=offered["parameters"], takes_ctx=True)


def _to_return(outcome: Outcome, call: Call, wording: Wording | None) -> object:
    """Return a value that Pydantic AI can write into the history; one that it cannot write would end the run."""
    value = outcome.unwrap()
    if type(value).__module__.startswith("pydantic_ai"):
        return value
    media = list_media(outcome)
    if media is None:
        is_data = find_parts(value, with_bytes=True) is None
        return to_data(value)[0] if is_data else render(outcome, call=call, wording=wording)
    return [
        part if isinstance(part, str) else BinaryContent(data=part.data, media_type=part.media_type) for part in media
    ]
