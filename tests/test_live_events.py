"""Live events: what happens to a call is heard at its time, from every executor, by whoever reads, however slowly."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, cast

import anyio
import anyio.from_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure

import remote_tools
from remote_tools import Gate
from support import PATIENT, StoppedTime
from toolcall_pipeline import (
    Call,
    CallReport,
    Pipeline,
    Secret,
    SetupError,
    Success,
    ToolContext,
    ToolRegistry,
    Transient,
    is_failure,
)
from toolcall_pipeline.engine.report import LiveReport, Row
from toolcall_pipeline.executors import Process
from toolcall_pipeline.middlewares import Retry, Trace, standard
from toolcall_pipeline.telemetry import Event, Events, encode_sse, events_of, follow
from toolcall_pipeline.testing import FakeClock

pytestmark = pytest.mark.long  # each test starts processes

TOOLS = remote_tools.tools
LIVE = {"tool.call", "tool.progress", "tool.attempt", "tool.retry", "tool.result"}


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path)
    yield made
    made.close()


def traced(events: Events, tools: ToolRegistry = TOOLS, **options: Any) -> Pipeline:
    return standard(tools, **options).replace("trace", Trace(sinks=[events]))


def names(events: list[Event]) -> list[str]:
    return [event.name for event in events if event.name != "tool.stage"]


async def followed(pipeline: Pipeline, call: Call, gate: Gate | None = None) -> tuple[Any, list[Event]]:
    """Follow a call whose tool waits until its progress was heard."""
    heard: list[Event] = []

    async def hear(event: Event) -> None:
        await anyio.lowlevel.checkpoint()
        heard.append(event)
        if event.name == "tool.progress" and gate is not None:
            gate.open()

    with anyio.fail_after(PATIENT):
        return await follow(pipeline, call, hear), heard


@pytest.mark.parametrize("tool", ["tells", "tells_async"])
@pytest.mark.parametrize("where", ["here", "process"])
async def test_progress_is_heard_while_the_tool_runs(tool: str, where: str, gate: Gate) -> None:
    """Progress is heard before the tool ends, which it does only when somebody has heard it."""
    pipeline = standard(TOOLS, executor=Process(workers=1) if where == "process" else None)
    outcome, heard = await followed(pipeline, Call(tool, {"gate": gate.path}, id="c1"), gate)
    assert outcome == Success("done")
    assert names(heard) == ["tool.call", "tool.progress", "tool.attempt", "tool.result"]
    assert {(event.call_id, event.tool) for event in heard} == {("c1", tool)}
    assert [event.at for event in heard] == sorted(event.at for event in heard)
    assert next(event.data for event in heard if event.name == "tool.progress") == {
        "done": 1,
        "total": 2,
        "message": "half",
    }


async def test_a_sink_hears_all_calls_at_their_time(gate: Gate) -> None:
    """`Events` as a sink of Trace hears a call begin and its progress while the call runs."""
    heard: list[str] = []
    with Events() as events, anyio.fail_after(PATIENT):
        async with anyio.create_task_group() as group:
            group.start_soon(traced(events).call, "tells", {"gate": gate.path})
            async for event in events:
                heard.append(event.name)
                if event.name == "tool.progress":
                    gate.open()
                if event.name == "tool.result":
                    break
    assert heard[0] == "tool.call"
    assert heard.index("tool.progress") < heard.index("tool.result")


async def test_live_events_agree_with_the_report() -> None:
    """What is heard while a call runs is what its report says afterwards, in the same order but for equal times."""
    answers = iter((Failure(Transient(retry_after=1.0)), "fine"))
    tools = ToolRegistry()

    @tools.tool(context=True, effect="read")
    async def flaky(context: ToolContext) -> object:
        context.progress(1, 3)
        context.progress(2, 3, "more")
        return next(answers)

    del flaky
    reports: list[CallReport] = []
    with Events() as events:
        trace = Trace(sinks=[events, reports.append])
        retry = Retry(sleep=FakeClock().sleep)
        await standard(tools).replace("trace", trace).replace("retry", retry).call("functions.flaky", id="c1")
    heard = [event async for event in events]
    told = list(events_of(reports[0]))

    def facts(events: list[Event]) -> list[tuple[Any, ...]]:
        return [(event.name, event.call_id, event.tool, event.data) for event in events]

    assert facts(heard) == facts(told)
    assert names(heard) == [
        "tool.call",
        *["tool.progress"] * 2,
        "tool.attempt",
        "tool.retry",
        *["tool.progress"] * 2,
        "tool.attempt",
        "tool.result",
    ]


async def test_runs_side_by_side_are_heard() -> None:
    """A stage that runs the inside twice at once has two attempts, each with its own progress, before the result."""
    tools = ToolRegistry()

    @tools.tool(context=True, effect="read")
    async def work(context: ToolContext) -> str:
        context.progress(1)
        await anyio.lowlevel.checkpoint()
        context.progress(2)
        return "done"

    async def twice(call: Call, call_next: Any) -> Any:
        outcomes: list[Any] = []

        async def run() -> None:
            outcomes.append(await call_next(call))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            group.start_soon(run)
        return outcomes[0]

    del work
    outcome, heard = await followed(standard(tools).after("retry", twice), Call("work"))
    assert outcome == Success("done")
    assert sorted(names(heard)) == ["tool.attempt"] * 2 + ["tool.call"] + ["tool.progress"] * 4 + ["tool.result"]
    assert names(heard)[-1] == "tool.result"
    assert {event.data["number"] for event in heard if event.name == "tool.attempt"} == {1, 2}


@pytest.mark.parametrize("name", ["nobody", "tells"])
async def test_a_refused_call_is_heard(name: str) -> None:
    """A call of an unknown tool, or with invalid arguments, has its events too."""
    outcome, heard = await followed(standard(TOOLS), Call(name, id="c1"))
    assert is_failure(outcome)
    assert names(heard) == ["tool.call", "tool.result"]
    assert (heard[0].data["requested"], heard[-1].data["kind"]) == (name, outcome.failure().kind)


async def test_the_end_loses_nothing_unread() -> None:
    """After the end of the block a reader gets what it has not read, and then its loop ends."""
    with Events() as events:
        await traced(events).call("pid")
    assert [event.name async for event in events][-1] == "tool.result"
    assert [event async for event in events] == []


async def test_a_loop_goes_on_where_the_last_one_stopped() -> None:
    """A second loop begins with the first event that nobody has read."""
    with Events() as events:
        await traced(events).call("pid", id="c1")
    first: list[Event] = []
    async for event in events:
        first.append(event)
        if len(first) == 3:
            break
    rest = [event async for event in events]
    assert first + rest == [event async for event in events.read(after="")]
    assert names(rest)[-1] == "tool.result"


async def test_each_reader_gets_everything() -> None:
    """Several readers, one of them slow, each get all events; one that was cancelled while it waited loses none."""
    with anyio.fail_after(PATIENT):
        seen: dict[str, list[str]] = {"quick": [], "slow": [], "cancelled": []}
        began, ended = anyio.Event(), anyio.Event()
        events = Events()
        cancelled = events.read()

        async def read(name: str) -> None:
            async for event in events:
                if name == "slow":
                    await ended.wait()
                seen[name].append(event.id)

        async def wait_in_vain() -> None:
            began.set()
            await anext(cancelled)

        async with anyio.create_task_group() as group:
            group.start_soon(read, "quick")
            group.start_soon(read, "slow")
            async with anyio.create_task_group() as waiting:
                waiting.start_soon(wait_in_vain)
                await began.wait()
                waiting.cancel_scope.cancel()
            with events:
                await traced(events).call("pid")
            ended.set()
        seen["cancelled"] = [event.id async for event in cancelled]
    assert seen["quick"] == seen["slow"] == seen["cancelled"]
    assert len(seen["quick"]) == len(set(seen["quick"])) > 5


async def test_calls_of_other_threads_are_heard() -> None:
    """A reader in an event loop hears calls that other threads make, and a reader in a thread without one does."""
    read: list[str] = []
    events = Events()
    pipeline = traced(events)
    in_loop, in_thread = aiter(events), iter(events)  # both begin before the first event

    def call() -> None:
        with events:
            for _ in range(20):
                pipeline.call_sync("pid")

    reader = threading.Thread(target=lambda: read.extend(event.id for event in in_thread), daemon=True)
    reader.start()
    threading.Thread(target=call, daemon=True).start()
    with anyio.fail_after(PATIENT):
        heard = [event async for event in in_loop]
    reader.join(PATIENT)
    assert [event.id for event in heard] == read
    assert sum(event.name == "tool.result" for event in heard) == 20


async def test_progress_goes_before_results() -> None:
    """A full queue drops progress first; events are dropped only then, and their reader is told how many."""
    tools = ToolRegistry()

    @tools.tool(context=True, effect="read", run_in="loop")
    def chatter(context: ToolContext) -> None:
        for n in range(100):
            context.progress(n)

    del chatter
    with Events(max_queue=20) as events:
        for n in range(2):
            await traced(events, tools).call("chatter", id=f"c{n}")
    read = [event async for event in events]
    assert sum(event.name == "tool.result" for event in read) == 2
    assert len(read) + events.dropped == 2 * 108
    with Events(max_queue=3) as events:
        for n in range(5):
            await traced(events, tools).call("chatter", id=f"c{n}")
    reader = events.read(after="")
    read = [event async for event in reader]
    assert (read[0].name, read[0].data["results"], read[-1].name) == ("tool.dropped", 4, "tool.result")
    assert read[0].data["events"] + 3 == 5 * 8
    assert reader.dropped == events.dropped == 5 * 108 - 3


async def test_a_reader_that_is_gone_costs_the_others_nothing() -> None:
    """A reader that does not read any more loses the oldest events; those who read lose none, not even progress."""
    events = Events(max_queue=10)
    gone = events.read()
    reading = events.read()
    read: list[Event] = []
    pipeline = traced(events, attempts=1)
    for _ in range(10):
        await pipeline.call("show_context", {"n": 1})
        read += [await anext(reading) for _ in range(9)]
    assert sum(event.name == "tool.progress" for event in read) == 10
    assert (reading.dropped, events.dropped) == (0, 0)
    assert (await anext(gone)).data == {"events": 8 * 10 - 9, "results": 8}
    assert gone.dropped == 80


async def test_resuming() -> None:
    """A reader goes on after an id; after one that is not from here, with all that is kept."""
    events, other = Events(), Events()
    pipeline = traced(events)
    await pipeline.call("pid")
    await traced(other).call("pid")
    whole = [await anext(reader) for reader in [events.read(after="")] for _ in range(8)]
    events.close()
    for place, event in enumerate(whole):
        assert [each async for each in events.read(after=event.id)] == whole[place + 1 :]
    foreign = [await anext(aiter(other))]
    for unknown in ("", "x", foreign[0].id, whole[0].id + "9" * 5000, "-", f"{whole[0].id.split('-')[0]}-1-²-1"):
        assert [each async for each in events.read(after=unknown)] == whole
    assert [each async for each in events.read()] == []
    beyond = whole[0].id.split("-")[0] + "-99-99-99"
    assert [each async for each in events.read(after=beyond)] == []


async def test_waits_that_are_cancelled_leave_nothing() -> None:
    """A reader may wait with a time limit, again and again, as for a sign of life to a browser; nothing piles up."""
    events = Events()
    reader = events.read()
    for _ in range(50):
        with anyio.move_on_after(0):
            await anext(reader)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.lowlevel.checkpoint)
                group.start_soon(anext, reader)
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
    assert not vars(events)["_waiting"]
    await traced(events).call("pid")
    assert (await anext(reader)).name == "tool.call"


@pytest.mark.parametrize("wrong", [{"max_queue": 0}, {"max_queue": 1.5}, {"content": "yes"}], ids=repr)
def test_wrong_options(wrong: Any) -> None:
    """Options of another kind are refused when the sink is made."""
    with pytest.raises(Exception, match=r"^Events: `\w+` must be"):
        Events(**wrong)
    with pytest.raises(SetupError, match=r"^Events\.read: `after` must be"):
        Events().read(cast("Any", b"1-1-1-1"))


async def test_progress_after_the_attempt_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that was abandoned in its first attempt tells nothing in the second one, and nothing after the end."""
    go_on, told, stopped = threading.Event(), threading.Event(), StoppedTime(monkeypatch)
    tools = ToolRegistry()

    @tools.tool(context=True, effect="read")
    def stuck(context: ToolContext) -> int:
        if context.attempt == 1:
            context.progress(1)
            anyio.from_thread.run_sync(stopped.advance, 60)
            go_on.wait(PATIENT)
            context.progress(99, message="late")
            told.set()
        else:
            go_on.set()
            told.wait(PATIENT)
            context.progress(2)
        return context.attempt

    del stuck
    events = Events()
    with events:
        outcome = await traced(events, tools, timeout=60).replace("retry", Retry(sleep=FakeClock().sleep)).call("stuck")
    assert outcome == Success(2)
    assert [event.data["done"] async for event in events if event.name == "tool.progress"] == [1, 2]


