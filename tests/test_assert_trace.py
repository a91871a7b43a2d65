"""assert_trace: it accepts every trace that the pipeline makes, and names the rule that any other trace breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import anyio
import attrs
import pytest
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags
from returns.result import Failure, Success

from error_cases import EACH_KIND
from support import StageTime, a_tool
from toolcall_pipeline import (
    Call,
    CallReport,
    Handler,
    Outcome,
    Pipeline,
    ResolvedCall,
    SetupError,
    Stack,
    ToolError,
    ToolRegistry,
    Transient,
    gather,
)
from toolcall_pipeline.base.semconv import SCOPE, STAGE_DURATION
from toolcall_pipeline.middlewares import Retry, Timeout, Trace, standard
from toolcall_pipeline.telemetry.span_tree import FinishedSpan
from toolcall_pipeline.testing import FakeClock, RecordedSpans, assert_trace, recorded_spans, script


@pytest.fixture
def recorded() -> Iterator[RecordedSpans]:
    with recorded_spans() as recorded:
        yield recorded


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> StageTime:
    return StageTime(monkeypatch)


def traced(recorded: RecordedSpans, *tools: Any, **options: Any) -> Pipeline:
    registry = ToolRegistry()
    for each in tools or (a_tool(),):
        registry.register(each)
    observer = Trace(tracer_provider=recorded.tracer_provider, **options)
    return standard(registry).replace("trace", observer).replace("retry", Retry(sleep=FakeClock().sleep))


def failing(*failures: Exception) -> Callable[..., Any]:
    """A tool function that raises these, one at each run, then succeeds."""
    left = list(failures)

    async def fail(**_: object) -> str:
        if left:
            raise left.pop(0)
        return "done"

    return fail


def in_a_thread(**_: object) -> str:
    return "done"


def answering(error: ToolError) -> Callable[..., Any]:
    async def answer(**_: object) -> Outcome:
        return Failure(error)

    return answer


@pytest.mark.parametrize("defer", [False, True])
@pytest.mark.parametrize("error", EACH_KIND, ids=lambda error: error.kind)
async def test_a_failure_of_any_kind(recorded: RecordedSpans, error: ToolError, defer: bool) -> None:
    """Whatever kind of error a tool fails with, the trace is accepted and agrees with the report."""
    report = await traced(recorded, a_tool(fn=answering(error)), defer=defer).report(Call("probe"))
    assert type(report.error) is type(error)
    assert_trace(recorded.spans, reports=[report])


REAL: dict[str, tuple[Any, Call]] = {
    "success": (a_tool(), Call("probe", id="call_1")),
    "a repaired name": (a_tool(), Call("functions.probe")),
    "unknown name": (a_tool(), Call("prob")),
    "malformed": (a_tool(), Call("probe", "[]")),
    "a name that is not text": (a_tool(), Call(7)),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "retried success": (lambda: a_tool(fn=failing(ConnectionError(), ConnectionError())), Call("probe")),
    "attempts used up": (lambda: a_tool(fn=failing(*[ConnectionError()] * 9)), Call("probe")),
    "lost mutation": (lambda: a_tool(effect="mutating", fn=failing(ConnectionError())), Call("probe")),
    "crash": (lambda: a_tool(fn=failing(RuntimeError())), Call("probe")),
    "the call's own time is up": (a_tool(fn=anyio.sleep_forever), Call("probe", timeout=0.05)),
    "in a thread": (a_tool(fn=in_a_thread), Call("probe")),
}


OPTIONS = {
    "default": {},
    "deferred": {"defer": True},
    "without stages": {"stages": False},
    "both": {"defer": True, "stages": False},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize(("tool", "call"), REAL.values(), ids=REAL)
async def test_every_trace_of_the_pipeline_is_accepted(
    recorded: RecordedSpans, tool: Any, call: Call, options: dict[str, bool]
) -> None:
    """The trace of every way in which a call can end is accepted, and agrees with its report."""
    report = await traced(recorded, tool() if callable(tool) else tool, **options).report(call)
    assert_trace(recorded.spans, calls=1, reports=[report], stages=options.get("stages", True))


async def test_a_cancelled_call(recorded: RecordedSpans) -> None:
    """The trace of a cancelled call is accepted, with `cancelled` as its error.type."""
    with anyio.move_on_after(0.05):
        await traced(recorded, a_tool(fn=anyio.sleep_forever)).call("probe")
    assert_trace(recorded.spans, calls=1)
    root = next(span for span in recorded.spans if span.parent is None)
    assert (root.attributes or {})["error.type"] == "cancelled"
    with pytest.raises(AssertionError, match=r"the error\.type of a call is that of the report, none"):
        assert_trace(recorded.spans, reports=[CallReport(Call("probe"), outcome=Success(1))])


async def test_attempts_that_timed_out(recorded: RecordedSpans) -> None:
    """The trace of attempts that a time limit ended is accepted, with their stages cancelled."""
    pipeline = traced(recorded, a_tool(fn=anyio.sleep_forever)).after("retry", Timeout(0.02))
    assert_trace(recorded.spans, calls=0)
    report = await pipeline.report(Call("probe"))
    assert [attempt.verdict for attempt in report.attempts] == ["timeout"] * 3
    assert_trace(recorded.spans, reports=[report])


async def test_many_calls_at_once(recorded: RecordedSpans) -> None:
    """The traces of concurrent calls are compared each with its own report."""
    pipeline = traced(recorded, a_tool(), a_tool("crash", fn=failing(*[RuntimeError()] * 40)))
    reports: list[CallReport] = []

    async def run(name: str) -> None:
        reports.append(await pipeline.report(Call(name)))

    async with anyio.create_task_group() as group:
        for name in ("probe", "crash", "prob") * 10:
            group.start_soon(run, name)
    assert_trace(recorded.spans, reports=reports)


async def test_calls_under_a_span_that_has_not_ended(recorded: RecordedSpans) -> None:
    """The caller's own span may still be open, and does not count as a call."""
    pipeline = traced(recorded)
    with recorded.tracer_provider.get_tracer("agent").start_as_current_span("turn"):
        await gather(pipeline, [Call("probe"), Call("probe")])
        assert_trace(recorded.spans, calls=2)
    assert_trace(recorded.spans, calls=2)


