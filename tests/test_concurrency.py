"""Concurrency: how many calls run at once, which wait, in what order, and which are refused."""

from __future__ import annotations

import asyncio
import gc
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
from anyio.abc import TaskGroup
from hypothesis import given, settings
from hypothesis import strategies as st
from returns.result import Failure, Success

from support import a_call, a_tool
from toolcall_pipeline import (
    Call,
    Outcome,
    ResolvedCall,
    SetupError,
    TimedOut,
    ToolRegistry,
    Transient,
    Unavailable,
    gather,
    render,
)
from toolcall_pipeline.middlewares import Retry, Timeout, standard
from toolcall_pipeline.middlewares.concurrency import Concurrency
from toolcall_pipeline.stage_state import concurrency_units
from toolcall_pipeline.stage_state.concurrency_units import HOLDER
from toolcall_pipeline.stage_state.loop_state import drop_loop_state, get_loop_state
from toolcall_pipeline.testing import FakeClock, script

LEAST = 1e-9  # seconds; over when it is first asked
BUSY = Failure(Unavailable("probe", "busy"))


def everyone(_: ResolvedCall) -> str:
    return "all"


async def test_a_state_of_the_event_loop_is_dropped_once() -> None:
    """Who drops the state of an owner gets it; the owner's next one is new, and other owners keep theirs."""

    class Owner:
        pass

    one, two = Owner(), Owner()
    first, other = (get_loop_state(each, object) for each in (one, two))
    assert get_loop_state(one, object) is first
    assert drop_loop_state(one) is first
    assert drop_loop_state(one) is None
    assert get_loop_state(one, object) is not first
    assert get_loop_state(two, object) is other


class Crowd:
    """Calls at one limit, each in a task of its own; a call runs until the test ends it."""

    def __init__(self, limit: Concurrency, tasks: TaskGroup) -> None:
        self._limit, self._tasks = limit, tasks
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._ends: dict[str, anyio.Event] = {}
        self._lasts: dict[str, Callable[[], object]] = {}
        self.came: list[str] = []
        self.began: list[str] = []
        self.running: list[str] = []
        self.outcomes: dict[str, Outcome] = {}
        self.gone: set[str] = set()  # ended, refused or cancelled

    async def come(self, who: str, tool: str = "probe", principal: str = "") -> None:
        self.came.append(who)
        self._scopes[who], self._ends[who] = anyio.CancelScope(), anyio.Event()
        self._tasks.start_soon(self._call, a_call(a_tool(tool), id=who, principal=principal))
        await self.settle()

    async def settle(self) -> None:
        for _ in range(8):  # wait_all_tasks_blocked() sleeps
            await anyio.lowlevel.checkpoint()

    def end(self, who: str, last: Callable[[], object] = bool) -> None:
        """Let a call end; ``last`` is called right before its unit is free again."""
        self._lasts[who] = last
        self._ends[who].set()

    def cancel(self, who: str) -> None:
        self._scopes[who].cancel()

    @property
    def waiting(self) -> list[str]:
        return [who for who in self.came if who not in self.began and who not in self.gone]

    async def _call(self, call: ResolvedCall) -> None:
        try:
            with self._scopes[call.id]:
                self.outcomes[call.id] = await self._limit(call, self._inside)
        finally:
            self.gone.add(call.id)

    async def _inside(self, call: ResolvedCall) -> Outcome:
        self.began.append(call.id)
        self.running.append(call.id)
        try:
            await self._ends[call.id].wait()
            self._lasts[call.id]()
            return Success(call.id)
        finally:
            self.running.remove(call.id)


