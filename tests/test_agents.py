"""A turn is one trace: `agent`, and the trace that `gather` and `run_turn` make without one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from opentelemetry import context as otel_context
from opentelemetry.context import attach, detach, set_value
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.trace import get_current_span
from returns.result import Failure

from support import Exported, a_tool
from toolcall_pipeline import Call, Pipeline, SetupError, ToolRegistry, Transient, gather, gather_sync
from toolcall_pipeline.builtin import install
from toolcall_pipeline.dialogue import Answered, Hints, run_turn
from toolcall_pipeline.middlewares import Retry, Trace, standard
from toolcall_pipeline.telemetry import SUPPRESS, agent
from toolcall_pipeline.testing import FakeClock

FIVE = [Call("probe", id=f"c{number}") for number in range(5)]


def traced(exported: Exported, **options: Any) -> Pipeline:
    tools = ToolRegistry()
    tools.register(a_tool())
    return standard(tools, attempts=1).replace("trace", Trace(tracer_provider=exported.provider, **options))


def tops(exported: Exported) -> list[str]:
    """The names of the spans without a parent, and below each the number of calls in its trace."""
    calls = [span for span in exported.spans if span.name.startswith("execute_tool")]
    found: list[str] = []
    for span in exported.spans:
        if span.parent is None and span.context is not None:
            trace_id = span.context.trace_id
            inside = sum(call.context is not None and call.context.trace_id == trace_id for call in calls)
            found.append(f"{span.name}: {inside}")
    return found


@pytest.mark.parametrize("way", ["with", "async with"])
async def test_a_turn_is_one_trace(way: str) -> None:
    """The calls in the block stand under its span, which has the attributes of the conventions."""
    exported = Exported()
    pipeline = traced(exported)
    made = agent("helper", conversation_id="talk-7", tracer_provider=exported.provider)
    if way == "with":
        with made as span:
            await pipeline.call("probe")
            span.set_attribute("app.reply", 1)
    else:
        async with made as span:
            await pipeline.call("probe")
            span.set_attribute("app.reply", 1)
    assert tops(exported) == ["invoke_agent helper: 1"]
    top = exported.spans[-1]
    assert dict(top.attributes or {}) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "helper",
        "gen_ai.conversation.id": "talk-7",
        "app.reply": 1,
    }
    assert top.kind.name == "INTERNAL"
    assert top.status.status_code.name == "UNSET"
    assert not get_current_span().get_span_context().is_valid


@pytest.mark.parametrize("is_traced", [True, False], ids=["traced", "without Trace"])
async def test_the_agent_is_on_the_log_records_of_its_calls(caplog: pytest.LogCaptureFixture, is_traced: bool) -> None:
    """The record of a failure, of a repeated attempt and of the flow names agent and conversation, as the span does."""
    caplog.set_level(logging.DEBUG, "toolcall_pipeline")
    answers = iter((Failure(Transient()), Failure(Transient()), "fine"))

    async def flaky(**_: object) -> object:
        return next(answers)

    tools = ToolRegistry()
    tools.register(a_tool(fn=flaky))
    pipeline = standard(tools).replace("retry", Retry(sleep=FakeClock().sleep))
    exported = Exported()
    pipeline = pipeline.replace("trace", Trace(tracer_provider=exported.provider)) if is_traced else pipeline
    with agent("helper", conversation_id="talk-7", tracer_provider=exported.provider):
        await pipeline.call("probe")
        await pipeline.call("prob")
    inside = [vars(record) for record in caplog.records]
    await pipeline.call("prob")
    outside = [vars(record) for record in caplog.records[len(inside) :]]
    named = [(each.get("gen_ai.agent.name"), each.get("gen_ai.conversation.id")) for each in inside]
    assert len(named) == 5  # two attempts that are repeated, a failure, and the flow of two calls
    assert set(named) == {("helper", "talk-7")}
    assert not any("gen_ai.agent.name" in each or "gen_ai.conversation.id" in each for each in outside)


@pytest.mark.parametrize("defer", [False, True])
@pytest.mark.parametrize("sinks", [[], [repr]], ids=["alone", "with a sink"])
async def test_the_agent_is_on_the_spans_and_metrics_of_its_calls(defer: bool, sinks: list[Any]) -> None:
    """A call span has the agent's name and the conversation, a metric the name alone, and nothing outside has any."""
    exported, reader = Exported(), InMemoryMetricReader()
    provider = MeterProvider([reader])
    pipeline = traced(exported, meter_provider=provider, defer=defer, stage_durations=True, sinks=sinks)
    with agent("helper", conversation_id="talk-7", tracer_provider=exported.provider):
        await pipeline.call("prob")
    await pipeline.call("probe")
    data: Any = reader.get_metrics_data()
    named = {"execute_tool _OTHER": ("helper", "talk-7"), "execute_tool probe": (None, None)}
    for span in exported.spans:
        facts = span.attributes or {}
        if span.name in named:
            assert (facts.get("gen_ai.agent.name"), facts.get("gen_ai.conversation.id")) == named[span.name]
        elif span.name != "invoke_agent helper":
            assert "gen_ai.agent.name" not in facts
    points = {
        (metric.name, point.attributes["gen_ai.tool.name"]): point.attributes
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        for point in metric.data.data_points
        if "error.type" in point.attributes or point.attributes["gen_ai.tool.name"] == "probe"
    }
    assert points["gen_ai.execute_tool.duration", "_OTHER"]["gen_ai.agent.name"] == "helper"
    assert points["toolcall.stage.duration", "_OTHER"]["gen_ai.agent.name"] == "helper"
    assert "gen_ai.agent.name" not in points["gen_ai.execute_tool.duration", "probe"]
    assert not any("gen_ai.conversation.id" in attributes for attributes in points.values())


