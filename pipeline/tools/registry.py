"""ToolRegistry: registers, replaces and removes tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast
from weakref import WeakSet, WeakValueDictionary

import attrs

from ..base.introspection import unwrap
from ..base.provider_names import ProviderNames
from ..base.setup_error import SetupError
from ..engine.errors import Unavailable
from .availability import RemovalGate
from .decorator import ToolDecorator
from .definition import Tool
from .matching import Spelling
from .tool_options import default_run_in
from .view import Prepares, ToolView

_TYPED = re.compile(r"^<|ipykernel")  # the file of code that was typed: <stdin>, <ipython-input-1-…>, …/ipykernel_1/…


class ToolRegistry(ToolView):
    """A `ToolView` of all its tools, where tools are registered. A new registry is empty.

    Any thread may read while another one registers, closes or opens tools.

    Attributes:
        tool: The decorator that makes a tool and registers it: ``@registry.tool`` or ``@registry.tool(effect="read")``.
    """

    def __init__(self) -> None:
        tools, aliases = dict[str, Tool[..., Any]](), dict[str, Tool[..., Any]]()
        super().__init__(tools, aliases, {}, ProviderNames(tools, aliases, lambda: self._changes))
        self._changes = 0
        self._removed = WeakValueDictionary[str, Tool[..., Any]]()  # while a call or its author holds them
        self._new: dict[str, Tool[..., Any]] = {}  # not compiled by `compile` yet
        self._preparing = WeakSet[Prepares]()
        self.tool = ToolDecorator(self.register)

    def register(self, tool: Tool[..., Any]) -> None:
        """Add a tool. Nothing is added if one of its names is taken.

        A function that is defined again in a notebook, or at the interactive prompt, replaces its own tool.

        Args:
            tool: Made with ``@tool`` or `Tool.from_schema`.

        Raises:
            SetupError: ``tool`` is not a Tool, or its name or an alias is taken; the text names both origins.
        """
        _check_is_tool(tool, "register")
        with self._writing:
            old = self.tools.get(tool.name)
            if old is not None and not _is_same_cell(old, tool):
                old = None
            self._put(tool, old)
        self._call_listeners()

    def replace(self, tool: Tool[..., Any]) -> None:
        """Put a tool in the place of the one that has its name. It keeps the place in the order, and what closed it.

        A call that has been resolved before runs the old tool.

        Args:
            tool: Made with ``@tool`` or `Tool.from_schema`.

        Raises:
            SetupError: ``tool`` is not a Tool, the registry has none of its name, or an alias is taken.
        """
        _check_is_tool(tool, "replace")
        with self._writing:
            self._require(tool.name)
            self._put(tool, self.tools[tool.name])
        self._call_listeners()

    def unregister(self, name: str) -> None:
        """Remove a tool, with its aliases and with what closed it.

        A body that runs ends as it would; one that has not begun yet, as of a call in a queue, does not begin.

        Args:
            name: The tool's name, not an alias.

        Raises:
            SetupError: The registry has no tool of that name.
        """
        with self._writing:
            self._require(name)
            removed = self.tools.pop(name)
            for alias in removed.aliases:
                del self.aliases[alias]
            self._removed[name] = removed
            del self.spellings[name]
            self._new.pop(name, None)
            self._changes += 1
            self._locks.forget(name)
            self._publish()
        self._call_listeners()

    @contextmanager
    def override(self, name: str, fake: Callable[..., Any]) -> Generator[Tool[..., Any], None, None]:
        """Run another function in place of a tool's own, as a test does: ``with tools.override("pay", fake): …``.

        Name, schema, effect and all other options stay as they are, so the fake gets valid arguments by name, after the
        ToolContext if the tool takes one. `Pipeline.run` takes the tool as before.

        Args:
            name: The tool's name, not an alias.
            fake: The function to run, sync or async.

        Yields:
            The tool that stands in its place until the block ends.

        Raises:
            SetupError: The registry has no tool of that name, or ``fake`` is not a function.
        """
        self._require(name)
        own = self.tools[name]
        stand_in = _make_stand_in(own, fake)
        self.replace(stand_in)
        try:
            yield stand_in
        finally:
            if self.tools.get(name) is stand_in:
                self.replace(own)

    def merge(self, other: ToolView, prefix: str = "") -> None:
        """Add all tools of another registry, as they are now. Nothing is added if one of the names is taken.

        A tool that is closed there is open here; a tool that is registered there later is not added.

        Args:
            other: The registry, or a view, whose shown tools are added.
            prefix: Put before each name and alias, such as ``"billing_"``. Default "": the tools are shared as they
                are. With a prefix they are copies, so `Pipeline.run` takes the tools of this registry only.

        Raises:
            SetupError: A name or an alias is taken, or ``other`` is not a registry.
        """
        if not isinstance(cast("object", other), ToolView):
            raise SetupError(f"merge() takes a ToolRegistry, not {other!r}")
        shown = other.list_shown()
        names = {tool.name for tool in shown}
        added = [_add_prefix(tool, prefix, names) for tool in shown] if prefix else shown
        with self._writing:
            for tool in added:
                self._check_free(tool, None)
            for tool in added:
                self._put(tool, None)
        self._call_listeners()

    def compile(self) -> None:
        """As `ToolView.compile`."""
        with self._writing:
            pending, self._new = self._new, {}
        while pending:
            name, tool = pending.popitem()
            try:
                tool.compile()
            except SetupError:
                with self._writing:
                    self._new = {**pending, name: tool, **self._new}
                raise

    def tell_before_adding(self, listener: Prepares) -> None:
        """As `ToolView.tell_before_adding`."""
        with self._writing:  # from here on each further tool is told, and those before it are to be found
            self._preparing.add(listener)
        for tool in self:
            listener.prepare(tool)

    def _put(self, tool: Tool[..., Any], old: Tool[..., Any] | None) -> None:
        """Add a tool in the place of an old one, or as a new one."""
        self._check_free(tool, old)
        for listener in self._preparing:
            listener.prepare(tool)
        if old is not None:
            for alias in old.aliases:
                del self.aliases[alias]
        self.spellings[tool.name] = Spelling.of(tool.name)
        self.aliases.update(dict.fromkeys(tool.aliases, tool))
        self.tools[tool.name] = tool
        self._new[tool.name] = tool
        self._changes += 1
        if self._removed.pop(tool.name, None) is None:
            self._locks.count_change()
        else:
            self._publish()

    def _check_free(self, tool: Tool[..., Any], old: Tool[..., Any] | None) -> None:
        for name in (tool.name, *tool.aliases):
            first = self.tools.get(name) or self.aliases.get(name)
            if first is not None and first is not old:
                raise SetupError(f"two tools are called {name!r}: {first.origin} and {tool.origin}")

    @property
    def changes(self) -> int:
        """As `ToolView.changes`."""
        return self._changes

    def _gate(self, own: Mapping[str, Unavailable]) -> Mapping[str, Unavailable]:
        return RemovalGate(own, self._removed) if self._removed else own


def _check_is_tool(tool: object, method: str) -> None:
    if not isinstance(tool, Tool):
        raise SetupError(f"{method}() takes a Tool, not {tool!r}; make one with @tool or Tool.from_schema")


def _is_same_cell(old: Tool[..., Any], new: Tool[..., Any]) -> bool:
    """Whether one function was defined twice where a person types: in a notebook, or at a prompt."""
    before = _find_typed(old)
    return before is not None and before == _find_typed(new)


def _find_typed(tool: Tool[..., Any]) -> str | None:
    """The qualified name of the tool's function, if a person typed it; None else."""
    plain = unwrap(tool.fn)
    code = getattr(plain, "__code__", None)
    is_typed = code is not None and plain.__module__ == "__main__" and _TYPED.search(code.co_filename)
    return plain.__qualname__ if is_typed else None


def _add_prefix(tool: Tool[..., Any], prefix: str, names: Collection[str]) -> Tool[..., Any]:
    return attrs.evolve(
        tool,
        name=f"{prefix}{tool.name}",
        aliases=tuple(f"{prefix}{alias}" for alias in tool.aliases),
        verify_with=f"{prefix}{tool.verify_with}" if tool.verify_with in names else tool.verify_with,
    )


def _make_stand_in(own: Tool[..., Any], fake: Callable[..., Any]) -> Tool[..., Any]:
    """Copy a tool with another function, for `ToolRegistry.override`; SetupError if it is none."""
    if isinstance(fake, Tool):
        raise SetupError(f"override: `fake` must be a function, not the tool {fake.name!r}; take its `fn`")
    if not callable(cast("object", fake)):
        raise SetupError(f"override: `fake` must be a function, not {fake!r}")
    return attrs.evolve(own, fn=fake, run_in=default_run_in(fake), origin="", overrides=own.overrides or own)
