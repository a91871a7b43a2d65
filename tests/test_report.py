"""CallReport: what it holds, and how it pickles."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import weakref
from typing import Any

import attrs
import pytest
from returns.result import Failure, Success

from error_cases import EACH_KIND
from support import Exported, StageTime, a_tool
from toolcall_pipeline import (
    Call,
    CallReport,
    Crashed,
    Denied,
    ExecutionFailed,
    Outcome,
    RemoteCause,
    Repair,
    ResolvedCall,
    ToolContext,
    ToolError,
    ToolRegistry,
    Unavailable,
    ValidCall,
    approved,
    is_failure,
)
from toolcall_pipeline.engine.report.json_form import write_form
from toolcall_pipeline.middlewares import Cache, Retry, Trace, standard


def flaky() -> Any:
    seen: list[int] = []

    async def fail_once(**_: object) -> str:
        seen.append(1)
        if len(seen) == 1:
            raise ConnectionError("secret")
        return "done"

    return fail_once


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> StageTime:
    return StageTime(monkeypatch)


def registry(*tools: Any) -> ToolRegistry:
    made = ToolRegistry()
    for each in tools:
        made.register(each)
    return made


async def test_a_report_tells_all() -> None:
    """A report has the call as sent, the tool, the outcome, each stage and attempt with times, and the decisions."""
    tool = a_tool(fn=flaky())
    call = Call("functions.probe", "{}", "c1")
    report = await standard(registry(tool)).replace("retry", Retry(jitter=lambda: 0.01)).report(call)
    assert (report.call, report.tool, report.outcome, report.error) == (call, tool, Success("done"), None)
    assert report.repairs == (Repair("name", "transport_noise", "functions.probe", "probe"),)
    assert [(stage.name, stage.verdict, stage.attempt) for stage in report.stages] == [
        ("resolve", None, 0),
        ("available", None, 0),
        ("validate", None, 0),
        ("execute", "internal", 1),
        ("classify", "transient", 1),
        ("retry", None, 0),
        ("execute", None, 2),
        ("classify", None, 2),
    ]
    assert [(each.number, each.executor, each.verdict, each.landed) for each in report.attempts] == [
        (1, "loop", "transient", "maybe"),
        (2, "loop", None, "yes"),
    ]
    assert report.attempts[1].wait == report.decisions[0].wait == 0.001
    assert [each.seconds * 1e9 for each in report.attempts] == pytest.approx(
        [each.end - each.start for each in report.attempts]
    )
    times = [report.started, *(time for stage in report.stages for time in stage[1:3]), report.ended]
    assert times == sorted(times)
    assert 0 < report.seconds < 60
    assert all(stage.seconds >= 0 for stage in report.stages)


ENDS: dict[str, Any] = {
    **{error.kind: Failure(error) for error in EACH_KIND},
    "a value": Success({"n": [1, None]}),
    "nothing": Success(None),
    "cancelled": None,
}


@pytest.mark.parametrize("end", ENDS)
async def test_a_report_goes_to_json_and_back(end: str) -> None:
    """With its outcome, or none, its fields for the model, stages and attempts; its cause as the name of its class."""
    tools = ToolRegistry()

    async def act(**_: object) -> object:
        return ENDS[end]

    tools.register(a_tool("read", fn=act))
    report = await standard(tools, attempts=1).report(Call("read", {"a": 1}, "a", "ann", conversation="c", reply="r"))
    if end == "cancelled":
        report = attrs.evolve(report, outcome=None)
    text = report.to_json()
    back = CallReport.from_json(text, tools["read"])
    assert type(back.outcome) is type(report.outcome)
    assert (back.error and back.error.kind) == (report.error and report.error.kind)
    assert back.error is not None or back.outcome == report.outcome
    assert [row.name for row in back.stages] == [row.name for row in report.stages]
    assert [row.verdict for row in back.attempts] == [row.verdict for row in report.attempts]
    assert [row.landed for row in back.attempts] == [row.landed for row in report.attempts]
    assert back.tool is tools["read"]
    assert back.seconds == pytest.approx(report.seconds, abs=1e-6)
    assert back.to_json() == text
    assert "hunter2" not in text


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"form": 99}', '{"form": 1, "id": "a"}', "null"])
def test_what_is_no_report(text: str) -> None:
    """It is a ValueError."""
    with pytest.raises(ValueError, match=r"report|Expecting"):
        CallReport.from_json(text)


async def test_a_refused_call_has_a_report() -> None:
    """A refused call has a report too, with no tool and no attempt."""
    report = await standard(registry(a_tool())).report(Call("nope"))
    assert report.error is not None
    assert (report.tool, report.attempts, report.error.kind) == (None, (), "unknown_tool")
    assert [(stage.name, stage.verdict) for stage in report.stages] == [("resolve", "unknown_tool")]


async def test_an_end_that_raises_has_a_verdict() -> None:
    """It is internal, and not taken for one that was cancelled."""

    async def broken(call: Call) -> Outcome:
        raise ValueError

    report = await standard(registry(a_tool())).replace("execute", broken).without("classify").report(Call("probe"))
    verdicts = {each.name: each.verdict for each in report.stages}
    assert verdicts["execute"] == "internal"


async def test_a_stage_adds_words_to_its_own_row() -> None:
    """A stage is recorded once for each run, under its name in the stack, with what it noted."""
    pipeline = standard(registry(a_tool())).before("retry", Cache(60), name="answers")
    await pipeline.call("probe")
    report = await pipeline.report(Call("probe"))
    assert [stage.name for stage in report.stages] == ["resolve", "available", "validate", "answers"]
    assert report.stages[-1].note.startswith("answered by an earlier call")


async def test_nobody_listens_and_nothing_is_kept() -> None:
    """If nothing records a call, the stages get it without a report."""
    seen: list[object] = []

    def look(call: Any) -> Any:
        seen.append(call.report)
        return call

    await standard(registry(a_tool())).before("retry", look).call("probe")
    assert seen == [None]


async def test_an_inner_pipeline_writes_its_own_report() -> None:
    """A tool that calls a pipeline leaves no row of that call in its own report."""
    inner = standard(registry(a_tool("inner")))

    async def outer() -> str:
        await inner.call("inner")
        return "done"

    report = await standard(registry(a_tool("outer", fn=outer))).report(Call("outer"))
    assert [stage.name for stage in report.stages].count("resolve") == 1


async def test_reports_pickle() -> None:
    """A report pickles without the caller's own objects and functions, and with no private text."""

    def crash(context: ToolContext, a: int) -> None:
        raise ValueError("secret")

    tools = ToolRegistry()
    tools.tool(context=True)(crash)
    report = await standard(tools).report(Call("crash", {"a": 1}, deps=lambda: None))
    data = pickle.dumps(report)
    assert b"secret" not in data
    copy = pickle.loads(data)
    assert copy.stages == report.stages
    assert (copy.call.name, copy.call.arguments, copy.call.deps) == ("crash", {"a": 1}, None)
    assert (copy.tool.name, copy.tool.effect) == ("crash", "mutating")
    assert is_failure(copy.outcome)
    error = copy.outcome.failure()
    assert isinstance(error, Crashed)
    assert isinstance(error.cause, RemoteCause)
    assert str(error.cause) == "ValueError (6 characters withheld)"
    assert copy.outcome == Failure(Crashed())


