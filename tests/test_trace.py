"""The spans of a call, for each way in which a call can end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from time import time_ns
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.context import attach, detach, set_value
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, Sampler, SamplingResult
from opentelemetry.trace import NoOpTracer, NoOpTracerProvider
from returns.result import Failure, Success

from support import Exported, StageTime, a_tool, tree
from toolcall_pipeline import (
    Call,
    Denied,
    Handler,
    Outcome,
    Pipeline,
    ResolvedCall,
    Stack,
    ToolFailed,
    ToolRegistry,
    Transient,
)
from toolcall_pipeline.base.semconv import SUPPRESS
from toolcall_pipeline.middlewares import Retry, Timeout, Trace, standard
from toolcall_pipeline.telemetry.queues import flush_queues
from toolcall_pipeline.testing import FakeClock, script


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> StageTime:
    return StageTime(monkeypatch)


def traced(exported: Exported, *tools: Any, **options: Any) -> Pipeline:
    registry = ToolRegistry()
    for each in tools or (a_tool(),):
        registry.register(each)
    observer = Trace(tracer_provider=exported.provider, **options)
    return standard(registry).replace("trace", observer).replace("retry", Retry(sleep=FakeClock().sleep))


def failing(error: Exception) -> Callable[..., Any]:
    async def fail(**_: object) -> None:
        raise error

    return fail


SUCCESS = """\
execute_tool probe
  resolve
  available
  validate
  attempt probe
    execute
    classify"""

CASES: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "success": (a_tool(), ("probe",), SUCCESS),
    "unknown name": (
        a_tool(),
        ("prob",),
        "execute_tool _OTHER ERROR error.type=unknown_tool\n  resolve ERROR error.type=unknown_tool",
    ),
    "bad parameter": (
        a_tool(),
        ("probe", "[1]"),
        """\
execute_tool probe ERROR error.type=malformed_call
  resolve
  available
  validate ERROR error.type=malformed_call""",
    ),
    "a crash": (
        a_tool(fn=failing(RuntimeError("secret"))),
        ("probe",),
        """\
execute_tool probe ERROR error.type=internal
  resolve
  available
  validate
  attempt probe ERROR error.type=internal
    execute ERROR error.type=internal
    classify""",
    ),
    "a failure that the author reveals": (
        a_tool(fn=failing(ToolFailed("no such row", kind="not_found"))),
        ("probe",),
        """\
execute_tool probe ERROR error.type=not_found
  resolve
  available
  validate
  attempt probe ERROR error.type=not_found
    execute toolcall.stage.verdict=internal
    classify ERROR error.type=not_found""",
    ),
    "a lost mutation": (
        a_tool(effect="mutating", fn=failing(ConnectionError())),
        ("probe",),
        """\
execute_tool probe ERROR error.type=outcome_unknown
  resolve
  available
  validate
  attempt probe ERROR error.type=transient
    execute toolcall.stage.verdict=internal
    classify ERROR error.type=transient
  retry ERROR error.type=outcome_unknown""",
    ),
}


@pytest.mark.parametrize("defer", [False, True])
@pytest.mark.parametrize(("tool", "call", "expected"), CASES.values(), ids=CASES)
async def test_the_tree_of_a_call(tool: Any, call: tuple[Any, ...], expected: str, defer: bool) -> None:
    """Each stage that ran has one span in its place; the call, the attempt and the stage that decided are red."""
    exported = Exported()
    await traced(exported, tool, defer=defer).call(*call)
    flush_queues()
    assert exported.tree == expected


RETRIED = """\
execute_tool probe toolcall.attempts=2
  resolve
  available
  validate
  attempt probe ERROR error.type=transient toolcall.attempt=1
    execute toolcall.stage.verdict=internal
    classify ERROR error.type=transient
  retry toolcall.reason=transient, and the tool is read
  attempt probe toolcall.attempt=2
    execute
    classify"""


def flaky() -> Callable[..., Any]:
    seen: list[int] = []

    async def fail_once(**_: object) -> str:
        seen.append(1)
        if len(seen) == 1:
            raise ConnectionError("secret")
        return "done"

    return fail_once


async def test_a_retried_success_is_not_red() -> None:
    """A failed attempt is red, the call that succeeded later is not, and the wait between them has a reason."""
    exported = Exported()
    assert await traced(exported, a_tool(fn=flaky())).call("probe") == Success("done")
    shown = ("toolcall.attempts", "toolcall.attempt", "toolcall.reason")
    assert tree(exported.spans, *shown) == RETRIED


async def test_the_retry_span_says_why_a_call_was_not_repeated() -> None:
    """If Retry decides the outcome, its span has the reason."""
    exported = Exported()
    await traced(exported, a_tool(effect="mutating", fn=failing(ConnectionError()))).call("probe")
    last = tree(exported.spans, "toolcall.reason").splitlines()[-1]
    assert last.endswith("outcome_unknown toolcall.reason=not repeated: a mutating call that may have landed")


async def test_a_timeout_follows_the_stages_that_it_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stages that a time limit ended are recorded as cancelled, and the timeout's own span follows them."""
    # Also on a machine that holds it up.
    monkeypatch.setattr("toolcall_pipeline.engine.compose.recorded_chain._LONG_WAIT", 10**11)
    exported = Exported()
    pipeline = traced(exported, a_tool(fn=anyio.sleep_forever)).after("retry", Timeout(0.1))
    await pipeline.replace("retry", Retry(1)).call("probe")
    assert exported.tree.splitlines()[-4:] == [
        "  attempt probe ERROR error.type=timeout",
        "    execute toolcall.stage.verdict=cancelled",
        "    classify toolcall.stage.verdict=cancelled",
        "    timeout ERROR error.type=timeout",
    ]


