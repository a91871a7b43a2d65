"""Concurrency: lets so many calls run at once; the others wait in a queue, or are refused."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from threading import get_ident
from typing import ClassVar, Literal, TypeVar, cast
from weakref import WeakKeyDictionary

import anyio
import attrs
from returns.result import Failure

from ..base.forking import register_after_fork
from ..base.options import (
    check_count,
    check_function,
    check_type,
    is_count,
    is_function,
    is_number,
    maps_names,
    read_by_name,
)
from ..base.setup_error import SetupError
from ..engine.call import Outcome, ResolvedCall
from ..engine.compose import Handler, Placement
from ..engine.errors import Unavailable
from ..stage_state.concurrency_units import (
    CURRENT_LOOP,
    HOLDER,
    Holder,
    KnownLoop,
    Partition,
    Partitions,
    find_holder,
    find_loop,
)
from ..stage_state.keys import KEYS, as_given, find_partition, read_key
from ..stage_state.limit_states import list_store
from ..stage_state.shared_units import SharedUnits, share_units
from ..stores import Store, StoreError

R = TypeVar("R", bound=ResolvedCall)


def _refuse_zero(_: object, __: object, seconds: object) -> None:
    if seconds == 0:
        raise SetupError("Concurrency: `max_wait` must be > 0 or None, not 0; to refuse at once use max_queue=0")


@attrs.define(eq=False)
class Concurrency:
    """A middleware that runs at most ``limit`` units of calls at once, in each partition.

    A call that finds too few units free waits in a queue. The queue is first come, first served: no light call
    overtakes a heavy one. A deadline around this stage, as of Timeout or ``call(timeout=…)``, also ends the wait.

    Outside of Retry, a call keeps its units over all its attempts and the waits between them; inside, each attempt
    queues anew, and a refused attempt ends the retrying. Outside of Timeout, the wait is not part of the tool's time,
    and a thread that Timeout abandoned holds no unit.

    A tool may call tools of its own partition. Where they find no free units, they run on the units of the call that
    made them, one at a time, since these come back only when it ends. Tools of several partitions that call each other
    can still wait for each other: set ``max_wait``.

    The limit holds for one event loop; loops that share an instance, in one thread or several, have the limit each.

    Args:
        limit: Units that may be in use at once. Must be ≥ 1.
        max_queue: Calls that may wait, in each partition. 0: none waits. Default None: no limit.
        max_wait: Seconds that a call may wait. Must be > 0; to refuse at once use ``max_queue=0``. Default None: no
            limit.
        weight: Units that a call takes: a mapping of tool names to units, where a missing tool takes 1, or
            a function of the call, whose result is clamped to 1 and ``limit``. Default None: 1.
        groups: Mapping of tool names to groups. The tools of a group share their units, for each principal.
        key: Says which calls share units, instead of ``groups``: those for which it returns the same value. A call
            for which it returns None is not limited. ``"principal"`` is short for that field of the call, and
            ``"conversation"`` for that of a principal. Default None: each tool and principal has units of its own.
        store: Shares the units with all processes that have a limit with the same options in this store. A call that
            waits is given the units of one of this process, for half a second, or looks for free ones.
            Default None: the units of each event loop.
        lease: Seconds after which the units of a process that died are free again, > 0; a call that runs renews them.
            With ``store`` only. Default 30.
        when_away: While the store gives no answer, "refuse" refuses each call as Unavailable, ``store_away``, and
            "local" limits the calls of this process by themselves. The log says so once. Default "refuse".
        share_as: Keeps apart limits with equal options in one store. Default "".

    Raises:
        SetupError: An option is out of its range, or of another type; or both ``groups`` and ``key`` are given.
    """

    placement: ClassVar[Placement] = Placement(
        runs_body=False,
        kind="concurrency",
        reason="outside of timeout: the wait in the queue is not the tool's time",
        holds_back="a call that waits in a queue has not begun",
        decides=("busy",),
        tool_options=("weight", "groups"),
    )

    limit: int = attrs.field(validator=is_count())
    max_queue: int | None = attrs.field(default=None, validator=is_count(0, optional=True), kw_only=True)
    max_wait: float | None = attrs.field(
        default=None, validator=[_refuse_zero, is_number(above=0, optional=True, unit="seconds")], kw_only=True
    )
    weight: Mapping[str, int] | Callable[[ResolvedCall], int] | None = attrs.field(default=None, kw_only=True)
    groups: Mapping[str, str] | None = attrs.field(
        default=None, validator=attrs.validators.optional(maps_names(check_type, str)), kw_only=True
    )
    key: Callable[[ResolvedCall], Hashable] | None = attrs.field(
        default=None, converter=read_key, validator=is_function(KEYS, optional=True), kw_only=True
    )
    store: Store | None = attrs.field(default=None, kw_only=True)
    lease: float = attrs.field(default=30.0, validator=is_number(above=0, unit="seconds"), kw_only=True)
    when_away: Literal["refuse", "local"] = attrs.field(default="refuse", kw_only=True)
    share_as: str = attrs.field(default="", kw_only=True)
    _shared: SharedUnits | None = attrs.field(init=False, default=None, repr=False)
    _plain: bool = attrs.field(init=False, repr=False)  # each tool by itself, and each call takes one unit
    _heaviest: int = attrs.field(init=False, repr=False)  # units that one call may take
    _by_loop: WeakKeyDictionary[KnownLoop, Partitions] = attrs.field(init=False, repr=False)
    _last: tuple[KnownLoop, int, Partitions] = attrs.field(init=False, repr=False)  # of the loop that called last

    resources = property(list_store)

    def __attrs_post_init__(self) -> None:
        if callable(self.weight):
            check_function("Concurrency", "weight", self.weight)
        elif self.weight is not None:
            for name, weight in read_by_name("Concurrency", "weight", self.weight).items():
                check_count("Concurrency", f"weight[{name!r}]", weight, most=self.limit)
        if self.groups is not None and self.key is not None:
            raise SetupError("Concurrency: `groups` and `key` both say what shares units; give one of them")
        self._shared = share_units(self.store, self.when_away, self.share_as, self.limit, self.lease)
        self._plain = self.groups is None and self.key is None and self.weight is None and self.store is None
        weights = [] if self.weight is None or callable(self.weight) else list(self.weight.values())
        self._heaviest = self.limit if callable(self.weight) else max([1, *weights])
        self._forget_loops()
        register_after_fork(self._forget_loops)

    async def __call__(self, call: R, call_next: Handler[R]) -> Outcome:
        """The inside's outcome; or Unavailable, ``busy``, and then nothing ran."""
        key: Hashable
        if self._plain and call.principal == "":  # as below, for most limits
            key = call.tool.name
            weight = 1
        else:
            key, weight = self._key_of(call), self._weigh(call)
            if key is None:
                return await call_next(call)
            if self._shared is not None:
                outcome = await self._run_shared(self._shared, call, call_next, key, weight)
                if outcome is not None:
                    return outcome
        loop, thread, partitions = self._last
        if CURRENT_LOOP.get() is not loop or get_ident() != thread:
            partitions = self._enter_loop()
        try:
            partition = partitions.by_key[key]
        except KeyError:
            partition = partitions.add(key, self.limit)
        free = partition.free - weight
        if free < self._heaviest:  # as always while there is a queue: its first one needs more units than are free
            return await self._run_last(call, call_next, partition, weight)
        partition.free = free
        try:
            return await call_next(call)
        finally:
            partition.free += weight
            if partition.queue:
                partition.grant()

    async def _run_shared(
        self, shared: SharedUnits, call: R, call_next: Handler[R], key: Hashable, weight: int
    ) -> Outcome | None:
        """Run a call on units of the fleet; None: the store is away, and this process limits its own calls."""
        name, holder = shared.name(key), find_holder(HOLDER.get())
        lender = find_holder(holder, name)
        try:
            # Units that a call around this one holds come back only when it ends: no wait for these.
            units = await shared.acquire(key, weight, self.max_wait, self.max_queue if lender is None else 0)
        except StoreError:
            return Failure(Unavailable(call.tool.name, "store_away")) if self.when_away == "refuse" else None
        if units is not None:
            run = partial(_run_as_holder, Holder(name, holder), call, call_next)
            return cast("Outcome", await shared.hold(key, units, weight, run))
        if lender is None:
            return Failure(Unavailable(call.tool.name, "busy"))
        return await self._borrow(lender, call, call_next)

    async def _run_last(self, call: R, call_next: Handler[R], partition: Partition, weight: int) -> Outcome:
        """Run a call after which the heaviest finds too few units, or which has to wait itself."""
        holder = find_holder(HOLDER.get())
        if partition.free >= weight and not partition.queue:
            partition.free -= weight
        elif (lender := find_holder(holder, partition)) is not None:
            return await self._borrow(lender, call, call_next)
        elif self._is_full(partition.waiting) or not await partition.wait(weight, self.max_wait):
            return Failure(Unavailable(call.tool.name, "busy"))
        try:
            return await _run_as_holder(Holder(partition, holder), call, call_next)
        finally:
            partition.free += weight
            if partition.queue:
                partition.grant()

    async def _borrow(self, lender: Holder, call: R, call_next: Handler[R]) -> Outcome:
        """Run a call on the units of the call that made it."""
        loan = lender.loan
        if not loan.locked():
            loan.acquire_nowait()
        elif not await self._wait_for_loan(loan):
            return Failure(Unavailable(call.tool.name, "busy"))
        try:
            return await _run_as_holder(Holder(lender.partition, lender), call, call_next)
        finally:
            loan.release()

    async def _wait_for_loan(self, loan: anyio.Lock) -> bool:
        if self._is_full(loan.statistics().tasks_waiting):
            return False
        with anyio.move_on_after(self.max_wait):
            await loan.acquire()
            return True
        return False

    def _is_full(self, waiting: int) -> bool:
        return self.max_queue is not None and waiting >= self.max_queue

    def _key_of(self, call: ResolvedCall) -> Hashable:
        group = self.groups.get(call.tool.name) if self.groups is not None else None
        if group is not None:  # longer than the key of a tool, which may be named like the group
            return "group", group, as_given(call.principal)
        return find_partition(call, self.key)

    def _weigh(self, call: ResolvedCall) -> int:
        weight = self.weight
        if weight is None:
            return 1
        if callable(weight):
            return max(1, min(weight(call), self.limit))
        return weight.get(call.tool.name, 1)

    def _forget_loops(self) -> None:
        """Begin anew, also in the child of a fork: the calls that hold units are in the parent only."""
        self._by_loop = WeakKeyDictionary()
        self._last = KnownLoop(), 0, Partitions()

    def _enter_loop(self) -> Partitions:
        loop = find_loop()
        partitions = self._by_loop.setdefault(loop, Partitions())
        self._last = loop, loop.thread, partitions
        return partitions


async def _run_as_holder(holder: Holder, call: R, call_next: Handler[R]) -> Outcome:
    HOLDER.set(holder)
    try:
        return await call_next(call)
    finally:
        holder.ended = True
        HOLDER.set(holder.outer)
