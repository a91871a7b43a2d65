"""Resources: the connections, pools and other async context managers that the stages of a pipeline hold open.

A pipeline opens them in a block, `async with pipeline:`, or at its first call in an event loop, in a task of that loop
that belongs to no caller: its cancellation, which is how a loop ends, closes them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import Context
from functools import partial
from math import inf
from threading import Lock
from types import TracebackType
from typing import Any, TypeAlias, cast

import attrs
from anyio import CancelScope, current_effective_deadline, current_time, move_on_after

from ...base.event_loops import EventLoop, get_event_loop
from ...base.forking import register_after_fork
from ...base.setup_error import SetupError
from ...privacy import get_logger
from .stage import Stage

Resource: TypeAlias = AbstractAsyncContextManager[Any]
_CLOSING = 10.0  # seconds
_logger = get_logger()


@attrs.define(eq=False)
class _Held:
    """An open resource. Pipelines may share a stage: the first one opens it, and the last one closes it."""

    resource: Resource
    users: int = 1
    stack: AsyncExitStack = attrs.field(factory=AsyncExitStack)


class _InProcess:
    """The resources of all pipelines. One that opens or closes just now is not open, and the next user waits."""

    def __init__(self) -> None:
        self._restart_in_child()
        register_after_fork(self._restart_in_child)

    def _restart_in_child(self) -> None:
        """What the parent holds open is the parent's: its threads, leases and loops are not in the child."""
        self.held: dict[int, _Held] = {}  # the open ones, by id of the resource
        self._lock = Lock()  # pipelines of several threads may share a stage
        self._moving: dict[int, list[Callable[[], object]]] = {}  # by the same id; what wakes who waits for it

    async def open(self, resource: Resource) -> _Held:
        while True:
            with self._lock:
                held = self.held.get(id(resource))
                if held is not None:
                    held.users += 1
                    return held
                waiting = self._moving.get(id(resource))
                if waiting is None:
                    self._moving[id(resource)] = []
                    break
                loop = get_event_loop()
                moved = loop.make_signal()
                waiting.append(partial(loop.call_soon, loop.set, moved))
            await moved
        held = _Held(resource)
        try:
            await held.stack.enter_async_context(resource)
            self.held[id(resource)] = held
        finally:
            self._end_move(resource)
        return held

    async def close(
        self,
        held: _Held,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            held.users -= 1
            if held.users or self.held.get(id(held.resource)) is not held:  # or the parent of this process opened it
                return
            del self.held[id(held.resource)]
            self._moving[id(held.resource)] = []
        try:
            await held.stack.__aexit__(kind, exc, traceback)
        finally:
            self._end_move(held.resource)

    def _end_move(self, resource: Resource) -> None:
        with self._lock:
            waiting = self._moving.pop(id(resource))
        for wake in waiting:
            wake()


_IN_PROCESS = _InProcess()


@attrs.define(eq=False)
class OpenResources:
    """Opens the resources in their order, and closes them in the opposite one: an async context manager.

    If one fails to open, or its task is cancelled meanwhile, those that were opened before it are closed again. In a
    cancelled task they have 10 seconds in all to close.
    """

    resources: Iterable[Resource]
    _stack: AsyncExitStack = attrs.field(init=False, factory=AsyncExitStack)
    _until: float | None = attrs.field(init=False, default=None)  # when they must be closed, once that is cancelled

    async def __aenter__(self) -> None:
        """Raises what one of them raised."""
        try:
            for resource in self.resources:
                self._stack.push_async_exit(partial(self._close, await _IN_PROCESS.open(resource)))
        except BaseException as exc:
            await self._stack.__aexit__(type(exc), exc, exc.__traceback__)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, exc, traceback)

    async def _close(self, held: _Held, *exc_info: Any) -> None:
        if current_effective_deadline() > -inf:
            # No scope here: a resource may leave one that it entered when it opened.
            await _IN_PROCESS.close(held, *exc_info)
            return
        if self._until is None:
            self._until = current_time() + _CLOSING
        with CancelScope(deadline=self._until, shield=True):
            await _IN_PROCESS.close(held, *exc_info)


