"""An approval is the authority of its own use: one run, of what was approved, whoever brings it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any

import pytest
from returns.result import Failure, Success

from support import Exported
from toolcall_pipeline import (
    Approvals,
    Call,
    Denied,
    Outcome,
    Pipeline,
    Secret,
    ToolContext,
    ToolFailed,
    ToolRegistry,
    builtin,
)
from toolcall_pipeline.approvals import Approval
from toolcall_pipeline.audit import AuditLog
from toolcall_pipeline.base import timing
from toolcall_pipeline.hosts.approving import Decision, HostApprovals
from toolcall_pipeline.hosts.signed_calls import Signer
from toolcall_pipeline.middlewares import Approve, Audit, Policy, Trace, standard
from toolcall_pipeline.policies import PolicyRule, RuleSet
from toolcall_pipeline.stores import Change, Memory, Store
from toolcall_pipeline.testing import FakeClock

DEAD = "6219e9e6-f1e4-4b3e-9f47-28242c65b292|13298|4397662|another host"
YEAR = 365 * 86400.0


class Office:
    """Tools of every effect, all of whose calls a person approves."""

    def __init__(self, store: Store | None = None, *, ledger: bool = True, first: Any = None, **options: Any) -> None:
        self.store: Store = Memory() if store is None else store
        self.tools, self.ran = ToolRegistry(), list[Any]()
        self.keys = list[str]()
        self.fails: Exception | None = None

        async def act(context: ToolContext, what: str) -> str:
            self.ran.append(what)
            self.keys.append(context.idempotency_key)
            if self.fails is not None:
                raise self.fails
            return f"done {what}"

        for effect in ("read", "idempotent", "keyed", "mutating"):
            make: Any = self.tools.tool
            make(name=f"act_{effect}", effect=effect, context=True)(act)
        chosen: dict[str, Any] = {"tools": ["*"], **options}
        pipeline = standard(self.tools, store=self.store if ledger else None, attempts=1)
        pipeline = pipeline.before("ledger" if ledger else "retry", Approve(self.store, **chosen))
        if first is not None:
            pipeline = pipeline.after("validate", first)
        self.run: Pipeline = pipeline
        builtin.install(self.tools, self.run)
        self.approvals: Any = Approvals(self.store)  # whose answers may be None

    async def send(self, id_: str = "1", *, tool: str = "act_mutating", principal: str = "ann", **more: Any) -> Any:
        arguments = more.pop("arguments", {"what": "x"})
        outcome = await self.run(Call(tool, arguments, id_, principal, conversation="c", **more))
        return outcome.unwrap() if isinstance(outcome, Success) else outcome.failure()

    async def ask(self, id_: str = "1", **more: Any) -> str:
        error = await self.send(id_, **more)
        assert error.kind == "awaiting_approval"
        return str(error.id)

    async def approve(self, id_: str = "1", *, edit: Any = None, by: str = "boss", **more: Any) -> str:
        made = await self.ask(id_, **more)
        assert (await self.approvals.approve(made, by=by, arguments=edit)).state == "approved"
        return made

    async def resume(self, id_: str) -> Any:
        return kind_of(await self.run.resume(id_))

    async def change(self, id_: str, **facts: Any) -> None:
        entry = await self.store.get(f"ap/{id_}")
        assert entry is not None
        await self.store.write(Change(f"ap/{id_}", json.dumps({**json.loads(entry.value), **facts}).encode()))

    async def purge(self) -> None:
        """Remove all that a ledger remembers."""
        for prefix in ("d/", "i/", "r/", "s/"):
            for key in [key async for key, _ in self.store.scan(prefix)]:
                await self.store.write(Change(key, None))


def kind_of(outcome: Outcome) -> Any:
    return outcome.unwrap() if isinstance(outcome, Success) else outcome.failure().kind


EFFECTS = pytest.mark.parametrize("effect", ["read", "idempotent", "keyed", "mutating"])
LEDGER = pytest.mark.parametrize("ledger", [True, False], ids=["ledger", "alone"])


@EFFECTS
@LEDGER
async def test_each_way_to_use_it_twice_is_one_run(effect: str, *, ledger: bool) -> None:
    """Resumed, repeated, after a purge of the ledger, by another process, after a year: one run, and its answer."""
    clock = FakeClock()
    with clock:
        await _use_often(clock, effect, ledger=ledger)


async def _use_often(clock: FakeClock, effect: str, *, ledger: bool) -> None:
    office = Office(ledger=ledger)
    tool = f"act_{effect}"
    id_ = await office.approve(tool=tool)
    first = await office.resume(id_)
    assert first == "done x" == await office.send("2", tool=tool) == await office.send("1", tool=tool)
    await office.purge()
    assert await office.resume(id_) == "done x" == await office.send("1", tool=tool)
    other = Office(office.store, ledger=ledger)
    assert await other.resume(id_) == "done x" == await other.send("2", tool=tool)
    batch = await office.approve("b", tool="batch", arguments={"calls": [{"tool": tool, "args": {"what": "x"}}]})
    assert "waits for a person" in str(await office.resume(batch))
    clock.advance(YEAR)
    assert await office.resume(id_) == "not_found"
    assert (await office.send("9", tool=tool)).kind == "awaiting_approval"
    assert office.ran == ["x"]
    assert other.ran == []


async def test_a_batch_is_approved_and_runs_once() -> None:
    """The ledger keeps no delivery of a composite tool, and needs none."""
    office = Office(tools=["batch"])
    entries = [{"tool": "act_mutating", "args": {"what": what}} for what in ("x", "y")]
    id_ = await office.approve(tool="batch", arguments={"calls": entries})
    for _ in range(2):
        assert (await office.resume(id_))["succeeded"] == 2
        assert (await office.send("2", tool="batch", arguments={"calls": entries}))["succeeded"] == 2
        await office.purge()
    assert office.ran == ["x", "y"]


async def test_a_batch_uses_what_was_approved() -> None:
    """An entry that is strictly equal to an approved call of the conversation is that call."""
    office = Office(tools=["act_*"])
    id_ = await office.approve()
    entries = [{"tool": "act_mutating", "args": {"what": what}} for what in ("x", "x ")]
    found = await office.send("b", tool="batch", arguments={"calls": entries})
    assert [each["success"] for each in found["results"]] == [True, False]
    assert await office.resume(id_) == "done x"
    assert office.ran == ["x"]


SPELLINGS: list[tuple[Any, Any]] = [
    ("/data", "/data "), ("abc", "abc\n"), ("caf\u00e9", "cafe\u0301"), ("x", "\u00a0x"), ("a", "A"), ("1", "1.0"),
    ("true", "True"), ("", " "), ("x\u200b", "x"), ("\uff11", "1"), ("a/b", "a//b"), ("x\r\n", "x\n"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SPELLINGS)
@pytest.mark.parametrize("edited", [False, True])
async def test_another_spelling_is_another_call(one: str, other: str, *, edited: bool) -> None:
    """What differs by a sign that nobody sees asks anew; what runs is what was approved, or what a person wrote."""
    for shown, sent in ((one, other), (other, one)):
        office = Office()
        await office.approve(arguments={"what": shown}, edit={"what": sent} if edited else None)
        assert (await office.send("1", arguments={"what": sent})).kind == "awaiting_approval"
        assert (await office.send("2", principal="bob", arguments={"what": shown})).kind == "awaiting_approval"
        assert office.ran == []
        assert str(await office.send("3", arguments={"what": shown})).startswith("done")
        assert office.ran == [sent if edited else shown]


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (1, "1"), (1, True), (1.0, "1.0"), ([1], [1.0]), (None, "None")])
async def test_another_type_is_another_call(one: Any, other: Any) -> None:
    """Where a tool takes both, a number, its text and a truth value are three things."""
    office = Office()

    @office.tools.tool
    async def keep(value: Any) -> str:
        office.ran.append(value)
        return "kept"

    await office.approve(tool="keep", arguments={"value": one})
    assert (await office.send("1", tool="keep", arguments={"value": other})).kind == "awaiting_approval"
    assert await office.send("2", tool="keep", arguments={"value": one}) == "kept"
    assert [(type(each), each) for each in office.ran] == [(type(one), one)]


async def test_another_default_asks_anew() -> None:
    """What the tool would get is not what the person saw: it is asked for with what it would be, and nothing runs."""
    store = Memory()
    ran = list[int]()

    def open_desk(default: int) -> Pipeline:
        tools = ToolRegistry()

        @tools.tool
        async def pay(to: str, cents: int = default) -> str:
            ran.append(cents)
            return "paid"

        return standard(tools, store=store).before("ledger", Approve(store, tools=["pay"]))

    before, after = open_desk(5), open_desk(500)
    asked: Any = (await before.call("pay", {"to": "Bob"}, id="1", conversation="c")).failure()
    approvals: Any = Approvals(store)
    await approvals.approve(asked.id, by="boss")
    anew: Any = (await after.resume(asked.id)).failure()
    assert anew.kind == "awaiting_approval"
    assert [(each.id, each.arguments["cents"]) for each in await approvals.pending()] == [(anew.id, 500)]
    assert (await approvals.get(asked.id)).state == "changed"
    await approvals.approve(anew.id, by="boss")
    assert [kind_of(await after.resume(id_)) for id_ in (anew.id, asked.id)] == ["paid", "not_found"]
    assert ran == [500]


async def test_a_description_that_changed_does_not() -> None:
    """The same params reach the tool."""
    office = Office()
    id_ = await office.approve()
    later = Office(office.store)
    later.tools.tools["act_mutating"].description = "Something else."
    assert await later.resume(id_) == "done x"


@EFFECTS
@LEDGER
async def test_where_nothing_landed_it_is_approved_again(effect: str, *, ledger: bool) -> None:
    """By either way, as often as needed, until it expires: a first try that did nothing makes it last no longer."""
    with FakeClock() as clock:
        office = Office(ledger=ledger, expires=100)
        office.fails = ToolFailed("Not now.", kind="unavailable", landed=False)
        id_ = await office.approve(tool=f"act_{effect}")
        for _ in range(2):
            await office.resume(id_)
            await office.send(f"again {_}", tool=f"act_{effect}")
        assert len(office.ran) == 4
        assert not (await office.approvals.get(id_)).ran
        clock.advance(101)
        assert await office.resume(id_) == "not_found"
        office.fails = None
        assert (await office.send("9", tool=f"act_{effect}")).kind == "awaiting_approval"
        assert len(office.ran) == 4


async def test_it_expires_from_its_decision_on() -> None:
    """The time to decide and the time to run it are counted each by itself."""
    with FakeClock() as clock:
        office = Office(expires=100)
        id_ = await office.ask()
        clock.advance(99)
        await office.approvals.approve(id_, by="boss")
        clock.advance(99)
        assert await office.resume(id_) == "done x"
        assert await office.resume(id_) == "done x"


@pytest.mark.parametrize(
    ("effect", "answer"),
    [("read", "done x"), ("idempotent", "done x"), ("keyed", "done x"), ("mutating", "outcome_unknown")],
)
@pytest.mark.parametrize("way", ["resume", "repeat"])
async def test_a_process_died_in_it(effect: str, answer: str, way: str) -> None:
    """A mutating call that began never begins again, though no ledger remembers it; a keyed one has the same key."""
    office = Office()
    tool = f"act_{effect}"
    id_ = await office.approve(tool=tool)
    await office.change(id_, state="begun", owner=DEAD, key="the key", runs=1)
    for _ in range(2):
        found = await (office.resume(id_) if way == "resume" else office.send("2", tool=tool))
        assert getattr(found, "kind", found) == answer
    assert office.ran == (["x"] if effect != "mutating" else [])
    assert effect != "keyed" or office.keys == ["the key"]


@LEDGER
async def test_a_keyed_call_has_its_key_before_it_begins(*, ledger: bool) -> None:
    """The row of an approved keyed call holds the key that its tool was given, so that a later process has the same."""
    office = Office(ledger=ledger)
    id_ = await office.approve(tool="act_keyed")
    office.fails = ConnectionResetError()
    await office.resume(id_)
    entry = await office.store.get(f"ap/{id_}")
    assert entry is not None
    assert office.keys == [json.loads(entry.value)["key"]] != [""]


@pytest.mark.parametrize(
    ("found", "answer", "runs"), [(True, None, 0), (False, "done", 1), (None, "outcome_unknown", 0)]
)
async def test_the_tool_says_what_became_of_it(found: bool | None, answer: Any, runs: int) -> None:
    """``verify=`` is asked for a call whose process died."""
    office = Office()

    @office.tools.tool(verify=lambda call, key: found)
    async def wire(what: str) -> str:
        office.ran.append(what)
        return "done"

    id_ = await office.approve(tool="wire")
    await office.change(id_, state="begun", owner=DEAD, key="", runs=1)
    assert [await office.resume(id_) for _ in range(2)] == [answer] * 2
    assert len(office.ran) == runs


@pytest.mark.parametrize("way", ["resume", "repeat"])
async def test_the_tool_is_asked_what_became_of_the_edit(way: str) -> None:
    """What ran is what a person made of the call: ``verify=`` is asked for that, whoever brings the call again."""
    office = Office()

    @office.tools.tool(verify=lambda call, key: call.params["what"] == "new")
    async def wire(what: str) -> str:
        office.ran.append(what)
        return "done"

    id_ = await office.approve(tool="wire", edit={"what": "new"})
    await office.change(id_, state="begun", owner=DEAD, key="", runs=1)
    for _ in range(2):
        assert await (office.resume(id_) if way == "resume" else office.send("2", tool="wire")) is None
    assert office.ran == []


@LEDGER
async def test_a_lost_answer_is_the_answer(*, ledger: bool) -> None:
    """A mutating call that was lost is told as unknown to all who bring it; a keyed one is tried again with its key."""
    office = Office(ledger=ledger)
    office.fails = ConnectionResetError()
    lost = await office.approve()
    assert await office.resume(lost) == "outcome_unknown"
    keyed = await office.approve("k", tool="act_keyed", arguments={"what": "k"})
    await office.resume(keyed)
    office.fails = None
    await office.purge()
    assert await office.resume(lost) == "outcome_unknown"
    assert await office.resume(keyed) == "done k"
    assert office.ran == ["x", "k", "k"]
    assert office.keys[1] == office.keys[2] != ""


def deny_large(call: Any) -> Any:
    """A check of one's own."""
    return Failure(Denied("mine")) if len(call.params.get("what", "")) > 3 else call


