"""What a conversation remembers of calls that may have taken effect, in one process and without a store."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread
import pytest
from pydantic import BaseModel

from support import PATIENT
from toolcall_pipeline import (
    Call,
    Failure,
    OutcomeUnknown,
    Pipeline,
    Success,
    Tool,
    ToolContext,
    ToolFailed,
    ToolRegistry,
    Transient,
    builtin,
    gather,
)
from toolcall_pipeline.dialogue import Answered, Hints, run_turn
from toolcall_pipeline.middlewares import LoopGuard, standard
from toolcall_pipeline.once import CONVERSATIONS, Conversations, Lost
from toolcall_pipeline.stores import Memory
from toolcall_pipeline.telemetry import agent
from toolcall_pipeline.testing import FakeClock


class Conflict(Exception):
    """As a client raises it for a status 409."""

    status_code = 409


class Refused(Exception):
    """An exception whose class says that nothing happened."""

    status_code = 404
    landed = False


class Order(BaseModel):
    items: list[int]


UNDECIDED: list[Exception] = [FileNotFoundError(), PermissionError(), Conflict(), ValueError(), KeyError("x")]
LOST: list[Exception] = [ConnectionError(), TimeoutError()]


class Desk:
    """A desk with some tools, and what they did."""

    def __init__(self, kept: Memory | None = None) -> None:
        self.done: list[Any] = []
        self.keys: list[str] = []
        self.answer: Any = None
        self.verdict: object = None
        self.asked: list[tuple[Any, str]] = []
        tools = ToolRegistry()

        def verify(call: Any, key: str) -> object:
            self.asked.append((call.params, key))
            return self.verdict

        @tools.tool(verify_with="look")
        async def charge(amount: int | str, to: str = "Ann") -> Any:
            return self._answer(("charge", amount, to))

        @tools.tool(verify=verify)
        async def wire(amount: int) -> Any:
            return self._answer(("wire", amount))

        @tools.tool(effect="keyed", context=True)
        async def pay(context: ToolContext, amount: int) -> Any:
            self.keys.append(context.idempotency_key)
            return self._answer(("pay", amount))

        @tools.tool(effect="idempotent")
        async def store(amount: int) -> Any:
            return self._answer(("store", amount))

        @tools.tool
        async def create() -> str:
            return "created"

        @tools.tool(effect="read")
        async def look() -> str:
            return "seen"

        @tools.tool(errors={LookupError: ToolFailed("no such issue", kind="not_found", landed=False)})
        async def comment(issue: int) -> Any:
            return self._answer(("comment", issue))

        self.pipeline: Pipeline = standard(tools, attempts=1, store=kept)
        builtin.install(tools, self.pipeline)

    def _answer(self, did: tuple[Any, ...]) -> Any:
        self.done.append(did)
        if isinstance(self.answer, Exception):
            raise self.answer
        return "ok" if self.answer is None else self.answer

    async def ask(self, name: str, conversation: str = "thread", **arguments: object) -> Any:
        """The kind of the answer: "ok", or that of its error."""
        outcome = await self.pipeline.call(name, arguments, conversation=conversation)
        return "ok" if type(outcome) is Success else outcome.failure().kind


async def run_script(script: str, store: Memory | None = None) -> tuple[list[str], int]:
    """Run a conversation: ``tool:answer`` in each word; returns the kinds and how many bodies ran.

    With a store each call comes to a process of its own.
    """
    desk = Desk(store)
    kinds, done = list[str](), 0
    answers = {
        "404": FileNotFoundError(),
        "lost": ConnectionError(),
        "bug": ValueError(),
        "told": ToolFailed("no"),
        "no": Refused(),
        "miss": LookupError(),
        "ok": None,
    }
    for word in script.split():
        name, _, answer = word.partition(":")
        desk.answer = answers[answer or "ok"]
        arguments: dict[str, Any] = {} if name in ("create", "look") else {"amount": 7}
        if name == "comment":
            arguments = {"issue": 7}
        if name.endswith("2"):
            name, arguments = name[:-1], {"amount": 8}
        kinds.append(await desk.ask(name, **arguments))
        if store is not None:
            done, desk = done + len(desk.done), Desk(store)
    return kinds, done + len(desk.done)


GUIDE = Path(__file__).parents[1] / "middlewares" / "ONCE.md"
ROW = re.compile(r"^\| (.+) \| `(.+)` \| (.+) \| (\d) \|$", re.MULTILINE)
CONVERSATIONS_OF_A_DAY = {row[0]: row[1:] for row in ROW.findall(GUIDE.read_text())}


@pytest.mark.parametrize("processes", ["one", "each"])
@pytest.mark.parametrize(("script", "kinds", "ran"), CONVERSATIONS_OF_A_DAY.values(), ids=CONVERSATIONS_OF_A_DAY)
async def test_what_runs_in_a_conversation(script: str, kinds: str, ran: str, processes: str) -> None:
    """The guide's table: honest work runs, and nothing runs again that may have taken effect; with a store as well."""
    assert await run_script(script, Memory() if processes == "each" else None) == (kinds.split(), int(ran))


