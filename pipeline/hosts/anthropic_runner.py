"""Anthropic's tool runner: ``client.beta.messages.tool_runner(…, tools=pipelined(tools))``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import partial
from typing import Any

from pydantic import TypeAdapter, ValidationError
from returns.result import Failure

from ..adapters import anthropic
from ..adapters.providers import ANTHROPIC
from ..adapters.renamed_properties import restore_arguments
from ..engine.call import Call, Outcome, ValidCall, is_failure
from ..engine.compose import Pipeline
from ..engine.errors import ExecutionFailed
from ..messages import Wording, render
from ..tools import Effect, ToolView
from .framework import refuse_arguments, requires
from .framework_reading import ValidatorReader, checks_names, find_arguments_validator
from .host import Host, HostTool
from .signed_calls import Signer

with requires("anthropic"):
    from anthropic.lib.tools import (
        BetaAsyncBuiltinFunctionTool,
        BetaAsyncFunctionTool,
        BetaBuiltinFunctionTool,
        BetaFunctionTool,
        ToolError,
    )

__all__ = ["pipelined", "runnable", "runnable_sync"]

_ASYNC = (BetaAsyncFunctionTool, BetaAsyncBuiltinFunctionTool)
_SYNC = (BetaFunctionTool, BetaBuiltinFunctionTool)
_NO_SIGNER = Signer("runnable")


def pipelined(tools: Iterable[Any], effects: Mapping[str, Effect] | None = None, **options: Any) -> list[Any]:
    """The same tools, with the pipeline around each that the runner runs, sync or async.

    Definitions of the provider's own tools, and toolsets, stay as they are. A failure is a ``tool_result`` with
    ``is_error``; a `ToolError` of the author's keeps its text and its blocks. The SDK answers an unknown name itself.

    Args:
        tools: Of ``beta_tool``, ``beta_async_tool`` and the like. They are not changed.
        effects: The effects of tools by name. A tool that is not named counts as ``mutating``.
        options: Options of `Host`, such as ``timeout=60``. ``principal=`` and ``conversation=`` get the input of the
            call: the SDK knows neither. A list of tools for each runner may say both.
    """
    host, every = Host(effects, **options), list(tools)
    runs: list[Any] = [each for each in every if isinstance(each, (*_ASYNC, *_SYNC))]
    pipeline = host.offer({each.name: _describe(each) for each in runs})
    return [_put_behind(each, host, pipeline) if each in runs else each for each in every]


def _describe(tool: Any) -> HostTool:
    defined, function = tool.to_dict(), getattr(tool, "func", None)
    validator = None if function is None else find_arguments_validator(TypeAdapter(function))
    read = ValidatorReader(validator) if validator is not None and checks_names(validator) else None
    return HostTool(defined.get("description", ""), defined.get("input_schema"), read=read)


def _put_behind(tool: Any, host: Host, pipeline: Pipeline) -> Any:
    behind = copy(tool)

    def call_sync(sent: object) -> Any:
        told: list[ToolError] = []

        def body(valid: ValidCall) -> object:
            try:
                return tool.call(dict(valid.params))
            except (ToolError, ValueError) as exc:
                return _read_error(host, valid, exc, told)

        call = Call(tool.name, sent)
        return _give(call, host.run_sync(pipeline, call, body, sent), told)

    async def call_async(sent: object) -> Any:
        told: list[ToolError] = []

        async def body(valid: ValidCall) -> object:
            try:
                return await tool.call(dict(valid.params))
            except (ToolError, ValueError) as exc:
                return _read_error(host, valid, exc, told)

        call = Call(tool.name, sent)
        return _give(call, await host.run(pipeline, call, body, sent), told)

    behind.call = call_async if isinstance(tool, _ASYNC) else call_sync
    return behind


def _read_error(host: Host, call: ValidCall, exc: ToolError | ValueError, told: list[ToolError]) -> Failure[Any]:
    """A failure in the author's words, or in those of the types of the tool's function."""
    if isinstance(exc, ToolError):
        told[:] = [exc]
        return host.refuse_authored(exc)
    if isinstance(exc.__cause__, ValidationError) and str(exc).startswith("Invalid arguments for function "):
        return refuse_arguments(call, exc.__cause__)
    raise exc


def _give(call: Call, outcome: Outcome, told: list[ToolError]) -> Any:
    if not is_failure(outcome):
        return outcome.unwrap()
    if told and isinstance(outcome.failure(), ExecutionFailed):
        raise told[-1]
    raise ToolError(render(outcome, call=call))


class _Offered:
    """A tool of a pipeline, as the SDK shows it to the model."""

    def __init__(self, definition: Any, make_call: Callable[[object], Call], pipeline: Pipeline) -> None:
        self._definition = definition
        self._make_call = make_call
        self._pipeline = pipeline

    def to_dict(self) -> Any:
        return self._definition


class _Runnable(_Offered, BetaAsyncBuiltinFunctionTool):
    """Runs a call through the pipeline."""

    async def call(self, input: object) -> Any:  # noqa: A002  # the SDK's word
        call = self._make_call(input)
        return _tell(call, await _NO_SIGNER.run(self._pipeline, call), self._pipeline.wording)


class _SyncRunnable(_Offered, BetaBuiltinFunctionTool):
    """As `_Runnable`, for a client without an event loop."""

    def call(self, input: object) -> Any:  # noqa: A002
        call = self._make_call(input)
        return _tell(call, _NO_SIGNER.run_sync(self._pipeline, call), self._pipeline.wording)


def runnable(tools: ToolView, pipeline: Pipeline, **caller: Any) -> list[_Runnable]:
    """The tools that may be called now, for the runner of an ``AsyncAnthropic``.

    A failure is a ``tool_result`` with ``is_error``. The SDK keeps the id of a call to itself, and answers an unknown
    name itself.

    Args:
        tools: The tools.
        pipeline: Runs their calls.
        caller: ``principal=``, ``conversation=``, ``deps=`` of each `Call`. Default: none, for the SDK knows neither.
    """
    return [_Runnable(each, make_call, pipeline) for each, make_call in _list_offered(tools, caller)]


def runnable_sync(tools: ToolView, pipeline: Pipeline, **caller: Any) -> list[_SyncRunnable]:
    """As `runnable`, for the runner of an ``Anthropic``, which takes no async tools."""
    return [_SyncRunnable(each, make_call, pipeline) for each, make_call in _list_offered(tools, caller)]


def _list_offered(tools: ToolView, caller: Mapping[str, Any]) -> Iterable[tuple[Any, Callable[[object], Call]]]:
    """The definition of each tool, and what makes a call of an input, whose names may be changed for the provider."""

    def make_call(own: str, sent: object) -> Call:
        return restore_arguments([Call(own, sent, **caller)], tools, ANTHROPIC.name)[0]

    every = zip(anthropic.tools(tools), tools.callable_names(), strict=True)
    return [(definition, partial(make_call, own)) for definition, own in every]


def _tell(call: Call, outcome: Outcome, wording: Wording | None) -> Any:
    block = anthropic.result(call, outcome, wording=wording)
    if block["is_error"]:
        raise ToolError(block["content"])
    return block["content"]
