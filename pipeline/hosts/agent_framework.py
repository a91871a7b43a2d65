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
from .host import ControlFlow, Host, HostTool

with requires("agent-framework-core"):
    from agent_framework import (
        FunctionInvocationContext,
        FunctionMiddleware,
        FunctionTool,
        MiddlewareFailure,
        MiddlewareTermination,
        UserInputRequiredException,
    )


class ToolcallMiddleware(FunctionMiddleware):
    """Puts the pipeline around every function tool of an agent.

    Approvals, hand-overs and what ends the run pass untouched.

    Args:
        effects: The effects of tools by name; else ``additional_properties={"effect": "read"}`` of the tool; else
            ``mutating``.
        options: Options of `Host`, such as ``timeout=60``.
    """

    def __init__(self, effects: Mapping[str, Effect] | None = None, **options: Any) -> None:
        passes = (MiddlewareTermination, MiddlewareFailure, UserInputRequiredException)
        self.host = Host(effects, passes=passes, **options)

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Run one call."""
        tools: Any = [*(context.tools or ()), context.function]
        offered = {tool.name: self.host.describe(tool, _describe) for tool in tools if isinstance(tool, FunctionTool)}

        async def body(call: ValidCall) -> object:
            context.arguments = dict(call.params)
            try:
                await call_next()
            except Exception as exc:  # noqa: BLE001  # the framework's own, by name: the classes are private
                return self._read_error(call, exc)
            return context.result

        call = Call(context.function.name, _read(context), str(context.metadata.get("call_id", "")))
        outcome = await self.host.run(self.host.offer(offered), call, body)
        context.result = render(outcome, call=call) if is_failure(outcome) else outcome.unwrap()

    def _read_error(self, call: ValidCall, exc: Exception) -> object:
        match type(exc).__name__, exc.__cause__:
            case "_FunctionArgumentsChangedAfterApproval", _:  # a repair: the framework asks for another approval
                raise ControlFlow(exc) from None
            case "_FunctionArgumentValidationError", ValidationError() as found:
                return refuse_arguments(call, found)
            case "_FunctionArgumentValidationError", _:
                return self.host.refuse_foreign(exc, exc)
            case _:
                raise exc


def _read(context: FunctionInvocationContext) -> Any:
    """The arguments as the model sent them: the framework wraps text that is not a JSON object."""
    given: Any = context.arguments
    sent = given if isinstance(given, Mapping) else given.model_dump()
    is_text = sent.keys() == {"raw"} and isinstance(sent["raw"], str)
    return sent["raw"] if is_text and "raw" not in context.function.parameters().get("properties", ()) else dict(sent)


def _describe(tool: Any) -> HostTool:
    return HostTool(tool.description or "", tool.parameters(), (tool.additional_properties or {}).get("effect"))
