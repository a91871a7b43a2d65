"""LangChain and LangGraph: ``create_agent(model, tools, middleware=[ToolcallMiddleware()])``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from ..call import Call, Outcome, ValidCall, is_failure
from ..compose import Pipeline
from ..messages import render
from ..options import check_type
from ..tools import Effect
from .extras import requires
from .host import Host
from .langchain_replies import describe, put_calls_right
from .langchain_tools import export_tools

with requires("langchain"):
    from langchain.agents.middleware import AgentMiddleware, ModelRequest
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import BaseTool
    from langgraph.errors import GraphBubbleUp
    from langgraph.prebuilt.tool_node import ToolCallRequest

__all__ = ["ToolcallMiddleware", "export_tools"]


class ToolcallMiddleware(AgentMiddleware[Any, Any, Any]):
    """Puts the pipeline around every tool call of an agent, sync or async.

    LangGraph's own control flow (interrupts, commands) passes untouched, and injected state stays LangGraph's.
    Names and arguments are put right in the model's reply, so that an approval judges the call that will run.

    Args:
        effects: The effects of tools by name; else ``metadata={"effect": "read"}`` of the tool; else ``mutating``.
        tools: Tools that the model is told of while the agent runs, which the agent itself does not list. Default:
            none.
        options: Those of `Host`, such as ``timeout=60``.
    """

    def __init__(self, effects: Mapping[str, Effect] | None = None, *, tools: Any = (), **options: Any) -> None:
        super().__init__()
        self.host = Host(effects, passes=(GraphBubbleUp,), **options)
        self._further: tuple[BaseTool, ...] = tuple(tools)
        for each in self._further:
            check_type("ToolcallMiddleware", "tools", each, BaseTool)

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        """Put right what the model's calls mean beyond doubt, before an approval judges them."""
        return put_calls_right(handler(request), self._offer(request.tools)[0])

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        """As `wrap_model_call`."""
        return put_calls_right(await handler(request), self._offer(request.tools)[0])

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Run one call in the caller's thread."""
        pipeline, call, tools = self._read(request)

        def body(valid: ValidCall) -> object:
            return self._check(handler(_write(request, valid, tools)))

        return _answer(request, self.host.run_sync(pipeline, call, body))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Run one call."""
        pipeline, call, tools = self._read(request)

        async def body(valid: ValidCall) -> object:
            return self._check(await handler(_write(request, valid, tools)))

        return _answer(request, await self.host.run(pipeline, call, body))

    def _read(self, request: ToolCallRequest) -> tuple[Pipeline, Call, dict[str, BaseTool]]:
        offered, tools = self._offer([*request.runtime.tools, *([request.tool] if request.tool else ())])
        sent = request.tool_call
        return offered, Call(sent["name"], sent["args"], sent["id"] or ""), tools

    def _offer(self, every: Iterable[Any]) -> tuple[Pipeline, dict[str, BaseTool]]:
        tools = {tool.name: tool for tool in (*self._further, *every) if isinstance(tool, BaseTool)}
        return self.host.offer({name: self.host.describe(tool, describe) for name, tool in tools.items()}), tools

    def _check(self, answer: object) -> object:
        if isinstance(answer, ToolMessage) and answer.status == "error":
            return self.host.refuse_foreign(answer.text)
        return answer


def _write(request: ToolCallRequest, call: ValidCall, tools: Mapping[str, BaseTool]) -> ToolCallRequest:
    sent: Any = {**request.tool_call, "name": call.tool.name, "args": dict(call.params)}
    return request.override(tool_call=sent, tool=tools[call.tool.name])


def _answer(request: ToolCallRequest, outcome: Outcome) -> Any:
    if not is_failure(outcome):
        return outcome.unwrap()
    sent = request.tool_call
    return ToolMessage(render(outcome), name=sent["name"], tool_call_id=sent["id"] or "", status="error")
