"""Limits that share a store: the same rules over each store, a store that is away, and how many writes they make."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from returns.result import Failure, Success

from limit_cases import CASES, DONE, check_rate, check_units, run, units_of
from support import PATIENT
from toolcall_pipeline import SetupError, Stack, ToolContext, ToolRegistry, Unavailable
from toolcall_pipeline.middlewares import (
    CircuitBreaker,
    Concurrency,
    Execute,
    Quota,
    RateLimit,
    Resolve,
    Validate,
    standard,
)
from toolcall_pipeline.stage_state import shared_units, shared_values
from toolcall_pipeline.stage_state.shared_values import SharedValues
from toolcall_pipeline.stores import Change, Entry, Memory, SQLite, StoreError
from toolcall_pipeline.testing import FakeClock, assert_failure, assert_success, check_stage


@pytest.mark.parametrize("case", CASES)
async def test_limits_share_a_store_in_memory(case: str) -> None:
    """Each rule of a shared limit holds in one process."""
    with anyio.fail_after(PATIENT):
        await CASES[case](Memory())


@pytest.mark.parametrize("case", CASES)
async def test_limits_share_a_file(tmp_path: Path, case: str) -> None:
    """Each rule of a shared limit holds over a file."""
    with anyio.fail_after(PATIENT):
        async with SQLite(tmp_path / "a.db") as store:
            await CASES[case](store)


BY_NAME: dict[str, Any] = {
    "RateLimit": partial(RateLimit, 1, 3600),
    "Concurrency": partial(Concurrency, 1, max_queue=0),
    "Quota": partial(Quota, 1),
}
ASKERS = [("ann", "a"), ("ann", "b"), ("ann", ""), ("bob", "a"), ("", "a"), ("", "")]


@pytest.mark.parametrize("has_store", [False, True])
@pytest.mark.parametrize("part", ["principal", "conversation"])
@pytest.mark.parametrize("make", BY_NAME.values(), ids=BY_NAME)
async def test_who_shares_a_limit_by_name(make: Any, part: str, *, has_store: bool) -> None:
    """Each limit answers alike: the principal is the partition, and a conversation is that of its principal."""
    tools, ran, ends = ToolRegistry(), list[tuple[str, str]](), anyio.Event()

    @tools.tool(effect="read", context=True)
    async def probe(context: ToolContext) -> None:
        ran.append((context.principal, context.conversation))
        await ends.wait()

    named = {"per" if make is BY_NAME["Quota"] else "key": part}
    pipeline = standard(tools).before("retry", make(**named, store=Memory() if has_store else None))
    async with pipeline, anyio.create_task_group() as tasks:
        for principal, conversation in ASKERS * 2:
            call = partial(pipeline.call, "probe", principal=principal, conversation=conversation)
            tasks.start_soon(call)
            await anyio.wait_all_tasks_blocked()
        ends.set()
    first = {(who, where if part == "conversation" else ""): (who, where) for who, where in reversed(ASKERS)}
    assert sorted(ran) == sorted(first.values())


class Switched(Memory):
    """A store that can be away or slow, and counts what it is asked."""

    is_away = False
    reads = writes = 0
    asked: anyio.Event | None = None  # set by the next look, which waits for `answers`
    answers: anyio.Event

    async def get(self, key: str, /) -> Entry | None:
        self.reads += 1
        if self.asked is not None:
            self.asked.set()
            await self.answers.wait()
        if self.is_away:
            raise StoreError("the store is away")
        return await super().get(key)

    async def write(self, *changes: Change) -> int | None:
        self.writes += 1
        if self.is_away:
            raise StoreError("the store is away", maybe_written=True)
        await anyio.lowlevel.checkpoint()
        return await super().write(*changes)


LIMITS: dict[str, Any] = {
    "rate_limit": partial(RateLimit, 1, burst=2),
    "concurrency": partial(Concurrency, 1, max_queue=0),
    "circuit_breaker": partial(CircuitBreaker, failures=1),
}


@pytest.mark.parametrize("name", LIMITS)
async def test_a_store_that_is_away(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """The option decides whether calls are refused or limited by their process; the log says so once, and its end."""
    store = Switched()
    store.is_away = True
    closed = LIMITS[name](store=store, when_away="refuse")
    local = LIMITS[name](store=store, when_away="local")
    for _ in range(3):
        assert await run(closed) == Failure(Unavailable("probe", "store_away"))
    assert await run(local) == DONE
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 2
    assert "calls are refused" in texts[0]
    assert "each process" in texts[1]
    store.is_away = False
    assert await run(closed) == DONE
    assert "answers again" in caplog.records[-1].getMessage()


async def test_a_limit_in_this_process_holds_while_the_store_is_away() -> None:
    """With `when_away="local"` a burst passes once, and then calls are refused as without a store."""
    store = Switched()
    store.is_away = True
    with FakeClock():
        limit = RateLimit(1, burst=2, store=store, when_away="local")
        outcomes = [await run(limit) for _ in range(3)]
    assert [type(each) for each in outcomes] == [Success, Success, Failure]


async def test_callers_of_a_process_share_a_write() -> None:
    """A hundred calls at once take their slots with a handful of writes, and no more of them pass than may."""
    store = Switched()
    with FakeClock():
        limit = RateLimit(1, burst=40, store=store)
        outcomes: list[Any] = []

        async def call() -> None:
            outcomes.append(await run(limit))

        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(call)
    assert outcomes.count(DONE) == 40
    assert store.writes <= 4


async def test_a_cancelled_leader_hands_the_round_on() -> None:
    """A call that is cancelled while it asks for others, too, does not keep them waiting."""
    store = Switched()
    limit = RateLimit(1, burst=40, store=store)
    done: list[Any] = []

    async def call() -> None:
        done.append(await run(limit))

    with anyio.fail_after(PATIENT):
        async with anyio.create_task_group() as tasks, anyio.create_task_group() as leading:
            leading.start_soon(call)
            await anyio.lowlevel.checkpoint()
            for _ in range(5):
                tasks.start_soon(call)
            await anyio.lowlevel.checkpoint()
            leading.cancel_scope.cancel()
    assert done.count(DONE) >= 5


async def test_units_that_reach_a_cancelled_call_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units that were handed to a call while it asked the store are free again when the call is cancelled."""
    monkeypatch.setattr(shared_units, "_HANDED_ON", PATIENT)
    monkeypatch.setattr(shared_values, "_TELL", PATIENT)
    store = Switched()
    units: Any = units_of(Concurrency(1, store=store))
    holder = await units.acquire("key", 1, None, None)

    async def end() -> None:
        """The body of the call that has the units."""

    with anyio.fail_after(PATIENT):
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(units.acquire, "key", 1, None, None)
            await anyio.wait_all_tasks_blocked()
            store.asked, store.answers = anyio.Event(), anyio.Event()
            await store.asked.wait()
            await units.hold("key", holder, 1, end)
            waiting.cancel_scope.cancel()
            store.answers.set()
        store.asked = None
        assert await units.acquire("key", 1, None, 0) is not None


