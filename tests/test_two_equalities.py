"""Two equalities at work: what answers, approves or hands on a key is strict, and what refuses is loose."""

from __future__ import annotations

from typing import Any

import pytest

from toolcall_pipeline import Approvals, Call, Failure, Success, ToolContext, ToolFailed, ToolRegistry
from toolcall_pipeline.dialogue import run_turn
from toolcall_pipeline.middlewares import Approve, standard
from toolcall_pipeline.middlewares.ledger import Ledger
from toolcall_pipeline.stores import Memory

RELATIVES = [
    ("abc", "abc\n"),
    ("/data ", "/data"),
    ("caf\u00e9", "cafe\u0301"),
    ("\u00a0x", "x"),
    ("1", "1.0"),
    ("true", "True"),
    ("", " "),
]
pytestmark = pytest.mark.parametrize(("one", "other"), RELATIVES)


class Disk:
    """A tool that writes texts, and may lose its answer."""

    def __init__(self, effect: Any = "mutating") -> None:
        self.written = list[str]()
        self.keys = list[str]()
        self.lose = False
        self.tools = tools = ToolRegistry()

        @tools.tool(effect=effect, context=True)
        async def write(context: ToolContext, text: str) -> int:
            self.written.append(text)
            self.keys.append(context.idempotency_key)
            if self.lose:
                raise ConnectionResetError
            return len(self.written)

        @tools.tool(effect="read")
        async def look(n: int) -> int:
            return n


async def test_an_approval_is_for_the_very_text(one: str, other: str) -> None:
    """What a person approved runs, and a text that differs by a sign that he cannot see is asked for anew."""
    disk, store = Disk(), Memory()
    pipeline = standard(disk.tools, store=store).before("ledger", Approve(store, effects={"mutating"}))
    async with pipeline:
        assert (await pipeline(Call("write", {"text": one}))).failure().kind == "awaiting_approval"
        (asked,) = await Approvals(store).pending()
        await Approvals(store).approve(asked.id, by="ann")
        assert (await pipeline(Call("write", {"text": other}))).failure().kind == "awaiting_approval"
        assert disk.written == []
        assert type(await pipeline(Call("write", {"text": one}))) is Success
    assert disk.written == [one]


async def test_a_turn_runs_what_differs(one: str, other: str) -> None:
    """A later reply that writes another text is no repeat of the one that was written."""
    disk = Disk()

    async def ask(*_: Any) -> list[Call]:
        return [Call("write", {"text": other})]

    bad = Call("look", {"n": "x"}, "open")
    await run_turn(ask, [Call("write", {"text": one}), bad], standard(disk.tools, attempts=1), attempts=2)
    assert disk.written == [one, other]


@pytest.mark.parametrize("store", [False, True])
async def test_an_id_that_comes_again_with_another_text_runs(one: str, other: str, *, store: bool) -> None:
    """It is another delivery; the same one again is answered, where a ledger keeps that."""
    disk = Disk()
    pipeline = standard(disk.tools, store=Memory()) if store else standard(disk.tools)
    async with pipeline:
        for text in (one, other):
            assert type(await pipeline(Call("write", {"text": text}, "a", conversation="c"))) is Success
        if store:
            again = await pipeline(Call("write", {"text": one}, "a", conversation="c"))
            assert again == Success(1)
    assert disk.written == [one, other]


async def test_a_success_is_replayed_to_the_very_text(one: str, other: str) -> None:
    """With ``repeats="replay"`` an equal call of a later reply gets the success, and another text runs."""
    disk = Disk()
    pipeline = standard(disk.tools).before("retry", Ledger(Memory(), repeats="replay"))
    async with pipeline:
        for reply, text in enumerate((one, other, one)):
            await pipeline(Call("write", {"text": text}, conversation="c", reply=str(reply)))
    assert disk.written == [one, other]


@pytest.mark.parametrize("store", [False, True])
async def test_a_lost_key_goes_to_the_very_text(one: str, other: str, *, store: bool) -> None:
    """While one is undecided the same text runs with its key, and what is loosely equal never does."""
    disk = Disk("keyed")
    pipeline = standard(disk.tools, store=Memory(), attempts=1) if store else standard(disk.tools, attempts=1)
    async with pipeline:
        disk.lose = True
        await pipeline(Call("write", {"text": one}, conversation="c"))
        disk.lose = False
        differs = await pipeline(Call("write", {"text": other}, conversation="c"))
        is_loose = one.strip() == other.strip() or not one.isascii()
        assert (type(differs) is Failure and differs.failure().kind == "outcome_unknown") is is_loose
        assert type(await pipeline(Call("write", {"text": one}, conversation="c"))) is Success
    assert disk.keys[0] == disk.keys[-1]
    assert len(set(disk.keys)) == len(set(disk.written))


@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("ends", [ConnectionResetError(), ToolFailed("No.")], ids=["lost", "known"])
async def test_a_doubt_costs_a_refusal(one: str, other: str, *, store: bool, ends: Exception) -> None:
    """While a write is undecided, one that is loosely equal is refused; once it has a known end, it runs."""
    tools, runs = ToolRegistry(), list[str]()

    @tools.tool
    async def write(text: str) -> None:
        runs.append(text)
        raise ends

    pipeline = standard(tools, store=Memory(), attempts=1) if store else standard(tools, attempts=1)
    async with pipeline:
        for text in (one, other):
            await pipeline(Call("write", {"text": text}, conversation="c"))
    is_refused = isinstance(ends, ConnectionResetError) and (one.strip() == other.strip() or not one.isascii())
    assert len(runs) == 2 - is_refused