@pytest.mark.parametrize("raised", [*UNDECIDED, *LOST], ids=lambda each: type(each).__name__)
async def test_a_body_that_half_happened_is_not_begun_again(raised: Exception) -> None:
    """Whatever an exception of a mutating tool says, an equal call of the conversation is refused."""
    desk = Desk()
    desk.answer = raised
    first = await desk.ask("charge", amount=7)
    again = [await desk.ask("charge", amount=7) for _ in range(3)]
    assert first != "ok"
    assert (again, len(desk.done)) == (["outcome_unknown"] * 3, 1)


SPELLINGS: dict[str, tuple[object, object]] = {
    "a number as text": ({"amount": 7}, {"amount": "7"}),
    "text as a number": ({"amount": "7"}, '{"amount": 7}'),
    "a default": ({"amount": 7}, {"amount": 7, "to": "Ann"}),
    "a trailing blank": ({"amount": 7, "to": "Bob"}, {"amount": 7, "to": "Bob "}),
    "another normal form": ({"amount": 7, "to": "Andr\u00e9"}, {"amount": 7, "to": "Andre\u0301"}),
    "JSON with blanks": ('{"amount":7}', '{ "amount" : 7 }'),
}


@pytest.mark.parametrize(("first", "again"), SPELLINGS.values(), ids=SPELLINGS)
async def test_one_reading_is_one_intent(first: Any, again: Any) -> None:
    """A call that is written otherwise and reads the same is the same."""
    desk = Desk()
    desk.answer = FileNotFoundError()
    await desk.pipeline.call("charge", first, conversation="c")
    outcome = await desk.pipeline.call("charge", again, conversation="c")
    error = outcome.failure()
    assert isinstance(error, OutcomeUnknown)
    assert (error.verify_with, len(desk.done)) == ("look", 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"conversation": "a"}, {"conversation": "b"}),
        ({"conversation": "a", "principal": "x"}, {"conversation": "a", "principal": "y"}),
        ({"conversation": "ab", "principal": "c"}, {"conversation": "a", "principal": "bc"}),
        ({}, {}),
    ],
)
async def test_each_conversation_is_its_own(one: Any, other: Any) -> None:
    """What one conversation lost says nothing of another, and without a conversation nothing is remembered."""
    desk = Desk()
    desk.answer = FileNotFoundError()
    for who in (one, other):
        await desk.pipeline.call("charge", {"amount": 7}, **who)
    assert len(desk.done) == 2


@pytest.mark.parametrize("raised", [ConnectionError(), FileNotFoundError()], ids=["lost", "404"])
async def test_a_keyed_call_keeps_the_key_of_the_lost_one(raised: Exception) -> None:
    """A repetition has the key of the lost call; once that has answered, the next wish has a key of its own."""
    desk = Desk()
    desk.answer = raised
    await desk.ask("pay", amount=7)
    await desk.ask("pay", amount=7)
    await desk.ask("pay", amount=8)
    desk.answer = None
    await desk.ask("pay", amount=7)
    await desk.ask("pay", amount=7)
    first, second, other, third, fourth = desk.keys
    assert first == second == third
    assert len({first, other, fourth}) == 3


