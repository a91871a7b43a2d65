"""Processes that share a store, each a pipeline of its own, and what can go wrong with them.

A process of the simulation is a host of its own to the others: that it lives is seen by its lease. Once it is killed,
none of its tasks reaches the store or the outside again, and what its memory held is lost.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast
from unittest import mock

import attrs

from simulation.virtual_time import SKEW, VirtualLoop
from toolcall_pipeline import Approvals, Tool, ToolContext, ToolRegistry
from toolcall_pipeline.engine.compose.stage import Stage
from toolcall_pipeline.middlewares import Approve, Audit, Ledger, Quota, standard
from toolcall_pipeline.once import CONVERSATIONS, Conversations, owners
from toolcall_pipeline.stores import ANY, Change, Entry, StoreError
from toolcall_pipeline.stores.store import check_changes

if TYPE_CHECKING:
    from simulation.model import Arrival, Model

LEASE = 600.0  # seconds
EXPIRES = 86400.0  # seconds until an approval expires
QUOTA = 6  # calls of a conversation, where there is one
# Turns of the loop for others, between two steps; in the last one they make a whole call.
_TURNS = (*(0, 0, 0, 1, 1, 2, 5) * 5, 60)
PROCESS: ContextVar[Process] = ContextVar("process")
ARRIVAL: ContextVar[Arrival] = ContextVar("arrival")


class Killed(BaseException):
    """A task of a process that is no more."""


@attrs.define(eq=False)
class SharedStore:
    """What all processes of a history see: keys, values and versions, on the one clock of the store."""

    loop: VirtualLoop
    held: dict[str, tuple[Entry, float]] = attrs.field(factory=dict[str, tuple[Entry, float]])
    versions: int = 0

    def find(self, key: str) -> Entry | None:
        """See `Store.get`."""
        entry, until = self.held.get(key, (None, 0.0))
        return entry if until > self.loop.now else None

    def purge(self) -> None:
        """Forget what a ledger keeps."""
        for key in [key for key in self.held if key.startswith(("d/", "i/", "r/", "s/"))]:
            del self.held[key]

    def write(self, changes: tuple[Change, ...]) -> int | None:
        """See `Store.write`."""
        for key, _, expect, _ in changes:
            if expect is not ANY:
                found = self.find(key)
                if (None if found is None else found.version) != expect:
                    return None
        self.versions += 1
        for key, value, _, ttl in changes:
            if value is None:
                self.held.pop(key, None)
            else:
                until = math.inf if ttl is None else self.loop.now + ttl
                self.held[key] = Entry(value, self.versions), until
        return self.versions


@attrs.define(eq=False)
class Door:
    """The store as one process reaches it: it lets other tasks run, and fails when the history says so."""

    shared: SharedStore
    process: Process
    leases: set[str] = attrs.field(factory=set[str])

    async def get(self, key: str, /) -> Entry | None:
        """See `Store.get`."""
        await self.process.pause()
        if self.process.take_fault():
            raise StoreError("away")
        found = self.shared.find(key)
        await self.process.pause()
        return found

    async def write(self, *changes: Change) -> int | None:
        """See `Store.write`."""
        check_changes(changes)
        await self.process.pause()
        fault = self.process.take_fault()
        if fault == "before":
            raise StoreError("away")
        version = self.shared.write(changes)
        self.leases.update(key for key, *_ in changes if key.startswith("o/"))
        if fault == "killed after":
            self.process.die()
        await self.process.pause()
        if fault:
            raise StoreError("away", maybe_written=True)
        return version

    async def scan(self, prefix: str = "", /) -> AsyncIterator[tuple[str, Entry]]:
        """See `Store.scan`."""
        await self.process.pause()
        if self.process.take_fault():
            raise StoreError("away")
        for key in sorted(self.shared.held):
            if key.startswith(prefix) and (entry := self.shared.find(key)) is not None:
                yield key, entry

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """It holds nothing open."""


@attrs.define(eq=False)
class Process:
    """One process: a pipeline with its own ledger, and a memory of its own.

    Args:
        name: Also of its host.
        model: Watches what its bodies do.
        shared: The store. None: it has none, and remembers by itself alone.
        options: What its pipeline has beside the ledger: "quota", "approve", "audit", "small".
        dice: Decide how many other steps come between two of its own.
        tools: By name, as this process has them.
    """

    name: str
    model: Model
    shared: SharedStore | None
    options: frozenset[str]
    dice: random.Random
    tools: dict[str, Tool[..., Any]]
    dead: bool = False
    ended: bool = False  # the history is over
    faults: list[str] = attrs.field(factory=list[str])
    faulted: list[int] = attrs.field(factory=list[int])  # when the store failed, as steps of the model
    steps: int = 0  # of the store
    skew: list[float] = attrs.field(factory=lambda: [0.0])
    memory: Conversations = attrs.field(init=False)
    renewals: list[Any] = attrs.field(factory=list[Any])  # of its leases
    lease_until: float = math.inf
    door: Door | None = attrs.field(init=False, default=None)
    pipeline: Any = attrs.field(init=False)
    ledger: Any = attrs.field(init=False, default=None)
    registry: ToolRegistry = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.memory = Conversations(max_bytes=12_000) if "small" in self.options else Conversations()

    async def start(self) -> None:
        """Build and open the pipeline."""
        self.enter()
        self.registry = ToolRegistry()
        for tool in self.tools.values():
            self.registry.register(tool)
        pipeline = standard(self.registry, attempts=2)
        if self.shared is not None:
            self.door = Door(self.shared, self)
            self.ledger = Ledger(self.door, lease=LEASE, max_wait=2)
            pipeline = pipeline.before("retry", self.ledger)
            if "approve" in self.options:
                pipeline = pipeline.before("ledger", Approve(self.door, tools=["wire"], expires=EXPIRES))
            if "audit" in self.options:
                pipeline = pipeline.after("validate", Audit(self.door))
            if "quota" in self.options:
                pipeline = pipeline.before("ledger", Quota(QUOTA, store=self.door))
        self.pipeline = pipeline
        await pipeline.__aenter__()
        self.note_lease()

    def enter(self) -> None:
        """What the current task does from now on, this process does."""
        PROCESS.set(self)
        SKEW.set(self.skew)

    def note_lease(self) -> None:
        """Its lease was written just now."""
        if self.shared is not None:
            self.lease_until = self.shared.loop.now + 0.79 * LEASE

    async def renew_lease(self) -> None:
        """As a thread of the process does all the time."""
        if self.shared is None or self.shared.loop.now < self.lease_until - LEASE / 2:
            return
        with suppress(StoreError):
            for renew in self.renewals:
                await renew()
            self.note_lease()

    async def pause(self) -> None:
        """Let others run."""
        self.check_alive()
        for _ in range(self.dice.choice(_TURNS)):
            await asyncio.sleep(0)
        self.check_alive()

    def check_alive(self) -> None:
        """Raises Killed in a process that is no more."""
        if self.ended:
            raise StoreError("the history is over")
        if self.dead:
            raise Killed

    def take_fault(self) -> str:
        """How the store fails this time. "": it does not. Raises Killed where the process dies before the step."""
        self.steps += 1
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "killed before":
            self.die()
        if fault:
            self.faulted.append(self.model.now)
        return fault

    def die(self) -> None:
        """Raises Killed: it is no more, and all see it."""
        self.model.kill(self, at_once=True)
        raise Killed

    def replace(self, tool: Tool[..., Any]) -> None:
        """Have another version of a tool, as after a server's new list."""
        self.tools[tool.name] = tool
        self.registry.replace(tool)

    def kill(self, *, at_once: bool) -> None:
        """It is no more. Others see it at once, or once its lease ends."""
        self.dead = True
        if at_once and self.door is not None and self.shared is not None:
            for key in self.door.leases:
                self.shared.held.pop(key, None)

    async def stop(self) -> None:
        """Let go of it at the end of a history."""
        self.enter()
        self.ended = True
        with suppress(Exception, Killed):
            await self.pipeline.__aexit__(None, None, None)

    @property
    def approvals(self) -> Approvals:
        return Approvals(cast("Any", self.door))