async def test_spans_nest_in_time() -> None:
    """A child starts and ends within its parent, to the nanosecond."""
    exported = Exported()
    await traced(exported, a_tool(fn=flaky())).call("probe")
    by_id = {span.context.span_id: span for span in exported.spans if span.context}
    for span in exported.spans:
        if span.parent is not None:
            parent = by_id[span.parent.span_id]
            times = (parent.start_time, span.start_time, span.end_time, parent.end_time)
            assert all(time is not None for time in times)
            assert list(times) == sorted(time or 0 for time in times), span.name


async def test_only_the_call_span_has_genai_attributes() -> None:
    """The call span, and no other, has the attributes of the GenAI conventions, without arguments and results."""
    exported = Exported()
    await traced(exported).call("functions.probe", {"secret": "canary"}, id="call_7")
    root = next(span for span in exported.spans if span.parent is None)
    assert dict(root.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "probe",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "call_7",
        "toolcall.attempts": 1,
        "toolcall.tool.requested_name": "functions.probe",
        "toolcall.repairs": ("name: transport_noise",),
    }
    others = [dict(span.attributes or {}) for span in exported.spans if span.parent is not None]
    assert all("gen_ai.operation.name" not in attributes for attributes in others)
    assert "canary" not in "".join(span.to_json() for span in exported.spans)


@pytest.mark.parametrize(
    ("arguments", "repairs"),
    [
        ({"count": "5"}, ("count: number_text",)),
        ({"Count": 5}, ("count: parameter_name",)),
        ({"Count": "5"}, ("count: parameter_name", "count: number_text")),
        ({"count": 5}, None),
    ],
)
async def test_repairs_stand_on_the_span_of_the_call(arguments: dict[str, Any], repairs: tuple[str, ...]) -> None:
    """Each one names its rule and its place, a misspelt parameter by the declared name, and no value."""
    exported, tools = Exported(), ToolRegistry()

    @tools.tool(effect="read")
    def repeat(count: int) -> int:
        return count

    pipeline = standard(tools).replace("trace", Trace(tracer_provider=exported.provider))
    assert await pipeline.call("repeat", arguments) == Success(5)
    root = next(span for span in exported.spans if span.parent is None)
    assert (root.attributes or {}).get("toolcall.repairs") == repairs


@pytest.mark.parametrize("name", ["probe", "functions.probe", "zz.probe", " probe", "probe ", "PROBE", '"probe"'])
async def test_the_name_that_was_sent_is_recorded_where_it_is_another(name: str) -> None:
    """The call span has the name as it came, unless that is the tool's own."""
    exported = Exported()
    await traced(exported).call(name)
    root = next(span for span in exported.spans if span.parent is None)
    assert (root.attributes or {}).get("toolcall.tool.requested_name") == (None if name == "probe" else name)


async def test_an_invented_name_is_no_span_name() -> None:
    """A name that no tool has is recorded as `_OTHER`, and the requested name is cut: models invent any number."""
    exported = Exported()
    await traced(exported).call("x" * 10_000)
    root = exported.spans[-1]
    assert root.name == "execute_tool _OTHER"
    assert root.attributes is not None
    assert root.attributes["gen_ai.tool.name"] == "_OTHER"
    assert root.attributes["toolcall.tool.requested_name"] == "x" * 128