async def test_an_agent_within_an_agent() -> None:
    """A block in a block is in its trace and its conversation, under its own name."""
    exported = Exported()
    pipeline = traced(exported)
    with agent("planner", conversation_id="talk-7", tracer_provider=exported.provider):
        async with agent("searcher", tracer_provider=exported.provider):
            await pipeline.call("probe")
        await pipeline.call("probe")
    assert tops(exported) == ["invoke_agent planner: 2"]
    calls = [span.attributes or {} for span in exported.spans if span.name == "execute_tool probe"]
    assert [each["gen_ai.agent.name"] for each in calls] == ["searcher", "planner"]
    assert [each["gen_ai.conversation.id"] for each in calls] == ["talk-7"] * 2


async def test_agents_beside_each_other() -> None:
    """Turns that run at once have a trace each, and each call has the name of its own agent."""
    exported = Exported()
    pipeline = traced(exported)
    inside = anyio.Event()

    async def turn(name: str) -> None:
        with agent(name, tracer_provider=exported.provider):
            if name == "one":
                await inside.wait()
            await pipeline.call("probe")
            inside.set()

    async with anyio.create_task_group() as group:
        group.start_soon(turn, "one")
        group.start_soon(turn, "two")
    assert sorted(tops(exported)) == ["invoke_agent one: 1", "invoke_agent two: 1"]
    names = {span.context.span_id: span.name for span in exported.spans if span.context}
    calls = [span for span in exported.spans if span.name == "execute_tool probe"]
    for span in calls:
        facts: Any = span.attributes
        assert span.parent
        assert names[span.parent.span_id] == f"invoke_agent {facts['gen_ai.agent.name']}"


@pytest.mark.parametrize(
    ("error", "kind"), [(ValueError("secret"), "ValueError"), (ExceptionGroup("", [ValueError()]), "ExceptionGroup")]
)
async def test_an_exception_makes_the_turn_red(error: Exception, kind: str) -> None:
    """An exception leaves the block as it is, and its class is on the span, its text nowhere."""
    exported = Exported()
    with pytest.raises(type(error)), agent("helper", tracer_provider=exported.provider):
        raise error
    (top,) = exported.spans
    assert (top.attributes or {})["error.type"] == kind
    assert top.status.status_code.name == "ERROR"
    assert "secret" not in top.to_json()


