"""Switchboard: what an operator switches holds for every process of a store, and nothing else opens or closes by it."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from returns.result import Failure

from support import PATIENT
from toolcall_pipeline import Pipeline, SetupError, Stack, Switchboard, ToolRegistry, Unavailable, is_success, render
from toolcall_pipeline.audit import AuditLog
from toolcall_pipeline.base import timing
from toolcall_pipeline.cli.commands import toolcall
from toolcall_pipeline.middlewares import Audit, Available, Execute, Resolve, Validate, standard
from toolcall_pipeline.middlewares import switchboard as module
from toolcall_pipeline.stage_state.switches import KEY
from toolcall_pipeline.stores import Change, Entry, Memory, SQLite, Store, StoreError
from toolcall_pipeline.testing import FakeClock


class Shop:
    """Tools, and which of them ran."""

    def __init__(self) -> None:
        self.tools, self.ran = ToolRegistry(), list[str]()

        @self.tools.tool(effect="read")
        async def look() -> None:
            self.ran.append("look")

        @self.tools.tool
        def pay() -> None:
            self.ran.append("pay")

    async def call(self, pipeline: Pipeline, tool: str = "pay", principal: str = "") -> str:
        """The reason why it was refused; an empty text: it ran."""
        outcome = await pipeline.call(tool, {}, principal=principal)
        if is_success(outcome):
            return ""
        error = outcome.failure()
        assert isinstance(error, Unavailable)
        assert render(outcome) == "This tool is not available"
        return error.reason

    def offered(self) -> list[str]:
        return [each["name"] for each in self.tools.definitions()]


class Shaky(Memory):
    """A store that is away on demand."""

    is_away = False
    is_hanging = False

    async def get(self, key: str, /) -> Entry | None:
        if self.is_hanging:
            await anyio.sleep_forever()
        if self.is_away:
            raise StoreError("the store is away")
        return await super().get(key)


MakeStore = Callable[[], Store]


@pytest.fixture(params=["memory", "sqlite"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Makes the store of one process."""
    memory = Memory()
    return (lambda: memory) if request.param == "memory" else (lambda: SQLite(tmp_path / "a.db"))


@asynccontextmanager
async def operate(store: Store, **options: Any) -> AsyncGenerator[Switchboard]:
    """The board of another process: it hears of nothing but through the store."""
    async with Switchboard(store, **options) as board:
        yield board


async def until(check: Callable[[], Any]) -> None:
    with anyio.fail_after(PATIENT):
        while not check():  # noqa: ASYNC110  # a store sends no event
            await anyio.sleep(0.01)


TARGETS: list[tuple[dict[str, Any], set[tuple[str, str]]]] = [  # what is switched, and the calls that it closes
    ({"tool": "pay"}, {("pay", ""), ("pay", "acme")}),
    ({"tool": " PAY "}, {("pay", ""), ("pay", "acme")}),
    ({"principal": "acme"}, {("pay", "acme"), ("look", "acme")}),
    ({"principal": " Acme"}, {("pay", "acme"), ("look", "acme")}),
    ({"everything": True}, {(tool, who) for tool in ("pay", "look") for who in ("", "acme")}),
]


@pytest.mark.parametrize(("what", "closed"), TARGETS)
@pytest.mark.parametrize(
    ("close", "open_", "state"), [("pause", "resume", "paused"), ("disable", "enable", "disabled")]
)
async def test_what_is_switched_is_closed_everywhere(
    make_store: MakeStore, what: dict[str, Any], closed: set[tuple[str, str]], close: str, open_: str, state: str
) -> None:
    """Of each kind, and open again after; what is closed to all is not offered."""
    shop, store = Shop(), make_store()
    async with standard(shop.tools, store=store) as pipeline, operate(make_store()) as board:
        calls = [(tool, who) for tool in ("pay", "look") for who in ("", "acme")]
        assert {each for each in calls if await shop.call(pipeline, *each)} == set()
        done = await getattr(board, close)(**what, by="ann", why="it burns")
        assert (done.changed, [each.state for each in done.standing]) == (True, [state])
        await until(lambda: shop.tools.closed)
        shop.ran.clear()
        assert {each for each in calls if await shop.call(pipeline, *each) == state} == closed
        assert len(shop.ran) == len(calls) - len(closed)
        to_all = {tool for tool, who in closed if not who}
        assert shop.offered() == [tool for tool in ("look", "pay") if tool not in to_all]
        assert await getattr(board, open_)(**what, by="ann") == (True, ())
        await until(lambda: not shop.tools.closed)
        assert {each for each in calls if await shop.call(pipeline, *each)} == set()
        assert shop.offered() == ["look", "pay"]


