"""Approvals: a person decides on a call, and what was approved runs once, whoever brings it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, cast

import anyio
import pytest
from pydantic import AfterValidator

from toolcall_pipeline import (
    Approvals,
    Call,
    Pipeline,
    Secret,
    SetupError,
    Success,
    ToolRegistry,
    ValidCall,
    gather,
    render,
)
from toolcall_pipeline.approvals.approval_requests import read_approval
from toolcall_pipeline.base import timing
from toolcall_pipeline.middlewares import Approve, Ledger, standard
from toolcall_pipeline.policies import PolicyRule, RuleSet
from toolcall_pipeline.stores import Memory, SQLite
from toolcall_pipeline.testing import FakeClock


def _check_known(name: str) -> str:
    if name == "Eve":
        raise ValueError("Eve has no account")
    return name


class Bank:
    """A bank whose store outlives its pipelines."""

    def __init__(self, path: Path) -> None:
        self.path = str(path / "approvals.db")
        self.paid: list[tuple[str, int]] = []
        self.version = "1"
        self.options: dict[str, Any] = {}
        self.started = anyio.Event()
        self.go_on: anyio.Event | None = None

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[tuple[Pipeline, Any]]:  # with `Approvals`, whose answers may be None
        tools, store = ToolRegistry(), SQLite(self.path)

        @tools.tool
        async def pay(to: str, cents: int = 500) -> str:
            self.paid.append((to, cents))
            self.started.set()
            if self.go_on is not None:
                await self.go_on.wait()
            return f"paid {to} {cents} #{len(self.paid)}"

        @tools.tool
        async def burn(to: str, cents: int = 500) -> str:
            self.paid.append((f"burnt {to}", cents))
            return "burnt"

        @tools.tool(effect="read")
        async def look(at: str) -> str:
            return at

        @tools.tool
        async def enter(code: Annotated[str, Secret]) -> str:
            self.paid.append((code, 0))
            return "entered"

        @tools.tool
        async def wire(to: Annotated[str, AfterValidator(_check_known)]) -> str:
            self.paid.append((to, 0))
            return "wired"

        approve = Approve(
            store, lambda call: call.params.get("cents", 500) >= 100, version=self.version, expires=60, **self.options
        )
        pipeline = standard(tools, store=store).before("ledger", approve)
        async with pipeline:
            yield pipeline, Approvals(store)


@pytest.fixture
def fake_clock() -> Iterator[FakeClock]:
    with FakeClock() as clock:
        yield clock


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path)


def pay(id_: str = "1", *, name: str = "pay", principal: str = "ann", conversation: str = "c", **args: Any) -> Call:
    return Call(name, {"to": "Bob", **args}, id_, principal, conversation=conversation)


def kind_of(outcome: Any) -> str | None:
    return None if isinstance(outcome, Success) else outcome.failure().kind


def _not_none(outcome: Any) -> Any:
    assert outcome is not None
    return outcome


async def ask(pipeline: Pipeline, call: Call | None = None) -> str:
    """Send a call that waits; returns the id of its approval."""
    error: Any = (await pipeline(call or pay())).failure()
    assert error.kind == "awaiting_approval"
    return str(error.id)


async def test_an_approved_call_runs_once_across_restarts(bank: Bank) -> None:
    """It waits, is decided in another process, runs at resume, and its answer is that of the model's repetition."""
    async with bank.open() as (pipeline, approvals):
        assert await pipeline(pay(cents=5)) == Success("paid Bob 5 #1")
        id_ = await ask(pipeline)
        text = "Do not send it again; go on with other work, or tell the user."
        assert render(await pipeline(pay("2"))) == f"This call waits for a person's decision ({id_}). {text}"
        (waiting,) = await approvals.pending()
        assert (waiting.id, waiting.tool, waiting.arguments) == (id_, "pay", {"to": "Bob", "cents": 500})
    async with bank.open() as (_, approvals):
        assert (await approvals.approve(id_, by="boss")).state == "approved"
    async with bank.open() as (pipeline, _):
        first = await pipeline.resume(id_)
        assert first == Success("paid Bob 500 #2") == await pipeline(pay("3")) == await pipeline.resume(id_)
        assert kind_of(await pipeline(pay("4"))) == "awaiting_approval"  # another wish
    assert bank.paid == [("Bob", 5), ("Bob", 500)]