async def test_a_report_that_was_given_out_does_not_grow() -> None:
    """What an abandoned tool writes after its call has ended is not in the report."""
    contexts: list[ToolContext] = []

    async def keep(context: ToolContext) -> None:
        contexts.append(context)

    report = await standard(registry(a_tool(fn=keep, context=True))).report(Call("probe"))
    contexts[0].progress(1)
    assert report.progress == []


async def test_a_traced_failure_keeps_nothing_alive(caplog: pytest.LogCaptureFixture) -> None:
    """The exception of a traced call, and all that it holds, is freed with the outcome: there is no cycle."""

    class Held:
        pass

    held: list[weakref.ref[Held]] = []

    async def fail() -> None:
        local = Held()
        held.append(weakref.ref(local))
        raise ValueError

    caplog.set_level(100, "toolcall_pipeline")  # a log record keeps its exception
    pipeline = standard(registry(a_tool(fn=fail))).replace("trace", Trace(tracer_provider=Exported().provider))
    gc.disable()
    try:
        await pipeline.call("probe")
        assert held[0]() is None
    finally:
        gc.enable()


def test_copies_are_as_good_as_the_original() -> None:
    """A copied error keeps its private cause."""
    error = Crashed(ValueError("why"))
    assert copy.copy(error).cause is copy.deepcopy(error).cause is error.cause


