"""The stage Ledger: one delivery runs once, and an intent that may have taken effect is not begun again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Self

import anyio
import anyio.lowlevel
import attrs
import pytest
from pydantic import BaseModel, Field

from support import PATIENT
from toolcall_pipeline import (
    Call,
    Crashed,
    Failure,
    OutcomeUnknown,
    Pipeline,
    Placement,
    SetupError,
    Success,
    ToolContext,
    ToolFailed,
    ToolRegistry,
    Unavailable,
    ValidCall,
    gather,
)
from toolcall_pipeline.base import timing
from toolcall_pipeline.middlewares import Cache, Concurrency, Ledger, LoopGuard, RateLimit, Retry, standard
from toolcall_pipeline.once.dead_owners import bury_claims
from toolcall_pipeline.once.kept_outcomes import read_outcome, write_outcome
from toolcall_pipeline.once.ledger_records import Records
from toolcall_pipeline.once.owners import Owner, lives
from toolcall_pipeline.stores import Change, Entry, Memory, SQLite, StoreError
from toolcall_pipeline.testing import FakeClock


class Paid(BaseModel):
    amount: int
    to: tuple[str, ...] = ()


class Sealed(BaseModel):
    amount: int
    code: str = Field(default="", exclude=True)


class Moved(Exception):
    """An exception whose class says that nothing happened."""

    landed = False


class Shop:
    """Tools over a store, and what they did. Several of them over one store stand for several processes."""

    def __init__(self, store: Any = None, **options: Any) -> None:
        self.done: list[Any] = []
        self.keys: list[str] = []
        self.answer: Any = None
        self.verdict: object = None
        self.asked: list[str] = []
        self.store = Memory() if store is None else store
        self.tools = tools = ToolRegistry()

        def verify(call: Any, key: str) -> object:
            self.asked.append(key)
            return self.verdict

        @tools.tool(verify_with="look")
        async def charge(amount: int | str, to: str = "Ann") -> Any:
            return self._act(("charge", amount))

        @tools.tool(verify=verify, context=True)
        async def wire(context: ToolContext, amount: int) -> Any:
            self.keys.append(context.idempotency_key)
            return self._act(("wire", amount))

        @tools.tool(effect="keyed", context=True)
        async def pay(context: ToolContext, amount: int) -> Any:
            self.keys.append(context.idempotency_key)
            return self._act(("pay", amount))

        @tools.tool(effect="idempotent")
        async def put(amount: int) -> Any:
            return self._act(("put", amount))

        @tools.tool
        async def create() -> str:
            return "created"

        @tools.tool
        async def typed(amount: int) -> Paid:
            self.done.append(("typed", amount))
            return Paid(amount=amount, to=("Ann",))

        @tools.tool(effect="read")
        async def look() -> str:
            self.done.append("look")
            return "seen"

        self.ledger = Ledger(self.store, **options)
        self.pipeline: Pipeline = standard(tools, attempts=1).before("retry", self.ledger)

    def _act(self, did: Any) -> Any:
        self.done.append(did)
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"n": len(self.done)} if self.answer is None else self.answer

    async def ask(self, name: str, id_: str = "", **arguments: object) -> Any:
        """The value of the answer, or the kind of its error."""
        call = Call(name, arguments or {"amount": 7}, id_, conversation="thread")
        outcome = await self.pipeline(call if name not in ("create", "look") else attrs.evolve(call, arguments={}))
        return outcome.unwrap() if type(outcome) is Success else outcome.failure().kind


ENDS: dict[str, tuple[Any, Any]] = {
    "a success": (None, {"n": 1}),
    "a failure that the author reports": (ToolFailed("no"), "execution"),
    "a returned failure": (Failure("no"), "execution"),
    "an exception": (FileNotFoundError(), "outcome_unknown"),
    "a lost connection": (ConnectionError(), "outcome_unknown"),
}


@pytest.mark.parametrize(("answer", "kept"), ENDS.values(), ids=ENDS)
async def test_a_delivery_has_one_answer(answer: Any, kept: Any) -> None:
    """The same delivery gets its answer again, in another process as well, and no body runs."""
    shop = Shop()
    shop.answer = answer
    async with shop.pipeline:
        await shop.ask("charge", "a")
        shop.answer = None
        assert [await shop.ask("charge", "a") for _ in range(2)] == [kept] * 2
    later = Shop(shop.store)
    async with later.pipeline:
        assert await later.ask("charge", "a") == kept
        report = await later.pipeline.report(Call("charge", '{"amount":7}', "a", conversation="thread"))
        assert report.replayed
    assert (len(shop.done), later.done) == (1, [])


@pytest.mark.parametrize(
    "other",
    [
        {"id": "b"},
        {"arguments": {"amount": 8}},
        {"conversation": "other"},
        {"principal": "other"},
        {"reply": "other"},
        {"name": "put"},
        {"id": ""},
    ],
    ids=str,
)
async def test_another_delivery_runs(other: Any) -> None:
    """What differs in id, arguments, conversation, principal, reply or tool is another delivery."""
    shop = Shop()
    call = Call("charge", {"amount": 7}, "a", conversation="thread")
    async with shop.pipeline:
        await shop.pipeline(call)
        await shop.pipeline(attrs.evolve(call, **other))
    assert len(shop.done) == 2


async def test_two_equal_payments_run() -> None:
    """After a known end nothing is left of an intent: two equal payments with two ids both run."""
    shop = Shop()
    async with shop.pipeline:
        assert [await shop.ask("charge", each) for each in ("a", "b", "")] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert not [key async for key, _ in shop.store.scan("i/")]


async def test_reads_are_not_kept() -> None:
    """A read runs each time, and writes nothing."""
    shop = Shop()
    async with shop.pipeline:
        assert [await shop.ask("look", "a") for _ in range(2)] == ["seen"] * 2
    assert [key async for key, _ in shop.store.scan()] == []


@pytest.mark.parametrize("answer", [[1, [2]], {"a": {"b": [1]}}, ToolFailed("no", details={"a": {"b": [1]}})])
async def test_who_gets_an_answer_may_change_it(answer: Any) -> None:
    """A kept answer is a copy, and so is each answer that is told again."""
    shop, call = Shop(), Call("charge", {"amount": 7}, "a", conversation="thread")
    shop.answer = answer

    def spoil(value: Any) -> None:
        parts: list[Any] = list(value.values() if hasattr(value, "values") else value)
        for each in parts:
            if type(each) in (list, dict):
                spoil(each)
        value.clear()

    async with shop.pipeline:
        told = list[str]()
        for _ in range(3):
            outcome: Any = await shop.pipeline(call)
            told.append(repr(outcome))
            spoil(outcome.unwrap() if type(outcome) is Success else outcome.failure().details.more)
    assert told[1:] == [told[1]] * 2
    assert len(shop.done) == 1


CASES: dict[str, tuple[Any, str, Any, int]] = {
    "mutating, lost": (ConnectionError(), "charge", "outcome_unknown", 1),
    "mutating, an exception": (ValueError(), "charge", "outcome_unknown", 1),
    "mutating, told": (ToolFailed("no"), "charge", {"n": 2}, 2),
    "mutating, not landed": (Moved(), "charge", {"n": 2}, 2),
    "keyed, lost": (ConnectionError(), "pay", {"n": 2}, 2),
    "idempotent, lost": (ConnectionError(), "put", {"n": 2}, 2),
}


@pytest.mark.parametrize(("answer", "tool", "then", "ran"), CASES.values(), ids=CASES)
async def test_beside_an_equal_intent(answer: Any, tool: str, then: Any, ran: int) -> None:
    """A new delivery beside an undecided intent: refused if mutating, run with the same key if keyed."""
    shop = Shop()
    shop.answer = answer
    async with shop.pipeline:
        await shop.ask(tool, "a")
    later = Shop(shop.store)
    later.done = shop.done
    async with later.pipeline:
        assert await later.ask(tool, "b") == then
    assert len(shop.done) == ran
    assert len({*shop.keys, *later.keys}) <= 1


async def test_the_last_try_of_a_claim_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that gets its claim runs, at whichever try: a claim without a body would look like a lost one."""
    monkeypatch.setattr("toolcall_pipeline.middlewares.ledger._TRIES", 1)
    shop = Shop()
    shop.answer = ConnectionError()
    async with shop.pipeline:
        await shop.ask("pay", "a")
        shop.answer = None
        assert await shop.ask("pay", "a") == {"n": 2}


