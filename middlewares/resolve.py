"""Resolve: finds the tool by the name that the model wrote, or suggests the closest names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, ClassVar, TypeAlias

import attrs
from returns.result import Failure

from ..base.options import check_type, is_count, is_type, maps_names
from ..base.provider_names import OfferedName
from ..engine.call import Call, ResolvedCall
from ..engine.compose import Placement
from ..engine.errors import Repair, UnknownTool
from ..tools import (
    CanonicalNames,
    SuggestionIndex,
    Tool,
    ToolView,
    find_bare_name,
    find_command,
    list_readings,
    split_at_tokens,
    suggest_names,
)

_MAX_SUGGESTIONS = 3
_MAX_REMEMBERED = 512  # names whose answer is kept: models repeat their mistakes
_MAX_NAME = 200  # characters of a name that is kept, so that strange names cannot fill the memory
_STRENGTH = {"read": 0, "idempotent": 1, "keyed": 2, "mutating": 3}

Found: TypeAlias = tuple[Tool[..., Any], str] | Failure[UnknownTool]  # the tool and the rule that found it, or why not
Search: TypeAlias = Callable[[str, int | None], Found]


@attrs.define(eq=False)
class Resolve:
    """A check that finds the tool of a call.

    It accepts, in this order, a tool's exact name, a declared alias, the name that an adapter sends to a provider
    instead, and each of these under transport noise (see `toolcall_pipeline.tools.transport_noise`). Any other
    name is refused, with suggestions. So is a name that may mean two tools: a name that is merely similar never
    runs a tool, and none is guessed.

    Args:
        registry: The tools to search.
        canonical_names: Also accept a name that differs only in case, in separators (``-``, ``_``, a blank or ``.``
            between two letters or digits) and in a server prefix (``server__tool``). It must fit one tool alone, and
            that tool must not be stronger in effect than every other near name: ``DeleteUser`` does not run a mutating
            ``delete_user`` if a read-only ``delete_users`` may have been meant. Default False.
        listed: How many tools the error for an unknown name lists, ≥ 0. Of a registry with more callable tools it
            names the nearest ones, and says how many there are. Default 20; 0: none is listed.
        renames: Further names of tools: they count as aliases, and map to the tools' own names. A name that is a tool's
            own, or a declared alias, means that tool all the same. Default: none.

    Raises:
        SetupError: An option is of another type, or ``listed`` is negative.
    """

    placement: ClassVar[Placement] = Placement(
        kind="resolve",
        reason="first of the checks: the stages after it need the tool",
        owns_registry=True,
    )

    registry: ToolView = attrs.field(validator=is_type(ToolView, name="ToolRegistry"))
    canonical_names: bool = attrs.field(default=False, validator=is_type(bool), kw_only=True)
    listed: int = attrs.field(default=20, validator=is_count(0), kw_only=True)
    renames: Mapping[str, str] = attrs.field(
        factory=dict[str, str], validator=maps_names(check_type, str, name="name of a tool"), kw_only=True
    )
    _tools: Mapping[str, Tool[..., Any]] = attrs.field(init=False, repr=False)
    _names: _AllNames = attrs.field(init=False, repr=False)
    _search: tuple[int, Search, Search] = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._tools = self.registry.tools
        self._names = _AllNames(self.registry, self.renames)
        self._search = self._begin_search()

    def __call__(self, call: Call) -> ResolvedCall | Failure[UnknownTool]:
        """The call with its tool, and a repair if the name was not exact; or UnknownTool, with suggestions."""
        name: Any = call.name  # whatever a model put there
        longest: int | None = None
        if type(name) is not str:
            longest = name.longest if type(name) is OfferedName else None
            name = str.__str__(name) if isinstance(name, str) else ""  # a subclass of str may override anything
        tool = self._tools.get(name)
        if tool is not None:
            return call.resolved(tool)
        version, find, recall = self._search
        if version != self.registry.version:
            _, find, recall = self._search = self._begin_search()
        found = recall(name, longest) if len(name) <= _MAX_NAME else find(name, longest)
        if type(found) is Failure:
            return found
        tool, rule = found
        return call.resolved(tool, (Repair("name", rule, name, tool.name),))

    def _begin_search(self) -> tuple[int, Search, Search]:
        """The version of the registry, a search in it, and the same search with a memory."""
        version = self.registry.version  # read before the tools: an answer may be newer than its version, never older
        if self._names.changes != self.registry.changes:
            self._names = _AllNames(self.registry, self.renames)
        find = _NameSearch(self.registry, self._names, canonical_names=self.canonical_names, listed=self.listed).find
        return version, find, lru_cache(_MAX_REMEMBERED)(find)


class _AllNames:
    """Indexes of all names, of closed and hidden tools as well. They serve until a tool is registered or removed."""

    def __init__(self, registry: ToolView, renames: Mapping[str, str]) -> None:
        self._registry = registry
        self.changes = registry.changes  # read before the names: they may be newer than this number, never older
        self.aliases = registry.aliases
        if renames:
            known = {name: registry.tools.get(own) for name, own in renames.items()}
            self.aliases = {**{name: tool for name, tool in known.items() if tool is not None}, **registry.aliases}

    @cached_property
    def canonical(self) -> CanonicalNames:
        """By their letters; aliases too."""
        return CanonicalNames([*self._registry.tools, *self.aliases])

    @cached_property
    def similar(self) -> SuggestionIndex:
        """For the scorers: a model may have meant one that is closed."""
        return SuggestionIndex(self._registry.spellings, list(self._registry.tools))


class _NameSearch:
    """The rules for names that are not exact, in one version of a registry."""

    def __init__(self, registry: ToolView, names: _AllNames, *, canonical_names: bool, listed: int) -> None:
        self._registry = registry
        self._names = names
        self._canonical_names = canonical_names
        self._listed = listed

    def find(self, name: str, longest: int | None) -> Found:
        """The tool that a name means by one of the rules, or why there is none.

        Args:
            name: The name as it came.
            longest: Characters of a name at the provider that it came from, for the names in the answer; None: the
                tools' own names.
        """
        if (tool := self._names.aliases.get(name)) is not None:
            return tool, "alias"
        if (tool := self._registry.find_by_provider_name(name)) is not None:
            return tool, "provider_name"
        readings = list_readings(name)
        meant = self._find_exact(readings)
        if len(meant) == 1:
            return meant[0], "transport_noise"
        texts = split_at_tokens(readings[-1])
        command = self._find_canonical(find_command(text) for text in (readings[-1], *texts))
        if not meant and self._canonical_names:
            meant = self._find_canonical(readings)
            if len(meant) == 1 and not command and not self._is_stronger(meant[0], readings[-1]):
                return meant[0], "canonical_name"
        return Failure(self._refuse(name, longest, [*command, *meant], texts))

    def _find_exact(self, readings: Iterable[str]) -> list[Tool[..., Any]]:
        """The tools that have one of these names."""
        tools, aliases, find = self._registry.tools, self._names.aliases, self._registry.find_by_provider_name
        return _unique(tools.get(text) or aliases.get(text) or find(text) for text in readings)

    def _find_canonical(self, readings: Iterable[str]) -> list[Tool[..., Any]]:
        """Find the tools with a name whose canonical form is that form of one of these."""
        tools, aliases, sent = self._registry.tools, self._names.aliases, [text for text in readings if text]
        found = self._names.canonical.find(sent) if sent else []  # the index is made at its first use
        return _unique(tools.get(known) or aliases.get(known) for known in found)

    def _is_stronger(self, tool: Tool[..., Any], name: str) -> bool:
        """Whether the tool is stronger in effect than all others that are near the name, and there are any."""
        if tool.effect == "read":  # nothing is weaker; the search takes as long as there are tools
            return False
        near = _unique(self._registry.tools.get(other) for other in suggest_names(name, self._names.similar))
        strengths = [_STRENGTH[other.effect] for other in near if other is not tool]
        return bool(strengths) and _STRENGTH[tool.effect] > max(strengths)

    def _refuse(
        self, name: str, longest: int | None, meant: Iterable[Tool[..., Any]], texts: Sequence[str]
    ) -> UnknownTool:
        first = [tool.name for tool in meant if tool.name in self._shown]
        if not first and (bare := find_bare_name(texts[0], self._shown)) is not None:
            first, texts = [bare], ()
        near = (known for text in texts for known in suggest_names(text, self._index))
        suggestions = list(dict.fromkeys((*first, *near)))[:_MAX_SUGGESTIONS]
        available = list(self._shown) if len(self._shown) <= self._listed else []
        if longest is not None:
            sent = self._registry.provider_names(longest)
            suggestions, available = [sent[each] for each in suggestions], [sent[each] for each in available]
        return UnknownTool(name, tuple(suggestions), tuple(available), None if available else len(self._shown))

    @cached_property
    def _shown(self) -> dict[str, None]:
        return dict.fromkeys(self._registry.callable_names())

    @cached_property
    def _index(self) -> SuggestionIndex:
        return SuggestionIndex(self._registry.spellings, self._shown)


def _unique(tools: Iterable[Tool[..., Any] | None]) -> list[Tool[..., Any]]:
    return list({tool.name: tool for tool in tools if tool is not None}.values())
