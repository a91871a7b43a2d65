"""ToolRegistry: tools by name, which of them are closed, and what a model is offered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from threading import Lock
from typing import Any, cast

from ..errors import SetupError, Unavailable
from ..forking import register_after_fork
from ..options import read_names
from .availability import ToolLock, ToolLocks, ViewGate
from .decorator import ToolDecorator
from .definition import Tool
from .matching import Spelling
from .provider_names import ProviderNames


class ToolRegistry:
    """The tools that one kind of caller may use. A new registry is empty.

    Any thread may read while another one registers, closes or opens tools.

    Attributes:
        tools: The tools by name, in the order of registration.
        aliases: The tools by their further names.
        spellings: The normalised name of each tool, by name.
        closed: The gate. It holds why a tool is closed, by name; an open tool is not in it.
        tool: The decorator that makes a tool and registers it: ``@registry.tool`` or ``@registry.tool(effect="read")``.
    """

    def __init__(self) -> None:
        self.tools: dict[str, Tool[..., Any]] = {}
        self.aliases: dict[str, Tool[..., Any]] = {}
        self.spellings: dict[str, Spelling] = {}
        self.closed: Mapping[str, Unavailable] = {}  # replaced as a whole: a reader has the old gate or the new one
        self.tool = ToolDecorator(self.register)
        self._locks = ToolLocks()
        self._provider_names = ProviderNames(self.tools, self.aliases)
        self._renew_lock()
        register_after_fork(self._renew_lock)

    def register(self, tool: Tool[..., Any]) -> None:
        """Add a tool. Nothing is added if one of its names is taken.

        Args:
            tool: What ``@tool`` or `Tool.from_schema` made.

        Raises:
            SetupError: ``tool`` is not a Tool, or its name or an alias is taken; the text names both origins.
        """
        if not isinstance(cast("object", tool), Tool):
            raise SetupError(f"register() takes a Tool, not {tool!r}; make one with @tool or Tool.from_schema")
        with self._writing:
            for name in (tool.name, *tool.aliases):
                if (first := self.tools.get(name) or self.aliases.get(name)) is not None:
                    raise SetupError(f"two tools are called {name!r}: {first.origin} and {tool.origin}")
            self.spellings[tool.name] = Spelling.of(tool.name)
            self.aliases.update(dict.fromkeys(tool.aliases, tool))
            self.tools[tool.name] = tool
            self._locks.count_change()

    def disable(self, name: str) -> None:
        """Close a tool until `enable`.

        Args:
            name: The tool's name, not an alias.

        Raises:
            SetupError: The registry has no tool of that name.
        """
        self.close(Unavailable(name, "disabled"))

    def enable(self, name: str) -> None:
        """Undo `disable`. A tool that is also closed for another reason stays closed.

        Args:
            name: The tool's name, not an alias.

        Raises:
            SetupError: The registry has no tool of that name.
        """
        self.reopen(name, "disabled")

    def pause(self, name: str, retry_after: float | None = None) -> None:
        """Close a tool until `resume`.

        Args:
            name: The tool's name, not an alias.
            retry_after: Seconds after which a caller is told to try again; the tool does not open by itself then.
                Default None: a caller is not told a time.

        Raises:
            SetupError: The registry has no tool of that name.
        """
        self.close(Unavailable(name, "paused", retry_after))

    def resume(self, name: str) -> None:
        """Undo `pause`. A tool that is also closed for another reason stays closed.

        Args:
            name: The tool's name, not an alias.

        Raises:
            SetupError: The registry has no tool of that name.
        """
        self.reopen(name, "paused")

    def close(
        self, why: Unavailable, left: Callable[[], float] | None = None, *, owner: Hashable | None = None
    ) -> None:
        """Close ``why.tool`` for one reason, beside any other. Made for circuit breakers, quotas and the like.

        Args:
            why: What a caller is told. The same tool, reason and owner again replace what was set before.
            left: Seconds until the tool opens by itself, asked at every call; it opens at 0, and a caller is told this
                number instead of ``why.retry_after``. Default None: the tool stays closed until `reopen`.
            owner: Who keeps the tool closed, such as one breaker of several on this registry. The tool is open when
                no owner keeps it closed. Default None: whoever gives no owner, all together.

        Raises:
            SetupError: The registry has no tool of that name.
        """
        self._require(why.tool)
        expired = self._locks.find_expired(why.tool)  # asks functions of others, so not under the mutex
        with self._writing:
            self._locks.add(ToolLock(why, left), owner, expired)
            self._publish()

    def reopen(self, name: str, reason: str, *, owner: Hashable | None = None) -> None:
        """Take one reason away. The tool opens when no reason is left; a reason that it does not have is ignored.

        Args:
            name: The tool's name, not an alias.
            reason: The ``reason`` of the `Unavailable` that closed it.
            owner: The owner for whom it was closed. Default None: nobody in particular.

        Raises:
            SetupError: The registry has no tool of that name.
        """
        self._require(name)
        with self._writing:
            self._locks.remove(name, reason, owner)
            self._publish()

    def _publish(self) -> None:
        gate = self._locks.build_gate()
        self.closed = self._gate(gate)  # before the version: who reads a new version finds the new gate
        self._locks.count_change(gate)

    def _renew_lock(self) -> None:
        self._writing = Lock()  # held by whoever changes tools or locks; readers take no lock

    def _gate(self, own: Mapping[str, Unavailable]) -> Mapping[str, Unavailable]:
        return own

    def _require(self, name: str) -> None:
        if name not in self.tools:
            raise SetupError(f"unknown tool {name!r}; known: {', '.join(self.tools) or 'none'}")

    @property
    def version(self) -> int:
        """A number that differs after each change of what is registered or closed, the end of a lock included."""
        changes, expiring = self._locks.state
        return changes if expiring is None else changes + expiring.count_expired()

    def find_by_provider_name(self, name: str) -> Tool[..., Any] | None:
        """The tool that a model provider knows as ``name``, because it refuses the tool's own name.

        Args:
            name: A name as it came from the provider.

        Returns:
            The tool; None for a name that `provider_names` does not make for any tool. Own names and aliases are not
            looked up.
        """
        own = self._provider_names.find_own(name)
        return None if own is None else self.tools.get(own)

    def provider_names(self, longest: int) -> dict[str, str]:
        """The name that each tool has at a model provider, by the tool's own name.

        Args:
            longest: Characters that the provider accepts in a name; one of `pipeline.tools.provider_names.LIMITS`.

        Returns:
            A name of letters from a to z, digits, ``_`` and ``-`` for each tool, no two the same.

        Raises:
            SetupError: ``longest`` is not one of these limits.
        """
        return self._provider_names.sent(longest)

    def callable_names(self) -> list[str]:
        """The names of the tools that are open now and not hidden, in the order of registration."""
        closed = self.closed
        return [name for name, tool in list(self.tools.items()) if name not in closed and not tool.hidden]

    def definitions(self) -> list[dict[str, Any]]:
        """What a model is offered: ``{"name", "description", "parameters"}`` for each of `callable_names`."""
        return [self.tools[name].definition() for name in self.callable_names()]

    def view(self, names: Collection[str]) -> ToolRegistry:
        """A registry that shares these tools and leaves all others closed: for one process, agent or tenant.

        What is closed here is closed in the view. What is closed in the view stays open here.

        Args:
            names: Names of tools, not aliases. Tools that are registered later are left closed in the view.

        Raises:
            SetupError: ``names`` is no collection of names, or the registry has no tool of one of them.
        """
        shown = read_names("view", "names", names)
        for name in shown:
            self._require(name)
        return _View(self, shown)

    def __iter__(self) -> Iterator[Tool[..., Any]]:
        return iter(self.tools.values())

    def __len__(self) -> int:
        return len(self.tools)

    def __contains__(self, name: object) -> bool:
        return name in self.tools


class _View(ToolRegistry):
    """What `ToolRegistry.view` returns: the tools of another registry, with locks of its own."""

    def __init__(self, whole: ToolRegistry, shown: frozenset[str]) -> None:
        super().__init__()
        self._whole, self._shown = whole, shown
        self.tools, self.aliases, self.spellings = whole.tools, whole.aliases, whole.spellings
        self.closed = ViewGate(whole, shown, {})

    def register(self, tool: Tool[..., Any]) -> None:
        raise SetupError(f"{tool.name}: a view registers no tools; register it with the registry of the view")

    def _gate(self, own: Mapping[str, Unavailable]) -> Mapping[str, Unavailable]:
        return ViewGate(self._whole, self._shown, own)

    def find_by_provider_name(self, name: str) -> Tool[..., Any] | None:
        return self._whole.find_by_provider_name(name)

    def provider_names(self, longest: int) -> dict[str, str]:
        return self._whole.provider_names(longest)

    @property
    def version(self) -> int:
        return super().version + self._whole.version
