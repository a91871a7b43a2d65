"""Sinks, which get the report of every call, and the events made from it."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from returns.result import Failure, Success

from support import Exported, a_tool
from toolcall_pipeline import Call, CallReport, Pipeline, ToolContext, ToolRegistry, Transient
from toolcall_pipeline.middlewares import Retry, Trace, standard
from toolcall_pipeline.telemetry import Event, Events, events_of, follow
from toolcall_pipeline.telemetry.event_rows import PROGRESS
from toolcall_pipeline.testing import FakeClock


def listened_to(*sinks: Any, fn: Any = None, **options: Any) -> Pipeline:
    tools = ToolRegistry()
    tools.register(a_tool(**({"fn": fn} if fn is not None else {})))
    observer = Trace(sinks=sinks, **options)
    return standard(tools).replace("trace", observer).replace("retry", Retry(sleep=FakeClock().sleep))


async def test_a_sink_gets_each_report() -> None:
    """A sink gets the report of every call with all its stages, also without a tracer provider."""
    reports: list[CallReport] = []
    pipeline = listened_to(reports.append)
    await pipeline.call("probe", id="c1")
    await pipeline.call("prob", id="c2")
    assert [(each.call.id, each.error is None, len(each.stages)) for each in reports] == [
        ("c1", True, 5),
        ("c2", False, 1),
    ]


async def test_sampling_does_not_concern_sinks() -> None:
    """A sink gets the report of a call that is sampled out too."""
    reports: list[CallReport] = []
    exported = Exported(sampler=ALWAYS_OFF)
    await listened_to(reports.append, tracer_provider=exported.provider).call("probe")
    assert (len(reports), exported.spans) == (1, ())


async def test_a_sink_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """What a sink raises is logged; the outcome stands, and the other sinks get their reports."""
    reports: list[CallReport] = []

    def broken(_report: CallReport) -> None:
        raise RuntimeError("a bug")

    outcome = await listened_to(broken, reports.append).call("probe")
    assert (outcome.unwrap(), len(reports)) == ("done", 1)
    assert "A listener failed" in caplog.messages


ODD = [SystemExit, GeneratorExit, asyncio.CancelledError, BaseException]
ROLES = ["sinks", "live sinks", "redact", "attributes", "a text of the user's"]


def one_that_raises(role: str, error: BaseException) -> dict[str, Any]:
    """The options of a Trace with foreign code in that role that raises the error."""

    def raises(*_: Any) -> Any:
        raise error

    class Sink:
        call_begins = hear = call_ends = raises

    class Odd(str):
        __slots__ = ()
        encode: Any = raises

    def name(_: Call) -> dict[str, str]:
        return {"app.name": Odd("x")}

    exported = Exported()
    options: dict[str, dict[str, Any]] = {
        "sinks": {"sinks": [raises]},
        "live sinks": {"sinks": [Sink()]},
        "redact": {"redact": raises, "content": True},
        "attributes": {"attributes": raises},
        "a text of the user's": {"attributes": name},
    }
    return {"tracer_provider": exported.provider, **options[role]}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("error", ODD)
async def test_no_class_of_exception_of_a_listener_changes_the_outcome(role: str, error: type[BaseException]) -> None:
    """Whatever a sink or a function of the application's raises, the call succeeds, and the other sinks hear of it."""
    reports: list[CallReport] = []
    options = one_that_raises(role, error())
    sinks = [*options.pop("sinks", ()), reports.append]
    outcome = await listened_to(*sinks, **options).call("probe")
    assert (outcome.unwrap(), len(reports)) == ("done", 1)


@pytest.mark.parametrize("role", ["sinks", "live sinks", "redact", "attributes"])
def test_an_interrupt_from_the_keyboard_passes_a_listener(role: str) -> None:
    """A person who interrupts the process while a listener runs in the main thread does interrupt it."""
    options = one_that_raises(role, KeyboardInterrupt())
    sinks = options.pop("sinks", ())
    with pytest.raises(KeyboardInterrupt):
        anyio.run(listened_to(*sinks, **options).call, "probe", {"a": 1})


async def test_events_are_in_order() -> None:
    """The events of a call are in order of time: call, stages, attempts with a retry between, and the result last."""
    answers = iter((Failure(Transient(retry_after=1.0)), "fine"))

    async def flaky(**_: object) -> object:
        return next(answers)

    with Events() as sink:
        await listened_to(sink, fn=flaky).call("functions.probe", id="c1")
        sink.close()
        events = [event async for event in sink]
    assert [each.name for each in events if each.name != "tool.stage"] == [
        "tool.call",
        "tool.attempt",
        "tool.retry",
        "tool.attempt",
        "tool.result",
    ]
    assert {(each.call_id, each.tool) for each in events} == {("c1", "probe")}
    assert [each.at for each in events] == sorted(each.at for each in events)
    assert events[0].data == {"requested": "functions.probe", "repairs": [{"path": "name", "rule": "transport_noise"}]}
    result = events[-1].data
    assert (result["ok"], result["kind"], result["text"]) == (True, None, "fine")
    json.dumps([each.data for each in events])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("prob", (False, "unknown_tool", "not_found"), id="failure"),
        pytest.param("probe", (True, None, None), id="success"),
    ],
)
async def test_the_result_agrees_with_the_outcome(name: str, expected: tuple[Any, ...]) -> None:
    """The result has ok, kind and error type of the outcome, and a text for the model."""
    events: list[Event] = []

    def collect(report: CallReport) -> None:
        events.extend(events_of(report))

    await listened_to(collect).call(name)
    data = events[-1].data
    assert (data["ok"], data["kind"], data["error_type"]) == expected
    assert data["text"]


