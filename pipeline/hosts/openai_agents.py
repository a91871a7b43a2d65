"""OpenAI Agents SDK: ``agent = pipelined(agent)``, then ``Runner.run(agent, …, run_config=run_config(agent))``."""

from __future__ import annotations

import dataclasses
import inspect
import json
from asyncio import CancelledError
from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from typing import Any

import attrs
from pydantic import BaseModel, ValidationError
from returns.result import Failure

from ..approvals import Approval
from ..base.setup_error import SetupError
from ..engine.call import Call, ValidCall, is_failure
from ..engine.compose import Pipeline
from ..engine.errors import Crashed, ExecutionFailed, InvalidParams, MalformedCall
from ..messages import File, Image, render
from ..parameters.schema import is_array, is_object
from ..privacy import approved
from ..tools import Effect, ToolView
from .approving import Decision, HostApprovals
from .framework import ObjectIds, foresee, list_media, list_offered, refuse_arguments, requires
from .framework_reading import load
from .host import Host, HostTool
from .signed_calls import Find, Signer

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
        default_tool_error_function,
    )
    from agents.function_schema import FuncSchema
    from agents.tool import (
        ToolOriginType,
        get_function_tool_origin,
        maybe_invoke_function_tool_failure_error_function,
        resolve_function_tool_failure_error_function,
        set_function_tool_failure_error_function,
    )
    from agents.tracing import SpanError, get_current_span

    try:
        from agents._function_tool_arguments import can_prepare_without_user_code
    except ImportError:  # releases before 0.24 have no such rule

        def can_prepare_without_user_code(model: type[BaseModel]) -> bool:
            return bool(model)

    from .openai_names import RenamingProvider, Turn, describe, turn, wrap_model


__all__ = ["export_tools", "pipelined", "run_config"]


def pipelined(agent: Agent[Any], effects: Mapping[str, Effect] | None = None, **options: Any) -> Agent[Any]:
    """The same agent, with the pipeline around each of its function tools.

    Approvals, guardrails, hand-overs, MCP servers and hosted tools stay with the SDK; approvals and guardrails of a
    tool's input see the arguments as the pipeline repairs them. A name that stands for a tool beyond doubt is put right
    in the reply. A ``failure_error_function`` that is named, and a ``tool_error_formatter`` of the run, are asked as by
    the SDK alone; where there is none, the model reads the pipeline's text in place of the SDK's. With
    ``failure_error_function=None`` an exception that is left after all attempts ends the run; wrong arguments are told.

    Args:
        agent: It is not changed.
        effects: The effects of tools by name. A tool that is not named counts as ``mutating``, an agent as a tool as
            ``idempotent``, and is not tried again: what has an effect are its tools.
        options: Options of `Host`, such as ``timeout=60``. ``principal=`` and ``conversation=`` get the `ToolContext`.
            Without them the conversation is the ``group_id`` of the run's configuration, else the conversation that
            the provider keeps, else the run.
    """
    host = Host(effects, passes=(AgentsException,), **options)
    functions = [each for each in agent.tools if isinstance(each, FunctionTool)]
    offered = {each.name: _describe(each) for each in functions}

    def wrap(tool: FunctionTool) -> FunctionTool:
        pipeline = host.offer({**offered, tool.name: _describe(tool)})  # one of another namespace may share its name
        return put_behind(tool, host, pipeline)

    tools: Any = [wrap(each) if isinstance(each, FunctionTool) else each for each in agent.tools]
    return agent.clone(tools=tools, model=wrap_model(agent.model, host))