async def test_what_was_read_is_known() -> None:
    """An answer that changes nothing remembers what it read, so the next change needs no look at the store."""

    def decide(value: bytes | None, asked: Sequence[bytes]) -> tuple[bytes | None, float | None, list[bytes | None]]:
        return asked[-1] or None, 60.0, [value for _ in asked]

    store = Switched()
    await SharedValues(store, decide).ask("key", b"of another process")
    values = SharedValues(store, decide)
    assert await values.ask("key", b"") == b"of another process"
    already = store.reads
    assert await values.ask("key", b"new") == b"of another process"
    assert store.reads == already


async def test_one_that_is_refused_does_not_fail_the_others() -> None:
    """Of callers that share a write, one whose question cannot be decided or written fails alone."""

    def decide(value: bytes | None, asked: Sequence[bytes]) -> tuple[bytes | None, float | None, list[int]]:
        if b"wrong" in asked:
            raise ValueError
        if b"too long" in asked:
            raise StoreError("too long")
        return (value or b"") + b"".join(asked), None, [len(asked) for _ in asked]

    store = Switched()
    values = SharedValues(store, decide)
    failed: list[type[Exception]] = []

    async def ask(what: bytes) -> None:
        try:
            await values.ask("key", what)
        except (ValueError, StoreError) as exc:
            failed.append(type(exc))

    with anyio.fail_after(PATIENT):
        async with anyio.create_task_group() as tasks:
            for each in (b"a", b"wrong", b"b", b"too long", b"c"):
                tasks.start_soon(ask, each)
    found = await store.get("key")
    assert found is not None
    assert sorted(found.value) == sorted(b"abc")
    assert sorted(failed, key=repr) == [ValueError, StoreError]


