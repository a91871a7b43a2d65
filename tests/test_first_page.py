"""The table on the first page is true: what the model sends, and what it is told. test_readme.py runs the example."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field

from toolcall_pipeline import Call, CallReport, ToolRegistry, render
from toolcall_pipeline.middlewares import Cache, LoopGuard, standard
from toolcall_pipeline.testing import no_waiting

ROOT = Path(__file__).parent.parent
LINES = (ROOT / "README.md").read_text().partition("| the model sends |")[2].partition("\n\n")[0].splitlines()[2:]
ROWS = dict(line.strip("| ").split(" | ") for line in LINES)
tools = ToolRegistry()
calls: list[str] = []


@tools.tool(effect="read")
async def read_file(path: str, start_line: Annotated[int, Field(ge=1)] = 1) -> str:
    """Read a text file."""
    return f"{path} from line {start_line}"


@tools.tool(effect="read")
async def fetch() -> str:
    """Fail once, then answer."""
    calls.append("fetch")
    if len(calls) == 1:
        raise ServerError
    return "fetched"


@tools.tool
async def pay() -> None:
    """Lose the connection."""
    raise ConnectionError("hunter2")


@tools.tool
async def crash() -> None:
    """Crash."""
    raise KeyError("hunter2")


@tools.tool
async def off() -> None:
    """Be switched off."""


class ServerError(Exception):
    status_code = 503


async def call(name: str, arguments: object = None) -> CallReport:
    calls.clear()
    with no_waiting():
        return await standard(tools).report(Call(name, arguments))


# What is sent in each row, and what the text has beside the words of the row.
SENT: dict[str, tuple[Callable[[], Awaitable[CallReport]], str]] = {
    "`read_file<\\|channel\\|>commentary`": (
        lambda: call("read_file<|channel|>commentary", {"path": "a"}),
        "a from line 1",
    ),
    '`{"path": null}`': (lambda: call("read_file", {"path": None}), "<string>"),
    '`{"path": "a", "start_line": 0}`, of `Annotated[int, Field(ge=1)]`': (
        lambda: call("read_file", {"path": "a", "start_line": 0}),
        "",
    ),
    "arguments that were cut off": (lambda: call("read_file", '{"path": "a'), ""),
    "a tool that is switched off": (lambda: call("off"), ""),
    "a call of a read-only tool whose backend answers 503 once": (lambda: call("fetch"), "fetched"),
    "a call of a tool that changes something, and its connection breaks": (lambda: call("pay"), ""),
    "a call that crashes the tool": (lambda: call("crash"), ""),
}


def test_each_row_is_tried() -> None:
    assert ROWS.keys() == SENT.keys()


@pytest.mark.parametrize("row", SENT)
async def test_what_the_model_is_told(row: str, caplog: pytest.LogCaptureFixture) -> None:
    """The words of the row, or the result; a repair is in the report, and what is private in the log only."""
    tools.disable("off")
    send, also = SENT[row]
    report = await send()
    assert report.outcome is not None
    text = render(report.outcome)
    said = ROWS[row]
    if "the result" in said:
        assert text == also
        assert ("repair" in said) == bool(report.repairs)
        assert len(report.attempts) == (2 if "second attempt" in said else 1)
    else:
        (first, *_) = re.findall(r"`([^`]+)`", said)
        assert first in text
        assert also in text
    assert "hunter2" not in text
    assert ("hunter2" in caplog.text) == row.endswith(("its connection breaks", "crashes the tool"))


def test_what_the_guide_says_is_kept_by_default() -> None:
    """64 MiB of answers and 16 MiB of arguments."""
    guide = (ROOT / "middlewares" / "SHARING.md").read_text()
    assert "at most `max_bytes`, estimated: 64 MiB of\nanswers with their params, and 16 MiB of arguments" in guide
    defaults = [inspect.signature(stage).parameters["max_bytes"].default for stage in (Cache, LoopGuard)]
    assert defaults == [64 * 2**20, 16 * 2**20]
