"""State of a call: what one stage hands to those inside of it and to the tool, and where it is never seen."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import attrs
import pytest
from returns.result import Failure

import remote_tools
from remote_tools import PLACE
from support import a_call
from toolcall_pipeline import (
    Call,
    Crashed,
    Outcome,
    ResolvedCall,
    SetupError,
    StateKey,
    Success,
    ToolContext,
    ToolRegistry,
    ValidCall,
    gather,
)
from toolcall_pipeline.builtin import install
from toolcall_pipeline.dialogue import run_turn
from toolcall_pipeline.executors import Process
from toolcall_pipeline.middlewares import RateLimit, Retry, Trace, standard
from toolcall_pipeline.testing import no_waiting, recorded_spans

C = TypeVar("C", bound=Call)
Next = Callable[[Any], Awaitable[Outcome]]


@attrs.frozen
class Tenant:
    name: str


TENANT = StateKey[Tenant]("tenant")
COUNT = StateKey[int]("count")
CANARY = "canary-9417"


def authenticate(call: C) -> C:
    return call.with_state(TENANT, Tenant(call.principal.partition("@")[2]))


def some_tools(seen: list[object]) -> ToolRegistry:
    tools = ToolRegistry()

    @tools.tool(effect="read", context=True)
    async def who(context: ToolContext) -> str:
        """Say for which tenant."""
        seen.append(context.attempt)
        if context.attempt == 1:
            raise ConnectionError
        return context.get_state(TENANT).name

    @tools.tool(effect="read", context=True)
    async def ask(context: ToolContext) -> object:
        """Make a call."""
        assert context.caller is not None
        return (await context.caller(Call("who", principal="bob@other"))).unwrap()

    return tools


async def test_a_tenant_reaches_a_limit_a_log_record_and_the_tool(caplog: pytest.LogCaptureFixture) -> None:
    """What the first stage sets, each stage inside of it reads, and the tool in each of its attempts."""

    async def log(call: ValidCall, call_next: Next) -> Outcome:
        logging.getLogger("application").info("%s for %s", call.name, call.get_state(TENANT).name)
        return await call_next(call)

    attempts: list[object] = []
    limit = RateLimit(1, per=60, burst=2, key=lambda call: call.get_state(TENANT).name)
    run = (
        standard(some_tools(attempts)).before("resolve", authenticate).after("validate", limit).after("rate_limit", log)
    )
    with caplog.at_level(logging.INFO, "application"), no_waiting():
        calls = [
            Call("who", principal=f"{name}@{tenant}")
            for name, tenant in (("a", "x"), ("b", "x"), ("c", "x"), ("a", "y"))
        ]
        outcomes = await gather(run, calls, 1)
    assert [outcome.value_or("refused") for outcome in outcomes] == ["x", "x", "refused", "y"]
    assert [record.getMessage() for record in caplog.records if record.name == "application"] == [
        f"who for {tenant}" for tenant in ("x", "x", "y")
    ]
    assert attempts == [1, 2] * 3


async def test_a_call_that_a_tool_makes_passes_the_stages_itself() -> None:
    """It does not inherit the state: the stage sets that of its own principal."""
    run = standard(some_tools([])).before("resolve", authenticate)
    with no_waiting():
        assert await run.call("ask", principal="ann@mine") == Success("other")


@attrs.frozen
class Priced(ValidCall):
    """A phase of somebody's own."""

    cents: int = 0


def test_every_copy_of_a_call_keeps_it_and_no_other_call_gets_it() -> None:
    """Later phases, attempts, copies with other params, and a phase of a user's own; an outer copy is not changed."""
    call = Call("probe").with_state(COUNT, 1)
    tool = a_call().tool
    resolved = call.resolved(tool)
    valid = resolved.validated({})
    own = Priced(**{field.name: getattr(valid, field.name) for field in attrs.fields(ValidCall)}, cents=5)
    copies: list[Call] = [
        resolved, valid, valid.next_attempt(), valid.with_params({"a": 1}), valid.under(None, None),
        call.asked_by("ann"), own, own.under(None, None), own.next_attempt(), own.with_params({}),
        own.with_state(TENANT, Tenant("x")),
    ]  # fmt: skip
    assert [each.get_state(COUNT) for each in copies] == [1] * len(copies)
    inner = call.with_state(COUNT, 2)
    assert (call.get_state(COUNT), inner.get_state(COUNT)) == (1, 2)
    assert own.under(None, None).cents == 5


def test_a_state_that_was_not_set() -> None:
    """The error names the key and says who must set it; a default, None too, takes its place."""
    for holder in (Call("probe"), Call("probe").with_state(COUNT, 1), ToolContext("c1")):
        with pytest.raises(SetupError, match=r"no state 'tenant': a stage outside of here must set it"):
            holder.get_state(TENANT)
        assert holder.get_state(TENANT, None) is None
    bad: Any = "tenant"
    for mistake in (
        lambda: Call("probe").with_state(bad, 1),
        lambda: Call("probe").with_state(COUNT, 1).get_state(bad),
        lambda: Call("probe").get_state(bad),
    ):
        with pytest.raises(SetupError, match="must be a StateKey, not a value of type str"):
            mistake()
    for name in ("", 5):
        with pytest.raises(SetupError, match="StateKey: `name`"):
            StateKey[int](name)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert StateKey[Tenant]("tenant") == TENANT


