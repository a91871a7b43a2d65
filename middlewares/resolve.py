"""Resolve: finds the tool by the name that the model wrote, or suggests the closest names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from returns.result import Failure

from ..base.options import check_type, is_count, is_type, maps_names
from ..base.provider_names import OfferedName
from ..engine.call import Call, ResolvedCall
from ..engine.compose import Placement
from ..engine.errors import Repair, UnknownTool
from ..tools import Tool, ToolView

if TYPE_CHECKING:
    from ..tools.name_search import AllNames, Found, NameSearch

_MAX_REMEMBERED = 512  # names whose answer is kept: models repeat their mistakes
_MAX_NAME = 200  # characters of a name that is kept, so that strange names cannot fill the memory


@attrs.define(eq=False)
class Resolve:
    """A check that finds the tool of a call.

    It accepts, in this order, a tool's exact name, a declared alias, the name that an adapter sends to a provider
    instead, and each of these under transport noise (see `toolcall_pipeline.tools.transport_noise`). Any other
    name is refused, with suggestions: the tools whose names are near, else the one that takes what was sent. So is a
    name that may mean two tools: a name that is merely similar never runs a tool, and none is guessed.

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
        decides=("unknown_tool",),
        owns_registry=True,
        tool_options=("renames.values",),
    )

    registry: ToolView = attrs.field(validator=is_type(ToolView, name="ToolRegistry"))
    canonical_names: bool = attrs.field(default=False, validator=is_type(bool), kw_only=True)
    listed: int = attrs.field(default=20, validator=is_count(0), kw_only=True)
    renames: Mapping[str, str] = attrs.field(
        factory=dict[str, str], validator=maps_names(check_type, str, name="name of a tool"), kw_only=True
    )
    _tools: Mapping[str, Tool[..., Any]] = attrs.field(init=False, repr=False)
    _names: AllNames | None = attrs.field(init=False, repr=False, default=None)  # most models write exact names
    _search: tuple[int, NameSearch | None, Callable[[str, int | None], Found] | None] = attrs.field(
        init=False, repr=False, default=(-1, None, None)
    )

    def __attrs_post_init__(self) -> None:
        self._tools = self.registry.tools

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
        version, search, recall = self._search
        if search is None or recall is None or version != self.registry.version:
            search, recall = self._begin_search()
        found = recall(name, longest) if len(name) <= _MAX_NAME else search.find(name, longest)
        if type(found) is not Failure:
            tool, rule = found
            return call.resolved(tool, (Repair("name", rule, name, tool.name),))
        return found if found.failure().suggestions else search.refuse_by_arguments(found, call.arguments, longest)

    def _begin_search(self) -> tuple[NameSearch, Callable[[str, int | None], Found]]:
        """A search in the registry as it is now, and its rules with a memory."""
        from ..tools.name_search import AllNames, NameSearch

        version = self.registry.version  # read before the tools: an answer may be newer than its version, never older
        if self._names is None or self._names.changes != self.registry.changes:
            self._names = AllNames(self.registry, self.renames)
        search = NameSearch(self.registry, self._names, canonical_names=self.canonical_names, listed=self.listed)
        recall = lru_cache(_MAX_REMEMBERED)(search.find)
        self._search = version, search, recall
        return search, recall