async def test_no_more_at_once_than_the_limit() -> None:
    """As many calls run as there are units; when one ends, the call that has waited longest runs."""
    async with anyio.create_task_group() as tasks:
        crowd = Crowd(Concurrency(2), tasks)
        for who in "abcd":
            await crowd.come(who)
        assert (crowd.running, crowd.waiting) == (["a", "b"], ["c", "d"])
        crowd.end("b")
        await crowd.settle()
        assert (crowd.running, crowd.waiting) == (["a", "c"], ["d"])
        crowd.end("a")
        crowd.end("c")
        await crowd.settle()
        assert (crowd.running, crowd.waiting) == (["d"], [])
        crowd.end("d")
        await crowd.settle()
        assert crowd.outcomes == {who: Success(who) for who in "abcd"}


async def test_no_call_waits_if_a_unit_is_free() -> None:
    """A call that finds a free unit does not yield to the event loop; a call that fails or raises keeps no unit."""
    limit: Any = Concurrency(1)
    for outcome in (Success(1), Failure(Transient()), Success(2)):
        with pytest.raises(StopIteration) as stopped:
            limit(a_call(), script(outcome)).send(None)
        assert stopped.value.value is outcome
    with pytest.raises(ZeroDivisionError):
        await limit(a_call(), script(ZeroDivisionError()))
    assert await limit(a_call(), script(Success(3))) == Success(3)


@pytest.mark.parametrize("max_queue", [0, 1, 2])
async def test_a_full_queue_refuses(max_queue: int) -> None:
    """At most `max_queue` calls wait; one more is refused at once, and nothing of it runs."""
    async with anyio.create_task_group() as tasks:
        crowd = Crowd(Concurrency(1, max_queue=max_queue), tasks)
        for who in "abcd":
            await crowd.come(who)
        queue = list("bcd"[:max_queue])
        assert (crowd.running, crowd.waiting) == (["a"], queue)
        assert crowd.outcomes == dict.fromkeys("bcd"[max_queue:], BUSY)
        crowd.end("a")
        await crowd.settle()
        await crowd.come("e")
        assert crowd.began == ["a", *queue[:1]] if max_queue else ["a", "e"]
        assert crowd.waiting == [*queue[1:], *(["e"] if max_queue else [])]
        tasks.cancel_scope.cancel()


async def test_a_wait_ends() -> None:
    """A call that has waited for `max_wait` seconds is refused, and nothing of it ran."""
    limit = Concurrency(1, max_wait=LEAST)
    async with anyio.create_task_group() as tasks:
        crowd = Crowd(limit, tasks)
        await crowd.come("a")
        assert await limit(a_call(), script()) == BUSY
        crowd.end("a")
        await crowd.settle()
        assert await limit(a_call(), script(Success("done"))) == Success("done")


@pytest.fixture
def clock() -> Iterator[FakeClock]:
    with FakeClock() as clock:
        yield clock


async def test_the_queue_moves_up(clock: FakeClock) -> None:
    """When a heavy call stops waiting, the lighter calls behind it run if there are units for them."""
    async with anyio.create_task_group() as tasks:
        crowd = Crowd(Concurrency(2, max_wait=9, weight={"heavy": 2}, key=everyone), tasks)
        await crowd.come("a")
        await crowd.come("b", "heavy")
        clock.advance(5)
        await crowd.come("c")
        assert (crowd.running, crowd.waiting) == (["a"], ["b", "c"])
        clock.advance(4)
        await crowd.settle()
        assert crowd.running == ["a", "c"]
        assert crowd.outcomes == {"b": Failure(Unavailable("heavy", "busy"))}
        crowd.end("a")
        crowd.end("c")


@pytest.mark.parametrize("first", ["the unit", "the end of the wait"])
async def test_a_unit_in_the_last_moment_is_in_time(clock: FakeClock, first: str) -> None:
    """A call whose unit comes at the moment at which its wait ends runs, whichever of the two is first."""
    async with anyio.create_task_group() as tasks:
        crowd = Crowd(Concurrency(1, max_wait=9), tasks)
        await crowd.come("a")
        await crowd.come("b")
        clock.advance(5)
        await crowd.come("c")
        if first == "the unit":
            crowd.end("a")
            while not crowd.gone:
                await anyio.lowlevel.checkpoint()
            clock.advance(4)
        else:
            crowd.end("a", lambda: clock.advance(4))
        await crowd.settle()
        assert (crowd.running, set(crowd.outcomes)) == (["b"], {"a"})
        tasks.cancel_scope.cancel()


