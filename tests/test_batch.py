"""gather: many calls at once, their order on a resource, and what ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from inspect import signature
from threading import Event
from typing import Any, Self

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from returns.result import Failure, Success

from support import PATIENT, StoppedTime, a_tool
from toolcall_pipeline import (
    Call,
    Crashed,
    Effect,
    Handler,
    NotExecuted,
    Outcome,
    OutcomeUnknown,
    Pipeline,
    Placement,
    ResolvedCall,
    SetupError,
    Stack,
    TimedOut,
    ToolContext,
    ToolRegistry,
    UnknownTool,
    ValidCall,
    gather,
    gather_sync,
)
from toolcall_pipeline.engine.batch import run_batch
from toolcall_pipeline.middlewares import Retry, standard

NO_TIME = Failure(NotExecuted("the batch's time was up"))
BLOCKED = Failure(NotExecuted("an earlier call on the same resource is still running"))


@pytest.fixture
def pipeline() -> Pipeline:
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def echo(n: int) -> int:
        for _ in range(n % 3):
            await anyio.lowlevel.checkpoint()
        if n == 7:
            raise ValueError
        return n

    return standard(tools)


@pytest.mark.parametrize("limit", [1, 3, 50])
async def test_results_are_in_call_order(pipeline: Pipeline, limit: int) -> None:
    """There is one outcome for each call, in the order of the calls, whichever call ended first."""
    outcomes = await gather(pipeline, (Call("echo", {"n": n}) for n in range(20)), limit)
    assert outcomes == [Failure(Crashed()) if n == 7 else Success(n) for n in range(20)]


async def test_no_calls(pipeline: Pipeline) -> None:
    """Without calls there are no outcomes."""
    assert await gather(pipeline, []) == []


@pytest.mark.parametrize("limit", [1, 4])
async def test_at_most_limit_calls_run_at_a_time(limit: int) -> None:
    """At most `limit` calls run at a time."""
    tools = ToolRegistry()
    running = most = 0

    @tools.tool(effect="read")
    async def count() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(limit):  # by then all that may run at a time have begun
            await anyio.lowlevel.checkpoint()
        running -= 1

    await gather(standard(tools), [Call("count")] * 12, limit)
    assert most == limit


def test_all_that_run_a_batch_have_the_same_defaults() -> None:
    """50 calls at a time, and no time limit."""
    for run in (gather, gather_sync, run_batch):
        defaults = {name: each.default for name, each in signature(run).parameters.items()}
        assert (defaults["limit"], defaults["timeout"], defaults["each"]) == (50, None, None)


async def test_a_limit_below_one_is_refused(pipeline: Pipeline) -> None:
    """A limit below 1 is a SetupError: no call could run."""
    with pytest.raises(SetupError, match=r"^gather: `limit` must be an integer ≥ 1, not 0$"):
        await gather(pipeline, [], 0)


async def test_a_foreign_cancellation_fails_that_call_alone(anyio_backend: str) -> None:
    """If a tool awaits something cancelled elsewhere, its call has failed, and its siblings go on."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def shared() -> None:
        if anyio_backend == "asyncio":
            raise asyncio.CancelledError
        raise ValueError

    @tools.tool(effect="read")
    async def fine() -> int:
        return 1

    calls = [Call("shared"), Call("fine"), Call("shared"), Call("fine")]
    outcomes = await gather(standard(tools), calls, 1)
    assert outcomes == [Failure(Crashed()), Success(1), Failure(Crashed()), Success(1)]


async def test_cancelling_many_calls_ends_them_all() -> None:
    """Cancellation from outside ends all calls and passes; it is not a failure of any of them."""
    tools, begun = ToolRegistry(), list[int]()

    @tools.tool(effect="read")
    async def count(n: int) -> None:
        begun.append(n)
        if n == 10:
            scope.cancel()
        await anyio.lowlevel.checkpoint()

    with anyio.CancelScope() as scope:
        await gather(standard(tools), (Call("count", {"n": n}) for n in range(1000)), 2)
    assert scope.cancelled_caught
    assert 10 < len(begun) < 13


def at(arguments: Mapping[str, Any]) -> str:
    """The resource that a call names, if it names one."""
    return str(arguments["at"])