def _find_host() -> str:
    return f"{id(PROCESS.get())}"


class _Thread:
    """In place of the thread that renews a lease: the process of the simulation does that."""

    def __init__(self, target: Any, **_: Any) -> None:
        owner = target.__self__
        PROCESS.get().renewals.extend((owner._renew, owner._at_each))

    def start(self) -> None:
        """Nothing is left to do."""


class _PerProcess(Conversations):
    """The memory of a process, as each process of the simulation has its own."""

    def __getattribute__(self, name: str) -> Any:
        return getattr(_memory_of(), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(_memory_of(), name, value)

    def __len__(self) -> int:
        return len(_memory_of())


def _memory_of() -> Conversations:
    process = PROCESS.get(None)
    return _NOBODY if process is None else process.memory


_NOBODY = Conversations()


_PHASES: dict[object, Any] = {}
_find_phases = Stage.phases


def _read_phases(stage: Stage) -> Any:
    """As it does, once for each class: pipelines are built a hundred times a second here."""
    key = cast("object", type(stage.obj)), stage.role
    if key not in _PHASES:
        _PHASES[key] = _find_phases(stage)
    return _PHASES[key]


@contextmanager
def many_processes() -> Generator[None]:
    """Let this process play many: each has its own host, memory and clock."""
    own = type(CONVERSATIONS)
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(owners, "_find_host", _find_host))
        stack.enter_context(mock.patch.object(owners, "_find_start", return_value=7))
        stack.enter_context(mock.patch.object(owners, "Thread", _Thread))
        stack.enter_context(mock.patch.object(Stage, "phases", _read_phases))
        object.__setattr__(CONVERSATIONS, "__class__", _PerProcess)
        try:
            yield
        finally:
            object.__setattr__(CONVERSATIONS, "__class__", own)