async def test_any_number_of_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many tool names are remembered, and every call span is named after its own tool all the same."""
    monkeypatch.setattr("toolcall_pipeline.telemetry.call_spans._MAX_TOOLS", 2)
    exported = Exported()
    names = [f"tool_{number}" for number in range(5)]
    pipeline = traced(exported, *map(a_tool, names))
    for name in [*names, *names]:
        await pipeline.call(name)
    roots = [span for span in exported.spans if span.parent is None]
    assert [span.name for span in roots] == [f"execute_tool {name}" for name in [*names, *names]]
    assert [(span.attributes or {})["gen_ai.tool.name"] for span in roots] == [*names, *names]


@pytest.mark.parametrize("error", [RuntimeError("canary"), ConnectionError("canary"), PermissionError("canary")])
async def test_a_private_cause_is_in_no_span(error: Exception) -> None:
    """Neither the text nor the stack of an exception is in a trace."""
    exported = Exported()
    await traced(exported, a_tool(fn=failing(error))).call("probe")
    assert "canary" not in "".join(span.to_json() for span in exported.spans)
    assert not any(span.events for span in exported.spans)


async def test_the_tools_own_spans_stand_under_its_attempt() -> None:
    """While a tool runs, its attempt is the current span, in the event loop and in a worker thread."""

    def in_thread() -> None:
        exported.provider.get_tracer("tool").start_span("in the thread").end()

    async def in_loop() -> None:
        exported.provider.get_tracer("tool").start_span("in the loop").end()

    exported = Exported()
    pipeline = traced(exported, a_tool("one", fn=in_thread), a_tool("two", fn=in_loop))
    await pipeline.call("one")
    await pipeline.call("two")
    by_id = {span.context.span_id: span.name for span in exported.spans if span.context}
    parents = {span.name: by_id[span.parent.span_id] for span in exported.spans if span.parent}
    assert (parents["in the thread"], parents["in the loop"]) == ("attempt one", "attempt two")


async def test_parallel_calls_have_a_tree_each() -> None:
    """Twenty concurrent calls make twenty traces, and no trace has a span of another call."""

    async def work() -> None:
        await anyio.sleep(0.001)
        exported.provider.get_tracer("tool").start_span("work").end()

    exported = Exported()
    pipeline = traced(exported, a_tool(fn=work))
    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(pipeline, Call("probe"))
    trees: dict[int, list[Any]] = {}
    for span in exported.spans:
        assert span.context is not None
        trees.setdefault(span.context.trace_id, []).append(span)
    assert len(trees) == 20
    assert {tree(spans).count("work") for spans in trees.values()} == {1}
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_a_call_stands_under_its_callers_span() -> None:
    """The call span is a child of the caller's current span, which is current again after the call."""
    exported = Exported()
    pipeline = traced(exported)
    with exported.provider.get_tracer("agent").start_as_current_span("turn") as turn:
        await pipeline.call("probe")
        assert trace.get_current_span() is turn
    assert exported.tree.startswith("turn\n  execute_tool probe\n    resolve")


async def test_a_cancelled_call_is_recorded_as_cancelled() -> None:
    """Cancellation passes through, and every span that it ended is recorded as cancelled, in its place."""
    exported = Exported()
    pipeline = traced(exported, a_tool(fn=anyio.sleep_forever))
    with anyio.move_on_after(0.1) as scope:
        await pipeline.call("probe")
    assert scope.cancelled_caught
    assert exported.tree == (
        """\
execute_tool probe ERROR error.type=cancelled
  resolve
  available
  validate
  attempt probe ERROR error.type=cancelled
    execute toolcall.stage.verdict=cancelled
    classify toolcall.stage.verdict=cancelled
  retry toolcall.stage.verdict=cancelled"""
    )
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_a_call_that_is_sampled_out_leaves_no_span() -> None:
    """A call that is sampled out records nothing, and spans started inside inherit the decision."""

    async def inner() -> bool:
        return trace.get_current_span().get_span_context().trace_flags.sampled

    exported = Exported(sampler=ALWAYS_OFF)
    pipeline = traced(exported, a_tool(fn=inner))
    assert await pipeline.call("probe") == Success(False)
    assert await pipeline.call("prob") != Success(False)
    assert exported.spans == ()
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert (await pipeline.report(Call("probe"))).stages


async def test_suppression_is_honoured() -> None:
    """While instrumentation is suppressed, a call leaves no span."""
    exported = Exported()
    token = attach(set_value(SUPPRESS, True))
    try:
        assert await traced(exported).call("probe") == Success("done")
    finally:
        detach(token)
    assert exported.spans == ()


