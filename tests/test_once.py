"""Once: the table of ONCE.md, asked by the memory of a process and by a store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import anyio
import attrs
import pytest
from pydantic import SecretStr

from support import PATIENT
from toolcall_pipeline import (
    Call,
    Effect,
    Failure,
    Handler,
    Outcome,
    OutcomeUnknown,
    Pipeline,
    Success,
    ToolContext,
    ToolRegistry,
    Transient,
    builtin,
    gather,
)
from toolcall_pipeline.middlewares import Concurrency, Ledger, Quota, RateLimit, standard
from toolcall_pipeline.once import in_process, owners
from toolcall_pipeline.once.decision import Arrival, decide
from toolcall_pipeline.policies import PolicyRule, RuleSet
from toolcall_pipeline.stores import Change, Memory, StoreError

TABLE = """
runs      | waits   | waits     | waits | runs
ended     | kept    | kept      | kept  | runs
lost      | refused | same key  | runs  | runs
undecided | refused | same key  | runs  | runs
beside    | runs    | a new key | runs  | runs
new       | runs    | a new key | runs  | runs
"""
EFFECTS: tuple[Effect, ...] = ("mutating", "keyed", "idempotent", "read")
ROWS = [[cell.strip() for cell in line.split("|")] for line in TABLE.strip().splitlines()]
CELLS: list[Any] = [(row[0], effect, cell) for row in ROWS for effect, cell in zip(EFFECTS, row[1:], strict=True)]
STEPS = {"waits": "wait", "kept": "answer", "refused": "ask", "same key": "run with its key"}


class Desk:
    """A tool of each effect, in a pipeline that remembers in this process or in a store."""

    def __init__(self, driver: str) -> None:
        self.keys: list[str] = []  # of the bodies that ran
        self.end: Exception | None = None
        self.go_on = anyio.Event()
        self.tools = tools = ToolRegistry()
        for effect in EFFECTS:
            tools.tool(name=effect, effect=effect, context=True)(self._act)
        self.pipeline: Pipeline = standard(tools, attempts=1)
        if driver == "store":
            self.pipeline = self.pipeline.before("retry", Ledger())

    async def _act(self, context: ToolContext) -> int:
        self.keys.append(context.idempotency_key)
        number = len(self.keys)
        await self.go_on.wait()
        if self.end is not None:
            raise self.end
        return number

    async def ask(self, effect: Effect, id_: str = "a") -> Any:
        """The value of the answer, or the kind of its error."""
        outcome = await self.pipeline(Call(effect, {}, id_, conversation="thread", reply="reply"))
        return outcome.unwrap() if type(outcome) is Success else outcome.failure().kind

    async def meet(self, arrives: Arrival, effect: Effect) -> str:
        """What becomes of the second of two calls, in the words of the table."""
        id_ = "a" if arrives in ("runs", "ended", "lost") else "b"
        answers: dict[str, Any] = {}

        async def ask(name: str, id_: str) -> None:
            answers[name] = await self.ask(effect, id_)

        if arrives in ("runs", "beside"):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, "first", "a")
                await anyio.wait_all_tasks_blocked()
                tasks.start_soon(ask, "second", id_)
                await anyio.wait_all_tasks_blocked()
                self.go_on.set()
        else:
            self.go_on.set()
            self.end = ConnectionError() if arrives in ("lost", "undecided") else None
            await ask("first", "a")
            self.end = None
            await ask("second", id_)
        if len(self.keys) == 1:
            assert answers["second"] == ("outcome_unknown" if self.lost(arrives) else answers["first"])
            return "refused" if self.lost(arrives) else "waits" if arrives == "runs" else "kept"
        assert sorted(str(each) for each in answers.values()) == (
            ["2", "transient"] if self.lost(arrives) else ["1", "2"]
        )
        return "runs" if effect != "keyed" else "same key" if len({*self.keys}) == 1 else "a new key"

    @staticmethod
    def lost(arrives: Arrival) -> bool:
        return arrives in ("lost", "undecided")


@pytest.mark.parametrize("driver", ["process", "store"])
@pytest.mark.parametrize(("arrives", "effect", "cell"), CELLS)
async def test_the_table(arrives: Arrival, effect: Effect, cell: str, driver: str) -> None:
    """Each cell of the table holds in the memory of a process and in a store."""
    desk = Desk(driver)
    async with desk.pipeline:
        assert await desk.meet(arrives, effect) == cell


@pytest.mark.parametrize(("arrives", "effect", "cell"), CELLS)
def test_the_decision_is_the_table(arrives: Arrival, effect: Effect, cell: str) -> None:
    """What is loosely equal gives no answer and no key; what nobody can tell is refused."""
    step = decide(arrives, effect)
    assert step == STEPS.get(cell, "run")
    asked = cell in ("refused", "same key")
    assert decide(arrives, effect, is_equal=False) == ("ask" if asked else step)
    for is_equal, answered in ((True, cell == "refused"), (False, False)):
        found = [decide(arrives, effect, is_equal=is_equal, found=landed) for landed in ("yes", "no", "maybe")]
        asks = decide(arrives, effect, is_equal=is_equal) == "ask"
        assert found == (["answer" if answered else "run", "run", "refuse"] if asks else [step] * 3)
    assert decide("done", effect) == ("run" if effect == "read" else "answer")


@pytest.mark.parametrize("effect", EFFECTS)
async def test_one_id_twice_in_one_gather(effect: Effect) -> None:
    """In one reply a read is one call as well."""
    desk = Desk("process")
    desk.go_on.set()
    outcomes = await gather(desk.pipeline, [Call(effect, {}, "a"), Call(effect, {}, "a"), Call(effect, {}, "b")])
    assert outcomes == [Success(1), Success(1), Success(2)]


@pytest.mark.parametrize("at_once", [True, False])
def test_one_id_twice_in_threads_with_loops_of_their_own(*, at_once: bool) -> None:
    """A delivery of a known reply runs once, whichever threads and loops it comes from."""
    ran, answers, tools = list[int](), list[Any](), ToolRegistry()
    start = threading.Barrier(8 if at_once else 1)

    @tools.tool
    def pay(amount: int) -> int:
        ran.append(amount)
        return len(ran)

    pipeline = standard(tools)

    def ask(reply: str) -> None:
        start.wait(PATIENT)
        answers.append(anyio.run(lambda: pipeline(Call("pay", {"amount": 7}, "a", reply=reply))))

    threads = [threading.Thread(target=ask, args=("one",)) for _ in range(8)]
    for thread in threads:
        thread.start()
        if not at_once:
            thread.join()
    for thread in threads:
        thread.join()
    assert (ran, answers) == ([7], [Success(1)] * 8)
    assert anyio.run(lambda: pipeline(Call("pay", {"amount": 7}, "a", reply="two"))) == Success(2)


LIMITS: dict[str, Callable[[], Any]] = {
    "quota": lambda: Quota(2, per="principal", window=1000),
    "rate limit": lambda: RateLimit(2, per=1000, burst=2),
    "waiting rate limit": lambda: RateLimit(2, per=1000, burst=2).queueing(max_wait=0.01),
    "concurrency": lambda: Concurrency(1, max_queue=0),
}


@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)
async def test_a_redelivery_takes_nothing_from_a_limit(limit: Callable[[], Any]) -> None:
    """It is answered, also while no other call would pass, and leaves the limit what it had."""
    desk = Desk("store")
    desk.pipeline = desk.pipeline.before("ledger", limit(), name="limit")
    desk.go_on.set()
    async with desk.pipeline:
        assert [await desk.ask("mutating", "a") for _ in range(5)] == [1] * 5
        desk.go_on = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(desk.ask, "mutating", "b")  # takes what is left
            await anyio.wait_all_tasks_blocked()
            assert await desk.ask("mutating", "c") == "unavailable"
            assert await desk.ask("mutating", "a") == 1
            tasks.start_soon(desk.ask, "mutating", "b")  # waits for itself
            await anyio.wait_all_tasks_blocked()
            desk.go_on.set()
    assert len(desk.keys) == 2


async def test_a_redelivery_is_answered_whatever_a_rule_says_by_now() -> None:
    """A rule that denies by now is asked about new deliveries only."""
    desk = Desk("store")
    desk.go_on.set()
    (ledger,) = (stage.obj for stage in desk.pipeline.entries if stage.name == "ledger")
    denying = standard(desk.tools, policy=RuleSet((PolicyRule("deny", "*"),))).before("retry", ledger)
    async with desk.pipeline:
        assert await desk.ask("mutating", "a") == 1
    async with denying as desk.pipeline:
        assert [await desk.ask("mutating", each) for each in "ab"] == [1, "permission"]
        report = await desk.pipeline.report(Call("mutating", {}, "a", conversation="thread", reply="reply"))
    assert (report.replayed, [row.name for row in report.stages][-1]) == (True, "ledger")


class Full(Memory):
    """A store that takes no value with this text in it."""

    async def write(self, *changes: Change) -> int | None:
        """Raise StoreError for such a value."""
        if any(b"much" in (change.value or b"") for change in changes):
            raise StoreError("too large")
        return await super().write(*changes)


class Raising(Full):
    """A store of somebody's own that raises something else."""

    async def write(self, *changes: Change) -> int | None:
        """Raise ValueError for such a value."""
        try:
            return await super().write(*changes)
        except StoreError:
            raise ValueError("too large") from None


