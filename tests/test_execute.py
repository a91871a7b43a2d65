"""Execute: which executor runs a tool, what the tool is given, and what its result becomes."""

from __future__ import annotations

import contextvars
import functools
import threading
from typing import Any, cast

import anyio
import pytest
from returns.result import Failure, Success

from support import a_call, a_tool
from toolcall_pipeline import (
    Call,
    Crashed,
    ExecutionFailed,
    Progress,
    SetupError,
    TimedOut,
    Tool,
    ToolContext,
    ToolError,
    ToolRegistry,
    ValidCall,
    approved,
)
from toolcall_pipeline.base import timing
from toolcall_pipeline.executors import Executor, Loop, begin_body, end_body
from toolcall_pipeline.middlewares import Execute, Retry, standard

WHO = contextvars.ContextVar("WHO", default="nobody")


async def test_sync_tools_run_in_a_worker_thread_with_the_callers_context() -> None:
    """A sync tool does not block the event loop, and sees the context variables of its caller."""

    def look() -> tuple[bool, str]:
        return threading.current_thread() is threading.main_thread(), WHO.get()

    WHO.set("the caller")
    assert await Execute()(a_call(a_tool(fn=look))) == Success((False, "the caller"))
    assert await Execute()(a_call(a_tool(fn=look, run_in="loop"))) == Success((True, "the caller"))


class CallableObject:
    """A tool may be an object."""

    async def __call__(self, a: int) -> int:
        return a

    async def method(self, a: int) -> int:
        return a


async def plain(a: int) -> int:
    return a


def returns_a_coroutine(a: int) -> Any:
    return plain(a)


ASYNC: list[Any] = [plain, functools.partial(plain), CallableObject(), CallableObject().method, returns_a_coroutine]


@pytest.mark.parametrize("fn", ASYNC, ids=["function", "partial", "object", "method", "not known to be async"])
async def test_a_coroutine_is_awaited(fn: Any) -> None:
    """A coroutine is awaited, also if the function was not known to be async."""
    assert await Execute()(a_call(a_tool(fn=fn), {"a": 3})) == Success(3)


async def test_a_failure_that_a_tool_returns() -> None:
    """A Failure that a tool returns is its outcome: text counts as approved, an exception as if it was raised."""

    async def fail(*, with_: Any) -> Any:
        return Failure(with_)

    tool = a_tool(fn=fail)
    assert await Execute()(a_call(tool, {"with_": ExecutionFailed("no")})) == Failure(ExecutionFailed("no"))
    assert await Execute()(a_call(tool, {"with_": "no"})) == Failure(ExecutionFailed("no"))
    for odd in (ValueError("no"), 3):
        outcome = await Execute()(a_call(tool, {"with_": odd}))
        assert isinstance(outcome, Failure)
        assert isinstance(outcome.failure(), Crashed)


def find_failure(value: object) -> ToolError | None:
    """A detector that reads text as a failure, raises for a number, and returns something else for a list."""
    if isinstance(value, int):
        raise KeyError(value)
    if isinstance(value, list):
        return "no ToolError"  # type: ignore[return-value]  # pyright: ignore[reportReturnType]
    return ExecutionFailed(approved(value)) if isinstance(value, str) else None


DETECTED: dict[str, tuple[Any, Any]] = {
    "failure": ("no", Failure(ExecutionFailed("no"))),
    "no failure": (b"yes", Success(b"yes")),
    "failure in a Success": (Success("no"), Failure(ExecutionFailed("no"))),
    "no failure in a Success": (Success(b"yes"), Success(b"yes")),
    "Failure of the tool itself": (Failure("oh"), Failure(ExecutionFailed("oh"))),
    "detector raises": (3, KeyError),
    "detector returns no ToolError": ([], TypeError),
}


@pytest.mark.parametrize("threaded", [True, False])
@pytest.mark.parametrize(("value", "expected"), DETECTED.values(), ids=DETECTED)
async def test_a_declared_detector(value: Any, expected: Any, threaded: bool) -> None:
    """What a detector finds in a value is the outcome. One that raises, or returns no ToolError, is a crash."""

    async def return_it() -> Any:
        return value

    tool = a_tool(fn=(lambda: value) if threaded else return_it, detect=find_failure)
    outcome = await Execute()(a_call(tool))
    if isinstance(expected, type):
        assert isinstance(outcome, Failure)
        error: ToolError = outcome.failure()
        assert isinstance(error, Crashed)
        assert isinstance(error.cause, expected)
    else:
        assert outcome == expected