async def test_a_deadline_around_ends_the_wait() -> None:
    """No call waits past its deadline; the time limit then reports that nothing landed."""
    tools = ToolRegistry()
    tools.register(a_tool(effect="mutating"))
    limit = Concurrency(1, max_wait=60)
    pipeline = standard(tools, attempts=1).after("validate", limit)
    async with anyio.create_task_group() as tasks:
        crowd = Crowd(limit, tasks)
        await crowd.come("a")
        assert await pipeline.call("probe", timeout=LEAST) == Failure(TimedOut(LEAST, landed="no"))
        limited = pipeline.before("concurrency", Timeout(LEAST))
        assert await limited.call("probe") == Failure(TimedOut(LEAST, landed="no"))
        with anyio.move_on_after(LEAST) as scope:
            await pipeline.call("probe")
        assert scope.cancelled_caught
        crowd.end("a")
        await crowd.settle()
        assert await pipeline.call("probe") == Success("done")


async def test_a_cancelled_call_leaves_the_queue() -> None:
    """A call that is cancelled while it waits takes no unit and does not block the calls behind it."""
    async with anyio.create_task_group() as tasks:
        crowd = Crowd(Concurrency(2, weight={"heavy": 2}, key=everyone), tasks)
        await crowd.come("a")
        await crowd.come("b", "heavy")
        await crowd.come("c")
        assert (crowd.running, crowd.waiting) == (["a"], ["b", "c"])
        crowd.cancel("b")
        await crowd.settle()
        assert (crowd.running, crowd.waiting) == (["a", "c"], [])
        crowd.end("a")
        crowd.end("c")


@pytest.mark.parametrize("first", ["the unit", "the cancellation"])
async def test_a_unit_is_not_lost_with_a_cancelled_call(first: str) -> None:
    """A call that is cancelled at the moment at which its unit comes passes it on, whichever of the two is first."""
    async with anyio.create_task_group() as tasks:
        crowd = Crowd(Concurrency(1), tasks)
        for who in "abc":
            await crowd.come(who)
        if first == "the unit":
            crowd.end("a")
            while not crowd.gone:
                await anyio.lowlevel.checkpoint()
            crowd.cancel("b")
        else:
            crowd.end("a", lambda: crowd.cancel("b"))
        await crowd.settle()
        assert crowd.running == ["c"]
        crowd.end("c")


async def test_heavy_calls_do_not_starve() -> None:
    """A call of several units waits until all of them are free; no later call overtakes it."""
    async with anyio.create_task_group() as tasks:
        crowd = Crowd(Concurrency(3, weight={"heavy": 3}, key=everyone), tasks)
        for who in ("a", "b", "heavy", "c", "d"):
            await crowd.come(who, who)
        assert (crowd.running, crowd.waiting) == (["a", "b"], ["heavy", "c", "d"])
        for ends, runs in (("a", {"b"}), ("b", {"heavy"}), ("heavy", {"c", "d"})):
            crowd.end(ends)
            await crowd.settle()
            assert set(crowd.running) == runs
        crowd.end("c")
        crowd.end("d")


def of(call: ResolvedCall) -> str:
    return call.tool.name


WEIGHTS: dict[str, tuple[Mapping[str, int] | Callable[[ResolvedCall], int] | None, int, list[str]]] = {
    "one each": (None, 3, ["light", "medium", "heavy"]),
    "by name": ({"light": 1, "medium": 2, "heavy": 3}, 4, ["light", "medium"]),
    "one if the mapping has none": ({"medium": 2}, 4, ["light", "medium", "heavy"]),
    "by a function": (lambda call: len(of(call)), 11, ["light", "medium"]),
    "at least one": (lambda _: -5, 2, ["light", "medium"]),
    "at most the limit": (lambda _: 99, 2, ["light"]),
}