async def test_once_decided_the_next_key_is_new() -> None:
    """An answer to the key of a lost call decides that call; the next wish has a key of its own."""
    shop = Shop()
    shop.answer = ConnectionError()
    async with shop.pipeline:
        await shop.ask("pay", "a")
        shop.answer = None
        await shop.ask("pay", "b")
        await shop.ask("pay", "c")
    first, second, third = shop.keys
    assert first == second != third
    assert await shop.ledger.undecided() == []


@pytest.mark.parametrize("between", ["create", "put", "wire", "pay", "look", "charge"])
async def test_what_an_exception_said_is_lifted_by_another_change(between: str) -> None:
    """Once another tool has changed something in the conversation, whichever it is, the call is honest again."""
    shop = Shop()
    shop.answer = FileNotFoundError()
    with FakeClock() as clock:
        async with shop.pipeline:
            await shop.ask("charge", "a")
            clock.advance(1)
            shop.answer = None
            await shop.ask(between, "b", **({"amount": 8} if between == "charge" else {}))
            assert (await shop.ask("charge", "c") == "outcome_unknown") is (between in ("look", "charge"))
            assert await shop.ask("charge", "a") == "outcome_unknown"


@pytest.mark.parametrize("between", ["create", "look"])
async def test_the_key_of_a_lifted_call_goes_to_no_other(between: str) -> None:
    """An equal call of a keyed tool keeps the key of what may have taken effect, until another change lifts that."""
    shop = Shop()
    shop.answer = FileNotFoundError()
    with FakeClock() as clock:
        async with shop.pipeline:
            await shop.ask("pay", "a")
            clock.advance(1)
            shop.answer = None
            await shop.ask(between, "b")
            await shop.ask("pay", "c")
    assert (shop.keys[0] == shop.keys[-1]) is (between == "look")