TOLD = 'done new\n\n(A person changed the arguments of this call: {"what": "new"})'
LONG = RuleSet((PolicyRule("deny", arguments={"properties": {"what": {"minLength": 4}}}),))


@pytest.mark.parametrize("first", [Policy(LONG), deny_large], ids=["policy", "own check"])
@pytest.mark.parametrize("way", ["resume", "repeat", "repeat with its id"])
@pytest.mark.parametrize("watched", [False, True])
async def test_an_edit_passes_all_stages(first: Any, way: str, *, watched: bool) -> None:
    """Whatever the reason to ask was, and whoever brings the call: what a rule denies runs for no approval."""
    office = Office(first=first)
    if watched:
        office.run = office.run.before("policy" if isinstance(first, Policy) else "deny_large", Audit(office.store))

    async def use(id_: str, number: int) -> Any:
        if way == "resume":
            return await office.resume(id_)
        found = await office.send(f"r{number}" if way == "repeat" else f"{number}")
        return getattr(found, "kind", found)

    denied = await office.approve("1", edit={"what": "long"})
    assert await use(denied, 1) == "permission"
    assert office.ran == []
    allowed = await office.approve("2", arguments={"what": "y"}, edit={"what": "new"})
    assert await office.resume(allowed) == TOLD
    assert office.ran == ["new"]