def run_config(agent: Agent[Any], **options: Any) -> RunConfig:
    """Return a configuration that answers an unknown name to the model; else the SDK raises for it.

    The answer names all that the agent has: function tools, tools of MCP servers, hosted tools and hand-offs. A model
    that the SDK finds by its name has names put right as well.

    Args:
        agent: The return value of `pipelined`.
        options: Options of `RunConfig`. A filter of the model's input and a formatter of other errors are asked as
            well.

    Raises:
        SetupError: ``agent`` has a function tool that is not behind the pipeline.
    """
    functions = [each for each in agent.tools if isinstance(each, FunctionTool)]
    behind = [each.on_invoke_tool for each in functions if isinstance(each.on_invoke_tool, Behind)]
    if functions and not behind:
        raise SetupError("run_config: `agent` must be the return value of pipelined()")
    host = behind[0].host if behind else Host()
    own_filter, own_formatter = (
        options.pop(each, None) for each in ("call_model_input_filter", "tool_error_formatter")
    )

    async def learn(data: Any) -> Any:
        turn.set(Turn(data.agent))  # hand-overs change it, and the formatter of an error does not get it
        return data.model_data if own_filter is None else await wait_for(own_filter(data))

    async def tell(args: Any) -> str | None:
        if args.kind != "tool_not_found":
            return None if own_formatter is None else await wait_for(own_formatter(args))
        known = turn.get() or Turn(agent)
        offered = known.offered
        if offered is None:
            offered = describe(await known.agent.get_all_tools(args.run_context), known.agent.handoffs)
        pipeline = host.offer(offered)
        found: Any = pipeline.resolve(Call(args.tool_name))
        return render(found, wording=pipeline.wording) if offered and is_failure(found) else None

    options |= {"tool_error_formatter": tell, "call_model_input_filter": learn}
    config = RunConfig(tool_not_found_behavior="return_error_to_model", **options)
    config.model, config.model_provider = wrap_model(config.model, host), RenamingProvider(config.model_provider, host)
    return config


@attrs.frozen
class _FunctionReader:
    """Reads arguments as a function tool of the SDK does, which it made of a function."""

    schema: FuncSchema = attrs.field(eq=id)

    def __call__(self, arguments: Any) -> object:
        return self.schema.to_call_args(self.schema.params_pydantic_model(**load(arguments) or {}))


def _describe(tool: FunctionTool) -> HostTool:
    schema = find_function_schema(tool.on_invoke_tool)
    read = None if schema is None else _FunctionReader(schema)
    effect = "idempotent" if _is_agent(tool) else None
    return HostTool(tool.description, require_no_defaults(tool.params_json_schema), effect, read)


def find_function_schema(invoke: Any, depth: int = 4) -> FuncSchema | None:
    """Find what the SDK made of the function of a tool, in the closures of the tool's invoker; None: it has none."""
    inner = getattr(invoke, "_invoke_tool_impl", None)
    held = [] if inner is None else [inner]
    for cell in getattr(invoke, "__closure__", None) or ():
        with suppress(ValueError):  # an empty cell
            held.append(cell.cell_contents)
    for each in held:
        found = each if isinstance(each, FuncSchema) else None
        if found is None and depth and callable(each) and not isinstance(each, type):
            found = find_function_schema(each, depth - 1)
        if found is not None:
            return found
    return None


def require_no_defaults(schema: Any) -> Any:
    """Return a JSON Schema that requires no property with a default or null: a strict one requires every property."""
    if is_array(schema):
        return [require_no_defaults(each) for each in schema]
    if not is_object(schema):
        return schema
    made = {key: require_no_defaults(each) for key, each in schema.items()}
    required, properties = made.get("required"), made.get("properties")
    if is_array(required) and is_object(properties):
        made["required"] = [name for name in required if not _may_be_left_out(properties.get(name))]
    return made


def _may_be_left_out(schema: Any) -> bool:
    if not is_object(schema):
        return False
    types = [schema.get("type"), *(each.get("type") for each in schema.get("anyOf") or () if is_object(each))]
    return "default" in schema or any(each == "null" or (is_array(each) and "null" in each) for each in types)


def judge_repaired(tool: Any, pipeline: Pipeline) -> dict[str, Any]:
    """The fields of a function tool whose functions are to see the arguments as the pipeline repairs them."""
    changed: dict[str, Any] = {}
    if callable(needs_approval := tool.needs_approval):

        async def judge(context: Any, params: Any, call_id: str) -> Any:
            if _runs_user_code(tool):
                return True
            valid = foresee(pipeline, Call(tool.name, params))
            seen: dict[str, Any] = params if valid is None else dict(valid.params)
            if valid is not None and _reads_otherwise(tool, seen):
                return True
            return await wait_for(needs_approval(context, seen, call_id))

        changed["needs_approval"] = judge
    if tool.tool_input_guardrails:
        changed["tool_input_guardrails"] = [_show_repaired(each, pipeline) for each in tool.tool_input_guardrails]
    return changed