async def test_spans_of_other_libraries(recorded: RecordedSpans) -> None:
    """Spans that a tool or a middleware made are ignored, wherever they stand."""
    tracer = recorded.tracer_provider.get_tracer("other")

    async def work() -> str:
        span = tracer.start_span("never under its own name", attributes={"gen_ai.operation.name": "chat"})
        span.set_status(StatusCode.OK)
        span.end(1)
        return "done"

    async def around(call: ResolvedCall, call_next: Handler[ResolvedCall]) -> Outcome:
        with tracer.start_as_current_span("around"):
            return await call_next(call)

    report = await traced(recorded, a_tool(fn=work)).before("retry", around).report(Call("probe"))
    assert_trace(recorded.spans, reports=[report])


async def test_a_pipeline_in_a_tool(recorded: RecordedSpans) -> None:
    """A call that a tool makes counts as a call of its own."""
    inner = traced(recorded)

    async def ask() -> str:
        await inner.call("probe")
        return "asked"

    await traced(recorded, a_tool("outer", fn=ask)).call("outer")
    assert_trace(recorded.spans, calls=2)


async def test_a_stack_without_the_usual_stages(recorded: RecordedSpans) -> None:
    """The trace of a stack without Resolve is accepted, in which no attempt is named after a tool."""
    observer = Trace(tracer_provider=recorded.tracer_provider)
    report = await Stack().observe(observer).end(script(Failure(Transient()))).report(Call("x"))
    assert_trace(recorded.spans, reports=[report])