@pytest.mark.parametrize(
    ("verdict", "kind", "ran"),
    [
        (Success("paid"), "ok", 1),
        (True, "ok", 1),
        (False, "ok", 2),
        (None, "outcome_unknown", 1),
        ("nonsense", "outcome_unknown", 1),
    ],
    ids=str,
)
async def test_verify_decides(verdict: object, kind: str, ran: int) -> None:
    """``verify=`` of the tool is asked about the lost call: by its answer the call is answered, runs, or is refused."""
    desk = Desk()
    desk.answer = ConnectionError()
    assert await desk.ask("wire", amount=7) == "outcome_unknown"
    desk.answer, desk.verdict = None, verdict
    assert await desk.ask("wire", amount=7) == kind
    # In the lost call itself, and again before the equal one.
    assert (len(desk.done), desk.asked) == (ran, [({"amount": 7}, "")] * 2)


async def test_a_cancelled_body_is_lost() -> None:
    """A body that was cancelled may have taken effect."""
    tools, begun = ToolRegistry(), list[int]()
    started = anyio.Event()

    @tools.tool
    async def hang(n: int) -> None:
        begun.append(n)
        started.set()
        await anyio.sleep_forever()

    pipeline = standard(tools)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: pipeline.call("hang", {"n": 1}, conversation="c"))
        await started.wait()
        tasks.cancel_scope.cancel()
    again = await pipeline.call("hang", {"n": 1}, conversation="c")
    assert isinstance(again.failure(), OutcomeUnknown)
    assert begun == [1]


async def test_params_that_the_body_changed() -> None:
    """An intent is known by the params that came, also where the body has changed the objects in them."""
    tools, ran = ToolRegistry(), list[int]()

    @tools.tool
    async def place(order: Order) -> None:
        ran.append(1)
        order.items.append(5)
        raise FileNotFoundError

    pipeline = standard(tools)
    outcomes = [
        await pipeline.call("place", each, conversation="c")
        for each in ({"order": {"items": [1]}}, '{"order": {"items": ["1"]}}')
    ]
    assert [outcome.failure().kind for outcome in outcomes] == ["not_found", "outcome_unknown"]
    assert ran == [1]


async def test_it_is_forgotten_after_an_hour() -> None:
    """What nobody decided within an hour is forgotten."""
    desk = Desk()
    desk.answer = FileNotFoundError()
    with FakeClock() as clock:
        await desk.ask("charge", amount=7)
        clock.advance(3599)
        await desk.ask("charge", amount=7)
        assert len(desk.done) == 1
        clock.advance(2)
        await desk.ask("charge", amount=7)
    assert len(desk.done) == 2