async def test_what_is_told_goes_first_and_its_mistake_is_raised() -> None:
    """What comes back is there for those that wait; an error that is not of the store is a bug, which is not lost."""
    rounds: list[list[bytes]] = []

    def decide(_: bytes | None, asked: Sequence[bytes]) -> tuple[bytes | None, float | None, list[int]]:
        rounds.append([*asked])
        if b"wrong" in asked:
            raise ValueError("wrong")
        return None, None, [len(each) for each in asked]

    store = Switched()
    store.asked, store.answers = anyio.Event(), anyio.Event()
    values = SharedValues(store, decide)
    with anyio.fail_after(PATIENT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(values.ask, "key", b"first")
            await store.asked.wait()
            tasks.start_soon(values.ask, "key", b"later")
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(values.tell, "key", b"back", b"again")
            await anyio.wait_all_tasks_blocked()
            store.answers.set()
        assert rounds == [[b"first"], [b"again", b"back", b"later"]]
        assert await values.tell("key", b"one", b"three") == [3, 5]
        with pytest.raises(ValueError, match="wrong"):
            await values.tell("key", b"fine", b"wrong")
        store.is_away = True
        assert await values.tell("key", b"nothing") == [None]


async def test_an_answer_that_nobody_reads_is_taken_back() -> None:
    """What a round decides for a caller that is cancelled meanwhile is undone in the next one, before it leaves."""
    rounds: list[list[bytes]] = []

    def decide(_: bytes | None, asked: Sequence[bytes]) -> tuple[bytes | None, float | None, list[bytes]]:
        rounds.append([*asked])
        return None, None, [b"got " + each for each in asked]

    store = Switched()
    store.asked, store.answers = anyio.Event(), anyio.Event()
    values = SharedValues(store, decide, undo=lambda asks, answer: asks + b" " + answer if asks == b"a" else None)
    with anyio.fail_after(PATIENT):
        async with anyio.create_task_group() as tasks:
            for each in (b"a", b"b"):
                tasks.start_soon(values.ask, "key", each)
            await store.asked.wait()
            tasks.start_soon(values.ask, "key", b"never asked")
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
                store.answers.set()
    assert sorted(rounds[0]) in ([b"a"], [b"a", b"b"])
    assert rounds[-1] == [b"a got a"]
    assert not any(b"never asked" in each for each in rounds)


async def test_units_are_looked_for_less_often_with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause between two looks is half to one and a half of one that doubles, up to its longest."""
    units, looks = units_of(Concurrency(1, store=Memory())), list[float]()
    assert await units.acquire("key", 1, None, 0) is not None
    dice = [0.0, 1.0] * 6

    def pause(seconds: float) -> anyio.CancelScope:
        looks.append(seconds)
        return before(0)

    def throw() -> float:
        if len(looks) == len(dice):
            raise LookupError
        return dice[len(looks)]

    before = anyio.move_on_after
    monkeypatch.setattr(shared_units, "random", SimpleNamespace(random=throw))
    monkeypatch.setattr(shared_units, "anyio", SimpleNamespace(**{**vars(anyio), "move_on_after": pause}))
    with pytest.raises(LookupError):
        await units.acquire("key", 1, None, None)
    doubled = [min(0.002 * 2**number, 0.05) for number in range(len(dice))]
    assert looks == [pytest.approx(each * (0.5 + share)) for each, share in zip(doubled, dice, strict=True)]


async def test_a_store_that_never_answers_is_waited_for_no_longer_than_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each wait ends, also of a store that keeps no time of its own."""
    monkeypatch.setattr(shared_values, "_PATIENCE", 0.02)
    store = Switched()
    store.asked, store.answers = anyio.Event(), anyio.Event()
    with anyio.fail_after(PATIENT):
        assert await run(Quota(1, store=store)) == Failure(Unavailable("probe", "store_away"))
        store.asked = None
        assert await run(Quota(1, store=store)) == DONE


async def test_a_key_that_differs_between_processes_is_a_mistake_of_set_up() -> None:
    """A function of the user's must return what all processes can compare."""
    limit = RateLimit(1, key=lambda _: object(), store=Memory())
    with pytest.raises(SetupError, match="`key` must return a text, a number or a tuple of these, not object"):
        await run(limit)


async def test_a_pipeline_runs_a_shared_limit_where_it_stands_and_opens_its_store(tmp_path: Path) -> None:
    """With a store a rate limit is a middleware; the pipeline opens and closes the store."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    def probe() -> int:
        return 7

    limit = RateLimit(1, burst=1, store=SQLite(tmp_path / "a.db"))
    untyped: Any = limit  # the type checkers know its class as a check
    pipelines = (
        standard(tools).before("retry", limit),
        Stack().check(Resolve(tools)).check(Validate()).wrap(limit.queueing(max_wait=0)).end(Execute()),
    )
    async with pipelines[0], pipelines[1]:
        assert_success(await pipelines[0].call("probe", {}))
        assert_failure(await pipelines[1].call("probe", {}), kind="unavailable")
    assert Stack().check(Resolve(tools)).check(Validate()).wrap(untyped).end(Execute()).stages[-2] == "rate_limit"
    with pytest.raises(SetupError, match="make it a middleware"):
        Stack().check(Resolve(tools)).check(limit)
    untyped = RateLimit(1)
    with pytest.raises(SetupError, match="takes a call only"):
        Stack().check(Resolve(tools)).wrap(untyped)


@pytest.mark.parametrize("name", LIMITS)
def test_a_shared_limit_keeps_the_rules_of_a_stage(name: str) -> None:
    """With a store as without one."""
    check_stage(LIMITS[name](store=Memory()))


@pytest.mark.long
def test_four_processes_keep_a_limit(tmp_path: Path) -> None:
    """Never more than the limit, and at least nine tenths of it are used."""
    check_rate("sqlite", str(tmp_path / "a.db"))
    check_units("sqlite", str(tmp_path / "a.db"))