class Watched(Memory):
    """Waits for another process where the record of an intent is read after that of a delivery."""

    def __init__(self, wait: Callable[[str], Any]) -> None:
        super().__init__()
        self.wait, self.last = wait, ""

    async def get(self, key: str, /) -> Entry | None:
        if (self.last[:2], key[:2]) == ("d/", "i/"):
            await self.wait("read")
        self.last = key
        return await super().get(key)


@pytest.mark.parametrize(
    ("id_", "moment", "told", "ran"),
    [
        ("b", "verify", "wired too", ["again", "beside"]),
        ("a", "verify", "unavailable", ["again"]),
        ("a", "read", "unavailable", ["again"]),
    ],
)
async def test_a_lost_call_that_runs_again_meanwhile_is_not_forgotten(
    id_: str, moment: str, told: str, ran: list[str]
) -> None:
    """Another process may have begun a lost call again while this one asks what became of it: it runs once."""
    bodies, begun, go_on, moments = list[str](), anyio.Event(), anyio.Event(), list[str]()

    def open_process(body: Callable[[int], Any], verify: Callable[..., Any]) -> Pipeline:
        tools = ToolRegistry()
        tools.tool(name="wire", verify=verify)(body)
        return standard(tools, attempts=1).before("retry", Ledger(store, max_wait=0.01))

    async def lose(amount: int) -> str:
        raise ConnectionError

    async def run_again(amount: int) -> str:
        bodies.append("again")
        begun.set()
        await go_on.wait()
        return "wired"

    async def run_beside(amount: int) -> str:
        bodies.append("beside")
        return "wired too"

    async def let_another_begin(now: str) -> None:
        if moments == [now]:
            moments.clear()
            group.start_soon(ask, another, "a")
            await begun.wait()

    async def find_nothing(call: Any, key: str) -> bool:
        await let_another_begin("verify")
        return False

    def cannot_tell(call: Any, key: str) -> None:
        return None

    async def ask(pipeline: Pipeline, id_: str) -> Any:
        outcome = await pipeline(Call("wire", {"amount": 7}, id_, conversation="thread"))
        return outcome.unwrap() if type(outcome) is Success else outcome.failure().kind

    store = Watched(let_another_begin)
    another, mine = open_process(run_again, find_nothing), open_process(run_beside, find_nothing)
    assert await ask(open_process(lose, cannot_tell), "a") == "outcome_unknown"
    async with anyio.create_task_group() as group:
        moments.append(moment)
        assert await ask(mine, id_) == told
        assert await ask(mine, "a") == "unavailable"  # it runs there
        go_on.set()
    assert await ask(mine, "a") == "wired"
    assert bodies == ran


VERDICTS: dict[str, tuple[object, str, Any, int]] = {
    "it happened, another delivery": (Success("paid"), "b", "paid", 1),
    "it happened, the same delivery": (Success("paid"), "a", "paid", 1),
    "it did not, another delivery": (False, "b", {"n": 2}, 2),
    "it did not, the same delivery": (False, "a", {"n": 2}, 2),
    "not known, another delivery": (None, "b", "outcome_unknown", 1),
    "not known, the same delivery": (None, "a", "outcome_unknown", 1),
}


@pytest.mark.parametrize(("verdict", "id_", "then", "ran"), VERDICTS.values(), ids=VERDICTS)
async def test_verify_decides(verdict: object, id_: str, then: Any, ran: int) -> None:
    """``verify=`` of the tool is asked with the key of the lost call, and its answer stays."""
    shop = Shop()
    shop.answer = ConnectionError()
    async with shop.pipeline:
        await shop.ask("wire", "a")
        shop.answer, shop.verdict = None, verdict
        assert await shop.ask("wire", id_) == then
        assert shop.asked[0] == shop.keys[0]
        if type(verdict) is Success:  # and both deliveries keep it
            shop.verdict = None
            assert [await shop.ask("wire", each) for each in ("a", id_)] == ["paid"] * 2
    assert len(shop.done) == ran


@pytest.mark.parametrize("landed", [True, False])
async def test_a_person_decides(*, landed: bool) -> None:
    """`resolve` says what became of a call: it is answered so, or it and equal ones run."""
    shop = Shop()
    shop.answer = ConnectionError()
    async with shop.pipeline:
        await shop.ask("charge", "a")
        (lost,) = await shop.ledger.undecided()
        assert (lost.tool, lost.conversation, lost.principal) == ("charge", "thread", "")
        assert await shop.ledger.resolve(lost.id, landed=landed, value="paid", by="Ann")
        assert not await shop.ledger.resolve(lost.id, landed=landed)
        shop.answer = None
        assert await shop.ask("charge", "a") == ("paid" if landed else {"n": 2})
        assert await shop.ask("charge", "b") == {"n": 2 if landed else 3}