async def test_an_edit_that_the_call_comes_again_for_runs_once() -> None:
    """The edit, with the deps of the caller, and one answer for both ways."""
    office = Office(first=deny_large)
    id_ = await office.approve(edit={"what": "new"})
    told = await office.send("2")
    assert told == TOLD
    assert await office.resume(id_) == told == await office.send("2")
    assert (await office.send("3")).kind == "awaiting_approval"
    assert office.ran == ["new"]


async def test_a_resumed_call_that_needs_no_approval_any_more_runs_once() -> None:
    """What asked before may not ask now: it is an approval all the same."""
    office = Office()
    id_ = await office.approve()
    free = Office(office.store, tools=["batch"])
    assert [await free.resume(id_) for _ in range(3)] == ["done x"] * 3
    assert free.ran == ["x"]


async def test_resume_says_what_is_known() -> None:
    """Of an id that waits, was refused, expired or is of nobody."""
    with FakeClock() as clock:
        office = Office(expires=10)
        pending = await office.ask("1")
        assert await office.resume(pending) == "awaiting_approval"
        await office.approvals.reject(pending, by="boss", message="Not this month.")
        refused: Any = (await office.run.resume(pending)).failure()
        assert (refused.kind, refused.message) == ("permission", "Not this month.")
        pending = await office.ask("2", arguments={"what": "y"})
        clock.advance(11)
        assert await office.resume(pending) == await office.resume("nonsense") == "not_found"


