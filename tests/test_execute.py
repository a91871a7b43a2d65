"""Execute: where a tool runs, and with what."""

from __future__ import annotations

import contextvars
import functools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
from returns.result import Failure, Success

from middlewares import Execute, Retry, standard
from pipeline import (
    Call,
    Crashed,
    ExecutionFailed,
    Progress,
    SetupError,
    Tool,
    ToolContext,
    ToolError,
    ToolRegistry,
    Unavailable,
    ValidCall,
)
from pipeline.executors import Executor, Loop, Thread
from pipeline.privacy import approved
from pipeline.time_limit import TooLateError
from support import a_call, a_tool

WHO = contextvars.ContextVar("WHO", default="nobody")


async def test_sync_tools_run_in_a_worker_thread_with_the_callers_context() -> None:
    """A sync tool blocks no event loop, and sees the caller's context variables."""

    def look() -> tuple[bool, str]:
        return threading.current_thread() is threading.main_thread(), WHO.get()

    WHO.set("the caller")
    assert await Execute()(a_call(a_tool(fn=look))) == Success((False, "the caller"))
    assert await Execute()(a_call(a_tool(fn=look, run_in="loop"))) == Success((True, "the caller"))


class Callable:
    """A tool may be an object."""

    async def __call__(self, a: int) -> int:
        return a

    async def method(self, a: int) -> int:
        return a


async def plain(a: int) -> int:
    return a


def hands_on(a: int) -> Any:
    return plain(a)


ASYNC: list[Any] = [plain, functools.partial(plain), Callable(), Callable().method, hands_on]


@pytest.mark.parametrize("fn", ASYNC, ids=["function", "partial", "object", "method", "not known to be"])
async def test_whatever_gives_a_coroutine_is_awaited(fn: Any) -> None:
    """A tool is awaited whether or not it could be known beforehand to be async."""
    assert await Execute()(a_call(a_tool(fn=fn), {"a": 3})) == Success(3)


async def test_a_failure_of_the_tools_own() -> None:
    """A Failure that a tool returns is its outcome: of text its author's word, of an exception as if raised."""

    async def give(what: Any) -> Any:
        return Failure(what)

    tool = a_tool(fn=give)
    assert await Execute()(a_call(tool, {"what": ExecutionFailed("no")})) == Failure(ExecutionFailed("no"))
    assert await Execute()(a_call(tool, {"what": "no"})) == Failure(ExecutionFailed("no"))
    for odd in (ValueError("no"), 3):
        outcome = await Execute()(a_call(tool, {"what": odd}))
        assert isinstance(outcome, Failure)
        assert isinstance(outcome.failure(), Crashed)


def tells(value: object) -> ToolError | None:
    """A detector that takes text for a failure, and does badly with numbers."""
    if isinstance(value, int):
        raise KeyError(value)
    if isinstance(value, list):
        return "no ToolError"  # type: ignore[return-value]  # pyright: ignore[reportReturnType]
    return ExecutionFailed(approved(value)) if isinstance(value, str) else None


DETECTED: dict[str, tuple[Any, Any]] = {
    "a failure": ("no", Failure(ExecutionFailed("no"))),
    "none": (b"yes", Success(b"yes")),
    "in a Success": (Success("no"), Failure(ExecutionFailed("no"))),
    "none in a Success": (Success(b"yes"), Success(b"yes")),
    "a Failure of its own": (Failure("oh"), Failure(ExecutionFailed("oh"))),
    "a detector that raises": (3, KeyError),
    "a detector that gives something else": ([], TypeError),
}


@pytest.mark.parametrize("threaded", [True, False])
@pytest.mark.parametrize(("value", "expected"), DETECTED.values(), ids=DETECTED)
async def test_a_declared_detector(value: Any, expected: Any, threaded: bool) -> None:
    """What a detector finds in a value is the outcome; one that raises, or gives what is no ToolError, is a bug."""

    async def give() -> Any:
        return value

    tool = a_tool(fn=(lambda: value) if threaded else give, detect=tells)
    outcome = await Execute()(a_call(tool))
    if isinstance(expected, type):
        assert isinstance(outcome, Failure)
        error: ToolError = outcome.failure()
        assert isinstance(error, Crashed)
        assert isinstance(error.cause, expected)
    else:
        assert outcome == expected


async def test_a_context_is_injected_first() -> None:
    """A tool made with context=True gets the facts of its call, in front of its arguments."""
    tools = ToolRegistry()

    @tools.tool(effect="keyed", context=True)
    async def whose(context: ToolContext, thing: str) -> ToolContext:
        context.progress(1, 2, thing)
        return context

    deps = object()
    report = await standard(tools).report(Call("whose", {"thing": "hat"}, "c1", "ann", deps))
    assert report.outcome is not None
    context = report.outcome.unwrap()
    assert isinstance(context, ToolContext)
    assert (context.call_id, context.attempt, context.principal, context.deps) == ("c1", 1, "ann", deps)
    assert report.progress == [Progress(1, 2, "hat")]