async def test_a_program_without_a_pipeline_decides() -> None:
    """A ledger that is opened by itself lists and decides what a pipeline over the same store left undecided."""
    shop = Shop()
    shop.answer = ConnectionError()
    async with shop.pipeline:
        await shop.ask("charge", "a")
    async with Ledger(shop.store) as ledger:
        (lost,) = await ledger.undecided()
        assert await ledger.resolve(lost.id, landed=True)
        assert await ledger.undecided() == []


async def test_typed_results_come_back_typed() -> None:
    """A value of the annotated class is kept as JSON and read as that class; one without an annotation as its text."""
    shop = Shop()
    async with shop.pipeline:
        first = await shop.ask("typed", "a")
        assert await shop.ask("typed", "a") == first == Paid(amount=7, to=("Ann",))
        shop.answer = Paid(amount=1)
        await shop.ask("charge", "b")
        assert "amount" in await shop.ask("charge", "b")


@pytest.mark.parametrize(("code", "form"), [("", "j"), ("1234", "t")])
async def test_a_typed_result_that_its_json_does_not_give_back_is_kept_as_text(code: str, form: str) -> None:
    """A later answer is equal to the first one, or it is the text of the first one: no value comes back changed."""
    shop = Shop()

    @shop.tools.tool
    async def seal() -> Sealed:
        return Sealed(amount=1, code=code)

    call, result = ValidCall("seal", tool=shop.tools.tools["seal"], params={}), Success(Sealed(amount=1, code=code))
    kept = write_outcome(result, call)
    assert list(kept) == [form]
    assert (read_outcome(kept, call.tool) == result) is (form == "j")


async def test_a_record_says_how_often_its_call_began() -> None:
    """A keyed delivery that was lost begins again under its record; an answer that is replayed begins nothing."""
    shop = Shop()
    shop.answer = ConnectionError()
    seen, id_ = list[int](), ""
    async with shop.pipeline:
        for is_back in (False, False, True, True):
            shop.answer = None if is_back else shop.answer
            await shop.ask("pay", "a")
            id_ = next((each.id for each in await shop.ledger.undecided()), id_)
            seen.append((await shop.ledger.show(id_))["runs"])
    assert seen == [1, 2, 3, 3]


@pytest.mark.parametrize(("by", "kept"), [({}, ""), ({"by": "Ann"}, "Ann")])
async def test_a_record_says_who_decided(by: dict[str, str], kept: str) -> None:
    """The name that was given, or none."""
    shop = Shop()
    shop.answer = ConnectionError()
    async with shop.pipeline:
        await shop.ask("charge", "a")
        (lost,) = await shop.ledger.undecided()
        assert await shop.ledger.resolve(lost.id, landed=True, **by)
        assert (await shop.ledger.show(lost.id))["by"] == kept


async def test_errors_have_a_form_of_their_own() -> None:
    """Each kind of error is kept with its fields and comes back equal; a cause only as the name of its class."""
    from error_cases import EACH_KIND

    tool = Shop().tools.tools["charge"]
    call = ValidCall("charge", tool=tool, params={})
    for error in EACH_KIND:
        read = read_outcome(write_outcome(Failure(error), call), tool)
        assert read == Failure(error)
    lost = write_outcome(Failure(OutcomeUnknown()), call)
    assert read_outcome({"e": {"c": "Gone", "f": {}}}, tool) != read_outcome(lost, tool)
    assert type(read_outcome({"e": {"c": "Gone", "f": {}}}, tool).failure()) is OutcomeUnknown


async def test_a_twin_waits() -> None:
    """The same delivery while it runs waits for its answer, and runs once; with no time left it is unavailable."""
    shop = Shop(max_wait=60)
    begun, go = anyio.Event(), anyio.Event()

    @shop.tools.tool
    async def slow(n: int) -> int:
        shop.done.append(n)
        begun.set()
        await go.wait()
        return n

    answers: list[Any] = []

    async def ask() -> None:
        answers.append(await shop.ask("slow", "a", n=1))

    async with shop.pipeline, anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await begun.wait()
        hasty = Shop(shop.store, max_wait=0)
        hasty.pipeline = standard(shop.tools, attempts=1).before("retry", hasty.ledger)
        async with hasty.pipeline:
            assert await hasty.ask("slow", "a", n=1) == "unavailable"
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert answers == [1, 1]
    assert shop.done == [1]