# Four eyes


@pytest.mark.parametrize("by", ["ann", "Ann", " ann", "ann\n", "\uff41nn"])
async def test_who_asks_does_not_decide(by: str) -> None:
    """However the name is written, by a decision or by a grant; another person does."""
    office = Office(four_eyes=True)
    id_ = await office.ask()
    await office.approvals.grant(tool="*", by=by)
    for decide in (office.approvals.approve, office.approvals.reject):
        assert (await decide(id_, by=by)).state == "pending"
    assert (await office.send("2")).kind == "awaiting_approval"
    await office.approvals.approve(id_, by="boss")
    assert await office.resume(id_) == "done x"
    nobody = await office.send("3", principal="")
    assert nobody.kind == "permission"
    assert office.ran == ["x"]


async def test_without_four_eyes_people_approve_their_own_calls() -> None:
    """As in a command-line agent."""
    office = Office()
    assert await office.resume(await office.approve(by="ann")) == "done x"


# Standing grants

COVERS: list[tuple[dict[str, Any], bool]] = [
    ({"tool": "act_mutating"}, True),
    ({"tool": "act_*"}, True),
    ({"tool": "*", "principal": "ann", "conversation": "c"}, True),
    ({"tool": "act_read"}, False),
    ({"tool": "act"}, False),
    ({"tool": "*", "principal": "bob"}, False),
    ({"tool": "*", "principal": ""}, False),
    ({"tool": "*", "principal": "Ann"}, False),
    ({"tool": "*", "conversation": "d"}, False),
    ({"tool": "*", "conversation": ""}, False),
]


