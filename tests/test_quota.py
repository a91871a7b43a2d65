"""Quota and DryRun: bounds on what a conversation may use, and plans in place of calls."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import anyio
import attrs
import pytest
from pydantic import SecretStr
from returns.result import Failure, Success

from limit_cases import DONE
from support import a_call
from toolcall_pipeline import Outcome, ToolRegistry, Unavailable, render
from toolcall_pipeline.middlewares import DryRun, Quota, standard
from toolcall_pipeline.stores import Memory
from toolcall_pipeline.testing import FakeClock, assert_failure, check_stage, script


async def run(quota: Quota, outcome: Outcome = DONE, fields: Mapping[str, Any] | None = None) -> Outcome:
    return await quota(a_call(**(fields or {})), script(outcome))


async def test_a_hundred_calls_at_once_do_not_pass_it() -> None:
    """The cost is reserved before a call runs."""
    quota = Quota(10)
    outcomes: list[Outcome] = []

    async def call() -> None:
        outcomes.append(await run(quota))

    async with anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(call)
    assert outcomes.count(DONE) == 10
    assert outcomes.count(Failure(Unavailable("probe", "quota"))) == 90


PER: dict[str, tuple[dict[str, str], dict[str, str]]] = {  # a call with the same quota, and one with another
    "conversation": ({"reply": "r2"}, {"conversation": "c2"}),
    "principal": ({"conversation": "c2"}, {"principal": "p2"}),
    "tool": ({"conversation": "c2"}, {"principal": "p2"}),
    "turn": ({"id": "2"}, {"reply": "r2"}),
}


@pytest.mark.parametrize("per", PER)
async def test_each_has_a_quota_of_its_own(per: Any) -> None:
    """What `per` names shares a quota, and nothing else."""
    quota = Quota(1, per=per)
    first = {"principal": "p", "conversation": "c", "reply": "r"}
    same, other = PER[per]
    assert await run(quota, fields=first) == DONE
    assert isinstance(await run(quota, fields={**first, **same}), Failure)
    assert await run(quota, fields={**first, **other}) == DONE


async def test_a_window_gives_it_back() -> None:
    """The refusal says when; then the whole quota is there."""
    with FakeClock() as clock:
        quota = Quota(2, window=60)
        assert [await run(quota), await run(quota)] == [DONE] * 2
        clock.advance(20)
        assert await run(quota) == Failure(Unavailable("probe", "quota", 40.0))
        clock.advance(40)
        assert await run(quota) == DONE


TOLD: dict[str, tuple[Quota, dict[str, str], str]] = {  # by stage and call
    "tool": (Quota(1, per="tool"), {}, "The quota of this tool is used up. Do not call it again."),
    "principal": (
        Quota(1, per="principal"),
        {"principal": "p"},
        "The quota of tool calls is used up, and this tool counts in it. Do not call it again.",
    ),
    "conversation": (
        Quota(1),
        {"conversation": "c"},
        "The quota of this conversation is used up, and this tool counts in it. Do not call it again.",
    ),
    "conversation, in a window": (
        Quota(1, window=60),
        {"conversation": "c"},
        "The quota of this conversation is used up, and this tool counts in it. Try again in 60 seconds.",
    ),
    "no conversation": (
        Quota(1),
        {"principal": "p"},
        "The quota of tool calls is used up, and this tool counts in it. Do not call it again.",
    ),
    "turn": (
        Quota(1, per="turn"),
        {"reply": "r"},
        "The quota of this reply is used up, and this tool counts in it. Try again in your next reply.",
    ),
    "no turn": (
        Quota(1, per="turn", window=60),
        {"conversation": "c"},
        "The quota of this conversation is used up, and this tool counts in it. Try again in 60 seconds.",
    ),
}


@pytest.mark.parametrize("case", TOLD)
async def test_the_model_is_told_whose_quota_it_is_and_whether_it_comes_back(case: str) -> None:
    """No text invites a call that cannot succeed, nor blames a tool for the calls of another one."""
    stage, fields, told = TOLD[case]
    quota = attrs.evolve(stage)
    with FakeClock():
        assert await run(quota, fields=fields) == DONE
        refused = await run(quota, fields=fields)
    assert isinstance(refused, Failure)
    assert render(refused) == f"Error: {told}"
    assert render(refused, profile="rfc015") == f"Error executing tool 'probe': {told}"
    assert render(refused, profile="agentopia") == f"Question: How would you like me to go on? {told}"
    assert render(refused, profile="llmproc") == "This tool is not available"
    assert told in render(refused, profile="structured")
    assert render(pickle.loads(pickle.dumps(refused))) == f"Error: {told}"


async def test_a_cost_is_settled_by_the_outcome() -> None:
    """Reserved is what the function says of the call, and charged is what it says of the outcome."""
    quota = Quota(10, cost=lambda _, outcome: 5 if outcome is None else 2)
    assert [type(await run(quota)) for _ in range(5)] == [Success] * 3 + [Failure] * 2
    quota = Quota(1)
    for _ in range(3):
        assert isinstance(await run(quota, Failure(Unavailable("probe", "busy"))), Failure)  # did not run: free
    assert await run(quota) == DONE


async def test_workers_share_it() -> None:
    """Quotas with equal options in one store are one."""
    store = Memory()
    assert await run(Quota(1, store=store)) == DONE
    assert isinstance(await run(Quota(1, store=store)), Failure)
    assert await run(Quota(1, store=store, share_as="apart")) == DONE


def test_it_keeps_the_rules_of_a_stage() -> None:
    """As any stage."""
    check_stage(Quota(100))


async def test_a_dry_run_says_what_would_run() -> None:
    """No body runs; the answer has the tool and the repaired arguments, and no secret."""
    tools = ToolRegistry()

    @tools.tool
    def pay(to: str, cents: int) -> None:
        raise AssertionError

    @tools.tool
    def log_in(token: SecretStr) -> None:
        raise AssertionError

    pipeline = standard(tools).after("validate", DryRun())
    outcome = await pipeline.call("pay", {"to": "Ann", "cents": "5"})
    assert_failure(outcome, kind="not_executed")
    assert 'pay would run with {"to": "Ann", "cents": 5}' in render(outcome)
    assert_failure(await pipeline.call("pay", {"to": "Ann"}), kind="validation")
    secret = await pipeline.call("log_in", {"token": "hunter2"})
    assert "log_in would run" in render(secret)
    assert "hunter2" not in render(secret) + repr(secret)