@pytest.mark.parametrize("begun", [True, False])
async def test_a_cancelled_call(*, begun: bool) -> None:
    """A body that was cancelled is undecided; a call that was cancelled before its body runs when it comes again."""
    shop = Shop()
    entered = anyio.Event()
    held: list[int] = []

    async def hold() -> None:
        held.append(1)
        entered.set()
        if len(held) == 1:
            await anyio.sleep_forever()

    @shop.tools.tool
    async def act() -> str:
        if begun:
            await hold()
        return "done"

    class Wait:
        placement = Placement(runs_body=False)

        async def __call__(self, call: Call, call_next: Any) -> Any:
            if not begun:
                await hold()
            return await call_next(call)

    pipeline = shop.pipeline.after("ledger", Wait())
    call = Call("act", {}, "a", conversation="c")
    async with pipeline:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pipeline, call)
            await entered.wait()
            tasks.cancel_scope.cancel()
        outcome = await pipeline(call)
    if begun:
        assert type(outcome.failure()) is OutcomeUnknown
    else:
        assert outcome == Success("done")


class Cut(Memory):
    """A store that makes its next write and gives no answer to it."""

    cuts = False

    async def write(self, *changes: Change) -> int | None:
        version = await super().write(*changes)
        if self.cuts and version is not None:
            self.cuts = False
            raise StoreError("cut", maybe_written=True)
        return version


async def test_a_clock_that_is_set_back_lifts_nothing() -> None:
    """A change before the exception lifts nothing, whatever the clock said then; a later one does."""
    ahead, store = timing.wall_time() + 3600, Memory()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "wall_time", lambda: ahead)
        async with Shop(store).pipeline as pipeline:
            await pipeline.call("create", conversation="thread")
    shop = Shop(store)
    shop.answer = FileNotFoundError()
    async with shop.pipeline:
        assert await shop.ask("charge", "a") == "not_found"
    later = Shop(store)
    async with later.pipeline:
        assert await later.ask("charge", "b") == "outcome_unknown"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(timing, "wall_time", lambda: ahead + 1)
            await later.ask("create")
        assert await later.ask("charge", "c") == {"n": 1}


@pytest.mark.parametrize("third", ["a", "b"])
@pytest.mark.parametrize("second", ["refused", "not landed", "runs", "withdrawn"])
async def test_a_lost_key_stays_until_an_answer(second: str, third: str) -> None:
    """A keyed delivery that was lost comes again and its body gives no answer: equal calls still get its key."""
    store = Cut()
    first, later = Shop(store), Shop(store)
    first.answer = ConnectionError()
    async with first.pipeline:
        await first.ask("pay", "a")
    store.cuts = second == "withdrawn"
    held, go = anyio.Event(), anyio.Event()

    class Between:
        placement = Placement(runs_body=False)

        async def __call__(self, call: ValidCall, call_next: Any) -> Any:
            if held.is_set() or second == "not landed":
                return await call_next(call)
            held.set()
            if second == "runs":
                await go.wait()
            return Failure(Unavailable("pay", "not now"))

    later.answer = Moved() if second == "not landed" else None
    pipeline = later.pipeline.after("ledger", Between())
    async with pipeline:
        later.pipeline = pipeline
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(later.ask, "pay", "a")
            await anyio.wait_all_tasks_blocked()
            held.set()
            later.answer = None
            if second == "runs":
                with anyio.move_on_after(0 if third == "a" else 60):
                    await later.ask("pay", third)
            go.set()
        await later.ask("pay", third)
    assert {*first.keys} == {*later.keys[: 2 if second == "not landed" else 1]}
    assert await later.ledger.undecided() == []


class Slow(Memory):
    """A store whose next write takes for ever, once it is written or before."""

    slow: bool | None = None  # whether it is written

    async def write(self, *changes: Change) -> int | None:
        slow, self.slow = self.slow, None
        version = None if slow is False else await super().write(*changes)
        if slow is not None:
            await anyio.sleep_forever()
        return version


@pytest.mark.parametrize("tool", ["charge", "pay"])
@pytest.mark.parametrize("written", [True, False])
async def test_a_call_that_is_cancelled_while_it_is_claimed(tool: str, *, written: bool) -> None:
    """No body began, so nothing stays undecided: the same call and equal ones run, here and in another process."""
    store = Slow()
    shop, later = Shop(store), Shop(store)
    async with shop.pipeline, later.pipeline:
        store.slow = written
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shop.ask, tool, "a")
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        assert await shop.ledger.undecided() == []
        assert await later.ask(tool, "a") == {"n": 1}
        assert await shop.ask(tool, "b") == {"n": 1}
    assert shop.done == later.done


class Away(Memory):
    """A store that goes away."""

    away = False
    maybe = False

    def _check(self) -> None:
        if self.away:
            raise StoreError("gone", maybe_written=self.maybe)

    async def get(self, key: str, /) -> Entry | None:
        self._check()
        return await super().get(key)

    async def write(self, *changes: Change) -> int | None:
        if not self.maybe:
            self._check()
        version = await super().write(*changes)
        self._check()
        return version

    async def _scan(self, prefix: str) -> AsyncIterator[tuple[str, Entry]]:
        async for each in Memory.scan(self, prefix):
            yield each