@attrs.define(eq=False)
class EditableSpan:
    """A span that a test may change."""

    name: str
    context: SpanContext | None
    parent: SpanContext | None
    start_time: int | None
    end_time: int | None
    status: Status
    attributes: dict[str, Any]
    instrumentation_scope: Any

    def red(self, verdict: str) -> None:
        self.status = Status(StatusCode.ERROR)
        self.attributes["error.type"] = verdict


@pytest.fixture
async def retried(recorded: RecordedSpans) -> tuple[list[EditableSpan], CallReport]:
    """The spans and the report of a call that fails once, then succeeds: it has every part of a trace."""
    report = await traced(recorded, a_tool(fn=failing(ConnectionError()))).report(Call("probe"))
    spans = [
        EditableSpan(
            span.name,
            span.context,
            span.parent,
            span.start_time,
            span.end_time,
            span.status,
            dict(span.attributes or {}),
            span.instrumentation_scope,
        )
        for span in recorded.spans
    ]
    spans.sort(key=lambda span: span.start_time or 0)
    return spans, report


Spans = list[EditableSpan]
CALL, ATTEMPT = "execute_tool probe", "attempt probe"


def at(spans: Spans, name: str, occurrence: int = 0) -> EditableSpan:
    return [span for span in spans if span.name == name][occurrence]


def lose(name: str, occurrence: int = 0) -> Callable[[Spans], None]:
    return lambda spans: spans.remove(at(spans, name, occurrence))


def put(span: str, **changes: Any) -> Callable[[Spans], None]:
    """Give a span other fields."""

    def change(spans: Spans) -> None:
        found = at(spans, span)
        for field, value in changes.items():
            setattr(found, field, value)

    return change


def under(name: str, above: str, occurrence: int = 0, **ids: int) -> Callable[[Spans], None]:
    """Give a span another parent, or that parent with other ids."""

    def change(spans: Spans) -> None:
        context = at(spans, above, occurrence).context
        assert context is not None
        found = {"trace_id": context.trace_id, "span_id": context.span_id} | ids
        at(spans, name).parent = SpanContext(found["trace_id"], found["span_id"], False, TraceFlags(1))

    return change


def same_id(spans: Spans) -> None:
    at(spans, "resolve").context = at(spans, "available").context


def longer(spans: Spans) -> None:
    at(spans, "resolve").end_time = (at(spans, "resolve").end_time or 0) + 1


def move_to_the_other_attempt(spans: Spans) -> None:
    under("execute", ATTEMPT, 1)(spans)
    moved, begins = at(spans, "execute"), at(spans, ATTEMPT, 1).start_time
    moved.start_time = moved.end_time = begins


def turn_red(name: str, verdict: str, occurrence: int = 0) -> Callable[[Spans], None]:
    return lambda spans: at(spans, name, occurrence).red(verdict)


def each(*changes: Callable[[Spans], None]) -> Callable[[Spans], None]:
    """Make all of these changes."""

    def change(spans: Spans) -> None:
        for one in changes:
            one(spans)

    return change


def say(name: str, occurrence: int = 0, **facts: Any) -> Callable[[Spans], None]:
    """Set attributes of a span; None removes one, and ``__`` stands for a dot."""

    def change(spans: Spans) -> None:
        for key, value in facts.items():
            at(spans, name, occurrence).attributes[key.replace("__", ".")] = value

    return change