def test_what_is_remembered_is_bounded_and_never_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversation without room gets no further calls of that tool; no other one forgets anything."""
    monkeypatch.setattr("toolcall_pipeline.once.undecided._MAX_LOST", 50)
    tools = ToolRegistry()

    @tools.tool
    async def act(n: int) -> None: ...

    @tools.tool
    async def other(n: int) -> None: ...

    kept = Conversations(max_bytes=400_000)
    calls = [Call("act", {"n": n}, conversation=f"c{n % 4}").resolved(act).validated({"n": n}) for n in range(160)]
    for call in calls:
        kept.add(call, Lost.of(call, call.params, "", liftable=False))
    many = [attrs_evolve(calls[0], principal="mallory", conversation=f"m{n}", params={"n": n}) for n in range(2_000)]
    for call in many:
        kept.add(call, Lost.of(call, call.params, "", liftable=False))
    crowded = [attrs_evolve(calls[0], conversation="one", params={"n": n}) for n in range(60)]
    for call in crowded:
        kept.add(call, Lost.of(call, call.params, "", liftable=False))
    for call in (*calls, *many, *crowded):
        found = kept.find(call)
        assert found is not None
        assert found.find(call, call.params) is not None or found.is_full(act)
    for call in calls:
        found = kept.find(call)
        assert found is not None
        assert found.find(call, call.params) is not None
        assert not found.is_full(act)
    full = kept.find(crowded[0])
    assert full is not None
    assert full.is_full(act)
    assert not full.is_full(other)


def test_what_verify_would_be_told_goes_first() -> None:
    """The large calls of one principal take the place of no record of another."""
    tools = ToolRegistry()

    @tools.tool(verify=lambda call, key: None)
    async def act(text: str) -> None: ...

    kept = Conversations(max_bytes=100_000)
    first = Call("act", {"text": "x"}, conversation="c").resolved(act).validated({"text": "x"})
    kept.add(first, Lost.of(first, first.params, "", liftable=False))
    for n in range(50):
        text = f"{n}" * 10_000
        call = attrs_evolve(first, principal="mallory", arguments={"text": text}, params={"text": text})
        kept.add(call, Lost.of(call, call.params, "", liftable=False))
        mine = kept.find(call)
        assert mine is not None
        assert mine.find(call, call.params) is not None
    found = kept.find(first)
    assert found is not None
    lost = found.find(first, first.params)
    assert lost is not None
    assert lost[0].call is None


@pytest.mark.parametrize("effect", ["mutating", "keyed"])
async def test_a_conversation_without_room_gets_no_more_of_a_tool(effect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told why, before a body runs; other tools, other conversations and an hour later it goes on."""
    monkeypatch.setattr("toolcall_pipeline.once.undecided._MAX_LOST", 2)
    tools, runs = ToolRegistry(), list[int]()

    @tools.tool(effect=effect, context=True)
    async def act(context: ToolContext, n: int) -> None:
        runs.append(n)
        if n < 3:
            raise ConnectionResetError

    pipeline = standard(tools, attempts=1)
    with FakeClock() as clock:
        for n in range(5):
            await pipeline(Call("act", {"n": n}, conversation="c"))
        assert runs == [0, 1, 2]
        outcome = await pipeline(Call("act", {"n": 5}, conversation="c"))
        assert outcome.failure().kind == "unavailable"
        assert type(await pipeline(Call("act", {"n": 5}, conversation="other"))) is Success
        clock.advance(3_700)
        assert type(await pipeline(Call("act", {"n": 5}, conversation="c"))) is Success


@pytest.mark.parametrize("how", ["replaced", "another registry", "another description"])
async def test_a_lost_call_is_remembered_by_the_name_of_its_tool(how: str) -> None:
    """Another object of that name, as a server lists it again or a request builds it, runs no equal call."""
    runs = list[int]()

    def build(tools: ToolRegistry, description: str) -> ToolRegistry:
        async def act(n: int) -> None:
            runs.append(n)
            raise ConnectionResetError

        tool = Tool.from_schema(
            name="act",
            description=description,
            parameters={"type": "object", "properties": {"n": {"type": "integer"}}},
            handler=act,
        )
        if "act" in tools:
            tools.replace(tool)
        else:
            tools.register(tool)
        return tools

    tools = build(ToolRegistry(), "Act.")
    pipeline = standard(tools, attempts=1)
    for _ in range(3):
        outcome = await pipeline(Call("act", {"n": 1}, conversation="c"))
        assert outcome.failure().kind == "outcome_unknown"
        if how == "another registry":
            pipeline = standard(build(ToolRegistry(), "Act."), attempts=1)
        else:
            build(tools, "Act." if how == "replaced" else "Act, and say so.")
    assert runs == [1]


def attrs_evolve(call: Any, **changes: object) -> Any:
    """``attrs.evolve``, for a call of any phase."""
    import attrs

    return attrs.evolve(call, **changes)


# One delivery


