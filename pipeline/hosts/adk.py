"""Google ADK: ``Runner(…, plugins=[ToolcallPlugin()])``."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, get_type_hints

import attrs
from pydantic import TypeAdapter

from ..adapters.common import is_dict, says_error
from ..approvals import Approval
from ..engine.call import Call, ValidCall, is_failure
from ..engine.compose import Pipeline
from ..engine.errors import AwaitingApproval, ExecutionFailed
from ..messages import render
from ..messages.values import to_data
from ..tools import Effect, ToolView
from .approving import Decision, HostApprovals
from .framework import foresee, list_offered, requires
from .framework_reading import load
from .host import ControlFlow, Host, HostTool
from .signed_calls import Find, Signer

with requires("google-adk"):
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.function_tool import FunctionTool
    from google.adk.tools.tool_context import ToolContext
    from google.genai import types

_MAX_TURNS = 1_000  # runs of agents that are remembered with what their model was offered
_OWN = ("Invoking `", "This tool call ")  # how ADK begins the texts of its own
_LEFT = object()  # stands for a call that ADK has to run


class ToolcallPlugin(BasePlugin):
    """Puts the pipeline around every tool call of all agents of a runner. It has to be the last of its plugins.

    A tool that waits for a confirmation stays with ADK until the user has confirmed, and so does a long-running tool.
    An agent's own ``before_tool_callback`` is asked as ADK does, before the arguments are validated: it may fill some
    in. It is asked again about a call that is repaired after that. If the last run raised an exception, the
    ``on_tool_error_callback`` of the plugins and of the agent is asked about it.

    Args:
        effects: The effects of tools by name; else ``custom_metadata={"effect": "read"}`` of the tool; else
            ``mutating``.
        options: Options of `Host`, such as ``timeout=60``. ``principal=`` and ``conversation=`` get the `ToolContext`.
            Without them the principal is the user of the session, and the conversation its application and its id.
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

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        """Put right what the model's calls mean beyond doubt, before other plugins and callbacks judge them."""
        offered = self._offered.get((callback_context.invocation_id, callback_context.agent_name), {})
        put_calls_right(llm_response, self._find_pipeline(offered))

    async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> Any:
        """Run one call; what it returns stands in place of ADK's own run. None: ADK runs it."""
        offered = self._offered.get((tool_context.invocation_id, tool_context.agent_name), {})
        if type(tool) is not BaseTool and offered.get(tool.name, (None,))[0] is not tool:  # a call that goes on later
            offered = {**offered, tool.name: (tool, _describe(tool, None))}
        if not offered:
            return None
        with suppress(Exception):  # of the user's function, about arguments that are not validated: the body asks again
            if tool.name in offered and await is_left_to_adk(tool, tool_args, tool_context):
                return None

        own, unread = None, None
        try:
            own = await _ask_before(tool, tool_args, tool_context)
        except Exception as exc:  # noqa: BLE001  # it may read what the model got wrong, and the pipeline refuses
            unread = exc
        return await self._run(offered, tool, tool_args, tool_context, unread) if own is None else own

    async def _run(
        self, offered: Mapping[str, Any], tool: Any, args: dict[str, Any], context: Any, unread: Exception | None
    ) -> Any:
        async def body(call: ValidCall) -> object:
            if unread is not None:
                raise ControlFlow(unread) from None
            meant = offered[call.tool.name][0]
            args.clear()  # callbacks that come after the tool are shown the same object
            args.update(call.params)
            if await is_left_to_adk(meant, args, context):
                if meant is not tool:
                    return self.host.refuse_foreign(f"Call it by its name, {meant.name}: a person has to confirm it.")
                return _LEFT
            own = await _ask_before(meant, args, context) if call.repairs or meant is not tool else None
            return self._read(await meant.run_async(args=args, tool_context=context) if own is None else own, told)

        told: list[dict[str, Any]] = []
        call = _make_call(tool.name, args, context)
        outcome = await self.host.run(self._find_pipeline(offered), call, body, context)
        if not is_failure(outcome):
            return _give(outcome.unwrap())
        error = outcome.failure()
        if told and isinstance(error, ExecutionFailed):
            return told[-1]
        own = await ask_about_error(tool, args, context, getattr(error, "cause", None))
        return {"error": render(outcome, call=call)} if own is None else own

    def _read(self, answer: Any, told: list[dict[str, Any]]) -> object:
        """Read the answer of a tool; a failure in the words of its author stays as it is."""
        if not is_dict(answer) or answer.keys() != {"error"}:
            return answer
        if str(answer["error"]).startswith(_OWN):
            return self.host.refuse_foreign(answer["error"])
        told[:] = [answer]
        return self.host.refuse_authored(answer["error"])

    def _find_pipeline(self, offered: Mapping[str, tuple[Any, HostTool]]) -> Pipeline:
        return self.host.offer({name: told for name, (_, told) in offered.items()})


