"""Nothing that a model sends, and nothing that a tool does, makes a pipeline raise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry import trace
from returns.result import Failure, Success

from middlewares import Trace, standard
from pipeline import (
    Call,
    Crashed,
    InvalidParams,
    MalformedCall,
    Outcome,
    Pipeline,
    ToolFailed,
    ToolRegistry,
    Transient,
    UnknownTool,
    gather,
    is_failure,
    is_success,
    render,
)
from support import Exported, a_tool


class Hostile(Exception):
    """Raises on being looked at, in every way that a careless reader looks."""

    def __str__(self) -> str:
        raise RuntimeError("str")

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    @property
    def response(self) -> object:
        raise RuntimeError("response")


class Interrupt(BaseException):
    """What stands for KeyboardInterrupt, which would end the tests too."""


class Unshowable:
    """A value that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    def __str__(self) -> str:
        raise RuntimeError("str")


def deep(levels: int = 100_000) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for _ in range(levels):
        nested = {"a": nested}
    return nested


def cyclic() -> dict[str, Any]:
    ring: dict[str, Any] = {}
    ring["a"] = ring
    return ring


NAMES: list[Any] = [
    None,
    "",
    " ",
    "x" * 10_000,
    "<|" * 3_000,
    b"add",
    ["add"],
    {"name": "add"},
    {1, 2},
    7,
    float("nan"),
    "töol",
    "\ud800",
    "add\x00",
    "名前",
    Unshowable(),
    "__class__",
    "add" * 200,
]
ARGUMENTS: list[Any] = [
    None,
    "",
    "  \n",
    "{",
    "[]",
    "1",
    "null",
    '"text"',
    "{'a': 1}",
    '{"a": 1,}',
    '{"a": NaN, "b": Infinity}',
    "[" * 100_000,
    '{"a":' * 100_000,
    "\ud800",
    '{"a": "\\ud800"}',
    '{"a": ' + "9" * 400 + "}",
    '{"a": ' + "9" * 5_000 + "}",
    b'{"a": 1}',
    b"\xff",
    7,
    True,
    3.5,
    [],
    [1],
    (1,),
    {1, 2},
    object(),
    Unshowable(),
    deep(),
    cyclic(),
    {"a": float("nan")},
    {"a": 10**400},
    {"a": 10**5_000},
    {1: 2},
    {None: 1, (1, 2): 3},
    {"a": Unshowable()},
    {"a": deep()},
    {"a": cyclic()},
    {"a": "\ud800"},
    {"a": b"\xff"},
    {"": 1},
    {"\ud800": 1},
]
RAISED: list[BaseException] = [
    Exception(),
    ValueError("secret"),
    KeyError("secret"),
    StopIteration(1),
    StopAsyncIteration(),
    RecursionError(),
    MemoryError(),
    AssertionError(),
    NotImplementedError(),
    ExceptionGroup("many", [ValueError("secret"), ConnectionError()]),
    ExceptionGroup("one", [ExceptionGroup("in one", [ConnectionError("secret")])]),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "secret"),
    ToolFailed("as its author says"),
    ToolFailed("", kind="validation"),
    Hostile(),
]
RETURNED: list[Any] = [
    None,
    "",
    b"\xff",
    float("nan"),
    Unshowable(),
    deep(),
    cyclic(),
    object(),
    lambda: 1,
    Success(1),
    Success(Unshowable()),
    Failure("its author's word"),
    Failure(Transient()),
    Failure(Hostile()),
    Failure(Unshowable()),
    Failure(None),
    ValueError("returned, not raised"),
    ...,
    NotImplemented,
    type,
]


def numbered(values: Sequence[Any]) -> list[Any]:
    return [pytest.param(value, id=f"{place}-{type(value).__name__}") for place, value in enumerate(values)]


def raising(error: BaseException) -> Any:
    async def fail(**_: object) -> None:
        raise error

    return fail


def raising_in_a_thread(error: BaseException) -> Any:
    def fail(**_: object) -> None:
        raise error

    return fail


def returning(value: Any) -> Any:
    async def give(**_: object) -> Any:
        return value

    return give


def returning_from_a_thread(value: Any) -> Any:
    def give(**_: object) -> Any:
        return value

    return give


@pytest.fixture(params=["alone", "nobody", "recorded", "reported", "gathered"])
def run(request: pytest.FixtureRequest) -> Any:
    """Each way in which a call can travel."""

    def registry(tool: Any) -> Pipeline:
        tools = ToolRegistry()
        tools.register(tool)

        @tools.tool(effect="read")
        async def add(a: int, b: dict[str, Any] | None = None) -> int:
            return a

        return standard(tools, attempts=1)

    async def travel(call: Call, tool: Any = None) -> Outcome:
        pipeline = registry(tool or a_tool())
        if request.param == "alone":
            return await pipeline.without("trace")(call)
        if request.param == "recorded":
            return await pipeline.replace("trace", Trace(tracer_provider=Exported().provider))(call)
        if request.param == "reported":
            outcome = (await pipeline.report(call)).outcome
            assert outcome is not None
            return outcome
        if request.param == "gathered":
            return (await gather(pipeline, [call]))[0]
        return await pipeline(call)

    return travel