async def test_a_context_is_injected_first() -> None:
    """A tool with context=True gets a ToolContext of its call before its arguments."""
    tools = ToolRegistry()

    @tools.tool(effect="keyed", context=True)
    async def whose(context: ToolContext, thing: str) -> ToolContext:
        context.progress(1, 2, thing)
        return context

    deps = object()
    report = await standard(tools).report(Call("whose", {"thing": "hat"}, "c1", "ann", deps))
    assert report.outcome is not None
    context = cast("ToolContext[Any]", report.outcome.unwrap())
    assert context.__class__ is ToolContext
    assert (context.call_id, context.attempt, context.principal, context.deps) == ("c1", 1, "ann", deps)
    assert report.progress == [Progress(1, 2, "hat")]


@pytest.mark.parametrize("threaded", [True, False])
async def test_one_idempotency_key_for_all_attempts(threaded: bool) -> None:
    """The key is the same for all attempts of a call, and another one for the next call, even if both have one id."""
    seen: list[tuple[int, str]] = []

    def note(context: ToolContext) -> str:
        seen.append((context.attempt, context.idempotency_key))
        if context.attempt < 3:
            raise ConnectionError
        return "done"

    async def note_in_loop(context: ToolContext) -> str:
        return note(context)

    tools = ToolRegistry()
    tools.register(a_tool(fn=note if threaded else note_in_loop, effect="keyed", context=True))
    pipeline = standard(tools).replace("retry", Retry(first_delay=0))
    for _ in range(2):
        assert await pipeline.call("probe") == Success("done")
    assert [attempt for attempt, _ in seen] == [1, 2, 3, 1, 2, 3]
    first, second = {key for _, key in seen[:3]}, {key for _, key in seen[3:]}
    assert len(first) == len(second) == 1
    assert first != second
    assert all(first)


async def test_progress_without_a_listener() -> None:
    """A tool may report progress even if nobody listens."""
    ToolContext("c1").progress(0.5)


class Noted(Executor):
    """Runs tools in the loop, and notes which."""

    name = "noted"

    def __init__(self) -> None:
        self.ran: list[str] = []

    def check_tool(self, tool: Tool[..., Any]) -> None:
        if tool.name == "odd":
            raise SetupError("odd: not here")

    async def run(self, call: ValidCall) -> object:
        self.ran.append(call.tool.name)
        return await Loop().run(call)


def sync_one() -> int:
    return threading.get_ident()


async def async_one() -> int:
    return threading.get_ident()


def four_tools() -> ToolRegistry:
    tools = ToolRegistry()
    for name, fn, run_in in (
        ("sync", sync_one, None),
        ("async", async_one, None),
        ("in the loop", sync_one, "loop"),
        ("in a thread", sync_one, "thread"),
    ):
        tools.register(a_tool(name, fn=fn, run_in=run_in))
    return tools


async def test_one_executor_for_all_tools_that_name_none() -> None:
    """`executor=` runs all tools without `run_in`, and the report names the executor of each attempt."""
    noted = Noted()
    pipeline = standard(four_tools(), executor=noted)
    reports = {name: await pipeline.report(Call(name)) for name in ("sync", "async", "in the loop", "in a thread")}
    assert noted.ran == ["sync", "async"]
    executors = {name: [attempt.executor for attempt in report.attempts] for name, report in reports.items()}
    assert executors == {"sync": ["noted"], "async": ["noted"], "in the loop": ["loop"], "in a thread": ["thread"]}
    here = threading.get_ident()
    assert {name: report.outcome == Success(here) for name, report in reports.items()} == {
        "sync": True,
        "async": True,
        "in the loop": True,
        "in a thread": False,
    }


async def test_executors_by_name() -> None:
    """A tool runs in the executor that the pipeline has for its `run_in`; "thread" may be replaced."""
    noted, tools = Noted(), four_tools()
    tools.register(a_tool("far", run_in="far away"))
    pipeline = standard(tools, executors={"far away": noted, "thread": noted})
    for name in ("far", "sync", "async"):
        assert isinstance(await pipeline.call(name), Success)
    assert noted.ran == ["far", "sync"]


WRONG_EXECUTORS: dict[str, tuple[Any, Any, str]] = {
    "unknown": (
        {"run_in": "far away"},
        {"near": Noted()},
        "probe: unknown executor 'far away'; known: loop, near, process, thread",
    ),
    "cannot run it": ({"name": "odd", "run_in": "noted"}, {"noted": Noted()}, "odd: not here"),
}


