"""The developer's log: levels, context, and the only place of private causes."""

from __future__ import annotations

import logging
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from opentelemetry.context import attach, detach, set_value
from returns.result import Failure, Success

from support import Exported, a_tool
from toolcall_pipeline import (
    Call,
    Effect,
    Pipeline,
    Secret,
    SetupError,
    TimedOut,
    ToolFailed,
    ToolRegistry,
    Transient,
    Unavailable,
    ValidCall,
    render,
)
from toolcall_pipeline.base.semconv import TOOL_NAME
from toolcall_pipeline.executors.remote_errors import decode_error
from toolcall_pipeline.middlewares import Retry, Trace, standard
from toolcall_pipeline.privacy import make_safe
from toolcall_pipeline.telemetry import SUPPRESS, set_log_level
from toolcall_pipeline.telemetry.logs import is_first_of_bug


def registry(error: BaseException | None = None, effect: Effect = "read") -> ToolRegistry:
    async def fail(**_: object) -> None:
        if error is not None:
            raise error

    tools = ToolRegistry()
    tools.register(a_tool(fn=fail, effect=effect))
    return tools


CASES: list[tuple[Any, Exception | None, int, str]] = [
    (Call("prob"), None, logging.WARNING, "Tool 'prob': unknown_tool: did you mean 'probe'? (call '')"),
    (
        Call("probe", "[1]", "c1"),
        None,
        logging.WARNING,
        "Tool 'probe': malformed_call: 'they are an array' (call 'c1')",
    ),
    (
        Call("'probe'"),
        ValueError("why"),
        logging.ERROR,
        "Tool \"'probe'\" (resolved to 'probe'): internal: ValueError (call '')",
    ),
    (
        Call("probe"),
        ConnectionError("why"),
        logging.ERROR,
        "Tool 'probe': transient: ConnectionError: 'why' (call '')",
    ),
    (
        Call("probe"),
        PermissionError("why"),
        logging.WARNING,
        "Tool 'probe': permission: PermissionError: 'why' (call '')",
    ),
    (Call("probe"), ToolFailed("gone"), logging.WARNING, "Tool 'probe': execution: ToolFailed: 'gone' (call '')"),
    (
        Call("probe"),
        ToolFailed("later", kind="transient"),
        logging.WARNING,
        "Tool 'probe': transient: ToolFailed: 'later' (call '')",
    ),
    (
        Call("probe"),
        ToolFailed("no key", kind="configuration"),
        logging.ERROR,
        "Tool 'probe': configuration: ToolFailed: 'no key' (call '')",
    ),
    (
        Call("probe"),
        FileNotFoundError("why"),
        logging.WARNING,
        "Tool 'probe': not_found: FileNotFoundError: 'why' (call '')",
    ),
    (
        Call("probe"),
        ToolFailed("who?", kind="needs_input"),
        logging.INFO,
        "Tool 'probe': needs_input: 'who?' (call '')",
    ),
]