async def test_one_id_in_one_reply_is_one_call() -> None:
    """A call that comes twice in a reply with its id runs once; equal calls with two ids, or with none, run twice."""
    desk = Desk()
    twice = [Call("charge", {"amount": 7}, "a"), Call("charge", '{"amount": 7}', "a")]
    assert await gather(desk.pipeline, twice) == [Success("ok")] * 2
    assert len(desk.done) == 1
    others = [Call("charge", {"amount": 7}, "b"), Call("charge", {"amount": 7}, "c"), Call("charge", {"amount": 7})]
    await gather(desk.pipeline, [*others, Call("charge", {"amount": 7}), Call("charge", {"amount": 8}, "c")])
    assert len(desk.done) == 6


@pytest.mark.parametrize("answer", [None, ToolFailed("no"), FileNotFoundError(), ConnectionError()], ids=repr)
async def test_one_id_in_a_turn(answer: Any) -> None:
    """In a turn as well, in the first reply and in a later one: both places have one answer."""
    desk = Desk()
    desk.answer = answer
    replies = [[Call("charge", {"amount": 8}, "b"), Call("charge", {"amount": 8}, "b")]]

    async def model(answered: Sequence[Answered], guidance: str, hints: Hints) -> Sequence[Call]:
        assert len(answered) == 3
        return replies.pop(0) if replies else []

    first = [Call("charge", {"amount": 7}, "a"), Call("charge", {"amount": 7}, "a"), Call("charge", {"to": 5}, "x")]
    turn = await run_turn(model, first, desk.pipeline, attempts=2)
    assert [each[1] for each in desk.done] == [7, 8]
    assert len(turn.answered) == 3
    assert turn.outcomes[0] is turn.outcomes[1]
    assert len(turn.untold) == 2
    assert turn.untold[0].outcome is turn.untold[1].outcome


async def test_a_turn_begins_no_half_done_body_again() -> None:
    """Without a conversation a turn remembers for itself: the model is told that it may have happened."""
    desk = Desk()
    desk.answer = FileNotFoundError()

    async def model(answered: Sequence[Answered], guidance: str, hints: Hints) -> Sequence[Call]:
        return [Call("charge", {"amount": "7"}, "b")]

    turn = await run_turn(model, [Call("charge", {"amount": 7}, "a")], desk.pipeline)
    assert len(desk.done) == 1
    assert isinstance(turn.outcomes[0].failure(), OutcomeUnknown)


async def test_a_turn_keeps_the_key() -> None:
    """A keyed call that was lost and is sent again in the turn has the key that it had."""
    desk = Desk()
    desk.answer = ConnectionError()
    bad = Call("charge", {"to": 5}, "x")

    async def model(answered: Sequence[Answered], guidance: str, hints: Hints) -> Sequence[Call]:
        return [Call("pay", {"amount": "7"}, "b"), bad]

    await run_turn(model, [Call("pay", {"amount": 7}, "a"), bad], desk.pipeline, attempts=2)
    assert len(desk.keys) == 2
    assert len(set(desk.keys)) == 1


async def test_what_a_batch_calls_belongs_to_the_conversation() -> None:
    """A lost call in a batch is not begun again, in another batch either; the batch itself is no effect."""
    desk = Desk()
    desk.answer = FileNotFoundError()
    batch = {"calls": [{"tool": "charge", "args": {"amount": 7}}]}
    for _ in range(2):
        await desk.pipeline.call("batch", batch, conversation="thread")
    assert await desk.ask("charge", amount=7) == "outcome_unknown"
    assert len(desk.done) == 1


async def test_threads_that_come_first_together_are_twins() -> None:
    """What remembers deliveries is made with the first call: of threads that all come first, one runs it."""
    tools, begun = ToolRegistry(), list[int]()

    @tools.tool
    def send(n: int) -> int:
        begun.append(n)
        return n

    pipeline = standard(tools)
    outcomes: list[Any] = []
    together = threading.Barrier(4)

    def call() -> None:
        together.wait(PATIENT)
        outcomes.append(anyio.run(pipeline, Call("send", {"n": 7}, "a", conversation="c", reply="r")))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await anyio.to_thread.run_sync(thread.join, 60)
    assert outcomes == [Success(7)] * 4
    assert begun == [7]