BROKEN: dict[str, tuple[Callable[[Spans], None], str]] = {
    "no call span": (lose(CALL), "each call has one call span: none found"),
    "the same id twice": (same_id, "a span has an id of its own"),
    "no id": (put("resolve", context=None), "a span has an id of its own"),
    "never ended": (put("resolve", end_time=None), "a span has ended, and not before it started"),
    "ended before it started": (put("resolve", end_time=1), "a span has ended, and not before it started"),
    "red without a reason": (put("resolve", status=Status(StatusCode.ERROR)), "red exactly if it has an error.type"),
    "green with a reason": (put(ATTEMPT, status=Status()), "red exactly if it has an error.type"),
    "status OK": (put(CALL, status=Status(StatusCode.OK)), "a span that is not red has no status"),
    "a second tool call": (say("execute", gen_ai__operation__name="execute_tool"), "only a call span has gen_ai"),
    "no operation": (say(CALL, gen_ai__operation__name=None), "a call span has gen_ai.operation.name=execute_tool"),
    "another operation": (say(CALL, gen_ai__operation__name="chat"), "has gen_ai.operation.name=execute_tool"),
    "another tool's name": (say(CALL, gen_ai__tool__name="other"), "a call span is named after gen_ai.tool.name"),
    "an invented name": (put(CALL, name="execute_tool prob"), "a call span is named after gen_ai.tool.name, probe"),
    "an unknown kind": (turn_red(CALL, "ValueError"), "the error.type of a call is a kind of error"),
    "no parent": (put("resolve", parent=None), "an attempt or a stage has a parent in its trace"),
    "a parent in another trace": (
        under("resolve", CALL, trace_id=1),
        "an attempt or a stage has a parent in its trace",
    ),
    "a parent that was lost": (
        under("resolve", CALL, span_id=1),
        "an attempt or a stage has a parent in its trace",
    ),
    "under itself": (under("resolve", "resolve"), "other stages under the call or an attempt"),
    "a stage under a stage": (under("validate", "resolve"), "attempts and retry stand under the call"),
    "an attempt under an attempt": (under(ATTEMPT, ATTEMPT, 1), "attempts and retry stand under the call"),
    "retry in an attempt": (under("retry", ATTEMPT), "attempts and retry stand under the call"),
    "execute outside": (under("execute", CALL), "execute stands under an attempt"),
    "starts before its parent": (put("resolve", start_time=1), "a child starts and ends within its parent"),
    "outlives its parent": (put("classify", end_time=2**63), "a child starts and ends within its parent"),
    "an attempt outlives its call": (put(ATTEMPT, end_time=2**63), "a child starts and ends within its parent"),
    "numbered from 0": (say(ATTEMPT, toolcall__attempt=0), "attempts are numbered from 1"),
    "numbered twice": (say(ATTEMPT, 1, toolcall__attempt=1), "attempts are numbered from 1"),
    "without a number": (say(ATTEMPT, toolcall__attempt=None), "attempts are numbered from 1"),
    "an attempt at another tool": (put(ATTEMPT, name="attempt other"), "an attempt is named after the tool"),
    "too many attempts counted": (
        say(CALL, toolcall__attempts=3),
        "toolcall.attempts is the number of attempts that ran",
    ),
    "attempts not counted": (say(CALL, toolcall__attempts=None), "toolcall.attempts is the number of attempts"),
    "an attempt without stages": (
        each(lose("execute"), lose("classify")),
        "the stages of a call and of an attempt have spans",
    ),
}


@pytest.mark.parametrize(("change", "rule"), BROKEN.values(), ids=BROKEN)
async def test_a_broken_trace(retried: tuple[Spans, CallReport], change: Callable[[Spans], None], rule: str) -> None:
    """For each rule, a trace that breaks it is refused with that rule, and the span is marked in the tree."""
    spans, _ = retried
    assert_trace(spans)
    change(spans)
    with pytest.raises(AssertionError) as caught:
        assert_trace(spans)
    message = str(caught.value)
    assert rule in message
    assert CALL in message or not any(span.name == CALL for span in spans)
    assert "<-- 1" in message or "none found" in message


