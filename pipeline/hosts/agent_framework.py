"""Microsoft Agent Framework: ``Agent(…, middleware=[ToolcallMiddleware()])``.

The framework answers an unknown name itself, before any middleware.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import ValidationError

from ..call import Call, ValidCall, is_failure
from ..messages import render
from ..tools import Effect
from .framework import refuse_arguments, requires
from .framework_reading import Accepted
from .host import ControlFlow, Host, HostTool

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
    the framework counts it; its text is the pipeline's.

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

        async def body(call: ValidCall) -> object:
            if type(call.arguments) is not Accepted or call.params != call.arguments:
                context.arguments = dict(call.params)
            try:
                await call_next()
            except _PASSES:
                raise
            except Exception as exc:  # noqa: BLE001  # the framework's own, by name: the classes are private
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
    sent = dict(given) if isinstance(given, Mapping) else given.model_dump(exclude_unset=True)
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
    return HostTool(tool.description or "", tool.parameters(), (tool.additional_properties or {}).get("effect"))