def _runs_user_code(tool: Any) -> bool:
    """Whether validators of the author's read the arguments: by the SDK's rule a person decides before they run."""
    schema = find_function_schema(tool.on_invoke_tool)
    return schema is not None and not can_prepare_without_user_code(schema.params_pydantic_model)


def _reads_otherwise(tool: Any, params: dict[str, Any]) -> bool:
    """Whether a function gets other values than it was sent: by the SDK's rule a person decides then, and no policy.

    They are defaults, conversions, and what its own validators make. Releases before 0.24 have no such rule.
    """
    prepare: Any = getattr(tool.on_invoke_tool, "prepare_arguments", None)
    prepared = None if prepare is None else prepare(json.dumps(params), tool.name)
    return prepared is not None and not prepared.unchanged


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
    raw: FunctionTool = attrs.field(init=False)  # without a function that turns exceptions into texts
    plain: FunctionTool = attrs.field(init=False)  # with the SDK's own function

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "raw", set_function_tool_failure_error_function(copy(self.tool), None))
        object.__setattr__(self, "plain", set_function_tool_failure_error_function(copy(self.tool)))

    async def __call__(self, context: Any, sent: str) -> Any:
        """Run one call."""
        raised: list[BaseException] = []

        async def body(call: ValidCall) -> object:
            raised.clear()
            try:
                return await self.raw.on_invoke_tool(context, json.dumps(call.params))
            except Exception as exc:  # noqa: BLE001  # raised again, unless it has a meaning of its own
                raised.append(exc)
                return self._read(call, exc)
            except CancelledError as exc:
                raised.append(exc)  # of the tool, if the call has an outcome
                raise

        call = Call(
            self.tool.name,
            sent,
            context.tool_call_id,
            deps=context.context,
            conversation=_find_conversation(context),
        )
        outcome = await self.host.run(self.pipeline, call, body, context)
        if not is_failure(outcome):
            return outcome.unwrap()
        error = outcome.failure()
        if (span := get_current_span()) is not None:
            data = {"tool_name": self.tool.name, "error": error.kind}
            span.set_error(SpanError(message="Error running tool (non-fatal)", data=data))
        text, is_refused = render(outcome, call=call), isinstance(error, (InvalidParams, MalformedCall))
        exc = raised[-1] if raised else ModelBehaviorError(f"{_UNFIT} {self.tool.name}: {text}")
        return await self._tell(context, exc, text, is_asked=bool(raised) or is_refused)

    async def _tell(self, context: Any, exc: BaseException, text: str, *, is_asked: bool) -> str:
        """Return what the author's functions say of an exception; where they say nothing, what the pipeline says.

        Args:
            context: Of the call.
            exc: The exception, or one that the SDK would have raised.
            text: In the words of the pipeline.
            is_asked: Whether the SDK alone would have an exception, and so ask them.

        Raises:
            BaseException: The tool's own, where its author lets it end the run.
        """
        if is_asked and resolve_function_tool_failure_error_function(self.tool, context) is None:
            if not str(exc).startswith(_UNFIT):
                raise exc
            is_asked = False
        # It notes for the SDK as well that the text is no value of a declared type. It asks nobody of a cancellation.
        told = await maybe_invoke_function_tool_failure_error_function(
            function_tool=self.tool if is_asked else self.plain,
            context=context,
            error=exc if is_asked else CancelledError(),
        )
        if told is None:  # a program has called the tool, and takes no text
            raise exc
        default = default_tool_error_function(context, exc if isinstance(exc, Exception) else RuntimeError())
        return told if is_asked and (_is_named(self.tool) or told != default) else text

    def _read(self, call: ValidCall, exc: Exception) -> object:
        if isinstance(exc, ModelBehaviorError) and str(exc).startswith(_UNFIT):
            if isinstance(exc.__cause__, ValidationError):
                return refuse_arguments(call, exc.__cause__)
            return Failure(ExecutionFailed(approved("The tool does not take these arguments."), cause=exc))
        if isinstance(exc, AgentsException) and resolve_function_tool_failure_error_function(self.tool) is None:
            raise exc
        if isinstance(exc, AgentsException):
            return Failure(Crashed(exc))
        if _is_agent(self.tool):  # by its class it might be tried again
            return Failure(Crashed(AgentsException(f"{type(exc).__name__}: {exc}")))
        raise exc