# The tools. Each exists in versions: what a description says is no part of a call, a parameter with a default is.


async def _act(tool: str, arguments: dict[str, object], key: str = "") -> str:
    return await ARRIVAL.get().act(tool, arguments, key)


async def _verify(call: Any, key: str) -> object:
    return await ARRIVAL.get().verify(call.tool.name, dict(call.params), key)


def _make_tools(note: bool, description: str) -> dict[str, Tool[..., Any]]:
    tools = ToolRegistry()

    def add(name: str, plain: Callable[..., Any], noted: Callable[..., Any], **options: Any) -> None:
        tools.tool(name=name, description=description, **options)(noted if note else plain)

    def make(name: str, *, keyed: bool = False) -> tuple[Callable[..., Any], Callable[..., Any]]:
        if keyed:

            async def plain_keyed(context: ToolContext, to: str, amount: int | str = 1) -> str:
                return await _act(name, {"to": to, "amount": amount}, context.idempotency_key)

            async def noted_keyed(context: ToolContext, to: str, amount: int | str = 1, note: str = "") -> str:
                return await _act(name, {"to": to, "amount": amount, "note": note}, context.idempotency_key)

            return plain_keyed, noted_keyed

        async def plain(to: str, amount: int | str = 1) -> str:
            return await _act(name, {"to": to, "amount": amount})

        async def noted(to: str, amount: int | str = 1, note: str = "") -> str:
            return await _act(name, {"to": to, "amount": amount, "note": note})

        return plain, noted

    add("pay", *make("pay"))
    add("send", *make("send"), verify=_verify)
    add("wire", *make("wire"))
    add("charge", *make("charge", keyed=True), effect="keyed", context=True)
    add("put", *make("put"), effect="idempotent")
    add("look", *make("look"), effect="read")
    return {tool.name: tool for tool in tools}


VERSIONS = {
    "first": _make_tools(False, "Do it."),
    "described": _make_tools(False, "Do it now."),
    "noted": _make_tools(True, "Do it."),
}
