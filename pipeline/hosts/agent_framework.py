"""Microsoft Agent Framework: ``Agent(…, middleware=[ToolcallMiddleware()])``.

The framework answers an unknown name itself, before any middleware.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from pydantic import ValidationError

from ..adapters.common import says_error
from ..approvals import Approval
from ..engine.call import Call, ValidCall, is_failure
from ..engine.compose import Pipeline
from ..engine.errors import AwaitingApproval, InvalidParams
from ..messages import File, Image, render
from ..tools import Effect, ToolView
from .approving import Decision, HostApprovals
from .framework import list_media, list_offered, refuse_arguments, requires
from .framework_reading import Accepted
from .host import ControlFlow, Host, HostTool
from .signed_calls import Find, Signer

with requires("agent-framework-core"):
    from agent_framework import (
        Content,
        FunctionInvocationContext,
        FunctionMiddleware,
        FunctionTool,
        MiddlewareFailure,
        MiddlewareTermination,
        UserInputRequiredException,
    )
    from agent_framework.exceptions import ToolException
    from agent_framework.observability import OBSERVABILITY_SETTINGS


_PASSES = (MiddlewareTermination, MiddlewareFailure, UserInputRequiredException)


class ToolcallMiddleware(FunctionMiddleware):
    """Puts the pipeline around every function tool of an agent.

    Approvals, hand-overs and what ends the run pass untouched. A failure is a result with an ``exception``, so that
    the framework counts it; its text is the pipeline's, with the text of the tool's exception where the client's
    ``include_detailed_errors`` is true.

    Args:
        effects: The effects of tools by name; else ``additional_properties={"effect": "read"}`` of the tool; else
            ``mutating``.
        options: Options of `Host`, such as ``timeout=60``. ``principal=`` and ``conversation=`` get the
            ``FunctionInvocationContext``. Without them the conversation is the id of the session.
    """

    def __init__(self, effects: Mapping[str, Effect] | None = None, **options: Any) -> None:
        self.host = Host(effects, passes=_PASSES, **options)

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Run one call."""
        tools: Any = [*(context.tools or ()), context.function]
        offered = {tool.name: self.host.describe(tool, _describe) for tool in tools if isinstance(tool, FunctionTool)}

        raised: list[Exception] = []

        async def body(call: ValidCall) -> object:
            raised.clear()
            if call.params != call.arguments:
                context.arguments = dict(call.params)
            try:
                await call_next()
            except _PASSES:
                raise
            except Exception as exc:  # noqa: BLE001  # the framework's own, by name: the classes are private
                raised.append(exc)
                return self._read_error(call, exc)
            return context.result

        session: Any = context.session
        call = Call(
            context.function.name,
            _read(context),
            str(context.metadata.get("call_id", "")),
            conversation="" if session is None else str(session.session_id),
        )
        pipeline, is_traced = self.host.offer(offered), OBSERVABILITY_SETTINGS.ENABLED
        outcome = await self.host.run(pipeline, call, body, context, counts_inside=is_traced)
        if is_failure(outcome):
            context.result = render(outcome, call=call)
            if raised and not isinstance(outcome.failure(), InvalidParams) and _shows_details():
                context.result += f" Exception: {raised[-1]}"
            raise UserInputRequiredException([_make_failed(call, outcome.failure().kind, context.result)])
        context.result = outcome.unwrap()

    def _read_error(self, call: ValidCall, exc: Exception) -> object:
        match type(exc).__name__, exc.__cause__:
            case "_FunctionArgumentsChangedAfterApproval", _:  # a repair: the framework asks for another approval
                raise ControlFlow(exc) from None
            case "_FunctionArgumentValidationError", ValidationError() as found:
                return refuse_arguments(call, found)
            case "_FunctionArgumentValidationError", _:
                return self.host.refuse_foreign(exc, exc)
            case _, None if isinstance(exc, ToolException):  # of the tool, or of a limit of its runs
                return self.host.refuse_foreign(exc, exc)
            case _:
                raise exc


def _shows_details() -> bool:
    """Whether the author lets the model read exceptions, by ``include_detailed_errors`` of the client.

    The framework hands that to no middleware: it stands in the function that runs this one.
    """
    frame: Any = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != "_auto_invoke_function":
        frame = frame.f_back
    config: Any = None if frame is None else frame.f_locals.get("config")
    return isinstance(config, Mapping) and bool(cast("Mapping[str, Any]", config).get("include_detailed_errors"))


def _make_failed(call: Call, kind: str, text: str) -> Content:
    """Make the result of a failed call; the framework takes it from this exception alone as it is.

    For an exception of another class the model reads "Function failed", without the text, and a plain result counts as
    a success: ``max_consecutive_errors_per_request`` would never stop a run.
    """
    return Content.from_function_result(call.id, result=text, exception=kind)


