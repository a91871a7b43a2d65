"""A container of `returns` that a tool gives back is opened: a Failure in it is a failure everywhere."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from enum import Enum
from typing import Any

import attrs
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import StatusCode
from returns.future import FutureResult
from returns.io import IOFailure
from returns.maybe import Nothing
from returns.result import Failure, Success

import container_tools
from container_tools import FAILURE, RAISE, SUCCESS
from support import Exported
from toolcall_pipeline import (
    Call,
    ExecutionFailed,
    Pipeline,
    SetupError,
    Tool,
    ToolFailed,
    ToolRegistry,
    approved,
    extract_error_text,
    is_error,
    is_failure,
    render,
    returned_error,
)
from toolcall_pipeline.executors import Process
from toolcall_pipeline.middlewares import Trace, standard
from toolcall_pipeline.testing import assert_failure, assert_success

EMPTY = ("perhaps", "perhaps_later", "maybe_none")
CAUGHT = ("safely", "impurely", "future_safely")
NAMES = [each.name for each in container_tools.tools if each.name != "reader"]
EXECUTORS = ("loop", "thread", "process")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def workers(anyio_backend: str) -> AsyncGenerator[Process]:  # the scope of the fixture
    async with Process(workers=1) as process:
        yield process


def expect(name: str, how: str) -> tuple[str | None, str]:
    """The kind of the failure and the text for the model."""
    if how == SUCCESS:
        return None, "7"
    if how == FAILURE and name in EMPTY:
        return "not_found", "Error: Not found."
    if how == FAILURE and name not in CAUGHT:
        return "execution", "Error: no such order"
    return "not_found", "Error: Not found."


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", NAMES)
async def test_a_failure_in_a_container_is_a_failure_everywhere(name: str, executor: str, workers: Process) -> None:
    """Outcome, report, span, metric and text agree, of a success, a Failure and a raise, in each executor."""
    exported, reader = Exported(), InMemoryMetricReader()
    trace = Trace(tracer_provider=exported.provider, meter_provider=MeterProvider([reader], shutdown_on_exit=False))
    tools = ToolRegistry()
    given = container_tools.tools[name]
    chosen: dict[str, Any] = {"executors": {"process": workers}} if executor == "process" else {}
    if executor == "process":
        tools.register(attrs.evolve(given, run_in="process"))
    elif executor == "loop" or given.run_in == "thread":
        tools.register(attrs.evolve(given, run_in=executor))
    else:
        tools.register(given)
    pipeline = standard(tools, **chosen).replace("trace", trace)
    kinds: list[str | None] = []
    for how in (SUCCESS, FAILURE, RAISE):
        kind, text = expect(name, how)
        report = await pipeline.report(Call(name, {"how": how}, id=how))
        outcome: Any = report.outcome
        if kind is None:
            assert assert_success(outcome) == 7
        else:
            assert_failure(outcome, kind=kind)
        assert render(outcome) == text
        assert (report.error is None) == (kind is None)
        span = next(each for each in reversed(exported.spans) if each.name == f"execute_tool {name}")
        assert span.status.status_code is (StatusCode.UNSET if kind is None else StatusCode.ERROR)
        assert (span.attributes or {}).get("error.type") == kind
        kinds.append(kind)
    metrics: Any = reader.get_metrics_data()
    data = json.loads(metrics.to_json())
    points = [
        point["attributes"].get("error.type")
        for each in data["resource_metrics"][0]["scope_metrics"][0]["metrics"]
        if each["name"] == "gen_ai.execute_tool.duration"
        for point in each["data"]["data_points"]
    ]
    assert set(points) == set(kinds)


@pytest.mark.parametrize("effect", ["read", "mutating"])
async def test_a_coroutine_that_a_tool_gives_back_is_awaited(effect: Any) -> None:
    """An async tool that forgot its `await`: the value, or the failure, is that of the coroutine."""
    tools = ToolRegistry()

    @tools.tool(effect=effect)
    async def forgetful(how: str) -> Any:
        return container_tools.later(how)

    pipeline = standard(tools)
    assert await pipeline.call("forgetful", {"how": SUCCESS}) == Success(7)
    assert_failure(await pipeline.call("forgetful", {"how": FAILURE}), kind="execution")


async def test_a_tool_that_returns_a_function_of_deps_crashes() -> None:
    """A RequiresContext is what nobody has called: neither a value nor a failure of its own."""
    outcome = await standard(container_tools.tools).call("reader", {"how": SUCCESS})
    error: Any = assert_failure(outcome, kind="internal")
    assert "RequiresContext, which has to be called with its deps" in str(error.cause)


class Odd(Enum):
    """An error of an application."""

    SOLD_OUT = "sold out"


HELD: list[tuple[object, str, str]] = [
    (ExecutionFailed(), "execution", "Error: The tool failed."),
    (ToolFailed("Log in first.", kind="permission"), "permission", "Error: Log in first."),
    (FileNotFoundError("/secret"), "not_found", "Error: Not found."),
    (ValueError("/secret"), "internal", "An unexpected error occurred while executing this tool"),
    ("no such order", "execution", "Error: no such order"),
    (Odd.SOLD_OUT, "internal", "An unexpected error occurred while executing this tool"),
    ({"ok": True}, "internal", "An unexpected error occurred while executing this tool"),
    (None, "internal", "An unexpected error occurred while executing this tool"),
    (Failure("deeper"), "execution", "Error: deeper"),
    (Success("odd"), "execution", "Error: odd"),
    (Nothing, "not_found", "Error: Not found."),
]


@pytest.mark.parametrize(("held", "kind", "text"), HELD, ids=[type(each[0]).__name__ for each in HELD])
@pytest.mark.parametrize("wrap", [Failure, IOFailure])
async def test_what_a_failure_holds(wrap: Any, held: object, kind: str, text: str) -> None:
    """An exception is as if it were raised, and text is its author's; of what is no ToolError, nothing is said."""
    tools = ToolRegistry()

    @tools.tool
    async def fail() -> object:
        return wrap(held)

    outcome = await standard(tools).call("fail")
    assert is_failure(outcome)
    assert outcome.failure().kind == kind
    assert str(render(outcome)).startswith(text)
    assert "secret" not in render(outcome)