async def test_a_stage_that_misses_it_crashes_its_call() -> None:
    """A wrong place is a mistake of the developer's: it is logged, and the model does not learn of it."""
    limit = RateLimit(1, key=lambda call: call.get_state(TENANT).name)
    outcome = await standard(some_tools([])).after("validate", limit).call("who")
    error = outcome.failure()
    assert isinstance(error, Crashed)
    assert "no state 'tenant'" in str(error.cause)


async def test_it_is_seen_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """Not in a repr, a comparison, a span, a log record, or the pickle of a report."""

    def set_canary(call: C) -> C:
        return call.with_state(TENANT, Tenant(CANARY)).with_state(StateKey[object](f"key-{CANARY}"), lambda: None)

    plain: list[Any] = [Call("probe"), Call("probe").resolved(a_call().tool)]
    for call in plain:
        assert set_canary(call) == call
        assert CANARY not in repr(set_canary(call))
    with recorded_spans() as recorded, caplog.at_level(logging.DEBUG), no_waiting():
        run = (
            standard(some_tools([]))
            .replace("trace", Trace(tracer_provider=recorded.tracer_provider, content=True))
            .before("resolve", set_canary)
            .replace("retry", Retry(1))
        )
        report = await run.report(set_canary(Call("who")))
        shown = [*recorded.spans]
    assert CANARY.encode() not in pickle.dumps(report)
    assert type(report.outcome) is Failure
    assert CANARY not in repr(report)
    assert CANARY not in "".join(span.to_json() for span in shown)
    assert CANARY not in caplog.text + repr([record.__dict__ for record in caplog.records])
    assert CANARY not in repr(ToolContext("c1", state={TENANT: Tenant(CANARY)}))


async def test_it_travels_to_a_worker_process() -> None:
    """A value that does not pickle stays here: only a tool that asks for it fails."""

    def set_place(call: ResolvedCall) -> ResolvedCall:
        return call.with_state(PLACE, call.principal or (lambda: None)).with_state(
            StateKey[object]("pool"), lambda: None
        )

    run = standard(remote_tools.tools, executor=Process(workers=1), attempts=1).after("resolve", set_place)
    assert await run.call("show_place", principal="Bern") == Success("Bern")
    error = (await run.call("show_place")).failure()
    assert isinstance(error, Crashed)
    assert "the state 'place' did not get to this process: it cannot be pickled" in str(error.cause)


async def test_a_turn_keeps_the_state_of_its_calls() -> None:
    """A call that the model sends again has the state that the caller gave the first one, and what it has itself."""
    tools = ToolRegistry()

    @tools.tool(effect="read", context=True)
    async def books(context: ToolContext, shelf: int) -> list[object]:
        """List the books."""
        return [context.get_state(TENANT).name, context.get_state(COUNT, None), shelf]

    async def model(*_: object) -> list[Call]:
        return [
            Call("books", {"shelf": 1}, "c1"),
            Call("books", {"shelf": 2}, "c2").with_state(COUNT, 7),
            Call("books", {"shelf": 3}, "c3").with_state(TENANT, Tenant("other")),
        ]

    first = Call("books", {"shelf": "?"}, "c1").with_state(TENANT, Tenant("school"))
    turn = await run_turn(model, [first], standard(tools))
    assert [each.outcome for each in turn.untold] == [
        Success(["school", None, 1]),
        Success(["school", 7, 2]),
        Success(["other", None, 3]),
    ]


async def test_a_turn_keeps_no_state_of_a_stage() -> None:
    """What a stage has set for a call is not there for the stage when the model sends the call again."""
    found: list[object] = []

    def approve(call: C) -> C:
        found.append(call.get_state(COUNT, None))
        return call.with_state(COUNT, 1)

    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def look(shelf: int) -> int:
        """Look."""
        return shelf

    async def model(*_: object) -> list[Call]:
        return [Call("look", {"shelf": 1})]

    turn = await run_turn(model, [Call("look", {})], standard(tools).after("resolve", approve))
    assert turn.outcomes == (Success(1),)
    assert found == [None, None]


async def test_a_batch_hands_no_state_on() -> None:
    """What was approved for a batch is not approved for the calls in it: each passes the stages by itself."""
    found: dict[str, object] = {}

    def approve(call: C) -> C:
        found[call.name] = call.get_state(COUNT, None)
        return call.with_state(COUNT, 1) if call.name == "batch" else call

    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def look() -> None:
        """Look."""

    pipeline = standard(tools).after("resolve", approve)
    install(tools, pipeline)
    outcome = await pipeline(Call("batch", {"calls": [{"tool": "look"}]}).with_state(TENANT, Tenant("school")))
    assert type(outcome) is Success
    assert found == {"batch": None, "look": None}
