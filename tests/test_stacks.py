"""Stacks put together: stages as one value, and a pipeline as the end of another one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from returns.result import Success

from toolcall_pipeline import Call, Failure, Outcome, SetupError, Stack, ToolRegistry, Unavailable
from toolcall_pipeline.middlewares import Trace, standard
from toolcall_pipeline.testing import assert_trace, recorded_spans

PAID: list[str] = []


def some_tools() -> ToolRegistry:
    tools = ToolRegistry()

    @tools.tool
    async def pay(to: str) -> str:
        """Pay."""
        PAID.append(to)
        raise ConnectionError

    @tools.tool(effect="read")
    async def look() -> str:
        """Look."""
        return "seen"

    return tools


async def audit(call: Call, call_next: Callable[[Call], Awaitable[Outcome]]) -> Outcome:
    return await call_next(call)


async def twice(call: Call, call_next: Callable[[Call], Awaitable[Outcome]]) -> Outcome:
    await call_next(call)
    return await call_next(call)


def refuse_strangers(call: Call) -> Call | Failure[Unavailable]:
    return call if call.principal else Failure(Unavailable(str(call.name), "quota"))


async def test_stages_that_belong_together() -> None:
    """The stages of a stack that is added stand inside of those before it; it can be added to several."""
    entrance = Stack().check(refuse_strangers).wrap(audit)
    for tools in (some_tools(), some_tools()):
        pipeline = (Stack().observe(Trace()) + entrance).end(standard(tools).without("trace"))
        assert pipeline.stages[:4] == ("trace", "refuse_strangers", "audit", "resolve")
        assert (await pipeline.call("look")).failure().kind == "unavailable"
        assert await pipeline.call("look", principal="ann") == Success("seen")


@pytest.mark.parametrize("outer_trace", [True, False])
async def test_a_pipeline_as_the_end_of_another_one(outer_trace: bool) -> None:
    """There is one trace of one call, and its stages are those of both."""
    with recorded_spans() as recorded:
        trace = Trace(tracer_provider=recorded.tracer_provider)
        outer = Stack().observe(trace) if outer_trace else Stack()
        inner = standard(some_tools()).replace("trace", trace)
        pipeline = outer.wrap(audit).end(inner)
        report = await pipeline.report(Call("look"))
    assert pipeline.stages == ("trace", "audit", *inner.stages[1:])
    assert report.outcome == Success("seen")
    assert_trace(recorded.spans, calls=1, reports=[report])


async def test_effects_are_counted_once() -> None:
    """A mutating body of the inner pipeline begins once, whatever the outer one repeats."""
    PAID.clear()
    tools = some_tools()
    pipeline = Stack().observe(Trace()).wrap(twice).end(standard(tools))
    report = await pipeline.report(Call("pay", {"to": "Ann"}))
    assert report.outcome is not None
    assert report.outcome.failure().kind == "outcome_unknown"
    assert PAID == ["Ann"]


def test_a_stage_that_both_have() -> None:
    """It is refused, with the way out; so is a name for a pipeline."""
    with pytest.raises(
        SetupError, match=r"both pipelines have a stage 'retry': leave one out, as by .without\('retry'"
    ):
        Stack().wrap(audit, name="retry").end(standard(some_tools()))
    with pytest.raises(SetupError, match="takes no name='tools'"):
        Stack().end(standard(some_tools()), name="tools")