class RecordingSampler(Sampler):
    """Keeps the name and the attributes with which each span starts."""

    def __init__(self) -> None:
        self.starts: list[tuple[str, dict[str, Any]]] = []

    def should_sample(self, *args: Any, **kwargs: Any) -> SamplingResult:
        self.starts.append((args[2], dict(kwargs.get("attributes") or args[4] or {})))
        return SamplingResult(Decision.RECORD_AND_SAMPLE)

    def get_description(self) -> str:
        return "recording"


async def test_a_sampler_sees_the_resolved_name() -> None:
    """The call span starts with its final name and with the attributes by which a sampler decides."""
    sampler = RecordingSampler()
    await traced(Exported(sampler=sampler)).call("'probe'")
    name, attributes = sampler.starts[0]
    assert name == "execute_tool probe"
    assert attributes["gen_ai.operation.name"] == "execute_tool"
    assert attributes["gen_ai.tool.name"] == "probe"


async def test_a_stage_before_resolve_delays_the_name() -> None:
    """With a middleware before Resolve, the call span gets the tool's name and attribute at the end of the call."""

    async def early(call: Call, call_next: Handler[Call]) -> Outcome:
        return await call_next(call)

    exported = Exported()
    await traced(exported).before("resolve", early).call("probe")
    assert tree(exported.spans, "gen_ai.tool.name").startswith("execute_tool probe gen_ai.tool.name=probe\n")


async def test_the_span_of_a_middleware_is_its_own_time(time: StageTime) -> None:
    """The span of a middleware stands where it spent its time: before it called the next stage, or after that."""

    async def queue(call: ResolvedCall, call_next: Handler[ResolvedCall]) -> Outcome:
        time.pass_an_hour()
        return await call_next(call)

    async def answer_later(call: ResolvedCall, call_next: Handler[ResolvedCall]) -> Outcome:
        outcome = await call_next(call)
        time.pass_an_hour()
        return outcome

    exported = Exported()
    await traced(exported).before("retry", queue).before("retry", answer_later).call("probe")
    names = [line.strip() for line in exported.tree.splitlines()]
    assert names.index("queue") < names.index("attempt probe") < names.index("answer_later")


async def test_a_stage_is_red_only_if_it_made_the_verdict() -> None:
    """A middleware that passes a failure on is not red; one that turns a success into a failure is."""

    async def veto(call: ResolvedCall, call_next: Handler[ResolvedCall]) -> Outcome:
        await call_next(call)
        return Failure(Denied("veto"))

    exported = Exported()
    await traced(exported).before("retry", veto).call("probe")
    red = [line.strip() for line in exported.tree.splitlines() if "ERROR" in line]
    assert red == ["execute_tool probe ERROR error.type=permission", "veto ERROR error.type=permission"]


async def test_without_a_repeating_stage_the_end_is_the_attempt() -> None:
    """In a stack without Retry, the only attempt stands around the end of the stack."""
    exported = Exported()
    await traced(exported).without("retry").call("probe")
    lines = SUCCESS.splitlines()
    assert exported.tree.splitlines() == [*lines[:4], lines[4], lines[5], lines[6].replace("    ", "  ")]


class RaisesAlways(SpanProcessor):
    """A processor with a bug."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("on_start")

    def on_end(self, span: Any) -> None:
        raise RuntimeError("on_end")


class RaisesAtEnd(RaisesAlways):
    """A processor with a bug in one method only."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        pass


@pytest.mark.parametrize("processor", [RaisesAlways(), RaisesAtEnd()], ids=lambda each: type(each).__name__)
async def test_a_span_processor_that_raises_fails_no_call(processor: SpanProcessor) -> None:
    """Whatever a span processor raises, the outcome of the call stands."""
    exported = Exported()
    exported.provider.add_span_processor(processor)
    assert await traced(exported).call("probe") == Success("done")
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_a_full_queue_drops_stage_spans() -> None:
    """A call that finds the queue of deferred spans full loses its stage spans only, and is counted."""
    exported = Exported()
    observer = Trace(defer=True, tracer_provider=exported.provider)
    assert observer.deferred is not None
    observer.deferred.max_queue = 0
    await traced(exported).replace("trace", observer).call("probe")
    assert observer.deferred.dropped == 1
    assert [span.name for span in exported.spans] == ["attempt probe", "execute_tool probe"]


@pytest.mark.parametrize("defer", [False, True])
async def test_flush_makes_what_waits(defer: bool) -> None:
    """After Trace.flush() every span of the calls before it has ended, deferred or not."""
    exported = Exported()
    observer = Trace(defer=defer, tracer_provider=exported.provider)
    await traced(exported).replace("trace", observer).call("probe")
    observer.flush()
    assert exported.tree == SUCCESS


