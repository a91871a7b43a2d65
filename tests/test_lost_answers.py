"""The first answer to a lost call: told as lost, or as what ``verify=`` finds out in the call itself."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import pytest

from support import PATIENT
from toolcall_pipeline import (
    Call,
    Failure,
    NotExecuted,
    OutcomeUnknown,
    SetupError,
    Success,
    ToolContext,
    ToolFailed,
    ToolRegistry,
    Transient,
    Unavailable,
)
from toolcall_pipeline.messages import render
from toolcall_pipeline.middlewares import Ledger, Quota, standard

LOST: dict[str, Any] = {
    "a lost connection": ConnectionResetError(),
    "a time-out of its own": TimeoutError(),
    "told as unavailable": ToolFailed("down", kind="unavailable"),
    "told as transient": ToolFailed("down", kind="transient"),
    "answered as unavailable": Failure(Unavailable("pay", "down")),
    "answered as transient": Failure(Transient()),
}
KNOWN: dict[str, Any] = {
    "told as unavailable, and nothing done": ToolFailed("down", kind="unavailable", landed=False),
    "told as unavailable, and done": ToolFailed("down", kind="unavailable", landed=True),
    "answered as transient, and done": Failure(Transient(landed="yes")),
    "answered as not executed": Failure(NotExecuted("later")),
    "told as an error": ToolFailed("no"),
}
WHERE = ["no conversation", "a conversation", "a ledger"]


class Till:
    """A tool that changes something and ends as it is told, and what ``verify=`` was asked."""

    def __init__(self, end: Any, where: str, verdict: Any = "none", patience: float = 0.01, **options: Any) -> None:
        self.end, self.verdict, self.is_asked = end, verdict, anyio.Event()
        self.runs, self.asked = 0, list[Any]()
        self.conversation = "" if where == "no conversation" else "c"
        tools = ToolRegistry()

        async def verify(call: Any, key: str) -> Any:
            self.asked.append(dict(call.params))
            self.is_asked.set()
            if isinstance(self.verdict, Exception):
                raise self.verdict
            if self.verdict == "hangs":
                await anyio.sleep_forever()
            return self.verdict

        @tools.tool(verify=None if verdict == "none" else verify, verify_timeout=patience)
        async def pay(n: int) -> str:
            self.runs += 1
            if isinstance(self.end, BaseException):
                raise self.end
            return self.end if self.end is not None else "paid"

        self.pipeline = standard(tools, attempts=3, **options)
        if where == "a ledger":
            self.pipeline = self.pipeline.before("retry", Ledger())

    async def ask(self, id_: str) -> Any:
        outcome = await self.pipeline(Call("pay", {"n": 7}, id_, conversation=self.conversation))
        return outcome.unwrap() if type(outcome) is Success else outcome.failure()


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("end", LOST.values(), ids=LOST)
async def test_what_is_undecided_is_told_so_in_the_first_answer(end: Any, where: str) -> None:
    """A kind that does not say what became of the effect is told as what it is: the call may have taken effect."""
    till = Till(end, where)
    assert isinstance(await till.ask("a"), OutcomeUnknown)
    assert till.runs == 1
    till.end = None
    again = await till.ask("b")
    assert (again == "paid") if where == "no conversation" else isinstance(again, OutcomeUnknown)


@pytest.mark.parametrize("where", WHERE[1:])
@pytest.mark.parametrize("end", [FileNotFoundError(), PermissionError()], ids=repr)
async def test_an_exception_that_says_what_was_wrong_is_told_with_the_advice_to_check(
    end: Exception, where: str
) -> None:
    """The model reads in the first answer what it would be refused for in the next: some of it may have happened."""
    till = Till(end, where)
    told = await till.ask("a")
    assert "may have taken effect in part" in render(Failure(told))
    assert isinstance(await till.ask("b"), OutcomeUnknown)
    assert till.runs == 1


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("end", KNOWN.values(), ids=KNOWN)
async def test_a_known_end_leaves_nothing(end: Any, where: str) -> None:
    """An equal call runs after it."""
    till = Till(end, where, True)
    assert await till.ask("a") != "paid"
    till.end = None
    assert await till.ask("b") == "paid"
    assert (till.runs, till.asked) == (2, [])


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("end", [*LOST.values(), ValueError(), FileNotFoundError()], ids=[*LOST, "a bug", "not found"])
@pytest.mark.parametrize("verdict", [True, Success("found")], ids=str)
async def test_what_verify_finds_is_the_answer(verdict: Any, end: Any, where: str) -> None:
    """It is asked once, with the params of the lost call, and what it finds leaves nothing undecided."""
    till = Till(end, where, verdict)
    assert await till.ask("a") == (None if verdict is True else "found")
    till.end = None
    assert await till.ask("b") == "paid"
    assert (till.runs, till.asked) == (2, [{"n": 7}])


@pytest.mark.parametrize(("verdict", "told"), [(True, None), (Success("found"), "found"), (False, "paid")], ids=str)
async def test_verify_is_asked_once_for_a_delivery_that_is_looked_up_ahead_of_a_limit(verdict: Any, told: Any) -> None:
    """What it finds is written by the look-up, which takes nothing from the limit."""
    till = Till(ConnectionResetError(), "a ledger", None)
    till.pipeline = till.pipeline.before("ledger", Quota(2, per="conversation"))
    assert isinstance(await till.ask("a"), OutcomeUnknown)
    till.end, till.verdict = None, verdict
    assert await till.ask("a") == told
    assert len(till.asked) == 2  # in the lost call itself, and for the delivery that came again
    assert [await till.ask("a") for _ in range(3)] == [told] * 3
    assert len(till.asked) == 2


@pytest.mark.parametrize("where", WHERE[1:])
@pytest.mark.parametrize("end", [ConnectionResetError(), FileNotFoundError()], ids=repr)
async def test_a_lost_call_that_is_cancelled_while_verify_is_asked_stays_lost(end: Exception, where: str) -> None:
    """Nobody has heard what became of it, so an equal call does not run."""
    till = Till(end, where, "hangs", PATIENT)
    async with anyio.create_task_group() as group:
        group.start_soon(till.ask, "a")
        await till.is_asked.wait()
        group.cancel_scope.cancel()
    till.end = till.verdict = None
    assert isinstance(await till.ask("b"), OutcomeUnknown)
    assert till.runs == 1


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("end", [*LOST.values(), ValueError(), FileNotFoundError()], ids=[*LOST, "a bug", "not found"])
async def test_what_verify_denies_did_not_happen(end: Any, where: str) -> None:
    """The failure is told as what it is, without a body of its own, and an equal call runs."""
    till = Till(end, where, False)
    told = await till.ask("a")
    assert not isinstance(told, OutcomeUnknown)
    assert getattr(told, "landed", "no") != "yes"
    till.end = None
    assert await till.ask("b") == "paid"
    assert (till.runs, till.asked) == (2, [{"n": 7}])


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("verdict", [None, "nonsense", "hangs", ValueError()], ids=str)
async def test_what_verify_cannot_tell_is_told_as_lost(verdict: Any, where: str) -> None:
    """It has its own time; without an answer the call is lost, and it is asked again before an equal one."""
    till = Till(ConnectionResetError(), where, verdict)
    assert isinstance(await till.ask("a"), OutcomeUnknown)
    assert len(till.asked) == 1
    if where != "no conversation":
        assert isinstance(await till.ask("b"), OutcomeUnknown)
        assert (till.runs, len(till.asked)) == (1, 2)
        till.verdict = False
        till.end = None
        assert await till.ask("c") == "paid"


@pytest.mark.parametrize(("verdict", "kind"), [(True, "ok"), (False, "outcome_unknown"), (None, "outcome_unknown")])
async def test_a_body_that_may_still_run_may_land_yet(verdict: Any, kind: str) -> None:
    """Only that it took effect counts while it does."""
    go, tools = threading.Event(), ToolRegistry()

    @tools.tool(verify=lambda call, key: verdict)
    def pay(n: int) -> None:
        go.wait(20)

    pipeline = standard(tools, timeout=0.05)
    try:
        outcome = await pipeline(Call("pay", {"n": 7}))
    finally:
        go.set()
    assert ("ok" if type(outcome) is Success else outcome.failure().kind) == kind


async def test_a_call_that_is_out_of_time_is_asked_about() -> None:
    """The time of the call ends its body, and not the question what became of it."""
    tools = ToolRegistry()

    @tools.tool(verify=lambda call, key: True)
    async def pay(n: int) -> None:
        await anyio.sleep_forever()

    pipeline = standard(tools)
    for _ in range(2):
        assert await pipeline(Call("pay", {"n": 7}, conversation="c", timeout=0.01)) == Success(None)


@pytest.mark.parametrize("seconds", [0, -1, "5", None])
def test_the_time_of_verify_is_a_number_of_seconds(seconds: Any) -> None:
    """Another value is refused at set-up."""
    tools = ToolRegistry()
    with pytest.raises(SetupError, match="verify_timeout"):

        @tools.tool(verify=lambda call, key: True, verify_timeout=seconds)
        async def pay(n: int) -> None:
            raise AssertionError


@pytest.mark.parametrize(("effect", "is_told"), [("mutating", True), ("keyed", False), ("idempotent", False)])
async def test_only_what_may_happen_twice_is_to_be_checked(effect: Any, is_told: bool) -> None:
    """A tool that may safely be called again is told to fail without the advice to check first."""
    tools = ToolRegistry()

    @tools.tool(effect=effect, context=True)
    async def act(context: ToolContext) -> None:
        raise FileNotFoundError

    outcome = await standard(tools, attempts=1).call("act", {}, conversation="c")
    assert ("may have taken effect in part" in render(outcome)) is is_told