def constant(name: Any) -> Callable[..., Any]:
    """A resource function that ignores the arguments."""

    def resource(_: object) -> Any:
        return name

    return resource


class Journal:
    """Tools that record when their bodies begin and end; for some of them ``at`` is the resource."""

    def __init__(self) -> None:
        self.tools = ToolRegistry()
        self.notes: list[tuple[str, object]] = []
        for effect in ("read", "idempotent", "mutating"):
            self.add(f"{effect}_at", effect, at)
        self.add("plain", "mutating", None)

    def add(self, name: str, effect: Effect, resource: Any, **options: Any) -> None:
        async def body(n: object = None, **_: object) -> object:
            self.notes.append(("begin", n))
            await anyio.lowlevel.checkpoint()
            self.notes.append(("end", n))
            return n

        self.tools.register(a_tool(name, effect, body, resource=resource, **options))

    def begun(self, n: object) -> int:
        return self.notes.index(("begin", n))

    def ended(self, n: object) -> int:
        return self.notes.index(("end", n))


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["read_at", "idempotent_at", "mutating_at", "plain"]), st.sampled_from("abc") | st.none()
    ),
    max_size=14,
)


@settings(deadline=None, max_examples=80)
@given(CALLS, st.integers(1, 6))
async def test_changes_of_one_resource_keep_their_order(calls: list[tuple[str, str | None]], limit: int) -> None:
    """Of two calls on one resource, of which one changes it, the later begins after the earlier has ended.

    A call that does not say its resource may mean any. Every call has its own outcome, whatever it waited for.
    """
    journal = Journal()
    todo = [Call(name, {"n": n} | ({} if there is None else {"at": there})) for n, (name, there) in enumerate(calls)]
    assert await gather(standard(journal.tools), todo, limit) == [Success(n) for n in range(len(calls))]
    for later, (name, here) in enumerate(calls):
        for earlier, (other, there) in enumerate(calls[:later]):
            known = "plain" not in (name, other) and {name, other} != {"read_at"}
            if known and (here == there or None in (here, there)):
                assert journal.ended(earlier) < journal.begun(later)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(Call("read_at", {"at": "a"}), Call("read_at", {"at": "a"}), id="two reads of one"),
        pytest.param(Call("mutating_at", {"at": "a"}), Call("mutating_at", {"at": "b"}), id="changes of two"),
        pytest.param(Call("mutating_at", {"at": "a"}), Call("mutating_at", '{"at": "b"}'), id="of two, as JSON text"),
        pytest.param(Call("mutating_at", {"at": "a"}), Call("plain"), id="one declares none"),
        pytest.param(Call("plain"), Call("plain"), id="neither declares one"),
        pytest.param(Call("read_at"), Call("read_at", {"at": "a"}), id="a read of any and a read"),
    ],
)
async def test_calls_that_cannot_conflict_run_together(first: Call, second: Call) -> None:
    """Reads run together, and so do calls that have no resource in common."""
    journal = Journal()
    await gather(standard(journal.tools), [first, second])
    assert [what for what, _ in journal.notes] == ["begin", "begin", "end", "end"]


@pytest.mark.parametrize(
    ("second", "options"),
    [
        pytest.param(Call("put", {"at": "a"}), {}, id="its name"),
        pytest.param(Call("store", {"at": "a"}), {"aliases": ("store",)}, id="an alias"),
        pytest.param(Call("functions.put", {"at": "a"}), {}, id="a name with noise"),
        pytest.param(Call("put", '{"at": "a"}'), {}, id="arguments as JSON text"),
        pytest.param(Call("put", {"arguments": {"at": "a"}}), {}, id="a key that stands elsewhere"),
        pytest.param(Call("put"), {}, id="no arguments"),
    ],
)
async def test_a_resource_is_found_however_the_call_is_written(second: Call, options: dict[str, Any]) -> None:
    """The order does not depend on how the model writes the name or the arguments."""
    journal = Journal()
    journal.add("put", "mutating", at, **options)
    await gather(standard(journal.tools), [Call("put", {"at": "a"}), second])
    assert [what for what, _ in journal.notes] == ["begin", "end", "begin", "end"]