async def test_the_model_may_bring_it_again(bank: Bank) -> None:
    """Its repetition runs what was approved, also if it is written otherwise; the same id has the same answer."""
    async with bank.open() as (pipeline, approvals):
        await approvals.approve(await ask(pipeline), by="boss")
        outcome = await pipeline(pay("2", cents="500"))
        assert outcome == Success("paid Bob 500 #1") == await pipeline(pay("2", cents="500"))
        assert kind_of(await pipeline(pay("3"))) == "awaiting_approval"
    assert len(bank.paid) == 1


@pytest.mark.parametrize(
    "change",
    [{"cents": 501}, {"to": "Eve"}, {"principal": "eve"}, {"conversation": "d"}, {"name": "burn"}],
    ids=["argument", "other argument", "principal", "conversation", "tool"],
)
async def test_an_approval_is_for_one_call(bank: Bank, change: dict[str, Any]) -> None:
    """Other arguments, another caller, conversation or tool wait for a decision of their own."""
    async with bank.open() as (pipeline, approvals):
        await approvals.approve(await ask(pipeline), by="boss")
        assert kind_of(await pipeline(pay("1", **change))) == "awaiting_approval"
        assert bank.paid == []


async def test_another_version_of_the_policy_asks_anew(bank: Bank) -> None:
    """What was approved by another version is not run, by its id or by the model's repetition."""
    async with bank.open() as (pipeline, approvals):
        await approvals.approve(id_ := await ask(pipeline), by="boss")
    bank.version = "2"
    async with bank.open() as (pipeline, approvals):
        asked = (await pipeline.resume(id_)).failure()
        assert (await ask(pipeline, pay("2"))) == cast("Any", asked).id != id_
        assert _not_none(await approvals.get(id_)).state == "changed"
    assert bank.paid == []


async def test_a_bound_pipeline_resumes_its_own_calls_alone(bank: Bank) -> None:
    """The id of another principal, or of another conversation, is unknown to it."""
    async with bank.open() as (pipeline, approvals):
        await approvals.approve(id_ := await ask(pipeline), by="boss")
        assert kind_of(await pipeline.with_(principal="eve").resume(id_)) == "not_found"
        assert kind_of(await pipeline.with_(conversation="d").resume(id_)) == "not_found"
        assert bank.paid == []
        assert kind_of(await pipeline.with_(principal="ann", conversation="c").resume(id_)) is None


async def test_what_expired_is_not_run(bank: Bank, fake_clock: FakeClock) -> None:
    """Neither a call that nobody decided on, nor an approval that nobody used; a new call asks anew."""
    async with bank.open() as (pipeline, approvals):
        await approvals.approve(used := await ask(pipeline), by="boss")
        late = await ask(pipeline, pay(to="Al"))
        fake_clock.advance(61)
        assert kind_of(await pipeline.resume(used)) == "not_found"
        assert (await approvals.approve(late, by="boss")).state == "expired"
        assert (await ask(pipeline, pay("2"))) not in (used, late)
        assert bank.paid == []


@pytest.mark.parametrize(("left", "state"), [(1.0, "pending"), (0.0, "expired"), (-1.0, "expired")])
def test_a_request_expires_at_its_time(left: float, state: str, fake_clock: FakeClock) -> None:
    """The second that a request names is the first one at which it has expired."""
    del fake_clock
    now = timing.wall_time()
    texts: dict[str, Any] = dict.fromkeys(("id", "tool", "principal", "conversation", "reason", "policy"), "x")
    row: dict[str, Any] = {**texts, "state": "pending", "arguments": {}, "at": now, "expires_at": now + left}
    assert read_approval(row).state == state