@pytest.mark.parametrize("what", [{"everything": True}, {"tool": "late"}])
async def test_a_tool_that_is_registered_later_is_closed(make_store: MakeStore, what: dict[str, Any]) -> None:
    """A rule for everything, or for its name, holds for it at once: it is not offered, suggested or run."""
    shop, store = Shop(), make_store()
    late = ToolRegistry().tool(name="late")(lambda: shop.ran.append("late"))
    async with standard(shop.tools, store=store) as pipeline, operate(store) as board:
        shop.tools.register(late)  # so that its name is known
        await board.disable(**what, by="ann", why="it burns")
        await until(lambda: shop.tools.closed)
        shop.tools.unregister("late")
        shop.tools.register(late)
        view = shop.tools.view({"late"})
        assert "late" not in shop.offered()
        assert view.definitions() == []
        assert await shop.call(pipeline, "late") == "disabled"
        assert "late" not in render(await pipeline.call("latte", {}))
        await board.enable(**what, by="ann")
        await until(lambda: not shop.tools.closed)
        assert shop.offered() == ["look", "pay", "late"]
        assert await shop.call(pipeline, "late") == ""
    assert shop.ran == ["late"]


async def test_a_call_that_waits_does_not_begin(make_store: MakeStore) -> None:
    """It is asked right before the body, whatever let the call pass before; and a tool that is registered later."""
    shop, store, passed, go = Shop(), make_store(), anyio.Event(), anyio.Event()

    async def wait(call: Any, call_next: Any) -> Any:
        passed.set()
        await go.wait()
        return await call_next(call)

    async with standard(shop.tools, store=store).after("validate", wait) as pipeline, operate(store) as board:
        told = list[str]()

        async def ask() -> None:
            told.append(await shop.call(pipeline, "pay", "acme"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await passed.wait()
            await board.pause(principal="acme", by="ann", why="it burns")
            go.set()
        assert (told, shop.ran) == (["paused"], [])
        await board.disable(everything=True, by="ann", why="it burns")

        @shop.tools.tool
        async def later() -> None:
            shop.ran.append("later")

        assert await shop.call(pipeline, "later") == "disabled"
        assert shop.ran == []


async def test_code_and_the_board_close_on_their_own() -> None:
    """Neither opens what the other one closed, and a stack of one's own hears as well."""
    shop, store = Shop(), Memory()
    stack = Stack().check(Resolve(shop.tools)).check(Available(shop.tools)).check(Switchboard(store))
    pipeline = stack.check(Validate()).end(Execute())
    board = Switchboard(store)
    shop.tools.disable("pay")
    await board.disable("pay", by="ann", why="it burns")
    await board.pause("pay", by="ann", why="it burns")
    await board.enable("pay", by="ann")
    await board.resume("pay", by="ann")
    assert await shop.call(pipeline) == "disabled"
    await board.pause("pay", by="ann", why="it burns")
    shop.tools.enable("pay")
    assert await shop.call(pipeline) == "paused"
    await board.resume("pay", by="ann")
    assert await shop.call(pipeline) == ""


async def test_each_person_has_a_switch_of_their_own(make_store: MakeStore) -> None:
    """Who resumes leaves the pauses of others; who has none takes back theirs; another kind stays."""
    async with operate(make_store()) as board:
        for by in ("ann", "bob", "Ann "):
            await board.pause("pay", by=by, why=f"{by} says so")
        assert [each.by for each in await board.list()] == ["bob", "Ann "]
        changed, standing = await board.resume("pay", by="bob")
        assert (changed, [each.by for each in standing]) == (True, ["Ann "])
        await board.disable("pay", by="eve", why="x")
        await board.pause(everything=True, by="eve", why="x")
        changed, standing = await board.resume("PAY", by="bob")
        assert (changed, [each.state for each in standing]) == (True, ["disabled"])
        assert await board.resume("pay", by="bob") == (False, standing)
        assert [(each.tool, each.state) for each in await board.list()] == [("pay", "disabled"), (None, "paused")]


WRONG: list[dict[str, Any]] = [
    {"tool": "pay", "by": "", "why": "x"},
    {"tool": "pay", "by": "ann", "why": " "},
    {"tool": " ", "by": "ann", "why": "x"},
    {"principal": "", "by": "ann", "why": "x"},
    {"by": "ann", "why": "x"},
    {"tool": "pay", "everything": True, "by": "ann", "why": "x"},
    {"tool": "pay", "by": "ann", "why": "x", "retry_after": -1},
    {"tool": 1, "by": "ann", "why": "x"},
    {"tool": "pai", "by": "ann", "why": "x"},
]


@pytest.mark.parametrize("given", WRONG)
async def test_a_mistake_is_said_at_once(given: dict[str, Any]) -> None:
    """And nothing is switched; of a name that no tool has, with the nearest one."""
    shop, store = Shop(), Memory()
    pipeline = standard(shop.tools, store=store)
    with pytest.raises(SetupError, match="did you mean 'pay'" if given.get("tool") == "pai" else "Switchboard"):
        await Switchboard(store).pause(**given)
    assert await shop.call(pipeline) == ""
    with pytest.raises(SetupError, match="a pipeline has one such stage"):
        pipeline.after("switchboard", Switchboard(store), name="again")


async def test_a_process_warns_of_a_name_that_it_lacks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once, for a command line cannot know the tools."""
    shop = Shop()
    async with operate(SQLite(tmp_path / "a.db")) as board:
        await board.pause("pai", by="ann", why="it burns")
        async with standard(shop.tools, store=SQLite(tmp_path / "a.db")) as pipeline:
            await board.pause(principal="acme", by="ann", why="it burns")
            await until(lambda: shop.tools.closed)
            assert await shop.call(pipeline) == ""
    assert caplog.text.count("tool 'pai' is paused, and there is no such tool in this process") == 1


async def test_a_body_asks_where_nobody_has_for_a_second(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after the process was suspended: it begins only by what the store says now."""
    monkeypatch.setattr(module, "_EVERY", 1e6)  # the thread looks when it is asked to, and not by itself
    monkeypatch.setattr(module, "_PATIENCE", PATIENT)
    shop = Shop()
    with FakeClock() as clock:
        async with standard(shop.tools, store=make_store()) as pipeline, operate(make_store()) as board:
            assert await shop.call(pipeline) == ""
            await board.pause("pay", by="ann", why="it burns")
            clock.advance(1)
            assert await shop.call(pipeline) == "paused"


async def test_who_waits_for_a_look_holds_no_other_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies that wait for a slow store share one look, and another task of the loop runs meanwhile."""
    monkeypatch.setattr(module, "_EVERY", 1e6)
    monkeypatch.setattr(module, "_PATIENCE", PATIENT)
    shop, store, told, asked, go = Shop(), Shaky(), list[str](), list[str](), Event()

    async def get_slowly(_: Shaky, key: str, /) -> Entry | None:
        asked.append(key)
        while not go.is_set():  # noqa: ASYNC110  # of another thread
            await anyio.sleep(0.001)
        return await Memory.get(store, key)

    with FakeClock() as clock:
        async with standard(shop.tools, store=store) as pipeline:
            await Switchboard(store).pause("pay", by="ann", why="it burns")
            monkeypatch.setattr(Shaky, "get", get_slowly)
            clock.advance(1)

            async def call(tool: str) -> None:
                told.append(await shop.call(pipeline, tool))

            async with anyio.create_task_group() as tasks:
                for _ in range(10):
                    tasks.start_soon(call, "look")
                    tasks.start_soon(call, "pay")
                await until(lambda: asked)
                go.set()  # this task runs though they wait: else nothing would end the look
            assert sorted(told) == [""] * 10 + ["paused"] * 10
            assert asked == [KEY]


@pytest.mark.parametrize("how", ["is_away", "is_hanging"])
@pytest.mark.parametrize("on_away", ["keep", "close"])
async def test_a_store_that_is_away(
    on_away: Any, how: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """For ten seconds: calls go by what it said last, or everything is closed; said once, and that it is back."""
    monkeypatch.setattr(module, "_EVERY", 0.01)
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    shop, store = Shop(), Shaky()
    with FakeClock() as clock, caplog.at_level(logging.WARNING):
        pipeline = standard(shop.tools, store=store).replace("switchboard", Switchboard(store, on_away))
        async with pipeline:
            await Switchboard(store).pause("pay", by="ann", why="it burns")
            setattr(store, how, True)
            for second in range(10):
                told = [await shop.call(pipeline, tool) for tool in ("pay", "look")]
                closed = on_away == "close" and second > 0
                assert told == (["store_away", "store_away"] if closed else ["paused", ""]) or (
                    closed and told[0] == "paused"
                )
                assert not closed or told[1] == "store_away"
                clock.advance(1)
            await until(lambda: "Switchboard: the store gives no answer" in caplog.text)  # in the thread that looks
            assert caplog.text.count("Switchboard: the store gives no answer") == 1
            setattr(store, how, False)
            if how == "is_away":
                await until(lambda: "Switchboard: the store answers again" in caplog.text)
                await until(lambda: shop.offered() == ["look"])
                assert [await shop.call(pipeline, tool) for tool in ("pay", "look")] == ["paused", ""]


async def test_a_record_that_cannot_be_read_is_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    """What it said last holds, and nobody writes over it: it is of a later release, or damaged."""
    shop, store = Shop(), Memory()
    pipeline, board = standard(shop.tools, store=store), Switchboard(store)
    await board.pause("pay", by="ann", why="it burns")
    for value in (b"", b"[]", b"null", b'{"v": 2, "switches": []}', b'{"v": 1, "switches": [{}]}', b"\xff"):
        await store.write(Change(KEY, value))
        for change in (board.pause("look", by="ann", why="x"), board.resume("pay", by="ann")):
            with pytest.raises(StoreError, match="this release"):
                await change
        assert [await shop.call(pipeline, tool) for tool in ("pay", "look")] == ["paused", ""]
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("secret", [b"", b"key"])
async def test_a_change_is_a_row_of_the_audit(secret: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Who and why, in the same write; with another secret it is said that it is not."""
    shop, store = Shop(), Memory()
    async with standard(shop.tools, store=store).before("resolve", Audit(store, secret=secret)):
        board = Switchboard(store, secret=secret)
        await board.pause("pay", by="ann", why="it burns")
        await board.pause("pay", by="ann", why="it burns")
        await board.resume("pay", by="bob", why="it is out")
        await board.resume("pay", by="bob")
        rows = [row async for row in AuditLog(store, secret).read()]
        told = [(row["event"], row["tool"], row["decisions"][0]["action"], row["decisions"][0]["name"]) for row in rows]
        assert told[0] == ("switched", "pay", "pause", "ann")
        assert told[-1] == ("switched", "pay", "resume", "bob")
        assert rows[-1]["decisions"][0]["why"] == "it is out"
        assert (await AuditLog(store, secret).verify()).faults == ()
        assert "is not in the audit" not in caplog.text
        await Switchboard(store, secret=b"other" if secret else b"x").disable(everything=True, by="eve", why="x")
        assert "is not in the audit, which has another secret" in caplog.text


async def test_a_pipeline_that_closes_lets_go(tmp_path: Path) -> None:
    """Nobody looks any more, so another pipeline over the registry is not closed for good."""
    shop = Shop()
    async with operate(SQLite(tmp_path / "a.db")) as board:
        await board.pause("pay", by="ann", why="it burns")
        pipeline = standard(shop.tools, store=SQLite(tmp_path / "a.db"))
        for _ in range(2):
            async with pipeline:
                assert shop.offered() == ["look"]
                assert await shop.call(pipeline) == "paused"
            assert shop.offered() == ["look", "pay"]
        assert await shop.call(pipeline) == "paused"  # the first call opens it
        await pipeline.aclose()
        assert await shop.call(standard(shop.tools)) == ""


async def test_changes_at_once_are_all_made(make_store: MakeStore) -> None:
    """None is lost between a read and a write."""
    async with operate(make_store()) as board, anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(partial(board.pause, f"t{number}", by="ann", why="x"))
    async with operate(make_store()) as board:
        assert len(await board.list()) == 20


async def test_clocks_that_differ_change_nothing(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a switch is shown, and decides nothing."""
    shop, store = Shop(), make_store()
    async with standard(shop.tools, store=store) as pipeline, operate(store) as board:
        for now in (0.0, 4e9, 1e9):
            monkeypatch.setattr(timing, "wall_time", partial(float, now))
            await board.pause("pay", by="ann", why=str(now), retry_after=5)
            outcome = await pipeline.call("pay", {})
            assert outcome == Failure(Unavailable("pay", "paused", 5))
            assert [each.at for each in await board.list()] == [now]
            await board.resume("pay", by="ann")
            assert await shop.call(pipeline) == ""


def test_the_command_switches(tmp_path: Path) -> None:
    """The verbs of `toolcall switch`, with what they print and their exit codes."""
    path = str(tmp_path / "a.db")

    def run(*given: str) -> tuple[int, str]:
        done = CliRunner().invoke(toolcall, ["switch", path, *given])
        return done.exit_code, done.output

    assert run("list")[0] == 2  # it makes no store

    async def make() -> None:
        async with SQLite(path):
            pass

    anyio.run(make)
    assert run("list") == (0, "nothing is closed\n")
    assert run("pause", "pay", "--by", "ann")[0] == 2
    assert run("pause", "--by", "ann", "--why", "x")[0] == 2
    assert run("pause", "pay", "--all", "--by", "ann", "--why", "x")[0] == 2
    code, text = run("pause", "pay", "--by", "ann", "--why", "it burns", "--retry-after", "60", "--json")
    told = json.loads(text)
    assert (code, told["changed"]) == (0, True)
    assert {**told["standing"][0], "at": 0} == {
        "state": "paused", "tool": "pay", "principal": None, "by": "ann", "why": "it burns", "at": 0, "retry_after": 60,
    }  # fmt: skip
    assert run("disable", "--principal", "acme\x1b[2J", "--by", "bob", "--why", "x")[0] == 0
    assert run("disable", "--all", "--why", "by this user")[0] == 0
    code, text = run("list")
    assert code == 0
    assert [line.split()[0] for line in text.splitlines()[1:]] == ["pay", "acme\\x1b[2J", "everything"]
    assert "it burns" in text
    assert run("enable", "acme", "--by", "ann") == (1, "nothing was to be taken back\n")
    code, text = run("enable", "pay", "--by", "ann")  # it is paused
    assert (code, text.splitlines()[1].split()[:3]) == (1, ["pay", "tool", "paused"])
    assert run("resume", "PAY", "--by", "eve") == (0, "nothing closes it here any more\n")
    assert [each["tool"] for each in json.loads(run("list", "--json")[1])] == [None, None]
