"""A pipeline opens what it holds at its first call in an event loop, and closes it when that loop ends."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio

from support import PATIENT, Exported
from test_resources import JOURNAL, Far, Pool, pooled, some_tools, wait_for
from toolcall_pipeline import (
    Approvals,
    Call,
    NeedsSetup,
    Outcome,
    Pipeline,
    SetupError,
    Success,
    ToolRegistry,
    Unavailable,
    gather_sync,
)
from toolcall_pipeline.hosts.approving import Decision, HostApprovals
from toolcall_pipeline.hosts.host import Host, HostTool
from toolcall_pipeline.hosts.signed_calls import Signer
from toolcall_pipeline.middlewares import Approve, Ledger, Trace, standard
from toolcall_pipeline.stores import Memory, SQLite
from toolcall_pipeline.testing import record_calls

SCHEMA = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}


@pytest.fixture(autouse=True)
def journal() -> list[str]:
    JOURNAL.clear()
    return JOURNAL


def paying(store: Path, **options: Any) -> Pipeline:
    tools = ToolRegistry()

    @tools.tool
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    return standard(tools, store=SQLite(store), **options)


def run_in_asyncio(use: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(use())


RUNS: dict[str, Callable[[Any], None]] = {"anyio": anyio.run, "trio": trio.run, "asyncio": run_in_asyncio}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_loop_opens_it_and_closes_it(run: Callable[..., Any], journal: list[str]) -> None:
    """Once, however many calls there are; the next event loop does so again."""
    pipeline = pooled(Pool())

    async def use() -> None:
        for _ in range(2):
            assert await pipeline.call("look") == Success("seen")
        assert journal[-1] == "open pool"

    for turn in (1, 2):
        run(use)
        assert journal == ["open pool", "close pool"] * turn


def test_synchronous_calls_share_one_loop(tmp_path: Path) -> None:
    """`call_sync` and `gather_sync` need no block either, in any thread."""
    pipeline = paying(tmp_path / "calls.db")
    outcomes: list[Outcome] = []

    def pay(n: int) -> None:
        outcomes.append(pipeline.call_sync("pay", {"amount": n}, id=f"c{n}"))

    threads = [threading.Thread(target=pay, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENT)
    assert {outcome.value_or(None) for outcome in outcomes} == {f"paid {n}" for n in range(8)}
    assert gather_sync(pipeline, [Call("pay", {"amount": 9}, id="c9")]) == [Success("paid 9")]


def test_loops_of_several_threads(tmp_path: Path) -> None:
    """The end of one loop closes nothing that another one uses."""
    pipeline = paying(tmp_path / "calls.db")
    outcomes: list[Outcome] = []

    async def use(n: int) -> None:
        for each in range(5):
            outcomes.append(await pipeline.call("pay", {"amount": 10 * n + each}, id=f"c{n}.{each}"))  # noqa: PERF401

    threads = [threading.Thread(target=anyio.run, args=(use, n)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENT)
    assert [type(outcome) for outcome in outcomes] == [Success] * 30


def _pay_in_child(pipeline: Pipeline, told: Any) -> None:
    told.send(str(pipeline.call_sync("pay", {"amount": 2}, id="child")))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_opens_it_again(tmp_path: Path) -> None:
    """A child has no thread, no lease and no loop of its parent, so its first call opens them anew."""
    pipeline = paying(tmp_path / "calls.db")
    assert pipeline.call_sync("pay", {"amount": 1}, id="parent") == Success("paid 1")
    forks = multiprocessing.get_context("fork")
    here, there = forks.Pipe()
    child = forks.Process(target=_pay_in_child, args=(pipeline, there))
    child.start()
    try:
        assert here.poll(PATIENT)
        assert here.recv() == str(Success("paid 2"))
    finally:
        child.join(PATIENT)
        child.kill()
    assert pipeline.call_sync("pay", {"amount": 3}, id="again") == Success("paid 3")


async def test_a_caller_that_is_cancelled_leaves_it_to_open(journal: list[str]) -> None:
    """Another caller waits for it."""
    pool = Pool()
    pool.opening = anyio.Event()
    pipeline = pooled(pool)
    outcomes: list[Outcome] = []

    async def use() -> None:
        outcomes.append(await pipeline.call("look"))

    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as inner:
                inner.start_soon(use)
                await wait_for("opening pool")
                group.start_soon(use)
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        pool.opening.set()
    assert outcomes == [Success("seen")]
    await pipeline.aclose()
    assert journal == ["opening pool", "open pool", "close pool"]


async def test_what_does_not_open_is_told(journal: list[str], caplog: pytest.LogCaptureFixture) -> None:
    """The call is `unavailable`, is recorded as any other, and the next one tries again; `ready` raises."""
    pool, exported = Pool(fails=True), Exported()
    pipeline = pooled(pool).replace("trace", Trace(tracer_provider=exported.provider))
    for run in (pipeline.call("look"), pipeline(Call("look"))):
        assert (await run).failure() == Unavailable("look", "not_open")
    report = await pipeline.report(Call("look"))
    assert report.outcome is not None
    assert report.outcome.failure() == Unavailable("look", "not_open")
    assert [span.attributes["error.type"] for span in exported.spans if span.attributes] == ["unavailable"] * 3
    assert "OSError" in caplog.text
    with pytest.raises(OSError, match=r"^pool$"):
        await pipeline.ready()
    pool.fails = False
    await pipeline.ready()
    assert await pipeline.call("look") == Success("seen")
    await pipeline.aclose()
    assert journal == ["open pool", "close pool"]


async def test_a_wrong_set_up_is_told(tmp_path: Path) -> None:
    """A file that is no store is `configuration` of a call, and a SetupError of `ready` and of the block."""
    (tmp_path / "calls.db").write_bytes(b"no store " * 200)
    pipeline = paying(tmp_path / "calls.db")
    error = (await pipeline.call("pay", {"amount": 1})).failure()
    assert isinstance(error, NeedsSetup)
    assert isinstance(error.cause, SetupError)
    with pytest.raises(SetupError, match="not a SQLite database"):
        await pipeline.ready()
    with pytest.raises(SetupError, match="not a SQLite database"):
        async with pipeline:
            pass


FORMS: dict[str, Callable[[Pipeline], Pipeline]] = {
    "itself": lambda pipeline: pipeline,
    "recorded": record_calls,
    "bound": lambda pipeline: pipeline.with_(principal="ada"),
    "edited": lambda pipeline: pipeline.before("retry", Pool("b"), name="b"),
}


@pytest.mark.parametrize("form", FORMS)
async def test_every_form_of_a_pipeline(form: str) -> None:
    """It opens at its first call, closes with `aclose`, and opens again; and so does a block around that."""
    pipeline = FORMS[form](pooled(Pool()))
    for _ in range(2):
        assert await pipeline.call("look") == Success("seen")
        await pipeline.aclose()
    assert await pipeline.call("look") == Success("seen")
    async with pipeline:
        assert await pipeline.call("look") == Success("seen")
    opened = JOURNAL.count("open pool")
    assert JOURNAL.count("close pool") == opened == 3


async def test_aclose_closes_what_opens_itself(journal: list[str]) -> None:
    """Executors, for a pipeline that nothing has to open."""

    class Ready(Far):
        opens_itself = True

    pipeline = standard(some_tools(), executor=Ready())
    assert await pipeline.call("look") == Success("seen")
    await pipeline.aclose()
    assert journal[-1] == "close far"


async def test_a_host_with_a_store(tmp_path: Path) -> None:
    """The pipelines of an adapter, which nobody sees, open their store themselves."""
    host = Host({"pay": "mutating"}, store=SQLite(tmp_path / "calls.db"))

    async def body(_: object) -> object:
        return "paid"

    run = host.offer({"pay": HostTool("", SCHEMA)})
    assert await host.run(run, Call("pay", {"amount": 1}, id="c1"), body) == Success("paid")
    await run.aclose()


async def test_an_approval_is_resumed_without_a_block(tmp_path: Path) -> None:
    """`resume` opens the store as a call does."""
    store = SQLite(tmp_path / "calls.db")
    first = paying(tmp_path / "calls.db").after("validate", Approve(store, effects=["mutating"]))
    waiting: Any = (await first.call("pay", {"amount": 1}, id="c1")).failure()
    async with Approvals(store) as approvals:
        await approvals.approve(waiting.id, by="ann")
    await first.aclose()
    assert await first.resume(waiting.id) == Success("paid 1")
    await first.aclose()


async def test_a_host_that_asks(tmp_path: Path) -> None:
    """What the adapter asks before the call opens the store as the call does."""
    store = SQLite(tmp_path / "calls.db")
    pipeline = paying(tmp_path / "calls.db").after("validate", Approve(store, effects=["mutating"]))
    approvals, call = HostApprovals(pipeline, Signer("test")), Call("pay", {"amount": 1}, id="c1")
    assert await approvals.must_ask(call, None)
    outcome = await approvals.run(call, None, lambda _: Decision(approved=True, by="ann"))
    assert outcome == Success("paid 1")
    await pipeline.aclose()


async def test_ready_knows_the_tools() -> None:
    """An option that names no tool is a SetupError once the registry has tools."""
    tools = ToolRegistry()
    pipeline = standard(tools, store=Memory()).after("validate", Approve(Memory(), tools=["transfr"]))

    @tools.tool
    def transfer(amount: int) -> str:
        """Transfer."""
        return str(amount)

    with pytest.raises(SetupError, match="transfr"):
        await pipeline.ready()
    with pytest.raises(SetupError, match="transfr"):
        async with pipeline:
            pass


async def test_the_ledger_holds_without_a_block(tmp_path: Path) -> None:
    """A delivery that comes again gets its answer, in the same loop and after it was closed."""
    ledger = Ledger(SQLite(tmp_path / "calls.db"))
    runs: list[int] = []
    tools = ToolRegistry()

    @tools.tool
    async def pay(amount: int) -> str:
        """Pay."""
        runs.append(amount)
        return "paid"

    pipeline = standard(tools).before("retry", ledger)
    for _ in range(3):
        assert await pipeline.call("pay", {"amount": 1}, id="c1", conversation="t") == Success("paid")
        await pipeline.aclose()
    assert runs == [1]