async def test_no_secret_is_heard() -> None:
    """No event has a secret, at any time; arguments are heard by opt-in only, and as `redact` returns them."""
    tools = ToolRegistry()

    @tools.tool(context=True, effect="read")
    async def log_in(context: ToolContext, pin: Annotated[str, Secret], card: str) -> str:
        context.progress(1, message=f"trying {pin}")
        return f"welcome {pin} {card}"

    del log_in
    for content in (False, True):
        with Events(content=content) as events:
            trace = Trace(sinks=[events], redact=lambda path, value: "…" if path == "card" else value)
            await standard(tools).replace("trace", trace).call("log_in", {"pin": "hunter2secret", "card": "4111"})
        heard = [event async for event in events]
        assert "hunter2secret" not in repr(heard)
        assert ("arguments" in heard[0].data) is content
        assert "4111" not in repr(heard[0])
        assert [event.data["message"] for event in heard if event.name == "tool.progress"] == ["trying [redacted]"]


async def test_a_listener_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """What a listener raises is logged, and it hears no more; the call goes on."""
    heard: list[Event] = []

    def broken(event: Event) -> None:
        heard.append(event)
        raise RuntimeError("a bug")

    assert await follow(standard(TOOLS), Call("add", {"a": 1, "b": 2}), broken) == Success(3)
    assert len(heard) == 1
    assert "A listener failed" in caplog.messages