def _read(context: FunctionInvocationContext) -> Any:
    """The arguments as the model sent them, or as the framework has read them if it accepts them.

    The framework wraps what is not a JSON object.
    """
    given: Any = context.arguments
    is_plain = isinstance(given, Mapping)
    sent: dict[str, Any] = dict(cast("Any", given)) if is_plain else given.model_dump(exclude_unset=True)
    if _is_accepted(context, sent):
        return Accepted(sent)
    is_wrapped = sent.keys() == {"raw"} and "raw" not in context.function.parameters().get("properties", ())
    return sent["raw"] if is_wrapped else sent


def _is_accepted(context: FunctionInvocationContext, sent: dict[str, Any]) -> bool:
    """Whether the framework has validated these very arguments by the types of a function, and converted them.

    The arguments of a tool with a JSON Schema of its author's it checks at their top level only.
    """
    if getattr(context.function, "input_model", None) is None:
        return False
    prepared = (each for each in context.metadata.values() if type(each).__name__ == "_PreparedArgumentsState")
    return any(sent == each.arguments for each in prepared)


def _describe(tool: Any) -> HostTool:
    known: Mapping[str, Any] = tool.additional_properties or {}
    return HostTool(tool.description or "", tool.parameters(), known.get("effect"))


class ApprovalMiddleware(FunctionMiddleware):
    """Hands exported tools the approvals of the framework, which it hands to middleware alone. It changes nothing."""

    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:  # noqa: ARG002
        """Run one call."""
        await call_next()


class _Exported(FunctionTool):
    """A tool of a registry. Its pipeline reads and validates the arguments, and not the framework."""

    def __init__(self, offered: dict[str, Any], own: str, approvals: HostApprovals) -> None:
        def run(ctx: FunctionInvocationContext) -> None:
            """Show the framework that the tool has a body, and wants a context."""

        super().__init__(
            name=offered["name"],
            description=offered.get("description", ""),
            func=run,
            input_model=offered["parameters"],
        )
        self._own, self._approvals = own, approvals

    async def invoke(
        self, *, arguments: Any = None, context: Any = None, tool_call_id: str | None = None, **_options: Any
    ) -> Any:
        """The parts of the result. A failure is a result with an ``exception``, so that the framework counts it."""
        sent = dict(arguments or {})
        session = getattr(context, "session", None)
        call = Call(
            self._own,
            sent["raw"] if sent.keys() == {"raw"} and "raw" not in self.parameters().get("properties", ()) else sent,
            tool_call_id or "",
            conversation="" if session is None else str(session.session_id),
            wording=self._approvals.pipeline.wording,
        )
        known: Any = getattr(context, "metadata", {})
        answer = known.get("approval_response")

        def decide(_approval: Approval) -> Decision | None:
            is_approved = getattr(answer, "approved", False) is True  # a rejected call does not come here
            return Decision(approved=True, by="the user of Agent Framework") if is_approved else None

        outcome = await self._approvals.run(call, context, decide)
        can_ask = self._approvals.asks and answer is None and "call_id" in known
        if can_ask and is_failure(outcome) and isinstance(outcome.failure(), AwaitingApproval):
            id_ = known.get("function_call_occurrence_id") or call.id
            asked = Content.from_function_call(call.id, self.name, arguments=sent, id=id_)
            return Content.from_function_approval_request(id_, asked)
        if says_error(outcome):
            kind = outcome.failure().kind if is_failure(outcome) else "execution"
            raise UserInputRequiredException([_make_failed(call, kind, render(outcome, call=call))])
        media = list_media(outcome)
        return [_to_content(part) for part in ([render(outcome, call=call)] if media is None else media)]


def _to_content(part: str | Image | File) -> Content:
    return Content.from_text(part) if isinstance(part, str) else Content.from_data(part.data, part.media_type)


def export_tools(
    registry: ToolView,
    pipeline: Pipeline,
    *,
    principal: Find | None = None,
    conversation: Find | None = None,
    ask: bool = False,
) -> list[FunctionTool]:
    """The tools that may be called now as function tools: ``Agent(client, tools=export_tools(tools, run))``.

    A failure is a result with an ``exception``. The pipeline gets the id of each call.

    Args:
        registry: The tools.
        pipeline: Runs their calls.
        principal: Finds who asks, in the `FunctionInvocationContext`. Default None: no principal.
        conversation: Finds the conversation there. Default None: the id of the session.
        ask: Whether a call that waits for a person ends the run with a request for an approval, in
            ``user_input_requests``. It runs once a message of the same session has the approval; one that is rejected
            there waits until it expires. The agent needs ``middleware=[ApprovalMiddleware()]``, or another one for
            functions. Default False: the model reads that the call waits.

    Raises:
        SetupError: ``ask`` is true, and no stage of the pipeline asks for approval.
    """
    approvals = HostApprovals(pipeline, Signer("export_tools", principal, conversation), ask)
    return [_Exported(each, own, approvals) for each, own in list_offered(registry)]