@pytest.mark.parametrize("maybe", [False, True])
async def test_without_the_store_nothing_begins(*, maybe: bool) -> None:
    """The store is away: what changes something is unavailable, reads go on; once it is back all runs again."""
    store = Away()
    shop = Shop(store)
    async with shop.pipeline:
        store.away, store.maybe = True, maybe
        assert [await shop.ask(each, "a") for each in ("charge", "pay", "put", "look")] == [
            *["unavailable"] * 3,
            "seen",
        ]
        assert shop.done == ["look"]
        store.away = False
        assert await shop.ask("charge", "a") == {"n": 2}
        assert await shop.ledger.undecided() == []


class Far:
    """A store elsewhere, that can be away."""

    def __init__(self) -> None:
        self.held = Away()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.held, name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


async def test_a_store_that_is_away_at_the_start() -> None:
    """The pipeline opens and reads run; what changes something is unavailable until the store is there."""
    far: Any = Far()
    shop = Shop(far, lease=0.4)
    far.held.away = True
    async with shop.pipeline:
        assert [await shop.ask(each, "a") for each in ("charge", "look")] == ["unavailable", "seen"]
        far.held.away = False
        with anyio.fail_after(PATIENT):
            while await shop.ask("charge", "a") == "unavailable":  # noqa: ASYNC110  # a thread takes the lease
                await anyio.sleep(0.01)
    assert len(shop.done) == 2  # the charge ran once


async def test_an_end_that_cannot_be_written_is_written_later() -> None:
    """A store that goes away while a body runs learns of the end when it is back; until then the delivery runs."""
    store = Away()
    shop = Shop(store, max_wait=0)

    @shop.tools.tool
    async def act() -> str:
        store.away = True
        return "done"

    call = Call("act", {}, "a", conversation="c")
    async with shop.pipeline:
        assert await shop.pipeline(call) == Success("done")
        assert type((await shop.pipeline(call)).failure()) is Unavailable
        store.away = False
        assert await shop.pipeline(call) == Success("done")


@pytest.mark.parametrize("back", [False, True])
async def test_a_pipeline_closes_without_the_store(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, back: bool
) -> None:
    """Ends are written at the close once the store is back; else they count as lost, and nothing is raised."""
    store = Away()
    shop = Shop(store)

    @shop.tools.tool
    async def act() -> str:
        store.away = True
        return "done"

    async def sleep(_: float) -> None:
        store.away = not back
        await anyio.lowlevel.checkpoint()

    monkeypatch.setattr("toolcall_pipeline.middlewares.ledger._CLOSING", 5.0 if back else 0.05)
    monkeypatch.setattr("anyio.sleep", sleep)
    async with shop.pipeline:
        assert await shop.pipeline(Call("act", {}, "a", conversation="c")) == Success("done")
    assert ("not in the ledger, and count as lost: 1" in caplog.text) is not back
    store.away = False
    assert len(await shop.ledger.undecided()) == (0 if back else 1)


