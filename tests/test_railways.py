"""Railways: stages that are written with `Result`, and chains of calls, on both event loops."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# for the methods of `returns` itself, whose own types hold what pyright calls unknown
from __future__ import annotations

from typing import Any

import pytest
from returns.future import FutureResult
from returns.io import IOFailure, IOSuccess
from returns.iterables import Fold
from returns.pipeline import flow, is_successful
from returns.pointfree import bind
from returns.result import Failure, Result, Success

from toolcall_pipeline import (
    Call,
    Denied,
    Handler,
    Pipeline,
    ResolvedCall,
    SetupError,
    Stack,
    ToolContext,
    ToolError,
    ToolRegistry,
    ValidCall,
    as_result,
    gather,
)
from toolcall_pipeline.middlewares import Resolve, Validate, standard

tools = ToolRegistry()


@tools.tool(effect="read")
async def find(word: str) -> Result[int, ToolError]:
    return Success(len(word)) if word else Failure(Denied("find"))


@tools.tool(effect="read", context=True)
async def load(context: ToolContext, number: int) -> str:
    return f"{context.principal}{'x' * number}"


@pytest.fixture
def pipeline() -> Pipeline:
    return standard(tools)


async def test_calls_in_a_chain(pipeline: Pipeline) -> None:
    """The second call runs with the value of the first, and not at all if that has failed."""
    bound = pipeline.with_(principal="ada:")

    def load_it(number: int) -> FutureResult[str, ToolError]:
        return bound.future(load, number)

    def find_another(_: ToolError) -> FutureResult[int, ToolError]:
        return bound.future(find, "abc")

    assert await bound.future(find, "ab").bind(load_it).map(len) == IOSuccess(6)
    assert await bound.future(find, "").bind(load_it).map(len) == IOFailure(Denied("find"))
    assert await bound.future(find, "").lash(find_another) == IOSuccess(3)
    assert await bound.future("load", {"number": 1}, id="c1") == IOSuccess("ada:x")
    assert await bound.future("load", '{"number": 2}') == IOSuccess("ada:xx")
    assert await flow(bound.future(find, "a"), bind(load_it)) == IOSuccess("ada:x")


def test_a_future_of_something_else_is_refused_at_once(pipeline: Pipeline) -> None:
    """As by `run`: no call is made."""
    wrong: Any = find.fn
    with pytest.raises(SetupError, match="takes a tool"):
        pipeline.future(wrong, "a")


async def test_outcomes_are_results(pipeline: Pipeline) -> None:
    """They fold, bind, and tell whether they are successful."""
    outcomes = await gather(pipeline, [Call("load", {"number": 1}), Call("load", {"number": 2})])
    assert Fold.collect_all(map(as_result, outcomes), Success(())) == Success(("x", "xx"))
    failed = as_result(await pipeline.run(find, ""))
    assert not is_successful(failed)
    assert failed.alt(lambda error: error.kind) == Failure("permission")
    assert failed.lash(lambda _: Success(0)) == Success(0)


async def shout(call: ResolvedCall, call_next: Handler[ResolvedCall]) -> Result[object, ToolError]:
    return as_result(await call_next(call)).map(str).map(str.upper)


def admit(call: ResolvedCall) -> Success[ResolvedCall] | Failure[ToolError]:
    return Success(call) if call.principal else Failure(Denied("admit"))


async def count(call: ValidCall) -> Result[int, ToolError]:
    return Success(len(call.params))


async def test_stages_that_answer_with_a_result(pipeline: Pipeline) -> None:
    """A middleware, a check that answers with the call in a Success, and an end."""
    loud = pipeline.before("retry", shout)
    assert await loud.call("load", {"number": 2}, principal="ada:") == Success("ADA:XX")
    assert await loud.call("find", {"word": ""}) == Failure(Denied("find"))
    stack = Stack().check(Resolve(tools)).check(admit).check(Validate()).end(count)
    assert await stack.call("load", {"number": 2}, principal="ada") == Success(1)
    assert await stack.call("load", {"number": 2}) == Failure(Denied("admit"))