@pytest.mark.parametrize(("weight", "limit", "running"), WEIGHTS.values(), ids=WEIGHTS)
async def test_a_call_has_a_weight(weight: Any, limit: int, running: list[str]) -> None:
    """The weight comes from a mapping or a function; it is at least one unit, and a call too heavy runs alone."""
    async with anyio.create_task_group() as tasks:
        crowd = Crowd(Concurrency(limit, weight=weight, key=everyone), tasks)
        for name in ("light", "medium", "heavy", "more"):
            await crowd.come(name, name)
        assert crowd.running == running
        for name in ("light", "medium", "heavy", "more"):
            crowd.end(name)
            await crowd.settle()
        assert crowd.outcomes.keys() == {"light", "medium", "heavy", "more"}


FOUR = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y"), ("db", "x")]


def only_a(call: ResolvedCall) -> str | None:
    return "a" if of(call) == "a" else None


PARTITIONS: dict[str, tuple[dict[str, Any], list[bool]]] = {
    "tool and principal": ({}, [True, True, True, True, True]),
    "group and principal": ({"groups": {"a": "db", "b": "db"}}, [True, True, False, False, True]),
    "a group of one": ({"groups": {"b": "db"}}, [True, True, True, True, True]),
    "tool": ({"key": of}, [True, False, True, False, True]),
    "all share one": ({"key": everyone}, [True, False, False, False, False]),
    "only one tool": ({"key": only_a}, [True, False, True, True, True]),
}


@pytest.mark.parametrize(("options", "begin"), PARTITIONS.values(), ids=PARTITIONS)
async def test_who_shares_a_limit(options: dict[str, Any], begin: list[bool]) -> None:
    """Each tool and principal has units of its own, or each group and principal, or each key; None has no limit."""
    async with anyio.create_task_group() as tasks:
        crowd = Crowd(Concurrency(1, max_queue=0, **options), tasks)
        for tool, principal in FOUR:
            await crowd.come(tool + principal, tool, principal)
        assert [tool + principal in crowd.running for tool, principal in FOUR] == begin
        tasks.cancel_scope.cancel()


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["come", "end", "cancel"]), st.integers(0, 5), st.booleans()), min_size=1, max_size=40
)


@settings(deadline=None, max_examples=60)
@given(OPERATIONS, st.integers(1, 4), st.none() | st.integers(0, 3))
async def test_any_sequence_of_calls(
    operations: list[tuple[str, int, bool]], units: int, max_queue: int | None
) -> None:
    """However calls come, end and are cancelled, also at the same moment, the limit and the order hold.

    Calls wait only if the first of them does not fit, and when all are gone every unit is free again.
    """
    weights = {str(weight): weight for weight in range(1, units + 1)}
    limit: Any = Concurrency(units, max_queue=max_queue, weight=weights, key=everyone)
    weighs: dict[str, int] = {}
    async with anyio.create_task_group() as tasks:
        crowd = Crowd(limit, tasks)
        for number, (operation, which, settled) in enumerate(operations):
            there = crowd.running if operation == "end" else crowd.running + crowd.waiting
            if operation == "come":
                weight = 1 + which % units
                await crowd.settle()  # trio shuffles those who come at once
                refused = max_queue is not None and len(crowd.waiting) >= max_queue
                fits = not crowd.waiting and sum(weighs[who] for who in crowd.running) + weight <= units
                weighs[str(number)] = weight
                await crowd.come(str(number), str(weight))
                assert (str(number) in crowd.gone) == (refused and not fits)
                assert (str(number) in crowd.running) == fits
            elif there:
                crowd.end(there[which % len(there)]) if operation == "end" else crowd.cancel(there[which % len(there)])
            assert sum(weighs[who] for who in crowd.running) <= units
            if settled:
                await crowd.settle()
                if crowd.waiting:
                    behind = crowd.came[crowd.came.index(crowd.waiting[0]) :]
                    assert not set(behind) & set(crowd.began)
                    assert sum(weighs[who] for who in (*crowd.running, crowd.waiting[0])) > units
        tasks.cancel_scope.cancel()
    assert [(each.free, each.waiting) for each in limit._last[2].by_key.values()] in ([], [(units, 0)])


