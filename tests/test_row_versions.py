"""Rows of a ledger that another release wrote: older ones are gone on with, and newer ones stop it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolcall_pipeline import Call, SetupError, Success, ToolContext, ToolRegistry, Unavailable
from toolcall_pipeline.middlewares import Ledger, standard
from toolcall_pipeline.once.row_versions import VERSION, read_mark
from toolcall_pipeline.stores import Change, Memory, SQLite, StoreError
from toolcall_pipeline.testing import FakeClock

_ID = "{5cd7413b09a6}"
_DEAD = "6219e9e6-f1e4-4b3e-9f47-28242c65b292|13298|4397662|another host"
_KEY = "01bc920d-bab3-4b9e-9263-fcfa1dae8296"
_AT = 1795932575.5


def _delivery(tool: str, intent: str, known: str, outcome: Any, key: str = "") -> dict[str, Any]:
    begun = {"state": "ended", "owner": _DEAD, "intent": f"i/{_ID}{intent}", "key": key, "tool": tool, "at": _AT}
    return {**begun, "runs": 1, "known": known, "outcome": outcome, "done": _AT}


def _intent(tool: str, delivery: str, key: str = "", **more: Any) -> dict[str, Any]:
    about: dict[str, Any] = {"tool": tool, "principal": "", "conversation": "thread", "at": _AT, "open": {}}
    effect = "keyed" if key else "mutating"
    return {**about, "effect": effect, "lost": {_ID + delivery: [key, "lost", _AT]}, **more}


_LOST = {"e": {"class": "OutcomeUnknown", "fields": {"cause": None, "verify_with": None}}}
# As the release 9ad0777 wrote them: of charge(1, " Bob"), which was answered, and of charge(2, " Bob"), pay(3), wire(4)
# and charge(5), which were lost; the last one had no id. The sixth, charge(6), is the third with a process that died.
ROWS: dict[str, Any] = {
    f"d/{_ID}41aa11aa89145c6e89f8f60c7b67a2bcef58d947": _delivery(
        "charge", "8d00660a92a9060fad7f4884df5b5e41a4714819", "yes", {"v": "old"}
    ),
    f"r/{_ID}8d00660a92a9060fad7f4884df5b5e41a4714819": {
        "id": f"{_ID}41aa11aa89145c6e89f8f60c7b67a2bcef58d947",
        "reply": "",
        "outcome": {"v": "old"},
        "done": _AT,
    },
    f"i/{_ID}b694e735f2186591aee2494f41ed6c591dcbf9e9": _intent("charge", "9ecb5d0172a764890b002c29ed16b61d6a96376f"),
    f"d/{_ID}9ecb5d0172a764890b002c29ed16b61d6a96376f": _delivery(
        "charge", "b694e735f2186591aee2494f41ed6c591dcbf9e9", "lost", _LOST
    ),
    f"i/{_ID}e776cae32752d74e8192ef5e8a8213dea5b2b207": _intent(
        "pay", "2283c977a9f0715379bb80e9d802632d45b8c058", _KEY
    ),
    f"d/{_ID}2283c977a9f0715379bb80e9d802632d45b8c058": _delivery(
        "pay", "e776cae32752d74e8192ef5e8a8213dea5b2b207", "lost", _LOST, _KEY
    ),
    f"i/{_ID}290acdb662148885466570048335d04b975ac90f": _intent("wire", "51f4b9be05bbe0c96d2d2f1e320b365eeca2fefa"),
    f"d/{_ID}51f4b9be05bbe0c96d2d2f1e320b365eeca2fefa": _delivery(
        "wire", "290acdb662148885466570048335d04b975ac90f", "lost", _LOST
    ),
    f"i/{_ID}6026ac8fd476917c3c8bc331be57df2dd9562c91": _intent(
        "charge", "", lost={}, open={f"{_ID}~f02c3f03-8403-481f-b3bd-43c1b7b4818d": [_DEAD, ""]}
    ),
}


class Till:
    """Tools over a store, and what they did."""

    def __init__(self, store: Any, **options: Any) -> None:
        self.done: list[Any] = []
        self.keys: list[str] = []
        tools = ToolRegistry()

        @tools.tool
        async def charge(amount: int, to: str = "Ann") -> str:
            self.done.append((amount, to))
            return "new"

        @tools.tool(effect="keyed", context=True)
        async def pay(context: ToolContext, amount: int) -> str:
            self.keys.append(context.idempotency_key)
            return "new"

        @tools.tool(verify=lambda call, key: True)
        async def wire(amount: int) -> str:
            self.done.append(amount)
            return "new"

        self.ledger = Ledger(store, **options)
        self.pipeline = standard(tools, attempts=1).before("retry", self.ledger)

    async def ask(self, name: str, id_: str, **arguments: Any) -> Any:
        outcome = await self.pipeline(Call(name, arguments, id_, conversation="thread"))
        return outcome.unwrap() if type(outcome) is Success else outcome.failure().kind


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return Memory() if request.param == "memory" else SQLite(tmp_path / "calls.db")


async def fill(store: Any, rows: dict[str, Any]) -> None:
    async with store:
        for key, row in rows.items():
            await store.write(Change(key, row if type(row) is bytes else json.dumps(row).encode(), ttl=3600.0))


async def test_rows_of_the_release_before_are_found(store: Any) -> None:
    """A delivery that was answered or lost does not run again, nor does an equal call of one that is undecided."""
    await fill(store, ROWS)
    till = Till(store)
    async with till.pipeline:
        assert len(await till.ledger.undecided()) == 4
        for _ in range(2):
            assert await till.ask("charge", "done", amount=1, to=" Bob") == "old"
            assert await till.ask("charge", "done", amount="1", to=" Bob") == "old"
            assert await till.ask("charge", "lost", amount=2, to=" Bob") == "outcome_unknown"
            assert await till.ask("charge", "other", amount=2, to="Bob") == "outcome_unknown"
            assert await till.ask("charge", "", amount=5) == "outcome_unknown"
            assert await till.ask("pay", "other" if not till.keys else "keyed", amount=3) in ("outcome_unknown", "new")
            assert await till.ask("pay", "keyed", amount=3) == "new"
        assert till.keys == [_KEY]
        assert await till.ask("pay", "other", amount=3) == "new"
        assert await till.ask("wire", "asked", amount=4) is None
        assert till.done == []
        left = await till.ledger.undecided()
        assert [(each.tool, each.at) for each in left] == [("charge", _AT), ("charge", _AT)]
        assert len(till.keys) == 2


async def test_what_the_release_before_left_can_be_resolved(store: Any) -> None:
    """Once a person has said what became of it, an equal call runs, and its end is kept as any other."""
    await fill(store, ROWS)
    till = Till(store)
    async with till.pipeline:
        for each in await till.ledger.undecided():
            assert await till.ledger.resolve(each.id, landed=False)
        for id_ in ("lost", "lost", "other"):
            assert await till.ask("charge", id_, amount=2, to=" Bob") == "new"
        assert till.done == [(2, " Bob"), (2, " Bob")]
        assert await till.ledger.undecided() == []


async def test_an_old_success_is_not_replayed_to_another_call(store: Any) -> None:
    """The digests of the release before say too little for an answer, so they refuse."""
    await fill(store, ROWS)
    till = Till(store, repeats="replay")
    async with till.pipeline:
        assert await till.ask("charge", "done", amount=1, to=" Bob") == "old"
        assert await till.ask("charge", "later", amount=1, to="Bob") == "outcome_unknown"
        assert await till.ask("charge", "later", amount=11) == "new"
        assert await till.ask("charge", "latest", amount=11) == "new"
        assert till.done == [(11, "Ann")]


async def test_old_rows_are_looked_for_until_none_is_left(tmp_path: Path) -> None:
    """The store is marked once, and looked through once a day while such rows were seen."""
    with FakeClock() as clock:
        store = SQLite(tmp_path / "calls.db")
        await fill(store, ROWS)
        async with store:
            assert await read_mark(store)
            for key in ROWS:
                await store.write(Change(key, None))
            assert await read_mark(store)
            clock.advance(2 * 86400)
            assert not await read_mark(store)
            await store.write(Change(next(iter(ROWS)), json.dumps(ROWS[next(iter(ROWS))]).encode()))
            clock.advance(2 * 86400)
            assert not await read_mark(store)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ({"v/ledger": {"v": 3}}, "a later release"),
        ({"o/a|1|1|another host": b""}, "stop all of them first"),
    ],
)
async def test_a_ledger_does_not_start_beside_another_release(rows: dict[str, Any], why: str, tmp_path: Path) -> None:
    """It says why: it would not read what a later release wrote, and one before would not see what it keeps itself."""
    store = SQLite(tmp_path / "calls.db")
    await fill(store, rows)
    with pytest.raises(SetupError, match=why):
        async with Till(store).pipeline:
            pass
    await fill(store, {"v/ledger": {"v": 2}, "o/a|1|1|another host": b"2"})
    async with Till(store).pipeline:
        pass


async def test_a_row_of_a_later_release_stops_the_ledger(store: Any) -> None:
    """A process that runs while a later release starts begins no call that it wrote, and lists none."""
    till = Till(store)
    async with till.pipeline:
        assert await till.ask("charge", "a", amount=1) == "new"
        async for key, entry in store.scan("d/"):
            await store.write(Change(key, json.dumps({**json.loads(entry.value), "v": 3}).encode()))
            await store.write(Change(f"i/{key[2:]}", json.dumps({"v": 3}).encode()))
        again = (await till.pipeline(Call("charge", {"amount": 1}, "a", conversation="thread"))).failure()
        assert isinstance(again, Unavailable)
        assert "later release" in again.reason
        with pytest.raises(StoreError, match="later release"):
            await till.ledger.undecided()
    assert till.done == [(1, "Ann")]


@pytest.mark.parametrize("old", [None, "i/", "d/", "r/"])
async def test_a_row_is_old_by_its_version_alone(store: Any, old: str | None) -> None:
    """A store is looked through for rows of the release before only where one of its rows has an earlier version."""
    rows = {f"{kind}{_ID}a": {"v": VERSION} for kind in ("i/", "d/", "r/")}
    if old is not None:
        rows[f"{old}{_ID}b"] = {"v": VERSION - 1}
    await fill(store, rows)
    async with store:
        assert await read_mark(store) is (old is not None)