def _make_call(name: str, args: Mapping[str, Any], context: Any) -> Call:
    session = context.session
    conversation = json.dumps([session.app_name, session.id])
    return Call(name, dict(args), context.function_call_id or "", session.user_id, conversation=conversation)


def _give(answer: Any) -> Any:
    """Return the answer as the tool gave it, for the callbacks after it; ADK would run a tool that gave None again."""
    return None if answer is _LEFT else {"result": None} if answer is None else answer


def _describe(tool: Any, declared: Any) -> HostTool:
    schema = None if declared is None else declared.parameters_json_schema
    if schema is None and declared is not None and declared.parameters is not None:
        schema = declared.parameters.json_schema.model_dump(mode="json", exclude_none=True, by_alias=True)
    read = _FunctionReader(tool.func) if isinstance(tool, FunctionTool) and tool.func is not None else None
    return HostTool(tool.description or "", schema, (tool.custom_metadata or {}).get("effect"), read)


@attrs.frozen
class _FunctionReader:
    """Reads arguments by the types of a function, as ADK does where its ``FUNCTION_TOOL_ARG_VALIDATION`` is on.

    Without that, ADK hands on any value; what these types refuse is the pipeline's to refuse.
    """

    function: Any

    def __call__(self, arguments: Any) -> object:
        types, required = _list_types(self.function)
        sent = {name: value for name, value in (load(arguments) or {}).items() if name in types}
        if missing := required.difference(sent):
            raise ValueError(missing)
        return {
            name: value if (kind := types[name]) is None else kind.validate_python(value)
            for name, value in sent.items()
        }


@lru_cache(maxsize=1_000)
def _list_types(function: Any) -> tuple[dict[str, TypeAdapter[Any] | None], frozenset[str]]:
    """The types of the parameters of a function, and the names of those without a default."""
    parameters = inspect.signature(function).parameters
    hints = get_type_hints(function, include_extras=True)
    types = {name: _adapt(hints.get(name, Any)) for name in parameters}
    return types, frozenset(name for name, each in parameters.items() if _is_required(each, hints.get(name)))


def _is_required(parameter: inspect.Parameter, kind: Any) -> bool:
    is_filled = isinstance(kind, type) and issubclass(kind, ToolContext)
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return not is_filled and parameter.default is inspect.Parameter.empty and parameter.kind not in variable


def _adapt(kind: Any) -> TypeAdapter[Any] | None:
    with suppress(Exception):  # a type that pydantic does not know: ADK hands on any value
        return TypeAdapter(kind)
    return None


async def ask_about_error(tool: Any, args: dict[str, Any], context: Any, error: object) -> Any:
    """Ask the callbacks of the plugins and of the agent to answer an exception, as ADK does; None: no answer."""
    if not isinstance(error, Exception):
        return None
    invocation = context.get_invocation_context()
    asked: Any = getattr(invocation.plugin_manager, "run_on_tool_error_callback", None)
    if asked is not None:
        answer: Any = await asked(tool=tool, tool_args=args, tool_context=context, error=error)
        if answer is not None:
            return answer
    return await _ask_callbacks("on_tool_error", tool, args, context, error=error)


async def _ask_before(tool: Any, args: dict[str, Any], context: Any) -> Any:
    return await _ask_callbacks("before_tool", tool, args, context)


async def _ask_callbacks(when: str, tool: Any, args: dict[str, Any], context: Any, **more: Any) -> Any:
    """Ask callbacks of the agent until one answers, by the names of their parameters, as ADK does; None: no answer."""
    agent = context.get_invocation_context().agent
    for callback in getattr(agent, f"canonical_{when}_callbacks", ()):  # an agent of another class has none
        answer = callback(tool=tool, args=args, tool_context=context, **more)
        answer = await answer if inspect.isawaitable(answer) else answer
        if answer is not None:
            return answer
    return None