async def test_an_owner_that_died_is_seen_at_once() -> None:
    """A process of this host is known by its id and its start; a dead one is not taken for alive."""
    store = Memory()
    owner = Owner(store, 15.0, anyio.lowlevel.checkpoint)
    owner.running.add("d")
    assert await lives(store, owner.name, "d")
    assert not await lives(store, owner.name, "other")
    uuid, _, _, host = owner.name.split("|")
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)  # noqa: ASYNC220
    start = Path(f"/proc/{child.pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()  # noqa: ASYNC240
    name = f"{uuid}|{child.pid}|{start}|{host}"
    assert await lives(store, name, "d")
    child.kill()
    child.communicate()
    assert not await lives(store, name, "d")
    assert not await lives(store, f"{uuid}|{os.getpid()}|1|{host}", "d")
    elsewhere = f"{uuid}|1|1|another host"
    assert not await lives(store, elsewhere, "d")
    await store.write(Change(f"o/{elsewhere}", b""))
    assert await lives(store, elsewhere, "d")


async def test_a_keyed_call_whose_owner_died_lends_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """An equal call runs with the key of the one that died, and its success decides both."""
    store = Memory()
    first, later = Shop(store), Shop(store)

    class Hangs:
        placement = Placement(runs_body=False)

        async def __call__(self, call: ValidCall, call_next: Any) -> Any:
            await anyio.sleep_forever()

    first.pipeline = first.pipeline.after("ledger", Hangs())
    async with first.pipeline, later.pipeline, anyio.create_task_group() as tasks:
        tasks.start_soon(first.ask, "pay", "a")
        await anyio.wait_all_tasks_blocked()
        for asks in _ASK:
            monkeypatch.setattr(f"toolcall_pipeline.{asks}.lives", _is_dead)
        (died,) = await later.ledger.undecided()
        assert await later.ask("pay", "b") == {"n": 1}
        assert later.keys == [died.key]
        assert await later.ledger.undecided() == []
        tasks.cancel_scope.cancel()


_ASK = ("middlewares.ledger", "once.dead_owners", "once.ledger_records")  # modules that ask whether an owner lives


async def _is_dead(*_: object) -> bool:
    return False


async def test_one_id_in_one_reply() -> None:
    """A reply that holds one id twice runs it once."""
    shop = Shop()
    async with shop.pipeline:
        outcomes = await gather(shop.pipeline, [Call("charge", {"amount": 7}, "a")] * 2, conversation="c")
    assert outcomes == [Success({"n": 1})] * 2
    assert len(shop.done) == 1


@pytest.mark.parametrize(
    "stage", [LoopGuard(), Cache(ttl=1), Concurrency(2), RateLimit(2)], ids=lambda each: type(each).__name__
)
def test_its_place(stage: Any) -> None:
    """What may hold a call back stands outside of the ledger, and Retry inside."""
    shop = Shop()
    with pytest.raises(SetupError, match=r'\.before\("ledger"'):
        shop.pipeline.after("ledger", stage)
    shop.pipeline.before("ledger", stage)
    with pytest.raises(SetupError, match="ledger"):
        standard(shop.tools).after("retry", Ledger(shop.store))


WRONG: list[Callable[[], object]] = [
    lambda: Ledger(cast_any("calls.db")),
    lambda: Ledger(Memory(), secret=cast_any("text")),
    lambda: Ledger(Memory(), secret=b"x" * 65),
    lambda: Ledger(Memory(), keep=0),
    lambda: Ledger(Memory(), max_wait=-1),
    lambda: Ledger(Memory(), lease=0),
]


def cast_any(value: object) -> Any:
    """For a type checker."""
    return value


@pytest.mark.parametrize("make", WRONG, ids=range(len(WRONG)))
def test_wrong_options(make: Callable[[], object]) -> None:
    """A wrong option is refused at once."""
    with pytest.raises(SetupError, match="Ledger"):
        make()


async def test_a_secret_keys_the_digests() -> None:
    """With another secret the same call has other keys, and no argument stands in the store."""
    kept: list[set[str]] = []
    for secret in (b"one", b"two"):
        shop = Shop(secret=secret)
        shop.answer = ConnectionError()
        async with shop.pipeline:
            await shop.ask("charge", "a", amount=7, to="Secret Name")
        rows = [(key, entry.value) async for key, entry in shop.store.scan()]
        kept.append({key for key, _ in rows})
        assert not any(b"Secret Name" in value for _, value in rows)
    assert kept[0].isdisjoint(kept[1])


@pytest.mark.parametrize("name", ["principal", "conversation"])
async def test_who_asks_must_be_a_text(name: str) -> None:
    """A caller that is no text cannot be kept: the program has a mistake, and no body runs."""
    shop = Shop()
    caller: Any = {name: None}
    outcome = await shop.pipeline(Call("charge", {"amount": 7}, "a", **caller))
    error = outcome.failure()
    assert isinstance(error, Crashed)
    assert isinstance(error.cause, SetupError)
    assert f"`{name}` must be a text, not None" in str(error.cause)
    assert shop.done == []


def test_retry_is_inside() -> None:
    """The reason stands in the description."""
    assert "delivery" in Shop().pipeline.describe()
    assert Retry.placement.inside_of["ledger"]


async def test_successes_that_are_replayed() -> None:
    """With ``repeats="replay"`` an equal call of a later reply gets the success; one of the same reply is honest."""
    shop = Shop(repeats="replay")

    async def ask(reply: str, conversation: str = "c", amount: object = 7) -> Any:
        call = Call("charge", {"amount": amount}, "", conversation=conversation, reply=reply)
        return (await shop.pipeline(call)).unwrap()

    async with shop.pipeline:
        asked = [await ask("1"), await ask("1"), await ask("2"), await ask(""), await ask("2", "other")]
        shop.answer = ToolFailed("no")
        assert type(await shop.pipeline(Call("charge", {"amount": 8}, conversation="c"))) is Failure
        shop.answer = None
        assert await ask("3", amount=8) == {"n": 5}
    assert asked == [{"n": 1}, {"n": 2}, {"n": 2}, {"n": 2}, {"n": 3}]


@pytest.mark.parametrize("answer", [None, ToolFailed("no"), ConnectionError(), FileNotFoundError()], ids=repr)
@pytest.mark.parametrize("repeats", ["run", "replay"])
@pytest.mark.parametrize("is_memory", [True, False])
async def test_each_row_of_a_call_stays_for_as_long_as_answers_are_kept(
    answer: Any, repeats: Any, monkeypatch: pytest.MonkeyPatch, *, is_memory: bool
) -> None:
    """Once a call ended, each of its rows has the time `keep`: none goes sooner, and none stays for ever."""
    rows, kinds, put = dict[str, float | None](), set[str](), Memory.put

    def note(self: Memory, *changes: Any) -> int | None:
        kinds.update(key[0] for key, *_ in changes)
        rows.update((key, ttl) for key, _, _, ttl in changes)
        for key, value, *_ in changes:
            if value is None:
                del rows[key]
        return put(self, *changes)

    class Another(Memory):
        """A store that gets its rows as JSON."""

    monkeypatch.setattr(Memory, "put", note)
    with FakeClock() as clock:
        shop = Shop(Memory() if is_memory else Another(), keep=100.0, repeats=repeats)
        shop.answer = answer
        for tool in ("charge", "wire", "pay", "put"):
            await shop.ask(tool, tool)
        assert kinds >= {"d", "i"}
        assert set(rows.values()) == {100.0}
        for number, each in enumerate(await shop.ledger.undecided()):
            assert await shop.ledger.resolve(each.id, landed=bool(number % 2))
        assert set(rows.values()) == {100.0}
        done = len(shop.done)
        clock.advance(99.0)
        await shop.ask("put", "put")
        assert len(shop.done) == done + isinstance(answer, ConnectionError | FileNotFoundError)
        clock.advance(101.0)
        assert [key async for key, _ in shop.store.scan()] == []


LATER = {"a success": (None, {"n": 1}, {"n": 2}), "a lost connection": (ConnectionError(), *["outcome_unknown"] * 2)}


@pytest.mark.parametrize(("answer", "again", "equal"), LATER.values(), ids=LATER)
@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize("taken_for_dead", [False, True])
async def test_a_body_may_run_for_longer_than_answers_are_kept(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: Any,
    again: Any,
    equal: Any,
    *,
    in_file: bool,
    taken_for_dead: bool,
) -> None:
    """What runs does not expire: its delivery waits for it meanwhile, in other processes too, and then has its end.

    So has one whose owner was taken for dead, as long as what it left open is kept.
    """
    store = SQLite(tmp_path / "calls.db") if in_file else Memory()
    with FakeClock() as clock:
        shop, other = (Shop(store, keep=100.0, lease=10_000.0, max_wait=0) for _ in range(2))
        begins, ends = anyio.Event(), anyio.Event()
        asked: list[Any] = []

        class Long:
            """A tool's work that takes its time."""

            placement = Placement(runs_body=False)

            async def __call__(self, call: ValidCall, call_next: Any) -> Any:
                outcome = await call_next(call)
                begins.set()
                await ends.wait()
                return outcome

        async def ask_slowly() -> None:
            asked.append(await shop.ask("charge", "a"))

        shop.answer = answer
        shop.pipeline = shop.pipeline.after("ledger", Long())
        async with shop.pipeline, other.pipeline:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask_slowly)
                await begins.wait()
                shop.answer = None
                clock.advance(1000.0)
                assert await other.ask("charge", "a") == "unavailable"
                if taken_for_dead:
                    with monkeypatch.context() as patch:
                        patch.setattr("toolcall_pipeline.once.dead_owners.lives", _is_dead)
                        await bury_claims(Records(store, 100.0))
                    clock.advance(99.0)
                ends.set()
            assert [await other.ask("charge", "a"), await shop.ask("charge", "a")] == [again] * 2
            assert asked == [again]
            assert await shop.ask("charge", "b") == equal
            clock.advance(99.0)
            assert await other.ask("charge", "a") == again
    assert other.done == []