@pytest.mark.parametrize(("call", "error", "level", "text"), CASES, ids=[row[3][-40:] for row in CASES])
@pytest.mark.parametrize("traced", [True, False])
async def test_a_failure_is_one_record(
    call: Call, error: Exception | None, level: int, text: str, traced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A failed call is one record at the level of its kind, with the requested name, the tool and the call id."""
    caplog.set_level(logging.DEBUG)
    pipeline = standard(registry(error), attempts=1)
    await (pipeline if traced else pipeline.without("trace"))(call)
    ours = [record for record in caplog.records if record.name == "toolcall_pipeline"]
    assert [(record.levelno, record.getMessage()) for record in ours] == [(level, text)]


@pytest.mark.parametrize(
    ("call", "fields"),
    [
        (
            Call("probe", id="c1"),
            {
                "gen_ai.tool.name": "probe",
                "error.type": "internal",
                "gen_ai.tool.call.id": "c1",
                "toolcall.decided_by": "execute",
            },
        ),
        (
            Call("'probe'"),
            {
                "gen_ai.tool.name": "probe",
                "error.type": "internal",
                "toolcall.tool.requested_name": "'probe'",
                "toolcall.decided_by": "execute",
            },
        ),
        (
            Call("made_up"),
            {
                "gen_ai.tool.name": "_OTHER",
                "error.type": "unknown_tool",
                "toolcall.tool.requested_name": "made_up",
                "toolcall.decided_by": "resolve",
            },
        ),
    ],
    ids=lambda each: each.name if isinstance(each, Call) else "",
)
async def test_a_record_has_the_attributes_of_the_conventions(
    call: Call, fields: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """The extra fields of a record are named as the attributes of spans, so an exporter of logs takes them over."""
    await standard(registry(ValueError()))(call)
    (record,) = caplog.records
    assert {key: value for key, value in vars(record).items() if "." in key} == fields


async def test_the_cause_of_a_lost_outcome_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """The model does not read why the outcome of a mutating call was lost, so the log has to have it."""
    tools = registry(ConnectionResetError("peer 7 is gone"), "mutating")
    outcome = await standard(tools, attempts=1).call("probe")
    assert "peer 7" not in render(outcome)
    assert "outcome_unknown: ConnectionResetError: 'peer 7 is gone'" in caplog.text


@pytest.mark.parametrize(
    "error", [Transient(retry_after=5.0), TimedOut(retry_after=5.0), Unavailable("probe", "rate_limited", 5.0)]
)
async def test_a_rate_limit_is_a_warning(error: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A failure with the time after which to come back is a warning, whoever limits the rate."""

    async def limited(call: ValidCall) -> Any:
        return Failure(error)

    await standard(registry(), attempts=1).replace("execute", limited)(Call("probe"))
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def retrying(error: Exception, fails: int, **options: Any) -> Pipeline:
    """A pipeline whose tool fails so many times, and then succeeds."""
    left = [error] * fails

    async def fail(**_: object) -> str:
        if left:
            raise left.pop()
        return "done"

    tools = ToolRegistry()
    tools.register(a_tool(fn=fail, **options))
    return standard(tools).replace("retry", Retry(first_delay=0.1, jitter=lambda: 0.5, sleep=no_sleep))


async def no_sleep(seconds: float) -> None:
    """Stand in for sleep."""


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize(
    ("fails", "levels"),
    [(0, []), (1, [logging.INFO]), (2, [logging.INFO] * 2), (3, [logging.INFO] * 2 + [logging.ERROR])],
)
async def test_a_repeated_attempt_is_one_record(
    fails: int, levels: list[int], traced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Each attempt that is repeated is one record at info level, and only what the call ends with is an error."""
    caplog.set_level(logging.INFO)
    pipeline = retrying(ConnectionError("why"), fails)
    await (pipeline if traced else pipeline.without("trace"))(Call("probe", id="c1"))
    assert [record.levelno for record in caplog.records] == levels
    if fails:
        record = caplog.records[0]
        assert record.getMessage() == (
            "Tool 'probe': transient: ConnectionError: 'why'; attempt 1 is repeated in 0.050 s: transient, and the "
            "tool is read (call 'c1')"
        )
        assert {key: value for key, value in vars(record).items() if "." in key} == {
            "gen_ai.tool.name": "probe",
            "gen_ai.tool.call.id": "c1",
            "error.type": "transient",
            "toolcall.attempt": 1,
        }


async def test_a_repeated_attempt_has_the_ids_of_its_call(caplog: pytest.LogCaptureFixture) -> None:
    """Its record has the ids of the span of the call."""
    caplog.set_level(logging.INFO)
    exported = Exported()
    await retrying(ConnectionError(), 1).replace("trace", Trace(tracer_provider=exported.provider)).call("probe")
    (root,) = [span.context for span in exported.spans if span.parent is None and span.context is not None]
    (record,) = caplog.records
    assert vars(record)["span_id"] == f"{root.span_id:016x}"


async def test_a_repeated_attempt_tells_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    """Of a tool with a declared secret the class of the cause is logged, and not its text."""
    caplog.set_level(logging.INFO)
    tools, left = ToolRegistry(), [1]

    @tools.tool(effect="read")
    async def log_in(pin: Annotated[int, Secret]) -> None:
        if left:
            left.pop()
            raise ConnectionError(f"no account with {pin}")

    pipeline = standard(tools).replace("retry", Retry(sleep=no_sleep))
    await pipeline(Call("log_in", {"pin": 482193}))
    assert "transient: ConnectionError; attempt 1 is repeated" in caplog.text
    assert "no account with" not in caplog.text


@pytest.fixture
def quiet_transient() -> Iterator[None]:
    set_log_level("transient", logging.DEBUG)
    yield
    set_log_level("transient", None)


@pytest.mark.usefixtures("quiet_transient")
async def test_a_lower_level_holds_for_repeated_attempts(caplog: pytest.LogCaptureFixture) -> None:
    """A kind that was set to a level below info is logged at that level, repeated or not."""
    caplog.set_level(logging.INFO)
    await retrying(ConnectionError(), 3).call("probe")
    assert caplog.records == []


@pytest.fixture
def own_level() -> Iterator[None]:
    set_log_level("internal", logging.INFO)
    yield
    set_log_level("internal", None)


@pytest.mark.usefixtures("own_level")
async def test_a_level_of_ones_own(caplog: pytest.LogCaptureFixture) -> None:
    """The level of one kind of error can be set, and the others stay."""
    caplog.set_level(logging.DEBUG, "toolcall_pipeline")
    await standard(registry(ValueError()))(Call("probe"))
    await standard(registry(PermissionError()))(Call("probe"))
    levels = [record.levelno for record in caplog.records if record.name == "toolcall_pipeline"]
    assert levels == [logging.INFO, logging.WARNING]


@pytest.mark.parametrize(("kind", "level"), [("no_kind", logging.INFO), ("internal", "INFO")])
def test_a_level_must_be_valid(kind: str, level: Any) -> None:
    """An unknown kind and a level that is no number are refused."""
    with pytest.raises(SetupError, match="set_log_level"):
        set_log_level(kind, level)


async def test_only_a_crash_has_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    """The stack is logged for a crash, and for no other failure."""
    await standard(registry(ValueError("why"))).call("probe")
    await standard(registry(PermissionError("why"))).call("probe")
    assert [bool(record.exc_info) for record in caplog.records] == [True, False]
    assert "ValueError: why" in caplog.text


async def test_success_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A call that succeeds leaves no record of a failure."""
    await standard(registry()).call("probe")
    assert caplog.records == []


async def test_no_input_forges_a_line(caplog: pytest.LogCaptureFixture) -> None:
    """A record is one line of limited length, whatever a model or a backend sent."""
    await standard(registry()).call("x\nERROR forged", "{", id="1\n2")
    await standard(registry(ConnectionError("a\nb" * 10_000)), attempts=1).call("probe")
    assert all("\n" not in record.getMessage() and len(record.getMessage()) < 1000 for record in caplog.records)


async def test_arguments_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Invalid arguments are logged by path and rule, never by value."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def add(a: int) -> int:
        return a

    await standard(tools).call("add", {"a": "canary", "canary": 1})
    assert caplog.records[0].getMessage().startswith("Tool 'add': validation: 'a' (type), '*' (additionalProperties)")
    assert "canary" not in caplog.text


async def test_parameter_names_forge_no_line(caplog: pytest.LogCaptureFixture) -> None:
    """However many parameters a model invents, and however it names them, the record is one line of limited length."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def add(a: int) -> int:
        return a

    await standard(tools).call("add", {"x\nERROR forged": 1, "y" * 100_000: 1} | {f"z{n}": 1 for n in range(4_000)})
    message = caplog.records[0].getMessage()
    assert "\n" not in message
    assert len(message) < 8_000
    assert message.endswith("and 1 more (call '')")


@pytest.mark.parametrize("answer", [None, Success(1)])
async def test_a_check_with_a_bug_is_logged(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    """If a check returns neither a call nor a Failure, the log has a crash under the name of the call."""

    def check(call: Any) -> Any:
        return answer

    await standard(registry()).before("validate", check).call("probe")
    assert caplog.records[0].getMessage() == "Tool 'probe': internal: SetupError (call '')"


class RaisingFilter(logging.Filter):
    """A log filter with a bug."""

    def filter(self, record: logging.LogRecord) -> bool:
        raise RuntimeError


@pytest.fixture
def raising_logger() -> Iterator[None]:
    logger, raising = logging.getLogger("toolcall_pipeline"), RaisingFilter()
    logger.addFilter(raising)
    yield
    logger.removeFilter(raising)


@pytest.mark.usefixtures("raising_logger")
async def test_logging_that_raises_ends_no_retry(caplog: pytest.LogCaptureFixture) -> None:
    """If the record of a repeated attempt cannot be logged, the attempt is repeated all the same."""
    caplog.set_level(logging.INFO)
    assert (await retrying(ConnectionError(), 1).call("probe")).unwrap() == "done"


@pytest.mark.usefixtures("raising_logger")
async def test_logging_that_raises_loses_no_outcome() -> None:
    """If logging raises, the pipeline does not."""
    report = await standard(registry(ValueError())).report(Call("probe"))
    assert report.error is not None
    assert report.error.kind == "internal"


UNCONFIGURED = """
import anyio
from returns.result import Success

from toolcall_pipeline.middlewares import standard
from toolcall_pipeline import ToolRegistry
from toolcall_pipeline.stores import SQLite
tools = ToolRegistry()
@tools.tool
async def crash(why: str) -> None:
    if why == "why":
        raise RuntimeError("why")
    raise RuntimeError("another bug")
@tools.tool(effect="read")
async def fetch() -> None:
    raise ConnectionError("reset")
async def main():
    for _ in range(3):
        await standard(tools).call("crash", {"why": "why"})
        await standard(tools).call("nope")
        await standard(tools, attempts=1).call("fetch")
        await standard(tools, store=SQLite("/nonexistent/x.db")).call("crash", {"why": "why"})
    await standard(tools).call("crash", {"why": "not"})
anyio.run(main)
"""


def test_without_logging_each_bug_goes_to_stderr_once() -> None:
    """If logging is not configured, stderr has once each bug and each mistake of set-up, and nothing else."""
    done = subprocess.run([sys.executable, "-c", UNCONFIGURED], capture_output=True, text=True, check=True)
    told = ("RuntimeError: why", "RuntimeError: another bug", "'/nonexistent/x.db'")
    assert [done.stderr.count(each) for each in told] == [1, 1, 1]
    assert ("nope" in done.stderr, "reset" in done.stderr) == (False, False)
    assert done.stdout == ""


@pytest.mark.parametrize("stages", [(), ("trace",), ("trace", "retry")], ids=str)
@pytest.mark.parametrize("way", ["call", "report", "failure"])
async def test_the_flow_of_each_call_with_and_without_trace(
    stages: tuple[str, ...], way: str, caplog: pytest.LogCaptureFixture
) -> None:
    """At debug level each call is one record of the flow, also in a pipeline without Trace, and at info level none."""
    pipeline = standard(registry(ConnectionError() if way == "failure" else None), attempts=1)
    for stage in stages:
        pipeline = pipeline.without(stage)
    caplog.set_level(logging.DEBUG, "toolcall_pipeline.flow")
    run: Any = pipeline.report if way == "report" else pipeline
    await run(Call("probe", id="c1"))
    (record,) = [record for record in caplog.records if record.name == "toolcall_pipeline.flow"]
    verdict = "transient" if way == "failure" else "success"
    assert record.getMessage().startswith(f"Tool 'probe': {verdict} in ")
    assert all(re.search(rf"\b{stage} \d+\.", record.getMessage()) for stage in ("resolve", "validate", "execute"))
    assert vars(record)["gen_ai.tool.name"] == "probe"
    assert vars(record)["gen_ai.tool.call.id"] == "c1"
    caplog.clear()
    caplog.set_level(logging.INFO, "toolcall_pipeline.flow")
    await standard(registry()).without("trace").call("probe")
    assert caplog.records == []


async def test_a_suppressed_call_has_no_flow(caplog: pytest.LogCaptureFixture) -> None:
    """Where instrumentation is suppressed, the flow is not logged either."""
    caplog.set_level(logging.DEBUG, "toolcall_pipeline.flow")
    token = attach(set_value(SUPPRESS, True))
    try:
        await standard(registry()).without("trace").call("probe")
    finally:
        detach(token)
    assert caplog.records == []


@pytest.mark.parametrize(("run_in", "hinted"), [("thread", True), ("loop", False)])
async def test_a_connection_of_another_thread_gets_a_hint(
    run_in: Any, hinted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The log of a sync tool that meets the thread check of sqlite says how to run it in the thread of the loop."""
    tools, connection = ToolRegistry(), sqlite3.connect(":memory:")

    @tools.tool(effect="read", run_in=run_in)
    def count() -> object:
        return connection.execute("select 1").fetchall()

    @tools.tool(effect="read")
    def another() -> object:
        raise sqlite3.ProgrammingError("another mistake")

    for name in ("count", "another"):
        await standard(tools).call(name)
    connection.close()
    texts = [caplog.handler.format(each) for each in caplog.records]
    assert [each for each in texts if 'run_in="loop"' in each] == (texts[:1] if hinted else [])


def fail_at(place: str) -> None:
    if place == "a":
        raise ValueError
    if place == "b":
        raise ValueError
    if place == "cause":
        raise ValueError from boom("a")
    raise ExceptionGroup("why", [boom(place[-1])])


def boom(place: str) -> Exception:
    """A crash as it is caught, raised at one of several lines."""
    try:
        fail_at(place)
    except Exception as exc:
        return exc
    raise AssertionError


def remote(line: int) -> Exception:
    """A crash in another process."""
    made = decode_error((ValueError(), f'  File "tool.py", line {line}, in f\n'))
    assert isinstance(made, Exception)
    return made


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], set[int]]:
    """Which bugs stderr had: none yet."""
    none: dict[tuple[str, str], set[int]] = {}
    monkeypatch.setattr("toolcall_pipeline.telemetry.logs._shown_bugs", none)
    return none


