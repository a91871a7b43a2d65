"""Resolve: finds the tool by the name that the model wrote, or suggests the closest names."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, ClassVar, TypeAlias

from returns.result import Failure

from pipeline import Call, Placement, Repair, ResolvedCall, Tool, ToolRegistry, UnknownTool
from pipeline.options import check_type
from pipeline.tools import SuggestionIndex, find_canonical, strip_noise, suggest_names

_MAX_LISTED = 20  # an error lists all tools if there are no more than this
_MAX_REMEMBERED = 512  # names whose answer is kept: models repeat their mistakes
_MAX_NAME = 200  # characters of a name that is kept, so that strange names cannot fill the memory
_STRENGTH = {"read": 0, "idempotent": 1, "keyed": 2, "mutating": 3}

Found: TypeAlias = tuple[Tool[..., Any], str] | Failure[UnknownTool]  # the tool and the rule that found it, or why not
Search: TypeAlias = Callable[[str], Found]


class Resolve:
    """A check that finds the tool of a call.

    It accepts, in this order, a tool's exact name, a declared alias, either of them under transport noise, and the
    name that an adapter sends to a provider instead. Any other name is refused, with suggestions; a name that is
    merely similar never runs a tool.

    Args:
        registry: The tools to search.
        canonical_names: Also accept a name that differs only in case, separators and server prefix. It must fit one
            tool alone, and that tool must not be stronger in effect than every other near name: ``DeleteUser`` does
            not run a mutating ``delete_user`` if a read-only ``delete_users`` may have been meant. Default False.

    Raises:
        SetupError: An option is of another type.
    """

    placement: ClassVar[Placement] = Placement(
        kind="resolve",
        reason="first of the checks: the stages after it need the tool",
        owns_registry=True,
    )

    def __init__(self, registry: ToolRegistry, *, canonical_names: bool = False) -> None:
        check_type("Resolve", "registry", registry, ToolRegistry)
        check_type("Resolve", "canonical_names", canonical_names, bool)
        self.registry = registry
        self.canonical_names = canonical_names
        self._tools = registry.tools
        self._search = self._begin_search()

    def __call__(self, call: Call) -> ResolvedCall | Failure[UnknownTool]:
        """The call with its tool, and a repair if the name was not exact; or UnknownTool, with suggestions."""
        name: Any = call.name  # whatever a model put there
        if type(name) is not str:
            name = str.__str__(name) if isinstance(name, str) else ""  # a subclass of str may override anything
        tool = self._tools.get(name)
        if tool is not None:
            return call.resolved(tool)
        version, find, recall = self._search
        if version != self.registry.version:
            _, find, recall = self._search = self._begin_search()
        found = recall(name) if len(name) <= _MAX_NAME else find(name)
        if type(found) is Failure:
            return found
        tool, rule = found
        return call.resolved(tool, (Repair("name", rule, name, tool.name),))

    def _begin_search(self) -> tuple[int, Search, Search]:
        """The version of the registry, a search in it, and the same search with a memory."""
        version = self.registry.version  # read before the tools: an answer may be newer than its version, never older
        find = _NameSearch(self.registry, canonical_names=self.canonical_names).find
        return version, find, lru_cache(_MAX_REMEMBERED)(find)


class _NameSearch:
    """The rules for names that are not exact, in one version of a registry."""

    def __init__(self, registry: ToolRegistry, *, canonical_names: bool) -> None:
        self._registry = registry
        self._canonical_names = canonical_names

    def find(self, name: str) -> Found:
        """The tool that a name means by one of the rules, or why there is none."""
        tools, aliases = self._registry.tools, self._registry.aliases
        if (tool := aliases.get(name)) is not None:
            return tool, "alias"
        clean = strip_noise(name)
        if (tool := tools.get(clean) or aliases.get(clean)) is not None:
            return tool, "transport_noise"
        if (tool := self._registry.find_by_provider_name(clean)) is not None:
            return tool, "provider_name"
        suggestions = suggest_names(clean, self._index)
        if self._canonical_names and (tool := self._find_canonical(clean, suggestions)) is not None:
            return tool, "canonical_name"
        names = self._registry.callable_names()
        return Failure(UnknownTool(name, suggestions, tuple(names) if len(names) <= _MAX_LISTED else ()))

    @cached_property
    def _index(self) -> SuggestionIndex:
        return SuggestionIndex(self._registry.spellings, self._registry.callable_names())

    def _find_canonical(self, name: str, suggestions: tuple[str, ...]) -> Tool[..., Any] | None:
        names = find_canonical(name, self._registry.spellings)
        if len(names) != 1:
            return None
        tool = self._registry.tools[names[0]]
        near = [self._registry.tools[other] for other in suggestions if other != tool.name]
        is_strongest = all(_STRENGTH[tool.effect] > _STRENGTH[other.effect] for other in near)
        return None if near and is_strongest else tool
