"""Why a call was refused: the stage that decided stands in the report, on the span, in the log and in the metric."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Annotated, Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from returns.result import Failure

import toolcall_pipeline
from support import Exported
from toolcall_pipeline import (
    Call,
    Denied,
    Effect,
    ExecutionFailed,
    Handler,
    InvalidParams,
    MalformedCall,
    NotExecuted,
    Outcome,
    Pipeline,
    Problem,
    ResolvedCall,
    Secret,
    ToolError,
    ToolRegistry,
    Unavailable,
    approved,
)
from toolcall_pipeline.middlewares import (
    CheckResult,
    CircuitBreaker,
    LoopGuard,
    Quota,
    RateLimit,
    Timeout,
    Trace,
    standard,
)
from toolcall_pipeline.telemetry.attributes import name_reason
from toolcall_pipeline.testing import FakeClock

LOGGER = "toolcall_pipeline"


def returned(text: str) -> Any:
    return Failure(ExecutionFailed(approved(text)))


def tenants_only(call: ResolvedCall) -> ResolvedCall | Failure[Denied]:
    return Failure(Denied("policy")) if call.principal == "stranger" else call


async def office_hours(call: ResolvedCall, call_next: Handler[ResolvedCall]) -> Outcome:
    return Failure(Denied("office_hours")) if call.principal == "late" else await call_next(call)


def make(clock: FakeClock | None = None, **options: Any) -> Pipeline:
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def find(word: str) -> Any:
        if word == "secret":
            raise PermissionError("403")
        if word == "own":
            return returned("no such word")
        if word == "bug":
            raise ValueError("/private")
        if word == "down":
            raise ConnectionError
        if word == "slow" and clock is not None:
            await clock.sleep(60)
        return word

    @tools.tool(effect="read")
    async def closed() -> str:
        return ""

    tools.disable("closed")
    pipeline = standard(tools, attempts=1).after("available", tenants_only).before("retry", office_hours)
    pipeline = pipeline.before("retry", LoopGuard(2, refuse_after=2))
    return pipeline.replace("trace", Trace(**options)) if options else pipeline.without("trace")


CASES = [
    (Call("fnid", {"word": "a"}), "unknown_tool", "resolve"),
    (Call("closed"), "unavailable", "available"),
    (Call("find", {}), "validation", "validate"),
    (Call("find", "{"), "malformed_call", "validate"),
    (Call("find", {"word": "a"}, principal="stranger"), "permission", "tenants_only"),
    (Call("find", {"word": "a"}, principal="late"), "permission", "office_hours"),
    (Call("find", {"word": "secret"}), "permission", "classify"),
    (Call("find", {"word": "bug"}), "internal", "execute"),
    (Call("find", {"word": "down"}), "transient", "classify"),
]


@pytest.mark.parametrize(("call", "kind", "stage"), CASES, ids=[f"{each[2]} {each[1]}" for each in CASES])
async def test_who_decided(call: Call, kind: str, stage: str, caplog: pytest.LogCaptureFixture) -> None:
    """Report, span, metric and log name the same stage, and the log names it where nothing is recorded as well."""
    exported, reader = Exported(), InMemoryMetricReader()
    meters = MeterProvider([reader], shutdown_on_exit=False)
    with caplog.at_level(logging.INFO, LOGGER):
        report = await make(tracer_provider=exported.provider, meter_provider=meters).report(call)
        await make()(call)
    assert report.error is not None
    assert (report.error.kind, report.decided_by) == (kind, stage)
    assert f"decided_by='{stage}'" in repr(report)
    span = next(each for each in exported.spans if each.name.startswith("execute_tool"))
    assert (span.attributes or {})["toolcall.decided_by"] == stage
    data: Any = reader.get_metrics_data()
    metrics = data.resource_metrics[0].scope_metrics[0].metrics
    (duration,) = [each for each in metrics if each.name == "gen_ai.execute_tool.duration"]
    assert [point.attributes["toolcall.decided_by"] for point in duration.data.data_points] == [stage]
    records = [each for each in caplog.records if each.name == LOGGER]
    assert [getattr(each, "toolcall.decided_by") for each in records] == [stage, stage]


OWN_STAGES: list[tuple[Any, list[str]]] = [  # and the words of the calls, of which it refuses the last
    (Timeout(5), ["slow"]),
    (RateLimit(1), ["a", "a"]),
    (Quota(1), ["a", "a"]),
    (CircuitBreaker(failures=1), ["down", "a"]),
]


@pytest.mark.parametrize(("stage", "words"), OWN_STAGES, ids=[type(each).__name__ for each, _ in OWN_STAGES])
async def test_a_stage_of_ours_is_named_without_a_record(
    stage: Any, words: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the stage by its error, under the name that it has in the pipeline."""
    with FakeClock() as clock, caplog.at_level(logging.INFO, LOGGER):
        pipeline = make(clock).before("retry", stage, name="mine")
        outcomes = [await pipeline.call("find", {"word": word}) for word in words]
    assert isinstance(outcomes[-1], Failure)
    assert getattr(caplog.records[-1], "toolcall.decided_by") == "mine"