def a_record(tool: str, crash: Exception | None, said: str = "") -> logging.LogRecord:
    exc_info = None if crash is None else (type(crash), crash, crash.__traceback__)
    record = logging.LogRecord("toolcall_pipeline", 40, "x.py", 1, "%s %s %s %s", ("", "", "", said), exc_info)
    setattr(record, TOOL_NAME, tool)
    return record


@pytest.mark.usefixtures("shown")
@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize(
    ("crashes", "new"),
    [
        (["a", "a", "b", "b", "a"], [True, False, True, False, False]),
        (["group of a", "group of b", "group of a"], [True, True, False]),
        (["a", "cause", "cause"], [True, True, False]),
        ([remote(1), remote(2), remote(1)], [True, True, False]),
        ([ValueError(), KeyError(), ValueError()], [True, True, False]),
    ],
)
def test_a_crash_is_new_by_class_and_stack(safe: bool, crashes: list[Any], new: list[bool]) -> None:
    """A crash of another line is new, also as a cause, in a group and from another process; in each tool by itself."""
    raised = [boom(each) if isinstance(each, str) else each for each in crashes]
    raised = [make_safe(each) if safe else each for each in raised]
    for tool in ("a", "b"):
        assert [is_first_of_bug(a_record(tool, each)) for each in raised] == new


@pytest.mark.usefixtures("shown")
def test_a_mistake_of_set_up_is_new_by_its_text() -> None:
    """Of failures without a stack only a SetupError is a bug; each text of one in each tool is new once."""
    said = [": SetupError: 'a'", ": SetupError: 'a'", ": SetupError: 'b'", ": ConnectionError: 'c'", ""]
    for tool in ("a", "b"):
        assert [is_first_of_bug(a_record(tool, None, each)) for each in said] == [True, False, True, False, False]


def test_what_stderr_had_is_bounded(shown: dict[tuple[str, str], set[int]]) -> None:
    """At most 1,000 pairs of class and tool are remembered, and 20 stacks of each; what is beyond is not shown."""
    assert [is_first_of_bug(a_record("a", remote(line))) for line in range(30)] == [True] * 20 + [False] * 10
    assert sum(is_first_of_bug(a_record(str(tool), ValueError())) for tool in range(1_100)) == 999
    assert (len(shown), sum(map(len, shown.values()))) == (1_000, 1_019)
