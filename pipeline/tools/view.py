"""ToolView: tools by name, which of them are closed, and the definitions that a model is offered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from threading import Lock
from typing import Any, Protocol, TypeAlias

from ..base.foreign_values import FaultBarrier
from ..base.forking import register_after_fork
from ..base.options import read_names
from ..base.provider_names import ProviderNames
from ..base.setup_error import SetupError
from ..engine.errors import Unavailable
from ..privacy import get_logger
from .availability import ToolLock, ToolLocks, ViewGate
from .definition import Tool
from .matching import Spelling

Listener: TypeAlias = Callable[[], object]
FindClosed: TypeAlias = Callable[[str, object], Unavailable | None]  # of the name of a tool, and who asks
_LISTENS = FaultBarrier(get_logger(), "a listener of ToolRegistry.on_change failed")


class Prepares(Protocol):
    """Something that has to know a tool before a call can name it, such as a pipeline."""

    def prepare(self, tool: Tool[..., Any], /) -> object:
        """Get ready for this tool."""
        ...


class ToolView:
    """The tools that one kind of caller may use: a `ToolRegistry`, or the part of one that `view` returns.

    A view can read and close tools, and register none. Any thread may read while another one registers, closes or
    opens tools.

    Attributes:
        tools: All tools of the registry by name, in the order of registration. `closed` says which the view leaves out.
        aliases: The tools by their further names.
        spellings: The normalised name of each tool, by name.
        closed: Why a tool is closed, by name; an open tool is not in it. It may be a computed mapping, so look names
            up in it rather than iterate over it for each call.
    """

    closed: Mapping[str, Unavailable]

    def __init__(
        self,
        tools: dict[str, Tool[..., Any]],
        aliases: dict[str, Tool[..., Any]],
        spellings: dict[str, Spelling],
        provider_names: ProviderNames,
    ) -> None:
        self.tools, self.aliases, self.spellings = tools, aliases, spellings
        self.closed = {}
        self._provider_names = provider_names
        self._locks = ToolLocks()
        self._refusals: dict[Hashable, FindClosed] = {}  # by owner; replaced as a whole, as the listeners
        self._listeners: tuple[Listener, ...] = ()  # replaced as a whole: calling them takes no lock
        self._renew_locks()
        register_after_fork(self._renew_locks)

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

    @property
    def changes(self) -> int:
        """A number that differs after each change of the registered tools. Closing a tool does not change it."""
        raise NotImplementedError

    @property
    def version(self) -> int:
        """A number that differs after each tool that is registered, removed, closed or opened, or opens by itself."""
        changes, expiring = self._locks.state
        return changes if expiring is None else changes + expiring.count_expired()

    def list_shown(self) -> list[Tool[..., Any]]:
        """Return the tools that the view does not leave out, open or closed, in the order of registration."""
        return list(self.tools.values())

    def callable_names(self) -> list[str]:
        """Return the names of the tools that are open now and not hidden, in the order of registration."""
        return [tool.name for tool in self._list_offered()]

    def definitions(self) -> list[dict[str, Any]]:
        """Return ``{"name", "description", "parameters"}`` for each of `callable_names`, for the model."""
        return [tool.definition() for tool in self._list_offered()]

    def _list_offered(self) -> list[Tool[..., Any]]:
        closed = self.closed
        # A rule for all callers also closes a tool that was registered after it was made, and has no lock of its own.
        is_closed = self._is_closed_to_all if closed else closed.__contains__
        return [tool for tool in self.list_shown() if not tool.hidden and not is_closed(tool.name)]

    def _is_closed_to_all(self, name: str) -> bool:
        return self.find_closed(name, "") is not None

    def view(self, names: Collection[str]) -> ToolView:
        """Return a view of these tools, with all others closed: for one process, agent or tenant.

        A tool that is closed here is closed in the view. A tool that is closed in the view stays open here.

        Args:
            names: Names of tools, not aliases. Tools that are registered later stay closed in the view.

        Raises:
            SetupError: ``names`` is not a collection of names, or the registry has no tool of one of them.
        """
        shown = read_names("view", "names", names)
        for name in shown:
            self._require(name)
        return _PartialView(self, shown, self._provider_names)

    def find_by_provider_name(self, name: str) -> Tool[..., Any] | None:
        """Find the tool that a model provider knows as ``name``, because the provider refuses the tool's own name.

        Args:
            name: A name as it came from the provider.

        Returns:
            The tool; None for a name that `provider_names` does not make for any tool. Own names and aliases are not
            looked up.
        """
        own = self._provider_names.find_own(name)
        return None if own is None else self.tools.get(own)

    def provider_names(self, longest: int) -> dict[str, str]:
        """Return the name that each tool of the registry has at a model provider, by the tool's own name.

        Args:
            longest: Characters that the provider accepts in a name; one of `base.provider_names.LIMITS`.

        Returns:
            A name of letters from a to z, digits, ``_`` and ``-`` for each tool, no two the same.

        Raises:
            SetupError: ``longest`` is not one of these limits.
        """
        return self._provider_names.map_names(longest)

    def compile(self) -> None:
        """Compile the tools that are not compiled, so that no call has to. A pipeline does it when it is built.

        Raises:
            SetupError: The type of a parameter has no JSON Schema, or an annotation cannot be found.
        """
        raise NotImplementedError

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
            retry_after: Seconds after which the caller should try again; the tool does not open by itself then.
                Default None: not known.

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
            why: The error that a call gets. It replaces an earlier one of the same tool, reason and owner.
            left: Returns the seconds until the tool opens by itself, asked at every call; it opens at 0. The call gets
                this number in place of ``why.retry_after``. Default None: the tool stays closed until `reopen`.
            owner: The object that keeps the tool closed, such as one breaker of several on this registry. The tool is
                open when no owner keeps it closed. Default None: one owner that all calls without one share.

        Raises:
            SetupError: The registry has no tool of that name.
        """
        self._require(why.tool)
        expired = self._locks.find_expired(why.tool)  # asks functions of others, so not under the mutex
        with self._writing:
            self._locks.add(ToolLock(why, left), owner, expired)
            self._publish()
        self._call_listeners()

    def reopen(self, name: str, reason: str, *, owner: Hashable | None = None) -> None:
        """Take one reason away. The tool opens when no reason is left; a reason that it does not have is ignored.

        Args:
            name: The tool's name, not an alias.
            reason: The ``reason`` of the `Unavailable` that closed it.
            owner: The owner for whom it was closed. Default None: the lock was set without an owner.

        Raises:
            SetupError: The registry has no tool of that name.
        """
        self._require(name)
        with self._writing:
            self._locks.remove(name, reason, owner)
            self._publish()
        self._call_listeners()

    def refuse_with(self, find: FindClosed | None, *, owner: Hashable) -> None:
        """Close tools to some callers, as an operator closes them to one tenant.

        What is closed to a caller without a principal is closed to all, and is not in ``definitions()``; the rest is.

        Args:
            find: Says why a tool is closed to who asks, or None. It is asked at each call, and again before each body.
                None: nothing is closed to anybody for this owner any more.
            owner: The object that closes them.
        """
        with self._writing:
            others = {each: found for each, found in self._refusals.items() if each is not owner}
            self._refusals = others if find is None else {**others, owner: find}
            self._publish()
        self._call_listeners()

    def find_closed(self, name: str, principal: object) -> Unavailable | None:
        """Why a tool is closed to who asks, now; None: it is open."""
        why = self.closed.get(name)
        for find in self._refusals.values() if why is None else ():
            if (why := find(name, principal)) is not None:
                return why
        return why

    def on_change(self, listener: Listener) -> Callable[[], None]:
        """Call a function after each change of the registered or closed tools, in the thread that made the change.

        It is not called when a lock opens by itself, see `close`; `version` changes then too. An exception that it
        raises is logged.

        Args:
            listener: The function, without arguments.

        Returns:
            A function that ends this.
        """
        with self._changing_listeners:
            self._listeners = (*self._listeners, listener)

        def stop() -> None:
            with self._changing_listeners:
                self._listeners = tuple(each for each in self._listeners if each is not listener)

        return stop

    def tell_before_adding(self, listener: Prepares) -> None:
        """Tell an object of each tool before it is registered, and now of those that are, as long as it lives.

        Its ``prepare`` runs while the registry is locked, so it changes none, and it raises nothing.
        """
        raise NotImplementedError

    def _call_listeners(self) -> None:
        for listener in self._listeners:
            with _LISTENS:  # the change may have been made by a call, which must not fail
                listener()

    def _publish(self) -> None:
        gate = self._locks.find_gate(asked=bool(self._refusals))
        self.closed = self._gate(gate)  # before the version: who reads a new version finds the new gate
        self._locks.count_change(gate)

    def _gate(self, own: Mapping[str, Unavailable]) -> Mapping[str, Unavailable]:
        """Return the gate for these locks of the view's own."""
        return own

    def _require(self, name: str) -> None:
        if name not in self.tools:
            shown = [tool.name for tool in self.list_shown() if not tool.hidden]
            raise SetupError(f"unknown tool {name!r}; known: {', '.join(shown) or 'none'}")

    def _renew_locks(self) -> None:
        self._writing = Lock()  # held while tools or locks change; readers take no lock
        self._changing_listeners = Lock()