@pytest.mark.parametrize(("grant", "covered"), COVERS)
async def test_a_grant_covers_what_it_names(grant: dict[str, Any], *, covered: bool) -> None:
    """Calls that it covers run without a record, and others wait; revoked, nothing is covered."""
    office = Office()
    given = await office.approvals.grant(by="boss", **grant)
    assert await office.approvals.grants() == [given]
    found = await office.send()
    assert (found == "done x") is covered
    assert len(await office.approvals.list()) == (not covered)
    assert await office.approvals.revoke(given.id) == given
    assert await office.approvals.revoke(given.id) is None is await office.approvals.revoke("nonsense")
    assert await office.approvals.grants() == []
    assert (await office.send("2")).kind == "awaiting_approval"


async def test_a_grant_ends() -> None:
    """At its time, and not before."""
    with FakeClock() as clock:
        office = Office()
        await office.approvals.grant(tool="*", by="boss", until=clock.wall_time() + 10)
        clock.advance(9)
        assert await office.send("1") == "done x"
        clock.advance(1)
        assert (await office.send("2")).kind == "awaiting_approval"
        assert await office.approvals.grants() == []


async def test_a_report_a_span_and_an_audit_name_the_grant() -> None:
    """And who gave it; its own rows say when it began and ended."""
    office, exported = Office(first=None), Exported()
    office.run = office.run.before("approve", Audit(office.store))
    office.run = office.run.replace("trace", Trace(tracer_provider=exported.provider))
    async with office.run:
        given = await office.approvals.grant(tool="act_*", by="boss", principal="ann")
        report = await office.run.report(Call("act_mutating", {"what": "x"}, "1", "ann"))
        told = f"granted by boss: {given.id}"
        assert [each.note for each in report.stages if each.name == "approve"] == [told]
        assert told in "".join(each.to_json() for each in exported.spans)
        await office.approvals.revoke(given.id)
        rows = [row async for row in AuditLog(office.store).read()]
    assert [row["event"] for row in rows] == ["granted", "asked", "ended", "revoked"]
    decided = rows[2]["decisions"][0]
    assert (decided["action"], decided["name"], decided["grant"]) == ("granted", "boss", given.id)