UNLIKE: dict[str, tuple[Callable[[Spans], None], str]] = {
    "red although it succeeded": (turn_red(CALL, "internal"), "the error.type of a call is that of the report, none"),
    "another tool": (
        each(
            say(CALL, gen_ai__tool__name="other"),
            put(CALL, name="execute_tool other"),
            put(ATTEMPT, name="attempt"),
            put(ATTEMPT, name="attempt"),
        ),
        "the tool of a call is that of the report, probe",
    ),
    "a failed attempt that is green": (
        each(put(ATTEMPT, status=Status()), say(ATTEMPT, error__type=None)),
        "the error.type of an attempt is that of the report, transient",
    ),
    "a red attempt that succeeded": (
        turn_red(ATTEMPT, "internal", 1),
        "the error.type of an attempt is that of the report, none",
    ),
    "a red stage that passed": (turn_red("available", "internal"), "a stage span is in the report, and this is not"),
    "another reason": (say("retry", toolcall__reason="none"), "a stage span is in the report, and this is not"),
    "another duration": (longer, "a stage span is in the report, and this is not"),
    "another stage": (put("resolve", name="resolved"), "a stage of the report has a span, and this has none: resolve"),
    "in the other attempt": (move_to_the_other_attempt, "has a span, and this has none: execute in attempt 1"),
    "one attempt too few": (
        each(lose(ATTEMPT, 1), lose("execute", 1), lose("classify", 1), say(CALL, toolcall__attempts=1)),
        "there are as many attempts as in the report, 2",
    ),
}


@pytest.mark.parametrize(("change", "rule"), UNLIKE.values(), ids=UNLIKE)
async def test_a_trace_that_disagrees_with_its_report(
    retried: tuple[Spans, CallReport], change: Callable[[Spans], None], rule: str
) -> None:
    """A trace that breaks no rule by itself is refused if it disagrees with the report."""
    spans, report = retried
    assert_trace(spans, reports=[report])
    change(spans)
    assert_trace(spans)
    with pytest.raises(AssertionError) as caught:
        assert_trace(spans, reports=[report])
    assert rule in str(caught.value)


async def test_any_lost_span_is_noticed(retried: tuple[Spans, CallReport]) -> None:
    """Whichever single span is lost, comparison with the report fails."""
    spans, report = retried
    for lost in spans:
        with pytest.raises(AssertionError):
            assert_trace([span for span in spans if span is not lost], reports=[report])


async def test_a_failure_is_never_green(recorded: RecordedSpans) -> None:
    """A call span that looks like a success is refused if the call failed."""
    report = await traced(recorded, a_tool(fn=failing(RuntimeError()))).report(Call("probe"))
    spans: list[FinishedSpan] = [span for span in recorded.spans if span.parent is not None]
    assert_trace(recorded.spans, reports=[report])
    root = next(span for span in recorded.spans if span.parent is None)
    green = {key: value for key, value in (root.attributes or {}).items() if key != "error.type"}
    spans.append(
        EditableSpan(
            root.name, root.context, None, root.start_time, root.end_time, Status(), green, root.instrumentation_scope
        )
    )
    with pytest.raises(AssertionError, match=r"the error\.type of a call is that of the report, internal"):
        assert_trace(spans, reports=[report])


async def test_how_many_calls_there_were(recorded: RecordedSpans) -> None:
    """More or fewer calls than expected are refused; without a number, no call at all is."""
    with pytest.raises(AssertionError, match="each call has one call span: none found"):
        assert_trace([])
    assert_trace([], calls=0)
    pipeline = traced(recorded)
    reports = [await pipeline.report(Call("probe")) for _ in range(2)]
    for wanted in (1, 3):
        with pytest.raises(AssertionError, match=f"{wanted} wanted, 2 found"):
            assert_trace(recorded.spans, calls=wanted)
    with pytest.raises(AssertionError, match="1 wanted, 2 found"):
        assert_trace(recorded.spans, reports=reports[:1])


