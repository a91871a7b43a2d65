"""ToolRegistry: names, aliases, and the one gate that Available, ``definitions()`` and suggestions all ask."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from threading import Lock
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

import attrs

from ..errors import SetupError, Unavailable
from .decorator import ToolDecorator
from .definition import Tool
from .matching import Spelling

Shut: TypeAlias = "tuple[Unavailable, Callable[[], float] | None]"  # why, and the seconds left of it; None: no end
P = ParamSpec("P")
T = TypeVar("T")


class ToolRegistry:
    """The tools that one kind of caller may use; empty at first."""

    def __init__(self) -> None:
        self.tools: dict[str, Tool[..., Any]] = {}  # by name
        self.aliases: dict[str, Tool[..., Any]] = {}  # by declared other name
        self.spellings: dict[str, Spelling] = {}  # by name, normalised once
        self.closed: Mapping[str, Unavailable] = {}  # the gate: by name; empty in the common case
        self._locks: dict[str, dict[str, Shut]] = {}  # by name and reason: a tool is open when the last is gone
        self._lapsing: _Lapsing | None = None  # the locks, where one of them opens by itself
        self._changes: int = 0
        self._writing = Lock()  # reading needs none
        self.tool = ToolDecorator(self.register)

    def register(self, tool: Tool[..., Any]) -> None:
        """Add a tool. Raises SetupError, with both origins, where its name or an alias is taken."""
        if not isinstance(cast("object", tool), Tool):
            raise SetupError(f"{tool!r} is no Tool: make one of it with @tool, or with Tool.from_schema")
        with self._writing:
            for name in (tool.name, *tool.aliases):
                if (first := self.tools.get(name) or self.aliases.get(name)) is not None:
                    raise SetupError(f"two tools are called {name!r}: {first.origin} and {tool.origin}")
            self.spellings[tool.name] = Spelling.of(tool.name)
            self.aliases.update(dict.fromkeys(tool.aliases, tool))
            self.tools[tool.name] = tool
            self._changes += 1 if self._lapsing is None else 1 + self._lapsing.number

    def disable(self, name: str) -> None:
        """Take a tool out of use until `enable`."""
        self.close(Unavailable(self._known(name), "disabled"))

    def enable(self, name: str) -> None:
        """Undo `disable`; a tool that is also paused stays so."""
        self.reopen(name, "disabled")

    def pause(self, name: str, retry_after: float | None = None) -> None:
        """Take a tool out of use until `resume`; ``retry_after`` (seconds) is told to whoever asks for it."""
        self.close(Unavailable(self._known(name), "paused", retry_after))

    def resume(self, name: str) -> None:
        """Undo `pause`; a tool that is also disabled stays so."""
        self.reopen(name, "paused")

    def close(self, why: Unavailable, left: Callable[[], float] | None = None) -> None:
        """Shut the gate for ``why.tool``, one lock for each reason. For breakers, quotas and the like.

        A lock with ``left`` opens by itself: it says how many seconds remain, which is what a caller is told, and from
        zero on the tool is open. Without it the lock holds until `reopen`.
        """
        with self._writing:
            self._locks.setdefault(self._known(why.tool), {})[why.reason] = (why, left)
            self._settle()

    def reopen(self, name: str, reason: str) -> None:
        """Take one lock away; the tool opens with the last of them."""
        with self._writing:
            self._locks.get(self._known(name), {}).pop(reason, None)
            self._settle()

    def _settle(self) -> None:
        """Whoever reads the gate meanwhile has the old one, whole."""
        shut = {name: tuple(locks.values()) for name, locks in self._locks.items() if locks}
        lapse = any(left is not None for locks in shut.values() for _, left in locks)
        self._changes += 1 if self._lapsing is None else 1 + self._lapsing.number  # past all that it may have said
        self._lapsing = _Lapsing(shut) if lapse else None
        self.closed = self._gate(self._lapsing or {name: locks[0][0] for name, locks in shut.items()})

    def _gate(self, own: Mapping[str, Unavailable]) -> Mapping[str, Unavailable]:
        return own

    def _known(self, name: str) -> str:
        if name not in self.tools:
            raise SetupError(f"there is no tool {name!r} here; there are {', '.join(self.tools) or 'none'}")
        return name

    @property
    def version(self) -> int:
        """Another number after each change of what is there or open: what was computed for another one is stale."""
        lapsing = self._lapsing  # another thread may take it away meanwhile
        return self._changes if lapsing is None else self._changes + lapsing.lapsed()

    def callable_names(self) -> list[str]:
        """The tools that may be called right now and are not hidden, in the order of registration."""
        closed = self.closed
        return [name for name, tool in list(self.tools.items()) if name not in closed and not tool.hidden]

    def definitions(self) -> list[dict[str, Any]]:
        """What a model is offered: ``{"name", "description", "parameters"}`` for each tool that is open now."""
        return [self.tools[name].definition() for name in self.callable_names()]

    def view(self, names: Collection[str]) -> ToolRegistry:
        """A registry that shares these tools and leaves the others closed, for a process, an agent or a tenant.

        What is closed here is closed there too; what is closed there is closed there alone.
        """
        return _View(self, frozenset(map(self._known, names)))

    def __iter__(self) -> Iterator[Tool[..., Any]]:
        return iter(self.tools.values())

    def __len__(self) -> int:
        return len(self.tools)

    def __contains__(self, name: object) -> bool:
        return name in self.tools


class _View(ToolRegistry):
    def __init__(self, whole: ToolRegistry, names: frozenset[str]) -> None:
        super().__init__()
        self._whole, self._names = whole, names
        self.tools, self.aliases, self.spellings = whole.tools, whole.aliases, whole.spellings
        self.closed = _ViewGate(whole, names, {})

    def register(self, tool: Tool[..., Any]) -> None:
        raise SetupError(
            f"{tool.name}: a view shares tools and takes none of its own; register with the whole registry"
        )

    def _gate(self, own: Mapping[str, Unavailable]) -> Mapping[str, Unavailable]:
        return _ViewGate(self._whole, self._names, own)

    @property
    def version(self) -> int:
        return super().version + self._whole.version


class _Asked(Mapping[str, Unavailable]):
    """A gate that finds the answer when it is asked: `get` is what a call uses, and the rest follows from it."""

    def __getitem__(self, name: str) -> Unavailable:
        why: Unavailable | None = self.get(name)
        if why is None:
            raise KeyError(name)
        return why

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True  # asked for each call: counting would be the dear way to say so


class _Lapsing(_Asked):
    """Locks of which some open by themselves."""

    def __init__(self, locks: Mapping[str, tuple[Shut, ...]]) -> None:
        self._locks = locks
        self.number = sum(map(len, locks.values()))

    def get(self, name: str, default: Any = None, /) -> Any:  # asked for each call: Mapping's own raises and catches
        for why, left in self._locks.get(name, ()):
            if left is None:
                return why
            if (seconds := left()) > 0:
                return attrs.evolve(why, retry_after=seconds)
        return default

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._locks if name in self)

    def lapsed(self) -> int:
        """How many of them have opened by now."""
        return sum(left is not None and left() <= 0 for locks in self._locks.values() for _, left in locks)


class _ViewGate(_Asked):
    """What the view closes itself, then what it leaves out, then what the whole registry has closed."""

    def __init__(self, whole: ToolRegistry, names: frozenset[str], own: Mapping[str, Unavailable]) -> None:
        self._whole, self._view, self._own = whole, names, own

    def get(self, name: str, default: Any = None, /) -> Any:
        if (why := self._own.get(name)) is not None:
            return why
        if name not in self._view and name in self._whole.tools:
            return Unavailable(name, "disabled")
        return self._whole.closed.get(name, default)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._whole.tools if name in self)
