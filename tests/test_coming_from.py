"""Programs of other systems, before and after: each is ported by the guide "Coming from …" alone, and says the same.

Each `before` is the program as its own documents describe it, in Python. Each `after` uses what the tables of the guide
name on the right.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

import attrs
import pytest

from toolcall_pipeline import (
    Call,
    Outcome,
    Pipeline,
    Tool,
    ToolCallError,
    ToolFailed,
    ToolRegistry,
    Wording,
    builtin,
    extract_error_text,
    is_error,
    is_failure,
    raise_for_error,
    render,
    returned_error,
)
from toolcall_pipeline.dialogue import run_turn
from toolcall_pipeline.messages import enhance
from toolcall_pipeline.middlewares import Reword, standard
from toolcall_pipeline.testing import ScriptedModel
from toolcall_pipeline.tools import exit_status

# --- a tool manager with `call_tool` and `ToolResult` --------------------------------------------------------------


@attrs.frozen
class ToolResult:
    content: str
    is_error: bool = False


class Manager:
    """Before: a registry of handlers, the tools that are enabled, and a text for each thing that may go wrong."""

    def __init__(self) -> None:
        self.handlers: dict[str, Callable[..., Awaitable[str]]] = {}
        self.enabled_tools: set[str] = set()
        self.logger = logging.getLogger("manager")

    def register(self, name: str, handler: Callable[..., Awaitable[str]]) -> None:
        self.handlers[name] = handler
        self.enabled_tools.add(name)

    async def call_tool(self, name: str, args: dict[str, Any]) -> ToolResult:
        if name not in self.enabled_tools:
            self.logger.warning("Tool %r is not enabled", name)
            return ToolResult("This tool is not available", is_error=True)
        try:
            return ToolResult(await self.handlers[name](**args))
        except Exception as exc:
            self.logger.exception("Exception in tool %r", name)
            if "missing required parameter" in str(exc).lower() or "invalid parameter" in str(exc).lower():
                return ToolResult(f"Error: {exc}", is_error=True)
            return ToolResult("An unexpected error occurred while executing this tool", is_error=True)


async def calculate(expression: str = "") -> str:
    if not expression:
        raise ValueError("Missing required parameter: expression")
    return str(sum(map(int, expression.split("+"))))


async def fail() -> str:
    raise RuntimeError("/srv/internal: no such table")


def make_manager() -> Manager:
    manager = Manager()
    manager.register("calculator", calculate)
    manager.register("failing_tool", fail)
    manager.register("later", fail)
    manager.enabled_tools.remove("later")
    return manager


EXPRESSION = {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}


def make_managed() -> Pipeline:
    """After: what the tools check themselves is in their schema, and the rest is the profile."""
    tools = ToolRegistry()
    read: Any = {"effect": "read"}
    tools.register(Tool.from_schema(name="calculator", parameters=EXPRESSION, handler=calculate, **read))
    for name in ("failing_tool", "later"):
        tools.register(Tool.from_schema(name=name, parameters=None, handler=fail, **read))
    tools.disable("later")
    return standard(tools, wording=Wording("llmproc"))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("calculator", {"expression": "1+2"}),
        ("calculator", {}),
        ("failing_tool", {}),
        ("later", {}),
        ("non_enabled_tool", {}),
    ],
)
async def test_a_tool_manager(name: str, arguments: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """The model reads the same, and the log has the failure."""
    before = await make_manager().call_tool(name, arguments)
    caplog.clear()
    pipeline = make_managed()
    call = Call(name, arguments)
    outcome = await pipeline(call)
    assert is_failure(outcome) == before.is_error
    assert render(outcome, call=call).partition("\n")[0] == before.content
    assert bool(caplog.records) == before.is_error
    assert "srv" not in render(outcome, call=call)


async def test_a_name_that_does_not_match() -> None:
    """With the list of tools, in the blank-line form of that document; strict mode raises at the edge."""
    before = (
        "Error: Tool 'sequential-thinking' not found.\n\n"
        "Available tools: sequential-thinking__sequentialthinking\n\n"
        "Please try again with one of the available tools."
    )
    tools = ToolRegistry()
    name = "sequential-thinking__sequentialthinking"
    tools.register(Tool.from_schema(name=name, parameters=None, handler=fail, effect="read"))
    call = Call("sequential-thinking", {})
    outcome = await standard(tools, wording=Wording("rfc015"))(call)
    assert render(outcome, call=call) == before
    with pytest.raises(ToolCallError):
        raise_for_error(outcome)


# --- tools that return or throw errors, and an adapter that makes one shape of them ---------------------------------


def is_tool_error(result: Any) -> bool:
    """Before: the check that two programs had a copy of."""
    held = cast("dict[str, Any]", result if type(result) is dict else {})
    return held.get("ok") is False or bool(held.get("error")) or held.get("success") is False


async def read(path: str) -> Any:
    if path == "thrown.txt":
        raise FileNotFoundError("/home/ann/thrown.txt")
    if path == "gone.txt":
        details = {"parameter": "path", "value": path, "suggestion": "Use the ls or tree tool to find available files"}
        return {"ok": False, "error": "File not found: gone.txt", "errorType": "not_found", "details": details}
    return {"ok": True, "data": path}


async def bash(command: str) -> Any:
    code = int(command.removeprefix("exit "))
    return {"exitCode": code, "stdout": "", "stderr": "Permission denied" if code else ""}


async def adapt(execute: Callable[..., Awaitable[Any]], **arguments: str) -> dict[str, Any]:
    """Before: the adapter around each tool."""
    try:
        result: Any = await execute(**arguments)
    except Exception as exc:
        return {"ok": False, "error": str(exc)}
    if is_tool_error(result):
        return dict(result)
    if result.get("exitCode"):  # the special case for bash
        return {"ok": False, "error": f"Command failed with exit code {result['exitCode']}. stderr: {result['stderr']}"}
    return {"ok": True, "data": result.get("data", result)}


def make_returning() -> Pipeline:
    """After: one option for what tools return, one `detect` for the shell, one profile for the shape."""
    tools = ToolRegistry()
    tools.tool(effect="read")(read)
    tools.tool(effect="read", detect=exit_status())(bash)
    return standard(tools, detect=returned_error, wording=Wording("structured"))


@pytest.mark.parametrize(
    ("tool", "arguments", "kind"),
    [
        (read, {"path": "a.txt"}, None),
        (read, {"path": "gone.txt"}, "not_found"),
        (read, {"path": "thrown.txt"}, "not_found"),
        (bash, {"command": "exit 0"}, None),
        (bash, {"command": "exit 2"}, "execution"),
    ],
)
async def test_tools_that_return_errors(tool: Any, arguments: dict[str, str], kind: str | None) -> None:
    """One shape for all, with the type of the error; a path that the model did not send is gone."""
    before = await adapt(tool, **arguments)
    call = Call(tool.__name__, arguments)
    pipeline = make_returning()
    outcome = await pipeline(call)
    after = json.loads(pipeline.render(outcome, call=call))
    assert after["ok"] == before["ok"] == (kind is None)
    if kind is None:
        return
    assert after["errorType"] == kind
    assert "/home/ann" not in str(after)
    for word in ("gone.txt", "Permission denied", "exit code 2"):
        assert (word in before["error"]) == (word in after["error"])
    if "details" in before:
        assert after["details"] | {"value": "gone.txt"} == before["details"]  # the model knows what it sent


@pytest.mark.parametrize("result", [{"ok": False, "error": "no"}, {"success": False}, {"error": "x"}, {"ok": True}, 5])
def test_what_is_an_error_is_the_same(result: object) -> None:
    """`is_error` in place of each copy."""
    assert is_error(result) == is_tool_error(result)
    assert extract_error_text({"error": "", "stderr": " no "}) == "no"


# --- errors that ask, and a model that is asked again ---------------------------------------------------------------

WHO = "Question: Who should I send this email to? Please provide the recipient email address."


async def gmail_send(to: str = "", body: str = "") -> dict[str, Any]:
    """Before: the tool asks for what is missing."""
    if not to:
        return {"success": False, "error": WHO}
    return {"success": True, "data": f"sent to {to}"}


async def run_before(turns: list[dict[str, str]]) -> tuple[list[dict[str, Any]], str]:
    """Before: at most three attempts, with a record of each."""
    records: list[dict[str, Any]] = []
    for sent in turns[:3]:
        result = await gmail_send(**sent)
        asks = not result["success"] and "question:" in result["error"].lower()
        records.append({"name": "gmail_send", "input_params": sent, "success": result["success"]})
        if not asks:
            return records, str(result.get("data"))
    return records, WHO


def make_asking() -> tuple[ToolRegistry, Pipeline]:
    """After: `to` is required, the profile asks, and `Reword(enhance)` does what `enhanceErrorMessage` did."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def gmail_send(to: str, body: str = "") -> str:
        """Send an email."""
        if to == "limit":
            raise ToolFailed("HTTP 429: too many requests", kind="transient")
        return f"sent to {to}"

    return tools, standard(tools, attempts=1, wording=Wording("agentopia")).before("retry", Reword(enhance))


