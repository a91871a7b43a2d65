"""The developer's log: levels, context, and where private causes live."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from returns.result import Success

from middlewares import standard
from pipeline import Call, ToolFailed, ToolRegistry
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
    (Call("probe"), ToolFailed("who?", kind="needs_input"), logging.INFO, "Tool 'probe': needs_input (call '')"),
]


@pytest.mark.parametrize(("call", "error", "level", "text"), CASES, ids=[row[3][-40:] for row in CASES])
@pytest.mark.parametrize("traced", [True, False])
async def test_a_failure_is_logged_once(
    call: Call, error: Exception | None, level: int, text: str, traced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Each failed call is one record, at the level of its kind, with the names asked for and resolved and the id."""
    caplog.set_level(logging.DEBUG)
    pipeline = standard(registry(error), attempts=1)
    await (pipeline if traced else pipeline.without("trace"))(call)
    ours = [record for record in caplog.records if record.name == "toolcall_pipeline"]
    assert [(record.levelno, record.getMessage()) for record in ours] == [(level, text)]


async def test_only_a_crash_has_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    """The stack is logged for what nobody expected, and for nothing else."""
    await standard(registry(ValueError("why"))).call("probe")
    await standard(registry(PermissionError("why"))).call("probe")
    assert [bool(record.exc_info) for record in caplog.records] == [True, False]
    assert "ValueError: why" in caplog.text


async def test_success_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A call that succeeds leaves no record."""
    await standard(registry()).call("probe")
    assert caplog.records == []


async def test_what_came_in_forges_no_line(caplog: pytest.LogCaptureFixture) -> None:
    """A record is one line of bounded length, whatever a model or a backend put into it."""
    await standard(registry()).call("x\nERROR forged", "{", id="1\n2")
    await standard(registry(ConnectionError("a\nb" * 10_000)), attempts=1).call("probe")
    assert all("\n" not in record.getMessage() and len(record.getMessage()) < 1000 for record in caplog.records)


async def test_arguments_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Bad arguments are logged by path and rule, never by value."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def add(a: int) -> int:
        return a

    await standard(tools).call("add", {"a": "canary", "canary": 1})
    assert caplog.records[0].getMessage().startswith("Tool 'add': validation: 'a' (type)")
    assert "canary" not in caplog.records[0].getMessage().replace("'canary' (additionalProperties)", "")


class Fails(logging.Filter):
    """A filter with a bug."""

    def filter(self, record: logging.LogRecord) -> bool:
        raise RuntimeError


async def test_bad_names_of_parameters_forge_no_line(caplog: pytest.LogCaptureFixture) -> None:
    """However many parameters a model invents, and whatever their names, the record is one line of bounded length."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def add(a: int) -> int:
        return a

    await standard(tools).call("add", {"x\nERROR forged": 1, "y" * 100_000: 1} | {f"z{n}": 1 for n in range(5_000)})
    message = caplog.records[0].getMessage()
    assert "\n" not in message
    assert len(message) < 8_000
    assert message.endswith("and 4983 more (call '')")


@pytest.mark.parametrize("answer", [None, Success(1)])
async def test_a_check_with_a_bug_is_logged(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The crash of a call whose check answered with what is no call is in the log, under the call's own name."""

    def check(call: Any) -> Any:
        return answer

    await standard(registry()).before("validate", check).call("probe")
    assert caplog.records[0].getMessage() == "Tool 'probe': internal (call '')"


@pytest.fixture
def broken_logging() -> Iterator[None]:
    logger, broken = logging.getLogger("toolcall_pipeline"), Fails()
    logger.addFilter(broken)
    yield
    logger.removeFilter(broken)


@pytest.mark.usefixtures("broken_logging")
async def test_broken_logging_loses_no_outcome() -> None:
    """Logging that raises does not make a pipeline raise."""
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


def test_unconfigured_a_crash_is_heard_of_once() -> None:
    """Where logging is not configured the first crash of a kind goes to stderr, and nothing else does."""
    done = subprocess.run([sys.executable, "-c", UNCONFIGURED], capture_output=True, text=True, check=True)
    assert done.stderr.count("RuntimeError: why") == 1
    assert "nope" not in done.stderr
    assert done.stdout == ""
