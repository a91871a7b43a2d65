"""The names of a reply of the OpenAI Agents SDK, put right before it looks for their tools, and what it was offered.

The SDK hands the tools of a turn to the model alone: function tools, tools of MCP servers, hosted tools and hand-offs.
So the model is wrapped, by a `Model` that passes all on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextvars import ContextVar
from typing import Any

import attrs

from ..engine.call import Call, ResolvedCall
from .framework import requires
from .host import Host, HostTool

with requires("openai-agents"):
    from agents import Agent, FunctionTool, Handoff
    from agents.models.interface import Model, ModelProvider


@attrs.define
class Turn:
    """A turn of an agent, as far as it is known."""

    agent: Agent[Any]
    offered: dict[str, HostTool] | None = None  # to its model, by name; None: another model than ours was asked
    conversation: str = ""  # the id of the one that the provider keeps


# Set before the model is asked, in the task of the run; the model may be asked in a task of its own, so it changes it.
turn: ContextVar[Turn | None] = ContextVar("toolcall_pipeline_turn", default=None)


def describe(tools: Iterable[Any], handoffs: Iterable[Any] = ()) -> dict[str, HostTool]:
    """Describe tools and hand-offs by the names that a model calls them by."""
    offered = {each.name: _describe(each) for each in tools if isinstance(getattr(each, "name", None), str)}
    for each in handoffs:
        is_made = isinstance(each, Handoff)
        offered[each.tool_name if is_made else Handoff.default_tool_name(each)] = HostTool(
            each.tool_description if is_made else each.handoff_description or ""
        )
    return offered


def _describe(tool: Any) -> HostTool:
    if isinstance(tool, FunctionTool):
        return HostTool(tool.description, tool.params_json_schema)
    return HostTool(getattr(tool, "description", None) or "")


class Renaming(Model):
    """Asks a model, and puts the names in its reply right that stand for a tool of the turn beyond doubt."""

    def __init__(self, model: Model, host: Host) -> None:
        self._model = model
        self._host = host
        for name in vars(Model).keys() - vars(Renaming).keys():  # what a release of the SDK asks its models besides
            if not name.startswith(("__", "_abc")):
                setattr(self, name, getattr(model, name))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def get_response(self, *args: Any, **options: Any) -> Any:
        """Ask for a whole reply."""
        offered = self._learn(args, options)
        reply = await self._model.get_response(*args, **options)
        self._put_right(reply.output, offered)
        return reply

    async def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        """Ask for a reply in events."""
        offered = self._learn(args, options)
        async for event in self._model.stream_response(*args, **options):
            self._put_right([getattr(event, "item", None)], offered)
            self._put_right(getattr(getattr(event, "response", None), "output", ()), offered)
            yield event

    def _learn(self, args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, HostTool]:
        names = ("system_instructions", "input", "model_settings", "tools", "output_schema", "handoffs")
        given = {**dict(zip(names, args, strict=False)), **options}
        offered = describe(given.get("tools") or (), given.get("handoffs") or ())
        if (known := turn.get()) is not None:
            known.offered, known.conversation = offered, given.get("conversation_id") or ""
        return offered

    def _put_right(self, items: Iterable[Any], offered: dict[str, HostTool]) -> None:
        for item in items:
            if getattr(item, "type", None) != "function_call" or item.name in offered or getattr(item, "namespace", ""):
                continue
            found = self._host.offer(offered).resolve(Call(item.name))
            if isinstance(found, ResolvedCall):
                item.name = found.tool.name


class RenamingProvider(ModelProvider):
    """Finds the models of another provider, wrapped."""

    def __init__(self, provider: ModelProvider, host: Host) -> None:
        self._provider = provider
        self._host = host

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    def get_model(self, model_name: str | None) -> Model:
        """Return the model of this name."""
        model: Model = wrap_model(self._provider.get_model(model_name), self._host)
        return model

    async def aclose(self) -> None:
        """Release what the provider holds."""
        await self._provider.aclose()


def wrap_model(model: Any, host: Host) -> Any:
    """Return a model that puts names right; anything but an instance of `Model` as it is."""
    if not isinstance(model, Model) or isinstance(model, Renaming):
        return model
    return Renaming(model, host)