PROVIDER_SET_LATE = """
import anyio
from opentelemetry import trace
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline import ToolRegistry
tools = ToolRegistry()
@tools.tool(effect="read")
async def probe() -> str:
    return "done"
run = standard(tools)
anyio.run(run.call, "probe")
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
seen = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(seen))
trace.set_tracer_provider(provider)
anyio.run(run.call, "probe")
print(*(span.name for span in seen.get_finished_spans()))
"""


def test_a_provider_set_after_the_pipeline_was_built_is_used() -> None:
    """Each call asks whether somebody records it, so a provider may be set at any time."""
    done = subprocess.run([sys.executable, "-c", PROVIDER_SET_LATE], capture_output=True, text=True, check=True)
    names = "attempt probe resolve available validate execute classify execute_tool probe"
    assert done.stdout.split() == names.split()


def test_a_busy_process_without_a_provider_asks_again_after_a_moment() -> None:
    """After 100 calls in a row that nobody recorded, a call within 0.1 ms of the last question does not ask again."""
    asked: list[int] = []

    class Provider(NoOpTracerProvider):
        def get_tracer(self, *_args: Any, **_options: Any) -> Any:
            return Tracer()

    class Tracer(NoOpTracer):
        def start_span(self, name: str, *args: Any, **options: Any) -> Any:
            asked.append(args[-1])
            return super().start_span(name)

    trace = Trace(tracer_provider=Provider())
    now = time_ns()
    for after in (*range(103), 100_100, 100_101, -5, -4):
        assert trace.begin(None, now + after) is None
    assert [each - now for each in asked] == [*range(101), 100_100, -5, -4]  # the last two: the clock was set back


AT_EXIT = """
import anyio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(formatter=lambda span: span.name + "\\n")))
trace.set_tracer_provider(provider)
from toolcall_pipeline.middlewares import Trace, standard
from toolcall_pipeline import ToolRegistry
tools = ToolRegistry()
@tools.tool(effect="read")
async def probe() -> str:
    return "done"
anyio.run(standard(tools).replace("trace", Trace(defer=True)).call, "probe")
"""


@pytest.mark.long
def test_deferred_spans_are_made_before_the_provider_shuts_down() -> None:
    """A process that ends right after its last call loses no deferred span."""
    done = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split("\n")) == sorted(
        ["", "resolve", "available", "validate", "attempt probe", "execute", "classify", "execute_tool probe"]
    )


IN_A_FORK = """
import os
import warnings
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
import anyio
from toolcall_pipeline.middlewares import Trace, standard
from toolcall_pipeline import ToolRegistry
warnings.simplefilter("ignore")  # newer Pythons warn of every fork in a process with threads
seen = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(seen))
tools = ToolRegistry()
@tools.tool(effect="read")
async def probe() -> str:
    return "done"
trace = Trace(defer=True, tracer_provider=provider)
run = standard(tools).replace("trace", trace)
anyio.run(run.call, "probe")
child = os.fork()
if child == 0:
    seen.clear()
    anyio.run(run.call, "probe")
    trace.flush()
    os._exit(len(seen.get_finished_spans()))
_, status = os.waitpid(child, 0)
trace.flush()
print(os.waitstatus_to_exitcode(status), len(seen.get_finished_spans()))
"""


@pytest.mark.long
def test_after_a_fork_each_process_makes_its_own_spans() -> None:
    """After a fork the child makes deferred spans of its own calls only; the parent makes those that waited."""
    done = subprocess.run([sys.executable, "-c", IN_A_FORK], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["7", "7"]


async def test_a_report_leaves_the_same_spans() -> None:
    """`pipeline.report` leaves the same spans as a plain call."""
    exported = Exported()
    report = await traced(exported).report(Call("probe"))
    assert exported.tree == SUCCESS
    assert [stage.name for stage in report.stages] == ["resolve", "available", "validate", "execute", "classify"]


async def test_a_report_needs_no_trace() -> None:
    """A stack without Trace has reports too."""
    registry = ToolRegistry()
    registry.register(a_tool())
    report = await standard(registry).without("trace").report(Call("probe"))
    assert [attempt.number for attempt in report.attempts] == [1]


async def test_a_stack_may_be_a_single_end() -> None:
    """The shortest pipeline, an end alone, is recorded like any other."""
    exported = Exported()
    inside = script(Failure(Transient()))
    outcome = await Stack().observe(Trace(tracer_provider=exported.provider)).end(inside).call("x")
    assert outcome == Failure(Transient())
    assert exported.tree == (
        "execute_tool _OTHER ERROR error.type=transient\n"
        "  attempt ERROR error.type=transient\n"
        "    script ERROR error.type=transient"
    )