@pytest.mark.parametrize("threaded", [True, False])
async def test_one_idempotency_key_for_all_attempts(threaded: bool) -> None:
    """The key is made once per call: equal across its attempts, another one for the next call, even with equal ids."""
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


async def test_progress_with_nobody_listening() -> None:
    """A tool may always tell its progress."""
    ToolContext("c1").progress(0.5)


class Hanging:
    """Tools that hang in their threads until they are let go."""

    def __init__(self, **options: Any) -> None:
        self.execute = Execute(**options)
        self.begun = threading.Semaphore(0)
        self.release = threading.Event()
        self.runs: list[str] = []
        self.expire: Any = None  # set by whoever wants to cancel a call as soon as its body has begun

    def body(self, name: str = "") -> str:
        self.runs.append(name)
        self.begun.release()
        if self.expire is not None:
            anyio.from_thread.run_sync(self.expire)
        self.release.wait(10)
        return name

    def call(self, name: str = "") -> Any:
        return self.execute(a_call(a_tool(fn=self.body), {"name": name}))

    async def leave(self, count: int) -> None:
        """Leave so many threads behind, each as soon as it has begun."""
        for number in range(count):
            with anyio.CancelScope() as scope:
                self.expire = scope.cancel
                await self.call(f"left {number}")
        self.expire = None

    async def all_ended(self) -> None:
        self.release.set()
        with anyio.fail_after(10):
            while self.execute.abandoned:
                await anyio.lowlevel.checkpoint()


BUSY = Failure(Unavailable("probe", "busy"))


async def test_threads_left_behind_are_counted() -> None:
    """A thread that runs on though nobody waits is counted until it ends, and no other one is."""
    hanging = Hanging()
    try:
        assert hanging.execute.abandoned == 0
        await hanging.leave(3)
        assert hanging.execute.abandoned == 3
    finally:
        await hanging.all_ended()
    assert await hanging.call("later") == Success("later")
    assert hanging.execute.abandoned == 0


async def test_threads_left_behind_are_bounded() -> None:
    """With as many as may be, a tool that wants a thread is refused before it begins, until one of them ends."""
    hanging, loop = Hanging(max_abandoned=2), a_tool()
    try:
        await hanging.leave(2)
        assert await hanging.call("one more") == BUSY
        assert hanging.runs == ["left 0", "left 1"]
        assert await hanging.execute(a_call(loop)) == Success("done")
    finally:
        await hanging.all_ended()
    assert await hanging.call("later") == Success("later")


async def test_a_thread_left_behind_gives_its_place_on() -> None:
    """On both event loops its place is for the next one, and it keeps none of those that other libraries wait for."""
    hanging = Hanging(threads=1)
    try:
        await hanging.leave(2)
        assert hanging.runs == ["left 0", "left 1"]
        assert anyio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
    finally:
        await hanging.all_ended()


async def test_so_many_threads_at_a_time() -> None:
    """Tools beyond the number of threads wait for one; whoever is cancelled in the queue never begins."""
    hanging = Hanging(threads=2)
    outcomes: list[Any] = []

    async def run(name: str) -> None:
        outcomes.append(await hanging.call(name))

    async with anyio.create_task_group() as group:
        for name in ("a", "b"):
            group.start_soon(run, name)
        for _ in range(2):
            assert await anyio.to_thread.run_sync(hanging.begun.acquire, True, 10)
        with anyio.move_on_after(0.01) as scope:
            await run("c")
        assert scope.cancelled_caught
        hanging.release.set()
    assert await hanging.call("d") == Success("d")
    assert (sorted(hanging.runs), hanging.execute.abandoned) == (["a", "b", "d"], 0)


async def test_too_many_were_left_while_it_waited_for_a_thread() -> None:
    """A call that got its place only because a hanging one was given up is refused too."""
    hanging = Hanging(threads=1, max_abandoned=1)
    outcomes: list[Any] = []

    async def run() -> None:
        outcomes.append(await hanging.call("queued"))

    try:
        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as scope:

                def give_up() -> None:
                    group.start_soon(run)
                    group.start_soon(soon)

                async def soon() -> None:
                    for _ in range(10):  # until the other one stands in the queue
                        await anyio.lowlevel.checkpoint()
                    scope.cancel()

                hanging.expire = give_up
                await hanging.call("left")
        assert outcomes == [BUSY]
        assert hanging.runs == ["left"]
    finally:
        await hanging.all_ended()