@pytest.mark.parametrize("way", ["agent", "gather", "run_turn"])
async def test_a_cancelled_turn(way: str) -> None:
    """A cancelled turn ends its span as cancelled, the calls in it stay under it, and the context is as before."""
    exported = Exported()
    began = anyio.Event()

    async def hang(**_: object) -> None:
        began.set()
        await anyio.sleep_forever()

    tools = ToolRegistry()
    tools.register(a_tool(fn=hang))
    pipeline = standard(tools).replace("trace", Trace(tracer_provider=exported.provider))

    async def turn() -> None:
        before = otel_context.get_current()
        try:
            if way == "agent":
                with agent("helper", tracer_provider=exported.provider):
                    await pipeline.call("probe")
            elif way == "gather":
                await gather(pipeline, [Call("probe"), Call("probe")])
            else:
                await run_turn(give_up, [Call("probe")], pipeline)
        finally:
            assert otel_context.get_current() == before

    async with anyio.create_task_group() as group:
        group.start_soon(turn)
        await began.wait()
        group.cancel_scope.cancel()
    (top,) = [span for span in exported.spans if span.parent is None]
    assert top.name.startswith("invoke_agent")
    assert (top.attributes or {})["error.type"] == "cancelled"
    assert len({span.context.trace_id for span in exported.spans if span.context}) == 1


async def give_up(answered: Sequence[Answered], guidance: str, hints: Hints, /) -> list[Call]:
    return []


async def test_gather_makes_one_trace() -> None:
    """Without a span around it, all its calls stand under one `invoke_agent`, and no calls leave no span."""
    exported = Exported()
    await gather(traced(exported), FIVE)
    assert tops(exported) == ["invoke_agent: 5"]
    top = exported.spans[-1]
    assert dict(top.attributes or {}) == {"gen_ai.operation.name": "invoke_agent"}
    before = len(exported.spans)
    await gather(traced(exported), [])
    await run_turn(give_up, [], traced(exported))
    assert len(exported.spans) == before


async def test_gather_is_no_span_in_a_span() -> None:
    """Within any span its calls stand under that, and none is added."""
    exported = Exported()
    with exported.provider.get_tracer("app").start_as_current_span("request"):
        await gather(traced(exported), FIVE)
    assert tops(exported) == ["request: 5"]
    assert not any(span.name.startswith("invoke_agent") for span in exported.spans)


def test_gather_sync_in_the_block_of_an_agent() -> None:
    """Code without an event loop has one trace as well."""
    exported = Exported()
    with agent("helper", tracer_provider=exported.provider):
        gather_sync(traced(exported), FIVE)
    gather_sync(traced(exported), FIVE)
    assert tops(exported) == ["invoke_agent helper: 5", "invoke_agent: 5"]


@pytest.mark.parametrize("around", [False, True])
async def test_run_turn_makes_one_trace(around: bool) -> None:
    """All attempts at all calls of a turn, and what the model's client records, are one trace."""
    exported = Exported()
    tracer = exported.provider.get_tracer("app")

    async def model(answered: Sequence[Answered], guidance: str, hints: Hints, /) -> list[Call]:
        with tracer.start_as_current_span("chat"):
            return [Call("probe"), Call("probe")]

    calls = [Call("prob"), Call("bad")]
    if around:
        with agent("helper", tracer_provider=exported.provider):
            turn = await run_turn(model, calls, traced(exported))
    else:
        turn = await run_turn(model, calls, traced(exported))
    assert turn.attempts == 2
    assert tops(exported) == ["invoke_agent helper: 4" if around else "invoke_agent: 4"]
    assert len({span.context.trace_id for span in exported.spans if span.context}) == 1
    assert sum(span.name == "chat" for span in exported.spans) == 1


async def test_a_batch_stays_in_the_trace_of_its_call() -> None:
    """The calls in a batch stand under the attempt of the batch, with the name of the agent."""
    exported = Exported()
    tools = ToolRegistry()
    tools.register(a_tool())
    pipeline = standard(tools).replace("trace", Trace(tracer_provider=exported.provider))
    install(tools, pipeline)
    with agent("helper", tracer_provider=exported.provider):
        await pipeline.call("batch", {"calls": [{"tool": "probe"}] * 3})
    assert tops(exported) == ["invoke_agent helper: 4"]
    names = [(span.attributes or {}).get("gen_ai.agent.name") for span in exported.spans if "execute_tool" in span.name]
    assert names == ["helper"] * 4