def check_length(_: Any, word: str) -> str | None:
    if word == "odd":
        raise ValueError
    return None if len(word) > 1 else "the word is too short"


SECRET_AND_NONE = [pytest.param(True, id="with a secret"), pytest.param(False, id="without secrets")]


@pytest.mark.parametrize("effect", ["read", "idempotent", "mutating"])
@pytest.mark.parametrize("has_secret", SECRET_AND_NONE)
@pytest.mark.parametrize(
    ("word", "kind", "stage"),
    [("a", "execution", "mine"), ("odd", "internal", "mine"), ("own", "execution", "execute")],
)
async def test_a_wrong_result_is_decided_by_its_check(
    word: str, kind: str, stage: str, has_secret: bool, effect: Effect, caplog: pytest.LogCaptureFixture
) -> None:
    """Report and both logs name the stage that checked the result, and the end for a failure that the tool returned."""
    tools, inner = ToolRegistry(), ToolRegistry()

    @inner.tool(effect="read", ensure=check_length)
    async def short() -> str:
        return "a"

    other = standard(inner).without("trace")

    async def find(word: str) -> Any:
        return await other.call("short") if word == "own" else word

    async def find_for(word: str, pin: Annotated[str, Secret()]) -> Any:
        return await find(word)

    tools.tool(effect=effect, name="find", ensure=check_length)(find_for if has_secret else find)
    pipeline = standard(tools, attempts=1).after("retry", CheckResult(), name="mine").without("check_result")
    arguments = {"word": word, "pin": "zebra"} if has_secret else {"word": word}
    with caplog.at_level(logging.INFO, LOGGER):
        report = await pipeline.report(Call("find", arguments))
        await pipeline.without("trace")(Call("find", arguments))
    assert report.error is not None
    assert (report.error.kind, report.decided_by) == (kind, stage)
    logged = [vars(each) for each in caplog.records if each.name == LOGGER]
    assert [each["toolcall.decided_by"] for each in logged if each["gen_ai.tool.name"] == "find"] == [stage, stage]


async def test_the_callers_own_time_limit_is_no_stage(caplog: pytest.LogCaptureFixture) -> None:
    """Report, span and log name neither a stage nor a reason for a call whose caller gave it no time."""
    exported = Exported()
    with caplog.at_level(logging.INFO, LOGGER):
        report = await make(tracer_provider=exported.provider).report(Call("find", {"word": "a"}, timeout=0.0))
    assert report.error is not None
    assert (report.error.kind, report.decided_by, report.reason) == ("timeout", "", "")
    span = next(each for each in exported.spans if each.name.startswith("execute_tool"))
    (record,) = [each for each in caplog.records if each.name == LOGGER]
    for facts in (span.attributes or {}, vars(record)):
        assert not {"toolcall.decided_by", "toolcall.reason"} & set(facts)


