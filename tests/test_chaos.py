"""Chaos: what becomes of calls whose tools are slow, failing, cut off, or lose their answers."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any
from uuid import uuid4

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_pipeline import Effect, Pipeline, SetupError, Success, ToolRegistry, is_failure
from toolcall_pipeline.middlewares import Ledger, standard
from toolcall_pipeline.stores import Memory
from toolcall_pipeline.testing import Chaos, FakeClock, check_stage, no_waiting


class Shop:
    """A tool of one effect, with a count of the runs of its body for each order."""

    def __init__(self, chaos: Chaos, effect: Effect = "mutating", **options: Any) -> None:
        self.runs: Counter[int] = Counter()
        tools = ToolRegistry()

        @tools.tool(effect=effect)
        async def order(number: int) -> dict[str, int]:
            """Order."""
            self.runs[number] += 1
            await anyio.lowlevel.checkpoint()
            return {"number": number}

        self.run: Pipeline = standard(tools, **options).before("execute", chaos)

    async def order(self, number: int, conversation: str = "") -> Any:
        return await self.run.with_(conversation=conversation).call("order", {"number": number}, id=f"c{number}")


@pytest.mark.parametrize("fault", ["lost", "cut_off"])
@pytest.mark.parametrize("ledger", [False, True])
@pytest.mark.parametrize("conversation", ["", "talk"])
async def test_a_lost_change_is_unknown_and_runs_once(fault: str, ledger: bool, conversation: str) -> None:
    """Whatever stands around it: nobody may take it for a failure, and nothing runs it again."""
    options: Any = {fault: 1.0}
    chaos = Chaos(**options)
    shop = Shop(chaos)
    if ledger:
        shop.run = shop.run.before("retry", Ledger(Memory()))
    async with shop.run:
        outcome = await shop.order(1, conversation)
    assert outcome.failure().kind == "outcome_unknown"
    assert shop.runs == {1: 1}
    assert [(each.tool, each.call_id, each.fault) for each in chaos.injected] == [("order", "c1", fault)]


@pytest.mark.parametrize("effect", ["read", "idempotent", "mutating"])
async def test_an_error_before_the_tool_is_repeated(effect: Effect) -> None:
    """Nothing began, so that a change may be tried again too."""
    numbers = iter([0.9, 0.0, 0.9, 0.9])
    shop = Shop(Chaos(error=0.5, dice=lambda: next(numbers)), effect)
    with no_waiting():
        assert await shop.order(1) == Success({"number": 1})
    assert shop.runs == {1: 1}


async def test_a_read_whose_answer_is_lost_is_read_again() -> None:
    """A read may run twice."""
    numbers = iter([0.9, 0.0, 0.9, 0.9])
    shop = Shop(Chaos(lost=0.5, dice=lambda: next(numbers)), "read")
    with no_waiting():
        assert await shop.order(1) == Success({"number": 1})
    assert shop.runs == {1: 2}


async def test_a_corrupt_answer_is_cut() -> None:
    """It still counts as an answer: the tool has run, once."""
    numbers = iter([0.9, 0.0, 0.5])
    shop = Shop(Chaos(corrupt=1.0, dice=lambda: next(numbers)))
    assert await shop.order(1) == Success('{"numb')
    assert shop.runs == {1: 1}


async def test_a_slow_tool_reaches_its_limit() -> None:
    """The delay is on the clock of the pipeline, and the limit of the tool counts it."""
    shop = Shop(Chaos(slow=1.0, delay=31.0), timeout=30, attempts=1)
    with FakeClock() as clock:
        outcome = await shop.order(1)
    assert outcome.failure().kind == "timeout"
    assert shop.runs == {}
    assert clock.slept == [31.0]


async def test_faults_are_of_the_tools_that_are_named() -> None:
    """All others run as ever, and a name that no tool has is refused."""
    assert await Shop(Chaos(error=1.0, tools=[])).order(1) == Success({"number": 1})
    assert is_failure(await Shop(Chaos(error=1.0, tools=["order"]), attempts=1).order(1))
    with pytest.raises(SetupError, match="did you mean 'order'"):
        Shop(Chaos(tools=["ordr"]))


@given(seed=st.integers(), error=st.floats(0, 0.3), cut_off=st.floats(0, 0.2), lost=st.floats(0, 0.3))
def test_no_chance_runs_a_change_twice(seed: int, error: float, cut_off: float, lost: float) -> None:
    """One seed makes the same faults again; each order ran as often as its outcome says."""

    async def play() -> tuple[list[str], list[Any]]:
        chaos = Chaos(error=error, cut_off=cut_off, lost=lost, corrupt=0.2, slow=0.2, seed=seed)
        shop, talk = Shop(chaos), uuid4().hex  # a lost call is remembered in its conversation
        ends: list[str] = []
        with no_waiting():
            for number in range(20):
                outcome = await shop.order(number, talk)
                kind = outcome.failure().kind if is_failure(outcome) else "success"
                ends.append(kind)
                assert shop.runs[number] in {"success": [1], "outcome_unknown": [0, 1], "transient": [0]}[kind]
        return ends, chaos.injected

    assert anyio.run(play) == anyio.run(play)


@pytest.mark.parametrize(
    "options",
    [
        {"error": 1.1},
        {"lost": -0.1},
        {"error": 0.6, "lost": 0.5},
        {"delay": -1},
        {"slow": "often"},
        {"dice": 0.5},
        {"dice": random.Random(1).random, "seed": 1},
        {"seed": [7]},
        {"make_error": 5},
        {"tools": "order"},
    ],
    ids=" ".join,
)
def test_what_cannot_be_is_refused_at_once(options: Any) -> None:
    """Probabilities that are none, or more than all, and both a seed and dice."""
    with pytest.raises(SetupError):
        Chaos(**options)


def test_it_is_a_stage_like_any_other() -> None:
    """Without faults it keeps the rules of `check_stage`."""
    check_stage(Chaos())


@pytest.mark.parametrize("before", ["retry", "classify"])
def test_it_stands_right_around_the_tool(before: str) -> None:
    """Further out, its faults would be no tool's."""
    with pytest.raises(SetupError, match="chaos must stand inside of"):
        standard(ToolRegistry()).before(before, Chaos())
