"""The options of Trace, the trace of every kind of error, and traces that continue from elsewhere."""

from __future__ import annotations

import json
from collections import Counter
from time import perf_counter
from typing import Any

import pytest
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, get_current_span, use_span
from returns.result import Failure, Success

from error_cases import EACH_KIND
from support import Exported, a_tool
from toolcall_pipeline import (
    Call,
    Denied,
    Effect,
    InvalidParams,
    MalformedCall,
    Outcome,
    Pipeline,
    Problem,
    TimedOut,
    Tool,
    ToolError,
    ToolRegistry,
    Unavailable,
    UnknownTool,
    __version__,
    approved,
)
from toolcall_pipeline.base.semconv import CAPTURE, SCHEMA_URL
from toolcall_pipeline.executors import Thread
from toolcall_pipeline.middlewares import Execute, Retry, Trace, standard
from toolcall_pipeline.telemetry import continued
from toolcall_pipeline.telemetry.queues import flush_queues
from toolcall_pipeline.testing import FakeClock, assert_trace

SECRET = "canary-5150"


def traced(exported: Exported, fn: Any = None, **options: Any) -> Pipeline:
    async def probe(query: str = "", **_: object) -> object:
        return {"found": query}

    schema = {"type": "object", "properties": {"query": {"type": "string"}}}
    tools = ToolRegistry()
    tools.register(
        Tool.from_schema(name="probe", parameters=schema, handler=fn or probe, effect="read", description="Look.")
    )
    observer = Trace(tracer_provider=exported.provider, **options)
    return standard(tools).replace("trace", observer).replace("retry", Retry(attempts=1))


def root(exported: Exported) -> Any:
    (found,) = [span for span in exported.spans if span.parent is None]
    return found


@pytest.mark.parametrize("error", EACH_KIND, ids=lambda each: each.kind)
async def test_every_kind_of_error_is_red_from_the_tool_to_the_call(error: ToolError) -> None:
    """Whatever a tool fails with, the end, the attempt and the call have its kind as error.type, and no text of it."""
    exported = Exported()

    async def fail(**_: object) -> object:
        return Failure(error)

    await traced(exported, fail).call("probe")
    red = {span.name: dict(span.attributes or {})["error.type"] for span in exported.spans if not span.status.is_unset}
    assert red == {"execute_tool probe": error.kind, "attempt probe": error.kind, "execute": error.kind}
    told = [span.status.description or "" for span in exported.spans]
    assert not any(text.startswith(error.kind) for text in told)
    assert "hunter2" not in "".join(span.to_json() for span in exported.spans)
    assert_trace(exported.spans)


async def test_without_stage_spans_durations_are_attributes() -> None:
    """stages=False makes spans for the call and its attempts only; the call span has each stage's duration."""
    exported = Exported()
    await traced(exported, stages=False).call("probe")
    assert sorted(span.name for span in exported.spans) == ["attempt probe", "execute_tool probe"]
    durations = {key: value for key, value in root(exported).attributes.items() if key.endswith(".duration")}
    assert list(durations) == [
        f"toolcall.stage.{stage}.duration" for stage in ("resolve", "available", "validate", "execute", "classify")
    ]
    assert all(0 <= seconds < 1 for seconds in durations.values())
    assert_trace(exported.spans, stages=False)


