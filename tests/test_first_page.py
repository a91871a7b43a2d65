"""The table on the first page is true: what the model sends, and what it is told. test_readme.py runs the example."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

import toolcall_pipeline
from toolcall_pipeline import Approvals, Call, CallReport, ToolRegistry, middlewares, render, stores, testing
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


INDEX = [
    span
    for line in (ROOT / "README.md").read_text().partition("| you want to |")[2].partition("\n\n")[0].splitlines()[2:]
    for span in re.findall(r"`([^`]+)`", line.split(" | ")[1])
    if not span.startswith(("toolcall ", "make "))  # commands
]
MODULES = ("adapters.openai", "dialogue", "hosts", "mcp", "middlewares", "stores", "testing")
KNOWN: dict[str, Any] = {
    **{name: importlib.import_module(f"toolcall_pipeline.{name}") for name in MODULES},
    **{
        name: getattr(each, name) for each in (toolcall_pipeline, stores, middlewares, testing) for name in each.__all__
    },
    "adapters": importlib.import_module("toolcall_pipeline.adapters"),
    "Annotated": Annotated,
    "tools": tools,
    "run": standard(tools),
    "store": stores.Memory(),
    "recorded": testing.RecordedSpans,
    **{name: getattr(Approvals(stores.Memory()), name) for name in ("pending", "approve", "reject", "grant")},
}


def look_up(node: ast.expr) -> Any:
    """What a name or an attribute of the index is."""
    if isinstance(node, ast.Attribute):
        return getattr(look_up(node.value), node.attr)
    assert isinstance(node, ast.Name)
    return KNOWN[node.id]


@pytest.mark.parametrize("span", INDEX)
def test_what_the_index_names_is_there(span: str) -> None:
    """Each name of the README's index is one of the library, and can be called with the arguments that stand there."""
    if span.startswith("hosts."):  # its framework is not installed here
        assert importlib.util.find_spec(f"toolcall_pipeline.{span}") is not None
        return
    if span.startswith("from "):
        exec(span, {})
        return
    code = re.sub(r"^@|^(?:async with|with|await) | as \w+$", "", span)
    code = re.sub(r"(\w+)=(?=[,)])", r"\1=\1", code).replace("…", "...")
    shown = ast.parse(code, mode="eval").body
    if isinstance(shown, ast.Name | ast.Attribute):
        look_up(shown)
    for node in ast.walk(shown):
        if isinstance(node, ast.Call):
            options = {str(each.arg): each.value for each in node.keywords}
            inspect.signature(look_up(node.func)).bind(*node.args, **options)


def test_what_the_guide_says_is_kept_by_default() -> None:
    """64 MiB of answers and 16 MiB of arguments."""
    guide = (ROOT / "middlewares" / "SHARING.md").read_text()
    assert "at most `max_bytes`, estimated: 64 MiB of\nanswers with their params, and 16 MiB of arguments" in guide
    defaults = [inspect.signature(stage).parameters["max_bytes"].default for stage in (Cache, LoopGuard)]
    assert defaults == [64 * 2**20, 16 * 2**20]