@pytest.mark.parametrize("ahead", [8 * 86400.0, -8 * 86400.0])
async def test_the_time_of_an_approval_is_that_of_the_store(
    bank: Bank, ahead: float, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock on the wall that is days off lets nothing expire, to decide or to run, and keeps nothing for longer."""
    skew, real = 0.0, timing.wall_time
    monkeypatch.setattr(timing, "wall_time", lambda: real() + skew)
    async with bank.open() as (pipeline, approvals):
        id_ = await ask(pipeline)
        late = await ask(pipeline, pay("2", cents=600))
        fake_clock.advance(50)
        skew = ahead
        assert {each.id for each in await approvals.pending()} == {id_, late}
        assert (await approvals.approve(id_, by="Eve")).state == "approved"
        skew = -ahead
        assert (await approvals.get(id_)).state == "approved"
        fake_clock.advance(50)
    async with bank.open() as (pipeline, approvals):
        assert (await approvals.approve(late, by="Eve")).state == "expired"
        assert {each.id: each.state for each in await approvals.list()} == {id_: "approved", late: "expired"}
        assert (await pipeline.resume(id_)).unwrap() == "paid Bob 500 #1"
        other = await ask(pipeline, pay("3", cents=700))
        await approvals.approve(other, by="Eve")
        fake_clock.advance(61)
        skew = 0.0
        assert kind_of(await pipeline.resume(other)) == "not_found"


async def test_an_approval_never_gets_the_answer_of_one_that_is_forgotten(bank: Bank, fake_clock: FakeClock) -> None:
    """Its id is a new one, also where the ledger keeps answers for longer than the approvals are kept."""
    for number in (1, 2):
        async with bank.open() as (pipeline, approvals):
            keeping = Ledger(SQLite(bank.path), keep=90 * 86400)
            kept = pipeline.replace("ledger", keeping)
            async with kept:
                await approvals.approve(id_ := await ask(kept, pay(str(number))), by="boss")
                assert await kept.resume(id_) == Success(f"paid Bob 500 #{number}")
        fake_clock.advance(8 * 86400)


async def test_a_decision_is_made_once(bank: Bank) -> None:
    """A later one changes nothing, and says so; of two at once one counts."""
    async with bank.open() as (pipeline, approvals):
        id_ = await ask(pipeline)
        assert (await approvals.approve(id_, by="boss")).state == "approved"
        late = await approvals.reject(id_, by="chief")
        assert (late.state, late.by) == ("already decided", "boss")
        other, found = await ask(pipeline, pay(to="Al")), list[str]()

        async def decide(how: Any) -> None:
            found.append((await how(other, by="x")).state)

        async with anyio.create_task_group() as group:
            group.start_soon(decide, approvals.approve)
            group.start_soon(decide, approvals.reject)
        assert found.count("already decided") == 1


async def test_wait_ends_with_its_time(bank: Bank, fake_clock: FakeClock) -> None:
    """A call that nobody decides on still waits when the time of `wait` is up, and no later."""
    async with bank.open() as (pipeline, approvals):
        id_ = await ask(pipeline)
        for seconds, sleeps in ((0.03125, 1), (0.5, 5)):  # the first one has no rounding: nothing is left of it then
            began, already = fake_clock.now, len(fake_clock.slept)
            with anyio.fail_after(10):
                assert (await approvals.wait(id_, timeout=seconds)).state == "pending"
            assert fake_clock.now - began == pytest.approx(seconds)
            assert len(fake_clock.slept) - already == sleeps


async def test_a_decision_without_words_has_none(bank: Bank) -> None:
    """The message of a decision is empty unless its person wrote one."""
    async with bank.open() as (pipeline, approvals):
        decided = [
            await approvals.approve(await ask(pipeline), by="boss"),
            await approvals.reject(await ask(pipeline, pay(to="Al")), by="boss"),
        ]
        assert [(each.by, each.message) for each in decided] == [("boss", "")] * 2


async def test_a_request_is_found_by_its_call(bank: Bank) -> None:
    """Exactly the call that waits has the request; a call without an id has the one that waits for an equal call."""
    async with bank.open() as (pipeline, approvals):
        (stage,) = [each.obj for each in pipeline.entries if isinstance(each.obj, Approve)]

        async def find(call: Call) -> str | None:
            valid = pipeline.validate(call)
            assert isinstance(valid, ValidCall)
            found = await stage.find_request(valid)
            return None if found is None else found.id

        assert await find(pay()) is None
        id_ = await ask(pipeline)
        assert [await find(each) for each in (pay(), pay("2"), pay(""), pay(cents=501))] == [id_, None, id_, None]
        await approvals.approve(id_, by="boss")
        assert [await find(each) for each in (pay(), pay(""))] == [id_, None]


async def test_a_request_joins_what_is_approved(bank: Bank) -> None:
    """A call that asks for its request, and does not run, is from then on found by its own id."""
    async with bank.open() as (pipeline, approvals):
        (stage,) = [each.obj for each in pipeline.entries if isinstance(each.obj, Approve)]
        id_ = await ask(pipeline)
        await approvals.approve(id_, by="boss")
        again = pipeline.validate(pay("2"))
        assert isinstance(again, ValidCall)
        assert _not_none(await stage.request(again)).id == id_
        assert _not_none(await stage.find_request(again)).id == id_
        assert bank.paid == []


async def test_a_rejected_call_is_denied(bank: Bank) -> None:
    """With the person's message, however it comes again; nothing waits any more."""
    async with bank.open() as (pipeline, approvals):
        await approvals.deny(id_ := await ask(pipeline), by="boss", message="Not this month.")
        for outcome in (await pipeline(pay("2")), await pipeline.resume(id_), await pipeline(pay())):
            assert (kind_of(outcome), render(outcome)) == ("permission", "Error: Not this month.")
        assert (bank.paid, await approvals.pending()) == ([], [])
        await approvals.grant(tool="pay", by="boss")  # what is always allowed is refused by no earlier decision
        assert kind_of(await pipeline(pay("3"))) is None


async def test_a_rejection_holds_for_its_time(bank: Bank, fake_clock: FakeClock) -> None:
    """From the decision on, for `expires`: then an equal call is asked about anew. Its own call keeps its answer."""
    async with bank.open() as (pipeline, approvals):
        id_ = await ask(pipeline)
        fake_clock.advance(40)
        await approvals.reject(id_, by="boss")
        fake_clock.advance(59)
        assert kind_of(await pipeline(pay("2"))) == "permission"
        fake_clock.advance(2)
        assert kind_of(await pipeline(pay("3"))) == "awaiting_approval"
        assert kind_of(await pipeline(pay())) == "permission"
        assert [each.id == id_ for each in await approvals.pending()] == [False]
        assert bank.paid == []


async def test_a_person_may_edit_the_arguments(bank: Bank) -> None:
    """They run in place of those that were sent, if they fit the tool; the record and the model are told."""
    async with bank.open() as (pipeline, approvals):
        id_ = await ask(pipeline)
        wrongs: list[Any] = [{"to": 5}, {"cents": 5}, {"to": "Bob", "x": 1}, {"to": object()}, "Bob"]
        for wrong in wrongs:
            with pytest.raises(SetupError, match="`arguments` must"):
                await approvals.approve(id_, by="boss", arguments=wrong)
        done = await approvals.approve(id_, by="boss", arguments={"to": "Bob", "cents": 300})
        assert (done.edited, done.arguments) == (True, {"to": "Bob", "cents": 300})
        again = await approvals.approve(id_, by="boss", arguments={"to": "Bob", "cents": 999})
        assert (again.state, again.arguments["cents"]) == ("already decided", 300)
        report = await pipeline.report(pay("2"))
        assert bank.paid == [("Bob", 300)]
        assert render(_not_none(report.outcome)) == (
            'paid Bob 300 #1\n\n(A person changed the arguments of this call: {"to": "Bob", "cents": 300})'
        )
        assert await pipeline.resume(id_) == report.outcome
        assert len(bank.paid) == 1


async def test_an_edit_that_the_tool_refuses_is_an_outcome(bank: Bank) -> None:
    """What the schema cannot say is asked of the tool before it runs, and the model reads the refusal."""
    async with bank.open() as (pipeline, approvals):
        id_ = await ask(pipeline, pay(name="wire"))
        await approvals.approve(id_, by="boss", arguments={"to": "Eve"})
        for outcome in (await pipeline.resume(id_), await pipeline(pay("2", name="wire"))):
            assert kind_of(outcome) == "validation"
        assert bank.paid == []


async def test_two_equal_calls_of_one_reply_are_two(bank: Bank) -> None:
    """Each waits for a decision of its own, and a repetition joins those that wait."""
    async with bank.open() as (pipeline, approvals):
        for ids in (("1", "2"), ("3", "4")):
            outcomes: list[Any] = await gather(pipeline, [pay(id_) for id_ in ids])
            assert len({outcome.failure().id for outcome in outcomes}) == 2
        first, second = await approvals.pending()
        await approvals.approve(first.id, by="boss")
        outcomes = list(await gather(pipeline, [pay("5"), pay("6")]))
        assert sorted(map(str, map(kind_of, outcomes))) == ["None", "awaiting_approval"]
        await approvals.approve(second.id, by="boss")
        assert await pipeline.resume(second.id) == Success("paid Bob 500 #2")
    assert len(bank.paid) == 2


async def test_the_record_of_equal_calls_does_not_grow(bank: Bank) -> None:
    """Each approval costs what the first did; an older one is still listed, decided already, and has its outcome."""
    async with bank.open() as (pipeline, approvals):
        sizes: list[int] = []
        ids: list[str] = []
        for number in range(12):
            ids.append(await ask(pipeline, pay(f"a{number}")))
            await approvals.approve(ids[-1], by="boss")
            assert await pipeline(pay(f"b{number}")) == Success(f"paid Bob 500 #{number + 1}")
            sizes.append(sum([len(entry.value) async for _, entry in approvals.store.scan("ai/")]))
        assert max(sizes[5:]) < 1.1 * sizes[5]
        assert len({*ids}) == 12 == len(await approvals.list())
        assert {each.id for each in await approvals.list()} == {*ids}
        for number, id_ in enumerate(ids):
            assert _not_none(await approvals.get(id_)).ran
            assert (await approvals.reject(id_, by="late")).state == "already decided"
            assert await pipeline.resume(id_) == Success(f"paid Bob 500 #{number + 1}")
    assert len(bank.paid) == 12


async def test_a_call_that_is_repeated_again_and_again_waits_once(bank: Bank) -> None:
    """A model that does not stop fills no record."""
    async with bank.open() as (pipeline, approvals):
        id_ = await ask(pipeline, pay("first"))
        name = f"ap/{id_}"
        sizes: list[int] = []
        for number in range(250):
            assert await ask(pipeline, pay(f"a{number}")) == id_
            sizes.append(len(_not_none(await approvals.store.get(name)).value))
        assert sizes[-1] < sizes[110] * 1.1
        assert len(await approvals.pending()) == 1


async def test_resume_and_repetition_at_once_in_two_pipelines(bank: Bank) -> None:
    """One body runs, and all have its answer."""
    bank.go_on = anyio.Event()
    outcomes: list[Any] = []
    async with bank.open() as (pipeline, approvals), bank.open() as (other, _):
        await approvals.approve(id_ := await ask(pipeline), by="boss")

        async def run(how: Any, *args: Any) -> None:
            outcomes.append(await how(*args))

        async with anyio.create_task_group() as group:
            for how in (pipeline.resume, other.resume, pipeline.resume):
                group.start_soon(run, how, id_)
            group.start_soon(run, pipeline, pay("2"))
            group.start_soon(run, other, pay("2"))
            await bank.started.wait()
            bank.go_on.set()
    assert outcomes == [Success("paid Bob 500 #1")] * 5
    assert len(bank.paid) == 1


async def test_arguments_with_secrets_are_not_kept(bank: Bank) -> None:
    """The model has to send the call again once it is approved; the store and the list show no secret."""
    async with bank.open() as (pipeline, approvals):
        call = Call("enter", {"code": "sesame-4711"}, "1", "ann", conversation="c")
        id_ = await ask(pipeline, call)
        (waiting,) = await approvals.pending()
        assert "sesame" not in str(waiting.arguments)
        with pytest.raises(SetupError, match="hold secrets"):
            await approvals.approve(id_, by="boss", arguments={"code": "other"})
        await approvals.approve(id_, by="boss")
        assert kind_of(await pipeline.resume(id_)) == "not_executed"
        assert await pipeline(attrs_with_id(call, "2")) == Success("entered")
        assert await pipeline.resume(id_) != Success("entered")
    assert b"sesame" not in b"".join(file.read_bytes() for file in Path(bank.path).parent.glob("approvals.db*"))
    assert bank.paid == [("sesame-4711", 0)]


def attrs_with_id(call: Call, id_: str) -> Call:
    return Call(call.name, call.arguments, id_, call.principal, conversation=call.conversation)


@pytest.mark.parametrize("by_grant", [False, True])
async def test_hold_waits_for_the_decision(bank: Bank, fake_clock: FakeClock, *, by_grant: bool) -> None:
    """A decision or a grant within that time answers the call itself; `wait` returns when it is decided."""
    del fake_clock
    bank.options = {"hold": 30}
    outcomes: list[Any] = []
    async with bank.open() as (pipeline, approvals):

        async def send() -> None:
            outcomes.append(await pipeline(pay()))

        async with anyio.create_task_group() as group:
            group.start_soon(send)
            while not (waiting := await approvals.pending()):
                await anyio.lowlevel.checkpoint()
            await (approvals.grant(tool="pay", by="boss") if by_grant else approvals.approve(waiting[0].id, by="boss"))
            assert (await approvals.wait(waiting[0].id)).state == "approved"
    assert outcomes == [Success("paid Bob 500 #1")]


async def test_somebody_is_told(bank: Bank) -> None:
    """`notify` gets each new call once; an exception of it changes nothing."""
    told: list[str] = []

    async def notify(approval: Any) -> None:
        told.append(approval.id)
        raise RuntimeError

    bank.options = {"notify": notify}
    async with bank.open() as (pipeline, _):
        assert [await ask(pipeline), await ask(pipeline, pay("2"))] == told * 2


@pytest.mark.parametrize(
    "options",
    [
        {"needs": None},
        {"needs": 5},
        {"needs": bool, "expires": 0},
        {"needs": bool, "hold": -1},
        {"effects": ("write",)},
        {"tools": "pay"},
        {"needs": bool, "notify": 5},
        {"needs": bool, "version": 5},
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, Any]) -> None:
    """At set-up, with its name."""
    with pytest.raises(SetupError, match="Approve: `"):
        Approve(Memory(), **options)


def test_its_place_is_checked() -> None:
    """It stands inside of the policy and outside of the ledger, if there are any; a rule that asks needs a store."""
    tools = ToolRegistry()
    standard(tools).before("retry", Approve(Memory(), effects=["mutating"]))
    with pytest.raises(SetupError, match="ledger must stand inside of approve"):
        standard(tools, store=Memory()).before("retry", Approve(Memory(), effects=["mutating"]))
    rules = RuleSet((PolicyRule("deny", "x"),))
    with pytest.raises(SetupError, match="approve must stand inside of policy"):
        standard(tools, store=Memory(), policy=rules).before("policy", Approve(Memory(), effects=["mutating"]))
    with pytest.raises(SetupError, match="needs `store=`"):
        standard(tools, policy=RuleSet((PolicyRule("approve"),)))


async def test_what_does_not_exist(bank: Bank) -> None:
    """An unknown id is None or an outcome, a decision has its author, and without the stage nothing resumes."""
    async with bank.open() as (pipeline, approvals):
        assert kind_of(await pipeline.resume("none.1")) == "not_found"
        assert await approvals.get("none.1") is None
        assert await approvals.approve("none.1", by="boss") is None is await approvals.wait("none.1")
        with pytest.raises(SetupError, match="`by`"):
            await approvals.reject(await ask(pipeline), by="")
    with pytest.raises(SetupError, match="no stage of this pipeline asks for approval"):
        await standard(ToolRegistry()).resume("x")


async def test_rules_and_effects_say_what_needs_a_decision() -> None:
    """A rule with the action `approve`, an effect or a pattern of names; anything else runs at once."""
    tools, store = ToolRegistry(), Memory()

    @tools.tool
    async def pay(cents: int) -> str:
        return "paid"

    @tools.tool(effect="read")
    async def look() -> str:
        return "seen"

    rules = RuleSet(
        (PolicyRule("approve", arguments={"properties": {"cents": {"minimum": 9}}}, tool="pay"),), version="7"
    )
    by_rules = standard(tools, store=store, policy=rules)
    assert by_rules.stages[4:7] == ("validate", "policy", "approve")
    assert kind_of(await by_rules.call("pay", {"cents": 9}, id="1")) == "awaiting_approval"
    assert kind_of(await by_rules.call("pay", {"cents": 8}, id="2")) is None
    (waiting,) = await Approvals(store).pending()
    assert (waiting.policy, waiting.reason) == ("7", "approve by rule 1 of policy 7")
    for stage, reason in (
        (Approve(Memory(), effects=["mutating"]), "the effect of the tool is mutating"),
        (Approve(Memory(), tools=["p*"]), "the tool needs approval"),
    ):
        pipeline = standard(tools, store=stage.store).before("ledger", stage)
        assert kind_of(await pipeline.call("pay", {"cents": 1}, id="3")) == "awaiting_approval"
        assert [each.reason for each in await stage.approvals.pending()] == [reason]
        assert kind_of(await pipeline.call("look")) is None