def list_resources(stages: Iterable[Stage]) -> tuple[Resource, ...]:
    """Return the context managers that the stages want opened, outermost first, each once.

    That is each one in the tuple ``resources`` of a stage, as `Execute` lists its executors there, and then the stage
    itself if it is one.
    """
    found = (each for stage in stages for each in _resources_of(stage.obj))
    return tuple({id(each): each for each in found}.values())


def needs_opening(resource: object) -> bool:
    """Whether it must be opened before it is used. An executor that opens itself says ``opens_itself = True``."""
    return not getattr(resource, "opens_itself", False)


@attrs.define(eq=False)
class _Stay:
    """The resources of a pipeline as one event loop holds them open, from a call in it until the loop ends."""

    loop: EventLoop
    is_open: bool = False
    error: Exception | None = attrs.field(factory=lambda: RuntimeError("the event loop ended while it opened"))
    waiting: list[Any] = attrs.field(factory=list[Any])  # signals of the callers, until it is open or has failed
    closing: Any = None  # a signal
    ended: list[Callable[[], object]] = attrs.field(factory=list[Callable[[], object]])  # called at the end


class Lifetime:
    """When the resources of a pipeline are open. Its bound copies share it."""

    def __init__(self, resources: tuple[Resource, ...]) -> None:
        self._resources = resources
        self._restart_in_child()
        register_after_fork(self._restart_in_child)

    def _restart_in_child(self) -> None:
        self.is_open = False  # by a block
        self._block: OpenResources | None = None  # also while it opens
        self._stays: dict[EventLoop, _Stay] = {}

    async def enter(self) -> None:
        """Open them for a block; SetupError if a block has opened them already."""
        if self._block is not None:
            raise SetupError("this pipeline is open already")
        self._block = opened = OpenResources(self._resources)
        try:
            await opened.__aenter__()
        except BaseException:
            self._block = None
            raise
        self.is_open = True

    async def leave(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close what the block opened, and what calls outside of it did."""
        opened, self._block, self.is_open = self._block, None, False
        try:
            if opened is not None:
                await opened.__aexit__(kind, exc, traceback)
        finally:
            await self.close()

    async def open(self) -> Exception | None:
        """Open them for this event loop, unless they are; the error of the one that did not open, or None.

        The cancellation of a caller does not end the opening, for which other callers may wait.
        """
        if self.is_open:
            return None
        loop = get_event_loop()
        stay = self._stays.get(loop)
        if stay is None:
            stay = self._stays[loop] = _Stay(loop, closing=loop.make_signal())
            Context().run(loop.start, self._stay, stay)  # not in that of the caller: it outlives the call
        if not stay.is_open:
            opened = loop.make_signal()
            stay.waiting.append(opened)
            await opened
        return stay.error

    async def close(self) -> None:
        """Close what calls opened, in each event loop; a later call opens it again. It waits 10 seconds at most."""
        loop, stays = get_event_loop(), list(self._stays.values())
        for stay in stays:
            ended = loop.make_signal()
            stay.ended.append(partial(loop.call_soon, loop.set, ended))
            if stay.loop.call_soon(stay.loop.set, stay.closing):
                with move_on_after(_CLOSING):
                    await ended

    async def _stay(self, stay: _Stay) -> None:
        opened = OpenResources(self._resources)
        try:
            await opened.__aenter__()
            stay.is_open, stay.error = True, None
        except Exception as exc:  # noqa: BLE001  # of any resource; the callers are told
            stay.error = exc
            return
        finally:
            if not stay.is_open:
                self._stays.pop(stay.loop, None)
            for signal in stay.waiting:
                stay.loop.set(signal)
        try:
            await stay.closing
        finally:
            self._stays.pop(stay.loop, None)
            try:
                await opened.__aexit__(None, None, None)
            except Exception:  # the loop has no other place for it
                _logger.exception("A resource of a pipeline could not be closed")
            for wake in stay.ended:
                wake()


def _resources_of(obj: Any) -> Iterator[Resource]:
    listed: Any = getattr(obj, "resources", ())
    if isinstance(listed, tuple):  # else it is something of its own
        yield from (each for each in cast("tuple[Any, ...]", listed) if _is_resource(each))
    if _is_resource(obj):  # behind them: it may use them while it opens and closes
        yield obj


def _is_resource(obj: Any) -> bool:
    return hasattr(cast("type[Any]", type(obj)), "__aenter__")
