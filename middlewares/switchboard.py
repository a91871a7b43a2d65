"""Switchboard: what an operator pauses or disables is closed in every process of a store, within a second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from math import inf
from threading import Condition, Event, Lock, Thread
from time import monotonic
from types import TracebackType
from typing import Any, ClassVar, Literal, Self, TypeVar
from weakref import WeakKeyDictionary, WeakSet

import anyio
import attrs
from returns.result import Failure

from ..audit import AuditLog
from ..base import timing
from ..base.event_loops import get_event_loop
from ..base.forking import register_after_fork
from ..base.options import check_number, check_secret, check_type, refuse
from ..base.setup_error import SetupError
from ..engine.call import ResolvedCall
from ..engine.compose import Placement
from ..engine.errors import Unavailable
from ..privacy import get_logger
from ..stage_state.shared_values import AwayNotice
from ..stage_state.switches import KEY, Standing, State, Switch, Switched, fold_name
from ..stores import Change, Memory, Store, StoreError
from ..tools import ToolView

_EVERY = 0.4  # seconds between two looks at the store
_FRESH = 0.9  # seconds since a look began for which it counts: the second that is promised, less the way to the body
_PATIENCE = 0.5  # seconds that a body waits for a look
_PAUSE = 5.0  # seconds after such a wait was in vain
_OPENING = 5.0  # seconds for the first look
_TRIES = 1000  # of a change that others come before
_AWAY = "store_away"
_LONGEST_SECRET = 64  # bytes, as of a key of BLAKE2b
_logger = get_logger()
R = TypeVar("R", bound=ResolvedCall)


def _make_signals() -> tuple[Any, Condition, Event, Event]:
    lock = Lock()
    return lock, Condition(lock), Event(), Event()


class _Boards:
    """The boards that stand in a pipeline of this process."""

    def __init__(self) -> None:
        self._each = WeakSet[Switchboard]()
        self._renew_lock()
        register_after_fork(self._renew_lock)

    def add(self, board: Switchboard, registries: Sequence[ToolView]) -> None:
        """Let a board watch registries."""
        with self._lock:
            board.registries.update(registries)
            self._each.add(board)

    def list(self, store: Store) -> list[Switchboard]:
        """Those over this very store."""
        with self._lock:
            return [each for each in self._each if each.store is store]

    def _renew_lock(self) -> None:
        self._lock = Lock()


@attrs.define(eq=False)
class Switchboard:
    """Pauses and disables a tool, a principal or everything, for all processes that share a store.

    As a stage it closes what is switched off, in the one gate of the registry: such a tool is not offered, is not
    suggested, and its calls are `Unavailable`, also where they waited when it was closed. While the store answers, no
    body begins later than one second after the switch was written: a thread looks at the store each 0.4 seconds, and a
    call looks itself where the last look is too old, as after its process was suspended. What code has closed stays
    closed whatever is switched here.

    For an operator it is the object to switch with; open the store first: ``async with Switchboard(store) as board``,
    or inside of ``async with pipeline`` with that store. Names mean one thing however their case and the blanks around
    them are written. Each person has a switch of their own: who resumes takes back their own pause, and those of others
    stand; who has none lifts all. If the store holds the rows of an `Audit`, each change becomes one of them, in the
    same write.

    Args:
        store: The store, see `toolcall_pipeline.stores`. The pipeline opens and closes it.
        on_away: What becomes of calls while the store gives no answer: ``"keep"``: they go by what it said last, and
            the log says so; ``"close"``: everything is closed. Default ``"keep"``.
        secret: The secret of the stage `Audit`. Default ``b""``: none; then changes are no rows of an audit with one,
            and the log says so.

    Attributes:
        until: How long the last look at the store counts, by the monotonic clock; then each body asks first.
        registries: The registries of the pipelines in which it stands.

    Raises:
        SetupError: An option is of another type.
    """

    placement: ClassVar[Placement] = Placement(
        kind="switchboard",
        reason="anywhere: it is no step of a call, and is asked right before each body",
        closes_tools=True,
    )

    store: Store
    on_away: Literal["keep", "close"] = "keep"
    secret: bytes = attrs.field(default=b"", kw_only=True, repr=False)
    _audit: AuditLog = attrs.field(init=False, repr=False)
    _standing: Standing = attrs.field(init=False, factory=Standing, repr=False)
    until: float = attrs.field(init=False, default=-inf, repr=False)  # how long the last look counts
    _try_at: float = attrs.field(init=False, default=-inf, repr=False)  # when a call may look itself, after one failed
    _looks: Any = attrs.field(init=False, factory=count, repr=False)
    _last: int = attrs.field(init=False, default=-1, repr=False)  # the look that counts
    registries: WeakSet[ToolView] = attrs.field(init=False, factory=WeakSet[ToolView], repr=False)
    _closed: WeakKeyDictionary[ToolView, dict[str, Unavailable]] = attrs.field(
        init=False, factory=WeakKeyDictionary[ToolView, dict[str, Unavailable]], repr=False
    )
    _unknown: set[str] = attrs.field(init=False, factory=set[str], repr=False)  # names that the log has told of
    _users: int = attrs.field(init=False, default=0, repr=False)  # blocks that hold it open
    _closing: Event = attrs.field(init=False, repr=False)  # of the thread that looks
    _notice: AwayNotice = attrs.field(init=False, repr=False)
    _lock: Any = attrs.field(init=False, repr=False)
    _looked: Condition = attrs.field(init=False, repr=False)  # of that lock: a look has ended
    _wanted: Event = attrs.field(init=False, repr=False)  # a body waits for a look
    _wakes: list[Callable[[], object]] = attrs.field(init=False, factory=list[Callable[[], object]], repr=False)

    def __attrs_post_init__(self) -> None:
        if isinstance(self.store, type) or not callable(getattr(self.store, "write", None)):
            refuse("Switchboard", "store", "a store, such as stores.SQLite(path)", self.store)
        if self.on_away not in ("keep", "close"):
            refuse("Switchboard", "on_away", '"keep" or "close"', self.on_away)
        check_secret("Switchboard", self.secret, _LONGEST_SECRET)
        effect = "calls go by what it said last" if self.on_away == "keep" else "everything is closed"
        self._notice = AwayNotice("Switchboard", effect)
        self._audit = AuditLog(self.store, self.secret)
        self._restart_in_child()
        register_after_fork(self._restart_in_child)

    @property
    def opens_itself(self) -> bool:
        """Whether it works outside of ``async with pipeline``: with a store in memory, of which it hears at once."""
        return type(self.store) is Memory

    @property
    def resources(self) -> tuple[Store, ...]:
        """The store, which is opened before this stage."""
        return (self.store,)

    def watch(self, registries: Sequence[ToolView]) -> None:
        """Close the tools of these registries from now on."""
        _BOARDS.add(self, registries)
        if self.opens_itself:
            with suppress(StopIteration):  # a store in memory waits for nothing
                self._look().send(None)

    async def __aenter__(self) -> Self:
        """Open the store, and look at it.

        Raises:
            SetupError: This cannot be a store.
        """
        await self.store.__aenter__()
        self._users += 1
        if self._users > 1 or not self.registries:
            return self
        self._closing = Event()
        with anyio.move_on_after(_OPENING):
            await self._look()
        if not self.opens_itself:
            Thread(target=self._keep_looking, args=(self._closing,), name="toolcall-switchboard", daemon=True).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Open what this one has closed: nobody looks any more until it is opened again. Close the store."""
        self._users -= 1
        if not self._users:
            with self._lock:
                self._closing.set()
                self._wanted.set()
                self._last = next(self._looks)  # a look that is under way says nothing any more
                self.until, self._standing = inf if self.opens_itself else -inf, Standing()
                self._close_tools(is_away=False)
        await self.store.__aexit__(kind, exc, traceback)

    def __call__(self, call: R) -> R | Failure[Unavailable]:
        """The same call; or Unavailable. A pipeline asks right before each body instead."""
        why = self.find_closed(call.tool.name, call.principal)
        return call if why is None else Failure(why)

    def find_closed(self, name: str, principal: object) -> Unavailable | None:
        """Why a tool is closed to who asks; None: it is open here.

        Where the last look is too old, as after the process was suspended, it waits for the next one: half a second at
        most, and once in five while the store gives no answer. A pipeline has waited in `renew` before, so that the
        thread of this body is held only where that was more than a look's time ago, as behind a full executor.
        """
        if timing.now() >= self.until and timing.now() >= self._try_at:
            self._wait_for_look()
        if self.on_away == "close" and timing.now() >= self.until:
            return Unavailable(name, _AWAY)
        return self._standing.find(name, principal)

    async def renew(self) -> None:
        """Wait for the next look where the last one is too old; other tasks go on, and one look serves all who wait."""
        until = monotonic() + _PATIENCE
        while timing.now() >= self.until and timing.now() >= self._try_at:
            loop = get_event_loop()
            signal = loop.make_signal()
            with self._lock:
                if not self._wakes:  # else a look was asked for, and has not ended
                    self._wanted.set()
                self._wakes.append(partial(loop.call_soon, loop.set, signal))
            await loop.wait(signal, max(until - monotonic(), 0))
            if monotonic() >= until and timing.now() >= self.until:
                self._give_up()

    def _give_up(self) -> None:
        """A body has waited in vain: the others go on, and the next one waits in five seconds."""
        with self._lock:
            self._try_at = timing.now() + _PAUSE
        self._note(StoreError("it does not answer"))

    def _wake_all(self) -> None:
        """A look has ended. Under the lock."""
        self._looked.notify_all()
        wakes, self._wakes = self._wakes, []
        for wake in wakes:
            wake()

    def _wait_for_look(self) -> None:
        until = monotonic() + _PATIENCE
        self._wanted.set()
        with self._lock:
            while timing.now() >= self.until and timing.now() >= self._try_at:
                left = until - monotonic()
                if left <= 0 or not self._looked.wait(left):
                    self._try_at = timing.now() + _PAUSE
        if timing.now() >= self.until:
            self._note(StoreError("it does not answer"))

    async def _look(self) -> None:
        """Look at the store, and close what it says. Never raises an Exception."""
        began, number = timing.now(), next(self._looks)
        try:
            standing = Standing.read(await self.store.get(KEY))
        except Exception as exc:  # noqa: BLE001  # of a store of somebody's own: the calls go on, by `on_away`
            self._note(exc if isinstance(exc, StoreError) else StoreError(f"{type(exc).__name__}: {exc}"))
            return
        with self._lock:
            if number < self._last:  # a later one was faster
                return
            before, self._standing = self._standing, standing
            self._last, self.until = number, inf if self.opens_itself else began + _FRESH
            self._close_tools(is_away=False)
            self._wake_all()
        self._notice.note(None)
        for state, every, others in (("is closed", standing, before), ("is open again", before, standing)):
            for each in every.each:
                if each not in others.each:
                    _logger.warning("Switchboard: %s %s (%s by %r: %r)", each, state, each.state, each.by, each.why)

    def _note(self, error: StoreError) -> None:
        """A look has failed."""
        with self._lock:
            if self._closing.is_set():  # so is the store
                return
            now = timing.now()
            self._try_at = max(self._try_at, now + 2 * _EVERY)
            if self.on_away == "close" and now >= self.until:
                self._close_tools(is_away=True)
            self._wake_all()
        self._notice.note(error)

    def _close_tools(self, *, is_away: bool) -> None:
        """Bring the registries up to the switches. Under the lock."""
        find = self._find_away if is_away else self._standing.find if self._standing.each else None
        for registry in list(self.registries):
            before = self._closed.get(registry, {})
            if find is None and not before and registry not in self._closed:
                continue
            now = {name: why for name in list(registry.tools) if (why := self._find_tool(name, is_away=is_away))}
            registry.refuse_with(find, owner=self)  # also what is registered later
            for name, why in now.items():
                if before.get(name) != why or name not in registry.closed:
                    with suppress(SetupError):  # it was unregistered meanwhile
                        registry.close(why, owner=self)
            for name, why in before.items():
                if name not in now or now[name].reason != why.reason:
                    with suppress(SetupError):
                        registry.reopen(name, why.reason, owner=self)
            if find is None:
                self._closed.pop(registry, None)
            else:
                self._closed[registry] = now
        self._tell_unknown()

    def _find_tool(self, name: str, *, is_away: bool) -> Unavailable | None:
        return Unavailable(name, _AWAY) if is_away else self._standing.find_tool(name)

    def _find_away(self, name: str, _: object) -> Unavailable:
        return Unavailable(name, _AWAY)

    def _tell_unknown(self) -> None:
        """Warn of switches that close nothing here: a command line cannot know the tools."""
        for each in self._standing.each:
            if each.tool is None or each.tool in self._unknown:
                continue
            known = {fold_name(name) for registry in list(self.registries) for name in registry.tools}
            if known and fold_name(each.tool) not in known:
                self._unknown.add(each.tool)
                _logger.warning("Switchboard: %s is %s, and there is no such tool in this process", each, each.state)

    def _keep_looking(self, closing: Event) -> None:
        """In the thread: a busy event loop delays no look, and a body that begins in one can wait for it."""
        while not closing.is_set():
            self._wanted.wait(_EVERY)
            self._wanted.clear()
            if not closing.is_set():
                with suppress(Exception):  # of an event loop that cannot be made; the next look tries again
                    anyio.run(self._look)

    def _restart_in_child(self) -> None:
        """After a fork: a thread of the parent may have held a lock, and the one that looks is in the parent only."""
        self._lock, self._looked, self._wanted, self._closing = _make_signals()
        self._users, self._wakes = 0, []
        self.until = inf if self.opens_itself else -inf

    # For an operator

    async def pause(
        self,
        tool: str | None = None,
        *,
        principal: str | None = None,
        everything: bool = False,
        by: str,
        why: str,
        retry_after: float | None = None,
    ) -> Switched:
        """Close a tool, a principal's calls or everything until `resume`.

        Args:
            tool: The name of a tool. Give this, ``principal`` or ``everything``.
            principal: Whose calls.
            everything: True: all calls.
            by: Who does it, not empty.
            why: Why, not empty, for the audit and those who list the switches. No model reads it.
            retry_after: Seconds after which callers should try again; nothing opens by itself then. Default None: not
                known.

        Returns:
            What stands for it now. It holds in this process at once, and in the others within a second.

        Raises:
            SetupError: An option is wrong; or no tool of the pipelines of this process that share the store has the
                name.
            StoreError: The store gave no answer.
        """
        return await self._close(self._make("paused", tool, principal, everything, by, why, retry_after))

    async def disable(
        self, tool: str | None = None, *, principal: str | None = None, everything: bool = False, by: str, why: str
    ) -> Switched:
        """Close it until `enable`; see `pause`. A pause and a disabling stand beside each other."""
        return await self._close(self._make("disabled", tool, principal, everything, by, why, None))

    async def resume(
        self, tool: str | None = None, *, principal: str | None = None, everything: bool = False, by: str, why: str = ""
    ) -> Switched:
        """Lift one's own pause of it, or those of all others where one has none.

        Args:
            tool: As `pause`.
            principal: As `pause`.
            everything: As `pause`. It lifts the pause of everything, and not those of single tools.
            by: Who does it, not empty.
            why: Why, for the audit. Default "".

        Returns:
            What still stands for it.

        Raises:
            SetupError: An option is wrong.
            StoreError: The store gave no answer.
        """
        return await self._change(self._make("paused", tool, principal, everything, by, why, None), "resume")

    async def enable(
        self, tool: str | None = None, *, principal: str | None = None, everything: bool = False, by: str, why: str = ""
    ) -> Switched:
        """Lift what `disable` did; see `resume`. What code has disabled stays so."""
        return await self._change(self._make("disabled", tool, principal, everything, by, why, None), "enable")

    async def list(self) -> list[Switch]:
        """The switches that stand, oldest first.

        Raises:
            StoreError: The store gave no answer.
        """
        return list(Standing.read(await self.store.get(KEY)).each)

    def _make(
        self,
        state: State,
        tool: str | None,
        principal: str | None,
        everything: bool,  # noqa: FBT001  # as its callers got it
        by: str,
        why: str,
        retry_after: float | None,
    ) -> Switch:
        for name, given in (("tool", tool), ("principal", principal)):
            check_type("Switchboard", name, given, str, optional=True)
            if given is not None and not given.strip():
                refuse("Switchboard", name, "a name that is not empty", given)
        check_type("Switchboard", "everything", everything, bool)
        if [tool is not None, principal is not None, everything].count(True) != 1:
            raise SetupError("Switchboard: say one of a tool, `principal=` and `everything=True`")
        check_type("Switchboard", "by", by, str)
        check_type("Switchboard", "why", why, str)
        if not by.strip():
            refuse("Switchboard", "by", "a name that is not empty", by)
        check_number("Switchboard", "retry_after", retry_after, least=0, optional=True, unit="seconds")
        return Switch(state, tool, principal, by, why, timing.wall_time(), retry_after)

    async def _close(self, switch: Switch) -> Switched:
        if not switch.why.strip():
            refuse("Switchboard", "why", "a text that is not empty", switch.why)
        self._check_tool(switch.tool)
        return await self._change(switch, "pause" if switch.state == "paused" else "disable")

    def _check_tool(self, tool: str | None) -> None:
        boards = _BOARDS.list(self.store)
        tools = [each for board in boards for registry in list(board.registries) for each in registry]
        if tool is None or not tools or fold_name(tool) in {fold_name(each.name) for each in tools}:
            return
        from difflib import get_close_matches  # only here

        if not any(each.is_remote for each in tools):  # else it may be one of a server that does not offer it now
            near = get_close_matches(tool, [each.name for each in tools if not each.hidden], 1)
            raise SetupError(
                f"Switchboard: there is no tool {tool!r}" + (f"; did you mean {near[0]!r}?" if near else "")
            )

    async def _change(self, switch: Switch, action: str) -> Switched:
        closes = action in ("pause", "disable")
        place = {
            "tool": switch.tool or "",
            "principal": switch.principal or "",
            "everything": str(switch) == "everything",
        }
        decision = {"by": "person", "name": switch.by, "action": action, "why": switch.why}
        for tried in range(_TRIES):
            entry = await self.store.get(KEY)
            before = Standing.read(entry)
            after = before.with_(switch) if closes else before.without(switch)
            if after == before:
                break
            rows = await self._audit.changes_for({"event": "switched", **place, "decisions": [decision]})
            change = Change(KEY, after.write(), None if entry is None else entry.version)
            if await self.store.write(change, *rows) is not None:
                if not rows and await self._audit.has_begun():
                    _logger.warning(
                        "Switchboard: %s of %s is not in the audit, which has another secret", action, switch
                    )
                break
            await anyio.sleep(0.001 * (tried % 10))
        else:
            raise StoreError("others changed the switches all the time")
        for board in _BOARDS.list(self.store):
            if board._users or board.opens_itself:  # noqa: SLF001  # as above
                await board._look()  # noqa: SLF001  # as above
        return Switched(after != before, after.at(switch.target))


_BOARDS = _Boards()