class _PartialView(ToolView):
    """Some tools of a registry or of another view, with locks of its own."""

    def __init__(self, whole: ToolView, shown: frozenset[str], provider_names: ProviderNames) -> None:
        super().__init__(whole.tools, whole.aliases, whole.spellings, provider_names)
        self._whole, self._shown = whole, shown
        self.closed = ViewGate(whole, shown, {})
        self._order: tuple[int, list[str]] = -1, []  # the names of the tools it shows, and the changes they belong to

    @property
    def changes(self) -> int:
        return self._whole.changes

    @property
    def version(self) -> int:
        return super().version + self._whole.version

    def list_shown(self) -> list[Tool[..., Any]]:
        """As for a registry, without a look at the tools that the view leaves out."""
        changes = self._whole.changes  # before the tools: they may be newer than this number, never older
        if self._order[0] != changes:
            self._order = changes, [name for name in list(self.tools) if name in self._shown]
        return [tool for name in self._order[1] if (tool := self.tools.get(name)) is not None]

    def compile(self) -> None:
        self._whole.compile()

    def tell_before_adding(self, listener: Prepares) -> None:
        self._whole.tell_before_adding(listener)

    def find_closed(self, name: str, principal: object) -> Unavailable | None:
        return super().find_closed(name, principal) or self._whole.find_closed(name, principal)

    def on_change(self, listener: Listener) -> Callable[[], None]:
        """As for a registry; changes of the registry count too."""
        stops = super().on_change(listener), self._whole.on_change(listener)

        def stop_both() -> None:
            for stop in stops:
                stop()

        return stop_both

    def _gate(self, own: Mapping[str, Unavailable]) -> Mapping[str, Unavailable]:
        return ViewGate(self._whole, self._shown, own)