async def test_nobody_records() -> None:
    """Without a provider no span is made or attached; the agent's name is known all the same, for metrics."""
    seen: list[Any] = []
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def look() -> None:
        seen.append((get_current_span().get_span_context().is_valid, dict(otel_context.get_current())))

    pipeline = standard(tools)
    await gather(pipeline, [Call("look")])
    await run_turn(give_up, [Call("look")], pipeline)
    await gather(pipeline.without("trace"), [Call("look")])
    with agent("helper") as span:
        await gather(pipeline, [Call("look")])
        assert not span.is_recording()
    reader = InMemoryMetricReader()
    with agent("helper"):
        await gather(pipeline.replace("trace", Trace(meter_provider=MeterProvider([reader]))), [Call("look")])
    assert [valid for valid, _ in seen] == [False] * 5
    assert [sorted(context) for _, context in seen] == [[], [], [], ["toolcall.agent"], ["toolcall.agent"]]
    data: Any = reader.get_metrics_data()
    duration = next(each for each in data.resource_metrics[0].scope_metrics[0].metrics if "duration" in each.name)
    assert duration.data.data_points[0].attributes["gen_ai.agent.name"] == "helper"


async def test_a_turn_that_is_sampled_out() -> None:
    """If the span of a turn is sampled out, so are all calls in it: a turn is recorded whole or not at all."""
    exported = Exported(sampler=ParentBased(ALWAYS_OFF))
    await gather(traced(exported), FIVE)
    assert not exported.spans
    half = Exported(sampler=ParentBased(TraceIdRatioBased(0.5)))
    for _ in range(20):
        await gather(traced(half), FIVE)
    assert set(tops(half)) <= {"invoke_agent: 5"}


async def test_suppressed() -> None:
    """Where instrumentation is suppressed, there is no span of a turn."""
    exported = Exported()
    token = attach(set_value(SUPPRESS, True))
    try:
        await gather(traced(exported), FIVE)
        with agent("helper", tracer_provider=exported.provider):
            await traced(exported).call("probe")
    finally:
        detach(token)
    assert not exported.spans


class Refusing(SpanProcessor):
    """A span processor with a bug."""

    def on_start(self, span: object, parent_context: object = None) -> None:
        raise RuntimeError

    def on_end(self, span: object) -> None:
        raise RuntimeError


async def test_a_provider_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """If the span of a turn cannot be started, that is logged, and the turn runs."""
    exported = Exported()
    exported.provider.add_span_processor(Refusing())
    with agent("helper", tracer_provider=exported.provider):
        outcomes = await gather(traced(exported), FIVE)
    assert [outcome.unwrap() for outcome in outcomes] == ["done"] * 5
    assert "The span of a turn could not be started" in caplog.messages


async def test_the_kind_of_a_turn_for_phoenix() -> None:
    """With OpenInference's attributes, the span that gather makes has its kind."""
    exported = Exported()
    await gather(traced(exported, openinference=True), FIVE)
    assert (exported.spans[-1].attributes or {})["openinference.span.kind"] == "AGENT"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"name": ""}, "agent: `name` must be a text that is not empty, not ''"),
        ({"name": None}, "agent: `name` must be a text that is not empty, not None"),
        ({"name": "a", "conversation_id": 7}, "agent: `conversation_id` must be a str, not 7"),
        ({"name": "a", "tracer_provider": 7}, "agent: `tracer_provider` must be a TracerProvider or None, not 7"),
    ],
)
def test_set_up_errors(options: dict[str, Any], text: str) -> None:
    """A name or an id that is none is refused."""
    with pytest.raises(SetupError, match=text):
        agent(**options)


def test_a_block_is_one_turn() -> None:
    """A block that was entered is not entered again: each turn has a span of its own."""
    made = agent("helper")
    with made, pytest.raises(SetupError, match="entered before"):
        made.__enter__()
    with pytest.raises(SetupError, match="entered before"):
        made.__enter__()


def test_names_of_any_length() -> None:
    """A long name, and one that no exporter could encode, are recorded cut and escaped."""
    exported = Exported()
    with agent("a\udcff" * 1000, conversation_id="b\udcff" * 1000, tracer_provider=exported.provider):
        pass
    (top,) = exported.spans
    assert top.name == "invoke_agent " + "a?" * 64
    assert (top.attributes or {})["gen_ai.conversation.id"] == "b?" * 64