@pytest.mark.parametrize(
    "turns", [[{"to": "a@x.org"}], [{"body": "hi"}, {"to": "a@x.org"}], [{}, {"body": "a"}, {}, {}]]
)
async def test_errors_that_ask_and_a_model_that_is_asked_again(turns: list[dict[str, str]]) -> None:
    """The same records, and the same end, after at most three attempts."""
    told, end = await run_before(turns)
    _, pipeline = make_asking()
    first, *rest = [Call("gmail_send", sent, id=str(number)) for number, sent in enumerate(turns)]
    turn = await run_turn(ScriptedModel(*([each] for each in rest)), [first], pipeline, attempts=3)
    records = [(each.name, each.input_params, each.success) for each in turn.records]
    assert records == [(each["name"], each["input_params"], each["success"]) for each in told]
    assert [each.requires_retry for each in turn.records] == [not each.success for each in turn.records]
    assert end in str(render(turn.outcomes[0], call=first))


async def test_what_only_time_mends_is_said_so() -> None:
    """No HTTP status reaches the model, and no parameters are asked for."""
    _, pipeline = make_asking()
    call = Call("gmail_send", {"to": "limit"})
    text = render(await pipeline(call), call=call)
    assert "429" not in text
    assert "parameter" not in text


# --- a registry with `batch` and `invalid` --------------------------------------------------------------------------


async def test_a_registry_with_batch_and_invalid() -> None:
    """`install` in place of the two phases; a wrong name in a batch is answered, and the others run."""
    tools = ToolRegistry()
    tools.tool(effect="read")(read)
    pipeline = standard(tools, wording=Wording("invalid_tool"))
    builtin.install(tools, pipeline)
    calls: list[Any] = [{"tool": "read", "args": {"path": "a.txt"}}, {"tool": "red", "args": {}}]
    outcome: Outcome = await pipeline.call("batch", {"calls": calls})
    text = str(render(outcome))
    assert "a.txt" in text
    assert "Unknown tool: red" in text
    inner: Any = {"calls": [{"tool": "batch", "args": {"calls": calls}}]}
    assert "a.txt" not in render(await pipeline.call("batch", inner))  # no batch in a batch
