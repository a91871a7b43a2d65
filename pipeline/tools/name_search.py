"""The search for the tool that an inexact name means, and for the tools to suggest in its place.

Loaded at the first such name: most models write exact ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from returns.result import Failure

from ..engine.errors import UnknownTool
from .canonical import CanonicalNames
from .definition import Tool
from .matching import SuggestionIndex, find_bare_name, suggest_names
from .transport_noise import find_command, holds_calls, list_readings, split_at_tokens
from .view import ToolView

if TYPE_CHECKING:
    from .shapes import ShapeIndex

_MAX_SUGGESTIONS = 3
_MAX_REMEMBERED = 512  # names whose reading is kept
_MAX_NAME = 200  # characters of such a name
_MAX_DOUBLED = 200  # characters of a name that may stand there twice
_DOUBLED = re.compile(r"(.{2,}?)(?:[ _.,/-]?\1)+", re.DOTALL)
_STRENGTH = {"read": 0, "idempotent": 1, "keyed": 2, "mutating": 3}

Found: TypeAlias = tuple[Tool[..., Any], str] | Failure[UnknownTool]  # the tool and the rule that found it, or why not


class AllNames:
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
    def shapes(self) -> ShapeIndex:
        """By the names of their parameters."""
        from .shapes import ShapeIndex  # most names are near one

        return ShapeIndex(self._registry)

    @cached_property
    def similar(self) -> SuggestionIndex:
        """For the scorers: a model may have meant one that is closed."""
        return SuggestionIndex(self._registry.spellings, list(self._registry.tools))


class NameSearch:
    """The rules for names that are not exact, in one version of a registry."""

    def __init__(self, registry: ToolView, names: AllNames, *, canonical_names: bool, listed: int) -> None:
        self._registry = registry
        self._names = names
        self._canonical_names = canonical_names
        self._listed = listed

    def find(self, name: str, longest: int | None) -> Found:
        """The tool that a name means by one of the rules, or why there is none."""
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
        if holds_calls(texts[0]):
            texts = ()  # the tools of the calls in it are suggested
        elif not first and (bare := self._find_bare_name(texts[0])) is not None:
            first, texts = [bare], ()
        near = (known for text in texts for known in suggest_names(text, self._index))
        suggestions = list(dict.fromkeys((*first, *near)))[:_MAX_SUGGESTIONS]
        available = self._as_sent(self._shown, longest) if len(self._shown) <= self._listed else ()
        return UnknownTool(
            name, self._as_sent(suggestions, longest), available, None if available else len(self._shown)
        )

    def _find_bare_name(self, text: str) -> str | None:
        """The shown name that the text is behind a prefix, or several times over."""
        doubled = _DOUBLED.fullmatch(text) if len(text) <= _MAX_DOUBLED else None
        if doubled is not None and doubled[1] in self._shown:
            return doubled[1]
        return find_bare_name(text, self._shown)

    def refuse_by_arguments(
        self, found: Failure[UnknownTool], arguments: object, longest: int | None
    ) -> Failure[UnknownTool]:
        """The refusal of a name that no name is near, with the tools that its arguments may have been meant for."""
        error = found.failure()
        read = _recall_bare if len(error.requested) <= _MAX_NAME else _read_bare
        bare, is_wrapped = read(error.requested)
        if is_wrapped:
            meant = self._find_wrapped(arguments)
        else:
            shaped = self._names.shapes.find(bare, arguments, self._shown)
            meant = () if shaped is None else (shaped,)
        return Failure(error.changed(suggestions=self._as_sent(meant, longest))) if meant else found

    def _find_wrapped(self, arguments: object) -> Sequence[str]:
        """The shown tools that the calls inside of one are for."""
        from .wrapped_calls import read_wrapped

        each = [self._find_exact(list_readings(name)) for name, _ in read_wrapped(arguments)]
        meant = _unique(found[0] for found in each if len(found) == 1)
        return [tool.name for tool in meant if tool.name in self._shown][:_MAX_SUGGESTIONS]

    def _as_sent(self, names: Iterable[str], longest: int | None) -> tuple[str, ...]:
        if longest is None:
            return tuple(names)
        sent = self._registry.provider_names(longest)
        return tuple(sent[name] for name in names)

    @cached_property
    def _shown(self) -> dict[str, None]:
        return dict.fromkeys(self._registry.callable_names())

    @cached_property
    def _index(self) -> SuggestionIndex:
        return SuggestionIndex(self._registry.spellings, self._shown)


def _read_bare(name: str) -> tuple[str, bool]:
    """A name without its noise, and whether it is that of a wrapper of calls."""
    bare = list_readings(name)[-1]
    return bare, holds_calls(bare)


_recall_bare = lru_cache(_MAX_REMEMBERED)(_read_bare)


def _unique(tools: Iterable[Tool[..., Any] | None]) -> list[Tool[..., Any]]:
    return list({tool.name: tool for tool in tools if tool is not None}.values())