@pytest.mark.parametrize("resource", ["db", constant("db"), constant([])], ids=["named", "computed", "no name at all"])
async def test_a_resource_by_name(resource: str | Callable[..., Any]) -> None:
    """A resource is a name, or what a function returns; a function that returns no name may mean any resource."""
    journal = Journal()
    journal.add("put", "mutating", resource)
    await gather(standard(journal.tools), [Call("put"), Call("put")])
    assert [what for what, _ in journal.notes] == ["begin", "end", "begin", "end"]


async def test_a_failed_change_holds_nothing_back() -> None:
    """A call that is refused or crashes stops no other call, on the same resource either."""
    tools = ToolRegistry()

    @tools.tool(resource="db")
    async def put(n: int) -> int:
        if n == 1:
            raise ValueError
        return n

    calls = [Call("put", {"n": 1}), Call("put", {"n": "x"}), Call("putt"), Call("put", {"n": 2})]
    crashed, invalid, unknown, last = await gather(standard(tools), calls)
    assert (crashed, last) == (Failure(Crashed()), Success(2))
    assert invalid.failure().kind == "validation"
    assert unknown == Failure(UnknownTool("putt", ("put",), ("put",)))


async def test_a_check_that_crashes_is_that_calls_failure() -> None:
    """A check that raises while the tools are looked up beforehand fails its own call alone."""
    tools = ToolRegistry()

    @tools.tool(resource="db")
    async def put() -> int:
        return 1

    def resolve(call: Call) -> ResolvedCall:
        return call.resolved({"put": tools.tools["put"]}[call.name])

    pipeline = standard(tools).replace("resolve", resolve)
    odd: Any = ["put"]
    assert await gather(pipeline, [Call("other"), Call("put"), Call(odd)]) == [
        Failure(Crashed()),
        Success(1),
        Failure(Crashed()),
    ]


async def test_a_pipeline_that_finds_no_tools_keeps_no_order() -> None:
    """Without a check that finds tools there are no resources, and the calls run all the same."""

    async def answer(call: Call) -> Success[str]:
        return Success(call.name)

    assert await gather(Stack().end(answer), [Call("a"), Call("b")]) == [Success("a"), Success("b")]