@pytest.mark.parametrize(
    ("option", "environment", "recorded"),
    [
        (None, None, False),
        (None, "true", True),
        (None, "SPAN_ONLY", True),
        (None, "span_and_event", True),
        (None, "NO_CONTENT", False),
        (None, "EVENT_ONLY", False),
        (False, "true", False),
        (True, None, True),
    ],
    ids=str,
)
async def test_arguments_and_results_are_recorded_by_opt_in_only(
    option: bool | None, environment: str | None, recorded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spans hold arguments and results only if the option or, without it, the environment variable says so."""
    monkeypatch.delenv(CAPTURE, raising=False)
    if environment is not None:
        monkeypatch.setenv(CAPTURE, environment)
    exported = Exported()
    await traced(exported, content=option).call("probe", {"query": SECRET})
    attributes = root(exported).attributes
    assert (SECRET in "".join(span.to_json() for span in exported.spans)) == recorded
    if recorded:
        assert json.loads(attributes["gen_ai.tool.call.arguments"]) == {"query": SECRET}
        assert json.loads(attributes["gen_ai.tool.call.result"]) == {"found": SECRET}


@pytest.mark.parametrize("arguments", [None, {}])
async def test_a_call_without_arguments(arguments: Any) -> None:
    """With content recorded, the arguments of a call without any are an empty JSON object."""
    exported = Exported()
    await traced(exported, content=True).call("probe", arguments)
    assert root(exported).attributes["gen_ai.tool.call.arguments"] == "{}"


async def test_a_failed_call_has_no_result() -> None:
    """With content recorded, a failed call has arguments and no result; JSON text stays as it was sent."""
    exported = Exported()
    await traced(exported, content=True).call("probe", '{"query":  1.5}', finish_reason="length")
    attributes = root(exported).attributes
    assert attributes["gen_ai.tool.call.arguments"] == '{"query":  1.5}'
    assert "gen_ai.tool.call.result" not in attributes


async def test_openinference_attributes() -> None:
    """With openinference the call span has the attributes that Phoenix reads, and every other span has a kind."""
    exported = Exported()
    await traced(exported, openinference=True, content=True).call("probe", {"query": "x"}, id="c1")
    found = dict(root(exported).attributes)
    assert found["openinference.span.kind"] == "TOOL"
    assert (found["tool.name"], found["tool.description"], found["tool.id"]) == ("probe", "Look.", "c1")
    assert "query" in found["tool.parameters"]
    assert (found["input.value"], found["input.mime_type"]) == ('{"query": "x"}', "application/json")
    assert found["output.value"] == '{"found": "x"}'
    assert "session.id" not in found
    others = [dict(span.attributes or {}) for span in exported.spans if span.parent is not None]
    assert [each.get("openinference.span.kind") for each in others] == ["CHAIN"] * 6
    plain = Exported()
    await traced(plain).call("probe")
    assert "openinference" not in "".join(span.to_json() for span in plain.spans)


@pytest.mark.parametrize("principal", [False, True])
async def test_openinference_names_the_session_and_by_option_the_user(principal: bool) -> None:
    """The conversation is the session; who asks is the user, where the spans may say who asks."""
    exported = Exported()
    pipeline = traced(exported, openinference=True, principal=principal)
    await pipeline.with_(principal="ann", conversation="talk-7").call("probe")
    found = dict(root(exported).attributes)
    assert (found["session.id"], found["gen_ai.conversation.id"]) == ("talk-7", "talk-7")
    assert (found.get("user.id"), found.get("toolcall.principal")) == (("ann", "ann") if principal else (None, None))


@pytest.mark.parametrize("defer", [False, True])
async def test_openinference_kinds_reach_deferred_spans(defer: bool) -> None:
    """Deferred spans have an OpenInference kind too."""
    exported = Exported()
    await traced(exported, openinference=True, defer=defer).call("probe")
    flush_queues()
    kinds = {span.name: dict(span.attributes or {})["openinference.span.kind"] for span in exported.spans}
    assert kinds.pop("execute_tool probe") == "TOOL"
    assert set(kinds.values()) == {"CHAIN"}


async def test_a_call_continues_the_trace_of_a_carrier() -> None:
    """Inside `continued`, the call span is a child of the span that the W3C carrier names; afterwards it is not."""
    trace_id, span_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    exported = Exported()
    pipeline = traced(exported)
    with continued({"traceparent": f"00-{trace_id}-{span_id}-01"}):
        await pipeline.call("probe")
    assert not get_current_span().get_span_context().is_valid
    (found,) = [span for span in exported.spans if span.name == "execute_tool probe"]
    assert found.parent
    assert found.context
    assert (f"{found.parent.span_id:016x}", f"{found.context.trace_id:032x}") == (span_id, trace_id)


@pytest.mark.parametrize("name", ["traceparent", "Traceparent", "TRACEPARENT"])
async def test_the_names_of_headers_have_any_case(name: str) -> None:
    """The name of a header has no case (RFC 9110), and a dict of headers has whichever its framework gave it."""
    exported = Exported()
    with continued({"Host": "a", name: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}):
        await traced(exported).call("probe")
    (found,) = [span for span in exported.spans if span.name == "execute_tool probe"]
    assert found.context is not None
    assert f"{found.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.parametrize("carrier", [{}, {"traceparent": "nonsense"}], ids=str)
async def test_a_carrier_without_a_trace_changes_nothing(carrier: dict[str, str]) -> None:
    """A carrier that names no trace changes nothing: the current span stays the parent, and other entries stay."""
    exported = Exported()
    current = NonRecordingSpan(SpanContext(7, 8, is_remote=False, trace_flags=TraceFlags(1)))
    with use_span(current), continued(carrier):
        await traced(exported).call("probe")
    (found,) = [span for span in exported.spans if span.name == "execute_tool probe"]
    assert found.parent == current.get_span_context()


async def test_two_pipelines_with_two_providers() -> None:
    """Two pipelines with a provider each, one inside a tool of the other, record one trace, each its own spans."""
    first, second = Exported(), Exported()
    inner = traced(second)

    async def nested(**_: object) -> object:
        return (await inner.call("probe")).unwrap()

    await traced(first, nested).call("probe")
    for exported, number in ((first, 7), (second, 7)):
        assert len(exported.spans) == number
    assert {span.context.trace_id for span in first.spans if span.context} == {
        span.context.trace_id for span in second.spans if span.context
    }


async def dawdle(call: Any, call_next: Any) -> Any:
    """Work for more than a millisecond."""
    until = perf_counter() + 0.0015
    while perf_counter() < until:
        pass
    return await call_next(call)


@pytest.mark.parametrize("defer", [False, True])
async def test_notable_stages_only(defer: bool) -> None:
    """With stages="notable" a stage has a span if it decided a failure, has a reason, or worked for over 1 ms."""
    exported, clock = Exported(), FakeClock()

    async def lost() -> object:
        raise ConnectionError

    run = traced(exported, lost, stages="notable", defer=defer)
    run = run.replace("retry", Retry(attempts=2, sleep=clock.sleep)).before("retry", dawdle, name="slow")
    report = await run.report(Call("probe"))
    flush_queues()
    assert_trace(exported.spans, reports=[report], stages="notable")
    names = Counter(span.name for span in exported.spans)
    assert names >= Counter({"execute_tool probe": 1, "attempt probe": 2, "classify": 2, "retry": 1, "slow": 1})
    assert "available" not in names or any(stage.own > 1e6 for stage in report.stages if stage.name == "available")


async def crash(amount: int) -> object:
    """Crash."""
    raise ZeroDivisionError(SECRET)


async def lose(amount: int) -> object:
    """Lose the connection."""
    raise ConnectionError(SECRET)


FACTS: dict[str, tuple[Any, Effect, Any, dict[str, Any], str]] = {
    "crash": (
        crash,
        "read",
        {"amount": 1},
        {"exception.type": "ZeroDivisionError"},
        "ZeroDivisionError",
    ),
    "lost": (lose, "read", {"amount": 1}, {"exception.type": "ConnectionError"}, "ConnectionError"),
    "outcome unknown": (
        lose,
        "mutating",
        {"amount": 1},
        {"toolcall.cause": "transient", "exception.type": "ConnectionError"},
        "transient, ConnectionError",
    ),
    "problems": (
        lose,
        "read",
        {"amount": SECRET, SECRET: 1},
        {"toolcall.problems": ("amount: type", "*: additionalProperties")},
        "amount: type, *: additionalProperties",
    ),
    "no arguments": (lose, "read", {}, {"toolcall.problems": ("amount: required",)}, "amount: required"),
}


@pytest.mark.parametrize("defer", [False, True])
@pytest.mark.parametrize(("fn", "effect", "arguments", "facts", "status"), FACTS.values(), ids=FACTS)
async def test_a_failed_span_says_what_failed(
    fn: Any, effect: Effect, arguments: Any, facts: dict[str, Any], status: str, defer: bool
) -> None:
    """The call and the failed attempt have the class of the exception, or the parameters and rules, and no content."""
    exported = Exported()
    tools = ToolRegistry()
    tools.register(Tool(fn.__name__, fn, effect))
    observer = Trace(tracer_provider=exported.provider, defer=defer)
    await standard(tools, attempts=1).replace("trace", observer).call(fn.__name__, arguments)
    flush_queues()
    keys = ("exception.type", "toolcall.cause", "toolcall.problems")
    failed = {
        span.name.split()[0]: span
        for span in exported.spans
        if not span.status.is_unset and span.name.split()[0] in ("execute_tool", "attempt")
    }
    call = failed["execute_tool"]
    assert {key: value for key, value in dict(call.attributes or {}).items() if key in keys} == facts
    assert call.status.description == status
    if "attempt" in failed:
        attempt = dict(failed["attempt"].attributes or {})
        assert attempt["exception.type"] == facts["exception.type"]
        assert "exception.type" in facts
        assert failed["attempt"].status.description is not None
    assert SECRET not in "".join(span.to_json() for span in exported.spans)


@pytest.mark.parametrize("defer", [False, True])
async def test_an_attempt_says_what_it_ran(defer: bool) -> None:
    """The attempt has the tool's effect, its executor, and whether it landed; the call has its description."""
    exported = Exported()
    await traced(exported, defer=defer).call("probe")
    flush_queues()
    (attempt,) = [span for span in exported.spans if span.name == "attempt probe"]
    assert dict(attempt.attributes or {}) == {
        "toolcall.attempt": 1,
        "toolcall.tool.effect": "read",
        "toolcall.executor": "loop",
        "toolcall.landed": "yes",
    }
    (call,) = [span for span in exported.spans if span.name == "execute_tool probe"]
    assert (call.attributes or {})["gen_ai.tool.description"] == "Look."


async def test_a_call_has_the_description_of_its_tool_and_its_conversation() -> None:
    """Also where another tool has the name by now, and where a tool is found late."""
    exported, tools = Exported(), ToolRegistry()
    tools.register(a_tool("look", description="One."))
    pipeline = standard(tools).replace("trace", Trace(tracer_provider=exported.provider))
    await pipeline.call("look", {}, conversation="talk 1")
    tools.replace(a_tool("look", description="Two."))
    await pipeline.call("look", {}, conversation="talk 2")

    async def pass_on(call: Call, call_next: Any) -> Any:
        return await call_next(call)

    await pipeline.before("resolve", pass_on).call("look", {}, conversation="talk 3")
    calls = [dict(span.attributes or {}) for span in exported.spans if span.name == "execute_tool look"]
    described = [(each["gen_ai.tool.description"], each["gen_ai.conversation.id"]) for each in calls]
    assert described == [("One.", "talk 1"), ("Two.", "talk 2"), ("Two.", "talk 3")]


@pytest.mark.parametrize("defer", [False, True])
async def test_a_tool_writes_to_the_span_of_its_attempt(defer: bool) -> None:
    """A name, attributes and events reach the span, also where spans are made later."""

    def look() -> None:
        span = get_current_span()
        span.update_name("looked")
        span.set_attribute("one", 1)
        span.set_attributes({"two": 2})
        span.record_exception(ValueError("seen"))

    exported, tools = Exported(), ToolRegistry()
    tools.tool(effect="read")(look)
    observer = Trace(tracer_provider=exported.provider, defer=defer)
    await standard(tools).replace("trace", observer).call("look")
    observer.flush()
    (attempt,) = [span for span in exported.spans if span.name == "looked"]
    assert {"one": 1, "two": 2}.items() <= dict(attempt.attributes or {}).items()
    assert [event.name for event in attempt.events] == ["exception"]


@pytest.mark.parametrize("uses_its_span", [False, True])
@pytest.mark.parametrize("defer", [False, True])
async def test_an_attempt_names_the_executor_that_ran_it(defer: bool, uses_its_span: bool) -> None:
    """It is that of the pipeline where the tool names none, also if the tool has used the span before it is known."""

    def look() -> str:
        """Look."""
        if uses_its_span:
            get_current_span().add_event("seen")
        return "seen"

    exported, tools = Exported(), ToolRegistry()
    tools.tool(effect="read")(look)

    class Elsewhere(Thread):
        name = "elsewhere"

    observer = Trace(tracer_provider=exported.provider, defer=defer)
    pipeline = standard(tools).replace("trace", observer).replace("execute", Execute(executor=Elsewhere()))
    assert await pipeline.call("look") == Success("seen")
    observer.flush()
    (attempt,) = [span for span in exported.spans if span.name == "attempt look"]
    assert (attempt.attributes or {})["toolcall.executor"] == "elsewhere"
    assert len(attempt.events) == uses_its_span


async def test_what_the_model_was_told() -> None:
    """With content=True a failed call has the text for the model, which OpenInference shows as its output."""
    exported = Exported()
    await traced(exported, content=True, openinference=True).call("probe", {"query": {"x": 1}})
    found = dict(root(exported).attributes)
    assert "query" in found["toolcall.told"]
    assert found["output.value"] == found["toolcall.told"]
    assert "gen_ai.tool.call.result" not in found


async def test_cut_content_says_so() -> None:
    """A result that is too long is cut to 10,000 characters, with a mark at its end."""
    exported = Exported()

    async def long() -> str:
        return "x" * 20_000

    await traced(exported, long, content=True).call("probe")
    text = dict(root(exported).attributes)["gen_ai.tool.call.result"]
    assert len(text) == 10_000
    assert text.endswith("x… (cut, of 20,000 characters)")


async def test_spans_have_the_version_of_the_library() -> None:
    """The instrumentation scope has a version and a schema."""
    exported = Exported()
    await traced(exported).call("probe")
    assert {
        (span.instrumentation_scope.version, span.instrumentation_scope.schema_url)
        for span in exported.spans
        if span.instrumentation_scope
    } == {(__version__, SCHEMA_URL)}


OWN_WORDS = "the bank says no to " + SECRET
REASONS: dict[str, tuple[ToolError, dict[str, Any], str | None]] = {
    "a word of ours": (Unavailable("probe", "quota"), {"toolcall.reason": "quota"}, "quota"),
    "a text of an author's": (Unavailable("probe", OWN_WORDS), {}, None),
    "cut off": (
        MalformedCall(approved(OWN_WORDS), truncated=True),
        {"toolcall.reason": "truncated"},
        "truncated",
    ),
    "not JSON": (MalformedCall(approved(OWN_WORDS)), {}, None),
    "left behind": (
        TimedOut(3, still_running=True),
        {"toolcall.reason": "still_running"},
        "still_running",
    ),
    "timeout": (TimedOut(3), {}, None),
    "permission": (Denied(OWN_WORDS, approved(OWN_WORDS)), {}, None),
    "unknown": (UnknownTool(OWN_WORDS, (OWN_WORDS,)), {}, None),
    "a rule that is a text": (
        InvalidParams((Problem(SECRET, OWN_WORDS, approved(OWN_WORDS)),)),
        {"toolcall.problems": ("*: validator",)},
        "*: validator",
    ),
}


@pytest.mark.parametrize("defer", [False, True])
@pytest.mark.parametrize(("error", "facts", "status"), REASONS.values(), ids=REASONS)
async def test_every_failure_has_a_status_without_content(
    error: ToolError, facts: dict[str, Any], status: str | None, defer: bool
) -> None:
    """The status of a failed call and attempt is the reason if that is a word of ours: its kind stands beside it."""

    async def fail(**_: object) -> Outcome:
        return Failure(error)

    exported = Exported()
    await traced(exported, fail, defer=defer).replace("retry", Retry(attempts=1)).call("probe")
    flush_queues()
    failed = [span for span in exported.spans if span.name in ("execute_tool probe", "attempt probe")]
    assert [span.status.description for span in failed] == [status, status]
    for span in failed:
        attributes = dict(span.attributes or {})
        assert {key: attributes[key] for key in ("toolcall.reason", "toolcall.problems") if key in attributes} == facts
    assert SECRET not in "".join(span.to_json() for span in exported.spans)