def put_calls_right(reply: Any, pipeline: Pipeline) -> None:
    """Change the names and arguments of the calls of a reply to those that the pipeline will run.

    Other plugins and callbacks decide by them. A call that the pipeline refuses stays as the model wrote it.
    """
    if reply.partial or reply.content is None:
        return
    for asked in (part.function_call for part in reply.content.parts or () if part.function_call is not None):
        valid = foresee(pipeline, Call(asked.name, asked.args, asked.id or ""))
        if valid is not None and (valid.tool.name != asked.name or valid.repairs):
            asked.name, asked.args = valid.tool.name, dict(valid.params)


async def is_left_to_adk(tool: Any, args: dict[str, Any], context: Any) -> bool:
    """Whether ADK has to run a call itself: it waits for a confirmation, or is answered later."""
    later = tool.is_long_running or getattr(tool, "_defers_response", False)  # answered after the call
    confirmed = getattr(context.tool_confirmation, "confirmed", False)
    return later or (not confirmed and await tool.check_require_confirmation(args, context) is True)


class _Exported(BaseTool):
    """A tool of a registry. Its calls pass the pipeline, so the plugin has nothing to add."""

    def __init__(self, offered: dict[str, Any], own: str, approvals: HostApprovals) -> None:
        super().__init__(name=offered["name"], description=offered.get("description") or own)
        self._own, self._parameters, self._approvals = own, offered["parameters"], approvals

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._parameters
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """The value as ``{"result": …}``, or ``{"error": …}`` with the text of a failure."""
        call = _make_call(self._own, args, tool_context)
        outcome = await self._approvals.run(call, tool_context, partial(_read_confirmation, tool_context))
        is_asked = self._approvals.asks and is_failure(outcome)
        if is_asked and isinstance(waiting := outcome.failure(), AwaitingApproval):
            _ask_to_confirm(tool_context, waiting.id, self.name)
        if says_error(outcome):
            return {"error": render(outcome, call=call)}
        value = outcome.unwrap()
        return value if is_dict(value) else {"result": to_data(value)[0]}


def _ask_to_confirm(context: ToolContext, approval: str, name: str) -> None:
    """Let ADK show its confirmation to the user; the run ends there, or the model would send the call again.

    ADK shows none for a call that has its answer already.
    """
    if not context.function_call_id or context.tool_confirmation is not None:
        return
    context.request_confirmation(hint=f"Let the tool {name} run?", payload={"approval": approval})
    context.actions.skip_summarization = True


def _read_confirmation(context: ToolContext, approval: Approval) -> Decision | None:
    """The decision of ADK's user on the call that is shown; None: there is none yet."""
    answer = context.tool_confirmation
    if answer is None:
        return None
    given: Any = answer.payload
    said: dict[str, Any] = given if is_dict(given) else {}
    if said.get("approval", approval.id) != approval.id:
        return None
    by = str(said.get("by") or context.session.user_id or "the user of ADK")
    return Decision(answer.confirmed, str(said.get("message") or ""), by)


def export_tools(
    registry: ToolView,
    pipeline: Pipeline,
    *,
    principal: Find | None = None,
    conversation: Find | None = None,
    ask: bool = False,
) -> list[BaseTool]:
    """The tools that may be called now as tools of ADK: ``LlmAgent(…, tools=export_tools(tools, run))``.

    A failure is ``{"error": text}``. The pipeline gets the id of each call.

    Args:
        registry: The tools.
        pipeline: Runs their calls.
        principal: Finds who asks, in the `ToolContext`. Default None: the user of the session.
        conversation: Finds the conversation there. Default None: the application and the id of the session.
        ask: Whether ADK asks its user to confirm a call that waits for a person. It runs once a message has the answer,
            ``{"confirmed": true}``, maybe with ``"payload": {"message": …, "by": …}``. Default False: the model reads
            that the call waits.

    Raises:
        SetupError: ``ask`` is true, and no stage of the pipeline asks for approval.
    """
    approvals = HostApprovals(pipeline, Signer("export_tools", principal, conversation), ask)
    return [_Exported(each, own, approvals) for each, own in list_offered(registry)]