UNKEEPABLE: dict[str, Callable[[], Any]] = {
    "an integer of 5,000 digits": lambda: 10**5000,
    "one inside of a list": lambda: [{"n": -(10**5000)}],
    "what the store has no room for": lambda: "much",
    "a declared secret": lambda: "opened with 8642-9753",
    "a declared secret in a key": lambda: {"8642-9753": 1},
    "a declared secret in a model's text": lambda: ["8642-9753"],
}


@pytest.mark.parametrize("store", [Memory, Full, Raising])
@pytest.mark.parametrize("answer", UNKEEPABLE)
async def test_an_answer_that_cannot_be_kept_is_not_told_again(
    answer: str, store: type[Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call has ended, its answer is not kept, and neither another call nor the end of the pipeline waits for it.

    The memory of the process has room for all but secrets.
    """
    monkeypatch.setattr("toolcall_pipeline.middlewares.ledger._LAST_POLL", 0.01)
    tools, ran, given = ToolRegistry(), list[int](), UNKEEPABLE[answer]()

    @tools.tool
    async def act(n: int, pin: SecretStr) -> Any:
        ran.append(n)
        return given if n == 1 else n

    ledger = Ledger(store())
    pipeline = standard(tools).before("retry", ledger)
    async with pipeline:

        async def ask(n: int) -> Any:
            return await pipeline(Call("act", {"n": n, "pin": "8642-9753"}, str(n), conversation="thread"))

        assert type(await ask(1)) is Success
        assert [await ask(2), await ask(2)] == [Success(2)] * 2
        again = await ask(1)
        if store is Memory and "secret" not in answer:
            assert again == Success(given)
        else:
            assert again == Failure(OutcomeUnknown(Transient(landed="yes")))
        assert await ledger.undecided() == []
    async with pipeline:
        assert (await ask(1) == again, ran) == (True, [1, 2])


class Away(Memory):
    """A store that gives no answer about some deliveries."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.blocked = "", set[str]()

    async def write(self, *changes: Change) -> int | None:
        """Raise StoreError for a delivery that is blocked."""
        self.last = next((each.key for each in changes if each.key.startswith("d/")), self.last)
        if any(each.key in self.blocked for each in changes):
            raise StoreError("away")
        return await super().write(*changes)


async def test_a_late_write_waits_for_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two ends that a store did not take, the second is written while the first cannot be."""
    monkeypatch.setattr("toolcall_pipeline.middlewares.ledger._CLOSING", 0.05)
    tools, keys = ToolRegistry(), list[str]()

    @tools.tool
    async def act(n: int) -> int:
        keys.append(store.last)
        if n < 3:
            store.blocked.add(store.last)
        return n

    store = Away()
    async with standard(tools).before("retry", Ledger(store, max_wait=0)) as pipeline:

        async def ask(n: int) -> Any:
            outcome = await pipeline(Call("act", {"n": n}, str(n), conversation="thread"))
            return outcome.unwrap() if type(outcome) is Success else outcome.failure().kind

        assert [await ask(1), await ask(2)] == [1, 2]
        store.blocked.remove(keys[1])
        assert [await ask(3), await ask(2), await ask(1)] == [3, 2, "unavailable"]
        assert len(keys) == 3


async def test_a_process_that_is_gone_is_seen_at_once() -> None:
    """It needs no wait for the end of its lease; another one that has its number by now is not it."""
    gone = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)  # noqa: ASYNC220  # nothing else runs
    store, host = Memory(), vars(owners)["_find_host"]()
    start = vars(owners)["_find_start"](gone.pid)
    names = {begun: f"x|{gone.pid}|{begun}|{host}" for begun in (start, start + 1)}
    for name in names.values():
        await store.write(Change(f"o/{name}", owners.LEASE))
    found = [await owners.lives(store, name, "d") for name in names.values()]
    assert found == ([True, False] if host and start > 0 else [True, True])  # without /proc only the lease is known
    gone.communicate(b"\n")
    assert [await owners.lives(store, name, "d") for name in names.values()] == [not host, not host]


@pytest.mark.parametrize("lease", [1.0, 15.0])
def test_a_lease_is_renewed_four_times_in_its_time(lease: float) -> None:
    """So one or two that come late, or fail, end nothing."""
    waited: list[float] = []
    renewed: list[Change] = []

    async def write(*changes: Change) -> None:
        renewed.extend(changes)
        if len(renewed) == 2:
            raise StoreError("away")

    async def at_each() -> None: ...

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return len(waited) > 4

    owner = owners.Owner(cast("Any", SimpleNamespace(write=write)), lease, at_each)
    vars(owner)["_closing"] = SimpleNamespace(wait=wait)
    vars(owners.Owner)["_keep"](owner)
    assert waited == [lease / 4] * 5
    assert renewed == [Change(f"o/{owner.name}", owners.LEASE, ttl=lease)] * 4


@pytest.mark.parametrize("kind", ["d/", "i/"])
@pytest.mark.parametrize("left", ["nothing", "the same again", "another row"])
async def test_an_end_is_not_written_over_what_another_hand_left(kind: str, left: str) -> None:
    """While a body runs an operator, or who took its owner for dead, may change its rows; its answer is still told.

    A row that holds what the owner wrote is still its own, whatever its version.
    """
    tools, store, ran = ToolRegistry(), Memory(), list[str]()

    @tools.tool
    async def act() -> str:
        ran.append("act")
        for key in [key async for key, _ in store.scan(kind)]:
            entry = await store.get(key)
            assert entry is not None
            row = json.loads(entry.value) | ({"at": 0.0} if left == "another row" else {})
            await store.write(Change(key, None if left == "nothing" else json.dumps(row).encode(), entry.version))
        return "done"

    with anyio.fail_after(PATIENT):
        async with standard(tools).before("retry", Ledger(store, max_wait=0)) as pipeline:
            assert await pipeline(Call("act", {}, "1", conversation="thread")) == Success("done")
            rows = [entry.value async for _, entry in store.scan(kind)]
    assert ran == ["act"]
    assert len(rows) == (1 if kind == "d/" and left != "nothing" else 0)  # an intent ends with its last call
    assert [b'"ended"' in row for row in rows] == [left == "the same again"] * len(rows)


@pytest.mark.parametrize(
    ("landed", "reason"),
    [
        (True, "its answer was lost, and verify= found that it took effect"),
        (False, "verify= found that it did not"),
        (None, None),
    ],
)
async def test_what_verify_found_is_in_the_report(landed: bool | None, reason: str | None) -> None:
    """The report of a lost call says what became of it; where nobody can tell, it has no such row."""
    tools = ToolRegistry()

    @tools.tool(verify=lambda _lost, _key: landed)
    async def act() -> None:
        raise ConnectionError

    report = await standard(tools, attempts=1).report(Call("act", {}, "1", conversation="thread"))
    assert [row.note for row in report.stages if row.name == "once"] == ([] if reason is None else [reason])


async def test_a_call_that_waited_is_refused_where_an_equal_one_was_lost_meanwhile() -> None:
    """What is undecided is asked for once more right before the body."""
    tools, ran, begins, ends = ToolRegistry(), list[str](), anyio.Event(), anyio.Event()
    kinds: list[str] = []

    @tools.tool
    async def act() -> None:
        ran.append("act")
        raise ConnectionError

    async def wait(call: Call, call_next: Handler[Call]) -> Outcome:
        if call.id == "waits":
            begins.set()
            await ends.wait()
        return await call_next(call)

    pipeline = standard(tools, attempts=1).after("retry", wait)

    async def ask(call_id: str) -> None:
        kinds.append((await pipeline(Call("act", {}, call_id, conversation="thread"))).failure().kind)

    with anyio.fail_after(PATIENT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "waits")
            await begins.wait()
            await ask("lost")
            ends.set()
    assert (ran, kinds) == (["act"], ["outcome_unknown"] * 2)


async def test_the_time_of_a_refusal_is_in_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an undecided call before it took to refuse it: from the question whether it landed to the answer."""
    tools = ToolRegistry()

    @tools.tool(verify=lambda _lost, _key: None)
    async def act() -> None:
        raise ConnectionError

    pipeline = standard(tools, attempts=1)
    call = Call("act", {}, "1", conversation="thread")
    await pipeline(call)
    monkeypatch.setattr(in_process, "perf_counter_ns", iter((1_000, 251_000)).__next__)
    report = await pipeline.report(attrs.evolve(call, id="2"))
    assert [(row.start, row.end, row.own) for row in report.stages if row.name == "once"] == [(1_000, 251_000, 250_000)]


@pytest.mark.parametrize("verdict", [Success("found"), True, False, None], ids=str)
async def test_what_verify_finds_after_a_deadline_is_in_the_ledger_at_once(verdict: Any) -> None:
    """A call that its time limit cut off inside of a ledger is decided there with what ``verify=`` found."""
    tools, began = ToolRegistry(), list[int]()

    def verify(lost: object, key: str) -> Any:
        return verdict

    @tools.tool(verify=verify)
    async def hang(n: int) -> None:
        began.append(n)
        if len(began) == 1:
            await anyio.sleep_forever()

    ledger = Ledger()
    async with standard(tools, attempts=1).before("retry", ledger) as pipeline:
        call = Call("hang", {"n": 1}, "a", timeout=0.05)
        first = await pipeline(call)
        undecided = [each.tool for each in await ledger.undecided()]
        assert undecided == (["hang"] if verdict is None else [])
        found: Any = Success(None) if verdict is True else verdict
        assert (
            first == found
            if verdict
            else first.failure().kind == ("timeout" if verdict is False else "outcome_unknown")
        )
        again = await pipeline(attrs.evolve(call, timeout=None))
        assert again == (Success(None) if verdict is False else first) or verdict is None
    assert len(began) == (2 if verdict is False else 1)


@pytest.mark.parametrize("driver", ["process", "store"])
@pytest.mark.parametrize("ids", [("", ""), ("1", "1"), ("x", "x")], ids=str)
async def test_calls_in_a_batch_are_known_by_their_place(ids: tuple[str, str], driver: str) -> None:
    """An id in a batch is a label. The batch sent again is the same calls, and another batch is others."""
    desk = Desk(driver)
    desk.go_on.set()
    builtin.install(desk.tools, desk.pipeline)
    entries: list[Any] = [{"tool": "mutating", "args": {}} | ({"id": id_} if id_ else {}) for id_ in ids]

    async def ask(id_: str, *more: Any, reply: str = "reply") -> int:
        await desk.pipeline(Call("batch", {"calls": [*entries, *more]}, id_, conversation="thread", reply=reply))
        return len(desk.keys)

    async with desk.pipeline:
        assert [await ask(""), await ask("")] == [2, 4]
        assert [await ask("a"), await ask("a")] == [6, 6]
        assert [await ask("a", *entries), await ask("b"), await ask("a", reply="another")] == [10, 12, 14]


@pytest.mark.parametrize("driver", ["process", "store"])
async def test_an_id_that_a_tool_gives_belongs_to_its_own_call(driver: str) -> None:
    """Two calls of a tool that gives one id to what it calls are two; one that comes again is one."""
    desk = Desk(driver)
    desk.go_on.set()

    @desk.tools.tool(context=True, composite=True)
    async def outer(context: ToolContext, n: int) -> int:
        assert context.caller is not None
        return cast("int", (await context.caller(Call("mutating", {}, "inner"))).unwrap())

    async with desk.pipeline:
        asked = [Call("outer", {"n": n}, id_, conversation="thread", reply="reply") for n, id_ in ((1, "a"), (2, "b"))]
        answers = [await desk.pipeline(call) for call in (*asked, *asked, attrs.evolve(asked[0], id=""))]
    assert answers == [Success(each) for each in (1, 2, 1, 2, 3)]


def _begin_at(start: int, _: int) -> int:
    return start


async def test_an_owner_that_cannot_be_seen_lives_until_its_lease_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a hidden process nor one of another user is taken for dead while its lease holds."""
    monkeypatch.setattr(owners, "_find_host", lambda: "here")
    for error, start, lives in (
        (PermissionError, 0, None),
        (None, 0, None),
        (None, 7, True),
        (None, 8, False),
        (None, -1, False),
        (ProcessLookupError, 0, False),
    ):

        def kill(pid: int, signal: int, error: Any = error) -> None:
            if error is not None:
                raise error

        monkeypatch.setattr(os, "kill", kill)
        monkeypatch.setattr(owners, "_find_start", partial(_begin_at, start))
        store, name = Memory(), "x|999999|7|here"
        assert await owners.lives(store, name, "d") is bool(lives)
        await store.write(Change(f"o/{name}", owners.LEASE))
        assert await owners.lives(store, name, "d") is (lives is not False)


async def test_an_owner_that_ends_while_its_record_is_read_is_not_taken_for_dead() -> None:
    """A call that reads that another runs, and then sees that it runs no more, reads again."""
    desk = Desk("store")

    class Slow(Memory):
        async def get(self, key: str) -> Any:
            found = await super().get(key)
            if key.startswith(("d/", "i/")) and desk.keys and not desk.go_on.is_set():
                desk.go_on.set()
                await anyio.wait_all_tasks_blocked()
            return found

    desk.pipeline = standard(desk.tools, attempts=1).before("retry", Ledger(Slow()))
    answers: list[Any] = []

    async def ask(id_: str) -> None:
        answers.append(await desk.ask("mutating", id_))

    async with desk.pipeline:
        for second, expected in (("a", [1, 1]), ("b", [1, 2])):
            desk.keys, desk.go_on = [], anyio.Event()
            answers.clear()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, f"{second}1")
                await anyio.wait_all_tasks_blocked()
                tasks.start_soon(ask, "a1" if second == "a" else "other")
            assert answers == expected