@pytest.mark.parametrize("phase", [Call, ResolvedCall, ValidCall], ids=lambda phase: phase.__name__)
def test_every_field_of_a_phase_travels(phase: type[Call]) -> None:
    """Each method that copies a call copies all its fields."""
    marks: dict[str, Any] = {field.name: object() for field in attrs.fields(phase)}
    tool = a_tool()
    if phase is not Call:
        marks["tool"] = tool
    call: Any = phase(**marks)
    under = call.under("report", "guards")
    made = [under]
    if phase is Call:
        made.append(call.resolved(tool))
    elif phase is ResolvedCall:
        made.append(call.validated({}))
    for other in made:
        for field in attrs.fields(phase):
            if not (other is under and field.name in ("report", "guards")):
                assert getattr(other, field.name) is getattr(call, field.name), field.name


@pytest.mark.parametrize(("name", "kind"), [("probe", "timeout"), ("nope", "unknown_tool")])
async def test_a_limit_in_the_past_is_judged_alike_with_and_without_a_report(name: str, kind: str) -> None:
    """The checks at the front come before the time limit of the call, whether anybody records it or not."""
    tools = ToolRegistry()
    tools.register(a_tool())
    pipeline = standard(tools)
    reported = await pipeline.report(Call(name, timeout=0))
    plain = await pipeline.call(name, timeout=0)
    assert reported.error is not None
    assert (reported.error.kind, plain.failure().kind) == (kind, kind)


async def test_a_refused_call_with_a_limit_is_refused_alike() -> None:
    """So a paused tool is refused as paused, and not as too late."""
    tools = ToolRegistry()
    tools.register(a_tool())
    tools.pause("probe", retry_after=1)
    reported = await standard(tools).report(Call("probe", timeout=0))
    plain = await standard(tools).call("probe", timeout=0)
    assert reported.error is not None
    assert (reported.error.kind, plain.failure().kind) == ("unavailable", "unavailable")


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (Unavailable("read", "breaker_open", 5.0), {"tool": "read", "reason": "breaker_open"}),
        (Unavailable("read", "Ann has none left", message=approved("Ann")), None),
        (Denied("policy", approved("Ann may not")), {"by": "policy"}),
        (Denied("Ann Smith"), None),
        (ExecutionFailed(approved("no such thing")), None),
    ],
)
async def test_what_a_failure_says_without_content(error: ToolError, kept: dict[str, str] | None) -> None:
    """Why it is not available, and who refused, where that is a name; a text of a stage or a tool is not kept."""
    tools = ToolRegistry()

    async def fail() -> object:
        return Failure(error)

    tools.register(a_tool("read", fn=fail))
    form = write_form(await standard(tools, attempts=1).report(Call("read", {})), content=False)
    fields = form["error"].get("fields", {})
    assert {name: each for name, each in fields.items() if name in (kept or fields)} == (kept or {})
    assert not any(text in json.dumps(form) for text in ("Ann", "no such thing"))
