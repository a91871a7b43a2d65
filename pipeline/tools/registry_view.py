"""RegistryView: a registry that shows some tools of another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ..errors import SetupError, Unavailable
from .availability import ViewGate
from .definition import Tool
from .registry import ToolRegistry


class RegistryView(ToolRegistry):
    """What `ToolRegistry.view` returns: the tools of another registry, with locks of its own."""

    def __init__(self, whole: ToolRegistry, shown: frozenset[str]) -> None:
        super().__init__()
        self._whole, self._shown = whole, shown
        self.tools, self.aliases, self.spellings = whole.tools, whole.aliases, whole.spellings
        self.closed = ViewGate(whole, shown, {})
        self._order: tuple[int, list[str]] = -1, []  # of the tools it shows, and the changes it was made for

    def register(self, tool: Tool[..., Any]) -> None:
        """Refused: its registry registers tools."""
        raise SetupError(f"{tool.name}: a view registers no tools; register it with the registry of the view")

    def replace(self, tool: Tool[..., Any]) -> None:
        """Refused: its registry replaces tools."""
        raise SetupError(f"{tool.name}: a view replaces no tools; replace it in the registry of the view")

    def unregister(self, name: str) -> None:
        """Refused: its registry removes tools."""
        raise SetupError(f"{name}: a view removes no tools; disable it in the view, or remove it from its registry")

    def merge(self, other: ToolRegistry, prefix: str = "") -> None:  # noqa: ARG002  # it takes none
        """Refused: its registry registers tools."""
        raise SetupError("a view registers no tools; merge into the registry of the view")

    def add_mcp(self, target: object, **_options: Any) -> NoReturn:  # noqa: ARG002  # it takes none
        """Refused: its registry registers tools."""
        raise SetupError("a view registers no tools; add the server to the registry of the view")

    def on_change(self, listener: Callable[[], object]) -> Callable[[], None]:
        """As `ToolRegistry.on_change`, for changes of its registry too."""
        stops = super().on_change(listener), self._whole.on_change(listener)

        def stop_both() -> None:
            for stop in stops:
                stop()

        return stop_both

    def compile(self) -> None:
        """Compile the tools of its registry."""
        self._whole.compile()

    def list_shown(self) -> list[Tool[..., Any]]:
        """The tools that it shows."""
        found = map(self.tools.get, self._list_names())
        return [tool for tool in found if tool is not None]

    def callable_names(self) -> list[str]:
        """As `ToolRegistry.callable_names`, without a look at the tools that it leaves out."""
        closed, tools = self.closed, self.tools
        names = [name for name in self._list_names() if name not in closed]
        return [name for name in names if (tool := tools.get(name)) is not None and not tool.hidden]

    def _list_names(self) -> list[str]:
        """The names that it shows, in the order of registration."""
        changes = self._whole.changes  # before the tools: they may be newer than this number, never older
        if self._order[0] != changes:
            self._order = changes, [name for name in list(self.tools) if name in self._shown]
        return self._order[1]

    def _gate(self, own: Mapping[str, Unavailable]) -> Mapping[str, Unavailable]:
        return ViewGate(self._whole, self._shown, own)

    def find_by_provider_name(self, name: str) -> Tool[..., Any] | None:
        """As its registry does."""
        return self._whole.find_by_provider_name(name)

    def provider_names(self, longest: int) -> dict[str, str]:
        """As its registry does."""
        return self._whole.provider_names(longest)

    @property
    def changes(self) -> int:
        """As its registry says."""
        return self._whole.changes

    @property
    def version(self) -> int:
        """A number that differs after each change of its own and of its registry."""
        return super().version + self._whole.version
