"""ServedTools: the tools of a pipeline as a server of MCP lists them, and finds them by the names in its list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from ..adapters.common import build_definitions
from ..base.provider_names import ANTHROPIC, OfferedName
from ..tools import Effect, Tool, ToolView
from ..tools.output_forms import OutputForm, find_form
from .jsonrpc import Message

# Only what the effect says: whether a tool destroys anything, or reaches an open world, it does not.
_HINTS: Final[Mapping[Effect, Mapping[str, bool]]] = {
    "read": {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": False},
    "idempotent": {"readOnlyHint": False, "idempotentHint": True},
    "keyed": {"readOnlyHint": False, "idempotentHint": False},  # the key is ours: two calls are two effects
    "mutating": {"readOnlyHint": False, "idempotentHint": False},
}


class ServedTools:
    """The tools of some registries, as clients see them.

    A name that model providers refuse is listed in a form that they accept: clients pass names on as they are.
    """

    def __init__(self, registries: Sequence[ToolView]) -> None:
        self.registries = tuple(registries)
        self._forms: WeakKeyDictionary[Tool[..., Any], OutputForm | None] = WeakKeyDictionary()
        self._listed: tuple[tuple[int, ...], list[Message]] = (), []  # and the versions that it was made of
        self._schemas: dict[str, Any] = {}  # of the listed tools, by their names in the list

    def list_tools(self) -> list[Message]:
        """The tools that may be called now, as in the result of ``tools/list``. The list is shared: it is not changed.

        Raises:
            SetupError: The type of a parameter has no JSON Schema, or an annotation cannot be found.
        """
        versions = tuple(registry.version for registry in self.registries)
        if not self._listed[1] or versions != self._listed[0]:
            listed = [definition for registry in self.registries for definition in self._define(registry)]
            self._schemas = {each["name"]: each["inputSchema"] for each in listed}
            self._listed = versions, listed
        return self._listed[1]

    def find_schema(self, name: str) -> Any:
        """The schema of the arguments of a tool in the list; None: it is not listed."""
        self.list_tools()
        return self._schemas.get(name)

    def find(self, name: str) -> tuple[str, Tool[..., Any] | None]:
        """Return the name for the call of the pipeline, and the tool if it has exactly this name."""
        for registry in self.registries:
            if (tool := registry.tools.get(name)) is not None:
                return name, tool
        for registry in self.registries:
            if (tool := registry.find_by_provider_name(name)) is not None:
                return OfferedName(tool.name, ANTHROPIC), tool
        return OfferedName(name, ANTHROPIC), None

    def find_form(self, tool: Tool[..., Any]) -> OutputForm | None:
        """The form of what the tool returns; it is made once for each tool."""
        try:
            return self._forms[tool]
        except KeyError:
            return self._forms.setdefault(tool, find_form(tool))

    def list_open(self) -> list[Tool[..., Any]]:
        """The tools in the list, to see whether it has changed."""
        named = ((registry.tools, name) for registry in self.registries for name in registry.callable_names())
        return [tool for tools, name in named if (tool := tools.get(name)) is not None]

    def list_openings(self) -> list[float]:
        """Return after how many seconds closed tools may open by themselves, soonest first. No listener hears of it."""
        closed = (registry.closed.get(name) for registry in self.registries for name in list(registry.tools))
        return sorted({why.retry_after for why in closed if why is not None and why.retry_after is not None})

    def _define(self, registry: ToolView) -> Iterator[Message]:
        own_names = {sent: own for own, sent in registry.provider_names(ANTHROPIC).items()}
        for definition in build_definitions(registry, ANTHROPIC, "inputSchema"):
            tool = registry.tools.get(own_names.get(definition["name"], ""))
            if tool is None:  # another thread took it out meanwhile
                continue
            form = self.find_form(tool)
            output = {} if form is None else {"outputSchema": form.schema}
            yield {**definition, **output, "annotations": _HINTS[tool.effect]}