def _is_agent(tool: FunctionTool) -> bool:
    """Whether a tool is an agent. The SDK takes its run up again where that was cut off; its tools have effects."""
    origin = get_function_tool_origin(tool)
    return origin is not None and origin.type == ToolOriginType.AGENT_AS_TOOL


def _is_named(tool: FunctionTool) -> bool:
    """Whether the author named the function that tells of exceptions. For an agent the SDK names its own itself."""
    return not getattr(tool, "_use_default_failure_error_function", True) and not _is_agent(tool)


_runs = ObjectIds()


def _find_conversation(context: Any) -> str:
    """The conversation of a call; each run shares one record of its usage among the contexts of its calls."""
    group = getattr(getattr(context, "run_config", None), "group_id", None)
    known = turn.get()
    return group or (known is not None and known.conversation) or _runs.find(context.usage)


def put_behind(tool: FunctionTool, host: Host, pipeline: Pipeline) -> FunctionTool:
    """The tool, whose calls go through the pipeline.

    Its approval and its input guardrails judge the arguments as the pipeline repairs them: those are what will run.

    Args:
        tool: It is not changed.
        host: The host of the agent.
        pipeline: For the tools of the agent; of several that share the name of this one it has to know this one.
    """
    made = copy(tool)
    for name, value in judge_repaired(tool, pipeline).items():
        setattr(made, name, value)
    made.on_invoke_tool = Behind(tool, host, pipeline)
    return made


def export_tools(
    registry: ToolView,
    pipeline: Pipeline,
    *,
    principal: Find | None = None,
    conversation: Find | None = None,
    ask: bool = False,
) -> list[FunctionTool]:
    """The tools that may be called now as function tools, not strict. A failure is the text that the model reads.

    An image or a PDF file that a tool returns is an output of that type. The pipeline gets the arguments as the model
    wrote them, the id of each call, and the run's context as ``deps``.

    Args:
        registry: The tools.
        pipeline: Runs their calls.
        principal: Finds who asks, in the `ToolContext`. Default None: no principal.
        conversation: Finds the conversation there. Default None: as in `pipelined`. With ``ask``: none, for a run that
            goes on elsewhere has another one.
        ask: Whether the SDK asks for approval, as an interruption of the run, before a call that a person has to decide
            on. It runs once the state of the run has its approval. Default False: the model reads that the call waits.

    Raises:
        SetupError: ``ask`` is true, and no stage of the pipeline asks for approval.
    """
    approvals = HostApprovals(pipeline, Signer("export_tools", principal, conversation), ask)
    return [_export(each, own, approvals) for each, own in list_offered(registry)]


def _export(offered: dict[str, Any], own: str, approvals: HostApprovals) -> FunctionTool:
    def make_call(context: Any, sent: object, call_id: str) -> Call:
        deps = getattr(context, "context", None)
        known = "" if approvals.asks else _find_conversation(context)
        return Call(own, sent, call_id, deps=deps, conversation=known, wording=approvals.pipeline.wording)

    async def needs_approval(context: Any, params: Any, call_id: str) -> bool:
        return await approvals.must_ask(make_call(context, params, call_id), context)

    async def run(context: Any, sent: str) -> Any:
        call = make_call(context, sent, context.tool_call_id)

        def decide(_approval: Approval) -> Decision | None:
            is_approved = context.is_tool_approved(offered["name"], context.tool_call_id) is True
            return Decision(approved=True, by="the user of the OpenAI Agents SDK") if is_approved else None

        outcome = await approvals.run(call, context, decide)
        media = list_media(outcome)
        return render(outcome, call=call) if media is None else [_to_output(part) for part in media]

    return FunctionTool(
        name=offered["name"],
        description=offered.get("description", ""),
        params_json_schema=offered["parameters"],
        on_invoke_tool=run,
        strict_json_schema=False,
        needs_approval=needs_approval if approvals.asks else False,
    )


def _to_output(part: str | Image | File) -> Any:
    if isinstance(part, str):
        return ToolOutputText(text=part)
    url = f"data:{part.media_type};base64,{part.base64}"
    if isinstance(part, Image):
        return ToolOutputImage(image_url=url)
    return ToolOutputFileContent(file_data=url, filename=part.name or "file.pdf")