async def test_progress() -> None:
    """Each progress report of a tool is an event."""
    tools = ToolRegistry()

    @tools.tool(context=True)
    async def work(context: ToolContext) -> None:
        context.progress(1, 2, "half")

    events: list[Event] = []
    sink = Trace(sinks=[lambda report: events.extend(events_of(report))])
    await standard(tools).replace("trace", sink).call("work")
    (progress,) = [each.data for each in events if each.name == "tool.progress"]
    assert progress == {"done": 1, "total": 2, "message": "half"}


async def test_a_cancelled_call() -> None:
    """The result of a cancelled call has the kind cancelled and no text."""
    events: list[Event] = []
    inside = anyio.Event()

    def collect(report: CallReport) -> None:
        events.extend(events_of(report))

    async def wait(**_: object) -> None:
        inside.set()
        await anyio.sleep_forever()

    pipeline = listened_to(collect, fn=wait)
    async with anyio.create_task_group() as group:
        group.start_soon(pipeline.call, "probe")
        await inside.wait()
        group.cancel_scope.cancel()
    assert (events[-1].data["ok"], events[-1].data["kind"], events[-1].data["text"]) == (False, "cancelled", "")


async def test_a_slow_reader_loses_events_and_delays_nobody() -> None:
    """Events that do not fit into the queue are dropped and counted."""
    with Events(max_queue=2) as events:
        await listened_to(events).call("probe")
        assert events.dropped == 6


async def test_lost_events_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """The log says it at the first of them; lost progress, of which another one follows, is not worth a word."""
    told: list[int] = []
    with Events(max_queue=1) as events:
        for name in (PROGRESS, PROGRESS, "tool.call", "tool.stage", PROGRESS, "tool.result"):
            for _ in range(2):
                vars(Events)["_add"](events, Event(name, 0, "c1", "probe", {}))
            told.append(sum("Events are dropped" in each.getMessage() for each in caplog.records))
    assert told[:2] == [0, 0]
    assert set(told[3:]) == {1}


async def test_a_reader_that_lost_events_counts_them() -> None:
    """Lost progress is only counted, wherever it was lost; other events have a ``tool.dropped`` in their place."""
    tools = ToolRegistry()

    @tools.tool(context=True, effect="read")
    async def chatter(context: ToolContext) -> None:
        for n in range(50):
            context.progress(n)

    for size, marks in ((12, 0), (3, 1)):
        with Events(max_queue=size) as events:
            pipeline = standard(tools).replace("trace", Trace(sinks=[events]))
            reader = events.read()
            await pipeline.call("chatter")
            read = [await anext(reader)]
            await pipeline.call("chatter")
        read += [event async for event in reader]
        real = [event for event in read if event.name != "tool.dropped"]
        assert len(real) + reader.dropped == 2 * 58
        assert len(read) - len(real) >= marks
        assert read[-1].name == "tool.result"


async def test_who_follows_a_call_gets_its_outcome(caplog: pytest.LogCaptureFixture) -> None:
    """The listener hears the events of the call; if it raises, that is logged, and the call goes on."""
    tools = ToolRegistry()
    tools.register(a_tool())
    heard: list[Event] = []

    def broken(event: Event) -> None:
        raise RuntimeError(event.name)

    for listener in (heard.append, broken):
        assert await follow(standard(tools), Call("probe"), listener) == Success("done")
    assert (heard[0].name, heard[-1].name) == ("tool.call", "tool.result")
    assert caplog.messages == ["A listener failed"]


async def test_the_debug_log_has_the_flow(caplog: pytest.LogCaptureFixture) -> None:
    """At debug level each call is one record with its stages, in a logger of its own; at other levels there is none."""
    caplog.set_level(logging.DEBUG, logger="toolcall_pipeline.flow")
    await listened_to().call("probe", id="c1")
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("toolcall_pipeline.flow", logging.DEBUG)
    for text in ("'probe': success in", "resolve 0.", "execute ", "(call 'c1')"):
        assert text in record.getMessage()
    caplog.clear()
    caplog.set_level(logging.INFO, logger="toolcall_pipeline.flow")
    await listened_to().call("probe")
    assert caplog.records == []


async def test_a_record_has_trace_ids(caplog: pytest.LogCaptureFixture) -> None:
    """The log record of a failure has the ids of the trace and of the call span, as hexadecimal digits."""
    exported = Exported()
    await listened_to(tracer_provider=exported.provider).call("prob")
    (record,) = caplog.records
    (root,) = [span for span in exported.spans if span.parent is None]
    assert root.context
    extra = vars(record)
    assert (extra["trace_id"], extra["span_id"]) == (f"{root.context.trace_id:032x}", f"{root.context.span_id:016x}")