async def test_what_was_called_off_before_it_began_never_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that comes to a body for which nobody waits any more lets it be."""
    hanging = Hanging()
    dispatched: list[Any] = []

    async def slow_to_begin(function: Any, *args: Any, **_options: Any) -> None:
        dispatched.append(functools.partial(function, *args))
        scope.cancel()
        await anyio.sleep_forever()

    monkeypatch.setattr("pipeline.executors.thread_pool.run_sync", slow_to_begin)
    with anyio.CancelScope() as scope:
        await hanging.call()
    with pytest.raises(TooLateError):
        dispatched[0]()
    assert (hanging.runs, hanging.execute.abandoned) == ([], 0)


def test_one_execute_for_several_event_loops() -> None:
    """A pipeline may be used from one event loop after another, and from several threads at once."""
    execute = Execute(threads=2)

    def run(backend: str) -> None:
        call = a_call(a_tool(fn=threading.get_ident))
        assert isinstance(anyio.run(execute, call, backend=backend), Success)

    for backend in ("asyncio", "trio", "asyncio"):
        run(backend)
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(run, backend) for backend in ("asyncio", "trio") * 4]:
            done.result(10)


@pytest.mark.parametrize("options", [{"threads": 0}, {"max_abandoned": 0}, {"threads": 1.5}], ids=repr)
def test_senseless_numbers_of_threads_are_refused(options: Any) -> None:
    """Fewer than one thread, or half a one, is a set-up error."""
    with pytest.raises(SetupError, match="at least one thread"):
        Execute(**options)


# where a tool runs


class Noted(Executor):
    """Runs tools here, and notes which."""

    name = "noted"

    def __init__(self) -> None:
        self.ran: list[str] = []

    def refuses(self, tool: Tool[..., Any]) -> str | None:
        return "odd: not here" if tool.name == "odd" else None

    async def run(self, call: ValidCall) -> object:
        self.ran.append(call.tool.name)
        return await Loop().run(call)


def sync_one() -> int:
    return threading.get_ident()


async def async_one() -> int:
    return threading.get_ident()


def placed() -> ToolRegistry:
    tools = ToolRegistry()
    for name, fn, run_in in (
        ("sync", sync_one, None),
        ("async", async_one, None),
        ("in the loop", sync_one, "loop"),
        ("in a thread", sync_one, "thread"),
    ):
        tools.register(a_tool(name, fn=fn, run_in=run_in))
    return tools


async def test_all_tools_that_leave_it_open_run_in_the_pipelines_executor() -> None:
    """An executor of the pipeline's has all tools that do not say where they run, and the report says who ran them."""
    noted = Noted()
    pipeline = standard(placed(), executor=noted)
    said = {name: await pipeline.report(Call(name)) for name in ("sync", "async", "in the loop", "in a thread")}
    assert noted.ran == ["sync", "async"]
    executors = {name: [attempt.executor for attempt in report.attempts] for name, report in said.items()}
    assert executors == {"sync": ["noted"], "async": ["noted"], "in the loop": ["loop"], "in a thread": ["thread"]}
    here = threading.get_ident()
    assert {name: report.outcome == Success(here) for name, report in said.items()} == {
        "sync": True,
        "async": True,
        "in the loop": True,
        "in a thread": False,
    }


async def test_a_name_for_a_place() -> None:
    """A tool runs at the place that the pipeline has for its name; "thread" may mean another one too."""
    noted, tools = Noted(), placed()
    tools.register(a_tool("far", run_in="far away"))
    pipeline = standard(tools, executors={"far away": noted, "thread": noted})
    for name in ("far", "sync", "async"):
        assert isinstance(await pipeline.call(name), Success)
    assert noted.ran == ["far", "sync"]


async def test_threads_run_async_tools_in_the_loop() -> None:
    """Thread, as the executor of all, has async tools where they belong."""
    executor = Thread(1)
    pipeline = standard(placed(), executor=executor)
    assert await pipeline.call("async") == Success(threading.get_ident())
    assert await pipeline.call("sync") != Success(threading.get_ident())
    assert (await executor.run(a_call(a_tool(fn=hands_on), {"a": 2})), executor.abandoned) == (2, 0)


WRONG_PLACES: dict[str, tuple[Any, Any, str]] = {
    "unknown": ({"run_in": "far away"}, {}, "probe: nobody knows where 'far away' is: there are loop, process, thread"),
    "refused": ({"name": "odd", "run_in": "noted"}, {"noted": Noted()}, "odd: not here"),
}


@pytest.mark.parametrize(("options", "executors", "told"), WRONG_PLACES.values(), ids=WRONG_PLACES)
async def test_a_place_that_is_none(options: Any, executors: Any, told: str) -> None:
    """What cannot run where it says is refused when the pipeline is built; later, it crashes, and did not run."""
    tools = ToolRegistry()
    later = standard(tools, executors=executors)
    tools.register(a_tool(**options))
    with pytest.raises(SetupError, match=told):
        standard(tools, executors=executors)
    if "noted" not in executors:
        outcome = await later.call("probe")
        assert isinstance(outcome, Failure)
        error: Any = outcome.failure()
        assert isinstance(error, Crashed)
        assert told in str(error.cause)


def test_the_loop_is_where_it_is() -> None:
    """No other place can be called the loop."""
    with pytest.raises(SetupError, match="the loop is where it is"):
        Execute(executors={"loop": Noted()})


async def test_an_executor_is_closed_by_whoever_opened_it() -> None:
    """`async with` closes it in the end; those without anything to close need say nothing of it."""
    async with Loop() as executor:
        assert executor.refuses(a_tool()) is None