async def test_a_live_sink_of_ones_own(caplog: pytest.LogCaptureFixture) -> None:
    """Any object with the three methods hears all calls; one that raises changes nothing for the others."""
    heard: list[Any] = []

    class Sink:
        def call_begins(self, report: LiveReport) -> None:
            heard.append(report.call.id)

        def hear(self, report: LiveReport, row: Row) -> None:
            heard.append(type(row).__name__)

        def call_ends(self, report: CallReport) -> None:
            heard.append(report.outcome)

    class Broken(Sink):
        def call_begins(self, report: LiveReport) -> None:
            raise RuntimeError(report.call.id)

        def hear(self, report: LiveReport, row: Row) -> None:
            raise RuntimeError(row, report)

        def call_ends(self, report: CallReport) -> None:
            raise RuntimeError(report)

    trace = Trace(sinks=[Broken(), Sink()])
    await standard(TOOLS).replace("trace", trace).call("add", {"a": 1, "b": 2}, id="c1")
    assert (heard[0], heard[-2:]) == ("c1", ["Attempt", Success(3)])
    assert "A listener failed" in caplog.messages


async def test_a_cancelled_call_is_heard_to_its_end() -> None:
    """A cancelled call has a result of the kind cancelled, the last of its events."""
    tools, inside = ToolRegistry(), anyio.Event()

    @tools.tool
    async def hang() -> None:
        inside.set()
        await anyio.sleep_forever()

    del hang
    with Events() as events:
        async with anyio.create_task_group() as group:
            group.start_soon(traced(events, tools).call, "hang")
            await inside.wait()
            group.cancel_scope.cancel()
    heard = [event async for event in events]
    assert (heard[-1].name, heard[-1].data["kind"]) == ("tool.result", "cancelled")


