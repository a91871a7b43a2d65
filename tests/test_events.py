"""Events and sinks: the report of a call, told to whoever asked for it."""

from __future__ import annotations

import json
import logging
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from returns.result import Failure

from middlewares import Retry, Trace, standard
from pipeline import CallReport, Pipeline, ToolContext, ToolRegistry, Transient
from pipeline.telemetry.events import Event, Events, events_of
from support import Exported, a_tool


async def no_wait(_seconds: float) -> None:
    """Nobody waits in a test."""


def told_to(*sinks: Any, fn: Any = None, **options: Any) -> Pipeline:
    tools = ToolRegistry()
    tools.register(a_tool(**({"fn": fn} if fn is not None else {})))
    observer = Trace(sinks=sinks, **options)
    return standard(tools).replace("trace", observer).replace("retry", Retry(first_delay=0, sleep=no_wait))


async def test_a_sink_gets_each_report() -> None:
    """Without any tracer a callback is told of every call, with all its stages."""
    told: list[CallReport] = []
    pipeline = told_to(told.append)
    await pipeline.call("probe", id="c1")
    await pipeline.call("prob", id="c2")
    assert [(each.call.id, each.error is None, len(each.stages)) for each in told] == [
        ("c1", True, 5),
        ("c2", False, 1),
    ]


async def test_a_sink_hears_of_what_was_sampled_out() -> None:
    """Sampling is the tracer's affair."""
    told: list[CallReport] = []
    exported = Exported(sampler=ALWAYS_OFF)
    await told_to(told.append, tracer_provider=exported.provider).call("probe")
    assert (len(told), exported.spans) == (1, ())


async def test_a_sink_with_a_bug_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It is told in the log; the outcome and the other sinks are as ever."""
    told: list[CallReport] = []

    def broken(_report: CallReport) -> None:
        raise RuntimeError("a bug")

    outcome = await told_to(broken, told.append).call("probe")
    assert (outcome.unwrap(), len(told)) == ("done", 1)
    assert "A listener failed" in caplog.text


async def test_events_are_the_story_in_its_order() -> None:
    """Call, stages, attempts with the retry between, and the result with the text for the model at the end."""
    answers = iter((Failure(Transient(retry_after=1.0)), "fine"))

    async def flaky(**_: object) -> object:
        return next(answers)

    with Events() as events:
        await told_to(events, fn=flaky).call("functions.probe", id="c1")
        events.close()
        told = [event async for event in events]
    assert [each.name for each in told if each.name != "tool.stage"] == [
        "tool.call",
        "tool.attempt",
        "tool.retry",
        "tool.attempt",
        "tool.result",
    ]
    assert {(each.call_id, each.tool) for each in told} == {("c1", "probe")}
    assert [each.at for each in told] == sorted(each.at for each in told)
    assert told[0].data == {"requested": "functions.probe", "repairs": [{"path": "name", "rule": "transport_noise"}]}
    result = told[-1].data
    assert (result["ok"], result["kind"], result["text"]) == (True, None, "fine")
    json.dumps([each.data for each in told])


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        pytest.param("prob", (False, "unknown_tool", "not_found"), id="failure"),
        pytest.param("probe", (True, None, None), id="success"),
    ],
)
async def test_the_result_is_that_of_the_outcome(name: str, facts: tuple[Any, ...]) -> None:
    """ok, kind and error type are those of the outcome, and the text is never empty."""
    told: list[Event] = []

    def tell_all(report: CallReport) -> None:
        told.extend(events_of(report))

    await told_to(tell_all).call(name)
    data = told[-1].data
    assert (data["ok"], data["kind"], data["error_type"]) == facts
    assert data["text"]


async def test_progress_is_told() -> None:
    """How far a tool said it had come is an event for each time that it said so."""
    tools = ToolRegistry()

    @tools.tool(context=True)
    async def work(context: ToolContext) -> None:
        context.progress(1, 2, "half")

    told: list[Event] = []
    sink = Trace(sinks=[lambda report: told.extend(events_of(report))])
    await standard(tools).replace("trace", sink).call("work")
    (progress,) = [each.data for each in told if each.name == "tool.progress"]
    assert progress == {"done": 1, "total": 2, "message": "half"}


async def test_a_cancelled_call_is_an_event() -> None:
    """What was cancelled has no outcome, and is told as cancelled."""
    told: list[Event] = []
    inside = anyio.Event()

    def tell_all(report: CallReport) -> None:
        told.extend(events_of(report))

    async def wait(**_: object) -> None:
        inside.set()
        await anyio.sleep_forever()

    pipeline = told_to(tell_all, fn=wait)
    async with anyio.create_task_group() as group:
        group.start_soon(pipeline.call, "probe")
        await inside.wait()
        group.cancel_scope.cancel()
    assert (told[-1].data["ok"], told[-1].data["kind"], told[-1].data["text"]) == (False, "cancelled", "")


async def test_a_slow_reader_loses_events_and_holds_up_nobody() -> None:
    """What does not fit is dropped and counted."""
    with Events(size=2) as events:
        await told_to(events).call("probe")
        assert events.dropped == 6


async def test_the_debug_log_has_the_flow(caplog: pytest.LogCaptureFixture) -> None:
    """At debug each call is one record with its stages, in a logger of its own; at any other level there is none."""
    caplog.set_level(logging.DEBUG, logger="toolcall_pipeline.flow")
    await told_to().call("probe", id="c1")
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("toolcall_pipeline.flow", logging.DEBUG)
    for words in ("'probe': success in", "resolve 0.", "execute ", "(call 'c1')"):
        assert words in record.getMessage()
    caplog.clear()
    caplog.set_level(logging.INFO, logger="toolcall_pipeline.flow")
    await told_to().call("probe")
    assert caplog.records == []


async def test_a_record_names_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    """The log of a failure carries the ids of the call's trace and span, as hexadecimal digits."""
    exported = Exported()
    await told_to(tracer_provider=exported.provider).call("prob")
    (record,) = caplog.records
    (root,) = [span for span in exported.spans if span.parent is None]
    assert root.context
    facts = vars(record)
    assert (facts["trace_id"], facts["span_id"]) == (f"{root.context.trace_id:032x}", f"{root.context.span_id:016x}")
