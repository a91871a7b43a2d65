"""The developer's log: levels, context, and the only place of private causes."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from returns.result import Success

from middlewares import standard
from pipeline import Call, SetupError, ToolFailed, ToolRegistry
from pipeline.telemetry import set_log_level
from support import a_tool


def registry(error: BaseException | None = None) -> ToolRegistry:
    async def fail(**_: object) -> None:
        if error is not None:
            raise error

    tools = ToolRegistry()
    tools.register(a_tool(fn=fail))
    return tools


CASES: list[tuple[Any, Exception | None, int, str]] = [
    (Call("prob"), None, logging.WARNING, "Tool 'prob': unknown_tool (call '')"),
    (Call("probe", "[]", "c1"), None, logging.WARNING, "Tool 'probe': malformed_call (call 'c1')"),
    (Call("'probe'"), ValueError("why"), logging.ERROR, "Tool \"'probe'\" (resolved to 'probe'): internal (call '')"),
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
        FileNotFoundError("why"),
        logging.WARNING,
        "Tool 'probe': not_found: FileNotFoundError: 'why' (call '')",
    ),
    (Call("probe"), ToolFailed("who?", kind="needs_input"), logging.INFO, "Tool 'probe': needs_input (call '')"),
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
        (Call("probe", id="c1"), {"gen_ai.tool.name": "probe", "error.type": "internal", "gen_ai.tool.call.id": "c1"}),
        (
            Call("'probe'"),
            {"gen_ai.tool.name": "probe", "error.type": "internal", "toolcall.tool.requested_name": "'probe'"},
        ),
        (
            Call("made_up"),
            {"gen_ai.tool.name": "_OTHER", "error.type": "unknown_tool", "toolcall.tool.requested_name": "made_up"},
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
    assert caplog.records[0].getMessage() == "Tool 'probe': internal (call '')"


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
async def test_logging_that_raises_loses_no_outcome() -> None:
    """If logging raises, the pipeline does not."""
    report = await standard(registry(ValueError())).report(Call("probe"))
    assert report.error is not None
    assert report.error.kind == "internal"


UNCONFIGURED = """
import anyio
from returns.result import Success

from middlewares import standard
from pipeline import ToolRegistry
tools = ToolRegistry()
@tools.tool
async def crash() -> None:
    raise RuntimeError("why")
async def main():
    for _ in range(3):
        await standard(tools).call("crash")
        await standard(tools).call("nope")
anyio.run(main)
"""


def test_without_logging_the_first_crash_goes_to_stderr() -> None:
    """If logging is not configured, the first crash of an exception class goes to stderr, and nothing else does."""
    done = subprocess.run([sys.executable, "-c", UNCONFIGURED], capture_output=True, text=True, check=True)
    assert done.stderr.count("RuntimeError: why") == 1
    assert "nope" not in done.stderr
    assert done.stdout == ""