async def test_a_twin_waits_in_another_thread() -> None:
    """The same delivery in two event loops at once runs once, and both callers get its answer."""
    tools, begun, go = ToolRegistry(), list[int](), threading.Event()
    first_began = threading.Event()

    @tools.tool
    def send(n: int) -> int:
        begun.append(n)
        first_began.set()
        assert go.wait(PATIENT)
        return len(begun)

    pipeline = standard(tools)
    outcomes: list[Any] = []

    def call() -> None:
        outcomes.append(anyio.run(lambda: pipeline.call("send", {"n": 7}, id="a", conversation="c")))

    threads = [threading.Thread(target=call) for _ in range(3)]
    threads[0].start()
    assert await anyio.to_thread.run_sync(first_began.wait, 60)
    for thread in threads[1:]:
        thread.start()
    await wait_for(lambda: len(waiting_for(pipeline)) == 2)
    go.set()
    for thread in threads:
        await anyio.to_thread.run_sync(thread.join, 60)
    assert outcomes == [Success(1)] * 3
    assert begun == [7]


def waiting_for(pipeline: Pipeline) -> list[Any]:
    """Those who wait for a twin."""
    runner: Any = cast("Any", pipeline)._runner
    return [each for flight in list(runner._memory.flights.waiting.values()) for each in flight.waiting]


async def wait_for(is_so: Callable[[], bool]) -> None:
    """Wait until something is so, in another thread."""
    with anyio.fail_after(PATIENT):
        while not is_so():  # noqa: ASYNC110  # a thread has no event for it
            await anyio.sleep(0.001)


