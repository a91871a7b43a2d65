"""ToolRegistry: tools by name, which of them are closed, and what a model is offered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

from ..errors import SetupError, Unavailable
from ..forking import register_after_fork
from ..options import read_names
from .availability import RemovalGate, ToolLock, ToolLocks
from .change_listeners import ChangeListeners
from .decorator import ToolDecorator
from .definition import Tool
from .matching import Spelling
from .provider_names import ProviderNames
from .redefinition import add_prefix, is_same_cell, make_stand_in

if TYPE_CHECKING:
    from ..mcp.remote_server import RemoteServer
    from .detectors import TextPolicy
    from .tool_options import Effect


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
        self.closed: Mapping[str, Unavailable] = {}  # of three kinds, and changed in place: ask it name by name
        self._changes = 0
        self.tool = ToolDecorator(self.register)
        self._locks = ToolLocks()
        self._removed = WeakValueDictionary[str, Tool[..., Any]]()  # while a call or its author holds them
        self._new: dict[str, Tool[..., Any]] = {}  # not compiled by `compile` yet
        self._listeners = ChangeListeners()
        self._provider_names = ProviderNames(self.tools, self.aliases, lambda: self.changes)
        self._renew_lock()
        register_after_fork(self._renew_lock)

    def register(self, tool: Tool[..., Any]) -> None:
        """Add a tool. Nothing is added if one of its names is taken.

        A function that is defined again in a notebook, or at the interactive prompt, replaces its own tool.

        Args:
            tool: What ``@tool`` or `Tool.from_schema` made.

        Raises:
            SetupError: ``tool`` is not a Tool, or its name or an alias is taken; the text names both origins.
        """
        _check_is_tool(tool, "register")
        with self._writing:
            old = self.tools.get(tool.name)
            if old is not None and not is_same_cell(old, tool):
                old = None
            self._put(tool, old)
        self._listeners.call()

    def replace(self, tool: Tool[..., Any]) -> None:
        """Put a tool in the place of the one that has its name. It keeps the place in the order, and what closed it.

        A call that has been resolved before runs the old tool.

        Args:
            tool: What ``@tool`` or `Tool.from_schema` made.

        Raises:
            SetupError: ``tool`` is not a Tool, the registry has none of its name, or an alias is taken.
        """
        _check_is_tool(tool, "replace")
        with self._writing:
            self._require(tool.name)
            self._put(tool, self.tools[tool.name])
        self._listeners.call()

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
        self._listeners.call()

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
            SetupError: The registry has no tool of that name, or ``fake`` is no function.
        """
        self._require(name)
        own = self.tools[name]
        stand_in = make_stand_in(own, fake)
        self.replace(stand_in)
        try:
            yield stand_in
        finally:
            if self.tools.get(name) is stand_in:
                self.replace(own)

    def merge(self, other: ToolRegistry, prefix: str = "") -> None:
        """Add all tools of another registry, as they are now. Nothing is added if one of the names is taken.

        What is closed there is open here, and what is registered there later is not added.

        Args:
            other: The registry. Of a view, only the tools that it shows are added.
            prefix: Put before each name and alias, such as ``"billing_"``. Default "": the tools are shared as they
                are. With a prefix they are copies, so `Pipeline.run` takes the tools of this registry only.

        Raises:
            SetupError: A name or an alias is taken, or ``other`` is no registry.
        """
        if not isinstance(cast("object", other), ToolRegistry):
            raise SetupError(f"merge() takes a ToolRegistry, not {other!r}")
        shown = other.list_shown()
        names = {tool.name for tool in shown}
        added = [add_prefix(tool, prefix, names) for tool in shown] if prefix else shown
        with self._writing:
            for tool in added:
                self._check_free(tool, None)
            for tool in added:
                self._put(tool, None)
        self._listeners.call()

    def add_mcp(
        self,
        target: object,
        *,
        prefix: str = "",
        trust: bool = False,
        text: TextPolicy = "scrub",
        effects: Mapping[str, Effect] | None = None,
        fingerprints: Mapping[str, str] | None = None,
        connecting: float = 20.0,
        patience: float = 5.0,
    ) -> AbstractAsyncContextManager[RemoteServer]:
        """Add the tools of an MCP server for as long as a context lasts: ``async with tools.add_mcp(…) as server``.

        They follow the server's list. While the server is away they are unavailable, for the reason ``disconnected``,
        and it is connected again. A tool whose definition is not the accepted one is unavailable for the reason
        ``changed`` until `RemoteServer.accept`. The guide in ``pipeline/mcp`` says more.

        Args:
            target: A command as a list, ``["uvx", "mcp-server-time"]``; a URL of streamable HTTP; a server or a
                StdioServerParameters of the package ``mcp``; or a function that makes a transport of that package, for
                each connection a new one.
            prefix: Put before the name of each tool, such as ``"time_"``. Default "": the names are the server's.
            trust: Whether what the server says of its tools is believed: that one only reads, or may be called again.
                Default False: each is ``mutating``, so a lost call is never repeated.
            text: What becomes of the texts of the server's errors: ``"tell"``, ``"scrub"`` or ``"hide"``, as for
                `toolcall_pipeline.tools.detectors.ReturnedError`. Default ``"scrub"``.
            effects: What you know of the tools yourself: effects by the server's names. Default None: nothing.
            fingerprints: The definitions that you have accepted, by the server's names, as `RemoteServer.fingerprints`
                had them. A tool that is not among them is accepted as it is seen first. Default None: none are.
            connecting: Seconds for a connection and the first list. Default 20.
            patience: Seconds for which calls wait for a server that is away before its tools are closed. Default 5;
                0: they are closed at once.

        Raises:
            SetupError: An option is wrong, the package ``mcp`` is not installed, the server cannot be reached, or a
                name is taken. Raised when the context is entered.
        """
        adding: Any = import_module("..mcp.adding", __package__)  # a room above this one, for who asks for it
        given: AbstractAsyncContextManager[RemoteServer] = adding.add_server(
            self,
            target,
            prefix=prefix,
            trust=trust,
            text=text,
            effects={} if effects is None else effects,
            fingerprints={} if fingerprints is None else fingerprints,
            connecting=connecting,
            patience=patience,
        )
        return given

    def on_change(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call a function after each change of what is registered or closed, in the thread that made the change.

        It is not called when a lock ends by itself, see `close`; `version` tells of that too. What it raises is logged.

        Args:
            listener: The function, without arguments.

        Returns:
            A function that ends this.
        """
        return self._listeners.add(listener)

    def compile(self) -> None:
        """Compile the tools that are not compiled, so that no call has to. A pipeline does it when it is built.

        Raises:
            SetupError: The type of a parameter has no JSON Schema, or an annotation cannot be found.
        """
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

    def list_shown(self) -> list[Tool[..., Any]]:
        """The tools that are not left out by a view, open or closed, in the order of registration."""
        return list(self.tools.values())

    def _put(self, tool: Tool[..., Any], old: Tool[..., Any] | None) -> None:
        """Add a tool in the place of an old one, or as a new one."""
        self._check_free(tool, old)
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
        self._listeners.call()

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
        self._listeners.call()

    def _publish(self) -> None:
        gate = self._locks.find_gate()
        self.closed = self._gate(gate)  # before the version: who reads a new version finds the new gate
        self._locks.count_change(gate)

    def _renew_lock(self) -> None:
        self._writing = Lock()  # held by whoever changes tools or locks; readers take no lock

    def _gate(self, own: Mapping[str, Unavailable]) -> Mapping[str, Unavailable]:
        return RemovalGate(own, self._removed) if self._removed else own

    def _require(self, name: str) -> None:
        if name not in self.tools:
            raise SetupError(f"unknown tool {name!r}; known: {', '.join(self.tools) or 'none'}")

    @property
    def changes(self) -> int:
        """A number that differs after each change of what is registered, whatever is closed."""
        return self._changes

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
            longest: Characters that the provider accepts in a name; one of `tools.provider_names.LIMITS`.

        Returns:
            A name of letters from a to z, digits, ``_`` and ``-`` for each tool, no two the same.

        Raises:
            SetupError: ``longest`` is not one of these limits.
        """
        return self._provider_names.sent(longest)

    def callable_names(self) -> list[str]:
        """The names of the tools that are open now and not hidden, in the order of registration."""
        closed = self.closed
        return [tool.name for tool in list(self.tools.values()) if tool.name not in closed and not tool.hidden]

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
        from .registry_view import RegistryView  # which is a registry itself

        return RegistryView(self, frozenset(shown))

    def __getitem__(self, name: str) -> Tool[..., Any]:
        """The tool of that name; an alias is none.

        Raises:
            SetupError: The registry has no tool of that name.
        """
        self._require(name)
        return self.tools[name]

    def __iter__(self) -> Iterator[Tool[..., Any]]:
        return iter(list(self.tools.values()))  # a copy: another thread may unregister one

    def __len__(self) -> int:
        return len(self.tools)

    def __contains__(self, name: object) -> bool:
        return name in self.tools


def _check_is_tool(tool: object, method: str) -> None:
    if not isinstance(tool, Tool):
        raise SetupError(f"{method}() takes a Tool, not {tool!r}; make one with @tool or Tool.from_schema")