async def test_a_claim_of_a_dead_owner_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a dead process left open counts as undecided for the time `keep` from when another one sees that."""
    store = SQLite(tmp_path / "calls.db")
    with FakeClock() as clock:
        first, later = Shop(store, keep=100.0), Shop(store, keep=100.0, lease=0.04)

        class Hangs:
            placement = Placement(runs_body=False)

            async def __call__(self, call: ValidCall, call_next: Any) -> Any:
                await anyio.sleep_forever()

        async def ask_in_vain() -> None:
            await first.ask("charge", "a")

        first.pipeline = first.pipeline.after("ledger", Hangs())
        async with first.pipeline, anyio.create_task_group() as tasks:
            tasks.start_soon(ask_in_vain)
            with anyio.fail_after(PATIENT):
                while not [key async for key, _ in store.scan("i/")]:  # noqa: ASYNC110  # of a thread's store
                    await anyio.sleep(0.01)
            clock.advance(1000.0)
            monkeypatch.setattr(Owner, "may_begin", True)  # its lease goes by the machine's time
            for asks in _ASK:
                monkeypatch.setattr(f"toolcall_pipeline.{asks}.lives", _is_dead)
            async with later.pipeline:
                assert [await later.ask("charge", each) for each in "ab"] == ["outcome_unknown"] * 2
                with anyio.fail_after(PATIENT):
                    while [each async for _, each in store.scan("i/") if b'"open":{}' not in each.value]:  # noqa: ASYNC110
                        await anyio.sleep(0.01)
                clock.advance(99.0)
                assert [await later.ask("charge", each) for each in "ab"] == ["outcome_unknown"] * 2
                clock.advance(1.5)
                assert [key async for key, _ in store.scan("d/")] == []
                assert [await later.ask("charge", each) for each in "ab"] == [{"n": 1}, {"n": 2}]
            tasks.cancel_scope.cancel()