async def test_without_spans_of_stages(retried: tuple[Spans, CallReport]) -> None:
    """With stages=False a stage span is refused, durations are compared, and the other rules hold."""
    spans, report = retried
    with pytest.raises(AssertionError, match="stages=False: there are no spans of stages"):
        assert_trace(spans, stages=False)
    without = [span for span in spans if span.name in (CALL, ATTEMPT)]
    assert_trace(without, stages=False)
    with pytest.raises(AssertionError, match=r"toolcall\.stage\.resolve\.duration is that of the report"):
        assert_trace(without, reports=[report], stages=False)
    for name in {stage.name for stage in report.stages}:
        seconds = sum(stage.seconds for stage in report.stages if stage.name == name)
        at(without, CALL).attributes[STAGE_DURATION.format(name)] = seconds
    assert_trace(without, reports=[report], stages=False)
    at(without, ATTEMPT).attributes["toolcall.attempt"] = 2
    with pytest.raises(AssertionError, match="attempts are numbered from 1"):
        assert_trace(without, stages=False)


async def test_the_message_has_the_tree(retried: tuple[Spans, CallReport]) -> None:
    """The message lists the broken rules and draws the tree, with a mark at each span that breaks one."""
    spans, _ = retried
    at(spans, "resolve").end_time = None
    at(spans, ATTEMPT, 1).attributes["toolcall.attempt"] = 7
    with pytest.raises(AssertionError) as caught:
        assert_trace(spans)
    assert str(caught.value) == (
        """\
These spans are not well-formed traces of calls:
1. a span has ended, and not before it started
2. a child starts and ends within its parent
3. attempts are numbered from 1, in the order in which they started: this is 2

execute_tool probe  toolcall.attempts=2
├ resolve  <-- 1, 2
├ available
├ validate
├ attempt probe  ERROR  toolcall.attempt=1  error.type=transient
│ ├ execute  toolcall.stage.verdict=internal
│ └ classify  ERROR  error.type=transient
├ retry  toolcall.reason=transient, and the tool is read
└ attempt probe  toolcall.attempt=7  <-- 3
  ├ execute
  └ classify"""
    )


async def test_the_line_of_a_failed_call_says_who_decided(recorded: RecordedSpans) -> None:
    """The tree names the stage that decided, and a call that succeeded has none."""
    pipeline = traced(recorded)
    await pipeline.call("probe")
    assert "toolcall.decided_by" not in recorded.tree
    await pipeline.call("prob")
    line = next(each for each in recorded.tree.splitlines() if each.startswith("execute_tool _OTHER"))
    assert "ERROR  error.type=unknown_tool  toolcall.decided_by=resolve" in line


async def test_a_recording_without_a_pipeline_says_what_to_give_one(recorded: RecordedSpans) -> None:
    """Where no pipeline recorded, the tree and every broken count say how one does; where one did, neither does."""
    hint = "give it `standard(tools, trace=Trace(tracer_provider=recorded.tracer_provider))`"
    tools = ToolRegistry()
    tools.register(a_tool())
    report = await standard(tools).report(Call("probe"))
    assert recorded.tree == f"no pipeline recorded here: {hint}"
    counts: list[dict[str, Any]] = [{}, {"calls": 1}, {"reports": [report]}]
    for wanted in counts:
        with pytest.raises(AssertionError) as raised:
            assert_trace(recorded.spans, **wanted)
        assert hint in str(raised.value)
    await traced(recorded).call("probe")
    with pytest.raises(AssertionError) as raised:
        assert_trace(recorded.spans, calls=2)
    assert (hint in str(raised.value), hint in recorded.tree) == (False, False)


async def test_recorded_spans_can_be_cleared(recorded: RecordedSpans) -> None:
    """clear() forgets the spans recorded so far, deferred ones included."""
    pipeline = traced(recorded, defer=True)
    await pipeline.call("probe")
    recorded.clear()
    assert list(recorded.spans) == []
    await pipeline.call("probe")
    assert_trace(recorded.spans, calls=1)
    assert recorded.tree.splitlines()[0].startswith("execute_tool probe")
    assert all(span.instrumentation_scope and span.instrumentation_scope.name == SCOPE for span in recorded.spans)


def test_recorded_spans_with_telemetry_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under OTEL_SDK_DISABLED nothing would be recorded, so recorded_spans() raises a SetupError."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "True")
    with pytest.raises(SetupError, match="OTEL_SDK_DISABLED"), recorded_spans():
        pass