def refuse_as(error: ToolError) -> Pipeline:
    def rule(_: ResolvedCall) -> Failure[ToolError]:
        return Failure(error)

    return make(**SILENT).after("available", rule)


SILENT: dict[str, Any] = {"tracer_provider": Exported().provider}
REASONS: list[tuple[ToolError, str, str | None, str | None]] = [  # and that of the report, the span, the metric
    (Unavailable("find", "rate_limited", 3), "rate_limited", "rate_limited", "rate_limited"),
    (Unavailable("find", "store_away"), "store_away", "store_away", "store_away"),
    (Unavailable("find", "closed by ann@x.org"), "closed by ann@x.org", None, None),
    (Denied("tenants"), "tenants", "tenants", None),
    (Denied("rule"), "rule", None, None),  # the stage itself, which stands in `decided_by`
    (Denied("ann@x.org"), "ann@x.org", None, None),
    (NotExecuted("plan mode"), "plan mode", None, None),
    (MalformedCall("it ends", truncated=True), "it ends", "truncated", "truncated"),
]


@pytest.mark.parametrize(
    ("error", "of_report", "of_span", "of_metric"), REASONS, ids=[repr(each[0]) for each in REASONS]
)
async def test_the_reason_stands_beside_the_stage(
    error: ToolError, of_report: str, of_span: str | None, of_metric: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """In the report and its repr; on the span and in the log where it is a name, and in the metric one of a few."""
    exported, reader = Exported(), InMemoryMetricReader()
    meters = MeterProvider([reader], shutdown_on_exit=False)
    trace = Trace(tracer_provider=exported.provider, meter_provider=meters)
    with caplog.at_level(logging.INFO, LOGGER):
        report = await refuse_as(error).replace("trace", trace).report(Call("find", {"word": "a"}))
    assert (report.decided_by, report.reason) == ("rule", of_report)
    assert f"reason={of_report!r}" in repr(report)
    span = next(each for each in exported.spans if each.name.startswith("execute_tool"))
    assert (span.attributes or {}).get("toolcall.reason") == of_span
    (record,) = [each for each in caplog.records if each.name == LOGGER]
    assert getattr(record, "toolcall.reason", None) == of_span
    data: Any = reader.get_metrics_data()
    metrics = data.resource_metrics[0].scope_metrics[0].metrics
    (duration,) = [each for each in metrics if each.name == "gen_ai.execute_tool.duration"]
    assert [point.attributes.get("toolcall.reason") for point in duration.data.data_points] == [of_metric]


def test_each_reason_of_a_stage_of_ours_is_known() -> None:
    """Else the call's span would not say it."""
    room = Path(toolcall_pipeline.__file__).resolve().parent
    source = "".join(each.read_text() for each in (room / "middlewares").glob("*.py"))
    found = set(re.findall(r'(?:Unavailable|_away)\(.*?, "([^"]+)"', source))
    assert {"busy", "quota", "rate_limited", "store_away"} < found
    assert {reason for reason in found if not name_reason(Unavailable("find", reason))} == set()


async def test_an_equal_call_that_is_undecided_is_refused_by_once(caplog: pytest.LogCaptureFixture) -> None:
    """The pipeline itself decides then: it has a row of its own, with the reason."""
    exported = Exported()
    tools = ToolRegistry()

    @tools.tool
    async def pay(amount: int) -> str:
        raise ConnectionError(amount)

    pipeline = standard(tools).replace("trace", Trace(tracer_provider=exported.provider))
    call = Call("pay", {"amount": 1}, conversation="t1")
    first, second = await pipeline.report(call), await pipeline.report(call)
    assert (first.decided_by, first.reason) == ("retry", "not repeated: a mutating call that may have landed")
    assert (second.decided_by, second.reason) == ("once", "an equal call of this conversation is undecided")
    span = [each for each in exported.spans if each.name.startswith("execute_tool")][-1]
    assert (span.attributes or {})["toolcall.reason"] == second.reason
    assert getattr(caplog.records[-1], "toolcall.decided_by") == "once"


async def test_a_loop_guard_is_told_from_a_403(caplog: pytest.LogCaptureFixture) -> None:
    """Both are ``permission``; the stage tells them apart."""
    pipeline = make(tracer_provider=Exported().provider)
    with caplog.at_level(logging.INFO, LOGGER):
        reports = [await pipeline.report(Call("find", {"word": "a"}, conversation="t1")) for _ in range(5)]
    refused = [each for each in reports if each.error is not None]
    assert {(each.error.kind, each.decided_by) for each in refused if each.error} == {("permission", "loop_guard")}
    assert {each.reason for each in refused} == {"not run: the same arguments came to the same result 2 times"}
    assert reports[0].decided_by == reports[0].reason == ""
    assert "decided_by" not in repr(reports[0])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (Call("fnd", {"word": "a"}), "did you mean 'find'?"),
        (Call("find", {"word": "bug"}), "internal: ValueError"),
        (Call("find", "[1]"), "malformed_call: '"),
        (Call("find", {"word": "own"}), "execution: 'no such word'"),
        (Call("find", {"word": "a"}, principal="stranger"), "permission: by 'policy'"),
    ],
)
async def test_the_log_says_what_helps(call: Call, said: str, caplog: pytest.LogCaptureFixture) -> None:
    """The suggestion for an unknown name, the reason of a malformed call, the class of a crash."""
    with caplog.at_level(logging.INFO, LOGGER):
        await make()(call)
    assert said in caplog.text


