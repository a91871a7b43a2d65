"""Resolve: the name that the model wrote becomes a tool, or an UnknownTool with the closest names."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, TypeAlias

from returns.result import Failure

from pipeline import Call, Placement, Repair, ResolvedCall, Tool, ToolRegistry, UnknownTool
from pipeline.tools import SuggestionIndex, find_canonical, strip_noise, suggest_names

_LISTED = 20  # an error lists all tools if there are no more than this
_REMEMBERED = 512  # names whose answer is kept: models repeat their mistakes
_LONGEST = 200  # characters of a name that is kept, so that strange names cannot fill the memory
_STRENGTH = {"read": 0, "idempotent": 1, "keyed": 2, "mutating": 3}

Found: TypeAlias = tuple[Tool[..., Any], str]  # the tool, and the rule that found it; "" for the exact name


class Resolve:
    """A check that finds the tool of a call.

    It accepts, in this order, a tool's exact name, a declared alias, either of them under transport noise, and the
    name that an adapter sends to a provider instead. Any other name is refused, with suggestions; a name that is
    merely similar never runs a tool.

    Args:
        registry: Where the tools are.
        canonical_names: Also accept a name that differs only in case, separators and server prefix. It must fit one
            tool alone, and that tool must not be stronger in effect than every other near name: ``DeleteUser`` does
            not run a mutating ``delete_user`` if a read-only ``delete_users`` may have been meant. Default False.
    """

    placement: ClassVar[Placement] = Placement(
        kind="resolve",
        reason="first of the checks: what follows wants to know the tool",
        owns_registry=True,
    )

    def __init__(self, registry: ToolRegistry, *, canonical_names: bool = False) -> None:
        self.registry = registry
        self.canonical_names = canonical_names
        self._tools = registry.tools
        # Both answers hold for one version of the registry, which is their argument.
        self._recall = lru_cache(_REMEMBERED)(self._search)
        self._index = lru_cache(1)(self._build_index)

    def __call__(self, call: Call) -> ResolvedCall | Failure[UnknownTool]:
        """The call with its tool, and a repair if the name was not exact; or why there is no such tool."""
        name: object = call.name
        tool = self._tools.get(name) if type(name) is str else None
        if tool is not None:
            return call.resolved(tool)
        text = str.__str__(name) if isinstance(name, str) else ""  # a subclass of str may override anything
        search = self._recall if len(text) <= _LONGEST else self._search
        found = search(text, self.registry.version)
        if isinstance(found, UnknownTool):
            return Failure(found)
        tool, rule = found
        return call.resolved(tool, (Repair("name", rule, text, tool.name),) if rule else ())

    def _search(self, name: str, version: int) -> Found | UnknownTool:
        tools, aliases = self.registry.tools, self.registry.aliases
        if (tool := tools.get(name)) is not None:
            return tool, ""
        if (tool := aliases.get(name)) is not None:
            return tool, "alias"
        clean = strip_noise(name)
        if (tool := tools.get(clean) or aliases.get(clean)) is not None:
            return tool, "transport_noise"
        if (tool := self.registry.find_by_provider_name(clean)) is not None:
            return tool, "provider_name"
        suggestions = suggest_names(clean, self._index(version))
        if self.canonical_names and (tool := self._find_canonical(clean, suggestions)) is not None:
            return tool, "canonical_name"
        callable_names = self.registry.callable_names()
        return UnknownTool(name, suggestions, tuple(callable_names) if len(callable_names) <= _LISTED else ())

    def _find_canonical(self, name: str, suggestions: tuple[str, ...]) -> Tool[..., Any] | None:
        tools = self.registry.tools
        names = find_canonical(name, self.registry.spellings)
        if len(names) != 1:
            return None
        tool = tools[names[0]]
        near = [tools[other] for other in suggestions if other != tool.name]
        is_strongest = all(_STRENGTH[tool.effect] > _STRENGTH[other.effect] for other in near)
        return None if near and is_strongest else tool

    def _build_index(self, version: int) -> SuggestionIndex:  # noqa: ARG002  # the key under which it is kept
        return SuggestionIndex(self.registry.spellings, self.registry.callable_names())