@pytest.mark.parametrize(("options", "executors", "text"), WRONG_EXECUTORS.values(), ids=WRONG_EXECUTORS)
async def test_a_tool_that_cannot_run(options: Any, executors: Any, text: str) -> None:
    """A tool that its executor cannot run is refused when the pipeline is built."""
    tools = ToolRegistry()
    tools.register(a_tool(**options))
    with pytest.raises(SetupError, match=text):
        standard(tools, executors=executors)


async def test_a_tool_that_is_registered_later() -> None:
    """A tool with an unknown executor crashes without running if it is registered after the pipeline was built."""
    tools = ToolRegistry()
    pipeline = standard(tools)
    tools.register(a_tool(run_in="far away"))
    outcome = await pipeline.call("probe")
    assert isinstance(outcome, Failure)
    error: Any = outcome.failure()
    assert isinstance(error, Crashed)
    assert str(error.cause) == "probe: unknown executor 'far away'; known: loop, process, thread"


def test_the_loop_cannot_be_replaced() -> None:
    """No other executor can have the name "loop"."""
    with pytest.raises(SetupError, match="`executors` must not contain 'loop'"):
        Execute(executors={"loop": Noted()})


async def test_an_executor_is_a_context_manager() -> None:
    """`async with` closes an executor; one without anything to close defines nothing for it."""
    async with Loop() as executor:
        executor.check_tool(a_tool())


class Delayed(Executor):
    """Waits in a queue of its own, then runs the body; in one of the two its time is up."""

    name = "delayed"
    announces_body = True

    def __init__(self, hangs_in: str) -> None:
        self.hangs_in = hangs_in
        self.scope: anyio.CancelScope  # of the time limit

    async def run(self, call: ValidCall) -> object:
        await self.step("queue")
        begin_body(call)
        try:
            await self.step("body")
            return await call.tool.fn(**call.params)
        finally:
            end_body(call)

    async def step(self, name: str) -> None:
        if name == self.hangs_in:
            self.scope.cancel()
            await anyio.sleep_forever()


class Unmarked(Delayed):
    """Runs the body without a word to the time limit."""

    announces_body = False

    async def run(self, call: ValidCall) -> object:
        await self.step("queue")
        return await call.tool.fn(**call.params)


BEGINS = {
    "before begin_body": (Delayed("queue"), TimedOut(1, landed="no")),
    "after begin_body": (Delayed("body"), TimedOut(1, landed="maybe")),
    "without begin_body": (Unmarked("queue"), TimedOut(1, landed="maybe")),
}


@pytest.mark.parametrize(("executor", "expected"), BEGINS.values(), ids=BEGINS)
async def test_when_a_body_begins(monkeypatch: pytest.MonkeyPatch, executor: Delayed, expected: TimedOut) -> None:
    """A call out of time before `begin_body` did not land; with an executor that does not ask there, it may have."""
    executor.scope = anyio.CancelScope()

    def use_scope(_seconds: float) -> anyio.CancelScope:
        return executor.scope

    monkeypatch.setattr(timing, "move_on_after", use_scope)  # the time is up when the executor says so
    tools = ToolRegistry()
    tools.register(a_tool())
    pipeline = standard(tools, executor=executor, timeout=1, attempts=1)
    assert await pipeline.call("probe") == Failure(expected)


class HashedOnce:
    """An object that can be put into a set, and into no copy of it."""

    def __init__(self) -> None:
        self._hashes = iter([1])

    def __hash__(self) -> int:
        return next(self._hashes)


async def count(things: list[Any]) -> int:
    return len(things)


def count_here(things: list[Any]) -> int:
    return len(things)


@pytest.mark.parametrize("effect", ["read", "mutating"])
@pytest.mark.parametrize("body", [count, count_here], ids=["straight", "in a thread"])
async def test_params_that_cannot_be_copied_are_a_crash(body: Any, effect: Any) -> None:
    """A straight body, counted or not, and one in an executor answer alike, and none raises."""
    register: Any = ToolRegistry().tool(effect=effect)
    tool: Any = register(body)
    tool.compile()
    assert tool.copies_direct is (body is count)
    outcome = await Execute()(a_call(tool, {"things": {HashedOnce()}}))
    assert isinstance(outcome, Failure)
    error: Any = outcome.failure()
    assert type(error) is Crashed
    assert isinstance(error.cause, StopIteration)