async def test_a_pipeline_that_is_not_open_is_heard() -> None:
    """A call that gets into no stage still has a result."""
    outcome, heard = await followed(standard(TOOLS), None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert is_failure(outcome)
    assert names(heard)[-1] == "tool.result"


@pytest.mark.parametrize("where", ["here", "process"])
async def test_a_flood_of_progress_is_bounded(where: str) -> None:
    """A tool that tells 40,000 steps ends, and its last step is heard, also by a reader that comes afterwards."""
    pipeline = standard(TOOLS, executor=Process(workers=1) if where == "process" else None)
    events = Events(max_queue=50)
    began = time.monotonic()
    with anyio.fail_after(PATIENT), events:
        report = await pipeline.report(Call("floods", {"steps": 20_000, "message": "é" * 3000}), listener=events)
    assert report.outcome == Success(20_000)
    assert len(report.progress) <= 10_000
    assert (report.progress[-1].done, report.progress[-1].message) == (20_000, "last")
    read = [event async for event in events]
    assert (read[-1].name, sum(event.name == "tool.dropped" for event in read)) == ("tool.result", 0)
    assert [event.data["done"] for event in read if event.name == "tool.progress"][-1] == 20_000
    if where == "process":
        assert len(report.progress) <= 102 + 100 * (time.monotonic() - began)  # 100 at once, then 100 a second


@pytest.mark.parametrize("listened", [True, False])
@pytest.mark.parametrize("where", ["here", "process"])
async def test_odd_progress(where: str, listened: bool) -> None:
    """Whatever a tool tells, its call succeeds, and the events are JSON that a browser reads."""
    pipeline = standard(TOOLS, executor=Process(workers=1) if where == "process" else None)
    with Events() as events:
        report = await pipeline.report(Call("tells_oddly"), listener=events if listened else None)
        if not listened:
            events(report)
    assert report.error is None
    heard = [event async for event in events if event.name == "tool.progress"]
    assert [event.data["done"] for event in heard] == [None, None, None, 1]
    for event in heard:
        json.loads(encode_sse(event).split(b"data: ")[1], parse_constant=pytest.fail)


async def test_a_worker_that_dies_after_progress() -> None:
    """What a worker has told before it was killed was heard, in each attempt; then its call is lost."""
    pipeline = standard(TOOLS, executor=Process(workers=1)).replace("retry", Retry(sleep=FakeClock().sleep))
    outcome, heard = await followed(pipeline, Call("tells_and_dies"))
    assert is_failure(outcome)
    assert names(heard) == [
        "tool.call",
        *["tool.progress", "tool.attempt", "tool.retry"] * 3,
        "tool.result",
    ]


async def test_what_a_worker_tells_after_its_reply_is_nobodys(gate: Gate) -> None:
    """A thread that a tool has left behind, and a child that it forked, are not heard, and the worker goes on."""
    pipeline = standard(TOOLS, executor=Process(workers=1))
    call = Call("tells_when_it_has_ended", {"gate": gate.path})
    _, heard = await followed(pipeline, call)
    worker = await pipeline.call("pid")
    gate.open()
    for _ in range(20):
        _, more = await followed(pipeline, Call("show_context", {"n": 1}))
        heard += more
    assert {event.data["message"] for event in heard if event.name == "tool.progress"} == {"half"}
    assert await pipeline.call("pid") == worker


def count_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system does not list descriptors")
async def test_progress_leaves_no_descriptor_behind() -> None:
    """Calls that are followed open no descriptor that stays, also if their worker dies."""
    async with Process(workers=1) as executor:
        pipeline = standard(TOOLS, executor=executor, attempts=1)
        await followed(pipeline, Call("show_context", {"n": 1}))
        before = count_descriptors()
        for _ in range(5):
            await followed(pipeline, Call("show_context", {"n": 1}))
            await followed(pipeline, Call("tells_and_dies"))
        await followed(pipeline, Call("show_context", {"n": 1}))
        assert count_descriptors() == before


async def test_a_time_limit_ends_a_tool_that_tells(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call whose time is up while its tool waits in a worker ends, with what was heard until then."""
    stopped, heard = StoppedTime(monkeypatch), list[Event]()
    pipeline = standard(TOOLS, executor=Process(workers=1), attempts=1, timeout=60)

    async def hear(event: Event) -> None:
        await anyio.lowlevel.checkpoint()
        heard.append(event)
        if event.name == "tool.progress":
            stopped.advance(60)

    with anyio.fail_after(PATIENT):
        outcome = await follow(pipeline, Call("tells", {"gate": gate.path}), hear)
    assert is_failure(outcome)
    assert names(heard) == ["tool.call", "tool.progress", "tool.attempt", "tool.retry", "tool.result"]


def read_stream(stream: str) -> list[dict[str, str]]:
    """Read a stream of events as the HTML standard says (9.2.6)."""
    found: list[dict[str, str]] = []
    fields: dict[str, str] = {}
    for line in re.split(r"\r\n|\r|\n", stream):
        if not line:
            if "data" in fields:
                found.append(fields)
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value
    return found


texts = st.text(st.characters(codec=None, exclude_categories=()))


@given(st.lists(st.tuples(texts, texts | st.none(), st.dictionaries(texts, texts | st.integers() | st.none()))))
def test_server_sent_events_are_read_as_they_were(rows: list[Any]) -> None:
    """What a browser reads of the stream are the events, with ids and names, whatever is in them."""
    events = [Event("tool.progress", n, call_id, tool, data, f"x-{n}") for n, (call_id, tool, data) in enumerate(rows)]
    read = read_stream(b"".join(map(encode_sse, events)).decode())
    assert [(each["id"], each["event"]) for each in read] == [(event.id, event.name) for event in events]
    assert [json.loads(each["data"]) for each in read] == [
        {"at": event.at, "call_id": event.call_id, "tool": event.tool, "data": event.data} for event in events
    ]
    assert not encode_sse(Event("tool.call", 0, "", None, {})).startswith(b"id")


def test_an_event_that_was_made_by_hand_forges_no_field() -> None:
    """No name and no id of an event ends its line."""
    sent = encode_sse(Event("a\ndata: b", 0, "", None, {}, "1\r\n\r\nevent: \0c"))
    assert read_stream(sent.decode()) == [
        {"id": "1event: c", "event": "adata: b", "data": '{"at": 0, "call_id": "", "tool": null, "data": {}}'}
    ]
