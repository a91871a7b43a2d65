"""`async with pipeline` opens and closes what its stages hold."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, ClassVar, Self

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from returns.result import Success

from support import PATIENT
from toolcall_pipeline import Crashed, Outcome, SetupError, ToolRegistry, ValidCall
from toolcall_pipeline.executors import Executor
from toolcall_pipeline.middlewares import Execute, standard

JOURNAL: list[str] = []


class Pool:
    """A stage that holds a connection while it is open."""

    def __init__(self, name: str = "pool", *, fails: bool = False) -> None:
        self.name, self.fails, self.is_open = name, fails, False
        self.opening: anyio.Event | None = None  # what opening waits for
        self.closing: anyio.Event | None = None

    async def __aenter__(self) -> Self:
        assert not self.is_open
        await anyio.lowlevel.checkpoint()
        if self.opening is not None:
            JOURNAL.append(f"opening {self.name}")
            await self.opening.wait()
        if self.fails:
            raise OSError(self.name)
        JOURNAL.append(f"open {self.name}")
        self.is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await anyio.lowlevel.checkpoint()
        if self.closing is not None:
            JOURNAL.append(f"closing {self.name}")
            await self.closing.wait()
        self.is_open = False
        JOURNAL.append(f"close {self.name}{'' if kind is None else f' after {kind.__name__}'}")

    async def __call__(self, call: ValidCall, call_next: Callable[[ValidCall], Awaitable[Outcome]]) -> Outcome:
        assert self.is_open
        return await call_next(call)


class Far(Executor):
    """An executor that must be opened."""

    name: ClassVar[str] = "far"
    opens_itself: ClassVar[bool] = False

    async def __aenter__(self) -> Self:
        JOURNAL.append("open far")
        return self

    async def run(self, call: ValidCall) -> object:
        return await call.tool.fn(**call.params)

    async def aclose(self) -> None:
        JOURNAL.append("close far")


@pytest.fixture(autouse=True)
def journal() -> list[str]:
    JOURNAL.clear()
    return JOURNAL


def some_tools() -> ToolRegistry:
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def look() -> str:
        """Look."""
        return "seen"

    @tools.tool(effect="read")
    async def crash() -> str:
        """Crash."""
        raise RuntimeError

    @tools.tool(effect="read")
    async def hang() -> str:
        """Hang."""
        await anyio.sleep_forever()
        return ""

    return tools


def pooled(*pools: Pool) -> Any:
    pipeline = standard(some_tools())
    for pool in pools:
        pipeline = pipeline.before("classify", pool, name=pool.name)
    return pipeline


async def wait_for(entry: str) -> None:
    while entry not in JOURNAL:
        await anyio.lowlevel.checkpoint()


async def test_they_open_in_order_and_close_in_the_opposite_one(journal: list[str]) -> None:
    """Outermost first, executors last; each once, also if a tool crashes."""
    pipeline = pooled(Pool("a"), Pool("b")).replace("execute", Execute(executors={"far": Far()}))
    async with pipeline:
        assert journal == ["open a", "open b", "open far"]
        assert await pipeline.call("look") == Success("seen")
        assert isinstance((await pipeline.call("crash")).failure(), Crashed)
    assert journal[3:] == ["close far", "close b", "close a"]


class Background(Pool):
    """A stage that holds a task group."""

    async def __aenter__(self) -> Self:
        self.tasks = await anyio.create_task_group().__aenter__()
        return await super().__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.tasks.__aexit__(kind, exc, traceback)
        await super().__aexit__(kind, exc, traceback)


async def test_a_stage_may_hold_a_task_group(journal: list[str]) -> None:
    """The end of the block waits for its tasks."""

    async def work() -> None:
        await anyio.lowlevel.checkpoint()
        journal.append("worked")

    background = Background()
    async with pooled(background) as pipeline:
        background.tasks.start_soon(work)
        assert await pipeline.call("look") == Success("seen")
    assert journal == ["open pool", "worked", "close pool"]


class Outer:
    """A stage that has another one in it."""

    def __init__(self, *resources: object) -> None:
        self.resources = resources

    async def __call__(self, call: ValidCall, call_next: Callable[[ValidCall], Awaitable[Outcome]]) -> Outcome:
        return await call_next(call)


async def test_what_a_stage_has_in_it_is_opened(journal: list[str]) -> None:
    """Each async context manager among its ``resources``, and nothing else of that name."""
    pipeline = standard(some_tools()).before("retry", Outer(Pool("a"), 5)).before("retry", Pool("b"))
    async with pipeline:
        assert await pipeline.call("look") == Success("seen")
    assert journal == ["open a", "open b", "close b", "close a"]
    odd: Any = Outer()
    odd.resources = {"a": Pool("c")}  # something of its own
    assert await standard(some_tools()).before("retry", odd).call("look") == Success("seen")


async def test_one_that_fails_to_open(journal: list[str]) -> None:
    """Its exception leaves `async with`, and what was opened before it is closed."""
    with pytest.raises(OSError, match=r"^b$"):
        async with pooled(Pool("a"), Pool("b", fails=True), Pool("c")):
            raise AssertionError
    assert journal == ["open a", "close a after OSError"]


async def test_a_pipeline_that_holds_nothing() -> None:
    """Without such a stage a pipeline works without `async with`, and within it."""
    pipeline = standard(some_tools())
    async with pipeline:
        assert await pipeline.call("look") == Success("seen")
    assert await pipeline.call("look") == Success("seen")


async def test_pipelines_that_share_a_stage(journal: list[str]) -> None:
    """The first one opens it, and the last one closes it."""
    pool = Pool()
    first, second = pooled(pool), pooled(pool)
    async with first:
        async with second:
            assert journal == ["open pool"]
        assert journal == ["open pool"]
        assert await second.call("look") == Success("seen")  # which opens it for itself
        await second.aclose()
    assert journal == ["open pool", "close pool"]


async def test_a_pipeline_is_opened_once() -> None:
    """To open an open pipeline is a SetupError, and leaves it open."""
    pipeline = pooled(Pool())
    async with pipeline:
        with pytest.raises(SetupError, match="open already"):
            await pipeline.__aenter__()
        assert await pipeline.call("look") == Success("seen")


async def test_it_closes_when_its_task_is_cancelled(journal: list[str]) -> None:
    """What takes a moment to close is closed also in a cancelled task."""
    pipeline = pooled(Pool())
    with anyio.CancelScope() as scope:
        async with pipeline, anyio.create_task_group() as group:
            group.start_soon(pipeline.call, "hang")
            await anyio.lowlevel.checkpoint()
            scope.cancel()
    assert journal[0] == "open pool"
    assert journal[1].startswith("close pool after")


async def test_what_was_opened_is_closed_when_opening_is_cancelled(journal: list[str]) -> None:
    """Also what takes a moment to close; and the pipeline can be opened afterwards."""
    first, second = Pool("a"), Pool("b")
    second.opening = anyio.Event()
    pipeline = pooled(first, second)
    async with anyio.create_task_group() as group:
        group.start_soon(pipeline.__aenter__)
        await wait_for("opening b")
        group.cancel_scope.cancel()
    assert not first.is_open
    assert journal[:2] == ["open a", "opening b"]
    assert journal[2].startswith("close a after")
    second.opening = None
    async with pipeline:
        assert await pipeline.call("look") == Success("seen")


async def test_closing_that_is_cancelled_closes_the_others(journal: list[str]) -> None:
    """The one that closes just then is told, as in any block; those outside of it are closed as in a cancelled task."""
    first, second = Pool("a"), Pool("b")
    second.closing = anyio.Event()

    async def use() -> None:
        async with pooled(first, second):
            pass

    async with anyio.create_task_group() as group:
        group.start_soon(use)
        await wait_for("closing b")
        group.cancel_scope.cancel()
    assert journal[-1].startswith("close a after")


async def test_closing_in_a_cancelled_task_ends(monkeypatch: pytest.MonkeyPatch, journal: list[str]) -> None:
    """All of them together have one time limit; what comes after it is told to close and not waited for."""
    monkeypatch.setattr("toolcall_pipeline.engine.compose.resources._CLOSING", 0)
    first, second = Pool("a"), Pool("b")
    second.closing = anyio.Event()
    with anyio.CancelScope() as scope:
        async with pooled(first, second):
            scope.cancel()
    assert journal == ["open a", "open b"]


@pytest.mark.parametrize("fails", [False, True])
async def test_pipelines_that_open_a_stage_at_the_same_time(journal: list[str], fails: bool) -> None:
    """The second one waits until the first has opened it, and tries itself if that fails."""
    pool = Pool(fails=fails)
    pool.opening = anyio.Event()
    first, second = pooled(pool), pooled(pool)
    seen: list[object] = []

    async def use(pipeline: Any) -> None:
        try:
            async with pipeline:
                seen.append(await pipeline.call("look"))
        except OSError as exc:
            seen.append(str(exc))

    async with anyio.create_task_group() as group:
        group.start_soon(use, first)
        await wait_for("opening pool")
        group.start_soon(use, second)
        await anyio.wait_all_tasks_blocked()
        assert journal == ["opening pool"]
        pool.opening.set()
    assert seen == ["pool" if fails else Success("seen")] * 2
    assert not pool.is_open
    assert journal.count("opening pool") == (2 if fails else journal.count("open pool"))


async def test_a_stage_that_closes_is_opened_again_afterwards(journal: list[str]) -> None:
    """A pipeline that opens while another one closes their stage waits for that."""
    pool = Pool()
    pool.closing = anyio.Event()
    second = pooled(pool)

    async def use() -> None:
        async with pooled(pool):
            pass

    async with anyio.create_task_group() as group:
        group.start_soon(use)
        await wait_for("closing pool")
        group.start_soon(second.__aenter__)
        await anyio.wait_all_tasks_blocked()
        assert journal == ["open pool", "closing pool"]
        pool.closing.set()
    assert await second.call("look") == Success("seen")
    await second.__aexit__(None, None, None)
    assert journal == ["open pool", "closing pool", "close pool", "open pool", "closing pool", "close pool"]


async def test_a_pipeline_that_is_being_opened_is_not_opened_twice(journal: list[str]) -> None:
    """The second task is refused, and the first one opens and closes it."""
    pool = Pool()
    pool.opening = anyio.Event()
    pipeline = pooled(pool)

    async def use() -> None:
        async with pipeline:
            assert await pipeline.call("look") == Success("seen")

    async with anyio.create_task_group() as group:
        group.start_soon(use)
        await wait_for("opening pool")
        with pytest.raises(SetupError, match="open already"):
            await pipeline.__aenter__()
        pool.opening.set()
    assert journal == ["opening pool", "open pool", "close pool"]


def test_pipelines_of_two_threads_share_a_stage() -> None:
    """Each has an event loop of its own: it waits there for what the other one opens."""
    opening, may_open = threading.Event(), threading.Event()
    outcomes: list[object] = []

    class Slow(Pool):
        async def __aenter__(self) -> Self:
            opening.set()
            await anyio.to_thread.run_sync(may_open.wait, 10)
            return await super().__aenter__()

    pool = Slow()

    async def use(done: threading.Event, other: threading.Event) -> None:
        async with pooled(pool) as pipeline:
            outcomes.append(await pipeline.call("look"))
            done.set()
            await anyio.to_thread.run_sync(other.wait, 10)

    ends = threading.Event(), threading.Event()
    threads = [
        threading.Thread(target=anyio.run, args=(use, mine, other), daemon=True) for mine, other in (ends, ends[::-1])
    ]
    threads[0].start()
    assert opening.wait(PATIENT)
    threads[1].start()
    may_open.set()
    for thread in threads:
        thread.join(PATIENT)
    assert outcomes == [Success("seen")] * 2
    assert not pool.is_open
