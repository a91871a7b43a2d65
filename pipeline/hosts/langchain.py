"""LangChain and LangGraph: ``create_agent(model, tools, middleware=[ToolcallMiddleware()])``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest

from ..call import Call, Outcome, ValidCall, is_failure
from ..compose import Pipeline
from ..messages import render
from ..tools import Effect
from .host import Host, HostTool


class ToolcallMiddleware(AgentMiddleware[Any, Any, Any]):
    """Puts the pipeline around every tool call of an agent, sync or async.

    LangGraph's own control flow (interrupts, commands) passes untouched, and injected state stays LangGraph's.

    Args:
        effects: The effects of tools by name; else ``metadata={"effect": "read"}`` of the tool; else ``mutating``.
        tools: For `ToolNode` on its own, whose requests do not name the tools of the model. Default: none.
        options: Those of `Host`, such as ``timeout=60``.
    """

    def __init__(self, effects: Mapping[str, Effect] | None = None, *, tools: Any = (), **options: Any) -> None:
        super().__init__()
        self.host = Host(effects, passes=(GraphBubbleUp,), **options)
        self._known: dict[str, BaseTool] = {tool.name: tool for tool in tools}
        self._offered: dict[str, HostTool] = {}

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Learn which tools the model may call."""
        self._learn(request.tools)
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """As `wrap_model_call`."""
        self._learn(request.tools)
        return await handler(request)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Run one call in the caller's thread."""
        pipeline, call = self._read(request)
        outcome = self.host.run_sync(pipeline, call, lambda valid: self._check(handler(self._write(request, valid))))
        return _answer(request, outcome)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Run one call."""

        async def body(valid: ValidCall) -> object:
            return self._check(await handler(self._write(request, valid)))

        pipeline, call = self._read(request)
        return _answer(request, await self.host.run(pipeline, call, body))

    def _learn(self, tools: Any) -> None:
        self._known = {tool.name: tool for tool in tools if isinstance(tool, BaseTool)}
        self._offered = {name: _describe(tool) for name, tool in self._known.items()}

    def _read(self, request: ToolCallRequest) -> tuple[Pipeline, Call]:
        if request.tool is not None and request.tool.name not in self._known:
            self._known[request.tool.name] = request.tool
        if len(self._offered) != len(self._known):
            self._learn(self._known.values())
        sent = request.tool_call
        return self.host.offer(self._offered), Call(sent["name"], sent["args"], sent["id"] or "")

    def _write(self, request: ToolCallRequest, call: ValidCall) -> ToolCallRequest:
        name = call.tool.name
        sent: Any = {**request.tool_call, "name": name, "args": dict(call.params)}
        return request.override(tool_call=sent, tool=self._known[name])

    def _check(self, answer: object) -> object:
        if isinstance(answer, ToolMessage) and answer.status == "error":
            return self.host.refuse_foreign(answer.text)
        return answer


def _answer(request: ToolCallRequest, outcome: Outcome) -> Any:
    if not is_failure(outcome):
        return outcome.unwrap()
    sent = request.tool_call
    return ToolMessage(render(outcome), name=sent["name"], tool_call_id=sent["id"] or "", status="error")


def _describe(tool: BaseTool) -> HostTool:
    function = convert_to_openai_tool(tool)["function"]
    effect = (tool.metadata or {}).get("effect")
    return HostTool(function.get("description", ""), function.get("parameters"), effect)
