"""A pipeline never raises, whatever a model sends and whatever a tool does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry import trace
from returns.result import Failure, Success

from support import Exported, a_tool
from toolcall_pipeline import (
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
from toolcall_pipeline.base.event_loops import Passes
from toolcall_pipeline.middlewares import Trace, standard


class Hostile(Exception):
    """Raises in every way in which an exception can be read."""

    def __str__(self) -> str:
        raise RuntimeError("str")

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    @property
    def response(self) -> object:
        raise RuntimeError("response")


class Interrupt(Passes):
    """In place of KeyboardInterrupt, which would end the tests too."""


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
# Put together at run time: hypothesis draws the texts that stand in the source, and a model may well say this one.
SECRET = "planted" * 2
RAISED: list[BaseException] = [
    Exception(),
    ValueError(SECRET),
    KeyError(SECRET),
    StopIteration(1),
    StopAsyncIteration(),
    RecursionError(),
    MemoryError(),
    AssertionError(),
    NotImplementedError(),
    ExceptionGroup("many", [ValueError(SECRET), ConnectionError()]),
    ExceptionGroup("one", [ExceptionGroup("in one", [ConnectionError(SECRET)])]),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, SECRET),
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


def number(values: Sequence[Any]) -> list[Any]:
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


@pytest.fixture(
    params=[
        "alone",
        "recorded",
        *(pytest.param(way, marks=pytest.mark.long) for way in ("nobody", "reported", "gathered")),
    ]
)
def run(request: pytest.FixtureRequest) -> Any:
    """Each way in which a call can be run."""

    def build(tool: Any) -> Pipeline:
        tools = ToolRegistry()
        tools.register(tool)

        @tools.tool(effect="read")
        async def add(a: int, b: dict[str, Any] | None = None) -> int:
            return a

        return standard(tools, attempts=1)

    async def run_once(call: Call, tool: Any = None) -> Outcome:
        pipeline = build(tool or a_tool())
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

    return run_once


def check(outcome: Outcome) -> None:
    """Check what holds for every outcome."""
    assert is_success(outcome) or is_failure(outcome)
    assert render(outcome)
    assert SECRET not in render(outcome)
    if is_failure(outcome):
        assert render(outcome.failure())
        assert SECRET not in repr(outcome)
    assert trace.get_current_span() is trace.INVALID_SPAN


@pytest.mark.parametrize("name", number(NAMES))
async def test_any_name_is_an_unknown_tool(run: Any, name: Any) -> None:
    """A name of any type and content that no tool has is an UnknownTool."""
    outcome = await run(Call(name))
    check(outcome)
    assert isinstance(outcome.failure(), UnknownTool)


@pytest.mark.parametrize("arguments", number(ARGUMENTS))
@pytest.mark.parametrize("name", ["add", "probe"])
async def test_any_arguments_are_accepted_or_refused(run: Any, name: str, arguments: Any) -> None:
    """Any arguments give a success, a MalformedCall or InvalidParams, for function tools and schemas."""
    outcome = await run(Call(name, arguments))
    check(outcome)
    assert is_success(outcome) or isinstance(outcome.failure(), (MalformedCall, InvalidParams))


@pytest.mark.parametrize("wrap", [raising, raising_in_a_thread])
@pytest.mark.parametrize("error", number(RAISED))
async def test_whatever_a_tool_raises_is_a_failure(run: Any, error: Exception, wrap: Any) -> None:
    """Any exception of a tool is a failure, and never one that blames the name or the arguments."""
    outcome = await run(Call("probe"), a_tool(fn=wrap(error)))
    check(outcome)
    kind = outcome.failure()
    assert not isinstance(kind, (UnknownTool, MalformedCall))
    assert isinstance(kind, InvalidParams) == (isinstance(error, ToolFailed) and error.kind == "validation")


@pytest.mark.parametrize("wrap", [returning, returning_from_a_thread])
@pytest.mark.parametrize("value", number(RETURNED))
async def test_whatever_a_tool_returns_is_an_outcome(run: Any, value: Any, wrap: Any) -> None:
    """Any value of a tool is an outcome: its own Success or Failure, else a success with the value."""
    outcome = await run(Call("probe"), a_tool(fn=wrap(value)))
    check(outcome)
    assert is_failure(outcome) == isinstance(value, Failure)


@pytest.mark.parametrize("error", [ValueError(SECRET), KeyError(SECRET), TypeError(SECRET)])
async def test_a_tools_own_bug_is_a_crash(run: Any, error: Exception) -> None:
    """A ValueError, KeyError or TypeError of a tool is a crash, and its text stays private."""
    outcome = await run(Call("probe"), a_tool(fn=raising(error)))
    assert isinstance(outcome.failure(), Crashed)
    assert render(outcome) == "An unexpected error occurred while executing this tool"


@pytest.mark.parametrize("wrap", [raising, raising_in_a_thread])
async def test_an_interrupt_leaves_the_pipeline(run: Any, wrap: Any) -> None:
    """What passes is not an outcome, and leaves the pipeline as it is."""
    with pytest.raises((Interrupt, BaseExceptionGroup)) as raised:
        await run(Call("probe"), a_tool(fn=wrap(Interrupt())))
    assert isinstance(raised.value, Interrupt) or raised.group_contains(Interrupt)
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_a_generator_exit_in_a_thread_is_a_crash(run: Any) -> None:
    """A GeneratorExit in the thread of a sync tool is a crash: it does not close our coroutines."""
    outcome = await run(Call("probe"), a_tool(fn=raising_in_a_thread(GeneratorExit())))
    assert isinstance(outcome.failure(), Crashed)


async def test_cancellation_passes_untouched(run: Any) -> None:
    """A cancelled call raises the cancellation of the event loop, and runs nothing more."""
    reached: list[str] = []

    async def cancel_itself() -> None:
        scope.cancel()
        await anyio.sleep_forever()

    with anyio.CancelScope() as scope:
        await run(Call("probe"), a_tool(fn=cancel_itself))
        reached.append("after the call")
    assert scope.cancelled_caught
    assert reached == []


async def test_a_cancelled_call_adds_no_exception_to_its_task_group() -> None:
    """A task group that is cancelled around a call raises only the exception that cancelled it."""
    tools, running = ToolRegistry(), anyio.Event()

    async def hang() -> None:
        running.set()
        await anyio.sleep_forever()

    tools.register(a_tool(fn=hang))
    pipeline = standard(tools)

    async def both() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(pipeline, Call("probe"))
            await running.wait()
            raise LookupError("the cause")

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
    """For any name and any arguments there is an outcome, and a text for it."""
    check(await run(Call(name, arguments)))