async def test_an_error_of_an_application_is_read_by_the_detector() -> None:
    """What a Failure holds that is no text, exception or error is asked of ``detect``; so is an opened value."""
    tools = ToolRegistry()

    @tools.tool(effect="read", detect=returned_error)
    async def fail(how: int) -> object:
        said = {"ok": False, "error": "no such order"}
        if how == 1:
            return FutureResult.from_value(said)
        return {0: Failure(said), 2: IOFailure("mine"), 3: Success({"ok": True, "id": 1})}[how]

    pipeline = standard(tools)
    texts = [render(await pipeline.call("fail", {"how": how})) for how in range(4)]
    assert texts[:3] == ["Error: no such order", "Error: no such order", "Error: mine"]
    assert json.loads(texts[3])["id"] == 1


@pytest.mark.parametrize(
    ("nothing", "kind", "text"),
    [
        ("execution", "execution", "Error: The tool failed."),
        (ToolFailed("No such order.", kind="not_found", suggestion="List them."), "not_found", "Error: No such order."),
        (None, None, ""),
    ],
)
async def test_a_tool_says_what_nothing_means(nothing: Any, kind: str | None, text: str) -> None:
    """A kind, a ToolFailed, or None: a success that holds None."""
    tools = ToolRegistry()

    @tools.tool(effect="read", nothing=nothing)
    async def find() -> object:
        return Nothing

    outcome: Any = await standard(tools).call("find")
    if kind is None:
        assert outcome == Success(None)
    else:
        assert outcome.failure().kind == kind
        assert render(outcome).startswith(text)


@pytest.mark.parametrize("wrong", ["nowhere", 5, ToolRegistry])
def test_a_wrong_meaning_of_nothing_is_refused(wrong: Any) -> None:
    """When the tool is made."""
    with pytest.raises(SetupError, match="find: `nothing` must be one of"):
        Tool.from_schema(name="find", parameters=None, handler=dict, nothing=wrong)


@pytest.mark.parametrize("effect", ["mutating", "idempotent"])
@pytest.mark.parametrize("name", ["future_safely", "async_result"])
async def test_a_tool_that_changes_something_is_opened_too(name: str, effect: Any) -> None:
    """An author's own Failure is a known end; an exception in one is not."""
    tools = ToolRegistry()
    tools.register(attrs.evolve(container_tools.tools[name], effect=effect))
    pipeline: Pipeline = standard(tools)
    assert await pipeline.call(name, {"how": SUCCESS}) == Success(7)
    failed: Any = await pipeline.call(name, {"how": FAILURE})
    assert failed.failure().kind == ("execution" if name == "async_result" else "not_found")


async def test_a_default_detector() -> None:
    """``standard(detect=…)`` reads what the tools return that have no detector of their own."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def plain() -> object:
        return {"ok": False, "error": "it is down"}

    @tools.tool
    async def changing() -> object:
        return {"ok": False, "error": "it is down"}

    @tools.tool(effect="read")
    def in_a_thread() -> object:
        return {"ok": False, "error": "it is down"}

    @tools.tool(effect="read", detect=lambda _: None)
    async def own() -> object:
        return {"ok": False, "error": "it is down"}

    pipeline = standard(tools, detect=returned_error)
    for name in ("plain", "changing", "in_a_thread"):
        assert render(await pipeline.call(name)) == "Error: it is down"
    assert not is_failure(await pipeline.call("own"))
    assert not is_failure(await standard(tools).call("plain"))
    not_callable: Any = 5
    with pytest.raises(SetupError, match="Execute: `detect` must be a plain function"):
        standard(tools, detect=not_callable)


async def test_a_function_of_errors_may_ask_for_the_tool() -> None:
    """With a second parameter it gets the tool's name; it may return a ToolFailed."""

    def read(_: Exception, tool: str) -> ToolFailed:
        return ToolFailed(approved(f"{tool} is closed today"), kind="permission")

    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def shop() -> str:
        raise KeyError

    @tools.tool(effect="read", errors={ValueError: lambda _: "not_found"})
    async def other() -> str:
        raise ValueError

    pipeline = standard(tools, errors={KeyError: read})
    assert render(await pipeline.call("shop")) == "Error: shop is closed today"
    assert_failure(await pipeline.call("other"), kind="not_found")


def test_what_reads_foreign_failures_is_public() -> None:
    """For stages and tools of one's own."""
    assert is_error({"ok": False})
    assert not is_error({"ok": True})
    assert extract_error_text({"error": {"message": "no entry"}}) == "no entry"