async def test_the_words_of_an_authors_own_check(caplog: pytest.LogCaptureFixture) -> None:
    """A check of the author's own says what its rule does not."""

    def check(call: ResolvedCall) -> Failure[InvalidParams]:
        return Failure(InvalidParams((Problem("word", "validator", "not a word of ours"),)))

    with caplog.at_level(logging.INFO, LOGGER):
        await make().after("available", check).call("find", {"word": "a"})
    assert "not a word of ours" in caplog.text


async def test_one_check_under_two_names_is_told_by_the_name_that_refused(caplog: pytest.LogCaptureFixture) -> None:
    """The log of a call without a report and its report name the same one of two stages that run one function."""
    seen = list[ResolvedCall]()

    def every_second(call: ResolvedCall) -> ResolvedCall | Failure[Denied]:
        seen.append(call)
        return call if len(seen) % 2 else Failure(Denied("second"))

    first = make().after("available", every_second, name="first")
    pipeline = first.after("first", every_second, name="second")
    with caplog.at_level(logging.INFO, LOGGER):
        await pipeline.call("find", {"word": "a"})
    assert [vars(each).get("toolcall.decided_by") for each in caplog.records] == ["second"]
    assert (await pipeline.report(Call("find", {"word": "a"}))).decided_by == "second"


async def test_the_waits_of_a_call_are_measured() -> None:
    """The total wait between the attempts is an attribute of the call's span, a histogram, and in the report."""
    exported, reader = Exported(), InMemoryMetricReader()
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def down() -> str:
        raise ConnectionError

    trace = Trace(tracer_provider=exported.provider, meter_provider=MeterProvider([reader], shutdown_on_exit=False))
    with FakeClock():
        report = await standard(tools).replace("trace", trace).report(Call("down"))
    assert report.waited == sum(each.wait for each in report.attempts) > 0
    span = next(each for each in exported.spans if each.name == "execute_tool down")
    assert (span.attributes or {})["toolcall.retry.wait"] == report.waited
    data: Any = reader.get_metrics_data()
    metrics = data.resource_metrics[0].scope_metrics[0].metrics
    (waits,) = [each for each in metrics if each.name == "toolcall.tool.retry_wait"]
    assert [point.sum for point in waits.data.data_points] == [report.waited]
