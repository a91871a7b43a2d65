"""Anthropic's tool runner: ``client.beta.messages.tool_runner(…, tools=runnable(tools, pipeline))``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..adapters import anthropic
from ..call import Call, Outcome
from ..compose import Pipeline
from ..tools import ToolView
from .framework import requires

with requires("anthropic"):
    from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, BetaBuiltinFunctionTool, ToolError


class _Runnable(BetaAsyncBuiltinFunctionTool):
    """Runs a call through the pipeline."""

    def __init__(self, definition: Any, own: str, pipeline: Pipeline) -> None:
        self._definition = definition
        self._own = own
        self._pipeline = pipeline

    def to_dict(self) -> Any:
        return self._definition

    async def call(self, input: object) -> Any:  # noqa: A002  # the SDK's word
        call = Call(self._own, input)
        return _tell(call, await self._pipeline(call), self._pipeline)


class _SyncRunnable(BetaBuiltinFunctionTool):
    """As `_Runnable`, for a client without an event loop."""

    def __init__(self, definition: Any, own: str, pipeline: Pipeline) -> None:
        self._definition = definition
        self._own = own
        self._pipeline = pipeline

    def to_dict(self) -> Any:
        return self._definition

    def call(self, input: Any) -> Any:  # noqa: A002
        return _tell(Call(self._own, input), self._pipeline.call_sync(self._own, input), self._pipeline)


def runnable(tools: ToolView, pipeline: Pipeline) -> list[_Runnable]:
    """The tools that may be called now, for the runner of an ``AsyncAnthropic``.

    A failure is a ``tool_result`` with ``is_error``. The SDK keeps the id of a call to itself, and answers an unknown
    name itself.

    Args:
        tools: The tools.
        pipeline: Runs their calls.
    """
    return [_Runnable(each, own, pipeline) for each, own in _list_offered(tools)]


def runnable_sync(tools: ToolView, pipeline: Pipeline) -> list[_SyncRunnable]:
    """As `runnable`, for the runner of an ``Anthropic``, which takes no async tools."""
    return [_SyncRunnable(each, own, pipeline) for each, own in _list_offered(tools)]


def _list_offered(tools: ToolView) -> Iterable[tuple[Any, str]]:
    return zip(anthropic.tools(tools), tools.callable_names(), strict=True)


def _tell(call: Call, outcome: Outcome, pipeline: Pipeline) -> Any:
    block = anthropic.result(call, outcome, wording=pipeline.wording)
    if block["is_error"]:
        raise ToolError(block["content"])
    return block["content"]