async def test_a_grant_decides_on_what_waits() -> None:
    """The call that waits is the one that the model repeats, so both are one run."""
    office = Office()
    id_ = await office.ask()
    given = await office.approvals.grant(tool="*", by="boss")
    assert await office.send("2") == "done x" == await office.resume(id_)
    found = await office.approvals.get(id_)
    assert (found.state, found.by, found.grant, found.ran) == ("approved", "boss", given.id, True)
    assert office.ran == ["x"]
    assert await office.send("3") == "done x"
    assert office.ran == ["x", "x"]  # another wish, which the grant covers


async def test_a_grant_holds_for_a_rule_that_asks() -> None:
    """As for any other reason to ask; what a rule denies runs for no grant."""
    rules = RuleSet((PolicyRule("deny", "act_read"), PolicyRule("approve")))
    office = Office(needs=rules, tools=(), first=Policy(rules))
    await office.approvals.grant(tool="*", by="boss")
    assert await office.send() == "done x"
    assert (await office.send("2", tool="act_read")).kind == "permission"
    assert office.ran == ["x"]


# At a framework


async def test_a_grant_is_not_asked_about_at_a_framework() -> None:
    """Its page is shown for what nobody has allowed; with ``always`` it gives a grant for that caller and place."""
    office = Office()
    host = HostApprovals(office.run, Signer("test"))
    call = Call("act_mutating", {"what": "x"}, "1", "ann", conversation="c")
    assert await host.must_ask(call, None)
    assert await host.run(call, None, lambda _: Decision(approved=True, by="ann", always=True)) == Success("done x")
    (grant,) = await office.approvals.grants()
    assert (grant.tool, grant.by, grant.principal, grant.conversation) == ("act_mutating", "ann", "ann", "c")
    later = Call("act_mutating", {"what": "y"}, "2", "ann", conversation="c")
    assert not await host.must_ask(later, None)
    assert await host.run(later, None, lambda _: None) == Success("done y")
    assert await host.must_ask(Call("act_mutating", {"what": "y"}, "3", "bob", conversation="c"), None)


def _answer(decision: Decision, _approval: Approval) -> Decision:
    return decision


async def test_four_eyes_at_a_framework() -> None:
    """Its page is shown to who asks; only another person whom it names decides."""
    office = Office(four_eyes=True)
    host = HostApprovals(office.run, Signer("test"))
    call = Call("act_mutating", {"what": "x"}, "1", "ann", conversation="c")
    assert await host.must_ask(call, None)
    for by in ("the user of the framework", "the user of LangGraph", "ann"):
        decision = Decision(approved=True, by=by, always=True)
        refused = await host.run(call, None, partial(_answer, decision))
        assert kind_of(refused) == "awaiting_approval"
    assert await host.run(call, None, lambda _: Decision(approved=True, by="boss")) == Success("done x")
    assert await office.approvals.grants() == []


# What is kept