class Hang:
    """A thread that hangs until the test is over, and a stage that ends its call as soon as its body has begun."""

    placement = Placement(announces_body=True)

    def __init__(self) -> None:
        self.hangs = 1  # calls that hang from now on
        self.go_on = Event()
        self.begun = anyio.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on.set()

    def body(self) -> int:
        if self.hangs:
            self.hangs -= 1
            anyio.from_thread.run_sync(self.begun.set)
            self.go_on.wait(PATIENT)
        return 1

    async def __call__(self, call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        """Do as a time limit does, but wait for an event and not for a time."""
        outcomes: list[Outcome] = []
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                outcomes.append(await call_next(call))
                tasks.cancel_scope.cancel()

            tasks.start_soon(run)
            await (anyio.sleep_forever() if self.begun.is_set() else self.begun.wait())
            tasks.cancel_scope.cancel()
        return outcomes[0] if outcomes else Failure(TimedOut(1.0, still_running=True))


async def test_a_change_that_is_still_running_blocks_its_resource() -> None:
    """While a change goes on in a thread, no later call on its resource runs; calls on others do."""
    tools = ToolRegistry()

    @tools.tool(effect="read", resource="db")
    async def get() -> int:
        return 2

    @tools.tool(resource="disk")
    async def save() -> int:
        return 3

    with Hang() as hang:
        tools.register(a_tool("put", "mutating", hang.body, resource="db"))
        calls = [Call("put"), Call("get"), Call("put"), Call("save"), Call("put")]
        lost, *others = await gather(standard(tools).after("retry", hang), calls)
    assert lost == Failure(OutcomeUnknown(TimedOut(1.0, still_running=True)))
    assert others == [BLOCKED, BLOCKED, Success(3), BLOCKED]


@pytest.mark.parametrize("limit", [1, 5])
async def test_an_earlier_attempt_that_is_still_running_blocks_its_resource(limit: int) -> None:
    """A keyed change whose first attempt hangs may succeed in its second; the first one still runs, and blocks."""
    tools = ToolRegistry()
    with Hang() as hang:

        @tools.tool(effect="keyed", resource="db", context=True)
        def put(_: ToolContext) -> int:
            return hang.body()

        pipeline = standard(tools).replace("retry", Retry(2, jitter=lambda: 0.0)).after("retry", hang)
        assert await gather(pipeline, [Call("put"), Call("put"), Call("put")], limit) == [Success(1), BLOCKED, BLOCKED]


async def test_a_read_that_is_still_running_blocks_nothing() -> None:
    """A read that was abandoned changes nothing, so the calls that waited for it run."""
    tools = ToolRegistry()

    @tools.tool(resource="db")
    async def put() -> int:
        return 1

    with Hang() as hang:
        tools.register(a_tool("get", "read", hang.body, resource="db"))
        pipeline = standard(tools, attempts=1).after("retry", hang)
        outcomes = await gather(pipeline, [Call("get"), Call("put")])
    assert outcomes == [Failure(TimedOut(1.0, still_running=True)), Success(1)]


@pytest.mark.parametrize(
    ("effect", "lost"), [("read", TimedOut), ("mutating", OutcomeUnknown)], ids=["a read", "a change"]
)
async def test_every_call_has_an_outcome_when_the_time_is_up(
    effect: Effect, lost: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls that had begun are timed out, or unknown if they may have had an effect; the others never begin."""
    begun: list[int] = []

    async def body(n: int) -> int:
        begun.append(n)
        if n == 1:
            await anyio.sleep_forever()
        if n == 2:
            await time.hang()
        return n

    tools, time = ToolRegistry(), StoppedTime(monkeypatch)
    tools.register(a_tool("probe", effect, body))
    outcomes = await gather(standard(tools), [Call("probe", {"n": n}) for n in range(9)], 2, timeout=60)
    assert outcomes[0] == Success(0)
    assert [type(outcome.failure()) for outcome in outcomes[1:3]] == [lost, lost]
    assert outcomes[3:] == [NO_TIME] * 6
    assert begun == [0, 1, 2]


async def test_the_time_of_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call has ``each`` seconds of its own, or its own timeout if that is shorter."""
    tools, time = ToolRegistry(), StoppedTime(monkeypatch)
    tools.register(a_tool("hang", "read", time.hang))
    tools.register(a_tool("fine"))
    calls = [Call("hang", {"seconds": 5}), Call("fine"), Call("hang", {"seconds": 3}, timeout=3)]
    outcomes = await gather(standard(tools), [*calls, Call("hang", timeout=60)], 1, each=5, timeout=60)
    ends = [Failure(TimedOut(after)) for after in (5, 3, 5)]
    assert outcomes == [ends[0], Success("done"), *ends[1:]]


@pytest.mark.parametrize("left", [0, -1])
async def test_without_time_nothing_begins(pipeline: Pipeline, left: float) -> None:
    """With no time left, such as for a caller whose own time is up, every call is not executed."""
    assert await gather(pipeline, [Call("echo", {"n": 1})] * 3, timeout=left) == [NO_TIME] * 3


async def test_calls_that_waited_for_one_run_together() -> None:
    """Reads that waited for one change run together after it, within the limit, and not one by one."""
    tools, running, all_there = ToolRegistry(), list[int](), anyio.Event()

    @tools.tool
    async def quick() -> None:
        """Keep a worker busy that has ended before the reads may begin."""

    @tools.tool(resource="db")
    async def put() -> None:
        await anyio.wait_all_tasks_blocked()

    @tools.tool(effect="read", resource="db")
    async def get(n: int) -> int:
        running.append(n)
        if len(running) == 3:
            all_there.set()
        await all_there.wait()
        await anyio.lowlevel.checkpoint()
        assert len(running) <= 3
        running.remove(n)
        return n

    with anyio.fail_after(PATIENT):
        calls = [Call("quick"), Call("quick"), Call("put"), *(Call("get", {"n": n}) for n in range(6))]
        outcomes = await gather(standard(tools), calls, 3)
    assert outcomes == [Success(None)] * 3 + [*map(Success, range(6))]


async def test_one_at_a_time_they_run_in_call_order() -> None:
    """With a limit of 1, calls run in call order, though some of them waited."""
    journal = Journal()
    calls = [Call("read_at" if n else "mutating_at", {"at": "a", "n": n}) for n in range(5)]
    await gather(standard(journal.tools), calls, 1)
    assert [n for what, n in journal.notes if what == "begin"] == [0, 1, 2, 3, 4]