async def test_a_twin_runs_if_the_first_did_not_begin() -> None:
    """If the first of two twins is cancelled before its body, the second runs."""
    desk = Desk()
    entered, scope = anyio.Event(), anyio.CancelScope()
    held: list[bool] = []

    async def hold(call: Call, call_next: Any) -> Any:
        if not held:
            held.append(True)
            entered.set()
            await anyio.sleep_forever()
        return await call_next(call)

    pipeline = desk.pipeline.after("validate", hold)
    outcomes: list[Any] = []

    async def first() -> None:
        with scope:
            await pipeline.call("charge", {"amount": 7}, id="a", conversation="c")

    async def second() -> None:
        outcomes.append(await pipeline.call("charge", {"amount": 7}, id="a", conversation="c"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first)
        await entered.wait()
        tasks.start_soon(second)
        await wait_for(lambda: len(waiting_for(pipeline)) == 1)
        scope.cancel()
    assert outcomes[0] == Success("ok") or isinstance(outcomes[0].failure(), OutcomeUnknown)


async def test_a_replayed_answer_is_marked() -> None:
    """The report says that no body ran for the call."""
    desk = Desk()
    desk.answer = ConnectionError()
    await desk.ask("wire", amount=7)
    desk.verdict = Success("paid")
    report = await desk.pipeline.report(Call("wire", {"amount": 7}, conversation="thread"))
    assert (report.outcome, report.replayed, report.attempts) == (Success("paid"), True, ())


def test_nothing_is_kept_of_known_ends() -> None:
    """Successes and failures that say what happened leave nothing in memory."""
    desk = Desk()
    before = len(CONVERSATIONS)
    for answer in (None, ToolFailed("no"), Refused(), Failure(Transient(landed="no"))):
        desk.answer = answer
        anyio.run(lambda: desk.ask("charge", "known", amount=7))
    assert len(CONVERSATIONS) == before
    assert len(desk.done) == 4


@pytest.mark.parametrize("principal", ["", "tenant"])
async def test_each_conversation_of_a_tenant_is_counted_by_itself(principal: str) -> None:
    """The same read in many conversations of one tenant is no loop; in one of them it is."""
    desk = Desk()
    pipeline = desk.pipeline.before("retry", LoopGuard(forget_after=1e9))
    for number in range(9):
        with agent("helper", conversation_id=f"c{number}"):
            assert (await pipeline.call("look", principal=principal)) == Success("seen")
    with agent("helper", conversation_id="c"):
        kinds = [await desk_kind(pipeline, principal) for _ in range(7)]
    assert kinds == ["ok"] * 5 + ["permission"] * 2
    by_tool = desk.pipeline.before("retry", LoopGuard(key=lambda call: call.tool.name, forget_after=1e9))
    outcomes = [await by_tool.call("look", conversation=str(number)) for number in range(6)]
    assert type(outcomes[-1]) is Failure
    never = desk.pipeline.before("retry", LoopGuard(key=lambda call: None))
    assert all([type(await never.call("look")) is Success for _ in range(9)])


async def desk_kind(pipeline: Pipeline, principal: str) -> str:
    """The kind of the answer to a read."""
    outcome = await pipeline.call("look", principal=principal)
    return "ok" if type(outcome) is Success else outcome.failure().kind


async def test_the_calls_of_an_agent_belong_to_its_conversation() -> None:
    """Calls in a block of `agent` that name no conversation have that of the block; nested blocks inherit it."""
    desk = Desk()
    desk.answer = FileNotFoundError()
    with agent("helper", conversation_id="block"), agent("inner"):
        await desk.ask("charge", "", amount=7)
    assert await desk.ask("charge", "block", amount=7) == "outcome_unknown"
    assert await desk.ask("charge", "", amount=7) == "not_found"
    assert len(desk.done) == 2


async def test_the_last_answers_of_replies_are_told_again() -> None:
    """A pipeline keeps 100 of them: the same delivery runs no more, and the one before these runs again."""
    desk = Desk()

    async def ask(number: int) -> int:
        await desk.pipeline(Call("charge", {"amount": number}, f"{number}", conversation="thread", reply="reply"))
        return len(desk.done)

    for number in range(101):
        assert await ask(number) == number + 1
    for number in range(1, 101):
        assert await ask(number) == 101
    assert await ask(0) == 102


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("how", ["an hour", "more than an hour", "decided"])
def test_what_is_over_takes_no_room(how: str, monkeypatch: pytest.MonkeyPatch, *, is_full: bool) -> None:
    """A conversation that is decided or old leaves the memory, and what it took is free for others."""
    monkeypatch.setattr("toolcall_pipeline.once.undecided._MAX_LOST", 2 if is_full else 100)
    tools = ToolRegistry()

    @tools.tool(verify=lambda call, key: None)
    async def act(n: int) -> None: ...

    kept = Conversations(max_bytes=8_000)
    with FakeClock() as clock:
        for _ in range(20):
            for n in range(4):
                call = Call("act", {"n": n}, conversation="c").resolved(act).validated({"n": n})
                lost = Lost.of(call, call.params, "", liftable=False)
                held = kept.add(call, lost)
                assert (id(lost) in held.lost) is (how == "decided" or not is_full or n < 2)
                assert lost.call is not None
                if how == "decided":
                    held.decide(lost)
            clock.advance(3600.0 if how == "an hour" else 3700.0)
            other = Call("act", {"n": 9}, conversation="other").resolved(act).validated({"n": 9})
            known = Lost.of(other, other.params, "", liftable=False)
            kept.add(other, known).decide(known)
            assert len(kept) == 0
        found = 0
        for n in range(20):  # and no more is free than at the beginning: 1,000 bytes each
            call = Call("act", {"n": n}, conversation=f"c{n}").resolved(act).validated({"n": n})
            lost = Lost.of(call, call.params, "", liftable=False)
            found += id(lost) in kept.add(call, lost).lost
        assert found == 8


def test_how_much_is_kept_for_verify() -> None:
    """64 MB, which one call may fill by itself."""
    tools = ToolRegistry()

    @tools.tool
    async def act(n: int) -> None: ...

    call = Call("act", {"n": 1}, conversation="c").resolved(act).validated({"n": 1})
    for size, is_kept in ((64 * 2**20 - 1_000, True), (64 * 2**20, False)):
        lost = Lost("act", "a", ("a",), "", liftable=False, at=0.0, call=call, payload=size)
        Conversations().add(call, lost)
        assert (lost.call is not None) is is_kept