async def test_idle_partitions_are_forgotten() -> None:
    """An idle principal is forgotten when many others come; one whose calls still run is not."""
    limit: Any = Concurrency(1, max_queue=0)
    async with anyio.create_task_group() as tasks:
        crowd = Crowd(limit, tasks)
        await crowd.come("a", principal="a")
        for number in range(1500):
            await limit(a_call(principal=str(number)), script(Success("done")))
        assert len(limit._last[2].by_key) <= 1024
        assert await limit(a_call(principal="a"), script()) == BUSY
        crowd.end("a")


def test_idle_partitions_are_removed_when_their_number_has_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Since the last removal: each removal looks at all of them."""
    monkeypatch.setattr(concurrency_units, "_MANY", 4)
    partitions: Any = concurrency_units.Partitions()
    partitions._sweep_at = 4
    sizes: list[int] = []
    for number in range(18):
        partition = partitions.add(number, 1)
        partition.free = 0 if number < 5 or number == 9 else 1
        sizes.append(len(partitions.by_key))
    assert sizes == [1, 2, 3, 4, 5, 6, 7, 8, 6, 7, 8, 9, 10, 7, 8, 9, 10, 11]


async def test_each_event_loop_has_its_own_limit(anyio_backend: str) -> None:
    """An event loop cannot wake a task of another one, so each loop that shares an instance has its own limit."""
    limit = Concurrency(1, max_queue=0)

    async def elsewhere() -> Outcome:
        return await limit(a_call(), script(Success("there")))

    async def here(_: ResolvedCall) -> Outcome:
        return await anyio.to_thread.run_sync(lambda: anyio.run(elsewhere, backend=anyio_backend))

    assert await limit(a_call(), here) == Success("there")


def test_an_abandoned_loop_holds_no_unit_of_a_later_one() -> None:
    """A call that is left in an event loop, which nobody runs any more, blocks no later loop of the thread."""
    limit: Any = Concurrency(1, max_queue=0)
    began: list[ResolvedCall] = []

    async def inside(call: ResolvedCall) -> Outcome:
        began.append(call)
        await anyio.sleep_forever()
        raise AssertionError

    async def leave() -> None:
        pending.append(asyncio.ensure_future(limit(a_call(), inside)))
        while not began:
            await anyio.lowlevel.checkpoint()
        assert await limit(a_call(), script()) == BUSY

    pending: list[asyncio.Future[Outcome]] = []
    abandoned = asyncio.new_event_loop()
    try:
        abandoned.run_until_complete(leave())
        assert anyio.run(limit, a_call(), script(Success("later"))) == Success("later")
        assert abandoned.run_until_complete(limit(a_call(), script())) == BUSY
        pending[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            abandoned.run_until_complete(pending[0])
        assert abandoned.run_until_complete(limit(a_call(), script(Success("free")))) == Success("free")
    finally:
        abandoned.close()


def test_loops_that_have_ended_leave_nothing() -> None:
    """An instance that many event loops have used, one after the other, keeps the units of the last one."""
    limit: Any = Concurrency(1)
    for _ in range(20):
        assert anyio.run(limit, a_call(), script(Success(1))) == Success(1)
    gc.collect()
    assert len(limit._by_loop) <= 2


async def test_in_a_pipeline() -> None:
    """A refused call runs nothing; the model reads one constant text; in the report only this stage is red."""
    tools = ToolRegistry()
    tools.register(a_tool())
    limit = Concurrency(1, max_queue=0)
    pipeline = standard(tools).before("retry", limit)
    async with anyio.create_task_group() as tasks:
        crowd = Crowd(limit, tasks)
        await crowd.come("a")
        refused = await pipeline.report(Call("probe"))
        crowd.end("a")
        await crowd.settle()
        passed = await pipeline.report(Call("probe"))
        assert refused.outcome == BUSY
        assert [(stage.name, stage.verdict) for stage in refused.stages][-1] == ("concurrency", "unavailable")
        assert refused.attempts == ()
        assert passed.outcome == Success("done")
        assert [stage.verdict for stage in passed.stages if stage.name == "concurrency"] == [None]
    assert render(Unavailable("probe", "busy")) == "Error: This tool is busy. Try again later."


@pytest.mark.parametrize(("place", "meanwhile"), [("before", BUSY), ("after", Success("done"))])
async def test_around_retry_and_inside_of_it(place: str, meanwhile: Outcome) -> None:
    """Outside of Retry a call keeps its unit while it waits for the next attempt; inside, each attempt takes one."""
    seen: list[Outcome] = []
    limit = Concurrency(1, max_queue=0)

    async def wait(_: float) -> None:
        HOLDER.set(None)  # a call of somebody else, who is not inside of this one
        seen.append(await limit(a_call(), script(Success("done"))))

    tools = ToolRegistry()
    tools.register(a_tool())
    pipeline = standard(tools).replace("retry", Retry(2, sleep=wait))
    pipeline = pipeline.before("retry", limit) if place == "before" else pipeline.after("retry", limit)
    inside = script(Failure(Transient()), Success("done"))
    assert await pipeline.replace("execute", inside).call("probe") == Success("done")
    assert seen == [meanwhile]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name)
        for name, make in {
            "no unit": lambda: Concurrency(0),
            "a negative limit": lambda: Concurrency(-1),
            "a limit of nan": lambda: Concurrency(math.nan),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            "a negative queue": lambda: Concurrency(1, max_queue=-1),
            "no wait": lambda: Concurrency(1, max_wait=0),
            "a negative wait": lambda: Concurrency(1, max_wait=-1.0),
            "a wait of nan": lambda: Concurrency(1, max_wait=math.nan),
            "no weight": lambda: Concurrency(1, weight={"a": 0}),
            "too heavy": lambda: Concurrency(2, weight={"a": 3}),
            "two ways to share": lambda: Concurrency(1, groups={"a": "b"}, key=lambda call: call.tool.name),
        }.items()
    ],
)
def test_what_makes_no_sense_is_refused_at_set_up(make: Callable[[], object]) -> None:
    """A limit under which some call could never run is a set-up error that says what is allowed."""
    with pytest.raises(SetupError, match=r"Concurrency: `\w+(\['a'\])?` .*(must be|give one)"):
        make()


class Nest:
    """Tools that call the pipeline for each other, or themselves, to a depth."""

    def __init__(self, limit: Concurrency, *, threads: bool = False, **names: str) -> None:
        self.tools = ToolRegistry()
        self.most = self.running = 0
        self.pipeline = standard(self.tools).after("validate", limit)
        for name, inner in names.items():
            self.tools.register(a_tool(name, fn=self._sync(inner) if threads else self._async(inner)))

    def _async(self, inner: str) -> Callable[..., Any]:
        async def call(depth: int, wide: int = 1) -> list[Any]:
            self.running += 1
            self.most = max(self.most, self.running)
            outcomes: list[Any] = []
            if depth:
                calls = [Call(inner, {"depth": depth - 1, "wide": wide})] * wide
                outcomes = list(await gather(self.pipeline, calls))
            await anyio.lowlevel.checkpoint()
            self.running -= 1
            return outcomes

        return call

    def _sync(self, inner: str) -> Callable[..., Any]:
        def call(depth: int) -> list[Any]:
            make: Any = self.pipeline.call
            return [anyio.from_thread.run(make, inner, {"depth": depth - 1})] if depth else []

        return call

    async def run(self, name: str, depth: int, count: int, **more: int) -> list[Outcome]:
        return await gather(self.pipeline, [Call(name, {"depth": depth, **more})] * count)


def nested(depth: int, wide: int = 1) -> Outcome:
    return Success([nested(depth - 1, wide)] * wide if depth else [])


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("threads", [False, True], ids=["async", "threads"])
async def test_a_tool_that_calls_itself_does_not_wait_for_itself(limit: int, threads: bool) -> None:
    """Units come back only when a call ends, so the calls that its tool makes may run on its own."""
    nest = Nest(Concurrency(limit), threads=threads, probe="probe")
    assert await nest.run("probe", depth=3, count=8) == [nested(3)] * 8


async def test_tools_of_one_group_call_each_other() -> None:
    """The same for a group, and for calls with weights: a heavy one may run on the unit of a light one."""
    limit = Concurrency(3, groups={"probe": "all", "other": "all"}, weight={"probe": 1, "other": 3})
    nest = Nest(limit, probe="other", other="probe")
    assert await nest.run("probe", depth=3, count=8) == [nested(3)] * 8
    limit = Concurrency(3, groups={"probe": "all", "other": "all"}, weight=lambda call: 2)
    nest = Nest(limit, probe="other", other="probe")
    assert await nest.run("other", depth=3, count=8) == [nested(3)] * 8


async def test_a_call_lends_its_units_to_one_call_at_a_time() -> None:
    """However many calls a tool makes at once: beside a call of each level there is none that the limit forbids."""
    nest = Nest(Concurrency(2), probe="probe")
    assert await nest.run("probe", depth=2, count=6, wide=4) == [nested(2, 4)] * 6
    assert nest.most <= 2 * 3
    assert nest.running == 0


@pytest.mark.parametrize("options", [{"max_queue": 0}, {"max_queue": 1, "max_wait": LEAST}], ids=["queue", "wait"])
async def test_a_loan_is_waited_for_by_the_same_rules(options: dict[str, Any]) -> None:
    """One call of those that a tool makes runs on its unit; the others wait no longer than any call."""
    began, go = anyio.Event(), anyio.Event()
    tools = ToolRegistry()
    pipeline = standard(tools).after("validate", Concurrency(1, key=everyone, **options))

    async def outer() -> list[Any]:
        outcomes: list[Any] = []

        async def ask() -> None:
            outcomes.append(await pipeline.call("inner"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await began.wait()
            outcomes.append(await pipeline.call("inner"))
            go.set()
        return outcomes

    async def inner() -> str:
        began.set()
        await go.wait()
        return "done"

    tools.register(a_tool("outer", fn=outer))
    tools.register(a_tool("inner", fn=inner))
    assert await pipeline.call("outer") == Success([Failure(Unavailable("inner", "busy")), Success("done")])
    assert await pipeline.call("inner") == Success("done")


async def test_a_task_that_a_call_left_behind_has_no_loan() -> None:
    """Its context says that it is inside of a call, which has ended and holds no unit."""
    limit, left, done = Concurrency(1, max_queue=0), anyio.Event(), anyio.Event()
    outcomes: list[Outcome] = []

    async with anyio.create_task_group() as tasks:

        async def later() -> None:
            await left.wait()
            outcomes.append(await limit(a_call(), script(Success(1))))
            done.set()

        async def leave(call: ResolvedCall) -> Outcome:
            tasks.start_soon(later)
            return Success(0)

        async def hold(call: ResolvedCall) -> Outcome:
            left.set()
            await done.wait()
            return Success(2)

        assert await limit(a_call(), leave) == Success(0)
        assert await limit(a_call(), hold) == Success(2)
    assert outcomes == [BUSY]