def check(outcome: Outcome) -> None:
    """What holds for every outcome of every call."""
    assert is_success(outcome) or is_failure(outcome)
    assert render(outcome)
    assert "secret" not in render(outcome)
    if is_failure(outcome):
        assert render(outcome.failure())
        assert "secret" not in repr(outcome)
    assert trace.get_current_span() is trace.INVALID_SPAN


@pytest.mark.parametrize("name", numbered(NAMES))
async def test_any_name_is_an_unknown_tool(run: Any, name: Any) -> None:
    """A name that no tool has is an UnknownTool, whatever it is made of."""
    outcome = await run(Call(name))
    check(outcome)
    assert isinstance(outcome.failure(), UnknownTool)


@pytest.mark.parametrize("arguments", numbered(ARGUMENTS))
@pytest.mark.parametrize("name", ["add", "probe"])
async def test_any_arguments_are_params_or_refused(run: Any, name: str, arguments: Any) -> None:
    """Arguments are what the tool asked for, a malformed call, or invalid; for function tools and raw schemas."""
    outcome = await run(Call(name, arguments))
    check(outcome)
    assert is_success(outcome) or isinstance(outcome.failure(), (MalformedCall, InvalidParams))


@pytest.mark.parametrize("wrap", [raising, raising_in_a_thread])
@pytest.mark.parametrize("error", numbered(RAISED))
async def test_whatever_a_tool_raises_is_a_failure(run: Any, error: Exception, wrap: Any) -> None:
    """A tool may raise anything; it is never told as an unknown tool or a bad parameter that the model sent."""
    outcome = await run(Call("probe"), a_tool(fn=wrap(error)))
    check(outcome)
    kind = outcome.failure()
    assert not isinstance(kind, (UnknownTool, MalformedCall))
    assert isinstance(kind, InvalidParams) == (isinstance(error, ToolFailed) and error.kind == "validation")


@pytest.mark.parametrize("wrap", [returning, returning_from_a_thread])
@pytest.mark.parametrize("value", numbered(RETURNED))
async def test_whatever_a_tool_returns_is_an_outcome(run: Any, value: Any, wrap: Any) -> None:
    """A tool may return anything; a Success or Failure of its own is its outcome, all else is its value."""
    outcome = await run(Call("probe"), a_tool(fn=wrap(value)))
    check(outcome)
    assert is_failure(outcome) == isinstance(value, Failure)


@pytest.mark.parametrize("error", [ValueError("secret"), KeyError("secret"), TypeError("secret")])
async def test_a_tools_own_bug_is_a_crash(run: Any, error: Exception) -> None:
    """A ValueError, KeyError or TypeError of the tool is a crash of the tool, and its text stays private."""
    outcome = await run(Call("probe"), a_tool(fn=raising(error)))
    assert isinstance(outcome.failure(), Crashed)
    assert render(outcome) == "An unexpected error occurred while executing this tool"


@pytest.mark.parametrize("wrap", [raising, raising_in_a_thread])
async def test_what_is_no_exception_passes(run: Any, wrap: Any) -> None:
    """An interrupt is nobody's outcome: it leaves the pipeline as it came."""
    with pytest.raises((Interrupt, BaseExceptionGroup)) as raised:
        await run(Call("probe"), a_tool(fn=wrap(Interrupt())))
    assert isinstance(raised.value, Interrupt) or raised.group_contains(Interrupt)
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_a_generator_exit_in_a_thread_is_a_crash(run: Any) -> None:
    """What a sync tool raises in its thread closes no coroutine of ours: it is a failure of the tool."""
    outcome = await run(Call("probe"), a_tool(fn=raising_in_a_thread(GeneratorExit())))
    assert isinstance(outcome.failure(), Crashed)


async def test_cancellation_passes_untouched(run: Any) -> None:
    """A cancelled call raises the event loop's own cancellation, and runs nothing more."""
    reached: list[str] = []

    async def hang() -> None:
        await anyio.sleep_forever()

    with anyio.move_on_after(0.01) as scope:
        await run(Call("probe"), a_tool(fn=hang))
        reached.append("after the call")
    assert scope.cancelled_caught
    assert reached == []


async def test_a_cancelled_pipeline_ends_with_its_callers_exception() -> None:
    """Cancelling a task group around calls lets nothing but the group's own cause out."""
    tools = ToolRegistry()
    tools.register(a_tool(fn=anyio.sleep_forever))
    pipeline = standard(tools)

    async def fail_soon() -> None:
        await anyio.sleep(0.01)
        raise LookupError("the cause")

    async def both() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(pipeline, Call("probe"))
            group.start_soon(fail_soon)

    with pytest.raises(ExceptionGroup) as raised:
        await both()
    assert [type(each) for each in raised.value.exceptions] == [LookupError]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(name=st.text() | st.sampled_from(["add", "probe", "ad"]), arguments=JSON | st.text() | st.binary())
async def test_no_call_makes_a_pipeline_raise(run: Any, name: str, arguments: Any) -> None:
    """For any name and any arguments there is one outcome, and a text for it."""
    check(await run(Call(name, arguments)))