async def test_nothing_is_found_from_an_id() -> None:
    """Ids are random, names of indexes are keyed by the store's own secret, and a declared secret is in no row."""
    ids, names = set[str](), set[str]()
    for _ in range(2):
        office = Office()

        @office.tools.tool
        async def enter(pin: Annotated[str, Secret]) -> str:
            return "entered"

        ids.add(await office.ask(tool="enter", arguments={"pin": "4711"}))
        rows = {key: entry.value async for key, entry in office.store.scan("")}
        names |= {key for key in rows if key.startswith("ai/")}
        assert not any(b"4711" in value for key, value in rows.items() if key != "ak")
        assert len(rows["ak"]) == 32
    assert len(ids) == len(names) == 2


async def test_an_answer_that_cannot_be_kept() -> None:
    """The call has run, and who brings it again is told that its outcome is not known."""
    office = Office()

    @office.tools.tool
    async def count() -> int:
        office.ran.append(1)
        return int("9" * 4000) ** 2

    id_ = await office.approve(tool="count", arguments={})
    await office.resume(id_)
    await office.resume(id_)
    assert office.ran == [1]
    assert (await office.approvals.get(id_)).ended


OLD = "41aa11aa89145c6e89f8f60c"


def old_row(number: int, **more: Any) -> dict[str, Any]:
    """A row of an approval as the release 9ad0777 wrote it."""
    schema = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
    now = timing.wall_time()
    row = {
        "id": f"{OLD}.{number}", "name": OLD, "state": "pending", "tool": "act", "arguments": {"what": "x"},
        "sent": {"what": "x"}, "schema": schema, "principal": "ann", "conversation": "c", "reason": "", "policy": "",
        "at": now, "expires_at": now + YEAR, "calls": [["", str(number)]],
    }  # fmt: skip
    return {**row, **more}


async def open_old(*rows: dict[str, Any]) -> tuple[Office, Callable[[str], Awaitable[Any]]]:
    """An office over rows of the release before, with a tool of the same schema."""
    store = Memory()
    await store.write(Change(f"a/{OLD}", json.dumps({"rows": rows}).encode()))
    office = Office(store)

    async def act(what: str) -> str:
        office.ran.append(what)
        return f"done {what}"

    office.tools.tool(act)
    schema = dict(office.tools.tools["act"].parameters.schema)
    await store.write(Change(f"a/{OLD}", json.dumps({"rows": [{**row, "schema": schema} for row in rows]}).encode()))

    async def send(id_: str) -> Any:
        found = await office.send(id_, tool="act")
        return getattr(found, "kind", found)

    return office, send


@pytest.mark.parametrize("way", ["resume", "repeat"])
async def test_an_approval_of_the_release_before_is_found(way: str) -> None:
    """It is listed, decided, resumed by its id and found for the repeated call, and runs once."""
    office, send = await open_old(old_row(1), old_row(2, state="rejected", arguments={"what": "y"}, sent={"what": "y"}))
    (waiting,) = await office.approvals.pending()
    assert (waiting.id, waiting.arguments) == (f"{OLD}.1", {"what": "x"})
    assert await send("1") == "awaiting_approval"
    assert (await office.approvals.approve(waiting.id, by="boss")).state == "approved"
    assert len(await office.approvals.list()) == 2
    for _ in range(2):
        assert await (office.resume(waiting.id) if way == "resume" else send("7")) == "done x"
    assert await office.resume(f"{OLD}.2") == "permission"
    assert office.ran == ["x"]


async def test_what_ran_in_the_release_before_does_not_run_again() -> None:
    """How it ended stood in the ledger alone, so it is told as unknown; one whose answer was given asks anew."""
    ran = {"state": "approved", "by": "boss", "ran": True}
    office, send = await open_old(old_row(1, **ran))
    assert await office.resume(f"{OLD}.1") == "outcome_unknown" == await send("8") == await send("8")
    assert await send("9") == "awaiting_approval"
    office, send = await open_old(old_row(1, **ran, collected=True))
    assert await send("8") == "awaiting_approval"
    assert office.ran == []
